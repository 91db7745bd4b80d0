/* split_once.c -- an all-reduce in which every tile goes to all ranks: see split.h. */
#include "core/split.h"

typedef struct once {
    sg_sched *sched;
    sg_split_k split;
    int slices, lag;
    bool tagged;
    sg_inboxes inbox; /* tagged: the buffer alone */
} once;

/* Slice C of all rows. */
static sg_piece slice_of(const once *o, int c)
{
    return sg_slice_of_all(o->sched->problem, c, o->slices, o->split.tiling.tile_m);
}

static int32_t tiles_of(const once *o, const sg_piece *piece)
{
    const sg_tiling tiling = {o->split.tiling.tile_m, o->split.tiling.tile_n, 0};
    return sg_piece_tiles(o->sched, piece, &tiling);
}

/* Tiles of all slices before C. */
static int32_t tiles_before(const once *o, int c)
{
    int64_t tiles = 0;
    for (int i = 0; i < c; i++) {
        const sg_piece piece = slice_of(o, i);
        tiles += tiles_of(o, &piece);
    }
    return (int32_t)sg_min(tiles, SG_MAX_VISITS);
}

/* Where the product of rank FROM arrives at AT. */
static sg_area inbox_of(const once *o, int at, int from, const sg_piece *piece)
{
    const sg_tiling *const tiling = &o->split.tiling;
    const int64_t tiles = tiles_of(o, piece);
    return o->tagged
               ? sg_area_tiled(at, o->inbox.buf, from * tiles, tiles, tiling->tile_m,
                               tiling->tile_n)
               : sg_moves_inbox(o->sched, &o->inbox, at, from, piece, 0, o->sched->problem->n);
}

/* The product of slice C to everybody, with tile flags from FLAG0 on. */
static void send(once *o, int c, int32_t flag0)
{
    const sg_piece piece = slice_of(o, c);
    sg_sched *const s = o->sched;
    if (piece.rows == 0) return;
    sg_split_patch(s, &o->split, &piece, 0, false);
    sg_split_add(s, &o->split);
    for (int i = 1; i <= s->problem->ranks; i++) {
        const int at = (s->rank + i) % s->problem->ranks;
        sg_sched_to(s, inbox_of(o, at, s->rank, &piece));
        sg_sched_raise(s, at, SG_PER_TILE, flag0);
    }
}

/* The sum of slice C over all ranks, in their order. */
static void add(once *o, int c, int32_t flag0)
{
    const sg_piece piece = slice_of(o, c);
    sg_sched *const s = o->sched;
    sg_patch patch = sg_moves_patch(s, &piece, true);
    patch.k1 = patch.k0;
    sg_sched_patch(s, &patch);
    for (int from = 0; from < s->problem->ranks; from++) {
        const sg_wait wait = sg_wait_tile(from, flag0);
        sg_sched_add(s, inbox_of(o, s->rank, from, &piece), &wait);
    }
    sg_sched_to(s, sg_area_of(s->rank, SG_C, piece.row0, piece.rows, 0, s->problem->n));
}

static void declare_inboxes(once *o)
{
    const sg_tiling *const tiling = &o->split.tiling;
    const sg_piece all = slice_of(o, 0);
    const int64_t places = (int64_t)o->sched->problem->ranks * tiles_of(o, &all);
    if (o->tagged)
        o->inbox.buf = sg_sched_buf(o->sched, SG_REST, "inbox", places * tiling->tile_m,
                                    tiling->tile_n, SG_TAGGED);
    else
        o->inbox = sg_moves_inboxes(o->sched, tiling);
}

void sg_split_once(sg_sched *s, sg_tiling tiling, int splits, int slices, int lag, bool tagged)
{
    once o = {.sched = s, .slices = slices, .lag = lag, .tagged = tagged};
    o.split.tiling = tiling;
    o.split = sg_split_begin(s, splits, tiling, tiles_before(&o, slices));
    declare_inboxes(&o);
    sg_sched_launch(s, 0, tiling.tile_m, tiling.tile_n, 0, false);
    for (int c = 0; c < slices + lag; c++) {
        if (c < slices) send(&o, c, tiles_before(&o, c));
        if (c >= lag) add(&o, c - lag, tiles_before(&o, c - lag));
    }
}
