/* instance_sm90.cuh -- the instances of the Hopper product, the same for bf16 and f16. */
#pragma once
#include "kernel/gemm_sm90.cuh"
#include "kernel/instance.h"

template <class S> static sg_instance instance_of(int type)
{
    const sg_instance i = {
        type,  S::BM,   S::BN,   S::NARROW, S::WGS,     S::TURNS, S::CM,
        S::CN, S::FOLD, S::ONTO, S::W,      S::THREADS, S::SMEM,  (const void *)gemm_sm90<S>};
    return i;
}

/* A tile of all math warpgroups together; a tile for each of two, in turn. */
#define TOGETHER(bm, bn, groups, cm, cn, slots, fold)                                              \
    out[n++] = instance_of<Shape<T, bm, bn, groups, cm, cn, slots, fold>>(type);
#define IN_TURN(bm, bn, cm, cn, slots, fold)                                                       \
    out[n++] = instance_of<Shape<T, bm, bn, 2, cm, cn, slots, fold, 2>>(type);

/* The first, some patches in tiles of NARROW columns. */
#define TOGETHER_AND(narrow, bm, bn, groups, slots, fold)                                          \
    out[n++] = instance_of<Shape<T, bm, bn, groups, 1, 1, slots, fold, 1, narrow>>(type);

/* In the order of preference among those that serve a launch.  Every one is the best at something:
 * bench/lab/DIARY.md, docs/diary.md. */
template <class T> static int instances_sm90(int type, sg_instance *out)
{
    int n = 0;
    TOGETHER(128, 256, 2, 2, 1, 2, FOLD_NONE)
    TOGETHER(128, 256, 2, 1, 1, 2, FOLD_NONE)
    TOGETHER(128, 256, 2, 2, 1, 2, FOLD_ADDENDS)
    TOGETHER(128, 256, 2, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(128, 256, 2, 1, 1, 2, FOLD_PARTS)
    TOGETHER(128, 224, 2, 2, 1, 4, FOLD_NONE)
    TOGETHER(128, 224, 2, 1, 1, 4, FOLD_NONE)
    TOGETHER(128, 224, 2, 1, 1, 2, FOLD_ADDENDS)
    IN_TURN(128, 192, 2, 1, 1, FOLD_NONE)
    IN_TURN(128, 192, 1, 1, 1, FOLD_NONE)
    IN_TURN(128, 176, 1, 1, 4, FOLD_NONE)
    IN_TURN(128, 192, 2, 1, 1, FOLD_ADDENDS)
    IN_TURN(128, 192, 1, 1, 1, FOLD_ADDENDS)
    TOGETHER(128, 192, 2, 2, 1, 2, FOLD_ADDENDS)
    TOGETHER(128, 192, 2, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(128, 160, 2, 2, 1, 4, FOLD_NONE)
    TOGETHER(128, 160, 2, 1, 1, 4, FOLD_NONE)
    TOGETHER(128, 160, 2, 2, 1, 2, FOLD_ADDENDS)
    TOGETHER(128, 160, 2, 1, 1, 2, FOLD_ADDENDS)
    IN_TURN(128, 128, 2, 1, 2, FOLD_NONE)
    TOGETHER(128, 128, 2, 1, 2, 2, FOLD_NONE)
    TOGETHER(128, 128, 2, 1, 1, 2, FOLD_NONE)
    IN_TURN(128, 128, 2, 1, 1, FOLD_ADDENDS)
    IN_TURN(128, 128, 1, 2, 1, FOLD_ADDENDS)
    TOGETHER(128, 128, 2, 1, 2, 2, FOLD_ADDENDS)
    TOGETHER(128, 128, 2, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(128, 128, 2, 1, 1, 2, FOLD_PARTS)
    TOGETHER(64, 256, 1, 1, 1, 2, FOLD_NONE)
    TOGETHER(64, 256, 1, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(64, 256, 1, 1, 1, 2, FOLD_PARTS)
    TOGETHER(64, 128, 1, 2, 1, 2, FOLD_NONE)
    TOGETHER(64, 128, 1, 1, 1, 2, FOLD_NONE)
    TOGETHER(64, 128, 1, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(64, 128, 1, 1, 1, 2, FOLD_PARTS)
    TOGETHER(64, 64, 1, 1, 1, 1, FOLD_NONE)
    TOGETHER(64, 128, 1, 1, 1, 2, FOLD_SLICES)
    TOGETHER(64, 64, 1, 1, 1, 2, FOLD_SLICES)
    TOGETHER(128, 64, 2, 1, 1, 2, FOLD_SLICES)
    TOGETHER(128, 160, 2, 2, 1, 2, FOLD_SLICES)
    TOGETHER(256, 160, 2, 1, 2, 2, FOLD_NONE)
    TOGETHER(256, 128, 2, 2, 1, 2, FOLD_NONE)
    TOGETHER(64, 32, 1, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(64, 64, 1, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(64, 96, 1, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(128, 64, 2, 1, 2, 2, FOLD_ADDENDS)
    TOGETHER(128, 64, 2, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(128, 96, 2, 1, 2, 2, FOLD_ADDENDS)
    TOGETHER(128, 96, 2, 1, 1, 2, FOLD_ADDENDS)
    TOGETHER(128, 96, 2, 1, 1, 2, FOLD_NONE)
    TOGETHER(128, 112, 2, 1, 2, 1, FOLD_NONE)
    TOGETHER(128, 112, 2, 1, 1, 1, FOLD_NONE)
    TOGETHER(128, 80, 2, 1, 2, 1, FOLD_NONE)
    TOGETHER(128, 80, 2, 1, 1, 1, FOLD_NONE)
    TOGETHER(64, 112, 1, 1, 1, 1, FOLD_NONE)
    TOGETHER(64, 32, 1, 1, 1, 1, FOLD_TAGGED)
    TOGETHER(64, 64, 1, 1, 1, 1, FOLD_TAGGED)
    TOGETHER(64, 96, 1, 1, 1, 1, FOLD_TAGGED)
    TOGETHER(64, 128, 1, 1, 1, 1, FOLD_TAGGED)
    TOGETHER(128, 64, 2, 1, 1, 1, FOLD_TAGGED)
    TOGETHER(128, 96, 2, 1, 1, 1, FOLD_TAGGED)
    TOGETHER(128, 128, 2, 1, 1, 1, FOLD_TAGGED)
    TOGETHER(64, 32, 1, 1, 1, 1, FOLD_HOPS)
    TOGETHER(64, 64, 1, 1, 1, 1, FOLD_HOPS)
    TOGETHER(64, 96, 1, 1, 1, 1, FOLD_HOPS)
    TOGETHER(64, 128, 1, 1, 1, 1, FOLD_HOPS)
    TOGETHER(128, 64, 2, 1, 1, 1, FOLD_HOPS)
    TOGETHER(128, 96, 2, 1, 1, 1, FOLD_HOPS)
    TOGETHER(128, 128, 2, 1, 1, 1, FOLD_HOPS)
    TOGETHER(128, 192, 2, 1, 1, 1, FOLD_HOPS)
    TOGETHER(64, 32, 1, 1, 1, 1, FOLD_GATHER)
    TOGETHER(64, 64, 1, 1, 1, 1, FOLD_GATHER)
    TOGETHER(64, 128, 1, 1, 1, 2, FOLD_GATHER)
    TOGETHER(64, 256, 1, 1, 1, 2, FOLD_GATHER)
    TOGETHER(128, 64, 2, 1, 1, 2, FOLD_GATHER)
    TOGETHER(128, 96, 2, 1, 1, 2, FOLD_GATHER)
    TOGETHER(128, 128, 2, 1, 1, 2, FOLD_GATHER)
    TOGETHER(128, 160, 2, 1, 1, 2, FOLD_GATHER)
    TOGETHER(128, 224, 2, 1, 1, 2, FOLD_GATHER)
    TOGETHER(128, 256, 2, 1, 1, 2, FOLD_GATHER)
    TOGETHER_AND(96, 128, 256, 2, 4, FOLD_NONE)
    return n;
}

#undef TOGETHER_AND
#undef TOGETHER
#undef IN_TURN
