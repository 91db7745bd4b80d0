/* tuned.h -- the plans that a group has chosen, so that all its ranks take the same one: the first
 * rank to ask plans (and measures, if asked to), the others get copies.  Plans that were tuned, in
 * this group or in its file, go before what would be predicted. */
#ifndef SG_TUNED_H
#define SG_TUNED_H

#include "core/plan.h"

struct sg_group;

typedef struct sg_tuned sg_tuned;

sg_tuned *sg_tuned_new(void);        /* NULL if memory ran out */
void sg_tuned_free(sg_tuned *tuned); /* takes NULL */

/* Reads the file of tuned plans that CONFIG names (none: NULL or "") into GROUP, which is complete.
 * SCALE_OF: what it is a scale model of, or NULL. */
shingle_status sg_tuned_open(struct sg_group *group, const shingle_config *config,
                             const sg_machine *scale_of);

/* A plan of PROBLEM for COMM's group, not bound yet.  Several ranks may ask at once. */
shingle_status sg_tuned_plan(shingle_comm *comm, const sg_problem *problem,
                             const shingle_plan_options *options, shingle_plan **plan_out);

#endif
