/* issue.c -- steps on their lanes.  A step is behind the steps of its lane, and behind an event of
 * each step of another lane that it is after.  Nothing here waits or allocates. */
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
        sg_cuda_leave(rank);
        if (!rank->capturing) sg_cuda_stop(cuda, rank, status);
    }
    return status;
}

/* ---- Places of the user's tensors ------------------------------------------------------------ */

static void aim(sg_kernel_program *program, const sg_run *run)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const shingle_tensors *const t = &run->tensors;
    const int64_t bytes = sg_type_bytes(run->bound->problem.type);
    const int rank = run->work->rank;
    void *const data[3] = {(void *)(uintptr_t)t->a, (void *)(uintptr_t)t->b, t->c};
    const int64_t stride[3] = {t->a_stride, t->b_stride, t->c_stride};
    for (int buf = 0; buf < 3; buf++) {
        sg_kernel_place *const place = &program->place[plan->place_of[buf][rank]];
        place->data[0] = place->data[1] = data[buf];
        place->pitch = stride[buf] * bytes;
    }
    program->bias = t->bias;
}

/* ---- Products -------------------------------------------------------------------------------- */

static shingle_status issue_vendor(const sg_run *run, const sg_cuda_step *step,
                                   const sg_patch *patch, cudaStream_t stream)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_problem *const p = &run->bound->problem;
    const sg_cuda_place a = sg_cuda_address(run, &patch->a, true);
    const sg_cuda_place b = sg_cuda_address(run, &patch->b, true);
    const sg_cuda_place c = sg_cuda_address(run, &s->to[patch->to0], false);
    const sg_operands o = {.a = a.data,
                           .b = b.data,
                           .bias = patch->final && p->bias ? run->tensors.bias : NULL,
                           .c = c.data,
                           .a_stride = a.pitch / a.element_bytes,
                           .b_stride = b.pitch / b.element_bytes,
                           .c_stride = c.pitch / c.element_bytes};
    return sg_product_run(step->lt, &o, stream);
}

static shingle_status go_gemm(sg_cuda *cuda, sg_cuda_rank *rank, sg_run *run, int32_t index,
                              cudaStream_t stream)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_cuda_step *const step = &plan->step[index];
    const sg_launch *const l = &run->bound->sched.step[index].u.launch;
    (void)cuda;
    if (step->lt != NULL)
        return issue_vendor(run, step, &run->bound->sched.patch[l->patch0], stream);
    if (step->gemm == NULL) return SHINGLE_OK;
    aim(&step->gemm->param.program, run);
    const char *const slow = step->gemm->slow;
    const char *const why = sg_kernel_gemm_aim(step->gemm);
    if (step->gemm->slow != slow && step->gemm->slow != NULL && !rank->capturing)
        sg_log(SG_LOG_WARN, "step %d of %s takes a slow kernel: %s", index, run->bound->text,
               step->gemm->slow);
    if (why != NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED, "step %d of %s: %s", index, run->bound->text, why);
    SG_CUDA(sg_kernel_gemm_run(step->gemm, 0, stream));
    return SHINGLE_OK;
}

shingle_status sg_cuda_issue_gemm(void *self, sg_run *run, int32_t step)
{
    return issue(self, run, step, go_gemm);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

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

static uint32_t all_bits(int32_t count)
{
    return count >= 32 ? ~0u : (1u << count) - 1;
}

/* The copy engine brings the epoch behind the data.  Partner: the acquire of whoever waits. */
static shingle_status raise_by_engine(const sg_cuda_rank *rank, const sg_run *run, int32_t index,
                                      cudaStream_t stream)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_cuda_step *const step = &plan->step[index];
    const sg_step *const copy = &run->bound->sched.step[index];
    const uint32_t all = all_bits(copy->raises);
    if (copy->raises > 32 || ((step->raise_by_copy | step->raise_by_other) & all) != all) {
        sg_kernel_step raises = step->flags;
        raises.waits = raises.tos = 0;
        SG_CUDA(sg_kernel_flag(&plan->program, &raises, 0, stream));
        return SHINGLE_OK;
    }
    for (int32_t i = 0; i < copy->raises; i++) {
        const sg_raise *const r = &run->bound->sched.raise[copy->raise0 + i];
        if ((step->raise_by_copy & 1u << i) == 0) continue;
        void *const word = (void *)sg_work_flag(run->work->peer[r->at], run->work->rank, r->flag0);
        SG_CUDA(cudaMemcpyAsync(word, &rank->state->epoch, sizeof(uint64_t),
                                cudaMemcpyDeviceToDevice, stream));
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
    aim(&plan->program, run);
    if (copy->u.copy.engine == SG_BY_SMS) {
        SG_CUDA(sg_kernel_copy(&plan->program, &step->flags, 8, 0, stream));
        return SHINGLE_OK;
    }
    bool leaves = false;
    for (int32_t i = 0; i < copy->tos; i++) leaves |= s->to[copy->to0 + i].leave != 0;
    if (copy->waits > 0 || leaves) {
        sg_kernel_step waits = step->flags;
        waits.raises = 0;
        if (!leaves) waits.tos = 0;
        SG_CUDA(sg_kernel_flag(&plan->program, &waits, 0, stream));
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
    aim(&plan->program, run);
    if (step->adds_waits > 0) {
        /* One thread waits, and not a block on each SM, where others may be needed first. */
        sg_kernel_step waits = step->flags;
        waits.wait0 = step->adds_wait0;
        waits.waits = step->adds_waits;
        waits.adds = waits.tos = waits.raises = 0;
        SG_CUDA(sg_kernel_flag(&plan->program, &waits, 0, stream));
    }
    SG_CUDA(sg_kernel_reduce(&plan->program, &step->flags, rank->sms, 0, stream));
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
    (void)rank;
    SG_CUDA(sg_kernel_flag(&plan->program, &plan->step[index].flags, 0, stream));
    return SHINGLE_OK;
}

shingle_status sg_cuda_issue_flag(void *self, sg_run *run, int32_t step)
{
    return issue(self, run, step, go_flag);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* The library takes elements side by side. */
static shingle_status part_of(const sg_run *run, const sg_area *area, sg_coll_part *part_out)
{
    const sg_cuda_place place = sg_cuda_address(run, area, true);
    *part_out = (sg_coll_part){place.data, (int64_t)area->rows * area->cols};
    if (area->rows <= 1 || place.pitch == (int64_t)area->cols * place.element_bytes)
        return SHINGLE_OK;
    return sg_fail(SHINGLE_EUNSUPPORTED,
                   "%s has a collective on a matrix with %lld bytes from row to row; it must be "
                   "dense (%lld)",
                   run->bound->text, (long long)place.pitch,
                   (long long)area->cols * place.element_bytes);
}

/* A group of one rank: what it sends is what it gets. */
static shingle_status keep(const sg_run *run, const sg_step *step, cudaStream_t stream)
{
    const sg_area *const part = &run->bound->sched.to[step->to0];
    if (step->u.coll.kind == SG_ALL_REDUCE) return SHINGLE_OK;
    if (step->u.coll.kind == SG_ALL_GATHER) return copy_area(run, &step->u.coll.self, part, stream);
    return copy_area(run, part, &step->u.coll.self, stream);
}

static shingle_status go_coll(sg_cuda *cuda, sg_cuda_rank *rank, sg_run *run, int32_t index,
                              cudaStream_t stream)
{
    const sg_sched *const s = &run->bound->sched;
    const sg_step *const step = &s->step[index];
    sg_coll_part part[SG_CUDA_RANKS];
    sg_coll_part self;
    if (cuda->ranks == 1) return keep(run, step, stream);
    if (cuda->collect == NULL) return sg_fail(SHINGLE_EUNSUPPORTED, "%s", cuda->no_collect);
    SG_TRY(part_of(run, &step->u.coll.self, &self));
    for (int32_t q = 0; q < step->tos; q++) SG_TRY(part_of(run, &s->to[step->to0 + q], &part[q]));
    const bool wide = s->buf[step->u.coll.self.buf].wide;
    return sg_collect_run(cuda->collect, rank->rank, (sg_coll_kind)step->u.coll.kind,
                          wide ? SG_F32 : run->bound->problem.type, self, part, stream);
}

shingle_status sg_cuda_issue_coll(void *self, sg_run *run, int32_t step)
{
    return issue(self, run, step, go_coll);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

sg_cuda_place sg_cuda_address(const sg_run *run, const sg_area *area, bool source)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_problem *const p = &run->bound->problem;
    const shingle_tensors *const t = &run->tensors;
    const sg_buf *const buf = &run->bound->sched.buf[area->buf];
    sg_cuda_place place = {.type = buf->wide ? SG_F32 : p->type};
    place.element_bytes = sg_type_bytes(place.type);
    const bool own = buf->arena == SG_USER && area->rank == run->work->rank;
    if (own && !(source && sg_cuda_is_landed(run->bound, area))) {
        const void *const data = area->buf == SG_A ? t->a : area->buf == SG_B ? t->b : t->c;
        const int64_t stride = area->buf == SG_A   ? t->a_stride
                               : area->buf == SG_B ? t->b_stride
                                                   : t->c_stride;
        place.data = (uint8_t *)(uintptr_t)data;
        place.pitch = stride * place.element_bytes;
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
