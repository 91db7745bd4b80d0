/* test_options.c -- options of the interface that are not given, and those that contradict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shingle.h"

enum { RANKS = 2 };

static const char problem[] = "gemm_rs:f32:32x16x16:r2";

static void expect_text(const char *words)
{
    if (strstr(shingle_error(), words) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", words, shingle_error());
}

/* ---- Texts
 * -----------------------------------------------------------------------------------
 */

static void empty_texts_are_not_given(void **state)
{
    (void)state;
    const shingle_config config = {
        .backend = "", .machine = "", .scale_of = "", .plans = "", .threads = 1};
    const shingle_plan_options options = {.strategy = "", .choose = "", .level = ""};
    const shingle_bench_options few = {
        .strategy = "", .choose = "", .level = "", .strategies = "", .iterations = 1};
    shingle_bench_result result;
    shingle_comm *comm[RANKS];
    shingle_plan *plan = NULL;
    if (shingle_open(RANKS, &config, comm) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_int_equal(shingle_plan_create(comm[0], problem, &options, &plan), SHINGLE_OK);
    if (shingle_bench(RANKS, comm, problem, &few, &result) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    assert_int_equal(shingle_close(RANKS, comm), SHINGLE_OK);
    /* Where nothing is given the environment counts. */
    setenv("SHINGLE_BACKEND", "abacus", 1);
    assert_int_equal(shingle_open(RANKS, &config, comm), SHINGLE_EINVAL);
    unsetenv("SHINGLE_BACKEND");
    expect_text("no backend \"abacus\"");
    setenv("SHINGLE_MACHINE", "/no/such.machine", 1);
    assert_int_equal(shingle_open(RANKS, &config, comm), SHINGLE_EIO);
    unsetenv("SHINGLE_MACHINE");
    expect_text("SHINGLE_MACHINE: /no/such.machine");
}

/* In the configuration, in the environment and where one is loaded. */
static void machines_have_names_and_paths(void **state)
{
    (void)state;
    static const char *const names[] = {"h200x4", "machines/h200x4.machine"};
    for (int i = 0; i < 2; i++) {
        const shingle_config config = {.machine = names[i], .scale_of = names[i]};
        shingle_comm *comm[RANKS];
        shingle_machine *machine = NULL;
        assert_int_equal(shingle_open(RANKS, &config, comm), SHINGLE_OK);
        assert_non_null(strstr(shingle_machine_text(shingle_comm_machine(comm[0])), "name h200x4"));
        assert_int_equal(shingle_close(RANKS, comm), SHINGLE_OK);
        assert_int_equal(shingle_machine_load(names[i], &machine), SHINGLE_OK);
        shingle_machine_free(machine);
    }
    shingle_machine *machine = NULL;
    assert_int_equal(shingle_machine_load("h300x4", &machine), SHINGLE_EIO);
    expect_text("machine \"h300x4\" is neither in ./machines nor in ");
    expect_text("; did you mean h100x4? known: a100-pcie-x8, a100x8, ");
    expect_text("; or a path is accepted");
    assert_int_equal(shingle_machine_load("h300x4.machine", &machine), SHINGLE_EIO);
    expect_text("h300x4.machine: No such file");
}

static void files_have_names_and_paths(void **state)
{
    (void)state;
    static const struct {
        shingle_files of;
        const char *name, *path;
    } files[] = {{SHINGLE_MACHINES, "h200x4", "machines/h200x4.machine"},
                 {SHINGLE_MODELS, "qwen2.5-72b", "models/qwen2.5-72b.json"},
                 {SHINGLE_SUITES, "smoke", "bench/suites/smoke.txt"},
                 {SHINGLE_SUITES, "./smoke", "./smoke"},
                 {SHINGLE_SUITES, "smoke.txt", "smoke.txt"},
                 {SHINGLE_MODELS, "README", NULL}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64] = "";
        const shingle_status status =
            shingle_file_find(files[i].of, files[i].name, path, sizeof path);
        assert_int_equal(status, files[i].path != NULL ? SHINGLE_OK : SHINGLE_EIO);
        assert_string_equal(path, files[i].path != NULL ? files[i].path : "");
    }
    char path[24] = "as it was";
    assert_int_equal(shingle_file_find(SHINGLE_MACHINES, "h200x4", path, 23), SHINGLE_EINVAL);
    expect_text("machine machines/h200x4.machine...: a path of 23 bytes; at most 22 are accepted");
    assert_int_equal(shingle_file_find(SHINGLE_MODELS, "", path, sizeof path), SHINGLE_EINVAL);
    expect_text("no name of a model or no place for its path; both are needed");
    assert_int_equal(shingle_file_find((shingle_files)3, "x", path, sizeof path), SHINGLE_EINVAL);
    expect_text("files of kind 3; 0 to 2 are accepted");
    assert_string_equal(path, "as it was");
    assert_int_equal(shingle_file_find(SHINGLE_MACHINES, "h200x4", path, 24), SHINGLE_OK);
}

static void what_was_not_built_in_is_unsupported(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    const shingle_config config = {.backend = "cuda"};
    for (int i = 0; shingle_backend_name(i) != NULL; i++)
        if (strcmp(shingle_backend_name(i), config.backend) == 0) skip();
    assert_int_equal(shingle_open(RANKS, &config, comm), SHINGLE_EUNSUPPORTED);
    expect_text("cuda is built in by cmake");
}

static void what_run_has_no_room_for_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *problem, *takes;
    } list[] = {{"gemm_rs:f32:32x16x16:r2:bias", "takes a bias: shingle_run_tensors has room"},
                {"gemm_rs:f32:32x16x16:r2:bias:norm", "takes a residual and a gain"},
                {"ag_gemm:f32:32x16x16:r2:return_a", "takes a returned A"},
                {"ag_gemm:f32:32x16x16:r2:b=8,8", "takes several B and C"}};
    static float a[32 * 16], b[16 * 16], c[32 * 16];
    shingle_comm *comm[RANKS];
    assert_int_equal(shingle_open(RANKS, NULL, comm), SHINGLE_OK);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        shingle_plan *plan = NULL;
        assert_int_equal(shingle_plan_create(comm[0], list[i].problem, NULL, &plan), SHINGLE_OK);
        assert_int_equal(shingle_run(plan, a, b, c, NULL), SHINGLE_EINVAL);
        expect_text(list[i].takes);
    }
    assert_int_equal(shingle_close(RANKS, comm), SHINGLE_OK);
}

/* ---- Options that mean nothing beside each other
 * --------------------------------------------- */

static void scales_need_a_machine(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    const shingle_config config[] = {{.scale_rows = 4}, {.scale_rows = 4, .scale_of = ""}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(shingle_open(RANKS, &config[i], comm), SHINGLE_EINVAL);
        assert_string_equal(shingle_error(), "scale_rows is 4 without scale_of; 0, or a machine "
                                             "file as scale_of, is accepted");
    }
}

static void limits_need_something_to_measure(void **state)
{
    (void)state;
    shingle_plan *plan = NULL;
    static const shingle_plan_options options[] = {
        {.measure_seconds = 0.5},
        {.strategy = "ring", .measure_seconds = 0.5},
        {.choose = "static", .measure_seconds = 0.5},
        {.choose = "predict", .measure_seconds = 0.5},
        {.level = "estimate", .measure_seconds = 0.5},
        {.choose = "measure", .level = "estimate", .measure_seconds = 0.5},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        assert_int_equal(shingle_plan_for(problem, NULL, &options[i], &plan), SHINGLE_EINVAL);
        expect_text("measure_seconds is 0.5, and nothing is measured; 0 is accepted");
    }
}

static int compute(void *context, const shingle_rows *rows)
{
    (void)context, (void)rows;
    return 1;
}

/* What plans are refused with, tuning them is, too. */
static void functions_are_for_calls(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.compute = compute};
    assert_int_equal(shingle_open(RANKS, &(shingle_config){.threads = 1}, comm), SHINGLE_OK);
    assert_int_equal(shingle_plan_create(comm[0], problem, &options, &plan), SHINGLE_EINVAL);
    expect_text("compute is for problems with call= alone");
    assert_int_equal(shingle_tune(comm[0], problem, &options, NULL), SHINGLE_EINVAL);
    expect_text("compute is for problems with call= alone");
    assert_int_equal(shingle_close(RANKS, comm), SHINGLE_OK);
}

static void rows_need_strategies(void **state)
{
    (void)state;
    shingle_bench_row rows[2];
    shingle_bench_result result;
    shingle_comm *comm[RANKS];
    const struct {
        shingle_bench_options options;
        const char *words;
    } cases[] = {
        {{.knob_sets = 2}, "knob_sets is 2 without strategies; 0, or strategies to time beside"},
        {{.knob_sets = 2, .strategies = ""}, "knob_sets is 2 without strategies"},
        {{.strategies = "ring", .rows_out = rows}, "rows is 0, and rows_out is given; how many"},
        {{.strategies = "ring", .rows = -1}, "rows is -1; 0 or more"},
    };
    assert_int_equal(shingle_open(RANKS, &(shingle_config){.threads = 1}, comm), SHINGLE_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(shingle_bench(RANKS, comm, problem, &cases[i].options, &result),
                         SHINGLE_EINVAL);
        expect_text(cases[i].words);
    }
    assert_int_equal(shingle_close(RANKS, comm), SHINGLE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_texts_are_not_given),
        cmocka_unit_test(machines_have_names_and_paths),
        cmocka_unit_test(files_have_names_and_paths),
        cmocka_unit_test(what_was_not_built_in_is_unsupported),
        cmocka_unit_test(what_run_has_no_room_for_is_named),
        cmocka_unit_test(scales_need_a_machine),
        cmocka_unit_test(limits_need_something_to_measure),
        cmocka_unit_test(functions_are_for_calls),
        cmocka_unit_test(rows_need_strategies),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
