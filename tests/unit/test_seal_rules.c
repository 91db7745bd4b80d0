/* Tests of seal.c: every rule of a single schedule, broken once and named. */
#include <stdio.h>
#include <string.h>

#include "by_hand.h"

/* One broken rule each, on rank 0 of gemm_rs:f32:8x4x6:r2 or of another problem. */
typedef struct breaker {
    const char *says;
    void (*build)(sg_sched *s);
    const char *problem;
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
    const int partial = sg_sched_buf(s, SG_SYM, "partial", 8, 4, SG_FIXED);
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

static void tiles_of(sg_sched *s, int32_t tile0, int32_t tiles)
{
    sg_patch patch = rows_of(s, 0, 8);
    patch.tile0 = tile0;
    patch.tiles = tiles;
    launch_rows(s, patch);
}

static void range_past_the_end(sg_sched *s)
{
    tiles_of(s, 5, 4);
}

static void range_before_the_first(sg_sched *s)
{
    tiles_of(s, -1, 4);
}

static void range_of_none(sg_sched *s)
{
    tiles_of(s, 1, 0);
}

static void places_too_few(sg_sched *s)
{
    const int tiles = sg_sched_buf(s, SG_LOCAL, "tiles", 16, 2, 0);
    tiles_of(s, 0, 8);
    sg_sched_to(s, sg_area_tiled(0, tiles, 0, 7, 2, 2));
}

static void places_too_wide(sg_sched *s)
{
    const int tiles = sg_sched_buf(s, SG_LOCAL, "tiles", 16, 4, 0);
    tiles_of(s, 0, 8);
    sg_sched_to(s, sg_area_tiled(0, tiles, 0, 8, 2, 2));
}

static void places_added_of_others(sg_sched *s)
{
    const int tiles = sg_sched_buf(s, SG_LOCAL, "tiles", 16, 3, 0);
    tiles_of(s, 0, 8);
    sg_sched_add(s, sg_area_tiled(0, tiles, 0, 8, 2, 3), NULL);
}

static void places_outside(sg_sched *s)
{
    const int tiles = sg_sched_buf(s, SG_LOCAL, "tiles", 16, 2, 0);
    tiles_of(s, 0, 8);
    sg_sched_to(s, sg_area_tiled(0, tiles, 1, 8, 2, 2));
}

/* Tiles of WIDTH columns, where the launch's have two. */
static void narrow(sg_sched *s, int32_t width)
{
    launch_rows(s, rows_of(s, 0, 4));
    s->patch[0].tile_n = width;
}

static void narrow_and_wide(sg_sched *s)
{
    narrow(s, 2);
}

static void narrow_by_tile(sg_sched *s)
{
    narrow(s, 1);
    sg_sched_wait(s, sg_wait_tile(1, 0));
}

static void places_of_a_copy(sg_sched *s)
{
    const int tiles = sg_sched_buf(s, SG_LOCAL, "tiles", 16, 2, 0);
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_A, 0, 2, 0, 2));
    sg_sched_to(s, sg_area_tiled(0, tiles, 0, 1, 2, 2));
}

static void places_copied(sg_sched *s)
{
    const int tiles = sg_sched_buf(s, SG_LOCAL, "tiles", 16, 2, 0);
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_tiled(0, tiles, 0, 1, 2, 2));
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 2, 0, 2));
}

static void places_reduced(sg_sched *s)
{
    const int tiles = sg_sched_buf(s, SG_LOCAL, "tiles", 16, 2, 0);
    sg_sched_reduce(s, 0, false);
    sg_sched_add(s, sg_area_tiled(0, tiles, 0, 1, 2, 2), NULL);
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 2, 0, 2));
}

static void places_collected(sg_sched *s)
{
    const int tiles = sg_sched_buf(s, SG_LIBRARY, "tiles", 16, 2, 0);
    sg_sched_coll(s, 0, SG_ALL_REDUCE, 0, sg_area_tiled(0, tiles, 0, 8, 2, 2));
}

static void sums_too_tall(sg_sched *s)
{
    sg_patch patch = rows_of(s, 0, 9); /* more rows than the product has, which C has neither */
    patch.k1 = 0;
    launch_rows(s, patch);
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 9, 0, 4));
}

static void vendor_adds(sg_sched *s, unsigned traits, const sg_wait *wait)
{
    const sg_patch patch = rows_of(s, 0, 4);
    sg_sched_launch(s, 0, 8, 8, 0, true);
    sg_sched_patch(s, &patch);
    const int sum = sg_sched_buf(s, SG_LOCAL, "sum", 4, 4, traits);
    sg_sched_add(s, sg_area_of(0, sum, 0, 4, 0, 4), wait);
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 4, 0, 4));
}

static void vendor_adds_another_type(sg_sched *s)
{
    vendor_adds(s, SG_WIDE, NULL);
}

static void vendor_adds_what_comes(sg_sched *s)
{
    const sg_wait wait = sg_wait_one(1, 0);
    vendor_adds(s, 0, &wait);
}

static void exchange_parts(sg_sched *s, int parts, int to_rank, int to)
{
    const int buf = sg_sched_buf(s, SG_SYM, "partial", 8, 6, SG_FIXED);
    sg_sched_coll(s, 0, SG_ALL_TO_ALL, 0, (sg_area){0});
    for (int i = 0; i < parts; i++)
        sg_sched_to(s, sg_area_of(i < 2 ? 0 : to_rank,
                                  i < 2    ? SG_A
                                  : to < 0 ? buf
                                           : to,
                                  0, 1, 0, 6));
}

static void exchange_short(sg_sched *s)
{
    exchange_parts(s, 2, 0, -1);
}

static void exchange_long(sg_sched *s)
{
    exchange_parts(s, 5, 0, -1);
}

static void exchange_into_input(sg_sched *s)
{
    exchange_parts(s, 4, 0, SG_B);
}

static void exchange_at_peer(sg_sched *s)
{
    exchange_parts(s, 4, 1, -1);
}

static void gathered_part_too_long(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS,
                  sg_area_of(0, SG_A, 0, 1, 0, 6)); /* rank 0 holds 3 of 6 columns */
}

static void peer_is_shorter(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_C, 0, 4, 0, 4)); /* rank 1 has 3 rows of C */
    sg_sched_to(s, sg_area_of(1, SG_C, 0, 4, 0, 4));
}

static void call_of_half_rows(sg_sched *s)
{
    sg_patch patch = rows_of(s, 0, 4);
    patch.cols = 2;
    patch.b.rows = 2;
    launch_rows(s, patch);
}

static void call_of_a_part_of_k(sg_sched *s)
{
    sg_patch patch = rows_of(s, 0, 4);
    patch.k1 = 3;
    patch.a.cols = patch.b.cols = 3;
    launch_rows(s, patch);
}

static void reads_over_border(sg_sched *s)
{
    launch_rows(s, rows_of(s, 0, 4));
}

static void stores_over_border(sg_sched *s)
{
    sg_patch patch = rows_of(s, 0, 4);
    patch.col0 = 2;
    patch.cols = patch.b.rows = 2;
    patch.k1 = 0;
    launch_rows(s, patch);
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 4, 2, 2));
}

static void returns_to_peer(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_A, 0, 2, 0, 6));
    sg_sched_to(s, sg_area_of(1, SG_RETURNED, 0, 2, 0, 6));
}

static void one_of_several_c(sg_sched *s)
{
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, SG_A, 0, 2, 0, 3));
    sg_sched_to(s, sg_area_of(1, SG_C, 0, 2, 0, 3));
}

/* A product for another rank, who is to send its sum, and nobody that takes it. */
static void hops_without_sums(sg_sched *s)
{
    const int inbox = sg_sched_buf(s, SG_REST, "inbox", 12, 2, SG_TAGGED);
    const sg_patch patch = rows_of(s, 0, 2);
    launch_rows(s, patch);
    sg_sched_to(s, sg_area_tiled(1, inbox, 0, 1, 2, 2));
    sg_sched_raise(s, 1, SG_PER_TILE, 0);
    sg_sched_patch(s, &(sg_patch){.rows = 2, .cols = 2});
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 2, 0, 2));
}

static const breaker breakers[] = {
    {"lane 8; 0 to 7", lane_high, NULL},
    {"lane -1; 0 to 7", lane_low, NULL},
    {"more than 16 buffers", bufs_many, NULL},
    {"x of 4611686018427387903 x 5 is too large", buf_huge, NULL},
    {"elements, too large", buf_many_bytes, NULL},
    {"too many tiles of 1 x 1", tiles_many, NULL},
    {"after a later step", after_later, NULL},
    {"after a later step", after_itself, NULL},
    {"after more than two", after_three, NULL},
    {"patch outside a launch", patch_on_copy, NULL},
    {"takes no addends", add_on_copy, NULL},
    {"a flag step that stores", store_in_flag, NULL},
    {"step 0: reads outside a buffer; A of rank 0, rows 6:9, cols 0:1; it is 8 x 6", read_below,
     NULL},
    {"reads outside a buffer", read_negative, NULL},
    {"reads outside a buffer; buffer 7, 7 are declared", read_no_buffer, NULL},
    {"reads outside a buffer; rank 2 is none of 2", read_no_rank, NULL},
    {"reads a peer's memory; A of rank 1, rows 0:1", read_peer, NULL},
    {"stores outside a buffer", store_right_of, NULL},
    {"stores into an input", store_in_input, NULL},
    {"stores where peers cannot reach; mine of rank 1, rows 0:1", store_unreachable, NULL},
    {"another shape than its source", store_reshaped, NULL},
    {"an engine in a buffer without SG_FIXED", engine_unfixed, NULL},
    {"tiles of nothing", tiles_of_nothing, NULL},
    {"k out of range", k_too_long, NULL},
    {"k out of range", k_backwards, NULL},
    {"operands do not fit", operand_misfit, NULL},
    {"after 1 addends, and there are 0", own_behind, NULL},
    {"another shape than its patch", addend_misfit, NULL},
    {"a wait for no rank", wait_for_nobody, NULL},
    {"a wait for no flag", wait_negative, NULL},
    {"without chunks", wait_rows_in_flag, NULL},
    {"without chunks", wait_no_chunk, NULL},
    {"slabs do not fit", slab_crosses_chunk, NULL},
    {"takes no waits", vendor_waits, NULL},
    {"takes no waits", vendor_twice, NULL},
    {"without one area per rank", coll_short, NULL},
    {"a collective in a peer's memory", coll_at_peer, NULL},
    {"goes nowhere", reduce_to_nowhere, NULL},
    {"65535", lists_too_long, NULL},
    {"a range of tiles that the patch does not have", range_past_the_end, NULL},
    {"a range of tiles that the patch does not have", range_before_the_first, NULL},
    {"a range of tiles that the patch does not have", range_of_none, NULL},
    {"not narrower than the launch's", narrow_and_wide, NULL},
    {"narrow tiles with flags or places", narrow_by_tile, NULL},
    {"places that do not fit", places_too_few, NULL},
    {"places that do not fit", places_too_wide, NULL},
    {"places that do not fit", places_added_of_others, NULL},
    {"stores outside a buffer", places_outside, NULL},
    {"places outside a launch", places_of_a_copy, NULL},
    {"places outside a launch", places_copied, NULL},
    {"places outside a launch", places_reduced, NULL},
    {"places outside a launch", places_collected, NULL},
    {"stores outside a buffer", sums_too_tall, NULL},
    {"adds what waits or is of another type", vendor_adds_another_type, NULL},
    {"adds what waits or is of another type", vendor_adds_what_comes, NULL},
    {"without one area per rank", exchange_short, "gemm_a2a:f32:8x4x6:r2"},
    {"without one area per rank", exchange_long, "gemm_a2a:f32:8x4x6:r2"},
    {"stores into an input", exchange_into_input, "gemm_a2a:f32:8x4x6:r2"},
    {"a collective in a peer's memory", exchange_at_peer, "gemm_a2a:f32:8x4x6:r2"},
    {"reads outside a buffer", gathered_part_too_long, "ag_gemm:f32:8x4x6:r2:gather=k"},
    {"cols 0:4; it is 3 x 4", peer_is_shorter, "gemm_a2a:f32:4x4x6:r2:counts=2,2/2,1"},
    {"a part of a row that a call makes whole", call_of_half_rows, "gemm:f32:8x4x6:r2:call=1"},
    {"a part of a row that a call makes whole", call_of_a_part_of_k, "gemm:f32:8x4x6:r2:call=1"},
    {"reads over a border", reads_over_border, "gemm:f32:8x4x6:r2:b=3,1"},
    {"stores over a border", stores_over_border, "gemm:f32:8x4x6:r2:b=3,1"},
    {"stores where peers cannot reach", returns_to_peer, "ag_gemm:f32:8x4x6:r2:return_a"},
    {"that do not come", hops_without_sums, "gemm_ar:f32:2x2x2:r3"},
    {"stores where peers cannot reach", one_of_several_c, "ag_gemm:f32:8x4x6:r2:b=3,1"},
};

static void broken_rules_are_named(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm_rs:f32:8x4x6:r2");
    sg_sched s = {0};
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++) {
        const char *const of = breakers[i].problem;
        sg_problem other = problem_of(of ? of : "gemm_rs:f32:8x4x6:r2");
        sg_sched_begin(&s, &other, 0);
        breakers[i].build(&s);
        expect_fault(&s, breakers[i].says);
        sg_problem_free(&other);
    }
    /* The same memory serves a right schedule afterwards. */
    sg_sched_begin(&s, &p, 0);
    launch_rows(&s, rows_of(&s, 0, 8));
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_rules_are_named),
    };
    return cmocka_run_group_tests_name("seal_rules", tests, NULL, NULL);
}
