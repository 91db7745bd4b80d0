// Instances that add other partial tiles: f32 for split k, input-typed for partial tiles that come over a link.
#include "kernel_list.cuh"

int lab_kernels_fold(lab_kernel *out) {
    int n = 0;
    BF(128, 256, 2, 1, 1, 2, FOLD_F32)
    BF(128, 256, 2, 2, 1, 2, FOLD_F32)
    BF(128, 192, 2, 2, 1, 2, FOLD_F32)
    BF(128, 160, 2, 2, 1, 2, FOLD_F32)
    BF(128, 160, 2, 1, 2, 2, FOLD_F32)
    BF(128, 128, 2, 1, 1, 2, FOLD_F32)
    BF(128, 128, 2, 1, 2, 2, FOLD_F32)
    BF(128, 64, 2, 1, 1, 2, FOLD_F32)
    BF(64, 256, 1, 1, 1, 2, FOLD_F32)
    BF(64, 128, 1, 1, 1, 2, FOLD_F32)
    BF(64, 64, 1, 1, 1, 2, FOLD_F32)
    BF(128, 256, 2, 1, 1, 2, FOLD_WIRE)
    BF(128, 256, 2, 2, 1, 2, FOLD_WIRE)
    BF(128, 128, 2, 1, 1, 2, FOLD_WIRE)
    BF(128, 128, 2, 1, 2, 2, FOLD_WIRE)
    BF(128, 192, 2, 2, 1, 2, FOLD_WIRE)
    return n;
}
