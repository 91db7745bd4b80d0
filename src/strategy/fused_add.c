/* fused_add.c -- sums of two ranks, added where they lie: of each tile of C one rank stores its
 * product there, and who stores the other one's adds it onto that, under the next tile's product.
 * (The add of ParallelKittens' GEMM + reduce-scatter, arXiv 2511.13940, which lets any number of
 * ranks add in any order.)
 *
 *     scatter     lane 0:  rows of the peer -> its C | own rows, onto what the peer has stored
 *     all-reduce  lane 0:  rows of the peer -> both C | own rows, onto both
 *
 * One launch, no inbox.  A tile of the first half raises a flag at the peer, for which the one of
 * the second half waits when it is stored.  A sum of two is the same in any order, so both ranks
 * and all strategies have the same bits.  Of more ranks it would be rounded more than once.
 *
 *     subs        slices of every owner's rows, own ones `lag` slices behind
 *     strips      columns that are finished before the next ones, own rows `lag` strips behind; B is
 *                 read once where it would be for the peer's rows and again for own ones
 *     strips=0    owners of an all-reduce have columns instead of rows: all rows meet a column of B
 *                 at the same time */
#include "core/split.h"
#include "core/strategy.h"
#include "core/tiles.h"

enum { SUBS, LAG, TILE_M, TILE_N, STRIPS };

/* Of a product of few waves, more shapes of tiles are worth trying; of low ones, strips. */
enum { FEW_WAVES = 4, OWNED_BANDS = 2, SEVERAL = 6, MOST_STRIPS = 64 };

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (!sg_problem_sums(p)) return sg_decline(why, "no rows of C are summed");
    if (p->ranks > 2)
        return sg_decline(why, "sums of %d ranks would be rounded more than once", p->ranks);
    if (sg_problem_has_epilogue(p))
        return sg_decline(why, "something is done to sums that are made in memory");
    if (p->call) return sg_decline(why, "a call makes whole rows, and stores them itself");
    return sg_accepts_moves(p, why);
}

static sg_knobs in_tiles(const sg_tile *tile, int strips)
{
    return (sg_knobs){{[SUBS] = 1, [TILE_M] = tile->m, [TILE_N] = tile->n, [STRIPS] = strips}};
}

/* May a scatter in tiles of TILE be in two strips?  A low one of two waves would read B, TIMES as
 * large as what a cache holds or larger, for the peer's rows and again for own ones. */
static bool reads_once(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                       int times)
{
    const double b_bytes = (double)p->n * (double)p->k * sg_type_bytes(p->type);
    return sg_problem_out(p) == SG_OUT_SCATTER && sg_tile_waves(p, machine, tile) == 2 &&
           sg_ceil_div(p->most_rows, tile->m) <= OWNED_BANDS &&
           b_bytes >= times * sg_machine_cached_bytes(machine);
}

/* Appends those of whole rows or columns in tiles of TILE.  Scatters: unless two strips save more
 * than they wait (two H200s: 512x8192x14336 184 us whole, 176 in strips, 512x12288x24576 440 and
 * 418, but 512x12288x6144 117 and 119).  All-reduces: owners of columns in front of those of rows.
 *
 * What follows a slice or strip later waits where it is stored, gains nothing by it and is priced
 * too low (1000x4096x2048 all-reduced 64 us, priced at 46, whole 65;
 * results/gpu/onto_2xh200_v1.json). */
static int propose_whole(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                         sg_knobs *sets)
{
    const double b_bytes = (double)p->n * (double)p->k * sg_type_bytes(p->type);
    const bool held = b_bytes <= sg_machine_cached_bytes(machine);
    int n = 0;
    if (sg_column_parts(p, machine, tile, held, false) > 0) sets[n++] = in_tiles(tile, 0);
    if (!reads_once(p, machine, tile, SEVERAL)) sets[n++] = in_tiles(tile, 1);
    return n;
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!accepts(p, why)) return 0;
    if (machine->onto_us <= 0) {
        sg_decline(why, "the machine's products do not add where they store, by its file");
        return 0;
    }
    const int most = sg_tile_waves(p, machine, &machine->tile[0]) <= FEW_WAVES ? 3 : 2;
    const int shapes = machine->tiles < most ? machine->tiles : most;
    int n = 0;
    /* Of those that are predicted alike the first is taken: what reads B once is faster. */
    for (int i = 0; i < shapes; i++)
        if (reads_once(p, machine, &machine->tile[i], 2))
            sets[n++] = in_tiles(&machine->tile[i], 2);
    for (int i = 0; i < shapes; i++) n += propose_whole(p, machine, &machine->tile[i], &sets[n]);
    return n;
}

typedef struct building {
    const sg_problem *problem;
    sg_sched *sched;
    sg_split_k split; /* no parts of k, but the columns at hand */
    int subs, strips;
    int32_t flag0[2]; /* of each owner: its next tile's flag */
} building;

/* Moves on to stage T of Q's columns: a strip of them, or all that it owns.  False: it has none. */
static bool take_columns(building *b, int q, int t)
{
    const int64_t n = b->problem->n, width = b->split.tiling.tile_n, tiles = sg_ceil_div(n, width);
    const int64_t each = sg_ceil_div(tiles, sg_max(1, b->strips));
    const int64_t first = b->strips == 0 ? tiles * q / 2 : b->strips == 1 ? 0 : t * each;
    const int64_t end = b->strips == 0 ? tiles * (q + 1) / 2 : first + each;
    b->split.col0 = (int32_t)sg_min(n, first * width);
    b->split.cols = (int32_t)(sg_min(n, end * width) - b->split.col0);
    return b->split.cols > 0;
}

/* Of PIECE, at rank AT, the columns at hand. */
static sg_area in_c(const building *b, int at, const sg_piece *piece)
{
    const bool all = sg_problem_out(b->problem) == SG_OUT_ALL;
    return sg_area_of(at, SG_C, all ? piece->row0 : piece->own_row, piece->rows, b->split.col0,
                      b->split.cols);
}

/* Emits the product of PIECE, of Q's rows or columns: if Q is the peer stored, or else added. */
static void emit(building *b, int q, const sg_piece *piece)
{
    sg_sched *const s = b->sched;
    const int peer = 1 - s->rank;
    const bool adds = q == s->rank, all = sg_problem_out(b->problem) == SG_OUT_ALL;
    sg_patch patch = sg_moves_patch(s, piece, adds);
    sg_moves_cut_cols(&patch, b->split.col0, b->split.cols);
    patch.own_rounded = adds;
    patch.own_at = (uint16_t)(adds ? s->rank : 0);
    sg_sched_patch(s, &patch);
    const sg_wait wait = sg_wait_tile(peer, b->flag0[q]);
    if (adds) sg_sched_add(s, in_c(b, s->rank, piece), &wait);
    if (adds || all) sg_sched_to(s, in_c(b, s->rank, piece));
    if (!adds || all) sg_sched_to(s, in_c(b, peer, piece));
    if (!adds)
        sg_sched_raise(s, peer, SG_PER_TILE, b->flag0[q]);
    else if (all)
        sg_sched_raise(s, peer, SG_PER_PATCH, SG_FLAG_DONE);
    b->flag0[q] += sg_split_tiles(s, &b->split, piece);
}

/* Emits stage C of Q's: a slice of its rows, a strip of them, or a slice of its columns. */
static void emit_stage(building *b, int q, int c)
{
    const sg_problem *const p = b->problem;
    const int32_t tile_m = b->split.tiling.tile_m;
    const int slice = b->strips > 1 ? 0 : c, slices = b->strips > 1 ? 1 : b->subs;
    sg_piece piece;
    if (!take_columns(b, q, c)) return;
    if (b->strips == 0) {
        piece = sg_slice_of_all(p, slice, slices, tile_m);
        if (piece.rows > 0) emit(b, q, &piece);
        return;
    }
    int32_t x0 = 0;
    const int32_t rows = sg_slice_rows(p, b->sched->rank, q, slice, slices, tile_m, &x0);
    for (sg_pieces it = sg_pieces_of(p, b->sched->rank, q, x0, x0 + rows);
         sg_piece_next(&it, &piece);)
        emit(b, q, &piece);
}

/* Does Q own anything? */
static bool owns(building *b, int q)
{
    const bool rows = b->strips == 0 ? b->problem->m > 0 : b->problem->share[q].rows > 0;
    return rows && take_columns(b, q, 0);
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const sg_tiling tiling = {k->value[TILE_M], k->value[TILE_N], 0};
    building b = {.problem = p,
                  .sched = s,
                  .split = {.tiling = tiling, .parts = 1},
                  .subs = k->value[SUBS],
                  .strips = all ? k->value[STRIPS] : (int)sg_max(1, k->value[STRIPS]),
                  .flag0 = {SG_FLAG_TILES, SG_FLAG_TILES}};
    const int stages = b.strips > 1 ? b.strips : b.subs;
    /* Shared by both, so that a rank without any rows says hello and done too. */
    sg_sched_buf(s, SG_SYM, "none", 0, 0, 0);
    sg_sched_sums_in_c(s);
    sg_sched_launch(s, 0, tiling.tile_m, tiling.tile_n, 0, false);
    for (int c = 0; c < stages + k->value[LAG]; c++) {
        if (c < stages) emit_stage(&b, 1 - rank, c);
        if (c >= k->value[LAG]) emit_stage(&b, rank, c - k->value[LAG]);
    }
    if (!all) return;
    sg_sched_flag(s, 0);
    if (owns(&b, 1 - rank)) sg_sched_wait(s, sg_wait_one(1 - rank, SG_FLAG_DONE));
}

const sg_strategy sg_strategy_fused_add = {
    .name = "fused_add",
    .brief = "of two ranks, tiles are added onto what the other has stored (ParallelKittens)",
    .knob = {[SUBS] = {"subs", 1, 64},
             [LAG] = {"lag", 0, 8},
             [TILE_M] = {"tile_m", 1, 4096},
             [TILE_N] = {"tile_n", 1, 4096},
             [STRIPS] = {"strips", 0, MOST_STRIPS}},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
