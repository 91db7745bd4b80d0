/* split.c -- see split.h. */
#include "core/split.h"

enum { LEAST_K = 512, MOST_PARTS = 8 };

sg_split_k sg_split_begin(sg_sched *s, int splits, int32_t flag0)
{
    const sg_problem *const p = s->problem;
    sg_split_k split = {.parts = 1, .flag = flag0};
    if (!p->call) split.chunk_k = sg_chunk_k(p->k, splits); /* a call takes all of k */
    if (split.chunk_k > 0) split.parts = (int32_t)sg_ceil_div(p->k, split.chunk_k);
    if (split.parts > 1)
        split.buf = sg_sched_buf(s, SG_LOCAL, "parts",
                                 (split.parts - 1) * sg_problem_rows(p, s->rank), p->n, SG_WIDE);
    return split;
}

/* Where part I of the piece at hand leaves its sum. */
static sg_area part_area(const sg_sched *s, const sg_split_k *split, int32_t i)
{
    const int64_t row = i * sg_problem_rows(s->problem, s->rank) + split->piece.row0;
    return sg_area_of(s->rank, split->buf, row, split->piece.rows, 0, s->problem->n);
}

/* Too many to count are too many to have memory for. */
static int32_t part_flag(const sg_split_k *split, int32_t i)
{
    return (int32_t)sg_min(split->first + i * split->tiles, SG_MAX_VISITS);
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

void sg_split_patch(sg_sched *s, sg_split_k *split, const sg_piece *piece, int own_at, bool final)
{
    split->piece = *piece;
    split->first = split->flag;
    split->tiles = 0;
    if (s->status == SHINGLE_OK && s->open_step >= 0 && piece->rows > 0) {
        const sg_launch *const launch = &s->step[s->open_step].u.launch;
        const sg_tiling tiling = {launch->tile_m, launch->tile_n, 0};
        split->tiles = sg_piece_tiles(s, piece, &tiling);
    }
    for (int32_t i = 0; i < split->parts; i++) {
        const bool last = i == split->parts - 1;
        sg_patch patch = sg_moves_patch(s, piece, last && final);
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
        sg_wait wait = sg_wait_one(s->rank, part_flag(split, i));
        wait.per = SG_PER_TILE;
        sg_sched_add(s, part_area(s, split, i), &wait);
    }
}

int sg_split_parts(int64_t tiles, int64_t k, int sms)
{
    const int64_t most = sg_min(MOST_PARTS, k / LEAST_K);
    return (int)sg_max(1, sg_min(most, tiles > 0 ? sms / tiles : 1));
}
