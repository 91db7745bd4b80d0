/* nccl.c -- see collect.h.  NCCL is loaded when a group opens; a process that has it already
 * (because a framework brought it) shares it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/nccl/library.h"

/* ---- Library --------------------------------------------------------------------------------- */

static bool find(void *handle, const char *name, void *entry)
{
    void *const symbol = dlsym(handle, name);
    if (symbol == NULL) return false;
    *(void **)entry = symbol;
    return true;
}

static bool find_all(void *handle, library *lib)
{
#define FIND(name) find(handle, #name, &lib->name)
    return FIND(ncclGetVersion) && FIND(ncclGetErrorString) && FIND(ncclCommInitAll) &&
           FIND(ncclCommAbort) && FIND(ncclGroupStart) && FIND(ncclGroupEnd) &&
           FIND(ncclAllGather) && FIND(ncclReduceScatter) && FIND(ncclAllReduce) &&
           FIND(ncclBroadcast) && FIND(ncclReduce) && FIND(ncclSend) && FIND(ncclRecv);
#undef FIND
}

static void find_windows(void *handle, library *lib)
{
#define FIND(name) find(handle, #name, &lib->name)
    const bool all = FIND(ncclMemAlloc) && FIND(ncclMemFree) && FIND(ncclCommWindowDeregister) &&
                     FIND(ncclCommWindowRegister);
    if (!all) lib->ncclCommWindowRegister = NULL;
#undef FIND
}

static shingle_status load(library *lib)
{
    /* All connections are made when the group opens: one thread drives all ranks, so no call may
     * wait for another rank's.  Buffers are not registered behind our back for the same reason.
     * Multicast in the switch is left to those who ask for it. */
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    setenv("NCCL_GRAPH_REGISTER", "0", 0);
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    if (find_all(RTLD_DEFAULT, lib)) {
        find_windows(RTLD_DEFAULT, lib);
        return SHINGLE_OK;
    }
    void *const handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED, "libnccl.so.2 is not found: no collectives");
    if (find_all(handle, lib)) {
        find_windows(handle, lib);
        return SHINGLE_OK;
    }
    dlclose(handle);
    return sg_fail(SHINGLE_EUNSUPPORTED, "libnccl.so.2 lacks a function; NCCL 2.19 has all");
}

shingle_status sg_collect_check(const sg_collect *c, ncclResult_t result, const char *what)
{
    if (result == ncclSuccess) return SHINGLE_OK;
    return sg_fail(SHINGLE_EBACKEND, "%s: %s", what, c->lib.ncclGetErrorString(result));
}

/* ---- Group ----------------------------------------------------------------------------------- */

static void destroy(sg_collect *c)
{
    pthread_rwlock_destroy(&c->calls);
    pthread_mutex_destroy(&c->mutex);
    free(c->counts);
    free(c);
}

static void connect_all(sg_collect *c)
{
    c->result = c->lib.ncclCommInitAll(c->comm, c->ranks, c->device);
    if (c->result != ncclSuccess) memset(c->comm, 0, sizeof c->comm);
}

shingle_status sg_collect_open(int ranks, const int *device, double limit_us,
                               sg_collect **collect_out)
{
    sg_collect *const c = calloc(1, sizeof *c);
    if (c == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for collectives");
    pthread_mutex_init(&c->mutex, NULL);
    pthread_rwlock_init(&c->calls, NULL);
    c->ranks = ranks;
    c->limit_us = limit_us;
    memcpy(c->device, device, (size_t)ranks * sizeof device[0]);
    c->counts = calloc((size_t)2 * MEETINGS * (size_t)(ranks * ranks), sizeof c->counts[0]);
    shingle_status status =
        c->counts == NULL ? sg_fail(SHINGLE_ENOMEM, "no memory for collectives") : load(&c->lib);
    if (status == SHINGLE_OK) {
        int version = 0;
        c->lib.ncclGetVersion(&version);
        snprintf(c->name, sizeof c->name, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
        status = sg_wait_for(c, connect_all, "ncclCommInitAll");
    }
    if (status == SHINGLE_OK || sg_collect_hangs(c))
        *collect_out = c;
    else
        destroy(c);
    return status;
}

static void abort_all(sg_collect *c)
{
    for (int r = 0; r < c->ranks; r++) {
        if (c->comm[r] != NULL) c->lib.ncclCommAbort(c->comm[r]);
        c->comm[r] = NULL;
    }
    sg_window_lose(c);
}

bool sg_collect_abort(sg_collect *c, double limit_us)
{
    return sg_wait_within(c, abort_all, limit_us);
}

static void renew_all(sg_collect *c)
{
    c->result = ncclSuccess;
    sg_meeting_forget(c);
    if (c->comm[0] != NULL) return;
    connect_all(c);
    if (c->result == ncclSuccess) sg_window_renew(c);
}

shingle_status sg_collect_renew(sg_collect *c)
{
    return sg_wait_for(c, renew_all, "ncclCommInitAll");
}

static void close_all(sg_collect *c)
{
    sg_window_close(c);
    sg_meeting_forget(c);
    abort_all(c);
}

bool sg_collect_close(sg_collect *c, double limit_us)
{
    if (c == NULL) return true;
    if (!sg_wait_within(c, close_all, limit_us)) return false;
    destroy(c);
    return true;
}

/* A collective of each kind, of a word. */
static ncclResult_t meet_in_collectives(const sg_collect *c, int r)
{
    float *const words = c->room[r];
    float *const to = words + c->ranks;
    const ncclDataType_t type = ncclFloat32;
    ncclResult_t result =
        c->lib.ncclAllReduce(words, to, 1, type, ncclSum, c->comm[r], c->stream[r]);
    if (result == ncclSuccess)
        result = c->lib.ncclAllGather(words, to, 1, type, c->comm[r], c->stream[r]);
    if (result == ncclSuccess)
        result = c->lib.ncclReduceScatter(words, to, 1, type, ncclSum, c->comm[r], c->stream[r]);
    return result;
}

/* The library connects two ranks when one first sends to the other, and then waits for that other:
 * not in the one thread that drives all of them.  So do collectives, where the process had the
 * library before us, and it has read another setting than load()'s. */
static void meet_all(sg_collect *c)
{
    ncclResult_t result = c->lib.ncclGroupStart();
    for (int r = 0; r < c->ranks && result == ncclSuccess; r++) result = meet_in_collectives(c, r);
    for (int r = 0; r < c->ranks; r++) {
        float *const words = c->room[r];
        for (int q = 0; q < c->ranks && result == ncclSuccess; q++) {
            result = c->lib.ncclSend(words + q, 1, ncclFloat32, q, c->comm[r], c->stream[r]);
            if (result == ncclSuccess)
                result = c->lib.ncclRecv(words + c->ranks + q, 1, ncclFloat32, q, c->comm[r],
                                         c->stream[r]);
        }
    }
    const ncclResult_t ended = c->lib.ncclGroupEnd();
    c->result = result == ncclSuccess ? ended : result;
}

shingle_status sg_collect_meet(sg_collect *c, void *const *room, void *const *stream)
{
    memcpy(c->room, room, (size_t)c->ranks * sizeof room[0]);
    memcpy(c->stream, stream, (size_t)c->ranks * sizeof stream[0]);
    return sg_wait_alone(c, meet_all, "the first all-to-all");
}

const char *sg_collect_name(const sg_collect *c)
{
    return c->name;
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* Shares of different sizes: a broadcast or a sum per rank, as one operation. */
ncclResult_t sg_collect_ragged(sg_collect *c, int rank, sg_coll_kind kind, ncclDataType_t type,
                               sg_coll_part self, const sg_coll_part *part, cudaStream_t stream)
{
    ncclResult_t result = c->lib.ncclGroupStart();
    for (int q = 0; q < c->ranks && result == ncclSuccess; q++) {
        const size_t count = (size_t)part[q].count;
        if (count == 0) continue;
        if (kind == SG_ALL_GATHER)
            result = c->lib.ncclBroadcast(q == rank ? self.data : part[q].data, part[q].data, count,
                                          type, q, c->comm[rank], stream);
        else
            result = c->lib.ncclReduce(part[q].data, q == rank ? self.data : part[q].data, count,
                                       type, ncclSum, q, c->comm[rank], stream);
    }
    const ncclResult_t ended = c->lib.ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

/* What goes to each rank, and where what comes from each arrives, as one operation. */
ncclResult_t sg_collect_exchange(sg_collect *c, int rank, ncclDataType_t type,
                                 const sg_coll_part *part, cudaStream_t stream)
{
    const sg_coll_part *const arrives = part + c->ranks;
    ncclResult_t result = c->lib.ncclGroupStart();
    for (int q = 0; q < c->ranks && result == ncclSuccess; q++) {
        if (part[q].count > 0)
            result = c->lib.ncclSend(part[q].data, (size_t)part[q].count, type, q, c->comm[rank],
                                     stream);
        if (arrives[q].count > 0 && result == ncclSuccess)
            result = c->lib.ncclRecv(arrives[q].data, (size_t)arrives[q].count, type, q,
                                     c->comm[rank], stream);
    }
    const ncclResult_t ended = c->lib.ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

static shingle_status run(sg_collect *c, int rank, const meeting *its, sg_coll_part self,
                          const sg_coll_part *part, cudaStream_t stream)
{
    const sg_coll_kind kind = its->kind;
    const ncclDataType_t t = its->type;
    const ncclComm_t comm = c->comm[rank];
    if (kind == SG_ALL_TO_ALL)
        return sg_collect_check(c, sg_collect_exchange(c, rank, t, part, stream), "an all-to-all");
    if (!its->even)
        return sg_collect_check(c, sg_collect_ragged(c, rank, kind, t, self, part, stream),
                                "a ragged collective");
    if (kind == SG_ALL_REDUCE)
        return sg_collect_check(c,
                                c->lib.ncclAllReduce(self.data, self.data, (size_t)self.count, t,
                                                     ncclSum, comm, stream),
                                "ncclAllReduce");
    if (kind == SG_ALL_GATHER)
        return sg_collect_check(
            c, c->lib.ncclAllGather(self.data, part[0].data, (size_t)self.count, t, comm, stream),
            "ncclAllGather");
    return sg_collect_check(c,
                            c->lib.ncclReduceScatter(part[0].data, self.data, (size_t)self.count, t,
                                                     ncclSum, comm, stream),
                            "ncclReduceScatter");
}

/* The same, in its turn among those of RANK, unless a graph gets it. */
static shingle_status enqueue(sg_collect *c, int rank, meeting *its, sg_coll_part self,
                              const sg_coll_part *part, bool captured, cudaStream_t stream)
{
    const bool reduces = its->kind == SG_ALL_REDUCE;
    if (sg_collect_hangs(c) || c->comm[rank] == NULL)
        return sg_fail(SHINGLE_EBACKEND, "%s was aborted; recovery renews it", c->name);
    its->bytes = its->count * its->unit * (size_t)(reduces ? 1 : c->ranks);
    if (its->even)
        its->window = sg_window_of(c, rank, reduces ? self.data : part[0].data, &its->offset);
    if (its->even && !reduces) its->own = sg_window_of(c, rank, self.data, &its->own_offset);
    if (its->window == NULL) its->offset = 0;
    if (its->own == NULL) its->own_offset = 0;
    if (captured) return run(c, rank, its, self, part, stream);
    SG_TRY(sg_meeting_come(c, rank, its, part));
    const shingle_status status = run(c, rank, its, self, part, stream);
    if (status != SHINGLE_OK) sg_meeting_go(c, rank);
    return status;
}

shingle_status sg_collect_run(sg_collect *c, int rank, sg_coll_kind kind, sg_type type,
                              sg_coll_part self, const sg_coll_part *part, bool even, bool captured,
                              void *stream)
{
    static const ncclDataType_t types[SG_TYPES] = {
        [SG_F32] = ncclFloat32, [SG_BF16] = ncclBfloat16, [SG_F16] = ncclFloat16};
    meeting its = {.kind = kind, .type = types[type], .count = (size_t)self.count};
    its.unit = type == SG_F32 ? 4 : 2;
    its.even = kind == SG_ALL_REDUCE || even;
    pthread_rwlock_rdlock(&c->calls);
    const shingle_status status = enqueue(c, rank, &its, self, part, captured, stream);
    pthread_rwlock_unlock(&c->calls);
    return status;
}
