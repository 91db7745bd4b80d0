/* sim_pool.c -- products by workers that all ranks share, as the CPU backend has them; see
 * sim_state.h.
 *
 * A worker carries out one unit at a time: a visit of a launch, or a piece of a sum, of a copy or
 * of the vendor's product.  It stays with a rank until another one is too far behind, takes the
 * lanes of a rank in order, and what is parked before what is new.  A unit whose next slab or
 * addend is not here is parked with what it has, and the worker takes something else.  So ranks
 * that wait leave their workers to the others, which is what makes a pool differ from SMs. */
#include "core/pool_sizes.h"
#include "core/sim_state.h"

enum { MOST_PIECES = 1 << 14 }; /* of a step; a larger one has larger pieces */

/* ---- What units cost ------------------------------------------------------------------------- */

/* Multiply-adds of a tile, and what it costs beside them, in multiply-adds. */
static double work_of(const sg_machine *machine, double rows, double cols, double depth)
{
    return (rows * cols + machine->work_row * rows + machine->work_col * cols) * depth;
}

/* Microseconds of a multiply-add on one worker: gemm_tflops are of a rank, all ranks at work, for
 * the machine's first tile and endless k. */
static double madd_us(const sg_sim *m, const sg_problem *problem)
{
    const sg_machine *const machine = m->machine;
    const double flops = machine->gemm_tflops[problem->type] * 1e6 * m->all / machine->pool;
    const double rows = machine->tile[0].m;
    const double cols = machine->tile[0].n;
    return 2 * rows * cols / (flops * work_of(machine, rows, cols, 1));
}

/* Bringing the columns of B that nobody has brought into order yet. */
static double pack_us(sg_sim *m, const sg_sched *s, const sg_visit *v, int32_t k0, int32_t k1)
{
    const sg_machine *const machine = m->machine;
    double *const packed = m->rank[s->rank].packed;
    double columns = 0;
    if (machine->pack_gbps <= 0 || packed == NULL) return 0;
    const int64_t end = sg_ceil_div((int64_t)v->col0 + v->cols, SG_POOL_PACKED);
    for (int64_t block = v->col0 / SG_POOL_PACKED; block < end; block++) {
        const double from = packed[block] > k0 ? packed[block] : k0;
        if (from >= k1) continue;
        columns += SG_POOL_PACKED * (k1 - from) / (double)(k1 - k0);
        packed[block] = k1;
    }
    return sg_sim_us_of(columns * (k1 - k0) * sg_type_bytes(s->problem->type), machine->pack_gbps);
}

static double slab_us(sg_sim *m, const sg_sched *s, const sg_visit *v, int32_t k0, int32_t k1)
{
    if (k1 <= k0) return 0;
    const double depth = k1 - k0;
    double us = pack_us(m, s, v, k0, k1);
    if (s->problem->call)
        return us +
               sg_problem_flops(s->problem, v->rows, v->cols, depth) / 2 * madd_us(m, s->problem);
    return us + work_of(m->machine, v->rows, v->cols, depth) * madd_us(m, s->problem);
}

/* Reading, adding or storing BYTES. */
static double bytes_us(const sg_sim *m, double bytes)
{
    return sg_sim_us_of(bytes, m->machine->mem_gbps * m->all / m->machine->pool);
}

/* ---- Units ----------------------------------------------------------------------------------- */

static sg_sim_unit *unit_at(const sg_sim *m, int32_t index)
{
    return &m->units[index];
}

static double weight_of(const sg_visit *v)
{
    return (double)v->rows * v->cols * (v->k1 - v->k0 + 16);
}

/* Elements that a step without visits makes, and the bytes that it moves for them. */
static double step_elements(const sg_sched *s, const sg_step *step, double *bytes)
{
    const sg_area *const to = &s->to[step->to0];
    const double elements = step->tos > 0 ? (double)to->rows * to->cols : 0;
    *bytes = 0;
    for (int32_t i = 0; i < step->tos; i++) *bytes += sg_sim_area_bytes(s, &s->to[step->to0 + i]);
    if (step->kind == SG_COPY) *bytes += sg_sim_area_bytes(s, &step->u.copy.src);
    for (int32_t i = 0; step->kind == SG_REDUCE && i < step->u.reduce.adds; i++)
        *bytes += sg_sim_area_bytes(s, &s->add[step->u.reduce.add0 + i].area);
    return elements;
}

/* The vendor's product in pieces, all alike. */
static int64_t cut_vendor(const sg_sim *m, const sg_sched *s, const sg_launch *l, double *all_us)
{
    const sg_patch *const p = &s->patch[l->patch0];
    const int64_t bands = sg_walk_div(p->rows, SG_POOL_ROWS);
    const int64_t strips = sg_walk_div(p->cols, SG_POOL_COLS);
    const double pieces = (double)(bands * strips);
    const double rows = (double)p->rows / (double)bands;
    const double cols = (double)p->cols / (double)strips;
    const double depth = p->k1 - p->k0;
    double work = work_of(m->machine, rows, cols, depth) + m->machine->work_element * rows * cols;
    if (s->problem->call) work = sg_problem_flops(s->problem, rows, cols, depth) / 2;
    *all_us = pieces * work * madd_us(m, s->problem);
    if (m->machine->pack_gbps > 0)
        *all_us += sg_sim_us_of((double)p->cols * depth * sg_type_bytes(s->problem->type),
                                m->machine->pack_gbps);
    return bands * strips;
}

/* How many units the step at hand has; *EACH: of one that is no visit. */
static int32_t count_units(const sg_sim *m, const sg_sched *s, const sg_step *step, double *each_us)
{
    double all_us = 0;
    double pieces = 0;
    *each_us = 0;
    if (step->kind == SG_LAUNCH && step->u.launch.patches == 0) return 0;
    if (step->kind == SG_LAUNCH && !step->u.launch.vendor) return step->u.launch.visits;
    if (step->kind == SG_LAUNCH) {
        pieces = (double)cut_vendor(m, s, &step->u.launch, &all_us);
    } else {
        double bytes = 0;
        pieces = ceil(step_elements(s, step, &bytes) / SG_POOL_PIECE);
        all_us = bytes_us(m, bytes);
    }
    pieces = fmin(pieces, MOST_PIECES);
    if (pieces > 0) *each_us = all_us / pieces;
    return (int32_t)pieces;
}

void sg_sim_open_units(sg_sim *m, sg_sim_agent *a)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_step *const step = &s->step[a->step];
    double each_us = 0;
    a->phase = SG_AT_LAST;
    a->begun_us = a->now;
    a->left = a->want_units = count_units(m, s, step, &each_us);
    a->piece_us = each_us;
    a->unit = 0;
    a->tile = 0;
    a->patch = step->kind == SG_LAUNCH ? step->u.launch.patch0 : 0;
    if (a->left == 0)
        sg_sim_end_step(m, a, a->now);
    else
        sg_sim_wake_workers(m, a->now);
}

/* A unit has ended. */
static void end_unit(sg_sim *m, sg_sim_agent *a, double weight, double time)
{
    sg_sim_rank *const r = &m->rank[a->rank];
    r->progress += weight / r->weight;
    if (--a->left == 0) sg_sim_end_step(m, a, time);
}

void sg_sim_pool_landed(sg_sim *m, sg_sim_agent *a, const sg_sim_batch *b)
{
    const sg_sched *const s = &m->sched[a->rank];
    sg_visit v;
    sg_sched_patch_visit(s, &s->step[b->step].u.launch, b->patch, b->tile0, &v);
    m->rank[a->rank].slots++;
    end_unit(m, a, weight_of(&v), m->now + m->machine->store_us);
    sg_sim_wake_workers(m, m->now);
}

/* Are all flags of a wait seen by now?  If they are only going to be, *NEXT is no later than
 * that. */
static bool is_ready(sg_sim *m, int rank, const sg_wait *w, const sg_visit *v, int32_t k0,
                     double *next)
{
    double time = 0;
    const struct sg_flags f = sg_walk_wait(w, v->row0, v->rows, k0, v->tile);
    if (sg_sim_see(m, rank, w->by, f, &time) != NULL) return false;
    if (time <= m->now) return true;
    if (*next > time) *next = time;
    return false;
}

static bool slab_is_ready(sg_sim *m, const sg_sched *s, const sg_sim_unit *u, int32_t slab,
                          double *next)
{
    const sg_patch *const p = sg_walk_slab(&s->patch[u->visit.patch], &slab);
    for (int32_t i = p->wait0; i < p->wait0 + p->waits; i++) {
        const sg_wait *const w = &s->wait[i];
        if (slab > 0 && w->chunk_k == 0) continue;
        if (!is_ready(m, s->rank, w, &u->visit, p->k0 + slab * p->slab, next)) return false;
    }
    return true;
}

static bool addend_is_ready(sg_sim *m, const sg_sched *s, const sg_sim_unit *u, double *next)
{
    const sg_patch *const p = &s->patch[u->visit.patch];
    const sg_addend *const add = &s->add[p->add0 + u->addend];
    return !add->awaited || is_ready(m, s->rank, &add->wait, &u->visit, p->k0, next);
}

static bool goes_far(const sg_sched *s, const sg_patch *p)
{
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++)
        if (s->to[i].rank != s->rank) return true;
    return false;
}

/* Can a parked unit go on? */
static bool can_go_on(sg_sim *m, const sg_sim_unit *u, double *next)
{
    const sg_sched *const s = &m->sched[m->agents[u->agent].rank];
    const sg_patch *const p = &s->patch[u->visit.patch];
    if (u->slab < sg_walk_all_slabs(p)) return slab_is_ready(m, s, u, u->slab, next);
    if (u->addend < p->adds) return addend_is_ready(m, s, u, next);
    return m->rank[s->rank].slots > 0;
}

/* All slabs that are here; negative: not even the next one is. */
static double multiply(sg_sim *m, const sg_sched *s, sg_sim_unit *u, double *next)
{
    const sg_patch *const p = &s->patch[u->visit.patch];
    const int32_t slabs = sg_walk_all_slabs(p);
    const int32_t first = u->slab;
    double us = first == 0 ? m->machine->unit_us : 0;
    while (u->slab < slabs && slab_is_ready(m, s, u, u->slab, next)) u->slab++;
    for (int32_t i = first; i < u->slab;) {
        int32_t at = i;
        const sg_patch *const q = sg_walk_slab(p, &at);
        const int32_t end = p->more > 0 ? at + 1 : u->slab; /* of this patch */
        const int32_t k1 = end == sg_walk_slabs(q) ? q->k1 : q->k0 + end * q->slab;
        us += slab_us(m, s, &u->visit, q->k0 + at * q->slab, k1);
        i += end - at;
    }
    return u->slab == first ? -1 : us;
}

/* What a visit does next, as far as it can without waiting: microseconds, 0 when all is done, or
 * negative if it must wait. */
static double go_on(sg_sim *m, sg_sim_unit *u, double *next)
{
    const sg_sched *const s = &m->sched[m->agents[u->agent].rank];
    const sg_patch *const p = &s->patch[u->visit.patch];
    const double elements = (double)u->visit.rows * u->visit.cols;
    while (!u->stored) {
        double us = 0;
        if (u->slab < sg_walk_all_slabs(p)) {
            us = multiply(m, s, u, next);
        } else if (u->addend < p->adds) {
            if (!addend_is_ready(m, s, u, next)) return -1;
            for (; u->addend < p->adds && addend_is_ready(m, s, u, next); u->addend++)
                us += bytes_us(m, elements * 8);
        } else {
            const bool far = goes_far(s, p);
            if (far && m->rank[s->rank].slots == 0) return -1;
            m->rank[s->rank].slots -= far;
            u->stored = true;
            us = m->machine->work_element * elements * madd_us(m, s->problem);
            if (sg_step_norms(&s->step[m->agents[u->agent].step]))
                us += bytes_us(m, elements * 24); /* the residual, there and back, and squares */
        }
        if (us > 0 || us < 0) return us;
    }
    return 0;
}

/* ---- Workers --------------------------------------------------------------------------------- */

void sg_sim_wake_workers(sg_sim *m, double time)
{
    for (int w = 0; w < m->machine->pool; w++) {
        const int32_t entity = m->worker0 + w;
        if (m->workers[w].unit != SG_NONE) continue;
        if (m->place[entity] == SG_NONE || m->when[entity] > time)
            sg_sim_at(m, entity, time > m->now ? time : m->now);
    }
}

/* The unit of RANK that a worker takes, or SG_NONE. */
static int32_t offer(sg_sim *m, int rank, double *next)
{
    const sg_sim_rank *const r = &m->rank[rank];
    const int32_t first = rank * SG_SIM_PARKED;
    const int32_t room = (int32_t)sg_min(m->machine->pool + SG_POOL_MORE_UNITS, SG_SIM_PARKED);
    for (int32_t id = r->agent0; id < r->agent0 + r->agents; id++) {
        sg_sim_agent *const a = &m->agents[id];
        if (a->phase != SG_AT_LAST || a->step == SG_NONE || a->left == 0) continue;
        const sg_sched *const s = &m->sched[rank];
        const sg_step *const step = &s->step[a->step];
        int32_t found = SG_NONE;
        int32_t unused = SG_NONE;
        for (int32_t i = first; i < first + room; i++) {
            const sg_sim_unit *const u = unit_at(m, i);
            if (!u->used) unused = i;
            if (!u->used || !u->parked || u->agent != id) continue;
            if (found != SG_NONE && unit_at(m, found)->number < u->number) continue;
            if (can_go_on(m, u, next)) found = i;
        }
        if (found != SG_NONE) return found;
        if (unused == SG_NONE || a->unit == a->want_units) continue;
        sg_sim_unit *const u = unit_at(m, unused);
        *u = (sg_sim_unit){.agent = id, .number = a->unit++, .used = true, .cost_us = a->piece_us};
        u->visit.patch = SG_NONE;
        if (step->kind == SG_LAUNCH && !step->u.launch.vendor) {
            const sg_launch *const l = &step->u.launch;
            while (a->tile == sg_sched_patch_visits(s, l, a->patch)) {
                a->patch++;
                a->tile = 0;
            }
            sg_sched_patch_visit(s, l, a->patch, a->tile++, &u->visit);
        }
        return unused;
    }
    return SG_NONE;
}

static bool has_work(const sg_sim *m, int rank)
{
    const sg_sim_rank *const r = &m->rank[rank];
    for (int32_t id = r->agent0; id < r->agent0 + r->agents; id++)
        if (m->agents[id].step != SG_NONE) return true;
    return false;
}

/* The next unit of a worker: of its own rank, unless it is too far ahead,
 * then of the least advanced. */
static int32_t look_for_unit(sg_sim *m, sg_sim_worker *w, double *next)
{
    double least = INFINITY;
    for (int r = 0; r < m->ranks; r++)
        if (has_work(m, r) && m->rank[r].progress < least) least = m->rank[r].progress;
    if (m->rank[w->rank].progress <= least + SG_POOL_MOST_AHEAD) {
        const int32_t unit = offer(m, w->rank, next);
        if (unit != SG_NONE) return unit;
    }
    double past = -1; /* ranks as far as this have been asked */
    int last = SG_NONE;
    for (int asked = 0; asked < m->ranks; asked++) {
        int best = SG_NONE;
        for (int r = 0; r < m->ranks; r++) {
            const double progress = m->rank[r].progress;
            if (progress < past || (progress <= past && r <= last)) continue;
            if (best == SG_NONE || progress < m->rank[best].progress) best = r;
        }
        if (best == SG_NONE) break;
        past = m->rank[best].progress;
        last = best;
        const int32_t unit = offer(m, best, next);
        if (unit == SG_NONE) continue;
        w->rank = best;
        return unit;
    }
    return SG_NONE;
}

/* The same; who finds nothing has asked all ranks, so until something happens nobody else finds
 * anything.  All workers at rest are woken together, and may be a thousand. */
static int32_t hunt(sg_sim *m, sg_sim_worker *w, double *next)
{
    if (m->barren_us < m->now || m->barren_us > m->now) {
        m->barren_next = INFINITY;
        const int32_t unit = look_for_unit(m, w, &m->barren_next);
        if (unit == SG_NONE) m->barren_us = m->now;
        if (*next > m->barren_next) *next = m->barren_next;
        return unit;
    }
    if (*next > m->barren_next) *next = m->barren_next;
    return SG_NONE;
}

static void tell_unit(const sg_sim *m, const sg_sim_worker *w, const sg_sim_unit *u, bool last)
{
    if (m->visit == NULL || u->visit.patch == SG_NONE) return;
    const sg_sim_agent *const a = &m->agents[u->agent];
    sg_sim_tell(m, &(sg_span){.kind = SG_SPAN_WORK,
                              .rank = a->rank,
                              .lane = a->lane,
                              .peer = SG_NONE,
                              .step = a->step,
                              .patch = u->visit.patch,
                              .tile0 = u->visit.index,
                              .tiles = last ? 1 : 0,
                              .blocks = 1,
                              .begin_us = w->begun_us,
                              .end_us = m->now});
}

/* Goes on with the worker's unit; true: it is busy until its next moment. */
static bool carry_out(sg_sim *m, int32_t worker, double *next)
{
    sg_sim_worker *const w = &m->workers[worker];
    sg_sim_unit *const u = unit_at(m, w->unit);
    sg_sim_agent *const a = &m->agents[u->agent];
    const sg_sched *const s = &m->sched[a->rank];
    m->barren_us = -1;
    if (u->visit.patch == SG_NONE) {
        if (u->cost_us > 0) {
            sg_sim_at(m, m->worker0 + worker, m->now + m->machine->unit_us + u->cost_us);
            u->cost_us = 0;
            return true;
        }
        double bytes = 0;
        const sg_step *const step = &s->step[a->step];
        const double weight = step->kind == SG_LAUNCH
                                  ? (double)s->patch[step->u.launch.patch0].rows *
                                        s->patch[step->u.launch.patch0].cols *
                                        ((double)s->problem->k + 16)
                                  : 4 * step_elements(s, step, &bytes);
        u->used = false;
        w->unit = SG_NONE;
        end_unit(m, a, weight / a->want_units, m->now);
        return false;
    }
    const double us = go_on(m, u, next);
    if (us > 0) {
        u->parked = false;
        w->begun_us = m->now;
        sg_sim_at(m, m->worker0 + worker, m->now + us);
        return true;
    }
    w->unit = SG_NONE;
    if (us < 0) {
        u->parked = true;
        return false;
    }
    const sg_visit v = u->visit;
    u->used = false;
    const bool far = goes_far(s, &s->patch[v.patch]);
    sg_sim_store_tiles(m, a, &s->step[a->step].u.launch, v.patch, v.index, 1, 1, 1, 0);
    if (!far) end_unit(m, a, weight_of(&v), m->now);
    return false;
}

void sg_sim_worker_act(sg_sim *m, int32_t worker)
{
    sg_sim_worker *const w = &m->workers[worker];
    double next = INFINITY;
    if (w->unit != SG_NONE) {
        const sg_sim_unit *const u = unit_at(m, w->unit);
        tell_unit(m, w, u, u->stored);
    }
    for (;;) {
        if (w->unit == SG_NONE) w->unit = hunt(m, w, &next);
        if (w->unit == SG_NONE) break;
        if (carry_out(m, worker, &next)) return;
    }
    /* What it could not take now may be ready later; what is raised until then wakes it. */
    if (next < INFINITY) sg_sim_at(m, m->worker0 + worker, next);
}

/* ---- Setting up ------------------------------------------------------------------------------ */

static void weigh(sg_sim *m, int rank, int64_t *stores)
{
    const sg_sched *const s = &m->sched[rank];
    sg_sim_rank *const r = &m->rank[rank];
    r->weight = 0;
    r->progress = 0;
    *stores = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        double bytes = 0;
        if (step->kind != SG_LAUNCH) {
            r->weight += 4 * step_elements(s, step, &bytes);
            continue;
        }
        const sg_launch *const l = &step->u.launch;
        for (int32_t j = l->patch0; j < l->patch0 + l->patches; j++) {
            const sg_patch *const p = &s->patch[j];
            r->weight += (double)p->rows * p->cols * ((double)(p->k1 - p->k0) + 16);
            if (goes_far(s, p)) *stores += sg_sched_patch_visits(s, l, j);
        }
    }
    if (r->weight <= 0) r->weight = 1;
}

bool sg_sim_set_pool(sg_sim *m)
{
    const int64_t blocks = sg_ceil_div(m->sched[0].problem->n, SG_POOL_PACKED) + 1;
    m->workers = sg_sim_get(m, SG_MEM_WORKERS, m->machine->pool, sizeof *m->workers);
    m->units = sg_sim_get(m, SG_MEM_UNITS, (int64_t)m->ranks * SG_SIM_PARKED, sizeof *m->units);
    double *const packed = sg_sim_get(m, SG_MEM_PACKED, blocks * m->ranks, sizeof *packed);
    if (m->full) return false;
    m->barren_us = -1;
    for (int64_t i = 0; i < blocks * m->ranks; i++) packed[i] = 0;
    for (int32_t i = 0; i < m->ranks * SG_SIM_PARKED; i++) m->units[i].used = false;
    for (int w = 0; w < m->machine->pool; w++)
        m->workers[w] = (sg_sim_worker){.rank = w % m->ranks, .unit = SG_NONE};
    for (int r = 0; r < m->ranks; r++) {
        int64_t stores = 0;
        weigh(m, r, &stores);
        m->rank[r].slots =
            (int32_t)sg_min(sg_max(stores / 8, SG_POOL_LEAST_SLOTS), SG_POOL_MOST_SLOTS);
        m->rank[r].packed = packed + r * blocks;
    }
    return true;
}
