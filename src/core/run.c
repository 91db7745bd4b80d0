/* run.c -- see run.h.
 *
 * Every word has one writer.  A store that publishes is a release, the load that acts on it an
 * acquire; the partner is named at each. */
#include "core/run.h"

#include <string.h>

#include "core/exec.h"
#include "core/plan.h"

/* ---- Words ----------------------------------------------------------------------------------- */

static sg_hello *hello_of(const sg_words *words, int by, uint64_t epoch)
{
    return &words->hello[2 * by + (int)(epoch & 1)];
}

/* A run with peers does not end before all hellos of it are here: two hellos a pair of ranks are
 * enough.  Plans without peers may bring a rank further ahead, and it says this hello anew. */
void sg_run_begin(sg_run *run)
{
    sg_work *const work = run->work;
    const sg_sched *const s = &run->bound->sched;
    run->epoch = work->epoch;
    run->half = s->baked ? 0 : 1 - work->prev_half;
    for (int q = 0; q < work->ranks; q++) {
        sg_hello *const hello = hello_of(work->peer[q], work->rank, run->epoch);
        atomic_store_explicit(&hello->hash, run->bound->hash, memory_order_relaxed);
        atomic_store_explicit(&hello->c, (uint64_t)(uintptr_t)run->tensors.c, memory_order_relaxed);
        atomic_store_explicit(&hello->c_stride, (uint64_t)run->tensors.c_stride,
                              memory_order_relaxed);
        /* Release.  Partner: said_hello() at q.  Plan and address of this hello, and all that this
         * rank's user did to the output before the run, are visible to q before the epoch is. */
        atomic_store_explicit(&hello->epoch, run->epoch, memory_order_release);
    }
}

/* Acquire.  Partner: sg_run_begin() at PEER. */
static uint64_t said_hello(const sg_run *run, int peer)
{
    return atomic_load_explicit(&hello_of(&run->work->words, peer, run->epoch)->epoch,
                                memory_order_acquire);
}

static bool stuck_on(sg_stuck *stuck, sg_stuck_kind kind, int by, uint64_t seen, uint64_t wanted)
{
    stuck->kind = kind;
    stuck->by = by;
    stuck->seen = seen;
    stuck->wanted = wanted;
    return false;
}

bool sg_run_gate_ready(const sg_run *run, sg_stuck *stuck)
{
    const sg_work *const work = run->work;
    const uint64_t need = work->last[run->half];
    for (int q = 0; q < work->ranks; q++) {
        /* Acquire.  Partner: sg_run_end() at q.  What q still read or stored in this half in its
         * last run that used it has happened before whatever this rank stores there now. */
        const uint64_t seen = atomic_load_explicit(&work->words.done[q], memory_order_acquire);
        if (seen < need) return stuck_on(stuck, SG_STUCK_GATE, q, seen, need);
    }
    return true;
}

bool sg_run_leave_ready(const sg_run *run, int peer, sg_stuck *stuck)
{
    const uint64_t seen = said_hello(run, peer);
    const uint64_t hash = atomic_load_explicit(&hello_of(&run->work->words, peer, run->epoch)->hash,
                                               memory_order_relaxed);
    /* A peer that runs another plan may have a smaller output. */
    if (seen == run->epoch && hash == run->bound->hash) return true;
    return stuck_on(stuck, SG_STUCK_LEAVE, peer, seen, run->epoch);
}

bool sg_run_flags_ready(const sg_run *run, int by, struct sg_flags flags, sg_stuck *stuck)
{
    for (int32_t i = 0; i < flags.count; i++) {
        const int32_t index = flags.first + i * flags.step;
        /* Acquire.  Partner: sg_run_post() at BY.  What was stored before the raise is read
         * after. */
        const uint64_t seen =
            atomic_load_explicit(sg_work_flag(&run->work->words, by, index), memory_order_acquire);
        if (seen >= run->epoch) continue;
        stuck->flag = index;
        return stuck_on(stuck, SG_STUCK_FLAG, by, seen, run->epoch);
    }
    return true;
}

void sg_run_output_of(const sg_run *run, int peer, void **c_out, int64_t *stride_out)
{
    const sg_hello *const hello = hello_of(&run->work->words, peer, run->epoch);
    *c_out = (void *)(uintptr_t)atomic_load_explicit(&hello->c, memory_order_relaxed);
    *stride_out = (int64_t)atomic_load_explicit(&hello->c_stride, memory_order_relaxed);
}

bool sg_run_count(const sg_run *run, int32_t counter)
{
    _Atomic uint32_t *const count = &run->bound->count[counter];
    const uint32_t raisers = (uint32_t)run->bound->sched.counter[counter];
    /* Acquire and release.  Partners: the other raisers of this flag on this rank.  The last one's
     * raise then publishes what all of them stored. */
    if (atomic_fetch_add_explicit(count, 1, memory_order_acq_rel) + 1 < raisers) return false;
    atomic_store_explicit(count, 0, memory_order_relaxed);
    return true;
}

void sg_run_post(const sg_run *run, int at, int32_t index)
{
    /* Release.  Partner: sg_run_flags_ready() at AT. */
    atomic_store_explicit(sg_work_flag(run->work->peer[at], run->work->rank, index), run->epoch,
                          memory_order_release);
}

bool sg_run_mismatch(const sg_run *run, int *peer_out)
{
    for (int q = 0; q < run->work->ranks; q++) {
        if (said_hello(run, q) != run->epoch) continue;
        const sg_hello *const hello = hello_of(&run->work->words, q, run->epoch);
        const uint64_t hash = atomic_load_explicit(&hello->hash, memory_order_relaxed);
        /* Behind a plan without peers this hello may be of the run after the next by now.  It is
         * whole: the backend does not begin a run of a rank while another asks. */
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&hello->epoch, memory_order_relaxed) != run->epoch) continue;
        if (hash == run->bound->hash) continue;
        *peer_out = q;
        return true;
    }
    return false;
}

bool sg_run_end_ready(const sg_run *run, sg_stuck *stuck)
{
    if (!run->bound->sched.hello) return true;
    for (int q = 0; q < run->work->ranks; q++) {
        const uint64_t seen = said_hello(run, q);
        if (seen < run->epoch) return stuck_on(stuck, SG_STUCK_END, q, seen, run->epoch);
    }
    return true;
}

void sg_run_end(sg_run *run)
{
    sg_work *const work = run->work;
    work->last[run->half] = run->epoch;
    work->prev_half = run->half;
    for (int q = 0; q < work->ranks; q++) /* Release.  Partner: sg_run_gate_ready() at q. */
        atomic_store_explicit(&work->peer[q]->done[work->rank], run->epoch, memory_order_release);
    work->epoch = run->epoch + 1;
}

/* ---- Verdict --------------------------------------------------------------------------------- */

static void name_stuck(const sg_stand *stand, int rank, sg_text *text)
{
    const sg_stuck *const stuck = &stand->stuck;
    sg_text_add(text, "; rank %d waits", rank);
    if (stuck->step >= 0) sg_text_add(text, " in step %d", stuck->step);
    if (stuck->visit >= 0) sg_text_add(text, ", visit %d,", stuck->visit);
    switch (stuck->kind) {
    case SG_STUCK_GATE: sg_text_add(text, " for rank %d to end run", stuck->by); break;
    case SG_STUCK_LEAVE:
    case SG_STUCK_END: sg_text_add(text, " for the hello of rank %d", stuck->by); break;
    case SG_STUCK_FLAG: sg_text_add(text, " for flag %d of rank %d", stuck->flag, stuck->by); break;
    case SG_STUCK_COLL: sg_text_add(text, " for rank %d in a collective", stuck->by); break;
    default: sg_text_add(text, " for its link"); return;
    }
    if (stuck->kind == SG_STUCK_GATE)
        sg_text_add(text, " %llu (has ended %llu)", (unsigned long long)stuck->wanted,
                    (unsigned long long)stuck->seen);
    else
        sg_text_add(text, " (seen %llu, wanted %llu)", (unsigned long long)stuck->seen,
                    (unsigned long long)stuck->wanted);
}

static bool find_mismatch(const sg_stand *stand, int ranks, sg_verdict *verdict)
{
    for (int r = 0; r < ranks; r++)
        for (int q = r + 1; q < ranks && stand[r].running; q++) {
            if (!stand[q].running || stand[q].epoch != stand[r].epoch) continue;
            if (stand[q].hash == stand[r].hash) continue;
            sg_text text = {verdict->text, sizeof verdict->text, 0};
            verdict->status = SHINGLE_EMISMATCH;
            sg_text_add(&text, "ranks %d and %d run different plans: rank %d runs ", r, q, r);
            sg_plan_quote(stand[r].plan, stand[q].plan, &text);
            sg_text_add(&text, ", rank %d runs ", q);
            sg_plan_quote(stand[q].plan, stand[r].plan, &text);
            return true;
        }
    return false;
}

/* Has a rank ended the run in which another waits for it?  A rank in the same plan gives all
 * that others wait for before it ends a run; and hellos cannot tell, since those of runs
 * without peers are not said. */
static bool find_left(const sg_stand *stand, int ranks, int waiter, sg_verdict *verdict)
{
    const int by = waiter >= 0 ? stand[waiter].stuck.by : -1;
    if (by < 0 || by >= ranks || stand[by].epoch <= stand[waiter].epoch) return false;
    sg_text text = {verdict->text, sizeof verdict->text, 0};
    verdict->status = SHINGLE_EMISMATCH;
    sg_text_add(&text,
                "ranks %d and %d run different plans: rank %d has ended run %llu, in which rank %d "
                "runs ",
                waiter < by ? waiter : by, waiter < by ? by : waiter, by,
                (unsigned long long)stand[waiter].epoch, waiter);
    sg_plan_quote(stand[waiter].plan, NULL, &text);
    return true;
}

void sg_run_verdict(const sg_stand *stand, int ranks, double seconds, sg_verdict *verdict_out)
{
    if (find_mismatch(stand, ranks, verdict_out)) return;
    sg_text text = {verdict_out->text, sizeof verdict_out->text, 0};
    bool named[SG_MAX_RANKS] = {false};
    int waiter = -1;
    for (int r = 0; r < ranks; r++)
        if (stand[r].waiting && (waiter < 0 || stand[r].epoch < stand[waiter].epoch)) waiter = r;

    /* Nobody who is behind the first waiter waits: it has not come, or it stopped before. */
    int missing = 0;
    int stopped = 0;
    for (int r = 0; r < ranks && waiter >= 0; r++)
        missing += named[r] = stand[r].epoch < stand[waiter].epoch && !stand[r].running;
    for (int r = 0; r < ranks && missing == 0; r++)
        stopped += named[r] = stand[r].running && !stand[r].waiting;
    if (missing + stopped == 0 && find_left(stand, ranks, waiter, verdict_out)) return;

    verdict_out->status = missing + stopped > 0 ? SHINGLE_ETIMEOUT : SHINGLE_EBUG;
    if (missing + stopped == 0) {
        sg_text_add(&text, "every rank waits for another: a deadlock in the schedule");
    } else {
        sg_text_add_ranks(&text, named, ranks);
        if (missing > 0)
            sg_text_add(&text, " did not begin run %llu within %g s",
                        (unsigned long long)stand[waiter].epoch, seconds);
        else
            sg_text_add(&text, " stopped in the middle of a run: no progress for %g s", seconds);
    }
    if (waiter >= 0) name_stuck(&stand[waiter], waiter, &text);
}
