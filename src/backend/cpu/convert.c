/* convert.c -- rows to and from f32, branch-free so that the compiler vectorises the loops.
 *
 * Each loop is written once, as an inline body, and compiled for the base instruction set and, on
 * x86-64, for AVX2 and AVX-512; the table of the best set that the machine has is chosen at first
 * use.  The bodies use single operations that round alike on every unit (no fused multiply-add:
 * the build turns contraction off), so the choice never changes a bit. */
#include "backend/cpu/convert.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_CLONES 1
#else
#define HAVE_CLONES 0
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

INLINE float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- One element ----------------------------------------------------------------------------- */

INLINE float bf16_get(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

INLINE uint16_t bf16_put(float x)
{
    const uint32_t u = bits_of(x);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t nan = (u >> 16) | 0x40u;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

INLINE float f16_get(uint16_t h)
{
    const uint32_t magnitude = (uint32_t)(h & 0x7fffu) << 13;
    /* Read as f32 the exponent is 112 too small; the product is exact, subnormals included. */
    const uint32_t finite = bits_of(float_of(magnitude) * 0x1p112f);
    const uint32_t special = magnitude | 0x7f800000u | ((h & 0x3ffu) ? 0x400000u : 0u);
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    return float_of(sign | ((h & 0x7c00u) == 0x7c00u ? special : finite));
}

INLINE uint16_t f16_put(float x)
{
    const uint32_t u = bits_of(x);
    const uint32_t magnitude = u & 0x7fffffffu;
    /* Subnormal results: adding 1/2 makes the f32 unit round at the last place of an f16. */
    const uint32_t small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    uint32_t h = magnitude < 0x38800000u ? small : normal;
    h = magnitude >= 0x47800000u ? 0x7c00u : h;
    h = magnitude > 0x7f800000u ? nan : h;
    return (uint16_t)(((u >> 16) & 0x8000u) | h);
}

/* 1 / (1 + exp(-x)), to about 2 units in the last place; NaN stays NaN. */
INLINE float sigmoid(float x)
{
    /* exp(t) = 2^n * exp(r), |r| <= ln 2 / 2; the clamps keep 2^n a normal number. */
    float t = -x;
    t = t > 88.0f ? 88.0f : t;
    t = t < -87.0f ? -87.0f : t;
    const float magic = 12582912.0f; /* 1.5 * 2^23: rounds to an integer held in the low bits */
    const float shifted = t * 1.44269504f + magic;
    const float n = shifted - magic;
    const float r = (t - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const float e = (p * r) * r + r + 1.0f;
    const float scale = float_of((bits_of(shifted) + 127u) << 23);
    return 1.0f / (1.0f + e * scale);
}

INLINE float relu(float x)
{
    return x < 0.0f ? 0.0f : x;
}

/* What gelu and silu multiply by a sigmoid that never is 0: not more than that leaves of it. */
INLINE float from_below(float x)
{
    return x < -88.0f ? -88.0f : x;
}

INLINE float silu(float x)
{
    return from_below(x) * sigmoid(x);
}

/* 0.5 * (1 + tanh(u)) is sigmoid(2 u). */
INLINE float gelu(float x)
{
    const float cube = x * x * x;
    return from_below(x) * sigmoid(1.59576912f * (x + 0.044715f * cube));
}

/* ---- Rows, for every instruction set --------------------------------------------------------- */

typedef struct row_ops {
    void (*load[SG_TYPES])(const void *src, float *dst, int64_t count);
    void (*add[SG_TYPES])(const void *src, float *dst, int64_t count);
    void (*store[SG_TYPES])(const float *src, void *dst, int64_t count);
    void (*act[SG_ACTS])(float *row, int64_t count);
} row_ops;

#define ROW_OPS(set, target)                                                                       \
    target static void load_f32_##set(const void *src, float *dst, int64_t count)                  \
    {                                                                                              \
        memcpy(dst, src, (size_t)count * sizeof *dst);                                             \
    }                                                                                              \
    target static void load_bf16_##set(const void *src, float *dst, int64_t count)                 \
    {                                                                                              \
        const uint16_t *const from = src;                                                          \
        for (int64_t i = 0; i < count; i++) dst[i] = bf16_get(from[i]);                            \
    }                                                                                              \
    target static void load_f16_##set(const void *src, float *dst, int64_t count)                  \
    {                                                                                              \
        const uint16_t *const from = src;                                                          \
        for (int64_t i = 0; i < count; i++) dst[i] = f16_get(from[i]);                             \
    }                                                                                              \
    target static void add_f32_##set(const void *src, float *dst, int64_t count)                   \
    {                                                                                              \
        const float *const from = src;                                                             \
        for (int64_t i = 0; i < count; i++) dst[i] = dst[i] + from[i];                             \
    }                                                                                              \
    target static void add_bf16_##set(const void *src, float *dst, int64_t count)                  \
    {                                                                                              \
        const uint16_t *const from = src;                                                          \
        for (int64_t i = 0; i < count; i++) dst[i] = dst[i] + bf16_get(from[i]);                   \
    }                                                                                              \
    target static void add_f16_##set(const void *src, float *dst, int64_t count)                   \
    {                                                                                              \
        const uint16_t *const from = src;                                                          \
        for (int64_t i = 0; i < count; i++) dst[i] = dst[i] + f16_get(from[i]);                    \
    }                                                                                              \
    target static void store_f32_##set(const float *src, void *dst, int64_t count)                 \
    {                                                                                              \
        memcpy(dst, src, (size_t)count * sizeof *src);                                             \
    }                                                                                              \
    target static void store_bf16_##set(const float *src, void *dst, int64_t count)                \
    {                                                                                              \
        uint16_t *const to = dst;                                                                  \
        for (int64_t i = 0; i < count; i++) to[i] = bf16_put(src[i]);                              \
    }                                                                                              \
    target static void store_f16_##set(const float *src, void *dst, int64_t count)                 \
    {                                                                                              \
        uint16_t *const to = dst;                                                                  \
        for (int64_t i = 0; i < count; i++) to[i] = f16_put(src[i]);                               \
    }                                                                                              \
    target static void act_none_##set(float *row, int64_t count)                                   \
    {                                                                                              \
        (void)row;                                                                                 \
        (void)count;                                                                               \
    }                                                                                              \
    target static void act_relu_##set(float *row, int64_t count)                                   \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) row[i] = relu(row[i]);                                 \
    }                                                                                              \
    target static void act_gelu_##set(float *row, int64_t count)                                   \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) row[i] = gelu(row[i]);                                 \
    }                                                                                              \
    target static void act_silu_##set(float *row, int64_t count)                                   \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) row[i] = silu(row[i]);                                 \
    }                                                                                              \
    static const row_ops ops_##set = {                                                             \
        {load_f32_##set, load_bf16_##set, load_f16_##set},                                         \
        {add_f32_##set, add_bf16_##set, add_f16_##set},                                            \
        {store_f32_##set, store_bf16_##set, store_f16_##set},                                      \
        {act_none_##set, act_relu_##set, act_gelu_##set, act_silu_##set}};

ROW_OPS(base, )
#if HAVE_CLONES
ROW_OPS(avx2, __attribute__((target("avx2"))))
ROW_OPS(avx512, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))))
#endif

/* Two threads may choose at once; they choose alike. */
static const row_ops *ops(void)
{
    static _Atomic(const row_ops *) chosen;
    const row_ops *best = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (best != NULL) return best;
    best = &ops_base;
#if HAVE_CLONES
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) best = &ops_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        best = &ops_avx512;
    }
#endif
    atomic_store_explicit(&chosen, best, memory_order_relaxed);
    return best;
}

/* ---- The functions of the header ------------------------------------------------------------- */

void sg_convert_load(sg_type type, const void *src, float *dst, int64_t count)
{
    if (count > 0) ops()->load[type](src, dst, count);
}

void sg_convert_add(sg_type type, const void *src, float *dst, int64_t count)
{
    if (count > 0) ops()->add[type](src, dst, count);
}

void sg_convert_store(sg_type type, const float *src, void *dst, int64_t count)
{
    if (count > 0) ops()->store[type](src, dst, count);
}

void sg_convert_act(sg_act act, float *row, int64_t count)
{
    if (count > 0) ops()->act[act](row, count);
}

void sg_convert_load_block(sg_type type, const void *src, int64_t src_stride, float *dst,
                           int64_t dst_stride, int64_t rows, int64_t cols)
{
    const int64_t row_bytes = src_stride * sg_type_bytes(type);
    for (int64_t i = 0; i < rows; i++) {
        sg_convert_load(type, (const char *)src + i * row_bytes, dst + i * dst_stride, cols);
    }
}

void sg_convert_add_block(sg_type type, const void *src, int64_t src_stride, float *dst,
                          int64_t dst_stride, int64_t rows, int64_t cols)
{
    const int64_t row_bytes = src_stride * sg_type_bytes(type);
    for (int64_t i = 0; i < rows; i++) {
        sg_convert_add(type, (const char *)src + i * row_bytes, dst + i * dst_stride, cols);
    }
}

void sg_convert_store_block(sg_type type, const float *src, int64_t src_stride, void *dst,
                            int64_t dst_stride, int64_t rows, int64_t cols)
{
    const int64_t row_bytes = dst_stride * sg_type_bytes(type);
    for (int64_t i = 0; i < rows; i++) {
        sg_convert_store(type, src + i * src_stride, (char *)dst + i * row_bytes, cols);
    }
}

void sg_convert_round_block(sg_type type, float *acc, int64_t acc_stride, int64_t rows,
                            int64_t cols)
{
    enum { AT_ONCE = 256 };
    uint16_t rounded[AT_ONCE];
    if (type == SG_F32) return;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j += AT_ONCE) {
            const int64_t count = sg_min(AT_ONCE, cols - j);
            sg_convert_store(type, acc + i * acc_stride + j, rounded, count);
            sg_convert_load(type, rounded, acc + i * acc_stride + j, count);
        }
    }
}

void sg_convert_epilogue(sg_type type, const void *bias, sg_act act, float *acc, int64_t acc_stride,
                         int64_t rows, int64_t cols)
{
    if (bias == NULL && act == SG_ACT_NONE) return;
    for (int64_t i = 0; i < rows; i++) {
        float *const row = acc + i * acc_stride;
        if (bias != NULL) sg_convert_add(type, bias, row, cols);
        sg_convert_act(act, row, cols);
    }
}
