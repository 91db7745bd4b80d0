/* recover.h -- runs of ranks that may have been to shingle_recover (recover.c), and a recovery by
 * one thread. */
#ifndef SG_RECOVER_H
#define SG_RECOVER_H

#include "core/comm.h"

/* As sg_exec_run().  Who has given up waiting for a recovery, and runs again, has not come to that
 * of the next failure, which would drop its runs. */
shingle_status sg_recover_run(sg_bound *bound, const shingle_tensors *tensors, void *stream,
                              unsigned kinds);

/* shingle_recover for all ranks, by a thread that drives them all. */
shingle_status sg_recover_all(const sg_group *group);

#endif
