/* backend.h -- who carries steps out: a table of functions.
 *
 * A slot that is NULL means "cannot": the planner then drops plans that need it.  There are no
 * capability flags.  A group's table may be merged from several backends, slot by slot.
 *
 * One run of one rank is issued by exec.c as
 *
 *     begin, issue[kind] for each step in list order, end
 *
 * and nothing of it allocates or logs.  issue enqueues the step on its lane behind earlier
 * steps of that lane and the steps it names in `after`.
 */
#ifndef SG_BACKEND_H
#define SG_BACKEND_H

#include "core/machine.h"
#include "core/sched.h"

struct sg_bound;                /* exec.h: a plan with addresses, for one rank */
struct sg_run;                  /* run.h: one run of a bound plan */
typedef struct sg_work sg_work; /* work.h: words and workspace of a rank */

typedef struct sg_backend_config {
    int ranks;
    int threads; /* 0: cores */
    double timeout_seconds;
    const sg_machine *scale_of; /* NULL: links as fast as memory */
    double scale_rows;
} sg_backend_config;

typedef struct sg_backend {
    const char *name;
    const char *brief; /* one line for `shingle info` */

    shingle_status (*open)(const sg_backend_config *config, void **self_out);
    void (*close)(void *self);

    /* The machine as measured here, or as scaled, for problems of TYPE. */
    shingle_status (*describe)(void *self, sg_type type, sg_machine *machine_out);

    /* Zeroed memory of RANK in an arena that its kind of peers can reach. */
    shingle_status (*alloc)(void *self, int rank, sg_arena_kind arena, size_t bytes,
                            void **memory_out);
    void (*release)(void *self, int rank, void *memory);

    /* What depends on addresses that do not change from run to run; unbind undoes it, once the
     * rank's runs have ended or failed.  If they do not, bound->backend stays. */
    shingle_status (*bind)(void *self, struct sg_bound *bound);
    void (*unbind)(void *self, struct sg_bound *bound);

    /* RUN is the caller's; what outlives end is copied.  begin may wait, bounded, for room. */
    shingle_status (*begin)(void *self, struct sg_run *run);
    shingle_status (*issue[SG_KINDS])(void *self, struct sg_run *run, int32_t step);
    shingle_status (*end)(void *self, struct sg_run *run);

    /* Waits until every run of RANK has ended, at most SECONDS. */
    shingle_status (*sync)(void *self, int rank, double seconds);

    /* Drops every run of all ranks and waits, at most SECONDS, until nothing touches their memory.
     * WORK: then resets the words and forgets the failure.  NULL: the group closes, and every call
     * fails from now on. */
    shingle_status (*recover)(void *self, sg_work *const *work, double seconds);
} sg_backend;

/* All backends, in the order of backends.h (registry.c).  NULL past the end. */
const sg_backend *sg_backend_at(int index);
const sg_backend *sg_backend_find(const char *name);

#endif
