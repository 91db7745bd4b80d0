/* test_fit.c -- numbers of a machine found from measured times: times that a simulation
 * of another machine made give that machine's numbers back, noise and outliers do
 * little, and mistakes are named. */
#include <math.h>
#include <stdlib.h>

#include "built.h"
#include "core/fit.h"

static const struct {
    const char *problem, *strategy;
} designs[] = {
    {"gemm:bf16:4096x4096x4096:r4", "serial"},
    {"gemm:bf16:1024x2048x1024:r4", "serial"},
    {"gemm_rs:bf16:4096x4096x6144:r4", "fused_out"},
    {"gemm_rs:bf16:1024x4096x3072:r4", "fused_out"},
    {"gemm_rs:bf16:4096x12288x512:r4", "fused_out"},
    {"gemm_ar:bf16:256x2048x512:r4", "fused_out"},
    {"ag_gemm:bf16:8192x1024x8192:r4", "fused_in"},
    {"ag_gemm:bf16:1024x1024x4096:r4", "fused_in"},
    {"ag_gemm:bf16:4096x8192x4096:r4", "fused_in"},
    {"gemm_rs:bf16:256x1024x256:r4", "direct"},
    {"gemm_rs:bf16:8192x8192x1024:r4", "direct"},
};

enum { RUNS = sizeof designs / sizeof *designs };

static sg_problem problems[RUNS];
static sg_fit_run runs[RUNS];

/* Runs as TRUTH would take them; each NOISE off, one way and the other in turn. */
static void make_runs(const sg_machine *truth, double noise)
{
    for (int i = 0; i < RUNS; i++) {
        proposals all;
        assert_int_equal(sg_problem_parse(designs[i].problem, &problems[i]), SHINGLE_OK);
        runs[i] = (sg_fit_run){.problem = &problems[i],
                               .strategy = sg_strategy_find(designs[i].strategy)};
        propose_to(&problems[i], runs[i].strategy, truth, &all);
        assert_true(all.count > 0);
        runs[i].knobs = all.set[0];
    }
    assert_int_equal(sg_fit_predict(runs, RUNS, truth), SHINGLE_OK);
    for (int i = 0; i < RUNS; i++)
        runs[i].us = runs[i].predicted_us * (i % 2 == 0 ? 1 + noise : 1 - noise);
}

static void free_runs(void)
{
    for (int i = 0; i < RUNS; i++) sg_problem_free(&problems[i]);
}

static sg_machine known(void)
{
    sg_machine m;
    assert_int_equal(sg_machine_read("machines/h200x4.machine", &m), SHINGLE_OK);
    return m;
}

static const char *const names[] = {"gemm_tflops_bf16", "copy_gbps", "copy_us",
                                    "store_gbps",       "launch_us", "join_us"};

enum { NAMES = sizeof names / sizeof *names };

/* As the file has them, but these. */
static sg_machine wrong_machine(void)
{
    sg_machine m = known();
    m.gemm_tflops[SG_BF16] *= 0.7;
    m.copy_gbps *= 0.5;
    m.copy_us = 2;
    m.store_gbps *= 0.6;
    m.launch_us = 4;
    m.join_us = 1;
    return m;
}

static void times_of_a_machine_give_its_numbers_back(void **state)
{
    (void)state;
    sg_machine truth = known();
    sg_machine m = wrong_machine();
    sg_fit_report report;
    make_runs(&truth, 0);
    assert_int_equal(sg_fit(runs, RUNS, names, NAMES, INFINITY, &m, &report), SHINGLE_OK);
    assert_true(report.error_before > 0.1);
    assert_true(report.error_after < 0.01);
    for (int i = 0; i < NAMES; i++) {
        const double value = *sg_machine_number(&m, names[i], NULL, NULL);
        const double right = *sg_machine_number(&truth, names[i], NULL, NULL);
        if (!report.seen[i]) fail_msg("no run depends on %s", names[i]);
        if (strstr(names[i], "_us") == NULL && fabs(value / right - 1) > 0.04)
            fail_msg("%s is %g instead of %g", names[i], value, right);
    }
    free_runs();
}

static void noise_and_an_outlier_do_little(void **state)
{
    (void)state;
    const sg_machine truth = known();
    sg_machine m = wrong_machine();
    sg_fit_report report;
    make_runs(&truth, 0.02);
    runs[3].us *= 2; /* somebody else was busy */
    assert_int_equal(sg_fit(runs, RUNS, names, NAMES, INFINITY, &m, &report), SHINGLE_OK);
    assert_true(report.error_after < 0.035);
    assert_true(fabs(m.gemm_tflops[SG_BF16] / truth.gemm_tflops[SG_BF16] - 1) < 0.06);
    free_runs();
}

/* One that is off by far pulls no harder than one that is off by a tenth. */
static void a_wild_outlier_does_as_little(void **state)
{
    (void)state;
    const sg_machine truth = known();
    sg_machine m = wrong_machine();
    sg_fit_report report;
    make_runs(&truth, 0);
    runs[3].us *= 30;
    assert_int_equal(sg_fit(runs, RUNS, names, NAMES, INFINITY, &m, &report), SHINGLE_OK);
    assert_true(report.error_after < 0.025);
    assert_true(fabs(m.gemm_tflops[SG_BF16] / truth.gemm_tflops[SG_BF16] - 1) < 0.035);
    free_runs();
}

static void what_no_run_depends_on_stays(void **state)
{
    (void)state;
    const sg_machine truth = known();
    static const char *const others[] = {"coll_us", "gemm_tflops_f32", "gemm_tflops_bf16"};
    sg_machine m = truth;
    sg_fit_report report;
    make_runs(&truth, 0);
    m.gemm_tflops[SG_BF16] = 500;
    m.coll_us = 77;
    assert_int_equal(sg_fit(runs, RUNS, others, 3, INFINITY, &m, &report), SHINGLE_OK);
    assert_false(report.seen[0]);
    assert_false(report.seen[1]);
    assert_true(report.seen[2]);
    assert_true(m.coll_us == 77 && m.gemm_tflops[SG_F32] == truth.gemm_tflops[SG_F32]);
    assert_true(m.gemm_tflops[SG_BF16] > 650);
    free_runs();
}

/* The limit is over before it begins: the machine is one that a file may
 * hold, and little has moved. */
static void time_is_kept(void **state)
{
    (void)state;
    const sg_machine truth = known();
    sg_machine m = wrong_machine();
    sg_fit_report report;
    char text[SG_MACHINE_TEXT];
    make_runs(&truth, 0);
    assert_int_equal(sg_fit(runs, RUNS, names, NAMES, 0, &m, &report), SHINGLE_OK);
    assert_true(fabs(report.error_after - report.error_before) < 1e-6);
    assert_true(sg_machine_print(&m, text, sizeof text) < sizeof text);
    assert_int_equal(sg_machine_parse(text, "text", &m), SHINGLE_OK);
    free_runs();
}

static void mistakes_are_named(void **state)
{
    (void)state;
    const sg_machine truth = known();
    static const char *const unknown[] = {"copy_speed"};
    static const char *const whole[] = {"sms"};
    sg_machine m = truth;
    sg_fit_report report;
    make_runs(&truth, 0);
    assert_int_equal(sg_fit(runs, RUNS, unknown, 1, INFINITY, &m, &report), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "\"copy_speed\""));
    assert_int_equal(sg_fit(runs, RUNS, whole, 1, INFINITY, &m, &report), SHINGLE_EINVAL);
    runs[2].us = NAN;
    assert_int_equal(sg_fit(runs, RUNS, names, NAMES, INFINITY, &m, &report), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "run 2"));
    assert_int_equal(sg_fit(runs, RUNS, names, SG_FIT_NUMBERS + 1, INFINITY, &m, &report),
                     SHINGLE_EINVAL);
    assert_int_equal(sg_fit(runs, 0, names, NAMES, INFINITY, &m, &report), SHINGLE_OK);
    assert_memory_equal(&m, &truth, sizeof m);
    free_runs();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_a_machine_give_its_numbers_back),
        cmocka_unit_test(noise_and_an_outlier_do_little),
        cmocka_unit_test(a_wild_outlier_does_as_little),
        cmocka_unit_test(what_no_run_depends_on_stays),
        cmocka_unit_test(time_is_kept),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
