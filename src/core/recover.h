/* recover.h -- runs of ranks that may have been to shingle_recover (recover.c). */
#ifndef SG_RECOVER_H
#define SG_RECOVER_H

#include "core/exec.h"

/* As sg_exec_run().  Who has given up waiting for a recovery, and runs again, has not come to that
 * of the next failure, which would drop its runs. */
shingle_status sg_recover_run(sg_bound *bound, const shingle_tensors *tensors, void *stream,
                              unsigned kinds);

#endif
