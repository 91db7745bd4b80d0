/* fused_out.c -- FLUX's scatter (arXiv 2406.06858, section 3.1): the product stores each tile straight
 * to its owner, and the owner's last tiles add what has arrived.
 *
 *     lane 0:  rows of r+1 -> r+1 | rows of r+2 -> r+2 | ... | own rows + inboxes -> C
 *
 * One launch, no copies, no separate reduction.  A tile raises one flag at its owner; the owner adds
 * the tiles of ranks 0..P-1 in this order, its own product in its place.  Ranks start with different
 * owners, so no link carries two ranks' tiles at once.
 *
 * All-reduce: the finished tile is stored on every rank.  With `subs` slices of every owner's rows
 * finished one after the other (own rows `lag` slices behind) these stores travel under the rest of
 * the product; only the last slice's are exposed.  All-to-all: no sum, the tile goes into its owner's
 * output.
 *
 *     once     lane 0:  a slice of all rows -> everybody | the slice `lag` before: inboxes -> C | ...
 *
 * An all-reduce at `once`: every tile goes to all ranks, each of which adds up all of them, in rank
 * order, so that all get the same bits.  One hop instead of two, and nobody stores into another's C;
 * but P / 2 times the bytes, and every rank does all the sums: for small products of few ranks.
 */
#include "core/moves.h"
#include "core/strategy.h"

enum { SUBS, LAG, TILE_M, TILE_N, ONCE };

/* Of a rank's tiles, as it sends them to all others at once; beyond, two hops have paid for themselves. */
static const double most_once_bytes = 64e6;

/* Flags of a rank at an owner: its finished rows have arrived (all-reduce); then one per tile. */
enum { FLAG_DONE, FLAG_TILES };

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (sg_problem_out(p) == SG_OUT_NONE) return sg_decline(why, "no rows of C leave");
    return sg_accepts_moves(p, why);
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!accepts(p, why)) return 0;
    const int64_t rows = p->most_rows;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const double tiles = (p->ranks - 1.0) * (double)p->m * (double)p->n * sg_type_bytes(p->type);
    int n = 0;
    for (int t = 0; t < machine->tiles && t < 2; t++) {
        const sg_tile tile = machine->tile[t];
        sets[n++] = (sg_knobs){{1, 0, tile.m, tile.n, 0}};
        int subs = all ? 8 : 1; /* as fine as it gets, but no slice is lower than a tile */
        while (subs > 1 && (int64_t)subs * tile.m > rows) subs /= 2;
        if (subs > 1) sets[n++] = (sg_knobs){{subs, 1, tile.m, tile.n, 0}};
        if (all && tiles <= most_once_bytes) sets[n++] = (sg_knobs){{1, 0, tile.m, tile.n, 1}};
    }
    return n;
}

/* Emits slice C of Q's rows; FLAG0 is the first tile flag of the slice and moves behind it. */
static void emit_slice(const sg_problem *p, const sg_knobs *k, int q, int c, int inbox,
                       int32_t *flag0, sg_sched *s)
{
    const sg_tiling tiling = {k->value[TILE_M], k->value[TILE_N], 0};
    const int rank = s->rank;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int64_t inbox_rows = p->most_rows;
    int32_t x0 = 0;
    const int32_t rows = sg_slice_rows(p, rank, q, c, k->value[SUBS], k->value[TILE_M], &x0);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(p, rank, q, x0, x0 + rows); sg_piece_next(&it, &piece);) {
        if (q != rank) {
            sg_moves_scatter_patch(s, &piece, 0, false);
            sg_sched_to(
                s, sg_area_of(q, inbox, rank * inbox_rows + piece.own_row, piece.rows, 0, p->n));
            sg_sched_raise(s, q, SG_PER_TILE, *flag0);
        } else {
            sg_moves_scatter_patch(s, &piece, rank, true);
            for (int from = 0; from < p->ranks; from++) {
                const sg_wait wait = {
                    .by = (int16_t)from, .per = SG_PER_TILE, .flag0 = *flag0, .chunks_k = 1};
                if (from != rank)
                    sg_sched_add(s,
                                 sg_area_of(rank, inbox, from * inbox_rows + piece.own_row,
                                            piece.rows, 0, p->n),
                                 &wait);
            }
            const int32_t to = all ? piece.row0 : piece.own_row;
            sg_sched_to(s, sg_area_of(rank, SG_C, to, piece.rows, 0, p->n));
            for (int i = 1; i < p->ranks && all; i++) {
                const int peer = (rank + i) % p->ranks;
                sg_sched_to(s, sg_area_of(peer, SG_C, to, piece.rows, 0, p->n));
                sg_sched_raise(s, peer, SG_PER_PATCH, FLAG_DONE);
            }
        }
        *flag0 += sg_piece_tiles(s, &piece, &tiling);
    }
}

/* All-to-all: every tile goes to its place in its owner's output. */
static void build_exchange(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    /* Shared by all, so that a rank without any rows says hello and done too. */
    sg_sched_buf(s, SG_SYM, "none", 0, 0, 0);
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], 0, false);
    for (int i = 1; i <= p->ranks; i++) {
        const int q = (rank + i) % p->ranks;
        const sg_part part = sg_problem_part(p, rank, q);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, rank, q, 0, part.rows); sg_piece_next(&it, &piece);) {
            sg_moves_scatter_patch(s, &piece, 0, true);
            sg_sched_to(s, sg_area_of(q, SG_C, part.held + piece.own_row, piece.rows, 0, p->n));
            if (q != rank) sg_sched_raise(s, q, SG_PER_PATCH, FLAG_DONE);
        }
    }
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++)
        if (q != rank && sg_problem_part(p, q, rank).rows > 0)
            sg_sched_wait(s, sg_wait_one(q, FLAG_DONE));
}

/* Slice C of all rows, at the next tile flags: the product to everybody's inbox, or the sum of the own
 * rank's inboxes. */
static void emit_once(const sg_problem *p, const sg_knobs *k, int c, bool sum, int inbox,
                      int32_t *flag0, sg_sched *s)
{
    const sg_tiling tiling = {k->value[TILE_M], k->value[TILE_N], 0};
    const int rank = s->rank;
    const int64_t height = sg_chunk_rows(p->m, k->value[SUBS], k->value[TILE_M]);
    const int64_t row0 = sg_min(p->m, c * height);
    const sg_piece piece = {.row0 = (int32_t)row0,
                            .rows = (int32_t)(sg_min(p->m, row0 + height) - row0)};
    sg_patch patch = sg_moves_patch(s, &piece, sum);
    if (sum) patch.k1 = patch.k0;
    sg_sched_patch(s, &patch);
    for (int i = 0; i < p->ranks; i++) {
        const int from = sum ? i : rank;
        const int at = sum ? rank : (rank + 1 + i) % p->ranks;
        const sg_area area = sg_area_of(at, inbox, from * p->m + row0, piece.rows, 0, p->n);
        const sg_wait wait = {
            .by = (int16_t)from, .per = SG_PER_TILE, .flag0 = *flag0, .chunks_k = 1};
        if (sum) {
            sg_sched_add(s, area, &wait);
        } else {
            sg_sched_to(s, area);
            sg_sched_raise(s, at, SG_PER_TILE, *flag0);
        }
    }
    if (sum) sg_sched_to(s, sg_area_of(rank, SG_C, row0, piece.rows, 0, p->n));
    if (piece.rows > 0) *flag0 += sg_piece_tiles(s, &piece, &tiling);
}

static void build_once(const sg_problem *p, const sg_knobs *k, sg_sched *s)
{
    const int inbox = sg_sched_buf(s, SG_SYM, "inbox", p->ranks * p->m, p->n, 0);
    int32_t stored = 0; /* tile flags of slices so far */
    int32_t summed = 0;
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], 0, false);
    for (int c = 0; c < k->value[SUBS] + k->value[LAG]; c++) {
        if (c < k->value[SUBS]) emit_once(p, k, c, false, inbox, &stored, s);
        if (c >= k->value[LAG]) emit_once(p, k, c - k->value[LAG], true, inbox, &summed, s);
    }
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    if (sg_problem_out(p) == SG_OUT_EXCHANGE) {
        build_exchange(p, k, rank, s);
        return;
    }
    if (sg_problem_out(p) == SG_OUT_ALL && k->value[ONCE]) {
        build_once(p, k, s);
        return;
    }
    const int inbox = sg_sched_buf(s, SG_SYM, "inbox", p->ranks * p->most_rows, p->n, 0);
    int32_t flag0[SG_MAX_RANKS]; /* next tile flag at each owner */
    for (int q = 0; q < p->ranks; q++) flag0[q] = FLAG_TILES;
    const int subs = k->value[SUBS];
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], 0, false);
    for (int c = 0; c < subs + k->value[LAG]; c++) {
        for (int i = 1; i < p->ranks && c < subs; i++) {
            const int q = (rank + i) % p->ranks;
            emit_slice(p, k, q, c, inbox, &flag0[q], s);
        }
        if (c >= k->value[LAG]) emit_slice(p, k, rank, c - k->value[LAG], inbox, &flag0[rank], s);
    }
    if (sg_problem_out(p) != SG_OUT_ALL) return;
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++)
        if (q != rank && p->share[q].rows > 0) sg_sched_wait(s, sg_wait_one(q, FLAG_DONE));
}

const sg_strategy sg_strategy_fused_out = {
    .name = "fused_out",
    .brief = "tiles go straight to their owner, who adds them in its own (FLUX, scatter)",
    .knob = {"subs", "lag", "tile_m", "tile_n", "once"},
    .least = {1, 0, 1, 1, 0},
    .most = {64, 8, 4096, 4096, 1},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
