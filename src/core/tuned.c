/* tuned.c -- see tuned.h. */
#include "core/tuned.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/bench.h"
#include "core/planner.h"

/* Without measuring the choice is a function of problem and options, so an entry that has left the
 * list is chosen again alike; the oldest leaves. */
enum { MOST_PLANS = 1024 };

typedef struct choice {
    char *key;
    shingle_plan *plan;
} choice;

struct sg_tuned {
    pthread_mutex_t mutex; /* held while planning, so that others wait for the choice */
    choice *choice;
    int32_t choices, room;
    int32_t oldest;
};

sg_tuned *sg_tuned_new(void)
{
    sg_tuned *const tuned = calloc(1, sizeof *tuned);
    if (tuned != NULL) pthread_mutex_init(&tuned->mutex, NULL);
    return tuned;
}

static void forget(choice *c)
{
    free(c->key);
    sg_plan_free(c->plan);
    *c = (choice){NULL, NULL};
}

void sg_tuned_free(sg_tuned *tuned)
{
    if (tuned == NULL) return;
    for (int32_t i = 0; i < tuned->choices; i++) forget(&tuned->choice[i]);
    free(tuned->choice);
    pthread_mutex_destroy(&tuned->mutex);
    free(tuned);
}

/* What was asked: the problem's canonical text and every option. */
static char *make_key(const sg_problem *problem, const shingle_plan_options *options)
{
    const char *const strategy = options->strategy != NULL ? options->strategy : "";
    const size_t room = sg_problem_print(problem, NULL, 0) + strlen(strategy) + 64;
    char *const key = malloc(room);
    if (key == NULL) return NULL;
    sg_text text = {key, room, sg_problem_print(problem, key, room)};
    sg_text_add(&text, " %s %d %g", strategy, options->measure, options->measure_seconds);
    return key;
}

static const shingle_plan *find(const sg_tuned *tuned, const char *key)
{
    for (int32_t i = 0; i < tuned->choices; i++)
        if (strcmp(tuned->choice[i].key, key) == 0) return tuned->choice[i].plan;
    return NULL;
}

/* Takes what FRESH holds, on success. */
static shingle_status keep(sg_tuned *tuned, const choice *fresh)
{
    if (tuned->choices == MOST_PLANS) {
        forget(&tuned->choice[tuned->oldest]);
        tuned->choice[tuned->oldest] = *fresh;
        tuned->oldest = (tuned->oldest + 1) % MOST_PLANS;
        return SHINGLE_OK;
    }
    if (!sg_grow(&tuned->choice, &tuned->room, (int64_t)tuned->choices + 1, sizeof *tuned->choice))
        return sg_fail(SHINGLE_ENOMEM, "no memory to keep a plan");
    tuned->choice[tuned->choices++] = *fresh;
    return SHINGLE_OK;
}

static shingle_status choose(shingle_comm *comm, const sg_problem *problem,
                             const shingle_plan_options *options, shingle_plan **plan_out)
{
    sg_group *const group = comm->group;
    sg_machine machine = *sg_comm_machine(comm, problem->type);
    /* The group exists, whatever number of ranks the machine's file speaks of. */
    if (machine.ranks < group->ranks) machine.ranks = group->ranks;
    if (options->measure <= 0)
        return sg_planner_choose(problem, &machine, options, NULL, &group->can, plan_out);
    sg_bench *bench = NULL;
    SG_TRY(sg_bench_open(group, problem, 1, &bench));
    const sg_stopwatch watch = {sg_bench_watch, bench};
    const shingle_status status =
        sg_planner_choose(problem, &machine, options, &watch, &group->can, plan_out);
    sg_bench_close(bench);
    return status;
}

static shingle_status plan_locked(sg_tuned *tuned, shingle_comm *comm, const sg_problem *problem,
                                  const shingle_plan_options *options, shingle_plan **plan_out)
{
    char *const key = make_key(problem, options);
    if (key == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to keep a plan");
    const shingle_plan *const known = find(tuned, key);
    if (known != NULL) {
        free(key);
        return sg_plan_copy(known, plan_out);
    }
    choice fresh = {key, NULL};
    shingle_plan *copy = NULL;
    shingle_status status = choose(comm, problem, options, &fresh.plan);
    if (status == SHINGLE_OK) status = sg_plan_copy(fresh.plan, &copy);
    if (status == SHINGLE_OK) status = keep(tuned, &fresh);
    if (status != SHINGLE_OK) {
        forget(&fresh);
        sg_plan_free(copy);
        return status;
    }
    *plan_out = copy;
    return SHINGLE_OK;
}

shingle_status sg_tuned_plan(shingle_comm *comm, const sg_problem *problem,
                             const shingle_plan_options *given, shingle_plan **plan_out)
{
    shingle_plan_options options = {0};
    if (given != NULL) options = *given;
    if (problem->ranks != comm->group->ranks)
        return sg_fail(SHINGLE_EINVAL, "the problem has %d ranks; this group has %d",
                       problem->ranks, comm->group->ranks);
    sg_tuned *const tuned = comm->group->tuned;
    pthread_mutex_lock(&tuned->mutex);
    const shingle_status status = plan_locked(tuned, comm, problem, &options, plan_out);
    pthread_mutex_unlock(&tuned->mutex);
    return status;
}

shingle_status shingle_plan_create(shingle_comm *comm, const char *problem,
                                   const shingle_plan_options *options, shingle_plan **plan_out)
{
    if (comm == NULL || plan_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no comm or no place for the plan; both are needed");
    sg_problem parsed;
    SG_TRY(sg_problem_parse(problem, &parsed));
    shingle_plan *plan = NULL;
    shingle_status status = sg_tuned_plan(comm, &parsed, options, &plan);
    sg_problem_free(&parsed);
    SG_TRY(status);
    status = sg_comm_bind(comm, plan);
    if (status != SHINGLE_OK) {
        sg_plan_free(plan);
        return status;
    }
    *plan_out = plan;
    return SHINGLE_OK;
}
