/* tuned.c -- see tuned.h. */
#include "core/tuned.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bench.h"
#include "core/effort.h"
#include "core/env.h"
#include "core/planner.h"
#include "core/tuned_file.h"

/* Without measuring the choice is a function of problem and options, so an entry that has left the
 * list is chosen again alike; the oldest leaves. */
enum { MOST_PLANS = 1024 };

/* A rank that measures has ended its own runs; others may still be at the same. */
static const double others_seconds = 1;

typedef struct choice {
    char *key;
    shingle_plan *plan;
} choice;

struct sg_tuned {
    pthread_mutex_t mutex; /* held while planning, so that others wait for the choice */
    choice *choice;
    int32_t choices, room;
    int32_t oldest;
    sg_tuned_list list; /* tuned plans of this machine */
    char *path;         /* of the file, or NULL */
    char signature[SG_SIGNATURE];
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
    sg_tuned_list_free(&tuned->list);
    free(tuned->path);
    pthread_mutex_destroy(&tuned->mutex);
    free(tuned);
}

/* Of everything that is set from outside; rates that were measured here differ from run to run. */
static uint64_t hash_of(const shingle_config *config, const sg_machine *machine,
                        const sg_machine *scale_of)
{
    char text[SG_MACHINE_TEXT];
    uint64_t hash = sg_hash(&config->threads, sizeof config->threads, 0);
    const sg_machine *const files[2] = {config->machine != NULL ? machine : NULL, scale_of};
    for (int i = 0; i < 2; i++) {
        if (files[i] == NULL) continue;
        const size_t length = sg_machine_print(files[i], text, sizeof text);
        hash = sg_hash(text, length < sizeof text ? length : sizeof text, hash + 1);
    }
    if (scale_of != NULL) hash = sg_hash(&config->scale_rows, sizeof config->scale_rows, hash);
    return hash;
}

shingle_status sg_tuned_open(sg_group *group, const shingle_config *config,
                             const sg_machine *scale_of)
{
    sg_tuned *const tuned = group->tuned;
    const char *const name = scale_of != NULL ? scale_of->name : group->machine.name;
    sg_tuned_signature(group->backend->name, name, hash_of(config, &group->machine, scale_of),
                       group->ranks, tuned->signature, sizeof tuned->signature);
    if (config->plans == NULL) return SHINGLE_OK;
    tuned->path = malloc(strlen(config->plans) + 1);
    if (tuned->path == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a path");
    strcpy(tuned->path, config->plans);
    return sg_tuned_file_read(tuned->path, tuned->signature, &tuned->list);
}

/* What was asked: the problem's canonical text, every option, and the strategy that is set for
 * those that name none. */
static char *make_key(const sg_problem *problem, const shingle_plan_options *options)
{
    const bool given = sg_given(options->strategy) != NULL;
    const char *const strategy = given ? options->strategy : sg_env("SHINGLE_STRATEGY");
    const char *const choose = options->choose != NULL ? options->choose : "";
    const char *const level = options->level != NULL ? options->level : "";
    const size_t room =
        sg_problem_print(problem, NULL, 0) + strlen(strategy) + strlen(choose) + strlen(level) + 64;
    char *const key = malloc(room);
    if (key == NULL) return NULL;
    sg_text text = {key, room, sg_problem_print(problem, key, room)};
    sg_text_add(&text, " %s %s %s %d %g %d", strategy, choose, level, options->measure,
                options->measure_seconds, options->reproducible != 0);
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
    const sg_machine machine = sg_comm_machine_here(comm, problem->type);
    bool measures = false;
    SG_TRY(sg_effort_measures(options, &measures));
    if (!measures)
        return sg_planner_choose(problem, &machine, options, NULL, &group->can, plan_out);
    sg_bench *bench = NULL;
    SG_TRY(sg_comm_check_sound(group, others_seconds));
    SG_TRY(sg_bench_open(group, problem, 1, &bench));
    const sg_stopwatch watch = {sg_bench_watch, bench, sg_bench_mend};
    const shingle_status status =
        sg_planner_choose(problem, &machine, options, &watch, &group->can, plan_out);
    sg_bench_close(bench);
    return status;
}

/* ---- What was tuned before ------------------------------------------------------------------- */

/* Do texts A and B begin with problems that differ in m at most?  One is OP:TYPE:MxNxK:... */
static bool differ_in_m(const char *a, const char *b)
{
    for (int colons = 0; colons < 2; a++, b++) {
        if (*a != *b || *a == '\0') return false;
        colons += *a == ':';
    }
    a += strspn(a, "0123456789");
    b += strspn(b, "0123456789");
    const size_t length = strcspn(a, " ");
    return length == strcspn(b, " ") && memcmp(a, b, length) == 0;
}

/* How far apart two numbers of rows are: their quotient, at least 1. */
static double apart(int64_t a, int64_t b)
{
    const double more = (double)sg_max(sg_max(a, b), 1);
    const double less = (double)sg_max(sg_min(a, b), 1);
    return more / less;
}

static const double near_rows = 2; /* beyond, tiles and waves have little in common */

/* The tuned plan of the same problem, or else of the nearest m (then *EXACT is
 * false); NULL if none is near. */
static const shingle_plan *nearest(const sg_tuned *tuned, const sg_problem *problem,
                                   const char *text, bool *exact)
{
    const shingle_plan *best = NULL;
    *exact = false;
    for (int32_t i = 0; i < tuned->list.lines; i++) {
        const shingle_plan *const plan = tuned->list.line[i].plan;
        if (!differ_in_m(plan->text, text)) continue;
        const double distance = apart(plan->problem.m, problem->m);
        if (distance > near_rows) continue;
        if (best != NULL && distance >= apart(best->problem.m, problem->m)) continue;
        best = plan;
        *exact = plan->problem.m == problem->m;
    }
    return best;
}

/* PLAN, made for PROBLEM with the knobs of a tuned one, says where it comes from. */
static void explain(const shingle_plan *from, bool exact, shingle_plan *plan)
{
    sg_text t = {plan->reason, sizeof plan->reason, 0};
    sg_text name = {(char[96]){0}, 96, 0};
    sg_strategy_print(plan->strategy, &plan->knobs, &name);
    sg_text_add(&t, "%s tuned, measured %.1f us", name.data, from->measured_us);
    if (!exact) sg_text_add(&t, " at m %lld", (long long)from->problem.m);
    sg_text_add(&t, "; predicted %.1f us", plan->predicted_us);
    const sg_candidate *const serial = plan->candidates > 0 ? &plan->candidate[0] : NULL;
    if (serial != NULL && serial->predicted_us > 0)
        sg_text_add(&t, ", serial %.1f us", serial->predicted_us);
    if (exact) plan->measured_us = from->measured_us;
}

/* Stores NULL if nothing was tuned for such a problem, or if what was is no good here. */
static shingle_status choose_tuned(shingle_comm *comm, const sg_problem *problem, bool exact_only,
                                   int reproducible, shingle_plan **plan_out)
{
    sg_tuned *const tuned = comm->group->tuned;
    bool exact = false;
    *plan_out = NULL;
    if (tuned->list.lines == 0) return SHINGLE_OK;
    const size_t room = sg_problem_print(problem, NULL, 0) + 1;
    char *const text = malloc(room);
    if (text == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for the text of a problem");
    sg_problem_print(problem, text, room);
    const shingle_plan *const from = nearest(tuned, problem, text, &exact);
    free(text);
    if (from == NULL || (exact_only && !exact)) return SHINGLE_OK;

    char knobs[96];
    sg_text t = {knobs, sizeof knobs, 0};
    sg_strategy_print(from->strategy, &from->knobs, &t);
    const shingle_plan_options options = {.strategy = knobs, .reproducible = reproducible};
    const sg_machine machine = sg_comm_machine_here(comm, problem->type);
    shingle_plan *plan = NULL;
    const shingle_status status =
        sg_planner_choose(problem, &machine, &options, NULL, &comm->group->can, &plan);
    if (status == SHINGLE_EUNSUPPORTED || status == SHINGLE_EINVAL) return SHINGLE_OK;
    SG_TRY(status);
    const double serial = plan->candidate[0].predicted_us;
    if (!exact && serial > 0 && plan->predicted_us > serial) {
        sg_plan_free(plan);
        return SHINGLE_OK;
    }
    explain(from, exact, plan);
    *plan_out = plan;
    return SHINGLE_OK;
}

/* Do OPTIONS leave the choice to us?  With "measure" only what was measured
 * for this very problem counts. */
static bool is_free(const shingle_plan_options *options, bool *exact_only)
{
    const bool forced =
        sg_given(options->strategy) != NULL || sg_given(sg_env("SHINGLE_STRATEGY")) != NULL;
    bool measures = false;
    if (forced || sg_effort_measures(options, &measures) != SHINGLE_OK) return false;
    *exact_only = measures;
    return measures || sg_given(options->choose) == NULL;
}

static shingle_status choose_or_recall(shingle_comm *comm, const sg_problem *problem,
                                       const shingle_plan_options *options, shingle_plan **plan_out)
{
    bool exact_only = false;
    *plan_out = NULL;
    if (is_free(options, &exact_only))
        SG_TRY(choose_tuned(comm, problem, exact_only, options->reproducible, plan_out));
    return *plan_out != NULL ? SHINGLE_OK : choose(comm, problem, options, plan_out);
}

/* ---- Planning -------------------------------------------------------------------------------- */

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
    shingle_status status = choose_or_recall(comm, problem, options, &fresh.plan);
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

static shingle_status check_ranks(const shingle_comm *comm, const sg_problem *problem)
{
    if (problem->ranks == comm->group->ranks) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL, "the problem has %d ranks; this group has %d", problem->ranks,
                   comm->group->ranks);
}

shingle_status sg_tuned_plan(shingle_comm *comm, const sg_problem *problem,
                             const shingle_plan_options *given, shingle_plan **plan_out)
{
    shingle_plan_options options = {0};
    if (given != NULL) options = *given;
    SG_TRY(check_ranks(comm, problem));
    sg_tuned *const tuned = comm->group->tuned;
    pthread_mutex_lock(&tuned->mutex);
    const shingle_status status = plan_locked(tuned, comm, problem, &options, plan_out);
    pthread_mutex_unlock(&tuned->mutex);
    return status;
}

/* A call needs its function, which is not run for the sake of timing. */
static shingle_status check_call(const sg_problem *problem, const shingle_plan_options *options)
{
    const bool given = options != NULL && options->compute != NULL;
    bool measures = false;
    if (problem->call != given)
        return sg_fail(SHINGLE_EINVAL, given ? "compute is for problems with call= alone"
                                             : "a problem with call= needs a compute function");
    if (!problem->call) return SHINGLE_OK;
    SG_TRY(sg_effort_measures(options, &measures));
    return measures ? sg_fail(SHINGLE_EUNSUPPORTED,
                              "a call is not timed; choose \"predict\" or \"static\" is accepted")
                    : SHINGLE_OK;
}

shingle_status shingle_plan_create(shingle_comm *comm, const char *problem,
                                   const shingle_plan_options *options, shingle_plan **plan_out)
{
    if (comm == NULL || plan_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no comm or no place for the plan; both are needed");
    SG_TRY(sg_comm_check_here(comm));
    sg_problem parsed;
    SG_TRY(sg_problem_parse(problem, &parsed));
    shingle_plan *plan = NULL;
    shingle_status status = check_call(&parsed, options);
    if (status == SHINGLE_OK) status = sg_tuned_plan(comm, &parsed, options, &plan);
    sg_problem_free(&parsed);
    SG_TRY(status);
    if (options != NULL) {
        plan->compute = options->compute;
        plan->compute_context = options->compute_context;
    }
    status = sg_comm_bind(comm, plan);
    if (status != SHINGLE_OK) {
        sg_plan_free(plan);
        return status;
    }
    *plan_out = plan;
    return SHINGLE_OK;
}

/* ---- Tuning ---------------------------------------------------------------------------------- */

/* Choices of PLAN's problem, and of other m, which may follow it, are made anew from now on. */
static void forget_problem(sg_tuned *tuned, const shingle_plan *plan)
{
    for (int32_t i = 0; i < tuned->choices;) {
        if (!differ_in_m(tuned->choice[i].key, plan->text)) {
            i++;
            continue;
        }
        forget(&tuned->choice[i]);
        tuned->choice[i] = tuned->choice[--tuned->choices];
    }
    tuned->oldest = 0;
}

/* Keeps PLAN in the group's file, then a copy of it in the group. */
static shingle_status remember(sg_tuned *tuned, const shingle_plan *plan)
{
    shingle_plan *copy = NULL;
    if (tuned->path != NULL) SG_TRY(sg_tuned_file_put(tuned->path, tuned->signature, plan));
    SG_TRY(sg_plan_copy(plan, &copy));
    const shingle_status status = sg_tuned_list_put(&tuned->list, copy);
    if (status != SHINGLE_OK) {
        sg_plan_free(copy);
        return status;
    }
    forget_problem(tuned, plan);
    return SHINGLE_OK;
}

/* A strategy that was asked for by name may lose to serial, which is timed beside
 * it; what is kept is for all. */
static shingle_status check_kept(const shingle_plan *plan)
{
    const double serial_us = plan->candidates > 0 ? plan->candidate[0].measured_us : 0;
    if (plan->chosen == 0 || serial_us <= 0 || plan->measured_us <= serial_us) return SHINGLE_OK;
    return sg_fail(SHINGLE_EUNSUPPORTED,
                   "%s takes %.1f us, %s %.1f: a plan that is slower than not overlapping is not "
                   "kept",
                   plan->candidate[plan->chosen].text, plan->measured_us, plan->candidate[0].text,
                   serial_us);
}

static shingle_status tune(shingle_comm *comm, const sg_problem *problem,
                           const shingle_plan_options *options, shingle_plan **plan_out)
{
    sg_tuned *const tuned = comm->group->tuned;
    pthread_mutex_lock(&tuned->mutex);
    shingle_status status = choose(comm, problem, options, plan_out);
    if (status == SHINGLE_OK) {
        status = check_kept(*plan_out);
        if (status == SHINGLE_OK) status = remember(tuned, *plan_out);
        if (status != SHINGLE_OK) sg_plan_free(*plan_out);
    }
    pthread_mutex_unlock(&tuned->mutex);
    return status;
}

shingle_status shingle_tune(shingle_comm *comm, const char *problem,
                            const shingle_plan_options *given, shingle_plan **plan_out)
{
    shingle_plan_options options = {0};
    if (comm == NULL) return sg_fail(SHINGLE_EINVAL, "no comm to tune on");
    SG_TRY(sg_comm_check_here(comm));
    SG_TRY(sg_comm_check_times(comm, "tuning"));
    if (given != NULL) options = *given;
    options.choose = "measure";
    if (options.reproducible)
        return sg_fail(SHINGLE_EUNSUPPORTED,
                       "tuned plans are for all who ask; shingle_plan_create measures reproducible "
                       "ones");
    bool measures = false;
    SG_TRY(sg_effort_measures(&options, &measures));
    if (!measures)
        return sg_fail(SHINGLE_EINVAL,
                       "level \"%s\" measures nothing; measure, patient or "
                       "exhaustive tunes",
                       options.level);
    sg_problem parsed;
    SG_TRY(sg_problem_parse(problem, &parsed));
    shingle_plan *plan = NULL;
    shingle_status status = check_ranks(comm, &parsed);
    if (status == SHINGLE_OK && parsed.call)
        status = sg_fail(SHINGLE_EUNSUPPORTED, "a call is not timed, so it cannot be tuned");
    if (status == SHINGLE_OK) status = check_call(&parsed, &options);
    const char *const path = comm->group->tuned->path; /* told before anything is timed */
    if (status == SHINGLE_OK && path != NULL) status = sg_tuned_file_check(path);
    if (status == SHINGLE_OK) status = tune(comm, &parsed, &options, &plan);
    sg_problem_free(&parsed);
    SG_TRY(status);
    if (plan_out != NULL)
        *plan_out = plan;
    else
        sg_plan_free(plan);
    return SHINGLE_OK;
}
