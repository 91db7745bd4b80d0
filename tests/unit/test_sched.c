/* Tests of sched.c: what the builder drops, in which order visits and the accesses of a step come,
 * and the printed form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by_hand.h"
#include "core/moves.h"

/* ---- Building -------------------------------------------------------------------------------- */

static void user_buffers_have_their_shapes(void **state)
{
    (void)state;
    sg_problem p = problem_of("ag_gemm:bf16:12x5x7:r3:rows=6,4,2:bias");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 1);
    assert_int_equal(s.bufs, SG_USER_BUFS);
    assert_true(s.buf[SG_A].rows == 4 && s.buf[SG_A].cols == 7);
    assert_true(s.buf[SG_B].rows == 5 && s.buf[SG_B].cols == 7);
    assert_true(s.buf[SG_C].rows == 12 && s.buf[SG_C].cols == 5);
    assert_true(s.buf[SG_BIAS].rows == 1 && s.buf[SG_BIAS].cols == 5);
    assert_int_equal(sg_sched_element_bytes(&s, SG_A), 2);
    const int wide = sg_sched_buf(&s, SG_LOCAL, "sum", 3, 3, SG_WIDE);
    assert_int_equal(sg_sched_element_bytes(&s, wide), 4);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

static void gathers_and_pairs_shape_the_buffers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t a_rows, a_cols, b_rows, c_rows; /* of rank 1 */
    } cases[] = {
        {"ag_gemm:bf16:5x12x7:r3:gather=b:rows=6,4,2", 5, 7, 4, 5},
        {"ag_gemm:bf16:5x7x12:r3:gather=k:rows=6,4,2", 5, 4, 7, 5},
        {"a2a_gemm:bf16:6x7x12:r2:counts=1,2/3,4", 7, 12, 7, 6},
        {"gemm_a2a:bf16:7x7x12:r2:counts=1,2/3,4", 7, 12, 7, 6},
    };
    sg_sched s = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_problem p = problem_of(cases[i].text);
        sg_sched_begin(&s, &p, 1);
        assert_int_equal(s.buf[SG_A].rows, cases[i].a_rows);
        assert_int_equal(s.buf[SG_A].cols, cases[i].a_cols);
        assert_int_equal(s.buf[SG_B].rows, cases[i].b_rows);
        assert_int_equal(s.buf[SG_B].cols, p.k);
        assert_int_equal(s.buf[SG_C].rows, cases[i].c_rows);
        assert_int_equal(s.buf[SG_C].cols, p.n);
        sg_problem_free(&p);
    }
    sg_sched_free(&s);
}

static void patch_first(sg_sched *s)
{
    const sg_patch patch = rows_of(s, 0, 4);
    sg_sched_patch(s, &patch);
}

static void wait_first(sg_sched *s)
{
    sg_sched_wait(s, sg_wait_one(1, 0));
}

static void raise_of_a_launch(sg_sched *s)
{
    sg_sched_launch(s, 0, 2, 2, 0, false);
    sg_sched_raise(s, 1, SG_PER_PATCH, 0);
}

static void gather_without_launch(sg_sched *s)
{
    const sg_arrival arrival[2] = {{.by = 0, .chunk = 4}, {.by = 1, .chunk = 4}};
    static const int order[] = {0, 1};
    sg_gathering gathering = {.gathered = sg_moves_gathered(s, SG_SYM, 0), .arrival = arrival};
    sg_sched_copy(s, 1, SG_BY_SMS, sg_moves_held(s, 1));
    sg_moves_gather_patches(s, &gathering, order, 2);
}

static void gather_without_chunks(sg_sched *s)
{
    const sg_arrival arrival[2] = {{.by = 0, .chunk = 4}, {.by = 1}};
    static const int order[] = {0, 1};
    sg_gathering gathering = {.gathered = sg_moves_gathered(s, SG_SYM, 0), .arrival = arrival};
    sg_sched_launch(s, 0, 2, 2, 0, false);
    sg_moves_gather_patches(s, &gathering, order, 2);
}

static void send_without_chunks(sg_sched *s)
{
    sg_moves_send(s, 1, 1, sg_moves_gathered(s, SG_SYM, 0), &(sg_arrival){.by = 0});
}

static void send_together_without_chunks(sg_sched *s)
{
    const sg_arrival arrival[2] = {{.chunk = 4}, {.chunk = -1}};
    sg_moves_send_together(s, 1, sg_moves_gathered(s, SG_SYM, 0), arrival);
}

/* Nothing is left out in silence but what is of nothing. */
static void what_is_attached_to_nothing_is_refused(void **state)
{
    (void)state;
    static const struct {
        void (*build)(sg_sched *s);
        const char *says;
    } cases[] = {{patch_first, "patch outside a launch"},
                 {wait_first, "attached to no step"},
                 {raise_of_a_launch, "attached to step 0, a launch without a patch yet"},
                 {gather_without_launch, "patch outside a launch"},
                 {gather_without_chunks, "rows of rank 1 come in chunks of 0; 1 or more"},
                 {send_without_chunks, "rows of rank 0 come in chunks of 0; 1 or more"},
                 {send_together_without_chunks, "rows of rank 0 come in chunks of -1; 1 or more"}};
    sg_problem p = problem_of("ag_gemm:f32:8x4x6:r2");
    sg_sched s = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_sched_begin(&s, &p, 0);
        cases[i].build(&s);
        assert_int_equal(sg_sched_seal(&s), SHINGLE_EBUG);
        assert_non_null(strstr(shingle_error(), cases[i].says));
    }
    sg_sched_free(&s);
    sg_problem_free(&p);
}

static void nothing_is_dropped_with_its_attachments(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm_rs:f32:12x5x7:r2");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    assert_int_equal(sg_sched_copy(&s, 1, SG_BY_ENGINE, sg_area_of(0, SG_A, 0, 0, 0, 7)), -1);
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, 0, 0, 7));
    sg_sched_wait(&s, sg_wait_one(1, 3));
    sg_sched_raise(&s, 1, SG_PER_PATCH, 3);
    const int launch = sg_sched_launch(&s, 0, 4, 4, 0, false);
    assert_int_equal(launch, 0);
    sg_sched_after(&s, -1);
    const sg_patch empty = rows_of(&s, 3, 0);
    sg_sched_patch(&s, &empty);
    sg_sched_raise(&s, 1, SG_PER_PATCH, 3);
    const sg_patch patch = rows_of(&s, 0, 6);
    sg_sched_patch(&s, &patch);
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, 6, 0, 5));
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    assert_true(s.steps == 1 && s.patches == 1 && s.tos == 1 && s.waits == 0 && s.raises == 0);
    assert_true(s.step[0].after[0] == -1 && s.step[0].u.launch.visits == 2 * 2);
    assert_false(s.peers || s.hello || s.done || s.flags);

    sg_problem none = problem_of("gemm_rs:f32:0x5x7:r2");
    sg_sched_begin(&s, &none, 0);
    assert_int_equal(sg_sched_launch(&s, 0, 4, 4, 0, false), -1);
    sg_sched_patch(&s, &patch);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    assert_true(s.steps == 0 && s.patches == 0);
    sg_sched_free(&s);
    sg_problem_free(&none);
    sg_problem_free(&p);
}

static void visits_follow_the_raster(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm:f32:10x9x3:r1");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    sg_sched_launch(&s, 0, 4, 4, 0, false);
    sg_patch patch = rows_of(&s, 0, 7);
    sg_sched_patch(&s, &patch);
    patch = rows_of(&s, 7, 3);
    patch.raster = SG_BY_COL;
    sg_sched_patch(&s, &patch);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    const sg_launch *const launch = &s.step[0].u.launch;
    assert_int_equal(launch->visits, 2 * 3 + 1 * 3);
    int64_t area = 0;
    for (int32_t i = 0; i < launch->visits; i++) {
        sg_visit v;
        sg_sched_visit(&s, launch, i, &v);
        assert_int_equal(v.patch, i < 6 ? 0 : 1);
        assert_int_equal(v.tile, i < 6 ? i : i - 6);
        assert_true(v.row0 + v.rows <= (i < 6 ? 7 : 10) && v.col0 + v.cols <= 9);
        area += (int64_t)v.rows * v.cols;
    }
    assert_int_equal(area, 10 * 9);
    sg_visit last;
    sg_sched_visit(&s, launch, 5, &last);
    assert_true(last.row0 == 4 && last.rows == 3 && last.col0 == 8 && last.cols == 1);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

static void parts_of_a_raster_are_visited(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm:f32:7x9x3:r1");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    sg_sched_launch(&s, 0, 4, 4, 0, false);
    for (int i = 0; i < 2; i++) {
        sg_patch patch = rows_of(&s, 0, 7);
        patch.raster = SG_BY_COL;
        patch.tile0 = i ? 4 : 1;
        patch.tiles = i ? 2 : 3;
        sg_sched_patch(&s, &patch);
    }
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    assert_int_equal(s.step[0].u.launch.visits, 5);
    static const int32_t wanted[][4] = {/* index, tile along bands, row, column */
                                        {0, 3, 4, 0},
                                        {1, 1, 0, 4},
                                        {2, 4, 4, 4},
                                        {0, 2, 0, 8},
                                        {1, 5, 4, 8}};
    for (int32_t i = 0; i < 5; i++) {
        sg_visit v;
        sg_sched_visit(&s, &s.step[0].u.launch, i, &v);
        assert_int_equal(v.patch, i / 3);
        assert_int_equal(v.index, wanted[i][0]);
        assert_int_equal(v.tile, wanted[i][1]);
        assert_int_equal(v.row0, wanted[i][2]);
        assert_int_equal(v.col0, wanted[i][3]);
    }
    sg_sched_free(&s);
    sg_problem_free(&p);
}

static void calls_have_tiles_of_whole_rows(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm:f32:7x9x3:r1:call=5");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    sg_sched_launch(&s, 0, 4, 4, 0, false);
    const sg_patch patch = rows_of(&s, 0, 7);
    sg_sched_patch(&s, &patch);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    assert_true(s.step[0].u.launch.tile_n == 9 && s.step[0].u.launch.visits == 2);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct trace {
    sg_text text;
} trace;

static void note(void *context, const sg_access *a)
{
    static const char *const role[] = {"",     "A",    "B",    "add",  "bias", "residual",
                                       "gain", "self", "part", "zero", "src",  "dst"};
    trace *const t = context;
    if (a->what == SG_WAITS || a->what == SG_RAISES)
        sg_text_add(&t->text, "%s%s%d#%d*%d+%d ", a->what == SG_WAITS ? "w" : "r", role[a->role],
                    a->peer, a->flags.first, a->flags.count, a->flags.step);
    else
        sg_text_add(&t->text, "%s%s[%d:%d,%d:%d] ", a->what == SG_READS ? "<" : ">", role[a->role],
                    a->area.row0, a->area.row0 + a->area.rows, a->area.col0,
                    a->area.col0 + a->area.cols);
}

static void accesses_come_in_order(void **state)
{
    (void)state;
    char text[1000];
    trace t = {{text, sizeof text, 0}};
    sg_problem p = problem_of("gemm_ar:f32:8x4x6:r2:bias");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    const int inbox = sg_sched_buf(&s, SG_SYM, "inbox", 8, 4, 0);
    sg_patch patch = rows_of(&s, 0, 8);
    patch.slab = 4;
    patch.final = 1;
    patch.own_at = 1;
    sg_sched_launch(&s, 0, 3, 4, 0, false);
    sg_sched_patch(&s, &patch);
    sg_sched_wait(&s, sg_wait_one(1, 90));
    sg_sched_wait(&s, (sg_wait){.by = 1,
                                .per = SG_PER_ROWS,
                                .flag0 = 10,
                                .rows = 8,
                                .chunk = 2,
                                .chunk_k = 4,
                                .chunks_k = 2});
    const sg_wait tile = {.by = 1, .per = SG_PER_TILE, .flag0 = 70, .chunks_k = 1};
    sg_sched_add(&s, sg_area_of(0, inbox, 0, 8, 0, 4), &tile);
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, 8, 0, 4));
    sg_sched_to(&s, sg_area_of(1, SG_C, 0, 8, 0, 4));
    sg_sched_raise(&s, 1, SG_PER_TILE, 50);
    sg_sched_reduce(&s, 1, true);
    sg_sched_wait(&s, sg_wait_one(1, 5));
    const sg_wait one = sg_wait_one(1, 6);
    sg_sched_add(&s, sg_area_of(0, inbox, 2, 1, 1, 3), NULL);
    sg_sched_add(&s, sg_area_of(0, inbox, 3, 1, 1, 3), &one);
    sg_sched_to(&s, sg_area_of(0, SG_C, 2, 1, 1, 3));
    sg_sched_raise(&s, 0, SG_PER_PATCH, 7);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);

    sg_visit v;
    sg_sched_visit(&s, &s.step[0].u.launch, 1, &v); /* rows 3 to 6: chunks 1 and 2 */
    sg_step_access(&s, 0, &v, note, &t);
    assert_string_equal(text, "w1#90*1+1 w1#12*2+2 <A[3:6,0:4] <B[0:4,0:4] "
                              "w1#13*2+2 <A[3:6,4:6] <B[0:4,4:6] "
                              "wadd1#71*1+1 <add[3:6,0:4] <bias[0:1,0:4] "
                              ">dst[3:6,0:4] >dst[3:6,0:4] r1#51*1+1 ");
    t.text.length = 0;
    sg_step_access(&s, 1, NULL, note, &t);
    assert_string_equal(text, "w1#5*1+1 <add[2:3,1:4] wadd1#6*1+1 <add[3:4,1:4] <bias[0:1,1:4] "
                              ">dst[2:3,1:4] r0#7*1+1 ");
    sg_sched_free(&s);
    sg_problem_free(&p);
}

static void collectives_read_and_write_their_parts(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "<self[0:4,0:4] >part[0:4,0:4] >part[4:8,0:4] ",
        "<part[0:4,0:4] <part[4:8,0:4] >self[0:4,0:4] ",
        "<self[0:4,0:4] >self[0:4,0:4] ",
    };
    sg_problem p = problem_of("gemm_rs:f32:8x4x4:r2");
    sg_sched s = {0};
    for (int kind = SG_ALL_GATHER; kind <= SG_ALL_REDUCE; kind++) {
        char text[400];
        trace t = {{text, sizeof text, 0}};
        sg_sched_begin(&s, &p, 0);
        const int parts = sg_sched_buf(&s, SG_LIBRARY, "parts", 8, 4, 0);
        sg_sched_coll(&s, 0, (sg_coll_kind)kind, 0, sg_area_of(0, SG_C, 0, 4, 0, 4));
        for (int q = 0; q < 2 && kind != SG_ALL_REDUCE; q++)
            sg_sched_to(&s, sg_area_of(0, parts, 4 * q, 4, 0, 4));
        assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
        sg_step_access(&s, 0, NULL, note, &t);
        assert_string_equal(text, wanted[kind]);
    }
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* Sends first, then what arrives; nothing of its own. */
static void an_all_to_all_has_two_lists(void **state)
{
    (void)state;
    char text[400];
    trace t = {{text, sizeof text, 0}};
    sg_problem p = problem_of("gemm_a2a:f32:7x4x4:r2:counts=1,2/3,4");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    const int partial = sg_sched_buf(&s, SG_LIBRARY, "partial", 3, 4, 0);
    sg_sched_coll(&s, 0, SG_ALL_TO_ALL, 8, (sg_area){0});
    sg_sched_to(&s, sg_area_of(0, partial, 0, 1, 0, 4));
    sg_sched_to(&s, sg_area_of(0, partial, 1, 2, 0, 4));
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, 1, 0, 4));
    sg_sched_to(&s, sg_area_of(0, SG_C, 1, 3, 0, 4));
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    sg_step_access(&s, 0, NULL, note, &t);
    assert_string_equal(text, "<part[0:1,0:4] <part[1:3,0:4] >part[0:1,0:4] >part[1:4,0:4] ");
    t.text.length = 0;
    sg_sched_print(&s, &t.text);
    assert_string_equal(text, "rank 0 of 2\n     library partial 3x4\n"
                              "   0 lane 0 coll all-to-all  sms 8 -> partial[0:1,0:4], "
                              "partial[1:3,0:4], C[0:1,0:4], C[1:4,0:4]\n");
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* A place per visit; around a tile at the edge, zeros. */
static void places_are_filled_with_zeros(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "<A[0:2,0:4] <B[0:2,0:4] >dst[6:8,0:2] ",
        "<A[0:2,0:4] <B[2:3,0:4] >dst[8:10,0:1] >zero[8:10,1:2] ",
        "<A[2:3,0:4] <B[0:2,0:4] >dst[10:11,0:2] >zero[11:12,0:2] ",
        "<A[2:3,0:4] <B[2:3,0:4] >dst[12:13,0:1] >zero[12:13,1:2] >zero[13:14,0:2] ",
    };
    char text[1000];
    trace t = {{text, sizeof text, 0}};
    sg_problem p = problem_of("gemm:f32:3x3x4:r1");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    const int tiles = sg_sched_buf(&s, SG_LOCAL, "tiles", 14, 2, 0);
    sg_patch patch = rows_of(&s, 0, 3);
    sg_sched_launch(&s, 0, 2, 2, 0, false);
    sg_sched_patch(&s, &patch);
    sg_sched_to(&s, sg_area_tiled(0, tiles, 3, 4, 2, 2));
    sg_sched_launch(&s, 0, 2, 2, 0, false);
    patch.k1 = 0; /* tiles 2 and 3 brought back from places 5 and 6 */
    patch.tile0 = patch.tiles = 2;
    sg_sched_patch(&s, &patch);
    sg_sched_add(&s, sg_area_tiled(0, tiles, 5, 2, 2, 2), NULL);
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, 3, 0, 3));
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    sg_visit v;
    for (int32_t i = 0; i < 4; i++) {
        t.text.length = 0;
        sg_sched_visit(&s, &s.step[0].u.launch, i, &v);
        sg_step_access(&s, 0, &v, note, &t);
        assert_string_equal(text, wanted[i]);
    }
    t.text.length = 0;
    sg_sched_visit(&s, &s.step[1].u.launch, 1, &v);
    sg_step_access(&s, 1, &v, note, &t);
    assert_string_equal(text, "<add[12:13,0:1] >dst[2:3,2:3] ");
    t.text.length = 0;
    sg_sched_print(&s, &t.text);
    assert_string_equal(
        text, "rank 0 of 1\n"
              "     local tiles 14x2\n"
              "   0 lane 0 gemm tile 2x2\n"
              "        C[0:3,0:3] = A[0:3,0:4] * B[0:3,0:4] -> tiles[6:14,0:2]tiled (by row)\n"
              "   1 lane 0 gemm tile 2x2\n"
              "        C[0:3,0:3] = 0 + tiles[10:14,0:2]tiled -> C[0:3,0:3] tiles 2:4 (by row)\n");
    sg_sched_free(&s);
    sg_problem_free(&p);
}

static void print_has_a_line_a_step(void **state)
{
    (void)state;
    char text[4000];
    sg_text t = {text, sizeof text, 0};
    sg_problem p = problem_of("gemm_rs:f32:8x4x6:r2");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    const sg_patch patch = rows_of(&s, 0, 4);
    sg_sched_launch(&s, 0, 2, 2, 0, false);
    sg_sched_patch(&s, &patch);
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, 4, 0, 4));
    sg_sched_raise(&s, 0, SG_PER_PATCH, 3);
    sg_sched_raise(&s, 1, SG_PER_TILE, 7);
    sg_sched_flag(&s, 2);
    sg_sched_after(&s, 0);
    sg_sched_wait(&s, sg_wait_one(1, 4));
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    sg_sched_print(&s, &t);
    assert_string_equal(text,
                        "rank 0 of 2\n"
                        "   0 lane 0 gemm tile 2x2\n"
                        "        C[0:4,0:4] = A[0:4,0:6] * B[0:4,0:6] -> C[0:4,0:4] => #3@r0 => "
                        "#7+tile@r1 (by row)\n"
                        "   1 lane 2 flag ? r1#4 after 0\n");
    sg_sched_free(&s);
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(user_buffers_have_their_shapes),
        cmocka_unit_test(gathers_and_pairs_shape_the_buffers),
        cmocka_unit_test(nothing_is_dropped_with_its_attachments),
        cmocka_unit_test(what_is_attached_to_nothing_is_refused),
        cmocka_unit_test(visits_follow_the_raster),
        cmocka_unit_test(parts_of_a_raster_are_visited),
        cmocka_unit_test(calls_have_tiles_of_whole_rows),
        cmocka_unit_test(accesses_come_in_order),
        cmocka_unit_test(collectives_read_and_write_their_parts),
        cmocka_unit_test(an_all_to_all_has_two_lists),
        cmocka_unit_test(places_are_filled_with_zeros),
        cmocka_unit_test(print_has_a_line_a_step),
    };
    return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}
