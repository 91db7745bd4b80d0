/* check_state.h -- what the parts of the checker share; no one else includes it.
 *
 * A check goes through these passes, each in a file of its own:
 *
 *     check_read.c   decodes every step once through sg_step_access: touches; keeps the rules that a
 *                    single access can break; counts the raisers of every flag
 *     check_cells.c  cuts rows, columns and k so that whatever is read or written is whole cells
 *     check_values.c fills the inputs; compares the outputs with the product of these
 *     check_run.c    carries the schedules out over a 64-bit number per cell
 *     check_bits.c   the same over values that stand for how they were made (bits.h)
 *     check_order.c  asks of every read whether it is ordered after its writer; the SM rule
 *     check.c        the way through, and the wording of violations
 */
#ifndef SG_CHECK_STATE_H
#define SG_CHECK_STATE_H

#include "core/check.h"
#include "core/strategy.h"

enum { SG_AXES = 2 * SG_MAX_BUFS, SG_NO_WRITER = 0, SG_INPUT = 1, SG_FIRST_WRITER = 2 };

/* What a step or visit touches: one access.  `axis` is `area` once more, for what
 * treats rows and columns alike. */
typedef struct sg_touch {
    uint8_t what, role;
    uint8_t buf;
    bool celled;   /* an area is in cells */
    int16_t rank;  /* whose memory, or the peer of a flag */
    bool in_place; /* an addend that its event stores again, or that store */
    union {
        struct {
            int32_t row0, rows, col0, cols;
        } area; /* SG_READS, SG_WRITES */
        struct {
            int32_t first, count;
        } axis[2]; /* rows, columns */
        struct {
            int32_t first, step, count; /* first: a flag of the checker once linked */
            int32_t counter;            /* the raisers' */
        } flags;                        /* SG_WAITS, SG_RAISES */
    };
} sg_touch;

/* One visit, or a step that has none. */
typedef struct sg_event {
    int32_t touch0, touches;
    int32_t step;  /* of its rank */
    int32_t visit; /* -1: of a step without visits */
    int32_t patch; /* of the visit, in the rank's list */
    int16_t rank;
    bool waits, final, norm, onto;
} sg_event;

/* What the checker knows of a step, beside the schedule. */
typedef struct sg_stage {
    int32_t event0, events;
    int32_t next, before;        /* in its lane, -1: none; steps of the rank */
    int32_t waiter;              /* first agent that waits for its end, -1: none */
    int32_t ended[SG_MAX_LANES]; /* per lane, the last step that has ended before this begins */
    uint8_t lane;
    bool over;
} sg_stage;

/* One flag of a rank in the memory of a rank. */
typedef struct sg_flag {
    int32_t raisers, raised;
    int32_t counter;  /* what its raisers count in, -1: nothing */
    int32_t raiser;   /* first of the nodes of its raisers, -1: none */
    int32_t awaiting; /* first of the nodes of steps that have awaited it */
    int32_t waiter;   /* first agent that waits for it */
    int32_t mark;     /* last event that has awaited it, + 1 */
    int32_t found;    /* search that has found it */
} sg_flag;

typedef struct sg_node {
    int32_t what; /* an event that raises, or a step that has awaited */
    int32_t next;
} sg_node;

/* Flags of one rank in one rank's memory: indices [low, high) are flags from `first` on. */
typedef struct sg_pair {
    int32_t low, high;
    int64_t first;
} sg_pair;

/* Rows or columns of one buffer id, over all ranks. */
typedef struct sg_axis {
    int64_t extent;
    int64_t word0, words; /* its cuts, a bit a position, in sg_checker.cuts */
    int32_t place0;       /* its cells' positions, in sg_checker.place */
    int32_t cells;
    bool changed, changes;
} sg_axis;

/* Positions [low, high] of one axis cut where positions [low + shift, ...] of the other do. */
typedef struct sg_coupling {
    int32_t one, other;
    int64_t shift;
    int64_t low, high;
} sg_coupling;

/* Cells of one buffer of one rank. */
typedef struct sg_grid {
    int64_t cell0;
    int32_t rows, cols;
} sg_grid;

/* One lane of one rank, carrying out its steps. */
typedef struct sg_agent {
    int32_t rank;
    int32_t step;  /* -1: has ended */
    int32_t event; /* -1: not inside the step yet */
    int32_t touch;
    int32_t next; /* in a list of waiters */
} sg_agent;

struct sg_checker {
    const sg_sched *sched;
    const sg_problem *problem;
    int ranks, sms;
    sg_check_result *result;

    sg_touch *touch;
    sg_event *event;
    sg_stage *stage; /* all ranks */
    int32_t *stage0; /* per rank */
    sg_flag *flag;
    sg_node *node;
    sg_pair *pair;    /* [at * ranks + by] */
    sg_agent *agent;  /* [rank * lanes + lane] */
    int32_t *queue;   /* agents that can go on */
    int32_t *found;   /* flags that a search has still to follow */
    int32_t *covered; /* [rank * lanes + lane]: steps that a search has covered */
    int32_t *counts;  /* raisers seen per counter of the rank at hand */
    int32_t *arrival; /* [collective * ranks + rank]: the event, -1: not there yet */
    int32_t *arrived; /* ranks that have come, per collective */
    int32_t *proved;  /* per event: the last event it was proved to be before, + 1 */
    int32_t touches, events, stages, flags, nodes, queued, founds, colls;
    int32_t touch_room, event_room, stage_room, stage0_room, flag_room, node_room, pair_room,
        agent_room, queue_room, found_room, covered_room, counts_room, arrival_room, arrived_room,
        proved_room;
    int32_t search; /* number of the last search */

    sg_axis axis[SG_AXES];
    uint64_t *cuts;
    int32_t *before; /* cuts in front of each word */
    int32_t *place;  /* where each cell begins */
    sg_coupling *coupling;
    int32_t *coupled; /* hash table of couplings, -1: free */
    sg_grid *grid;    /* [rank * SG_MAX_BUFS + buf] */
    uint64_t *value;
    uint32_t *writer;    /* SG_NO_WRITER, SG_INPUT or SG_FIRST_WRITER + event */
    uint8_t *seen;       /* read by others than sums in place; only if there is one */
    uint64_t *sum;       /* of the event at hand */
    uint64_t *reference; /* the product of a rank, and its operands */
    int64_t *label;      /* where cells begin */
    int32_t cut_room, before_room, place_room, coupling_room, coupled_room, grid_room, value_room,
        writer_room, seen_room, sum_room, own_room, reference_room, label_room;
    int32_t places, couplings;
    uint32_t coupled_mask;
    int64_t cells;
    bool in_place; /* some event stores what it has added */
    bool bits;     /* values stand for expressions (bits.h): how a sum is made counts, too */
    uint64_t *own; /* with these, the product of the event at hand until it is its turn */

    sg_sched *built; /* of sg_check_built */
    int32_t built_room;
};

/* Room for NEED elements of CHECKER->LIST and one more, so that the list is never
 * NULL; or out of the function. */
#define SG_ROOM(checker, list, room, need)                                                         \
    do {                                                                                           \
        if ((int64_t)(need) >= (checker)->room &&                                                  \
            !sg_grow(&(checker)->list, &(checker)->room, (int64_t)(need) + 1,                      \
                     sizeof *(checker)->list))                                                     \
            return sg_fail(SHINGLE_ENOMEM, "no memory to check %d ranks", (checker)->ranks);       \
    } while (0)

/* ---- check.c: violations --------------------------------------------------------------------- */

/* A violation in EVENT at TOUCH (either may be -1): writes result->why.  SHINGLE_EBUG. */
shingle_status sg_check_violation(sg_checker *ck, int32_t event, int32_t touch, const char *format,
                                  ...) __attribute__((format(printf, 4, 5)));

/* What its rank calls the INDEX-th flag that EVENT awaits or raises at TOUCH, which is linked. */
int32_t sg_check_number(const sg_checker *ck, int32_t event, int32_t touch, int32_t index);

/* Nobody raises the INDEX-th flag that EVENT awaits at TOUCH: says so, and where there is one of
 * its number, since a wrong rank is the usual cause. */
shingle_status sg_check_unraised(sg_checker *ck, int32_t event, int32_t touch, int32_t index);

/* The same of a flag that who raises it does not come to: says who that is. */
shingle_status sg_check_parked(sg_checker *ck, int32_t event, int32_t touch, int32_t index);

/* ---- check_read.c ---------------------------------------------------------------------------- */

shingle_status sg_check_read(sg_checker *ck);
shingle_status sg_check_link(sg_checker *ck);

static inline sg_stage *sg_check_stage(const sg_checker *ck, int rank, int32_t step)
{
    return &ck->stage[ck->stage0[rank] + step];
}

/* An event of a step for a violation to name; -1: it has none. */
static inline int32_t sg_check_event(const sg_checker *ck, int rank, int32_t step)
{
    const sg_stage *const stage = sg_check_stage(ck, rank, step);
    return stage->events > 0 ? stage->event0 : -1;
}

static inline bool sg_check_is_area(const sg_touch *r)
{
    return r->what == SG_READS || r->what == SG_WRITES;
}

/* Index of the I-th flag that a linked touch names. */
static inline int32_t sg_check_flag(const sg_touch *r, int32_t i)
{
    return r->flags.first + i * r->flags.step;
}

/* ---- check_cells.c --------------------------------------------------------------------------- */

shingle_status sg_check_axes(sg_checker *ck);
void sg_check_cut(sg_checker *ck, const sg_touch *area);

/* Rows (0) or columns (1) of one area are cut as those of another, which are as many. */
shingle_status sg_check_couple(sg_checker *ck, const sg_touch *one, int one_axis,
                               const sg_touch *other, int other_axis);
shingle_status sg_check_cells(sg_checker *ck);

/* Cells of AXIS in front of position AT, which is a cut. */
int32_t sg_check_cells_before(const sg_checker *ck, int axis, int64_t at);

/* Where cell CELL of an axis begins. */
static inline int32_t sg_check_place(const sg_checker *ck, int axis, int32_t cell)
{
    return ck->place[ck->axis[axis].place0 + cell];
}

static inline int64_t sg_check_cell(const sg_checker *ck, const sg_touch *area, int32_t row)
{
    const sg_grid *const grid = &ck->grid[area->rank * SG_MAX_BUFS + area->buf];
    return grid->cell0 + (int64_t)(area->area.row0 + row) * grid->cols + area->area.col0;
}

uint64_t sg_check_bits_finish(const sg_checker *ck, uint64_t value, uint64_t bias);
uint64_t sg_check_bits_residual(const sg_checker *ck, uint64_t value, uint64_t residual);

/* What becomes of a complete value: a bijection, so that applying it twice or never shows. */
static inline uint64_t sg_check_finish(const sg_checker *ck, uint64_t value, uint64_t bias)
{
    return ck->bits ? sg_check_bits_finish(ck, value, bias) : sg_mix(value + bias);
}

/* COUNT cells of a finished row become what it is once the residual is added, and then
 * what its norm makes of that: each of a cell follows from all of the row, so that one
 * that was not complete shows. */
void sg_check_add_residual(const sg_checker *ck, uint64_t *row, const uint64_t *residual,
                           int32_t count);
void sg_check_norm(const sg_checker *ck, uint64_t *row, const uint64_t *gain, int32_t count);

/* ---- check_bits.c: CHECKER->BITS is set ------------------------------------------------------ */

/* What EVENT computes from operands at TOUCH, which is B's (A's stands before it), or from the
 * INDEX-th of its addends. */
void sg_check_bits_multiply(sg_checker *ck, int32_t event, const sg_touch *b);
void sg_check_bits_add(sg_checker *ck, int32_t event, const sg_touch *addend, int32_t index);

/* VALUE as it stands where TO says (NULL: in C); and what is to be added up of RANK's product over
 * DEPTH cells of k. */
uint64_t sg_check_bits_stored(const sg_checker *ck, const sg_touch *to, uint64_t value);
uint64_t sg_check_bits_product(const sg_checker *ck, int rank, const uint64_t *a, const uint64_t *b,
                               int32_t depth);

/* ---- check_values.c -------------------------------------------------------------------------- */

shingle_status sg_check_inputs(sg_checker *ck);
shingle_status sg_check_outputs(sg_checker *ck);

/* ---- check_run.c ----------------------------------------------------------------------------- */

shingle_status sg_check_colls(sg_checker *ck); /* before the cells: collectives couple axes */
shingle_status sg_check_run(sg_checker *ck);

/* ---- check_order.c --------------------------------------------------------------------------- */

void sg_check_clocks(sg_checker *ck, int rank);

/* Is WRITER over before EVENT reads, whose touches up to TOUCH have been carried out?  EVENT -1:
 * before the end of RANK's run. */
bool sg_check_ordered(sg_checker *ck, int rank, int32_t event, int32_t touch, int32_t writer);
shingle_status sg_check_sms(sg_checker *ck, int rank);

#endif
