/* What calls of the CUDA backend leave to the thread that made them and to others, without a GPU
 * (tests/fake_cuda): its last error, graphs that are captured meanwhile, the order of streams, and
 * ranks that others enqueue. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "fake_world.h"

/* ---- The last error -------------------------------------------------------------------------- */

/* "Not yet" is what who polls is often told, and nothing that the caller should find when it next
 * looks whether its own kernels were launched. */
static void expect_no_error(const char *call)
{
    if (fake_not_yet > 0) fail_msg("%s: asked too little", call);
    if (cudaPeekAtLastError() != cudaSuccess) fail_msg("%s leaves an error", call);
}

static void waiting_leaves_no_error(void **state)
{
    (void)state;
    world w;
    shingle_plan *plan = NULL;
    const shingle_plan_options measured = {.measure = 1};
    shingle_bench_result result;
    const shingle_bench_options bench = {.iterations = 1};
    fake_not_yet = 3;
    open_group(&w, 2, 5);
    expect_no_error("shingle_open");
    fake_not_yet = 3;
    assert_int_equal(shingle_plan_create(w.comm[0], "gemm_rs:bf16:48x16x32:r2", &measured, &plan),
                     SHINGLE_OK);
    expect_no_error("shingle_plan_create");
    shingle_plan_free(plan);
    fake_not_yet = 3;
    assert_int_equal(shingle_bench(2, w.comm, "gemm_rs:bf16:48x16x32:r2", &bench, &result),
                     SHINGLE_OK);
    expect_no_error("shingle_bench");
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    fill(&w, 1);
    for (int r = 0; r < 2; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    fake_not_yet = 3;
    sync_all(&w);
    expect_no_error("shingle_sync");
    expect_right(&w, "asked often");
    recover(&w);
    expect_no_error("shingle_recover");
    drop_plans(&w);
    close_group(&w);
    expect_no_error("shingle_close");
}

/* What the caller's own call has said is his to find, however often the library asks meanwhile, and
 * whatever it finds out otherwise. */
static void the_callers_error_stays(void **state)
{
    (void)state;
    world w;
    fake_told(cudaErrorInvalidConfiguration);
    open_group(&w, 2, 5);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    for (uint64_t seed = 0; seed < 3; seed++) {
        fill(&w, seed);
        for (int r = 0; r < 2; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
        fake_not_yet = 3;
        sync_all(&w);
        assert_int_equal(fake_not_yet, 0);
        expect_right(&w, "beside an error of the caller's");
        assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
    }
    recover(&w);
    drop_plans(&w);
    close_group(&w);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

/* ---- Captures -------------------------------------------------------------------------------- */

/* A plan of several lanes takes them into the capture.  A run outside of it is refused as long as
 * it lasts, and nothing else is the worse for it: not the capture, nor the group. */
static void a_run_beside_an_own_capture_is_refused(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream[2];
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec[2];
    open_group(&w, 2, 5);
    world single = w;
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x16:r2", "ring{tile_m=128,tile_n=128}"));
    assert_true(make_plans(&single, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    run_right(&w, 1);
    fill(&w, 2);
    fill(&single, 2);
    for (int r = 0; r < 2; r++) {
        cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking);
        cudaStreamBeginCapture(stream[r], cudaStreamCaptureModeThreadLocal);
        assert_int_equal(run_rank(&w, r, stream[r]), SHINGLE_OK);
        assert_int_equal(run_rank(&single, r, stream[r]), SHINGLE_OK); /* leaves them taken */
        assert_int_equal(run_rank(&w, r, NULL), SHINGLE_EINVAL);
        expect_text("beside a graph that is being captured");
        assert_int_equal(run_rank(&w, r, stream[r]), SHINGLE_OK);
        assert_int_equal(cudaStreamEndCapture(stream[r], &graph), cudaSuccess);
        cudaGraphInstantiate(&exec[r], graph, 0);
        cudaGraphDestroy(graph);
    }
    for (int r = 0; r < 2; r++) cudaGraphLaunch(exec[r], stream[r]);
    for (int r = 0; r < 2; r++) cudaStreamSynchronize(stream[r]);
    expect_right(&w, "captured around a refused run");
    expect_right(&single, "captured beside a refused run");
    cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeThreadLocal);
    assert_int_equal(run_rank(&w, 0, stream[0]), SHINGLE_OK);
    run_right(&single, 3); /* on one lane, which no capture has */
    assert_int_equal(cudaStreamEndCapture(stream[0], &graph), cudaSuccess);
    cudaGraphDestroy(graph);
    run_right(&w, 4);
    for (int r = 0; r < 2; r++) {
        cudaGraphExecDestroy(exec[r]);
        cudaStreamDestroy(stream[r]);
    }
    drop_plans(&single);
    drop_plans(&w);
    close_group(&w);
}

/* Of two captures at a time that want the same lanes the second is refused: neither breaks, and
 * both replay right, as does one that needs the caller's stream alone. */
static void captures_side_by_side_keep_their_lanes(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream[2][2];
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec[2][2];
    open_group(&w, 2, 5);
    world single = w;
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x16:r2", "ring{tile_m=128,tile_n=128}"));
    assert_true(make_plans(&single, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    fill(&w, 1);
    fill(&single, 1);
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 2; i++) {
            cudaStreamCreateWithFlags(&stream[r][i], cudaStreamNonBlocking);
            cudaStreamBeginCapture(stream[r][i], cudaStreamCaptureModeThreadLocal);
        }
        assert_int_equal(run_rank(&w, r, stream[r][0]), SHINGLE_OK);
        assert_int_equal(run_rank(&w, r, stream[r][1]), SHINGLE_EINVAL);
        expect_text("another graph");
        assert_int_equal(run_rank(&single, r, stream[r][1]), SHINGLE_OK);
        assert_int_equal(run_rank(&w, r, stream[r][0]), SHINGLE_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(cudaStreamEndCapture(stream[r][i], &graph), cudaSuccess);
            cudaGraphInstantiate(&exec[r][i], graph, 0);
            cudaGraphDestroy(graph);
        }
    }
    for (int i = 0; i < 2; i++) {
        for (int r = 0; r < 2; r++) cudaGraphLaunch(exec[r][i], stream[r][i]);
        for (int r = 0; r < 2; r++) cudaStreamSynchronize(stream[r][i]);
    }
    expect_right(&w, "captured beside another");
    expect_right(&single, "captured beside lanes");
    run_right(&w, 2);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 2; i++) {
            cudaGraphExecDestroy(exec[r][i]);
            cudaStreamDestroy(stream[r][i]);
        }
    drop_plans(&single);
    drop_plans(&w);
    close_group(&w);
}

/* A graph of rank 0 replays, and waits inside a kernel that has all SMs for that of rank 1, whose
 * thread makes a plan first: nothing there waits for that kernel, which the host knows nothing of,
 * be it to fill memory or to free it. */
static void plans_are_made_beside_replays(void **state)
{
    (void)state;
    static const shingle_plan_options serial = {.strategy = "serial"};
    static const shingle_plan_options fused = {.strategy = "fused_out{tile_m=128,tile_n=128}"};
    world w;
    cudaStream_t stream[2];
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec[2];
    shingle_plan *plan = NULL;
    void *memory = NULL;
    open_group(&w, 2, 1);
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x64:r2", fused.strategy));
    assert_int_equal(shingle_alloc(w.comm[0], 1 << 20, &memory), SHINGLE_OK);
    for (int r = 0; r < 2; r++) {
        cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking);
        cudaStreamBeginCapture(stream[r], cudaStreamCaptureModeThreadLocal);
        assert_int_equal(run_rank(&w, r, stream[r]), SHINGLE_OK);
        cudaStreamEndCapture(stream[r], &graph);
        cudaGraphInstantiate(&exec[r], graph, 0);
        cudaGraphDestroy(graph);
    }
    fill(&w, 1);
    fake_stalls = 0;
    cudaGraphLaunch(exec[0], stream[0]);
    assert_true(fake_busy(0));
    const double begun = sg_now_us();
    shingle_free(w.comm[0], memory);
    for (int r = 0; r < 2; r++) {
        if (shingle_plan_create(w.comm[r], "gemm_rs:bf16:2080x520x64:r2", &fused, &plan) !=
            SHINGLE_OK)
            fail_msg("%s", shingle_error());
        shingle_plan_free(plan);
        if (shingle_plan_create(w.comm[r], "gemm:bf16:96x64x64:r2", &serial, &plan) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
        shingle_plan_free(plan);
    }
    assert_true(sg_now_us() - begun < 0.9e6);
    assert_int_equal(fake_stalls, 0);
    cudaGraphLaunch(exec[1], stream[1]);
    for (int r = 0; r < 2; r++) cudaStreamSynchronize(stream[r]);
    sync_all(&w);
    expect_right(&w, "replayed beside plans");
    for (int r = 0; r < 2; r++) {
        cudaGraphExecDestroy(exec[r]);
        cudaStreamDestroy(stream[r]);
    }
    drop_plans(&w);
    close_group(&w);
}

/* Another thread captures a graph, in the mode in which all others must not get memory: this one
 * gets some, makes a plan, and opens a group. */
static void captures_go_on_beside_plans(void **state)
{
    (void)state;
    static const char *const strategies[] = {"fused_out", "serial", "direct", "ring"};
    world w;
    cudaStream_t stream;
    cudaGraph_t graph;
    char word[8] = "";
    open_group(&w, RANKS, 5);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int i = 0; i < 4; i++) {
        shingle_plan *plan = NULL;
        void *memory = NULL;
        world other;
        const shingle_plan_options options = {.strategy = strategies[i]};
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
        if (shingle_plan_create(w.comm[i], "gemm_ar:bf16:136x136x64:r4", &options, &plan) !=
            SHINGLE_OK)
            fail_msg("%s: %s", strategies[i], shingle_error());
        shingle_plan_free(plan);
        assert_int_equal(shingle_alloc(w.comm[i], 64, &memory), SHINGLE_OK);
        assert_int_equal(shingle_write(w.comm[i], memory, "a word", 7), SHINGLE_OK);
        assert_int_equal(shingle_read(w.comm[i], word, memory, 7), SHINGLE_OK);
        assert_string_equal(word, "a word");
        shingle_free(w.comm[i], memory);
        open_group(&other, 2, 5);
        close_group(&other);
        if (cudaStreamEndCapture(stream, &graph) != cudaSuccess)
            fail_msg("%s broke the capture", strategies[i]);
        cudaGraphDestroy(graph);
    }
    cudaStreamDestroy(stream);
    close_group(&w);
}

/* A group fails while one of its ranks has its lanes in a capture.  Somebody comes for it to the
 * collectives that others wait in; not in the capture, where that would never run. */
static void a_group_fails_beside_a_capture(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream;
    cudaGraph_t graph;
    open_group(&w, RANKS, 0.2);
    world waits = w;
    assert_true(
        make_plans(&w, "gemm_rs:bf16:136x136x16:r4", "sliced{slices=2,tile_m=64,tile_n=128}"));
    assert_true(make_plans(&waits, "gemm_rs:bf16:48x16x32:r4", "serial{windows=1}"));
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    run_right(&waits, 1);
    fill(&w, 2);
    fill(&waits, 2);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    assert_int_equal(run_rank(&w, 0, stream), SHINGLE_OK);
    for (int r = 1; r < RANKS; r++) assert_int_equal(run_rank(&waits, r, NULL), SHINGLE_OK);
    assert_int_equal(shingle_sync(w.comm[1], 10), SHINGLE_ETIMEOUT);
    for (int r = 1; r < RANKS; r++) assert_false(fake_busy(r));
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    cudaGraphDestroy(graph);
    recover(&w);
    run_right(&waits, 3);
    run_right(&w, 4);
    cudaStreamDestroy(stream);
    drop_plans(&waits);
    drop_plans(&w);
    close_group(&w);
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* Work of the caller's that is in front of a run. */
static bool pass(void *data, bool first)
{
    double until = 0;
    (void)first;
    memcpy(&until, data, sizeof until);
    return sg_now_us() >= until;
}

static void enqueue_work(cudaStream_t stream, double seconds)
{
    const double until = sg_now_us() + seconds * 1e6;
    assert_int_equal(fake_enqueue(stream, pass, &until, sizeof until), cudaSuccess);
}

/* The next stream may have the handle of one whose run has not ended, and so may that of another
 * thread: runs of a rank follow each other by streams, whatever they are called. */
static void runs_follow_each_other(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream;
    open_group(&w, 2, 5);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    fill(&w, 1);
    enqueue_work(stream, 0.3);
    for (int n = 0; n < 2; n++) {
        for (int r = 0; r < 2; r++)
            assert_int_equal(run_rank(&w, r, r == 0 ? stream : NULL), SHINGLE_OK);
        if (n == 0) fake_reuse(stream);
    }
    fake_pump();
    assert_true(fake_pending(stream));
    sync_all(&w);
    assert_false(fake_pending(stream));
    expect_right(&w, "on one handle");
    cudaStreamDestroy(stream);
    drop_plans(&w);
    close_group(&w);
}

/* As many runs as the host knows of stand behind other work: one that is captured is not on its
 * way, and waits for none of them. */
static void captures_need_no_room(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream[2];
    cudaGraph_t graph;
    open_group(&w, 2, 0.2);
    assert_true(make_plans(&w, "gemm:bf16:16x16x16:r2", "serial"));
    for (int i = 0; i < 2; i++) cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking);
    fill(&w, 1);
    enqueue_work(stream[0], 1);
    for (int n = 0; n < SG_CUDA_FLIGHT; n++)
        assert_int_equal(run_rank(&w, 0, stream[0]), SHINGLE_OK);
    cudaStreamBeginCapture(stream[1], cudaStreamCaptureModeThreadLocal);
    const double begun = sg_now_us();
    if (run_rank(&w, 0, stream[1]) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_true(sg_now_us() - begun < 0.2e6);
    assert_int_equal(cudaStreamEndCapture(stream[1], &graph), cudaSuccess);
    cudaGraphDestroy(graph);
    assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_OK);
    sync_all(&w);
    expect_right(&w, "beside a capture");
    for (int i = 0; i < 2; i++) cudaStreamDestroy(stream[i]);
    drop_plans(&w);
    close_group(&w);
}

/* ---- Ranks that are late --------------------------------------------------------------------- */

typedef struct slow {
    world w;
    cudaStream_t stream;
    int rank, call_us;
    shingle_status status;
    char why[600];
} slow;

static void *run_slowly(void *data)
{
    slow *const x = data;
    fake_call_us = x->call_us;
    x->status = run_rank(&x->w, x->rank, x->stream);
    snprintf(x->why, sizeof x->why, "%s", shingle_error());
    return NULL;
}

static bool is_enqueueing(const world *w, int r)
{
    sg_cuda *const cuda = w->comm[r]->group->self;
    pthread_mutex_lock(&cuda->mutex);
    const bool enqueues = cuda->rank[r].enqueues;
    pthread_mutex_unlock(&cuda->mutex);
    return enqueues;
}

/* The group fails while one of its threads still enqueues: at a time when nothing of that is on its
 * way, or in front of a collective that is then refused.  That rank hears of it when its call comes
 * back, and nothing of the run is left behind the caller's work, to go on when the group has
 * recovered. */
static void who_is_late_leaves_nothing(void **state)
{
    (void)state;
    static const char *const strategies[] = {"fused_out", "sliced{slices=2,tile_m=64,tile_n=128}"};
    for (int i = 0; i < 2; i++) {
        slow x = {.call_us = i == 0 ? 60000 : 0};
        pthread_t thread;
        open_group(&x.w, RANKS, 0.1);
        assert_true(make_plans(&x.w, "gemm_rs:bf16:136x136x16:r4", strategies[i]));
        cudaStreamCreateWithFlags(&x.stream, cudaStreamNonBlocking);
        run_right(&x.w, 1);
        fill(&x.w, 2);
        enqueue_work(x.stream, 1.2);
        fake_slow_us = i == 0 ? 0 : 600000; /* of its first collective */
        assert_int_equal(pthread_create(&thread, NULL, run_slowly, &x), 0);
        while (!is_enqueueing(&x.w, 0)) usleep(100);
        for (int r = 1; r < RANKS; r++) assert_int_equal(run_rank(&x.w, r, NULL), SHINGLE_OK);
        assert_int_equal(shingle_sync(x.w.comm[1], 10), SHINGLE_ETIMEOUT);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (x.status != SHINGLE_ETIMEOUT)
            fail_msg("%s: %d, \"%s\"", strategies[i], (int)x.status, x.why);
        assert_int_equal(shingle_sync(x.w.comm[0], 10), SHINGLE_ETIMEOUT);
        assert_string_equal(x.why, shingle_error());
        if (fake_pending(x.stream)) fail_msg("%s: something is left", strategies[i]);
        recover(&x.w);
        run_right(&x.w, 3);
        cudaStreamDestroy(x.stream);
        drop_plans(&x.w);
        close_group(&x.w);
    }
}

/* ---- Timed runs that fail -------------------------------------------------------------------- */

typedef struct timed {
    world *w;
    int call; /* of rank 1's run that fails */
} timed;

static shingle_status run_timed(void *context, int rank, int index, void *stream)
{
    const timed *const t = context;
    (void)index;
    if (rank == 1) fake_fail_at(t->call, cudaErrorUnknown);
    const shingle_status status = run_rank(t->w, rank, stream);
    if (rank == 1) fake_fail_at(-1, cudaErrorUnknown);
    return status;
}

/* The other rank waits for a start that is not given.  It need not be waited for, nor the library
 * of collectives be taken down for its sake. */
static void timed_runs_that_fail_let_go(void **state)
{
    (void)state;
    world w;
    timed t = {&w, 0};
    int told = 0;
    open_group(&w, 2, 0.6);
    assert_true(make_plans(&w, "gemm_rs:bf16:136x136x16:r2", "ring"));
    run_right(&w, 1);
    sg_cuda *const cuda = w.comm[0]->group->self;
    for (bool ends = false; !ends; t.call++) {
        double us = 0;
        const double begin_us = sg_now_us();
        ends = sg_cuda_time(cuda, run_timed, &t, 1, &us) == SHINGLE_OK;
        const double took_us = sg_now_us() - begin_us;
        assert_false(cuda->collect_lost);
        if (cuda->failed && took_us > 0.4e6) fail_msg("call %d: %g us", t.call, took_us);
        told += cuda->failed; /* else nothing of rank 1's run was enqueued */
        if (!ends) recover(&w);
    }
    assert_true(told > 3);
    run_right(&w, 2);
    drop_plans(&w);
    close_group(&w);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

/* A child has the group's locks as they were, and whoever had one is not there to give it back. */
static void a_child_is_refused_memory_of_gpus(void **state)
{
    (void)state;
    world w;
    void *memory = NULL;
    char word[4] = "";
    open_group(&w, 2, 5);
    assert_int_equal(shingle_alloc(w.comm[0], 64, &memory), SHINGLE_OK);
    sg_cuda *const cuda = w.comm[0]->group->self;
    pthread_mutex_lock(&cuda->mutex);
    const pid_t child = fork();
    if (child == 0) {
        void *more = NULL;
        alarm(5);
        bool refused = shingle_alloc(w.comm[0], 64, &more) == SHINGLE_EINVAL;
        refused &= strstr(shingle_error(), "before this process was forked") != NULL;
        refused &= shingle_write(w.comm[0], memory, word, sizeof word) == SHINGLE_EINVAL;
        refused &= shingle_read(w.comm[0], word, memory, sizeof word) == SHINGLE_EINVAL;
        shingle_device device;
        refused &= shingle_comm_device(w.comm[0], &device) == SHINGLE_EINVAL;
        shingle_free(w.comm[0], memory);
        _exit(refused ? 0 : 1);
    }
    pthread_mutex_unlock(&cuda->mutex);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    shingle_free(w.comm[0], memory);
    close_group(&w);
}

/* ---- Memory beside runs ---------------------------------------------------------------------- */

/* A plan that is bound takes memory on the GPUs of all ranks, and fills it.  One of them has just
 * launched a kernel, of all SMs, that waits for the rank whose plan it is; a fill would wait for
 * that kernel. */
static void memory_is_filled_beside_launches(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm_rs:bf16:2080x136x64:r2",
                                           "gemm_ar:bf16:4160x136x64:r2"};
    const shingle_plan_options options = {.strategy = "fused_out{tile_m=128,tile_n=128}"};
    slow x = {.rank = 1, .call_us = 100000};
    open_group(&x.w, 2, 2);
    assert_true(make_plans(&x.w, "gemm_rs:bf16:520x136x64:r2", options.strategy));
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    cudaStreamCreateWithFlags(&x.stream, cudaStreamNonBlocking);
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        shingle_plan *plan = NULL;
        fill(&x.w, (uint64_t)i);
        assert_int_equal(pthread_create(&thread, NULL, run_slowly, &x), 0);
        while (!fake_pending(x.stream)) usleep(100);
        fake_pump();
        assert_int_equal(fake_kernels[1], 1);
        assert_int_equal(shingle_plan_create(x.w.comm[0], problems[i], &options, &plan),
                         SHINGLE_OK);
        assert_int_equal(run_rank(&x.w, 0, NULL), SHINGLE_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (x.status != SHINGLE_OK) fail_msg("%s", x.why);
        sync_all(&x.w);
        expect_right(&x.w, problems[i]);
        shingle_plan_free(plan);
    }
    cudaStreamDestroy(x.stream);
    drop_plans(&x.w);
    close_group(&x.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_leaves_no_error),
        cmocka_unit_test(the_callers_error_stays),
        cmocka_unit_test(a_run_beside_an_own_capture_is_refused),
        cmocka_unit_test(captures_side_by_side_keep_their_lanes),
        cmocka_unit_test(plans_are_made_beside_replays),
        cmocka_unit_test(captures_go_on_beside_plans),
        cmocka_unit_test(a_group_fails_beside_a_capture),
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(captures_need_no_room),
        cmocka_unit_test(who_is_late_leaves_nothing),
        cmocka_unit_test(timed_runs_that_fail_let_go),
        cmocka_unit_test(a_child_is_refused_memory_of_gpus),
        cmocka_unit_test(memory_is_filled_beside_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
