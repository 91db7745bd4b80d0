/* cmd_run.c -- `shingle run`: one product on the ranks of this computer, timed against not
 * overlapping and compared; with data of its own, or from NumPy files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apart.h"
#include "args.h"
#include "cli.h"
#include "deal.h"
#include "group.h"
#include "out.h"
#include "refer.h"
#include "report.h"

enum { MOST_STRATEGIES = 32 };

typedef struct request {
    const char *problem, *strategy;
    shingle_shape shape;
    bool all;
    deal_paths from;
    const char *c, *added; /* where C and the residual go */
    group_options where;
    report_options how;
} request;

/* The strategies to run, and those that declined, with their reasons. */
typedef struct choice {
    char *strategy[MOST_STRATEGIES]; /* NULL: the planner's choice */
    int count;
    json_t *declined;
} choice;

/* ---- Strategies ------------------------------------------------------------------------------ */

static size_t name_length(const char *strategy)
{
    return strcspn(strategy, "{");
}

static void drop_choice(choice *chosen)
{
    for (int i = 0; i < chosen->count; i++) free(chosen->strategy[i]);
    json_decref(chosen->declined);
}

/* The best predicted knobs of every strategy that applies; candidates of one strategy need not be
 * neighbours. */
static void take_best(const shingle_plan *plan, choice *chosen)
{
    double best[MOST_STRATEGIES];
    for (int i = 0; i < shingle_plan_candidates(plan); i++) {
        shingle_candidate c;
        if (shingle_plan_candidate(plan, i, &c) != SHINGLE_OK) continue;
        if (c.declined != NULL) {
            json_object_set_new(chosen->declined, c.strategy, json_string(c.declined));
            continue;
        }
        int at = 0;
        const size_t length = name_length(c.strategy);
        while (at < chosen->count && (name_length(chosen->strategy[at]) != length ||
                                      strncmp(chosen->strategy[at], c.strategy, length) != 0))
            at++;
        if (at == MOST_STRATEGIES || (at < chosen->count && best[at] <= c.predicted_us)) continue;
        if (at < chosen->count)
            free(chosen->strategy[at]);
        else
            chosen->count++;
        chosen->strategy[at] = out_copy(c.strategy);
        best[at] = c.predicted_us;
    }
}

/* A call is computed by the plain product. */
static shingle_plan_options plan_options(request *q)
{
    return (shingle_plan_options){.measure = (int)q->how.measure,
                                  .choose = q->how.choose,
                                  .reproducible = q->how.reproducible,
                                  .compute = q->shape.is_call ? refer_compute : NULL,
                                  .compute_context = &q->shape};
}

static int choose(request *q, const group *g, choice *chosen)
{
    chosen->declined = json_object();
    if (!q->all) {
        chosen->strategy[0] = q->strategy ? out_copy(q->strategy) : NULL;
        chosen->count = 1;
        return CLI_OK;
    }
    group_take_all();
    /* One rank's plan knows what was considered; it never runs. */
    shingle_plan *plan = NULL;
    shingle_plan_options options = plan_options(q);
    options.measure = 0;
    options.choose = NULL;
    const shingle_status status = shingle_plan_create(g->comm[0], q->problem, &options, &plan);
    if (status != SHINGLE_OK) return out_status(status);
    take_best(plan, chosen);
    shingle_plan_free(plan);
    return CLI_OK;
}

/* ---- The user's own data --------------------------------------------------------------------- */

/* A rank's matrices where its runs can reach them. */
typedef struct copies {
    void *a, *b, *bias, *c, *returned, *residual, *gain;
} copies;

static void drop_copies(shingle_comm *comm, const copies *t)
{
    shingle_free(comm, t->a);
    shingle_free(comm, t->b);
    shingle_free(comm, t->bias);
    shingle_free(comm, t->c);
    shingle_free(comm, t->returned);
    shingle_free(comm, t->residual);
    shingle_free(comm, t->gain);
}

static size_t bytes_of(const deal *d, int64_t rows, int64_t cols)
{
    return (size_t)(rows * cols * d->shape.element_bytes);
}

static shingle_status put(shingle_comm *comm, const void *from, size_t bytes, void **to)
{
    if (from == NULL) return SHINGLE_OK;
    const shingle_status status = shingle_alloc(comm, bytes > 0 ? bytes : 1, to);
    return status == SHINGLE_OK ? shingle_write(comm, *to, from, bytes) : status;
}

/* What a run does not write must not look right. */
static shingle_status put_all(shingle_comm *comm, const deal *d, int r, copies *t)
{
    const size_t c_bytes = bytes_of(d, d->c_rows[r], d->shape.n);
    memset(d->c[r], 0xff, c_bytes);
    if (d->start[r] != NULL) memcpy(d->c[r], d->start[r], c_bytes);
    shingle_status status = put(comm, d->a[r], bytes_of(d, d->a_rows[r], d->a_cols[r]), &t->a);
    if (status == SHINGLE_OK)
        status = put(comm, d->b[r], bytes_of(d, d->b_rows[r], d->shape.k), &t->b);
    if (status == SHINGLE_OK) status = put(comm, d->bias[r], bytes_of(d, 1, d->shape.n), &t->bias);
    if (status == SHINGLE_OK) status = put(comm, d->residual[r], c_bytes, &t->residual);
    if (status == SHINGLE_OK) status = put(comm, d->gain[r], bytes_of(d, 1, d->shape.n), &t->gain);
    if (status == SHINGLE_OK) status = put(comm, d->c[r], c_bytes, &t->c);
    if (d->returned[r] == NULL || status != SHINGLE_OK) return status;
    const size_t bytes = bytes_of(d, d->rows[r], d->shape.k);
    memset(d->returned[r], 0xff, bytes);
    return put(comm, d->returned[r], bytes, &t->returned);
}

static shingle_status get(shingle_comm *comm, void *to, const void *from, size_t bytes)
{
    return from != NULL ? shingle_read(comm, to, from, bytes) : SHINGLE_OK;
}

/* What a run has written. */
static shingle_status get_all(shingle_comm *comm, const deal *d, int r, const copies *t)
{
    const size_t c_bytes = bytes_of(d, d->c_rows[r], d->shape.n);
    shingle_status status = get(comm, d->c[r], t->c, c_bytes);
    if (status == SHINGLE_OK) status = get(comm, d->added[r], t->residual, c_bytes);
    if (status != SHINGLE_OK) return status;
    return get(comm, d->returned[r], t->returned, bytes_of(d, d->rows[r], d->shape.k));
}

/* Several B are the rows of one array here, and several C its columns. */
static shingle_tensors tensors_of(const deal *d, const copies *t)
{
    const shingle_shape *const s = &d->shape;
    shingle_tensors tensors = {.a = t->a,
                               .b = t->b,
                               .bias = t->bias,
                               .c = t->c,
                               .c_stride = s->n,
                               .returned_a = t->returned,
                               .residual = t->residual,
                               .gain = t->gain};
    for (int64_t i = 1, col = s->b_cols[0]; i < s->b_count; col += s->b_cols[i++]) {
        tensors.more_b[i - 1] = (const char *)t->b + col * s->k * s->element_bytes;
        tensors.more_c[i - 1] = (char *)t->c + col * s->element_bytes;
        tensors.more_c_stride[i - 1] = s->n;
    }
    return tensors;
}

/* Starts the plans of all ranks, waits for them, and takes their results to D. */
static shingle_status run_plans(const group *g, shingle_plan *const *plan, const copies *t,
                                const deal *d)
{
    shingle_status status = SHINGLE_OK;
    for (int r = 0; r < g->ranks && status == SHINGLE_OK; r++) {
        const shingle_tensors tensors = tensors_of(d, &t[r]);
        status = shingle_run_tensors(plan[r], &tensors, NULL);
    }
    for (int r = 0; r < g->ranks && status == SHINGLE_OK; r++)
        status = shingle_sync(g->comm[r], 3600.0);
    for (int r = 0; r < g->ranks && status == SHINGLE_OK; r++)
        status = get_all(g->comm[r], d, r, &t[r]);
    return status;
}

static int run_data(request *q, const group *g, const char *strategy, deal *d)
{
    shingle_plan *plan[GROUP_RANKS] = {NULL};
    copies t[GROUP_RANKS];
    shingle_plan_options options = plan_options(q);
    options.strategy = strategy;
    shingle_status status = SHINGLE_OK;
    memset(t, 0, sizeof t);
    for (int r = 0; r < g->ranks && status == SHINGLE_OK; r++)
        status = shingle_plan_create(g->comm[r], q->problem, &options, &plan[r]);
    for (int r = 0; r < g->ranks && status == SHINGLE_OK; r++)
        status = put_all(g->comm[r], d, r, &t[r]);
    if (status == SHINGLE_OK) status = run_plans(g, plan, t, d);
    const int code = status == SHINGLE_OK ? CLI_OK : out_status(status);
    for (int r = 0; r < g->ranks; r++) {
        shingle_plan_free(plan[r]);
        drop_copies(g->comm[r], &t[r]);
    }
    return code;
}

/* Runs on the user's data, compares, and writes the result. */
static int take_data(request *q, const group *g, const char *strategy, deal *d, int64_t *wrong_out)
{
    char error[FILE_ERROR];
    const int code = run_data(q, g, strategy, d);
    if (code != CLI_OK) return code;
    if (!refer_compare(d, wrong_out, error)) return out_error(CLI_FAILED, "%s", error);
    if (!deal_write(d, q->c, q->added, error)) return out_error(CLI_FAILED, "%s", error);
    return CLI_OK;
}

/* ---- The command ----------------------------------------------------------------------------- */

static void print_text(const request *q, const group *g, const shingle_bench_result *result,
                       int count, const choice *chosen)
{
    double most = 0;
    for (int i = 0; i < count; i++)
        if (result[i].serial_us > most) most = result[i].serial_us;
    const out_unit unit = out_unit_for(most);
    printf("%s%s%s\n", out_on(OUT_HEAD), q->problem, out_off());
    report_group("", g, &q->where, q->shape.type);
    report_legend("", unit);
    putchar('\n');
    out_table *const table =
        out_table_make("<strategy " REPORT_HEADS " >bound >hidden >speedup >wrong");
    for (int i = 0; i < count; i++) {
        report_name(table, result[i].strategy);
        report_times(table, unit, &result[i]);
        out_table_time(table, unit, report_bound(&result[i]));
        out_table_share(table, report_hidden(&result[i]));
        out_table_factor(table, report_speedup(&result[i]));
        report_wrong(table, result[i].wrong);
    }
    out_table_print(table, "");
    out_table_free(table);
    putchar('\n');
    for (int i = 0; i < count; i++) printf("%s\n", result[i].strategy);
    const char *name = NULL;
    json_t *reason = NULL;
    json_object_foreach(chosen->declined, name, reason)
        printf("%s declined: %s\n", name, json_string_value(reason));
    if (q->c != NULL || q->added != NULL) putchar('\n');
    if (q->c != NULL) printf("written: %s\n", q->c);
    if (q->added != NULL) printf("written: %s\n", q->added);
}

static void print_json(const request *q, const group *g, const shingle_bench_result *result,
                       int count, const choice *chosen)
{
    json_t *const list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, report_json(q->problem, &result[i]));
    json_t *const object = report_group_json(g, &q->where);
    json_object_set_new(object, "results", list);
    json_object_set(object, "declined", chosen->declined);
    out_json(object);
}

static int run_choice(request *q, const group *g, deal *d, const choice *chosen, bool json)
{
    shingle_bench_result result[MOST_STRATEGIES];
    bool wrong = false;
    for (int i = 0; i < chosen->count; i++) {
        int64_t data_wrong = 0;
        int code = CLI_OK;
        if (d != NULL) code = take_data(q, g, chosen->strategy[i], d, &data_wrong);
        if (code != CLI_OK) return code;
        out_progress("timing %d of %d: %s", i + 1, chosen->count,
                     chosen->strategy[i] ? chosen->strategy[i] : "the planner's choice");
        const report_case what = {.where = "",
                                  .problem = q->problem,
                                  .strategy = chosen->strategy[i],
                                  .seconds = q->how.seconds / chosen->count};
        code = report_measure(g, &what, &q->how, &result[i]);
        if (code != CLI_OK) return code;
        result[i].wrong += data_wrong;
        wrong = wrong || result[i].wrong > 0;
    }
    out_progress_end();
    if (json)
        print_json(q, g, result, chosen->count, chosen);
    else
        print_text(q, g, result, chosen->count, chosen);
    return wrong ? CLI_WRONG : CLI_OK;
}

static int run_group(request *q, deal *d, bool json)
{
    group g = {.ranks = 0};
    choice chosen = {.count = 0};
    int code = group_open(q->shape.ranks, &q->where, &g);
    if (code == CLI_OK) code = choose(q, &g, &chosen);
    if (code == CLI_OK) code = run_choice(q, &g, d, &chosen, json);
    drop_choice(&chosen);
    group_close(&g);
    return code;
}

/* Is file OPTION given if, and only if, the problem HAS what it holds, as :WORD? */
static int check_operand(const char *option, const char *path, bool has, const char *word)
{
    if (has == (path != NULL)) return CLI_OK;
    return has ? out_error(CLI_USAGE, "--%s is missing: the problem has a %s", option, word)
               : out_error(CLI_USAGE, "--%s: the problem has no %s; add :%s", option, word, word);
}

static int check_operands(const request *q)
{
    const deal_paths *const from = &q->from;
    const bool any = from->a || from->b || from->bias || from->start || from->residual ||
                     from->gain || q->c || q->added;
    const bool normed = q->shape.has_norm;
    if (!any) return CLI_OK;
    if (from->a == NULL || from->b == NULL)
        return out_error(CLI_USAGE, "--%s is missing: --a and --b go together",
                         from->a ? "b" : "a");
    if (from->start && !q->shape.accumulates)
        return out_error(CLI_USAGE, "--start: the problem does not add to C; add :accumulate");
    int code = check_operand("bias", from->bias, q->shape.has_bias, "bias");
    if (code == CLI_OK) code = check_operand("residual", from->residual, normed, "norm");
    if (code == CLI_OK) code = check_operand("gain", from->gain, normed, "norm");
    if (code == CLI_OK && q->added && !normed)
        code = check_operand("residual-out", q->added, normed, "norm");
    return code;
}

/* Where files have a number for each rank, or are spelled in two ways: is nothing that is read
 * written over, and nothing written twice? */
static int check_written(const request *q)
{
    enum { FILES = 10 };
    const deal_paths *const from = &q->from;
    char as[FILE_PATH];
    char env[ARGS_ENV_FILES][FILE_PATH];
    if (q->where.as != NULL) args_path(q->where.as, ARGS_MACHINE, as);
    apart_file file[FILES + ARGS_ENV_FILES] = {
        {"--out", q->c, true, true},
        {"--residual-out", q->added, true, true},
        {"--timeline", q->how.drawing->path, false, true},
        {"--a", from->a, true, false},
        {"--b", from->b, true, false},
        {"--bias", from->bias, true, false},
        {"--start", from->start, true, false},
        {"--gain", from->gain, true, false},
        {"--residual", from->residual, true, false},
        {"--as", q->where.as != NULL ? as : NULL, false, false}};
    for (int i = 0; i < ARGS_ENV_FILES; i++) {
        const char *const name = args_env_file(i, env[i]);
        file[FILES + i] = (apart_file){name, env[i][0] != '\0' ? env[i] : NULL, false, false};
    }
    return apart_check(file, FILES + ARGS_ENV_FILES, q->shape.ranks);
}

/* What must hold among the options, before anything is opened. */
static int check_files(const request *q)
{
    const shingle_shape *const shape = &q->shape;
    if (check_operands(q) != CLI_OK) return CLI_USAGE;
    if (q->all && (q->c || q->added))
        return out_error(CLI_USAGE, "--%s takes the result of one strategy, not --all",
                         q->c ? "out" : "residual-out");
    if (report_check(&q->how) != CLI_OK) return CLI_USAGE;
    if (report_check_forced(q->strategy, q->how.choose) != CLI_OK) return CLI_USAGE;
    if (shape->ranks > GROUP_RANKS)
        return out_error(CLI_USAGE,
                         "%d ranks; 1 to %d can run in one process (shingle plan takes 1024)",
                         shape->ranks, (int)GROUP_RANKS);
    char error[FILE_ERROR];
    if ((q->c != NULL && !deal_check_path(q->c, shape->ranks, error)) ||
        (q->added != NULL && !deal_check_path(q->added, shape->ranks, error)))
        return out_error(CLI_USAGE, "%s", error);
    if (check_written(q) != CLI_OK) return CLI_USAGE;
    return drawing_check(q->how.drawing, q->all ? DRAWING_MOST : 2);
}

static int run(request *q, bool json)
{
    const shingle_status status = shingle_problem_shape(q->problem, 0, &q->shape);
    if (status != SHINGLE_OK) return out_status(status);
    int code = check_files(q);
    if (code != CLI_OK) return code;
    if (q->from.a == NULL) return run_group(q, NULL, json);

    char error[FILE_ERROR];
    deal *const d = out_get(sizeof *d);
    bool ok = deal_begin(q->problem, d, error);
    ok = ok && deal_read(d, &q->from, error);
    code = ok ? run_group(q, d, json) : out_error(CLI_USAGE, "%s", error);
    deal_free(d);
    free(d);
    return code;
}

static const char notes[] =
    "PROBLEM is OP:TYPE:MxNxK:rRANKS and more (docs/problem.md), m n k being of one rank; or a\n"
    "plan's text, as shingle plan prints it.\n"
    "\n"
    "Without --a and --b the library makes data whose products are exact, and compares bits.\n"
    "With them every element is compared with a plain product, within the error bound of a sum\n"
    "of its length; the times are measured on data of the same shape.  A path with %d names one\n"
    "file per rank: A (rows the rank holds, k), B (n, k), bias (n,), C as shingle_run has it.\n"
    "Any other path names one array that is dealt out to P ranks:\n"
    "             A                    B                     bias     C\n"
    "  ag_gemm    (m, k) by owner      (P*n, k) by rows      (P*n,)   (m, P*n) by columns\n"
    "  gemm_rs    (m, P*k) by columns  (n, P*k) by columns   (n,)     (m, n) by owner\n"
    "  gemm_ar    (m, P*k) by columns  (n, P*k) by columns   (n,)     (m, n)\n"
    "  gemm       (P*m, k) by rows     (P*n, k) by rows      (P*n,)   (P*m, n) by rows\n"
    "  gather=b   (P*m, k) by rows     (n, k) by owner       (n,)     (P*m, n) by rows\n"
    "  gather=k   (m, k) by owner      (P*n, k) by rows      (P*n,)   (m, P*n) by columns\n"
    "a2a_gemm and gemm_a2a are dealt as gemm is, each rank's own rows of A and C.  A problem with\n"
    "call= computes its rows with a plain product here.  Several B (b=) are the rows of one, and\n"
    "their C the columns of one.  The residual of a norm is as C is, its gain (n,).\n"
    "Files are .npy 1.0 or 2.0: '<f4' is f32, '<f2' f16, '<u2' or '|V2' the bits of bf16.  B\n"
    "may also be in Fortran order with its extents swapped, which is the same memory.\n";

enum { OWN = 11, OPTIONS = OWN + REPORT_OPTIONS };

static void make_options(request *q, drawing_file *drawing, args_option *list)
{
    const args_option options[OWN] = {
        group_strategy_option(&q->strategy,
                              "force one: ring or 'ring{sub=2}'; otherwise the planner chooses"),
        {.name = "all",
         .kind = ARGS_FLAG,
         .value = &q->all,
         .brief = "every strategy that applies, with its best predicted knobs",
         .without = "strategy"},
        {.name = "a",
         .kind = ARGS_TEXT,
         .value = &q->from.a,
         .unit = "FILE",
         .brief = "A from a .npy file; a.%d.npy for one per rank",
         .reads = true},
        {.name = "b",
         .kind = ARGS_TEXT,
         .value = &q->from.b,
         .unit = "FILE",
         .brief = "B",
         .reads = true},
        {.name = "bias",
         .kind = ARGS_TEXT,
         .value = &q->from.bias,
         .unit = "FILE",
         .brief = "the bias",
         .reads = true},
        {.name = "residual",
         .kind = ARGS_TEXT,
         .value = &q->from.residual,
         .unit = "FILE",
         .brief = "what is added in front of a norm",
         .reads = true},
        {.name = "gain",
         .kind = ARGS_TEXT,
         .value = &q->from.gain,
         .unit = "FILE",
         .brief = "the gain of a norm",
         .reads = true},
        {.name = "start",
         .kind = ARGS_TEXT,
         .value = &q->from.start,
         .unit = "FILE",
         .brief = "what C holds before, with :accumulate; otherwise zeros",
         .reads = true},
        {.name = "out",
         .letter = 'o',
         .kind = ARGS_TEXT,
         .value = &q->c,
         .unit = "FILE",
         .brief = "write C, gathered, or one per rank with %d",
         .writes = true},
        {.name = "residual-out",
         .kind = ARGS_TEXT,
         .value = &q->added,
         .unit = "FILE",
         .brief = "write what a norm leaves in the residual",
         .writes = true},
        drawing_option(drawing),
    };
    memcpy(list, options, sizeof options);
    report_add_options(&q->where, &q->how, list + OWN);
    q->how.drawing = drawing;
}

/* An option that has a say in what is chosen: a plan's own text leaves nothing to choose. */
static const char *choosing_option(const request *q)
{
    return q->all                ? "all"
           : q->how.measure > 0  ? "measure"
           : q->how.choose       ? "choose"
           : q->how.reproducible ? "reproducible"
                                 : NULL;
}

int cmd_run(int argc, char **argv)
{
    request q = {.problem = NULL};
    drawing_file drawing = {.path = NULL};
    args_option options[OPTIONS];
    make_options(&q, &drawing, options);
    const args_command command = {
        .name = "run",
        .brief = "Runs one product on ranks of this computer, timed against not overlapping.",
        .usage = "PROBLEM [options]",
        .examples = "  shingle run gemm_rs:f32:512x1024x768:r4\n"
                    "  shingle run ag_gemm:bf16:512x1536x4096:r4 --all --as h200x4\n"
                    "  shingle run ag_gemm:f32:512x1024x768:r4 --a x.npy --b w.npy --out y.npy\n",
        .notes = notes,
        .option = options,
        .options = OPTIONS,
        .least_words = 1,
        .most_words = 1,
        .words = "one PROBLEM, such as gemm_rs:f32:512x1024x768:r4,"};
    args a;
    int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO) {
        group_asked asked;
        code = group_ask(a.word[0], q.strategy, choosing_option(&q), &asked);
        q.problem = asked.problem;
        q.strategy = asked.strategy;
        if (code == CLI_OK) code = run(&q, a.json);
        code = drawing_end(&drawing, code, a.json);
        group_drop(&asked);
    }
    args_free(&a);
    return code;
}
