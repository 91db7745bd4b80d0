/* moves_tagged.c -- sums over all ranks by tagged data that go to owners, and gathers: see
 * moves.h. */
#include "core/moves.h"

/* What both hops need. */
typedef struct hops {
    sg_sched *sched;
    int32_t tile_m, tile_n;
    int64_t bands, cols; /* of tiles of all the product */
    int64_t most;        /* tiles of an owner */
    int inbox;
    int32_t col0, end; /* columns of the patch at hand */
} hops;

static hops hops_of(sg_sched *s, int32_t tile_m, int32_t tile_n)
{
    const sg_problem *const p = s->problem;
    hops h = {.sched = s, .tile_m = tile_m, .tile_n = tile_n};
    h.bands = sg_ceil_div(p->m, tile_m);
    h.cols = sg_ceil_div(p->n, tile_n);
    return h;
}

/* The launch, with room for SHARES times MOST tiles in the inbox. */
static void open_launch(hops *h, int64_t most, int64_t shares)
{
    h->most = most;
    h->inbox =
        sg_sched_buf(h->sched, SG_REST, "inbox", shares * most * h->tile_m, h->tile_n, SG_TAGGED);
    sg_sched_launch(h->sched, 0, h->tile_m, h->tile_n, 0, false);
}

/* The places at rank AT, for COUNT tiles, that follow FIRST owners' full shares of them. */
static sg_area places_at(const hops *h, int at, int64_t first, int64_t count)
{
    return sg_area_tiled(at, h->inbox, first * h->most, count, h->tile_m, h->tile_n);
}

/* ---- Owners of columns ----------------------------------------------------------------------- */

/* Appends a patch of Q's columns, with its product or without.  False: it has none. */
static bool open_patch(hops *h, int q, bool product, bool final)
{
    const sg_problem *const p = h->sched->problem;
    const sg_piece all = {.rows = (int32_t)p->m};
    h->col0 = (int32_t)(h->cols * q / p->ranks * h->tile_n);
    h->end = (int32_t)sg_min(p->n, h->cols * (q + 1) / p->ranks * h->tile_n);
    if (h->col0 >= h->end || p->m == 0) return false;
    sg_patch patch = sg_moves_patch(h->sched, &all, final);
    sg_moves_cut_cols(&patch, h->col0, h->end - h->col0);
    if (!product) patch.k1 = patch.k0;
    sg_sched_patch(h->sched, &patch);
    return true;
}

/* Of Q's tiles, the places at rank AT that follow FIRST owners' full shares of them. */
static sg_area places_of(const hops *h, int at, int q, int64_t first)
{
    const int64_t ranks = h->sched->problem->ranks;
    const int64_t cols = h->cols * (q + 1) / ranks - h->cols * q / ranks;
    return places_at(h, at, first, h->bands * cols);
}

static void store_c(const hops *h)
{
    sg_sched *const s = h->sched;
    sg_sched_to(s, sg_area_of(s->rank, SG_C, 0, s->problem->m, h->col0, h->end - h->col0));
}

/* The own columns: what all have sent, in rank order, to everybody and into C. */
static void sum_own(hops *h, int32_t flag1)
{
    sg_sched *const s = h->sched;
    const int ranks = s->problem->ranks;
    if (!open_patch(h, s->rank, false, true)) return;
    for (int from = 0; from < ranks; from++) {
        const sg_wait wait = sg_wait_tile(from, 0);
        sg_sched_add(s, places_of(h, s->rank, s->rank, from), &wait);
    }
    for (int i = 1; i < ranks; i++) {
        const int at = (s->rank + i) % ranks;
        sg_sched_to(s, places_of(h, at, s->rank, ranks + s->rank));
        sg_sched_raise(s, at, SG_PER_TILE, flag1);
    }
    store_c(h);
}

void sg_moves_two_hops(sg_sched *s, int32_t tile_m, int32_t tile_n)
{
    const sg_problem *const p = s->problem;
    hops h = hops_of(s, tile_m, tile_n);
    open_launch(&h, h.bands * sg_ceil_div(h.cols, p->ranks), 2 * (int64_t)p->ranks);
    const int32_t flag1 = (int32_t)sg_min(h.most, SG_MAX_VISITS); /* of the second hop */
    for (int i = 1; i <= p->ranks; i++) {
        const int q = (s->rank + i) % p->ranks;
        if (!open_patch(&h, q, true, false)) continue;
        sg_sched_to(s, places_of(&h, q, q, s->rank));
        sg_sched_raise(s, q, SG_PER_TILE, 0);
    }
    sum_own(&h, flag1);
    for (int i = 1; i < p->ranks; i++) {
        const int q = (s->rank + i) % p->ranks;
        const sg_wait wait = sg_wait_tile(q, flag1);
        if (!open_patch(&h, q, false, false)) continue;
        sg_sched_add(s, places_of(&h, s->rank, q, p->ranks + q), &wait);
        store_c(&h);
    }
}

/* ---- Owners of rows -------------------------------------------------------------------------- */

bool sg_moves_owns_runs(const sg_problem *p)
{
    bool runs = true;
    for (int q = 0; q < p->ranks; q++)
        runs &= p->share[q].rows == 0 || p->segments[p->share[q].first].next < 0;
    return runs;
}

/* Q's rows.  False: it has none. */
static bool rows_of(const hops *h, int q, sg_piece *piece_out)
{
    const sg_problem *const p = h->sched->problem;
    sg_pieces it = sg_pieces_of(p, h->sched->rank, q, 0, p->share[q].rows);
    return p->n > 0 && sg_piece_next(&it, piece_out);
}

static sg_area places_of_rows(const hops *h, int at, const sg_piece *piece, int from)
{
    return places_at(h, at, from, sg_ceil_div(piece->rows, h->tile_m) * h->cols);
}

void sg_moves_tagged_scatter(sg_sched *s, int32_t tile_m, int32_t tile_n)
{
    const sg_problem *const p = s->problem;
    hops h = hops_of(s, tile_m, tile_n);
    sg_piece piece;
    open_launch(&h, sg_ceil_div(p->most_rows, tile_m) * h.cols, p->ranks);
    for (int i = 1; i <= p->ranks; i++) {
        const int q = (s->rank + i) % p->ranks;
        if (!rows_of(&h, q, &piece)) continue;
        const sg_patch product = sg_moves_patch(s, &piece, false);
        sg_sched_patch(s, &product);
        sg_sched_to(s, places_of_rows(&h, q, &piece, s->rank));
        sg_sched_raise(s, q, SG_PER_TILE, 0);
    }
    if (!rows_of(&h, s->rank, &piece)) return;
    sg_patch sum = sg_moves_patch(s, &piece, true);
    sum.k1 = sum.k0;
    sg_sched_patch(s, &sum);
    for (int from = 0; from < p->ranks; from++) {
        const sg_wait wait = sg_wait_tile(from, 0);
        sg_sched_add(s, places_of_rows(&h, s->rank, &piece, from), &wait);
    }
    sg_sched_to(s, sg_area_of(s->rank, SG_C, piece.own_row, piece.rows, 0, p->n));
}

/* ---- Gather ---------------------------------------------------------------------------------- */

enum { SENDS, TAKES }; /* lanes behind that of the launch */

/* AREA's part of k from K0 on. */
static sg_area slab_of(const sg_problem *p, sg_area area, int32_t k0, int32_t slab)
{
    area.col0 += k0;
    area.cols = (int32_t)sg_min(slab, p->k - k0);
    return area;
}

/* Appends a push of SRC into the own matrix, which tells of the part of k INDEX. */
static void take(sg_sched *s, sg_area src, sg_area into, const sg_wait *wait, int32_t index)
{
    sg_sched_copy(s, 1 + TAKES, SG_BY_LAUNCH, src);
    if (wait != NULL) sg_sched_wait(s, *wait);
    sg_sched_to(s, into);
    sg_sched_raise(s, s->rank, SG_PER_PATCH, index);
}

void sg_moves_tagged_gather(sg_sched *s, int slabs, bool copied, sg_arrival *arrival,
                            sg_gathering *gathering_out)
{
    const sg_problem *const p = s->problem;
    const int inbox = sg_sched_buf(s, SG_REST, "inbox", p->m, p->k, SG_TAGGED);
    const int gathered = sg_moves_gathered(s, SG_LOCAL, 0);
    const int32_t chunk_k = sg_chunk_k(p->k, slabs);
    const int32_t slab = (int32_t)(chunk_k > 0 ? chunk_k : p->k);
    const sg_area own = sg_moves_held(s, s->rank);
    for (int32_t k0 = 0, index = 0; k0 < p->k; k0 += slab, index++)
        for (int i = 1; i < p->ranks; i++) {
            const int to = (s->rank + i) % p->ranks;
            if (i == 1 || sg_problem_in(p) == SG_IN_EXCHANGE) /* the same rows share a copy */
                sg_sched_copy(s, 1 + SENDS, SG_BY_LAUNCH,
                              slab_of(p, sg_moves_held(s, to), k0, slab));
            sg_sched_to(s, slab_of(p, sg_moves_arrived(s, to, s->rank, inbox), k0, slab));
            sg_sched_raise(s, to, SG_PER_PATCH, index);
        }
    for (int32_t k0 = 0, index = 0; k0 < p->k; k0 += slab, index++)
        for (int i = copied ? 0 : 1; i < p->ranks; i++) {
            const int from = (s->rank + i) % p->ranks;
            const sg_wait wait = sg_wait_one(from, index);
            const sg_area come = i > 0 ? sg_moves_arrived(s, s->rank, from, inbox) : own;
            take(s, slab_of(p, come, k0, slab),
                 slab_of(p, sg_moves_arrived(s, s->rank, from, gathered), k0, slab),
                 i > 0 ? &wait : NULL, index);
        }
    for (int i = 0; i < p->ranks; i++)
        arrival[i] = (sg_arrival){.by = (int16_t)s->rank, .chunk = 1, .chunk_k = chunk_k};
    *gathering_out = (sg_gathering){
        .gathered = gathered, .arrival = arrival, .together = true, .copied = copied};
}
