/* Tests of data that tell by themselves that they have come: what a schedule with them is, and
 * which rules it keeps. */
#include <stdio.h>

#include "broken.h"
#include "built.h"
#include "core/check.h"
#include "core/sched_rules.h"
#include "quiet.h"

enum { TILE = 8 };

#define KNOBS(subs, lag, once, splits)                                                             \
    "fused_out{subs=" #subs ",lag=" #lag ",tile_m=8,tile_n=8,once=" #once ",splits=" #splits       \
    ",strips=1,tagged=1}"

static int inbox_of(const sg_sched *s)
{
    return buf_called(s, "inbox");
}

/* ---- Schedules ------------------------------------------------------------------------------- */

/* A place a tile and rank, the same at all ranks, and one sum of them in rank order. */
static void tiles_have_places_at_every_rank(void **state)
{
    (void)state;
    enum { RANKS = 3, TILES = 15, ROWS = TILES * TILE }; /* 5 bands of 3 */
    built b;
    build("gemm_ar:bf16:37x21x16:r3:bias:relu", KNOBS(1, 0, 1, 1), &b);
    for (int r = 0; r < RANKS; r++) {
        const sg_sched *const s = &b.sched[r];
        const sg_buf *const buf = &s->buf[inbox_of(s)];
        assert_int_equal(s->steps, 1);
        assert_true(sg_sched_is_tagged(s, &s->step[0].u.launch));
        assert_int_equal(s->patches, 2);
        assert_int_equal(s->patch[0].final, 0);
        assert_int_equal(s->patch[0].tos, RANKS);
        assert_int_equal(s->patch[1].adds, RANKS);
        assert_int_equal(s->patch[1].final, 1);
        assert_int_equal(buf->tagged, 1);
        assert_int_equal(buf->arena, SG_REST);
        assert_int_equal(buf->rows, RANKS * ROWS);
        assert_int_equal(buf->cols, TILE);
        assert_int_equal(s->arena_bytes[SG_REST],
                         sg_round_up(2 * buf->rows * buf->cols, SG_BUF_ALIGN));
        assert_int_equal(s->arena_bytes[SG_SYM], 0);
        assert_true(s->peers && s->hello && s->done && s->step[0].gate && !s->baked);
        for (int i = 0; i < RANKS; i++) {
            const sg_area *const to = &s->to[s->patch[0].to0 + i];
            const sg_addend *const add = &s->add[s->patch[1].add0 + i];
            assert_int_equal(to->rank, (r + 1 + i) % RANKS);
            assert_int_equal(to->row0, r * ROWS);
            assert_int_equal(to->tiled, 1);
            assert_int_equal(add->area.row0, i * ROWS);
            assert_int_equal(add->wait.by, i);
        }
        assert_int_equal(s->to[s->patch[1].to0].buf, SG_C);
    }
    discard(&b);
}

/* Of whole columns of tiles, which each rank sums for all. */
static void owners_of_columns_send_their_sums(void **state)
{
    (void)state;
    built b;
    build("gemm_ar:bf16:37x21x16:r4:bias", KNOBS(1, 0, 0, 1),
          &b); /* three columns of tiles: rank 0 has none */
    for (int r = 0; r < 4; r++) {
        const sg_sched *const s = &b.sched[r];
        assert_int_equal(s->steps, 1);
        assert_true(sg_sched_is_tagged(s, &s->step[0].u.launch));
        assert_int_equal(s->patches, 6);
        int sent = 0;
        int finals = 0;
        for (int i = 0; i < s->patches; i++) {
            if (s->patch[i].k0 < s->patch[i].k1) assert_int_equal(s->patch[i].tos, 1);
            finals += s->patch[i].final;
            sent += s->patch[i].tos;
        }
        assert_int_equal(finals, r > 0);
        assert_int_equal(sent, r > 0 ? 3 + 4 + 2 : 3 + 3);
        assert_int_equal(s->buf[inbox_of(s)].rows, 2 * 4 * 5 * TILE);
        assert_int_equal(s->buf[inbox_of(s)].arena, SG_REST);
    }
    discard(&b);
}

/* A place a tile and rank at the owner of their rows, who sums them. */
static void owners_of_rows_keep_their_sums(void **state)
{
    (void)state;
    enum { RANKS = 4, COLS = 3 };
    static const int rows[RANKS] = {20, 0, 9, 8};
    built b;
    build("gemm_rs:bf16:37x21x16:r4:rows=20,0,9,8:bias", KNOBS(1, 0, 0, 1), &b);
    for (int r = 0; r < RANKS; r++) {
        const sg_sched *const s = &b.sched[r];
        const sg_patch *const sum = &s->patch[s->patches - 1];
        assert_int_equal(s->steps, 1);
        assert_true(sg_sched_is_tagged(s, &s->step[0].u.launch));
        assert_int_equal(s->patches, rows[r] > 0 ? 4 : 3);
        assert_int_equal(s->buf[inbox_of(s)].rows, RANKS * 3 * COLS * TILE);
        for (int i = 0; i < 3; i++) {
            const sg_area *const to = &s->to[s->patch[i].to0];
            assert_true(s->patch[i].k0 < s->patch[i].k1);
            assert_int_equal(s->patch[i].tos, 1);
            assert_int_equal(s->patch[i].rows, rows[to->rank]);
            assert_int_equal(to->row0, r * 3 * COLS * TILE);
            assert_int_equal(to->rows, (rows[to->rank] + TILE - 1) / TILE * COLS * TILE);
        }
        if (rows[r] == 0) continue;
        assert_int_equal(s->patch[2].rows, rows[r]); /* the own one last */
        assert_int_equal(sum->adds, RANKS);
        assert_int_equal(sum->final, 1);
        assert_int_equal(sum->tos, 1);
        assert_int_equal(s->to[sum->to0].buf, SG_C);
    }
    discard(&b);
}

/* Where all their rows fit one tile, they may be multiplied together. */
static void rows_of_all_owners_may_be_one_tile_s(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        bool once, joins;
    } cases[] = {
        {"gemm_rs:bf16:8x21x16:r3", false, true},
        {"gemm_rs:bf16:9x21x16:r3", false, false},
        {"gemm_rs:bf16:8x21x16:r3:rows=0,8,0", false, false}, /* one owner */
        {"gemm_rs:bf16:8x21x16:r3:rows=0,7,1", false, true},
        {"gemm_ar:bf16:8x21x16:r3", false, false},
        {"gemm_ar:bf16:8x21x16:r3", true, false},
        {"gemm_ar:bf16:2x60x16:r3", false, false}, /* owners of columns have the same rows */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        built b;
        build(cases[i].problem, cases[i].once ? KNOBS(1, 0, 1, 1) : KNOBS(1, 0, 0, 1), &b);
        for (int r = 0; r < b.problem.ranks; r++) {
            const sg_sched *const s = &b.sched[r];
            if (sg_sched_is_joined(s, &s->step[0].u.launch) != cases[i].joins)
                fail_msg("%s, rank %d", cases[i].problem, r);
        }
        discard(&b);
    }
    built b; /* what is not tagged waits for its flags */
    build("gemm_rs:bf16:8x21x16:r3",
          "fused_out{subs=1,lag=0,tile_m=8,tile_n=8,once=0,splits=1,strips=1,tagged=0}", &b);
    assert_false(sg_sched_is_joined(&b.sched[1], &b.sched[1].step[0].u.launch));
    discard(&b);
}

/* The same schedule as without the knob. */
static void elsewhere_it_means_nothing(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"gemm_ar:f32:40x20x1100:r2", KNOBS(2, 0, 1, 1)},
        {"gemm_ar:f32:40x20x1100:r2", KNOBS(1, 1, 1, 1)},
        {"gemm_ar:f32:40x20x1100:r1", KNOBS(1, 0, 0, 1)},
        {"gemm_ar:f32:40x20x1100:r2", KNOBS(1, 0, 0, 2)},
        {"gemm_ar:f32:40x20x1100:r2", KNOBS(1, 0, 1, 2)},
        {"gemm_rs:f32:40x20x1100:r1", KNOBS(1, 0, 0, 1)},
        {"gemm_rs:f32:40x20x1100:r2", KNOBS(1, 0, 0, 2)},
        {"gemm_rs:f32:40x20x1100:r2", KNOBS(2, 0, 0, 1)},
        {"gemm_rs:f32:40x20x1100:r2:cyclic=3", KNOBS(1, 0, 0, 1)},
        {"gemm_a2a:f32:40x20x1100:r2", KNOBS(1, 0, 1, 1)},
        {"gemm_ar:f32:40x20x1100:r2:call=9", KNOBS(1, 0, 1, 1)},
        {"gemm_ar:f32:40x20x0:r2", KNOBS(1, 0, 1, 1)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static char with[4096];
        static char without[4096];
        char plain[128];
        sg_text texts[2] = {{with, sizeof with, 0}, {without, sizeof without, 0}};
        snprintf(plain, sizeof plain, "%.*s0}", (int)strlen(cases[i][1]) - 2, cases[i][1]);
        for (int j = 0; j < 2; j++) {
            built b;
            build(cases[i][0], j == 0 ? cases[i][1] : plain, &b);
            sg_sched_print(&b.sched[b.problem.ranks - 1], &texts[j]);
            discard(&b);
        }
        assert_string_equal(with, without);
        assert_null(strstr(with, "tagged"));
    }
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static void wide(sg_sched *s)
{
    s->buf[inbox_of(s)].wide = 1;
}

/* Who stores there leaves it as it is stored, and peers would see words that nobody sent. */
static void where_nothing_rests(sg_sched *s)
{
    s->buf[inbox_of(s)].arena = SG_SYM;
}

static void beside_what_rests(sg_sched *s)
{
    sg_sched_buf(s, SG_REST, "other", 2, 2, 0);
}

static void untagged_where_it_rests(sg_sched *s)
{
    s->buf[inbox_of(s)].tagged = 0;
}

static void finished(sg_sched *s)
{
    s->patch[0].final = 1;
}

static void not_to_all(sg_sched *s)
{
    s->patch[0].tos--;
}

static void at_other_places(sg_sched *s)
{
    s->to[s->patch[0].to0].row0 = 0;
}

static void at_places_of_another(sg_sched *s)
{
    for (int i = 0; i < 3; i++) s->to[s->patch[0].to0 + i].row0 = 0;
}

static void raised_by_patch(sg_sched *s)
{
    s->raise[s->patch[0].raise0 + 1].per = SG_PER_PATCH;
}

static void raised_elsewhere(sg_sched *s)
{
    s->raise[s->patch[0].raise0].at = s->raise[s->patch[0].raise0 + 1].at;
}

static void in_another_order(sg_sched *s)
{
    s->patch[1].raster = s->patch[0].raster == SG_BY_ROW ? SG_BY_COL : SG_BY_ROW;
}

static void one_added_twice(sg_sched *s)
{
    s->add[s->patch[1].add0] = s->add[s->patch[1].add0 + 1];
}

static void not_awaited(sg_sched *s)
{
    s->add[s->patch[1].add0 + 2].awaited = 0;
}

static void one_left_out(sg_sched *s)
{
    s->patch[1].adds--;
}

static void sum_sent_on(sg_sched *s)
{
    s->to[s->patch[1].to0] = s->to[s->patch[0].to0];
}

static void other_flags(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_wait(s, sg_wait_one(0, 99));
}

static void another_patch(sg_sched *s)
{
    const sg_patch more = s->patch[1];
    s->open_step = 0;
    sg_sched_patch(s, &more);
}

static void another_reader(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(1, inbox_of(s), 0, 2, 0, 2));
    sg_sched_to(s, sg_area_of(1, SG_C, 0, 2, 0, 2));
}

static const breaker breakers[] = {
    {"in a buffer of another kind", wide},
    {"that are not in REST", where_nothing_rests},
    {"other than tagged data in REST", beside_what_rests},
    {"other than tagged data in REST", untagged_where_it_rests},
    {"no bare product", finished},
    {"do not go to all ranks", not_to_all},
    {"outside the same places", at_other_places},
    {"at another rank's places", at_places_of_another},
    {"without a flag for each tile", raised_by_patch},
    {"without a flag for each tile", raised_elsewhere},
    {"in another order than stored", in_another_order},
    {"not in rank order", one_added_twice},
    {"a sum of tagged data without a flag", not_awaited},
    {"without the tagged data of all ranks", one_left_out},
    {"meet more than their sum", sum_sent_on},
    {"beside other flags", other_flags},
    {"other than a product and its sum", another_patch},
    {"outside one launch", another_reader},
};

/* Of two hops, rank 1 of three: products for 2, for 0 and for itself, its sum, what 2 and 0
 * send. */
static void to_another_owner(sg_sched *s)
{
    s->to[s->patch[1].to0].rank = 2;
}

static void at_an_owners_other_place(sg_sched *s)
{
    s->to[s->patch[2].to0].row0 = 0;
}

static void finished_too_soon(sg_sched *s)
{
    s->patch[1].final = 1;
}

static void raised_at_another(sg_sched *s)
{
    s->raise[s->patch[0].raise0].at = 0;
}

static void own_added_twice(sg_sched *s)
{
    s->add[s->patch[3].add0 + 1] = s->add[s->patch[3].add0];
}

static void own_not_awaited(sg_sched *s)
{
    s->add[s->patch[3].add0 + 2].awaited = 0;
}

static void own_at_another_flag(sg_sched *s)
{
    s->raise[s->patch[3].raise0 + 1].flag0++;
}

static void own_not_sent(sg_sched *s)
{
    s->to[s->patch[3].to0].rank = 1;
}

static void own_of_other_columns(sg_sched *s)
{
    s->patch[3].col0 = s->patch[4].col0;
}

static void finished_again(sg_sched *s)
{
    s->patch[4].final = 1;
}

static void come_from_another(sg_sched *s)
{
    s->add[s->patch[5].add0].wait.by = 2;
}

static void come_at_another_flag(sg_sched *s)
{
    s->add[s->patch[5].add0].wait.flag0--;
}

static void one_more_raise(sg_sched *s)
{
    sg_sched_raise(s, 0, SG_PER_TILE, 99);
}

static void own_of_other_rows(sg_sched *s)
{
    s->patch[3].row0 = s->patch[0].row0;
}

static void own_sent_on(sg_sched *s)
{
    sg_sched_to(s, s->to[s->patch[0].to0]);
}

static void of_other_columns(sg_sched *s)
{
    s->patch[1].cols--;
    s->patch[1].b.rows--;
}

static const breaker scatter_breakers[] = {
    {"outside one place of each owner", to_another_owner},
    {"outside one place of each owner", at_an_owners_other_place},
    {"no bare product", finished_too_soon},
    {"no bare product", of_other_columns},
    {"without a flag for each tile", raised_at_another},
    {"not in rank order, each with its flag", own_added_twice},
    {"not in rank order, each with its flag", own_not_awaited},
    {"meet more than their sum", own_of_other_rows},
    {"meet more than their sum", own_sent_on},
    {"beside other flags", one_more_raise},
    {"beside other flags", other_flags},
    {"other than products and their sums", another_patch},
    {"outside one launch", another_reader},
    {"in a buffer of another kind", wide},
    {"that are not in REST", where_nothing_rests},
    {"other than tagged data in REST", beside_what_rests},
};

static const breaker hop_breakers[] = {
    {"outside one place of each owner", to_another_owner},
    {"outside one place of each owner", at_an_owners_other_place},
    {"no bare product", finished_too_soon},
    {"without a flag for each tile", raised_at_another},
    {"not in rank order, each with its flag", own_added_twice},
    {"not in rank order, each with its flag", own_not_awaited},
    {"not go to all others, each with a flag", own_at_another_flag},
    {"not go to all others, each with a flag", own_not_sent},
    {"meet more than their sum", own_of_other_columns},
    {"not stored as they come", finished_again},
    {"without a flag for each tile", come_from_another},
    {"without a flag for each tile", come_at_another_flag},
    {"beside other flags", one_more_raise},
    {"beside other flags", other_flags},
    {"other than products and their sums", another_patch},
    {"outside one launch", another_reader},
    {"in a buffer of another kind", wide},
    {"that are not in REST", where_nothing_rests},
    {"other than tagged data in REST", beside_what_rests},
};

static void broken_rules_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++)
        expect_broken("gemm_ar:f32:20x20x6:r3", KNOBS(1, 0, 1, 1), &breakers[i]);
    for (size_t i = 0; i < sizeof hop_breakers / sizeof hop_breakers[0]; i++)
        expect_broken("gemm_ar:f32:20x60x6:r3", KNOBS(1, 0, 0, 1), &hop_breakers[i]);
    for (size_t i = 0; i < sizeof scatter_breakers / sizeof scatter_breakers[0]; i++)
        expect_broken("gemm_rs:f32:20x60x6:r3", KNOBS(1, 0, 0, 1), &scatter_breakers[i]);
}

/* ---- Proofs ---------------------------------------------------------------------------------- */

/* Of all ranks, right values in the order that reproducible plans have. */
static void they_are_proved(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "gemm_ar:f32:37x21x16:r2",
        "gemm_ar:bf16:8x8x8:r3:bias:gelu",
        "gemm_ar:f16:3x50x9:r5:norm",
        "gemm_ar:bf16:41x7x12:r7:rows=0,20,1,0,9,0,11",
        "gemm_ar:f32:100x9x5:r2:cyclic=3:relu",
        "gemm_ar:bf16:9x100x16:r4:bias",
    };
    static const char *const scatters[] = {
        "gemm_rs:f32:37x21x16:r2",      "gemm_rs:bf16:8x8x8:r3:bias:gelu",
        "gemm_rs:f16:3x50x9:r5",        "gemm_rs:bf16:41x7x12:r7:rows=0,20,1,0,9,0,11",
        "gemm_rs:f32:100x30x5:r2:relu",
    };
    enum { PROBLEMS = sizeof problems / sizeof problems[0] };
    enum { ALL = 2 * PROBLEMS + sizeof scatters / sizeof scatters[0] };
    sg_checker *const ck = sg_checker_new();
    for (size_t i = 0; i < ALL; i++) {
        built b;
        sg_check_result result;
        const char *const name = i < 2 * PROBLEMS ? problems[i / 2] : scatters[i - 2 * PROBLEMS];
        build(name, i < 2 * PROBLEMS && i % 2 == 0 ? KNOBS(1, 0, 1, 1) : KNOBS(1, 0, 0, 1), &b);
        assert_true(sg_sched_is_tagged(&b.sched[0], &b.sched[0].step[0].u.launch));
        if (sg_check(ck, b.sched, b.problem.ranks, 0, &result) != SHINGLE_OK ||
            sg_check_bits(ck, b.sched, b.problem.ranks, &result) != SHINGLE_OK)
            fail_msg("%s: %s", name, result.why);
        discard(&b);
    }
    sg_checker_free(ck);
}

/* Both ranks' places have to be inside the arena, which is as large at all ranks. */
static void they_need_their_room(void **state)
{
    (void)state;
    sg_check_result result;
    sg_checker *const ck = sg_checker_new();
    built b;
    build("gemm_ar:f32:64x64x8:r2", KNOBS(1, 0, 1, 1), &b);
    assert_int_equal(b.sched[0].arena_bytes[SG_REST], 2 * 64 * 64 * 4);
    for (int r = 0; r < 2; r++) {
        b.sched[r].arena_bytes[SG_REST] -= 64 * 64 * 4;
        assert_int_equal(sg_check(ck, b.sched, 2, 0, &result), SHINGLE_EBUG);
        if (strstr(result.why, r == 0 ? "inbox lies outside" : "inbox") == NULL)
            fail_msg("%s", result.why);
    }
    for (int r = 0; r < 2; r++) b.sched[r].arena_bytes[SG_REST] += (1 + r) * 64 * 64 * 4;
    assert_int_equal(sg_check(ck, b.sched, 2, 0, &result), SHINGLE_EBUG);
    if (strstr(result.why, "bytes of REST") == NULL) fail_msg("%s", result.why);
    discard(&b);
    sg_checker_free(ck);
}

/* What peers have to leave alone until the run before has read it. */
static void without_the_gate(sg_sched *s)
{
    s->step[0].gate = 0;
}

/* What the sealer has seen is looked at again, and that ranks agree. */
static void who_changes_them_is_named(void **state)
{
    (void)state;
    static const breaker more[] = {
        {"not as on rank 0", untagged_where_it_rests},
        {"not as on rank 0", where_nothing_rests},
        {"shared memory without the gate", without_the_gate},
        {"without a flag for each tile", raised_by_patch},
        {"a sum of tagged data without a flag", not_awaited},
    };
    sg_checker *const ck = sg_checker_new();
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        sg_check_result result;
        built b;
        build("gemm_ar:f32:20x20x6:r3", KNOBS(1, 0, 1, 1), &b);
        for (int r = 0; r < 3; r++) /* SYM has room, too */
            b.sched[r].arena_bytes[SG_SYM] = b.sched[r].arena_bytes[SG_REST];
        more[i].change(&b.sched[1]);
        assert_int_equal(sg_check(ck, b.sched, 3, 0, &result), SHINGLE_EBUG);
        if (strstr(result.why, more[i].says) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", result.why, more[i].says);
        discard(&b);
    }
    sg_checker_free(ck);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_have_places_at_every_rank),
        cmocka_unit_test(owners_of_columns_send_their_sums),
        cmocka_unit_test(owners_of_rows_keep_their_sums),
        cmocka_unit_test(rows_of_all_owners_may_be_one_tile_s),
        cmocka_unit_test(elsewhere_it_means_nothing),
        cmocka_unit_test(broken_rules_are_named),
        cmocka_unit_test(they_are_proved),
        cmocka_unit_test(they_need_their_room),
        cmocka_unit_test(who_changes_them_is_named),
    };
    return cmocka_run_group_tests_name("tagged", tests, NULL, NULL);
}
