/* recording.h -- a group's record of one run, from shingle_timeline_start to stop. */
#ifndef SG_RECORDING_H
#define SG_RECORDING_H

#include "core/bench.h"
#include "core/timeline.h"

/* PLAN predicted for the group's machine, and a run of it by BENCH, recorded: of a few runs the one
 * that took about as long as RESULT says; RESULT counts their wrong elements, too.  The second is
 * NULL if the backend cannot record. */
shingle_status sg_recording_bench(sg_group *group, sg_bench *bench, const shingle_plan *plan,
                                  shingle_bench_result *result, shingle_timeline *timelines_out[2]);

/* Forgets what is being recorded; takes a group that records nothing. */
void sg_recording_drop(sg_group *group);

#endif
