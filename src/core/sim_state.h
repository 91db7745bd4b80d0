/* sim_state.h -- what the files of the simulator share: its agents, flags, links and launches.  Nobody
 * else includes it.
 *
 *     sim.c         agents, steps, flags, links
 *     sim_launch.c  blocks of a launch and the tiles they take
 */
#ifndef SG_SIM_STATE_H
#define SG_SIM_STATE_H

#include "core/sim.h"

enum { SG_SIM_GROUPS = 48, SG_NONE = -1 };

/* Blocks of a launch that become free at the same time, and the tiles they are then done with. */
typedef struct sg_sim_group {
    double free_us;
    double visit_us;
    int32_t blocks;
    int32_t patch, tile0, tiles; /* tiles is 0 if nothing is to be stored */
    int32_t rounds;              /* tiles of one block, one behind the other */
} sg_sim_group;

typedef enum sg_sim_phase { SG_AT_AFTER, SG_AT_WAITS, SG_AT_WORK, SG_AT_END } sg_sim_phase;

/* One lane of one rank. */
typedef struct sg_sim_agent {
    double now;
    double begun_us;
    int32_t step;        /* at hand; the schedule's count of steps after the last */
    int32_t after;       /* dependences and flags of the step that are settled */
    int32_t parked_next; /* behind this one at the same flag or step */
    int16_t rank;
    uint8_t lane;
    uint8_t phase;
    /* Of the launch at hand. */
    int32_t patch, tile; /* next to be taken */
    int32_t groups;
    sg_sim_group *group;
    double moment;       /* what is too short to matter: a small part of a visit */
    int32_t ready_patch; /* whose bands `ready` is about */
    double *ready;       /* when the waits of a band end, < 0: not known; NULL: tiles differ */
    double *band;        /* memory of that */
    int32_t band_room;
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

typedef struct sg_sim_rank {
    double out_us, in_us; /* links are taken up to then */
    double engine_us;
    double coll_us; /* a collective holds coll_sms until then */
    double end_us;
    int32_t coll_sms;
    int32_t running; /* launch at hand, SG_NONE */
    int32_t running_blocks;
    int32_t step0; /* of the rank in the table of steps */
} sg_sim_rank;

typedef struct sg_sim_coll {
    double time;
    int32_t arrived;
    int32_t parked;
} sg_sim_coll;

typedef struct sg_sim {
    const sg_sched *sched;
    const sg_machine *machine;
    int ranks;
    sg_span_fn visitor;
    void *context;
    sg_sim_agent *agents;
    int32_t agent_count;
    int32_t *heap; /* agents by time */
    int32_t heaped;
    sg_sim_slot *slots;
    uint64_t slot_mask;
    sg_sim_step *steps;
    sg_sim_rank *rank;
    sg_sim_coll *colls;
    int32_t coll_count;
    sg_sim_group *groups;
    sg_arena *arena;
    int32_t edge_m, edge_n; /* tiles cost multiples of this */
} sg_sim;

/* ---- sim.c ------------------------------------------------------------------------------------------ */

double sg_sim_transfer_us(double bytes, double gbps);
double sg_sim_area_bytes(const sg_sched *s, const sg_area *area);

/* The agent goes on at its time; it is parked until a list is woken. */
void sg_sim_push(sg_sim *m, int32_t agent);
void sg_sim_park(sg_sim *m, sg_sim_agent *a, int32_t *parked);

/* COUNT raisers of one flag of S are done; TIME is when the flag is seen. */
void sg_sim_raise(sg_sim *m, const sg_sched *s, const sg_raise *r, int32_t i, int32_t count,
                  double time);

/* Moves *TIME to when rank AT sees all flags of F by BY; returns one that is missing, or NULL. */
sg_sim_slot *sg_sim_see(sg_sim *m, int at, int by, struct sg_flags f, double *time);

/* Sends BYTES from one rank to another, not before TIME; when they are there. */
double sg_sim_send(sg_sim *m, int from, int to, double time, double bytes, double gbps);

/* Tells the visitor; GROUP is NULL for a whole step. */
void sg_sim_tell(const sg_sim *m, const sg_sim_agent *a, const sg_sim_group *group, double begin,
                 double end);

/* The step at hand ends at END: its raises, whoever waits for it, the lane's next step. */
void sg_sim_end_step(sg_sim *m, sg_sim_agent *a, double end);

/* ---- sim_launch.c ------------------------------------------------------------------------------------ */

/* Starts a launch, or parks behind one that holds the blocks it needs. */
void sg_sim_start_launch(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_launch *l);

/* Does the next thing of a launch. */
void sg_sim_run_launch(sg_sim *m, sg_sim_agent *a, const sg_sched *s, const sg_launch *l);

#endif
