/* Tests of what the CPU backend keeps beside a plan's schedule, and of when steps begin: lane.c is
 * taken in whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/backend/cpu/lane.c"
#include "core/comm.h"

enum { RANKS = 2, N = 24, K = 16 };

static shingle_plan *make_plan(shingle_comm *comm, const char *problem)
{
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = "direct"};
    if (shingle_plan_create(comm, problem, &options, &plan) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    return plan;
}

/* A plan with a larger B, bound while a run is under way, gets memory of its own for it; otherwise
 * the rank's grows. */
static void packed_b_stays_below_a_run(void **state)
{
    (void)state;
    static float a[2 * K], b[N * K], c[RANKS][4 * N];
    const shingle_config config = {.backend = "cpu", .threads = 1};
    shingle_comm *comm[RANKS];
    shingle_plan *plan[RANKS];
    if (shingle_open(RANKS, &config, comm) != SHINGLE_OK) fail_msg("%s", shingle_error());
    const sg_cpu *const cpu = comm[0]->group->self;
    for (int r = 0; r < RANKS; r++) plan[r] = make_plan(comm[r], "ag_gemm:f32:4x24x16:r2");
    const sg_pack *const pack = cpu->rank[0].pack;
    const float *const data = pack->data;
    assert_int_equal(shingle_run(plan[0], a, b, c[0], NULL), SHINGLE_OK); /* it waits for rank 1 */
    shingle_plan *const larger = make_plan(comm[0], "ag_gemm:f32:4x2048x4096:r2");
    assert_ptr_not_equal(cpu->rank[0].pack, pack);
    assert_ptr_equal(pack->data, data);
    assert_int_equal(shingle_run(plan[1], a, b, c[1], NULL), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) assert_int_equal(shingle_sync(comm[r], 10), SHINGLE_OK);
    const sg_pack *const second = cpu->rank[0].pack;
    shingle_plan *const largest = make_plan(comm[0], "ag_gemm:f32:4x4096x4096:r2");
    assert_ptr_equal(cpu->rank[0].pack, second);
    shingle_plan_free(largest);
    shingle_plan_free(larger);
    for (int r = 0; r < RANKS; r++) shingle_plan_free(plan[r]);
    assert_int_equal(shingle_close(RANKS, comm), SHINGLE_OK);
}

/* A step after two others begins when both have ended. */
static void both_steps_come_before(void **state)
{
    (void)state;
    struct sg_bound bound = {.hash = 0};
    sg_cpu_step step[3] = {{.state = SG_STEP_IDLE}};
    const sg_cpu_plan plan = {.step = step};
    const sg_run run = {.bound = &bound};
    sg_stuck stuck;
    assert_int_equal(sg_problem_parse("gemm:f32:2x2x2:r2", &bound.problem), SHINGLE_OK);
    sg_sched *const s = &bound.sched;
    sg_sched_begin(s, &bound.problem, 0);
    for (int i = 0; i < 3; i++) {
        sg_sched_flag(s, (i + 1) % 3);
        sg_sched_raise(s, 1, SG_PER_PATCH, i);
    }
    for (int i = 0; i < 2; i++) sg_sched_after(s, i);
    assert_int_equal(s->steps, 3);
    for (int ended = 0; ended < 4; ended++) {
        for (int i = 0; i < 2; i++) step[i].state = ended >> i & 1 ? SG_STEP_ENDED : SG_STEP_OPEN;
        assert_int_equal(can_begin(&plan, &run, 2, &stuck), ended == 3);
    }
    sg_sched_free(s);
    sg_problem_free(&bound.problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_b_stays_below_a_run),
        cmocka_unit_test(both_steps_come_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
