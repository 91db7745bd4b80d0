/* What calls of the CUDA backend leave to the thread that made them and to others, without a GPU
 * (tests/fake_cuda): its last error, graphs that are captured meanwhile, the order of streams, and
 * ranks that others enqueue. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "fake_world.h"

/* ---- The last error -------------------------------------------------------------------------- */

/* "Not yet" is what who polls is often told, and nothing that the caller should find when it next
 * looks whether its own kernels were launched. */
static void expect_no_error(const char *call)
{
    if (fake_not_yet > 0) fail_msg("%s: asked too little", call);
    if (cudaPeekAtLastError() != cudaSuccess) fail_msg("%s leaves an error", call);
}

static void waiting_leaves_no_error(void **state)
{
    (void)state;
    world w;
    shingle_plan *plan = NULL;
    const shingle_plan_options measured = {.measure = 1};
    shingle_bench_result result;
    const shingle_bench_options bench = {.iterations = 1};
    fake_not_yet = 3;
    open_group(&w, 2, 5);
    expect_no_error("shingle_open");
    fake_not_yet = 3;
    assert_int_equal(shingle_plan_create(w.comm[0], "gemm_rs:bf16:48x16x32:r2", &measured, &plan),
                     SHINGLE_OK);
    expect_no_error("shingle_plan_create");
    shingle_plan_free(plan);
    fake_not_yet = 3;
    assert_int_equal(shingle_bench(2, w.comm, "gemm_rs:bf16:48x16x32:r2", &bench, &result),
                     SHINGLE_OK);
    expect_no_error("shingle_bench");
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    fill(&w, 1);
    for (int r = 0; r < 2; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    fake_not_yet = 3;
    sync_all(&w);
    expect_no_error("shingle_sync");
    expect_right(&w, "asked often");
    recover(&w);
    expect_no_error("shingle_recover");
    drop_plans(&w);
    close_group(&w);
    expect_no_error("shingle_close");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_leaves_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
