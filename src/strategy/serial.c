/* serial.c -- no overlap: the vendor's product and the library's collective, one after the other.
 *
 *     gather   lane 0:  all-gather or all-to-all [| copies] | gemm
 *     scatter  lane 0:  gemm [| copies] | reduce-scatter [| epilogue or norm]
 *     all      lane 0:  gemm | all-reduce     [| epilogue or norm]
 *     exchange lane 0:  gemm | all-to-all
 *
 * The baseline and the fallback: it serves every problem.  Everything of the shorter part is
 * exposed.  With windows=1 both ends of a gather or scatter lie where the library knows them at all
 * ranks, and may be faster: the own part of A is copied there, or the sum from there.
 *
 * Collectives take the rows of an owner side by side.  Where rows are dealt in turns (cyclic=),
 * that is not the product's order, and there are two ways.  permute=1: copies put the rows in
 * order, one for each run of them, which a GPU makes in one launch; it costs a pass over what
 * moves, and the product is the vendor's, of whole tiles.  permute=0: a launch of our own has a
 * patch for each run; it costs no pass, but the vendor's rate, and whatever tiles of single runs
 * are empty of.
 */
#include "core/moves.h"
#include "core/strategy.h"
#include "core/tiles.h"

/* Tiles are used where the rows of an owner are scattered, and PERMUTE is 0: see launch(). */
enum { TILE_M, TILE_N, WINDOWS, PERMUTE };

static bool accepts(const sg_problem *problem, sg_text *why)
{
    (void)problem;
    (void)why;
    return true;
}

/* Is the machine said to have a curve of this problem's collective in windows?  Shares of different
 * sizes are several operations to the library, and it has none for those. */
static bool has_windows(const sg_problem *p, const sg_machine *machine)
{
    const bool gathers = sg_problem_in(p) == SG_IN_GATHER;
    const bool scatters = sg_problem_out(p) == SG_OUT_SCATTER;
    for (int r = 0; r < p->ranks; r++)
        if (p->share[r].rows != p->most_rows) return false;
    return p->ranks > 1 && (gathers || scatters) &&
           sg_machine_in_windows(machine, gathers ? SG_ALL_GATHER : SG_REDUCE_SCATTER);
}

/* Does what the collective takes stand in another order than the product's?  Along k there is but
 * one way to it. */
static bool is_dealt(const sg_problem *p)
{
    const bool gathers = sg_problem_in(p) == SG_IN_GATHER && p->gather != SG_GATHER_K;
    return (gathers || sg_problem_out(p) == SG_OUT_SCATTER) && !sg_is_packed(p);
}

/* Do tiles of single runs, some of them mostly empty, seem to take longer than the vendor's product
 * and the pass of the copies?  That is the order of what is proposed, no more. */
static bool seems_to_pay(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const bool of_b = p->gather == SG_GATHER_B;
    const bool scatters = sg_problem_out(p) == SG_OUT_SCATTER;
    const int32_t height = of_b ? tile->n : tile->m;
    double bands = 0;
    for (int32_t i = 0; i < p->segment_count; i++)
        bands += (double)sg_ceil_div(p->segments[i].rows, height);
    const int64_t across = of_b ? sg_ceil_div(p->m, tile->m) : sg_ceil_div(p->n, tile->n);
    const double tiles_us = bands * (double)across * sg_tile_us(p, machine, tile) / machine->sms;
    const double flops = sg_problem_flops(p, (double)p->m, (double)p->n, (double)p->k);
    const double bytes = 2.0 * sg_type_bytes(p->type) * (double)(of_b ? p->n : p->m) *
                         (double)(scatters ? p->n : p->k);
    return tiles_us >
           flops / (machine->gemm_tflops[p->type] * 1e6) + bytes / (machine->mem_gbps * 1e3);
}

static int propose(const sg_problem *problem, const sg_machine *machine, sg_knobs *sets,
                   sg_text *why)
{
    (void)why;
    const bool dealt = is_dealt(problem);
    const bool permute = dealt && seems_to_pay(problem, machine, &machine->tile[0]);
    int count = 0;
    for (int windows = 0; windows <= has_windows(problem, machine); windows++) {
        for (int other = 0; other <= dealt; other++) {
            sg_knobs *const set = &sets[count++];
            set->value[TILE_M] = machine->tile[0].m;
            set->value[TILE_N] = machine->tile[0].n;
            set->value[WINDOWS] = windows;
            set->value[PERMUTE] = permute != other;
        }
    }
    return count;
}

static sg_arena_kind arena_of(const sg_knobs *knobs)
{
    return knobs->value[WINDOWS] ? SG_WINDOWS : SG_LIBRARY;
}

/* What this rank sends in a gather.  NCCL 2.28 takes its kernels for windows if both ends are in
 * one; a part is ROWS x COLS or smaller. */
static sg_area sent(sg_sched *s, const sg_knobs *knobs, int64_t rows, int64_t cols)
{
    const sg_area held = sg_moves_held(s, s->rank);
    if (arena_of(knobs) == SG_LIBRARY) return held;
    const int own = sg_sched_buf(s, SG_WINDOWS, "own", rows, cols, 0);
    const sg_area area = sg_area_of(s->rank, own, 0, held.rows, 0, held.cols);
    sg_sched_copy(s, 0, SG_BY_SMS, held);
    sg_sched_to(s, area);
    return area;
}

/* The vendor's product of all rows in their own order, A from buffer A and B from buffer B, into
 * buffer TO: one for each B. */
static void whole(sg_sched *s, int a, int b, int to, bool final)
{
    const sg_problem *const p = s->problem;
    const int64_t rows = sg_problem_rows(p, s->rank);
    sg_patch patch;
    const sg_patch all = {.rows = (int32_t)rows,
                          .cols = (int32_t)p->n,
                          .k1 = (int32_t)p->k,
                          .final = final,
                          .a = sg_area_of(s->rank, a, 0, rows, 0, p->k),
                          .b = sg_area_of(s->rank, b, 0, p->n, 0, p->k)};
    for (int i = 0; sg_moves_next_b(p, &all, i, &patch); i++) {
        sg_sched_launch(s, 0, (int32_t)sg_max(rows, 1), (int32_t)sg_max(patch.cols, 1), 0, true);
        sg_sched_patch(s, &patch);
        const sg_area out = sg_area_of(s->rank, to, 0, rows, patch.col0, patch.cols);
        if (to == SG_C)
            sg_moves_store(s, out);
        else
            sg_sched_to(s, out);
    }
}

/* Copies run by run the rows of all owners, of COLS columns, from PACKED, where they stand by
 * owner, to ORDERED, where they stand as the product has them; or BACK again. */
static void permute(sg_sched *s, int packed, int ordered, int64_t cols, bool back)
{
    const sg_problem *const p = s->problem;
    for (int q = 0; q < p->ranks; q++) {
        const sg_share *const share = &p->share[q];
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, s->rank, q, 0, share->rows);
             sg_piece_next(&it, &piece);) {
            const sg_area by_owner =
                sg_area_of(s->rank, packed, share->base + piece.own_row, piece.rows, 0, cols);
            const sg_area in_order = sg_area_of(s->rank, ordered, piece.row0, piece.rows, 0, cols);
            sg_sched_copy(s, 0, SG_BY_SMS, back ? in_order : by_owner);
            sg_sched_to(s, back ? by_owner : in_order);
        }
    }
}

/* The vendor's product reads and stores whole matrices.  Where packed and product order differ, and
 * nothing is put in order, a launch of our own with a patch per run of rows takes its place. */
static void launch(sg_sched *s, const sg_knobs *knobs)
{
    const sg_problem *const p = s->problem;
    const bool packed = sg_is_packed(p);
    sg_sched_launch(s, 0, packed ? (int32_t)sg_max(p->m, 1) : knobs->value[TILE_M],
                    packed ? (int32_t)sg_max(p->n, 1) : knobs->value[TILE_N], 0, packed);
}

/* Collectives take blocks that lie side by side, so what is gathered along k arrives as a block per
 * owner and is then put side by side. */
static void build_gather_k(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    const int blocks = sg_sched_buf(s, arena_of(knobs), "blocks", p->ranks * p->m, p->most_rows, 0);
    const int gathered = sg_moves_gathered(s, SG_LOCAL, 0);
    sg_sched_coll(s, 0, SG_ALL_GATHER, 0, sent(s, knobs, p->m, p->most_rows));
    for (int q = 0; q < p->ranks; q++)
        sg_sched_to(s, sg_area_of(rank, blocks, q * p->m, p->m, 0, p->share[q].rows));
    for (int q = 0; q < p->ranks; q++) {
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(p, rank, q, 0, p->k); sg_piece_next(&it, &piece);) {
            sg_sched_copy(s, 0, SG_BY_SMS,
                          sg_area_of(rank, blocks, q * p->m, p->m, piece.own_row, piece.rows));
            sg_sched_to(s, sg_area_of(rank, gathered, 0, p->m, piece.row0, piece.rows));
        }
    }
    whole(s, gathered, SG_B, SG_C, true);
}

/* The product of what has been gathered by owner, put in order: where it is returned, if it is. */
static void multiply_in_order(sg_sched *s, int gathered)
{
    const sg_problem *const p = s->problem;
    const bool of_b = p->gather == SG_GATHER_B;
    const int ordered = p->return_a
                            ? SG_RETURNED
                            : sg_sched_buf(s, SG_LOCAL, "ordered", of_b ? p->n : p->m, p->k, 0);
    permute(s, gathered, ordered, p->k, false);
    whole(s, of_b ? SG_A : ordered, of_b ? ordered : SG_B, SG_C, true);
}

static void build_gather(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    const bool exchange = sg_problem_in(p) == SG_IN_EXCHANGE;
    const sg_arena_kind arena = exchange ? SG_LIBRARY : arena_of(knobs);
    /* What is returned can arrive where it belongs, if that is in the product's order. */
    const bool direct = p->return_a && sg_is_packed(p) && arena == SG_LIBRARY;
    const int gathered = direct ? SG_RETURNED : sg_moves_gathered(s, arena, 0);
    if (exchange) {
        sg_sched_coll(s, 0, SG_ALL_TO_ALL, 0, sg_moves_held(s, rank));
        for (int q = 0; q < p->ranks; q++) sg_sched_to(s, sg_moves_held(s, q));
    } else {
        sg_sched_coll(s, 0, SG_ALL_GATHER, 0, sent(s, knobs, p->most_rows, p->k));
    }
    for (int q = 0; q < p->ranks; q++) sg_sched_to(s, sg_moves_arrived(s, rank, q, gathered));
    if (is_dealt(p) && knobs->value[PERMUTE]) {
        multiply_in_order(s, gathered);
        return;
    }
    if (p->b_count > 1 && sg_is_packed(p)) {
        whole(s, gathered, SG_B, SG_C, true);
        return;
    }
    launch(s, knobs);
    sg_moves_gathered_patches(s, 0, 1, 1, 0, gathered);
}

static bool has_epilogue(const sg_problem *p)
{
    return sg_problem_has_epilogue(p) || p->norm;
}

/* Bias, activation and norm belong behind the sum, which the library leaves in SUM. */
static void epilogue(const sg_problem *p, int rank, int sum, int64_t rows, sg_sched *s)
{
    if (rows == 0 || p->n == 0) return;
    if (p->norm) {
        sg_sched_norm(s, 0, 0, 0);
        sg_sched_patch(s, &(sg_patch){.rows = (int32_t)rows, .cols = (int32_t)p->n, .final = true});
    } else {
        sg_sched_reduce(s, 0, true);
    }
    sg_sched_add(s, sg_area_of(rank, sum, 0, rows, 0, p->n), NULL);
    sg_sched_to(s, sg_area_of(rank, SG_C, 0, rows, 0, p->n));
}

static void build_scatter(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    const int64_t rows = p->share[rank].rows;
    const sg_arena_kind arena = arena_of(knobs);
    const bool more = has_epilogue(p);
    const bool apart = more || arena == SG_WINDOWS;
    const int partial = sg_sched_buf(s, arena, "partial", p->m, p->n, 0);
    const int sum = apart ? sg_sched_buf(s, arena, "sum", p->most_rows, p->n, 0) : SG_C;
    if (is_dealt(p) && knobs->value[PERMUTE]) {
        const int product = sg_sched_buf(s, SG_LOCAL, "product", p->m, p->n, 0);
        whole(s, SG_A, SG_B, product, false);
        permute(s, partial, product, p->n, true);
    } else {
        launch(s, knobs);
        sg_moves_slice_patches(s, 0, 1, 1, 0, partial, false);
    }
    sg_sched_coll(s, 0, SG_REDUCE_SCATTER, 0, sg_area_of(rank, sum, 0, rows, 0, p->n));
    for (int q = 0; q < p->ranks; q++)
        sg_sched_to(s, sg_area_of(rank, partial, p->share[q].base, p->share[q].rows, 0, p->n));
    if (more) epilogue(p, rank, sum, rows, s);
    if (more || !apart) return;
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(rank, sum, 0, rows, 0, p->n));
    sg_sched_to(s, sg_area_of(rank, SG_C, 0, rows, 0, p->n));
}

static void build_all(const sg_problem *p, int rank, sg_sched *s)
{
    const bool more = has_epilogue(p);
    const int sum = more ? sg_sched_buf(s, SG_LIBRARY, "sum", p->m, p->n, 0) : SG_C;
    whole(s, SG_A, SG_B, sum, false);
    sg_sched_coll(s, 0, SG_ALL_REDUCE, 0, sg_area_of(rank, sum, 0, p->m, 0, p->n));
    if (more) epilogue(p, rank, sum, p->m, s);
}

static void build_exchange(const sg_problem *p, int rank, sg_sched *s)
{
    const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", sg_problem_rows(p, rank), p->n, 0);
    whole(s, SG_A, SG_B, partial, true);
    sg_sched_coll(s, 0, SG_ALL_TO_ALL, 0, (sg_area){0});
    for (int q = 0; q < p->ranks; q++) {
        const sg_part part = sg_problem_part(p, rank, q);
        sg_sched_to(s, sg_area_of(rank, partial, part.base, part.rows, 0, p->n));
    }
    for (int q = 0; q < p->ranks; q++) {
        const sg_part part = sg_problem_part(p, q, rank);
        sg_sched_to(s, sg_area_of(rank, SG_C, part.held, part.rows, 0, p->n));
    }
}

static void build(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    if (p->gather == SG_GATHER_K)
        build_gather_k(p, knobs, rank, s);
    else if (sg_problem_in(p) != SG_IN_NONE)
        build_gather(p, knobs, rank, s);
    else if (sg_problem_out(p) == SG_OUT_SCATTER)
        build_scatter(p, knobs, rank, s);
    else if (sg_problem_out(p) == SG_OUT_ALL)
        build_all(p, rank, s);
    else if (sg_problem_out(p) == SG_OUT_EXCHANGE)
        build_exchange(p, rank, s);
    else
        whole(s, SG_A, SG_B, SG_C, true);
}

const sg_strategy sg_strategy_serial = {
    .name = "serial",
    .brief = "product and collective one after the other; the baseline",
    .knob = {[TILE_M] = {"tile_m", 1, 4096},
             [TILE_N] = {"tile_n", 1, 4096},
             [WINDOWS] = {"windows", 0, 1},
             [PERMUTE] = {"permute", 0, 1}},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
