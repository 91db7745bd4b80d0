/* Tests of sched_tagged.c: each condition that tagged data keep, broken alone.  A backend leaves
 * out their flags, so that whatever passes for such data is read as they are. */
#include <stdio.h>

#include "broken.h"
#include "built.h"

#define KNOBS(once)                                                                                \
    "fused_out{subs=1,lag=0,tile_m=8,tile_n=8,once=" #once ",splits=1,strips=1,tagged=1}"

static int inbox_of(const sg_sched *s)
{
    return buf_called(s, "inbox");
}

/* Another one like the inbox. */
static uint8_t other_inbox(sg_sched *s)
{
    const sg_buf inbox = s->buf[inbox_of(s)];
    return sg_sched_buf(s, SG_REST, "other", inbox.rows, inbox.cols, SG_TAGGED);
}

static sg_area *to_of(sg_sched *s, int patch, int i)
{
    return &s->to[s->patch[patch].to0 + i];
}

static sg_raise *raise_of(sg_sched *s, int patch, int i)
{
    return &s->raise[s->patch[patch].raise0 + i];
}

static sg_addend *add_of(sg_sched *s, int patch, int i)
{
    return &s->add[s->patch[patch].add0 + i];
}

/* PATCH multiplies what FROM does. */
static void multiply_as(sg_sched *s, int patch, int from)
{
    const sg_patch *const p = &s->patch[from];
    s->patch[patch].k1 = p->k1;
    s->patch[patch].a = p->a;
    s->patch[patch].b = p->b;
}

/* PATCH stores at two places in the end, the other of which is scratch; its stores are the last
 * ones of the list. */
static void store_once_more(sg_sched *s, int patch)
{
    const sg_patch *const p = &s->patch[patch];
    const int scratch = sg_sched_buf(s, SG_LOCAL, "scratch", p->rows, p->cols, 0);
    s->open_step = 0;
    s->open_patch = patch;
    sg_sched_to(s, sg_area_of(s->rank, scratch, 0, p->rows, 0, p->cols));
}

/* A flag that tells of something else. */
static void raised_beside(sg_sched *s)
{
    sg_sched_flag(s, 0);
    sg_sched_raise(s, s->rank, SG_PER_PATCH, 999);
}

static void in_an_engine_s_buffer(sg_sched *s)
{
    s->buf[inbox_of(s)].fixed = 1;
}

/* ---- In one hop: patch 0 is the product, patch 1 the sum ------------------------------------- */

static void product_of_nothing(sg_sched *s)
{
    s->patch[0].k1 = s->patch[0].k0;
}

static void product_with_addends(sg_sched *s)
{
    s->patch[0].add0 = s->patch[1].add0;
    s->patch[0].adds = 1;
}

static void to_two_ranks(sg_sched *s)
{
    s->patch[0].tos = s->patch[0].raises = 2;
    s->raises = 2;
}

static void with_two_flags(sg_sched *s)
{
    s->patch[0].raises = 2;
    s->raises = 2;
}

static void in_another_buffer(sg_sched *s)
{
    to_of(s, 0, 1)->buf = other_inbox(s);
}

static void at_another_flag(sg_sched *s)
{
    raise_of(s, 0, 1)->flag0 = 100;
}

static void sum_multiplies(sg_sched *s)
{
    multiply_as(s, 1, 0);
}

static void sum_stores_twice(sg_sched *s)
{
    store_once_more(s, 1);
}

static void sum_in_places(sg_sched *s)
{
    const sg_area *const sent = to_of(s, 0, 0);
    const int scratch = sg_sched_buf(s, SG_LOCAL, "scratch", sent->rows, sent->cols, 0);
    sg_area *const to = to_of(s, 1, 0);
    *to = *sent;
    to->rank = (int16_t)s->rank;
    to->row0 = 0;
    to->buf = (uint8_t)scratch;
}

static void sum_from_a_later_row(sg_sched *s)
{
    s->patch[1].row0 = 1;
}

static void sum_of_a_row_less(sg_sched *s)
{
    s->patch[1].rows--;
    to_of(s, 1, 0)->rows--;
}

static void sum_from_a_later_column(sg_sched *s)
{
    s->patch[1].col0 = 1;
}

static void sum_of_a_column_less(sg_sched *s)
{
    s->patch[1].cols--;
    to_of(s, 1, 0)->cols--;
}

static void sum_in_higher_groups(sg_sched *s)
{
    s->patch[1].width++;
}

static void sum_of_a_range(sg_sched *s)
{
    s->patch[1].tiles = 9; /* all there are */
}

static void product_of_a_range(sg_sched *s)
{
    s->patch[0].tiles = 9;
}

static void sum_from_another_buffer(sg_sched *s)
{
    add_of(s, 1, 2)->area.buf = other_inbox(s);
}

static void sum_behind_another_rank(sg_sched *s)
{
    add_of(s, 1, 2)->wait.by = 0;
}

static void sum_behind_one_flag(sg_sched *s)
{
    add_of(s, 1, 2)->wait.per = SG_PER_PATCH;
}

static void sum_behind_another_flag(sg_sched *s)
{
    add_of(s, 1, 2)->wait.flag0 = 100;
}

static const breaker breakers[] = {
    {"no bare product", product_with_addends},
    {"do not go to all ranks, each with a flag", to_two_ranks},
    {"do not go to all ranks, each with a flag", with_two_flags},
    {"outside the same places", in_another_buffer},
    {"without a flag for each tile", at_another_flag},
    {"no bare product", product_of_nothing},
    {"meet more than their sum", sum_multiplies},
    {"meet more than their sum", sum_stores_twice},
    {"meet more than their sum", sum_in_places},
    {"in another order than stored", sum_from_a_later_row},
    {"in another order than stored", sum_of_a_row_less},
    {"in another order than stored", sum_from_a_later_column},
    {"in another order than stored", sum_of_a_column_less},
    {"in another order than stored", sum_in_higher_groups},
    {"in another order than stored", sum_of_a_range},
    {"in another order than stored", product_of_a_range},
    {"not in rank order", sum_from_another_buffer},
    {"a sum of tagged data without a flag for each tile", sum_behind_another_rank},
    {"a sum of tagged data without a flag for each tile", sum_behind_one_flag},
    {"a sum of tagged data without a flag for each tile", sum_behind_another_flag},
    {"beside other flags", raised_beside},
    {"in a buffer of another kind", in_an_engine_s_buffer},
};

static void data_in_one_hop_keep_their_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++)
        expect_broken("gemm_ar:f32:20x20x6:r3", KNOBS(1), &breakers[i]);
}

/* ---- To owners: products for ranks 2, 0 and 1, then the own sum ------------------------------ */

enum { OWN = 3, COME = 4 };

static void second_with_addends(sg_sched *s)
{
    s->patch[1].add0 = s->patch[OWN].add0;
    s->patch[1].adds = 1;
}

static void second_to_two(sg_sched *s)
{
    s->patch[1].tos = 2;
}

static void second_with_two_flags(sg_sched *s)
{
    s->patch[1].raises = 2;
}

static void second_in_another_raster(sg_sched *s)
{
    s->patch[1].raster = s->patch[0].raster == SG_BY_ROW ? SG_BY_COL : SG_BY_ROW;
}

static void second_in_another_buffer(sg_sched *s)
{
    to_of(s, 1, 0)->buf = other_inbox(s);
}

static void second_raised_as_one(sg_sched *s)
{
    raise_of(s, 1, 0)->per = SG_PER_PATCH;
}

static void second_at_another_flag(sg_sched *s)
{
    raise_of(s, 1, 0)->flag0 = 500;
}

static void own_sum_of_two(sg_sched *s)
{
    s->patch[OWN].adds--;
}

static void own_sum_of_the_first_twice(sg_sched *s)
{
    add_of(s, OWN, 2)->area.row0 = add_of(s, OWN, 0)->area.row0;
}

static void at_the_places_of_rank_0(sg_sched *s)
{
    for (int i = 0; i < OWN; i++) to_of(s, i, 0)->row0 = 0;
}

static const breaker owner_breakers[] = {
    {"no bare product", second_with_addends},
    {"no bare product", second_to_two},
    {"no bare product", second_with_two_flags},
    {"no bare product", second_in_another_raster},
    {"outside one place of each owner", second_in_another_buffer},
    {"without a flag for each tile", second_raised_as_one},
    {"without a flag for each tile", second_at_another_flag},
    {"meet more than their sum", own_sum_of_two},
    {"not in rank order", own_sum_of_the_first_twice},
    {"at another rank's places", at_the_places_of_rank_0},
    {"beside other flags", raised_beside},
    {"in a buffer of another kind", in_an_engine_s_buffer},
};

/* ---- The second hop: then the sums of ranks 2 and 0 ------------------------------------------ */

static void sent_to_another_buffer(sg_sched *s)
{
    to_of(s, OWN, 1)->buf = other_inbox(s);
}

static void sent_to_other_places(sg_sched *s)
{
    to_of(s, OWN, 1)->row0 = 0;
}

static void sent_to_one_twice(sg_sched *s)
{
    to_of(s, OWN, 1)->rank = to_of(s, OWN, 0)->rank;
    raise_of(s, OWN, 1)->at = raise_of(s, OWN, 0)->at;
}

static void sent_and_told_to_another(sg_sched *s)
{
    raise_of(s, OWN, 1)->at = raise_of(s, OWN, 0)->at;
}

static void sent_with_one_flag(sg_sched *s)
{
    raise_of(s, OWN, 1)->per = SG_PER_PATCH;
}

static void come_and_multiply(sg_sched *s)
{
    multiply_as(s, COME, 0);
}

static void come_and_are_told_of(sg_sched *s)
{
    s->patch[COME].raise0 = s->patch[0].raise0;
    s->patch[COME].raises = 1;
}

static void come_twice(sg_sched *s)
{
    s->patch[COME].adds = 2;
}

static void come_in_another_raster(sg_sched *s)
{
    s->patch[COME].raster = s->patch[0].raster == SG_BY_ROW ? SG_BY_COL : SG_BY_ROW;
}

static const breaker hop_breakers[] = {
    {"do not go to all others, each with a flag", sent_to_another_buffer},
    {"do not go to all others, each with a flag", sent_to_other_places},
    {"do not go to all others, each with a flag", sent_to_one_twice},
    {"do not go to all others, each with a flag", sent_and_told_to_another},
    {"do not go to all others, each with a flag", sent_with_one_flag},
    {"not stored as they come", come_and_multiply},
    {"not stored as they come", come_and_are_told_of},
    {"not stored as they come", come_twice},
    {"not stored as they come", come_in_another_raster},
};

static void data_for_owners_keep_their_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof owner_breakers / sizeof owner_breakers[0]; i++) {
        expect_broken("gemm_rs:f32:24x24x6:r3", KNOBS(0), &owner_breakers[i]);
        expect_broken("gemm_ar:f32:24x48x6:r3", KNOBS(0), &owner_breakers[i]);
    }
    for (size_t i = 0; i < sizeof hop_breakers / sizeof hop_breakers[0]; i++)
        expect_broken("gemm_ar:f32:24x48x6:r3", KNOBS(0), &hop_breakers[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_in_one_hop_keep_their_rules),
        cmocka_unit_test(data_for_owners_keep_their_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
