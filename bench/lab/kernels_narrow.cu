// Tiles for small m, and for filling one or two waves.
#include "kernel_list.cuh"

int lab_kernels_narrow(lab_kernel *out) {
    int n = 0;
    BF(128, 128, 2, 1, 1, 2, FOLD_NONE)
    BF(128, 128, 2, 2, 1, 2, FOLD_NONE)
    BF(128, 128, 2, 1, 2, 2, FOLD_NONE)
    BF(128, 112, 2, 1, 2, 2, FOLD_NONE)
    BF(128, 96, 2, 1, 2, 2, FOLD_NONE)
    BF(128, 80, 2, 1, 2, 2, FOLD_NONE)
    BF(128, 64, 2, 1, 1, 1, FOLD_NONE)
    BF(128, 64, 2, 1, 2, 1, FOLD_NONE)
    BF(64, 256, 1, 1, 1, 4, FOLD_NONE)
    BF(64, 224, 1, 1, 1, 2, FOLD_NONE)
    BF(64, 128, 1, 1, 1, 2, FOLD_NONE)
    BF(64, 112, 1, 1, 1, 2, FOLD_NONE)
    BF(64, 96, 1, 1, 1, 2, FOLD_NONE)
    BF(64, 64, 1, 1, 1, 1, FOLD_NONE)
    BF(64, 64, 1, 1, 2, 1, FOLD_NONE)
    BF(64, 112, 1, 1, 2, 2, FOLD_NONE)
    BF(64, 128, 1, 1, 2, 2, FOLD_NONE)
    BF(64, 128, 1, 1, 4, 2, FOLD_NONE)
    BF(128, 96, 2, 1, 1, 2, FOLD_NONE)
    BF(128, 112, 2, 1, 1, 2, FOLD_NONE)
    BF(128, 80, 1, 1, 2, 2, FOLD_NONE)
    BF(128, 64, 1, 1, 2, 2, FOLD_NONE)
    BF(128, 64, 1, 1, 1, 2, FOLD_NONE)
    BF(128, 112, 1, 1, 2, 2, FOLD_NONE)
    BF(64, 128, 1, 2, 1, 2, FOLD_NONE)
    BF(64, 160, 1, 2, 1, 2, FOLD_NONE)
    BF(64, 256, 1, 2, 1, 2, FOLD_NONE)
    BF(64, 112, 1, 2, 1, 2, FOLD_NONE)
    return n;
}
