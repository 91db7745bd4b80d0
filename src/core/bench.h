/* bench.h -- the one timing loop of the project: runs plans on a whole group with exact data of its
 * own, times the slowest rank and compares every element of the result.
 *
 * It drives the comms of all ranks from the calling thread, so nobody else
 * may use the group meanwhile. */
#ifndef SG_BENCH_H
#define SG_BENCH_H

#include "core/comm.h"

typedef struct sg_bench sg_bench;

/* Buffers for all ranks.  PROBLEM must outlive it. */
shingle_status sg_bench_open(sg_group *group, const sg_problem *problem, uint64_t seed,
                             sg_bench **bench_out);
void sg_bench_close(sg_bench *bench); /* takes NULL */

/* On a backend whose memory is not the host's, and which times by itself (backend.h), results are
 * compared in the first whole runs of a plan, and what is timed works on normally distributed data
 * in buffers that take turns. */

/* How such a backend times: a run by itself behind a rest, as in the middle of a model whose GPUs
 * also do other things; runs back to back for about 5 ms, as the start of a run is a part of a
 * short one; or both, and the better counts, which for long enough runs are always those by
 * themselves: back to back they meet the power limit.  Runs of 2 ms have no second way. */
typedef enum sg_timing { SG_TIMING_BETTER, SG_TIMING_ONE, SG_TIMING_MANY } sg_timing;

/* Runs PLAN (it stays data: the ranks run copies, bound at the first run and kept until close) once
 * on all ranks.  KINDS: ~0u for a whole run, on new data, whose result is compared; otherwise a
 * mask of 1u << sg_kind, timed alone.  US_OUT: from the first rank's start to the last one's
 * end. */
shingle_status sg_bench_run(sg_bench *bench, const shingle_plan *plan, unsigned kinds,
                            double *us_out);

/* The same, timed in one way.  MANY of a long run, or where the backend does not time: 0. */
shingle_status sg_bench_time(sg_bench *bench, const shingle_plan *plan, unsigned kinds,
                             sg_timing how, double *us_out);

/* Elements that were wrong in all runs so far; and in those of PLAN. */
int64_t sg_bench_wrong(const sg_bench *bench);
int64_t sg_bench_wrong_of(const sg_bench *bench, const shingle_plan *plan);

/* How many whole runs of each plan are compared, at least; and whether the backend does it. */
int sg_bench_checks(const sg_bench *bench);
bool sg_bench_on_device(const sg_bench *bench);

/* What the host took to enqueue a whole run of PLAN on one rank, median; 0: not known. */
double sg_bench_enqueue_us(const sg_bench *bench, const shingle_plan *plan);

/* A stopwatch of planner.h: CONTEXT is an sg_bench.  A wrong element is SHINGLE_EBUG. */
shingle_status sg_bench_watch(void *context, const shingle_plan *plan, double *us_out);
shingle_status sg_bench_mend(void *context);

#endif
