/* Tests of what the CPU backend keeps beside a plan's schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_b_stays_below_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
