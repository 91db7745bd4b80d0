/* gemm_f16.cu -- the Hopper product for f16. */
#include "kernel/instance_sm90.cuh"

int sg_instance_f16(sg_instance *out)
{
    return products_sm90<__half>(SG_KERNEL_F16, out);
}
