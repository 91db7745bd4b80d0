/* cpu.h -- the CPU backend inside: what its files share.
 *
 *     cpu.c      the table: open, bind, begin .. end, sync, recover
 *     pool.c     workers: find ready work, carry it out, sleep; time-outs and failure
 *     bind.c     a plan's lists, staging and packed B
 *     lane.c     one rank's run: which step is next, what is ready, what is done
 *     visit.c    a tile (or piece of a sum): multiply, add, convert, store
 *     link.c     one thread a rank: copies, stores and flags at the machine's rates
 *     coll.c     library collectives, each rank's part moved by its link
 *     rates.c    what this machine reaches, and the scale model
 *     trace.c    what a record is told, while there is one
 *
 * Ranks are data.  A worker never blocks in a visit: what is not ready is left in its rank's list
 * with slab, accumulators and all, and the worker takes something else.
 *
 * One mutex guards every field here unless its comment says otherwise.  The words of the run
 * protocol are atomics all the same and carry all ordering that the protocol needs: processes and
 * GPUs have no such mutex.
 */
#ifndef SG_CPU_H
#define SG_CPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/cpu/tile.h"
#include "core/exec.h"
#include "core/record.h"

enum { SG_CPU_RUNS = 16 }; /* of a rank that may wait */

struct sg_cpu;

/* Rates of a link for one type, bytes per microsecond; 0: not held back. */
typedef struct sg_rates {
    double copy_us, copy_rate;
    double store_us, store_rate;
    double coll_us, coll_rate;
    double flag_us;
} sg_rates;

/* ---- A bound plan ---------------------------------------------------------------------------- */

/* A unit of work that a worker carries out: a visit of a launch, a piece of a vendor's product, of
 * a sum or of a copy.  Parked units keep their state here; workers own it while it runs. */
typedef struct sg_cpu_visit {
    enum { SG_VISIT_FREE, SG_VISIT_PARKED, SG_VISIT_RUNNING } state;
    int32_t step, unit;
    sg_visit visit;
    double weight; /* of the rank's progress */

    sg_access *list; /* what it does, in order; the next thing is list[at] */
    int32_t count, at;

    float *room[2]; /* accumulators of its own */
    float *acc;     /* own product: room[0], or the output itself */
    int64_t acc_stride;
    float *sum; /* sum so far: acc, or room[1] while addends come before the own product */
    int64_t sum_stride;
    bool direct, multiplied, summed, finished;
    int32_t added;
    const void *bias;
    sg_place residual; /* of a visit that norms */
    const void *gain;
    int32_t slot;             /* staging that holds the finished tile; -1 */
    int refused;              /* what a user's function returned, if not 0 */
    _Atomic double called_us; /* when it was called; 0: it is not at work.  Without the mutex */
    bool queued;              /* the link finishes it */
    sg_stuck stuck;
} sg_cpu_visit;

/* A step in the active run. */
typedef struct sg_cpu_step {
    enum { SG_STEP_IDLE, SG_STEP_OPEN, SG_STEP_ENDED } state;
    bool linked;             /* the link carries it out, not a worker */
    int32_t units;           /* of work */
    int32_t next;            /* unit that is handed out next */
    int32_t left;            /* units that have not ended */
    int32_t patch, in_patch; /* where `next` is, for launches */
    sg_split split;          /* pieces of vendor launches, sums and copies */
    double weight;           /* of all units together */
} sg_cpu_step;

typedef struct sg_cpu_plan {
    sg_cpu_step *step;
    int32_t *order;                  /* steps by lane */
    int32_t first[SG_MAX_LANES + 1]; /* lane l has order[first[l] .. first[l + 1]) */
    sg_cpu_visit *visit;
    int visits;
    int32_t list_room;
    double weight; /* of all steps */
    bool multiplies;
    sg_pack *pack; /* packed B, shared by the rank's plans */

    /* What is multiplied by: the user's B, then every part of a gathered B that arrives as one. */
    sg_pack_source *source;
    sg_area *source_area;
    int32_t sources, source_room;
    int32_t *source_of; /* per patch; -1: its visits pack what they read for themselves */

    uint8_t *staging; /* tiles on their way to peers: slots x slot_bytes */
    int64_t slot_bytes;
    int32_t slots;
    uint8_t *slot_used;
    int64_t posts;  /* flags that peers see later: at most this many at once */
    int64_t stores; /* tiles that may be on their way to peers at once */
} sg_cpu_plan;

/* ---- A link ---------------------------------------------------------------------------------- */

/* A copy or a rank's part of a collective. */
typedef struct sg_move {
    int32_t step;
    int32_t coll; /* index into cpu->coll, -1 for a copy */
    int32_t to;   /* destination at hand */
    bool started;
    double ready_us, next_us;
    double from_us;      /* when this destination was begun, before its latency */
    int64_t done, total; /* bytes of this destination; elements of a collective */
} sg_move;

/* A tile on its way to a peer. */
typedef struct sg_store {
    sg_place to;
    int64_t rows, row_bytes;
    int32_t slot;
    bool frees; /* the slot's last use */
    bool last;  /* the unit's last store: behind it come its flags */
    int16_t peer;
    int32_t step;
    sg_visit visit;
    double weight;
    double ready_us;
} sg_store;

/* Behind the last store of a unit, or a flag that a peer sees later. */
typedef struct sg_due {
    double at_us;
    int32_t step; /* of a unit whose stores have arrived, or -1: a flag */
    sg_visit visit;
    double weight;
    int32_t peer, flag;
} sg_due;

typedef struct sg_ring {
    int32_t head, count, room;
} sg_ring;

typedef struct sg_link {
    struct sg_cpu *cpu;
    int rank;
    pthread_t thread;
    bool started;
    pthread_cond_t wake;

    double free_us;   /* until when bytes already sent occupy it */
    double engine_us; /* until when the copy engine is busy */
    int engine_peer;  /* to whom it copied last, -1 */
    sg_move move[SG_MAX_LANES];
    sg_ring moves;
    sg_store *store;
    sg_ring stores;
    sg_due *arrival; /* in order of time */
    sg_ring arrivals;
    sg_due *post; /* in order of time */
    sg_ring posts;

    enum { SG_AIR_NOTHING, SG_AIR_MOVE, SG_AIR_STORE } air; /* piece on its way */
    double land_us;
    double sent_us;    /* when it set off */
    double sent_bytes; /* how much, and to whom; -1: all */
    int sent_to;
    int64_t piece;     /* of a move */
    bool busy;         /* copies bytes, without the mutex */
    bool prefer_store; /* copies and stores take turns */
    sg_random random;  /* of test delays */
} sg_link;

/* ---- Ranks and workers ----------------------------------------------------------------------- */

typedef struct sg_cpu_rank {
    int rank;
    sg_run run[SG_CPU_RUNS]; /* run[first .. first + runs) wait or are active */
    int first, runs;
    bool active; /* run[first] has begun */
    int32_t lane_at[SG_MAX_LANES];
    int32_t running; /* units that workers carry out */
    int32_t linked;  /* units and copies that the link has */
    double progress; /* runs ended, and how much of this one */
    uint64_t begun;  /* epoch of the last run that began; 0: none */
    sg_stuck stuck;  /* of the last look */
    sg_pack *pack;   /* the one that new plans get */
    sg_link link;

    int64_t begun_units; /* test: visits, copies, collectives and flag steps so far */
    int64_t stop_after;  /* test: units until the rank stops; negative: never */
    bool stopped;
} sg_cpu_rank;

/* An open collective. */
typedef struct sg_cpu_coll {
    bool open;
    uint64_t epoch;
    int32_t seq;
    int came, left;
    bool here[SG_LOCAL_RANKS];
    int32_t step[SG_LOCAL_RANKS];
} sg_cpu_coll;

typedef struct sg_cpu_worker {
    struct sg_cpu *cpu;
    pthread_t thread;
    bool started;
    sg_tile_scratch *scratch;
    int rank;         /* it worked for last */
    sg_random random; /* of test delays */
} sg_cpu_worker;

typedef struct sg_cpu {
    int ranks, threads;
    double timeout_us;
    pthread_mutex_t mutex;
    pthread_cond_t work; /* something may have become ready */
    pthread_cond_t idle; /* a run has ended, or the group has failed and drained */
    sg_cpu_rank *rank;
    sg_cpu_worker *worker;
    int sleepers;
    bool stop, closed;
    _Static_assert(SG_LOCAL_RANKS <= 64, "a bit each");
    uint64_t look; /* ranks (1 << rank) whose lanes may go on: something they wait for has come */

    bool held; /* links are held back */
    sg_rates rates[SG_TYPES];
    sg_machine machine[SG_TYPES];
    double *links_us; /* of a scale model: until when each of its links (links.h) is taken */

    sg_cpu_coll *coll; /* one for each lane of each rank, whose ranks may all wait apart */
    int32_t colls;
    double progress_us;   /* when anything last made progress */
    bool failed, drained; /* drained: and nothing touches any run's memory */
    sg_verdict verdict;

    sg_pack **pack; /* all there are: plans keep the one they were bound with */
    int32_t packs, pack_room;

    sg_record *record; /* the caller's; NULL: nothing is recorded */

    double delay_us; /* test: longest random delay; set while nothing runs */
} sg_cpu;

/* pool.c.  Everything but start, stop and the delay is called with the mutex held. */
shingle_status sg_pool_start(sg_cpu *cpu);
void sg_pool_stop(sg_cpu *cpu);
void sg_pool_wake(sg_cpu *cpu);
void sg_pool_progress(sg_cpu *cpu);
void sg_pool_fail(sg_cpu *cpu, const sg_verdict *verdict);
void sg_pool_settle(sg_cpu *cpu); /* after a failure: has everybody let go? */
void sg_pool_mismatch(sg_cpu *cpu, int rank, int peer);
void sg_pool_refused(sg_cpu *cpu, sg_cpu_rank *rank, const sg_cpu_visit *v);
double sg_pool_judge_calls(sg_cpu *cpu); /* when to do so again; DBL_MAX: no run calls anybody */
void sg_pool_name_call(sg_cpu *cpu, sg_text *text); /* ": ..." if a user's function is at work */
void sg_pool_delay(sg_cpu *cpu, sg_random *random); /* test; without the mutex */

/* bind.c.  Without the mutex, one thread at a time; free also takes half-made plans. */
shingle_status sg_bind_make(sg_cpu *cpu, sg_bound *bound);
void sg_bind_free(sg_cpu_plan *plan);

/* lane.c.  With the mutex held. */
sg_cpu_visit *sg_lane_offer(sg_cpu *cpu, sg_cpu_rank *rank); /* NULL: nothing is ready */
void sg_lane_done(sg_cpu *cpu, sg_cpu_rank *rank, int32_t step, const sg_visit *visit,
                  double weight, bool stored); /* STORED: its raises have travelled already */
void sg_lane_advance(sg_cpu *cpu);             /* begins what needs no worker */
void sg_lane_drop(sg_cpu_rank *rank);          /* parked units are forgotten */
bool sg_lane_is_linked(int rank, const sg_sched *s, int32_t step); /* the link carries it out */

/* Work that a visit is, in arbitrary units that are the same for all visits of a plan. */
double sg_lane_weight(const sg_sched *s, int32_t step, const sg_visit *visit);

static inline sg_run *sg_lane_run(sg_cpu_rank *rank)
{
    return &rank->run[rank->first];
}

static inline sg_cpu_plan *sg_lane_plan(sg_cpu_rank *rank)
{
    return rank->run[rank->first].bound->backend;
}

/* visit.c.  Without the mutex.  True: done (or the link has the rest); false: parked, or refused by
 * the user's function. */
bool sg_visit_carry_out(sg_cpu_worker *worker, sg_cpu_rank *rank, sg_cpu_visit *visit);
bool sg_visit_is_ready(sg_cpu_rank *rank, sg_cpu_visit *visit); /* with the mutex */

/* link.c.  With the mutex held, except start and stop. */
shingle_status sg_link_start(sg_cpu *cpu, sg_link *link, int rank);
void sg_link_stop(sg_link *link);
shingle_status sg_link_reserve(sg_link *link, const sg_cpu_plan *plan);
void sg_link_copy(sg_link *link, int32_t step);
void sg_link_coll(sg_link *link, int32_t step, int32_t coll, int64_t elements);
void sg_link_store(sg_link *link, const sg_store *store);
void sg_link_post(sg_link *link, int peer, int32_t flag);
void sg_link_watch(sg_link *link); /* a run that calls a user's function has begun */
void sg_link_drop(sg_link *link);
bool sg_link_is_idle(const sg_link *link);

/* coll.c.  arrive with the mutex, move without. */
void sg_coll_arrive(sg_cpu *cpu, sg_cpu_rank *rank, int32_t step);
bool sg_coll_missing(const sg_cpu *cpu, const sg_cpu_rank *rank, int32_t step, sg_stuck *stuck);
double sg_coll_bytes(const sg_cpu *cpu, int rank, int32_t coll); /* on the bus */
void sg_coll_move(sg_cpu *cpu, int rank, int32_t coll, int64_t from, int64_t to);
void sg_coll_part_done(sg_cpu *cpu, int32_t coll);

/* trace.c.  With the mutex held.  Each does nothing unless a record of this run is made. */
bool sg_trace_is_on(const sg_cpu *cpu, sg_cpu_rank *rank);
void sg_trace_begin(sg_cpu *cpu, sg_cpu_rank *rank);
void sg_trace_end(sg_cpu *cpu, sg_cpu_rank *rank);
void sg_trace_unit(sg_cpu *cpu, sg_cpu_rank *rank, const sg_cpu_visit *v, double begin_us);
void sg_trace_piece(const sg_link *link, int32_t step, const sg_visit *visit); /* it has landed */

/* rates.c.  After start.  Makes links_us, which close frees. */
shingle_status sg_rates_measure(sg_cpu *cpu, const sg_backend *backend,
                                const sg_backend_config *config);

#endif
