/* planner.c -- see planner.h.
 *
 * Candidates stand in the order of the list of strategies, and of each strategy's proposals; the
 * first of equals wins, so `serial`, the first strategy, is never beaten by something that is only
 * as fast.  It is the one that does not overlap and serves every problem. */
#include "core/planner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/env.h"
#include "core/sim.h"

enum {
    MOST_ROUNDS = 15,
    MOST_MEASURED = 32,
    FEW_RANKS = 64 /* beyond, a candidate takes seconds: each strategy's first proposal alone */
};

static const double default_measure_seconds = 5;
static const double tie = 1e-6; /* relative; rounding differs between compilers */

typedef struct chooser {
    const sg_problem *problem;
    const sg_machine *machine;
    const sg_able *can;
    sg_candidate *candidate;
    int32_t candidates, room;
    int serial;      /* index of the plan that does not overlap */
    sg_sched *sched; /* of all ranks; used again for each candidate */
    sg_checker *checker;
    bool by_hand; /* the user gave knobs */
} chooser;

/* ---- Candidates ------------------------------------------------------------------------------------- */

static shingle_status add_candidate(chooser *c, const sg_strategy *strategy, const sg_knobs *knobs,
                                    const char *declined)
{
    if (!sg_grow(&c->candidate, &c->room, (int64_t)c->candidates + 1, sizeof *c->candidate))
        return sg_fail(SHINGLE_ENOMEM, "no memory for %d candidates", c->candidates + 1);
    sg_candidate *const candidate = &c->candidate[c->candidates++];
    memset(candidate, 0, sizeof *candidate);
    candidate->strategy = strategy;
    sg_text text = {candidate->text, sizeof candidate->text, 0};
    if (knobs != NULL) {
        candidate->knobs = *knobs;
        sg_strategy_print(strategy, knobs, &text);
    } else {
        sg_text_add(&text, "%s", strategy->name);
        snprintf(candidate->declined, sizeof candidate->declined, "%s",
                 declined[0] != '\0' ? declined : "no reason given");
    }
    return SHINGLE_OK;
}

/* All knob sets that STRATEGY proposes, or its reason for none. */
static shingle_status add_proposals(chooser *c, const sg_strategy *strategy)
{
    sg_knobs sets[SG_MAX_KNOB_SETS];
    char why[128] = "";
    sg_text reason = {why, sizeof why, 0};
    memset(sets, 0, sizeof sets);
    const int count = strategy->propose(c->problem, c->machine, sets, &reason);
    SG_ASSERT(count <= SG_MAX_KNOB_SETS);
    if (count == 0) return add_candidate(c, strategy, NULL, why);
    const int most = c->problem->ranks > FEW_RANKS ? 1 : count;
    for (int i = 0; i < most; i++) SG_TRY(add_candidate(c, strategy, &sets[i], NULL));
    return SHINGLE_OK;
}

/* TEXT is "name" or "name{knobs}".  A name stands for all its proposals, and it is an error if there
 * are none; knobs that are not named are taken from the first proposal. */
static shingle_status add_forced(chooser *c, const char *text)
{
    char name[32] = "";
    const size_t length = strcspn(text, "{");
    if (length < sizeof name) memcpy(name, text, length);
    const sg_strategy *strategy = sg_strategy_find(name);
    sg_knobs sets[SG_MAX_KNOB_SETS];
    char why[128] = "";
    sg_text reason = {why, sizeof why, 0};
    int count = 0;
    memset(sets, 0, sizeof sets);
    if (strategy != NULL) {
        if (!strategy->accepts(c->problem, &reason))
            return sg_fail(SHINGLE_EUNSUPPORTED, "%s does not do this problem: %s", strategy->name,
                           why);
        count = strategy->propose(c->problem, c->machine, sets, &reason);
    }
    sg_knobs knobs;
    bool given = false;
    SG_TRY(sg_strategy_parse(text, &strategy, count > 0 ? &sets[0] : NULL, &knobs, &given));
    c->by_hand = given;
    if (given) return add_candidate(c, strategy, &knobs, NULL);
    if (count == 0)
        return sg_fail(SHINGLE_EUNSUPPORTED, "%s does not do this problem on %s: %s",
                       strategy->name, c->machine->name, why);
    for (int i = 0; i < count; i++) SG_TRY(add_candidate(c, strategy, &sets[i], NULL));
    return SHINGLE_OK;
}

/* ---- Prices ----------------------------------------------------------------------------------------- */

static void decline_kind(sg_candidate *candidate, int kind)
{
    static const char *const names[SG_KINDS] = {"products", "copies", "sums", "collectives",
                                                "flags"};
    snprintf(candidate->declined, sizeof candidate->declined, "the backend does not carry out %s",
             names[kind]);
}

/* Marks a candidate with steps that the backend has no function for, or cannot carry out as they
 * are. */
static bool can_run(const chooser *c, sg_candidate *candidate)
{
    for (int r = 0; c->can != NULL && r < c->problem->ranks; r++) {
        for (int32_t i = 0; i < c->sched[r].steps; i++) {
            const int kind = c->sched[r].step[i].kind;
            if (c->can->kind[kind]) continue;
            decline_kind(candidate, kind);
            return false;
        }
        sg_text why = {candidate->declined, sizeof candidate->declined, 0};
        if (c->can->accepts != NULL && !c->can->accepts(c->can->self, &c->sched[r], &why))
            return false;
    }
    return true;
}

static shingle_status price(chooser *c, sg_candidate *candidate)
{
    for (int r = 0; r < c->problem->ranks; r++) {
        const shingle_status status =
            sg_plan_build(c->problem, candidate->strategy, &candidate->knobs, r, &c->sched[r]);
        if (status == SHINGLE_EUNSUPPORTED) { /* extents too large for this way of cutting them */
            snprintf(candidate->declined, sizeof candidate->declined, "%s", shingle_error());
            return SHINGLE_OK;
        }
        SG_TRY(status);
    }
    if (!can_run(c, candidate)) return SHINGLE_OK;
#ifndef NDEBUG
    /* Knobs that a user forces may overdraw the machine's SMs; what is proposed may not. */
    const int sms = c->by_hand ? 0 : c->machine->sms;
    sg_check_result result;
    const shingle_status proved = sg_check(c->checker, c->sched, c->problem->ranks, sms, &result);
    if (proved != SHINGLE_EUNSUPPORTED)
        SG_TRY(proved); /* too large to be checked is no violation */
#endif
    return sg_sim_us(c->sched, c->problem->ranks, c->machine, &candidate->predicted_us);
}

static shingle_status price_all(chooser *c)
{
    for (int i = 0; i < c->candidates; i++)
        if (c->candidate[i].declined[0] == '\0') SG_TRY(price(c, &c->candidate[i]));
    return SHINGLE_OK;
}

static bool applies(const sg_candidate *candidate)
{
    return candidate->declined[0] == '\0';
}

/* The first of the fastest by prediction from FIRST on, or -1. */
static int best_predicted(const chooser *c, int first)
{
    int best = -1;
    for (int i = first; i < c->candidates; i++) {
        if (!applies(&c->candidate[i])) continue;
        if (best < 0 || c->candidate[i].predicted_us < c->candidate[best].predicted_us * (1 - tie))
            best = i;
    }
    return best;
}

/* ---- Measuring -------------------------------------------------------------------------------------- */

typedef struct race {
    int index[MOST_MEASURED + 1]; /* into the candidates */
    shingle_plan *plan[MOST_MEASURED + 1];
    double us[MOST_MEASURED + 1][MOST_ROUNDS];
    int plans, rounds;
} race;

static bool is_entered(const race *r, int index)
{
    for (int i = 0; i < r->plans; i++)
        if (r->index[i] == index) return true;
    return false;
}

/* The serial plan and the COUNT best predicted others from FIRST on. */
static void enter(const chooser *c, int first, int count, race *r)
{
    r->plans = 0;
    if (c->serial >= 0 && applies(&c->candidate[c->serial])) r->index[r->plans++] = c->serial;
    for (int n = 0; n < count; n++) {
        int best = -1;
        for (int i = first; i < c->candidates; i++) {
            if (!applies(&c->candidate[i]) || is_entered(r, i)) continue;
            if (best < 0 || c->candidate[i].predicted_us < c->candidate[best].predicted_us)
                best = i;
        }
        if (best < 0) return;
        r->index[r->plans++] = best;
    }
}

static int compare_us(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Interleaved rounds, all plans one after the other, until the time is over; one round at least,
 * and one before that does not count. */
static shingle_status run_race(const chooser *c, const sg_stopwatch *watch, double seconds, race *r)
{
    const double begin = sg_now_us();
    for (int i = 0; i < r->plans; i++) {
        const sg_candidate *const candidate = &c->candidate[r->index[i]];
        double us = 0;
        SG_TRY(sg_plan_make(c->problem, candidate->strategy, &candidate->knobs, &r->plan[i]));
        SG_TRY(watch->run(watch->context, r->plan[i], &us));
    }
    const double one_round = sg_now_us() - begin;
    do {
        for (int i = 0; i < r->plans; i++)
            SG_TRY(watch->run(watch->context, r->plan[i], &r->us[i][r->rounds]));
        r->rounds++;
    } while (r->rounds < MOST_ROUNDS && sg_now_us() - begin + one_round < seconds * 1e6);
    return SHINGLE_OK;
}

static shingle_status measure(chooser *c, int first, const shingle_plan_options *options,
                              const sg_stopwatch *watch, int *chosen)
{
    const double seconds =
        options->measure_seconds > 0 ? options->measure_seconds : default_measure_seconds;
    race *const r = calloc(1, sizeof *r);
    if (r == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to measure plans");
    enter(c, first, options->measure < MOST_MEASURED ? options->measure : MOST_MEASURED, r);
    const shingle_status status = run_race(c, watch, seconds, r);
    for (int i = 0; i < r->plans; i++) sg_plan_free(r->plan[i]);
    double best = 0;
    for (int i = 0; status == SHINGLE_OK && i < r->plans; i++) {
        qsort(r->us[i], (size_t)r->rounds, sizeof r->us[i][0], compare_us);
        const double median = r->us[i][r->rounds / 2];
        c->candidate[r->index[i]].measured_us = median;
        if (r->index[i] < first) continue; /* serial beside a forced strategy */
        if (best > 0 && median >= best) continue;
        best = median;
        *chosen = r->index[i];
    }
    free(r);
    return status;
}

/* ---- Choosing --------------------------------------------------------------------------------------- */

static void explain(const chooser *c, int chosen, bool forced, shingle_plan *plan)
{
    const sg_candidate *const winner = &c->candidate[chosen];
    const bool measured = winner->measured_us > 0;
    const double us = measured ? winner->measured_us : winner->predicted_us;
    const char *const how = measured ? "measured" : "predicted";
    sg_text t = {plan->reason, sizeof plan->reason, 0};
    sg_text_add(&t, "%s %s %.1f us", winner->text, how, us);
    const sg_candidate *const serial = c->serial >= 0 ? &c->candidate[c->serial] : NULL;
    if (serial != NULL && chosen != c->serial && applies(serial)) {
        const double serial_us = measured ? serial->measured_us : serial->predicted_us;
        sg_text_add(&t, ", serial %.1f us (%.2f x)", serial_us, us > 0 ? serial_us / us : 1);
    }
    if (forced) {
        sg_text_add(&t, "; asked for by name");
        return;
    }
    int others = 0;
    int next = -1;
    for (int i = 0; i < c->candidates; i++) {
        if (i == chosen || !applies(&c->candidate[i])) continue;
        others++;
        if (i == c->serial && chosen != c->serial) continue;
        if (next < 0 || c->candidate[i].predicted_us < c->candidate[next].predicted_us) next = i;
    }
    if (next >= 0)
        sg_text_add(&t, "; best of %d others %s %.1f us", others, c->candidate[next].text,
                    c->candidate[next].predicted_us);
    else if (others == 0)
        sg_text_add(&t, "; nothing else applies");
}

/* All candidates; those of a forced strategy stand behind the serial one.  *FIRST: the first that
 * may be chosen. */
static shingle_status collect(chooser *c, const char *forced, int *first)
{
    *first = 0;
    c->serial = -1;
    for (int i = 0; sg_strategy_at(i) != NULL && (forced == NULL || i == 0); i++)
        SG_TRY(add_proposals(c, sg_strategy_at(i)));
    if (c->candidates > 0 && applies(&c->candidate[0])) c->serial = 0;
    if (forced == NULL) return SHINGLE_OK;
    *first = c->candidates;
    SG_TRY(add_forced(c, forced));
    /* The serial plan itself was asked for: once is enough. */
    if (c->candidates == 2 && strcmp(c->candidate[0].text, c->candidate[1].text) == 0) {
        *first = 0;
        c->candidates = 1;
    }
    return SHINGLE_OK;
}

static shingle_status choose(chooser *c, const shingle_plan_options *options,
                             const sg_stopwatch *watch, int *chosen, bool *forced)
{
    const bool given = options->strategy != NULL && options->strategy[0] != '\0';
    const char *const strategy = given ? options->strategy : sg_env("SHINGLE_STRATEGY");
    int first = 0;
    *forced = strategy[0] != '\0';
    SG_TRY(collect(c, *forced ? strategy : NULL, &first));
    SG_TRY(price_all(c));
    *chosen = best_predicted(c, first);
    if (*chosen < 0)
        return sg_fail(SHINGLE_EUNSUPPORTED, "%s: %s", c->candidate[first].text,
                       c->candidate[first].declined);
    if (watch == NULL || options->measure <= 0) return SHINGLE_OK;
    return measure(c, first, options, watch, chosen);
}

static shingle_status check_options(const sg_problem *problem, const sg_machine *machine,
                                    const shingle_plan_options *options)
{
    if (problem->ranks > machine->ranks)
        return sg_fail(SHINGLE_EINVAL, "the problem has %d ranks; machine %s reaches %d",
                       problem->ranks, machine->name, machine->ranks);
    if (options->measure < 0)
        return sg_fail(SHINGLE_EINVAL, "measure is %d; 0 or more plans", options->measure);
    if (!(options->measure_seconds >= 0) || !(options->measure_seconds <= 3600))
        return sg_fail(SHINGLE_EINVAL, "measure_seconds is %g; 0 (default) to 3600",
                       options->measure_seconds);
    return SHINGLE_OK;
}

static shingle_status make_chosen(chooser *c, int chosen, bool forced, shingle_plan **plan_out)
{
    const sg_candidate *const winner = &c->candidate[chosen];
    shingle_plan *plan = NULL;
    SG_TRY(sg_plan_make(c->problem, winner->strategy, &winner->knobs, &plan));
    explain(c, chosen, forced, plan);
    plan->predicted_us = winner->predicted_us;
    plan->chosen = chosen;
    plan->candidates = c->candidates;
    plan->candidate = c->candidate;
    c->candidate = NULL;
    sg_log(SG_LOG_INFO, "plan %s: %s", plan->text, plan->reason);
    *plan_out = plan;
    return SHINGLE_OK;
}

shingle_status sg_planner_choose(const sg_problem *problem, const sg_machine *machine,
                                 const shingle_plan_options *given, const sg_stopwatch *watch,
                                 const sg_able *can, shingle_plan **plan_out)
{
    shingle_plan_options options = {0};
    if (given != NULL) options = *given;
    SG_TRY(check_options(problem, machine, &options));
    chooser c = {.problem = problem, .machine = machine, .can = can};
    c.sched = calloc((size_t)problem->ranks, sizeof *c.sched);
#ifndef NDEBUG
    c.checker = sg_checker_new();
    const bool complete = c.sched != NULL && c.checker != NULL;
#else
    const bool complete = c.sched != NULL;
#endif
    shingle_status status = SHINGLE_OK;
    int chosen = -1;
    bool forced = false;
    if (!complete)
        status = sg_fail(SHINGLE_ENOMEM, "no memory to plan for %d ranks", problem->ranks);
    if (status == SHINGLE_OK) status = choose(&c, &options, watch, &chosen, &forced);
    if (status == SHINGLE_OK) status = make_chosen(&c, chosen, forced, plan_out);
    for (int r = 0; c.sched != NULL && r < problem->ranks; r++) sg_sched_free(&c.sched[r]);
    free(c.sched);
    free(c.candidate);
    sg_checker_free(c.checker);
    return status;
}
