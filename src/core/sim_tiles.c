/* sim_tiles.c -- what tiles wait for and what becomes of finished ones, see sim_state.h. */
#include "core/sched_rules.h"
#include "core/sim_state.h"

/* ---- Waits ----------------------------------------------------------------------------------- */

/* Moves *READY to when a band (and tile NUMBER of it) can start so that it never stands still at a
 * slab; returns a flag that is missing for that, or NULL. */
static sg_sim_slot *see_waits(sg_sim *m, const sg_sim_agent *a, const sg_patch *p, int32_t row0,
                              int32_t rows, int32_t number, double visit, double *ready)
{
    const sg_sched *const s = &m->sched[a->rank];
    const int32_t slabs = sg_walk_all_slabs(p);
    const double depth = fmax(1, sg_walk_depth(p));
    double before = 0; /* of k */
    for (int32_t i = 0; i < slabs; i++) {
        int32_t at = i;
        const sg_patch *const q = sg_walk_slab(p, &at);
        double seen = 0;
        for (int32_t w = q->wait0; w < q->wait0 + q->waits; w++) {
            const sg_wait *const wait = &s->wait[w];
            if (at > 0 && wait->chunk_k == 0) continue;
            const struct sg_flags f = sg_walk_wait(wait, row0, rows, q->k0 + at * q->slab, number);
            sg_sim_slot *const missing = sg_sim_see(m, a->rank, wait->by, f, &seen);
            if (missing != NULL) return missing;
        }
        seen -= visit * before / depth;
        if (*ready < seen) *ready = seen;
        before += q->slab > 0 ? q->slab : q->k1 - q->k0;
    }
    return NULL;
}

/* The same for the addends of a tile, which are needed when the product is done, or before what
 * comes behind them. */
static sg_sim_slot *see_addends(sg_sim *m, const sg_sim_agent *a, const sg_patch *p, int32_t row0,
                                int32_t rows, int32_t number, double visit, double *ready)
{
    const sg_sched *const s = &m->sched[a->rank];
    double seen = 0;
    for (int32_t i = p->add0; i < p->add0 + p->adds; i++) {
        const sg_addend *const add = &s->add[i];
        if (!add->awaited) continue;
        const struct sg_flags f = sg_walk_wait(&add->wait, row0, rows, p->k0, number);
        sg_sim_slot *const missing = sg_sim_see(m, a->rank, add->wait.by, f, &seen);
        if (missing != NULL) return missing;
    }
    const double before = visit - a->behind;
    if (*ready < seen - before) *ready = seen - before;
    return NULL;
}

/* Waits of a visit, which stand side by side in the schedule. */
static int32_t waits_of(const sg_patch *p)
{
    return p[p->more].wait0 + p[p->more].waits - p->wait0;
}

static bool waits_per_tile(const sg_sched *s, const sg_patch *p)
{
    for (int32_t i = p->wait0; i < p->wait0 + waits_of(p); i++)
        if (s->wait[i].per == SG_PER_TILE) return true;
    return false;
}

bool sg_sim_waits_by_tile(const sg_sched *s, const sg_patch *p)
{
    for (int32_t i = p->wait0; i < p->wait0 + waits_of(p); i++)
        if (s->wait[i].per != SG_PER_PATCH) return true;
    for (int32_t i = p->add0; i < p->add0 + p->adds; i++)
        if (s->add[i].awaited && s->add[i].wait.per != SG_PER_PATCH) return true;
    return false;
}

/* What all tiles of a band wait for is found once. */
sg_sim_slot *sg_sim_tile_start(sg_sim *m, sg_sim_agent *a, const sg_launch *l, const sg_patch *p,
                               int32_t tile, double visit, double *start)
{
    if (waits_of(p) == 0 && p->adds == 0) return NULL;
    const int32_t bands = sg_walk_bands(p, l->tile_m);
    const int32_t cols = sg_walk_cols(p, l->tile_n);
    int32_t band = 0;
    int32_t col = 0;
    sg_walk_tile(p, bands, cols, p->tile0 + tile, &band, &col);
    const int32_t row0 = p->row0 + band * l->tile_m;
    const int32_t rows = sg_walk_min(l->tile_m, p->rows - band * l->tile_m);
    const int32_t number = band * cols + col;
    const bool by_band = a->ready != NULL;
    double ready = by_band ? a->ready[band] : -1;
    if (ready < 0) {
        ready = 0;
        sg_sim_slot *const missing = see_waits(m, a, p, row0, rows, number, visit, &ready);
        if (missing != NULL) return missing;
        if (by_band) a->ready[band] = ready;
    }
    if (*start < ready) *start = ready;
    return see_addends(m, a, p, row0, rows, number, visit, start);
}

/* Without memory nothing is remembered. */
void sg_sim_forget_bands(sg_sim *m, sg_sim_agent *a, const sg_launch *l, const sg_patch *p)
{
    const int32_t bands = sg_walk_bands(p, l->tile_m);
    a->ready_patch = a->patch;
    a->ready = NULL;
    if (waits_of(p) == 0 || waits_per_tile(&m->sched[a->rank], p)) return;
    if (a->band_room < bands) {
        a->band = sg_arena_get(&m->arena, (size_t)bands * sizeof *a->band);
        a->band_room = a->band != NULL ? bands : 0;
    }
    a->ready = a->band;
    for (int32_t i = 0; i < bands && a->ready != NULL; i++) a->ready[i] = -1;
}

/* ---- Raises ---------------------------------------------------------------------------------- */

/* Raises of stored tiles; round I of them is seen at FIRST + I * STEP. */
static void raise_tiles(sg_sim *m, int rank, const sg_launch *l, const sg_sim_batch *b,
                        const sg_raise *r, double first, double step)
{
    const sg_patch *const p = &m->sched[rank].patch[b->patch];
    if (r->per == SG_PER_PATCH) {
        sg_sim_raise(m, rank, r, 0, b->tiles, first + (b->rounds - 1) * step);
        return;
    }
    const int32_t bands = sg_walk_bands(p, l->tile_m);
    const int32_t cols = sg_walk_cols(p, l->tile_n);
    for (int32_t i = 0; i < b->tiles; i++) {
        int32_t band = 0;
        int32_t col = 0;
        sg_walk_tile(p, bands, cols, p->tile0 + b->tile0 + i, &band, &col);
        sg_sim_raise(m, rank, r, band * cols + col, 1, first + (i / b->blocks) * step);
    }
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static int32_t new_batch(sg_sim *m)
{
    const int32_t batch = m->batch_free;
    if (batch != SG_NONE) {
        m->batch_free = m->batches[batch].next;
        return batch;
    }
    if (m->batch_count >= m->batch_room) {
        const int32_t room = 2 * m->batch_room + 64;
        m->batches = sg_sim_get(m, SG_MEM_BATCHES, room, sizeof *m->batches);
        if (m->full) return SG_NONE;
        m->batch_room = room;
    }
    return m->batch_count++;
}

/* A pool's workers have flags for everything. */
static bool goes_tagged(const sg_sim *m, const sg_sched *s, const sg_area *to)
{
    return s->buf[to->buf].tagged && m->machine->pool == 0;
}

bool sg_sim_is_tagged(const sg_sim *m, const sg_sched *s, const sg_launch *l)
{
    return m->machine->pool == 0 && sg_sched_is_tagged(s, l);
}

/* Of all that a patch stores there, as the link takes it.  Of tagged data what a place has beside
 * its tile is not sent. */
static double sent_bytes(const sg_sim *m, const sg_sched *s, const sg_patch *p, const sg_area *to)
{
    const double part = p->onto && m->machine->onto_part > 0 ? m->machine->onto_part : 1;
    if (!goes_tagged(m, s, to)) return part * sg_sim_area_bytes(s, to);
    return (double)p->rows * p->cols * sg_sched_element_bytes(s, to->buf);
}

/* Sums that go out while tiles of others do take the link longer. */
static double amid_part(const sg_sim *m, const sg_sched *s, const sg_launch *l, int32_t patch)
{
    const sg_patch *const p = &s->patch[patch];
    int32_t last = l->patch0 + l->patches - 1;
    if (m->machine->amid_part <= 1 || p->adds == 0 || p->k0 >= p->k1) return 1;
    while (last > patch && s->patch[last].adds > 0) last--;
    return last > patch ? m->machine->amid_part : 1;
}

/* From the last byte of tiles to their being seen at a peer, or, in a scatter of one wave, to what
 * is added to them there; of tagged ones, to the end of the run, which waits for nothing else then:
 * hellos and the gate have passed under the product; or, of products for owners of columns, to the
 * second hop. */
static double behind_stores_us(const sg_sim *m, const sg_sched *s, const sg_launch *l,
                               const sg_patch *p)
{
    const sg_machine *const machine = m->machine;
    const bool scatters = sg_problem_out(s->problem) == SG_OUT_SCATTER;
    const bool abreast = scatters && l->visits <= machine->sms && sg_sim_launch_adds_onto(s, l);
    if (machine->landed_us > 0 && abreast) return machine->landed_us;
    if (p->tos == 0 || !goes_tagged(m, s, &s->to[p->to0])) return machine->store_us;
    const bool hops = p->tos == 1 && p->k0 < p->k1 && sg_problem_out(s->problem) == SG_OUT_ALL;
    if (hops && machine->hop_us > 0) return machine->hop_us;
    if (machine->tagged_us > 0) return machine->tagged_us;
    return machine->flag_us + machine->store_us + sg_sim_run_us(machine);
}

/* Of all that a rank stores there. */
static double stores_gbps(const sg_sim *m, const sg_sched *s, const sg_patch *p)
{
    const sg_machine *const machine = m->machine;
    const bool tagged = p->tos > 0 && goes_tagged(m, s, &s->to[p->to0]);
    return tagged && machine->tagged_gbps > 0 ? machine->tagged_gbps : machine->store_gbps;
}

double sg_sim_own_stores_us(const sg_sim *m, const sg_sched *s, const sg_launch *l,
                            const sg_patch *p, double blocks)
{
    double bytes = 0;
    if (p->tos < 2 || p->k0 == p->k1 || !goes_tagged(m, s, &s->to[p->to0])) return 0;
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++)
        if (s->to[i].rank != s->rank) bytes += sent_bytes(m, s, p, &s->to[i]);
    const double tiles = sg_walk_visits(p, l->tile_m, l->tile_n);
    return sg_sim_us_of(bytes / tiles * blocks, stores_gbps(m, s, p));
}

/* Sends what goes to peers; a round leaves when it is computed, however idle the link was. */
static void send_tiles(sg_sim *m, sg_sim_agent *a, const sg_patch *p, const sg_sim_batch *stored,
                       double all)
{
    const sg_sched *const s = &m->sched[a->rank];
    const double part = amid_part(m, s, &s->step[stored->step].u.launch, stored->patch);
    const int32_t index = new_batch(m);
    if (index == SG_NONE) return;
    m->batches[index] = *stored;
    sg_sim_batch *const b = &m->batches[index];
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++) {
        if (s->to[i].rank == a->rank) continue;
        b->pending++;
        b->bytes += part * sent_bytes(m, s, p, &s->to[i]) * stored->tiles / all;
    }
    a->in_flight += b->bytes;
    a->pending++;
    const double each = b->bytes / b->pending / b->rounds;
    const double gbps = stores_gbps(m, s, p);
    b->each_us = sg_sim_us_of(each * b->pending, gbps);
    const double last = m->now + (b->rounds - 1) * b->step_us;
    /* Rounds trickle: together they are no faster than they are made. */
    const double made = b->rounds > 1 && b->step_us > 0 ? each * b->rounds / (last - m->now) : 1e15;
    /* Links share out what plain stores reach; where tagged data are slower, each peer has its part
     * of that, at once or in patches of its own. */
    const int peers = s->problem->ranks - 1;
    const double cap = gbps * 1e3 / (gbps < m->machine->store_gbps ? peers : 1);
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++) {
        const int to = s->to[i].rank;
        if (to == a->rank) continue;
        const double bytes = part * sent_bytes(m, s, p, &s->to[i]) * stored->tiles / all;
        sg_sim_send(m, SG_FLOW_STORE, index, a->rank, to, bytes, made < cap ? made : cap,
                    b->rounds > 1 ? last + each / cap : 0);
    }
}

void sg_sim_store_tiles(sg_sim *m, sg_sim_agent *a, const sg_launch *l, int32_t patch,
                        int32_t tile0, int32_t tiles, int32_t rounds, int32_t blocks,
                        double step_us)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_patch *const p = &s->patch[patch];
    const sg_sim_batch b = {.first_us = m->now,
                            .step_us = step_us,
                            .agent = (int32_t)(a - m->agents),
                            .step = a->step,
                            .patch = patch,
                            .tile0 = tile0,
                            .tiles = tiles,
                            .rounds = rounds,
                            .blocks = blocks,
                            .next = SG_NONE};
    bool far = false;
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++) far |= s->to[i].rank != a->rank;
    for (int32_t i = p->raise0; i < p->raise0 + p->raises; i++) {
        const int at = s->raise[i].at;
        if (far && at != a->rank) continue; /* behind the stores */
        const bool tagged = at == a->rank && p->tos > 0 && goes_tagged(m, s, &s->to[p->to0]);
        const double seen_us =
            tagged ? behind_stores_us(m, s, l, p) : sg_sim_flag_us(m, a->rank, at);
        raise_tiles(m, a->rank, l, &b, &s->raise[i], m->now + seen_us, step_us);
    }
    if (far) send_tiles(m, a, p, &b, (double)sg_walk_visits(p, l->tile_m, l->tile_n));
}

void sg_sim_unstall(sg_sim *m, sg_sim_agent *a)
{
    for (int32_t i = 0; i < a->groups; i++) {
        if (!a->group[i].stalled) continue;
        a->group[i].stalled = false;
        a->group[i].store_us = m->now;
    }
    sg_sim_agent_at(m, a, m->now);
}

void sg_sim_tiles_landed(sg_sim *m, const sg_sim_flow *flow)
{
    sg_sim_batch *const stored = &m->batches[flow->owner];
    if (--stored->pending > 0) return;
    const sg_sim_batch b = *stored;
    stored->next = m->batch_free;
    m->batch_free = flow->owner;
    sg_sim_agent *const a = &m->agents[b.agent];
    const sg_sched *const s = &m->sched[a->rank];
    const sg_patch *const p = &s->patch[b.patch];
    const double step = b.step_us > b.each_us ? b.step_us : b.each_us;
    double first = m->now - (b.rounds - 1) * step;
    if (first < b.first_us) first = b.first_us;
    const sg_launch *const l = &s->step[b.step].u.launch;
    for (int32_t i = p->raise0; i < p->raise0 + p->raises; i++) {
        const int at = s->raise[i].at;
        if (at != a->rank)
            raise_tiles(m, a->rank, l, &b, &s->raise[i],
                        first + behind_stores_us(m, s, l, p) + sg_sim_far_us(m, a->rank, at),
                        b.rounds > 1 ? (m->now - first) / (b.rounds - 1) : 0);
    }
    a->in_flight -= b.bytes;
    a->pending--;
    if (m->rank[a->rank].end_us < m->now) m->rank[a->rank].end_us = m->now;
    if (m->machine->pool > 0) {
        sg_sim_pool_landed(m, a, &b);
        return;
    }
    sg_sim_unstall(m, a);
}
