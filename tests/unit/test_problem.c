/* Tests of problem.c: texts parse and print, errors name the column, every row has one owner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/problem.h"

/* Of an all-to-all: parts of a product stand in the order of owners, what an owner holds in the
 * order of ranks, neither with gaps. */
static void verify_pairs(const sg_problem *p)
{
    int64_t most = 0;
    for (int r = 0; r < p->ranks; r++) {
        int64_t row = 0;
        int64_t held = 0;
        for (int q = 0; q < p->ranks; q++) {
            const sg_part part = sg_problem_part(p, r, q);
            const sg_part back = sg_problem_part(p, q, r);
            assert_true(part.rows >= 0 && part.rows <= p->most_rows);
            assert_int_equal(part.base, row);
            assert_int_equal(back.held, held);
            row += part.rows;
            held += back.rows;
        }
        assert_int_equal(sg_problem_rows(p, r), row);
        const bool sends = p->op == SG_OP_A2A_GEMM;
        assert_int_equal(sends ? sg_problem_a_rows(p, r) : sg_problem_c_rows(p, r), held);
        assert_int_equal(sends ? sg_problem_c_rows(p, r) : sg_problem_a_rows(p, r), row);
        most = sg_max(most, row);
    }
    assert_int_equal(most, p->m);
}

/* What must hold of every problem: segments cover what moves in order without gaps, an owner's
 * segments are chained in order and count its rows, bases count the rows of lower ranks. */
static void verify_ownership(const sg_problem *p)
{
    const int64_t extent = p->gather == SG_GATHER_B ? p->n : p->gather == SG_GATHER_K ? p->k : p->m;
    if (p->op == SG_OP_A2A_GEMM || p->op == SG_OP_GEMM_A2A) verify_pairs(p);
    int64_t row = 0;
    for (int i = 0; i < p->segment_count; i++) {
        assert_int_equal(p->segments[i].row0, row);
        assert_true(p->segments[i].rows > 0);
        assert_in_range(p->segments[i].owner, 0, p->ranks - 1);
        row += p->segments[i].rows;
    }
    assert_int_equal(row, extent);

    int64_t base = 0;
    int chained = 0;
    for (int r = 0; r < p->ranks; r++) {
        int64_t own = 0;
        int32_t last = -1;
        for (int32_t i = p->share[r].first; i >= 0; i = p->segments[i].next) {
            assert_true(i > last);
            assert_int_equal(p->segments[i].owner, r);
            assert_int_equal(p->segments[i].own_row, own);
            own += p->segments[i].rows;
            last = i;
            chained++;
        }
        assert_int_equal(p->share[r].rows, own);
        assert_int_equal(p->share[r].base, base);
        base += own;
    }
    assert_int_equal(chained, p->segment_count);
    assert_int_equal(base, extent);
}

static void expect_text(const char *text, const char *canonical)
{
    char printed[512];
    sg_problem p;
    assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
    verify_ownership(&p);
    assert_int_equal(sg_problem_print(&p, printed, sizeof printed), strlen(canonical));
    assert_string_equal(printed, canonical);
    sg_problem_free(&p);
    assert_null(p.segments);
    sg_problem_free(&p);
}

static void texts_print_canonically(void **state)
{
    (void)state;
    static const char *const same[] = {
        "ag_gemm:bf16:8192x7168x8192:r4",
        "gemm_rs:f32:512x1024x768:r4:bias",
        "gemm_ar:f16:1x1x1:r1024",
        "gemm:f32:0x0x0:r1",
        "gemm_rs:f32:12x1x1:r3:rows=6,3,3",
        "ag_gemm:f32:7x1x1:r3:rows=0,7,0:gelu",
        "gemm_rs:bf16:100x8x8:r3:cyclic=16:bias:silu",
        "gemm_rs:bf16:2147483647x2147483647x2147483647:r2:relu",
        "ag_gemm:bf16:64x48x32:r4:gather=b",
        "ag_gemm:bf16:64x48x32:r2:gather=b:rows=20,28:bias:gelu",
        "ag_gemm:f32:5x6x7:r2:gather=k:rows=3,4:accumulate",
        "ag_gemm:f32:5x6x70:r2:gather=k:cyclic=16",
        "gemm:f16:2x2x2:r1:accumulate",
        "a2a_gemm:bf16:6x2x3:r2:counts=1,2/3,4",
        "gemm_a2a:bf16:7x2x3:r2:counts=1,2/3,4:bias:silu",
        "gemm_a2a:f32:0x2x3:r3",
        "gemm_a2a:f32:9x2x3:r3:counts=0,0,9/0,0,0/9,0,0:call=0",
        "gemm_rs:f32:8x4x4:r2:rows=1,7:call=123:relu",
        "gemm_rs:f32:8x4x4:r2:call=9007199254740992",
        "ag_gemm:bf16:64x12x32:r4:b=8,2,2:bias:gelu",
        "ag_gemm:f32:64x10x32:r4:rows=30,30,4,0:b=1,2,3,4:return_a:accumulate",
        "a2a_gemm:bf16:6x5x3:r2:counts=1,2/3,4:b=4,1:return_a",
        "ag_gemm:f32:5x6x7:r2:cyclic=2:return_a:call=5",
        "gemm:f32:5x2147483647x7:r2:b=2147483646,1",
        "gemm_rs:bf16:64x48x32:r4:norm",
        "gemm_rs:f32:8x4x4:r2:rows=1,7:bias:norm=1e-6",
        "gemm_ar:f16:8x4x4:r2:norm=999999e-20",
        "gemm_ar:f16:8x4x4:r2:norm=1e-0",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) expect_text(same[i], same[i]);
    /* Ownership that is the even one is not printed, whichever way it was given. */
    expect_text("gemm_rs:f32:7x1x1:r3:rows=3,2,2", "gemm_rs:f32:7x1x1:r3");
    expect_text("gemm_rs:f32:9x1x1:r3:cyclic=3", "gemm_rs:f32:9x1x1:r3");
    expect_text("gemm_rs:f32:3x1x1:r4:cyclic=1", "gemm_rs:f32:3x1x1:r4");
    expect_text("gemm_rs:f32:5x1x1:r2:cyclic=4", "gemm_rs:f32:5x1x1:r2:rows=4,1");
    expect_text("ag_gemm:f32:8x1x1:r2:relu:bias", "ag_gemm:f32:8x1x1:r2:bias:relu");
    expect_text("ag_gemm:f32:08x01x1:r02", "ag_gemm:f32:8x1x1:r2");
    expect_text("ag_gemm:f32:8x7x4:r2:gather=b:rows=4,3", "ag_gemm:f32:8x7x4:r2:gather=b");
    expect_text("ag_gemm:f32:7x3x4:r2:rows=2,2:gather=k", "ag_gemm:f32:7x3x4:r2:gather=k");
    expect_text("ag_gemm:f32:7x3x4:r2:accumulate:cyclic=1:gather=k",
                "ag_gemm:f32:7x3x4:r2:gather=k:cyclic=1:accumulate");
    expect_text("gemm_rs:f32:8x1x1:r2:relu:call=7", "gemm_rs:f32:8x1x1:r2:call=7:relu");
    /* Every epsilon has one text, and what is not given is 1e-5. */
    expect_text("gemm_rs:f32:8x1x1:r2:norm=1e-5:bias", "gemm_rs:f32:8x1x1:r2:bias:norm");
    expect_text("gemm_rs:f32:8x1x1:r2:norm=0.00001", "gemm_rs:f32:8x1x1:r2:norm");
    expect_text("gemm_rs:f32:8x1x1:r2:norm=100e-8", "gemm_rs:f32:8x1x1:r2:norm=1e-6");
    expect_text("gemm_rs:f32:8x1x1:r2:norm=1.50e-03", "gemm_rs:f32:8x1x1:r2:norm=15e-4");
    /* One B is no border. */
    expect_text("gemm:f32:8x9x1:r2:b=9", "gemm:f32:8x9x1:r2");
    expect_text("ag_gemm:f32:8x9x1:r2:bias:return_a:b=5,04:cyclic=1",
                "ag_gemm:f32:8x9x1:r2:cyclic=1:b=5,4:return_a:bias");
    /* A product's rows are dealt to its owners, an owner's rows alike to all products. */
    expect_text("gemm_a2a:f32:7x1x1:r3:counts=3,2,2/3,2,2/3,2,2", "gemm_a2a:f32:7x1x1:r3");
    expect_text("a2a_gemm:f32:7x1x1:r3:counts=3,3,3/2,2,2/2,2,2", "a2a_gemm:f32:7x1x1:r3");
    expect_text("a2a_gemm:f32:9x1x1:r3:counts=3,2,2/3,2,2/3,2,2",
                "a2a_gemm:f32:9x1x1:r3:counts=3,2,2/3,2,2/3,2,2");
}

/* Counts for every pair, often none; returns the highest product. */
static int64_t random_counts(sg_random *random, sg_op op, int ranks, int64_t *counts)
{
    int64_t most = 0;
    for (int i = 0; i < ranks * ranks; i++)
        counts[i] = sg_random_below(random, 3) ? sg_random_below(random, 6) : 0;
    for (int r = 0; r < ranks; r++) {
        int64_t rows = 0;
        for (int q = 0; q < ranks; q++)
            rows += counts[op == SG_OP_A2A_GEMM ? q * ranks + r : r * ranks + q];
        most = sg_max(most, rows);
    }
    return most;
}

static int64_t *moved_extent(sg_ask *ask)
{
    return ask->gather == SG_GATHER_B ? &ask->n : ask->gather == SG_GATHER_K ? &ask->k : &ask->m;
}

/* A problem of any operator with what goes with it; LIST has room for its rows or counts. */
static void random_ask(sg_random *random, int ranks, int64_t *list, sg_ask *ask_out)
{
    sg_ask ask = {.op = (sg_op)sg_random_below(random, SG_OPS),
                  .type = (sg_type)sg_random_below(random, SG_TYPES),
                  .ranks = ranks,
                  .m = sg_random_below(random, 60),
                  .n = sg_random_below(random, 5),
                  .k = sg_random_below(random, 5)};
    const bool exchange = ask.op == SG_OP_A2A_GEMM || ask.op == SG_OP_GEMM_A2A;
    if (ask.op == SG_OP_AG_GEMM) ask.gather = (sg_gather)sg_random_below(random, SG_GATHERS);
    if (ask.op == SG_OP_AG_GEMM || ask.op == SG_OP_GEMM)
        ask.accumulate = sg_random_below(random, 3) == 0;
    if (!ask.accumulate) {
        ask.bias = sg_random_below(random, 2) == 0;
        ask.act = (sg_act)sg_random_below(random, SG_ACTS);
        ask.call = ask.gather == SG_GATHER_A && ask.k > 0 && sg_random_below(random, 4) == 0;
        if (ask.call) ask.call_flops = sg_random_below(random, 100);
    }
    const bool sums = ask.op == SG_OP_GEMM_RS || ask.op == SG_OP_GEMM_AR;
    ask.norm = sums && !ask.call && ask.act == SG_ACT_NONE;
    if (ask.norm) ask.epsilon.digits = (int32_t)sg_random_below(random, 12);
    if (ask.epsilon.digits > 0) ask.epsilon.places = (int32_t)sg_random_below(random, 9);
    const bool arrives = ask.op == SG_OP_AG_GEMM || ask.op == SG_OP_A2A_GEMM;
    const bool shares = ask.gather == SG_GATHER_A && !ask.call;
    ask.return_a = arrives && ask.gather == SG_GATHER_A && ask.n > 0 && ask.m % 2 == 0;
    if (shares && (arrives || ask.op == SG_OP_GEMM) && sg_random_below(random, 2) == 0)
        for (int64_t left = ask.n; left > 0; left -= ask.b_cols[ask.b_count++])
            ask.b_cols[ask.b_count] =
                ask.b_count < SHINGLE_MOST_B - 1 ? 1 + sg_random_below(random, left) : left;
    const int64_t deal = sg_random_below(random, 3);
    if (exchange && deal > 0 && ranks < 10) {
        ask.m = random_counts(random, ask.op, ranks, list);
        ask.counts = list;
    } else if (!exchange && deal == 1) {
        ask.cyclic = 1 + sg_random_below(random, 9);
    } else if (!exchange && deal == 2) {
        int64_t *const extent = moved_extent(&ask);
        *extent = 0;
        for (int r = 0; r < ranks; r++) *extent += list[r] = sg_random_below(random, 9);
        if (ask.call && ask.k == 0) ask.call = false, ask.call_flops = 0;
        ask.rows = list;
    }
    *ask_out = ask;
}

static void expect_equal(const sg_problem *p, const sg_problem *q)
{
    assert_true(p->op == q->op && p->type == q->type && p->act == q->act && p->bias == q->bias);
    assert_true(p->gather == q->gather && p->accumulate == q->accumulate);
    assert_true(p->call == q->call && p->call_flops == q->call_flops);
    assert_true(p->m == q->m && p->n == q->n && p->k == q->k);
    assert_true(p->return_a == q->return_a && p->b_count == q->b_count);
    assert_memory_equal(p->b_cols, q->b_cols, sizeof p->b_cols);
    assert_true(p->norm == q->norm && p->epsilon.digits == q->epsilon.digits);
    assert_true(p->epsilon.places == q->epsilon.places && (!p->norm || p->epsilon.digits > 0));
    assert_true(p->segment_count == q->segment_count && p->most_rows == q->most_rows);
    for (int s = 0; s < p->segment_count; s++)
        assert_memory_equal(&p->segments[s], &q->segments[s], sizeof p->segments[s]);
    assert_true((p->counts == NULL) == (q->counts == NULL));
    const size_t bytes = (size_t)(p->ranks * p->ranks) * sizeof *p->counts;
    if (p->counts == NULL) return;
    assert_memory_equal(p->counts, q->counts, bytes);
    assert_memory_equal(p->in_product, q->in_product, bytes);
    assert_memory_equal(p->in_owner, q->in_owner, bytes);
    assert_ptr_not_equal(p->counts, q->counts);
}

static void random_problems_round_trip(void **state)
{
    (void)state;
    sg_random random = {(uint64_t)sg_now_us()};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int i = 0; i < 3000; i++) {
        static char text[30000];
        static char again[30000];
        int64_t list[SG_MAX_RANKS];
        sg_ask ask;
        sg_problem p;
        sg_problem q;
        random_ask(&random, 1 + (int)sg_random_below(&random, i % 50 == 0 ? SG_MAX_RANKS : 9), list,
                   &ask);
        if (sg_problem_ask(&ask, &p) != SHINGLE_OK) fail_msg("%s", shingle_error());
        verify_ownership(&p);
        assert_true(sg_problem_print(&p, text, sizeof text) < sizeof text);
        if (sg_problem_parse(text, &q) != SHINGLE_OK) fail_msg("%s", shingle_error());
        verify_ownership(&q);
        sg_problem_print(&q, again, sizeof again);
        assert_string_equal(text, again);
        expect_equal(&p, &q);
        sg_problem_free(&q);
        assert_int_equal(sg_problem_copy(&p, &q), SHINGLE_OK);
        verify_ownership(&q);
        expect_equal(&p, &q);
        sg_problem_free(&p);
        sg_problem_print(&q, again, sizeof again);
        assert_string_equal(text, again);
        sg_problem_free(&q);
    }
}

static void even_shares_differ_by_one_row(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 9; ranks++) {
        for (int64_t m = 0; m <= 30; m++) {
            sg_problem p;
            assert_int_equal(sg_problem_make(SG_OP_GEMM_RS, SG_F32, m, 1, 1, ranks, NULL, 0, &p),
                             SHINGLE_OK);
            verify_ownership(&p);
            for (int r = 0; r < ranks; r++)
                assert_int_equal(p.share[r].rows, m / ranks + (r < m % ranks));
            assert_int_equal(p.most_rows, sg_ceil_div(m, ranks));
            sg_problem_free(&p);
        }
    }
}

static void cyclic_rows_go_round(void **state)
{
    (void)state;
    sg_problem p;
    assert_int_equal(sg_problem_parse("ag_gemm:f32:23x1x1:r3:cyclic=4", &p), SHINGLE_OK);
    assert_int_equal(p.segment_count, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(p.segments[i].owner, i % 3);
        assert_int_equal(p.segments[i].rows, i == 5 ? 3 : 4);
        assert_int_equal(p.segments[i].own_row, i / 3 * 4);
    }
    assert_int_equal(p.share[2].rows, 7);
    sg_problem_free(&p);
}

static void matrices_have_the_rows_of_the_operator(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        int64_t a_rows, c_rows; /* of rank 1, which owns 3 of 12 rows */
        sg_in in;
        sg_out out;
    } cases[] = {
        {"gemm", 12, 12, SG_IN_NONE, SG_OUT_NONE},
        {"ag_gemm", 3, 12, SG_IN_GATHER, SG_OUT_NONE},
        {"gemm_rs", 12, 3, SG_IN_NONE, SG_OUT_SCATTER},
        {"gemm_ar", 12, 12, SG_IN_NONE, SG_OUT_ALL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[80];
        sg_problem p;
        shingle_shape shape;
        snprintf(text, sizeof text, "%s:f16:12x5x7:r3:rows=6,3,3:bias", cases[i].op);
        assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
        assert_int_equal(sg_problem_a_rows(&p, 1), cases[i].a_rows);
        assert_int_equal(sg_problem_c_rows(&p, 1), cases[i].c_rows);
        assert_int_equal(sg_problem_in(&p), cases[i].in);
        assert_int_equal(sg_problem_out(&p), cases[i].out);
        assert_true(sg_problem_has_epilogue(&p));
        sg_problem_free(&p);
        assert_int_equal(shingle_problem_shape(text, 1, &shape), SHINGLE_OK);
        assert_int_equal(shingle_problem_shape(text, 1, NULL), SHINGLE_EINVAL);
        assert_string_equal(shape.op, cases[i].op);
        assert_string_equal(shape.type, "f16");
        assert_int_equal(shape.a_rows, cases[i].a_rows);
        assert_int_equal(shape.c_rows, cases[i].c_rows);
        assert_true(shape.m == 12 && shape.n == 5 && shape.k == 7 && shape.ranks == 3);
        assert_true(shape.element_bytes == 2 && shape.has_bias);
        assert_int_equal(shape.gather, cases[i].in == SG_IN_GATHER ? 'a' : 0);
        assert_int_equal(shingle_problem_shape(text, 3, &shape), SHINGLE_EINVAL);
        assert_non_null(strstr(shingle_error(), "0 to 2"));
        assert_int_equal(shingle_problem_shape(text, -1, &shape), SHINGLE_EINVAL);
    }
}

/* Several B, and rows that are returned: own and arrived. */
static void shared_problems_have_their_shapes(void **state)
{
    (void)state;
    shingle_shape shape;
    assert_int_equal(shingle_problem_shape("ag_gemm:f32:12x9x7:r3:b=4,3,2:return_a", 1, &shape),
                     SHINGLE_OK);
    assert_true(shape.b_count == 3 && shape.returned_rows == 12 && shape.b_rows == 9);
    assert_true(shape.b_cols[0] == 4 && shape.b_cols[1] == 3 && shape.b_cols[2] == 2);
    assert_int_equal(shape.b_cols[3], 0);
    assert_int_equal(
        shingle_problem_shape("a2a_gemm:f32:6x9x7:r2:counts=1,2/3,4:return_a", 0, &shape),
        SHINGLE_OK);
    assert_true(shape.b_count == 1 && shape.b_cols[0] == 9 && shape.returned_rows == 4);
    assert_int_equal(shingle_problem_shape("gemm:f32:6x9x7:r2", 0, &shape), SHINGLE_OK);
    assert_true(shape.returned_rows == 0 && shape.act[0] == '\0' && !shape.accumulates);
    shingle_problem_shape("gemm:f32:6x9x7:r2:silu", 0, &shape);
    assert_string_equal(shape.act, "silu");
    shingle_problem_shape("ag_gemm:f32:6x9x7:r2:gather=k:accumulate", 0, &shape);
    assert_true(shape.gather == 'k' && shape.accumulates);
    shingle_problem_shape("gemm_rs:f32:6x9x7:r2:norm=2e-3", 0, &shape);
    assert_true(shape.epsilon > 1.999e-3 && shape.epsilon < 2.001e-3);
    shingle_problem_shape("gemm_rs:f32:6x9x7:r2:call=9", 0, &shape);
    assert_true(shape.is_call);

    sg_problem p;
    static const int whose[] = {0, 0, 0, 0, 1, 1, 1, 2, 2};
    static const int64_t border[] = {0, 4, 7, 9};
    assert_int_equal(sg_problem_parse("gemm:f32:12x9x7:r3:b=4,3,2", &p), SHINGLE_OK);
    assert_true(sg_problem_col_tiles(&p, 4) == 3 && sg_problem_col_tiles(&p, 3) == 4 &&
                sg_problem_col_tiles(&p, 1) == 9);
    for (int col = 0; col < 9; col++) {
        int64_t low = -1;
        int64_t high = -1;
        assert_int_equal(sg_problem_b_at(&p, col, &low, &high), whose[col]);
        assert_true(low == border[whose[col]] && high == border[whose[col] + 1]);
    }
    sg_problem_free(&p);
}

/* Rank 1 of 3 owns 3 of what moves; the pairs are uneven. */
static void attributes_shape_the_matrices(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t a_rows, a_cols, b_rows, c_rows;
    } cases[] = {
        {"ag_gemm:f16:5x12x7:r3:gather=b:rows=6,3,3", 5, 7, 3, 5},
        {"ag_gemm:f16:5x7x12:r3:gather=k:rows=6,3,3", 5, 3, 7, 5},
        {"ag_gemm:f16:12x5x7:r3:rows=6,3,3:call=1", 3, 7, 5, 12},
        {"a2a_gemm:f16:8x5x7:r3", 9, 7, 5, 8},
        {"gemm_a2a:f16:8x5x7:r3", 8, 7, 5, 9},
        /* Rank 1 sends 4 + 0 + 5 and gets 2 + 0 + 8. */
        {"a2a_gemm:f16:15x5x7:r3:counts=1,2,3/4,0,5/6,8,7", 9, 7, 5, 10},
        {"gemm_a2a:f16:21x5x7:r3:counts=1,2,3/4,0,5/6,8,7", 9, 7, 5, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shingle_shape shape;
        if (shingle_problem_shape(cases[i].text, 1, &shape) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
        assert_int_equal(shape.a_rows, cases[i].a_rows);
        assert_int_equal(shape.a_cols, cases[i].a_cols);
        assert_int_equal(shape.b_rows, cases[i].b_rows);
        assert_int_equal(shape.c_rows, cases[i].c_rows);
    }
}

/* Rank 1's product of a dispatch: what ranks 0, 1 and 2 send to it, one behind the other. */
static void pairs_have_their_places(void **state)
{
    (void)state;
    sg_problem p;
    assert_int_equal(sg_problem_parse("a2a_gemm:f32:15x1x1:r3:counts=1,2,3/4,0,5/6,8,7", &p),
                     SHINGLE_OK);
    const sg_part first = sg_problem_part(&p, 1, 0);
    const sg_part last = sg_problem_part(&p, 1, 2);
    assert_true(first.rows == 2 && first.base == 0 && first.held == 1);
    assert_true(last.rows == 8 && last.base == 2 && last.held == 6);
    assert_int_equal(sg_problem_part(&p, 1, 1).rows, 0);
    assert_int_equal(p.most_rows, 8);
    assert_int_equal(sg_problem_rows(&p, 0), 11);
    sg_problem_free(&p);
}

/* Texts that are refused, and what is said. */
static const struct {
    const char *text, *says[2];
} refusals[] = {
    {"", {"column 1", "ag_gemm"}},
    {"agemm:f32:1x1x1:r1", {"column 1", "gemm_rs"}},
    {"gemmx:f32:1x1x1:r1", {"column 1", "gemm"}},
    {"gemm", {"column 5", "\":\""}},
    {"gemm:", {"column 6", "f32, bf16 or f16"}},
    {"gemm:f64:1x1x1:r1", {"column 6", "f32, bf16 or f16"}},
    {"gemm:f32:", {"column 10", "m of MxNxK"}},
    {"gemm:f32:-1x1x1:r1", {"column 10", "m of MxNxK"}},
    {"gemm:f32:1", {"column 11", "\"x\""}},
    {"gemm:f32:1x:r1", {"column 12", "n of MxNxK"}},
    {"gemm:f32:1x1:r1", {"column 13", "\"x\""}},
    {"gemm:f32:1x1x:r1", {"column 14", "k of MxNxK"}},
    {"gemm:f32:1x1x1", {"column 15", ":rRANKS"}},
    {"gemm:f32:1x1x1:4", {"column 16", ":rRANKS"}},
    {"gemm:f32:1x1x1:r", {"column 17", "number of ranks"}},
    {"gemm:f32:1x1x1:r0", {"0 ranks", "1 to 1024"}},
    {"gemm:f32:1x1x1:r1025", {"1025 ranks", "1 to 1024"}},
    {"gemm:f32:2147483648x1x1:r1", {"column 10", "up to 2147483647"}},
    {"gemm:f32:99999999999999999999999x1x1:r1", {"column 10", "up to 2147483647"}},
    {"gemm:f32:1x1x1:r1 ", {"column 18", "the end"}},
    {"gemm:f32:1x1x1:r1:", {"column 19", "rows="}},
    {"gemm:f32:1x1x1:r1:tanh", {"column 19", "relu, gelu, silu or norm"}},
    {"gemm:f32:1x1x1:r1:bias:bias", {"column 24", "bias is given twice"}},
    {"gemm:f32:1x1x1:r1:relu:gelu", {"column 24", "only one of relu, gelu and silu"}},
    {"gemm:f32:1x1x1:r1:silu:bias:silu", {"column 29", "silu behind silu; only one"}},
    {"gemm:f32:1x1x1:r1:none", {"column 19", "relu"}},
    {"gemm_rs:f32:4x1x1:r2:rows=4", {"column 28", "the rows of the next rank"}},
    {"gemm_rs:f32:4x1x1:r2:rows=2,1,1", {"column 30", "one number per rank"}},
    {"gemm_rs:f32:4x1x1:r2:rows=2,", {"column 29", "number of rows"}},
    {"gemm_rs:f32:4x1x1:r2:rows=2,3", {"add up to 5", "m is 4"}},
    {"gemm_rs:f32:4x1x1:r2:rows=5,0", {"rank 0 owns 5", "0 to m 4"}},
    {"gemm_rs:f32:4x1x1:r2:cyclic=0", {"column 29", "at least 1"}},
    {"gemm_rs:f32:4x1x1:r2:cyclic=", {"column 29", "number of rows"}},
    {"gemm_rs:f32:4x1x1:r2:cyclic=1:rows=2,2", {"column 31", "only one of rows="}},
    {"gemm_rs:f32:70000x1x1:r2:cyclic=1", {"70000 blocks", "at most 65536"}},
    {"a2a:f32:1x1x1:r1", {"column 1", "a2a_gemm, gemm_a2a"}},
    {"ag_gemm:f32:4x4x4:r2:gather=", {"column 29", "b or k"}},
    {"ag_gemm:f32:4x4x4:r2:gather=a", {"column 29", "b or k"}},
    {"ag_gemm:f32:4x4x4:r2:gather=bk", {"column 29", "b or k"}},
    {"ag_gemm:f32:4x4x4:r2:gather=b:gather=b", {"column 31", "gather="}},
    {"gemm_rs:f32:4x4x4:r2:gather=b", {"gather=b with gemm_rs", "ag_gemm"}},
    {"gemm:f32:4x4x4:r2:gather=k", {"gather=k with gemm;", "ag_gemm"}},
    {"ag_gemm:f32:4x6x4:r2:gather=b:rows=2,2", {"add up to 4", "n is 6"}},
    {"ag_gemm:f32:4x6x8:r2:gather=k:rows=9,0", {"rank 0 owns 9", "0 to k 8"}},
    {"ag_gemm:f32:4x4x4:r2:counts=2,2/2,2", {"counts= with ag_gemm", "gemm_a2a"}},
    {"gemm_a2a:f32:4x4x4:r2:rows=2,2", {"rows= with gemm_a2a", "counts="}},
    {"a2a_gemm:f32:4x4x4:r2:cyclic=2", {"cyclic= with a2a_gemm", "counts="}},
    {"gemm_a2a:f32:4x4x4:r2:counts=2,2", {"column 33", "\"/\""}},
    {"gemm_a2a:f32:4x4x4:r2:counts=2/2,2", {"column 31", "the rows of the next rank"}},
    {"gemm_a2a:f32:4x4x4:r2:counts=2,2,2/2,2", {"column 33", "one number per rank"}},
    {"gemm_a2a:f32:4x4x4:r2:counts=2,2/2,2/2,2", {"column 37", "one group per rank"}},
    {"gemm_a2a:f32:4x4x4:r2:counts=2,/2,2", {"column 32", "a number of rows"}},
    {"gemm_a2a:f32:4x4x4:r2:counts=5,2/2,2", {"rank 0 sends 5 rows to rank 0", "0 to m 4"}},
    {"a2a_gemm:f32:4x4x4:r2:counts=0,5/2,2", {"rank 0 sends 5 rows to rank 1", "0 to m 4"}},
    {"gemm_a2a:f32:4x4x4:r2:counts=2,1/1,2", {"up to 3 rows", "m is 4"}},
    {"a2a_gemm:f32:4x4x4:r2:counts=3,1/2,1", {"up to 5 rows", "m is 4"}},
    {"gemm_a2a:f32:2147483647x1x1:r2:counts=2147483647,0/2147483647,0",
     {"rank 0 4294967294 rows", "at most 2147483647"}},
    {"gemm_a2a:f32:4x4x4:r2:counts=2,2/2,2:rows=2,2", {"column 38", "only one of rows="}},
    {"gemm_rs:f32:4x4x4:r2:accumulate", {"accumulate with gemm_rs", "gemm and ag_gemm"}},
    {"a2a_gemm:f32:4x4x4:r2:accumulate", {"accumulate with a2a_gemm", "gemm and ag_gemm"}},
    {"gemm:f32:4x4x4:r2:accumulate:bias", {"accumulate with bias", "C holds sums"}},
    {"ag_gemm:f32:4x4x4:r2:silu:accumulate", {"accumulate with silu", "C holds sums"}},
    {"gemm:f32:4x4x4:r2:accumulate:accumulate", {"column 30", "accumulate is given twice"}},
    {"gemm:f32:4x4x4:r2:accumulates", {"column 19", "accumulate"}},
    {"gemm:f32:4x4x4:r2:call", {"column 19", "call="}},
    {"gemm:f32:4x4x4:r2:call=", {"column 24", "the operations of a row"}},
    {"gemm:f32:4x4x4:r2:call=9007199254740993", {"column 24", "up to 9007199254740992"}},
    {"gemm:f32:4x4x4:r2:call=-1", {"column 24", "the operations of a row"}},
    {"gemm:f32:4x4x4:r2:call=1:call=1", {"column 26", "call= is given twice"}},
    {"gemm:f32:4x4x4:r2:call=1:accumulate", {"call with accumulate", "whole rows"}},
    {"ag_gemm:f32:4x4x4:r2:call=1:gather=k", {"call with gather=k;", "whole rows"}},
    {"gemm:f32:4x4x0:r2:call=1", {"call with k 0", "columns of A"}},
    {"ag_gemm:f32:4x9x4:r2:b=", {"column 24", "the columns of a B"}},
    {"ag_gemm:f32:4x9x4:r2:b=4,", {"column 26", "the columns of a B"}},
    {"ag_gemm:f32:4x9x4:r2:b=1,2,3,2,1", {"column 31", "the end of b=, at most 4 numbers"}},
    {"ag_gemm:f32:4x9x4:r2:b=4,4", {"add up to 8", "n is 9"}},
    {"ag_gemm:f32:4x9x4:r2:b=4,5,0", {"gives B 3 0 columns", "1 to n 9"}},
    {"ag_gemm:f32:4x9x4:r2:b=10,2", {"gives B 1 10 columns", "1 to n 9"}},
    {"ag_gemm:f32:4x9x4:r2:b=4,5:b=4,5", {"column 28", "b= is given twice"}},
    {"gemm_rs:f32:4x9x4:r2:b=4,5", {"b= with gemm_rs", "ag_gemm, a2a_gemm and gemm"}},
    {"gemm_ar:f32:4x9x4:r2:b=4,5", {"b= with gemm_ar", "ag_gemm, a2a_gemm and gemm"}},
    {"gemm_a2a:f32:4x9x4:r2:b=4,5", {"b= with gemm_a2a", "ag_gemm, a2a_gemm and gemm"}},
    {"ag_gemm:f32:4x9x4:r2:gather=b:b=4,5", {"b= with gather=b", "share rows of A"}},
    {"ag_gemm:f32:4x9x4:r2:gather=k:b=4,5", {"b= with gather=k", "share rows of A"}},
    {"ag_gemm:f32:4x9x4:r2:b=4,5:call=1", {"b= with call", "one C"}},
    {"gemm:f32:4x9x4:r2:return_a", {"return_a with gemm;", "ag_gemm and a2a_gemm"}},
    {"gemm_rs:f32:4x9x4:r2:return_a", {"return_a with gemm_rs", "ag_gemm and a2a_gemm"}},
    {"ag_gemm:f32:4x9x4:r2:gather=k:return_a", {"return_a with gather=k", "rows of A"}},
    {"ag_gemm:f32:4x9x4:r2:return_a:return_a", {"column 31", "return_a is given twice"}},
    {"ag_gemm:f32:4x0x4:r2:return_a", {"return_a with n 0", "multiplied"}},
    {"ag_gemm:f32:4x9x4:r2:norm", {"norm with ag_gemm", "gemm_rs and gemm_ar"}},
    {"gemm:f32:4x9x4:r2:norm", {"norm with gemm;", "gemm_rs and gemm_ar"}},
    {"gemm:f32:4x9x4:r2:accumulate:norm", {"norm with gemm;", "gemm_rs and gemm_ar"}},
    {"gemm_rs:f32:4x9x4:r2:relu:norm", {"norm with relu", "a bias"}},
    {"gemm_rs:f32:4x9x4:r2:call=1:norm", {"norm with call", "a bias"}},
    {"gemm_rs:f32:4x9x4:r2:norm:norm", {"column 27", "norm is given twice"}},
    {"gemm_rs:f32:4x9x4:r2:norm=", {"column 27", "a number above 0"}},
    {"gemm_rs:f32:4x9x4:r2:norm=0", {"column 27", "a number above 0"}},
    {"gemm_rs:f32:4x9x4:r2:norm=.5", {"column 27", "a number above 0"}},
    {"gemm_rs:f32:4x9x4:r2:norm=1e5", {"column 27", "a number above 0"}},
    {"gemm_rs:f32:4x9x4:r2:norm=1e-21", {"column 30", "up to 20"}},
    {"gemm_rs:f32:4x9x4:r2:norm=0.1e-20", {"column 27", "20 places"}},
    {"gemm_rs:f32:4x9x4:r2:norm=1234567", {"column 27", "6 digits"}},
    {"gemm_rs:f32:4x9x4:r2:norms", {"column 22", "relu, gelu, silu or norm"}},
};

static void errors_name_the_column(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        sg_problem p;
        memset(&p, 0xa5, sizeof p);
        const sg_problem before = p;
        if (sg_problem_parse(refusals[i].text, &p) != SHINGLE_EINVAL)
            fail_msg("\"%s\" is accepted", refusals[i].text);
        for (int j = 0; j < 2; j++)
            if (strstr(shingle_error(), refusals[i].says[j]) == NULL)
                fail_msg("\"%s\": \"%s\" lacks \"%s\"", refusals[i].text, shingle_error(),
                         refusals[i].says[j]);
        assert_memory_equal(&p, &before, sizeof p);
    }
    sg_problem p;
    assert_int_equal(sg_problem_parse(NULL, &p), SHINGLE_EINVAL);
}

static void values_are_checked(void **state)
{
    (void)state;
    sg_problem p;
    assert_int_equal(sg_problem_make(SG_OP_GEMM, SG_F32, -1, 1, 1, 1, NULL, 0, &p), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "m is -1"));
    assert_int_equal(sg_problem_make(SG_OP_GEMM, SG_F32, 1, SG_MAX_EXTENT + 1, 1, 1, NULL, 0, &p),
                     SHINGLE_EINVAL);
    assert_int_equal(sg_problem_make(SG_OP_GEMM, SG_F32, 1, 1, 1, 0, NULL, 0, &p), SHINGLE_EINVAL);
    const int64_t rows[2] = {-1, 2};
    assert_int_equal(sg_problem_make(SG_OP_GEMM, SG_F32, 1, 1, 1, 2, rows, 0, &p), SHINGLE_EINVAL);
}

static void print_is_cut(void **state)
{
    (void)state;
    char text[12];
    sg_problem p;
    assert_int_equal(sg_problem_parse("gemm_rs:f32:12x1x1:r3", &p), SHINGLE_OK);
    assert_int_equal(sg_problem_print(&p, text, sizeof text), 21);
    assert_string_equal(text, "gemm_rs:f32");
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_print_canonically),
        cmocka_unit_test(random_problems_round_trip),
        cmocka_unit_test(even_shares_differ_by_one_row),
        cmocka_unit_test(cyclic_rows_go_round),
        cmocka_unit_test(matrices_have_the_rows_of_the_operator),
        cmocka_unit_test(shared_problems_have_their_shapes),
        cmocka_unit_test(attributes_shape_the_matrices),
        cmocka_unit_test(pairs_have_their_places),
        cmocka_unit_test(errors_name_the_column),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(print_is_cut),
    };
    return cmocka_run_group_tests_name("problem", tests, NULL, NULL);
}
