/* sim_built.c -- simulators, and simulating what a strategy builds (sim.h). */
#include <stdlib.h>

#include "core/sim.h"
#include "core/strategy.h"

struct sg_simulator {
    sg_sched *sched; /* of the ranks built last */
    int ranks;
};

sg_simulator *sg_simulator_new(void)
{
    return calloc(1, sizeof(sg_simulator));
}

void sg_simulator_free(sg_simulator *simulator)
{
    if (simulator == NULL) return;
    for (int r = 0; r < simulator->ranks; r++) sg_sched_free(&simulator->sched[r]);
    free(simulator->sched);
    free(simulator);
}

const sg_sched *sg_simulator_sched(const sg_simulator *simulator)
{
    return simulator->sched;
}

shingle_status sg_simulate(sg_simulator *simulator, const sg_sched *sched, int ranks,
                           const sg_machine *machine, const sg_sim_options *options,
                           sg_sim_result *result_out)
{
    (void)simulator;
    sg_sim_result result = {.ranks_simulated = ranks};
    SG_TRY(sg_sim_spans(sched, ranks, machine, options != NULL ? options->visit : NULL,
                        options != NULL ? options->context : NULL, &result.us));
    *result_out = result;
    return SHINGLE_OK;
}

static shingle_status reserve(sg_simulator *simulator, int ranks)
{
    if (ranks <= simulator->ranks) return SHINGLE_OK;
    sg_sched *const more = realloc(simulator->sched, (size_t)ranks * sizeof *more);
    if (more == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to simulate %d ranks", ranks);
    for (int r = simulator->ranks; r < ranks; r++) more[r] = (sg_sched){0};
    simulator->sched = more;
    simulator->ranks = ranks;
    return SHINGLE_OK;
}

shingle_status sg_simulate_built(sg_simulator *simulator, const sg_problem *problem,
                                 const sg_strategy *strategy, const sg_knobs *knobs,
                                 const sg_machine *machine, const sg_sim_options *options,
                                 sg_sim_result *result_out)
{
    SG_TRY(reserve(simulator, problem->ranks));
    for (int r = 0; r < problem->ranks; r++) {
        sg_sched *const s = &simulator->sched[r];
        sg_sched_begin(s, problem, r);
        strategy->build(problem, knobs, r, s);
        SG_TRY(sg_sched_seal(s));
    }
    return sg_simulate(simulator, simulator->sched, problem->ranks, machine, options, result_out);
}
