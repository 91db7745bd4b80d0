/* exec.h -- a plan with addresses, and how a run of it is handed to a backend.  The backend sees
 * begin, issue for each step in list order, end; this file is the only one that knows it. */
#ifndef SG_EXEC_H
#define SG_EXEC_H

#include "core/run.h"

/* A sealed schedule with the memory of one rank's comm. */
typedef struct sg_bound {
    sg_problem problem; /* its own copy: the schedule refers to it */
    sg_sched sched;
    uint64_t hash;
    char *text; /* of the plan, for verdicts: a copy, since runs may outlive the plan */
    shingle_compute compute; /* of a call; otherwise NULL */
    void *compute_context;
    void *owner;           /* the comm; NULL for a backend's own runs */
    struct sg_bound *next; /* of the owner's group: another that outlived its plan */
    sg_work *work;
    uint8_t **sym[2];  /* [half][rank]: each rank's SYM block, as reached from here */
    uint8_t **rest[2]; /* the same of REST */
    uint8_t *local, *library, *windows;
    _Atomic uint32_t *count; /* raisers that have come, per counter; zero at rest */
    void *backend;           /* what the backend keeps from bind to unbind */
} sg_bound;

/* An unbound plan of a copy of PROBLEM.  The caller builds bound->sched, seals it and binds. */
shingle_status sg_exec_create(const sg_problem *problem, uint64_t hash, const char *text,
                              sg_bound **bound_out);

/* Gives BOUND the memory of WORK[rank]; grows all ranks' workspaces to what the plan needs.  One
 * thread at a time for all ranks of a process. */
shingle_status sg_exec_bind(sg_bound *bound, sg_work *const *work, int rank);

/* Undoes both; takes NULL.  Waits for runs in flight, which end or fail within the limit.  False:
 * they do neither, and nothing was freed. */
bool sg_exec_free(sg_bound *bound);

/* Enqueues one run.  KINDS: 1u << sg_kind of the steps to carry out, ~0u for all; a plan with flags
 * runs whole or not at all.  STREAM is the backend's business; NULL: its own.  A backend of host
 * memory takes NULL alone. */
shingle_status sg_exec_run(sg_bound *bound, const shingle_tensors *tensors, void *stream,
                           unsigned kinds);

/* A tensor of the user's, dense or with STRIDE elements from row to row.  Inputs are read alone;
 * one structure serves loads and stores. */
typedef struct sg_user_matrix {
    void *data;
    int64_t stride;
} sg_user_matrix;

/* The tensor that AREA of one of the own user buffers lies in.  AREA becomes the same area of that
 * tensor: it differs where several B, or C, are one buffer to a schedule. */
sg_user_matrix sg_exec_user(const sg_problem *problem, const shingle_tensors *tensors,
                            sg_area *area);

/* Where an area of a run lies. */
typedef struct sg_place {
    uint8_t *data;
    int64_t stride_bytes; /* between rows */
    sg_type type;
} sg_place;

/* A peer's output is known once that peer has said hello. */
sg_place sg_exec_address(const sg_run *run, const sg_area *area);

#endif
