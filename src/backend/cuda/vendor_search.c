/* vendor_search.c -- which algorithm of cuBLASLt's is the fastest for a product, by timing those
 * that it proposes; what was found holds for the group. */
#include <stdlib.h>

#include "backend/cuda/vendor_part.h"
#include "kernel/fill.h"

enum { ALGORITHMS = 8, TIMED_RUNS = 3 };

/* From here on what a first run costs more is a small part of it. */
static const float long_ms = 3;

/* The fastest algorithm of a shape. */
struct sg_choice {
    sg_choice *next;
    sg_product_ask ask;
    cublasLtMatmulAlgo_t algo;
    double us;
    uint32_t devices; /* bit mask: where its kernel is loaded, also for rows that lie apart */
    bool dense;       /* it does not serve such rows */
};

void sg_vendor_forget(sg_choice *choice)
{
    while (choice != NULL) {
        sg_choice *const next = choice->next;
        free(choice);
        choice = next;
    }
}

/* ---- Timing ---------------------------------------------------------------------------------- */

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

/* Rows further apart than they are expected to be. */
static sg_product_form form_apart(const sg_product *p)
{
    sg_product_form f = p->bound.form;
    const int64_t more = SG_VENDOR_ALIGNED / sg_type_bytes(p->type);
    f.a_stride += more, f.b_stride += more, f.add_stride += more, f.c_stride += more;
    return f;
}

static shingle_status make_scratch(const sg_product *p, cudaStream_t stream, scratch *s)
{
    const int64_t bytes = sg_type_bytes(p->type);
    const sg_product_form f = form_apart(p);
    const int64_t a = sg_round_up(span(p->m, p->k, f.a_stride) * bytes, SG_VENDOR_ALIGNED);
    const int64_t b = sg_round_up(span(p->n, p->k, f.b_stride) * bytes, SG_VENDOR_ALIGNED);
    const int64_t add = sg_round_up(span(p->m, p->n, f.add_stride) * bytes, SG_VENDOR_ALIGNED);
    const int64_t c = sg_round_up(span(p->m, p->n, f.c_stride) * bytes, SG_VENDOR_ALIGNED);
    const int64_t bias = sg_round_up(p->n * bytes, SG_VENDOR_ALIGNED);
    void *memory = NULL;
    SG_CUDA(cudaMalloc(&memory, (size_t)(a + b + add + c + bias) + SG_VENDOR_WORK));
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
        SG_TRY(sg_product_multiply(p, &p->bound, algo, &s->operands, s->work, stream));
    SG_CUDA(cudaEventRecord(s->end, stream));
    SG_TRY(sg_cuda_settle(p->vendor->rank));
    SG_CUDA(cudaEventElapsedTime(ms_out, s->begin, s->end));
    *ms_out /= (float)runs;
    return SHINGLE_OK;
}

/* Has what the algorithm needs for rows that lie apart loaded, and finds out whether it serves
 * them. */
static shingle_status load_apart(sg_product *p, const scratch *s, cudaStream_t stream)
{
    const sg_product_form f = form_apart(p);
    sg_product_way w = {.a = NULL};
    shingle_status status = sg_product_lay_out(p, &f, &w);
    if (status == SHINGLE_OK) {
        status = sg_product_multiply(p, &w, &p->bound.algo, &s->operands, s->work, stream);
        p->loaded = status == SHINGLE_OK;
        if (status == SHINGLE_EUNSUPPORTED) status = SHINGLE_OK;
    }
    sg_product_drop(p, &w);
    return status;
}

/* The library's first choice. */
static shingle_status take_first(sg_product *p)
{
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    SG_TRY(sg_product_propose(p, &p->bound, &found, 1, &count));
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
    SG_TRY(sg_product_propose(p, &p->bound, found, ALGORITHMS, &count));
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
    shingle_status end = best[winner] < never ? status : status != SHINGLE_OK ? status : failure;
    if (end == SHINGLE_OK) end = load_apart(p, &s, stream);
    if (end == SHINGLE_OK) end = sg_cuda_settle(p->vendor->rank);
    drop_scratch(p, &s);
    return end;
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
static shingle_status warm(sg_product *p, cudaStream_t stream, bool *loaded_out)
{
    scratch s = {.memory = NULL};
    shingle_status status = make_scratch(p, stream, &s);
    *loaded_out = status == SHINGLE_OK;
    if (status == SHINGLE_ENOMEM) {
        drop_scratch(p, &s);
        return SHINGLE_OK;
    }
    if (status == SHINGLE_OK)
        status = sg_product_multiply(p, &p->bound, &p->bound.algo, &s.operands, s.work, stream);
    if (status == SHINGLE_OK) status = load_apart(p, &s, stream);
    if (status == SHINGLE_OK) status = sg_cuda_settle(p->vendor->rank);
    drop_scratch(p, &s);
    return status;
}

shingle_status sg_product_choose(sg_product *p, const sg_product_ask *wanted, sg_choice **list,
                                 cudaStream_t stream, bool busy)
{
    sg_choice *known = *list;
    while (known != NULL && !is_same(&known->ask, wanted)) known = known->next;
    if (known != NULL) {
        p->bound.algo = known->algo;
        p->loaded = (known->devices & current_bit()) != 0 && !known->dense;
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
    *fresh = (sg_choice){.next = *list,
                         .ask = *wanted,
                         .algo = p->bound.algo,
                         .us = us,
                         .devices = current_bit(),
                         .dense = !p->loaded};
    *list = fresh;
    sg_log(SG_LOG_DEBUG, "cuBLASLt: %lld x %lld x %lld takes %.1f us", (long long)p->m,
           (long long)p->n, (long long)p->k, us);
    return SHINGLE_OK;
}
