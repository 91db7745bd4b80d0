/* sim_launch.c -- launches of the simulator, see sim_state.h.
 *
 * A launch is a set of blocks, held as groups that become free at the same time:
 *
 *     blocks  0..99   |  tiles 0..99   |  tiles 132..231 |  ...
 *     blocks 100..131 | (wait) tiles 100..131 |  tiles 232..263 | ...
 *
 * The first group to become free stores what it has computed, then takes the next tiles of the list
 * that can start together.  Work is linear in steps, patches and waves, and in tiles only where tiles
 * have flags of their own. */
#include "core/sim_state.h"

static double tile_rate(const sg_machine *machine, const sg_launch *l)
{
    for (int i = 0; i < machine->tiles; i++)
        if (machine->tile[i].m == l->tile_m && machine->tile[i].n == l->tile_n)
            return machine->tile[i].rate > 0 ? machine->tile[i].rate : 1;
    return 1;
}

/* Flops per microsecond of all blocks together. */
static double flops_us(const sg_sim *m, const sg_sched *s)
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
static double visit_us(const sg_sim *m, const sg_sched *s, const sg_launch *l, const sg_patch *p,
                       int32_t blocks)
{
    const double tiles = (double)sg_walk_bands(p, l->tile_m) * (double)sg_walk_cols(p, l->tile_n);
    const double rows = (double)sg_round_up(p->rows, sg_min(m->edge_m, l->tile_m));
    const double cols = (double)sg_round_up(p->cols, sg_min(m->edge_n, l->tile_n));
    const double flops = 2 * rows * cols * (double)(p->k1 - p->k0);
    const double math =
        flops * m->machine->sms / (flops_us(m, s) * tile_rate(m->machine, l) * tiles);
    const double at_once = tiles < blocks ? tiles : blocks;
    const double memory =
        sg_sim_transfer_us(patch_bytes(s, p), m->machine->mem_gbps) * at_once / tiles;
    return math > memory ? math : memory;
}

/* The vendor's product has no waves: libraries split k and choose among many tiles.  Only a product
 * of few tiles and deep k shows. */
static double vendor_us(const sg_sim *m, const sg_sched *s, const sg_launch *l, int32_t blocks)
{
    const sg_patch *const p = &s->patch[l->patch0];
    const double depth = (double)(p->k1 - p->k0);
    const double share = (double)blocks / m->machine->sms;
    double us = 2.0 * p->rows * p->cols * depth / (flops_us(m, s) * share);
    const double least = 2.0 * m->edge_m * m->edge_n * depth / 8 * m->machine->sms / flops_us(m, s);
    const double memory = sg_sim_transfer_us(patch_bytes(s, p), m->machine->mem_gbps);
    if (us < least) us = least;
    return us > memory ? us : memory;
}

/* The group that is free first; only of those that have something to store if LOADED. */
static sg_sim_group *earliest(sg_sim_agent *a, bool loaded)
{
    sg_sim_group *best = NULL;
    for (int32_t i = 0; i < a->groups; i++) {
        sg_sim_group *const g = &a->group[i];
        if (loaded && g->tiles == 0) continue;
        if (best == NULL || g->free_us < best->free_us ||
            (g->free_us <= best->free_us && g->tiles > 0 && best->tiles == 0))
            best = g;
    }
    return best;
}

/* One group of those that are free at about the same time: moments apart cost little and make many
 * small groups. */
static sg_sim_group *merge_free(sg_sim_agent *a, sg_sim_group *into)
{
    const double until = into->free_us + a->moment;
    for (int32_t i = a->groups; i-- > 0;) {
        sg_sim_group *const g = &a->group[i];
        if (g == into || g->tiles > 0 || g->free_us > until) continue;
        into->blocks += g->blocks;
        if (into->free_us < g->free_us) into->free_us = g->free_us;
        *g = a->group[--a->groups];
        if (into == &a->group[a->groups]) into = g;
    }
    return into;
}

/* A group that has something to store within a moment of IDLE, or IDLE itself. */
static sg_sim_group *prefer_loaded(sg_sim_agent *a, sg_sim_group *idle)
{
    for (int32_t i = 0; i < a->groups; i++)
        if (a->group[i].tiles > 0 && a->group[i].free_us <= idle->free_us + a->moment)
            return &a->group[i];
    return idle;
}

/* Raises of the tiles that group G is done with; round I of them was stored at FIRST + I * STEP. */
static void raise_tiles(sg_sim *m, const sg_sched *s, const sg_launch *l, const sg_sim_group *g,
                        const sg_raise *r, double first, double step)
{
    const sg_patch *const p = &s->patch[g->patch];
    const double last = first + (g->rounds - 1) * step;
    if (r->per == SG_PER_PATCH) {
        sg_sim_raise(m, s, r, 0, g->tiles, last);
        return;
    }
    const int32_t bands = sg_walk_bands(p, l->tile_m);
    const int32_t cols = sg_walk_cols(p, l->tile_n);
    for (int32_t i = 0; i < g->tiles; i++) {
        int32_t band = 0;
        int32_t col = 0;
        sg_walk_tile(p, bands, cols, g->tile0 + i, &band, &col);
        sg_sim_raise(m, s, r, r->per == SG_PER_BAND ? band : band * cols + col, 1,
                     first + (i / g->blocks) * step);
    }
}

/* Sends the tiles of group G to the peers that patch P stores to; when the last is there.  *STEP
 * becomes the time between rounds if the link is what limits them. */
static double send_tiles(sg_sim *m, const sg_sim_agent *a, const sg_sched *s, const sg_sim_group *g,
                         const sg_patch *p, double tiles, double *step)
{
    const double end = g->free_us;
    const double begin = end - (g->rounds - 1) * g->visit_us;
    double there = 0;
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++) {
        const sg_area *const to = &s->to[i];
        if (to->rank == a->rank) continue;
        const double bytes = sg_sim_area_bytes(s, to) * g->tiles / tiles;
        const double each = sg_sim_transfer_us(bytes / g->rounds, m->machine->store_gbps);
        double arrived = sg_sim_send(m, a->rank, to->rank, begin, bytes, m->machine->store_gbps);
        /* The last round leaves when it is computed, however idle the link was. */
        if (arrived < end + each) m->rank[a->rank].out_us = arrived = end + each;
        if (there < arrived) there = arrived;
        if (*step < each) *step = each;
    }
    return there;
}

/* Stores and raises what group G has computed.  Its blocks go on at once, unless the link still
 * carries what they stored before: then their staging memory is not free. */
static void store_tiles(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_launch *l,
                        sg_sim_group *g)
{
    const sg_patch *const p = &s->patch[g->patch];
    const double tiles = (double)sg_walk_bands(p, l->tile_m) * (double)sg_walk_cols(p, l->tile_n);
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
    sg_sim_tell(m, a, g, begin - g->visit_us, end);
    if (m->rank[a->rank].end_us < there) m->rank[a->rank].end_us = there;
    if (there > 0 && busy > end) g->free_us = busy;
    g->tiles = 0;
}

/* Moves *READY to when a band (and tile NUMBER of it) can start so that it never stands still at a
 * slab; returns a flag that is missing for that, or NULL. */
static sg_sim_slot *see_waits(sg_sim *m, const sg_sim_agent *a, const sg_sched *s,
                              const sg_patch *p, int32_t row0, int32_t rows, int32_t number,
                              double visit, double *ready)
{
    const int32_t slabs = sg_walk_slabs(p);
    for (int32_t i = 0; i < slabs && p->waits > 0; i++) {
        double seen = 0;
        for (int32_t w = p->wait0; w < p->wait0 + p->waits; w++) {
            const sg_wait *const wait = &s->wait[w];
            if (i > 0 && wait->chunk_k == 0) continue;
            const struct sg_flags f = sg_walk_wait(wait, row0, rows, p->k0 + i * p->slab, number);
            sg_sim_slot *const missing = sg_sim_see(m, a->rank, wait->by, f, &seen);
            if (missing != NULL) return missing;
        }
        seen -= visit * i / slabs;
        if (*ready < seen) *ready = seen;
    }
    return NULL;
}

/* The same for the addends of a tile, which are needed when the product is done. */
static sg_sim_slot *see_addends(sg_sim *m, const sg_sim_agent *a, const sg_sched *s,
                                const sg_patch *p, int32_t row0, int32_t rows, int32_t number,
                                double visit, double *ready)
{
    double seen = 0;
    for (int32_t i = p->add0; i < p->add0 + p->adds; i++) {
        const sg_addend *const add = &s->add[i];
        if (!add->waits) continue;
        const struct sg_flags f = sg_walk_wait(&add->wait, row0, rows, p->k0, number);
        sg_sim_slot *const missing = sg_sim_see(m, a->rank, add->wait.by, f, &seen);
        if (missing != NULL) return missing;
    }
    if (*ready < seen - visit) *ready = seen - visit;
    return NULL;
}

static bool waits_per_tile(const sg_sched *s, const sg_patch *p)
{
    for (int32_t i = p->wait0; i < p->wait0 + p->waits; i++)
        if (s->wait[i].per == SG_PER_TILE) return true;
    return false;
}

/* Moves *START to when tile TILE of a patch can start; returns a flag that is missing, or NULL.
 * What all tiles of a band wait for is found once. */
static sg_sim_slot *tile_start(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_launch *l,
                               const sg_patch *p, int32_t tile, double visit, double *start)
{
    if (p->waits == 0 && p->adds == 0) return NULL;
    const int32_t bands = sg_walk_bands(p, l->tile_m);
    const int32_t cols = sg_walk_cols(p, l->tile_n);
    int32_t band = 0;
    int32_t col = 0;
    sg_walk_tile(p, bands, cols, tile, &band, &col);
    const int32_t row0 = p->row0 + band * l->tile_m;
    const int32_t rows = sg_walk_min(l->tile_m, p->rows - band * l->tile_m);
    const int32_t number = band * cols + col;
    const bool by_band = a->ready != NULL;
    double ready = by_band ? a->ready[band] : -1;
    if (ready < 0) {
        ready = 0;
        sg_sim_slot *const missing = see_waits(m, a, s, p, row0, rows, number, visit, &ready);
        if (missing != NULL) return missing;
        if (by_band) a->ready[band] = ready;
    }
    if (*start < ready) *start = ready;
    return see_addends(m, a, s, p, row0, rows, number, visit, start);
}

/* Forgets when bands are ready, at the start of a patch.  Without memory nothing is remembered. */
static void forget_bands(sg_sim_agent *a, const sg_sched *s, const sg_launch *l, const sg_patch *p,
                         sg_arena *arena)
{
    const int32_t bands = sg_walk_bands(p, l->tile_m);
    a->ready_patch = a->patch;
    a->ready = NULL;
    if (p->waits == 0 || waits_per_tile(s, p)) return;
    if (a->band_room < bands) {
        a->band = sg_arena_get(arena, (size_t)bands * sizeof *a->band);
        a->band_room = a->band != NULL ? bands : 0;
    }
    a->ready = a->band;
    for (int32_t i = 0; i < bands && a->ready != NULL; i++) a->ready[i] = -1;
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
static sg_sim_slot *take_tiles(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_launch *l,
                               sg_sim_group *g)
{
    const sg_patch *const p = &s->patch[a->patch];
    const int32_t tiles = sg_walk_bands(p, l->tile_m) * sg_walk_cols(p, l->tile_n);
    const int32_t blocks = m->rank[a->rank].running_blocks;
    const double visit = visit_us(m, s, l, p, blocks);
    double start = g->free_us;
    a->moment = visit / 128;
    if (a->ready_patch != a->patch) forget_bands(a, s, l, p, m->arena);
    sg_sim_slot *const missing = tile_start(m, a, s, l, p, a->tile, visit, &start);
    if (missing != NULL) return missing;

    int32_t taken = sg_walk_min(g->blocks, tiles - a->tile);
    int32_t rounds = 1;
    if (waits_by_tile(s, p)) {
        for (int32_t i = 1; i < taken; i++) {
            double other = g->free_us;
            if (tile_start(m, a, s, l, p, a->tile + i, visit, &other) != NULL ||
                other < start - a->moment || other > start + a->moment)
                taken = i;
            else if (start < other)
                start = other;
        }
    } else if (taken == g->blocks) {
        /* Several waves at once while many are left. */
        rounds = (tiles - a->tile) / (8 * blocks);
        if (rounds < 1) rounds = 1;
    }
    if (taken < g->blocks && a->groups < SG_SIM_GROUPS) {
        a->group[a->groups++] = (sg_sim_group){.free_us = g->free_us, .blocks = g->blocks - taken};
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
static bool go_on(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_launch *l, double *end)
{
    const bool more = a->patch < l->patch0 + l->patches;
    sg_sim_group *g = earliest(a, !more);
    if (g == NULL) {
        for (int32_t i = 0; i < a->groups; i++)
            if (*end < a->group[i].free_us) *end = a->group[i].free_us;
        return false;
    }
    if (g->tiles == 0) g = prefer_loaded(a, g);
    if (g->tiles == 0) {
        sg_sim_slot *const missing = take_tiles(m, a, s, l, merge_free(a, g));
        g = earliest(a, missing != NULL);
        if (g == NULL) { /* nothing to store either */
            sg_sim_park(m, a, &missing->parked);
            return true;
        }
        /* While the first free blocks wait for a flag, the others still store what they have. */
        if (missing != NULL && g->free_us <= a->now) store_tiles(m, a, s, l, g);
    } else {
        store_tiles(m, a, s, l, g);
        g = earliest(a, false);
    }
    if (a->now < g->free_us) a->now = g->free_us;
    sg_sim_push(m, (int32_t)(a - m->agents));
    return true;
}

void sg_sim_start_launch(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_launch *l)
{
    sg_sim_rank *const r = &m->rank[a->rank];
    const int32_t sms = m->machine->sms;
    int32_t blocks = l->blocks > 0 && l->blocks < sms ? l->blocks : sms;
    if (r->running != SG_NONE) {
        if (r->running_blocks + blocks > sms) {
            sg_sim_park(m, a, &m->steps[r->step0 + r->running].parked);
            return;
        }
    }
    if (r->coll_us > a->now && blocks > sms - r->coll_sms) blocks = sms - r->coll_sms;
    if (blocks < 1) blocks = 1;
    r->running = a->step;
    r->running_blocks = blocks;
    a->phase = SG_AT_END;
    a->now += m->machine->launch_us;
    a->begun_us = a->now;
    a->patch = l->patch0;
    a->tile = 0;
    a->ready_patch = SG_NONE;
    if (l->vendor) {
        const double us = vendor_us(m, s, l, blocks) + m->machine->epilogue_us;
        a->now += us;
    } else {
        a->group = &m->groups[(size_t)(a - m->agents) * SG_SIM_GROUPS];
        a->group[0] = (sg_sim_group){.free_us = a->now, .blocks = blocks};
        a->groups = 1;
    }
    sg_sim_push(m, (int32_t)(a - m->agents));
}

void sg_sim_run_launch(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_launch *l)
{
    if (l->vendor) {
        sg_sim_end_step(m, a, a->now);
        return;
    }
    double end = a->now;
    if (!go_on(m, a, s, l, &end)) sg_sim_end_step(m, a, end + m->machine->epilogue_us);
}
