/* instance.h -- the product kernels that are compiled, as a table the host chooses from. */
#ifndef SG_INSTANCE_H
#define SG_INSTANCE_H

#include "kernel/kernel.h"

/* What an instance can add to its own product: nothing, addends of a patch, slices of k, addends
 * and sums in f32 that other patches of the launch leave (parts of k), the products of other
 * ranks (tagged_sm90.cuh), or those for owners, and what owners send
 * (hops_sm90.cuh).  FOLD_GATHER: it adds nothing, and its rows come as tagged data
 * (gather_sm90.cuh). */
enum Fold { FOLD_NONE, FOLD_ADDENDS, FOLD_SLICES, FOLD_PARTS, FOLD_TAGGED, FOLD_HOPS, FOLD_GATHER };

/* The most addends of a tile that a warpgroup has to itself. */
enum { SG_INSTANCE_SLOT_ADDS = 3 };

typedef struct sg_instance {
    int type;   /* enum sg_kernel_type */
    int bm, bn; /* tile */
    int narrow; /* columns of those of some patches; 0: all are alike */
    int groups; /* math warpgroups */
    int math;   /* enum sg_kernel_math: how they share the work */
    int cm, cn; /* tiles of a cluster */
    Fold fold;
    int onto;       /* it adds what is added where it is stored */
    int piece_cols; /* columns of a stored piece */
    int threads, smem;
    const void *function;
} sg_instance;

/* Rows of a piece of so many columns that may be stored by themselves: they fill 128 bytes of
 * shared memory.  64: none may. */
constexpr int instance_line(int piece_cols)
{
    return piece_cols <= 64 ? 64 / piece_cols : 64;
}

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
