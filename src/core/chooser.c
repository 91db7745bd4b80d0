/* chooser.c -- see chooser.h. */
#include "core/chooser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/propose.h"

/* ---- From beginning to end ------------------------------------------------------------------- */

shingle_status sg_chooser_open(sg_chooser *c)
{
    c->simulator = sg_simulator_new();
    c->sched = calloc((size_t)c->problem->ranks, sizeof *c->sched);
    bool complete = c->simulator != NULL && c->sched != NULL;
#ifndef NDEBUG
    c->proves = true;
#endif
    if (c->proves || c->reproducible) {
        c->checker = sg_checker_new();
        complete = complete && c->checker != NULL;
    }
    if (complete) return SHINGLE_OK;
    return sg_fail(SHINGLE_ENOMEM, "no memory to plan for %d ranks", c->problem->ranks);
}

void sg_chooser_close(sg_chooser *c)
{
    for (int r = 0; c->sched != NULL && r < c->problem->ranks; r++) sg_sched_free(&c->sched[r]);
    free(c->sched);
    free(c->candidate);
    free(c->look);
    sg_simulator_free(c->simulator);
    sg_checker_free(c->checker);
}

/* ---- Candidates ------------------------------------------------------------------------------ */

static shingle_status add_candidate(sg_chooser *c, const sg_strategy *strategy,
                                    const sg_knobs *knobs, const char *declined)
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

shingle_status sg_chooser_propose(sg_chooser *c, const sg_strategy *strategy, int skipped)
{
    sg_knobs sets[SG_MAX_KNOB_SETS];
    char why[128] = "";
    sg_text reason = {why, sizeof why, 0};
    memset(sets, 0, sizeof sets);
    const int count =
        sg_strategy_propose_next(strategy, c->problem, c->machine, skipped, sets, &reason);
    if (count == 0) return add_candidate(c, strategy, NULL, why);
    const int most = sg_strategy_is_quick(c->problem, c->machine) ? count : 1;
    for (int i = 0; i < most; i++) SG_TRY(add_candidate(c, strategy, &sets[i], NULL));
    return SHINGLE_OK;
}

shingle_status sg_chooser_force(sg_chooser *c, const char *text)
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
        count = sg_strategy_propose(strategy, c->problem, c->machine, sets, &reason);
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

/* ---- Prices ---------------------------------------------------------------------------------- */

static void decline_kind(sg_candidate *candidate, int kind)
{
    static const char *const names[SG_KINDS] = {"products", "copies", "sums", "collectives",
                                                "flags"};
    snprintf(candidate->declined, sizeof candidate->declined, "the backend does not carry out %s",
             names[kind]);
}

/* Marks a candidate with steps that the backend has no function for, or
 * cannot carry out as they are. */
static bool can_run(sg_chooser *c, const sg_sched *s, sg_candidate *candidate)
{
    if (c->can == NULL) return true;
    for (int32_t i = 0; i < s->steps; i++) {
        const int kind = s->step[i].kind;
        if (c->can->kind[kind]) continue;
        decline_kind(candidate, kind);
        return false;
    }
    sg_text why = {candidate->declined, sizeof candidate->declined, 0};
    const bool accepted = c->can->accepts == NULL || c->can->accepts(c->can->self, s, &why);
    c->refused |= !accepted;
    return accepted;
}

shingle_status sg_chooser_build(sg_chooser *c, int ranks, sg_candidate *candidate)
{
    for (int r = 0; r < ranks; r++) {
        const shingle_status status =
            sg_plan_build(c->problem, candidate->strategy, &candidate->knobs, r, &c->sched[r]);
        if (status == SHINGLE_EUNSUPPORTED) { /* extents too large for this way of cutting them */
            snprintf(candidate->declined, sizeof candidate->declined, "%s", shingle_error());
            return SHINGLE_OK;
        }
        SG_TRY(status);
        if (!can_run(c, &c->sched[r], candidate)) return SHINGLE_OK;
    }
    return SHINGLE_OK;
}

/* Debug builds prove what they price; under sanitizers, which take ten times as long for it, one
 * candidate of so many. */
#ifndef SG_PROVE_ONE_OF
#define SG_PROVE_ONE_OF 1
#endif

static shingle_status prove(const sg_chooser *c, const sg_candidate *candidate)
{
    if (!c->proves || (candidate - c->candidate) % SG_PROVE_ONE_OF != 0) return SHINGLE_OK;
    /* Knobs that a user forces may overdraw the machine's SMs; what is proposed may not. */
    const int sms = c->by_hand ? 0 : sg_machine_held_sms(c->machine);
    sg_check_result result;
    const shingle_status proved =
        sg_check_once(c->checker, c->sched, sms, candidate->strategy, &candidate->knobs, &result);
    return proved == SHINGLE_EUNSUPPORTED ? SHINGLE_OK : proved; /* too large is no violation */
}

/* Marks a candidate whose sums are made in another order than those of all other reproducible
 * plans, or by a backend that does not say in which. */
static shingle_status keep_order(const sg_chooser *c, sg_candidate *candidate)
{
    const int ranks = c->problem->ranks;
    sg_text why = {candidate->declined, sizeof candidate->declined, 0};
    for (int r = 0; r < ranks && c->can != NULL && c->can->keeps_order != NULL; r++)
        if (!c->can->keeps_order(c->can->self, &c->sched[r], &why)) return SHINGLE_OK;
    sg_check_result result;
    const shingle_status status = sg_check_bits(c->checker, c->sched, ranks, &result);
    if (status == SHINGLE_EUNSUPPORTED) {
        sg_text_add(&why, "%s", shingle_error());
        return SHINGLE_OK;
    }
    return status;
}

shingle_status sg_chooser_admit(sg_chooser *c, sg_candidate *candidate)
{
    SG_TRY(sg_chooser_build(c, c->problem->ranks, candidate));
    if (sg_candidate_applies(candidate)) SG_TRY(prove(c, candidate));
    if (sg_candidate_applies(candidate) && c->reproducible) SG_TRY(keep_order(c, candidate));
    return SHINGLE_OK;
}

shingle_status sg_chooser_blame(const sg_candidate *candidate, shingle_status status)
{
    if (status != SHINGLE_EBUG) return status;
    return sg_fail(status, "%s: %s", candidate->text, shingle_error());
}

/* What waits for ever when it is simulated breaks a rule, which a checker can name.  Whatever it
 * finds, STATUS stays. */
static shingle_status name_rule(const sg_problem *problem, const sg_candidate *candidate,
                                shingle_status status)
{
    char waits[256];
    sg_check_result result;
    sg_checker *const checker = sg_checker_new();
    snprintf(waits, sizeof waits, "%s", shingle_error());
    const bool named = checker != NULL && sg_check_built(checker, problem, candidate->strategy,
                                                         &candidate->knobs, 0, &result) == status;
    sg_checker_free(checker);
    return named ? status : sg_fail(status, "%s", waits);
}

shingle_status sg_chooser_price(sg_chooser *c, sg_candidate *candidate)
{
    if (c->can != NULL || c->checker != NULL)
        SG_TRY(sg_chooser_blame(candidate, sg_chooser_admit(c, candidate)));
    if (!sg_candidate_applies(candidate)) return SHINGLE_OK;
    sg_sim_result result;
    const shingle_status status = sg_simulate_built(c->simulator, c->problem, candidate->strategy,
                                                    &candidate->knobs, c->machine, NULL, &result);
    if (status == SHINGLE_EUNSUPPORTED) {
        snprintf(candidate->declined, sizeof candidate->declined, "%s", shingle_error());
        return SHINGLE_OK;
    }
    if (status == SHINGLE_EBUG)
        return sg_chooser_blame(candidate, name_rule(c->problem, candidate, status));
    SG_TRY(status);
    candidate->predicted_us = result.us;
    return SHINGLE_OK;
}

/* Prices candidates FIRST to END.  *ANY: one of them applies. */
static shingle_status price_some(sg_chooser *c, int first, int end, bool *any)
{
    *any = false;
    for (int i = first; i < end; i++) {
        if (sg_candidate_applies(&c->candidate[i])) SG_TRY(sg_chooser_price(c, &c->candidate[i]));
        *any |= sg_candidate_applies(&c->candidate[i]);
    }
    return SHINGLE_OK;
}

/* Candidates of a strategy stand side by side. */
shingle_status sg_chooser_price_all(sg_chooser *c)
{
    const int asked = c->candidates;
    for (int first = 0, end = 0; first < asked; first = end) {
        const sg_strategy *const strategy = c->candidate[first].strategy;
        bool any = false;
        while (end < asked && c->candidate[end].strategy == strategy) end++;
        c->refused = false;
        SG_TRY(price_some(c, first, end, &any));
        for (int skipped = 1; c->refused && !any && !c->by_hand && skipped < c->machine->tiles;
             skipped++) {
            const int from = c->candidates;
            SG_TRY(sg_chooser_propose(c, strategy, skipped));
            SG_TRY(price_some(c, from, c->candidates, &any));
        }
    }
    return SHINGLE_OK;
}
