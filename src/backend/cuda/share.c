/* share.c -- several ranks on one GPU, for proofs alone: SHINGLE_SHARE_GPU=1.
 *
 *     rank       0  1  2  3  4        of 5 ranks on 2 GPUs
 *     GPU        0  1  0  1  0
 *     SMs        a third of a GPU each
 *
 * Ranks wait for each other inside kernels, so everything that waits must be on the GPU at once: a
 * rank plans with its part of the SMs, and all its grids keep to that.  No kernel starts beside the
 * end of the one before it, since it would take SMs that another rank counts on.  What never waits
 * (the vendor's products, fills, copies) may take all SMs, since it ends.  Collectives wait for
 * each other as they please and are declined. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/cuda.h"
#include "core/env.h"

enum {
    /* Blocks of clusters come in pairs within a group of about so many SMs, each of which may be
     * left with an odd one; the driver's copies from the GPU to itself need a place, too. */
    GROUP = 16,
    LEAST_SMS = 4
};

/* ---- Who has what ---------------------------------------------------------------------------- */

shingle_status sg_cuda_ask_share(bool *shares_out)
{
    int share = 0;
    SG_TRY(sg_env_count("SHINGLE_SHARE_GPU", 0, 1, 0, &share));
    /* Streams of different ranks must not stand behind each other in a queue of the hardware. */
    if (share) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    *shares_out = share != 0;
    return SHINGLE_OK;
}

shingle_status sg_cuda_deal(sg_cuda *cuda, bool shares, int devices)
{
    const char *const s = devices == 1 ? "" : "s";
    if (cuda->ranks > devices && !shares)
        return sg_fail(
            SHINGLE_EUNSUPPORTED,
            "%d ranks; this machine has %d GPU%s, one a rank; SHINGLE_SHARE_GPU=1 has ranks "
            "share them, for proofs alone; --backend cpu has no such limit",
            cuda->ranks, devices, s);
    cuda->sharing = cuda->ranks > devices ? (cuda->ranks + devices - 1) / devices : 1;
    for (int r = 0; r < cuda->ranks; r++) {
        cuda->rank[r].cuda = cuda;
        cuda->rank[r].rank = r;
        cuda->rank[r].device = r % devices;
    }
    if (cuda->sharing == 1) return SHINGLE_OK;
    snprintf(cuda->no_collect, sizeof cuda->no_collect,
             "ranks that share a GPU have no collectives (SHINGLE_SHARE_GPU)");
    sg_log(SG_LOG_WARN, "cuda: %d ranks share %d GPU%s: this proves plans, and times mean nothing",
           cuda->ranks, devices, s);
    return SHINGLE_OK;
}

shingle_status sg_cuda_share_sms(const sg_cuda *cuda, sg_cuda_rank *rank)
{
    if (cuda->sharing == 1) return SHINGLE_OK;
    const int all = rank->sms;
    rank->sms = (all - all / GROUP) / (2 * cuda->sharing) * 2;
    if (rank->sms >= LEAST_SMS) return SHINGLE_OK;
    return sg_fail(SHINGLE_EUNSUPPORTED, "%d ranks on a GPU of %d SMs; each needs %d of them",
                   cuda->sharing, all, (int)LEAST_SMS);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

struct sg_cuda_dropped {
    struct sg_cuda_dropped *next;
    void *memory;
};

/* What a GPU has not ended on its service stream may be what it hangs at. */
static bool is_quiet(sg_cuda *cuda)
{
    bool quiet = !sg_collect_hangs(cuda->collect);
    for (int r = 0; r < cuda->ranks; r++) {
        const sg_cuda_rank *const rank = &cuda->rank[r];
        quiet &= !rank->enqueues && rank->first == rank->issued;
        quiet &= sg_cuda_stream_stands(cuda, rank->service) != cudaErrorNotReady;
        /* The rest of a run that could not be enqueued to its end is in no list. */
        quiet &= sg_cuda_event_stands(cuda, rank->fork) != cudaErrorNotReady;
    }
    for (int r = 0; r < cuda->ranks && quiet; r++)
        quiet = !sg_cuda_is_replaying(cuda, &cuda->rank[r]);
    return quiet;
}

/* Whoever would begin a run meanwhile waits, in sg_cuda_enqueues(); who drops something does not.
 * Work of the caller for which cudaFree waits may itself wait for another rank's thread, so nothing
 * is locked until then.  One thread sweeps at a time, for all. */
void sg_cuda_sweep(sg_cuda *cuda, bool last)
{
    struct sg_cuda_dropped *first = NULL;
    pthread_mutex_lock(&cuda->mutex);
    if (cuda->sweeping) {
        pthread_mutex_unlock(&cuda->mutex);
        return;
    }
    cuda->sweeping = true;
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    if (!last) sg_cuda_reap(cuda);
    while ((first = __atomic_load_n(&cuda->dropped, __ATOMIC_ACQUIRE)) != NULL &&
           (last || is_quiet(cuda))) {
        while (!__atomic_compare_exchange_n(&cuda->dropped, &first, first->next, false,
                                            __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {}
        pthread_mutex_unlock(&cuda->mutex);
        (void)cudaFree(first->memory);
        free(first);
        pthread_mutex_lock(&cuda->mutex);
    }
    sg_cuda_restore(mode);
    cuda->sweeping = false;
    pthread_cond_broadcast(&cuda->swept);
    pthread_mutex_unlock(&cuda->mutex);
}

/* Release.  Partner: sg_cuda_sweep(), which alone takes anything from the list. */
void sg_cuda_put_back(const sg_cuda_rank *rank, void *memory)
{
    struct sg_cuda_dropped *const d = memory != NULL ? malloc(sizeof *d) : NULL;
    if (d == NULL) {
        if (memory != NULL) (void)cudaFree(memory);
        return;
    }
    d->memory = memory;
    d->next = __atomic_load_n(&rank->cuda->dropped, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&rank->cuda->dropped, &d->next, d, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {}
}

void sg_cuda_drop(sg_cuda *cuda, void *memory)
{
    if (memory == NULL) return;
    sg_cuda_put_back(&cuda->rank[0], memory);
    sg_cuda_sweep(cuda, false);
}

shingle_status sg_cuda_enqueues(sg_cuda *cuda, sg_cuda_rank *rank)
{
    const struct timespec until = sg_deadline(sg_now_us() + cuda->timeout_us);
    int late = 0;
    pthread_mutex_lock(&cuda->mutex);
    while (cuda->sweeping && late == 0)
        late = pthread_cond_timedwait(&cuda->swept, &cuda->mutex, &until);
    const bool begins = !cuda->sweeping;
    if (begins) rank->enqueues = true;
    pthread_mutex_unlock(&cuda->mutex);
    if (begins) return SHINGLE_OK;
    return sg_fail(SHINGLE_ETIMEOUT,
                   "rank %d: memory has been freed for %g s, which waits for all that is on a GPU; "
                   "nothing there may wait for a thread that runs or frees",
                   rank->rank, cuda->timeout_us / 1e6);
}

void sg_cuda_enqueued(sg_cuda *cuda, sg_cuda_rank *rank)
{
    pthread_mutex_lock(&cuda->mutex);
    rank->enqueues = false;
    pthread_mutex_unlock(&cuda->mutex);
}
