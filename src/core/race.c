/* race.c -- see race.h. */
#include "core/race.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 15 };

typedef struct race {
    shingle_plan *plan[SG_RACE_PLANS];
    double us[SG_RACE_PLANS][MOST_ROUNDS];
    int rounds;
} race;

/* A first run touches memory, binds and warms, and does not count.  Candidates stand with the best
 * predicted first, so those that the limit cuts off are the least likely to win. */
static shingle_status warm_up(const sg_problem *problem, const sg_candidate *candidate,
                              const int *index, int *plans, const sg_stopwatch *watch,
                              double end_us, race *r)
{
    for (int i = 0; i < *plans; i++) {
        const sg_candidate *const one = &candidate[index[i]];
        double us = 0;
        SG_TRY(sg_plan_make(problem, one->strategy, &one->knobs, &r->plan[i]));
        SG_TRY(watch->run(watch->context, r->plan[i], &us));
        if (i >= 1 && sg_now_us() > end_us) *plans = i + 1;
    }
    return SHINGLE_OK;
}

static shingle_status run(const sg_problem *problem, const sg_candidate *candidate,
                          const int *index, int *plans, const sg_stopwatch *watch, double seconds,
                          race *r)
{
    const double begin = sg_now_us();
    /* Half of the time: the rounds that count want the other half. */
    SG_TRY(warm_up(problem, candidate, index, plans, watch, begin + seconds * 5e5, r));
    const double one_round = sg_now_us() - begin;
    do { /* in another order each time, as in trial.c */
        int order[SG_RACE_PLANS];
        sg_turns((uint64_t)r->rounds, *plans, order);
        for (int i = 0; i < *plans; i++)
            SG_TRY(watch->run(watch->context, r->plan[order[i]], &r->us[order[i]][r->rounds]));
        r->rounds++;
    } while (r->rounds < MOST_ROUNDS && sg_now_us() - begin + one_round < seconds * 1e6);
    return SHINGLE_OK;
}

shingle_status sg_race(const sg_problem *problem, const sg_candidate *candidate, const int *index,
                       int plans, const sg_stopwatch *watch, double seconds, double *us_out)
{
    SG_ASSERT(plans <= SG_RACE_PLANS);
    race *const r = calloc(1, sizeof *r);
    if (r == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to measure plans");
    int timed = plans;
    const shingle_status status = run(problem, candidate, index, &timed, watch, seconds, r);
    for (int i = 0; i < plans; i++) {
        us_out[i] = 0;
        sg_plan_free(r->plan[i]);
        if (status != SHINGLE_OK || i >= timed) continue;
        us_out[i] = sg_median(r->us[i], r->rounds);
    }
    free(r);
    return status;
}
