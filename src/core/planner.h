/* planner.h -- chooses a plan: for each strategy and knob set it proposes, build and simulate;
 * keep the best, `serial` always among them; if asked, run and time the best few, or ask a rule
 * instead. */
#ifndef SG_PLANNER_H
#define SG_PLANNER_H

#include "core/plan.h"

/* Runs a plan that is only data on the caller's group and stores the slowest rank's time.  Behind a
 * run that failed, MEND makes the group usable for others; NULL: then nobody is chosen. */
typedef struct sg_stopwatch {
    shingle_status (*run)(void *context, const shingle_plan *plan, double *us_out);
    void *context;
    shingle_status (*mend)(void *context);
} sg_stopwatch;

/* What the backend of a group can carry out: kinds of steps, indexed by sg_kind, and of these the
 * schedules that ACCEPTS (unless it is NULL) finds nothing against; WHY then says what. */
typedef struct sg_able {
    bool kind[SG_KINDS];
    bool (*accepts)(void *self, const sg_sched *s, sg_text *why);
    bool (*keeps_order)(void *self, const sg_sched *s, sg_text *why); /* backend.h; NULL: always */
    void *self;
} sg_able;

/* OPTIONS may be NULL.  WATCH may be NULL if they do not ask for measuring.  CAN: what may be
 * chosen; NULL: all. */
shingle_status sg_planner_choose(const sg_problem *problem, const sg_machine *machine,
                                 const shingle_plan_options *options, const sg_stopwatch *watch,
                                 const sg_able *can, shingle_plan **plan_out);

#endif
