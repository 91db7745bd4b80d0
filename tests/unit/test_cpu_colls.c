/* Collectives of the CPU backend whose ranks do not all come: groups of many ranks that each wait
 * in another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shingle.h"

enum { RANKS = 20, M = RANKS, N = 8, K = 8 };

static shingle_plan *make_plan(shingle_comm *comm, const char *op)
{
    char problem[64];
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = "serial"};
    snprintf(problem, sizeof problem, "%s:f32:%dx%dx%d:r%d", op, M, N, K, RANKS);
    if (shingle_plan_create(comm, problem, &options, &plan) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    return plan;
}

/* Rank r comes to its collective after 2 r runs that wait for nobody, so that no two are at the
 * same one, and nobody knows any more what another ran when it was where he is. */
static void every_rank_may_wait_in_another_collective(void **state)
{
    (void)state;
    static float a[M * K], b[N * K], c[RANKS][M * N];
    const shingle_config config = {.backend = "cpu", .timeout_seconds = 0.5, .threads = 2};
    shingle_comm *comm[RANKS];
    shingle_plan *gather[RANKS];
    if (shingle_open(RANKS, &config, comm) != SHINGLE_OK) fail_msg("%s", shingle_error());
    for (int r = RANKS - 1; r >= 0; r--) {
        shingle_plan *const alone = make_plan(comm[r], "gemm");
        gather[r] = make_plan(comm[r], "ag_gemm");
        for (int n = 0; n < 2 * r; n++) {
            assert_int_equal(shingle_run(alone, a, b, c[r], NULL), SHINGLE_OK);
            assert_int_equal(shingle_sync(comm[r], 10), SHINGLE_OK);
        }
    }
    for (int r = RANKS - 1; r >= 0; r--)
        assert_int_equal(shingle_run(gather[r], a, b, c[r], NULL), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) {
        const shingle_status status = shingle_sync(comm[r], 10);
        if (status != SHINGLE_ETIMEOUT && status != SHINGLE_EMISMATCH)
            fail_msg("%d: %s", (int)status, shingle_error());
    }
    for (int r = 0; r < RANKS - 1; r++) {
        assert_int_equal(shingle_recover(comm[r], 0), SHINGLE_ETIMEOUT);
        if (r == 0) assert_non_null(strstr(shingle_error(), "of ranks 1, 2, 3, 4 and 15 more;"));
    }
    assert_int_equal(shingle_recover(comm[RANKS - 1], 0), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(shingle_run(gather[r], a, b, c[r], NULL), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++)
        if (shingle_sync(comm[r], 10) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_int_equal(shingle_close(RANKS, comm), SHINGLE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_may_wait_in_another_collective),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
