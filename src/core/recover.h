/* recover.h -- runs of ranks that may have been to shingle_recover (recover.c), and a recovery by
 * one thread. */
#ifndef SG_RECOVER_H
#define SG_RECOVER_H

#include "core/comm.h"

/* As sg_exec_run().  Who has given up waiting for a recovery, and runs again, has not come to that
 * of the next failure, which would drop its runs. */
shingle_status sg_recover_run(sg_bound *bound, const shingle_tensors *tensors, void *stream,
                              unsigned kinds);

/* Behind a failure in a group that one thread drives: shingle_recover for all ranks, unless all are
 * at rest and no run has failed.  shingle_error() goes on saying what it says; what is returned is
 * whether the group may be used again. */
shingle_status sg_recover_mend(const sg_group *group);

#endif
