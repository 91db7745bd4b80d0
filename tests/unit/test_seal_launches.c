/* Tests of seal.c: what a launch that norms, one of the vendor's and one of narrow tiles must keep,
 * which patches add onto what lies where they store, and rules that test_seal_rules.c has no room
 * for. */
#include <stdio.h>
#include <string.h>

#include "by_hand.h"

/* ---- Schedules ------------------------------------------------------------------------------- */

/* Opens rank 0's launch of one patch with an addend, from a buffer of 8 x 4 into C. */
static sg_patch *open_patch(sg_sched *s, const sg_problem *p, bool norm)
{
    sg_sched_begin(s, p, 0);
    const int sum = sg_sched_buf(s, SG_LOCAL, "sum", 8, 4, 0);
    if (norm)
        sg_sched_norm(s, 0, 2, 0);
    else
        sg_sched_launch(s, 0, 8, 4, 0, true);
    sg_patch patch = rows_of(s, 0, 8);
    if (norm) patch.k1 = 0;
    sg_sched_patch(s, &patch);
    sg_sched_add(s, sg_area_of(0, sum, 0, 8, 0, 4), NULL);
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 8, 0, 4));
    return &s->patch[0];
}

typedef struct breaker {
    const char *says;
    void (*change)(sg_sched *s, sg_patch *p);
} breaker;

/* ---- Norms ----------------------------------------------------------------------------------- */

static void multiplies(sg_sched *s, sg_patch *p)
{
    (void)s;
    p->k1 = 1;
}

static void waits(sg_sched *s, sg_patch *p)
{
    (void)p;
    sg_sched_wait(s, sg_wait_one(1, 0));
}

static void raises(sg_sched *s, sg_patch *p)
{
    (void)p;
    sg_sched_raise(s, 0, SG_PER_PATCH, 0);
}

static void adds_two(sg_sched *s, sg_patch *p)
{
    sg_sched_add(s, s->add[p->add0].area, NULL);
}

static void stores_two(sg_sched *s, sg_patch *p)
{
    sg_sched_to(s, s->to[p->to0]);
}

static void from_a_later_tile(sg_sched *s, sg_patch *p)
{
    (void)s;
    p->tile0 = 1;
}

static void some_tiles(sg_sched *s, sg_patch *p)
{
    (void)s;
    p->tiles = 4;
}

static void of_later_columns(sg_sched *s, sg_patch *p)
{
    (void)s;
    p->col0 = 1;
}

static void of_fewer_columns(sg_sched *s, sg_patch *p)
{
    s->step[0].u.launch.tile_n = 3;
    p->cols = s->to[p->to0].cols = s->add[p->add0].area.cols = 3;
}

static void in_narrow_tiles(sg_sched *s, sg_patch *p)
{
    (void)p;
    s->step[0].u.launch.tile_n = 2;
}

static void to_fewer_rows(sg_sched *s, sg_patch *p)
{
    s->to[p->to0].rows = 7;
}

static void to_places(sg_sched *s, sg_patch *p)
{
    s->to[p->to0].tiled = 1;
}

static void to_scratch(sg_sched *s, sg_patch *p)
{
    s->to[p->to0].buf = SG_USER_BUFS;
}

static void to_a_peer(sg_sched *s, sg_patch *p)
{
    s->to[p->to0].rank = 1;
}

static void from_fewer_rows(sg_sched *s, sg_patch *p)
{
    s->add[p->add0].area.rows = 7;
}

static void from_fewer_places(sg_sched *s, sg_patch *p)
{
    s->add[p->add0].area.tiled = 1;
    s->add[p->add0].area.rows = 6;
}

static void from_what_comes(sg_sched *s, sg_patch *p)
{
    s->add[p->add0].awaited = 1;
    s->add[p->add0].wait = sg_wait_one(1, 0);
}

static void from_f32(sg_sched *s, sg_patch *p)
{
    (void)p;
    s->buf[SG_USER_BUFS].wide = 1;
}

static void from_c(sg_sched *s, sg_patch *p)
{
    s->add[p->add0].area.buf = SG_C;
}

static void by_the_vendor(sg_sched *s, sg_patch *p)
{
    (void)p;
    s->step[0].u.launch.vendor = 1;
}

static void norms_are_of_whole_rows_that_are_there(void **state)
{
    (void)state;
    static const breaker breakers[] = {
        {"a norm of something else than a sum", multiplies},
        {"a norm of something else than a sum", waits},
        {"a norm of something else than a sum", raises},
        {"a norm of something else than a sum", adds_two},
        {"a norm of something else than a sum", stores_two},
        {"a norm of something else than a sum", from_a_later_tile},
        {"a norm of something else than a sum", some_tiles},
        {"a norm of other than whole rows", of_later_columns},
        {"a norm of other than whole rows", of_fewer_columns},
        {"a norm of other than whole rows", in_narrow_tiles},
        {"a norm of other than whole rows", to_fewer_rows},
        {"a norm of other than whole rows", to_places},
        {"a norm of other than whole rows", to_scratch},
        {"a norm of other than whole rows", to_a_peer},
        {"a norm of rows that do not fit it", from_fewer_rows},
        {"a norm of rows that do not fit it", from_fewer_places},
        {"a norm of rows that do not fit it", from_what_comes},
        {"a norm of rows that do not fit it", from_f32},
        {"a norm of rows that do not fit it", from_c},
        {"a norm that nobody asks for", by_the_vendor},
    };
    sg_problem p = problem_of("gemm_ar:f32:8x4x6:r2:norm");
    sg_problem plain = problem_of("gemm_ar:f32:8x4x6:r2");
    sg_sched s = {0};
    open_patch(&s, &p, true);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++) {
        breakers[i].change(&s, open_patch(&s, &p, true));
        expect_fault(&s, breakers[i].says);
    }
    open_patch(&s, &plain, true);
    expect_fault(&s, "a norm that nobody asks for");
    sg_sched_free(&s);
    sg_problem_free(&p);
    sg_problem_free(&plain);
}

/* ---- Products -------------------------------------------------------------------------------- */

static void of_places(sg_sched *s, sg_patch *p)
{
    s->add[p->add0].area.tiled = 1;
}

static void in_narrower_tiles(sg_sched *s, sg_patch *p)
{
    (void)s;
    p->tile_n = 2;
}

static void in_tiles_of_less_than_nothing(sg_sched *s, sg_patch *p)
{
    s->step[0].u.launch.vendor = 0;
    p->tile_n = -1;
}

static void from_before_k(sg_sched *s, sg_patch *p)
{
    (void)s;
    p->k0 = -1;
    p->a.cols = p->b.cols = 7;
}

static void of_fewer_rows_of_b(sg_sched *s, sg_patch *p)
{
    (void)s;
    p->b.rows = 3;
}

static void in_tiles_of_no_columns(sg_sched *s, sg_patch *p)
{
    (void)p;
    s->step[0].u.launch.tile_n = 0;
}

static void vendors_make_one_whole_product(void **state)
{
    (void)state;
    static const breaker breakers[] = {
        {"takes no waits", raises},
        {"takes no waits", stores_two},
        {"takes no waits", adds_two},
        {"of another type", of_places},
        {"not narrower than the launch's", in_narrower_tiles},
        {"not narrower than the launch's", in_tiles_of_less_than_nothing},
        {"k out of range", from_before_k},
        {"operands do not fit", of_fewer_rows_of_b},
        {"tiles of nothing", in_tiles_of_no_columns},
    };
    sg_problem p = problem_of("gemm_ar:f32:8x4x6:r2");
    sg_problem call = problem_of("gemm_ar:f32:8x4x6:r2:call=1");
    sg_sched s = {0};
    open_patch(&s, &p, false);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++) {
        breakers[i].change(&s, open_patch(&s, &p, false));
        expect_fault(&s, breakers[i].says);
    }
    open_patch(&s, &call, false)->tile_n = 2; /* a call makes whole rows */
    s.step[0].u.launch.vendor = 0;
    expect_fault(&s, "not narrower than the launch's");
    sg_sched_free(&s);
    sg_problem_free(&p);
    sg_problem_free(&call);
}

/* ---- Areas and waits ------------------------------------------------------------------------- */

static void to_no_rank(sg_sched *s, sg_patch *p)
{
    s->to[p->to0].rank = -1;
}

static void from_left_of_it(sg_sched *s, sg_patch *p)
{
    s->add[p->add0].area.col0 = -1;
}

static void to_a(sg_sched *s, sg_patch *p)
{
    s->to[p->to0].buf = SG_A;
}

static void to_bias(sg_sched *s, sg_patch *p)
{
    s->to[p->to0] = sg_area_of(0, SG_BIAS, 0, 1, 0, 4);
}

static void to_gain(sg_sched *s, sg_patch *p)
{
    s->to[p->to0] = sg_area_of(0, SG_GAIN, 0, 1, 0, 4);
}

static void sum_of_fewer_rows(sg_sched *s, sg_patch *p)
{
    (void)p;
    sg_sched_reduce(s, 0, false);
    sg_sched_add(s, sg_area_of(0, SG_USER_BUFS, 0, 7, 0, 4), NULL);
    sg_sched_to(s, sg_area_of(0, SG_USER_BUFS, 0, 8, 0, 4));
}

static void waits_for_no_rank(sg_sched *s, sg_patch *p)
{
    (void)p;
    sg_sched_wait(s, sg_wait_one(-1, 0));
}

static void waits_for_no_chunks_of_k(sg_sched *s, sg_patch *p)
{
    (void)p;
    sg_sched_wait(s, (sg_wait){.by = 1, .per = SG_PER_ROWS, .rows = 8, .chunk = 2});
}

static void areas_and_waits_are_of_what_there_is(void **state)
{
    (void)state;
    static const breaker breakers[] = {
        {"stores outside a buffer", to_no_rank},
        {"reads outside a buffer", from_left_of_it},
        {"stores into an input", to_a},
        {"stores into an input", to_bias},
        {"stores into an input", to_gain},
        {"an addend of another shape than its sum", sum_of_fewer_rows},
        {"a wait for no rank", waits_for_no_rank},
        {"a wait by rows without chunks", waits_for_no_chunks_of_k},
    };
    sg_problem p = problem_of("gemm_ar:f32:8x4x6:r2:bias:norm");
    sg_sched s = {0};
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++) {
        breakers[i].change(&s, open_patch(&s, &p, false));
        expect_fault(&s, breakers[i].says);
    }
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* ---- Sums in C ------------------------------------------------------------------------------- */

static void nothing(sg_sched *s, sg_patch *p)
{
    (void)s;
    (void)p;
}

static void first_rounded_at_the_end(sg_sched *s, sg_patch *p)
{
    (void)s;
    p->own_rounded = 0;
}

static void from_the_next_rows(sg_sched *s, sg_patch *p)
{
    p->rows = p->a.rows = s->to[p->to0].rows = s->add[p->add0].area.rows = 4;
    s->add[p->add0].area.row0 = 4;
}

static void from_the_next_columns(sg_sched *s, sg_patch *p)
{
    p->cols = p->b.rows = s->to[p->to0].cols = s->add[p->add0].area.cols = 2;
    s->add[p->add0].area.col0 = 2;
}

static void from_elsewhere(sg_sched *s, sg_patch *p)
{
    s->add[p->add0].area.buf = SG_USER_BUFS;
}

static void to_elsewhere(sg_sched *s, sg_patch *p)
{
    s->to[p->to0].buf = SG_USER_BUFS;
}

static void of_no_sums(sg_sched *s, sg_patch *p)
{
    (void)p;
    s->buf[SG_C].summed = 0;
}

/* A backend adds onto what lies there instead of reading it: so that is what the patch adds, and
 * all, and the order of roundings is the same. */
static void onto_is_what_is_added_where_it_is_stored(void **state)
{
    (void)state;
    static void (*const others[])(sg_sched * s, sg_patch * p) = {nothing,
                                                                 first_rounded_at_the_end,
                                                                 from_the_next_rows,
                                                                 from_the_next_columns,
                                                                 from_elsewhere,
                                                                 to_elsewhere,
                                                                 adds_two,
                                                                 of_no_sums};
    sg_problem p = problem_of("gemm_ar:f32:8x4x6:r2");
    sg_sched s = {0};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        sg_patch *const patch = open_patch(&s, &p, false);
        s.step[0].u.launch.vendor = 0;
        sg_sched_sums_in_c(&s);
        patch->own_rounded = 1;
        s.add[0].area.buf = SG_C;
        others[i](&s, patch);
        if (sg_sched_seal(&s) != SHINGLE_OK) fail_msg("%zu: %s", i, shingle_error());
        if (s.patch[0].onto != (i == 0)) fail_msg("%zu adds onto: %d", i, s.patch[0].onto);
    }
    open_patch(&s, &p, false);
    sg_sched_sums_in_c(&s);
    sg_sched_copy(&s, 0, SG_BY_SMS, sg_area_of(0, SG_USER_BUFS, 0, 1, 0, 1));
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, 1, 0, 1));
    expect_fault(&s, "sums in C, and a step beside launches that stores");
    sg_sched_free(&s);
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_of_whole_rows_that_are_there),
        cmocka_unit_test(vendors_make_one_whole_product),
        cmocka_unit_test(areas_and_waits_are_of_what_there_is),
        cmocka_unit_test(onto_is_what_is_added_where_it_is_stored),
    };
    return cmocka_run_group_tests_name("seal_launches", tests, NULL, NULL);
}
