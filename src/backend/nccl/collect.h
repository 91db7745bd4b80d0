/* collect.h -- collectives of a group of ranks, a GPU each, all in this process, by the vendor's
 * library.  Other backends that own streams on these GPUs call it.
 *
 * The library is looked for when the first group opens, so that one binary runs with and without it. */
#ifndef SG_COLLECT_H
#define SG_COLLECT_H

#include "core/sched.h"

typedef struct sg_collect sg_collect;

/* SHINGLE_EUNSUPPORTED and a reason if there is no library. */
shingle_status sg_collect_open(int ranks, const int *device, sg_collect **collect_out);

/* Connects every rank with every other, once, before the first all-to-all.  ROOM: of every rank, device
 * memory for two floats a rank; STREAM: of every rank, where the words travel. */
shingle_status sg_collect_meet(sg_collect *collect, void *const *room, void *const *stream);

/* Lets go of whatever is in flight; takes NULL. */
void sg_collect_close(sg_collect *collect);

/* "NCCL 2.28.9" */
const char *sg_collect_name(const sg_collect *collect);

/* A part of a rank's memory: COUNT elements side by side. */
typedef struct sg_coll_part {
    void *data;
    int64_t count;
} sg_coll_part;

/* Enqueues a collective of rank RANK on STREAM (a cudaStream_t).  PART: one per rank, of an all-to-all
 * two, as in sg_coll; ignored by all-reduce, as SELF is by an all-to-all.  Sums are the library's: in
 * TYPE. */
shingle_status sg_collect_run(sg_collect *collect, int rank, sg_coll_kind kind, sg_type type,
                              sg_coll_part self, const sg_coll_part *part, void *stream);

#endif
