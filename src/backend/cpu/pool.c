/* pool.c -- workers: find ready work, carry it out, sleep; time-outs and failure.
 *
 * Whatever may make work ready (a flag, a hello, a step's end, a new run) happens with the mutex
 * held and wakes one worker; a worker that finds work wakes the next.  So as long as work is ready,
 * somebody is awake to find it. */
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu.h"
#include "core/plan.h"
#include "core/pool_sizes.h"

void sg_pool_wake(sg_cpu *cpu)
{
    if (cpu->sleepers > 0) pthread_cond_signal(&cpu->work);
}

void sg_pool_progress(sg_cpu *cpu)
{
    cpu->progress_us = sg_now_us();
}

void sg_pool_delay(sg_cpu *cpu, sg_random *random)
{
    if (cpu->delay_us <= 0) return;
    const int64_t draw = sg_random_below(random, 16000);
    if (draw >= 1000) return; /* one in 16 is: schedules of many small tiles are to end, too */
    const int64_t ns = (int64_t)(cpu->delay_us * 1e3) * draw / 1000;
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

/* ---- Failure --------------------------------------------------------------------------------- */

static void take_stands(const sg_cpu *cpu, sg_stand *stand)
{
    for (int r = 0; r < cpu->ranks; r++) {
        sg_cpu_rank *const rank = &cpu->rank[r];
        stand[r] = (sg_stand){.epoch = rank->begun, .running = rank->active, .plan = ""};
        if (!rank->active) continue;
        const sg_bound *const bound = sg_lane_run(rank)->bound;
        stand[r].hash = bound->hash;
        stand[r].plan = bound->text;
        stand[r].stuck = rank->stuck;
        stand[r].waiting = !rank->stopped && rank->running == 0 && rank->linked == 0 &&
                           rank->stuck.kind != SG_STUCK_NOT;
    }
}

void sg_pool_fail(sg_cpu *cpu, const sg_verdict *verdict)
{
    if (cpu->failed) return;
    cpu->failed = true;
    cpu->verdict = *verdict;
    for (int r = 0; r < cpu->ranks; r++) {
        sg_cpu_rank *const rank = &cpu->rank[r];
        sg_lane_drop(rank);
        sg_link_drop(&rank->link);
    }
    pthread_cond_broadcast(&cpu->work);
    sg_pool_settle(cpu);
}

/* Once no worker and no link touches the memory of any run, the runs are forgotten. */
void sg_pool_settle(sg_cpu *cpu)
{
    if (!cpu->failed || cpu->drained) return;
    for (int r = 0; r < cpu->ranks; r++)
        if (cpu->rank[r].running > 0 || cpu->rank[r].link.busy) return;
    for (int r = 0; r < cpu->ranks; r++) {
        sg_cpu_rank *const rank = &cpu->rank[r];
        if (rank->active) {
            const sg_bound *const bound = sg_lane_run(rank)->bound;
            const sg_cpu_plan *const plan = bound->backend;
            for (int32_t i = 0; i < bound->sched.counters; i++)
                atomic_store_explicit(&bound->count[i], 0, memory_order_relaxed);
            if (plan->slots > 0) memset(plan->slot_used, 0, (size_t)plan->slots);
        }
        rank->active = false;
        rank->first = rank->runs = 0;
        rank->linked = 0;
        rank->progress = 0;
    }
    memset(cpu->coll, 0, (size_t)cpu->colls * sizeof *cpu->coll);
    cpu->drained = true;
    pthread_cond_broadcast(&cpu->idle);
}

void sg_pool_mismatch(sg_cpu *cpu, int rank, int peer)
{
    sg_stand stand[SG_LOCAL_RANKS];
    sg_verdict verdict;
    take_stands(cpu, stand);
    sg_run_verdict(stand, cpu->ranks, 0, &verdict);
    if (verdict.status != SHINGLE_EMISMATCH) {
        sg_text text = {verdict.text, sizeof verdict.text, 0};
        verdict.status = SHINGLE_EMISMATCH;
        sg_text_add(&text, "ranks %d and %d run different plans: rank %d runs ", rank, peer, rank);
        sg_plan_quote(stand[rank].plan, NULL, &text);
    }
    sg_pool_fail(cpu, &verdict);
}

/* The user's function did not compute the rows of V. */
void sg_pool_refused(sg_cpu *cpu, sg_cpu_rank *rank, const sg_cpu_visit *v)
{
    sg_verdict verdict = {.status = SHINGLE_EBACKEND};
    sg_text text = {verdict.text, sizeof verdict.text, 0};
    sg_text_add(&text, "the compute function of rank %d returned %d for rows %d to %d of ",
                rank->rank, v->refused, v->visit.row0, v->visit.row0 + v->visit.rows - 1);
    sg_plan_quote(sg_lane_run(rank)->bound->text, NULL, &text);
    sg_pool_fail(cpu, &verdict);
}

/* ---- Judgement ------------------------------------------------------------------------------- */

/* The unit whose user's function has been at work for longest, and its rank; NULL: there is none.
 * *CALLS: a run is active that calls one. */
static const sg_cpu_visit *find_call(sg_cpu *cpu, int *rank_out, bool *calls)
{
    const sg_cpu_visit *longest = NULL;
    *calls = false;
    for (int r = 0; r < cpu->ranks; r++) {
        sg_cpu_rank *const rank = &cpu->rank[r];
        if (!rank->active || !sg_lane_run(rank)->bound->problem.call) continue;
        *calls = true;
        const sg_cpu_plan *const plan = sg_lane_plan(rank);
        for (int i = 0; i < plan->visits && rank->running > 0; i++) {
            const sg_cpu_visit *const v = &plan->visit[i];
            if (v->state != SG_VISIT_RUNNING || v->called_us == 0) continue;
            if (longest != NULL && longest->called_us <= v->called_us) continue;
            longest = v;
            *rank_out = r;
        }
    }
    return longest;
}

static void name_rows(sg_cpu_rank *rank, const sg_cpu_visit *v, sg_text *text)
{
    sg_text_add(text, "the compute function of rank %d has been at rows %d to %d of ", rank->rank,
                v->visit.row0, v->visit.row0 + v->visit.rows - 1);
    sg_plan_quote(sg_lane_run(rank)->bound->text, NULL, text);
}

void sg_pool_name_call(sg_cpu *cpu, sg_text *text)
{
    int rank = 0;
    bool calls = false;
    const sg_cpu_visit *const v = find_call(cpu, &rank, &calls);
    if (v == NULL) return;
    sg_text_add(text, ": ");
    name_rows(&cpu->rank[rank], v, text);
}

/* What is our own ends, however long it takes; a function of the user's may not.  It has a limit of
 * its own, and whoever is awake judges it: all workers may be inside. */
double sg_pool_judge_calls(sg_cpu *cpu)
{
    int rank = 0;
    bool calls = false;
    if (cpu->failed) return DBL_MAX;
    const sg_cpu_visit *const v = find_call(cpu, &rank, &calls);
    if (!calls) return DBL_MAX;
    const double now_us = sg_now_us();
    /* It may have returned in between, and then it has taken no time. */
    const double called_us = v != NULL ? v->called_us : 0;
    if (called_us == 0) return now_us + cpu->timeout_us;
    if (now_us - called_us < cpu->timeout_us) return called_us + cpu->timeout_us;
    sg_verdict verdict = {.status = SHINGLE_ETIMEOUT};
    sg_text text = {verdict.text, sizeof verdict.text, 0};
    name_rows(&cpu->rank[rank], v, &text);
    sg_text_add(&text, " for %g s", cpu->timeout_us / 1e6);
    sg_pool_fail(cpu, &verdict);
    return DBL_MAX;
}

/* Is a worker or a link at something? */
static bool is_at_work(const sg_cpu *cpu)
{
    bool works = false;
    for (int r = 0; r < cpu->ranks; r++)
        works |= cpu->rank[r].link.busy || cpu->rank[r].running > 0;
    return works;
}

/* Fails the group if nothing has made progress for too long.  Comes right after a look at all ranks
 * that found nothing to do, so what each is stuck on is known. */
static void judge(sg_cpu *cpu)
{
    (void)sg_pool_judge_calls(cpu);
    if (cpu->failed || sg_now_us() - cpu->progress_us < cpu->timeout_us) return;
    bool any = false;
    for (int r = 0; r < cpu->ranks; r++) any |= cpu->rank[r].runs > 0;
    if (!any) return;
    if (is_at_work(cpu)) {
        sg_pool_progress(cpu);
        return;
    }
    sg_stand stand[SG_LOCAL_RANKS];
    sg_verdict verdict;
    take_stands(cpu, stand);
    sg_run_verdict(stand, cpu->ranks, cpu->timeout_us / 1e6, &verdict);
    sg_pool_fail(cpu, &verdict);
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* Ranks in the order in which they should be served: the one a worker was with, unless it is too
 * far ahead, then the least advanced first. */
static int order_ranks(const sg_cpu *cpu, int with, int *order)
{
    int count = 0;
    for (int r = 0; r < cpu->ranks; r++) {
        if (cpu->rank[r].runs == 0) continue;
        int at = count++;
        for (; at > 0 && cpu->rank[order[at - 1]].progress > cpu->rank[r].progress; at--)
            order[at] = order[at - 1];
        order[at] = r;
    }
    if (count == 0 || cpu->rank[with].runs == 0 ||
        cpu->rank[with].progress > cpu->rank[order[0]].progress + SG_POOL_MOST_AHEAD)
        return count;
    int at = 0;
    while (order[at] != with) at++;
    for (; at > 0; at--) order[at] = order[at - 1];
    order[0] = with;
    return count;
}

static sg_cpu_visit *hunt(sg_cpu *cpu, sg_cpu_worker *worker)
{
    int order[SG_LOCAL_RANKS];
    const int count = order_ranks(cpu, worker->rank, order);
    for (int i = 0; i < count && !cpu->failed; i++) {
        sg_cpu_visit *const v = sg_lane_offer(cpu, &cpu->rank[order[i]]);
        if (v == NULL) continue;
        worker->rank = order[i];
        return v;
    }
    return NULL;
}

/* Sleeps until woken or until it is time to judge; true in the second case. */
static bool rest(sg_cpu *cpu)
{
    bool any = false;
    for (int r = 0; r < cpu->ranks; r++) any |= cpu->rank[r].runs > 0;
    int error = 0;
    cpu->sleepers++;
    if (any && !cpu->failed) {
        const double call_us = sg_pool_judge_calls(cpu);
        const double halt_us = cpu->progress_us + cpu->timeout_us;
        const struct timespec until = sg_deadline(call_us < halt_us ? call_us : halt_us);
        error = pthread_cond_timedwait(&cpu->work, &cpu->mutex, &until);
    } else {
        pthread_cond_wait(&cpu->work, &cpu->mutex);
    }
    cpu->sleepers--;
    return error == ETIMEDOUT;
}

static void carry_out(sg_cpu *cpu, sg_cpu_worker *worker, sg_cpu_visit *v)
{
    sg_cpu_rank *const rank = &cpu->rank[worker->rank];
    sg_pool_wake(cpu);
    const bool traced = sg_trace_is_on(cpu, rank);
    pthread_mutex_unlock(&cpu->mutex);
    sg_pool_delay(cpu, &worker->random);
    const double begin_us = traced ? sg_now_us() : 0;
    const bool done = sg_visit_carry_out(worker, rank, v);
    if (done) sg_pool_delay(cpu, &worker->random);
    pthread_mutex_lock(&cpu->mutex);
    if (traced) sg_trace_unit(cpu, rank, v, begin_us);
    rank->running--;
    if (v->refused != 0) sg_pool_refused(cpu, rank, v);
    if (!done && !cpu->failed) {
        v->state = SG_VISIT_PARKED;
        return;
    }
    v->state = SG_VISIT_FREE;
    if (cpu->failed)
        sg_pool_settle(cpu);
    else if (!v->queued)
        sg_lane_done(cpu, rank, v->step, &v->visit, v->weight, false);
}

static void *work(void *context)
{
    sg_cpu_worker *const worker = context;
    sg_cpu *const cpu = worker->cpu;
    bool time_is_up = false;
    pthread_mutex_lock(&cpu->mutex);
    while (!cpu->stop) {
        sg_cpu_visit *const v = hunt(cpu, worker);
        sg_lane_advance(cpu);
        if (v != NULL) {
            carry_out(cpu, worker, v);
        } else {
            if (time_is_up) judge(cpu);
            if (cpu->stop) break;
            time_is_up = rest(cpu);
        }
    }
    pthread_mutex_unlock(&cpu->mutex);
    return NULL;
}

shingle_status sg_pool_start(sg_cpu *cpu)
{
    for (int i = 0; i < cpu->threads; i++) {
        sg_cpu_worker *const worker = &cpu->worker[i];
        worker->cpu = cpu;
        worker->rank = i % cpu->ranks;
        SG_TRY(sg_tile_scratch_create(&worker->scratch));
        const int error = sg_thread_start(&worker->thread, work, worker);
        if (error != 0)
            return sg_fail(SHINGLE_EBACKEND, "cannot start worker %d of %d: %s", i, cpu->threads,
                           strerror(error));
        worker->started = true;
    }
    return SHINGLE_OK;
}

void sg_pool_stop(sg_cpu *cpu)
{
    pthread_mutex_lock(&cpu->mutex);
    cpu->stop = true;
    pthread_cond_broadcast(&cpu->work);
    pthread_mutex_unlock(&cpu->mutex);
    for (int i = 0; i < cpu->threads; i++) {
        if (cpu->worker[i].started) pthread_join(cpu->worker[i].thread, NULL);
        sg_tile_scratch_free(cpu->worker[i].scratch);
    }
}
