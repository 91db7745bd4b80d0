/* split.h -- products whose k is cut into parts, each of which is a visit of its own.
 *
 * A product of fewer tiles than SMs leaves SMs idle.  Its tiles are then multiplied in several
 * parts of k at a time: all parts but the last leave sums in f32 on this rank, in a place for each
 * tile, and the last one adds them, tile by tile behind own flags.
 *
 *     part 0 of all tiles | part 1 of all tiles | ... | last part + the sums before -> where it goes
 *
 * The order of the sum is fixed, and nothing is rounded in between. */
#ifndef SG_SPLIT_H
#define SG_SPLIT_H

#include "core/moves.h"

typedef struct sg_split_k {
    int32_t parts;   /* 1: whole */
    int32_t chunk_k; /* of a part */
    sg_tiling tiling;
    int32_t col0, cols; /* the strip of columns that is at hand, the caller's to set; COLS 0: all */
    int32_t flag0, flag; /* own flags: the first, and the next one */
    int buf;             /* of sums, with a place for each of these flags; only if there are any */
    sg_piece piece;      /* the one at hand */
    int32_t first;       /* first flag of its tiles' parts */
    int64_t tiles;       /* of a part */
} sg_split_k;

/* Flags of a rank at those that wait for it: its sums have arrived; then one per tile. */
enum { SG_FLAG_DONE, SG_FLAG_TILES };

/* Parts of S's product in tiles of TILING, at most SPLITS, whose own flags count from FLAG0;
 * declares the buffer. */
sg_split_k sg_split_begin(sg_sched *s, int splits, sg_tiling tiling, int32_t flag0);

/* Appends the patches of PIECE to the open launch and leaves that of the last part open, for
 * addends, stores and raises.  The own product stands behind OWN_AT addends of the caller's; with k
 * whole a final one is rounded before, as those of the others were. */
void sg_split_patch(sg_sched *s, sg_split_k *split, const sg_piece *piece, int own_at, bool final);

/* Tiles of PIECE in the strip at hand. */
int32_t sg_split_tiles(const sg_sched *s, const sg_split_k *split, const sg_piece *piece);

/* Attaches the sums of the parts before; the caller attaches them behind its first OWN_AT
 * addends. */
void sg_split_add(sg_sched *s, const sg_split_k *split);

/* All of an all-reduce as one launch in tiles of TILING (split_columns.c): each rank owns
 * columns of whole tiles, adds up all ranks' products of them, in rank order, and stores the
 * sums into everybody's C.  B is read once, where owners of rows have it read once for each
 * of them; A is read for each owner.  With SLICES of all rows one after the other, own
 * columns come LAG slices behind. */
void sg_split_columns(sg_sched *s, sg_tiling tiling, int splits, int slices, int lag);

/* The same at once (split_once.c): every tile goes to all ranks, each of which adds up all of them.
 * TAGGED: as one slice of tagged data, with k whole. */
void sg_split_once(sg_sched *s, sg_tiling tiling, int splits, int slices, int lag, bool tagged);

/* The most parts that TILES tiles of a product over K may be cut into, so that all are visited at
 * once by SMS and no part is short: 1 if none. */
int sg_split_parts(int64_t tiles, int64_t k, int sms);

#endif
