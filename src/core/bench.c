/* bench.c -- see bench.h. */
#include "core/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/matrices.h"
#include "core/recover.h"

enum {
    MOST_SETS = 4,
    CHECKS = 3,
    FEW_CHECKS = 2,
    CALLS = 64,
    FEW_CALLS = 16,
    KINDS = 4,
    SINGLES = 3,
    MOST_RUNS = 64
};

/* A set of matrices of all ranks that is at least this large leaves no cache warm for the next. */
static const int64_t cold_bytes = INT64_C(192) << 20;
static const int64_t large_bytes = INT64_C(512) << 20; /* checked a few times only */
static const double batch_us = 5000;
static const double short_us = 2000; /* such plans are run more often */
static const double brief_us = 250;  /* the start of a run is a part of such ones */

static const double sync_seconds = 3600; /* the run's own limits end it long before */

/* A plan as all ranks run it. */
typedef struct entry {
    char *text;
    shingle_plan **plan;   /* per rank, bound */
    int checks;            /* whole runs whose result was compared */
    int64_t wrong;         /* elements of them */
    double call_us[CALLS]; /* of the host, for the latest calls that enqueued a whole run */
    int calls;
    struct {
        unsigned kinds; /* 0: no entry */
        double us;      /* of the latest run */
    } expected[KINDS];
} entry;

struct sg_bench {
    sg_group *group;
    const sg_problem *problem;
    uint64_t seed;
    sg_matrices *exact;
    sg_matrices *timed[MOST_SETS]; /* what runs are timed on, if the backend does it */
    int sets, turn;                /* whose turn it is */
    entry *entry;
    int32_t entries, room;
    int64_t wrong;
    int64_t wrong_seen; /* of these, what the stopwatch has reported */
};

static const sg_backend *backend_of(const sg_bench *b)
{
    return b->group->backend;
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
    const shingle_status status = sg_matrices_open(group, problem, &b->exact);
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
    for (int i = 0; i < b->sets; i++) sg_matrices_close(b->timed[i]);
    sg_matrices_close(b->exact);
    free(b);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

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

static entry *known_entry(const sg_bench *b, const shingle_plan *plan)
{
    for (int32_t i = 0; i < b->entries; i++)
        if (strcmp(b->entry[i].text, plan->text) == 0) return &b->entry[i];
    return NULL;
}

/* PLAN as all ranks run it, bound at the first question. */
static shingle_status find_entry(sg_bench *b, const shingle_plan *plan, entry **entry_out)
{
    *entry_out = known_entry(b, plan);
    if (*entry_out != NULL) return SHINGLE_OK;
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

/* ---- Runs ------------------------------------------------------------------------------------ */

static shingle_status enqueue(const entry *e, const sg_matrices *m, int rank, unsigned kinds,
                              void *stream)
{
    const shingle_tensors run = sg_matrices_tensors(m, rank);
    return sg_comm_run(e->plan[rank], &run, stream, kinds);
}

/* Starts all ranks, waits for all; the first failure counts, but every rank is waited for. */
static shingle_status run_all(sg_bench *b, entry *e, unsigned kinds, double *us_out)
{
    shingle_status status = SHINGLE_OK;
    const double begin = sg_now_us();
    double before = begin;
    for (int r = 0; r < b->group->ranks && status == SHINGLE_OK; r++) {
        status = enqueue(e, b->exact, r, kinds, NULL);
        const double now = sg_now_us();
        if (kinds == ~0u && e->checks > 0) e->call_us[e->calls++ % CALLS] = now - before;
        before = now;
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

/* A whole run on new data, whose result is compared. */
static shingle_status run_checked(sg_bench *b, entry *e, double *us_out)
{
    sg_data data;
    int64_t wrong = 0;
    SG_TRY(sg_data_make(b->problem, b->seed++, &data));
    SG_TRY(sg_matrices_fill(b->exact, &data));
    SG_TRY(run_all(b, e, ~0u, us_out));
    e->checks++;
    SG_TRY(sg_matrices_compare(b->exact, &data, e->text, &wrong));
    e->wrong += wrong;
    b->wrong += wrong;
    return SHINGLE_OK;
}

/* ---- Runs that the backend times ------------------------------------------------------------- */

static shingle_status make_sets(sg_bench *b)
{
    const int64_t bytes = sg_matrices_bytes(b->exact) + 1;
    const int wanted = (int)sg_min(1 + cold_bytes / bytes, MOST_SETS);
    while (b->sets < wanted) {
        SG_TRY(sg_matrices_open(b->group, b->problem, &b->timed[b->sets]));
        SG_TRY(sg_matrices_randomize(b->timed[b->sets++]));
    }
    return SHINGLE_OK;
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
    return enqueue(t->entry, b->timed[(b->turn + index) % b->sets], rank, t->kinds, stream);
}

/* Where E remembers how long steps of KINDS took; the last place serves all that find none. */
static double *expected_of(entry *e, unsigned kinds)
{
    int at = 0;
    while (at < KINDS - 1 && e->expected[at].kinds != 0 && e->expected[at].kinds != kinds) at++;
    if (e->expected[at].kinds != kinds) e->expected[at].us = 0;
    e->expected[at].kinds = kinds;
    return &e->expected[at].us;
}

static shingle_status time_runs(sg_bench *b, timing *t, int runs, double *us_out)
{
    b->turn++;
    return backend_of(b)->time(b->group->self, enqueue_timed, t, runs, us_out);
}

/* The median of a few, if they are short. */
static shingle_status time_singles(sg_bench *b, timing *t, double *us_out)
{
    double us[SINGLES];
    int count = 0;
    do {
        SG_TRY(time_runs(b, t, 1, &us[count++]));
    } while (count < SINGLES && us[0] < short_us);
    *us_out = sg_median(us, count);
    return SHINGLE_OK;
}

/* Compares and looks at calls, the first times. */
static shingle_status get_ready(sg_bench *b, entry *e, double *expected)
{
    double us = 0;
    while (e->checks < sg_bench_checks(b)) {
        SG_TRY(run_checked(b, e, &us));
        *expected = us;
    }
    while (e->calls < FEW_CALLS && *expected < short_us) SG_TRY(run_all(b, e, ~0u, &us));
    return make_sets(b);
}

static shingle_status run_timed(sg_bench *b, entry *e, unsigned kinds, sg_timing how,
                                double *us_out)
{
    double *const expected = expected_of(e, kinds);
    double many = 0;
    SG_TRY(get_ready(b, e, expected));
    timing t = {b, e, kinds};
    *us_out = 0;
    if (how != SG_TIMING_MANY || *expected == 0) {
        SG_TRY(time_singles(b, &t, expected));
        *us_out = *expected;
    }
    const double most_us = how == SG_TIMING_BETTER ? brief_us : short_us;
    if (how == SG_TIMING_ONE || *expected >= most_us) return SHINGLE_OK;
    const double runs = batch_us / (*expected > 1 ? *expected : 1);
    SG_TRY(time_runs(b, &t, runs < 2 ? 2 : runs > MOST_RUNS ? MOST_RUNS : (int)runs, &many));
    if (how == SG_TIMING_MANY || many < *us_out) *us_out = many;
    return SHINGLE_OK;
}

shingle_status sg_bench_time(sg_bench *b, const shingle_plan *plan, unsigned kinds, sg_timing how,
                             double *us_out)
{
    entry *e = NULL;
    double us = 0;
    SG_TRY(find_entry(b, plan, &e));
    if (backend_of(b)->time != NULL)
        SG_TRY(run_timed(b, e, kinds, how, &us));
    else if (kinds == ~0u && how != SG_TIMING_MANY)
        SG_TRY(run_checked(b, e, &us));
    else if (how != SG_TIMING_MANY)
        SG_TRY(run_all(b, e, kinds, &us));
    *us_out = us;
    return SHINGLE_OK;
}

shingle_status sg_bench_run(sg_bench *b, const shingle_plan *plan, unsigned kinds, double *us_out)
{
    return sg_bench_time(b, plan, kinds, SG_TIMING_BETTER, us_out);
}

int sg_bench_checks(const sg_bench *b)
{
    if (backend_of(b)->time == NULL) return 1;
    return sg_matrices_bytes(b->exact) > large_bytes ? FEW_CHECKS : CHECKS;
}

bool sg_bench_on_device(const sg_bench *b)
{
    return sg_matrices_on_device(b->exact);
}

int64_t sg_bench_wrong(const sg_bench *b)
{
    return b->wrong;
}

int64_t sg_bench_wrong_of(const sg_bench *b, const shingle_plan *plan)
{
    const entry *const e = known_entry(b, plan);
    return e != NULL ? e->wrong : 0;
}

double sg_bench_enqueue_us(const sg_bench *b, const shingle_plan *plan)
{
    const entry *const e = known_entry(b, plan);
    double us[CALLS];
    if (e == NULL) return 0;
    const int count = e->calls < CALLS ? e->calls : CALLS;
    memcpy(us, e->call_us, sizeof us);
    return sg_median(us, count);
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

shingle_status sg_bench_mend(void *context)
{
    const sg_bench *const b = context;
    sg_log(SG_LOG_ERROR, "a plan that was timed failed: %s", shingle_error());
    return sg_recover_mend(b->group);
}
