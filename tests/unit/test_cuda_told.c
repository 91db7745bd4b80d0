/* Who is told that a group of the CUDA backend has failed may free the matrices, without a GPU
 * (tests/fake_cuda): nothing stores to them any more, neither a run that stood behind its caller's
 * other work nor one that another thread was enqueuing.  Whose run is long is told nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "fake_world.h"

static const double limit_seconds = 0.1;
static const double work_seconds = 3; /* longer than a failure is waited for to drain */

/* Plans whose last step stores into a peer's C, and into the own one. */
static const char *const asked[][2] = {{"gemm_a2a:bf16:48x16x32:r2", "fused_out"},
                                       {"gemm_ar:bf16:48x16x32:r2", "direct"}};
enum { ASKED = sizeof asked / sizeof asked[0] };

static bool until_then(void *data, bool first)
{
    double then = 0;
    (void)first;
    memcpy(&then, data, sizeof then);
    return sg_now_us() >= then;
}

static void expect_told(const world *w)
{
    double limit = 1e9; /* what does not let go is told at some time, however long this is */
    shingle_status status = shingle_sync(w->comm[0], 0);
    while (status == SHINGLE_EBUSY) {
        status = shingle_sync(w->comm[0], limit);
        if (status == SHINGLE_EBUSY)
            expect_text(limit < 1 ? "goes on after 0.01 s" : "part of its work goes on after 2.");
        limit = 0.01;
    }
    assert_int_equal(status, SHINGLE_ETIMEOUT);
    expect_text("rank 1 ");
}

/* From now until UNTIL_US. */
static void expect_left_alone(const world *w, double until_us)
{
    unsigned char *const c = w->c[0][0];
    const size_t bytes = bytes_of(w, sg_problem_c_rows(&w->problem, 0), w->problem.n);
    memset(c, UNTOUCHED, bytes);
    while (sg_now_us() < until_us) {
        fake_pump();
        usleep(5000);
    }
    for (size_t i = 0; i < bytes; i++) assert_int_equal(c[i], UNTOUCHED);
}

static void close_after_all(world *w)
{
    recover(w);
    run_right(w, 3);
    drop_plans(w);
    close_group(w);
}

static void runs_behind_the_callers_work_are_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < ASKED; i++) {
        world w;
        cudaStream_t stream = NULL;
        open_group(&w, 2, limit_seconds);
        assert_true(make_plans(&w, asked[i][0], asked[i][1]));
        assert_int_equal(cudaSetDevice(1), cudaSuccess);
        assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        assert_int_equal(cudaSetDevice(0), cudaSuccess);
        run_right(&w, 1);
        fill(&w, 2);
        const double then = sg_now_us() + work_seconds * 1e6;
        assert_int_equal(fake_enqueue(stream, until_then, &then, sizeof then), cudaSuccess);
        assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_OK);
        assert_int_equal(run_rank(&w, 1, stream), SHINGLE_OK);
        expect_told(&w);
        assert_true(sg_now_us() >= then);
        expect_left_alone(&w, then + 0.1e6);
        assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
        close_after_all(&w);
    }
}

typedef struct slow {
    world *w;
    shingle_status status;
} slow;

static void *enqueue_slowly(void *data)
{
    slow *const s = data;
    fake_call_us = 40000; /* of the host, for each call */
    s->status = run_rank(s->w, 1, NULL);
    fake_call_us = 0;
    return NULL;
}

/* It comes when the others have waited for almost as long as they may. */
static void who_enqueues_a_run_is_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < ASKED; i++) {
        world w;
        pthread_t thread;
        slow s = {.w = &w, .status = SHINGLE_OK};
        open_group(&w, 2, limit_seconds);
        assert_true(make_plans(&w, asked[i][0], asked[i][1]));
        run_right(&w, 1);
        fill(&w, 2);
        assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_OK);
        assert_int_equal(pthread_create(&thread, NULL, enqueue_slowly, &s), 0);
        expect_told(&w);
        expect_left_alone(&w, sg_now_us() + 0.4e6);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(s.status, SHINGLE_ETIMEOUT);
        close_after_all(&w);
    }
}

/* A graph that was captured and is gone has recorded the last event of a rank's lanes: nobody waits
 * for that when the group fails. */
static void graphs_that_are_gone_are_not_waited_for(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream;
    cudaGraph_t graph;
    open_group(&w, 2, limit_seconds);
    world collects = w;
    assert_true(make_plans(&w, "ag_gemm:bf16:256x128x64:r2", "dma"));
    assert_true(make_plans(&collects, "ag_gemm:bf16:48x16x32:r2", "serial{windows=0}"));
    fill(&w, 1);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    assert_int_equal(run_rank(&w, 0, stream), SHINGLE_OK);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphDestroy(graph);
    fill(&collects, 2);
    assert_int_equal(run_rank(&collects, 0, NULL), SHINGLE_OK);
    assert_int_equal(shingle_sync(w.comm[0], 10), SHINGLE_ETIMEOUT);
    assert_int_equal(shingle_sync(w.comm[1], 10), SHINGLE_ETIMEOUT);
    recover(&w);
    run_right(&w, 3);
    run_right(&collects, 3);
    cudaStreamDestroy(stream);
    drop_plans(&collects);
    drop_plans(&w);
    close_group(&w);
}

/* In a run that all ranks have begun nobody is missing, however much longer than the limit the
 * products in front of its collective take. */
static void a_long_run_is_no_failure(void **state)
{
    (void)state;
    world w;
    open_group(&w, 2, limit_seconds);
    assert_true(make_plans(&w, "gemm_ar:bf16:48x16x32:r2", "serial{windows=0}"));
    fill(&w, 1);
    fake_product_us = 500000;
    for (int run = 0; run < 2; run++)
        for (int r = 0; r < 2; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    sync_all(&w);
    fake_product_us = 0;
    expect_right(&w, "a long run");
    drop_plans(&w);
    close_group(&w);
}

/* All have begun a run of the same number, but not the same run. */
static void different_runs_are_no_long_one(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, 0.2);
    world other = w;
    assert_true(make_plans(&w, "gemm_a2a:bf16:48x16x32:r4", "serial"));
    assert_true(make_plans(&other, "gemm_rs:bf16:48x16x32:r4", "serial{windows=0}"));
    const double begun = sg_now_us();
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(run_rank(r == 2 ? &other : &w, r, NULL), SHINGLE_OK);
    assert_int_equal(shingle_sync(w.comm[0], 20), SHINGLE_EMISMATCH);
    expect_text("run different plans");
    assert_true(sg_now_us() - begun < 2e6); /* a long one is looked at for 16 limits */
    recover(&w);
    run_right(&w, 1);
    run_right(&other, 2);
    drop_plans(&other);
    drop_plans(&w);
    close_group(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_behind_the_callers_work_are_waited_for),
        cmocka_unit_test(who_enqueues_a_run_is_waited_for),
        cmocka_unit_test(graphs_that_are_gone_are_not_waited_for),
        cmocka_unit_test(a_long_run_is_no_failure),
        cmocka_unit_test(different_runs_are_no_long_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
