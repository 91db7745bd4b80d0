// Test data, references and comparisons, all on the GPU.
#pragma once
#include "host.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

enum Data { NORMAL, INTEGER };  // INTEGER: -1, 0, 1, so that every sum is exact and results compare bit by bit

static __device__ __forceinline__ uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull, x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

template <class T> __global__ void fill(T *out, int64_t count, uint64_t seed, Data kind) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64_t)blockDim.x) {
        uint64_t r = mix(i * 0x100000001b3ull + seed);
        float u = ((uint32_t)(r >> 32) + 1.f) * 0x1p-32f, w = (uint32_t)r * 0x1p-32f;
        out[i] = (T)(kind == INTEGER ? (float)((int)(r % 3) - 1) : sqrtf(-2 * logf(fminf(u, 1.f))) * cospif(2 * w));
    }
}

static void fill_run(int type, void *out, int64_t count, uint64_t seed, Data kind, cudaStream_t stream = 0) {
    if (type == TYPE_F16) fill<<<1024, 256, 0, stream>>>((__half *)out, count, seed, kind);
    else fill<<<1024, 256, 0, stream>>>((__nv_bfloat16 *)out, count, seed, kind);
    CHECK(cudaGetLastError());
}

// Plain f32 product, one thread per element: slow, obvious, exact on integers.
template <class T> __global__ void reference(const T *A, const T *B, float *C, int m, int n, int depth) {
    __shared__ float a[32][33], b[32][33];
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x, brow = blockIdx.x * 32 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < depth; k += 32) {
        int at = k + threadIdx.x;
        a[threadIdx.y][threadIdx.x] = row < m && at < depth ? (float)A[(int64_t)row * depth + at] : 0.f;
        b[threadIdx.y][threadIdx.x] = brow < n && at < depth ? (float)B[(int64_t)brow * depth + at] : 0.f;
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += a[threadIdx.y][i] * b[threadIdx.x][i];
        __syncthreads();
    }
    if (row < m && col < n) C[(int64_t)row * n + col] = sum;
}

struct Verdict {
    double error2, norm2;
    unsigned long long wrong;  // elements that differ in bits from the rounded reference
};

template <class T, class R> __global__ void compare(const T *got, const R *want, int64_t count, Verdict *out) {
    double error = 0, norm = 0;
    unsigned long long wrong = 0;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64_t)blockDim.x) {
        float w = (float)want[i], g = (float)got[i], d = g - w;
        error += (double)d * d, norm += (double)w * w;
        wrong += !((float)(T)w == g);
    }
    for (int s = 16; s; s /= 2) {
        error += __shfl_xor_sync(~0u, error, s), norm += __shfl_xor_sync(~0u, norm, s), wrong += __shfl_xor_sync(~0u, wrong, s);
    }
    if (threadIdx.x % 32 == 0) atomicAdd(&out->error2, error), atomicAdd(&out->norm2, norm), atomicAdd(&out->wrong, wrong);
}

template <class T, class R> static Verdict verdict(const T *got, const R *want, int64_t count, cudaStream_t stream = 0) {
    static thread_local Verdict *v = nullptr;  // one per thread: each drives its own GPU
    if (!v) CHECK(cudaMalloc(&v, sizeof *v));
    Verdict host;
    CHECK(cudaMemsetAsync(v, 0, sizeof *v, stream));
    compare<<<512, 256, 0, stream>>>(got, want, count, v);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(&host, v, sizeof host, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return host;
}

// Sampled dot products in f64 against what was stored: an oracle that shares nothing with any library.
static __global__ void sampled(const __nv_bfloat16 *A, const __nv_bfloat16 *B, const __nv_bfloat16 *C, int m, int n, int depth, int samples,
                               uint64_t seed, double *error2, double *norm2) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= samples) return;
    int64_t row = mix(seed + 2 * warp) % m, col = mix(seed + 2 * warp + 1) % n;
    double sum = 0;
    for (int k = lane; k < depth; k += 32) sum += (double)(float)A[row * depth + k] * (double)(float)B[col * depth + k];
    for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
    if (lane == 0) {
        double d = (double)(float)C[row * n + col] - sum;
        atomicAdd(error2, d * d), atomicAdd(norm2, sum * sum);
    }
}
