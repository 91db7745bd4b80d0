// Turns a Shape into an entry of the kernel table.
#pragma once
#include "gemm_sm90.cuh"
#include "kernels.h"
#include <cstdio>

template <class S> static lab_kernel entry() {
    const int type = sizeof(typename S::T) == 2 && std::is_same<typename S::T, __half>::value ? TYPE_F16 : TYPE_BF16;
    lab_kernel k = {"", type,      S::BM,     S::BN, S::WGS,     S::CM,   S::CN,         S::SLOTS,
                    S::FOLD, S::STAGES, S::W, S::THREADS, S::SMEM, S::TILE_BYTES, (const void *)gemm<S>};
    static const char *fold[] = {"", "+wire", "+f32"};
    snprintf(k.name, sizeof k.name, "%dx%d/%dx%d s%d p%d%s%s%s", S::BM, S::BN, S::CM, S::CN, S::STAGES, S::SLOTS, S::BM / S::WGS > 64 && S::BM == 128 ? " w1" : "", fold[S::FOLD],
             type == TYPE_F16 ? " f16" : "");
    cudaFuncSetAttribute(k.function, cudaFuncAttributeMaxDynamicSharedMemorySize, S::SMEM);
    cudaFuncSetAttribute(k.function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    return k;
}

#define BF(bm, bn, groups, cm, cn, slots, fold) out[n++] = entry<Shape<__nv_bfloat16, bm, bn, groups, cm, cn, slots, fold>>();
#define HF(bm, bn, groups, cm, cn, slots, fold) out[n++] = entry<Shape<__half, bm, bn, groups, cm, cn, slots, fold>>();
