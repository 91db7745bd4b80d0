/* cuda.c -- the table of the CUDA backend: opening and closing a group, memory.  See cuda.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/vendor.h"
#include "machines.h"

extern const sg_backend sg_backend_cuda;

static const double most_timeout_us = 900e6; /* roles of a kernel count naps as long as that */
static const double abort_us = 5e6;          /* for kernels to end that look for an abort */
static const double closing_us = 15e6;       /* for NCCL to let go, which takes it a second */

shingle_status sg_cuda_check(cudaError_t error, const char *call)
{
    if (error == cudaSuccess) return SHINGLE_OK;
    const int name = (int)strcspn(call, "(");
    (void)sg_cuda_forget(error); /* what is reported */
    return sg_fail(error == cudaErrorMemoryAllocation ? SHINGLE_ENOMEM : SHINGLE_EBACKEND,
                   "%.*s: %s", name, call, cudaGetErrorString(error));
}

shingle_status sg_cuda_enter(const sg_cuda_rank *rank, int *caller_out)
{
    if (cudaGetDevice(caller_out) != cudaSuccess) *caller_out = rank->device;
    if (*caller_out != rank->device) SG_CUDA(cudaSetDevice(rank->device));
    return SHINGLE_OK;
}

void sg_cuda_leave(const sg_cuda_rank *rank, int caller)
{
    if (caller != rank->device) (void)cudaSetDevice(caller);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

enum { PAIRED = 1 << 16 }; /* smaller blocks lie close together anyway */

/* The second block of a pair for the second request of its size and arena. */
static shingle_status get_paired(sg_cuda_rank *rank, sg_arena_kind arena, size_t bytes,
                                 void **memory_out)
{
    sg_cuda_pair *empty = NULL;
    for (int i = 0; i < SG_CUDA_PAIRS; i++) {
        sg_cuda_pair *const p = &rank->pair[i];
        if (p->base == NULL && empty == NULL) empty = p;
        if (p->base == NULL || p->arena != arena || p->bytes != bytes || p->taken[1]) continue;
        p->taken[1] = true;
        *memory_out = p->base + bytes;
        return SHINGLE_OK;
    }
    if (empty == NULL || bytes > SIZE_MAX / 2) return sg_cuda_get(rank, bytes, memory_out);
    const bool before = sg_fail_unlogged(true); /* if one block fits, nothing has failed */
    const shingle_status status = sg_cuda_get(rank, 2 * bytes, memory_out);
    sg_fail_unlogged(before);
    if (status == SHINGLE_ENOMEM) return sg_cuda_get(rank, bytes, memory_out);
    if (status != SHINGLE_OK) return sg_fail(status, "%s", shingle_error());
    *empty = (sg_cuda_pair){*memory_out, arena, bytes, {true, false}};
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
            sg_cuda_put_back(rank, p->base);
            p->base = NULL;
            return true;
        }
    }
    return false;
}

/* Peers' words of REST are told from what they are stored over: it rests
 * before anybody has its address. */
static shingle_status get_block(sg_cuda_rank *rank, sg_arena_kind arena, size_t bytes,
                                void **memory_out)
{
    const bool paired = (arena == SG_SYM || arena == SG_REST) && bytes >= PAIRED;
    void *memory = NULL;
    SG_TRY(paired ? get_paired(rank, arena, bytes, &memory) : sg_cuda_get(rank, bytes, &memory));
    const shingle_status status = arena == SG_REST ? sg_cuda_rest(rank, memory, bytes) : SHINGLE_OK;
    if (status == SHINGLE_OK)
        *memory_out = memory;
    else if (!put_paired(rank, memory))
        sg_cuda_put_back(rank, memory);
    return status;
}

/* Where the library has no windows, any memory is as good. */
static shingle_status get_window(const sg_cuda *cuda, sg_cuda_rank *rank, size_t bytes,
                                 void **memory_out)
{
    void *memory = NULL;
    if (cuda->collect != NULL) SG_TRY(sg_collect_get(cuda->collect, rank->rank, bytes, &memory));
    if (memory == NULL) return sg_cuda_get(rank, bytes, memory_out);
    const shingle_status status = sg_cuda_clear(rank, memory, bytes);
    if (status == SHINGLE_OK)
        *memory_out = memory;
    else
        sg_collect_put(cuda->collect, rank->rank, memory,
                       __atomic_load_n(&rank->stuck, __ATOMIC_RELAXED));
    return status;
}

/* Every GPU of the group reaches every other's memory. */
static shingle_status alloc(void *self, int index, sg_arena_kind arena, size_t bytes,
                            void **memory_out)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[index];
    int caller = 0;
    SG_TRY(sg_cuda_enter(rank, &caller));
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    sg_cuda_sweep(cuda, false);
    pthread_mutex_lock(&cuda->mutex); /* whoever binds a plan grows the memory of all ranks */
    const shingle_status status = arena == SG_WINDOWS ? get_window(cuda, rank, bytes, memory_out)
                                                      : get_block(rank, arena, bytes, memory_out);
    pthread_mutex_unlock(&cuda->mutex);
    sg_cuda_restore(mode);
    sg_cuda_leave(rank, caller);
    return status;
}

static void release(void *self, int index, void *memory)
{
    sg_cuda *const cuda = self;
    (void)__atomic_add_fetch(&cuda->memory_changes, 1, __ATOMIC_RELAXED);
    sg_cuda_rank *const rank = &cuda->rank[index];
    int caller = 0;
    if (sg_cuda_enter(rank, &caller) != SHINGLE_OK) return;
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    pthread_mutex_lock(&cuda->mutex);
    const bool put =
        put_paired(rank, memory) ||
        (cuda->collect != NULL && sg_collect_put(cuda->collect, rank->rank, memory, false));
    pthread_mutex_unlock(&cuda->mutex);
    if (!put) sg_cuda_drop(cuda, memory);
    sg_cuda_restore(mode);
    sg_cuda_leave(rank, caller);
}

static shingle_status move(sg_cuda *cuda, int index, void *to, const void *from, size_t bytes,
                           shingle_status (*go)(sg_cuda_rank *, void *, const void *, size_t))
{
    sg_cuda_rank *const rank = &cuda->rank[index];
    int caller = 0;
    SG_TRY(sg_cuda_enter(rank, &caller));
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    const shingle_status status = bytes > 0 ? go(rank, to, from, bytes) : SHINGLE_OK;
    sg_cuda_restore(mode);
    sg_cuda_leave(rank, caller);
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
    const cudaError_t error = sg_cuda_forget(cudaGetDeviceCount(count_out));
    if (error == cudaSuccess && *count_out > 0) return SHINGLE_OK;
    return sg_fail(SHINGLE_EUNSUPPORTED,
                   "no GPU that CUDA can use (%s); --backend cpu runs everywhere",
                   error == cudaSuccess ? "none is visible" : cudaGetErrorString(error));
}

static shingle_status reach_peers(const sg_cuda *cuda, const sg_cuda_rank *rank)
{
    for (int q = 0; q < cuda->ranks; q++) {
        int can = 0;
        if (cuda->rank[q].device == rank->device) continue;
        SG_CUDA(cudaDeviceCanAccessPeer(&can, rank->device, cuda->rank[q].device));
        if (!can)
            return sg_fail(SHINGLE_EUNSUPPORTED,
                           "GPU %d cannot reach the memory of GPU %d; --backend cpu runs "
                           "everywhere",
                           rank->device, cuda->rank[q].device);
        const cudaError_t error =
            sg_cuda_forget(cudaDeviceEnablePeerAccess(cuda->rank[q].device, 0));
        /* A framework may have enabled it before. */
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
    SG_CUDA(cudaEventCreateWithFlags(&rank->behind, cudaEventDisableTiming));
    for (int i = 0; i < SG_CUDA_FLIGHT; i++) {
        SG_CUDA(cudaEventCreateWithFlags(&rank->flight[i].begun, cudaEventDisableTiming));
        SG_CUDA(cudaEventCreateWithFlags(&rank->flight[i].ended, cudaEventDisableTiming));
    }
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
    int caller = 0;
    SG_TRY(sg_cuda_enter(rank, &caller));
    shingle_status status = sg_cuda_check(
        cudaDeviceGetAttribute(&rank->sms, cudaDevAttrMultiProcessorCount, rank->device),
        "cudaDeviceGetAttribute()");
    if (status == SHINGLE_OK) status = sg_cuda_share_sms(cuda, rank);
    if (status == SHINGLE_OK) status = reach_peers(cuda, rank);
    if (status == SHINGLE_OK) status = make_streams(rank);
    if (status == SHINGLE_OK) status = make_state(cuda, rank);
    if (status == SHINGLE_OK) status = sg_cuda_check(sg_kernel_load(), "sg_kernel_load()");
    if (status == SHINGLE_OK) status = sg_vendor_open(cuda, rank, &rank->vendor);
    sg_cuda_leave(rank, caller);
    return status;
}

/* Everything that can be missing is missing if opening failed. */
static void close_rank(sg_cuda_rank *rank)
{
    if (rank->service == NULL && rank->lane[0] == NULL) return;
    int caller = 0;
    if (sg_cuda_enter(rank, &caller) != SHINGLE_OK) return;
    sg_vendor_close(rank->vendor);
    for (int i = 0; i < SG_MAX_LANES; i++) {
        if (rank->lane[i] != NULL) (void)cudaStreamDestroy(rank->lane[i]);
        if (rank->join[i] != NULL) (void)cudaEventDestroy(rank->join[i]);
    }
    if (rank->service != NULL) (void)cudaStreamDestroy(rank->service);
    if (rank->fork != NULL) (void)cudaEventDestroy(rank->fork);
    if (rank->behind != NULL) (void)cudaEventDestroy(rank->behind);
    for (int i = 0; i < SG_CUDA_FLIGHT; i++) {
        if (rank->flight[i].begun != NULL) (void)cudaEventDestroy(rank->flight[i].begun);
        if (rank->flight[i].ended != NULL) (void)cudaEventDestroy(rank->flight[i].ended);
    }
    for (int i = 0; i < SG_BLOCK_CLASSES; i++) {
        if (rank->landing[i] != NULL) (void)cudaFree(rank->landing[i]);
        if (rank->dense[i] != NULL) (void)cudaFree(rank->dense[i]);
    }
    if (rank->state != NULL) (void)cudaFree(rank->state);
    if (rank->words != NULL) (void)cudaFree(rank->words);
    if (rank->trouble != NULL) (void)cudaFreeHost(rank->trouble);
    sg_cuda_leave(rank, caller);
}

/* The driver would wait for what does not end before it frees anything: then all of it stays. */
static void close_group(void *self)
{
    sg_cuda *const cuda = self;
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    const bool stuck = sg_cuda_is_stuck(cuda) || !sg_collect_close(cuda->collect, closing_us);
    if (stuck) sg_log(SG_LOG_ERROR, "cuda: a GPU hangs; what the group has there stays");
    if (!stuck) {
        sg_cuda_sweep(cuda, true);
        for (int r = 0; r < cuda->ranks; r++) close_rank(&cuda->rank[r]);
        if (cuda->start != NULL) (void)cudaFreeHost(cuda->start);
    }
    sg_vendor_forget(cuda->choice);
    sg_cuda_restore(mode);
    pthread_mutex_destroy(&cuda->mutex);
    pthread_cond_destroy(&cuda->swept);
    free(cuda);
}

static shingle_status settle_all(sg_cuda *cuda, double limit_us)
{
    const double until = sg_now_us() + limit_us;
    shingle_status status = SHINGLE_OK;
    for (int r = 0; r < cuda->ranks; r++) {
        const double left = until - sg_now_us();
        const shingle_status ended = sg_cuda_settle_within(&cuda->rank[r], left > 0 ? left : 0);
        if (ended != SHINGLE_OK) status = ended;
    }
    return status;
}

/* Waits for what the ranks have enqueued on their service streams, which came to STATUS.  A
 * collective that does not end by itself is stopped. */
static shingle_status await_service(sg_cuda *cuda, shingle_status status)
{
    const double limit_us = cuda->timeout_us + SG_CUDA_SERVICE_US;
    const shingle_status ended = settle_all(cuda, limit_us);
    if (ended == SHINGLE_OK) return status;
    if (ended != SHINGLE_ETIMEOUT) return ended;
    const bool stops =
        sg_collect_abort(cuda->collect, abort_us) && settle_all(cuda, abort_us) != SHINGLE_ETIMEOUT;
    return sg_fail(SHINGLE_ETIMEOUT, "the first collective of the GPUs does not end within %g s%s",
                   limit_us / 1e6, stops ? "" : ", nor when it is aborted");
}

/* Exchanges a word between all ranks. */
shingle_status sg_cuda_meet(sg_cuda *cuda)
{
    void *room[SG_CUDA_RANKS] = {NULL};
    void *stream[SG_CUDA_RANKS] = {NULL};
    shingle_status status = SHINGLE_OK;
    for (int r = 0; r < cuda->ranks && status == SHINGLE_OK; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        int caller = 0;
        status = sg_cuda_enter(rank, &caller);
        if (status != SHINGLE_OK) break;
        status = sg_cuda_get(rank, 2 * SG_CUDA_RANKS * sizeof(float), &room[r]);
        stream[r] = rank->service;
        sg_cuda_leave(rank, caller);
    }
    if (status == SHINGLE_OK) status = sg_collect_meet(cuda->collect, room, stream);
    if (status != SHINGLE_OK) /* who waits for a rank in vain ends */
        (void)sg_collect_abort(cuda->collect, abort_us);
    status = await_service(cuda, status);
    /* Peers may read it if one is stuck, and cudaFree would wait for the caller's work. */
    for (int r = 0; r < cuda->ranks; r++) sg_cuda_put_back(&cuda->rank[r], room[r]);
    return status;
}

/* The collectives of the group. */
static shingle_status open_collect(sg_cuda *cuda)
{
    int device[SG_CUDA_RANKS];
    for (int r = 0; r < cuda->ranks; r++) device[r] = cuda->rank[r].device;
    SG_TRY(sg_collect_open(cuda->ranks, device, cuda->timeout_us + SG_CUDA_SERVICE_US,
                           &cuda->collect));
    const shingle_status status = sg_cuda_meet(cuda);
    if (status == SHINGLE_OK || sg_cuda_is_stuck(cuda)) return status;
    if (sg_collect_close(cuda->collect, closing_us)) cuda->collect = NULL;
    return status;
}

static shingle_status start(sg_cuda *cuda)
{
    for (int r = 0; r < cuda->ranks; r++) SG_TRY(open_rank(cuda, &cuda->rank[r]));
    if (cuda->ranks == 1 || cuda->sharing > 1) return SHINGLE_OK;
    const shingle_status status = open_collect(cuda);
    if (status == SHINGLE_OK) return SHINGLE_OK;
    snprintf(cuda->no_collect, sizeof cuda->no_collect, "%s", shingle_error());
    return status == SHINGLE_EUNSUPPORTED ? SHINGLE_OK : status;
}

static shingle_status open_group(const sg_backend_config *config, void **self_out)
{
    int count = 0;
    bool shares = false;
    if (config->scale_of != NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "a scale model runs on the CPU: use --backend cpu, or no --as");
    /* A kernel that is loaded when it is first launched may wait for one that waits for it. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    SG_TRY(sg_cuda_ask_share(&shares));
    SG_TRY(count_devices(&count));
    if (config->ranks > SG_CUDA_RANKS) /* before there is a group, which has no room for them */
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "%d ranks; %d are possible on GPUs; --backend cpu has no such limit",
                       config->ranks, (int)SG_CUDA_RANKS);
    if (config->timeout_seconds * 1e6 > most_timeout_us)
        return sg_fail(SHINGLE_EINVAL, "timeout_seconds is %g; on GPUs at most %g",
                       config->timeout_seconds, most_timeout_us / 1e6);
    sg_cuda *const cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %d ranks", config->ranks);
    cuda->ranks = config->ranks;
    cuda->timeout_us = config->timeout_seconds * 1e6;
    sg_cuda_find_driver(&cuda->driver);
    pthread_mutex_init(&cuda->mutex, NULL);
    sg_cond_init(&cuda->swept);
    shingle_status status = sg_cuda_deal(cuda, shares, count);
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    if (status == SHINGLE_OK) status = start(cuda);
    sg_cuda_restore(mode);
    if (status != SHINGLE_OK) {
        close_group(cuda);
        return status;
    }
    *self_out = cuda;
    return SHINGLE_OK;
}

/* ---- Machine --------------------------------------------------------------------------------- */

/* Is WORD, of small letters and digits, one of DEVICE's?  "RTX 4090" is rtx4090 there. */
static bool has_word(const char *device, const char *word, size_t length)
{
    for (const char *at = device; *at != '\0'; at++) {
        const char *end = at;
        size_t i = 0;
        if (at != device && isalnum((unsigned char)at[-1])) continue;
        while (i < length && tolower((unsigned char)*end) == word[i]) {
            i++, end++;
            if (i < length && isdigit((unsigned char)word[i])) end += *end == ' ';
        }
        if (i == length && !isalnum((unsigned char)*end)) return true;
    }
    return false;
}

/* Words of the GPU of file NAME, as "a100-pcie-x8" or "h200x4", if DEVICE has all of them; else
 * 0. */
static int words_in(const char *name, const char *device)
{
    const char *const end = strrchr(name, 'x');
    int words = 0;
    for (const char *at = name; at < end; at += strspn(at, "-")) {
        size_t length = strcspn(at, "-");
        if (length > (size_t)(end - at)) length = (size_t)(end - at);
        if (!has_word(device, at, length)) return 0;
        words++;
        at += length;
    }
    return words;
}

/* The shipped machine with this GPU, told by the most words, and the fewest ranks that are enough,
 * else with the most. */
static const char *shipped(const char *device, int ranks)
{
    const char *best = NULL;
    int best_ranks = 0;
    int best_words = 1;
    for (size_t i = 0; i < sizeof sg_machines / sizeof sg_machines[0]; i++) {
        const char *const name = sg_machines[i].name;
        const int words = words_in(name, device);
        if (words < best_words) continue;
        const int has = atoi(strrchr(name, 'x') + 1);
        const bool better = best == NULL || words > best_words ||
                            (has >= ranks ? best_ranks < ranks || has < best_ranks
                                          : best_ranks < ranks && has > best_ranks);
        if (!better) continue;
        best = sg_machines[i].text;
        best_ranks = has;
        best_words = words;
    }
    return best;
}

/* Tile shapes without a kernel here are not worth proposing. */
static void keep_fast_tiles(sg_type type, sg_machine *m)
{
    sg_kernel_tile fast[24];
    const int count = sg_kernel_tiles((enum sg_kernel_type)type, fast, 24);
    int kept = 0;
    for (int i = 0; i < m->tiles; i++) {
        bool found = false;
        for (int j = 0; j < count; j++)
            found |= fast[j].m == m->tile[i].m && fast[j].n == m->tile[i].n;
        if (found) m->tile[kept++] = m->tile[i];
    }
    if (kept > 0) m->tiles = kept;
}

/* Of the L2, beside what is stored: as the H200's file has it, 32 of 63 MB. */
static const double held_part = 0.5;

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
        m.cache_mb = held_part * device.l2CacheSize / 1e6;
        sg_log(SG_LOG_WARN, "no machine file of %s: plans are priced with round numbers",
               device.name);
    }
    m.sms = cuda->rank[0].sms;
    if (m.coll_sms >= m.sms) m.coll_sms = m.sms / 2; /* a part of a GPU */
    m.ranks = cuda->ranks;
    if (cuda->sharing > 1) { /* plans that were tuned for the whole GPU are not for it */
        const size_t end = strlen(m.name) < sizeof m.name - 8 ? strlen(m.name) : sizeof m.name - 8;
        snprintf(m.name + end, sizeof m.name - end, " shared");
    }
    int caller = 0;
    SG_TRY(sg_cuda_enter(&cuda->rank[0], &caller));
    keep_fast_tiles(type, &m);
    sg_cuda_leave(&cuda->rank[0], caller);
    *machine_out = m;
    return SHINGLE_OK;
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
    .keeps_order = sg_cuda_keeps_order,
    .bind = sg_cuda_bind,
    .unbind = sg_cuda_unbind,
    .begin = sg_cuda_begin,
    .issue = {[SG_LAUNCH] = sg_cuda_issue_gemm,
              [SG_COPY] = sg_cuda_issue_copy,
              [SG_REDUCE] = sg_cuda_issue_reduce,
              [SG_COLL] = sg_cuda_issue_coll,
              [SG_FLAG] = sg_cuda_issue_flag},
    .end = sg_cuda_end,
    .sync = sg_cuda_sync,
    .in_flight = sg_cuda_runs,
    .time = sg_cuda_time,
    .facts = sg_cuda_facts,
    .recover = sg_cuda_recover,
};
