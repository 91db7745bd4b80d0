/* owners.c -- see owners.h.
 *
 * A visit knows its place in the product, and the problem says who owns that.  A copy knows only
 * areas; the patches of the same schedule that read or write them say which part of the product
 * they stand for.  Where none does, the movement of the operator decides: what arrives is its
 * sender's, what leaves is its receiver's. */
#include "core/owners.h"

#include <stdlib.h>

enum { NOT_FOUND = -2 }; /* as the one owner */

int sg_owners_slot(const sg_problem *problem, int owner)
{
    if (problem->ranks <= SG_OWNER_SLOTS) return owner;
    return (int)((int64_t)owner * SG_OWNER_SLOTS / problem->ranks);
}

void sg_owners_add(const sg_problem *problem, int owner, sg_owners *set)
{
    set->one = set->mask == 0 || set->one == owner ? owner : -1;
    set->mask |= UINT64_C(1) << sg_owners_slot(problem, owner);
}

static void add_all(const sg_problem *p, sg_owners *set)
{
    for (int q = 0; q < p->ranks; q++) sg_owners_add(p, q, set);
}

/* ---- Places in the product ------------------------------------------------------------------- */

/* Segments that [X, X + COUNT) of the axis that moves touches. */
static void add_segments(const sg_problem *p, int64_t x, int64_t count, sg_owners *set)
{
    int32_t low = 0;
    int32_t high = p->segment_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const sg_segment *const g = &p->segments[middle];
        if (g->row0 + g->rows <= x)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->segment_count && p->segments[low].row0 < x + count; low++)
        sg_owners_add(p, p->segments[low].owner, set);
}

static void add_parts(const sg_problem *p, int rank, int64_t x, int64_t count, sg_owners *set)
{
    for (int q = 0; q < p->ranks; q++) {
        const sg_part part = sg_problem_part(p, rank, q);
        const bool any = part.rows > 0; /* an empty one may stand amid the rows of others */
        if (any && part.base < x + count && x < part.base + part.rows) sg_owners_add(p, q, set);
    }
}

/* Owners of a place of RANK's product. */
static void add_place(const sg_problem *p, int rank, const sg_visit *v, sg_owners *set)
{
    if (sg_problem_in(p) == SG_IN_EXCHANGE || sg_problem_out(p) == SG_OUT_EXCHANGE)
        add_parts(p, rank, v->row0, v->rows, set);
    else if (sg_problem_in(p) == SG_IN_NONE && sg_problem_out(p) == SG_OUT_NONE)
        sg_owners_add(p, rank, set);
    else if (p->gather == SG_GATHER_B)
        add_segments(p, v->col0, v->cols, set);
    else if (p->gather == SG_GATHER_K)
        add_segments(p, v->k0, v->k1 - v->k0, set);
    else
        add_segments(p, v->row0, v->rows, set);
}

/* A sum that no product goes into stands at rows of what it stores: its owner's own, unless all
 * ranks get all rows. */
static bool is_own_sum(const sg_sched *s, const sg_patch *patch)
{
    return patch->k0 == patch->k1 && s->problem->k > 0 && sg_problem_out(s->problem) != SG_OUT_ALL;
}

static void add_visit(const sg_sched *s, const sg_visit *visit, sg_owners *set)
{
    const sg_patch *const first = &s->patch[visit->patch];
    if (is_own_sum(s, first)) {
        sg_owners_add(s->problem, s->rank, set);
        return;
    }
    add_place(s->problem, s->rank, visit, set);
    for (const sg_patch *p = first + 1; p <= first + first->more; p++) {
        sg_visit rest = *visit;
        rest.k0 = p->k0;
        rest.k1 = p->k1;
        add_place(s->problem, s->rank, &rest, set);
    }
}

sg_owners sg_owners_of_visit(const sg_sched *s, const sg_visit *visit)
{
    sg_owners set = {0, -1};
    if (visit->patch >= 0 && visit->patch < s->patches) add_visit(s, visit, &set);
    return set;
}

sg_owners sg_owners_of_visits(const sg_sched *s, int32_t step, int32_t patch, int32_t index,
                              int32_t count)
{
    sg_owners set = {0, -1};
    const sg_launch *const launch = &s->step[step].u.launch;
    const int32_t visits = sg_sched_patch_visits(s, launch, patch);
    const int32_t end = count < visits - index ? index + count : visits;
    for (int32_t i = index; i < end; i++) {
        sg_visit visit;
        sg_sched_patch_visit(s, launch, patch, i, &visit);
        add_visit(s, &visit, &set);
    }
    return set;
}

/* ---- Areas ----------------------------------------------------------------------------------- */

/* The common part of two areas of one rank's buffer. */
static bool overlap(const sg_area *a, const sg_area *b, sg_area *common)
{
    *common = *a;
    if (a->rank != b->rank || a->buf != b->buf || a->tiled || b->tiled) return false;
    common->row0 = a->row0 > b->row0 ? a->row0 : b->row0;
    common->col0 = a->col0 > b->col0 ? a->col0 : b->col0;
    common->rows = sg_walk_min(a->row0 + a->rows, b->row0 + b->rows) - common->row0;
    common->cols = sg_walk_min(a->col0 + a->cols, b->col0 + b->cols) - common->col0;
    return common->rows > 0 && common->cols > 0;
}

/* Which places of the product AREA stands for, as operand or result of a patch. */
static void add_area_of_patch(const sg_sched *s, const sg_patch *patch, const sg_area *area,
                              sg_owners *set)
{
    sg_area c;
    sg_visit v = {.row0 = patch->row0,
                  .rows = patch->rows,
                  .col0 = patch->col0,
                  .cols = patch->cols,
                  .k0 = patch->k0,
                  .k1 = patch->k1};
    if (is_own_sum(s, patch)) return;
    if (overlap(area, &patch->a, &c)) {
        v.row0 += c.row0 - patch->a.row0;
        v.rows = c.rows;
        v.k0 += c.col0 - patch->a.col0;
        v.k1 = v.k0 + c.cols;
        add_place(s->problem, s->rank, &v, set);
        return;
    }
    if (overlap(area, &patch->b, &c)) {
        v.col0 += c.row0 - patch->b.row0;
        v.cols = c.rows;
        v.k0 += c.col0 - patch->b.col0;
        v.k1 = v.k0 + c.cols;
        add_place(s->problem, s->rank, &v, set);
        return;
    }
    for (int32_t i = patch->to0; i < patch->to0 + patch->tos; i++) {
        if (!overlap(area, &s->to[i], &c)) continue;
        v.row0 += c.row0 - s->to[i].row0;
        v.rows = c.rows;
        v.col0 += c.col0 - s->to[i].col0;
        v.cols = c.cols;
        add_place(s->problem, s->rank, &v, set);
        return;
    }
}

/* ---- Patches by where they stand ------------------------------------------------------------- */

/* Rows [row0, end) of a buffer that a patch reads or stores. */
typedef struct place {
    int32_t rank, buf, row0, end;
    int32_t most_end; /* of this place and of all before it in the same buffer */
    int32_t patch;
} place;

struct sg_owners_index {
    const sg_sched *sched;
    sg_owners *found; /* by step */
    place *place;     /* by rank, buffer and first row */
    int32_t places;
};

static void add_place_of(sg_owners_index *index, const sg_area *area, int32_t patch)
{
    index->place[index->places++] =
        (place){area->rank, area->buf, area->row0, area->row0 + area->rows, 0, patch};
}

static int64_t order(const place *a, const place *b)
{
    if (a->rank != b->rank) return a->rank - b->rank;
    if (a->buf != b->buf) return a->buf - b->buf;
    return (int64_t)a->row0 - b->row0;
}

static int compare(const void *a, const void *b)
{
    const int64_t difference = order(a, b);
    return (difference > 0) - (difference < 0);
}

static void fill_index(sg_owners_index *index)
{
    const sg_sched *const s = index->sched;
    for (int32_t i = 0; i < s->steps; i++) index->found[i] = (sg_owners){0, NOT_FOUND};
    for (int32_t i = 0; i < s->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        add_place_of(index, &p->a, i);
        add_place_of(index, &p->b, i);
        for (int32_t j = 0; j < p->tos; j++) add_place_of(index, &s->to[p->to0 + j], i);
    }
    qsort(index->place, (size_t)index->places, sizeof *index->place, compare);
    for (int32_t i = 0; i < index->places; i++) {
        place *const at = &index->place[i];
        const bool same = i > 0 && at[-1].rank == at->rank && at[-1].buf == at->buf;
        at->most_end = same && at[-1].most_end > at->end ? at[-1].most_end : at->end;
    }
}

shingle_status sg_owners_index_make(const sg_sched *s, sg_owners_index **index_out)
{
    int64_t places = 0;
    for (int32_t i = 0; i < s->patches; i++) places += 2 + s->patch[i].tos;
    sg_owners_index *const index = calloc(1, sizeof *index);
    if (index != NULL) {
        *index = (sg_owners_index){.sched = s,
                                   .found = calloc((size_t)s->steps + 1, sizeof *index->found),
                                   .place = calloc((size_t)places + 1, sizeof *index->place)};
        if (index->found != NULL && index->place != NULL) {
            fill_index(index);
            *index_out = index;
            return SHINGLE_OK;
        }
    }
    sg_owners_index_free(index);
    return sg_fail(SHINGLE_ENOMEM, "no memory for the owners of %d steps", s->steps);
}

void sg_owners_index_free(sg_owners_index *index)
{
    if (index == NULL) return;
    free(index->found);
    free(index->place);
    free(index);
}

/* The first place behind all that begin before the end of AREA. */
static int32_t behind(const sg_owners_index *index, const sg_area *area)
{
    const place end = {.rank = area->rank, .buf = area->buf, .row0 = area->row0 + area->rows};
    int32_t low = 0;
    int32_t high = index->places;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (order(&index->place[middle], &end) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_area(const sg_owners_index *index, const sg_area *area, sg_owners *set)
{
    const sg_sched *const s = index->sched;
    for (int32_t i = behind(index, area) - 1; i >= 0; i--) {
        const place *const at = &index->place[i];
        if (at->rank != area->rank || at->buf != area->buf || at->most_end <= area->row0) return;
        if (at->end > area->row0) add_area_of_patch(s, &s->patch[at->patch], area, set);
    }
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* What moves from rank to rank if nothing else says whose it is. */
static void add_moved(const sg_sched *s, const sg_step *step, sg_owners *set)
{
    const bool leaves = sg_problem_out(s->problem) != SG_OUT_NONE;
    const int peer = step->tos > 0 ? s->to[step->to0].rank : s->rank;
    sg_owners_add(s->problem, leaves ? peer : s->rank, set);
}

static sg_owners find_owners(const sg_owners_index *index, int32_t at)
{
    const sg_sched *const s = index->sched;
    const sg_step *const step = &s->step[at];
    sg_owners set = {0, -1};
    switch ((sg_kind)step->kind) {
    case SG_COPY:
        add_area(index, &step->u.copy.src, &set);
        if (set.mask == 0) add_moved(s, step, &set);
        break;
    case SG_REDUCE:
        for (int32_t i = 0; i < step->u.reduce.adds; i++)
            add_area(index, &s->add[step->u.reduce.add0 + i].area, &set);
        if (set.mask == 0) sg_owners_add(s->problem, s->rank, &set);
        break;
    case SG_COLL: add_all(s->problem, &set); break;
    case SG_LAUNCH:
        for (int32_t i = 0; i < step->u.launch.patches; i++) {
            const sg_patch *const p = &s->patch[step->u.launch.patch0 + i];
            const sg_visit all = {.patch = step->u.launch.patch0 + i,
                                  .row0 = p->row0,
                                  .rows = p->rows,
                                  .col0 = p->col0,
                                  .cols = p->cols,
                                  .k0 = p->k0,
                                  .k1 = p->k1};
            add_visit(s, &all, &set);
        }
        break;
    case SG_FLAG:
    default: break;
    }
    return set;
}

sg_owners sg_owners_of_step(sg_owners_index *index, int32_t step)
{
    sg_owners *const found = &index->found[step];
    if (found->one == NOT_FOUND) *found = find_owners(index, step);
    return *found;
}
