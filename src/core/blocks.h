/* blocks.h -- how many blocks of a GPU a launch takes, and which of them carry rows instead of
 * tiles: asked by who launches and by who predicts what that takes.
 *
 * Inline, since nvcc compiles who launches. */
#ifndef SG_BLOCKS_H
#define SG_BLOCKS_H

#include "core/walk.h"

/* Tiles of a launch of PATCHES that its waves are made of: all, or those that are not narrower, for
 * which the others are a wave of their own. */
SG_WALK int32_t sg_blocks_in_waves(const struct sg_patch *patch, int32_t patches, int32_t tile_m,
                                   int32_t tile_n)
{
    int32_t all = 0, wide = 0;
    for (int32_t i = 0; i < patches; ++i) {
        const int32_t visits = sg_walk_visits(&patch[i], tile_m, tile_n);
        all += visits;
        if (patch[i].tile_n == 0) wide += visits;
    }
    return wide > 0 ? wide : all;
}

/* The fewest blocks that go through UNITS, of which there are some, in no more waves than MOST. */
SG_WALK int32_t sg_blocks_fewest(int64_t units, int32_t most)
{
    const int64_t waves = (units + most - 1) / most;
    return (int32_t)((units + waves - 1) / waves);
}

/* Blocks of MOST that UNITS, which take about as long each, are dealt to: the fewest, if that
 * leaves two to six of 132 SMs to nobody.  What those do not draw and ask for the others have (two
 * H200s: 8192x8192x4096 scattered on 132 SMs 713 us, on 128 704;
 * results/gpu/even_2xh200_v1.json). */
SG_WALK int32_t sg_blocks_even(int64_t units, int32_t most)
{
    if (most < 1 || units <= most) return (int32_t)units;
    const int32_t even = sg_blocks_fewest(units, most);
    return most - even <= most / 20 && most - even >= most / 50 ? even : most;
}

/* Tiles of products of at most so many rows are dealt to SMs: others do not wait for the L2
 * (results/gpu/seats_h200_v1.json). */
enum { SG_SEATED_ROWS = 1024 };

/* Blocks that only carry rows: ENOUGH are as fast as any link, and one of so many is a herald. */
enum {
    SG_COURIERS_LEAST = 4,
    SG_COURIERS_OF_HERALD = 8,
    SG_COURIERS_ENOUGH = 16,
    SG_COURIERS_MOST = 32
};

/* Have so many COURIERS carried CARRIED bytes to peers well before WORKERS have multiplied what a
 * launch of PATCHES multiplies?  By what a courier carries and a block multiplies in a microsecond
 * (H200s, H100s). */
SG_WALK int32_t sg_blocks_carry_in_time(const struct sg_patch *patch, int32_t patches,
                                        double carried, double couriers, double workers)
{
    const double each = 35e3, block = 2.6e6, part = 0.75;
    double products = 0;
    for (int32_t i = 0; i < patches; ++i)
        products += (double)patch[i].rows * patch[i].cols * (double)(patch[i].k1 - patch[i].k0);
    return carried <= part * products / (block * workers) * each * couriers;
}

/* Of SPARE blocks, which WORKERS leave over, those that carry; fewer than ENOUGH do if they are
 * done in time, and otherwise who stores tiles carries. */
SG_WALK int32_t sg_blocks_couriers(const struct sg_patch *patch, int32_t patches, double carried,
                                   int32_t spare, int32_t workers)
{
    if (spare < SG_COURIERS_LEAST) return 0;
    if (spare < SG_COURIERS_ENOUGH &&
        !sg_blocks_carry_in_time(patch, patches, carried, spare, workers))
        return 0;
    return spare < SG_COURIERS_MOST ? spare : SG_COURIERS_MOST;
}

/* Are tiles whose rows begin at odd 16 bytes shared in clusters that have PLACES for TILES?  One in
 * ten may be left without a tile. */
SG_WALK int32_t sg_blocks_share_odd(int64_t places, int64_t tiles)
{
    return places * 10 <= tiles * 11;
}

/* Do tiles of a launch of PATCHES take about as long each, and does nobody wait for the last ones?
 * Of an all-reduce's, a part of a wave is sooner stored at all ranks than a whole one. */
SG_WALK int32_t sg_blocks_alike(const struct sg_patch *patch, int32_t patches)
{
    if (patches < 1 || patch[patches - 1].raises > 0) return 0;
    for (int32_t i = 0; i < patches; ++i) {
        if (patch[i].goes_on) continue;
        if (sg_walk_depth(&patch[i]) != sg_walk_depth(&patch[0])) return 0;
        if (patch[i].tile_n != patch[0].tile_n) return 0;
    }
    return 1;
}

/* Do the first tiles of a launch of PATCHES, one for each of BLOCKS, all wait for something?  Then
 * its storers carry the first of what it pushes, having nothing else to do. */
SG_WALK int32_t sg_blocks_all_wait(const struct sg_patch *patch, int32_t patches, int32_t tile_m,
                                   int32_t tile_n, int32_t blocks)
{
    for (int32_t i = 0; i < patches && blocks > 0; ++i) {
        if (patch[i].waits == 0) return 0;
        blocks -= sg_walk_visits(&patch[i], tile_m, tile_n);
    }
    return 1;
}

#endif
