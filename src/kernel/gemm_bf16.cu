/* gemm_bf16.cu -- the Hopper product for bf16. */
#include "kernel/instance_sm90.cuh"

int sg_instance_bf16(sg_instance *out)
{
    return instances_sm90<__nv_bfloat16>(SG_KERNEL_BF16, out);
}

#ifdef SHINGLE_STAMPS
int sg_kernel_stamps(int device, Stamps *to)
{
    void *counts = nullptr;
    cudaError_t status = cudaSetDevice(device);
    if (status == cudaSuccess) status = cudaMemcpyFromSymbol(to, stamps_here, sizeof *to);
    if (status == cudaSuccess) status = cudaGetSymbolAddress(&counts, stamps_here);
    if (status == cudaSuccess) status = cudaMemset(counts, 0, sizeof to->count);
    return status;
}
#endif
