/* instance.h -- the product kernels that are compiled, as a table the host chooses from. */
#ifndef SG_INSTANCE_H
#define SG_INSTANCE_H

#include "core/walk.h"
#include "kernel/kernel.h"

/* Of sg_kernel_gemm_param.map_of; as bits, USE_A and so on (needs.cuh). */
enum { MAP_A, MAP_B, MAP_PIECE, MAP_ROW, MAP_NARROW, MAP_A_REST, MAP_B_REST };

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

/* Share I of an operand's SHARES, each of SHARE rows, of which a patch has LEFT: by map WHOLE, or
 * where the patch ends inside a share by map ENDS, if there is one, which has REST rows.  What lies
 * in a stage behind these is what it was, and nobody looks at what comes of that.  Adds the rows of
 * all shares to ROWS. */
SG_WALK int8_t instance_loads_share(int share, int shares, int i, int left, int rest, int8_t whole,
                                    int8_t ends, int *rows)
{
    int8_t map = whole;
    for (int j = 0; j < shares; ++j, left -= share) {
        const bool none = shares > 1 && left <= 0, part = ends >= 0 && left < share;
        *rows += none ? 0 : part ? rest : share;
        if (j == i) map = none ? (int8_t)-1 : part ? ends : whole;
    }
    return map;
}

/* What the block at (IM, IN) of a cluster loads for the tile of P that begins with its ROW and COL,
 * by kernels of such shapes. */
SG_WALK sg_kernel_loads instance_loads(const sg_kernel_gemm_param *param, const sg_patch *p,
                                       int row, int col, int bm, int bn, int cm, int cn, int im,
                                       int in)
{
    const int8_t *const a = param->map_of[p->a.buf], *const b = param->map_of[p->b.buf];
    const bool narrow = p->tile_n > 0;
    int rows = 0;
    sg_kernel_loads loads;
    loads.a = instance_loads_share(bm / cn, cn, in, p->rows - row, param->a_rest, a[MAP_A],
                                   a[MAP_A_REST], &rows);
    loads.b = instance_loads_share(narrow ? p->tile_n : bn / cm, cm, im, p->cols - col,
                                   param->b_rest, b[narrow ? MAP_NARROW : MAP_B],
                                   narrow ? (int8_t)-1 : b[MAP_B_REST], &rows);
    loads.rows = (int16_t)rows;
    return loads;
}

/* Write them to OUT; return how many. */
int sg_instance_bf16(sg_instance *out);
int sg_instance_bf16_sums(sg_instance *out);
int sg_instance_bf16_tagged(sg_instance *out);
int sg_instance_f16(sg_instance *out);
int sg_instance_f16_sums(sg_instance *out);
int sg_instance_f16_tagged(sg_instance *out);

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
