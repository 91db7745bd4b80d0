/* Collectives in windows of the CUDA backend, without a GPU (tests/fake_cuda, which stops a test
 * that registers, uses or frees windows in a way that NCCL would not survive): they are right, end
 * although a rank is missing, and do without windows where there are none. */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "fake_world.h"

static const char *const in_windows = "serial{windows=1}";
static const char *const gather = "ag_gemm:bf16:48x16x32:r4";
static const char *const scatter = "gemm_rs:bf16:48x16x32:r4";

/* Of all ranks, since the last call. */
static int count_windowed(void)
{
    static int before;
    const int count = fake_windowed - before;
    before = fake_windowed;
    return count;
}

/* ---- Right ----------------------------------------------------------------------------------- */

static void what_is_even_is_in_windows(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        bool windows;
    } asked[] = {
        {"ag_gemm:bf16:48x16x32:r4", true},
        {"ag_gemm:f16:520x136x64:r4:bias:relu", true},
        {"ag_gemm:bf16:70x544x64:r4:gather=b", true},
        {"ag_gemm:bf16:70x136x256:r4:gather=k", true},
        {"ag_gemm:bf16:520x136x64:r4:return_a", true},
        {"ag_gemm:bf16:512x136x64:r4:cyclic=16", true},
        {"gemm_rs:bf16:48x16x32:r4", true},
        {"gemm_rs:f32:48x16x32:r4", true},
        {"gemm_rs:f16:520x136x16:r4:bias:relu", true},
        {"gemm_rs:bf16:520x136x16:r4:norm", true},
        {"ag_gemm:bf16:70x136x64:r4", false},
        {"gemm_rs:bf16:70x136x16:r4", false},
        {"gemm_ar:bf16:70x136x16:r4", false},
        {"a2a_gemm:bf16:48x16x32:r4", false},
        {"gemm_a2a:bf16:48x16x32:r4", false},
    };
    world w;
    open_group(&w, RANKS, 20);
    (void)count_windowed();
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (!make_plans(&w, asked[i].problem, in_windows)) fail_msg("%s", shingle_error());
        for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
        if (count_windowed() != (asked[i].windows ? 3 * RANKS : 0))
            fail_msg("%s", asked[i].problem);
        drop_plans(&w);
    }
    close_group(&w);
}

/* Whoever asks first, all ranks have a block of a size, and plans of that size share it. */
static void plans_share_windows(void **state)
{
    (void)state;
    world w;
    void *block[RANKS] = {NULL};
    open_group(&w, RANKS, 20);
    for (int i = 0; i < 3; i++) {
        shingle_plan *plan = NULL;
        const shingle_plan_options options = {.strategy = in_windows};
        assert_int_equal(shingle_plan_create(w.comm[3 - i], gather, &options, &plan), SHINGLE_OK);
        for (int r = 0; r < RANKS; r++) {
            void *const at = w.comm[0]->group->work[r]->block[SG_BLOCK_WINDOWS][SG_BLOCK_CLASS0];
            assert_non_null(at);
            if (i > 0) assert_ptr_equal(at, block[r]);
            block[r] = at;
        }
        shingle_plan_free(plan);
    }
    close_group(&w);
}

static void captured_runs_replay(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream[RANKS];
    cudaGraph_t graph;
    cudaGraphExec_t exec[RANKS];
    open_group(&w, RANKS, 20);
    assert_true(make_plans(&w, scatter, in_windows));
    for (int r = 0; r < RANKS; r++) {
        cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking);
        cudaStreamBeginCapture(stream[r], cudaStreamCaptureModeThreadLocal);
        assert_int_equal(run_rank(&w, r, stream[r]), SHINGLE_OK);
        cudaStreamEndCapture(stream[r], &graph);
        cudaGraphInstantiate(&exec[r], graph, 0);
        cudaGraphDestroy(graph);
    }
    for (uint64_t seed = 0; seed < 5; seed++) {
        if (seed % 2 == 1) run_right(&w, seed); /* eager ones between */
        fill(&w, 100 + seed);
        for (int r = 0; r < RANKS; r++) cudaGraphLaunch(exec[r], stream[r]);
        for (int r = 0; r < RANKS; r++) cudaStreamSynchronize(stream[r]);
        expect_right(&w, "replays");
    }
    for (int r = 0; r < RANKS; r++) {
        cudaGraphExecDestroy(exec[r]);
        cudaStreamDestroy(stream[r]);
    }
    drop_plans(&w);
    close_group(&w);
}

static void *make_while_slow(void *of)
{
    const world *const w = of;
    static const char *const problems[] = {"ag_gemm:bf16:4096x256x64:r4",
                                           "ag_gemm:bf16:8192x256x64:r4"};
    const shingle_plan_options options = {.strategy = in_windows};
    shingle_plan *plan[2] = {NULL, NULL};
    while (fake_slow_us > 0) usleep(100);
    for (int i = 0; i < 2; i++) /* of another size, so that another window is registered */
        if (shingle_plan_create(w->comm[1], problems[i], &options, &plan[i]) != SHINGLE_OK)
            return NULL;
    for (int i = 0; i < 2; i++) shingle_plan_free(plan[i]); /* of which one goes */
    return plan[0];
}

/* A communicator is not made for two threads: while rank 0 is inside a collective's call, no window
 * is registered for a plan of rank 1, and none taken back. */
static void calls_are_waited_for(void **state)
{
    (void)state;
    world w;
    pthread_t thread;
    void *made = NULL;
    open_group(&w, RANKS, 5);
    assert_true(make_plans(&w, gather, in_windows));
    run_right(&w, 1);
    fill(&w, 2);
    fake_torn = 0;
    fake_slow_us = 300000;
    assert_int_equal(pthread_create(&thread, NULL, make_while_slow, &w), 0);
    for (int r = 0; r < RANKS; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    assert_int_equal(pthread_join(thread, &made), 0);
    assert_non_null(made);
    assert_int_equal(fake_torn, 0);
    sync_all(&w);
    expect_right(&w, "beside a plan that is made");
    drop_plans(&w);
    close_group(&w);
}

/* ---- Without windows ------------------------------------------------------------------------- */

static void libraries_without_windows_do(void **state)
{
    (void)state;
    static const char *const problems[] = {gather, scatter};
    fake_windowless = true;
    for (int i = 0; i < 2; i++) {
        world w;
        open_group(&w, RANKS, 20);
        (void)count_windowed();
        assert_true(make_plans(&w, problems[i], in_windows));
        for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
        assert_int_equal(count_windowed(), 0);
        drop_plans(&w);
        close_group(&w);
    }
    fake_windowless = false;
}

/* Each call that making plans takes fails once: then there is no plan, and the next one is right;
 * or it is, with windows or without, the same for all ranks. */
static void memory_that_cannot_be_registered_does(void **state)
{
    (void)state;
    int plain = 0;
    int none = 0;
    bool reached = true;
    for (int i = 0; reached; i++) {
        world w;
        open_group(&w, RANKS, 20);
        (void)count_windowed();
        fake_fail_at(i, cudaErrorMemoryAllocation);
        shingle_plan *plan[RANKS] = {NULL};
        const shingle_plan_options options = {.strategy = in_windows};
        bool made = true;
        for (int r = 0; r < RANKS && made; r++)
            made = shingle_plan_create(w.comm[r], scatter, &options, &plan[r]) == SHINGLE_OK;
        reached = fake_calls() > i;
        fake_fail_at(-1, cudaErrorUnknown);
        assert_true(make_plans(&w, scatter, in_windows));
        for (uint64_t seed = 0; seed < 2; seed++) run_right(&w, seed);
        const int windowed = count_windowed();
        assert_true(windowed == 0 || windowed == 2 * RANKS);
        plain += windowed == 0;
        none += !made;
        for (int r = 0; r < RANKS; r++) shingle_plan_free(plan[r]);
        drop_plans(&w);
        close_group(&w);
    }
    assert_true(plain >= 2 * RANKS && none > 0); /* alloc and register of each rank */
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* Rank MISSING has nothing to wait for and is told last. */
static void expect_failed(const world *w, int missing, shingle_status status, const char *words)
{
    for (int r = 0; r < RANKS; r++) {
        if (shingle_sync(w->comm[(missing + 1 + r) % RANKS], 20) != status)
            fail_msg("%s", shingle_error());
        expect_text(words);
    }
}

static const sg_collect *collect_of(const world *w)
{
    const sg_cuda *const cuda = w->comm[0]->group->self;
    return cuda->collect;
}

/* Time limits of three groups pass together. */
static void come_for_missing(const char *const *other)
{
    static world w[3], plain[3];
    for (int i = 0; i < 3; i++) {
        open_group(&w[i], RANKS, SHORT_LIMIT);
        plain[i] = w[i];
        assert_true(make_plans(&w[i], i == 1 ? scatter : gather, in_windows));
        assert_true(make_plans(&plain[i], other[i], "serial{windows=0}"));
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            run_right(&w[i], 1);
            run_right(&plain[i], 1);
            fill(&w[i], 2);
            fill(&plain[i], 2);
            for (int n = 0; n < 5; n++)
                for (int r = 0; r < RANKS; r++)
                    if (r != (i + round) % RANKS && !(r == 3 && n > 2))
                        assert_int_equal(run_rank(n % 2 == i % 2 ? &w[i] : &plain[i], r, NULL),
                                         SHINGLE_OK);
        }
        for (int i = 0; i < 3; i++) {
            char words[40];
            snprintf(words, sizeof words, "rank %d did not begin", (i + round) % RANKS);
            expect_failed(&w[i], (i + round) % RANKS, SHINGLE_ETIMEOUT, words);
        }
        for (int i = 0; i < 3; i++) {
            const sg_collect *const before = collect_of(&w[i]);
            recover(&w[i]);
            assert_ptr_equal(collect_of(&w[i]), before);
            (void)count_windowed();
            for (uint64_t seed = 0; seed < 2; seed++) run_right(&w[i], seed);
            run_right(&plain[i], 3);
            assert_int_equal(count_windowed(), 2 * RANKS);
        }
    }
    for (int i = 2; i >= 0; i--) {
        drop_plans(&plain[i]);
        drop_plans(&w[i]);
        close_group(&w[i]);
    }
}

/* Those who wait in a window cannot be told to stop: somebody comes in the name of the missing, to
 * what is plain between as well, in shares alike or not, and the group is as it was. */
static void a_rank_that_does_not_come_is_represented(void **state)
{
    (void)state;
    static const char *const others[][3] = {
        {"gemm_rs:bf16:96x32x32:r4", "ag_gemm:bf16:96x32x32:r4", "gemm_ar:bf16:96x32x32:r4"},
        {"gemm_rs:bf16:70x32x32:r4", "ag_gemm:bf16:70x32x32:r4", "a2a_gemm:bf16:48x16x32:r4"},
        {"gemm_a2a:bf16:16x24x32:r4:counts=1,2,3,10/4,4,0,8/0,0,16,0/16,0,0,0",
         "ag_gemm:bf16:3x32x32:r4", "gemm_rs:bf16:40x16x32:r4:rows=0,40,0,0"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) come_for_missing(others[i]);
}

static bool until_then(void *data, bool first)
{
    double then = 0;
    (void)first;
    memcpy(&then, data, sizeof then);
    return sg_now_us() >= then;
}

/* Who comes for a rank comes behind the run that it has enqueued, be it whole or not, which stands
 * behind the caller's work: each collective is met in its turn. */
static void representatives_keep_the_order(void **state)
{
    (void)state;
    int calls = 0; /* of rank 3's run, in the first turn; the last records that it is over */
    for (int fails = 0; fails < 2; fails++) {
        world w;
        cudaStream_t stream = NULL;
        open_group(&w, RANKS, SHORT_LIMIT);
        world second = w;
        assert_true(make_plans(&w, scatter, in_windows));
        assert_true(make_plans(&second, "gemm_rs:bf16:96x16x32:r4", in_windows));
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        run_right(&w, 1);
        run_right(&second, 1);
        const double then = sg_now_us() + 1e6;
        assert_int_equal(fake_enqueue(stream, until_then, &then, sizeof then), cudaSuccess);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
            assert_int_equal(run_rank(&second, r, NULL), SHINGLE_OK);
        }
        assert_int_equal(cudaSetDevice(3), cudaSuccess); /* nothing has to be restored */
        fake_fail_at(fails ? calls - 1 : INT_MAX, cudaErrorUnknown);
        assert_int_equal(run_rank(&w, 3, stream), fails ? SHINGLE_EBACKEND : SHINGLE_OK);
        calls = fake_calls();
        fake_fail_at(-1, cudaErrorUnknown);
        if (fails)
            expect_failed(&w, 3, SHINGLE_EBACKEND, "rank 3 could not enqueue a run");
        else
            expect_failed(&w, 3, SHINGLE_ETIMEOUT, "rank 3 did not begin");
        assert_int_equal(cudaSetDevice(0), cudaSuccess);
        recover(&w);
        run_right(&w, 2);
        run_right(&second, 2);
        cudaStreamDestroy(stream);
        drop_plans(&second);
        drop_plans(&w);
        close_group(&w);
    }
}

/* A group that was aborted has its windows again, with new communicators; one that
 * closes instead frees them. */
static void recovery_registers_again(void **state)
{
    (void)state;
    for (int recovers = 0; recovers < 2; recovers++) {
        world w;
        open_group(&w, RANKS, SHORT_LIMIT);
        world plain = w;
        assert_true(make_plans(&w, scatter, in_windows));
        assert_true(make_plans(&plain, gather, "serial{windows=0}"));
        run_right(&w, 1);
        fill(&plain, 2);
        for (int r = 0; r < RANKS - 1; r++) assert_int_equal(run_rank(&plain, r, NULL), SHINGLE_OK);
        expect_failed(&plain, 3, SHINGLE_ETIMEOUT, "rank 3 did not begin");
        (void)count_windowed();
        if (recovers) {
            recover(&w);
            run_right(&w, 3);
            assert_int_equal(count_windowed(), RANKS);
        }
        drop_plans(&plain);
        drop_plans(&w);
        close_group(&w);
    }
}

/* Who waits in a window waits for this very collective: another one is refused, and all end. */
static void other_plans_are_refused(void **state)
{
    (void)state;
    static const char *const others[][2] = {{"serial{windows=0}", "gemm_rs:bf16:48x16x32:r4"},
                                            {"serial{windows=1}", "gemm_rs:bf16:96x16x32:r4"},
                                            {"serial{windows=1}", "ag_gemm:bf16:48x16x32:r4"}};
    for (int i = 0; i < 3; i++)
        for (int first = 0; first < 2; first++) {
            world w;
            open_group(&w, RANKS, SHORT_LIMIT);
            world other = w;
            assert_true(make_plans(&w, scatter, in_windows));
            assert_true(make_plans(&other, others[i][1], others[i][0]));
            run_right(&w, 1);
            run_right(&other, 1);
            fill(&w, 2);
            fill(&other, 2);
            for (int n = 0; n < RANKS; n++) {
                const int r = first ? RANKS - 1 - n : n;
                const shingle_status status = run_rank(r == 3 ? &other : &w, r, NULL);
                const bool refused = first ? n > 0 : r == 3;
                assert_int_equal(status, refused ? SHINGLE_EMISMATCH : SHINGLE_OK);
                if (refused) expect_text("run different plans");
            }
            expect_failed(&w, 3, SHINGLE_EMISMATCH, "run different plans");
            recover(&w);
            run_right(&w, 3);
            run_right(&other, 3);
            drop_plans(&other);
            drop_plans(&w);
            close_group(&w);
        }
}

/* A rank with a plan without collectives is missing, too. */
static void plans_without_collectives_are_named(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, SHORT_LIMIT);
    world other = w;
    assert_true(make_plans(&w, scatter, in_windows));
    assert_true(make_plans(&other, scatter, "fused_out{tile_m=64,tile_n=128}"));
    fill(&w, 1);
    fill(&other, 1);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(run_rank(r == 1 ? &other : &w, r, NULL), SHINGLE_OK);
    expect_failed(&w, 1, SHINGLE_EMISMATCH, "run different plans");
    recover(&w);
    run_right(&w, 3);
    run_right(&other, 3);
    drop_plans(&other);
    drop_plans(&w);
    close_group(&w);
}

/* From opening to closing, with each call failing in turn: what was made is freed, and a group that
 * is open recovers.  *CALLS_OUT: those that could have failed. */
static bool whole_life(int fails, int *calls_out)
{
    const shingle_config config = {.backend = "cuda", .timeout_seconds = SHORT_LIMIT};
    const shingle_plan_options options = {.strategy = in_windows};
    static uint16_t __attribute__((aligned(16))) a[2][256], b[2][256], c[2][256];
    shingle_comm *comm[2] = {NULL, NULL};
    shingle_plan *plan[2] = {NULL, NULL};
    fake_fail_at(fails, fails % 2 == 0 ? cudaErrorUnknown : cudaErrorMemoryAllocation);
    *calls_out = INT_MAX;
    if (shingle_open(2, &config, comm) != SHINGLE_OK) return false;
    bool ok = true;
    for (int r = 0; r < 2 && ok; r++)
        ok = shingle_plan_create(comm[r], "gemm_rs:bf16:16x8x16:r2", &options, &plan[r]) ==
             SHINGLE_OK;
    for (int n = 0; n < 2; n++)
        for (int r = 0; r < 2 && ok; r++)
            ok = shingle_run(plan[r], a[r], b[r], c[r], NULL) == SHINGLE_OK;
    for (int r = 0; r < 2 && ok; r++) ok = shingle_sync(comm[r], 5) == SHINGLE_OK;
    if (!ok) assert_true(strlen(shingle_error()) > 0);
    if (plan[1] != NULL) {
        (void)shingle_recover(comm[0], 0);
        ok &= shingle_recover(comm[1], 0) == SHINGLE_OK;
        *calls_out = fake_calls();
        fake_fail_at(-1, cudaErrorUnknown);
        (void)shingle_recover(comm[0], 0);
        assert_int_equal(shingle_recover(comm[1], 0), SHINGLE_OK);
        for (int r = 0; r < 2; r++)
            assert_int_equal(shingle_run(plan[r], a[r], b[r], c[r], NULL), SHINGLE_OK);
        for (int r = 0; r < 2; r++) assert_int_equal(shingle_sync(comm[r], 5), SHINGLE_OK);
    }
    fake_fail_at(-1, cudaErrorUnknown);
    shingle_close(2, comm);
    return ok;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    const int live = fake_live();
    int calls = 0;
    assert_true(whole_life(-1, &calls));
    for (int i = 0, reached = 1; reached; i++) {
        const bool ok = whole_life(i, &calls);
        reached = calls > i || !ok;
        if (fake_live() != live) fail_msg("call %d: %d things were left", i, fake_live() - live);
        if (i > 3000) fail_msg("%d calls were not enough", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_even_is_in_windows),
        cmocka_unit_test(plans_share_windows),
        cmocka_unit_test(captured_runs_replay),
        cmocka_unit_test(calls_are_waited_for),
        cmocka_unit_test(libraries_without_windows_do),
        cmocka_unit_test(memory_that_cannot_be_registered_does),
        cmocka_unit_test(a_rank_that_does_not_come_is_represented),
        cmocka_unit_test(representatives_keep_the_order),
        cmocka_unit_test(recovery_registers_again),
        cmocka_unit_test(other_plans_are_refused),
        cmocka_unit_test(plans_without_collectives_are_named),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
