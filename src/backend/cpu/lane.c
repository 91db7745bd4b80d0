/* lane.c -- one rank's run: which step is next, what is ready, what is done.  Everything here
 * happens with the pool's mutex held, and nothing waits. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"

/* ---- Begin ----------------------------------------------------------------------------------- */

static void reset_steps(const sg_sched *s, sg_cpu_plan *plan)
{
    for (int32_t i = 0; i < s->steps; i++) {
        sg_cpu_step *const step = &plan->step[i];
        step->state = SG_STEP_IDLE;
        step->next = step->in_patch = 0;
        step->left = step->units;
        step->patch = s->step[i].kind == SG_LAUNCH ? s->step[i].u.launch.patch0 : 0;
    }
}

/* Steps of kinds that this run leaves out have ended before they begin. */
static void leave_out(const sg_run *run, sg_cpu_rank *rank, sg_cpu_plan *plan)
{
    const sg_sched *const s = &run->bound->sched;
    for (int32_t i = 0; i < s->steps && run->kinds != ~0u; i++) {
        if (run->kinds & 1u << s->step[i].kind) continue;
        plan->step[i].state = SG_STEP_ENDED;
        rank->progress += plan->step[i].weight / plan->weight;
    }
}

static void begin_pack(const sg_run *run, sg_cpu_plan *plan)
{
    sg_pack_begin(plan->pack, run->bound->problem.type);
    for (int32_t i = 0; i < plan->sources; i++) {
        const sg_place place = sg_exec_address(run, &plan->source_area[i]);
        plan->source[i].b = place.data;
        plan->source[i].stride = place.stride_bytes / sg_type_bytes(place.type);
    }
}

static void begin_run(sg_cpu *cpu, sg_cpu_rank *rank)
{
    sg_run *const run = sg_lane_run(rank);
    sg_cpu_plan *const plan = sg_lane_plan(rank);
    sg_run_begin(run);
    rank->active = true;
    cpu->look = ~(uint64_t)0; /* hello: whoever stores to this rank may leave */
    rank->begun = run->epoch;
    sg_trace_begin(cpu, rank);
    reset_steps(&run->bound->sched, plan);
    leave_out(run, rank, plan);
    memcpy(rank->lane_at, plan->first, sizeof rank->lane_at);
    if (plan->multiplies) begin_pack(run, plan);
    if (run->bound->problem.call) sg_link_watch(&rank->link);
    sg_pool_progress(cpu);
    sg_pool_wake(cpu);
    int peer = 0;
    if (sg_run_mismatch(run, &peer)) sg_pool_mismatch(cpu, rank->rank, peer);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void see_peer(void *context, const sg_access *access)
{
    int *const peer = context;
    if (access->what == SG_WRITES && *peer < 0) *peer = access->area.rank;
}

/* Workers copy within a rank; whatever leaves it, and what its copy engine does, is the link's, and
 * so are pushes: all places of visits may be taken by tiles that wait for one. */
bool sg_lane_is_linked(int rank, const sg_sched *s, int32_t index)
{
    const sg_step *const step = &s->step[index];
    if (step->kind != SG_COPY) return step->kind == SG_COLL;
    if (step->u.copy.carrier == SG_BY_ENGINE || sg_step_is_push(step)) return true;
    int peer = -1;
    sg_step_access(s, index, NULL, see_peer, &peer);
    return peer != rank;
}

typedef struct question {
    const sg_run *run;
    sg_kind kind;
    bool ready;
    sg_stuck *stuck;
} question;

/* What a step needs before it begins.  Addends are waited for piece by piece, and a tile waits for
 * leave when it is stored. */
static void ask(void *context, const sg_access *access)
{
    question *const q = context;
    if (!q->ready) return;
    if (access->what == SG_WAITS && access->addend < 0)
        q->ready = sg_run_flags_ready(q->run, access->peer, access->flags, q->stuck);
    else if (access->what == SG_WRITES && access->area.leave && q->kind == SG_COPY)
        q->ready = sg_run_leave_ready(q->run, access->area.rank, q->stuck);
}

static bool can_begin(const sg_cpu_plan *plan, const sg_run *run, int32_t index, sg_stuck *stuck)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_step *const step = &s->step[index];
    for (int i = 0; i < 2; i++)
        if (step->after[i] >= 0 && plan->step[step->after[i]].state != SG_STEP_ENDED) return false;
    if (step->gate && !sg_run_gate_ready(run, stuck)) return false;
    if (step->kind == SG_LAUNCH) return true;
    question q = {run, (sg_kind)step->kind, true, stuck};
    sg_step_access(s, index, NULL, ask, &q);
    return q.ready;
}

typedef struct raising {
    sg_cpu *cpu;
    sg_cpu_rank *rank;
    bool at_once;
} raising;

static void raise_flags(void *context, const sg_access *access)
{
    if (access->what != SG_RAISES) return;
    const raising *const r = context;
    const sg_run *const run = sg_lane_run(r->rank);
    if (access->counter >= 0 && !sg_run_count(run, access->counter)) return;
    const bool later = !r->at_once && access->peer != r->rank->rank && r->cpu->held;
    for (int32_t i = 0; i < access->flags.count; i++) {
        const int32_t flag = access->flags.first + i * access->flags.step;
        if (later)
            sg_link_post(&r->rank->link, access->peer, flag);
        else
            sg_run_post(run, access->peer, flag);
    }
    if (!later) r->cpu->look |= UINT64_C(1) << access->peer;
}

static void end_step(sg_cpu *cpu, sg_cpu_rank *rank, int32_t index, bool at_once)
{
    const sg_sched *const s = &sg_lane_run(rank)->bound->sched;
    if (s->step[index].kind != SG_LAUNCH) {
        raising r = {cpu, rank, at_once};
        sg_step_access(s, index, NULL, raise_flags, &r);
    }
    sg_lane_plan(rank)->step[index].state = SG_STEP_ENDED;
}

void sg_lane_done(sg_cpu *cpu, sg_cpu_rank *rank, int32_t index, const sg_visit *visit,
                  double weight, bool stored)
{
    if (cpu->failed) return;
    sg_cpu_plan *const plan = sg_lane_plan(rank);
    sg_cpu_step *const step = &plan->step[index];
    const sg_sched *const s = &sg_lane_run(rank)->bound->sched;
    if (s->step[index].kind == SG_LAUNCH && !s->step[index].u.launch.vendor) {
        raising r = {cpu, rank, stored};
        sg_step_access(s, index, visit, raise_flags, &r);
    }
    SG_ASSERT(step->left > 0);
    if (--step->left == 0) end_step(cpu, rank, index, stored);
    rank->progress += weight / plan->weight;
    cpu->look |= UINT64_C(1) << rank->rank;
    sg_pool_progress(cpu);
    sg_pool_wake(cpu);
}

/* For tests: one more unit begins, unless it is time to stop. */
static bool count_stop(sg_cpu_rank *rank)
{
    rank->begun_units++;
    if (rank->stop_after < 0) return false;
    if (rank->stop_after-- > 0) return false;
    rank->stopped = true;
    return true;
}

static void begin_step(sg_cpu *cpu, sg_cpu_rank *rank, int32_t index)
{
    const sg_step *const step = &sg_lane_run(rank)->bound->sched.step[index];
    sg_cpu_step *const state = &sg_lane_plan(rank)->step[index];
    state->state = SG_STEP_OPEN;
    if (state->left == 0) {
        end_step(cpu, rank, index, false);
        sg_pool_progress(cpu);
        sg_pool_wake(cpu);
    } else if (step->kind == SG_COLL) {
        sg_coll_arrive(cpu, rank, index);
    } else if (state->linked) {
        sg_link_copy(&rank->link, index);
    }
}

/* ---- Units ----------------------------------------------------------------------------------- */

/* Unit UNIT of a split that runs along columns first. */
static sg_visit piece_at(const sg_split *split, int32_t unit)
{
    const int64_t across = sg_ceil_div(split->cols, split->col_step);
    const int64_t row0 = unit / across * split->row_step;
    const int64_t col0 = unit % across * split->col_step;
    return (sg_visit){.patch = -1,
                      .row0 = (int32_t)row0,
                      .rows = (int32_t)sg_min(split->row_step, split->rows - row0),
                      .col0 = (int32_t)col0,
                      .cols = (int32_t)sg_min(split->col_step, split->cols - col0)};
}

static sg_visit vendor_at(const sg_patch *p, int32_t patch, const sg_split *split, int32_t unit)
{
    const sg_tile_rect rect = sg_tile_split_at(split, unit);
    return (sg_visit){.patch = patch,
                      .row0 = p->row0 + (int32_t)rect.row0,
                      .rows = (int32_t)rect.rows,
                      .col0 = p->col0 + (int32_t)rect.col0,
                      .cols = (int32_t)rect.cols,
                      .k0 = p->k0,
                      .k1 = p->k1};
}

static sg_visit next_unit(const sg_sched *s, int32_t index, sg_cpu_step *state)
{
    const sg_step *const step = &s->step[index];
    const int32_t unit = state->next++;
    sg_visit visit;
    if (step->kind != SG_LAUNCH) return piece_at(&state->split, unit);
    const sg_launch *const launch = &step->u.launch;
    if (launch->vendor)
        return vendor_at(&s->patch[launch->patch0], launch->patch0, &state->split, unit);
    while (state->in_patch == sg_sched_patch_visits(s, launch, state->patch)) {
        state->patch++;
        state->in_patch = 0;
    }
    sg_sched_patch_visit(s, launch, state->patch, state->in_patch++, &visit);
    return visit;
}

double sg_lane_weight(const sg_sched *s, int32_t index, const sg_visit *v)
{
    const double elements = (double)v->rows * v->cols;
    if (s->step[index].kind != SG_LAUNCH) return 4 * elements;
    return elements * (v->k1 - v->k0 + 16);
}

static sg_cpu_visit *take(sg_cpu_rank *rank, sg_cpu_visit *v)
{
    v->state = SG_VISIT_RUNNING;
    rank->running++;
    return v;
}

/* The first parked unit of the step that can go on, or else the next one. */
static sg_cpu_visit *offer_unit(sg_cpu_rank *rank, int32_t index)
{
    sg_cpu_plan *const plan = sg_lane_plan(rank);
    const sg_sched *const s = &sg_lane_run(rank)->bound->sched;
    sg_cpu_step *const state = &plan->step[index];
    sg_cpu_visit *first = NULL;
    sg_cpu_visit *free_one = NULL;
    for (int i = 0; i < plan->visits; i++) {
        sg_cpu_visit *const v = &plan->visit[i];
        if (v->state == SG_VISIT_FREE) free_one = v;
        if (v->state != SG_VISIT_PARKED || v->step != index) continue;
        if ((first == NULL || v->unit < first->unit) && sg_visit_is_ready(rank, v)) first = v;
        if (v->state == SG_VISIT_PARKED && rank->stuck.kind == SG_STUCK_NOT) {
            rank->stuck = v->stuck;
            rank->stuck.step = index;
            rank->stuck.visit = v->unit;
        }
    }
    if (first != NULL) return take(rank, first);
    if (free_one == NULL || state->next == state->units) return NULL;
    if (count_stop(rank)) return NULL;
    const int32_t unit = state->next;
    float *const room[2] = {free_one->room[0], free_one->room[1]};
    sg_access *const list = free_one->list;
    *free_one = (sg_cpu_visit){.step = index,
                               .unit = unit,
                               .visit = next_unit(s, index, state),
                               .list = list,
                               .room = {room[0], room[1]},
                               .slot = -1};
    free_one->weight = sg_lane_weight(s, index, &free_one->visit);
    return take(rank, free_one);
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

static void note_stuck(sg_cpu_rank *rank, const sg_stuck *stuck, int32_t step)
{
    if (rank->stuck.kind != SG_STUCK_NOT || stuck->kind == SG_STUCK_NOT) return;
    rank->stuck = *stuck;
    rank->stuck.step = step;
    rank->stuck.visit = -1;
}

/* Begins what can begin in lane LANE.  Returns a unit for a worker if UNITS are wanted;
 * ADVANCED_OUT tells if a step ended, which other lanes may have waited for. */
static sg_cpu_visit *offer_lane(sg_cpu *cpu, sg_cpu_rank *rank, int lane, bool units,
                                bool *advanced_out)
{
    sg_cpu_plan *const plan = sg_lane_plan(rank);
    const sg_sched *const s = &sg_lane_run(rank)->bound->sched;
    int32_t *const at = &rank->lane_at[lane];
    while (*at < plan->first[lane + 1]) {
        const int32_t index = plan->order[*at];
        sg_cpu_step *const state = &plan->step[index];
        if (state->state == SG_STEP_ENDED) {
            ++*at;
            *advanced_out = true;
            continue;
        }
        sg_stuck stuck = {.kind = SG_STUCK_NOT, .flag = -1};
        if (state->state == SG_STEP_IDLE) {
            if (!can_begin(plan, sg_lane_run(rank), index, &stuck)) {
                note_stuck(rank, &stuck, index);
                return NULL;
            }
            const bool is_whole = state->linked || s->step[index].kind == SG_FLAG;
            if (is_whole && count_stop(rank)) return NULL;
            begin_step(cpu, rank, index);
            if (cpu->failed) return NULL;
            continue;
        }
        if (!state->linked) return units ? offer_unit(rank, index) : NULL;
        if (s->step[index].kind == SG_COLL && sg_coll_missing(cpu, rank, index, &stuck))
            note_stuck(rank, &stuck, index);
        return NULL;
    }
    return NULL;
}

static bool all_lanes_ended(const sg_cpu_rank *rank, const sg_cpu_plan *plan)
{
    for (int lane = 0; lane < SG_MAX_LANES; lane++)
        if (rank->lane_at[lane] < plan->first[lane + 1]) return false;
    return rank->running == 0 && sg_link_is_idle(&rank->link);
}

/* Ends the run if its hellos are here and agree. */
static bool end_run(sg_cpu *cpu, sg_cpu_rank *rank)
{
    sg_run *const run = sg_lane_run(rank);
    sg_stuck stuck = {.kind = SG_STUCK_NOT, .flag = -1};
    if (!sg_run_end_ready(run, &stuck)) {
        note_stuck(rank, &stuck, -1);
        return false;
    }
    int peer = 0;
    if (sg_run_mismatch(run, &peer)) {
        sg_pool_mismatch(cpu, rank->rank, peer);
        return false;
    }
    sg_trace_end(cpu, rank);
    sg_run_end(run);
    cpu->look = ~(uint64_t)0; /* done: gates may open */
    rank->active = false;
    rank->first = (rank->first + 1) % SG_CPU_RUNS;
    rank->runs--;
    rank->progress = (double)(int64_t)(rank->progress + 0.5);
    sg_pool_progress(cpu);
    sg_pool_wake(cpu);
    pthread_cond_broadcast(&cpu->idle);
    return true;
}

/* Begins and ends runs and steps of RANK as far as they go without a worker.  Returns a unit for
 * one if UNITS are wanted. */
static sg_cpu_visit *serve(sg_cpu *cpu, sg_cpu_rank *rank, bool units)
{
    while (rank->runs > 0 && !rank->stopped && !cpu->failed) {
        if (!rank->active) {
            begin_run(cpu, rank);
            continue;
        }
        bool advanced = false;
        if (units) rank->stuck.kind = SG_STUCK_NOT;
        for (int lane = 0; lane < SG_MAX_LANES; lane++) {
            sg_cpu_visit *const v = offer_lane(cpu, rank, lane, units, &advanced);
            if (v != NULL) return v;
            if (cpu->failed || rank->stopped) return NULL;
        }
        if (advanced) continue;
        if (!all_lanes_ended(rank, sg_lane_plan(rank)) || !end_run(cpu, rank)) return NULL;
    }
    return NULL;
}

/* A worker that finds a visit in one lane looks at no other, nor at other ranks, and is gone for as
 * long as the visit takes.  A link must not wait for it: what links carry out begins as soon as it
 * can, and so do runs. */
void sg_lane_advance(sg_cpu *cpu)
{
    while (cpu->look != 0) {
        const uint64_t look = cpu->look;
        cpu->look = 0;
        for (int r = 0; r < cpu->ranks; r++)
            if (look >> r & 1) serve(cpu, &cpu->rank[r], false);
    }
}

sg_cpu_visit *sg_lane_offer(sg_cpu *cpu, sg_cpu_rank *rank)
{
    rank->stuck.kind = SG_STUCK_NOT;
    return serve(cpu, rank, true);
}

void sg_lane_drop(sg_cpu_rank *rank)
{
    if (!rank->active) return;
    sg_cpu_plan *const plan = sg_lane_plan(rank);
    for (int i = 0; i < plan->visits; i++)
        if (plan->visit[i].state == SG_VISIT_PARKED) plan->visit[i].state = SG_VISIT_FREE;
}
