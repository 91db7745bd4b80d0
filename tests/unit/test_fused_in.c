/* Tests of fused_in's strips: which tiles wait for what, and where that is proposed. */
#include "built.h"

/* Patches of rows that are here and that wait, by the strip's first column. */
static int held_patches(const sg_sched *s, int col0)
{
    int held = 0;
    for (int32_t i = 0; i < s->patches; i++)
        held += s->patch[i].a.buf == SG_A && s->patch[i].col0 == col0 && s->patch[i].waits > 0;
    return held;
}

/* A tile of own rows waits for the slab of the other's that is multiplied beside it, in the first strip. */
static void own_rows_keep_step(void **state)
{
    (void)state;
    built b;
    build("ag_gemm:f32:32x32x256:r2",
          "fused_in{chunks=2,slabs=4,tile_m=8,tile_n=8,push=0,strips=2}", &b);
    const sg_sched *const s = &b.sched[0];
    assert_int_equal(s->patches, 4);
    for (int32_t i = 0; i < 4; i++) {
        const sg_patch *const p = &s->patch[i];
        assert_int_equal(p->col0, i < 2 ? 0 : 16);
        assert_int_equal(p->cols, 16);
        assert_int_equal(p->waits, i != 2);
        assert_int_equal(p->slab, i != 2 ? 64 : 0);
    }
    const sg_patch *const own = &s->patch[0];
    const sg_patch *const come = &s->patch[1];
    assert_int_equal(own->a.buf, SG_A);
    for (int32_t k = 0; k < 256; k += 64)
        for (int32_t row = 0; row < 16; row += 8) {
            const sg_wait *const wait = &s->wait[own->wait0];
            const sg_flags f = sg_walk_wait(wait, own->row0 + row, 8, k, 0);
            const sg_flags first = sg_walk_wait(&s->wait[come->wait0], come->row0, 8, k, 0);
            assert_int_equal(wait->by, 1);
            assert_int_equal(f.count, 1);
            assert_int_equal(f.first, first.first);
        }
    discard(&b);
}

/* Where it is no use: whole rows, all columns at once, several who send; or would wait for ever. */
static void own_rows_wait_for_nobody_else(void **state)
{
    (void)state;
    static const char *const ask[][2] = {
        {"ag_gemm:f32:32x32x256:r2",
         "fused_in{chunks=1,slabs=1,tile_m=8,tile_n=8,push=0,strips=2}"},
        {"ag_gemm:f32:32x32x256:r2",
         "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=0,strips=1}"},
        {"ag_gemm:f32:48x32x256:r3",
         "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=0,strips=2}"},
        {"ag_gemm:f32:32x32x256:r2:rows=32,0",
         "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=0,strips=2}"},
    };
    for (size_t i = 0; i < sizeof ask / sizeof ask[0]; i++) {
        built b;
        build(ask[i][0], ask[i][1], &b);
        assert_true(b.sched[0].patches > 0);
        assert_int_equal(held_patches(&b.sched[0], 0), 0);
        discard(&b);
    }
}

/* Are strips in chunks of k proposed for TEXT by PUSH? */
static bool proposes(const char *text, int push)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_in");
    const int slabs = knob_called(strategy, "slabs");
    const int by_push = knob_called(strategy, "push");
    const int strips = knob_called(strategy, "strips");
    const sg_machine machine = machine_of_tiles(128, 256);
    proposals all;
    bool found = false;
    propose(text, strategy, &machine, &all);
    assert_true(all.count > 0);
    for (int i = 0; i < all.count; i++) {
        const int32_t *const value = all.set[i].value;
        found |= value[slabs] > 1 && value[by_push] == push && value[strips] > 1;
    }
    return found;
}

static void it_is_proposed_for_few_waves(void **state)
{
    (void)state;
    assert_true(proposes("ag_gemm:bf16:512x24576x12288:r2", 0));
    assert_true(proposes("ag_gemm:bf16:512x24576x12288:r2", 1));
    assert_false(proposes("ag_gemm:bf16:512x5120x8192:r2", 0));    /* one wave */
    assert_false(proposes("ag_gemm:bf16:2048x24576x12288:r2", 0)); /* twelve */
    assert_false(proposes("ag_gemm:bf16:2048x5120x8192:r2", 0));   /* 17 MB to wait for */
    assert_false(proposes("ag_gemm:bf16:512x24576x12288:r4", 0));
    assert_false(proposes("ag_gemm:bf16:512x24576x12288:r2:gather=b", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_rows_keep_step),
        cmocka_unit_test(own_rows_wait_for_nobody_else),
        cmocka_unit_test(it_is_proposed_for_few_waves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
