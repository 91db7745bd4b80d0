/* bench.c -- see bench.h. */
#include "core/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data.h"
#include "core/planner.h"
#include "core/sim.h"

enum { CANARY = 256, MOST_RUNS = 10000 };

static const double sync_seconds = 3600; /* the run's own limits end it long before */

/* A plan as all ranks run it. */
typedef struct entry {
    char *text;
    shingle_plan **plan; /* per rank, bound */
} entry;

/* Matrices of one rank; C lies between two canaries. */
typedef struct tensors {
    void *a, *b, *bias;
    uint8_t *c; /* the block; the matrix starts CANARY bytes later */
    size_t c_bytes;
} tensors;

struct sg_bench {
    sg_group *group;
    const sg_problem *problem;
    uint64_t seed;
    tensors *rank;
    entry *entry;
    int32_t entries, room;
    int64_t wrong;
    int64_t wrong_seen; /* of these, what the stopwatch has reported */
};

/* ---- Memory ----------------------------------------------------------------------------------------- */

static shingle_status alloc_rank(sg_bench *b, int r)
{
    const sg_problem *const p = b->problem;
    shingle_comm *const comm = b->group->comm[r];
    tensors *const t = &b->rank[r];
    const int64_t rows[3] = {sg_problem_a_rows(p, r), p->n, p->bias ? 1 : 0};
    const int64_t cols[3] = {p->k, p->k, p->n};
    void **const to[3] = {&t->a, &t->b, &t->bias};
    int64_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        if (!sg_mul(rows[i], cols[i], &bytes) || !sg_mul(bytes, sg_type_bytes(p->type), &bytes))
            return sg_fail(SHINGLE_ENOMEM, "matrices of rank %d are too large", r);
        SG_TRY(shingle_alloc(comm, (size_t)sg_max(bytes, 1), to[i]));
    }
    if (!sg_mul(sg_problem_c_rows(p, r), p->n, &bytes) ||
        !sg_mul(bytes, sg_type_bytes(p->type), &bytes))
        return sg_fail(SHINGLE_ENOMEM, "matrices of rank %d are too large", r);
    void *block = NULL;
    SG_TRY(shingle_alloc(comm, (size_t)bytes + 2 * CANARY, &block));
    t->c = block;
    t->c_bytes = (size_t)bytes;
    return SHINGLE_OK;
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
    for (int r = 0; b->rank != NULL && r < b->group->ranks; r++) {
        shingle_comm *const comm = b->group->comm[r];
        shingle_free(comm, b->rank[r].a);
        shingle_free(comm, b->rank[r].b);
        shingle_free(comm, b->rank[r].bias);
        shingle_free(comm, b->rank[r].c);
    }
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
    entry e = {NULL, NULL};
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

/* New inputs for every rank, and a C in which nothing is right. */
static shingle_status prepare(sg_bench *b, sg_data *data)
{
    SG_TRY(sg_data_make(b->problem, b->seed++, data));
    for (int r = 0; r < b->group->ranks; r++) {
        const tensors *const t = &b->rank[r];
        SG_TRY(sg_data_fill(data, SG_TENSOR_A, r, t->a, 0));
        SG_TRY(sg_data_fill(data, SG_TENSOR_B, r, t->b, 0));
        if (b->problem->bias) SG_TRY(sg_data_fill(data, SG_TENSOR_BIAS, r, t->bias, 0));
        memset(t->c, 0xa5, t->c_bytes + 2 * CANARY);
        memset(t->c + CANARY, 0xff, t->c_bytes); /* NaN in every type */
    }
    return SHINGLE_OK;
}

static shingle_status check_canaries(const tensors *t, int rank)
{
    for (size_t i = 0; i < CANARY; i++)
        if (t->c[i] != 0xa5 || t->c[CANARY + t->c_bytes + i] != 0xa5)
            return sg_fail(SHINGLE_EBUG, "a run stored outside of C of rank %d", rank);
    return SHINGLE_OK;
}

static shingle_status compare(sg_bench *b, const sg_data *data, const char *plan)
{
    for (int r = 0; r < b->group->ranks; r++) {
        const tensors *const t = &b->rank[r];
        sg_data_wrong wrong;
        SG_TRY(check_canaries(t, r));
        SG_TRY(sg_data_compare(data, r, t->c + CANARY, 0, &wrong));
        if (wrong.elements == 0) continue;
        char line[160] = "";
        sg_text text = {line, sizeof line, 0};
        sg_data_describe(&wrong, r, &text);
        sg_log(SG_LOG_ERROR, "%s: %s", plan, line);
        b->wrong += wrong.elements;
    }
    return SHINGLE_OK;
}

/* Starts all ranks, waits for all; the first failure counts, but every rank is waited for. */
static shingle_status run_all(sg_bench *b, const entry *e, unsigned kinds, double *us_out)
{
    shingle_status status = SHINGLE_OK;
    const double begin = sg_now_us();
    for (int r = 0; r < b->group->ranks && status == SHINGLE_OK; r++) {
        const tensors *const t = &b->rank[r];
        const shingle_tensors run = {
            .a = t->a, .b = t->b, .bias = b->problem->bias ? t->bias : NULL, .c = t->c + CANARY};
        status = sg_comm_run(e->plan[r], &run, NULL, kinds);
    }
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

shingle_status sg_bench_run(sg_bench *b, const shingle_plan *plan, unsigned kinds, double *us_out)
{
    entry *e = NULL;
    double us = 0;
    sg_data data;
    const bool whole = kinds == ~0u;
    SG_TRY(find_entry(b, plan, &e));
    if (whole) SG_TRY(prepare(b, &data));
    SG_TRY(run_all(b, e, kinds, &us));
    if (whole) SG_TRY(compare(b, &data, plan->text));
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
    SG_TRY(sg_planner_choose(problem, &machine, &baseline, NULL, group->can, &t->serial));
    SG_TRY(sg_planner_choose(problem, &machine, &wanted, &watch, group->can, &t->plan));
    t->talks = has_colls(t->serial);
    for (int i = 0; i < o->warmup; i++) SG_TRY(run_round(t, -1));
    for (int i = 0; i < o->iterations; i++) SG_TRY(run_round(t, i));
    report(t, o->iterations, result_out);
    return SHINGLE_OK;
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
