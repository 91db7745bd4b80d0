/* sched_rules.h -- what sealing adds to a schedule, and what the sealer and the checker ask of
 * pushes and of tagged data: for those, and for who prices or carries them out. */
#ifndef SG_SCHED_RULES_H
#define SG_SCHED_RULES_H

#include "core/sched.h"

/* Appends the copies of a problem with return_a: what patches have multiplied of A goes to the
 * user's tensor, behind all products.  Sealing does it.  (sched_return.c) */
void sg_sched_return(sg_sched *s);

/* Appends the norm of all rows that this rank gets, if the strategy has not: what it stores to C
 * goes to a buffer instead.  Sealing does it.  (sched_norm.c) */
void sg_sched_norm_all(sg_sched *s);

/* Does S end in a norm of sums that lie in this rank's own scratch, which has no halves?  No peer
 * reaches them, and peers store into C behind the hello of the rank's next run, which comes behind
 * the norm: the run may have ended in front of it.  (sched_norm.c) */
bool sg_sched_norms_own(const sg_sched *s);

/* Does AREA reach over a border between two B, or two C?  (seal.c) */
bool sg_sched_is_torn(const sg_sched *s, const sg_area *area);

/* Can peers store into AREA?  They reach SYM and REST, and of the tensors C if it is one: a hello
 * tells no other address.  (seal.c) */
bool sg_sched_is_reached(const sg_sched *s, const sg_area *area);

/* What is wrong with the copies that a launch carries, and at which step; NULL: nothing.  They move
 * inputs to peers or, beside tagged data, these and inputs into the own scratch; only what takes
 * tagged data waits.  They have lanes of their own, and no step is after one; the one launch of
 * lane 0, not the vendor's, carries them all and is the first step there, so that nothing that
 * waits for a peer stands before it.  (sched_push.c) */
const char *sg_sched_push_fault(const sg_sched *s, int32_t *step_out);

/* Has a run of S a number at its rank, by which flags and hellos are told from older ones?  Then it
 * has one at all. */
static inline bool sg_sched_counts(const sg_sched *s)
{
    return s->peers || s->flags > 0;
}

/* What is wrong with the tagged buffers, and at which step; NULL: nothing.  REST has them, and only
 * them.  Of two patches of one launch the first stores its product there, whole tiles in places,
 * the same at all ranks, and the second adds up the same tiles of all ranks, each behind its flag.
 * Or a patch for each owner of columns stores its product at that rank, the owner adds up the tiles
 * of all ranks and stores the sums in places of all others, and these store them as they come.  Or,
 * of a scatter, one for each owner of rows does, and each owner adds up the own ones.  Or a launch
 * carries, of a gather, own rows to the same place of all peers, and takes what they send into the
 * own scratch, with own flags for which its products wait.
 * Nothing else touches tagged buffers, and nothing else in the schedule waits or raises, and
 * whatever is stored there is read once: so a backend whose memory rests between runs may see by
 * the words alone what has come, put back to rest what it has read, and leave out the flags.
 * (sched_tagged.c) */
const char *sg_sched_tagged_fault(const sg_sched *s, int32_t *step_out);

/* Does the launch store tagged data? */
bool sg_sched_is_tagged(const sg_sched *s, const sg_launch *launch);

/* Does a launch carry tagged data, of a gather? */
bool sg_sched_gathers_tagged(const sg_sched *s);

/* Is STEP a push that stays on its rank: of what has come as tagged data, or of own rows beside
 * that? */
bool sg_sched_is_take(const sg_sched *s, const sg_step *step);

/* Is it of tagged data for owners of rows, all of which fit one tile?  A backend may multiply them
 * together, with the columns of B that it then reads once. */
bool sg_sched_is_joined(const sg_sched *s, const sg_launch *launch);

#endif
