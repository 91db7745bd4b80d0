/* cmd_bench.c -- `shingle bench`: a suite of products as a table that explains itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "cli.h"
#include "group.h"
#include "out.h"
#include "report.h"
#include "suite.h"

typedef struct request {
    const char *suite;
    char path[GROUP_PATH];
    const char *strategies, *log;
    int64_t knob_sets;
    bool keep_going;
    /* By SHINGLE_STRATEGY, beside which --strategies are considered all the same. */
    const char *forced;
    group_options where;
    report_options how;
} request;

/* ---- Results --------------------------------------------------------------------------------- */

/* What came of a line of the suite. */
typedef struct outcome {
    bool tried, done;
    char error[320]; /* if it failed */
    shingle_bench_result of;
    shingle_bench_row row[REPORT_ROWS];
} outcome;

typedef struct results {
    outcome *line;
    json_t *groups;   /* what the lines ran on, one for each number of ranks in turn */
    char device[160]; /* the first one's */
    report_budget budget;
    int log; /* -1: not open */
    int64_t wrong;
    int failed, done;
    double log_speedup; /* sum of logarithms, over so many */
    int speedups;
    double mhz[2]; /* least and most while anything was timed; 0: not known */
} results;

static json_t *outcome_json(const request *q, const suite_line *line, const outcome *o)
{
    if (!o->done)
        return json_pack("{s:s, s:o}", "problem", line->problem, "error",
                         o->tried ? out_json_text(o->error) : json_string("not run"));
    json_t *const object = report_json(line->problem, &o->of);
    if (q->strategies != NULL)
        json_object_set_new(object, "strategies", report_rows_json(o->row, o->of.rows));
    return object;
}

static void take(results *all, const outcome *o)
{
    const double mhz = o->of.mhz;
    all->failed += !o->done;
    if (!o->done) return;
    all->done++;
    all->wrong += o->of.wrong;
    if (isfinite(report_speedup(&o->of))) {
        all->log_speedup += log(o->of.speedup);
        all->speedups++;
    }
    if (mhz > 0 && (all->mhz[0] == 0 || mhz < all->mhz[0])) all->mhz[0] = mhz;
    if (mhz > all->mhz[1]) all->mhz[1] = mhz;
}

static double mean_speedup(const results *all)
{
    return all->speedups > 0 ? exp(all->log_speedup / all->speedups) : (double)NAN;
}

/* Opened for its first line: where nothing came to be logged, a log that is there stays. */
static int open_log(const request *q, results *all)
{
    char error[FILE_ERROR];
    if (q->log == NULL || all->log >= 0) return CLI_OK;
    all->log = file_grow(q->log, error);
    return all->log >= 0 ? CLI_OK : out_error(CLI_FAILED, "--log: %s", error);
}

/* A line of its own in the log as soon as it is there, for what does not live to see the end. */
static int log_outcome(const request *q, results *all, const suite_line *line, const outcome *o)
{
    const int code = open_log(q, all);
    if (code != CLI_OK || q->log == NULL) return code;
    char error[FILE_ERROR];
    json_t *const object = outcome_json(q, line, o);
    char *const text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    const bool written = text != NULL ? file_add_line(all->log, q->log, text, error)
                                      : file_fail(error, "%s: no memory for the JSON text", q->log);
    free(text);
    json_decref(object);
    return written ? CLI_OK : out_error(CLI_FAILED, "--log: %s", error);
}

/* ---- Running --------------------------------------------------------------------------------- */

static void print_head(const request *q, const char *device)
{
    printf("# shingle %s\n# device: %s\n# suite: %s; ", shingle_version(), device, q->path);
    if (q->how.seconds > 0) printf("%g s; at most ", q->how.seconds);
    const int64_t iterations = report_iterations(&q->how);
    printf("%lld iteration%s after %lld; seed %lld\n", (long long)iterations,
           iterations == 1 ? "" : "s", (long long)q->how.warmup, (long long)q->how.seed);
}

static void name_device(const group *g, char *name, size_t room)
{
    char cpu[128];
    shingle_device device;
    if (shingle_comm_device(g->comm[0], &device) == SHINGLE_OK && device.name[0] != '\0') {
        snprintf(name, room, "%s", device.name);
        return;
    }
    report_cpu(cpu, sizeof cpu);
    snprintf(name, room, "%s, %ld cores", cpu, sysconf(_SC_NPROCESSORS_ONLN));
}

/* Says what a group is for the problems that follow. */
static void note_group(const request *q, const group *g, const char *type, bool json, results *all)
{
    const bool first = all->device[0] == '\0';
    if (first) name_device(g, all->device, sizeof all->device);
    if (!json && first) print_head(q, all->device);
    if (!json) {
        report_group("# ", g, &q->where, type);
        out_flush();
    }
    json_array_append_new(all->groups, report_group_json(g, &q->where));
}

static int run_line(const request *q, const group *g, const suite_line *line, results *all,
                    outcome *o)
{
    char where[GROUP_PATH + 32];
    snprintf(where, sizeof where, "%s: line %d: ", q->path, line->number);
    const report_case what = {
        .where = where,
        .problem = line->problem,
        .strategy = line->strategy[0] ? line->strategy : q->forced,
        .seconds = report_share(&all->budget, &q->how, line->problem),
        .strategies = q->strategies,
        .knob_sets = q->knob_sets,
        .rows = q->strategies != NULL ? o->row : NULL,
    };
    const int code = report_measure(g, &what, &q->how, &o->of);
    o->tried = true;
    o->done = code == CLI_OK;
    if (!o->done) snprintf(o->error, sizeof o->error, "%s", shingle_error());
    return code;
}

/* A group of the ranks that LINE has. */
static int open_for(const request *q, const suite_line *line, group *g, outcome *o)
{
    if (g->ranks == line->ranks) return CLI_OK;
    group_close(g);
    const int code = group_open(line->ranks, &q->where, g);
    if (code == CLI_OK) return CLI_OK;
    o->tried = true;
    snprintf(o->error, sizeof o->error, "%s", shingle_error());
    return code;
}

/* Every line in turn.  A group in which something failed is not trusted any more. */
static int run_lines(const request *q, const suite *s, bool json, results *all)
{
    group g = {.ranks = 0};
    int code = CLI_OK;
    int failure = CLI_OK;
    const suite_line *noted = NULL; /* the last one whose group was told of */
    for (int i = 0; i < s->lines && code == CLI_OK; i++) {
        const suite_line *const line = &s->line[i];
        out_progress("%d of %d: %s", i + 1, s->lines, line->problem);
        code = open_for(q, line, &g, &all->line[i]);
        const bool is_new =
            noted == NULL || line->ranks != noted->ranks || strcmp(line->type, noted->type) != 0;
        if (code == CLI_OK && is_new) note_group(q, &g, (noted = line)->type, json, all);
        if (code == CLI_OK) code = run_line(q, &g, line, all, &all->line[i]);
        if (code != CLI_OK && q->keep_going) {
            failure = CLI_FAILED; /* but the others are there */
            group_close(&g);
            code = CLI_OK;
        }
        take(all, &all->line[i]);
        if (code == CLI_OK) code = log_outcome(q, all, line, &all->line[i]);
    }
    out_progress_end();
    group_close(&g);
    if (code != CLI_OK && all->done > 0)
        return CLI_FAILED; /* of usage it is no more: much is done */
    return code != CLI_OK ? code : failure;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void add_line(out_table *table, out_unit unit, const suite_line *line, const outcome *o)
{
    out_table_add(table, "%s", line->problem);
    if (!o->done) {
        out_table_add(table, "%s", o->tried ? "failed" : "not run");
        out_table_tone(table, OUT_BAD);
        for (int i = 0; i < 9; i++) out_table_add(table, "%s", "");
        return;
    }
    report_name(table, o->of.strategy);
    report_times(table, unit, &o->of);
    out_table_share(table, report_hidden(&o->of));
    out_table_factor(table, report_speedup(&o->of));
    report_wrong(table, o->of.wrong);
}

/* A strategy beside, below the plan that was chosen. */
static void add_row(out_table *table, out_unit unit, const outcome *o, const shingle_bench_row *row)
{
    const shingle_bench_result *const all = &o->of;
    if (row->us <= 0 && row->wrong == 0) return;
    const double least = all->gemm_us < all->coll_us ? all->gemm_us : all->coll_us;
    const double hidden = (all->gemm_us + all->coll_us - row->us) / least;
    out_table_add(table, "%s", "");
    out_table_add(table, "  %.*s", (int)strcspn(row->strategy, "{"), row->strategy);
    report_row_times(table, unit, row);
    out_table_share(table, row->us > 0
                               ? report_hidden_of(row->strategy, all->gemm_us, all->coll_us, hidden)
                               : (double)NAN);
    out_table_factor(table,
                     row->us > 0 && all->serial_us > 0 ? all->serial_us / row->us : (double)NAN);
    report_wrong(table, row->wrong);
}

static void print_plans(const suite *s, const results *all)
{
    for (int i = 0; i < s->lines; i++) {
        const outcome *const o = &all->line[i];
        if (!o->done) continue;
        printf("# plan %s %s\n", s->line[i].problem, o->of.strategy);
        for (int r = 0; r < o->of.rows; r++)
            if (o->row[r].us > 0)
                printf("#      %s\n", o->row[r].strategy);
            else
                printf("#      %s: %s\n", o->row[r].strategy, o->row[r].declined);
    }
}

static void print_table(const suite *s, const results *all)
{
    double most = 0;
    for (int i = 0; i < s->lines; i++)
        if (all->line[i].of.serial_us > most) most = all->line[i].of.serial_us;
    const out_unit unit = out_unit_for(most);
    report_legend("# ", unit);
    out_table *const table =
        out_table_make("<problem <strategy " REPORT_HEADS " >hidden >speedup >wrong");
    for (int i = 0; i < s->lines; i++) {
        const outcome *const o = &all->line[i];
        add_line(table, unit, &s->line[i], o);
        for (int r = 0; o->done && r < o->of.rows; r++) add_row(table, unit, o, &o->row[r]);
    }
    out_table_print(table, "# ");
    out_table_free(table);
    puts("#");
    print_plans(s, all);
    if (all->mhz[0] > 0)
        printf("# clocks while timed: %.0f to %.0f MHz\n", all->mhz[0], all->mhz[1]);
    if (all->speedups > 0) printf("# mean speedup (geometric): %.3f\n", mean_speedup(all));
    printf("# wrong elements: %lld %s%s%s\n", (long long)all->wrong,
           out_on(all->wrong ? OUT_BAD : OUT_GOOD), all->wrong ? "FAILED" : "OK", out_off());
}

static void print_json(const request *q, const suite *s, results *all)
{
    json_t *const list = json_array();
    for (int i = 0; i < s->lines; i++)
        json_array_append_new(list, outcome_json(q, &s->line[i], &all->line[i]));
    out_json(json_pack(
        "{s:s, s:o, s:o, s:I, s:I, s:o, s:o, s:I, s:O, s:o, s:o, s:i, s:I}", "version",
        shingle_version(), "device", out_json_text(all->device), "suite", out_json_text(q->path),
        "iterations", (json_int_t)report_iterations(&q->how), "warmup", (json_int_t)q->how.warmup,
        "limit_seconds", q->how.seconds > 0 ? out_json_real(q->how.seconds) : json_null(), "choose",
        q->how.choose != NULL ? out_json_text(q->how.choose) : json_null(), "seed",
        (json_int_t)q->how.seed, "groups", all->groups, "results", list, "mean_speedup",
        out_json_real(mean_speedup(all)), "failed", all->failed, "wrong", (json_int_t)all->wrong));
}

/* ---- The command ----------------------------------------------------------------------------- */

/* Does every name of --strategies exist? */
static int check_strategies(const char *list)
{
    const char *names[64];
    int known = 0;
    if (list == NULL || strcmp(list, "all") == 0) return CLI_OK;
    for (; known < 64 && shingle_strategy_name(known) != NULL; known++)
        names[known] = shingle_strategy_name(known);
    for (const char *at = list;; at++) {
        char name[64];
        int i = 0;
        const size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        while (i < known && strcmp(names[i], name) != 0) i++;
        if (i == known && strcmp(name, "all") == 0)
            return out_error(CLI_USAGE,
                             "--strategies is \"%s\"; all stands alone: all, or names of "
                             "strategies are accepted",
                             list);
        if (i == known)
            return out_error(CLI_USAGE,
                             "--strategies: no strategy is called \"%s\"; %sshingle info lists all",
                             name, args_suggest(name, names, known));
        at += length;
        if (*at == '\0') return CLI_OK;
    }
}

static void open_results(const request *q, const suite *s, results *all)
{
    const size_t bytes = (size_t)s->lines * sizeof *all->line;
    const char **const problem = out_get((size_t)s->lines * sizeof *problem);
    all->line = out_get(bytes);
    memset(all->line, 0, bytes);
    for (int i = 0; i < s->lines; i++) problem[i] = s->line[i].problem;
    all->budget = report_plan(&q->how, problem, s->lines);
    free(problem);
}

static int bench(request *q, bool json)
{
    char error[FILE_ERROR];
    suite s;
    int code = report_check(&q->how);
    if (code == CLI_OK) code = check_strategies(q->strategies);
    if (code != CLI_OK) return code;
    if (shingle_file_find(SHINGLE_SUITES, q->suite, q->path, sizeof q->path) != SHINGLE_OK)
        return out_error(CLI_USAGE, "%s", shingle_error());
    if (args_check_log(q->path) != CLI_OK) return CLI_USAGE;
    if (q->log != NULL && !file_check_grow(q->log, error))
        return out_error(CLI_USAGE, "--log: %s", error);
    if (q->log != NULL && file_is_held(q->log, error))
        return out_error(CLI_FAILED, "--log: %s", error);
    if (!suite_read(q->path, &s, error)) return out_error(CLI_USAGE, "%s", error);
    if (drawing_check(q->how.drawing, 2 * s.lines) != CLI_OK) {
        suite_free(&s);
        return CLI_USAGE;
    }
    results all = {.groups = json_array(), .log = -1};
    open_results(q, &s, &all);
    code = run_lines(q, &s, json, &all);
    if (code == CLI_OK || all.done > 0) {
        if (json)
            print_json(q, &s, &all);
        else
            print_table(&s, &all);
        if (code == CLI_OK && all.wrong > 0) code = CLI_WRONG;
    }
    if (all.log >= 0) close(all.log);
    json_decref(all.groups);
    free(all.line);
    suite_free(&s);
    return code;
}

int cmd_bench(int argc, char **argv)
{
    request q = {.suite = "smoke"};
    drawing_file drawing = {.path = NULL};
    enum { OWN = 5 };
    args_option options[OWN + REPORT_OPTIONS] = {
        {.name = "strategies",
         .kind = ARGS_TEXT,
         .value = &q.strategies,
         .unit = "LIST",
         .brief =
             "time these beside the plan, each with its best knobs: all, or names with commas"},
        {.name = "knob-sets",
         .kind = ARGS_INT,
         .value = &q.knob_sets,
         .unit = "N",
         .brief = "with --strategies: knobs of each that are tried, the best predicted first (3)",
         .least = 1,
         .most = 32,
         .with = "strategies"},
        {.name = "keep-going",
         .kind = ARGS_FLAG,
         .value = &q.keep_going,
         .brief = "a problem that fails is named, and the others follow"},
        {.name = "log",
         .kind = ARGS_TEXT,
         .value = &q.log,
         .unit = "FILE",
         .brief = "write each result as a line of JSON as soon as it is there",
         .writes = true},
        drawing_option(&drawing),
    };
    report_add_options(&q.where, &q.how, options + OWN);
    q.how.drawing = &drawing;
    const args_command command = {
        .name = "bench",
        .brief = "Times a suite of products, each against not overlapping, every element compared.",
        .usage = "[SUITE] [options]",
        .examples = "  shingle bench\n"
                    "  shingle bench llama -n 10 --as h200x4\n"
                    "  shingle bench my-problems.txt --json > result.json\n"
                    "  shingle bench h200x2 --backend cuda --choose measure --strategies all "
                    "--seconds 200\n",
        .notes = "SUITE is a name in bench/suites or a path: a text file with PROBLEM [STRATEGY]\n"
                 "on each line; # begins a comment.\n",
        .option = options,
        .options = OWN + REPORT_OPTIONS,
        .most_words = 1,
        .reads_words = true,
        .named_words = ARGS_SUITE,
        .words = "one SUITE, a name or a path,"};
    args a;
    int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO) {
        char *const forced = q.strategies != NULL && group_env("SHINGLE_STRATEGY") != NULL
                                 ? out_copy(group_env("SHINGLE_STRATEGY"))
                                 : NULL;
        q.forced = forced;
        if (forced != NULL) group_take_all();
        if (a.words > 0) q.suite = a.word[0];
        drawing.partial = q.keep_going;
        code = bench(&q, a.json);
        code = drawing_end(&drawing, code, a.json);
        free(forced);
    }
    args_free(&a);
    return code;
}
