/* Tests of the CUDA backend beside work of the caller's, without a GPU (tests/fake_cuda): streams
 * of one capture, and memory that is freed while something else is on a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include <unistd.h>

#include "fake_world.h"

/* ---- Two streams of one capture -------------------------------------------------------------- */

enum { STREAMS = 2 };

typedef struct graph {
    cudaStream_t stream[STREAMS];
    cudaGraphExec_t exec;
} graph;

/* Two runs of RANK in one graph, each on a stream of its own. */
static void capture_two(world *w, int rank, graph *g)
{
    cudaGraph_t whole = NULL;
    cudaEvent_t forks = NULL, joins = NULL;
    cudaEventCreate(&forks);
    cudaEventCreate(&joins);
    cudaSetDevice(rank);
    for (int i = 0; i < STREAMS; i++)
        cudaStreamCreateWithFlags(&g->stream[i], cudaStreamNonBlocking);
    cudaSetDevice(0);
    cudaStreamBeginCapture(g->stream[0], cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(forks, g->stream[0]);
    cudaStreamWaitEvent(g->stream[1], forks, 0);
    for (int i = 0; i < STREAMS; i++)
        if (run_rank(w, rank, g->stream[i]) != SHINGLE_OK) fail_msg("%s", shingle_error());
    cudaEventRecord(joins, g->stream[1]);
    cudaStreamWaitEvent(g->stream[0], joins, 0);
    assert_int_equal(cudaStreamEndCapture(g->stream[0], &whole), cudaSuccess);
    cudaGraphInstantiate(&g->exec, whole, 0);
    cudaGraphDestroy(whole);
    cudaEventDestroy(forks);
    cudaEventDestroy(joins);
}

static void runs_of_a_graph_follow_each_other(void **state)
{
    (void)state;
    static const char *const plans[][2] = {
        {"gemm_rs:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4", "ring{tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:520x136x16:r4", "direct{tile_m=128,tile_n=128}"},
        {"ag_gemm:bf16:520x136x16:r4", "fused_in{tile_m=128,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4", "dma{tile_m=128,tile_n=128}"},
    };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        world w;
        graph g[RANKS];
        open_group(&w, RANKS, 5);
        assert_true(make_plans(&w, plans[i][0], plans[i][1]));
        for (int r = 0; r < RANKS; r++) capture_two(&w, r, &g[r]);
        for (uint64_t n = 0; n < 3; n++) {
            fill(&w, n);
            for (int r = 0; r < RANKS; r++) cudaGraphLaunch(g[r].exec, g[r].stream[0]);
            for (int r = 0; r < RANKS; r++) cudaStreamSynchronize(g[r].stream[0]);
            sync_all(&w);
            expect_right(&w, plans[i][1]);
        }
        for (int r = 0; r < RANKS; r++) {
            cudaGraphExecDestroy(g[r].exec);
            for (int s = 0; s < STREAMS; s++) cudaStreamDestroy(g[r].stream[s]);
        }
        drop_plans(&w);
        close_group(&w);
    }
}

/* Nothing of a capture runs: one that fails, at whichever call, leaves the group as it was. */
static void captures_that_fail_leave_the_group(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream = NULL;
    open_group(&w, 2, 5);
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x16:r2", "ring{tile_m=128,tile_n=128}"));
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    run_right(&w, 1);
    for (int i = 0, failed = 1; failed; i++) {
        cudaGraph_t whole = NULL;
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
        fake_fail_at(i, cudaErrorUnknown);
        failed = run_rank(&w, 0, stream) != SHINGLE_OK;
        fake_fail_at(-1, cudaErrorUnknown);
        cudaStreamEndCapture(stream, &whole);
        cudaGraphDestroy(whole);
        run_right(&w, (uint64_t)i);
    }
    cudaStreamDestroy(stream);
    drop_plans(&w);
    close_group(&w);
}

/* ---- Memory that is freed -------------------------------------------------------------------- */

static _Atomic bool may_go;

static bool goes(void *data, bool first)
{
    (void)data, (void)first;
    return may_go;
}

/* The rest of a run that could not be enqueued to its end stands behind the caller's work. */
static void what_is_left_of_a_run_counts(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream = NULL;
    void *memory = NULL;
    open_group(&w, RANKS, 0.2);
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x16:r4", "ring{tile_m=128,tile_n=128}"));
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    run_right(&w, 1);
    assert_int_equal(shingle_alloc(w.comm[0], 1 << 20, &memory), SHINGLE_OK);
    may_go = false;
    fake_enqueue(stream, goes, NULL, 0);
    fake_fail_at(8, cudaErrorUnknown);
    assert_int_not_equal(run_rank(&w, 0, stream), SHINGLE_OK);
    fake_fail_at(-1, cudaErrorUnknown);
    fake_stalls = 0;
    shingle_free(w.comm[0], memory);
    assert_int_equal(fake_stalls, 0);
    may_go = true;
    while (shingle_sync(w.comm[0], 20) == SHINGLE_EBUSY) {}
    recover(&w);
    run_right(&w, 2);
    cudaStreamDestroy(stream);
    drop_plans(&w);
    close_group(&w);
}

static void *memory_of_0;

static void *free_it(void *of)
{
    cudaSetDevice(0);
    shingle_free(((world *)of)->comm[0], memory_of_0);
    return NULL;
}

/* Work of the caller's on rank 0's GPU waits for the thread of rank 1, which begins a run before it
 * comes to that, while rank 0's thread frees memory: nobody waits for longer than the limit. */
static void freeing_keeps_nobody_for_ever(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream = NULL;
    pthread_t thread;
    open_group(&w, 2, 0.3);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    run_right(&w, 1);
    assert_int_equal(shingle_alloc(w.comm[0], 1000, &memory_of_0), SHINGLE_OK);
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    may_go = false;
    fake_stalls = 0;
    fake_frees_last = true;
    fake_enqueue(stream, goes, NULL, 0);
    assert_int_equal(pthread_create(&thread, NULL, free_it, &w), 0);
    while (fake_stalls == 0) usleep(100);
    assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_ETIMEOUT);
    expect_text("rank 1: memory has been freed for 0.3 s");
    may_go = true;
    pthread_join(thread, NULL);
    fake_frees_last = false;
    run_right(&w, 2);
    cudaStreamDestroy(stream);
    drop_plans(&w);
    close_group(&w);
}

/* Recovery does not wait for it at all. */
static void recovery_frees_nothing_at_once(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream = NULL;
    open_group(&w, RANKS, SHORT_LIMIT);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r4", "serial{windows=0}"));
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    run_right(&w, 1);
    for (int r = 1; r < RANKS; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    assert_int_equal(shingle_sync(w.comm[1], 10), SHINGLE_ETIMEOUT);
    may_go = false;
    fake_enqueue(stream, goes, NULL, 0);
    fake_stalls = 0;
    recover(&w);
    assert_int_equal(fake_stalls, 0);
    may_go = true;
    cudaStreamSynchronize(stream);
    run_right(&w, 2);
    cudaStreamDestroy(stream);
    drop_plans(&w);
    close_group(&w);
}

/* ---- Memory that is filled ------------------------------------------------------------------- */

/* Beside a run it is filled piece by piece, the last of which is shorter; behind a large block is
 * nothing that may be touched. */
static void memory_is_filled_to_its_end(void **state)
{
    (void)state;
    enum { BYTES = (32 << 20) + 256 };
    world w;
    void *memory = NULL;
    open_group(&w, 2, 5);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    fill(&w, 1);
    assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_OK);
    assert_int_equal(shingle_alloc(w.comm[0], BYTES, &memory), SHINGLE_OK);
    assert_int_equal(((const char *)memory)[BYTES - 1], 0);
    assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_OK);
    sync_all(&w);
    expect_right(&w, "beside memory that is filled");
    shingle_free(w.comm[0], memory);
    drop_plans(&w);
    close_group(&w);
}

/* ---- Streams that change --------------------------------------------------------------------- */

/* A run on the rank's own stream that no event marks yet stands behind other work there: the next
 * one, on the caller's, comes behind it. */
static void runs_follow_what_is_not_marked(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream = NULL;
    open_group(&w, 2, 5);
    const sg_cuda *const cuda = w.comm[0]->group->self;
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    fill(&w, 1);
    may_go = false;
    fake_enqueue(cuda->rank[0].lane[0], goes, NULL, 0);
    for (int n = 0; n < 2; n++)
        for (int r = 0; r < 2; r++)
            assert_int_equal(run_rank(&w, r, r == 0 && n == 1 ? stream : NULL), SHINGLE_OK);
    fake_pump();
    assert_true(fake_pending(stream));
    may_go = true;
    sync_all(&w);
    expect_right(&w, "on another stream");
    cudaStreamDestroy(stream);
    drop_plans(&w);
    close_group(&w);
}

/* ---- Replays --------------------------------------------------------------------------------- */

static void *end_a_run(void *state)
{
    usleep(100);
    __atomic_add_fetch(&((sg_kernel_rank *)state)->epoch, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Between two runs, as in a norm behind one, the words tell nothing; that runs end tells. */
static void replays_are_seen_between_runs(void **state)
{
    (void)state;
    world w;
    graph g;
    pthread_t thread;
    open_group(&w, RANKS, 5);
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"));
    capture_two(&w, 0, &g);
    sg_cuda *const cuda = w.comm[0]->group->self;
    sg_cuda_rank *const rank = &cuda->rank[0];
    sg_kernel_rank *const words = rank->state; /* a fake GPU's memory is the host's */
    assert_true(rank->captured);
    pthread_mutex_lock(&cuda->mutex);
    assert_false(sg_cuda_is_replaying(cuda, rank));
    int seen = 0;
    for (int i = 0; i < 8; i++) { /* unless the machine stands still */
        const uint64_t epoch = words->epoch;
        assert_int_equal(pthread_create(&thread, NULL, end_a_run, words), 0);
        seen += sg_cuda_is_replaying(cuda, rank);
        pthread_join(thread, NULL);
        words->epoch = epoch;
    }
    pthread_mutex_unlock(&cuda->mutex);
    assert_true(seen > 0);
    cudaGraphExecDestroy(g.exec);
    for (int i = 0; i < STREAMS; i++) cudaStreamDestroy(g.stream[i]);
    drop_plans(&w);
    close_group(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_a_graph_follow_each_other),
        cmocka_unit_test(replays_are_seen_between_runs),
        cmocka_unit_test(captures_that_fail_leave_the_group),
        cmocka_unit_test(what_is_left_of_a_run_counts),
        cmocka_unit_test(freeing_keeps_nobody_for_ever),
        cmocka_unit_test(recovery_frees_nothing_at_once),
        cmocka_unit_test(memory_is_filled_to_its_end),
        cmocka_unit_test(runs_follow_what_is_not_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
