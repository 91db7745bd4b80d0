/* move.c -- copies that one launch carries out together (sg_sched_copies): rows dealt in turns are
 * put in order by hundreds of them.  Their list is made when a plan is bound, and each run issues a
 * kernel with the first of them.  An event of any other one stands behind that kernel, too. */
#include "backend/cuda/cuda.h"

int32_t sg_cuda_count_moves(const sg_sched *s)
{
    int32_t moves = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const int32_t count = sg_sched_copies(s, i);
        if (count > 1) moves += count;
    }
    return moves;
}

/* COUNT copies from step FIRST on, whose places are named. */
static void add_moves(sg_cuda_plan *plan, int32_t first, int32_t count, int32_t *at)
{
    const sg_sched *const s = &plan->bound->sched;
    sg_cuda_step *const step = &plan->step[first];
    step->move0 = *at;
    for (int32_t i = first; i < first + count; i++) {
        const sg_area *const src = &plan->step[i].flags.src;
        plan->move[(*at)++] = (sg_kernel_move){
            .src = *src, .to = plan->lists.to[s->step[i].to0], .row = step->move_rows};
        step->move_rows += src->rows;
        step->move_bytes +=
            (int64_t)src->rows * src->cols * sg_sched_element_bytes(s, s->step[i].u.copy.src.buf);
    }
}

shingle_status sg_cuda_make_moves(sg_cuda_rank *rank, sg_cuda_plan *plan)
{
    const sg_sched *const s = &plan->bound->sched;
    int32_t at = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        plan->step[i].copies = sg_sched_copies(s, i);
        if (plan->step[i].copies > 1) add_moves(plan, i, plan->step[i].copies, &at);
    }
    if (at == 0) return SHINGLE_OK;
    return sg_cuda_put(rank, (char *)plan->device + plan->move_at, plan->move,
                       (size_t)at * sizeof *plan->move);
}

shingle_status sg_cuda_issue_moves(const sg_cuda_rank *rank, const sg_run *run, int32_t index,
                                   int blocks, cudaStream_t stream)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_cuda_step *const step = &plan->step[index];
    const sg_kernel_move *const all =
        (sg_kernel_move *)(void *)((char *)plan->device + plan->move_at);
    if (step->flags.waits > 0) { /* one thread, and not a block on each SM */
        sg_kernel_step waits = step->flags;
        waits.tos = waits.raises = 0;
        SG_CUDA(sg_kernel_flag(&plan->program, &waits, rank->how, stream));
    }
    SG_CUDA(sg_kernel_copies(&plan->program, all + step->move0, step->copies, step->move_rows,
                             (int)sg_min(blocks, step->move_rows), rank->how, stream));
    return SHINGLE_OK;
}
