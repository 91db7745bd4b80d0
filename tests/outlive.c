/* outlive.c -- what goes on for longer than its caller waits: functions of a failed run, runs of a
 * plan that is freed, a group that a forked child inherits; and what ranks that mind their own
 * business do meanwhile. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/cpu_test.h"
#include "core/comm.h"
#include "tasks.h"

enum { RANKS = 2, M = 64, N = 48, K = 96 };

/* ---- Helpers --------------------------------------------------------------------------------- */

typedef struct world {
    shingle_comm *comm[RANKS];
    shingle_plan *plan[RANKS];
    float *a[RANKS], *b, *c[RANKS];
    atomic_int calls, inside; /* of work_slowly(); inside: of rank 1.  Of stay(): of any */
    atomic_bool leaves;       /* stay() may return */
    atomic_bool refuses;      /* somebody does */
    int served;               /* calls before rank 0 refuses one */
    unsigned slow_us;         /* how long a call takes */
} world;

static void *memory(size_t rows, size_t cols)
{
    void *const zeros = calloc(rows * cols, sizeof(float));
    assert_non_null(zeros);
    return zeros;
}

static void open_workers(world *w, double timeout_seconds, int threads)
{
    const shingle_config config = {.timeout_seconds = timeout_seconds, .threads = threads};
    memset(w, 0, sizeof *w);
    assert_int_equal(shingle_open(RANKS, &config, w->comm), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) w->a[r] = memory(M, K), w->c[r] = memory(M, N);
    w->b = memory(N, K);
}

static void open_world(world *w, double timeout_seconds)
{
    open_workers(w, timeout_seconds, 2);
}

static void close_world(world *w)
{
    assert_int_equal(shingle_close(RANKS, w->comm), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) free(w->a[r]), free(w->c[r]);
    free(w->b);
}

static void make_plans(world *w, const char *problem, const shingle_plan_options *options)
{
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(shingle_plan_create(w->comm[r], problem, options, &w->plan[r]),
                         SHINGLE_OK);
}

static shingle_status run(world *w, shingle_plan *plan, int r)
{
    return shingle_run(plan, w->a[r], w->b, w->c[r], NULL);
}

static void run_all(world *w)
{
    for (int r = 0; r < RANKS; r++) assert_int_equal(run(w, w->plan[r], r), SHINGLE_OK);
}

/* One thread brings all ranks: the last call recovers. */
static void recover(world *w)
{
    assert_int_equal(shingle_recover(w->comm[0], 0), SHINGLE_ETIMEOUT);
    assert_int_equal(shingle_recover(w->comm[1], 0), SHINGLE_OK);
}

/* Waits for a call of rank 1, which may have to wait for this one's rank itself. */
static bool meets_other(world *w)
{
    for (int i = 0; i < 200 && atomic_load(&w->inside) == 0; i++) usleep(1000);
    return atomic_load(&w->inside) > 0;
}

/* A product that takes its time; one of rank 0's gives up once rank 1's is inside. */
static int work_slowly(void *context, const shingle_rows *rows)
{
    world *const w = context;
    const int call = atomic_fetch_add(&w->calls, 1);
    if (rows->rank == 0 && call >= w->served && !atomic_exchange(&w->refuses, true)) {
        if (meets_other(w)) return 5;
        atomic_store(&w->refuses, false); /* a later one does */
    }
    atomic_fetch_add(&w->inside, rows->rank);
    usleep(w->slow_us);
    float sum = 0;
    for (int64_t i = 0; i < rows->rows; i++) sum += ((const float *)rows->a)[i * rows->a_stride];
    for (int64_t i = 0; i < rows->rows; i++)
        memset((char *)rows->sum + i * rows->sum_stride * (int64_t)sizeof(float), sum != 0,
               N * sizeof(float));
    atomic_fetch_sub(&w->inside, rows->rank);
    return 0;
}

static void zero(const shingle_rows *rows)
{
    for (int64_t i = 0; i < rows->rows; i++)
        memset((char *)rows->sum + i * rows->sum_stride * (int64_t)sizeof(float), 0,
               N * sizeof(float));
}

/* The first call of all takes its time. */
static int work_slowly_once(void *context, const shingle_rows *rows)
{
    world *const w = context;
    if (atomic_fetch_add(&w->calls, 1) == 0) usleep(w->slow_us);
    zero(rows);
    return 0;
}

/* Returns when the test says so. */
static int stay(void *context, const shingle_rows *rows)
{
    world *const w = context;
    atomic_fetch_add(&w->inside, 1);
    atomic_fetch_add(&w->calls, 1);
    while (!atomic_load(&w->leaves)) usleep(1000);
    zero(rows);
    atomic_fetch_sub(&w->inside, 1);
    return 0;
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* Who is told of a failure may free its tensors: a function that still reads them is waited for. */
static void failure_is_told_when_all_have_let_go(void **state)
{
    (void)state;
    world w;
    open_world(&w, 5);
    w.slow_us = 300000;
    const shingle_plan_options options = {
        .strategy = "serial", .compute = work_slowly, .compute_context = &w};
    make_plans(&w, "gemm_rs:f32:64x48x96:r2:call=9000", &options);
    run_all(&w);
    shingle_status status = SHINGLE_EBUSY;
    for (int i = 0; i < 2000 && status == SHINGLE_EBUSY; i++) {
        usleep(5000);
        status = shingle_sync(w.comm[1], 0);
    }
    assert_int_equal(status, SHINGLE_EBACKEND);
    assert_int_equal(atomic_load(&w.inside), 0);
    free(w.a[1]);
    w.a[1] = NULL;
    close_world(&w);
}

/* What takes a worker longer than the limit is no rank that has stopped. */
static void long_work_is_work(void **state)
{
    static const double delay_us = 400000;
    (void)state;
    world w;
    open_world(&w, 0.1);
    const shingle_plan_options options = {.strategy = "ring"};
    make_plans(&w, "gemm_rs:f32:64x48x96:r2", &options);
    sg_cpu_test_delays(w.comm[0], 7, delay_us);
    for (int i = 0; i < 8; i++) {
        run_all(&w);
        for (int r = 0; r < RANKS; r++)
            if (shingle_sync(w.comm[r], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
    }
    close_world(&w);
}

/* A user's function is waited for as long as anything else, and named. */
static void a_function_that_takes_too_long_is_named(void **state)
{
    (void)state;
    world w;
    open_world(&w, 0.1);
    w.slow_us = 500000;
    const shingle_plan_options options = {
        .strategy = "serial", .compute = work_slowly_once, .compute_context = &w};
    make_plans(&w, "gemm_rs:f32:64x48x96:r2:call=9000", &options);
    for (int r = 0; r < RANKS; r++) {
        const shingle_status status = run(&w, w.plan[r], r);
        assert_true(status == SHINGLE_OK || status == SHINGLE_ETIMEOUT);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_ETIMEOUT);
        if (strstr(shingle_error(), "the compute function of rank ") == NULL)
            fail_msg("%s", shingle_error());
        assert_non_null(strstr(shingle_error(), " for 0.1 s"));
    }
    recover(&w);
    close_world(&w);
}

/* All workers are in the function, and nobody waits for the run: it is judged all the same. */
static void a_function_of_all_workers_is_named(void **state)
{
    static world w; /* a test that fails leaves workers in it */
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        open_workers(&w, 0.1, threads);
        const shingle_plan_options options = {
            .strategy = "serial", .compute = stay, .compute_context = &w};
        make_plans(&w, "gemm_rs:f32:64x48x96:r2:call=9000", &options);
        assert_int_equal(run(&w, w.plan[0], 0), SHINGLE_OK);
        shingle_status status = SHINGLE_OK;
        for (int i = 0; i < 15 && status == SHINGLE_OK; i++) {
            usleep(200000);
            status = run(&w, w.plan[0], 0);
        }
        assert_int_equal(status, SHINGLE_ETIMEOUT);
        assert_non_null(strstr(shingle_error(), "the compute function of rank 0 has been at rows"));
        assert_int_equal(shingle_sync(w.comm[0], 0), SHINGLE_EBUSY);
        assert_non_null(strstr(shingle_error(), " s: the compute function of rank 0"));
        atomic_store(&w.leaves, true);
        assert_int_equal(shingle_sync(w.comm[0], 20), SHINGLE_ETIMEOUT);
        assert_int_equal(atomic_load(&w.inside), 0);
        recover(&w);
        close_world(&w);
    }
}

/* A plan is freed whose runs take longer than shingle_plan_free() waits, and then they fail: what
 * is said names the plan. */
static void runs_outlive_their_plan(void **state)
{
    (void)state;
    world w;
    open_world(&w, 1);
    w.slow_us = 100000;
    w.served = 90;
    const shingle_plan_options options = {
        .strategy = "serial", .compute = work_slowly, .compute_context = &w};
    make_plans(&w, "gemm_rs:f32:64x48x96:r2:call=9000", &options);
    for (int i = 0; i < 16; i++) run_all(&w);
    shingle_plan_free(w.plan[0]);
    assert_int_equal(shingle_sync(w.comm[1], 0), SHINGLE_EBUSY);
    assert_int_equal(shingle_sync(w.comm[0], 20), SHINGLE_EBACKEND);
    assert_non_null(strstr(shingle_error(), "gemm_rs:f32:64x48x96:r2:call=9000"));
    close_world(&w);
}

/* Runs without peers tell nobody of themselves.  A rank that has had some while another waits for
 * it is in another plan: that is no deadlock of a schedule. */
static void runs_without_peers_are_runs(void **state)
{
    (void)state;
    world w;
    open_world(&w, 0.3);
    const shingle_plan_options direct = {.strategy = "direct"};
    make_plans(&w, "gemm:f32:64x48x96:r2", NULL);
    shingle_plan *const alone = w.plan[1];
    make_plans(&w, "gemm_rs:f32:64x48x96:r2", &direct);
    for (int times = 1; times <= 4; times++) {
        for (int i = 0; i < times; i++) {
            assert_int_equal(run(&w, alone, 1), SHINGLE_OK);
            assert_int_equal(shingle_sync(w.comm[1], 20), SHINGLE_OK);
        }
        const shingle_status status = run(&w, w.plan[0], 0);
        assert_true(status == SHINGLE_OK || status == SHINGLE_EMISMATCH);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_EMISMATCH);
            assert_non_null(strstr(shingle_error(), "ranks 0 and 1 run different plans"));
        }
        recover(&w);
        run_all(&w);
        for (int r = 0; r < RANKS; r++) assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_OK);
    }
    close_world(&w);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/* Who measures binds plans on all comms, beside the threads that drive them. */
static void *measure_some(void *context)
{
    shingle_comm *const comm = context;
    const shingle_plan_options options = {.measure = 2, .measure_seconds = 0.01};
    shingle_plan *plan = NULL;
    for (int i = 0; i < 6; i++) {
        char problem[60];
        snprintf(problem, sizeof problem, "gemm_rs:f32:%dx16x16:r2", 16 + i);
        if (shingle_plan_create(comm, problem, &options, &plan) != SHINGLE_OK) return context;
        if (i % 3 == 2) shingle_plan_free(plan);
    }
    return NULL;
}

static void ranks_measure_at_once(void **state)
{
    (void)state;
    world w;
    open_world(&w, 10);
    pthread_t thread[RANKS];
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, measure_some, w.comm[r]), 0);
    for (int r = 0; r < RANKS; r++) {
        void *failed = NULL;
        pthread_join(thread[r], &failed);
        assert_null(failed);
    }
    close_world(&w);
}

/* Who uses all ranks finds one at something else, which waits for this very caller. */
static void expect_refusal(shingle_status status, const char *words)
{
    assert_int_equal(status, SHINGLE_EINVAL);
    assert_string_equal(shingle_error(), words);
}

static void runs_in_flight_are_not_measured_among(void **state)
{
    static const char problem[] = "gemm_rs:f32:64x48x96:r2", other[] = "gemm_rs:f32:32x48x96:r2";
    static const char one[] = "rank 1 has 1 run in flight; shingle_sync first";
    const shingle_plan_options options = {.measure = 1, .measure_seconds = 0.01};
    const shingle_bench_options few = {.iterations = 1};
    shingle_bench_result result;
    shingle_machine *machine = NULL;
    shingle_plan *plan = NULL;
    (void)state;
    world w;
    open_world(&w, 60);
    make_plans(&w, problem, &(shingle_plan_options){.strategy = "direct"});
    assert_int_equal(run(&w, w.plan[1], 1), SHINGLE_OK);
    expect_refusal(shingle_bench(RANKS, w.comm, problem, &few, &result), one);
    expect_refusal(shingle_calibrate(RANKS, w.comm, NULL, &machine), one);
    expect_refusal(shingle_timeline_start(RANKS, w.comm, w.plan[0], 0), one);
    expect_refusal(shingle_plan_create(w.comm[0], other, &options, &plan), one);
    expect_refusal(shingle_tune(w.comm[0], other, &options, NULL), one);
    assert_int_equal(run(&w, w.plan[1], 1), SHINGLE_OK);
    expect_refusal(shingle_bench(RANKS, w.comm, problem, &few, &result),
                   "rank 1 has 2 runs in flight; shingle_sync first");
    for (int i = 0; i < 2; i++) assert_int_equal(run(&w, w.plan[0], 0), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) assert_int_equal(shingle_sync(w.comm[r], 60), SHINGLE_OK);
    assert_int_equal(shingle_bench(RANKS, w.comm, problem, &few, &result), SHINGLE_OK);
    assert_int_equal(shingle_plan_create(w.comm[0], other, &options, &plan), SHINGLE_OK);
    close_world(&w);
}

/* What a rank has ended, another may still be at: that is waited for. */
static void last_of_a_run_is_waited_for(void **state)
{
    (void)state;
    const shingle_plan_options options = {.measure = 1, .measure_seconds = 0.01};
    shingle_plan *plan = NULL;
    world w;
    open_world(&w, 60);
    sg_cpu_test_links(w.comm[0], 1000, 20000); /* a copy is 20 ms on its way */
    make_plans(&w, "ag_gemm:f32:64x48x96:r2", &(shingle_plan_options){.strategy = "direct"});
    run_all(&w);
    assert_int_equal(shingle_plan_create(w.comm[0], "gemm:f32:8x8x8:r2", &options, &plan),
                     SHINGLE_OK);
    close_world(&w);
}

/* Plans come and go while runs are under way, as those of every new length of a sequence do. */
static void plans_come_and_go_under_runs(void **state)
{
    (void)state;
    world w;
    open_world(&w, 10);
    sg_cpu_test_links(w.comm[0], 1, 10000); /* a run takes 10 ms and more */
    shingle_plan *old[RANKS] = {NULL};
    int packs = 0;
    for (int i = 0; i < 12; i++) {
        char problem[60];
        snprintf(problem, sizeof problem, "gemm_rs:f32:%dx48x96:r2", M - i % 4);
        if (i > 0) run_all(&w);
        for (int r = 0; r < RANKS; r++) old[r] = w.plan[r];
        make_plans(&w, problem, &(shingle_plan_options){.strategy = "serial"});
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_OK);
            shingle_plan_free(old[r]);
        }
        if (i == 0) packs = sg_cpu_test_packs(w.comm[0]);
    }
    assert_int_equal(sg_cpu_test_packs(w.comm[0]), packs);
    close_world(&w);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* The limit is one of no progress: a group may take longer to open. */
static void short_limits_open(void **state)
{
    (void)state;
    shingle_comm *comm[16];
    assert_int_equal(shingle_open(16, &(shingle_config){.timeout_seconds = 0.001}, comm),
                     SHINGLE_OK);
    shingle_close(16, comm);
}

/* Brings a worker of W into FUNCTION. */
static void enter(world *w, shingle_compute function, double timeout_seconds)
{
    open_world(w, timeout_seconds);
    const shingle_plan_options options = {
        .strategy = "serial", .compute = function, .compute_context = w};
    make_plans(w, "gemm_rs:f32:64x48x96:r2:call=9000", &options);
    assert_int_equal(run(w, w->plan[0], 0), SHINGLE_OK);
    while (atomic_load(&w->calls) == 0) usleep(1000);
}

/* Returns a while after it was called. */
static int stay_a_while(void *context, const shingle_rows *rows)
{
    world *const w = context;
    atomic_fetch_add(&w->inside, 1);
    atomic_fetch_add(&w->calls, 1);
    usleep(300000);
    zero(rows);
    atomic_fetch_sub(&w->inside, 1);
    return 0;
}

/* The limit is short, and what is under way takes its time: it is waited for. */
static void close_waits_for_what_is_under_way(void **state)
{
    (void)state;
    static world w;
    enter(&w, stay_a_while, 0.001);
    assert_int_equal(shingle_close(RANKS, w.comm), SHINGLE_OK);
    assert_int_equal(atomic_load(&w.inside), 0);
    close_world(&w); /* which frees the matrices */
}

/* A function that does not return is not waited for without end; what it may touch stays. */
static void close_keeps_what_goes_on(void **state)
{
    (void)state;
    static world w; /* the leak checker finds there what is not freed */
    enter(&w, stay, 0.001);
    assert_int_equal(shingle_close(RANKS, w.comm), SHINGLE_ETIMEOUT);
    assert_null(w.comm[0]);
    assert_non_null(strstr(shingle_error(), "what its runs use must stay"));
    assert_non_null(strstr(shingle_error(), "the compute function of rank 0 has been at rows"));
    atomic_store(&w.leaves, true);
    while (atomic_load(&w.inside) > 0) usleep(1000);
}

/* A group is closed as a whole, beside others, or stays as it is. */
static void groups_close_whole(void **state)
{
    (void)state;
    shingle_comm *comm[4];
    assert_int_equal(shingle_open(2, NULL, comm), SHINGLE_OK);
    assert_int_equal(shingle_open(2, NULL, comm + 2), SHINGLE_OK);
    shingle_comm *const other[] = {comm[2], comm[3]};
    assert_int_equal(shingle_close(3, comm), SHINGLE_EINVAL); /* one of the second is missing */
    assert_non_null(strstr(shingle_error(), "rank 0 of a group of 2 is given without all others"));
    assert_null(comm[0]);
    assert_null(comm[1]);
    assert_ptr_equal(comm[2], other[0]);
    assert_int_equal(shingle_sync(comm[2], 10), SHINGLE_OK);
    assert_int_equal(shingle_open(2, NULL, comm), SHINGLE_OK);
    shingle_comm *mixed[] = {comm[0], other[1], NULL, comm[1], other[0]};
    /* What is left of either is told by the leak checker. */
    assert_int_equal(shingle_close(5, mixed), SHINGLE_OK);
    assert_int_equal(shingle_close(-1, mixed), SHINGLE_EINVAL);
    for (int i = 0; i < 5; i++) assert_null(mixed[i]);
}

/* A forked child has the memory of a group and none of its threads. */
static void forked_child_can_leave(void **state)
{
    (void)state;
    world w;
    open_world(&w, 10);
    make_plans(&w, "gemm_rs:f32:64x48x96:r2", NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        shingle_plan *plan = NULL;
        const bool told =
            shingle_sync(w.comm[0], 100) == SHINGLE_EINVAL &&
            strstr(shingle_error(), "forked") != NULL &&
            shingle_recover(w.comm[0], 100) == SHINGLE_EINVAL &&
            run(&w, w.plan[0], 0) == SHINGLE_EINVAL &&
            shingle_plan_create(w.comm[0], "gemm:f32:8x8x8:r2", NULL, &plan) == SHINGLE_EINVAL;
        shingle_plan_free(w.plan[1]);
        close_world(&w);
        bool works = true;
#ifndef __SANITIZE_THREAD__ /* which allows a child no threads */
        shingle_comm *own[1];
        works = shingle_open(1, NULL, own) == SHINGLE_OK;
        if (works) shingle_close(1, own);
#endif
        _exit(told && works ? 0 : 1);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run_all(&w);
    for (int r = 0; r < RANKS; r++) assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_OK);
    close_world(&w);
}

/* Those of the library take none, but for faults and profilers; how others do is their business. */
static void signals_are_for_the_program(void **state)
{
    (void)state;
    world w;
    int without[2], faults[2], profiled[2];
    const int before = threads_now(SIGTERM, &without[0]);
    threads_now(SIGSEGV, &faults[0]);
    threads_now(SIGPROF, &profiled[0]);
    open_world(&w, 10);
    const int fresh = threads_now(SIGTERM, &without[1]) - before;
    threads_now(SIGSEGV, &faults[1]);
    threads_now(SIGPROF, &profiled[1]);
    assert_true(fresh > RANKS);
    assert_int_equal(without[1] - without[0], fresh);
    assert_int_equal(faults[1], faults[0]);
    assert_int_equal(profiled[1], profiled[0]);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forked_child_can_leave), /* before others leave threads behind */
        cmocka_unit_test(signals_are_for_the_program),
        cmocka_unit_test(failure_is_told_when_all_have_let_go),
        cmocka_unit_test(long_work_is_work),
        cmocka_unit_test(a_function_that_takes_too_long_is_named),
        cmocka_unit_test(a_function_of_all_workers_is_named),
        cmocka_unit_test(runs_outlive_their_plan),
        cmocka_unit_test(runs_without_peers_are_runs),
        cmocka_unit_test(ranks_measure_at_once),
        cmocka_unit_test(runs_in_flight_are_not_measured_among),
        cmocka_unit_test(last_of_a_run_is_waited_for),
        cmocka_unit_test(plans_come_and_go_under_runs),
        cmocka_unit_test(short_limits_open),
        cmocka_unit_test(close_waits_for_what_is_under_way),
        cmocka_unit_test(close_keeps_what_goes_on),
        cmocka_unit_test(groups_close_whole),
    };
    return cmocka_run_group_tests_name("outlive", tests, NULL, NULL);
}
