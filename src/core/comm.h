/* comm.h -- the ranks of one process: their backend, machine, words, workspace and plans. */
#ifndef SG_COMM_H
#define SG_COMM_H

#include <pthread.h>

#include "core/exec.h"
#include "core/plan.h"
#include "core/planner.h"

typedef struct sg_group {
    int ranks;
    const sg_backend *backend;
    void *self;
    sg_machine machine;              /* what plans are made for: machine_of[SG_BF16] */
    sg_machine machine_of[SG_TYPES]; /* a scale model has other rates of links for each type */
    shingle_machine handle;          /* of `machine`, for shingle_comm_machine */
    sg_able can;                     /* what the backend carries out */
    double timeout_seconds;
    unsigned forks; /* of this process when the group was opened */
    sg_work **work;
    shingle_comm **comm;
    struct sg_tuned *tuned;         /* plans that ranks have chosen (tuned.h) */
    struct sg_recording *recording; /* of a run, or NULL (recording.h) */

    /* Guards all below, and binding. */
    pthread_mutex_t mutex;
    pthread_cond_t recovered;
    struct sg_bound *late; /* whose runs outlived their plans: freed with the group */
    bool *came;            /* ranks that wait in shingle_recover, or have given that up: atomic */
    uint64_t recoveries;
} sg_group;

struct shingle_comm {
    sg_group *group;
    int rank;
    shingle_plan **plan; /* bound here; freed with the comm */
    int32_t plans, plan_room;
};

/* Builds and seals the rank's schedule and gives it memory.  The comm owns the plan from then
 * on. */
shingle_status sg_comm_bind(shingle_comm *comm, shingle_plan *plan);

/* Waits for the plan's runs, bounded, and takes it from its comm; takes plans that are not
 * bound. */
void sg_comm_unbind(shingle_plan *plan);

/* As shingle_run_tensors.  KINDS: bit mask 1u << sg_kind of the steps to carry out, ~0u for all.
 * Plans with flags run whole. */
shingle_status sg_comm_run(shingle_plan *plan, const shingle_tensors *tensors, void *stream,
                           unsigned kinds);

/* SHINGLE_EINVAL in a forked child, which has the group's memory and none of its threads. */
shingle_status sg_comm_check_here(const shingle_comm *comm);

/* A limit that a caller gives. */
shingle_status sg_comm_check_seconds(double seconds);

/* SHINGLE_EINVAL unless COMM are all RANKS comms of one group, in rank order. */
shingle_status sg_comm_check_all(int ranks, shingle_comm *const *comm);

/* SHINGLE_EINVAL if a rank of GROUP has runs in flight that do not end within SECONDS. */
shingle_status sg_comm_check_idle(const sg_group *group, double seconds);

/* The same, and what has failed if that stands: it is the caller's to recover from, who is told by
 * shingle_sync. */
shingle_status sg_comm_check_sound(const sg_group *group, double seconds);

/* SHINGLE_EUNSUPPORTED where ranks share a device: what WHAT finds out there
 * is true of no other group. */
shingle_status sg_comm_check_times(const shingle_comm *comm, const char *what);

/* The machine that problems of TYPE are planned for, as its file says. */
const sg_machine *sg_comm_machine(const shingle_comm *comm, sg_type type);

/* The same, reaching all ranks of the group: it exists, whatever number the file speaks of. */
sg_machine sg_comm_machine_here(const shingle_comm *comm, sg_type type);

#endif
