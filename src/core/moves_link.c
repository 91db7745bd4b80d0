/* moves_link.c -- what patches along k make of their sums; see moves_link.h.
 *
 * Few of them in one launch leave a sum each, in a place for each tile, and the last one adds them
 * all: so kernels hand sums from patch to patch.  Many, those of several launches and those of the
 * vendor, who has no tiles, are a chain, in which each adds to the sum of those before.  The order
 * of the sum is the same. */
#include "core/moves_link.h"

enum { MOST_APART = 4 };

/* First flag of a link's tiles.  Too many to count are too many to have memory for. */
static int32_t link_flag(int32_t link, int64_t tiles)
{
    return (int32_t)sg_min(link * tiles, SG_MAX_VISITS);
}

/* Patches along k that there will be, counted up to one more than MOST_APART. */
static int32_t count_links(const sg_sched *s, const sg_gathering *g)
{
    const sg_problem *const p = s->problem;
    int32_t links = 0;
    for (int q = 0; q < p->ranks; q++) {
        const sg_part part = sg_problem_part(p, s->rank, q);
        const int64_t chunk = q == s->rank ? sg_max(part.rows, 1) : g->arrival[q].chunk;
        for (int64_t x = 0; x < part.rows && links <= MOST_APART; x += chunk) {
            sg_piece piece;
            for (sg_pieces it = sg_pieces_of(p, s->rank, q, x, sg_min(x + chunk, part.rows));
                 links <= MOST_APART && sg_piece_next(&it, &piece);)
                links++;
        }
    }
    return links;
}

bool sg_moves_apart(const sg_sched *s, const sg_gathering *g)
{
    if (s->status != SHINGLE_OK || g->vendor || s->open_step < 0) return false;
    return !s->step[s->open_step].u.launch.vendor && count_links(s, g) <= MOST_APART;
}

/* Where the sum of link LINK is; SUM: the first one's. */
static sg_area place_of(const sg_area *sum, int32_t link)
{
    sg_area of = *sum;
    if (sum->tiled) of.row0 = (int32_t)sg_min((int64_t)link * sum->rows, SG_MAX_EXTENT);
    return of;
}

static void add_links(sg_sched *s, sg_area sum, int64_t tiles, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; i++) {
        const sg_area of = place_of(&sum, i);
        sg_wait wait = sg_wait_one(s->rank, link_flag(i, tiles));
        wait.per = SG_PER_TILE;
        sg_sched_add(s, of, &wait);
    }
}

void sg_moves_link(sg_sched *s, const sg_patch *patch, sg_gathering *g, bool apart)
{
    const sg_problem *const p = s->problem;
    const bool last = g->depth + patch->k1 - patch->k0 == p->k;
    sg_tiling tiling = {patch->rows, patch->cols, 0};
    int64_t tiles = 0;
    if (s->status == SHINGLE_OK && s->open_step >= 0) {
        const sg_launch *const launch = &s->step[s->open_step].u.launch;
        tiles = sg_walk_tiles(patch, launch->tile_m, launch->tile_n);
        if (apart) tiling = (sg_tiling){launch->tile_m, launch->tile_n, 0};
    }
    const int64_t rows = apart ? tiles * tiling.tile_m : patch->rows;
    const int64_t places = apart ? count_links(s, g) - 1 : 1;
    if (g->links == 0 && !last)
        g->sum = sg_sched_buf(s, SG_LOCAL, "sum", places * rows, tiling.tile_n, SG_WIDE);
    sg_area sum = sg_area_of(s->rank, g->sum, 0, rows, 0, tiling.tile_n);
    sum.tiled = apart;
    if (g->links > 0 && (last || !apart))
        add_links(s, sum, tiles, apart ? 0 : g->links - 1, g->links);
    if (last) {
        sg_moves_store(
            s, sg_area_of(s->rank, SG_C, patch->row0, patch->rows, patch->col0, patch->cols));
    } else {
        sg_sched_to(s, place_of(&sum, g->links));
        sg_sched_raise(s, s->rank, SG_PER_TILE, link_flag(g->links, tiles));
    }
    g->links++;
    g->depth += patch->k1 - patch->k0;
}
