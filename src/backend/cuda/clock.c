/* clock.c -- times runs back to back.  A few runs of every rank are captured into a graph, so that
 * what is timed is the GPUs and not the one thread that feeds them. */
#include <time.h>

#include "backend/cuda/cuda.h"

enum { UNROLL = 4, MOST_LAUNCHES = 64 };

/* Runs at least so long are launched one by one: then a graph of several saves nothing. */
static const double long_us = 2000;

typedef struct stopwatch {
    cudaGraphExec_t graph[SG_CUDA_RANKS];
    cudaEvent_t begin[SG_CUDA_RANKS], end[SG_CUDA_RANKS];
    int unroll; /* runs of a graph */
} stopwatch;

static shingle_status capture(sg_cuda_rank *rank, int runs, sg_enqueue *run, void *context,
                              cudaGraphExec_t *graph_out)
{
    cudaGraph_t graph = NULL;
    shingle_status status = SHINGLE_OK;
    SG_CUDA(cudaStreamBeginCapture(rank->lane[0], cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < runs && status == SHINGLE_OK; i++)
        status = run(context, rank->rank, i, rank->lane[0]);
    const cudaError_t error = cudaStreamEndCapture(rank->lane[0], &graph);
    if (status == SHINGLE_OK) status = sg_cuda_check(error, "cudaStreamEndCapture()");
    if (status == SHINGLE_OK)
        status = sg_cuda_check(cudaGraphInstantiate(graph_out, graph, 0), "cudaGraphInstantiate()");
    if (status == SHINGLE_OK)
        status = sg_cuda_check(cudaGraphUpload(*graph_out, rank->lane[0]), "cudaGraphUpload()");
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    return status;
}

static shingle_status prepare(sg_cuda *cuda, sg_enqueue *run, void *context, stopwatch *w)
{
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        SG_TRY(sg_cuda_enter(rank));
        shingle_status status = capture(rank, w->unroll, run, context, &w->graph[r]);
        if (status == SHINGLE_OK)
            status = sg_cuda_check(cudaEventCreate(&w->begin[r]), "cudaEventCreate()");
        if (status == SHINGLE_OK)
            status = sg_cuda_check(cudaEventCreate(&w->end[r]), "cudaEventCreate()");
        sg_cuda_leave(rank);
        SG_TRY(status);
    }
    return SHINGLE_OK;
}

static void drop(sg_cuda *cuda, stopwatch *w)
{
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        const bool entered = sg_cuda_enter(rank) == SHINGLE_OK;
        if (w->graph[r] != NULL) (void)cudaGraphExecDestroy(w->graph[r]);
        if (w->begin[r] != NULL) (void)cudaEventDestroy(w->begin[r]);
        if (w->end[r] != NULL) (void)cudaEventDestroy(w->end[r]);
        if (entered) sg_cuda_leave(rank);
    }
}

/* One launch of every rank, in turn. */
static shingle_status launch_all(sg_cuda *cuda, const stopwatch *w)
{
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        SG_TRY(sg_cuda_enter(rank));
        const cudaError_t error = cudaGraphLaunch(w->graph[r], rank->lane[0]);
        sg_cuda_leave(rank);
        SG_TRY(sg_cuda_check(error, "cudaGraphLaunch()"));
    }
    return SHINGLE_OK;
}

static shingle_status mark_all(sg_cuda *cuda, const cudaEvent_t *event)
{
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        SG_TRY(sg_cuda_enter(rank));
        const cudaError_t error = cudaEventRecord(event[r], rank->lane[0]);
        sg_cuda_leave(rank);
        SG_TRY(sg_cuda_check(error, "cudaEventRecord()"));
    }
    return SHINGLE_OK;
}

static shingle_status wait_all(sg_cuda *cuda, const stopwatch *w)
{
    const double until = sg_now_us() + 4 * cuda->timeout_us + 2e6;
    for (int r = 0; r < cuda->ranks; r++) {
        cudaError_t error;
        while ((error = cudaEventQuery(w->end[r])) == cudaErrorNotReady) {
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

/* LAUNCHES graphs a rank, behind one that brings the ranks into step. */
static shingle_status measure(sg_cuda *cuda, const stopwatch *w, int launches, double *us_out)
{
    double most = 0;
    SG_TRY(launch_all(cuda, w));
    SG_TRY(mark_all(cuda, w->begin));
    for (int i = 0; i < launches; i++) SG_TRY(launch_all(cuda, w));
    SG_TRY(mark_all(cuda, w->end));
    SG_TRY(wait_all(cuda, w));
    for (int r = 0; r < cuda->ranks; r++) {
        float ms = 0;
        SG_CUDA(cudaEventElapsedTime(&ms, w->begin[r], w->end[r]));
        const double us = (double)ms * 1e3 / (launches * w->unroll);
        if (us > most) most = us;
    }
    *us_out = most;
    return SHINGLE_OK;
}

/* After a failure ranks may still wait for one that was not launched, as long as their limit lets them;
 * what they work on must not be freed before. */
static void settle(const sg_cuda *cuda)
{
    const double until = sg_now_us() + 2 * cuda->timeout_us;
    for (int r = 0; r < cuda->ranks; r++)
        while (cudaStreamQuery(cuda->rank[r].lane[0]) == cudaErrorNotReady && sg_now_us() < until) {
            const struct timespec pause = {0, 100000};
            nanosleep(&pause, NULL);
        }
    (void)cudaGetLastError(); /* it was not about the calls here */
}

shingle_status sg_cuda_time(void *self, sg_enqueue *run, void *context, double seconds, double *us)
{
    sg_cuda *const cuda = self;
    stopwatch w = {.unroll = *us >= long_us ? 1 : UNROLL};
    double once = *us;
    for (int r = 0; r < cuda->ranks; r++) SG_TRY(sg_cuda_sync(cuda, r, 4 * cuda->timeout_us / 1e6));
    shingle_status status = prepare(cuda, run, context, &w);
    if (status == SHINGLE_OK && once <= 0) status = measure(cuda, &w, 1, &once);
    const double wanted = once > 0 ? seconds * 1e6 / (once * w.unroll) : 1;
    const int launches = wanted < 1 ? 1 : wanted > MOST_LAUNCHES ? MOST_LAUNCHES : (int)wanted;
    if (status == SHINGLE_OK) status = measure(cuda, &w, launches, us);
    if (status != SHINGLE_OK) settle(cuda);
    drop(cuda, &w);
    return status;
}
