/* sim_launch.c -- products on a rank's own SMs, see sim_state.h.
 *
 * A launch is a set of blocks, held as groups that act together:
 *
 *     blocks  0..99   |  tiles 0..99   |  tiles 132..231 |  ...
 *     blocks 100..131 | (wait) tiles 100..131 |  tiles 232..263 | ...
 *
 * A group that is free takes the next tiles of the list that can start together; when its first
 * round of them is computed they are stored.  Work is linear in steps, patches and waves, and in
 * tiles only where tiles have flags of their own. */
#include "core/blocks.h"
#include "core/sim_state.h"

/* ---- Groups of blocks ------------------------------------------------------------------------ */

/* One group of all that are free at about this time: moments apart cost little and make many small
 * groups.  NULL: none is. */
static sg_sim_group *free_group(sg_sim *m, sg_sim_agent *a)
{
    sg_sim_group *into = NULL;
    for (int32_t i = 0; i < a->groups; i++) {
        sg_sim_group *const g = &a->group[i];
        if (g->tiles == 0 && g->free_us <= m->now && (into == NULL || g->free_us < into->free_us))
            into = g;
    }
    const double until = into != NULL ? into->free_us + a->moment : 0;
    for (int32_t i = a->groups; into != NULL && i-- > 0;) {
        sg_sim_group *const g = &a->group[i];
        if (g == into || g->tiles > 0 || g->free_us > until) continue;
        into->blocks += g->blocks;
        if (into->free_us < g->free_us) into->free_us = g->free_us;
        if (into->idle_us < g->idle_us) into->idle_us = g->idle_us;
        *g = a->group[--a->groups];
        if (into == &a->group[a->groups]) into = g;
    }
    return into;
}

static void tell_group(const sg_sim *m, const sg_sim_agent *a, const sg_sim_group *g, bool works,
                       double begin, double end)
{
    if (m->visit == NULL || end <= begin) return;
    sg_sim_tell(m, &(sg_span){.kind = works ? SG_SPAN_WORK : SG_SPAN_WAIT,
                              .rank = a->rank,
                              .lane = a->lane,
                              .peer = SG_NONE,
                              .step = a->step,
                              .patch = g->patch,
                              .tile0 = g->tile0,
                              .tiles = works ? g->tiles : 0,
                              .blocks = g->blocks,
                              .begin_us = begin,
                              .end_us = end});
}

/* How many of the tiles behind the first can start with it, which can at *START. */
static int32_t start_together(sg_sim *m, sg_sim_agent *a, const sg_launch *l, const sg_patch *p,
                              int32_t most, double visit, double free_us, double *start)
{
    int32_t taken = 1;
    for (; taken < most; taken++) {
        double other = free_us;
        if (sg_sim_tile_start(m, a, l, p, a->tile + taken, visit, &other) != NULL) break;
        if (other < *start - a->moment || other > *start + a->moment) break;
        if (*start < other) *start = other;
    }
    return taken;
}

/* Gives the free group G the next tiles that can start together; returns a flag that is missing for
 * the first of them, or NULL. */
static sg_sim_slot *take_tiles(sg_sim *m, sg_sim_agent *a, const sg_launch *l, sg_sim_group *g)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_patch *const p = &s->patch[a->patch];
    const int32_t tiles = sg_walk_visits(p, l->tile_m, l->tile_n);
    sg_sim_find_step(m, s, l, a);
    const double alone = sg_sim_visit_us(m, s, l, a) * sg_sim_beside_idle(m->machine, a);
    const double visit = sg_sim_beside_pushes(m, a->rank, alone * sg_sim_contention(m, a->rank));
    /* A tile whose last flag has just come may have begun long ago: it needs some only at the
     * end. */
    const double begun = g->free_us;
    double start = begun;
    a->moment = visit / 128;
    a->behind = sg_sim_behind_us(m->machine, s, l, a, p);
    if (a->ready_patch != a->patch) sg_sim_forget_bands(m, a, l, p);
    sg_sim_slot *const missing = sg_sim_tile_start(m, a, l, p, a->tile, visit, &start);
    if (missing != NULL) return missing;

    int32_t taken = sg_walk_min(g->blocks, tiles - a->tile);
    int32_t rounds = 1;
    if (sg_sim_waits_by_tile(s, p)) {
        taken = start_together(m, a, l, p, taken, visit, g->free_us, &start);
    } else if (taken == g->blocks) {
        /* Several waves at once while many are left. */
        rounds = (tiles - a->tile) / (8 * (a->got > 0 ? a->got : 1));
        if (rounds < 1) rounds = 1;
    }
    if (taken < g->blocks && a->groups < SG_SIM_GROUPS) {
        a->group[a->groups++] = (sg_sim_group){
            .free_us = g->free_us, .idle_us = g->idle_us, .blocks = g->blocks - taken};
        g->blocks = taken;
    }
    g->patch = a->patch;
    g->tile0 = a->tile;
    g->tiles = taken * rounds;
    g->rounds = rounds;
    g->visit_us = visit;
    g->store_us = g->due_us = start + visit > m->now ? start + visit : m->now;
    g->free_us = g->store_us + (rounds - 1) * visit;
    if (start > g->idle_us + a->moment) tell_group(m, a, g, false, g->idle_us, start);
    tell_group(m, a, g, true, start, g->free_us);
    if (rounds == 1 && sg_sim_waits_pingpong(m->machine, s, l, p, visit))
        g->free_us = begun + visit;
    a->tile += g->tiles;
    a->left_tiles -= g->tiles;
    if (a->tile == tiles) {
        a->patch += 1 + p->more;
        a->tile = 0;
    }
    return NULL;
}

/* Stores what the group has computed, unless the link still carries too much of what was stored
 * before, or what the launch has to carry first: then its staging memory is not free. */
static void store_group(sg_sim *m, sg_sim_agent *a, const sg_launch *l, sg_sim_group *g)
{
    const sg_sim_rank *const r = &m->rank[a->rank];
    const sg_sched *const s = &m->sched[a->rank];
    const sg_patch *const p = &s->patch[g->patch];
    if (a->in_flight > a->most_bytes || (r->pushes > 0 && r->couriers == 0)) {
        g->stalled = true;
        return;
    }
    const double waited = m->now - g->due_us;
    if (waited > 0) g->free_us += waited;
    if (a->products < 0)
        a->products = sg_sim_products(s, l); /* once: a launch may have many patches */
    g->free_us += g->rounds * sg_sim_own_stores_us(m, s, l, p, fmin(a->got, a->products));
    sg_sim_store_tiles(m, a, l, g->patch, g->tile0, g->tiles, g->rounds, g->blocks, g->visit_us);
    g->tiles = 0;
    g->idle_us = g->free_us;
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void begin_products(sg_sim *m, const sg_sim_agent *a)
{
    if (m->rank[a->rank].products++ == 0) sg_sim_contend(m, a->rank);
}

static void end_products(sg_sim *m, sg_sim_agent *a)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_launch *const l = &s->step[a->step].u.launch;
    const sg_patch *const p = &s->patch[l->patch0];
    if (--m->rank[a->rank].products == 0) sg_sim_contend(m, a->rank);
    sg_sim_end_step(m, a,
                    m->now + (l->vendor && l->patches > 0
                                  ? sg_sim_vendor_epilogue_us(m->machine, p->rows, p->cols)
                                  : sg_sim_epilogue_us(m, s, l)));
}

/* A wave's worth of tiles may be on its way to peers while the next one is computed. */
static double most_in_flight(const sg_sched *s, const sg_launch *l, int32_t blocks)
{
    double most = 0;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        double bytes = 0;
        for (int32_t j = p->to0; j < p->to0 + p->tos; j++)
            if (s->to[j].rank != s->rank) bytes += sg_sched_element_bytes(s, s->to[j].buf);
        bytes *= (double)sg_walk_min(l->tile_m, p->rows) * sg_walk_min(l->tile_n, p->cols);
        if (most < bytes) most = bytes;
    }
    return most * blocks * 1.001;
}

static void run_vendor(sg_sim *m, sg_sim_agent *a, const sg_launch *l)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_patch *const p = &s->patch[l->patch0];
    const double share = (double)a->got / m->machine->sms;
    const double bytes = sg_sim_row_bytes(s, p) + sg_sim_b_bytes(s, p);
    const sg_sim_vendors of = {p->rows, p->cols, p->k1 - p->k0, share, bytes, p->final};
    const double us = sg_sim_vendor_us(m->machine, s->problem, &of, m->now) +
                      sg_sim_copied_us(m->machine, s->problem, p->rows, p->cols, p->k1 - p->k0);
    /* What it adds to is read behind the product. */
    const double late = sg_sim_us_of(sg_sim_late_bytes(s, p), m->machine->mem_gbps);
    a->phase = SG_AT_LAST;
    m->rank[a->rank].product_flow = sg_sim_send(m, SG_FLOW_PRODUCT, (int32_t)(a - m->agents),
                                                a->rank, a->rank, us + late, 1, 0);
}

void sg_sim_end_vendor(sg_sim *m, sg_sim_agent *a)
{
    m->rank[a->rank].product_flow = SG_NONE;
    end_products(m, a);
}

void sg_sim_start_launch(sg_sim *m, sg_sim_agent *a)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_launch *const l = &s->step[a->step].u.launch;
    const int32_t sms = m->machine->sms;
    const int32_t most = l->blocks > 0 && l->blocks < sms ? l->blocks : sms;
    const int32_t room = most - m->rank[a->rank].couriers;
    const bool deals = m->machine->idle_part > 0 && !l->vendor && l->visits > room &&
                       sg_blocks_alike(&s->patch[l->patch0], l->patches);
    const int32_t blocks = deals ? sg_blocks_even(l->visits, room) : room;
    a->room = room;
    a->spared = room - blocks;
    if (!sg_sim_take_sms(m, a, 1, blocks, !l->vendor)) return;
    a->begun_us = a->now;
    a->patch = l->patch0;
    a->tile = 0;
    a->left_tiles = l->visits;
    a->products = -1;
    a->stretch.end = a->step_end = l->patch0;
    a->step_begin = a->step_tiles = 0;
    a->ready_patch = SG_NONE;
    a->phase = SG_AT_MOVE;
    a->pending = 0;
    a->in_flight = 0;
    a->most_bytes = most_in_flight(s, l, blocks);
    a->moment = 0;
    a->group = &m->groups[(size_t)(a - m->agents) * SG_SIM_GROUPS];
    a->group[0] = (sg_sim_group){.free_us = a->now + m->machine->launch_us,
                                 .idle_us = a->now + m->machine->launch_us,
                                 .blocks = a->got};
    a->groups = 1;
    begin_products(m, a);
    sg_sim_agent_at(m, a, a->now + m->machine->launch_us);
}

void sg_sim_grow_launch(sg_sim *m, sg_sim_agent *a, int32_t blocks)
{
    if (a->groups < SG_SIM_GROUPS)
        a->group[a->groups++] =
            (sg_sim_group){.free_us = m->now, .idle_us = m->now, .blocks = blocks};
    else
        a->group[0].blocks += blocks;
    sg_sim_agent_at(m, a, m->now);
}

/* Blocks that find no more tiles are given back. */
static void give_back(sg_sim *m, sg_sim_agent *a)
{
    int32_t blocks = 0;
    for (int32_t i = a->groups; i-- > 0;) {
        if (a->group[i].tiles > 0 || a->group[i].free_us > m->now) continue;
        blocks += a->group[i].blocks;
        a->group[i] = a->group[--a->groups];
    }
    /* It would grow again by what it gives back. */
    a->want = a->least = a->got;
    if (blocks > 0) sg_sim_give_sms(m, a, blocks);
}

/* When the launch does something next. */
static double next_moment(const sg_sim_agent *a, bool takes)
{
    double next = INFINITY;
    for (int32_t i = 0; i < a->groups; i++) {
        const sg_sim_group *const g = &a->group[i];
        if (g->stalled || (g->tiles == 0 && !takes)) continue;
        const double us = g->tiles > 0 ? g->store_us : g->free_us;
        if (next > us) next = us;
    }
    return next;
}

void sg_sim_run_launch(sg_sim *m, sg_sim_agent *a)
{
    const sg_launch *const l = &m->sched[a->rank].step[a->step].u.launch;
    if (l->vendor && l->patches > 0) { /* a rank's product may have no rows */
        run_vendor(m, a, l);
        return;
    }
    for (int32_t i = 0; i < a->groups; i++) {
        sg_sim_group *const g = &a->group[i];
        if (g->tiles > 0 && !g->stalled && g->store_us <= m->now) store_group(m, a, l, g);
    }
    const int32_t end = l->patch0 + l->patches;
    sg_sim_slot *missing = NULL;
    while (a->patch < end && missing == NULL) {
        sg_sim_group *const g = free_group(m, a);
        if (g == NULL) break;
        missing = take_tiles(m, a, l, g);
    }
    if (missing != NULL) sg_sim_park(m, a, &missing->parked);
    if (a->patch == end) give_back(m, a);
    if (a->groups == 0) {
        if (a->pending == 0) end_products(m, a);
        return;
    }
    const double next = next_moment(a, missing == NULL);
    if (next < INFINITY) sg_sim_agent_at(m, a, next);
}
