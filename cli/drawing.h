/* drawing.h -- `--timeline FILE`: what a command collects for it while it works, written at its
 * end. */
#ifndef CLI_DRAWING_H
#define CLI_DRAWING_H

#include <stdbool.h>

#include "args.h"
#include "shingle.h"

enum { DRAWING_MOST = 64 }; /* in one file */

typedef struct drawing_file {
    const char *path; /* NULL: none is wanted */
    shingle_timeline *timeline[DRAWING_MOST];
    int count;
    bool partial; /* what there is is drawn, though something else has failed */
} drawing_file;

/* The option that sets FILE's path. */
args_option drawing_option(drawing_file *file);

/* Before anything runs: can a file of this name be written, and are COUNT timelines not too many?
 * CLI_OK or, after a message, an exit code. */
int drawing_check(const drawing_file *file, int count);

/* Is a file wanted?  Takes NULL. */
bool drawing_wanted(const drawing_file *file);

/* Takes TIMELINE, which may be NULL, over. */
void drawing_take(drawing_file *file, shingle_timeline *timeline);

/* Predicts PLAN on MACHINE and takes it, if a file is wanted. */
int drawing_predict(drawing_file *file, const shingle_plan *plan, const shingle_machine *machine);

/* Writes the file if one is wanted and CODE, so far the command's exit code, says that there is
 * something to write; says so unless QUIET.  Forgets all timelines.  Returns the exit code. */
int drawing_end(drawing_file *file, int code, bool quiet);

#endif
