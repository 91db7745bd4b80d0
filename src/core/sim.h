/* sim.h -- prices a plan on a machine: runs the schedules of all ranks with the machine's times
 * instead of data.  This is the small timing model: launches at patch grain in waves, one engine a
 * rank, stores behind the product, collectives as one.  It decodes steps through sched.h alone. */
#ifndef SG_SIM_H
#define SG_SIM_H

#include "core/machine.h"
#include "core/sched.h"

/* Time of the slowest rank in microseconds.  SCHED: sealed schedules of all RANKS ranks. */
shingle_status sg_sim_us(const sg_sched *sched, int ranks, const sg_machine *machine,
                         double *us_out);

#endif
