/* sim.c -- see sim.h.
 *
 * Agents are the lanes of all ranks.  Each carries out its steps in order; a heap hands out the agent
 * that can act next, so that what ranks and lanes share (a rank's link out, its link in, its copy
 * engine) is used in the order of time.  An agent that waits is parked at the flag or step it waits
 * for and comes back with the time of that. */
#include "core/sim_state.h"

#include <float.h>

double sg_sim_transfer_us(double bytes, double gbps)
{
    return bytes / (gbps * 1e3);
}

/* ---- Heap of agents --------------------------------------------------------------------------------- */

static bool is_before(const sg_sim *m, int32_t a, int32_t b)
{
    const double x = m->agents[a].now;
    const double y = m->agents[b].now;
    return x < y || (x <= y && a < b);
}

void sg_sim_push(sg_sim *m, int32_t id)
{
    int32_t i = m->heaped++;
    while (i > 0 && is_before(m, id, m->heap[(i - 1) / 2])) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = id;
}

static int32_t pop(sg_sim *m)
{
    const int32_t top = m->heap[0];
    const int32_t last = m->heap[--m->heaped];
    int32_t i = 0;
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= m->heaped) break;
        if (child + 1 < m->heaped && is_before(m, m->heap[child + 1], m->heap[child])) child++;
        if (!is_before(m, m->heap[child], last)) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    if (m->heaped > 0) m->heap[i] = last;
    return top;
}

/* Wakes all agents of a list at TIME or their own, whichever is later. */
static void wake(sg_sim *m, int32_t *parked, double time)
{
    int32_t id = *parked;
    *parked = SG_NONE;
    while (id != SG_NONE) {
        sg_sim_agent *const a = &m->agents[id];
        const int32_t next = a->parked_next;
        if (a->now < time) a->now = time;
        sg_sim_push(m, id);
        id = next;
    }
}

void sg_sim_park(sg_sim *m, sg_sim_agent *a, int32_t *parked)
{
    a->parked_next = *parked;
    *parked = (int32_t)(a - m->agents);
}

/* ---- Flags ------------------------------------------------------------------------------------------ */

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

void sg_sim_raise(sg_sim *m, const sg_sched *s, const sg_raise *r, int32_t i, int32_t count,
                  double time)
{
    sg_sim_slot *const f = slot_of(m, r->at, s->rank, r->flag0 + i);
    if (f->left < 0) f->left = r->counter < 0 ? 1 : s->counter[r->counter + i];
    if (f->time < time) f->time = time;
    f->left -= count;
    if (f->left == 0) wake(m, &f->parked, f->time);
}

sg_sim_slot *sg_sim_see(sg_sim *m, int at, int by, struct sg_flags f, double *time)
{
    for (int32_t i = 0; i < f.count; i++) {
        sg_sim_slot *const s = slot_of(m, at, by, f.first + i * f.step);
        if (s->left != 0) return s;
        if (*time < s->time) *time = s->time;
    }
    return NULL;
}

/* ---- Links ------------------------------------------------------------------------------------------ */

/* Each end of a link
 * serves whatever comes first; what waits for its place at the receiver does not hold up the
 * sender's next bytes, as links share their rate and do not queue whole messages. */
double sg_sim_send(sg_sim *m, int from, int to, double time, double bytes, double gbps)
{
    sg_sim_rank *const a = &m->rank[from];
    sg_sim_rank *const b = &m->rank[to];
    const double us = sg_sim_transfer_us(bytes, gbps);
    const double out = (time < a->out_us ? a->out_us : time) + us;
    const double in = (out - us < b->in_us ? b->in_us : out - us) + us;
    a->out_us = out;
    b->in_us = in;
    return in;
}

double sg_sim_area_bytes(const sg_sched *s, const sg_area *a)
{
    return (double)a->rows * a->cols * sg_sched_element_bytes(s, a->buf);
}

void sg_sim_tell(const sg_sim *m, const sg_sim_agent *a, const sg_sim_group *g, double begin,
                 double end)
{
    if (m->visitor == NULL) return;
    m->visitor(m->context, &(sg_span){.kind = SG_SPAN_WORK,
                                      .peer = -1,
                                      .rank = a->rank,
                                      .lane = a->lane,
                                      .step = a->step,
                                      .patch = g ? g->patch : SG_NONE,
                                      .tile0 = g ? g->tile0 : 0,
                                      .tiles = g ? g->tiles : 0,
                                      .begin_us = begin,
                                      .end_us = end});
}

/* ---- Steps ------------------------------------------------------------------------------------------ */

static void next_step(sg_sim *m, sg_sim_agent *a, double now)
{
    a->step = m->steps[m->rank[a->rank].step0 + a->step].next;
    a->now = now;
    a->after = 0;
    a->phase = SG_AT_AFTER;
    if (a->step != SG_NONE) sg_sim_push(m, (int32_t)(a - m->agents));
}

void sg_sim_end_step(sg_sim *m, sg_sim_agent *a, double end)
{
    sg_sim_rank *const r = &m->rank[a->rank];
    const sg_sched *const s = &m->sched[a->rank];
    const sg_step *const step = &s->step[a->step];
    sg_sim_step *const state = &m->steps[r->step0 + a->step];
    if (step->kind != SG_GEMM) {
        for (int32_t i = step->raise0; i < step->raise0 + step->raises; i++)
            sg_sim_raise(m, s, &s->raise[i], 0, 1, end + m->machine->flag_us);
    } else if (r->running == a->step) {
        r->running = SG_NONE;
    }
    if (step->kind != SG_GEMM || step->u.launch.vendor) sg_sim_tell(m, a, NULL, a->begun_us, end);
    state->end_us = end;
    if (r->end_us < end) r->end_us = end;
    wake(m, &state->parked, end);
    next_step(m, a, end);
}

static void run_copy(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_step *step)
{
    const sg_machine *const machine = m->machine;
    const bool engine = step->u.copy.engine == SG_BY_ENGINE;
    sg_sim_rank *const r = &m->rank[a->rank];
    double end = a->now;
    if (engine && end < r->engine_us) end = r->engine_us;
    a->begun_us = end;
    if (!engine) end += machine->launch_us;
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++) {
        const sg_area *const to = &s->to[i];
        const double bytes = sg_sim_area_bytes(s, to);
        if (engine) end += machine->copy_us;
        if (to->rank == a->rank)
            end += sg_sim_transfer_us(2 * bytes, machine->mem_gbps);
        else
            end = sg_sim_send(m, a->rank, to->rank, end, bytes,
                              engine ? machine->copy_gbps : machine->store_gbps);
    }
    if (engine) r->engine_us = end;
    sg_sim_end_step(m, a, end);
}

static void run_reduce(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_step *step)
{
    const sg_machine *const machine = m->machine;
    const sg_reduce *const reduce = &step->u.reduce;
    double bytes = 0;
    for (int32_t i = reduce->add0; i < reduce->add0 + reduce->adds; i++)
        bytes += sg_sim_area_bytes(s, &s->add[i].area);
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++)
        if (s->to[i].rank == a->rank) bytes += sg_sim_area_bytes(s, &s->to[i]);
    const double begin = a->now + machine->launch_us;
    double end = begin + sg_sim_transfer_us(bytes, machine->mem_gbps);
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++) {
        const sg_area *const to = &s->to[i];
        if (to->rank == a->rank) continue;
        const double there =
            sg_sim_send(m, a->rank, to->rank, begin, sg_sim_area_bytes(s, to), machine->store_gbps);
        if (end < there + machine->store_us) end = there + machine->store_us;
    }
    a->begun_us = begin;
    sg_sim_end_step(m, a, end);
}

/* Bytes a rank moves in a collective, counted as bus bandwidth is: what the busiest rank receives
 * (gather) or sends (scatter), twice the even share of both for all-reduce. */
static double coll_bytes(const sg_sim *m, const sg_sched *s, const sg_step *step)
{
    const sg_coll *const c = &step->u.coll;
    if (c->kind == SG_ALL_REDUCE)
        return 2 * sg_sim_area_bytes(s, &c->self) * (m->ranks - 1) / m->ranks;
    double all = 0;
    double least = DBL_MAX;
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++) {
        const double bytes = sg_sim_area_bytes(s, &s->to[i]);
        all += bytes;
        if (bytes < least) least = bytes;
    }
    return step->tos > 0 ? all - least : 0;
}

/* The last rank to come starts a collective for all. */
static void run_coll(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_step *step)
{
    const sg_coll *const c = &step->u.coll;
    sg_sim_rank *const r = &m->rank[a->rank];
    if (a->phase == SG_AT_END) {
        sg_sim_end_step(m, a, a->now);
        return;
    }
    if (r->running != SG_NONE && r->running_blocks + c->sms > m->machine->sms) {
        sg_sim_park(m, a, &m->steps[r->step0 + r->running].parked);
        return;
    }
    sg_sim_coll *const state = &m->colls[c->seq];
    if (state->arrived == 0) state->parked = SG_NONE;
    if (state->time < a->now) state->time = a->now;
    a->phase = SG_AT_END;
    sg_sim_park(m, a, &state->parked);
    if (++state->arrived < m->ranks) return;
    const double end = state->time + m->machine->coll_us +
                       sg_sim_transfer_us(coll_bytes(m, s, step), m->machine->coll_gbps);
    for (int32_t id = state->parked; id != SG_NONE; id = m->agents[id].parked_next) {
        sg_sim_rank *const each = &m->rank[m->agents[id].rank];
        m->agents[id].begun_us = state->time;
        each->coll_us = end;
        each->coll_sms = c->sms;
        if (each->out_us < end) each->out_us = end;
        if (each->in_us < end) each->in_us = end;
    }
    wake(m, &state->parked, end);
}

/* Steps of other lanes that must have ended, then flags; true once all is settled and it is time. */
static bool is_settled(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_step *step)
{
    double ready = a->now;
    for (; a->phase == SG_AT_AFTER && a->after < 2; a->after++) {
        const int32_t other = step->after[a->after];
        if (other < 0) continue;
        sg_sim_step *const state = &m->steps[m->rank[a->rank].step0 + other];
        if (state->end_us < 0) {
            sg_sim_park(m, a, &state->parked);
            return false;
        }
        const double seen = state->end_us + m->machine->flag_us;
        if (ready < seen) ready = seen;
    }
    if (a->phase == SG_AT_AFTER) {
        a->phase = SG_AT_WAITS;
        a->after = 0;
    }
    const bool reduces = step->kind == SG_REDUCE;
    const int32_t waits = step->kind == SG_GEMM ? 0 : step->waits;
    for (; a->after < waits; a->after++) {
        const sg_wait *const w = &s->wait[step->wait0 + a->after];
        sg_sim_slot *const missing =
            sg_sim_see(m, a->rank, w->by, sg_walk_wait(w, 0, 0, 0, 0), &ready);
        if (missing != NULL) {
            a->now = ready;
            sg_sim_park(m, a, &missing->parked);
            return false;
        }
    }
    for (; reduces && a->after < waits + step->u.reduce.adds; a->after++) {
        const sg_addend *const add = &s->add[step->u.reduce.add0 + a->after - waits];
        if (!add->waits) continue;
        sg_sim_slot *const missing =
            sg_sim_see(m, a->rank, add->wait.by, sg_walk_wait(&add->wait, 0, 0, 0, 0), &ready);
        if (missing != NULL) {
            a->now = ready;
            sg_sim_park(m, a, &missing->parked);
            return false;
        }
    }
    a->phase = SG_AT_WORK;
    if (ready <= a->now) return true;
    a->now = ready;
    sg_sim_push(m, (int32_t)(a - m->agents));
    return false;
}

static void run_agent(sg_sim *m, sg_sim_agent *a)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_step *const step = &s->step[a->step];
    if (a->phase < SG_AT_WORK && !is_settled(m, a, s, step)) return;
    switch ((sg_kind)step->kind) {
    case SG_GEMM:
        if (a->phase == SG_AT_WORK)
            sg_sim_start_launch(m, a, s, &step->u.launch);
        else
            sg_sim_run_launch(m, a, s, &step->u.launch);
        break;
    case SG_COPY: run_copy(m, a, s, step); break;
    case SG_REDUCE: run_reduce(m, a, s, step); break;
    case SG_COLL: run_coll(m, a, s, step); break;
    case SG_FLAG:
    default:
        a->begun_us = a->now;
        sg_sim_end_step(m, a, a->now);
        break;
    }
}

/* ---- All together ------------------------------------------------------------------------------------ */

/* Flags that a schedule raises. */
static int64_t count_flags(const sg_sched *s)
{
    int64_t flags = s->raises;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_launch *const l = &s->step[i].u.launch;
        if (s->step[i].kind != SG_GEMM) continue;
        for (int32_t j = l->patch0; j < l->patch0 + l->patches; j++) {
            const sg_patch *const p = &s->patch[j];
            const int64_t bands = sg_walk_bands(p, l->tile_m);
            for (int32_t k = p->raise0; k < p->raise0 + p->raises; k++) {
                if (s->raise[k].per == SG_PER_BAND) flags += bands;
                if (s->raise[k].per == SG_PER_TILE) flags += bands * sg_walk_cols(p, l->tile_n);
            }
        }
    }
    return flags;
}

/* Chains the steps of each lane of rank R and makes an agent of it. */
static void start_lanes(sg_sim *m, int r)
{
    const sg_sched *const s = &m->sched[r];
    int32_t first[SG_MAX_LANES];
    int32_t last[SG_MAX_LANES];
    for (int i = 0; i < SG_MAX_LANES; i++) first[i] = last[i] = SG_NONE;
    sg_sim_step *const steps = m->steps + m->rank[r].step0;
    for (int32_t i = 0; i < s->steps; i++) {
        const int lane = s->step[i].lane;
        steps[i] = (sg_sim_step){.end_us = -1, .next = SG_NONE, .parked = SG_NONE};
        if (last[lane] == SG_NONE)
            first[lane] = i;
        else
            steps[last[lane]].next = i;
        last[lane] = i;
    }
    for (int lane = 0; lane < SG_MAX_LANES; lane++) {
        if (first[lane] == SG_NONE) continue;
        m->agents[m->agent_count] =
            (sg_sim_agent){.step = first[lane], .rank = (int16_t)r, .lane = (uint8_t)lane};
        sg_sim_push(m, m->agent_count++);
    }
}

static void *get(sg_arena *arena, int64_t count, size_t size)
{
    return sg_arena_get(arena, (size_t)sg_max(count, 1) * size);
}

static shingle_status set_up(sg_sim *m, sg_arena *arena)
{
    int64_t steps = 0;
    int64_t flags = 0;
    int32_t colls = 0;
    int64_t agents = 0;
    m->rank = get(arena, m->ranks, sizeof *m->rank);
    if (m->rank == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to simulate %d ranks", m->ranks);
    for (int r = 0; r < m->ranks; r++) {
        const sg_sched *const s = &m->sched[r];
        m->rank[r].step0 = (int32_t)steps;
        m->rank[r].running = SG_NONE;
        steps += s->steps;
        flags += count_flags(s);
        if (colls < s->colls) colls = s->colls;
        uint32_t lanes = 0;
        for (int32_t i = 0; i < s->steps; i++) lanes |= 1u << s->step[i].lane;
        for (; lanes != 0; lanes &= lanes - 1) agents++;
    }
    int64_t slots = 16;
    while (slots < 2 * (flags + agents)) slots *= 2;
    m->slot_mask = (uint64_t)slots - 1;
    m->coll_count = colls;
    m->slots = get(arena, slots, sizeof *m->slots);
    m->steps = get(arena, steps, sizeof *m->steps);
    m->colls = get(arena, colls, sizeof *m->colls);
    m->agents = get(arena, agents, sizeof *m->agents);
    m->heap = get(arena, agents, sizeof *m->heap);
    m->groups = get(arena, agents * SG_SIM_GROUPS, sizeof *m->groups);
    if (arena->full)
        return sg_fail(SHINGLE_ENOMEM, "no memory to simulate %lld steps", (long long)steps);
    m->edge_m = m->edge_n = INT32_MAX;
    for (int i = 0; i < m->machine->tiles; i++) {
        m->edge_m = sg_walk_min(m->edge_m, m->machine->tile[i].m);
        m->edge_n = sg_walk_min(m->edge_n, m->machine->tile[i].n);
    }
    for (int r = 0; r < m->ranks; r++) start_lanes(m, r);
    return SHINGLE_OK;
}

/* What the run protocol and joining lanes add to the slowest rank. */
static double end_of_run(const sg_sim *m)
{
    double end = 0;
    for (int r = 0; r < m->ranks; r++) {
        const sg_sched *const s = &m->sched[r];
        double us = m->rank[r].end_us;
        bool many = false;
        for (int32_t i = 1; i < s->steps; i++) many |= s->step[i].lane != s->step[0].lane;
        if (many) us += m->machine->join_us;
        /* begin and end: launches of their own around copy engines, else part of the launch. */
        if (s->peers) us += m->machine->flag_us + (s->baked ? 2 * m->machine->launch_us : 0);
        if (end < us) end = us;
    }
    return end;
}

static shingle_status simulate(sg_sim *m, double *us_out)
{
    while (m->heaped > 0) run_agent(m, &m->agents[pop(m)]);
    for (int32_t i = 0; i < m->agent_count; i++)
        if (m->agents[i].step != SG_NONE)
            return sg_fail(SHINGLE_EBUG, "simulated: lane %d of rank %d waits for ever at step %d",
                           m->agents[i].lane, m->agents[i].rank, m->agents[i].step);
    *us_out = end_of_run(m);
    return SHINGLE_OK;
}

shingle_status sg_sim_spans(const sg_sched *sched, int ranks, const sg_machine *machine,
                            sg_span_fn visit, void *context, double *us_out)
{
    sg_arena arena = {0};
    sg_sim m = {.sched = sched,
                .machine = machine,
                .ranks = ranks,
                .visitor = visit,
                .context = context,
                .arena = &arena};
    shingle_status status = set_up(&m, &arena);
    if (status == SHINGLE_OK) status = simulate(&m, us_out);
    sg_arena_free(&arena);
    return status;
}

shingle_status sg_sim_us(const sg_sched *sched, int ranks, const sg_machine *machine,
                         double *us_out)
{
    return sg_sim_spans(sched, ranks, machine, NULL, NULL, us_out);
}
