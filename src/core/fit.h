/* fit.h -- finds numbers of a machine file from measured times: least squares of what the simulator
 * says of runs against what they took.  The simulator is the model that plans are priced with, so
 * numbers found with it are those that it needs. */
#ifndef SG_FIT_H
#define SG_FIT_H

#include "core/machine.h"
#include "core/strategy.h"

enum { SG_FIT_NUMBERS = 48 };

/* What was run, and how long the slowest rank took. */
typedef struct sg_fit_run {
    const sg_problem *problem;
    const sg_strategy *strategy;
    sg_knobs knobs;
    double us;
    double predicted_us; /* out: with the machine that was found */
} sg_fit_run;

typedef struct sg_fit_report {
    double error_before, error_after; /* median of |predicted / measured - 1| */
    bool seen[SG_FIT_NUMBERS];        /* some run's time depends on this number */
} sg_fit_report;

/* Moves the numbers NAME[0..NAMES) of MACHINE (names of lines, machine.h) to where all RUNS are
 * predicted best, stays inside what their lines may hold, and takes no longer than UNTIL_US (of
 * sg_now_us).  Errors are relative, single outliers count less, and a number that runs hardly
 * depend on stays near where it was.  What it finds has four figures. */
shingle_status sg_fit(sg_fit_run *run, int runs, const char *const *name, int names,
                      double until_us, sg_machine *machine, sg_fit_report *report_out);

/* Only predicts the runs. */
shingle_status sg_fit_predict(sg_fit_run *run, int runs, const sg_machine *machine);

/* With four figures, and at most six digits behind the point. */
double sg_fit_rounded(double value);

/* Median of |predicted / measured - 1|; 0 without runs. */
double sg_fit_error(const sg_fit_run *run, int runs);

#endif
