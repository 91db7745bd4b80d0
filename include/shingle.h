/* shingle.h -- the whole public interface of Shingle.
 *
 * Shingle computes matrix products whose operands or results live on several ranks, and hides the
 * communication under the product:
 *
 *     AG_GEMM   gather the rows of A from all ranks, then C = A * B^T
 *     GEMM_RS   C = A * B^T, summed over ranks, every rank keeps the rows it owns
 *     GEMM_AR   C = A * B^T, summed over ranks, every rank gets all of it
 *     A2A_GEMM  rows of A go to other ranks (all-to-all), then C = A * B^T
 *     GEMM_A2A  C = A * B^T, then rows of C go to other ranks
 *     GEMM      C = A * B^T, no communication (what the others are compared with)
 *
 * Matrices are row-major.  A has k columns; B is held as n rows of k values, as the weight of a
 * linear layer is; C has n columns.  m, n and k are the product that ONE rank computes, so a rank
 * does 2*m*n*k floating point operations whatever the operator.
 *
 * Three tiers.  The first is enough to use the library:
 *
 *     shingle_comm *comm[4];
 *     shingle_open(4, NULL, comm);                        four ranks of this process
 *     shingle_plan *plan[4];
 *     for each rank r: shingle_plan_create(comm[r], "gemm_rs:f32:512x1024x768:r4", NULL, &plan[r]);
 *     for each rank r: shingle_run(plan[r], a[r], b[r], c[r], NULL);       returns at once
 *     for each rank r: shingle_sync(comm[r], 10.0);                        waits, at most 10 s
 *     shingle_close(4, comm);                             frees the plans too
 *
 * Texts: "" is the same as NULL wherever NULL stands for a default.
 * Errors: every call that can fail returns a status, or a length that then is -1; shingle_error()
 * is one line that names the offending value and what would be accepted.  Outputs are written only
 * on success.
 * Ownership: a plan, machine or timeline that a call stores to X_out is the caller's, who frees it
 * with shingle_X_free (plans of shingle_plan_create are also freed with their comm).  Texts belong
 * to what they were asked of, and are valid as long as that.
 * Threads: one thread at a time per comm; different comms may be driven by different threads or all
 * by one.  A plan belongs to its comm.  shingle_tune, shingle_bench, shingle_calibrate and
 * shingle_timeline_start and _stop use all comms of a group: nobody else uses it meanwhile.  With
 * runs in flight they say SHINGLE_EINVAL, as does a plan that is measured.
 * No call prints (SHINGLE_LOG asks for a log) or waits without a limit.  The process is aborted
 * only if the library finds a fault of its own that it cannot report.  Signals: its threads take
 * none but those of faults and SIGPROF, nor do those of an OpenBLAS that it loads.
 * Forks: a child has a group's memory and none of its threads.  shingle_close() does nothing there
 * and says SHINGLE_OK, what plans, runs, waits or needs a GPU says SHINGLE_EINVAL, and a group of
 * its own works. */
#ifndef SHINGLE_H
#define SHINGLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SHINGLE_API __attribute__((visibility("default")))
#else
#define SHINGLE_API
#endif

#define SHINGLE_VERSION_MAJOR 0
#define SHINGLE_VERSION_MINOR 1
#define SHINGLE_VERSION_PATCH 0

/* ---- Tier 1: five calls ---------------------------------------------------------------------- */

typedef enum shingle_status {
    SHINGLE_OK = 0,
    SHINGLE_EINVAL,       /* an argument or a file is wrong; nothing was done */
    SHINGLE_ENOMEM,       /* memory ran out; nothing was done */
    SHINGLE_EUNSUPPORTED, /* right, but this library, backend or machine cannot do it */
    SHINGLE_EIO,          /* a file could not be read or written */
    SHINGLE_ETIMEOUT,     /* a rank did not come or stopped, or a limit was too short */
    SHINGLE_EMISMATCH,    /* ranks disagree on what they run, or a plan's text and hash do */
    SHINGLE_EBACKEND,     /* software of the machine (CUDA, NCCL), or a function of yours, failed */
    SHINGLE_EBUG,         /* the library broke its own promise; please report the text */
    SHINGLE_EBUSY /* shingle_sync's limit was too short for what goes on: nothing is known yet */
} shingle_status;

/* B matrices of a problem with "b=": they share what arrives of A. */
#define SHINGLE_MOST_B 4

typedef struct shingle_comm shingle_comm; /* one rank of a group */
typedef struct shingle_plan shingle_plan; /* how one problem is run */

/* Settings of shingle_open.  All zero is the default of every field: where one is not given, the
 * environment counts if it says something, and else what is named here. */
typedef struct shingle_config {
    const char *backend;    /* "cpu" or, in a build with SHINGLE_CUDA, "cuda"; default: what
                             * SHINGLE_BACKEND says, else "cpu" */
    const char *machine;    /* that plans are made for: a path, or a name such as "h200x4" of a file
                             * that is installed (docs/machine.md); default: what SHINGLE_MACHINE
                             * says, else "cpu" measures itself, and "cuda" takes the file of this
                             * GPU, or round numbers if there is none */
    const char *scale_of;   /* machine, named in this way too, to be a scale model of: links are
                             * held back so that the ratio of compute to link is that machine's */
    double scale_rows;      /* with scale_of: rows of that machine that one row here stands for;
                             * shortens latencies only; default 16 */
    double timeout_seconds; /* a run fails if, on the CPU, no rank makes progress for so long, or
                             * one call of a function of yours takes so long; on GPUs, if one wait
                             * of a kernel takes so long, be it only because a peer's stream is
                             * busy: more than ranks may be apart.  0.001 to 86400, and 900 on GPUs;
                             * default: SHINGLE_TIMEOUT, else 10 */
    int threads;            /* 1 to 1024 that multiply for this group; default: SHINGLE_THREADS,
                             * else the process's cores.  On the CPU each rank's links have a
                             * thread besides, which mostly sleeps */
    const char *plans;      /* file of tuned plans (docs/tuning.md), read now; it need not exist
                             * yet; default: SHINGLE_PLANS, else none */
} shingle_config;

/* Opens a group of RANKS ranks, all in this process, and stores one comm per rank in
 * COMM_OUT[0..ranks-1].  1 to 64 ranks; on GPUs 1 to 8, one GPU each.  CONFIG may be NULL. */
SHINGLE_API shingle_status shingle_open(int ranks, const shingle_config *config,
                                        shingle_comm **comm_out);

typedef struct shingle_plan_options shingle_plan_options;

/* Plans PROBLEM (a text such as "ag_gemm:bf16:8192x7168x8192:r4", see docs/problem.md) for COMM's
 * group.  Every rank of the group makes the same call; ranks that ask for different things are told
 * so when they run.  OPTIONS may be NULL: the strategy that is predicted fastest is taken, and
 * never one that is predicted slower than not overlapping.  The plan is freed by
 * shingle_plan_free or with its comm. */
SHINGLE_API shingle_status shingle_plan_create(shingle_comm *comm, const char *problem,
                                               const shingle_plan_options *options,
                                               shingle_plan **plan_out);

/* Enqueues one run of PLAN and returns.  Every rank runs the same plans in the same order.
 *
 * Shapes: A holds the rows that this rank owns (AG_GEMM) or all m rows; B is n x k; C is all m rows
 * (AG_GEMM, GEMM_AR, GEMM) or the rows this rank owns (GEMM_RS); other operators and attributes are
 * in docs/problem.md, and shingle_problem_shape tells all shapes.  With "accumulate" C is read,
 * too; with "call=" B may be NULL.  A problem with a bias, with several B, with "return_a" or
 * "norm", and matrices that are not dense, take shingle_run_tensors.  An empty matrix may be NULL.
 *
 * Memory: elements are of the problem's type and aligned to its size.  On GPUs matrices are in the
 * memory of the rank's GPU; addresses and rows in multiples of 16 bytes take the fast kernels,
 * others a slow one.  Matrices must stay valid and untouched until shingle_sync (or, on a GPU,
 * until STREAM gets there); they are never moved.
 *
 * Stream: STREAM is NULL on the CPU, which has none and refuses others.  On GPUs it is a
 * cudaStream_t of the rank's GPU: the run comes behind what was enqueued there before, and what is
 * enqueued there later finds C.  NULL is then a stream of the rank's own, not CUDA's default
 * stream: such a run is ordered with the rank's other runs alone.
 *
 * How many: a rank has room for 16 runs that have not ended (64 on GPUs); with one more the call
 * waits for the first, at most twice the group's time limit, and then says SHINGLE_ETIMEOUT.  So
 * who drives all ranks goes run by run, not rank by rank. */
SHINGLE_API shingle_status shingle_run(shingle_plan *plan, const void *a, const void *b, void *c,
                                       void *stream);

/* Waits until all runs of COMM have ended, at most SECONDS (0 to 1e9; 0 does not wait, unless a
 * failure is found: docs/run.md); SHINGLE_EBUSY if they go on.  Returns the first failure among
 * them; after one, nothing touches their matrices any more, and every run fails in the same way
 * until shingle_recover.  A rank whose part of the run had ended before it failed elsewhere may get
 * SHINGLE_OK for it; it gets the failure when it next runs or waits, and recovers as others do. */
SHINGLE_API shingle_status shingle_sync(shingle_comm *comm, double seconds);

/* Closes every group whose comms are all among these, and leaves others as they are.  Takes NULL
 * entries, and makes what it closes NULL.  Runs in flight are abandoned: units under way, calls of
 * your function among them, are waited for, at most the time limit or 5 s, whichever is more.
 *
 *     SHINGLE_OK        nothing touches the matrices of its runs, or calls a function, any more
 *     SHINGLE_EINVAL    comms of a group were given without all others of it: they are still open;
 *                       all that was given as a whole is closed as with SHINGLE_OK
 *     SHINGLE_ETIMEOUT  something goes on, such as a function, which is then named.  That group is
 *                       closed, too, and its comms are NULL, but its memory is kept; matrices, also
 *                       of shingle_alloc, functions and contexts of its runs must stay for good */
SHINGLE_API shingle_status shingle_close(int ranks, shingle_comm **comm);

/* The calling thread's last failure, one line, never NULL; valid until the thread's next call. */
SHINGLE_API const char *shingle_error(void);

/* ---- Tier 2: control ------------------------------------------------------------------------- */

/* Bring your own kernel: in a problem with "call=FLOPS" a function of the user computes rows of the
 * product, and the library does everything else (it gathers the rows of A in front of it, or takes
 * bias, activation, rounding, sums over ranks and rows to their owners off it), in every strategy.
 * One call of the function computes rows [row0, row0 + rows) of RANK's product: all n values of
 * each, in f32, into SUM.
 *
 *     a     the same rows of A, k values of the problem's type each; they may have come from peers,
 *           and ROW0 is what they are called, wherever they lie
 *     b     what the run was given as B, untouched; it may be NULL, the context may hold everything
 *     sum   rows x n floats, uninitialised; all of them are written
 *
 * Strides are in elements between rows.  Everything belongs to the library and is valid during the
 * call only.  Rows are cut as the strategy likes, every row is computed once a run, in no
 * particular order.  The function is called by worker threads, several at a time, of several ranks;
 * it makes no call of this library and returns within the time limit.  STREAM is the run's; NULL on
 * the CPU.
 *
 * 0: computed.  Else the run fails: SHINGLE_EBACKEND on all ranks names rank, rows and value. */
typedef struct shingle_rows {
    int rank;
    int64_t row0, rows;
    const void *a;
    int64_t a_stride;
    const void *b;
    int64_t b_stride;
    float *sum;
    int64_t sum_stride;
    void *stream;
} shingle_rows;

typedef int (*shingle_compute)(void *context, const shingle_rows *rows);

/* How to choose a plan.  All zero is the default of every field. */
struct shingle_plan_options {
    const char *strategy;   /* force one: "ring" or "ring{sub=2}"; default: SHINGLE_STRATEGY, else
                             * choose.  Where it is measured, its best predicted knobs and the
                             * serial plan are timed, and the fastest of its own is taken */
    int measure;            /* time this many of the best predicted plans, and the serial one, and
                             * take the fastest; 0: as CHOOSE and LEVEL say.  The first rank that
                             * asks runs all ranks: SHINGLE_EINVAL if other runs do not end within a
                             * second.  If one of its own fails, the group has: shingle_recover */
    double measure_seconds; /* limit of that; default: the level's */
    const char *choose;     /* "static" (a rule; its choice and the serial plan are simulated),
                             * "predict" (all are), or "measure": the default with MEASURE or LEVEL,
                             * which go with no other; else "predict".  A rule takes no STRATEGY */
    const char *level; /* of measuring: "estimate" (predict after all), "measure" (3 plans, 5 s:
                             * the default), "patient" (8 plans, 20 s), "exhaustive" (all, 120 s) */
    shingle_compute compute; /* of a problem with call=, which needs it; it is not timed */
    void *compute_context;
    /* Not 0: only plans that make every element of C in the one order that all reproducible
     * plans have: a row has the same bits in every strategy, tile shape and m
     * (docs/reproducible.md).  Others, such as the vendor's product, are declined. */
    int reproducible;
};

/* Tensors of a run, for what shingle_run cannot say.  Strides are in elements between rows; 0 means
 * dense.  BIAS holds n values of the problem's type and must be given if the problem has a bias.
 *
 * With "b=N1,N2,...": B and C hold N1; more_b[0] and more_c[0] hold N2; more_b[1] N3; and so on.  B
 * number j is Nj x k, C number j has Nj columns.  The bias is one vector for all, first those of
 * the first C.  What is only read may lie anywhere; what is stored to lies over nothing else.
 *
 * With "return_a": all rows of A that this rank multiplies, own and arrived, in the order of the
 * product's rows (shingle_shape.returned_rows x k) are stored to RETURNED_A, which is the caller's
 * as C is.
 *
 * With "norm": RESIDUAL is shaped as C, read and stored; GAIN has n values, the same on all ranks.
 *
 * SHINGLE_EINVAL names what is missing, too narrow or misaligned, what is given though the problem
 * has none (a stride alone is ignored), and what lies over something that this rank stores to.
 * That must not lie over tensors of other ranks either, and nobody notices if it does. */
typedef struct shingle_tensors {
    const void *a;
    const void *b;
    const void *bias;
    void *c;
    int64_t a_stride, b_stride, c_stride;
    const void *more_b[SHINGLE_MOST_B - 1];
    void *more_c[SHINGLE_MOST_B - 1];
    int64_t more_b_stride[SHINGLE_MOST_B - 1], more_c_stride[SHINGLE_MOST_B - 1];
    void *returned_a;
    int64_t returned_a_stride;
    void *residual;
    int64_t residual_stride;
    const void *gain;
} shingle_tensors;

SHINGLE_API shingle_status shingle_run_tensors(shingle_plan *plan, const shingle_tensors *tensors,
                                               void *stream);

/* Waits for the runs that PLAN's rank has enqueued, at most twice the group's time limit and a
 * second.  What runs that go on for longer need of PLAN is freed with the group.  Takes NULL. */
SHINGLE_API void shingle_plan_free(shingle_plan *plan);

/* Memory that peers of COMM may store into.  Outputs of GEMM_AR that live in it are never copied.
 * On the CPU backend any memory qualifies.  It is zeroed and aligned to 64 bytes at least.  Free
 * it (or NULL) when no run uses it any more and before shingle_close, which does not. */
SHINGLE_API shingle_status shingle_alloc(shingle_comm *comm, size_t bytes, void **memory_out);
SHINGLE_API void shingle_free(shingle_comm *comm, void *memory);

/* Copies BYTES, which both must have, between the caller's memory and what shingle_alloc gave COMM,
 * wherever that is: shingle_write TO that memory FROM the caller's, shingle_read the other way
 * round.  Waits, but is in no order with runs: call it before they start or after shingle_sync. */
SHINGLE_API shingle_status shingle_write(shingle_comm *comm, void *to, const void *from,
                                         size_t bytes);
SHINGLE_API shingle_status shingle_read(shingle_comm *comm, void *to, const void *from,
                                        size_t bytes);

/* After a failed run: makes the group usable again.  Collective: every rank calls it, none returns
 * before all have; fails with SHINGLE_ETIMEOUT if one does not come.  A thread that drives all
 * ranks calls it with SECONDS 0 for each: all calls but the last return SHINGLE_ETIMEOUT, and count
 * as come, until they run again; the last rank's recovers the group and returns SHINGLE_OK.  It
 * waits until work under way has let go, at most SECONDS or the time limit, if that is more. */
SHINGLE_API shingle_status shingle_recover(shingle_comm *comm, double seconds);

/* Text of a plan: problem, strategy, knobs and hash.  Any library of the same version makes the
 * same plan of it.  Valid as long as the plan. */
SHINGLE_API const char *shingle_plan_text(const shingle_plan *plan);

/* One line: what was chosen and why. */
SHINGLE_API const char *shingle_plan_reason(const shingle_plan *plan);

/* What was considered for a plan.  Texts are valid as long as the plan. */
typedef struct shingle_candidate {
    const char *strategy; /* name{knob=value} or a name alone if it declined */
    const char *declined; /* reason, or what went wrong when it was timed; NULL: it applies */
    double predicted_us;  /* slowest rank's time; 0: not known, as of what declined */
    double measured_us;   /* 0 if not measured */
    int chosen;
} shingle_candidate;

SHINGLE_API int shingle_plan_candidates(const shingle_plan *plan);
SHINGLE_API shingle_status shingle_plan_candidate(const shingle_plan *plan, int index,
                                                  shingle_candidate *candidate_out);

/* Times plans of PROBLEM on COMM's group, whatever is known of it already, and keeps the fastest:
 * plans of this problem that the group makes from then on are that one unless they are asked for
 * otherwise, and so are those of groups that open the file of tuned plans, if this group has one.
 * Nearby m follow it where it is predicted to be no slower than not overlapping.  OPTIONS says how
 * much is timed; its CHOOSE is ignored, and with a STRATEGY what turns out slower than not
 * overlapping is an error.  What fails loses; if not overlapping fails, nothing is left or a result
 * is wrong, that is an error.  Runs all ranks, so no other runs may be in flight (as with MEASURE),
 * and one rank calls it.  PLAN_OUT (may be NULL) gets the plan, with candidates; it never runs. */
SHINGLE_API shingle_status shingle_tune(shingle_comm *comm, const char *problem,
                                        const shingle_plan_options *options,
                                        shingle_plan **plan_out);

/* ---- Tier 3: machines, proofs, benchmarks ---------------------------------------------------- */

/* Files that have names (docs/machine.md says where they are looked for); the command reads all. */
typedef enum shingle_files { SHINGLE_MACHINES, SHINGLE_MODELS, SHINGLE_SUITES } shingle_files;

/* Stores the path of what NAME stands for; SHINGLE_EINVAL if it is longer than SIZE, with its zero.
 * Where nothing is SHINGLE_EIO lists what there is. */
SHINGLE_API shingle_status shingle_file_find(shingle_files of, const char *name, char *path,
                                             size_t size);

typedef struct shingle_machine shingle_machine;

/* Reads a machine file, given as in shingle_config.  Errors name file, line and column. */
SHINGLE_API shingle_status shingle_machine_load(const char *path, shingle_machine **machine_out);
SHINGLE_API void shingle_machine_free(shingle_machine *machine);
SHINGLE_API const char *shingle_machine_text(const shingle_machine *machine);

/* The machine that COMM's plans of bf16 are made for; where it was measured, rates of other types
 * may differ.  Belongs to the comm. */
SHINGLE_API const shingle_machine *shingle_comm_machine(const shingle_comm *comm);

/* What COMM runs on, as far as its backend knows: otherwise texts are "" and numbers 0. */
typedef struct shingle_device {
    char name[96];            /* "NVIDIA H200, 132 SMs" */
    char software[160];       /* "driver 580.159.04, CUDA 13.0, cuBLASLt 13.1, NCCL 2.28.3" */
    double mhz, most_mhz;     /* of its processors: now, and at most */
    double watts, most_watts; /* now, and the limit */
    int ranks; /* that share a device, 0: not known.  With more than one, times say nothing */
} shingle_device;

SHINGLE_API shingle_status shingle_comm_device(const shingle_comm *comm,
                                               shingle_device *device_out);

/* Measures the machine that a whole group runs on: times small products of many kinds, in turns,
 * finds the numbers that predict them, and makes a machine whose text says how each was found. */
typedef struct shingle_calibrate_options { /* all zero is the default of every field */
    double seconds; /* limit; default 60.  SHINGLE_ETIMEOUT if it is too short */
    void (*progress)(void *context, int done, int count); /* from the calling thread */
    /* Told of every PLAN that was timed (shingle_plan_text): its median, or its collectives'. */
    void (*measured)(void *context, const char *plan, int collectives, double us);
    void *context;
    int windows; /* 1: collectives in NCCL's, too (docs/machine.md); default 0 */
} shingle_calibrate_options;

SHINGLE_API shingle_status shingle_calibrate(int ranks, shingle_comm *const *comm,
                                             const shingle_calibrate_options *options,
                                             shingle_machine **machine_out);

/* Plans for MACHINE without running anything (1 to 1024 ranks).  The plan cannot be run.  NULL
 * stands for a machine of round numbers that any number of ranks fits, for proofs and examples. */
SHINGLE_API shingle_status shingle_plan_for(const char *problem, const shingle_machine *machine,
                                            const shingle_plan_options *options,
                                            shingle_plan **plan_out);

/* Makes the plan again that shingle_plan_text printed.  The plan cannot be run; force its strategy
 * in shingle_plan_create for that. */
SHINGLE_API shingle_status shingle_plan_parse(const char *text, shingle_plan **plan_out);

/* Writes the schedule of RANK as text, a step or patch a line, as much as fits into SIZE bytes with
 * the final zero; returns the length of all of it, or -1 if RANK is not one of the plan's. */
SHINGLE_API int64_t shingle_plan_schedule(const shingle_plan *plan, int rank, char *text,
                                          size_t size);

/* What a plan costs on a machine by simulation, in the terms of a benchmark's result. */
typedef struct shingle_simulation { /* times in microseconds, of the slowest rank */
    double gemm_us;                 /* the product alone */
    double coll_us;                 /* the collective alone */
    double serial_us;               /* one after the other */
    double overlapped_us;           /* this plan */
    double hidden;                  /* (gemm + coll - overlapped) / min(gemm, coll) */
    double speedup;                 /* serial / overlapped */
    double efficiency;              /* max(gemm, coll) / overlapped */

    /* Where overlapped_us goes: product_us and these add up to it.  Each is the difference between
     * two simulations, one of which leaves something out; it may come out slightly negative. */
    double product_us;       /* the whole product, undivided, on all SMs */
    double decomposition_us; /* cutting it up: partial waves, smaller tiles, SMs held back, sums */
    double exposed_us;       /* bytes on links where no product hides them */
    double contention_us;    /* products and communication slow each other down */
    double latency_us;       /* launches, flags, floors of copies and collectives, run protocol */
    double comm_us;          /* its communication alone; not one of the parts */
    int64_t steps;           /* of the simulation */
} shingle_simulation;

/* MACHINE: as in shingle_plan_for. */
SHINGLE_API shingle_status shingle_plan_simulate(const shingle_plan *plan,
                                                 const shingle_machine *machine,
                                                 shingle_simulation *simulation_out);

/* Proves a plan: no deadlock, no race, every element right exactly once, the run protocol kept, and
 * MACHINE's SMs not overdrawn (docs/check.md); without a machine (NULL) that last part is left out.
 * SHINGLE_EBUG and shingle_error() name the first violation: rank, step, visit, region. */
SHINGLE_API shingle_status shingle_plan_check(const shingle_plan *plan,
                                              const shingle_machine *machine);

/* Proves COUNT random triples of problem, strategy and knobs; the report alone tells what fails. */
typedef struct shingle_check_options {
    int64_t count;
    uint64_t seed;
    int max_ranks;                                                /* default 64, which is most */
    int threads;                                                  /* default: cores */
    void (*progress)(void *context, int64_t done, int64_t count); /* from the calling thread */
    void *context;
} shingle_check_options;

typedef struct shingle_check_report {
    int64_t checked;    /* triples proved or refuted */
    int64_t violations; /* of these refuted */
    int64_t visits;     /* visits of tiles in all schedules */
    double seconds;
    char first[512]; /* plan text and violation of the first refuted one, "" if none */
} shingle_check_report;

SHINGLE_API shingle_status shingle_check_random(const shingle_check_options *options,
                                                shingle_check_report *report_out);

/* Times plans of a problem on a whole group, in turns: product and collective alone, one after the
 * other, the chosen plan and, if asked for, the best of every strategy.  Every element of their
 * results is compared, bit for bit, with what it must be.  A group that fails is recovered. */
typedef struct shingle_bench_row {
    char strategy[96];  /* with its best knobs; a name alone if it declined */
    char declined[160]; /* reason, or what went wrong; "": it was timed */
    double us, predicted_us;
    double enqueue_us; /* of the host, for one shingle_run */
    int64_t wrong;     /* elements; a plan with any is not timed */
} shingle_bench_row;

typedef struct shingle_bench_options {
    const char *strategy; /* default: what the planner chooses */
    int measure;          /* this and the next three: as in shingle_plan_options */
    const char *choose, *level;
    double measure_seconds;
    int iterations; /* timed runs of each kind, at most; default 5, with SECONDS 1000 */
    int warmup;     /* runs before; default 1, -1: none */
    /* 0: exactly ITERATIONS runs of each kind.  Otherwise a limit of it all, choosing included:
     * runs of each kind are timed while it lasts, at least three and at most ITERATIONS (all of
     * them if these are fewer than three). */
    double seconds;
    uint64_t seed; /* of the data */
    /* Room for two: gets what was predicted, then a run that took about the median, recorded after
     * the timed ones and not between shingle_timeline_start and _stop.  NULL: none are made. */
    struct shingle_timeline **timelines_out;
    int reproducible; /* as in shingle_plan_options; the serial plan is timed in any case */
    /* Others to time beside: "all" but not overlapping, or names with commas.  Of each the
     * KNOB_SETS (default 3) best predicted are timed briefly.  ROWS_OUT has room for ROWS. */
    const char *strategies;
    int knob_sets;
    shingle_bench_row *rows_out;
    int rows;
} shingle_bench_options;

typedef struct shingle_bench_result { /* times: median over iterations of the slowest rank */
    char strategy[96];
    double gemm_us;       /* the product alone; 0, as the next two: not known */
    double coll_us;       /* the collective alone */
    double serial_us;     /* one after the other; 0: the group has no collectives */
    double overlapped_us; /* this strategy */
    double predicted_us;
    double hidden;       /* (gemm + coll - overlapped) / min(gemm, coll) */
    double speedup;      /* serial / overlapped; 0: not known */
    double efficiency;   /* max(gemm, coll) / overlapped */
    int64_t wrong;       /* wrong elements, all ranks, all runs */
    double enqueue_us;   /* of the host: one shingle_run of one rank, median */
    char prediction[96]; /* what would have been chosen without timing, and how long it takes */
    double prediction_us;
    double mhz;     /* of the slowest device while it was timed, median; 0: not known */
    int iterations; /* timed runs of each kind */
    int checks;     /* runs of each plan whose result was compared, at least */
    int on_device;  /* results were compared where they are, not by the host */
    int rows;       /* that ROWS_OUT has got */
    double seconds; /* that all of it took */
} shingle_bench_result;

SHINGLE_API shingle_status shingle_bench(int ranks, shingle_comm *const *comm, const char *problem,
                                         const shingle_bench_options *options,
                                         shingle_bench_result *result_out);

/* What every rank of a plan does and when: predicted for a machine, or measured. */
typedef struct shingle_timeline shingle_timeline;

/* Predicts PLAN on MACHINE (NULL: round numbers).  Of more than 64 ranks a sample is shown. */
SHINGLE_API shingle_status shingle_timeline_predict(const shingle_plan *plan,
                                                    const shingle_machine *machine,
                                                    shingle_timeline **timeline_out);

/* Records the next run of PLAN (any rank's) on every rank of a group; no other run is recorded.
 * SPANS: room for so many of all ranks together, 0 for what the plan needs; what finds no room is
 * counted, and stop adds the waits.  Between the two calls nothing is allocated.  Before the run
 * has ended, stop says SHINGLE_EINVAL and recording goes on; TIMELINE_OUT NULL ends it. */
SHINGLE_API shingle_status shingle_timeline_start(int ranks, shingle_comm *const *comm,
                                                  const shingle_plan *plan, int64_t spans);
SHINGLE_API shingle_status shingle_timeline_stop(int ranks, shingle_comm *const *comm,
                                                 shingle_timeline **timeline_out);
SHINGLE_API void shingle_timeline_free(shingle_timeline *timeline);

/* Texts are valid as long as the timeline. */
typedef struct shingle_timeline_facts {
    const char *plan, *strategy, *machine;
    int measured; /* or predicted */
    int ranks, ranks_shown;
    double us;                          /* of the slowest rank */
    double gemm_us, coll_us, serial_us; /* each alone, and one after the other; 0: not known */
    double exposed_us;                  /* a rank stands still for so long, on average */
    int64_t spans, lost;
} shingle_timeline_facts;

SHINGLE_API shingle_status shingle_timeline_about(const shingle_timeline *timeline,
                                                  shingle_timeline_facts *facts_out);

/* Span INDEX from 0, by rank, track and begin.  Spans of one track may overlap. */
typedef struct shingle_span {
    int rank;
    const char *track; /* "compute", "link", "collective" */
    const char *does;  /* "product", "sum", "copy", "send", "store", "collective", "wait" */
    int owner;         /* whose rows, -1: several ranks', or no rows */
    int peer;          /* who gets them, or is waited for; -1: nobody, or all */
    int step;          /* of the schedule (shingle_plan_schedule); -1: none */
    int64_t bytes;     /* that left the rank */
    double begin_us, end_us;
} shingle_span;

SHINGLE_API shingle_status shingle_timeline_span(const shingle_timeline *timeline, int64_t index,
                                                 shingle_span *span_out);

typedef enum shingle_picture {
    SHINGLE_SVG,  /* to look at: one picture, timelines below each other on one scale of time */
    SHINGLE_TRACE /* to explore: Chrome's trace format, which ui.perfetto.dev opens */
} shingle_picture;

/* Writes COUNT timelines (1 to 64: predicted and measured, or of each strategy) as text, as much as
 * fits into SIZE bytes with the final zero; returns the length of it all, or -1 after an error. */
SHINGLE_API int64_t shingle_timeline_text(const shingle_timeline *const *timeline, int count,
                                          shingle_picture picture, char *text, size_t size);

/* The same into a file, a name in front of .svg or .json.  It appears when it is complete. */
SHINGLE_API shingle_status shingle_timeline_write(const shingle_timeline *const *timeline,
                                                  int count, const char *path);

/* Shapes of a problem: how many rows of A and C rank RANK holds. */
typedef struct shingle_shape {
    char op[16], type[8];
    int ranks;
    int64_t m, n, k;
    int64_t a_rows, c_rows; /* of RANK */
    int64_t a_cols, b_rows; /* of RANK: k and n, unless these are what is gathered */
    int64_t element_bytes;
    int has_bias;
    int64_t returned_rows;          /* with return_a: of RANK, of k values each; otherwise 0 */
    int b_count;                    /* B and C matrices */
    int64_t b_cols[SHINGLE_MOST_B]; /* rows of each B, and columns of each C; together n */
    int has_norm;                   /* a residual of C's shape, and a gain of n values */
    double epsilon;                 /* of the norm */
    char act[8];                    /* "relu", "gelu", "silu", or "" */
    char gather;     /* what ag_gemm gathers: 'a', 'b', or 'k' of both; otherwise 0 */
    int accumulates; /* C += product */
    int is_call;     /* a function of the caller's computes the product */
} shingle_shape;

SHINGLE_API shingle_status shingle_problem_shape(const char *problem, int rank,
                                                 shingle_shape *shape_out);

/* What the library was built with.  INDEX counts from 0; NULL past the end. */
SHINGLE_API const char *shingle_version(void);
SHINGLE_API const char *shingle_strategy_name(int index);
SHINGLE_API const char *shingle_strategy_brief(int index);
SHINGLE_API const char *shingle_backend_name(int index);
SHINGLE_API const char *shingle_backend_brief(int index);

/* Environment variables, one per INDEX from 0: name, default, meaning, value set or NULL.
 * SHINGLE_EINVAL past the end. */
typedef struct shingle_env_entry {
    const char *name, *fallback, *meaning, *value;
} shingle_env_entry;

SHINGLE_API shingle_status shingle_env(int index, shingle_env_entry *entry_out);

#ifdef __cplusplus
}
#endif
#endif
