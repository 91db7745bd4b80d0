/* propose.h -- what a strategy proposes for a machine: for who chooses among plans. */
#ifndef SG_PROPOSE_H
#define SG_PROPOSE_H

#include "core/strategy.h"

/* STRATEGY's proposals with the tile shapes of MACHINE ordered for PROBLEM: first the one whose
 * waves of tiles take least, since a last wave that is nearly empty costs as much as a full one.
 * Some strategies look at the first few alone.  What is proposed twice is there once. */
int sg_strategy_propose(const sg_strategy *strategy, const sg_problem *problem,
                        const sg_machine *machine, sg_knobs *sets, sg_text *why);

/* The same without the first SKIPPED of these tile shapes, of which MACHINE has more: for who
 * cannot carry out what was proposed in them. */
int sg_strategy_propose_next(const sg_strategy *strategy, const sg_problem *problem,
                             const sg_machine *machine, int skipped, sg_knobs *sets, sg_text *why);

/* Can all proposals for PROBLEM be priced in little time?  Otherwise, with many ranks or tiles, one
 * of them takes seconds, and the first one of each strategy has to do. */
bool sg_strategy_is_quick(const sg_problem *problem, const sg_machine *machine);

#endif
