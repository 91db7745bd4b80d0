/* report.c -- see report.h. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

void report_add_options(group_options *where, report_options *how, args_option *list)
{
    *how = (report_options){.iterations = 5, .warmup = 1, .seed = 1};
    const args_option options[REPORT_OPTIONS] = {
        {.name = "measure",
         .kind = ARGS_INT,
         .value = &how->measure,
         .unit = "N",
         .brief = "let the planner time its N best before it chooses",
         .least = 0,
         .most = 64},
        {.name = "iters",
         .letter = 'n',
         .kind = ARGS_INT,
         .value = &how->iterations,
         .unit = "N",
         .brief = "timed runs of each kind (5)",
         .least = 1,
         .most = 1e6},
        {.name = "warmup",
         .letter = 'w',
         .kind = ARGS_INT,
         .value = &how->warmup,
         .unit = "N",
         .brief = "runs before them (1)",
         .least = 0,
         .most = 1e6},
        {.name = "seed",
         .kind = ARGS_INT,
         .value = &how->seed,
         .unit = "S",
         .brief = "of the data (1)",
         .least = 0,
         .most = 9e15},
        {.name = "as",
         .kind = ARGS_TEXT,
         .value = &where->as,
         .unit = "MACHINE",
         .brief = "be a scale model of a machine: links held back to its ratio"},
        {.name = "rows-scale",
         .kind = ARGS_REAL,
         .value = &where->rows_scale,
         .unit = "X",
         .brief = "with --as: rows there that one row here stands for (16)",
         .least = 0.001,
         .most = 1e6},
        {.name = "threads",
         .kind = ARGS_INT,
         .value = &where->threads,
         .unit = "N",
         .brief = "worker threads (the cores)",
         .least = 1,
         .most = 1024},
        {.name = "backend",
         .kind = ARGS_TEXT,
         .value = &where->backend,
         .unit = "NAME",
         .brief = "cpu"},
    };
    memcpy(list, options, sizeof options);
}

int report_measure(const group *g, const char *where, const char *problem, const char *strategy,
                   const report_options *options, shingle_bench_result *result_out)
{
    shingle_timeline *both[2] = {NULL, NULL};
    const bool drawn = drawing_wanted(options->drawing);
    const shingle_bench_options bench = {.strategy = strategy,
                                         .measure = (int)options->measure,
                                         .iterations = (int)options->iterations,
                                         .warmup = (int)options->warmup,
                                         .seed = (uint64_t)options->seed,
                                         .timelines_out = drawn ? both : NULL};
    const shingle_status status = shingle_bench(g->ranks, g->comm, problem, &bench, result_out);
    for (int i = 0; drawn && i < 2; i++) drawing_take(options->drawing, both[i]);
    if (status == SHINGLE_OK) return CLI_OK;
    return out_error(out_code(status), "%s%s", where, shingle_error());
}

double report_bound(const shingle_bench_result *result)
{
    return result->gemm_us > result->coll_us ? result->gemm_us : result->coll_us;
}

double report_hidden(const shingle_bench_result *result)
{
    return result->gemm_us > 0 && result->coll_us > 0 ? result->hidden : (double)NAN;
}

json_t *report_json(const char *problem, const shingle_bench_result *result)
{
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "problem", problem, "strategy",
        result->strategy, "gemm_us", out_json_real(result->gemm_us), "coll_us",
        out_json_real(result->coll_us), "serial_us", out_json_real(result->serial_us),
        "overlapped_us", out_json_real(result->overlapped_us), "predicted_us",
        out_json_real(result->predicted_us), "hidden", out_json_real(report_hidden(result)),
        "speedup", out_json_real(result->speedup), "efficiency", out_json_real(result->efficiency),
        "wrong", (json_int_t)result->wrong);
}

void report_times(out_table *table, out_unit unit, const shingle_bench_result *result)
{
    out_table_time(table, unit, result->gemm_us);
    out_table_time(table, unit, result->coll_us);
    out_table_time(table, unit, result->serial_us);
    out_table_time(table, unit, result->overlapped_us);
    out_table_time(table, unit, result->predicted_us);
}

void report_wrong(out_table *table, int64_t wrong)
{
    out_table_add(table, "%lld", (long long)wrong);
    out_table_tone(table, wrong ? OUT_BAD : OUT_GOOD);
}

void report_name(out_table *table, const char *strategy)
{
    out_table_add(table, "%.*s", (int)strcspn(strategy, "{"), strategy);
}

void report_legend(const char *prefix, out_unit unit)
{
    printf("%stimes in %s, medians of the slowest rank; serial: gemm, then coll; pred: predicted\n"
           "%sfor ours; hidden: (gemm + coll - ours) / min(gemm, coll); speedup: serial / ours\n",
           prefix, unit.name, prefix);
}

/* What a scale model is made of: rates per type, links and latencies, here and there. */
typedef struct scale {
    double here_tflops, there_tflops;
    double link_gbps, copy_us, flag_us; /* there */
} scale;

static double number_of(const shingle_machine *machine, const char *key)
{
    char line[80];
    return group_machine_line(machine, key, line, sizeof line) ? strtod(line, NULL) : 0;
}

static bool scale_of(const shingle_machine *here, const char *as, const char *type, scale *s)
{
    shingle_machine *there = NULL;
    char key[32];
    snprintf(key, sizeof key, "gemm_tflops_%.8s", type);
    if (group_machine(as, &there) != CLI_OK || there == NULL) return false;
    *s = (scale){.here_tflops = number_of(here, key),
                 .there_tflops = number_of(there, key),
                 .link_gbps = number_of(there, "copy_gbps"),
                 .copy_us = number_of(there, "copy_us"),
                 .flag_us = number_of(there, "flag_us")};
    shingle_machine_free(there);
    return s->here_tflops > 0 && s->there_tflops > 0;
}

void report_group(const char *prefix, const group *g, const group_options *options,
                  const char *type)
{
    const shingle_machine *const here = shingle_comm_machine(g->comm[0]);
    char key[32];
    snprintf(key, sizeof key, "gemm_tflops_%.8s", type);
    printf("%s%d ranks on %s: %.3g GFLOP/s a rank in %s", prefix, g->ranks,
           options->backend ? options->backend : "cpu", 1e3 * number_of(here, key), type);
    scale s;
    if (options->as == NULL) {
        printf(", links as fast as memory\n");
    } else if (scale_of(here, options->as, type, &s)) {
        const double ratio = s.there_tflops / s.here_tflops;
        const double later = ratio / (options->rows_scale > 0 ? options->rows_scale : 16);
        const out_unit unit = out_unit_for(s.copy_us * later);
        printf(
            "\n%sa scale model of %s, 1 : %.0f, one row for %g: links of %.3g MB/s; %.3g %s for a "
            "copy,\n%s%.3g %s for a flag\n",
            prefix, options->as, ratio, options->rows_scale > 0 ? options->rows_scale : 16.0,
            1e3 * s.link_gbps / ratio, s.copy_us * later / unit.us, unit.name, prefix,
            s.flag_us * later / unit.us, unit.name);
    } else {
        putchar('\n');
    }
}

json_t *report_group_json(const group *g, const group_options *options)
{
    const shingle_machine *const machine = shingle_comm_machine(g->comm[0]);
    return json_pack("{s:s, s:i, s:s, s:o, s:s}", "version", shingle_version(), "ranks", g->ranks,
                     "backend", options->backend ? options->backend : "cpu", "as",
                     options->as ? out_json_text(options->as) : json_null(), "machine",
                     shingle_machine_text(machine));
}
