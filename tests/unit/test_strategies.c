/* Tests of what strategies make of their knobs where the proof of check would not see the
 * difference: which way messages of a ring go, and that collectives get what lies side by side. */
#include <stdio.h>

#include "built.h"
#include "core/check.h"

/* ---- ring ------------------------------------------------------------------------------------ */

static const char *const round_trips[] = {"ag_gemm:f32:100x24x16:r5", "gemm_rs:f32:100x24x16:r5",
                                          "gemm_ar:f32:100x24x16:r5",
                                          "ag_gemm:f32:24x100x16:r5:gather=b"};
enum { ROUND_TRIPS = sizeof round_trips / sizeof round_trips[0] };

/* Elements that the copies of lane LANE carry, all of them to the rank DISTANCE further on. */
static int64_t carried(const sg_sched *s, int lane, int distance)
{
    int64_t elements = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind != SG_COPY || step->lane != lane) continue;
        const sg_area *const to = &s->to[step->to0];
        assert_int_equal(to->rank, (s->rank + distance + s->problem->ranks) % s->problem->ranks);
        elements += (int64_t)to->rows * to->cols;
    }
    return elements;
}

static void a_ring_goes_one_way_or_both(void **state)
{
    (void)state;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        built one;
        built both;
        build(round_trips[i],
              "ring{sub=2,split=0,blocks=0,tile_m=2,tile_n=2,both=0,vendor=0,taper=0}", &one);
        build(round_trips[i],
              "ring{sub=1,split=0,blocks=0,tile_m=2,tile_n=2,both=1,vendor=0,taper=0}", &both);
        for (int r = 0; r < one.problem.ranks; r++) {
            const int64_t all = carried(&one.sched[r], 1, 1);
            assert_true(all > 0);
            assert_int_equal(carried(&one.sched[r], 2, -1), 0);
            assert_int_equal(carried(&both.sched[r], 1, 1), all / 2);
            assert_int_equal(carried(&both.sched[r], 2, -1), all / 2);
        }
        discard(&one);
        discard(&both);
    }
}

/* Rows of a gather are multiplied in the order in which they come: from as far to either side. */
static void both_ways_meet_on_the_other_side(void **state)
{
    (void)state;
    built b;
    build(round_trips[0], "ring{sub=1,split=0,blocks=0,tile_m=2,tile_n=2,both=1,vendor=0,taper=0}",
          &b);
    for (int r = 0; r < b.problem.ranks; r++) {
        const sg_sched *const s = &b.sched[r];
        assert_int_equal(s->patches, 1 + 2 * (b.problem.ranks - 1));
        for (int i = 0; i < s->patches; i++) {
            const int distance = (i + 1) / 2;
            const int side = i % 2 ? -1 : 1; /* what goes to the right comes from the left */
            const sg_patch *const p = &s->patch[i];
            const int owner = (r + side * distance + b.problem.ranks) % b.problem.ranks;
            assert_int_equal(p->row0, owner * 20 + (i > 0 && side > 0 ? 10 : 0));
            assert_int_equal(p->rows, i > 0 ? 10 : 20);
            assert_int_equal(p->waits, i > 0);
            if (i > 0)
                assert_int_equal(s->wait[p->wait0].by,
                                 (r + side + b.problem.ranks) % b.problem.ranks);
        }
    }
    discard(&b);
}

/* The last slice is halved, and again: what is sent on at the end is little. */
static void slices_taper_off(void **state)
{
    (void)state;
    static const int32_t rows[] = {16, 8, 4, 4};
    for (int vendor = 0; vendor < 2; vendor++) {
        built b;
        char plan[96];
        sg_text t = {plan, sizeof plan, 0};
        int copies = 0;
        sg_text_add(&t, "ring{sub=2,split=0,blocks=0,tile_m=2,tile_n=2,both=0,vendor=%d,taper=2}",
                    vendor);
        build("gemm_ar:f32:64x8x16:r2", plan, &b);
        const sg_sched *const s = &b.sched[0];
        for (int32_t i = 0; i < s->steps; i++) {
            const sg_step *const step = &s->step[i];
            if (step->kind != SG_COPY) continue;
            assert_int_equal(step->u.copy.src.rows, rows[copies++ % 4]);
            /* On a GPU a lane that waits for a flag of its own rank would take an SM. */
            assert_int_equal(step->waits, !vendor);
            assert_int_equal(step->after[0] >= 0, vendor);
        }
        assert_int_equal(copies, 8); /* of partial sums, then of finished rows */
        discard(&b);
    }
}

static void both_ways_are_proposed_where_links_differ(void **state)
{
    (void)state;
    static const char *const texts[] = {"gemm_rs:bf16:512x512x512:r2",
                                        "gemm_rs:bf16:512x512x512:r4"};
    const sg_strategy *const ring = sg_strategy_find("ring");
    const int both = knob_called(ring, "both");
    for (int topology = 0; topology < SG_TOPOLOGIES; topology++) {
        for (int i = 0; i < 2; i++) {
            proposals all;
            sg_machine machine;
            sg_machine_plain(&machine);
            machine.topology = (sg_topology)topology;
            propose(texts[i], ring, &machine, &all);
            assert_true(all.count > 0);
            const bool links = topology == SG_RING || topology == SG_MESH;
            assert_int_equal(all.set[0].value[both], links && i == 1);
            assert_int_equal(all.set[all.count - 1].value[both], 0);
        }
    }
}

/* ---- sliced ---------------------------------------------------------------------------------- */

static const char *const sliceable[] = {
    "ag_gemm:f32:50x30x16:r5",         "gemm_rs:f32:50x30x16:r5",
    "gemm_ar:f32:50x30x16:r5:bias",    "gemm_rs:f32:50x30x16:r5:rows=9,0,20,1,20:relu",
    "gemm_a2a:f32:50x30x16:r5",        "ag_gemm:f32:50x30x16:r5:gather=b",
    "gemm_rs:f32:50x30x16:r3:cyclic=4"};
enum { SLICEABLE = sizeof sliceable / sizeof sliceable[0] };

static bool lies_side_by_side(const sg_sched *s, const sg_area *a)
{
    return a->rows <= 1 || a->cols == s->buf[a->buf].cols;
}

/* What libraries take has no gaps, however slices are cut. */
static void collectives_get_what_lies_side_by_side(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "sliced{slices=4,sms=0,blocks=0,tile_m=4,tile_n=4,by=0}",
        "sliced{slices=4,sms=0,blocks=0,tile_m=4,tile_n=4,by=1}"}; /* of 8, 8, 8 and 6 columns */
    for (int i = 0; i < SLICEABLE; i++) {
        for (int j = 0; j < 2; j++) {
            built b;
            build(sliceable[i], plans[j], &b);
            int colls = 0;
            for (int r = 0; r < b.problem.ranks; r++) {
                const sg_sched *const s = &b.sched[r];
                for (int32_t x = 0; x < s->steps; x++) {
                    const sg_step *const step = &s->step[x];
                    if (step->kind != SG_COLL) continue;
                    colls++;
                    if (step->u.coll.kind != SG_ALL_TO_ALL)
                        assert_true(lies_side_by_side(s, &step->u.coll.self));
                    for (int32_t a = 0; a < step->tos; a++)
                        assert_true(lies_side_by_side(s, &s->to[step->to0 + a]));
                }
            }
            assert_true(colls >= 2 * b.problem.ranks);
            discard(&b);
        }
    }
}

/* Columns leave every product as high as the whole, and only sums are cut that way. */
static void slices_of_columns_keep_their_height(void **state)
{
    (void)state;
    static const char plan[] = "sliced{slices=4,sms=0,blocks=0,tile_m=4,tile_n=4,by=1}";
    for (int i = 0; i < SLICEABLE; i++) {
        built b;
        build(sliceable[i], plan, &b);
        const sg_sched *const s = &b.sched[1];
        const bool sums = sg_problem_sums(&b.problem);
        int launches = 0;
        for (int32_t x = 0; x < s->steps; x++) {
            const sg_launch *const l = &s->step[x].u.launch;
            if (s->step[x].kind != SG_LAUNCH) continue;
            int64_t rows = 0;
            for (int32_t j = l->patch0; j < l->patch0 + l->patches; j++) {
                const sg_patch *const p = &s->patch[j];
                rows += p->rows;
                if (!sums) continue;
                assert_int_equal(p->col0, 8 * launches);
                assert_int_equal(p->cols, launches < 3 ? 8 : 6);
            }
            if (sums) assert_int_equal(rows, 50);
            if (!sums && b.problem.gather == SG_GATHER_A) assert_true(rows < 50);
            launches++;
        }
        assert_true(launches >= 2);
        if (sums) assert_int_equal(launches, 4);
        discard(&b);
    }
}

/* Fewer SMs are proposed where a machine says that collectives do well on them, and tiles that fill
 * the waves of a slice on the SMs that are left. */
static void slices_are_proposed_for_the_sms_left(void **state)
{
    (void)state;
    const sg_strategy *const sliced = sg_strategy_find("sliced");
    sg_machine machine;
    sg_machine_plain(&machine);
    machine.coll_part = (sg_curve){3, {{2, 0.5}, {4, 0.8}, {10, 1}}};
    machine.tiles = 2;
    machine.tile[0] = (sg_tile){128, 256, 1, 1};
    machine.tile[1] = (sg_tile){128, 128, 1, 1};
    proposals all;
    /* One of two slices: 96 wide tiles, which are two waves of 90 SMs and one of 96, or 192 narrow
     * ones, three of 90 and two of 96. */
    propose("gemm_ar:bf16:4096x1536x4096:r4", sliced, &machine, &all);
    bool few = false;
    for (int i = 0; i < all.count; i++) {
        const int32_t *const k = all.set[i].value;
        assert_true(k[1] == 10 || k[1] == 4);
        assert_int_equal(k[1] + k[2], 100);
        few |= k[1] == 4;
    }
    assert_true(few);
    assert_int_equal(all.set[0].value[0], 2);
    assert_int_equal(all.set[0].value[1], 10);
    assert_int_equal(all.set[0].value[4], 128);
    assert_int_equal(all.set[2].value[1], 4);
    assert_int_equal(all.set[2].value[4], 256);
    machine.coll_part.points = 0;
    propose("gemm_ar:bf16:4096x1536x4096:r4", sliced, &machine, &all);
    for (int i = 0; i < all.count; i++) assert_int_equal(all.set[i].value[1], 10);
}

/* The collective of a slice runs under the next slice's product: neither waits for the other. */
static void collectives_are_under_the_next_product(void **state)
{
    (void)state;
    static const char *const plans[] = {"sliced{slices=3,sms=0,blocks=0,tile_m=4,tile_n=4,by=0}",
                                        "sliced{slices=3,sms=0,blocks=0,tile_m=4,tile_n=4,by=1}"};
    for (int i = 1; i < 3; i++) {
        for (int j = 0; j < 2; j++) {
            built b;
            build(sliceable[i], plans[j], &b);
            const sg_sched *const s = &b.sched[2];
            int32_t gemm = -1;
            int colls = 0;
            for (int32_t x = 0; x < s->steps; x++) {
                const sg_step *const step = &s->step[x];
                if (step->kind == SG_LAUNCH) {
                    assert_true(step->lane == 0 && step->after[0] < 0);
                    gemm = x;
                }
                if (step->kind != SG_COLL) continue;
                assert_true(step->lane == 1 && step->after[0] == gemm && step->after[1] < 0);
                colls++;
            }
            assert_int_equal(colls, 3);
            discard(&b);
        }
    }
}

/* ---- serial ---------------------------------------------------------------------------------- */

/* Windows are proposed beside what is always possible, where the machine has a curve, and for
 * collectives that the library has in one piece. */
static void windows_are_proposed_where_they_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int gathers, scatters; /* proposals with a curve for one or the other */
    } asked[] = {{"ag_gemm:f32:100x24x16:r5", 2, 1},
                 {"ag_gemm:f32:24x100x16:r5:gather=b", 2, 1},
                 {"ag_gemm:f32:24x100x50:r5:gather=k", 2, 1},
                 {"gemm_rs:f32:100x24x16:r5", 1, 2},
                 {"gemm_rs:f32:100x24x16:r5:norm", 1, 2},
                 {"ag_gemm:f32:101x24x16:r5", 1, 1},
                 {"gemm_rs:f32:99x24x16:r5", 1, 1},
                 {"gemm_ar:f32:100x24x16:r5", 1, 1},
                 {"a2a_gemm:f32:100x24x16:r5", 1, 1},
                 {"ag_gemm:f32:100x24x16:r1", 1, 1},
                 {"gemm:f32:100x24x16:r5", 1, 1}};
    const sg_strategy *const serial = sg_strategy_find("serial");
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        for (int kind = SG_ALL_GATHER; kind <= SG_REDUCE_SCATTER; kind++) {
            sg_problem p;
            sg_machine machine;
            proposals all;
            sg_machine_plain(&machine);
            assert_int_equal(sg_problem_parse(asked[i].problem, &p), SHINGLE_OK);
            propose_to(&p, serial, &machine, &all);
            assert_int_equal(all.count, 1);
            machine.coll_curve[SG_MACHINE_COLLS + kind] = (sg_curve){1, {{1e6, 100}}};
            propose_to(&p, serial, &machine, &all);
            if (all.count != (kind == SG_ALL_GATHER ? asked[i].gathers : asked[i].scatters))
                fail_msg("%s: %d proposals", asked[i].problem, all.count);
            assert_int_equal(all.set[0].value[2], 0);
            if (all.count > 1) assert_int_equal(all.set[1].value[2], 1);
            sg_problem_free(&p);
        }
}

static void proposals_keep_the_sm_rule(void **state)
{
    (void)state;
    static const char *const names[] = {"ring", "sliced"};
    sg_checker *const checker = sg_checker_new();
    assert_non_null(checker);
    sg_machine machine;
    sg_machine_plain(&machine);
    machine.topology = SG_RING;
    machine.tile[0] = (sg_tile){4, 4, 1, 1};
    for (int i = 0; i < ROUND_TRIPS + SLICEABLE; i++) {
        for (int j = 0; j < 2; j++) {
            const sg_strategy *const strategy = sg_strategy_find(names[j]);
            sg_problem p;
            proposals all;
            assert_int_equal(
                sg_problem_parse(i < ROUND_TRIPS ? round_trips[i] : sliceable[i - ROUND_TRIPS], &p),
                SHINGLE_OK);
            propose_to(&p, strategy, &machine, &all);
            assert_true(all.count > 0 || all.why[0] != '\0');
            for (int x = 0; x < all.count; x++) {
                sg_check_result result;
                for (int y = 0; y < x; y++)
                    assert_memory_not_equal(&all.set[x], &all.set[y], sizeof all.set[x]);
                if (sg_check_built(checker, &p, strategy, &all.set[x], machine.sms, &result) !=
                    SHINGLE_OK)
                    fail_msg("%s, set %d: %s", names[j], x, result.why);
            }
            sg_problem_free(&p);
        }
    }
    sg_checker_free(checker);
}

/* 4 x 20 tiles of 128x256 leave two of five SMs idle, 4 x 40 of 128x128 need a second wave, and 4 x
 * 32 of 128x160 fill one. */
static void tiles_that_fill_waves_are_proposed_first(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int n;
    } want[] = {
        {"ag_gemm:bf16:512x5120x8192:r2", 160},
        {"gemm_rs:bf16:512x8192x4096:r2", 256},
        {"ag_gemm:bf16:512x28672x8192:r2", 224},
    };
    static const int widths[] = {256, 224, 160, 128};
    const sg_strategy *const direct = sg_strategy_find("direct");
    const int tile_n = knob_called(direct, "tile_n");
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        proposals all;
        sg_machine machine = machine_of_tiles(128, 0);
        machine.tiles = 4;
        for (int j = 0; j < 4; j++) machine.tile[j] = (sg_tile){128, widths[j], 0.9, 1};
        propose(want[i].problem, direct, &machine, &all);
        assert_true(all.count > 0);
        assert_int_equal(all.set[0].value[tile_n], want[i].n);
        assert_int_equal(machine.tile[0].n, 256);
        machine.pool = 2; /* no waves */
        propose(want[i].problem, direct, &machine, &all);
        assert_true(all.count > 0);
        assert_int_equal(all.set[0].value[tile_n], 256);
    }
}

/* ---- Patches of a gather --------------------------------------------------------------------- */

/* Rows of many owners stand side by side, and a patch lists at most 64 of them. */
static void long_runs_are_several_patches(void **state)
{
    (void)state;
    sg_problem p;
    sg_sched s = {0};
    const sg_strategy *strategy = NULL;
    sg_knobs knobs;
    bool given = false;
    assert_int_equal(sg_problem_parse("ag_gemm:f32:130x8x8:r130", &p), SHINGLE_OK);
    assert_int_equal(
        sg_strategy_parse("fused_in{chunks=1,slabs=1,tile_m=8,tile_n=8,push=0,strips=1}", &strategy,
                          NULL, &knobs, &given),
        SHINGLE_OK);
    sg_sched_begin(&s, &p, 0);
    strategy->build(&p, &knobs, 0, &s);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    assert_int_equal(s.patches, 4);
    static const int rows[] = {1, 64, 64, 1};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(s.patch[i].rows, rows[i]);
        assert_int_equal(s.patch[i].waits, i > 0 ? rows[i] : 0);
    }
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* Up to four patches along k leave a sum each for the last one to add; more are a chain. */
static void few_sums_along_k_stay_apart(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 6; ranks++) {
        char text[64];
        built b;
        snprintf(text, sizeof text, "ag_gemm:f32:16x16x%d:r%d:gather=k", 8 * ranks, ranks);
        build(text, "direct{chunks=1,split=0,blocks=0,tile_m=8,tile_n=8,vendor=0}", &b);
        const sg_sched *const s = &b.sched[1];
        assert_int_equal(s->patches, ranks);
        for (int i = 0; i < ranks; i++) {
            const bool last = i == ranks - 1;
            const int apart = last ? ranks - 1 : 0;
            assert_int_equal(s->patch[i].adds, ranks <= 4 ? apart : i > 0);
        }
        discard(&b);
    }
}

/* Each B has the first group of bands before any has the next, so that none waits for the last
 * rows. */
static void groups_of_several_b_alternate(void **state)
{
    (void)state;
    enum { TILE = 16, ROWS = 2048 };
    built b;
    build("ag_gemm:f32:4096x32x8:r2:b=16,16",
          "fused_in{chunks=1,slabs=1,tile_m=16,tile_n=16,push=0,strips=1}", &b);
    const sg_sched *const s = &b.sched[0];
    assert_true(s->patches > 4);
    for (int32_t i = 0; i < s->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        assert_int_equal(p->col0, i % 2 * TILE);
        assert_true(p->rows <= p->width * TILE && p->rows < ROWS);
        if (i % 2) assert_int_equal(p->row0, p[-1].row0);
    }
    discard(&b);
}

/* The rows of r+1 are multiplied first behind the own ones, so rank r sends to r-1 first, and all
 * in one lane, in that order. */
static void rows_leave_in_the_order_they_are_wanted(void **state)
{
    (void)state;
    built b;
    build("ag_gemm:f32:40x16x8:r5", "direct{chunks=1,split=0,blocks=0,tile_m=8,tile_n=8,vendor=0}",
          &b);
    const sg_sched *const s = &b.sched[1];
    static const int peers[] = {0, 4, 3, 2};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(s->step[i].kind, SG_COPY);
        assert_int_equal(s->step[i].lane, 1);
        assert_int_equal(s->to[s->step[i].to0].rank, peers[i]);
    }
    discard(&b);
}

/* A launch for each owner is none for who owns nothing. */
static void owners_without_rows_have_no_launch(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "direct{chunks=1,split=1,blocks=0,tile_m=8,tile_n=8,vendor=0}",
        "ring{sub=1,split=1,blocks=0,tile_m=8,tile_n=8,both=0,vendor=0,taper=0}"};
    for (int i = 0; i < 2; i++) {
        built b;
        int launches = 0;
        build("ag_gemm:f32:24x16x8:r3:rows=16,0,8", plans[i], &b);
        for (int32_t j = 0; j < b.sched[0].steps; j++)
            launches += b.sched[0].step[j].kind == SG_LAUNCH;
        assert_int_equal(launches, 2);
        discard(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_that_fill_waves_are_proposed_first),
        cmocka_unit_test(a_ring_goes_one_way_or_both),
        cmocka_unit_test(both_ways_meet_on_the_other_side),
        cmocka_unit_test(slices_taper_off),
        cmocka_unit_test(both_ways_are_proposed_where_links_differ),
        cmocka_unit_test(collectives_get_what_lies_side_by_side),
        cmocka_unit_test(slices_of_columns_keep_their_height),
        cmocka_unit_test(slices_are_proposed_for_the_sms_left),
        cmocka_unit_test(collectives_are_under_the_next_product),
        cmocka_unit_test(windows_are_proposed_where_they_are_known),
        cmocka_unit_test(proposals_keep_the_sm_rule),
        cmocka_unit_test(long_runs_are_several_patches),
        cmocka_unit_test(few_sums_along_k_stay_apart),
        cmocka_unit_test(groups_of_several_b_alternate),
        cmocka_unit_test(rows_leave_in_the_order_they_are_wanted),
        cmocka_unit_test(owners_without_rows_have_no_launch),
    };
    return cmocka_run_group_tests_name("strategies", tests, NULL, NULL);
}
