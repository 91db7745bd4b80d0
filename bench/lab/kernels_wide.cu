// Tiles for products that fill the chip several times.
#include "kernel_list.cuh"

int lab_kernels_wide(lab_kernel *out) {
    int n = 0;
    BF(128, 256, 2, 1, 1, 2, FOLD_NONE)
    BF(128, 256, 2, 2, 1, 2, FOLD_NONE)
    BF(128, 256, 2, 1, 2, 2, FOLD_NONE)
    BF(128, 256, 2, 2, 1, 4, FOLD_NONE)
    BF(256, 128, 2, 1, 2, 2, FOLD_NONE)
    BF(256, 128, 2, 2, 1, 2, FOLD_NONE)
    BF(256, 160, 2, 1, 2, 2, FOLD_NONE)
    BF(128, 224, 2, 2, 1, 2, FOLD_NONE)
    BF(128, 192, 2, 1, 1, 2, FOLD_NONE)
    BF(128, 192, 2, 2, 1, 3, FOLD_NONE)
    BF(128, 192, 2, 1, 2, 3, FOLD_NONE)
    BF(128, 160, 2, 2, 1, 2, FOLD_NONE)
    BF(128, 160, 2, 1, 2, 2, FOLD_NONE)
    BF(128, 192, 2, 2, 1, 1, FOLD_NONE)
    BF(128, 192, 2, 1, 2, 1, FOLD_NONE)
    BF(128, 160, 2, 2, 1, 1, FOLD_NONE)
    BF(128, 176, 2, 2, 1, 2, FOLD_NONE)
    BF(256, 192, 2, 1, 2, 2, FOLD_NONE)
    BF(128, 256, 2, 2, 2, 2, FOLD_NONE)
    HF(128, 256, 2, 2, 1, 2, FOLD_NONE)
    return n;
}
