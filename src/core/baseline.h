/* baseline.h -- what the others are compared with: of the plans of the first strategy, which does
 * not overlap, the one that is fastest. */
#ifndef SG_BASELINE_H
#define SG_BASELINE_H

#include "core/plan.h"
#include "core/sim.h"

/* Of COUNT candidates those of the first one's strategy stand in front.  Which of them is the
 * fastest by prediction, and not just within TIE of an earlier one; 0 if nothing is known. */
int sg_baseline_fastest(const sg_candidate *candidate, int count, double tie);

/* That one changes places with the first. */
void sg_baseline_lead(sg_candidate *candidate, int count, double tie);

/* If the serial plans in front of candidate FIRST are among those that were asked for, from there
 * on, once is enough: they are dropped.  How many are left of COUNT. */
int sg_baseline_once(sg_candidate *candidate, int first, int count);

/* What the fastest of them costs. */
shingle_status sg_baseline_simulate(sg_simulator *simulator, const sg_problem *problem,
                                    const sg_machine *machine, const sg_sim_options *options,
                                    sg_sim_result *result_out);

#endif
