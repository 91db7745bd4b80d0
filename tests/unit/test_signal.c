/* Tests of the strategy `signal`: every tile has one place, a group holds the same part of every
 * owner's tiles, what one rank sends fits what the other receives, reorders bring everything back,
 * and the search finds what trying everything finds. */
#include <stdlib.h>

#include "built.h"
#include "core/machine.h"

extern const sg_strategy sg_strategy_signal;

enum { UNIT, CUTS, SMS, BLOCKS, TILE_M, TILE_N };

static const char *const problems[] = {
    "gemm_ar:bf16:100x90x8:r4",         "gemm_ar:bf16:100x90x8:r3:bias:gelu",
    "gemm_rs:bf16:100x90x8:r4",         "gemm_rs:bf16:100x90x8:r5:rows=0,33,1,60,6",
    "gemm_rs:f32:101x7x8:r3:cyclic=9",  "gemm_a2a:f32:64x20x8:r4",
    "gemm_a2a:f32:61x20x8:r4:silu",     "gemm_a2a:f16:6x20x8:r3:counts=1,3,0/2,2,1/0,4,2",
    "gemm_rs:bf16:64x64x8:r2:call=100",
};
enum { PROBLEMS = sizeof problems / sizeof problems[0] };

static const sg_knobs knob_sets[] = {
    {{8, 0, 4, 100, 16, 16}},
    {{1, 0x155, 4, 100, 8, 32}},
    {{5, 0x3ff, 0, 0, 7, 9}},
    {{1000, 0x7, 2, 50, 128, 128}},
};
enum { SETS = sizeof knob_sets / sizeof knob_sets[0] };

/* Marks every place that the tiled areas of S's patches name; all of them once. */
static void mark_places(const sg_sched *s, bool stored, unsigned char *seen, int64_t places)
{
    for (int32_t i = 0; i < s->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        if ((p->k0 < p->k1) != stored) continue;
        const sg_area *const a = stored ? &s->to[p->to0] : &s->add[p->add0].area;
        assert_true(a->tiled);
        const int32_t tile_m = a->rows / p->tiles;
        assert_int_equal(a->row0 % tile_m, 0);
        for (int32_t t = 0; t < p->tiles; t++) {
            const int64_t place = a->row0 / tile_m + t;
            assert_true(place < places);
            assert_int_equal(seen[place], 0);
            seen[place] = 1;
        }
    }
    for (int64_t i = 0; i < places; i++) assert_int_equal(seen[i], 1);
}

static void every_tile_has_one_place(void **state)
{
    (void)state;
    for (int i = 0; i < PROBLEMS; i++) {
        for (int j = 0; j < SETS; j++) {
            built b;
            build_with(problems[i], &sg_strategy_signal, &knob_sets[j], &b);
            for (int r = 0; r < b.problem.ranks; r++) {
                const sg_sched *const s = &b.sched[r];
                const int32_t tile_m = s->step[0].u.launch.tile_m;
                const bool in_place = sg_problem_out(&b.problem) == SG_OUT_ALL;
                const int arrived = in_place ? SG_USER_BUFS : SG_USER_BUFS + 1;
                const int bufs[2] = {SG_USER_BUFS, arrived};
                for (int k = 0; k < 2; k++) {
                    const int64_t places = s->buf[bufs[k]].rows / tile_m;
                    unsigned char *const seen = calloc((size_t)places + 1, 1);
                    assert_non_null(seen);
                    mark_places(s, k == 0, seen, places);
                    free(seen);
                }
            }
            discard(&b);
        }
    }
}

/* The reorders store every element of C once. */
static void everything_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < PROBLEMS; i++) {
        for (int j = 0; j < SETS; j++) {
            built b;
            build_with(problems[i], &sg_strategy_signal, &knob_sets[j], &b);
            for (int r = 0; r < b.problem.ranks; r++) {
                const sg_sched *const s = &b.sched[r];
                int64_t stored = 0;
                for (int32_t step = 0; step < s->steps; step++) {
                    if (s->step[step].kind != SG_LAUNCH) continue;
                    const sg_launch *const l = &s->step[step].u.launch;
                    for (int32_t v = 0; v < l->visits; v++) {
                        sg_visit visit;
                        sg_sched_visit(s, l, v, &visit);
                        if (visit.k0 == visit.k1) stored += (int64_t)visit.rows * visit.cols;
                    }
                }
                assert_int_equal(stored, sg_problem_c_rows(&b.problem, r) * b.problem.n);
            }
            discard(&b);
        }
    }
}

/* The N-th collective of a rank, or NULL. */
static const sg_step *coll_at(const sg_sched *s, int n)
{
    for (int32_t i = 0; i < s->steps; i++)
        if (s->step[i].kind == SG_COLL && n-- == 0) return &s->step[i];
    return NULL;
}

static void assert_same_shape(const sg_area *a, const sg_area *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
}

static void senders_and_receivers_agree(void **state)
{
    (void)state;
    for (int i = 0; i < PROBLEMS; i++) {
        for (int j = 0; j < SETS; j++) {
            built b;
            build_with(problems[i], &sg_strategy_signal, &knob_sets[j], &b);
            const int ranks = b.problem.ranks;
            for (int g = 0; coll_at(&b.sched[0], g) != NULL; g++) {
                for (int r = 0; r < ranks; r++) {
                    const sg_step *const mine = coll_at(&b.sched[r], g);
                    assert_non_null(mine);
                    for (int q = 0; q < ranks; q++) {
                        const sg_step *const theirs = coll_at(&b.sched[q], g);
                        const sg_area *const to = &b.sched[q].to[theirs->to0];
                        const sg_area *const from = &b.sched[r].to[mine->to0];
                        if (mine->u.coll.kind == SG_ALL_TO_ALL)
                            assert_same_shape(&from[q], &to[ranks + r]);
                        else if (mine->u.coll.kind == SG_REDUCE_SCATTER)
                            assert_same_shape(&mine->u.coll.self, &to[r]);
                        else
                            assert_same_shape(&mine->u.coll.self, &theirs->u.coll.self);
                    }
                }
            }
            for (int r = 1; r < ranks; r++) assert_int_equal(b.sched[r].colls, b.sched[0].colls);
            discard(&b);
        }
    }
}

/* 4 ranks with 8 x 4 tiles each, groups behind 32 and 96 of the 128: 8, 16 and 8 tiles an owner. */
static void groups_hold_equal_parts(void **state)
{
    (void)state;
    built b;
    const sg_knobs knobs = {{32, 5, 4, 100, 16, 16}};
    build_with("gemm_rs:bf16:512x64x8:r4", &sg_strategy_signal, &knobs, &b);
    const int32_t tiles[] = {8, 16, 8};
    for (int g = 0; g < 3; g++) {
        const sg_step *const coll = coll_at(&b.sched[2], g);
        assert_non_null(coll);
        for (int q = 0; q < 4; q++)
            assert_int_equal(b.sched[2].to[coll->to0 + q].rows, tiles[g] * 16);
        assert_int_equal(coll->waits, 1);
        assert_int_equal(b.sched[2].wait[coll->wait0].flag0, g);
    }
    assert_null(coll_at(&b.sched[2], 3));
    /* One product, then the reorders of groups 0 and 1, and of group 2. */
    const sg_step *const last = &b.sched[2].step[b.sched[2].steps - 1];
    assert_int_equal(last->kind, SG_LAUNCH);
    assert_int_equal(last->u.launch.visits, 8);
    assert_int_equal(last[-1].u.launch.visits, 24);
    assert_int_equal(b.sched[2].step[last[-1].after[0]].u.coll.seq, 1);
    assert_int_equal(b.sched[2].step[last->after[0]].u.coll.seq, 2);
    discard(&b);
}

/* ---- Search ---------------------------------------------------------------------------------- */

/* Written down once more: when all is there if groups end behind the units whose bits are set. */
static double latency_us(int units, double unit_us, double coll_us, double us_a_unit, int cuts)
{
    double free_at = 0;
    int length = 0;
    for (int i = 0; i < units; i++) {
        length++;
        if (i + 1 < units && !(cuts & 1 << i)) continue;
        const double computed = unit_us * (i + 1);
        if (free_at < computed) free_at = computed;
        free_at += coll_us + us_a_unit * length;
        length = 0;
    }
    return free_at;
}

/* A curve that says no more than start-up and rate do. */
static sg_curve curve_of(const sg_machine *machine, double passes)
{
    sg_curve curve = {.points = 2};
    for (int i = 0; i < 2; i++) {
        const double message = i == 0 ? 1e6 : 1e9;
        const double bus = passes * message;
        const double us = machine->coll_us + bus / (machine->coll_gbps * 1e3);
        curve.point[i] = (sg_point){message, bus / us / 1e3};
    }
    return curve;
}

static void search_finds_the_best(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t m, n, k;
        bool curve;
    } cases[] = {{"gemm_ar:bf16:4096x4096x2048:r4", 4096, 4096, 2048, false},
                 {"gemm_ar:bf16:4096x4096x2048:r4", 4096, 4096, 2048, true},
                 {"gemm_ar:bf16:8192x8192x512:r4", 8192, 8192, 512, false},
                 {"gemm_ar:bf16:2048x8192x16384:r4", 2048, 8192, 16384, false},
                 {"gemm_ar:bf16:2048x8192x16384:r4", 2048, 8192, 16384, true}};
    sg_machine machine = {.name = "test",
                          .ranks = 4,
                          .sms = 129, /* one is left to the collective's wait */
                          .gemm_tflops = {129, 129, 129},
                          .mem_gbps = 1000,
                          .coll_gbps = 20,
                          .coll_us = 15,
                          .coll_sms = 0,
                          .tile = {{128, 256, 1, 0}},
                          .tiles = 1};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        proposals all;
        const sg_curve none = {0};
        machine.coll_curve[SG_ALL_REDUCE] = cases[i].curve ? curve_of(&machine, 1.5) : none;
        propose(cases[i].text, &sg_strategy_signal, &machine, &all);
        assert_true(all.count > 0);
        const int64_t tiles = cases[i].m / 128 * (cases[i].n / 256);
        const int64_t unit = all.set[0].value[UNIT];
        assert_int_equal(unit % 128, 0);
        const int units = (int)((tiles + unit - 1) / unit);
        assert_in_range(units, 2, 10);
        const double tile_us = 2.0 * 128 * 256 * (double)cases[i].k / (100e6 / 128);
        const double unit_us = (double)unit / 128 * tile_us;
        const double us_a_unit =
            2.0 * 3 / 4 * 2 * (double)cases[i].m * (double)cases[i].n / units / 20e3;
        double best = 1e30;
        for (int cuts = 0; cuts < 1 << (units - 1); cuts++) {
            const double us = latency_us(units, unit_us, 15, us_a_unit, cuts);
            if (us < best) best = us;
        }
        const double found = latency_us(units, unit_us, 15, us_a_unit, all.set[0].value[CUTS]);
        if (found > best * (1 + 1e-9)) fail_msg("%s: %g us, best %g", cases[i].text, found, best);
    }
}

static void collectives_are_given_two_counts_of_sms(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    machine.coll_part = (sg_curve){3, {{2, 0.3}, {4, 0.8}, {10, 1}}};
    proposals all;
    propose("gemm_ar:bf16:4096x4096x2048:r4", &sg_strategy_signal, &machine, &all);
    bool all_sms = false;
    bool few = false;
    for (int i = 0; i < all.count; i++) {
        const int32_t *const knobs = all.set[i].value;
        all_sms |= knobs[SMS] == 10;
        few |= knobs[SMS] == 4;
        assert_int_equal(knobs[SMS] + knobs[BLOCKS], machine.sms);
    }
    assert_true(all_sms && few);
}

/* 96 tiles of 128x256 fit 100 SMs, but not the 90 that the collective leaves; 64 of 128x384 do. */
static void tiles_fit_the_sms_that_are_left(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    machine.tiles = 2;
    machine.tile[1] = (sg_tile){128, 384, 0.9, 1};
    proposals all;
    propose("gemm_ar:bf16:1024x3072x4096:r4", &sg_strategy_signal, &machine, &all);
    assert_int_equal(all.set[0].value[TILE_N], 384);
    int first = 0;
    for (int i = 0; i < all.count; i++) first += all.set[i].value[TILE_N] == 256;
    assert_true(first > 0);
}

static void declines_with_a_reason(void **state)
{
    (void)state;
    static const char *const texts[] = {"ag_gemm:bf16:64x64x64:r4", "gemm:bf16:64x64x64:r4",
                                        "a2a_gemm:bf16:64x64x64:r4", "gemm_ar:bf16:64x64x64:r1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        sg_problem p;
        assert_int_equal(sg_problem_parse(texts[i], &p), SHINGLE_OK);
        char reason[160] = "";
        sg_text why = {reason, sizeof reason, 0};
        assert_false(sg_strategy_signal.accepts(&p, &why));
        assert_true(why.length > 0);
        sg_problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_has_one_place),
        cmocka_unit_test(everything_comes_back),
        cmocka_unit_test(senders_and_receivers_agree),
        cmocka_unit_test(groups_hold_equal_parts),
        cmocka_unit_test(search_finds_the_best),
        cmocka_unit_test(declines_with_a_reason),
        cmocka_unit_test(collectives_are_given_two_counts_of_sms),
        cmocka_unit_test(tiles_fit_the_sms_that_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
