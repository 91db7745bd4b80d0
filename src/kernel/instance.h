/* instance.h -- the product kernels that are compiled, as a table the host chooses from. */
#ifndef SG_INSTANCE_H
#define SG_INSTANCE_H

#include "kernel/kernel.h"

typedef struct sg_instance {
    int type;          /* enum sg_kernel_type */
    int bm, bn;        /* tile */
    int groups, turns; /* math warpgroups; 2: they have a tile each, in turn */
    int cm, cn;        /* tiles of a cluster */
    /* 0: nothing, 1: addends of patches, 2: slices of k, 3: addends and parts, 4: tagged data */
    int fold;
    int piece_cols; /* columns of a stored piece */
    int threads, smem;
    const void *function;
} sg_instance;

/* Append to OUT; return how many. */
int sg_instance_bf16(sg_instance *out);
int sg_instance_f16(sg_instance *out);

/* All of them. */
const sg_instance *sg_instance_table(int *count_out);

/* The slow kernels: any tile, any type, any alignment. */
const void *sg_instance_any(int type);
/* mma.sync, for operands aligned to 16 bytes; NULL for f32. */
const void *sg_instance_sm80(int type);
enum { SG_INSTANCE_THREADS = 256, SG_INSTANCE_SMEM = 49152 + 1024 }; /* of both */

/* Loads the kernels of steps.cu. */
cudaError_t sg_instance_load_steps(void);

#endif
