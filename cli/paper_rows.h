/* paper_rows.h -- published figures of overlapping systems, as their authors give them, each with
 * its place.  docs/papers.md says how they are compared. */
#ifndef CLI_PAPER_ROWS_H
#define CLI_PAPER_ROWS_H

#include <stdbool.h>

/* How a figure speaks of several problems. */
typedef enum paper_over { PAPER_ONE, PAPER_MEAN, PAPER_MOST, PAPER_LEAST } paper_over;

typedef enum paper_what {
    PAPER_SPEEDUP, /* time without overlap / time with it */
    PAPER_HIDDEN,  /* (serial - overlapped) / (serial - gemm) */
    PAPER_IDEAL    /* (gemm + coll) / max(gemm, coll) */
} paper_what;

enum { PAPER_PROBLEMS = 16 };

typedef struct paper_row {
    const char *place;   /* figure or table */
    const char *machine; /* in machines/ */
    const char *strategy;
    paper_what what;
    paper_over over;
    char problem[PAPER_PROBLEMS][64]; /* the first empty one ends them */
    double low, high; /* as published; equal if one figure is given, 0: only that it is faster */
    bool second_hand; /* shown, not judged */
} paper_row;

typedef struct paper_list {
    const char *source; /* what is cited */
    const char *note;   /* what the figures are and what is not known of them */
    paper_row *row;     /* release with free */
    int rows;
} paper_list;

/* The figures of NAME, or false if there are none.  INDEX counts names from 0. */
bool paper_rows(const char *name, paper_list *list_out);
const char *paper_name(int index);

#endif
