/* fail.c -- waiting for runs; and when a group comes to a halt: everything is drained, one verdict
 * is made for all ranks, and recovery starts over.
 *
 * A wait inside a kernel ends by itself, records what it waited for and raises `abort` at all
 * ranks, so kernels drain without the host.  Collectives of the library do not: the host notices
 * that a run which has begun does not end and that no other has ended for the limit, and takes the
 * library's group down. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"

static const double most_slack_us = 500e3;
static const double drain_us = 2000e3; /* what is queued behind them is, too */

/* How long after the limit the host acts on its own: kernels notice by themselves first, and are
 * gone soon after they see `abort`. */
static double slack_us(const sg_cuda *cuda)
{
    return fmin(cuda->timeout_us, most_slack_us);
}

/* The mutex, for who asks how runs stand. */
static enum cudaStreamCaptureMode begin_looking(sg_cuda *cuda)
{
    pthread_mutex_lock(&cuda->mutex);
    return sg_cuda_relax();
}

static void end_looking(sg_cuda *cuda, enum cudaStreamCaptureMode mode)
{
    sg_cuda_restore(mode);
    pthread_mutex_unlock(&cuda->mutex);
}

/* ---- What is on its way ---------------------------------------------------------------------- */

static bool has_trouble(const sg_cuda *cuda)
{
    for (int r = 0; r < cuda->ranks; r++)
        if (__atomic_load_n(&cuda->rank[r].trouble->kind, __ATOMIC_ACQUIRE) != 0) return true;
    return false;
}

static cudaEvent_t event_of(const sg_cuda_rank *rank, uint64_t run)
{
    return rank->flight[run % SG_CUDA_FLIGHT].ended;
}

/* The first marked run from RUN on; ISSUED: there is none. */
static uint64_t next_marked(const sg_cuda_rank *rank, uint64_t run)
{
    while (run < rank->issued && !rank->flight[run % SG_CUDA_FLIGHT].marked) run++;
    return run;
}

/* Not over, as far as can be known: while another thread captures a graph, nobody may ask. */
static bool is_pending(cudaError_t answer)
{
    return answer == cudaErrorNotReady || (answer >= cudaErrorStreamCaptureUnsupported &&
                                           answer <= cudaErrorStreamCaptureWrongThread);
}

/* Runs behind the last mark are on the rank's own stream.  What a GPU has lost has
 * not ended well, if at all. */
static void reap_rank(sg_cuda *cuda, sg_cuda_rank *rank)
{
    const uint64_t before = rank->first;
    while (rank->first < rank->issued) {
        const uint64_t run = next_marked(rank, rank->first);
        const cudaError_t error = run < rank->issued
                                      ? sg_cuda_event_stands(cuda, event_of(rank, run))
                                      : sg_cuda_stream_stands(cuda, rank->lane[0]);
        if (error != cudaSuccess && !is_pending(error) && cuda->lost == cudaSuccess) {
            cuda->lost = error;
            cuda->lost_rank = rank->rank;
        }
        if (error != cudaSuccess || has_trouble(cuda)) break;
        __atomic_store_n(&rank->first, run < rank->issued ? run + 1 : run, __ATOMIC_RELAXED);
    }
    if (rank->first > before) cuda->progress_us = sg_now_us();
}

/* Runs that ended after somebody recorded trouble have drained, and count as in flight: the verdict
 * is about them. */
void sg_cuda_reap(sg_cuda *cuda)
{
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    for (int r = 0; r < cuda->ranks && !cuda->failed; r++) reap_rank(cuda, &cuda->rank[r]);
    sg_cuda_restore(mode);
}

/* Is nothing on LANE, as far as that may be asked? */
static bool is_empty(const sg_cuda *cuda, cudaStream_t lane)
{
    return sg_cuda_is_captured(lane) || !is_pending(sg_cuda_stream_stands(cuda, lane));
}

/* Are all streams empty?  Behind `fork` is what was enqueued of a run that could not be to its
 * end. */
static bool is_idle(const sg_cuda *cuda)
{
    bool idle = !sg_cuda_is_stuck(cuda);
    for (int r = 0; r < cuda->ranks; r++) {
        const sg_cuda_rank *const rank = &cuda->rank[r];
        for (uint64_t i = next_marked(rank, rank->first); i < rank->issued && idle;
             i = next_marked(rank, i + 1))
            idle = !is_pending(sg_cuda_event_stands(cuda, event_of(rank, i)));
        for (int i = 0; i < SG_MAX_LANES && idle; i++) idle = is_empty(cuda, rank->lane[i]);
        /* Which a graph may have captured. */
        if (idle) idle = sg_cuda_event_stands(cuda, rank->fork) != cudaErrorNotReady;
    }
    return idle;
}

static bool wait_idle(sg_cuda *cuda, double limit_us)
{
    const double until = sg_now_us() + limit_us;
    while (!is_idle(cuda)) {
        if (sg_now_us() > until) return false;
        sg_cuda_pause();
    }
    return true;
}

/* Raises `abort` at all ranks, in the name of all, and gives a start: kernels stop waiting. */
static void raise_abort(sg_cuda *cuda)
{
    if (cuda->start != NULL) *(volatile uint32_t *)cuda->start = *cuda->start + 1;
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        sg_kernel_words words[SG_CUDA_RANKS];
        const size_t bytes = (size_t)cuda->ranks * sizeof words[0];
        int caller = 0;
        if (sg_cuda_enter(rank, &caller) != SHINGLE_OK) continue;
        if (sg_cuda_fetch(rank, words, rank->words, bytes) == SHINGLE_OK &&
            words[r].abort != NULL) {
            uint64_t ones[SG_CUDA_RANKS];
            for (int q = 0; q < cuda->ranks; q++) ones[q] = 1;
            (void)sg_cuda_put(rank, words[r].abort, ones, (size_t)cuda->ranks * sizeof ones[0]);
        }
        sg_cuda_leave(rank, caller);
    }
}

/* A lane of RANK, behind all collectives that it has enqueued: they are in runs that are marked, on
 * its lanes, or in the run that could not be enqueued, which is not where lanes are captured. */
static cudaStream_t behind_all(sg_cuda_rank *rank)
{
    const bool taken = sg_cuda_is_captured(rank->lane[SG_MAX_LANES - 1]);
    cudaStream_t const last = rank->lane[taken ? 0 : SG_MAX_LANES - 1]; /* 0: never captured */
    bool forks = true;
    int caller = 0;
    if (sg_cuda_enter(rank, &caller) != SHINGLE_OK) return last;
    for (int i = 0; i < SG_MAX_LANES; i++) {
        const bool captured = sg_cuda_is_captured(rank->lane[i]);
        forks &= !captured;
        if (captured || rank->lane[i] == last) continue;
        (void)cudaEventRecord(rank->join[i], rank->lane[i]);
        (void)cudaStreamWaitEvent(last, rank->join[i], 0);
    }
    /* A graph may have captured that event, and be gone. */
    if (forks && sg_cuda_event_stands(rank->cuda, rank->fork) == cudaErrorNotReady)
        (void)cudaStreamWaitEvent(last, rank->fork, 0);
    for (uint64_t run = next_marked(rank, rank->first); run < rank->issued;
         run = next_marked(rank, run + 1))
        (void)cudaStreamWaitEvent(last, event_of(rank, run), 0);
    sg_cuda_leave(rank, caller);
    return last;
}

/* From here on no rank calls the library of collectives (sg_cuda_issue_coll), and no call is under
 * way that is about to come back: a group must not be taken down under one, which does not come
 * back by itself if it waits for a rank that never comes. */
static void await_calls(sg_cuda *cuda)
{
    const double until = sg_now_us() + drain_us;
    __atomic_store_n(&cuda->halts, true, __ATOMIC_SEQ_CST);
    for (int r = 0; r < cuda->ranks; r++)
        while (__atomic_load_n(&cuda->rank[r].calls, __ATOMIC_SEQ_CST) && sg_now_us() < until)
            sg_cuda_pause();
}

/* Nothing is on its way any more.  Kernels see `abort` at once; what collectives hold is given up,
 * or, in windows, brought to an end. */
static bool drain(sg_cuda *cuda, double limit_us)
{
    raise_abort(cuda);
    if (wait_idle(cuda, slack_us(cuda))) return true;
    double until = sg_now_us() + limit_us;
    if (cuda->collect != NULL) {
        void *stream[SG_CUDA_RANKS];
        await_calls(cuda);
        until = sg_now_us() + limit_us;
        for (int r = 0; r < cuda->ranks; r++) stream[r] = behind_all(&cuda->rank[r]);
        if (!sg_collect_attend(cuda->collect, stream))
            (void)sg_collect_abort(cuda->collect, until - sg_now_us());
        cuda->collect_lost = true;
    }
    return wait_idle(cuda, until - sg_now_us());
}

/* Has the oldest run of RANK that is on its way begun on the GPU?  If nobody can tell, it has. */
static bool has_begun(sg_cuda *cuda, sg_cuda_rank *rank)
{
    const sg_cuda_flight *const oldest = &rank->flight[rank->first % SG_CUDA_FLIGHT];
    if (oldest->tells) return !is_pending(sg_cuda_event_stands(cuda, oldest->begun));
    return !oldest->plan->bound->sched.hello || sg_cuda_has_said_hello(cuda, rank, true);
}

/* ---- Verdict --------------------------------------------------------------------------------- */

static const char *text_of(const sg_cuda_rank *rank, uint64_t hash)
{
    for (const sg_cuda_plan *plan = rank->plans; plan != NULL; plan = plan->next)
        if (plan->bound->hash == hash) return plan->bound->text;
    return "a plan that is not bound any more";
}

/* Where RANK stands by the words on its device: its last hello, and whether it ended that run. */
static shingle_status read_stand(sg_cuda *cuda, sg_cuda_rank *rank, sg_stand *stand)
{
    sg_kernel_words words[SG_CUDA_RANKS];
    sg_kernel_hello hello[2];
    uint64_t done = 0;
    const int self = rank->rank;
    SG_TRY(sg_cuda_fetch(rank, words, rank->words, (size_t)cuda->ranks * sizeof words[0]));
    if (words[self].hello == NULL) return SHINGLE_OK;
    SG_TRY(sg_cuda_fetch(rank, hello, words[self].hello + 2 * self, sizeof hello));
    SG_TRY(sg_cuda_fetch(rank, &done, words[self].done + self, sizeof done));
    const sg_kernel_hello *const last = &hello[hello[1].epoch > hello[0].epoch];
    stand->epoch = last->epoch;
    stand->running = last->epoch > done;
    stand->hash = last->hash;
    stand->plan = text_of(rank, last->hash);
    const sg_kernel_trouble *const t = rank->trouble;
    if (t->kind == SG_KERNEL_STUCK_NOT) return SHINGLE_OK;
    if (t->hash != 0) { /* a run behind the one that failed may have said hello since */
        stand->hash = t->hash;
        stand->plan = text_of(rank, t->hash);
    }
    /* A mismatch shows in the hashes; there is nothing to wait for. */
    stand->waiting = t->kind <= SG_KERNEL_STUCK_END;
    stand->stuck = (sg_stuck){.kind = (sg_stuck_kind)t->kind,
                              .by = t->by,
                              .step = t->step,
                              .visit = t->visit,
                              .flag = t->flag,
                              .seen = t->seen,
                              .wanted = t->wanted};
    return SHINGLE_OK;
}

/* Where ranks stand by what the host has enqueued.  Numbers are the host's. */
static void recall_stand(sg_cuda *cuda, sg_cuda_rank *rank, sg_stand *stand)
{
    const bool pending = rank->first < rank->issued && has_begun(cuda, rank);
    const sg_cuda_flight *const oldest = &rank->flight[rank->first % SG_CUDA_FLIGHT];
    *stand = (sg_stand){.epoch = rank->first + pending, .running = pending};
    if (!pending) return;
    stand->hash = oldest->hash;
    stand->plan = oldest->text;
    stand->waiting = true;
    stand->stuck = (sg_stuck){.kind = SG_STUCK_COLL, .step = -1, .visit = -1, .flag = -1};
}

/* Where ranks are in run number RUN (from 0 on), which is not the same to all of them. */
static void stand_at(const sg_cuda *cuda, uint64_t run, sg_stand *stand)
{
    for (int r = 0; r < cuda->ranks; r++) {
        const sg_cuda_rank *const rank = &cuda->rank[r];
        if (run < rank->first || run >= rank->issued) continue;
        const sg_cuda_flight *const flight = &rank->flight[run % SG_CUDA_FLIGHT];
        stand[r].epoch = run + 1;
        stand[r].running = true;
        stand[r].hash = flight->hash;
        stand[r].plan = flight->text;
    }
}

/* Is there a run on the way in which ranks have different plans?  Then STAND says how they stand in
 * it.  Some of what counts as on the way may have ended (protocol.c), but not so. */
static bool differ(const sg_cuda *cuda, sg_stand *stand)
{
    for (int r = 1; r < cuda->ranks; r++)
        for (int q = 0; q < r; q++) {
            const sg_cuda_rank *const a = &cuda->rank[r];
            const sg_cuda_rank *const b = &cuda->rank[q];
            uint64_t run = a->first > b->first ? a->first : b->first;
            for (; run < a->issued && run < b->issued; run++) {
                if (a->flight[run % SG_CUDA_FLIGHT].hash == b->flight[run % SG_CUDA_FLIGHT].hash)
                    continue;
                stand_at(cuda, run, stand);
                return true;
            }
        }
    return false;
}

/* Who is waited for in a collective: the first rank that is behind, as the verdict will name. */
static void name_missing(sg_stand *stand, int ranks)
{
    for (int r = 0; r < ranks; r++)
        for (int q = 0; q < ranks && stand[r].waiting; q++) {
            if (stand[q].epoch >= stand[r].epoch) continue;
            stand[r].stuck.by = q;
            stand[r].stuck.seen = stand[q].epoch;
            stand[r].stuck.wanted = stand[r].epoch;
            break;
        }
}

/* With the mutex held, once a failure: STANDS by the host are from before everything was
 * drained. */
static void judge(sg_cuda *cuda)
{
    sg_stand host[SG_CUDA_RANKS];
    sg_stand device[SG_CUDA_RANKS];
    bool trouble = false;
    const double seconds = cuda->timeout_us / 1e6;
    memset(device, 0, sizeof device);
    for (int r = 0; r < cuda->ranks; r++) recall_stand(cuda, &cuda->rank[r], &host[r]);
    name_missing(host, cuda->ranks);
    if (!drain(cuda, cuda->timeout_us + drain_us))
        sg_log(SG_LOG_ERROR, "cuda: a GPU does not let go of its runs");
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        trouble |= rank->trouble->kind != SG_KERNEL_STUCK_NOT;
        int caller = 0;
        if (sg_cuda_enter(rank, &caller) != SHINGLE_OK) continue;
        (void)read_stand(cuda, rank, &device[r]);
        sg_cuda_leave(rank, caller);
    }
    const bool by_host = differ(cuda, host) || !trouble;
    sg_run_verdict(by_host ? host : device, cuda->ranks, seconds, &cuda->verdict);
    cuda->failed = true;
}

/* Is there a run that waits for other ranks and has begun?  *COLLECTS_OUT: it has collectives. */
static bool is_held(sg_cuda *cuda, bool *collects_out)
{
    bool held = false;
    *collects_out = false;
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        if (rank->first == rank->issued) continue;
        const sg_cuda_plan *const plan = rank->flight[rank->first % SG_CUDA_FLIGHT].plan;
        if (!plan->collects && !plan->bound->sched.peers) continue;
        if (!has_begun(cuda, rank)) continue;
        held = true;
        *collects_out |= plan->collects;
    }
    return held;
}

/* Are all ranks in the same run, begun on all GPUs?  Then nobody waits for who does not come. */
static bool is_together(sg_cuda *cuda)
{
    const sg_cuda_rank *const one = &cuda->rank[0];
    const sg_cuda_flight *const its = &one->flight[one->first % SG_CUDA_FLIGHT];
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        if (rank->first != one->first || rank->first == rank->issued) return false;
        if (rank->flight[rank->first % SG_CUDA_FLIGHT].hash != its->hash) return false;
        if (!has_begun(cuda, rank)) return false;
    }
    return true;
}

/* Has a run that waits for others begun, and does not end although nobody ends any other?
 * Collectives make it one that no kernel gives up.  Looked at now and then, and from the first look
 * on that finds it so: who comes back after a pause has not seen what ended or began meanwhile.
 * What stands behind other work of its caller's waits for no rank yet, and what all have begun may
 * just be long. */
static bool hangs(sg_cuda *cuda)
{
    enum { LONG = 16 }; /* limits */
    const double pause_us = slack_us(cuda) / 2;
    bool collects = false;
    if (sg_now_us() - cuda->progress_us < pause_us || sg_now_us() - cuda->looked_us < pause_us)
        return false;
    cuda->looked_us = sg_now_us();
    sg_cuda_reap(cuda);
    if (!is_held(cuda, &collects)) cuda->progress_us = sg_now_us();
    if (cuda->held_us < cuda->progress_us) cuda->held_us = sg_now_us();
    const double held_us = sg_now_us() - cuda->held_us;
    if (held_us <= (collects ? 1 : 2) * cuda->timeout_us) return false;
    return held_us > LONG * cuda->timeout_us || !is_together(cuda);
}

/* With the mutex held: a GPU is lost, and with it what the others wait for. */
static void give_up(sg_cuda *cuda)
{
    sg_text text = {cuda->verdict.text, sizeof cuda->verdict.text, 0};
    cuda->verdict.status = SHINGLE_EBACKEND;
    sg_text_add(&text, "the GPU of rank %d failed: %s", cuda->lost_rank,
                cudaGetErrorString(cuda->lost));
    cuda->failed = true;
    if (!drain(cuda, drain_us)) sg_log(SG_LOG_ERROR, "cuda: a GPU does not let go of its runs");
}

/* With the mutex held.  What is not OK is told by telling(). */
static shingle_status standing(sg_cuda *cuda)
{
    const bool fails = !cuda->failed && (has_trouble(cuda) || hangs(cuda));
    if (!cuda->failed && cuda->lost != cudaSuccess)
        give_up(cuda);
    else if (fails)
        judge(cuda);
    return cuda->failed ? cuda->verdict.status : SHINGLE_OK;
}

static shingle_status telling(const sg_cuda *cuda, shingle_status status)
{
    return status == SHINGLE_OK ? status : sg_fail(status, "%s", cuda->verdict.text);
}

shingle_status sg_cuda_alive(sg_cuda *cuda)
{
    const enum cudaStreamCaptureMode mode = begin_looking(cuda);
    const shingle_status status = telling(cuda, standing(cuda));
    end_looking(cuda, mode);
    return status;
}

shingle_status sg_cuda_stop(sg_cuda *cuda, const sg_cuda_rank *rank, shingle_status status)
{
    const enum cudaStreamCaptureMode mode = begin_looking(cuda);
    if (!cuda->failed) {
        cuda->verdict.status = status;
        sg_text text = {cuda->verdict.text, sizeof cuda->verdict.text, 0};
        sg_text_add(&text, "rank %d could not enqueue a run: %s", rank->rank, shingle_error());
        cuda->failed = true;
    }
    (void)cudaEventRecord(rank->fork, rank->main); /* behind what was enqueued of it */
    if (!drain(cuda, drain_us)) sg_log(SG_LOG_ERROR, "cuda: a GPU does not let go of its runs");
    status = telling(cuda, cuda->verdict.status);
    end_looking(cuda, mode);
    return status;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Of a group that has failed: does nothing of it go on, and will nothing begin?  Runs may stand
 * behind other work of their callers, or a thread may be enqueuing one. */
static bool has_let_go(const sg_cuda *cuda)
{
    for (int r = 0; r < cuda->ranks; r++)
        if (cuda->rank[r].enqueues) return false;
    return is_idle(cuda);
}

/* A failure is told when everything has let go, and the matrices may be freed.  What hangs for good
 * is waited for as long as for a failure, however long SECONDS are. */
shingle_status sg_cuda_sync(void *self, int index, double seconds)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[index];
    const double begun = sg_now_us(), until = begun + seconds * 1e6;
    double give_up_us = 0; /* 0: no failure yet */
    for (;;) {
        const enum cudaStreamCaptureMode mode = begin_looking(cuda);
        sg_cuda_reap(cuda);
        const shingle_status status = standing(cuda);
        const bool works = status != SHINGLE_OK && !has_let_go(cuda);
        const uint64_t runs = rank->issued - rank->first;
        const bool sweeps = runs == 0 && __atomic_load_n(&cuda->dropped, __ATOMIC_RELAXED) != NULL;
        end_looking(cuda, mode);
        if (sweeps) sg_cuda_sweep(cuda, false);
        if (!works && (status != SHINGLE_OK || runs == 0)) return telling(cuda, status);
        const double now = sg_now_us();
        if (works && give_up_us == 0) give_up_us = fmin(until, now + cuda->timeout_us + drain_us);
        if (works && now > give_up_us)
            return sg_fail(SHINGLE_EBUSY,
                           "the group has failed, and part of its work goes on after %.3g s: %s",
                           (give_up_us - begun) / 1e6, cuda->verdict.text);
        if (now > until)
            return sg_fail(SHINGLE_EBUSY,
                           "rank %d has %llu runs that did not end within %g s; they go on", index,
                           (unsigned long long)runs, seconds);
        sg_cuda_pause();
    }
}

/* ---- Recovery -------------------------------------------------------------------------------- */

/* The words of RANK as in a new group, but that epochs go on behind MOST. */
static shingle_status reset_words(sg_cuda *cuda, sg_cuda_rank *rank, const sg_work *work,
                                  uint64_t most)
{
    const size_t ranks = (size_t)cuda->ranks;
    uint64_t done[SG_CUDA_RANKS];
    for (int q = 0; q < cuda->ranks; q++) done[q] = most;
    SG_TRY(sg_cuda_put(rank, (void *)work->words.done, done, ranks * sizeof done[0]));
    SG_TRY(sg_cuda_clear(rank, (void *)work->words.abort, ranks * sizeof(uint64_t)));
    SG_TRY(sg_cuda_clear(rank, work->words.hello, 2 * ranks * sizeof(sg_hello)));
    for (int page = 0; page < SG_FLAG_PAGES; page++) {
        if (work->words.flag[page] == NULL) continue;
        const size_t words = (size_t)SG_FLAG_PAGE0 << (page > 0 ? page - 1 : 0);
        SG_TRY(
            sg_cuda_clear(rank, (void *)work->words.flag[page], ranks * words * sizeof(uint64_t)));
    }
    return SHINGLE_OK;
}

/* Words that have come in a run that failed are read by nobody. */
static shingle_status rest_again(sg_cuda_rank *rank, const sg_work *work)
{
    for (int kind = SG_BLOCK_REST0; kind <= SG_BLOCK_REST1; kind++)
        for (int i = 0; i < SG_BLOCK_CLASSES; i++)
            if (work->block[kind][i] != NULL)
                SG_TRY(sg_cuda_rest(rank, work->block[kind][i], (size_t)1 << i));
    return SHINGLE_OK;
}

static shingle_status reset_rank(sg_cuda *cuda, sg_cuda_rank *rank, const sg_work *work,
                                 uint64_t most)
{
    sg_kernel_rank state;
    SG_TRY(reset_words(cuda, rank, work, most));
    SG_TRY(rest_again(rank, work));
    SG_TRY(sg_cuda_fetch(rank, &state, rank->state, sizeof state));
    state.epoch = most + 1;
    state.last[0] = state.last[1] = 0;
    state.prev_half = 1;
    state.leaving = 0;
    SG_TRY(sg_cuda_put(rank, rank->state, &state, sizeof state));
    for (sg_cuda_plan *plan = rank->plans; plan != NULL; plan = plan->next)
        SG_TRY(sg_cuda_clear(rank, plan->words, plan->words_bytes));
    memset(rank->trouble, 0, sizeof *rank->trouble);
    return SHINGLE_OK;
}

static shingle_status last_epoch(sg_cuda *cuda, uint64_t *most_out)
{
    uint64_t most = 0;
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        sg_kernel_rank state;
        int caller = 0;
        SG_TRY(sg_cuda_enter(rank, &caller));
        const shingle_status status = sg_cuda_fetch(rank, &state, rank->state, sizeof state);
        sg_cuda_leave(rank, caller);
        SG_TRY(status);
        if (state.epoch > most) most = state.epoch;
    }
    *most_out = most;
    return SHINGLE_OK;
}

static shingle_status start_over(sg_cuda *cuda, sg_work *const *work)
{
    uint64_t most = 0;
    uint64_t issued = 0; /* ranks that were left behind are no longer */
    SG_TRY(last_epoch(cuda, &most));
    for (int r = 0; r < cuda->ranks; r++) {
        sg_cuda_rank *const rank = &cuda->rank[r];
        int caller = 0;
        SG_TRY(sg_cuda_enter(rank, &caller));
        const shingle_status status = reset_rank(cuda, rank, work[r], most);
        sg_cuda_leave(rank, caller);
        SG_TRY(status);
        if (rank->issued > issued) issued = rank->issued;
    }
    for (int r = 0; r < cuda->ranks; r++) {
        cuda->rank[r].first = cuda->rank[r].issued = issued;
        cuda->rank[r].ever = false;
    }
    if (cuda->collect_lost) {
        SG_TRY(sg_collect_renew(cuda->collect));
        SG_TRY(sg_cuda_meet(cuda));
        cuda->collect_lost = false;
        __atomic_store_n(&cuda->halts, false, __ATOMIC_SEQ_CST);
    }
    cuda->lost = cudaSuccess;
    cuda->failed = false;
    return SHINGLE_OK;
}

shingle_status sg_cuda_recover(void *self, sg_work *const *work, double seconds)
{
    static const sg_verdict dropped = {SHINGLE_ETIMEOUT, "the group was closed or recovered"};
    sg_cuda *const cuda = self;
    shingle_status status = SHINGLE_OK;
    const enum cudaStreamCaptureMode mode = begin_looking(cuda);
    if (!cuda->failed) cuda->verdict = dropped;
    cuda->failed = true;
    if (!is_idle(cuda) && !drain(cuda, seconds * 1e6))
        status = sg_fail(SHINGLE_ETIMEOUT, "%s did not let go of its runs within %g s",
                         sg_collect_hangs(cuda->collect) ? sg_collect_name(cuda->collect) : "a GPU",
                         seconds);
    else if (work != NULL)
        status = start_over(cuda, work);
    else /* the words, by which replays are known, go first */
        for (int r = 0; r < cuda->ranks; r++)
            __atomic_store_n(&cuda->rank[r].captured, false, __ATOMIC_RELAXED);
    end_looking(cuda, mode);
    return status;
}
