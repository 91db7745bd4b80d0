/* moves.h -- what strategies share: rows of an owner as pieces of the product, chunks, the order of
 * owners, and the patches and copies that every gather and every scatter is made of.
 *
 * "Rows" are what problem.h counts: rows of A or C, rows of B (columns of the product) or columns
 * of A (its k).  Strategies count them and leave it to this file where they lie.
 *
 * Workspace buffers that hold rows of several owners are packed by owner: row `x` of what owner q
 * has for (or gets from) this rank stands at row sg_problem_part(p, rank, q).base + x, whatever
 * segments q owns.
 */
#ifndef SG_MOVES_H
#define SG_MOVES_H

#include "core/sched.h"

/* Products of fewer rows lose more than the vendor's better rate brings. */
enum { SG_VENDOR_ROWS = 1024 };

/* A run of product rows that one owner holds side by side. */
typedef struct sg_piece {
    int32_t owner;
    int32_t row0, rows; /* of the product */
    int32_t own_row;    /* among the owner's rows of this product */
} sg_piece;

/* Walks the pieces of rows [x0, x1) of OWNER in the product of RANK:
 *     for (sg_pieces it = sg_pieces_of(p, rank, owner, x0, x1); sg_piece_next(&it, &piece);) */
typedef struct sg_pieces {
    const sg_problem *problem;
    int32_t owner;
    int32_t segment; /* -1: all-to-all, where a part is one run that begins at base */
    int64_t x, end;
    int64_t base;
} sg_pieces;

sg_pieces sg_pieces_of(const sg_problem *problem, int rank, int owner, int64_t x0, int64_t x1);
bool sg_piece_next(sg_pieces *it, sg_piece *piece_out);

/* Rows of a chunk when ROWS rows are cut into at most CHUNKS: a multiple of TILE_M where that does
 * not make fewer chunks than asked for by more than rounding must; at least 1. */
int32_t sg_chunk_rows(int64_t rows, int chunks, int32_t tile_m);

/* Tiles of a strategy's product. */
typedef struct sg_tiling {
    int32_t tile_m, tile_n;
    int blocks; /* SMs of the launch, 0: all */
} sg_tiling;

/* Rows that OWNER has in slice SLICE of SLICES of RANK's product: rows [*x0_out, *x0_out + result)
 * of its part.  Slices of one owner are equal but for the last ones, which may be empty. */
int32_t sg_slice_rows(const sg_problem *problem, int rank, int owner, int slice, int slices,
                      int32_t tile_m, int32_t *x0_out);

/* Slice SLICE of SLICES of all rows of a product, in their own order; it may be empty. */
sg_piece sg_slice_of_all(const sg_problem *problem, int slice, int slices, int32_t tile_m);

/* ---- Gather: rows arrive in GATHERED, a buffer packed by owner ------------------------------- */

/* Declares the buffer that all that arrives fits into. */
uint8_t sg_moves_gathered(sg_sched *s, sg_arena_kind arena, unsigned traits);

/* What this rank holds for PEER. */
sg_area sg_moves_held(const sg_sched *s, int peer);

/* Where rows of OWNER arrive at rank AT. */
sg_area sg_moves_arrived(const sg_sched *s, int at, int owner, int gathered);

/* Rows [X, X + ROWS) of either. */
sg_area sg_moves_cut(const sg_sched *s, sg_area area, int64_t x, int64_t rows);

/* How the rows of one owner come to a rank: this one, or the peer that it sends them to. */
typedef struct sg_arrival {
    int16_t by;      /* who raises the flags; who sends does not read it */
    int32_t flag0;   /* of the owner's first chunk and slab */
    int32_t chunk;   /* rows of a chunk, at least 1, also where there are no rows */
    int32_t chunk_k; /* k of a chunk, or rows of it where columns move; 0: all */
    uint8_t carrier; /* sg_carrier: who brings them */
} sg_arrival;

/* Appends the copy and the flag of chunk INDEX (slabs of a chunk side by side) of the rows of
 * OWNER, from SRC (held, or arrived here) to PEER, where they come as ARRIVAL says, if there is
 * such a chunk.  The copy waits for the flag of the same chunk of BEHIND if that is not NULL. */
void sg_moves_send_chunk(sg_sched *s, int lane, int owner, sg_area src, int peer, int gathered,
                         const sg_arrival *arrival, int32_t index, const sg_arrival *behind);

/* All chunks of the own rows for PEER one after the other: a copy and a flag
 * per chunk of rows and of k. */
void sg_moves_send(sg_sched *s, int lane, int peer, int gathered, const sg_arrival *arrival);

/* The same for all peers side by side: chunk 0 to each of them, then chunk 1, as ARRIVAL (by peer)
 * says.  Peers that get the same rows share a copy. */
void sg_moves_send_together(sg_sched *s, int lane, int gathered, const sg_arrival *arrival);

/* Patches of a gather, over one or several launches.  Zero it, then set GATHERED and ARRIVAL, and
 * for a part of what arrives CHUNK, or K0 and K1: parts of k follow each other from 0 on, each in a
 * later launch of one lane, and leave their sum so far in f32.  They are of no use along k.  COL0
 * and COLS are for a strip of the product's columns, where rows of A arrive for a launch of our
 * own; there, own rows may be kept IN_STEP with an owner's that arrive.
 *
 * The rest is what a gather along k leads over from patch to patch: each waits tile by tile for the
 * sums of those before (own flags, from 0 on) and adds them, see moves_link.c. */
typedef struct sg_gathering {
    int gathered;
    const sg_arrival *arrival; /* by owner; the own one says what a chunk of the own rows is */
    int32_t chunk;             /* 1 + the chunk of every owner that is multiplied; 0: all */
    int32_t k0, k1;            /* the part of k that is; K1 0: all */
    int32_t col0, cols;        /* the strip of columns that is; COLS 0: all */
    int32_t own_n;             /* columns of a tile of own rows; 0: as many as of the others' */
    int16_t in_step;           /* 1 + the owner whose slabs own rows wait for as well; 0: none */
    bool together;             /* a flag tells of what has come of all owners' rows; ARRIVAL is the
                                * same for every owner.  Rows of A alone */
    bool copied;               /* own rows are in GATHERED, too, and TOGETHER with the others' */
    bool vendor;               /* launches of the vendor's, see below; not along k */
    int sum;                   /* buffer of sums, in f32; 0: not declared */
    int32_t links;             /* patches so far */
    int64_t depth;             /* k that they multiply */
} sg_gathering;

/* Appends patches to the open launch that multiply the rows of ORDER's owners (COUNT of them, every
 * owner in one call or another), each waiting for what it needs; own rows are read in place.
 * Neighbours in the product share patches.
 *
 * With VENDOR there is no open launch: each patch becomes a launch of the vendor's on lane 0,
 * behind a step that waits for the flags of what it reads. */
void sg_moves_gather_patches(sg_sched *s, sg_gathering *gathering, const int *order, int count);

/* The same along k, as one product of all columns that goes on from owner to owner; those of
 * others come in chunks of rows. */
void sg_moves_gather_product(sg_sched *s, const sg_gathering *gathering, const int *order,
                             int count);

/* Appends the patches of what collectives have gathered: of slice SLICE of SLICES of all owners,
 * which stands from row BASE on in GATHERED.  Returns the rows of the slice.  Not along k. */
int64_t sg_moves_gathered_patches(sg_sched *s, int slice, int slices, int32_t tile_m, int64_t base,
                                  int gathered);

/* Part I of WHOLE, a patch of all columns: those of one B where several share
 * A.  False: there are no more. */
bool sg_moves_next_b(const sg_problem *problem, const sg_patch *whole, int i, sg_patch *part_out);

/* Appends the store of a patch of the final C: with accumulation, C is its last addend. */
void sg_moves_store(sg_sched *s, sg_area c);

/* ---- Slices: rows of every owner, packed slice by slice -------------------------------------- */

/* Appends patches for slice SLICE of SLICES of all owners, read from A; row 0 of the slice stands
 * at BASE of PACKED_TO, owners in rank order.  Returns the rows of the slice. */
int64_t sg_moves_slice_patches(sg_sched *s, int slice, int slices, int32_t tile_m, int64_t base,
                               int packed_to, bool final);

/* Extent of a tile along what moves. */
int32_t sg_tile_along(const sg_problem *problem, int32_t tile_m, int32_t tile_n);

/* Are the rows of the owners in rank order, so that packed and product order are the same? */
bool sg_is_packed(const sg_problem *problem);

/* ---- Scatter: rows of C go to their owner ---------------------------------------------------- */

/* The product of PIECE's rows: all columns, all of k, A in its own place, or
 * from row BUF_ROW0 of BUF on. */
sg_patch sg_moves_patch(const sg_sched *s, const sg_piece *piece, bool final);
sg_patch sg_moves_patch_from(const sg_sched *s, const sg_piece *piece, int buf, int64_t buf_row0,
                             bool final);

/* The same as a launch of the vendor's on lane 0, left open for its store and addend, behind a step
 * that waits for WAIT unless that is NULL.  Returns the launch, or -1 if there is none. */
int sg_moves_vendor_patch(sg_sched *s, const sg_piece *piece, bool final, const sg_wait *wait);

/* Bands of a group in the raster of a patch of ROWS rows. */
uint8_t sg_moves_group(int32_t rows, int32_t tile_m, int32_t tile_n);

/* Leaves of PATCH the product's columns [COL0, COL0 + COLS). */
void sg_moves_cut_cols(sg_patch *patch, int32_t col0, int32_t cols);

/* Opens a patch for PIECE (all columns, all of k) and leaves it open for stores, addends, raises.
 * The own product stands behind OWN_AT addends. */
void sg_moves_scatter_patch(sg_sched *s, const sg_piece *piece, int own_at, bool final);

/* All of an all-reduce as one launch of tagged data in two hops (moves_tagged.c).  Each rank owns
 * columns of whole tiles: it gets all ranks' products of them, adds these up in rank order and
 * sends everybody the sums.  Sends 2 (P - 1) / P times C, where one hop sends it P - 1 times. */
void sg_moves_two_hops(sg_sched *s, int32_t tile_m, int32_t tile_n);

/* All of a scatter whose owners have their rows in one run each, as one launch of tagged data: each
 * rank gets all ranks' products of its rows and adds them up in rank order. */
void sg_moves_tagged_scatter(sg_sched *s, int32_t tile_m, int32_t tile_n);

/* Have all ranks their rows in one run? */
bool sg_moves_owns_runs(const sg_problem *problem);

/* All of a gather of rows of A as tagged data, in SLABS parts of k, for the launch that is opened
 * next to carry: own rows go to all peers at once, and this rank takes what comes, and its own rows
 * if they are to be COPIED, into one matrix, with a flag of its own for each part of k.
 * *GATHERING_OUT: for its patches; ARRIVAL has room for all ranks. */
void sg_moves_tagged_gather(sg_sched *s, int slabs, bool copied, sg_arrival *arrival,
                            sg_gathering *gathering_out);

/* Inboxes for all of C, one of each rank, in one buffer.  Where they can, they lie side by side: a
 * last tile that is not full then ends with the buffer, so that a kernel may store it in one piece;
 * but tiles must not reach over into the next inbox. */
typedef struct sg_inboxes {
    int buf;
    bool beside;
} sg_inboxes;

/* Declares them, for tiles of TILING. */
sg_inboxes sg_moves_inboxes(sg_sched *s, const sg_tiling *tiling);

/* Columns [COL0, COL0 + COLS) of PIECE's rows in the inbox of rank FROM at rank AT. */
sg_area sg_moves_inbox(const sg_sched *s, const sg_inboxes *inboxes, int at, int from,
                       const sg_piece *piece, int64_t col0, int64_t cols);

/* Chunk size along k for SLABS slabs: a multiple of 64 where possible; 0 if SLABS is 1. */
int32_t sg_chunk_k(int64_t k, int slabs);

/* Tiles of a piece. */
int32_t sg_piece_tiles(const sg_sched *s, const sg_piece *piece, const sg_tiling *tiling);

#endif
