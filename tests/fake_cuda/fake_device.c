/* fake_device.c -- the runtime's devices and memory; see fake.h. */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

enum {
    POISONED = 1 << 20, /* bytes of a block that hold garbage; pages not touched cost nothing */
    LARGE = 32 << 20,   /* such blocks are mapped */
    GUARD = 4096        /* bytes before and behind them that nobody may touch */
};

static _Thread_local int current;
static int device_count = FAKE_DEVICES;
_Atomic int fake_launches, fake_copies, fake_early, fake_pushes, fake_joined, fake_moved, fake_slow,
    fake_by_row, fake_most_sms, fake_stalls, fake_unset, fake_questions;
_Atomic bool fake_frees_last;
const void *fake_host, *fake_apart, *fake_elsewhere;
const char *fake_name = "NVIDIA H200";

void fake_devices(int count)
{
    device_count = count;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* An address sanitizer takes longer to note a large block, as vendors' workspaces are, than tests
 * take that never touch it. */
typedef struct mapped {
    void *memory, *pages;
    size_t bytes; /* of PAGES */
    struct mapped *next;
} mapped;

static mapped *all_mapped;
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;

/* BYTES, a multiple of 256, that end where the guard behind them begins. */
static void *map_block(size_t bytes)
{
    mapped *const m = malloc(sizeof *m);
    const size_t room = (bytes + GUARD - 1) / GUARD * GUARD;
    const size_t all = room + 2 * GUARD;
    if (m == NULL) return NULL;
    char *const pages =
        mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + GUARD, room, PROT_READ | PROT_WRITE) != 0) {
        if (pages != MAP_FAILED) munmap(pages, all);
        free(m);
        return NULL;
    }
    pthread_mutex_lock(&mapping);
    *m = (mapped){pages + GUARD + room - bytes, pages, all, all_mapped};
    all_mapped = m;
    pthread_mutex_unlock(&mapping);
    return m->memory;
}

static bool unmap_block(void *memory)
{
    pthread_mutex_lock(&mapping);
    mapped **at = &all_mapped;
    while (*at != NULL && (*at)->memory != memory) at = &(*at)->next;
    mapped *const m = *at;
    if (m != NULL) *at = m->next;
    pthread_mutex_unlock(&mapping);
    if (m == NULL) return false;
    munmap(m->pages, m->bytes);
    free(m);
    return true;
}

FAKE cudaError_t cudaMalloc(void **out, size_t bytes)
{
    FAKE_MAY_FAIL();
    if (fake_capture_breaks()) return fake_told(cudaErrorStreamCaptureUnsupported);
    const size_t whole = (bytes + 255) / 256 * 256;
    void *const memory = whole < LARGE ? aligned_alloc(256, whole) : map_block(whole);
    if (memory == NULL) return cudaErrorMemoryAllocation;
    memset(memory, 0x5a, whole < POISONED ? whole : POISONED);
    fake_count(1);
    *out = memory;
    return cudaSuccess;
}

FAKE cudaError_t cudaFree(void *memory)
{
    if (memory == NULL) return cudaSuccess;
    if (fake_capture_breaks()) return fake_told(cudaErrorStreamCaptureUnsupported);
    fake_stalls += fake_busy(current); /* what was enqueued ends before, as on a device */
    while (fake_frees_last && fake_busy(current)) usleep(100);
    if (!unmap_block(memory)) free(memory);
    fake_count(-1);
    return cudaSuccess;
}

FAKE cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(out, bytes);
}

FAKE cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

FAKE cudaError_t cudaHostGetDevicePointer(void **out, void *memory, unsigned flags)
{
    (void)flags;
    FAKE_MAY_FAIL();
    *out = memory;
    return cudaSuccess;
}

typedef struct move_op {
    char *to;
    const char *from; /* NULL: zeros */
    size_t to_pitch, from_pitch, width, rows;
    int value; /* without FROM */
    int device;
} move_op;

static bool move(void *data, bool first)
{
    const move_op *const m = data;
    (void)first;
    /* A fill takes SMs, but a small one, and a kernel that runs may have them all. */
    if (m->from == NULL && m->width * m->rows > 4096 && fake_kernels[m->device] > 0) return false;
    for (size_t i = 0; i < m->rows; i++) {
        if (m->from == NULL)
            memset(m->to + i * m->to_pitch, m->value, m->width);
        else
            memmove(m->to + i * m->to_pitch, m->from + i * m->from_pitch, m->width);
    }
    return true;
}

FAKE cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    move_op m = {to, NULL, 0, 0, bytes, 1, value, 0};
    (void)cudaGetDevice(&m.device);
    return fake_enqueue(stream, move, &m, sizeof m);
}

FAKE cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                 cudaStream_t stream)
{
    const move_op m = {to, from, 0, 0, bytes, 1, 0, 0};
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost) {
        /* The host's memory, which is not pinned, is free for other things when the call
         * returns. */
        FAKE_MAY_FAIL();
        fake_move(to, from, bytes);
        return cudaSuccess;
    }
    fake_copies++;
    return fake_enqueue(stream, move, &m, sizeof m);
}

FAKE cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                   size_t width, size_t rows, enum cudaMemcpyKind kind,
                                   cudaStream_t stream)
{
    const move_op m = {to, from, to_pitch, from_pitch, width, rows, 0, 0};
    (void)kind;
    if (to_pitch < width || from_pitch < width) return cudaErrorInvalidPitchValue;
    fake_copies++;
    return fake_enqueue(stream, move, &m, sizeof m);
}

/* ---- Devices --------------------------------------------------------------------------------- */

FAKE cudaError_t cudaGetDeviceCount(int *out)
{
    *out = device_count;
    return device_count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

FAKE cudaError_t cudaGetDevice(int *out)
{
    *out = current;
    return cudaSuccess;
}

FAKE cudaError_t cudaSetDevice(int device)
{
    const bool fails = fake_fails();
    fake_unset += fails;
    if (fails) return fake_told(fake_error());
    if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
}

FAKE cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    FAKE_MAY_FAIL();
    (void)device;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", fake_name);
    out->multiProcessorCount = FAKE_SMS;
    out->l2CacheSize = 40 << 20;
    return cudaSuccess;
}

FAKE cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr attribute, int device)
{
    FAKE_MAY_FAIL();
    (void)attribute;
    (void)device;
    *out = FAKE_SMS;
    return cudaSuccess;
}

FAKE cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

FAKE cudaError_t cudaDeviceCanAccessPeer(int *out, int device, int peer)
{
    FAKE_MAY_FAIL();
    *out = device != peer;
    return cudaSuccess;
}

FAKE cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    FAKE_MAY_FAIL();
    (void)flags;
    return peer == current ? cudaErrorInvalidDevice : cudaSuccess;
}

FAKE cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *memory)
{
    FAKE_MAY_FAIL();
    memset(out, 0, sizeof *out);
    out->type = memory == fake_host ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice;
    out->device = memory == fake_elsewhere ? FAKE_DEVICES : current;
    return cudaSuccess;
}

static CUresult answer(void *out, CUpointer_attribute about, CUdeviceptr of)
{
    if (fake_fails()) return CUDA_ERROR_UNKNOWN;
    if (about == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
        fake_questions++;
        const unsigned long long id = (const void *)(uintptr_t)of == fake_apart ? 2 : 1;
        memcpy(out, &id, sizeof id);
        return CUDA_SUCCESS;
    }
    if (about != CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) return CUDA_ERROR_INVALID_VALUE;
    const int capable = (const void *)(uintptr_t)of != fake_apart;
    memcpy(out, &capable, sizeof capable);
    return CUDA_SUCCESS;
}

FAKE cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned version,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *result)
{
    CUresult (*const pointer)(void *, CUpointer_attribute, CUdeviceptr) = answer;
    CUresult (*const event)(CUevent) = fake_ask_event;
    CUresult (*const stream)(CUstream) = fake_ask_stream;
    CUresult (*const capture)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
                              const CUgraphNode **, size_t *) = fake_ask_capture;
    (void)flags;
    *result = cudaDriverEntryPointSuccess;
    if (strcmp(symbol, "cuPointerGetAttribute") == 0)
        memcpy(out, &pointer, sizeof pointer);
    else if (strcmp(symbol, "cuEventQuery") == 0)
        memcpy(out, &event, sizeof event);
    else if (strcmp(symbol, "cuStreamQuery") == 0)
        memcpy(out, &stream, sizeof stream);
    else if (strcmp(symbol, "cuStreamGetCaptureInfo") == 0 && version == 12000)
        memcpy(out, &capture, sizeof capture);
    else
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

/* ---- By other calls -------------------------------------------------------------------------- */

FAKE cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}
