/* Tests of the order of sums (docs/reproducible.md): which plans have the one of reproducible
 * plans, and why the others do not; a schedule that is changed has it no more; and the planner
 * keeps to it. test_bits_runs.c has the bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/tile.h"
#include "core/bits.h"
#include "core/check.h"
#include "core/comm.h"
#include "core/planner.h"

enum { RANKS = 7 };

/* ---- What the check sees --------------------------------------------------------------------- */

typedef struct sealed {
    sg_problem problem;
    sg_sched sched[RANKS];
    sg_checker *checker;
} sealed;

static void build(sealed *s, const char *text)
{
    shingle_plan *plan = NULL;
    memset(s, 0, sizeof *s);
    char problem[96] = "";
    memcpy(problem, text, strcspn(text, " "));
    const shingle_plan_options options = {.strategy = text + strcspn(text, " ") + 1};
    if (shingle_plan_for(problem, NULL, &options, &plan) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    assert_int_equal(sg_problem_copy(&plan->problem, &s->problem), SHINGLE_OK);
    for (int r = 0; r < s->problem.ranks; r++)
        assert_int_equal(sg_plan_build(&s->problem, plan->strategy, &plan->knobs, r, &s->sched[r]),
                         SHINGLE_OK);
    shingle_plan_free(plan);
    s->checker = sg_checker_new();
    assert_non_null(s->checker);
}

static void drop_sealed(sealed *s)
{
    for (int r = 0; r < s->problem.ranks; r++) sg_sched_free(&s->sched[r]);
    sg_problem_free(&s->problem);
    sg_checker_free(s->checker);
}

/* NULL if the schedules keep the order, or why not. */
static const char *verdict(sealed *s)
{
    static sg_check_result result;
    const shingle_status status = sg_check_bits(s->checker, s->sched, s->problem.ranks, &result);
    if (status == SHINGLE_OK) return NULL;
    assert_int_equal(status, SHINGLE_EUNSUPPORTED);
    return result.why;
}

static void expect_verdict(const char *text, const char *why)
{
    sealed s;
    build(&s, text);
    const char *const said = verdict(&s);
    if (why == NULL && said != NULL) fail_msg("%s: %s", text, said);
    if (why != NULL && said == NULL) fail_msg("%s is admitted", text);
    if (why != NULL) assert_string_equal(said, why);
    drop_sealed(&s);
}

static void reasons_are_named(void **state)
{
    (void)state;
    expect_verdict("gemm_rs:bf16:40x16x256:r3 fused_out{tile_m=8,tile_n=8}", NULL);
    expect_verdict("gemm_rs:bf16:40x16x256:r3 serial",
                   "the order of the vendor's product is not known");
    expect_verdict("gemm_rs:bf16:40x16x256:r3 sliced{slices=2}",
                   "the order of the library's sum is not known");
    expect_verdict("gemm_rs:bf16:40x16x256:r3 fused_out{tile_m=8,tile_n=8,splits=2}",
                   "k is summed in parts");
    expect_verdict("ag_gemm:bf16:40x16x256:r3 dma{form=3,chunks=2}", "k is summed in parts");
    expect_verdict("ag_gemm:bf16:40x16x256:r3 serial",
                   "the order of the vendor's product is not known");
    expect_verdict("gemm_rs:bf16:40x16x256:r3 ring",
                   "sums are rounded on their way from rank to rank");
    expect_verdict("gemm_rs:bf16:40x16x256:r2 ring",
                   "the own product is not rounded as those of others are");
    /* Nothing is rounded in between, and two may come in any order. */
    expect_verdict("gemm_rs:f32:40x16x256:r2 ring", NULL);
    expect_verdict("gemm_rs:f32:40x16x256:r3 ring", "what is added comes in another order");
    expect_verdict("ag_gemm:bf16:40x16x258:r3:gather=k direct{chunks=1}", NULL);
    expect_verdict("ag_gemm:bf16:40x16x258:r3:gather=k direct{chunks=3}",
                   "k is summed in other parts, or in another order of them");
    for (const char *const *by = (const char *const[]){"ring", "fused_in", NULL}; *by; by++) {
        char plan[80];
        snprintf(plan, sizeof plan, "ag_gemm:bf16:40x16x258:r3:gather=k:accumulate %s", *by);
        expect_verdict(plan, "k is summed in other parts, or in another order of them");
    }
    /* An all-to-all adds nothing, and a library that copies is as good as any. */
    expect_verdict("gemm_a2a:bf16:40x16x256:r3 sliced{slices=2}", NULL);
    expect_verdict("a2a_gemm:bf16:40x16x256:r3 fused_in", NULL);
    /* Several B are as many products, and what is returned is not summed. */
    expect_verdict("ag_gemm:bf16:40x16x256:r3:b=7,9:return_a fused_in", NULL);
}

static void changed_schedules_are_declined(void **state)
{
    static const char *const text = "gemm_rs:bf16:40x16x256:r3:bias fused_out{tile_m=8,tile_n=8}";
    (void)state;
    for (int change = 0; change < 4; change++) {
        sealed s;
        build(&s, text);
        assert_null(verdict(&s));
        sg_sched *const one = &s.sched[1];
        for (int32_t i = 0; i < one->patches; i++) {
            sg_patch *const p = &one->patch[i];
            if (p->adds != 2) continue;
            const sg_addend first = one->add[p->add0];
            if (change == 0) p->own_rounded = 0;
            if (change == 1) p->own_at = 2;
            if (change == 2) p->own_at = 0; /* a + b is b + a */
            if (change == 3) {
                one->add[p->add0] = one->add[p->add0 + 1];
                one->add[p->add0 + 1] = first;
            }
        }
        const char *const said = verdict(&s);
        if (change == 2)
            assert_null(said);
        else
            assert_non_null(said);
        drop_sealed(&s);
    }
}

/* What is right is made in this order or another, and nothing else; and
 * what is wrong is in no order. */
static void random_plans_have_an_order(void **state)
{
    enum { TRIPLES = 1500 };
    sg_random random = {7};
    sg_check_result result;
    int kept = 0;
    (void)state;
    for (int i = 0; i < TRIPLES; i++) {
        sealed s;
        sg_knobs knobs;
        const sg_strategy *strategy = NULL;
        memset(&s, 0, sizeof s);
        s.checker = sg_checker_new();
        assert_int_equal(sg_check_triple(&random, RANKS, &s.problem, &strategy, &knobs),
                         SHINGLE_OK);
        bool built = true;
        for (int r = 0; r < s.problem.ranks && built; r++)
            built = sg_plan_build(&s.problem, strategy, &knobs, r, &s.sched[r]) == SHINGLE_OK;
        if (built) {
            const shingle_status status =
                sg_check_bits(s.checker, s.sched, s.problem.ranks, &result);
            if (status != SHINGLE_OK && status != SHINGLE_EUNSUPPORTED)
                fail_msg("triple %d, %s: %s", i, strategy->name, shingle_error());
            kept += status == SHINGLE_OK;
            /* The checker's memory is used again, by checks of the other kind, too. */
            assert_int_equal(sg_check(s.checker, s.sched, s.problem.ranks, 0, &result), SHINGLE_OK);
        }
        drop_sealed(&s);
    }
    printf("%d of %d random plans are reproducible\n", kept, (int)TRIPLES);
    assert_true(kept > TRIPLES / 8 && kept < TRIPLES * 7 / 8);
}

static void values_follow_their_order(void **state)
{
    const uint64_t x[] = {sg_bits_input(1), sg_bits_input(2), sg_bits_input(3)};
    (void)state;
    assert_true(sg_bits_add(x[0], x[1]) == sg_bits_add(x[1], x[0]));
    assert_true(sg_bits_add(sg_bits_add(x[0], x[1]), x[2]) !=
                sg_bits_add(x[0], sg_bits_add(x[1], x[2])));
    assert_true(sg_bits_add(0, x[0]) == x[0]);
    const uint64_t chain_ab = sg_bits_chain(sg_bits_chain(0, x[0], x[1]), x[1], x[2]);
    const uint64_t chain_ba = sg_bits_chain(sg_bits_chain(0, x[1], x[2]), x[0], x[1]);
    assert_true(chain_ab != chain_ba);
    assert_true(chain_ab !=
                sg_bits_add(sg_bits_chain(0, x[0], x[1]), sg_bits_chain(0, x[1], x[2])));
    assert_true(sg_bits_round(chain_ab) != chain_ab);
    assert_true(sg_bits_round(sg_bits_round(chain_ab)) == sg_bits_round(chain_ab));
    assert_true(sg_bits_round(x[0]) == x[0]);
    assert_true(sg_bits_equal(chain_ab, chain_ab));
    assert_false(sg_bits_equal(sg_bits_mark(chain_ab, SG_BITS_VENDOR), chain_ab));
    assert_true(sg_bits_activate(chain_ab, 1) != sg_bits_activate(chain_ab, 2));
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static void the_planner_keeps_to_it(void **state)
{
    static const char *const how[] = {"predict", "static"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        shingle_plan *plan = NULL;
        const shingle_plan_options options = {.choose = how[i], .reproducible = 1};
        assert_int_equal(shingle_plan_for("gemm_ar:bf16:4096x4096x4096:r4", NULL, &options, &plan),
                         SHINGLE_OK);
        const sg_candidate *const chosen = &plan->candidate[plan->chosen];
        assert_string_equal(chosen->declined, "");
        assert_string_not_equal(chosen->strategy->name, "serial");
        assert_non_null(strstr(shingle_plan_reason(plan), "; reproducible, as are "));
        sealed s;
        char text[200];
        snprintf(text, sizeof text, "%.*s %s", (int)strcspn(plan->text, " "), plan->text,
                 chosen->text);
        build(&s, text);
        assert_null(verdict(&s));
        drop_sealed(&s);
        for (int c = 0; c < plan->candidates; c++)
            if (strcmp(plan->candidate[c].strategy->name, "serial") == 0)
                assert_string_equal(plan->candidate[c].declined,
                                    "the order of the vendor's product is not known");
        shingle_plan_free(plan);
    }
}

static bool loose(void *self, const sg_sched *s, sg_text *why)
{
    (void)self;
    (void)s;
    sg_text_add(why, "sums as it likes");
    return false;
}

static void what_is_impossible_is_an_error(void **state)
{
    sg_able can = {.keeps_order = loose};
    shingle_plan *plan = NULL;
    sg_problem problem;
    sg_machine plain;
    const shingle_plan_options free_choice = {.reproducible = 1};
    const shingle_plan_options forced = {.strategy = "serial", .reproducible = 1};
    (void)state;
    assert_int_equal(shingle_plan_for("gemm_rs:bf16:64x64x64:r2", NULL, &forced, &plan),
                     SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "serial{"));
    assert_non_null(strstr(shingle_error(), "the order of the vendor's product is not known"));
    /* A backend that does not say how it adds up has no such plans. */
    for (int kind = 0; kind < SG_KINDS; kind++) can.kind[kind] = true;
    sg_machine_plain(&plain);
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:64x64x64:r2", &problem), SHINGLE_OK);
    assert_int_equal(sg_planner_choose(&problem, &plain, &free_choice, NULL, &can, &plan),
                     SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "no plan is reproducible; serial{"));
    assert_non_null(strstr(shingle_error(), "sums as it likes"));
    sg_problem_free(&problem);
    assert_null(plan);
}

/* Of a group: what was measured is admitted, too, and kept apart from what is chosen freely. */
static void groups_measure_what_is_admitted(void **state)
{
    static const char *const problem = "gemm_rs:bf16:64x64x64:r2";
    const shingle_config config = {.timeout_seconds = 20};
    shingle_comm *comm[2];
    shingle_plan *plan = NULL;
    (void)state;
    if (!sg_tile_is_one_chain()) skip();
    assert_int_equal(shingle_open(2, &config, comm), SHINGLE_OK);
    const shingle_plan_options measured = {
        .choose = "measure", .measure_seconds = 0.02, .reproducible = 1};
    assert_int_equal(shingle_plan_create(comm[0], problem, &measured, &plan), SHINGLE_OK);
    assert_true(plan->candidate[plan->chosen].measured_us > 0);
    for (int i = 0; i < plan->candidates; i++)
        assert_true(plan->candidate[i].measured_us == 0 || plan->candidate[i].declined[0] == '\0');
    const shingle_plan_options both[] = {{.strategy = "serial"},
                                         {.strategy = "serial", .reproducible = 1}};
    shingle_plan *serial = NULL;
    assert_int_equal(shingle_plan_create(comm[0], problem, &both[0], &serial), SHINGLE_OK);
    assert_int_equal(shingle_plan_create(comm[0], problem, &both[1], &serial),
                     SHINGLE_EUNSUPPORTED);
    assert_int_equal(shingle_tune(comm[0], problem, &measured, NULL), SHINGLE_EUNSUPPORTED);
    /* What was tuned freely is taken by those who choose freely. */
    const shingle_plan_options tuned = {.strategy = "serial", .measure_seconds = 0.001};
    const shingle_plan_options wants = {.reproducible = 1};
    assert_int_equal(shingle_tune(comm[0], problem, &tuned, NULL), SHINGLE_OK);
    assert_int_equal(shingle_plan_create(comm[0], problem, NULL, &plan), SHINGLE_OK);
    assert_string_equal(plan->strategy->name, "serial");
    assert_int_equal(shingle_plan_create(comm[0], problem, &wants, &plan), SHINGLE_OK);
    assert_string_not_equal(plan->strategy->name, "serial");
    shingle_close(2, comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons_are_named),
        cmocka_unit_test(changed_schedules_are_declined),
        cmocka_unit_test(random_plans_have_an_order),
        cmocka_unit_test(values_follow_their_order),
        cmocka_unit_test(the_planner_keeps_to_it),
        cmocka_unit_test(what_is_impossible_is_an_error),
        cmocka_unit_test(groups_measure_what_is_admitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
