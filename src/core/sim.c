/* sim.c -- see sim.h: the simulator's memory, and the parts of a result.
 *
 * A part is what a simulation gains when something costs nothing: the same steps are simulated on
 * machines without links, without latencies, without contention. */
#include "core/sim.h"

#include <stdlib.h>
#include <string.h>

#include "core/sim_state.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

void *sg_sim_get(sg_sim *m, int which, int64_t count, size_t size)
{
    sg_sim_memory *const memory = &m->memory[which];
    const size_t need = (size_t)sg_max(count, 1) * size;
    if (need <= memory->room) return memory->data;
    const size_t room = need + need / 2;
    void *const data = realloc(memory->data, room);
    if (data == NULL) {
        m->full = true;
        return memory->data;
    }
    memory->data = data;
    memory->room = room;
    return data;
}

static void *get_zeroed(sg_sim *m, int which, int64_t count, size_t size)
{
    void *const data = sg_sim_get(m, which, count, size);
    if (!m->full) memset(data, 0, (size_t)sg_max(count, 1) * size);
    return data;
}

/* ---- Setting up ------------------------------------------------------------------------------ */

/* Flags that a schedule raises or waits for; one of a peer counts at both ends. */
static int64_t count_flags(const sg_sched *s)
{
    int64_t flags = s->raises + s->waits + s->adds;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_launch *const l = &s->step[i].u.launch;
        if (s->step[i].kind != SG_LAUNCH) continue;
        for (int32_t j = l->patch0; j < l->patch0 + l->patches; j++) {
            const sg_patch *const p = &s->patch[j];
            const int64_t tiles = sg_walk_tiles(p, l->tile_m, l->tile_n);
            for (int32_t k = p->raise0; k < p->raise0 + p->raises; k++)
                if (s->raise[k].per == SG_PER_TILE) flags += tiles;
            for (int32_t k = p->wait0; k < p->wait0 + p->waits; k++)
                if (s->wait[k].per == SG_PER_ROWS)
                    flags += sg_ceil_div(s->wait[k].rows, s->wait[k].chunk) * s->wait[k].chunks_k;
        }
    }
    return flags;
}

/* Waves of tiles on so many SMs, of which each is an event. */
static int64_t count_waves(const sg_sched *s, int sms)
{
    int64_t waves = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_launch *const l = &s->step[i].u.launch;
        if (s->step[i].kind == SG_LAUNCH && !l->vendor) waves += sg_ceil_div(l->visits, sms);
    }
    return waves;
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
    m->rank[r].agent0 = m->agent_count;
    for (int lane = 0; lane < SG_MAX_LANES; lane++) {
        if (first[lane] == SG_NONE) continue;
        sg_sim_agent *const a = &m->agents[m->agent_count++];
        *a = (sg_sim_agent){
            .step = first[lane], .rank = (int16_t)r, .lane = (uint8_t)lane, .for_rank = SG_NONE};
        sg_sim_agent_at(m, a, 0);
        m->rank[r].agents++;
    }
}

typedef struct counts {
    int64_t steps, flags, agents, waves;
    int32_t colls;
} counts;

static counts count_all(const sg_sim *m)
{
    counts c = {0};
    for (int r = 0; r < m->ranks; r++) {
        const sg_sched *const s = &m->sched[r];
        m->rank[r] = (sg_sim_rank){.step0 = (int32_t)c.steps,
                                   .free_sms = m->machine->sms,
                                   .hungry = SG_NONE,
                                   .queue = SG_NONE,
                                   .product_flow = SG_NONE,
                                   .coll_flow = SG_NONE};
        c.steps += s->steps;
        c.flags += count_flags(s);
        if (c.colls < s->colls) c.colls = s->colls;
        uint32_t lanes = 0;
        for (int32_t i = 0; i < s->steps; i++) lanes |= 1u << s->step[i].lane;
        c.waves += count_waves(s, m->machine->sms);
        for (; lanes != 0; lanes &= lanes - 1) c.agents++;
    }
    return c;
}

/* Of all ranks; some gigabytes, some seconds. */
enum { MOST_FLAGS = 1 << 25, MOST_WAVES = 1 << 26 };

static bool set_up_steps(sg_sim *m, counts c)
{
    for (int r = 0; r < m->ranks; r++) sg_sim_set_pushes(m, r);
    int64_t slots = 64;
    while (slots < 2 * c.flags) slots *= 2;
    m->slot_mask = (uint64_t)slots - 1;
    m->slots = get_zeroed(m, SG_MEM_SLOTS, slots, sizeof *m->slots);
    m->steps = sg_sim_get(m, SG_MEM_STEPS, c.steps, sizeof *m->steps);
    m->colls = get_zeroed(m, SG_MEM_COLLS, c.colls, sizeof *m->colls);
    m->agents = sg_sim_get(m, SG_MEM_AGENTS, c.agents, sizeof *m->agents);
    m->groups = sg_sim_get(m, SG_MEM_GROUPS, c.agents * SG_SIM_GROUPS, sizeof *m->groups);
    m->agent_count = 0;
    m->heaped = 0;
    m->worker0 = (int32_t)c.agents;
    m->flow0 = m->worker0 + m->machine->pool;
    const int64_t entities = m->flow0 + (int64_t)m->flow_room;
    m->when = sg_sim_get(m, SG_MEM_WHEN, entities, sizeof *m->when);
    m->place = sg_sim_get(m, SG_MEM_PLACE, entities, sizeof *m->place);
    m->heap = sg_sim_get(m, SG_MEM_HEAP, entities, sizeof *m->heap);
    return !m->full;
}

static bool set_up_engines(sg_sim *m)
{
    m->engine_count = m->machine->copy_engines > 0 ? m->machine->copy_engines : 1;
    const int64_t engines = (int64_t)m->ranks * m->engine_count;
    m->engines = sg_sim_get(m, SG_MEM_ENGINES, engines, sizeof *m->engines);
    for (int64_t i = 0; i < engines && !m->full; i++)
        m->engines[i] = (sg_sim_engine){.peer = SG_NONE, .flow = SG_NONE};
    return !m->full;
}

static shingle_status simulate(sg_sim *m, const sg_machine *machine, double *us_out)
{
    m->machine = machine;
    m->full = false;
    m->now = 0;
    sg_arena_reset(&m->arena);
    m->rank = sg_sim_get(m, SG_MEM_RANKS, m->ranks, sizeof *m->rank);
    if (m->full) return sg_fail(SHINGLE_ENOMEM, "no memory to simulate %d ranks", m->ranks);
    const counts c = count_all(m);
    if (c.flags > MOST_FLAGS)
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "%lld flags are too many to be simulated; %d are possible",
                       (long long)c.flags, (int)MOST_FLAGS);
    if (c.waves > MOST_WAVES)
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "%lld waves of tiles are too many to be simulated; %d are possible",
                       (long long)c.waves, (int)MOST_WAVES);
    bool good = set_up_steps(m, c) && set_up_engines(m) && sg_sim_set_links(m);
    for (int32_t i = 0; good && i < m->flow0 + m->flow_room; i++) m->place[i] = SG_NONE;
    for (int r = 0; good && r < m->ranks; r++) start_lanes(m, r);
    if (good && machine->pool > 0) good = sg_sim_set_pool(m);
    if (!good) return sg_fail(SHINGLE_ENOMEM, "no memory to simulate %d ranks", m->ranks);
    return sg_sim_run(m, us_out);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Rates that no program can tell from endless ones. */
static const double endless = 1e12;

static void no_latency(sg_machine *m)
{
    for (int kind = 0; kind < SG_MACHINE_CURVES; kind++) {
        sg_curve *const curve = &m->coll_curve[kind];
        for (int i = 0; i < curve->points; i++)
            if (m->coll_gbps < curve->point[i].value) m->coll_gbps = curve->point[i].value;
        curve->points = 0;
    }
    m->lane_us = 0;
    m->copy_us = m->peer_us = m->store_us = m->tagged_us = m->hop_us = m->node_us = 0;
    m->landed_us = m->take_us = m->push_us = 0;
    m->coll_us = m->turn_us = m->ragged_us = 0;
    m->flag_us = m->launch_us = m->join_us = m->epilogue_us = m->unit_us = m->run_us = 0;
}

static void no_contention(sg_machine *m)
{
    m->push_part = 0;
    m->gemm_by_copy = m->vendor_by_copy = m->gemm_by_coll = 0;
    m->copy_by_gemm = m->coll_by_gemm = 0;
}

static void no_links(sg_machine *m)
{
    if (m->courier_gbps > 0) m->courier_gbps = endless;
    m->copy_gbps = m->store_gbps = m->coll_gbps = m->link_gbps = m->nic_gbps = endless;
    m->host_gbps = m->numa_gbps = m->land_gbps = m->ragged_gbps = 0;
    if (m->tagged_gbps > 0) m->tagged_gbps = endless;
    m->coll_part.points = 0;
    for (int kind = 0; kind < SG_MACHINE_CURVES; kind++) m->coll_curve[kind].points = 0;
}

static void no_products(sg_machine *m)
{
    for (int type = 0; type < SG_TYPES; type++) m->gemm_tflops[type] = endless;
    m->visit_us = m->epilogue_us = m->patch_us = 0;
    m->add_us = m->more_add_us = m->here_us = m->onto_us = 0;
    m->bias_us = m->relu_us = m->gate_us = 0;
    m->stage_us = m->stage_least_us = m->piece_us = m->odd_gbps = 0;
    m->mem_gbps = m->sum_gbps = m->pack_gbps = endless;
    m->sm_gbps = 0;
    m->launch_us = m->unit_us = 0;
}

static bool moves(const sg_problem *p)
{
    return p->ranks > 1 && (sg_problem_in(p) != SG_IN_NONE || sg_problem_out(p) != SG_OUT_NONE);
}

static shingle_status find_parts(sg_sim *m, const sg_machine *machine, sg_sim_result *r)
{
    const sg_problem *const p = m->sched[0].problem;
    sg_machine other = *machine;
    double quick = 0;
    double wired = 0;
    double calm = 0;
    no_products(&other);
    SG_TRY(simulate(m, &other, &r->comm_us));
    if (!moves(p)) r->comm_us = 0; /* what rounding leaves is none */
    other = *machine;
    no_latency(&other);
    SG_TRY(simulate(m, &other, &calm));
    no_contention(&other);
    SG_TRY(simulate(m, &other, &wired));
    no_links(&other);
    SG_TRY(simulate(m, &other, &quick));
    double rows = 0;
    for (int i = 0; i < m->all; i++) rows = fmax(rows, (double)sg_problem_rows(p, i));
    r->gemm_us = sg_sim_alone_us(machine, p, rows);
    const double overhead = sg_sim_overhead_us(machine, p, rows);
    r->decomposition_us = quick - (r->gemm_us - overhead);
    r->exposed_us = wired - quick;
    r->contention_us = calm - wired;
    r->latency_us = r->us - calm - overhead;
    return SHINGLE_OK;
}

shingle_status sg_sim_go(sg_sim *m, const sg_machine *machine, const sg_sim_options *options,
                         sg_sim_result *result_out)
{
    sg_sim_result result = {.ranks_simulated = m->ranks};
    m->visit = options != NULL ? options->visit : NULL;
    m->context = options != NULL ? options->context : NULL;
    m->events = 0;
    SG_TRY(simulate(m, machine, &result.us));
    result.events = m->events;
    m->visit = NULL;
    if (options != NULL && options->parts) SG_TRY(find_parts(m, machine, &result));
    *result_out = result;
    return SHINGLE_OK;
}

/* ---- Without a simulator --------------------------------------------------------------------- */

shingle_status sg_sim_spans(const sg_sched *sched, int ranks, const sg_machine *machine,
                            sg_span_fn visit, void *context, double *us_out)
{
    sg_simulator *const simulator = sg_simulator_new();
    if (simulator == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to simulate %d ranks", ranks);
    const sg_sim_options options = {.visit = visit, .context = context};
    sg_sim_result result;
    const shingle_status status = sg_simulate(simulator, sched, ranks, machine, &options, &result);
    sg_simulator_free(simulator);
    if (status == SHINGLE_OK) *us_out = result.us;
    return status;
}

shingle_status sg_sim_us(const sg_sched *sched, int ranks, const sg_machine *machine,
                         double *us_out)
{
    return sg_sim_spans(sched, ranks, machine, NULL, NULL, us_out);
}
