/* fault.c -- what happens when ranks do not do what they should: one stops in the middle of a
 * run, does not come, or runs something else.  Every rank gets the same error, which names
 * the culprit, within the limit; memory may be freed then; after recovery, or with a new
 * group, runs are right again. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/cpu_test.h"
#include "core/comm.h"
#include "core/data.h"

enum { RANKS = 4 };

static const double limit_seconds = 0.5;

/* A limit, how often waits look at the clock, and a machine that is busy with other things. */
static const double most_seconds = 0.5 + 5;

typedef struct world {
    int ranks;
    shingle_comm *comm[8];
    shingle_plan *plan[8];
    sg_problem problem;
    sg_data data;
    void *a[8], *b[8], *c[8];
    int refusing; /* rank whose compute function refuses from row 16 on; -1: none */
} world;

/* ---- Helpers --------------------------------------------------------------------------------- */

static void open_group(world *w, int ranks)
{
    const shingle_config config = {.timeout_seconds = limit_seconds, .threads = 2};
    memset(w, 0, sizeof *w);
    w->ranks = ranks;
    w->refusing = -1;
    assert_int_equal(shingle_open(ranks, &config, w->comm), SHINGLE_OK);
}

static int compute(void *context, const shingle_rows *rows)
{
    const world *const w = context;
    if (rows->rank == w->refusing && rows->row0 + rows->rows > 16) return 42;
    return sg_data_compute((void *)&w->problem, rows);
}

static void make_plans(world *w, const char *problem, const char *strategy)
{
    sg_problem_free(&w->problem);
    assert_int_equal(sg_problem_parse(problem, &w->problem), SHINGLE_OK);
    const shingle_plan_options options = {
        .strategy = strategy, .compute = w->problem.call ? compute : NULL, .compute_context = w};
    for (int r = 0; r < w->ranks; r++)
        assert_int_equal(shingle_plan_create(w->comm[r], problem, &options, &w->plan[r]),
                         SHINGLE_OK);
}

static void make_matrices(world *w, uint64_t seed)
{
    const sg_problem *const p = &w->problem;
    const size_t bytes = (size_t)sg_type_bytes(p->type);
    assert_int_equal(sg_data_make(p, seed, &w->data), SHINGLE_OK);
    for (int r = 0; r < w->ranks; r++) {
        w->a[r] = malloc((size_t)(sg_problem_a_rows(p, r) * sg_problem_a_cols(p, r)) * bytes);
        w->b[r] = malloc((size_t)(sg_problem_b_rows(p, r) * p->k) * bytes);
        w->c[r] = malloc((size_t)(sg_problem_c_rows(p, r) * p->n) * bytes);
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_A, r, w->a[r], 0), SHINGLE_OK);
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_B, r, w->b[r], 0), SHINGLE_OK);
        memset(w->c[r], 0xff, (size_t)(sg_problem_c_rows(p, r) * p->n) * bytes);
        if (p->accumulate)
            assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_C, r, w->c[r], 0), SHINGLE_OK);
    }
}

static void free_matrices(world *w)
{
    for (int r = 0; r < w->ranks; r++) {
        free(w->a[r]);
        free(w->b[r]);
        free(w->c[r]);
        w->a[r] = w->b[r] = w->c[r] = NULL;
    }
}

static void close_group(world *w)
{
    shingle_close(w->ranks, w->comm);
    free_matrices(w);
    sg_problem_free(&w->problem);
}

static void run_right(world *w, uint64_t seed)
{
    make_matrices(w, seed);
    for (int r = 0; r < w->ranks; r++)
        assert_int_equal(shingle_run(w->plan[r], w->a[r], w->b[r], w->c[r], NULL), SHINGLE_OK);
    for (int r = 0; r < w->ranks; r++) {
        if (shingle_sync(w->comm[r], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
        sg_data_wrong wrong;
        assert_int_equal(sg_data_compare(&w->data, r, w->c[r], 0, &wrong), SHINGLE_OK);
        assert_int_equal(wrong.elements, 0);
    }
    free_matrices(w);
}

/* All ranks fail alike, soon; the text has WORDS in it.  CULPRIT is asked last: a rank that has
 * nothing to wait for does not wait for the others' time to be up.  Then the matrices are freed. */
static void expect_failure(world *w, int culprit, shingle_status status, const char *words,
                           double begin_us)
{
    char first[700] = "";
    for (int i = 1; i <= w->ranks; i++) {
        assert_int_equal(shingle_sync(w->comm[(culprit + i) % w->ranks], 20), status);
        if (i == 1) snprintf(first, sizeof first, "%s", shingle_error());
        assert_string_equal(shingle_error(), first);
    }
    if (strstr(first, words) == NULL) fail_msg("\"%s\" is not in \"%s\"", words, first);
    const double seconds = (sg_now_us() - begin_us) / 1e6;
    if (seconds > most_seconds) fail_msg("took %.1f s", seconds);
    free_matrices(w);
    for (int r = 0; r < w->ranks; r++) {
        /* Until recovery every run fails in the same way, whatever its
         * matrices: nobody looks there. */
        const uintptr_t apart = (uintptr_t)1 << 28;
        assert_int_equal(
            shingle_run(w->plan[r], (void *)apart, (void *)(2 * apart), (void *)(3 * apart), NULL),
            status);
        assert_string_equal(shingle_error(), first);
    }
}

/* One thread brings all ranks: the last call recovers. */
static void recover(world *w)
{
    for (int r = 0; r < w->ranks - 1; r++)
        assert_int_equal(shingle_recover(w->comm[r], 0), SHINGLE_ETIMEOUT);
    assert_int_equal(shingle_recover(w->comm[w->ranks - 1], 0), SHINGLE_OK);
}

/* ---- A rank stops ---------------------------------------------------------------------------- */

static const char *const cases[][2] = {
    {"gemm_rs:f32:64x48x96:r4", "serial"},
    {"gemm_rs:f32:64x48x96:r4", "direct"},
    {"gemm_rs:bf16:64x48x96:r4", "ring"},
    {"gemm_rs:f32:64x48x96:r4", "fused_out"},
    {"ag_gemm:f32:64x48x96:r4", "sliced"},
    {"ag_gemm:f32:64x48x96:r4", "direct"},
    {"ag_gemm:bf16:64x48x96:r4", "ring"},
    {"ag_gemm:f32:64x48x96:r4", "fused_in"},
    {"gemm_ar:f32:64x48x96:r4", "direct"},
    {"gemm_ar:f32:64x48x96:r4", "ring"},
    {"gemm_ar:f16:64x48x96:r4", "fused_out"},
    {"gemm_ar:f32:64x48x96:r4", "serial"},
    {"a2a_gemm:f32:64x48x96:r4", "serial"},
    {"a2a_gemm:bf16:64x48x96:r4", "fused_in"},
    {"a2a_gemm:f32:64x48x96:r4", "dma"},
    {"gemm_a2a:f32:64x48x96:r4", "serial"},
    {"gemm_a2a:f32:64x48x96:r4", "direct"},
    {"gemm_a2a:f16:64x48x96:r4", "fused_out"},
    {"ag_gemm:f32:64x48x96:r4:gather=b", "fused_in"},
    {"ag_gemm:f32:64x48x96:r4:gather=k:accumulate", "ring"},
    {"ag_gemm:f32:64x48x96:r4", "dma"},
    {"gemm_rs:f32:64x48x96:r4", "dma"},
    {"gemm_rs:f32:64x48x96:r4:call=9000", "direct"},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void stop_and_recover(bool held)
{
    world w;
    sg_random random = {11};
    open_group(&w, RANKS);
    if (held) sg_cpu_test_links(w.comm[0], 2000, 50);
    for (int i = 0; i < CASES; i++) {
        make_plans(&w, cases[i][0], cases[i][1]);
        const int culprit = (int)sg_random_below(&random, RANKS);
        const int64_t before = sg_cpu_test_units(w.comm[0], culprit);
        run_right(&w, (uint64_t)i);
        const int64_t units =
            sg_random_below(&random, sg_cpu_test_units(w.comm[0], culprit) - before);
        char words[40];
        snprintf(words, sizeof words, "rank %d stopped", culprit);
        sg_cpu_test_stop(w.comm[0], culprit, units);
        make_matrices(&w, 77);
        const double begin_us = sg_now_us();
        /* The first of two runs may end for some, if the culprit had no more to do for them. */
        for (int r = 0; r < 2 * RANKS; r++)
            assert_int_equal(shingle_run(w.plan[r % RANKS], w.a[r % RANKS], w.b[r % RANKS],
                                         w.c[r % RANKS], NULL),
                             SHINGLE_OK);
        expect_failure(&w, culprit, SHINGLE_ETIMEOUT, words, begin_us);
        sg_cpu_test_stop(w.comm[0], culprit, -1);
        recover(&w);
        for (int run = 0; run < 3; run++) run_right(&w, sg_random_next(&random));
    }
    close_group(&w);
}

static void rank_stops(void **state)
{
    (void)state;
    stop_and_recover(false);
}

static void rank_stops_behind_slow_links(void **state)
{
    (void)state;
    stop_and_recover(true);
}

static void new_group_instead_of_recovery(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        world w;
        open_group(&w, RANKS);
        make_plans(&w, cases[i][0], cases[i][1]);
        sg_cpu_test_stop(w.comm[0], 2, 1);
        make_matrices(&w, 5);
        const double begin_us = sg_now_us();
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(shingle_run(w.plan[r], w.a[r], w.b[r], w.c[r], NULL), SHINGLE_OK);
        expect_failure(&w, 2, SHINGLE_ETIMEOUT, "rank 2 stopped", begin_us);
        close_group(&w);
        open_group(&w, RANKS);
        make_plans(&w, cases[i][0], cases[i][1]);
        run_right(&w, 6);
        close_group(&w);
    }
}

/* ---- A rank does not come -------------------------------------------------------------------- */

static void rank_does_not_come(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS);
    for (int i = 0; i < CASES; i++) {
        make_plans(&w, cases[i][0], cases[i][1]);
        const int culprit = i % RANKS;
        char words[60];
        snprintf(words, sizeof words, "rank %d did not begin run", culprit);
        run_right(&w, (uint64_t)i);
        make_matrices(&w, 78);
        const double begin_us = sg_now_us();
        for (int r = 0; r < RANKS; r++)
            if (r != culprit)
                assert_int_equal(shingle_run(w.plan[r], w.a[r], w.b[r], w.c[r], NULL), SHINGLE_OK);
        expect_failure(&w, culprit, SHINGLE_ETIMEOUT, words, begin_us);
        recover(&w);
        run_right(&w, (uint64_t)i + 100);
    }
    close_group(&w);
}

static void full_list_of_runs_is_bounded(void **state)
{
    (void)state;
    world w;
    open_group(&w, 2);
    make_plans(&w, "gemm_rs:f32:32x16x16:r2", "direct");
    make_matrices(&w, 1);
    const double begin_us = sg_now_us();
    shingle_status status = SHINGLE_OK;
    for (int i = 0; i < 1000 && status == SHINGLE_OK; i++)
        status = shingle_run(w.plan[0], w.a[0], w.b[0], w.c[0], NULL);
    assert_int_equal(status, SHINGLE_ETIMEOUT);
    expect_failure(&w, 1, SHINGLE_ETIMEOUT, "rank 1 did not begin run", begin_us);
    close_group(&w);
}

static void recovery_names_who_is_missing(void **state)
{
    (void)state;
    world w;
    open_group(&w, 3);
    make_plans(&w, "gemm_rs:f32:32x16x16:r3", "direct");
    assert_int_equal(shingle_recover(w.comm[0], 0.05), SHINGLE_ETIMEOUT);
    assert_non_null(strstr(shingle_error(), "of ranks 1, 2;"));
    assert_int_equal(shingle_recover(w.comm[2], 0), SHINGLE_ETIMEOUT);
    assert_non_null(strstr(shingle_error(), "rank 1;"));
    assert_int_equal(shingle_recover(w.comm[1], 0), SHINGLE_OK);
    run_right(&w, 3);
    assert_int_equal(shingle_recover(w.comm[0], 0), SHINGLE_ETIMEOUT);
    run_right(&w, 4); /* who runs again has not come to the next one */
    assert_int_equal(shingle_recover(w.comm[1], 0), SHINGLE_ETIMEOUT);
    assert_int_equal(shingle_recover(w.comm[2], 0), SHINGLE_ETIMEOUT);
    assert_non_null(strstr(shingle_error(), "of rank 0;"));
    assert_int_equal(shingle_recover(w.comm[0], 0), SHINGLE_OK);
    run_right(&w, 5);
    close_group(&w);
}

/* ---- Ranks disagree -------------------------------------------------------------------------- */

/* Ranks 0, 1 and 3 run one plan, rank 2 another; MATRICES are large enough for both. */
static void disagree(const char *problem, const char *strategy, const char *other_problem,
                     const char *other_strategy)
{
    world w;
    open_group(&w, RANKS);
    make_plans(&w, other_problem, other_strategy);
    shingle_plan *const other = w.plan[2];
    make_plans(&w, problem, strategy);
    run_right(&w, 1);
    shingle_plan *const kept = w.plan[2];
    make_matrices(&w, 2);
    const double begin_us = sg_now_us();
    for (int r = 0; r < RANKS; r++) {
        /* Whoever comes late may be told at once. */
        const shingle_status status =
            shingle_run(r == 2 ? other : w.plan[r], w.a[r], w.b[r], w.c[r], NULL);
        assert_true(status == SHINGLE_OK || (r >= 2 && status == SHINGLE_EMISMATCH));
    }
    expect_failure(&w, 2, SHINGLE_EMISMATCH, " run different plans", begin_us);
    /* The first two that are seen to differ are named: lower ranks may not have begun yet. */
    assert_true(strstr(shingle_error(), " and 2 run") || strstr(shingle_error(), "ranks 2 and 3 "));
    assert_non_null(strstr(shingle_error(), problem));
    assert_non_null(strstr(shingle_error(), other_problem));
    w.plan[2] = kept;
    recover(&w);
    run_right(&w, 3);
    close_group(&w);
}

static void plans_differ(void **state)
{
    (void)state;
    disagree("gemm_rs:f32:64x48x96:r4", "direct", "gemm_rs:f32:64x48x96:r4", "ring");
    disagree("gemm_ar:f32:64x48x96:r4", "fused_out", "gemm_ar:f32:64x48x96:r4", "serial");
    disagree("gemm_rs:f32:64x48x96:r4", "serial", "gemm_rs:f32:32x48x96:r4", "serial");
    disagree("gemm_ar:f32:64x48x96:r4", "direct", "gemm_ar:f32:32x48x96:r4", "direct");
    disagree("ag_gemm:f32:64x48x96:r4", "ring", "ag_gemm:f32:64x32x96:r4", "fused_in");
}

/* ---- Epochs ---------------------------------------------------------------------------------- */

static void epochs_pass_32_bits(void **state)
{
    (void)state;
    world w;
    open_group(&w, 3);
    sg_cpu_test_epoch(w.comm[0], (UINT64_C(1) << 32) - 4);
    for (int i = 0; i < 3; i++) {
        static const char *const strategies[] = {"direct", "ring", "fused_out"};
        make_plans(&w, "gemm_ar:f32:17x23x29:r3", strategies[i]);
        for (uint64_t run = 0; run < 4; run++) run_right(&w, run);
    }
    sg_cpu_test_stop(w.comm[0], 1, 0);
    make_matrices(&w, 5);
    const double begin_us = sg_now_us();
    for (int r = 0; r < 3; r++)
        assert_int_equal(shingle_run(w.plan[r], w.a[r], w.b[r], w.c[r], NULL), SHINGLE_OK);
    expect_failure(&w, 1, SHINGLE_ETIMEOUT, "rank 1 stopped", begin_us);
    sg_cpu_test_stop(w.comm[0], 1, -1);
    recover(&w);
    run_right(&w, 9);
    close_group(&w);
}

/* ---- Closing, waiting, arguments ------------------------------------------------------------- */

static void close_abandons_runs(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        world w;
        open_group(&w, RANKS);
        sg_cpu_test_links(w.comm[0], i % 2 ? 1 : 0, i % 2 ? 1000 : 0);
        make_plans(&w, cases[i][0], cases[i][1]);
        make_matrices(&w, 5);
        for (int run = 0; run < 3; run++)
            for (int r = 0; r < RANKS - i % 3; r++)
                assert_int_equal(shingle_run(w.plan[r], w.a[r], w.b[r], w.c[r], NULL), SHINGLE_OK);
        const double begin_us = sg_now_us();
        close_group(&w);
        assert_true(sg_now_us() - begin_us < most_seconds * 1e6);
    }
}

static void short_wait_is_no_failure(void **state)
{
    (void)state;
    world w;
    open_group(&w, 2);
    sg_cpu_test_links(w.comm[0], 1, 20000); /* 1 MB/s: some 30 ms */
    make_plans(&w, "ag_gemm:f32:64x48x96:r2", "direct");
    make_matrices(&w, 5);
    for (int r = 0; r < 2; r++)
        assert_int_equal(shingle_run(w.plan[r], w.a[r], w.b[r], w.c[r], NULL), SHINGLE_OK);
    assert_int_equal(shingle_sync(w.comm[0], 0), SHINGLE_EBUSY);
    assert_non_null(strstr(shingle_error(), "they go on"));
    for (int r = 0; r < 2; r++) assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_OK);
    close_group(&w);
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    world w;
    shingle_comm *none[1];
    assert_int_equal(shingle_open(0, NULL, none), SHINGLE_EINVAL);
    assert_int_equal(shingle_open(65, NULL, none), SHINGLE_EINVAL);
    assert_int_equal(shingle_open(1, &(shingle_config){.backend = "abacus"}, none), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "there are: cpu"));
    assert_int_equal(shingle_open(1, &(shingle_config){.timeout_seconds = -1}, none),
                     SHINGLE_EINVAL);
    assert_int_equal(shingle_open(1, &(shingle_config){.scale_of = "/no/such.machine"}, none),
                     SHINGLE_EIO);
    open_group(&w, 2);
    make_plans(&w, "gemm_rs:f32:32x16x16:r2", "direct");
    make_matrices(&w, 1);
    assert_int_equal(shingle_run(w.plan[0], NULL, w.b[0], w.c[0], NULL), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "a is NULL"));
    assert_int_equal(shingle_run(w.plan[0], (char *)w.a[0] + 1, w.b[0], w.c[0], NULL),
                     SHINGLE_EINVAL);
    shingle_tensors tensors = {.a = w.a[0], .b = w.b[0], .c = w.c[0], .b_stride = 15};
    assert_int_equal(shingle_run_tensors(w.plan[0], &tensors, NULL), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "at least 16"));
    assert_int_equal(shingle_run(NULL, NULL, NULL, NULL, NULL), SHINGLE_EINVAL);
    assert_int_equal(sg_comm_run(w.plan[0],
                                 &(shingle_tensors){.a = w.a[0], .b = w.b[0], .c = w.c[0]}, NULL,
                                 1u << SG_LAUNCH),
                     SHINGLE_EUNSUPPORTED);
    assert_int_equal(shingle_sync(w.comm[0], -1), SHINGLE_EINVAL);
    free_matrices(&w);
    run_right(&w, 2); /* nothing of that was enqueued */
    shingle_close(2, (shingle_comm *[]){NULL, NULL});
    close_group(&w);
}

/* ---- Functions of the user ------------------------------------------------------------------ */

/* One rank's function refuses rows: all ranks are told which, and can go on once it does not. */
static void function_refuses(void **state)
{
    static const char *const strategies[] = {"serial", "direct", "ring", "fused_out"};
    (void)state;
    world w;
    open_group(&w, RANKS);
    for (int i = 0; i < 4; i++) {
        make_plans(&w, "gemm_rs:f32:64x48x96:r4:call=9000", strategies[i]);
        run_right(&w, (uint64_t)i);
        w.refusing = i;
        make_matrices(&w, 79);
        const double begin_us = sg_now_us();
        for (int r = 0; r < RANKS; r++) {
            /* Whoever comes late may be told at once. */
            const shingle_status status = shingle_run(w.plan[r], w.a[r], w.b[r], w.c[r], NULL);
            assert_true(status == SHINGLE_OK || status == SHINGLE_EBACKEND);
        }
        char words[80];
        snprintf(words, sizeof words, "the compute function of rank %d returned 42 for rows", i);
        expect_failure(&w, i, SHINGLE_EBACKEND, words, begin_us);
        w.refusing = -1;
        recover(&w);
        run_right(&w, 100 + (uint64_t)i);
    }
    close_group(&w);
}

static void call_needs_its_function(void **state)
{
    static const char call[] = "gemm_rs:f32:64x48x96:r4:call=9000";
    const shingle_plan_options timed = {.compute = compute, .measure = 1};
    const shingle_plan_options given = {.compute = compute};
    (void)state;
    world w;
    shingle_plan *plan = NULL;
    open_group(&w, RANKS);
    assert_int_equal(shingle_plan_create(w.comm[0], call, NULL, &plan), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "needs a compute function"));
    assert_int_equal(shingle_plan_create(w.comm[0], "gemm:f32:8x8x8:r4", &given, &plan),
                     SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "problems with call= alone"));
    assert_int_equal(shingle_plan_create(w.comm[0], call, &timed, &plan), SHINGLE_EUNSUPPORTED);
    assert_int_equal(shingle_tune(w.comm[0], call, NULL, NULL), SHINGLE_EUNSUPPORTED);
    close_group(&w);
}

/* ---- A thread a rank ------------------------------------------------------------------------- */

typedef struct driver {
    world *w;
    int rank;
    shingle_status last;
    bool recovers;
} driver;

static void *drive(void *context)
{
    driver *const d = context;
    world *const w = d->w;
    const int r = d->rank;
    for (int i = 0; i < 20; i++) {
        d->last = shingle_run(w->plan[r], w->a[r], w->b[r], w->c[r], NULL);
        if (d->last == SHINGLE_OK && i % 4 == 3) d->last = shingle_sync(w->comm[r], 20);
        if (d->last != SHINGLE_OK) break;
    }
    if (d->recovers) d->last = shingle_recover(w->comm[r], 20);
    return NULL;
}

static void drive_all(world *w, bool recovers, shingle_status expected)
{
    pthread_t thread[RANKS];
    driver drivers[RANKS];
    for (int r = 0; r < RANKS; r++) {
        drivers[r] = (driver){w, r, SHINGLE_OK, recovers};
        assert_int_equal(pthread_create(&thread[r], NULL, drive, &drivers[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) pthread_join(thread[r], NULL);
    for (int r = 0; r < RANKS; r++) assert_int_equal(drivers[r].last, expected);
}

static void threads_drive_ranks(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS);
    make_plans(&w, "gemm_rs:bf16:64x48x96:r4", "fused_out");
    make_matrices(&w, 4);
    drive_all(&w, false, SHINGLE_OK);
    sg_cpu_test_stop(w.comm[0], 3, 1);
    drive_all(&w, true, SHINGLE_OK); /* each fails, and comes to recover */
    sg_cpu_test_stop(w.comm[0], 3, -1);
    drive_all(&w, false, SHINGLE_OK);
    free_matrices(&w);
    run_right(&w, 8);
    close_group(&w);
}

/* ---- All of them ----------------------------------------------------------------------------- */

enum { GROUPS = 4 };

/* Those of the first three take a limit for each case. */
static int run_group(int group)
{
    static const struct CMUnitTest stops[] = {cmocka_unit_test(rank_stops)};
    static const struct CMUnitTest slow[] = {cmocka_unit_test(rank_stops_behind_slow_links)};
    static const struct CMUnitTest away[] = {cmocka_unit_test(rank_does_not_come)};
    static const struct CMUnitTest rest[] = {
        cmocka_unit_test(new_group_instead_of_recovery),
        cmocka_unit_test(full_list_of_runs_is_bounded),
        cmocka_unit_test(recovery_names_who_is_missing),
        cmocka_unit_test(plans_differ),
        cmocka_unit_test(epochs_pass_32_bits),
        cmocka_unit_test(close_abandons_runs),
        cmocka_unit_test(short_wait_is_no_failure),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(function_refuses),
        cmocka_unit_test(call_needs_its_function),
        cmocka_unit_test(threads_drive_ranks),
    };
    switch (group) {
    case 0: return cmocka_run_group_tests_name("stops", stops, NULL, NULL);
    case 1: return cmocka_run_group_tests_name("slow", slow, NULL, NULL);
    case 2: return cmocka_run_group_tests_name("away", away, NULL, NULL);
    default: return cmocka_run_group_tests_name("rest", rest, NULL, NULL);
    }
}

/* They wait much more than they work: side by side, a process each. */
int main(void)
{
    pid_t process[GROUPS];
    int failed = 0;
    for (int i = 0; i < GROUPS; i++) {
        process[i] = fork();
        if (process[i] == 0) return run_group(i) != 0;
    }
    for (int i = 0; i < GROUPS; i++) {
        int status = 0;
        const bool ended = process[i] > 0 && waitpid(process[i], &status, 0) == process[i];
        if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        fprintf(stderr, "fault: group %d of %d has failed\n", i, GROUPS);
        failed = 1;
    }
    return failed;
}
