/* start.cu -- see start.h. */
#include "kernel/ptx.cuh"
#include "kernel/start.h"

static __global__ void start_kernel(const uint32_t *count, uint32_t turn, uint64_t limit_ns)
{
    const uint64_t begin = now_ns();
    while ((int32_t)(*(const volatile uint32_t *)count - turn) < 0 && now_ns() - begin < limit_ns) {
    }
}

cudaError_t sg_kernel_start(const uint32_t *count, uint32_t turn, uint64_t limit_ns,
                            cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    config.stream = stream;
    /* What this launch is told, and not the last error of the thread, which may be the caller's. */
    return cudaLaunchKernelEx(&config, start_kernel, count, turn, limit_ns);
}
