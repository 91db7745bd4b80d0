/* slow.h -- does a plan run on kernels that it was not priced with?  Bits do not tell. */
#ifndef TESTS_SLOW_H
#define TESTS_SLOW_H

#include <stdio.h>

#include "backend/cuda/cuda.h"
#include "core/plan.h"

/* Launches of PLAN that ran on a slow kernel, of any GPU.  SAY: prints why. */
static int count_slow(const shingle_plan *plan, bool say)
{
    const sg_cuda_plan *const bound = plan->bound->backend;
    int slow = 0;
    for (int32_t i = 0; i < plan->bound->sched.steps; i++) {
        const sg_kernel_gemm *const gemm = bound->step[i].gemm;
        if (gemm == NULL || gemm->slow == NULL) continue;
        slow++;
        if (say) printf("    step %d by a slow kernel: %s\n", (int)i, gemm->slow);
    }
    return slow;
}

#endif
