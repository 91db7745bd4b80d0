/* split_columns.c -- an all-reduce whose ranks own columns: see split.h. */
#include "core/split.h"

typedef struct columns {
    sg_sched *sched;
    sg_split_k split; /* of the columns at hand */
    int slices, lag;
    sg_inboxes inboxes;
} columns;

/* Slice C of all rows. */
static sg_piece slice_of(const columns *x, int c)
{
    return sg_slice_of_all(x->sched->problem, c, x->slices, x->split.tiling.tile_m);
}

/* Moves on to Q's columns, of whole tiles.  False: it has none. */
static bool take(columns *x, int q)
{
    const sg_problem *const p = x->sched->problem;
    const int64_t width = x->split.tiling.tile_n, tiles = sg_ceil_div(p->n, width);
    const int64_t first = tiles * q / p->ranks, end = tiles * (q + 1) / p->ranks;
    x->split.col0 = (int32_t)(first * width);
    x->split.cols = (int32_t)(sg_min(p->n, end * width) - first * width);
    return first < end;
}

/* Where the product of rank FROM arrives at AT, who owns the columns at hand. */
static sg_area inbox_of(const columns *x, int at, int from, const sg_piece *piece)
{
    return sg_moves_inbox(x->sched, &x->inboxes, at, from, piece, x->split.col0, x->split.cols);
}

/* Slice C of Q's columns to Q, with tile flags from FLAG0 on, which moves behind them. */
static void send(columns *x, int q, int c, int32_t *flag0)
{
    const sg_piece piece = slice_of(x, c);
    if (piece.rows == 0 || !take(x, q)) return;
    sg_split_patch(x->sched, &x->split, &piece, 0, false);
    sg_split_add(x->sched, &x->split);
    sg_sched_to(x->sched, inbox_of(x, q, x->sched->rank, &piece));
    sg_sched_raise(x->sched, q, SG_PER_TILE, *flag0);
    *flag0 += sg_split_tiles(x->sched, &x->split, &piece);
}

/* Slice C of the own columns: the own product and what the others have sent,
 * in rank order, to everybody. */
static void add(columns *x, int c, int32_t *flag0)
{
    sg_sched *const s = x->sched;
    const int ranks = s->problem->ranks;
    const sg_piece piece = slice_of(x, c);
    if (piece.rows == 0 || !take(x, s->rank)) return;
    sg_split_patch(s, &x->split, &piece, s->rank, true);
    for (int from = 0; from < ranks; from++) {
        const sg_wait wait = sg_wait_tile(from, *flag0);
        if (from == s->rank)
            sg_split_add(s, &x->split);
        else
            sg_sched_add(s, inbox_of(x, s->rank, from, &piece), &wait);
    }
    for (int i = 0; i < ranks; i++) {
        const int at = (s->rank + i) % ranks;
        sg_sched_to(s, sg_area_of(at, SG_C, piece.row0, piece.rows, x->split.col0, x->split.cols));
        if (i > 0) sg_sched_raise(s, at, SG_PER_PATCH, SG_FLAG_DONE);
    }
    *flag0 += sg_split_tiles(s, &x->split, &piece);
}

void sg_split_columns(sg_sched *s, sg_tiling tiling, int splits, int slices, int lag)
{
    const sg_problem *const p = s->problem;
    columns x = {.sched = s, .slices = slices, .lag = lag};
    x.split = sg_split_begin(s, splits, tiling, 0);
    x.inboxes = sg_moves_inboxes(s, &tiling);
    sg_sched_launch(s, 0, tiling.tile_m, tiling.tile_n, tiling.blocks, false);
    int32_t flag0[SG_MAX_RANKS]; /* next tile flag at each owner */
    for (int q = 0; q < p->ranks; q++) flag0[q] = SG_FLAG_TILES;
    for (int c = 0; c < slices + lag; c++) {
        for (int i = 1; i < p->ranks && c < slices; i++) {
            const int q = (s->rank + i) % p->ranks;
            send(&x, q, c, &flag0[q]);
        }
        if (c >= lag) add(&x, c - lag, &flag0[s->rank]);
    }
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->m > 0; q++)
        if (q != s->rank && take(&x, q)) sg_sched_wait(s, sg_wait_one(q, SG_FLAG_DONE));
}
