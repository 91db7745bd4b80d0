/* choose_static.h -- choosing without simulating: a rule on sizes of the product and rates of the
 * machine says what kind of schedule is wanted, and the candidate whose schedule looks most like it
 * is taken.
 *
 * This follows the heuristic of FiCCO (arXiv 2512.10236), which picks one of four schedules from
 * the op-to-byte ratio, the traffic mk + nk + mn, and m against k, by thresholds that were found
 * for its machine.  The paper's thresholds are not used: those here follow from the machine file,
 * and not overlapping is one more answer.  docs/tuning.md states the rule.
 */
#ifndef SG_CHOOSE_STATIC_H
#define SG_CHOOSE_STATIC_H

#include "core/machine.h"
#include "core/sched.h"

/* What moves along with what: the four schedules of the paper, and none. */
typedef enum sg_static_kind {
    SG_STATIC_SERIAL,  /* nothing */
    SG_STATIC_UNIFORM, /* equal steps, each a product of everything that came with it */
    SG_STATIC_HETERO,  /* own rows are a step by themselves; few pieces */
    SG_STATIC_FINE,    /* the same with many pieces, each multiplied as it comes */
    SG_STATIC_SLABS    /* pieces of k instead of rows */
} sg_static_kind;

typedef struct sg_static_wish {
    sg_static_kind kind;
    double ops_per_byte;  /* of the product: 2mnk / bytes of A, B and C */
    double traffic_bytes; /* A, B and C */
    double gemm_us;       /* by the machine's rate alone */
    double coll_us;       /* by the rate and floor of collectives */
} sg_static_wish;

/* What the rule knows of a schedule: rank 0's. */
typedef struct sg_static_look {
    bool overlaps; /* products and communication are not just one behind the other */
    bool slabs;    /* products wait along k */
    bool hetero;   /* the own rows are not in step with the others */
    bool tagged;   /* data tell by themselves that they have come, which is for few rows */
    double us;     /* by rates, floors and what stays exposed at the ends */
} sg_static_look;

/* SERIAL: rank 0's schedule of the plan that does not overlap. */
void sg_static_rule(const sg_sched *serial, const sg_machine *machine, sg_static_wish *wish_out);
void sg_static_look_at(const sg_sched *s, const sg_machine *machine, sg_static_look *look_out);

/* Is A more like WISH than B?  Of equals neither is. */
bool sg_static_is_nearer(const sg_static_wish *wish, const sg_static_look *a,
                         const sg_static_look *b);

/* One line without a period: what was found, and so what is wanted. */
void sg_static_explain(const sg_static_wish *wish, sg_text *text);

#endif
