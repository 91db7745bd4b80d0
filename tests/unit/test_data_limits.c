/* Tests of data.h at its limits: numbers are as large as they may be and no larger, all of them
 * occur, and a result that is rounded may be off by so much and not by more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/data.h"

enum { START = 16, EXACT = 256 /* bf16 has all integers up to this */ };

static sg_data make(const char *text, sg_problem *p)
{
    sg_data d = {.seed = 0};
    if (sg_problem_parse(text, p) != SHINGLE_OK || sg_data_make(p, 3, &d) != SHINGLE_OK)
        fail_msg("%s: %s", text, shingle_error());
    return d;
}

/* The largest that a sum over ranks may become. */
static int64_t most_of(const sg_data *d)
{
    const int64_t terms = sg_problem_sums(d->problem) ? d->problem->ranks : 1;
    return terms * d->uv_most * d->uv_most * d->s_most + (d->problem->accumulate ? START : 0);
}

/* With any number of ranks, and a start value too where there is one. */
static void sums_over_ranks_are_exact_in_bf16(void **state)
{
    static const char *const form[] = {"gemm_rs:bf16:4x4x8:r%d", "gemm_ar:bf16:4x4x8:r%d",
                                       "ag_gemm:bf16:4x4x8:r%d:accumulate"};
    (void)state;
    for (size_t i = 0; i < sizeof form / sizeof form[0]; i++) {
        for (int ranks = 1; ranks <= SG_DATA_RANKS; ranks++) {
            char text[60];
            sg_problem p;
            snprintf(text, sizeof text, form[i], ranks);
            const sg_data d = make(text, &p);
            if (most_of(&d) > EXACT) fail_msg("%s: %d", text, (int)most_of(&d));
            assert_true(d.uv_most == 8 || 4 * most_of(&d) > EXACT / 4);
            sg_problem_free(&p);
        }
    }
}

/* The climb over k, of 8 a step over half of them, is below 2^24 in f32. */
static void the_climb_over_k_is_exact_in_f32(void **state)
{
    static const int64_t all[] = {1,       65535,   65536,   65537,   262144, 262145,
                                  1048576, 1048577, 4194304, 4194305, 8388608};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char text[60];
        sg_problem p;
        snprintf(text, sizeof text, "gemm:f32:1x1x%lld:r1", (long long)all[i]);
        const sg_data d = make(text, &p);
        const int64_t climb = (int64_t)d.uv_most * d.uv_most * d.s_steps * all[i];
        assert_in_range(climb, 1, 1 << 24);
        /* No smaller than need be. */
        assert_true(d.uv_most == 8 || 16 * all[i] * d.uv_most * d.uv_most > 1 << 24);
        sg_problem_free(&p);
    }
}

static bool is_among(float value, const float *all, int count)
{
    for (int i = 0; i < count; i++)
        if (all[i] == value) return true;
    return false;
}

/* All that a number may be occurs, and nothing else. */
static void all_numbers_occur(void **state)
{
    static const float bias[] = {-4, -3, -2, -1, 0, 1, 2, 3, 4};
    static const float u[] = {-8, -4, -2, -1, 1, 2, 4, 8};
    (void)state;
    sg_problem p;
    float a[400], c[400];
    unsigned seen[3] = {0, 0, 0};
    const sg_data d = make("gemm:f32:400x400x1:r1:bias", &p);
    assert_int_equal(sg_data_fill(&d, SG_TENSOR_A, 0, a, 0), SHINGLE_OK);
    assert_int_equal(sg_data_fill(&d, SG_TENSOR_BIAS, 0, c, 0), SHINGLE_OK);
    for (int i = 0; i < 400; i++) {
        assert_true(is_among(a[i], u, 8) && is_among(c[i], bias, 9));
        for (int j = 0; j < 8; j++) seen[0] |= (unsigned)(a[i] == u[j]) << j;
        seen[1] |= 1u << (int)(c[i] + 4);
    }
    assert_int_equal(seen[0], 0xff);
    assert_int_equal(seen[1], 0x1ff);
    sg_problem_free(&p);
}

/* What stands in C before a run that accumulates. */
static void starts_are_small(void **state)
{
    (void)state;
    sg_problem p;
    float c[40 * 40];
    float most = 0;
    const sg_data d = make("gemm:f32:40x40x1:r1:accumulate", &p);
    assert_int_equal(sg_data_fill(&d, SG_TENSOR_C, 0, c, 0), SHINGLE_OK);
    for (int i = 0; i < 40 * 40; i++) most = fmaxf(most, fabsf(c[i]));
    assert_true(most == START);
    sg_problem_free(&p);
}

/* VALUE moved by STEPS of its type. */
static float moved(sg_type type, float value, int steps)
{
    if (type == SG_F32) {
        uint32_t bits = 0;
        memcpy(&bits, &value, sizeof bits);
        bits += (uint32_t)steps;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    uint16_t bits = 0;
    sg_data_store(type, value, &bits, 0);
    bits = (uint16_t)(bits + steps);
    return sg_data_load(type, &bits, 0);
}

/* Is the one element SEEN taken for what D expects at COL? */
static bool is_taken(const sg_data *d, char *c, int64_t col, float seen)
{
    sg_data_wrong wrong;
    const sg_type type = d->problem->type;
    const float was = sg_data_load(type, c, col);
    sg_data_store(type, seen, c, col);
    assert_int_equal(sg_data_compare(d, 0, c, 0, &wrong), SHINGLE_OK);
    sg_data_store(type, was, c, col);
    assert_true(wrong.elements <= 1);
    return wrong.elements == 0;
}

/* Two steps of the type may lie between two roundings of gelu and silu; six are wrong.  Of what all
 * but vanishes 2^-20 is enough. */
static void rounded_results_may_be_off_by_so_much(void **state)
{
    static const char *const text[] = {"gemm:f32:1x300x3:r1:gelu",  "gemm:f32:1x300x3:r1:silu",
                                       "gemm:bf16:1x300x3:r1:gelu", "gemm:bf16:1x300x3:r1:silu",
                                       "gemm:f16:1x300x3:r1:gelu",  "gemm:f16:1x300x3:r1:silu"};
    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        sg_problem p;
        char c[300 * 4];
        int large = 0;
        int small = 0;
        sg_data d = make(text[i], &p);
        for (int64_t col = 0; col < p.n; col++)
            sg_data_store(p.type, sg_data_expected(&d, 0, 0, col), c, col);
        for (int64_t col = 0; col < p.n; col++) {
            const float expected = sg_data_load(p.type, c, col);
            assert_true(is_taken(&d, c, col, expected));
            if (fabsf(expected) >= 16) {
                large++;
                assert_true(is_taken(&d, c, col, moved(p.type, expected, 2)));
                assert_true(is_taken(&d, c, col, moved(p.type, expected, -2)));
                assert_false(is_taken(&d, c, col, moved(p.type, expected, 6)));
                assert_false(is_taken(&d, c, col, moved(p.type, expected, -6)));
            } else if (fabsf(expected) < 0x1p-30f) {
                small++;
                assert_true(is_taken(&d, c, col, 0x1p-21f));
                assert_false(is_taken(&d, c, col, 0x1p-19f));
            }
        }
        assert_true(large > 10 && small > 10);
        sg_problem_free(&p);
    }
}

/* Without such an act no bit may differ. */
static void exact_results_may_not_be_off(void **state)
{
    (void)state;
    sg_problem p;
    char c[40 * 4];
    sg_data d = make("gemm:f32:1x40x3:r1:relu", &p);
    for (int64_t col = 0; col < p.n; col++)
        sg_data_store(p.type, sg_data_expected(&d, 0, 0, col), c, col);
    for (int64_t col = 0; col < p.n; col++)
        assert_false(is_taken(&d, c, col, moved(p.type, sg_data_load(p.type, c, col), 1)));
    sg_problem_free(&p);
}

/* As long as a problem may be, and empty: no row of it is looked at. */
static void rows_without_columns_take_no_time(void **state)
{
    (void)state;
    sg_problem p;
    sg_data_wrong wrong = {.elements = 1};
    const sg_data d = make("gemm:f32:2147483647x0x0:r1", &p);
    char nothing = 0;
    const clock_t begin = clock();
    assert_int_equal(sg_data_fill(&d, SG_TENSOR_A, 0, &nothing, 0), SHINGLE_OK);
    assert_int_equal(sg_data_fill(&d, SG_TENSOR_C, 0, &nothing, 0), SHINGLE_OK);
    assert_int_equal(sg_data_compare(&d, 0, &nothing, 0, &wrong), SHINGLE_OK);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 1);
    assert_true(wrong.elements == 0);
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_over_ranks_are_exact_in_bf16),
        cmocka_unit_test(the_climb_over_k_is_exact_in_f32),
        cmocka_unit_test(all_numbers_occur),
        cmocka_unit_test(starts_are_small),
        cmocka_unit_test(rounded_results_may_be_off_by_so_much),
        cmocka_unit_test(exact_results_may_not_be_off),
        cmocka_unit_test(rows_without_columns_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
