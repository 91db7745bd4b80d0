/* sliced.c -- data slicing: the collective of one slice of rows under the product of the next.
 *
 *     gather   lane 1:  coll 0 | coll 1 | coll 2          scatter  lane 0:  gemm 0 | gemm 1 | gemm 2
 *              lane 0:         | gemm 0 | gemm 1 | gemm 2          lane 1:         | coll 0 | coll 1 | coll 2
 *
 * Needs nothing but products and collectives, so it works everywhere.  Exposed: the collective of
 * one slice, and what smaller products lose to partial waves and to the SMs that collectives hold.
 *
 *     by=0     a slice is the same part of every owner's rows (scatter, gather), or a part of the
 *              product's rows (all-reduce); buffers hold slice behind slice, so that every collective
 *              is contiguous.  TransformerEngine's "pipeline" is gemm_rs with slices=4 and sms=16;
 *              MindSpeed's CoC is slices=2, 4 or 8: "compute first" for gemm_rs and gemm_ar,
 *              "communicate first" for ag_gemm.  Domino's split of the batch is slices=2.
 *     by=1     a slice is a part of the columns, as where Domino splits a weight (gemm_rs, gemm_ar).
 *              The product keeps its height.  Its columns are packed for the collective and put in
 *              their place behind it, one more pass over the slice.  What is gathered or exchanged, and
 *              calls, which make whole rows, are sliced by rows all the same.
 */
#include "core/moves.h"
#include "core/strategy.h"
#include "core/tiles.h"

enum { SLICES, SMS, BLOCKS, TILE_M, TILE_N, BY };

enum { BY_ROWS, BY_COLS };

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (p->gather == SG_GATHER_K)
        return sg_decline(why, "columns of A are not contiguous, as collectives need them");
    return sg_accepts_moves(p, why);
}

/* Sums alone need not be of whole rows. */
static bool can_cut_cols(const sg_problem *p)
{
    return sg_problem_sums(p) && !p->call;
}

/* Tiles of TILE in slice C, of SLICES by rows. */
static int64_t tiles_of_rows(const sg_problem *p, const sg_tile *tile, int c, int slices)
{
    const bool along_n = p->gather == SG_GATHER_B;
    const int32_t along = along_n ? tile->n : tile->m;
    int64_t bands = 0;
    if (sg_problem_out(p) == SG_OUT_ALL) {
        const int64_t height = sg_chunk_rows(p->m, slices, along);
        bands = sg_ceil_div(sg_max(0, sg_min(height, p->m - c * height)), along);
    } else {
        int32_t x0 = 0;
        for (int q = 0; q < p->ranks; q++)
            bands += sg_ceil_div(sg_slice_rows(p, 0, q, c, slices, along, &x0), along);
    }
    return bands * (along_n ? sg_ceil_div(p->m, tile->m) : sg_problem_col_tiles(p, tile->n));
}

/* The same by columns. */
static int64_t tiles_of_cols(const sg_problem *p, const sg_tile *tile, int c, int slices)
{
    const int64_t width = sg_chunk_rows(p->n, slices, tile->n);
    const int64_t cols = sg_max(0, sg_min(width, p->n - c * width));
    return sg_ceil_div(p->m, tile->m) * sg_ceil_div(cols, tile->n);
}

/* Time of rank 0's product in slices and in tiles of TILE on BLOCKS SMs: every slice ends with a
 * wave of its own. */
static double slices_us(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                        int slices, int by, int blocks)
{
    int64_t waves = 0;
    for (int c = 0; c < slices; c++)
        waves += sg_ceil_div(by == BY_ROWS ? tiles_of_rows(p, tile, c, slices)
                                           : tiles_of_cols(p, tile, c, slices),
                             sg_max(blocks, 1));
    return (double)waves * sg_tile_us(p, machine, tile);
}

enum { SHAPES = 2, MOST_SMS = 2 };

/* The tiles of MACHINE, at most SHAPES, that take SLICES on BLOCKS SMs in least time. */
static int best_tiles(const sg_problem *p, const sg_machine *machine, int slices, int by,
                      int blocks, sg_tile *best_out)
{
    /* Ranks that share workers have no waves. */
    const int most = machine->pool > 0 ? 1 : SHAPES;
    double cost[SHAPES + 1];
    int kept = 0;
    for (int t = 0; t < machine->tiles && (t == 0 || machine->pool == 0); t++) {
        const double now = slices_us(p, machine, &machine->tile[t], slices, by, blocks);
        int at = kept;
        for (; at > 0 && now < cost[at - 1]; at--) {
            cost[at] = cost[at - 1];
            if (at < most) best_out[at] = best_out[at - 1];
        }
        if (at == most) continue;
        cost[at] = now;
        best_out[at] = machine->tile[t];
        if (kept < most) kept++;
    }
    return kept;
}

/* Sets of so many slices: SMs of the collective times tiles for what it leaves. */
static int propose_slices(const sg_problem *p, const sg_machine *machine, int slices, int by,
                          sg_knobs *sets)
{
    const int sms[MOST_SMS] = {machine->coll_sms, sg_machine_few_coll_sms(machine)};
    int n = 0;
    for (int i = 0; i < MOST_SMS && (i == 0 || sms[i] < sms[0]); i++) {
        sg_tile tile[SHAPES];
        const int blocks = machine->sms - sms[i];
        const int shapes = best_tiles(p, machine, slices, by, blocks, tile);
        for (int t = 0; t < shapes; t++) {
            if (by == BY_COLS && p->n < (int64_t)slices * tile[t].n) continue;
            sets[n++] = (sg_knobs){{[SLICES] = slices,
                                    [SMS] = sms[i],
                                    [BLOCKS] = sms[i] > 0 ? blocks : 0,
                                    [TILE_M] = tile[t].m,
                                    [TILE_N] = tile[t].n,
                                    [BY] = by}};
        }
    }
    return n;
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!accepts(p, why)) return 0;
    const int64_t rows = p->gather == SG_GATHER_B ? p->n : p->m;
    int n = 0;
    for (int by = BY_ROWS; by <= (can_cut_cols(p) ? BY_COLS : BY_ROWS); by++) {
        for (int slices = 2; slices <= (by == BY_ROWS ? 8 : 4); slices *= 2) {
            if (by == BY_ROWS && rows < (int64_t)slices * p->ranks) break;
            n += propose_slices(p, machine, slices, by, &sets[n]);
        }
    }
    if (n == 0)
        sg_decline(why, "%lld rows are too few for slices on %d ranks", (long long)rows, p->ranks);
    return n;
}

static int launch(sg_sched *s, const sg_knobs *k)
{
    return sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], k->value[BLOCKS], false);
}

static void build_gather(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int slices = k->value[SLICES];
    const int32_t tile = sg_tile_along(p, k->value[TILE_M], k->value[TILE_N]);
    const int gathered = sg_moves_gathered(s, SG_LIBRARY, 0);
    const bool exchange = sg_problem_in(p) == SG_IN_EXCHANGE;
    int64_t base = 0;
    for (int c = 0; c < slices; c++) {
        int32_t x0 = 0;
        int32_t rows = sg_slice_rows(p, rank, rank, c, slices, tile, &x0);
        const sg_area own = sg_moves_cut(s, sg_moves_held(s, rank), x0, rows);
        const int coll = sg_sched_coll(s, 1, exchange ? SG_ALL_TO_ALL : SG_ALL_GATHER,
                                       k->value[SMS], exchange ? (sg_area){0} : own);
        for (int q = 0; q < p->ranks && exchange; q++) {
            rows = sg_slice_rows(p, q, rank, c, slices, tile, &x0);
            sg_sched_to(s, sg_moves_cut(s, sg_moves_held(s, q), x0, rows));
        }
        int64_t row = base;
        for (int q = 0; q < p->ranks; q++) {
            rows = sg_slice_rows(p, rank, q, c, slices, tile, &x0);
            sg_sched_to(s, sg_area_of(rank, gathered, row, rows, 0, p->k));
            row += rows;
        }
        launch(s, k);
        sg_sched_after(s, coll);
        base += sg_moves_gathered_patches(s, c, slices, tile, base, gathered);
    }
}

/* Rows of Q in slice C of RANK's product. */
static int32_t slice(const sg_problem *p, const sg_knobs *k, int rank, int q, int c,
                     int32_t *x0_out)
{
    return sg_slice_rows(p, rank, q, c, k->value[SLICES], k->value[TILE_M], x0_out);
}

static void build_scatter(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const bool more = sg_problem_has_epilogue(p);
    const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", p->m, p->n, 0);
    const int sum = more ? sg_sched_buf(s, SG_LIBRARY, "sum", p->share[rank].rows, p->n, 0) : SG_C;
    int64_t base = 0;
    for (int c = 0; c < k->value[SLICES]; c++) {
        const int gemm = launch(s, k);
        const int64_t height =
            sg_moves_slice_patches(s, c, k->value[SLICES], k->value[TILE_M], base, partial, false);
        int32_t x0 = 0;
        int32_t rows = slice(p, k, rank, rank, c, &x0);
        const sg_area own = sg_area_of(rank, sum, x0, rows, 0, p->n);
        sg_sched_coll(s, 1, SG_REDUCE_SCATTER, k->value[SMS], own);
        sg_sched_after(s, gemm);
        int64_t row = base;
        for (int q = 0; q < p->ranks; q++) {
            int32_t from = 0;
            rows = slice(p, k, rank, q, c, &from);
            sg_sched_to(s, sg_area_of(rank, partial, row, rows, 0, p->n));
            row += rows;
        }
        base += height;
        if (!more || own.rows == 0 || p->n == 0) continue;
        sg_sched_reduce(s, 1, true);
        sg_sched_add(s, own, NULL);
        sg_sched_to(s, sg_area_of(rank, SG_C, x0, own.rows, 0, p->n));
    }
}

static void build_exchange(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", sg_problem_rows(p, rank), p->n, 0);
    int64_t base = 0;
    for (int c = 0; c < k->value[SLICES]; c++) {
        const int gemm = launch(s, k);
        const int64_t height =
            sg_moves_slice_patches(s, c, k->value[SLICES], k->value[TILE_M], base, partial, true);
        sg_sched_coll(s, 1, SG_ALL_TO_ALL, k->value[SMS], (sg_area){0});
        sg_sched_after(s, gemm);
        int64_t row = base;
        int32_t x0 = 0;
        for (int q = 0; q < p->ranks; q++) {
            const int32_t rows = slice(p, k, rank, q, c, &x0);
            sg_sched_to(s, sg_area_of(rank, partial, row, rows, 0, p->n));
            row += rows;
        }
        for (int q = 0; q < p->ranks; q++) {
            const int32_t rows = slice(p, k, q, rank, c, &x0);
            const int64_t to = sg_problem_part(p, q, rank).held + x0;
            sg_sched_to(s, sg_area_of(rank, SG_C, to, rows, 0, p->n));
        }
        base += height;
    }
}

static void build_all(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const bool more = sg_problem_has_epilogue(p);
    const int sum = more ? sg_sched_buf(s, SG_LIBRARY, "sum", p->m, p->n, 0) : SG_C;
    const int32_t height = sg_chunk_rows(p->m, k->value[SLICES], k->value[TILE_M]);
    for (int64_t row = 0; row < p->m; row += height) {
        const int64_t rows = sg_min(height, p->m - row);
        const sg_area out = sg_area_of(rank, sum, row, rows, 0, p->n);
        const sg_piece piece = {.row0 = (int32_t)row, .rows = (int32_t)rows};
        const int gemm = launch(s, k);
        sg_moves_scatter_patch(s, &piece, 0, false);
        sg_sched_to(s, out);
        sg_sched_coll(s, 1, SG_ALL_REDUCE, k->value[SMS], out);
        sg_sched_after(s, gemm);
        if (!more || p->n == 0) continue;
        sg_sched_reduce(s, 1, true);
        sg_sched_add(s, out, NULL);
        sg_sched_to(s, sg_area_of(rank, SG_C, row, rows, 0, p->n));
    }
}

/* Columns [COL0, COL0 + COLS) of the rows of PIECE, to row ROW of PACKED. */
static void multiply_piece(const sg_piece *piece, int64_t col0, int64_t cols, int packed,
                           int64_t row, sg_sched *s)
{
    sg_patch patch = sg_moves_patch(s, piece, false);
    sg_moves_cut_cols(&patch, (int32_t)col0, (int32_t)cols);
    sg_sched_patch(s, &patch);
    sg_sched_to(s, sg_area_of(s->rank, packed, row, piece->rows, 0, cols));
}

/* The same of all rows, from row BASE on: owner behind owner for a
 * scatter, else in their own order. */
static void multiply_cols(const sg_problem *p, int64_t col0, int64_t cols, int packed, int64_t base,
                          sg_sched *s)
{
    sg_piece piece = {.rows = (int32_t)p->m};
    if (sg_problem_out(p) == SG_OUT_ALL || sg_is_packed(p)) {
        multiply_piece(&piece, col0, cols, packed, base, s);
        return;
    }
    for (int q = 0; q < p->ranks; q++)
        for (sg_pieces it = sg_pieces_of(p, s->rank, q, 0, p->m); sg_piece_next(&it, &piece);)
            multiply_piece(&piece, col0, cols, packed, base + p->share[q].base + piece.own_row, s);
}

/* Rows of multiples of EVEN elements of any type begin where GPUs load them fast. */
static int64_t width_of(const sg_problem *p, const sg_knobs *k)
{
    enum { EVEN = 8 };
    const int64_t width = sg_chunk_rows(p->n, k->value[SLICES], k->value[TILE_N]);
    const int64_t even = sg_round_up(width, EVEN);
    return sg_ceil_div(p->n, even) == sg_ceil_div(p->n, width) ? even : width;
}

/* Slices of columns.  Collectives take what lies side by side, so a slice is a matrix of its own;
 * the last one, if it is narrower, in buffers of its own. */
static void build_cols(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int64_t rows = all ? p->m : p->share[rank].rows;
    const int64_t width = width_of(p, k);
    const int64_t full = p->n / width;
    const int64_t widths[] = {width, p->n % width};
    int packed[2];
    int sum[2];
    for (int i = 0; i < 2; i++) {
        const int64_t count = i == 0 ? full : 1;
        packed[i] = sg_sched_buf(s, SG_LIBRARY, "partial", count * p->m, widths[i], 0);
        sum[i] = all ? packed[i] : sg_sched_buf(s, SG_LIBRARY, "sum", count * rows, widths[i], 0);
    }
    for (int64_t col0 = 0; col0 < p->n; col0 += width) {
        const int64_t c = col0 / width;
        const int i = c == full;
        const int64_t base = i ? 0 : c * p->m;
        const int gemm = launch(s, k);
        multiply_cols(p, col0, widths[i], packed[i], base, s);
        const sg_area own = sg_area_of(rank, sum[i], i ? 0 : c * rows, rows, 0, widths[i]);
        sg_sched_coll(s, 1, all ? SG_ALL_REDUCE : SG_REDUCE_SCATTER, k->value[SMS], own);
        sg_sched_after(s, gemm);
        for (int q = 0; q < p->ranks && !all; q++)
            sg_sched_to(s, sg_area_of(rank, packed[i], base + p->share[q].base, p->share[q].rows, 0,
                                      widths[i]));
        if (rows == 0) continue;
        sg_sched_reduce(s, 1, true);
        sg_sched_add(s, own, NULL);
        sg_sched_to(s, sg_area_of(rank, SG_C, 0, rows, col0, widths[i]));
    }
}

static void build(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    if (knobs->value[BY] == BY_COLS && can_cut_cols(p))
        build_cols(p, knobs, rank, s);
    else if (sg_problem_in(p) != SG_IN_NONE)
        build_gather(p, knobs, rank, s);
    else if (sg_problem_out(p) == SG_OUT_SCATTER)
        build_scatter(p, knobs, rank, s);
    else if (sg_problem_out(p) == SG_OUT_EXCHANGE)
        build_exchange(p, knobs, rank, s);
    else
        build_all(p, knobs, rank, s);
}

const sg_strategy sg_strategy_sliced = {
    .name = "sliced",
    .brief = "slices of rows or columns: the collective of one under the product of the next",
    .knob = {[SLICES] = {"slices", 1, 64},
             [SMS] = {"sms", 0, SG_MOST_SMS},
             [BLOCKS] = {"blocks", 0, SG_MOST_SMS},
             [TILE_M] = {"tile_m", 1, 4096},
             [TILE_N] = {"tile_n", 1, 4096},
             [BY] = {"by", BY_ROWS, BY_COLS}},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
