/* ask.c -- how streams, events and runs stand, asked beside whatever else the caller's thread and
 * process do: without breaking captures, without taking an error that the caller has yet to see,
 * and without waiting for ever. */
#include <string.h>
#include <time.h>

#include "backend/cuda/cuda.h"

static const double poll_us = 20;
static const double spin_us = 100; /* longer than a small copy takes */
static const double norm_us = 500; /* longer than a norm takes */

void sg_cuda_pause(void)
{
    const struct timespec pause = {0, (long)(poll_us * 1e3)};
    nanosleep(&pause, NULL);
}

/* ---- Beside captures ------------------------------------------------------------------------- */

enum cudaStreamCaptureMode sg_cuda_relax(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void sg_cuda_restore(enum cudaStreamCaptureMode mode)
{
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
}

bool sg_cuda_is_captured(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    (void)cudaStreamIsCapturing(stream, &status);
    return status != cudaStreamCaptureStatusNone;
}

/* The number of the capture that STREAM is in, unlike that of all others; 0: it is in none. */
static cuuint64_t capture_of(const sg_cuda *cuda, cudaStream_t stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    if (cuda->driver.capture == NULL) return sg_cuda_is_captured(stream); /* one at a time */
    const CUresult answer = cuda->driver.capture(stream, &status, &id, NULL, NULL, NULL);
    return answer == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
}

unsigned long long sg_cuda_capture_of(const sg_cuda *cuda, cudaStream_t stream)
{
    return cuda->driver.capture != NULL ? capture_of(cuda, stream) : 0;
}

bool sg_cuda_is_captured_with(const sg_cuda *cuda, cudaStream_t stream, cudaStream_t other)
{
    const cuuint64_t id = capture_of(cuda, stream);
    return id != 0 && id == capture_of(cuda, other);
}

/* ---- Beside the caller's errors -------------------------------------------------------------- */

cudaError_t sg_cuda_forget(cudaError_t error)
{
    if (error != cudaSuccess && cudaPeekAtLastError() == error) (void)cudaGetLastError();
    return error;
}

/* ENTRY, a pointer to a function, gets the driver's NAME, or stays NULL. */
static void find(const char *name, void *entry)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = sg_cuda_forget(
        cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
    if (error == cudaSuccess && result == cudaDriverEntryPointSuccess)
        memcpy(entry, &found, sizeof found);
}

void sg_cuda_find_driver(sg_cuda_driver *driver)
{
    find("cuPointerGetAttribute", &driver->pointer);
    find("cuEventQuery", &driver->event);
    find("cuStreamQuery", &driver->stream);
    find("cuStreamGetCaptureInfo", &driver->capture);
}

static const CUresult unknown = CUDA_ERROR_NOT_INITIALIZED;

/* A thread that has not called the runtime yet has no context, and the driver wants one.  All other
 * answers have the same numbers there and here. */
static bool knows(CUresult answer)
{
    return answer != CUDA_ERROR_INVALID_CONTEXT && answer != unknown;
}

cudaError_t sg_cuda_event_stands(const sg_cuda *cuda, cudaEvent_t event)
{
    const CUresult answer = cuda->driver.event != NULL ? cuda->driver.event(event) : unknown;
    return knows(answer) ? (cudaError_t)answer : sg_cuda_forget(cudaEventQuery(event));
}

cudaError_t sg_cuda_stream_stands(const sg_cuda *cuda, cudaStream_t stream)
{
    const CUresult answer = cuda->driver.stream != NULL ? cuda->driver.stream(stream) : unknown;
    return knows(answer) ? (cudaError_t)answer : sg_cuda_forget(cudaStreamQuery(stream));
}

/* ---- Not for ever ---------------------------------------------------------------------------- */

shingle_status sg_cuda_settle_within(sg_cuda_rank *rank, double limit_us)
{
    const double begun = sg_now_us();
    const sg_cuda *const cuda = rank->cuda;
    cudaError_t error = sg_cuda_stream_stands(cuda, rank->service);
    while (error == cudaErrorNotReady && sg_now_us() - begun < limit_us) {
        if (sg_now_us() - begun > spin_us) sg_cuda_pause();
        error = sg_cuda_stream_stands(cuda, rank->service);
    }
    const bool stuck = error == cudaErrorNotReady;
    __atomic_store_n(&rank->stuck, stuck, __ATOMIC_RELAXED);
    if (!stuck) return sg_cuda_check(error, "cudaStreamQuery()");
    return sg_fail(SHINGLE_ETIMEOUT,
                   "GPU %d does not end a copy or a fill of rank %d within %g s: something else "
                   "has the whole GPU, or it hangs",
                   rank->device, rank->rank, limit_us / 1e6);
}

static bool has_hung(const sg_cuda_rank *rank)
{
    return __atomic_load_n(&rank->stuck, __ATOMIC_RELAXED) &&
           sg_cuda_stream_stands(rank->cuda, rank->service) == cudaErrorNotReady;
}

/* Who has waited in vain once does not wait again. */
shingle_status sg_cuda_settle(sg_cuda_rank *rank)
{
    const double limit_us = rank->cuda->timeout_us + SG_CUDA_SERVICE_US;
    if (!has_hung(rank)) return sg_cuda_settle_within(rank, limit_us);
    return sg_fail(SHINGLE_ETIMEOUT, "GPU %d has not ended a copy or a fill of rank %d, and hangs",
                   rank->device, rank->rank);
}

bool sg_cuda_is_stuck(const sg_cuda *cuda)
{
    bool stuck = sg_collect_hangs(cuda->collect);
    for (int r = 0; r < cuda->ranks; r++) stuck |= has_hung(&cuda->rank[r]);
    return stuck;
}

/* ---- What words on a device say -------------------------------------------------------------- */

/* The number of the run that RANK is in or begins next, and its hello there. */
static shingle_status read_begin(sg_cuda *cuda, sg_cuda_rank *rank, uint64_t *epoch,
                                 sg_kernel_hello *hello)
{
    sg_kernel_words words[SG_CUDA_RANKS];
    sg_kernel_hello said;
    SG_TRY(sg_cuda_fetch(rank, words, rank->words, (size_t)cuda->ranks * sizeof words[0]));
    SG_TRY(sg_cuda_fetch(rank, epoch, &rank->state->epoch, sizeof *epoch));
    SG_TRY(sg_cuda_fetch(rank, &said, words[rank->rank].hello + 2 * rank->rank + *epoch % 2,
                         sizeof said));
    *hello = said;
    return SHINGLE_OK;
}

/* EPOCH_OUT: as read_begin() has it, and left alone if nobody can tell. */
static bool has_said_hello(sg_cuda *cuda, sg_cuda_rank *rank, bool otherwise, uint64_t *epoch_out)
{
    sg_kernel_hello hello;
    int caller = 0;
    if (sg_cuda_enter(rank, &caller) != SHINGLE_OK) return otherwise;
    const bool known = read_begin(cuda, rank, epoch_out, &hello) == SHINGLE_OK;
    sg_cuda_leave(rank, caller);
    return known ? hello.epoch >= *epoch_out : otherwise;
}

bool sg_cuda_has_said_hello(sg_cuda *cuda, sg_cuda_rank *rank, bool otherwise)
{
    uint64_t epoch = 0;
    return has_said_hello(cuda, rank, otherwise, &epoch);
}

/* Between two runs, and in the norm behind one that has ended in front of it, nothing is to be seen
 * of replays: so it is looked twice. */
bool sg_cuda_is_replaying(sg_cuda *cuda, sg_cuda_rank *rank)
{
    uint64_t before = 0;
    if (!__atomic_load_n(&rank->captured, __ATOMIC_RELAXED)) return false;
    if (has_said_hello(cuda, rank, false, &before)) return true;
    const double until = sg_now_us() + norm_us;
    while (sg_now_us() < until) sg_cuda_pause();
    uint64_t after = before;
    return has_said_hello(cuda, rank, false, &after) || after != before;
}
