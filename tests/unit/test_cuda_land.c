/* test_cuda_land.c -- what peers store into a rank's C, there or into its landing
 * (tests/fake_cuda). */
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

/* ---- Landings -------------------------------------------------------------------------------- */

/* Of every rank, what the other three have made is stored into its C; but where a rank's C is
 * memory of a pool, into its landing, from where a copy at the end of the run brings it.  THERE:
 * elements that others make of rank 0's. */
static void expect_stores(world *w, const char *problem, const char *strategy, long all, long there)
{
    if (!make_plans(w, problem, strategy)) fail_msg("%s", shingle_error());
    long before = fake_direct;
    int launches = fake_launches;
    run_right(w, 1);
    const int whole = fake_launches - launches;
    assert_int_equal(fake_direct - before, all);
    drop_plans(w);
    assert_true(make_plans(w, problem, strategy));
    fake_apart = w->c[0][0];
    before = fake_direct;
    launches = fake_launches;
    run_right(w, 2);
    assert_int_equal(fake_direct - before, all - there);
    assert_true(fake_launches - launches > whole);
    fake_apart = NULL;
    drop_plans(w);
}

/* What is freed may come back as memory that peers do not reach: behind a wait for the group, or
 * for a stream of the caller's, which the library knows nothing of; or because cudaFree itself has
 * waited for all runs. */
static void addresses_come_back_as_other_memory(void **state)
{
    (void)state;
    enum { EACH = 520 * 136 * 3 / 4, BY_GROUP = 0, BY_STREAM, BY_FREE, WAYS };
    world w;
    cudaStream_t stream = NULL;
    open_group(&w, RANKS, 20);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int way = 0; way < WAYS; way++) {
        assert_true(
            make_plans(&w, "gemm_ar:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"));
        for (int turn = 0; turn < 3; turn++) {
            const long before = fake_direct;
            fake_apart = turn == 2 ? w.c[0][0] : NULL;
            fill(&w, (uint64_t)turn);
            for (int r = 0; r < RANKS; r++)
                assert_int_equal(run_rank(&w, r, way == BY_STREAM && r == 0 ? stream : NULL),
                                 SHINGLE_OK);
            if (way == BY_STREAM) cudaStreamSynchronize(stream);
            if (way == BY_GROUP) sync_all(&w);
            for (int r = 0; r < RANKS; r++)
                while (fake_busy(r)) {}
            expect_right(&w, "other memory");
            assert_int_equal(fake_direct - before, turn == 2 ? 3 * EACH : 4 * EACH);
        }
        sync_all(&w);
        drop_plans(&w);
    }
    fake_apart = NULL;
    cudaStreamDestroy(stream);
    close_group(&w);
}

static const char *const of_columns =
    "fused_out{subs=1,lag=0,tile_m=128,tile_n=128,once=0,splits=1,strips=0,tagged=0}";

static void peers_store_into_what_they_reach(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, 20);
    expect_stores(&w, "gemm_ar:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}",
                  520 * 136 * 3, 520 * 136 * 3 / 4);
    expect_stores(&w, "gemm_ar:bf16:520x520x16:r4", of_columns, 520 * 520 * 3, 520 * (520 - 128));
    close_group(&w);
}

/* Two columns of tiles for four ranks: two ranks own none, and all of their C comes from peers. */
static void ranks_may_own_no_columns(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, 20);
    for (int apart = 0; apart < 3; apart++) {
        assert_true(make_plans(&w, "gemm_ar:bf16:300x200x16:r4:bias:relu", of_columns));
        fake_apart = apart == 0 ? NULL : w.c[apart - 1][0];
        for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
        drop_plans(&w);
    }
    fake_apart = NULL;
    close_group(&w);
}

/* One column of tiles, or none that is whole: one rank owns it and stores into the C of all others,
 * and nobody stores into its own. */
static void one_rank_may_own_all_columns(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm_ar:bf16:300x96x16:r4:bias:relu",
                                           "gemm_ar:f16:2x128x64:r4"};
    world w;
    open_group(&w, RANKS, 20);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++)
        for (int apart = 0; apart <= RANKS; apart++) {
            if (!make_plans(&w, problems[i], of_columns)) fail_msg("%s", shingle_error());
            fake_apart = apart == 0 ? NULL : w.c[apart - 1][0];
            for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
            drop_plans(&w);
        }
    fake_apart = NULL;
    close_group(&w);
}

/* What a rank tells its peers about its C follows from its own schedule: it holds for all of
 * theirs, because ranks that store into a peer's C do so by the same kinds of step. */
static void ranks_store_into_peers_alike(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "gemm_ar:bf16:520x136x64:r4",  "gemm_ar:bf16:3x264x64:r4",
        "gemm_a2a:bf16:520x136x64:r4", "gemm_ar:bf16:50x64x64:r4:cyclic=3",
        "gemm_rs:bf16:520x136x64:r4",  "gemm_ar:bf16:520x136x64:r4:rows=0,260,0,260",
        "gemm_a2a:bf16:7x264x64:r4",
    };
    sg_machine machine;
    int seen = 0;
    sg_machine_plain(&machine);
    machine.ranks = 4;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        sg_problem p;
        if (sg_problem_parse(problems[i], &p) != SHINGLE_OK) fail_msg("%s", shingle_error());
        for (int n = 0; sg_strategy_at(n) != NULL; n++) {
            const sg_strategy *const strategy = sg_strategy_at(n);
            sg_knobs sets[SG_MAX_KNOB_SETS];
            char reason[160];
            sg_text why = {reason, sizeof reason, 0};
            memset(sets, 0, sizeof sets);
            const int count =
                strategy->accepts(&p, &why) ? strategy->propose(&p, &machine, sets, &why) : 0;
            for (int k = 0; k < count; k++) {
                unsigned kinds = 0; /* of steps that store into a peer's C, of all ranks */
                for (int r = 0; r < p.ranks; r++) {
                    sg_sched s = {0};
                    sg_sched_begin(&s, &p, r);
                    strategy->build(&p, &sets[k], r, &s);
                    if (sg_sched_seal(&s) != SHINGLE_OK) fail_msg("%s", shingle_error());
                    for (int32_t x = 0; x < s.steps; x++)
                        for (int32_t t = 0; t < s.step[x].tos && s.step[x].kind != SG_LAUNCH; t++)
                            if (s.to[s.step[x].to0 + t].leave) kinds |= 1u << s.step[x].kind;
                    for (int32_t x = 0; x < s.patches; x++)
                        for (int32_t t = 0; t < s.patch[x].tos; t++)
                            if (s.to[s.patch[x].to0 + t].leave) kinds |= 1u << SG_LAUNCH;
                    sg_sched_free(&s);
                }
                seen += kinds != 0;
                if ((kinds & (kinds - 1)) != 0)
                    fail_msg("%s: %s stores by several kinds of step", problems[i], strategy->name);
            }
        }
        sg_problem_free(&p);
    }
    assert_true(seen >= 8);
}

/* ---- Sums of two ranks that are made in C ---------------------------------------------------- */

/* Where C of a rank is: peers reach it, they do not, or its address is odd. */
enum place { REACHED, APART, ODD };
enum { LEAD = 32, SHIFT = 2 }; /* bytes */

static bool is_told(const world *w, enum place place)
{
    return place == REACHED && bytes_of(w, 1, w->problem.n + w->pad) % 16 == 0;
}

/* All C begin where AT says, in memory that nobody has touched. */
static void move_c(world *w, const enum place *at)
{
    fake_apart = NULL;
    for (int r = 0; r < 2; r++) {
        char *const c = w->c[r][0];
        const int64_t rows = sg_problem_c_rows(&w->problem, r);
        memset(c - LEAD, UNTOUCHED, LEAD + bytes_of(w, rows, w->problem.n + w->pad) + CANARY);
        if (at[r] == ODD) w->c[r][0] = c - SHIFT;
        if (at[r] == APART) fake_apart = c;
    }
}

static void move_c_back(world *w, const enum place *at)
{
    fake_apart = NULL;
    for (int r = 0; r < 2; r++)
        if (at[r] == ODD) w->c[r][0] = (char *)w->c[r][0] + SHIFT;
}

static void expect_untouched_before(const world *w, const enum place *at)
{
    for (int r = 0; r < 2; r++) {
        const unsigned char *const c = w->c[r][0];
        for (int i = 1; i <= LEAD - (at[r] == ODD ? SHIFT : 0); i++)
            assert_int_equal(c[-i], UNTOUCHED);
    }
}

/* Both enqueue RUNS runs at once. */
static void run_often(world *w, uint64_t seed, int runs)
{
    fill(w, seed);
    for (int i = 0; i < runs * 2; i++)
        if (run_rank(w, (i + (int)seed) % 2, NULL) != SHINGLE_OK) fail_msg("%s", shingle_error());
    sync_all(w);
    expect_right(w, shingle_plan_text(w->plan[0]));
}

/* What a rank stores at its peer goes into that one's C if it is told where it is. */
static void expect_sums(world *w, const char *problem, const char *strategy, const enum place *at)
{
    enum { TIMES = 3 };
    const long before = fake_direct;
    const int launches = fake_launches;
    long direct = 0;
    bool all_told = true;
    if (!make_plans(w, problem, strategy)) fail_msg("%s", shingle_error());
    move_c(w, at);
    for (int i = 0; i < TIMES; i++) {
        run_often(w, (uint64_t)i, 1 + i % 2);
        expect_untouched_before(w, at);
    }
    const long runs = TIMES + TIMES / 2;
    for (int r = 0; r < 2; r++) {
        const bool told = is_told(w, at[r]);
        if (told) direct += runs * sg_problem_c_rows(&w->problem, r) * w->problem.n;
        all_told &= told;
    }
    assert_int_equal(fake_direct - before, direct);
    /* A run is a launch a rank, unless rows that peers have finished have to be brought to C. */
    if (all_told || sg_problem_out(&w->problem) == SG_OUT_SCATTER)
        assert_int_equal(fake_launches - launches, 2 * runs);
    else if (w->problem.m > 1)
        assert_true(fake_launches - launches > 2 * runs);
    move_c_back(w, at);
    drop_plans(w);
}

static void sums_are_made_wherever_c_is(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "gemm_ar:bf16:300x136x40:r2",           "gemm_rs:bf16:300x136x40:r2",
        "gemm_ar:f16:129x72x24:r2:cyclic=50",   "gemm_rs:bf16:200x264x16:r2:cyclic=9",
        "gemm_rs:f16:130x40x24:r2:rows=100,30", "gemm_ar:bf16:1x80x40:r2",
    };
    static const char *const plans[] = {
        "fused_add{subs=1,lag=1,tile_m=128,tile_n=128,strips=1}",
        "fused_add{subs=2,lag=1,tile_m=64,tile_n=128,strips=0}",
        "fused_add{subs=1,lag=1,tile_m=128,tile_n=128,strips=2}",
    };
    static const enum place places[][2] = {{REACHED, REACHED}, {APART, REACHED}, {REACHED, APART},
                                           {ODD, REACHED},     {REACHED, ODD},   {ODD, ODD},
                                           {APART, ODD}};
    world w;
    open_group(&w, 2, 20);
    w.lead = LEAD;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++)
        for (size_t j = 0; j < sizeof places / sizeof places[0]; j++) {
            w.pad = (i + j) % 3 == 0 ? 8 : (i + j) % 3 == 1 ? 0 : 3;
            expect_sums(&w, problems[i], plans[(i + j) % 3], places[j]);
        }
    close_group(&w);
}

/* C changes its place from run to run, and the plan stays; of one problem a rank has no rows. */
static void c_may_move_between_runs(void **state)
{
    (void)state;
    static const enum place places[][2] = {
        {REACHED, ODD}, {APART, REACHED}, {REACHED, REACHED}, {ODD, APART}, {REACHED, REACHED}};
    static const char *const problems[] = {"gemm_ar:bf16:300x136x40:r2",
                                           "gemm_rs:bf16:300x136x40:r2",
                                           "gemm_rs:bf16:300x136x40:r2:rows=300,0"};
    world w;
    open_group(&w, 2, 20);
    w.lead = LEAD;
    for (int i = 0; i < 3; i++) {
        assert_true(
            make_plans(&w, problems[i], "fused_add{subs=1,lag=1,tile_m=128,tile_n=128,strips=1}"));
        for (uint64_t j = 0; j < sizeof places / sizeof places[0]; j++) {
            move_c(&w, places[j]);
            run_often(&w, j, 2);
            move_c_back(&w, places[j]);
        }
        drop_plans(&w);
    }
    close_group(&w);
}

/* Owners of columns bring home those of the others, also of rows that all are their own. */
static void columns_come_to_who_owns_all_rows(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm_ar:bf16:1x512x40:r2",
                                           "gemm_ar:bf16:130x264x24:r2:rows=130,0"};
    static const char *const plans[] = {
        "fused_out{subs=1,lag=0,tile_m=128,tile_n=128,once=0,splits=1,strips=0,tagged=0}",
        "fused_add{subs=1,lag=0,tile_m=128,tile_n=128,strips=0}"};
    static const enum place places[][2] = {{APART, REACHED}, {REACHED, APART}, {ODD, ODD}};
    world w;
    open_group(&w, 2, 20);
    w.lead = LEAD;
    for (size_t i = 0; i < sizeof places / sizeof places[0] * 4; i++) {
        const enum place *const at = places[i / 4];
        if (!make_plans(&w, problems[i % 2], plans[i / 2 % 2])) fail_msg("%s", shingle_error());
        move_c(&w, at);
        run_often(&w, i, 2);
        move_c_back(&w, at);
        drop_plans(&w);
    }
    close_group(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_to_who_owns_all_rows),
        cmocka_unit_test(peers_store_into_what_they_reach),
        cmocka_unit_test(addresses_come_back_as_other_memory),
        cmocka_unit_test(ranks_may_own_no_columns),
        cmocka_unit_test(one_rank_may_own_all_columns),
        cmocka_unit_test(ranks_store_into_peers_alike),
        cmocka_unit_test(sums_are_made_wherever_c_is),
        cmocka_unit_test(c_may_move_between_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
