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
 *
 * `splits` parts of k (split.h) fill the SMs that few tiles leave idle.
 */
#include "core/split.h"
#include "core/strategy.h"

enum { SUBS, LAG, TILE_M, TILE_N, ONCE, SPLITS };

/* Of a rank's tiles, as it sends them to all others at once; beyond, two hops have paid for themselves. */
static const double most_once_bytes = 64e6;

/* A slice reads all of B: where no cache holds that, the memory takes longer for it than the products
 * of a low slice (measured: 17 to 40 % of the run in slices of one band). */
static const double cached_bytes = 48e6;
enum { LEAST_BANDS = 4 };

/* Of a product of few waves, more shapes of tiles are worth trying: where waves end shows. */
enum { FEW_WAVES = 4 };

/* Flags of a rank at an owner: its finished rows have arrived (all-reduce); then one per tile. */
enum { FLAG_DONE, FLAG_TILES };

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (sg_problem_out(p) == SG_OUT_NONE) return sg_decline(why, "no rows of C leave");
    return sg_accepts_moves(p, why);
}

/* Appends knobs with k whole, and with k in as many parts as fill the SMs with the tiles of all slices.
 * More parts, which fill them with the tiles of one slice, would send it sooner; but each wave would read
 * all of B for a slice's rows alone, and that has cost more than it hid. */
static int propose_parts(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                         int subs, bool once, sg_knobs *sets)
{
    const int64_t slices = sg_min(p->m, once ? subs : (int64_t)subs * p->ranks);
    const int64_t bands = slices * sg_ceil_div(sg_ceil_div(p->m, sg_max(1, slices)), tile->m);
    const int64_t tiles = bands * sg_ceil_div(p->n, tile->n);
    const int parts = p->call ? 1 : sg_split_parts(tiles, p->k, machine->sms);
    int n = 0;
    sets[n++] = (sg_knobs){{subs, subs > 1, tile->m, tile->n, once, 1}};
    if (parts > 1) sets[n++] = (sg_knobs){{subs, subs > 1, tile->m, tile->n, once, parts}};
    return n;
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!accepts(p, why)) return 0;
    const int64_t rows = p->most_rows;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const double sent = (p->ranks - 1.0) * (double)p->m * (double)p->n * sg_type_bytes(p->type);
    const double b_bytes = (double)p->n * (double)p->k * sg_type_bytes(p->type);
    const sg_tile *const first = &machine->tile[0];
    const int64_t tiles = sg_ceil_div(p->m, first->m) * sg_ceil_div(p->n, first->n);
    const int shapes = tiles <= (int64_t)FEW_WAVES * machine->sms ? 3 : 2;
    int n = 0;
    for (int t = 0; t < machine->tiles && t < shapes; t++) {
        const sg_tile *const tile = &machine->tile[t];
        n += propose_parts(p, machine, tile, 1, false, &sets[n]);
        const int bands = b_bytes > cached_bytes ? LEAST_BANDS : 1;
        int subs = all ? 8 : 1;
        while (subs > 1 && (int64_t)subs * bands * tile->m > rows) subs /= 2;
        if (subs > 1) n += propose_parts(p, machine, tile, subs, false, &sets[n]);
        if (all && sent <= most_once_bytes) n += propose_parts(p, machine, tile, 1, true, &sets[n]);
    }
    return n;
}

/* What all slices of a build need. */
typedef struct building {
    const sg_problem *problem;
    const sg_knobs *knobs;
    sg_sched *sched;
    sg_split_k split;
    int inbox;
} building;

static sg_wait per_tile(int by, int32_t flag0)
{
    sg_wait wait = sg_wait_one(by, flag0);
    wait.per = SG_PER_TILE;
    return wait;
}

/* Adds the parts of the own product and, in rank order around them, what the others have sent. */
static void add_all(building *b, const sg_piece *piece, int32_t flag0)
{
    const sg_problem *const p = b->problem;
    for (int from = 0; from < p->ranks; from++) {
        const sg_wait wait = per_tile(from, flag0);
        const int64_t row = from * p->most_rows + piece->own_row;
        if (from == b->sched->rank)
            sg_split_add(b->sched, &b->split);
        else
            sg_sched_add(b->sched, sg_area_of(b->sched->rank, b->inbox, row, piece->rows, 0, p->n),
                         &wait);
    }
}

/* Emits slice C of Q's rows; FLAG0 is the first tile flag of the slice and moves behind it. */
static void emit_slice(building *b, int q, int c, int32_t *flag0)
{
    const sg_problem *const p = b->problem;
    const int32_t *const k = b->knobs->value;
    const sg_tiling tiling = {k[TILE_M], k[TILE_N], 0};
    sg_sched *const s = b->sched;
    const int rank = s->rank;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    int32_t x0 = 0;
    const int32_t rows = sg_slice_rows(p, rank, q, c, k[SUBS], k[TILE_M], &x0);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(p, rank, q, x0, x0 + rows); sg_piece_next(&it, &piece);) {
        const bool own = q == rank;
        const int64_t row = rank * p->most_rows + piece.own_row;
        sg_split_patch(s, &b->split, &piece, own ? rank : 0, own);
        if (!own) {
            sg_split_add(s, &b->split);
            sg_sched_to(s, sg_area_of(q, b->inbox, row, piece.rows, 0, p->n));
            sg_sched_raise(s, q, SG_PER_TILE, *flag0);
        } else {
            add_all(b, &piece, *flag0);
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
static void build_exchange(building *b)
{
    const sg_problem *const p = b->problem;
    sg_sched *const s = b->sched;
    /* Shared by all, so that a rank without any rows says hello and done too. */
    sg_sched_buf(s, SG_SYM, "none", 0, 0, 0);
    sg_sched_launch(s, 0, b->knobs->value[TILE_M], b->knobs->value[TILE_N], 0, false);
    for (int i = 1; i <= p->ranks; i++) {
        const int q = (s->rank + i) % p->ranks;
        const sg_part part = sg_problem_part(p, s->rank, q);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, s->rank, q, 0, part.rows);
             sg_piece_next(&it, &piece);) {
            sg_split_patch(s, &b->split, &piece, 0, true);
            sg_split_add(s, &b->split);
            sg_sched_to(s, sg_area_of(q, SG_C, part.held + piece.own_row, piece.rows, 0, p->n));
            if (q != s->rank) sg_sched_raise(s, q, SG_PER_PATCH, FLAG_DONE);
        }
    }
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++)
        if (q != s->rank && sg_problem_part(p, q, s->rank).rows > 0)
            sg_sched_wait(s, sg_wait_one(q, FLAG_DONE));
}

/* ---- All-reduce at once ------------------------------------------------------------------------------ */

/* Slice C of all rows. */
static sg_piece slice_of_all(const building *b, int c)
{
    const int32_t *const k = b->knobs->value;
    const int64_t height = sg_chunk_rows(b->problem->m, k[SUBS], k[TILE_M]);
    const int64_t row0 = sg_min(b->problem->m, c * height);
    const int64_t end = sg_min(b->problem->m, row0 + height);
    return (sg_piece){.row0 = (int32_t)row0, .rows = (int32_t)(end - row0)};
}

static sg_area inbox_of(const building *b, int at, int from, const sg_piece *piece)
{
    return sg_area_of(at, b->inbox, from * b->problem->m + piece->row0, piece->rows, 0,
                      b->problem->n);
}

/* The product of slice C to everybody, with tile flags from FLAG0 on. */
static void send_to_all(building *b, int c, int32_t flag0)
{
    const sg_piece piece = slice_of_all(b, c);
    sg_sched *const s = b->sched;
    if (piece.rows == 0) return;
    sg_split_patch(s, &b->split, &piece, 0, false);
    sg_split_add(s, &b->split);
    for (int i = 1; i <= b->problem->ranks; i++) {
        const int at = (s->rank + i) % b->problem->ranks;
        sg_sched_to(s, inbox_of(b, at, s->rank, &piece));
        sg_sched_raise(s, at, SG_PER_TILE, flag0);
    }
}

/* The sum of slice C over all ranks, in their order. */
static void sum_all(building *b, int c, int32_t flag0)
{
    const sg_piece piece = slice_of_all(b, c);
    sg_sched *const s = b->sched;
    sg_patch patch = sg_moves_patch(s, &piece, true);
    patch.k1 = patch.k0;
    sg_sched_patch(s, &patch);
    for (int from = 0; from < b->problem->ranks; from++) {
        const sg_wait wait = per_tile(from, flag0);
        sg_sched_add(s, inbox_of(b, s->rank, from, &piece), &wait);
    }
    sg_sched_to(s, sg_area_of(s->rank, SG_C, piece.row0, piece.rows, 0, b->problem->n));
}

/* Tiles of all slices before C. */
static int32_t tiles_before(const building *b, int c)
{
    const int32_t *const k = b->knobs->value;
    const sg_tiling tiling = {k[TILE_M], k[TILE_N], 0};
    int64_t tiles = 0;
    for (int i = 0; i < c; i++) {
        const sg_piece piece = slice_of_all(b, i);
        tiles += sg_piece_tiles(b->sched, &piece, &tiling);
    }
    return (int32_t)sg_min(tiles, SG_MAX_VISITS);
}

static void build_once(building *b)
{
    const sg_problem *const p = b->problem;
    const int32_t *const k = b->knobs->value;
    b->inbox = sg_sched_buf(b->sched, SG_SYM, "inbox", p->ranks * p->m, p->n, 0);
    sg_sched_launch(b->sched, 0, k[TILE_M], k[TILE_N], 0, false);
    for (int c = 0; c < k[SUBS] + k[LAG]; c++) {
        if (c < k[SUBS]) send_to_all(b, c, tiles_before(b, c));
        if (c >= k[LAG]) sum_all(b, c - k[LAG], tiles_before(b, c - k[LAG]));
    }
}

/* ---- Any ------------------------------------------------------------------------------------------------ */

static void build_sums(building *b)
{
    const sg_problem *const p = b->problem;
    const int32_t *const k = b->knobs->value;
    sg_sched *const s = b->sched;
    const int rank = s->rank;
    int32_t flag0[SG_MAX_RANKS]; /* next tile flag at each owner */
    for (int q = 0; q < p->ranks; q++) flag0[q] = FLAG_TILES;
    b->inbox = sg_sched_buf(s, SG_SYM, "inbox", p->ranks * p->most_rows, p->n, 0);
    sg_sched_launch(s, 0, k[TILE_M], k[TILE_N], 0, false);
    for (int c = 0; c < k[SUBS] + k[LAG]; c++) {
        for (int i = 1; i < p->ranks && c < k[SUBS]; i++) {
            const int q = (rank + i) % p->ranks;
            emit_slice(b, q, c, &flag0[q]);
        }
        if (c >= k[LAG]) emit_slice(b, rank, c - k[LAG], &flag0[rank]);
    }
    if (sg_problem_out(p) != SG_OUT_ALL) return;
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++)
        if (q != rank && p->share[q].rows > 0) sg_sched_wait(s, sg_wait_one(q, FLAG_DONE));
}

/* Own flags are those of parts of k; at once, a rank also sends to itself. */
static int32_t first_part_flag(const building *b, bool once)
{
    return once ? tiles_before(b, b->knobs->value[SUBS]) : 0;
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const bool once = sg_problem_out(p) == SG_OUT_ALL && k->value[ONCE];
    building b = {.problem = p, .knobs = k, .sched = s};
    (void)rank;
    const sg_tiling tiling = {k->value[TILE_M], k->value[TILE_N], 0};
    b.split = sg_split_begin(s, k->value[SPLITS], tiling, first_part_flag(&b, once));
    if (sg_problem_out(p) == SG_OUT_EXCHANGE)
        build_exchange(&b);
    else if (once)
        build_once(&b);
    else
        build_sums(&b);
}

const sg_strategy sg_strategy_fused_out = {
    .name = "fused_out",
    .brief = "tiles go straight to their owner, who adds them in its own (FLUX, scatter)",
    .knob = {"subs", "lag", "tile_m", "tile_n", "once", "splits"},
    .least = {1, 0, 1, 1, 0, 1},
    .most = {64, 8, 4096, 4096, 1, 16},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
