/* pace_sm90.cuh -- at what pace a tile leaves whose warpgroup has it to itself (store_sm90.cuh).
 *
 * As fast as an SM stores it, a tile leaves in a quarter of the time that the other warpgroup
 * multiplies, and all SMs begin together: more than a link carries, and what is stored stands in
 * the way of what is loaded.  Blocks then no longer read the same lines at the same time, and the
 * product takes a sixth longer to the end of the launch (results/gpu/turn_2xh100_v1.json).  So
 * pieces for peers are spread over three quarters of that time. */
#pragma once
#include "kernel/shape_sm90.cuh"

/* Words of a storer, in ticks: when the tile before was staged, or the launch begun; from piece to
 * piece, PACE_UNKNOWN before the first tile, and the most of any. */
enum { PACE_SINCE, PACE_EACH, PACE_WORDS, PACE_UNKNOWN = 1 << 10 };

/* Of the GPU's timer, which ticks in 32 ns. */
DEV uint32_t pace_ticks()
{
    return (uint32_t)(now_ns() / 32);
}

DEV void pace_begin(uint32_t pace)
{
    shared_store(pace + 4 * PACE_SINCE, pace_ticks());
    shared_store(pace + 4 * PACE_EACH, PACE_UNKNOWN);
}

/* The first piece of a tile is staged, which comes so many tiles of the block behind the last. */
template <class S> DEV void pace_tile(uint32_t pace, int wg)
{
    const uint32_t known = shared_load(pace + 4 * PACE_EACH);
    const uint32_t since = shared_load(pace + 4 * PACE_SINCE), now = pace_ticks();
    const uint32_t tiles = known == PACE_UNKNOWN ? wg + 1 : S::TILES;
    const uint32_t each = (now - since) / (tiles * (S::CHUNKS + S::CHUNKS / 3));
    shared_store(pace + 4 * PACE_SINCE, now);
    shared_store(pace + 4 * PACE_EACH, each < known ? each : known);
}

DEV void pace_piece(uint32_t pace, int piece)
{
    const uint32_t since = shared_load(pace + 4 * PACE_SINCE);
    const uint32_t wait = piece * shared_load(pace + 4 * PACE_EACH);
    while (pace_ticks() - since < wait) nap();
}
