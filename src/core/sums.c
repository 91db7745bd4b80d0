/* sums.c -- see sums.h. */
#include "core/sums.h"

sg_chunk sg_sums_chunk(const sg_problem *p, const sg_sums *x, int rank, int owner, int c)
{
    sg_chunk chunk = {.cols = (int32_t)p->n};
    if (x->by_cols) {
        const int32_t width = sg_chunk_rows(p->n, x->chunks, x->tile_n);
        chunk.rows = (int32_t)sg_problem_part(p, rank, owner).rows;
        chunk.col0 = (int32_t)sg_min(p->n, (int64_t)c * width);
        chunk.cols = (int32_t)sg_min(width, p->n - chunk.col0);
    } else {
        chunk.rows = sg_slice_rows(p, rank, owner, c, x->chunks, x->tile_m, &chunk.x0);
    }
    if (chunk.cols == 0) chunk.rows = 0;
    return chunk;
}

sg_area sg_chunk_area(int rank, int buf, int64_t row, int64_t rows, const sg_chunk *chunk)
{
    return sg_area_of(rank, buf, row, rows, chunk->col0, chunk->cols);
}

/* The flag of chunk C of finished rows, behind those of products. */
static int32_t done_flag(const sg_problem *p, const sg_sums *x, int c)
{
    return p->ranks * x->chunks + c;
}

int sg_sums_add(sg_sched *s, const sg_sums *x, int c)
{
    const sg_problem *const p = s->problem;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int rank = s->rank;
    const sg_chunk chunk = sg_sums_chunk(p, x, rank, rank, c);
    int last = -1;
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(p, rank, rank, chunk.x0, chunk.x0 + chunk.rows);
         sg_piece_next(&it, &piece);) {
        last = sg_sched_reduce(s, 0, true);
        for (int q = 0; q < p->ranks; q++) {
            const bool own = q == rank;
            const int64_t row0 = own ? p->share[rank].base : q * p->most_rows;
            const sg_wait wait = sg_wait_one(q, c);
            sg_sched_add(s,
                         sg_chunk_area(rank, own ? x->partial : x->inbox, row0 + piece.own_row,
                                       piece.rows, &chunk),
                         own ? NULL : &wait);
        }
        const int32_t to = all ? piece.row0 : piece.own_row;
        sg_sched_to(s, sg_chunk_area(rank, SG_C, to, piece.rows, &chunk));
        if (all && !x->vendor) sg_sched_raise(s, rank, SG_PER_PATCH, done_flag(p, x, c));
    }
    return last;
}

void sg_sums_send(sg_sched *s, const sg_sums *x, int lane, int peer, int c, int added)
{
    const sg_problem *const p = s->problem;
    const int rank = s->rank;
    const sg_chunk chunk = sg_sums_chunk(p, x, rank, rank, c);
    const int32_t done = done_flag(p, x, c);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(p, rank, rank, chunk.x0, chunk.x0 + chunk.rows);
         sg_piece_next(&it, &piece);) {
        sg_sched_copy(s, lane, SG_BY_ENGINE,
                      sg_chunk_area(rank, SG_C, piece.row0, piece.rows, &chunk));
        if (x->vendor)
            sg_sched_after(s, added);
        else
            sg_sched_wait(s, sg_wait_one(rank, done));
        sg_sched_to(s, sg_chunk_area(peer, SG_C, piece.row0, piece.rows, &chunk));
        sg_sched_raise(s, peer, SG_PER_PATCH, done);
    }
}

void sg_sums_await(sg_sched *s, const sg_sums *x)
{
    const sg_problem *const p = s->problem;
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks; q++) {
        if (q == s->rank) continue;
        for (int c = 0; c < x->chunks; c++) {
            /* Q sends what it has multiplied for this rank, or else its own rows, summed. */
            const sg_chunk chunk = x->exchange ? sg_sums_chunk(p, x, q, s->rank, c)
                                               : sg_sums_chunk(p, x, s->rank, q, c);
            const int32_t flag = x->exchange ? c : done_flag(p, x, c);
            if (chunk.rows > 0) sg_sched_wait(s, sg_wait_one(q, flag));
        }
    }
}
