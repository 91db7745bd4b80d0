/* cmd_plan.c -- `shingle plan`: chooses a plan for a machine and says why.  Nothing runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "group.h"
#include "out.h"
#include "report.h"

typedef struct request {
    const char *problem, *machine, *strategy, *choose, *level;
    bool why;
    bool reproducible;
    int64_t schedule; /* rank, or -1 */
} request;

static int ranks_of(const shingle_plan *plan)
{
    int ranks = 0;
    while (shingle_plan_schedule(plan, ranks, NULL, 0) >= 0) ranks++;
    return ranks;
}

/* The schedule's text; NULL, after a message, if the plan has no such rank. */
static char *schedule_of(const shingle_plan *plan, int64_t rank)
{
    const int64_t length = rank <= 1023 ? shingle_plan_schedule(plan, (int)rank, NULL, 0) : -1;
    if (length < 0) {
        const int ranks = ranks_of(plan);
        if (ranks > 1)
            out_error(CLI_USAGE, "--schedule %lld: the plan has ranks 0 to %d", (long long)rank,
                      ranks - 1);
        else
            out_error(CLI_USAGE, "--schedule %lld: the plan has rank 0 alone", (long long)rank);
        return NULL;
    }
    char *const text = out_get((size_t)length + 1);
    shingle_plan_schedule(plan, (int)rank, text, (size_t)length + 1);
    return text;
}

static shingle_candidate candidate_at(const shingle_plan *plan, int index)
{
    shingle_candidate candidate = {.strategy = ""};
    shingle_plan_candidate(plan, index, &candidate);
    return candidate;
}

/* Index of the chosen candidate, -1 if none is known (a plan from its text). */
static int chosen_of(const shingle_plan *plan)
{
    for (int i = 0; i < shingle_plan_candidates(plan); i++)
        if (candidate_at(plan, i).chosen) return i;
    return -1;
}

static double serial_us(const shingle_plan *plan)
{
    for (int i = 0; i < shingle_plan_candidates(plan); i++) {
        const shingle_candidate c = candidate_at(plan, i);
        if (strncmp(c.strategy, "serial", 6) == 0 && c.declined == NULL) return c.predicted_us;
    }
    return 0;
}

/* ---- JSON and text --------------------------------------------------------------------------- */

/* A time that is not known is null. */
static json_t *known(double us)
{
    return us > 0 ? json_real(us) : json_null();
}

/* IDLE: there is nothing to do, which takes no time. */
static json_t *predicted(const shingle_candidate *c, bool idle)
{
    return idle && c->declined == NULL ? json_real(0) : known(c->predicted_us);
}

static void print_json(const shingle_plan *plan, const request *q, const char *schedule)
{
    json_t *const candidates = json_array();
    const int chosen = chosen_of(plan);
    shingle_candidate ours = {0};
    if (chosen >= 0) ours = candidate_at(plan, chosen);
    const bool idle = chosen >= 0 && !(ours.predicted_us > 0); /* the plan's own is always known */
    for (int i = 0; i < shingle_plan_candidates(plan); i++) {
        const shingle_candidate c = candidate_at(plan, i);
        json_array_append_new(
            candidates, json_pack("{s:s, s:s?, s:o, s:o, s:b}", "strategy", c.strategy, "declined",
                                  c.declined, "predicted_us", predicted(&c, idle), "measured_us",
                                  known(c.measured_us), "chosen", c.chosen != 0));
    }
    json_t *const object =
        json_pack("{s:s, s:s, s:o, s:s, s:s, s:o, s:o}", "version", shingle_version(), "problem",
                  q->problem, "machine", q->machine ? out_json_text(q->machine) : json_null(),
                  "plan", shingle_plan_text(plan), "reason", shingle_plan_reason(plan),
                  "predicted_us", predicted(&ours, idle), "candidates", candidates);
    if (schedule != NULL) json_object_set_new(object, "schedule", json_string(schedule));
    out_json(object);
}

static int by_time(const void *a, const void *b)
{
    const shingle_candidate *const x = a;
    const shingle_candidate *const y = b;
    if ((x->declined == NULL) != (y->declined == NULL)) return x->declined == NULL ? -1 : 1;
    if ((x->predicted_us > 0) != (y->predicted_us > 0)) return x->predicted_us > 0 ? -1 : 1;
    return (x->predicted_us > y->predicted_us) - (x->predicted_us < y->predicted_us);
}

static bool is_measured(const shingle_plan *plan)
{
    const int chosen = chosen_of(plan);
    return chosen >= 0 && candidate_at(plan, chosen).measured_us > 0;
}

static void print_why(const shingle_plan *plan)
{
    const int count = shingle_plan_candidates(plan);
    const double serial = serial_us(plan);
    shingle_candidate *const list = out_get((size_t)count * sizeof *list);
    double most = 0;
    for (int i = 0; i < count; i++) {
        list[i] = candidate_at(plan, i);
        if (list[i].predicted_us > most) most = list[i].predicted_us;
    }
    qsort(list, (size_t)count, sizeof *list, by_time);
    const out_unit unit = out_unit_for(most);
    char heads[80];
    const bool measured = is_measured(plan);
    snprintf(heads, sizeof heads, "<  <strategy >predicted_%s%s >speedup <why_not", unit.name,
             measured ? " >measured" : "");
    out_table *const table = out_table_make(heads);
    for (int i = 0; i < count; i++) {
        const shingle_candidate *const c = &list[i];
        out_table_add(table, "%s", c->chosen ? "*" : "");
        out_table_add(table, "%s", c->strategy);
        if (c->chosen) out_table_tone(table, OUT_GOOD);
        out_table_time(table, unit, c->declined ? 0 : c->predicted_us);
        if (measured) out_table_time(table, unit, c->measured_us);
        if (c->declined || serial <= 0 || c->predicted_us <= 0)
            out_table_add(table, "-");
        else
            out_table_factor(table, serial / c->predicted_us);
        out_table_add(table, "%s", c->declined ? c->declined : "");
    }
    putchar('\n');
    out_table_print(table, "");
    out_table_free(table);
    free(list);
}

static void print_text(const shingle_plan *plan, const request *q, const char *schedule)
{
    printf("%s%s%s\n", out_on(OUT_HEAD), shingle_plan_text(plan), out_off());
    if (q->machine != NULL) out_wrap(4, "for %s: %s", q->machine, shingle_plan_reason(plan));
    if (q->why && shingle_plan_candidates(plan) > 0) print_why(plan);
    if (schedule != NULL) {
        putchar('\n');
        out_text(schedule);
    }
}

/* ---- The command ----------------------------------------------------------------------------- */

static int print_plan(const shingle_plan *plan, const request *q, bool json)
{
    char *schedule = NULL;
    if (q->schedule >= 0) {
        schedule = schedule_of(plan, q->schedule);
        if (schedule == NULL) return CLI_USAGE;
    }
    if (json)
        print_json(plan, q, schedule);
    else
        print_text(plan, q, schedule);
    free(schedule);
    return CLI_OK;
}

/* Only ranks of this computer can be timed.  Words that are unknown are left to the library. */
static int check_measuring(const request *q)
{
    const char *const level = q->level;
    const bool measures = q->choose != NULL ? strcmp(q->choose, "measure") == 0 : level != NULL;
    const bool times = level == NULL || strcmp(level, "measure") == 0 ||
                       strcmp(level, "patient") == 0 || strcmp(level, "exhaustive") == 0;
    if (!measures || !times || strcmp(q->machine, "here") == 0) return CLI_OK;
    const char *const option = q->choose != NULL ? "choose" : "level";
    return out_error(CLI_USAGE,
                     "--%s %s times plans on ranks of this computer; with --machine %.60s none "
                     "run: --machine here is accepted",
                     option, q->choose != NULL ? q->choose : level, q->machine);
}

static int plan_for(request *q, bool json)
{
    shingle_shape shape;
    shingle_plan *plan = NULL;
    if (q->machine == NULL) q->machine = "h200x4";
    shingle_status status = shingle_problem_shape(q->problem, 0, &shape);
    if (status != SHINGLE_OK) return out_status(status);
    if (check_measuring(q) != CLI_OK) return CLI_USAGE;
    if (report_check_forced(q->strategy, q->choose) != CLI_OK) return CLI_USAGE;

    group g = {.ranks = 0};
    shingle_machine *owned = NULL;
    const shingle_machine *machine = NULL;
    int code = group_model(&q->machine, shape.ranks, &g, &owned, &machine);
    if (code == CLI_OK) {
        const shingle_plan_options options = {.strategy = q->strategy,
                                              .choose = q->choose,
                                              .level = q->level,
                                              .reproducible = q->reproducible};
        out_progress("planning %s", q->problem);
        /* Ranks that exist may be timed, and know what was tuned. */
        status = g.ranks > 0 ? shingle_plan_create(g.comm[0], q->problem, &options, &plan)
                             : shingle_plan_for(q->problem, machine, &options, &plan);
        out_progress_end();
        code = status == SHINGLE_OK ? print_plan(plan, q, json) : out_status(status);
    }
    shingle_plan_free(plan);
    shingle_machine_free(owned);
    group_close(&g);
    return code;
}

/* An option that has a say in what is chosen: a plan's own text leaves nothing to choose. */
static const char *choosing_option(const request *q)
{
    return q->machine != NULL  ? "machine"
           : q->choose != NULL ? "choose"
           : q->level != NULL  ? "level"
           : q->reproducible   ? "reproducible"
           : q->why            ? "why"
                               : NULL;
}

static int plan_word(request *q, const char *word, bool json)
{
    group_asked asked;
    int code = group_ask(word, q->strategy, choosing_option(q), &asked);
    q->problem = asked.problem;
    if (code == CLI_OK)
        code = asked.plan != NULL ? print_plan(asked.plan, q, json) : plan_for(q, json);
    group_drop(&asked);
    return code;
}

int cmd_plan(int argc, char **argv)
{
    request q = {.schedule = -1};
    const args_option options[] = {
        group_machine_option(
            &q.machine,
            "a name, a path, here (this computer) or plain (round numbers); default: h200x4"),
        {.name = "why",
         .kind = ARGS_FLAG,
         .value = &q.why,
         .brief = "all that was considered, and why not"},
        group_strategy_option(&q.strategy, "force one: ring or 'ring{sub=2}'"),
        {.name = "choose",
         .letter = 'c',
         .kind = ARGS_TEXT,
         .value = &q.choose,
         .unit = "HOW",
         .brief = "static, predict (the default) or measure, which needs --machine here"},
        {.name = "level",
         .kind = ARGS_TEXT,
         .value = &q.level,
         .unit = "L",
         .brief = "of measuring: estimate, measure, patient or exhaustive; as --choose measure"},
        {.name = "reproducible",
         .kind = ARGS_FLAG,
         .value = &q.reproducible,
         .brief = "only plans of which all give a row the same bits"},
        {.name = "schedule",
         .kind = ARGS_INT,
         .value = &q.schedule,
         .unit = "RANK",
         .brief = "print the steps of one rank",
         .least = 0,
         .most = 1023},
    };
    const args_command command = {
        .name = "plan",
        .brief = "Chooses how to run a product on a machine, and says why.  Nothing runs.",
        .usage = "PROBLEM [options]",
        .examples = "  shingle plan ag_gemm:bf16:8192x7168x8192:r4\n"
                    "  shingle plan gemm_rs:bf16:8192x8192x7168:r4 --why --machine h200x4\n"
                    "  shingle plan gemm_ar:f32:512x1024x768:r4 --strategy serial --schedule 0\n",
        .notes = "PROBLEM is OP:TYPE:MxNxK:rRANKS and more (docs/problem.md), or a plan's text.\n",
        .option = options,
        .options = sizeof options / sizeof *options,
        .least_words = 1,
        .most_words = 1,
        .words = GROUP_PROBLEM};
    args a;
    int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO) code = plan_word(&q, a.word[0], a.json);
    args_free(&a);
    return code;
}
