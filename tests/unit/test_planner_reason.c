/* Tests of planner.h: the reason of a plan says why what is predicted to be a little faster was not
 * taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "core/planner.h"

/* In the tenths that are printed. */
static int64_t tenths(double us)
{
    return (int64_t)(10 * us + 0.5);
}

/* Is something else predicted to be faster?  The reason must say that it counts as equal. */
static bool has_equal(const shingle_plan *plan)
{
    double least = plan->predicted_us;
    for (int i = 0; i < plan->candidates; i++) {
        const sg_candidate *const one = &plan->candidate[i];
        if (one->declined[0] == '\0' && one->predicted_us < least) least = one->predicted_us;
    }
    const bool is_less = tenths(least) < tenths(plan->predicted_us);
    /* What is not overlapped stays until something promises 2 %. */
    const bool serial = strstr(plan->text, " serial{") != NULL;
    const char *const told =
        strstr(plan->reason, serial ? ": less by at most 2 %, which counts as equal"
                                    : ": less by at most 1 %, which counts as equal");
    assert_int_equal(told != NULL, is_less);
    return is_less;
}

static void equals_are_told(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "gemm_ar:bf16:4096x8192x2048:r4", "gemm_ar:bf16:2048x2048x256:r4",
        "gemm_rs:bf16:2048x4096x512:r4",  "ag_gemm:bf16:1024x8192x512:r4",
        "gemm_rs:bf16:8192x8192x7168:r4", "ag_gemm:bf16:8192x7168x8192:r4",
    };
    static const char file[] = "machines/h200x4.machine";
    shingle_machine *machine = NULL;
    assert_int_equal(shingle_machine_load(file, &machine), SHINGLE_OK);
    int equals = 0;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        shingle_plan *plan = NULL;
        assert_int_equal(shingle_plan_for(problems[i], machine, NULL, &plan), SHINGLE_OK);
        equals += has_equal(plan);
        sg_plan_free(plan);
    }
    /* If the model has moved all of them, take others: see the golden tables. */
    assert_true(equals > 0);
    shingle_machine_free(machine);
}

/* Narrow tiles are proposed for few rows, and by who tries all shapes. */
static void nothing_is_tried_twice(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"gemm_rs:f32:8x15991x3:r2", "machines/h100x2.machine"},
        {"gemm_ar:bf16:128x11779x512:r4:rows=90,15,17,6", "machines/a100-pcie-x8.machine"},
    };
    for (int i = 0; i < 2; i++) {
        shingle_machine *machine = NULL;
        shingle_plan *plan = NULL;
        assert_int_equal(shingle_machine_load(asked[i][1], &machine), SHINGLE_OK);
        assert_int_equal(shingle_plan_for(asked[i][0], machine, NULL, &plan), SHINGLE_OK);
        assert_true(plan->candidates > 10);
        for (int a = 0; a < plan->candidates; a++)
            for (int b = a + 1; b < plan->candidates; b++)
                assert_string_not_equal(plan->candidate[a].text, plan->candidate[b].text);
        sg_plan_free(plan);
        shingle_machine_free(machine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_are_told),
                                       cmocka_unit_test(nothing_is_tried_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
