/* planner.h -- chooses a plan: for each strategy and knob set it proposes, build all ranks, simulate;
 * keep the best, `serial` always among them; if asked, run and time the best few. */
#ifndef SG_PLANNER_H
#define SG_PLANNER_H

#include "core/plan.h"

/* Runs a plan that is only data on the caller's group and stores the slowest rank's time. */
typedef struct sg_stopwatch {
    shingle_status (*run)(void *context, const shingle_plan *plan, double *us_out);
    void *context;
} sg_stopwatch;

/* OPTIONS and WATCH may be NULL (then nothing is measured).  CAN tells which kinds of steps the
 * backend carries out, indexed by sg_kind; NULL: all. */
shingle_status sg_planner_choose(const sg_problem *problem, const sg_machine *machine,
                                 const shingle_plan_options *options, const sg_stopwatch *watch,
                                 const bool *can, shingle_plan **plan_out);

#endif
