/* tuned_file.h -- tuned plans as a text file, one a line:
 *
 *     SIGNATURE MICROSECONDS PROBLEM STRATEGY{KNOBS} #HASH
 *
 * The signature says what the time was measured on, so that one file serves many machines.  Lines
 * of others, comments and lines that nobody understands are left alone: by reading, which skips
 * them, and by writing, which keeps them. */
#ifndef SG_TUNED_FILE_H
#define SG_TUNED_FILE_H

#include "core/plan.h"

enum { SG_SIGNATURE = 192 };

/* One tuned plan. */
typedef struct sg_tuned_line {
    shingle_plan *plan; /* only data; its measured_us is set */
} sg_tuned_line;

typedef struct sg_tuned_list {
    sg_tuned_line *line;
    int32_t lines, room;
} sg_tuned_list;

void sg_tuned_list_free(sg_tuned_list *list);

/* The entry of the same problem as PLAN gives way to it; takes PLAN on success. */
shingle_status sg_tuned_list_put(sg_tuned_list *list, shingle_plan *plan);

/* Adds the plans of SIGNATURE in file PATH to LIST.  A file that does not exist is an empty one.
 * One line is logged if there were lines of other machines or versions, and one for the first that
 * could not be understood. */
shingle_status sg_tuned_file_read(const char *path, const char *signature, sg_tuned_list *list);

/* May plans be put into file PATH?  SHINGLE_EINVAL if it holds something else: a byte of value 0,
 * or lines of which none is a comment or a plan.  One that is empty or does not exist will do,
 * one that its owner has made read-only will not. */
shingle_status sg_tuned_file_check(const char *path);

/* Puts PLAN (with its measured_us) into file PATH, for the line of the same signature and
 * problem if there is one.  Several processes may do so at once: one waits for the other, at
 * most SG_TUNED_LOCK_SECONDS, and nobody's line is lost.  The file is checked, and replaced as a
 * whole or not at all; behind a link it is the file itself that is locked and replaced. */
enum { SG_TUNED_LOCK_SECONDS = 10 };
shingle_status sg_tuned_file_put(const char *path, const char *signature, const shingle_plan *plan);

/* "BACKEND/PROCESSOR/MACHINE-HASH/rRANKS/VERSION" in letters that need no quoting.  MACHINE names
 * what plans are made for; HASH is of all else that times depend on. */
void sg_tuned_signature(const char *backend, const char *machine, uint64_t hash, int ranks,
                        char *text, size_t room);

#endif
