/* alone.c -- our own product where nothing moves between ranks: one of them, or no communication.
 *
 *     lane 0:  gemm
 *
 * The vendor's product of `serial` is as fast or faster, but adds up k in an order that is its own,
 * another for every shape.  This one gives a row the same bits for any m, as reproducible plans of
 * more ranks do (docs/reproducible.md). */
#include "core/moves.h"
#include "core/strategy.h"

enum { TILE_M, TILE_N };

/* A product of more can be run, but no longer proved. */
enum { MOST_TILES = 1 << 22 };

static bool accepts(const sg_problem *p, sg_text *why)
{
    const bool moves = sg_problem_in(p) != SG_IN_NONE || sg_problem_out(p) != SG_OUT_NONE;
    if (moves && p->ranks > 1) return sg_decline(why, "something moves between ranks");
    return true;
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    int n = 0;
    if (!accepts(p, why)) return 0;
    for (int t = 0; t < machine->tiles && t < 2; t++) {
        const sg_tile tile = machine->tile[t];
        if (sg_ceil_div(p->m, tile.m) * sg_ceil_div(p->n, tile.n) <= MOST_TILES)
            sets[n++] = (sg_knobs){{tile.m, tile.n}};
    }
    if (n == 0) sg_decline(why, "there are more than %d tiles", (int)MOST_TILES);
    return n;
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int64_t rows = sg_problem_rows(p, rank);
    /* All of what would move. */
    const int64_t moved = p->gather == SG_GATHER_B ? p->n : p->gather == SG_GATHER_K ? p->k : rows;
    const sg_piece whole = {.owner = rank, .rows = (int32_t)moved};
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], 0, false);
    sg_patch all = sg_moves_patch(s, &whole, true);
    sg_patch patch;
    all.b.buf = SG_B;
    for (int i = 0; sg_moves_next_b(p, &all, i, &patch); i++) {
        sg_sched_patch(s, &patch);
        sg_moves_store(s, sg_area_of(rank, SG_C, 0, rows, patch.col0, patch.cols));
    }
}

const sg_strategy sg_strategy_alone = {
    .name = "alone",
    .brief = "our own product where nothing moves between ranks",
    .knob = {[TILE_M] = {"tile_m", 1, 4096}, [TILE_N] = {"tile_n", 1, 4096}},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
