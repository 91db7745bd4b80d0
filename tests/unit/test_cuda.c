/* The CUDA backend's host side, without a GPU (tests/fake_cuda): every strategy computes the right
 * bits through lowering, lanes, events, halves and landings; captured runs replay; what fails is
 * reported and leaves a group that recovers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "core/bench.h"
#include "core/matrices.h"
#include "fake_world.h"

/* ---- Right bits ------------------------------------------------------------------------------ */

static const char *const strategies[] = {"serial", "fused_in", "fused_out", "direct",
                                         "ring",   "sliced",   "dma",       "signal"};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

static const char *const problems[] = {
    "ag_gemm:bf16:140x24x32:r%d",
    "gemm_rs:bf16:140x24x32:r%d",
    "gemm_ar:f16:130x24x16:r%d",
    "ag_gemm:bf16:37x40x24:r%d:bias:relu",
    "gemm_rs:f16:1x24x32:r%d:bias",
    "gemm_ar:bf16:7x64x40:r%d:bias:gelu",
    "gemm_ar:bf16:50x16x40:r%d:cyclic=3",
    "ag_gemm:f16:50x16x40:r%d:cyclic=3",
    "gemm:f32:33x17x29:r%d:bias:silu",
    "gemm_rs:f32:20x33x7:r%d",
    "gemm_ar:bf16:1x16x16:r%d",
    "gemm_ar:f16:2x16x24:r%d:bias",
    "gemm:bf16:16x16x0:r%d:bias",
    "gemm_rs:bf16:150x16x16:r%d:cyclic=7",
    "a2a_gemm:bf16:96x24x32:r%d",
    "gemm_a2a:bf16:96x24x32:r%d:bias:relu",
    "ag_gemm:bf16:40x48x32:r%d:gather=b",
    "ag_gemm:bf16:40x24x64:r%d:gather=k",
    "ag_gemm:bf16:44x24x32:r%d:accumulate",
    "ag_gemm:bf16:40x48x96:r%d:gather=k:accumulate",
    "ag_gemm:bf16:140x48x32:r%d:b=16,8,24:bias:relu",
    "ag_gemm:f16:45x40x32:r%d:b=8,32:return_a",
    "ag_gemm:f16:50x17x40:r%d:cyclic=3:b=1,2,3,11:return_a:accumulate",
    "a2a_gemm:bf16:96x24x32:r%d:b=16,8:return_a",
    "gemm:f32:33x17x29:r%d:b=8,9:bias:silu",
    "gemm_rs:bf16:140x24x32:r%d:bias:norm",
    "gemm_ar:f16:130x40x16:r%d:norm=1e-3",
    "gemm_ar:bf16:50x16x40:r%d:cyclic=3:norm",
    "gemm_rs:f32:20x33x7:r%d:norm",
};
enum { PROBLEMS = sizeof problems / sizeof problems[0] };

static void every_strategy_is_right(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= RANKS; ranks++) {
        world w;
        int done = 0;
        open_group(&w, ranks, 20);
        for (int i = 0; i < PROBLEMS; i++) {
            char problem[96];
            snprintf(problem, sizeof problem, problems[i], ranks);
            for (int s = 0; s < STRATEGIES; s++) {
                if (!make_plans(&w, problem, strategies[s])) continue;
                for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed + (uint64_t)i);
                drop_plans(&w);
                done++;
            }
        }
        close_group(&w);
        assert_true(ranks == 1 ? done >= PROBLEMS : done >= 3 * PROBLEMS);
    }
}

static void benchmarks_are_right(void **state)
{
    (void)state;
    world w;
    open_group(&w, 2, 20);
    static const char *const problem[] = {"gemm_rs:bf16:96x64x64:r2",
                                          "gemm_ar:f16:7x2104x32:r2:bias:norm"};
    for (int i = 0; i < 2; i++) {
        const shingle_bench_options options = {.iterations = 2};
        shingle_bench_result result;
        if (shingle_bench(2, w.comm, problem[i], &options, &result) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
        assert_int_equal(result.wrong, 0);
        assert_true(result.gemm_us > 0 && result.coll_us > 0 && result.serial_us > 0);
    }
    close_group(&w);
}

/* All strategies side by side, compared by the device; what it cannot express by the host. */
static void benchmarks_have_a_row_for_every_strategy(void **state)
{
    (void)state;
    static const char *const problem[] = {"gemm_rs:bf16:96x64x64:r2",
                                          "ag_gemm:f16:40x24x32:r2:gelu"};
    world w;
    open_group(&w, 2, 20);
    for (int i = 0; i < 2; i++) {
        shingle_bench_row rows[32];
        const shingle_bench_options options = {.iterations = 1,
                                               .choose = "measure",
                                               .measure_seconds = 0.01,
                                               .strategies = "all",
                                               .knob_sets = 1,
                                               .rows_out = rows,
                                               .rows = 32};
        shingle_bench_result result;
        int timed = 0;
        if (shingle_bench(2, w.comm, problem[i], &options, &result) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
        assert_int_equal(result.wrong, 0);
        assert_int_equal(result.on_device, i == 0);
        assert_int_equal(result.checks, 3);
        for (int r = 0; r < result.rows; r++) timed += rows[r].us > 0 && rows[r].enqueue_us > 0;
        assert_true(timed >= 3);
    }
    close_group(&w);
}

/* What the device says of a matrix: each wrong element counts, and the first is named. */
static void devices_compare_their_matrices(void **state)
{
    (void)state;
    static const char *const problem[] = {"gemm_ar:bf16:7x5x8:r4:bias:relu", "gemm:f32:3x4x8:r4"};
    world w;
    open_group(&w, RANKS, 20);
    for (int i = 0; i < 2; i++) {
        sg_matrices *m = NULL;
        sg_data d;
        int64_t wrong = 0;
        assert_int_equal(sg_problem_parse(problem[i], &w.problem), SHINGLE_OK);
        assert_int_equal(sg_matrices_open(w.comm[0]->group, &w.problem, &m), SHINGLE_OK);
        assert_true(sg_matrices_on_device(m));
        assert_int_equal(sg_data_make(&w.problem, 3, &d), SHINGLE_OK);
        assert_int_equal(sg_matrices_fill(m, &d), SHINGLE_OK);
        /* Nothing has run: all is poison. */
        assert_int_equal(sg_matrices_compare(m, &d, "nobody", &wrong), SHINGLE_OK);
        assert_int_equal(wrong, RANKS * w.problem.m * w.problem.n);
        for (int r = 0; r < RANKS; r++) {
            const shingle_tensors t = sg_matrices_tensors(m, r);
            for (int64_t at = 0; at < w.problem.m * w.problem.n; at++)
                sg_data_store(w.problem.type,
                              sg_data_expected(&d, r, at / w.problem.n, at % w.problem.n), t.c, at);
        }
        assert_int_equal(sg_matrices_compare(m, &d, "nobody", &wrong), SHINGLE_OK);
        assert_int_equal(wrong, 0);
        const shingle_tensors t = sg_matrices_tensors(m, 2);
        sg_data_store(w.problem.type, -77, t.c, 5);
        sg_data_store(w.problem.type, -77, t.c, 9);
        assert_int_equal(sg_matrices_compare(m, &d, "nobody", &wrong), SHINGLE_OK);
        assert_int_equal(wrong, 2);
        ((char *)t.c)[-1] = 0; /* the canary */
        assert_int_equal(sg_matrices_compare(m, &d, "nobody", &wrong), SHINGLE_EBUG);
        expect_text("outside of an output of rank 2");
        sg_matrices_close(m);
        sg_problem_free(&w.problem);
    }
    shingle_device device;
    assert_int_equal(shingle_comm_device(w.comm[1], &device), SHINGLE_OK);
    assert_non_null(strstr(device.name, "SMs"));
    assert_non_null(strstr(device.software, "CUDA 13.0"));
    close_group(&w);
}

static void devices_compare_what_a_norm_leaves(void **state)
{
    (void)state;
    enum { M = 5, N = 24 };
    world w;
    sg_matrices *m = NULL;
    sg_data d;
    int64_t wrong = 0;
    open_group(&w, RANKS, 20);
    assert_int_equal(sg_problem_parse("gemm_ar:f16:5x24x8:r4:bias:norm", &w.problem), SHINGLE_OK);
    assert_int_equal(sg_matrices_open(w.comm[0]->group, &w.problem, &m), SHINGLE_OK);
    assert_true(sg_matrices_on_device(m));
    assert_int_equal(sg_data_make(&w.problem, 3, &d), SHINGLE_OK);
    assert_int_equal(sg_matrices_fill(m, &d), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) {
        const shingle_tensors t = sg_matrices_tensors(m, r);
        for (int i = 0; i < M * N; i++) {
            float after[2];
            assert_true(sg_data_load(SG_F16, t.residual, i) ==
                        sg_data_residual(&d, r, i / N, i % N));
            sg_data_normed(&d, r, SG_TENSOR_C, i / N, i % N, &after[0]);
            sg_data_normed(&d, r, SG_TENSOR_RESIDUAL, i / N, i % N, &after[1]);
            sg_data_store(SG_F16, after[0], t.c, i);
            /* What has not been added to is wrong, where something is to be added. */
            if (r > 0) sg_data_store(SG_F16, after[1], t.residual, i);
        }
    }
    assert_int_equal(sg_matrices_compare(m, &d, "nobody", &wrong), SHINGLE_OK);
    assert_in_range(wrong, M * N / 2, M * N);
    const shingle_tensors first = sg_matrices_tensors(m, 0);
    memcpy(first.residual, sg_matrices_tensors(m, 1).residual, M * N * 2);
    assert_int_equal(sg_matrices_compare(m, &d, "nobody", &wrong), SHINGLE_OK);
    assert_true(wrong > M * N / 2); /* ranks have residuals of their own */
    for (int i = 0; i < M * N; i++) {
        float after = 0;
        sg_data_normed(&d, 0, SG_TENSOR_RESIDUAL, i / N, i % N, &after);
        sg_data_store(SG_F16, after, first.residual, i);
    }
    assert_int_equal(sg_matrices_compare(m, &d, "nobody", &wrong), SHINGLE_OK);
    assert_int_equal(wrong, 0);
    sg_data_store(SG_F16, -77, first.c, 5);
    sg_data_store(SG_F16, -77, first.residual, 9);
    assert_int_equal(sg_matrices_compare(m, &d, "nobody", &wrong), SHINGLE_OK);
    assert_int_equal(wrong, 2);
    sg_matrices_close(m);
    sg_problem_free(&w.problem);
    close_group(&w);
}

/* A call that fails while a strategy is timed costs that strategy its row, with the reason, or the
 * whole benchmark, with an error; the group serves the next one. */
static void benchmarks_outlive_failures(void **state)
{
    (void)state;
    enum { CALLS = 30 };
    shingle_bench_row rows[4];
    const shingle_bench_options options = {
        .iterations = 1, .strategies = "direct,ring", .knob_sets = 1, .rows_out = rows, .rows = 4};
    const char *const problem = "gemm_rs:bf16:16x16x16:r2";
    shingle_bench_result result;
    int declined = 0;
    int failed = 0;
    world w;
    open_group(&w, 2, SHORT_LIMIT);
    fake_fail_at(-1, cudaErrorUnknown);
    const int before = fake_calls();
    assert_int_equal(shingle_bench(2, w.comm, problem, &options, &result), SHINGLE_OK);
    const int calls = fake_calls() - before;
    for (int i = 1; i < CALLS * 3 / 4; i++) { /* closing is not meant to be disturbed */
        fake_fail_at(calls * i / CALLS, cudaErrorUnknown);
        const shingle_status status = shingle_bench(2, w.comm, problem, &options, &result);
        fake_fail_at(-1, cudaErrorUnknown);
        failed += status != SHINGLE_OK;
        for (int r = 0; status == SHINGLE_OK && r < result.rows; r++) {
            assert_true((rows[r].us > 0) == (rows[r].declined[0] == '\0'));
            declined += rows[r].declined[0] != '\0';
        }
        if (status != SHINGLE_OK) recover(&w);
        if (shingle_bench(2, w.comm, problem, &options, &result) != SHINGLE_OK)
            fail_msg("after call %d: %s", calls * i / CALLS, shingle_error());
        assert_int_equal(result.wrong, 0);
    }
    assert_true(declined > 0 && failed > 0);
    close_group(&w);
}

/* ---- Streams and graphs ---------------------------------------------------------------------- */

static void captured_runs_replay(void **state)
{
    (void)state;
    for (int s = 0; s < STRATEGIES; s++) {
        world w;
        cudaStream_t stream[RANKS];
        cudaGraph_t graph;
        cudaGraphExec_t exec[RANKS];
        open_group(&w, RANKS, 20);
        const bool gather = strcmp(strategies[s], "fused_in") == 0;
        const bool wide = strcmp(strategies[s], "signal") == 0; /* tiles of 64 x 128, at least */
        assert_true(make_plans(&w,
                               gather ? "ag_gemm:bf16:48x16x32:r4"
                               : wide ? "gemm_rs:bf16:400x136x8:r4"
                                      : "gemm_rs:bf16:48x16x32:r4",
                               strategies[s]));
        for (int r = 0; r < RANKS; r++) {
            cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking);
            cudaStreamBeginCapture(stream[r], cudaStreamCaptureModeThreadLocal);
            for (int i = 0; i < 3; i++) assert_int_equal(run_rank(&w, r, stream[r]), SHINGLE_OK);
            cudaStreamEndCapture(stream[r], &graph);
            cudaGraphInstantiate(&exec[r], graph, 0);
            cudaGraphDestroy(graph);
        }
        for (uint64_t seed = 0; seed < 5; seed++) {
            if (seed % 2 == 1) run_right(&w, seed); /* eager ones between */
            fill(&w, 100 + seed);
            for (int r = 0; r < RANKS; r++) cudaGraphLaunch(exec[r], stream[r]);
            for (int r = 0; r < RANKS; r++) cudaStreamSynchronize(stream[r]);
            expect_right(&w, strategies[s]);
        }
        for (int r = 0; r < RANKS; r++) {
            cudaGraphExecDestroy(exec[r]);
            cudaStreamDestroy(stream[r]);
        }
        drop_plans(&w);
        close_group(&w);
    }
}

/* Runs on streams that change follow each other all the same, and epochs pass 2^32. */
static void streams_may_change(void **state)
{
    (void)state;
    world w;
    cudaStream_t stream[2];
    open_group(&w, RANKS, 20);
    for (int i = 0; i < 2; i++) cudaStreamCreateWithFlags(&stream[i], 0);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r4", "fused_out"));
    sg_cuda *const cuda = w.comm[0]->group->self;
    for (int r = 0; r < RANKS; r++) cuda->rank[r].state->epoch = (UINT64_C(1) << 32) - 3;
    for (int i = 0; i < 8; i++) {
        fill(&w, (uint64_t)i);
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(run_rank(&w, r, r == 0 ? stream[i % 2] : NULL), SHINGLE_OK);
        for (int r = 0; r < RANKS; r++) assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_OK);
        expect_right(&w, "streams");
    }
    assert_true(cuda->rank[0].state->epoch > UINT64_C(1) << 32);
    for (int i = 0; i < 2; i++) cudaStreamDestroy(stream[i]);
    drop_plans(&w);
    close_group(&w);
}

/* They count, but whoever has said done of a run has compared plans in it. */
static void runs_without_hellos_say_no_done(void **state)
{
    (void)state;
    world w[2];
    open_group(&w[0], RANKS, 20);
    sg_cuda *const cuda = w[0].comm[0]->group->self;
    w[1] = w[0];
    assert_true(make_plans(&w[0], "gemm_ar:bf16:136x136x16:r4", "ring{tile_m=64,tile_n=128}"));
    assert_true(make_plans(&w[1], "gemm_rs:bf16:300x136x16:r4",
                           "signal{unit=2,cuts=1,tile_m=64,tile_n=128}"));
    for (uint64_t run = 1; run <= 6; run++) {
        run_right(&w[run % 3 != 1], run);
        for (int r = 0; r < RANKS; r++) {
            const sg_kernel_rank *const at = cuda->rank[r].state;
            assert_int_equal(at->epoch, run + 1);
            for (int q = 0; q < RANKS; q++)
                assert_int_equal(at->words[r].done[q], run <= 3 ? 1 : 4);
        }
    }
    for (int i = 0; i < 2; i++) drop_plans(&w[i]);
    close_group(&w[0]);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void machines_without_gpus_are_told(void **state)
{
    (void)state;
    const shingle_config config = {.backend = "cuda"};
    shingle_comm *comm[RANKS];
    fake_devices(0);
    assert_int_equal(shingle_open(2, &config, comm), SHINGLE_EUNSUPPORTED);
    expect_text("no GPU that CUDA can use");
    expect_text("--backend cpu");
    fake_devices(2);
    assert_int_equal(shingle_open(4, &config, comm), SHINGLE_EUNSUPPORTED);
    expect_text("4 ranks; this machine has 2 GPUs");
    fake_devices(FAKE_DEVICES);
    assert_int_equal(fake_live(), 0);
}

/* Nothing was enqueued: the group is as it was. */
static void memory_that_no_kernel_reaches_is_refused(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, 5);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r4", "fused_out"));
    char here[64];
    void *const there = w.b[1][0];
    fake_host = w.b[1][0] = here;
    assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_EINVAL);
    expect_text("b of rank 1 is in the host's memory");
    fake_host = NULL;
    fake_elsewhere = here;
    assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_EINVAL);
    expect_text("b of rank 1 is on GPU 4, which no rank of the group has");
    fake_elsewhere = NULL;
    w.b[1][0] = there;
    run_right(&w, 1);
    drop_plans(&w);
    close_group(&w);
}

/* Of several B and C the one is named that it is. */
static void which_of_several_is_refused_is_said(void **state)
{
    (void)state;
    world w;
    char here[64];
    open_group(&w, 2, 5);
    assert_true(make_plans(&w, "ag_gemm:bf16:32x48x16:r2:b=16,24,8", "serial"));
    void **const tensor[] = {&w.b[1][0], &w.b[1][1], &w.c[1][2]};
    static const char *const name[] = {"b of rank 1", "more_b[0] of rank 1", "more_c[1] of rank 1"};
    for (int i = 0; i < 3; i++) {
        void *const there = *tensor[i];
        fake_host = *tensor[i] = here;
        assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_EINVAL);
        assert_ptr_equal(strstr(shingle_error(), name[i]), shingle_error());
        fake_host = NULL;
        *tensor[i] = there;
    }
    run_right(&w, 1);
    drop_plans(&w);
    close_group(&w);
}

/* Rank MISSING of W does not begin: all others' runs fail alike, and its own one does then. */
static void expect_missing(const world *w, int missing, const char *strategy)
{
    char first[600] = "";
    char words[40];
    for (int r = 0; r < RANKS; r++) {
        if (shingle_sync(w->comm[(missing + 1 + r) % RANKS], 20) != SHINGLE_ETIMEOUT)
            fail_msg("%s: %s", strategy, shingle_error());
        if (r == 0) snprintf(first, sizeof first, "%s", shingle_error());
        assert_string_equal(shingle_error(), first);
    }
    snprintf(words, sizeof words, "rank %d did not begin", missing);
    if (strstr(first, words) == NULL) fail_msg("%s: \"%s\"", strategy, first);
    assert_int_equal(run_rank(w, missing, NULL), SHINGLE_ETIMEOUT);
    assert_string_equal(shingle_error(), first);
}

/* In groups side by side, whose time limits pass together. */
static void a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"gemm_rs:bf16:48x16x32:r4", "fused_out"}, {"ag_gemm:bf16:48x16x32:r4", "fused_in"},
        {"gemm_ar:bf16:48x16x32:r4", "direct"},    {"gemm_ar:bf16:48x16x32:r4", "ring"},
        {"gemm_rs:bf16:48x16x32:r4", "serial"},    {"gemm_rs:bf16:48x16x32:r4", "sliced"}};
    enum { GROUPS = sizeof asked / sizeof asked[0] };
    static world w[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
        open_group(&w[i], RANKS, SHORT_LIMIT);
        assert_true(make_plans(&w[i], asked[i][0], asked[i][1]));
        run_right(&w[i], 1);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < GROUPS; i++) {
            fill(&w[i], 2);
            for (int r = 0; r < RANKS; r++)
                if (r != (i + round) % RANKS)
                    assert_int_equal(run_rank(&w[i], r, NULL), SHINGLE_OK);
        }
        for (int i = 0; i < GROUPS; i++) expect_missing(&w[i], (i + round) % RANKS, asked[i][1]);
        for (int i = 0; i < GROUPS; i++) {
            recover(&w[i]);
            run_right(&w[i], 3);
        }
    }
    for (int i = GROUPS - 1; i >= 0; i--) {
        drop_plans(&w[i]);
        close_group(&w[i]);
    }
}

static void ranks_that_differ_are_named(void **state)
{
    (void)state;
    static const char *const others[] = {"fused_out", "serial"};
    for (int i = 0; i < 2; i++) {
        world w;
        open_group(&w, RANKS, SHORT_LIMIT);
        assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r4", "direct"));
        shingle_plan *other = NULL;
        const shingle_plan_options options = {.strategy = others[i]};
        assert_int_equal(
            shingle_plan_create(w.comm[2], "gemm_rs:bf16:48x16x32:r4", &options, &other),
            SHINGLE_OK);
        fill(&w, 1);
        for (int r = 0; r < RANKS; r++) {
            shingle_plan *const mine = w.plan[r];
            if (r == 2) w.plan[r] = other;
            assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
            w.plan[r] = mine;
        }
        for (int r = 0; r < RANKS; r++) {
            const shingle_status status = shingle_sync(w.comm[r], 20);
            if (status != SHINGLE_EMISMATCH) fail_msg("%d: %s", status, shingle_error());
            expect_text("run different plans");
        }
        recover(&w);
        run_right(&w, 3);
        shingle_plan_free(other);
        drop_plans(&w);
        close_group(&w);
    }
}

/* Everything from opening to closing, with each call failing in turn. */
static bool whole_life(void)
{
    const shingle_config config = {.backend = "cuda", .timeout_seconds = SHORT_LIMIT};
    const char *const problem = "gemm_ar:bf16:16x16x16:r2:cyclic=1";
    static const char *const used[] = {"serial", "direct"};
    world w;
    memset(&w, 0, sizeof w);
    w.ranks = 2;
    if (shingle_open(2, &config, w.comm) != SHINGLE_OK) return false;
    bool ok = sg_problem_parse(problem, &w.problem) == SHINGLE_OK;
    static uint16_t a[2][256], b[2][256], c[2][256];
    for (int i = 0; i < 2 && ok; i++) {
        const shingle_plan_options options = {.strategy = used[i]};
        for (int r = 0; r < 2 && ok; r++)
            ok = shingle_plan_create(w.comm[r], problem, &options, &w.plan[r]) == SHINGLE_OK;
        for (int r = 0; r < 2 && ok; r++)
            ok = shingle_run(w.plan[r], a[r], b[r], c[r], NULL) == SHINGLE_OK;
        for (int r = 0; r < 2 && ok; r++) ok = shingle_sync(w.comm[r], 5) == SHINGLE_OK;
    }
    if (ok) {
        (void)shingle_recover(w.comm[0], 0);
        ok = shingle_recover(w.comm[1], 0) == SHINGLE_OK;
    }
    if (!ok) assert_true(strlen(shingle_error()) > 0);
    fake_fail_at(-1, cudaErrorUnknown); /* closing is not meant to be disturbed */
    sg_problem_free(&w.problem);
    shingle_close(2, w.comm);
    return ok;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    fake_fail_at(-1, cudaErrorUnknown);
    assert_true(whole_life());
    assert_int_equal(fake_live(), 0);
    for (int i = 0, reached = 1; reached; i++) {
        fake_fail_at(i, i % 2 == 0 ? cudaErrorUnknown : cudaErrorMemoryAllocation);
        const bool ok = whole_life();
        reached = fake_calls() > i || !ok;
        fake_fail_at(-1, cudaErrorUnknown);
        if (fake_live() != 0) fail_msg("call %d: %d things were left", i, fake_live());
        if (i > 3000) fail_msg("%d calls were not enough", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_without_gpus_are_told),
        cmocka_unit_test(every_strategy_is_right),
        cmocka_unit_test(benchmarks_are_right),
        cmocka_unit_test(benchmarks_have_a_row_for_every_strategy),
        cmocka_unit_test(benchmarks_outlive_failures),
        cmocka_unit_test(devices_compare_their_matrices),
        cmocka_unit_test(devices_compare_what_a_norm_leaves),
        cmocka_unit_test(captured_runs_replay),
        cmocka_unit_test(streams_may_change),
        cmocka_unit_test(runs_without_hellos_say_no_done),
        cmocka_unit_test(memory_that_no_kernel_reaches_is_refused),
        cmocka_unit_test(which_of_several_is_refused_is_said),
        cmocka_unit_test(a_rank_that_does_not_come_is_named),
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
