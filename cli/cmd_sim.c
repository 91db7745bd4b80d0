/* cmd_sim.c -- `shingle sim`: what strategies cost on a machine, by simulation, and where the time
 * goes.  Nothing runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "drawing.h"
#include "group.h"
#include "out.h"
#include "report.h"

typedef struct request {
    const char *problem, *machine, *strategy;
    bool all, why;
    drawing_file *drawing;
} request;

/* A strategy's best plan, or why it has none. */
typedef struct row {
    char *strategy;
    char *declined; /* NULL if it applies */
    bool chosen;
    shingle_simulation result;
} row;

typedef struct outcome {
    row *row;
    int rows;
    char *plan;   /* the chosen one's text */
    char *reason; /* for it */
    /* What the static rule takes. */
    char *rule_strategy;
    double rule_us;
} outcome;

static void free_table(outcome *t)
{
    for (int i = 0; i < t->rows; i++) {
        free(t->row[i].strategy);
        free(t->row[i].declined);
    }
    free(t->row);
    free(t->plan);
    free(t->reason);
    free(t->rule_strategy);
}

/* ---- Simulating ------------------------------------------------------------------------------ */

/* Is A the name of B without its knobs? */
static bool same_strategy(const char *a, const char *b)
{
    const size_t length = strcspn(a, "{");
    return length == strcspn(b, "{") && strncmp(a, b, length) == 0;
}

/* Does candidate C stand for its strategy rather than KNOWN, which is predicted at BEST? */
static bool replaces(const shingle_candidate *c, const row *known, double best)
{
    if (c->chosen || known->chosen) return c->chosen != 0;
    if (c->declined != NULL) return false;
    return known->declined != NULL || c->predicted_us < best;
}

/* The strategies of PLAN's candidates, each with the chosen knobs or its best predicted ones. */
static void collect(const shingle_plan *plan, bool all, outcome *t)
{
    const int count = shingle_plan_candidates(plan);
    t->row = out_get((size_t)count * sizeof *t->row);
    double *const best = out_get((size_t)count * sizeof *best);
    for (int i = 0; i < count; i++) {
        shingle_candidate c = {.strategy = ""};
        shingle_plan_candidate(plan, i, &c);
        if (!all && !c.chosen) continue;
        int at = 0;
        while (at < t->rows && !same_strategy(t->row[at].strategy, c.strategy)) at++;
        if (at < t->rows && !replaces(&c, &t->row[at], best[at])) continue;
        if (at < t->rows) free(t->row[at].strategy);
        if (at < t->rows) free(t->row[at].declined);
        if (at == t->rows) t->rows++;
        t->row[at] = (row){.strategy = out_copy(c.strategy),
                           .declined = c.declined != NULL ? out_copy(c.declined) : NULL,
                           .chosen = c.chosen != 0};
        best[at] = c.predicted_us;
    }
    free(best);
}

static int simulate(const request *q, const shingle_machine *machine, row *r)
{
    if (r->declined != NULL) return CLI_OK;
    const shingle_plan_options options = {.strategy = r->strategy};
    shingle_plan *plan = NULL;
    shingle_status status = shingle_plan_for(q->problem, machine, &options, &plan);
    if (status == SHINGLE_OK) status = shingle_plan_simulate(plan, machine, &r->result);
    shingle_plan_free(plan);
    return status == SHINGLE_OK ? CLI_OK : out_status(status);
}

/* What the static rule would have taken, and what that is predicted to cost. */
static int ask_rule(const request *q, const shingle_machine *machine, outcome *t)
{
    const shingle_plan_options options = {.choose = "static"};
    shingle_plan *plan = NULL;
    const shingle_status status = shingle_plan_for(q->problem, machine, &options, &plan);
    if (status != SHINGLE_OK) return out_status(status);
    for (int i = 0; i < shingle_plan_candidates(plan); i++) {
        shingle_candidate c = {.strategy = ""};
        shingle_plan_candidate(plan, i, &c);
        if (!c.chosen) continue;
        t->rule_strategy = out_copy(c.strategy);
        t->rule_us = c.predicted_us;
    }
    shingle_plan_free(plan);
    return CLI_OK;
}

static int by_time(const void *a, const void *b)
{
    const row *const x = a;
    const row *const y = b;
    if ((x->declined == NULL) != (y->declined == NULL)) return x->declined == NULL ? -1 : 1;
    const double us = x->result.overlapped_us - y->result.overlapped_us;
    if (us < 0 || us > 0) return us < 0 ? -1 : 1;
    return y->chosen - x->chosen;
}

static int fill(const request *q, const shingle_machine *machine, outcome *t)
{
    const shingle_plan_options options = {.strategy = q->strategy};
    shingle_plan *plan = NULL;
    out_progress("planning %s", q->problem);
    const shingle_status status = shingle_plan_for(q->problem, machine, &options, &plan);
    if (status != SHINGLE_OK) return out_status(status);
    t->plan = out_copy(shingle_plan_text(plan));
    t->reason = out_copy(shingle_plan_reason(plan));
    collect(plan, q->all, t);
    shingle_plan_free(plan);
    int code = CLI_OK;
    for (int i = 0; code == CLI_OK && i < t->rows; i++) {
        out_progress("simulating %d of %d: %s", i + 1, t->rows, t->row[i].strategy);
        code = simulate(q, machine, &t->row[i]);
    }
    /* Where a strategy is asked for, nobody asks the rule. */
    const bool asked = q->strategy != NULL || group_env("SHINGLE_STRATEGY") != NULL;
    if (code == CLI_OK && !asked) code = ask_rule(q, machine, t);
    out_progress_end();
    qsort(t->row, (size_t)t->rows, sizeof *t->row, by_time);
    return code;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static int draw_one(const request *q, const shingle_machine *machine, const char *strategy)
{
    const shingle_plan_options options = {.strategy = strategy};
    shingle_plan *plan = NULL;
    const shingle_status status = shingle_plan_for(q->problem, machine, &options, &plan);
    if (status != SHINGLE_OK) return out_status(status);
    const int code = drawing_predict(q->drawing, plan, machine);
    shingle_plan_free(plan);
    return code;
}

/* What is listed, fastest first; one strategy alone stands below not overlapping. */
static int draw(const request *q, const shingle_machine *machine, const outcome *t)
{
    const char *const serial = shingle_strategy_name(0);
    int code = CLI_OK;
    if (!drawing_wanted(q->drawing)) return CLI_OK;
    if (!q->all && t->rows == 1 && !same_strategy(t->row[0].strategy, serial))
        code = draw_one(q, machine, serial);
    for (int i = 0; i < t->rows && code == CLI_OK; i++)
        if (t->row[i].declined == NULL) code = draw_one(q, machine, t->row[i].strategy);
    return code;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static double bound_of(const shingle_simulation *s)
{
    return s->gemm_us > s->coll_us ? s->gemm_us : s->coll_us;
}

static double hidden_of(const row *r)
{
    const shingle_simulation *const s = &r->result;
    return report_hidden_of(r->strategy, s->gemm_us, s->coll_us, s->hidden);
}

static const row *chosen_of(const outcome *t)
{
    for (int i = 0; i < t->rows; i++)
        if (t->row[i].chosen) return &t->row[i];
    return NULL;
}

static double regret_of(const outcome *t)
{
    const row *const chosen = chosen_of(t);
    const double us = chosen != NULL ? chosen->result.overlapped_us : 0;
    return us > 0 ? t->rule_us / us - 1 : (double)NAN;
}

static json_t *row_json(const row *r)
{
    const shingle_simulation *const s = &r->result;
    if (r->declined != NULL)
        return json_pack("{s:s, s:s, s:b}", "strategy", r->strategy, "declined", r->declined,
                         "chosen", 0);
    return json_pack(
        "{s:s, s:n, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o, s:o}, s:o}",
        "strategy", r->strategy, "declined", "chosen", r->chosen, "gemm_us",
        out_json_real(s->gemm_us), "coll_us", out_json_real(s->coll_us), "serial_us",
        out_json_real(s->serial_us), "overlapped_us", out_json_real(s->overlapped_us), "bound_us",
        out_json_real(bound_of(s)), "hidden", out_json_real(hidden_of(r)), "speedup",
        out_json_real(s->speedup), "efficiency", out_json_real(s->efficiency), "parts",
        "product_us", out_json_real(s->product_us), "decomposition_us",
        out_json_real(s->decomposition_us), "exposed_us", out_json_real(s->exposed_us),
        "contention_us", out_json_real(s->contention_us), "latency_us",
        out_json_real(s->latency_us), "comm_us", out_json_real(s->comm_us));
}

static void print_json(const request *q, const outcome *t)
{
    json_t *const rows = json_array();
    for (int i = 0; i < t->rows; i++) json_array_append_new(rows, row_json(&t->row[i]));
    json_t *const rule =
        t->rule_strategy != NULL
            ? json_pack("{s:s, s:o, s:o}", "strategy", t->rule_strategy, "predicted_us",
                        out_json_real(t->rule_us), "regret", out_json_real(regret_of(t)))
            : json_null();
    out_json(json_pack("{s:s, s:s, s:o, s:s, s:s, s:o, s:o}", "version", shingle_version(),
                       "problem", q->problem, "machine", out_json_text(q->machine), "plan", t->plan,
                       "reason", t->reason, "static", rule, "results", rows));
}

static out_unit unit_of(const outcome *t)
{
    double most = 0;
    for (int i = 0; i < t->rows; i++)
        if (t->row[i].result.overlapped_us > most) most = t->row[i].result.overlapped_us;
    return out_unit_for(most);
}

static void print_times(const outcome *t, out_unit unit)
{
    out_table *const table = out_table_make(
        "<  <strategy >gemm >coll >serial >ours >bound >hidden >speedup >efficiency <");
    for (int i = 0; i < t->rows; i++) {
        const row *const r = &t->row[i];
        out_table_add(table, "%s", r->chosen ? "*" : "");
        out_table_add(table, "%s", r->strategy);
        if (r->chosen) out_table_tone(table, OUT_GOOD);
        if (r->declined != NULL) {
            for (int c = 0; c < 8; c++) out_table_add(table, "-");
            out_table_add(table, "%s", r->declined);
            continue;
        }
        const shingle_simulation *const s = &r->result;
        out_table_time(table, unit, s->gemm_us);
        out_table_time(table, unit, s->coll_us);
        out_table_time(table, unit, s->serial_us);
        out_table_time(table, unit, s->overlapped_us);
        out_table_time(table, unit, bound_of(s));
        out_table_share(table, hidden_of(r));
        out_table_factor(table, s->speedup);
        out_table_share(table, s->efficiency);
        out_table_add(table, "%s", "");
    }
    out_table_print(table, "");
    out_table_free(table);
}

static void add_part(out_table *table, out_unit unit, double us)
{
    out_table_add(table, "%.*f", fabs(us / unit.us) < 10 ? 2 : 1, us / unit.us);
}

static void print_parts(const outcome *t, out_unit unit)
{
    printf(
        "\nwhere the time goes: the undivided product, cutting it up, bytes that nothing hides,\n"
        "what products and communication cost each other, latencies; comm: alone\n\n");
    out_table *const table =
        out_table_make("<  <strategy >ours >product >cutting >exposed >contention >latency >comm");
    for (int i = 0; i < t->rows; i++) {
        const row *const r = &t->row[i];
        if (r->declined != NULL) continue;
        out_table_add(table, "%s", r->chosen ? "*" : "");
        out_table_add(table, "%s", r->strategy);
        if (r->chosen) out_table_tone(table, OUT_GOOD);
        out_table_time(table, unit, r->result.overlapped_us);
        add_part(table, unit, r->result.product_us);
        add_part(table, unit, r->result.decomposition_us);
        add_part(table, unit, r->result.exposed_us);
        add_part(table, unit, r->result.contention_us);
        add_part(table, unit, r->result.latency_us);
        add_part(table, unit, r->result.comm_us);
    }
    out_table_print(table, "");
    out_table_free(table);
}

static void print_text(const request *q, const outcome *t)
{
    const out_unit unit = unit_of(t);
    printf("%s%s%s\n", out_on(OUT_HEAD), t->plan, out_off());
    out_wrap(4, "for %s: %s", q->machine, t->reason);
    if (t->rule_strategy != NULL && isfinite(regret_of(t)))
        out_wrap(4, "static rule: %s, %.1f us, %.1f %% more", t->rule_strategy, t->rule_us,
                 100 * regret_of(t));
    else if (t->rule_strategy != NULL)
        out_wrap(4, "static rule: %s, %.1f us", t->rule_strategy, t->rule_us);
    printf("times in %s, predicted, of the slowest rank\n\n", unit.name);
    print_times(t, unit);
    if (q->why) print_parts(t, unit);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int sim(request *q, bool json)
{
    shingle_shape shape;
    const shingle_status status = shingle_problem_shape(q->problem, 0, &shape);
    if (status != SHINGLE_OK) return out_status(status);
    if (drawing_check(q->drawing, 2) != CLI_OK) return CLI_USAGE;
    if (q->all) group_take_all();
    group g = {.ranks = 0};
    shingle_machine *owned = NULL;
    const shingle_machine *machine = NULL;
    outcome t = {.rows = 0};
    int code = group_model(&q->machine, shape.ranks, &g, &owned, &machine);
    if (code == CLI_OK) code = fill(q, machine, &t);
    if (code == CLI_OK) code = draw(q, machine, &t);
    if (code == CLI_OK) {
        if (json)
            print_json(q, &t);
        else
            print_text(q, &t);
    }
    free_table(&t);
    shingle_machine_free(owned);
    group_close(&g);
    return code;
}

int cmd_sim(int argc, char **argv)
{
    drawing_file drawing = {.path = NULL};
    request q = {.machine = "h200x4", .drawing = &drawing};
    const args_option options[] = {
        group_machine_option(
            &q.machine,
            "a name, a path, here (this computer) or plain (round numbers); default: h200x4"),
        group_strategy_option(&q.strategy,
                              "one strategy: ring or 'ring{sub=2}'; default: the chosen one"),
        {.name = "all",
         .kind = ARGS_FLAG,
         .value = &q.all,
         .brief = "every strategy with its best knobs, and why others have none",
         .without = "strategy"},
        {.name = "why", .kind = ARGS_FLAG, .value = &q.why, .brief = "where the time goes"},
        drawing_option(&drawing),
    };
    const args_command command = {
        .name = "sim",
        .brief = "Simulates a product on a machine, overlapped and not.  Nothing runs.",
        .usage = "PROBLEM [options]",
        .examples = "  shingle sim ag_gemm:bf16:8192x7168x8192:r4 --all\n"
                    "  shingle sim gemm_rs:bf16:8192x8192x3584:r8 --machine h100x8 --all --why\n"
                    "  shingle sim gemm_rs:bf16:8192x8192x7168:r4 --all --timeline rs.svg\n"
                    "  shingle sim gemm_ar:bf16:4096x4096x3584:r4 -m rtx4090x4 -s 'ring{sub=2}'\n",
        .notes = "PROBLEM is OP:TYPE:MxNxK:rRANKS and more (docs/problem.md), or a plan's text.\n",
        .option = options,
        .options = sizeof options / sizeof *options,
        .least_words = 1,
        .most_words = 1,
        .words = GROUP_PROBLEM};
    args a;
    int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO) {
        group_asked asked;
        code = group_ask(a.word[0], q.strategy, q.all ? "all" : NULL, &asked);
        q.problem = asked.problem;
        q.strategy = asked.strategy;
        if (code == CLI_OK) code = sim(&q, a.json);
        code = drawing_end(&drawing, code, a.json);
        group_drop(&asked);
    }
    args_free(&a);
    return code;
}
