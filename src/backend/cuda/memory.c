/* memory.c -- memory of a rank's GPU: got, filled, written and read, without waiting for its
 * kernels.
 *
 * A fill takes SMs: behind a kernel that has them all it would wait for its end, and that kernel
 * may wait for a rank whose thread waits for us.  Copies from the host, and cudaMalloc, do not
 * wait. */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"

enum { SET_AT_ONCE = 1 << 20 }; /* bytes */

/* By the engine that copies from the host. */
static shingle_status set_by_copies(sg_cuda_rank *rank, char *memory, int byte, size_t bytes)
{
    const size_t most = bytes < SET_AT_ONCE ? bytes : SET_AT_ONCE;
    char *const from = malloc(most);
    if (from == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %zu bytes", most);
    memset(from, byte, most);
    shingle_status status = SHINGLE_OK;
    for (size_t at = 0; at < bytes && status == SHINGLE_OK; at += most)
        status = sg_cuda_put(rank, memory + at, from, bytes - at < most ? bytes - at : most);
    free(from);
    return status;
}

/* The rank's own thread knows what is on its way; any other has the mutex, behind which a run that
 * has not begun waits until the fill is over (sg_cuda_enqueues).  What graphs replay nobody
 * knows. */
static shingle_status set(sg_cuda_rank *rank, void *memory, int byte, size_t bytes)
{
    const bool replays = __atomic_load_n(&rank->captured, __ATOMIC_RELAXED);
    if (rank->enqueues || replays || sg_cuda_in_flight(rank) > 0)
        return set_by_copies(rank, memory, byte, bytes);
    SG_CUDA(cudaMemsetAsync(memory, byte, bytes, rank->service));
    return sg_cuda_settle(rank);
}

shingle_status sg_cuda_clear(sg_cuda_rank *rank, void *memory, size_t bytes)
{
    return set(rank, memory, 0, bytes);
}

shingle_status sg_cuda_rest(sg_cuda_rank *rank, void *memory, size_t bytes)
{
    return set(rank, memory, 0xff, bytes);
}

/* Of memory that is not pinned, for which the driver waits inside the call, and without a limit for
 * what is in front of it: so nothing is. */
static shingle_status copy(sg_cuda_rank *rank, void *to, const void *from, size_t bytes,
                           enum cudaMemcpyKind kind)
{
    SG_TRY(sg_cuda_settle(rank));
    SG_CUDA(cudaMemcpyAsync(to, from, bytes, kind, rank->service));
    return sg_cuda_settle(rank);
}

shingle_status sg_cuda_put(sg_cuda_rank *rank, void *to, const void *from, size_t bytes)
{
    return copy(rank, to, from, bytes, cudaMemcpyHostToDevice);
}

shingle_status sg_cuda_fetch(sg_cuda_rank *rank, void *to, const void *from, size_t bytes)
{
    return copy(rank, to, from, bytes, cudaMemcpyDeviceToHost);
}

shingle_status sg_cuda_get(sg_cuda_rank *rank, size_t bytes, void **memory_out)
{
    void *memory = NULL;
    SG_TRY(sg_cuda_settle(rank));
    const cudaError_t error = sg_cuda_forget(cudaMalloc(&memory, bytes > 0 ? bytes : 1));
    if (error == cudaErrorMemoryAllocation)
        return sg_fail(SHINGLE_ENOMEM, "no memory for %zu bytes on the GPU of rank %d", bytes,
                       rank->rank);
    SG_TRY(sg_cuda_check(error, "cudaMalloc()"));
    const shingle_status status = sg_cuda_clear(rank, memory, bytes > 0 ? bytes : 1);
    if (status != SHINGLE_OK) {
        sg_cuda_put_back(rank, memory);
        return status;
    }
    *memory_out = memory;
    return SHINGLE_OK;
}
