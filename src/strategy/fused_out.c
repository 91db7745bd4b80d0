/* fused_out.c -- FLUX's scatter (arXiv 2406.06858, section 3.1): the product stores each tile
 * straight to its owner, and the owner's last tiles add what has arrived.
 *
 *     lane 0:  rows of r+1 -> r+1 | rows of r+2 -> r+2 | ... | own rows + inboxes -> C
 *
 * One launch, no copies, no separate reduction.  A tile raises one flag at its owner; the owner
 * adds the tiles of ranks 0..P-1 in this order, its own product in its place.  Ranks start with
 * different owners, so no link carries two ranks' tiles at once.  Where the link is slower than the
 * product, own rows come in slices between those that leave, and not when all has left.
 *
 * All-reduce: the finished tile is stored on every rank.  With `subs` slices of every owner's rows
 * finished one after the other (own rows `lag` slices behind) these stores travel under the rest of
 * the product; only the last slice's are exposed.  All-to-all: no sum, tiles go into the output.
 *
 *     once     lane 0:  a slice of all rows -> everybody | the slice `lag` before: inboxes -> C | ...
 *
 * An all-reduce at `once`: every tile goes to all ranks, each of which adds up all of them, in rank
 * order, so that all get the same bits.  One hop instead of two, and nobody stores into another's
 * C; but P / 2 times the bytes, and every rank does all the sums: for small products of few ranks.
 *
 *     tagged   lane 0:  all rows -> places of everybody, at rest before | places of all ranks -> C
 *
 * What travels tells by itself that it has come: no acknowledgement, no flag behind it, no tile of
 * its own for the sum.  In two hops ranks own columns of tiles (moves_tagged.c).  A scatter's go to
 * the owner of their rows.
 *
 *     strips   lane 0:  first columns: rows of r+1 -> r+1, ..., own rows -> r | next columns: ... |
 *                       inboxes -> C
 *
 * Owner by owner, all of B is read for each of them, if no cache holds it.  In strips of columns,
 * each a wave of everybody's rows, it is read once.  Own tiles would wait for what the others just
 * multiply: so they go to an inbox, too, and all is added up at the end.  A call makes whole rows.
 *
 *     strips   lane 0:  strip 1: rows of r+1 -> r+1, ... | strip 2: rows of r+1 -> r+1, ... |
 *     and lag           own rows of strip 1 + inboxes -> C | strip 3: ... | own rows of strip 2 ...
 *
 * With a lag, own rows come `lag` strips behind and add what has arrived meanwhile: only the last
 * strip's stores are exposed.  Slices do the same, but read all of B each, strips twice at most.
 *
 *     strips   lane 0:  strip 1: rows of r+1 -> r+1, ..., own rows + inboxes -> C | strip 2: ...
 *     and once
 *
 * Own tiles of a scatter may wait in their strip all the same, where warpgroups have a tile each:
 * one multiplies the next strip's meanwhile.  Two waves then are two strips, and nothing is added
 * up at the end.
 *
 *     strips=0 lane 0:  columns of r+1 -> r+1 | columns of r+2 -> r+2 | ... | own columns + inboxes -> C
 *
 * No strips: owners of an all-reduce have columns instead of rows (split_columns.c).  All rows meet
 * a column of B at the same time, and it is read once, A for each owner; in slices of all rows, own
 * columns `lag` slices behind, once in each.
 *
 * `splits` parts of k (split.h) fill the SMs that few tiles leave idle. */
#include "strategy/fused_out.h"

#include "core/split.h"

bool sg_fused_out_may_be_tagged(const sg_problem *p, const sg_knobs *knobs)
{
    const int32_t *const k = knobs->value;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    if (!all && (sg_problem_out(p) != SG_OUT_SCATTER || !sg_moves_owns_runs(p))) return false;
    return p->k > 0 && !p->call && k[SUBS] == 1 && k[LAG] == 0 && k[SPLITS] == 1 &&
           ((all && k[ONCE]) || (k[STRIPS] == 1 && p->ranks > 1));
}

bool sg_fused_out_accepts(const sg_problem *p, sg_text *why)
{
    if (sg_problem_out(p) == SG_OUT_NONE) return sg_decline(why, "no rows of C leave");
    return sg_accepts_moves(p, why);
}

/* What all slices of a build need. */
typedef struct building {
    const sg_problem *problem;
    const sg_knobs *knobs;
    sg_sched *sched;
    sg_split_k split;
    int inbox;
    bool lags; /* own rows follow strip by strip, at once or some strips behind */
} building;

/* Strips of columns; the last ones may be empty. */
static int strips_of(const building *b)
{
    return b->problem->call ? 1 : (int)sg_max(1, b->knobs->value[STRIPS]);
}

/* Moves on to strip T of the columns.  False: there is nothing of it. */
static bool take_strip(building *b, int t)
{
    const int64_t n = b->problem->n;
    const int strips = strips_of(b);
    if (strips == 1) return true;
    const int64_t width = sg_round_up(sg_max(1, sg_ceil_div(n, strips)), b->knobs->value[TILE_N]);
    if (t * width >= n) return false;
    b->split.col0 = (int32_t)(t * width);
    b->split.cols = (int32_t)sg_min(n - t * width, width);
    return true;
}

/* Columns at hand of ROWS rows from ROW0 on of BUF at rank AT. */
static sg_area strip_of(const building *b, int at, int buf, int64_t row0, int64_t rows)
{
    const int32_t cols = b->split.cols > 0 ? b->split.cols : (int32_t)b->problem->n;
    return sg_area_of(at, buf, row0, rows, b->split.col0, cols);
}

/* Where the product of rank FROM arrives at PIECE's owner. */
static sg_area inbox_of(const building *b, int from, const sg_piece *piece)
{
    const int64_t row = from * b->problem->most_rows + piece->own_row;
    return strip_of(b, piece->owner, b->inbox, row, piece->rows);
}

/* Adds, in rank order, what all have sent; PARTS: the own product comes from the patch itself. */
static void add_all(building *b, const sg_piece *piece, int32_t flag0, bool parts)
{
    for (int from = 0; from < b->problem->ranks; from++) {
        const sg_wait wait = sg_wait_tile(from, flag0);
        if (parts && from == b->sched->rank)
            sg_split_add(b->sched, &b->split);
        else
            sg_sched_add(b->sched, inbox_of(b, from, piece), &wait);
    }
}

/* A finished piece of the own rows: to C, of everybody in an all-reduce. */
static void store_sum(building *b, const sg_piece *piece)
{
    const sg_problem *const p = b->problem;
    sg_sched *const s = b->sched;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int32_t to = all ? piece->row0 : piece->own_row;
    sg_sched_to(s, strip_of(b, s->rank, SG_C, to, piece->rows));
    for (int i = 1; i < p->ranks && all; i++) {
        const int peer = (s->rank + i) % p->ranks;
        sg_sched_to(s, strip_of(b, peer, SG_C, to, piece->rows));
        sg_sched_raise(s, peer, SG_PER_PATCH, SG_FLAG_DONE);
    }
}

/* A slice goes to its owner's inbox, or is added to what others have sent, or all have sent. */
typedef enum form { SENT, ADDED, SUMMED } form;

/* Emits slice C of Q's rows, of the columns at hand; FLAG0, its first tile flag, moves on. */
static void emit_slice(building *b, int q, int c, form how, int32_t *flag0)
{
    const int32_t *const k = b->knobs->value;
    sg_sched *const s = b->sched;
    int32_t x0 = 0;
    const int32_t rows = sg_slice_rows(b->problem, s->rank, q, c, k[SUBS], k[TILE_M], &x0);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(b->problem, s->rank, q, x0, x0 + rows);
         sg_piece_next(&it, &piece);) {
        if (how == SENT) {
            sg_split_patch(s, &b->split, &piece, 0, false);
            sg_split_add(s, &b->split);
            sg_sched_to(s, inbox_of(b, s->rank, &piece));
            sg_sched_raise(s, q, SG_PER_TILE, *flag0);
        } else if (how == ADDED) {
            sg_split_patch(s, &b->split, &piece, s->rank, true);
            add_all(b, &piece, *flag0, true);
            store_sum(b, &piece);
        } else {
            sg_patch patch = sg_moves_patch(s, &piece, true);
            if (b->split.cols > 0) sg_moves_cut_cols(&patch, b->split.col0, b->split.cols);
            patch.k1 = patch.k0;
            sg_sched_patch(s, &patch);
            add_all(b, &piece, *flag0, false);
            store_sum(b, &piece);
        }
        *flag0 += sg_split_tiles(s, &b->split, &piece);
    }
}

/* The rows of Q, of the columns at hand. */
static void exchange_with(building *b, int q)
{
    sg_sched *const s = b->sched;
    const sg_part part = sg_problem_part(b->problem, s->rank, q);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(b->problem, s->rank, q, 0, part.rows);
         sg_piece_next(&it, &piece);) {
        sg_split_patch(s, &b->split, &piece, 0, true);
        sg_split_add(s, &b->split);
        sg_sched_to(s, strip_of(b, q, SG_C, part.held + piece.own_row, piece.rows));
        if (q != s->rank) sg_sched_raise(s, q, SG_PER_PATCH, SG_FLAG_DONE);
    }
}

/* All-to-all: every tile goes to its place in its owner's output. */
static void build_exchange(building *b)
{
    const sg_problem *const p = b->problem;
    sg_sched *const s = b->sched;
    /* Shared by all, so that a rank without any rows says hello and done too. */
    sg_sched_buf(s, SG_SYM, "none", 0, 0, 0);
    sg_sched_launch(s, 0, b->knobs->value[TILE_M], b->knobs->value[TILE_N], 0, false);
    for (int t = 0; t < strips_of(b) && take_strip(b, t); t++)
        for (int i = 1; i <= p->ranks; i++) exchange_with(b, (s->rank + i) % p->ranks);
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++)
        if (q != s->rank && sg_problem_part(p, q, s->rank).rows > 0)
            sg_sched_wait(s, sg_wait_one(q, SG_FLAG_DONE));
}

/* ---- Any ------------------------------------------------------------------------------------- */

/* Sends stage C, from the tile flags FLAG0 of each owner on: a slice of rows, strip by strip, or a
 * strip.  Own tiles travel, too, if they are added up behind all strips. */
static void send_stage(building *b, int c, int32_t *flag0)
{
    const int ranks = b->problem->ranks;
    const int strips = strips_of(b);
    const int owners = strips > 1 && !b->lags ? ranks : ranks - 1;
    const int end = b->lags ? c + 1 : strips;
    for (int t = b->lags ? c : 0; t < end && take_strip(b, t); t++)
        for (int i = 1; i <= owners; i++) {
            const int q = (b->sched->rank + i) % ranks;
            emit_slice(b, q, b->lags ? 0 : c, SENT, &flag0[q]);
        }
}

/* Finishes stage C of the own rows. */
static void add_stage(building *b, int c, int32_t *flag0)
{
    const int strips = strips_of(b);
    const form how = strips > 1 && !b->lags ? SUMMED : ADDED;
    const int end = b->lags ? c + 1 : strips;
    for (int t = b->lags ? c : 0; t < end && take_strip(b, t); t++)
        emit_slice(b, b->sched->rank, b->lags ? 0 : c, how, flag0);
}

static void build_sums(building *b)
{
    const sg_problem *const p = b->problem;
    const int32_t *const k = b->knobs->value;
    sg_sched *const s = b->sched;
    const int stages = b->lags ? strips_of(b) : k[SUBS];
    int32_t flag0[SG_MAX_RANKS]; /* next tile flag at each owner */
    int32_t added = SG_FLAG_TILES;
    for (int q = 0; q < p->ranks; q++) flag0[q] = SG_FLAG_TILES;
    b->inbox = sg_sched_buf(s, SG_SYM, "inbox", p->ranks * p->most_rows, p->n, 0);
    sg_sched_launch(s, 0, k[TILE_M], k[TILE_N], 0, false);
    for (int c = 0; c < stages + k[LAG]; c++) {
        if (c < stages) send_stage(b, c, flag0);
        if (c >= k[LAG]) add_stage(b, c - k[LAG], &added);
    }
    if (sg_problem_out(p) != SG_OUT_ALL) return;
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++)
        if (q != s->rank && p->share[q].rows > 0) sg_sched_wait(s, sg_wait_one(q, SG_FLAG_DONE));
}

/* Own flags are those of parts of k, behind those of tiles that a rank sends to itself. */
static int32_t first_part_flag(const building *b)
{
    const int32_t *const k = b->knobs->value;
    const sg_tiling tiling = {k[TILE_M], k[TILE_N], 0};
    if (strips_of(b) == 1 || b->lags || sg_problem_out(b->problem) == SG_OUT_EXCHANGE) return 0;
    int64_t flags = SG_FLAG_TILES;
    for (int c = 0; c < k[SUBS]; c++) {
        int32_t x0 = 0;
        const int rank = b->sched->rank;
        const int32_t rows = sg_slice_rows(b->problem, rank, rank, c, k[SUBS], k[TILE_M], &x0);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(b->problem, rank, rank, x0, x0 + rows);
             sg_piece_next(&it, &piece);)
            flags += sg_piece_tiles(b->sched, &piece, &tiling);
    }
    return (int32_t)sg_min(flags, SG_MAX_VISITS);
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL, once = all && k->value[ONCE];
    const bool at_once = sg_problem_out(p) == SG_OUT_SCATTER && k->value[ONCE];
    const bool columns = all && !once && k->value[STRIPS] == 0 && !p->call;
    building b = {.problem = p, .knobs = k, .sched = s};
    (void)rank;
    b.lags = strips_of(&b) > 1 && k->value[SUBS] == 1 && (k->value[LAG] > 0 || at_once);
    const sg_tiling tiling = {k->value[TILE_M], k->value[TILE_N], 0};
    if (!once && !columns)
        b.split = sg_split_begin(s, k->value[SPLITS], tiling, first_part_flag(&b));
    const bool tagged = k->value[TAGGED] && sg_fused_out_may_be_tagged(p, k);
    if (tagged && !once)
        (all ? sg_moves_two_hops : sg_moves_tagged_scatter)(s, tiling.tile_m, tiling.tile_n);
    else if (sg_problem_out(p) == SG_OUT_EXCHANGE)
        build_exchange(&b);
    else if (once)
        sg_split_once(s, tiling, k->value[SPLITS], k->value[SUBS], k->value[LAG], tagged);
    else if (columns)
        sg_split_columns(s, tiling, k->value[SPLITS], k->value[SUBS], k->value[LAG]);
    else
        build_sums(&b);
}

const sg_strategy sg_strategy_fused_out = {
    .name = "fused_out",
    .brief = "tiles go straight to their owner, who adds them in its own (FLUX, scatter)",
    .knob = {[SUBS] = {"subs", 1, 64},
             [LAG] = {"lag", 0, 8},
             [TILE_M] = {"tile_m", 1, 4096},
             [TILE_N] = {"tile_n", 1, 4096},
             [ONCE] = {"once", 0, 1},
             [SPLITS] = {"splits", 1, 16},
             [STRIPS] = {"strips", 0, MOST_STRIPS},
             [TAGGED] = {"tagged", 0, 1}},
    .accepts = sg_fused_out_accepts,
    .propose = sg_fused_out_propose,
    .build = build,
};
