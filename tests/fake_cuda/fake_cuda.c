/* fake_cuda.c -- the runtime's streams, events and graphs; see fake.h. */
#include "fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base.h"

typedef struct op {
    struct op *next;
    fake_go *go;
    bool asked;
    max_align_t data[];
} op;

struct CUstream_st {
    struct CUstream_st *next;
    op *head, **tail;
    cudaGraph_t captured; /* while it is captured: what it becomes part of */
    bool virtual;         /* of a replay: gone when it is empty */
    int device;
    unsigned long long id;
};

struct CUevent_st {
    long recorded, done; /* how often */
    double us;
    cudaGraph_t captured;    /* recorded in a capture */
    struct CUevent_st *next; /* of those that were destroyed */
};

enum { GRAPH_EVENTS = 512, GRAPH_LANES = 16 };

/* Operations in the order of their capture; each knows its stream. */
struct CUgraph_st {
    op *head, **tail;
    cudaEvent_t event[GRAPH_EVENTS]; /* recorded in the capture, and how often */
    long count[GRAPH_EVENTS];
    int events;
};

struct CUgraphExec_st {
    op *head;
};

/* One replay: its operations are on streams of its own. */
typedef struct replay {
    bool started;
    int left; /* operations */
    long done[GRAPH_EVENTS];
} replay;

static pthread_mutex_t mutex;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaStream_t streams;
static unsigned long long next_id;
static int live;
static bool pumping;

static void start(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &attributes);
}

static void lock(void)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

/* ---- Control --------------------------------------------------------------------------------- */

int fake_live(void)
{
    return live;
}

void fake_count(int more)
{
    lock();
    live += more;
    unlock();
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* Nobody may count on the order of streams, of which each carries out one operation in turn. */
static void reverse_streams(void)
{
    cudaStream_t reversed = NULL;
    while (streams != NULL) {
        cudaStream_t const s = streams;
        streams = s->next;
        s->next = reversed;
        reversed = s;
    }
    streams = reversed;
}

void fake_pump(void)
{
    lock();
    bool moved = !pumping;
    if (moved) reverse_streams();
    pumping = true;
    while (moved) {
        moved = false;
        for (cudaStream_t s = streams; s != NULL; s = s->next) {
            op *const o = s->head;
            if (o == NULL) continue;
            const bool first = !o->asked;
            o->asked = true;
            if (!o->go(o->data, first)) continue;
            s->head = o->next;
            if (s->head == NULL) s->tail = &s->head;
            free(o);
            moved = true;
        }
        for (cudaStream_t *at = &streams; *at != NULL;) {
            cudaStream_t const s = *at;
            if (s->virtual && s->head == NULL) {
                *at = s->next;
                free(s);
            } else {
                at = &s->next;
            }
        }
    }
    pumping = false;
    unlock();
}

void fake_move(void *to, const void *from, size_t bytes)
{
    lock();
    fake_pump();
    memmove(to, from, bytes);
    unlock();
}

bool fake_busy(int device)
{
    bool busy = false;
    fake_pump();
    lock();
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        busy |= s->device == device && s->head != NULL;
    unlock();
    return busy;
}

bool fake_pending(cudaStream_t stream)
{
    bool pending = false;
    lock();
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        pending |= s == stream && s->head != NULL;
    unlock();
    return pending;
}

static op *new_op(fake_go *go, const void *data, size_t bytes)
{
    op *const o = calloc(1, sizeof *o + bytes + 1);
    o->go = go;
    if (bytes > 0) memcpy(o->data, data, bytes);
    return o;
}

static void append(op ***tail, op *o)
{
    **tail = o;
    *tail = &o->next;
}

typedef enum duty { PLAIN, RECORD, WAIT } duty;

/* An operation with what a graph needs to enqueue it again. */
typedef struct sized {
    fake_go *go;
    size_t bytes;
    cudaStream_t stream;
    duty duty; /* RECORD and WAIT: of events inside a graph */
    int event;
    long count;
    replay *replay;
    max_align_t data[];
} sized;

static bool run_sized(void *data, bool first)
{
    sized *const s = data;
    if (s->replay == NULL) return s->go(s->data, first);
    if (!s->replay->started) return false;
    long *const done = &s->replay->done[s->event];
    if (s->duty == WAIT && *done < s->count) return false;
    if (s->duty == RECORD && *done < s->count) *done = s->count;
    if (s->duty == PLAIN) {
        /* The first question may have been one before the replay began. */
        const bool fresh = s->event == 0;
        s->event = 1;
        if (!s->go(s->data, fresh)) return false;
    }
    s->replay->left--;
    return true;
}

static void append_sized(op ***tail, const sized *head, const void *data)
{
    max_align_t room[(sizeof(sized) + FAKE_ROOM) / sizeof(max_align_t) + 1];
    sized *const s = (sized *)(void *)room;
    if (head->bytes > FAKE_ROOM) abort();
    *s = *head;
    if (head->bytes > 0) memcpy(s->data, data, head->bytes);
    append(tail, new_op(run_sized, s, sizeof *s + head->bytes));
}

cudaError_t fake_enqueue(cudaStream_t stream, fake_go *go, const void *data, size_t bytes)
{
    FAKE_MAY_FAIL();
    lock();
    const sized head = {.go = go, .bytes = bytes, .stream = stream};
    append_sized(stream->captured != NULL ? &stream->captured->tail : &stream->tail, &head, data);
    unlock();
    return cudaSuccess;
}

FAKE cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    FAKE_MAY_FAIL();
    cudaStream_t s = calloc(1, sizeof *s);
    lock();
    (void)cudaGetDevice(&s->device);
    s->id = next_id++;
    s->tail = &s->head;
    s->next = streams;
    streams = s;
    live++;
    unlock();
    *out = s;
    return cudaSuccess;
}

FAKE cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return cudaStreamCreateWithPriority(out, flags, 0);
}

FAKE cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    lock();
    cudaStream_t *at = &streams;
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    while (stream->head != NULL) {
        op *const o = stream->head;
        stream->head = o->next;
        free(o);
    }
    free(stream);
    live--;
    unlock();
    return cudaSuccess;
}

FAKE cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *out)
{
    FAKE_MAY_FAIL();
    *out = stream->id;
    return cudaSuccess;
}

void fake_reuse(cudaStream_t stream)
{
    cudaStream_t const rest = calloc(1, sizeof *rest);
    lock();
    *rest = *stream;
    rest->virtual = true;
    rest->next = streams;
    if (rest->head == NULL) rest->tail = &rest->head;
    streams = rest;
    stream->head = NULL;
    stream->tail = &stream->head;
    stream->id = next_id++;
    unlock();
}

_Atomic int fake_not_yet;

/* Before anybody looks. */
static cudaError_t refuse(void)
{
    const bool early = fake_not_yet > 0;
    fake_not_yet -= early;
    if (early) return cudaErrorNotReady;
    if (fake_lost != cudaSuccess) return fake_lost;
    return fake_capture_breaks() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

CUresult fake_ask_stream(CUstream stream)
{
    const cudaError_t refused = refuse();
    if (refused != cudaSuccess) return (CUresult)refused;
    lock();
    fake_pump();
    const bool empty = stream->head == NULL;
    unlock();
    return empty ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    FAKE_MAY_FAIL();
    while (fake_ask_stream(stream) == CUDA_ERROR_NOT_READY)
        nanosleep(&(struct timespec){0, 50000}, NULL);
    return cudaSuccess;
}

/* ---- Events ---------------------------------------------------------------------------------- */

FAKE cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    FAKE_MAY_FAIL();
    *out = calloc(1, sizeof **out);
    lock();
    live++;
    unlock();
    return cudaSuccess;
}

/* Streams may still come to it, so it stays. */
static cudaEvent_t destroyed;

FAKE cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    lock();
    live--;
    event->next = destroyed;
    destroyed = event;
    unlock();
    return cudaSuccess;
}

typedef struct event_op {
    cudaEvent_t event;
    long count;
} event_op;

static bool event_done(void *data, bool first)
{
    const event_op *const e = data;
    (void)first;
    if (e->event->done < e->count) e->event->done = e->count;
    e->event->us = sg_now_us();
    return true;
}

static bool event_seen(void *data, bool first)
{
    const event_op *const e = data;
    (void)first;
    return e->event->done >= e->count;
}

static int event_of(cudaGraph_t graph, cudaEvent_t event)
{
    int i = 0;
    while (i < graph->events && graph->event[i] != event) i++;
    if (i == GRAPH_EVENTS) abort();
    if (i == graph->events) {
        graph->event[i] = event;
        graph->count[graph->events++] = 0;
    }
    return i;
}

static void note(cudaGraph_t graph, cudaStream_t stream, duty what, cudaEvent_t event)
{
    const int i = event_of(graph, event);
    if (what == RECORD) graph->count[i]++;
    const sized head = {.stream = stream, .duty = what, .event = i, .count = graph->count[i]};
    append_sized(&graph->tail, &head, NULL);
}

FAKE cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->captured = stream->captured;
    if (stream->captured != NULL) {
        FAKE_MAY_FAIL();
        note(stream->captured, stream, RECORD, event);
        return cudaSuccess;
    }
    lock();
    const event_op e = {event, ++event->recorded};
    unlock();
    return fake_enqueue(stream, event_done, &e, sizeof e);
}

FAKE cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (event->captured != NULL) {
        FAKE_MAY_FAIL();
        if (stream->captured != NULL && stream->captured != event->captured)
            return fake_capture_mix(stream->captured, event->captured);
        stream->captured = event->captured;
        note(stream->captured, stream, WAIT, event);
        return cudaSuccess;
    }
    if (stream->captured != NULL) return fake_told(cudaErrorStreamCaptureIsolation);
    const event_op e = {event, event->recorded};
    return fake_enqueue(stream, event_seen, &e, sizeof e);
}

CUresult fake_ask_event(CUevent event)
{
    const cudaError_t refused = refuse();
    if (refused != cudaSuccess) return (CUresult)refused;
    lock();
    fake_pump();
    const bool done = event->done >= event->recorded;
    unlock();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    FAKE_MAY_FAIL();
    while (fake_ask_event(event) == CUDA_ERROR_NOT_READY)
        nanosleep(&(struct timespec){0, 50000}, NULL);
    return cudaSuccess;
}

FAKE cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    FAKE_MAY_FAIL();
    *ms = (float)((end->us - begin->us) / 1e3) + 1e-4f;
    return cudaSuccess;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

cudaGraph_t fake_captured(cudaStream_t stream)
{
    return stream->captured;
}

FAKE cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    FAKE_MAY_FAIL();
    stream->captured = calloc(1, sizeof *stream->captured);
    stream->captured->tail = &stream->captured->head;
    fake_capture_begin(stream->captured, mode);
    lock();
    live++;
    unlock();
    return cudaSuccess;
}

FAKE cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    *out = stream->captured;
    lock();
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        if (s->captured == *out) s->captured = NULL;
    unlock();
    if (!fake_capture_end(*out)) return fake_told(cudaErrorStreamCaptureInvalidated);
    return fake_fails() ? fake_told(fake_error()) : cudaSuccess;
}

static op *copy_ops(const op *from)
{
    op *head = NULL;
    op **tail = &head;
    for (; from != NULL; from = from->next) {
        const sized *const s = (const sized *)(const void *)from->data;
        append(&tail, new_op(from->go, s, sizeof *s + s->bytes));
    }
    return head;
}

static void free_ops(op *head)
{
    while (head != NULL) {
        op *const next = head->next;
        free(head);
        head = next;
    }
}

FAKE cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                      unsigned long long flags)
{
    (void)flags;
    FAKE_MAY_FAIL();
    *out = calloc(1, sizeof **out);
    (*out)->head = copy_ops(graph->head);
    lock();
    live++;
    unlock();
    return cudaSuccess;
}

FAKE cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream)
{
    (void)graph;
    (void)stream;
    FAKE_MAY_FAIL();
    return cudaSuccess;
}

static bool begin_replay(void *data, bool first)
{
    replay *const r = *(replay **)data;
    (void)first;
    r->started = true;
    return true;
}

static bool end_replay(void *data, bool first)
{
    replay *const r = *(replay **)data;
    (void)first;
    if (r->left > 0) return false;
    free(r);
    return true;
}

FAKE cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    FAKE_MAY_FAIL();
    lock();
    cudaStream_t lane[GRAPH_LANES], key[GRAPH_LANES];
    int lanes = 0;
    replay *const r = calloc(1, sizeof *r);
    for (const op *o = graph->head; o != NULL; o = o->next) {
        const sized *const s = (const sized *)(const void *)o->data;
        sized head = *s;
        int i = 0;
        while (i < lanes && key[i] != s->stream) i++;
        if (i == GRAPH_LANES) abort();
        if (i == lanes) {
            lane[i] = calloc(1, sizeof *lane[i]);
            key[i] = s->stream;
            lane[i]->tail = &lane[i]->head;
            lane[i]->virtual = true;
            lanes++;
        }
        head.replay = r;
        append_sized(&lane[i]->tail, &head, s->data);
        r->left++;
    }
    for (int i = 0; i < lanes; i++) {
        lane[i]->next = streams;
        streams = lane[i];
    }
    const sized begin = {.go = begin_replay, .bytes = sizeof r};
    const sized end = {.go = end_replay, .bytes = sizeof r};
    append_sized(&stream->tail, &begin, &r);
    append_sized(&stream->tail, &end, &r);
    unlock();
    return cudaSuccess;
}

FAKE cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free_ops(graph->head);
    free(graph);
    lock();
    live--;
    unlock();
    return cudaSuccess;
}

FAKE cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    free_ops(graph->head);
    free(graph);
    lock();
    live--;
    unlock();
    return cudaSuccess;
}
