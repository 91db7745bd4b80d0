/* instance_sm90.cuh -- the instances of the Hopper product, the same for bf16 and f16. */
#pragma once
#include "kernel/instance.h"
#ifdef SHINGLE_SHAPES_ALONE /* for who chooses among kernels and starts none */
#include "kernel/shape_sm90.cuh"
template <class S> static const void *kernel_of()
{
    return "";
}
#else
#include "kernel/gemm_sm90.cuh"
template <class S> static const void *kernel_of()
{
    return (const void *)gemm_sm90<S>;
}
#endif

template <class S> static sg_instance instance_of(int type)
{
    const sg_instance i = {
        type,      S::BM,         S::BN,
        S::NARROW, S::WGS,        S::PINGPONG ? SG_KERNEL_PINGPONG : SG_KERNEL_COOPERATIVE,
        S::CM,     S::CN,         S::FOLD,
        S::ONTO,   S::W,          S::THREADS,
        S::SMEM,   kernel_of<S>()};
    return i;
}

/* A tile of all math warpgroups together; ping-pong: a tile for each of two. */
#define COOPERATIVE(bm, bn, groups, cm, cn, slots, fold)                                           \
    out[n++] = instance_of<Shape<T, bm, bn, groups, cm, cn, slots, fold>>(type);
#define PINGPONG(bm, bn, cm, cn, slots, fold)                                                      \
    out[n++] = instance_of<Shape<T, bm, bn, 2, cm, cn, slots, fold, true>>(type);

/* The first, some patches in tiles of NARROW columns. */
#define COOPERATIVE_AND(narrow, bm, bn, groups, slots, fold)                                       \
    out[n++] = instance_of<Shape<T, bm, bn, groups, 1, 1, slots, fold, false, narrow>>(type);

/* In the order of preference among those that serve a launch, which is served by one kind alone.
 * Every one is the best at something: bench/lab/DIARY.md, docs/diary.md.  A third each is compiled
 * by itself (gemm_bf16.cu, gemm_bf16_sums.cu, gemm_bf16_tagged.cu): together they take a processor
 * a quarter of an hour. */
template <class T> static int products_sm90(int type, sg_instance *out)
{
    int n = 0;
    COOPERATIVE(128, 256, 2, 2, 1, 2, FOLD_NONE)
    COOPERATIVE(128, 256, 2, 1, 1, 2, FOLD_NONE)
    COOPERATIVE(128, 224, 2, 2, 1, 4, FOLD_NONE)
    COOPERATIVE(128, 224, 2, 1, 1, 4, FOLD_NONE)
    PINGPONG(128, 192, 2, 1, 1, FOLD_NONE)
    PINGPONG(128, 192, 1, 1, 1, FOLD_NONE)
    PINGPONG(128, 176, 1, 1, 4, FOLD_NONE)
    COOPERATIVE(128, 160, 2, 2, 1, 4, FOLD_NONE)
    COOPERATIVE(128, 160, 2, 1, 1, 4, FOLD_NONE)
    PINGPONG(128, 128, 2, 1, 2, FOLD_NONE)
    COOPERATIVE(128, 128, 2, 1, 2, 2, FOLD_NONE)
    COOPERATIVE(128, 128, 2, 1, 1, 2, FOLD_NONE)
    COOPERATIVE(64, 256, 1, 1, 1, 2, FOLD_NONE)
    COOPERATIVE(64, 128, 1, 2, 1, 2, FOLD_NONE)
    COOPERATIVE(64, 128, 1, 1, 1, 2, FOLD_NONE)
    COOPERATIVE(64, 64, 1, 1, 1, 1, FOLD_NONE)
    COOPERATIVE(256, 160, 2, 1, 2, 2, FOLD_NONE)
    COOPERATIVE(256, 128, 2, 2, 1, 2, FOLD_NONE)
    COOPERATIVE(128, 96, 2, 1, 1, 2, FOLD_NONE)
    COOPERATIVE(128, 112, 2, 1, 2, 1, FOLD_NONE)
    COOPERATIVE(128, 112, 2, 1, 1, 1, FOLD_NONE)
    COOPERATIVE(128, 80, 2, 1, 2, 1, FOLD_NONE)
    COOPERATIVE(128, 80, 2, 1, 1, 1, FOLD_NONE)
    COOPERATIVE(64, 112, 1, 1, 1, 1, FOLD_NONE)
    COOPERATIVE(64, 160, 1, 1, 1, 2, FOLD_NONE)
    COOPERATIVE_AND(96, 128, 256, 2, 4, FOLD_NONE)
    return n;
}

/* With addends; with parts of k of their own or in slices. */
template <class T> static int sums_sm90(int type, sg_instance *out)
{
    int n = 0;
    COOPERATIVE(128, 256, 2, 2, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 256, 2, 1, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 256, 2, 1, 1, 2, FOLD_PARTS)
    COOPERATIVE(128, 224, 2, 1, 1, 2, FOLD_ADDENDS)
    PINGPONG(128, 192, 2, 1, 1, FOLD_ADDENDS)
    PINGPONG(128, 192, 1, 1, 1, FOLD_ADDENDS)
    COOPERATIVE(128, 192, 2, 2, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 192, 2, 1, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 160, 2, 2, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 160, 2, 1, 1, 2, FOLD_ADDENDS)
    PINGPONG(128, 128, 2, 1, 1, FOLD_ADDENDS)
    PINGPONG(128, 128, 1, 2, 1, FOLD_ADDENDS)
    COOPERATIVE(128, 128, 2, 1, 2, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 128, 2, 1, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 128, 2, 1, 1, 2, FOLD_PARTS)
    COOPERATIVE(64, 256, 1, 1, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(64, 256, 1, 1, 1, 2, FOLD_PARTS)
    COOPERATIVE(64, 128, 1, 1, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(64, 128, 1, 1, 1, 2, FOLD_PARTS)
    COOPERATIVE(64, 128, 1, 1, 1, 2, FOLD_SLICES)
    COOPERATIVE(64, 64, 1, 1, 1, 2, FOLD_SLICES)
    COOPERATIVE(128, 64, 2, 1, 1, 2, FOLD_SLICES)
    COOPERATIVE(128, 160, 2, 2, 1, 2, FOLD_SLICES)
    COOPERATIVE(64, 32, 1, 1, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(64, 64, 1, 1, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(64, 96, 1, 1, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 64, 2, 1, 2, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 64, 2, 1, 1, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 96, 2, 1, 2, 2, FOLD_ADDENDS)
    COOPERATIVE(128, 96, 2, 1, 1, 2, FOLD_ADDENDS)
    return n;
}

/* Data that is its own flag: to one hop or two, or what a product takes. */
template <class T> static int tagged_sm90(int type, sg_instance *out)
{
    int n = 0;
    COOPERATIVE(64, 32, 1, 1, 1, 1, FOLD_TAGGED)
    COOPERATIVE(64, 64, 1, 1, 1, 1, FOLD_TAGGED)
    COOPERATIVE(64, 96, 1, 1, 1, 1, FOLD_TAGGED)
    COOPERATIVE(64, 128, 1, 1, 1, 1, FOLD_TAGGED)
    COOPERATIVE(128, 64, 2, 1, 1, 1, FOLD_TAGGED)
    COOPERATIVE(128, 96, 2, 1, 1, 1, FOLD_TAGGED)
    COOPERATIVE(128, 128, 2, 1, 1, 1, FOLD_TAGGED)
    COOPERATIVE(64, 32, 1, 1, 1, 1, FOLD_HOPS)
    COOPERATIVE(64, 64, 1, 1, 1, 1, FOLD_HOPS)
    COOPERATIVE(64, 96, 1, 1, 1, 1, FOLD_HOPS)
    COOPERATIVE(64, 128, 1, 1, 1, 1, FOLD_HOPS)
    COOPERATIVE(128, 64, 2, 1, 1, 1, FOLD_HOPS)
    COOPERATIVE(128, 96, 2, 1, 1, 1, FOLD_HOPS)
    COOPERATIVE(128, 128, 2, 1, 1, 1, FOLD_HOPS)
    COOPERATIVE(128, 192, 2, 1, 1, 1, FOLD_HOPS)
    COOPERATIVE(64, 32, 1, 1, 1, 1, FOLD_GATHER)
    COOPERATIVE(64, 64, 1, 1, 1, 1, FOLD_GATHER)
    COOPERATIVE(64, 128, 1, 1, 1, 2, FOLD_GATHER)
    COOPERATIVE(64, 256, 1, 1, 1, 2, FOLD_GATHER)
    COOPERATIVE(128, 64, 2, 1, 1, 2, FOLD_GATHER)
    COOPERATIVE(128, 96, 2, 1, 1, 2, FOLD_GATHER)
    COOPERATIVE(128, 128, 2, 1, 1, 2, FOLD_GATHER)
    COOPERATIVE(128, 160, 2, 1, 1, 2, FOLD_GATHER)
    COOPERATIVE(128, 224, 2, 1, 1, 2, FOLD_GATHER)
    COOPERATIVE(128, 256, 2, 1, 1, 2, FOLD_GATHER)
    return n;
}

#undef COOPERATIVE_AND
#undef COOPERATIVE
#undef PINGPONG
