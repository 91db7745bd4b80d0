/* baseline.h -- what the others are compared with: of the plans of the first strategy, which does
 * not overlap, the one that is fastest. */
#ifndef SG_BASELINE_H
#define SG_BASELINE_H

#include "core/plan.h"
#include "core/sim.h"

/* Of the first COUNT candidates those of the first one's strategy stand in front: the fastest by
 * prediction changes places with the first, unless TIE says that they are as fast. */
void sg_baseline_lead(sg_candidate *candidate, int count, double tie);

/* Are the candidates from FIRST on, which were asked for, the same as those in front of them? */
bool sg_baseline_asked(const sg_candidate *candidate, int first, int count);

/* What the fastest of them costs. */
shingle_status sg_baseline_simulate(sg_simulator *simulator, const sg_problem *problem,
                                    const sg_machine *machine, const sg_sim_options *options,
                                    sg_sim_result *result_out);

#endif
