/* Tests of fused_out: of its strips, which rows meet which columns when, and who adds what; where
 * tagged data are proposed. */
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

/* With a lag, own rows of a strip come behind the products of the next one and add what has
 * arrived, in their product. */
static void own_rows_follow_their_strip(void **state)
{
    (void)state;
    static const struct {
        int strip, owner;
    } want[] = {{0, 2}, {0, 0}, {1, 2}, {1, 0}, {0, 1}, {2, 2}, {2, 0}, {1, 1}, {2, 1}};
    built b;
    build("gemm_ar:f32:48x40x16:r3",
          "fused_out{subs=1,lag=1,tile_m=8,tile_n=8,once=0,splits=1,strips=3,tagged=0}", &b);
    const sg_sched *const s = &b.sched[1];
    assert_int_equal(s->patches, 9);
    for (int32_t i = 0; i < 9; i++) {
        const sg_patch *const p = &s->patch[i];
        const bool own = want[i].owner == 1;
        const int strip = want[i].strip;
        expect_cols(p, 16 * strip, strip < 2 ? 16 : 8);
        assert_int_equal(p->row0, 16 * want[i].owner);
        assert_int_equal(p->k1 - p->k0, 16);
        assert_int_equal(p->final, own);
        assert_int_equal(p->adds, own ? 2 : 0);
        assert_int_equal(p->own_at, own ? 1 : 0);
        assert_int_equal(p->tos, own ? 3 : 1);
        for (int j = 0; own && j < 2; j++) {
            const sg_addend *const add = &s->add[p->add0 + j];
            assert_int_equal(add->wait.by, 2 * j);
            assert_int_equal(add->wait.flag0, 1 + 4 * strip);
            assert_int_equal(add->area.col0, p->col0);
            assert_int_equal(add->area.row0, 16 * 2 * j);
        }
        for (int j = 0; j < p->tos; j++) {
            const sg_area *const to = &s->to[p->to0 + j];
            assert_int_equal(to->col0, p->col0);
            assert_int_equal(to->rank, own ? (1 + j) % 3 : want[i].owner);
            if (own)
                assert_int_equal(to->buf, SG_C);
            else
                assert_int_equal(s->buf[to->buf].arena, SG_SYM);
        }
    }
    expect_tile_flags(s, 0, 10);
    expect_tile_flags(s, 1, 0);
    expect_tile_flags(s, 2, 10);
    discard(&b);
}

/* Without strips, an all-reduce's ranks own columns of whole tiles: all rows of them go to their
 * owner, the own ones last, with what the others have sent, and the sums to everybody. */
static void owners_of_columns(void **state)
{
    (void)state;
    static const struct {
        int owner, row0;
    } want[] = {{2, 0}, {0, 0}, {2, 24}, {0, 24}, {1, 0}, {1, 24}};
    static const int col0[] = {0, 8, 24}, cols[] = {8, 16, 16};
    built b;
    build("gemm_ar:f32:48x40x16:r3",
          "fused_out{subs=2,lag=1,tile_m=8,tile_n=8,once=0,splits=1,strips=0,tagged=0}", &b);
    const sg_sched *const s = &b.sched[1];
    assert_int_equal(s->patches, 6);
    for (int32_t i = 0; i < 6; i++) {
        const sg_patch *const p = &s->patch[i];
        const bool own = want[i].owner == 1;
        expect_cols(p, col0[want[i].owner], cols[want[i].owner]);
        assert_int_equal(p->row0, want[i].row0);
        assert_int_equal(p->rows, 24);
        assert_int_equal(p->final, own);
        assert_int_equal(p->own_rounded, own);
        assert_int_equal(p->adds, own ? 2 : 0);
        assert_int_equal(p->own_at, own ? 1 : 0);
        for (int j = 0; own && j < 2; j++) {
            const sg_addend *const add = &s->add[p->add0 + j];
            assert_int_equal(add->wait.by, 2 * j);
            assert_int_equal(add->wait.flag0, want[i].row0 == 0 ? 1 : 7);
            assert_int_equal(add->area.col0, p->col0);
            assert_int_equal(add->area.row0, 2 * j * 48 + p->row0);
        }
        assert_int_equal(p->tos, own ? 3 : 1);
        for (int j = 0; j < p->tos; j++) {
            const sg_area *const to = &s->to[p->to0 + j];
            assert_int_equal(to->rank, own ? (1 + j) % 3 : want[i].owner);
            assert_int_equal(to->col0, p->col0);
            assert_int_equal(to->row0, own ? p->row0 : 48 + p->row0);
            assert_true(own ? to->buf == SG_C : s->buf[to->buf].arena == SG_SYM);
        }
    }
    expect_tile_flags(s, 0, 6);
    expect_tile_flags(s, 1, 0);
    expect_tile_flags(s, 2, 12);
    discard(&b);
}

/* The strip of each of RANK's patches and whether it adds: "0", or "0+". */
static void expect_strips(const built *b, int rank, int width, const char *want)
{
    char seen[128] = "";
    sg_text text = {seen, sizeof seen, 0};
    const sg_sched *const s = &b->sched[rank];
    for (int32_t i = 0; i < s->patches; i++)
        sg_text_add(&text, "%s%d%s", i == 0 ? "" : " ", (int)s->patch[i].col0 / width,
                    s->patch[i].adds > 0 ? "+" : "");
    assert_string_equal(seen, want);
}

/* Several strips behind; strips that nothing is left for; rows that are nobody's; slices of rows,
 * behind whose strips all is added up. */
static void lags_of_any_length_end(void **state)
{
    (void)state;
    built b;
    build("gemm_rs:f32:32x40x16:r2",
          "fused_out{subs=1,lag=2,tile_m=8,tile_n=8,once=0,splits=1,strips=5,tagged=0}", &b);
    expect_strips(&b, 1, 8, "0 1 2 0+ 3 1+ 4 2+ 3+ 4+");
    discard(&b);
    build("gemm_rs:f32:32x40x16:r2",
          "fused_out{subs=1,lag=8,tile_m=8,tile_n=8,once=0,splits=1,strips=4,tagged=0}", &b);
    expect_strips(&b, 1, 16, "0 1 2 0+ 1+ 2+");
    discard(&b);
    build("gemm_rs:f32:1x40x16:r2",
          "fused_out{subs=1,lag=1,tile_m=8,tile_n=8,once=0,splits=1,strips=2,tagged=0}", &b);
    expect_strips(&b, 0, 24, "0+ 1+");
    expect_strips(&b, 1, 24, "0 1");
    discard(&b);
    build("gemm_rs:f32:32x32x16:r2",
          "fused_out{subs=2,lag=1,tile_m=8,tile_n=8,once=0,splits=1,strips=2,tagged=0}", &b);
    expect_strips(&b, 1, 16, "0 0 1 1 0 0 1 1 0+ 1+ 0+ 1+");
    discard(&b);
}

/* At once, own rows of a strip come right behind the others', and add what has arrived; an
 * all-reduce at once is another matter. */
static void own_rows_wait_in_their_strip(void **state)
{
    (void)state;
    built b;
    build("gemm_rs:f32:32x40x16:r2",
          "fused_out{subs=1,lag=0,tile_m=8,tile_n=8,once=1,splits=1,strips=2,tagged=0}", &b);
    expect_strips(&b, 1, 24, "0 0+ 1 1+");
    discard(&b);
    build("gemm_rs:f32:32x40x16:r2",
          "fused_out{subs=1,lag=1,tile_m=8,tile_n=8,once=1,splits=1,strips=2,tagged=0}", &b);
    expect_strips(&b, 1, 24, "0 1 0+ 1+");
    discard(&b);
    build("gemm_rs:f32:32x40x16:r2",
          "fused_out{subs=1,lag=0,tile_m=8,tile_n=8,once=1,splits=1,strips=1,tagged=0}", &b);
    assert_int_equal(b.sched[1].patches, 2);
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
    /* Own rows that follow their strip have none. */
    build("gemm_rs:f32:32x32x128:r2",
          "fused_out{subs=1,lag=1,tile_m=8,tile_n=8,once=0,splits=2,strips=2,tagged=0}", &b);
    assert_int_equal(b.sched[1].patches, 8);
    expect_tile_flags(&b.sched[1], 0, 8);
    for (int32_t i = 0; i < b.sched[1].raises; i++)
        if (b.sched[1].raise[i].at == 1) assert_in_range(b.sched[1].raise[i].flag0, 0, 15);
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

/* Slices that are proposed for TEXT on MACHINE, of owners of columns or not: bit i stands for i. */
static unsigned slices_on(const char *text, const sg_machine *machine, bool columns)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    proposals all;
    unsigned slices = 0;
    propose(text, strategy, machine, &all);
    for (int i = 0; i < all.count; i++) {
        const int32_t *const value = all.set[i].value;
        if ((value[knob_called(strategy, "strips")] == 0) == columns)
            slices |= 1u << value[knob_called(strategy, "subs")];
    }
    return slices;
}

static unsigned slices_of(const char *text)
{
    const sg_machine machine = machine_of_tiles(128, 256);
    return slices_on(text, &machine, false);
}

/* Of a wave each, but for halves, up to eight, then four, too; of four bands where no cache holds
 * B. */
static void slices_are_of_whole_bands(void **state)
{
    (void)state;
    assert_int_equal(slices_of("gemm_ar:bf16:3072x5632x4096:r4"), 1u << 1 | 1u << 4); /* 528 */
    assert_int_equal(slices_of("gemm_ar:bf16:3072x5376x4096:r4"), 1u << 1 | 1u << 4); /* 504 */
    assert_int_equal(slices_of("gemm_ar:bf16:3072x5120x4096:r4"), 1u << 1 | 1u << 3); /* 480 */
    assert_int_equal(slices_of("gemm_ar:bf16:1000x5120x4096:r4"), 1u << 1 | 1u << 2); /* 256 rows */
    assert_int_equal(slices_of("gemm_ar:bf16:8192x5120x4096:r4"), 1u << 1 | 1u << 4 | 1u << 8);
    assert_int_equal(slices_of("gemm_ar:bf16:4096x8192x8192:r4"), 1u << 1 | 1u << 2);
    assert_int_equal(slices_of("gemm_ar:bf16:512x5120x4096:r4"), 1u << 1);
    assert_int_equal(slices_of("gemm_rs:bf16:4096x5120x4096:r4"), 1u << 1);
}

/* Where sums take longer to get to all ranks than owners to multiply them, in slices of two waves:
 * 235 MB of the first take 470 us, its four waves of 100 us 400. */
static void slices_of_columns_are_proposed_for_slow_links(void **state)
{
    (void)state;
    sg_machine machine = machine_of_tiles(128, 256);
    machine.gemm_tflops[SG_BF16] = 2e-6 * 128 * 256 * 4096 * machine.sms / 100;
    machine.store_gbps = 500;
    const char *const eight = "gemm_ar:bf16:2048x8192x4096:r8";
    assert_int_equal(slices_on(eight, &machine, true), 1u << 2);
    assert_int_equal(slices_on("gemm_ar:bf16:4096x8192x4096:r8", &machine, true), 1u << 4);
    assert_int_equal(slices_on("gemm_ar:bf16:768x8192x2048:r8", &machine, true), 1u << 1);
    assert_int_equal(slices_on("gemm_ar:bf16:2048x8192x4096:r6", &machine, true), 0);
    assert_int_equal(slices_on("gemm_ar:bf16:2048x8192x4096:r8:call=9", &machine, true), 0);
    machine.store_gbps = 600;
    assert_int_equal(slices_on(eight, &machine, true), 0);
    machine.store_gbps = 1;
    machine.pool = 2;
    assert_int_equal(slices_on(eight, &machine, true), 0);
}

/* The most strips that are proposed for TEXT, behind the whole or owners of columns, with LAG or
 * without. */
static int most_strips(const char *text, int lag)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    const int strips = knob_called(strategy, "strips");
    const sg_machine machine = machine_of_tiles(128, 192);
    proposals all;
    int most = 0;
    bool owned = false;
    propose(text, strategy, &machine, &all);
    assert_true(all.count > 0);
    for (int i = 0; i < all.count; i++) {
        const int32_t *const value = all.set[i].value;
        const bool counts =
            value[knob_called(strategy, "lag")] == lag && value[knob_called(strategy, "subs")] == 1;
        owned |= value[strips] == 0;
        if (counts && value[strips] > most) most = value[strips];
    }
    assert_int_equal(all.set[0].value[strips], !owned);
    return most;
}

/* Where no cache holds B, and few waves of few bands would all read it. */
static void strips_are_proposed_where_b_is_large(void **state)
{
    (void)state;
    assert_int_equal(most_strips("gemm_rs:bf16:512x12288x24576:r2", 0), 2);
    assert_int_equal(most_strips("gemm_ar:bf16:768x12288x24576:r2", 0), 3);
    assert_int_equal(most_strips("gemm_a2a:bf16:512x12288x24576:r2", 0), 2);
    assert_int_equal(most_strips("gemm_rs:bf16:256x12288x24576:r2", 0), 1); /* one wave */
    assert_int_equal(most_strips("gemm_rs:bf16:2048x3072x24576:r2", 0), 1); /* 16 bands */
    assert_int_equal(most_strips("gemm_rs:bf16:2048x16384x6656:r8", 0), 4); /* two of an owner */
    assert_int_equal(most_strips("gemm_rs:bf16:4096x16384x6656:r8", 0), 1);
    assert_int_equal(most_strips("gemm_ar:bf16:512x8192x2048:r2", 0), 1);
    assert_int_equal(most_strips("gemm_ar:bf16:8192x12288x24576:r2", 0), 1);
    assert_int_equal(most_strips("gemm_ar:bf16:512x12288x24576:r2:call=9", 0), 1);
    /* Several ranks own columns instead, where sums go to all. */
    assert_int_equal(most_strips("gemm_ar:bf16:512x12288x24576:r4", 0), 1);
    assert_int_equal(most_strips("gemm_rs:bf16:512x12288x24576:r4", 0), 2);
}

/* Are strips whose own tiles wait in them proposed for TEXT, in tiles of 128x192 of which LATE? */
static bool proposes_waiting(const char *text, double late)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    sg_machine machine = machine_of_tiles(128, 192);
    proposals all;
    bool any = false;
    machine.tile[0].late = late;
    propose(text, strategy, &machine, &all);
    for (int i = 0; i < all.count; i++)
        any |= all.set[i].value[knob_called(strategy, "strips")] == 2 &&
               all.set[i].value[knob_called(strategy, "once")] == 1;
    return any;
}

/* Scatters of two waves in tiles that come in turn, whose columns clusters can share out. */
static void own_rows_are_proposed_to_wait(void **state)
{
    (void)state;
    assert_true(proposes_waiting("gemm_rs:bf16:512x12288x24576:r2", 0.6));
    assert_false(proposes_waiting("gemm_rs:bf16:512x12288x24576:r2", 1));   /* not in turn */
    assert_false(proposes_waiting("gemm_rs:bf16:512x11904x24576:r2", 0.6)); /* 62 tiles across */
    assert_false(proposes_waiting("gemm_rs:bf16:256x12288x24576:r2", 0.6)); /* one wave */
    assert_false(proposes_waiting("gemm_rs:bf16:512x12288x1024:r2", 0.6));  /* B in a cache */
    assert_false(proposes_waiting("gemm_ar:bf16:512x12288x24576:r2", 0.6)); /* all get it */
}

/* Where all get a sum of a few waves, and no cache holds B. */
static void strips_that_own_rows_follow_are_proposed(void **state)
{
    (void)state;
    assert_int_equal(most_strips("gemm_ar:bf16:2048x8192x7168:r4", 1), 4);
    assert_int_equal(most_strips("gemm_ar:bf16:512x12288x24576:r2", 1), 2);  /* two waves */
    assert_int_equal(most_strips("gemm_ar:bf16:256x12288x24576:r2", 1), 0);  /* one */
    assert_int_equal(most_strips("gemm_ar:bf16:8192x12288x12288:r4", 1), 0); /* many */
    assert_int_equal(most_strips("gemm_ar:bf16:512x8192x2048:r2", 1), 0);    /* B in a cache */
    assert_int_equal(most_strips("gemm_rs:bf16:2048x8192x7168:r4", 1), 0);
    assert_int_equal(most_strips("gemm_a2a:bf16:2048x8192x7168:r4", 1), 0);
    assert_int_equal(most_strips("gemm_ar:bf16:2048x8192x7168:r4:call=9", 1), 0);
}

static bool proposes_columns(const char *text, int pool)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    const int strips = knob_called(strategy, "strips");
    sg_machine machine = machine_of_tiles(128, 192);
    proposals all;
    bool found = false;
    machine.pool = pool;
    propose(text, strategy, &machine, &all);
    for (int i = 0; i < all.count; i++) found |= all.set[i].value[strips] == 0;
    return found;
}

/* Where all get a sum of few bands, one wave or many, and no cache holds B. */
static void owners_of_columns_are_proposed(void **state)
{
    (void)state;
    assert_true(proposes_columns("gemm_ar:bf16:512x12288x24576:r2", 0));
    assert_true(proposes_columns("gemm_ar:bf16:1x8192x7168:r8", 0));
    assert_true(proposes_columns("gemm_ar:bf16:1024x8192x7168:r4", 0));
    assert_false(proposes_columns("gemm_ar:bf16:1025x8192x7168:r4", 0));
    assert_false(proposes_columns("gemm_ar:bf16:512x8192x2048:r2", 0)); /* B in a cache */
    assert_false(proposes_columns("gemm_ar:bf16:512x12288x24576:r1", 0));
    assert_false(proposes_columns("gemm_rs:bf16:512x12288x24576:r2", 0));
    assert_false(proposes_columns("gemm_a2a:bf16:512x12288x24576:r2", 0));
    assert_false(proposes_columns("gemm_ar:bf16:512x12288x24576:r2:call=9", 0));
    assert_false(proposes_columns("gemm_ar:bf16:512x12288x24576:r2", 8));
}

/* Are the first strips that are proposed for TEXT so many, at ONCE or not? */
static bool begins_with(const char *text, int strips, int once)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    sg_machine machine = machine_of_tiles(128, 192);
    proposals all;
    machine.tile[0].late = 0.6;
    propose(text, strategy, &machine, &all);
    assert_true(all.count > 0);
    return all.set[0].value[knob_called(strategy, "strips")] == strips &&
           all.set[0].value[knob_called(strategy, "once")] == once;
}

/* Of two that are predicted alike the first is taken. */
static void what_reads_b_once_is_proposed_first(void **state)
{
    (void)state;
    assert_true(begins_with("gemm_rs:bf16:512x12288x24576:r2", 2, 1));
    assert_true(begins_with("gemm_ar:bf16:512x12288x24576:r2", 0, 0));
    assert_true(begins_with("gemm_ar:bf16:512x8192x7168:r4", 0, 0));
    assert_true(begins_with("gemm_ar:bf16:2048x8192x7168:r4", 1, 0)); /* too many bands */
    assert_true(begins_with("gemm_rs:bf16:512x12288x1024:r2", 1, 0)); /* B in a cache */
    assert_true(begins_with("gemm_ar:bf16:96x1024x1024:r3", 1, 0)); /* and rows in one band each */
    assert_true(begins_with("gemm_a2a:bf16:512x12288x24576:r2", 1, 0));
}

/* ---- Tagged data ----------------------------------------------------------------------------- */

static int count_with(const char *text, int once, const sg_machine *machine)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    const int tagged = knob_called(strategy, "tagged");
    proposals all;
    propose(text, strategy, machine, &all);
    int count = 0;
    for (int i = 0; i < all.count; i++) {
        if (!all.set[i].value[tagged]) continue;
        if (all.set[i].value[knob_called(strategy, "once")] != once) continue;
        assert_int_equal(all.set[i].value[knob_called(strategy, "subs")], 1);
        assert_int_equal(all.set[i].value[knob_called(strategy, "splits")], 1);
        count++;
    }
    return count;
}

static int count_tagged(const char *text, const sg_machine *machine)
{
    return count_with(text, 1, machine);
}

static int count_hops(const char *text, const sg_machine *machine)
{
    return count_with(text, 0, machine);
}

/* Where the machine says what it is worth, and little is sent. */
static void tags_are_proposed_where_their_worth_is_known(void **state)
{
    (void)state;
    sg_machine machine = machine_of_tiles(64, 128);
    assert_int_equal(count_tagged("gemm_ar:bf16:64x8192x4096:r2", &machine), 0);
    machine.tagged_us = 3;
    assert_int_equal(count_tagged("gemm_ar:bf16:64x8192x4096:r2", &machine), 2); /* 64x64, 64x128 */
    assert_int_equal(count_tagged("gemm_ar:bf16:256x4096x4096:r2", &machine), 1);
    assert_int_equal(count_tagged("gemm_ar:bf16:256x8192x4096:r2", &machine), 0); /* two waves */
    assert_int_equal(count_tagged("gemm_ar:bf16:512x12288x4096:r2", &machine), 0);
    assert_int_equal(count_tagged("gemm_ar:bf16:2048x8192x4096:r2", &machine), 0);
    assert_int_equal(count_hops("gemm_ar:bf16:64x8192x4096:r4", &machine), 0);
    machine.hop_us = 3;
    assert_int_equal(count_hops("gemm_ar:bf16:64x8192x4096:r4", &machine), 2);
    assert_int_equal(count_hops("gemm_ar:bf16:256x8192x4096:r4", &machine), 1);
    assert_int_equal(count_hops("gemm_ar:bf16:256x8192x14336:r4", &machine), 0);  /* B read anew */
    assert_int_equal(count_tagged("gemm_ar:bf16:256x8192x4096:r4", &machine), 0); /* not at once */
    assert_int_equal(count_hops("gemm_ar:bf16:256x12288x4096:r4", &machine), 0);  /* three waves */
    assert_int_equal(count_hops("gemm_ar:bf16:384x6144x4096:r4", &machine), 0);   /* 2.2 waves */
    assert_int_equal(count_hops("gemm_ar:bf16:64x8192x4096:r2", &machine), 2);
    assert_int_equal(count_tagged("gemm_rs:bf16:64x8192x4096:r2", &machine), 0);
    machine.hop_us = 0; /* a scatter has no second hop */
    assert_int_equal(count_hops("gemm_rs:bf16:64x8192x4096:r2", &machine), 2);  /* two of 32 rows */
    assert_int_equal(count_hops("gemm_rs:bf16:128x4096x4096:r2", &machine), 2); /* 64x64, 64x128 */
    assert_int_equal(count_hops("gemm_rs:bf16:512x8192x4096:r2", &machine), 0);
    assert_int_equal(count_hops("gemm_rs:bf16:256x8192x2048:r4", &machine), 1); /* two waves */
    assert_int_equal(count_hops("gemm_rs:bf16:256x8192x14336:r4", &machine), 1);
    assert_int_equal(count_hops("gemm_rs:bf16:128x4096x4096:r2:cyclic=9", &machine), 0);
    assert_int_equal(count_tagged("gemm_ar:bf16:64x8192x4096:r2:call=9", &machine), 0);
    machine.pool = 2;
    assert_int_equal(count_tagged("gemm_ar:bf16:64x8192x4096:r2", &machine), 0);
}

/* A tile of the machine's that gives every SM one of few rows, though others
 * suit the product alone better. */
static void a_tile_for_every_sm_is_proposed(void **state)
{
    (void)state;
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    sg_machine machine = machine_of_tiles(64, 256);
    proposals all;
    int found = 0;
    machine.tagged_us = machine.hop_us = 3;
    machine.tiles = 4;
    machine.tile[1] = (sg_tile){.m = 64, .n = 128, .rate = 1};
    machine.tile[2] = (sg_tile){.m = 128, .n = 256, .rate = 1};
    machine.tile[3] = (sg_tile){.m = 128, .n = 128, .rate = 1};
    propose("gemm_ar:bf16:256x8192x4096:r4", strategy, &machine, &all);
    for (int i = 0; i < all.count; i++) {
        const int32_t *const value = all.set[i].value;
        found += value[knob_called(strategy, "tile_m")] == 128 &&
                 value[knob_called(strategy, "tile_n")] == 128 &&
                 value[knob_called(strategy, "tagged")] && !value[knob_called(strategy, "once")];
    }
    assert_int_equal(found, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strips_are_of_all_rows),
        cmocka_unit_test(own_rows_follow_their_strip),
        cmocka_unit_test(owners_of_columns),
        cmocka_unit_test(lags_of_any_length_end),
        cmocka_unit_test(own_rows_wait_in_their_strip),
        cmocka_unit_test(parts_have_flags_of_their_own),
        cmocka_unit_test(what_is_not_summed_goes_straight),
        cmocka_unit_test(a_call_has_no_strips),
        cmocka_unit_test(slices_are_of_whole_bands),
        cmocka_unit_test(slices_of_columns_are_proposed_for_slow_links),
        cmocka_unit_test(strips_are_proposed_where_b_is_large),
        cmocka_unit_test(own_rows_are_proposed_to_wait),
        cmocka_unit_test(strips_that_own_rows_follow_are_proposed),
        cmocka_unit_test(owners_of_columns_are_proposed),
        cmocka_unit_test(what_reads_b_once_is_proposed_first),
        cmocka_unit_test(tags_are_proposed_where_their_worth_is_known),
        cmocka_unit_test(a_tile_for_every_sm_is_proposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
