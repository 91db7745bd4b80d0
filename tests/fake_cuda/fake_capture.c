/* fake_capture.c -- what may not be asked while a graph is captured, and breaks it; see fake.h. */
#include <pthread.h>
#include <stdint.h>

#include "fake.h"

enum { CAPTURES = 16 };

typedef struct capture {
    cudaGraph_t graph; /* NULL: none */
    enum cudaStreamCaptureMode mode;
    pthread_t by;
    bool broken;
    cuuint64_t id;
} capture;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static capture captures[CAPTURES];
static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

FAKE cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    const enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

void fake_capture_begin(cudaGraph_t graph, enum cudaStreamCaptureMode mode)
{
    int i = 0;
    pthread_mutex_lock(&mutex);
    while (i < CAPTURES - 1 && captures[i].graph != NULL) i++;
    static cuuint64_t ids;
    captures[i] = (capture){graph, mode, pthread_self(), false, ++ids};
    pthread_mutex_unlock(&mutex);
}

bool fake_capture_end(cudaGraph_t graph)
{
    bool whole = true;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < CAPTURES; i++) {
        if (captures[i].graph != graph) continue;
        whole = !captures[i].broken;
        captures[i].graph = NULL;
    }
    pthread_mutex_unlock(&mutex);
    return whole;
}

cudaError_t fake_capture_mix(cudaGraph_t graph, cudaGraph_t other)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < CAPTURES; i++)
        captures[i].broken |= captures[i].graph == graph || captures[i].graph == other;
    pthread_mutex_unlock(&mutex);
    return fake_told(cudaErrorStreamCaptureIsolation);
}

FAKE cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    *out =
        fake_captured(stream) != NULL ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

/* As of 12.0. */
CUresult fake_ask_capture(CUstream stream, CUstreamCaptureStatus *out, cuuint64_t *id,
                          CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
    if (graph != NULL || nodes != NULL || count != NULL) return CUDA_ERROR_INVALID_VALUE;
    *out = fake_captured(stream) != NULL ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                         : CU_STREAM_CAPTURE_STATUS_NONE;
    *id = 0;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < CAPTURES; i++)
        if (captures[i].graph != NULL && captures[i].graph == fake_captured(stream))
            *id = captures[i].id;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}

static bool forbids(const capture *c)
{
    if (c->graph == NULL || c->mode == cudaStreamCaptureModeRelaxed) return false;
    return c->mode == cudaStreamCaptureModeGlobal || pthread_equal(c->by, pthread_self());
}

bool fake_capture_breaks(void)
{
    bool breaks = false;
    if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < CAPTURES; i++) {
        if (!forbids(&captures[i])) continue;
        captures[i].broken = true;
        breaks = true;
    }
    pthread_mutex_unlock(&mutex);
    return breaks;
}
