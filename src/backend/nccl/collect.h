/* collect.h -- collectives of a group of ranks, a GPU each, all in this process, by the vendor's
 * library.  Other backends that own streams on these GPUs call it.
 *
 * The library is looked for when the first group opens, so that one binary runs with and without
 * it. */
#ifndef SG_COLLECT_H
#define SG_COLLECT_H

#include "core/sched.h"

typedef struct sg_collect sg_collect;

/* SHINGLE_EUNSUPPORTED and a reason if there is no library.  A call of it that waits has LIMIT_US
 * to come back.  *COLLECT_OUT is there after a failure, too, if it has not. */
shingle_status sg_collect_open(int ranks, const int *device, double limit_us,
                               sg_collect **collect_out);

/* Has a call of the library's not come back?  Until it does, whatever it may use stays.  False of
 * NULL. */
bool sg_collect_hangs(const sg_collect *collect);

/* Connects every rank with every other, once, before the first all-to-all.  ROOM: of every rank,
 * device memory for two floats a rank; STREAM: of every rank, where the words travel. */
shingle_status sg_collect_meet(sg_collect *collect, void *const *room, void *const *stream);

/* When a group has failed and waits: if it waits in windows, which cannot be aborted, those
 * who are missing are represented on STREAM (of every rank), so that all that was enqueued
 * ends.  False: it does not. */
bool sg_collect_attend(sg_collect *collect, void *const *stream);

/* Lets go of whatever is in flight, and of the connections, within LIMIT_US.  False: the library
 * does not. */
bool sg_collect_abort(sg_collect *collect, double limit_us);

/* After either, when nothing is in flight: as it was, but that ranks have to meet again. */
shingle_status sg_collect_renew(sg_collect *collect);

/* Both ends, within LIMIT_US; takes NULL.  False: the library does not let go, and COLLECT
 * stays. */
bool sg_collect_close(sg_collect *collect, double limit_us);

/* "NCCL 2.28.9" */
const char *sg_collect_name(const sg_collect *collect);

/* ---- Windows: memory that the library knows at all ranks, in which it has faster kernels ----- */

/* A block for RANK, not zeroed, of a window with blocks of BYTES at all ranks; the others ask for
 * theirs.  One thread at a time.  NULL: there are no windows here, and any memory does. */
shingle_status sg_collect_get(sg_collect *collect, int rank, size_t bytes, void **memory_out);

/* Gives it back; the window goes with its last block, unless it STAYS for the next one who asks.
 * False: MEMORY is of none.  Of a library that hangs it is kept. */
bool sg_collect_put(sg_collect *collect, int rank, const void *memory, bool stays);

/* ---- Collectives ----------------------------------------------------------------------------- */

/* A part of a rank's memory: COUNT elements side by side. */
typedef struct sg_coll_part {
    void *data;
    int64_t count;
} sg_coll_part;

/* Enqueues a collective of rank RANK on STREAM (a cudaStream_t).  PART: one per rank, of an
 * all-to-all two, as in sg_coll; ignored by all-reduce, as SELF is by an all-to-all.  Sums are the
 * library's: in TYPE.  EVEN: parts are of one size and side by side, here and at all ranks: then it
 * is one call of the library's, which all must make.  CAPTURED: into a graph.  Waits while a window
 * is registered or ranks meet. */
shingle_status sg_collect_run(sg_collect *collect, int rank, sg_coll_kind kind, sg_type type,
                              sg_coll_part self, const sg_coll_part *part, bool even, bool captured,
                              void *stream);

#endif
