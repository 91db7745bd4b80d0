/* mutants.h -- the list of schedule bugs.  Each changes the sealed schedules of one triple in one
 * place, or returns false where it finds nothing to break. */
#ifndef TESTS_MUTANTS_H
#define TESTS_MUTANTS_H

#include "mutants_moves.h"
#include "mutants_protocol.h"
#include "mutants_push.h"
#include "world.h"

/* ---- The bugs -------------------------------------------------------------------------------- */

static bool is_away(const world *w, const pick *p)
{
    (void)w;
    return p->s->to[p->index].rank != p->s->rank;
}

static bool is_copy_away(const world *w, const pick *p)
{
    return p->step->kind == SG_COPY && is_away(w, p);
}

static bool copies_swapped(world *w)
{
    pick one;
    pick other;
    if (!choose(w, TOS, is_copy_away, &one) || !choose(w, TOS, is_copy_away, &other)) return false;
    sg_area *const a = &one.s->to[one.index];
    sg_area *const b = &other.s->to[other.index];
    if (one.s != other.s || a->rank == b->rank) return false;
    const int16_t rank = a->rank;
    a->rank = b->rank;
    b->rank = rank;
    return true;
}

static bool is_patch_away(const world *w, const pick *p)
{
    return p->patch != NULL && is_away(w, p);
}

static bool wrong_owner(world *w)
{
    pick p;
    if (w->ranks < 3 || !choose(w, TOS, is_patch_away, &p)) return false;
    sg_area *const a = &p.s->to[p.index];
    int rank = other_rank(w, a->rank);
    if (rank == p.s->rank) rank = other_rank(w, rank);
    if (rank == a->rank) return false;
    a->rank = (int16_t)rank;
    return true;
}

static bool raise_lost(world *w)
{
    pick p;
    if (!choose(w, RAISES, NULL, &p)) return false;
    TAKE_OUT(p, raise);
    return true;
}

static bool raise_doubled(world *w)
{
    pick p;
    if (!choose(w, RAISES, NULL, &p)) return false;
    DOUBLE(p, raise, raises, raise_room);
    return true;
}

static bool raise_at_other_rank(world *w)
{
    pick p;
    if (w->ranks < 2 || !choose(w, RAISES, NULL, &p)) return false;
    p.s->raise[p.index].at = (int16_t)other_rank(w, p.s->raise[p.index].at);
    return true;
}

static bool raise_of_next_flag(world *w)
{
    pick p;
    if (!choose(w, RAISES, NULL, &p)) return false;
    p.s->raise[p.index].flag0++;
    return true;
}

static bool has_tiles(const world *w, const pick *p)
{
    (void)w;
    return p->patch != NULL &&
           sg_sched_patch_visits(p->s, &p->step->u.launch, (int32_t)(p->patch - p->s->patch)) > 1;
}

static bool raise_per_tile_as_one(world *w)
{
    pick p;
    if (!choose(w, RAISES, has_tiles, &p) || p.s->raise[p.index].per != SG_PER_TILE) return false;
    p.s->raise[p.index].per = SG_PER_PATCH;
    return true;
}

static bool wait_dropped(world *w)
{
    pick p;
    if (!choose(w, WAITS, NULL, &p)) return false;
    TAKE_OUT(p, wait);
    return true;
}

static bool is_flag_step(const world *w, const pick *p)
{
    (void)w;
    return p->step->kind == SG_FLAG;
}

static bool final_wait_lost(world *w)
{
    pick p;
    if (!choose(w, WAITS, is_flag_step, &p)) return false;
    TAKE_OUT(p, wait);
    return true;
}

static bool wait_of_next_flag(world *w)
{
    pick p;
    if (!choose(w, WAITS, NULL, &p)) return false;
    p.s->wait[p.index].flag0 += sg_random_below(w->random, 2) ? 1 : -1;
    return true;
}

static bool wait_by_other_rank(world *w)
{
    pick p;
    if (w->ranks < 2 || !choose(w, WAITS, NULL, &p)) return false;
    p.s->wait[p.index].by = (int16_t)other_rank(w, p.s->wait[p.index].by);
    return true;
}

static bool has_slabs(const world *w, const pick *p)
{
    (void)w;
    const sg_wait *const wait = &p->s->wait[p->index];
    return p->patch != NULL && wait->chunk_k > 0 && wait->chunks_k > 1;
}

static bool wait_at_later_slab(world *w)
{
    pick p;
    if (!choose(w, WAITS, has_slabs, &p)) return false;
    p.s->wait[p.index].chunk_k *= 2; /* slab i now awaits the flag of slab i / 2 */
    return true;
}

static bool wait_at_first_slab(world *w)
{
    pick p;
    if (!choose(w, WAITS, has_slabs, &p)) return false;
    p.s->wait[p.index].chunk_k = 0;
    return true;
}

static bool has_chunks(const world *w, const pick *p)
{
    (void)w;
    const sg_wait *const wait = &p->s->wait[p->index];
    return wait->per == SG_PER_ROWS && wait->rows > wait->chunk;
}

static bool wait_by_larger_chunks(world *w)
{
    pick p;
    if (!choose(w, WAITS, has_chunks, &p)) return false;
    p.s->wait[p.index].chunk *= 2;
    return true;
}

static bool wait_for_fewer_rows(world *w)
{
    pick p;
    if (!choose(w, WAITS, NULL, &p) || p.s->wait[p.index].per != SG_PER_ROWS) return false;
    if (p.s->wait[p.index].rows < 2) return false;
    p.s->wait[p.index].rows /= 2;
    return true;
}

static bool area_outside(world *w)
{
    pick p;
    if (!choose(w, TOS, NULL, &p)) return false;
    sg_area *const a = &p.s->to[p.index];
    if (a->rows == 0 || a->cols == 0) return false;
    a->row0 = (int32_t)w->sched[a->rank].buf[a->buf].rows - a->rows + 1;
    return true;
}

/* Makes a patch, and what is as large as it, smaller by a row or a column at its end. */
static bool tile_cut(world *w)
{
    pick p;
    if (!choose(w, PATCHES, NULL, &p)) return false;
    const bool row = p.patch->rows > 1;
    if (!row && p.patch->cols < 2) return false;
    p.patch->rows -= row;
    p.patch->cols -= !row;
    p.patch->a.rows -= row;
    p.patch->b.rows -= !row;
    for (int i = 0; i < p.patch->tos; i++) {
        p.s->to[p.patch->to0 + i].rows -= row;
        p.s->to[p.patch->to0 + i].cols -= !row;
    }
    for (int i = 0; i < p.patch->adds; i++) {
        p.s->add[p.patch->add0 + i].area.rows -= row;
        p.s->add[p.patch->add0 + i].area.cols -= !row;
    }
    recount(p.s, p.step);
    return true;
}

static bool patch_skipped(world *w)
{
    pick p;
    if (!choose(w, PATCHES, NULL, &p)) return false;
    const sg_launch *const l = &p.step->u.launch;
    for (int32_t i = p.index; i + 1 < l->patch0 + l->patches; i++)
        p.s->patch[i] = p.s->patch[i + 1];
    p.step->u.launch.patches--;
    recount(p.s, p.step);
    return true;
}

/* A launch that norms has one store, whatever its list says; the sealer counts it. */
static bool stored_twice(world *w)
{
    pick p;
    if (!choose(w, TOS, NULL, &p) || p.step->kind == SG_COLL || sg_step_norms(p.step)) return false;
    DOUBLE(p, to, tos, to_room);
    return true;
}

static bool store_dropped(world *w)
{
    pick p;
    if (!choose(w, TOS, NULL, &p) || p.step->kind == SG_COLL) return false;
    TAKE_OUT(p, to);
    return true;
}

static bool store_shifted(world *w)
{
    pick p;
    if (!choose(w, TOS, NULL, &p)) return false;
    sg_area *const a = &p.s->to[p.index];
    const int64_t rows = w->sched[a->rank].buf[a->buf].rows;
    if (a->rows == 0 || a->cols == 0 || a->rows == rows) return false;
    a->row0 += (int64_t)a->row0 + a->rows < rows ? 1 : -1;
    return true;
}

static bool addend_twice(world *w)
{
    pick p;
    if (!choose(w, ADDS, NULL, &p)) return false;
    DOUBLE(p, add, adds, add_room);
    return true;
}

static bool addend_dropped(world *w)
{
    pick p;
    if (!choose(w, ADDS, NULL, &p)) return false;
    TAKE_OUT(p, add);
    return true;
}

static bool addend_not_awaited(world *w)
{
    pick p;
    if (!choose(w, ADDS, NULL, &p) || !p.s->add[p.index].awaited) return false;
    p.s->add[p.index].awaited = 0;
    return true;
}

static bool addend_awaits_first_tile(world *w)
{
    pick p;
    if (!choose(w, ADDS, has_tiles, &p) || p.s->add[p.index].wait.per != SG_PER_TILE) return false;
    p.s->add[p.index].wait.per = SG_PER_PATCH;
    return true;
}

static bool addends_swap_waits(world *w)
{
    pick p;
    if (!choose(w, ADDS, NULL, &p) || *p.count < 2) return false;
    const int32_t other = p.index > *p.first ? p.index - 1 : p.index + 1;
    const sg_area area = p.s->add[p.index].area;
    p.s->add[p.index].area = p.s->add[other].area;
    p.s->add[other].area = area;
    return true;
}

static bool shift(world *w, sg_area *a)
{
    const int64_t rows = w->sched[a->rank].buf[a->buf].rows;
    if (a->rows == 0 || a->cols == 0 || a->rows >= rows) return false;
    a->row0 += (int64_t)a->row0 + a->rows < rows ? 1 : -1;
    return true;
}

static bool rows_of_a_shifted(world *w)
{
    pick p;
    if (!choose(w, PATCHES, NULL, &p) || p.patch->k0 == p.patch->k1) return false;
    return shift(w, &p.patch->a);
}

static bool source_shifted(world *w)
{
    pick p;
    if (!choose(w, STEPS, NULL, &p)) return false;
    if (p.step->kind == SG_COPY) return shift(w, &p.step->u.copy.src);
    if (p.step->kind == SG_COLL) return shift(w, &p.step->u.coll.self);
    return false;
}

static bool other_columns(world *w)
{
    pick p;
    if (!choose(w, PATCHES, NULL, &p) || p.patch->k0 == p.patch->k1 || p.patch->b.rows < 2)
        return false;
    p.patch->b.rows--, p.patch->cols--;
    p.patch->b.row0++;
    for (int i = 0; i < p.patch->tos; i++) p.s->to[p.patch->to0 + i].cols--;
    for (int i = 0; i < p.patch->adds; i++) p.s->add[p.patch->add0 + i].area.cols--;
    recount(p.s, p.step);
    return true;
}

static bool k_cut(world *w)
{
    pick p;
    if (!choose(w, PATCHES, NULL, &p) || p.patch->k0 == p.patch->k1) return false;
    p.patch->k1--;
    p.patch->a.cols--;
    p.patch->b.cols--;
    return true;
}

static bool final_flipped(world *w)
{
    pick p;
    if (!sg_problem_has_epilogue(&w->problem) || !choose(w, STEPS, NULL, &p)) return false;
    if (p.step->kind == SG_REDUCE) {
        p.step->u.reduce.final ^= 1;
        return true;
    }
    if (p.step->kind != SG_LAUNCH || p.step->u.launch.patches == 0) return false;
    const int64_t i = sg_random_below(w->random, p.step->u.launch.patches);
    p.s->patch[p.step->u.launch.patch0 + i].final ^= 1;
    return true;
}

static bool after_dropped(world *w)
{
    pick p;
    if (!choose(w, STEPS, NULL, &p) || p.step->after[0] < 0) return false;
    p.step->after[0] = p.step->after[1];
    p.step->after[1] = -1;
    return true;
}

static bool steps_swapped(world *w)
{
    pick p;
    if (!choose(w, STEPS, NULL, &p) || p.index + 1 >= p.s->steps) return false;
    sg_step *const one = &p.s->step[p.index];
    sg_step *const other = one + 1;
    if (one->lane != other->lane || other->after[0] == p.index || other->after[1] == p.index)
        return false;
    const sg_step kept = *one;
    *one = *other;
    *other = kept;
    for (int32_t i = p.index + 2; i < p.s->steps; i++) {
        for (int j = 0; j < 2; j++) {
            int32_t *const after = &p.s->step[i].after[j];
            if (*after == p.index || *after == p.index + 1) *after = 2 * p.index + 1 - *after;
        }
    }
    return true;
}

static bool patches_swapped(world *w)
{
    pick p;
    if (!choose(w, PATCHES, NULL, &p)) return false;
    const sg_launch *const l = &p.step->u.launch;
    const int32_t other = l->patch0 + (int32_t)sg_random_below(w->random, l->patches);
    if (other == p.index) return false;
    const sg_patch kept = p.s->patch[other];
    p.s->patch[other] = p.s->patch[p.index];
    p.s->patch[p.index] = kept;
    return true;
}

static bool is_part(const world *w, const pick *p)
{
    (void)w;
    return p->step->kind == SG_COLL;
}

static bool parts_swapped(world *w)
{
    pick p;
    if (w->ranks < 2 || !choose(w, TOS, is_part, &p)) return false;
    const int32_t other = *p.first + (int32_t)sg_random_below(w->random, *p.count);
    const sg_area kept = p.s->to[other];
    p.s->to[other] = p.s->to[p.index];
    p.s->to[p.index] = kept;
    return other != p.index;
}

static bool coll_of_other_kind(world *w)
{
    pick p;
    if (w->ranks < 2 || !choose(w, STEPS, NULL, &p) || p.step->kind != SG_COLL) return false;
    p.step->u.coll.kind = p.step->u.coll.kind == SG_ALL_GATHER ? SG_REDUCE_SCATTER : SG_ALL_GATHER;
    return true;
}

/* Of sums that are made in C. */
static bool is_onto(const world *w, const pick *p)
{
    (void)w;
    return p->patch != NULL && p->patch->onto;
}

static bool onto_forgotten(world *w)
{
    pick p;
    if (!choose(w, PATCHES, is_onto, &p)) return false;
    p.patch->onto = 0;
    return true;
}

/* What is added lies elsewhere. */
static bool onto_for_others(world *w)
{
    pick p;
    if (!choose(w, ADDS, NULL, &p) || p.patch == NULL || p.patch->onto) return false;
    p.patch->onto = 1;
    return true;
}

static bool onto_not_awaited(world *w)
{
    pick p;
    if (!choose(w, ADDS, is_onto, &p)) return false;
    p.s->add[p.index].awaited = 0;
    return true;
}

static bool onto_shifted(world *w)
{
    pick p;
    return choose(w, TOS, is_onto, &p) && shift(w, &p.s->to[p.index]);
}

typedef struct mutant {
    const char *name;
    bool (*apply)(world *w);
    bool may_be_equivalent;
    int tried, applied, caught, equivalent, large;
} mutant;

static mutant mutants[] = {
    {.name = "copies swap ranks", copies_swapped, true},
    {.name = "tiles to the wrong owner", wrong_owner, true},
    {.name = "raise lost", raise_lost, true},
    {.name = "raise doubled", raise_doubled, false},
    {.name = "raise at another rank", raise_at_other_rank, true},
    {.name = "raise of the next flag", raise_of_next_flag, true},
    {.name = "tile raises as one", raise_per_tile_as_one, true},
    {.name = "wait dropped", wait_dropped, true},
    {.name = "final wait lost", final_wait_lost, true},
    {.name = "wait for the next flag", wait_of_next_flag, true},
    {.name = "wait for another rank", wait_by_other_rank, true},
    {.name = "wait at a later slab", wait_at_later_slab, true},
    {.name = "wait at the first slab only", wait_at_first_slab, true},
    {.name = "wait by larger chunks", wait_by_larger_chunks, true},
    {.name = "wait for fewer rows", wait_for_fewer_rows, true},
    {.name = "gate omitted", gate_omitted, false},
    {.name = "leave omitted", leave_omitted, false},
    {.name = "hello omitted", hello_omitted, false},
    {.name = "done omitted", done_omitted, false},
    {.name = "wrong half", wrong_half, false},
    {.name = "area outside its buffer", area_outside, false},
    {.name = "tile cut", tile_cut, true},
    {.name = "patch skipped", patch_skipped, true},
    {.name = "stored twice", stored_twice, false},
    {.name = "store dropped", store_dropped, true},
    {.name = "store shifted", store_shifted, true},
    {.name = "addend twice", addend_twice, true},
    {.name = "addend dropped", addend_dropped, true},
    {.name = "addend not awaited", addend_not_awaited, true},
    {.name = "addend awaits the first tile", addend_awaits_first_tile, true},
    {.name = "addends swap waits", addends_swap_waits, true},
    {.name = "rows of A shifted", rows_of_a_shifted, true},
    {.name = "source shifted", source_shifted, true},
    {.name = "other columns of B", other_columns, true},
    {.name = "k cut", k_cut, true},
    {.name = "final twice or dropped", final_flipped, true},
    {.name = "after dropped", after_dropped, true},
    {.name = "steps of a lane swapped", steps_swapped, true},
    {.name = "patches swapped", patches_swapped, true},
    {.name = "parts of a collective swapped", parts_swapped, true},
    {.name = "collective of another kind", coll_of_other_kind, false},
    {.name = "buffer too small", buffer_too_small, true},
    {.name = "buffer past its arena", buffer_past_arena, false},
    {.name = "buffers overlap", buffers_overlap, false},
    {.name = "counter off by one", counter_off, false},
    {.name = "counters off at all ranks", counters_off, false},
    {.name = "counter skipped", counter_skipped, false},
    {.name = "tile in the next place", place_shifted, true},
    {.name = "places swapped", places_swapped, true},
    {.name = "places in another order", raster_changed, true},
    {.name = "zeros around a tile lost", zeros_lost, true},
    {.name = "range begins a tile late", range_begins_late, true},
    {.name = "range a tile longer", range_longer, false},
    {.name = "range shifted", range_shifted, true},
    {.name = "range forgotten", range_forgotten, true},
    {.name = "reorder from the next place", reorder_shifted, true},
    {.name = "reorder of another group", reorder_of_other_group, true},
    {.name = "reorder before its collective", reorder_before_coll, true},
    {.name = "collective before its group", coll_not_awaited, true},
    {.name = "collective of the group before", coll_awaits_other, true},
    {.name = "collectives out of order", colls_out_of_order, true},
    {.name = "collective of two types", coll_of_two_types, false},
    {.name = "sends of an all-to-all rotated", sends_rotated, true},
    {.name = "arrivals of an all-to-all swapped", arrivals_swapped, true},
    {.name = "wrong prefix of counts", counts_prefix, true},
    {.name = "counts of the other direction", counts_transposed, true},
    {.name = "the same, at all ranks", counts_transposed_at_all, true},
    {.name = "link of a chain skipped", link_skipped, true},
    {.name = "link without a product", link_without_product, true},
    {.name = "link not awaited", link_not_awaited, true},
    {.name = "link awaits the one before", link_awaits_before, true},
    {.name = "links swapped", links_swapped, true},
    {.name = "sum read beside its place", sum_shifted, true},
    {.name = "sum read by another step", sum_read, true},
    {.name = "onto what lies there, forgotten", onto_forgotten, true},
    {.name = "onto what lies elsewhere", onto_for_others, true},
    {.name = "onto what is not awaited", onto_not_awaited, true},
    {.name = "onto other rows", onto_shifted, true},
    {.name = "C not added", c_not_added, true},
    {.name = "C added twice", c_added_twice, true},
    {.name = "addend of a peer", addend_of_peer, false},
    {.name = "k of B shifted", k_of_b_shifted, true},
    {.name = "columns of A shifted", columns_of_a_shifted, true},
    {.name = "rows of B shifted", rows_of_b_shifted, true},
    {.name = "patch twice", patch_twice, true},
    {.name = "call for half a row", call_for_half, false},
    {.name = "call over a part of k", call_over_part, false},
    {.name = "borders of B forgotten", borders_forgotten, false},
    {.name = "returned from the own tensor", returned_from_a_tensor, true},
    {.name = "returned to a peer", returned_without_leave, false},
    {.name = "SMs overdrawn", sms_overdrawn, false},
    {.name = "push by a copy engine", push_by_engine, false},
    {.name = "push after another step", push_after_another, false},
    {.name = "push that waits", push_waits, false},
    {.name = "push of what arrives", push_of_what_arrives, false},
    {.name = "push without its launch", push_without_its_launch, false},
    {.name = "push carried by the vendor", push_carried_by_the_vendor, false},
    {.name = "push in the launch's lane", push_in_the_launch_lane, false},
};

enum { MUTANTS = sizeof mutants / sizeof mutants[0] };

#endif
