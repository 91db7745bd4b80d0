/* visit.c -- a worker carries out one unit of work: a visit of a launch, or a piece of a vendor's
 * product, of a sum, or of a copy by workers.
 *
 *     slabs      wait, multiply, wait, multiply ...          neighbours without a wait between them;
 *                a user's function is called once, when all of its rows of A are here
 *     addends    wait, add, in the listed order, the own product at its place
 *     finish     bias, activation; rows that are normed
 *     stores     zeros around a tile in its place; own memory; then peers: at once, or staged for
 *                the link where it is held back
 *     raises     behind the stores (lane.c, link.c)
 *
 * Whenever something is not ready the unit is left as it is and taken up later, maybe by another
 * worker; the pool's mutex orders the two. */
#include <string.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/cpu.h"
#include "core/norm.h"

/* ---- What there is to do --------------------------------------------------------------------- */

typedef struct listing {
    sg_cpu_visit *visit;
    int32_t room;
    bool piece; /* areas are cut to the piece; the step has waited before, and raises later */
} listing;

static void list_one(void *context, const sg_access *access)
{
    const listing *const l = context;
    sg_cpu_visit *const v = l->visit;
    if (access->what == SG_RAISES) return;
    if (l->piece && access->what == SG_WAITS && access->addend < 0) return;
    SG_CHECK(v->count < l->room);
    sg_access *const mine = &v->list[v->count++];
    *mine = *access;
    if (!l->piece || access->what == SG_WAITS) return;
    mine->area.col0 += v->visit.col0;
    mine->area.cols = v->visit.cols;
    if (access->role == SG_ROLE_BIAS) return;
    mine->area.row0 += v->visit.row0;
    mine->area.rows = v->visit.rows;
}

static void begin_visit(sg_cpu_rank *rank, sg_cpu_visit *v)
{
    const sg_run *const run = sg_lane_run(rank);
    const sg_cpu_plan *const plan = sg_lane_plan(rank);
    const sg_sched *const s = &run->bound->sched;
    const bool is_launch = s->step[v->step].kind == SG_LAUNCH;
    listing l = {v, plan->list_room, !is_launch};
    v->count = 0;
    sg_step_access(s, v->step, is_launch ? &v->visit : NULL, list_one, &l);

    /* A product that goes nowhere but into rows of f32 here is summed where it will lie. */
    const sg_access *const last = v->count > 0 ? &v->list[v->count - 1] : NULL;
    v->direct = last != NULL && last->what == SG_WRITES && last->area.rank == rank->rank;
    for (int32_t i = 0; i + 1 < v->count; i++)
        if (v->list[i].what == SG_WRITES || v->list[i].role == SG_ROLE_ADDEND) v->direct = false;
    v->acc = v->room[0];
    v->acc_stride = v->visit.cols;
    if (v->direct) {
        const sg_place place = sg_exec_address(run, &last->area);
        v->direct = place.type == SG_F32;
        if (v->direct) {
            v->acc = (float *)(void *)place.data;
            v->acc_stride = place.stride_bytes / 4;
        }
    }
    v->sum = v->acc;
    v->sum_stride = v->acc_stride;
}

/* ---- Product and sum ------------------------------------------------------------------------- */

/* Are the flags up that ACCESS waits for? */
static bool has_come(const sg_run *run, sg_cpu_visit *v, const sg_access *access)
{
    return sg_run_flags_ready(run, access->peer, access->flags, &v->stuck);
}

/* Does NEXT go on where LAST ends? */
static bool follows(const sg_access *last, const sg_access *next)
{
    return next->area.buf == last->area.buf && next->area.row0 == last->area.row0 &&
           next->area.col0 == last->area.col0 + last->area.cols;
}

/* Where the rows of B are that AREA names, and how they are packed. */
static void find_b(sg_cpu_rank *rank, const sg_cpu_visit *v, const sg_area *area,
                   sg_pack_source *alone, sg_tile_work *work)
{
    const sg_cpu_plan *const plan = sg_lane_plan(rank);
    const int32_t index = plan->source_of[v->visit.patch];
    if (index >= 0) {
        const sg_area *const from = &plan->source_area[index];
        work->source = &plan->source[index];
        work->col0 = area->row0 - from->row0;
        work->k0 = area->col0 - from->col0;
    } else {
        const sg_place place = sg_exec_address(sg_lane_run(rank), area);
        int64_t blocks = 0;
        int64_t floats = 0;
        *alone = (sg_pack_source){.b = place.data,
                                  .stride = place.stride_bytes / sg_type_bytes(place.type),
                                  .n = area->rows,
                                  .k = area->cols};
        SG_CHECK(sg_pack_plan(alone, &blocks, &floats));
        work->source = alone;
        work->alone = true;
    }
    work->k1 = work->k0 + area->cols;
}

/* Multiplies the slab at hand and all behind it that are ready. */
static void multiply(sg_cpu_worker *worker, sg_cpu_rank *rank, sg_cpu_visit *v)
{
    const sg_run *const run = sg_lane_run(rank);
    sg_access a = v->list[v->at];
    sg_access b = v->list[v->at + 1];
    SG_ASSERT(a.role == SG_ROLE_A && b.role == SG_ROLE_B);
    v->at += 2;
    for (;;) {
        int32_t next = v->at;
        sg_stuck stuck;
        while (next < v->count && v->list[next].what == SG_WAITS && v->list[next].addend < 0 &&
               sg_run_flags_ready(run, v->list[next].peer, v->list[next].flags, &stuck))
            next++;
        if (next + 1 >= v->count || v->list[next].role != SG_ROLE_A ||
            !follows(&a, &v->list[next]) || !follows(&b, &v->list[next + 1]))
            break;
        a.area.cols += v->list[next].area.cols;
        b.area.cols += v->list[next + 1].area.cols;
        v->at = next + 2;
    }
    const sg_place place = sg_exec_address(run, &a.area);
    sg_tile_work work = {.a = place.data,
                         .a_stride = place.stride_bytes / sg_type_bytes(place.type),
                         .a_type = place.type,
                         .rows = a.area.rows,
                         .cols = b.area.rows,
                         .acc = v->acc,
                         .acc_stride = v->acc_stride,
                         .accumulate = v->multiplied};
    sg_pack_source alone;
    find_b(rank, v, &b.area, &alone, &work);
    sg_tile_multiply(worker->scratch, sg_lane_plan(rank)->pack, &work);
    v->multiplied = true;
}

/* Has the user's function compute the rows of the visit, once the last slab of A is here. */
static void call(sg_cpu_rank *rank, sg_cpu_visit *v)
{
    const sg_run *const run = sg_lane_run(rank);
    const sg_bound *const bound = run->bound;
    v->at += 2;
    for (int32_t i = v->at; i < v->count; i++)
        if (v->list[i].role == SG_ROLE_A) return;
    const sg_access *first = v->list;
    while (first->role != SG_ROLE_A) first++;
    const sg_place a = sg_exec_address(run, &first->area);
    const int64_t element = sg_type_bytes(a.type);
    v->called_us = sg_now_us();
    v->refused =
        bound->compute(bound->compute_context, &(shingle_rows){.rank = rank->rank,
                                                               .row0 = v->visit.row0,
                                                               .rows = v->visit.rows,
                                                               .a = a.data,
                                                               .a_stride = a.stride_bytes / element,
                                                               .b = run->tensors.b,
                                                               .b_stride = run->tensors.b_stride,
                                                               .sum = v->acc,
                                                               .sum_stride = v->acc_stride,
                                                               .stream = run->stream});
    v->called_us = 0;
    v->multiplied = true;
}

/* The own product, rounded to the type of the problem before it is added to anything. */
static void round_own(const sg_sched *s, const sg_cpu_visit *v)
{
    if (!v->multiplied || v->visit.patch < 0 || !s->patch[v->visit.patch].own_rounded) return;
    sg_convert_round_block(s->problem->type, v->acc, v->acc_stride, v->visit.rows, v->visit.cols);
}

/* Where the own product stands in the sum; -1: there is none, or it is first. */
static int32_t own_at(const sg_sched *s, const sg_cpu_visit *v)
{
    if (!v->multiplied || v->visit.patch < 0) return -1;
    const int32_t at = s->patch[v->visit.patch].own_at;
    return at > 0 ? at : -1;
}

/* Columns of rows that are normed, side by side. */
static void take_columns(sg_cpu_rank *rank, sg_cpu_visit *v, const sg_access *access)
{
    const sg_place place = sg_exec_address(sg_lane_run(rank), &access->area);
    sg_convert_load_block(place.type, place.data, place.stride_bytes / sg_type_bytes(place.type),
                          v->sum + access->col, v->sum_stride, access->area.rows,
                          access->area.cols);
    v->summed = true;
}

static void add_one(sg_cpu_rank *rank, sg_cpu_visit *v, const sg_access *access)
{
    const sg_run *const run = sg_lane_run(rank);
    const sg_place place = sg_exec_address(run, &access->area);
    const int64_t stride = place.stride_bytes / sg_type_bytes(place.type);
    const int64_t rows = v->visit.rows;
    const int64_t cols = v->visit.cols;
    const int32_t own = own_at(&run->bound->sched, v);
    const bool starts = v->added == 0 && (own > 0 || !v->multiplied);
    if (v->added == 0) round_own(&run->bound->sched, v);
    if (starts && own > 0) {
        v->sum = v->room[1];
        v->sum_stride = cols;
    }
    if (starts)
        sg_convert_load_block(place.type, place.data, stride, v->sum, v->sum_stride, rows, cols);
    else
        sg_convert_add_block(place.type, place.data, stride, v->sum, v->sum_stride, rows, cols);
    v->summed = true;
    if (++v->added == own)
        sg_convert_add_block(SG_F32, v->acc, v->acc_stride, v->sum, v->sum_stride, rows, cols);
}

/* A row of sums becomes a row of C, as norm.h says; the residual is stored. */
static void norm_row(sg_type type, float epsilon, int64_t cols, float *y, void *residual,
                     const char *gain)
{
    float lane[SG_NORM_LANES];
    sg_convert_round_block(type, y, cols, 1, cols);
    sg_convert_add(type, residual, y, cols);
    sg_convert_store(type, y, residual, cols);
    sg_convert_load(type, residual, y, cols);
    const float scale = sg_norm_scale(epsilon, cols, y, lane);
    for (int64_t at = 0; at < cols; at += SG_NORM_LANES) {
        const int64_t count = sg_min(SG_NORM_LANES, cols - at);
        sg_convert_load(type, gain + at * sg_type_bytes(type), lane, count);
        for (int64_t j = 0; j < count; j++) y[at + j] = y[at + j] * scale * lane[j];
    }
}

static void norm(const sg_problem *p, sg_cpu_visit *v)
{
    for (int64_t i = 0; i < v->visit.rows; i++)
        norm_row(p->type, sg_problem_epsilon(p), v->visit.cols, v->sum + i * v->sum_stride,
                 v->residual.data + i * v->residual.stride_bytes, v->gain);
}

/* All values are here: bias and activation. */
static void finish(sg_cpu_rank *rank, sg_cpu_visit *v)
{
    const sg_sched *const s = &sg_lane_run(rank)->bound->sched;
    const sg_step *const step = &s->step[v->step];
    if (v->finished) return;
    v->finished = true;
    if (!v->multiplied && !v->summed)
        for (int64_t i = 0; i < v->visit.rows; i++)
            memset(v->sum + i * v->sum_stride, 0, (size_t)v->visit.cols * sizeof(float));
    const bool final =
        step->kind == SG_LAUNCH ? s->patch[v->visit.patch].final : step->u.reduce.final;
    if (final && sg_problem_has_epilogue(s->problem))
        sg_convert_epilogue(s->problem->type, v->bias, s->problem->act, v->sum, v->sum_stride,
                            v->visit.rows, v->visit.cols);
    if (v->gain != NULL) norm(s->problem, v);
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static void store_to(sg_cpu_rank *rank, const sg_cpu_visit *v, const sg_area *area)
{
    const sg_place to = sg_exec_address(sg_lane_run(rank), area);
    sg_convert_store_block(to.type, v->sum, v->sum_stride, to.data,
                           to.stride_bytes / sg_type_bytes(to.type), v->visit.rows, v->visit.cols);
}

static void store_zeros(sg_cpu_rank *rank, const sg_area *area)
{
    const sg_place to = sg_exec_address(sg_lane_run(rank), area);
    for (int64_t row = 0; row < area->rows; row++)
        memset(to.data + row * to.stride_bytes, 0,
               (size_t)area->cols * (size_t)sg_type_bytes(to.type));
}

/* All stores into the own memory, before the first that a peer could see.  The zeros around a tile
 * are few and do not take the link. */
static void store_own(sg_cpu_rank *rank, sg_cpu_visit *v)
{
    for (int32_t i = v->at; i < v->count && !v->direct; i++) {
        const sg_access *const access = &v->list[i];
        if (access->role == SG_ROLE_ZERO)
            store_zeros(rank, &access->area);
        else if (access->area.buf == SG_RESIDUAL)
            continue; /* as it was added */
        else if (access->area.rank == rank->rank)
            store_to(rank, v, &access->area);
    }
}

/* A store that store_own has carried out. */
static bool is_stored(const sg_cpu_rank *rank, const sg_access *access)
{
    return access->area.rank == rank->rank || access->role == SG_ROLE_ZERO;
}

/* A staging slot of the rank, or -1.  With the mutex held. */
static int32_t take_slot(sg_cpu_plan *plan)
{
    for (int32_t i = 0; i < plan->slots; i++)
        if (!plan->slot_used[i]) {
            plan->slot_used[i] = 1;
            return i;
        }
    return -1;
}

/* Puts the tile into staging for the store at hand, and queues it.  The tile is converted once for
 * all stores that follow each other in one type.  False: no slot is free. */
static bool stage(sg_cpu_worker *worker, sg_cpu_rank *rank, sg_cpu_visit *v)
{
    sg_cpu *const cpu = worker->cpu;
    sg_cpu_plan *const plan = sg_lane_plan(rank);
    const sg_run *const run = sg_lane_run(rank);
    const sg_place to = sg_exec_address(run, &v->list[v->at].area);
    const int64_t row_bytes = v->visit.cols * sg_type_bytes(to.type);
    if (v->slot < 0) {
        pthread_mutex_lock(&cpu->mutex);
        v->slot = take_slot(plan);
        pthread_mutex_unlock(&cpu->mutex);
        if (v->slot < 0) {
            v->stuck = (sg_stuck){.kind = SG_STUCK_LINK, .by = rank->rank, .flag = -1};
            return false;
        }
        sg_convert_store_block(to.type, v->sum, v->sum_stride,
                               plan->staging + v->slot * plan->slot_bytes, v->visit.cols,
                               v->visit.rows, v->visit.cols);
    }
    int32_t next = v->at + 1;
    while (next < v->count && is_stored(rank, &v->list[next])) next++;
    const bool last = next == v->count;
    const bool frees = last || sg_exec_address(run, &v->list[next].area).type != to.type;
    const sg_store store = {.to = to,
                            .rows = v->visit.rows,
                            .row_bytes = row_bytes,
                            .slot = v->slot,
                            .frees = frees,
                            .last = last,
                            .peer = v->list[v->at].area.rank,
                            .step = v->step,
                            .visit = v->visit,
                            .weight = v->weight,
                            .ready_us = sg_now_us()};
    if (last) v->queued = true;
    if (frees) v->slot = -1;
    pthread_mutex_lock(&cpu->mutex);
    if (!cpu->failed) sg_link_store(&rank->link, &store);
    pthread_mutex_unlock(&cpu->mutex);
    return true;
}

static bool store_one(sg_cpu_worker *worker, sg_cpu_rank *rank, sg_cpu_visit *v)
{
    const sg_run *const run = sg_lane_run(rank);
    const sg_area *const area = &v->list[v->at].area;
    if (is_stored(rank, &v->list[v->at])) return true;
    if (area->leave && !sg_run_leave_ready(run, area->rank, &v->stuck)) return false;
    if (worker->cpu->held) return stage(worker, rank, v);
    store_to(rank, v, area);
    return true;
}

/* A piece of a copy by workers: rows of bytes from SRC to every store. */
static void copy_piece(sg_cpu_rank *rank, sg_cpu_visit *v)
{
    const sg_run *const run = sg_lane_run(rank);
    const sg_place from = sg_exec_address(run, &v->list[0].area);
    const size_t bytes = (size_t)v->visit.cols * (size_t)sg_type_bytes(from.type);
    for (int32_t i = 1; i < v->count; i++) {
        const sg_place to = sg_exec_address(run, &v->list[i].area);
        for (int64_t row = 0; row < v->visit.rows; row++)
            memcpy(to.data + row * to.stride_bytes, from.data + row * from.stride_bytes, bytes);
    }
}

/* ---- Carry out ------------------------------------------------------------------------------- */

bool sg_visit_carry_out(sg_cpu_worker *worker, sg_cpu_rank *rank, sg_cpu_visit *v)
{
    const sg_run *const run = sg_lane_run(rank);
    const bool calls = run->bound->problem.call;
    const bool norms = sg_step_norms(&run->bound->sched.step[v->step]);
    if (v->count == 0) begin_visit(rank, v);
    if (run->bound->sched.step[v->step].kind == SG_COPY) {
        copy_piece(rank, v);
        return true;
    }
    while (v->at < v->count) {
        const sg_access *const access = &v->list[v->at];
        if (access->what == SG_WAITS) {
            if (!has_come(run, v, access)) return false;
        } else if (access->role == SG_ROLE_A && calls) {
            call(rank, v);
            if (v->refused != 0) return false;
            continue;
        } else if (access->role == SG_ROLE_A) {
            multiply(worker, rank, v);
            continue;
        } else if (access->role == SG_ROLE_ADDEND && norms) {
            take_columns(rank, v, access);
        } else if (access->role == SG_ROLE_ADDEND) {
            add_one(rank, v, access);
        } else if (access->role == SG_ROLE_RESIDUAL) {
            v->residual = sg_exec_address(run, &access->area);
        } else if (access->role == SG_ROLE_GAIN) {
            v->gain = sg_exec_address(run, &access->area).data;
        } else if (access->role == SG_ROLE_BIAS) {
            v->bias = sg_exec_address(run, &access->area).data;
        } else {
            SG_ASSERT(access->what == SG_WRITES);
            if (!v->finished) {
                finish(rank, v);
                store_own(rank, v);
            }
            if (!store_one(worker, rank, v)) return false;
        }
        v->at++;
    }
    return true;
}

bool sg_visit_is_ready(sg_cpu_rank *rank, sg_cpu_visit *v)
{
    const sg_run *const run = sg_lane_run(rank);
    const sg_access *const access = &v->list[v->at];
    if (v->stuck.kind == SG_STUCK_FLAG)
        return sg_run_flags_ready(run, access->peer, access->flags, &v->stuck);
    if (v->stuck.kind == SG_STUCK_LEAVE)
        return sg_run_leave_ready(run, access->area.rank, &v->stuck);
    const sg_cpu_plan *const plan = sg_lane_plan(rank);
    for (int32_t i = 0; i < plan->slots; i++)
        if (!plan->slot_used[i]) return true;
    return false;
}
