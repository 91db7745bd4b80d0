/* moves_pieces.c -- pieces, chunks and slices: how rows are counted and cut; see moves.h. */
#include "core/moves.h"

enum { CHUNK_K_MULTIPLE = 64 };

sg_pieces sg_pieces_of(const sg_problem *p, int rank, int owner, int64_t x0, int64_t x1)
{
    const sg_part part = sg_problem_part(p, rank, owner);
    const bool exchange =
        sg_problem_in(p) == SG_IN_EXCHANGE || sg_problem_out(p) == SG_OUT_EXCHANGE;
    return (sg_pieces){.problem = p,
                       .owner = owner,
                       .segment = exchange ? -1 : p->share[owner].first,
                       .x = x0,
                       .end = sg_min(x1, part.rows),
                       .base = exchange ? part.base : -1};
}

static bool next_run(sg_pieces *it, sg_piece *piece_out)
{
    if (it->x >= it->end) return false;
    *piece_out = (sg_piece){.owner = it->owner,
                            .row0 = (int32_t)(it->base + it->x),
                            .rows = (int32_t)(it->end - it->x),
                            .own_row = (int32_t)it->x};
    it->x = it->end;
    return true;
}

bool sg_piece_next(sg_pieces *it, sg_piece *piece_out)
{
    if (it->base >= 0) return next_run(it, piece_out);
    while (it->segment >= 0 && it->x < it->end) {
        const sg_segment *const segment = &it->problem->segments[it->segment];
        const int64_t behind = segment->own_row + segment->rows;
        if (behind <= it->x) {
            it->segment = segment->next;
            continue;
        }
        const int64_t rows = sg_min(behind, it->end) - it->x;
        *piece_out = (sg_piece){.owner = segment->owner,
                                .row0 = (int32_t)(segment->row0 + it->x - segment->own_row),
                                .rows = (int32_t)rows,
                                .own_row = (int32_t)it->x};
        it->x += rows;
        return true;
    }
    return false;
}

int32_t sg_chunk_rows(int64_t rows, int chunks, int32_t tile_m)
{
    const int64_t plain = sg_max(1, sg_ceil_div(rows, chunks));
    const int64_t tiled = sg_round_up(plain, tile_m);
    const bool fits = tiled <= SG_MAX_EXTENT; /* rows of schedules have 32 bits */
    return (int32_t)(fits && sg_ceil_div(rows, tiled) == sg_ceil_div(rows, plain) ? tiled : plain);
}

int32_t sg_slice_rows(const sg_problem *problem, int rank, int owner, int slice, int slices,
                      int32_t tile_m, int32_t *x0_out)
{
    const int64_t rows = sg_problem_part(problem, rank, owner).rows;
    if (slice >= rows) {
        /* A slice has a row at least: spares the divisions where there are many of nothing. */
        *x0_out = (int32_t)rows;
        return 0;
    }
    const int64_t height = sg_chunk_rows(rows, slices, tile_m);
    const int64_t x0 = sg_min(rows, slice * height);
    *x0_out = (int32_t)x0;
    return (int32_t)(sg_min(rows, x0 + height) - x0);
}

sg_piece sg_slice_of_all(const sg_problem *problem, int slice, int slices, int32_t tile_m)
{
    const int64_t m = problem->m;
    const int64_t height = sg_chunk_rows(m, slices, tile_m);
    const int64_t row0 = sg_min(m, slice * height);
    return (sg_piece){.row0 = (int32_t)row0, .rows = (int32_t)(sg_min(m, row0 + height) - row0)};
}

bool sg_is_packed(const sg_problem *problem)
{
    int64_t row = 0;
    for (int r = 0; r < problem->ranks; r++) {
        const sg_share *const share = &problem->share[r];
        if (share->rows == 0) continue;
        const sg_segment *const first = &problem->segments[share->first];
        if (first->row0 != row || first->rows != share->rows) return false;
        row += share->rows;
    }
    return true;
}

int32_t sg_tile_along(const sg_problem *problem, int32_t tile_m, int32_t tile_n)
{
    if (problem->gather == SG_GATHER_K) return CHUNK_K_MULTIPLE;
    return problem->gather == SG_GATHER_B ? tile_n : tile_m;
}

sg_inboxes sg_moves_inboxes(sg_sched *s, const sg_tiling *tiling)
{
    const sg_problem *const p = s->problem;
    const bool beside = p->m % tiling->tile_m != 0 && p->n % tiling->tile_n == 0 &&
                        p->n * p->ranks <= SG_MAX_EXTENT;
    const int64_t down = beside ? 1 : p->ranks;
    const int64_t over = beside ? p->ranks : 1;
    return (sg_inboxes){.buf = sg_sched_buf(s, SG_SYM, "inbox", down * p->m, over * p->n, 0),
                        .beside = beside};
}

sg_area sg_moves_inbox(const sg_sched *s, const sg_inboxes *inboxes, int at, int from,
                       const sg_piece *piece, int64_t col0, int64_t cols)
{
    const sg_problem *const p = s->problem;
    const int64_t down = inboxes->beside ? 0 : from * p->m;
    const int64_t over = inboxes->beside ? from * p->n : 0;
    return sg_area_of(at, inboxes->buf, down + piece->row0, piece->rows, over + col0, cols);
}

int32_t sg_chunk_k(int64_t k, int slabs)
{
    if (slabs <= 1 || k <= 1) return 0;
    const int64_t plain = sg_ceil_div(k, slabs);
    const int64_t even = sg_round_up(plain, CHUNK_K_MULTIPLE);
    return (int32_t)(even < k ? even : plain);
}

int32_t sg_piece_tiles(const sg_sched *s, const sg_piece *piece, const sg_tiling *tiling)
{
    if (s->status != SHINGLE_OK)
        return 0; /* perhaps of so many tiles that they cannot be counted */
    const int64_t tiles =
        sg_ceil_div(piece->rows, tiling->tile_m) * sg_ceil_div(s->problem->n, tiling->tile_n);
    return (int32_t)sg_min(tiles, SG_MAX_VISITS);
}
