/* race.h -- times plans against each other, in turns, under a time limit. */
#ifndef SG_RACE_H
#define SG_RACE_H

#include "core/planner.h"

enum { SG_RACE_PLANS = 65 };

/* Stores the median time of each of the PLANS candidates whose places INDEX gives, at most
 * SG_RACE_PLANS, as measured_us.  One round that does not count, at least one that does, then more
 * while SECONDS last; a limit that is over before the first round of all has ended leaves times of
 * 0 behind the last one timed.  One whose run fails drops out, if WATCH can mend, and `declined`
 * says why; what that took counts for no limit.  An error: the baseline, the last one or WATCH's
 * mending failed, or a result was wrong, which nobody shall overlook.  Of who has a time low_us and
 * high_us are stored as well. */
shingle_status sg_race(const sg_problem *problem, sg_candidate *candidate, const int *index,
                       int plans, const sg_stopwatch *watch, double seconds);

/* Is ONE faster than OTHER, both timed in one race, and would it be the next time?  Who takes the
 * first of equals asks of one behind the other: this is no order. */
bool sg_race_is_faster(const sg_candidate *one, const sg_candidate *other);

#endif
