/* fill.cu -- matrices of a benchmark, made and compared where they are: a matrix of gigabytes takes
 * as long as the memory needs for it, where the host would take seconds.
 *
 * A thread has a column: its factors stay in registers while it walks down a band of rows, whose
 * factors all threads of the block share. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernel/fill.h"
#include "kernel/kernel.h"

enum { THREADS = 256, BAND = 64, HELD = 10 };

/* What this launch is told, and not the last error of the thread, which may be the caller's. */
template <class... P, class... A>
static cudaError_t launch(void (*kernel)(P...), dim3 grid, cudaStream_t stream, const A &...args)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, args...);
}

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

static __device__ float as_float(float value)
{
    return value;
}
static __device__ float as_float(__nv_bfloat16 value)
{
    return __bfloat162float(value);
}
static __device__ float as_float(__half value)
{
    return __half2float(value);
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

/* Sixty-four random bits of a place: the finaliser of splitmix64. */
static __device__ uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static __device__ float drawn_at(const sg_kernel_drawn &drawn, int64_t at)
{
    const uint64_t span = 2 * (uint64_t)drawn.most + 1;
    return (float)((int)(mixed(drawn.key ^ (uint64_t)at) % span) - drawn.most);
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

/* As a norm leaves it: what C would hold and what stood there are rounded, their sum is, too. */
template <typename T>
static __device__ T residual_at(const sg_kernel_normed &n, int64_t row, int64_t col)
{
    int held[HELD];
#pragma unroll
    for (int t = 0; t < HELD; t++)
        held[t] = t < n.sums.terms ? n.sums.col[t * n.sums.cols + col] : 0;
    const T y = value_at<T>(n.sums, held, row, col);
    return of_float<T>(__fadd_rn(as_float(y), drawn_at(n.residual, row * n.sums.cols + col)));
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

/* For COUNT elements, a few each. */
static unsigned blocks_of(int64_t count)
{
    enum { BLOCKS = 2048 };
    const int64_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < BLOCKS ? blocks : BLOCKS);
}

template <typename T>
static cudaError_t launch_sums(const sg_kernel_sums *sums, void *matrix,
                               sg_kernel_differences *found, cudaStream_t stream)
{
    const int64_t bands = (sums->rows + BAND - 1) / BAND;
    const dim3 grid((unsigned)((sums->cols + THREADS - 1) / THREADS),
                    (unsigned)(bands < 65535 ? bands : 65535));
    return launch(sums_kernel<T>, grid, stream, *sums, (T *)matrix, found);
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

/* ---- What a norm leaves ---------------------------------------------------------------------- */

/* Written down as core/norm.h says it, not as the kernel that is looked at does it: a block has a
 * row, whose sums lie side by side and are added in pairs, distance by distance. */
template <typename T>
static __device__ float total_of(const sg_kernel_normed &n, int64_t row, float *lane)
{
    constexpr int DISTANCES = 11;
    constexpr int distance[DISTANCES] = {4, 2, 1, 128, 64, 32, 16, 8, 1024, 512, 256};
    for (int j = (int)threadIdx.x; j < SG_KERNEL_NORM_LANES; j += THREADS) {
        float sum = 0.0f;
        for (int64_t col = j; col < n.sums.cols; col += SG_KERNEL_NORM_LANES) {
            const float x = as_float(residual_at<T>(n, row, col));
            sum = __fadd_rn(sum, __fmul_rn(x, x));
        }
        lane[j] = sum;
    }
    __syncthreads();
    for (int i = 0; i < DISTANCES; i++) {
        for (int pair = (int)threadIdx.x; pair < SG_KERNEL_NORM_LANES / 2; pair += THREADS) {
            const int j = pair / distance[i] * 2 * distance[i] + pair % distance[i];
            lane[j] = __fadd_rn(lane[j], lane[j + distance[i]]);
        }
        __syncthreads();
    }
    return lane[0];
}

template <typename T>
static __global__ void normed_kernel(sg_kernel_normed n, const T *matrix,
                                     sg_kernel_differences *found)
{
    __shared__ float lane[SG_KERNEL_NORM_LANES];
    unsigned long long count = 0;
    unsigned long long first = ~0ull;
    for (int64_t row = blockIdx.x; row < n.sums.rows; row += gridDim.x) {
        const float mean = __fdiv_rn(total_of<T>(n, row, lane), (float)n.sums.cols);
        const float scale = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, n.epsilon)));
        for (int64_t col = threadIdx.x; col < n.sums.cols; col += THREADS) {
            const T x = residual_at<T>(n, row, col);
            const float scaled = __fmul_rn(__fmul_rn(as_float(x), scale), n.gain[col]);
            const int64_t at = row * n.sums.cols + col;
            if (same_bits(matrix[at], n.of_residual ? x : of_float<T>(scaled))) continue;
            if (count++ == 0) first = (unsigned long long)at;
        }
        __syncthreads(); /* the total is read before the next row's sums are stored */
    }
    if (count == 0) return;
    atomicAdd(&found->count, count);
    atomicMin(&found->first, first);
}

template <typename T>
static cudaError_t launch_normed(const sg_kernel_normed *n, const void *matrix,
                                 sg_kernel_differences *found, cudaStream_t stream)
{
    enum { BLOCKS = 65536 };
    const int64_t rows = n->sums.rows;
    return launch(normed_kernel<T>, dim3((unsigned)(rows < BLOCKS ? rows : BLOCKS)), stream, *n,
                  (const T *)matrix, found);
}

cudaError_t sg_kernel_differ_normed(const sg_kernel_normed *n, const void *matrix,
                                    sg_kernel_differences *found, cudaStream_t stream)
{
    if (n->sums.rows == 0 || n->sums.cols == 0) return cudaSuccess;
    switch (n->sums.type) {
    case SG_KERNEL_BF16: return launch_normed<__nv_bfloat16>(n, matrix, found, stream);
    case SG_KERNEL_F16: return launch_normed<__half>(n, matrix, found, stream);
    default: return launch_normed<float>(n, matrix, found, stream);
    }
}

/* ---- Drawn values ---------------------------------------------------------------------------- */

template <typename T>
static __global__ void drawn_kernel(sg_kernel_drawn drawn, T *matrix, int64_t count)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
        matrix[i] = of_float<T>(drawn_at(drawn, i));
}

template <typename T>
static cudaError_t launch_drawn(const sg_kernel_drawn *drawn, void *matrix, int64_t count,
                                cudaStream_t stream)
{
    return launch(drawn_kernel<T>, dim3(blocks_of(count)), stream, *drawn, (T *)matrix, count);
}

cudaError_t sg_kernel_draw(int32_t type, const sg_kernel_drawn *drawn, void *matrix, int64_t count,
                           cudaStream_t stream)
{
    if (count == 0) return cudaSuccess;
    switch (type) {
    case SG_KERNEL_BF16: return launch_drawn<__nv_bfloat16>(drawn, matrix, count, stream);
    case SG_KERNEL_F16: return launch_drawn<__half>(drawn, matrix, count, stream);
    default: return launch_drawn<float>(drawn, matrix, count, stream);
    }
}

/* ---- Normal values --------------------------------------------------------------------------- */

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
    return launch(normal_kernel<T>, dim3(blocks_of(count)), stream, (T *)matrix, count, seed);
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
