/* bench.c -- see bench.h. */
#include "core/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data.h"
#include "core/planner.h"
#include "core/recording.h"
#include "core/tuned.h"

enum { CANARY = 256, MOST_RUNS = 10000, MOST_SETS = 4, CHECKS = 3 };

/* A set of matrices of all ranks that is at least this large leaves no cache warm for the next. */
static const int64_t cold_bytes = INT64_C(192) << 20;
static const int64_t large_bytes = INT64_C(512) << 20; /* checked once only */
static const double batch_seconds = 0.01;

static const double sync_seconds = 3600; /* the run's own limits end it long before */

/* A plan as all ranks run it. */
typedef struct entry {
    char *text;
    shingle_plan **plan; /* per rank, bound */
    int checks;          /* whole runs whose result was compared */
} entry;

/* Matrices of one rank; C lies between two canaries. */
typedef struct tensors {
    void *a, *b, *bias;
    uint8_t *c; /* the block; the matrix starts CANARY bytes later */
    size_t a_bytes, b_bytes, c_bytes;
    void *host; /* room for the largest of them, where they are not in the host's memory */
} tensors;

struct sg_bench {
    sg_group *group;
    const sg_problem *problem;
    uint64_t seed;
    tensors *rank;
    tensors *timed; /* [set][rank]: what runs are timed on, if the backend does it */
    int sets;
    entry *entry;
    int32_t entries, room;
    int64_t wrong;
    int64_t wrong_seen; /* of these, what the stopwatch has reported */
};

/* ---- Memory ----------------------------------------------------------------------------------------- */

static const sg_backend *backend_of(const sg_bench *b)
{
    return b->group->backend;
}

static shingle_status matrix_bytes(const sg_problem *p, int64_t rows, int64_t cols, size_t *out)
{
    int64_t bytes = 0;
    if (!sg_mul(rows, cols, &bytes) || !sg_mul(bytes, sg_type_bytes(p->type), &bytes))
        return sg_fail(SHINGLE_ENOMEM, "a matrix of %lld x %lld is too large", (long long)rows,
                       (long long)cols);
    *out = (size_t)bytes;
    return SHINGLE_OK;
}

static shingle_status alloc_tensors(const sg_bench *b, int r, tensors *t)
{
    const sg_problem *const p = b->problem;
    shingle_comm *const comm = b->group->comm[r];
    size_t bias_bytes = 0;
    SG_TRY(matrix_bytes(p, sg_problem_a_rows(p, r), sg_problem_a_cols(p, r), &t->a_bytes));
    SG_TRY(matrix_bytes(p, sg_problem_b_rows(p, r), p->k, &t->b_bytes));
    SG_TRY(matrix_bytes(p, p->bias ? 1 : 0, p->n, &bias_bytes));
    SG_TRY(matrix_bytes(p, sg_problem_c_rows(p, r), p->n, &t->c_bytes));
    SG_TRY(shingle_alloc(comm, t->a_bytes + 1, &t->a));
    SG_TRY(shingle_alloc(comm, t->b_bytes + 1, &t->b));
    SG_TRY(shingle_alloc(comm, bias_bytes + 1, &t->bias));
    void *block = NULL;
    SG_TRY(shingle_alloc(comm, t->c_bytes + 2 * CANARY, &block));
    t->c = block;
    return SHINGLE_OK;
}

static size_t largest(const tensors *t)
{
    const size_t c = t->c_bytes + 2 * CANARY;
    const size_t ab = t->a_bytes > t->b_bytes ? t->a_bytes : t->b_bytes;
    return ab > c ? ab : c;
}

static shingle_status alloc_rank(sg_bench *b, int r)
{
    tensors *const t = &b->rank[r];
    SG_TRY(alloc_tensors(b, r, t));
    if (backend_of(b)->write == NULL) return SHINGLE_OK;
    t->host = malloc(largest(t));
    if (t->host == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a benchmark");
    return SHINGLE_OK;
}

static void free_tensors(const sg_bench *b, int r, tensors *t)
{
    shingle_comm *const comm = b->group->comm[r];
    shingle_free(comm, t->a);
    shingle_free(comm, t->b);
    shingle_free(comm, t->bias);
    shingle_free(comm, t->c);
    free(t->host);
}

shingle_status sg_bench_open(sg_group *group, const sg_problem *problem, uint64_t seed,
                             sg_bench **bench_out)
{
    if (problem->ranks != group->ranks)
        return sg_fail(SHINGLE_EINVAL, "the problem has %d ranks; this group has %d",
                       problem->ranks, group->ranks);
    sg_bench *const b = calloc(1, sizeof *b);
    if (b == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a benchmark");
    *b = (sg_bench){.group = group, .problem = problem, .seed = sg_mix(seed)};
    b->rank = calloc((size_t)group->ranks, sizeof *b->rank);
    shingle_status status = SHINGLE_OK;
    if (b->rank == NULL) status = sg_fail(SHINGLE_ENOMEM, "no memory for a benchmark");
    for (int r = 0; status == SHINGLE_OK && r < group->ranks; r++) status = alloc_rank(b, r);
    if (status != SHINGLE_OK) {
        sg_bench_close(b);
        return status;
    }
    *bench_out = b;
    return SHINGLE_OK;
}

static void free_entry(entry *e, int ranks)
{
    for (int r = 0; e->plan != NULL && r < ranks; r++) shingle_plan_free(e->plan[r]);
    free(e->plan);
    free(e->text);
}

void sg_bench_close(sg_bench *b)
{
    if (b == NULL) return;
    for (int32_t i = 0; i < b->entries; i++) free_entry(&b->entry[i], b->group->ranks);
    free(b->entry);
    for (int r = 0; b->rank != NULL && r < b->group->ranks; r++) free_tensors(b, r, &b->rank[r]);
    for (int i = 0; b->timed != NULL && i < b->sets * b->group->ranks; i++)
        free_tensors(b, i % b->group->ranks, &b->timed[i]);
    free(b->timed);
    free(b->rank);
    free(b);
}

/* ---- Plans ------------------------------------------------------------------------------------------ */

static shingle_status fill_entry(const sg_bench *b, const shingle_plan *plan, entry *e)
{
    e->text = malloc(strlen(plan->text) + 1);
    e->plan = calloc((size_t)b->group->ranks, sizeof(shingle_plan *));
    if (e->text == NULL || e->plan == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory for another plan to time");
    memcpy(e->text, plan->text, strlen(plan->text) + 1);
    for (int r = 0; r < b->group->ranks; r++) {
        SG_TRY(sg_plan_make(&plan->problem, plan->strategy, &plan->knobs, &e->plan[r]));
        if (plan->problem.call) {
            e->plan[r]->compute = sg_data_compute;
            e->plan[r]->compute_context = &e->plan[r]->problem;
        }
        SG_TRY(sg_comm_bind(b->group->comm[r], e->plan[r]));
    }
    return SHINGLE_OK;
}

/* PLAN as all ranks run it, bound at the first question. */
static shingle_status find_entry(sg_bench *b, const shingle_plan *plan, entry **entry_out)
{
    for (int32_t i = 0; i < b->entries; i++) {
        *entry_out = &b->entry[i];
        if (strcmp(b->entry[i].text, plan->text) == 0) return SHINGLE_OK;
    }
    if (!sg_grow(&b->entry, &b->room, (int64_t)b->entries + 1, sizeof *b->entry))
        return sg_fail(SHINGLE_ENOMEM, "no memory for another plan to time");
    entry e = {.text = NULL};
    const shingle_status status = fill_entry(b, plan, &e);
    if (status != SHINGLE_OK) {
        free_entry(&e, b->group->ranks);
        return status;
    }
    b->entry[b->entries++] = e;
    *entry_out = &b->entry[b->entries - 1];
    return SHINGLE_OK;
}

/* ---- Runs ------------------------------------------------------------------------------------------- */

/* What is done for each rank before and after a run: one after the other where the memory is the
 * host's, at the same time where all of it travels. */
typedef struct errand {
    sg_bench *bench;
    const sg_data *data;
    const char *plan;
    int rank;
    int64_t wrong;
    shingle_status status;
    char why[256];
} errand;

static void *run_errand(errand *e, shingle_status (*go)(errand *))
{
    e->status = go(e);
    if (e->status != SHINGLE_OK) snprintf(e->why, sizeof e->why, "%s", shingle_error());
    return NULL;
}

static shingle_status fill(const errand *e, sg_tensor tensor, void *to, size_t bytes)
{
    const tensors *const t = &e->bench->rank[e->rank];
    const sg_backend *const backend = backend_of(e->bench);
    if (backend->write == NULL) return sg_data_fill(e->data, tensor, e->rank, to, 0);
    SG_TRY(sg_data_fill(e->data, tensor, e->rank, t->host, 0));
    return backend->write(e->bench->group->self, e->rank, to, t->host, bytes);
}

/* New inputs, and a C in which nothing is right. */
static shingle_status prepare(errand *e)
{
    sg_bench *const b = e->bench;
    const tensors *const t = &b->rank[e->rank];
    const sg_problem *const p = b->problem;
    const size_t bias_bytes = (size_t)(p->n * sg_type_bytes(p->type));
    SG_TRY(fill(e, SG_TENSOR_A, t->a, t->a_bytes));
    SG_TRY(fill(e, SG_TENSOR_B, t->b, t->b_bytes));
    if (p->bias) SG_TRY(fill(e, SG_TENSOR_BIAS, t->bias, bias_bytes));
    uint8_t *const c = t->host != NULL ? t->host : t->c;
    memset(c, 0xa5, t->c_bytes + 2 * CANARY);
    memset(c + CANARY, 0xff, t->c_bytes); /* NaN in every type */
    if (p->accumulate) SG_TRY(sg_data_fill(e->data, SG_TENSOR_C, e->rank, c + CANARY, 0));
    if (backend_of(b)->write == NULL) return SHINGLE_OK;
    return backend_of(b)->write(b->group->self, e->rank, t->c, c, t->c_bytes + 2 * CANARY);
}

static shingle_status compare(errand *e)
{
    sg_bench *const b = e->bench;
    const tensors *const t = &b->rank[e->rank];
    const uint8_t *c = t->c;
    if (backend_of(b)->read != NULL) {
        c = t->host;
        SG_TRY(
            backend_of(b)->read(b->group->self, e->rank, t->host, t->c, t->c_bytes + 2 * CANARY));
    }
    for (size_t i = 0; i < CANARY; i++)
        if (c[i] != 0xa5 || c[CANARY + t->c_bytes + i] != 0xa5)
            return sg_fail(SHINGLE_EBUG, "a run stored outside of C of rank %d", e->rank);
    sg_data_wrong wrong;
    SG_TRY(sg_data_compare(e->data, e->rank, c + CANARY, 0, &wrong));
    e->wrong = wrong.elements;
    if (wrong.elements == 0) return SHINGLE_OK;
    char line[160] = "";
    sg_text text = {line, sizeof line, 0};
    sg_data_describe(&wrong, e->rank, &text);
    sg_log(SG_LOG_ERROR, "%s: %s", e->plan, line);
    return SHINGLE_OK;
}

static void *prepare_thread(void *argument)
{
    return run_errand(argument, prepare);
}

static void *compare_thread(void *argument)
{
    return run_errand(argument, compare);
}

static shingle_status for_ranks(sg_bench *b, const sg_data *data, const char *plan,
                                void *(*go)(void *))
{
    const int ranks = b->group->ranks;
    const bool parallel = backend_of(b)->write != NULL;
    shingle_status status = SHINGLE_OK;
    errand *const list = calloc((size_t)ranks, sizeof *list);
    pthread_t *const thread = calloc((size_t)ranks, sizeof *thread);
    bool *const started = calloc((size_t)ranks, sizeof *started);
    const bool complete = list != NULL && thread != NULL && started != NULL;
    if (!complete) status = sg_fail(SHINGLE_ENOMEM, "no memory for %d ranks", ranks);
    for (int r = 0; complete && r < ranks; r++) {
        list[r] = (errand){.bench = b, .data = data, .plan = plan, .rank = r};
        started[r] = parallel && pthread_create(&thread[r], NULL, go, &list[r]) == 0;
        if (!started[r]) go(&list[r]);
    }
    for (int r = 0; complete && r < ranks; r++) {
        if (started[r]) pthread_join(thread[r], NULL);
        b->wrong += list[r].wrong;
        if (status == SHINGLE_OK && list[r].status != SHINGLE_OK)
            status = sg_fail(list[r].status, "%s", list[r].why);
    }
    free(list);
    free(thread);
    free(started);
    return status;
}

static shingle_status enqueue(const sg_bench *b, const entry *e, const tensors *t, int rank,
                              unsigned kinds, void *stream)
{
    const shingle_tensors run = {
        .a = t->a, .b = t->b, .bias = b->problem->bias ? t->bias : NULL, .c = t->c + CANARY};
    return sg_comm_run(e->plan[rank], &run, stream, kinds);
}

/* Starts all ranks, waits for all; the first failure counts, but every rank is waited for. */
static shingle_status run_all(sg_bench *b, const entry *e, unsigned kinds, double *us_out)
{
    shingle_status status = SHINGLE_OK;
    const double begin = sg_now_us();
    for (int r = 0; r < b->group->ranks && status == SHINGLE_OK; r++)
        status = enqueue(b, e, &b->rank[r], r, kinds, NULL);
    char why[512] = "";
    if (status != SHINGLE_OK) snprintf(why, sizeof why, "%s", shingle_error());
    for (int r = 0; r < b->group->ranks; r++) {
        const shingle_status synced = shingle_sync(b->group->comm[r], sync_seconds);
        if (status != SHINGLE_OK || synced == SHINGLE_OK) continue;
        status = synced;
        snprintf(why, sizeof why, "%s", shingle_error());
    }
    *us_out = sg_now_us() - begin;
    return status == SHINGLE_OK ? SHINGLE_OK : sg_fail(status, "%s", why);
}

/* A whole run on new data, whose result is compared. */
static shingle_status run_checked(sg_bench *b, entry *e, double *us_out)
{
    sg_data data;
    SG_TRY(sg_data_make(b->problem, b->seed++, &data));
    SG_TRY(for_ranks(b, &data, e->text, prepare_thread));
    SG_TRY(run_all(b, e, ~0u, us_out));
    e->checks++;
    return for_ranks(b, &data, e->text, compare_thread);
}

/* ---- Runs that the backend times -------------------------------------------------------------------- */

/* BYTES bytes of normally distributed values: what a product costs depends on its data, by way of
 * power. */
static shingle_status fill_normal(const sg_bench *b, int rank, void *to, size_t bytes,
                                  const char *values, size_t value_bytes)
{
    for (size_t at = 0; at < bytes; at += value_bytes) {
        const size_t part = bytes - at < value_bytes ? bytes - at : value_bytes;
        SG_TRY(backend_of(b)->write(b->group->self, rank, (char *)to + at, values, part));
    }
    return SHINGLE_OK;
}

static char *normal_values(sg_type type, int64_t count)
{
    char *const values = malloc((size_t)(count * sg_type_bytes(type)));
    sg_random random = {1};
    for (int64_t i = 0; values != NULL && i < count; i++) {
        /* A sum of four uniform values is close enough. */
        double sum = 0;
        for (int j = 0; j < 4; j++) sum += (double)(sg_random_next(&random) >> 11) * 0x1p-53;
        sg_data_store(type, (float)((sum - 2) * 1.7320508), values, i);
    }
    return values;
}

static shingle_status make_sets(sg_bench *b)
{
    enum { VALUES = 1 << 20 };
    const int ranks = b->group->ranks;
    const tensors *const one = &b->rank[0];
    const int64_t bytes = (int64_t)(one->a_bytes + one->b_bytes + one->c_bytes) + 1;
    const sg_type type = b->problem->type;
    b->timed = calloc((size_t)(MOST_SETS * ranks), sizeof *b->timed);
    char *const values = normal_values(type, VALUES);
    shingle_status status = SHINGLE_OK;
    if (b->timed == NULL || values == NULL)
        status = sg_fail(SHINGLE_ENOMEM, "no memory for a benchmark");
    if (b->timed != NULL) b->sets = (int)sg_min(1 + cold_bytes / bytes, MOST_SETS);
    for (int i = 0; status == SHINGLE_OK && i < b->sets * ranks; i++) {
        const size_t value_bytes = (size_t)(VALUES * sg_type_bytes(type));
        tensors *const t = &b->timed[i];
        const int r = i % ranks;
        status = alloc_tensors(b, r, t);
        if (status == SHINGLE_OK) status = fill_normal(b, r, t->a, t->a_bytes, values, value_bytes);
        if (status == SHINGLE_OK) status = fill_normal(b, r, t->b, t->b_bytes, values, value_bytes);
    }
    free(values);
    return status;
}

typedef struct timing {
    const sg_bench *bench;
    const entry *entry;
    unsigned kinds;
} timing;

static shingle_status enqueue_timed(void *context, int rank, int index, void *stream)
{
    const timing *const t = context;
    const sg_bench *const b = t->bench;
    const tensors *const set = &b->timed[index % b->sets * b->group->ranks + rank];
    return enqueue(b, t->entry, set, rank, t->kinds, stream);
}

static shingle_status run_timed(sg_bench *b, entry *e, unsigned kinds, double *us_out)
{
    const tensors *const one = &b->rank[0];
    const int checks =
        (int64_t)(one->a_bytes + one->b_bytes + one->c_bytes) > large_bytes ? 1 : CHECKS;
    double us = 0;
    while (kinds == ~0u && e->checks < checks) SG_TRY(run_checked(b, e, &us));
    if (b->timed == NULL) SG_TRY(make_sets(b));
    timing t = {b, e, kinds};
    return backend_of(b)->time(b->group->self, enqueue_timed, &t, batch_seconds, us_out);
}

shingle_status sg_bench_run(sg_bench *b, const shingle_plan *plan, unsigned kinds, double *us_out)
{
    entry *e = NULL;
    double us = 0;
    SG_TRY(find_entry(b, plan, &e));
    if (backend_of(b)->time != NULL)
        SG_TRY(run_timed(b, e, kinds, &us));
    else if (kinds == ~0u)
        SG_TRY(run_checked(b, e, &us));
    else
        SG_TRY(run_all(b, e, kinds, &us));
    *us_out = us;
    return SHINGLE_OK;
}

int64_t sg_bench_wrong(const sg_bench *b)
{
    return b->wrong;
}

shingle_status sg_bench_watch(void *context, const shingle_plan *plan, double *us_out)
{
    sg_bench *const b = context;
    SG_TRY(sg_bench_run(b, plan, ~0u, us_out));
    if (b->wrong == b->wrong_seen) return SHINGLE_OK;
    const int64_t wrong = b->wrong - b->wrong_seen;
    b->wrong_seen = b->wrong;
    return sg_fail(SHINGLE_EBUG, "%s computed %lld wrong elements", plan->text, (long long)wrong);
}

static int compare_us(const void *x, const void *y)
{
    const double a = *(const double *)x;
    const double b = *(const double *)y;
    return (a > b) - (a < b);
}

double sg_bench_median(double *us, int count)
{
    if (count == 0) return 0;
    qsort(us, (size_t)count, sizeof *us, compare_us);
    return count % 2 == 1 ? us[count / 2] : (us[count / 2 - 1] + us[count / 2]) / 2;
}

/* ---- The public call --------------------------------------------------------------------------------- */

enum { GEMM_ALONE, COLL_ALONE, SERIAL, OVERLAPPED, TIMED };

typedef struct trial {
    sg_bench *bench;
    shingle_plan *serial, *plan;
    bool talks;        /* the serial plan has collectives */
    double *us[TIMED]; /* those of SERIAL and OVERLAPPED lie side by side */
} trial;

static bool has_colls(const shingle_plan *plan)
{
    sg_sched s = {0};
    bool found = false;
    if (sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, 0, &s) == SHINGLE_OK)
        for (int32_t i = 0; i < s.steps; i++) found |= s.step[i].kind == SG_COLL;
    sg_sched_free(&s);
    return found;
}

/* One of each kind, in turn.  Whatever is not the product or the collective (bias and activation of
 * a sum) counts with the product. */
static shingle_status run_round(const trial *t, int at)
{
    const unsigned coll = 1u << SG_COLL;
    const unsigned kinds[TIMED] = {~0u & ~coll, coll, ~0u, ~0u};
    for (int i = 0; i < TIMED; i++) {
        double us = 0;
        if (i == COLL_ALONE && !t->talks) continue;
        SG_TRY(sg_bench_run(t->bench, i == OVERLAPPED ? t->plan : t->serial, kinds[i], &us));
        if (at >= 0) t->us[i][at] = us;
    }
    return SHINGLE_OK;
}

/* If the serial plan itself was chosen, both took turns at the same thing and have one time. */
static void report(trial *t, int iterations, shingle_bench_result *result_out)
{
    double us[TIMED];
    const bool same = strcmp(t->plan->text, t->serial->text) == 0;
    for (int i = 0; i < TIMED; i++) {
        if (i == OVERLAPPED && same)
            us[i] = us[SERIAL];
        else if (i == COLL_ALONE && !t->talks)
            us[i] = 0;
        else
            us[i] = sg_bench_median(t->us[i], i == SERIAL && same ? 2 * iterations : iterations);
    }
    const double gemm = us[GEMM_ALONE];
    const double coll = us[COLL_ALONE];
    const double less = gemm < coll ? gemm : coll;
    const double more = gemm < coll ? coll : gemm;
    *result_out = (shingle_bench_result){
        .gemm_us = gemm,
        .coll_us = coll,
        .serial_us = us[SERIAL],
        .overlapped_us = us[OVERLAPPED],
        .predicted_us = t->plan->predicted_us,
        .hidden = less > 0 ? (gemm + coll - us[OVERLAPPED]) / less : 1,
        .speedup = us[OVERLAPPED] > 0 ? us[SERIAL] / us[OVERLAPPED] : 1,
        .efficiency = us[OVERLAPPED] > 0 ? more / us[OVERLAPPED] : 1,
        .wrong = sg_bench_wrong(t->bench),
    };
    sg_text text = {result_out->strategy, sizeof result_out->strategy, 0};
    sg_strategy_print(t->plan->strategy, &t->plan->knobs, &text);
}

static shingle_status run_trial(trial *t, sg_group *group, const sg_problem *problem,
                                const shingle_bench_options *o, shingle_bench_result *result_out)
{
    sg_machine machine = *sg_comm_machine(group->comm[0], problem->type);
    if (machine.ranks < group->ranks) machine.ranks = group->ranks;
    const sg_stopwatch watch = {sg_bench_watch, t->bench};
    const shingle_plan_options wanted = {.strategy = o->strategy, .measure = o->measure};
    const shingle_plan_options baseline = {.strategy = sg_strategy_at(0)->name};
    SG_TRY(sg_planner_choose(problem, &machine, &baseline, NULL, &group->can, &t->serial));
    /* Without measuring it is the plan that the group would take, tuned ones among them. */
    if (o->measure == 0)
        SG_TRY(sg_tuned_plan(group->comm[0], problem, &wanted, &t->plan));
    else
        SG_TRY(sg_planner_choose(problem, &machine, &wanted, &watch, &group->can, &t->plan));
    t->talks = has_colls(t->serial);
    for (int i = 0; i < o->warmup; i++) SG_TRY(run_round(t, -1));
    for (int i = 0; i < o->iterations; i++) SG_TRY(run_round(t, i));
    report(t, o->iterations, result_out);
    if (o->timelines_out == NULL) return SHINGLE_OK;
    return sg_recording_bench(group, t->bench, t->plan, result_out, o->timelines_out);
}

static shingle_status bench_problem(sg_group *group, const sg_problem *problem,
                                    const shingle_bench_options *o,
                                    shingle_bench_result *result_out)
{
    trial t = {0};
    double *const us = calloc((size_t)o->iterations * TIMED, sizeof *us);
    if (us == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %d iterations", o->iterations);
    for (int i = 0; i < TIMED; i++) t.us[i] = us + i * o->iterations;
    shingle_status status = sg_bench_open(group, problem, o->seed, &t.bench);
    if (status == SHINGLE_OK) status = run_trial(&t, group, problem, o, result_out);
    sg_bench_close(t.bench);
    sg_plan_free(t.serial);
    sg_plan_free(t.plan);
    free(us);
    return status;
}

static shingle_status check_group(int ranks, shingle_comm *const *comm)
{
    if (comm == NULL || ranks < 1 || comm[0] == NULL)
        return sg_fail(SHINGLE_EINVAL, "no comms; all those of one shingle_open are needed");
    sg_group *const group = comm[0]->group;
    for (int r = 0; r < ranks; r++)
        if (ranks != group->ranks || comm[r] != group->comm[r])
            return sg_fail(SHINGLE_EINVAL,
                           "%d comms of a group of %d; all are needed, in rank order", ranks,
                           group->ranks);
    return SHINGLE_OK;
}

shingle_status shingle_bench(int ranks, shingle_comm *const *comm, const char *problem,
                             const shingle_bench_options *options, shingle_bench_result *result_out)
{
    SG_TRY(check_group(ranks, comm));
    if (result_out == NULL) return sg_fail(SHINGLE_EINVAL, "no place for the result");
    shingle_bench_options o = {0};
    if (options != NULL) o = *options;
    if (o.iterations < 0 || o.iterations > MOST_RUNS || o.warmup < 0 || o.warmup > MOST_RUNS)
        return sg_fail(SHINGLE_EINVAL, "%d iterations and %d warmup runs; 0 (default) to %d each",
                       o.iterations, o.warmup, MOST_RUNS);
    if (o.iterations == 0) o.iterations = 5;
    if (o.warmup == 0) o.warmup = 1;
    sg_problem parsed;
    SG_TRY(sg_problem_parse(problem, &parsed));
    const shingle_status status = bench_problem(comm[0]->group, &parsed, &o, result_out);
    sg_problem_free(&parsed);
    return status;
}
