/* Tests of fused_out's strips: which rows meet which columns when, and who adds what. */
#include "built.h"

enum { TILE = 8 };

static void expect_cols(const sg_patch *p, int col0, int cols)
{
    assert_int_equal(p->col0, col0);
    assert_int_equal(p->cols, cols);
    assert_int_equal(p->b.row0, col0);
    assert_int_equal(p->b.rows, cols);
}

/* Raises of tiles at rank AT, over all patches, have a flag each: as many as COUNT, from 1 on. */
static void expect_tile_flags(const sg_sched *s, int at, int count)
{
    bool raised[256] = {false};
    int seen = 0;
    for (int32_t i = 0; i < s->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        for (int32_t j = p->raise0; j < p->raise0 + p->raises; j++) {
            if (s->raise[j].at != at || s->raise[j].per != SG_PER_TILE) continue;
            for (int32_t k = 0; k < sg_walk_visits(p, TILE, TILE); k++) {
                const int32_t flag = s->raise[j].flag0 + k;
                assert_in_range(flag, 1, count);
                assert_false(raised[flag]);
                raised[flag] = true;
                seen++;
            }
        }
    }
    assert_int_equal(seen, count);
}

/* All rows meet a strip before the next one; sums are behind all products. */
static void strips_are_of_all_rows(void **state)
{
    (void)state;
    built b;
    build("gemm_rs:f32:48x40x16:r3",
          "fused_out{subs=1,lag=0,tile_m=8,tile_n=8,once=0,splits=1,strips=2,tagged=0}", &b);
    const sg_sched *const s = &b.sched[1];
    assert_int_equal(s->patches, 8);
    for (int32_t i = 0; i < 8; i++) {
        const sg_patch *const p = &s->patch[i];
        const int strip = i < 6 ? i / 3 : i - 6;
        const int owner = i < 6 ? (1 + 1 + i % 3) % 3 : 1;
        const sg_area *const to = &s->to[p->to0];
        expect_cols(p, strip == 0 ? 0 : 24, strip == 0 ? 24 : 16);
        assert_int_equal(p->row0, 16 * owner);
        assert_int_equal(to->rank, owner);
        assert_int_equal(to->col0, p->col0);
        assert_int_equal(p->adds, i < 6 ? 0 : 3);
        assert_int_equal(p->k1 - p->k0, i < 6 ? 16 : 0);
        assert_int_equal(p->final, i >= 6);
        if (i < 6)
            assert_int_equal(s->buf[to->buf].arena, SG_SYM);
        else
            assert_int_equal(to->buf, SG_C);
        for (int from = 0; i >= 6 && from < 3; from++) {
            const sg_addend *const add = &s->add[p->add0 + from];
            assert_int_equal(add->wait.by, from);
            assert_int_equal(add->wait.flag0, strip == 0 ? 1 : 7);
            assert_int_equal(add->area.col0, p->col0);
        }
    }
    for (int at = 0; at < 3; at++) expect_tile_flags(s, at, 10);
    discard(&b);
}

/* Own flags of parts of k come behind those of own tiles. */
static void parts_have_flags_of_their_own(void **state)
{
    (void)state;
    built b;
    build("gemm_rs:f32:32x32x128:r2",
          "fused_out{subs=1,lag=0,tile_m=8,tile_n=8,once=0,splits=2,strips=2,tagged=0}", &b);
    /* Of two parts of four pieces, the first ones leave sums; eight own tiles have flags 1 to 8. */
    assert_int_equal(b.sched[1].patches, 10);
    expect_tile_flags(&b.sched[1], 0, 8);
    expect_tile_flags(&b.sched[1], 1, 8 + 16);
    discard(&b);
}

static void what_is_not_summed_goes_straight(void **state)
{
    (void)state;
    built b;
    build("gemm_a2a:f32:32x40x16:r2",
          "fused_out{subs=1,lag=0,tile_m=8,tile_n=8,once=0,splits=1,strips=3,tagged=0}", &b);
    const sg_sched *const s = &b.sched[1];
    assert_int_equal(s->patches, 6);
    for (int32_t i = 0; i < 6; i++) {
        const sg_patch *const p = &s->patch[i];
        expect_cols(p, 16 * (i / 2), i / 2 == 2 ? 8 : 16);
        assert_int_equal(p->adds, 0);
        assert_int_equal(s->to[p->to0].rank, i % 2);
        assert_int_equal(s->to[p->to0].buf, SG_C);
    }
    discard(&b);
}

/* A call makes whole rows, whose owner adds to its own ones at once. */
static void a_call_has_no_strips(void **state)
{
    (void)state;
    built b;
    build("gemm_rs:f32:32x40x16:r2:call=9",
          "fused_out{subs=1,lag=0,tile_m=8,tile_n=8,once=0,splits=1,strips=3,tagged=0}", &b);
    const sg_sched *const s = &b.sched[1];
    assert_int_equal(s->patches, 2);
    for (int32_t i = 0; i < 2; i++) expect_cols(&s->patch[i], 0, 40);
    assert_int_equal(s->patch[1].adds, 1);
    discard(&b);
}

/* The most strips that are proposed for TEXT, behind the whole. */
static int most_strips(const char *text)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    const int strips = knob_called(strategy, "strips");
    const sg_machine machine = machine_of_tiles(128, 192);
    proposals all;
    propose(text, strategy, &machine, &all);
    assert_true(all.count > 0);
    assert_int_equal(all.set[0].value[strips], 1);
    return most_of(&all, strips);
}

/* Where no cache holds B, and few waves of few bands would all read it. */
static void strips_are_proposed_where_b_is_large(void **state)
{
    (void)state;
    assert_int_equal(most_strips("gemm_rs:bf16:512x12288x24576:r2"), 2);
    assert_int_equal(most_strips("gemm_ar:bf16:768x12288x24576:r2"), 3);
    assert_int_equal(most_strips("gemm_a2a:bf16:512x12288x24576:r2"), 2);
    assert_int_equal(most_strips("gemm_rs:bf16:256x12288x24576:r2"), 1); /* one wave */
    assert_int_equal(most_strips("gemm_rs:bf16:2048x3072x24576:r2"), 1); /* 16 bands */
    assert_int_equal(most_strips("gemm_ar:bf16:512x8192x2048:r2"), 1);
    assert_int_equal(most_strips("gemm_ar:bf16:8192x12288x24576:r2"), 1);
    assert_int_equal(most_strips("gemm_ar:bf16:512x12288x24576:r2:call=9"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strips_are_of_all_rows),
        cmocka_unit_test(parts_have_flags_of_their_own),
        cmocka_unit_test(what_is_not_summed_goes_straight),
        cmocka_unit_test(a_call_has_no_strips),
        cmocka_unit_test(strips_are_proposed_where_b_is_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
