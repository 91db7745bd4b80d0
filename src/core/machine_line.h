/* machine_line.h -- blanks and numbers in the lines of a machine file (machine.c).
 *
 * Numbers have at most six digits behind the point, so that printing and parsing again gives the
 * same number. */
#ifndef SG_MACHINE_LINE_H
#define SG_MACHINE_LINE_H

#include "core/base.h"

typedef struct sg_machine_reader {
    const char *file;
    const char *at;
    const char *line_start;
    int line;
} sg_machine_reader;

/* What numbers of a line are accepted. */
typedef struct sg_machine_range {
    const char *name;
    bool whole;
    double least, most;
} sg_machine_range;

/* SHINGLE_EINVAL with file, line and column of AT. */
__attribute__((format(printf, 3, 4))) shingle_status
sg_machine_fail_at(const sg_machine_reader *reader, const char *at, const char *format, ...);

bool sg_machine_is_blank(char c);
void sg_machine_skip_blanks(sg_machine_reader *reader);

/* Of the line, or at a comment. */
bool sg_machine_at_end(const sg_machine_reader *reader);

/* Digits with at most six behind a point, which a power of ten such as e-3 may follow unless the
 * number is whole, up to a blank, the end or the letter END. */
shingle_status sg_machine_take_number(sg_machine_reader *reader, const sg_machine_range *of,
                                      char end, double *value_out);

/* VALUE with as few of six digits behind the point as it needs, whatever the locale. */
void sg_machine_print_number(double value, sg_text *text);

#endif
