/* strategy.h -- how to overlap: a const descriptor and three pure functions.
 *
 * A strategy never states what it costs and never sees epochs, halves of the workspace, gates or
 * addresses: sim prices the steps, seal.c adds the run protocol.
 */
#ifndef SG_STRATEGY_H
#define SG_STRATEGY_H

#include "core/machine.h"
#include "core/sched.h"

enum { SG_MAX_KNOBS = 8, SG_MAX_KNOB_SETS = 96 };

/* Values of a strategy's knobs, in the order of its names. */
typedef struct sg_knobs {
    int32_t value[SG_MAX_KNOBS];
} sg_knobs;

/* One of them: its name, and what build accepts, whatever the problem. */
typedef struct sg_knob {
    const char *name;
    int32_t least, most;
} sg_knob;

typedef struct sg_strategy {
    const char *name;           /* stands in tuned plans: never renamed */
    const char *brief;          /* one line for `shingle info` */
    sg_knob knob[SG_MAX_KNOBS]; /* one without a name ends the list */

    /* Knob sets worth trying, best guess first: fills SETS (room for SG_MAX_KNOB_SETS) and returns
     * how many.  0: not for this problem or machine, with the reason in WHY.  The only function
     * that sees the machine; every consequence is a knob. */
    int (*propose)(const sg_problem *problem, const sg_machine *machine, sg_knobs *sets,
                   sg_text *why);

    /* Can it do this problem at all?  Reason in WHY if not.  propose and forced plans ask it. */
    bool (*accepts)(const sg_problem *problem, sg_text *why);

    /* Appends RANK's steps to S, which is begun.  Builds for every knob set inside least..most and
     * every accepted problem.  Any rank can build any rank's schedule. */
    void (*build)(const sg_problem *problem, const sg_knobs *knobs, int rank, sg_sched *s);
} sg_strategy;

/* Says why not, and returns false: for accepts and propose. */
bool sg_decline(sg_text *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An `accepts` for whatever moves between ranks: declines products without
 * communication and groups of one rank. */
bool sg_accepts_moves(const sg_problem *problem, sg_text *why);

int sg_knob_count(const sg_strategy *strategy);

/* All strategies, in the order of strategies.h (registry.c).  NULL past the end. */
const sg_strategy *sg_strategy_at(int index);
const sg_strategy *sg_strategy_find(const char *name);

/* "name{knob=value,knob=value}", canonical. */
void sg_strategy_print(const sg_strategy *strategy, const sg_knobs *knobs, sg_text *text);

/* Parses that text.  KNOBS_GIVEN tells if it named any knob; ones not named are taken from
 * DEFAULTS (may be NULL if all are named).  Errors give the column. */
shingle_status sg_strategy_parse(const char *text, const sg_strategy **strategy_out,
                                 const sg_knobs *defaults, sg_knobs *knobs_out, bool *knobs_given);

#endif
