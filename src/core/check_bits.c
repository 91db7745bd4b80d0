/* check_bits.c -- what schedules do to values that stand for how they were made (bits.h), and the
 * order in which a reproducible plan makes them (docs/reproducible.md). */
#include <string.h>

#include "core/bits.h"
#include "core/check_state.h"

/* ---- Steps ----------------------------------------------------------------------------------- */

/* The patch that EVENT visits; NULL: it is no visit. */
static const sg_patch *patch_of(const sg_checker *ck, int32_t event)
{
    const sg_event *const e = &ck->event[event];
    return e->patch >= 0 ? &ck->sched[e->rank].patch[e->patch] : NULL;
}

static unsigned facts_of(const sg_checker *ck, int32_t event, const sg_patch *patch)
{
    const sg_event *const e = &ck->event[event];
    const sg_launch *const launch = &ck->sched[e->rank].step[e->step].u.launch;
    const bool whole = patch->k0 == 0 && patch->k1 == ck->problem->k;
    return (launch->vendor ? SG_BITS_VENDOR : 0u) | (whole ? 0u : SG_BITS_PARTS) |
           (patch->more > 0 ? SG_BITS_SUM : 0u);
}

void sg_check_bits_multiply(sg_checker *ck, int32_t event, const sg_touch *b)
{
    const sg_touch *const a = b - 1;
    const unsigned facts = facts_of(ck, event, patch_of(ck, event));
    const int32_t cols = b->area.rows;
    for (int32_t i = 0; i < a->area.rows; i++) {
        const uint64_t *const x = &ck->value[sg_check_cell(ck, a, i)];
        for (int32_t j = 0; j < cols; j++) {
            const uint64_t *const y = &ck->value[sg_check_cell(ck, b, j)];
            uint64_t *const sum = &ck->sum[(int64_t)i * cols + j];
            for (int32_t k = 0; k < a->area.cols; k++) *sum = sg_bits_chain(*sum, x[k], y[k]);
            *sum = sg_bits_mark(*sum, facts);
        }
    }
}

static uint64_t rounded(const sg_checker *ck, uint64_t value)
{
    return ck->problem->type == SG_F32 ? value : sg_bits_round(value);
}

/* The product of EVENT, in the sum so far, becomes as its patch says that addends find it. */
static void set_own(sg_checker *ck, const sg_patch *patch, int64_t cells)
{
    for (int64_t i = 0; i < cells && patch->own_rounded; i++) ck->sum[i] = rounded(ck, ck->sum[i]);
    if (patch->own_at == 0) return;
    memcpy(ck->own, ck->sum, (size_t)cells * sizeof *ck->own);
    memset(ck->sum, 0, (size_t)cells * sizeof *ck->sum);
}

void sg_check_bits_add(sg_checker *ck, int32_t event, const sg_touch *addend, int32_t index)
{
    const sg_patch *const patch = patch_of(ck, event);
    const int32_t cols = addend->area.cols;
    const int64_t cells = (int64_t)addend->area.rows * cols;
    const bool product = patch != NULL && patch->k0 < patch->k1;
    if (product && index == 0) set_own(ck, patch, cells);
    for (int32_t i = 0; i < addend->area.rows; i++) {
        const uint64_t *const value = &ck->value[sg_check_cell(ck, addend, i)];
        uint64_t *const sum = &ck->sum[(int64_t)i * cols];
        for (int32_t j = 0; j < cols; j++) sum[j] = sg_bits_add(sum[j], value[j]);
    }
    if (!product || index + 1 != patch->own_at) return;
    for (int64_t i = 0; i < cells; i++) ck->sum[i] = sg_bits_add(ck->sum[i], ck->own[i]);
}

uint64_t sg_check_bits_stored(const sg_checker *ck, const sg_touch *to, uint64_t value)
{
    const bool wide = to != NULL && ck->sched[to->rank].buf[to->buf].wide;
    return wide ? value : rounded(ck, value);
}

uint64_t sg_check_bits_finish(const sg_checker *ck, uint64_t value, uint64_t bias)
{
    return sg_bits_activate(sg_bits_add(value, bias), (int)ck->problem->act);
}

/* What C would hold is rounded, and the sum again. */
uint64_t sg_check_bits_residual(const sg_checker *ck, uint64_t value, uint64_t residual)
{
    return rounded(ck, sg_bits_add(rounded(ck, value), residual));
}

/* ---- The order that is asked for ------------------------------------------------------------- */

/* One accumulator over cells [FROM, TO) of k. */
static uint64_t chain(const uint64_t *a, const uint64_t *b, int32_t from, int32_t to)
{
    uint64_t sum = 0;
    for (int32_t k = from; k < to; k++) sum = sg_bits_chain(sum, a[k], b[k]);
    return sum;
}

/* A product whose k arrives from several ranks: one accumulator for every run of k that
 * one of them holds side by side, RANK's own first, then those of the ranks behind it,
 * each added to the ones before. */
static uint64_t sum_of_parts(const sg_checker *ck, int rank, const uint64_t *a, const uint64_t *b)
{
    const sg_problem *const p = ck->problem;
    const int axis = 2 * SG_B + 1;
    uint64_t sum = 0;
    for (int i = 0; i < p->ranks; i++) {
        const int owner = (rank + i) % p->ranks;
        for (int32_t at = p->share[owner].first; at >= 0; at = p->segments[at].next) {
            const sg_segment *const g = &p->segments[at];
            const int32_t from = sg_check_cells_before(ck, axis, g->row0);
            const int32_t to = sg_check_cells_before(ck, axis, g->row0 + g->rows);
            const unsigned facts = g->rows == p->k ? 0u : SG_BITS_PARTS;
            sum = sg_bits_add(sg_bits_mark(chain(a, b, from, to), facts), sum);
        }
    }
    return sum;
}

/* What ranks add up is rounded on its way, and so is what does not have to travel: which part of a
 * sum that is depends on who owns the row, and that on how many rows there are. */
uint64_t sg_check_bits_product(const sg_checker *ck, int rank, const uint64_t *a, const uint64_t *b,
                               int32_t depth)
{
    const sg_problem *const p = ck->problem;
    if (p->gather == SG_GATHER_K) return sum_of_parts(ck, rank, a, b);
    const uint64_t sum = chain(a, b, 0, depth);
    return sg_problem_sums(p) && p->ranks > 1 ? rounded(ck, sum) : sum;
}
