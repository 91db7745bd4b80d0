/* plan.c -- see plan.h.  Making, copying, printing and parsing plans; choosing one is planner.c. */
#include "core/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/planner.h"

enum { HASH_DIGITS = 16 };

/* ---- Making ---------------------------------------------------------------------------------- */

/* Two libraries of the same version make the same schedules of a text, so
 * the version is part of it. */
static uint64_t hash_of(const char *text, size_t length)
{
    const char *const version = shingle_version();
    return sg_hash(text, length, sg_hash(version, strlen(version), 0));
}

/* "PROBLEM STRATEGY{KNOBS}" and room for the hash; its length in *LENGTH. */
static char *name_plan(const sg_problem *problem, const sg_strategy *strategy,
                       const sg_knobs *knobs, size_t *length)
{
    char name[256];
    sg_text t = {name, sizeof name, 0};
    sg_strategy_print(strategy, knobs, &t);
    const size_t of_problem = sg_problem_print(problem, NULL, 0);
    const size_t room = of_problem + 1 + t.length + 2 + HASH_DIGITS + 1;
    char *const text = malloc(room);
    if (text == NULL) return NULL;
    sg_problem_print(problem, text, room);
    *length = of_problem + 1 + t.length;
    snprintf(text + of_problem, room - of_problem, " %s", name);
    return text;
}

shingle_status sg_plan_make(const sg_problem *problem, const sg_strategy *strategy,
                            const sg_knobs *knobs, shingle_plan **plan_out)
{
    shingle_plan *const plan = calloc(1, sizeof *plan);
    if (plan == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a plan");
    shingle_status status = sg_problem_copy(problem, &plan->problem);
    if (status != SHINGLE_OK) {
        free(plan);
        return status;
    }
    size_t length = 0;
    plan->text = name_plan(problem, strategy, knobs, &length);
    if (plan->text == NULL) {
        sg_plan_free(plan);
        return sg_fail(SHINGLE_ENOMEM, "no memory for the text of a plan");
    }
    plan->strategy = strategy;
    plan->knobs = *knobs;
    plan->hash = hash_of(plan->text, length);
    snprintf(plan->text + length, 2 + HASH_DIGITS + 1, " #%016llx", (unsigned long long)plan->hash);
    *plan_out = plan;
    return SHINGLE_OK;
}

shingle_status sg_plan_copy(const shingle_plan *plan, shingle_plan **copy_out)
{
    shingle_plan *copy = NULL;
    SG_TRY(sg_plan_make(&plan->problem, plan->strategy, &plan->knobs, &copy));
    memcpy(copy->reason, plan->reason, sizeof copy->reason);
    copy->predicted_us = plan->predicted_us;
    copy->measured_us = plan->measured_us;
    copy->chosen = plan->chosen;
    if (plan->candidates > 0) {
        const size_t bytes = (size_t)plan->candidates * sizeof *plan->candidate;
        copy->candidate = malloc(bytes);
        if (copy->candidate == NULL) {
            sg_plan_free(copy);
            return sg_fail(SHINGLE_ENOMEM, "no memory for %d candidates", plan->candidates);
        }
        memcpy(copy->candidate, plan->candidate, bytes);
        copy->candidates = plan->candidates;
    }
    *copy_out = copy;
    return SHINGLE_OK;
}

void sg_plan_free(shingle_plan *plan)
{
    if (plan == NULL) return;
    SG_ASSERT(plan->bound == NULL);
    sg_problem_free(&plan->problem);
    free(plan->candidate);
    free(plan->text);
    free(plan);
}

shingle_status sg_plan_build(const sg_problem *problem, const sg_strategy *strategy,
                             const sg_knobs *knobs, int rank, sg_sched *s)
{
    sg_sched_begin(s, problem, rank);
    strategy->build(problem, knobs, rank, s);
    return sg_sched_seal(s);
}

void sg_plan_quote(const char *plan, const char *other, sg_text *text)
{
    static const size_t of_hash = 2 + HASH_DIGITS;
    size_t length = strlen(plan);
    size_t same = 0;
    if (length > of_hash && memcmp(plan + length - of_hash, " #", 2) == 0) length -= of_hash;
    while (other != NULL && same < length && plan[same] == other[same]) same++;
    if (same == length && other != NULL && other[same] == plan[same]) same = 0; /* but the hash */
    sg_text_add_part(text, plan, length, same, SG_PLAN_QUOTED - of_hash);
    sg_text_add(text, "%s", plan + length);
}

/* ---- Parsing --------------------------------------------------------------------------------- */

static shingle_status expect(const char *text, size_t at, const char *what)
{
    return sg_fail(SHINGLE_EINVAL, "plan \"%s\", column %zu: %s expected", sg_quote(text, at).text,
                   at + 1, what);
}

/* Copies TEXT[*at ..] up to a blank or the end, and moves behind the blanks. */
static char *take_word(const char *text, size_t *at)
{
    const size_t length = strcspn(text + *at, " \t");
    char *const word = malloc(length + 1);
    if (word == NULL) return NULL;
    memcpy(word, text + *at, length);
    word[length] = '\0';
    *at += length;
    *at += strspn(text + *at, " \t");
    return word;
}

/* "#" and sixteen hexadecimal digits; blanks and a line's end may follow. */
static shingle_status take_hash(const char *text, size_t at, uint64_t *hash_out)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t hash = 0;
    if (text[at] != '#') return expect(text, at, "\"#\" and the hash");
    const size_t start = ++at;
    for (; at - start < HASH_DIGITS; at++) {
        const char *const digit = text[at] != '\0' ? strchr(digits, text[at]) : NULL;
        if (digit == NULL) return expect(text, at, "16 digits of 0-9 and a-f");
        hash = hash << 4 | (uint64_t)(digit - digits);
    }
    at += strspn(text + at, " \t\r\n");
    if (text[at] != '\0') return expect(text, at, "the end");
    *hash_out = hash;
    return SHINGLE_OK;
}

/* STRATEGY{KNOBS}, all knobs named, at column AT of TEXT. */
static shingle_status take_strategy(const char *text, size_t at, const char *word,
                                    const sg_problem *problem, const sg_strategy **strategy_out,
                                    sg_knobs *knobs_out)
{
    bool given = false;
    if (sg_strategy_parse(word, strategy_out, NULL, knobs_out, &given) != SHINGLE_OK)
        return sg_fail(SHINGLE_EINVAL, "plan, column %zu: %s", at + 1, shingle_error());
    if (!given && sg_knob_count(*strategy_out) > 0)
        return expect(text, at + strlen(word), "\"{\" and the strategy's knobs");
    char why[160] = "";
    sg_text reason = {why, sizeof why, 0};
    if (!(*strategy_out)->accepts(problem, &reason))
        return sg_fail(SHINGLE_EUNSUPPORTED, "%s does not do this problem: %s",
                       (*strategy_out)->name, why);
    return SHINGLE_OK;
}

static shingle_status parse(const char *text, sg_problem *problem, char **word,
                            shingle_plan **plan_out)
{
    size_t at = strspn(text, " \t");
    *word = take_word(text, &at);
    if (*word == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to parse a plan");
    SG_TRY(sg_problem_parse(*word, problem));
    free(*word);
    *word = NULL;
    const size_t of_strategy = at;
    if (text[at] == '\0' || text[at] == '#') return expect(text, at, "a strategy");
    *word = take_word(text, &at);
    if (*word == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to parse a plan");
    const sg_strategy *strategy = NULL;
    sg_knobs knobs;
    SG_TRY(take_strategy(text, of_strategy, *word, problem, &strategy, &knobs));
    uint64_t hash = 0;
    SG_TRY(take_hash(text, at, &hash));

    shingle_plan *plan = NULL;
    SG_TRY(sg_plan_make(problem, strategy, &knobs, &plan));
    if (plan->hash != hash) {
        const shingle_status status = sg_fail(
            SHINGLE_EMISMATCH,
            "plan, column %zu: hash #%016llx is not that of this plan in version %s, #%016llx; it "
            "was made by another version or changed",
            at + 1, (unsigned long long)hash, shingle_version(), (unsigned long long)plan->hash);
        sg_plan_free(plan);
        return status;
    }
    snprintf(plan->reason, sizeof plan->reason, "parsed from a text");
    *plan_out = plan;
    return SHINGLE_OK;
}

shingle_status sg_plan_parse(const char *text, shingle_plan **plan_out)
{
    sg_problem problem = {0};
    char *word = NULL;
    const shingle_status status = parse(text, &problem, &word, plan_out);
    free(word);
    sg_problem_free(&problem);
    return status;
}

/* ---- Public calls ---------------------------------------------------------------------------- */

shingle_status shingle_plan_parse(const char *text, shingle_plan **plan_out)
{
    if (text == NULL || plan_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no text or no place for the plan; both are needed");
    return sg_plan_parse(text, plan_out);
}

shingle_status shingle_plan_for(const char *problem, const shingle_machine *machine,
                                const shingle_plan_options *options, shingle_plan **plan_out)
{
    if (plan_out == NULL) return sg_fail(SHINGLE_EINVAL, "no place for the plan; it is needed");
    sg_machine plain;
    sg_machine_plain(&plain);
    sg_problem parsed;
    SG_TRY(sg_problem_parse(problem, &parsed));
    const shingle_status status = sg_planner_choose(
        &parsed, machine != NULL ? &machine->numbers : &plain, options, NULL, NULL, plan_out);
    sg_problem_free(&parsed);
    return status;
}

const char *shingle_plan_text(const shingle_plan *plan)
{
    return plan != NULL ? plan->text : "";
}

const char *shingle_plan_reason(const shingle_plan *plan)
{
    return plan != NULL ? plan->reason : "";
}

int shingle_plan_candidates(const shingle_plan *plan)
{
    return plan != NULL ? plan->candidates : 0;
}

shingle_status shingle_plan_candidate(const shingle_plan *plan, int index,
                                      shingle_candidate *candidate_out)
{
    if (plan == NULL || candidate_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no plan or no place for the candidate; both are needed");
    if (index < 0 || index >= plan->candidates)
        return sg_fail(SHINGLE_EINVAL, "candidate %d; this plan has %d", index, plan->candidates);
    const sg_candidate *const c = &plan->candidate[index];
    *candidate_out = (shingle_candidate){.strategy = c->text,
                                         .declined = c->declined[0] != '\0' ? c->declined : NULL,
                                         .predicted_us = c->predicted_us,
                                         .measured_us = c->measured_us,
                                         .chosen = index == plan->chosen};
    return SHINGLE_OK;
}

int64_t shingle_plan_schedule(const shingle_plan *plan, int rank, char *text, size_t size)
{
    if (plan == NULL) {
        sg_fail(SHINGLE_EINVAL, "no plan to print");
        return -1;
    }
    if (rank < 0 || rank >= plan->problem.ranks) {
        sg_fail(SHINGLE_EINVAL, "rank %d; 0 to %d are the plan's", rank, plan->problem.ranks - 1);
        return -1;
    }
    sg_sched s = {0};
    sg_text t = {text, text != NULL ? size : 0, 0};
    if (t.room > 0) text[0] = '\0';
    const shingle_status status =
        sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, rank, &s);
    if (status == SHINGLE_OK) sg_sched_print(&s, &t);
    sg_sched_free(&s);
    return status == SHINGLE_OK ? (int64_t)t.length : -1;
}
