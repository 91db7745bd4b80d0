/* cmd_tune.c -- `shingle tune`: times the best plans of products and keeps the fastest in a file
 * that later groups read (docs/tuning.md). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"
#include "cli.h"
#include "config.h"
#include "file.h"
#include "group.h"
#include "out.h"

typedef struct request {
    const char *const *word;
    int words;
    const char *model, *type, *pass;
    config_options config;
    group_options where;
    const char *level;
    double seconds;
} request;

/* One product and what came of it. */
typedef struct entry {
    char *problem; /* as the library spells it, and the file has it */
    char *strategy;
    double serial_us, best_us;
    int timed;
} entry;

typedef struct job {
    entry *entry;
    int entries;
} job;

static void free_job(job *j)
{
    for (int i = 0; i < j->entries; i++) {
        free(j->entry[i].problem);
        free(j->entry[i].strategy);
    }
    free(j->entry);
}

/* ---- What is tuned --------------------------------------------------------------------------- */

/* PROBLEM as the library spells it: the first word of a plan. */
static int spell(const char *problem, char **spelled_out)
{
    const shingle_plan_options options = {.strategy = "serial"};
    shingle_plan *plan = NULL;
    const shingle_status status = shingle_plan_for(problem, NULL, &options, &plan);
    if (status != SHINGLE_OK) return out_status(status);
    *spelled_out = out_copy(shingle_plan_text(plan));
    (*spelled_out)[strcspn(*spelled_out, " ")] = '\0';
    shingle_plan_free(plan);
    return CLI_OK;
}

static int add_problem(job *j, const char *problem, int *ranks)
{
    shingle_shape shape;
    const shingle_status status = shingle_problem_shape(problem, 0, &shape);
    if (status != SHINGLE_OK) return out_status(status);
    if (j->entries > 0 && shape.ranks != *ranks)
        return out_error(CLI_USAGE,
                         "%s has %d ranks, %s %d; one number of ranks is tuned at a time",
                         j->entry[0].problem, *ranks, problem, shape.ranks);
    if (shape.is_call)
        return out_error(CLI_USAGE, "%s: a call is not timed; a problem without call= is accepted",
                         problem);
    *ranks = shape.ranks;
    char *spelled = NULL;
    const int code = spell(problem, &spelled);
    if (code != CLI_OK) return code;
    int i = 0;
    while (i < j->entries && strcmp(j->entry[i].problem, spelled) != 0) i++;
    if (i == j->entries)
        j->entry[j->entries++] = (entry){.problem = spelled};
    else
        free(spelled); /* once is enough */
    return CLI_OK;
}

static int collect(const request *q, job *j, int *ranks)
{
    j->entry = out_get(((size_t)q->words + CONFIG_PRODUCTS) * sizeof *j->entry);
    for (int i = 0; i < q->words; i++) {
        const int code = add_problem(j, q->word[i], ranks);
        if (code != CLI_OK) return code;
    }
    if (q->model == NULL) return CLI_OK;
    char path[GROUP_PATH];
    char error[FILE_ERROR];
    config_model model;
    if (shingle_file_find(SHINGLE_MODELS, q->model, path, sizeof path) != SHINGLE_OK)
        return out_error(CLI_USAGE, "%s", shingle_error());
    if (!config_read(path, &q->config, &model, error)) return out_error(CLI_USAGE, "%s", error);
    for (int i = 0; i < model.products; i++) {
        const int code = add_problem(j, model.product[i].problem, ranks);
        if (code != CLI_OK) return code;
    }
    return CLI_OK;
}

/* ---- Tuning ---------------------------------------------------------------------------------- */

static void take_result(const shingle_plan *plan, entry *e)
{
    for (int i = 0; i < shingle_plan_candidates(plan); i++) {
        shingle_candidate c = {.strategy = ""};
        shingle_plan_candidate(plan, i, &c);
        e->timed += c.measured_us > 0;
        if (i == 0) e->serial_us = c.measured_us;
        if (!c.chosen) continue;
        e->best_us = c.measured_us;
        e->strategy = out_copy(c.strategy);
    }
}

/* Before anything is timed: does the strategy that the environment asks for do all products? */
static int check_strategy(const group *g, const job *j)
{
    if (group_env("SHINGLE_STRATEGY") == NULL) return CLI_OK;
    for (int i = 0; i < j->entries; i++) {
        shingle_plan *plan = NULL;
        const shingle_status status =
            shingle_plan_for(j->entry[i].problem, shingle_comm_machine(g->comm[0]), NULL, &plan);
        if (status != SHINGLE_OK)
            return out_error(out_code(status), "%s: %s", j->entry[i].problem, shingle_error());
        shingle_plan_free(plan);
    }
    return CLI_OK;
}

static int tune_all(const request *q, const group *g, job *j)
{
    const shingle_plan_options options = {.level = q->level, .measure_seconds = q->seconds};
    for (int i = 0; i < j->entries; i++) {
        entry *const e = &j->entry[i];
        shingle_plan *plan = NULL;
        out_progress("%d of %d: %s", i + 1, j->entries, e->problem);
        const shingle_status status = shingle_tune(g->comm[0], e->problem, &options, &plan);
        out_progress_end();
        /* What is wrong with the level or the file shows at the first product, before it is timed;
         * whatever comes later has been tried: it could not be kept, or was slower than serial. */
        if (status != SHINGLE_OK)
            return out_error(status == SHINGLE_EINVAL && i == 0 ? CLI_USAGE : CLI_FAILED, "%s: %s",
                             e->problem, shingle_error());
        take_result(plan, e);
        shingle_plan_free(plan);
    }
    return CLI_OK;
}

static double speedup_of(const entry *e)
{
    return e->best_us > 0 && e->serial_us > 0 ? e->serial_us / e->best_us : 1;
}

static void print_json(const request *q, const job *j)
{
    json_t *const list = json_array();
    for (int i = 0; i < j->entries; i++) {
        const entry *const e = &j->entry[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:i}", "problem",
                                              e->problem, "strategy", e->strategy, "measured_us",
                                              out_json_real(e->best_us), "serial_us",
                                              out_json_real(e->serial_us), "speedup",
                                              out_json_real(speedup_of(e)), "timed", e->timed));
    }
    out_json(json_pack("{s:s, s:o, s:o}", "version", shingle_version(), "plans",
                       q->where.plans ? out_json_text(q->where.plans) : json_null(), "results",
                       list));
}

static void print_text(const request *q, const job *j)
{
    double most = 0;
    for (int i = 0; i < j->entries; i++)
        if (j->entry[i].serial_us > most) most = j->entry[i].serial_us;
    const out_unit unit = out_unit_for(most);
    char heads[80];
    snprintf(heads, sizeof heads, "<problem >serial_%s >best_%s >speedup >timed <strategy",
             unit.name, unit.name);
    out_table *const table = out_table_make(heads);
    for (int i = 0; i < j->entries; i++) {
        const entry *const e = &j->entry[i];
        out_table_add(table, "%s", e->problem);
        out_table_time(table, unit, e->serial_us);
        out_table_time(table, unit, e->best_us);
        out_table_factor(table, speedup_of(e));
        out_table_add(table, "%d", e->timed);
        out_table_add(table, "%s", e->strategy);
    }
    out_table_print(table, "");
    out_table_free(table);
    if (q->where.plans != NULL)
        printf("\n%d plan%s kept in %s\n", j->entries, j->entries == 1 ? "" : "s", q->where.plans);
    else
        printf("\nnot kept: name a file with --plans or in SHINGLE_PLANS\n");
}

/* ---- The command ----------------------------------------------------------------------------- */

/* The file that is written: that of --plans, or the environment's. */
static void name_plans(request *q)
{
    if (q->where.plans == NULL) q->where.plans = group_env("SHINGLE_PLANS");
}

/* Told before anything is measured, not after: the file, and its lock, which the library makes
 * beside the file itself, not beside a link to it. */
static int check_plans(const request *q)
{
    char target[FILE_PATH];
    char lock[FILE_PATH + 8];
    char error[FILE_ERROR];
    struct stat there;
    if (q->where.plans == NULL) return CLI_OK;
    if (stat(q->where.plans, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode))
        return out_error(CLI_USAGE, "--plans: %s is not a regular file; plans are kept in one",
                         q->where.plans);
    if (!file_check(q->where.plans, error)) return out_error(CLI_USAGE, "--plans: %s", error);
    if (!file_follow(q->where.plans, target)) return CLI_OK;
    snprintf(lock, sizeof lock, "%s.lock", target);
    const int file = open(lock, O_RDWR | O_CLOEXEC);
    if (file < 0 && errno != ENOENT)
        return out_error(CLI_USAGE, "--plans: the lock %s cannot be written: %s", lock,
                         strerror(errno));
    if (file >= 0) close(file);
    return CLI_OK;
}

/* One that times nothing, as plans know it too, leaves nothing to keep. */
static int check_level(const char *level)
{
    if (level == NULL || strcmp(level, "measure") == 0 || strcmp(level, "patient") == 0 ||
        strcmp(level, "exhaustive") == 0)
        return CLI_OK;
    return out_error(CLI_USAGE, "--level is \"%.60s\"; measure, patient or exhaustive is accepted",
                     level);
}

static int tune(request *q, bool json)
{
    int ranks = 0;
    job j = {.entries = 0};
    group g = {.ranks = 0};
    if (q->words == 0 && q->model == NULL)
        return out_error(CLI_USAGE, "PROBLEMs or --model FILE are needed; see shingle tune --help");
    if (q->words > 0 && q->model != NULL)
        return out_error(CLI_USAGE, "%s beside --model %s; PROBLEMs or --model are accepted",
                         q->word[0], q->model);
    if (q->model != NULL && q->config.ranks == 0)
        return out_error(CLI_USAGE, "--tp is missing: the number of ranks, 1 to 64");
    if (q->model != NULL && q->config.tokens == 0)
        return out_error(CLI_USAGE,
                         "--tokens is missing: how many rows go through the layer, such as 512");
    if (!config_pass_of(q->pass, &q->config.pass))
        return out_error(CLI_USAGE, "--pass is \"%s\"; forward, backward or train is accepted",
                         q->pass);
    q->config.type = q->type;
    name_plans(q);
    int code = check_level(q->level);
    if (code == CLI_OK) code = collect(q, &j, &ranks);
    if (code == CLI_OK) code = check_plans(q);
    if (code == CLI_OK) code = group_open(ranks, &q->where, &g);
    if (code == CLI_OK) code = check_strategy(&g, &j);
    if (code == CLI_OK) code = tune_all(q, &g, &j);
    group_close(&g);
    if (code == CLI_OK) {
        if (json)
            print_json(q, &j);
        else
            print_text(q, &j);
    }
    free_job(&j);
    return code;
}

enum { OWN = 10, OPTIONS = OWN + GROUP_OPTIONS };

static void make_options(request *q, args_option *list)
{
    const args_option options[OWN] = {
        {.name = "level",
         .kind = ARGS_TEXT,
         .value = &q->level,
         .unit = "L",
         .brief =
             "measure (3 plans, 5 s: the default), patient (8, 20 s), exhaustive (all, 120 s)"},
        {.name = "seconds",
         .kind = ARGS_REAL,
         .value = &q->seconds,
         .unit = "S",
         .brief = "limit for each product (the level's)",
         .least = 0.001,
         .most = 3600},
        {.name = "plans",
         .kind = ARGS_TEXT,
         .value = &q->where.plans,
         .unit = "FILE",
         .brief = "file of tuned plans, read and added to (SHINGLE_PLANS)",
         .writes = true,
         .env = "SHINGLE_PLANS"},
        {.name = "model",
         .kind = ARGS_TEXT,
         .value = &q->model,
         .unit = "CONFIG",
         .brief = "tune the products of a model's layer: its config.json",
         .reads = true,
         .named = ARGS_MODEL},
        {.name = "tp",
         .kind = ARGS_INT,
         .value = &q->config.ranks,
         .unit = "P",
         .brief = "with --model: ranks that share a layer",
         .least = 1,
         .most = 64,
         .with = "model"},
        {.name = "tokens",
         .kind = ARGS_INT,
         .value = &q->config.tokens,
         .unit = "T",
         .brief = "with --model: rows that go through the layer",
         .least = 1,
         .most = 1 << 30,
         .with = "model"},
        {.name = "pass",
         .kind = ARGS_TEXT,
         .value = &q->pass,
         .unit = "WHICH",
         .brief = "with --model: forward, backward or train (forward)",
         .with = "model"},
        {.name = "type",
         .kind = ARGS_TEXT,
         .value = &q->type,
         .unit = "TYPE",
         .brief = "with --model: f32, bf16 or f16 (the model's)",
         .with = "model"},
        {.name = "ar",
         .kind = ARGS_FLAG,
         .value = &q->config.all_reduce,
         .brief = "with --model: all-reduce instead of scattering and gathering",
         .with = "model"},
        {.name = "apart",
         .kind = ARGS_FLAG,
         .value = &q->config.apart,
         .brief = "with --model: weights that share a gather apart, as shingle model --apart has",
         .with = "model"},
    };
    memcpy(list, options, sizeof options);
    group_add_options(&q->where, list + OWN);
}

int cmd_tune(int argc, char **argv)
{
    request q = {.pass = "forward"};
    args_option options[OPTIONS];
    make_options(&q, options);
    const args_command command = {
        .name = "tune",
        .brief = "Times the best predicted plans of products and keeps the fastest in a file.",
        .usage = "PROBLEM... [options], or --model CONFIG.json [options]",
        .examples = "  shingle tune gemm_rs:f32:512x1024x768:r4 --plans my.plans\n"
                    "  shingle tune --model llama-3-8b --tp 4 --tokens 512 --plans my.plans\n"
                    "  SHINGLE_PLANS=my.plans shingle run gemm_rs:f32:512x1024x768:r4\n",
        .notes =
            "Groups that open with SHINGLE_PLANS take what was tuned on such a machine, and its\n"
            "neighbours in m.\n",
        .option = options,
        .options = OPTIONS,
        .most_words = ARGS_MAX_WORDS,
        .words = "PROBLEMs"};
    args a;
    int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO) {
        q.word = a.word;
        q.words = a.words;
        code = tune(&q, a.json);
    }
    args_free(&a);
    return code;
}
