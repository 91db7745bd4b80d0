/* fused_in.c -- FLUX's gather (arXiv 2406.06858, section 3.2): the product itself waits for the rows
 * and the part of k that it is about to read, while the copy engine brings them.
 *
 *     lane 1:  chunk by chunk of the own rows to r-1, r-2, ...   a flag per chunk of rows and of k
 *     lane 0:  one launch: own rows, then r+1, r+2, ...          a tile waits for the chunks it reads
 *
 * The chunk that travels and the tile that is multiplied are chosen apart.  Chunks of k let a tile
 * start with the first part of k: that is for products of one wave, where all tiles run at once
 * and waiting for whole rows would hide nothing.  With several waves, tiles that wait in the middle
 * hold their SMs, and chunks of rows alone are better.
 */
#include "core/moves.h"
#include "core/strategy.h"

enum { CHUNKS, SLABS, TILE_M, TILE_N };

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (sg_problem_in(p) == SG_IN_NONE) return sg_decline(why, "no operand arrives");
    return sg_accepts_moves(p, why);
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!accepts(p, why)) return 0;
    const int64_t rows = p->most_rows;
    int n = 0;
    for (int t = 0; t < machine->tiles && t < 2; t++) {
        const sg_tile tile = machine->tile[t];
        const int64_t waves =
            sg_ceil_div(sg_ceil_div(p->m, tile.m) * sg_ceil_div(p->n, tile.n), machine->sms);
        const int slabs = waves <= 1 && p->k >= 512 && p->gather == SG_GATHER_A ? 8 : 1;
        for (int chunks = 1; chunks <= 4 && (chunks == 1 || chunks <= rows); chunks *= 2)
            for (int i = 1; i <= slabs; i *= 8) sets[n++] = (sg_knobs){{chunks, i, tile.m, tile.n}};
    }
    return n;
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int gathered = sg_moves_gathered(s, SG_SYM, SG_ENGINE);
    const int32_t tile = sg_tile_along(p, k->value[TILE_M], k->value[TILE_N]);
    const int32_t chunk_k = p->gather == SG_GATHER_A ? sg_chunk_k(p->k, k->value[SLABS]) : 0;
    sg_arrival arrival[SG_MAX_RANKS];
    int order[SG_MAX_RANKS];
    for (int i = 0; i < p->ranks; i++) {
        order[i] = (rank + i) % p->ranks;
        arrival[i] = (sg_arrival){
            .by = (int16_t)i,
            .chunk = sg_chunk_rows(sg_problem_part(p, rank, i).rows, k->value[CHUNKS], tile),
            .chunk_k = chunk_k};
    }
    for (int i = 1; i < p->ranks; i++) {
        const int peer = (rank - i + p->ranks) % p->ranks;
        const int32_t chunk =
            sg_chunk_rows(sg_problem_part(p, peer, rank).rows, k->value[CHUNKS], tile);
        sg_moves_send(s, 1, rank, sg_moves_held(s, peer), peer, gathered, chunk, chunk_k, NULL, 0);
    }
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], 0, false);
    sg_gathering gathering = {.gathered = gathered, .arrival = arrival};
    sg_moves_gather_patches(s, &gathering, order, p->ranks);
}

const sg_strategy sg_strategy_fused_in = {
    .name = "fused_in",
    .brief = "tiles wait for the chunks of A that they read (FLUX, gather)",
    .knob = {"chunks", "slabs", "tile_m", "tile_n"},
    .least = {1, 1, 1, 1},
    .most = {64, 64, 4096, 4096},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
