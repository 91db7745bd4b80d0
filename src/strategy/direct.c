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
 * Wins where ranks reach each other all at once; loses a step on a ring of links.  Exposed in a
 * scatter: the sum of the own rows; in an all-reduce also the copies after it.
 */
#include "core/moves.h"
#include "core/strategy.h"

enum { CHUNKS, SPLIT, BLOCKS, TILE_M, TILE_N };

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!sg_accepts_moves(p, why)) return 0;
    const bool gather = sg_problem_in(p) != SG_IN_NONE;
    const int64_t rows = p->most_rows;
    int n = 0;
    for (int chunks = 1; chunks <= 4 && (chunks == 1 || chunks <= rows); chunks *= 2) {
        sg_knobs *const set = &sets[n++];
        set->value[CHUNKS] = chunks;
        set->value[SPLIT] = 0;
        /* Sends of a scatter wait for the product, and a waiting lane takes an SM. */
        set->value[BLOCKS] = gather || machine->sms <= 8 ? 0 : machine->sms - 4;
        set->value[TILE_M] = machine->tile[0].m;
        set->value[TILE_N] = machine->tile[0].n;
    }
    return n;
}

static int launch(sg_sched *s, const sg_knobs *k)
{
    return sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], k->value[BLOCKS], false);
}

static void build_gather(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int gathered = sg_moves_gathered(s, SG_SYM, SG_ENGINE);
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

/* Rows of Q in chunk C of RANK's product. */
static int32_t slice(const sg_problem *p, const sg_knobs *k, int rank, int q, int c,
                     int32_t *x0_out)
{
    return sg_slice_rows(p, rank, q, c, k->value[CHUNKS], k->value[TILE_M], x0_out);
}

/* Product of the rows of Q, a flag on this rank for each chunk; their copies to Q's inbox follow. */
static void scatter_rows(const sg_problem *p, const sg_knobs *k, int q, int partial, sg_sched *s)
{
    for (int c = 0; c < k->value[CHUNKS]; c++) {
        int32_t x0 = 0;
        const int32_t rows = slice(p, k, s->rank, q, c, &x0);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, s->rank, q, x0, x0 + rows);
             sg_piece_next(&it, &piece);) {
            sg_moves_scatter_patch(s, &piece, 0, false);
            sg_sched_to(s, sg_area_of(s->rank, partial, p->share[q].base + piece.own_row,
                                      piece.rows, 0, p->n));
            if (q != s->rank) sg_sched_raise(s, s->rank, SG_PER_PATCH, q * k->value[CHUNKS] + c);
        }
    }
}

static void send_rows(const sg_problem *p, const sg_knobs *k, int q, int partial, int inbox,
                      sg_sched *s)
{
    const int64_t inbox_rows = p->most_rows;
    for (int c = 0; c < k->value[CHUNKS]; c++) {
        int32_t x0 = 0;
        const int32_t rows = slice(p, k, s->rank, q, c, &x0);
        sg_sched_copy(s, 1, SG_BY_ENGINE,
                      sg_area_of(s->rank, partial, p->share[q].base + x0, rows, 0, p->n));
        sg_sched_wait(s, sg_wait_one(s->rank, q * k->value[CHUNKS] + c));
        sg_sched_to(s, sg_area_of(q, inbox, s->rank * inbox_rows + x0, rows, 0, p->n));
        sg_sched_raise(s, q, SG_PER_PATCH, c);
    }
}

/* Sums the own rows over all ranks into C; in an all-reduce the sums then go to everybody. */
static void sum_rows(const sg_problem *p, const sg_knobs *k, int partial, int inbox, sg_sched *s)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int rank = s->rank;
    const int64_t inbox_rows = p->most_rows;
    const int32_t done = p->ranks * k->value[CHUNKS]; /* first flag of finished rows */
    for (int c = 0; c < k->value[CHUNKS] && p->n > 0; c++) {
        int32_t x0 = 0;
        const int32_t rows = slice(p, k, rank, rank, c, &x0);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, rank, rank, x0, x0 + rows);
             sg_piece_next(&it, &piece);) {
            sg_sched_reduce(s, 0, true);
            for (int q = 0; q < p->ranks; q++) {
                const int64_t row = q == rank ? p->share[rank].base : q * inbox_rows;
                const sg_wait wait = sg_wait_one(q, c);
                sg_sched_add(s,
                             sg_area_of(rank, q == rank ? partial : inbox, row + piece.own_row,
                                        piece.rows, 0, p->n),
                             q == rank ? NULL : &wait);
            }
            const int32_t to = all ? piece.row0 : piece.own_row;
            sg_sched_to(s, sg_area_of(rank, SG_C, to, piece.rows, 0, p->n));
            if (all) sg_sched_raise(s, rank, SG_PER_PATCH, done + c);
        }
    }
}

static void send_sums(const sg_problem *p, const sg_knobs *k, sg_sched *s)
{
    const int rank = s->rank;
    const int32_t done = p->ranks * k->value[CHUNKS];
    for (int c = 0; c < k->value[CHUNKS]; c++) {
        for (int i = 1; i < p->ranks; i++) {
            const int peer = (rank - i + p->ranks) % p->ranks;
            int32_t x0 = 0;
            const int32_t rows = slice(p, k, rank, rank, c, &x0);
            sg_piece piece;
            for (sg_pieces it = sg_pieces_of(p, rank, rank, x0, x0 + rows);
                 sg_piece_next(&it, &piece);) {
                sg_sched_copy(s, 1, SG_BY_ENGINE,
                              sg_area_of(rank, SG_C, piece.row0, piece.rows, 0, p->n));
                sg_sched_wait(s, sg_wait_one(rank, done + c));
                sg_sched_to(s, sg_area_of(peer, SG_C, piece.row0, piece.rows, 0, p->n));
                sg_sched_raise(s, peer, SG_PER_PATCH, done + c);
            }
        }
    }
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++) {
        if (q == rank) continue;
        for (int c = 0; c < k->value[CHUNKS]; c++) {
            int32_t x0 = 0;
            if (slice(p, k, s->rank, q, c, &x0) > 0) sg_sched_wait(s, sg_wait_one(q, done + c));
        }
    }
}

/* All-to-all: rows of Q straight into its output; own rows are computed there. */
static void exchange_rows(const sg_problem *p, const sg_knobs *k, int q, int partial, sg_sched *s)
{
    const sg_part part = sg_problem_part(p, s->rank, q);
    for (int c = 0; c < k->value[CHUNKS]; c++) {
        int32_t x0 = 0;
        const int32_t rows = slice(p, k, s->rank, q, c, &x0);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, s->rank, q, x0, x0 + rows);
             sg_piece_next(&it, &piece);) {
            const bool own = q == s->rank;
            const int64_t to = piece.own_row + (own ? part.held : part.base);
            sg_moves_scatter_patch(s, &piece, 0, true);
            sg_sched_to(s, sg_area_of(s->rank, own ? SG_C : partial, to, piece.rows, 0, p->n));
            if (!own) sg_sched_raise(s, s->rank, SG_PER_PATCH, q * k->value[CHUNKS] + c);
        }
    }
}

static void build_exchange(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int partial = sg_sched_buf(s, SG_LOCAL, "partial", sg_problem_rows(p, rank), p->n, 0);
    /* Shared by all, so that a rank without any rows says hello and done too. */
    sg_sched_buf(s, SG_SYM, "none", 0, 0, 0);
    for (int i = 1; i <= p->ranks; i++) {
        if (i == 1 || k->value[SPLIT]) launch(s, k);
        exchange_rows(p, k, (rank + i) % p->ranks, partial, s);
    }
    for (int i = 1; i < p->ranks; i++) {
        const int q = (rank + i) % p->ranks;
        const sg_part part = sg_problem_part(p, rank, q);
        for (int c = 0; c < k->value[CHUNKS]; c++) {
            int32_t x0 = 0;
            const int32_t rows = slice(p, k, rank, q, c, &x0);
            sg_sched_copy(s, 1, SG_BY_ENGINE,
                          sg_area_of(rank, partial, part.base + x0, rows, 0, p->n));
            sg_sched_wait(s, sg_wait_one(rank, q * k->value[CHUNKS] + c));
            sg_sched_to(s, sg_area_of(q, SG_C, part.held + x0, rows, 0, p->n));
            sg_sched_raise(s, q, SG_PER_PATCH, c);
        }
    }
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++) {
        for (int c = 0; c < k->value[CHUNKS] && q != rank; c++) {
            int32_t x0 = 0;
            if (slice(p, k, q, rank, c, &x0) > 0) sg_sched_wait(s, sg_wait_one(q, c));
        }
    }
}

static void build_scatter(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int64_t inbox_rows = p->ranks * p->most_rows;
    const int inbox = sg_sched_buf(s, SG_SYM, "inbox", inbox_rows, p->n, SG_ENGINE);
    const int partial = sg_sched_buf(s, SG_LOCAL, "partial", p->m, p->n, 0);
    for (int i = 1; i <= p->ranks; i++) {
        if (i == 1 || k->value[SPLIT]) launch(s, k);
        scatter_rows(p, k, (rank + i) % p->ranks, partial, s);
    }
    for (int i = 1; i < p->ranks; i++) send_rows(p, k, (rank + i) % p->ranks, partial, inbox, s);
    sum_rows(p, k, partial, inbox, s);
    if (sg_problem_out(p) == SG_OUT_ALL) send_sums(p, k, s);
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
    .knob = {"chunks", "split", "blocks", "tile_m", "tile_n"},
    .least = {1, 0, 0, 1, 1},
    .most = {64, 1, 1024, 4096, 4096},
    .accepts = sg_accepts_moves,
    .propose = propose,
    .build = build,
};
