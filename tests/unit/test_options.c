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

/* ---- Texts ----------------------------------------------------------------------------------- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_texts_are_not_given),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
