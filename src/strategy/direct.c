/* direct.c -- P2P steps straight to the owner (CommFuse / Flash-Overlap, arXiv 2604.24013, the
 * direct form of its attention figure; also TransformerEngine's and PyTorch's P2P schedules).
 *
 *     gather   lane 1:  own rows to r-1 | to r-2 | ...            copy engine, a flag per chunk
 *              lane 0:  own rows | rows of r+1 | rows of r+2 ...  each waits for its chunks
 *
 *     scatter  lane 0:  rows of r+1 | rows of r+2 | ... | own rows | sum of own rows
 *              lane 1:              | send r+1    | send r+2 ...
 *
 * Own rows come first in a gather, so nothing waits at the start, and last in a scatter, so nothing
 * is sent after the last product.  Sums are f32 over ranks 0..P-1 with one rounding.  All-reduce is
 * the scatter, then every owner copies its rows to all.  All-to-all is either without the sum.
 *
 * With `vendor` every product is a launch of the vendor's: of the own rows, then of each chunk
 * behind a step that waits for it; what leaves is copied after its launch.  For large products,
 * whose chunks are large, too, where the vendor's rate is better than that of our tiles.
 *
 * Wins where ranks reach each other all at once; loses a step on a ring of links.  Exposed in a
 * scatter: the sum of the own rows; in an all-reduce also the copies after it.
 */
#include "core/strategy.h"
#include "core/sums.h"
#include "core/tiles.h"

enum { CHUNKS, SPLIT, BLOCKS, TILE_M, TILE_N, VENDOR };

/* Chunks of a gather that may be worth it, up to four, each of LEAST rows. */
static int propose_chunks(const sg_problem *p, const sg_tile *tile, int blocks, int64_t least,
                          sg_knobs *sets)
{
    int n = 0;
    for (int chunks = 1; chunks <= 4 && (chunks == 1 || chunks * least <= p->most_rows);
         chunks *= 2) {
        sg_knobs *const set = &sets[n++];
        set->value[CHUNKS] = chunks;
        set->value[SPLIT] = 0;
        set->value[BLOCKS] = blocks;
        set->value[TILE_M] = tile->m;
        set->value[TILE_N] = tile->n;
        set->value[VENDOR] = least > 1;
    }
    return n;
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!sg_accepts_moves(p, why)) return 0;
    const bool cut = sg_problem_in(p) != SG_IN_NONE && p->gather != SG_GATHER_K && !p->call;
    /* Sends of a scatter wait for the product. */
    const bool scatter = sg_problem_in(p) == SG_IN_NONE;
    const int blocks = scatter ? sg_blocks_beside(machine, 4, why) : 0;
    if (blocks < 0) return 0;
    int n = 0;
    for (int t = 0; t < machine->tiles && t < 2; t++)
        n += propose_chunks(p, &machine->tile[t], blocks, 1, &sets[n]);
    /* Of several B each would be a launch of the vendor's, and share no wave with the others. */
    if (!cut || p->most_rows < SG_VENDOR_ROWS || p->b_count > 1) return n;
    return n + propose_chunks(p, &machine->tile[0], blocks, SG_VENDOR_ROWS, &sets[n]);
}

static void launch(sg_sched *s, const sg_knobs *k)
{
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], k->value[BLOCKS], false);
}

/* The vendor multiplies the own rows, then chunk after chunk what arrives. */
static void gather_by_vendor(const sg_knobs *k, sg_gathering *gathering, const int *order,
                             int count, sg_sched *s)
{
    gathering->vendor = true;
    sg_moves_gather_patches(s, gathering, order, 1);
    for (int i = 1; i < count; i++) {
        for (int c = 0; c < k->value[CHUNKS]; c++) {
            gathering->chunk = 1 + c;
            sg_moves_gather_patches(s, gathering, &order[i], 1);
        }
    }
}

static void build_gather(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int gathered = sg_moves_gathered(s, SG_SYM, SG_FIXED);
    const int32_t tile = sg_tile_along(p, k->value[TILE_M], k->value[TILE_N]);
    sg_arrival arrival[SG_MAX_RANKS];
    int order[SG_MAX_RANKS];
    for (int i = 0; i < p->ranks; i++) {
        /* Rank r sends to r-1 first, so the rows of r+1 are the first to arrive here. */
        const int peer = (rank - i + p->ranks) % p->ranks;
        const sg_arrival sent = {
            .chunk = sg_chunk_rows(sg_problem_part(p, peer, rank).rows, k->value[CHUNKS], tile)};
        if (i > 0) sg_moves_send(s, 1, peer, gathered, &sent);
        order[i] = (rank + i) % p->ranks;
        arrival[i] = (sg_arrival){
            .by = (int16_t)i,
            .chunk = sg_chunk_rows(sg_problem_part(p, rank, i).rows, k->value[CHUNKS], tile)};
    }
    sg_gathering gathering = {.gathered = gathered, .arrival = arrival};
    if (k->value[VENDOR] && p->gather != SG_GATHER_K) {
        gather_by_vendor(k, &gathering, order, p->ranks, s);
        return;
    }
    if (!k->value[SPLIT]) {
        launch(s, k);
        sg_moves_gather_patches(s, &gathering, order, p->ranks);
        return;
    }
    for (int i = 0; i < p->ranks; i++) {
        if (sg_problem_part(p, rank, order[i]).rows == 0) continue;
        launch(s, k);
        sg_moves_gather_patches(s, &gathering, &order[i], 1);
    }
}

/* Product of chunk C of the rows of Q, which begin at row BASE of BUF.  What is sent raises a flag
 * on this rank, or else its copy is after the vendor's launch, the last of which is returned. */
static int multiply(const sg_problem *p, const sg_sums *x, int q, int c, int buf, int64_t base,
                    sg_sched *s)
{
    int last = -1;
    const sg_chunk chunk = sg_sums_chunk(p, x, s->rank, q, c);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(p, s->rank, q, chunk.x0, chunk.x0 + chunk.rows);
         sg_piece_next(&it, &piece);) {
        if (x->vendor)
            last = sg_moves_vendor_patch(s, &piece, x->exchange, NULL);
        else
            sg_moves_scatter_patch(s, &piece, 0, x->exchange);
        sg_sched_to(s, sg_area_of(s->rank, buf, base + piece.own_row, piece.rows, 0, p->n));
        if (q != s->rank && !x->vendor) sg_sched_raise(s, s->rank, SG_PER_PATCH, q * x->chunks + c);
    }
    return last;
}

/* Copies chunk C of the rows of Q to it, when they are multiplied. */
static void send_chunk(const sg_problem *p, const sg_sums *x, int q, int c, int launched,
                       sg_sched *s)
{
    const sg_part part = sg_problem_part(p, s->rank, q);
    const sg_chunk chunk = sg_sums_chunk(p, x, s->rank, q, c);
    sg_sched_copy(s, 1, SG_BY_ENGINE,
                  sg_area_of(s->rank, x->partial, part.base + chunk.x0, chunk.rows, 0, p->n));
    if (x->vendor)
        sg_sched_after(s, launched);
    else
        sg_sched_wait(s, sg_wait_one(s->rank, q * x->chunks + c));
    const int64_t to = x->exchange ? part.held : s->rank * p->most_rows;
    const int buf = x->exchange ? SG_C : x->inbox;
    sg_sched_to(s, sg_area_of(q, buf, to + chunk.x0, chunk.rows, 0, p->n));
    sg_sched_raise(s, q, SG_PER_PATCH, c);
}

/* Products for all owners, own rows last, and their copies. */
static void multiply_and_send(const sg_problem *p, const sg_knobs *k, const sg_sums *x, sg_sched *s)
{
    for (int i = 1; i <= p->ranks; i++) {
        const int q = (s->rank + i) % p->ranks;
        const sg_part part = sg_problem_part(p, s->rank, q);
        const bool stays = x->exchange && q == s->rank;
        if (!x->vendor && (i == 1 || k->value[SPLIT])) launch(s, k);
        for (int c = 0; c < x->chunks; c++) {
            const int launched =
                multiply(p, x, q, c, stays ? SG_C : x->partial, stays ? part.held : part.base, s);
            if (x->vendor && q != s->rank) send_chunk(p, x, q, c, launched, s);
        }
    }
    for (int i = 1; i < p->ranks && !x->vendor; i++)
        for (int c = 0; c < x->chunks; c++) send_chunk(p, x, (s->rank + i) % p->ranks, c, -1, s);
}

/* What leaves, but for its buffers. */
static sg_sums sums_of(const sg_problem *p, const sg_knobs *k)
{
    return (sg_sums){.chunks = k->value[CHUNKS],
                     .tile_m = k->value[TILE_M],
                     .tile_n = k->value[TILE_N],
                     .exchange = sg_problem_out(p) == SG_OUT_EXCHANGE,
                     .vendor = k->value[VENDOR]};
}

static void build_exchange(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    sg_sums x = sums_of(p, k);
    x.partial = sg_sched_buf(s, SG_LOCAL, "partial", sg_problem_rows(p, rank), p->n, 0);
    /* Shared by all, so that a rank without any rows says hello and done too. */
    sg_sched_buf(s, SG_SYM, "none", 0, 0, 0);
    multiply_and_send(p, k, &x, s);
    sg_sums_await(s, &x);
}

static void build_scatter(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    sg_sums x = sums_of(p, k);
    x.inbox = sg_sched_buf(s, SG_SYM, "inbox", p->ranks * p->most_rows, p->n, SG_FIXED);
    x.partial = sg_sched_buf(s, SG_LOCAL, "partial", p->m, p->n, 0);
    multiply_and_send(p, k, &x, s);
    for (int c = 0; c < x.chunks; c++) {
        const int added = sg_sums_add(s, &x, c);
        for (int i = 1; i < p->ranks && all; i++)
            sg_sums_send(s, &x, 1, (rank - i + p->ranks) % p->ranks, c, added);
    }
    if (all) sg_sums_await(s, &x);
}

static void build(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    if (sg_problem_in(p) != SG_IN_NONE)
        build_gather(p, knobs, rank, s);
    else if (sg_problem_out(p) == SG_OUT_EXCHANGE)
        build_exchange(p, knobs, rank, s);
    else
        build_scatter(p, knobs, rank, s);
}

const sg_strategy sg_strategy_direct = {
    .name = "direct",
    .brief = "copies straight to the owner, own rows first or last (CommFuse, direct form)",
    .knob = {[CHUNKS] = {"chunks", 1, 64},
             [SPLIT] = {"split", 0, 1},
             [BLOCKS] = {"blocks", 0, SG_MOST_SMS},
             [TILE_M] = {"tile_m", 1, 4096},
             [TILE_N] = {"tile_n", 1, 4096},
             [VENDOR] = {"vendor", 0, 1}},
    .accepts = sg_accepts_moves,
    .propose = propose,
    .build = build,
};
