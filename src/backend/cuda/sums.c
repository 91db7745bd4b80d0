/* sums.c -- flags about the tiles of a whole launch, where GPUs add to each other's memory.
 *
 * As schedules have it, raisers of a flag count at their own rank, and the last one raises it: it waits for its
 * count to come back, and its second fence, both behind the launch's last tile, where nothing hides them.  Here
 * each raiser adds to a word of the rank that waits, and waits for nothing (SG_KERNEL_SUMMED). */
#include "backend/cuda/cuda.h"

/* Over links that carry atomic operations; on one GPU always. */
shingle_status sg_cuda_ask_adds(sg_cuda *cuda)
{
    cuda->adds = true;
    for (int r = 0; r < cuda->ranks; r++)
        for (int q = 0; q < cuda->ranks; q++) {
            int can = 0;
            if (cuda->rank[q].device == cuda->rank[r].device) continue;
            SG_CUDA(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrNativeAtomicSupported,
                                              cuda->rank[r].device, cuda->rank[q].device));
            cuda->adds &= can != 0;
        }
    return SHINGLE_OK;
}

bool sg_cuda_adds_up(const sg_cuda *cuda, const sg_cuda_plan *plan)
{
    return cuda->adds && plan->bound->sched.sums && !plan->bound->problem.norm;
}

static shingle_status broken(const sg_cuda_plan *plan, const char *what)
{
    return sg_fail(SHINGLE_EBUG, "%s: flag 0 of a peer is %s", plan->bound->text, what);
}

/* All raisers of a rank together add SG_KERNEL_SUM: each tile 1, and the first one of the first patch the rest. */
static shingle_status mark_raises(const sg_cuda_plan *plan, sg_raise *raise)
{
    const sg_sched *const s = &plan->bound->sched;
    bool seen[SG_CUDA_RANKS] = {false};
    for (int32_t i = 0; i < s->patches; i++)
        for (int32_t j = s->patch[i].raise0; j < s->patch[i].raise0 + s->patch[i].raises; j++) {
            const sg_raise *const r = &s->raise[j];
            if (r->at == s->rank || r->flag0 != 0) continue;
            const int32_t raisers = r->counter < 0 ? 1 : s->counter[r->counter];
            if (r->per != SG_PER_PATCH || raisers > SG_KERNEL_SUM || s->patch[i].tile0 != 0)
                return broken(plan, "raised by parts of patches");
            raise[j].counter = SG_KERNEL_SUMMED;
            raise[j].flag0 = seen[r->at] ? 1 : SG_KERNEL_SUM - (raisers - 1);
            seen[r->at] = true;
        }
    for (int32_t i = 0; i < s->steps; i++)
        for (int32_t j = 0; s->step[i].kind != SG_GEMM && j < s->step[i].raises; j++) {
            const sg_raise *const r = &s->raise[s->step[i].raise0 + j];
            if (r->at != s->rank && r->flag0 == 0) return broken(plan, "raised by a step");
        }
    return SHINGLE_OK;
}

shingle_status sg_cuda_add_up(const sg_cuda_plan *plan, sg_raise *raise, sg_wait *wait)
{
    const sg_sched *const s = &plan->bound->sched;
    SG_TRY(mark_raises(plan, raise));
    for (int32_t i = 0; i < s->steps; i++)
        for (int32_t j = s->step[i].wait0; j < s->step[i].wait0 + s->step[i].waits; j++) {
            if (s->wait[j].by == s->rank || s->wait[j].flag0 != 0) continue;
            if (s->step[i].kind != SG_FLAG || s->wait[j].per != SG_PER_PATCH)
                return broken(plan, "waited for by more than a FLAG step");
            wait[j].flag0 = SG_KERNEL_SUMMED;
        }
    return SHINGLE_OK;
}
