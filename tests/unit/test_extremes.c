/* test_extremes.c -- problems at the edge of what can be asked: ranks without rows, extents near
 * 2^31, machines with more SMs than there are.  Each is planned, and what is chosen is proved where
 * it is small enough. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "built.h"
#include "core/machine.h"
#include "core/plan.h"

/* What is chosen for PROBLEM there, or on the plain machine, by the model or by rule. */
static shingle_plan *plan_for(const char *problem, const char *machine_file, const char *choose)
{
    const shingle_plan_options options = {.choose = choose};
    shingle_machine *machine = NULL;
    shingle_plan *plan = NULL;
    if (machine_file != NULL)
        assert_int_equal(shingle_machine_load(machine_file, &machine), SHINGLE_OK);
    if (shingle_plan_for(problem, machine, &options, &plan) != SHINGLE_OK)
        fail_msg("%s on %s by %s: %s", problem, machine_file, choose, shingle_error());
    shingle_machine_free(machine);
    return plan;
}

static void ranks_without_rows(void **state)
{
    static const char *const problems[] = {
        "a2a_gemm:bf16:5x66x16:r2:counts=1,0/4,0",
        "gemm_a2a:bf16:5x66x16:r2:counts=1,4/0,0",
        "a2a_gemm:bf16:400x256x128:r3:counts=100,0,200/200,0,0/0,0,200",
        "gemm_rs:bf16:512x256x128:r3:rows=512,0,0",
        "ag_gemm:bf16:512x256x128:r3:rows=0,0,512",
        "gemm_a2a:bf16:0x256x128:r2:counts=0,0/0,0"};
    static const char *const machines[] = {"machines/h200x4.machine", "machines/mi300x8.machine",
                                           "machines/npux4.machine"};
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++)
        for (size_t j = 0; j < sizeof machines / sizeof machines[0]; j++)
            for (int by = 0; by < 2; by++) {
                shingle_plan *const plan =
                    plan_for(problems[i], machines[j], by ? "static" : "predict");
                if (shingle_plan_check(plan, NULL) != SHINGLE_OK) fail_msg("%s", shingle_error());
                shingle_plan_free(plan);
            }
}

/* Numbers of rows are rounded up to tiles, and have 32 bits in a schedule.  A plan that lost its
 * product to that would be the fastest. */
static void rows_near_the_limit(void **state)
{
    static const struct {
        const char *problem, *choose;
    } asked[] = {{"gemm_rs:bf16:2147483647x1x8:r2:rows=2147483647,0", "predict"},
                 {"gemm_ar:bf16:2147483600x1x8:r2:rows=2147483600,0", "predict"},
                 {"ag_gemm:bf16:2147483647x1x8:r2:rows=2147483647,0", "static"}};
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        shingle_plan *const plan =
            plan_for(asked[i].problem, "machines/h200x4.machine", asked[i].choose);
        shingle_simulation simulation;
        assert_int_equal(shingle_plan_simulate(plan, NULL, &simulation), SHINGLE_OK);
        if (!(simulation.speedup < 2)) fail_msg("%s: %g x", asked[i].problem, simulation.speedup);
        shingle_plan_free(plan);
    }
}

/* The same on workers that all ranks share, as a CPU has them: pieces of a product,
 * and columns of B in order. */
static void pools_near_the_limit(void **state)
{
    static const char *const cases[][2] = {
        {"gemm_rs:f32:2x2147483647x8:r2", "fused_out{tile_m=2,tile_n=4096}"},
        {"gemm_rs:f32:2x2147483647x8:r2", "serial"},
        {"gemm:f32:2147483647x1048576x8:r1", "serial"},
        {"gemm_ar:f32:2147483647x524288x1:r2", "serial"}};
    (void)state;
    sg_machine machine;
    assert_int_equal(sg_machine_read("machines/h200x4.machine", &machine), SHINGLE_OK);
    machine.pool = 2;
    machine.pack_gbps = 20;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const shingle_plan_options options = {.strategy = cases[i][1]};
        static shingle_machine handle; /* large */
        shingle_plan *plan = NULL;
        shingle_simulation simulation;
        sg_problem p;
        assert_int_equal(sg_problem_parse(cases[i][0], &p), SHINGLE_OK);
        sg_machine_handle(&machine, &handle);
        if (shingle_plan_for(cases[i][0], &handle, &options, &plan) != SHINGLE_OK)
            fail_msg("%s: %s", cases[i][0], shingle_error());
        assert_int_equal(shingle_plan_simulate(plan, &handle, &simulation), SHINGLE_OK);
        /* No faster than the product at twice the machine's rate. */
        const double least_us =
            2.0 * (double)p.m * (double)p.n * (double)p.k / (machine.gemm_tflops[SG_F32] * 2e6);
        if (!(simulation.overlapped_us > least_us))
            fail_msg("%s: %g us, %g at least", cases[i][0], simulation.overlapped_us, least_us);
        shingle_plan_free(plan);
        sg_problem_free(&p);
    }
}

/* The first rank of an even all-to-all holds more rows than m. */
static void exchange_beyond_the_limit(void **state)
{
    (void)state;
    sg_problem p;
    assert_int_equal(sg_problem_parse("a2a_gemm:f32:2147483647x1x1:r2", &p), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "gives rank 0 2147483648 rows; at most 2147483647"));
    assert_int_equal(sg_problem_parse("gemm_a2a:f32:2147483646x1x1:r2", &p), SHINGLE_OK);
    sg_problem_free(&p);
}

/* A group of bands as tall as the matrix, in rows, has more than 32 bits. */
static void groups_near_the_limit(void **state)
{
    static const char *const machines[] = {NULL, "machines/h200x4.machine"};
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
        shingle_plan_free(plan_for("gemm_rs:bf16:536870912x64x64:r4", machines[i], "predict"));
}

/* By rule, too, nothing is taken that is predicted to be slower than not overlapping, and a
 * function's own count of operations is what it takes. */
static void rule_is_not_slower_than_serial(void **state)
{
    static const char *const cases[][2] = {
        {"gemm_rs:bf16:128x8192x14336:r8", "machines/l20x8.machine"},
        {"gemm_rs:bf16:4096x4096x64:r4:call=1000000000", "machines/h200x4.machine"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shingle_plan *const plan = plan_for(cases[i][0], cases[i][1], "static");
        assert_string_equal(plan->strategy->name, "serial");
        shingle_plan_free(plan);
    }
}

/* Not overlapping gathers columns of A in a buffer that would be too large here; others do not. */
static void rule_without_serial(void **state)
{
    (void)state;
    shingle_plan *const plan =
        plan_for("ag_gemm:bf16:800000000x64x64:r4:gather=k", "machines/h200x4.machine", "static");
    assert_null(strstr(shingle_plan_text(plan), "serial"));
    shingle_plan_free(plan);
}

/* What is chosen for a machine is a text that can be read. */
static void many_sms(void **state)
{
    static const char *const problems[] = {"gemm_rs:bf16:8192x8192x7168:r4",
                                           "ag_gemm:bf16:8192x7168x8192:r4",
                                           "gemm_ar:bf16:8192x8192x7168:r4"};
    (void)state;
    sg_machine machine;
    assert_int_equal(sg_machine_read("machines/h200x4.machine", &machine), SHINGLE_OK);
    machine.sms = SG_MOST_SMS;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        sg_problem p;
        assert_int_equal(sg_problem_parse(problems[i], &p), SHINGLE_OK);
        for (int s = 0; sg_strategy_at(s) != NULL; s++) {
            const sg_strategy *const strategy = sg_strategy_at(s);
            proposals all;
            propose_to(&p, strategy, &machine, &all);
            for (int j = 0; j < all.count; j++) {
                shingle_plan *made = NULL;
                shingle_plan *read = NULL;
                assert_int_equal(sg_plan_make(&p, strategy, &all.set[j], &made), SHINGLE_OK);
                if (shingle_plan_parse(shingle_plan_text(made), &read) != SHINGLE_OK)
                    fail_msg("%s: %s", shingle_plan_text(made), shingle_error());
                shingle_plan_free(made);
                shingle_plan_free(read);
            }
        }
        sg_problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_without_rows),    cmocka_unit_test(rows_near_the_limit),
        cmocka_unit_test(pools_near_the_limit),  cmocka_unit_test(exchange_beyond_the_limit),
        cmocka_unit_test(groups_near_the_limit), cmocka_unit_test(rule_is_not_slower_than_serial),
        cmocka_unit_test(rule_without_serial),   cmocka_unit_test(many_sms),
    };
    return cmocka_run_group_tests_name("extremes", tests, NULL, NULL);
}
