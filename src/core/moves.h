/* moves.h -- what strategies share: rows of an owner as pieces of the product, chunks, the order of
 * owners, and the patches and copies that every gather and every scatter is made of.
 *
 * Workspace buffers that hold rows of several owners are packed by owner: row `x` of owner q stands
 * at row share[q].base + x, whatever segments q owns.
 */
#ifndef SG_MOVES_H
#define SG_MOVES_H

#include "core/sched.h"

/* A run of product rows that one owner holds side by side. */
typedef struct sg_piece {
    int32_t owner;
    int32_t row0, rows; /* of the product */
    int32_t own_row;    /* among the owner's rows */
} sg_piece;

/* Walks the pieces of rows [x0, x1) of OWNER:
 *     for (sg_pieces it = sg_pieces_of(p, owner, x0, x1); sg_piece_next(&it, &piece);) */
typedef struct sg_pieces {
    const sg_problem *problem;
    int32_t segment;
    int64_t x, end;
} sg_pieces;

sg_pieces sg_pieces_of(const sg_problem *problem, int owner, int64_t x0, int64_t x1);
bool sg_piece_next(sg_pieces *it, sg_piece *piece_out);

/* Rows of a chunk when ROWS rows are cut into at most CHUNKS: a multiple of TILE_M where that does
 * not make fewer chunks than asked for by more than rounding must; at least 1. */
int32_t sg_chunk_rows(int64_t rows, int chunks, int32_t tile_m);

/* Tiles of a strategy's product. */
typedef struct sg_tiling {
    int32_t tile_m, tile_n;
    int blocks; /* SMs of the launch, 0: all */
} sg_tiling;

/* Rows of OWNER in slice SLICE of SLICES: own rows [*x0_out, *x0_out + result).  Slices of one owner
 * are equal but for the last ones, which may be empty. */
int32_t sg_slice_rows(const sg_problem *problem, int owner, int slice, int slices, int32_t tile_m,
                      int32_t *x0_out);

/* ---- Gather: rows of A arrive in GATHERED, a SYM buffer packed by owner ------------------------- */

/* How the rows of one owner come to this rank. */
typedef struct sg_arrival {
    int16_t by;      /* who raises the flags */
    int32_t flag0;   /* of the owner's first chunk and slab */
    int32_t chunk;   /* rows of a chunk */
    int32_t chunk_k; /* k of a chunk; 0: all of k */
} sg_arrival;

/* Appends copies of rows of OWNER from SRC (area of this rank: all rows of OWNER, all of k) to PEER,
 * a copy and a flag per chunk of rows and of k, at most CHUNKS x SLABS.  A copy waits for the
 * flag of the same chunk of HELD if that is not NULL.  Raised flags count from FLAG0. */
void sg_moves_send(sg_sched *s, int lane, int owner, sg_area src, int peer, int gathered,
                   int32_t chunk, int32_t chunk_k, const sg_arrival *held, int32_t flag0);

/* Appends patches that multiply the rows of ORDER's owners (COUNT of them), each waiting for what it
 * needs; own rows are read from A.  Neighbours in the product share patches. */
void sg_moves_gather_patches(sg_sched *s, const int *order, int count, int gathered,
                             const sg_arrival *arrival_of_owner);

/* ---- Slices: rows of every owner, packed slice by slice -------------------------------------------- */

/* Appends patches for slice SLICE of SLICES of all owners; row 0 of the slice stands at BASE of the
 * packed buffer, owners in rank order.  A is read from PACKED_A (or A itself if -1), the result goes
 * to PACKED_TO (or C itself if -1).  Returns the rows of the slice. */
int64_t sg_moves_slice_patches(sg_sched *s, int slice, int slices, int32_t tile_m, int64_t base,
                               int packed_a, int packed_to, bool final);

/* Are the rows of the owners in rank order, so that packed and product order are the same? */
bool sg_is_packed(const sg_problem *problem);

/* ---- Scatter: rows of C go to their owner --------------------------------------------------------- */

/* Opens a patch for PIECE (all columns, all of k) and leaves it open for stores, addends, raises.  The
 * own product stands behind OWN_AT addends. */
void sg_moves_scatter_patch(sg_sched *s, const sg_piece *piece, int own_at, bool final);

/* Chunk size along k for SLABS slabs: a multiple of 64 where possible; 0 if SLABS is 1. */
int32_t sg_chunk_k(int64_t k, int slabs);

/* Tiles of a piece. */
int32_t sg_piece_tiles(const sg_sched *s, const sg_piece *piece, const sg_tiling *tiling);

#endif
