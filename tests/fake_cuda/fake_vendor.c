/* fake_vendor.c -- the entries of NCCL and cuBLASLt that are used, on the host; see fake.h. */
#include <cublasLt.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#include "core/data.h"
#include "fake.h"
#include "fake_words.h"

/* ---- NCCL: a collective is carried out when all ranks have come to it ------------------------ */

enum { SEQUENCES = 64 };

typedef enum what { GATHER, SCATTER, REDUCE, BROADCAST, SUM } what;

typedef struct call {
    what what;
    const void *from;
    void *to;
    size_t count;
    int root;
    sg_type type;
} call;

typedef struct meeting {
    call call[FAKE_DEVICES];
    int came, left;
} meeting;

typedef struct world {
    struct world *next;
    ncclComm_t comm[FAKE_DEVICES];
    int ranks;
    bool aborted;
    meeting meeting[SEQUENCES];
    const void *box[FAKE_DEVICES][FAKE_DEVICES]; /* [from][to]: what was sent and is not taken */
} world;

struct ncclComm {
    world *world;
    int rank;
    uint64_t sequence;
};

/* Operations that still name a comm find it aborted, so none is ever freed. */
static world *worlds;

static size_t bytes_of(const call *c)
{
    return c->count * (size_t)sg_type_bytes(c->type);
}

/* RANK's share of the sum of all ranks' elements from AT on. */
static void add_up(const meeting *m, int ranks, size_t at, size_t count, void *to)
{
    const sg_type type = m->call[0].type;
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int q = 0; q < ranks; q++)
            sum += sg_data_load(type, m->call[q].from, (int64_t)(at + i));
        sg_data_store(type, sum, to, (int64_t)i);
    }
}

static void meet(const meeting *m, int ranks)
{
    const call *const first = &m->call[0];
    void *const sums = malloc(bytes_of(first) * (size_t)ranks + 1);
    for (int r = 0; r < ranks; r++) {
        const call *const c = &m->call[r];
        const size_t bytes = bytes_of(c);
        switch (c->what) {
        case GATHER:
            for (int q = 0; q < ranks; q++)
                memmove((char *)c->to + (size_t)q * bytes, m->call[q].from, bytes);
            break;
        case BROADCAST: memmove(c->to, m->call[c->root].from, bytes); break;
        case SCATTER: add_up(m, ranks, (size_t)r * c->count, c->count, c->to); break;
        case REDUCE:
            if (c->root == r) add_up(m, ranks, 0, c->count, c->to);
            break;
        case SUM: /* in place: all sums are made before any is stored */
            if (r == 0) add_up(m, ranks, 0, c->count, sums);
            break;
        }
    }
    for (int r = 0; r < ranks && first->what == SUM; r++)
        memcpy(m->call[r].to, sums, bytes_of(first));
    free(sums);
}

typedef struct nccl_op {
    ncclComm_t comm;
    uint64_t sequence;
    call call;
} nccl_op;

static bool run_nccl(void *data, bool first)
{
    const nccl_op *const o = data;
    world *const w = o->comm->world;
    meeting *const m = &w->meeting[o->sequence % SEQUENCES];
    if (w->aborted) return true;
    if (first) {
        m->call[o->comm->rank] = o->call;
        if (++m->came == w->ranks) meet(m, w->ranks);
    }
    if (m->came < w->ranks) return false;
    if (++m->left == w->ranks) m->came = m->left = 0;
    return true;
}

/* A graph enqueues its operations again: the order in which they begin counts, not that in which
 * they were enqueued. */
static bool number_nccl(void *data, bool first)
{
    nccl_op *const o = data;
    if (first) o->sequence = o->comm->sequence++;
    return run_nccl(data, first);
}

static sg_type type_of(ncclDataType_t type)
{
    return type == ncclFloat32 ? SG_F32 : type == ncclBfloat16 ? SG_BF16 : SG_F16;
}

static ncclResult_t enqueue(what kind, const void *from, void *to, size_t count,
                            ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
    const nccl_op o = {comm, 0, {kind, from, to, count, root, type_of(type)}};
    return fake_enqueue(stream, number_nccl, &o, sizeof o) == cudaSuccess ? ncclSuccess
                                                                          : ncclSystemError;
}

FAKE ncclResult_t ncclGetVersion(int *version)
{
    *version = 22809;
    return ncclSuccess;
}

FAKE const char *ncclGetErrorString(ncclResult_t result)
{
    (void)result;
    return "a planted failure";
}

FAKE ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ranks, const int *devices)
{
    (void)devices;
    if (fake_fails()) return ncclSystemError;
    world *const w = calloc(1, sizeof *w);
    w->ranks = ranks;
    w->next = worlds;
    worlds = w;
    for (int r = 0; r < ranks; r++) {
        comm[r] = calloc(1, sizeof *comm[r]);
        *comm[r] = (struct ncclComm){w, r, 0};
        w->comm[r] = comm[r];
    }
    return ncclSuccess;
}

FAKE ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->world->aborted = true;
    return ncclSuccess;
}

/* ---- Sends: what a group sends and receives is one operation of its rank ---------------------- */

typedef struct letter {
    const void *from;
    void *to;
    size_t bytes;
    int peer;
} letter;

typedef struct letters {
    ncclComm_t comm;
    cudaStream_t stream;
    letter send[FAKE_DEVICES], receive[FAKE_DEVICES];
    int sends, receives;
    bool posted;
} letters;

static letters group[FAKE_DEVICES]; /* of the group that is open, by rank */
static int grouped, depth;

/* A letter lies in its box until it is taken; the next one is posted behind that. */
static bool run_letters(void *data, bool first)
{
    letters *const l = data;
    world *const w = l->comm->world;
    const int me = l->comm->rank;
    (void)first;
    if (w->aborted) return true;
    for (int i = 0; i < l->sends && !l->posted; i++) w->box[me][l->send[i].peer] = l->send[i].from;
    l->posted = true;
    int left = 0;
    for (int i = 0; i < l->receives; i++) {
        letter *const r = &l->receive[i];
        if (r->to == NULL) continue;
        const void *const from = w->box[r->peer][me];
        left += from == NULL;
        if (from == NULL) continue;
        memcpy(r->to, from, r->bytes);
        w->box[r->peer][me] = NULL;
        r->to = NULL;
    }
    for (int i = 0; i < l->sends; i++) left += w->box[me][l->send[i].peer] != NULL;
    return left == 0;
}

static letters *letters_of(ncclComm_t comm, cudaStream_t stream)
{
    for (int i = 0; i < grouped; i++)
        if (group[i].comm == comm) return &group[i];
    group[grouped] = (letters){.comm = comm, .stream = stream};
    return &group[grouped++];
}

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

FAKE ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

FAKE ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;
    depth--;
    for (int i = 0; i < grouped; i++)
        if (fake_enqueue(group[i].stream, run_letters, &group[i], sizeof group[i]) != cudaSuccess)
            result = ncclSystemError;
    grouped = 0;
    return result;
}

FAKE ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                           ncclComm_t comm, cudaStream_t stream)
{
    if (depth == 0) return ncclInvalidUsage; /* it would wait for the other */
    letters *const l = letters_of(comm, stream);
    l->send[l->sends++] = (letter){from, NULL, count * (size_t)sg_type_bytes(type_of(type)), peer};
    return ncclSuccess;
}

FAKE ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                           cudaStream_t stream)
{
    if (depth == 0) return ncclInvalidUsage;
    letters *const l = letters_of(comm, stream);
    l->receive[l->receives++] =
        (letter){NULL, to, count * (size_t)sg_type_bytes(type_of(type)), peer};
    return ncclSuccess;
}

/* ---- Collectives ------------------------------------------------------------------------------- */

FAKE ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                                ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(GATHER, from, to, count, type, 0, comm, stream);
}

FAKE ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)op;
    return enqueue(SCATTER, from, to, count, type, 0, comm, stream);
}

FAKE ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)op;
    return enqueue(SUM, from, to, count, type, 0, comm, stream);
}

FAKE ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                                int root, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(BROADCAST, from, to, count, type, root, comm, stream);
}

FAKE ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                             ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)op;
    return enqueue(REDUCE, from, to, count, type, root, comm, stream);
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

typedef struct layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t pitch;
} layout;

typedef struct desc {
    cublasLtEpilogue_t epilogue;
    const void *bias;
} desc;

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
    *out = malloc(1);
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
    (void)p;
    (void)attribute;
    (void)value;
    (void)bytes;
    return fake_fails() ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
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
    (void)handle, (void)d, (void)p;
    if (fake_fails()) return CUBLAS_STATUS_INTERNAL_ERROR;
    *count = room < 2 ? room : 2;
    memset(found, 0, (size_t)*count * sizeof *found);
    for (int i = 0; i < *count; i++) /* one for this shape and these strides */
        found[i].algo.data[0] = name_of(a, name_of(b, name_of(c, name_of(e, (uint64_t)i + 1))));
    return CUBLAS_STATUS_SUCCESS;
}

/* A kernel is loaded when it is first launched on a device, which waits for all that runs there: what
 * waits for this product in turn would wait for ever. */
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

typedef struct matmul {
    layout a, b, add, c;
    const void *a_data, *b_data, *add_data;
    void *c_data;
    desc desc;
    float beta;
} matmul;

static sg_type lt_type(cudaDataType_t type)
{
    return type == CUDA_R_32F ? SG_F32 : type == CUDA_R_16BF ? SG_BF16 : SG_F16;
}

/* C (n x m, by columns) = A' * B with A k x n and B k x m. */
static bool run_matmul(void *data, bool first)
{
    const matmul *const m = data;
    const sg_type type = lt_type(m->c.type);
    const bool relu = m->desc.epilogue == CUBLASLT_EPILOGUE_RELU ||
                      m->desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    const bool bias = m->desc.epilogue == CUBLASLT_EPILOGUE_BIAS ||
                      m->desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    (void)first;
    for (int64_t col = 0; col < (int64_t)m->c.cols; col++)
        for (int64_t row = 0; row < (int64_t)m->c.rows; row++) {
            const int64_t at = col * m->c.pitch + row;
            float sum =
                m->beta != 0 ? sg_data_load(type, m->add_data, col * m->add.pitch + row) : 0;
            sum += fake_sum(type, m->a_data, row * m->a.pitch, m->b_data, col * m->b.pitch,
                            (int64_t)m->a.rows);
            if (bias) sum += sg_data_load(type, m->desc.bias, row);
            if (relu && sum < 0) sum = 0;
            sg_data_store(type, sum, m->c_data, at);
        }
    return true;
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
    (void)handle, (void)alpha, (void)work, (void)work_bytes;
    /* Another kernel adds in place. */
    if (!load(sg_mix(algo->data[0] + (c == e)))) return CUBLAS_STATUS_INTERNAL_ERROR;
    matmul m = {.a_data = a, .b_data = b, .add_data = c, .c_data = e};
    memcpy(&m.a, a_layout, sizeof m.a);
    memcpy(&m.b, b_layout, sizeof m.b);
    memcpy(&m.add, c_layout, sizeof m.add);
    memcpy(&m.c, e_layout, sizeof m.c);
    memcpy(&m.desc, d, sizeof m.desc);
    memcpy(&m.beta, beta, sizeof m.beta);
    fake_launches++;
    return fake_enqueue(stream, run_matmul, &m, sizeof m) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
