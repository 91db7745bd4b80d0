/* race.c -- see race.h. */
#include "core/race.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_ROUNDS = 15, LEAST_IN_RANGE = 3 };

/* Times that differ by less, relatively, may be the other way round the next time; so may those
 * that differ by less than the second, if the ranges of their rounds meet: of some milliseconds at
 * a GPU's power limit the fastest of three rounds took up to 1.5 % more than another when all were
 * timed again (results/gpu/table_2xh200_v23.json).  Fewer rounds have no range. */
static const double tie = 0.005, tie_in_range = 0.02;

typedef struct runner {
    sg_candidate *candidate;
    shingle_plan *plan;
    double us[MOST_ROUNDS];
} runner;

typedef struct race {
    const sg_stopwatch *watch;
    runner runner[SG_RACE_PLANS];
    int runners, rounds;
    double lost_us; /* by runs that failed, and mending: of no limit */
} race;

static double now_us(const race *r)
{
    return sg_now_us() - r->lost_us;
}

static bool runs(const runner *one)
{
    return one->candidate->declined[0] == '\0';
}

/* ONE's run failed. */
static shingle_status drop_out(const race *r, runner *one, shingle_status status)
{
    char *const why = one->candidate->declined;
    if (status == SHINGLE_EBUG || r->watch->mend == NULL) return status;
    snprintf(why, sizeof one->candidate->declined, "%s", shingle_error());
    SG_TRY(r->watch->mend(r->watch->context));
    int left = 0;
    for (int i = 0; i < r->runners; i++) left += runs(&r->runner[i]);
    const bool baseline = one == r->runner && one->candidate->strategy == sg_strategy_at(0);
    return left == 0 || baseline ? sg_fail(status, "%s: %s", one->candidate->text, why)
                                 : SHINGLE_OK;
}

static shingle_status run_one(race *r, runner *one, double *us_out)
{
    if (!runs(one)) return SHINGLE_OK;
    const double begin = sg_now_us();
    shingle_status status = r->watch->run(r->watch->context, one->plan, us_out);
    if (status == SHINGLE_OK) return SHINGLE_OK;
    status = drop_out(r, one, status);
    r->lost_us += sg_now_us() - begin;
    return status;
}

/* A first run touches memory, binds and warms, and does not count.  Candidates stand with the best
 * predicted first, so those that the limit cuts off are the least likely to win. */
static shingle_status warm_up(race *r, const sg_problem *problem, double end_us)
{
    for (int i = 0; i < r->runners; i++) {
        runner *const one = &r->runner[i];
        double us = 0;
        SG_TRY(sg_plan_make(problem, one->candidate->strategy, &one->candidate->knobs, &one->plan));
        SG_TRY(run_one(r, one, &us));
        if (i >= 1 && now_us(r) > end_us) r->runners = i + 1;
    }
    return SHINGLE_OK;
}

static shingle_status run_race(race *r, const sg_problem *problem, double seconds)
{
    const double begin = now_us(r);
    /* Half of the time: the rounds that count want the other half. */
    SG_TRY(warm_up(r, problem, begin + seconds * 5e5));
    const double one_round = now_us(r) - begin;
    do { /* in another order each time, as in trial.c */
        int order[SG_RACE_PLANS];
        sg_turns((uint64_t)r->rounds, r->runners, order);
        for (int i = 0; i < r->runners; i++) {
            runner *const one = &r->runner[order[i]];
            SG_TRY(run_one(r, one, &one->us[r->rounds]));
        }
        r->rounds++;
    } while (r->rounds < MOST_ROUNDS && now_us(r) - begin + one_round < seconds * 1e6);
    for (int i = 0; i < r->runners; i++) {
        runner *const one = &r->runner[i];
        if (!runs(one)) continue;
        one->candidate->measured_us = sg_median(one->us, r->rounds); /* sorts them */
        const bool ranges = r->rounds >= LEAST_IN_RANGE;
        one->candidate->low_us = ranges ? one->us[r->rounds / 4] : 0;
        one->candidate->high_us = ranges ? one->us[r->rounds - 1 - r->rounds / 4] : INFINITY;
    }
    return SHINGLE_OK;
}

bool sg_race_is_faster(const sg_candidate *one, const sg_candidate *other)
{
    const double most = one->high_us < other->low_us ? tie : tie_in_range;
    return one->measured_us < other->measured_us * (1 - most);
}

shingle_status sg_race(const sg_problem *problem, sg_candidate *candidate, const int *index,
                       int plans, const sg_stopwatch *watch, double seconds)
{
    SG_ASSERT(plans <= SG_RACE_PLANS);
    race *const r = calloc(1, sizeof *r);
    if (r == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to measure plans");
    r->watch = watch;
    r->runners = plans;
    for (int i = 0; i < plans; i++) r->runner[i].candidate = &candidate[index[i]];
    const shingle_status status = run_race(r, problem, seconds);
    for (int i = 0; i < plans; i++) sg_plan_free(r->runner[i].plan);
    free(r);
    return status;
}
