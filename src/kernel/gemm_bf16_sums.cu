/* gemm_bf16_sums.cu -- the Hopper product for bf16, with what it adds up. */
#include "kernel/instance_sm90.cuh"

int sg_instance_bf16_sums(sg_instance *out)
{
    return sums_sm90<__nv_bfloat16>(SG_KERNEL_BF16, out);
}
