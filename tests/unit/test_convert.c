/* test_convert.c -- conversions, activations and transposes against references one element at a
 * time: every value of the half-width types, every tie, random floats, every small block. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/transpose.h"

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
    for (sg_act act = SG_ACT_GELU; act <= SG_ACT_SILU; act++) {
        float ends[7] = {-INFINITY, -3e38f, -1e30f, -200.0f, 200.0f, 3e38f, NAN};
        sg_convert_act(act, ends, 7);
        for (int i = 0; i < 4; i++) assert_true(fabsf(ends[i]) < 1e-30f);
        assert_true(ends[4] == 200.0f && ends[5] == 3e38f && isnan(ends[6]));
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_value_is_loaded_exactly_and_stored_back),
        cmocka_unit_test(every_tie_rounds_to_even),
        cmocka_unit_test(random_floats_round_to_the_nearest),
        cmocka_unit_test(f32_is_copied_and_addends_are_added),
        cmocka_unit_test(activations_are_right_and_do_not_depend_on_place),
        cmocka_unit_test(epilogue_adds_bias_before_the_activation),
        cmocka_unit_test(transposes_of_every_small_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
