/* transpose.c -- transposes 16 x 16 elements at a time in the registers of AVX-512, and through a
 * small block in plain C elsewhere. */
#include "backend/cpu/transpose.h"

#include "backend/cpu/convert.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_AVX512 1
#include <immintrin.h>
#else
#define HAVE_AVX512 0
#endif

enum { EDGE = 16 }; /* rows and columns of a step */

/* ---- Plain C --------------------------------------------------------------------------------- */

/* Rows go through a buffer of f32, so that the types differ in one call and the transposing loop
 * reads what is in the first-level cache. */
static void transpose_plain(sg_type type, const void *src, int64_t src_stride, int64_t rows,
                            int64_t cols, float *dst, int64_t dst_stride)
{
    const int64_t element = sg_type_bytes(type);
    float block[EDGE][8 * EDGE];
    for (int64_t j = 0; j < rows; j += EDGE) {
        const int64_t js = sg_min(EDGE, rows - j);
        for (int64_t x = 0; x < cols; x += 8 * EDGE) {
            const int64_t xs = sg_min(8 * EDGE, cols - x);
            const char *const from = (const char *)src + (j * src_stride + x) * element;
            sg_convert_load_block(type, from, src_stride, &block[0][0], 8 * EDGE, js, xs);
            for (int64_t y = 0; y < xs; y++) {
                float *const to = dst + (x + y) * dst_stride + j;
                for (int64_t i = 0; i < js; i++) to[i] = block[i][y];
            }
        }
    }
}

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#if HAVE_AVX512

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))

/* Up to 16 elements as f32; the lanes that MASK leaves out are zero and are not read. */
AVX512_INLINE __m512 load_16(sg_type type, const char *src, __mmask16 mask)
{
    if (type == SG_F32) return _mm512_maskz_loadu_ps(mask, src);
    const __m256i half = _mm256_maskz_loadu_epi16(mask, src);
    if (type == SG_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* Transposes R in place: first inside quarters of 4 x 4, then the quarters. */
AVX512_INLINE void transpose_16(__m512 r[EDGE])
{
    __m512 t[EDGE];
    for (int i = 0; i < EDGE; i += 4) {
        const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[i], r[i + 1]));
        const __m512d b = _mm512_castps_pd(_mm512_unpacklo_ps(r[i + 2], r[i + 3]));
        const __m512d c = _mm512_castps_pd(_mm512_unpackhi_ps(r[i], r[i + 1]));
        const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r[i + 2], r[i + 3]));
        t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        t[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
        t[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
    }
    /* t[4 g + i] holds, in quarter q, column 4 q + i of rows 4 g .. 4 g + 3. */
    for (int i = 0; i < 4; i++) {
        const __m512 a = _mm512_shuffle_f32x4(t[i], t[4 + i], 0x88);
        const __m512 b = _mm512_shuffle_f32x4(t[8 + i], t[12 + i], 0x88);
        const __m512 c = _mm512_shuffle_f32x4(t[i], t[4 + i], 0xdd);
        const __m512 d = _mm512_shuffle_f32x4(t[8 + i], t[12 + i], 0xdd);
        r[i] = _mm512_shuffle_f32x4(a, b, 0x88);
        r[8 + i] = _mm512_shuffle_f32x4(a, b, 0xdd);
        r[4 + i] = _mm512_shuffle_f32x4(c, d, 0x88);
        r[12 + i] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}

AVX512_INLINE void step_16(sg_type type, const char *src, int64_t row_bytes, int64_t js, int64_t xs,
                           float *dst, int64_t dst_stride)
{
    __m512 r[EDGE];
    if (js == EDGE && xs == EDGE) {
        for (int i = 0; i < EDGE; i++) r[i] = load_16(type, src + i * row_bytes, 0xffff);
        transpose_16(r);
        for (int i = 0; i < EDGE; i++) _mm512_storeu_ps(dst + i * dst_stride, r[i]);
        return;
    }
    const __mmask16 x_mask = (__mmask16)((1u << xs) - 1u);
    const __mmask16 j_mask = (__mmask16)((1u << js) - 1u);
    for (int i = 0; i < EDGE; i++) {
        r[i] = i < js ? load_16(type, src + i * row_bytes, x_mask) : _mm512_setzero_ps();
    }
    transpose_16(r);
    for (int i = 0; i < xs; i++) _mm512_mask_storeu_ps(dst + i * dst_stride, j_mask, r[i]);
}

AVX512_INLINE void transpose_avx512(sg_type type, const char *src, int64_t src_stride, int64_t rows,
                                    int64_t cols, float *dst, int64_t dst_stride)
{
    const int64_t element = type == SG_F32 ? 4 : 2;
    for (int64_t j = 0; j < rows; j += EDGE) {
        const int64_t js = sg_min(EDGE, rows - j);
        for (int64_t x = 0; x < cols; x += EDGE) {
            step_16(type, src + (j * src_stride + x) * element, src_stride * element, js,
                    sg_min(EDGE, cols - x), dst + x * dst_stride + j, dst_stride);
        }
    }
}

AVX512 static void transpose_f32_avx512(const char *src, int64_t src_stride, int64_t rows,
                                        int64_t cols, float *dst, int64_t dst_stride)
{
    transpose_avx512(SG_F32, src, src_stride, rows, cols, dst, dst_stride);
}

AVX512 static void transpose_bf16_avx512(const char *src, int64_t src_stride, int64_t rows,
                                         int64_t cols, float *dst, int64_t dst_stride)
{
    transpose_avx512(SG_BF16, src, src_stride, rows, cols, dst, dst_stride);
}

AVX512 static void transpose_f16_avx512(const char *src, int64_t src_stride, int64_t rows,
                                        int64_t cols, float *dst, int64_t dst_stride)
{
    transpose_avx512(SG_F16, src, src_stride, rows, cols, dst, dst_stride);
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

void sg_transpose(sg_type type, const void *src, int64_t src_stride, int64_t rows, int64_t cols,
                  float *dst, int64_t dst_stride)
{
#if HAVE_AVX512
    if (has_avx512()) {
        if (type == SG_F32) {
            transpose_f32_avx512(src, src_stride, rows, cols, dst, dst_stride);
        } else if (type == SG_BF16) {
            transpose_bf16_avx512(src, src_stride, rows, cols, dst, dst_stride);
        } else {
            transpose_f16_avx512(src, src_stride, rows, cols, dst, dst_stride);
        }
        return;
    }
#endif
    transpose_plain(type, src, src_stride, rows, cols, dst, dst_stride);
}
