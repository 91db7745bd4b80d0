/* check_read.c -- decodes every step of every rank once, through sg_step_access, into touches;
 * keeps the rules that need no run: tables of buffers, areas, gate, leave, hello, done, halves; and
 * links raises and waits to flags. */
#include <string.h>

#include "core/check_state.h"
#include "core/sched_rules.h"

/* So that a check takes seconds and at most about 4 GiB. */
enum { MOST_VISITS = 1 << 22, MOST_RECORDS = 1 << 26 };

/* ---- Tables of buffers ----------------------------------------------------------------------- */

static int64_t buf_bytes(const sg_sched *s, int buf)
{
    return s->buf[buf].rows * s->buf[buf].cols * sg_sched_element_bytes(s, buf);
}

/* Buffers of an arena lie inside it and nowhere over each other. */
static shingle_status check_places(sg_checker *ck, const sg_sched *s)
{
    for (int i = SG_USER_BUFS; i < s->bufs; i++) {
        const sg_buf *const one = &s->buf[i];
        const int64_t end = one->offset + buf_bytes(s, i);
        if (one->arena == SG_USER || one->arena >= SG_ARENAS)
            return sg_check_violation(ck, -1, -1, "rank %d: %s has no arena", s->rank, one->name);
        if (one->offset < 0 || end > s->arena_bytes[one->arena])
            return sg_check_violation(ck, -1, -1, "rank %d: %s lies outside its arena", s->rank,
                                      one->name);
        for (int j = SG_USER_BUFS; j < i; j++) {
            const sg_buf *const other = &s->buf[j];
            if (other->arena == one->arena && one->offset < other->offset + buf_bytes(s, j) &&
                other->offset < end)
                return sg_check_violation(ck, -1, -1, "rank %d: %s lies over %s", s->rank,
                                          one->name, other->name);
        }
    }
    return SHINGLE_OK;
}

static shingle_status check_tensors(sg_checker *ck, const sg_sched *s)
{
    const sg_problem *const p = ck->problem;
    const int64_t rows[] = {sg_problem_a_rows(p, s->rank),
                            sg_problem_b_rows(p, s->rank),
                            sg_problem_c_rows(p, s->rank),
                            p->bias ? 1 : 0,
                            sg_problem_returned_rows(p, s->rank),
                            sg_problem_residual_rows(p, s->rank),
                            p->norm ? 1 : 0};
    const int64_t cols[] = {sg_problem_a_cols(p, s->rank), p->k, p->n, p->n, p->k, p->n, p->n};
    for (int i = 0; i < SG_USER_BUFS; i++)
        if (s->buf[i].rows != rows[i] || s->buf[i].cols != cols[i] || s->buf[i].arena != SG_USER)
            return sg_check_violation(ck, -1, -1, "rank %d: %s is not as large as the problem says",
                                      s->rank, s->buf[i].name);
    return SHINGLE_OK;
}

/* Peers, or the library, find buffers where their own are. */
static shingle_status check_shared(sg_checker *ck, const sg_sched *s)
{
    static const char *const name[SG_ARENAS] = {
        [SG_SYM] = "SYM", [SG_REST] = "REST", [SG_WINDOWS] = "WINDOWS"};
    const sg_sched *const first = &ck->sched[0];
    for (int i = SG_USER_BUFS; i < SG_MAX_BUFS; i++) {
        const bool here = i < s->bufs && sg_buf_is_alike(&s->buf[i]);
        const bool there = i < first->bufs && sg_buf_is_alike(&first->buf[i]);
        if (!here && !there) continue;
        const sg_buf *const a = &s->buf[i];
        const sg_buf *const b = &first->buf[i];
        if (here && there && (a->rows != b->rows || a->cols != b->cols))
            return sg_check_violation(ck, -1, -1,
                                      "rank %d: shared buffer %s is %lld x %lld, on rank 0 it is "
                                      "%lld x %lld",
                                      s->rank, a->name, (long long)a->rows, (long long)a->cols,
                                      (long long)b->rows, (long long)b->cols);
        if (here != there || a->arena != b->arena || a->wide != b->wide || a->offset != b->offset ||
            a->fixed != b->fixed || a->tagged != b->tagged)
            return sg_check_violation(ck, -1, -1, "rank %d: shared buffer %s is not as on rank 0",
                                      s->rank, here ? a->name : b->name);
        if (a->fixed && !s->baked)
            return sg_check_violation(ck, -1, -1,
                                      "rank %d: %s has a fixed address, but the half "
                                      "may change",
                                      s->rank, a->name);
        if (s->baked != first->baked)
            return sg_check_violation(ck, -1, -1,
                                      "ranks 0 and %d may use different halves of the "
                                      "workspace",
                                      s->rank);
    }
    for (int i = 0; i < SG_ARENAS; i++)
        if (name[i] != NULL && s->arena_bytes[i] != first->arena_bytes[i])
            return sg_check_violation(ck, -1, -1, "rank %d: %lld bytes of %s, rank 0 has %lld",
                                      s->rank, (long long)s->arena_bytes[i], name[i],
                                      (long long)first->arena_bytes[i]);
    return SHINGLE_OK;
}

/* ---- Accesses -------------------------------------------------------------------------------- */

typedef struct reading {
    sg_checker *ck;
    const sg_sched *s;
    const sg_step *step;
    int32_t event;
    bool shares; /* memory with peers: this rank's steps do */
    shingle_status status;
} reading;

/* Rules of one area.  TOUCH is its number. */
static shingle_status check_area(reading *in, const sg_access *access, int32_t touch)
{
    sg_checker *const ck = in->ck;
    const sg_area *const a = &access->area;
    const bool writes = access->what == SG_WRITES;
    if (a->rank < 0 || a->rank >= ck->ranks || a->buf >= ck->sched[a->rank].bufs)
        return sg_check_violation(ck, in->event, touch, "touches no buffer of any rank");
    const sg_buf *const buf = &ck->sched[a->rank].buf[a->buf];
    if (a->row0 < 0 || a->rows < 0 || a->col0 < 0 || a->cols < 0 ||
        (int64_t)a->row0 + a->rows > buf->rows || (int64_t)a->col0 + a->cols > buf->cols)
        return sg_check_violation(ck, in->event, touch, "outside its buffer of %lld x %lld",
                                  (long long)buf->rows, (long long)buf->cols);
    const bool away = a->rank != in->s->rank;
    if (sg_sched_is_torn(in->s, a))
        return sg_check_violation(ck, in->event, touch, "reaches over a border between tensors");
    if (writes && (a->buf == SG_A || a->buf == SG_B || a->buf == SG_BIAS || a->buf == SG_GAIN))
        return sg_check_violation(ck, in->event, touch, "stores into an input");
    if (away && !writes) return sg_check_violation(ck, in->event, touch, "reads a peer's memory");
    if (away && !sg_sched_is_reached(&ck->sched[a->rank], a))
        return sg_check_violation(ck, in->event, touch, "stores where peers cannot reach");
    if (!away && !sg_buf_is_shared(buf)) return SHINGLE_OK;

    in->shares = true;
    if (!in->step->gate)
        return sg_check_violation(ck, in->event, touch, "shared memory without the gate");
    if (away && buf->arena == SG_USER && (!a->leave || !in->s->buf[a->buf].reach))
        return sg_check_violation(ck, in->event, touch, "stores without that rank's leave");
    const bool fixed = in->step->kind == SG_COLL ||
                       (in->step->kind == SG_COPY && in->step->u.copy.carrier == SG_BY_ENGINE);
    if (fixed && sg_buf_is_shared(buf) && !in->s->baked)
        return sg_check_violation(ck, in->event, touch,
                                  "an engine uses a fixed half, the run may use the other");
    return SHINGLE_OK;
}

/* Widens the range of flags of one rank in one rank's memory. */
static shingle_status see_flags(reading *in, const sg_access *access, int32_t touch)
{
    sg_checker *const ck = in->ck;
    const struct sg_flags f = access->flags;
    if (access->peer < 0 || access->peer >= ck->ranks)
        return sg_check_violation(ck, in->event, touch, "rank %d is none of %d", access->peer,
                                  ck->ranks);
    const bool raises = access->what == SG_RAISES;
    const int at = raises ? access->peer : in->s->rank;
    const int by = raises ? in->s->rank : access->peer;
    const int64_t last = (int64_t)f.first + (int64_t)f.step * (f.count - 1);
    if (f.count > 0 && (f.first < 0 || last < f.first || last >= in->s->flags))
        return sg_check_violation(ck, in->event, touch, "flag %d of rank %d; there are %d", f.first,
                                  by, in->s->flags);
    if (at != by) in->shares = true;
    sg_pair *const pair = &ck->pair[at * ck->ranks + by];
    if (f.count > 0) {
        pair->low = sg_walk_min(pair->low, f.first);
        if (last >= pair->high) pair->high = (int32_t)last + 1;
    }
    return SHINGLE_OK;
}

static shingle_status see_access(reading *in, const sg_access *access)
{
    sg_checker *const ck = in->ck;
    if (ck->touches == MOST_RECORDS)
        return sg_fail(SHINGLE_EUNSUPPORTED, "more than %d accesses are too many to be checked",
                       MOST_RECORDS);
    SG_ROOM(ck, touch, touch_room, ck->touches + 1);
    const int32_t index = ck->touches++;
    sg_touch *const r = &ck->touch[index];
    *r = (sg_touch){.what = (uint8_t)access->what, .role = (uint8_t)access->role};
    if (sg_check_is_area(r)) {
        const sg_area *const a = &access->area;
        r->buf = a->buf;
        r->rank = a->rank;
        r->area.row0 = a->row0;
        r->area.rows = a->rows;
        r->area.col0 = a->col0;
        r->area.cols = a->cols;
        SG_TRY(check_area(in, access, index));
        sg_check_cut(ck, r);
        return SHINGLE_OK;
    }
    r->rank = access->peer;
    r->flags.first = access->flags.first;
    r->flags.step = access->flags.step;
    r->flags.count = access->flags.count;
    r->flags.counter = access->counter;
    if (r->what == SG_WAITS) ck->event[in->event].waits = true;
    return see_flags(in, access, index);
}

static void see(void *context, const sg_access *access)
{
    reading *const in = context;
    if (in->status == SHINGLE_OK) in->status = see_access(in, access);
}

/* ---- Shapes: what of one event has to fit, and is cut alike ---------------------------------- */

/* Rows or columns of touches ONE and OTHER. */
static shingle_status fit(sg_checker *ck, int32_t event, int32_t one, int one_axis, int32_t other,
                          int other_axis)
{
    const sg_touch *const a = &ck->touch[one];
    const sg_touch *const b = &ck->touch[other];
    if (a->axis[one_axis].count != b->axis[other_axis].count)
        return sg_check_violation(ck, event, one, "%d %s do not fit %d", a->axis[one_axis].count,
                                  one_axis ? "columns" : "rows", b->axis[other_axis].count);
    return sg_check_couple(ck, a, one_axis, b, other_axis);
}

static bool same_area(const sg_touch *a, const sg_touch *b)
{
    return a->rank == b->rank && a->buf == b->buf &&
           memcmp(&a->area, &b->area, sizeof a->area) == 0;
}

/* Marks addends of EVENT that it stores again, and those stores.  TO is its first store. */
static void mark_in_place(sg_checker *ck, int32_t event, int32_t to)
{
    const sg_event *const e = &ck->event[event];
    for (; to < e->touch0 + e->touches; to++) {
        sg_touch *const store = &ck->touch[to];
        if (store->role != SG_ROLE_DST) continue;
        store->in_place = e->onto;
        ck->in_place |= e->onto;
        if (store->rank != e->rank) continue;
        for (int32_t i = e->touch0; i < to; i++) {
            sg_touch *const add = &ck->touch[i];
            const bool added = add->role == SG_ROLE_ADDEND || add->role == SG_ROLE_RESIDUAL;
            if (add->what != SG_READS || !added || !same_area(add, store)) continue;
            add->in_place = store->in_place = true;
            ck->in_place = true;
        }
    }
}

/* Addends of a norm are columns of its rows, side by side from column *COL of store TO on. */
static shingle_status couple_columns(sg_checker *ck, int32_t event, int32_t add, int32_t to,
                                     int32_t *col)
{
    sg_touch part = ck->touch[to];
    SG_TRY(fit(ck, event, add, 0, to, 0));
    part.area.col0 += *col;
    part.area.cols = ck->touch[add].area.cols;
    *col += part.area.cols;
    if (*col > ck->touch[to].area.cols)
        return sg_check_violation(ck, event, add, "norms more columns than it stores");
    return sg_check_couple(ck, &ck->touch[add], 1, &part, 1);
}

/* Sums alone may be of f32 where the problem's type is another. */
static shingle_status check_type(sg_checker *ck, int32_t event, int32_t touch, const sg_touch *to)
{
    const sg_touch *const r = &ck->touch[touch];
    const sg_sched *const s = &ck->sched[r->rank];
    const bool operand = r->role == SG_ROLE_A || r->role == SG_ROLE_B;
    if (operand && sg_sched_element_bytes(s, r->buf) != sg_type_bytes(ck->problem->type))
        return sg_check_violation(ck, event, touch,
                                  "multiplies f32 in place of the problem's type");
    if (r->role == SG_ROLE_SRC && s->buf[r->buf].wide != ck->sched[to->rank].buf[to->buf].wide)
        return sg_check_violation(ck, event, touch, "a copy between f32 and the problem's type");
    return SHINGLE_OK;
}

/* What a visit, copy or sum stores has one shape: that of its first store.  Zeros around it have
 * any. */
static shingle_status couple_event(sg_checker *ck, int32_t event)
{
    const sg_event *const e = &ck->event[event];
    const int32_t end = e->touch0 + e->touches;
    int32_t to = e->touch0;
    while (to < end && ck->touch[to].role != SG_ROLE_DST) to++;
    if (to == end) return SHINGLE_OK;
    bool adds = e->norm;
    int32_t col = 0;
    for (int32_t i = e->touch0; i < end; i++) {
        const sg_touch *const r = &ck->touch[i];
        if (!sg_check_is_area(r) || i == to || r->role == SG_ROLE_ZERO) continue;
        adds |= r->role == SG_ROLE_ADDEND;
        if (r->role == SG_ROLE_A) {
            SG_TRY(fit(ck, event, i, 0, to, 0));
            SG_TRY(fit(ck, event, i, 1, i + 1, 1));
        } else if (r->role == SG_ROLE_B) {
            SG_TRY(fit(ck, event, i, 0, to, 1));
        } else if (r->role == SG_ROLE_BIAS || r->role == SG_ROLE_GAIN) {
            SG_TRY(fit(ck, event, i, 1, to, 1));
        } else if (r->role == SG_ROLE_ADDEND && e->norm) {
            SG_TRY(couple_columns(ck, event, i, to, &col));
        } else {
            SG_TRY(fit(ck, event, i, 0, to, 0));
            SG_TRY(fit(ck, event, i, 1, to, 1));
        }
        SG_TRY(check_type(ck, event, i, &ck->touch[to]));
    }
    if (adds) mark_in_place(ck, event, to);
    return e->norm && col != ck->touch[to].area.cols
               ? sg_check_violation(ck, event, to, "norms %d columns of a row", col)
               : SHINGLE_OK;
}

/* A function of the user makes whole rows, out of all of k. */
static shingle_status check_call(sg_checker *ck, int32_t event, const sg_visit *v)
{
    const sg_problem *const p = ck->problem;
    if (!p->call || v->k0 == v->k1) return SHINGLE_OK;
    if (v->cols == p->n && v->k0 == 0 && v->k1 == p->k) return SHINGLE_OK;
    return sg_check_violation(ck, event, -1, "a part of a row that a call makes whole");
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static shingle_status new_event(reading *in, int32_t step, const sg_visit *visit, int32_t index)
{
    sg_checker *const ck = in->ck;
    SG_ROOM(ck, event, event_room, ck->events + 1);
    in->event = ck->events++;
    bool final = in->step->kind == SG_REDUCE && in->step->u.reduce.final;
    if (visit != NULL) final = in->s->patch[visit->patch].final;
    ck->event[in->event] = (sg_event){.touch0 = ck->touches,
                                      .step = step,
                                      .visit = index,
                                      .patch = visit != NULL ? visit->patch : -1,
                                      .rank = (int16_t)in->s->rank,
                                      .final = final,
                                      .norm = visit != NULL && in->step->u.launch.norm,
                                      .onto = visit != NULL && in->s->patch[visit->patch].onto};
    if (visit != NULL) SG_TRY(check_call(ck, in->event, visit));
    sg_step_access(in->s, step, visit, see, in);
    ck->event[in->event].touches = ck->touches - ck->event[in->event].touch0;
    SG_TRY(in->status);
    return in->step->kind == SG_COLL ? SHINGLE_OK : couple_event(ck, in->event);
}

/* An all-reduce stores what it has summed, and reads it for nobody else. */
static void sum_in_place(sg_checker *ck, int32_t event)
{
    const sg_event *const e = &ck->event[event];
    ck->in_place = true;
    for (int32_t i = e->touch0; i < e->touch0 + e->touches; i++)
        ck->touch[i].in_place = ck->touch[i].role == SG_ROLE_SELF;
}

/* A range of tiles is one of those that the patch has. */
static shingle_status check_range(const reading *in, int32_t step, const sg_launch *l,
                                  const sg_patch *p)
{
    const int64_t tiles = sg_walk_tiles(p, l->tile_m, l->tile_n);
    if (p->tiles == 0 || (p->tile0 >= 0 && (int64_t)p->tile0 + p->tiles <= tiles))
        return SHINGLE_OK;
    return sg_check_violation(
        in->ck, -1, -1, "rank %d, step %d: tiles %d to %lld of a patch that has %lld", in->s->rank,
        step, p->tile0, (long long)p->tile0 + p->tiles - 1, (long long)tiles);
}

static shingle_status read_step(reading *in, int32_t index, sg_stage *stage)
{
    sg_checker *const ck = in->ck;
    const sg_step *const step = in->step = &in->s->step[index];
    stage->event0 = ck->events;
    if (step->kind == SG_LAUNCH) {
        const sg_launch *const l = &step->u.launch;
        int32_t visits = 0;
        for (int32_t p = l->patch0; p < l->patch0 + l->patches; p++) {
            SG_TRY(check_range(in, index, l, &in->s->patch[p]));
            const int32_t count = sg_sched_patch_visits(in->s, l, p);
            for (int32_t i = 0; i < count; i++) {
                sg_visit visit;
                sg_sched_patch_visit(in->s, l, p, i, &visit);
                SG_TRY(new_event(in, index, &visit, visits++));
            }
        }
        if (visits != l->visits)
            return sg_check_violation(ck, -1, -1, "rank %d, step %d: %d visits, sealed with %d",
                                      in->s->rank, index, visits, l->visits);
        ck->result->visits += visits;
    } else {
        SG_TRY(new_event(in, index, NULL, -1));
        if (step->kind == SG_COLL) {
            if (step->u.coll.seq + 1 > ck->colls) ck->colls = step->u.coll.seq + 1;
            if (step->u.coll.kind == SG_ALL_REDUCE) sum_in_place(ck, in->event);
        }
    }
    stage->events = ck->events - stage->event0;
    return SHINGLE_OK;
}

/* Every raiser of a flag counts in the same word, and there are as many as that word expects. */
static shingle_status check_counters(sg_checker *ck, const sg_sched *s)
{
    SG_ROOM(ck, counts, counts_room, s->counters);
    memset(ck->counts, 0, (size_t)s->counters * sizeof *ck->counts);
    const sg_stage *const first = sg_check_stage(ck, s->rank, 0);
    for (int32_t e = first->event0; e < ck->events; e++) {
        const int32_t end = ck->event[e].touch0 + ck->event[e].touches;
        for (int32_t i = end - 1; i >= ck->event[e].touch0; i--) {
            const sg_touch *const r = &ck->touch[i];
            if (r->what != SG_RAISES) break;
            if (r->flags.counter < 0) continue;
            if (r->flags.counter >= s->counters || r->flags.count != 1)
                return sg_check_violation(ck, e, i, "raises through counter %d of %d",
                                          r->flags.counter, s->counters);
            ck->counts[r->flags.counter]++;
        }
    }
    for (int32_t i = 0; i < s->counters; i++)
        if (ck->counts[i] != s->counter[i] && ck->counts[i] > 0)
            return sg_check_violation(ck, -1, -1, "rank %d: counter %d expects %d raisers, %d come",
                                      s->rank, i, s->counter[i], ck->counts[i]);
    return SHINGLE_OK;
}

static shingle_status read_rank(sg_checker *ck, int rank, bool *shares)
{
    const sg_sched *const s = &ck->sched[rank];
    reading in = {.ck = ck, .s = s};
    if (s->rank != rank || s->problem != ck->problem)
        return sg_check_violation(ck, -1, -1, "schedule %d is of rank %d", rank, s->rank);
    SG_TRY(check_tensors(ck, s));
    SG_TRY(check_places(ck, s));
    SG_TRY(check_shared(ck, s));
    ck->stage0[rank] = ck->stages;
    SG_ROOM(ck, stage, stage_room, (int64_t)ck->stages + s->steps);
    ck->stages += s->steps;
    int32_t last[SG_MAX_LANES];
    memset(last, 0xff, sizeof last);
    for (int32_t i = 0; i < s->steps; i++) {
        sg_stage *const stage = sg_check_stage(ck, rank, i);
        const uint8_t lane = s->step[i].lane;
        if (lane >= SG_MAX_LANES || s->step[i].kind >= SG_KINDS)
            return sg_check_violation(ck, -1, -1, "rank %d, step %d has no kind or lane", rank, i);
        *stage = (sg_stage){.next = -1, .before = last[lane], .waiter = -1, .lane = lane};
        if (last[lane] >= 0) sg_check_stage(ck, rank, last[lane])->next = i;
        last[lane] = i;
        for (int j = 0; j < 2; j++)
            if (s->step[i].after[j] >= i)
                return sg_check_violation(ck, -1, -1, "rank %d, step %d is after a later step",
                                          rank, i);
        SG_TRY(read_step(&in, i, stage));
    }
    if (s->steps > 0) SG_TRY(check_counters(ck, s));
    int32_t step = 0;
    const char *fault = sg_sched_push_fault(s, &step);
    if (fault == NULL) fault = sg_sched_tagged_fault(s, &step);
    if (fault != NULL)
        return sg_check_violation(ck, -1, -1, "rank %d, step %d: %s", rank, step, fault);
    sg_check_clocks(ck, rank);
    *shares |= in.shares;
    return SHINGLE_OK;
}

/* If memory is shared with peers in this run, or a rank's schedule says so, then every rank says
 * hello, by which the others see what it runs and that its tensors are there, and done, by which
 * the gate of a later run opens: a rank that did not would keep the others waiting there. */
static shingle_status check_protocol(sg_checker *ck, bool shares)
{
    for (int r = 0; r < ck->ranks; r++) { /* runs with flags have a number, the same at all ranks */
        const bool here = sg_sched_counts(&ck->sched[r]);
        if (here != sg_sched_counts(&ck->sched[0]))
            return sg_check_violation(ck, -1, -1,
                                      "rank %d has no shared buffer and no flag, rank %d has; "
                                      "declare buffers of SYM alike on all ranks",
                                      here ? 0 : r, here ? r : 0);
    }
    for (int r = 0; r < ck->ranks; r++) shares |= ck->sched[r].peers;
    for (int r = 0; r < ck->ranks && shares; r++) {
        const sg_sched *const s = &ck->sched[r];
        if (!s->hello) return sg_check_violation(ck, -1, -1, "rank %d says no hello", r);
        if (!s->done) return sg_check_violation(ck, -1, -1, "rank %d says no done", r);
        if (!s->peers) return sg_check_violation(ck, -1, -1, "rank %d has no part in the run", r);
    }
    return SHINGLE_OK;
}

/* Says so before much time goes by. */
static shingle_status check_size(const sg_checker *ck)
{
    int64_t visits = 0;
    for (int r = 0; r < ck->ranks; r++)
        for (int32_t i = 0; i < ck->sched[r].steps; i++)
            if (ck->sched[r].step[i].kind == SG_LAUNCH)
                visits += ck->sched[r].step[i].u.launch.visits;
    if (visits <= MOST_VISITS) return SHINGLE_OK;
    return sg_fail(SHINGLE_EUNSUPPORTED, "%lld visits are too many to be checked; %d are possible",
                   (long long)visits, MOST_VISITS);
}

shingle_status sg_check_read(sg_checker *ck)
{
    bool shares = false;
    SG_TRY(check_size(ck));
    ck->touches = ck->events = ck->stages = ck->colls = 0;
    ck->in_place = false;
    const int64_t pairs = (int64_t)ck->ranks * ck->ranks;
    SG_ROOM(ck, stage0, stage0_room, ck->ranks);
    SG_ROOM(ck, pair, pair_room, pairs);
    for (int64_t i = 0; i < pairs; i++) ck->pair[i] = (sg_pair){.low = INT32_MAX};
    for (int r = 0; r < ck->ranks; r++) SG_TRY(read_rank(ck, r, &shares));
    return check_protocol(ck, shares);
}

/* ---- Flags ----------------------------------------------------------------------------------- */

static shingle_status link_raise(sg_checker *ck, int32_t event, int32_t touch)
{
    sg_touch *const r = &ck->touch[touch];
    for (int32_t i = 0; i < r->flags.count; i++) {
        sg_flag *const f = &ck->flag[sg_check_flag(r, i)];
        const int32_t last = f->raiser >= 0 ? ck->node[f->raiser].what : -1;
        if (f->raisers > 0 && (f->counter != r->flags.counter || r->flags.counter < 0))
            return sg_check_violation(ck, event, touch, "raises flag %d at rank %d a second time",
                                      sg_check_number(ck, event, touch, i), r->rank);
        if (last == event)
            return sg_check_violation(ck, event, touch, "raises flag %d at rank %d twice",
                                      sg_check_number(ck, event, touch, i), r->rank);
        SG_ROOM(ck, node, node_room, ck->nodes + 1);
        ck->node[ck->nodes] = (sg_node){event, f->raiser};
        f->raiser = ck->nodes++;
        f->raisers++;
        f->counter = r->flags.counter;
    }
    return SHINGLE_OK;
}

/* A counter raises one flag, and all that its word expects. */
static shingle_status check_raisers(sg_checker *ck)
{
    for (int32_t i = 0; i < ck->flags; i++) {
        const sg_flag *const f = &ck->flag[i];
        if (f->raisers == 0 || f->counter < 0) continue;
        const int32_t event = ck->node[f->raiser].what;
        const sg_sched *const s = &ck->sched[ck->event[event].rank];
        if (s->counter[f->counter] != f->raisers)
            return sg_check_violation(ck, event, -1,
                                      "raises a flag with %d raisers, counter %d "
                                      "expects %d",
                                      f->raisers, f->counter, s->counter[f->counter]);
    }
    return SHINGLE_OK;
}

shingle_status sg_check_link(sg_checker *ck)
{
    int64_t flags = 0;
    for (int64_t i = 0; i < (int64_t)ck->ranks * ck->ranks; i++) {
        if (ck->pair[i].low == INT32_MAX) continue;
        ck->pair[i].first = flags;
        flags += ck->pair[i].high - ck->pair[i].low;
    }
    SG_ROOM(ck, flag, flag_room, flags);
    SG_ROOM(ck, found, found_room, flags);
    ck->flags = (int32_t)flags;
    ck->nodes = 0;
    ck->search = 0;
    for (int32_t i = 0; i < ck->flags; i++)
        ck->flag[i] = (sg_flag){.counter = -1, .raiser = -1, .awaiting = -1, .waiter = -1};
    for (int32_t e = 0; e < ck->events; e++) {
        const sg_event *const event = &ck->event[e];
        for (int32_t i = event->touch0; i < event->touch0 + event->touches; i++) {
            sg_touch *const r = &ck->touch[i];
            if (sg_check_is_area(r)) continue;
            const bool raises = r->what == SG_RAISES;
            const int64_t at = raises ? r->rank : event->rank;
            const int64_t by = raises ? event->rank : r->rank;
            const sg_pair *const pair = &ck->pair[at * ck->ranks + by];
            r->flags.first = (int32_t)(pair->first + r->flags.first - pair->low);
            if (raises) SG_TRY(link_raise(ck, e, i));
        }
    }
    SG_TRY(check_raisers(ck));
    for (int32_t e = 0; e < ck->events; e++) {
        const sg_event *const event = &ck->event[e];
        for (int32_t i = event->touch0; i < event->touch0 + event->touches && event->waits; i++) {
            const sg_touch *const r = &ck->touch[i];
            if (r->what != SG_WAITS) continue;
            for (int32_t j = 0; j < r->flags.count; j++)
                if (ck->flag[sg_check_flag(r, j)].raisers == 0)
                    return sg_check_unraised(ck, e, i, j);
        }
    }
    return SHINGLE_OK;
}
