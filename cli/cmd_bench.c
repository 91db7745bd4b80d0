/* cmd_bench.c -- `shingle bench`: a suite of products as a table that explains itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
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
    group_options where;
    report_options how;
} request;

/* ---- What stands above the table ------------------------------------------------------------- */

/* The first "model name" of /proc/cpuinfo, or the machine's architecture. */
static void cpu_name(char *name, size_t room)
{
    struct utsname host;
    char line[256];
    snprintf(name, room, "%s", uname(&host) == 0 ? host.machine : "unknown");
    FILE *const info = fopen("/proc/cpuinfo", "r");
    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
        const char *const colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        snprintf(name, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (info != NULL) fclose(info);
}

static void print_head(const request *q)
{
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    printf("# shingle %s\n# device: %s, %ld cores\n", shingle_version(), cpu,
           sysconf(_SC_NPROCESSORS_ONLN));
    printf("# suite: %s; %lld iterations after %lld; seed %lld\n", q->path,
           (long long)q->how.iterations, (long long)q->how.warmup, (long long)q->how.seed);
}

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct results {
    shingle_bench_result *of; /* one per line of the suite */
    json_t *groups;           /* what the lines ran on, one for each number of ranks in turn */
    int64_t wrong;
    double log_speedup; /* sum of logarithms */
} results;

/* Says what a group is for the problems that follow. */
static void note_group(const request *q, const group *g, const char *type, bool json, results *all)
{
    if (!json) {
        report_group("# ", g, &q->where, type);
        fflush(stdout);
    }
    json_array_append_new(all->groups, report_group_json(g, &q->where));
}

static int run_lines(const request *q, const suite *s, bool json, results *all)
{
    group g = {.ranks = 0};
    int code = CLI_OK;
    for (int i = 0; i < s->lines && code == CLI_OK; i++) {
        const suite_line *const line = &s->line[i];
        if (g.ranks != line->ranks) {
            group_close(&g);
            code = group_open(line->ranks, &q->where, &g);
            if (code != CLI_OK) break;
        }
        const bool is_new =
            i == 0 || line->ranks != line[-1].ranks || strcmp(line->type, line[-1].type) != 0;
        if (is_new) note_group(q, &g, line->type, json, all);
        out_progress("%d of %d: %s", i + 1, s->lines, line->problem);
        char where[GROUP_PATH + 32];
        snprintf(where, sizeof where, "%s: line %d: ", q->path, line->number);
        code = report_measure(&g, where, line->problem, line->strategy[0] ? line->strategy : NULL,
                              &q->how, &all->of[i]);
        if (code != CLI_OK) break;
        all->wrong += all->of[i].wrong;
        all->log_speedup += log(all->of[i].speedup);
    }
    out_progress_end();
    group_close(&g);
    return code;
}

static void print_table(const suite *s, const results *all)
{
    double most = 0;
    for (int i = 0; i < s->lines; i++)
        if (all->of[i].serial_us > most) most = all->of[i].serial_us;
    const out_unit unit = out_unit_for(most);
    report_legend("# ", unit);
    out_table *const table =
        out_table_make("<problem <strategy " REPORT_HEADS " >hidden >speedup >wrong");
    for (int i = 0; i < s->lines; i++) {
        out_table_add(table, "%s", s->line[i].problem);
        report_name(table, all->of[i].strategy);
        report_times(table, unit, &all->of[i]);
        out_table_share(table, report_hidden(&all->of[i]));
        out_table_factor(table, all->of[i].speedup);
        report_wrong(table, all->of[i].wrong);
    }
    out_table_print(table, "# ");
    out_table_free(table);
    puts("#");
    for (int i = 0; i < s->lines; i++)
        printf("# plan %s %s\n", s->line[i].problem, all->of[i].strategy);
    printf("# mean speedup (geometric): %.3f\n# wrong elements: %lld %s%s%s\n",
           exp(all->log_speedup / s->lines), (long long)all->wrong,
           out_on(all->wrong ? OUT_BAD : OUT_GOOD), all->wrong ? "FAILED" : "OK", out_off());
}

static void print_json(const request *q, const suite *s, results *all)
{
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    json_t *const list = json_array();
    for (int i = 0; i < s->lines; i++)
        json_array_append_new(list, report_json(s->line[i].problem, &all->of[i]));
    out_json(json_pack(
        "{s:s, s:s, s:o, s:I, s:I, s:I, s:O, s:o, s:o, s:I}", "version", shingle_version(),
        "device", cpu, "suite", out_json_text(q->path), "iterations", (json_int_t)q->how.iterations,
        "warmup", (json_int_t)q->how.warmup, "seed", (json_int_t)q->how.seed, "groups", all->groups,
        "results", list, "mean_speedup", out_json_real(exp(all->log_speedup / s->lines)), "wrong",
        (json_int_t)all->wrong));
}

/* ---- The command ----------------------------------------------------------------------------- */

static int bench(request *q, bool json)
{
    char error[FILE_ERROR];
    suite s;
    int code = group_find("suite", "bench/suites", ".txt", q->suite, q->path, sizeof q->path);
    if (code != CLI_OK) return code;
    if (!suite_read(q->path, &s, error)) return out_error(CLI_USAGE, "%s", error);
    if (drawing_check(q->how.drawing, 2 * s.lines) != CLI_OK) {
        suite_free(&s);
        return CLI_USAGE;
    }
    results all = {.of = out_get((size_t)s.lines * sizeof *all.of), .groups = json_array()};
    if (!json) print_head(q);
    code = run_lines(q, &s, json, &all);
    if (code == CLI_OK) {
        if (json)
            print_json(q, &s, &all);
        else
            print_table(&s, &all);
        if (all.wrong > 0) code = CLI_WRONG;
    }
    json_decref(all.groups);
    free(all.of);
    suite_free(&s);
    return code;
}

int cmd_bench(int argc, char **argv)
{
    request q = {.suite = "smoke"};
    drawing_file drawing = {.path = NULL};
    args_option options[REPORT_OPTIONS + 1];
    report_add_options(&q.where, &q.how, options);
    options[REPORT_OPTIONS] = drawing_option(&drawing);
    q.how.drawing = &drawing;
    const args_command command = {
        .name = "bench",
        .brief = "Times a suite of products, each against not overlapping, every element compared.",
        .usage = "[SUITE] [options]",
        .examples = "  shingle bench\n"
                    "  shingle bench llama -n 10 --as h200x4\n"
                    "  shingle bench my-problems.txt --json > result.json\n",
        .notes = "SUITE is a name in bench/suites or a path: a text file with PROBLEM [STRATEGY]\n"
                 "on each line; # begins a comment.\n",
        .option = options,
        .options = REPORT_OPTIONS + 1,
        .most_words = 1,
        .words = "one SUITE, a name or a path,"};
    args a;
    int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO) {
        if (a.words > 0) q.suite = a.word[0];
        code = bench(&q, a.json);
        code = drawing_end(&drawing, code, a.json);
    }
    args_free(&a);
    return code;
}
