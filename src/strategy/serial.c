/* serial.c -- no overlap: the vendor's product and the library's collective, one after the other.
 *
 *     gather   lane 0:  all-gather | gemm
 *     scatter  lane 0:  gemm | reduce-scatter [| epilogue]
 *     all      lane 0:  gemm | all-reduce     [| epilogue]
 *
 * The baseline and the fallback: it serves every problem.  Everything of the shorter part is
 * exposed.
 */
#include "core/moves.h"
#include "core/strategy.h"

enum { TILE_M, TILE_N }; /* used where the rows of an owner are scattered, see launch() */

static bool accepts(const sg_problem *problem, sg_text *why)
{
    (void)problem;
    (void)why;
    return true;
}

static int propose(const sg_problem *problem, const sg_machine *machine, sg_knobs *sets,
                   sg_text *why)
{
    (void)problem;
    (void)why;
    sets[0].value[TILE_M] = machine->tile[0].m;
    sets[0].value[TILE_N] = machine->tile[0].n;
    return 1;
}

/* All rows of the product in their own order, into buffer TO. */
static void whole(sg_sched *s, int to, bool final)
{
    const sg_problem *const p = s->problem;
    sg_sched_launch(s, 0, (int32_t)sg_max(p->m, 1), (int32_t)sg_max(p->n, 1), 0, true);
    const sg_patch patch = {.rows = (int32_t)p->m,
                            .cols = (int32_t)p->n,
                            .k1 = (int32_t)p->k,
                            .final = final,
                            .a = sg_area_of(s->rank, SG_A, 0, p->m, 0, p->k),
                            .b = sg_area_of(s->rank, SG_B, 0, p->n, 0, p->k)};
    sg_sched_patch(s, &patch);
    sg_sched_to(s, sg_area_of(s->rank, to, 0, p->m, 0, p->n));
}

/* The vendor's product reads and stores whole matrices.  Where packed and product order differ
 * (cyclic rows), a launch of our own with a patch per run of rows takes its place. */
static void launch(sg_sched *s, const sg_knobs *knobs, int packed_a, int packed_to, bool final)
{
    const sg_problem *const p = s->problem;
    const bool packed = sg_is_packed(p);
    const int32_t tile_m = packed ? (int32_t)sg_max(p->m, 1) : knobs->value[TILE_M];
    const int32_t tile_n = packed ? (int32_t)sg_max(p->n, 1) : knobs->value[TILE_N];
    sg_sched_launch(s, 0, tile_m, tile_n, 0, packed);
    sg_moves_slice_patches(s, 0, 1, tile_m, 0, packed_a, packed_to, final);
}

static void build_gather(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    const int gathered = sg_sched_buf(s, SG_LIBRARY, "gathered", p->m, p->k, 0);
    sg_sched_coll(s, 0, SG_ALL_GATHER, 0, sg_area_of(rank, SG_A, 0, p->share[rank].rows, 0, p->k));
    for (int q = 0; q < p->ranks; q++)
        sg_sched_to(s, sg_area_of(rank, gathered, p->share[q].base, p->share[q].rows, 0, p->k));
    launch(s, knobs, gathered, -1, true);
}

/* Bias and activation belong behind the sum, which the library leaves in SUM. */
static void epilogue(const sg_problem *p, int rank, int sum, int64_t rows, sg_sched *s)
{
    if (rows == 0 || p->n == 0) return;
    sg_sched_reduce(s, 0, true);
    sg_sched_add(s, sg_area_of(rank, sum, 0, rows, 0, p->n), NULL);
    sg_sched_to(s, sg_area_of(rank, SG_C, 0, rows, 0, p->n));
}

static void build_scatter(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    const int64_t rows = p->share[rank].rows;
    const bool more = sg_problem_has_epilogue(p);
    const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", p->m, p->n, 0);
    const int sum = more ? sg_sched_buf(s, SG_LIBRARY, "sum", rows, p->n, 0) : SG_C;
    launch(s, knobs, -1, partial, false);
    sg_sched_coll(s, 0, SG_REDUCE_SCATTER, 0, sg_area_of(rank, sum, 0, rows, 0, p->n));
    for (int q = 0; q < p->ranks; q++)
        sg_sched_to(s, sg_area_of(rank, partial, p->share[q].base, p->share[q].rows, 0, p->n));
    if (more) epilogue(p, rank, sum, rows, s);
}

static void build_all(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    const bool more = sg_problem_has_epilogue(p);
    const int sum = more ? sg_sched_buf(s, SG_LIBRARY, "sum", p->m, p->n, 0) : SG_C;
    whole(s, sum, false);
    sg_sched_coll(s, 0, SG_ALL_REDUCE, 0, sg_area_of(rank, sum, 0, p->m, 0, p->n));
    if (more) epilogue(p, rank, sum, p->m, s);
    (void)knobs;
}

static void build(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    if (sg_problem_in(p) == SG_IN_GATHER)
        build_gather(p, knobs, rank, s);
    else if (sg_problem_out(p) == SG_OUT_SCATTER)
        build_scatter(p, knobs, rank, s);
    else if (sg_problem_out(p) == SG_OUT_ALL)
        build_all(p, knobs, rank, s);
    else
        whole(s, SG_C, true);
}

const sg_strategy sg_strategy_serial = {
    .name = "serial",
    .brief = "product and collective one after the other; the baseline",
    .knob = {"tile_m", "tile_n"},
    .least = {1, 1},
    .most = {4096, 4096},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
