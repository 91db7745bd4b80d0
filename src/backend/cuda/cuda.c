/* cuda.c -- the table of the CUDA backend: opening and closing a group, memory, begin and end of a
 * run.  See cuda.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/vendor.h"
#include "machines.h"

extern const sg_backend sg_backend_cuda;

shingle_status sg_cuda_check(cudaError_t error, const char *call)
{
    if (error == cudaSuccess) return SHINGLE_OK;
    const int name = (int)strcspn(call, "(");
    (void)cudaGetLastError(); /* what is reported is not left for others to find */
    return sg_fail(error == cudaErrorMemoryAllocation ? SHINGLE_ENOMEM : SHINGLE_EBACKEND,
                   "%.*s: %s", name, call, cudaGetErrorString(error));
}

shingle_status sg_cuda_enter(sg_cuda_rank *rank)
{
    if (cudaGetDevice(&rank->caller_device) != cudaSuccess) rank->caller_device = rank->device;
    if (rank->caller_device != rank->device) SG_CUDA(cudaSetDevice(rank->device));
    return SHINGLE_OK;
}

void sg_cuda_leave(sg_cuda_rank *rank)
{
    if (rank->caller_device != rank->device) (void)cudaSetDevice(rank->caller_device);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

shingle_status sg_cuda_clear(sg_cuda_rank *rank, void *memory, size_t bytes)
{
    SG_CUDA(cudaMemsetAsync(memory, 0, bytes, rank->service));
    SG_CUDA(cudaStreamSynchronize(rank->service));
    return SHINGLE_OK;
}

shingle_status sg_cuda_put(sg_cuda_rank *rank, void *to, const void *from, size_t bytes)
{
    SG_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, rank->service));
    SG_CUDA(cudaStreamSynchronize(rank->service));
    return SHINGLE_OK;
}

shingle_status sg_cuda_fetch(sg_cuda_rank *rank, void *to, const void *from, size_t bytes)
{
    SG_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, rank->service));
    SG_CUDA(cudaStreamSynchronize(rank->service));
    return SHINGLE_OK;
}

shingle_status sg_cuda_get(sg_cuda_rank *rank, size_t bytes, void **memory_out)
{
    void *memory = NULL;
    SG_CUDA(cudaMalloc(&memory, bytes > 0 ? bytes : 1));
    const shingle_status status = sg_cuda_clear(rank, memory, bytes > 0 ? bytes : 1);
    if (status != SHINGLE_OK) {
        (void)cudaFree(memory);
        return status;
    }
    *memory_out = memory;
    return SHINGLE_OK;
}

enum { PAIRED = 1 << 16 }; /* smaller blocks lie close together anyway */

/* The second block of a pair for the second request of its size. */
static shingle_status get_paired(sg_cuda_rank *rank, size_t bytes, void **memory_out)
{
    sg_cuda_pair *empty = NULL;
    for (int i = 0; i < SG_CUDA_PAIRS; i++) {
        sg_cuda_pair *const p = &rank->pair[i];
        if (p->base == NULL && empty == NULL) empty = p;
        if (p->base == NULL || p->bytes != bytes || p->taken[1]) continue;
        p->taken[1] = true;
        *memory_out = p->base + bytes;
        return SHINGLE_OK;
    }
    if (empty == NULL || bytes > SIZE_MAX / 2) return sg_cuda_get(rank, bytes, memory_out);
    SG_TRY(sg_cuda_get(rank, 2 * bytes, memory_out));
    *empty = (sg_cuda_pair){*memory_out, bytes, {true, false}};
    return SHINGLE_OK;
}

/* True if MEMORY is of a pair, which is freed with its second block. */
static bool put_paired(sg_cuda_rank *rank, const void *memory)
{
    for (int i = 0; i < SG_CUDA_PAIRS; i++) {
        sg_cuda_pair *const p = &rank->pair[i];
        for (int half = 0; half < 2 && p->base != NULL; half++) {
            if (memory != p->base + (size_t)half * p->bytes) continue;
            p->taken[half] = false;
            if (p->taken[1 - half]) return true;
            (void)cudaFree(p->base);
            p->base = NULL;
            return true;
        }
    }
    return false;
}

/* Every GPU of the group reaches every other's memory. */
static shingle_status alloc(void *self, int index, sg_arena_kind arena, size_t bytes,
                            void **memory_out)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[index];
    const bool paired = arena == SG_SYM && bytes >= PAIRED;
    SG_TRY(sg_cuda_enter(rank));
    pthread_mutex_lock(&cuda->mutex); /* whoever binds a plan grows the memory of all ranks */
    const shingle_status status =
        paired ? get_paired(rank, bytes, memory_out) : sg_cuda_get(rank, bytes, memory_out);
    pthread_mutex_unlock(&cuda->mutex);
    sg_cuda_leave(rank);
    if (status == SHINGLE_ENOMEM)
        return sg_fail(SHINGLE_ENOMEM, "no memory for %zu bytes on the GPU of rank %d", bytes,
                       index);
    return status;
}

static void release(void *self, int index, void *memory)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[index];
    if (sg_cuda_enter(rank) != SHINGLE_OK) return;
    pthread_mutex_lock(&cuda->mutex);
    if (!put_paired(rank, memory)) (void)cudaFree(memory);
    pthread_mutex_unlock(&cuda->mutex);
    sg_cuda_leave(rank);
}

static shingle_status move(sg_cuda *cuda, int index, void *to, const void *from, size_t bytes,
                           shingle_status (*go)(sg_cuda_rank *, void *, const void *, size_t))
{
    sg_cuda_rank *const rank = &cuda->rank[index];
    SG_TRY(sg_cuda_enter(rank));
    const shingle_status status = bytes > 0 ? go(rank, to, from, bytes) : SHINGLE_OK;
    sg_cuda_leave(rank);
    return status;
}

static shingle_status write_memory(void *self, int rank, void *to, const void *from, size_t bytes)
{
    return move(self, rank, to, from, bytes, sg_cuda_put);
}

static shingle_status read_memory(void *self, int rank, void *to, const void *from, size_t bytes)
{
    return move(self, rank, to, from, bytes, sg_cuda_fetch);
}

/* ---- Open and close -------------------------------------------------------------------------- */

static shingle_status count_devices(int *count_out)
{
    const cudaError_t error = cudaGetDeviceCount(count_out);
    if (error == cudaSuccess && *count_out > 0) return SHINGLE_OK;
    (void)cudaGetLastError();
    return sg_fail(SHINGLE_EUNSUPPORTED,
                   "no GPU that CUDA can use (%s); --backend cpu runs everywhere",
                   error == cudaSuccess ? "none is visible" : cudaGetErrorString(error));
}

static shingle_status reach_peers(const sg_cuda *cuda, const sg_cuda_rank *rank)
{
    for (int q = 0; q < cuda->ranks; q++) {
        int can = 0;
        if (q == rank->rank) continue;
        SG_CUDA(cudaDeviceCanAccessPeer(&can, rank->device, cuda->rank[q].device));
        if (!can)
            return sg_fail(SHINGLE_EUNSUPPORTED,
                           "GPU %d cannot reach the memory of GPU %d; --backend cpu runs "
                           "everywhere",
                           rank->device, cuda->rank[q].device);
        const cudaError_t error = cudaDeviceEnablePeerAccess(cuda->rank[q].device, 0);
        (void)cudaGetLastError(); /* a framework may have enabled it before */
        if (error != cudaErrorPeerAccessAlreadyEnabled)
            SG_TRY(sg_cuda_check(error, "cudaDeviceEnablePeerAccess"));
    }
    return SHINGLE_OK;
}

static shingle_status make_streams(sg_cuda_rank *rank)
{
    int least = 0;
    int greatest = 0;
    SG_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (int i = 0; i < SG_MAX_LANES; i++) {
        /* Lanes beside the product's start first when an SM is free. */
        SG_CUDA(cudaStreamCreateWithPriority(&rank->lane[i], cudaStreamNonBlocking,
                                             i == 0 ? least : greatest));
        SG_CUDA(cudaEventCreateWithFlags(&rank->join[i], cudaEventDisableTiming));
    }
    SG_CUDA(cudaStreamCreateWithFlags(&rank->service, cudaStreamNonBlocking));
    SG_CUDA(cudaEventCreateWithFlags(&rank->fork, cudaEventDisableTiming));
    for (int i = 0; i < SG_CUDA_FLIGHT; i++)
        SG_CUDA(cudaEventCreateWithFlags(&rank->flight[i].ended, cudaEventDisableTiming));
    return SHINGLE_OK;
}

/* The words follow at the first bind, when they exist. */
static shingle_status make_state(const sg_cuda *cuda, sg_cuda_rank *rank)
{
    void *memory = NULL;
    SG_TRY(sg_cuda_get(rank, sizeof(sg_kernel_rank), &memory));
    rank->state = memory;
    SG_TRY(sg_cuda_get(rank, (size_t)cuda->ranks * sizeof(sg_kernel_words), &memory));
    rank->words = memory;
    SG_CUDA(
        cudaHostAlloc(&memory, sizeof *rank->trouble, cudaHostAllocMapped | cudaHostAllocPortable));
    rank->trouble = memory;
    memset(memory, 0, sizeof *rank->trouble);
    SG_CUDA(cudaHostGetDevicePointer(&memory, rank->trouble, 0));
    const sg_kernel_rank state = {
        .epoch = 1,
        .prev_half = 1,
        .rank = rank->rank,
        .ranks = cuda->ranks,
        .limit_ns = (uint64_t)(cuda->timeout_us * 1000),
        .words = rank->words,
        .trouble = memory,
    };
    return sg_cuda_put(rank, rank->state, &state, sizeof state);
}

static shingle_status open_rank(sg_cuda *cuda, sg_cuda_rank *rank)
{
    SG_TRY(sg_cuda_enter(rank));
    SG_CUDA(cudaDeviceGetAttribute(&rank->sms, cudaDevAttrMultiProcessorCount, rank->device));
    shingle_status status = reach_peers(cuda, rank);
    if (status == SHINGLE_OK) status = make_streams(rank);
    if (status == SHINGLE_OK) status = make_state(cuda, rank);
    if (status == SHINGLE_OK) status = sg_cuda_check(sg_kernel_load(), "sg_kernel_load()");
    if (status == SHINGLE_OK) status = sg_vendor_open(&rank->vendor);
    sg_cuda_leave(rank);
    return status;
}

/* Everything that can be missing is missing if opening failed. */
static void close_rank(sg_cuda_rank *rank)
{
    if (rank->service == NULL && rank->lane[0] == NULL) return;
    if (sg_cuda_enter(rank) != SHINGLE_OK) return;
    sg_vendor_close(rank->vendor);
    for (int i = 0; i < SG_MAX_LANES; i++) {
        if (rank->lane[i] != NULL) (void)cudaStreamDestroy(rank->lane[i]);
        if (rank->join[i] != NULL) (void)cudaEventDestroy(rank->join[i]);
    }
    if (rank->service != NULL) (void)cudaStreamDestroy(rank->service);
    if (rank->fork != NULL) (void)cudaEventDestroy(rank->fork);
    for (int i = 0; i < SG_CUDA_FLIGHT; i++)
        if (rank->flight[i].ended != NULL) (void)cudaEventDestroy(rank->flight[i].ended);
    for (int i = 0; i < SG_BLOCK_CLASSES; i++)
        if (rank->landing[i] != NULL) (void)cudaFree(rank->landing[i]);
    if (rank->state != NULL) (void)cudaFree(rank->state);
    if (rank->words != NULL) (void)cudaFree(rank->words);
    if (rank->trouble != NULL) (void)cudaFreeHost(rank->trouble);
    sg_cuda_leave(rank);
}

static void close_group(void *self)
{
    sg_cuda *const cuda = self;
    sg_collect_close(cuda->collect);
    for (int r = 0; r < cuda->ranks; r++) close_rank(&cuda->rank[r]);
    sg_vendor_forget(cuda->choice);
    pthread_mutex_destroy(&cuda->mutex);
    free(cuda);
}

static shingle_status start(sg_cuda *cuda)
{
    int device[SG_CUDA_RANKS];
    for (int r = 0; r < cuda->ranks; r++) {
        cuda->rank[r].rank = r;
        cuda->rank[r].device = device[r] = r;
    }
    for (int r = 0; r < cuda->ranks; r++) SG_TRY(open_rank(cuda, &cuda->rank[r]));
    if (cuda->ranks == 1) return SHINGLE_OK;
    const shingle_status status = sg_collect_open(cuda->ranks, device, &cuda->collect);
    if (status == SHINGLE_OK) return SHINGLE_OK;
    snprintf(cuda->no_collect, sizeof cuda->no_collect, "%s", shingle_error());
    return status == SHINGLE_EUNSUPPORTED ? SHINGLE_OK : status;
}

static shingle_status open_group(const sg_backend_config *config, void **self_out)
{
    int count = 0;
    if (config->scale_of != NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "a scale model runs on the CPU: use --backend cpu, or no --as");
    /* A kernel that is loaded when it is first launched may wait for one that waits for it. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    SG_TRY(count_devices(&count));
    if (config->ranks > count || config->ranks > SG_CUDA_RANKS)
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "%d ranks; this machine has %d GPU%s, one a rank, and %d are possible; "
                       "--backend cpu has no such limit",
                       config->ranks, count, count == 1 ? "" : "s", (int)SG_CUDA_RANKS);
    sg_cuda *const cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %d ranks", config->ranks);
    cuda->ranks = config->ranks;
    cuda->timeout_us = config->timeout_seconds * 1e6;
    pthread_mutex_init(&cuda->mutex, NULL);
    const shingle_status status = start(cuda);
    if (status != SHINGLE_OK) {
        close_group(cuda);
        return status;
    }
    *self_out = cuda;
    return SHINGLE_OK;
}

/* ---- Machine --------------------------------------------------------------------------------- */

/* "NVIDIA H200" is in the files whose names start with "h200x". */
static bool is_of(const char *file, const char *device)
{
    const size_t length = strcspn(file, "x");
    for (const char *at = device; *at != '\0'; at++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)at[i]) == file[i]) i++;
        const bool ends = !isalnum((unsigned char)at[i]);
        if (i == length && ends && (at == device || !isalnum((unsigned char)at[-1]))) return true;
    }
    return false;
}

/* The shipped machine with this GPU and the fewest ranks that are enough, else with the most. */
static const char *shipped(const char *device, int ranks)
{
    const char *best = NULL;
    int best_ranks = 0;
    for (size_t i = 0; i < sizeof sg_machines / sizeof sg_machines[0]; i++) {
        const char *const name = sg_machines[i].name;
        if (!is_of(name, device)) continue;
        const int has = atoi(name + strcspn(name, "x") + 1);
        const bool better = best == NULL || (has >= ranks ? best_ranks < ranks || has < best_ranks
                                                          : best_ranks < ranks && has > best_ranks);
        if (!better) continue;
        best = sg_machines[i].text;
        best_ranks = has;
    }
    return best;
}

/* Tile shapes without a kernel here are not worth proposing. */
static void keep_fast_tiles(sg_type type, sg_machine *m)
{
    sg_kernel_tile fast[16];
    const int count = sg_kernel_tiles((enum sg_kernel_type)type, fast, 16);
    int kept = 0;
    for (int i = 0; i < m->tiles; i++) {
        bool found = false;
        for (int j = 0; j < count; j++)
            found |= fast[j].m == m->tile[i].m && fast[j].n == m->tile[i].n;
        if (found) m->tile[kept++] = m->tile[i];
    }
    if (kept > 0) m->tiles = kept;
}

static shingle_status describe(void *self, sg_type type, sg_machine *machine_out)
{
    sg_cuda *const cuda = self;
    struct cudaDeviceProp device;
    SG_CUDA(cudaGetDeviceProperties(&device, cuda->rank[0].device));
    sg_machine m;
    const char *const text = shipped(device.name, cuda->ranks);
    if (text != NULL) {
        SG_TRY(sg_machine_parse(text, device.name, &m));
    } else {
        sg_machine_plain(&m);
        snprintf(m.name, sizeof m.name, "%.40s", device.name);
        sg_log(SG_LOG_WARN, "no machine file of %s: plans are priced with round numbers",
               device.name);
    }
    m.sms = device.multiProcessorCount;
    m.ranks = cuda->ranks;
    SG_TRY(sg_cuda_enter(&cuda->rank[0]));
    keep_fast_tiles(type, &m);
    sg_cuda_leave(&cuda->rank[0]);
    *machine_out = m;
    return SHINGLE_OK;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static int32_t slot_of(uint64_t run)
{
    return (int32_t)(run % SG_CUDA_FLIGHT);
}

/* Room in the rank's list of runs; waits, bounded, for the oldest. */
static shingle_status find_room(sg_cuda *cuda, sg_cuda_rank *rank)
{
    const double until = sg_now_us() + 2 * cuda->timeout_us;
    SG_TRY(sg_cuda_alive(cuda));
    while (rank->issued - rank->first == SG_CUDA_FLIGHT) {
        pthread_mutex_lock(&cuda->mutex);
        sg_cuda_reap(cuda);
        pthread_mutex_unlock(&cuda->mutex);
        SG_TRY(sg_cuda_alive(cuda));
        if (rank->issued - rank->first < SG_CUDA_FLIGHT) break;
        if (sg_now_us() > until)
            return sg_fail(SHINGLE_ETIMEOUT,
                           "rank %d has %d runs waiting and none ended within %g s", rank->rank,
                           (int)SG_CUDA_FLIGHT, 2 * cuda->timeout_us / 1e6);
    }
    return SHINGLE_OK;
}

/* Runs of a rank follow each other, whatever streams their callers have. */
static shingle_status follow(sg_cuda_rank *rank)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    SG_CUDA(cudaStreamIsCapturing(rank->main, &capture));
    rank->capturing = capture != cudaStreamCaptureStatusNone;
    if (rank->capturing || !rank->ever || rank->last == rank->main) return SHINGLE_OK;
    SG_CUDA(cudaStreamWaitEvent(rank->main, rank->flight[slot_of(rank->issued - 1)].ended, 0));
    return SHINGLE_OK;
}

/* A kernel that reads the host's memory takes the whole process down. */
static shingle_status check_memory(const sg_cuda_rank *rank, const sg_run *run)
{
    static const char *const name[4] = {"a", "b", "bias", "c"};
    const shingle_tensors *const t = &run->tensors;
    const void *const tensor[4] = {t->a, t->b, t->bias, t->c};
    sg_cuda_plan *const plan = run->bound->backend;
    for (int i = 0; i < 4; i++) {
        struct cudaPointerAttributes about;
        if (tensor[i] == NULL || tensor[i] == plan->known[i]) continue;
        SG_CUDA(cudaPointerGetAttributes(&about, tensor[i]));
        if (about.type != cudaMemoryTypeDevice && about.type != cudaMemoryTypeManaged)
            return sg_fail(SHINGLE_EINVAL,
                           "%s of rank %d is in the host's memory; tensors of this backend are in "
                           "that of GPU %d (shingle_alloc, cudaMalloc)",
                           name[i], rank->rank, rank->device);
        plan->known[i] = tensor[i];
    }
    return SHINGLE_OK;
}

static shingle_status set_out(sg_cuda_rank *rank, const sg_run *run)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_cuda_plan *const plan = run->bound->backend;
    SG_TRY(follow(rank));
    if (!rank->capturing) SG_TRY(check_memory(rank, run));
    if (s->peers)
        SG_CUDA(sg_kernel_begin(rank->state, run->work->ranks, run->bound->hash, NULL, 0, s->baked,
                                s->hello, 1, 0, rank->main));
    if ((plan->lanes & ~1u) == 0) return SHINGLE_OK;
    SG_CUDA(cudaEventRecord(rank->fork, rank->main));
    for (int i = 1; i < SG_MAX_LANES; i++)
        if (plan->lanes & 1u << i) SG_CUDA(cudaStreamWaitEvent(rank->lane[i], rank->fork, 0));
    return SHINGLE_OK;
}

static shingle_status begin(void *self, sg_run *run)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[run->work->rank];
    SG_TRY(find_room(cuda, rank));
    SG_TRY(sg_cuda_enter(rank));
    rank->main = run->stream != NULL ? (cudaStream_t)run->stream : rank->lane[0];
    const shingle_status status = set_out(rank, run);
    if (status != SHINGLE_OK) sg_cuda_leave(rank);
    return status;
}

/* Rows that peers have stored for C go there. */
static shingle_status bring_home(const sg_cuda_rank *rank, const sg_run *run)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_problem *const p = &run->bound->problem;
    if (plan->landed < 0 || p->n == 0) return SHINGLE_OK;
    const int bytes = sg_type_bytes(p->type);
    const sg_kernel_place *const from = &plan->program.place[plan->landed];
    char *const c = run->tensors.c;
    const size_t pitch = (size_t)(run->tensors.c_stride * bytes);
    const size_t width = (size_t)(p->n * bytes);
    if (plan->home != NULL) {
        const sg_kernel_place to = {
            .data = {c, c}, .pitch = (int64_t)pitch, .rows = (int32_t)p->m, .cols = (int32_t)p->n};
        SG_CUDA(sg_kernel_permute(from, &to, plan->home, plan->homes, bytes, 64, 0, rank->main));
        return SHINGLE_OK;
    }
    for (int32_t i = 0; i < p->segment_count;) {
        const sg_segment *const first = &p->segments[i];
        int64_t rows = 0;
        for (; i < p->segment_count && p->segments[i].owner != rank->rank; i++)
            rows += p->segments[i].rows;
        if (rows > 0)
            SG_CUDA(cudaMemcpy2DAsync(c + first->row0 * (int64_t)pitch, pitch,
                                      (const char *)from->data[0] + first->row0 * from->pitch,
                                      (size_t)from->pitch, width, (size_t)rows,
                                      cudaMemcpyDeviceToDevice, rank->main));
        else
            i++;
    }
    return SHINGLE_OK;
}

static shingle_status arrive(sg_cuda *cuda, sg_cuda_rank *rank, const sg_run *run)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_cuda_plan *const plan = run->bound->backend;
    for (int i = 1; i < SG_MAX_LANES; i++) {
        if ((plan->lanes & 1u << i) == 0) continue;
        SG_CUDA(cudaEventRecord(rank->join[i], rank->lane[i]));
        SG_CUDA(cudaStreamWaitEvent(rank->main, rank->join[i], 0));
    }
    SG_TRY(bring_home(rank, run));
    if (s->peers)
        SG_CUDA(sg_kernel_end(rank->state, run->work->ranks, run->bound->hash, s->baked, s->hello,
                              s->done, 0, rank->main));
    if (rank->capturing) return SHINGLE_OK;
    sg_cuda_flight *const flight = &rank->flight[slot_of(rank->issued)];
    SG_CUDA(cudaEventRecord(flight->ended, rank->main));
    flight->plan = plan;
    flight->hash = run->bound->hash;
    flight->text = run->bound->text;
    pthread_mutex_lock(&cuda->mutex);
    rank->issued++;
    cuda->progress_us = sg_now_us();
    pthread_mutex_unlock(&cuda->mutex);
    rank->last = rank->main;
    rank->ever = true;
    return SHINGLE_OK;
}

static shingle_status end(void *self, sg_run *run)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[run->work->rank];
    const shingle_status status = arrive(cuda, rank, run);
    sg_cuda_leave(rank);
    return status;
}

const sg_backend sg_backend_cuda = {
    .name = "cuda",
    .brief = "a GPU a rank, all in this process; overlapped kernels, copy engines, cuBLASLt, NCCL",
    .open = open_group,
    .close = close_group,
    .describe = describe,
    .alloc = alloc,
    .release = release,
    .write = write_memory,
    .read = read_memory,
    .fill = sg_cuda_fill,
    .differ = sg_cuda_differ,
    .accepts = sg_cuda_accepts,
    .bind = sg_cuda_bind,
    .unbind = sg_cuda_unbind,
    .begin = begin,
    .issue = {[SG_GEMM] = sg_cuda_issue_gemm,
              [SG_COPY] = sg_cuda_issue_copy,
              [SG_REDUCE] = sg_cuda_issue_reduce,
              [SG_COLL] = sg_cuda_issue_coll,
              [SG_FLAG] = sg_cuda_issue_flag},
    .end = end,
    .sync = sg_cuda_sync,
    .time = sg_cuda_time,
    .facts = sg_cuda_facts,
    .recover = sg_cuda_recover,
};
