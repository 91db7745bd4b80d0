/* vendor.c -- see vendor.h.  Row-major C = A * B' is the library's column-major C' = B' * A with B
 * transposed: its first operand is B (k x n, transposed), its second A (k x m), its result n x
 * m. */
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/vendor.h"
#include "kernel/fill.h"

enum { ALGORITHMS = 8, TIMED_RUNS = 3, WHOLE = 256 };

/* From here on what a first run costs more is a small part of it. */
static const float long_ms = 3;

static const size_t work_bytes = (size_t)64 << 20;

/* ---- Library --------------------------------------------------------------------------------- */

typedef struct library {
    cublasStatus_t (*cublasLtCreate)(cublasLtHandle_t *);
    cublasStatus_t (*cublasLtDestroy)(cublasLtHandle_t);
    cublasStatus_t (*cublasLtMatmulDescCreate)(cublasLtMatmulDesc_t *, cublasComputeType_t,
                                               cudaDataType_t);
    cublasStatus_t (*cublasLtMatmulDescDestroy)(cublasLtMatmulDesc_t);
    cublasStatus_t (*cublasLtMatmulDescSetAttribute)(cublasLtMatmulDesc_t,
                                                     cublasLtMatmulDescAttributes_t, const void *,
                                                     size_t);
    cublasStatus_t (*cublasLtMatrixLayoutCreate)(cublasLtMatrixLayout_t *, cudaDataType_t, uint64_t,
                                                 uint64_t, int64_t);
    cublasStatus_t (*cublasLtMatrixLayoutDestroy)(cublasLtMatrixLayout_t);
    cublasStatus_t (*cublasLtMatmulPreferenceCreate)(cublasLtMatmulPreference_t *);
    cublasStatus_t (*cublasLtMatmulPreferenceDestroy)(cublasLtMatmulPreference_t);
    cublasStatus_t (*cublasLtMatmulPreferenceSetAttribute)(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t,
                                                           const void *, size_t);
    cublasStatus_t (*cublasLtMatmulAlgoGetHeuristic)(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatmulPreference_t, int,
                                                     cublasLtMatmulHeuristicResult_t *, int *);
    cublasStatus_t (*cublasLtMatmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *,
                                     const void *, cublasLtMatrixLayout_t, const void *,
                                     cublasLtMatrixLayout_t, const void *, const void *,
                                     cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t,
                                     const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t);
} library;

struct sg_vendor {
    sg_cuda *cuda;
    sg_cuda_rank *rank;
    library lib;
    cublasLtHandle_t handle;
    void *work;
};

static bool find_all(void *handle, library *lib)
{
#define FIND(name) sg_cuda_find(handle, #name, &lib->name)
    return FIND(cublasLtCreate) && FIND(cublasLtDestroy) && FIND(cublasLtMatmulDescCreate) &&
           FIND(cublasLtMatmulDescDestroy) && FIND(cublasLtMatmulDescSetAttribute) &&
           FIND(cublasLtMatrixLayoutCreate) && FIND(cublasLtMatrixLayoutDestroy) &&
           FIND(cublasLtMatmulPreferenceCreate) && FIND(cublasLtMatmulPreferenceDestroy) &&
           FIND(cublasLtMatmulPreferenceSetAttribute) && FIND(cublasLtMatmulAlgoGetHeuristic) &&
           FIND(cublasLtMatmul);
#undef FIND
}

/* The library of the headers' version, or the one that the process has. */
static bool load(library *lib)
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

static shingle_status check(cublasStatus_t status, const char *call)
{
    if (status == CUBLAS_STATUS_SUCCESS) return SHINGLE_OK;
    const char *const name = strstr(call, "cublas"); /* behind what holds the library */
    return sg_fail(status == CUBLAS_STATUS_NOT_SUPPORTED ? SHINGLE_EUNSUPPORTED : SHINGLE_EBACKEND,
                   "%.*s: cuBLAS status %d", (int)strcspn(name, "("), name, (int)status);
}
#define LT(call) SG_TRY(check((call), #call))

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
    shingle_status status = check(v->lib.cublasLtCreate(&v->handle), "cublasLtCreate");
    if (status == SHINGLE_OK)
        status = sg_cuda_check(cudaMalloc(&v->work, work_bytes), "cudaMalloc()");
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

/* What a product is asked for with: algorithms hold for these strides and this alignment. */
typedef struct form {
    int64_t a_stride, b_stride, add_stride, c_stride;
    uint32_t aligned; /* bytes that all addresses are multiples of */
} form;

/* How a product in such a form is told to the library, and by which algorithm it is done. */
typedef struct way {
    form form;
    cublasLtMatrixLayout_t a, b, add, c; /* NULL: none yet */
    cublasLtMatmulAlgo_t algo;
} way;

struct sg_product {
    sg_vendor *vendor;
    sg_type type;
    int64_t m, n, k;
    bool bias, accumulate, in_place;
    sg_act act;
    cublasLtMatmulDesc_t desc;
    way bound; /* as it was made: nothing that comes later changes its algorithm */
    way other; /* the latest form that this does not fit */
};

/* The fastest algorithm of a shape. */
struct sg_choice {
    sg_choice *next;
    sg_product_ask ask;
    cublasLtMatmulAlgo_t algo;
    double us;
    uint32_t devices; /* bit mask: where its kernel is loaded */
};

void sg_vendor_forget(sg_choice *choice)
{
    while (choice != NULL) {
        sg_choice *const next = choice->next;
        free(choice);
        choice = next;
    }
}

static cudaDataType_t data_type(sg_type type)
{
    return type == SG_F32 ? CUDA_R_32F : type == SG_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static void drop_way(const sg_product *p, way *w)
{
    const library *const lib = &p->vendor->lib;
    if (w->a != NULL) lib->cublasLtMatrixLayoutDestroy(w->a);
    if (w->b != NULL) lib->cublasLtMatrixLayoutDestroy(w->b);
    if (w->add != NULL) lib->cublasLtMatrixLayoutDestroy(w->add);
    if (w->c != NULL) lib->cublasLtMatrixLayoutDestroy(w->c);
    *w = (way){.a = NULL};
}

static shingle_status set(const sg_product *p, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t bytes)
{
    LT(p->vendor->lib.cublasLtMatmulDescSetAttribute(p->desc, attribute, value, bytes));
    return SHINGLE_OK;
}

static shingle_status describe(sg_product *p)
{
    const library *const lib = &p->vendor->lib;
    const cublasOperation_t yes = CUBLAS_OP_T;
    const cublasOperation_t no = CUBLAS_OP_N;
    const cudaDataType_t type = data_type(p->type);
    LT(lib->cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    SG_TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSA, &yes, sizeof yes));
    SG_TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSB, &no, sizeof no));
    if (!p->bias && p->act == SG_ACT_NONE) return SHINGLE_OK;
    const cublasLtEpilogue_t epilogue = !p->bias                ? CUBLASLT_EPILOGUE_RELU
                                        : p->act == SG_ACT_NONE ? CUBLASLT_EPILOGUE_BIAS
                                                                : CUBLASLT_EPILOGUE_RELU_BIAS;
    SG_TRY(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
}

static shingle_status lay_out(const sg_product *p, const form *f, way *w)
{
    const library *const lib = &p->vendor->lib;
    const cudaDataType_t type = data_type(p->type);
    const uint64_t m = (uint64_t)p->m;
    const uint64_t n = (uint64_t)p->n;
    const uint64_t k = (uint64_t)p->k;
    LT(lib->cublasLtMatrixLayoutCreate(&w->b, type, k, n, f->b_stride));
    LT(lib->cublasLtMatrixLayoutCreate(&w->a, type, k, m, f->a_stride));
    LT(lib->cublasLtMatrixLayoutCreate(&w->add, type, n, m, f->add_stride));
    LT(lib->cublasLtMatrixLayoutCreate(&w->c, type, n, m, f->c_stride));
    w->form = *f;
    return SHINGLE_OK;
}

static shingle_status ask(const sg_product *p, const way *w, cublasLtMatmulHeuristicResult_t *found,
                          int room, int *count_out)
{
    static const cublasLtMatmulPreferenceAttributes_t operands[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const library *const lib = &p->vendor->lib;
    cublasLtMatmulPreference_t preference = NULL;
    /* No part of k is rounded before all are added: sums are in f32. */
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    LT(lib->cublasLtMatmulPreferenceCreate(&preference));
    cublasStatus_t status = lib->cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work_bytes, sizeof work_bytes);
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
    SG_TRY(check(status, "cublasLtMatmulAlgoGetHeuristic"));
    if (*count_out > 0) return SHINGLE_OK;
    return sg_fail(SHINGLE_EUNSUPPORTED, "cuBLASLt has no algorithm for %lld x %lld x %lld",
                   (long long)p->m, (long long)p->n, (long long)p->k);
}

/* WORK is nobody else's until STREAM is past it. */
static shingle_status multiply(const sg_product *p, const way *w, const cublasLtMatmulAlgo_t *algo,
                               const sg_operands *o, void *work, cudaStream_t stream)
{
    const float one = 1;
    const float beta = p->accumulate ? 1 : 0;
    if (p->bias) SG_TRY(set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias, sizeof o->bias));
    LT(p->vendor->lib.cublasLtMatmul(p->vendor->handle, p->desc, &one, o->b, w->b, o->a, w->a,
                                     &beta, o->add, w->add, o->c, w->c, algo, work, work_bytes,
                                     stream));
    return SHINGLE_OK;
}

/* ---- Search ---------------------------------------------------------------------------------- */

/* Operands of the search: what is in them does not matter to which algorithm is faster,
 * but it must not be zero, which costs less power.  The rank's workspace belongs to runs,
 * and some may be on their way. */
typedef struct scratch {
    char *memory;
    sg_operands operands;
    void *work;
    cudaEvent_t begin, end;
} scratch;

static void drop_scratch(const sg_product *p, scratch *s)
{
    sg_cuda_drop(p->vendor->cuda, s->memory);
    if (s->begin != NULL) (void)cudaEventDestroy(s->begin);
    if (s->end != NULL) (void)cudaEventDestroy(s->end);
}

/* Elements from the first to the last of ROWS rows. */
static int64_t span(int64_t rows, int64_t cols, int64_t stride)
{
    return rows > 0 ? (rows - 1) * stride + cols : 0;
}

static shingle_status make_scratch(const sg_product *p, cudaStream_t stream, scratch *s)
{
    const int64_t bytes = sg_type_bytes(p->type);
    const int64_t a = sg_round_up(span(p->m, p->k, p->bound.form.a_stride) * bytes, WHOLE);
    const int64_t b = sg_round_up(span(p->n, p->k, p->bound.form.b_stride) * bytes, WHOLE);
    const int64_t add = sg_round_up(span(p->m, p->n, p->bound.form.add_stride) * bytes, WHOLE);
    const int64_t c = sg_round_up(span(p->m, p->n, p->bound.form.c_stride) * bytes, WHOLE);
    const int64_t bias = sg_round_up(p->n * bytes, WHOLE);
    void *memory = NULL;
    SG_CUDA(cudaMalloc(&memory, (size_t)(a + b + add + c + bias) + work_bytes));
    s->memory = memory;
    SG_CUDA(sg_kernel_normal((int32_t)p->type, s->memory, (a + b) / bytes, 7, stream));
    SG_CUDA(cudaMemsetAsync(s->memory + a + b, 0, (size_t)(add + c + bias), stream));
    SG_CUDA(cudaEventCreate(&s->begin));
    SG_CUDA(cudaEventCreate(&s->end));
    char *const sum = s->memory + a + b;
    /* The library may have another kernel for a C that is added to in place. */
    const bool apart = p->accumulate && !p->in_place;
    s->operands = (sg_operands){.a = s->memory,
                                .b = s->memory + a,
                                .add = apart ? sum : sum + add,
                                .c = sum + add,
                                .bias = sum + add + c};
    s->work = sum + add + c + bias;
    return SHINGLE_OK;
}

/* Milliseconds of one of RUNS. */
static shingle_status time_one(const sg_product *p, const cublasLtMatmulAlgo_t *algo,
                               const scratch *s, int runs, cudaStream_t stream, float *ms_out)
{
    SG_CUDA(cudaEventRecord(s->begin, stream));
    for (int i = 0; i < runs; i++)
        SG_TRY(multiply(p, &p->bound, algo, &s->operands, s->work, stream));
    SG_CUDA(cudaEventRecord(s->end, stream));
    SG_TRY(sg_cuda_settle(p->vendor->rank));
    SG_CUDA(cudaEventElapsedTime(ms_out, s->begin, s->end));
    *ms_out /= (float)runs;
    return SHINGLE_OK;
}

/* The library's first choice. */
static shingle_status take_first(sg_product *p)
{
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    SG_TRY(ask(p, &p->bound, &found, 1, &count));
    p->bound.algo = found.algo;
    return SHINGLE_OK;
}

static const float never = 1e9f; /* in milliseconds, of what does not run */

/* BEST of each in milliseconds, and of those that do not run why in *FAILURE_OUT.  Two rounds over
 * all of them; the better one of each counts.  Of long products, whose first runs are no slower,
 * only those near the best are run again, once a round.  A GPU that hangs is an error at once. */
static shingle_status time_all(const sg_product *p, const cublasLtMatmulHeuristicResult_t *found,
                               int count, const scratch *s, cudaStream_t stream, float *best,
                               shingle_status *failure_out)
{
    float least = never;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < count; i++) {
            float ms = never;
            const bool is_long = least > long_ms;
            if (round > 0 && (best[i] >= never || (is_long && best[i] > 1.25f * least))) continue;
            const int runs = round == 0 || is_long ? 1 : TIMED_RUNS;
            const shingle_status status = time_one(p, &found[i].algo, s, runs, stream, &ms);
            if (status == SHINGLE_ETIMEOUT) return status;
            if (status != SHINGLE_OK) *failure_out = status, ms = never;
            if (round <= 1 || ms < best[i]) best[i] = ms; /* the first round warms up */
            if (round == 0 && ms < least) least = ms;
        }
    return least < never ? SHINGLE_OK : sg_cuda_settle(p->vendor->rank);
}

/* The first to be best.  *US_OUT stays 0 if there was no memory to time them. */
static shingle_status search(sg_product *p, cudaStream_t stream, double *us_out)
{
    cublasLtMatmulHeuristicResult_t found[ALGORITHMS];
    float best[ALGORITHMS] = {0};
    scratch s = {.memory = NULL};
    shingle_status failure = SHINGLE_OK;
    int count = 0;
    int winner = 0;
    SG_TRY(ask(p, &p->bound, found, ALGORITHMS, &count));
    p->bound.algo = found[0].algo;
    if (make_scratch(p, stream, &s) != SHINGLE_OK) { /* then the library's first choice it is */
        drop_scratch(p, &s);
        return SHINGLE_OK;
    }
    const shingle_status status = time_all(p, found, count, &s, stream, best, &failure);
    for (int i = 1; i < count; i++)
        if (best[i] < best[winner]) winner = i;
    p->bound.algo = found[winner].algo;
    *us_out = (double)best[winner] * 1e3;
    drop_scratch(p, &s);
    if (status != SHINGLE_OK) return status;
    return best[winner] < never ? SHINGLE_OK : failure;
}

static bool is_same(const sg_product_ask *a, const sg_product_ask *b)
{
    return a->type == b->type && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->bias == b->bias && a->accumulate == b->accumulate && a->in_place == b->in_place &&
           a->act == b->act && a->a_stride == b->a_stride && a->b_stride == b->b_stride &&
           a->add_stride == b->add_stride && a->c_stride == b->c_stride && a->aligned == b->aligned;
}

static uint32_t current_bit(void)
{
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    return 1u << device % 32;
}

/* Has the kernel loaded where it was not timed; without memory for that it loads when it first
 * runs. */
static shingle_status warm(const sg_product *p, cudaStream_t stream, bool *loaded_out)
{
    scratch s = {.memory = NULL};
    shingle_status status = make_scratch(p, stream, &s);
    *loaded_out = status == SHINGLE_OK;
    if (status == SHINGLE_ENOMEM) {
        drop_scratch(p, &s);
        return SHINGLE_OK;
    }
    if (status == SHINGLE_OK)
        status = multiply(p, &p->bound, &p->bound.algo, &s.operands, s.work, stream);
    if (status == SHINGLE_OK) status = sg_cuda_settle(p->vendor->rank);
    drop_scratch(p, &s);
    return status;
}

/* BUSY: kernels may have all SMs, and nothing can be tried until they end. */
static shingle_status choose(sg_product *p, const sg_product_ask *wanted, sg_choice **list,
                             cudaStream_t stream, bool busy)
{
    sg_choice *known = *list;
    while (known != NULL && !is_same(&known->ask, wanted)) known = known->next;
    if (known != NULL) {
        p->bound.algo = known->algo;
        if (busy || (known->devices & current_bit()) != 0) return SHINGLE_OK;
        bool loaded = false;
        SG_TRY(warm(p, stream, &loaded));
        if (loaded) known->devices |= current_bit();
        return SHINGLE_OK;
    }
    double us = 0;
    if (busy) return take_first(p);
    SG_TRY(search(p, stream, &us));
    if (us <= 0) return SHINGLE_OK; /* not kept: there may be memory next time */
    sg_choice *const fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to keep an algorithm");
    *fresh = (sg_choice){
        .next = *list, .ask = *wanted, .algo = p->bound.algo, .us = us, .devices = current_bit()};
    *list = fresh;
    sg_log(SG_LOG_DEBUG, "cuBLASLt: %lld x %lld x %lld takes %.1f us", (long long)p->m,
           (long long)p->n, (long long)p->k, us);
    return SHINGLE_OK;
}

/* ---- The calls ------------------------------------------------------------------------------- */

void sg_product_free(sg_product *p)
{
    if (p == NULL) return;
    drop_way(p, &p->bound);
    drop_way(p, &p->other);
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
    const form expected = {a->a_stride, a->b_stride, a->add_stride, a->c_stride, a->aligned};
    shingle_status status = describe(p);
    if (status == SHINGLE_OK) status = lay_out(p, &expected, &p->bound);
    if (status == SHINGLE_OK) status = choose(p, a, list, vendor->rank->service, busy);
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
    uint32_t bytes = WHOLE;
    while (bytes > 2 && all % bytes != 0) bytes /= 2;
    return bytes;
}

static form form_of(const sg_operands *o)
{
    return (form){o->a_stride, o->b_stride, o->add != NULL ? o->add_stride : o->c_stride,
                  o->c_stride, alignment(o)};
}

static bool fits(const way *w, const form *wanted)
{
    const form *const f = &w->form;
    return w->a != NULL && wanted->a_stride == f->a_stride && wanted->b_stride == f->b_stride &&
           wanted->add_stride == f->add_stride && wanted->c_stride == f->c_stride &&
           wanted->aligned >= f->aligned;
}

bool sg_product_fits(const sg_product *p, const sg_operands *o)
{
    const form wanted = form_of(o);
    return fits(&p->bound, &wanted);
}

/* By the library's first choice for that form.  P is as it was if there is none. */
static shingle_status reshape(sg_product *p, const form *wanted)
{
    way next = {.a = NULL};
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    shingle_status status = lay_out(p, wanted, &next);
    if (status == SHINGLE_OK) status = ask(p, &next, &found, 1, &count);
    drop_way(p, status == SHINGLE_OK ? &p->other : &next);
    SG_TRY(status);
    next.algo = found.algo;
    p->other = next;
    return SHINGLE_OK;
}

shingle_status sg_product_run(sg_product *p, const sg_operands *o, cudaStream_t stream)
{
    const form wanted = form_of(o);
    const bool as_bound = fits(&p->bound, &wanted);
    const way *const w = as_bound ? &p->bound : &p->other;
    sg_operands to_itself = *o;
    if (o->add == NULL) to_itself.add = o->c;
    if (!as_bound && !fits(&p->other, &wanted)) SG_TRY(reshape(p, &wanted));
    return multiply(p, w, &w->algo, &to_itself, p->vendor->work, stream);
}
