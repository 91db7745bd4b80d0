// Which reads of the same lines by several SMs the L2 sees once. Blocks of all SMs read boxes of 64 rows x 128 bytes, twelve deep, each its
// own group's rows; a case says which SMs form a group. Sectors that reach the L2 come from the profiler, in the order of the CASE lines:
//
//     ncu --clock-control none --cache-control none --metrics lts__t_sectors_op_read.sum -k regex:reader lab_coalescer
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <algorithm>
#include <map>
#define CHECK(x) do { int e_ = (int)(x); if (e_) { printf("%s:%d %d\n", __FILE__, __LINE__, e_); exit(1); } } while (0)
#define DEV static __device__ __forceinline__
DEV uint32_t smid() { uint32_t r; asm volatile("mov.u32 %0, %%smid;" : "=r"(r)); return r; }
DEV void mbar_init(uint32_t b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory"); }
DEV void mbar_expect(uint32_t b, uint32_t n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(n) : "memory"); }
DEV bool mbar_try(uint32_t b, uint32_t p) { uint32_t d; asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(d) : "r"(b), "r"(p) : "memory"); return d; }
template <bool HINT> DEV void load(uint32_t to, const CUtensorMap *m, int x, int y, uint32_t bar) {
    if (HINT)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(m), "r"(x), "r"(y), "r"(bar), "l"(0x1000000000000000ull) : "memory");
    else
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(m), "r"(x), "r"(y), "r"(bar) : "memory");
}
template <bool HINT> DEV void load_mc(uint32_t to, const CUtensorMap *m, int x, int y, uint32_t bar, uint16_t mask) {
    if (HINT)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(to), "l"(m), "r"(x), "r"(y), "r"(bar), "h"(mask), "l"(0x1000000000000000ull) : "memory");
    else
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(m), "r"(x), "r"(y), "r"(bar), "h"(mask) : "memory");
}
struct Table { int16_t group[160]; int16_t late[160]; };
constexpr int STAGES = 12;
// ROWS 64 boxes of 8 KB; MC: cluster of 2, each loads 32 rows for both.
template <bool HINT, bool MC> __global__ void __launch_bounds__(32, 1) reader(const __grid_constant__ CUtensorMap map, const __grid_constant__ Table t, unsigned *gate, unsigned target, int iters, int pace, int depth) {
    extern __shared__ __align__(1024) uint8_t raw[];
    __shared__ uint64_t bars[STAGES];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(raw) + 1023) & ~1023u, bar = (uint32_t)__cvta_generic_to_shared(bars);
    const uint32_t sm = smid();
    uint32_t rank = 0;
    if (MC) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) mbar_init(bar + 8 * i, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (MC) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        atomicAdd(gate, 1);
        while (*(volatile unsigned *)gate < target) {}
        const long long start = clock64();
        while (clock64() - start < t.late[sm]) {}
        const int row = t.group[MC ? sm / 2 * 2 : sm] * 64;
        long long due = clock64();
        for (int i = 0; i < iters + depth; ++i) {
            const int s2 = i % STAGES;
            if (i >= depth) {
                const int j = (i - depth) % STAGES;
                while (!mbar_try(bar + 8 * j, ((i - depth) / STAGES) & 1)) {}
            }
            if (i < iters) {
                if (pace) { while (clock64() < due) {} due += pace; }
                mbar_expect(bar + 8 * s2, 8192);
                const int x = (i % 16) * 64;
                if (MC) load_mc<HINT>(base + s2 * 8192 + rank * 4096, &map, x, row + 32 * (int)rank, bar + 8 * s2, 3);
                else load<HINT>(base + s2 * 8192, &map, x, row, bar + 8 * s2);
            }
        }
    }
    __syncwarp();
    if (MC) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__global__ void where(int *out, int *block_of, unsigned *gate, unsigned target) {
    uint32_t c; asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(c));
    if (threadIdx.x == 0) { out[blockIdx.x] = smid(); block_of[blockIdx.x] = c; }
    // hold the SM until all are there, so that every SM is used
    if (threadIdx.x == 0) { atomicAdd(gate, 1); long long s = clock64(); while (*(volatile unsigned *)gate < target && clock64() - s < 2000000) {} }
}
static int parent[160];
static int find(int x) { return parent[x] == x ? x : parent[x] = find(parent[x]); }
int main() {
    unsigned *gate; int *out, *cl;
    CHECK(cudaMalloc(&gate, 4)); CHECK(cudaMalloc(&out, 4096)); CHECK(cudaMalloc(&cl, 4096));
    for (int i = 0; i < 160; ++i) parent[i] = i;
    CHECK(cudaFuncSetAttribute(where, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    CHECK(cudaFuncSetAttribute(where, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    for (int size : {16, 8, 6, 4, 2, 1}) {
        int most = 0;
        cudaLaunchConfig_t c = {}; cudaLaunchAttribute a[1];
        a[0].id = cudaLaunchAttributeClusterDimension; a[0].val.clusterDim.x = size; a[0].val.clusterDim.y = a[0].val.clusterDim.z = 1;
        c.gridDim = dim3(size); c.blockDim = dim3(32); c.dynamicSmemBytes = 200 << 10; c.attrs = a; c.numAttrs = 1;
        if (cudaOccupancyMaxActiveClusters(&most, where, &c) != cudaSuccess) { printf("clusters of %d: no\n", size); cudaGetLastError(); continue; }
        c.gridDim = dim3(size * most);
        CHECK(cudaMemset(gate, 0, 4));
        cudaError_t e = cudaLaunchKernelEx(&c, where, out, cl, gate, (unsigned)(size * most));
        if (e != cudaSuccess) { printf("clusters of %d: %s\n", size, cudaGetErrorString(e)); cudaGetLastError(); continue; }
        CHECK(cudaDeviceSynchronize());
        std::vector<int> h(size * most);
        CHECK(cudaMemcpy(h.data(), out, 4 * h.size(), cudaMemcpyDeviceToHost));
        printf("clusters of %d: %d at once; SMs of blocks:", size, most);
        for (size_t i = 0; i < h.size(); ++i) {
            printf(i % size ? " %d" : " | %d", h[i]);
            parent[find(h[i])] = find(h[i / size * size]);
        }
        printf("\n");
    }
    std::map<int, int> number; std::vector<int> gpc(160, 0), pos(160, 0), count(16, 0);
    for (int i = 0; i < 132; ++i) {
        if (!number.count(find(i))) { int n = (int)number.size(); number[find(i)] = n; }
        gpc[i] = number[find(i)]; pos[i] = count[gpc[i] & 15]++;
    }
    printf("GPCs: %zu; of SM:", number.size());
    for (int i = 0; i < 132; ++i) printf(" %d", gpc[i]);
    printf("\n");
    // data: 160 groups of 64 rows x 1024 columns: 20 MB
    void *data; const int rows = 160 * 64, cols = 1024;
    CHECK(cudaMalloc(&data, (size_t)rows * cols * 2)); CHECK(cudaMemset(data, 1, (size_t)rows * cols * 2));
    void *fn; cudaDriverEntryPointQueryResult r;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, cudaEnableDefault, &r));
    auto encode = (CUresult(*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))fn;
    auto make = [&](int box_rows, CUtensorMapL2promotion p) {
        CUtensorMap m; cuuint64_t size[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * 2}; cuuint32_t box[2] = {64, (cuuint32_t)box_rows}, step[2] = {1, 1};
        CHECK(encode(&m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, p, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
        return m;
    };
    const auto P256 = CU_TENSOR_MAP_L2_PROMOTION_L2_256B, P128 = CU_TENSOR_MAP_L2_PROMOTION_L2_128B, P0 = CU_TENSOR_MAP_L2_PROMOTION_NONE;
    cudaEvent_t e0, e1; CHECK(cudaEventCreate(&e0)); CHECK(cudaEventCreate(&e1));
    const int iters = 1024, smem = STAGES * 8192 + 1024;
    auto run = [&](const char *what, auto kernel, bool mc, CUtensorMapL2promotion promo, auto group, auto late, int pace, int depth) {
        Table t = {};
        for (int i = 0; i < 132; ++i) t.group[i] = (int16_t)group(i), t.late[i] = (int16_t)late(i);
        CUtensorMap m = make(mc ? 32 : 64, promo);
        cudaLaunchConfig_t c = {}; cudaLaunchAttribute a[1];
        a[0].id = cudaLaunchAttributeClusterDimension; a[0].val.clusterDim.x = 2; a[0].val.clusterDim.y = a[0].val.clusterDim.z = 1;
        c.gridDim = dim3(132); c.blockDim = dim3(32); c.dynamicSmemBytes = smem + (100 << 10); c.attrs = a; c.numAttrs = mc ? 1 : 0;
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)c.dynamicSmemBytes));
        CHECK(cudaMemset(gate, 0, 4));
        CHECK(cudaEventRecord(e0));
        CHECK(cudaLaunchKernelEx(&c, kernel, m, t, gate, 132u, iters, pace, depth));
        CHECK(cudaEventRecord(e1)); CHECK(cudaEventSynchronize(e1));
        float ms; CHECK(cudaEventElapsedTime(&ms, e0, e1));
        printf("CASE %-44s pace %4d depth %2d  %8.1f us  %6.1f GB/s a SM  full sectors %.3f M\n", what, pace, depth, ms * 1000, 8192.0 * iters / ms * 1e-6, 132.0 * iters * 256 / 1e6 / (mc ? 2 : 1));
    };
    auto none = [](int) { return 0; };
    auto alone = [](int i) { return i; };
    auto all = [](int) { return 3; };
    auto by_gpc = [&](int i) { return gpc[i]; };
    auto by_tpc = [](int i) { return i / 2; };
    auto by_pos = [&](int i) { return pos[i]; };
    auto cpc6 = [&](int i) { return gpc[i] * 4 + pos[i] / 6; };
    auto two = [&](int i) { return gpc[i] * 16 + pos[i] % 9; };      // two SMs of a GPC share, 9 apart
    auto four = [&](int i) { return gpc[i] * 16 + pos[i] / 2 % 4; };  // pairs of TPC + others
    const auto H = reader<true, false>, N = reader<false, false>, HM = reader<true, true>, NM = reader<false, true>;
    run("warm up", N, false, P256, alone, none, 0, 8);
    for (int pace : {0, 400}) {
        run("hint 256 alone", H, false, P256, alone, none, pace, 8);
        run("hint 256 all", H, false, P256, all, none, pace, 8);
        run("no hint 256 all", N, false, P256, all, none, pace, 8);
        run("no hint 128 all", N, false, P128, all, none, pace, 8);
        run("no hint 0 all", N, false, P0, all, none, pace, 8);
        run("no hint 256 tpc", N, false, P256, by_tpc, none, pace, 8);
        run("no hint 256 gpc", N, false, P256, by_gpc, none, pace, 8);
        run("hint 256 gpc", H, false, P256, by_gpc, none, pace, 8);
        run("no hint 256 position in gpc", N, false, P256, by_pos, none, pace, 8);
        run("no hint 256 six of a gpc", N, false, P256, cpc6, none, pace, 8);
        run("no hint 256 two of a gpc", N, false, P256, two, none, pace, 8);
        run("no hint 256 four groups of a gpc", N, false, P256, four, none, pace, 8);
        run("pairs multicast: hint alone", HM, true, P256, by_tpc, none, pace, 8);
        run("pairs multicast: hint all", HM, true, P256, all, none, pace, 8);
        run("pairs multicast: no hint all", NM, true, P256, all, none, pace, 8);
        run("pairs multicast: no hint gpc", NM, true, P256, by_gpc, none, pace, 8);
        run("pairs multicast: hint gpc", HM, true, P256, by_gpc, none, pace, 8);
        run("pairs multicast: no hint 128 gpc", NM, true, P128, by_gpc, none, pace, 8);
    }
    char s[64];
    for (int d : {0, 50, 100, 200, 300, 500, 1000, 2000}) {
        auto late = [&](int i) { return i % 2 * d; };
        snprintf(s, sizeof s, "tpc, its second SM late by %d", d);
        run(s, N, false, P256, by_tpc, late, 500, 4);
    }
    for (int j = 1; j < 8; ++j) {
        auto two_tpcs = [&](int i) { return pos[i] == 0 || pos[i] == 2 * j ? gpc[i] : 20 + i; };
        snprintf(s, sizeof s, "even SMs of TPC 0 and %d of a gpc", j);
        run(s, N, false, P256, two_tpcs, none, 500, 4);
    }
    for (int n : {1, 2, 3, 4, 5, 6, 8}) {
        auto some = [&](int i) { return pos[i] % 2 == 0 && pos[i] / 2 < n ? gpc[i] : 20 + i; };
        snprintf(s, sizeof s, "even SMs of the first %d TPCs of a gpc", n);
        run(s, N, false, P256, some, none, 500, 4);
    }
    for (int n : {1, 2, 3, 4, 8}) {
        auto some = [&](int i) { return pos[i] / 2 < n ? gpc[i] : 20 + i; };
        snprintf(s, sizeof s, "both SMs of the first %d TPCs of a gpc", n);
        run(s, N, false, P256, some, none, 500, 4);
    }
    return 0;
}
