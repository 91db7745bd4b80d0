/* chooser.h -- the candidates of a planner, for planner.c alone: which there are, which of them can
 * be carried out, and what each is predicted to take. */
#ifndef SG_CHOOSER_H
#define SG_CHOOSER_H

#include "core/check.h"
#include "core/choose_static.h"
#include "core/planner.h"
#include "core/sim.h"

typedef struct sg_chooser {
    const sg_problem *problem;
    const sg_machine *machine;
    const sg_able *can;
    sg_candidate *candidate;
    sg_static_look *look; /* of each candidate; for the static rule alone */
    int32_t candidates, room;
    int serial; /* index of the plan that does not overlap */
    sg_simulator *simulator;
    sg_sched *sched; /* of all ranks, where something beside the simulator reads them */
    sg_checker *checker;
    bool proves;       /* all that is priced */
    bool reproducible; /* what is summed in another order is declined */
    bool by_hand;      /* the user gave knobs */
    bool refused;      /* of the strategy at hand, the backend has refused a schedule as it is */
    char rule[96];     /* what the static rule found */
} sg_chooser;

/* C has its problem and machine, and what is asked of plans.  Closing frees all that it has. */
shingle_status sg_chooser_open(sg_chooser *c);
void sg_chooser_close(sg_chooser *c);

/* ---- Candidates ------------------------------------------------------------------------------ */

/* Appends all knob sets that STRATEGY proposes without the first SKIPPED tiles, or its reason for
 * none. */
shingle_status sg_chooser_propose(sg_chooser *c, const sg_strategy *strategy, int skipped);

/* Appends what TEXT names, "name" or "name{knobs}".  A name stands for all its proposals, and it is
 * an error if there are none; knobs that are not named are taken from the first proposal. */
shingle_status sg_chooser_force(sg_chooser *c, const char *text);

/* Has nothing been found against it? */
static inline bool sg_candidate_applies(const sg_candidate *candidate)
{
    return candidate->declined[0] == '\0';
}

/* ---- Prices ---------------------------------------------------------------------------------- */

/* Builds the first RANKS ranks; a candidate that cannot be built or carried out is marked. */
shingle_status sg_chooser_build(sg_chooser *c, int ranks, sg_candidate *candidate);

/* Builds all ranks and marks what must not be chosen, whatever it costs. */
shingle_status sg_chooser_admit(sg_chooser *c, sg_candidate *candidate);

/* STATUS; a schedule that is wrong is the fault of who wrote its strategy, who is to know which. */
shingle_status sg_chooser_blame(const sg_candidate *candidate, shingle_status status);

/* Predicts what a candidate takes, or all that apply, or marks them.  A strategy whose schedules
 * the backend refuses in the tiles that suit the problem best is asked for others. */
shingle_status sg_chooser_price(sg_chooser *c, sg_candidate *candidate);
shingle_status sg_chooser_price_all(sg_chooser *c);

#endif
