/* run.h -- the run protocol (DESIGN.md section 3, docs/run.md): posts that never wait and questions
 * that never block.  Who asks them, and what it does meanwhile, is the backend's business.
 *
 *     begin   epoch and half are fixed; hello to all
 *     gate    every rank has ended the last run that used this half
 *     leave   a rank has begun this run, so its output may be stored to
 *     flag    raised in this run
 *     end     hellos agree; done to all; next epoch
 */
#ifndef SG_RUN_H
#define SG_RUN_H

#include "core/work.h"

/* One run of a bound plan by one rank. */
typedef struct sg_run {
    struct sg_bound *bound;
    sg_work *work;
    shingle_tensors tensors; /* strides are filled in */
    void *stream;            /* the caller's; NULL: the backend's own */
    unsigned kinds;          /* steps that are carried out: 1u << sg_kind */

    /* From begin on. */
    uint64_t epoch;
    int half;
} sg_run;

typedef enum sg_stuck_kind {
    SG_STUCK_NOT,
    SG_STUCK_GATE,
    SG_STUCK_LEAVE,
    SG_STUCK_FLAG,
    SG_STUCK_COLL, /* a collective that not all ranks have come to */
    SG_STUCK_LINK, /* a link that is behind */
    SG_STUCK_END
} sg_stuck_kind;

/* What a rank waits for. */
typedef struct sg_stuck {
    sg_stuck_kind kind;
    int by;              /* rank that is waited for */
    int32_t step, visit; /* -1: none */
    int32_t flag;
    uint64_t seen, wanted;
} sg_stuck;

void sg_run_begin(sg_run *run);

/* Each returns true, or false and what is missing (STUCK's step and visit are the caller's). */
bool sg_run_gate_ready(const sg_run *run, sg_stuck *stuck);
bool sg_run_leave_ready(const sg_run *run, int peer, sg_stuck *stuck);
bool sg_run_flags_ready(const sg_run *run, int by, struct sg_flags flags, sg_stuck *stuck);
bool sg_run_end_ready(const sg_run *run, sg_stuck *stuck);

/* Where PEER's output lies in this run; after leave. */
void sg_run_output_of(const sg_run *run, int peer, void **c_out, int64_t *stride_out);

/* One raiser of COUNTER has come: true if it is the last.  The counter is zero at rest. */
bool sg_run_count(const sg_run *run, int32_t counter);

/* Raises flag INDEX in the memory of AT. */
void sg_run_post(const sg_run *run, int at, int32_t index);

void sg_run_end(sg_run *run);

/* Has a rank whose hello of this run is here begun another plan? */
bool sg_run_mismatch(const sg_run *run, int *peer_out);

/* ---- Verdict: who is to blame, the same for all ranks ---------------------------------------- */

/* Where a rank stands when somebody's time is up. */
typedef struct sg_stand {
    uint64_t epoch;   /* of its last hello */
    bool running;     /* it has not ended that run */
    bool waiting;     /* all it could do waits for somebody */
    uint64_t hash;    /* of the plan it runs; 0 if none */
    const char *plan; /* text of that plan */
    sg_stuck stuck;
} sg_stand;

typedef struct sg_verdict {
    shingle_status status;
    char text[480];
} sg_verdict;

/* Ranks that run different plans; or else ranks whose hello of this run is missing; or else ranks
 * that are not themselves waiting. */
void sg_run_verdict(const sg_stand *stand, int ranks, double seconds, sg_verdict *verdict_out);

#endif
