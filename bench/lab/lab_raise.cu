// What it costs to tell of a tile at the end of a launch, at the least: a block for each SM waits for as long as a product takes, stores a
// tile from shared memory by the bulk engine, and ends in one of these ways. Times are of launches one behind the other, medians of rounds
// in turns; in brackets how much more than without telling.
//
//     lab_raise
//
//     ends      the stores have been read: what a product without raises does
//     stored    ... have been done
//     told GPU  ... and a flag is raised for all of this GPU
//     told all  ... and a flag is raised for all GPUs: what raising per tile does
//     counted   ... and a counter, of which the last block tells all GPUs: what raising per patch does
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

enum Way { ENDS, STORED, TOLD_GPU, TOLD_ALL, COUNTED, WAYS };
static const char *const NAME[WAYS] = {"ends", "stored", "told GPU", "told all", "counted"};
constexpr int PIECE = 4096, LAUNCHES = 40, ROUNDS = 31, THREADS = 128, SHARED = 200 << 10; // one block an SM

struct Output {
    char *tiles;
    uint32_t *flag; // one a block
    uint32_t *count; // and one for all, of COUNTED
};


static __device__ __forceinline__ void tell_gpu(uint32_t *flag, uint32_t value) {
    asm volatile("fence.acq_rel.gpu; st.relaxed.gpu.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

static __device__ __forceinline__ void tell_all(uint32_t *flag, uint32_t value) {
    asm volatile("fence.acq_rel.sys; st.relaxed.sys.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

template <Way WAY> static __device__ __forceinline__ void tell(const Output &out, uint32_t value) {
    if (WAY == ENDS) {
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        return;
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    if (WAY == TOLD_GPU) tell_gpu(&out.flag[blockIdx.x], value);
    if (WAY == TOLD_ALL) tell_all(&out.flag[blockIdx.x], value);
    if (WAY == COUNTED) {
        uint32_t before;
        asm volatile("fence.acq_rel.gpu; atom.relaxed.gpu.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(out.count) : "memory");
        if (before % gridDim.x == gridDim.x - 1) tell_all(&out.flag[0], value);
    }
}

template <Way WAY> static __global__ void __launch_bounds__(THREADS) tile(Output out, int bytes, int cycles, uint32_t value) {
    extern __shared__ __align__(128) char smem[];
    for (int i = threadIdx.x * 4; i < bytes; i += THREADS * 4) *(uint32_t *)(smem + i) = value + blockIdx.x + i;
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x != 0) return;
    const uint32_t from = (uint32_t)__cvta_generic_to_shared(smem);
    char *const to = out.tiles + (size_t)blockIdx.x * bytes;
    for (int at = 0; at < bytes; at += PIECE)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + at), "r"(from + at), "n"(PIECE) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    tell<WAY>(out, value);
}

static uint32_t value_of(Way way, int round) {
    return 1 + (round * WAYS + way);
}

template <Way WAY> static float run(const Output &out, int sms, int bytes, int cycles, int round) {
    static cudaEvent_t event[2];
    float ms = 0;
    if (event[0] == nullptr) {
        cudaEventCreate(&event[0]), cudaEventCreate(&event[1]);
        cudaFuncSetAttribute(tile<WAY>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    }
    cudaMemset(out.count, 0, 4);
    cudaEventRecord(event[0]);
    for (int i = 0; i < LAUNCHES; ++i) tile<WAY><<<sms, THREADS, SHARED>>>(out, bytes, cycles, value_of(WAY, round));
    cudaEventRecord(event[1]);
    cudaEventSynchronize(event[1]);
    cudaEventElapsedTime(&ms, event[0], event[1]);
    return ms * 1000 / LAUNCHES;
}

// Elements and flags that are not as they have to be.
static int64_t wrong(const Output &out, Way way, int sms, int bytes, int round) {
    std::vector<uint32_t> tiles((size_t)sms * bytes / 4), flags(sms);
    const uint32_t value = value_of(way, round);
    int64_t count = 0;
    cudaMemcpy(tiles.data(), out.tiles, tiles.size() * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(flags.data(), out.flag, flags.size() * 4, cudaMemcpyDeviceToHost);
    for (int b = 0; b < sms; ++b)
        for (int i = 0; i < bytes / 4; ++i) count += tiles[(size_t)b * bytes / 4 + i] != value + b + 4 * i;
    for (int b = 0; b < sms; ++b) count += (way == TOLD_GPU || way == TOLD_ALL || (way == COUNTED && b == 0)) && flags[b] != value;
    return count;
}

static float middle(std::vector<float> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

static int measure(const Output &out, int sms, int bytes, int cycles) {
    std::vector<float> us[WAYS];
    int64_t bad = 0;
    for (int round = 0; round < ROUNDS; ++round)
        for (int i = 0; i < WAYS; ++i) {
            const Way way = (Way)((i + round) % WAYS);
            float t = 0;
            switch (way) {
            case ENDS: t = run<ENDS>(out, sms, bytes, cycles, round); break;
            case STORED: t = run<STORED>(out, sms, bytes, cycles, round); break;
            case TOLD_GPU: t = run<TOLD_GPU>(out, sms, bytes, cycles, round); break;
            case TOLD_ALL: t = run<TOLD_ALL>(out, sms, bytes, cycles, round); break;
            default: t = run<COUNTED>(out, sms, bytes, cycles, round);
            }
            us[way].push_back(t);
            if (round < 2) bad += wrong(out, way, sms, bytes, round);
        }
    printf("%3d KB a tile, %6d cycles before:", bytes >> 10, cycles);
    for (int i = 0; i < WAYS; ++i) printf("  %s %.2f us (%+.2f)", NAME[i], middle(us[i]), middle(us[i]) - middle(us[ENDS]));
    printf("%s\n", bad ? ", WRONG" : "");
    const cudaError_t failed = cudaGetLastError();
    if (failed) fprintf(stderr, "%s\n", cudaGetErrorString(failed));
    return bad != 0 || failed != cudaSuccess;
}

int main() {
    int sms = 0;
    Output out;
    if (cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess) return 77;
    if (cudaMalloc(&out.tiles, (size_t)sms << 17) || cudaMalloc(&out.flag, 4 * sms) || cudaMalloc(&out.count, 4)) return 1;
    int failed = 0;
    for (int kb : {32, 48, 64})
        for (int cycles : {10000, 40000, 80000}) failed |= measure(out, sms, kb << 10, cycles);
    return failed;
}
