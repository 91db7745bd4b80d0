/* fill.cu -- matrices of a benchmark, made and compared where they are: a matrix of gigabytes takes as
 * long as the memory needs for it, where the host would take seconds.
 *
 * A thread has a column: its factors stay in registers while it walks down a band of rows, whose
 * factors all threads of the block share. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernel/fill.h"
#include "kernel/kernel.h"

enum { THREADS = 256, BAND = 64, HELD = 10 };

template <typename T> static __device__ T of_float(float value);
template <> __device__ float of_float<float>(float value)
{
    return value;
}
template <> __device__ __nv_bfloat16 of_float<__nv_bfloat16>(float value)
{
    return __float2bfloat16_rn(value);
}
template <> __device__ __half of_float<__half>(float value)
{
    return __float2half_rn(value);
}

static __device__ bool same_bits(float a, float b)
{
    return __float_as_uint(a) == __float_as_uint(b);
}
static __device__ bool same_bits(__nv_bfloat16 a, __nv_bfloat16 b)
{
    return __bfloat16_as_ushort(a) == __bfloat16_as_ushort(b);
}
static __device__ bool same_bits(__half a, __half b)
{
    return __half_as_ushort(a) == __half_as_ushort(b);
}

template <typename T>
static __device__ T value_at(const sg_kernel_sums &sums, const int (&held)[HELD], int64_t row,
                             int64_t col)
{
    int sum = 0;
#pragma unroll
    for (int t = 0; t < HELD; t++)
        if (t < sums.terms) sum += sums.row[t * sums.rows + row] * held[t];
    for (int t = HELD; t < sums.terms; t++)
        sum += sums.row[t * sums.rows + row] * sums.col[t * sums.cols + col];
    if (sums.relu && sum < 0) sum = 0;
    return of_float<T>((float)sum);
}

/* Blocks: columns by x, bands of rows by y.  FOUND: compare, otherwise store. */
template <typename T>
static __global__ void sums_kernel(sg_kernel_sums sums, T *matrix, sg_kernel_differences *found)
{
    const int64_t col = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (col >= sums.cols) return;
    int held[HELD];
#pragma unroll
    for (int t = 0; t < HELD; t++) held[t] = t < sums.terms ? sums.col[t * sums.cols + col] : 0;
    unsigned long long count = 0;
    unsigned long long first = ~0ull;
    for (int64_t row0 = (int64_t)blockIdx.y * BAND; row0 < sums.rows;
         row0 += (int64_t)gridDim.y * BAND) {
        const int64_t end = row0 + BAND < sums.rows ? row0 + BAND : sums.rows;
        for (int64_t row = row0; row < end; row++) {
            const T value = value_at<T>(sums, held, row, col);
            const int64_t at = row * sums.cols + col;
            if (found == nullptr) {
                matrix[at] = value;
            } else if (!same_bits(matrix[at], value)) {
                if (count++ == 0) first = (unsigned long long)at;
            }
        }
    }
    if (count == 0) return;
    atomicAdd(&found->count, count);
    atomicMin(&found->first, first);
}

template <typename T>
static cudaError_t launch_sums(const sg_kernel_sums *sums, void *matrix,
                               sg_kernel_differences *found, cudaStream_t stream)
{
    const int64_t bands = (sums->rows + BAND - 1) / BAND;
    const dim3 grid((unsigned)((sums->cols + THREADS - 1) / THREADS),
                    (unsigned)(bands < 65535 ? bands : 65535));
    sums_kernel<T><<<grid, THREADS, 0, stream>>>(*sums, (T *)matrix, found);
    return cudaGetLastError();
}

static cudaError_t run_sums(const sg_kernel_sums *sums, void *matrix, sg_kernel_differences *found,
                            cudaStream_t stream)
{
    if (sums->rows == 0 || sums->cols == 0) return cudaSuccess;
    switch (sums->type) {
    case SG_KERNEL_BF16: return launch_sums<__nv_bfloat16>(sums, matrix, found, stream);
    case SG_KERNEL_F16: return launch_sums<__half>(sums, matrix, found, stream);
    default: return launch_sums<float>(sums, matrix, found, stream);
    }
}

cudaError_t sg_kernel_fill(const sg_kernel_sums *sums, void *matrix, cudaStream_t stream)
{
    return run_sums(sums, matrix, nullptr, stream);
}

cudaError_t sg_kernel_differ(const sg_kernel_sums *sums, const void *matrix,
                             sg_kernel_differences *found, cudaStream_t stream)
{
    return run_sums(sums, const_cast<void *>(matrix), found, stream);
}

/* ---- Normal values ----------------------------------------------------------------------------- */

/* Sixty-four random bits of a place: the finaliser of splitmix64. */
static __device__ uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* A sum of four uniform values is close enough. */
template <typename T> static __global__ void normal_kernel(T *matrix, int64_t count, uint64_t seed)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step) {
        const uint64_t x = mixed(seed ^ (uint64_t)i);
        const int sum =
            (int)(x & 0xffff) + (int)(x >> 16 & 0xffff) + (int)(x >> 32 & 0xffff) + (int)(x >> 48);
        matrix[i] = of_float<T>(((float)sum * 0x1p-16f - 2.0f) * 1.7320508f);
    }
}

template <typename T>
static cudaError_t launch_normal(void *matrix, int64_t count, uint64_t seed, cudaStream_t stream)
{
    enum { BLOCKS = 2048 };
    const int64_t blocks = (count + THREADS - 1) / THREADS;
    normal_kernel<T><<<(unsigned)(blocks < BLOCKS ? blocks : BLOCKS), THREADS, 0, stream>>>(
        (T *)matrix, count, seed);
    return cudaGetLastError();
}

cudaError_t sg_kernel_normal(int32_t type, void *matrix, int64_t count, uint64_t seed,
                             cudaStream_t stream)
{
    if (count == 0) return cudaSuccess;
    switch (type) {
    case SG_KERNEL_BF16: return launch_normal<__nv_bfloat16>(matrix, count, seed, stream);
    case SG_KERNEL_F16: return launch_normal<__half>(matrix, count, seed, stream);
    default: return launch_normal<float>(matrix, count, seed, stream);
    }
}
