/* sim.h -- prices a plan on a machine: a discrete-event simulation of the very steps that backends
 * carry out, with the machine's times instead of data (docs/machine.md says what is modelled).  It
 * decodes steps through sched.h and walk.h alone.
 *
 * A simulator keeps its memory from call to call, so pricing many candidates allocates next to
 * nothing.  One thread at a time per simulator.
 */
#ifndef SG_SIM_H
#define SG_SIM_H

#include "core/machine.h"
#include "core/sched.h"

struct sg_strategy;
struct sg_knobs;

/* ---- What happens when ----------------------------------------------------------------------- */

typedef enum sg_span_kind {
    SG_SPAN_WORK,     /* visits of a launch, or a whole step, on the lane's SMs */
    SG_SPAN_WAIT,     /* the lane (all blocks of its launch) stands still */
    SG_SPAN_TRANSFER, /* bytes on their way from `rank` to `peer`, on its engine or from its SMs */
    SG_SPAN_COLL      /* a rank's part of a collective, from when all ranks have come */
} sg_span_kind;

/* What `rank` does from BEGIN to END.  WORK and WAIT inside a launch are told for groups
 * of its blocks, so spans of one lane may overlap; a WAIT without a patch is of the
 * whole lane, before its step. */
typedef struct sg_span {
    sg_span_kind kind;
    int rank, lane;
    int peer;      /* TRANSFER: to whom (the own rank: within memory); WAIT: for whom; or -1 */
    int32_t step;  /* -1: the run protocol */
    int32_t patch; /* of a launch, otherwise -1 */
    int32_t tile0,
        tiles;      /* visits of the patch, in its order (WORK, and TRANSFER of stored tiles) */
    int32_t blocks; /* SMs taken, 0: none */
    bool engine;    /* TRANSFER by the copy engine, otherwise by SMs */
    double bytes;   /* TRANSFER, COLL */
    double begin_us, end_us;
} sg_span;

/* Spans come in the order of the simulation, not sorted. */
typedef void (*sg_span_fn)(void *context, const sg_span *span);

/* ---- Simulating ------------------------------------------------------------------------------ */

/* All zero is the default of every field.  NULL stands for that, too. */
typedef struct sg_sim_options {
    bool parts;       /* also fill in the parts of the result: five simulations instead of one */
    bool every_rank;  /* sg_simulate_built: no mirroring */
    sg_span_fn visit; /* told of every span of every rank */
    void *context;
} sg_sim_options;

/* Time of the slowest rank in microseconds.  With `parts`, where it goes; the parts add up:
 *
 *     us = gemm_us + decomposition_us + exposed_us + contention_us + latency_us
 *
 * Each part is the difference between two simulations of the same steps, one of which leaves
 * something out, so a part may come out slightly negative. */
typedef struct sg_sim_result {
    double us;
    double gemm_us; /* the whole product alone, undivided, on all SMs (what `serial` runs) */
    double comm_us; /* the schedule's communication alone: products take no time */
    /* Cutting the product up: waves, rates of tiles, SMs held back, operands read again, sums and
     * local copies; communication costs nothing. */
    double decomposition_us;
    double exposed_us;    /* bytes on links, where no product hides them; no latencies */
    double contention_us; /* products and communication slow each other down */
    double latency_us;    /* launches, flags, floors of copies and collectives, run protocol */
    int ranks_simulated;  /* fewer than the problem's if the others are mirror images */
    int64_t events;       /* steps of the simulation, for whoever watches its cost */
} sg_sim_result;

typedef struct sg_simulator sg_simulator;

sg_simulator *sg_simulator_new(void);            /* NULL: no memory */
void sg_simulator_free(sg_simulator *simulator); /* takes NULL */

/* SCHED: sealed schedules of all RANKS ranks. */
shingle_status sg_simulate(sg_simulator *simulator, const sg_sched *sched, int ranks,
                           const sg_machine *machine, const sg_sim_options *options,
                           sg_sim_result *result_out);

/* Builds and seals what it needs by itself.  Ranks whose schedules are rotations of each other, on
 * a machine that looks the same from each of them, are simulated once with their traffic mirrored;
 * that they are is verified step by step for every rank.  Errors of building and sealing are passed
 * on (SHINGLE_EUNSUPPORTED: extents too large for these knobs). */
shingle_status sg_simulate_built(sg_simulator *simulator, const sg_problem *problem,
                                 const struct sg_strategy *strategy, const struct sg_knobs *knobs,
                                 const sg_machine *machine, const sg_sim_options *options,
                                 sg_sim_result *result_out);

/* The same for who has no simulator: the time alone, and with spans. */
shingle_status sg_sim_us(const sg_sched *sched, int ranks, const sg_machine *machine,
                         double *us_out);
shingle_status sg_sim_spans(const sg_sched *sched, int ranks, const sg_machine *machine,
                            sg_span_fn visit, void *context, double *us_out);

/* What the collective of STEP in S takes alone, from when all ranks have come, start and all. */
double sg_sim_coll_us(const sg_machine *machine, const sg_sched *s, const sg_step *step);

#endif
