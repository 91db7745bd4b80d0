/* out.h -- what the program prints: tables and JSON on stdout, messages and progress on stderr. */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "shingle.h"

/* ---- Messages -------------------------------------------------------------------------------- */

/* Names the command that messages come from: "shingle run: ...". */
void out_begin(const char *command);

/* One line on stderr.  Returns CODE, so that a failing command can say `return out_error(...)`. */
int out_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints shingle_error() and returns the exit code of STATUS. */
int out_status(shingle_status status);

/* The exit code of STATUS alone: bad input, or a failure. */
int out_code(shingle_status status);

/* One line on stderr that is overwritten by the next; silent unless stderr is a terminal. */
void out_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void out_progress_end(void);

/* Prints TEXT; flushes.  Both, as what prints tables and JSON, keep the reason of a failure for
 * out_finish. */
void out_text(const char *text);
void out_flush(void);

/* Flushes stdout.  Returns CODE, or CLI_FAILED and a message if something could not be written. */
int out_finish(int code);

/* ---- Colour ---------------------------------------------------------------------------------- */

typedef enum out_tone { OUT_PLAIN, OUT_HEAD, OUT_GOOD, OUT_BAD, OUT_FAINT } out_tone;

/* Escape sequences round text on stdout; "" unless stdout is a terminal, TERM is not "dumb" and
 * NO_COLOR is not set. */
const char *out_on(out_tone tone);
const char *out_off(void);

/* ---- Tables ---------------------------------------------------------------------------------- */

typedef struct out_table out_table;

/* HEADS is one word per column, separated by spaces and each begun with '<' (left) or '>' (right);
 * an underscore stands for a space: "<strategy >serial_us".  Release with out_table_free. */
out_table *out_table_make(const char *heads);
void out_table_add(out_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The tone of the cell added last. */
void out_table_tone(out_table *table, out_tone tone);
/* A rule across the table, in front of the next row. */
void out_table_rule(out_table *table);
/* The heading begins with PREFIX ("# " or ""), rows with spaces in its place. */
void out_table_print(const out_table *table, const char *prefix);
void out_table_free(out_table *table);

/* Prints a line, broken at spaces where it would pass 100 columns; what follows is at INDENT. */
void out_wrap(int indent, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Numbers and JSON ------------------------------------------------------------------------ */

/* A unit for times that are about US microseconds. */
typedef struct out_unit {
    const char *name; /* "us", "ms", "s" */
    double us;        /* how many microseconds it has */
} out_unit;

out_unit out_unit_for(double us);

/* Adds a cell: a time in UNIT with three to four figures; a share in per cent; a factor.  "-" where
 * the number is not finite (or, for a time, not known: 0). */
void out_table_time(out_table *table, out_unit unit, double us);
void out_table_share(out_table *table, double share);
void out_table_factor(out_table *table, double factor);

/* A JSON number, or null if VALUE is not finite. */
json_t *out_json_real(double value);

/* A JSON string; bytes that are not UTF-8, as a path may have, become "?". */
json_t *out_json_text(const char *text);

/* Prints VALUE on stdout, indented, and releases it.  NULL stands for "memory ran out". */
void out_json(json_t *value);

/* malloc and strdup that end the program with a message when memory is out; release with free. */
void *out_get(size_t bytes);
char *out_copy(const char *text);

#endif
