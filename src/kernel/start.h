/* start.h -- a line that all devices start from, as the host sees it. */
#ifndef SG_KERNEL_START_H
#define SG_KERNEL_START_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Holds STREAM until the host has counted *COUNT up to TURN, at most LIMIT_NS: what is enqueued
 * behind it on all devices begins within a microsecond, however long the host takes to enqueue it.
 * COUNT is in mapped memory of the host. */
cudaError_t sg_kernel_start(const uint32_t *count, uint32_t turn, uint64_t limit_ns,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
