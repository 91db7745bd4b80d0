/* tile.h -- the tile engine: products of a few hundred rows and columns, C = A * B^T, one thread.
 *
 * The micro-kernel is LIBXSMM's (SG_WITH_XSMM), else any CBLAS (SG_CBLAS_NAME), else a plain C
 * loop; the build decides what is there, sg_tile_engine says what is used.
 *
 * How a worker carries out a visit:
 *
 *     float *acc = sg_tile_acc(scratch);                    rows x cols, or f32 C itself
 *     for each k slab, after its waits:
 *         sg_tile_multiply(scratch, pack, &(sg_tile_work){... .accumulate = slab > 0});
 *     sg_convert_add_block(...) addends; sg_convert_epilogue(...); sg_convert_store_block(...)
 *
 * The sum over k is one chain per element, k ascending, each step a fused multiply-add; neither
 * slabs nor the shape of tiles change a bit.  (With CBLAS the library cuts the chain as it likes,
 * but the same plan and data give the same bits every run.)
 */
#ifndef SG_TILE_H
#define SG_TILE_H

#include "backend/cpu/pack.h"
#include "core/machine.h"

/* A worker's own memory: accumulators of a tile, the packed block of A, a private block of B. */
typedef struct sg_tile_scratch sg_tile_scratch;

/* Release takes NULL. */
shingle_status sg_tile_scratch_create(sg_tile_scratch **scratch_out);
void sg_tile_scratch_free(sg_tile_scratch *scratch);

/* Makes room for accumulators of ROWS x COLS; never shrinks.  Not while the worker works. */
shingle_status sg_tile_scratch_reserve(sg_tile_scratch *scratch, int64_t rows, int64_t cols);

/* The accumulators, as many floats as were reserved, aligned to 64 bytes. */
float *sg_tile_acc(const sg_tile_scratch *scratch);

/* acc (+)= A[rows, k0..k1) * B[col0 .. col0 + cols, k0..k1)^T.  Any extent may be 0. */
typedef struct sg_tile_work {
    const void *a;    /* the element of the first row at k0 */
    int64_t a_stride; /* elements */
    sg_type a_type;
    int64_t rows;
    const sg_pack_source *source; /* of B; NULL: the pack's one */
    bool alone;         /* B is packed for this work only: more of it may not be here yet */
    int64_t col0, cols; /* rows of the source */
    int64_t k0, k1;     /* of the source */
    float *acc;         /* rows x cols */
    int64_t acc_stride;
    bool accumulate; /* add to what is there; otherwise what is there is never read */
} sg_tile_work;

void sg_tile_multiply(sg_tile_scratch *scratch, sg_pack *pack, const sg_tile_work *work);

/* How the workers cut a vendor launch: pieces 0 .. pieces - 1, best taken in this order by whoever
 * is free.  Columns are cut at blocks of the pack, so neighbours share whole blocks. */
typedef struct sg_split {
    int64_t rows, cols;         /* of the launch */
    int64_t row_step, col_step; /* of a piece */
    int64_t pieces;
} sg_split;

typedef struct sg_tile_rect {
    int64_t row0, rows, col0, cols;
} sg_tile_rect;

sg_split sg_tile_split(int64_t rows, int64_t cols, int64_t k, int workers);
sg_tile_rect sg_tile_split_at(const sg_split *split, int64_t index);

/* Tile shapes that suit this engine, best for large products first: what describe() puts into
 * machine.tile.  Returns how many (at most SG_TILES). */
int sg_tile_shapes(sg_tile tile_out[SG_TILES]);

/* "libxsmm (clx)", "openblas (SkylakeX)", "plain C". */
const char *sg_tile_engine(void);

/* Is every element one chain over k, as above, whatever the tile? */
bool sg_tile_is_one_chain(void);

/* Chooses the micro-kernel and warns once if a library is known to run far below this machine.
 * Called by open; the other functions call it when nobody did. */
void sg_tile_init(void);

#endif
