/* test_measured.c -- which of a planner's candidates are timed, and what if they fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/planner.h"

static shingle_status all_alike(void *context, const shingle_plan *plan, double *us_out)
{
    (void)context;
    (void)plan;
    *us_out = 10;
    return SHINGLE_OK;
}

static shingle_plan *measure(const char *problem, int plans)
{
    const sg_stopwatch watch = {all_alike, NULL, NULL};
    /* A limit that no pause of this process reaches; rounds end by their number. */
    const shingle_plan_options options = {.measure = plans, .measure_seconds = 100};
    shingle_plan *plan = NULL;
    sg_machine machine;
    sg_problem p;
    assert_int_equal(sg_machine_read("machines/h200x2.machine", &machine), SHINGLE_OK);
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    assert_int_equal(sg_planner_choose(&p, &machine, &options, &watch, NULL, &plan), SHINGLE_OK);
    sg_problem_free(&p);
    return plan;
}

/* How many candidates of STRATEGY were measured, and the best prediction of all that it has. */
static int measured_of(const shingle_plan *plan, const sg_strategy *strategy, double *best)
{
    int measured = 0;
    *best = 1e30;
    for (int c = 0; c < plan->candidates; c++) {
        const sg_candidate *const one = &plan->candidate[c];
        if (one->strategy != strategy || one->declined[0] != '\0') continue;
        measured += one->measured_us > 0;
        if (*best > one->predicted_us) *best = one->predicted_us;
    }
    return measured;
}

/* No third knob set of a strategy while another that is not far behind has none. */
static void expect_turns(const shingle_plan *plan)
{
    double fastest = 1e30;
    double best = 0;
    int most = 0;
    for (int s = 0; sg_strategy_at(s) != NULL; s++) {
        const int measured = measured_of(plan, sg_strategy_at(s), &best);
        if (most < measured) most = measured;
        if (fastest > best) fastest = best;
    }
    for (int s = 0; sg_strategy_at(s) != NULL; s++)
        if (measured_of(plan, sg_strategy_at(s), &best) == 0 && best < fastest * 1.19)
            assert_true(most <= 2);
}

/* Does an unmeasured candidate stand before a measured one in the order of predictions? */
static bool is_out_of_order(const shingle_plan *plan)
{
    double slowest = 0;
    for (int c = 1; c < plan->candidates; c++) /* behind the serial one, which is always measured */
        if (plan->candidate[c].measured_us > 0 && slowest < plan->candidate[c].predicted_us)
            slowest = plan->candidate[c].predicted_us;
    for (int c = 1; c < plan->candidates; c++)
        if (plan->candidate[c].declined[0] == '\0' && !(plan->candidate[c].measured_us > 0) &&
            plan->candidate[c].predicted_us < slowest)
            return true;
    return false;
}

static void strategies_take_turns(void **state)
{
    (void)state;
    static const char *const problems[] = {"ag_gemm:bf16:2048x28672x8192:r2",
                                           "ag_gemm:bf16:8192x5120x8192:r2",
                                           "gemm_rs:bf16:8192x8192x4096:r2"};
    int moved = 0;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        for (int plans = 1; plans <= 9; plans++) {
            shingle_plan *const plan = measure(problems[i], plans);
            double best;
            int measured = 0;
            for (int s = 0; sg_strategy_at(s) != NULL; s++)
                measured += measured_of(plan, sg_strategy_at(s), &best);
            assert_int_equal(measured, plans + 1);
            expect_turns(plan);
            moved += is_out_of_order(plan);
            sg_plan_free(plan);
        }
    }
    assert_true(moved > 0);
}

/* A rank stops whenever ring is run. */
static shingle_status ring_fails(void *context, const shingle_plan *plan, double *us_out)
{
    *(int *)context += 1;
    *us_out = 10;
    return strcmp(plan->strategy->name, "ring") != 0 ? SHINGLE_OK
                                                     : sg_fail(SHINGLE_ETIMEOUT, "rank 1 stopped");
}

static shingle_status mends(void *context)
{
    (void)context;
    return SHINGLE_OK;
}

/* Of a strategy that was asked for by name, no other knob set is taken untimed, however alike they
 * are predicted. */
static void what_failed_is_not_chosen_untimed(void **state)
{
    (void)state;
    int runs = 0;
    const sg_stopwatch watch = {ring_fails, &runs, mends};
    const shingle_plan_options few = {.strategy = "ring", .measure = 1, .measure_seconds = 0.001};
    sg_machine machine;
    sg_problem p;
    shingle_plan *plan = NULL;
    sg_machine_plain(&machine);
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:4096x4096x4096:r4", &p), SHINGLE_OK);
    assert_int_equal(sg_planner_choose(&p, &machine, &few, &watch, NULL, &plan), SHINGLE_EBACKEND);
    assert_non_null(strstr(shingle_error(), "ring{"));
    assert_non_null(strstr(shingle_error(), "rank 1 stopped"));
    assert_null(plan);
    assert_true(runs >= 2);
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strategies_take_turns),
                                       cmocka_unit_test(what_failed_is_not_chosen_untimed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
