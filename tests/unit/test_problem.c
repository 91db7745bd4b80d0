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

/* What must hold of every problem: segments cover 0..m in order without gaps, an owner's segments
 * are chained in order and count its rows, bases count the rows of lower ranks. */
static void verify_ownership(const sg_problem *p)
{
    int64_t row = 0;
    for (int i = 0; i < p->segment_count; i++) {
        assert_int_equal(p->segments[i].row0, row);
        assert_true(p->segments[i].rows > 0);
        assert_in_range(p->segments[i].owner, 0, p->ranks - 1);
        row += p->segments[i].rows;
    }
    assert_int_equal(row, p->m);

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
    assert_int_equal(base, p->m);
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
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) expect_text(same[i], same[i]);
    /* Ownership that is the even one is not printed, whichever way it was given. */
    expect_text("gemm_rs:f32:7x1x1:r3:rows=3,2,2", "gemm_rs:f32:7x1x1:r3");
    expect_text("gemm_rs:f32:9x1x1:r3:cyclic=3", "gemm_rs:f32:9x1x1:r3");
    expect_text("gemm_rs:f32:3x1x1:r4:cyclic=1", "gemm_rs:f32:3x1x1:r4");
    expect_text("gemm_rs:f32:5x1x1:r2:cyclic=4", "gemm_rs:f32:5x1x1:r2:rows=4,1");
    expect_text("ag_gemm:f32:8x1x1:r2:relu:bias", "ag_gemm:f32:8x1x1:r2:bias:relu");
    expect_text("ag_gemm:f32:08x01x1:r02", "ag_gemm:f32:8x1x1:r2");
}

static void random_problems_round_trip(void **state)
{
    (void)state;
    sg_random random = {(uint64_t)sg_now_us()};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int i = 0; i < 2000; i++) {
        static char text[30000];
        static char again[30000];
        int64_t rows[SG_MAX_RANKS];
        const int ranks = 1 + (int)sg_random_below(&random, i % 50 == 0 ? SG_MAX_RANKS : 9);
        const int64_t cyclic =
            sg_random_below(&random, 3) == 0 ? 1 + sg_random_below(&random, 9) : 0;
        int64_t m = sg_random_below(&random, 60);
        const bool ragged = cyclic == 0 && sg_random_below(&random, 2) == 0;
        if (ragged) {
            m = 0;
            for (int r = 0; r < ranks; r++) m += rows[r] = sg_random_below(&random, 9);
        }
        sg_problem p;
        sg_problem q;
        assert_int_equal(sg_problem_make((sg_op)sg_random_below(&random, SG_OP_A2A_GEMM),
                                         (sg_type)sg_random_below(&random, SG_TYPES), m,
                                         sg_random_below(&random, 5), sg_random_below(&random, 5),
                                         ranks, ragged ? rows : NULL, cyclic, &p),
                         SHINGLE_OK);
        p.bias = sg_random_below(&random, 2) == 0;
        p.act = (sg_act)sg_random_below(&random, SG_ACTS);
        verify_ownership(&p);
        assert_true(sg_problem_print(&p, text, sizeof text) < sizeof text);
        assert_int_equal(sg_problem_parse(text, &q), SHINGLE_OK);
        verify_ownership(&q);
        sg_problem_print(&q, again, sizeof again);
        assert_string_equal(text, again);
        assert_true(p.op == q.op && p.type == q.type && p.act == q.act && p.bias == q.bias);
        assert_true(p.n == q.n && p.k == q.k && p.segment_count == q.segment_count);
        for (int s = 0; s < p.segment_count; s++)
            assert_memory_equal(&p.segments[s], &q.segments[s], sizeof p.segments[s]);
        sg_problem_free(&q);
        assert_int_equal(sg_problem_copy(&p, &q), SHINGLE_OK);
        verify_ownership(&q);
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
        assert_string_equal(shape.op, cases[i].op);
        assert_string_equal(shape.type, "f16");
        assert_int_equal(shape.a_rows, cases[i].a_rows);
        assert_int_equal(shape.c_rows, cases[i].c_rows);
        assert_true(shape.m == 12 && shape.n == 5 && shape.k == 7 && shape.ranks == 3);
        assert_true(shape.element_bytes == 2 && shape.has_bias);
        assert_int_equal(shingle_problem_shape(text, 3, &shape), SHINGLE_EINVAL);
        assert_non_null(strstr(shingle_error(), "0 to 2"));
        assert_int_equal(shingle_problem_shape(text, -1, &shape), SHINGLE_EINVAL);
    }
}

static void errors_name_the_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says[2];
    } cases[] = {
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
        {"gemm:f32:1x1x1:r1:tanh", {"column 19", "relu, gelu or silu"}},
        {"gemm:f32:1x1x1:r1:bias:bias", {"column 24", "rows="}},
        {"gemm:f32:1x1x1:r1:relu:gelu", {"column 24", "rows="}},
        {"gemm:f32:1x1x1:r1:none", {"column 19", "relu"}},
        {"gemm_rs:f32:4x1x1:r2:rows=4", {"column 28", "the rows of the next rank"}},
        {"gemm_rs:f32:4x1x1:r2:rows=2,1,1", {"column 30", "one number per rank"}},
        {"gemm_rs:f32:4x1x1:r2:rows=2,", {"column 29", "number of rows"}},
        {"gemm_rs:f32:4x1x1:r2:rows=2,3", {"add up to 5", "m is 4"}},
        {"gemm_rs:f32:4x1x1:r2:rows=5,0", {"rank 0 owns 5", "0 to m 4"}},
        {"gemm_rs:f32:4x1x1:r2:cyclic=0", {"column 29", "at least 1"}},
        {"gemm_rs:f32:4x1x1:r2:cyclic=", {"column 29", "number of rows"}},
        {"gemm_rs:f32:4x1x1:r2:cyclic=1:rows=2,2", {"column 31", "bias"}},
        {"gemm_rs:f32:70000x1x1:r2:cyclic=1", {"70000 blocks", "at most 65536"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_problem p;
        memset(&p, 0xa5, sizeof p);
        const sg_problem before = p;
        if (sg_problem_parse(cases[i].text, &p) != SHINGLE_EINVAL)
            fail_msg("\"%s\" is accepted", cases[i].text);
        for (int j = 0; j < 2; j++)
            if (strstr(shingle_error(), cases[i].says[j]) == NULL)
                fail_msg("\"%s\": \"%s\" lacks \"%s\"", cases[i].text, shingle_error(),
                         cases[i].says[j]);
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
        cmocka_unit_test(errors_name_the_column),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(print_is_cut),
    };
    return cmocka_run_group_tests_name("problem", tests, NULL, NULL);
}
