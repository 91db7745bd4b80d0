/* check_cells.c -- elements that nothing tells apart become one cell.
 *
 * Rows and columns of every buffer id are an axis.  An access cuts its axes where its area begins
 * and ends.  A copy, a sum, a collective or a product couples axes: a cut of one is a cut of the
 * other at the same distance.  Once no coupling adds a cut, every cell that is written comes from
 * exactly one cell of each source, so what is proved for a cell is proved for each of its elements.
 *
 * Couplings with the same shift are held as one, over the range that spans them all; a cut too many
 * costs a cell and is never wrong. */
#include <string.h>

#include "core/check_state.h"

static const int64_t most_positions = INT64_C(1) << 28; /* of all axes together: 32 MiB of cuts */
static const int64_t most_cells = INT64_C(1) << 27;     /* 1.6 GiB of values and writers */

/* ---- Cuts ------------------------------------------------------------------------------------ */

static void set_cut(sg_checker *ck, int axis, int64_t at)
{
    ck->cuts[ck->axis[axis].word0 + (at >> 6)] |= UINT64_C(1) << (at & 63);
}

shingle_status sg_check_axes(sg_checker *ck)
{
    memset(ck->axis, 0, sizeof ck->axis);
    for (int r = 0; r < ck->ranks; r++) {
        for (int b = 0; b < ck->sched[r].bufs; b++) {
            const sg_buf *const buf = &ck->sched[r].buf[b];
            ck->axis[2 * b].extent = sg_max(ck->axis[2 * b].extent, buf->rows);
            ck->axis[2 * b + 1].extent = sg_max(ck->axis[2 * b + 1].extent, buf->cols);
        }
    }
    int64_t words = 0;
    for (int i = 0; i < SG_AXES; i++) {
        ck->axis[i].word0 = words;
        ck->axis[i].words = ck->axis[i].extent / 64 + 1;
        words += ck->axis[i].words + 1; /* one more, so that 64 bits can be read from any bit on */
    }
    if (words > most_positions / 64)
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "%lld rows and columns of all buffers are too many to be checked; %lld are "
                       "possible",
                       (long long)words * 64, (long long)most_positions);
    SG_ROOM(ck, cuts, cut_room, words);
    SG_ROOM(ck, before, before_room, words);
    memset(ck->cuts, 0, (size_t)words * sizeof *ck->cuts);
    for (int r = 0; r < ck->ranks; r++) {
        for (int b = 0; b < ck->sched[r].bufs; b++) {
            set_cut(ck, 2 * b, ck->sched[r].buf[b].rows);
            set_cut(ck, 2 * b + 1, ck->sched[r].buf[b].cols);
        }
    }
    for (int i = 0; i < SG_AXES; i++) set_cut(ck, i, 0);

    ck->couplings = 0;
    SG_ROOM(ck, coupled, coupled_room, 64);
    ck->coupled_mask = 63;
    memset(ck->coupled, 0xff, 64 * sizeof *ck->coupled);
    return SHINGLE_OK;
}

void sg_check_cut(sg_checker *ck, const sg_touch *a)
{
    for (int i = 0; i < 2; i++) {
        set_cut(ck, 2 * a->buf + i, a->axis[i].first);
        set_cut(ck, 2 * a->buf + i, (int64_t)a->axis[i].first + a->axis[i].count);
    }
}

/* ---- Couplings ------------------------------------------------------------------------------- */

static uint32_t slot_of(const sg_checker *ck, int one, int other, int64_t shift)
{
    const uint64_t key = (uint64_t)shift * 2048 + (uint64_t)(one * SG_AXES + other);
    return (uint32_t)sg_mix(key) & ck->coupled_mask;
}

static shingle_status more_slots(sg_checker *ck)
{
    const int64_t slots = 4 * ((int64_t)ck->coupled_mask + 1);
    SG_ROOM(ck, coupled, coupled_room, slots);
    ck->coupled_mask = (uint32_t)slots - 1;
    memset(ck->coupled, 0xff, (size_t)slots * sizeof *ck->coupled);
    for (int32_t i = 0; i < ck->couplings; i++) {
        const sg_coupling *const c = &ck->coupling[i];
        uint32_t slot = slot_of(ck, c->one, c->other, c->shift);
        while (ck->coupled[slot] >= 0) slot = (slot + 1) & ck->coupled_mask;
        ck->coupled[slot] = i;
    }
    return SHINGLE_OK;
}

/* Positions [low, high] of ONE go with those SHIFT further on of OTHER. */
static shingle_status couple(sg_checker *ck, int one, int other, int64_t low, int64_t high,
                             int64_t shift)
{
    if (one > other) return couple(ck, other, one, low + shift, high + shift, -shift);
    if (high <= low || (one == other && shift == 0)) return SHINGLE_OK;
    uint32_t slot = slot_of(ck, one, other, shift);
    for (; ck->coupled[slot] >= 0; slot = (slot + 1) & ck->coupled_mask) {
        sg_coupling *const c = &ck->coupling[ck->coupled[slot]];
        if (c->one != one || c->other != other || c->shift != shift) continue;
        c->low = sg_min(c->low, low);
        c->high = sg_max(c->high, high);
        return SHINGLE_OK;
    }
    SG_ROOM(ck, coupling, coupling_room, ck->couplings + 1);
    ck->coupling[ck->couplings] = (sg_coupling){one, other, shift, low, high};
    ck->coupled[slot] = ck->couplings++;
    return 2 * (int64_t)ck->couplings > ck->coupled_mask ? more_slots(ck) : SHINGLE_OK;
}

shingle_status sg_check_couple(sg_checker *ck, const sg_touch *one, int one_axis,
                               const sg_touch *other, int other_axis)
{
    const int32_t low = one->axis[one_axis].first;
    if (one->axis[one_axis].count < 2) return SHINGLE_OK; /* both ends are cut already */
    return couple(ck, 2 * one->buf + one_axis, 2 * other->buf + other_axis, low,
                  (int64_t)low + one->axis[one_axis].count,
                  (int64_t)other->axis[other_axis].first - low);
}

/* Positions [one, one + COUNT) of an axis are, by what a problem is, those of another; what stands
 * beside them is something else, so both ends are cut. */
static shingle_status tie(sg_checker *ck, int axis, int64_t one, int other_axis, int64_t other,
                          int64_t count)
{
    if (count == 0) return SHINGLE_OK;
    set_cut(ck, axis, one);
    set_cut(ck, axis, one + count);
    set_cut(ck, other_axis, other);
    set_cut(ck, other_axis, other + count);
    return couple(ck, axis, other_axis, one, one + count, other - one);
}

/* The rows of the owners on axis OWNED are rows, columns or k of the product on axis WHOLE. */
static shingle_status tie_segments(sg_checker *ck, int owned, int whole)
{
    const sg_problem *const p = ck->problem;
    for (int32_t i = 0; i < p->segment_count; i++) {
        const sg_segment *const g = &p->segments[i];
        SG_TRY(tie(ck, owned, g->own_row, whole, g->row0, g->rows));
    }
    return SHINGLE_OK;
}

/* All-to-all: rows of every pair of ranks. */
static shingle_status tie_pairs(sg_checker *ck, int owned, int whole)
{
    const sg_problem *const p = ck->problem;
    for (int r = 0; r < p->ranks; r++) {
        for (int q = 0; q < p->ranks; q++) {
            const sg_part part = sg_problem_part(p, r, q);
            SG_TRY(tie(ck, owned, part.held, whole, part.base, part.rows));
        }
    }
    return SHINGLE_OK;
}

/* Rows that A, B and C have in common by what a product is. */
static shingle_status couple_tensors(sg_checker *ck)
{
    enum {
        A = 2 * SG_A,
        B = 2 * SG_B,
        C = 2 * SG_C,
        BIAS = 2 * SG_BIAS,
        RETURNED = 2 * SG_RETURNED,
        RESIDUAL = 2 * SG_RESIDUAL,
        GAIN = 2 * SG_GAIN
    };
    const sg_problem *const p = ck->problem;
    const sg_in in = sg_problem_in(p);
    const sg_out out = sg_problem_out(p);
    SG_TRY(p->gather == SG_GATHER_K ? tie_segments(ck, A + 1, B + 1)
                                    : tie(ck, A + 1, 0, B + 1, 0, p->k));
    SG_TRY(p->gather == SG_GATHER_B ? tie_segments(ck, B, C + 1) : tie(ck, B, 0, C + 1, 0, p->n));
    SG_TRY(tie(ck, C + 1, 0, BIAS + 1, 0, p->n));
    if (p->return_a) {
        SG_TRY(tie(ck, RETURNED, 0, C, 0, p->m));
        SG_TRY(tie(ck, RETURNED + 1, 0, B + 1, 0, p->k));
    }
    if (p->norm) {
        for (int r = 0; r < ck->ranks; r++)
            SG_TRY(tie(ck, RESIDUAL, 0, C, 0, sg_problem_c_rows(p, r)));
        SG_TRY(tie(ck, RESIDUAL + 1, 0, C + 1, 0, p->n));
        SG_TRY(tie(ck, GAIN + 1, 0, C + 1, 0, p->n));
    }
    if (in == SG_IN_EXCHANGE) return tie_pairs(ck, A, C);
    if (out == SG_OUT_EXCHANGE) return tie_pairs(ck, C, A);
    if (in == SG_IN_GATHER && p->gather == SG_GATHER_A) return tie_segments(ck, A, C);
    if (out == SG_OUT_SCATTER) return tie_segments(ck, C, A);
    return tie(ck, A, 0, C, 0, p->m);
}

/* 64 bits from bit AT on. */
static uint64_t bits_at(const uint64_t *bits, int64_t at)
{
    const int shift = (int)(at & 63);
    const uint64_t low = bits[at >> 6] >> shift;
    return shift ? low | bits[(at >> 6) + 1] << (64 - shift) : low;
}

static void or_bits(uint64_t *bits, int64_t at, uint64_t more)
{
    const int shift = (int)(at & 63);
    bits[at >> 6] |= more << shift;
    if (shift) bits[(at >> 6) + 1] |= more >> (64 - shift);
}

static void spread(sg_checker *ck, const sg_coupling *c)
{
    uint64_t *const one = &ck->cuts[ck->axis[c->one].word0];
    uint64_t *const other = &ck->cuts[ck->axis[c->other].word0];
    for (int64_t at = c->low; at <= c->high; at += 64) {
        const int64_t left = c->high - at + 1;
        const uint64_t mask = left < 64 ? (UINT64_C(1) << left) - 1 : ~UINT64_C(0);
        const uint64_t a = bits_at(one, at) & mask;
        const uint64_t b = bits_at(other, at + c->shift) & mask;
        if (a == b) continue;
        if (a != (a | b)) {
            or_bits(one, at, b);
            ck->axis[c->one].changes = true;
        }
        if (b != (a | b)) {
            or_bits(other, at + c->shift, a);
            ck->axis[c->other].changes = true;
        }
    }
}

static void spread_all(sg_checker *ck)
{
    for (int i = 0; i < SG_AXES; i++) ck->axis[i].changed = true;
    for (bool again = true; again;) {
        for (int i = 0; i < SG_AXES; i++) ck->axis[i].changes = false;
        for (int32_t i = 0; i < ck->couplings; i++) {
            const sg_coupling *const c = &ck->coupling[i];
            const sg_axis *const one = &ck->axis[c->one];
            const sg_axis *const other = &ck->axis[c->other];
            if (one->changed || other->changed || one->changes || other->changes) spread(ck, c);
        }
        again = false;
        for (int i = 0; i < SG_AXES; i++) {
            ck->axis[i].changed = ck->axis[i].changes;
            again |= ck->axis[i].changes;
        }
    }
}

/* ---- Cells ----------------------------------------------------------------------------------- */

/* Numbers the cells of every axis. */
static shingle_status number(sg_checker *ck)
{
    ck->places = 0;
    for (int i = 0; i < SG_AXES; i++) {
        sg_axis *const axis = &ck->axis[i];
        int32_t cuts = 0;
        for (int64_t w = axis->word0; w < axis->word0 + axis->words; w++) {
            ck->before[w] = cuts;
            cuts += __builtin_popcountll(ck->cuts[w]);
        }
        SG_ROOM(ck, place, place_room, (int64_t)ck->places + cuts);
        axis->place0 = ck->places;
        axis->cells = cuts - 1;
        for (int64_t w = 0; w < axis->words; w++)
            for (uint64_t bits = ck->cuts[axis->word0 + w]; bits != 0; bits &= bits - 1)
                ck->place[ck->places++] = (int32_t)(64 * w + __builtin_ctzll(bits));
    }
    return SHINGLE_OK;
}

/* Cells in front of position AT, which is a cut. */
int32_t sg_check_cells_before(const sg_checker *ck, int axis, int64_t at)
{
    const int64_t word = ck->axis[axis].word0 + (at >> 6);
    const uint64_t mask = (UINT64_C(1) << (at & 63)) - 1;
    return ck->before[word] + __builtin_popcountll(ck->cuts[word] & mask);
}

static shingle_status lay_out(sg_checker *ck)
{
    int64_t cells = 0;
    SG_ROOM(ck, grid, grid_room, (int64_t)ck->ranks * SG_MAX_BUFS);
    for (int r = 0; r < ck->ranks; r++) {
        for (int b = 0; b < ck->sched[r].bufs; b++) {
            const sg_buf *const buf = &ck->sched[r].buf[b];
            sg_grid *const grid = &ck->grid[r * SG_MAX_BUFS + b];
            grid->cell0 = cells;
            grid->rows = sg_check_cells_before(ck, 2 * b, buf->rows);
            grid->cols = sg_check_cells_before(ck, 2 * b + 1, buf->cols);
            cells += (int64_t)grid->rows * grid->cols;
        }
    }
    if (cells > most_cells)
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "%lld cells are too many to be checked; %lld are possible", (long long)cells,
                       (long long)most_cells);
    ck->cells = cells;
    SG_ROOM(ck, value, value_room, cells);
    SG_ROOM(ck, writer, writer_room, cells);
    memset(ck->writer, 0, (size_t)cells * sizeof *ck->writer);
    if (ck->in_place) {
        SG_ROOM(ck, seen, seen_room, cells);
        memset(ck->seen, 0, (size_t)cells);
    }
    return SHINGLE_OK;
}

shingle_status sg_check_cells(sg_checker *ck)
{
    SG_TRY(couple_tensors(ck));
    spread_all(ck);
    SG_TRY(number(ck));
    SG_TRY(lay_out(ck));
    int64_t most = 1;
    for (int32_t i = 0; i < ck->touches; i++) {
        sg_touch *const r = &ck->touch[i];
        if (!sg_check_is_area(r)) continue;
        for (int a = 0; a < 2; a++) {
            const int axis = 2 * r->buf + a;
            const int64_t end = (int64_t)r->axis[a].first + r->axis[a].count;
            const int32_t first = sg_check_cells_before(ck, axis, r->axis[a].first);
            r->axis[a].first = first;
            r->axis[a].count = sg_check_cells_before(ck, axis, end) - first;
        }
        r->celled = true;
        most = sg_max(most, (int64_t)r->area.rows * r->area.cols);
    }
    SG_ROOM(ck, sum, sum_room, most);
    if (ck->bits) SG_ROOM(ck, own, own_room, most);
    return SHINGLE_OK;
}
