/* report.c -- see report.h. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "cli.h"

enum { MOST_RUNS = 10000 }; /* that the library takes */

void report_add_options(group_options *where, report_options *how, args_option *list)
{
    *how = (report_options){.warmup = 1, .seed = 1};
    const args_option options[REPORT_OPTIONS - GROUP_OPTIONS] = {
        {.name = "measure",
         .kind = ARGS_INT,
         .value = &how->measure,
         .unit = "N",
         .brief = "let the planner time its N best before it chooses",
         .least = 0,
         .most = 64},
        {.name = "choose",
         .kind = ARGS_TEXT,
         .value = &how->choose,
         .unit = "HOW",
         .brief = "who chooses plans: predict (default), static or measure"},
        {.name = "reproducible",
         .kind = ARGS_FLAG,
         .value = &how->reproducible,
         .brief = "only plans of which all give a row the same bits"},
        {.name = "seconds",
         .kind = ARGS_REAL,
         .value = &how->seconds,
         .unit = "S",
         .brief = "time for all of it; rounds go on while it lasts, at least three",
         .least = 0.001,
         .most = 1e5},
        {.name = "iters",
         .letter = 'n',
         .kind = ARGS_INT,
         .value = &how->iterations,
         .unit = "N",
         .brief = "timed runs of each kind, at most (5; with --seconds 1000)",
         .least = 1,
         .most = MOST_RUNS},
        {.name = "warmup",
         .letter = 'w',
         .kind = ARGS_INT,
         .value = &how->warmup,
         .unit = "N",
         .brief = "runs before them (1)",
         .least = 0,
         .most = MOST_RUNS},
        {.name = "seed",
         .kind = ARGS_INT,
         .value = &how->seed,
         .unit = "S",
         .brief = "of the data (1)",
         .least = 0,
         .most = 9e15},
    };
    memcpy(list, options, sizeof options);
    group_add_options(where, list + REPORT_OPTIONS - GROUP_OPTIONS);
}

int report_check(const report_options *options)
{
    const char *const by = options->choose;
    if (by == NULL || strcmp(by, "measure") == 0) return CLI_OK;
    if (strcmp(by, "predict") != 0 && strcmp(by, "static") != 0)
        return out_error(CLI_USAGE, "--choose is \"%.60s\"; predict, static or measure is accepted",
                         by);
    if (options->measure == 0) return CLI_OK;
    return out_error(CLI_USAGE,
                     "--measure %lld: --choose %s measures nothing; without it, or with --choose "
                     "measure, it is accepted",
                     (long long)options->measure, by);
}

int report_check_forced(const char *strategy, const char *choose)
{
    if (strategy == NULL || choose == NULL || strcmp(choose, "static") != 0) return CLI_OK;
    return out_error(CLI_USAGE,
                     "--choose static: the strategy %.60s leaves nothing to choose; one of the two "
                     "is accepted",
                     strategy);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double flops_of(const char *problem)
{
    shingle_shape shape;
    if (shingle_problem_shape(problem, 0, &shape) != SHINGLE_OK) return 0;
    return 2.0 * (double)shape.m * (double)shape.n * (double)shape.k;
}

/* Setting up costs the same for all; what runs grows with the product. */
static double weight_of(const report_budget *b, const char *problem)
{
    return 1 + (b->most > 0 ? 3 * flops_of(problem) / b->most : 0);
}

report_budget report_plan(const report_options *options, const char *const *problem, int count)
{
    report_budget b = {.end_seconds = now_seconds() + options->seconds};
    for (int i = 0; i < count; i++)
        if (flops_of(problem[i]) > b.most) b.most = flops_of(problem[i]);
    for (int i = 0; i < count; i++) b.weight += weight_of(&b, problem[i]);
    return b;
}

double report_share(report_budget *b, const report_options *options, const char *problem)
{
    const double weight = weight_of(b, problem);
    const double left = b->end_seconds - now_seconds();
    if (options->seconds <= 0) return 0;
    const double share = b->weight > 0 ? left * weight / b->weight : left;
    b->weight -= weight;
    return share > 0.001 ? share : 0.001;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

int64_t report_iterations(const report_options *options)
{
    if (options->iterations > 0) return options->iterations;
    return options->seconds > 0 ? 1000 : 5;
}

int report_measure(const group *g, const report_case *what, const report_options *options,
                   shingle_bench_result *result_out)
{
    shingle_timeline *both[2] = {NULL, NULL};
    const bool drawn = drawing_wanted(options->drawing);
    /* A line of a suite that has a strategy leaves nothing to the rule that chooses for others. */
    const bool is_forced =
        what->strategy != NULL && options->choose != NULL && strcmp(options->choose, "static") == 0;
    const shingle_bench_options bench = {
        .strategy = what->strategy,
        .measure = (int)options->measure,
        .choose = is_forced ? NULL : options->choose,
        .reproducible = options->reproducible,
        .iterations = (int)report_iterations(options),
        .warmup = options->warmup > 0 ? (int)options->warmup : -1,
        .seconds = what->seconds,
        .seed = (uint64_t)options->seed,
        .timelines_out = drawn ? both : NULL,
        .strategies = what->strategies,
        .knob_sets = (int)what->knob_sets,
        .rows_out = what->rows,
        .rows = what->rows != NULL ? REPORT_ROWS : 0,
    };
    const shingle_status status =
        shingle_bench(g->ranks, g->comm, what->problem, &bench, result_out);
    for (int i = 0; drawn && i < 2; i++) drawing_take(options->drawing, both[i]);
    if (status == SHINGLE_OK) return CLI_OK;
    return out_error(out_code(status), "%s%s", what->where, shingle_error());
}

double report_bound(const shingle_bench_result *result)
{
    return result->gemm_us > result->coll_us ? result->gemm_us : result->coll_us;
}

/* The sum of gemm and coll was up to 5 % from a serial run (five of gemm_rs:f32:512x1024x768:r2 on
 * two cores): of what is shorter than that, all that was hidden may be noise. */
static const double least_part = 0.05;

bool report_can_hide(double gemm_us, double coll_us)
{
    return fmin(gemm_us, coll_us) > 0 &&
           fmin(gemm_us, coll_us) >= least_part * fmax(gemm_us, coll_us);
}

bool report_is_serial(const char *strategy)
{
    static const char name[] = "serial";
    const size_t length = sizeof name - 1;
    return strncmp(strategy, name, length) == 0 &&
           (strategy[length] == '{' || strategy[length] == '\0');
}

double report_hidden_of(const char *strategy, double gemm_us, double coll_us, double hidden)
{
    const bool is_told = !report_is_serial(strategy) && report_can_hide(gemm_us, coll_us);
    return is_told ? hidden : (double)NAN;
}

double report_hidden(const shingle_bench_result *result)
{
    return report_hidden_of(result->strategy, result->gemm_us, result->coll_us, result->hidden);
}

double report_speedup(const shingle_bench_result *result)
{
    return result->serial_us > 0 ? result->speedup : (double)NAN;
}

json_t *report_json(const char *problem, const shingle_bench_result *result)
{
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:s, s:o, s:i, s:i, s:s, "
        "s:o, s:o}",
        "problem", problem, "strategy", result->strategy, "gemm_us", out_json_real(result->gemm_us),
        "coll_us", out_json_real(result->coll_us), "serial_us", out_json_real(result->serial_us),
        "overlapped_us", out_json_real(result->overlapped_us), "predicted_us",
        out_json_real(result->predicted_us), "hidden", out_json_real(report_hidden(result)),
        "speedup", out_json_real(report_speedup(result)), "efficiency",
        out_json_real(result->efficiency), "wrong", (json_int_t)result->wrong, "enqueue_us",
        out_json_real(result->enqueue_us), "prediction", result->prediction, "prediction_us",
        out_json_real(result->prediction_us), "iterations", result->iterations, "checks",
        result->checks, "compared_by", result->on_device ? "device" : "host", "mhz",
        result->mhz > 0 ? out_json_real(result->mhz) : json_null(), "seconds",
        out_json_real(result->seconds));
}

json_t *report_rows_json(const shingle_bench_row *rows, int count)
{
    json_t *const list = json_array();
    for (int i = 0; i < count; i++) {
        const shingle_bench_row *const r = &rows[i];
        json_array_append_new(
            list, r->us > 0 ? json_pack("{s:s, s:o, s:o, s:o, s:I}", "strategy", r->strategy, "us",
                                        out_json_real(r->us), "predicted_us",
                                        out_json_real(r->predicted_us), "enqueue_us",
                                        out_json_real(r->enqueue_us), "wrong", (json_int_t)r->wrong)
                            : json_pack("{s:s, s:o, s:I}", "strategy", r->strategy, "declined",
                                        out_json_text(r->declined), "wrong", (json_int_t)r->wrong));
    }
    return list;
}

static void add_enqueue(out_table *table, double us)
{
    if (us > 0)
        out_table_add(table, "%.1f", us);
    else
        out_table_add(table, "-");
}

void report_times(out_table *table, out_unit unit, const shingle_bench_result *result)
{
    out_table_time(table, unit, result->gemm_us);
    out_table_time(table, unit, result->coll_us);
    out_table_time(table, unit, result->serial_us);
    out_table_time(table, unit, result->overlapped_us);
    out_table_time(table, unit, result->predicted_us);
    add_enqueue(table, result->enqueue_us);
}

void report_row_times(out_table *table, out_unit unit, const shingle_bench_row *row)
{
    for (int i = 0; i < 3; i++) out_table_add(table, "%s", "");
    out_table_time(table, unit, row->us);
    out_table_time(table, unit, row->predicted_us);
    add_enqueue(table, row->enqueue_us);
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

/* With --as: rows there that one row here stands for; the library's default if none is given. */
static double rows_of(const group_options *options)
{
    return options->rows_scale > 0 ? options->rows_scale : 16;
}

static bool scale_of(const shingle_machine *here, const shingle_machine *there, const char *type,
                     scale *s)
{
    char key[32];
    snprintf(key, sizeof key, "gemm_tflops_%.8s", type);
    if (there == NULL) return false;
    *s = (scale){.here_tflops = number_of(here, key),
                 .there_tflops = number_of(there, key),
                 .link_gbps = number_of(there, "copy_gbps"),
                 .copy_us = number_of(there, "copy_us"),
                 .flag_us = number_of(there, "flag_us")};
    return s->here_tflops > 0 && s->there_tflops > 0;
}

/* The ranks of a CPU as a scale model: of what, and what that makes of its links. */
static void print_scale(const char *prefix, const group *g, const group_options *options,
                        const char *type)
{
    scale s;
    if (!scale_of(shingle_comm_machine(g->comm[0]), g->as, type, &s)) {
        putchar('\n');
        return;
    }
    const double ratio = s.there_tflops / s.here_tflops;
    const double later = ratio / rows_of(options);
    const out_unit unit = out_unit_for(s.copy_us * later);
    printf("\n%sa scale model of %s, 1 : %.0f, one row for %g: links of %.3g MB/s; %.3g %s for a "
           "copy,\n%s%.3g %s for a flag\n",
           prefix, options->as, ratio, rows_of(options), 1e3 * s.link_gbps / ratio,
           s.copy_us * later / unit.us, unit.name, prefix, s.flag_us * later / unit.us, unit.name);
}

static void print_planned(const char *prefix, const shingle_machine *machine, const char *type)
{
    char key[32];
    char name[64] = "";
    snprintf(key, sizeof key, "gemm_tflops_%.8s", type);
    group_machine_line(machine, "name", name, sizeof name);
    printf("%splanned for %s: %.3g TFLOP/s a rank in %s, copies of %.3g GB/s\n", prefix, name,
           number_of(machine, key), type, number_of(machine, "copy_gbps"));
}

/* MACHINE is the file's that SHINGLE_MACHINE names: what these ranks reach is known to the backend
 * alone, and with it the ratio of a scale model. */
static void print_foreign(const char *prefix, const shingle_machine *machine,
                          const group_options *options, const char *type)
{
    if (options->as != NULL)
        printf(", a scale model of %s, one row for %g\n", options->as, rows_of(options));
    else
        printf(", links as fast as memory\n");
    print_planned(prefix, machine, type);
}

static void print_measured(const char *prefix, const group *g, const group_options *options,
                           const char *type)
{
    const shingle_machine *const here = shingle_comm_machine(g->comm[0]);
    char key[32];
    snprintf(key, sizeof key, "gemm_tflops_%.8s", type);
    printf(": %.3g GFLOP/s a rank in %s", 1e3 * number_of(here, key), type);
    if (options->as != NULL)
        print_scale(prefix, g, options, type);
    else
        printf(", links as fast as memory\n");
}

static void print_device(const char *prefix, const shingle_machine *machine, const char *type,
                         const shingle_device *device)
{
    printf(": %s", device->name);
    if (device->most_mhz > 0) printf(", %.0f MHz now, at most %.0f", device->mhz, device->most_mhz);
    if (device->most_watts > 0) printf(", %.0f W", device->most_watts);
    printf("\n%s%s\n", prefix, device->software);
    print_planned(prefix, machine, type);
    if (device->ranks > 1)
        printf("%s%sNO MEASUREMENT%s: %d ranks share a GPU; results count, times mean nothing\n",
               prefix, out_on(OUT_BAD), out_off(), device->ranks);
}

static const char *backend_of(const group_options *options)
{
    const char *const named = options->backend ? options->backend : group_env("SHINGLE_BACKEND");
    return named != NULL ? named : "cpu";
}

void report_group(const char *prefix, const group *g, const group_options *options,
                  const char *type)
{
    const shingle_machine *const machine = shingle_comm_machine(g->comm[0]);
    shingle_device device;
    printf("%s%d rank%s on %s", prefix, g->ranks, g->ranks == 1 ? "" : "s", backend_of(options));
    if (shingle_comm_device(g->comm[0], &device) == SHINGLE_OK && device.name[0] != '\0')
        print_device(prefix, machine, type, &device);
    else if (group_env("SHINGLE_MACHINE") != NULL)
        print_foreign(prefix, machine, options, type);
    else
        print_measured(prefix, g, options, type);
}

/* The first "model name" of /proc/cpuinfo, or the machine's architecture. */
void report_cpu(char *name, size_t room)
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

json_t *report_group_json(const group *g, const group_options *options)
{
    const shingle_machine *const machine = shingle_comm_machine(g->comm[0]);
    shingle_device device;
    json_t *const object = json_pack("{s:s, s:i, s:s, s:o, s:s}", "version", shingle_version(),
                                     "ranks", g->ranks, "backend", backend_of(options), "as",
                                     options->as ? out_json_text(options->as) : json_null(),
                                     "machine", shingle_machine_text(machine));
    if (shingle_comm_device(g->comm[0], &device) != SHINGLE_OK || device.name[0] == '\0')
        return object;
    json_object_set_new(object, "device", out_json_text(device.name));
    json_object_set_new(object, "software", out_json_text(device.software));
    json_object_set_new(object, "most_mhz", out_json_real(device.most_mhz));
    json_object_set_new(object, "most_watts", out_json_real(device.most_watts));
    if (device.ranks <= 1) return object;
    json_object_set_new(object, "ranks_on_a_gpu", json_integer(device.ranks));
    json_object_set_new(
        object, "note",
        json_string("no measurement: ranks share a GPU; results count, times mean nothing"));
    return object;
}
