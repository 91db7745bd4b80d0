/* norm.cuh -- rows that are normed (core/norm.h): a block a row, eight neighbours a thread at a
 * time, so that the order of additions is what a block does by itself.
 *
 * A row is read once: up to 2048 x KEEP columns of it stay in registers between the sum of squares
 * and the division, and what is beyond is read again from the residual, where this very thread has
 * stored it.  The addresses of the pieces follow from their place in the raster. */
#pragma once
#include "kernel/device.cuh"

enum { NORM_THREADS = 256, NORM_UNIT = 8, NORM_SPAN = NORM_THREADS * NORM_UNIT };

/* The rows of one patch, and where they come from and go to. */
struct NormRows {
    const sg_patch *patch;
    Spot from, to, residual;
    const char *gain, *bias; /* NULL: no bias */
    int tile_m, width;       /* of a place; 0: rows lie as in C */
    int bands, strips, rows, cols;
    float epsilon;
    bool fast;      /* everything lies at 16 bytes, and nothing is less than a unit */
    int64_t second; /* bytes from FROM in the workspace's first half to that in the second */
};

/* Of a block: sums of the warps, of two rows in turn, and the patch at hand, since in registers it
 * would cost the block beside this one its place. */
enum { NORM_WARPS = NORM_THREADS / 32 };
struct NormShared {
    float warp[2 * NORM_WARPS];
    NormRows rows;
};
enum { NORM_SHARED = (int)sizeof(NormShared) };

/* Column COL of row ROW of the sums. */
template <class T> DEV const char *norm_source(const NormRows &x, int row, int col)
{
    if (x.width == 0) return x.from.data + row * x.from.pitch + (int64_t)col * (int)sizeof(T);
    const int band = row / x.tile_m, strip = col / x.width;
    const int place = sg_walk_index(x.patch, x.bands, x.strips, band, strip);
    return x.from.data + ((int64_t)place * x.tile_m + (row - band * x.tile_m)) * x.from.pitch +
           (int64_t)(col - strip * x.width) * (int)sizeof(T);
}

/* The same of C and of the residual. */
template <class T> DEV char *norm_at(const Spot &spot, int row, int col)
{
    return spot.data + row * spot.pitch + (int64_t)col * (int)sizeof(T);
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

/* Sixteen bytes, or one element; KEPT: of what nothing writes meanwhile, by the L1, which has it
 * from the row before. */
template <bool KEPT, class Unit> DEV Unit norm_read(const char *from)
{
    if constexpr (KEPT)
        return __ldg((const Unit *)from);
    else
        return __ldcg((const Unit *)from);
}

/* Reads element I, of which nothing was there. */
template <class T, bool KEPT> DEV void norm_put(NormUnit<T> &u, int i, const char *from)
{
    if constexpr (sizeof(T) == 4) {
        const float one = norm_read<KEPT, float>(from);
#pragma unroll
        for (int j = 0; j < NORM_UNIT; ++j) u.v[j] = j == i ? one : u.v[j];
    } else {
        const uint32_t one = norm_read<KEPT, unsigned short>(from);
#pragma unroll
        for (int j = 0; j < NORM_UNIT / 2; ++j) u.pair[j] |= j == i / 2 ? one << (i % 2 * 16) : 0;
    }
}

/* Eight neighbours, of which LEFT are there; FAST: all, at 16 bytes. */
template <class T, bool FAST, bool KEPT> DEV NormUnit<T> norm_load(const char *from, int left)
{
    NormUnit<T> u = {};
    if constexpr (FAST) {
        if constexpr (sizeof(T) == 4) {
            const float4 low = norm_read<KEPT, float4>(from);
            const float4 high = norm_read<KEPT, float4>(from + 16);
            u.v[0] = low.x, u.v[1] = low.y, u.v[2] = low.z, u.v[3] = low.w;
            u.v[4] = high.x, u.v[5] = high.y, u.v[6] = high.z, u.v[7] = high.w;
        } else {
            const uint4 all = norm_read<KEPT, uint4>(from);
            u.pair[0] = all.x, u.pair[1] = all.y, u.pair[2] = all.z, u.pair[3] = all.w;
        }
    } else {
#pragma unroll 1
        for (int i = 0; i < NORM_UNIT && i < left; ++i)
            norm_put<T, KEPT>(u, i, from + i * (int)sizeof(T));
    }
    return u;
}

template <class T, bool FAST> DEV void norm_store(char *to, int left, const NormUnit<T> &u)
{
    if constexpr (FAST) {
        if constexpr (sizeof(T) == 4) {
            ((float4 *)to)[0] = make_float4(u.v[0], u.v[1], u.v[2], u.v[3]);
            ((float4 *)to)[1] = make_float4(u.v[4], u.v[5], u.v[6], u.v[7]);
        } else {
            *(uint4 *)to = make_uint4(u.pair[0], u.pair[1], u.pair[2], u.pair[3]);
        }
    } else {
        float v[NORM_UNIT];
        norm_widen<T>(u, v);
#pragma unroll
        for (int i = 0; i < NORM_UNIT; ++i)
            if (i < left) ((T *)to)[i] = from_float<T>(v[i]);
    }
}

/* The sums from column COL on, places narrower than a unit among them. */
template <class T, bool FAST> DEV NormUnit<T> norm_load_sums(const NormRows &x, int row, int col)
{
    if constexpr (FAST) {
        return norm_load<T, true, false>(norm_source<T>(x, row, col), x.cols - col);
    } else {
        NormUnit<T> u = {};
#pragma unroll 1
        for (int i = 0; i < NORM_UNIT && col + i < x.cols; ++i)
            norm_put<T, false>(u, i, norm_source<T>(x, row, col + i));
        return u;
    }
}

template <class T, bool FAST>
DEV NormUnit<T> norm_load_residual(const NormRows &x, int row, int col)
{
    return norm_load<T, FAST, false>(norm_at<T>(x.residual, row, col), x.cols - col);
}

/* Eight columns of the residual as they will be; their squares are added to SQUARES. */
template <class T, bool FAST>
DEV NormUnit<T> norm_add(const NormRows &x, int row, int col, float *squares)
{
    const NormUnit<T> sums = norm_load_sums<T, FAST>(x, row, col);
    const NormUnit<T> residual = norm_load_residual<T, FAST>(x, row, col);
    float y[NORM_UNIT], other[NORM_UNIT];
    norm_widen<T>(sums, y);
    if (x.bias != nullptr) {
        const char *const bias = x.bias + (int64_t)col * (int)sizeof(T);
        norm_widen<T>(norm_load<T, FAST, true>(bias, x.cols - col), other);
#pragma unroll
        for (int i = 0; i < NORM_UNIT; ++i) y[i] = __fadd_rn(y[i], other[i]);
        norm_widen<T>(norm_round<T>(y), y); /* what C would hold */
    }
    norm_widen<T>(residual, other);
#pragma unroll
    for (int i = 0; i < NORM_UNIT; ++i) y[i] = __fadd_rn(y[i], other[i]);
    const NormUnit<T> now = norm_round<T>(y);
    norm_widen<T>(now, y);
#pragma unroll
    for (int i = 0; i < NORM_UNIT; ++i)
        if (FAST || col + i < x.cols) squares[i] = __fadd_rn(squares[i], __fmul_rn(y[i], y[i]));
    norm_store<T, FAST>(norm_at<T>(x.residual, row, col), x.cols - col, now);
    return now;
}

/* Eight columns of C. */
template <class T, bool FAST>
DEV void norm_scale(const NormRows &x, int row, int col, float scale, const NormUnit<T> &now)
{
    const char *const at = x.gain + (int64_t)col * (int)sizeof(T);
    float v[NORM_UNIT], gain[NORM_UNIT];
    norm_widen<T>(norm_load<T, FAST, true>(at, x.cols - col), gain);
    norm_widen<T>(now, v);
#pragma unroll
    for (int i = 0; i < NORM_UNIT; ++i) v[i] = __fmul_rn(__fmul_rn(v[i], scale), gain[i]);
    norm_store<T, FAST>(norm_at<T>(x.to, row, col), x.cols - col, norm_round<T>(v));
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
    float squares[NORM_UNIT] = {};
    NormUnit<T> kept[KEEP];
#pragma unroll
    for (int i = 0; i < KEEP; ++i)
        if (first + i * NORM_SPAN < x.cols)
            kept[i] = norm_add<T, FAST>(x, row, first + i * NORM_SPAN, squares);
    for (int col = first + KEEP * NORM_SPAN; col < x.cols; col += NORM_SPAN)
        norm_add<T, FAST>(x, row, col, squares);
    const float mean = __fdiv_rn(norm_total(squares, shared), (float)x.cols);
    const float scale = __fdiv_rn(1.f, __fsqrt_rn(__fadd_rn(mean, x.epsilon)));
#pragma unroll
    for (int i = 0; i < KEEP; ++i)
        if (first + i * NORM_SPAN < x.cols)
            norm_scale<T, FAST>(x, row, first + i * NORM_SPAN, scale, kept[i]);
    for (int col = first + KEEP * NORM_SPAN; col < x.cols; col += NORM_SPAN)
        norm_scale<T, FAST>(x, row, col, scale, norm_load_residual<T, FAST>(x, row, col));
}

template <class T>
DEV NormRows norm_rows_of(const sg_kernel_program &program, const sg_kernel_norm &n,
                          const sg_patch &p, int half)
{
    const sg_area &from = program.add[p.add0].area, &to = program.to[p.to0];
    const sg_kernel_place &residual = program.place[n.residual];
    const int width = from.tiled ? from.cols : 0;
    NormRows x = {&p,
                  spot_of(program, from, half, false),
                  spot_of(program, to, half, false), /* C of this rank, which nobody tells it of */
                  Spot{(char *)residual.data[0] + to.row0 * residual.pitch, residual.pitch},
                  (const char *)n.gain,
                  p.final ? (const char *)program.bias : nullptr,
                  n.tile_m,
                  width,
                  sg_walk_bands(&p, n.tile_m),
                  width > 0 ? sg_walk_cols(&p, width) : 1,
                  p.rows,
                  p.cols,
                  n.epsilon,
                  false,
                  0};
    const uintptr_t odd = (uintptr_t)x.from.data | (uintptr_t)x.from.pitch | (uintptr_t)x.to.data |
                          (uintptr_t)x.to.pitch | (uintptr_t)x.residual.data |
                          (uintptr_t)x.residual.pitch | (uintptr_t)x.gain | (uintptr_t)x.bias |
                          (uintptr_t)(width * (int)sizeof(T));
    x.fast = odd % 16 == 0 && (width | p.cols) % NORM_UNIT == 0;
    const sg_kernel_place &sums = program.place[from.buf];
    x.second = (const char *)sums.data[1] - (const char *)sums.data[0];
    return x;
}

/* Where a block is: row NEXT of patch PATCH and of those behind it, and the patch that is in shared
 * memory; -1: none. */
struct NormAt {
    int patch, looked_up;
    uint32_t next;
};

/* Goes on to the patch that has the row.  False: there is none. */
DEV bool norm_find(const sg_kernel_program &program, const sg_kernel_norm &n, NormAt &at)
{
    for (; at.patch < n.patch0 + n.patches; ++at.patch) {
        const uint32_t rows = (uint32_t)program.patch[at.patch].rows;
        if (at.next < rows) return true;
        at.next -= rows;
    }
    return false;
}

/* Looks its patch up.  The same for all threads of the block. */
template <class T>
DEV void norm_look_up(const sg_kernel_program &program, const sg_kernel_norm &n, NormAt &at,
                      int half)
{
    NormRows &x = ((NormShared *)shared_memory())->rows;
    if (at.looked_up == at.patch) return;
    __syncthreads(); /* nobody reads of the patch before any more */
    if (threadIdx.x == 0) x = norm_rows_of<T>(program, n, program.patch[at.patch], half);
    __syncthreads();
    at.looked_up = at.patch;
}

/* Before the kernel in front has ended: where the block's first row lies, but for the half of the
 * workspace. */
template <class T> DEV NormAt norm_ahead(const sg_kernel_program &program, const sg_kernel_norm &n)
{
    NormAt at = {n.patch0, -1, blockIdx.x};
    if (norm_find(program, n, at)) norm_look_up<T>(program, n, at, 0);
    return at;
}

/* Behind its end: the half is known. */
DEV void norm_begin(const sg_kernel_program &program, const NormAt &at)
{
    NormRows &x = ((NormShared *)shared_memory())->rows;
    if (at.looked_up < 0 || x.second == 0) return;
    if (threadIdx.x == 0 && run_half(program) != 0) x.from.data += x.second;
    __syncthreads();
}

/* This block's rows of all patches that are FAST, or of those that are not.  Were there others? */
template <class T, bool FAST>
DEV bool norm_some(const sg_kernel_program &program, const sg_kernel_norm &n, NormAt at)
{
    NormShared &shared = *(NormShared *)shared_memory();
    const NormRows &x = shared.rows;
    const int half = run_half(program);
    int turn = 0;
    bool others = false;
#pragma unroll 1
    while (norm_find(program, n, at)) {
        norm_look_up<T>(program, n, at, half);
        others |= x.fast != FAST;
#pragma unroll 1
        for (; at.next < (uint32_t)x.rows; at.next += gridDim.x, turn ^= NORM_WARPS)
            if (x.fast == FAST) norm_row<T, FAST>(x, (int)at.next, shared.warp + turn);
    }
    return others;
}

/* All rows of a launch, dealt to the blocks in turn.  One behind the other: in one loop the
 * registers of both would cost a block beside this one its place. */
template <class T>
DEV void norm_all(const sg_kernel_program &program, const sg_kernel_norm &n, const NormAt &at)
{
    norm_begin(program, at);
    if (norm_some<T, true>(program, n, at))
        norm_some<T, false>(program, n, NormAt{n.patch0, -1, blockIdx.x});
}
