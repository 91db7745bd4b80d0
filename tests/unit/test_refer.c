/* test_refer.c -- the plain product that `shingle run` compares with: it accepts what a sum in
 * float may give, in any order, and refuses one lost term, a lost rank, swapped rows and
 * garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../cli/deal.c"
#include "../../cli/file.c"
#include "../../cli/npy.c"
#include "../../cli/out.c"
#include "../../cli/refer.c"

static uint64_t seed = 1;

static float draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(seed >> 40) / (float)(1 << 23) - 1;
}

/* Rounds to the type, to nearest and even. */
static uint16_t narrow(const char *type, float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    if (strcmp(type, "bf16") == 0) return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    /* Of the two nearest halves, the nearer one; the tests stay inside the normal range. */
    uint16_t best = 0;
    double least = 1e9;
    for (uint32_t half = 0; half < 0x7c00; half++) {
        const double off = fabs(fabs((double)value) - half_value((uint16_t)half));
        if (off < least || (off <= least && half % 2 == 0)) {
            least = off;
            best = (uint16_t)half;
        }
    }
    return (uint16_t)(best | (value < 0 ? 0x8000 : 0));
}

static void put(const char *type, void *data, int64_t index, float value)
{
    if (strcmp(type, "f32") == 0)
        ((float *)data)[index] = value;
    else
        ((uint16_t *)data)[index] = narrow(type, value);
}

static void fill(const deal *d, void **memory, int rank, int64_t rows, int64_t cols)
{
    memory[rank] = calloc((size_t)(rows * cols) + 1, (size_t)d->shape.element_bytes);
    assert_non_null(memory[rank]);
    for (int64_t i = 0; i < rows * cols; i++) put(d->shape.type, memory[rank], i, draw());
}

/* Element (I, X) of the A that rank R multiplies, wherever it is. */
static double a_value(const deal *d, int rank, int64_t i, int64_t x)
{
    const shingle_shape *const s = &d->shape;
    if (d->exchange_in) {
        int owner = 0;
        int64_t row = 0; /* of the owner's A */
        for (; i >= d->sent[owner][rank]; owner++) i -= d->sent[owner][rank];
        for (int r = 0; r < rank; r++) row += d->sent[owner][r];
        return refer_value(s->type, d->a[owner], (row + i) * s->k + x);
    }
    if (d->shape.gather != 'a' && d->shape.gather != 'k')
        return refer_value(s->type, d->a[rank], i * s->k + x);
    for (int r = 0; r < s->ranks; r++)
        for (int64_t own = 0; own < (d->shape.gather == 'k' ? d->a_cols[r] : d->a_rows[r]); own++) {
            if (deal_row(d, r, own) != (d->shape.gather == 'k' ? x : i)) continue;
            return refer_value(s->type, d->a[r],
                               d->shape.gather == 'k' ? i * d->a_cols[r] + own : own * s->k + x);
        }
    fail();
    return 0;
}

static double b_value(const deal *d, int rank, int64_t j, int64_t x)
{
    const shingle_shape *const s = &d->shape;
    if (d->shape.gather != 'b') return refer_value(s->type, d->b[rank], j * s->k + x);
    for (int r = 0; r < s->ranks; r++)
        for (int64_t own = 0; own < d->b_rows[r]; own++)
            if (deal_row(d, r, own) == j) return refer_value(s->type, d->b[r], own * s->k + x);
    fail();
    return 0;
}

/* What a library may compute: float sums, k descending, partial sums rounded to the type. */
static float product(const deal *d, int rank, int64_t i, int64_t j)
{
    const shingle_shape *const s = &d->shape;
    const bool sums = strcmp(s->op, "gemm_rs") == 0 || strcmp(s->op, "gemm_ar") == 0;
    float all = 0;
    for (int r = sums ? 0 : rank; r < (sums ? s->ranks : rank + 1); r++) {
        float sum = 0;
        for (int64_t x = s->k - 1; x >= 0; x--)
            sum += (float)(a_value(d, r, i, x) * b_value(d, r, j, x));
        uint16_t rounded = 0;
        if (sums && strcmp(s->type, "f32") != 0) {
            rounded = narrow(s->type, sum);
            sum = (float)refer_value(s->type, &rounded, 0);
        }
        all += sum;
    }
    if (d->bias[rank]) all += (float)refer_value(s->type, d->bias[rank], j);
    return all;
}

static float act_of(const char *act, float x)
{
    return (float)apply(act, (double)x);
}

/* The residual is added to RANK's C, and the rows are normed: squares one behind the other. */
static void norm(deal *d, int rank)
{
    const shingle_shape *const s = &d->shape;
    d->added[rank] = calloc((size_t)(d->c_rows[rank] * s->n) + 1, (size_t)s->element_bytes);
    assert_non_null(d->added[rank]);
    for (int64_t i = 0; i < d->c_rows[rank]; i++) {
        float squares = 0;
        for (int64_t at = i * s->n; at < (i + 1) * s->n; at++) {
            put(s->type, d->added[rank], at,
                (float)(refer_value(s->type, d->c[rank], at) +
                        refer_value(s->type, d->residual[rank], at)));
            const float x = (float)refer_value(s->type, d->added[rank], at);
            squares += x * x;
        }
        const float scale = 1 / sqrtf(squares / (float)s->n + (float)d->shape.epsilon);
        for (int64_t j = 0; j < s->n; j++)
            put(s->type, d->c[rank], i * s->n + j,
                (float)refer_value(s->type, d->added[rank], i * s->n + j) * scale *
                    (float)refer_value(s->type, d->gain[rank], j));
    }
}

static void compute(deal *d, const char *act)
{
    const shingle_shape *const s = &d->shape;
    for (int r = 0; r < s->ranks; r++) {
        d->c[r] = calloc((size_t)(d->c_rows[r] * s->n) + 1, (size_t)s->element_bytes);
        assert_non_null(d->c[r]);
        for (int64_t i = 0; i < d->c_rows[r]; i++)
            for (int64_t j = 0; j < s->n; j++) {
                int of = 0;
                const int64_t row = deal_c_row(d, r, i, &of);
                const int64_t at = i * s->n + j;
                float sum = product(d, of, row, j);
                if (d->start[r]) sum += (float)refer_value(s->type, d->start[r], at);
                put(s->type, d->c[r], at, act_of(act, sum));
            }
        if (s->has_norm) norm(d, r);
    }
}

static deal *make(const char *problem, const char *act)
{
    char error[FILE_ERROR] = "";
    deal *const d = calloc(1, sizeof *d);
    assert_non_null(d);
    assert_true(deal_begin(problem, d, error));
    for (int r = 0; r < d->shape.ranks; r++) {
        fill(d, d->a, r, d->a_rows[r], d->a_cols[r]);
        fill(d, d->b, r, d->b_rows[r], d->shape.k);
        if (d->shape.accumulates) fill(d, d->start, r, d->c_rows[r], d->shape.n);
        if (d->shape.has_bias) fill(d, d->bias, r, 1, d->shape.n);
        if (d->shape.has_norm) fill(d, d->residual, r, d->c_rows[r], d->shape.n);
        if (d->shape.has_norm) fill(d, d->gain, r, 1, d->shape.n);
    }
    /* A bias of a sum over ranks is one vector. */
    for (int r = 1; r < d->shape.ranks && d->shape.has_bias; r++)
        memcpy(d->bias[r], d->bias[0], (size_t)(d->shape.n * d->shape.element_bytes));
    compute(d, act);
    for (int r = 0; r < d->shape.ranks && d->returns; r++) {
        fill(d, d->returned, r, d->rows[r], d->shape.k);
        for (int64_t i = 0; i < d->rows[r] * d->shape.k; i++)
            put(d->shape.type, d->returned[r], i,
                (float)a_value(d, r, i / d->shape.k, i % d->shape.k));
    }
    return d;
}

static void drop_deal(deal *d)
{
    deal_free(d);
    free(d);
}

static int64_t wrong_of(const deal *d)
{
    char error[FILE_ERROR] = "";
    int64_t wrong = -1;
    assert_true(refer_compare(d, &wrong, error));
    return wrong;
}

static const struct {
    const char *problem, *act;
} cases[] = {
    {"gemm:f32:5x4x30:r2", ""},
    {"ag_gemm:f32:13x5x30:r3", ""},
    {"ag_gemm:bf16:13x5x30:r3:cyclic=2", ""},
    {"ag_gemm:f16:9x3x12:r4:rows=0,8,1,0:gelu", "gelu"},
    {"gemm_rs:f32:13x5x30:r3:cyclic=4", ""},
    {"gemm_rs:bf16:13x5x30:r3:rows=1,0,12:bias:silu", "silu"},
    {"gemm_ar:f16:7x5x20:r2:bias:relu", "relu"},
    {"gemm_ar:bf16:7x5x20:r5", ""},
    {"a2a_gemm:f32:13x5x30:r3", ""},
    {"a2a_gemm:bf16:6x5x30:r2:counts=4,1/2,0:bias", ""},
    {"gemm_a2a:f16:13x5x12:r3:relu", "relu"},
    {"gemm_a2a:f32:6x5x30:r2:counts=4,2/0,3", ""},
    {"ag_gemm:f32:5x13x30:r3:gather=b:cyclic=2:bias", ""},
    {"ag_gemm:bf16:5x4x30:r3:gather=k:rows=11,0,19", ""},
    {"ag_gemm:f32:5x4x30:r3:gather=k:accumulate", ""},
    {"gemm:f32:5x4x30:r2:accumulate", ""},
    {"ag_gemm:bf16:13x5x30:r3:cyclic=2:b=3,2:return_a", ""},
    {"a2a_gemm:f32:6x5x30:r2:counts=4,1/2,0:return_a:bias", ""},
    {"gemm_rs:f32:13x5x30:r3:cyclic=4:norm", ""},
    {"gemm_rs:bf16:13x15x30:r3:bias:norm=0.25", ""},
    {"gemm_ar:f16:7x5x20:r2:norm", ""},
};
enum { CASES = sizeof cases / sizeof *cases };

static void test_accepts_what_is_right(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        deal *const d = make(cases[i].problem, cases[i].act);
        assert_int_equal(wrong_of(d), 0);
        drop_deal(d);
    }
}

/* One element off by a few roundings of what a sum may be off, and elements that are no numbers. */
static void test_refuses_one_element(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        deal *const d = make(cases[i].problem, cases[i].act);
        const shingle_shape *const s = &d->shape;
        int r = 0;
        while (d->c_rows[r] == 0) r++;
        const int64_t last = d->c_rows[r] * s->n - 1;
        const float was = (float)refer_value(s->type, d->c[r], last);
        const float step = strcmp(s->type, "f32") == 0 ? 1e-4f : 0.5f;
        put(s->type, d->c[r], last, was + step);
        assert_int_equal(wrong_of(d), 1);
        put(s->type, d->c[r], last, was);
        assert_int_equal(wrong_of(d), 0);
        /* All bits set: not a number, whatever the type; what a run leaves out. */
        memset((char *)d->c[r] + last * s->element_bytes, 0xff, (size_t)s->element_bytes);
        assert_int_equal(wrong_of(d), 1);
        drop_deal(d);
    }
}

static void test_refuses_a_row_returned_twice(void **state)
{
    (void)state;
    deal *const d = make("ag_gemm:f32:9x4x40:r2:return_a", "");
    float *const returned = d->returned[1];
    memcpy(returned + 3 * 40, returned + 4 * 40, 40 * sizeof *returned);
    const int64_t wrong = wrong_of(d);
    assert_true(wrong > 30 && wrong <= 40);
    drop_deal(d);
}

/* Epsilon is large enough to show; each rank has a residual of its own. */
static void test_refuses_another_norm(void **state)
{
    (void)state;
    deal *const d = make("gemm_ar:f32:6x9x40:r2:norm=0.5", "");
    const int64_t count = 6 * 9;
    float *const residual = d->residual[1];
    float *const gain = d->gain[1];
    assert_true(d->shape.epsilon == 0.5);
    d->shape.epsilon = 0.25;
    assert_true(wrong_of(d) > 90);
    d->shape.epsilon = 0.5;
    residual[7] += 0.01f;
    assert_int_equal(wrong_of(d), 1);
    residual[7] -= 0.01f;
    gain[3] *= 1.01f;
    assert_int_equal(wrong_of(d), 6);
    gain[3] /= 1.01f;
    ((float *)d->added[0])[5] += 0.01f;
    assert_in_range(wrong_of(d), 2, 10); /* and C of that row is another's */
    ((float *)d->added[0])[5] -= 0.01f;
    assert_int_equal(wrong_of(d), 0);
    memcpy(d->added[1], residual, (size_t)count * sizeof *residual); /* nothing was added */
    assert_true(wrong_of(d) > 100 / 2);
    drop_deal(d);
}

static void test_refuses_a_lost_rank(void **state)
{
    (void)state;
    deal *const d = make("gemm_rs:f32:12x6x40:r3", "");
    memset(d->a[1], 0, (size_t)(d->shape.m * d->shape.k * 4));
    deal *const lost = make("gemm_rs:f32:12x6x40:r3", "");
    for (int r = 0; r < 3; r++) {
        memcpy(lost->a[r], d->a[r], (size_t)(d->shape.m * d->shape.k * 4));
        memcpy(lost->b[r], d->b[r], (size_t)(d->shape.n * d->shape.k * 4));
    }
    /* Each has the other's sum: nearly every element is another number. */
    assert_true(wrong_of(d) > 60);
    assert_true(wrong_of(lost) > 60);
    drop_deal(d);
    drop_deal(lost);
}

static void test_refuses_swapped_rows(void **state)
{
    (void)state;
    deal *const d = make("ag_gemm:f32:8x4x40:r2", "");
    float *const c = d->c[1];
    for (int j = 0; j < 4; j++) {
        const float other = c[3 * 4 + j];
        c[3 * 4 + j] = c[4 * 4 + j];
        c[4 * 4 + j] = other;
    }
    assert_int_equal(wrong_of(d), 8);
    drop_deal(d);
}

/* Infinite and undefined sums must come out as such. */
static void test_not_finite(void **state)
{
    (void)state;
    deal *const d = make("gemm:f32:2x2x4:r1", "");
    ((float *)d->a[0])[0] = INFINITY;
    assert_int_equal(wrong_of(d), 2);
    for (int j = 0; j < 2; j++)
        ((float *)d->c[0])[j] = ((float *)d->b[0])[j * 4] > 0 ? INFINITY : -INFINITY;
    assert_int_equal(wrong_of(d), 0);
    ((float *)d->a[0])[1] = NAN;
    assert_int_equal(wrong_of(d), 2);
    drop_deal(d);
}

/* What is beyond the type's largest number comes out infinite, with its own sign. */
static void test_beyond_the_type(void **state)
{
    (void)state;
    deal *const d = make("gemm:f16:1x2x4:r1", "");
    for (int x = 0; x < 4; x++) {
        put("f16", d->a[0], x, 256);
        put("f16", d->b[0], x, 256);
        put("f16", d->b[0], 4 + x, -256);
    }
    uint16_t *const c = d->c[0];
    c[0] = 0x7c00, c[1] = 0xfc00;
    assert_int_equal(wrong_of(d), 0);
    c[0] = 0xfc00, c[1] = 0x7c00;
    assert_int_equal(wrong_of(d), 2);
    drop_deal(d);
}

/* Where terms are that large, the order of a sum says whether it overflows; elsewhere none does. */
static void test_overflow_on_the_way(void **state)
{
    (void)state;
    static const char *const acts[] = {"", "relu"};
    for (int i = 0; i < 2; i++) {
        deal *const d = make(i == 0 ? "gemm:f32:2x2x2:r1" : "gemm:f32:2x2x2:r1:relu", acts[i]);
        float *const a = d->a[0], *const b = d->b[0], *const c = d->c[0];
        a[0] = a[1] = 3e38f;
        a[2] = a[3] = 1e38f;
        b[0] = b[2] = 1.2f;
        b[1] = b[3] = -1;
        c[0] = INFINITY;
        c[1] = NAN;
        c[2] = c[3] = 1e38f * 1.2f - 1e38f;
        assert_int_equal(wrong_of(d), 0);
        c[1] = 0; /* of a sum of -infinity */
        assert_int_equal(wrong_of(d), i == 0);
        c[1] = 3e38f * 0.2f;
        assert_int_equal(wrong_of(d), 0);
        c[1] = 3e38f * 0.4f;
        c[2] = INFINITY;
        c[3] = NAN;
        assert_int_equal(wrong_of(d), 3);
        drop_deal(d);
    }
}

/* Parts of a sum over ranks travel in its type, and overflow there. */
static void test_parts_overflow(void **state)
{
    (void)state;
    deal *const d = make("gemm_ar:f16:1x1x1:r2", "");
    for (int r = 0; r < 2; r++) {
        put("f16", d->a[r], 0, 512);
        put("f16", d->b[r], 0, r == 0 ? 200 : -199);
        ((uint16_t *)d->c[r])[0] = 0x7e00;
    }
    assert_int_equal(wrong_of(d), 0);
    put("f16", d->b[0], 0, 10);
    put("f16", d->b[1], 0, -9);
    assert_int_equal(wrong_of(d), 2);
    drop_deal(d);
}

/* No activation makes a number of what is none. */
static void test_activations_keep_nan(void **state)
{
    (void)state;
    static const char *const acts[] = {"relu", "gelu", "silu"};
    for (int i = 0; i < 3; i++) {
        char problem[40];
        snprintf(problem, sizeof problem, "gemm:f32:2x2x4:r1:%s", acts[i]);
        deal *const d = make(problem, acts[i]);
        float *const c = d->c[0];
        ((float *)d->a[0])[0] = NAN;
        c[0] = c[1] = NAN;
        assert_int_equal(wrong_of(d), 0);
        c[0] = c[1] = 0;
        assert_int_equal(wrong_of(d), 2);
        drop_deal(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts_what_is_right),
        cmocka_unit_test(test_refuses_one_element),
        cmocka_unit_test(test_refuses_a_row_returned_twice),
        cmocka_unit_test(test_refuses_another_norm),
        cmocka_unit_test(test_refuses_a_lost_rank),
        cmocka_unit_test(test_refuses_swapped_rows),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_beyond_the_type),
        cmocka_unit_test(test_overflow_on_the_way),
        cmocka_unit_test(test_parts_overflow),
        cmocka_unit_test(test_activations_keep_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
