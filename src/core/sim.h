/* sim.h -- prices a plan on a machine: runs the schedules of all ranks with the machine's times
 * instead of data.  This is the small timing model: launches at patch grain in waves, one engine a
 * rank, stores behind the product, collectives as one (docs/machine.md).  It decodes steps through
 * sched.h and walk.h alone. */
#ifndef SG_SIM_H
#define SG_SIM_H

#include "core/machine.h"
#include "core/sched.h"

/* Time of the slowest rank in microseconds.  SCHED: sealed schedules of all RANKS ranks. */
shingle_status sg_sim_us(const sg_sched *sched, int ranks, const sg_machine *machine,
                         double *us_out);

/* What one lane does from BEGIN to END: a whole step, or some of a launch's visits. */
typedef struct sg_span {
    int rank, lane;
    int32_t step;
    int32_t patch;        /* of a launch, otherwise -1 */
    int32_t tile0, tiles; /* visits of the patch, in its order */
    double begin_us, end_us;
} sg_span;

typedef void (*sg_span_fn)(void *context, const sg_span *span);

/* The same, telling VISITOR of every span as it ends. */
shingle_status sg_sim_spans(const sg_sched *sched, int ranks, const sg_machine *machine,
                            sg_span_fn visitor, void *context, double *us_out);

#endif
