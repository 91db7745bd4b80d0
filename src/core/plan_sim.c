/* plan_sim.c -- what a plan costs on a machine, in the terms of a benchmark's result. */
#include <math.h>

#include "core/baseline.h"

static shingle_status simulate(sg_simulator *simulator, const shingle_plan *plan,
                               const sg_machine *machine, shingle_simulation *simulation_out)
{
    const sg_sim_options options = {.parts = true};
    sg_sim_result serial;
    sg_sim_result own;
    SG_TRY(sg_baseline_simulate(simulator, &plan->problem, machine, &options, &serial));
    SG_TRY(sg_simulate_built(simulator, &plan->problem, plan->strategy, &plan->knobs, machine,
                             &options, &own));
    const double gemm = serial.gemm_us;
    const double coll = serial.comm_us;
    const double less = fmin(gemm, coll);
    *simulation_out = (shingle_simulation){
        .gemm_us = gemm,
        .coll_us = coll,
        .serial_us = serial.us,
        .overlapped_us = own.us,
        .hidden = less > 0 ? (gemm + coll - own.us) / less : 1,
        .speedup = own.us > 0 ? serial.us / own.us : 1,
        .efficiency = own.us > 0 ? fmax(gemm, coll) / own.us : 1,
        .product_us = own.gemm_us,
        .decomposition_us = own.decomposition_us,
        .exposed_us = own.exposed_us,
        .contention_us = own.contention_us,
        .latency_us = own.latency_us,
        .comm_us = own.comm_us,
        .steps = own.events,
    };
    return SHINGLE_OK;
}

shingle_status shingle_plan_simulate(const shingle_plan *plan, const shingle_machine *machine,
                                     shingle_simulation *simulation_out)
{
    if (plan == NULL || simulation_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no plan or no place for the result; both are needed");
    sg_machine plain;
    sg_machine_plain(&plain);
    const sg_machine *const numbers = machine != NULL ? &machine->numbers : &plain;
    if (plan->problem.ranks > numbers->ranks)
        return sg_fail(SHINGLE_EINVAL, "the problem has %d ranks; machine %s reaches %d",
                       plan->problem.ranks, numbers->name, numbers->ranks);
    sg_simulator *const simulator = sg_simulator_new();
    if (simulator == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a simulator");
    const shingle_status status = simulate(simulator, plan, numbers, simulation_out);
    sg_simulator_free(simulator);
    return status;
}
