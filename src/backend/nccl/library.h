/* library.h -- the entries of NCCL that are used, and a group of it; for the files of this
 * folder. */
#ifndef SG_NCCL_LIBRARY_H
#define SG_NCCL_LIBRARY_H

#include <nccl.h> /* and with it the runtime of CUDA */
#include <pthread.h>

#include "backend/nccl/collect.h"
#include "core/backend.h"

#ifndef NCCL_WIN_COLL_SYMMETRIC /* headers before 2.27 */
#define NCCL_WIN_COLL_SYMMETRIC 1
typedef struct ncclWindow *ncclWindow_t;
#endif

typedef struct library {
    ncclResult_t (*ncclGetVersion)(int *);
    const char *(*ncclGetErrorString)(ncclResult_t);
    ncclResult_t (*ncclCommInitAll)(ncclComm_t *, int, const int *);
    ncclResult_t (*ncclCommAbort)(ncclComm_t);
    ncclResult_t (*ncclGroupStart)(void);
    ncclResult_t (*ncclGroupEnd)(void);
    ncclResult_t (*ncclAllGather)(const void *, void *, size_t, ncclDataType_t, ncclComm_t,
                                  cudaStream_t);
    ncclResult_t (*ncclReduceScatter)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                      ncclComm_t, cudaStream_t);
    ncclResult_t (*ncclAllReduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                  ncclComm_t, cudaStream_t);
    ncclResult_t (*ncclBroadcast)(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
                                  cudaStream_t);
    ncclResult_t (*ncclReduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int,
                               ncclComm_t, cudaStream_t);
    ncclResult_t (*ncclSend)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    ncclResult_t (*ncclRecv)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);

    /* Windows, from 2.27 on; NULL: without. */
    ncclResult_t (*ncclMemAlloc)(void **, size_t);
    ncclResult_t (*ncclMemFree)(void *);
    ncclResult_t (*ncclCommWindowRegister)(ncclComm_t, void *, size_t, ncclWindow_t *, int);
    ncclResult_t (*ncclCommWindowDeregister)(ncclComm_t, ncclWindow_t);
} library;

/* A block of equal size at every rank, which the library has been told of. */
typedef struct window {
    struct window *next;
    size_t bytes;
    struct seat {
        void *memory;
        ncclWindow_t handle; /* NULL: not told, or there is nothing to be told */
        bool taken;
    } seat[]; /* of each rank */
} window;

/* A collective that not all ranks have come to, as the first one has it. */
typedef struct meeting {
    uint64_t number; /* of those that its ranks come to, one after the other */
    sg_coll_kind kind;
    ncclDataType_t type;
    size_t count, bytes; /* of a rank's share, or of all that an all-reduce sums */
    size_t unit;         /* bytes of an element */
    bool even;           /* one call of the library, of which the others are known */
    window *window;      /* of what it needs of all ranks; NULL: not in one */
    window *own;         /* of a rank's share, as it sends or gets it; NULL: not in one */
    size_t offset, own_offset;
} meeting;

enum { MEETINGS = 4096 };

struct sg_collect {
    library lib;
    int ranks;
    int device[SG_LOCAL_RANKS];
    ncclComm_t comm[SG_LOCAL_RANKS]; /* NULL: lost */
    char name[32];
    bool plain; /* there are no windows, and that was said */
    window *windows;

    /* Read by a rank inside a collective's call, written by a call on all communicators: none of
     * them is made for two threads.  Who waits to write keeps no reader out: a rank inside such a
     * call may wait for another one to make it. */
    pthread_rwlock_t calls;

    pthread_mutex_t mutex;         /* guards what follows, and the list of windows */
    uint64_t came[SG_LOCAL_RANKS]; /* how many collectives each rank has enqueued */
    void *spare[SG_LOCAL_RANKS];   /* of each rank: memory for one who comes for it; may be NULL */
    bool over;                     /* somebody came for those who were missing: nobody else may */

    /* By their numbers, modulo its size; of who is further ahead than that nothing is noted. */
    meeting meeting[MEETINGS];
    int64_t *counts; /* by the same places, of one that is not even: what its ranks have said */

    /* A call of the library's that may wait (wait.c), with what it takes and gives. */
    double limit_us;
    _Atomic bool away; /* it has not come back, and all of this is its alone */
    void (*call)(sg_collect *c);
    ncclResult_t result;
    void *room[SG_LOCAL_RANKS], *stream[SG_LOCAL_RANKS]; /* where ranks meet */
    window *window;
    size_t bytes; /* of a window */
};

/* Makes CALL, or waits for one before it, at most for LIMIT_US.  False: it has not come back.  One
 * thread at a time. */
bool sg_wait_within(sg_collect *c, void (*call)(sg_collect *c), double limit_us);

/* The same within c->limit_us, and what came of it in c->result; WHAT: its name in errors. */
shingle_status sg_wait_for(sg_collect *c, void (*call)(sg_collect *c), const char *what);

/* The same while no rank is inside a collective's call, which it waits for within that limit. */
shingle_status sg_wait_alone(sg_collect *c, void (*call)(sg_collect *c), const char *what);

shingle_status sg_collect_check(const sg_collect *c, ncclResult_t result, const char *what);

/* What lies in windows, and where all ranks have it (window.c).  NULL: MEMORY of RANK is in
 * none. */
window *sg_window_of(sg_collect *c, int rank, const void *memory, size_t *offset_out);

/* All windows are registered with new communicators, or lost with the old;
 * whatever is left is freed. */
void sg_window_renew(sg_collect *c);
void sg_window_lose(sg_collect *c);
void sg_window_close(sg_collect *c);

/* The device of RANK becomes the current one; what was is returned for the call that undoes it. */
int sg_window_enter(const sg_collect *c, int rank);
void sg_window_leave(int device);

/* Collectives that are not even, RANK's part of them: see nccl.c. */
ncclResult_t sg_collect_ragged(sg_collect *c, int rank, sg_coll_kind kind, ncclDataType_t type,
                               sg_coll_part self, const sg_coll_part *part, cudaStream_t stream);
ncclResult_t sg_collect_exchange(sg_collect *c, int rank, ncclDataType_t type,
                                 const sg_coll_part *part, cudaStream_t stream);

/* RANK is about to enqueue ITS collective of PARTs (meeting.c).  SHINGLE_EMISMATCH: others have
 * enqueued another one in its place, and would wait for this rank for ever. */
shingle_status sg_meeting_come(sg_collect *c, int rank, const meeting *its,
                               const sg_coll_part *part);

/* It could not. */
void sg_meeting_go(sg_collect *c, int rank);

/* Nobody has come to anything; spare memory is freed. */
void sg_meeting_forget(sg_collect *c);

#endif
