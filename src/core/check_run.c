/* check_run.c -- carries the schedules of all ranks out, once, over cells.
 *
 * Agents are lanes; each runs its steps in order, a launch visit after visit as if one block ran
 * it: then any number of blocks in list order makes progress too.  An agent parks on a flag that is
 * not complete, on a step named in `after`, and in a collective until all ranks are there.  Agents
 * that are all parked are a deadlock.  A cell is written once, and every read is proved to be
 * ordered after its writer, so every other interleaving computes the same.  A cell that is summed
 * in place is written again, by an event that adds it and so is ordered after the writer before it;
 * since nobody else reads what is to be written again, a read is never too late either.  Who adds
 * onto cells of several ranks writes all of them again, and is ordered after all their writers. */
#include <string.h>

#include "core/bits.h"
#include "core/check_state.h"

/* ---- Reading and writing cells --------------------------------------------------------------- */

/* Every cell of TOUCH is there for EVENT to read. */
static shingle_status check_read(sg_checker *ck, int32_t event, int32_t touch)
{
    const sg_touch *const r = &ck->touch[touch];
    const int rank = ck->event[event].rank;
    uint32_t last = SG_INPUT;
    for (int32_t i = 0; i < r->area.rows; i++) {
        const int64_t cell = sg_check_cell(ck, r, i);
        const uint32_t *const writer = &ck->writer[cell];
        for (int32_t j = 0; j < r->area.cols; j++) {
            if (writer[j] == last) continue;
            last = writer[j];
            if (last == SG_NO_WRITER)
                return sg_check_violation(ck, event, touch, "reads what nobody has stored yet");
            if (last == SG_INPUT) continue;
            if (!sg_check_ordered(ck, rank, event, touch, (int32_t)(last - SG_FIRST_WRITER))) {
                const sg_event *const w = &ck->event[last - SG_FIRST_WRITER];
                return sg_check_violation(ck, event, touch,
                                          "reads without waiting for the "
                                          "writer, rank %d, step %d",
                                          w->rank, w->step);
            }
        }
        if (ck->in_place && !r->in_place) memset(&ck->seen[cell], 1, (size_t)r->area.cols);
    }
    return SHINGLE_OK;
}

/* Wherever EVENT stores lies what ADDEND, which it has read, holds, and is there for it. */
static shingle_status check_onto(sg_checker *ck, int32_t event, int32_t addend)
{
    const sg_event *const e = &ck->event[event];
    for (int32_t i = addend + 1; i < e->touch0 + e->touches; i++) {
        const sg_touch *const to = &ck->touch[i];
        for (int32_t row = 0; to->role == SG_ROLE_DST && row < to->area.rows; row++) {
            const int64_t here = sg_check_cell(ck, &ck->touch[addend], row);
            const int64_t there = sg_check_cell(ck, to, row);
            for (int32_t j = 0; j < to->area.cols; j++) {
                const int32_t writer = (int32_t)(ck->writer[there + j] - SG_FIRST_WRITER);
                if (ck->value[there + j] != ck->value[here + j] || writer < 0)
                    return sg_check_violation(ck, event, i, "adds onto what is not its addend");
                if (!sg_check_ordered(ck, e->rank, event, addend, writer))
                    return sg_check_violation(ck, event, i, "adds onto what it does not wait for");
            }
        }
    }
    return SHINGLE_OK;
}

static shingle_status stores_again(sg_checker *ck, int32_t event, int32_t touch, uint32_t writer)
{
    if (writer == SG_INPUT)
        return sg_check_violation(ck, event, touch, "stores over an input that it does not add");
    const sg_event *const w = &ck->event[writer - SG_FIRST_WRITER];
    return sg_check_violation(ck, event, touch, "stores what rank %d, step %d has stored", w->rank,
                              w->step);
}

/* May TOUCH be stored?  Nobody has stored it, or EVENT has added it, stores it for the first time,
 * and nobody else has read it. */
static shingle_status check_store(sg_checker *ck, int32_t event, int32_t touch)
{
    const sg_touch *const r = &ck->touch[touch];
    for (int32_t i = 0; i < r->area.rows; i++) {
        const int64_t cell = sg_check_cell(ck, r, i);
        for (int32_t j = 0; j < r->area.cols; j++) {
            const uint32_t writer = ck->writer[cell + j];
            if (writer == SG_NO_WRITER) continue;
            if (!r->in_place || writer == SG_FIRST_WRITER + (uint32_t)event)
                return stores_again(ck, event, touch, writer);
            if (ck->seen[cell + j])
                return sg_check_violation(ck, event, touch,
                                          "sums in place what another step reads before");
        }
    }
    return SHINGLE_OK;
}

/* Stores the event's sum, of the shape of TOUCH; zeros where a place is filled up. */
static shingle_status store(sg_checker *ck, int32_t event, int32_t touch)
{
    const sg_touch *const r = &ck->touch[touch];
    const uint32_t writer = SG_FIRST_WRITER + (uint32_t)event;
    const bool zero = r->role == SG_ROLE_ZERO;
    SG_TRY(check_store(ck, event, touch));
    for (int32_t i = 0; i < r->area.rows; i++) {
        const int64_t cell = sg_check_cell(ck, r, i);
        for (int32_t j = 0; j < r->area.cols; j++) {
            ck->writer[cell + j] = writer;
            const uint64_t sum = zero ? 0 : ck->sum[(int64_t)i * r->area.cols + j];
            ck->value[cell + j] = ck->bits ? sg_check_bits_stored(ck, r, sum) : sum;
        }
    }
    return SHINGLE_OK;
}

static void clear_sum(sg_checker *ck, const sg_touch *shape)
{
    memset(ck->sum, 0, (size_t)shape->area.rows * (size_t)shape->area.cols * sizeof *ck->sum);
}

/* Adds the cells of TOUCH, the INDEX-th addend of EVENT, to the sum. */
static void add(sg_checker *ck, int32_t event, const sg_touch *r, int32_t index)
{
    if (ck->bits) {
        sg_check_bits_add(ck, event, r, index);
        return;
    }
    for (int32_t i = 0; i < r->area.rows; i++) {
        const uint64_t *const value = &ck->value[sg_check_cell(ck, r, i)];
        uint64_t *const sum = &ck->sum[(int64_t)i * r->area.cols];
        for (int32_t j = 0; j < r->area.cols; j++) sum[j] += value[j];
    }
}

static void multiply(sg_checker *ck, int32_t event, const sg_touch *b)
{
    const sg_touch *const a = b - 1;
    const int32_t cols = b->area.rows;
    if (ck->bits) {
        sg_check_bits_multiply(ck, event, b);
        return;
    }
    for (int32_t i = 0; i < a->area.rows; i++) {
        const uint64_t *const x = &ck->value[sg_check_cell(ck, a, i)];
        for (int32_t j = 0; j < cols; j++) {
            const uint64_t *const y = &ck->value[sg_check_cell(ck, b, j)];
            uint64_t sum = 0;
            for (int32_t k = 0; k < a->area.cols; k++) sum += x[k] * y[k];
            ck->sum[(int64_t)i * cols + j] += sum;
        }
    }
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void wake(sg_checker *ck, int32_t *waiters)
{
    while (*waiters >= 0) {
        const int32_t agent = *waiters;
        *waiters = ck->agent[agent].next;
        ck->queue[ck->queued++] = agent;
    }
}

static shingle_status note_wait(sg_checker *ck, int32_t event, const sg_touch *r)
{
    const int32_t step = ck->event[event].step;
    for (int32_t j = 0; j < r->flags.count; j++) {
        sg_flag *const f = &ck->flag[sg_check_flag(r, j)];
        f->mark = event + 1;
        if (f->awaiting >= 0 && ck->node[f->awaiting].what == step) continue;
        SG_ROOM(ck, node, node_room, ck->nodes + 1);
        ck->node[ck->nodes] = (sg_node){step, f->awaiting};
        f->awaiting = ck->nodes++;
    }
    return SHINGLE_OK;
}

static void raise_flags(sg_checker *ck, const sg_touch *r)
{
    for (int32_t j = 0; j < r->flags.count; j++) {
        sg_flag *const f = &ck->flag[sg_check_flag(r, j)];
        if (++f->raised == f->raisers) wake(ck, &f->waiter);
    }
}

/* The sum is complete: what a final visit or reduce still does to it. */
static void finish(sg_checker *ck, const sg_touch *shape, const sg_touch *bias)
{
    for (int32_t i = 0; i < shape->area.rows; i++)
        for (int32_t j = 0; j < shape->area.cols; j++) {
            uint64_t *const sum = &ck->sum[(int64_t)i * shape->area.cols + j];
            *sum = sg_check_finish(ck, *sum, bias ? ck->value[sg_check_cell(ck, bias, 0) + j] : 0);
        }
}

/* What a norm reads, side by side; *COL: columns of cells so far. */
static void take_columns(sg_checker *ck, const sg_touch *from, const sg_touch *shape, int32_t *col)
{
    for (int32_t i = 0; i < from->area.rows; i++)
        memcpy(&ck->sum[(int64_t)i * shape->area.cols + *col],
               &ck->value[sg_check_cell(ck, from, i)], (size_t)from->area.cols * sizeof *ck->sum);
    *col += from->area.cols;
}

/* Rows in the sum become what goes into the residual, or then into C. */
static void norm(sg_checker *ck, const sg_touch *shape, const sg_touch *residual,
                 const sg_touch *gain)
{
    for (int32_t i = 0; i < shape->area.rows; i++) {
        uint64_t *const row = &ck->sum[(int64_t)i * shape->area.cols];
        if (shape->buf == SG_RESIDUAL)
            sg_check_add_residual(ck, row, &ck->value[sg_check_cell(ck, residual, i)],
                                  shape->area.cols);
        else
            sg_check_norm(ck, row, &ck->value[sg_check_cell(ck, gain, 0)], shape->area.cols);
    }
}

/* An event that is being carried out. */
typedef struct carrying {
    int32_t event;
    const sg_touch *shape; /* of the sum: its first store's; NULL: it stores nothing */
    const sg_touch *bias, *residual, *gain; /* NULL until they have been read */
    int32_t adds;                           /* addends so far */
    int32_t col; /* of a norm: where in the sum the next addend's columns go */
    bool open;   /* the epilogue is still to come */
} carrying;

static carrying begin_event(const sg_checker *ck, int32_t event)
{
    const sg_event *const e = &ck->event[event];
    carrying c = {.event = event, .open = e->final && sg_problem_has_epilogue(ck->problem)};
    for (int32_t i = e->touch0; i < e->touch0 + e->touches && c.shape == NULL; i++)
        if (ck->touch[i].role == SG_ROLE_DST) c.shape = &ck->touch[i];
    return c;
}

/* What R reads goes into the sum, or is kept for when that is complete. */
static void take(sg_checker *ck, carrying *c, const sg_touch *r)
{
    switch (r->role) {
    case SG_ROLE_B: multiply(ck, c->event, r); break; /* with the A that stands before it */
    case SG_ROLE_SRC: add(ck, c->event, r, c->adds++); break;
    case SG_ROLE_ADDEND:
        if (ck->event[c->event].norm)
            take_columns(ck, r, c->shape, &c->col);
        else
            add(ck, c->event, r, c->adds++);
        break;
    case SG_ROLE_BIAS: c->bias = r; break;
    case SG_ROLE_RESIDUAL: c->residual = r; break;
    case SG_ROLE_GAIN: c->gain = r; break;
    default: break;
    }
}

/* Does to the sum what is still to be done, and stores it as TOUCH says. */
static shingle_status put(sg_checker *ck, carrying *c, int32_t touch)
{
    const sg_touch *const r = &ck->touch[touch];
    if (c->open) finish(ck, r, c->bias); /* a store comes before the zeros around it */
    c->open = false;
    if (ck->event[c->event].norm) norm(ck, r, c->residual, c->gain);
    return store(ck, c->event, touch);
}

/* All flags that EVENT awaits are complete. */
static shingle_status carry_out(sg_checker *ck, int32_t event)
{
    const sg_event *const e = &ck->event[event];
    carrying c = begin_event(ck, event);
    if (c.shape != NULL) clear_sum(ck, c.shape);
    for (int32_t i = e->touch0; i < e->touch0 + e->touches; i++) {
        const sg_touch *const r = &ck->touch[i];
        switch (r->what) {
        case SG_WAITS: SG_TRY(note_wait(ck, event, r)); break;
        case SG_READS:
            SG_TRY(check_read(ck, event, i));
            if (e->onto && r->role == SG_ROLE_ADDEND) SG_TRY(check_onto(ck, event, i));
            if (c.shape != NULL) take(ck, &c, r);
            break;
        case SG_WRITES: SG_TRY(put(ck, &c, i)); break;
        case SG_RAISES: raise_flags(ck, r); break;
        }
    }
    return SHINGLE_OK;
}

/* ---- Collectives ----------------------------------------------------------------------------- */

static int coll_kind(const sg_checker *ck, int32_t event)
{
    return ck->sched[ck->event[event].rank].step[ck->event[event].step].u.coll.kind;
}

/* The touch of the own area, or the part of rank PART (parts stand side by
 * side); -1 if there is none. */
static int32_t coll_touch(const sg_checker *ck, int32_t event, sg_role role, int part)
{
    const sg_event *const e = &ck->event[event];
    const int32_t end = e->touch0 + e->touches;
    int32_t i = e->touch0;
    while (i < end && ck->touch[i].role != role) i++;
    return i + part < end && ck->touch[i + part].role == role ? i + part : -1;
}

/* Does a collective of KIND move between the own area of rank R and the part of rank Q there?  Sets
 * both touches: the own area is of one rank, the part of the other. */
static void coll_edge(const sg_checker *ck, const int32_t *events, int kind, int r, int q,
                      int32_t *self_out, int32_t *part_out)
{
    if (kind == SG_ALL_GATHER) { /* q sends, r receives */
        *self_out = coll_touch(ck, events[q], SG_ROLE_SELF, 0);
        *part_out = coll_touch(ck, events[r], SG_ROLE_PART, q);
    } else if (kind == SG_REDUCE_SCATTER) {
        *self_out = coll_touch(ck, events[r], SG_ROLE_SELF, 0);
        *part_out = coll_touch(ck, events[q], SG_ROLE_PART, r);
    } else if (kind == SG_ALL_TO_ALL) { /* q sends, r receives: parts of both */
        *self_out = coll_touch(ck, events[q], SG_ROLE_PART, r);
        *part_out = coll_touch(ck, events[r], SG_ROLE_PART, ck->ranks + q);
    } else {
        *self_out = coll_touch(ck, events[r], SG_ROLE_SELF, 0);
        *part_out = coll_touch(ck, events[q], SG_ROLE_SELF, 0);
    }
}

static bool is_wide(const sg_checker *ck, int32_t touch)
{
    const sg_touch *const r = &ck->touch[touch];
    return ck->sched[r->rank].buf[r->buf].wide;
}

/* In windows the library finds its peers' memory where the own is. */
static shingle_status match_windows(sg_checker *ck, const int32_t *events, int kind, int r)
{
    const sg_role role = kind == SG_ALL_REDUCE ? SG_ROLE_SELF : SG_ROLE_PART;
    for (int q = 0; q < ck->ranks && kind != SG_ALL_TO_ALL; q++) {
        const int32_t here = coll_touch(ck, events[r], role, kind == SG_ALL_REDUCE ? 0 : q);
        const int32_t there = coll_touch(ck, events[0], role, kind == SG_ALL_REDUCE ? 0 : q);
        if (here < 0 || there < 0) break;
        const sg_touch *const a = &ck->touch[here];
        const sg_touch *const b = &ck->touch[there];
        const bool windows = ck->sched[r].buf[a->buf].arena == SG_WINDOWS ||
                             ck->sched[0].buf[b->buf].arena == SG_WINDOWS;
        if (windows && (a->buf != b->buf || memcmp(&a->area, &b->area, sizeof a->area) != 0))
            return sg_check_violation(ck, events[r], here,
                                      "a collective in windows is not as on rank 0");
    }
    return SHINGLE_OK;
}

static shingle_status match(sg_checker *ck, int32_t seq)
{
    const int32_t *const events = &ck->arrival[(int64_t)seq * ck->ranks];
    for (int r = 0; r < ck->ranks; r++) {
        if (events[r] < 0)
            return sg_check_violation(ck, -1, -1, "rank %d has no collective %d", r, seq);
        if (coll_kind(ck, events[r]) != coll_kind(ck, events[0]))
            return sg_check_violation(ck, events[r], -1, "collective %d is another on rank 0", seq);
        SG_TRY(match_windows(ck, events, coll_kind(ck, events[0]), r));
    }
    const int kind = coll_kind(ck, events[0]);
    for (int r = 0; r < ck->ranks; r++) {
        for (int q = 0; q < ck->ranks; q++) {
            int32_t self = -1;
            int32_t part = -1;
            coll_edge(ck, events, kind, r, q, &self, &part);
            if (self < 0 || part < 0)
                return sg_check_violation(ck, events[r], -1, "has no area for rank %d", q);
            for (int a = 0; a < 2; a++) {
                if (ck->touch[self].axis[a].count != ck->touch[part].axis[a].count)
                    return sg_check_violation(ck, events[r], part, "%d %s do not fit %d of rank %d",
                                              ck->touch[part].axis[a].count, a ? "columns" : "rows",
                                              ck->touch[self].axis[a].count, q);
                SG_TRY(sg_check_couple(ck, &ck->touch[self], a, &ck->touch[part], a));
            }
            if (is_wide(ck, self) != is_wide(ck, part))
                return sg_check_violation(ck, events[r], part,
                                          "a collective between f32 and the problem's type");
        }
    }
    return SHINGLE_OK;
}

shingle_status sg_check_colls(sg_checker *ck)
{
    const int64_t slots = (int64_t)ck->colls * ck->ranks;
    SG_ROOM(ck, arrival, arrival_room, slots);
    SG_ROOM(ck, arrived, arrived_room, ck->colls);
    if (slots == 0) return SHINGLE_OK;
    memset(ck->arrival, 0xff, (size_t)slots * sizeof *ck->arrival);
    memset(ck->arrived, 0, (size_t)ck->colls * sizeof *ck->arrived);
    for (int r = 0; r < ck->ranks; r++) {
        const sg_sched *const s = &ck->sched[r];
        for (int32_t i = 0; i < s->steps; i++) {
            if (s->step[i].kind != SG_COLL) continue;
            const int32_t event = sg_check_stage(ck, r, i)->event0;
            int32_t *const slot = &ck->arrival[(int64_t)s->step[i].u.coll.seq * ck->ranks + r];
            if (s->step[i].u.coll.seq < 0 || *slot >= 0)
                return sg_check_violation(ck, event, -1, "is collective %d, as is another step",
                                          s->step[i].u.coll.seq);
            *slot = event;
        }
    }
    for (int32_t seq = 0; seq < ck->colls; seq++) SG_TRY(match(ck, seq));
    return SHINGLE_OK;
}

/* A library adds in an order of its own. */
static void mark_sum(sg_checker *ck, const sg_touch *shape)
{
    const int64_t cells = (int64_t)shape->area.rows * shape->area.cols;
    for (int64_t i = 0; i < cells; i++) ck->sum[i] = sg_bits_mark(ck->sum[i], SG_BITS_LIBRARY);
}

/* All ranks are there: reads of all, then stores of all. */
static shingle_status run_coll(sg_checker *ck, int32_t seq)
{
    const int32_t *const events = &ck->arrival[(int64_t)seq * ck->ranks];
    const int kind = coll_kind(ck, events[0]);
    const bool copies = kind == SG_ALL_GATHER || kind == SG_ALL_TO_ALL;
    for (int r = 0; r < ck->ranks; r++) {
        const sg_event *const e = &ck->event[events[r]];
        for (int32_t i = e->touch0; i < e->touch0 + e->touches; i++)
            if (ck->touch[i].what == SG_READS) SG_TRY(check_read(ck, events[r], i));
    }
    for (int r = 0; r < ck->ranks; r++) {
        int32_t self = -1;
        int32_t part = -1;
        for (int q = 0; q < ck->ranks; q++) {
            coll_edge(ck, events, kind, r, q, &self, &part);
            if (q == 0 || copies) clear_sum(ck, &ck->touch[self]);
            add(ck, events[r], &ck->touch[copies ? self : part], q);
            if (copies) SG_TRY(store(ck, events[r], part));
        }
        if (ck->bits && !copies) mark_sum(ck, &ck->touch[self]);
        if (kind == SG_REDUCE_SCATTER) SG_TRY(store(ck, events[r], self));
        if (kind == SG_ALL_REDUCE) break; /* one sum for all */
    }
    for (int r = 0; r < ck->ranks && kind == SG_ALL_REDUCE; r++) /* what is read stands first */
        SG_TRY(store(ck, events[r], coll_touch(ck, events[r], SG_ROLE_SELF, 1)));
    return SHINGLE_OK;
}

/* ---- Agents ---------------------------------------------------------------------------------- */

/* Parks AGENT on the first flag of its event that is not complete. */
static bool parks_on_flag(sg_checker *ck, int32_t agent)
{
    sg_agent *const a = &ck->agent[agent];
    const sg_event *const e = &ck->event[a->event];
    for (; a->touch < e->touch0 + e->touches && e->waits; a->touch++) {
        const sg_touch *const r = &ck->touch[a->touch];
        if (r->what != SG_WAITS) continue;
        for (int32_t j = 0; j < r->flags.count; j++) {
            sg_flag *const f = &ck->flag[sg_check_flag(r, j)];
            if (f->raised == f->raisers) continue;
            a->next = f->waiter;
            f->waiter = agent;
            return true;
        }
    }
    return false;
}

static bool parks_on_step(sg_checker *ck, int32_t agent)
{
    sg_agent *const a = &ck->agent[agent];
    const int32_t *const after = ck->sched[a->rank].step[a->step].after;
    for (int i = 0; i < 2; i++) {
        if (after[i] < 0) continue;
        sg_stage *const stage = sg_check_stage(ck, a->rank, after[i]);
        if (stage->over) continue;
        a->next = stage->waiter;
        stage->waiter = agent;
        return true;
    }
    return false;
}

/* AGENT's step is over. */
static void end_step(sg_checker *ck, int32_t agent)
{
    sg_agent *const a = &ck->agent[agent];
    sg_stage *const stage = sg_check_stage(ck, a->rank, a->step);
    stage->over = true;
    wake(ck, &stage->waiter);
    a->step = stage->next;
    a->event = -1;
}

static shingle_status enter_coll(sg_checker *ck, int32_t agent)
{
    const sg_agent *const a = &ck->agent[agent];
    const sg_sched *const s = &ck->sched[a->rank];
    const int32_t seq = s->step[a->step].u.coll.seq;
    const sg_event *const e = &ck->event[a->event];
    for (int32_t i = e->touch0; i < e->touch0 + e->touches; i++)
        if (ck->touch[i].what == SG_WAITS) SG_TRY(note_wait(ck, a->event, &ck->touch[i]));
    if (++ck->arrived[seq] < ck->ranks) return SHINGLE_OK;
    SG_TRY(run_coll(ck, seq));
    for (int r = 0; r < ck->ranks; r++) {
        const sg_event *const other = &ck->event[ck->arrival[(int64_t)seq * ck->ranks + r]];
        for (int32_t i = other->touch0; i < other->touch0 + other->touches; i++)
            if (ck->touch[i].what == SG_RAISES) raise_flags(ck, &ck->touch[i]);
        const int32_t partner = r * SG_MAX_LANES + ck->sched[r].step[other->step].lane;
        end_step(ck, partner);
        ck->queue[ck->queued++] = partner;
    }
    return SHINGLE_OK;
}

/* Carries AGENT on until it parks or ends. */
static shingle_status go_on(sg_checker *ck, int32_t agent)
{
    sg_agent *const a = &ck->agent[agent];
    while (a->step >= 0) {
        const sg_stage *const stage = sg_check_stage(ck, a->rank, a->step);
        if (a->event < 0) {
            if (parks_on_step(ck, agent)) return SHINGLE_OK;
            a->event = stage->event0;
            a->touch = stage->events > 0 ? ck->event[a->event].touch0 : 0;
        }
        const bool coll = ck->sched[a->rank].step[a->step].kind == SG_COLL;
        while (a->event < stage->event0 + stage->events) {
            if (parks_on_flag(ck, agent)) return SHINGLE_OK;
            if (coll) return enter_coll(ck, agent);
            SG_TRY(carry_out(ck, a->event));
            a->event++;
            if (a->event < ck->events) a->touch = ck->event[a->event].touch0;
        }
        end_step(ck, agent);
    }
    return SHINGLE_OK;
}

/* Names the first agent that cannot go on. */
static shingle_status check_ended(sg_checker *ck)
{
    for (int32_t i = 0; i < ck->ranks * SG_MAX_LANES; i++) {
        const sg_agent *const a = &ck->agent[i];
        if (a->step < 0) continue;
        if (a->event < 0)
            return sg_check_violation(ck, sg_check_event(ck, a->rank, a->step), -1,
                                      "deadlock: waits for a step that cannot end");
        const sg_event *const e = &ck->event[a->event];
        if (a->touch == e->touch0 + e->touches || !e->waits)
            return sg_check_violation(ck, a->event, -1,
                                      "deadlock: waits in a collective for another rank");
        const sg_touch *const r = &ck->touch[a->touch];
        for (int32_t j = 0; j < r->flags.count; j++) {
            const int32_t flag = sg_check_flag(r, j);
            if (ck->flag[flag].raised == ck->flag[flag].raisers) continue;
            return sg_check_parked(ck, a->event, a->touch, j);
        }
    }
    return SHINGLE_OK;
}

shingle_status sg_check_run(sg_checker *ck)
{
    const int32_t agents = ck->ranks * SG_MAX_LANES;
    SG_ROOM(ck, agent, agent_room, agents);
    SG_ROOM(ck, queue, queue_room, agents);
    SG_ROOM(ck, covered, covered_room, agents);
    SG_ROOM(ck, proved, proved_room, ck->events);
    memset(ck->proved, 0, (size_t)ck->events * sizeof *ck->proved);
    ck->queued = 0;
    for (int32_t i = agents - 1; i >= 0; i--)
        ck->agent[i] = (sg_agent){i / SG_MAX_LANES, -1, -1, 0, -1};
    for (int r = ck->ranks - 1; r >= 0; r--) {
        for (int32_t i = ck->sched[r].steps - 1; i >= 0; i--) {
            const sg_stage *const stage = sg_check_stage(ck, r, i);
            if (stage->before < 0) ck->agent[r * SG_MAX_LANES + stage->lane].step = i;
        }
        for (int l = SG_MAX_LANES - 1; l >= 0; l--)
            if (ck->agent[r * SG_MAX_LANES + l].step >= 0)
                ck->queue[ck->queued++] = r * SG_MAX_LANES + l;
    }
    while (ck->queued > 0) SG_TRY(go_on(ck, ck->queue[--ck->queued]));
    return check_ended(ck);
}
