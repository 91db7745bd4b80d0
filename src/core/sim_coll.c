/* sim_coll.c -- collectives of the simulator, see sim_state.h.
 *
 * The last rank to come starts a collective for all; each rank's part is a flow through its ports,
 * and the collective is over at all ranks when the last part is. */
#include "core/sim_state.h"

/* What a collective moves, as bus bandwidth is counted. */
typedef struct coll_load {
    double bytes;   /* what the busiest rank receives (gather) or sends (scatter, exchange), twice
                       the even share of both for all-reduce */
    double message; /* bytes in all of one with even shares that moves as much */
    double all;     /* bytes in this one */
    int ragged;     /* of a gather or scatter whose shares differ: how many there are; 0: even */
} coll_load;

static coll_load load_of(const sg_sched *s, const sg_step *step)
{
    const sg_coll *const c = &step->u.coll;
    const int ranks = s->problem->ranks;
    if (c->kind == SG_ALL_REDUCE) {
        const double message = sg_sim_area_bytes(s, &c->self);
        return (coll_load){2 * message * (ranks - 1) / ranks, message, message, 0};
    }
    double all = 0;
    double least = INFINITY;
    double most = 0;
    double own = 0;
    int shares = 0;
    for (int32_t i = 0; i < step->tos && i < ranks; i++) {
        const double bytes = sg_sim_area_bytes(s, &s->to[step->to0 + i]);
        all += bytes;
        if (i == s->rank) own = bytes;
        shares += bytes > 0;
        least = fmin(least, bytes);
        most = fmax(most, bytes);
    }
    coll_load load = {.bytes = step->tos > 0 ? all - least : 0, .message = all, .all = all};
    if (c->kind == SG_ALL_TO_ALL) {
        double in = 0;
        for (int32_t i = ranks; i < step->tos; i++)
            if (i - ranks != s->rank) in += sg_sim_area_bytes(s, &s->to[step->to0 + i]);
        load.bytes = fmax(all - own, in);
    } else {
        load.ragged = least < most ? shares : 0;
    }
    if (ranks > 1) load.message = load.bytes * ranks / (ranks - 1);
    return load;
}

static int curve_of(const sg_machine *machine, const sg_sched *s, const sg_step *step)
{
    const bool windows = step->tos > 0 && s->buf[s->to[step->to0].buf].arena == SG_WINDOWS;
    return sg_machine_curve(machine, step->u.coll.kind, windows);
}

/* Of shares that differ, which take as long as if all were even at least.  Of little data the
 * broadcasts or reductions hide each other: two H200s, 24 products, 7 to 9 us up to 0.15 MB, 11 of
 * 0.3 and 17 to 20 of 0.7 and 0.8 (results/gpu/forms_2xh200_v1.json and v2). */
static double ragged_us(const sg_machine *machine, const coll_load *load)
{
    const double little_gbps = 80;
    const double little_us = machine->coll_us + load->bytes / (little_gbps * 1e3);
    return fmin(load->ragged * machine->ragged_us, little_us) +
           load->bytes / (machine->ragged_gbps * 1e3);
}

static double load_us(const sg_machine *machine, const sg_sched *s, const sg_step *step,
                      const coll_load *load)
{
    const int curve = curve_of(machine, s, step);
    const double ranks = s->problem->ranks;
    if (load->ragged == 0 || machine->ragged_gbps <= 0)
        return sg_machine_coll_us(machine, curve, load->message, load->bytes);
    const double even = load->all * (ranks - 1) / ranks;
    return fmax(ragged_us(machine, load), sg_machine_coll_us(machine, curve, load->all, even));
}

double sg_sim_coll_us(const sg_machine *machine, const sg_sched *s, const sg_step *step)
{
    const coll_load load = load_of(s, step);
    return load_us(machine, s, step, &load);
}

/* The part of its bandwidth that a collective reaches with the SMs it is given. */
static double part_of(const sg_machine *machine, const sg_coll *c)
{
    return c->sms > 0 ? sg_curve_at(&machine->coll_part, c->sms, 1) : 1;
}

/* Is there a launch on the lane of STEP? */
static bool is_beside_launch(const sg_sched *s, const sg_step *step)
{
    for (int32_t i = 0; i < s->steps; i++)
        if (s->step[i].kind == SG_LAUNCH && s->step[i].lane == step->lane) return true;
    return false;
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
        const sg_step *const step = &m->sched[a->rank].step[a->step];
        const sg_sched *const s = &m->sched[a->rank];
        const coll_load load = load_of(s, step);
        const double us = load_us(m->machine, s, step, &load);
        const double wait = m->machine->coll_us < us ? m->machine->coll_us : us;
        const double turn = is_beside_launch(s, step) ? m->machine->turn_us : 0;
        sg_sim_agent_at(m, a, state->time + turn + wait);
    }
}

static void move(sg_sim *m, sg_sim_agent *a, const sg_step *step)
{
    const sg_sched *const s = &m->sched[a->rank];
    const coll_load load = load_of(s, step);
    const double us = load_us(m->machine, s, step, &load) - m->machine->coll_us;
    a->phase = SG_AT_LAST;
    const double cap = us > 1e-9 ? load.bytes / us * part_of(m->machine, &step->u.coll) : 1e15;
    m->rank[a->rank].coll_flow = sg_sim_send(m, SG_FLOW_COLL, (int32_t)(a - m->agents), a->rank,
                                             a->rank, load.bytes, cap, 0);
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
    const coll_load load = load_of(&m->sched[a->rank], step);
    sg_sim_tell(m, &(sg_span){.kind = SG_SPAN_COLL,
                              .rank = a->rank,
                              .lane = a->lane,
                              .peer = SG_NONE,
                              .step = a->step,
                              .patch = SG_NONE,
                              .blocks = a->got,
                              .bytes = load.bytes,
                              .begin_us = a->begun_us,
                              .end_us = m->now});
}

void sg_sim_coll_landed(sg_sim *m, sg_sim_agent *a)
{
    sg_sim_coll *const state = &m->colls[m->sched[a->rank].step[a->step].u.coll.seq];
    m->rank[a->rank].coll_flow = SG_NONE;
    if (--state->left > 0) return;
    int32_t id = state->parked;
    while (id != SG_NONE) {
        sg_sim_agent *const each = &m->agents[id];
        id = each->parked_next; /* before its next step parks it elsewhere */
        tell_coll(m, each, &m->sched[each->rank].step[each->step]);
        if (--m->rank[each->rank].colls == 0) sg_sim_contend(m, each->rank);
        sg_sim_end_step(m, each, m->now);
    }
}
