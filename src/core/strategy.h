/* strategy.h -- how to overlap: a const descriptor and three pure functions.
 *
 * A strategy never states what it costs and never sees epochs, halves of the workspace, gates or
 * addresses: sim prices the steps, seal.c adds the run protocol.
 */
#ifndef SG_STRATEGY_H
#define SG_STRATEGY_H

#include "core/machine.h"
#include "core/sched.h"

enum { SG_MAX_KNOBS = 8, SG_MAX_KNOB_SETS = 32 };

/* Values of a strategy's knobs, in the order of its names. */
typedef struct sg_knobs {
    int32_t value[SG_MAX_KNOBS];
} sg_knobs;

typedef struct sg_strategy {
    const char *name;                                /* stands in tuned plans: never renamed */
    const char *brief;                               /* one line for `shingle info` */
    const char *knob[SG_MAX_KNOBS];                  /* names; NULL ends the list */
    int32_t least[SG_MAX_KNOBS], most[SG_MAX_KNOBS]; /* what build accepts, whatever the problem */

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

/* SMs for a product that leaves so many to lanes that WAIT beside it, one each; 0, which is all of
 * them, where what waits holds no worker.  -1, with the reason in WHY, if none would be left. */
int sg_blocks_beside(const sg_machine *machine, int wait, sg_text *why);

/* STRATEGY's proposals with the tile shapes of MACHINE ordered for PROBLEM: first the one whose
 * waves of tiles take least, since a last wave that is nearly empty costs as much as a full one.
 * Some strategies look at the first one or two alone. */
int sg_strategy_propose(const sg_strategy *strategy, const sg_problem *problem,
                        const sg_machine *machine, sg_knobs *sets, sg_text *why);

/* The same without the first SKIPPED of these tile shapes, of which MACHINE has more: for who
 * cannot carry out what was proposed in them. */
int sg_strategy_propose_next(const sg_strategy *strategy, const sg_problem *problem,
                             const sg_machine *machine, int skipped, sg_knobs *sets, sg_text *why);

/* Can all proposals for PROBLEM be priced in little time?  Otherwise, with many ranks or tiles, one
 * of them takes seconds, and the first one of each strategy has to do. */
bool sg_strategy_is_quick(const sg_problem *problem, const sg_machine *machine);

/* Waves of PROBLEM's product, if its rows are not cut by owners, in tiles of TILE on all SMs. */
int64_t sg_tile_waves(const sg_problem *problem, const sg_machine *machine, const sg_tile *tile);

/* What a tile of PROBLEM's product takes, over all of k: for who compares shapes of tiles. */
double sg_tile_us(const sg_problem *problem, const sg_machine *machine, const sg_tile *tile);

/* The lowest heights of MACHINE's tiles, MOST at most, rising; their number. */
int sg_tile_heights(const sg_machine *machine, int most, int32_t *height);

/* The width of tiles of HEIGHT rows that deal COLS columns, those of all bands, to all SMs; 0: one
 * of MACHINE's tiles of this height is narrower, or one of its first two tiles no wider. */
int32_t sg_narrow_tile(const sg_machine *machine, int32_t height, int64_t cols);

/* In how many parts of k, 1 or with CUT more, an all-reduce in tiles of TILE may be worth owners of
 * columns: for few rows, if B is not HELD by a cache, since it is then read once, or if the rows of
 * an owner do not fill their tiles.  0: owners of rows do. */
int sg_column_parts(const sg_problem *problem, const sg_machine *machine, const sg_tile *tile,
                    bool held, bool cut);

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
