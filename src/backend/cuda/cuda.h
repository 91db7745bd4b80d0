/* cuda.h -- the CUDA backend: a GPU a rank, all in this process; or for proofs, several ranks a
 * GPU.
 *
 *     cuda.c    the table; open and close, memory
 *     share.c   several ranks on a GPU, for proofs
 *     accept.c  which schedules can be carried out
 *     lower.c   a sealed schedule with addresses becomes lists, places and launches of kernel.h
 *     memory.c  memory of a GPU: got, filled, written, read
 *     ask.c     how streams and events stand; bounded waits for copies and fills
 *     land.c    what peers store into C
 *     protocol.c  begin and end of a run, by kernels of their own or inside a plan's launches
 *     issue.c   steps on their lanes: streams, events, copy engines
 *     move.c    copies that one launch carries out together
 *     rows.c    launches that norm rows
 *     fail.c    waiting for runs, the verdict over a group that came to a halt, recovery
 *     vendor.c  the vendor's product, with the algorithm that was fastest here
 *     clock.c   runs back to back from a graph, timed by events
 *     fill.c    matrices of a benchmark, made and compared on the GPU
 *     facts.c   names, versions and clocks for reports; entries of libraries
 *
 * A lane is a stream.  Lane 0 of a run is the caller's stream; the others fork from it behind the
 * begin kernel and join it before the end kernel.  Whatever differs from run to run (epoch, half)
 * is on the device, so a run that was captured into a graph replays right. */
#ifndef SG_CUDA_H
#define SG_CUDA_H

#include <pthread.h>

#include "backend/nccl/collect.h"
#include "core/exec.h"
#include "kernel/kernel.h"

enum {
    SG_CUDA_RANKS = 8,               /* places of a plan hold that many ranks' buffers */
    SG_CUDA_FLIGHT = 64,             /* runs of a rank that the host knows to be on their way */
    SG_CUDA_CLIPPED = SG_CUDA_RANKS, /* columns of each end in the middle of C, at most */
    SG_CUDA_PAIRS = 4 * SG_BLOCK_CLASSES,
    SG_CUDA_KNOWN = 128,
    SG_CUDA_SERVICE_US = 60000000, /* for a copy or a fill, and what libraries do at first */
    SG_CUDA_RAISES = 32 /* of a copy that its engine may carry out; a kernel does the rest */
};

#define SG_CUDA_OWN (~0ull) /* no stream of a caller's has this number */

struct sg_vendor; /* vendor.c */

/* A run that was enqueued, as far as the host knows. */
typedef struct sg_cuda_flight {
    cudaEvent_t begun, ended;
    bool tells;  /* `begun` was recorded: no word on the device says so */
    bool marked; /* `ended` was recorded; if not, the run is on the rank's own stream */
    const struct sg_cuda_plan *plan;
    uint64_t hash;
    const char *text; /* of the plan; plans outlive their runs */
} sg_cuda_flight;

/* Two blocks of a size side by side: the halves of a workspace, between which a tensor map takes
 * one stride, which must not be too long. */
typedef struct sg_cuda_pair {
    char *base; /* NULL: none */
    sg_arena_kind arena;
    size_t bytes;
    bool taken[2];
} sg_cuda_pair;

/* A tensor that was looked at: it is in a GPU's memory. */
typedef struct sg_cuda_known {
    const void *data;
    bool reached;          /* peers reach it, too */
    unsigned long long id; /* of the allocation; 0: not known */
} sg_cuda_known;

typedef struct sg_cuda_rank {
    struct sg_cuda *cuda; /* the group */
    int rank, device;
    int sms; /* that its kernels may take: all, or its part of a GPU that is shared */
    cudaStream_t lane[SG_MAX_LANES]; /* lane 0: for callers without a stream */
    cudaStream_t service;            /* uploads and downloads, not in order with runs */
    bool stuck;                      /* what is on it did not end within the limit: atomic */
    cudaEvent_t fork, join[SG_MAX_LANES];
    /* The run captured last: recorded behind it, on this stream, in the capture of this number. */
    cudaEvent_t behind;
    cudaStream_t behind_on;
    unsigned long long behind_in;
    sg_kernel_rank *state;      /* on the device */
    sg_kernel_words *words;     /* on the device: [ranks] */
    sg_kernel_trouble *trouble; /* mapped: here and there */
    struct sg_vendor *vendor;
    sg_cuda_pair pair[SG_CUDA_PAIRS];
    void *landing[SG_BLOCK_CLASSES]; /* where peers store what goes into this rank's C */
    void *dense[SG_BLOCK_CLASSES];   /* what collectives take of matrices that are not dense */
    sg_cuda_known known[SG_USER_BUFS][SG_CUDA_KNOWN];
    uint64_t known_at; /* `memory_changes` of the group then */

    /* Runs FIRST .. ISSUED - 1, modulo its size; the one behind them is written by who enqueues
     * it. */
    sg_cuda_flight flight[SG_CUDA_FLIGHT];
    uint64_t first;  /* grows with the mutex held, by whoever finds that runs have ended */
    uint64_t issued; /* grows with the mutex held, by who enqueues the rank's runs */
    /* Stream of the run enqueued last, by its number: another stream may have the same handle, a
     * later one or that of another thread (cudaStreamPerThread). */
    unsigned long long last;
    bool ever;

    /* Of the run that is being enqueued. */
    cudaStream_t main;
    unsigned long long main_id; /* SG_CUDA_OWN: lane 0; not set while capturing */
    bool capturing;
    bool captured;     /* some run was, so that graphs may replay: nobody tells when */
    bool lanes_taken;  /* by a capture that may go on */
    int caller_device; /* of who enqueues it */
    unsigned how;      /* kernels start: SG_KERNEL_EARLY or 0 */
    bool begun, ended; /* by a launch of the plan */
    bool apart;        /* a launch does not carry its copies: they go in front of it */
    bool enqueues;     /* between begin and end, as told by sg_cuda_mark() */
    bool calls;        /* is in a call of the library of collectives */
    const void *said;  /* where peers store into C itself; NULL: to the landing */

    struct sg_cuda_plan *plans; /* bound here */
} sg_cuda_rank;

/* Entries of the driver, for what the runtime does not pass on, or tells as an error of the
 * thread's; NULL: it has none. */
typedef struct sg_cuda_driver {
    CUresult (*pointer)(void *answer_out, CUpointer_attribute about, CUdeviceptr of);
    CUresult (*event)(CUevent event);
    CUresult (*stream)(CUstream stream);
    /* As of 12.0: what comes behind the number is not asked for. */
    CUresult (*capture)(CUstream stream, CUstreamCaptureStatus *status_out, cuuint64_t *id_out,
                        CUgraph *graph_out, const CUgraphNode **nodes_out, size_t *count_out);
} sg_cuda_driver;

typedef struct sg_cuda {
    int ranks;
    int sharing; /* ranks on a GPU, at most; more than 1: of a proof (share.c) */
    double timeout_us;
    sg_cuda_rank rank[SG_CUDA_RANKS];
    sg_collect *collect; /* NULL: no library, one rank, or shared GPUs */
    bool collect_lost;   /* given up; recovery renews it */
    bool halts;          /* is being given up: atomic, as `calls` of the ranks */
    char no_collect[160];
    sg_cuda_driver driver;
    uint32_t *start; /* mapped: starts of timed runs so far (clock.c); NULL: none */

    uint64_t memory_changes; /* how often addresses may have come to be of other memory */

    struct sg_cuda_dropped *dropped; /* memory to be freed: atomic (share.c) */
    pthread_mutex_t mutex;           /* guards what follows, and the making of verdicts */
    bool sweeping;                   /* memory is being freed, with the mutex or without */
    pthread_cond_t swept;
    bool failed;
    sg_verdict verdict;
    cudaError_t lost; /* what a GPU said of the runs of rank LOST_RANK; cudaSuccess: nothing */
    int lost_rank;
    /* When a run was last enqueued, or seen to have ended or not to have begun; when one that has
     * begun was first found since then; when that was last looked at. */
    double progress_us, held_us, looked_us;
    struct sg_choice *choice; /* of algorithms, by shape (vendor.c) */
} sg_cuda;

/* Operands of a launch whose rows would begin at odd bytes: places where copies of them begin at
 * multiples of 16 (even.c). */
enum { SG_EVEN_A, SG_EVEN_B, SG_EVEN_C, SG_EVEN_ADD, SG_EVENS };
typedef struct sg_cuda_even {
    uint32_t which; /* bit i: operand i; what is added to and C may be the same */
    uint32_t lent;  /* the copy is that of a launch in front in the lane */
    int8_t place[SG_EVENS];
    void *memory; /* of the copies */
} sg_cuda_even;

/* One step as it is issued. */
typedef struct sg_cuda_step {
    cudaEvent_t ended;              /* recorded if a step of another lane is after this one */
    int32_t adds_wait0, adds_waits; /* of a reduction: waits of its addends, in the lists */
    sg_kernel_step flags;           /* indices, as sg_kernel_flag, _copy and _reduce take them */
    sg_kernel_gemm *gemm;           /* a launch by our kernel */
    void *seats;                    /* device memory of who has which seat of the launch */
    void *remake;                   /* device memory of its maps of peers' tensors */
    struct sg_product *lt;          /* a launch by the vendor's library */
    sg_cuda_even even;              /* of a launch */
    /* Bit i, of SG_CUDA_RAISES: raise i of the step is a copy of the epoch word; or a later step of
     * this lane raises it for this one. */
    uint32_t raise_by_copy, raise_by_other;
    /* As sg_sched_copies(): of several that go together, where they stand in the list of moves, and
     * what they are together. */
    int32_t copies, move0;
    int64_t move_rows, move_bytes;
} sg_cuda_step;

/* What the backend keeps of a bound plan. */
typedef struct sg_cuda_plan {
    sg_bound *bound;
    struct sg_cuda_plan *next;
    sg_kernel_program program; /* places of the user's tensors are filled in by each run */
    sg_kernel_lists lists;     /* on the host */
    void *host;                /* what `lists` points into */
    void *device;              /* lists, counters, tickets */
    void *words;               /* counters and tickets, zero at rest: part of `device` */
    size_t words_bytes;
    sg_cuda_step *step;
    int32_t places;
    int8_t place_of[SG_MAX_BUFS][SG_CUDA_RANKS]; /* -1: none */
    int8_t more_b[SHINGLE_MOST_B - 1]; /* places of the B behind the first, and of the C */
    int8_t more_c[SHINGLE_MOST_B - 1];
    int8_t clipped[SG_CUDA_CLIPPED]; /* places of C up to columns at which some store ends */
    int32_t clips;
    int8_t landed; /* place of what peers stored for C; -1: none */
    int32_t *away; /* triples for sg_kernel_permute: rows from landing to C */
    int32_t *home; /* the same on the device; NULL: few enough for copies */
    int32_t aways;
    int64_t stays[2];     /* columns of these rows that this rank stores itself: from, to */
    void *dense;          /* of the rank: room for parts of collectives that are not dense */
    sg_kernel_step *push; /* copies that a launch carries */
    size_t push_at;       /* the same on the device: bytes into `device` */
    sg_kernel_move *move; /* copies that one launch carries out together */
    size_t move_at;
    int32_t pushes;
    int32_t takes;             /* of these, the last ones: see sg_kernel_gemm_param */
    int64_t pushed_bytes;      /* that they store at peers */
    bool push_leaves;          /* some of it into a peer's tensor */
    bool push_fits;            /* a fast launch may carry them, if their sources are aligned */
    bool pushed[SG_USER_BUFS]; /* sources */
    uint32_t lanes;            /* bit mask */
    bool collects;             /* has collectives, which no flag can time out */

    /* How it begins and ends (protocol.c). */
    bool one_lane;         /* all steps follow each other: kernels may start early */
    bool counts;           /* a run of it is an epoch */
    bool direct;           /* peers may store into C itself */
    int32_t opens, closes; /* launches that begin and end the run; -1: kernels of their own do */
    int32_t awaits;        /* the FLAG step behind the one that ends it; -1: none */
} sg_cuda_plan;

/* CUDA's error becomes ours, with the call's name. */
shingle_status sg_cuda_check(cudaError_t error, const char *call);
#define SG_CUDA(call) SG_TRY(sg_cuda_check((call), #call))

/* The current device becomes RANK's until leave, which gets what it was: it is the thread's, and
 * threads enter a rank beside and within each other. */
shingle_status sg_cuda_enter(const sg_cuda_rank *rank, int *caller_out);
void sg_cuda_leave(const sg_cuda_rank *rank, int caller);

/* May ranks share a GPU?  Before the first call of CUDA. */
shingle_status sg_cuda_ask_share(bool *shares_out);

/* Deals DEVICES GPUs to the ranks. */
shingle_status sg_cuda_deal(sg_cuda *cuda, bool shares, int devices);

/* RANK has found all SMs of its GPU and keeps its part. */
shingle_status sg_cuda_share_sms(const sg_cuda *cuda, sg_cuda_rank *rank);

/* Frees device memory (or NULL) when no run is on its way: cudaFree waits for all that runs on the
 * GPU, where a rank may wait for one that the same thread has yet to begin.  Takes the mutex. */
void sg_cuda_drop(sg_cuda *cuda, void *memory);

/* The same later, at the next sweep: with the mutex or without. */
void sg_cuda_put_back(const sg_cuda_rank *rank, void *memory);

/* Frees what was dropped, if that may be done now.  LAST: whatever is on its way.  Takes the mutex,
 * but not while it frees: cudaFree waits for what the caller has on the GPU, too. */
void sg_cuda_sweep(sg_cuda *cuda, bool last);

/* RANK begins to enqueue a run, or has ended to.  To begin waits while memory is freed:
 *
 *     SHINGLE_ETIMEOUT  for longer than the limit */
shingle_status sg_cuda_enqueues(sg_cuda *cuda, sg_cuda_rank *rank);
void sg_cuda_enqueued(sg_cuda *cuda, sg_cuda_rank *rank);

/* Device memory of RANK, zeroed; the current device is RANK's.  This and the fills below are for
 * the thread that drives RANK, or with the mutex held.  None of them waits for ever. */
shingle_status sg_cuda_get(sg_cuda_rank *rank, size_t bytes, void **memory_out);

shingle_status sg_cuda_put(sg_cuda_rank *rank, void *to, const void *from, size_t bytes);
shingle_status sg_cuda_fetch(sg_cuda_rank *rank, void *to, const void *from, size_t bytes);
shingle_status sg_cuda_clear(sg_cuda_rank *rank, void *memory, size_t bytes);

/* Memory of REST as it is between runs: all ones, which no rounding makes of anything. */
shingle_status sg_cuda_rest(sg_cuda_rank *rank, void *memory, size_t bytes);

bool sg_cuda_accepts(void *self, const sg_sched *s, sg_text *why);
bool sg_cuda_keeps_order(void *self, const sg_sched *s, sg_text *why);

/* Pieces of rows that fast kernels load and store begin and end at 16 bytes. */
bool sg_cuda_is_cut_well(const sg_sched *s, const sg_launch *l);

/* Does the vendor's library do the whole of L on RANK?  Else one of our kernels does. */
bool sg_cuda_is_vendor(const sg_cuda_rank *rank, const sg_sched *s, const sg_launch *l);

/* Has L sums in f32 that nobody else touches, a place for each tile? */
bool sg_cuda_owns_parts(const sg_sched *s, const sg_launch *l);

shingle_status sg_cuda_bind(void *self, sg_bound *bound);
void sg_cuda_unbind(void *self, sg_bound *bound);

/* Copies that go together (move.c): how many are listed; their list, when all steps are made; and
 * the launch of those that begin with step INDEX. */
int32_t sg_cuda_count_moves(const sg_sched *s);
shingle_status sg_cuda_make_moves(sg_cuda_rank *rank, sg_cuda_plan *plan);
shingle_status sg_cuda_issue_moves(const sg_cuda_rank *rank, const sg_run *run, int32_t index,
                                   int blocks, cudaStream_t stream);

/* The landings of all ranks for the C of this plan (land.c). */
shingle_status sg_cuda_land(sg_cuda *cuda, const sg_problem *p, void **landing_out);

/* Do peers store into C of this rank?  Is AREA, which is read, of the own C but stored by a
 * peer?  Where sums are made in C all of it is, but for what is stored with something added. */
bool sg_cuda_is_reached(const sg_bound *bound);
bool sg_cuda_reaches_peers(const sg_bound *bound); /* this rank stores into theirs */
bool sg_cuda_is_landed(const sg_cuda_plan *plan, const sg_area *area);

/* A matrix becomes the next place of PLAN. */
shingle_status sg_cuda_new_place(sg_cuda_plan *plan, void *low, void *high, int64_t rows,
                                 int64_t cols, bool wide, int8_t *index_out);
shingle_status sg_cuda_too_many_places(const sg_bound *bound);

/* Places of the user's tensors, which every run names.  LANDING: of each rank, where its C is if it
 * is not told (land.c). */
shingle_status sg_cuda_find_places(sg_cuda_plan *plan, int rank, void *const *landing);

/* AREA of a buffer becomes one of a place.  SOURCE: it is read. */
shingle_status sg_cuda_name_place(sg_cuda_plan *plan, sg_area *area, bool source,
                                  void *const *landing);

/* Stores write whole boxes of up to 64 columns, and leave out only what lies beyond the matrix.  So
 * where TO, columns of C, ends in the middle of it and of such a box, it gets a place that ends
 * there; if there is no room for one, a slow kernel stores it. */
shingle_status sg_cuda_clip_place(sg_cuda_plan *plan, sg_area *to);

/* Products of matrices whose rows begin at odd bytes (even.c).  Is the product of PATCH so small
 * that it is over before copies are made?  Is the launch of step INDEX one that is not, of and into
 * plain matrices, which has its lane to itself?  Then the AREAs of its operands in the lists, NULL
 * where it has none, name places for copies where their rows are odd, if that pays; without memory
 * for these they stay, and the launch is slow. */
bool sg_cuda_is_small(const sg_patch *patch);
bool sg_cuda_is_plain(const sg_cuda_plan *plan, int32_t index);
shingle_status sg_cuda_make_even(sg_cuda_rank *rank, sg_cuda_plan *plan, int32_t index,
                                 sg_area *area[SG_EVENS]);

/* The same of a run: these places in PROGRAM become those of RUN, which are its own matrices where
 * their rows are even; copies of what is read, in front of the launch of step INDEX, or of what it
 * has stored, BACK to where it belongs. */
void sg_cuda_aim_even(sg_kernel_program *program, const sg_run *run, int32_t index);
shingle_status sg_cuda_even_copy(const sg_cuda_rank *rank, const sg_run *run, int32_t index,
                                 bool back, cudaStream_t stream);

/* At bind: which rows come from the landing; room for what collectives take. */
shingle_status sg_cuda_make_home(sg_cuda_rank *rank, sg_cuda_plan *plan);
shingle_status sg_cuda_make_dense(sg_cuda_rank *rank, sg_cuda_plan *plan);

/* The library connects all ranks of the group with each other. */
shingle_status sg_cuda_meet(sg_cuda *cuda);

/* At bind, behind all steps: how runs of PLAN begin and end. */
void sg_cuda_plan_protocol(sg_cuda_plan *plan);

shingle_status sg_cuda_begin(void *self, sg_run *run);
shingle_status sg_cuda_end(void *self, sg_run *run);

/* The part that the launch of step INDEX has in the protocol of this run goes into its
 * parameters. */
void sg_cuda_set_protocol(sg_cuda_rank *rank, const sg_run *run, int32_t index);

/* Points the launch of step INDEX at the tensors of RUN (issue.c). */
shingle_status sg_cuda_aim_launch(sg_cuda_rank *rank, const sg_run *run, int32_t index);

/* Where AREA of a run lies: for reading (SOURCE) or for storing (issue.c). */
typedef struct sg_cuda_place {
    uint8_t *data;
    int64_t pitch;
    int element_bytes;
    sg_type type;
} sg_cuda_place;
sg_cuda_place sg_cuda_address(const sg_run *run, const sg_area *area, bool source);

/* The places of the user's tensors in PROGRAM become those of RUN. */
void sg_cuda_aim(sg_kernel_program *program, const sg_run *run);

/* The launch of step INDEX, which norms rows (rows.c). */
shingle_status sg_cuda_issue_norm(sg_cuda_rank *rank, const sg_run *run, int32_t index,
                                  cudaStream_t stream);

shingle_status sg_cuda_issue_gemm(void *self, sg_run *run, int32_t step);
shingle_status sg_cuda_issue_copy(void *self, sg_run *run, int32_t step);
shingle_status sg_cuda_issue_reduce(void *self, sg_run *run, int32_t step);
shingle_status sg_cuda_issue_coll(void *self, sg_run *run, int32_t step);
shingle_status sg_cuda_issue_flag(void *self, sg_run *run, int32_t step);

/* A run of RANK was enqueued in part, which failed with STATUS, or beside a failure that its group
 * has drained: the group fails, if it has not, and drains.  Returns the verdict.  The current
 * device is RANK's. */
shingle_status sg_cuda_stop(sg_cuda *cuda, const sg_cuda_rank *rank, shingle_status status);

/* Who captures a graph, and while it is captured in Global mode everybody else, breaks it by asking
 * how streams and events stand, and by getting or freeing memory.  Between these two the calling
 * thread may: none of that is on a stream that is captured.  They nest. */
enum cudaStreamCaptureMode sg_cuda_relax(void);
void sg_cuda_restore(enum cudaStreamCaptureMode mode);

/* Runs of RANK that are on their way, for who enqueues them or has the mutex.  One that ends
 * meanwhile counts: to wait for it does no harm. */
static inline uint64_t sg_cuda_in_flight(const sg_cuda_rank *rank)
{
    return rank->issued - __atomic_load_n(&rank->first, __ATOMIC_RELAXED);
}

/* Has RANK runs on its way that may wait for other ranks, and do not end soon?  To wait for them
 * while others wait for us would be for ever.  Takes the mutex. */
bool sg_cuda_is_busy(sg_cuda *cuda, sg_cuda_rank *rank);

/* Has RANK said hello in the run that it is in, whatever its number is: graphs that replay count on
 * the device alone.  OTHERWISE: if nobody can tell.  For whom sg_cuda_is_replaying() is. */
bool sg_cuda_has_said_hello(sg_cuda *cuda, sg_cuda_rank *rank, bool otherwise);

/* Is a graph of RANK's in the middle of a run, and maybe waits for ranks whose threads wait for us?
 * By the words on the device, since the host does not see replays.  For the thread that drives
 * RANK, or with the mutex held. */
bool sg_cuda_is_replaying(sg_cuda *cuda, sg_cuda_rank *rank);

/* A short sleep of who polls. */
void sg_cuda_pause(void);

/* Is a graph being captured on STREAM?  Nothing of that runs, and the capture would break if
 * somebody asked about the stream, or take in whoever waited for it. */
bool sg_cuda_is_captured(cudaStream_t stream);

/* The number of the capture that STREAM is in, unlike that of all others; 0: none, or not known. */
unsigned long long sg_cuda_capture_of(const sg_cuda *cuda, cudaStream_t stream);

/* Are both captured, into one graph? */
bool sg_cuda_is_captured_with(const sg_cuda *cuda, cudaStream_t stream, cudaStream_t other);

/* The thread's last error, if it is ERROR, which a call here has returned, is not left for others
 * to find.  Any other is the caller's, who has yet to see it.  Returns ERROR. */
cudaError_t sg_cuda_forget(cudaError_t error);

/* As cudaEventQuery and cudaStreamQuery, but that the thread's last error stays as it is. */
cudaError_t sg_cuda_event_stands(const sg_cuda *cuda, cudaEvent_t event);
cudaError_t sg_cuda_stream_stands(const sg_cuda *cuda, cudaStream_t stream);
void sg_cuda_find_driver(sg_cuda_driver *driver);

/* Waits until all that is on the service stream of RANK has ended, at most LIMIT_US, or as long as
 * anything there may take.  Is any of them stuck: has such a wait failed, and is that still so?
 * Then to free memory would be to wait for ever. */
shingle_status sg_cuda_settle_within(sg_cuda_rank *rank, double limit_us);
shingle_status sg_cuda_settle(sg_cuda_rank *rank);
bool sg_cuda_is_stuck(const sg_cuda *cuda);

/* With the mutex held: runs of all ranks that have ended are forgotten. */
void sg_cuda_reap(sg_cuda *cuda);

/* Has the group failed, or has a rank recorded trouble?  Then the verdict is made, if it is not,
 * and returned as an error. */
shingle_status sg_cuda_alive(sg_cuda *cuda);
shingle_status sg_cuda_sync(void *self, int rank, double seconds);
int sg_cuda_runs(void *self, int rank);
shingle_status sg_cuda_recover(void *self, sg_work *const *work, double seconds);

shingle_status sg_cuda_fill(void *self, int rank, const struct sg_fill *fill, void *matrix);
shingle_status sg_cuda_differ(void *self, int rank, const struct sg_fill *fill, const void *matrix,
                              int64_t *wrong_out, int64_t *first_out);

/* ENTRY, a pointer to a function, gets NAME of a loaded LIBRARY (as dlsym takes it).  False: it has
 * no such entry. */
bool sg_cuda_find(void *library, const char *name, void *entry);

shingle_status sg_cuda_facts(void *self, int rank, bool clocks_only, shingle_device *device_out);

shingle_status sg_cuda_time(void *self, sg_enqueue *run, void *context, int runs, double *us_out);

#endif
