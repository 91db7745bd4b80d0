/* How the CUDA backend begins, carries out and ends runs, without a GPU (tests/fake_cuda): kernels
 * and calls of a run, what launches carry, strides, collectives that wait, plans in any order. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "core/comm.h"
#include "core/strategy.h"
#include "fake_world.h"

/* ---- Knobs ----------------------------------------------------------------------------------- */

/* Chunks, slabs, slices and steps that run apart, in knobs that nobody proposes for such shapes. */
static void odd_knobs_are_right(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"ag_gemm:bf16:520x136x64:r4", "fused_in{chunks=2,slabs=2,tile_m=128,tile_n=128}"},
        {"ag_gemm:bf16:520x136x64:r4", "fused_in{chunks=2,slabs=2,tile_m=128,tile_n=128,push=1}"},
        {"ag_gemm:bf16:520x264x128:r4", "fused_in{slabs=2,tile_m=128,tile_n=256,push=5}"},
        {"ag_gemm:bf16:70x544x64:r4:gather=b", "fused_in{tile_m=128,tile_n=128,push=1}"},
        {"ag_gemm:bf16:70x136x256:r4:gather=k", "fused_in{tile_m=128,tile_n=128,push=1}"},
        {"ag_gemm:bf16:70x136x200:r4:bias:relu", "fused_in{slabs=3,tile_m=64,tile_n=128,push=4}"},
        {"ag_gemm:f16:3x264x64:r4", "fused_in{tile_m=64,tile_n=128,push=4}"},
        {"ag_gemm:bf16:300x136x128:r4:cyclic=7", "fused_in{slabs=2,tile_m=128,tile_n=256,push=4}"},
        {"a2a_gemm:bf16:24x136x64:r4:counts=0,8,8,8/8,0,8,8/8,8,0,8/8,8,8,0",
         "fused_in{tile_m=64,tile_n=128,push=4}"},
        {"ag_gemm:bf16:520x136x64:r4", "direct{chunks=3,split=1,tile_m=128,tile_n=128}"},
        {"ag_gemm:bf16:520x136x16:r4", "ring{sub=2,split=1,tile_m=128,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4", "ring{sub=2,split=1,tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:520x136x16:r4", "ring{sub=2,tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:520x136x16:r4", "direct{chunks=2,tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:520x136x16:r4", "fused_out{subs=2,lag=1,tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:520x328x16:r4", "fused_out{lag=1,tile_m=128,tile_n=128,strips=3}"},
        {"gemm_rs:bf16:520x328x200:r4", "fused_out{lag=2,tile_m=128,tile_n=128,splits=2,strips=3}"},
        {"gemm_rs:bf16:520x328x200:r4", "fused_out{tile_m=128,tile_n=128,once=1,strips=2}"},
        {"gemm_ar:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128,once=1}"},
        {"gemm_ar:f16:520x520x200:r4:bias:relu",
         "fused_out{subs=2,lag=1,tile_m=128,tile_n=128,once=0,splits=2,strips=0,tagged=0}"},
        {"gemm_ar:bf16:3x264x16:r4", "fused_out{tile_m=128,tile_n=128,once=1}"},
        {"gemm_ar:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128,once=1,tagged=1}"},
        {"gemm_ar:f16:3x264x16:r4:bias:silu", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
        {"gemm_ar:bf16:70x33x16:r4:relu", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
        {"gemm_ar:bf16:70x136x16:r4:norm", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
        {"gemm_ar:f16:70x633x16:r4:bias:silu", "fused_out{tile_m=64,tile_n=128,tagged=1,once=0}"},
        {"gemm_rs:bf16:520x136x200:r4:bias:relu", "fused_out{tile_m=128,tile_n=256,splits=2}"},
        {"gemm_ar:f16:520x264x200:r4", "fused_out{subs=2,lag=1,tile_m=128,tile_n=128,splits=3}"},
        {"gemm_ar:bf16:200x136x200:r4", "fused_out{tile_m=128,tile_n=128,once=1,splits=2}"},
        {"gemm_a2a:bf16:520x136x200:r4", "fused_out{tile_m=128,tile_n=128,splits=2}"},
        {"gemm_rs:bf16:520x136x16:r4", "ring{sub=2,vendor=1}"},
        {"gemm_ar:bf16:520x136x16:r4", "ring{vendor=1}"},
        {"ag_gemm:bf16:520x136x64:r4", "ring{vendor=1}"},
        {"gemm_rs:bf16:520x136x16:r4:bias", "direct{vendor=1}"},
        {"ag_gemm:bf16:70x544x64:r4:gather=b:bias:relu", "direct{vendor=1}"},
        {"gemm_rs:bf16:520x136x16:r4:bias:relu", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_a2a:bf16:520x136x16:r4:bias", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4:bias:relu", "sliced{slices=3,tile_m=128,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4", "signal{unit=2,cuts=5,tile_m=128,tile_n=128}"},
        {"gemm_ar:f16:520x136x16:r4:bias:relu", "signal{unit=3,cuts=1,tile_m=128,tile_n=128}"},
        {"gemm_a2a:bf16:520x136x16:r4", "signal{unit=2,cuts=2,tile_m=128,tile_n=128}"},
        {"ag_gemm:bf16:520x136x64:r4", "dma{form=0,chunks=3,tile_m=128,tile_n=128}"},
        {"ag_gemm:bf16:520x136x64:r4", "dma{form=2,chunks=2,streams=2,tile_m=128,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4", "dma{form=1,chunks=2,tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:520x136x16:r4", "dma{form=3,chunks=2,tile_m=128,tile_n=128}"},
        {"gemm_a2a:bf16:520x136x16:r4", "dma{form=1,chunks=2,tile_m=128,tile_n=128}"},
    };
    world w;
    open_group(&w, RANKS, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (!make_plans(&w, asked[i][0], asked[i][1])) fail_msg("%s", shingle_error());
        for (uint64_t seed = 0; seed < 2; seed++) run_right(&w, seed);
        drop_plans(&w);
    }
    close_group(&w);
}

/* What would be slow beside other lanes is declined, with a reason. */
static void slow_launches_are_declined(void **state)
{
    (void)state;
    static const char *const asked[][3] = {
        {"ag_gemm:bf16:520x136x64:r4", "dma{form=3,chunks=2,tile_m=128,tile_n=128}", "stay in f32"},
        {"gemm_rs:bf16:520x136x64:r4", "fused_out{tile_m=96,tile_n=96}", "no fast kernel"},
        {"ag_gemm:bf16:520x136x64:r4", "fused_in{tile_m=128,tile_n=96}", "without addends"},
        {"gemm_rs:bf16:516x136x64:r4", "fused_out{tile_m=128,tile_n=224}", "block of 2"},
        {"gemm_ar:bf16:520x136x64:r4", "fused_out{tile_m=128,tile_n=256,once=1,tagged=1}",
         "as tagged data in one hop"},
        {"ag_gemm:bf16:70x136x64:r4", "fused_in{tile_m=128,tile_n=224,push=4}",
         "as tagged data in tiles of 128x224"},
        {"ag_gemm:bf16:70x136x64:r4:accumulate", "fused_in{tile_m=64,tile_n=128,push=4}",
         "with addends"},
        {"gemm_ar:bf16:520x136x33:r4", "fused_out{tile_m=128,tile_n=128,once=1,tagged=1}",
         "rows of k elements"},
        {"gemm_rs:bf16:520x33x64:r4", "fused_out{tile_m=128,tile_n=128}", "16 bytes"},
        {"gemm_rs:bf16:520x320x64:r4", "dma{form=3,chunks=4,tile_m=64,tile_n=128}",
         "inside a piece of 64"},
        {"gemm_ar:bf16:520x136x200:r4", "fused_out{tile_m=128,tile_n=224,splits=2}", "parts of k"},
        {"ag_gemm:bf16:70x136x1280:r4:gather=k", "direct{chunks=2,tile_m=128,tile_n=128}",
         "stay in f32"},
        {"ag_gemm:bf16:70x136x200:r4:gather=k", "direct{chunks=1,tile_m=128,tile_n=128}",
         "multiples of 64"},
        {"ag_gemm:bf16:70x136x288:r4:gather=k", "fused_in{tile_m=128,tile_n=128}",
         "multiples of 64"},
    };
    world w;
    open_group(&w, RANKS, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (make_plans(&w, asked[i][0], asked[i][1])) fail_msg("%s was made", asked[i][1]);
        expect_text(asked[i][2]);
    }
    close_group(&w);
}

/* ---- Kernels and calls of a run -------------------------------------------------------------- */

typedef struct counts {
    int launches, copies, early, questions, calls; /* questions: among the calls */
} counts;

/* Of one run of rank 0, behind another one. */
static counts count_run(world *w)
{
    run_right(w, 0);
    fill(w, 1); /* behind which the next one asks of C alone which allocation it is of */
    for (int r = 0; r < w->ranks; r++) assert_int_equal(run_rank(w, r, NULL), SHINGLE_OK);
    fake_pump();
    const counts before = {fake_launches, fake_copies, fake_early, fake_questions, 0};
    fill(w, 3);
    fake_fail_at(-1, cudaErrorUnknown);
    assert_int_equal(run_rank(w, 0, NULL), SHINGLE_OK);
    const counts of = {fake_launches - before.launches, fake_copies - before.copies,
                       fake_early - before.early, fake_questions - before.questions, fake_calls()};
    for (int r = 1; r < w->ranks; r++) assert_int_equal(run_rank(w, r, NULL), SHINGLE_OK);
    sync_all(w);
    expect_right(w, "counted");
    return of;
}

/* A plan of one launch is one kernel and one call of the driver, but for the device and the
 * question whether C is the memory that it was. */
static void plans_of_one_launch_are_one_kernel(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"ag_gemm:bf16:520x136x64:r4", "fused_in{tile_m=128,tile_n=128,push=1}"},
        {"ag_gemm:bf16:70x544x64:r4:gather=b", "fused_in{tile_m=128,tile_n=128,push=1}"},
        {"ag_gemm:bf16:70x136x64:r4", "fused_in{tile_m=64,tile_n=128,push=4}"},
        {"gemm_rs:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:70x136x16:r4", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
        {"gemm_a2a:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"},
    };
    world w;
    open_group(&w, RANKS, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        assert_true(make_plans(&w, asked[i][0], asked[i][1]));
        const int pushes = fake_pushes;
        const long tagged = fake_tagged;
        const counts of = count_run(&w);
        const bool tags = strstr(asked[i][1], "tagged=1") || strstr(asked[i][1], "push=4");
        assert_int_equal(fake_tagged > tagged, tags);
        if (of.launches != 1 || of.copies != 0 || of.early != 1 || of.questions > 1 ||
            of.calls - of.questions > 2)
            fail_msg("%s: %d launches, %d early, %d copies, %d questions, %d calls", asked[i][1],
                     of.launches, of.early, of.copies, of.questions, of.calls);
        assert_int_equal(fake_pushes > pushes, i < 3);
        drop_plans(&w);
    }
    close_group(&w);
}

/* Kernels start early where all steps follow each other, and nowhere else.  A run ends in front of
 * a norm of the rank's own sums, without a kernel more. */
static void kernels_start_early_in_one_lane_alone(void **state)
{
    (void)state;
    static const struct {
        const char *problem, *strategy;
        int early; /* all launches of the run; 0: none */
    } asked[] = {
        {"gemm_ar:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}", 1},
        {"gemm_ar:bf16:70x136x16:r4:norm", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}", 2},
        {"gemm_rs:bf16:3x136x16:r4:bias:norm", "fused_out{tile_m=64,tile_n=128}", 2},
        {"gemm_ar:bf16:520x136x16:r4:norm", "fused_out{tile_m=128,tile_n=128}", 4}, /* and a flag */
        {"ag_gemm:bf16:520x136x64:r4", "fused_in{tile_m=128,tile_n=128,push=0}", 0},
        {"gemm_rs:bf16:520x136x16:r4", "ring{tile_m=128,tile_n=128}", 0},
        {"gemm_rs:bf16:520x136x16:r4", "signal{unit=2,cuts=1,tile_m=128,tile_n=128}", 0},
    };
    world w;
    open_group(&w, RANKS, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        assert_true(make_plans(&w, asked[i].problem, asked[i].strategy));
        const counts of = count_run(&w);
        assert_int_equal(of.early, asked[i].early);
        if (asked[i].early > 0) assert_int_equal(of.launches, asked[i].early);
        drop_plans(&w);
    }
    close_group(&w);
}

/* Rows at odd addresses: slow kernels, which begin, carry and end as the fast ones do. */
static void odd_addresses_take_other_ways(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"ag_gemm:bf16:520x136x64:r4", "fused_in{tile_m=128,tile_n=128,push=1}"},
        {"gemm_ar:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:70x136x16:r4", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
        {"ag_gemm:bf16:70x136x64:r4", "fused_in{slabs=2,tile_m=64,tile_n=128,push=4}"},
    };
    world w;
    open_group(&w, RANKS, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        w.lead = 2;
        assert_true(make_plans(&w, asked[i][0], asked[i][1]));
        const counts of = count_run(&w);
        assert_int_equal(of.launches, i == 1 ? 3 : 1); /* who stores into others' C waits for it */
        /* One rank alone is odd: the others store into its C all the same, or into its landing. */
        drop_plans(&w);
        w.lead = 0;
        assert_true(make_plans(&w, asked[i][0], asked[i][1]));
        w.a[1] = (char *)w.a[1] + 2; /* the canary has room */
        w.c[2][0] = (char *)w.c[2][0] + 2;
        for (uint64_t seed = 0; seed < 2; seed++) {
            fill(&w, seed);
            for (int r = 0; r < RANKS; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
            sync_all(&w);
            for (int r = 0; r < RANKS; r++) {
                sg_data_wrong wrong;
                assert_int_equal(sg_data_compare(&w.data, r, w.c[r][0], 0, &wrong), SHINGLE_OK);
                assert_int_equal(wrong.elements, 0);
            }
        }
        w.a[1] = (char *)w.a[1] - 2;
        w.c[2][0] = (char *)w.c[2][0] - 2;
        drop_plans(&w);
    }
    close_group(&w);
}

/* A rank that multiplies none of the rows which it sends has a fast launch all the same: what that
 * cannot copy goes in front of it, behind the gate. */
static void odd_rows_that_are_sent_alone_go_in_front(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, 20);
    assert_true(make_plans(&w, "a2a_gemm:bf16:24x136x64:r4:counts=0,8,8,8/8,0,8,8/8,8,0,8/8,8,8,0",
                           "fused_in{tile_m=64,tile_n=128,push=1}"));
    for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
    const counts carried = count_run(&w);
    assert_int_equal(carried.launches, 1);
    w.a[0] = (char *)w.a[0] + 2; /* the canary has room */
    const counts apart = count_run(&w);
    assert_int_equal(apart.launches, 2 + 3); /* begin, three copies, the launch that ends the run */
    for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
    w.a[0] = (char *)w.a[0] - 2;
    drop_plans(&w);
    close_group(&w);
}

/* A rank that gets no rows takes none, and its launch would send words as they are. */
static void words_of_who_takes_none_go_in_front(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, 20);
    assert_true(make_plans(&w, "a2a_gemm:bf16:24x136x64:r4:counts=0,8,8,8/0,0,8,8/0,8,0,8/0,8,8,0",
                           "fused_in{tile_m=64,tile_n=128,push=4}"));
    for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
    assert_int_equal(count_run(&w).launches, 2 + 3); /* begin, three copies, what ends the run */
    drop_plans(&w);
    close_group(&w);
}

/* ---- Strides --------------------------------------------------------------------------------- */

static void matrices_need_not_be_dense(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"ag_gemm:bf16:52x24x32:r4", "serial"},
        {"gemm_rs:bf16:52x24x32:r4", "serial"},
        {"gemm_ar:bf16:52x24x32:r4", "serial"},
        {"gemm_rs:bf16:50x24x32:r4:bias", "serial"},
        {"ag_gemm:f16:50x24x32:r4:cyclic=3", "serial"},
        {"ag_gemm:bf16:40x24x64:r4:gather=k", "serial"},
        {"ag_gemm:bf16:40x48x32:r4:gather=b", "serial"},
        {"a2a_gemm:bf16:96x24x32:r4", "serial"},
        {"gemm_a2a:bf16:96x24x32:r4", "serial"},
        {"gemm_rs:bf16:52x24x32:r4", "sliced{slices=2,tile_m=128,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4", "signal{unit=2,cuts=1,tile_m=128,tile_n=128}"},
        {"ag_gemm:bf16:520x136x64:r4", "fused_in{tile_m=128,tile_n=128,push=1}"},
        {"gemm_ar:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:520x136x16:r4", "direct{tile_m=128,tile_n=128}"},
    };
    world w;
    open_group(&w, RANKS, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        for (int pad = 8; pad >= 3; pad -= 5) { /* units of 16 bytes, and not */
            w.pad = pad;
            if (!make_plans(&w, asked[i][0], asked[i][1])) fail_msg("%s", shingle_error());
            for (uint64_t seed = 0; seed < 2; seed++) run_right(&w, seed);
            drop_plans(&w);
        }
    close_group(&w);
}

/* ---- Plans of all kinds ---------------------------------------------------------------------- */

enum { KINDS = 10, TURNS = 70 };

/* On one workspace, eager on the rank's own stream or on one of the caller's, or replayed. */
static void plans_of_all_kinds_mix(void **state)
{
    (void)state;
    static const char *const asked[KINDS][2] = {
        {"ag_gemm:bf16:136x136x64:r4", "fused_in{tile_m=64,tile_n=128,push=1}"},
        {"ag_gemm:bf16:136x136x64:r4", "fused_in{tile_m=64,tile_n=128}"},
        {"gemm_ar:bf16:136x136x16:r4", "fused_out{tile_m=64,tile_n=128}"},
        {"gemm_rs:bf16:136x136x16:r4", "serial"},
        {"gemm_rs:bf16:300x136x16:r4", "signal{unit=2,cuts=1,tile_m=64,tile_n=128}"},
        {"gemm_ar:bf16:136x136x16:r4", "ring{tile_m=64,tile_n=128}"},
        {"gemm_a2a:bf16:136x136x16:r4", "fused_out{tile_m=64,tile_n=128}"},
        {"gemm_rs:bf16:3x136x16:r4", "direct{tile_m=64,tile_n=128}"},
        {"gemm_ar:bf16:70x136x16:r4", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
        {"ag_gemm:bf16:70x136x64:r4", "fused_in{slabs=2,tile_m=64,tile_n=128,push=4}"},
    };
    world w[KINDS];
    cudaStream_t stream[RANKS];
    cudaGraphExec_t exec[KINDS][RANKS];
    sg_random dice = {5};
    open_group(&w[0], RANKS, 20);
    sg_cuda *const cuda = w[0].comm[0]->group->self;
    for (int r = 0; r < RANKS; r++) {
        cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking);
        cuda->rank[r].state->epoch = (UINT64_C(1) << 32) - 20;
    }
    for (int i = 0; i < KINDS; i++) {
        if (i > 0) w[i] = w[0];
        if (!make_plans(&w[i], asked[i][0], asked[i][1])) fail_msg("%s", shingle_error());
    }
    for (int i = 0; i < KINDS; i++)
        for (int r = 0; r < RANKS; r++) {
            cudaGraph_t graph;
            cudaStreamBeginCapture(stream[r], cudaStreamCaptureModeThreadLocal);
            assert_int_equal(run_rank(&w[i], r, stream[r]), SHINGLE_OK);
            cudaStreamEndCapture(stream[r], &graph);
            cudaGraphInstantiate(&exec[i][r], graph, 0);
            cudaGraphDestroy(graph);
        }
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = (int)sg_random_below(&dice, KINDS);
        const int way = (int)sg_random_below(&dice, 3);
        fill(&w[i], (uint64_t)turn);
        if (way == 2) /* the host keeps graphs and eager runs apart */
            for (int r = 0; r < RANKS; r++) assert_int_equal(cudaStreamSynchronize(stream[r]), 0);
        for (int n = 0; n < RANKS; n++) {
            const int r = (n + turn) % RANKS;
            if (way == 2)
                cudaGraphLaunch(exec[i][r], stream[r]);
            else
                assert_int_equal(run_rank(&w[i], r, way == 1 ? stream[r] : NULL), SHINGLE_OK);
        }
        for (int r = 0; r < RANKS && way == 2; r++)
            assert_int_equal(cudaStreamSynchronize(stream[r]), 0);
        sync_all(&w[0]);
        expect_right(&w[i], asked[i][1]);
    }
    assert_true(cuda->rank[0].state->epoch > UINT64_C(1) << 32);
    for (int i = 0; i < KINDS; i++) {
        for (int r = 0; r < RANKS; r++) cudaGraphExecDestroy(exec[i][r]);
        drop_plans(&w[i]);
    }
    for (int r = 0; r < RANKS; r++) cudaStreamDestroy(stream[r]);
    close_group(&w[0]);
}

/* Runs that nobody waits for: their number is bounded, and those without an event end, too. */
static void many_runs_may_be_on_their_way(void **state)
{
    (void)state;
    world w;
    open_group(&w, 2, 20);
    assert_true(make_plans(&w, "gemm_rs:bf16:8x8x16:r2", "fused_out{tile_m=64,tile_n=128}"));
    sg_cuda *const cuda = w.comm[0]->group->self;
    fill(&w, 1);
    for (int i = 0; i < 3 * SG_CUDA_FLIGHT; i++)
        for (int r = 0; r < 2; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    assert_true(cuda->rank[0].issued - cuda->rank[0].first <= SG_CUDA_FLIGHT);
    for (int r = 0; r < 2; r++) assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_OK);
    expect_right(&w, "many");
    assert_int_equal(cuda->rank[1].issued, cuda->rank[1].first);
    drop_plans(&w);
    close_group(&w);
}

/* A run that waits for a rank is in flight, and one that has ended is not, waited for or not. */
static void runs_in_flight_are_told(void **state)
{
    (void)state;
    static const char problem[] = "gemm_rs:bf16:8x8x16:r2";
    const shingle_bench_options options = {.iterations = 1};
    shingle_bench_result result;
    world w;
    open_group(&w, 2, 20);
    assert_true(make_plans(&w, problem, "fused_out{tile_m=64,tile_n=128}"));
    fill(&w, 1);
    assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_OK);
    assert_int_equal(shingle_bench(2, w.comm, problem, &options, &result), SHINGLE_EINVAL);
    expect_text("rank 1 has 1 run in flight; shingle_sync first");
    assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_OK);
    for (int r = 0; r < 2; r++) assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_OK);
    if (shingle_bench(2, w.comm, problem, &options, &result) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    drop_plans(&w);
    close_group(&w);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void ranks_that_do_not_come_are_named(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"ag_gemm:bf16:136x136x64:r4", "fused_in{tile_m=64,tile_n=128,push=1}"},
        {"gemm_ar:bf16:136x136x16:r4", "fused_out{tile_m=64,tile_n=128}"},
        {"gemm_rs:bf16:300x136x16:r4", "signal{unit=2,cuts=1,tile_m=64,tile_n=128}"},
        {"gemm_a2a:bf16:136x136x16:r4", "serial"},
        {"gemm_rs:bf16:136x136x16:r4", "dma{form=1,chunks=2,tile_m=64,tile_n=128}"},
        {"gemm_ar:bf16:70x136x16:r4", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
        {"ag_gemm:bf16:70x136x64:r4", "fused_in{slabs=2,tile_m=64,tile_n=128,push=4}"},
        {"gemm_ar:bf16:136x136x16:r4:norm", "fused_out{tile_m=64,tile_n=128}"},
        {"gemm_rs:bf16:136x136x16:r4:norm", "fused_out{tile_m=64,tile_n=128}"},
        {"gemm_ar:bf16:70x136x16:r4:norm", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
    };
    enum { GROUPS = sizeof asked / sizeof asked[0] };
    static world w[GROUPS]; /* side by side: their time limits pass together */
    for (int i = 0; i < GROUPS; i++) {
        open_group(&w[i], RANKS, SHORT_LIMIT);
        assert_true(make_plans(&w[i], asked[i][0], asked[i][1]));
    }
    for (uint64_t round = 0; round < 2; round++) {
        for (int i = 0; i < GROUPS; i++)
            for (uint64_t seed = 0; seed < 3; seed++) run_right(&w[i], seed);
        for (int i = 0; i < GROUPS; i++) {
            fill(&w[i], 9);
            for (int r = 0; r < RANKS; r++)
                if (r != i % RANKS) assert_int_equal(run_rank(&w[i], r, NULL), SHINGLE_OK);
        }
        for (int i = 0; i < GROUPS; i++) {
            char words[40];
            const int missing = i % RANKS;
            snprintf(words, sizeof words, "rank %d did not begin", missing);
            for (int r = 0; r < RANKS; r++) {
                if (shingle_sync(w[i].comm[(missing + 1 + r) % RANKS], 20) != SHINGLE_ETIMEOUT)
                    fail_msg("%s: %s", asked[i][1], shingle_error());
                expect_text(words);
            }
        }
        for (int i = 0; i < GROUPS; i++) recover(&w[i]);
    }
    for (int i = 0; i < GROUPS; i++) run_right(&w[i], 4); /* what recovery dropped is freed */
    for (int i = GROUPS - 1; i >= 0; i--) {
        drop_plans(&w[i]);
        close_group(&w[i]);
    }
}

/* A rank runs another plan, behind runs of one launch that have no event of their own. */
static void other_plans_are_named(void **state)
{
    (void)state;
    static const char *const others[] = {"serial", "direct{tile_m=64,tile_n=128}",
                                         "signal{unit=2,cuts=1,tile_m=64,tile_n=128}"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        world w;
        shingle_plan *other = NULL;
        const shingle_plan_options options = {.strategy = others[i]};
        open_group(&w, RANKS, SHORT_LIMIT);
        assert_true(
            make_plans(&w, "gemm_rs:bf16:300x136x16:r4", "fused_out{tile_m=64,tile_n=128}"));
        assert_int_equal(
            shingle_plan_create(w.comm[2], "gemm_rs:bf16:300x136x16:r4", &options, &other),
            SHINGLE_OK);
        fill(&w, 1);
        for (int n = 0; n < 4; n++)
            for (int r = 0; r < RANKS; r++) {
                shingle_plan *const mine = w.plan[r];
                if (r == 2 && n == 3) w.plan[r] = other;
                assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
                w.plan[r] = mine;
            }
        for (int r = 0; r < RANKS; r++) {
            if (shingle_sync(w.comm[r], 20) != SHINGLE_EMISMATCH)
                fail_msg("%s: %s", others[i], shingle_error());
            expect_text("run different plans");
        }
        recover(&w);
        run_right(&w, 3);
        shingle_plan_free(other);
        drop_plans(&w);
        close_group(&w);
    }
}

/* From opening to closing, with each call failing in turn: what was made is freed, and a group that
 * is open recovers. */
static bool whole_life(const char *strategy)
{
    const shingle_config config = {.backend = "cuda", .timeout_seconds = SHORT_LIMIT};
    const char *const problem = "gemm_ar:bf16:8x8x16:r2";
    static uint16_t __attribute__((aligned(16))) a[2][256], b[2][256], c[2][256];
    const shingle_plan_options options = {.strategy = strategy};
    shingle_comm *comm[2] = {NULL, NULL};
    shingle_plan *plan[2] = {NULL, NULL};
    if (shingle_open(2, &config, comm) != SHINGLE_OK) return false;
    bool ok = true;
    for (int r = 0; r < 2 && ok; r++)
        ok = shingle_plan_create(comm[r], problem, &options, &plan[r]) == SHINGLE_OK;
    for (int n = 0; n < 2; n++)
        for (int r = 0; r < 2 && ok; r++)
            ok = shingle_run(plan[r], a[r], b[r], c[r], NULL) == SHINGLE_OK;
    for (int r = 0; r < 2 && ok; r++) ok = shingle_sync(comm[r], 5) == SHINGLE_OK;
    if (!ok) assert_true(strlen(shingle_error()) > 0);
    fake_fail_at(-1, cudaErrorUnknown); /* recovering and closing are not meant to be disturbed */
    if (plan[1] != NULL) {
        (void)shingle_recover(comm[0], 0);
        assert_int_equal(shingle_recover(comm[1], 0), SHINGLE_OK);
        for (int r = 0; r < 2; r++)
            assert_int_equal(shingle_run(plan[r], a[r], b[r], c[r], NULL), SHINGLE_OK);
        for (int r = 0; r < 2; r++) assert_int_equal(shingle_sync(comm[r], 5), SHINGLE_OK);
    }
    shingle_close(2, comm);
    return ok;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    static const char *const strategy[] = {"fused_out{tile_m=64,tile_n=128}", "ring", "serial"};
    const int live = fake_live();
    for (int s = 0; s < 3; s++) {
        fake_fail_at(-1, cudaErrorUnknown);
        assert_true(whole_life(strategy[s]));
        for (int i = 0, reached = 1; reached; i++) {
            fake_fail_at(i, i % 2 == 0 ? cudaErrorUnknown : cudaErrorMemoryAllocation);
            const bool ok = whole_life(strategy[s]);
            reached = fake_calls() > i || !ok;
            fake_fail_at(-1, cudaErrorUnknown);
            if (fake_live() != live)
                fail_msg("call %d: %d things were left", i, fake_live() - live);
            if (i > 3000) fail_msg("%d calls were not enough", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_knobs_are_right),
        cmocka_unit_test(slow_launches_are_declined),
        cmocka_unit_test(plans_of_one_launch_are_one_kernel),
        cmocka_unit_test(kernels_start_early_in_one_lane_alone),
        cmocka_unit_test(odd_addresses_take_other_ways),
        cmocka_unit_test(odd_rows_that_are_sent_alone_go_in_front),
        cmocka_unit_test(words_of_who_takes_none_go_in_front),
        cmocka_unit_test(matrices_need_not_be_dense),
        cmocka_unit_test(plans_of_all_kinds_mix),
        cmocka_unit_test(many_runs_may_be_on_their_way),
        cmocka_unit_test(runs_in_flight_are_told),
        cmocka_unit_test(ranks_that_do_not_come_are_named),
        cmocka_unit_test(other_plans_are_named),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
