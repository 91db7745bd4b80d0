/* gemm_bf16.cu -- the Hopper product for bf16. */
#include "kernel/instance_sm90.cuh"

int sg_instance_bf16(sg_instance *out)
{
    return products_sm90<__nv_bfloat16>(SG_KERNEL_BF16, out);
}
