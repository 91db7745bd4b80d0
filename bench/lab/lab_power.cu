// What a large product costs in energy: kernels ping-pongs, each by itself for about half a second on a hot GPU, beside cuBLASLt.
//
//     lab_power [out=FILE.json] [rounds=2] [settle=0.15] [window=0.45] [seconds=60] [count] SHAPE:SETS ...
//     lab_power out=x.json 8192x8192x4096:ab 8192x12288x24576:b
//
// SETS: a tiles and clusters, b what memory is asked for, c which clusters share what, d waits, e where the energy goes, f copies
// beside the product, g the sources of another folder, v all of the vendor's (to count); see `specs`.
//
// At the power limit time is energy, and a batch of a few milliseconds runs at the clock that its neighbours left. So every
// variant gets a window of its own: `settle` seconds until the clock is its own, then `window` seconds in which launches, joules
// (NVML's counter, which is only read), and each SM's cycles are counted. Results are compared with cuBLASLt's before and after.
// count: two launches of each variant and nothing else, for a profiler.
#include "lab_power.h"
#include "lab_power_meters.h"
#include "kernel/instance_sm90.cuh"
#include "world.h"
#include <cmath>
#include <cuda.h>
#include <functional>
#include <unistd.h>

typedef __nv_bfloat16 T;
enum { POLICIES = 6, COPY_BYTES = 16 << 20 };

// ---- Instances: the table of this program instead of the library's ---------------------------------------------------

static int first_of[POWER_KINDS + 1];  // in the table

int sg_instance_bf16(sg_instance *out) {
    int n = 0;
    auto add = [&](sg_instance i) { out[n++] = i; };
#define COOPERATIVE(bm, bn, cm, cn, fold) add(instance_of<Shape<T, bm, bn, 2, cm, cn, 2, fold>>(SG_KERNEL_BF16));
#define PINGPONG(bm, bn, cm, cn, slots, fold) add(instance_of<Shape<T, bm, bn, 2, cm, cn, slots, fold, true>>(SG_KERNEL_BF16));
    COOPERATIVE(128, 256, 2, 1, FOLD_NONE) COOPERATIVE(128, 256, 1, 1, FOLD_NONE) COOPERATIVE(128, 256, 1, 2, FOLD_NONE)
    COOPERATIVE(128, 256, 2, 2, FOLD_NONE) COOPERATIVE(128, 256, 4, 1, FOLD_NONE)
    COOPERATIVE(256, 128, 1, 1, FOLD_NONE) COOPERATIVE(256, 128, 2, 1, FOLD_NONE) COOPERATIVE(256, 128, 1, 2, FOLD_NONE) COOPERATIVE(256, 128, 2, 2, FOLD_NONE)
    COOPERATIVE(128, 224, 2, 1, FOLD_NONE)
    PINGPONG(128, 192, 1, 1, 1, FOLD_NONE) PINGPONG(128, 192, 2, 1, 1, FOLD_NONE) PINGPONG(128, 192, 1, 2, 1, FOLD_NONE)
#undef COOPERATIVE
#undef PINGPONG
    first_of[POWER_RASTERS] = n, n += power_rasters(out + n);
    first_of[POWER_PATIENT] = n, n += power_patient(out + n);
    first_of[POWER_BRIEF] = n, n += power_brief(out + n);
    first_of[POWER_OTHER] = n, n += power_other(out + n);
    first_of[POWER_NEAR] = n, n += power_near(out + n);
    first_of[POWER_MATH] = n, n += power_math(out + n);
    first_of[POWER_LOADS] = n, n += power_loads(out + n);
    return first_of[POWER_KINDS] = n;
}

int sg_instance_bf16_sums(sg_instance *) { return 0; }
int sg_instance_bf16_tagged(sg_instance *) { return 0; }
int sg_instance_f16(sg_instance *) { return 0; }
int sg_instance_f16_sums(sg_instance *) { return 0; }
int sg_instance_f16_tagged(sg_instance *) { return 0; }

struct Spec {
    const char *sets, *name;
    int kind = 0, bm = 0, bn = 0, math = SG_KERNEL_COOPERATIVE, cm = 1, cn = 1;
    int width = 0;               // bands of a group, or columns of one; 0: as the library's
    int raster = SG_GROUPED;
    int first_out = 0;           // C: the L2 gives it up first
    int blocks = 0;              // 0: all SMs; -1: all clusters that fit at a time
    int keep_a = 0, keep_b = 0;  // see `policies`
    int promotion = 0;           // of the tensor maps' L2 sectors; 0: as the library's
    int zeros = 0;               // operands are zero
    int copy = 0, how = 0;       // copies beside it, GB/s asked for; by which call, see copy_piece
    int vendor = 0;              // 1: cuBLASLt's best, 2: its second best

    Spec(const char *sets_, const char *name_) : sets(sets_), name(name_) {}
    Spec tile(int m, int n, int down, int across, int blocks_ = 0) { return bm = m, bn = n, cm = down, cn = across, blocks = blocks_, *this; }
    Spec pingpong() { return math = SG_KERNEL_PINGPONG, *this; }
    Spec groups(int of) { return width = of, *this; }
    Spec keep(int a, int b) { return keep_a = a, keep_b = b, *this; }
    Spec promoted(int to) { return promotion = to, *this; }
    Spec across(int of) { return kind = POWER_RASTERS, raster = POWER_ACROSS, width = of, *this; }
    Spec dealt(int of) { return kind = POWER_RASTERS, raster = POWER_DEALT, width = of, *this; }
    Spec c_first() { return kind = POWER_RASTERS, first_out = 1, *this; }
    Spec patient() { return kind = POWER_PATIENT, *this; }
    Spec only(int part) { return kind = part, *this; }
    Spec of_zeros() { return zeros = 1, *this; }
    Spec copying(int gbps, int how_) { return copy = gbps, how = how_, *this; }
    Spec theirs(int rank) { return vendor = rank, *this; }
};

enum { COPY_OVERLAP, COPY_ROWS, COPY_PEER, COPY_HOST };
enum { NORMAL_KEEP, FIRST, LAST, LAST_QUARTER, LAST_HALF, LAST_QUARTER_FIRST };

static const Spec specs[] = {
    Spec("abcdefg", "128x256 2 down").tile(128, 256, 2, 1),  // the reference: it comes again and again
    // Tiles and clusters.
    Spec("a", "128x256 alone").tile(128, 256, 1, 1),
    Spec("a", "128x256 2 across").tile(128, 256, 1, 2),
    Spec("a", "128x256 2x2").tile(128, 256, 2, 2, -1),
    Spec("a", "128x256 4 down").tile(128, 256, 4, 1, -1),
    Spec("a", "128x256 2 down, 120 blocks").tile(128, 256, 2, 1, 120),
    Spec("a", "128x256 2 down, 128 blocks").tile(128, 256, 2, 1, 128),
    Spec("a", "128x256 2 down, 108 blocks").tile(128, 256, 2, 1, 108),
    Spec("a", "256x128 alone").tile(256, 128, 1, 1),
    Spec("a", "256x128 2 down").tile(256, 128, 2, 1),
    Spec("a", "256x128 2 across").tile(256, 128, 1, 2),
    Spec("a", "256x128 2x2").tile(256, 128, 2, 2, -1),
    Spec("a", "128x224 2 down").tile(128, 224, 2, 1),
    Spec("adg", "128x192 ping-pong alone").tile(128, 192, 1, 1).pingpong(),
    Spec("a", "128x192 ping-pong 2 down").tile(128, 192, 2, 1).pingpong(),
    Spec("a", "128x192 ping-pong 2 across").tile(128, 192, 1, 2).pingpong(),
    // What memory is asked for.
    Spec("b", "128x256 2 down, groups of 8").tile(128, 256, 2, 1).groups(8),
    Spec("b", "128x256 2 down, groups of 12").tile(128, 256, 2, 1).groups(12),
    Spec("b", "128x256 2 down, groups of 24").tile(128, 256, 2, 1).groups(24),
    Spec("b", "128x256 2 down, groups of 32").tile(128, 256, 2, 1).groups(32),
    Spec("b", "128x256 2 down, groups of 64").tile(128, 256, 2, 1).groups(64),
    Spec("b", "128x256 2 down, A last out, B first").tile(128, 256, 2, 1).keep(LAST, FIRST),
    Spec("b", "128x256 2 down, A last out, B first, groups of 8").tile(128, 256, 2, 1).keep(LAST, FIRST).groups(8),
    Spec("b", "128x256 2 down, A last out, B first, groups of 22").tile(128, 256, 2, 1).keep(LAST, FIRST).groups(22),
    Spec("b", "128x256 2 down, A last out, B and C first").tile(128, 256, 2, 1).keep(LAST, FIRST).c_first(),
    Spec("b", "128x256 2 down, a quarter of A last out").tile(128, 256, 2, 1).keep(LAST_QUARTER, NORMAL_KEEP),
    Spec("b", "128x256 2 down, a quarter of A last out, all else first").tile(128, 256, 2, 1).keep(LAST_QUARTER_FIRST, FIRST),
    Spec("b", "128x256 2 down, half of A last out, B first").tile(128, 256, 2, 1).keep(LAST_HALF, FIRST),
    Spec("b", "128x256 2 down, promotion 256").tile(128, 256, 2, 1).promoted(CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
    Spec("b", "128x256 2 down, promotion 64").tile(128, 256, 2, 1).promoted(CU_TENSOR_MAP_L2_PROMOTION_L2_64B),
    Spec("b", "128x256 2 down, C first out").tile(128, 256, 2, 1).c_first(),
    // Which clusters share what: along columns first, and so within a GPC.
    Spec("c", "128x256 2 down, across 8").tile(128, 256, 2, 1).across(8),
    Spec("c", "128x256 2 down, across 4").tile(128, 256, 2, 1).across(4),
    Spec("c", "128x256 2 down, dealt 8").tile(128, 256, 2, 1).dealt(8),
    Spec("c", "128x256 2 down, dealt 4").tile(128, 256, 2, 1).dealt(4),
    Spec("c", "128x256 alone, across 8").tile(128, 256, 1, 1).across(8),
    Spec("c", "128x256 alone, dealt 8").tile(128, 256, 1, 1).dealt(8),
    Spec("c", "128x256 2 across, across 4").tile(128, 256, 1, 2).across(4),
    Spec("c", "128x192 ping-pong alone, across 12").tile(128, 192, 1, 1).pingpong().across(12),
    Spec("c", "128x192 ping-pong alone, dealt 12").tile(128, 192, 1, 1).pingpong().dealt(12),
    Spec("c", "128x192 ping-pong 2 down, across 12").tile(128, 192, 2, 1).pingpong().across(12),
    // Waits inside a block that sleep.
    Spec("d", "128x256 2 down, waits sleep 20 us").tile(128, 256, 2, 1).patient(),
    Spec("d", "128x256 2 down, waits sleep 1 us").tile(128, 256, 2, 1).only(POWER_BRIEF),
    Spec("d", "128x192 ping-pong alone, waits sleep 20 us").tile(128, 192, 1, 1).pingpong().patient(),
    Spec("d", "128x192 ping-pong alone, waits sleep 1 us").tile(128, 192, 1, 1).pingpong().only(POWER_BRIEF),
    Spec("d", "128x192 ping-pong 2 down, waits sleep 20 us").tile(128, 192, 2, 1).pingpong().patient(),
    Spec("d", "128x256 2 down, dealt 8, waits sleep 20 us").tile(128, 256, 2, 1).dealt(8).patient(),
    Spec("d", "128x256 2 down, A last out, B first, waits sleep 20 us").tile(128, 256, 2, 1).keep(LAST, FIRST).patient(),
    // The sources of another folder.
    Spec("g", "128x256 2 down, of the other folder").tile(128, 256, 2, 1).only(POWER_OTHER),
    Spec("g", "128x192 ping-pong alone, of the other folder").tile(128, 192, 1, 1).pingpong().only(POWER_OTHER),
    // The vendor's.
    Spec("abcdefgv", "cuBLASLt, best").theirs(1),
    Spec("abcdv", "cuBLASLt, second").theirs(2),
    Spec("v", "cuBLASLt").theirs(3), Spec("v", "cuBLASLt").theirs(4), Spec("v", "cuBLASLt").theirs(5), Spec("v", "cuBLASLt").theirs(6), Spec("v", "cuBLASLt").theirs(7), Spec("v", "cuBLASLt").theirs(8),
    // Where the energy goes.
    Spec("e", "from the L2 alone").tile(128, 256, 2, 1).only(POWER_NEAR),
    Spec("e", "from the L2 alone, 128x256 alone").tile(128, 256, 1, 1).only(POWER_NEAR),
    Spec("e", "from shared memory alone").tile(128, 256, 2, 1).only(POWER_MATH),
    Spec("e", "loads alone, 128x256 2 down").tile(128, 256, 2, 1).only(POWER_LOADS),
    Spec("e", "zeros").tile(128, 256, 2, 1).of_zeros(),
    // Copies beside the product.
    Spec("f", "copies of 200 GB/s, asked to overlap").tile(128, 256, 2, 1).copying(200, COPY_OVERLAP),
    Spec("f", "copies of 200 GB/s in rows").tile(128, 256, 2, 1).copying(200, COPY_ROWS),
    Spec("f", "copies of 200 GB/s as to a peer").tile(128, 256, 2, 1).copying(200, COPY_PEER),
    Spec("f", "copies of 50 GB/s from the host").tile(128, 256, 2, 1).copying(50, COPY_HOST),
};

// ---- On the GPU -----------------------------------------------------------------------------------------------------------
static __global__ void make_policies(uint64_t *out) {
    out[NORMAL_KEEP] = 0x1000000000000000ull, out[FIRST] = 0x12f0000000000000ull, out[LAST] = 0x14f0000000000000ull;
    asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.25;" : "=l"(out[LAST_QUARTER]));
    asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.5;" : "=l"(out[LAST_HALF]));
    asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, 0.25;" : "=l"(out[LAST_QUARTER_FIRST]));
}

// Holds every SM until all are there, so that no two blocks are told the same one.
static __global__ void where(int *sm_of_block, unsigned *gate) {
    if (threadIdx.x) return;
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    sm_of_block[blockIdx.x] = (int)sm;
    atomicAdd(gate, 1u);
    const long long start = clock64();
    while (*(volatile unsigned *)gate < gridDim.x && clock64() - start < 2000000) {
    }
}

struct Window {
    double us, watts, mhz, at, copied_gbps, error;
    int temperature, clock, samples;
};

struct Runner {
    const Spec *spec;
    std::string name;
    std::function<void(int)> issue;
    Lists lists;
    std::vector<sg_kernel_gemm> gemm;
    std::vector<int> place;  // see power_deal
    double guess_us = 0;
    bool product = true;
    std::vector<Window> windows;
};

struct Power {
    Vendor vendor;
    Meter meter;
    cudaStream_t stream, beside;
    cudaEvent_t begin, end;
    char *pool, *zeros;
    T *out, *want;
    char *copy_from, *copy_to, *copy_host;
    Ticks *ticks;
    uint64_t policies[POLICIES];
    size_t pool_bytes = 3ull << 30, out_bytes = 1ull << 30, set_bytes = 0, a_bytes = 0;
    int m = 0, n = 0, k = 0, sets = 0, failed = 0, sms = 0;
    double settle = 0.15, window = 0.45, stop_at = 0, start = 0;
    FILE *json = nullptr;

    void open() {
        vendor.open();
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)), CHECK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&begin)), CHECK(cudaEventCreate(&end));
        CHECK(cudaMalloc(&pool, pool_bytes)), CHECK(cudaMalloc(&zeros, 1ull << 30)), CHECK(cudaMemset(zeros, 0, 1ull << 30));
        CHECK(cudaMalloc(&out, out_bytes)), CHECK(cudaMalloc(&want, out_bytes));
        CHECK(cudaMallocHost(&copy_host, COPY_BYTES)), memset(copy_host, 1, COPY_BYTES);
        CHECK(cudaMalloc(&copy_from, 1ull << 30)), CHECK(cudaMalloc(&copy_to, 1ull << 30));
        fill_run(TYPE_BF16, pool, pool_bytes / 2, 1234, NORMAL);
        fill_run(TYPE_BF16, copy_from, 1ull << 29, 77, NORMAL);
        CHECK(cudaMalloc(&ticks, 2 * SMS_MOST * sizeof *ticks));
        CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
        uint64_t *p;
        CHECK(cudaMalloc(&p, sizeof policies));
        make_policies<<<1, 1>>>(p);
        CHECK(cudaMemcpy(policies, p, sizeof policies, cudaMemcpyDeviceToHost));
    }
    void shape(int m_, int n_, int k_) {
        m = m_, n = n_, k = k_;
        a_bytes = ((size_t)m * k * 2 + 1023) & ~1023ull;
        set_bytes = a_bytes + (((size_t)n * k * 2 + 1023) & ~1023ull);
        sets = (int)std::min<size_t>(std::max<size_t>(2, (300 << 20) / set_bytes), std::min<size_t>(16, pool_bytes / set_bytes));
        if (sets < 1 || (size_t)m * n * 2 > out_bytes || set_bytes > pool_bytes) fprintf(stderr, "%dx%dx%d is too large\n", m, n, k), exit(1);
        vendor.shape(m, n, k, TYPE_BF16);
    }
    char *a(int set, bool zero) { return zero ? zeros : pool + set * set_bytes; }
    char *b(int set, bool zero) { return zero ? zeros : pool + set * set_bytes + a_bytes; }

    // The instance of SPEC alone is to be found while a launch is aimed.
    const char *aim(const Spec &s, sg_kernel_gemm *g, int *fit) {
        int all, found = -1;
        sg_instance *table = const_cast<sg_instance *>(sg_instance_table(&all));
        for (int i = 0; i < all; ++i) {
            const int from = s.kind ? first_of[s.kind] : 0, to = first_of[s.kind + 1];
            if (i >= from && i < to && table[i].bm == s.bm && table[i].bn == s.bn && table[i].math == s.math && table[i].cm == s.cm && table[i].cn == s.cn)
                found = i;
            else table[i].type += 100;
        }
        const char *why = found < 0 ? "there is no such instance" : sg_kernel_gemm_aim(g);
        for (int i = 0; i < all; ++i)
            if (i != found) table[i].type -= 100;
        if (why || g->slow) return why ? why : g->slow;
        if (g->instance != found) return "another instance was taken";
        const sg_instance &k = table[found];
        cudaLaunchConfig_t config = {};
        cudaLaunchAttribute attr[1];
        attr[0].id = cudaLaunchAttributeClusterDimension;
        attr[0].val.clusterDim.x = (unsigned)(k.cm * k.cn), attr[0].val.clusterDim.y = attr[0].val.clusterDim.z = 1;
        config.gridDim = dim3((unsigned)(k.cm * k.cn)), config.blockDim = dim3((unsigned)k.threads), config.dynamicSmemBytes = (size_t)k.smem, config.attrs = attr, config.numAttrs = 1;
        CHECK(cudaOccupancyMaxActiveClusters(fit, k.function, &config));
        return nullptr;
    }
    int group_of_sm[SMS_MOST];  // its GPC

    std::vector<int> sms_of_clusters(int cluster) {  // of all blocks of a launch that fills the GPU
        cudaLaunchConfig_t config = {};
        cudaLaunchAttribute attr[1];
        attr[0].id = cudaLaunchAttributeClusterDimension;
        attr[0].val.clusterDim.x = (unsigned)cluster, attr[0].val.clusterDim.y = attr[0].val.clusterDim.z = 1;
        config.gridDim = dim3((unsigned)cluster), config.blockDim = dim3(32), config.dynamicSmemBytes = 200 << 10, config.attrs = attr, config.numAttrs = 1;
        CHECK(cudaFuncSetAttribute(where, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
        CHECK(cudaFuncSetAttribute(where, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
        int fit = 0;
        std::vector<int> found;
        if (cudaOccupancyMaxActiveClusters(&fit, where, &config) != cudaSuccess || fit < 1) return cudaGetLastError(), found;
        config.gridDim = dim3((unsigned)(fit * cluster));
        int *to;
        CHECK(cudaMalloc(&to, 4096)), CHECK(cudaMemset(to, 0, 4096));
        CHECK(cudaLaunchKernelEx(&config, where, to, (unsigned *)to + 1000));
        CHECK(cudaDeviceSynchronize());
        found.resize((size_t)(fit * cluster));
        CHECK(cudaMemcpy(found.data(), to, found.size() * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(to));
        return found;
    }
    // SMs that were ever in one cluster are of one GPC.
    void find_groups() {
        for (int i = 0; i < SMS_MOST; ++i) group_of_sm[i] = i;
        for (int size : {16, 8, 6, 4, 2}) {
            const std::vector<int> sm = sms_of_clusters(size);
            for (size_t i = 0; i < sm.size(); ++i) {
                const int from = group_of_sm[sm[i]], to = group_of_sm[sm[i / size * size]];
                for (int &g : group_of_sm)
                    if (g == from) g = to;
            }
        }
        const std::vector<int> sm = sms_of_clusters(2);
        printf("GPC of the clusters of 2, in order:");
        for (size_t i = 0; i < sm.size(); i += 2) printf(" %d", group_of_sm[sm[i]]);
        printf("\n");
    }
    // The place of each cluster if those of a GPC stand side by side.
    std::vector<int> places(int cluster) {
        const std::vector<int> sm = sms_of_clusters(cluster);
        std::vector<int> order, place(sm.size() / cluster);
        for (size_t i = 0; i < place.size(); ++i) order.push_back((int)i);
        std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
            const int s = sm[(size_t)(x * cluster)], t = sm[(size_t)(y * cluster)];
            return group_of_sm[s] != group_of_sm[t] ? group_of_sm[s] < group_of_sm[t] : s < t;
        });
        for (size_t i = 0; i < order.size(); ++i) place[(size_t)order[i]] = (int)i;
        return place;
    }
    const char *promote(const Spec &s, sg_kernel_gemm *g, int set) {
        for (int use = 0; use < 2; ++use) {  // A, B
            const cuuint64_t size[3] = {(cuuint64_t)k, (cuuint64_t)(use ? n : m), 1}, stride[2] = {(cuuint64_t)k * 2, (cuuint64_t)k * 2};
            const cuuint32_t box[3] = {64, (cuuint32_t)(use ? s.bn / s.cm : s.bm / s.cn), 1}, step[3] = {1, 1, 1};
            if (cuTensorMapEncodeTiled(&g->param.map[g->param.map_of[use][use]], CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, use ? b(set, false) : a(set, false), size, stride, box, step,
                                       CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, (CUtensorMapL2promotion)s.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
                return "the driver refuses a tensor map";
        }
        return nullptr;
    }
    static int group_of(int rows, int bm, int bn) {  // as sg_moves_group
        int square = 1;
        while (square < 255 && (int64_t)square * square * bm < (int64_t)132 * bn) ++square;
        const int bands = lab_ceil(rows, bm);
        return bands <= square ? std::max(1, bands) : std::min(255, lab_ceil(bands, (bands + square / 2) / square));
    }

    const char *lower(const Spec &s, Runner &r) {
        Lists &l = r.lists;
        l.rect(0, m, n, k, Lists::area(0, 0, 0, m, 0, k), Lists::area(0, 1, 0, n, 0, k), s.width ? s.width : group_of(m, s.bm, s.bn));
        l.patch.back().raster = (uint8_t)s.raster;
        if (s.raster >= POWER_ACROSS) l.patch.back().width = (uint8_t)(s.width * s.cm);  // the kernel counts in units
        l.store(Lists::area(0, 2, 0, m, 0, n));
        l.finish(nullptr, SG_KERNEL_BF16);
        int fit = 0;
        r.gemm.resize(sets);
        for (int i = 0; i < sets; ++i) {
            sg_kernel_program &program = l.program;
            program.place[0] = place_of(a(i, s.zeros), nullptr, m, k, k, 2), program.place[1] = place_of(b(i, s.zeros), nullptr, n, k, k, 2);
            program.place[2] = place_of(out, nullptr, m, n, n, 2);
            sg_kernel_gemm *g = &r.gemm[i];
            const int cluster = s.cm * s.cn;
            for (int pass = 0; pass < 2; ++pass) {  // the second knows how many clusters fit
                const int blocks = s.blocks > 0 ? s.blocks : s.blocks < 0 && pass ? fit * cluster : 0;
                const char *why = sg_kernel_gemm_make(g, &program, &l.host, 0, 0, 1, s.bm, s.bn, blocks);
                g->want_cluster = cluster, g->want_math = s.math;
                if (!why) why = aim(s, g, &fit);
                if (why) return why;
                if (s.blocks >= 0) break;
            }
            g->param.keep_a = policies[s.keep_a], g->param.keep_b = policies[s.keep_b];
            const char *why = s.promotion ? promote(s, g, i) : nullptr;
            if (why) return why;
        }
        if (fit * s.cm * s.cn < r.gemm[0].blocks) return "its clusters do not fit together";
        if (s.kind == POWER_RASTERS || s.kind == POWER_PATIENT) r.place = places(s.cm * s.cn);
        char text[160];
        snprintf(text, sizeof text, "%s%s", s.name, s.blocks < 0 ? (", " + std::to_string(r.gemm[0].blocks) + " blocks").c_str() : "");
        r.name = text;
        r.issue = [this, &r](int i) { CHECK(sg_kernel_gemm_run(&r.gemm[i % r.gemm.size()], SG_KERNEL_EARLY, stream)); };
        return nullptr;
    }

    void prepare(const Runner &r) {
        if (r.place.empty()) return;
        CHECK(cudaDeviceSynchronize());
        (r.spec->kind == POWER_RASTERS ? power_deal : power_deal_patient)(r.place.data(), (int)std::min<size_t>(r.place.size(), POWER_CLUSTERS), r.spec->first_out);
        CHECK(cudaGetLastError());
    }
    double batch(Runner &r, int count) {
        CHECK(cudaEventRecord(begin, stream));
        for (int i = 0; i < count; ++i) r.issue(i);
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        return ms * 1000 / count;
    }
    // What set 0 gives, against the vendor's; the error relative to the norm.
    double error_of(Runner &r, bool run) {
        const int64_t count = (int64_t)m * n;
        vendor.run(0, a(0, r.spec->zeros), b(0, r.spec->zeros), want, stream);
        if (run) CHECK(cudaMemsetAsync(out, 0xff, count * 2, stream)), r.issue(0);
        const Verdict v = verdict(out, want, count, stream);
        return v.norm2 > 0 ? sqrt(v.error2 / v.norm2) : v.error2;
    }
    bool right(Runner &r, double error) {
        const bool ok = error < 4e-3;
        if (!ok) ++failed, printf("FAILED %dx%dx%d %s: %.2e from cuBLASLt\n", m, n, k, r.name.c_str(), error);
        return ok;
    }

    void measure(Runner &r) {
        prepare(r);
        const int warm = std::max(1, (int)(settle * 1e6 / r.guess_us)), count = std::max(2, (int)(window * 1e6 / r.guess_us));
        CHECK(cudaMemsetAsync(ticks, 0, 2 * SMS_MOST * sizeof *ticks, stream));
        Window w = {};
        const double t0 = seconds_now();
        for (int i = 0; i < warm; ++i) r.issue(i);
        read_clocks<<<1056, 32, 0, stream>>>(ticks);
        CHECK(cudaEventRecord(begin, stream));
        for (int i = count - 1; i >= 0; --i) r.issue(i);  // the last is of set 0
        CHECK(cudaEventRecord(end, stream));
        read_clocks<<<1056, 32, 0, stream>>>(ticks + SMS_MOST);
        // Joules of the first and the last change of the counter inside the window.
        double first_t = 0, first_j = 0, last_t = 0, last_j = 0, seen = meter.joules(), polled = 0, copied = 0, copy_start = 0;
        for (;;) {
            const double t = seconds_now();
            const bool inside = cudaEventQuery(begin) == cudaSuccess;
            if (cudaEventQuery(end) != cudaErrorNotReady || t - t0 > 20) break;
            if (r.spec->copy) {
                if (copy_start == 0) copy_start = t;
                for (int i = 0; i < 64 && copied < r.spec->copy * 1e9 * (t - copy_start); ++i) copy_piece(r.spec->how, &copied);
            }
            if (t - polled < (r.spec->copy ? 40e-3 : 1e-3)) continue;
            polled = t;
            const double j = meter.joules();
            if (j == seen) continue;
            seen = j;
            if (!inside) continue;
            if (++w.samples == 1) first_t = t, first_j = j;
            last_t = t, last_j = j;
            if (w.samples == 2) w.clock = meter.read(meter.clock, 1), w.temperature = meter.read(meter.temperature, 0);
        }
        CHECK(cudaStreamSynchronize(stream));
        if (copy_start > 0) w.copied_gbps = copied * 1e-9 / (seconds_now() - copy_start);
        CHECK(cudaStreamSynchronize(beside));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        w.us = ms * 1000 / count, w.watts = last_t > first_t ? (last_j - first_j) / (last_t - first_t) : 0, w.at = t0 - start;
        Ticks tick[2][SMS_MOST];
        CHECK(cudaMemcpy(tick, ticks, sizeof tick, cudaMemcpyDeviceToHost));
        std::vector<double> mhz;
        for (int i = 0; i < SMS_MOST; ++i)
            if (tick[0][i].claimed && tick[1][i].claimed) mhz.push_back(1e3 * (double)(tick[1][i].clock - tick[0][i].clock) / (double)(tick[1][i].ns - tick[0][i].ns));
        std::sort(mhz.begin(), mhz.end());
        w.mhz = mhz.empty() ? 0 : mhz[mhz.size() / 2];
        if (r.product && !r.spec->vendor) right(r, w.error = error_of(r, false));
        r.guess_us = w.us;
        r.windows.push_back(w);
        fprintf(json, "{\"m\":%d,\"n\":%d,\"k\":%d,\"variant\":\"%s\",\"us\":%.3f,\"watts\":%.2f,\"joules\":%.5f,\"mhz\":%.1f,\"at_s\":%.2f,\"temperature\":%d,\"nvml_mhz\":%d,\"samples\":%d,\"launches\":%d,\"error\":%.2e",
                m, n, k, r.name.c_str(), w.us, w.watts, w.watts * w.us * 1e-6, w.mhz, w.at, w.temperature, w.clock, w.samples, count, w.error);
        if (r.spec->copy) fprintf(json, ",\"copied_gbps\":%.1f", w.copied_gbps);
        fprintf(json, "},\n"), fflush(json);
    }
    void copy_piece(int how_to, double *copied) {
        const size_t place = (size_t)(*copied) % (1ull << 30);
        void *to = copy_to + place;
        const void *from = copy_from + place;
        size_t bytes = COPY_BYTES, first = 0;
        *copied += COPY_BYTES;
        if (how_to == COPY_ROWS) return CHECK(cudaMemcpy2DAsync(to, 65536, from, 65536, 65536 - 256, COPY_BYTES / 65536, cudaMemcpyDeviceToDevice, beside));
        if (how_to == COPY_PEER) return CHECK(cudaMemcpyPeerAsync(to, 0, from, 0, bytes, beside));
        if (how_to == COPY_HOST) return CHECK(cudaMemcpyAsync(to, copy_host, bytes, cudaMemcpyHostToDevice, beside));
        cudaMemcpyAttributes how = {};
        how.srcAccessOrder = cudaMemcpySrcAccessOrderStream, how.flags = cudaMemcpyFlagPreferOverlapWithCompute;
        CHECK(cudaMemcpyBatchAsync(&to, &from, &bytes, 1, &how, &first, 1, beside));
    }

    // The vendor's algorithms, best first, by short batches.
    std::vector<int> vendor_order() {
        std::vector<std::pair<double, int>> us;
        for (int i = 0; i < vendor.algos; ++i) {
            Runner r = {};
            r.issue = [&](int j) { vendor.run(i, a(j % sets, false), b(j % sets, false), out, stream); };
            batch(r, 2);
            const int count = std::max(3, (int)(20e3 / batch(r, 2)));
            us.push_back({std::min(batch(r, count), batch(r, count)), i});
        }
        std::sort(us.begin(), us.end());
        std::vector<int> order;
        for (auto &x : us) order.push_back(x.second);
        return order;
    }

    void run(const char *letters, int rounds, bool count) {
        std::vector<Runner> all;
        all.reserve(sizeof specs / sizeof *specs);
        const std::vector<int> order = count ? std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7} : vendor_order();
        for (const Spec &s : specs) {
            if (!strpbrk(letters, s.sets)) continue;
            all.emplace_back();
            Runner &r = all.back();
            r.spec = &s, r.product = s.kind <= POWER_OTHER;
            const char *why = nullptr;
            if (s.vendor) {
                const int algo = s.vendor <= (int)order.size() && order[s.vendor - 1] < vendor.algos ? order[s.vendor - 1] : -1;
                if (algo < 0) why = "it has no more";
                else r.name = std::string(s.name) + ": " + vendor.describe(algo), r.issue = [this, algo](int i) { vendor.run(algo, a(i % sets, false), b(i % sets, false), out, stream); };
            } else
                why = lower(s, r);
            if (why) {
                printf("%dx%dx%d %s: %s\n", m, n, k, s.name, why), all.pop_back();
                continue;
            }
            prepare(r);
            if (count) {
                r.issue(0), r.issue(1);
                CHECK(cudaStreamSynchronize(stream));
                printf("%s\n", r.name.c_str());
                continue;
            }
            if (r.product && !s.vendor && !right(r, error_of(r, true))) {
                all.pop_back();
                continue;
            }
            r.guess_us = batch(r, 3);
        }
        if (count || all.empty()) return;
        // The reference again after every four others; every second round the other way round.
        for (int round = 0; round < rounds; ++round) {
            const int others = (int)all.size() - 1;
            for (int i = 0; i < others; ++i) {
                if (seconds_now() > stop_at) break;
                if (i % 4 == 0) measure(all[0]);
                measure(all[round % 2 ? others - i : i + 1]);
            }
            measure(all[0]);
        }
        print(all);
    }
    static double median(std::vector<double> v) {
        std::sort(v.begin(), v.end());
        return v.empty() ? 0 : (v[v.size() / 2] + v[(v.size() - 1) / 2]) / 2;
    }
    // Relative to the reference's windows before and behind.
    void print(std::vector<Runner> &all) {
        printf("%dx%dx%d\n  %-58s %9s %7s %7s %6s %6s %5s  %s\n", m, n, k, "", "us", "time", "J", "W", "MHz", "Mcyc", "C");
        for (Runner &r : all) {
            std::vector<double> us, watts, joules, mhz, ratio;
            for (const Window &w : r.windows) {
                const Window *before = nullptr, *behind = nullptr;
                for (const Window &x : all[0].windows) {
                    if (x.at <= w.at) before = &x;
                    if (x.at >= w.at && !behind) behind = &x;
                }
                us.push_back(w.us), watts.push_back(w.watts), joules.push_back(w.us * w.watts * 1e-6), mhz.push_back(w.mhz);
                if (before && behind) ratio.push_back(w.us / ((before->us + behind->us) / 2));
            }
            if (us.empty()) continue;
            std::sort(ratio.begin(), ratio.end());
            printf("  %-58.58s %9.2f %7.4f %7.4f %6.1f %6.0f %5.3f  %d  (%.4f to %.4f)%s\n", r.name.c_str(), median(us), median(ratio), median(joules), median(watts), median(mhz),
                   median(us) * median(mhz) * 1e-6, r.windows.back().temperature, ratio.empty() ? 0 : ratio.front(), ratio.empty() ? 0 : ratio.back(),
                   r.spec->copy ? (" copied " + std::to_string((int)r.windows.back().copied_gbps) + " GB/s").c_str() : "");
        }
        fflush(stdout);
    }
};

int main(int argc, char **argv) {
    Power p;
    const char *path = "/dev/null";
    int rounds = 2;
    double seconds = 60;
    bool count = false;
    for (int i = 1; i < argc; ++i) {
        if (!strncmp(argv[i], "out=", 4)) path = argv[i] + 4;
        sscanf(argv[i], "rounds=%d", &rounds), sscanf(argv[i], "settle=%lf", &p.settle), sscanf(argv[i], "window=%lf", &p.window), sscanf(argv[i], "seconds=%lf", &seconds);
        count |= !strcmp(argv[i], "count");
    }
    setvbuf(stdout, nullptr, _IOLBF, 0);
    p.start = seconds_now(), p.stop_at = p.start + seconds;
    if (!p.meter.open()) return fprintf(stderr, "NVML does not tell energies\n"), 1;
    p.json = fopen(path, "w");
    if (!p.json) return fprintf(stderr, "cannot write %s\n", path), 1;
    p.open(), p.find_groups();
    bool warm = false;
    for (int i = 1; i < argc; ++i) {
        int m, n, k;
        char letters[32];
        if (sscanf(argv[i], "%dx%dx%d:%31s", &m, &n, &k, letters) != 4) continue;
        p.shape(m, n, k);
        if (!warm && !count) {  // a second of products
            warm = true;
            for (const double until = seconds_now() + 1; seconds_now() < until;) {
                for (int j = 0; j < 20; ++j) p.vendor.run(0, p.a(0, false), p.b(0, false), p.out, p.stream);
                CHECK(cudaStreamSynchronize(p.stream));
            }
        }
        p.run(letters, rounds, count);
    }
    printf("%d failed, %.1f s\n", p.failed, seconds_now() - p.start);
    fclose(p.json);
    return p.failed > 0;
}
