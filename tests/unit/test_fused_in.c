/* Tests of fused_in: what goes to whom in which order; of its strips, which tiles wait for what,
 * and where that is proposed. */
#include <stdio.h>

#include "built.h"
#include "core/blocks.h"
#include "core/moves.h"

/* Patches of rows that are here and that wait, by the strip's first column. */
static int held_patches(const sg_sched *s, int col0)
{
    int held = 0;
    for (int32_t i = 0; i < s->patches; i++)
        held += s->patch[i].a.buf == SG_A && s->patch[i].col0 == col0 && s->patch[i].waits > 0;
    return held;
}

/* The first patch, of own rows, waits for the slab of the second, which comes, that is multiplied
 * beside it. */
static void expect_step(const sg_sched *s, int32_t depth, int32_t slab)
{
    const sg_patch *const own = &s->patch[0];
    const sg_patch *const come = &s->patch[1];
    assert_int_equal(own->a.buf, SG_A);
    assert_int_equal(own->slab, slab);
    for (int32_t k = 0; k < depth; k += slab)
        for (int32_t row = 0; row < own->rows; row += 8) {
            const sg_wait *const wait = &s->wait[own->wait0];
            const sg_flags f = sg_walk_wait(wait, own->row0 + row, 8, k, 0);
            const sg_flags first = sg_walk_wait(&s->wait[come->wait0], come->row0, 8, k, 0);
            assert_int_equal(wait->by, 1);
            assert_int_equal(f.count, 1);
            assert_int_equal(f.first, first.first);
        }
}

/* A tile of own rows waits for the slab of the other's that is multiplied
 * beside it, in the first strip, or in all columns if it is asked to. */
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
    expect_step(s, 256, 64);
    discard(&b);
    build("ag_gemm:f32:32x32x256:r2",
          "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=3,strips=1}", &b);
    assert_int_equal(b.sched[0].patches, 2);
    expect_step(&b.sched[0], 256, 64);
    discard(&b);
    /* Of several others, the next one's. */
    build("ag_gemm:f32:48x32x256:r3",
          "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=1,strips=2}", &b);
    assert_int_equal(held_patches(&b.sched[2], 0), 1);
    assert_int_equal(b.sched[2].patch[0].waits, 1);
    assert_int_equal(b.sched[2].wait[b.sched[2].patch[0].wait0].by, 0);
    discard(&b);
}

/* Where it is no use: whole rows, all columns at once; or would wait for ever. */
static void own_rows_wait_for_nobody_else(void **state)
{
    (void)state;
    static const char *const ask[][2] = {
        {"ag_gemm:f32:32x32x256:r2",
         "fused_in{chunks=1,slabs=1,tile_m=8,tile_n=8,push=0,strips=2}"},
        {"ag_gemm:f32:32x32x256:r2",
         "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=0,strips=1}"},
        {"ag_gemm:f32:32x32x256:r2:rows=32,0",
         "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=0,strips=2}"},
        {"ag_gemm:f32:32x32x256:r2",
         "fused_in{chunks=1,slabs=1,tile_m=8,tile_n=8,push=3,strips=1}"},
        {"ag_gemm:f32:32x32x256:r2:gather=b",
         "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=3,strips=1}"},
        {"ag_gemm:f32:32x32x256:r2:gather=k",
         "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=3,strips=1}"},
        {"ag_gemm:f32:32x32x256:r2:rows=32,0",
         "fused_in{chunks=1,slabs=4,tile_m=8,tile_n=8,push=3,strips=1}"},
    };
    for (size_t i = 0; i < sizeof ask / sizeof ask[0]; i++) {
        built b;
        build(ask[i][0], ask[i][1], &b);
        assert_true(b.sched[0].patches > 0);
        assert_int_equal(held_patches(&b.sched[0], 0), 0);
        discard(&b);
    }
}

/* ---- What is sent ---------------------------------------------------------------------------- */

typedef struct sent {
    int peer, row0, col0;
} sent;

/* All that rank 0 sends, in order; STEPS_OUT: the copies of it. */
static int all_sent(const sg_sched *s, sent *all, int room, int *steps_out)
{
    int count = 0;
    *steps_out = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind != SG_COPY) continue;
        ++*steps_out;
        assert_int_equal(step->raises, step->tos);
        for (int32_t j = 0; j < step->tos; j++) {
            const sg_area *const to = &s->to[step->to0 + j];
            assert_true(count < room);
            assert_int_equal(s->raise[step->raise0 + j].at, to->rank);
            assert_int_equal(to->col0, step->u.copy.src.col0);
            all[count++] = (sent){to->rank, step->u.copy.src.row0, to->col0};
        }
    }
    return count;
}

static void expect_sent(const char *problem, const char *strategy, const sent *expected, int count,
                        int steps)
{
    sent all[32];
    int copies = 0;
    built b;
    build(problem, strategy, &b);
    assert_int_equal(all_sent(&b.sched[0], all, 32, &copies), count);
    assert_int_equal(copies, steps);
    for (int i = 0; i < count; i++) {
        assert_int_equal(all[i].peer, expected[i].peer);
        assert_int_equal(all[i].row0, expected[i].row0);
        assert_int_equal(all[i].col0, expected[i].col0);
    }
    discard(&b);
}

/* Nobody waits for the last peer's first part of k until the first peer has its last one. */
static void parts_of_k_are_pushed_to_all_side_by_side(void **state)
{
    (void)state;
    static const sent gather[] = {{3, 0, 0},  {2, 0, 0},  {1, 0, 0},  {3, 0, 64},
                                  {2, 0, 64}, {1, 0, 64}, {3, 8, 0},  {2, 8, 0},
                                  {1, 8, 0},  {3, 8, 64}, {2, 8, 64}, {1, 8, 64}};
    expect_sent("ag_gemm:f32:64x32x128:r4",
                "fused_in{chunks=2,slabs=2,tile_m=8,tile_n=8,push=1,strips=1}", gather, 12, 4);
    /* Each peer gets other rows, rank 1 none. */
    static const sent exchange[] = {{3, 32, 0}, {2, 16, 0}, {3, 32, 64}, {2, 16, 64},
                                    {3, 40, 0}, {2, 24, 0}, {3, 40, 64}, {2, 24, 64}};
    expect_sent("a2a_gemm:f32:64x32x128:r4:counts=16,0,16,16/16,16,16,16/16,16,16,16/16,16,16,16",
                "fused_in{chunks=2,slabs=2,tile_m=8,tile_n=8,push=1,strips=1}", exchange, 8, 8);
}

/* Tiles come to the rows of one owner behind those of another: so do whole rows; and an engine
 * takes its time to turn to another peer. */
static void the_rest_goes_peer_by_peer(void **state)
{
    (void)state;
    static const sent rows[] = {{2, 0, 0}, {2, 8, 0}, {1, 0, 0}, {1, 8, 0}};
    static const sent parts[] = {{2, 0, 0}, {2, 0, 64}, {1, 0, 0}, {1, 0, 64}};
    expect_sent("ag_gemm:f32:48x32x128:r3",
                "fused_in{chunks=2,slabs=1,tile_m=8,tile_n=8,push=1,strips=1}", rows, 4, 4);
    expect_sent("ag_gemm:f32:48x32x128:r3",
                "fused_in{chunks=1,slabs=2,tile_m=8,tile_n=8,push=0,strips=1}", parts, 4, 4);
    expect_sent("ag_gemm:f32:48x32x128:r3",
                "fused_in{chunks=1,slabs=2,tile_m=8,tile_n=8,push=2,strips=1}", parts, 4, 4);
}

/* Own rows are in front, in tiles as much narrower as they are fewer than the others'. */
static void own_rows_are_a_wave_of_narrow_tiles(void **state)
{
    (void)state;
    built b;
    build("ag_gemm:f32:128x200x256:r4",
          "fused_in{chunks=1,slabs=2,tile_m=8,tile_n=96,push=5,strips=1}", &b);
    const sg_sched *const s = &b.sched[1];
    const sg_launch *launch = NULL;
    for (int32_t i = 0; i < s->steps; i++)
        if (s->step[i].kind == SG_LAUNCH) launch = &s->step[i].u.launch;
    assert_non_null(launch);
    assert_int_equal(s->patches, 3); /* those of ranks 2 and 3 are one */
    for (int32_t i = 0; i < 3; i++) assert_int_equal(s->patch[i].tile_n, i == 0 ? 32 : 0);
    assert_int_equal(sg_sched_patch_visits(s, launch, 0), 4 * 7);
    for (int32_t i = 0; i < 28; i++) {
        sg_visit v;
        sg_sched_patch_visit(s, launch, 0, i, &v);
        assert_int_equal(v.col0, v.tile % 7 * 32);
        assert_int_equal(v.cols, v.tile % 7 < 6 ? 32 : 8);
    }
    assert_int_equal(sg_blocks_in_waves(&s->patch[launch->patch0], 3, 8, 96), 12 * 3);
    discard(&b);
    /* Of two ranks there is nothing to make narrower. */
    build("ag_gemm:f32:64x200x256:r2",
          "fused_in{chunks=1,slabs=2,tile_m=8,tile_n=96,push=5,strips=1}", &b);
    assert_int_equal(b.sched[0].patch[0].tile_n, 0);
    discard(&b);
}

/* ---- What is proposed ------------------------------------------------------------------------ */

/* Are chunks of k proposed for TEXT by PUSH, with strips or without? */
static bool proposes(const char *text, int push, bool in_strips)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_in");
    const int slabs = knob_called(strategy, "slabs");
    const int by_push = knob_called(strategy, "push");
    const int strips = knob_called(strategy, "strips");
    sg_machine machine = machine_of_tiles(128, 256);
    proposals all;
    bool found = false;
    machine.gemm_tflops[SG_BF16] = 700;
    machine.mem_gbps = 4200;
    propose(text, strategy, &machine, &all);
    assert_true(all.count > 0);
    for (int i = 0; i < all.count; i++) {
        const int32_t *const value = all.set[i].value;
        found |= value[slabs] > 1 && value[by_push] == push && (value[strips] > 1) == in_strips;
    }
    return found;
}

static void strips_are_proposed_for_few_waves(void **state)
{
    (void)state;
    assert_true(proposes("ag_gemm:bf16:512x24576x12288:r2", 0, true));
    assert_true(proposes("ag_gemm:bf16:512x24576x12288:r2", 1, true));
    assert_true(proposes("ag_gemm:bf16:512x12288x12288:r4", 1, true));
    assert_false(proposes("ag_gemm:bf16:512x5120x8192:r2", 0, true));    /* one wave */
    assert_false(proposes("ag_gemm:bf16:2048x24576x12288:r2", 0, true)); /* twelve */
    assert_false(proposes("ag_gemm:bf16:2048x5120x8192:r2", 0, true));   /* 17 MB to wait for */
    assert_false(proposes("ag_gemm:bf16:512x24576x12288:r4", 0, true));
    assert_false(proposes("ag_gemm:bf16:512x24576x12288:r2:gather=b", 0, true));
}

static void pushed_parts_are_proposed_for_few_waves_or_strips(void **state)
{
    (void)state;
    assert_true(proposes("ag_gemm:bf16:512x5120x8192:r2", 1, false));
    assert_true(proposes("ag_gemm:bf16:2048x5120x8192:r2", 1, false)); /* two waves */
    assert_false(proposes("ag_gemm:bf16:2048x28672x8192:r2", 1, false));
    assert_false(proposes("ag_gemm:bf16:2048x2560x8192:r4", 1, false));
    assert_true(proposes("ag_gemm:bf16:512x2560x8192:r4", 1, false));
    assert_false(proposes("ag_gemm:bf16:2048x2560x8192:r4", 1, true)); /* 25 MB */
    /* Own rows as a wave of their own: where the others' are one. */
    assert_true(proposes("ag_gemm:bf16:2048x2560x8192:r4", 5, false));
    assert_false(proposes("ag_gemm:bf16:2048x2816x8192:r4", 5, false));
    assert_false(proposes("ag_gemm:bf16:2048x1280x8192:r4", 5, false));
    assert_false(proposes("ag_gemm:bf16:2048x2560x8192:r2", 5, false));
    assert_false(proposes("ag_gemm:bf16:2048x2560x8192:r4:b=1280,1280", 5, false));
    /* To one peer after the other: of several, where a few waves need them so. */
    assert_true(proposes("ag_gemm:bf16:2048x2560x8192:r4", 2, false));
    assert_false(proposes("ag_gemm:bf16:512x2560x8192:r4", 2, false));
    assert_false(proposes("ag_gemm:bf16:8192x2560x8192:r4", 2, false));
    assert_false(proposes("ag_gemm:bf16:2048x5120x8192:r2", 2, false));
}

/* What is proposed for few rows beside the rest is not the rest once more. */
static void nothing_is_proposed_twice(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "a2a_gemm:bf16:256x8128x4992:r2", "a2a_gemm:bf16:333x3776x896:r2",
        "a2a_gemm:bf16:640x2496x1984:r2", "ag_gemm:bf16:512x5120x8192:r2",
        "ag_gemm:bf16:2500x4096x3560:r2", "ag_gemm:bf16:4096x3072x2048:r2:gather=k"};
    const sg_strategy *const strategy = sg_strategy_find("fused_in");
    sg_machine machine;
    assert_int_equal(sg_machine_read("machines/h200x2.machine", &machine), SHINGLE_OK);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        proposals all;
        propose(problems[i], strategy, &machine, &all);
        assert_true(all.count > 1);
        for (int a = 0; a < all.count; a++)
            for (int b = 0; b < a; b++)
                if (memcmp(&all.set[a], &all.set[b], sizeof all.set[a]) == 0)
                    fail_msg("%s: sets %d and %d are alike", problems[i], b, a);
    }
}

/* The most parts of k that are proposed for TEXT by PUSH, in tiles of COLS columns. */
static int most_parts(const char *text, double courier_gbps, int push, int cols)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_in");
    const int slabs = knob_called(strategy, "slabs");
    const int by_push = knob_called(strategy, "push");
    const int tile_n = knob_called(strategy, "tile_n");
    sg_machine machine = machine_of_tiles(128, 256);
    proposals all;
    int most = 0;
    machine.courier_gbps = courier_gbps;
    machine.gemm_tflops[SG_BF16] = 700;
    machine.mem_gbps = 4200;
    propose(text, strategy, &machine, &all);
    for (int i = 0; i < all.count; i++) {
        const int32_t *const value = all.set[i].value;
        if (value[by_push] == push && value[tile_n] == cols && value[slabs] > most)
            most = value[slabs];
    }
    return most;
}

/* An engine takes its time for each, and so does who raises what many couriers have carried. */
static void parts_of_k_are_few_where_each_takes_its_time(void **state)
{
    (void)state;
    assert_int_equal(most_parts("ag_gemm:bf16:512x5120x8192:r2", 35, 1, 256), 4);
    assert_int_equal(most_parts("ag_gemm:bf16:512x5120x6144:r2", 35, 1, 256), 3);
    assert_int_equal(most_parts("ag_gemm:bf16:512x5120x1024:r2", 35, 1, 256), 3);
    assert_int_equal(most_parts("ag_gemm:bf16:512x5120x8192:r2", 35, 0, 256), 4);
    assert_int_equal(most_parts("ag_gemm:bf16:512x5120x8192:r2", 0, 1, 256), 8); /* by storers */
    assert_int_equal(most_parts("ag_gemm:bf16:512x5120x8192:r2", 0, 0, 256), 4);
    assert_int_equal(most_parts("ag_gemm:bf16:512x8192x1536:r2", 35, 1, 256), 3);  /* by four SMs */
    assert_int_equal(most_parts("ag_gemm:bf16:2048x5120x8192:r2", 35, 1, 256), 8); /* two waves */
}

/* Beside tiles so narrow that all SMs have one, some so wide that many are left over. */
static void tiles_leave_couriers_to_two_ranks(void **state)
{
    (void)state;
    assert_int_equal(most_parts("ag_gemm:bf16:512x4096x4096:r2", 35, 1, 128), 3);
    assert_int_equal(most_parts("ag_gemm:bf16:512x4096x4096:r2", 35, 1, 160), 3);
    assert_int_equal(most_parts("ag_gemm:bf16:512x4096x4096:r2", 0, 1, 160), 0);
    assert_int_equal(most_parts("ag_gemm:bf16:512x4096x4096:r4", 35, 1, 160), 0);
    assert_int_equal(most_parts("ag_gemm:bf16:512x3584x4096:r2", 35, 1, 128), 3); /* has some */
    assert_int_equal(most_parts("ag_gemm:bf16:1024x1536x8192:r2", 35, 1, 128), 4);
    assert_int_equal(most_parts("ag_gemm:bf16:1024x7424x8192:r2", 35, 1, 512), 0); /* wide */
}

/* Held back where the product takes long enough for parts of k to come, or, beside many couriers,
 * where much of it is reading B. */
static void own_rows_are_held_in_long_products_of_one_wave(void **state)
{
    (void)state;
    assert_true(proposes("ag_gemm:bf16:512x8192x8192:r2", 3, false));
    assert_false(proposes("ag_gemm:bf16:512x8192x2048:r2", 3, false));
    assert_true(proposes("ag_gemm:bf16:256x16384x8192:r2", 3, false));
    assert_int_equal(most_parts("ag_gemm:bf16:256x9216x6144:r2", 35, 3, 160), 3);
    assert_int_equal(most_parts("ag_gemm:bf16:256x9216x6144:r2", 35, 1, 160), 3); /* too */
    assert_int_equal(most_parts("ag_gemm:bf16:256x9216x6144:r2", 0, 3, 160), 0);
    assert_false(proposes("ag_gemm:bf16:160x16384x8192:r2", 3, false)); /* waits for the memory */
    assert_false(proposes("ag_gemm:bf16:512x2560x8192:r2", 3, false));  /* 24 SMs without tiles */
    assert_false(proposes("ag_gemm:bf16:2048x5120x8192:r2", 3, false)); /* two waves */
    assert_false(proposes("ag_gemm:bf16:512x2560x8192:r4", 3, false));
}

/* ---- Order of tiles -------------------------------------------------------------------------- */

/* A group of bands that reached over the border of a chunk would wait for two before it has done
 * with the first; own rows wait for nobody, and their groups are as high as they like. */
static void groups_are_no_higher_than_what_comes_at_once(void **state)
{
    (void)state;
    built b;
    build("ag_gemm:bf16:512x512x64:r2",
          "fused_in{chunks=8,slabs=1,tile_m=16,tile_n=16,push=0,strips=1}", &b);
    for (int r = 0; r < 2; r++) {
        const sg_sched *const s = &b.sched[r];
        assert_int_equal(s->patches, 2);
        assert_int_equal(s->patch[0].width, sg_moves_group(256, 16, 16));
        assert_true(s->patch[0].width > 2);
        assert_int_equal(s->patch[1].width, 2); /* bands of 32 rows */
    }
    discard(&b);
}

/* Whole rows have not come while the first strip of own ones is multiplied: so it is a wave of
 * these.  Parts of k have. */
static void the_first_strip_is_wider_for_whole_rows(void **state)
{
    (void)state;
    for (int slabs = 1; slabs <= 2; slabs++) {
        char plan[80];
        built b;
        snprintf(plan, sizeof plan, "fused_in{chunks=1,slabs=%d,tile_m=8,tile_n=8,push=0,strips=4}",
                 slabs);
        build("ag_gemm:bf16:16x64x128:r2", plan, &b);
        assert_int_equal(b.sched[0].patch[0].cols, slabs > 1 ? 16 : 2 * 16);
        assert_int_equal(b.sched[0].patch[2].cols, 16);
        discard(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_rows_keep_step),
        cmocka_unit_test(own_rows_wait_for_nobody_else),
        cmocka_unit_test(parts_of_k_are_pushed_to_all_side_by_side),
        cmocka_unit_test(the_rest_goes_peer_by_peer),
        cmocka_unit_test(own_rows_are_a_wave_of_narrow_tiles),
        cmocka_unit_test(strips_are_proposed_for_few_waves),
        cmocka_unit_test(pushed_parts_are_proposed_for_few_waves_or_strips),
        cmocka_unit_test(parts_of_k_are_few_where_each_takes_its_time),
        cmocka_unit_test(tiles_leave_couriers_to_two_ranks),
        cmocka_unit_test(nothing_is_proposed_twice),
        cmocka_unit_test(own_rows_are_held_in_long_products_of_one_wave),
        cmocka_unit_test(groups_are_no_higher_than_what_comes_at_once),
        cmocka_unit_test(the_first_strip_is_wider_for_whole_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
