/* seal.c -- sg_sched_seal: what is the same for every strategy.
 *
 * A sealed schedule says where each buffer lies, how many raisers each flag has, which steps stand
 * behind the gate, which stores wait for a peer's hello, and whether the run takes part in the
 * protocol at all (DESIGN.md section 3).  Strategies never see any of it. */
#include <stdarg.h>
#include <string.h>

#include "core/sched_rules.h"

/* ---- What one schedule must keep ------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static shingle_status broken(const sg_sched *s, int32_t step,
                                                                   const char *format, ...)
{
    char what[240] = "";
    va_list args;
    va_start(args, format);
    sg_format(what, sizeof what, format, args);
    va_end(args);
    return sg_fail(SHINGLE_EBUG, "schedule of rank %d, step %d: %s", s->rank, step, what);
}

/* Buffers of peers have the shape this rank knows, except user tensors,
 * whose rows the problem tells. */
static int64_t buf_rows(const sg_sched *s, const sg_area *a)
{
    if (a->rank == s->rank) return s->buf[a->buf].rows;
    if (a->buf == SG_C) return sg_problem_c_rows(s->problem, a->rank);
    return s->buf[a->buf].rows;
}

static bool is_inside(const sg_sched *s, const sg_area *a)
{
    if (a->rank < 0 || a->rank >= s->problem->ranks || a->buf >= s->bufs) return false;
    if (a->row0 < 0 || a->rows < 0 || a->col0 < 0 || a->cols < 0) return false;
    return (int64_t)a->row0 + a->rows <= buf_rows(s, a) &&
           (int64_t)a->col0 + a->cols <= s->buf[a->buf].cols;
}

/* What is broken, and where: as the checker words it, beside what the buffer has. */
static shingle_status broken_at(const sg_sched *s, int32_t step, const char *what, const sg_area *a)
{
    const int64_t row = a->row0;
    const int64_t col = a->col0;
    if (a->rank < 0 || a->rank >= s->problem->ranks)
        return broken(s, step, "%s; rank %d is none of %d", what, a->rank, s->problem->ranks);
    if (a->buf >= s->bufs)
        return broken(s, step, "%s; buffer %d, %d are declared", what, a->buf, s->bufs);
    return broken(s, step, "%s; %s of rank %d, rows %lld:%lld, cols %lld:%lld; it is %lld x %lld",
                  what, s->buf[a->buf].name, a->rank, (long long)row, (long long)(row + a->rows),
                  (long long)col, (long long)(col + a->cols), (long long)buf_rows(s, a),
                  (long long)s->buf[a->buf].cols);
}

bool sg_sched_is_torn(const sg_sched *s, const sg_area *a)
{
    const int64_t first = a->buf == SG_B ? a->row0 : a->col0;
    const int64_t count = a->buf == SG_B ? a->rows : a->cols;
    int64_t low = 0;
    int64_t high = 0;
    if (s->problem->b_count < 2 || (a->buf != SG_B && a->buf != SG_C)) return false;
    sg_problem_b_at(s->problem, first, &low, &high);
    return first + count > high;
}

bool sg_sched_is_reached(const sg_sched *s, const sg_area *a)
{
    return sg_buf_is_shared(&s->buf[a->buf]) || (a->buf == SG_C && s->problem->b_count < 2);
}

/* Reads are of the own memory; stores go anywhere but into inputs, and into a peer's memory only
 * where peers can reach. */
static shingle_status check_read(const sg_sched *s, int32_t step, const sg_area *a)
{
    if (!is_inside(s, a)) return broken_at(s, step, "reads outside a buffer", a);
    if (sg_sched_is_torn(s, a)) return broken_at(s, step, "reads over a border between tensors", a);
    if (a->rank != s->rank) return broken_at(s, step, "reads a peer's memory", a);
    return SHINGLE_OK;
}

static shingle_status check_write(const sg_sched *s, int32_t step, const sg_area *a)
{
    if (!is_inside(s, a)) return broken_at(s, step, "stores outside a buffer", a);
    if (sg_sched_is_torn(s, a))
        return broken_at(s, step, "stores over a border between tensors", a);
    if (a->buf == SG_A || a->buf == SG_B || a->buf == SG_BIAS || a->buf == SG_GAIN)
        return broken_at(s, step, "stores into an input", a);
    if (a->rank != s->rank && !sg_sched_is_reached(s, a))
        return broken_at(s, step, "stores where peers cannot reach", a);
    return SHINGLE_OK;
}

static shingle_status check_wait(const sg_sched *s, int32_t step, const sg_wait *w,
                                 const sg_patch *p)
{
    if (w->by < 0 || w->by >= s->problem->ranks) return broken(s, step, "a wait for no rank");
    if (w->flag0 < 0) return broken(s, step, "a wait for no flag");
    if (w->per != SG_PER_ROWS) return SHINGLE_OK;
    if (p == NULL || w->chunk < 1 || w->chunks_k < 1)
        return broken(s, step, "a wait by rows without chunks");
    if (w->chunk_k > 0 && (p->slab < 1 || w->chunk_k % p->slab != 0 || p->k0 % w->chunk_k != 0))
        return broken(s, step, "slabs do not fit the chunks of k they wait for");
    return SHINGLE_OK;
}

static bool same_shape(const sg_area *a, int32_t rows, int32_t cols)
{
    return a->rows == rows && a->cols == cols;
}

static shingle_status check_tos(const sg_sched *s, int32_t step, int32_t to0, int32_t tos,
                                int32_t rows, int32_t cols)
{
    for (int32_t i = to0; i < to0 + tos; i++) {
        SG_TRY(check_write(s, step, &s->to[i]));
        if (!same_shape(&s->to[i], rows, cols))
            return broken(s, step, "a store of another shape than its source");
    }
    return SHINGLE_OK;
}

static shingle_status check_adds(const sg_sched *s, int32_t step, int32_t add0, int32_t adds,
                                 int32_t rows, int32_t cols)
{
    for (int32_t i = add0; i < add0 + adds; i++) {
        if (s->add[i].awaited) SG_TRY(check_wait(s, step, &s->add[i].wait, NULL));
        SG_TRY(check_read(s, step, &s->add[i].area));
        if (!same_shape(&s->add[i].area, rows, cols))
            return broken(s, step, "an addend of another shape than its sum");
    }
    return SHINGLE_OK;
}

/* COUNT raises from FIRST on: a word of no rank, or in front of the first, is somebody else's. */
static shingle_status check_raises(const sg_sched *s, int32_t step, int32_t first, int32_t count)
{
    for (int32_t i = first; i < first + count; i++) {
        if (s->raise[i].at < 0 || s->raise[i].at >= s->problem->ranks)
            return broken(s, step, "a raise at no rank");
        if (s->raise[i].flag0 < 0) return broken(s, step, "a raise of no flag");
    }
    return SHINGLE_OK;
}

static shingle_status check_range(const sg_sched *s, int32_t step, const sg_launch *l,
                                  const sg_patch *p)
{
    if (p->tiles == 0 && p->tile0 == 0) return SHINGLE_OK;
    const int32_t all = (int32_t)sg_walk_tiles(p, l->tile_m, l->tile_n);
    if (p->tile0 < 0 || p->tiles < 1 || p->tiles > all - p->tile0)
        return broken(s, step, "a range of tiles that the patch does not have");
    return SHINGLE_OK;
}

/* An area of a patch is as large as the patch, or has a place for each of its visits. */
static shingle_status check_fit(const sg_sched *s, int32_t step, const sg_launch *l,
                                const sg_patch *p, const sg_area *a)
{
    if (!a->tiled)
        return same_shape(a, p->rows, p->cols)
                   ? SHINGLE_OK
                   : broken(s, step, "an addend or store of another shape than its patch");
    const int64_t rows = (int64_t)sg_walk_visits(p, l->tile_m, l->tile_n) * l->tile_m;
    if (a->rows != rows || a->cols != l->tile_n || a->col0 != 0 || s->buf[a->buf].cols != a->cols)
        return broken(s, step, "places that do not fit the visits of their patch");
    return SHINGLE_OK;
}

/* Tiles that are narrower than the launch's have no flags or places of their own. */
static shingle_status check_width(const sg_sched *s, int32_t step, const sg_launch *l,
                                  const sg_patch *p)
{
    bool by_tile = false;
    if (p->tile_n == 0) return SHINGLE_OK;
    if (p->tile_n < 0 || p->tile_n >= l->tile_n || l->vendor || s->problem->call)
        return broken(s, step, "tiles that are not narrower than the launch's");
    for (int32_t i = p->raise0; i < p->raise0 + p->raises; i++)
        by_tile |= s->raise[i].per == SG_PER_TILE;
    for (int32_t i = p->wait0; i < p->wait0 + p->waits; i++)
        by_tile |= s->wait[i].per == SG_PER_TILE;
    for (int32_t i = p->add0; i < p->add0 + p->adds; i++) {
        const sg_addend *const add = &s->add[i];
        by_tile |= add->area.tiled || (add->awaited && add->wait.per == SG_PER_TILE);
    }
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++) by_tile |= s->to[i].tiled;
    return by_tile ? broken(s, step, "narrow tiles with flags or places") : SHINGLE_OK;
}

static shingle_status check_patch(const sg_sched *s, int32_t step, const sg_launch *l,
                                  const sg_patch *p)
{
    const int32_t depth = p->k1 - p->k0;
    if (s->problem->call && depth > 0 &&
        (depth != s->problem->k || p->cols != s->problem->n || l->tile_n != p->cols))
        return broken(s, step, "a part of a row that a call makes whole");
    if (depth < 0 || p->k0 < 0 || p->k1 > s->problem->k) return broken(s, step, "k out of range");
    if (depth > 0) {
        SG_TRY(check_read(s, step, &p->a));
        SG_TRY(check_read(s, step, &p->b));
        if (!same_shape(&p->a, p->rows, depth) || !same_shape(&p->b, p->cols, depth))
            return broken(s, step, "operands do not fit their patch");
    }
    if (p->own_at > p->adds)
        return broken(s, step, "the own product is added after %d addends, and there are %d",
                      p->own_at, p->adds);
    SG_TRY(check_width(s, step, l, p));
    for (int32_t i = 0; i < p->waits; i++) SG_TRY(check_wait(s, step, &s->wait[p->wait0 + i], p));
    SG_TRY(check_range(s, step, l, p));
    for (int32_t i = p->add0; i < p->add0 + p->adds; i++) {
        if (s->add[i].awaited) SG_TRY(check_wait(s, step, &s->add[i].wait, p));
        SG_TRY(check_read(s, step, &s->add[i].area));
        SG_TRY(check_fit(s, step, l, p, &s->add[i].area));
    }
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++) {
        SG_TRY(check_write(s, step, &s->to[i]));
        SG_TRY(check_fit(s, step, l, p, &s->to[i]));
    }
    return check_raises(s, step, p->raise0, p->raises);
}

/* Do patches go on with the product of FIRST in its visits, and do nothing else?  They read the
 * same B of the user's, which the CPU keeps packed. */
static shingle_status check_rest(const sg_sched *s, int32_t step, const sg_launch *l,
                                 const sg_patch *first)
{
    if (first->goes_on || first->more == 0) return SHINGLE_OK;
    if (first->k0 == first->k1 || l->vendor || s->problem->call)
        return broken(s, step, "a patch goes on with a product that cannot");
    for (const sg_patch *p = first + 1; p <= first + first->more; p++) {
        if (p->row0 != first->row0 || p->rows != first->rows || p->col0 != first->col0 ||
            p->cols != first->cols || p->raster != first->raster || p->width != first->width ||
            p->tile_n != first->tile_n || p->tile0 != first->tile0 || p->tiles != first->tiles)
            return broken(s, step, "a product goes on in other tiles");
        if (p->b.buf != SG_B || first->b.buf != SG_B || p->b.row0 != first->b.row0)
            return broken(s, step, "a product goes on with another B");
        if (p->k0 == p->k1 || p->slab > 0 || first->slab > 0)
            return broken(s, step, "a product goes on with nothing, or in slabs");
        if (p->adds > 0 || p->tos > 0 || p->raises > 0 || p->own_at > 0)
            return broken(s, step, "what goes on with a product has more than waits");
    }
    return SHINGLE_OK;
}

/* Whole rows, from one addend each, to the own C. */
static shingle_status check_norm(const sg_sched *s, int32_t step, const sg_launch *l)
{
    if (!s->problem->norm || l->vendor) return broken(s, step, "a norm that nobody asks for");
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        if (p->k0 != p->k1 || p->waits > 0 || p->raises > 0 || p->adds != 1 || p->tos != 1 ||
            p->tile0 != 0 || p->tiles != 0)
            return broken(s, step, "a norm of something else than a sum that is there");
        const sg_area *const from = &s->add[p->add0].area;
        const sg_area *const to = &s->to[p->to0];
        SG_TRY(check_read(s, step, from));
        SG_TRY(check_write(s, step, to));
        if (p->col0 != 0 || p->cols != s->problem->n || p->cols != l->tile_n ||
            !same_shape(to, p->rows, p->cols) || to->tiled || to->buf != SG_C ||
            to->rank != s->rank)
            return broken(s, step, "a norm of other than whole rows of the own C");
        const int64_t places = from->cols > 0 ? sg_walk_tiles(p, l->tile_m, from->cols) : 0;
        const bool fits = from->tiled ? from->rows == places * l->tile_m && from->col0 == 0 &&
                                            s->buf[from->buf].cols == from->cols
                                      : same_shape(from, p->rows, p->cols);
        if (!fits || s->add[p->add0].awaited || s->buf[from->buf].wide || from->buf == SG_C)
            return broken(s, step, "a norm of rows that do not fit it");
    }
    return SHINGLE_OK;
}

static shingle_status check_launch(const sg_sched *s, int32_t step, const sg_launch *l)
{
    if (l->tile_m < 1 || l->tile_n < 1) return broken(s, step, "tiles of nothing");
    if (l->norm) return check_norm(s, step, l);
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        SG_TRY(check_patch(s, step, l, p));
        SG_TRY(check_rest(s, step, l, p));
        if (!l->vendor) continue;
        if (l->patches != 1 || p->waits || p->raises || p->tos != 1 || p->adds > 1)
            return broken(s, step, "the vendor's product takes no waits or raises");
        if (p->adds == 0) continue;
        const sg_addend *const add = &s->add[p->add0];
        if (add->awaited || add->area.tiled ||
            s->buf[add->area.buf].wide != s->buf[s->to[p->to0].buf].wide)
            return broken(s, step, "the vendor's product adds what waits or is of another type");
    }
    return SHINGLE_OK;
}

static shingle_status check_coll(const sg_sched *s, int32_t index, const sg_step *step)
{
    const sg_coll *const c = &step->u.coll;
    const int ranks = s->problem->ranks;
    const int lists = c->kind == SG_ALL_REDUCE ? 0 : c->kind == SG_ALL_TO_ALL ? 2 : 1;
    if (step->tos != lists * ranks)
        return broken(s, index, "a collective without one area per rank");
    if (c->kind != SG_ALL_TO_ALL)
        SG_TRY(c->kind == SG_ALL_GATHER ? check_read(s, index, &c->self)
                                        : check_write(s, index, &c->self));
    for (int32_t i = 0; i < step->tos; i++) {
        const sg_area *const a = &s->to[step->to0 + i];
        const bool written = c->kind == SG_ALL_GATHER || (c->kind == SG_ALL_TO_ALL && i >= ranks);
        SG_TRY(written ? check_write(s, index, a) : check_read(s, index, a));
        if (a->rank != s->rank) return broken(s, index, "a collective in a peer's memory");
    }
    return SHINGLE_OK;
}

/* Only patches know which visit has which place. */
static bool has_places(const sg_sched *s, const sg_step *step)
{
    bool tiled = false;
    for (int32_t i = 0; i < step->tos; i++) tiled |= s->to[step->to0 + i].tiled;
    if (step->kind == SG_COPY) tiled |= step->u.copy.src.tiled;
    if (step->kind == SG_COLL) tiled |= step->u.coll.self.tiled;
    if (step->kind != SG_REDUCE) return tiled;
    for (int32_t i = 0; i < step->u.reduce.adds; i++)
        tiled |= s->add[step->u.reduce.add0 + i].area.tiled;
    return tiled;
}

static shingle_status check_step(const sg_sched *s, int32_t index)
{
    const sg_step *const step = &s->step[index];
    if (step->kind != SG_LAUNCH && has_places(s, step))
        return broken(s, index, "places outside a launch");
    for (int i = 0; i < 2; i++)
        if (step->after[i] >= index) return broken(s, index, "is after a later step");
    if (step->kind == SG_LAUNCH) return check_launch(s, index, &step->u.launch);
    for (int32_t i = 0; i < step->waits; i++)
        SG_TRY(check_wait(s, index, &s->wait[step->wait0 + i], NULL));
    SG_TRY(check_raises(s, index, step->raise0, step->raises));
    if (step->kind == SG_COLL) return check_coll(s, index, step);
    if (step->kind == SG_COPY) {
        const sg_area *const src = &step->u.copy.src;
        SG_TRY(check_read(s, index, src));
        return check_tos(s, index, step->to0, step->tos, src->rows, src->cols);
    }
    if (step->kind == SG_REDUCE) {
        if (step->tos < 1) return broken(s, index, "a sum that goes nowhere");
        const sg_area *const to = &s->to[step->to0];
        SG_TRY(check_adds(s, index, step->u.reduce.add0, step->u.reduce.adds, to->rows, to->cols));
        return check_tos(s, index, step->to0, step->tos, to->rows, to->cols);
    }
    return step->tos ? broken(s, index, "a flag step that stores") : SHINGLE_OK;
}

/* ---- Raisers --------------------------------------------------------------------------------- */

static void see_flag(sg_sched *s, int64_t end)
{
    if (end > s->flags) s->flags = (int32_t)end;
}

/* The first raise with the same flag as S->raise[INDEX], or INDEX itself. */
static int32_t first_raise(sg_sched *s, uint32_t mask, int32_t index)
{
    const sg_raise *const r = &s->raise[index];
    uint32_t slot = (uint32_t)sg_mix((uint64_t)(uint32_t)r->flag0 << 16 | (uint16_t)r->at) & mask;
    for (; s->table[slot] >= 0; slot = (slot + 1) & mask) {
        const sg_raise *const other = &s->raise[s->table[slot]];
        if (other->at == r->at && other->flag0 == r->flag0) return s->table[slot];
    }
    s->table[slot] = index;
    return index;
}

static bool new_counter(sg_sched *s, int32_t raisers)
{
    if (!sg_grow(&s->counter, &s->counter_room, (int64_t)s->counters + 1, sizeof *s->counter))
        return false;
    s->counter[s->counters++] = raisers;
    return true;
}

/* Counts the raisers (VISITS of a patch of TILES, or one step) of one raise. */
static bool count_raise(sg_sched *s, uint32_t mask, int32_t index, int32_t tiles, int32_t visits)
{
    sg_raise *const r = &s->raise[index];
    if (r->per == SG_PER_TILE) {
        see_flag(s, (int64_t)r->flag0 + tiles);
        return true;
    }
    see_flag(s, (int64_t)r->flag0 + 1);
    const int32_t first = first_raise(s, mask, index);
    if (first == index) {
        r->counter = s->counters;
        return new_counter(s, visits);
    }
    r->counter = s->raise[first].counter;
    s->counter[r->counter] += visits;
    return true;
}

/* The same for all raises of a launch. */
static bool count_launch(sg_sched *s, uint32_t mask, const sg_launch *l)
{
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        const int32_t tiles = (int32_t)sg_walk_tiles(p, l->tile_m, l->tile_n);
        const int32_t visits = sg_walk_visits(p, l->tile_m, l->tile_n);
        for (int32_t r = p->raise0; r < p->raise0 + p->raises; r++)
            if (!count_raise(s, mask, r, tiles, visits)) return false;
    }
    return true;
}

static bool count_raises(sg_sched *s)
{
    int64_t slots = 8;
    while (slots < 2 * (int64_t)s->raises) slots *= 2;
    if (!sg_grow(&s->table, &s->table_room, slots, sizeof *s->table)) return false;
    memset(s->table, 0xff, (size_t)slots * sizeof *s->table);
    const uint32_t mask = (uint32_t)slots - 1;

    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind == SG_LAUNCH) {
            if (!count_launch(s, mask, &step->u.launch)) return false;
            continue;
        }
        for (int32_t j = 0; j < step->raises; j++)
            if (!count_raise(s, mask, step->raise0 + j, 1, 1)) return false;
    }
    /* One raiser needs no counter. */
    for (int32_t i = 0; i < s->raises; i++)
        if (s->raise[i].counter >= 0 && s->counter[s->raise[i].counter] == 1)
            s->raise[i].counter = -1;
    return true;
}

static void see_wait(sg_sched *s, const sg_wait *w, int64_t tiles)
{
    if (w->by != s->rank) s->peers = 1;
    if (w->per == SG_PER_ROWS)
        see_flag(s, w->flag0 + sg_ceil_div(w->rows, w->chunk) * w->chunks_k);
    else
        see_flag(s, w->flag0 + (w->per == SG_PER_TILE ? tiles : 1));
}

/* COUNT waits of a patch of TILES tiles, or of a step, from FIRST on. */
static void see_wait_list(sg_sched *s, int32_t first, int32_t count, int64_t tiles)
{
    for (int32_t i = first; i < first + count; i++) see_wait(s, &s->wait[i], tiles);
}

/* The same for those of addends. */
static void see_add_waits(sg_sched *s, int32_t first, int32_t count, int64_t tiles)
{
    for (int32_t i = first; i < first + count; i++)
        if (s->add[i].awaited) see_wait(s, &s->add[i].wait, tiles);
}

static void see_waits(sg_sched *s)
{
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind != SG_LAUNCH) {
            see_wait_list(s, step->wait0, step->waits, 1);
            if (step->kind == SG_REDUCE)
                see_add_waits(s, step->u.reduce.add0, step->u.reduce.adds, 1);
            continue;
        }
        const sg_launch *const l = &step->u.launch;
        for (int32_t j = l->patch0; j < l->patch0 + l->patches; j++) {
            const sg_patch *const p = &s->patch[j];
            const int64_t tiles = sg_walk_tiles(p, l->tile_m, l->tile_n);
            see_wait_list(s, p->wait0, p->waits, tiles);
            see_add_waits(s, p->add0, p->adds, tiles);
        }
    }
}

/* ---- Memory and protocol --------------------------------------------------------------------- */

static shingle_status place_bufs(sg_sched *s)
{
    memset(s->arena_bytes, 0, sizeof s->arena_bytes);
    for (int i = 0; i < s->bufs; i++) {
        sg_buf *const buf = &s->buf[i];
        int64_t bytes = 0;
        if (!sg_mul(buf->rows, buf->cols, &bytes) ||
            !sg_mul(bytes, sg_sched_element_bytes(s, i), &bytes) || bytes > INT64_MAX / 64)
            return sg_fail(SHINGLE_EINVAL, "%s is %lld x %lld elements, too large", buf->name,
                           (long long)buf->rows, (long long)buf->cols);
        buf->offset = s->arena_bytes[buf->arena];
        s->arena_bytes[buf->arena] = sg_round_up(buf->offset + bytes, SG_BUF_ALIGN);
    }
    s->arena_bytes[SG_USER] = 0;
    return SHINGLE_OK;
}

typedef struct sealing {
    sg_sched *s;
    bool gate;  /* of the step at hand */
    bool moves; /* it touches a shared buffer whose address is not fixed */
} sealing;

static void see_area(sealing *seal, const sg_area *a)
{
    const sg_buf *const buf = &seal->s->buf[a->buf];
    const bool shared = sg_buf_is_shared(buf);
    seal->moves |= shared && !buf->fixed;
    seal->gate |= shared || a->rank != seal->s->rank;
}

static void see_tos(sealing *seal, int32_t to0, int32_t tos)
{
    sg_sched *const s = seal->s;
    for (int32_t i = to0; i < to0 + tos; i++) {
        sg_area *const a = &s->to[i];
        see_area(seal, a);
        if (a->rank == s->rank || s->buf[a->buf].arena != SG_USER) continue;
        a->leave = 1;
        s->buf[a->buf].reach = 1;
    }
}

static void see_adds(sealing *seal, int32_t add0, int32_t adds)
{
    for (int32_t i = add0; i < add0 + adds; i++) see_area(seal, &seal->s->add[i].area);
}

/* Is what P adds where it stores? */
static bool adds_onto(const sg_sched *s, const sg_patch *p)
{
    if (p->adds != 1 || !p->own_rounded) return false;
    const sg_area *const from = &s->add[p->add0].area, *to = &s->to[p->to0];
    while (to < &s->to[p->to0 + p->tos] && to->rank != s->rank) to++;
    return s->buf[from->buf].summed && to < &s->to[p->to0 + p->tos] && to->buf == from->buf &&
           to->row0 == from->row0 && to->col0 == from->col0;
}

static shingle_status seal_step(sg_sched *s, int32_t index)
{
    sg_step *const step = &s->step[index];
    sealing seal = {s, false, false};
    if (step->kind == SG_LAUNCH) {
        sg_launch *const l = &step->u.launch;
        l->visits = 0;
        for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
            sg_patch *const p = &s->patch[i];
            p->onto = adds_onto(s, p);
            if (p->k0 < p->k1) see_area(&seal, &p->a);
            if (p->k0 < p->k1) see_area(&seal, &p->b);
            see_adds(&seal, p->add0, p->adds);
            see_tos(&seal, p->to0, p->tos);
            l->visits += sg_sched_patch_visits(s, l, i);
        }
    } else {
        for (int i = 0; i < s->bufs && step->tos > 0; i++)
            if (s->buf[i].summed)
                return broken(s, index, "sums in C, and a step beside launches that stores");
        if (step->kind == SG_COPY) see_area(&seal, &step->u.copy.src);
        if (step->kind == SG_COLL && step->u.coll.kind != SG_ALL_TO_ALL)
            see_area(&seal, &step->u.coll.self);
        if (step->kind == SG_REDUCE) see_adds(&seal, step->u.reduce.add0, step->u.reduce.adds);
        see_tos(&seal, step->to0, step->tos);
    }
    step->gate = seal.gate;
    if (seal.gate) s->peers = 1;
    const bool fixed =
        step->kind == SG_COLL || (step->kind == SG_COPY && step->u.copy.carrier == SG_BY_ENGINE);
    return fixed && seal.moves ? broken(s, index, "an engine in a buffer without SG_FIXED")
                               : SHINGLE_OK;
}

shingle_status sg_sched_seal(sg_sched *s)
{
    if (s->status == SHINGLE_OK) sg_sched_return(s);
    if (s->status == SHINGLE_OK) sg_sched_norm_all(s);
    if (s->status != SHINGLE_OK)
        return sg_fail(s->status, "schedule of rank %d: %s", s->rank, s->why);
    for (int32_t i = 0; i < s->steps; i++) SG_TRY(check_step(s, i));
    int32_t step = 0;
    const char *fault = sg_sched_push_fault(s, &step);
    if (fault == NULL) fault = sg_sched_tagged_fault(s, &step);
    if (fault != NULL) return broken(s, step, "%s", fault);
    SG_TRY(place_bufs(s));
    if (!count_raises(s))
        return sg_fail(SHINGLE_ENOMEM, "no memory for the flags of rank %d", s->rank);
    see_waits(s);
    for (int32_t i = 0; i < s->raises; i++)
        if (s->raise[i].at != s->rank) s->peers = 1;
    for (int i = SG_USER_BUFS; i < s->bufs; i++) {
        if (!sg_buf_is_shared(&s->buf[i])) continue;
        s->peers = 1;
        s->baked |= s->buf[i].fixed;
    }
    for (int32_t i = 0; i < s->steps; i++) SG_TRY(seal_step(s, i));
    s->hello = s->done = s->peers;
    return SHINGLE_OK;
}
