/* tiles.h -- what strategies ask of a machine before they propose: what tiles take, which shapes of
 * them suit few rows, which SMs are left. */
#ifndef SG_TILES_H
#define SG_TILES_H

#include "core/machine.h"

/* SMs for a product that leaves so many to lanes that WAIT beside it, one each; 0, which is all of
 * them, where what waits holds no worker.  -1, with the reason in WHY, if none would be left. */
int sg_blocks_beside(const sg_machine *machine, int wait, sg_text *why);

/* Waves of PROBLEM's product, if its rows are not cut by owners, in tiles of TILE on all SMs. */
int64_t sg_tile_waves(const sg_problem *problem, const sg_machine *machine, const sg_tile *tile);

/* What a tile of PROBLEM's product takes, over all of k: for who compares shapes of tiles. */
double sg_tile_us(const sg_problem *problem, const sg_machine *machine, const sg_tile *tile);

/* The lowest heights of MACHINE's tiles, MOST at most, rising; their number. */
int sg_tile_heights(const sg_machine *machine, int most, int32_t *height);

/* The width of tiles of HEIGHT rows that deal COLS columns, those of all bands, to all SMs; 0: one
 * of MACHINE's tiles of this height is narrower, or one of its first two tiles no wider. */
int32_t sg_narrow_tile(const sg_machine *machine, int32_t height, int64_t cols);

/* In how many parts of k, 1 or with CUT more, an all-reduce in tiles of TILE may be worth owners of
 * columns: for few rows, if B is not HELD by a cache, since it is then read once, or if the rows of
 * an owner do not fill their tiles.  0: owners of rows do. */
int sg_column_parts(const sg_problem *problem, const sg_machine *machine, const sg_tile *tile,
                    bool held, bool cut);

#endif
