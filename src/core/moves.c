/* moves.c -- see moves.h. */
#include "core/moves.h"
#include "core/moves_link.h"

enum { WAVE_TILES = 128 };

/* ---- Where rows lie -------------------------------------------------------------------------- */

uint8_t sg_moves_gathered(sg_sched *s, sg_arena_kind arena, unsigned traits)
{
    const sg_problem *const p = s->problem;
    return sg_sched_buf(s, arena, "gathered", p->gather == SG_GATHER_B ? p->n : p->m, p->k, traits);
}

/* ROWS rows of what moves, from ROW on, in a buffer of RANK. */
static sg_area moved(const sg_problem *p, int rank, int buf, int64_t row, int64_t rows)
{
    return p->gather == SG_GATHER_K ? sg_area_of(rank, buf, 0, p->m, row, rows)
                                    : sg_area_of(rank, buf, row, rows, 0, p->k);
}

sg_area sg_moves_held(const sg_sched *s, int peer)
{
    const sg_part part = sg_problem_part(s->problem, peer, s->rank);
    return moved(s->problem, s->rank, s->problem->gather == SG_GATHER_B ? SG_B : SG_A, part.held,
                 part.rows);
}

sg_area sg_moves_arrived(const sg_sched *s, int at, int owner, int gathered)
{
    const sg_part part = sg_problem_part(s->problem, at, owner);
    return moved(s->problem, at, gathered, part.base, part.rows);
}

sg_area sg_moves_cut(const sg_sched *s, sg_area area, int64_t x, int64_t rows)
{
    if (s->problem->gather == SG_GATHER_K) {
        area.col0 += (int32_t)x;
        area.cols = (int32_t)rows;
    } else {
        area.row0 += (int32_t)x;
        area.rows = (int32_t)rows;
    }
    return area;
}

/* ---- Gather ---------------------------------------------------------------------------------- */

/* The other way than what moves is cut: along k, or along the rows of columns. */
static int64_t length_of(const sg_problem *p)
{
    return p->gather == SG_GATHER_K ? p->m : p->k;
}

static int32_t chunks_of_k(const sg_problem *p, int32_t chunk_k)
{
    return chunk_k > 0 ? (int32_t)sg_max(1, sg_ceil_div(length_of(p), chunk_k)) : 1;
}

/* Leaves of AREA the part of CHUNK_K of its length that begins with K0. */
static void cut_length(const sg_problem *p, sg_area *area, int64_t k0, int32_t chunk_k)
{
    const int32_t length = (int32_t)sg_min(chunk_k, length_of(p) - k0);
    if (p->gather == SG_GATHER_K) {
        area->row0 += (int32_t)k0;
        area->rows = length;
    } else {
        area->col0 += (int32_t)k0;
        area->cols = length;
    }
}

/* Leaves of FROM and INTO, where all rows of OWNER for PEER are and will be, chunk INDEX; false:
 * there is no such chunk. */
static bool cut_chunk(const sg_sched *s, int owner, int peer, const sg_arrival *arrival,
                      int32_t index, sg_area *from, sg_area *into)
{
    const sg_problem *const p = s->problem;
    const int64_t rows = sg_problem_part(p, peer, owner).rows;
    const int32_t slabs = chunks_of_k(p, arrival->chunk_k);
    const int64_t x = (int64_t)(index / slabs) * arrival->chunk;
    if (x >= rows) return false;
    const int64_t height = sg_min(arrival->chunk, rows - x);
    *from = sg_moves_cut(s, *from, x, height);
    *into = sg_moves_cut(s, *into, x, height);
    if (arrival->chunk_k > 0) {
        const int64_t k0 = (int64_t)(index % slabs) * arrival->chunk_k;
        cut_length(p, from, k0, arrival->chunk_k);
        cut_length(p, into, k0, arrival->chunk_k);
    }
    return true;
}

void sg_moves_send_chunk(sg_sched *s, int lane, int owner, sg_area src, int peer, int gathered,
                         const sg_arrival *arrival, int32_t index, const sg_arrival *behind)
{
    sg_area into = sg_moves_arrived(s, peer, owner, gathered);
    if (!cut_chunk(s, owner, peer, arrival, index, &src, &into)) return;
    sg_sched_copy(s, lane, (sg_carrier)arrival->carrier, src);
    if (behind != NULL) sg_sched_wait(s, sg_wait_one(behind->by, behind->flag0 + index));
    sg_sched_to(s, into);
    sg_sched_raise(s, peer, SG_PER_PATCH, arrival->flag0 + index);
}

/* Are there chunks in which OWNER's rows come?  Who says how they do has to say. */
static bool has_chunks(sg_sched *s, int owner, const sg_arrival *arrival)
{
    if (arrival->chunk > 0) return true;
    sg_sched_spoil(s, SHINGLE_EBUG, "rows of rank %d come in chunks of %d; 1 or more are possible",
                   owner, arrival->chunk);
    return false;
}

static int64_t chunks_for(const sg_sched *s, int peer, const sg_arrival *arrival)
{
    const int64_t rows = sg_problem_part(s->problem, peer, s->rank).rows;
    return sg_ceil_div(rows, arrival->chunk) * chunks_of_k(s->problem, arrival->chunk_k);
}

void sg_moves_send(sg_sched *s, int lane, int peer, int gathered, const sg_arrival *arrival)
{
    const int64_t chunks = has_chunks(s, s->rank, arrival) ? chunks_for(s, peer, arrival) : 0;
    for (int32_t i = 0; i < chunks; i++)
        sg_moves_send_chunk(s, lane, s->rank, sg_moves_held(s, peer), peer, gathered, arrival, i,
                            NULL);
}

static bool same_area(const sg_area *a, const sg_area *b)
{
    return a->row0 == b->row0 && a->rows == b->rows && a->col0 == b->col0 && a->cols == b->cols;
}

void sg_moves_send_together(sg_sched *s, int lane, int gathered, const sg_arrival *arrival)
{
    const int ranks = s->problem->ranks;
    bool more = true;
    for (int q = 0; q < ranks; q++) more &= q == s->rank || has_chunks(s, s->rank, &arrival[q]);
    for (int32_t index = 0; more; index++) {
        sg_area open = {0};
        more = false;
        for (int i = 1; i < ranks; i++) {
            const int peer = (s->rank - i + ranks) % ranks;
            sg_area from = sg_moves_held(s, peer);
            sg_area into = sg_moves_arrived(s, peer, s->rank, gathered);
            if (!cut_chunk(s, s->rank, peer, &arrival[peer], index, &from, &into)) continue;
            if (!more || !same_area(&from, &open))
                sg_sched_copy(s, lane, (sg_carrier)arrival[peer].carrier, from);
            sg_sched_to(s, into);
            sg_sched_raise(s, peer, SG_PER_PATCH, arrival[peer].flag0 + index);
            open = from;
            more = true;
        }
    }
}

/* Product rows that become one patch: neighbours in the product and in their buffer. */
typedef struct row_run {
    int32_t row0, rows;
    int32_t buf_row0;
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

/* Bands of a group, for a raster whose waves of about WAVE_TILES tiles read the fewest
 * rows of A and B: as high as they are wide, and all groups alike.  Every byte read costs
 * power, and time at its limit. */
uint8_t sg_moves_group(int32_t rows, int32_t tile_m, int32_t tile_n)
{
    if (tile_m < 1 || tile_n < 1) return 1; /* the sealer refuses it */
    int32_t square = 1;
    while (square < UINT8_MAX && (int64_t)square * square * tile_m < (int64_t)WAVE_TILES * tile_n)
        square++;
    const int64_t bands = sg_ceil_div(rows, tile_m);
    if (bands <= square) return (uint8_t)sg_max(1, bands);
    return (uint8_t)sg_min(UINT8_MAX, sg_ceil_div(bands, (bands + square / 2) / square));
}

static uint8_t group_bands(const sg_sched *s, int32_t rows)
{
    if (s->open_step < 0) return 1;
    const sg_launch *const launch = &s->step[s->open_step].u.launch;
    return sg_moves_group(rows, launch->tile_m, launch->tile_n);
}

/* A patch of all the product, with RUN, which stands in buffer BUF, along what moves. */
static sg_patch patch_of(const sg_sched *s, const row_run *run, int buf, bool final)
{
    const sg_problem *const p = s->problem;
    sg_patch patch = {
        .rows = (int32_t)sg_problem_rows(p, s->rank),
        .cols = (int32_t)p->n,
        .k1 = (int32_t)p->k,
        .raster = SG_GROUPED,
        .final = final,
    };
    int a = SG_A;
    int b = SG_B;
    int64_t a_row0 = 0;
    int64_t b_row0 = 0;
    int64_t a_col0 = 0;
    if (p->gather == SG_GATHER_K) {
        patch.k0 = run->row0;
        patch.k1 = run->row0 + run->rows;
        a = buf, a_col0 = run->buf_row0;
    } else if (p->gather == SG_GATHER_B) {
        patch.col0 = run->row0;
        patch.cols = run->rows;
        b = buf, b_row0 = run->buf_row0;
    } else {
        patch.row0 = run->row0;
        patch.rows = run->rows;
        a = buf, a_row0 = run->buf_row0;
    }
    patch.a = sg_area_of(s->rank, a, a_row0, patch.rows, a_col0, patch.k1 - patch.k0);
    patch.b = sg_area_of(s->rank, b, b_row0, patch.cols, patch.k0, patch.k1 - patch.k0);
    patch.width = group_bands(s, patch.rows);
    return patch;
}

bool sg_moves_next_b(const sg_problem *p, const sg_patch *whole, int i, sg_patch *part_out)
{
    int64_t col0 = 0;
    if (i >= p->b_count) return false;
    *part_out = *whole;
    for (int b = 0; b < i; b++) col0 += p->b_cols[b];
    if (p->b_count > 1) sg_moves_cut_cols(part_out, (int32_t)col0, (int32_t)p->b_cols[i]);
    return true;
}

void sg_moves_store(sg_sched *s, sg_area c)
{
    if (s->problem->accumulate) sg_sched_add(s, c, NULL);
    sg_sched_to(s, c);
}

/* The part of C that PATCH computes. */
static void store_c(sg_sched *s, const sg_patch *patch)
{
    sg_moves_store(s,
                   sg_area_of(s->rank, SG_C, patch->row0, patch->rows, patch->col0, patch->cols));
}

/* Leaves of PATCH the part of k that G is at. */
static void cut_k(const sg_problem *p, sg_patch *patch, const sg_gathering *g)
{
    if (g->k1 == 0) return;
    patch->k0 = g->k0;
    patch->k1 = g->k1;
    patch->a.col0 += g->k0;
    patch->b.col0 += g->k0;
    patch->a.cols = patch->b.cols = g->k1 - g->k0;
    patch->final = g->k1 == p->k;
}

/* The same part of C: with what the parts of k before left, for the next one or for good. */
static void store_part(sg_sched *s, const sg_patch *patch, sg_gathering *g)
{
    const sg_problem *const p = s->problem;
    const bool last = g->k1 == 0 || g->k1 == p->k;
    if (g->sum == 0 && !last)
        g->sum = sg_sched_buf(s, SG_LOCAL, "sum", sg_problem_rows(p, s->rank), p->n, SG_WIDE);
    const sg_area sum =
        sg_area_of(s->rank, g->sum, patch->row0, patch->rows, patch->col0, patch->cols);
    if (g->k0 > 0) sg_sched_add(s, sum, NULL);
    if (last)
        store_c(s, patch);
    else
        sg_sched_to(s, sum);
}

/* The rows of OWNER's PART that G is at. */
static void cut_rows(const sg_gathering *g, int owner, const sg_part *part, int64_t *x0_out,
                     int64_t *x1_out)
{
    const int64_t chunk = g->arrival[owner].chunk;
    *x0_out = g->chunk > 0 ? sg_min((g->chunk - 1) * chunk, part->rows) : 0;
    *x1_out = g->chunk > 0 ? sg_min(g->chunk * chunk, part->rows) : part->rows;
}

/* A launch of the vendor's for PATCH. */
static int launch_vendor(sg_sched *s, const sg_patch *patch)
{
    const int step = sg_sched_launch(s, 0, patch->rows, patch->cols, 0, true);
    sg_sched_patch(s, patch);
    return step;
}

/* A step that waits for all chunks that COUNT pieces of others are part of. */
static void await_chunks(sg_sched *s, const sg_piece *pieces, int count, const sg_gathering *g)
{
    sg_sched_flag(s, 0);
    for (int i = 0; i < count; i++) {
        const sg_arrival *const from = &g->arrival[pieces[i].owner];
        const int32_t slabs = chunks_of_k(s->problem, from->chunk_k);
        const int32_t last = (pieces[i].own_row + pieces[i].rows - 1) / from->chunk;
        for (int32_t c = pieces[i].own_row / from->chunk * slabs; c < (last + 1) * slabs; c++)
            sg_sched_wait(s, sg_wait_one(from->by, from->flag0 + c));
    }
}

/* The rows of a run as the vendor multiplies them, behind all chunks that they are part of. */
static void emit_vendor(sg_sched *s, const row_run *run, const sg_piece *pieces, sg_gathering *g)
{
    const sg_problem *const p = s->problem;
    const bool own = pieces[0].owner == s->rank;
    if (p->m == 0 || p->n == 0) return;
    sg_patch patch;
    sg_patch all = patch_of(s, run, own ? SG_A : g->gathered, true);
    cut_k(p, &all, g);
    if (!own && p->k > 0) await_chunks(s, pieces, run->pieces, g);
    for (int b = 0; sg_moves_next_b(p, &all, b, &patch); b++) {
        launch_vendor(s, &patch);
        store_part(s, &patch, g);
    }
}

/* Leaves of PATCH the columns of the strip that G is at, if it has any. */
static bool cut_strip(sg_patch *patch, const sg_gathering *g)
{
    const int32_t col0 = patch->col0 > g->col0 ? patch->col0 : g->col0;
    const int32_t end = sg_walk_min(patch->col0 + patch->cols, g->col0 + g->cols);
    if (g->cols == 0) return true;
    if (col0 < end) sg_moves_cut_cols(patch, col0 - patch->col0, end - col0);
    return col0 < end;
}

/* Are OWNER's rows read in place? */
static bool is_here(const sg_sched *s, const sg_gathering *g, int owner)
{
    return owner == s->rank && !g->copied;
}

/* What PATCH, whose rows are here or come with all others, waits for to stay in step with those
 * that come as ARRIVAL says. */
static sg_wait step_wait(const sg_problem *p, const sg_patch *patch, const sg_arrival *arrival)
{
    return (sg_wait){.by = arrival->by,
                     .per = SG_PER_ROWS,
                     .flag0 = arrival->flag0,
                     .row0 = patch->row0,
                     .rows = patch->rows,
                     .chunk = patch->rows,
                     .chunk_k = arrival->chunk_k,
                     .chunks_k = chunks_of_k(p, arrival->chunk_k)};
}

/* What PATCH, which is open, waits for: the chunks of PIECES that it reads, or to
 * stay in step if they are own. */
static void await_rows(sg_sched *s, const sg_patch *patch, const sg_piece *pieces, int count,
                       const sg_gathering *g)
{
    const sg_problem *const p = s->problem;
    if (is_here(s, g, pieces[0].owner)) {
        if (g->in_step > 0) sg_sched_wait(s, step_wait(p, patch, &g->arrival[g->in_step - 1]));
        return;
    }
    if (g->together) {
        sg_sched_wait(s, step_wait(p, patch, &g->arrival[s->rank]));
        return;
    }
    for (int i = 0; i < count; i++)
        if (pieces[i].row0 < patch->row0 + patch->rows &&
            patch->row0 < pieces[i].row0 + pieces[i].rows)
            sg_sched_wait(s, piece_wait(p, &pieces[i], &g->arrival[pieces[i].owner]));
}

/* A patch of a run, whose tiles wait for the chunks of PIECES that they read. */
static void emit_patch(sg_sched *s, const sg_patch *patch, const sg_piece *pieces, int count,
                       sg_gathering *g)
{
    sg_sched_patch(s, patch);
    if (s->problem->k > 0) await_rows(s, patch, pieces, count, g);
    store_part(s, patch, g);
}

/* A group of bands that reaches over the border of an owner or a chunk waits for two before it has
 * finished the first one's columns: no group of PATCH is higher than the smallest of PIECES. */
static void limit_group(const sg_sched *s, const sg_piece *pieces, int count, const sg_gathering *g,
                        sg_patch *patch)
{
    const bool own = pieces[0].owner == s->rank;
    const int32_t tile_m = s->step[s->open_step].u.launch.tile_m;
    for (int i = 0; i < count && !g->together; i++) {
        const int32_t chunk = own ? pieces[i].rows : g->arrival[pieces[i].owner].chunk;
        const int64_t bands = sg_ceil_div(sg_walk_min(pieces[i].rows, chunk), tile_m);
        if (bands < patch->width) patch->width = (uint8_t)bands;
    }
}

/* The part of k that visits of OWNER's rows wait for at a time; 0: all of it, or nothing. */
static int32_t slab_of(const sg_sched *s, int owner, const sg_gathering *g)
{
    if (!is_here(s, g, owner)) return g->arrival[owner].chunk_k;
    return g->in_step > 0 ? g->arrival[g->in_step - 1].chunk_k : 0;
}

/* The rows of a run in the open launch: one patch; where several B share them, for each B of as
 * many bands as a patch of one B would take together, so that no B waits for the last rows before
 * the next one has the first. */
static void emit_tiles(sg_sched *s, const row_run *run, const sg_piece *pieces, sg_gathering *g)
{
    const sg_problem *const p = s->problem;
    const bool here = is_here(s, g, pieces[0].owner);
    sg_patch patch = patch_of(s, run, here ? SG_A : g->gathered, true);
    sg_patch part;
    cut_k(p, &patch, g);
    limit_group(s, pieces, run->pieces, g, &patch);
    patch.slab = slab_of(s, pieces[0].owner, g);
    if (here && !g->together) patch.tile_n = g->own_n;
    int64_t height = run->rows;
    if (p->b_count > 1)
        height = (int64_t)sg_max(patch.width, 1) * s->step[s->open_step].u.launch.tile_m;
    for (int64_t row = 0; row < run->rows; row += height) {
        patch.row0 = (int32_t)(run->row0 + row);
        patch.a.row0 = (int32_t)(run->buf_row0 + row);
        patch.rows = patch.a.rows = (int32_t)sg_min(height, run->rows - row);
        for (int b = 0; sg_moves_next_b(p, &patch, b, &part); b++)
            if (cut_strip(&part, g)) emit_patch(s, &part, pieces, run->pieces, g);
    }
}

/* Rows of A, by a launch of the vendor's or in the open one. */
static void emit_rows(sg_sched *s, const row_run *run, const sg_piece *pieces, sg_gathering *g)
{
    const bool launch = s->open_step >= 0 && s->step[s->open_step].kind == SG_LAUNCH;
    if (run->rows == 0) return;
    if (g->vendor)
        emit_vendor(s, run, pieces, g);
    else if (launch)
        emit_tiles(s, run, pieces, g);
    else
        sg_sched_patch(s, &(sg_patch){0}); /* refused, unless a launch of nothing was dropped */
}

static void gather_rows(sg_sched *s, sg_gathering *g, const int *order, int count)
{
    enum { LIST = 64 }; /* pieces of one patch; a longer run makes a second patch */
    const sg_problem *const p = s->problem;
    sg_piece pieces[LIST];
    row_run run = {0};
    for (int i = 0; i < count; i++) {
        const bool here = is_here(s, g, order[i]);
        const sg_part part = sg_problem_part(p, s->rank, order[i]);
        const int32_t base = (int32_t)(here ? part.held : part.base);
        int64_t x0 = 0;
        int64_t x1 = 0;
        cut_rows(g, order[i], &part, &x0, &x1);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, s->rank, order[i], x0, x1);
             sg_piece_next(&it, &piece);) {
            const bool joins = run.rows > 0 && is_here(s, g, pieces[0].owner) == here &&
                               run.pieces < LIST && piece.row0 == run.row0 + run.rows &&
                               piece.own_row + base == run.buf_row0 + run.rows;
            if (!joins) {
                emit_rows(s, &run, pieces, g);
                run = (row_run){.row0 = piece.row0, .buf_row0 = piece.own_row + base};
            }
            pieces[run.pieces++] = piece;
            run.rows += piece.rows;
        }
    }
    emit_rows(s, &run, pieces, g);
}

/* Rows of B or columns of A: a patch for each chunk, which waits for it as a whole.  APART: the
 * sums of patches along k stay apart. */
static void gather_chunks(sg_sched *s, sg_gathering *g, int owner, bool apart)
{
    const sg_problem *const p = s->problem;
    const bool own = owner == s->rank;
    const bool along_k = p->gather == SG_GATHER_K;
    const sg_part part = sg_problem_part(p, s->rank, owner);
    const sg_arrival *const arrival = &g->arrival[owner];
    const int64_t chunk = own ? sg_max(part.rows, 1) : arrival->chunk;
    const int32_t slabs = chunks_of_k(p, arrival->chunk_k);
    const int32_t slab = slabs > 1 ? g->k0 / arrival->chunk_k : 0;
    int64_t x0 = 0;
    int64_t x1 = 0;
    cut_rows(g, owner, &part, &x0, &x1);
    for (int64_t x = x0; x < x1; x += chunk) {
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, s->rank, owner, x, sg_min(x + chunk, x1));
             sg_piece_next(&it, &piece);) {
            const row_run run = {.row0 = piece.row0,
                                 .rows = piece.rows,
                                 .buf_row0 =
                                     (int32_t)(piece.own_row + (own ? part.held : part.base))};
            const int held = along_k ? SG_A : SG_B;
            const bool last = !along_k || g->depth + run.rows == p->k;
            sg_patch patch = patch_of(s, &run, own ? held : g->gathered, last);
            cut_k(p, &patch, g);
            if (apart && last) patch.own_at = (uint16_t)g->links;
            if (g->vendor && !own && p->k > 0) sg_sched_flag(s, 0);
            if (!g->vendor) sg_sched_patch(s, &patch);
            if (!own && p->k > 0)
                sg_sched_wait(s, sg_wait_one(arrival->by,
                                             arrival->flag0 + slab + (int32_t)(x / chunk) * slabs));
            if (g->vendor) launch_vendor(s, &patch);
            if (along_k)
                sg_moves_link(s, &patch, g, apart);
            else
                store_part(s, &patch, g);
        }
    }
}

void sg_moves_gather_patches(sg_sched *s, sg_gathering *g, const int *order, int count)
{
    for (int i = 0; i < count; i++)
        if (order[i] != s->rank && !has_chunks(s, order[i], &g->arrival[order[i]])) return;
    if (s->problem->gather == SG_GATHER_A) {
        gather_rows(s, g, order, count);
        return;
    }
    const bool whole = count == s->problem->ranks && g->chunk == 0;
    const bool apart = s->problem->gather == SG_GATHER_K && whole && sg_moves_apart(s, g);
    for (int i = 0; i < count; i++) gather_chunks(s, g, order[i], apart);
}

void sg_moves_gather_product(sg_sched *s, const sg_gathering *g, const int *order, int count)
{
    const sg_problem *const p = s->problem;
    bool goes_on = false;
    for (int i = 0; i < count; i++) {
        const bool own = order[i] == s->rank;
        const sg_part part = sg_problem_part(p, s->rank, order[i]);
        const sg_arrival *const from = &g->arrival[order[i]];
        const sg_wait wait = {from->by,      SG_PER_ROWS,   from->flag0,  0,
                              (int32_t)p->m, from->chunk_k, .chunks_k = 1};
        const int32_t base = (int32_t)(own ? part.held : part.base);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, s->rank, order[i], 0, part.rows);
             sg_piece_next(&it, &piece);) {
            const row_run run = {
                .row0 = piece.row0, .rows = piece.rows, .buf_row0 = piece.own_row + base};
            sg_patch patch = patch_of(s, &run, own ? SG_A : g->gathered, !goes_on);
            patch.goes_on = goes_on;
            sg_sched_patch(s, &patch);
            if (!goes_on) store_c(s, &patch);
            if (!own) sg_sched_wait(s, wait);
            goes_on = true;
        }
    }
}

/* ---- Scatter --------------------------------------------------------------------------------- */

sg_patch sg_moves_patch_from(const sg_sched *s, const sg_piece *piece, int buf, int64_t buf_row0,
                             bool final)
{
    const row_run run = {.row0 = piece->row0, .rows = piece->rows, .buf_row0 = (int32_t)buf_row0};
    return patch_of(s, &run, buf, final);
}

sg_patch sg_moves_patch(const sg_sched *s, const sg_piece *piece, bool final)
{
    return sg_moves_patch_from(s, piece, SG_A, piece->row0, final);
}

int sg_moves_vendor_patch(sg_sched *s, const sg_piece *piece, bool final, const sg_wait *wait)
{
    if (s->problem->m == 0 || s->problem->n == 0)
        return sg_sched_launch(s, 0, 1, 1, 0, true); /* dropped, and so is what is attached */
    const sg_patch patch = sg_moves_patch(s, piece, final);
    if (wait != NULL) {
        sg_sched_flag(s, 0);
        sg_sched_wait(s, *wait);
    }
    return launch_vendor(s, &patch);
}

void sg_moves_cut_cols(sg_patch *patch, int32_t col0, int32_t cols)
{
    patch->col0 += col0;
    patch->b.row0 += col0;
    patch->cols = patch->b.rows = cols;
}

void sg_moves_scatter_patch(sg_sched *s, const sg_piece *piece, int own_at, bool final)
{
    sg_patch patch = sg_moves_patch(s, piece, final);
    patch.own_at = (uint16_t)own_at;
    sg_sched_patch(s, &patch);
}
