/* sim_copy.c -- copies by engines, by SMs and by launches, and sums, see sim_state.h. */
#include "core/blocks.h"
#include "core/sched_rules.h"
#include "core/sim_state.h"

static bool take_engine(sg_sim *m, sg_sim_agent *a)
{
    sg_sim_rank *const r = &m->rank[a->rank];
    for (int e = 0; e < m->engine_count; e++) {
        sg_sim_engine *const engine = &m->engines[a->rank * m->engine_count + e];
        if (engine->busy) continue;
        engine->busy = true;
        a->engine = e;
        return true;
    }
    a->parked_next = SG_NONE;
    const int32_t id = (int32_t)(a - m->agents);
    if (r->queue == SG_NONE)
        r->queue = id;
    else
        m->agents[r->queue_last].parked_next = id;
    r->queue_last = id;
    return false;
}

static void give_engine(sg_sim *m, sg_sim_agent *a)
{
    sg_sim_rank *const r = &m->rank[a->rank];
    sg_sim_engine *const engine = &m->engines[a->rank * m->engine_count + a->engine];
    engine->busy = false;
    engine->flow = SG_NONE;
    const int32_t next = r->queue;
    if (next == SG_NONE) return;
    r->queue = m->agents[next].parked_next;
    sg_sim_agent_at(m, &m->agents[next], m->now);
}

/* The next destination of an engine's copy: first its latency, then its bytes. */
static void go_to(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_step *step)
{
    const sg_machine *const machine = m->machine;
    sg_sim_engine *const engine = &m->engines[a->rank * m->engine_count + a->engine];
    const sg_area *const to = &s->to[step->to0 + a->to];
    if (a->phase == SG_AT_WORK) {
        double latency = machine->copy_us + sg_sim_far_us(m, a->rank, to->rank);
        if (engine->peer != to->rank && engine->peer != SG_NONE) latency += machine->peer_us;
        engine->peer = to->rank;
        a->phase = SG_AT_MOVE;
        sg_sim_agent_at(m, a, a->now + latency);
        return;
    }
    const double within = machine->local_gbps > 0 ? machine->local_gbps : machine->mem_gbps / 2;
    a->phase = SG_AT_LAST;
    engine->flow = sg_sim_send(m, SG_FLOW_COPY, (int32_t)(a - m->agents), a->rank, to->rank,
                               sg_sim_area_bytes(s, to),
                               (to->rank == a->rank ? within : machine->copy_gbps) * 1e3, 0);
}

/* A norm reads sums and the residual, and stores C and the residual. */
static double norm_bytes(const sg_sched *s, const sg_step *step)
{
    double bytes = 0;
    for (int32_t i = 0; sg_step_norms(step) && i < step->u.launch.patches; i++)
        bytes += 4 * sg_sim_area_bytes(s, &s->to[s->patch[step->u.launch.patch0 + i].to0]);
    return bytes;
}

/* Of AREA, what the memory moves to read or store it by SMs: whole sectors. */
static double sector_bytes(const sg_sched *s, const sg_area *area)
{
    enum { SECTOR = 32 };
    const double row = (double)area->cols * sg_sched_element_bytes(s, area->buf);
    return area->rows * (row < SECTOR && row > 0 ? SECTOR : row);
}

/* What copies that go together with copy FIRST, and stay on the rank as it does, read and store. */
static double joined_bytes(const sg_sched *s, int32_t first)
{
    const int32_t end = first + sg_sched_copies(s, first);
    double bytes = 0;
    for (int32_t i = first + 1; i < end; i++) bytes += 2 * sector_bytes(s, &s->step[i].u.copy.src);
    return bytes;
}

/* Copies by SMs, sums and norms: a kernel on some SMs that reads, adds and stores. */
void sg_sim_run_kernel(sg_sim *m, sg_sim_agent *a, const sg_step *step)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_machine *const machine = m->machine;
    if (a->phase == SG_AT_WORK) {
        /* A quarter of the SMs is enough for the memory. */
        if (!sg_sim_take_sms(m, a, 1, 1 + machine->sms / 4, false)) return;
        a->begun_us = a->now;
        a->phase = SG_AT_MOVE;
        sg_sim_agent_at(m, a, a->now + machine->launch_us);
        return;
    }
    double bytes = norm_bytes(s, step);
    if (step->kind == SG_COPY)
        bytes = sector_bytes(s, &step->u.copy.src) + joined_bytes(s, a->step);
    for (int32_t i = 0; step->kind == SG_REDUCE && i < step->u.reduce.adds; i++)
        bytes += sg_sim_area_bytes(s, &s->add[step->u.reduce.add0 + i].area);
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++)
        if (s->to[i].rank == a->rank) bytes += sector_bytes(s, &s->to[i]);
    const double part = 4.0 * a->got / machine->sms;
    /* A copy counts what it reads and what it stores. */
    const double sum = machine->sum_gbps > 0 ? machine->sum_gbps : machine->mem_gbps;
    const double copy = machine->local_gbps > 0 ? 2 * machine->local_gbps : machine->mem_gbps;
    const double gbps = (step->kind == SG_COPY ? copy
                         : sg_step_norms(step) ? machine->mem_gbps
                                               : sum) *
                        (part < 1 ? part : 1);
    a->phase = SG_AT_LAST;
    a->pending = 1;
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++) {
        if (s->to[i].rank == a->rank) continue;
        a->pending++;
        sg_sim_send(m, SG_FLOW_SMS, (int32_t)(a - m->agents), a->rank, s->to[i].rank,
                    sg_sim_area_bytes(s, &s->to[i]), machine->store_gbps * 1e3, 0);
    }
    /* What it does within the own memory is a flow, too, that shares nothing. */
    sg_sim_send(m, SG_FLOW_SMS, (int32_t)(a - m->agents), a->rank, a->rank, bytes, gbps * 1e3, 0);
}

/* The next one is on its way before anybody has seen this one; behind the last, tiles are
 * stored. */
static void end_push(sg_sim *m, sg_sim_agent *a)
{
    const sg_sched *const s = &m->sched[a->rank];
    sg_sim_rank *const r = &m->rank[a->rank];
    r->pushed += sg_sim_push_bytes(s, &s->step[a->step]);
    sg_sim_end_step(m, a, m->now);
    if (m->machine->pool > 0 || r->takes || --r->pushes > 0) return;
    sg_sim_agent *const carrier = &m->agents[r->agent0]; /* lane 0 */
    if (carrier->groups > 0) sg_sim_unstall(m, carrier);
}

void sg_sim_landed(sg_sim *m, sg_sim_agent *a, const sg_sim_flow *flow)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_step *const step = &s->step[a->step];
    if (flow->what == SG_FLOW_COPY) {
        m->engines[a->rank * m->engine_count + a->engine].flow = SG_NONE;
        if (++a->to < step->tos) {
            a->phase = SG_AT_WORK;
            a->now = m->now;
            go_to(m, a, s, step);
            return;
        }
        give_engine(m, a);
        sg_sim_end_step(m, a, m->now);
        return;
    }
    if (--a->pending > 0) return;
    if (sg_step_is_push(step)) {
        end_push(m, a);
        return;
    }
    double far = -1;
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++)
        if (s->to[i].rank != a->rank) far = fmax(far, sg_sim_far_us(m, a->rank, s->to[i].rank));
    sg_sim_end_step(m, a, m->now + (far >= 0 ? m->machine->store_us + far : 0));
}

void sg_sim_run_copy(sg_sim *m, sg_sim_agent *a, const sg_step *step)
{
    if (a->phase == SG_AT_WORK) {
        if (!take_engine(m, a)) return;
        a->begun_us = a->now;
        a->to = 0;
    }
    go_to(m, a, &m->sched[a->rank], step);
}

/* Storers that carry rows to several peers, beside a product that could have couriers, are slower
 * than when they store tiles (four H100s: 25 MB in 130 us, results/lab/stamps_4xh100_v1.txt;
 * 1024x2560x8192 takes 118 us by them in 128x160, results/gpu/tries_4xh100_v1.json, and 100 by
 * couriers in 128x192, herald_4xh100_v1.json). */
static const double storers_part = 0.5;

static bool are_storers_slow(const sg_sim *m, const sg_sched *s)
{
    return m->machine->courier_gbps > 0 && s->problem->ranks > 2;
}

static int32_t blocks_of(const sg_machine *machine, const sg_launch *l)
{
    return l->blocks > 0 && l->blocks < machine->sms ? l->blocks : machine->sms;
}

/* Blocks of L that have no tile, however many waves there are. */
static int32_t idle_blocks(const sg_sched *s, const sg_machine *machine, const sg_launch *l)
{
    const int32_t most = blocks_of(machine, l);
    const int32_t tiles =
        sg_blocks_in_waves(&s->patch[l->patch0], l->patches, l->tile_m, l->tile_n);
    if (tiles < 1) return 0;
    return most - sg_blocks_fewest(tiles, most);
}

/* Do storers of L carry the first push beside COURIERS?  See early_steps() of deal.cuh. */
static bool storers_begin(const sg_sched *s, const sg_machine *machine, const sg_launch *l,
                          int32_t couriers)
{
    const sg_patch *const patch = &s->patch[l->patch0];
    const int32_t workers = blocks_of(machine, l) - couriers;
    const bool wave = sg_blocks_in_waves(patch, l->patches, l->tile_m, l->tile_n) <= workers;
    const bool few = s->problem->ranks == 2 && couriers < SG_COURIERS_OF_HERALD && wave;
    return few || sg_blocks_all_wait(patch, l->patches, l->tile_m, l->tile_n, workers);
}

void sg_sim_set_pushes(sg_sim *m, int rank)
{
    const sg_sched *const s = &m->sched[rank];
    const sg_machine *const machine = m->machine;
    sg_sim_rank *const r = &m->rank[rank];
    const sg_launch *carrier = NULL;
    r->takes = machine->pool == 0 && sg_sched_gathers_tagged(s);
    r->push_gbps = r->takes && machine->tagged_gbps > 0
                       ? fmin(machine->tagged_gbps, machine->store_gbps)
                       : machine->store_gbps;
    if (r->takes) return; /* warps of all blocks, beside those that store tiles */
    for (int32_t i = 0; i < s->steps && machine->pool == 0; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind == SG_LAUNCH && step->lane == 0) carrier = &step->u.launch;
        if (!sg_step_is_push(step)) continue;
        r->pushes++;
        r->pushing += sg_sim_push_bytes(s, step);
    }
    if (r->pushes == 0 || carrier == NULL || machine->courier_gbps <= 0) return;
    if (are_storers_slow(m, s)) r->push_gbps *= storers_part;
    const int32_t idle = idle_blocks(s, machine, carrier);
    r->couriers = sg_blocks_couriers(&s->patch[carrier->patch0], carrier->patches, r->pushing, idle,
                                     blocks_of(machine, carrier) - idle);
    if (r->couriers == 0) return;
    r->push_gbps = fmin(r->couriers * machine->courier_gbps, machine->store_gbps);
    r->early = r->pushes > 1 && storers_begin(s, machine, carrier, r->couriers);
}

/* Carriers deal what they push among each other, and all of a round is under way at once: a push is
 * there with the last of its round.  To a single peer, couriers bring one after the other. */
static double push_round_us(const sg_sim *m, int rank)
{
    const sg_sim_rank *const r = &m->rank[rank];
    const int32_t blocks = r->couriers > 0 ? r->couriers : m->machine->sms;
    const double at_once = m->machine->push_kb * 1e3 * blocks;
    if (at_once <= 0 || (r->couriers > 0 && m->sched[rank].problem->ranks == 2)) return 0;
    const double end = fmin(ceil(r->pushed / at_once) * at_once, r->pushing);
    return fmax(0, sg_sim_us_of(end - r->pushed, r->push_gbps));
}

/* Tagged data are seen as they come, and what is taken of them a while later. */
double sg_sim_push_seen_us(const sg_sim *m, const sg_step *step, int rank, int at)
{
    const sg_machine *const machine = m->machine;
    if (!m->rank[rank].takes)
        return machine->store_us + sg_sim_far_us(m, rank, at) + push_round_us(m, rank);
    if (!sg_sched_is_take(&m->sched[rank], step)) return sg_sim_far_us(m, rank, at);
    return machine->take_us > 0 ? machine->take_us : machine->flag_us;
}

/* Who carries looks for the next piece, loads it and counts it: of little that takes longer than
 * its bytes do.  What goes to peers one by one is under way to all of them. */
static double push_wait_us(const sg_sim *m, int rank, const sg_step *step)
{
    const sg_sim_rank *const r = &m->rank[rank];
    if (r->takes || r->pushed == 0) return 0;
    const sg_sched *const s = &m->sched[rank];
    const double least = m->machine->push_us * step->tos / (s->problem->ranks - 1);
    return fmax(0, least - sg_sim_us_of(sg_sim_push_bytes(s, step), r->push_gbps));
}

/* A launch at the start of the run carries it, by blocks without tiles or by its storers, who share
 * what stores have. */
void sg_sim_run_push(sg_sim *m, sg_sim_agent *a, const sg_step *step)
{
    const sg_sched *const s = &m->sched[a->rank];
    const double launched = m->machine->pool > 0 ? 0 : m->machine->launch_us;
    if (a->now < launched) {
        sg_sim_agent_at(m, a, launched);
        return;
    }
    const sg_sim_rank *const r = &m->rank[a->rank];
    if (a->phase == SG_AT_WORK) {
        a->begun_us = a->now;
        a->phase = SG_AT_MOVE;
        sg_sim_agent_at(m, a, a->now + push_wait_us(m, a->rank, step));
        return;
    }
    a->phase = SG_AT_LAST;
    a->pending = step->tos;
    if (r->takes && sg_sched_is_take(s, step)) {
        const double gbps =
            m->machine->take_gbps > 0 ? m->machine->take_gbps : m->machine->mem_gbps;
        sg_sim_end_step(m, a, a->now + sg_sim_us_of(sg_sim_area_bytes(s, &s->to[step->to0]), gbps));
        return;
    }
    const bool couriers = r->couriers > 0 && !(r->early && r->pushed == 0);
    const bool own_rate = couriers || r->takes || (r->couriers == 0 && are_storers_slow(m, s));
    const double gbps = own_rate ? r->push_gbps / step->tos : m->machine->store_gbps;
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++)
        sg_sim_send(m, SG_FLOW_SMS, (int32_t)(a - m->agents), a->rank, s->to[i].rank,
                    sg_sim_area_bytes(s, &s->to[i]), gbps * 1e3, 0);
}
