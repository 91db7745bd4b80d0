/* sim_run.c -- events, flags, lanes and steps of the simulator, see sim_state.h.
 *
 * An agent goes through its steps in order.  What it waits for parks it (a flag, a step of another
 * lane) or queues it (SMs, an engine); whoever brings that wakes it with the time of it. */
#include "core/sched_rules.h"
#include "core/sim_state.h"

/* ---- Moments --------------------------------------------------------------------------------- */

static bool is_before(const sg_sim *m, int32_t a, int32_t b)
{
    return m->when[a] < m->when[b] || (m->when[a] <= m->when[b] && a < b);
}

static void put(sg_sim *m, int32_t at, int32_t entity)
{
    m->heap[at] = entity;
    m->place[entity] = at;
}

static void rise(sg_sim *m, int32_t at, int32_t entity)
{
    for (; at > 0 && is_before(m, entity, m->heap[(at - 1) / 2]); at = (at - 1) / 2)
        put(m, at, m->heap[(at - 1) / 2]);
    put(m, at, entity);
}

static void sink(sg_sim *m, int32_t at, int32_t entity)
{
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= m->heaped) break;
        if (child + 1 < m->heaped && is_before(m, m->heap[child + 1], m->heap[child])) child++;
        if (!is_before(m, m->heap[child], entity)) break;
        put(m, at, m->heap[child]);
        at = child;
    }
    put(m, at, entity);
}

void sg_sim_off(sg_sim *m, int32_t entity)
{
    const int32_t at = m->place[entity];
    if (at == SG_NONE) return;
    m->place[entity] = SG_NONE;
    const int32_t last = m->heap[--m->heaped];
    if (last == entity) return;
    if (at > 0 && is_before(m, last, m->heap[(at - 1) / 2]))
        rise(m, at, last);
    else
        sink(m, at, last);
}

void sg_sim_at(sg_sim *m, int32_t entity, double time)
{
    const int32_t at = m->place[entity];
    const bool later = at != SG_NONE && time > m->when[entity];
    m->when[entity] = time;
    if (at == SG_NONE)
        rise(m, m->heaped++, entity);
    else if (later)
        sink(m, at, entity);
    else
        rise(m, at, entity);
}

void sg_sim_agent_at(sg_sim *m, sg_sim_agent *a, double time)
{
    sg_sim_at(m, (int32_t)(a - m->agents), time < m->now ? m->now : time);
}

void sg_sim_park(sg_sim *m, sg_sim_agent *a, int32_t *parked)
{
    if (a->parked) return; /* a launch still waits for what it missed the last time it looked */
    a->parked = true;
    a->parked_next = *parked;
    *parked = (int32_t)(a - m->agents);
}

/* Wakes all agents of a list at TIME or their own, whichever is later. */
void sg_sim_wake(sg_sim *m, int32_t *parked, double time)
{
    int32_t id = *parked;
    *parked = SG_NONE;
    while (id != SG_NONE) {
        sg_sim_agent *const a = &m->agents[id];
        const int32_t next = a->parked_next;
        a->parked = false;
        const double from = a->now > time ? a->now : time;
        /* A launch that waits for a flag may have something else to do before that. */
        if (m->place[id] == SG_NONE || m->when[id] > from) sg_sim_agent_at(m, a, from);
        id = next;
    }
}

/* ---- Flags ----------------------------------------------------------------------------------- */

static sg_sim_slot *slot_of(sg_sim *m, int at, int by, int32_t flag)
{
    const uint64_t key = (uint64_t)(at + 1) << 48 | (uint64_t)by << 32 | (uint64_t)(uint32_t)flag;
    /* Neighbours are asked for one after the other, so 32 of them lie side by side. */
    uint64_t i = (sg_mix(key >> 5) << 5 | (key & 31)) & m->slot_mask;
    while (m->slots[i].key != key && m->slots[i].key != 0) i = (i + 1) & m->slot_mask;
    sg_sim_slot *const s = &m->slots[i];
    if (s->key == 0) *s = (sg_sim_slot){.key = key, .left = -1, .parked = SG_NONE};
    return s;
}

void sg_sim_raise(sg_sim *m, int rank, const sg_raise *r, int32_t i, int32_t count, double time)
{
    const sg_sched *const s = &m->sched[rank];
    int at = r->at;
    int by = rank;
    int32_t flag0 = r->flag0;
    if (m->mirror != NULL) {
        at %= m->ranks;
        by = (rank - (r->at - at) + m->all) % m->all;
        flag0 = m->mirror[rank][r - s->raise];
    }
    sg_sim_slot *const f = slot_of(m, at, by, flag0 + i);
    if (f->left < 0) f->left = r->counter < 0 ? 1 : s->counter[r->counter + i];
    if (f->time < time) f->time = time;
    f->left -= count;
    if (f->left == 0) {
        /* When it can be seen is for them to look at, as it is for those who come later. */
        sg_sim_wake(m, &f->parked, m->now);
        if (m->machine->pool > 0) sg_sim_wake_workers(m, f->time);
    }
}

sg_sim_slot *sg_sim_see(sg_sim *m, int rank, int by, struct sg_flags f, double *time)
{
    for (int32_t i = 0; i < f.count; i++) {
        sg_sim_slot *const s = slot_of(m, rank, by, f.first + i * f.step);
        if (s->left != 0) return s;
        if (*time < s->time) *time = s->time;
    }
    return NULL;
}

double sg_sim_flag_us(const sg_sim *m, int from, int to)
{
    /* Workers of a pool see what their own rank raises at once. */
    if (m->machine->pool > 0 && from == to) return 0;
    return m->machine->flag_us + sg_sim_far_us(m, from, to);
}

/* ---- Spans ----------------------------------------------------------------------------------- */

void sg_sim_tell(const sg_sim *m, const sg_span *span)
{
    if (m->visit == NULL) return;
    for (int shift = 0; shift < m->all; shift += m->ranks) {
        sg_span image = *span;
        image.rank = span->rank + shift;
        if (span->peer >= 0) image.peer = (span->peer + shift) % m->all;
        m->visit(m->context, &image);
    }
}

static void tell_step(const sg_sim *m, const sg_sim_agent *a, double end)
{
    const sg_step *const step = &m->sched[a->rank].step[a->step];
    if (m->visit == NULL) return;
    if (a->begun_us > a->waited_us)
        sg_sim_tell(m, &(sg_span){.kind = SG_SPAN_WAIT,
                                  .rank = a->rank,
                                  .lane = a->lane,
                                  .peer = a->for_rank,
                                  .step = a->step,
                                  .patch = SG_NONE,
                                  .begin_us = a->waited_us,
                                  .end_us = a->begun_us});
    /* Tiles, transfers and collectives are told of where they happen. */
    const bool whole = step->kind == SG_LAUNCH ? step->u.launch.vendor || step->u.launch.norm
                                               : step->kind != SG_COLL;
    if (whole)
        sg_sim_tell(m, &(sg_span){.kind = SG_SPAN_WORK,
                                  .rank = a->rank,
                                  .lane = a->lane,
                                  .peer = SG_NONE,
                                  .step = a->step,
                                  .patch = SG_NONE,
                                  .blocks = a->got,
                                  .begin_us = a->begun_us,
                                  .end_us = end});
}

/* ---- SMs ------------------------------------------------------------------------------------- */

static void feed(sg_sim *m, int rank)
{
    sg_sim_rank *const r = &m->rank[rank];
    while (r->hungry != SG_NONE) {
        sg_sim_agent *const a = &m->agents[r->hungry];
        const int32_t need = a->got < a->least ? a->least - a->got : 1;
        if (r->free_sms < need) return;
        const int32_t more = a->want - a->got;
        const int32_t given = more < r->free_sms ? more : r->free_sms;
        r->free_sms -= given;
        a->got += given;
        if (a->got >= a->want || !a->grows) {
            r->hungry = a->hungry_next;
            a->hungry = false;
        }
        if (a->phase == SG_AT_WORK)
            sg_sim_agent_at(m, a, m->now);
        else if (given > 0)
            sg_sim_grow_launch(m, a, given);
    }
}

bool sg_sim_take_sms(sg_sim *m, sg_sim_agent *a, int32_t least, int32_t want, bool grows)
{
    sg_sim_rank *const r = &m->rank[a->rank];
    if (a->got >= least) return true; /* given since it asked */
    if (a->hungry) return false;
    a->least = least;
    a->want = want;
    a->grows = grows;
    if (r->hungry == SG_NONE && r->free_sms >= least) {
        a->got = want < r->free_sms ? want : r->free_sms;
        r->free_sms -= a->got;
        if (a->got == want || !grows) return true;
    }
    a->hungry = true;
    a->hungry_next = SG_NONE;
    const int32_t id = (int32_t)(a - m->agents);
    if (r->hungry == SG_NONE)
        r->hungry = id;
    else
        m->agents[r->hungry_last].hungry_next = id;
    r->hungry_last = id;
    return a->got >= least;
}

void sg_sim_give_sms(sg_sim *m, sg_sim_agent *a, int32_t count)
{
    a->got -= count;
    a->want -= count;
    m->rank[a->rank].free_sms += count;
    feed(m, a->rank);
}

/* A step that is done wants nothing more. */
static void end_sms(sg_sim *m, sg_sim_agent *a)
{
    sg_sim_rank *const r = &m->rank[a->rank];
    const int32_t id = (int32_t)(a - m->agents);
    int32_t before = SG_NONE;
    for (int32_t i = r->hungry; a->hungry && i != id; i = m->agents[i].hungry_next) before = i;
    if (a->hungry) {
        if (before == SG_NONE)
            r->hungry = a->hungry_next;
        else
            m->agents[before].hungry_next = a->hungry_next;
        if (r->hungry_last == id) r->hungry_last = before;
        a->hungry = false;
    }
    if (a->got > 0) sg_sim_give_sms(m, a, a->got);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* From the end of a step until the flag that it raises at rank AT is seen. */
static double seen_us(const sg_sim *m, const sg_step *step, int rank, int at)
{
    if (!sg_step_is_push(step) || m->machine->pool > 0) return sg_sim_flag_us(m, rank, at);
    return sg_sim_push_seen_us(m, step, rank, at);
}

void sg_sim_end_step(sg_sim *m, sg_sim_agent *a, double end)
{
    sg_sim_rank *const r = &m->rank[a->rank];
    const sg_sched *const s = &m->sched[a->rank];
    const sg_step *const step = &s->step[a->step];
    sg_sim_step *state = &m->steps[r->step0 + a->step];
    for (int32_t i = step->raise0; step->kind != SG_LAUNCH && i < step->raise0 + step->raises;
         i++) {
        const double seen = end + seen_us(m, step, a->rank, s->raise[i].at);
        sg_sim_raise(m, a->rank, &s->raise[i], 0, 1, seen);
    }
    tell_step(m, a, end);
    end_sms(m, a);
    if (r->end_us < end) r->end_us = end;
    /* On a GPU, copies that go together end as one. */
    const int32_t count = m->machine->pool > 0 ? 1 : sg_sched_copies(s, a->step);
    for (int32_t i = 0; i < count; i++) {
        state = &m->steps[r->step0 + a->step + i];
        state->end_us = end;
        sg_sim_wake(m, &state->parked, end);
    }
    a->step = state->next;
    a->settled = 0;
    a->seen_us = 0;
    a->for_rank = SG_NONE;
    a->waited_us = end;
    a->phase = SG_AT_AFTER;
    if (a->step != SG_NONE) sg_sim_agent_at(m, a, end);
}

/* ---- What steps wait for --------------------------------------------------------------------- */

/* One flag or dependence more is seen; false: the agent is parked. */
static bool see_flags(sg_sim *m, sg_sim_agent *a, const sg_wait *w, double *ready)
{
    const double before = *ready;
    sg_sim_slot *const missing = sg_sim_see(m, a->rank, w->by, sg_walk_wait(w, 0, 0, 0, 0), ready);
    if (missing != NULL || *ready > before) a->for_rank = w->by;
    if (missing == NULL) return true;
    a->now = fmax(a->now, *ready);
    sg_sim_park(m, a, &missing->parked);
    return false;
}

/* From the end of a step until one of another lane that is after it begins. */
static double after_us(const sg_sim *m, int rank)
{
    const double lane_us = m->machine->lane_us;
    return lane_us > 0 && m->machine->pool == 0 ? lane_us : sg_sim_flag_us(m, rank, rank);
}

/* From when a step's flags are seen until it begins: something else waits for them in its lane. */
static double behind_flags_us(const sg_sim *m, const sg_step *step)
{
    const bool at_once = step->kind == SG_FLAG || sg_step_is_push(step);
    return at_once || m->machine->pool > 0 ? 0 : m->machine->lane_us;
}

/* Steps of other lanes that must have ended, then flags; true once all is settled and it is
 * time. */
static bool is_settled(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_step *step)
{
    double ready = a->now;
    for (; a->phase == SG_AT_AFTER && a->settled < 2; a->settled++) {
        const int32_t other = step->after[a->settled];
        if (other < 0) continue;
        sg_sim_step *const state = &m->steps[m->rank[a->rank].step0 + other];
        if (state->end_us < 0) {
            sg_sim_park(m, a, &state->parked);
            return false;
        }
        const double seen = state->end_us + after_us(m, a->rank);
        if (ready < seen) ready = seen;
    }
    if (a->phase == SG_AT_AFTER) {
        a->phase = SG_AT_WAITS;
        a->settled = 0;
    }
    const int32_t waits = step->kind == SG_LAUNCH ? 0 : step->waits;
    for (; a->settled < waits; a->settled++)
        if (!see_flags(m, a, &s->wait[step->wait0 + a->settled], &a->seen_us)) return false;
    const int32_t adds = step->kind == SG_REDUCE ? step->u.reduce.adds : 0;
    for (; a->settled < waits + adds; a->settled++) {
        const sg_addend *const add = &s->add[step->u.reduce.add0 + a->settled - waits];
        if (add->awaited && !see_flags(m, a, &add->wait, &a->seen_us)) return false;
    }
    if (a->seen_us > 0) ready = fmax(ready, a->seen_us + behind_flags_us(m, step));
    a->phase = SG_AT_WORK;
    if (ready <= a->now) return true;
    sg_sim_agent_at(m, a, ready);
    return false;
}

/* When a step that only waits ends.  The last one of a lane is part of the end of the run; another
 * is a launch of its own, which costs its time unless it has waited for as long. */
static double flag_step_us(const sg_sim *m, const sg_sim_agent *a)
{
    const bool last = m->steps[m->rank[a->rank].step0 + a->step].next == SG_NONE;
    if (last || m->machine->pool > 0) return a->now;
    return fmax(a->now, a->waited_us + m->machine->launch_us);
}

static void act(sg_sim *m, sg_sim_agent *a)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_step *const step = &s->step[a->step];
    a->now = m->now;
    if (a->phase < SG_AT_WORK && !is_settled(m, a, s, step)) return;
    const bool by_pool = m->machine->pool > 0;
    switch ((sg_kind)step->kind) {
    case SG_LAUNCH:
        if (by_pool)
            sg_sim_open_units(m, a);
        else if (sg_step_norms(step))
            sg_sim_run_kernel(m, a, step);
        else if (a->phase == SG_AT_WORK)
            sg_sim_start_launch(m, a);
        else
            sg_sim_run_launch(m, a);
        break;
    case SG_COPY:
        if (sg_step_is_push(step))
            sg_sim_run_push(m, a, step);
        else if (step->u.copy.carrier == SG_BY_ENGINE)
            sg_sim_run_copy(m, a, step);
        else if (by_pool)
            sg_sim_open_units(m, a);
        else
            sg_sim_run_kernel(m, a, step);
        break;
    case SG_REDUCE:
        if (by_pool)
            sg_sim_open_units(m, a);
        else
            sg_sim_run_kernel(m, a, step);
        break;
    case SG_COLL: sg_sim_run_coll(m, a, step); break;
    case SG_FLAG:
    case SG_KINDS:
    default:
        a->begun_us = a->now;
        sg_sim_end_step(m, a, flag_step_us(m, a));
        break;
    }
}

/* ---- The run --------------------------------------------------------------------------------- */

/* Lanes that are forked and joined; copies that a launch carries are in none of their own. */
static int lanes_of(const sg_sched *s)
{
    uint32_t mask = 0;
    int lanes = 0;
    for (int32_t i = 0; i < s->steps; i++)
        if (!sg_step_is_push(&s->step[i])) mask |= 1u << s->step[i].lane;
    for (; mask != 0; mask &= mask - 1) lanes++;
    return lanes;
}

double sg_sim_run_us(const sg_machine *machine)
{
    return machine->run_us > 0 ? machine->run_us : machine->flag_us;
}

/* A launch of tagged data has begun its run under its product, and ends it as soon as it has read
 * all, while it stores.  A norm behind it waits for the end, too. */
static bool is_tagged_run(const sg_sim *m, const sg_sched *s)
{
    for (int32_t i = 0; i < s->steps; i++)
        if (s->step[i].kind == SG_LAUNCH && sg_sim_is_tagged(m, s, &s->step[i].u.launch))
            return true;
    return false;
}

static bool is_own_launch(const sg_step *step)
{
    return step->kind == SG_LAUNCH && !step->u.launch.vendor && !sg_step_norms(step);
}

/* Launches of a thread that begin and end a run which products do not begin and end themselves:
 * the first step of a single lane and the last one, behind which a flag may stand, and a norm of
 * the rank's own sums. */
static int protocol_launches(const sg_sched *s)
{
    const sg_step *first = NULL;
    const sg_step *last = NULL;
    const int32_t end = s->steps - sg_sched_norms_own(s);
    for (int32_t i = 0; i < end; i++) {
        const sg_step *const step = &s->step[i];
        if (sg_step_is_push(step)) continue;
        if (first == NULL) first = step;
        if (step->kind != SG_FLAG || step->raises > 0) last = step;
    }
    if (first == NULL || last == NULL || lanes_of(s) > 1) return 2;
    return !is_own_launch(first) + !is_own_launch(last);
}

/* Of rows that peers store into RANK's C; where some ranks stand for all, these are as many as it
 * stores into theirs. */
static double landing_us(const sg_sim *m, int rank)
{
    double bytes = 0;
    if (m->machine->land_gbps <= 0) return 0;
    for (int r = 0; r < m->ranks; r++) {
        const sg_sched *const s = &m->sched[r];
        for (int32_t i = 0; i < s->tos; i++) {
            const sg_area *const to = &s->to[i];
            const bool lands =
                m->ranks == m->all ? r != rank && to->rank == rank : r == rank && to->rank != rank;
            if (to->buf == SG_C && lands) bytes += sg_sim_area_bytes(s, to);
        }
    }
    return sg_sim_us_of(bytes, m->machine->land_gbps);
}

/* What the run protocol, joining lanes and landings add to the slowest rank. */
static double end_of_run(const sg_sim *m)
{
    const sg_machine *const machine = m->machine;
    double end = 0;
    for (int r = 0; r < m->ranks; r++) {
        const sg_sched *const s = &m->sched[r];
        double us = m->rank[r].end_us;
        if (machine->pool > 0) { /* nobody waits for a launch, nor at the end */
            if (end < us) end = us;
            continue;
        }
        if (lanes_of(s) > 1) us += machine->join_us;
        if (s->peers && (!is_tagged_run(m, s) || sg_sched_norms_own(s)))
            us += sg_sim_run_us(machine);
        if (s->peers) us += protocol_launches(s) * machine->launch_us;
        us += landing_us(m, r);
        if (end < us) end = us;
    }
    return end;
}

shingle_status sg_sim_run(sg_sim *m, double *us_out)
{
    while (m->heaped > 0 && !m->full) {
        const int32_t entity = m->heap[0];
        m->now = m->when[entity];
        m->events++;
        sg_sim_off(m, entity);
        if (entity < m->worker0 || entity >= m->flow0) m->barren_us = -1;
        if (entity >= m->flow0)
            sg_sim_flow_act(m, entity - m->flow0);
        else if (entity >= m->worker0)
            sg_sim_worker_act(m, entity - m->worker0);
        else
            act(m, &m->agents[entity]);
    }
    if (m->full || m->arena.full)
        return sg_fail(SHINGLE_ENOMEM, "no memory to simulate %d ranks", m->ranks);
    for (int32_t i = 0; i < m->agent_count; i++)
        if (m->agents[i].step != SG_NONE)
            return sg_fail(SHINGLE_EBUG, "simulated: lane %d of rank %d waits for ever at step %d",
                           m->agents[i].lane, m->agents[i].rank, m->agents[i].step);
    *us_out = end_of_run(m);
    return SHINGLE_OK;
}
