/* cmd_check.c -- `shingle check`: proves plans, one problem's or many random ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "group.h"
#include "out.h"

enum { MOST_THREADS = 256 }; /* that the library takes for random proofs */

typedef struct request {
    const char *problem, *machine, *strategy;
    int64_t random, seed, most_ranks, threads;
} request;

typedef struct verdicts {
    json_t *list;
    out_table *table;
    int proved, refuted;
    char *first; /* violation */
} verdicts;

static void add_verdict(verdicts *v, const char *plan, const char *violation)
{
    if (violation == NULL)
        v->proved++;
    else
        v->refuted++;
    json_array_append_new(v->list, json_pack("{s:s, s:b, s:s?}", "plan", plan, "proved",
                                             violation == NULL, "violation", violation));
    out_table_add(v->table, violation ? "VIOLATION" : "proved");
    out_table_tone(v->table, violation ? OUT_BAD : OUT_GOOD);
    out_table_add(v->table, "%s", plan);
    if (violation != NULL && v->first == NULL) v->first = out_copy(violation);
}

/* Proves PLAN, its SMs too if MACHINE is not NULL.  CLI_OK whatever the verdict; a failure of the
 * proof itself is an exit code. */
static int prove(const shingle_plan *plan, const shingle_machine *machine, verdicts *v)
{
    const shingle_status status = shingle_plan_check(plan, machine);
    if (status != SHINGLE_OK && status != SHINGLE_EBUG) return out_status(status);
    add_verdict(v, shingle_plan_text(plan), status == SHINGLE_OK ? NULL : shingle_error());
    return CLI_OK;
}

/* STRATEGY makes schedules of which planning itself has said what is wrong. */
static void refute(const request *q, const char *strategy, verdicts *v)
{
    char *const why = out_copy(shingle_error());
    const size_t room = strlen(q->problem) + strlen(strategy) + 2;
    char *const plan = out_get(room);
    snprintf(plan, room, "%s %s", q->problem, strategy);
    add_verdict(v, plan, why);
    free(plan);
    free(why);
}

static int prove_strategy(const request *q, const shingle_machine *machine, const char *strategy,
                          verdicts *v)
{
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = strategy};
    const shingle_status status = shingle_plan_for(q->problem, machine, &options, &plan);
    if (status == SHINGLE_EBUG) refute(q, strategy, v);
    if (status != SHINGLE_OK) return status == SHINGLE_EBUG ? CLI_OK : out_status(status);
    /* Knobs that the user wrote may overdraw the machine; what is proposed may not. */
    const bool by_hand = strchr(strategy, '{') != NULL && q->strategy != NULL;
    const int code = prove(plan, by_hand ? NULL : machine, v);
    shingle_plan_free(plan);
    return code;
}

/* Planning has come upon wrong schedules: whose they are. */
static int name_the_wrong(const request *q, const shingle_machine *machine, verdicts *v)
{
    const int code = out_code(SHINGLE_EBUG);
    char *const why = out_copy(shingle_error());
    for (int i = 0; shingle_strategy_name(i) != NULL; i++) {
        shingle_plan *plan = NULL;
        const shingle_plan_options options = {.strategy = shingle_strategy_name(i)};
        if (shingle_plan_for(q->problem, machine, &options, &plan) == SHINGLE_EBUG)
            refute(q, options.strategy, v);
        shingle_plan_free(plan);
    }
    if (v->refuted == 0) out_error(code, "%s", why);
    free(why);
    return v->refuted > 0 ? CLI_OK : code;
}

/* Every knob set of every strategy that applies. */
static int prove_all(const request *q, const shingle_machine *machine, verdicts *v)
{
    shingle_plan *plan = NULL;
    group_take_all();
    const shingle_status status = shingle_plan_for(q->problem, machine, NULL, &plan);
    if (status == SHINGLE_EBUG) return name_the_wrong(q, machine, v);
    if (status != SHINGLE_OK) return out_status(status);
    int code = CLI_OK;
    const int count = shingle_plan_candidates(plan);
    for (int i = 0; i < count && code == CLI_OK; i++) {
        shingle_candidate candidate;
        if (shingle_plan_candidate(plan, i, &candidate) != SHINGLE_OK || candidate.declined)
            continue;
        out_progress("proving %d of %d: %s", i + 1, count, candidate.strategy);
        code = prove_strategy(q, machine, candidate.strategy, v);
    }
    out_progress_end();
    shingle_plan_free(plan);
    return code;
}

static int prove_problem(const request *q, verdicts *v)
{
    shingle_machine *machine = NULL;
    shingle_shape shape;
    const shingle_status status = shingle_problem_shape(q->problem, 0, &shape);
    int code = status == SHINGLE_OK ? CLI_OK : out_status(status);
    if (code == CLI_OK) code = group_machine(q->machine ? q->machine : "plain", &machine);
    if (code == CLI_OK)
        code = q->strategy ? prove_strategy(q, machine, q->strategy, v) : prove_all(q, machine, v);
    shingle_machine_free(machine);
    return code;
}

static int check_problem(const request *q, bool json)
{
    verdicts v = {json_array(), out_table_make("<verdict <plan"), 0, 0, NULL};
    group_asked asked;
    int code = group_ask(q->problem, q->strategy, q->machine ? "machine" : NULL, &asked);
    if (code == CLI_OK)
        code = asked.plan != NULL ? prove(asked.plan, NULL, &v) : prove_problem(q, &v);
    if (code == CLI_OK) {
        if (json) {
            out_json(json_pack("{s:s, s:i, s:i, s:O}", "version", shingle_version(), "proved",
                               v.proved, "violations", v.refuted, "plans", v.list));
        } else {
            out_table_print(v.table, "");
            printf("\n%d proved, %d violations\n", v.proved, v.refuted);
            if (v.first != NULL) printf("first: %s\n", v.first);
        }
        if (v.refuted > 0) code = CLI_WRONG;
    }
    group_drop(&asked);
    free(v.first);
    json_decref(v.list);
    out_table_free(v.table);
    return code;
}

static void show(void *context, int64_t done, int64_t count)
{
    (void)context;
    out_progress("proving random plans: %lld of %lld", (long long)done, (long long)count);
}

static int check_random(const request *q, bool json)
{
    const shingle_check_options options = {.count = q->random,
                                           .seed = (uint64_t)q->seed,
                                           .max_ranks = (int)q->most_ranks,
                                           .threads = (int)q->threads,
                                           .progress = show};
    shingle_check_report report;
    memset(&report, 0, sizeof report);
    const shingle_status status = shingle_check_random(&options, &report);
    out_progress_end();
    if (status != SHINGLE_OK && report.checked == 0) return out_status(status);
    if (json) {
        out_json(json_pack("{s:s, s:I, s:I, s:I, s:f, s:I, s:s}", "version", shingle_version(),
                           "checked", (json_int_t)report.checked, "violations",
                           (json_int_t)report.violations, "visits", (json_int_t)report.visits,
                           "seconds", report.seconds, "seed", (json_int_t)q->seed, "first",
                           report.first));
    } else {
        printf("%lld random plans, %lld visits, in %.1f s: %s%lld violations%s\n",
               (long long)report.checked, (long long)report.visits, report.seconds,
               out_on(report.violations ? OUT_BAD : OUT_GOOD), (long long)report.violations,
               out_off());
        if (report.first[0] != '\0') printf("first: %s\n", report.first);
    }
    if (report.violations > 0) return CLI_WRONG;
    return status == SHINGLE_OK ? CLI_OK : out_status(status);
}

static int check(const request *q, const args *a)
{
    if (q->random >= 0 && a->words > 0)
        return out_error(CLI_USAGE, "--random draws its own problems; \"%s\" is one too many",
                         a->word[0]);
    if (q->random < 0 && a->words == 0)
        return out_error(CLI_USAGE,
                         "one PROBLEM, such as gemm_rs:bf16:1000x512x384:r7, or --random "
                         "COUNT is needed; see shingle check --help");
    return q->random >= 0 ? check_random(q, a->json) : check_problem(q, a->json);
}

int cmd_check(int argc, char **argv)
{
    request q = {.random = -1, .seed = 1, .most_ranks = 64};
    args_option machine = group_machine_option(
        &q.machine, "machine whose knobs are proposed, a name or a path (plain)");
    machine.without = "random"; /* which draws knobs for no machine */
    const args_option options[] = {
        group_strategy_option(&q.strategy,
                              "one strategy: ring or 'ring{sub=2}'; otherwise all that apply"),
        machine,
        {.name = "random",
         .kind = ARGS_INT,
         .value = &q.random,
         .unit = "COUNT",
         .brief = "prove so many random triples of problem, strategy and knobs",
         .least = 1,
         .most = 1e12,
         .without = "strategy"},
        {.name = "seed",
         .kind = ARGS_INT,
         .value = &q.seed,
         .unit = "S",
         .brief = "of --random (1)",
         .least = 0,
         .most = 9e15,
         .with = "random"},
        {.name = "max-ranks",
         .kind = ARGS_INT,
         .value = &q.most_ranks,
         .unit = "P",
         .brief = "of --random (64)",
         .least = 1,
         .most = 64,
         .with = "random"},
        {.name = "threads",
         .letter = 't',
         .kind = ARGS_INT,
         .value = &q.threads,
         .unit = "N",
         .brief = "of --random (the cores)",
         .least = 1,
         .most = MOST_THREADS,
         .with = "random"},
    };
    const args_command command = {
        .name = "check",
        .brief = "Proves plans: no deadlock, no race, every element right exactly once.",
        .usage = "PROBLEM [options]  or  shingle check --random COUNT [options]",
        .examples = "  shingle check gemm_rs:bf16:1000x512x384:r7\n"
                    "  shingle check ag_gemm:f32:512x1024x768:r4 --strategy ring\n"
                    "  shingle check --random 100000 --max-ranks 64\n",
        .notes = "PROBLEM is OP:TYPE:MxNxK:rRANKS and more (docs/problem.md), or a plan's text.\n",
        .option = options,
        .options = sizeof options / sizeof *options,
        .most_words = 1,
        .words = "one PROBLEM, such as gemm_rs:bf16:1000x512x384:r7,"};
    args a;
    int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO) {
        q.problem = a.words > 0 ? a.word[0] : NULL;
        code = check(&q, &a);
    }
    args_free(&a);
    return code;
}
