// Host side of a launch: checked calls, tensor maps, cluster launches, cuBLASLt.
#pragma once
#include "kernels.h"
#include <cublasLt.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static void check_status(int status, const char *call, const char *file, int line) {
    if (status == 0) return;
    cudaError_t e = cudaGetLastError();
    fprintf(stderr, "%s:%d: %s gave %d (%s)\n", file, line, call, status, e == cudaSuccess ? "not a runtime error" : cudaGetErrorString(e));
    exit(1);
}
#define CHECK(call) check_status((int)(call), #call, __FILE__, __LINE__)

typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                              const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill);

static encode_fn map_encoder() {
    void *fn = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, cudaEnableDefault, &found));
    return (encode_fn)fn;
}

// rows x cols elements of 2 bytes, `pitch` elements apart; boxes of box_rows x box_cols. Beyond the edges: zeros read, writes dropped.
static void map_make(CUtensorMap *map, int type, const void *base, int64_t rows, int64_t cols, int64_t pitch, int box_rows, int box_cols) {
    static encode_fn encode = map_encoder();
    cuuint64_t size[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)pitch * 2};
    cuuint32_t box[2] = {(cuuint32_t)box_cols, (cuuint32_t)box_rows}, step[2] = {1, 1};
    auto swizzle = box_cols == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : box_cols == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_32B;
    auto elem = type == TYPE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    CHECK(encode(map, elem, 2, (void *)base, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

// A whole tile's rows, unless all of A has fewer: then the rest of the stage stays what it was, and so do rows nobody stores.
static int box_rows(const lab_kernel &k, int64_t m) { return k.cn == 1 && m < k.bm ? (int)(m + 7) / 8 * 8 : k.bm / k.cn; }
static int load_bytes(const lab_kernel &k, int64_t m) { return (box_rows(k, m) * k.cn + k.bn) * 128; }

static void map_a(CUtensorMap *map, const lab_kernel &k, const void *base, int64_t rows, int64_t depth, int64_t m) {
    map_make(map, k.type, base, rows, depth, depth, box_rows(k, m), 64);
}
static void map_b(CUtensorMap *map, const lab_kernel &k, const void *base, int64_t rows, int64_t depth) {
    map_make(map, k.type, base, rows, depth, depth, k.bn / k.cm, 64);
}
static void map_c(CUtensorMap *map, const lab_kernel &k, void *base, int64_t rows, int64_t cols) {
    map_make(map, k.type, base, rows, cols, cols, 64, k.w);
}

static std::vector<lab_kernel> all_kernels() {
    lab_kernel k[96];
    int n = lab_kernels_wide(k);
    n += lab_kernels_narrow(k + n);
    n += lab_kernels_fold(k + n);
    return std::vector<lab_kernel>(k, k + n);
}

// early: may start while the launch before it in the stream is still draining (it waits for that one's end by itself).
static void launch(const lab_kernel &k, const lab_launch &l, int grid, bool early, cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attr[2];
    config.gridDim = dim3(grid), config.blockDim = dim3(k.threads), config.dynamicSmemBytes = k.smem, config.stream = stream;
    config.attrs = attr;
    if (k.cm * k.cn > 1) {
        attr[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attr[config.numAttrs].val.clusterDim.x = k.cm * k.cn, attr[config.numAttrs].val.clusterDim.y = 1;
        attr[config.numAttrs++].val.clusterDim.z = 1;
    }
    if (early) {
        attr[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attr[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    void *args[] = {(void *)&l};
    CHECK(cudaLaunchKernelExC(&config, k.function, args));
}

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
