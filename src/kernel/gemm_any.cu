/* gemm_any.cu -- the product that serves what nothing else does: f32, odd alignment, odd tiles. */
#include "kernel/gemm_slow.cuh"

template <class T> DEV float load_one(const char *from)
{
    float v;
    load_lump<T, 1>(from, &v);
    return v;
}

/* 64 x 64 elements, 4 x 4 a thread, k in steps of 16 through shared memory. */
template <class Elem> struct Any {
    typedef Elem T;
    enum { ROWS = 64, COLS = 64, SUMS = 16, STEP = 16, PITCH = 68, SMEM = 2 * STEP * PITCH * 4 };
    enum { WORDS = sizeof(Elem) == 2 };

    static __device__ int row_of(int i);
    static __device__ int col_of(int i);
    static __device__ void multiply(const Part &part, float (&acc)[SUMS], char *smem);
};

template <class Elem> __device__ __forceinline__ int Any<Elem>::row_of(int i)
{
    return threadIdx.x / 16 * 4 + i / 4;
}

template <class Elem> __device__ __forceinline__ int Any<Elem>::col_of(int i)
{
    return threadIdx.x % 16 * 4 + i % 4;
}

template <class Elem>
__device__ __forceinline__ void Any<Elem>::multiply(const Part &part, float (&acc)[SUMS],
                                                    char *smem)
{
    float(*a)[PITCH] = (float(*)[PITCH])smem, (*b)[PITCH] = a + STEP;
    for (int k = 0; k < part.k; k += STEP) {
        for (int i = threadIdx.x; i < ROWS * STEP; i += SG_INSTANCE_THREADS) {
            const int row = i / STEP, x = k + i % STEP;
            const bool in = x < part.k;
            a[i % STEP][row] =
                in && row < part.rows
                    ? load_one<T>(part.a + row * part.a_pitch + x * (int64_t)sizeof(T))
                    : 0.f;
            b[i % STEP][row] =
                in && row < part.cols
                    ? load_one<T>(part.b + row * part.b_pitch + x * (int64_t)sizeof(T))
                    : 0.f;
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < STEP; ++s) {
            float x[4], y[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = a[s][row_of(4 * i)], y[i] = b[s][col_of(i)];
#pragma unroll
            for (int i = 0; i < 16; ++i) acc[i] = fmaf(x[i / 4], y[i % 4], acc[i]);
        }
        __syncthreads();
    }
}

const void *sg_instance_any(int type)
{
    if (type == SG_KERNEL_BF16) return (const void *)gemm_slow<Any<__nv_bfloat16>>;
    if (type == SG_KERNEL_F16) return (const void *)gemm_slow<Any<__half>>;
    return (const void *)gemm_slow<Any<float>>;
}
