// plan_rank.c -- see plan_rank.h.
#include "plan_rank.h"
#include "backend/cuda/cuda.h"
#include "core/plan.h"
#include "core/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// MACHINE with links that take no time.
static sg_machine without_links(const sg_machine *machine)
{
    sg_machine m = *machine;
    m.store_gbps = m.copy_gbps = 1e6, m.store_us = m.copy_us = m.flag_us = m.peer_us = m.hop_us = 0;
    return m;
}

static int fail(const char *problem, const char *strategy)
{
    fprintf(stderr, "%s %s: %s\n", problem, strategy, shingle_error());
    return 0;
}

int lab_rank_make(const char *machine_name, const char *problem, const char *strategy,
                  struct lab_rank *out)
{
    static sg_simulator *sim;
    shingle_machine *machine = NULL;
    shingle_plan *plan = NULL; // stays, as what is built refers to it
    sg_sched *const s = calloc(1, sizeof *s);
    sg_sim_result sim_out;
    shingle_plan_options options = {.choose = "predict", .strategy = strategy[0] ? strategy : NULL};
    if (!sim) sim = sg_simulator_new();
    if (shingle_machine_load(machine_name, &machine) != SHINGLE_OK) return fail(machine_name, "");
    if (shingle_plan_for(problem, machine, &options, &plan) != SHINGLE_OK)
        return fail(problem, strategy);
    if (sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, 0, s) != SHINGLE_OK)
        return fail(problem, strategy);
    const sg_machine alone = without_links(&machine->numbers);
    if (sg_simulate_built(sim, &plan->problem, plan->strategy, &plan->knobs, &alone, NULL,
                          &sim_out) != SHINGLE_OK)
        return fail(problem, strategy);
    const sg_step *step = s->step;
    while (step < s->step + s->steps && step->kind != SG_LAUNCH) ++step;
    if (step == s->step + s->steps || step->u.launch.vendor) {
        fprintf(stderr, "%s %s: no launch of our own\n", problem, strategy);
        return 0;
    }
    const sg_launch *const l = &step->u.launch;
    *out = (struct lab_rank){.patch = s->patch,
                             .wait = s->wait,
                             .add = s->add,
                             .to = s->to,
                             .raise = s->raise,
                             .counter = s->counter,
                             .patches = s->patches,
                             .waits = s->waits,
                             .adds = s->adds,
                             .tos = s->tos,
                             .raises = s->raises,
                             .counters = s->counters,
                             .flags = s->flags,
                             .buffers = s->bufs,
                             .patch0 = l->patch0,
                             .count = l->patches,
                             .tile_m = l->tile_m,
                             .tile_n = l->tile_n,
                             .blocks = l->blocks,
                             .own_parts = sg_cuda_owns_parts(s, l),
                             .m = plan->problem.m,
                             .n = plan->problem.n,
                             .k = plan->problem.k,
                             .ranks = plan->problem.ranks,
                             .most_rows = plan->problem.most_rows,
                             .alone_us = sim_out.us,
                             .us = plan->predicted_us};
    for (int i = 0; i < s->bufs; ++i)
        out->buffer[i] = (struct lab_buffer){s->buf[i].rows, s->buf[i].cols, s->buf[i].wide,
                                             s->buf[i].tagged, s->buf[i].arena == SG_USER};
    sg_text text = {out->text, sizeof out->text, 0};
    sg_strategy_print(plan->strategy, &plan->knobs, &text);
    return 1;
}
