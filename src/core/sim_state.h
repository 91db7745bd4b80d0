/* sim_state.h -- what the files of the simulator share.  Nobody else includes it.
 *
 *     sim.c         memory, what a simulation begins with, the parts of a result
 *     sim_built.c   the simulator object; schedules it builds by itself; which ranks are images
 *     sim_run.c     events, flags, lanes, steps
 *     sim_copy.c    copies and sums
 *     sim_link.c    what travels: flows that share links by topology
 *     sim_coll.c    collectives
 *     sim_launch.c  products on a rank's SMs: blocks and the tiles they take
 *     sim_product.c what a tile, a visit and the vendor's product take
 *     sim_reads.c   how often they read B
 *     sim_tiles.c   what tiles wait for, what becomes of finished ones
 *     sim_pool.c    products by workers that all ranks share
 *
 * Entities act at moments: agents (lanes), flows and pool workers.  A heap hands out the next
 * moment; equal moments go by number, so a simulation always takes the same course.
 */
#ifndef SG_SIM_STATE_H
#define SG_SIM_STATE_H

#include <math.h>

#include "core/links.h"
#include "core/sim.h"

enum { SG_SIM_GROUPS = 160, SG_NONE = -1, SG_SIM_PARKED = 64 };

/* Blocks of a launch that act together.  Idle ones (tiles is 0) take new tiles at `free_us`; others
 * have their first round of tiles ready to be stored at `store_us`. */
typedef struct sg_sim_group {
    double free_us, store_us; /* for another tile; what it has can be stored */
    double due_us;            /* that was due, whatever else the link carried */
    double visit_us;
    double idle_us; /* since when it has stood still */
    int32_t blocks;
    int32_t patch, tile0, tiles;
    int32_t rounds; /* tiles of one block, one behind the other */
    bool stalled;   /* the link still carries what these blocks stored before */
} sg_sim_group;

typedef enum sg_sim_phase {
    SG_AT_AFTER, /* steps of other lanes */
    SG_AT_WAITS, /* flags */
    SG_AT_WORK,  /* resources: SMs, an engine, the other ranks */
    SG_AT_MOVE,  /* latency is over, the next flow can set off */
    SG_AT_LAST   /* under way; what comes next is told by whoever carries it */
} sg_sim_phase;

/* Patches of a launch that are one but for where their rows are cut: such as wait for rows that
 * come into the same buffer, and read the same columns of B; or one alone. */
typedef struct sg_sim_stretch {
    int64_t rows, tiles;
    int32_t groups; /* of bands */
    int32_t owners; /* whose rows come, each at another moment; at least 1 */
    int32_t end;    /* behind its last patch */
} sg_sim_stretch;

/* One lane of one rank. */
typedef struct sg_sim_agent {
    double now;
    double begun_us;     /* of the step: when its work began */
    double waited_us;    /* since when the lane waits for the step at hand */
    double seen_us;      /* when the last of its flags was seen */
    int32_t step;        /* at hand; SG_NONE after the last */
    int32_t settled;     /* dependences and flags of the step that are seen */
    int32_t parked_next; /* behind this one at the same flag, step or engine */
    int32_t hungry_next; /* behind this one in the queue for SMs */
    int16_t rank;
    uint8_t lane;
    uint8_t phase;
    int16_t for_rank;         /* whom it waited for last, or SG_NONE */
    int32_t got, least, want; /* SMs */
    bool grows;               /* takes more than the least later on */
    bool hungry, parked;
    int32_t pending; /* flows of the step that are under way */
    int32_t engine;  /* of a copy */
    int32_t to;      /* destination at hand */
    /* Of the launch at hand. */
    int32_t patch, tile;    /* next to be taken */
    int64_t left_tiles;     /* from that on */
    int32_t room, spared;   /* SMs that it may have, and those that it would not be faster with */
    double behind;          /* of the next tile's visit, what comes behind its addends' flags */
    double products;        /* tiles of the launch that are multiplied; -1: not yet counted */
    sg_sim_stretch stretch; /* of the next tile's patch */
    int32_t step_end; /* behind the last of the patches that read B in step with the next tile's */
    int64_t step_begin, step_tiles; /* number of their first tile, and how many they are */
    double step_behind;             /* part of B that they do not find in the cache any more */
    int32_t groups;
    sg_sim_group *group;
    double in_flight;    /* bytes stored by its tiles and not yet there */
    double most_bytes;   /* of them before blocks stand still */
    double moment;       /* what is too short to matter: a small part of a visit */
    int32_t ready_patch; /* whose bands `ready` is about */
    double *ready;       /* when the waits of a band end, < 0: not known; NULL: tiles differ */
    double *band;        /* memory of that */
    int32_t band_room;
    /* Of a pool: units of the step, the next one, those that have not ended. */
    int32_t want_units, unit, left;
    double piece_us;
} sg_sim_agent;

/* A flag, found by (at, by, index). */
typedef struct sg_sim_slot {
    uint64_t key; /* 0: free */
    double time;  /* of the last raise, as seen by who waits */
    int32_t left; /* raises that are missing; -1: nobody raised yet */
    int32_t parked;
} sg_sim_slot;

typedef struct sg_sim_step {
    double end_us; /* < 0: not ended */
    int32_t next;  /* step of the same lane */
    int32_t parked;
} sg_sim_step;

/* ---- Links ----------------------------------------------------------------------------------- */

/* Something whose rate is shared: each of its users gets an equal part by weight. */
typedef struct sg_sim_resource {
    double rate;  /* bytes a microsecond */
    double load;  /* weights of its users */
    double share; /* what each of them gets; < 0: not worked out since something changed */
    int32_t first;
} sg_sim_resource;

typedef struct sg_sim_use {
    int32_t resource;
    int32_t next, prev; /* uses of the same resource */
    double weight;
} sg_sim_use;

typedef enum sg_sim_what {
    SG_FLOW_COPY,   /* of an engine; owner: the agent */
    SG_FLOW_SMS,    /* of an SM copy or a sum; owner: the agent */
    SG_FLOW_STORE,  /* of finished tiles; owner: the batch */
    SG_FLOW_COLL,   /* a rank's part of a collective; owner: the agent */
    SG_FLOW_PRODUCT /* the vendor's product, in microseconds instead of bytes; owner: the agent */
} sg_sim_what;

typedef struct sg_sim_flow {
    double left, bytes;
    double cap;  /* its own most, before contention */
    double most; /* and with it */
    double rate; /* at the moment */
    double since, begin_us;
    double floor_us; /* it is not there before that */
    int32_t owner;
    int32_t next; /* free, or behind this one on its channel */
    int32_t channel;
    int16_t from, to; /* simulated, real */
    uint8_t what;
    uint8_t uses;
    bool moving;
    int32_t turn; /* in which it was rated last */
} sg_sim_flow;

/* Tiles that were stored together and travel to the peers of their patch. */
typedef struct sg_sim_batch {
    double first_us, step_us; /* rounds leave at first_us + i * step_us */
    double each_us;           /* of a round on the slowest of its links */
    double bytes;
    int32_t agent, step;
    int32_t patch, tile0, tiles, rounds, blocks;
    int32_t pending, next;
} sg_sim_batch;

typedef struct sg_sim_engine {
    int32_t peer; /* of its last copy */
    int32_t flow;
    bool busy;
} sg_sim_engine;

typedef struct sg_sim_rank {
    double end_us;
    int32_t free_sms;
    int32_t hungry, hungry_last; /* agents that want SMs, first come, first served */
    int32_t queue, queue_last;   /* agents that want an engine */
    int32_t moving;              /* flows of its engines and stores */
    int32_t pushes;              /* copies that a launch carries and has not ended; not on a pool */
    double pushing, pushed;      /* bytes of all of them, and of those that have ended */
    double push_gbps;            /* the rate at which they leave */
    bool takes;                  /* they are tagged data, which each rank takes itself */
    int32_t couriers;            /* blocks without tiles that carry them; 0: storers do */
    bool early;                  /* storers carry the first of them even so */
    int32_t colls, products;     /* under way */
    int32_t product_flow, coll_flow;
    int32_t step0;  /* of the rank in the table of steps */
    int32_t agent0; /* first of its agents, which are side by side */
    int32_t agents;
    /* Of a pool. */
    double progress, weight;
    int32_t slots;  /* staging that is free */
    double *packed; /* per 64 columns of B: up to which k they are packed */
} sg_sim_rank;

typedef struct sg_sim_coll {
    double time;
    int32_t arrived, left;
    int32_t parked;
} sg_sim_coll;

/* A unit of work of a pool: a visit, or a piece of a step. */
typedef struct sg_sim_unit {
    int32_t agent;
    int32_t number; /* in order of the step */
    sg_visit visit;
    int32_t slab;   /* next to be multiplied */
    int32_t addend; /* next to be added */
    bool parked, used, stored;
    double cost_us; /* of a piece that is no visit */
} sg_sim_unit;

typedef struct sg_sim_worker {
    int32_t rank;
    int32_t unit; /* at hand, or SG_NONE */
    double begun_us;
} sg_sim_worker;

/* ---- The simulation -------------------------------------------------------------------------- */

typedef struct sg_sim_memory {
    void *data;
    size_t room;
} sg_sim_memory;

enum {
    SG_MEM_RANKS,
    SG_MEM_STEPS,
    SG_MEM_SLOTS,
    SG_MEM_COLLS,
    SG_MEM_AGENTS,
    SG_MEM_GROUPS,
    SG_MEM_RESOURCES,
    SG_MEM_FLOWS,
    SG_MEM_USES,
    SG_MEM_BATCHES,
    SG_MEM_CHANNELS,
    SG_MEM_ENGINES,
    SG_MEM_WHEN,
    SG_MEM_PLACE,
    SG_MEM_HEAP,
    SG_MEM_WORKERS,
    SG_MEM_UNITS,
    SG_MEM_PACKED,
    SG_MEM_IMAGES,
    SG_MEM_COUNT
};

typedef struct sg_sim {
    const sg_sched *sched; /* of the simulated ranks */
    const sg_machine *machine;
    int ranks; /* simulated: real ranks 0 .. ranks - 1 */
    int all;   /* real; more than `ranks`: rank r + i * ranks is the image of rank r */
    const int32_t *const
        *mirror; /* first flag of each raise, as the image that raises here names it */
    sg_span_fn visit;
    void *context;
    int64_t events;
    bool full; /* memory ran out */

    sg_sim_memory memory[SG_MEM_COUNT];
    sg_arena arena;

    sg_sim_agent *agents;
    int32_t agent_count;
    sg_sim_slot *slots;
    uint64_t slot_mask;
    sg_sim_step *steps;
    sg_sim_rank *rank;
    sg_sim_coll *colls;
    sg_sim_group *groups;

    /* Moments: entities are agents, then workers, then flows. */
    double *when;
    int32_t *place; /* in the heap, or SG_NONE */
    int32_t *heap;
    int32_t heaped;
    int32_t worker0, flow0;
    double now;

    sg_sim_resource *resources;
    sg_links links;
    int32_t store0; /* where the stores of the ranks stand */
    sg_sim_flow *flows;
    sg_sim_use *uses;
    int32_t stride; /* uses of a flow */
    int32_t turn;   /* of rating everybody who shares a link */
    int32_t flow_count, flow_room, flow_free;
    sg_sim_batch *batches;
    int32_t batch_count, batch_room, batch_free;
    int32_t *channels; /* per simulated rank and real peer: the last store on its way */
    sg_sim_engine *engines;
    int32_t engine_count; /* per rank */

    sg_sim_worker *workers;
    sg_sim_unit *units; /* SG_SIM_PARKED per rank */
    double
        barren_us; /* when a worker last found nothing to do, if nothing has happened since; -1 */
    double barren_next; /* and when there may be something */
} sg_sim;

static inline double sg_sim_us_of(double bytes, double gbps)
{
    return bytes / (gbps * 1e3);
}

static inline double sg_sim_area_bytes(const sg_sched *s, const sg_area *a)
{
    return (double)a->rows * a->cols * sg_sched_element_bytes(s, a->buf);
}

/* Bytes that a push takes to all of its destinations. */
static inline double sg_sim_push_bytes(const sg_sched *s, const sg_step *step)
{
    double bytes = 0;
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++)
        bytes += sg_sim_area_bytes(s, &s->to[i]);
    return bytes;
}

/* ---- sim.c ----------------------------------------------------------------------------------- */

/* COUNT elements of SIZE bytes, kept from call to call; grown ones keep what is in them.  NULL (and
 * m->full): no memory. */
void *sg_sim_get(sg_sim *m, int which, int64_t count, size_t size);

/* Simulates what is set up in M (sched, ranks, all, mirror) on MACHINE. */
shingle_status sg_sim_go(sg_sim *m, const sg_machine *machine, const sg_sim_options *options,
                         sg_sim_result *result_out);

/* ---- sim_run.c ------------------------------------------------------------------------------- */

shingle_status sg_sim_run(sg_sim *m, double *us_out);

/* ENTITY acts at TIME (again), or not at all. */
void sg_sim_at(sg_sim *m, int32_t entity, double time);
void sg_sim_off(sg_sim *m, int32_t entity);
void sg_sim_agent_at(sg_sim *m, sg_sim_agent *a, double time);

/* The agent is woken with a list, and not before. */
void sg_sim_park(sg_sim *m, sg_sim_agent *a, int32_t *parked);
void sg_sim_wake(sg_sim *m, int32_t *parked, double time);

/* COUNT raisers of flag I of a raise of A's rank are done; TIME is when the flag is seen. */
void sg_sim_raise(sg_sim *m, int rank, const sg_raise *r, int32_t i, int32_t count, double time);

/* Moves *TIME to when RANK sees all flags of F by BY; returns one that is missing, or NULL. */
sg_sim_slot *sg_sim_see(sg_sim *m, int rank, int by, struct sg_flags f, double *time);

/* From raising a flag of rank FROM at rank TO until it is seen there. */
double sg_sim_flag_us(const sg_sim *m, int from, int to);

/* Added to what goes to a peer on another node. */
double sg_sim_far_us(const sg_sim *m, int from, int to);

/* Takes WANT SMs, or at least LEAST; false: the agent queues for them and acts when it has them.
 * One that GROWS takes what is missing to WANT as it becomes free. */
bool sg_sim_take_sms(sg_sim *m, sg_sim_agent *a, int32_t least, int32_t want, bool grows);
void sg_sim_give_sms(sg_sim *m, sg_sim_agent *a, int32_t count);

/* The step at hand ends at TIME: its raises, whoever waits for it, the lane's next step. */
void sg_sim_end_step(sg_sim *m, sg_sim_agent *a, double time);

/* Tells the visitor, of every image of SPAN's rank. */
void sg_sim_tell(const sg_sim *m, const sg_span *span);

/* ---- sim_copy.c ------------------------------------------------------------------------------ */

/* What the agent's step does next: a copy by an engine; copies and sums by SMs; a copy that a
 * launch carries. */
void sg_sim_run_copy(sg_sim *m, sg_sim_agent *a, const sg_step *step);
void sg_sim_run_kernel(sg_sim *m, sg_sim_agent *a, const sg_step *step);
void sg_sim_run_push(sg_sim *m, sg_sim_agent *a, const sg_step *step);

/* From the end of a push of RANK until the flag is seen that it raises at rank AT. */
double sg_sim_push_seen_us(const sg_sim *m, const sg_step *step, int rank, int at);

/* Finds what the launch of simulated rank RANK carries, and who does it. */
void sg_sim_set_pushes(sg_sim *m, int rank);

/* A flow of the agent's step is there. */
void sg_sim_landed(sg_sim *m, sg_sim_agent *a, const sg_sim_flow *flow);

/* ---- sim_link.c ------------------------------------------------------------------------------ */

bool sg_sim_set_links(sg_sim *m);

/* Lets BYTES leave simulated rank FROM for real rank TO at m->now, at most at CAP bytes a
 * microsecond; there not before FLOOR_US.  Its end is told to the owner.  Returns the flow. */
int32_t sg_sim_send(sg_sim *m, sg_sim_what what, int32_t owner, int from, int to, double bytes,
                    double cap, double floor_us);

/* A flow has come to its end or must be looked at again. */
void sg_sim_flow_act(sg_sim *m, int32_t flow);

/* Rates of the rank's own flows, when products or collectives begin or end there. */
void sg_sim_contend(sg_sim *m, int rank);

/* ---- sim_coll.c ------------------------------------------------------------------------------ */

void sg_sim_run_coll(sg_sim *m, sg_sim_agent *a, const sg_step *step);
void sg_sim_coll_landed(sg_sim *m, sg_sim_agent *a);

/* ---- sim_launch.c ---------------------------------------------------------------------------- */

void sg_sim_start_launch(sg_sim *m, sg_sim_agent *a);
void sg_sim_run_launch(sg_sim *m, sg_sim_agent *a);
void sg_sim_grow_launch(sg_sim *m, sg_sim_agent *a, int32_t blocks);

/* The vendor's product is done. */
void sg_sim_end_vendor(sg_sim *m, sg_sim_agent *a);

/* ---- sim_product.c --------------------------------------------------------------------------- */

/* Bytes of a patch's rows and of its result. */
double sg_sim_row_bytes(const sg_sched *s, const sg_patch *p);

/* Bytes that a patch moves behind that, while its blocks have nothing to multiply: addends, of
 * which tagged ones are read and put back to rest, and sums so far that are left for another. */
double sg_sim_late_bytes(const sg_sched *s, const sg_patch *p);

/* SMs that have no tile leave power and a cache's bandwidth to those that do: of A's launch tiles
 * are left, or so many SMs are not wanted. */
double sg_sim_beside_idle(const sg_machine *machine, const sg_sim_agent *a);

/* By how much what RANK does at the same time slows its tiles down. */
double sg_sim_contention(const sg_sim *m, int rank);

/* A visit of US while storers of the launch carry pushes: until the last of them has left, the
 * product is slower. */
double sg_sim_beside_pushes(const sg_sim *m, int rank, double us);

/* What a tile of P takes from its last addend's flag on: what is done to the sum (of 14 all-reduces
 * in slices on two H200s, which end in bias, relu, gelu or silu, 20 % too low without), and, where
 * all tiles are multiplied at once, so that there is no other product to add beside, addends behind
 * the first (four H200s: 256x6144x6144 scattered 67 us, priced at 56 without this;
 * results/gpu/unseen_4xh200_v1.json).  More than two have not been measured. */
double sg_sim_behind_us(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                        const sg_sim_agent *a, const sg_patch *p);

/* Do blocks of L multiply another tile while one of P waits for its addends?  They have two under
 * way (ping-pong); or it is who stores that waits. */
bool sg_sim_waits_pingpong(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                           const sg_patch *p, double us);

/* Tiles of a launch that are multiplied. */
double sg_sim_products(const sg_sched *s, const sg_launch *l);

/* A visit of a patch, whose tiles share what the memory gives with all that are under way. */
double sg_sim_visit_us(const sg_sim *m, const sg_sched *s, const sg_launch *l,
                       const sg_sim_agent *a);

/* A launch of the vendor's product. */
typedef struct sg_sim_vendors {
    double rows, cols, depth;
    double share; /* of the machine's SMs */
    double bytes; /* of its operands and its result */
    bool final;   /* bias and activation follow */
} sg_sim_vendors;

/* What it takes, begun at BEGIN.  It has no waves: libraries split k and choose among many tiles.
 * Only a product of few tiles and deep k shows, and such as ends in a gate, which is ours. */
double sg_sim_vendor_us(const sg_machine *machine, const sg_problem *problem,
                        const sg_sim_vendors *of, double begin);

/* Of a launch of such a product, where rows of k or n elements are no multiples of 16 bytes: a GPU
 * multiplies copies (backend/cuda/even.c), which are read and stored once more.  An H200 copies 127
 * MB of B at 2.5 TB/s (results/gpu/odd_h200_v2.json). */
double sg_sim_copied_us(const sg_machine *machine, const sg_problem *problem, double rows,
                        double cols, double depth);

/* Storing the last tiles of the vendor's product, which are dealt to all SMs: the machine's
 * epilogue_us is that of one of its first shape. */
double sg_sim_vendor_epilogue_us(const sg_machine *machine, double rows, double cols);

/* The same of a launch of our own, whose threads store rows side by side.  Sums of tagged data have
 * been counted with what they wait for.  A gather of one wave stores small tiles sooner, unless it
 * takes rows: two H200s, 320 to 640x3072x4096 in 128x96 and 64x256 at 31 to 37 us, predicted within
 * 5 % so and up to 2 us more without (results/gpu/rows_2xh200_v2.json). */
double sg_sim_epilogue_us(const sg_sim *m, const sg_sched *s, const sg_launch *l);

/* The product of a whole problem, alone, as the vendor computes it. */
double sg_sim_alone_us(const sg_machine *machine, const sg_problem *problem, double rows);

/* What of that depends on neither multiply-adds nor operands. */
double sg_sim_overhead_us(const sg_machine *machine, const sg_problem *problem, double rows);

/* ---- sim_reads.c ----------------------------------------------------------------------------- */

/* What DEPTH of k takes at least, stage behind stage, however small a tile is. */
double sg_sim_stages_us(const sg_machine *machine, double depth);

/* Has a launch so many patches that walking their list shows? */
enum { SG_SIM_FEW_PATCHES = 8 };
bool sg_sim_has_many(const sg_machine *machine, const sg_sched *s, const sg_launch *l);

/* What a patch reads of B, once. */
double sg_sim_b_bytes(const sg_sched *s, const sg_patch *p);

/* A part of B that a cache holds costs the memory little when it is read again. */
bool sg_sim_is_held(const sg_sim *m, double bytes);

/* Finds the stretch of the next tile's patch, and who reads B in step with it. */
void sg_sim_find_step(const sg_sim *m, const sg_sched *s, const sg_launch *l, sg_sim_agent *a);

/* Bytes of B that the next tile's patch reads: its part, by tiles, of what those in step read once;
 * for each group of bands, if no cache holds it, but groups of the same wave are in step, too.
 * APART: the part of it that all read for themselves. */
double sg_sim_b_read(const sg_sim *m, const sg_sched *s, const sg_launch *l, const sg_sim_agent *a,
                     double apart);

/* Of stretches that would read B in step, the part of B that each reads for itself: what the MATH
 * of its rows holds back stays side by side, what waits for a MEMORY that takes as long does not
 * get B twice for one reading (two H200s: rows of two owners, 64x8192x14336 scattered 101 us,
 * predicted 71 in step and 112 apart, and 128x28672x8192 gathered 208 without a link, predicted 133
 * and 236).  Who begins later and is FED a part of what it multiplies does not come up with who is
 * ahead, though that one waits for the memory (four H200s: 256x14336x8192 gathered in 64x256
 * 176 us, predicted 120 in step and 241 apart; results/gpu/unseen_4xh200_v2.json). */
double sg_sim_apart(double memory, double math, double fed);

/* What a tile of P takes at least, however fast it is multiplied: until A and B are there, where
 * their lines are odd, and until the tile before has left, where that takes longer. */
double sg_sim_least_us(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                       const sg_patch *p, int32_t tile_n);

/* Are sums made where they are stored in launch L, whose last patch is then one of these? */
bool sg_sim_launch_adds_onto(const sg_sched *s, const sg_launch *l);

/* ---- sim_tiles.c ----------------------------------------------------------------------------- */

/* Moves *START to when tile TILE of a patch can start so that it never stands still; returns a flag
 * that is missing for that, or NULL. */
sg_sim_slot *sg_sim_tile_start(sg_sim *m, sg_sim_agent *a, const sg_launch *l, const sg_patch *p,
                               int32_t tile, double visit, double *start);

/* Forgets when bands are ready, at the start of a patch. */
void sg_sim_forget_bands(sg_sim *m, sg_sim_agent *a, const sg_launch *l, const sg_patch *p);

bool sg_sim_waits_by_tile(const sg_sched *s, const sg_patch *p);

/* Does the launch store tagged data, here? */
bool sg_sim_is_tagged(const sg_sim *m, const sg_sched *s, const sg_launch *l);

/* Begin and end of a run that peers take part in. */
double sg_sim_run_us(const sg_machine *machine);

/* Stores TILES tiles from TILE0 of a patch, ROUNDS by each of BLOCKS blocks, the first round now,
 * one more every STEP_US: raises behind them, flows for what goes to peers. */
void sg_sim_store_tiles(sg_sim *m, sg_sim_agent *a, const sg_launch *l, int32_t patch,
                        int32_t tile0, int32_t tiles, int32_t rounds, int32_t blocks,
                        double step_us);

/* How long a block cannot go on since its math threads store a tile of tagged data to all peers,
 * while so many BLOCKS do. */
double sg_sim_own_stores_us(const sg_sim *m, const sg_sched *s, const sg_launch *l,
                            const sg_patch *p, double blocks);

/* Staging memory is free: groups of the agent's launch that wait for some look again. */
void sg_sim_unstall(sg_sim *m, sg_sim_agent *a);

/* A flow of stored tiles is there. */
void sg_sim_tiles_landed(sg_sim *m, const sg_sim_flow *flow);

/* ---- sim_pool.c ------------------------------------------------------------------------------ */

bool sg_sim_set_pool(sg_sim *m);
void sg_sim_pool_landed(sg_sim *m, sg_sim_agent *a, const sg_sim_batch *batch);
void sg_sim_open_units(sg_sim *m, sg_sim_agent *a);
void sg_sim_worker_act(sg_sim *m, int32_t worker);
void sg_sim_wake_workers(sg_sim *m, double time);

#endif
