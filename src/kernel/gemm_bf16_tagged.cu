/* gemm_bf16_tagged.cu -- the Hopper product for bf16, of data that is its own flag. */
#include "kernel/instance_sm90.cuh"

int sg_instance_bf16_tagged(sg_instance *out)
{
    return tagged_sm90<__nv_bfloat16>(SG_KERNEL_BF16, out);
}
