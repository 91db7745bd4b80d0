// The instances of the kernel, as data: what the planner and the harness need to know about each.
#pragma once
#include "patch.h"
#include <cuda_runtime.h>

enum { TYPE_BF16, TYPE_F16 };

struct lab_kernel {
    char name[48];
    int type, bm, bn, groups, cm, cn, slots, fold, stages, w, threads, smem;
    int64_t tile_bytes;
    const void *function;
};

// Appends this translation unit's instances; returns how many.
int lab_kernels_wide(lab_kernel *out);
int lab_kernels_narrow(lab_kernel *out);
int lab_kernels_fold(lab_kernel *out);
