/* test_tile.c -- the tile engine and its conversions, against references one element at a time.
 *
 * Products use small integers, whose sums are exact in f32 in any order; two more tests use random
 * values and compare bits with the chain that tile.h promises. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/micro.h"
#include "backend/cpu/tile.h"
#include "backend/cpu/transpose.h"

#define POISON 0x7fa5a5a5u /* a NaN: reading what was never written shows in every result */

/* ---- References ------------------------------------------------------------------------------ */

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The value of a half-width pattern, from its fields. */
static double half_value(uint16_t h, int exponent_bits)
{
    const int mantissa_bits = 15 - exponent_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (h >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = h & ((1 << mantissa_bits) - 1);
    const double sign = (h & 0x8000u) ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

static double value_of(sg_type type, uint16_t h)
{
    return half_value(h, type == SG_BF16 ? 8 : 5);
}

static float load_one(sg_type type, const void *src, int64_t index)
{
    float x;
    sg_convert_load(type, (const char *)src + index * sg_type_bytes(type), &x, 1);
    return x;
}

/* ---- Conversions ----------------------------------------------------------------------------- */

static void every_half_value_is_loaded_exactly_and_stored_back(void **state)
{
    (void)state;
    static uint16_t half[65536];
    static uint16_t back[65536];
    static float wide[65536];
    for (uint32_t i = 0; i < 65536; i++) half[i] = (uint16_t)i;
    for (sg_type type = SG_BF16; type <= SG_F16; type++) {
        sg_convert_load(type, half, wide, 65536);
        sg_convert_store(type, wide, back, 65536);
        for (uint32_t i = 0; i < 65536; i++) {
            const double value = value_of(type, half[i]);
            float alone;
            uint16_t alone_back;
            sg_convert_load(type, &half[i], &alone, 1);
            sg_convert_store(type, &alone, &alone_back, 1);
            if (isnan(value)) {
                assert_true(isnan(wide[i]) && isnan(alone));
                assert_true(isnan(value_of(type, back[i])));
                assert_true(isnan(value_of(type, alone_back)));
                assert_int_equal(half[i] & 0x8000u, back[i] & 0x8000u);
            } else {
                assert_true((double)wide[i] == value);
                assert_int_equal(bits_of(wide[i]) >> 31, half[i] >> 15);
                assert_int_equal(bits_of(wide[i]), bits_of(alone));
                assert_int_equal(back[i], half[i]);
                assert_int_equal(alone_back, half[i]);
            }
        }
    }
}

/* Between each two neighbours: the tie goes to the even one, one f32 beside it to the nearer. */
static void every_tie_rounds_to_even(void **state)
{
    (void)state;
    for (sg_type type = SG_BF16; type <= SG_F16; type++) {
        const uint16_t infinity = type == SG_BF16 ? 0x7f80u : 0x7c00u;
        for (uint32_t i = 0; i < infinity; i++) {
            /* Above the largest value the next neighbour would be this, were there no infinity. */
            const double low = value_of(type, (uint16_t)i);
            const double high = i + 1u < infinity ? value_of(type, (uint16_t)(i + 1u))
                                                  : 2.0 * low - value_of(type, (uint16_t)(i - 1u));
            const float tie = (float)((low + high) / 2.0);
            assert_true((double)tie == (low + high) / 2.0);
            for (uint32_t sign = 0; sign < 2; sign++) {
                const float s = sign ? -1.0f : 1.0f;
                const float row[3] = {s * nextafterf(tie, 0.0f), s * tie,
                                      s * nextafterf(tie, INFINITY)};
                uint16_t got[3];
                sg_convert_store(type, row, got, 3);
                const uint32_t top = sign << 15;
                assert_int_equal(got[0], top | i);
                assert_int_equal(got[1], top | (i + (i & 1u)));
                assert_int_equal(got[2], top | (i + 1u));
            }
        }
    }
}

/* Random f32 patterns against the nearest of the two neighbours in double. */
static void random_floats_round_to_the_nearest(void **state)
{
    (void)state;
    enum { COUNT = 100003 }; /* no multiple of a vector: the tails are tested too */
    static float row[COUNT];
    static uint16_t got[COUNT];
    sg_random r = {77};
    for (sg_type type = SG_BF16; type <= SG_F16; type++) {
        for (int64_t i = 0; i < COUNT; i++) {
            uint32_t u = (uint32_t)sg_random_next(&r);
            /* Half of them with exponents around those of f16. */
            if (i & 1) u = (u & 0x807fffffu) | ((100u + u % 48u) << 23);
            row[i] = float_of(u);
        }
        sg_convert_store(type, row, got, COUNT);
        for (int64_t i = 0; i < COUNT; i++) {
            const double value = (double)row[i];
            if (isnan(value)) {
                assert_true(isnan(value_of(type, got[i])));
                continue;
            }
            assert_int_equal(got[i] >> 15, bits_of(row[i]) >> 31);
            const uint16_t magnitude = got[i] & 0x7fffu;
            const uint16_t infinity = type == SG_BF16 ? 0x7f80u : 0x7c00u;
            assert_true(magnitude <= infinity);
            if (magnitude == infinity) {
                assert_true(fabs(value) >= (type == SG_BF16 ? 0x1.FFp127 : 65520.0));
                continue;
            }
            const double error = fabs(fabs(value) - value_of(type, magnitude));
            if (magnitude > 0) {
                const double below = value_of(type, (uint16_t)(magnitude - 1u));
                assert_true(error <= fabs(fabs(value) - below));
            }
            if (magnitude + 1u < infinity) {
                const double above = value_of(type, (uint16_t)(magnitude + 1u));
                assert_true(error <= fabs(fabs(value) - above));
            }
        }
    }
}

static void f32_is_copied_and_addends_are_added(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 37, STRIDE = 41 };
    float from[ROWS * STRIDE];
    float acc[ROWS * STRIDE];
    uint16_t half[ROWS * STRIDE];
    for (int i = 0; i < ROWS * STRIDE; i++) from[i] = (float)(i - 60);
    for (sg_type type = SG_F32; type < SG_TYPES; type++) {
        const void *src = from;
        if (type != SG_F32) {
            sg_convert_store(type, from, half, ROWS * STRIDE);
            src = half;
        }
        for (int i = 0; i < ROWS * STRIDE; i++) acc[i] = 1000.0f;
        sg_convert_add_block(type, src, STRIDE, acc, STRIDE, ROWS, COLS);
        for (int i = 0; i < ROWS * STRIDE; i++) {
            assert_true(acc[i] == (i % STRIDE < COLS ? 940.0f + (float)i : 1000.0f));
        }
        sg_convert_load_block(type, src, STRIDE, acc, STRIDE, ROWS, COLS);
        for (int i = 0; i < ROWS * STRIDE; i++) {
            assert_true(acc[i] == (i % STRIDE < COLS ? (float)i - 60.0f : 1000.0f));
        }
        /* Stored back with another stride; what lies between the rows is kept. */
        union {
            float f[ROWS * (STRIDE + 2)];
            uint16_t h[ROWS * (STRIDE + 2)];
        } out;
        memset(&out, 0x11, sizeof out);
        sg_convert_store_block(type, acc, STRIDE, &out, STRIDE + 2, ROWS, COLS);
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < STRIDE + 2; j++) {
                const int at = i * (STRIDE + 2) + j;
                if (j < COLS) {
                    assert_true(load_one(type, &out, at) == (float)(i * STRIDE + j - 60));
                } else if (type == SG_F32) {
                    assert_int_equal(bits_of(out.f[at]), 0x11111111u);
                } else {
                    assert_int_equal(out.h[at], 0x1111u);
                }
            }
        }
    }
}

static double act_reference(sg_act act, double x)
{
    if (act == SG_ACT_RELU) return x < 0.0 ? 0.0 : x;
    if (act == SG_ACT_SILU) return x / (1.0 + exp(-x));
    if (act == SG_ACT_GELU) {
        return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    }
    return x;
}

static void activations_are_right_and_do_not_depend_on_place(void **state)
{
    (void)state;
    enum { COUNT = 20011 };
    static float row[COUNT];
    static float got[COUNT];
    for (int i = 0; i < COUNT; i++) row[i] = ((float)i - COUNT / 2) * 0.002f; /* -20 to 20 */
    for (sg_act act = SG_ACT_NONE; act < SG_ACTS; act++) {
        memcpy(got, row, sizeof got);
        sg_convert_act(act, got, COUNT);
        for (int i = 0; i < COUNT; i++) {
            float alone = row[i];
            sg_convert_act(act, &alone, 1);
            assert_int_equal(bits_of(alone), bits_of(got[i]));
            const double want = act_reference(act, (double)row[i]);
            /* gelu's argument carries a rounding of its own, magnified by its size. */
            const double limit = (act == SG_ACT_GELU ? 4e-6 : 5e-7) * fabs(want) + 1e-12;
            assert_true(fabs((double)got[i] - want) <= limit);
        }
    }
    float ends[5] = {-1e30f, -200.0f, 200.0f, 1e30f, NAN};
    sg_convert_act(SG_ACT_GELU, ends, 5);
    assert_true(fabsf(ends[0]) < 1e-5f && fabsf(ends[1]) < 1e-5f);
    assert_true(ends[2] == 200.0f && ends[3] == 1e30f && isnan(ends[4]));
    float large[4] = {-200.0f, 200.0f, 3e38f, NAN};
    sg_convert_act(SG_ACT_SILU, large, 4);
    assert_true(fabsf(large[0]) < 1e-5f && large[1] == 200.0f && large[2] == 3e38f);
    assert_true(isnan(large[3]));
}

static void epilogue_adds_bias_before_the_activation(void **state)
{
    (void)state;
    float acc[2][3] = {{-3.0f, 0.0f, 5.0f}, {1.0f, -1.0f, 2.0f}};
    const float bias[3] = {1.0f, 2.0f, -6.0f};
    sg_convert_epilogue(SG_F32, bias, SG_ACT_RELU, &acc[0][0], 3, 2, 3);
    const float want[2][3] = {{0.0f, 2.0f, 0.0f}, {2.0f, 1.0f, 0.0f}};
    assert_memory_equal(acc, want, sizeof acc);
    sg_convert_epilogue(SG_F32, NULL, SG_ACT_NONE, &acc[0][0], 3, 2, 3);
    assert_memory_equal(acc, want, sizeof acc);
}

static void transposes_of_every_small_shape(void **state)
{
    (void)state;
    enum { ROWS = 35, COLS = 37, TO = 40 };
    float wide[ROWS * COLS];
    uint16_t half[ROWS * COLS];
    float out[COLS * TO];
    for (int i = 0; i < ROWS * COLS; i++) wide[i] = (float)(i % 251 - 125);
    for (sg_type type = SG_F32; type < SG_TYPES; type++) {
        const void *src = wide;
        if (type != SG_F32) {
            sg_convert_store(type, wide, half, ROWS * COLS);
            src = half;
        }
        for (int rows = 0; rows <= ROWS; rows++) {
            for (int cols = rows % 3; cols <= COLS; cols += 1 + rows % 4) {
                for (int i = 0; i < COLS * TO; i++) out[i] = -1000.0f;
                sg_transpose(type, src, COLS, rows, cols, out, TO);
                int wrong = 0;
                for (int x = 0; x < COLS; x++) {
                    for (int j = 0; j < TO; j++) {
                        const bool inside = x < cols && j < rows;
                        wrong += out[x * TO + j] != (inside ? wide[j * COLS + x] : -1000.0f);
                    }
                }
                assert_int_equal(wrong, 0);
            }
        }
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Matrices of a product, with poisoned elements around them. */
typedef struct world {
    sg_type type;
    int64_t rows, n, k;
    int64_t a_stride, b_stride, c_stride;
    void *a, *b;
    float *c, *want;
    sg_pack *pack;
    sg_tile_scratch *scratch;
} world;

static void *random_integers(sg_type type, int64_t rows, int64_t cols, int64_t stride, sg_random *r)
{
    float *const wide = malloc((size_t)(rows * stride + 1) * sizeof *wide);
    char *const out = malloc((size_t)(rows * stride + 1) * (size_t)sg_type_bytes(type));
    assert_true(wide != NULL && out != NULL);
    for (int64_t i = 0; i < rows * stride; i++) {
        wide[i] = i % stride < cols ? (float)(sg_random_below(r, 9) - 4) : float_of(POISON);
    }
    sg_convert_store(type, wide, out, rows * stride);
    free(wide);
    return out;
}

static void world_open(world *w, sg_type type, int64_t rows, int64_t n, int64_t k, sg_random *r)
{
    *w = (world){.type = type, .rows = rows, .n = n, .k = k};
    w->a_stride = k + sg_random_below(r, 3);
    w->b_stride = k + sg_random_below(r, 3);
    w->c_stride = n + sg_random_below(r, 3);
    w->a = random_integers(type, rows, k, w->a_stride, r);
    w->b = random_integers(type, n, k, w->b_stride, r);
    w->c = malloc((size_t)(rows * w->c_stride + 1) * sizeof *w->c);
    w->want = malloc((size_t)(rows * w->c_stride + 1) * sizeof *w->want);
    assert_true(w->c != NULL && w->want != NULL);
    assert_int_equal(sg_pack_create(&w->pack), SHINGLE_OK);
    assert_int_equal(sg_pack_reserve(w->pack, type, n, k), SHINGLE_OK);
    assert_int_equal(sg_tile_scratch_create(&w->scratch), SHINGLE_OK);
    sg_pack_begin(w->pack, type, w->b, w->b_stride, n, k);
    for (int64_t i = 0; i < rows * w->c_stride; i++) w->c[i] = w->want[i] = float_of(POISON);
}

static void world_close(world *w)
{
    sg_tile_scratch_free(w->scratch);
    sg_pack_free(w->pack);
    free(w->a);
    free(w->b);
    free(w->c);
    free(w->want);
}

/* Whether the reference rounds once for a product and its sum, as most engines do (find_fused).
 * Sums that are exact do not need it. */
static bool fused = false;

/* The same as sg_tile_multiply, one element after the other, in the chain that tile.h promises. */
static void reference(const world *w, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
                      int64_t k0, int64_t k1, bool accumulate)
{
    float *const a = malloc((size_t)(k1 - k0 + 1) * sizeof *a);
    float *const b = malloc((size_t)(cols * (k1 - k0) + 1) * sizeof *b);
    const int64_t bytes = sg_type_bytes(w->type);
    assert_true(a != NULL && b != NULL);
    sg_convert_load_block(w->type, (const char *)w->b + (col0 * w->b_stride + k0) * bytes,
                          w->b_stride, b, k1 - k0, cols, k1 - k0);
    for (int64_t i = row0; i < row0 + rows; i++) {
        sg_convert_load(w->type, (const char *)w->a + (i * w->a_stride + k0) * bytes, a, k1 - k0);
        for (int64_t j = 0; j < cols; j++) {
            float *const c = &w->want[i * w->c_stride + col0 + j];
            float sum = accumulate ? *c : 0.0f;
            for (int64_t x = 0; x < k1 - k0; x++) {
                const float factor = b[j * (k1 - k0) + x];
                sum = fused ? fmaf(a[x], factor, sum) : sum + a[x] * factor;
            }
            *c = sum;
        }
    }
    free(a);
    free(b);
}

static void multiply(world *w, int64_t row0, int64_t rows, int64_t col0, int64_t cols, int64_t k0,
                     int64_t k1, bool accumulate)
{
    const int64_t bytes = sg_type_bytes(w->type);
    const sg_tile_work work = {
        .a = (const char *)w->a + (row0 * w->a_stride + k0) * bytes,
        .a_stride = w->a_stride,
        .a_type = w->type,
        .rows = rows,
        .col0 = col0,
        .cols = cols,
        .k0 = k0,
        .k1 = k1,
        .acc = w->c + row0 * w->c_stride + col0,
        .acc_stride = w->c_stride,
        .accumulate = accumulate,
    };
    sg_tile_multiply(w->scratch, w->pack, &work);
    reference(w, row0, rows, col0, cols, k0, k1, accumulate);
}

/* (1 + e)^2 - (1 + 2 e) is e^2, and 0 if the product is rounded first. */
static void find_fused(void)
{
    const float a[2] = {1.0f, 1.0f + 0x1p-12f};
    const float b[2] = {-1.0f - 0x1p-11f, 1.0f + 0x1p-12f};
    float c = 0.0f;
    const sg_micro micro = {.a = a,
                            .b = b,
                            .c = &c,
                            .a_stride = 2,
                            .b_stride = 1,
                            .c_stride = 1,
                            .rows = 1,
                            .cols = 1,
                            .k = 2,
                            .accumulate = false};
    sg_micro_engine()->multiply(&micro);
    assert_true(c == 0.0f || c == 0x1p-24f);
    fused = c != 0.0f;
}

static void world_expect_equal(const world *w)
{
    const size_t bytes = (size_t)(w->rows * w->c_stride) * sizeof *w->c;
    /* Compared as a whole: nothing beside the written elements may change either. */
    assert_memory_equal(w->c, w->want, bytes);
}

static void products_of_odd_shapes(void **state)
{
    (void)state;
    static const int64_t extents[] = {0, 1, 2, 5, 15, 16, 17, 31, 33, 63, 64, 65, 97, 130, 259};
    static const int64_t ks[] = {0, 1, 3, 15, 16, 17, 64, 100, 255, 256, 257, 300, 513};
    enum { EXTENTS = sizeof extents / sizeof *extents, KS = sizeof ks / sizeof *ks };
    sg_random r = {1};
    for (int round = 0; round < 60; round++) {
        world w;
        const sg_type type = (sg_type)(round % SG_TYPES);
        world_open(&w, type, extents[sg_random_below(&r, EXTENTS)],
                   extents[sg_random_below(&r, EXTENTS)], ks[sg_random_below(&r, KS)], &r);
        multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
        world_expect_equal(&w);
        multiply(&w, 0, w.rows, 0, w.n, 0, w.k, true);
        world_expect_equal(&w);
        world_close(&w);
    }
}

static void products_of_any_part(void **state)
{
    (void)state;
    sg_random r = {2};
    for (int round = 0; round < 24; round++) {
        world w;
        world_open(&w, (sg_type)(round % SG_TYPES), 90, 210, 530, &r);
        multiply(&w, 0, w.rows, 0, w.n, 0, 0, false); /* an empty range of k writes zeros */
        for (int part = 0; part < 8; part++) {
            const int64_t row0 = sg_random_below(&r, w.rows);
            const int64_t col0 = sg_random_below(&r, w.n);
            const int64_t k0 = sg_random_below(&r, w.k);
            multiply(&w, row0, sg_random_below(&r, w.rows - row0 + 1), col0,
                     sg_random_below(&r, w.n - col0 + 1), k0,
                     k0 + sg_random_below(&r, w.k - k0 + 1), sg_random_below(&r, 3) > 0);
        }
        world_expect_equal(&w);
        world_close(&w);
    }
}

/* More rows and columns than one block of C, more panels than one mask. */
static void products_larger_than_a_block(void **state)
{
    (void)state;
    sg_random r = {3};
    world w;
    world_open(&w, SG_F32, 300, 1100, 40, &r);
    multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
    world_expect_equal(&w);
    world_close(&w);
    world_open(&w, SG_BF16, 20, 4200, 20, &r);
    multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
    world_expect_equal(&w);
    world_close(&w);
}

/* Further than the 32-bit offsets of a library reach; the memory between the rows stays untouched. */
static void rows_far_apart(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 20, K = 40 };
    const int64_t stride = (1 << 24) + 8;
    sg_random r = {10};
    world w;
    world_open(&w, SG_F32, ROWS, COLS, K, &r);
    float *const a = calloc((size_t)(ROWS * stride), sizeof *a);
    float *const c = calloc((size_t)(ROWS * stride), sizeof *c);
    assert_true(a != NULL && c != NULL);
    sg_convert_load_block(SG_F32, w.a, w.a_stride, a, stride, ROWS, K);
    reference(&w, 0, ROWS, 0, COLS, 0, K, false);
    reference(&w, 0, ROWS, 0, COLS, 3, K, true);
    for (int part = 0; part < 2; part++) {
        const int64_t k0 = 3 * part;
        const sg_tile_work work = {.a = a + k0,
                                   .a_stride = stride,
                                   .a_type = SG_F32,
                                   .rows = ROWS,
                                   .cols = COLS,
                                   .k0 = k0,
                                   .k1 = K,
                                   .acc = c,
                                   .acc_stride = stride,
                                   .accumulate = part > 0};
        sg_tile_multiply(w.scratch, w.pack, &work);
    }
    for (int64_t i = 0; i < ROWS; i++) {
        assert_memory_equal(c + i * stride, w.want + i * w.c_stride, COLS * sizeof *c);
        assert_true(c[i * stride + COLS] == 0.0f);
    }
    free(a);
    free(c);
    world_close(&w);
}

static void fill_random(float *data, int64_t count, sg_random *r)
{
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)((double)(sg_random_next(r) >> 11) * 0x1p-52 - 1.0);
    }
}

/* Values whose sums do round: every slab, tile and shape gives the bits of one ascending chain. */
static void sums_are_one_chain(void **state)
{
    (void)state;
    if (strcmp(sg_micro_engine()->name, "cblas") == 0) return; /* promises less (tile.h) */
    find_fused();
    static const int64_t edges[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 17, 23, 32, 40, 48, 64};
    enum { EDGES = sizeof edges / sizeof *edges };
    sg_random r = {4};
    world w;
    world_open(&w, SG_F32, 70, 130, 300, &r);
    fill_random(w.a, w.rows * w.a_stride, &r);
    fill_random(w.b, w.n * w.b_stride, &r);
    for (int i = 0; i < EDGES; i++) {
        for (int j = 0; j < EDGES; j++) {
            const int64_t cut = 1 + sg_random_below(&r, w.k - 1);
            const int64_t col0 = sg_random_below(&r, w.n - edges[j] + 1);
            multiply(&w, 0, edges[i], col0, edges[j], 0, cut, false);
            multiply(&w, 0, edges[i], col0, edges[j], cut, w.k, true);
        }
    }
    world_expect_equal(&w);
    world_close(&w);
    fused = false;
}

/* ---- The pack -------------------------------------------------------------------------------- */

static void a_new_run_sees_the_new_b(void **state)
{
    (void)state;
    sg_random r = {5};
    world w;
    world_open(&w, SG_BF16, 33, 150, 300, &r);
    for (int run = 0; run < 4; run++) {
        multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
        world_expect_equal(&w);
        /* The same memory with other values; then another shape, smaller and larger. */
        free(w.b);
        w.b = random_integers(w.type, w.n, w.k, w.b_stride, &r);
        sg_pack_begin(w.pack, w.type, w.b, w.b_stride, w.n, w.k);
    }
    world_close(&w);
}

static void one_pack_serves_matrices_of_other_shapes(void **state)
{
    (void)state;
    sg_random r = {6};
    sg_pack *pack = NULL;
    assert_int_equal(sg_pack_create(&pack), SHINGLE_OK);
    static const int64_t shapes[][2] = {{100, 300}, {40, 20}, {300, 100},
                                        {64, 512},  {0, 5},   {5, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        world w;
        world_open(&w, (sg_type)(i % SG_TYPES), 10, shapes[i][0], shapes[i][1], &r);
        assert_int_equal(sg_pack_reserve(pack, w.type, w.n, w.k), SHINGLE_OK);
        sg_pack *const own = w.pack;
        w.pack = pack;
        sg_pack_begin(pack, w.type, w.b, w.b_stride, w.n, w.k);
        multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
        world_expect_equal(&w);
        w.pack = own;
        world_close(&w);
    }
    sg_pack_free(pack);
    assert_int_equal(sg_pack_create(&pack), SHINGLE_OK);
    assert_int_equal(sg_pack_reserve(pack, SG_F32, SG_MAX_EXTENT, SG_MAX_EXTENT), SHINGLE_ENOMEM);
    sg_pack_free(pack);
    sg_pack_free(NULL);
    sg_tile_scratch_free(NULL);
}

/* A block that another worker has begun and not finished: this one still gets its product. */
static void a_busy_block_is_packed_privately(void **state)
{
    (void)state;
    if (sg_micro_engine()->multiply_transposed != NULL) return; /* f32 is not packed */
    sg_random r = {7};
    world w;
    world_open(&w, SG_F32, 20, 200, 600, &r);
    for (int64_t i = 0; i < 12; i += 2) atomic_store(&w.pack->state[i], 2 * w.pack->run);
    assert_null(sg_pack_get(w.pack, 0, 0));
    multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
    world_expect_equal(&w);
    for (int64_t i = 0; i < 12; i++) {
        assert_int_equal(atomic_load(&w.pack->state[i]), 2 * w.pack->run + (uint64_t)(i & 1));
    }
    world_close(&w);
}

typedef struct hand {
    world *w;
    sg_tile_scratch *scratch;
    _Atomic int64_t *next;
    sg_split split;
} hand;

static void *work_on_pieces(void *context)
{
    const hand *const h = context;
    const world *const w = h->w;
    for (;;) {
        const int64_t index = atomic_fetch_add(h->next, 1);
        if (index >= h->split.pieces) return NULL;
        const sg_tile_rect rect = sg_tile_split_at(&h->split, index);
        const int64_t half = w->k / 2;
        for (int slab = 0; slab < 2; slab++) {
            const int64_t k0 = slab * half;
            const sg_tile_work work = {
                .a = (const char *)w->a + (rect.row0 * w->a_stride + k0) * sg_type_bytes(w->type),
                .a_stride = w->a_stride,
                .a_type = w->type,
                .rows = rect.rows,
                .col0 = rect.col0,
                .cols = rect.cols,
                .k0 = k0,
                .k1 = slab ? w->k : half,
                .acc = w->c + rect.row0 * w->c_stride + rect.col0,
                .acc_stride = w->c_stride,
                .accumulate = slab > 0,
            };
            sg_tile_multiply(h->scratch, w->pack, &work);
        }
    }
}

static void threads_share_one_pack(void **state)
{
    (void)state;
    enum { THREADS = 3, RUNS = 8 };
    sg_random r = {8};
    world w;
    world_open(&w, SG_BF16, 70, 260, 600, &r);
    hand hands[THREADS];
    _Atomic int64_t next;
    for (int i = 0; i < THREADS; i++) {
        hands[i] = (hand){.w = &w, .next = &next};
        /* Many small pieces, whose edges lie inside the pack's blocks. */
        hands[i].split = (sg_split){
            .rows = w.rows, .cols = w.n, .row_step = 24, .col_step = 40, .pieces = 3 * 7};
        assert_int_equal(sg_tile_scratch_create(&hands[i].scratch), SHINGLE_OK);
    }
    for (int run = 0; run < RUNS; run++) {
        pthread_t thread[THREADS];
        atomic_store(&next, 0);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&thread[i], NULL, work_on_pieces, &hands[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
        reference(&w, 0, w.rows, 0, w.n, 0, w.k, false);
        world_expect_equal(&w);
        free(w.b);
        w.b = random_integers(w.type, w.n, w.k, w.b_stride, &r);
        sg_pack_begin(w.pack, w.type, w.b, w.b_stride, w.n, w.k);
    }
    for (int i = 0; i < THREADS; i++) sg_tile_scratch_free(hands[i].scratch);
    world_close(&w);
}

/* ---- Shapes and engines ---------------------------------------------------------------------- */

static void splits_cover_every_element_once(void **state)
{
    (void)state;
    sg_random r = {9};
    for (int round = 0; round < 300; round++) {
        const int64_t rows = sg_random_below(&r, round % 2 ? 40 : 400);
        const int64_t cols = sg_random_below(&r, round % 3 ? 700 : 50);
        const int workers = 1 + (int)sg_random_below(&r, 8);
        const sg_split split = sg_tile_split(rows, cols, 1 + sg_random_below(&r, 5000), workers);
        unsigned char *const seen = calloc((size_t)(rows * cols + 1), 1);
        assert_non_null(seen);
        for (int64_t i = 0; i < split.pieces; i++) {
            const sg_tile_rect rect = sg_tile_split_at(&split, i);
            assert_true(rect.rows > 0 && rect.rows <= split.row_step);
            assert_true(rect.cols > 0 && rect.cols <= split.col_step);
            assert_true(rect.row0 >= 0 && rect.row0 + rect.rows <= rows);
            assert_true(rect.col0 >= 0 && rect.col0 + rect.cols <= cols);
            for (int64_t y = 0; y < rect.rows; y++) {
                for (int64_t x = 0; x < rect.cols; x++) {
                    seen[(rect.row0 + y) * cols + rect.col0 + x]++;
                }
            }
        }
        for (int64_t i = 0; i < rows * cols; i++) assert_int_equal(seen[i], 1);
        free(seen);
    }
    /* A large product keeps its workers equally busy. */
    const sg_split split = sg_tile_split(2048, 4096, 4096, 2);
    assert_true(split.pieces >= 2 && split.pieces % 2 == 0);
}

static void shapes_are_offered_and_accumulators_reserved(void **state)
{
    (void)state;
    sg_tile shape[SG_TILES];
    const int shapes = sg_tile_shapes(shape);
    assert_true(shapes > 0 && shapes <= SG_TILES);
    for (int i = 0; i < shapes; i++) assert_true(shape[i].m > 0 && shape[i].n > 0);
    sg_tile_scratch *scratch = NULL;
    assert_int_equal(sg_tile_scratch_create(&scratch), SHINGLE_OK);
    assert_int_equal(sg_tile_scratch_reserve(scratch, 100, 100), SHINGLE_OK);
    float *const acc = sg_tile_acc(scratch);
    assert_int_equal((uintptr_t)acc % 64, 0);
    for (int i = 0; i < 10000; i++) acc[i] = 1.0f;
    assert_int_equal(sg_tile_scratch_reserve(scratch, 10, 10), SHINGLE_OK);
    assert_ptr_equal(sg_tile_acc(scratch), acc);
    assert_int_equal(sg_tile_scratch_reserve(scratch, INT64_MAX, 4), SHINGLE_ENOMEM);
    sg_tile_scratch_free(scratch);
}

#ifdef SG_WITH_CBLAS
extern char *openblas_get_corename(void) __attribute__((weak));
#endif

/* OpenBLAS reads its core type when it is loaded, so this program runs itself again. */
static void a_misjudged_processor_is_named(void **state)
{
    (void)state;
#if defined(SG_WITH_CBLAS) && defined(__x86_64__) && defined(__GNUC__)
    if (openblas_get_corename == NULL || !__builtin_cpu_supports("avx2")) return;
    static const char *const types[] = {"Prescott", "Haswell"};
    for (int i = 0; i < 2; i++) {
        char self[4096];
        char command[4400];
        char said[400] = "";
        const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        if (length <= 0) return;
        self[length] = '\0';
        snprintf(command, sizeof command, "OPENBLAS_CORETYPE=%s SHINGLE_LOG=warn '%s' cblas 2>&1",
                 types[i], self);
        FILE *const out = popen(command, "r");
        assert_non_null(out);
        const size_t bytes = fread(said, 1, sizeof said - 1, out);
        said[bytes] = '\0';
        assert_int_equal(pclose(out), 0);
        assert_int_equal(strstr(said, "OPENBLAS_CORETYPE") != NULL, i == 0);
    }
#endif
}

static int use_engine(void **state)
{
    return sg_micro_force(*state) ? 0 : -1;
}

int main(int count, char **arguments)
{
    if (count > 1) return sg_micro_force(arguments[1]) ? 0 : 1;
    const struct CMUnitTest conversions[] = {
        cmocka_unit_test(every_half_value_is_loaded_exactly_and_stored_back),
        cmocka_unit_test(every_tie_rounds_to_even),
        cmocka_unit_test(random_floats_round_to_the_nearest),
        cmocka_unit_test(f32_is_copied_and_addends_are_added),
        cmocka_unit_test(activations_are_right_and_do_not_depend_on_place),
        cmocka_unit_test(epilogue_adds_bias_before_the_activation),
        cmocka_unit_test(transposes_of_every_small_shape),
        cmocka_unit_test(splits_cover_every_element_once),
        cmocka_unit_test(shapes_are_offered_and_accumulators_reserved),
        cmocka_unit_test(a_misjudged_processor_is_named),
    };
    int failed = cmocka_run_group_tests_name("conversions", conversions, NULL, NULL);

    static char *const engines[] = {"libxsmm", "cblas", "plain"};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        if (!sg_micro_force(engines[i])) continue; /* not in this build */
        char *const name = engines[i];
        const struct CMUnitTest products[] = {
            cmocka_unit_test_prestate_setup_teardown(products_of_odd_shapes, use_engine, NULL,
                                                     name),
            cmocka_unit_test(products_of_any_part),
            cmocka_unit_test(products_larger_than_a_block),
            cmocka_unit_test(rows_far_apart),
            cmocka_unit_test(sums_are_one_chain),
            cmocka_unit_test(a_new_run_sees_the_new_b),
            cmocka_unit_test(one_pack_serves_matrices_of_other_shapes),
            cmocka_unit_test(a_busy_block_is_packed_privately),
            cmocka_unit_test(threads_share_one_pack),
        };
        failed += cmocka_run_group_tests_name(name, products, NULL, NULL);
    }
    return failed;
}
