/* propose.c -- what is proposed for a machine, see propose.h. */
#include "core/propose.h"

#include <string.h>

#include "core/blocks.h"
#include "core/tiles.h"

/* Tiles that parts of PROBLEM's rows or columns are cut into along EXTENT of a tile: one an owner,
 * or, where these have to be side by side, one each time that another owner's begin. */
static int64_t tiles_along(const sg_problem *p, int32_t extent)
{
    const bool runs = sg_problem_in(p) == SG_IN_GATHER || sg_problem_out(p) == SG_OUT_SCATTER;
    const int parts = runs ? p->segment_count : p->ranks;
    int64_t tiles = 0;
    for (int i = 0; i < parts; i++)
        tiles += sg_ceil_div(runs ? p->segments[i].rows : sg_problem_part(p, 0, i).rows, extent);
    return tiles;
}

/* Of TILE, down and across the product of a rank. */
static int64_t bands_of(const sg_problem *p, const sg_tile *tile)
{
    const bool by_rows = p->op != SG_OP_GEMM && p->gather == SG_GATHER_A;
    return by_rows ? tiles_along(p, tile->m) : sg_ceil_div(p->m, tile->m);
}

static int64_t cols_of(const sg_problem *p, const sg_tile *tile)
{
    const bool by_cols = p->op != SG_OP_GEMM && p->gather == SG_GATHER_B;
    return by_cols ? tiles_along(p, tile->n) : sg_problem_col_tiles(p, tile->n);
}

bool sg_strategy_is_quick(const sg_problem *p, const sg_machine *machine)
{
    enum { RANKS = 64, TILES = 1 << 20 };
    const sg_tile *const tile = &machine->tile[0];
    const double tiles = (double)bands_of(p, tile) * (double)cols_of(p, tile);
    /* Rows in turns are patches of every rank. */
    const double lists = p->segment_count > p->ranks ? p->ranks : 1;
    return p->ranks <= RANKS && tiles * lists <= TILES;
}

/* Is TILE a low one of an all-reduce of several ranks that have more rows than two of it?  It asks
 * the L2 for more than it is given while others' addends come (four H200s, twelve products of 640
 * to 4096 rows in 64x256: 15 % slower than predicted in the median, up to 57, never the fastest;
 * results/gpu/unseen_4xh200_v2.json). */
static bool is_low_sum(const sg_problem *p, const sg_tile *tile)
{
    enum { LOW = 64 };
    return sg_problem_out(p) == SG_OUT_ALL && p->ranks > 2 && tile->m <= LOW &&
           p->most_rows > 2 * (int64_t)tile->m;
}

/* Time of rank 0's product in tiles of TILE.  SMs that are spared make the others faster where
 * clocks are as high as may be, but for all-reduces, whose last tiles others wait for; in a long
 * product power counts, and more SMs take less of it (two H200s, scatters in 128x256 on 128 SMs
 * beside 128x224 on 132: 8192x8192x4096 705 and 711 us, 8192x12288x24576 6400 and 6330;
 * results/gpu/even_2xh200_v1.json). */
static double waves_cost(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const double long_us = 4000;
    const int64_t tiles = bands_of(p, tile) * cols_of(p, tile);
    const int32_t sms = (int32_t)sg_max(machine->sms, 1);
    const int64_t waves = sg_ceil_div(tiles, sms);
    const double us = (double)waves * sg_tile_us(p, machine, tile);
    const bool spares = waves > 1 && us < long_us && sg_problem_out(p) != SG_OUT_ALL;
    const double busy = spares ? (double)sg_blocks_even(tiles, sms) / sms : 1;
    const double low = is_low_sum(p, tile) ? 1.25 : 1;
    return low * us * (1 - machine->idle_part * (1 - busy));
}

/* Of COUNT knob sets those that no earlier one is, some being thought of twice: a shape of tile for
 * this and for that; their number. */
static int drop_equals(const sg_strategy *strategy, sg_knobs *sets, int count)
{
    const size_t bytes = (size_t)sg_knob_count(strategy) * sizeof sets[0].value[0];
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int equal = 0;
        while (equal < kept && memcmp(sets[equal].value, sets[i].value, bytes) != 0) equal++;
        if (equal == kept) sets[kept++] = sets[i];
    }
    return kept;
}

int sg_strategy_propose_next(const sg_strategy *strategy, const sg_problem *problem,
                             const sg_machine *machine, int skipped, sg_knobs *sets, sg_text *why)
{
    SG_ASSERT(skipped == 0 || skipped < machine->tiles);
    sg_machine ordered = *machine;
    /* Ranks that share workers have no waves. */
    for (int i = 1; i < machine->tiles && machine->pool == 0; i++) {
        const sg_tile tile = machine->tile[i];
        const double cost = waves_cost(problem, machine, &tile);
        int at = i;
        for (; at > 0 && waves_cost(problem, machine, &ordered.tile[at - 1]) > cost; at--)
            ordered.tile[at] = ordered.tile[at - 1];
        ordered.tile[at] = tile;
    }
    ordered.tiles -= skipped;
    memmove(ordered.tile, ordered.tile + skipped, (size_t)ordered.tiles * sizeof *ordered.tile);
    const int count = strategy->propose(problem, &ordered, sets, why);
    SG_ASSERT(count <= SG_MAX_KNOB_SETS);
    return drop_equals(strategy, sets, count);
}

int sg_strategy_propose(const sg_strategy *strategy, const sg_problem *problem,
                        const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    return sg_strategy_propose_next(strategy, problem, machine, 0, sets, why);
}
