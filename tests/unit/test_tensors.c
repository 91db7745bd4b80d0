/* What a run may be given: which tensors lie over each other, against all their elements. */
#include <stdio.h>
#include <string.h>

#include "built.h"
#include "core/data.h"
#include "core/tensors.h"

enum { ROOM = 96 };

typedef struct block {
    int at, rows, cols, stride;
} block;

static void mark(const block *b, int bit, unsigned char *elements)
{
    for (int i = 0; i < b->rows; i++)
        for (int j = 0; j < b->cols; j++) elements[b->at + i * b->stride + j] |= (unsigned char)bit;
}

static bool share(const block *x, const block *y)
{
    unsigned char elements[ROOM] = {0};
    mark(x, 1, elements);
    mark(y, 2, elements);
    for (int i = 0; i < ROOM; i++)
        if (elements[i] == 3) return true;
    return false;
}

static block draw(sg_random *random, int rows, int cols, int stride)
{
    block b = {0, rows, cols, stride > cols ? stride : cols};
    const int extent = rows > 0 ? (rows - 1) * b.stride + cols : 0;
    b.at = (int)sg_random_below(random, ROOM - extent);
    return b;
}

/* C, which is stored to, anywhere over A; B lies elsewhere.  Equal strides are drawn often. */
static void all_that_lies_over_another_is_found(void **state)
{
    (void)state;
    static float memory[ROOM], elsewhere[ROOM];
    sg_random random = {7};
    int over = 0;
    for (int i = 0; i < 30000; i++) {
        const int m = (int)sg_random_below(&random, 5), n = 1 + (int)sg_random_below(&random, 5);
        const int k = 1 + (int)sg_random_below(&random, 5);
        const int stride = (int)sg_random_below(&random, 16);
        const bool same = sg_random_below(&random, 2) == 0;
        const block a = draw(&random, m, k, stride);
        const block c = draw(&random, m, n, same ? a.stride : (int)sg_random_below(&random, 16));
        char text[64];
        sg_problem p;
        snprintf(text, sizeof text, "gemm:f32:%dx%dx%d:r1", m, n, k);
        assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
        shingle_tensors t = {.a = memory + a.at,
                             .b = elsewhere,
                             .c = memory + c.at,
                             .a_stride = a.stride,
                             .c_stride = c.stride};
        const bool found = sg_tensors_check(&p, 0, &t) != SHINGLE_OK;
        if (found != share(&a, &c))
            fail_msg("%s: A at %d + %d, C at %d + %d: %s", text, a.at, a.stride, c.at, c.stride,
                     found ? shingle_error() : "nothing is said");
        if (found) assert_non_null(strstr(shingle_error(), "a at "));
        over += found;
        sg_problem_free(&p);
    }
    assert_true(over > 3000 && over < 27000);
}

/* What is only read may lie anywhere. */
static void operands_may_be_one(void **state)
{
    (void)state;
    static float memory[16], c[16];
    sg_problem p;
    assert_int_equal(sg_problem_parse("gemm:f32:4x4x4:r1:bias", &p), SHINGLE_OK);
    shingle_tensors t = {.a = memory, .b = memory, .bias = memory + 2, .c = c};
    assert_int_equal(sg_tensors_check(&p, 0, &t), SHINGLE_OK);
    assert_int_equal(t.a_stride, 4);
    t.bias = c;
    assert_int_equal(sg_tensors_check(&p, 0, &t), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "c at "));
    assert_non_null(strstr(shingle_error(), "bias at "));
    sg_problem_free(&p);
}

/* Dropped, it would make another result than was meant. */
static void what_the_problem_lacks_is_refused(void **state)
{
    (void)state;
    static float a[16], b[16], c[16], more[16];
    static const char *const says[] = {
        "bias is given, but the problem has none; add :bias",
        "residual is given, but the problem has none; add :norm",
        "gain is given, but the problem has none; add :norm",
        "more_b[1] is given; the problem has 1 B",
        "more_c[2] is given; the problem has 1 C",
        "returned_a is given, but the problem has none; add :return_a"};
    const shingle_tensors right = {.a = a, .b = b, .c = c};
    shingle_tensors wrong[6] = {right, right, right, right, right, right};
    wrong[0].bias = more, wrong[1].residual = more, wrong[2].gain = more;
    wrong[3].more_b[1] = more, wrong[4].more_c[2] = more, wrong[5].returned_a = more;
    sg_problem p;
    assert_int_equal(sg_problem_parse("ag_gemm:f32:4x4x4:r1", &p), SHINGLE_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(sg_tensors_check(&p, 0, &wrong[i]), SHINGLE_EINVAL);
        if (strstr(shingle_error(), says[i]) == NULL) fail_msg("%s", shingle_error());
    }
    /* A stride is no matrix: who fills them all in for every problem need not take them out. */
    shingle_tensors strides = right;
    strides.residual_stride = 8, strides.returned_a_stride = 8;
    strides.more_b_stride[0] = 8, strides.more_c_stride[2] = 8;
    assert_int_equal(sg_tensors_check(&p, 0, &strides), SHINGLE_OK);
    sg_problem_free(&p);
}

static void strides_have_an_end(void **state)
{
    (void)state;
    static float a[16], b[16], c[16];
    sg_problem p;
    shingle_tensors t = {.a = a, .b = b, .c = c, .c_stride = INT64_C(1) << 62};
    assert_int_equal(sg_problem_parse("gemm:f32:4x4x4:r1", &p), SHINGLE_OK);
    assert_int_equal(sg_tensors_check(&p, 0, &t), SHINGLE_EINVAL);
    assert_non_null(
        strstr(shingle_error(), "c has 4611686018427387904 elements from row to row; at most"));
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_lies_over_another_is_found),
        cmocka_unit_test(operands_may_be_one),
        cmocka_unit_test(what_the_problem_lacks_is_refused),
        cmocka_unit_test(strides_have_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
