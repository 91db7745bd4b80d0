/* Tests of fused_in's strips: which tiles wait for what, and where that is proposed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/strategy.h"

typedef struct built {
    sg_problem problem;
    sg_sched s; /* of rank 0 */
} built;

static void build(const char *text, const char *plan, built *b)
{
    const sg_strategy *strategy = NULL;
    sg_knobs knobs;
    bool given = false;
    memset(b, 0, sizeof *b);
    assert_int_equal(sg_problem_parse(text, &b->problem), SHINGLE_OK);
    if (sg_strategy_parse(plan, &strategy, NULL, &knobs, &given) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    sg_sched_begin(&b->s, &b->problem, 0);
    strategy->build(&b->problem, &knobs, 0, &b->s);
    if (sg_sched_seal(&b->s) != SHINGLE_OK) fail_msg("%s: %s", text, shingle_error());
}

static void discard(built *b)
{
    sg_sched_free(&b->s);
    sg_problem_free(&b->problem);
}

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
    assert_int_equal(b.s.patches, 4);
    for (int32_t i = 0; i < 4; i++) {
        const sg_patch *const p = &b.s.patch[i];
        assert_int_equal(p->col0, i < 2 ? 0 : 16);
        assert_int_equal(p->cols, 16);
        assert_int_equal(p->waits, i != 2);
        assert_int_equal(p->slab, i != 2 ? 64 : 0);
    }
    const sg_patch *const own = &b.s.patch[0];
    const sg_patch *const come = &b.s.patch[1];
    assert_int_equal(own->a.buf, SG_A);
    for (int32_t k = 0; k < 256; k += 64)
        for (int32_t row = 0; row < 16; row += 8) {
            const sg_wait *const wait = &b.s.wait[own->wait0];
            const sg_flags f = sg_walk_wait(wait, own->row0 + row, 8, k, 0);
            const sg_flags first = sg_walk_wait(&b.s.wait[come->wait0], come->row0, 8, k, 0);
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
        assert_true(b.s.patches > 0);
        assert_int_equal(held_patches(&b.s, 0), 0);
        discard(&b);
    }
}

/* Are strips in chunks of k proposed for TEXT by PUSH? */
static bool proposes(const char *text, int push)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_in");
    sg_machine machine;
    sg_machine_plain(&machine);
    machine.sms = 132;
    machine.tiles = 1;
    machine.tile[0] = (sg_tile){.m = 128, .n = 256, .rate = 1};
    sg_knobs sets[SG_MAX_KNOB_SETS];
    char why[80];
    sg_text t = {why, sizeof why, 0};
    sg_problem p;
    bool found = false;
    assert_string_equal(strategy->knob[1], "slabs");
    assert_string_equal(strategy->knob[5], "strips");
    assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
    const int count = strategy->propose(&p, &machine, sets, &t);
    assert_true(count > 0);
    for (int i = 0; i < count; i++)
        found |= sets[i].value[1] > 1 && sets[i].value[4] == push && sets[i].value[5] > 1;
    sg_problem_free(&p);
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
