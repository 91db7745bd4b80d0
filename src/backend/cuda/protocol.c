/* protocol.c -- begin and end of a run.
 *
 * A plan on one lane whose first step is a launch of our own has its run begun by that launch, and
 * one whose last step is (but for a FLAG step behind it) has it ended by that one: a plan of one
 * launch is one kernel.  A norm of the rank's own sums comes behind the end.  Other plans have
 * kernels of their own for it, around all lanes.
 *
 * Runs are kept in the rank's list of flights until they are known to have ended.  Events cost the
 * host time and keep one run's end and the next one's beginning apart, so a plan of one launch on
 * the rank's own stream, which can be asked itself, gets one every so often. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "core/sched_rules.h"

enum { MARK_EVERY = 8 }; /* runs of one launch, between events */

static sg_cuda_flight *flight_of(sg_cuda_rank *rank, uint64_t run)
{
    return &rank->flight[run % SG_CUDA_FLIGHT];
}

static const double soon_us = 20e3; /* longer than most runs */

/* ---- What stands where in a plan ------------------------------------------------------------- */

static bool is_own_launch(const sg_cuda_plan *plan, int32_t index)
{
    return index >= 0 && plan->step[index].gemm != NULL && plan->step[index].lt == NULL;
}

static bool is_one_kernel(const sg_cuda_plan *plan)
{
    return plan->opens >= 0 && plan->opens == plan->closes && !plan->bound->problem.norm;
}

/* Does STEP read what peers stored into C, or store into a peer's C by an engine, which is told
 * where before that peer has said so? */
static bool needs_landing(const sg_cuda_plan *plan, const sg_step *step)
{
    const sg_sched *const s = &plan->bound->sched;
    bool needs = false;
    if (step->kind == SG_LAUNCH) {
        const sg_launch *const l = &step->u.launch;
        for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
            const sg_patch *const p = &s->patch[i];
            if (p->k0 < p->k1) needs |= sg_cuda_is_landed(plan, &p->a);
            for (int32_t j = p->add0; j < p->add0 + p->adds; j++)
                needs |= sg_cuda_is_landed(plan, &s->add[j].area);
        }
        return needs;
    }
    if (step->kind == SG_REDUCE)
        for (int32_t i = step->u.reduce.add0; i < step->u.reduce.add0 + step->u.reduce.adds; i++)
            needs |= sg_cuda_is_landed(plan, &s->add[i].area);
    if (step->kind != SG_COPY) return needs;
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++)
        needs |= s->to[i].leave && step->u.copy.carrier == SG_BY_ENGINE;
    return needs || sg_cuda_is_landed(plan, &step->u.copy.src);
}

/* Peers may store into C itself if no engine of theirs does.  All ranks of a plan store into peers
 * by the same kind of step; one that stores nothing does not know which, but where sums are made in
 * C: launches do. */
static bool is_direct(const sg_cuda_plan *plan)
{
    const sg_sched *const s = &plan->bound->sched;
    if (s->buf[SG_C].summed) return plan->landed >= 0;
    bool direct = plan->landed >= 0 && s->buf[SG_C].reach;
    for (int32_t i = 0; i < s->steps && direct; i++) direct = !needs_landing(plan, &s->step[i]);
    return direct;
}

/* The next step behind I, or before it if BY is -1, that is no part of another one; -1: none. */
static int32_t neighbour(const sg_sched *s, int32_t i, int32_t by)
{
    do i += by;
    while (i >= 0 && i < s->steps && sg_step_is_push(&s->step[i]));
    return i < s->steps ? i : -1;
}

void sg_cuda_plan_protocol(sg_cuda_plan *plan)
{
    const sg_sched *const s = &plan->bound->sched;
    plan->one_lane = (plan->lanes & ~1u) == 0;
    plan->counts = sg_sched_counts(s);
    plan->direct = is_direct(plan);
    plan->opens = plan->closes = plan->awaits = -1;
    if (!plan->one_lane) return;

    const int32_t first = neighbour(s, -1, 1);
    if (s->peers && is_own_launch(plan, first)) plan->opens = first;

    const int32_t end = sg_sched_norms_own(s) ? s->steps - 1 : s->steps;
    const int32_t last = neighbour(s, end, -1);
    const bool waits = last >= 0 && s->step[last].kind == SG_FLAG && s->step[last].raises == 0;
    const int32_t closes = waits ? neighbour(s, last, -1) : last;
    /* A result that is copied to where it belongs is not there when its launch has ended. */
    if (!plan->counts || !is_own_launch(plan, closes) || plan->step[closes].even.which != 0) return;
    plan->closes = closes;
    if (waits) plan->awaits = last;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Memory that every GPU of the group reaches: cudaMalloc's, since they reach each other.  What
 * virtual memory and pools hand out is theirs alone until somebody says otherwise. */
static bool is_reachable(const sg_cuda *cuda, const void *data)
{
    int capable = 0;
    if (cuda->driver.pointer == NULL) return false;
    return cuda->driver.pointer(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                (CUdeviceptr)(uintptr_t)data) == CUDA_SUCCESS &&
           capable != 0;
}

/* Of the allocation at DATA, unlike that of all others ever; 0: the driver does not tell. */
static unsigned long long id_of(const sg_cuda *cuda, const void *data)
{
    unsigned long long id = 0;
    if (cuda->driver.pointer == NULL) return 0;
    const CUresult answer =
        cuda->driver.pointer(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(uintptr_t)data);
    return answer == CUDA_SUCCESS ? id : 0;
}

static bool is_of_group(const sg_cuda *cuda, int device)
{
    for (int r = 0; r < cuda->ranks; r++)
        if (cuda->rank[r].device == device) return true;
    return false;
}

/* Number I of several B or C has the caller's name. */
static void write_name(int buf, int i, char text[24])
{
    static const char *const name[SG_USER_BUFS] = {[SG_A] = "a",
                                                   [SG_B] = "b",
                                                   [SG_C] = "c",
                                                   [SG_BIAS] = "bias",
                                                   [SG_GAIN] = "gain",
                                                   [SG_RETURNED] = "returned_a",
                                                   [SG_RESIDUAL] = "residual"};
    if (i > 0)
        snprintf(text, 24, "more_%s[%d]", name[buf], i - 1);
    else
        snprintf(text, 24, "%s", name[buf]);
}

/* A kernel that reads the host's memory, or that of a GPU which it does not reach, takes the whole
 * process down.  DATA is number I of several B or C. */
static shingle_status look_at(const sg_cuda *cuda, sg_cuda_rank *rank, int buf, int i,
                              const void *data, sg_cuda_known **known_out)
{
    char name[24];
    sg_cuda_known *const known = &rank->known[buf][sg_mix((uintptr_t)data >> 4) % SG_CUDA_KNOWN];
    *known_out = known;
    if (data == NULL || known->data == data) return SHINGLE_OK;
    struct cudaPointerAttributes about;
    SG_CUDA(cudaPointerGetAttributes(&about, data));
    write_name(buf, i, name);
    if (about.type != cudaMemoryTypeDevice && about.type != cudaMemoryTypeManaged)
        return sg_fail(SHINGLE_EINVAL,
                       "%s of rank %d is in the host's memory; tensors of this backend are in "
                       "that of GPU %d (shingle_alloc, cudaMalloc)",
                       name, rank->rank, rank->device);
    if (about.type == cudaMemoryTypeDevice && !is_of_group(cuda, about.device))
        return sg_fail(SHINGLE_EINVAL,
                       "%s of rank %d is on GPU %d, which no rank of the group has; tensors of "
                       "this one are on GPU %d",
                       name, rank->rank, about.device, rank->device);
    *known = (sg_cuda_known){.data = data, .id = id_of(cuda, data)};
    known->reached = about.type == cudaMemoryTypeDevice && about.device == rank->device &&
                     known->id != 0 && is_reachable(cuda, data);
    return SHINGLE_OK;
}

/* Peers are told of C, if they reach it: as it is now, since an address that was freed may come
 * back as memory that is this GPU's alone, and cudaFree waits for runs that nobody else has waited
 * for.  What they need not be told of costs no look. */
static shingle_status look_at_c(const sg_cuda *cuda, sg_cuda_rank *rank, const sg_run *run)
{
    const shingle_tensors *const t = &run->tensors;
    const sg_cuda_plan *const plan = run->bound->backend;
    const int64_t pitch = t->c_stride * sg_type_bytes(run->bound->problem.type);
    const bool aligned = (uintptr_t)t->c % 16 == 0 && pitch % 16 == 0;
    sg_cuda_known *known = NULL;
    rank->said = NULL;
    SG_TRY(look_at(cuda, rank, SG_C, 0, t->c, &known));
    if (!plan->direct || !aligned || t->c == NULL || !known->reached) return SHINGLE_OK;
    if (id_of(cuda, t->c) != known->id) {
        known->data = NULL;
        SG_TRY(look_at(cuda, rank, SG_C, 0, t->c, &known));
    }
    if (known->reached) rank->said = t->c;
    return SHINGLE_OK;
}

/* Each rank forgets by itself: others may be looking at what it knows. */
static void forget_tensors(const sg_cuda *cuda, sg_cuda_rank *rank)
{
    const uint64_t changes = __atomic_load_n(&cuda->memory_changes, __ATOMIC_RELAXED);
    if (rank->known_at == changes) return;
    memset(rank->known, 0, sizeof rank->known);
    rank->known_at = changes;
}

static shingle_status look_at_tensors(const sg_cuda *cuda, sg_cuda_rank *rank, const sg_run *run)
{
    const shingle_tensors *const t = &run->tensors;
    sg_cuda_known *known = NULL;
    forget_tensors(cuda, rank);
    SG_TRY(look_at(cuda, rank, SG_A, 0, t->a, &known));
    SG_TRY(look_at(cuda, rank, SG_B, 0, t->b, &known));
    if (run->bound->problem.bias) SG_TRY(look_at(cuda, rank, SG_BIAS, 0, t->bias, &known));
    if (run->bound->problem.return_a)
        SG_TRY(look_at(cuda, rank, SG_RETURNED, 0, t->returned_a, &known));
    if (run->bound->problem.norm) {
        SG_TRY(look_at(cuda, rank, SG_RESIDUAL, 0, t->residual, &known));
        SG_TRY(look_at(cuda, rank, SG_GAIN, 0, t->gain, &known));
    }
    for (int i = 0; i < run->bound->problem.b_count - 1; i++) {
        SG_TRY(look_at(cuda, rank, SG_B, i + 1, t->more_b[i], &known));
        SG_TRY(look_at(cuda, rank, SG_C, i + 1, t->more_c[i], &known));
    }
    return look_at_c(cuda, rank, run);
}

/* After a failure all that was in flight has drained. */
int sg_cuda_runs(void *self, int index)
{
    sg_cuda *const cuda = self;
    pthread_mutex_lock(&cuda->mutex);
    sg_cuda_reap(cuda);
    const int runs = cuda->failed ? 0 : (int)sg_cuda_in_flight(&cuda->rank[index]);
    pthread_mutex_unlock(&cuda->mutex);
    return runs;
}

/* ---- Begin ----------------------------------------------------------------------------------- */

bool sg_cuda_is_busy(sg_cuda *cuda, sg_cuda_rank *rank)
{
    const double until = sg_now_us() + soon_us;
    bool busy = cuda->ranks > 1;
    while (busy) {
        pthread_mutex_lock(&cuda->mutex);
        sg_cuda_reap(cuda);
        busy = sg_cuda_in_flight(rank) > 0 || sg_cuda_is_replaying(cuda, rank);
        pthread_mutex_unlock(&cuda->mutex);
        if (busy && sg_now_us() > until) return true;
        if (busy) sg_cuda_pause();
    }
    return false;
}

/* With the rank's device: a thread has a cudaStreamPerThread on each. */
static shingle_status see_stream(sg_cuda_rank *rank, const sg_run *run)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    rank->main = run->stream != NULL ? (cudaStream_t)run->stream : rank->lane[0];
    if (run->stream != NULL) SG_CUDA(cudaStreamIsCapturing(rank->main, &capture));
    rank->capturing = capture != cudaStreamCaptureStatusNone;
    return SHINGLE_OK;
}

/* Room in the rank's list of runs, where what is captured has no place; waits, bounded, for the
 * oldest. */
static shingle_status find_room(sg_cuda *cuda, sg_cuda_rank *rank)
{
    const double until = sg_now_us() + 2 * cuda->timeout_us;
    while (!rank->capturing && sg_cuda_in_flight(rank) == SG_CUDA_FLIGHT) {
        pthread_mutex_lock(&cuda->mutex);
        sg_cuda_reap(cuda);
        pthread_mutex_unlock(&cuda->mutex);
        SG_TRY(sg_cuda_alive(cuda));
        if (sg_cuda_in_flight(rank) < SG_CUDA_FLIGHT) break;
        if (sg_now_us() > until)
            return sg_fail(SHINGLE_ETIMEOUT,
                           "rank %d has %d runs waiting and none ended within %g s", rank->rank,
                           (int)SG_CUDA_FLIGHT, 2 * cuda->timeout_us / 1e6);
        sg_cuda_pause();
    }
    return SHINGLE_OK;
}

/* The run before gets its event now if it has none: it is on the rank's own stream. */
static shingle_status mark_last(sg_cuda *cuda, sg_cuda_rank *rank)
{
    if (sg_cuda_in_flight(rank) == 0) return SHINGLE_OK;
    sg_cuda_flight *const before = flight_of(rank, rank->issued - 1);
    if (before->marked) return SHINGLE_OK;
    SG_CUDA(cudaEventRecord(before->ended, rank->lane[0]));
    pthread_mutex_lock(&cuda->mutex);
    before->marked = true;
    pthread_mutex_unlock(&cuda->mutex);
    return SHINGLE_OK;
}

/* Lanes that a capture has taken are its until it ends: what is enqueued there is not carried out,
 * and to make them wait for anything outside of it would break it.  Before anything of the run is
 * enqueued, so that the group goes on without it. */
static shingle_status find_lanes(const sg_cuda *cuda, sg_cuda_rank *rank, const sg_run *run)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    uint32_t taken = 0;
    uint32_t others = 0;
    if (!rank->lanes_taken) return SHINGLE_OK;
    for (int i = 1; i < SG_MAX_LANES; i++) {
        if (!sg_cuda_is_captured(rank->lane[i])) continue;
        taken |= 1u << i;
        if (!sg_cuda_is_captured_with(cuda, rank->lane[i], rank->main)) others |= 1u << i;
    }
    rank->lanes_taken = taken != 0;
    if ((others & plan->lanes) == 0) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL,
                   "rank %d %s %s beside %s graph that is being captured and has the lanes of the "
                   "rank; end that capture first%s",
                   rank->rank, rank->capturing ? "captures" : "runs", run->bound->text,
                   rank->capturing ? "another" : "a",
                   rank->capturing ? "" : ", or capture this run, too");
}

/* A run that is captured is ordered behind the one before it in its graph, if that was on another
 * stream: on its own it is anyway. */
static shingle_status follow_captured(sg_cuda *cuda, sg_cuda_rank *rank)
{
    if (rank->behind_in == 0 || rank->behind_on == rank->main ||
        rank->behind_in != sg_cuda_capture_of(cuda, rank->main))
        return SHINGLE_OK;
    SG_CUDA(cudaStreamWaitEvent(rank->main, rank->behind, 0));
    return SHINGLE_OK;
}

/* Runs of a rank follow each other, whatever streams their callers have.  A verdict knows where a
 * rank stands in a plan of several kernels, so those before are marked. */
static shingle_status follow(sg_cuda *cuda, sg_cuda_rank *rank, const sg_run *run)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    SG_TRY(find_lanes(cuda, rank, run));
    if (rank->capturing) return follow_captured(cuda, rank);
    rank->main_id = SG_CUDA_OWN;
    if (rank->main != rank->lane[0]) SG_CUDA(cudaStreamGetId(rank->main, &rank->main_id));
    const bool moves = rank->ever && rank->last != rank->main_id;
    if (moves || !is_one_kernel(plan)) SG_TRY(mark_last(cuda, rank));
    if (!moves || sg_cuda_in_flight(rank) == 0) return SHINGLE_OK;
    SG_CUDA(cudaStreamWaitEvent(rank->main, flight_of(rank, rank->issued - 1)->ended, 0));
    return SHINGLE_OK;
}

/* A run that waits in collectives and says no hello (`serial`) must not be taken for one that hangs
 * while it stands behind the caller's other work. */
static shingle_status tell_begin(sg_cuda_rank *rank, const sg_run *run)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    sg_cuda_flight *const flight = flight_of(rank, rank->issued);
    if (rank->capturing) return SHINGLE_OK;
    flight->tells = plan->collects && !run->bound->sched.hello && rank->main != rank->lane[0];
    if (flight->tells) SG_CUDA(cudaEventRecord(flight->begun, rank->main));
    return SHINGLE_OK;
}

static shingle_status set_out(sg_cuda *cuda, sg_cuda_rank *rank, sg_run *run)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_cuda_plan *const plan = run->bound->backend;
    SG_TRY(follow(cuda, rank, run));
    SG_TRY(look_at_tensors(cuda, rank, run));
    SG_TRY(tell_begin(rank, run));
    /* A launch that does not begin its run reads the epoch at once, which
     * the run before may change. */
    const bool begins = s->peers || !plan->counts;
    rank->how = plan->one_lane && begins && cuda->sharing == 1 ? SG_KERNEL_EARLY : 0;
    rank->begun = rank->ended = rank->apart = false;
    if (plan->opens >= 0 && run->kinds == ~0u) {
        SG_TRY(sg_cuda_aim_launch(rank, run, plan->opens));
        rank->begun = !rank->apart;
    }
    if (s->peers && !rank->begun)
        SG_CUDA(sg_kernel_begin(rank->state, run->bound->hash, rank->said, run->tensors.c_stride,
                                s->baked, s->hello, 1, rank->how, rank->main));
    return SHINGLE_OK;
}

static shingle_status fork_lanes(sg_cuda_rank *rank, const sg_cuda_plan *plan)
{
    if (rank->capturing) __atomic_store_n(&rank->captured, true, __ATOMIC_RELAXED);
    if (plan->one_lane) return SHINGLE_OK;
    rank->lanes_taken |= rank->capturing;
    SG_CUDA(cudaEventRecord(rank->fork, rank->main));
    for (int i = 1; i < SG_MAX_LANES; i++)
        if (plan->lanes & 1u << i) SG_CUDA(cudaStreamWaitEvent(rank->lane[i], rank->fork, 0));
    return SHINGLE_OK;
}

shingle_status sg_cuda_begin(void *self, sg_run *run)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[run->work->rank];
    /* Before it asks: who is told of a failure waits for it. */
    SG_TRY(sg_cuda_enqueues(cuda, rank));
    shingle_status status = sg_cuda_alive(cuda);
    if (status == SHINGLE_OK) status = sg_cuda_enter(rank, &rank->caller_device);
    if (status != SHINGLE_OK) {
        sg_cuda_enqueued(cuda, rank);
        return status;
    }
    status = see_stream(rank, run);
    if (status == SHINGLE_OK) status = find_room(cuda, rank);
    if (status == SHINGLE_OK) status = set_out(cuda, rank, run);
    const bool out = status == SHINGLE_OK && run->bound->sched.peers; /* peers hear of it */
    if (status == SHINGLE_OK) status = fork_lanes(rank, run->bound->backend);
    if (status == SHINGLE_OK) return SHINGLE_OK;
    if (out && !rank->capturing) status = sg_cuda_stop(cuda, rank, status);
    sg_cuda_enqueued(cuda, rank);
    sg_cuda_leave(rank, rank->caller_device);
    return status;
}

/* ---- In a launch ----------------------------------------------------------------------------- */

void sg_cuda_set_protocol(sg_cuda_rank *rank, const sg_run *run, int32_t index)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_cuda_plan *const plan = run->bound->backend;
    sg_kernel_gemm *const gemm = plan->step[index].gemm;
    sg_kernel_protocol *const protocol = &gemm->param.protocol;
    memset(protocol, 0, sizeof *protocol);
    protocol->ranks = run->work->ranks;
    if (index == plan->opens && rank->begun) {
        protocol->begin = protocol->gate = 1;
        protocol->hello = s->hello;
        protocol->c = rank->said;
        protocol->c_stride = run->tensors.c_stride;
    }
    /* What peers stored elsewhere goes to C before the run ends. */
    const bool home = plan->landed < 0 || plan->aways == 0 || rank->said != NULL;
    if (index != plan->closes || run->kinds != ~0u || !home) return;
    protocol->end = 1;
    protocol->hello = s->hello;
    protocol->done = s->done;
    if (plan->awaits >= 0) {
        protocol->wait0 = s->step[plan->awaits].wait0;
        protocol->waits = s->step[plan->awaits].waits;
        protocol->wait_step = plan->awaits;
    }
    rank->ended = true;
}

/* ---- End ------------------------------------------------------------------------------------- */

/* Columns [COL0, END) of rows that peers have stored for C go there. */
static shingle_status bring_columns(const sg_cuda_rank *rank, const sg_run *run, int64_t col0,
                                    int64_t end)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const int bytes = sg_type_bytes(run->bound->problem.type);
    const int64_t pitch = run->tensors.c_stride * bytes;
    char *const c = (char *)run->tensors.c + col0 * bytes;
    sg_kernel_place from = plan->program.place[plan->landed];
    if (col0 >= end) return SHINGLE_OK;
    from.data[0] = from.data[1] = (char *)from.data[0] + col0 * bytes;
    from.cols = (int32_t)(end - col0);
    if (plan->home != NULL) {
        const sg_kernel_place to = {
            .data = {c, c}, .pitch = pitch, .rows = from.rows, .cols = from.cols};
        SG_CUDA(sg_kernel_permute(&from, &to, plan->home, plan->aways, bytes, rank->sms, rank->how,
                                  rank->main));
        return SHINGLE_OK;
    }
    for (int32_t i = 0; i < plan->aways; i++) {
        const int64_t row = plan->away[3 * i];
        SG_CUDA(cudaMemcpy2DAsync(c + row * pitch, (size_t)pitch,
                                  (const char *)from.data[0] + row * from.pitch, (size_t)from.pitch,
                                  (size_t)((end - col0) * bytes), (size_t)plan->away[3 * i + 2],
                                  cudaMemcpyDeviceToDevice, rank->main));
    }
    return SHINGLE_OK;
}

static shingle_status bring_home(const sg_cuda_rank *rank, const sg_run *run)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const int64_t n = run->bound->problem.n;
    if (plan->aways == 0 || rank->said != NULL || n == 0) return SHINGLE_OK;
    SG_TRY(bring_columns(rank, run, 0, plan->stays[0]));
    return bring_columns(rank, run, plan->stays[1], n);
}

static shingle_status arrive(sg_cuda *cuda, sg_cuda_rank *rank, const sg_run *run)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_cuda_plan *const plan = run->bound->backend;
    for (int i = 1; i < SG_MAX_LANES; i++) {
        if ((plan->lanes & 1u << i) == 0) continue;
        SG_CUDA(cudaEventRecord(rank->join[i], rank->lane[i]));
        SG_CUDA(cudaStreamWaitEvent(rank->main, rank->join[i], 0));
    }
    if (!rank->ended) {
        SG_TRY(bring_home(rank, run));
        /* Without peers, flags of this rank's own still hold the number of the run. */
        if (plan->counts)
            SG_CUDA(sg_kernel_end(rank->state, run->bound->hash, s->baked, s->hello, s->done,
                                  rank->how, rank->main));
    }
    if (rank->capturing) {
        SG_CUDA(cudaEventRecord(rank->behind, rank->main)); /* no node of the graph */
        rank->behind_in = sg_cuda_capture_of(cuda, rank->main);
        rank->behind_on = rank->main;
        return SHINGLE_OK;
    }
    sg_cuda_flight *const flight = flight_of(rank, rank->issued);
    const bool marked = rank->main != rank->lane[0] || !is_one_kernel(plan) ||
                        rank->issued % MARK_EVERY == MARK_EVERY - 1;
    if (marked) SG_CUDA(cudaEventRecord(flight->ended, rank->main));
    flight->marked = marked;
    flight->plan = plan;
    flight->hash = run->bound->hash;
    flight->text = run->bound->text;
    pthread_mutex_lock(&cuda->mutex);
    rank->issued++;
    cuda->progress_us = sg_now_us();
    const bool late = cuda->failed; /* behind what was drained */
    pthread_mutex_unlock(&cuda->mutex);
    rank->last = rank->main_id;
    rank->ever = true;
    return late ? SHINGLE_ETIMEOUT : SHINGLE_OK;
}

shingle_status sg_cuda_end(void *self, sg_run *run)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[run->work->rank];
    shingle_status status = arrive(cuda, rank, run);
    if (status != SHINGLE_OK && !rank->capturing) status = sg_cuda_stop(cuda, rank, status);
    sg_cuda_enqueued(cuda, rank);
    sg_cuda_leave(rank, rank->caller_device);
    return status;
}
