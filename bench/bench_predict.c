/* bench_predict.c -- how near predictions come to recorded results: reads files of results/gpu (or
 * what `shingle bench --json` or scripts/gpu_table.py printed), prices every row on a machine file
 * and compares.
 *
 *     bench_predict MACHINE RESULTS.json... [--rows] [--fit NAME,NAME,...]
 *     bench_predict MACHINE RESULTS.json... --calibrate [--held NAME,NAME,...]
 *
 * Prints the median of |predicted / measured - 1| of the chosen plans by operator and by m, of the
 * strategies that were timed beside them, of the serial runs, of the product and of the collective
 * alone; and, where a problem was measured with several strategies, what the one that is predicted
 * fastest costs against the best that was measured.
 * --rows prints every row.  --fit moves these numbers of the machine to where the rows are
 * predicted best, to find out which are wrong, and prints them: what comes of it is fitted to the
 * very rows that it is then compared with.
 * --calibrate prints the machine file that `shingle calibrate` makes of what it measured and its
 * --json recorded, beginning with MACHINE; the --held numbers stay what they are there. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bench.h"
#include "core/calibrate.h"
#include "core/sim.h"

enum { MOST_ROWS = 4096, MOST_FILES = 16 };

static const double fit_seconds = 300;

/* One row of a file; SERIAL: the plan that does not overlap, measured beside it. */
typedef struct row {
    sg_problem problem;
    char text[128], strategy[96];
    double gemm_us, coll_us; /* measured alone */
    double gemm_predicted_us, coll_predicted_us;
    int fit;    /* its place among the runs */
    int serial; /* that of its serial plan; of a strategy that was timed beside: -1 */
} row;

/* A row of a calibration: a plan, or its collectives alone. */
typedef struct measured {
    char plan[256]; /* problem and strategy{knobs} */
    bool colls;
    double us;
} measured;

typedef struct request {
    const char *machine, *fit, *held;
    const char *file[MOST_FILES];
    int files;
    bool rows, calibrate;
} request;

static row rows[MOST_ROWS];
static sg_fit_run runs[2 * MOST_ROWS];
static int row_count, run_count;
static measured measurements[MOST_ROWS];
static int measurement_count;

static void check(shingle_status status)
{
    if (status == SHINGLE_OK) return;
    fprintf(stderr, "bench_predict: %s\n", shingle_error());
    exit(1);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int add_run(const row *r, const char *strategy, double us, const sg_machine *machine)
{
    sg_knobs sets[SG_MAX_KNOB_SETS];
    char why[160] = "";
    sg_text reason = {why, sizeof why, 0};
    bool given = false;
    sg_fit_run *const run = &runs[run_count];
    char name[32];
    memset(sets, 0, sizeof sets);
    *run = (sg_fit_run){.problem = &r->problem, .us = us};
    snprintf(name, sizeof name, "%.*s", (int)strcspn(strategy, "{"), strategy);
    const sg_strategy *const of = sg_strategy_find(name);
    /* Knobs that a recording does not know are as small as can be; but one strip is all columns. */
    for (int i = 0; of != NULL && i < sg_knob_count(of); i++)
        sets[0].value[i] = strcmp(of->knob[i].name, "strips") == 0 ? 1 : of->knob[i].least;
    check(sg_strategy_parse(strategy, &run->strategy, &sets[0], &run->knobs, &given));
    if (!given && run->strategy->propose(&r->problem, machine, sets, &reason) > 0)
        run->knobs = sets[0];
    return run_count++;
}

static row *add_row(const char *problem, const char *strategy, double us, const sg_machine *machine)
{
    if (row_count == MOST_ROWS) {
        fprintf(stderr, "bench_predict: more than %d rows\n", MOST_ROWS);
        exit(1);
    }
    row *const r = &rows[row_count++];
    check(sg_problem_parse(problem, &r->problem));
    snprintf(r->text, sizeof r->text, "%s", problem);
    snprintf(r->strategy, sizeof r->strategy, "%s", strategy);
    r->serial = -1;
    r->fit = add_run(r, strategy, us, machine);
    return r;
}

static double number_of(json_t *entry, const char *key)
{
    return json_number_value(json_object_get(entry, key));
}

static void add_measurement(const char *problem, const char *strategy, double us, bool colls)
{
    if (measurement_count == MOST_ROWS || !(us > 0)) return;
    measured *const one = &measurements[measurement_count++];
    snprintf(one->plan, sizeof one->plan, "%s %s", problem, strategy);
    one->colls = colls;
    one->us = us;
}

/* A plan that was timed beside the chosen one, once. */
static void add_beside(const char *problem, json_t *entry, const sg_machine *machine)
{
    const char *const strategy = json_string_value(json_object_get(entry, "strategy"));
    const double us = number_of(entry, "us");
    if (strategy == NULL || !(us > 0)) return;
    for (int i = 0; i < row_count; i++)
        if (strcmp(rows[i].text, problem) == 0 && rows[i].serial < 0 &&
            strcmp(rows[i].strategy, strategy) == 0)
            return;
    add_row(problem, strategy, us, machine);
}

/* The chosen plan of a problem, and what was timed beside it. */
static void add_result(json_t *entry, const sg_machine *machine)
{
    json_t *const ours = json_object_get(entry, "ours"); /* of scripts/gpu_table.py */
    json_t *const plan = json_is_object(ours) ? ours : entry;
    const char *const problem = json_string_value(json_object_get(entry, "problem"));
    const char *const strategy = json_string_value(json_object_get(plan, "strategy"));
    const double us = number_of(plan, plan == ours ? "us" : "overlapped_us");
    const double serial_us = number_of(entry, "serial_us");
    size_t i;
    json_t *beside;
    if (problem == NULL || strategy == NULL) return;
    add_measurement(problem, strategy, us > 0 ? us : number_of(entry, "coll_us"), !(us > 0));
    if (!(us > 0)) return;
    row *const r = add_row(problem, strategy, us, machine);
    if (!(serial_us > 0)) return;
    r->gemm_us = number_of(entry, "gemm_us");
    r->coll_us = number_of(entry, "coll_us");
    r->serial = add_run(r, "serial", serial_us, machine);
    json_array_foreach(json_object_get(entry, "strategies"), i, beside)
        add_beside(problem, beside, machine);
    json_t *const prediction = json_object_get(entry, "prediction");
    if (json_string_value(json_object_get(prediction, "strategy")) != NULL &&
        strncmp(json_string_value(json_object_get(prediction, "strategy")), "serial", 6) != 0)
        add_beside(problem, prediction, machine);
}

static void read_file(const char *path, const sg_machine *machine)
{
    json_error_t error;
    json_t *const root = json_load_file(path, 0, &error);
    size_t i;
    json_t *entry;
    if (root == NULL) {
        fprintf(stderr, "bench_predict: %s:%d: %s\n", path, error.line, error.text);
        exit(1);
    }
    json_t *const results = json_object_get(root, "results");
    json_t *const list = results != NULL ? results : json_object_get(root, "rows");
    json_array_foreach(list, i, entry) add_result(entry, machine);
    json_decref(root);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void predict_parts(const sg_machine *machine)
{
    const sg_sim_options parts = {.parts = true};
    sg_simulator *const simulator = sg_simulator_new();
    for (int i = 0; i < row_count; i++) {
        if (rows[i].serial < 0) continue;
        const sg_fit_run *const run = &runs[rows[i].serial];
        sg_sim_result result;
        check(sg_simulate_built(simulator, run->problem, run->strategy, &run->knobs, machine,
                                &parts, &result));
        rows[i].gemm_predicted_us = result.gemm_us;
        rows[i].coll_predicted_us = result.comm_us;
    }
    sg_simulator_free(simulator);
}

static double median_where(sg_op op, int64_t m, double *bias_out)
{
    double error[MOST_ROWS];
    double off[MOST_ROWS];
    int count = 0;
    for (int i = 0; i < row_count; i++) {
        const sg_fit_run *const run = &runs[rows[i].fit];
        if (rows[i].serial < 0 || (op != SG_OPS && run->problem->op != op)) continue;
        if (m > 0 && run->problem->m != m) continue;
        off[count] = run->predicted_us / run->us - 1;
        error[count++] = fabs(run->predicted_us / run->us - 1);
    }
    *bias_out = sg_median(off, count);
    return count > 0 ? sg_median(error, count) : -1;
}

static void print_error(const char *name, sg_op op, int64_t m)
{
    double bias = 0;
    const double error = median_where(op, m, &bias);
    if (error >= 0)
        printf("%-10s %-12s median error %5.1f %%, median of predicted - measured %+5.1f %%\n",
               m > 0 ? "" : name, m > 0 ? name : "", 100 * error, 100 * bias);
}

static void print_parts(void)
{
    static double gemm[MOST_ROWS], coll[MOST_ROWS];
    static sg_fit_run serial[MOST_ROWS], beside[MOST_ROWS];
    int serials = 0;
    int besides = 0;
    int colls = 0;
    for (int i = 0; i < row_count; i++) {
        const row *const r = &rows[i];
        if (r->serial < 0) {
            beside[besides++] = runs[r->fit];
            continue;
        }
        serial[serials] = runs[r->serial];
        gemm[serials++] = fabs(r->gemm_predicted_us / r->gemm_us - 1);
        if (r->coll_us > 0) coll[colls++] = fabs(r->coll_predicted_us / r->coll_us - 1);
    }
    printf("serial %.1f %%, product alone %.1f %%, collective alone %.1f %%",
           100 * sg_fit_error(serial, serials), 100 * sg_median(gemm, serials),
           100 * sg_median(coll, colls));
    if (besides > 0)
        printf("; %d strategies beside the chosen ones %.1f %%", besides,
               100 * sg_fit_error(beside, besides));
    puts("");
}

/* The fastest of a problem's rows and its serial plans, by prediction and as measured. */
static int find_best(const char *problem, const sg_fit_run **chosen, const sg_fit_run **best)
{
    int several = 0;
    *chosen = *best = NULL;
    for (int i = 0; i < row_count; i++) {
        if (strcmp(rows[i].text, problem) != 0) continue;
        const int places[] = {rows[i].fit, rows[i].serial};
        for (int j = 0; j < 2; j++) {
            if (places[j] < 0) continue;
            const sg_fit_run *const run = &runs[places[j]];
            if (*chosen == NULL || run->predicted_us < (*chosen)->predicted_us) *chosen = run;
            if (*best == NULL || run->us < (*best)->us) *best = run;
        }
        several++;
    }
    return several;
}

static void print_choice(void)
{
    double sum = 0;
    double most = 0;
    int problems = 0;
    for (int i = 0; i < row_count; i++) {
        const sg_fit_run *chosen;
        const sg_fit_run *best;
        int first = 0;
        while (strcmp(rows[first].text, rows[i].text) != 0) first++;
        if (first < i || find_best(rows[i].text, &chosen, &best) < 2) continue;
        problems++;
        sum += chosen->us / best->us - 1;
        most = fmax(most, chosen->us / best->us - 1);
    }
    if (problems > 0)
        printf("choice among measured strategies: %.1f %% slower than the best on average, %.1f %% "
               "at most, %d problems\n",
               100 * sum / problems, 100 * most, problems);
}

static void print_rows(void)
{
    for (int i = 0; i < row_count; i++) {
        const row *const r = &rows[i];
        const sg_fit_run *const run = &runs[r->fit];
        printf("%-36s %-64s %8.1f measured %8.1f %+6.1f %%", r->serial < 0 ? "" : r->text,
               r->strategy, run->predicted_us, run->us, 100 * (run->predicted_us / run->us - 1));
        if (r->serial >= 0)
            printf(" | serial %8.1f %+6.1f gemm %8.1f %+6.1f coll %8.1f %+6.1f", runs[r->serial].us,
                   100 * (runs[r->serial].predicted_us / runs[r->serial].us - 1), r->gemm_us,
                   100 * (r->gemm_predicted_us / r->gemm_us - 1), r->coll_us,
                   r->coll_us > 0 ? 100 * (r->coll_predicted_us / r->coll_us - 1) : 0);
        puts("");
    }
}

static void print_all(const request *q)
{
    static const sg_op ops[] = {SG_OP_AG_GEMM,  SG_OP_GEMM_RS,  SG_OP_GEMM_AR,
                                SG_OP_A2A_GEMM, SG_OP_GEMM_A2A, SG_OP_GEMM};
    if (q->rows) print_rows();
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        print_error(sg_op_name(ops[i]), ops[i], 0);
        for (int64_t m = 1; m <= 1 << 20; m *= 2) {
            char name[24];
            snprintf(name, sizeof name, "m %lld", (long long)m);
            print_error(name, ops[i], m);
        }
    }
    print_error("all", SG_OPS, 0);
    print_parts();
    print_choice();
}

/* ---- The program ----------------------------------------------------------------------------- */

static void fit_numbers(const request *q, sg_machine *machine)
{
    char words[512];
    const char *name[SG_FIT_NUMBERS];
    int names = 0;
    sg_fit_report report;
    snprintf(words, sizeof words, "%s", q->fit);
    for (char *word = strtok(words, ","); word != NULL; word = strtok(NULL, ","))
        if (names < SG_FIT_NUMBERS) name[names++] = word;
    check(sg_fit(runs, run_count, name, names, sg_now_us() + fit_seconds * 1e6, machine, &report));
    printf("fitted to %d runs: median error %.1f %%, was %.1f %%\n", run_count,
           100 * report.error_after, 100 * report.error_before);
    for (int i = 0; i < names; i++)
        printf("    %s %.6g%s\n", name[i], *sg_machine_number(machine, name[i], NULL, NULL),
               report.seen[i] ? "" : "  (no run depends on it)");
}

/* ---- Calibrating ----------------------------------------------------------------------------- */

/* What was recorded stands for running it; a plan that was not is one that cannot be run. */
static shingle_status look_up(void *context, const shingle_plan *plan, bool colls, double *us_out)
{
    (void)context;
    const size_t length = strcspn(plan->text, "#") - 1; /* the hash is of another version */
    for (int i = 0; i < measurement_count; i++) {
        const measured *const one = &measurements[i];
        if (one->colls != colls || strlen(one->plan) != length ||
            strncmp(one->plan, plan->text, length) != 0)
            continue;
        *us_out = one->us;
        return SHINGLE_OK;
    }
    fprintf(stderr, "bench_predict: not recorded%s: %s\n", colls ? " alone" : "", plan->text);
    return sg_fail(SHINGLE_EUNSUPPORTED, "it was not recorded");
}

static double no_time(void *context)
{
    (void)context;
    return 0;
}

static int calibrate(const request *q, const sg_machine *machine, int ranks)
{
    static char text[SG_CALIBRATE_TEXT];
    const sg_calibrate_watch watch = {.time = look_up, .now_us = no_time, .held = q->held};
    sg_machine found;
    check(sg_calibrate(machine, ranks, fit_seconds, &watch, &found, text));
    fputs(text, stdout);
    return 0;
}

static request parse(int argc, char **argv)
{
    request q = {.machine = NULL};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rows") == 0)
            q.rows = true;
        else if (strcmp(argv[i], "--fit") == 0 && i + 1 < argc)
            q.fit = argv[++i];
        else if (strcmp(argv[i], "--calibrate") == 0)
            q.calibrate = true;
        else if (strcmp(argv[i], "--held") == 0 && i + 1 < argc)
            q.held = argv[++i];
        else if (q.machine == NULL)
            q.machine = argv[i];
        else if (q.files < MOST_FILES)
            q.file[q.files++] = argv[i];
    }
    if (q.files == 0) {
        fprintf(stderr, "bench_predict: MACHINE RESULTS.json... [--rows] [--fit NAME,...] "
                        "[--calibrate [--held NAME,...]]\n");
        exit(2);
    }
    return q;
}

int main(int argc, char **argv)
{
    const request q = parse(argc, argv);
    sg_machine machine;
    check(sg_machine_read(q.machine, &machine));
    for (int i = 0; i < q.files; i++) read_file(q.file[i], &machine);
    if (q.calibrate && row_count > 0) return calibrate(&q, &machine, rows[0].problem.ranks);
    if (q.fit != NULL) fit_numbers(&q, &machine);
    check(sg_fit_predict(runs, run_count, &machine));
    predict_parts(&machine);
    print_all(&q);
    for (int i = 0; i < row_count; i++) sg_problem_free(&rows[i].problem);
    return 0;
}
