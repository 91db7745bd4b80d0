/* report.c -- see report.h. */
#include "report.h"

#include <math.h>
#include <string.h>

#include "cli.h"

int report_measure(const group *g, const char *problem, const char *strategy,
                   const report_options *options, shingle_bench_result *result_out)
{
    const shingle_bench_options bench = {.strategy = strategy,
                                         .measure = (int)options->measure,
                                         .iterations = (int)options->iterations,
                                         .warmup = (int)options->warmup,
                                         .seed = options->seed};
    const shingle_status status = shingle_bench(g->ranks, g->comm, problem, &bench, result_out);
    return status == SHINGLE_OK ? CLI_OK : out_status(status);
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

void report_plan(const char *prefix, const char *label, int width, const char *problem,
                 const char *strategy)
{
    printf("%s%-*s%s %s\n", prefix, width, label, problem, strategy);
}

void report_legend(const char *prefix, out_unit unit)
{
    printf("%stimes in %s, medians of the slowest rank; serial: gemm, then coll; pred: predicted\n"
           "%sfor ours; hidden: (gemm + coll - ours) / min(gemm, coll); speedup: serial / ours\n",
           prefix, unit.name, prefix);
}

void report_group(const char *prefix, const group *g, const group_options *options)
{
    const shingle_machine *const machine = shingle_comm_machine(g->comm[0]);
    char name[80] = "";
    char rate[80] = "";
    char link[80] = "";
    char late[80] = "";
    group_machine_line(machine, "name", name, sizeof name);
    printf("%s%d ranks on %s%s%s", prefix, g->ranks, options->backend ? options->backend : "cpu",
           options->as ? ", a scale model of " : "", options->as ? options->as : "");
    if (group_machine_line(machine, "gemm_tflops", rate, sizeof rate) != NULL &&
        group_machine_line(machine, "copy_gbps", link, sizeof link) != NULL &&
        group_machine_line(machine, "copy_us", late, sizeof late) != NULL)
        printf("; machine %s: %s TFLOP/s, link %s GB/s, latency %s us", name, rate, link, late);
    putchar('\n');
}

json_t *report_group_json(const group *g, const group_options *options)
{
    const shingle_machine *const machine = shingle_comm_machine(g->comm[0]);
    return json_pack("{s:s, s:i, s:s, s:o, s:s}", "version", shingle_version(), "ranks", g->ranks,
                     "backend", options->backend ? options->backend : "cpu", "as",
                     options->as ? out_json_text(options->as) : json_null(), "machine",
                     shingle_machine_text(machine));
}
