/* baseline.c -- see baseline.h. */
#include "core/baseline.h"
#include "core/propose.h"

#include <string.h>

static bool is_priced(const sg_candidate *candidate)
{
    return candidate->declined[0] == '\0' && candidate->predicted_us > 0;
}

int sg_baseline_fastest(const sg_candidate *candidate, int count, double tie)
{
    int best = 0;
    for (int i = 1; i < count && candidate[i].strategy == candidate[0].strategy; i++)
        if (is_priced(&candidate[i]) &&
            (!is_priced(&candidate[best]) ||
             candidate[i].predicted_us < candidate[best].predicted_us * (1 - tie)))
            best = i;
    return best;
}

void sg_baseline_lead(sg_candidate *candidate, int count, double tie)
{
    const int best = sg_baseline_fastest(candidate, count, tie);
    const sg_candidate first = candidate[0];
    candidate[0] = candidate[best];
    candidate[best] = first;
}

int sg_baseline_once(sg_candidate *candidate, int first, int count)
{
    const int left = count - first;
    if (left < first) return count;
    for (int i = 0; i < first; i++)
        if (strcmp(candidate[i].text, candidate[first + i].text) != 0) return count;
    memmove(candidate, candidate + first, (size_t)left * sizeof *candidate);
    return left;
}

shingle_status sg_baseline_simulate(sg_simulator *simulator, const sg_problem *problem,
                                    const sg_machine *machine, const sg_sim_options *options,
                                    sg_sim_result *result_out)
{
    const sg_strategy *const first = sg_strategy_at(0);
    sg_knobs sets[SG_MAX_KNOB_SETS];
    char why[160] = "";
    sg_text reason = {why, sizeof why, 0};
    shingle_status status = SHINGLE_EUNSUPPORTED;
    bool any = false;
    memset(sets, 0, sizeof sets);
    const int count = sg_strategy_propose(first, problem, machine, sets, &reason);
    if (count < 1) return sg_fail(SHINGLE_EUNSUPPORTED, "%s: %s", first->name, why);
    const int most = sg_strategy_is_quick(problem, machine) ? count : 1; /* as the planner */
    for (int i = 0; i < most; i++) {
        sg_sim_result result;
        status = sg_simulate_built(simulator, problem, first, &sets[i], machine, options, &result);
        if (status == SHINGLE_EUNSUPPORTED) continue; /* too large for this way */
        SG_TRY(status);
        if (!any || result.us < result_out->us) *result_out = result;
        any = true;
    }
    return any ? SHINGLE_OK : status;
}
