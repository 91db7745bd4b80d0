// Does a product of few rows gain by reading B ahead into the L2?  A kernel of 9 us, in which every SM asks the L2 for its share of the first
// MB of B, at a steady pace or at once, and behind it cuBLASLt's product of cold operands: both together, medians.
//
//     lab_ahead
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <vector>

static void check(int error, int line) {
    if (error) printf("line %d: error %d\n", line, error), exit(1);
}
#define CHECK(call) check((int)(call), __LINE__)

constexpr int SMS = 132, PIECE = 4096, AHEAD_NS = 9000, ALGORITHMS = 12, TRIED = 6, ROUNDS = 9, RUNS = 20;
constexpr size_t POOL = 3ull << 30, COLD = 400 << 20, WORK = 64 << 20;

__global__ void fill(__nv_bfloat16 *p, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        unsigned x = (unsigned)i * 2654435761u ^ 7;
        x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
        p[i] = __float2bfloat16(((int)(x & 0xffff) - 32768) / 32768.f);
    }
}

__global__ void ahead(const char *b, long bytes, int ns, bool at_once) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    const long pieces = bytes / PIECE, mine = (pieces - blockIdx.x + gridDim.x - 1) / gridDim.x;
    const long long clock = clock64();
    const double each = mine > 0 ? ns * 0.9 * 1.7 / mine : 0;
    for (long i = 0; threadIdx.x == 0 && i < mine; ++i) {
        while (!at_once && clock64() - clock < (long long)(i * each)) {}
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(b + (blockIdx.x + i * gridDim.x) * PIECE), "r"(PIECE) : "memory");
    }
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < (unsigned long long)ns);
}

struct Product {
    int m, n, k;
    size_t a_bytes, b_bytes, set;
    int sets;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulHeuristicResult_t found[ALGORITHMS];
    int count;
};

static cublasLtHandle_t library;
static char *pool, *work;
static cudaEvent_t from, to;

static Product make(int m, int n, int k) {
    Product p = {m, n, k};
    p.a_bytes = (size_t)m * k * 2, p.b_bytes = (size_t)n * k * 2;
    p.set = (p.a_bytes + p.b_bytes + (size_t)m * n * 2 + 1023) & ~1023ull, p.sets = std::max<int>(3, COLD / p.set + 1);
    const cublasOperation_t yes = CUBLAS_OP_T;
    const unsigned schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t preference;
    CHECK(cublasLtMatmulDescCreate(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &yes, sizeof yes));
    CHECK(cublasLtMatrixLayoutCreate(&p.b, CUDA_R_16BF, k, n, k)), CHECK(cublasLtMatrixLayoutCreate(&p.a, CUDA_R_16BF, k, m, k));
    CHECK(cublasLtMatrixLayoutCreate(&p.c, CUDA_R_16BF, n, m, n));
    CHECK(cublasLtMatmulPreferenceCreate(&preference));
    CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORK, sizeof WORK));
    CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes));
    CHECK(cublasLtMatmulAlgoGetHeuristic(library, p.desc, p.b, p.a, p.c, p.c, preference, ALGORITHMS, p.found, &p.count));
    return p;
}

// Microseconds of what reads ahead and the product behind it; ALGORITHM -1: without the product, NS 0: alone.
static float time_of(const Product &p, int algorithm, double mb, int ns, bool at_once) {
    const float one = 1, zero = 0;
    const long bytes = (long)std::min<double>(mb * 1e6, p.b_bytes);
    std::vector<float> us;
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = -2; i < RUNS; ++i) {
            char *const a = pool + (size_t)((i + 2) % p.sets) * p.set, *const b = a + p.a_bytes, *const c = b + p.b_bytes;
            if (i == 0) CHECK(cudaEventRecord(from));
            if (ns > 0) ahead<<<SMS, 32>>>(b, bytes, ns, at_once);
            if (algorithm >= 0)
                CHECK(cublasLtMatmul(library, p.desc, &one, b, p.b, a, p.a, &zero, c, p.c, c, p.c, &p.found[algorithm].algo, work, WORK, 0));
        }
        float ms;
        CHECK(cudaEventRecord(to)), CHECK(cudaEventSynchronize(to)), CHECK(cudaEventElapsedTime(&ms, from, to));
        us.push_back(ms * 1e3f / RUNS);
    }
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
}

int main() {
    static const int shape[][3] = {{64, 5120, 8192}, {64, 3072, 4096}, {64, 9216, 6144}, {64, 14336, 4096}, {64, 28672, 8192}, {128, 5120, 8192},
                                   {128, 9216, 6144}, {256, 3072, 4096}, {256, 5120, 8192}, {512, 5120, 8192}, {512, 2560, 8192}};
    if (cudaMalloc(&pool, POOL) != cudaSuccess) return 77;
    CHECK(cudaMalloc(&work, WORK)), CHECK(cublasLtCreate(&library));
    CHECK(cudaEventCreate(&from)), CHECK(cudaEventCreate(&to));
    fill<<<1024, 256>>>((__nv_bfloat16 *)pool, POOL / 2);
    for (const auto &s : shape) {
        const Product p = make(s[0], s[1], s[2]);
        auto best_of = [&](int tried, double mb, int ns, bool at_once) {
            float best = 1e9f;
            for (int i = 0; i < std::min(p.count, tried); ++i) best = std::min(best, time_of(p, i, mb, ns, at_once));
            return best;
        };
        printf("%dx%dx%d alone %.1f, without it %.1f |", p.m, p.n, p.k, best_of(ALGORITHMS, 0, 0, false), time_of(p, -1, 0, AHEAD_NS, false));
        for (int mb = 0; mb <= 40; mb += 8) printf(" %d MB %.1f", mb, best_of(TRIED, mb, AHEAD_NS, false));
        printf(" | at once: 24 MB %.1f\n", best_of(TRIED, 24, AHEAD_NS, true)), fflush(stdout);
    }
}
