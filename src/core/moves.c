/* moves.c -- see moves.h. */
#include "core/moves.h"

enum { GROUP_BANDS = 8, CHUNK_K_MULTIPLE = 64 };

/* ---- Pieces and chunks ---------------------------------------------------------------------------- */

sg_pieces sg_pieces_of(const sg_problem *problem, int owner, int64_t x0, int64_t x1)
{
    return (sg_pieces){.problem = problem,
                       .segment = problem->share[owner].first,
                       .x = x0,
                       .end = sg_min(x1, problem->share[owner].rows)};
}

bool sg_piece_next(sg_pieces *it, sg_piece *piece_out)
{
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
    return (int32_t)(sg_ceil_div(rows, tiled) == sg_ceil_div(rows, plain) ? tiled : plain);
}

int32_t sg_slice_rows(const sg_problem *problem, int owner, int slice, int slices, int32_t tile_m,
                      int32_t *x0_out)
{
    const int64_t rows = problem->share[owner].rows;
    const int64_t height = sg_chunk_rows(rows, slices, tile_m);
    const int64_t x0 = sg_min(rows, slice * height);
    *x0_out = (int32_t)x0;
    return (int32_t)(sg_min(rows, x0 + height) - x0);
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
    return sg_walk_div(piece->rows, tiling->tile_m) *
           sg_walk_div((int32_t)s->problem->n, tiling->tile_n);
}

/* ---- Gather ----------------------------------------------------------------------------------------- */

static int32_t chunks_of_k(const sg_problem *p, int32_t chunk_k)
{
    return chunk_k > 0 ? (int32_t)sg_ceil_div(p->k, chunk_k) : 1;
}

void sg_moves_send(sg_sched *s, int lane, int owner, sg_area src, int peer, int gathered,
                   int32_t chunk, int32_t chunk_k, const sg_arrival *held, int32_t flag0)
{
    const sg_problem *const p = s->problem;
    const int64_t rows = p->share[owner].rows;
    const int64_t base = p->share[owner].base;
    const int32_t slabs = chunks_of_k(p, chunk_k);
    for (int64_t x = 0, c = 0; x < rows; x += chunk, c++) {
        const int64_t height = sg_min(chunk, rows - x);
        for (int32_t i = 0; i < slabs; i++) {
            const int64_t k0 = (int64_t)i * chunk_k;
            const int64_t width = chunk_k > 0 ? sg_min(chunk_k, p->k - k0) : p->k;
            const int32_t flag = (int32_t)(c * slabs + i);
            sg_sched_copy(s, lane, SG_BY_ENGINE,
                          sg_area_of(src.rank, src.buf, src.row0 + x, height, k0, width));
            if (held != NULL) sg_sched_wait(s, sg_wait_one(held->by, held->flag0 + flag));
            sg_sched_to(s, sg_area_of(peer, gathered, base + x, height, k0, width));
            sg_sched_raise(s, peer, SG_PER_PATCH, flag0 + flag);
        }
    }
}

/* Product rows that become one patch: neighbours in the product and in A's buffer. */
typedef struct row_run {
    int32_t row0, rows;
    int32_t a_row0;
    int32_t pieces;
} row_run;

/* The wait for the chunks that PIECE is made of. */
static sg_wait piece_wait(const sg_problem *p, const sg_piece *piece, const sg_arrival *arrival)
{
    const int32_t slabs = chunks_of_k(p, arrival->chunk_k);
    const int32_t into = piece->own_row % arrival->chunk;
    return (sg_wait){.by = arrival->by,
                     .per = SG_PER_ROWS,
                     .flag0 = arrival->flag0 + piece->own_row / arrival->chunk * slabs,
                     .row0 = piece->row0 - into,
                     .rows = piece->rows + into,
                     .chunk = arrival->chunk,
                     .chunk_k = arrival->chunk_k,
                     .chunks_k = slabs};
}

/* A patch of all columns and all of k for the rows of RUN, with A in buffer A_BUF. */
static sg_patch patch_of(const sg_sched *s, const row_run *run, int a_buf, bool final)
{
    const sg_problem *const p = s->problem;
    return (sg_patch){
        .row0 = run->row0,
        .rows = run->rows,
        .col0 = 0,
        .cols = (int32_t)p->n,
        .k0 = 0,
        .k1 = (int32_t)p->k,
        .raster = SG_GROUPED,
        .width = GROUP_BANDS,
        .final = final,
        .a = sg_area_of(s->rank, a_buf, run->a_row0, run->rows, 0, p->k),
        .b = sg_area_of(s->rank, SG_B, 0, p->n, 0, p->k),
    };
}

static void emit_gathered(sg_sched *s, const row_run *run, const sg_piece *pieces, int gathered,
                          const sg_arrival *arrival_of_owner)
{
    const sg_problem *const p = s->problem;
    if (run->rows == 0 || s->open_step < 0) return;
    const bool own = pieces[0].owner == s->rank;
    sg_patch patch = patch_of(s, run, own ? SG_A : gathered, true);
    /* A group of bands that reaches over an owner's border waits for two owners before it has
     * finished the first one's columns: no group is higher than the smallest piece. */
    const int32_t tile_m = s->step[s->open_step].u.launch.tile_m;
    for (int32_t i = 0; i < run->pieces; i++) {
        const int32_t bands = sg_walk_div(pieces[i].rows, tile_m);
        if (bands < patch.width) patch.width = (uint8_t)bands;
    }
    if (!own) patch.slab = arrival_of_owner[pieces[0].owner].chunk_k;
    sg_sched_patch(s, &patch);
    for (int32_t i = 0; i < run->pieces && !own && p->k > 0; i++)
        sg_sched_wait(s, piece_wait(p, &pieces[i], &arrival_of_owner[pieces[i].owner]));
    sg_sched_to(s, sg_area_of(s->rank, SG_C, run->row0, run->rows, 0, p->n));
}

void sg_moves_gather_patches(sg_sched *s, const int *order, int count, int gathered,
                             const sg_arrival *arrival_of_owner)
{
    enum { LIST = 64 }; /* pieces of one patch; a longer run makes a second patch */
    const sg_problem *const p = s->problem;
    sg_piece pieces[LIST];
    row_run run = {0};
    for (int i = 0; i < count; i++) {
        const bool own = order[i] == s->rank;
        const int32_t base = own ? 0 : (int32_t)p->share[order[i]].base;
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, order[i], 0, p->m); sg_piece_next(&it, &piece);) {
            const bool joins = run.rows > 0 && (pieces[0].owner == s->rank) == own &&
                               run.pieces < LIST && piece.row0 == run.row0 + run.rows &&
                               piece.own_row + base == run.a_row0 + run.rows;
            if (!joins) {
                emit_gathered(s, &run, pieces, gathered, arrival_of_owner);
                run = (row_run){.row0 = piece.row0, .a_row0 = piece.own_row + base};
            }
            pieces[run.pieces++] = piece;
            run.rows += piece.rows;
        }
    }
    emit_gathered(s, &run, pieces, gathered, arrival_of_owner);
}

/* ---- Slices ------------------------------------------------------------------------------------------ */

/* Emits RUN, whose rows start at PACKED_ROW0 of the packed buffers. */
static void emit_slice(sg_sched *s, row_run run, int64_t packed_row0, int packed_a, int packed_to,
                       bool final)
{
    if (run.rows == 0) return;
    run.a_row0 = packed_a < 0 ? run.row0 : (int32_t)packed_row0;
    const sg_patch patch = patch_of(s, &run, packed_a < 0 ? SG_A : packed_a, final);
    sg_sched_patch(s, &patch);
    const int64_t n = s->problem->n;
    sg_sched_to(s, packed_to < 0 ? sg_area_of(s->rank, SG_C, run.row0, run.rows, 0, n)
                                 : sg_area_of(s->rank, packed_to, packed_row0, run.rows, 0, n));
}

int64_t sg_moves_slice_patches(sg_sched *s, int slice, int slices, int32_t tile_m, int64_t base,
                               int packed_a, int packed_to, bool final)
{
    const sg_problem *const p = s->problem;
    row_run run = {0};
    int64_t row = base; /* in the packed buffers */
    for (int q = 0; q < p->ranks; q++) {
        int32_t x0 = 0;
        const int32_t rows = sg_slice_rows(p, q, slice, slices, tile_m, &x0);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, q, x0, x0 + rows); sg_piece_next(&it, &piece);) {
            if (run.rows == 0 || piece.row0 != run.row0 + run.rows) {
                emit_slice(s, run, row - run.rows, packed_a, packed_to, final);
                run = (row_run){.row0 = piece.row0};
            }
            run.rows += piece.rows;
            row += piece.rows;
        }
    }
    emit_slice(s, run, row - run.rows, packed_a, packed_to, final);
    return row - base;
}

/* ---- Scatter ---------------------------------------------------------------------------------------- */

void sg_moves_scatter_patch(sg_sched *s, const sg_piece *piece, int own_at, bool final)
{
    const row_run run = {.row0 = piece->row0, .rows = piece->rows, .a_row0 = piece->row0};
    sg_patch patch = patch_of(s, &run, SG_A, final);
    patch.own_at = (uint16_t)own_at;
    sg_sched_patch(s, &patch);
}
