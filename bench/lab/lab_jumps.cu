// What it costs to jump over code that does not run: a warp of each SM goes through SITES instructions that lie BYTES apart, twice, in the
// last of ten launches of the same kernel, which takes some or all of the SM's shared memory. Prints cycles from site to site, medians of
// the SMs, and of them the middle and the most of the sites.
//
//     lab_jumps
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

constexpr int LAUNCHES = 10, MOST = 64, PASSES = 2, KB[] = {0, 226};

static __device__ __forceinline__ uint32_t cycles() {
    uint32_t t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory");
    return t;
}

// From site AT on; what stands between them runs if NEVER says so.
template <int AT, int SITES, int BETWEEN> static __device__ __forceinline__ float visit(float x, float y, int never, uint32_t *when) {
    if (threadIdx.x == 0) when[AT] = cycles();
    if constexpr (AT < SITES) {
        if (never == AT + 1) {
#pragma unroll
            for (int i = 0; i < BETWEEN; ++i) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));
        }
        x = visit<AT + 1, SITES, BETWEEN>(x, y, never, when);
    }
    return x;
}

template <int SITES, int BETWEEN> static __global__ void jumps(uint32_t *out, float y, int never) {
    __shared__ uint32_t when[PASSES][MOST + 1];
    float x = y;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; ++pass) x = visit<0, SITES, BETWEEN>(x, y, never, when[pass]);
    __syncwarp();
    for (int i = threadIdx.x; i < PASSES * SITES; i += 32) {
        const uint32_t *w = when[i / SITES] + i % SITES;
        out[blockIdx.x * PASSES * SITES + i] = w[1] - w[0];
    }
    if (x == 12345.f) out[0] = 0;
}

static uint32_t middle(std::vector<uint32_t> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

template <int SITES, int BETWEEN> static int measure(int sms, uint32_t *out, int kb) {
    const int bytes = kb << 10;
    cudaFuncSetAttribute(jumps<SITES, BETWEEN>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    for (int i = 0; i < LAUNCHES; ++i) jumps<SITES, BETWEEN><<<sms, 32, bytes>>>(out, 1.0001f, 0);
    std::vector<uint32_t> all(sms * PASSES * SITES);
    const cudaError_t failed = cudaMemcpy(all.data(), out, 4 * all.size(), cudaMemcpyDeviceToHost);
    if (failed) return fprintf(stderr, "%s\n", cudaGetErrorString(failed)), 1;
    printf("%3d KB shared, %2d sites %5d bytes apart:", kb, SITES, BETWEEN * 16);
    for (int pass = 0; pass < PASSES; ++pass) {
        std::vector<uint32_t> site;
        for (int s = 0; s < SITES; ++s) {
            std::vector<uint32_t> one;
            for (int b = 0; b < sms; ++b) one.push_back(all[(b * PASSES + pass) * SITES + s]);
            site.push_back(middle(one));
        }
        printf("%s pass middle %4u most %4u", pass ? ", second" : " first", middle(site), *std::max_element(site.begin(), site.end()));
    }
    printf("\n");
    return 0;
}

int main() {
    int sms = 0;
    uint32_t *out;
    if (cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess) return 77;
    if (cudaMalloc(&out, 4 * sms * PASSES * MOST) != cudaSuccess) return 1;
    int failed = 0;
    for (int kb : KB)
        failed |= measure<12, 1280>(sms, out, kb) | measure<12, 1344>(sms, out, kb) | measure<24, 640>(sms, out, kb) | measure<24, 672>(sms, out, kb) |
                  measure<24, 800>(sms, out, kb) | measure<48, 80>(sms, out, kb) | measure<48, 320>(sms, out, kb) | measure<48, 328>(sms, out, kb) |
                  measure<48, 336>(sms, out, kb) | measure<48, 400>(sms, out, kb);
    return failed;
}
