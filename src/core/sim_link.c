/* sim_link.c -- what travels: flows that share links, see sim_state.h.
 *
 * A flow uses resources: its sender's way out, its receiver's way in, and what lies between them by
 * the machine's topology.  A resource gives its users the same rate (by weight: bytes that pass a link
 * twice count twice), but for those whose own most is less, and a flow moves at the least that it is
 * given anywhere.  What a flow leaves unused of one link because another link holds it back is not
 * handed on: where everybody sends alike, as in every schedule of equal shares, these rates are
 * max-min fair; elsewhere they are at most that, and a change concerns the users of its links alone,
 * so that the cost of a flow does not grow with the number of ranks. */
#include "core/sim_state.h"

enum { OUT, IN, STORE, OWN }; /* resources of every rank */
enum { HOST, NUMA_OUT, NUMA_IN, HALF };
enum { RIGHT, LEFT };

/* ---- Topology --------------------------------------------------------------------------------------- */

static int64_t link_count(const sg_sim *m)
{
    switch (m->machine->topology) {
    case SG_MESH: return (int64_t)m->ranks * m->all;
    case SG_RING: return (int64_t)m->ranks * 2;
    case SG_PCIE: return (int64_t)m->halves * HALF + HALF;
    case SG_NODES: return (int64_t)m->ranks * 2;
    case SG_SWITCH:
    case SG_TOPOLOGIES:
    default: return 0;
    }
}

static int half_of(const sg_sim *m, int rank)
{
    const int of_half = m->machine->numa_ranks;
    return of_half > 0 ? rank / of_half : 0;
}

/* A rank's way out and in, all links together. */
static double port_gbps(const sg_sim *m)
{
    const double link = sg_machine_link_gbps(m->machine);
    if (m->machine->topology == SG_MESH) return link * (m->all > 1 ? m->all - 1 : 1);
    if (m->machine->topology == SG_RING) return link * 2;
    return link;
}

static double or_endless(double gbps)
{
    return gbps > 0 ? gbps : 1e12;
}

static void set_rate(sg_sim *m, int64_t index, double gbps)
{
    m->resources[index] = (sg_sim_resource){.rate = gbps * 1e3, .first = SG_NONE};
}

static void set_topology(sg_sim *m)
{
    const sg_machine *const machine = m->machine;
    const double link = sg_machine_link_gbps(machine);
    const int64_t links = link_count(m);
    for (int64_t i = 0; i < links; i++) {
        double gbps = link;
        if (machine->topology == SG_NODES) gbps = machine->nic_gbps;
        if (machine->topology == SG_PCIE)
            gbps = or_endless(i % HALF == HOST ? machine->host_gbps : machine->numa_gbps);
        set_rate(m, m->link0 + i, gbps);
    }
}

bool sg_sim_set_links(sg_sim *m)
{
    const sg_machine *const machine = m->machine;
    m->halves = half_of(m, m->ranks - 1) + 1;
    m->link0 = m->ranks * OWN;
    m->stride = machine->topology == SG_RING ? 3 + m->all / 2 : 7;
    m->flow_count = 0;
    m->flow_free = m->batch_free = SG_NONE;
    m->batch_count = 0;
    m->resources = sg_sim_get(m, SG_MEM_RESOURCES, m->link0 + link_count(m), sizeof *m->resources);
    m->channels = sg_sim_get(m, SG_MEM_CHANNELS, (int64_t)m->ranks * m->all, sizeof *m->channels);
    if (m->full) return false;
    const double port = port_gbps(m);
    for (int r = 0; r < m->ranks; r++) {
        set_rate(m, r * OWN + OUT, port);
        set_rate(m, r * OWN + IN, port);
        set_rate(m, r * OWN + STORE, machine->store_gbps);
    }
    set_topology(m);
    for (int64_t i = 0; i < (int64_t)m->ranks * m->all; i++) m->channels[i] = SG_NONE;
    return true;
}

/* ---- What a flow uses ------------------------------------------------------------------------------- */

static void use(sg_sim *m, int32_t flow, int64_t resource, double weight)
{
    sg_sim_flow *const f = &m->flows[flow];
    const int32_t at = flow * m->stride + f->uses++;
    SG_CHECK(f->uses <= m->stride);
    sg_sim_resource *const r = &m->resources[resource];
    m->uses[at] = (sg_sim_use){
        .resource = (int32_t)resource, .next = r->first, .prev = SG_NONE, .weight = weight};
    if (r->first != SG_NONE) m->uses[r->first].prev = at;
    r->first = at;
    r->load += weight;
}

/* All links between neighbours the short way round. */
static void use_ring(sg_sim *m, int32_t flow, int from, int to)
{
    const int right = (to - from + m->all) % m->all;
    const int way = 2 * right <= m->all ? RIGHT : LEFT;
    const int hops = way == RIGHT ? right : m->all - right;
    if (m->ranks == 1) { /* images send over this link, too */
        use(m, flow, m->link0 + way, hops);
        return;
    }
    for (int i = 0; i < hops; i++) {
        const int rank = way == RIGHT ? (from + i) % m->all : (from - i + m->all) % m->all;
        use(m, flow, m->link0 + rank % m->ranks * 2 + way, 1);
    }
}

static void use_bridges(sg_sim *m, int32_t flow, int from, int to)
{
    const int64_t here = m->link0 + (int64_t)half_of(m, from) * HALF;
    const int64_t there = m->link0 + (int64_t)half_of(m, to % m->ranks) * HALF;
    const bool far = half_of(m, from) != half_of(m, to);
    const double passes = m->machine->host_staged ? 2 : 1;
    use(m, flow, here + HOST, far ? 1 : passes);
    if (!far) return;
    use(m, flow, there + HOST, 1);
    use(m, flow, here + NUMA_OUT, 1);
    use(m, flow, there + NUMA_IN, 1);
}

static bool is_far(const sg_sim *m, int from, int to)
{
    const int of_node = m->machine->node_ranks;
    return m->machine->topology == SG_NODES && from / of_node != to / of_node;
}

double sg_sim_far_us(const sg_sim *m, int from, int to)
{
    return m->machine->node_us > 0 && is_far(m, from, to) ? m->machine->node_us : 0;
}

static void use_links(sg_sim *m, int32_t flow)
{
    const sg_sim_flow *const f = &m->flows[flow];
    const int from = f->from;
    const int to = f->to;
    if (f->what == SG_FLOW_PRODUCT || (f->what != SG_FLOW_COLL && from == to)) return;
    if (f->what == SG_FLOW_COLL) {
        use(m, flow, from * OWN + OUT, 1);
        use(m, flow, from * OWN + IN, 1);
        return;
    }
    if (f->what != SG_FLOW_COPY) use(m, flow, from * OWN + STORE, 1);
    if (is_far(m, from, to)) {
        use(m, flow, m->link0 + from * 2 + OUT, 1);
        use(m, flow, m->link0 + to % m->ranks * 2 + IN, 1);
        return;
    }
    use(m, flow, from * OWN + OUT, 1);
    use(m, flow, to % m->ranks * OWN + IN, 1);
    if (m->machine->topology == SG_MESH)
        use(m, flow, m->link0 + (int64_t)from * m->all + (to - from + m->all) % m->all, 1);
    if (m->machine->topology == SG_RING) use_ring(m, flow, from, to);
    if (m->machine->topology == SG_PCIE) use_bridges(m, flow, from, to);
}

/* ---- Rates ------------------------------------------------------------------------------------------ */

static double at_least_one(double factor)
{
    return factor > 1 ? factor : 1;
}

/* The flow's own most, with what else its rank does. */
static double most_of(const sg_sim *m, const sg_sim_flow *f)
{
    const sg_sim_rank *const r = &m->rank[f->from];
    const sg_machine *const machine = m->machine;
    double slower = 1;
    if (f->what == SG_FLOW_PRODUCT) {
        if (r->moving > 0) slower *= at_least_one(machine->gemm_by_copy);
        if (r->colls > 0) slower *= at_least_one(machine->gemm_by_coll);
    } else if (r->products > 0) {
        if (f->what == SG_FLOW_COPY) slower = at_least_one(machine->copy_by_gemm);
        if (f->what == SG_FLOW_COLL) slower = at_least_one(machine->coll_by_gemm);
    }
    return f->cap / slower;
}

/* What a resource has for each of its users. */
static double share_of(const sg_sim *m, const sg_sim_resource *r)
{
    double share = r->rate / r->load;
    if (m->uses[r->first].next == SG_NONE) return share;
    for (int pass = 0; pass < 4; pass++) {
        double left = r->rate;
        double load = r->load;
        for (int32_t u = r->first; u != SG_NONE; u = m->uses[u].next) {
            const double most = m->flows[u / m->stride].most;
            if (most >= share) continue;
            left -= most * m->uses[u].weight;
            load -= m->uses[u].weight;
        }
        if (load <= 1e-9 || left / load <= share) break;
        share = left / load;
    }
    return share;
}

/* Brings the flow up to date and gives it the rate that its links have for it now. */
static void rate(sg_sim *m, int32_t flow)
{
    sg_sim_flow *const f = &m->flows[flow];
    if (m->now > f->since) f->left -= f->rate * (m->now - f->since);
    if (f->left < 0) f->left = 0;
    f->since = m->now;
    f->rate = f->most = most_of(m, f);
    for (int32_t i = 0; i < f->uses; i++) {
        const double share = share_of(m, &m->resources[m->uses[flow * m->stride + i].resource]);
        if (f->rate > share) f->rate = share;
    }
    double end = m->now + (f->left > 0 ? f->left / f->rate : 0);
    if (end < f->floor_us) end = f->floor_us;
    sg_sim_at(m, m->flow0 + flow, end);
}

/* Everybody who shares a link with the flow; a flow met twice is at its rate already. */
static void rate_neighbours(sg_sim *m, int32_t flow)
{
    for (int32_t i = 0; i < m->flows[flow].uses; i++) {
        const sg_sim_resource *const r = &m->resources[m->uses[flow * m->stride + i].resource];
        for (int32_t u = r->first; u != SG_NONE; u = m->uses[u].next)
            if (u / m->stride != flow) rate(m, u / m->stride);
    }
}

/* Does a flow of this kind count as traffic beside the rank's products? */
static bool is_traffic(const sg_sim_flow *f)
{
    return f->what == SG_FLOW_COPY || f->what == SG_FLOW_SMS || f->what == SG_FLOW_STORE;
}

void sg_sim_contend(sg_sim *m, int rank)
{
    const sg_machine *const machine = m->machine;
    const sg_sim_rank *const r = &m->rank[rank];
    if (machine->gemm_by_copy <= 1 && machine->gemm_by_coll <= 1 && machine->copy_by_gemm <= 1 &&
        machine->coll_by_gemm <= 1)
        return;
    if (r->product_flow != SG_NONE) rate(m, r->product_flow);
    if (r->coll_flow != SG_NONE) rate(m, r->coll_flow);
    for (int e = 0; e < m->engine_count; e++) {
        const sg_sim_engine *const engine = &m->engines[rank * m->engine_count + e];
        if (engine->flow != SG_NONE) rate(m, engine->flow);
    }
}

/* ---- Coming and going ------------------------------------------------------------------------------- */

static int32_t new_flow(sg_sim *m)
{
    if (m->full) return SG_NONE;
    int32_t flow = m->flow_free;
    if (flow != SG_NONE) {
        m->flow_free = m->flows[flow].next;
        return flow;
    }
    flow = m->flow_count;
    if (flow >= m->flow_room) {
        const int64_t room = 2 * (int64_t)m->flow_room + 64;
        m->flows = sg_sim_get(m, SG_MEM_FLOWS, room, sizeof *m->flows);
        m->uses = sg_sim_get(m, SG_MEM_USES, room * m->stride, sizeof *m->uses);
        const int64_t entities = m->flow0 + room;
        m->when = sg_sim_get(m, SG_MEM_WHEN, entities, sizeof *m->when);
        m->place = sg_sim_get(m, SG_MEM_PLACE, entities, sizeof *m->place);
        m->heap = sg_sim_get(m, SG_MEM_HEAP, entities, sizeof *m->heap);
        if (m->full) return SG_NONE;
        m->flow_room = (int32_t)room;
    }
    m->flow_count++;
    m->place[m->flow0 + flow] = SG_NONE;
    return flow;
}

static void set_off(sg_sim *m, int32_t flow)
{
    sg_sim_flow *const f = &m->flows[flow];
    sg_sim_rank *const r = &m->rank[f->from];
    f->moving = true;
    f->begin_us = f->since = m->now;
    f->most = most_of(m, f);
    use_links(m, flow);
    if (is_traffic(f) && r->moving++ == 0) sg_sim_contend(m, f->from);
    rate(m, flow);
    rate_neighbours(m, flow);
}

int32_t sg_sim_send(sg_sim *m, sg_sim_what what, int32_t owner, int from, int to, double bytes,
                    double cap, double floor_us)
{
    const int32_t flow = new_flow(m);
    if (flow == SG_NONE) return SG_NONE;
    sg_sim_flow *const f = &m->flows[flow];
    *f = (sg_sim_flow){.left = bytes,
                       .bytes = bytes,
                       .cap = cap,
                       .floor_us = floor_us,
                       .owner = owner,
                       .next = SG_NONE,
                       .channel = SG_NONE,
                       .from = (int16_t)from,
                       .to = (int16_t)to,
                       .what = (uint8_t)what};
    if (what == SG_FLOW_STORE) {
        /* Tiles to one peer arrive in the order in which they were stored. */
        f->channel = from * m->all + to;
        const int32_t before = m->channels[f->channel];
        m->channels[f->channel] = flow;
        if (before != SG_NONE) {
            m->flows[before].next = flow;
            return flow; /* it sets off when that one is there */
        }
    }
    set_off(m, flow);
    return flow;
}

static void take_off_links(sg_sim *m, int32_t flow)
{
    for (int32_t i = 0; i < m->flows[flow].uses; i++) {
        const sg_sim_use *const u = &m->uses[flow * m->stride + i];
        sg_sim_resource *const r = &m->resources[u->resource];
        if (u->next != SG_NONE) m->uses[u->next].prev = u->prev;
        if (u->prev != SG_NONE)
            m->uses[u->prev].next = u->next;
        else
            r->first = u->next;
        r->load -= u->weight;
    }
}

static void tell_transfer(const sg_sim *m, const sg_sim_flow *f)
{
    if (m->visit == NULL || f->what >= SG_FLOW_COLL) return;
    const bool store = f->what == SG_FLOW_STORE;
    const sg_sim_batch *const batch = store ? &m->batches[f->owner] : NULL;
    const sg_sim_agent *const a = &m->agents[store ? batch->agent : f->owner];
    sg_sim_tell(m, &(sg_span){.kind = SG_SPAN_TRANSFER,
                              .rank = f->from,
                              .lane = a->lane,
                              .peer = f->to,
                              .step = store ? batch->step : a->step,
                              .patch = store ? batch->patch : SG_NONE,
                              .tile0 = store ? batch->tile0 : 0,
                              .tiles = store ? batch->tiles : 0,
                              .engine = f->what == SG_FLOW_COPY,
                              .bytes = f->bytes,
                              .begin_us = f->begin_us,
                              .end_us = m->now});
}

void sg_sim_flow_act(sg_sim *m, int32_t flow)
{
    sg_sim_flow *const f = &m->flows[flow];
    f->left -= f->rate * (m->now - f->since);
    f->since = m->now;
    /* What is left of rounding is less than a thousandth of a byte. */
    if (f->left > 1e-3 + 1e-9 * f->bytes || m->now < f->floor_us) {
        rate(m, flow);
        return;
    }
    take_off_links(m, flow);
    rate_neighbours(m, flow);
    sg_sim_rank *const r = &m->rank[f->from];
    if (is_traffic(f) && --r->moving == 0) sg_sim_contend(m, f->from);
    tell_transfer(m, f);
    if (f->channel != SG_NONE) {
        if (f->next != SG_NONE)
            set_off(m, f->next);
        else
            m->channels[f->channel] = SG_NONE;
    }
    const sg_sim_flow done = *f;
    m->flows[flow].next = m->flow_free;
    m->flow_free = flow;
    switch ((sg_sim_what)done.what) {
    case SG_FLOW_STORE: sg_sim_tiles_landed(m, &done); break;
    case SG_FLOW_COLL: sg_sim_coll_landed(m, &m->agents[done.owner]); break;
    case SG_FLOW_PRODUCT: sg_sim_end_vendor(m, &m->agents[done.owner]); break;
    case SG_FLOW_COPY:
    case SG_FLOW_SMS:
    default: sg_sim_landed(m, &m->agents[done.owner], &done); break;
    }
}
