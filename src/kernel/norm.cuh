/* norm.cuh -- rows that are normed (core/norm.h): a block a row, eight neighbours a thread at a
 * time, so that the order of additions is what a block does by itself.
 *
 * A row is read once: up to 2048 x KEEP columns of it stay in registers between the sum of squares
 * and the division, and what is beyond is read again from the residual, where this very thread has
 * stored it.  The addresses of the pieces follow from their place in the raster. */
#pragma once
#include "kernel/device.cuh"

enum { NORM_THREADS = 256, NORM_UNIT = 8, NORM_SPAN = NORM_THREADS * NORM_UNIT };

/* Sums of the warps, of two rows in turn. */
enum { NORM_WARPS = NORM_THREADS / 32, NORM_SHARED = 2 * NORM_WARPS * (int)sizeof(float) };

/* The rows of one patch, and where they come from and go to. */
struct NormRows {
    const sg_patch *patch;
    Spot from, to, residual;
    const char *gain, *bias; /* NULL: no bias */
    int tile_m, width;       /* of a place; 0: rows lie as in C */
    int bands, strips, cols;
    float epsilon;
};

/* Column COL of row ROW of the sums. */
template <class T> DEV const char *norm_source(const NormRows &x, int row, int col)
{
    if (x.width == 0) return x.from.data + row * x.from.pitch + (int64_t)col * (int)sizeof(T);
    const int band = row / x.tile_m, strip = col / x.width;
    const int place = sg_walk_index(x.patch, x.bands, x.strips, band, strip);
    return x.from.data + ((int64_t)place * x.tile_m + (row - band * x.tile_m)) * x.from.pitch +
           (int64_t)(col - strip * x.width) * (int)sizeof(T);
}

/* Eight neighbours, of which LEFT are there; FAST: at 16 bytes. */
template <class T, bool FAST> DEV void norm_load(const char *from, int left, float *v)
{
    if (FAST && left >= NORM_UNIT) {
        constexpr int WIDTH = 16 / (int)sizeof(T);
#pragma unroll
        for (int i = 0; i < NORM_UNIT; i += WIDTH)
            load_lump<T, WIDTH>(from + i * (int)sizeof(T), v + i);
        return;
    }
#pragma unroll
    for (int i = 0; i < NORM_UNIT; ++i) {
        v[i] = 0.f;
        if (i < left) load_lump<T, 1>(from + i * (int)sizeof(T), v + i);
    }
}

/* Eight values of type T, in registers. */
template <class T> struct NormUnit {
    uint32_t pair[NORM_UNIT / 2];
};
template <> struct NormUnit<float> {
    float v[NORM_UNIT];
};

template <class T> DEV NormUnit<T> norm_round(const float *v)
{
    NormUnit<T> u;
    if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < NORM_UNIT; ++i) u.v[i] = v[i];
    } else {
#pragma unroll
        for (int i = 0; i < NORM_UNIT / 2; ++i) u.pair[i] = pack<T>(v[2 * i], v[2 * i + 1]);
    }
    return u;
}

template <class T> DEV void norm_widen(const NormUnit<T> &u, float *v)
{
    if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < NORM_UNIT; ++i) v[i] = u.v[i];
    } else {
#pragma unroll
        for (int i = 0; i < NORM_UNIT / 2; ++i) {
            const float2 two = unpack<T>(u.pair[i]);
            v[2 * i] = two.x, v[2 * i + 1] = two.y;
        }
    }
}

template <class T, bool FAST> DEV void norm_store(char *to, int left, const NormUnit<T> &u)
{
    if (FAST && left >= NORM_UNIT) {
        if constexpr (sizeof(T) == 4) {
            ((float4 *)to)[0] = make_float4(u.v[0], u.v[1], u.v[2], u.v[3]);
            ((float4 *)to)[1] = make_float4(u.v[4], u.v[5], u.v[6], u.v[7]);
        } else {
            *(uint4 *)to = make_uint4(u.pair[0], u.pair[1], u.pair[2], u.pair[3]);
        }
        return;
    }
    float v[NORM_UNIT];
    norm_widen<T>(u, v);
#pragma unroll
    for (int i = 0; i < NORM_UNIT; ++i)
        if (i < left) ((T *)to)[i] = from_float<T>(v[i]);
}

/* The sums, places narrower than a unit among them. */
template <class T, bool FAST> DEV void norm_load_sums(const NormRows &x, int row, int col, float *v)
{
    if constexpr (FAST) {
        norm_load<T, true>(norm_source<T>(x, row, col), x.cols - col, v);
    } else {
#pragma unroll 1
        for (int i = 0; i < NORM_UNIT; ++i) {
            float one = 0.f;
            if (col + i < x.cols) load_lump<T, 1>(norm_source<T>(x, row, col + i), &one);
#pragma unroll
            for (int j = 0; j < NORM_UNIT; ++j) v[j] = j == i ? one : v[j];
        }
    }
}

/* Eight columns of the residual as they will be; their squares are added to SUM. */
template <class T, bool FAST>
DEV NormUnit<T> norm_add(const NormRows &x, int row, int col, float *sum)
{
    char *const at = x.residual.data + row * x.residual.pitch + (int64_t)col * (int)sizeof(T);
    float y[NORM_UNIT], other[NORM_UNIT];
    norm_load_sums<T, FAST>(x, row, col, y);
    if (x.bias != nullptr) {
        norm_load<T, FAST>(x.bias + (int64_t)col * (int)sizeof(T), x.cols - col, other);
#pragma unroll
        for (int i = 0; i < NORM_UNIT; ++i) y[i] = __fadd_rn(y[i], other[i]);
    }
    norm_load<T, FAST>(at, x.cols - col, other);
    norm_widen<T>(norm_round<T>(y), y); /* what C would hold */
#pragma unroll
    for (int i = 0; i < NORM_UNIT; ++i) y[i] = __fadd_rn(y[i], other[i]);
    const NormUnit<T> now = norm_round<T>(y);
    norm_widen<T>(now, y);
#pragma unroll
    for (int i = 0; i < NORM_UNIT; ++i)
        if (col + i < x.cols) sum[i] = __fadd_rn(sum[i], __fmul_rn(y[i], y[i]));
    norm_store<T, FAST>(at, x.cols - col, now);
    return now;
}

/* Eight columns of C. */
template <class T, bool FAST>
DEV void norm_scale(const NormRows &x, int row, int col, float scale, const NormUnit<T> &now)
{
    float v[NORM_UNIT], gain[NORM_UNIT];
    norm_load<T, FAST>(x.gain + (int64_t)col * (int)sizeof(T), x.cols - col, gain);
    norm_widen<T>(now, v);
#pragma unroll
    for (int i = 0; i < NORM_UNIT; ++i) v[i] = __fmul_rn(__fmul_rn(v[i], scale), gain[i]);
    norm_store<T, FAST>(x.to.data + row * x.to.pitch + (int64_t)col * (int)sizeof(T), x.cols - col,
                        norm_round<T>(v));
}

/* By all threads of the block: the sum of all sums.  SHARED: of this row. */
DEV float norm_total(float *sum, float *shared)
{
#pragma unroll
    for (int d = NORM_UNIT / 2; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < d; ++i) sum[i] = __fadd_rn(sum[i], sum[i + d]);
    float all = sum[0];
#pragma unroll
    for (int d = 16; d > 0; d /= 2) all = __fadd_rn(all, __shfl_xor_sync(0xffffffffu, all, d));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = all;
    __syncthreads();
    float warp[NORM_WARPS];
#pragma unroll
    for (int i = 0; i < NORM_WARPS; ++i) warp[i] = shared[i];
#pragma unroll
    for (int d = NORM_WARPS / 2; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < d; ++i) warp[i] = __fadd_rn(warp[i], warp[i + d]);
    return warp[0];
}

template <class T, bool FAST> DEV void norm_row(const NormRows &x, int row, float *shared)
{
    constexpr int KEEP = !FAST ? 1 : sizeof(T) == 2 ? 4 : 2;
    const int first = (int)threadIdx.x * NORM_UNIT;
    float sum[NORM_UNIT];
    NormUnit<T> kept[KEEP];
#pragma unroll
    for (int i = 0; i < NORM_UNIT; ++i) sum[i] = 0.f;
#pragma unroll
    for (int i = 0; i < KEEP; ++i)
        if (first + i * NORM_SPAN < x.cols)
            kept[i] = norm_add<T, FAST>(x, row, first + i * NORM_SPAN, sum);
    for (int col = first + KEEP * NORM_SPAN; col < x.cols; col += NORM_SPAN)
        norm_add<T, FAST>(x, row, col, sum);
    const float mean = __fdiv_rn(norm_total(sum, shared), (float)x.cols);
    const float scale = __fdiv_rn(1.f, __fsqrt_rn(__fadd_rn(mean, x.epsilon)));
#pragma unroll
    for (int i = 0; i < KEEP; ++i)
        if (first + i * NORM_SPAN < x.cols)
            norm_scale<T, FAST>(x, row, first + i * NORM_SPAN, scale, kept[i]);
    for (int col = first + KEEP * NORM_SPAN; col < x.cols; col += NORM_SPAN) {
        float v[NORM_UNIT];
        norm_load<T, FAST>(x.residual.data + row * x.residual.pitch + (int64_t)col * (int)sizeof(T),
                           x.cols - col, v);
        norm_scale<T, FAST>(x, row, col, scale, norm_round<T>(v));
    }
}

/* All rows of a launch, dealt to the blocks in turn. */
template <class T> DEV void norm_all(const sg_kernel_program &program, const sg_kernel_norm &n)
{
    float *shared = (float *)shared_memory();
    const int half = run_half(program);
    uint32_t next = blockIdx.x; /* row of this block, in the patch at hand */
    int turn = 0;
    for (int i = n.patch0; i < n.patch0 + n.patches; ++i) {
        const sg_patch &p = program.patch[i];
        const sg_area &from = program.add[p.add0].area, &to = program.to[p.to0];
        const sg_kernel_place &residual = program.place[n.residual];
        const int width = from.tiled ? from.cols : 0;
        const NormRows x = {
            &p,
            spot_of(program, from, half, false),
            spot_of(program, to, half, true),
            Spot{(char *)residual.data[0] + to.row0 * residual.pitch, residual.pitch},
            (const char *)n.gain,
            p.final ? (const char *)program.bias : nullptr,
            n.tile_m,
            width,
            sg_walk_bands(&p, n.tile_m),
            width > 0 ? sg_walk_cols(&p, width) : 1,
            p.cols,
            n.epsilon};
        const uintptr_t odd =
            (uintptr_t)x.from.data | (uintptr_t)x.from.pitch | (uintptr_t)x.to.data |
            (uintptr_t)x.to.pitch | (uintptr_t)x.residual.data | (uintptr_t)x.residual.pitch |
            (uintptr_t)x.gain | (uintptr_t)x.bias | (uintptr_t)(width * (int)sizeof(T));
        const bool fast = odd % 16 == 0 && width % NORM_UNIT == 0;
        const uint32_t rows = (uint32_t)p.rows;
        for (; next < rows; next += gridDim.x, turn ^= NORM_WARPS) {
            if (fast)
                norm_row<T, true>(x, (int)next, shared + turn);
            else
                norm_row<T, false>(x, (int)next, shared + turn);
        }
        next -= rows;
    }
}
