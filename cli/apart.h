/* apart.h -- files of one command that must lie apart: nothing that is read is written over, and of
 * two results none is lost. */
#ifndef CLI_APART_H
#define CLI_APART_H

#include <stdbool.h>

typedef struct apart_file {
    const char *what; /* an option, with its dashes, or a variable */
    const char *path; /* NULL: not given */
    bool by_rank;     /* with %d in PATH each rank has a file of its own */
    bool written;
} apart_file;

/* Do all that are written, which come first, lie apart from each other and from all others?  CLI_OK
 * or, after a message, an exit code. */
int apart_check(const apart_file *file, int files, int ranks);

#endif
