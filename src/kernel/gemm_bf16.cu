/* gemm_bf16.cu -- the instances of the Hopper product for bf16. */
#include "kernel/gemm_sm90.cuh"
#include "kernel/instance.h"

template <class S> static sg_instance entry()
{
    const sg_instance i = {SG_KERNEL_BF16,
                           S::BM,
                           S::BN,
                           S::WGS,
                           S::CM,
                           S::CN,
                           S::FOLD,
                           S::W,
                           S::THREADS,
                           S::SMEM,
                           (const void *)gemm_sm90<S>};
    return i;
}

#define ENTRY(bm, bn, groups, cm, cn, slots, fold)                                                 \
    out[n++] = entry<Shape<__nv_bfloat16, bm, bn, groups, cm, cn, slots, fold>>();

/* In the order of preference among those that serve a launch. */
int sg_instance_bf16(sg_instance *out)
{
    int n = 0;
    ENTRY(128, 256, 2, 2, 1, 2, FOLD_NONE)
    ENTRY(128, 256, 2, 1, 1, 2, FOLD_NONE)
    ENTRY(128, 256, 2, 2, 1, 2, FOLD_ADDENDS)
    ENTRY(128, 256, 2, 1, 1, 2, FOLD_ADDENDS)
    ENTRY(128, 224, 2, 2, 1, 2, FOLD_NONE)
    ENTRY(128, 224, 2, 1, 1, 2, FOLD_NONE)
    ENTRY(128, 224, 2, 1, 1, 2, FOLD_ADDENDS)
    ENTRY(128, 192, 2, 1, 1, 2, FOLD_NONE)
    ENTRY(128, 192, 2, 1, 1, 2, FOLD_ADDENDS)
    ENTRY(128, 160, 2, 1, 1, 2, FOLD_NONE)
    ENTRY(128, 160, 2, 1, 1, 2, FOLD_ADDENDS)
    ENTRY(128, 128, 2, 1, 2, 2, FOLD_NONE)
    ENTRY(128, 128, 2, 1, 1, 2, FOLD_NONE)
    ENTRY(128, 128, 2, 1, 2, 2, FOLD_ADDENDS)
    ENTRY(128, 128, 2, 1, 1, 2, FOLD_ADDENDS)
    ENTRY(64, 256, 1, 1, 1, 2, FOLD_NONE)
    ENTRY(64, 256, 1, 1, 1, 2, FOLD_ADDENDS)
    ENTRY(64, 128, 1, 2, 1, 2, FOLD_NONE)
    ENTRY(64, 128, 1, 1, 1, 2, FOLD_NONE)
    ENTRY(64, 128, 1, 1, 1, 2, FOLD_ADDENDS)
    ENTRY(64, 64, 1, 1, 1, 1, FOLD_NONE)
    ENTRY(64, 128, 1, 1, 1, 2, FOLD_SLICES)
    ENTRY(64, 64, 1, 1, 1, 2, FOLD_SLICES)
    ENTRY(128, 64, 2, 1, 1, 2, FOLD_SLICES)
    ENTRY(128, 128, 2, 1, 2, 2, FOLD_SLICES)
    ENTRY(128, 160, 2, 2, 1, 2, FOLD_SLICES)
    ENTRY(256, 160, 2, 1, 2, 2, FOLD_NONE)
    ENTRY(256, 128, 2, 2, 1, 2, FOLD_NONE)
    ENTRY(64, 128, 1, 1, 4, 2, FOLD_NONE)
    ENTRY(128, 112, 2, 1, 2, 2, FOLD_NONE)
    return n;
}
