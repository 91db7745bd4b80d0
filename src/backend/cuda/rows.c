/* rows.c -- launches that norm rows: behind everything that the rows are
 * made of, a kernel of its own. */
#include "backend/cuda/cuda.h"

shingle_status sg_cuda_issue_norm(sg_cuda_rank *rank, const sg_run *run, int32_t index,
                                  cudaStream_t stream)
{
    sg_cuda_plan *const plan = run->bound->backend;
    const sg_sched *const s = &run->bound->sched;
    const sg_launch *const l = &s->step[index].u.launch;
    sg_kernel_norm norm = {.patch0 = l->patch0,
                           .patches = l->patches,
                           .tile_m = l->tile_m,
                           .residual = plan->place_of[SG_RESIDUAL][run->work->rank],
                           .epsilon = sg_problem_epsilon(s->problem),
                           .gain = run->tensors.gain};
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) norm.rows += s->patch[i].rows;
    if (norm.rows == 0) return SHINGLE_OK;
    const int sms = l->blocks > 0 ? l->blocks : rank->sms;
    sg_cuda_aim(&plan->program, run);
    SG_CUDA(sg_kernel_norm_run(&plan->program, &norm, sms, rank->how, stream));
    return SHINGLE_OK;
}
