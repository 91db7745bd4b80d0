/* cpu.c -- the table of the CPU backend.  A run is copied into its rank's list, which the workers
 * of pool.c carry out; nothing here computes. */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"

extern const sg_backend sg_backend_cpu;

/* ---- Open ------------------------------------------------------------------------------------ */

/* Processors that this process may use. */
static int cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

static void close_group(void *self)
{
    sg_cpu *const cpu = self;
    if (cpu->worker != NULL && cpu->rank != NULL) {
        sg_pool_stop(cpu);
        for (int r = 0; r < cpu->ranks; r++) sg_link_stop(&cpu->rank[r].link);
    }
    for (int32_t i = 0; i < cpu->packs; i++) sg_pack_free(cpu->pack[i]);
    free(cpu->pack);
    free(cpu->links_us);
    free(cpu->coll);
    free(cpu->rank);
    free(cpu->worker);
    pthread_cond_destroy(&cpu->work);
    pthread_cond_destroy(&cpu->idle);
    pthread_mutex_destroy(&cpu->mutex);
    free(cpu);
}

static const double opening_us = 10e6; /* limit of no progress until the group is open */

static shingle_status start(sg_cpu *cpu, const sg_backend_config *config)
{
    cpu->rank = calloc((size_t)cpu->ranks, sizeof *cpu->rank);
    cpu->worker = calloc((size_t)cpu->threads, sizeof *cpu->worker);
    cpu->colls = cpu->ranks * SG_MAX_LANES;
    cpu->coll = calloc((size_t)cpu->colls, sizeof *cpu->coll);
    if (cpu->rank == NULL || cpu->worker == NULL || cpu->coll == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory for %d ranks and %d workers", cpu->ranks,
                       cpu->threads);
    for (int r = 0; r < cpu->ranks; r++) {
        cpu->rank[r].rank = r;
        cpu->rank[r].stop_after = -1;
    }
    for (int r = 0; r < cpu->ranks; r++) SG_TRY(sg_link_start(cpu, &cpu->rank[r].link, r));
    SG_TRY(sg_pool_start(cpu));
    /* What a rank may take on a busy machine while the group measures itself
     * is not the caller's to say. */
    cpu->timeout_us = fmax(config->timeout_seconds * 1e6, opening_us);
    SG_TRY(sg_rates_measure(cpu, &sg_backend_cpu, config));
    pthread_mutex_lock(&cpu->mutex);
    cpu->timeout_us = config->timeout_seconds * 1e6;
    pthread_mutex_unlock(&cpu->mutex);
    return SHINGLE_OK;
}

static shingle_status open_group(const sg_backend_config *config, void **self_out)
{
    sg_cpu *const cpu = calloc(1, sizeof *cpu);
    if (cpu == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %d ranks", config->ranks);
    cpu->ranks = config->ranks;
    cpu->threads = config->threads > 0 ? config->threads : cores();
    pthread_mutex_init(&cpu->mutex, NULL);
    sg_cond_init(&cpu->work);
    sg_cond_init(&cpu->idle);
    sg_tile_init();
    const shingle_status status = start(cpu, config);
    if (status != SHINGLE_OK) {
        close_group(cpu);
        return status;
    }
    *self_out = cpu;
    return SHINGLE_OK;
}

static shingle_status describe(void *self, sg_type type, sg_machine *machine_out)
{
    const sg_cpu *const cpu = self;
    *machine_out = cpu->machine[type];
    return SHINGLE_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Aligned to 64 bytes; what malloc returned stands in front.  Pages stay untouched until used. */
static shingle_status alloc(void *self, int rank, sg_arena_kind arena, size_t bytes,
                            void **memory_out)
{
    enum { LINE = 64 };
    (void)self;
    (void)arena;
    char *const memory = bytes <= SIZE_MAX - 2 * LINE ? calloc(1, bytes + 2 * LINE) : NULL;
    if (memory == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory for %zu bytes of rank %d", bytes, rank);
    char *const aligned = memory + 2 * LINE - (uintptr_t)memory % LINE;
    memcpy(aligned - sizeof memory, &memory, sizeof memory);
    *memory_out = aligned;
    return SHINGLE_OK;
}

static void release(void *self, int rank, void *memory)
{
    (void)self;
    (void)rank;
    char *original = NULL;
    memcpy(&original, (char *)memory - sizeof original, sizeof original);
    free(original);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static shingle_status bind(void *self, sg_bound *bound)
{
    return sg_bind_make(self, bound);
}

/* Waits for a run to end.  False: it is AT_US.  With the mutex held; who waits judges, too. */
static bool wait_some(sg_cpu *cpu, double at_us)
{
    const double call_us = sg_pool_judge_calls(cpu);
    const struct timespec until = sg_deadline(call_us < at_us ? call_us : at_us);
    return pthread_cond_timedwait(&cpu->idle, &cpu->mutex, &until) == 0 || call_us < at_us;
}

static bool is_idle(const sg_cpu *cpu, const sg_cpu_rank *rank)
{
    return cpu->failed ? cpu->drained : rank->runs == 0;
}

/* Has RANK no run, or was all forgotten after a failure, before AT_US?  With the mutex held. */
static bool wait_idle(sg_cpu *cpu, const sg_cpu_rank *rank, double at_us)
{
    bool more = true;
    while (!is_idle(cpu, rank) && more) more = wait_some(cpu, at_us);
    return is_idle(cpu, rank);
}

static void unbind(void *self, sg_bound *bound)
{
    sg_cpu *const cpu = self;
    const sg_cpu_rank *const rank = &cpu->rank[bound->work->rank];
    pthread_mutex_lock(&cpu->mutex);
    const bool idle = wait_idle(cpu, rank, sg_now_us() + 2 * cpu->timeout_us + 1e6);
    pthread_mutex_unlock(&cpu->mutex);
    if (!idle) return;
    sg_bind_free(bound->backend);
    bound->backend = NULL;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* With the mutex held. */
static shingle_status failure(const sg_cpu *cpu)
{
    return sg_fail(cpu->verdict.status, "%s", cpu->verdict.text);
}

/* The group has failed, and something of it goes on.  With the mutex held. */
static shingle_status still_works(sg_cpu *cpu, double seconds)
{
    char who[320] = "";
    sg_pool_name_call(cpu, &(sg_text){who, sizeof who, 0});
    return sg_fail(SHINGLE_EBUSY, "the group has failed, and part of its work goes on after %g s%s",
                   seconds, who);
}

static shingle_status begin(void *self, sg_run *run)
{
    sg_cpu *const cpu = self;
    sg_cpu_rank *const rank = &cpu->rank[run->work->rank];
    const double until_us = sg_now_us() + 2 * cpu->timeout_us;
    shingle_status status = SHINGLE_OK;
    bool more = true;
    pthread_mutex_lock(&cpu->mutex);
    while (!cpu->failed && rank->runs == SG_CPU_RUNS && more) more = wait_some(cpu, until_us);
    if (cpu->failed)
        status = failure(cpu);
    else if (rank->runs == SG_CPU_RUNS)
        status = sg_fail(SHINGLE_ETIMEOUT, "rank %d has %d runs waiting and none ended within %g s",
                         rank->rank, rank->runs, 2 * cpu->timeout_us / 1e6);
    pthread_mutex_unlock(&cpu->mutex);
    return status;
}

/* The schedule is the list: workers find the step there when its turn comes. */
static shingle_status issue(void *self, sg_run *run, int32_t step)
{
    (void)self;
    (void)run;
    (void)step;
    return SHINGLE_OK;
}

static shingle_status end(void *self, sg_run *run)
{
    sg_cpu *const cpu = self;
    sg_cpu_rank *const rank = &cpu->rank[run->work->rank];
    pthread_mutex_lock(&cpu->mutex);
    const shingle_status status = cpu->failed ? failure(cpu) : SHINGLE_OK;
    if (status == SHINGLE_OK) {
        rank->run[(rank->first + rank->runs++) % SG_CPU_RUNS] = *run;
        cpu->look |= UINT64_C(1) << rank->rank;
        sg_pool_progress(cpu);
        sg_lane_advance(cpu);
        sg_pool_wake(cpu);
    }
    pthread_mutex_unlock(&cpu->mutex);
    return status;
}

static shingle_status sync_rank(void *self, int index, double seconds)
{
    sg_cpu *const cpu = self;
    sg_cpu_rank *const rank = &cpu->rank[index];
    shingle_status status = SHINGLE_OK;
    pthread_mutex_lock(&cpu->mutex);
    const bool idle = wait_idle(cpu, rank, sg_now_us() + seconds * 1e6);
    if (cpu->failed && !idle) /* who is told of the failure may free the tensors */
        status = still_works(cpu, seconds);
    else if (cpu->failed)
        status = failure(cpu);
    else if (rank->runs > 0)
        status =
            sg_fail(SHINGLE_EBUSY, "rank %d has %d runs that did not end within %g s; they go on",
                    index, rank->runs, seconds);
    pthread_mutex_unlock(&cpu->mutex);
    return status;
}

static int in_flight(void *self, int rank)
{
    sg_cpu *const cpu = self;
    pthread_mutex_lock(&cpu->mutex);
    const int runs = cpu->rank[rank].runs;
    pthread_mutex_unlock(&cpu->mutex);
    return runs;
}

static void record_into(void *self, sg_record *record)
{
    sg_cpu *const cpu = self;
    pthread_mutex_lock(&cpu->mutex);
    cpu->record = record;
    if (record != NULL) record->workers = cpu->threads;
    pthread_mutex_unlock(&cpu->mutex);
}

static shingle_status recover(void *self, sg_work *const *work, double seconds)
{
    static const sg_verdict dropped = {SHINGLE_ETIMEOUT, "the group was closed or recovered"};
    sg_cpu *const cpu = self;
    char who[320] = "";
    const struct timespec until = sg_deadline(sg_now_us() + seconds * 1e6);
    shingle_status status = SHINGLE_OK;
    int error = 0;
    pthread_mutex_lock(&cpu->mutex);
    sg_pool_fail(cpu, &dropped);
    while (!cpu->drained && error == 0)
        error = pthread_cond_timedwait(&cpu->idle, &cpu->mutex, &until);
    if (!cpu->drained) {
        sg_pool_name_call(cpu, &(sg_text){who, sizeof who, 0});
        status = sg_fail(SHINGLE_ETIMEOUT, "a worker or a link did not let go within %g s%s",
                         seconds, who);
    } else if (work != NULL) {
        sg_work_recover(cpu->ranks, work);
        sg_record_recover(cpu->record);
        for (int r = 0; r < cpu->ranks; r++) cpu->rank[r].stopped = false;
        cpu->failed = cpu->drained = false;
    }
    pthread_mutex_unlock(&cpu->mutex);
    return status;
}

static bool keeps_order(void *self, const sg_sched *s, sg_text *why)
{
    (void)self;
    (void)s;
    if (sg_tile_is_one_chain()) return true;
    sg_text_add(why, "%s sums k in an order of its own", sg_tile_engine());
    return false;
}

const sg_backend sg_backend_cpu = {
    .name = "cpu",
    .brief = "ranks of one process, a worker per core, links at memory speed or scaled",
    .open = open_group,
    .close = close_group,
    .describe = describe,
    .alloc = alloc,
    .release = release,
    .keeps_order = keeps_order,
    .bind = bind,
    .unbind = unbind,
    .begin = begin,
    .issue = {[SG_LAUNCH] = issue,
              [SG_COPY] = issue,
              [SG_REDUCE] = issue,
              [SG_COLL] = issue,
              [SG_FLAG] = issue},
    .end = end,
    .sync = sync_rank,
    .in_flight = in_flight,
    .record = record_into,
    .recover = recover,
};
