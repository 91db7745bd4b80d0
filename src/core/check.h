/* check.h -- proves the schedules of all ranks of a plan before they run (docs/check.md):
 *
 *   values   runs all ranks once over hashed integers: missing, doubled or foreign contributions and
 *            waits that nothing ends (deadlock) show
 *   order    every read is ordered after its writer, by the flag of that very slab or addend, by
 *            lane, or by a chain of these; an element is written once, or again by who adds it
 *   protocol SYM and REST only after the gate, stores into a peer's tensors only after its hello, everything
 *            before end, hello and done where peers take part, the right half
 *   SMs      launches, collectives and waiting lanes that are not ordered fit on the machine
 */
#ifndef SG_CHECK_H
#define SG_CHECK_H

#include "core/machine.h"
#include "core/sched.h"

typedef struct sg_checker sg_checker; /* memory that is used again from check to check */

sg_checker *sg_checker_new(void); /* NULL if memory ran out */
void sg_checker_free(sg_checker *checker);

typedef struct sg_check_result {
    int64_t visits;
    char why[320]; /* the first violation: rank, step, visit, region; "" if none */
} sg_check_result;

/* Proves SCHED[0..ranks-1], sealed schedules of all ranks of one problem.  SMS: the SMs that steps
 * hold (sg_machine_held_sms), 0 to leave the SM rule out.  SHINGLE_EBUG and RESULT->why for a
 * violation. */
shingle_status sg_check(sg_checker *checker, const sg_sched *sched, int ranks, int sms,
                        sg_check_result *result_out);

/* Proves that every element of C is made in the one order that reproducible plans have
 * (docs/reproducible.md): then its bits are those of any other plan of which that is proved, for
 * any m.  SHINGLE_EUNSUPPORTED, with RESULT->why, if some are made otherwise. */
shingle_status sg_check_bits(sg_checker *checker, const sg_sched *sched, int ranks,
                             sg_check_result *result_out);

/* Builds, seals and proves all ranks of problem + strategy{knobs}. */
struct sg_strategy;
struct sg_knobs;
shingle_status sg_check_built(sg_checker *checker, const sg_problem *problem,
                              const struct sg_strategy *strategy, const struct sg_knobs *knobs,
                              int sms, sg_check_result *result_out);

/* Proves SCHED, what STRATEGY{KNOBS} makes of its problem for all ranks, unless this process
 * remembers that it has done so: a plan has one schedule for each rank. */
shingle_status sg_check_once(sg_checker *checker, const sg_sched *sched, int sms,
                             const struct sg_strategy *strategy, const struct sg_knobs *knobs,
                             sg_check_result *result_out);
void sg_check_forget(void); /* for tests of the checker on its way through a planner */

/* A random triple: small extents (primes, 0, 1, fewer rows than ranks, ragged, cyclic), a strategy
 * that accepts the problem, knobs anywhere inside its limits. */
shingle_status sg_check_triple(sg_random *random, int max_ranks, sg_problem *problem_out,
                               const struct sg_strategy **strategy_out, struct sg_knobs *knobs_out);

#endif
