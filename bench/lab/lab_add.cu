/* lab_add.cu -- what the bulk engine makes of a + b where a lies in memory and b in a tile that is
 * added onto it (cp.reduce.async.bulk.tensor): the same bits as math, which adds in f32 and rounds
 * once?  Every a of 16 bits with 1024 values of b, of bf16 and of f16, at home and, with two GPUs,
 * in the other one's memory.
 *
 *     lab_add        prints how many sums differ, and the first of them
 */
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "kernel/ptx.cuh"

enum { ROWS = 64, COLS = 64, ALL = 65536, TURNS = 16 };

static void need(bool ok, const char *what)
{
    if (ok) return;
    printf("lab_add: %s\n", what);
    exit(1);
}

/* Row Y of the matrix holds a; column X of the tile holds b. */
__global__ void add_all(const __grid_constant__ CUtensorMap map, const uint16_t *b)
{
    __shared__ alignas(1024) uint16_t tile[ROWS * COLS];
    for (int i = threadIdx.x; i < ROWS * COLS; i += blockDim.x) tile[i] = b[i % COLS];
    proxy_fence_shared();
    __syncthreads();
    if (threadIdx.x > 0) return;
    tma_store(&map, 0, blockIdx.x * ROWS, 0, smem_addr(tile), true);
    bulk_commit();
    bulk_wait<0>();
}

template <class T> static float to_f32(uint16_t bits)
{
    T x;
    memcpy(&x, &bits, sizeof x);
    return (float)x;
}

template <class T> static uint16_t rounded(float x)
{
    const T t = T(x);
    uint16_t bits;
    memcpy(&bits, &t, sizeof bits);
    return bits;
}

static CUtensorMap map_of(void *data, CUtensorMapDataType type)
{
    CUtensorMap map;
    const cuuint64_t size[3] = {COLS, ALL, 1}, stride[2] = {COLS * 2, (cuuint64_t)ALL * COLS * 2};
    const cuuint32_t box[3] = {COLS, ROWS, 1}, step[3] = {1, 1, 1};
    need(cuTensorMapEncodeTiled(&map, type, 3, data, size, stride, box, step,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS,
         "no map");
    return map;
}

/* Sums of turn TURN that are not T's; NaNs, whose digits mean nothing, apart. */
template <class T>
static void compare(const std::vector<uint16_t> &sum, const std::vector<uint16_t> &b, long *wrong,
                    long *nans)
{
    for (size_t i = 0; i < sum.size(); ++i) {
        const uint16_t a = (uint16_t)(i / COLS), more = b[i % COLS];
        const float want = to_f32<T>(a) + to_f32<T>(more);
        const uint16_t bits = rounded<T>(want);
        if (sum[i] == bits) continue;
        if (isnan(want) && isnan(to_f32<T>(sum[i])))
            ++*nans;
        else if (++*wrong <= 4)
            printf("  %04x + %04x is %04x, expected %04x\n", a, more, sum[i], bits);
    }
}

template <class T>
static void run(const char *name, CUtensorMapDataType type, uint16_t *memory, const char *where)
{
    std::vector<uint16_t> a((size_t)ALL * COLS), b(COLS), sum(a.size());
    for (size_t i = 0; i < a.size(); ++i) a[i] = (uint16_t)(i / COLS);
    uint16_t *tile;
    need(cudaMalloc(&tile, COLS * 2) == cudaSuccess, "no memory");
    const CUtensorMap map = map_of(memory, type);
    long wrong = 0, nans = 0;
    uint32_t state = 1;
    for (int turn = 0; turn < TURNS; ++turn) {
        for (int i = 0; i < COLS; ++i) {
            static const uint16_t odd[] = {0,      0x8000, 1,      0x8001, 0x7f,   0x80,
                                           0x3ff,  0x400,  0x7c00, 0xfc00, 0x7bff, 0x7f80,
                                           0xff80, 0x7f7f, 0x3f80, 0x3c00, 0x7fff, 0x7e00};
            state = state * 1664525 + 1013904223;
            const bool special = turn == 0 && i < (int)(sizeof odd / sizeof odd[0]);
            b[i] = special ? odd[i] : (uint16_t)(state >> 16);
        }
        const size_t bytes = a.size() * 2;
        cudaMemcpy(memory, a.data(), bytes, cudaMemcpyHostToDevice);
        cudaMemcpy(tile, b.data(), COLS * 2, cudaMemcpyHostToDevice);
        add_all<<<ALL / ROWS, 128>>>(map, tile);
        need(cudaDeviceSynchronize() == cudaSuccess, "the kernel failed");
        cudaMemcpy(sum.data(), memory, bytes, cudaMemcpyDeviceToHost);
        compare<T>(sum, b, &wrong, &nans);
    }
    printf("%s %s: %ld of %ld sums differ, and %ld NaNs\n", name, where, wrong,
           (long)ALL * COLS * TURNS, nans);
    cudaFree(tile);
}

int main(void)
{
    int devices = 0;
    need(cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0, "no GPU");
    for (int d = 0; d < devices && d < 2; ++d) {
        uint16_t *memory;
        cudaSetDevice(d);
        need(cudaMalloc(&memory, (size_t)ALL * COLS * 2) == cudaSuccess, "no memory");
        cudaSetDevice(0);
        if (d > 0) need(cudaDeviceEnablePeerAccess(d, 0) == cudaSuccess, "no way to the peer");
        const char *where = d == 0 ? "at home" : "at the peer";
        run<__nv_bfloat16>("bf16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, memory, where);
        run<__half>("f16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16, memory, where);
    }
    return 0;
}
