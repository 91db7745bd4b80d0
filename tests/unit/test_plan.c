/* Tests of plan.h: texts parse to the plan that printed them, mistakes are named with their column,
 * and a plan that is only data says what it is. */
#include <stdio.h>
#include <stdlib.h>

#include "built.h"

static const char *const problems[] = {
    "gemm:f32:64x64x64:r1",
    "ag_gemm:bf16:512x256x128:r4",
    "ag_gemm:f16:100x40x70:r5:rows=0,50,1,29,20:bias:gelu",
    "gemm_rs:f32:96x64x32:r3:cyclic=8",
    "gemm_ar:bf16:1x1x1:r2:silu",
    "gemm_rs:bf16:0x5x5:r2",
};

enum { PROBLEMS = sizeof problems / sizeof problems[0] };

/* The plan of the first knob set that STRATEGY proposes for problem TEXT; NULL if it declines. */
static shingle_plan *first_plan(const char *text, const sg_strategy *strategy)
{
    sg_problem problem;
    sg_machine machine;
    proposals all;
    shingle_plan *plan = NULL;
    sg_machine_plain(&machine);
    assert_int_equal(sg_problem_parse(text, &problem), SHINGLE_OK);
    propose_to(&problem, strategy, &machine, &all);
    if (all.count > 0)
        assert_int_equal(sg_plan_make(&problem, strategy, &all.set[0], &plan), SHINGLE_OK);
    sg_problem_free(&problem);
    return plan;
}

static void texts_parse_to_the_same_plan(void **state)
{
    (void)state;
    int plans = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        for (int j = 0; sg_strategy_at(j) != NULL; j++) {
            shingle_plan *const plan = first_plan(problems[i], sg_strategy_at(j));
            if (plan == NULL) continue;
            shingle_plan *parsed = NULL;
            if (sg_plan_parse(plan->text, &parsed) != SHINGLE_OK) fail_msg("%s", shingle_error());
            assert_string_equal(parsed->text, plan->text);
            assert_true(parsed->hash == plan->hash);
            assert_ptr_equal(parsed->strategy, plan->strategy);
            assert_int_equal(strncmp(plan->text, problems[i], strlen(problems[i])), 0);
            for (int r = 0; r < plan->problem.ranks; r++) {
                const int64_t length = shingle_plan_schedule(plan, r, NULL, 0);
                assert_true(length > 0);
                char *const a = malloc((size_t)length + 1);
                char *const b = malloc((size_t)length + 1);
                assert_int_equal(shingle_plan_schedule(plan, r, a, (size_t)length + 1), length);
                assert_int_equal(shingle_plan_schedule(parsed, r, b, (size_t)length + 1), length);
                assert_string_equal(a, b);
                assert_int_equal(strlen(a), length);
                free(a);
                free(b);
            }
            sg_plan_free(parsed);
            sg_plan_free(plan);
            plans++;
        }
    }
    assert_true(plans > 2 * PROBLEMS);
}

static void hashes_differ(void **state)
{
    (void)state;
    uint64_t seen[PROBLEMS * 16];
    int count = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        for (int j = 0; sg_strategy_at(j) != NULL; j++) {
            shingle_plan *const plan = first_plan(problems[i], sg_strategy_at(j));
            if (plan == NULL) continue;
            for (int k = 0; k < count; k++) assert_true(seen[k] != plan->hash);
            seen[count++] = plan->hash;
            sg_plan_free(plan);
        }
    }
}

/* A plan of another version is another plan, even with the same text. */
static void the_version_is_part_of_the_hash(void **state)
{
    (void)state;
    const char *const version = shingle_version();
    shingle_plan *const plan = first_plan(problems[0], sg_strategy_at(0));
    const size_t length = (size_t)(strchr(plan->text, '#') - plan->text) - 1;
    assert_true(plan->hash == sg_hash(plan->text, length, sg_hash(version, strlen(version), 0)));
    assert_true(plan->hash != sg_hash(plan->text, length, sg_hash("0.0.0", 5, 0)));
    sg_plan_free(plan);
}

static void expect_error(const char *text, shingle_status status, const char *error)
{
    shingle_plan *plan = NULL;
    const shingle_status seen = shingle_plan_parse(text, &plan);
    assert_null(plan);
    if (seen != status || strstr(shingle_error(), error) == NULL)
        fail_msg("\"%s\": %d \"%s\", expected \"%s\"", text != NULL ? text : "", seen,
                 shingle_error(), error);
}

static void mistakes_are_named_with_their_column(void **state)
{
    (void)state;
    const char *const good = "gemm:f32:4x4x4:r1 ";
    char text[400];
    expect_error(NULL, SHINGLE_EINVAL, "no text");
    expect_error("", SHINGLE_EINVAL, "column 1");
    expect_error("gemm:f32:4x4:r1 serial", SHINGLE_EINVAL, "column 13");
    expect_error("gemm:f32:4x4x4:r1", SHINGLE_EINVAL, "column 18: a strategy expected");
    expect_error("gemm:f32:4x4x4:r1 #0123456789abcdef", SHINGLE_EINVAL, "column 19: a strategy");
    snprintf(text, sizeof text, "%snobody{} #0123456789abcdef", good);
    expect_error(text, SHINGLE_EINVAL, "plan, column 19: strategy \"nobody{}\"");
    shingle_plan *const plan = first_plan("gemm:f32:4x4x4:r1", sg_strategy_at(0));
    const char *const hash = strchr(plan->text, '#');
    const int column = (int)(hash - plan->text) + 1;
    snprintf(text, sizeof text, "%.*s", column - 1, plan->text);
    expect_error(text, SHINGLE_EINVAL, "\"#\" and the hash expected");
    snprintf(text, sizeof text, "%.*s#12345", column - 1, plan->text);
    expect_error(text, SHINGLE_EINVAL, "16 digits");
    snprintf(text, sizeof text, "%s more", plan->text);
    expect_error(text, SHINGLE_EINVAL, "the end expected");
    snprintf(text, sizeof text, "%s", plan->text);
    text[column] = text[column] == '0' ? '1' : '0';
    expect_error(text, SHINGLE_EMISMATCH, "another version");
    snprintf(text, sizeof text, "column %d", column);
    assert_non_null(strstr(shingle_error(), text));
    sg_plan_free(plan);
}

/* A strategy may be right and still not do the problem. */
static void what_a_strategy_declines_is_said(void **state)
{
    (void)state;
    for (int i = 0; sg_strategy_at(i) != NULL; i++) {
        const sg_strategy *const strategy = sg_strategy_at(i);
        sg_problem problem;
        char why[160] = "";
        sg_text reason = {why, sizeof why, 0};
        assert_int_equal(sg_problem_parse("gemm:f32:8x8x8:r2", &problem), SHINGLE_OK);
        if (!strategy->accepts(&problem, &reason)) {
            char text[300];
            sg_text t = {text, sizeof text, 0};
            sg_knobs knobs = {{0}};
            for (int k = 0; k < sg_knob_count(strategy); k++)
                knobs.value[k] = strategy->knob[k].least;
            sg_text_add(&t, "gemm:f32:8x8x8:r2 ");
            sg_strategy_print(strategy, &knobs, &t);
            sg_text_add(&t, " #0123456789abcdef");
            expect_error(text, SHINGLE_EUNSUPPORTED, why);
        }
        sg_problem_free(&problem);
    }
}

static void copies_say_the_same(void **state)
{
    (void)state;
    shingle_plan *plan = NULL;
    shingle_plan *copy = NULL;
    assert_int_equal(shingle_plan_for("gemm_rs:bf16:512x512x512:r4", NULL, NULL, &plan),
                     SHINGLE_OK);
    plan->measured_us = 12.5;
    assert_int_equal(sg_plan_copy(plan, &copy), SHINGLE_OK);
    assert_true(copy->measured_us == 12.5 && copy->predicted_us == plan->predicted_us);
    assert_true(copy->hash == plan->hash && copy->chosen == plan->chosen);
    assert_string_equal(shingle_plan_text(plan), shingle_plan_text(copy));
    assert_string_equal(shingle_plan_reason(plan), shingle_plan_reason(copy));
    const int count = shingle_plan_candidates(plan);
    assert_true(count > 3);
    assert_int_equal(shingle_plan_candidates(copy), count);
    int chosen = 0;
    for (int i = 0; i < count; i++) {
        shingle_candidate a;
        shingle_candidate b;
        assert_int_equal(shingle_plan_candidate(plan, i, &a), SHINGLE_OK);
        assert_int_equal(shingle_plan_candidate(copy, i, &b), SHINGLE_OK);
        assert_string_equal(a.strategy, b.strategy);
        assert_true(a.predicted_us == b.predicted_us && a.chosen == b.chosen);
        assert_true((a.declined != NULL) == (a.predicted_us == 0));
        chosen += a.chosen;
    }
    assert_int_equal(chosen, 1);
    shingle_candidate none;
    assert_int_equal(shingle_plan_candidate(plan, count, &none), SHINGLE_EINVAL);
    assert_int_equal(shingle_plan_candidate(plan, -1, &none), SHINGLE_EINVAL);
    assert_int_equal(shingle_plan_schedule(plan, 4, NULL, 0), -1);
    assert_int_equal(shingle_plan_schedule(plan, -1, NULL, 0), -1);
    assert_int_equal(shingle_plan_schedule(NULL, 0, NULL, 0), -1);
    assert_string_equal(shingle_plan_text(NULL), "");
    sg_plan_free(plan);
    sg_plan_free(copy);
    sg_plan_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_parse_to_the_same_plan),
        cmocka_unit_test(hashes_differ),
        cmocka_unit_test(the_version_is_part_of_the_hash),
        cmocka_unit_test(mistakes_are_named_with_their_column),
        cmocka_unit_test(what_a_strategy_declines_is_said),
        cmocka_unit_test(copies_say_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
