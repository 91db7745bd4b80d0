/* cpu_test.h -- what tests do to a group of CPU ranks: delay it, stop a rank, start its epochs
 * anywhere, look at its memory.  Linkable from the static library, not part of the public
 * interface.  Calls are made while no run is in flight. */
#ifndef SG_CPU_TEST_H
#define SG_CPU_TEST_H

#include "core/work.h"

/* Delays one in 16 of all visits, raises, copies and stores by up to MOST_US. */
void sg_cpu_test_delays(shingle_comm *comm, uint64_t seed, double most_us);

/* Stops RANK once it has begun UNITS more visits, copies, collectives and flag steps: it then
 * neither works nor waits, as a process that was stopped.  Negative: never.  shingle_recover wakes
 * it. */
void sg_cpu_test_stop(shingle_comm *comm, int rank, int64_t units);

/* How many of these RANK has begun so far. */
int64_t sg_cpu_test_units(shingle_comm *comm, int rank);

/* Links carry RATE bytes a microsecond and take LATENCY_US for everything that takes a fixed time;
 * for plans that are bound afterwards.  0, 0: not held back. */
void sg_cpu_test_links(shingle_comm *comm, double rate, double latency_us);

/* How many packed copies of B the group keeps room for. */
int sg_cpu_test_packs(shingle_comm *comm);

/* All ranks go on with run EPOCH. */
void sg_cpu_test_epoch(shingle_comm *comm, uint64_t epoch);

/* Every block of workspace that RANK has. */
typedef void (*sg_cpu_test_memory_fn)(void *context, sg_block_kind kind, void *memory,
                                      size_t bytes);
void sg_cpu_test_memory(shingle_comm *comm, int rank, sg_cpu_test_memory_fn visitor, void *context);

#endif
