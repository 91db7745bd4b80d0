/* fake_error.c -- calls that fail, and what a thread is told of them; see fake.h. */
#include "fake.h"

#include <pthread.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int fail_in = -1, calls;
static cudaError_t failure = cudaErrorUnknown;
static _Thread_local cudaError_t last;
cudaError_t fake_lost = cudaSuccess;
_Thread_local int fake_call_us;

void fake_fail_at(int count, cudaError_t error)
{
    fail_in = count;
    failure = error;
    calls = 0;
}

int fake_calls(void)
{
    return calls;
}

bool fake_fails(void)
{
    const struct timespec pause = {0, fake_call_us * 1000L};
    if (fake_call_us > 0) nanosleep(&pause, NULL);
    pthread_mutex_lock(&mutex);
    calls++;
    const bool fails = fail_in-- == 0 || fake_lost != cudaSuccess;
    if (fail_in < 0) fail_in = -1;
    pthread_mutex_unlock(&mutex);
    return fails;
}

cudaError_t fake_error(void)
{
    return fake_lost != cudaSuccess ? fake_lost : failure;
}

cudaError_t fake_told(cudaError_t error)
{
    last = error;
    return error;
}

FAKE cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

FAKE cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

FAKE const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory"
           : error == cudaErrorNoDevice       ? "no CUDA-capable device is detected"
                                              : "a planted failure";
}

/* That something is not over is an error as any other to who asks for the last one. */
FAKE cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    const cudaError_t error = (cudaError_t)fake_ask_stream(stream);
    return error == cudaSuccess ? error : fake_told(error);
}

FAKE cudaError_t cudaEventQuery(cudaEvent_t event)
{
    const cudaError_t error = (cudaError_t)fake_ask_event(event);
    return error == cudaSuccess ? error : fake_told(error);
}
