/* Tests of planner.h: a strategy whose schedules the backend refuses in one shape of
 * tiles is asked for others; and of strategy.h: in which order it has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/planner.h"
#include "core/propose.h"

/* A backend that refuses launches in tiles as wide as SELF says. */
static bool refuses_width(void *self, const sg_sched *sched, sg_text *why)
{
    const int32_t width = *(const int32_t *)self;
    for (int32_t i = 0; i < sched->steps; i++) {
        const sg_step *const step = &sched->step[i];
        if (step->kind != SG_LAUNCH || step->u.launch.tile_n != width) continue;
        sg_text_add(why, "no tiles of %d columns", (int)width);
        return false;
    }
    return true;
}

static void make_two_tiles(sg_machine *machine)
{
    sg_machine_plain(machine);
    machine->tiles = 2;
    machine->tile[0] = (sg_tile){128, 256, 1, 1};
    machine->tile[1] = (sg_tile){128, 128, 0.8, 1};
}

static void strategies_are_asked_for_other_tiles(void **state)
{
    (void)state;
    static const char *const names[] = {"direct", "ring"};
    sg_machine machine;
    sg_problem p;
    sg_machine_plain(&machine);
    machine.tiles = 3;
    machine.tile[0] = (sg_tile){128, 256, 1, 1};
    machine.tile[1] = (sg_tile){128, 224, 0.9, 1};
    machine.tile[2] = (sg_tile){128, 128, 0.8, 1};
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:8192x8192x4096:r2", &p), SHINGLE_OK);
    for (int i = 0; i < 2; i++) {
        const shingle_plan_options forced = {.strategy = names[i]};
        shingle_plan *free_one = NULL;
        shingle_plan *plan = NULL;
        assert_int_equal(sg_planner_choose(&p, &machine, &forced, NULL, NULL, &free_one),
                         SHINGLE_OK);
        sg_sched sched = {0};
        assert_int_equal(sg_plan_build(&p, free_one->strategy, &free_one->knobs, 0, &sched),
                         SHINGLE_OK);
        int32_t width = 0;
        for (int32_t k = 0; k < sched.steps; k++)
            if (sched.step[k].kind == SG_LAUNCH) width = sched.step[k].u.launch.tile_n;
        sg_able can = {.accepts = refuses_width, .self = &width};
        for (int k = 0; k < SG_KINDS; k++) can.kind[k] = true;
        assert_int_equal(sg_planner_choose(&p, &machine, &forced, NULL, &can, &plan), SHINGLE_OK);
        assert_ptr_equal(plan->strategy, free_one->strategy);
        assert_string_not_equal(plan->text, free_one->text);
        sg_sched_free(&sched);
        sg_plan_free(free_one);
        sg_plan_free(plan);
    }
    sg_problem_free(&p);
}

/* A backend that refuses as many schedules with collectives as SELF says. */
static bool refuses_some(void *self, const sg_sched *sched, sg_text *why)
{
    int *const left = self;
    bool collects = false;
    for (int32_t i = 0; i < sched->steps; i++) collects |= sched->step[i].kind == SG_COLL;
    if (!collects || *left == 0) return true;
    --*left;
    sg_text_add(why, "not this one");
    return false;
}

/* Serial in other tiles, which is asked for when the first are refused, stands behind what was
 * asked for by name, and is faster here; it is not what was asked for. */
static void who_asks_by_name_gets_that(void **state)
{
    (void)state;
    sg_machine machine;
    sg_problem p;
    int refused = 0;
    sg_able can = {.accepts = refuses_some, .self = &refused};
    const shingle_plan_options by_name = {.strategy = "ring"}, serial = {.strategy = "serial"};
    shingle_plan *plan = NULL;
    for (int k = 0; k < SG_KINDS; k++) can.kind[k] = true;
    make_two_tiles(&machine);
    machine.store_us = machine.copy_us = 1000;
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:512x256x64:r2", &p), SHINGLE_OK);
    assert_int_equal(sg_planner_choose(&p, &machine, &serial, NULL, &can, &plan), SHINGLE_OK);
    const double serial_us = plan->predicted_us;
    sg_plan_free(plan);
    refused = 1;
    assert_int_equal(sg_planner_choose(&p, &machine, &by_name, NULL, &can, &plan), SHINGLE_OK);
    assert_int_equal(refused, 0);
    assert_string_equal(plan->strategy->name, "ring");
    assert_true(plan->predicted_us > serial_us);
    sg_plan_free(plan);
    sg_problem_free(&p);
}

/* Nothing else is asked for where the user gave the tiles, or no tile is left. */
static void who_gives_tiles_gets_these(void **state)
{
    (void)state;
    sg_machine machine;
    sg_problem p;
    int32_t width = 256;
    sg_able can = {.accepts = refuses_width, .self = &width};
    shingle_plan *plan = NULL;
    for (int k = 0; k < SG_KINDS; k++) can.kind[k] = true;
    make_two_tiles(&machine);
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:8192x8192x4096:r2", &p), SHINGLE_OK);
    const shingle_plan_options by_hand = {.strategy = "direct{tile_m=128,tile_n=256,vendor=0}"};
    assert_int_equal(sg_planner_choose(&p, &machine, &by_hand, NULL, &can, &plan),
                     SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "no tiles of 256 columns"));
    machine.tiles = 1;
    const shingle_plan_options by_name = {.strategy = "direct"};
    assert_int_equal(sg_planner_choose(&p, &machine, &by_name, NULL, &can, &plan),
                     SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "no tiles of 256 columns"));
    sg_problem_free(&p);
}

/* The width of the tiles that direct proposes first. */
static int32_t first_width(const char *problem, const sg_machine *machine)
{
    const sg_strategy *const direct = sg_strategy_find("direct");
    sg_knobs sets[SG_MAX_KNOB_SETS] = {0};
    char reason[160] = "";
    sg_text why = {reason, sizeof reason, 0};
    sg_problem p;
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    assert_true(sg_strategy_propose(direct, &p, machine, sets, &why) > 0);
    sg_problem_free(&p);
    for (int i = 0; i < sg_knob_count(direct); i++)
        if (strcmp(direct->knob[i].name, "tile_n") == 0) return sets[0].value[i];
    return -1;
}

/* What a tile costs beside its product weighs where k is small. */
static void small_tiles_have_their_price(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    machine.tiles = 2;
    machine.tile[0] = (sg_tile){128, 256, 0.95, 1};
    machine.tile[1] = (sg_tile){128, 128, 1, 1};
    assert_int_equal(first_width("ag_gemm:bf16:10240x5120x256:r4", &machine), 128);
    machine.visit_us = 1;
    assert_int_equal(first_width("ag_gemm:bf16:10240x5120x256:r4", &machine), 256);
    assert_int_equal(first_width("ag_gemm:bf16:10240x5120x16384:r4", &machine), 128);
}

static bool is_quick(const char *problem)
{
    sg_machine machine;
    sg_problem p;
    make_two_tiles(&machine);
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    const bool quick = sg_strategy_is_quick(&p, &machine);
    sg_problem_free(&p);
    return quick;
}

/* Rows in many places are many tiles, and patches of every rank. */
static void rows_in_turns_take_time(void **state)
{
    (void)state;
    assert_true(is_quick("ag_gemm:bf16:262144x8192x8192:r8"));
    assert_true(is_quick("gemm_rs:bf16:65536x1024x1024:r8:cyclic=128"));
    assert_false(is_quick("gemm_rs:bf16:65536x1024x1024:r8:cyclic=1"));
    assert_true(is_quick("gemm:bf16:131072x262144x64:r1"));
    assert_true(is_quick("gemm_ar:bf16:131072x8192x1024:r64"));
    assert_false(is_quick("gemm_ar:bf16:131072x262400x64:r2"));
    assert_false(is_quick("gemm_ar:f32:256x256x256:r65"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strategies_are_asked_for_other_tiles),
        cmocka_unit_test(who_asks_by_name_gets_that),
        cmocka_unit_test(who_gives_tiles_gets_these),
        cmocka_unit_test(small_tiles_have_their_price),
        cmocka_unit_test(rows_in_turns_take_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
