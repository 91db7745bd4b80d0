/* Tests of rows that are gathered as data that tell by themselves that they have come: what a
 * schedule of that is, which rules it keeps, its proof and its price. */
#include <stdio.h>

#include "broken.h"
#include "built.h"
#include "core/check.h"
#include "core/sched_rules.h"
#include "core/sim.h"
#include "quiet.h"

#define KNOBS(slabs, push)                                                                         \
    "fused_in{chunks=1,slabs=" #slabs ",tile_m=8,tile_n=8,push=" #push ",strips=1}"

/* ---- Schedules ------------------------------------------------------------------------------- */

/* Two parts of k: a rank sends each to both peers, then takes three ranks' of it. */
static void parts_of_k_are_sent_and_taken(void **state)
{
    (void)state;
    enum { RANKS = 3, ROWS = 9, COLS = 16, PARTS = 2 };
    built b;
    build("ag_gemm:bf16:27x21x32:r3:bias", KNOBS(2, 4), &b);
    for (int r = 0; r < RANKS; r++) {
        const sg_sched *const s = &b.sched[r];
        const int inbox = buf_called(s, "inbox");
        const int gathered = buf_called(s, "gathered");
        assert_int_equal(s->steps, PARTS + PARTS * RANKS + 1);
        assert_true(sg_sched_gathers_tagged(s) && s->peers && s->hello && s->done && !s->baked);
        assert_int_equal(s->buf[inbox].tagged, 1);
        assert_int_equal(s->buf[inbox].arena, SG_REST);
        assert_int_equal(s->buf[gathered].arena, SG_LOCAL);
        assert_int_equal(s->arena_bytes[SG_SYM], 0);
        for (int i = 0; i < PARTS; i++) {
            const sg_step *const step = &s->step[i];
            assert_true(sg_step_is_push(step) && !sg_sched_is_take(s, step));
            assert_int_equal(step->u.copy.src.buf, SG_A);
            assert_int_equal(step->u.copy.src.col0, i * COLS);
            assert_int_equal(step->tos, RANKS - 1);
            assert_int_equal(step->raises, RANKS - 1);
            for (int j = 0; j < RANKS - 1; j++) {
                const sg_area *const to = &s->to[step->to0 + j];
                assert_int_equal(to->rank, (r + 1 + j) % RANKS);
                assert_int_equal(to->buf, inbox);
                assert_int_equal(to->row0, r * ROWS);
                assert_int_equal(to->col0, i * COLS);
            }
        }
        for (int i = 0; i < PARTS * RANKS; i++) {
            const sg_step *const step = &s->step[PARTS + i];
            const sg_area *const to = &s->to[step->to0];
            const int from = (r + i % RANKS) % RANKS;
            assert_true(sg_sched_is_take(s, step));
            assert_int_equal(step->waits, from != r);
            assert_int_equal(step->u.copy.src.buf, from == r ? SG_A : inbox);
            assert_int_equal(to->buf, gathered);
            assert_int_equal(to->row0, from * ROWS);
            assert_int_equal(to->col0, i / RANKS * COLS);
            assert_int_equal(s->raise[step->raise0].at, r);
            assert_int_equal(s->raise[step->raise0].flag0, i / RANKS);
        }
        assert_int_equal(s->patches, 1); /* rows of all owners in one */
        assert_int_equal(s->patch[0].a.buf, gathered);
        assert_int_equal(s->patch[0].waits, 1);
        assert_int_equal(s->wait[s->patch[0].wait0].by, r);
    }
    discard(&b);
}

/* Where all owners have whole tiles, own ones are read where they are, first, and in step with
 * the others. */
static void own_rows_of_whole_tiles_stay(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int patches; /* of rank 1 */
        bool whole;
    } cases[] = {
        {"ag_gemm:bf16:24x21x32:r3", 3, true},
        {"ag_gemm:bf16:24x21x32:r3:rows=0,16,8", 1, false},
        {"ag_gemm:bf16:32x21x32:r3:rows=8,8,16", 3, true},
        {"ag_gemm:bf16:32x21x32:r3:rows=8,9,15", 1, false},
        {"ag_gemm:bf16:48x21x32:r3:cyclic=8", 6, false},
        {"ag_gemm:bf16:16x21x32:r2:b=8,13", 4, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        built b;
        build(cases[i].problem, KNOBS(2, 4), &b);
        const sg_sched *const s = &b.sched[1];
        const bool whole = cases[i].whole;
        assert_int_equal(s->patches, cases[i].patches);
        assert_true(sg_sched_gathers_tagged(s));
        assert_int_equal(s->patch[0].a.buf, whole ? SG_A : buf_called(s, "gathered"));
        for (int32_t j = 0; j < s->patches; j++) assert_int_equal(s->patch[j].waits, 1);
        for (int32_t j = 0; j < s->steps && whole; j++)
            if (sg_sched_is_take(s, &s->step[j])) assert_int_equal(s->step[j].waits, 1);
        discard(&b);
    }
}

/* The same schedule as chunks that are pushed side by side have. */
static void elsewhere_they_are_pushed_as_ever(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int chunks, slabs, strips;
    } cases[] = {
        {"ag_gemm:f32:40x20x32:r2", 1, 2, 1},
        {"ag_gemm:bf16:40x20x36:r2", 1, 2, 1}, /* parts of k that are no whole words */
        {"ag_gemm:bf16:40x20x24:r2", 1, 2, 1},
        {"ag_gemm:bf16:40x20x36:r2", 1, 1, 1}, /* nor is all of it */
        {"ag_gemm:bf16:40x20x32:r2", 2, 2, 1},
        {"ag_gemm:bf16:40x20x32:r2", 1, 2, 2},
        {"ag_gemm:bf16:40x20x32:r1", 1, 2, 1},
        {"ag_gemm:bf16:40x20x32:r2:return_a", 1, 2, 1},
        {"ag_gemm:bf16:40x20x32:r2:gather=b", 1, 2, 1},
        {"ag_gemm:bf16:40x20x32:r2:gather=k", 1, 2, 1},
        {"ag_gemm:bf16:40x20x32:r2:call=9", 1, 2, 1},
        {"ag_gemm:bf16:0x20x32:r2", 1, 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static char text[2][8192];
        for (int j = 0; j < 2; j++) {
            sg_text out = {text[j], sizeof text[j], 0};
            built b;
            char knobs[96];
            snprintf(knobs, sizeof knobs,
                     "fused_in{chunks=%d,slabs=%d,tile_m=8,tile_n=8,push=%d,strips=%d}",
                     cases[i].chunks, cases[i].slabs, j == 0 ? 4 : 1, cases[i].strips);
            build(cases[i].problem, knobs, &b);
            sg_sched_print(&b.sched[b.problem.ranks - 1], &out);
            discard(&b);
        }
        assert_string_equal(text[0], text[1]);
        assert_null(strstr(text[0], "tagged"));
    }
}

/* ---- Rules ----------------------------------------------------------------------------------- */

/* Of rank 1 of three, two parts of k: sent 0 and 1, own rows 2 and 5, from rank 2 then 3 and 6,
 * from rank 0 then 4 and 7, the launch 8. */
enum { SENT = 0, OWN = 2, TAKEN = 3, OTHER = 4, LAUNCH = 8 };

static sg_area *src_of(sg_sched *s, int step)
{
    return &s->step[step].u.copy.src;
}

static sg_area *to_of(sg_sched *s, int step)
{
    return &s->to[s->step[step].to0];
}

static void where_nothing_rests(sg_sched *s)
{
    s->buf[buf_called(s, "inbox")].arena = SG_SYM;
}

static void own_rows_where_words_rest(sg_sched *s)
{
    to_of(s, OWN)->buf = (uint8_t)buf_called(s, "inbox");
}

static void read_by_a_product(sg_sched *s)
{
    s->patch[0].a.buf = (uint8_t)buf_called(s, "inbox");
}

static void sent_without_a_flag(sg_sched *s)
{
    s->step[SENT].raises--;
}

static void flag_of_another(sg_sched *s)
{
    s->raise[s->step[SENT].raise0].at = s->raise[s->step[SENT].raise0 + 1].at;
}

static void flag_of_a_tile(sg_sched *s)
{
    s->raise[s->step[SENT].raise0].per = SG_PER_TILE;
}

static void sent_elsewhere(sg_sched *s)
{
    to_of(s, SENT)->buf = (uint8_t)sg_sched_buf(s, SG_SYM, "other", 24, 32, 0);
}

static void sent_in_part(sg_sched *s)
{
    src_of(s, SENT)->rows = 2;
    for (int i = 0; i < 2; i++) to_of(s, SENT)[i].rows = 2;
}

static void sent_in_broken_words(sg_sched *s)
{
    src_of(s, SENT)->cols = 12;
    for (int i = 0; i < 2; i++) to_of(s, SENT)[i].cols = 12;
}

static void taken_in_broken_words(sg_sched *s)
{
    src_of(s, TAKEN)->cols = to_of(s, TAKEN)->cols = 12;
}

static void taken_without_its_flag(sg_sched *s)
{
    s->step[TAKEN].waits = 0;
}

static void taken_behind_an_own_flag(sg_sched *s)
{
    s->wait[s->step[TAKEN].wait0].by = 1;
}

static void taken_without_a_raise(sg_sched *s)
{
    s->step[TAKEN].raises = 0;
}

static void taken_for_another(sg_sched *s)
{
    s->raise[s->step[TAKEN].raise0].at = 2;
}

static void taken_to_another_place(sg_sched *s)
{
    to_of(s, TAKEN)->row0 -= 8;
}

static void taken_to_other_columns(sg_sched *s)
{
    to_of(s, TAKEN)->col0 = 16 - to_of(s, TAKEN)->col0;
}

static void taken_into_more_rows(sg_sched *s)
{
    s->buf[buf_called(s, "gathered")].rows++;
}

static void taken_into_more_columns(sg_sched *s)
{
    s->buf[buf_called(s, "gathered")].cols++;
}

static void taken_twice(sg_sched *s)
{
    *src_of(s, OTHER) = *src_of(s, TAKEN);
    *to_of(s, OTHER) = *to_of(s, TAKEN);
    s->wait[s->step[OTHER].wait0] = s->wait[s->step[TAKEN].wait0];
    src_of(s, TAKEN + 3)->rows = to_of(s, TAKEN + 3)->rows = 4; /* in all as much as comes, and 4 */
}

static void not_all_taken(sg_sched *s)
{
    src_of(s, TAKEN)->rows = to_of(s, TAKEN)->rows = 4;
}

static void taken_and_sent_on(sg_sched *s)
{
    to_of(s, TAKEN)->rank = 0;
    to_of(s, TAKEN)->buf = (uint8_t)buf_called(s, "inbox");
}

static void own_rows_wait(sg_sched *s)
{
    s->step[OWN].waits = 1;
    s->step[OWN].wait0 = s->step[TAKEN].wait0;
}

static void own_rows_shared(sg_sched *s)
{
    to_of(s, OWN)->buf = (uint8_t)sg_sched_buf(s, SG_SYM, "other", 24, 32, 0);
}

static void sent_behind_what_is_taken(sg_sched *s)
{
    const sg_step sent = s->step[1];
    s->step[1] = s->step[OWN];
    s->step[OWN] = sent;
}

static void other_flags(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_wait(s, sg_wait_one(0, 99));
}

static void a_raise_beside(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_raise(s, 0, SG_PER_PATCH, 99);
}

static void without_a_launch(sg_sched *s)
{
    s->step[LAUNCH].lane = 3;
}

static const breaker breakers[] = {
    {"that are not in REST", where_nothing_rests},
    {"stays on its rank", own_rows_where_words_rest},
    {"of a gather outside its launch", read_by_a_product},
    {"no rows of A, each with a flag", sent_without_a_flag},
    {"that are none, or without their flag", flag_of_another},
    {"that are none, or without their flag", flag_of_a_tile},
    {"that are none, or without their flag", sent_elsewhere},
    {"do not go to all others", sent_in_part},
    {"no whole words", sent_in_broken_words},
    {"no whole words", taken_in_broken_words},
    {"without their one flag", taken_without_its_flag},
    {"without their one flag", taken_behind_an_own_flag},
    {"without an own flag", taken_without_a_raise},
    {"without an own flag", taken_for_another},
    {"change their places", taken_to_another_place},
    {"change their places", taken_to_other_columns},
    {"change their places", taken_into_more_rows},
    {"change their places", taken_into_more_columns},
    {"are not all taken", taken_twice},
    {"are not all taken", not_all_taken},
    {"go on to another rank", taken_and_sent_on},
    {"a launch carries waits", own_rows_wait},
    {"stays on its rank", own_rows_shared},
    {"behind what is taken", sent_behind_what_is_taken},
    {"beside other flags", other_flags},
    {"beside other flags", a_raise_beside},
    {"no launch opens lane 0", without_a_launch},
};

static void broken_rules_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++)
        expect_broken("ag_gemm:bf16:27x16x32:r3", KNOBS(2, 4), &breakers[i]);
}

/* ---- Proofs ---------------------------------------------------------------------------------- */

static void they_are_proved(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "ag_gemm:bf16:37x21x32:r2",
        "ag_gemm:bf16:48x21x32:r3",
        "ag_gemm:bf16:56x20x64:r3:rows=16,32,8:b=8,12",
        "ag_gemm:bf16:8x8x32:r3:bias:gelu",
        "ag_gemm:f16:3x50x64:r5",
        "ag_gemm:bf16:41x7x32:r7:rows=0,20,1,0,9,0,11",
        "ag_gemm:f16:100x9x64:r2:cyclic=3:relu",
        "ag_gemm:bf16:24x32x64:r3:b=8,24:accumulate",
        "a2a_gemm:bf16:37x21x32:r4",
    };
    sg_checker *const ck = sg_checker_new();
    for (size_t i = 0; i < 2 * sizeof problems / sizeof problems[0]; i++) {
        built b;
        sg_check_result result;
        build(problems[i / 2], i % 2 == 0 ? KNOBS(1, 4) : KNOBS(4, 4), &b);
        for (int r = 0; r < b.problem.ranks; r++)
            if (!sg_sched_gathers_tagged(&b.sched[r])) fail_msg("%s, rank %d", problems[i / 2], r);
        if (sg_check(ck, b.sched, b.problem.ranks, 0, &result) != SHINGLE_OK ||
            sg_check_bits(ck, b.sched, b.problem.ranks, &result) != SHINGLE_OK)
            fail_msg("%s: %s", problems[i / 2], result.why);
        discard(&b);
    }
    sg_checker_free(ck);
}

/* ---- Price ----------------------------------------------------------------------------------- */

static double price(const char *problem, int slabs, const sg_machine *machine)
{
    const sg_knobs knobs = {{1, slabs, 64, 64, 4, 1}};
    sg_simulator *const simulator = sg_simulator_new();
    sg_problem p;
    sg_sim_result result;
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    assert_int_equal(sg_simulate_built(simulator, &p, sg_strategy_find("fused_in"), &knobs, machine,
                                       NULL, &result),
                     SHINGLE_OK);
    sg_problem_free(&p);
    sg_simulator_free(simulator);
    return result.us;
}

/* One tile a rank: what comes from two peers, its taking, then the product, or what is left of it
 * behind the first part. */
static void rows_come_before_the_product(void **state)
{
    (void)state;
    static const char *const problem = "ag_gemm:bf16:64x64x128:r2";
    const double tile_us = 100;
    const double sent_bytes = 2.0 * 32 * 128;
    sg_machine m = quiet_machine(1, 64, 64, tile_us / 2);
    m.gemm_tflops[SG_BF16] = m.gemm_tflops[SG_F32];
    expect_us(price(problem, 1, &m), tile_us);
    m.store_gbps = sent_bytes / 40e3;
    expect_us(price(problem, 1, &m), 40 + tile_us);
    expect_us(price(problem, 2, &m), 20 + tile_us);
    m.flag_us = 5;
    m.store_us = m.lane_us = 1000; /* nobody waits for an acknowledgement, or in a lane */
    expect_us(price(problem, 1, &m), 40 + 5 + 5 + tile_us);
    m.take_us = 2;
    expect_us(price(problem, 1, &m), 40 + 5 + 2 + tile_us);
    m.take_gbps = sent_bytes / 10e3; /* own rows first, while the others come */
    expect_us(price(problem, 1, &m), 40 + 5 + 10 + 2 + tile_us);
    m.tagged_gbps = m.store_gbps / 2;
    expect_us(price(problem, 1, &m), 80 + 5 + 10 + 2 + tile_us);
    m.stage_us = 51; /* two of them */
    expect_us(price(problem, 1, &m), 80 + 5 + 10 + 2 + 102);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_k_are_sent_and_taken),
        cmocka_unit_test(own_rows_of_whole_tiles_stay),
        cmocka_unit_test(elsewhere_they_are_pushed_as_ever),
        cmocka_unit_test(broken_rules_are_named),
        cmocka_unit_test(they_are_proved),
        cmocka_unit_test(rows_come_before_the_product),
    };
    return cmocka_run_group_tests_name("tagged_gather", tests, NULL, NULL);
}
