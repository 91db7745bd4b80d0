/* gemm_sm80.cu -- the product for GPUs from Ampere on: mma.sync, three stages filled by cp.async.
 *
 * 128 x 128 elements by 8 warps, 64 x 32 a warp; k in steps of 32.  A row of a stage is 64 bytes,
 * four units of 16, of which unit u stands at u ^ (row / 2 & 3): eight rows of one unit then lie in
 * eight different banks. */
#include "kernel/gemm_slow.cuh"

template <class Elem> struct Mma {
    typedef Elem T;
    enum {
        ROWS = 128,
        COLS = 128,
        SUMS = 64,
        STEP = 32,
        STAGES = 3,
        OPERAND = 128 * STEP * 2,
        SMEM = STAGES * 2 * OPERAND,
        WORDS = 0
    };

    static __device__ int row_of(int i);
    static __device__ int col_of(int i);
    static __device__ void multiply(const Part &part, float (&acc)[SUMS], char *smem);
};

/* Sum i: four of each 16 x 8 product, 4 across by 4 down. */
template <class Elem> __device__ __forceinline__ int Mma<Elem>::row_of(int i)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp / 4 * 64 + i / 16 * 16 + lane / 4 + (i & 2) * 4;
}

template <class Elem> __device__ __forceinline__ int Mma<Elem>::col_of(int i)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp % 4 * 32 + i / 4 % 4 * 8 + lane % 4 * 2 + (i & 1);
}

/* Where unit U of row ROW of an operand's stage is. */
DEV uint32_t unit_at(int row, int u)
{
    return row * 64 + (u ^ (row / 2 & 3)) * 16;
}

/* 128 rows x 32 of k from element K on; what lies beyond is zero. */
DEV void fill(uint32_t to, const char *from, int64_t pitch, int rows, int k, int k_end)
{
    for (int i = threadIdx.x; i < 128 * 4; i += SG_INSTANCE_THREADS) {
        const int row = i / 4, u = i % 4;
        const int64_t at = 2 * (int64_t)k + 16 * u, left = 2 * (int64_t)k_end - at;
        const int bytes = row < rows ? (left < 0 ? 0 : left < 16 ? (int)left : 16) : 0;
        cp_async16(to + unit_at(row, u), bytes ? from + row * pitch + at : from, bytes);
    }
}

template <class T> DEV void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void mma<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4],
                                                   uint32_t b0, uint32_t b1)
{
    mma_bf16(d, a, b0, b1);
}
template <>
__device__ __forceinline__ void mma<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1)
{
    mma_f16(d, a, b0, b1);
}

/* Products of one stage. */
template <class T> DEV void multiply_stage(float (&acc)[4][4][4], uint32_t a_at, uint32_t b_at)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        uint32_t a[4][4], b[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            ldmatrix4(a_at + unit_at(warp / 4 * 64 + i * 16 + (lane & 15), 2 * k + (lane >> 4)),
                      a[i]);
#pragma unroll
        for (int i = 0; i < 2; ++i)
            ldmatrix4(b_at + unit_at(warp % 4 * 32 + i * 16 + (lane & 7) + (lane >> 4) * 8,
                                     2 * k + (lane >> 3 & 1)),
                      b[i]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                mma<T>(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
}

template <class Elem>
__device__ __forceinline__ void Mma<Elem>::multiply(const Part &part, float (&acc)[SUMS],
                                                    char *smem)
{
    const uint32_t base = smem_addr(smem);
    float(&sums)[4][4][4] = *(float(*)[4][4][4]) & acc;
    const int steps = (part.k + STEP - 1) / STEP;
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < steps) {
            fill(base + s * 2 * OPERAND, part.a, part.a_pitch, part.rows, s * STEP, part.k);
            fill(base + s * 2 * OPERAND + OPERAND, part.b, part.b_pitch, part.cols, s * STEP,
                 part.k);
        }
        cp_async_commit();
    }
    for (int s = 0; s < steps; ++s) {
        cp_async_wait<STAGES - 2>();
        __syncthreads(); /* stage s is here, and stage s - 1 has been read by all */
        const int next = s + STAGES - 1;
        const uint32_t to = base + next % STAGES * 2 * OPERAND;
        if (next < steps) {
            fill(to, part.a, part.a_pitch, part.rows, next * STEP, part.k);
            fill(to + OPERAND, part.b, part.b_pitch, part.cols, next * STEP, part.k);
        }
        cp_async_commit();
        const uint32_t at = base + s % STAGES * 2 * OPERAND;
        multiply_stage<T>(sums, at, at + OPERAND);
    }
    cp_async_wait<0>();
    __syncthreads(); /* the next slab or part fills the stages anew */
}

const void *sg_instance_sm80(int type)
{
    if (type == SG_KERNEL_BF16) return (const void *)gemm_slow<Mma<__nv_bfloat16>>;
    if (type == SG_KERNEL_F16) return (const void *)gemm_slow<Mma<__half>>;
    return nullptr;
}
