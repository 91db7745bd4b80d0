/* vendor.c -- see vendor.h.  Row-major C = A * B' is the library's column-major C' = B' * A with B
 * transposed: its first operand is B (k x n, transposed), its second A (k x m), its result n x
 * m. */
#include "backend/cuda/vendor.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/vendor_part.h"

/* ---- Library --------------------------------------------------------------------------------- */

static bool find_all(void *handle, sg_cublaslt *lib)
{
#define FIND(name) sg_cuda_find(handle, #name, &lib->name)
    return FIND(cublasLtCreate) && FIND(cublasLtDestroy) && FIND(cublasLtMatmulDescCreate) &&
           FIND(cublasLtMatmulDescDestroy) && FIND(cublasLtMatmulDescSetAttribute) &&
           FIND(cublasLtMatrixLayoutCreate) && FIND(cublasLtMatrixLayoutDestroy) &&
           FIND(cublasLtMatmulPreferenceCreate) && FIND(cublasLtMatmulPreferenceDestroy) &&
           FIND(cublasLtMatmulPreferenceSetAttribute) && FIND(cublasLtMatmulAlgoGetHeuristic) &&
           FIND(cublasLtMatmulAlgoCheck) && FIND(cublasLtMatmulAlgoCapGetAttribute) &&
           FIND(cublasLtMatmul);
#undef FIND
}

/* The library of the headers' version, or the one that the process has. */
static bool load(sg_cublaslt *lib)
{
    char name[32];
    if (find_all(RTLD_DEFAULT, lib)) return true;
    for (int version = CUBLAS_VER_MAJOR; version >= 12; version--) {
        sg_text text = {name, sizeof name, 0};
        sg_text_add(&text, "libcublasLt.so.%d", version);
        void *const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL) continue;
        if (find_all(handle, lib)) return true;
        dlclose(handle);
    }
    return false;
}

shingle_status sg_vendor_check(cublasStatus_t status, const char *call)
{
    if (status == CUBLAS_STATUS_SUCCESS) return SHINGLE_OK;
    const char *const name = strstr(call, "cublas"); /* behind what holds the library */
    return sg_fail(status == CUBLAS_STATUS_NOT_SUPPORTED ? SHINGLE_EUNSUPPORTED : SHINGLE_EBACKEND,
                   "%.*s: cuBLAS status %d", (int)strcspn(name, "("), name, (int)status);
}

shingle_status sg_vendor_open(sg_cuda *cuda, sg_cuda_rank *rank, sg_vendor **vendor_out)
{
    sg_vendor *const v = calloc(1, sizeof *v);
    if (v == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for the vendor's product");
    v->cuda = cuda;
    v->rank = rank;
    if (!load(&v->lib)) {
        sg_log(SG_LOG_WARN, "libcublasLt is not found: plain products use our kernels");
        free(v);
        return SHINGLE_OK;
    }
    shingle_status status = sg_vendor_check(v->lib.cublasLtCreate(&v->handle), "cublasLtCreate");
    if (status == SHINGLE_OK)
        status = sg_cuda_check(cudaMalloc(&v->work, SG_VENDOR_WORK), "cudaMalloc()");
    if (status != SHINGLE_OK) {
        sg_vendor_close(v);
        return status;
    }
    *vendor_out = v;
    return SHINGLE_OK;
}

void sg_vendor_close(sg_vendor *v)
{
    if (v == NULL) return;
    if (v->handle != NULL) v->lib.cublasLtDestroy(v->handle);
    if (v->work != NULL) (void)cudaFree(v->work);
    free(v);
}

/* ---- Products -------------------------------------------------------------------------------- */

static cudaDataType_t data_type(sg_type type)
{
    return type == SG_F32 ? CUDA_R_32F : type == SG_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

void sg_product_drop(const sg_product *p, sg_product_way *w)
{
    const sg_cublaslt *const lib = &p->vendor->lib;
    if (w->a != NULL) lib->cublasLtMatrixLayoutDestroy(w->a);
    if (w->b != NULL) lib->cublasLtMatrixLayoutDestroy(w->b);
    if (w->add != NULL) lib->cublasLtMatrixLayoutDestroy(w->add);
    if (w->c != NULL) lib->cublasLtMatrixLayoutDestroy(w->c);
    *w = (sg_product_way){.a = NULL};
}

static shingle_status set(const sg_product *p, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t bytes)
{
    SG_LT(p->vendor->lib.cublasLtMatmulDescSetAttribute(p->desc, attribute, value, bytes));
    return SHINGLE_OK;
}

static shingle_status describe(sg_product *p)
{
    const sg_cublaslt *const lib = &p->vendor->lib;
    const cublasOperation_t yes = CUBLAS_OP_T;
    const cublasOperation_t no = CUBLAS_OP_N;
    const cudaDataType_t type = data_type(p->type);
    SG_LT(lib->cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    SG_TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSA, &yes, sizeof yes));
    SG_TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSB, &no, sizeof no));
    if (!p->bias && p->act == SG_ACT_NONE) return SHINGLE_OK;
    const cublasLtEpilogue_t epilogue = !p->bias                ? CUBLASLT_EPILOGUE_RELU
                                        : p->act == SG_ACT_NONE ? CUBLASLT_EPILOGUE_BIAS
                                                                : CUBLASLT_EPILOGUE_RELU_BIAS;
    SG_TRY(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
}

shingle_status sg_product_lay_out(const sg_product *p, const sg_product_form *f, sg_product_way *w)
{
    const sg_cublaslt *const lib = &p->vendor->lib;
    const cudaDataType_t type = data_type(p->type);
    const uint64_t m = (uint64_t)p->m;
    const uint64_t n = (uint64_t)p->n;
    const uint64_t k = (uint64_t)p->k;
    SG_LT(lib->cublasLtMatrixLayoutCreate(&w->b, type, k, n, f->b_stride));
    SG_LT(lib->cublasLtMatrixLayoutCreate(&w->a, type, k, m, f->a_stride));
    SG_LT(lib->cublasLtMatrixLayoutCreate(&w->add, type, n, m, f->add_stride));
    SG_LT(lib->cublasLtMatrixLayoutCreate(&w->c, type, n, m, f->c_stride));
    w->form = *f;
    return SHINGLE_OK;
}

shingle_status sg_product_propose(const sg_product *p, const sg_product_way *w,
                                  cublasLtMatmulHeuristicResult_t *found, int room, int *count_out)
{
    static const cublasLtMatmulPreferenceAttributes_t operands[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const sg_cublaslt *const lib = &p->vendor->lib;
    cublasLtMatmulPreference_t preference = NULL;
    const size_t work = SG_VENDOR_WORK;
    /* No part of k is rounded before all are added: sums are in f32. */
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    SG_LT(lib->cublasLtMatmulPreferenceCreate(&preference));
    cublasStatus_t status = lib->cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work, sizeof work);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lib->cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status = lib->cublasLtMatmulPreferenceSetAttribute(
            preference, operands[i], &w->form.aligned, sizeof w->form.aligned);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lib->cublasLtMatmulAlgoGetHeuristic(p->vendor->handle, p->desc, w->b, w->a, w->add,
                                                     w->c, preference, room, found, count_out);
    lib->cublasLtMatmulPreferenceDestroy(preference);
    SG_TRY(sg_vendor_check(status, "cublasLtMatmulAlgoGetHeuristic"));
    if (*count_out > 0) return SHINGLE_OK;
    return sg_fail(SHINGLE_EUNSUPPORTED, "cuBLASLt has no algorithm for %lld x %lld x %lld",
                   (long long)p->m, (long long)p->n, (long long)p->k);
}

shingle_status sg_product_multiply(const sg_product *p, const sg_product_way *w,
                                   const cublasLtMatmulAlgo_t *algo, const sg_operands *o,
                                   void *work, cudaStream_t stream)
{
    const float one = 1;
    const float beta = p->accumulate ? 1 : 0;
    if (p->bias) SG_TRY(set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias, sizeof o->bias));
    SG_LT(p->vendor->lib.cublasLtMatmul(p->vendor->handle, p->desc, &one, o->b, w->b, o->a, w->a,
                                        &beta, o->add, w->add, o->c, w->c, algo, work,
                                        SG_VENDOR_WORK, stream));
    return SHINGLE_OK;
}

/* ---- The calls ------------------------------------------------------------------------------- */

void sg_product_free(sg_product *p)
{
    if (p == NULL) return;
    sg_product_drop(p, &p->bound);
    sg_product_drop(p, &p->other);
    if (p->desc != NULL) p->vendor->lib.cublasLtMatmulDescDestroy(p->desc);
    free(p);
}

shingle_status sg_product_make(sg_vendor *vendor, sg_choice **list, const sg_product_ask *a,
                               bool busy, sg_product **product_out)
{
    sg_product *const p = calloc(1, sizeof *p);
    if (p == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a product");
    *p = (sg_product){.vendor = vendor,
                      .type = a->type,
                      .m = a->m,
                      .n = a->n,
                      .k = a->k,
                      .bias = a->bias,
                      .accumulate = a->accumulate,
                      .in_place = a->in_place,
                      .act = a->act};
    const sg_product_form expected = {a->a_stride, a->b_stride, a->add_stride, a->c_stride,
                                      a->aligned};
    shingle_status status = describe(p);
    if (status == SHINGLE_OK) status = sg_product_lay_out(p, &expected, &p->bound);
    if (status == SHINGLE_OK) status = sg_product_choose(p, a, list, vendor->rank->service, busy);
    if (status != SHINGLE_OK) {
        sg_product_free(p);
        return status;
    }
    *product_out = p;
    return SHINGLE_OK;
}

static uint32_t alignment(const sg_operands *o)
{
    const uintptr_t all = (uintptr_t)o->a | (uintptr_t)o->b | (uintptr_t)o->add | (uintptr_t)o->c |
                          (uintptr_t)o->bias;
    uint32_t bytes = SG_VENDOR_ALIGNED;
    while (bytes > 2 && all % bytes != 0) bytes /= 2;
    return bytes;
}

static sg_product_form form_of(const sg_operands *o)
{
    return (sg_product_form){o->a_stride, o->b_stride, o->add != NULL ? o->add_stride : o->c_stride,
                             o->c_stride, alignment(o)};
}

static bool fits(const sg_product_way *w, const sg_product_form *wanted)
{
    const sg_product_form *const f = &w->form;
    return w->a != NULL && wanted->a_stride == f->a_stride && wanted->b_stride == f->b_stride &&
           wanted->add_stride == f->add_stride && wanted->c_stride == f->c_stride &&
           wanted->aligned >= f->aligned;
}

/* Bytes that the algorithm of BOUND wants addresses and rows to be multiples of. */
static int64_t alignment_wanted(const sg_product *p)
{
    static const cublasLtMatmulAlgoCapAttributes_t operands[4] = {
        CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES};
    uint32_t most = 1;
    for (int i = 0; i < 4; i++) {
        uint32_t bytes = SG_VENDOR_ALIGNED;
        size_t written = 0;
        if (p->vendor->lib.cublasLtMatmulAlgoCapGetAttribute(&p->bound.algo, operands[i], &bytes,
                                                             sizeof bytes,
                                                             &written) != CUBLAS_STATUS_SUCCESS)
            bytes = SG_VENDOR_ALIGNED;
        if (most < bytes) most = bytes;
    }
    return most;
}

/* Takes the algorithm that is loaded for another form, if it serves that. */
static bool adopt(sg_product *p, const sg_product_form *wanted)
{
    cublasLtMatmulHeuristicResult_t result;
    const int64_t bytes = sg_type_bytes(p->type);
    const int64_t all = wanted->a_stride | wanted->b_stride | wanted->add_stride | wanted->c_stride;
    if (!p->loaded) return false;
    const int64_t aligned = alignment_wanted(p);
    if (all * bytes % aligned != 0 || wanted->aligned < aligned) return false;
    sg_product_way next = {.a = NULL};
    const sg_cublaslt *const lib = &p->vendor->lib;
    const bool serves =
        sg_product_lay_out(p, wanted, &next) == SHINGLE_OK &&
        lib->cublasLtMatmulAlgoCheck(p->vendor->handle, p->desc, next.b, next.a, next.add, next.c,
                                     &p->bound.algo, &result) == CUBLAS_STATUS_SUCCESS &&
        result.workspaceSize <= SG_VENDOR_WORK;
    sg_product_drop(p, serves ? &p->other : &next);
    if (!serves) return false;
    next.algo = p->bound.algo;
    p->other = next;
    return true;
}

bool sg_product_fits(sg_product *p, const sg_operands *o)
{
    const sg_product_form wanted = form_of(o);
    return fits(&p->bound, &wanted) || fits(&p->other, &wanted) || adopt(p, &wanted);
}

/* By the library's first choice for that form.  P is as it was if there is none. */
static shingle_status reshape(sg_product *p, const sg_product_form *wanted)
{
    sg_product_way next = {.a = NULL};
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    shingle_status status = sg_product_lay_out(p, wanted, &next);
    if (status == SHINGLE_OK) status = sg_product_propose(p, &next, &found, 1, &count);
    sg_product_drop(p, status == SHINGLE_OK ? &p->other : &next);
    SG_TRY(status);
    next.algo = found.algo;
    p->other = next;
    return SHINGLE_OK;
}

shingle_status sg_product_run(sg_product *p, const sg_operands *o, cudaStream_t stream)
{
    const sg_product_form wanted = form_of(o);
    const bool as_bound = fits(&p->bound, &wanted);
    const sg_product_way *const w = as_bound ? &p->bound : &p->other;
    sg_operands to_itself = *o;
    if (o->add == NULL) to_itself.add = o->c;
    if (!as_bound && !fits(&p->other, &wanted) && !adopt(p, &wanted)) SG_TRY(reshape(p, &wanted));
    return sg_product_multiply(p, w, &w->algo, &to_itself, p->vendor->work, stream);
}
