/* issue.c -- steps on their lanes.  A step is behind the steps of its lane, and behind an event of
 * each step of another lane that it is after.  Nothing here waits for a GPU; a collective may wait
 * for a call on all communicators (sg_collect_run). */
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/vendor.h"

/* ---- Order ----------------------------------------------------------------------------------- */

static cudaStream_t lane_of(const sg_cuda_rank *rank, const sg_step *step)
{
    return step->lane == 0 ? rank->main : rank->lane[step->lane];
}

static shingle_status come_after(const sg_cuda_rank *rank, const sg_run *run, const sg_step *step)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_cuda_plan *const plan = run->bound->backend;
    for (int i = 0; i < 2; i++) {
        const int32_t other = step->after[i];
        if (other < 0 || s->step[other].lane == step->lane) continue;
        if ((run->kinds & 1u << s->step[other].kind) == 0) continue; /* it is not carried out */
        SG_CUDA(cudaStreamWaitEvent(lane_of(rank, step), plan->step[other].ended, 0));
    }
    return SHINGLE_OK;
}

typedef shingle_status issuer(sg_cuda *cuda, sg_cuda_rank *rank, sg_run *run, int32_t index,
                              cudaStream_t stream);

/* A run that cannot be enqueued to its end leaves its group without it: everybody is told. */
static shingle_status issue(sg_cuda *cuda, sg_run *run, int32_t index, issuer *go)
{
    sg_cuda_rank *const rank = &cuda->rank[run->work->rank];
    const sg_step *const step = &run->bound->sched.step[index];
    const sg_cuda_plan *const plan = run->bound->backend;
    const cudaStream_t stream = lane_of(rank, step);
    shingle_status status = come_after(rank, run, step);
    if (status == SHINGLE_OK) status = go(cuda, rank, run, index, stream);
    if (status == SHINGLE_OK && plan->step[index].ended != NULL)
        status =
            sg_cuda_check(cudaEventRecord(plan->step[index].ended, stream), "cudaEventRecord()");
    if (status != SHINGLE_OK) {
        if (!rank->capturing) status = sg_cuda_stop(cuda, rank, status);
        sg_cuda_enqueued(cuda, rank);
        sg_cuda_leave(rank, rank->caller_device);
    }
    return status;
}

/* ---- Places of the user's tensors ------------------------------------------------------------ */

static void aim_at(sg_kernel_program *program, int place, const void *data, int64_t pitch)
{
    sg_kernel_place *const at = &program->place[place];
    at->data[0] = at->data[1] = (void *)(uintptr_t)data;
    at->pitch = pitch;
}

void sg_cuda_aim(sg_kernel_program *program, const sg_run *run)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_problem *const p = &run->bound->problem;
    const shingle_tensors *const t = &run->tensors;
    const int64_t bytes = sg_type_bytes(p->type);
    const int rank = run->work->rank;
    aim_at(program, plan->place_of[SG_A][rank], t->a, t->a_stride * bytes);
    aim_at(program, plan->place_of[SG_B][rank], t->b, t->b_stride * bytes);
    aim_at(program, plan->place_of[SG_C][rank], t->c, t->c_stride * bytes);
    for (int i = 0; i < p->b_count - 1; i++) {
        aim_at(program, plan->more_b[i], t->more_b[i], t->more_b_stride[i] * bytes);
        aim_at(program, plan->more_c[i], t->more_c[i], t->more_c_stride[i] * bytes);
    }
    for (int32_t i = 0; i < plan->clips; i++)
        aim_at(program, plan->clipped[i], t->c, t->c_stride * bytes);
    if (p->return_a)
        aim_at(program, plan->place_of[SG_RETURNED][rank], t->returned_a,
               t->returned_a_stride * bytes);
    if (p->norm)
        aim_at(program, plan->place_of[SG_RESIDUAL][rank], t->residual, t->residual_stride * bytes);
    program->bias = p->bias ? t->bias : NULL; /* kernels add what there is */
}

/* ---- Products -------------------------------------------------------------------------------- */

static sg_operands operands_of(const sg_run *run, const sg_patch *patch)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_problem *const p = &run->bound->problem;
    const sg_cuda_place a = sg_cuda_address(run, &patch->a, true);
    const sg_cuda_place b = sg_cuda_address(run, &patch->b, true);
    const sg_cuda_place c = sg_cuda_address(run, &s->to[patch->to0], false);
    /* A patch may be some columns of the product. */
    const char *bias = patch->final && p->bias ? run->tensors.bias : NULL;
    if (bias != NULL) bias += (int64_t)patch->col0 * sg_type_bytes(p->type);
    sg_cuda_place add = {.data = NULL};
    if (patch->adds > 0) add = sg_cuda_address(run, &s->add[patch->add0].area, true);
    return (sg_operands){.a = a.data,
                         .b = b.data,
                         .bias = bias,
                         .add = add.data,
                         .c = c.data,
                         .a_stride = a.pitch / a.element_bytes,
                         .b_stride = b.pitch / b.element_bytes,
                         .add_stride = add.pitch / c.element_bytes,
                         .c_stride = c.pitch / c.element_bytes};
}

/* May a fast launch carry what it is asked to?  It copies whole units of 16 bytes, as the
 * launch itself reads them; but it may read none of these rows. */
static bool fits_pushes(const sg_cuda_plan *plan, const sg_run *run)
{
    const shingle_tensors *const t = &run->tensors;
    const int bytes = sg_type_bytes(run->bound->problem.type);
    const uintptr_t a = plan->pushed[SG_A] ? (uintptr_t)t->a | (uintptr_t)(t->a_stride * bytes) : 0;
    const uintptr_t b = plan->pushed[SG_B] ? (uintptr_t)t->b | (uintptr_t)(t->b_stride * bytes) : 0;
    return plan->push_fits && (a | b) % 16 == 0;
}

shingle_status sg_cuda_aim_launch(sg_cuda_rank *rank, const sg_run *run, int32_t index)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    sg_kernel_gemm *const gemm = plan->step[index].gemm;
    const char *const slow = gemm->slow;
    sg_kernel_program *const program = &gemm->param.program;
    sg_cuda_aim(program, run);
    sg_cuda_aim_even(program, run, index);
    if (run->bound->sched.buf[SG_C].summed) /* what peers add to is C itself if they know it */
        program->place[plan->landed] = rank->said != NULL
                                           ? program->place[plan->place_of[SG_C][rank->rank]]
                                           : plan->program.place[plan->landed];
    gemm->param.pushes = gemm->param.push != NULL ? plan->pushes : 0;
    gemm->param.takes = gemm->param.push != NULL ? plan->takes : 0;
    const char *const why = sg_kernel_gemm_aim(gemm);
    if (gemm->slow != slow && gemm->slow != NULL && !rank->capturing)
        sg_log(SG_LOG_WARN, "step %d of %s takes a slow kernel: %s", index, run->bound->text,
               gemm->slow);
    if (why != NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED, "step %d of %s: %s", index, run->bound->text, why);
    if (gemm->param.pushes > 0 && gemm->slow == NULL && !fits_pushes(plan, run)) {
        gemm->param.pushes = gemm->param.takes = gemm->param.early = 0;
        rank->apart = true;
    }
    return SHINGLE_OK;
}

/* What the launch cannot carry goes in front of it: peers wait for it. */
static shingle_status copy_pushes(const sg_cuda_rank *rank, const sg_run *run, cudaStream_t stream)
{
    sg_cuda_plan *const plan = run->bound->backend;
    sg_cuda_aim(&plan->program, run);
    for (int32_t i = 0; i < plan->pushes; i++)
        SG_CUDA(sg_kernel_copy(&plan->program, &plan->push[i], rank->sms, rank->how, stream));
    return SHINGLE_OK;
}

static shingle_status multiply(sg_cuda_rank *rank, sg_run *run, int32_t index, cudaStream_t stream)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_cuda_step *const step = &plan->step[index];
    const sg_launch *const l = &run->bound->sched.step[index].u.launch;
    if (step->lt != NULL) {
        const sg_operands o = operands_of(run, &run->bound->sched.patch[l->patch0]);
        if (step->gemm == NULL || sg_product_fits(step->lt, &o))
            return sg_product_run(step->lt, &o, stream);
    }
    if (step->gemm == NULL) return SHINGLE_OK;
    if (!rank->begun || index != plan->opens) SG_TRY(sg_cuda_aim_launch(rank, run, index));
    const sg_kernel_gemm_param *const param = &step->gemm->param;
    if (param->push != NULL && rank->apart) SG_TRY(copy_pushes(rank, run, stream));
    sg_cuda_set_protocol(rank, run, index);
    SG_CUDA(sg_kernel_gemm_run(step->gemm, rank->how, stream));
    return SHINGLE_OK;
}

static shingle_status go_gemm(sg_cuda *cuda, sg_cuda_rank *rank, sg_run *run, int32_t index,
                              cudaStream_t stream)
{
    (void)cuda;
    if (run->bound->sched.step[index].u.launch.norm)
        return sg_cuda_issue_norm(rank, run, index, stream);
    SG_TRY(sg_cuda_even_copy(rank, run, index, false, stream));
    SG_TRY(multiply(rank, run, index, stream));
    return sg_cuda_even_copy(rank, run, index, true, stream);
}

shingle_status sg_cuda_issue_gemm(void *self, sg_run *run, int32_t step)
{
    return issue(self, run, step, go_gemm);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

enum { BESIDE = 8 }; /* blocks of a copy that products may run beside */

/* All that SMs hold, since memory is idle behind fewer threads, or one for each 16 of BYTES. */
static int step_blocks(const sg_cuda_rank *rank, int64_t bytes)
{
    const int64_t blocks = sg_ceil_div(bytes, 16 * SG_KERNEL_STEP_THREADS);
    return (int)sg_min(sg_max(blocks, 1), (int64_t)rank->sms * SG_KERNEL_STEP_BLOCKS);
}

static shingle_status copy_area(const sg_run *run, const sg_area *src, const sg_area *dst,
                                cudaStream_t stream)
{
    const sg_cuda_place from = sg_cuda_address(run, src, true);
    const sg_cuda_place to = sg_cuda_address(run, dst, false);
    const int64_t width = (int64_t)src->cols * from.element_bytes;
    if (width == 0 || src->rows == 0) return SHINGLE_OK;
    if ((from.pitch == width && to.pitch == width) || src->rows == 1)
        SG_CUDA(cudaMemcpyAsync(to.data, from.data, (size_t)(width * src->rows),
                                cudaMemcpyDeviceToDevice, stream));
    else
        SG_CUDA(cudaMemcpy2DAsync(to.data, (size_t)to.pitch, from.data, (size_t)from.pitch,
                                  (size_t)width, (size_t)src->rows, cudaMemcpyDeviceToDevice,
                                  stream));
    return SHINGLE_OK;
}

/* Copies the epoch behind the data, where engines alone raise a flag; a kernel counts and raises
 * the others.  Partner: the acquire of whoever waits. */
static shingle_status raise_by_engine(const sg_cuda_rank *rank, const sg_run *run, int32_t index,
                                      cudaStream_t stream)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_cuda_step *const step = &plan->step[index];
    const sg_step *const copy = &run->bound->sched.step[index];
    for (int32_t i = 0; i < copy->raises; i++) {
        const sg_raise *const r = &run->bound->sched.raise[copy->raise0 + i];
        const uint32_t bit = i < SG_CUDA_RAISES ? 1u << i : 0;
        if (step->raise_by_other & bit) continue;
        if (step->raise_by_copy & bit) {
            void *const word =
                (void *)sg_work_flag(run->work->peer[r->at], run->work->rank, r->flag0);
            SG_CUDA(cudaMemcpyAsync(word, &rank->state->epoch, sizeof(uint64_t),
                                    cudaMemcpyDeviceToDevice, stream));
            continue;
        }
        sg_kernel_step one = step->flags;
        one.waits = one.tos = 0;
        one.raise0 = copy->raise0 + i;
        one.raises = 1;
        SG_CUDA(sg_kernel_flag(&plan->program, &one, rank->how, stream));
    }
    return SHINGLE_OK;
}

static shingle_status go_copy(sg_cuda *cuda, sg_cuda_rank *rank, sg_run *run, int32_t index,
                              cudaStream_t stream)
{
    sg_cuda_plan *const plan = run->bound->backend;
    const sg_sched *const s = &run->bound->sched;
    const sg_step *const copy = &s->step[index];
    const sg_cuda_step *const step = &plan->step[index];
    (void)cuda;
    if (sg_step_is_push(copy)) return SHINGLE_OK; /* with its launch */
    if (step->copies == 0) return SHINGLE_OK;     /* with the first of those that go together */
    sg_cuda_aim(&plan->program, run);
    if (copy->u.copy.carrier == SG_BY_SMS) {
        /* In the lane of products none of its own runs beside it. */
        const bool alone = copy->lane == 0;
        if (step->copies > 1)
            return sg_cuda_issue_moves(
                rank, run, index, alone ? step_blocks(rank, step->move_bytes) : BESIDE, stream);
        const int blocks = alone ? rank->sms : BESIDE;
        SG_CUDA(sg_kernel_copy(&plan->program, &step->flags, blocks, rank->how, stream));
        return SHINGLE_OK;
    }
    bool leaves = false;
    for (int32_t i = 0; i < copy->tos; i++) leaves |= s->to[copy->to0 + i].leave != 0;
    if (copy->waits > 0 || leaves) {
        sg_kernel_step waits = step->flags;
        waits.raises = 0;
        if (!leaves) waits.tos = 0;
        SG_CUDA(sg_kernel_flag(&plan->program, &waits, rank->how, stream));
    }
    for (int32_t i = 0; i < copy->tos; i++)
        SG_TRY(copy_area(run, &copy->u.copy.src, &s->to[copy->to0 + i], stream));
    return raise_by_engine(rank, run, index, stream);
}

shingle_status sg_cuda_issue_copy(void *self, sg_run *run, int32_t step)
{
    return issue(self, run, step, go_copy);
}

/* ---- Sums and flags -------------------------------------------------------------------------- */

static shingle_status go_reduce(sg_cuda *cuda, sg_cuda_rank *rank, sg_run *run, int32_t index,
                                cudaStream_t stream)
{
    sg_cuda_plan *const plan = run->bound->backend;
    (void)cuda;
    const sg_cuda_step *const step = &plan->step[index];
    sg_cuda_aim(&plan->program, run);
    if (step->adds_waits > 0) {
        /* One thread waits, and not a block on each SM, where others may be needed first. */
        sg_kernel_step waits = step->flags;
        waits.wait0 = step->adds_wait0;
        waits.waits = step->adds_waits;
        waits.adds = waits.tos = waits.raises = 0;
        SG_CUDA(sg_kernel_flag(&plan->program, &waits, rank->how, stream));
    }
    const sg_sched *const s = &run->bound->sched;
    const sg_area *const to = &s->to[s->step[index].to0];
    const int64_t bytes = (int64_t)to->rows * to->cols * sg_type_bytes(s->problem->type);
    const int blocks = step_blocks(rank, bytes);
    SG_CUDA(sg_kernel_reduce(&plan->program, &step->flags, blocks, rank->how, stream));
    return SHINGLE_OK;
}

shingle_status sg_cuda_issue_reduce(void *self, sg_run *run, int32_t step)
{
    return issue(self, run, step, go_reduce);
}

static shingle_status go_flag(sg_cuda *cuda, sg_cuda_rank *rank, sg_run *run, int32_t index,
                              cudaStream_t stream)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    (void)cuda;
    if (rank->ended) return SHINGLE_OK; /* by the launch before, which waited for these flags */
    SG_CUDA(sg_kernel_flag(&plan->program, &plan->step[index].flags, rank->how, stream));
    return SHINGLE_OK;
}

shingle_status sg_cuda_issue_flag(void *self, sg_run *run, int32_t step)
{
    return issue(self, run, step, go_flag);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* A part of a collective: the library takes elements side by side, so what is not
 * goes through dense memory. */
typedef struct part {
    const sg_area *area;
    bool read, written;
    bool alone; /* nothing has to follow it */
    sg_cuda_place place;
    bool dense;
} part;

/* Columns of the tensor that AREA lies in. */
static int64_t cols_around(const sg_run *run, const sg_area *area)
{
    const sg_problem *const p = &run->bound->problem;
    int64_t low = 0;
    int64_t high = run->bound->sched.buf[area->buf].cols;
    if (area->buf == SG_C && p->b_count > 1) (void)sg_problem_b_at(p, area->col0, &low, &high);
    return high - low;
}

/* Are the parts of STEP of one size and side by side?  As the plan has them, since the library
 * must hear the same of all ranks, and rows of the user's may lie apart at one of them: those go
 * through dense memory, where they follow each other.  So do parts that are not whole rows, at
 * all ranks. */
static bool are_even(const sg_run *run, const sg_step *step)
{
    const sg_area *const first = &run->bound->sched.to[step->to0];
    const sg_coll_kind kind = (sg_coll_kind)step->u.coll.kind;
    if (kind == SG_ALL_REDUCE || kind == SG_ALL_TO_ALL || first->rows == 0) return false;
    const bool whole = first->cols == cols_around(run, first);
    bool even = true;
    for (int32_t i = 1; i < step->tos; i++) {
        const sg_area *const a = first + i;
        even &= a->rows == first->rows && a->cols == first->cols && a->buf == first->buf;
        if (whole) even &= a->row0 == first->row0 + i * first->rows && a->col0 == first->col0;
    }
    return even;
}

static shingle_status take_part(const sg_run *run, part *x, uint8_t **room, sg_coll_part *part_out,
                                cudaStream_t stream)
{
    const size_t rows = (size_t)x->area->rows;
    x->place = sg_cuda_address(run, x->area, x->read);
    const size_t row_bytes = (size_t)x->area->cols * (size_t)x->place.element_bytes;
    *part_out = (sg_coll_part){x->place.data, (int64_t)x->area->rows * x->area->cols};
    x->dense =
        (x->alone && rows <= 1) || rows * row_bytes == 0 || (size_t)x->place.pitch == row_bytes;
    if (x->dense) return SHINGLE_OK;
    part_out->data = *room;
    *room += rows * row_bytes;
    if (x->read)
        SG_CUDA(cudaMemcpy2DAsync(part_out->data, row_bytes, x->place.data, (size_t)x->place.pitch,
                                  row_bytes, rows, cudaMemcpyDeviceToDevice, stream));
    return SHINGLE_OK;
}

static shingle_status give_part(const part *x, const sg_coll_part *from, cudaStream_t stream)
{
    const size_t row_bytes = (size_t)x->area->cols * (size_t)x->place.element_bytes;
    if (x->dense || !x->written) return SHINGLE_OK;
    SG_CUDA(cudaMemcpy2DAsync(x->place.data, (size_t)x->place.pitch, from->data, row_bytes,
                              row_bytes, (size_t)x->area->rows, cudaMemcpyDeviceToDevice, stream));
    return SHINGLE_OK;
}

/* A group of one rank: what it sends is what it gets. */
static shingle_status keep(const sg_run *run, const sg_step *step, cudaStream_t stream)
{
    const sg_area *const first = &run->bound->sched.to[step->to0];
    const sg_coll *const c = &step->u.coll;
    if (c->kind == SG_ALL_REDUCE) return SHINGLE_OK;
    if (c->kind == SG_ALL_TO_ALL) return copy_area(run, first, first + 1, stream);
    if (c->kind == SG_ALL_GATHER) return copy_area(run, &c->self, first, stream);
    return copy_area(run, first, &c->self, stream);
}

/* Entry 0 is the collective's self, which an all-to-all has not. */
static shingle_status collect(sg_cuda *cuda, sg_cuda_rank *rank, const sg_run *run,
                              const sg_step *step, cudaStream_t stream)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_coll_kind kind = (sg_coll_kind)step->u.coll.kind;
    const bool exchange = kind == SG_ALL_TO_ALL;
    part parts[2 * SG_CUDA_RANKS + 1];
    sg_coll_part at[2 * SG_CUDA_RANKS + 1];
    uint8_t *room = plan->dense;
    memset(at, 0, sizeof at);
    for (int32_t i = exchange; i <= step->tos; i++) {
        const bool gathered = kind == SG_ALL_GATHER;
        const bool arrives = exchange ? i > cuda->ranks : gathered;
        parts[i] =
            i == 0
                ? (part){.area = &step->u.coll.self,
                         .alone = true,
                         .read = kind != SG_REDUCE_SCATTER,
                         .written = !gathered}
                : (part){.area = &s->to[step->to0 + i - 1], .read = !arrives, .written = arrives};
        SG_TRY(take_part(run, &parts[i], &room, &at[i], stream));
    }
    const sg_area *const some = exchange ? &s->to[step->to0] : &step->u.coll.self;
    const sg_type type = s->buf[some->buf].wide ? SG_F32 : run->bound->problem.type;
    /* Partner: await_calls(). */
    __atomic_store_n(&rank->calls, true, __ATOMIC_SEQ_CST);
    const shingle_status status =
        __atomic_load_n(&cuda->halts, __ATOMIC_SEQ_CST)
            ? sg_fail(SHINGLE_EBACKEND, "the group is being taken down")
            : sg_collect_run(cuda->collect, rank->rank, kind, type, at[0], at + 1,
                             are_even(run, step), rank->capturing, stream);
    __atomic_store_n(&rank->calls, false, __ATOMIC_SEQ_CST);
    SG_TRY(status);
    for (int32_t i = exchange; i <= step->tos; i++) SG_TRY(give_part(&parts[i], &at[i], stream));
    return SHINGLE_OK;
}

static shingle_status go_coll(sg_cuda *cuda, sg_cuda_rank *rank, sg_run *run, int32_t index,
                              cudaStream_t stream)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_step *const step = &run->bound->sched.step[index];
    sg_kernel_step waits = plan->step[index].flags;
    sg_kernel_step raises = waits;
    waits.tos = waits.raises = 0;
    raises.tos = raises.waits = 0;
    if (waits.waits > 0) SG_CUDA(sg_kernel_flag(&plan->program, &waits, rank->how, stream));
    if (cuda->ranks == 1)
        SG_TRY(keep(run, step, stream));
    else if (cuda->collect == NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED, "%s", cuda->no_collect);
    else
        SG_TRY(collect(cuda, rank, run, step, stream));
    if (raises.raises > 0) SG_CUDA(sg_kernel_flag(&plan->program, &raises, rank->how, stream));
    return SHINGLE_OK;
}

shingle_status sg_cuda_issue_coll(void *self, sg_run *run, int32_t step)
{
    return issue(self, run, step, go_coll);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

sg_cuda_place sg_cuda_address(const sg_run *run, const sg_area *of, bool source)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_problem *const p = &run->bound->problem;
    sg_area in_buf = *of;
    sg_area *const area = &in_buf;
    const sg_buf *const buf = &run->bound->sched.buf[area->buf];
    sg_cuda_place place = {.type = buf->wide ? SG_F32 : p->type};
    place.element_bytes = sg_type_bytes(place.type);
    const bool own = buf->arena == SG_USER && area->rank == run->work->rank;
    if (own && !(source && sg_cuda_is_landed(plan, area))) {
        const sg_user_matrix at = sg_exec_user(p, &run->tensors, area);
        place.data = at.data;
        place.pitch = at.stride * place.element_bytes;
    } else {
        /* Engines and collectives use half 0: their buffers are baked. */
        const int index = own ? plan->landed : plan->place_of[area->buf][area->rank];
        place.data = plan->program.place[index].data[0];
        place.pitch = plan->program.place[index].pitch;
    }
    if (place.data != NULL)
        place.data += area->row0 * place.pitch + (int64_t)area->col0 * place.element_bytes;
    return place;
}
