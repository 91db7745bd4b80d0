/* sim.c -- see sim.h.
 *
 * Agents are the lanes of all ranks.  Each carries out its steps in order; a heap hands out the agent
 * that can act next, so that what ranks and lanes share (a rank's link out, its link in, its copy
 * engine) is used in the order of time.  An agent that waits is parked at the flag or step it waits
 * for and comes back with the time of that.
 *
 * A launch is a set of blocks, held as groups that become free at the same time:
 *
 *     blocks  0..99   |  tiles 0..99   |  tiles 132..231 |  ...
 *     blocks 100..131 | (wait) tiles 100..131 |  tiles 232..263 | ...
 *
 * The first group to become free stores what it has computed, then takes the next tiles of the list
 * that can start together.  Work is linear in steps, patches and waves, and in tiles only where tiles
 * have flags of their own. */
#include "core/sim.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 48, NONE = -1 };

/* Blocks of a launch that become free at the same time, and the tiles they are then done with. */
typedef struct group {
    double free_us;
    double visit_us;
    int32_t blocks;
    int32_t patch, tile0, tiles; /* tiles is 0 if nothing is to be stored */
    int32_t rounds;              /* tiles of one block, one behind the other */
} group;

typedef enum phase { AT_AFTER, AT_WAITS, AT_WORK, AT_END } phase;

/* One lane of one rank. */
typedef struct agent {
    double now;
    double begun_us;
    int32_t step;        /* at hand; the schedule's count of steps after the last */
    int32_t after;       /* dependences and flags of the step that are settled */
    int32_t parked_next; /* behind this one at the same flag or step */
    int16_t rank;
    uint8_t lane;
    uint8_t phase;
    /* Of the launch at hand. */
    int32_t patch, tile; /* next to be taken */
    int32_t groups;
    group *group;
} agent;

/* A flag, found by (at, by, index). */
typedef struct slot {
    uint64_t key; /* 0: free */
    double time;  /* of the last raise, as seen by who waits */
    int32_t left; /* raises that are missing; -1: nobody raised yet */
    int32_t parked;
} slot;

typedef struct step_state {
    double end_us; /* < 0: not ended */
    int32_t next;  /* step of the same lane */
    int32_t parked;
} step_state;

typedef struct rank_state {
    double out_us, in_us; /* links are taken up to then */
    double engine_us;
    double coll_us;   /* a collective holds coll_sms until then */
    double end_us;
    int32_t coll_sms;
    int32_t running;  /* launch at hand, NONE */
    int32_t running_blocks;
    int32_t step0;    /* of the rank in the table of steps */
} rank_state;

typedef struct coll_state {
    double time;
    int32_t arrived;
    int32_t parked;
} coll_state;

typedef struct sim {
    const sg_sched *sched;
    const sg_machine *machine;
    int ranks;
    sg_span_fn visitor;
    void *context;
    agent *agents;
    int32_t agent_count;
    int32_t *heap; /* agents by time */
    int32_t heaped;
    slot *slots;
    uint64_t slot_mask;
    step_state *steps;
    rank_state *rank;
    coll_state *colls;
    int32_t coll_count;
    group *groups;
    int32_t edge_m, edge_n; /* tiles cost multiples of this */
} sim;

static double us_of(double bytes, double gbps)
{
    return bytes / (gbps * 1e3);
}

/* ---- Heap of agents --------------------------------------------------------------------------------- */

static bool is_before(const sim *m, int32_t a, int32_t b)
{
    const double x = m->agents[a].now;
    const double y = m->agents[b].now;
    return x < y || (x <= y && a < b);
}

static void push(sim *m, int32_t id)
{
    int32_t i = m->heaped++;
    while (i > 0 && is_before(m, id, m->heap[(i - 1) / 2])) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = id;
}

static int32_t pop(sim *m)
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
static void wake(sim *m, int32_t *parked, double time)
{
    int32_t id = *parked;
    *parked = NONE;
    while (id != NONE) {
        agent *const a = &m->agents[id];
        const int32_t next = a->parked_next;
        if (a->now < time) a->now = time;
        push(m, id);
        id = next;
    }
}

static void park(sim *m, agent *a, int32_t *parked)
{
    a->parked_next = *parked;
    *parked = (int32_t)(a - m->agents);
}

/* ---- Flags ------------------------------------------------------------------------------------------ */

static slot *slot_of(sim *m, int at, int by, int32_t flag)
{
    const uint64_t key =
        (uint64_t)(at + 1) << 48 | (uint64_t)by << 32 | (uint64_t)(uint32_t)flag;
    uint64_t i = sg_mix(key) & m->slot_mask;
    while (m->slots[i].key != key && m->slots[i].key != 0) i = (i + 1) & m->slot_mask;
    slot *const s = &m->slots[i];
    if (s->key == 0) *s = (slot){.key = key, .left = -1, .parked = NONE};
    return s;
}

/* COUNT raisers of one flag of S are done, TIME is when the flag is seen. */
static void raise_flag(sim *m, const sg_sched *s, const sg_raise *r, int32_t i, int32_t count,
                       double time)
{
    slot *const f = slot_of(m, r->at, s->rank, r->flag0 + i);
    if (f->left < 0) f->left = r->counter < 0 ? 1 : s->counter[r->counter + i];
    if (f->time < time) f->time = time;
    f->left -= count;
    if (f->left == 0) wake(m, &f->parked, f->time);
}

/* Moves *TIME to when rank AT sees all flags of F by BY; returns one that is missing, or NULL. */
static slot *see(sim *m, int at, int by, struct sg_flags f, double *time)
{
    for (int32_t i = 0; i < f.count; i++) {
        slot *const s = slot_of(m, at, by, f.first + i * f.step);
        if (s->left != 0) return s;
        if (*time < s->time) *time = s->time;
    }
    return NULL;
}

/* ---- Links ------------------------------------------------------------------------------------------ */

/* Sends BYTES from one rank to another, not before TIME; when they are there.  Each end of a link
 * serves whatever comes first; what waits for its place at the receiver does not hold up the
 * sender's next bytes, as links share their rate and do not queue whole messages. */
static double send(sim *m, int from, int to, double time, double bytes, double gbps)
{
    rank_state *const a = &m->rank[from];
    rank_state *const b = &m->rank[to];
    const double us = us_of(bytes, gbps);
    const double out = (time < a->out_us ? a->out_us : time) + us;
    const double in = (out - us < b->in_us ? b->in_us : out - us) + us;
    a->out_us = out;
    b->in_us = in;
    return in;
}

static double area_bytes(const sg_sched *s, const sg_area *a)
{
    return (double)a->rows * a->cols * sg_sched_element_bytes(s, a->buf);
}

/* ---- Launches --------------------------------------------------------------------------------------- */

static double tile_rate(const sg_machine *machine, const sg_launch *l)
{
    for (int i = 0; i < machine->tiles; i++)
        if (machine->tile[i].m == l->tile_m && machine->tile[i].n == l->tile_n)
            return machine->tile[i].rate > 0 ? machine->tile[i].rate : 1;
    return 1;
}

/* Flops per microsecond of all blocks together. */
static double flops_us(const sim *m, const sg_sched *s)
{
    return m->machine->gemm_tflops[s->problem->type] * 1e6;
}

/* Bytes that a patch moves from and to memory if each is moved once. */
static double patch_bytes(const sg_sched *s, const sg_patch *p)
{
    const double depth = (double)(p->k1 - p->k0);
    double elements = ((double)p->rows + p->cols) * depth;
    elements += (double)p->rows * p->cols * (p->adds + 1);
    return elements * sg_type_bytes(s->problem->type);
}

/* A visit of a patch, on average: tiles at its edges cost less, in steps of the smallest tile. */
static double visit_us(const sim *m, const sg_sched *s, const sg_launch *l, const sg_patch *p,
                       int32_t blocks)
{
    const double tiles =
        (double)sg_walk_bands(p, l->tile_m) * (double)sg_walk_cols(p, l->tile_n);
    const double rows = (double)sg_round_up(p->rows, sg_min(m->edge_m, l->tile_m));
    const double cols = (double)sg_round_up(p->cols, sg_min(m->edge_n, l->tile_n));
    const double flops = 2 * rows * cols * (double)(p->k1 - p->k0);
    const double math =
        flops * m->machine->sms / (flops_us(m, s) * tile_rate(m->machine, l) * tiles);
    const double at_once = tiles < blocks ? tiles : blocks;
    const double memory = us_of(patch_bytes(s, p), m->machine->mem_gbps) * at_once / tiles;
    return math > memory ? math : memory;
}

/* The vendor's product has no waves: libraries split k and choose among many tiles.  Only a product
 * of few tiles and deep k shows. */
static double vendor_us(const sim *m, const sg_sched *s, const sg_launch *l, int32_t blocks)
{
    const sg_patch *const p = &s->patch[l->patch0];
    const double depth = (double)(p->k1 - p->k0);
    const double share = (double)blocks / m->machine->sms;
    double us = 2.0 * p->rows * p->cols * depth / (flops_us(m, s) * share);
    const double least =
        2.0 * m->edge_m * m->edge_n * depth / 8 * m->machine->sms / flops_us(m, s);
    const double memory = us_of(patch_bytes(s, p), m->machine->mem_gbps);
    if (us < least) us = least;
    return us > memory ? us : memory;
}

/* The group that is free first; only of those that have something to store if LOADED. */
static group *earliest(agent *a, bool loaded)
{
    group *best = NULL;
    for (int32_t i = 0; i < a->groups; i++) {
        group *const g = &a->group[i];
        if (loaded && g->tiles == 0) continue;
        if (best == NULL || g->free_us < best->free_us ||
            (g->free_us <= best->free_us && g->tiles > 0 && best->tiles == 0))
            best = g;
    }
    return best;
}

/* One group of those that are free at the same time. */
static group *merge_free(agent *a, group *into)
{
    for (int32_t i = a->groups; i-- > 0;) {
        group *const g = &a->group[i];
        if (g == into || g->tiles > 0 || g->free_us > into->free_us) continue;
        into->blocks += g->blocks;
        *g = a->group[--a->groups];
        if (into == &a->group[a->groups]) into = g;
    }
    return into;
}

static void tell(const sim *m, const agent *a, const group *g, double begin, double end)
{
    if (m->visitor == NULL) return;
    m->visitor(m->context, &(sg_span){.rank = a->rank,
                                      .lane = a->lane,
                                      .step = a->step,
                                      .patch = g ? g->patch : NONE,
                                      .tile0 = g ? g->tile0 : 0,
                                      .tiles = g ? g->tiles : 0,
                                      .begin_us = begin,
                                      .end_us = end});
}

/* Raises of the tiles that group G is done with; round I of them was stored at FIRST + I * STEP. */
static void raise_tiles(sim *m, const sg_sched *s, const sg_launch *l, const group *g,
                        const sg_raise *r, double first, double step)
{
    const sg_patch *const p = &s->patch[g->patch];
    const double last = first + (g->rounds - 1) * step;
    if (r->per == SG_PER_PATCH) {
        raise_flag(m, s, r, 0, g->tiles, last);
        return;
    }
    const int32_t bands = sg_walk_bands(p, l->tile_m);
    const int32_t cols = sg_walk_cols(p, l->tile_n);
    for (int32_t i = 0; i < g->tiles; i++) {
        int32_t band = 0;
        int32_t col = 0;
        sg_walk_tile(p, bands, cols, g->tile0 + i, &band, &col);
        raise_flag(m, s, r, r->per == SG_PER_BAND ? band : band * cols + col, 1,
                   first + (i / g->blocks) * step);
    }
}

/* Sends the tiles of group G to the peers that patch P stores to; when the last is there.  *STEP
 * becomes the time between rounds if the link is what limits them. */
static double send_tiles(sim *m, const agent *a, const sg_sched *s, const group *g,
                         const sg_patch *p, double tiles, double *step)
{
    const double end = g->free_us;
    const double begin = end - (g->rounds - 1) * g->visit_us;
    double there = 0;
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++) {
        const sg_area *const to = &s->to[i];
        if (to->rank == a->rank) continue;
        const double bytes = area_bytes(s, to) * g->tiles / tiles;
        const double each = us_of(bytes / g->rounds, m->machine->store_gbps);
        double arrived = send(m, a->rank, to->rank, begin, bytes, m->machine->store_gbps);
        /* The last round leaves when it is computed, however idle the link was. */
        if (arrived < end + each) m->rank[a->rank].out_us = arrived = end + each;
        if (there < arrived) there = arrived;
        if (*step < each) *step = each;
    }
    return there;
}

/* Stores and raises what group G has computed.  Its blocks go on at once, unless the link still
 * carries what they stored before: then their staging memory is not free. */
static void store_tiles(sim *m, agent *a, const sg_sched *s, const sg_launch *l, group *g)
{
    const sg_patch *const p = &s->patch[g->patch];
    const double tiles =
        (double)sg_walk_bands(p, l->tile_m) * (double)sg_walk_cols(p, l->tile_n);
    const double end = g->free_us;
    const double begin = end - (g->rounds - 1) * g->visit_us;
    const double busy = m->rank[a->rank].out_us;
    double step = g->visit_us;
    const double there = send_tiles(m, a, s, g, p, tiles, &step);
    double first = there - (g->rounds - 1) * step;
    if (first < begin) first = begin;
    for (int32_t i = p->raise0; i < p->raise0 + p->raises; i++) {
        if (there > 0 && s->raise[i].at != a->rank)
            raise_tiles(m, s, l, g, &s->raise[i], first + m->machine->store_us, step);
        else
            raise_tiles(m, s, l, g, &s->raise[i], begin + m->machine->flag_us, g->visit_us);
    }
    tell(m, a, g, begin - g->visit_us, end);
    if (m->rank[a->rank].end_us < there) m->rank[a->rank].end_us = there;
    if (there > 0 && busy > end) g->free_us = busy;
    g->tiles = 0;
}

/* Moves *START to when tile TILE of a patch can start so that it never stands still; returns a
 * flag that is missing for that, or NULL. */
static slot *tile_start(sim *m, const agent *a, const sg_sched *s, const sg_launch *l,
                        const sg_patch *p, int32_t tile, double visit, double *start)
{
    const int32_t bands = sg_walk_bands(p, l->tile_m);
    const int32_t cols = sg_walk_cols(p, l->tile_n);
    int32_t band = 0;
    int32_t col = 0;
    sg_walk_tile(p, bands, cols, tile, &band, &col);
    const int32_t row0 = p->row0 + band * l->tile_m;
    const int32_t rows = sg_walk_min(l->tile_m, p->rows - band * l->tile_m);
    const int32_t number = band * cols + col;
    const int32_t slabs = sg_walk_slabs(p);
    for (int32_t i = 0; i < slabs && p->waits > 0; i++) {
        double ready = 0;
        for (int32_t w = p->wait0; w < p->wait0 + p->waits; w++) {
            const sg_wait *const wait = &s->wait[w];
            if (i > 0 && wait->chunk_k == 0) continue;
            const struct sg_flags f =
                sg_walk_wait(wait, row0, rows, p->k0 + i * p->slab, number);
            slot *const missing = see(m, a->rank, wait->by, f, &ready);
            if (missing != NULL) return missing;
        }
        ready -= visit * i / slabs;
        if (*start < ready) *start = ready;
    }
    for (int32_t i = p->add0; i < p->add0 + p->adds; i++) {
        const sg_addend *const add = &s->add[i];
        if (!add->waits) continue;
        double ready = 0;
        const struct sg_flags f = sg_walk_wait(&add->wait, row0, rows, p->k0, number);
        slot *const missing = see(m, a->rank, add->wait.by, f, &ready);
        if (missing != NULL) return missing;
        ready -= visit; /* addends are needed when the product is done */
        if (*start < ready) *start = ready;
    }
    return NULL;
}

/* Does readiness of a patch's tiles differ from tile to tile? */
static bool waits_by_tile(const sg_sched *s, const sg_patch *p)
{
    for (int32_t i = p->wait0; i < p->wait0 + p->waits; i++)
        if (s->wait[i].per != SG_PER_PATCH) return true;
    for (int32_t i = p->add0; i < p->add0 + p->adds; i++)
        if (s->add[i].waits && s->add[i].wait.per != SG_PER_PATCH) return true;
    return false;
}

/* Gives the free group G the next tiles that can start together; returns a flag that is missing for
 * the first of them, or NULL. */
static slot *take_tiles(sim *m, agent *a, const sg_sched *s, const sg_launch *l, group *g)
{
    const sg_patch *const p = &s->patch[a->patch];
    const int32_t tiles = sg_walk_bands(p, l->tile_m) * sg_walk_cols(p, l->tile_n);
    const int32_t blocks = m->rank[a->rank].running_blocks;
    const double visit = visit_us(m, s, l, p, blocks);
    double start = g->free_us;
    slot *const missing = tile_start(m, a, s, l, p, a->tile, visit, &start);
    if (missing != NULL) return missing;

    int32_t taken = sg_walk_min(g->blocks, tiles - a->tile);
    int32_t rounds = 1;
    if (waits_by_tile(s, p)) {
        for (int32_t i = 1; i < taken; i++) {
            double other = g->free_us;
            if (tile_start(m, a, s, l, p, a->tile + i, visit, &other) != NULL ||
                other < start || other > start)
                taken = i;
        }
    } else if (taken == g->blocks) {
        /* Several waves at once while many are left. */
        rounds = (tiles - a->tile) / (8 * blocks);
        if (rounds < 1) rounds = 1;
    }
    if (taken < g->blocks && a->groups < GROUPS) {
        a->group[a->groups++] = (group){.free_us = g->free_us, .blocks = g->blocks - taken};
        g->blocks = taken;
    }
    g->patch = a->patch;
    g->tile0 = a->tile;
    g->tiles = taken * rounds;
    g->rounds = rounds;
    g->visit_us = visit;
    g->free_us = start + rounds * visit;
    a->tile += g->tiles;
    if (a->tile == tiles) {
        a->patch++;
        a->tile = 0;
    }
    return NULL;
}

/* Does one thing of a launch: stores what the earliest group has computed, or gives it new tiles.
 * False when all is done, at *END. */
static bool go_on(sim *m, agent *a, const sg_sched *s, const sg_launch *l, double *end)
{
    const bool more = a->patch < l->patch0 + l->patches;
    group *g = earliest(a, !more);
    if (g == NULL) {
        for (int32_t i = 0; i < a->groups; i++)
            if (*end < a->group[i].free_us) *end = a->group[i].free_us;
        return false;
    }
    if (g->tiles == 0) {
        slot *const missing = take_tiles(m, a, s, l, merge_free(a, g));
        g = earliest(a, missing != NULL);
        if (g == NULL) { /* nothing to store either */
            park(m, a, &missing->parked);
            return true;
        }
        /* While the first free blocks wait for a flag, the others still store what they have. */
        if (missing != NULL && g->free_us <= a->now) store_tiles(m, a, s, l, g);
    } else {
        store_tiles(m, a, s, l, g);
        g = earliest(a, false);
    }
    if (a->now < g->free_us) a->now = g->free_us;
    push(m, (int32_t)(a - m->agents));
    return true;
}

/* ---- Steps ------------------------------------------------------------------------------------------ */

static void next_step(sim *m, agent *a, double now)
{
    a->step = m->steps[m->rank[a->rank].step0 + a->step].next;
    a->now = now;
    a->after = 0;
    a->phase = AT_AFTER;
    if (a->step != NONE) push(m, (int32_t)(a - m->agents));
}

/* The step at hand ends at END: its raises, whoever waits for it, the lane's next step. */
static void end_step(sim *m, agent *a, double end)
{
    rank_state *const r = &m->rank[a->rank];
    const sg_sched *const s = &m->sched[a->rank];
    const sg_step *const step = &s->step[a->step];
    step_state *const state = &m->steps[r->step0 + a->step];
    if (step->kind != SG_GEMM) {
        for (int32_t i = step->raise0; i < step->raise0 + step->raises; i++)
            raise_flag(m, s, &s->raise[i], 0, 1, end + m->machine->flag_us);
    } else if (r->running == a->step) {
        r->running = NONE;
    }
    if (step->kind != SG_GEMM || step->u.launch.vendor) tell(m, a, NULL, a->begun_us, end);
    state->end_us = end;
    if (r->end_us < end) r->end_us = end;
    wake(m, &state->parked, end);
    next_step(m, a, end);
}

/* Starts a launch, or parks behind one that holds the blocks it needs. */
static void start_launch(sim *m, agent *a, const sg_sched *s, const sg_launch *l)
{
    rank_state *const r = &m->rank[a->rank];
    const int32_t sms = m->machine->sms;
    int32_t blocks = l->blocks > 0 && l->blocks < sms ? l->blocks : sms;
    if (r->running != NONE) {
        if (r->running_blocks + blocks > sms) {
            park(m, a, &m->steps[r->step0 + r->running].parked);
            return;
        }
    }
    if (r->coll_us > a->now && blocks > sms - r->coll_sms) blocks = sms - r->coll_sms;
    if (blocks < 1) blocks = 1;
    r->running = a->step;
    r->running_blocks = blocks;
    a->phase = AT_END;
    a->now += m->machine->launch_us;
    a->begun_us = a->now;
    a->patch = l->patch0;
    a->tile = 0;
    if (l->vendor) {
        const double us = vendor_us(m, s, l, blocks) + m->machine->epilogue_us;
        a->now += us;
    } else {
        a->group = &m->groups[(size_t)(a - m->agents) * GROUPS];
        a->group[0] = (group){.free_us = a->now, .blocks = blocks};
        a->groups = 1;
    }
    push(m, (int32_t)(a - m->agents));
}

static void run_launch(sim *m, agent *a, const sg_sched *s, const sg_launch *l)
{
    if (l->vendor) {
        end_step(m, a, a->now);
        return;
    }
    double end = a->now;
    if (!go_on(m, a, s, l, &end)) end_step(m, a, end + m->machine->epilogue_us);
}

static void run_copy(sim *m, agent *a, const sg_sched *s, const sg_step *step)
{
    const sg_machine *const machine = m->machine;
    const bool engine = step->u.copy.engine == SG_BY_ENGINE;
    rank_state *const r = &m->rank[a->rank];
    double end = a->now;
    if (engine && end < r->engine_us) end = r->engine_us;
    a->begun_us = end;
    if (!engine) end += machine->launch_us;
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++) {
        const sg_area *const to = &s->to[i];
        const double bytes = area_bytes(s, to);
        if (engine) end += machine->copy_us;
        if (to->rank == a->rank)
            end += us_of(2 * bytes, machine->mem_gbps);
        else
            end = send(m, a->rank, to->rank, end, bytes,
                       engine ? machine->copy_gbps : machine->store_gbps);
    }
    if (engine) r->engine_us = end;
    end_step(m, a, end);
}

static void run_reduce(sim *m, agent *a, const sg_sched *s, const sg_step *step)
{
    const sg_machine *const machine = m->machine;
    const sg_reduce *const reduce = &step->u.reduce;
    double bytes = 0;
    for (int32_t i = reduce->add0; i < reduce->add0 + reduce->adds; i++)
        bytes += area_bytes(s, &s->add[i].area);
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++)
        if (s->to[i].rank == a->rank) bytes += area_bytes(s, &s->to[i]);
    const double begin = a->now + machine->launch_us;
    double end = begin + us_of(bytes, machine->mem_gbps);
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++) {
        const sg_area *const to = &s->to[i];
        if (to->rank == a->rank) continue;
        const double there =
            send(m, a->rank, to->rank, begin, area_bytes(s, to), machine->store_gbps);
        if (end < there + machine->store_us) end = there + machine->store_us;
    }
    a->begun_us = begin;
    end_step(m, a, end);
}

/* Bytes a rank moves in a collective, counted as bus bandwidth is: what the busiest rank receives
 * (gather) or sends (scatter), twice the even share of both for all-reduce. */
static double coll_bytes(const sim *m, const sg_sched *s, const sg_step *step)
{
    const sg_coll *const c = &step->u.coll;
    if (c->kind == SG_ALL_REDUCE)
        return 2 * area_bytes(s, &c->self) * (m->ranks - 1) / m->ranks;
    double all = 0;
    double least = DBL_MAX;
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++) {
        const double bytes = area_bytes(s, &s->to[i]);
        all += bytes;
        if (bytes < least) least = bytes;
    }
    return step->tos > 0 ? all - least : 0;
}

/* The last rank to come starts a collective for all. */
static void run_coll(sim *m, agent *a, const sg_sched *s, const sg_step *step)
{
    const sg_coll *const c = &step->u.coll;
    rank_state *const r = &m->rank[a->rank];
    if (a->phase == AT_END) {
        end_step(m, a, a->now);
        return;
    }
    if (r->running != NONE && r->running_blocks + c->sms > m->machine->sms) {
        park(m, a, &m->steps[r->step0 + r->running].parked);
        return;
    }
    coll_state *const state = &m->colls[c->seq];
    if (state->arrived == 0) state->parked = NONE;
    if (state->time < a->now) state->time = a->now;
    a->phase = AT_END;
    park(m, a, &state->parked);
    if (++state->arrived < m->ranks) return;
    const double end = state->time + m->machine->coll_us +
                       us_of(coll_bytes(m, s, step), m->machine->coll_gbps);
    for (int32_t id = state->parked; id != NONE; id = m->agents[id].parked_next) {
        rank_state *const each = &m->rank[m->agents[id].rank];
        m->agents[id].begun_us = state->time;
        each->coll_us = end;
        each->coll_sms = c->sms;
        if (each->out_us < end) each->out_us = end;
        if (each->in_us < end) each->in_us = end;
    }
    wake(m, &state->parked, end);
}

/* Steps of other lanes that must have ended, then flags; true once all is settled and it is time. */
static bool is_settled(sim *m, agent *a, const sg_sched *s, const sg_step *step)
{
    double ready = a->now;
    for (; a->phase == AT_AFTER && a->after < 2; a->after++) {
        const int32_t other = step->after[a->after];
        if (other < 0) continue;
        step_state *const state = &m->steps[m->rank[a->rank].step0 + other];
        if (state->end_us < 0) {
            park(m, a, &state->parked);
            return false;
        }
        const double seen = state->end_us + m->machine->flag_us;
        if (ready < seen) ready = seen;
    }
    if (a->phase == AT_AFTER) {
        a->phase = AT_WAITS;
        a->after = 0;
    }
    const bool reduces = step->kind == SG_REDUCE;
    const int32_t waits = step->kind == SG_GEMM ? 0 : step->waits;
    for (; a->after < waits; a->after++) {
        const sg_wait *const w = &s->wait[step->wait0 + a->after];
        slot *const missing =
            see(m, a->rank, w->by, sg_walk_wait(w, 0, 0, 0, 0), &ready);
        if (missing != NULL) {
            a->now = ready;
            park(m, a, &missing->parked);
            return false;
        }
    }
    for (; reduces && a->after < waits + step->u.reduce.adds; a->after++) {
        const sg_addend *const add = &s->add[step->u.reduce.add0 + a->after - waits];
        if (!add->waits) continue;
        slot *const missing = see(m, a->rank, add->wait.by,
                                  sg_walk_wait(&add->wait, 0, 0, 0, 0), &ready);
        if (missing != NULL) {
            a->now = ready;
            park(m, a, &missing->parked);
            return false;
        }
    }
    a->phase = AT_WORK;
    if (ready <= a->now) return true;
    a->now = ready;
    push(m, (int32_t)(a - m->agents));
    return false;
}

static void run_agent(sim *m, agent *a)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_step *const step = &s->step[a->step];
    if (a->phase < AT_WORK && !is_settled(m, a, s, step)) return;
    switch ((sg_kind)step->kind) {
    case SG_GEMM:
        if (a->phase == AT_WORK)
            start_launch(m, a, s, &step->u.launch);
        else
            run_launch(m, a, s, &step->u.launch);
        break;
    case SG_COPY: run_copy(m, a, s, step); break;
    case SG_REDUCE: run_reduce(m, a, s, step); break;
    case SG_COLL: run_coll(m, a, s, step); break;
    case SG_FLAG:
    default:
        a->begun_us = a->now;
        end_step(m, a, a->now);
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
static void start_lanes(sim *m, int r)
{
    const sg_sched *const s = &m->sched[r];
    int32_t first[SG_MAX_LANES];
    int32_t last[SG_MAX_LANES];
    for (int i = 0; i < SG_MAX_LANES; i++) first[i] = last[i] = NONE;
    step_state *const steps = m->steps + m->rank[r].step0;
    for (int32_t i = 0; i < s->steps; i++) {
        const int lane = s->step[i].lane;
        steps[i] = (step_state){.end_us = -1, .next = NONE, .parked = NONE};
        if (last[lane] == NONE)
            first[lane] = i;
        else
            steps[last[lane]].next = i;
        last[lane] = i;
    }
    for (int lane = 0; lane < SG_MAX_LANES; lane++) {
        if (first[lane] == NONE) continue;
        m->agents[m->agent_count] =
            (agent){.step = first[lane], .rank = (int16_t)r, .lane = (uint8_t)lane};
        push(m, m->agent_count++);
    }
}

static void *get(sg_arena *arena, int64_t count, size_t size)
{
    return sg_arena_get(arena, (size_t)sg_max(count, 1) * size);
}

static shingle_status set_up(sim *m, sg_arena *arena)
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
        m->rank[r].running = NONE;
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
    m->groups = get(arena, agents * GROUPS, sizeof *m->groups);
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
static double end_of_run(const sim *m)
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

static shingle_status simulate(sim *m, double *us_out)
{
    while (m->heaped > 0) run_agent(m, &m->agents[pop(m)]);
    for (int32_t i = 0; i < m->agent_count; i++)
        if (m->agents[i].step != NONE)
            return sg_fail(SHINGLE_EBUG, "simulated: lane %d of rank %d waits for ever at step %d",
                           m->agents[i].lane, m->agents[i].rank, m->agents[i].step);
    *us_out = end_of_run(m);
    return SHINGLE_OK;
}

shingle_status sg_sim_spans(const sg_sched *sched, int ranks, const sg_machine *machine,
                            sg_span_fn visitor, void *context, double *us_out)
{
    sg_arena arena = {0};
    sim m = {.sched = sched,
             .machine = machine,
             .ranks = ranks,
             .visitor = visitor,
             .context = context};
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
