/* Tests of seal.c: what the sealer adds, and what extreme problems do to all strategies.  What it
 * refuses is in test_seal_rules.c. */
#include <stdio.h>
#include <stdlib.h>

#include "built.h"
#include "by_hand.h"

/* ---- Sealing --------------------------------------------------------------------------------- */

static void sealing_adds_the_protocol(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm_rs:f32:8x4x6:r2");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    const int inbox = sg_sched_buf(&s, SG_SYM, "inbox", 4, 4, 0);
    const int pad = sg_sched_buf(&s, SG_SYM, "pad", 1, 1, 0);
    sg_sched_launch(&s, 0, 2, 2, 0, false);
    sg_patch patch = rows_of(&s, 4, 4);
    sg_sched_patch(&s, &patch); /* the peer's rows go to its inbox, tile by tile */
    sg_sched_to(&s, sg_area_of(1, inbox, 0, 4, 0, 4));
    sg_sched_raise(&s, 1, SG_PER_TILE, 20);
    sg_sched_raise(&s, 1, SG_PER_PATCH, 30);
    sg_sched_launch(&s, 0, 8, 8, 0, false);
    patch = rows_of(&s, 0, 4);
    sg_sched_patch(&s, &patch);
    const sg_wait wait = sg_wait_one(1, 40);
    sg_sched_add(&s, sg_area_of(0, inbox, 0, 4, 0, 4), &wait);
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, 4, 0, 4));
    sg_sched_raise(&s, 0, SG_PER_PATCH, 50);
    sg_sched_flag(&s, 0);
    sg_sched_raise(&s, 1, SG_PER_PATCH, 30);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);

    assert_true(s.peers && s.hello && s.done && !s.baked);
    assert_true(s.step[0].gate && s.step[1].gate && !s.step[2].gate);
    assert_int_equal(s.to[0].leave, 0); /* SYM is behind the gate, not behind the peer's hello */
    assert_int_equal(s.flags, 51);

    /* Raisers: one a tile, four visits and a step for flag 30, one for 50. */
    assert_int_equal(s.raise[0].counter, -1);
    assert_int_equal(s.counter[s.raise[1].counter], 5);
    assert_int_equal(s.raise[2].counter, -1);
    assert_int_equal(s.raise[3].counter, s.raise[1].counter);

    assert_int_equal(s.buf[inbox].offset % SG_BUF_ALIGN, 0);
    assert_true(s.buf[pad].offset >= s.buf[inbox].offset + 4 * 4 * 4);
    assert_true(s.arena_bytes[SG_SYM] >= s.buf[pad].offset + 4 && s.arena_bytes[SG_USER] == 0);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

static void stores_into_a_peers_output_wait_for_its_hello(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm_ar:f32:4x4x6:r2");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    sg_sched_copy(&s, 0, SG_BY_ENGINE, sg_area_of(0, SG_C, 0, 2, 0, 4));
    sg_sched_to(&s, sg_area_of(1, SG_C, 0, 2, 0, 4));
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    assert_true(s.to[0].leave == 1 && s.buf[SG_C].reach == 1 && s.step[0].gate && s.peers);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* One buffer with a fixed address is enough, wherever it stands among the others. */
static void one_engine_buffer_fixes_the_half(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm_rs:f32:8x4x6:r2");
    sg_sched s = {0};
    for (int engine = 0; engine < 4; engine++) {
        sg_sched_begin(&s, &p, 0);
        for (int i = 0; i < 3; i++)
            sg_sched_buf(&s, SG_SYM, "inbox", 4, 4, i == engine ? SG_FIXED : 0);
        assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
        assert_int_equal(s.baked, engine < 3);
    }
    sg_sched_free(&s);
    sg_problem_free(&p);
}

static void parts_of_a_raster_count_their_raisers(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm_rs:f32:8x4x6:r2");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    const int tiles = sg_sched_buf(&s, SG_LIBRARY, "tiles", 2 * 8, 2, 0);
    sg_sched_launch(&s, 0, 2, 2, 0, false);
    for (int i = 0; i < 2; i++) { /* 3 and 5 of 8 tiles; the flag of the last 5 is shared */
        sg_patch patch = rows_of(&s, 0, 8);
        patch.tile0 = 3 * i;
        patch.tiles = 3 + 2 * i;
        sg_sched_patch(&s, &patch);
        sg_sched_to(&s, sg_area_tiled(0, tiles, 3 * i, 3 + 2 * i, 2, 2));
        sg_sched_raise(&s, 0, SG_PER_PATCH, i);
        sg_sched_raise(&s, 0, SG_PER_TILE, 10);
    }
    sg_sched_flag(&s, 0);
    sg_sched_raise(&s, 0, SG_PER_PATCH, 1);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    assert_int_equal(s.step[0].u.launch.visits, 8);
    assert_int_equal(s.counter[s.raise[0].counter], 3);
    assert_int_equal(s.counter[s.raise[2].counter], 6);
    assert_int_equal(s.raise[4].counter, s.raise[2].counter);
    assert_true(s.raise[1].counter == -1 && s.raise[3].counter == -1);
    assert_int_equal(s.flags, 10 + 8); /* tiles are counted over the whole raster */
    assert_false(s.peers || s.step[0].gate);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* Rows of B that a peer has stored, and sums of what is already there. */
static void operands_and_addends_stand_behind_the_gate(void **state)
{
    (void)state;
    sg_problem p = problem_of("ag_gemm:f32:2x4x6:r2:gather=b:accumulate");
    sg_sched s = {0};
    for (int of_b = 0; of_b < 2; of_b++) {
        sg_sched_begin(&s, &p, 0);
        const int gathered = sg_sched_buf(&s, SG_SYM, "gathered", 4, 6, SG_FIXED);
        sg_sched_launch(&s, 0, 2, 2, 0, false);
        sg_patch patch = rows_of(&s, 0, 2);
        patch.cols = 2;
        patch.b = sg_area_of(0, of_b ? gathered : SG_B, 0, 2, 0, 6);
        sg_sched_patch(&s, &patch);
        sg_sched_add(&s, sg_area_of(0, SG_C, 0, 2, 0, 2), NULL);
        sg_sched_to(&s, sg_area_of(0, SG_C, 0, 2, 0, 2));
        assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
        assert_int_equal(s.step[0].gate, of_b);
    }
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* Slabs as long as chunks of k, of a patch that begins amid one: each would wait for the first of
 * two chunks that it reads. */
static void slabs_begin_where_chunks_do(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm_rs:f32:8x4x6:r2");
    sg_sched s = {0};
    for (int32_t k0 = 0; k0 <= 4; k0 += 2) {
        sg_sched_begin(&s, &p, 0);
        sg_patch patch = rows_of(&s, 0, 4);
        patch.k0 = patch.a.col0 = patch.b.col0 = k0;
        patch.a.cols = patch.b.cols = patch.k1 - k0;
        patch.slab = 4;
        sg_sched_launch(&s, 0, 2, 2, 0, false);
        sg_sched_patch(&s, &patch);
        sg_sched_wait(
            &s,
            (sg_wait){
                .by = 1, .per = SG_PER_ROWS, .rows = 4, .chunk = 2, .chunk_k = 4, .chunks_k = 2});
        assert_int_equal(sg_sched_seal(&s), k0 % 4 == 0 ? SHINGLE_OK : SHINGLE_EBUG);
    }
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* ---- All strategies -------------------------------------------------------------------------- */

/* Extents at the edge of what a problem may ask: every strategy builds a schedule that seals, or
 * the sealer says what is too large.  Under the sanitizers no number may overflow on the way. */
static void extremes_are_sealed_or_refused(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "2147483647x2147483647x2147483647:r2",
        "2147483647x1x1:r1",
        "2147483647x1x1:r1024",
        "1x2147483647x1:r3",
        "1x1x2147483647:r3",
        "2147483647x2147483647x1:r2",
        "2147483647x1x2147483647:r7",
        "65536x3x5:r3:cyclic=1",
        "2147483647x3x5:r5:cyclic=65536",
        "0x2147483647x1:r3",
        "2147483647x0x1:r3",
        "2147483647x1x0:r3",
    };
    static const char *const ops[][2] = {{"ag_gemm", ""},          {"gemm_rs", ""},
                                         {"gemm_ar", ""},          {"gemm", ":accumulate"},
                                         {"a2a_gemm", ""},         {"gemm_a2a", ":call=2147483647"},
                                         {"ag_gemm", ":gather=b"}, {"ag_gemm", ":gather=k"}};
    enum { OPS = sizeof ops / sizeof ops[0] };
    sg_sched s = {0};
    int sealed = 0;
    int refused = 0;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0] * OPS; i++) {
        char text[100];
        char why[200];
        snprintf(text, sizeof text, "%s:f32:%s%s", ops[i % OPS][0], problems[i / OPS],
                 ops[i % OPS][1]);
        sg_problem p;
        const shingle_status status = sg_problem_parse(text, &p);
        if (status != SHINGLE_OK) { /* what does not go together */
            assert_true(status == SHINGLE_EINVAL && (strstr(text, "a2a") || strstr(text, "x0:")));
            continue;
        }
        const sg_strategy *strategy = NULL;
        for (int j = 0; (strategy = sg_strategy_at(j)) != NULL; j++) {
            sg_text t = {why, sizeof why, 0};
            if (!strategy->accepts(&p, &t)) continue;
            for (int most = 0; most < 2; most++) {
                sg_knobs knobs = {0};
                for (int x = 0; x < SG_MAX_KNOBS && strategy->knob[x].name != NULL; x++)
                    knobs.value[x] = most ? strategy->knob[x].most : strategy->knob[x].least;
                sg_sched_begin(&s, &p, p.ranks - 1);
                strategy->build(&p, &knobs, p.ranks - 1, &s);
                if (sg_sched_seal(&s) == SHINGLE_OK) {
                    sealed++;
                } else {
                    refused++;
                    if (strstr(shingle_error(), "too ") == NULL)
                        fail_msg("%s %s{%s}: %s", text, strategy->name, most ? "most" : "least",
                                 shingle_error());
                }
            }
        }
        sg_problem_free(&p);
    }
    print_message("%d sealed, %d refused\n", sealed, refused);
    assert_true(sealed > 100 && refused > 10);
    sg_sched_free(&s);
}

/* A word of a rank that is none, or in front of the first, would be somebody else's memory. */
static void flags_have_a_rank_and_a_number(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        int rank;
        int32_t flag;
    } wrong[] = {{"no rank", 2, 0}, {"no rank", -1, 0}, {"no flag", 1, -1}};
    sg_problem p = problem_of("gemm_rs:f32:8x4x6:r2");
    sg_sched s = {0};
    for (int i = 0; i < 12; i++) {
        const sg_wait wait = sg_wait_one(wrong[i % 3].rank, wrong[i % 3].flag);
        const sg_area own = sg_area_of(0, SG_C, 0, 4, 0, 4);
        const bool patch = i < 6; /* or a step */
        const bool raises = i % 6 < 3;
        sg_sched_begin(&s, &p, 0);
        if (patch) {
            const sg_patch rows = rows_of(&s, 0, 4);
            sg_sched_launch(&s, 0, 2, 2, 0, false);
            sg_sched_patch(&s, &rows);
        } else {
            sg_sched_reduce(&s, 0, true);
        }
        sg_sched_add(&s, own, raises ? NULL : &wait);
        sg_sched_to(&s, own);
        if (raises) sg_sched_raise(&s, wrong[i % 3].rank, SG_PER_PATCH, wrong[i % 3].flag);
        assert_int_equal(sg_sched_seal(&s), SHINGLE_EBUG);
        assert_non_null(strstr(shingle_error(), raises ? ": a raise" : ": a wait"));
        assert_non_null(strstr(shingle_error(), wrong[i % 3].says));
    }
    sg_sched_free(&s);
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealing_adds_the_protocol),
        cmocka_unit_test(stores_into_a_peers_output_wait_for_its_hello),
        cmocka_unit_test(one_engine_buffer_fixes_the_half),
        cmocka_unit_test(parts_of_a_raster_count_their_raisers),
        cmocka_unit_test(operands_and_addends_stand_behind_the_gate),
        cmocka_unit_test(slabs_begin_where_chunks_do),
        cmocka_unit_test(flags_have_a_rank_and_a_number),
        cmocka_unit_test(extremes_are_sealed_or_refused),
    };
    return cmocka_run_group_tests_name("seal", tests, NULL, NULL);
}
