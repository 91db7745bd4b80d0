/* fake_vendor.c -- the entries of cuBLASLt that are used, on the host; see fake.h. */
#include <cublasLt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data.h"
#include "fake.h"
#include "fake_words.h"

typedef struct layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t pitch;
} layout;

typedef struct desc {
    cublasLtEpilogue_t epilogue;
    const void *bias;
} desc;

/* A library that may round parts of k to the type of C does so. */
enum { ROUNDING = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE };

_Atomic int fake_asked, fake_algorithm, fake_first_us, fake_product_us, fake_products;
_Atomic bool fake_productless, fake_dense;

FAKE cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    if (fake_fails()) return CUBLAS_STATUS_INTERNAL_ERROR;
    *out = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                             cudaDataType_t scale)
{
    (void)compute;
    (void)scale;
    if (fake_fails()) return CUBLAS_STATUS_INTERNAL_ERROR;
    *out = calloc(1, sizeof(desc));
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                                   cublasLtMatmulDescAttributes_t attribute,
                                                   const void *value, size_t bytes)
{
    desc *const d = (desc *)(void *)handle;
    if (fake_fails()) return CUBLAS_STATUS_INTERNAL_ERROR;
    if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) memcpy(&d->epilogue, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) memcpy(&d->bias, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                               uint64_t rows, uint64_t cols, int64_t pitch)
{
    if (fake_fails()) return CUBLAS_STATUS_INTERNAL_ERROR;
    layout *const l = malloc(sizeof *l);
    *l = (layout){type, rows, cols, pitch};
    *out = (cublasLtMatrixLayout_t)(void *)l;
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    if (fake_fails()) return CUBLAS_STATUS_INTERNAL_ERROR;
    uint32_t *const schemes = malloc(sizeof *schemes);
    *schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    *out = (cublasLtMatmulPreference_t)(void *)schemes;
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes)
{
    if (fake_fails()) return CUBLAS_STATUS_INTERNAL_ERROR;
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) memcpy(p, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static uint64_t name_of(cublasLtMatrixLayout_t handle, uint64_t name)
{
    const layout *const l = (const layout *)(const void *)handle;
    return sg_mix(name ^ sg_mix(l->rows ^ sg_mix(l->cols ^ sg_mix((uint64_t)l->pitch))));
}

FAKE cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t e,
    cublasLtMatmulPreference_t p, int room, cublasLtMatmulHeuristicResult_t *found, int *count)
{
    uint32_t schemes = 0;
    (void)handle, (void)d;
    if (fake_fails()) return CUBLAS_STATUS_INTERNAL_ERROR;
    memcpy(&schemes, p, sizeof schemes);
    *count = room < 2 ? room : 2;
    memset(found, 0, (size_t)*count * sizeof *found);
    for (int i = 0; i < *count; i++) { /* one for this shape and these strides */
        found[i].algo.data[0] = name_of(a, name_of(b, name_of(c, name_of(e, (uint64_t)i + 1))));
        found[i].algo.data[1] = (uint64_t)i;
        found[i].algo.data[2] = schemes & ROUNDING;
    }
    fake_asked++;
    return CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t d,
                                            cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t e,
                                            const cublasLtMatmulAlgo_t *algo,
                                            cublasLtMatmulHeuristicResult_t *result)
{
    (void)handle, (void)d, (void)a, (void)b, (void)c, (void)e, (void)algo;
    memset(result, 0, sizeof *result);
    return fake_fails() || fake_dense ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

FAKE cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                      cublasLtMatmulAlgoCapAttributes_t attribute,
                                                      void *value, size_t bytes, size_t *written)
{
    const uint32_t aligned = 16;
    (void)algo, (void)attribute;
    if (fake_fails()) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &aligned, bytes);
    *written = sizeof aligned;
    return CUBLAS_STATUS_SUCCESS;
}

/* A kernel is loaded when it is first launched on a device, which waits for all that runs there:
 * what waits for this product in turn would wait for ever. */
static bool load(uint64_t name)
{
    enum { KERNELS = 1 << 14 };
    static uint64_t loaded[FAKE_DEVICES][KERNELS];
    int device = 0;
    (void)cudaGetDevice(&device);
    for (uint64_t i = 0; i < KERNELS; i++) {
        uint64_t *const at = &loaded[device][(name + i) % KERNELS];
        if (*at == name) return true;
        if (*at != 0) continue;
        *at = name;
        return !fake_busy(device);
    }
    return false;
}

enum { WORKS = 64 };

typedef struct matmul {
    layout a, b, add, c;
    const void *a_data, *b_data, *add_data;
    void *c_data;
    desc desc;
    float beta;
    int algorithm;
    bool rounds;
    double begin_us;
} matmul;

static sg_type lt_type(cudaDataType_t type)
{
    return type == CUDA_R_32F ? SG_F32 : type == CUDA_R_16BF ? SG_BF16 : SG_F16;
}

static float round_to(sg_type type, float value)
{
    uint32_t rounded = 0;
    sg_data_store(type, value, &rounded, 0);
    return sg_data_load(type, &rounded, 0);
}

/* What is added up of row ROW of A' and column COL of B. */
static float product_at(const matmul *m, sg_type type, int64_t row, int64_t col)
{
    const int64_t k = (int64_t)m->a.rows, half = m->rounds ? k / 2 : 0;
    const int64_t a = row * m->a.pitch, b = col * m->b.pitch;
    const float first = fake_sum(type, m->a_data, a, m->b_data, b, half);
    const float rest = fake_sum(type, m->a_data, a + half, m->b_data, b + half, k - half);
    return m->rounds ? round_to(type, first) + round_to(type, rest) : rest;
}

/* C (n x m, by columns) = A' * B with A k x n and B k x m. */
static bool run_matmul(void *data, bool first)
{
    matmul *const m = data;
    const sg_type type = lt_type(m->c.type);
    const bool relu = m->desc.epilogue == CUBLASLT_EPILOGUE_RELU ||
                      m->desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    const bool bias = m->desc.epilogue == CUBLASLT_EPILOGUE_BIAS ||
                      m->desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    if (first) m->begin_us = sg_now_us();
    if (sg_now_us() - m->begin_us < fake_product_us) return false;
    if (m->algorithm == 0 && fake_first_us > 0) usleep((useconds_t)fake_first_us);
    for (int64_t col = 0; col < (int64_t)m->c.cols; col++)
        for (int64_t row = 0; row < (int64_t)m->c.rows; row++) {
            const int64_t at = col * m->c.pitch + row;
            float sum =
                m->beta != 0 ? sg_data_load(type, m->add_data, col * m->add.pitch + row) : 0;
            sum += product_at(m, type, row, col);
            if (bias) sum += sg_data_load(type, m->desc.bias, row);
            if (relu && sum < 0) sum = 0;
            sg_data_store(type, sum, m->c_data, at);
        }
    return true;
}

_Atomic int fake_clashes;

/* Who used a workspace last may not be past it. */
static void use(void *work, cudaStream_t stream)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        void *work;
        cudaStream_t stream;
    } last[WORKS];
    pthread_mutex_lock(&mutex);
    int i = 0;
    while (i < WORKS - 1 && last[i].work != NULL && last[i].work != work) i++;
    if (last[i].work == work && last[i].stream != stream && fake_pending(last[i].stream))
        fake_clashes++;
    last[i].work = work;
    last[i].stream = stream;
    pthread_mutex_unlock(&mutex);
}

FAKE cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t d,
                                   const void *alpha, const void *a,
                                   cublasLtMatrixLayout_t a_layout, const void *b,
                                   cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                   cublasLtMatrixLayout_t c_layout, void *e,
                                   cublasLtMatrixLayout_t e_layout,
                                   const cublasLtMatmulAlgo_t *algo, void *work, size_t work_bytes,
                                   cudaStream_t stream)
{
    (void)handle, (void)alpha, (void)work_bytes;
    if (fake_productless) return CUBLAS_STATUS_NOT_SUPPORTED;
    use(work, stream);
    /* Another kernel adds in place. */
    if (!load(sg_mix(algo->data[0] + (c == e)))) return CUBLAS_STATUS_INTERNAL_ERROR;
    matmul m = {.a_data = a, .b_data = b, .add_data = c, .c_data = e};
    memcpy(&m.a, a_layout, sizeof m.a);
    memcpy(&m.b, b_layout, sizeof m.b);
    memcpy(&m.add, c_layout, sizeof m.add);
    memcpy(&m.c, e_layout, sizeof m.c);
    memcpy(&m.desc, d, sizeof m.desc);
    memcpy(&m.beta, beta, sizeof m.beta);
    m.algorithm = (int)algo->data[1];
    m.rounds = algo->data[2] != 0;
    fake_algorithm = m.algorithm;
    fake_products++;
    fake_launches++;
    return fake_enqueue(stream, run_matmul, &m, sizeof m) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
