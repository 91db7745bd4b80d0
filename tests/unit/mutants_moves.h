/* mutants_moves.h -- bugs of places and ranges of tiles, of groups and their collectives, of
 * all-to-all, of chains that sum in place, of accumulation and of calls. */
#ifndef TESTS_MUTANTS_MOVES_H
#define TESTS_MUTANTS_MOVES_H

#include "world.h"

/* ---- Places and ranges ----------------------------------------------------------------------- */

static bool is_tiled_store(const world *w, const pick *p)
{
    (void)w;
    return p->patch != NULL && p->s->to[p->index].tiled;
}

static bool is_tiled_addend(const world *w, const pick *p)
{
    (void)w;
    return p->patch != NULL && p->s->add[p->index].area.tiled;
}

/* Moves an area by ROWS, forwards or else backwards; false if its buffer has no room. */
static bool move_rows(world *w, sg_area *a, int32_t rows)
{
    const int64_t all = w->sched[a->rank].buf[a->buf].rows;
    if (a->rows == 0 || a->cols == 0 || rows == 0) return false;
    if ((int64_t)a->row0 + a->rows + rows <= all)
        a->row0 += rows;
    else if (a->row0 >= rows)
        a->row0 -= rows;
    else
        return false;
    return true;
}

static bool place_shifted(world *w)
{
    pick p;
    if (!choose(w, TOS, is_tiled_store, &p)) return false;
    return move_rows(w, &p.s->to[p.index], p.step->u.launch.tile_m);
}

static bool places_swapped(world *w)
{
    pick one;
    pick other;
    if (!choose(w, TOS, is_tiled_store, &one) || !choose(w, TOS, is_tiled_store, &other))
        return false;
    sg_area *const a = &one.s->to[one.index];
    sg_area *const b = &other.s->to[other.index];
    if (one.s != other.s || a->rows != b->rows || a->row0 == b->row0) return false;
    const int32_t row0 = a->row0;
    a->row0 = b->row0;
    b->row0 = row0;
    return true;
}

/* Of two bands and columns of tiles or more, so that the order of places matters. */
static bool has_places(const world *w, const pick *p)
{
    (void)w;
    const sg_launch *const l = &p->step->u.launch;
    return p->patch->tos > 0 && p->s->to[p->patch->to0].tiled && p->patch->rows > l->tile_m &&
           p->patch->cols > l->tile_n && p->patch->tiles != 1;
}

static bool raster_changed(world *w)
{
    pick p;
    if (!choose(w, PATCHES, has_places, &p)) return false;
    p.patch->raster = p.patch->raster == SG_BY_ROW ? SG_BY_COL : SG_BY_ROW;
    return true;
}

/* A patch of one tile that stores it as it is, instead of filling its place. */
static bool zeros_lost(world *w)
{
    pick p;
    if (!choose(w, TOS, is_tiled_store, &p)) return false;
    const sg_launch *const l = &p.step->u.launch;
    if (p.patch->rows > l->tile_m || p.patch->cols > l->tile_n) return false;
    sg_area *const a = &p.s->to[p.index];
    a->tiled = 0;
    a->rows = p.patch->rows;
    a->cols = p.patch->cols;
    return true;
}

static bool has_range(const world *w, const pick *p)
{
    (void)w;
    return p->patch->tiles > 1;
}

static int32_t tiles_of(const pick *p)
{
    const sg_launch *const l = &p->step->u.launch;
    return sg_walk_bands(p->patch, l->tile_m) * sg_walk_cols(p->patch, l->tile_n);
}

static bool range_begins_late(world *w)
{
    pick p;
    if (!choose(w, PATCHES, has_range, &p)) return false;
    p.patch->tile0++;
    p.patch->tiles--;
    recount(p.s, p.step);
    return true;
}

static bool has_range_and_more(const world *w, const pick *p)
{
    return has_range(w, p) && p->patch->tile0 + p->patch->tiles < tiles_of(p);
}

static bool range_longer(world *w)
{
    pick p;
    if (!choose(w, PATCHES, has_range_and_more, &p)) return false;
    p.patch->tiles++;
    recount(p.s, p.step);
    return true;
}

static bool range_shifted(world *w)
{
    pick p;
    if (!choose(w, PATCHES, has_range_and_more, &p)) return false;
    p.patch->tile0++;
    return true;
}

static bool range_forgotten(world *w)
{
    pick p;
    if (!choose(w, PATCHES, has_range, &p) || p.patch->tiles == tiles_of(&p)) return false;
    p.patch->tile0 = p.patch->tiles = 0;
    recount(p.s, p.step);
    return true;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static bool reorder_shifted(world *w)
{
    pick p;
    if (!choose(w, ADDS, is_tiled_addend, &p)) return false;
    return move_rows(w, &p.s->add[p.index].area, p.step->u.launch.tile_m);
}

static bool reorder_of_other_group(world *w)
{
    pick p;
    if (!choose(w, ADDS, is_tiled_addend, &p)) return false;
    return move_rows(w, &p.s->add[p.index].area, p.s->add[p.index].area.rows);
}

static bool is_reorder(const world *w, const pick *p)
{
    (void)w;
    if (p->step->kind != SG_LAUNCH || p->step->u.launch.patches == 0) return false;
    const sg_patch *const a = &p->s->patch[p->step->u.launch.patch0];
    return a->adds > 0 && p->s->add[a->add0].area.tiled && p->step->after[0] >= 0;
}

static bool reorder_before_coll(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_reorder, &p)) return false;
    p.step->after[0] = p.step->after[1] = -1;
    return true;
}

static bool is_awaiting_coll(const world *w, const pick *p)
{
    (void)w;
    return p->step->kind == SG_COLL && p->step->waits > 0;
}

static bool coll_not_awaited(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_awaiting_coll, &p)) return false;
    p.step->waits = 0;
    return true;
}

static bool coll_awaits_other(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_awaiting_coll, &p)) return false;
    sg_wait *const wait = &p.s->wait[p.step->wait0];
    wait->flag0 += wait->flag0 > 0 ? -1 : 1;
    return true;
}

static bool is_coll(const world *w, const pick *p)
{
    (void)w;
    return p->step->kind == SG_COLL;
}

static bool colls_out_of_order(world *w)
{
    pick one;
    pick other;
    if (w->ranks < 2 || !choose(w, STEPS, is_coll, &one) || !choose(w, STEPS, is_coll, &other))
        return false;
    if (one.s != other.s || one.index == other.index) return false;
    const int32_t seq = one.step->u.coll.seq;
    one.step->u.coll.seq = other.step->u.coll.seq;
    other.step->u.coll.seq = seq;
    return true;
}

static bool coll_of_two_types(world *w)
{
    pick p;
    if (w->ranks < 2 || !choose(w, STEPS, is_coll, &p)) return false;
    const sg_area *const a = p.step->tos > 0 ? &p.s->to[p.step->to0] : &p.step->u.coll.self;
    sg_buf *const buf = &p.s->buf[a->buf];
    if (a->buf < SG_USER_BUFS) return false;
    buf->wide = !buf->wide;
    return true;
}

/* ---- All-to-all ------------------------------------------------------------------------------ */

static bool is_exchange(const world *w, const pick *p)
{
    (void)w;
    return p->step->kind == SG_COLL && p->step->u.coll.kind == SG_ALL_TO_ALL;
}

static bool sends_rotated(world *w)
{
    pick p;
    if (w->ranks < 2 || !choose(w, STEPS, is_exchange, &p)) return false;
    sg_area *const to = &p.s->to[p.step->to0];
    const sg_area first = to[0];
    for (int i = 0; i + 1 < w->ranks; i++) to[i] = to[i + 1];
    to[w->ranks - 1] = first;
    return true;
}

static bool arrivals_swapped(world *w)
{
    pick p;
    if (w->ranks < 2 || !choose(w, STEPS, is_exchange, &p)) return false;
    sg_area *const to = &p.s->to[p.step->to0 + w->ranks];
    const int64_t one = sg_random_below(w->random, w->ranks);
    const int other = other_rank(w, (int)one);
    const sg_area kept = to[one];
    to[one] = to[other];
    to[other] = kept;
    return true;
}

/* Builds the schedule of RANK, which takes LIE for the problem. */
static bool build_deceived(world *w, int64_t rank_of, const sg_problem *lie)
{
    const int rank = (int)rank_of;
    sg_sched *const s = &w->sched[rank];
    sg_sched_begin(s, lie, rank);
    w->strategy->build(lie, &w->knobs, rank, s);
    const bool sealed = sg_sched_seal(s) == SHINGLE_OK;
    if (!sealed) { /* the sealer has caught it; there is nothing left to check */
        sg_sched_begin(s, &w->problem, rank);
        w->strategy->build(&w->problem, &w->knobs, rank, s);
        assert_int_equal(sg_sched_seal(s), SHINGLE_OK);
    }
    s->problem = &w->problem;
    return sealed;
}

/* Does a visit of S reach over a border between two B? */
static bool reaches_over(const sg_sched *s, const sg_problem *p)
{
    bool over = false;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_launch *const l = &s->step[i].u.launch;
        for (int32_t v = 0; s->step[i].kind == SG_LAUNCH && v < l->visits; v++) {
            sg_visit visit;
            sg_sched_visit(s, l, v, &visit);
            int64_t border = p->b_cols[0];
            for (int b = 1; b < p->b_count; border += p->b_cols[b++])
                over |= visit.col0 < border && border < visit.col0 + visit.cols;
        }
    }
    return over;
}

/* One rank takes several B for one. */
static bool borders_forgotten(world *w)
{
    sg_problem lie;
    const int64_t rank = sg_random_below(w->random, w->ranks);
    if (w->problem.b_count < 2) return false;
    assert_int_equal(sg_problem_copy(&w->problem, &lie), SHINGLE_OK);
    lie.b_count = 1;
    lie.b_cols[0] = lie.n;
    const bool built = build_deceived(w, rank, &lie) && reaches_over(&w->sched[rank], &w->problem);
    if (!built) { /* its tiles end at the borders all the same */
        sg_sched_begin(&w->sched[rank], &w->problem, (int)rank);
        w->strategy->build(&w->problem, &w->knobs, (int)rank, &w->sched[rank]);
        assert_int_equal(sg_sched_seal(&w->sched[rank]), SHINGLE_OK);
    }
    sg_problem_free(&lie);
    return built;
}

/* ---- What is returned ------------------------------------------------------------------------ */

static bool is_returning(const world *w, const pick *p)
{
    (void)w;
    return p->step->kind == SG_COPY && p->s->to[p->step->to0].buf == SG_RETURNED;
}

static bool returned_from_a_tensor(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_returning, &p)) return false;
    sg_area *const src = &p.step->u.copy.src;
    if (src->buf == SG_A) return false;
    src->buf = SG_A;
    return true;
}

static bool returned_without_leave(world *w)
{
    pick p;
    if (w->ranks < 2 || !choose(w, STEPS, is_returning, &p)) return false;
    p.s->to[p.step->to0].rank = (int16_t)other_rank(w, p.s->rank);
    return true;
}

/* One rank adds up the counts in front of a pair wrongly. */
static bool counts_prefix(world *w)
{
    sg_problem lie;
    if (w->problem.counts == NULL || w->ranks < 2) return false;
    const int64_t pairs = (int64_t)w->ranks * w->ranks;
    const int64_t pair = sg_random_below(w->random, pairs);
    if (w->problem.counts[pair] == 0 || w->problem.in_owner[pair] == 0) return false;
    assert_int_equal(sg_problem_copy(&w->problem, &lie), SHINGLE_OK);
    lie.in_owner[pair]--;
    const bool built =
        build_deceived(w, sg_random_below(w->random, 2) ? pair / w->ranks : pair % w->ranks, &lie);
    sg_problem_free(&lie);
    return built;
}

/* One rank, or each, takes what ONE sends to another for what it gets. */
static bool transpose_counts(world *w, bool at_all)
{
    sg_problem lie;
    if (w->problem.counts == NULL || w->ranks < 2) return false;
    const int64_t one = sg_random_below(w->random, w->ranks);
    const int64_t other = other_rank(w, (int)one);
    const int64_t here = one * w->ranks + other;
    const int64_t there = other * w->ranks + one;
    if (w->problem.counts[here] == w->problem.counts[there]) return false;
    assert_int_equal(sg_problem_copy(&w->problem, &lie), SHINGLE_OK);
    lie.counts[here] = w->problem.counts[there];
    lie.counts[there] = w->problem.counts[here];
    bool built = false;
    for (int r = 0; r < w->ranks; r++)
        if (at_all || r == one) built |= build_deceived(w, r, &lie);
    sg_problem_free(&lie);
    return built;
}

static bool counts_transposed(world *w)
{
    return transpose_counts(w, false);
}

static bool counts_transposed_at_all(world *w)
{
    return transpose_counts(w, true);
}

/* ---- Sums in place --------------------------------------------------------------------------- */

/* Does patch P add what it stores, after its wait? */
static int32_t link_addend(const sg_sched *s, const sg_patch *p)
{
    for (int32_t i = p->add0; i < p->add0 + p->adds; i++)
        if (s->add[i].awaited && s->add[i].wait.by == s->rank && s->add[i].wait.per == SG_PER_TILE)
            return i;
    return -1;
}

static bool is_link(const world *w, const pick *p)
{
    (void)w;
    return link_addend(p->s, p->patch) >= 0;
}

/* A link that is neither the first nor the last of its chain. */
static bool is_inner_link(const world *w, const pick *p)
{
    return is_link(w, p) && p->patch->raises > 0;
}

static bool link_skipped(world *w)
{
    pick p;
    if (!choose(w, PATCHES, is_inner_link, &p)) return false;
    sg_launch *const l = &p.step->u.launch;
    if (p.index + 1 == l->patch0 + l->patches) return false;
    const int32_t next = link_addend(p.s, p.patch + 1);
    if (next < 0) return false;
    p.s->add[next].wait = p.s->add[link_addend(p.s, p.patch)].wait;
    for (int32_t i = p.index; i + 1 < l->patch0 + l->patches; i++)
        p.s->patch[i] = p.s->patch[i + 1];
    l->patches--;
    recount(p.s, p.step);
    return true;
}

static bool link_without_product(world *w)
{
    pick p;
    if (!choose(w, PATCHES, is_link, &p)) return false;
    p.patch->k1 = p.patch->k0;
    return true;
}

static bool link_not_awaited(world *w)
{
    pick p;
    if (!choose(w, PATCHES, is_link, &p)) return false;
    p.s->add[link_addend(p.s, p.patch)].awaited = 0;
    return true;
}

static bool link_awaits_before(world *w)
{
    pick p;
    if (!choose(w, PATCHES, is_link, &p)) return false;
    sg_wait *const wait = &p.s->add[link_addend(p.s, p.patch)].wait;
    if (wait->flag0 < tiles_of(&p)) return false;
    wait->flag0 -= tiles_of(&p);
    return true;
}

static bool links_swapped(world *w)
{
    pick p;
    if (!choose(w, PATCHES, is_link, &p) || p.index == p.step->u.launch.patch0) return false;
    const sg_patch kept = p.patch[0];
    p.patch[0] = p.patch[-1];
    p.patch[-1] = kept;
    return true;
}

/* The sum so far is read a tile beside. */
static bool sum_shifted(world *w)
{
    pick p;
    if (!choose(w, PATCHES, is_link, &p) || p.patch->rows < 2) return false;
    sg_area *const a = &p.s->add[link_addend(p.s, p.patch)].area;
    const sg_area kept = *a;
    p.patch->rows--, p.patch->a.rows--;
    for (int i = 0; i < p.patch->tos; i++) p.s->to[p.patch->to0 + i].rows--;
    for (int i = 0; i < p.patch->adds; i++) p.s->add[p.patch->add0 + i].area.rows--;
    a->row0 = kept.row0 + 1;
    recount(p.s, p.step);
    return true;
}

/* The patch behind a link adds the sum that the link will store again, beside what it adds
 * already. */
static bool sum_read(world *w)
{
    pick p;
    if (!choose(w, PATCHES, is_inner_link, &p)) return false;
    p.index = link_addend(p.s, p.patch);
    sg_patch *const last = &p.s->patch[p.step->u.launch.patch0 + p.step->u.launch.patches - 1];
    if (last == p.patch || last->adds == 0) return false;
    p.first = &last->add0;
    p.count = &last->adds;
    const sg_addend sum = p.s->add[p.index];
    p.index = last->add0;
    DOUBLE(p, add, adds, add_room);
    p.s->add[last->add0] = sum;
    return true;
}

static bool is_c(const world *w, const pick *p)
{
    return w->problem.accumulate && p->s->add[p->index].area.buf == SG_C;
}

static bool c_not_added(world *w)
{
    pick p;
    if (!choose(w, ADDS, is_c, &p)) return false;
    TAKE_OUT(p, add);
    return true;
}

static bool c_added_twice(world *w)
{
    pick p;
    if (!choose(w, ADDS, is_c, &p)) return false;
    DOUBLE(p, add, adds, add_room);
    return true;
}

static bool addend_of_peer(world *w)
{
    pick p;
    if (w->ranks < 2 || !choose(w, ADDS, NULL, &p)) return false;
    sg_area *const a = &p.s->add[p.index].area;
    if (a->rows == 0 || a->cols == 0) return false;
    a->rank = (int16_t)other_rank(w, a->rank);
    return true;
}

/* ---- Operands -------------------------------------------------------------------------------- */

static bool has_product(const world *w, const pick *p)
{
    (void)w;
    return p->patch->k0 < p->patch->k1;
}

static bool move_cols(world *w, sg_area *a)
{
    const int64_t cols = w->sched[a->rank].buf[a->buf].cols;
    if (a->cols >= cols) return false;
    a->col0 += (int64_t)a->col0 + a->cols < cols ? 1 : -1;
    return true;
}

static bool k_of_b_shifted(world *w)
{
    pick p;
    return choose(w, PATCHES, has_product, &p) && move_cols(w, &p.patch->b);
}

static bool columns_of_a_shifted(world *w)
{
    pick p;
    return choose(w, PATCHES, has_product, &p) && move_cols(w, &p.patch->a);
}

static bool rows_of_b_shifted(world *w)
{
    pick p;
    return choose(w, PATCHES, has_product, &p) && move_rows(w, &p.patch->b, 1);
}

/* The launch's patches again, one of them twice. */
static bool patch_twice(world *w)
{
    pick p;
    if (!choose(w, PATCHES, NULL, &p)) return false;
    sg_launch *const l = &p.step->u.launch;
    const int32_t first = p.s->patches;
    assert_true(sg_grow(&p.s->patch, &p.s->patch_room, (int64_t)p.s->patches + l->patches + 1,
                        sizeof *p.s->patch));
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        p.s->patch[p.s->patches++] = p.s->patch[i];
        if (i == p.index) p.s->patch[p.s->patches++] = p.s->patch[i];
    }
    l->patch0 = first;
    l->patches++;
    recount(p.s, p.step);
    return true;
}

static bool is_call(const world *w, const pick *p)
{
    return w->problem.call && has_product(w, p);
}

static bool call_for_half(world *w)
{
    pick p;
    if (w->problem.n < 2 || !choose(w, PATCHES, is_call, &p)) return false;
    p.step->u.launch.tile_n = (int32_t)sg_ceil_div(w->problem.n, 2);
    recount(p.s, p.step);
    return true;
}

static bool call_over_part(world *w)
{
    pick p;
    if (w->problem.k < 2 || !choose(w, PATCHES, is_call, &p)) return false;
    p.patch->k1--;
    p.patch->a.cols--;
    p.patch->b.cols--;
    return true;
}

#endif
