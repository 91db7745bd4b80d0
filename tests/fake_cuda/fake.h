/* fake.h -- CUDA, NCCL, cuBLASLt and the device kernels on the host, so that what drives them can
 * be tested without a GPU.
 *
 * Devices share the host's memory.  A stream is a queue of operations, each a function that says
 * whether it could be carried out yet; whoever asks about a stream or an event carries out, of all
 * streams, what can be.  So kernels wait for each other as on a device, and in one thread.  A
 * captured graph is what was enqueued, stream by stream; a replay has streams of its own. */
#ifndef FAKE_H
#define FAKE_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

enum { FAKE_DEVICES = 4, FAKE_ROOM = 3072 };

/* True if it was carried out.  DATA is the operation's own copy and may be changed; FIRST: this is
 * the first question of this enqueueing. */
typedef bool fake_go(void *data, bool first);

/* Behind what STREAM has; BYTES of DATA (at most FAKE_ROOM) are copied.  Consumes a call that may
 * be made to fail. */
cudaError_t fake_enqueue(cudaStream_t stream, fake_go *go, const void *data, size_t bytes);

/* Call number COUNT from now on (0: the next) fails with ERROR; negative: none.  FAKE_CALLS counts
 * those that could have failed. */
void fake_fail_at(int count, cudaError_t error);
int fake_calls(void);
bool fake_fails(void); /* counts a call: does it fail? */
cudaError_t fake_error(void);

/* ERROR becomes the last one of this thread, which stays until somebody gets it. */
cudaError_t fake_told(cudaError_t error);

/* What all of them say, and who asks about streams and events is told: the context is lost.
 * cudaSuccess: it is not. */
extern cudaError_t fake_lost;

/* How many of the next questions about streams and events are answered "not yet". */
extern _Atomic int fake_not_yet;

/* The driver's questions about them, whose answers are no error of the thread's. */
CUresult fake_ask_event(CUevent event);
CUresult fake_ask_stream(CUstream stream);

/* How long each of them takes in this thread. */
extern _Thread_local int fake_call_us;

#define FAKE __attribute__((visibility("default")))
#define FAKE_MAY_FAIL()                                                                            \
    do {                                                                                           \
        if (fake_fails()) return fake_told(fake_error());                                          \
    } while (0)

/* Everything is on the current device but what begins here, or on one that nobody has. */
extern const void *fake_host, *fake_elsewhere;

/* How many devices are visible. */
void fake_devices(int count);

/* Carries out what can be. */
void fake_pump(void);

/* The same, and then moves memory of the host's. */
void fake_move(void *to, const void *from, size_t bytes);

/* Is something left on a stream of DEVICE that cannot be? */
bool fake_busy(int device);

/* How often memory was freed while something was left on the current device, which a real one would
 * have waited for. */
extern _Atomic int fake_stalls;

/* Memory is freed as by a driver: when nothing is left on the current device. */
extern _Atomic bool fake_frees_last;

/* Captures that are on their way.  Whoever asks about a stream or an event meanwhile, or gets or
 * frees memory, may break them. */
void fake_capture_begin(cudaGraph_t graph, enum cudaStreamCaptureMode mode);
bool fake_capture_end(cudaGraph_t graph); /* is it whole? */
bool fake_capture_breaks(void);

/* A stream of one capture is to wait for another one, which breaks both. */
cudaError_t fake_capture_mix(cudaGraph_t graph, cudaGraph_t other);

/* What STREAM becomes part of; NULL: it is not captured. */
cudaGraph_t fake_captured(cudaStream_t stream);
CUresult fake_ask_capture(CUstream stream, CUstreamCaptureStatus *out, cuuint64_t *id,
                          CUgraph *graph, const CUgraphNode **nodes, size_t *count);

/* STREAM is destroyed, which does not wait for what is in it, and one is made that gets its
 * handle. */
void fake_reuse(cudaStream_t stream);

/* Is there such a stream, and something in it? */
bool fake_pending(cudaStream_t stream);

/* How often a product was given a workspace that another stream was not past yet. */
extern _Atomic int fake_clashes;

/* What all devices are called. */
extern const char *fake_name;

/* How often the current device could not be set; and which allocation an address is of was asked,
 * by calls that are counted, too. */
extern _Atomic int fake_unset, fake_questions;

/* Blocks of memory, streams, events and graphs that exist: to find leaks. */
int fake_live(void);
void fake_count(int more);

/* Kernels launched and copies enqueued so far; kernels that may start early; copies that launches
 * carried out beside tiles, and that launches of copies did; elements stored into peers' own
 * tensors. */
enum { FAKE_SMS = 132 };

extern _Atomic int fake_kernels[16]; /* that have all SMs of each device */
extern _Atomic int fake_launches, fake_copies, fake_early, fake_pushes, fake_joined;
extern _Atomic int fake_moved;  /* whole matrices, by kernels */
extern _Atomic int fake_slow;   /* products, by slow kernels */
extern _Atomic int fake_by_row; /* launches of several bands whose first patch is walked so */

/* SMs that the largest grid of products, copies or sums since the last zero has taken. */
extern _Atomic int fake_most_sms;
extern long fake_direct;

/* Collectives that all ranks came to in windows so far, of each rank; NCCL
 * lacks its entries for windows. */
extern int fake_windowed;
extern bool fake_windowless;

/* Sends and receives neither end nor hear of an abort; calls of NCCL that connect, register or take
 * down do not come back. */
extern bool fake_deaf;
extern _Atomic bool fake_held;

/* How long the next collective that rank 0 enqueues takes to be; calls on the communicators of all
 * ranks, to abort them or about windows, while one was being enqueued. */
extern _Atomic int fake_slow_us, fake_torn;

/* How often cuBLASLt was asked for algorithms, of which it has two; which of them was run last; how
 * much longer the first one takes, and each of them; none can be run. */
extern _Atomic int fake_asked, fake_algorithm, fake_first_us, fake_product_us;
extern _Atomic bool fake_productless;
extern _Atomic bool fake_dense;   /* algorithms serve no rows but those that they were chosen for */
extern _Atomic int fake_products; /* that were enqueued */

/* What begins here is memory that peers do not reach. */
extern const void *fake_apart;

/* Elements stored to tagged places so far; and words there that were stored over others which
 * nobody had read. */
extern long fake_tagged, fake_trampled;

#endif
