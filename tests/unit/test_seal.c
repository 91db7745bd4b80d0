/* Tests of seal.c: what the sealer adds and refuses, and what extreme problems do to all
 * strategies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/strategy.h"

static sg_problem problem_of(const char *text)
{
    sg_problem p;
    assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
    return p;
}

/* A patch that multiplies rows [ROW0, ROW0 + ROWS) over all columns and all of k. */
static sg_patch rows_of(const sg_sched *s, int32_t row0, int32_t rows)
{
    const sg_problem *const p = s->problem;
    return (sg_patch){.row0 = row0,
                      .rows = rows,
                      .cols = (int32_t)p->n,
                      .k1 = (int32_t)p->k,
                      .a = sg_area_of(s->rank, SG_A, row0, rows, 0, p->k),
                      .b = sg_area_of(s->rank, SG_B, 0, p->n, 0, p->k)};
}

/* ---- Sealing -------------------------------------------------------------------------------------- */

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
    sg_sched_patch(&s, &patch); /* the peer's rows go to its inbox, band by band */
    sg_sched_to(&s, sg_area_of(1, inbox, 0, 4, 0, 4));
    sg_sched_raise(&s, 1, SG_PER_BAND, 10);
    sg_sched_raise(&s, 1, SG_PER_TILE, 20);
    sg_sched_raise(&s, 1, SG_PER_PATCH, 30);
    sg_sched_launch(&s, 0, 8, 8, 0, false);
    patch = rows_of(&s, 0, 4);
    sg_sched_patch(&s, &patch);
    const sg_wait wait = sg_wait_one(1, 40);
    sg_sched_add(&s, sg_area_of(0, inbox, 0, 4, 0, 4), &wait);
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, 4, 0, 4));
    sg_sched_raise(&s, 0, SG_PER_BAND, 50);
    sg_sched_flag(&s, 0);
    sg_sched_raise(&s, 1, SG_PER_PATCH, 30);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);

    assert_true(s.peers && s.hello && s.done && !s.baked);
    assert_true(s.step[0].gate && s.step[1].gate && !s.step[2].gate);
    assert_int_equal(s.to[0].leave, 0); /* SYM is behind the gate, not behind the peer's hello */
    assert_int_equal(s.flags, 51);

    /* Raisers: two visits a band, one a tile, four visits and a step for flag 30, one for 50. */
    assert_int_equal(s.counter[s.raise[0].counter], 2);
    assert_int_equal(s.counter[s.raise[0].counter + 1], 2);
    assert_int_equal(s.raise[1].counter, -1);
    assert_int_equal(s.counter[s.raise[2].counter], 5);
    assert_int_equal(s.raise[3].counter, -1);
    assert_int_equal(s.raise[4].counter, s.raise[2].counter);

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

/* One broken rule each, on rank 0 of gemm_rs:f32:8x4x6:r2. */
typedef struct breaker {
    const char *says;
    void (*build)(sg_sched *s);
} breaker;

static void launch_rows(sg_sched *s, sg_patch patch)
{
    sg_sched_launch(s, 0, 2, 2, 0, false);
    sg_sched_patch(s, &patch);
}

static void lane_high(sg_sched *s)
{
    sg_sched_flag(s, SG_MAX_LANES);
}

static void lane_low(sg_sched *s)
{
    sg_sched_flag(s, -1);
}

static void bufs_many(sg_sched *s)
{
    for (int i = 0; i < SG_MAX_BUFS; i++) sg_sched_buf(s, SG_LOCAL, "x", 1, 1, 0);
}

static void buf_huge(sg_sched *s)
{
    sg_sched_buf(s, SG_LOCAL, "x", INT64_MAX / 2, 5, 0);
}

static void buf_many_bytes(sg_sched *s)
{
    sg_sched_buf(s, SG_LOCAL, "x", SG_MAX_EXTENT, SG_MAX_EXTENT, SG_WIDE);
}

static void tiles_many(sg_sched *s)
{
    for (int i = 0; i < 2; i++) {
        sg_sched_launch(s, 0, 1, 1, 0, false);
        sg_patch patch = rows_of(s, 0, 4);
        patch.rows = patch.cols = 1 << (15 + i);
        sg_sched_patch(s, &patch);
    }
}

static void after_later(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_after(s, 1);
    sg_sched_flag(s, 1);
}

static void after_itself(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_after(s, 0);
}

static void after_three(sg_sched *s)
{
    for (int i = 0; i < 3; i++) sg_sched_flag(s, i);
    sg_sched_flag(s, 3);
    for (int i = 0; i < 3; i++) sg_sched_after(s, i);
}

static void patch_on_copy(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_ENGINE, sg_area_of(0, SG_A, 0, 1, 0, 1));
    const sg_patch patch = rows_of(s, 0, 4);
    sg_sched_patch(s, &patch);
}

static void add_on_copy(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_ENGINE, sg_area_of(0, SG_A, 0, 1, 0, 1));
    sg_sched_add(s, sg_area_of(0, SG_C, 0, 1, 0, 1), NULL);
}

static void store_in_flag(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 1, 0, 1));
}

static void read_below(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_A, 6, 3, 0, 1));
}

static void read_negative(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_A, -1, 3, 0, 1));
}

static void read_no_buffer(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_USER_BUFS, 0, 1, 0, 1));
}

static void read_no_rank(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(2, SG_A, 0, 1, 0, 1));
}

static void read_peer(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(1, SG_A, 0, 1, 0, 1));
}

static void store_right_of(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_A, 0, 1, 0, 5));
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 1, 0, 5));
}

static void store_in_input(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_A, 0, 1, 0, 1));
    sg_sched_to(s, sg_area_of(0, SG_B, 0, 1, 0, 1));
}

static void store_unreachable(sg_sched *s)
{
    const int local = sg_sched_buf(s, SG_LOCAL, "mine", 4, 4, 0);
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_A, 0, 1, 0, 1));
    sg_sched_to(s, sg_area_of(1, local, 0, 1, 0, 1));
}

static void store_reshaped(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_A, 0, 2, 0, 2));
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 1, 0, 4));
}

static void engine_unfixed(sg_sched *s)
{
    const int inbox = sg_sched_buf(s, SG_SYM, "inbox", 4, 4, 0);
    sg_sched_copy(s, 0, SG_BY_ENGINE, sg_area_of(0, SG_A, 0, 1, 0, 1));
    sg_sched_to(s, sg_area_of(1, inbox, 0, 1, 0, 1));
}

static void tiles_of_nothing(sg_sched *s)
{
    const sg_patch patch = rows_of(s, 0, 4);
    sg_sched_launch(s, 0, 0, 2, 0, false);
    sg_sched_patch(s, &patch);
}

static void k_too_long(sg_sched *s)
{
    sg_patch patch = rows_of(s, 0, 4);
    patch.k1 = 7;
    launch_rows(s, patch);
}

static void k_backwards(sg_sched *s)
{
    sg_patch patch = rows_of(s, 0, 4);
    patch.k0 = 4;
    patch.k1 = 2;
    launch_rows(s, patch);
}

static void operand_misfit(sg_sched *s)
{
    sg_patch patch = rows_of(s, 0, 4);
    patch.a.rows = 3;
    launch_rows(s, patch);
}

static void own_behind(sg_sched *s)
{
    sg_patch patch = rows_of(s, 0, 4);
    patch.own_at = 1;
    launch_rows(s, patch);
}

static void addend_misfit(sg_sched *s)
{
    launch_rows(s, rows_of(s, 0, 4));
    sg_sched_add(s, sg_area_of(0, SG_C, 0, 3, 0, 4), NULL);
}

static void wait_for_nobody(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_wait(s, sg_wait_one(2, 0));
}

static void wait_negative(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_wait(s, sg_wait_one(1, -1));
}

static void wait_rows_in_flag(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_wait(s, (sg_wait){.by = 1, .per = SG_PER_ROWS, .rows = 4, .chunk = 2, .chunks_k = 1});
}

static void wait_no_chunk(sg_sched *s)
{
    launch_rows(s, rows_of(s, 0, 4));
    sg_sched_wait(s, (sg_wait){.by = 1, .per = SG_PER_ROWS, .rows = 4, .chunk = 0, .chunks_k = 1});
}

static void slab_crosses_chunk(sg_sched *s)
{
    sg_patch patch = rows_of(s, 0, 4);
    patch.slab = 4;
    launch_rows(s, patch);
    sg_sched_wait(
        s,
        (sg_wait){.by = 1, .per = SG_PER_ROWS, .rows = 4, .chunk = 2, .chunk_k = 2, .chunks_k = 3});
}

static void vendor_waits(sg_sched *s)
{
    const sg_patch patch = rows_of(s, 0, 4);
    sg_sched_launch(s, 0, 8, 8, 0, true);
    sg_sched_patch(s, &patch);
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 4, 0, 4));
    sg_sched_wait(s, sg_wait_one(1, 0));
}

static void vendor_twice(sg_sched *s)
{
    sg_sched_launch(s, 0, 8, 8, 0, true);
    for (int i = 0; i < 2; i++) {
        const sg_patch patch = rows_of(s, 2 * i, 2);
        sg_sched_patch(s, &patch);
        sg_sched_to(s, sg_area_of(0, SG_C, 2 * i, 2, 0, 4));
    }
}

static void coll_short(sg_sched *s)
{
    const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", 8, 4, 0);
    sg_sched_coll(s, 0, SG_REDUCE_SCATTER, 0, sg_area_of(0, SG_C, 0, 4, 0, 4));
    sg_sched_to(s, sg_area_of(0, partial, 0, 4, 0, 4));
}

static void coll_at_peer(sg_sched *s)
{
    const int partial = sg_sched_buf(s, SG_SYM, "partial", 8, 4, SG_ENGINE);
    sg_sched_coll(s, 0, SG_ALL_GATHER, 0, sg_area_of(0, SG_A, 0, 4, 0, 4));
    sg_sched_to(s, sg_area_of(0, partial, 0, 4, 0, 4));
    sg_sched_to(s, sg_area_of(1, partial, 4, 4, 0, 4));
}

static void reduce_to_nowhere(sg_sched *s)
{
    sg_sched_reduce(s, 0, false);
    sg_sched_add(s, sg_area_of(0, SG_C, 0, 1, 0, 1), NULL);
}

static void lists_too_long(sg_sched *s)
{
    sg_sched_flag(s, 0);
    for (int i = 0; i <= UINT16_MAX; i++) sg_sched_wait(s, sg_wait_one(1, i));
}

static const breaker breakers[] = {
    {"lane 8; 0 to 7", lane_high},
    {"lane -1; 0 to 7", lane_low},
    {"more than 16 buffers", bufs_many},
    {"x of 4611686018427387903 x 5 is too large", buf_huge},
    {"elements, too large", buf_many_bytes},
    {"too many tiles of 1 x 1", tiles_many},
    {"after a later step", after_later},
    {"after a later step", after_itself},
    {"after more than two", after_three},
    {"patch outside a launch", patch_on_copy},
    {"takes no addends", add_on_copy},
    {"a flag step that stores", store_in_flag},
    {"reads outside a buffer", read_below},
    {"reads outside a buffer", read_negative},
    {"reads outside a buffer", read_no_buffer},
    {"reads outside a buffer", read_no_rank},
    {"reads a peer's memory", read_peer},
    {"stores outside a buffer", store_right_of},
    {"stores into an input", store_in_input},
    {"stores where peers cannot reach", store_unreachable},
    {"another shape than its source", store_reshaped},
    {"an engine in a buffer not declared", engine_unfixed},
    {"tiles of nothing", tiles_of_nothing},
    {"k out of range", k_too_long},
    {"k out of range", k_backwards},
    {"operands do not fit", operand_misfit},
    {"behind the addends", own_behind},
    {"another shape than its patch", addend_misfit},
    {"a wait for no rank", wait_for_nobody},
    {"a wait for no flag", wait_negative},
    {"without chunks", wait_rows_in_flag},
    {"without chunks", wait_no_chunk},
    {"slabs do not fit", slab_crosses_chunk},
    {"takes no waits", vendor_waits},
    {"takes no waits", vendor_twice},
    {"without one area per rank", coll_short},
    {"a collective in a peer's memory", coll_at_peer},
    {"goes nowhere", reduce_to_nowhere},
    {"65535", lists_too_long},
};

static void broken_rules_are_named(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm_rs:f32:8x4x6:r2");
    sg_sched s = {0};
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++) {
        sg_sched_begin(&s, &p, 0);
        breakers[i].build(&s);
        const shingle_status status = sg_sched_seal(&s);
        if (status == SHINGLE_OK) fail_msg("\"%s\" is sealed", breakers[i].says);
        if (strstr(shingle_error(), breakers[i].says) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", shingle_error(), breakers[i].says);
    }
    /* The same memory serves a right schedule afterwards. */
    sg_sched_begin(&s, &p, 0);
    launch_rows(&s, rows_of(&s, 0, 8));
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* ---- All strategies ----------------------------------------------------------------------------------- */

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
    static const char *const ops[] = {"ag_gemm", "gemm_rs", "gemm_ar", "gemm"};
    sg_sched s = {0};
    int sealed = 0;
    int refused = 0;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0] * 4; i++) {
        char text[100];
        char why[200];
        snprintf(text, sizeof text, "%s:f32:%s", ops[i % 4], problems[i / 4]);
        sg_problem p = problem_of(text);
        const sg_strategy *strategy = NULL;
        for (int j = 0; (strategy = sg_strategy_at(j)) != NULL; j++) {
            sg_text t = {why, sizeof why, 0};
            if (!strategy->accepts(&p, &t)) continue;
            for (int most = 0; most < 2; most++) {
                sg_knobs knobs = {0};
                for (int x = 0; x < SG_MAX_KNOBS && strategy->knob[x] != NULL; x++)
                    knobs.value[x] = most ? strategy->most[x] : strategy->least[x];
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealing_adds_the_protocol),
        cmocka_unit_test(stores_into_a_peers_output_wait_for_its_hello),
        cmocka_unit_test(broken_rules_are_named),
        cmocka_unit_test(extremes_are_sealed_or_refused),
    };
    return cmocka_run_group_tests_name("seal", tests, NULL, NULL);
}
