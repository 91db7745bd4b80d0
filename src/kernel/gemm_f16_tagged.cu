/* gemm_f16_tagged.cu -- the Hopper product for f16, of data that is its own flag. */
#include "kernel/instance_sm90.cuh"

int sg_instance_f16_tagged(sg_instance *out)
{
    return tagged_sm90<__half>(SG_KERNEL_F16, out);
}
