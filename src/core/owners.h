/* owners.h -- whose rows a span is about: the owner of what a visit multiplies or a copy moves,
 * found from the schedule alone, for pictures. */
#ifndef SG_OWNERS_H
#define SG_OWNERS_H

#include "core/sched.h"

enum { SG_OWNER_SLOTS = 64 };

/* A set of owners.  MASK has a bit for each of the SG_OWNER_SLOTS groups of neighbouring ranks; up
 * to that many ranks, a group is one rank. */
typedef struct sg_owners {
    uint64_t mask;
    int32_t one; /* the only owner, -1: none or several */
} sg_owners;

/* The group that OWNER is counted in. */
int sg_owners_slot(const sg_problem *problem, int owner);

void sg_owners_add(const sg_problem *problem, int owner, sg_owners *set);

/* Owners of one visit of a launch, or of its visits INDEX .. INDEX + COUNT - 1 of PATCH. */
sg_owners sg_owners_of_visit(const sg_sched *s, const sg_visit *visit);
sg_owners sg_owners_of_visits(const sg_sched *s, int32_t step, int32_t patch, int32_t index,
                              int32_t count);

/* For a schedule's steps: where its patches stand, so that a step finds those that touch its areas,
 * and what has been found.  The schedule stays where it is. */
typedef struct sg_owners_index sg_owners_index;

shingle_status sg_owners_index_make(const sg_sched *s, sg_owners_index **index_out);
void sg_owners_index_free(sg_owners_index *index);

/* Owners of what a step that is no launch, or a launch as a whole, handles. */
sg_owners sg_owners_of_step(sg_owners_index *index, int32_t step);

#endif
