/* serial.c -- no overlap: the vendor's product and the library's collective, one after the other.
 *
 *     gather   lane 0:  all-gather or all-to-all | gemm
 *     scatter  lane 0:  gemm | reduce-scatter [| epilogue or norm]
 *     all      lane 0:  gemm | all-reduce     [| epilogue or norm]
 *     exchange lane 0:  gemm | all-to-all
 *
 * The baseline and the fallback: it serves every problem.  Everything of the shorter part is
 * exposed.  With windows=1 both ends of a gather or scatter lie where the library knows them at all
 * ranks, and may be faster: the own part of A is copied there, or the sum from there.
 */
#include "core/moves.h"
#include "core/strategy.h"

/* Tiles are used where the rows of an owner are scattered, see launch(). */
enum { TILE_M, TILE_N, WINDOWS };

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

static int propose(const sg_problem *problem, const sg_machine *machine, sg_knobs *sets,
                   sg_text *why)
{
    (void)why;
    sets[0].value[TILE_M] = machine->tile[0].m;
    sets[0].value[TILE_N] = machine->tile[0].n;
    sets[0].value[WINDOWS] = 0;
    if (!has_windows(problem, machine)) return 1;
    sets[1] = sets[0];
    sets[1].value[WINDOWS] = 1;
    return 2;
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

/* The vendor's product of all rows in their own order, A from buffer FROM, into
 * buffer TO: one for each B. */
static void whole(sg_sched *s, int from, int to, bool final)
{
    const sg_problem *const p = s->problem;
    const int64_t rows = sg_problem_rows(p, s->rank);
    sg_patch patch;
    const sg_patch all = {.rows = (int32_t)rows,
                          .cols = (int32_t)p->n,
                          .k1 = (int32_t)p->k,
                          .final = final,
                          .a = sg_area_of(s->rank, from, 0, rows, 0, p->k),
                          .b = sg_area_of(s->rank, SG_B, 0, p->n, 0, p->k)};
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

/* The vendor's product reads and stores whole matrices.  Where packed and product order differ
 * (cyclic rows), a launch of our own with a patch per run of rows takes its place. */
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
    whole(s, gathered, SG_C, true);
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
    if (p->b_count > 1 && sg_is_packed(p)) {
        whole(s, gathered, SG_C, true);
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
    launch(s, knobs);
    sg_moves_slice_patches(s, 0, 1, 1, 0, partial, false);
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
    whole(s, SG_A, sum, false);
    sg_sched_coll(s, 0, SG_ALL_REDUCE, 0, sg_area_of(rank, sum, 0, p->m, 0, p->n));
    if (more) epilogue(p, rank, sum, p->m, s);
}

static void build_exchange(const sg_problem *p, int rank, sg_sched *s)
{
    const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", sg_problem_rows(p, rank), p->n, 0);
    whole(s, SG_A, partial, true);
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
        whole(s, SG_A, SG_C, true);
}

const sg_strategy sg_strategy_serial = {
    .name = "serial",
    .brief = "product and collective one after the other; the baseline",
    .knob = {"tile_m", "tile_n", "windows"},
    .least = {1, 1, 0},
    .most = {4096, 4096, 1},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
