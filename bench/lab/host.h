// Checked calls, and cuBLASLt beside us.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

enum { TYPE_BF16, TYPE_F16 };

static int lab_ceil(int a, int b) { return (a + b - 1) / b; }

static void check_status(int status, const char *call, const char *file, int line) {
    if (status == 0) return;
    cudaError_t e = cudaGetLastError();
    fprintf(stderr, "%s:%d: %s gave %d (%s)\n", file, line, call, status, e == cudaSuccess ? "not a runtime error" : cudaGetErrorString(e));
    exit(1);
}
#define CHECK(call) check_status((int)(call), #call, __FILE__, __LINE__)

// The vendor's product of the same operands: up to eight of its heuristics' algorithms for one shape.
struct Vendor {
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulHeuristicResult_t algo[8];
    int algos = 0;
    void *work;
    static constexpr size_t WORK = 64 << 20;

    void open() {
        CHECK(cublasLtCreate(&lt));
        CHECK(cudaMalloc(&work, WORK));
    }
    void shape(int m, int n, int k, int type) {  // column-major view: C' (n x m) = B (k x n)' * A (k x m)
        if (algos) cublasLtMatmulDescDestroy(desc), cublasLtMatrixLayoutDestroy(a), cublasLtMatrixLayoutDestroy(b), cublasLtMatrixLayoutDestroy(c);
        cudaDataType_t t = type == TYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
        cublasOperation_t yes = CUBLAS_OP_T, no = CUBLAS_OP_N;
        CHECK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        CHECK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &yes, sizeof yes));
        CHECK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &no, sizeof no));
        CHECK(cublasLtMatrixLayoutCreate(&b, t, k, n, k));
        CHECK(cublasLtMatrixLayoutCreate(&a, t, k, m, k));
        CHECK(cublasLtMatrixLayoutCreate(&c, t, n, m, n));
        cublasLtMatmulPreference_t pref;
        size_t room = WORK;
        CHECK(cublasLtMatmulPreferenceCreate(&pref));
        CHECK(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
        CHECK(cublasLtMatmulAlgoGetHeuristic(lt, desc, b, a, c, c, pref, 8, algo, &algos));
        cublasLtMatmulPreferenceDestroy(pref);
    }
    std::string describe(int i) {  // the numbers are cublasLt.h's
        int tile = 0, split = 0, stages = 0;
        uint16_t cluster = 0;
        cublasLtMatmulAlgo_t *a = &algo[i].algo;
        size_t got;
        cublasLtMatmulAlgoConfigGetAttribute(a, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile, &got);
        cublasLtMatmulAlgoConfigGetAttribute(a, CUBLASLT_ALGO_CONFIG_STAGES_ID, &stages, sizeof stages, &got);
        cublasLtMatmulAlgoConfigGetAttribute(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split, sizeof split, &got);
        cublasLtMatmulAlgoConfigGetAttribute(a, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &cluster, sizeof cluster, &got);
        char s[96];
        snprintf(s, sizeof s, "lt%d tile %d stages %d split %d cluster %d", i, tile, stages, split, cluster);
        return s;
    }
    void run(int i, const void *A, const void *B, void *C, cudaStream_t stream) {
        float one = 1, zero = 0;
        CHECK(cublasLtMatmul(lt, desc, &one, B, b, A, a, &zero, C, c, C, c, &algo[i].algo, work, WORK, stream));
    }
};
