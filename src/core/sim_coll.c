/* sim_coll.c -- collectives of the simulator, see sim_state.h.
 *
 * The last rank to come starts a collective for all; each rank's part is a flow through its ports,
 * and the collective is over at all ranks when the last part is. */
#include "core/sim_state.h"

/* Bytes of the whole message, and those that a rank moves, counted as bus bandwidth is:
 * what the busiest rank receives (gather) or sends (scatter, all-to-all), twice the even
 * share of both for all-reduce. */
static double coll_bytes(const sg_sim *m, const sg_sched *s, const sg_step *step, double *message)
{
    const sg_coll *const c = &step->u.coll;
    if (c->kind == SG_ALL_REDUCE) {
        *message = sg_sim_area_bytes(s, &c->self);
        return 2 * *message * (m->all - 1) / m->all;
    }
    double all = 0;
    double least = INFINITY;
    double own = 0;
    for (int32_t i = 0; i < step->tos && i < m->all; i++) {
        const double bytes = sg_sim_area_bytes(s, &s->to[step->to0 + i]);
        all += bytes;
        if (i == s->rank) own = bytes;
        if (bytes < least) least = bytes;
    }
    *message = all;
    if (c->kind == SG_ALL_TO_ALL) {
        double in = 0;
        for (int32_t i = m->all; i < step->tos; i++)
            if (i - m->all != s->rank) in += sg_sim_area_bytes(s, &s->to[step->to0 + i]);
        return all - own > in ? all - own : in;
    }
    return step->tos > 0 ? all - least : 0;
}

static int curve_of(const sg_sim *m, const sg_sched *s, const sg_step *step)
{
    const bool windows = step->tos > 0 && s->buf[s->to[step->to0].buf].arena == SG_WINDOWS;
    return sg_machine_curve(m->machine, step->u.coll.kind, windows);
}

/* The part of its bandwidth that a collective reaches with the SMs it is given. */
static double part_of(const sg_machine *machine, const sg_coll *c)
{
    return c->sms > 0 ? sg_curve_at(&machine->coll_part, c->sms, 1) : 1;
}

/* All ranks have come: every rank's part sets off after its start-up. */
static void start(sg_sim *m, sg_sim_coll *state)
{
    state->left = m->ranks;
    for (int32_t id = state->parked; id != SG_NONE; id = m->agents[id].parked_next) {
        sg_sim_agent *const a = &m->agents[id];
        a->parked = false;
        a->begun_us = state->time;
        a->phase = SG_AT_MOVE;
        if (m->rank[a->rank].colls++ == 0) sg_sim_contend(m, a->rank);
        double message = 0;
        const sg_step *const step = &m->sched[a->rank].step[a->step];
        const sg_sched *const s = &m->sched[a->rank];
        const double bytes = coll_bytes(m, s, step, &message);
        const double us = sg_machine_coll_us(m->machine, curve_of(m, s, step), message, bytes);
        const double wait = m->machine->coll_us < us ? m->machine->coll_us : us;
        sg_sim_agent_at(m, a, state->time + wait);
    }
}

static void move(sg_sim *m, sg_sim_agent *a, const sg_step *step)
{
    double message = 0;
    const sg_sched *const s = &m->sched[a->rank];
    const double bytes = coll_bytes(m, s, step, &message);
    const double us =
        sg_machine_coll_us(m->machine, curve_of(m, s, step), message, bytes) - m->machine->coll_us;
    a->phase = SG_AT_LAST;
    const double cap = us > 1e-9 ? bytes / us * part_of(m->machine, &step->u.coll) : 1e15;
    m->rank[a->rank].coll_flow =
        sg_sim_send(m, SG_FLOW_COLL, (int32_t)(a - m->agents), a->rank, a->rank, bytes, cap, 0);
}

void sg_sim_run_coll(sg_sim *m, sg_sim_agent *a, const sg_step *step)
{
    if (a->phase == SG_AT_MOVE) {
        move(m, a, step);
        return;
    }
    const int32_t sms = step->u.coll.sms < m->machine->sms ? step->u.coll.sms : m->machine->sms;
    if (m->machine->pool == 0 && sms > 0 && !sg_sim_take_sms(m, a, sms, sms, false)) return;
    sg_sim_coll *const state = &m->colls[step->u.coll.seq];
    if (state->arrived == 0) state->parked = SG_NONE;
    if (state->time < a->now) state->time = a->now;
    a->phase = SG_AT_LAST;
    sg_sim_park(m, a, &state->parked);
    if (++state->arrived == m->ranks) start(m, state);
}

static void tell_coll(const sg_sim *m, const sg_sim_agent *a, const sg_step *step)
{
    if (m->visit == NULL) return;
    double message = 0;
    const double bytes = coll_bytes(m, &m->sched[a->rank], step, &message);
    sg_sim_tell(m, &(sg_span){.kind = SG_SPAN_COLL,
                              .rank = a->rank,
                              .lane = a->lane,
                              .peer = SG_NONE,
                              .step = a->step,
                              .patch = SG_NONE,
                              .blocks = a->got,
                              .bytes = bytes,
                              .begin_us = a->begun_us,
                              .end_us = m->now});
}

void sg_sim_coll_landed(sg_sim *m, sg_sim_agent *a)
{
    const sg_step *const step = &m->sched[a->rank].step[a->step];
    sg_sim_coll *const state = &m->colls[step->u.coll.seq];
    m->rank[a->rank].coll_flow = SG_NONE;
    if (--state->left > 0) return;
    int32_t id = state->parked;
    while (id != SG_NONE) {
        sg_sim_agent *const each = &m->agents[id];
        id = each->parked_next; /* before its next step parks it elsewhere */
        tell_coll(m, each, step);
        if (--m->rank[each->rank].colls == 0) sg_sim_contend(m, each->rank);
        sg_sim_end_step(m, each, m->now);
    }
}
