/* sim_link.c -- what travels: flows that share links, see sim_state.h.
 *
 * A flow uses resources: its sender's way out, its receiver's way in, and what lies between them by
 * the machine's topology.  A resource gives its users the same rate (by weight: bytes that pass a
 * link twice count twice), but for those whose own most is less, and a flow moves at the least that
 * it is given anywhere.  What a flow leaves unused of one link because another link holds it back
 * is not handed on: where everybody sends alike, as in every schedule of equal shares, these rates
 * are max-min fair; elsewhere they are at most that, and a change concerns the users of its links
 * alone, so that the cost of a flow does not grow with the number of ranks. */
#include "core/sim_state.h"

/* ---- What a flow uses ------------------------------------------------------------------------ */

bool sg_sim_set_links(sg_sim *m)
{
    m->links = (sg_links){.machine = m->machine, .ranks = m->ranks, .all = m->all};
    m->store0 = (int32_t)sg_links_count(&m->links); /* behind the links: stores of each rank */
    m->stride = m->machine->topology == SG_RING ? 3 + m->all / 2 : 7;
    m->flow_count = 0;
    m->turn = 0;
    m->flow_free = m->batch_free = SG_NONE;
    m->batch_count = 0;
    m->resources =
        sg_sim_get(m, SG_MEM_RESOURCES, (int64_t)m->store0 + m->ranks, sizeof *m->resources);
    m->channels = sg_sim_get(m, SG_MEM_CHANNELS, (int64_t)m->ranks * m->all, sizeof *m->channels);
    m->uses = sg_sim_get(m, SG_MEM_USES, (int64_t)m->flow_room * m->stride, sizeof *m->uses);
    if (m->full) return false;
    for (int32_t i = 0; i < m->store0 + m->ranks; i++) {
        const double gbps = i < m->store0 ? sg_links_gbps(&m->links, i) : m->machine->store_gbps;
        m->resources[i] = (sg_sim_resource){.rate = gbps * 1e3, .first = SG_NONE};
    }
    for (int64_t i = 0; i < (int64_t)m->ranks * m->all; i++) m->channels[i] = SG_NONE;
    return true;
}

static void use(sg_sim *m, int32_t flow, int32_t resource, double weight)
{
    sg_sim_flow *const f = &m->flows[flow];
    const int32_t at = flow * m->stride + f->uses++;
    SG_CHECK(f->uses <= m->stride);
    sg_sim_resource *const r = &m->resources[resource];
    m->uses[at] =
        (sg_sim_use){.resource = resource, .next = r->first, .prev = SG_NONE, .weight = weight};
    if (r->first != SG_NONE) m->uses[r->first].prev = at;
    r->first = at;
    r->load += weight;
    r->share = -1;
}

double sg_sim_far_us(const sg_sim *m, int from, int to)
{
    return sg_links_far_us(&m->links, from, to);
}

static void use_links(sg_sim *m, int32_t flow)
{
    const sg_sim_flow *const f = &m->flows[flow];
    sg_link_use path[SG_LINK_USES];
    if (f->what == SG_FLOW_PRODUCT || (f->what != SG_FLOW_COLL && f->from == f->to)) return;
    const int count = f->what == SG_FLOW_COLL ? sg_links_ports(&m->links, f->from, path)
                                              : sg_links_path(&m->links, f->from, f->to, path);
    for (int i = 0; i < count; i++) use(m, flow, path[i].link, path[i].weight);
    if (f->what == SG_FLOW_SMS || f->what == SG_FLOW_STORE) use(m, flow, m->store0 + f->from, 1);
}

/* ---- Rates ----------------------------------------------------------------------------------- */

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
        const double by_copy = machine->vendor_by_copy;
        if (r->moving > 0) slower *= at_least_one(by_copy > 0 ? by_copy : machine->gemm_by_copy);
        if (r->colls > 0) slower *= at_least_one(machine->gemm_by_coll);
    } else if (r->products > 0) {
        if (f->what == SG_FLOW_COPY) slower = at_least_one(machine->copy_by_gemm);
        if (f->what == SG_FLOW_COLL) slower = at_least_one(machine->coll_by_gemm);
    }
    return f->cap / slower;
}

/* What a resource has for each of its users. */
static double new_share(const sg_sim *m, const sg_sim_resource *r)
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

static double share_of(const sg_sim *m, sg_sim_resource *r)
{
    if (r->share < 0) r->share = new_share(m, r);
    return r->share;
}

/* The flow's own most has changed: what is left for those who share its links, too. */
static void set_most(sg_sim *m, int32_t flow, double most)
{
    sg_sim_flow *const f = &m->flows[flow];
    if (most == f->most) return;
    f->most = most;
    for (int32_t i = 0; i < f->uses; i++)
        m->resources[m->uses[flow * m->stride + i].resource].share = -1;
}

/* Brings the flow up to date and gives it the rate that its links have for it now. */
static void rate(sg_sim *m, int32_t flow)
{
    sg_sim_flow *const f = &m->flows[flow];
    if (!f->moving) return; /* it is there, or has not set off */
    if (m->now > f->since) f->left -= f->rate * (m->now - f->since);
    if (f->left < 0) f->left = 0;
    f->since = m->now;
    set_most(m, flow, most_of(m, f));
    f->rate = f->most;
    for (int32_t i = 0; i < f->uses; i++) {
        const double share = share_of(m, &m->resources[m->uses[flow * m->stride + i].resource]);
        if (f->rate > share) f->rate = share;
    }
    double end = m->now + (f->left > 0 ? f->left / f->rate : 0);
    if (end < f->floor_us) end = f->floor_us;
    sg_sim_at(m, m->flow0 + flow, end);
}

/* Everybody who shares a link with the flow, once. */
static void rate_neighbours(sg_sim *m, int32_t flow)
{
    m->turn++;
    m->flows[flow].turn = m->turn;
    for (int32_t i = 0; i < m->flows[flow].uses; i++) {
        const sg_sim_resource *const r = &m->resources[m->uses[flow * m->stride + i].resource];
        for (int32_t u = r->first; u != SG_NONE; u = m->uses[u].next) {
            const int32_t other = u / m->stride;
            if (m->flows[other].turn == m->turn) continue;
            m->flows[other].turn = m->turn;
            rate(m, other);
        }
    }
}

/* Does a flow of this kind count as traffic beside the rank's products? */
static bool is_traffic(const sg_sim_flow *f)
{
    return f->what == SG_FLOW_COPY || f->what == SG_FLOW_SMS || f->what == SG_FLOW_STORE;
}

/* A flow that has just arrived is off its links already, though its engine still names it. */
static void rate_moving(sg_sim *m, int32_t flow)
{
    if (flow != SG_NONE && m->flows[flow].moving) rate(m, flow);
}

void sg_sim_contend(sg_sim *m, int rank)
{
    const sg_machine *const machine = m->machine;
    const sg_sim_rank *const r = &m->rank[rank];
    if (machine->gemm_by_copy <= 1 && machine->vendor_by_copy <= 1 && machine->gemm_by_coll <= 1 &&
        machine->copy_by_gemm <= 1 && machine->coll_by_gemm <= 1)
        return;
    rate_moving(m, r->product_flow);
    rate_moving(m, r->coll_flow);
    for (int e = 0; e < m->engine_count; e++)
        rate_moving(m, m->engines[rank * m->engine_count + e].flow);
}

/* ---- Coming and going ------------------------------------------------------------------------ */

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
        /* Tiles to one peer arrive in the order in which they were stored; a pool's ranks have one
         * link for all peers. */
        f->channel = from * m->all + (m->machine->pool > 0 ? 0 : to);
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
        r->share = -1;
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
    /* Less than a clock can tell is left of rounding. */
    if (f->left > f->rate * 1e-9 * (1 + m->now) || m->now < f->floor_us) {
        rate(m, flow);
        return;
    }
    f->moving = false;
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
