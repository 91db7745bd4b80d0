/* planner.c -- see planner.h.
 *
 * Three ways to choose: `predict` simulates every candidate; `static` asks a rule (choose_static.h)
 * and simulates two of them, to say what the choice costs; `measure` predicts and then times the
 * best few (race.h).
 *
 * Candidates stand in the order of the list of strategies, and of each strategy's proposals; the
 * first of equals wins, so `serial`, the first strategy, is never beaten by something that is only
 * as fast.  It is the one that does not overlap and serves every problem. */
#include "core/planner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/baseline.h"
#include "core/chooser.h"
#include "core/effort.h"
#include "core/env.h"
#include "core/race.h"

enum { MOST_MEASURED = SG_RACE_PLANS - 1 }; /* beside serial */

/* Predictions that differ by less, relatively, say nothing about which plan is faster: the strategy
 * that stands first in strategies.h is taken.  To overlap has to promise more: none shall lose. */
static const double tie = 0.01, doubt = 0.02;

/* So many of a strategy are timed before others if predicted no farther from the best than this. */
enum { KNOB_SETS = 2 };
static const double not_far = 1.2;

/* May candidate I be chosen?  Those of a strategy that is asked for by name stand from FIRST on,
 * and behind them others of serial, if the backend has refused its first ones. */
static bool may_be_chosen(const sg_chooser *c, int first, int i)
{
    const bool named = first == 0 || c->candidate[i].strategy == c->candidate[first].strategy;
    return named && sg_candidate_applies(&c->candidate[i]);
}

/* The first of the fastest by prediction from FIRST on, or -1. */
static int best_predicted(const sg_chooser *c, int first)
{
    int best = -1;
    for (int i = first; i < c->candidates; i++) {
        const sg_candidate *const its = &c->candidate[i];
        const double gain = best == c->serial ? doubt : tie;
        if (!may_be_chosen(c, first, i)) continue;
        if (best < 0 || its->predicted_us < c->candidate[best].predicted_us * (1 - gain)) best = i;
    }
    return best;
}

/* ---- The static rule ------------------------------------------------------------------------- */

/* What the rule wants, from the serial schedule of rank 0. */
static shingle_status make_wish(sg_chooser *c, sg_static_wish *wish)
{
    sg_text rule = {c->rule, sizeof c->rule, 0};
    const shingle_status serial = sg_plan_build(c->problem, c->candidate[0].strategy,
                                                &c->candidate[0].knobs, 0, &c->sched[0]);
    if (serial == SHINGLE_EUNSUPPORTED) { /* too large for its buffers: anything is better */
        *wish = (sg_static_wish){.kind = SG_STATIC_HETERO};
    } else {
        SG_TRY(sg_chooser_blame(&c->candidate[0], serial));
        sg_static_rule(&c->sched[0], c->machine, wish);
    }
    sg_static_explain(wish, &rule);
    return SHINGLE_OK;
}

/* Looks at the schedules of candidates from FIRST on; those that must not be chosen are marked. */
static shingle_status look_at_all(sg_chooser *c, int first)
{
    c->look = calloc((size_t)c->candidates, sizeof *c->look);
    if (c->look == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory for %d candidates", c->candidates);
    for (int i = first; i < c->candidates; i++) {
        sg_candidate *const candidate = &c->candidate[i];
        if (!sg_candidate_applies(candidate)) continue;
        SG_TRY(sg_chooser_blame(candidate, c->reproducible ? sg_chooser_admit(c, candidate)
                                                           : sg_chooser_build(c, 1, candidate)));
        if (sg_candidate_applies(candidate))
            sg_static_look_at(&c->sched[0], c->machine, &c->look[i]);
    }
    return SHINGLE_OK;
}

/* The first of those from FIRST on that are most like WISH; -1: none applies. */
static int nearest(const sg_chooser *c, int first, const sg_static_wish *wish)
{
    int best = -1;
    for (int i = first; i < c->candidates; i++)
        if (sg_candidate_applies(&c->candidate[i]) &&
            (best < 0 || sg_static_is_nearer(wish, &c->look[i], &c->look[best])))
            best = i;
    return best;
}

/* Prices the nearest to WISH; one that then turns out not to apply is struck out for the next. */
static shingle_status price_nearest(sg_chooser *c, int first, const sg_static_wish *wish,
                                    int *chosen)
{
    do {
        *chosen = nearest(c, first, wish);
        if (*chosen >= 0) SG_TRY(sg_chooser_price(c, &c->candidate[*chosen]));
    } while (*chosen >= 0 && !sg_candidate_applies(&c->candidate[*chosen]));
    return SHINGLE_OK;
}

/* Prices the serial plans too, and takes the fastest instead of *CHOSEN if it is faster. */
static shingle_status prefer_serial(sg_chooser *c, int *chosen)
{
    sg_candidate *const all = c->candidate;
    if (c->serial < 0) return SHINGLE_OK;
    for (int i = 0; i < c->candidates && all[i].strategy == all[0].strategy; i++)
        if (i != *chosen && sg_candidate_applies(&all[i])) SG_TRY(sg_chooser_price(c, &all[i]));
    c->serial = sg_baseline_fastest(all, c->candidates, 0);
    if (*chosen >= 0 && sg_candidate_applies(&all[c->serial]) &&
        all[c->serial].predicted_us < all[*chosen].predicted_us)
        *chosen = c->serial;
    return SHINGLE_OK;
}

/* Asks the rule for a kind of schedule and takes the candidate that is most like it, or a serial
 * plan if that is faster.  Only these are priced. */
static shingle_status choose_by_rule(sg_chooser *c, int first, int *chosen)
{
    sg_static_wish wish;
    SG_TRY(make_wish(c, &wish));
    SG_TRY(look_at_all(c, first));
    SG_TRY(price_nearest(c, first, &wish, chosen));
    return prefer_serial(c, chosen);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static bool is_among(const int *index, int count, int wanted)
{
    for (int i = 0; i < count; i++)
        if (index[i] == wanted) return true;
    return false;
}

static int entered(const sg_chooser *c, const int *index, int count, const sg_strategy *strategy)
{
    int entries = 0; /* of this strategy */
    for (int i = 0; i < count; i++) entries += c->candidate[index[i]].strategy == strategy;
    return entries;
}

/* The best predicted from FIRST on that is not entered, of any strategy or of one that has no entry
 * yet (NEW_ONES); or -1. */
static int best_left(const sg_chooser *c, int first, const int *index, int count, bool new_ones)
{
    int best = -1;
    for (int i = first; i < c->candidates; i++) {
        const sg_candidate *const one = &c->candidate[i];
        if (!may_be_chosen(c, first, i) || is_among(index, count, i)) continue;
        if (new_ones && entered(c, index, count, one->strategy) > 0) continue;
        if (best < 0 || one->predicted_us < c->candidate[best].predicted_us) best = i;
    }
    return best;
}

/* The serial plan, then PREDICTED, which is timed whatever the limit, and the best predicted others
 * from FIRST on, at most PLANS; their number.  Knob sets of one strategy often take as long as each
 * other: a strategy that is not far behind has its first before another has its third. */
static int enter(const sg_chooser *c, int first, int plans, int predicted, int *index)
{
    const double far = c->candidate[predicted].predicted_us * not_far;
    int count = 0;
    if (c->serial >= 0 && sg_candidate_applies(&c->candidate[c->serial]))
        index[count++] = c->serial;
    const int most = count + plans;
    if (!is_among(index, count, predicted)) index[count++] = predicted;
    while (count < most) {
        int next = best_left(c, first, index, count, false);
        if (next < 0) break;
        if (entered(c, index, count, c->candidate[next].strategy) >= KNOB_SETS) {
            const int other = best_left(c, first, index, count, true);
            if (other >= 0 && c->candidate[other].predicted_us <= far) next = other;
        }
        index[count++] = next;
    }
    return count;
}

static shingle_status choose_by_timing(sg_chooser *c, int first, const sg_effort *e,
                                       const sg_stopwatch *watch, int *chosen)
{
    int index[SG_RACE_PLANS];
    const int plans = enter(c, first, (int)sg_min(e->plans, MOST_MEASURED), *chosen, index);
    SG_TRY(sg_race(c->problem, c->candidate, index, plans, watch, e->seconds));
    const sg_candidate *best = NULL; /* of equals the serial plan, or what prediction takes */
    const sg_candidate *lost = NULL; /* not serial beside a forced strategy */
    for (int i = 0; i < plans; i++) {
        const sg_candidate *const one = &c->candidate[index[i]];
        if (index[i] >= first && !sg_candidate_applies(one)) lost = one;
        if (index[i] < first || one->measured_us <= 0) continue; /* lost, or the limit came first */
        if (best != NULL && !sg_race_is_faster(one, best)) continue;
        best = one;
        *chosen = index[i];
    }
    if (best != NULL || lost == NULL) return SHINGLE_OK;
    return sg_fail(SHINGLE_EBACKEND, "%s: %s", lost->text, lost->declined);
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* Candidates that apply. */
static int kept(const sg_chooser *c)
{
    int count = 0;
    for (int i = 0; i < c->candidates; i++) count += sg_candidate_applies(&c->candidate[i]);
    return count;
}

static double time_of(const sg_candidate *c, bool measured)
{
    return measured ? c->measured_us : c->predicted_us;
}

/* ASKED: who asked for the strategy; NULL: nobody. */
static void explain(const sg_chooser *c, int chosen, const sg_effort *e, const char *asked,
                    shingle_plan *plan)
{
    const sg_candidate *const winner = &c->candidate[chosen];
    const bool measured = winner->measured_us > 0;
    const double us = time_of(winner, measured);
    const char *const how = measured ? "measured" : "predicted";
    sg_text t = {plan->reason, sizeof plan->reason, 0};
    sg_text_add(&t, "%s %s %.1f us", winner->text, how, us);
    const int serial = c->serial >= 0 ? c->serial : chosen;
    const double serial_us = time_of(&c->candidate[serial], measured);
    if (serial != chosen && sg_candidate_applies(&c->candidate[serial])) {
        sg_text_add(&t, ", serial %.1f us", serial_us);
        if (us > 0) sg_text_add(&t, " (%.2f x)", serial_us / us);
    }
    if (c->reproducible) sg_text_add(&t, "; reproducible, as are %d of %d", kept(c), c->candidates);
    const char *const by = asked != NULL ? asked : e->by == SG_BY_RULE ? c->rule : NULL;
    if (by != NULL) {
        sg_text_add(&t, "; %s%s", asked != NULL ? "asked for by " : "static: ", by);
        return;
    }
    int others = 0;
    int next = -1;
    for (int i = 0; i < c->candidates; i++) {
        const sg_candidate *const other = &c->candidate[i];
        if (i == chosen || !sg_candidate_applies(other)) continue;
        others++;
        if (i == serial || (measured && other->measured_us <= 0)) continue;
        if (next < 0 || time_of(other, measured) < time_of(&c->candidate[next], measured)) next = i;
    }
    if (next >= 0) {
        const double next_us = time_of(&c->candidate[next], measured);
        sg_text_add(&t, "; next of %d others: %s %s %.1f us", others, c->candidate[next].text, how,
                    next_us);
        /* Within tie, or else it would have been chosen; told where the printed tenths show it. */
        const bool less = (int64_t)(10 * next_us + 0.5) < (int64_t)(10 * us + 0.5);
        if (less && measured)
            sg_text_add(&t, ": less by no more than rounds differ, and the first stays");
        else if (less)
            sg_text_add(&t, ": less by at most %.0f %%, which counts as equal, and the first stays",
                        100 * (chosen == serial ? doubt : tie));
    } else if (others == 0)
        sg_text_add(&t, "; nothing else applies");
}

/* All candidates; those of a forced strategy stand behind the serial one.  *FIRST: the first that
 * may be chosen. */
static shingle_status collect(sg_chooser *c, const char *forced, int *first)
{
    *first = 0;
    c->serial = -1;
    for (int i = 0; sg_strategy_at(i) != NULL && (forced == NULL || i == 0); i++)
        SG_TRY(sg_chooser_propose(c, sg_strategy_at(i), 0));
    if (c->candidates > 0 && sg_candidate_applies(&c->candidate[0])) c->serial = 0;
    if (forced == NULL) return SHINGLE_OK;
    *first = c->candidates;
    SG_TRY(sg_chooser_force(c, forced));
    const int left = sg_baseline_once(c->candidate, *first, c->candidates);
    if (left < c->candidates) *first = 0;
    c->candidates = left;
    return SHINGLE_OK;
}

static shingle_status choose(sg_chooser *c, const char *strategy, const sg_effort *e,
                             const sg_stopwatch *watch, int *chosen)
{
    const bool forced = strategy[0] != '\0';
    int first = 0;
    SG_TRY(collect(c, forced ? strategy : NULL, &first));
    if (e->by == SG_BY_RULE && !forced) {
        SG_TRY(choose_by_rule(c, first, chosen));
    } else {
        SG_TRY(sg_chooser_price_all(c));
        if (c->serial >= 0) sg_baseline_lead(c->candidate, first > 0 ? first : c->candidates, tie);
        *chosen = best_predicted(c, first);
    }
    if (*chosen < 0)
        return sg_fail(SHINGLE_EUNSUPPORTED, "%s%s: %s",
                       c->reproducible && !forced ? "no plan is reproducible; " : "",
                       c->candidate[first].text, c->candidate[first].declined);
    return e->by == SG_BY_TIMING ? choose_by_timing(c, first, e, watch, chosen) : SHINGLE_OK;
}

/* ---- The call -------------------------------------------------------------------------------- */

static shingle_status make_chosen(sg_chooser *c, int chosen, const sg_effort *e, const char *asked,
                                  shingle_plan **plan_out)
{
    const sg_candidate *const winner = &c->candidate[chosen];
    shingle_plan *plan = NULL;
    SG_TRY(sg_plan_make(c->problem, winner->strategy, &winner->knobs, &plan));
    explain(c, chosen, e, asked, plan);
    plan->predicted_us = winner->predicted_us;
    plan->measured_us = winner->measured_us;
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
    if (problem->ranks > machine->ranks)
        return sg_fail(SHINGLE_EINVAL, "the problem has %d ranks; machine %s reaches %d",
                       problem->ranks, machine->name, machine->ranks);
    sg_effort e = {0};
    SG_TRY(sg_effort_read(&options, &e));
    if (e.by == SG_BY_TIMING && watch == NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "measuring needs ranks that run; shingle_plan_create has them");
    const bool by_name = sg_given(options.strategy) != NULL;
    const char *const strategy = by_name ? options.strategy : sg_env("SHINGLE_STRATEGY");
    const char *const asked = by_name ? "name" : strategy[0] != '\0' ? "SHINGLE_STRATEGY" : NULL;
    sg_chooser c = {.problem = problem,
                    .machine = machine,
                    .can = can,
                    .reproducible = options.reproducible != 0};
    int chosen = -1;
    shingle_status status = sg_chooser_open(&c);
    if (status == SHINGLE_OK) status = choose(&c, strategy, &e, watch, &chosen);
    if (status != SHINGLE_OK && asked != NULL && !by_name)
        sg_fail(status, "%s: %s", asked, shingle_error());
    if (status == SHINGLE_OK) status = make_chosen(&c, chosen, &e, asked, plan_out);
    sg_chooser_close(&c);
    return status;
}
