/* bind.c -- what a plan needs on the CPU besides its schedule: units of work and their order by
 * lane, lists and accumulators of the units at hand, staging for tiles on their way to peers,
 * packed B. Runs allocate nothing. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "core/pool_sizes.h"

enum { PIECE_COLS = 4096 }; /* of a sum or a copy */

/* ---- What the schedule asks for -------------------------------------------------------------- */

typedef struct counting {
    int rank;
    int64_t entries, posts;
    int64_t remotes; /* stores to peers */
    bool leaves;     /* zeros around a tile in a peer's tensor */
} counting;

static void count_access(void *context, const sg_access *access)
{
    counting *const c = context;
    if (access->what == SG_RAISES) {
        if (access->peer != c->rank) c->posts += access->flags.count;
        return;
    }
    c->entries++;
    if (access->what == SG_WRITES && access->area.rank != c->rank) c->remotes++;
    if (access->role == SG_ROLE_ZERO && access->area.leave) c->leaves = true;
}

typedef struct needs {
    int64_t entries;       /* of the longest list */
    int64_t tile;          /* floats of the largest accumulator */
    int64_t posts;         /* flags at peers, of the whole run */
    int64_t remote_visits; /* units that store to peers, of the whole run */
    int64_t remotes;       /* most stores of one unit to peers */
    bool leaves;
} needs;

static void need_unit(const sg_sched *s, int32_t index, const sg_visit *visit, int64_t units,
                      needs *n)
{
    counting c = {.rank = s->rank};
    sg_step_access(s, index, visit, count_access, &c);
    n->entries = sg_max(n->entries, c.entries);
    n->posts += visit != NULL ? c.posts * units : c.posts;
    if (c.remotes > 0) n->remote_visits += units;
    n->remotes = sg_max(n->remotes, c.remotes);
    n->leaves |= c.leaves;
}

static sg_split cut(int64_t rows, int64_t cols)
{
    sg_split split = {.rows = rows, .cols = cols};
    if (rows == 0 || cols == 0) return split;
    split.col_step = sg_min(cols, PIECE_COLS);
    split.row_step = sg_min(rows, sg_max(1, SG_POOL_PIECE / split.col_step));
    split.pieces = sg_ceil_div(rows, split.row_step) * sg_ceil_div(cols, split.col_step);
    return split;
}

/* A user's function makes whole rows; its pieces are enough for workers to share, even if they take
 * unequal times. */
static sg_split cut_call(int64_t rows, int64_t cols, int workers)
{
    enum { PIECES = 4 }; /* of a worker */
    sg_split split = {.rows = rows, .cols = cols, .col_step = cols};
    split.row_step = sg_max(1, sg_ceil_div(rows, (int64_t)PIECES * workers));
    split.pieces = cols > 0 ? sg_ceil_div(rows, split.row_step) : 0;
    return split;
}

static void measure_vendor(const sg_cpu *cpu, const sg_sched *s, int32_t index, sg_cpu_step *state,
                           needs *n)
{
    const sg_launch *const l = &s->step[index].u.launch;
    if (l->patches == 0) return; /* this rank's product has no rows */
    const sg_patch *const p = &s->patch[l->patch0];
    const sg_visit all = {.patch = l->patch0,
                          .row0 = p->row0,
                          .rows = p->rows,
                          .col0 = p->col0,
                          .cols = p->cols,
                          .k0 = p->k0,
                          .k1 = p->k1};
    need_unit(s, index, &all, 1, n);
    state->weight = sg_lane_weight(s, index, &all);
    state->split = s->problem->call ? cut_call(p->rows, p->cols, cpu->threads)
                                    : sg_tile_split(p->rows, p->cols, p->k1 - p->k0, cpu->threads);
    n->tile = sg_max(n->tile, state->split.row_step * state->split.col_step);
    state->units = (int32_t)state->split.pieces;
}

static void measure_launch(const sg_cpu *cpu, const sg_sched *s, int32_t index, sg_cpu_step *state,
                           needs *n)
{
    const sg_launch *const l = &s->step[index].u.launch;
    if (l->vendor) {
        measure_vendor(cpu, s, index, state, n);
        return;
    }
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        n->tile = sg_max(n->tile, sg_min(l->tile_m, p->rows) * (int64_t)sg_min(l->tile_n, p->cols));
        const int32_t visits = sg_sched_patch_visits(s, l, i);
        for (int32_t j = 0; j < visits; j++) {
            sg_visit visit;
            sg_sched_patch_visit(s, l, i, j, &visit);
            need_unit(s, index, &visit, 1, n);
            state->weight += sg_lane_weight(s, index, &visit);
        }
    }
    state->units = l->visits;
}

static void find_shape(void *context, const sg_access *access)
{
    sg_split *const split = context;
    if (access->what == SG_WRITES) *split = cut(access->area.rows, access->area.cols);
}

static void measure_step(const sg_cpu *cpu, const sg_sched *s, int32_t index, sg_cpu_step *state,
                         needs *n)
{
    const sg_step *const step = &s->step[index];
    if (step->kind == SG_LAUNCH) {
        measure_launch(cpu, s, index, state, n);
        return;
    }
    sg_step_access(s, index, NULL, find_shape, &state->split);
    state->weight = 4.0 * (double)state->split.rows * (double)state->split.cols;
    state->linked = sg_lane_is_linked(s->rank, s, index);
    state->units = state->linked ? 1 : step->kind == SG_FLAG ? 0 : (int32_t)state->split.pieces;
    need_unit(s, index, NULL, state->linked ? 0 : state->units, n);
    if (step->kind == SG_REDUCE)
        n->tile = sg_max(n->tile, state->split.row_step * state->split.col_step);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static shingle_status no_memory(const sg_bound *bound)
{
    return sg_fail(SHINGLE_ENOMEM, "no memory to bind %s", bound->text);
}

static bool order_lanes(const sg_sched *s, sg_cpu_plan *plan)
{
    plan->order = calloc((size_t)s->steps + 1, sizeof *plan->order);
    if (plan->order == NULL) return false;
    int32_t at = 0;
    for (int lane = 0; lane < SG_MAX_LANES; lane++) {
        plan->first[lane] = at;
        for (int32_t i = 0; i < s->steps; i++)
            if (s->step[i].lane == lane) plan->order[at++] = i;
    }
    plan->first[SG_MAX_LANES] = at;
    return true;
}

/* Accumulators start on cache lines. */
static bool make_visits(const sg_cpu *cpu, const sg_sched *s, const needs *n, sg_cpu_plan *plan)
{
    bool own_later = false;
    for (int32_t i = 0; i < s->patches; i++) own_later |= s->patch[i].own_at > 0;
    const int64_t floats = sg_round_up(n->tile, 16);
    plan->list_room = (int32_t)n->entries;
    plan->visits = cpu->threads + SG_POOL_MORE_UNITS;
    plan->visit = calloc((size_t)plan->visits, sizeof *plan->visit);
    if (plan->visit == NULL) return false;
    for (int i = 0; i < plan->visits; i++) {
        sg_cpu_visit *const v = &plan->visit[i];
        v->list = calloc((size_t)n->entries + 1, sizeof *v->list);
        if (v->list == NULL) return false;
        for (int j = 0; j < (own_later ? 2 : 1) && floats > 0; j++) {
            v->room[j] = aligned_alloc(64, (size_t)floats * sizeof(float));
            if (v->room[j] == NULL) return false;
        }
    }
    return true;
}

/* A product may be an eighth of its tiles ahead of its link: on a GPU of 132 SMs with two tiles
 * each on their way that is the share of 2048 tiles (8192 x 8192). */
static bool make_staging(const sg_cpu *cpu, const needs *n, sg_cpu_plan *plan)
{
    plan->posts = cpu->held ? n->posts : 0;
    if (!cpu->held || n->remote_visits == 0) return true;
    const int64_t share =
        sg_min(sg_max(n->remote_visits / 8, SG_POOL_LEAST_SLOTS), SG_POOL_MOST_SLOTS);
    plan->slots = (int32_t)share;
    plan->slot_bytes = sg_round_up(n->tile * (int64_t)sizeof(float), 64);
    plan->stores = share * n->remotes;
    /* What has left staging may still be underway to its peer. */
    plan->stores += n->remote_visits;
    plan->slot_used = calloc((size_t)plan->slots, 1);
    plan->staging = aligned_alloc(64, (size_t)(plan->slots * plan->slot_bytes));
    return plan->slot_used != NULL && plan->staging != NULL;
}

/* ---- Packed B -------------------------------------------------------------------------------- */

static bool same_rows(const sg_area *a, const sg_area *b)
{
    return a->buf == b->buf && a->row0 == b->row0 && a->rows == b->rows && a->col0 == b->col0 &&
           a->cols == b->cols;
}

/* The source that is AREA, found or made; -1: no memory. */
static int32_t source_of(sg_cpu_plan *plan, const sg_area *area)
{
    for (int32_t i = plan->sources; i-- > 0;)
        if (same_rows(&plan->source_area[i], area)) return i;
    if (plan->sources == plan->source_room) {
        int32_t room = plan->source_room;
        if (!sg_grow(&plan->source, &room, (int64_t)plan->sources + 1, sizeof *plan->source) ||
            !sg_grow(&plan->source_area, &plan->source_room, (int64_t)plan->sources + 1,
                     sizeof *plan->source_area))
            return -1;
    }
    plan->source[plan->sources] = (sg_pack_source){.n = area->rows, .k = area->cols};
    plan->source_area[plan->sources] = *area;
    return plan->sources++;
}

/* What every patch multiplies by.  A block of a source is packed by the first visit that needs it,
 * so all of the source must be here once any visit has waited: a patch that waits for parts of its
 * B at a time has none. */
static shingle_status make_sources(const sg_sched *s, sg_cpu_plan *plan)
{
    const bool shared = s->problem->b_count > 1;
    plan->source_of = calloc((size_t)s->patches + 1, sizeof *plan->source_of);
    bool ok = plan->source_of != NULL;
    /* The user's B come first, in their order. */
    for (int64_t b = 0, row0 = 0; ok && b < s->problem->b_count; b++) {
        const int64_t rows = shared ? s->problem->b_cols[b] : s->buf[SG_B].rows;
        const sg_area user = sg_area_of(s->rank, SG_B, row0, rows, 0, s->buf[SG_B].cols);
        ok = source_of(plan, &user) == b;
        row0 += rows;
    }
    for (int32_t i = 0; ok && i < s->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        if (p->k0 == p->k1) continue;
        if (p->b.buf == SG_B) {
            int64_t low = 0;
            int64_t high = 0;
            plan->source_of[i] = sg_problem_b_at(s->problem, p->b.row0, &low, &high);
            continue;
        }
        plan->source_of[i] = -1;
        int32_t whole = 0;
        while (whole < p->waits && s->wait[p->wait0 + whole].per == SG_PER_PATCH) whole++;
        if (whole < p->waits) continue;
        plan->source_of[i] = source_of(plan, &p->b);
        ok = plan->source_of[i] >= 0;
    }
    return ok ? SHINGLE_OK : sg_fail(SHINGLE_ENOMEM, "no memory for the parts of B");
}

/* The rank's pack, or a new one if it is too small and a run may be using it. */
static shingle_status find_pack(sg_cpu *cpu, sg_cpu_rank *rank, const sg_sched *s,
                                sg_cpu_plan *plan)
{
    int64_t blocks = 0;
    int64_t floats = 0;
    SG_TRY(make_sources(s, plan));
    for (int32_t i = 0; i < plan->sources; i++)
        if (!sg_pack_plan(&plan->source[i], &blocks, &floats))
            return sg_fail(SHINGLE_ENOMEM, "no memory to pack a B of %lld x %lld",
                           (long long)plan->source[i].n, (long long)plan->source[i].k);
    const sg_pack *const pack = rank->pack;
    const bool fits = pack != NULL && blocks <= pack->block_room && floats <= pack->room;
    if (pack == NULL || (rank->runs > 0 && !fits)) {
        if (!sg_grow(&cpu->pack, &cpu->pack_room, (int64_t)cpu->packs + 1, sizeof *cpu->pack))
            return sg_fail(SHINGLE_ENOMEM, "no memory for packed B of rank %d", rank->rank);
        SG_TRY(sg_pack_create(&cpu->pack[cpu->packs]));
        rank->pack = cpu->pack[cpu->packs++];
    }
    SG_TRY(sg_pack_room(rank->pack, blocks, floats));
    plan->pack = rank->pack;
    return SHINGLE_OK;
}

static shingle_status fill(sg_cpu *cpu, sg_bound *bound, sg_cpu_plan *plan)
{
    const sg_sched *const s = &bound->sched;
    needs n = {0};
    plan->step = calloc((size_t)s->steps + 1, sizeof *plan->step);
    if (plan->step == NULL || !order_lanes(s, plan)) return no_memory(bound);
    for (int32_t i = 0; i < s->steps; i++) {
        measure_step(cpu, s, i, &plan->step[i], &n);
        plan->weight += plan->step[i].weight;
        plan->multiplies |= s->step[i].kind == SG_LAUNCH && !sg_step_norms(&s->step[i]);
    }
    if (plan->weight <= 0) plan->weight = 1;
    if (n.leaves)
        return sg_fail(SHINGLE_EUNSUPPORTED, "the CPU fills no places in a peer's tensor: %s",
                       bound->text);
    if (!make_visits(cpu, s, &n, plan) || !make_staging(cpu, &n, plan)) return no_memory(bound);
    plan->multiplies &= s->problem->n > 0 && s->problem->k > 0 && !s->problem->call;
    sg_cpu_rank *const rank = &cpu->rank[s->rank];
    pthread_mutex_lock(&cpu->mutex);
    shingle_status status = SHINGLE_OK;
    if (plan->multiplies) status = find_pack(cpu, rank, s, plan);
    if (status == SHINGLE_OK) status = sg_link_reserve(&rank->link, plan);
    pthread_mutex_unlock(&cpu->mutex);
    return status;
}

shingle_status sg_bind_make(sg_cpu *cpu, sg_bound *bound)
{
    sg_cpu_plan *const plan = calloc(1, sizeof *plan);
    if (plan == NULL) return no_memory(bound);
    const shingle_status status = fill(cpu, bound, plan);
    if (status != SHINGLE_OK) {
        sg_bind_free(plan);
        return status;
    }
    bound->backend = plan;
    return SHINGLE_OK;
}

void sg_bind_free(sg_cpu_plan *plan)
{
    for (int i = 0; plan->visit != NULL && i < plan->visits; i++) {
        free(plan->visit[i].list);
        free(plan->visit[i].room[0]);
        free(plan->visit[i].room[1]);
    }
    free(plan->visit);
    free(plan->step);
    free(plan->order);
    free(plan->slot_used);
    free(plan->staging);
    free(plan->source);
    free(plan->source_area);
    free(plan->source_of);
    free(plan);
}
