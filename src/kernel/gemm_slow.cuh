/* gemm_slow.cuh -- carries out a launch on any GPU: any tile, any addends, any alignment.
 *
 * A block takes visits round robin in list order and cuts each tile into parts of M::ROWS x M::COLS.
 * M says how a part is multiplied and which elements of it a thread holds:
 *
 *     gemm_any.cu    f32 arithmetic, element by element
 *     gemm_sm80.cu   mma.sync from stages filled by cp.async
 *
 * One thread waits for flags, then a barrier; a barrier, then one thread raises.  Neither way of
 * loading goes through the asynchronous proxy, and none through the L1. */
#pragma once
#include "kernel/device.cuh"
#include "kernel/instance.h"

typedef sg_kernel_gemm_param Param;

/* The operands of a part over one slab of k. */
struct Part {
    const char *a, *b; /* first element */
    int64_t a_pitch, b_pitch;
    int rows, cols, k;
};

struct Visit {
    const sg_patch *p;
    int band, col, tile;    /* of the patch */
    int row, rows, x, cols; /* in the patch */
};

DEV Visit visit_find(const Param &P, int visit)
{
    const sg_patch *p = P.program.patch + P.patch0;
    int bands = sg_walk_bands(p, P.tile_m), cols = sg_walk_cols(p, P.tile_n);
    while (visit >= bands * cols) {
        visit -= bands * cols, ++p;
        bands = sg_walk_bands(p, P.tile_m), cols = sg_walk_cols(p, P.tile_n);
    }
    Visit v;
    v.p = p;
    sg_walk_tile(p, bands, cols, visit, &v.band, &v.col);
    v.tile = v.band * cols + v.col;
    v.row = v.band * P.tile_m, v.x = v.col * P.tile_n;
    v.rows = sg_walk_min(P.tile_m, p->rows - v.row), v.cols = sg_walk_min(P.tile_n, p->cols - v.x);
    return v;
}

/* Every thread of the block calls these. */
DEV void wait_flags(const Param &P, const sg_wait *wait, int waits, const Visit &v, int k,
                    uint64_t epoch, int visit)
{
    for (int i = 0; threadIdx.x == 0 && i < waits; ++i) {
        const sg_flags f = sg_walk_wait(&wait[i], v.p->row0 + v.row, v.rows, k, v.tile);
        for (int j = 0; j < f.count; ++j)
            flag_wait(P.program.rank, wait[i].by, f.first + j * f.step, epoch, P.step, visit);
    }
    __syncthreads();
}

DEV char *element(const sg_kernel_place &place, int half, int64_t row, int64_t col, int bytes)
{
    return (char *)place.data[half] + row * place.pitch + col * (place.wide ? 4 : bytes);
}

template <class T> DEV float load_element(const sg_kernel_place &place, const char *at)
{
    if (place.wide) return __ldcg((const float *)at);
    return to_float(*(const volatile T *)at);
}
template <>
__device__ __forceinline__ float load_element<__nv_bfloat16>(const sg_kernel_place &place,
                                                             const char *at)
{
    if (place.wide) return __ldcg((const float *)at);
    return __uint_as_float((uint32_t)__ldcg((const unsigned short *)at) << 16);
}
template <>
__device__ __forceinline__ float load_element<__half>(const sg_kernel_place &place, const char *at)
{
    if (place.wide) return __ldcg((const float *)at);
    return __half2float(__ushort_as_half(__ldcg((const unsigned short *)at)));
}
template <>
__device__ __forceinline__ float load_element<float>(const sg_kernel_place &, const char *at)
{
    return __ldcg((const float *)at);
}

template <class T> DEV void store_element(const sg_kernel_place &place, char *at, float v)
{
    if (place.wide)
        *(float *)at = v;
    else
        *(T *)at = from_float<T>(v);
}

/* Adds, finishes and stores element (ROW, COL) of the patch; OWN is its product.  MAY: a bit for each
 * area that may be stored to. */
template <class T>
DEV void finish_element(const Param &P, const sg_patch &p, int half, uint64_t may, int row, int col,
                        float own)
{
    const sg_kernel_program &program = P.program;
    const bool product = p.k0 < p.k1;
    float sum = product && p.own_at == 0 ? own : -0.f;
    for (int i = 0; i < p.adds; ++i) {
        const sg_area &area = program.add[p.add0 + i].area;
        const sg_kernel_place &place = program.place[area.buf];
        sum += load_element<T>(place,
                               element(place, half, area.row0 + row, area.col0 + col, sizeof(T)));
        if (product && i + 1 == p.own_at) sum += own;
    }
    if (!product && p.adds == 0) sum = 0.f;
    if (p.final) {
        if (program.bias != nullptr) sum += to_float(((const T *)program.bias)[p.col0 + col]);
        sum = activate<sizeof(T) == 4>(program.act, sum);
    }
    for (int i = 0; i < p.tos; ++i) {
        if (!(may >> i & 1)) continue;
        const sg_area &area = program.to[p.to0 + i];
        const sg_kernel_place &place = program.place[area.buf];
        store_element<T>(place, element(place, half, area.row0 + row, area.col0 + col, sizeof(T)),
                         sum);
    }
}

/* One part of a visit: product over all slabs, then every element. */
template <class M>
DEV void carry_out_part(const Param &P, const Visit &v, int i0, int j0, int half, uint64_t epoch,
                        int visit, uint64_t may, char *smem)
{
    typedef typename M::T T;
    const sg_patch &p = *v.p;
    const sg_kernel_place &a = P.program.place[p.a.buf], &b = P.program.place[p.b.buf];
    float acc[M::SUMS];
#pragma unroll
    for (int i = 0; i < M::SUMS; ++i) acc[i] = 0.f;
    const int slabs = sg_walk_slabs(&p);
    for (int s = 0; s < slabs; ++s) {
        const int k0 = p.k0 + s * p.slab;
        const int k1 = s + 1 < slabs ? k0 + p.slab : p.k1;
        wait_flags(P, P.program.wait + p.wait0, p.waits, v, k0, epoch, visit);
        if (k0 >= k1) continue;
        const Part part = {element(a, half, p.a.row0 + v.row + i0, p.a.col0 + k0 - p.k0, sizeof(T)),
                           element(b, half, p.b.row0 + v.x + j0, p.b.col0 + k0 - p.k0, sizeof(T)),
                           a.pitch,
                           b.pitch,
                           sg_walk_min(M::ROWS, v.rows - i0),
                           sg_walk_min(M::COLS, v.cols - j0),
                           k1 - k0};
        M::multiply(part, acc, smem);
    }
    for (int i = 0; i < p.adds; ++i) {
        const sg_addend &add = P.program.add[p.add0 + i];
        wait_flags(P, &add.wait, add.waits, v, p.k0, epoch, visit);
    }
#pragma unroll
    for (int i = 0; i < M::SUMS; ++i) {
        const int row = i0 + M::row_of(i), col = j0 + M::col_of(i);
        if (row < v.rows && col < v.cols)
            finish_element<T>(P, p, half, may, v.row + row, v.x + col, acc[i]);
    }
    __syncthreads();
}

template <class M>
__global__ void __launch_bounds__(SG_INSTANCE_THREADS) gemm_slow(const __grid_constant__ Param P)
{
    __shared__ __align__(128) char smem[M::SMEM];
    uint64_t *allowed = (uint64_t *)smem; /* between two visits nothing else is there */
    sg_kernel_rank *rank = P.program.rank;
    const uint64_t epoch = rank ? rank->epoch : 0;
    const int half = rank ? rank->half : 0;
    for (int visit = blockIdx.x; visit < P.units; visit += gridDim.x) {
        const Visit v = visit_find(P, visit);
        const sg_patch &p = *v.p;
        if (threadIdx.x == 0) {
            *allowed = ~0ull;
            for (int i = 0; P.leaves && i < p.tos; ++i) {
                const sg_area &to = P.program.to[p.to0 + i];
                if (to.leave && !hello_wait(rank, to.rank, epoch, SG_KERNEL_STUCK_LEAVE, P.step))
                    *allowed &= ~(1ull << i);
            }
        }
        __syncthreads();
        const uint64_t may = *allowed;
        __syncthreads();
        for (int i = 0; i < v.rows; i += M::ROWS)
            for (int j = 0; j < v.cols; j += M::COLS)
                carry_out_part<M>(P, v, i, j, half, epoch, visit, may, smem);
        /* carry_out_part ends with a barrier: all of the tile is stored.  The raise is a release of
         * what this thread has seen, and that includes it. */
        for (int i = 0; threadIdx.x == 0 && i < p.raises; ++i) {
            const sg_raise &r = P.program.raise[p.raise0 + i];
            raise_one(P.program, r, r.per == SG_PER_BAND ? v.band : v.tile, epoch);
        }
    }
}
