/* fake_nccl.c -- the entries of NCCL that are used, on the host; see fake.h. */
#include <nccl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data.h"
#include "fake.h"

/* ---- Meetings: a collective is carried out when all ranks have come to it -------------------- */

enum { SEQUENCES = 64 };

typedef enum what { GATHER, SCATTER, REDUCE, BROADCAST, SUM } what;

typedef struct call {
    what what;
    const void *from;
    void *to;
    size_t count;
    int root;
    sg_type type;
    int ends; /* that are in windows: what the kernel is chosen by */
    bool windowed;
    size_t offset; /* in the window */
} call;

typedef struct meeting {
    call call[FAKE_DEVICES];
    int came, left;
} meeting;

typedef struct world {
    struct world *next;
    ncclComm_t comm[FAKE_DEVICES];
    int ranks;
    _Atomic bool aborted;
    meeting meeting[SEQUENCES];
    const void *box[FAKE_DEVICES][FAKE_DEVICES]; /* [from][to]: what was sent and is not taken */
} world;

struct ncclComm {
    world *world;
    int rank;
    uint64_t sequence;
};

/* Operations that still name a comm find it aborted, so none is ever freed. */
static world *worlds;
static int depth; /* of groups that are open */

static size_t bytes_of(const call *c)
{
    return c->count * (size_t)sg_type_bytes(c->type);
}

/* RANK's share of the sum of all ranks' elements from AT on. */
static void add_up(const meeting *m, int ranks, size_t at, size_t count, void *to)
{
    const sg_type type = m->call[0].type;
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int q = 0; q < ranks; q++)
            sum += sg_data_load(type, m->call[q].from, (int64_t)(at + i));
        sg_data_store(type, sum, to, (int64_t)i);
    }
}

static void meet(const meeting *m, int ranks)
{
    const call *const first = &m->call[0];
    void *const sums = malloc(bytes_of(first) * (size_t)ranks + 1);
    for (int r = 0; r < ranks; r++) {
        const call *const c = &m->call[r];
        const size_t bytes = bytes_of(c);
        switch (c->what) {
        case GATHER:
            for (int q = 0; q < ranks; q++)
                memmove((char *)c->to + (size_t)q * bytes, m->call[q].from, bytes);
            break;
        case BROADCAST: memmove(c->to, m->call[c->root].from, bytes); break;
        case SCATTER: add_up(m, ranks, (size_t)r * c->count, c->count, c->to); break;
        case REDUCE:
            if (c->root == r) add_up(m, ranks, 0, c->count, c->to);
            break;
        case SUM: /* in place: all sums are made before any is stored */
            if (r == 0) add_up(m, ranks, 0, c->count, sums);
            break;
        }
    }
    for (int r = 0; r < ranks && first->what == SUM; r++)
        memcpy(m->call[r].to, sums, bytes_of(first));
    free(sums);
}

/* In windows all ranks are alike, and their memory is told by where the own is. */
static void expect_alike(const meeting *m, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        const call *const c = &m->call[r];
        if (c->ends != m->call[0].ends) abort();
        if (!c->windowed) continue;
        if (c->what != m->call[0].what || c->count != m->call[0].count ||
            c->offset != m->call[0].offset)
            abort();
        fake_windowed++;
    }
}

typedef struct nccl_op {
    ncclComm_t comm;
    uint64_t sequence;
    call call;
} nccl_op;

static bool run_nccl(void *data, bool first)
{
    const nccl_op *const o = data;
    world *const w = o->comm->world;
    meeting *const m = &w->meeting[o->sequence % SEQUENCES];
    if (w->aborted && !o->call.windowed) return true; /* who waits in windows does not look */
    if (first) {
        m->call[o->comm->rank] = o->call;
        if (++m->came == w->ranks) {
            expect_alike(m, w->ranks);
            meet(m, w->ranks);
        }
    }
    if (m->came < w->ranks) return false;
    if (++m->left == w->ranks) m->came = m->left = 0;
    return true;
}

/* A graph enqueues its operations again: the order in which they begin counts, not that in which
 * they were enqueued. */
static bool number_nccl(void *data, bool first)
{
    nccl_op *const o = data;
    if (first) o->sequence = o->comm->sequence++;
    return run_nccl(data, first);
}

static sg_type type_of(ncclDataType_t type)
{
    return type == ncclFloat32 ? SG_F32 : type == ncclBfloat16 ? SG_BF16 : SG_F16;
}

_Atomic int fake_slow_us, fake_torn;
static _Atomic int inside; /* a call that enqueues */

/* ---- Windows: blocks of all ranks, of a size ------------------------------------------------- */

enum { BLOCKS = 256 };

struct ncclWindow_vidmem {
    ncclComm_t comm; /* NULL: none here */
    char *memory;
    size_t bytes;
    ncclWindow_t *told; /* when the group ends */
};

typedef struct block {
    void *memory;
    size_t bytes;
} block;

static struct ncclWindow_vidmem windows[BLOCKS];
static block blocks[BLOCKS];
int fake_windowed;
bool fake_windowless;
_Atomic bool fake_held;

static bool find_window(ncclComm_t comm, const void *memory, size_t *offset_out)
{
    for (int i = 0; i < BLOCKS; i++) {
        *offset_out = (size_t)((const char *)memory - windows[i].memory);
        if (windows[i].comm == comm && *offset_out < windows[i].bytes) return true;
    }
    return false;
}

static void drop_window(ncclWindow_t w)
{
    w->comm = NULL;
    fake_count(-1);
}

/* What the ranks of a world have registered in a group: all of them, and alike, or nothing. */
static ncclResult_t end_windows(void)
{
    size_t bytes = 0;
    int left = 0;
    for (int i = 0; i < BLOCKS; i++) {
        if (windows[i].told == NULL) continue;
        if (bytes == 0) left = windows[i].comm->world->ranks;
        if (bytes != 0 && windows[i].bytes != bytes) abort();
        bytes = windows[i].bytes;
        left--;
    }
    for (int i = 0; i < BLOCKS; i++) {
        ncclWindow_t *const told = windows[i].told;
        windows[i].told = NULL;
        if (told == NULL) continue;
        if (left == 0)
            *told = &windows[i];
        else
            drop_window(&windows[i]);
    }
    return left == 0 ? ncclSuccess : ncclInvalidUsage; /* the others would wait */
}

static void hold(void)
{
    while (fake_held) usleep(1000);
}

FAKE ncclResult_t ncclMemAlloc(void **out, size_t bytes)
{
    int i = 0;
    while (i < BLOCKS && blocks[i].memory != NULL) i++;
    if (i == BLOCKS) abort();
    if (cudaMalloc(out, bytes) != cudaSuccess) return ncclUnhandledCudaError;
    blocks[i] = (block){*out, bytes};
    return ncclSuccess;
}

FAKE ncclResult_t ncclMemFree(void *memory)
{
    int i = 0;
    while (i < BLOCKS && blocks[i].memory != memory) i++;
    if (i == BLOCKS) abort();
    for (int w = 0; w < BLOCKS; w++)
        if (windows[w].comm != NULL && windows[w].memory == memory) abort();
    blocks[i].memory = NULL;
    return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

FAKE ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes,
                                         ncclWindow_t *out, int flags)
{
    int i = 0;
    int b = 0;
    while (i < BLOCKS && windows[i].comm != NULL) i++;
    while (b < BLOCKS && blocks[b].memory != memory) b++;
    if (i == BLOCKS || b == BLOCKS || blocks[b].bytes != bytes) abort();
    if (comm->world->aborted || flags != NCCL_WIN_COLL_SYMMETRIC || memory == NULL) abort();
    hold();
    fake_torn += inside > 0;
    if (fake_fails()) return ncclSystemError;
    if (depth == 0) return ncclInvalidUsage; /* it would wait for the others */
    windows[i] = (struct ncclWindow_vidmem){comm, memory, bytes, out};
    fake_count(1);
    return ncclSuccess;
}

FAKE ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t w)
{
    if (w->comm != comm || comm->world->aborted) abort();
    fake_torn += inside > 0;
    drop_window(w);
    return ncclSuccess;
}

/* Entries of a library that lacks some: tests are linked with --wrap=dlsym. */
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlsym(void *handle, const char *name)
{
    if (fake_windowless && strcmp(name, "ncclCommWindowRegister") == 0) return NULL;
    return __real_dlsym(handle, name);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static ncclResult_t enqueue(what kind, const void *from, void *to, size_t count,
                            ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
    nccl_op o = {comm, 0, {kind, from, to, count, root, type_of(type), 0, false, 0}};
    if (kind == GATHER || kind == SCATTER) {
        size_t offset = 0;
        o.call.ends = find_window(comm, kind == GATHER ? from : to, &offset);
        o.call.ends += 2 * find_window(comm, kind == GATHER ? to : from, &o.call.offset);
        o.call.windowed = o.call.ends == 3;
    }
    inside++;
    if (comm->rank == 0) usleep((useconds_t)atomic_exchange(&fake_slow_us, 0));
    inside--;
    return fake_enqueue(stream, number_nccl, &o, sizeof o) == cudaSuccess ? ncclSuccess
                                                                          : ncclSystemError;
}

FAKE ncclResult_t ncclGetVersion(int *version)
{
    *version = 22809;
    return ncclSuccess;
}

FAKE const char *ncclGetErrorString(ncclResult_t result)
{
    (void)result;
    return "a planted failure";
}

FAKE ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ranks, const int *devices)
{
    (void)devices;
    hold();
    if (fake_fails()) return ncclSystemError;
    world *const w = calloc(1, sizeof *w);
    w->ranks = ranks;
    w->next = worlds;
    worlds = w;
    for (int r = 0; r < ranks; r++) {
        comm[r] = calloc(1, sizeof *comm[r]);
        *comm[r] = (struct ncclComm){w, r, 0};
        w->comm[r] = comm[r];
    }
    return ncclSuccess;
}

FAKE ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    hold();
    for (int i = 0; i < BLOCKS; i++)
        if (windows[i].comm == comm) drop_window(&windows[i]);
    fake_torn += inside > 0;
    comm->world->aborted = true;
    return ncclSuccess;
}

/* ---- Sends: what a group sends and receives is one operation of its rank --------------------- */

typedef struct letter {
    const void *from;
    void *to;
    size_t bytes;
    int peer;
} letter;

typedef struct letters {
    ncclComm_t comm;
    cudaStream_t stream;
    letter send[FAKE_DEVICES], receive[FAKE_DEVICES];
    int sends, receives;
    bool posted;
} letters;

static letters group[FAKE_DEVICES]; /* of the group that is open, by rank */
static int grouped;

bool fake_deaf;

/* A letter lies in its box until it is taken; the next one is posted behind that. */
static bool run_letters(void *data, bool first)
{
    letters *const l = data;
    world *const w = l->comm->world;
    const int me = l->comm->rank;
    (void)first;
    if (fake_deaf) return false;
    if (w->aborted) return true;
    for (int i = 0; i < l->sends && !l->posted; i++) w->box[me][l->send[i].peer] = l->send[i].from;
    l->posted = true;
    int left = 0;
    for (int i = 0; i < l->receives; i++) {
        letter *const r = &l->receive[i];
        if (r->to == NULL) continue;
        const void *const from = w->box[r->peer][me];
        left += from == NULL;
        if (from == NULL) continue;
        memcpy(r->to, from, r->bytes);
        w->box[r->peer][me] = NULL;
        r->to = NULL;
    }
    for (int i = 0; i < l->sends; i++) left += w->box[me][l->send[i].peer] != NULL;
    return left == 0;
}

static letters *letters_of(ncclComm_t comm, cudaStream_t stream)
{
    for (int i = 0; i < grouped; i++)
        if (group[i].comm == comm) return &group[i];
    group[grouped] = (letters){.comm = comm, .stream = stream};
    return &group[grouped++];
}

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

FAKE ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

FAKE ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;
    depth--;
    for (int i = 0; i < grouped; i++)
        if (fake_enqueue(group[i].stream, run_letters, &group[i], sizeof group[i]) != cudaSuccess)
            result = ncclSystemError;
    grouped = 0;
    return result == ncclSuccess ? end_windows() : result;
}

FAKE ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                           ncclComm_t comm, cudaStream_t stream)
{
    if (depth == 0) return ncclInvalidUsage; /* it would wait for the other */
    letters *const l = letters_of(comm, stream);
    l->send[l->sends++] = (letter){from, NULL, count * (size_t)sg_type_bytes(type_of(type)), peer};
    return ncclSuccess;
}

FAKE ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                           cudaStream_t stream)
{
    if (depth == 0) return ncclInvalidUsage;
    letters *const l = letters_of(comm, stream);
    l->receive[l->receives++] =
        (letter){NULL, to, count * (size_t)sg_type_bytes(type_of(type)), peer};
    return ncclSuccess;
}

/* ---- Collectives ----------------------------------------------------------------------------- */

FAKE ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                                ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(GATHER, from, to, count, type, 0, comm, stream);
}

FAKE ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)op;
    return enqueue(SCATTER, from, to, count, type, 0, comm, stream);
}

FAKE ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)op;
    return enqueue(SUM, from, to, count, type, 0, comm, stream);
}

FAKE ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                                int root, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(BROADCAST, from, to, count, type, root, comm, stream);
}

FAKE ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                             ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)op;
    return enqueue(REDUCE, from, to, count, type, root, comm, stream);
}
