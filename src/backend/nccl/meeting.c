/* meeting.c -- who has come to which collective, so that those in windows end.
 *
 * NCCL's kernels look at a flag of ncclCommAbort while they wait for their peers; those that work
 * in windows do not (2.28: their barriers spin until all are there).  A rank that does not come
 * would leave the others on their GPUs for ever, recovery or not.  So the host knows what each rank
 * has enqueued, and when a group has failed, it comes in the name of those who are missing, with
 * memory whose contents nobody needs: all that waits ends, and nothing is aborted.  For the same
 * reason a rank is refused another collective than the one that its peers wait in.  Runs of a graph
 * are nobody's to count. */

#include "backend/nccl/library.h"

static void bounds(const sg_collect *c, uint64_t *least_out, uint64_t *most_out)
{
    *least_out = *most_out = c->came[0];
    for (int r = 1; r < c->ranks; r++) {
        if (c->came[r] < *least_out) *least_out = c->came[r];
        if (c->came[r] > *most_out) *most_out = c->came[r];
    }
}

static bool is_same(const meeting *a, const meeting *b)
{
    return a->kind == b->kind && a->type == b->type && a->count == b->count && a->even == b->even &&
           a->window == b->window && a->offset == b->offset && a->own == b->own &&
           a->own_offset == b->own_offset;
}

shingle_status sg_meeting_come(sg_collect *c, int rank, const meeting *its)
{
    shingle_status status = SHINGLE_OK;
    uint64_t least = 0;
    uint64_t most = 0;
    pthread_mutex_lock(&c->mutex);
    bounds(c, &least, &most);
    const uint64_t number = c->came[rank];
    const bool ahead = number - least >= MEETINGS;
    meeting *const at = &c->meeting[number % MEETINGS];
    const meeting *const known = number < most && at->number == number ? at : NULL;
    const bool windows = its->window != NULL || (known != NULL && known->window != NULL);
    if (c->over)
        status = sg_fail(SHINGLE_ETIMEOUT, "rank %d comes to a collective that is over", rank);
    else if (windows && number < most && (known == NULL || !is_same(known, its)))
        status = sg_fail(SHINGLE_EMISMATCH,
                         "rank %d comes to another collective than the ranks before it: they run "
                         "different plans",
                         rank);
    else if (windows && ahead)
        status = sg_fail(SHINGLE_ETIMEOUT, "rank %d is %d collectives ahead of another", rank,
                         (int)MEETINGS);
    else
        c->came[rank]++;
    if (status == SHINGLE_OK && number == most && !ahead) {
        *at = *its;
        at->number = number;
    }
    pthread_mutex_unlock(&c->mutex);
    return status;
}

void sg_meeting_go(sg_collect *c, int rank)
{
    pthread_mutex_lock(&c->mutex);
    c->came[rank]--;
    pthread_mutex_unlock(&c->mutex);
}

/* ---- In the name of others ------------------------------------------------------------------- */

static const meeting *find(const sg_collect *c, uint64_t number)
{
    const meeting *const m = &c->meeting[number % MEETINGS];
    return m->number == number ? m : NULL;
}

/* Memory for what the collectives that RANK misses have in no window.  That of a try before is
 * large enough, since nobody has come to more; to free it would wait for those who wait for
 * RANK. */
static bool find_spare(sg_collect *c, int rank, uint64_t most)
{
    size_t bytes = 0;
    for (uint64_t i = c->came[rank]; i < most; i++) {
        const meeting *const m = find(c, i);
        const bool needs = m != NULL && m->even && (m->window == NULL || m->own == NULL);
        if (needs && m->bytes > bytes) bytes = m->bytes;
    }
    if (bytes == 0 || c->spare[rank] != NULL) return true;
    return cudaMalloc(&c->spare[rank], bytes) == cudaSuccess;
}

/* What it sends and adds up is whatever lies there.  Only that is in a window which is in one at
 * its peers, too: the library chooses its kernel by it. */
static ncclResult_t attend(sg_collect *c, int rank, const meeting *m, cudaStream_t stream)
{
    char *const spare = c->spare[rank];
    char *const all = m->window != NULL ? (char *)m->window->seat[rank].memory + m->offset : spare;
    char *const own = m->own != NULL ? (char *)m->own->seat[rank].memory + m->own_offset
                                     : spare + (size_t)rank * (m->bytes / (size_t)c->ranks);
    const ncclComm_t comm = c->comm[rank];
    if (m->kind == SG_ALL_REDUCE)
        return c->lib.ncclAllReduce(all, all, m->count, m->type, ncclSum, comm, stream);
    if (m->kind == SG_ALL_GATHER)
        return c->lib.ncclAllGather(own, all, m->count, m->type, comm, stream);
    return c->lib.ncclReduceScatter(all, own, m->count, m->type, ncclSum, comm, stream);
}

/* All that RANK misses; what fails may be tried again. */
static bool attend_all(sg_collect *c, int rank, uint64_t most, cudaStream_t stream)
{
    if (!find_spare(c, rank, most)) return false;
    for (; c->came[rank] < most; c->came[rank]++) {
        const meeting *const m = find(c, c->came[rank]);
        if (m == NULL || !m->even || attend(c, rank, m, stream) != ncclSuccess) return false;
    }
    return true;
}

bool sg_collect_attend(sg_collect *c, void *const *stream)
{
    uint64_t least = 0;
    uint64_t most = 0;
    if (sg_collect_hangs(c)) return false;
    pthread_mutex_lock(&c->mutex);
    bool windows = c->over;
    bounds(c, &least, &most);
    for (uint64_t i = least; i < most; i++)
        windows |= find(c, i) != NULL && find(c, i)->window != NULL;
    for (int r = 0; r < c->ranks && windows; r++) {
        const int before = sg_window_enter(c, r);
        if (!attend_all(c, r, most, stream[r]))
            sg_log(SG_LOG_ERROR, "%s: nobody could come for rank %d", c->name, r);
        sg_window_leave(before);
    }
    c->over = windows;
    pthread_mutex_unlock(&c->mutex);
    return windows;
}

void sg_meeting_forget(sg_collect *c)
{
    for (int r = 0; r < c->ranks; r++) {
        const int before = sg_window_enter(c, r);
        if (c->spare[r] != NULL) (void)cudaFree(c->spare[r]);
        sg_window_leave(before);
        c->spare[r] = NULL;
        c->came[r] = 0;
    }
    c->over = false;
}
