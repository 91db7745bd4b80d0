/* at_rest.h -- does the memory of tagged data rest while nothing runs?  All
 * of it that is not too large. */
#ifndef TESTS_AT_REST_H
#define TESTS_AT_REST_H

#include <cuda_runtime_api.h>

#include "backend/cuda/cuda.h"
#include "core/comm.h"

/* Bytes of all ranks' blocks of at most MOST bytes that are not at rest. */
static int64_t count_awake(const sg_group *group, size_t most)
{
    static uint8_t here[1 << 20];
    const sg_cuda *const cuda = group->self;
    int64_t awake = 0;
    for (int r = 0; r < group->ranks; r++)
        for (int kind = SG_BLOCK_REST0; kind <= SG_BLOCK_REST1; kind++)
            for (int cls = SG_BLOCK_CLASS0; (size_t)1 << cls <= most; cls++) {
                const uint8_t *const block = group->work[r]->block[kind][cls];
                const size_t bytes = (size_t)1 << cls;
                const size_t some = bytes < sizeof here ? bytes : sizeof here;
                cudaSetDevice(cuda->rank[r].device);
                for (size_t at = 0; block != NULL && at < bytes; at += some) {
                    cudaMemcpy(here, block + at, some, cudaMemcpyDeviceToHost);
                    for (size_t i = 0; i < some; i++) awake += here[i] != 0xff;
                }
            }
    return awake;
}

#endif
