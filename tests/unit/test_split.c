/* Tests of split.c: parts of k that visits of their own multiply. */
#include "built.h"
#include "core/split.h"

enum { TILE = 8 };

/* Two pieces of 24 rows, one behind the other, in up to SPLITS parts. */
static sg_split_k split_pieces(const char *text, int splits, sg_problem *p, sg_sched *s)
{
    assert_int_equal(sg_problem_parse(text, p), SHINGLE_OK);
    sg_sched_begin(s, p, 0);
    sg_split_k split = sg_split_begin(s, splits, (sg_tiling){TILE, TILE, 0}, 5);
    sg_sched_launch(s, 0, TILE, TILE, 0, false);
    for (int i = 0; i < 2; i++) {
        const sg_piece piece = {.row0 = 24 * i, .rows = 24};
        sg_split_patch(s, &split, &piece, 0, true);
        sg_split_add(s, &split);
        sg_sched_to(s, sg_area_of(0, SG_C, 24 * i, 24, 0, p->n));
    }
    if (sg_sched_seal(s) != SHINGLE_OK) fail_msg("%s", shingle_error());
    return split;
}

static void drop(sg_problem *p, sg_sched *s)
{
    sg_sched_free(s);
    sg_problem_free(p);
}

static void parts_of_k_follow_each_other(void **state)
{
    (void)state;
    sg_problem p;
    sg_sched s = {0};
    const sg_split_k split = split_pieces("gemm:bf16:48x16x200:r1", 3, &p, &s);
    assert_int_equal(split.parts, 2); /* of 128 and 72: multiples of 64 */
    assert_int_equal(s.patches, 4);
    for (int i = 0; i < 4; i++) {
        const sg_patch *const part = &s.patch[i];
        const bool last = i % 2 == 1;
        assert_int_equal(part->row0, 24 * (i / 2));
        assert_int_equal(part->k0, last ? 128 : 0);
        assert_int_equal(part->k1, last ? 200 : 128);
        assert_int_equal(part->a.col0, part->k0);
        assert_int_equal(part->b.cols, part->k1 - part->k0);
        assert_int_equal(part->final, last);
        assert_int_equal(part->own_at, last); /* behind the sum before it */
        assert_int_equal(part->adds, last);
        assert_int_equal(part->raises, !last);
    }
    /* Six tiles of a piece have a flag each, counted from 5 on. */
    assert_int_equal(s.raise[s.patch[0].raise0].flag0, 5);
    assert_int_equal(s.raise[s.patch[2].raise0].flag0, 11);
    assert_int_equal(s.add[s.patch[3].add0].wait.flag0, 11);
    assert_int_equal(s.add[s.patch[3].add0].wait.per, SG_PER_TILE);
    assert_int_equal(split.flag, 17);
    /* And a place of the tile's size. */
    assert_int_equal(s.buf[split.buf].rows, 12 * TILE);
    assert_int_equal(s.buf[split.buf].cols, TILE);
    for (int i = 0; i < 2; i++) {
        const sg_area *const to = &s.to[s.patch[2 * i].to0];
        const sg_area *const add = &s.add[s.patch[2 * i + 1].add0].area;
        assert_true(to->tiled && add->tiled);
        assert_int_equal(to->row0, 6 * TILE * i);
        assert_int_equal(add->row0, to->row0);
        assert_int_equal(to->rows, 6 * TILE);
    }
    drop(&p, &s);
}

/* Of a strip of columns, patches, flags and places are fewer. */
static void a_strip_is_cut_like_the_whole(void **state)
{
    (void)state;
    sg_problem p;
    sg_sched s = {0};
    const sg_piece piece = {.rows = 24};
    assert_int_equal(sg_problem_parse("gemm:bf16:24x40x200:r1", &p), SHINGLE_OK);
    sg_sched_begin(&s, &p, 0);
    sg_split_k split = sg_split_begin(&s, 2, (sg_tiling){TILE, TILE, 0}, 0);
    assert_int_equal(sg_split_tiles(&s, &split, &piece), 15);
    sg_sched_launch(&s, 0, TILE, TILE, 0, false);
    for (int i = 0; i < 2; i++) {
        split.col0 = 24 * i, split.cols = i == 0 ? 24 : 16;
        assert_int_equal(sg_split_tiles(&s, &split, &piece), i == 0 ? 9 : 6);
        sg_split_patch(&s, &split, &piece, 0, true);
        sg_split_add(&s, &split);
        sg_sched_to(&s, sg_area_of(0, SG_C, 0, 24, split.col0, split.cols));
    }
    if (sg_sched_seal(&s) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_int_equal(s.patches, 4);
    for (int i = 0; i < 4; i++) {
        const sg_patch *const part = &s.patch[i];
        assert_int_equal(part->col0, i < 2 ? 0 : 24);
        assert_int_equal(part->b.row0, part->col0);
        assert_int_equal(part->b.rows, i < 2 ? 24 : 16);
    }
    assert_int_equal(s.raise[s.patch[2].raise0].flag0, 9);
    assert_int_equal(s.add[s.patch[3].add0].wait.flag0, 9);
    assert_int_equal(s.buf[split.buf].rows, 15 * TILE);
    drop(&p, &s);
}

static void what_cannot_be_cut_stays_whole(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int splits;
    } whole[] = {{"gemm:bf16:48x16x200:r1", 1},
                 {"gemm:bf16:48x16x0:r1", 4},
                 {"gemm:bf16:48x16x1:r1", 4},
                 {"gemm:bf16:48x16x200:r1:call=7", 4},
                 {"gemm_rs:bf16:4000x16x200:r2:cyclic=1", 4}}; /* tiles would be mostly empty */
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        sg_problem p;
        sg_sched s = {0};
        const sg_split_k split = split_pieces(whole[i].problem, whole[i].splits, &p, &s);
        assert_int_equal(split.parts, 1);
        assert_int_equal(s.bufs, SG_USER_BUFS);
        assert_int_equal(s.patches, 2);
        assert_int_equal(s.raises, 0);
        assert_int_equal(s.patch[1].k1, p.k);
        drop(&p, &s);
    }
}

static void parts_fill_the_sms(void **state)
{
    (void)state;
    assert_int_equal(sg_split_parts(64, 8192, 132), 2);
    assert_int_equal(sg_split_parts(32, 8192, 132), 4);
    assert_int_equal(sg_split_parts(67, 8192, 132), 1);
    assert_int_equal(sg_split_parts(1, 1 << 20, 132), 8); /* sums cost, too */
    assert_int_equal(sg_split_parts(1, 1024, 132), 2);    /* and short parts are none */
    assert_int_equal(sg_split_parts(1, 100, 132), 1);
    assert_int_equal(sg_split_parts(0, 8192, 132), 1);
}

/* Few tiles in parts take less time, on a machine that has SMs left. */
static void small_products_are_proposed_in_parts(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "gemm_rs:bf16:64x512x8192:r2", "gemm_ar:bf16:64x512x8192:r2",
        "gemm_rs:bf16:64x512x8192:r2:call=9", "gemm_rs:bf16:8192x8192x8192:r2"};
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    const int splits = knob_called(strategy, "splits");
    sg_machine machine;
    sg_machine_plain(&machine);
    for (int i = 0; i < 4; i++) {
        proposals all;
        propose(problems[i], strategy, &machine, &all);
        const int most = most_of(&all, splits);
        if (i < 2)
            assert_true(most > 1);
        else
            assert_int_equal(most, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_k_follow_each_other),
        cmocka_unit_test(a_strip_is_cut_like_the_whole),
        cmocka_unit_test(what_cannot_be_cut_stays_whole),
        cmocka_unit_test(parts_fill_the_sms),
        cmocka_unit_test(small_products_are_proposed_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
