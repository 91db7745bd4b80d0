/* recover.c -- a group that has failed becomes usable again when all ranks have asked for it. */
#include "core/recover.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static bool has_come(const sg_group *group, int rank)
{
    return __atomic_load_n(&group->came[rank], __ATOMIC_RELAXED);
}

static void set_come(sg_group *group, int rank, bool comes)
{
    __atomic_store_n(&group->came[rank], comes, __ATOMIC_RELAXED);
}

shingle_status sg_recover_run(sg_bound *bound, const shingle_tensors *tensors, void *stream,
                              unsigned kinds)
{
    const shingle_comm *const comm = bound->owner;
    sg_group *const group = comm->group;
    if (!has_come(group, comm->rank)) return sg_exec_run(bound, tensors, stream, kinds);
    pthread_mutex_lock(&group->mutex); /* nobody recovers meanwhile, and drops this run */
    const shingle_status status = sg_exec_run(bound, tensors, stream, kinds);
    if (status == SHINGLE_OK) set_come(group, comm->rank, false);
    pthread_mutex_unlock(&group->mutex);
    return status;
}

static bool all_came(const sg_group *group)
{
    for (int r = 0; r < group->ranks; r++)
        if (!has_come(group, r)) return false;
    return true;
}

static shingle_status nobody_else_came(const sg_group *group, int rank, double seconds)
{
    char names[64];
    sg_text text = {names, sizeof names, 0};
    bool missing[SG_LOCAL_RANKS];
    for (int r = 0; r < group->ranks; r++) missing[r] = !has_come(group, r);
    sg_text_add_ranks(&text, missing, group->ranks);
    return sg_fail(SHINGLE_ETIMEOUT,
                   "rank %d waits %g s for shingle_recover of %s; it need not call again", rank,
                   seconds, names);
}

/* The last rank has come and tries.  If only time was too short, the others still count as come and
 * wait on, and this one may try again.  What else fails is told to all. */
static shingle_status try_recover(sg_group *group, int rank, double seconds)
{
    const double limit = seconds > group->timeout_seconds ? seconds : group->timeout_seconds;
    const shingle_status status = group->backend->recover(group->self, group->work, limit);
    if (status == SHINGLE_ETIMEOUT) {
        set_come(group, rank, false);
        return status;
    }
    for (int r = 0; r < group->ranks; r++) set_come(group, r, false);
    if (status == SHINGLE_OK) group->recoveries++;
    pthread_cond_broadcast(&group->recovered);
    return status;
}

/* A rank that has come counts as here even if it gives up waiting, until it runs again, so that one
 * thread can bring all ranks one after the other with a limit of zero: the last one's recovers. */
shingle_status shingle_recover(shingle_comm *comm, double seconds)
{
    if (comm == NULL) return sg_fail(SHINGLE_EINVAL, "no comm to recover");
    SG_TRY(sg_comm_check_here(comm));
    SG_TRY(sg_comm_check_seconds(seconds));
    sg_group *const group = comm->group;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;

    pthread_mutex_lock(&group->mutex);
    const uint64_t before = group->recoveries;
    shingle_status status = SHINGLE_OK;
    set_come(group, comm->rank, true);
    if (all_came(group)) {
        status = try_recover(group, comm->rank, seconds);
    } else {
        int error = 0;
        while (group->recoveries == before && has_come(group, comm->rank) && error != ETIMEDOUT)
            error = pthread_cond_timedwait(&group->recovered, &group->mutex, &until);
        if (group->recoveries == before && has_come(group, comm->rank))
            status = nobody_else_came(group, comm->rank, seconds);
        else if (group->recoveries == before)
            status =
                sg_fail(SHINGLE_EBACKEND, "rank %d: the backend could not recover", comm->rank);
    }
    pthread_mutex_unlock(&group->mutex);
    return status;
}

/* The last one that comes recovers. */
static shingle_status recover_all(const sg_group *group)
{
    for (int r = 0; r < group->ranks - 1; r++) (void)shingle_recover(group->comm[r], 0);
    return shingle_recover(group->comm[group->ranks - 1], 0);
}

shingle_status sg_recover_mend(const sg_group *group)
{
    bool rests = true;
    char why[512];
    snprintf(why, sizeof why, "%s", shingle_error());
    for (int r = 0; r < group->ranks; r++)
        rests &= group->backend->sync(group->self, r, 0) == SHINGLE_OK;
    const shingle_status mended = rests ? SHINGLE_OK : recover_all(group);
    if (mended != SHINGLE_OK) sg_log(SG_LOG_ERROR, "after %s: %s", why, shingle_error());
    sg_fail(SHINGLE_EBACKEND, "%s", why);
    return mended;
}
