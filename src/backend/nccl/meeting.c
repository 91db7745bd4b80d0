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

/* Of an uneven collective M: what RANK has said of its parts, of each rank how many elements go
 * there, and how many come from there.  -1: it has not come. */
static int64_t *counts_of(const sg_collect *c, const meeting *m, int rank)
{
    const size_t place = (size_t)(m->number % MEETINGS);
    const size_t ranks = (size_t)c->ranks;
    return c->counts + 2 * ranks * (place * ranks + (size_t)rank);
}

/* RANK has come to M with PART, FIRST of all or not. */
static void note_counts(const sg_collect *c, const meeting *m, int rank, bool first,
                        const sg_coll_part *part)
{
    const bool exchange = m->kind == SG_ALL_TO_ALL;
    for (int q = 0; q < c->ranks && first; q++) counts_of(c, m, q)[0] = -1;
    for (int q = 0; q < (exchange ? 2 : 1) * c->ranks; q++)
        counts_of(c, m, rank)[q] = part[q].count;
}

shingle_status sg_meeting_come(sg_collect *c, int rank, const meeting *its,
                               const sg_coll_part *part)
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
    const bool first = status == SHINGLE_OK && number == most && !ahead;
    if (first) {
        *at = *its;
        at->number = number;
    }
    if (status == SHINGLE_OK && !its->even && at->number == number && !at->even)
        note_counts(c, at, rank, first, part);
    pthread_mutex_unlock(&c->mutex);
    return status;
}

void sg_meeting_go(sg_collect *c, int rank)
{
    pthread_mutex_lock(&c->mutex);
    const uint64_t number = --c->came[rank];
    const meeting *const at = &c->meeting[number % MEETINGS];
    if (at->number == number && !at->even) counts_of(c, at, rank)[0] = -1;
    pthread_mutex_unlock(&c->mutex);
}

/* ---- In the name of others ------------------------------------------------------------------- */

static const meeting *find(const sg_collect *c, uint64_t number)
{
    const meeting *const m = &c->meeting[number % MEETINGS];
    return m->number == number ? m : NULL;
}

/* What RANK, which has not come, would say of its PARTS of uneven M, by those who have; the data of
 * all of them are in SPARE.  Those who are missing exchange nothing with each other.  Returns the
 * most elements of one; -1: nobody has said. */
static int64_t parts_of(const sg_collect *c, int rank, const meeting *m, void *spare,
                        sg_coll_part *parts)
{
    const bool exchange = m->kind == SG_ALL_TO_ALL;
    int64_t most = -1;
    for (int q = 0; q < 2 * c->ranks; q++) parts[q] = (sg_coll_part){spare, 0};
    for (int q = 0; q < c->ranks; q++) {
        const int64_t *const said = counts_of(c, m, q);
        if (said[0] < 0) continue;
        for (int x = 0; x < c->ranks && !exchange; x++) parts[x].count = said[x];
        if (exchange) parts[q].count = said[c->ranks + rank];
        if (exchange) parts[c->ranks + q].count = said[rank];
        most = most < 0 ? 0 : most;
    }
    for (int q = 0; q < 2 * c->ranks; q++)
        if (most >= 0 && parts[q].count > most) most = parts[q].count;
    return most;
}

/* Memory for what the collectives that RANK misses have in no window.  That of a try before is
 * large enough, since nobody has come to more; to free it would wait for those who wait for
 * RANK. */
static bool find_spare(sg_collect *c, int rank, uint64_t end)
{
    size_t bytes = 0;
    for (uint64_t i = c->came[rank]; i < end; i++) {
        const meeting *const m = find(c, i);
        sg_coll_part parts[2 * SG_LOCAL_RANKS];
        const bool needs = m != NULL && m->even && (m->window == NULL || m->own == NULL);
        const int64_t most = m != NULL && !m->even ? parts_of(c, rank, m, NULL, parts) : 0;
        const size_t its = needs ? m->bytes : most > 0 ? (size_t)most * m->unit : 0;
        if (its > bytes) bytes = its;
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
    sg_coll_part parts[2 * SG_LOCAL_RANKS];
    if (!m->even && parts_of(c, rank, m, spare, parts) < 0) return ncclInternalError;
    if (m->kind == SG_ALL_TO_ALL) return sg_collect_exchange(c, rank, m->type, parts, stream);
    if (!m->even) return sg_collect_ragged(c, rank, m->kind, m->type, parts[rank], parts, stream);
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
        if (m == NULL || attend(c, rank, m, stream) != ncclSuccess) return false;
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
    bool all = true; /* that are missing */
    bounds(c, &least, &most);
    for (uint64_t i = least; i < most; i++)
        windows |= find(c, i) != NULL && find(c, i)->window != NULL;
    for (int r = 0; r < c->ranks && windows; r++) {
        const int before = sg_window_enter(c, r);
        const bool came = attend_all(c, r, most, stream[r]);
        if (!came) sg_log(SG_LOG_ERROR, "%s: nobody could come for rank %d", c->name, r);
        all &= came;
        sg_window_leave(before);
    }
    c->over = windows;
    pthread_mutex_unlock(&c->mutex);
    return windows && all;
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
