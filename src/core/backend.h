/* backend.h -- who carries steps out: a table of functions.
 *
 * Kinds of steps that a backend has no issue[kind] for it cannot do: the planner then drops plans
 * that need them.  There are no capability flags.  Of the other functions every backend has those
 * whose comment says nothing of NULL; what NULL means for the rest stands there.
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
struct sg_record;               /* record.h: who did what when */
struct sg_fill;                 /* data.h: a matrix by what is in it */
typedef struct sg_work sg_work; /* work.h: words and workspace of a rank */

enum { SG_LOCAL_RANKS = 64 }; /* of a process, at most; words have a bit for each */

typedef struct sg_backend_config {
    int ranks;
    int threads; /* 0: cores */
    double timeout_seconds;
    const sg_machine *scale_of; /* NULL: links as fast as memory */
    double scale_rows;
} sg_backend_config;

/* Enqueues run INDEX of RANK on STREAM. */
typedef shingle_status sg_enqueue(void *context, int rank, int index, void *stream);

typedef struct sg_backend {
    const char *name;
    const char *brief; /* one line for `shingle info` */

    shingle_status (*open)(const sg_backend_config *config, void **self_out);
    void (*close)(void *self);

    /* The machine as measured here, or as scaled, for problems of TYPE. */
    shingle_status (*describe)(void *self, sg_type type, sg_machine *machine_out);

    /* Zeroed memory of RANK in an arena that its kind of peers can reach; of REST all ones, if the
     * backend looks at words there to see whether they have come.  recover makes it so again. */
    shingle_status (*alloc)(void *self, int rank, sg_arena_kind arena, size_t bytes,
                            void **memory_out);
    void (*release)(void *self, int rank, void *memory);

    /* Bytes of RANK's memory from and to the host's, not in order with runs.  NULL: it is the
     * host's memory. */
    shingle_status (*write)(void *self, int rank, void *to, const void *from, size_t bytes);
    shingle_status (*read)(void *self, int rank, void *to, const void *from, size_t bytes);

    /* Stores all elements of a dense matrix in RANK's memory; and looks at all of one, saying how
     * many differ in a bit and which is the first (row by row).  The calls wait.  NULL: the host
     * does it, and write and read carry them. */
    shingle_status (*fill)(void *self, int rank, const struct sg_fill *fill, void *matrix);
    shingle_status (*differ)(void *self, int rank, const struct sg_fill *fill, const void *matrix,
                             int64_t *wrong_out, int64_t *first_out);

    /* Can S be carried out as it is?  WHY: if not, what is in the way.  NULL: whatever
     * the slots of its steps do. */
    bool (*accepts)(void *self, const sg_sched *s, sg_text *why);

    /* Do products of S sum k in the one order that does not depend on tiles and rows?  WHY: if not,
     * what else it depends on.  NULL: they do. */
    bool (*keeps_order)(void *self, const sg_sched *s, sg_text *why);

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

    /* Runs of RANK that have not ended. */
    int (*in_flight)(void *self, int rank);

    /* Has RUN enqueue one run of every rank behind a rest, or RUNS > 1 of them back to back, and
     * says by the machine's own clock how long one took on the slowest rank; all ranks start at
     * once, when everything is enqueued.  NULL: runs are timed one by one, by the host's. */
    shingle_status (*time)(void *self, sg_enqueue *run, void *context, int runs, double *us_out);

    /* What reports say of RANK's device.  CLOCKS_ONLY: what differs from moment to moment, quickly.
     * NULL: nothing is known. */
    shingle_status (*facts)(void *self, int rank, bool clocks_only, shingle_device *device_out);

    /* Has RECORD told what all ranks do; with NULL nobody, and the one before is not touched any
     * more.  NULL slot: runs cannot be recorded. */
    void (*record)(void *self, struct sg_record *record);

    /* Drops every run of all ranks and waits, at most SECONDS, until nothing touches their memory.
     * WORK: then resets the words and forgets the failure.  Without WORK the group closes, and
     * every call fails from now on. */
    shingle_status (*recover)(void *self, sg_work *const *work, double seconds);
} sg_backend;

/* All backends, in the order of backends.h (registry.c).  NULL past the end. */
const sg_backend *sg_backend_at(int index);
const sg_backend *sg_backend_find(const char *name);

/* The option that builds in a backend that this build has not; NULL if none has this name. */
const char *sg_backend_option(const char *name);

#endif
