/* gemm_f16_sums.cu -- the Hopper product for f16, with what it adds up. */
#include "kernel/instance_sm90.cuh"

int sg_instance_f16_sums(sg_instance *out)
{
    return sums_sm90<__half>(SG_KERNEL_F16, out);
}
