/* Memory of tagged data in the CUDA backend, without a GPU (tests/fake_cuda): it rests
 * before the first run, after each, and again after a recovery, in both halves and at all
 * ranks; nothing else lies there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "fake_world.h"

static const char *const one_hop = "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}";
static const char *const two_hops = "fused_out{tile_m=64,tile_n=128,once=0,tagged=1}";

static sg_work *const *work_of(const world *w)
{
    return w->comm[0]->group->work;
}

/* Of all ranks, or of the half that only KIND is. */
static void expect_blocks(const world *w, sg_block_kind kind, int count)
{
    for (int r = 0; r < w->ranks; r++) {
        int found = 0;
        for (int i = 0; i < SG_BLOCK_CLASSES; i++) found += work_of(w)[r]->block[kind][i] != NULL;
        assert_int_equal(found, count);
    }
}

/* The tensors of the runs are made when all is bound: small blocks by
 * themselves, large ones in pairs. */
static void it_rests_when_it_is_allocated(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm_ar:bf16:3x16x16:r4", "gemm_ar:f16:70x264x16:r4",
                                           "gemm_ar:bf16:520x264x16:r4"};
    world w;
    int64_t before = 0;
    open_group(&w, RANKS, 20);
    for (int i = 0; i < 3; i++) {
        int64_t bytes = 0;
        assert_true(make_plans(&w, problems[i], i == 1 ? two_hops : one_hop));
        assert_int_equal(count_awake(&w, &bytes), 0);
        assert_true(bytes > before);
        expect_blocks(&w, SG_BLOCK_REST0, i + 1);
        expect_blocks(&w, SG_BLOCK_REST1, i + 1);
        expect_blocks(&w, SG_BLOCK_SYM0, 0);
        for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
        before = bytes;
        drop_plans(&w);
    }
    close_group(&w);
}

/* Blocks of a size: those of SYM and REST lie beside their own kind, however they are asked for. */
static void halves_lie_side_by_side(void **state)
{
    (void)state;
    enum { BYTES = 1 << 17, CLASS = 17 };
    static const sg_block_kind order[] = {SG_BLOCK_SYM0, SG_BLOCK_REST0, SG_BLOCK_REST1,
                                          SG_BLOCK_SYM1};
    world w;
    open_group(&w, 2, 20);
    for (int i = 0; i < 4; i++) {
        void *block = NULL;
        assert_int_equal(sg_work_block(work_of(&w)[1], order[i], BYTES, &block), SHINGLE_OK);
        assert_ptr_equal(block, work_of(&w)[1]->block[order[i]][CLASS]);
    }
    void *(*const block)[SG_BLOCK_CLASSES] = work_of(&w)[1]->block;
    assert_ptr_equal(block[SG_BLOCK_SYM1][CLASS], (char *)block[SG_BLOCK_SYM0][CLASS] + BYTES);
    assert_ptr_equal(block[SG_BLOCK_REST1][CLASS], (char *)block[SG_BLOCK_REST0][CLASS] + BYTES);
    assert_int_equal(((unsigned char *)block[SG_BLOCK_SYM1][CLASS])[BYTES - 1], 0);
    assert_int_equal(count_awake(&w, NULL), 0);
    close_group(&w);
}

/* Where both halves at once find no memory, each is looked for by itself. */
static void what_fits_once_is_made_once(void **state)
{
    (void)state;
    enum { BYTES = 1 << 17 };
    bool more = true;
    int apart = 0;
    for (int call = 0; more; call++) {
        world w;
        void *half[2] = {NULL};
        open_group(&w, 2, 20);
        fake_fail_at(call, cudaErrorMemoryAllocation);
        const shingle_status status = sg_work_block(work_of(&w)[1], SG_BLOCK_SYM0, BYTES, &half[0]);
        more = fake_calls() > call;
        fake_fail_at(-1, cudaErrorUnknown);
        if (status == SHINGLE_OK && more) {
            assert_int_equal(sg_work_block(work_of(&w)[1], SG_BLOCK_SYM1, BYTES, &half[1]),
                             SHINGLE_OK);
            apart += half[1] != (char *)half[0] + BYTES;
        } else if (more) {
            assert_null(half[0]);
        }
        close_group(&w);
    }
    assert_true(apart > 0);
}

/* Whatever else has a size of theirs: a page of 2048 flags of four ranks is as
 * large as a small pair's block. */
static void flags_take_no_half(void **state)
{
    (void)state;
    enum { CLASS = 16, CLASSES = 4 };
    world w;
    open_group(&w, RANKS, 20);
    sg_work *const work = work_of(&w)[0];
    for (int i = CLASS; i < CLASS + CLASSES; i++) {
        const int64_t bytes = INT64_C(1) << i;
        void *half[2] = {NULL};
        const int64_t flags = bytes / RANKS / (int64_t)sizeof(uint64_t);
        assert_int_equal(sg_work_flags(work, flags + 1), SHINGLE_OK);
        for (int h = 0; h < 2; h++)
            assert_int_equal(
                sg_work_block(work, (sg_block_kind)(SG_BLOCK_SYM0 + h), bytes, &half[h]),
                SHINGLE_OK);
        assert_ptr_equal(half[1], (char *)half[0] + bytes);
    }
    close_group(&w);
}

/* One rank has ended the run that the others failed in: all begin the same run next, on the same
 * half, and none has ended it. */
static void ranks_begin_anew_alike(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, SHORT_LIMIT);
    const sg_cuda *const cuda = w.comm[0]->group->self;
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x16:r4", "fused_out{tile_m=128,tile_n=128}"));
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t seed = 0; seed <= round; seed++) run_right(&w, seed);
        for (int r = 0; r < RANKS; r++)
            if (r != 2) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
        assert_int_equal(shingle_sync(w.comm[0], 20), SHINGLE_ETIMEOUT);
        sg_kernel_rank *const ahead = cuda->rank[1].state;
        ahead->epoch++;
        ahead->prev_half = 1 - ahead->prev_half;
        recover(&w);
        for (int r = 0; r < RANKS; r++) {
            const sg_kernel_rank *const one = cuda->rank[r].state;
            assert_int_equal(one->epoch, cuda->rank[0].state->epoch);
            for (int q = 0; q < RANKS; q++) assert_true(one->words[r].done[q] < one->epoch);
        }
        for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
    }
    drop_plans(&w);
    close_group(&w);
}

/* Ranks that came have sent their words to one that did not, or to one whose run is another: nobody
 * has read them, and who would take them for the next run's would be wrong. */
static void it_rests_again_after_a_failure(void **state)
{
    (void)state;
    static const char *const strategies[] = {one_hop, two_hops};
    for (int i = 0; i < 4; i++) {
        world w;
        shingle_plan *other = NULL;
        const char *const problem = "gemm_ar:bf16:70x544x16:r4";
        const shingle_plan_options serial = {.strategy = "serial"};
        open_group(&w, RANKS, SHORT_LIMIT);
        assert_true(make_plans(&w, problem, strategies[i % 2]));
        assert_int_equal(shingle_plan_create(w.comm[2], problem, &serial, &other), SHINGLE_OK);
        for (uint64_t round = 0; round < 4; round++) { /* both halves fail */
            for (uint64_t seed = 0; seed <= round; seed++) run_right(&w, seed);
            fill(&w, 9);
            shingle_plan *const mine = w.plan[2];
            if (i >= 2) w.plan[2] = other;
            for (int r = 0; r < RANKS; r++)
                if (i >= 2 || r != 2) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
            w.plan[2] = mine;
            for (int r = 0; r < RANKS; r++) assert_true(shingle_sync(w.comm[r], 20) != SHINGLE_OK);
            assert_true(count_awake(&w, NULL) > 0);
            /* No run begins before the recovery. */
            for (int r = 0; r < RANKS; r++) assert_true(run_rank(&w, r, NULL) != SHINGLE_OK);
            recover(&w);
            assert_int_equal(count_awake(&w, NULL), 0);
            for (uint64_t seed = 0; seed < 2; seed++) run_right(&w, seed);
        }
        shingle_plan_free(other);
        drop_plans(&w);
        close_group(&w);
    }
}

/* From a plan to closing, with call number FAILS failing (negative: none): memory that does not
 * rest is not handed out, and a group whose recovery failed does not run.  *CALLS_OUT: those that
 * could have failed. */
static bool whole_life(int fails, int *calls_out)
{
    const shingle_config config = {.backend = "cuda", .timeout_seconds = SHORT_LIMIT};
    const shingle_plan_options options = {.strategy = one_hop};
    const char *const problem = "gemm_ar:bf16:200x264x16:r2"; /* in pairs */
    static uint16_t __attribute__((aligned(16))) a[2][3200], b[2][8448], c[2][52800];
    shingle_comm *comm[2] = {NULL, NULL};
    shingle_plan *plan[2] = {NULL, NULL};
    assert_int_equal(shingle_open(2, &config, comm), SHINGLE_OK);
    fake_fail_at(fails, fails % 2 == 0 ? cudaErrorUnknown : cudaErrorMemoryAllocation);
    world w = {.ranks = 2, .comm = {comm[0], comm[1]}};
    bool ok = true;
    for (int r = 0; r < 2 && ok; r++)
        ok = shingle_plan_create(comm[r], problem, &options, &plan[r]) == SHINGLE_OK;
    if (ok || plan[0] != NULL || plan[1] != NULL) assert_int_equal(count_awake(&w, NULL), 0);
    for (int n = 0; n < 2; n++)
        for (int r = 0; r < 2 && ok; r++)
            ok = shingle_run(plan[r], a[r], b[r], c[r], NULL) == SHINGLE_OK;
    for (int r = 0; r < 2 && ok; r++) ok = shingle_sync(comm[r], 5) == SHINGLE_OK;
    if (plan[1] != NULL) {
        (void)shingle_recover(comm[0], 0);
        if (shingle_recover(comm[1], 0) != SHINGLE_OK) {
            ok = false;
            if (shingle_run(plan[0], a[0], b[0], c[0], NULL) == SHINGLE_OK)
                fail_msg("a group that has not recovered runs");
        } else {
            assert_int_equal(count_awake(&w, NULL), 0);
        }
    }
    *calls_out = fake_calls();
    fake_fail_at(-1, cudaErrorUnknown); /* closing is not meant to be disturbed */
    shingle_close(2, comm);
    return ok;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    const int live = fake_live();
    int calls = 0;
    int failed = 0;
    int before = 0; /* of those that could */
    assert_true(whole_life(-1, &calls));
    for (int i = 0; i < calls; i++) {
        failed += !whole_life(i, &before);
        if (fake_live() != live) fail_msg("call %d: %d things were left", i, fake_live() - live);
    }
    assert_true(failed > calls / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_rests_when_it_is_allocated),
        cmocka_unit_test(halves_lie_side_by_side),
        cmocka_unit_test(what_fits_once_is_made_once),
        cmocka_unit_test(flags_take_no_half),
        cmocka_unit_test(ranks_begin_anew_alike),
        cmocka_unit_test(it_rests_again_after_a_failure),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
