/* calibrate_run.c -- calibrates a real group: each problem has a bench of its own, so that runs are
 * checked and timed as in every other measurement (bench.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bench.h"
#include "core/calibrate.h"
#include "core/recover.h"

static const double default_seconds = 60;

/* A problem's matrices, made at its first run. */
typedef struct place {
    sg_problem problem;
    char text[96];
    sg_bench *bench;
} place;

typedef struct calibration {
    sg_group *group;
    place **place;
    int32_t places, room;
    const shingle_calibrate_options *options;
} calibration;

static shingle_status accepts(const sg_group *group, const shingle_plan *plan)
{
    sg_sched s = {0};
    char why[160] = "";
    sg_text reason = {why, sizeof why, 0};
    shingle_status status = sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, 0, &s);
    for (int32_t i = 0; status == SHINGLE_OK && i < s.steps; i++)
        if (!group->can.kind[s.step[i].kind])
            status = sg_fail(SHINGLE_EUNSUPPORTED, "backend %s cannot carry out step %d of %s",
                             group->backend->name, i, plan->text);
    if (status == SHINGLE_OK && group->can.accepts != NULL &&
        !group->can.accepts(group->can.self, &s, &reason))
        status = sg_fail(SHINGLE_EUNSUPPORTED, "backend %s cannot carry out %s: %s",
                         group->backend->name, plan->text, why);
    sg_sched_free(&s);
    return status;
}

static void close_place(place *p)
{
    if (p == NULL) return;
    sg_bench_close(p->bench);
    sg_problem_free(&p->problem);
    free(p);
}

static shingle_status open_place(calibration *c, const sg_problem *problem, place **place_out)
{
    char text[sizeof c->place[0]->text];
    sg_problem_print(problem, text, sizeof text);
    for (int32_t i = 0; i < c->places; i++) {
        *place_out = c->place[i];
        if (strcmp(c->place[i]->text, text) == 0) return SHINGLE_OK;
    }
    place *const p = calloc(1, sizeof *p);
    if (p == NULL || !sg_grow(&c->place, &c->room, (int64_t)c->places + 1, sizeof(place *))) {
        free(p);
        return sg_fail(SHINGLE_ENOMEM, "no memory for another measurement");
    }
    memcpy(p->text, text, sizeof text);
    shingle_status status = sg_problem_copy(problem, &p->problem);
    if (status == SHINGLE_OK) status = sg_bench_open(c->group, &p->problem, 1, &p->bench);
    if (status != SHINGLE_OK) {
        close_place(p);
        return status;
    }
    *place_out = c->place[c->places++] = p;
    return SHINGLE_OK;
}

static shingle_status time_plan(void *context, const shingle_plan *plan, bool colls, double *us_out)
{
    calibration *const c = context;
    place *p = NULL;
    SG_TRY(accepts(c->group, plan));
    SG_TRY(open_place(c, &plan->problem, &p));
    const shingle_status status = colls ? sg_bench_run(p->bench, plan, 1u << SG_COLL, us_out)
                                        : sg_bench_watch(p->bench, plan, us_out);
    if (status != SHINGLE_OK) (void)sg_recover_mend(c->group); /* others follow */
    return status;
}

static double now_us(void *context)
{
    (void)context;
    return sg_now_us();
}

static void tell_progress(void *context, int done, int count)
{
    const calibration *const c = context;
    if (c->options->progress != NULL) c->options->progress(c->options->context, done, count);
}

static void tell_measured(void *context, const shingle_plan *plan, bool colls, double us)
{
    const calibration *const c = context;
    sg_log(SG_LOG_INFO, "calibrate: %.2f us%s: %s", us, colls ? ", collective" : "", plan->text);
    if (c->options->measured != NULL)
        c->options->measured(c->options->context, plan->text, colls, us);
}

static shingle_status calibrate(calibration *c, shingle_machine **machine_out)
{
    const sg_group *const group = c->group;
    const sg_calibrate_watch watch = {.time = time_plan,
                                      .now_us = now_us,
                                      .progress = tell_progress,
                                      .measured = tell_measured,
                                      .windows = c->options->windows != 0,
                                      .context = c};
    struct shingle_machine *const machine = calloc(1, sizeof *machine);
    char *const text = malloc(SG_CALIBRATE_TEXT);
    shingle_status status = SHINGLE_OK;
    if (machine == NULL || text == NULL)
        status = sg_fail(SHINGLE_ENOMEM, "no memory for a machine file");
    sg_machine begun = {0}; /* as the backend says, whatever file the group plans by */
    if (status == SHINGLE_OK) status = group->backend->describe(group->self, SG_BF16, &begun);
    if (status == SHINGLE_OK)
        status = sg_calibrate(&begun, group->ranks,
                              c->options->seconds > 0 ? c->options->seconds : default_seconds,
                              &watch, &machine->numbers, text);
    if (status == SHINGLE_OK) {
        sg_text all = {machine->text, sizeof machine->text, 0};
        sg_text_add(&all, "%s", text);
        if (all.length >= sizeof machine->text)
            status = sg_fail(SHINGLE_EBUG, "a machine file of %zu bytes; room is for %zu",
                             all.length, sizeof machine->text - 1);
    }
    free(text);
    if (status == SHINGLE_OK)
        *machine_out = machine;
    else
        free(machine);
    return status;
}

shingle_status shingle_calibrate(int ranks, shingle_comm *const *comm,
                                 const shingle_calibrate_options *options,
                                 shingle_machine **machine_out)
{
    static const shingle_calibrate_options none = {0};
    SG_TRY(sg_comm_check_all(ranks, comm));
    if (machine_out == NULL) return sg_fail(SHINGLE_EINVAL, "no place for the machine");
    if (options == NULL) options = &none;
    SG_TRY(sg_comm_check_times(comm[0], "calibrating"));
    if (!(options->seconds >= 0) || !(options->seconds <= 3600))
        return sg_fail(SHINGLE_EINVAL, "seconds is %g; 0 (default) to 3600", options->seconds);
    SG_TRY(sg_comm_check_sound(comm[0]->group, 0));
    calibration c = {.group = comm[0]->group, .options = options};
    const shingle_status status = calibrate(&c, machine_out);
    for (int32_t i = 0; i < c.places; i++) close_place(c.place[i]);
    free(c.place);
    return status;
}
