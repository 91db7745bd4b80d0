/* split.c -- see split.h. */
#include "core/split.h"

enum { LEAST_K = 512, MOST_PARTS = 8 };

/* Are most tiles full?  Places for rows that are not there would take memory for nothing. */
static bool fills_tiles(const sg_problem *p, const sg_tiling *tiling)
{
    int64_t rows = 0;
    for (int32_t i = 0; i < p->segment_count; i++)
        rows += sg_round_up(p->segments[i].rows, tiling->tile_m);
    return rows <= 4 * (p->m + (int64_t)p->ranks * tiling->tile_m);
}

sg_split_k sg_split_begin(sg_sched *s, int splits, sg_tiling tiling, int32_t flag0)
{
    const sg_problem *const p = s->problem;
    sg_split_k split = {.parts = 1, .tiling = tiling, .flag0 = flag0, .flag = flag0};
    /* A call takes all of k. */
    if (!p->call && fills_tiles(p, &tiling)) split.chunk_k = sg_chunk_k(p->k, splits);
    if (split.chunk_k > 0) split.parts = (int32_t)sg_ceil_div(p->k, split.chunk_k);
    if (split.parts > 1) split.buf = sg_sched_buf(s, SG_LOCAL, "parts", 0, tiling.tile_n, SG_WIDE);
    return split;
}

/* Too many to count are too many to have memory for. */
static int32_t part_flag(const sg_split_k *split, int32_t i)
{
    return (int32_t)sg_min(split->first + (int64_t)i * split->tiles, SG_MAX_VISITS);
}

/* Where part I of the piece at hand leaves its sum. */
static sg_area part_area(const sg_sched *s, const sg_split_k *split, int32_t i)
{
    return sg_area_tiled(s->rank, split->buf, part_flag(split, i) - split->flag0, split->tiles,
                         split->tiling.tile_m, split->tiling.tile_n);
}

/* The buffer grows by the places of the piece at hand. */
static void grow(sg_sched *s, const sg_split_k *split)
{
    const int64_t places = part_flag(split, split->parts - 1) - split->flag0;
    const int64_t rows = places * split->tiling.tile_m;
    if (split->parts == 1 || s->status != SHINGLE_OK) return;
    if (rows <= SG_MAX_EXTENT)
        s->buf[split->buf].rows = rows;
    else /* says so */
        sg_sched_buf(s, SG_LOCAL, "parts", rows, split->tiling.tile_n, SG_WIDE);
}

/* Leaves of PATCH part I of k. */
static void cut_part(const sg_problem *p, const sg_split_k *split, int32_t i, sg_patch *patch)
{
    if (split->parts == 1) return;
    patch->k0 = i * split->chunk_k;
    patch->k1 = (int32_t)sg_min(p->k, (int64_t)patch->k0 + split->chunk_k);
    patch->a.col0 += patch->k0;
    patch->b.col0 += patch->k0;
    patch->a.cols = patch->b.cols = patch->k1 - patch->k0;
}

int32_t sg_split_tiles(const sg_sched *s, const sg_split_k *split, const sg_piece *piece)
{
    if (split->cols == 0) return sg_piece_tiles(s, piece, &split->tiling);
    if (s->status != SHINGLE_OK) return 0; /* perhaps of so many that they cannot be counted */
    const int64_t tiles = sg_ceil_div(piece->rows, split->tiling.tile_m) *
                          sg_ceil_div(split->cols, split->tiling.tile_n);
    return (int32_t)sg_min(tiles, SG_MAX_VISITS);
}

void sg_split_patch(sg_sched *s, sg_split_k *split, const sg_piece *piece, int own_at, bool final)
{
    split->piece = *piece;
    split->first = split->flag;
    split->tiles = sg_split_tiles(s, split, piece);
    grow(s, split);
    for (int32_t i = 0; i < split->parts; i++) {
        const bool last = i == split->parts - 1;
        sg_patch patch = sg_moves_patch(s, piece, last && final);
        if (split->cols > 0) sg_moves_cut_cols(&patch, split->col0, split->cols);
        cut_part(s->problem, split, i, &patch);
        if (last) patch.own_at = (uint16_t)(own_at + i);
        patch.own_rounded = final && split->parts == 1 && sg_problem_sums(s->problem);
        sg_sched_patch(s, &patch);
        if (last) break;
        sg_sched_to(s, part_area(s, split, i));
        sg_sched_raise(s, s->rank, SG_PER_TILE, part_flag(split, i));
    }
    split->flag = part_flag(split, split->parts - 1);
}

void sg_split_add(sg_sched *s, const sg_split_k *split)
{
    for (int32_t i = 0; i < split->parts - 1; i++) {
        const sg_wait wait = sg_wait_tile(s->rank, part_flag(split, i));
        sg_sched_add(s, part_area(s, split, i), &wait);
    }
}

int sg_split_parts(int64_t tiles, int64_t k, int sms)
{
    const int64_t most = sg_min(MOST_PARTS, k / LEAST_K);
    return (int)sg_max(1, sg_min(most, tiles > 0 ? sms / tiles : 1));
}
