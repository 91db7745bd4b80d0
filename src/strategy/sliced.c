/* sliced.c -- data slicing: the collective of one slice of rows under the product of the next.
 *
 *     gather   lane 1:  coll 0 | coll 1 | coll 2          scatter  lane 0:  gemm 0 | gemm 1 | gemm 2
 *              lane 0:         | gemm 0 | gemm 1 | gemm 2          lane 1:         | coll 0 | coll 1 | coll 2
 *
 * What TransformerEngine calls pipeline and CoC compute-first.  Needs nothing but products and
 * collectives, so it works everywhere.  Exposed: the collective of one slice, and what smaller
 * products lose to partial waves and to the SMs that collectives hold.
 *
 * A slice is the same part of every owner's rows (scatter, gather), or a part of the product's rows
 * (all-reduce); the buffers hold slice behind slice, so that every collective is contiguous.
 */
#include "core/moves.h"
#include "core/strategy.h"

enum { SLICES, SMS, BLOCKS, TILE_M, TILE_N };

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!sg_accepts_moves(p, why)) return 0;
    int n = 0;
    for (int slices = 2; slices <= 8; slices *= 2) {
        if (p->m < (int64_t)slices * p->ranks) break;
        sg_knobs *const set = &sets[n++];
        set->value[SLICES] = slices;
        set->value[SMS] = machine->coll_sms;
        set->value[BLOCKS] = machine->coll_sms > 0 ? machine->sms - machine->coll_sms : 0;
        set->value[TILE_M] = machine->tile[0].m;
        set->value[TILE_N] = machine->tile[0].n;
    }
    if (n == 0)
        sg_decline(why, "m %lld is too small for slices on %d ranks", (long long)p->m, p->ranks);
    return n;
}

static int launch(sg_sched *s, const sg_knobs *k)
{
    return sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], k->value[BLOCKS], false);
}

static void build_gather(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int gathered = sg_sched_buf(s, SG_LIBRARY, "gathered", p->m, p->k, 0);
    int64_t base = 0;
    for (int c = 0; c < k->value[SLICES]; c++) {
        int32_t x0 = 0;
        int32_t rows = sg_slice_rows(p, rank, c, k->value[SLICES], k->value[TILE_M], &x0);
        const int coll = sg_sched_coll(s, 1, SG_ALL_GATHER, k->value[SMS],
                                       sg_area_of(rank, SG_A, x0, rows, 0, p->k));
        int64_t row = base;
        for (int q = 0; q < p->ranks; q++) {
            rows = sg_slice_rows(p, q, c, k->value[SLICES], k->value[TILE_M], &x0);
            sg_sched_to(s, sg_area_of(rank, gathered, row, rows, 0, p->k));
            row += rows;
        }
        launch(s, k);
        sg_sched_after(s, coll);
        base += sg_moves_slice_patches(s, c, k->value[SLICES], k->value[TILE_M], base, gathered, -1,
                                       true);
    }
}

static void build_scatter(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const bool more = sg_problem_has_epilogue(p);
    const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", p->m, p->n, 0);
    const int sum = more ? sg_sched_buf(s, SG_LIBRARY, "sum", p->share[rank].rows, p->n, 0) : SG_C;
    int64_t base = 0;
    for (int c = 0; c < k->value[SLICES]; c++) {
        const int gemm = launch(s, k);
        const int64_t height = sg_moves_slice_patches(s, c, k->value[SLICES], k->value[TILE_M],
                                                      base, -1, partial, false);
        int32_t x0 = 0;
        int32_t rows = sg_slice_rows(p, rank, c, k->value[SLICES], k->value[TILE_M], &x0);
        const sg_area own = sg_area_of(rank, sum, x0, rows, 0, p->n);
        sg_sched_coll(s, 1, SG_REDUCE_SCATTER, k->value[SMS], own);
        sg_sched_after(s, gemm);
        int64_t row = base;
        for (int q = 0; q < p->ranks; q++) {
            int32_t from = 0;
            rows = sg_slice_rows(p, q, c, k->value[SLICES], k->value[TILE_M], &from);
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

static void build(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    if (sg_problem_in(p) == SG_IN_GATHER)
        build_gather(p, knobs, rank, s);
    else if (sg_problem_out(p) == SG_OUT_SCATTER)
        build_scatter(p, knobs, rank, s);
    else
        build_all(p, knobs, rank, s);
}

const sg_strategy sg_strategy_sliced = {
    .name = "sliced",
    .brief = "slices of rows: the collective of one under the product of the next",
    .knob = {"slices", "sms", "blocks", "tile_m", "tile_n"},
    .least = {1, 0, 0, 1, 1},
    .most = {64, 1024, 1024, 4096, 4096},
    .accepts = sg_accepts_moves,
    .propose = propose,
    .build = build,
};
