/* links.c -- see links.h. */
#include "core/links.h"

enum { OUT, IN, OWN };                  /* of every rank */
enum { HOST, NUMA_OUT, NUMA_IN, HALF }; /* of every half on PCIe */
enum { RIGHT, LEFT, WAYS };             /* of a ring, and of the NICs of nodes */

static int half_of(const sg_links *l, int rank)
{
    const int of_half = l->machine->numa_ranks;
    return of_half > 0 ? rank / of_half : 0;
}

/* Links of the topology itself stand behind those of the ranks. */
static int64_t base_of(const sg_links *l)
{
    return (int64_t)l->ranks * OWN;
}

int64_t sg_links_count(const sg_links *l)
{
    switch (l->machine->topology) {
    case SG_MESH: return base_of(l) + (int64_t)l->ranks * l->all;
    case SG_RING:
    case SG_NODES: return base_of(l) + (int64_t)l->ranks * WAYS;
    case SG_PCIE: return base_of(l) + (int64_t)(half_of(l, l->ranks - 1) + 1) * HALF;
    case SG_SWITCH:
    case SG_TOPOLOGIES:
    default: return base_of(l);
    }
}

double sg_links_gbps(const sg_links *l, int64_t link)
{
    const double endless = 1e12;
    const sg_machine *const m = l->machine;
    const double each = sg_machine_link_gbps(m);
    if (link < base_of(l)) { /* all links of a rank together */
        if (m->topology == SG_MESH) return each * (l->all > 1 ? l->all - 1 : 1);
        return m->topology == SG_RING ? each * WAYS : each;
    }
    if (m->topology == SG_NODES) return m->nic_gbps;
    if (m->topology != SG_PCIE) return each;
    const double gbps = (link - base_of(l)) % HALF == HOST ? m->host_gbps : m->numa_gbps;
    return gbps > 0 ? gbps : endless;
}

static int add(sg_link_use *uses, int count, int64_t link, double weight)
{
    uses[count] = (sg_link_use){(int32_t)link, weight};
    return count + 1;
}

int sg_links_ports(const sg_links *l, int rank, sg_link_use *uses)
{
    (void)l;
    const int count = add(uses, 0, (int64_t)rank * OWN + OUT, 1);
    return add(uses, count, (int64_t)rank * OWN + IN, 1);
}

/* All links between neighbours the short way round. */
static int pass_ring(const sg_links *l, int from, int to, sg_link_use *uses, int count)
{
    const int right = (to - from + l->all) % l->all;
    const int way = 2 * right <= l->all ? RIGHT : LEFT;
    const int hops = way == RIGHT ? right : l->all - right;
    if (l->ranks == 1) return add(uses, count, base_of(l) + way, hops); /* images send here, too */
    for (int i = 0; i < hops; i++) {
        const int rank = way == RIGHT ? (from + i) % l->all : (from - i + l->all) % l->all;
        count = add(uses, count, base_of(l) + (int64_t)(rank % l->ranks) * WAYS + way, 1);
    }
    return count;
}

/* A bridge carries what the images of a rank on its half send at the same moment, too. */
static double images(const sg_links *l)
{
    const int of_half = l->machine->numa_ranks;
    const int ranks = of_half > 0 && of_half < l->all ? of_half : l->all;
    return l->ranks < ranks ? (double)ranks / l->ranks : 1;
}

static int pass_bridges(const sg_links *l, int from, int to, sg_link_use *uses, int count)
{
    const double each = images(l);
    const int64_t here = base_of(l) + (int64_t)half_of(l, from) * HALF;
    const int64_t there = base_of(l) + (int64_t)half_of(l, to % l->ranks) * HALF;
    if (half_of(l, from) == half_of(l, to))
        return add(uses, count, here + HOST, l->machine->host_staged ? 2 * each : each);
    count = add(uses, count, here + HOST, each);
    count = add(uses, count, there + HOST, each);
    count = add(uses, count, here + NUMA_OUT, each);
    return add(uses, count, there + NUMA_IN, each);
}

static bool is_far(const sg_links *l, int from, int to)
{
    const int of_node = l->machine->node_ranks;
    return l->machine->topology == SG_NODES && from / of_node != to / of_node;
}

double sg_links_far_us(const sg_links *l, int from, int to)
{
    return l->machine->node_us > 0 && is_far(l, from, to) ? l->machine->node_us : 0;
}

int sg_links_path(const sg_links *l, int from, int to, sg_link_use *uses)
{
    const int there = to % l->ranks;
    if (is_far(l, from, to)) {
        const int count = add(uses, 0, base_of(l) + (int64_t)from * WAYS + OUT, 1);
        return add(uses, count, base_of(l) + (int64_t)there * WAYS + IN, 1);
    }
    int count = add(uses, 0, (int64_t)from * OWN + OUT, 1);
    count = add(uses, count, (int64_t)there * OWN + IN, 1);
    switch (l->machine->topology) {
    case SG_MESH:
        return add(uses, count, base_of(l) + (int64_t)from * l->all + (to - from + l->all) % l->all,
                   1);
    case SG_RING: return pass_ring(l, from, to, uses, count);
    case SG_PCIE: return pass_bridges(l, from, to, uses, count);
    case SG_SWITCH:
    case SG_NODES:
    case SG_TOPOLOGIES:
    default: return count;
    }
}
