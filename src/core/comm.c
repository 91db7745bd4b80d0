/* comm.c -- see comm.h. */
#include "core/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/env.h"
#include "core/recording.h"
#include "core/recover.h"
#include "core/tuned.h"

static const double default_timeout_seconds = 10;
static const double default_scale_rows = 16;
static const double closing_seconds = 5; /* for what is under way, at least */

/* ---- Forks ----------------------------------------------------------------------------------- */

static unsigned forks; /* behind which this process is */
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    forks++;
}

static void count_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

static bool is_inherited(const sg_group *group)
{
    return group->forks != forks;
}

shingle_status sg_comm_check_here(const shingle_comm *comm)
{
    if (!is_inherited(comm->group)) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL,
                   "the group of rank %d was opened before this process was forked, and has no "
                   "threads here; a group of its own is possible",
                   comm->rank);
}

/* ---- Open ------------------------------------------------------------------------------------ */

static void free_group(sg_group *group)
{
    if (group->work != NULL) sg_work_close(group->ranks, group->work);
    if (group->self != NULL) group->backend->close(group->self);
    pthread_cond_destroy(&group->recovered);
    pthread_mutex_destroy(&group->mutex);
    for (int r = 0; group->comm != NULL && r < group->ranks; r++) free(group->comm[r]);
    sg_tuned_free(group->tuned);
    free(group->comm);
    free(group->work);
    free(group->came);
    free(group);
}

static shingle_status new_group(int ranks, sg_group **group_out)
{
    sg_group *const group = calloc(1, sizeof *group);
    if (group == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a group of %d ranks", ranks);
    group->ranks = ranks;
    pthread_once(&forks_once, count_forks);
    group->forks = forks;
    pthread_mutex_init(&group->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&group->recovered, &attributes);
    pthread_condattr_destroy(&attributes);
    group->comm = calloc((size_t)ranks, sizeof *group->comm);
    group->work = calloc((size_t)ranks, sizeof(sg_work *));
    group->came = calloc((size_t)ranks, sizeof *group->came);
    group->tuned = sg_tuned_new();
    bool complete =
        group->comm != NULL && group->work != NULL && group->came != NULL && group->tuned != NULL;
    for (int r = 0; complete && r < ranks; r++) {
        group->comm[r] = calloc(1, sizeof(shingle_comm));
        complete = group->comm[r] != NULL;
        if (complete) *group->comm[r] = (shingle_comm){.group = group, .rank = r};
    }
    if (complete) {
        *group_out = group;
        return SHINGLE_OK;
    }
    free_group(group);
    return sg_fail(SHINGLE_ENOMEM, "no memory for a group of %d ranks", ranks);
}

/* Settings with defaults filled in: from the environment, else our own. */
static shingle_status read_config(const shingle_config *given, shingle_config *config_out)
{
    shingle_config c = {0};
    if (given != NULL) c = *given;
    c.backend = sg_given(c.backend);
    c.machine = sg_given(c.machine);
    c.scale_of = sg_given(c.scale_of);
    c.plans = sg_given(c.plans);
    if (c.timeout_seconds != 0 && !(c.timeout_seconds >= 0.001 && c.timeout_seconds <= 86400))
        return sg_fail(SHINGLE_EINVAL, "timeout_seconds is %g; 0 (default) or 0.001 to 86400",
                       c.timeout_seconds);
    if (!(c.scale_rows >= 0) || !(c.scale_rows <= 1e6))
        return sg_fail(SHINGLE_EINVAL, "scale_rows is %g; 0 (default) to 1000000", c.scale_rows);
    if (c.scale_rows > 0 && c.scale_of == NULL)
        return sg_fail(SHINGLE_EINVAL,
                       "scale_rows is %g without scale_of; 0, or a machine file as scale_of, is "
                       "accepted",
                       c.scale_rows);
    if (c.threads < 0 || c.threads > 1024)
        return sg_fail(SHINGLE_EINVAL, "threads is %d; 0 (cores) to 1024", c.threads);
    if (c.threads == 0) SG_TRY(sg_env_count("SHINGLE_THREADS", 1, 1024, 0, &c.threads));
    if (c.timeout_seconds == 0)
        SG_TRY(sg_env_number("SHINGLE_TIMEOUT", 0.001, 86400, default_timeout_seconds,
                             &c.timeout_seconds));
    if (c.backend == NULL) c.backend = sg_given(sg_env("SHINGLE_BACKEND"));
    if (c.machine == NULL) c.machine = sg_given(sg_env("SHINGLE_MACHINE"));
    if (c.plans == NULL) c.plans = sg_given(sg_env("SHINGLE_PLANS"));
    if (c.scale_rows == 0) c.scale_rows = default_scale_rows;
    *config_out = c;
    return SHINGLE_OK;
}

/* Is VALUE of a setting that of NAME in the environment, as read_config() has taken it? */
static bool is_of_env(const char *value, const char *name)
{
    return value != NULL && value == sg_env(name);
}

static shingle_status find_backend(const char *name, const sg_backend **backend_out)
{
    *backend_out = name != NULL ? sg_backend_find(name) : sg_backend_at(0);
    if (*backend_out != NULL) return SHINGLE_OK;
    char names[128];
    sg_text text = {names, sizeof names, 0};
    for (int i = 0; sg_backend_at(i) != NULL; i++)
        sg_text_add(&text, "%s%s", i > 0 ? ", " : "", sg_backend_at(i)->name);
    const char *const option = name != NULL ? sg_backend_option(name) : NULL;
    return sg_fail(option ? SHINGLE_EUNSUPPORTED : SHINGLE_EINVAL,
                   "%sno backend \"%.40s\"; there are: %s%s%s%s%s",
                   is_of_env(name, "SHINGLE_BACKEND") ? "SHINGLE_BACKEND: " : "",
                   name != NULL ? name : "", names, option ? "; " : "", option ? name : "",
                   option ? " is built in by cmake " : "", option ? option : "");
}

/* The machine file at PATH, which WHO names, for RANKS at most. */
static shingle_status read_machine(const char *who, const char *path, int ranks,
                                   sg_machine *machine_out)
{
    const shingle_status status = sg_machine_read(path, machine_out);
    if (status != SHINGLE_OK) return sg_fail(status, "%s: %s", who, shingle_error());
    if (ranks <= machine_out->ranks) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL, "%s: machine %s reaches %d ranks; the group has %d", who,
                   machine_out->name, machine_out->ranks, ranks);
}

static shingle_status open_machine(sg_group *group, const shingle_config *config)
{
    const char *const path = config->machine;
    const char *const who = is_of_env(path, "SHINGLE_MACHINE") ? "SHINGLE_MACHINE" : "machine";
    if (path != NULL) SG_TRY(read_machine(who, path, group->ranks, &group->machine));
    for (int type = 0; type < SG_TYPES; type++) {
        sg_machine *const machine = &group->machine_of[type];
        if (path != NULL)
            *machine = group->machine;
        else
            SG_TRY(group->backend->describe(group->self, (sg_type)type, machine));
    }
    group->machine = group->machine_of[SG_BF16];
    sg_machine_handle(&group->machine, &group->handle);
    return SHINGLE_OK;
}

static shingle_status open_group(sg_group *group, const shingle_config *config)
{
    sg_machine scale_of;
    if (config->scale_of != NULL)
        SG_TRY(read_machine("scale_of", config->scale_of, group->ranks, &scale_of));
    SG_TRY(find_backend(config->backend, &group->backend));
    for (int kind = 0; kind < SG_KINDS; kind++)
        group->can.kind[kind] = group->backend->issue[kind] != NULL;
    group->can.accepts = group->backend->accepts;
    group->can.keeps_order = group->backend->keeps_order;
    group->timeout_seconds = config->timeout_seconds;
    const sg_backend_config settings = {
        .ranks = group->ranks,
        .threads = config->threads,
        .timeout_seconds = config->timeout_seconds,
        .scale_of = config->scale_of != NULL ? &scale_of : NULL,
        .scale_rows = config->scale_rows,
    };
    SG_TRY(group->backend->open(&settings, &group->self));
    group->can.self = group->self;
    SG_TRY(sg_work_open(group->ranks, group->backend, group->self, group->work));
    SG_TRY(open_machine(group, config));
    const shingle_status status =
        sg_tuned_open(group, config, config->scale_of != NULL ? &scale_of : NULL);
    if (status == SHINGLE_OK || !is_of_env(config->plans, "SHINGLE_PLANS")) return status;
    return sg_fail(status, "SHINGLE_PLANS: %s", shingle_error());
}

shingle_status shingle_open(int ranks, const shingle_config *given, shingle_comm **comm_out)
{
    if (comm_out == NULL) return sg_fail(SHINGLE_EINVAL, "no place for the comms");
    if (ranks < 1 || ranks > SG_LOCAL_RANKS)
        return sg_fail(SHINGLE_EINVAL, "%d ranks; a process has 1 to %d", ranks, SG_LOCAL_RANKS);
    shingle_config config = {0};
    SG_TRY(read_config(given, &config));
    sg_group *group = NULL;
    SG_TRY(new_group(ranks, &group));
    const shingle_status status = open_group(group, &config);
    if (status != SHINGLE_OK) {
        free_group(group);
        return status;
    }
    memcpy(comm_out, group->comm, (size_t)ranks * sizeof(shingle_comm *));
    return SHINGLE_OK;
}

/* Are all comms of GROUP among COMM? */
static bool is_whole(const sg_group *group, int ranks, shingle_comm *const *comm)
{
    for (int r = 0; r < group->ranks; r++) {
        int at = 0;
        while (at < ranks && comm[at] != group->comm[r]) at++;
        if (at == ranks) return false;
    }
    return true;
}

static shingle_status close_group(sg_group *group)
{
    if (is_inherited(group)) return SHINGLE_OK; /* there is nobody to stop */
    const double limit =
        group->timeout_seconds > closing_seconds ? group->timeout_seconds : closing_seconds;
    const shingle_status status = group->backend->recover(group->self, NULL, limit);
    /* Somebody still works in this memory; losing it is better than freeing it. */
    if (status != SHINGLE_OK)
        return sg_fail(status, "closed, but what its runs use must stay, and its memory does: %s",
                       shingle_error());
    for (int r = 0; r < group->ranks; r++) {
        shingle_comm *const c = group->comm[r];
        while (c->plans > 0) shingle_plan_free(c->plan[c->plans - 1]);
        free(c->plan);
    }
    while (group->late != NULL) {
        sg_bound *const bound = group->late;
        group->late = bound->next;
        (void)sg_exec_free(bound); /* nothing runs any more */
    }
    sg_recording_drop(group);
    free_group(group);
    return SHINGLE_OK;
}

/* Closes the group of COMM[FIRST], if it is there as a whole. */
static shingle_status close_group_of(int ranks, shingle_comm **comm, int first)
{
    sg_group *const group = comm[first]->group;
    if (!is_whole(group, ranks, comm))
        return sg_fail(SHINGLE_EINVAL,
                       "rank %d of a group of %d is given without all others; it stays open, and "
                       "all comms of one shingle_open close together",
                       comm[first]->rank, group->ranks);
    for (int i = first; i < ranks; i++)
        if (comm[i] != NULL && comm[i]->group == group) comm[i] = NULL;
    return close_group(group);
}

shingle_status shingle_close(int ranks, shingle_comm **comm)
{
    shingle_status worst = SHINGLE_OK;
    char why[512] = "";
    if (ranks < 0) return sg_fail(SHINGLE_EINVAL, "%d comms to close; 0 or more", ranks);
    for (int r = 0; comm != NULL && r < ranks; r++) {
        if (comm[r] == NULL) continue;
        const shingle_status status = close_group_of(ranks, comm, r);
        /* Memory that must stay is worse than a group that is still there. */
        if (status == SHINGLE_OK || (worst != SHINGLE_OK && status == SHINGLE_EINVAL)) continue;
        worst = status;
        snprintf(why, sizeof why, "%s", shingle_error());
    }
    return worst == SHINGLE_OK ? SHINGLE_OK : sg_fail(worst, "%s", why);
}

/* ---- All comms of a group ---------------------------------------------------------------- */

shingle_status sg_comm_check_all(int ranks, shingle_comm *const *comm)
{
    if (comm == NULL || ranks < 1 || comm[0] == NULL)
        return sg_fail(SHINGLE_EINVAL, "no comms; all those of one shingle_open are needed");
    sg_group *const group = comm[0]->group;
    for (int r = 0; r < ranks; r++)
        if (ranks != group->ranks || comm[r] != group->comm[r])
            return sg_fail(SHINGLE_EINVAL,
                           "%d comms of a group of %d; all are needed, in rank order", ranks,
                           group->ranks);
    return sg_comm_check_here(comm[0]);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

const sg_machine *sg_comm_machine(const shingle_comm *comm, sg_type type)
{
    return &comm->group->machine_of[type];
}

sg_machine sg_comm_machine_here(const shingle_comm *comm, sg_type type)
{
    sg_machine machine = *sg_comm_machine(comm, type);
    if (machine.ranks < comm->group->ranks) machine.ranks = comm->group->ranks;
    return machine;
}

const shingle_machine *shingle_comm_machine(const shingle_comm *comm)
{
    return comm != NULL ? &comm->group->handle : NULL;
}

static shingle_status bind_plan(shingle_comm *comm, shingle_plan *plan, sg_bound **bound_out)
{
    const sg_group *const group = comm->group;
    if (plan->problem.ranks != group->ranks)
        return sg_fail(SHINGLE_EINVAL, "%s is a plan of %d ranks; this group has %d", plan->text,
                       plan->problem.ranks, group->ranks);
    sg_bound *bound = NULL;
    SG_TRY(sg_exec_create(&plan->problem, plan->hash, plan->text, &bound));
    bound->owner = comm;
    bound->compute = plan->compute;
    bound->compute_context = plan->compute_context;
    shingle_status status =
        sg_plan_build(&bound->problem, plan->strategy, &plan->knobs, comm->rank, &bound->sched);
    for (int32_t i = 0; status == SHINGLE_OK && i < bound->sched.steps; i++)
        if (!group->can.kind[bound->sched.step[i].kind])
            status = sg_fail(SHINGLE_EUNSUPPORTED, "backend %s cannot carry out step %d of %s",
                             group->backend->name, i, plan->text);
    if (status == SHINGLE_OK) status = sg_exec_bind(bound, group->work, comm->rank);
    if (status != SHINGLE_OK) {
        (void)sg_exec_free(bound);
        return status;
    }
    *bound_out = bound;
    return SHINGLE_OK;
}

shingle_status sg_comm_bind(shingle_comm *comm, shingle_plan *plan)
{
    if (plan->bound != NULL) return sg_fail(SHINGLE_EINVAL, "%s is bound already", plan->text);
    shingle_status status = SHINGLE_OK;
    /* Who measures binds plans on all comms, beside the threads that drive them. */
    pthread_mutex_lock(&comm->group->mutex);
    if (!sg_grow(&comm->plan, &comm->plan_room, (int64_t)comm->plans + 1, sizeof(shingle_plan *)))
        status = sg_fail(SHINGLE_ENOMEM, "no memory for another plan of rank %d", comm->rank);
    if (status == SHINGLE_OK) status = bind_plan(comm, plan, &plan->bound);
    if (status == SHINGLE_OK) comm->plan[comm->plans++] = plan;
    pthread_mutex_unlock(&comm->group->mutex);
    return status;
}

void sg_comm_unbind(shingle_plan *plan)
{
    if (plan == NULL || plan->bound == NULL) return;
    shingle_comm *const comm = plan->bound->owner;
    if (is_inherited(comm->group)) {
        plan->bound = NULL;
        return;
    }
    int32_t at = 0;
    pthread_mutex_lock(&comm->group->mutex);
    while (at < comm->plans && comm->plan[at] != plan) at++;
    SG_CHECK(at < comm->plans);
    comm->plan[at] = comm->plan[--comm->plans];
    pthread_mutex_unlock(&comm->group->mutex);
    sg_bound *const bound = plan->bound;
    plan->bound = NULL;
    if (sg_exec_free(bound)) return;
    sg_log(SG_LOG_WARN, "%s is still running; its memory is freed with the group", bound->text);
    pthread_mutex_lock(&comm->group->mutex);
    bound->next = comm->group->late;
    comm->group->late = bound;
    pthread_mutex_unlock(&comm->group->mutex);
}

void shingle_plan_free(shingle_plan *plan)
{
    if (plan == NULL) return;
    sg_comm_unbind(plan);
    sg_plan_free(plan);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

shingle_status sg_comm_run(shingle_plan *plan, const shingle_tensors *tensors, void *stream,
                           unsigned kinds)
{
    if (plan == NULL || tensors == NULL)
        return sg_fail(SHINGLE_EINVAL, "no %s to run", plan == NULL ? "plan" : "tensors");
    if (plan->bound == NULL)
        return sg_fail(SHINGLE_EINVAL, "%s is only data; shingle_plan_create makes plans that run",
                       plan->text);
    const shingle_comm *const comm = plan->bound->owner;
    SG_TRY(sg_comm_check_here(comm));
    return sg_recover_run(plan->bound, tensors, stream, kinds);
}

shingle_status shingle_run_tensors(shingle_plan *plan, const shingle_tensors *tensors, void *stream)
{
    return sg_comm_run(plan, tensors, stream, ~0u);
}

shingle_status shingle_run(shingle_plan *plan, const void *a, const void *b, void *c, void *stream)
{
    const shingle_tensors tensors = {.a = a, .b = b, .c = c};
    if (plan != NULL && (plan->problem.b_count > 1 || plan->problem.return_a ||
                         plan->problem.norm || plan->problem.bias))
        return sg_fail(SHINGLE_EINVAL, "%.200s takes %s: shingle_run_tensors has room for it",
                       plan->text,
                       plan->problem.norm          ? "a residual and a gain"
                       : plan->problem.b_count > 1 ? "several B and C"
                       : plan->problem.return_a    ? "a returned A"
                                                   : "a bias");
    return sg_comm_run(plan, &tensors, stream, ~0u);
}

shingle_status sg_comm_check_seconds(double seconds)
{
    if (seconds >= 0 && seconds <= 1e9) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL, "seconds is %g; 0 to 1e9", seconds);
}

shingle_status shingle_sync(shingle_comm *comm, double seconds)
{
    if (comm == NULL) return sg_fail(SHINGLE_EINVAL, "no comm to wait for");
    SG_TRY(sg_comm_check_here(comm));
    SG_TRY(sg_comm_check_seconds(seconds));
    return comm->group->backend->sync(comm->group->self, comm->rank, seconds);
}

shingle_status sg_comm_check_idle(const sg_group *group, double seconds)
{
    const sg_backend *const backend = group->backend;
    const double until_us = sg_now_us() + seconds * 1e6;
    for (int r = 0; r < group->ranks; r++) {
        int runs = backend->in_flight(group->self, r);
        const double left = (until_us - sg_now_us()) / 1e6;
        if (runs > 0 && left > 0) {
            (void)backend->sync(group->self, r, left);
            runs = backend->in_flight(group->self, r);
        }
        if (runs > 0)
            return sg_fail(SHINGLE_EINVAL, "rank %d has %d run%s in flight; shingle_sync first", r,
                           runs, runs == 1 ? "" : "s");
    }
    return SHINGLE_OK;
}

shingle_status sg_comm_check_sound(const sg_group *group, double seconds)
{
    SG_TRY(sg_comm_check_idle(group, seconds));
    for (int r = 0; r < group->ranks; r++) SG_TRY(group->backend->sync(group->self, r, 0));
    return SHINGLE_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A forked child has the host's memory of its group, and no way to that of a device. */
static shingle_status check_reach(const shingle_comm *comm)
{
    return comm->group->backend->write != NULL ? sg_comm_check_here(comm) : SHINGLE_OK;
}

shingle_status shingle_alloc(shingle_comm *comm, size_t bytes, void **memory_out)
{
    if (comm == NULL || memory_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no comm, or no place for the memory");
    SG_TRY(check_reach(comm));
    const sg_group *const group = comm->group;
    return group->backend->alloc(group->self, comm->rank, SG_USER, bytes, memory_out);
}

void shingle_free(shingle_comm *comm, void *memory)
{
    if (comm == NULL || memory == NULL) return;
    if (check_reach(comm) != SHINGLE_OK) return;
    comm->group->backend->release(comm->group->self, comm->rank, memory);
}

static shingle_status check_move(const shingle_comm *comm, const void *to, const void *from,
                                 size_t bytes)
{
    if (comm == NULL) return sg_fail(SHINGLE_EINVAL, "no comm whose memory it is");
    if (bytes == 0 || (to != NULL && from != NULL)) return check_reach(comm);
    return sg_fail(SHINGLE_EINVAL, "%zu bytes %s NULL", bytes, to == NULL ? "to" : "from");
}

static void move_here(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) memcpy(to, from, bytes);
}

shingle_status shingle_write(shingle_comm *comm, void *to, const void *from, size_t bytes)
{
    SG_TRY(check_move(comm, to, from, bytes));
    const sg_group *const group = comm->group;
    if (group->backend->write != NULL)
        return group->backend->write(group->self, comm->rank, to, from, bytes);
    move_here(to, from, bytes);
    return SHINGLE_OK;
}

shingle_status shingle_read(shingle_comm *comm, void *to, const void *from, size_t bytes)
{
    SG_TRY(check_move(comm, to, from, bytes));
    const sg_group *const group = comm->group;
    if (group->backend->read != NULL)
        return group->backend->read(group->self, comm->rank, to, from, bytes);
    move_here(to, from, bytes);
    return SHINGLE_OK;
}

/* ---- Device ---------------------------------------------------------------------------------- */

shingle_status shingle_comm_device(const shingle_comm *comm, shingle_device *device_out)
{
    if (comm == NULL || device_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no comm, or no place for its device");
    SG_TRY(check_reach(comm));
    const sg_group *const group = comm->group;
    shingle_device device = {.ranks = 0};
    if (group->backend->facts != NULL)
        SG_TRY(group->backend->facts(group->self, comm->rank, false, &device));
    *device_out = device;
    return SHINGLE_OK;
}

shingle_status sg_comm_check_times(const shingle_comm *comm, const char *what)
{
    shingle_device device;
    SG_TRY(shingle_comm_device(comm, &device));
    if (device.ranks <= 1) return SHINGLE_OK;
    return sg_fail(SHINGLE_EUNSUPPORTED,
                   "%d ranks share a device; %s needs one a rank, since times mean nothing here",
                   device.ranks, what);
}
