/* clock.c -- how long runs take by the clocks of the GPUs: one by itself, or many back to back.
 *
 * All ranks start at once (kernel/start.h), when the one thread that feeds them has enqueued
 * everything.  Runs back to back are graphs of a few. */
#include <time.h>

#include "backend/cuda/cuda.h"
#include "kernel/start.h"

enum { UNROLL = 4, REST_NS = 200000 };

typedef struct stopwatch {
    cudaGraphExec_t graph[SG_CUDA_RANKS]; /* of UNROLL runs */
    cudaEvent_t begin[SG_CUDA_RANKS], end[SG_CUDA_RANKS];
    sg_enqueue *run;
    void *context;
} stopwatch;

static shingle_status capture(sg_cuda_rank *rank, int runs, sg_enqueue *run, void *context,
                              cudaGraphExec_t *graph_out)
{
    cudaGraph_t graph = NULL;
    shingle_status status = SHINGLE_OK;
    const bool captured = rank->captured; /* by others: this one's replays end before it returns */
    SG_CUDA(cudaStreamBeginCapture(rank->lane[0], cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < runs && status == SHINGLE_OK; i++)
        status = run(context, rank->rank, i, rank->lane[0]);
    const cudaError_t error = cudaStreamEndCapture(rank->lane[0], &graph);
    __atomic_store_n(&rank->captured, captured, __ATOMIC_RELAXED);
    if (status == SHINGLE_OK) status = sg_cuda_check(error, "cudaStreamEndCapture()");
    if (status == SHINGLE_OK)
        status = sg_cuda_check(cudaGraphInstantiate(graph_out, graph, 0), "cudaGraphInstantiate()");
    if (status == SHINGLE_OK)
        status = sg_cuda_check(cudaGraphUpload(*graph_out, rank->lane[0]), "cudaGraphUpload()");
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    return status;
}

static shingle_status prepare(sg_cuda *cuda, bool graphs, stopwatch *w)
{
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        int caller = 0;
        SG_TRY(sg_cuda_enter(rank, &caller));
        shingle_status status = SHINGLE_OK;
        if (graphs) status = capture(rank, UNROLL, w->run, w->context, &w->graph[r]);
        if (status == SHINGLE_OK)
            status = sg_cuda_check(cudaEventCreate(&w->begin[r]), "cudaEventCreate()");
        if (status == SHINGLE_OK)
            status = sg_cuda_check(cudaEventCreate(&w->end[r]), "cudaEventCreate()");
        sg_cuda_leave(rank, caller);
        SG_TRY(status);
    }
    if (cuda->start != NULL) return SHINGLE_OK;
    void *memory = NULL;
    SG_CUDA(
        cudaHostAlloc(&memory, sizeof *cuda->start, cudaHostAllocMapped | cudaHostAllocPortable));
    cuda->start = memory;
    *cuda->start = 0;
    return SHINGLE_OK;
}

static void drop(sg_cuda *cuda, stopwatch *w)
{
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        int caller = 0;
        const bool entered = sg_cuda_enter(rank, &caller) == SHINGLE_OK;
        if (w->graph[r] != NULL) (void)cudaGraphExecDestroy(w->graph[r]);
        if (w->begin[r] != NULL) (void)cudaEventDestroy(w->begin[r]);
        if (w->end[r] != NULL) (void)cudaEventDestroy(w->end[r]);
        if (entered) sg_cuda_leave(rank, caller);
    }
}

/* What is timed on RANK: LAUNCHES graphs, or without graphs a run. */
static shingle_status enqueue_rank(sg_cuda *cuda, const stopwatch *w, int r, int launches)
{
    sg_cuda_rank *const rank = &cuda->rank[r];
    const cudaStream_t stream = rank->lane[0];
    SG_CUDA(sg_kernel_start(cuda->start, *cuda->start + 1, (uint64_t)(cuda->timeout_us * 1000),
                            stream));
    SG_CUDA(cudaEventRecord(w->begin[r], stream));
    if (launches == 0) SG_TRY(w->run(w->context, r, 0, stream));
    for (int i = 0; i < launches; i++) SG_CUDA(cudaGraphLaunch(w->graph[r], stream));
    SG_CUDA(cudaEventRecord(w->end[r], stream));
    return SHINGLE_OK;
}

static shingle_status enqueue_all(sg_cuda *cuda, const stopwatch *w, int launches)
{
    shingle_status status = SHINGLE_OK;
    for (int r = 0; r < cuda->ranks && status == SHINGLE_OK; r++) {
        int caller = 0;
        SG_TRY(sg_cuda_enter(&cuda->rank[r], &caller));
        status = enqueue_rank(cuda, w, r, launches);
        sg_cuda_leave(&cuda->rank[r], caller);
    }
    return status;
}

static shingle_status wait_all(sg_cuda *cuda, const stopwatch *w)
{
    const double until = sg_now_us() + 4 * cuda->timeout_us + 2e6;
    for (int r = 0; r < cuda->ranks; r++) {
        cudaError_t error;
        while ((error = sg_cuda_event_stands(cuda, w->end[r])) == cudaErrorNotReady) {
            const struct timespec pause = {0, 20000};
            SG_TRY(sg_cuda_alive(cuda));
            if (sg_now_us() > until)
                return sg_fail(SHINGLE_ETIMEOUT, "rank %d did not end its timed runs", r);
            nanosleep(&pause, NULL);
        }
        SG_TRY(sg_cuda_check(error, "cudaEventQuery()"));
    }
    return sg_cuda_alive(cuda);
}

/* Partner of the count: sg_kernel_start(). */
static shingle_status measure(sg_cuda *cuda, const stopwatch *w, int launches, double *us_out)
{
    const struct timespec rest = {0, REST_NS};
    double most = 0;
    nanosleep(&rest, NULL);
    const shingle_status status = enqueue_all(cuda, w, launches);
    *(volatile uint32_t *)cuda->start = *cuda->start + 1;
    SG_TRY(status);
    SG_TRY(wait_all(cuda, w));
    for (int r = 0; r < cuda->ranks; r++) {
        float ms = 0;
        SG_CUDA(cudaEventElapsedTime(&ms, w->begin[r], w->end[r]));
        const double us = (double)ms * 1e3 / (launches > 0 ? launches * UNROLL : 1);
        if (us > most) most = us;
    }
    *us_out = most;
    return SHINGLE_OK;
}

/* After a failure ranks may still wait for one that was not launched, as long as their limit lets
 * them; what they work on must not be freed before. */
static void settle(const sg_cuda *cuda)
{
    const double until = sg_now_us() + 2 * cuda->timeout_us;
    for (int r = 0; r < cuda->ranks; r++)
        while (sg_cuda_stream_stands(cuda, cuda->rank[r].lane[0]) == cudaErrorNotReady &&
               sg_now_us() < until)
            sg_cuda_pause();
}

shingle_status sg_cuda_time(void *self, sg_enqueue *run, void *context, int runs, double *us_out)
{
    sg_cuda *const cuda = self;
    stopwatch w = {.run = run, .context = context};
    for (int r = 0; r < cuda->ranks; r++) SG_TRY(sg_cuda_sync(cuda, r, 4 * cuda->timeout_us / 1e6));
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    shingle_status status = prepare(cuda, runs > 1, &w);
    if (status == SHINGLE_OK)
        status = measure(cuda, &w, runs > 1 ? (runs + UNROLL - 1) / UNROLL : 0, us_out);
    if (status != SHINGLE_OK) settle(cuda);
    drop(cuda, &w);
    sg_cuda_restore(mode);
    return status;
}
