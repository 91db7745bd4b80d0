/* plan.h -- a plan: problem + strategy{knobs} + hash + how it was chosen.  Plain data until a comm
 * binds it.  Its text is "PROBLEM STRATEGY{KNOBS} #HASH"; parsing rebuilds it. */
#ifndef SG_PLAN_H
#define SG_PLAN_H

#include "core/strategy.h"

/* What the planner thought of one knob set, or of a strategy that declined. */
typedef struct sg_candidate {
    const sg_strategy *strategy;
    sg_knobs knobs;
    char text[96];                    /* strategy{knobs}, or the name if it declined */
    char declined[128];               /* reason, "" if it applies */
    double predicted_us, measured_us; /* 0: not known */
    double low_us, high_us;           /* of the rounds that measured_us is the median of: quartiles,
                                       * of three the least and the most, of fewer 0 and infinity */
} sg_candidate;

struct sg_bound;

struct shingle_plan {
    sg_problem problem;
    const sg_strategy *strategy;
    sg_knobs knobs;
    uint64_t hash; /* of problem, strategy, knobs and the library's version */
    char *text;
    char reason[480];
    sg_candidate *candidate; /* as considered; NULL for a parsed plan */
    int candidates, chosen;
    double predicted_us, measured_us; /* 0: not known */
    shingle_compute compute; /* of a call, what its ranks run; not part of what the plan is */
    void *compute_context;
    struct sg_bound *bound; /* NULL while the plan is only data */
};

/* Makes a plan that is only data.  Takes a copy of PROBLEM.  Release with sg_plan_free. */
shingle_status sg_plan_make(const sg_problem *problem, const sg_strategy *strategy,
                            const sg_knobs *knobs, shingle_plan **plan_out);

/* Adds PLAN, the text of one, in at most SG_PLAN_QUOTED letters: of a longer one the part where it
 * begins to differ from OTHER (NULL: its beginning), and its hash. */
enum { SG_PLAN_QUOTED = 190 };
void sg_plan_quote(const char *plan, const char *other, sg_text *text);

shingle_status sg_plan_parse(const char *text, shingle_plan **plan_out);

/* A plan of its own that says the same, candidates too; not bound. */
shingle_status sg_plan_copy(const shingle_plan *plan, shingle_plan **copy_out);
void sg_plan_free(shingle_plan *plan); /* the data; a bound plan is unbound first (comm.h) */

/* RANK's sealed schedule; S is begun anew and refers to PROBLEM, which must outlive it. */
shingle_status sg_plan_build(const sg_problem *problem, const sg_strategy *strategy,
                             const sg_knobs *knobs, int rank, sg_sched *s);

#endif
