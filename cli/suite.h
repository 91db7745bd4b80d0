/* suite.h -- a benchmark's problems: a text file with a problem and, if wanted, a strategy on each
 * line.  What follows a # is a comment. */
#ifndef CLI_SUITE_H
#define CLI_SUITE_H

#include "file.h"

enum { SUITE_RANKS = 64 };

typedef struct suite_line {
    const char *problem;
    const char *strategy; /* "": the planner's choice */
    char type[8];
    int ranks;
    int number; /* of the line in the file */
} suite_line;

typedef struct suite {
    suite_line *line;
    int lines;
    char *text; /* where the lines' words are */
} suite;

/* Reads and checks a file; errors give the line.  Release with suite_free. */
bool suite_read(const char *path, suite *suite_out, char *error);
void suite_free(suite *s);

#endif
