/* What the CUDA backend leaves alone of a program that uses GPUs by itself, and what it takes from
 * it, without a GPU (tests/fake_cuda): current devices of threads, tensors. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "fake_world.h"

/* ---- Devices --------------------------------------------------------------------------------- */

static int current(void)
{
    int device = -1;
    assert_int_equal(cudaGetDevice(&device), cudaSuccess);
    return device;
}

/* Binding enters the GPUs of all ranks within one of them, and what measures
 * enqueues runs within another. */
static void calls_leave_the_current_device(void **state)
{
    (void)state;
    static const char *const strategies[] = {"fused_out", "direct", "ring", "dma", "serial", NULL};
    for (int device = 0; device < FAKE_DEVICES; device++) {
        world w;
        open_group(&w, RANKS, 20);
        assert_int_equal(cudaSetDevice(device), cudaSuccess);
        for (int i = 0; i < 6; i++) {
            shingle_plan *plan = NULL;
            const shingle_plan_options options = {.strategy = strategies[i],
                                                  .measure = strategies[i] == NULL ? 2 : 0};
            if (shingle_plan_create(w.comm[1], "gemm_ar:bf16:136x136x64:r4", &options, &plan) !=
                SHINGLE_OK)
                fail_msg("%s", shingle_error());
            if (current() != device)
                fail_msg("%s: device %d, was %d", shingle_plan_text(plan), current(), device);
            shingle_plan_free(plan);
            assert_int_equal(current(), device);
        }
        assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r4", "direct"));
        run_right(&w, 1);
        assert_int_equal(current(), device);
        recover(&w);
        assert_int_equal(current(), device);
        drop_plans(&w);
        close_group(&w);
        assert_int_equal(current(), device);
        assert_int_equal(cudaSetDevice(0), cudaSuccess);
    }
}

/* Whatever fails, but the call that puts the device back. */
static void failures_leave_the_current_device(void **state)
{
    (void)state;
    const shingle_config config = {.backend = "cuda", .timeout_seconds = SHORT_LIMIT};
    bool opened = false;
    assert_int_equal(cudaSetDevice(3), cudaSuccess);
    for (int i = 0; !opened; i++) {
        shingle_comm *comm[2];
        const int before = fake_unset;
        fake_fail_at(i, cudaErrorUnknown);
        const bool made =
            shingle_open(2, &config, comm) == SHINGLE_OK; /* without collectives, say */
        opened = fake_calls() <= i;
        fake_fail_at(-1, cudaErrorUnknown);
        if (fake_unset == before && current() != 3) fail_msg("call %d: device %d", i, current());
        if (made) shingle_close(2, comm);
        assert_int_equal(cudaSetDevice(3), cudaSuccess);
    }
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
}

/* A thread a rank: what one binds for all ranks moves none of the others. */
static world shared;
static _Atomic bool stop;
static _Atomic int moved_to;

static void *bind_for_all(void *unused)
{
    (void)unused;
    fake_call_us = 20;
    for (int i = 0; i < 150 && moved_to < 0; i++) {
        char problem[64];
        shingle_plan *plan = NULL;
        const shingle_plan_options options = {.strategy = "direct{tile_m=64,tile_n=128}"};
        snprintf(problem, sizeof problem, "gemm_rs:bf16:%dx8x16:r2", 8 + i);
        if (shingle_plan_create(shared.comm[0], problem, &options, &plan) != SHINGLE_OK) abort();
        int device = -1;
        (void)cudaGetDevice(&device);
        if (device != 0) moved_to = device;
        shingle_plan_free(plan);
    }
    stop = true;
    return NULL;
}

static void *run_one(void *unused)
{
    int device = 1;
    (void)unused;
    (void)cudaSetDevice(1);
    while (!stop && device == 1) {
        if (run_rank(&shared, 1, NULL) != SHINGLE_OK) abort();
        if (shingle_sync(shared.comm[1], 20) != SHINGLE_OK) abort();
        (void)cudaGetDevice(&device);
    }
    if (device != 1) moved_to = device;
    return NULL;
}

static void threads_keep_their_devices(void **state)
{
    (void)state;
    pthread_t thread[2];
    moved_to = -1;
    open_group(&shared, 2, 20);
    assert_true(make_plans(&shared, "gemm:bf16:16x16x16:r2", "serial"));
    fill(&shared, 1);
    pthread_create(&thread[0], NULL, run_one, NULL);
    pthread_create(&thread[1], NULL, bind_for_all, NULL);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    drop_plans(&shared);
    close_group(&shared);
    if (moved_to >= 0) fail_msg("a thread finds device %d, and has set its own", moved_to);
}

/* A thread a rank, each of which makes plans beside the others' runs. */
static void *drive(void *of)
{
    const int r = (int)(intptr_t)of;
    (void)cudaSetDevice(r);
    for (int n = 0; n < 60; n++) {
        if (run_rank(&shared, r, NULL) != SHINGLE_OK) return &shared;
        if (n % 5 == 4 && shingle_sync(shared.comm[r], 20) != SHINGLE_OK) return &shared;
        if (n % 20 != 10) continue;
        shingle_plan *plan = NULL;
        char problem[64];
        const shingle_plan_options options = {.strategy = "direct{tile_m=64,tile_n=128}"};
        snprintf(problem, sizeof problem, "gemm_rs:bf16:%dx8x16:r4", 8 << (n / 20));
        if (shingle_plan_create(shared.comm[r], problem, &options, &plan) != SHINGLE_OK)
            return &shared;
        shingle_plan_free(plan);
    }
    return shingle_sync(shared.comm[r], 20) == SHINGLE_OK ? NULL : &shared;
}

static void ranks_have_threads(void **state)
{
    (void)state;
    static const char *const strategies[] = {"fused_out{tile_m=64,tile_n=128}", "ring"};
    for (int i = 0; i < 2; i++) {
        pthread_t thread[RANKS];
        int failed = 0;
        open_group(&shared, RANKS, 20);
        assert_true(make_plans(&shared, "gemm_rs:bf16:40x16x16:r4", strategies[i]));
        fill(&shared, 1);
        for (int r = 0; r < RANKS; r++)
            pthread_create(&thread[r], NULL, drive, (void *)((intptr_t)r));
        for (int r = 0; r < RANKS; r++) {
            void *result = NULL;
            pthread_join(thread[r], &result);
            failed += result != NULL;
        }
        assert_int_equal(failed, 0);
        expect_right(&shared, strategies[i]);
        drop_plans(&shared);
        close_group(&shared);
    }
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static const char *const strategies[] = {
    "serial", "fused_out{tile_m=64,tile_n=128}", "direct", "ring", "sliced", "dma"};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

/* A bias that the problem has not is refused before anything is enqueued, nor is it looked at. */
static void a_bias_that_nobody_asked_for_is_refused(void **state)
{
    (void)state;
    static uint16_t here[136];
    world w;
    open_group(&w, RANKS, 20);
    for (int i = 0; i < STRATEGIES; i++) {
        assert_true(make_plans(&w, "gemm_rs:bf16:136x136x16:r4", strategies[i]));
        fill(&w, 1);
        const shingle_tensors t = {.a = w.a[0], .b = w.b[0][0], .c = w.c[0][0], .bias = here};
        assert_int_equal(shingle_run_tensors(w.plan[0], &t, NULL), SHINGLE_EINVAL);
        assert_non_null(strstr(shingle_error(), "bias is given, but the problem has none"));
        for (int r = 0; r < RANKS; r++)
            if (run_rank(&w, r, NULL) != SHINGLE_OK) fail_msg("%s", shingle_error());
        sync_all(&w);
        expect_right(&w, strategies[i]);
        drop_plans(&w);
    }
    close_group(&w);
}

/* A run in which rank ODD has the tensors of APART, and all others have those of DENSE. */
static void expect_right_apart(world *dense, world *apart, int odd)
{
    const char *const text = shingle_plan_text(dense->plan[0]);
    fill(dense, (uint64_t)odd);
    fill(apart, (uint64_t)odd);
    for (int r = 0; r < RANKS; r++)
        if (run_rank(r == odd ? apart : dense, r, NULL) != SHINGLE_OK)
            fail_msg("%s, rank %d: %s", text, odd, shingle_error());
    for (int r = 0; r < RANKS; r++) {
        const world *const w = r == odd ? apart : dense;
        sg_data_wrong c, returned;
        if (shingle_sync(w->comm[r], 5) != SHINGLE_OK)
            fail_msg("%s, rank %d: %s", text, odd, shingle_error());
        sg_data_compare(&w->data, r, w->c[r][0], stride_of(w, w->problem.n), &c);
        sg_data_compare_returned(&w->data, r, w->returned[r], stride_of(w, w->problem.k),
                                 &returned);
        if (c.elements + returned.elements > 0)
            fail_msg("%s: rank %d of %d is wrong", text, r, odd);
    }
}

/* Which collective a rank comes to follows from the plan, whatever rows its
 * tensors have between the rows. */
static void ranks_may_have_different_strides(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"ag_gemm:bf16:4x16x16:r4:return_a", "serial{windows=0}"},
        {"ag_gemm:bf16:4x16x16:r4:return_a", "serial{windows=1}"},
        {"ag_gemm:bf16:48x16x16:r4:return_a", "serial{windows=0}"},
        {"ag_gemm:bf16:50x24x32:r4:cyclic=3:return_a", "serial"},
        {"ag_gemm:bf16:4x16x16:r4:gather=k", "serial"},
        {"ag_gemm:bf16:4x16x16:r4:gather=b", "serial"},
        {"ag_gemm:bf16:40x48x32:r4:gather=b", "serial"},
        {"ag_gemm:bf16:40x24x64:r4:gather=k", "serial"},
        {"gemm_rs:bf16:4x16x16:r4", "serial{windows=0}"},
        {"gemm_rs:bf16:4x16x16:r4", "serial{windows=1}"},
        {"gemm_rs:bf16:6x16x16:r4", "serial"},
        {"gemm_rs:bf16:52x24x32:r4:norm", "serial"},
        {"gemm_ar:bf16:1x16x16:r4", "serial"},
        {"gemm_ar:bf16:52x24x32:r4", "serial"},
        {"a2a_gemm:bf16:16x24x32:r4:return_a", "serial"},
        {"gemm_a2a:bf16:16x24x32:r4", "serial"},
        {"gemm_rs:bf16:8x136x16:r4", "sliced{slices=2,tile_m=64,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4", "sliced{slices=3,tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:52x136x16:r4", "sliced{slices=2,tile_m=64,tile_n=128}"},
        {"ag_gemm:bf16:52x136x16:r4:return_a", "sliced{slices=2,tile_m=64,tile_n=128}"},
        {"gemm_rs:bf16:520x136x16:r4", "signal{unit=2,cuts=1,tile_m=128,tile_n=128}"},
        {"gemm_ar:bf16:520x136x16:r4", "signal{unit=2,cuts=1,tile_m=128,tile_n=128}"},
    };
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        world dense;
        open_group(&dense, RANKS, 5);
        world apart = dense;
        apart.pad = 8;
        if (!make_plans(&dense, asked[i][0], asked[i][1])) fail_msg("%s", shingle_error());
        assert_true(make_plans(&apart, asked[i][0], asked[i][1]));
        for (int odd = 0; odd < RANKS; odd++) expect_right_apart(&dense, &apart, odd);
        drop_plans(&apart);
        drop_plans(&dense);
        close_group(&dense);
    }
}

/* The algorithm that was timed multiplies in other forms, too.  Where it does not serve them they
 * leave it to those in its own, and the library is asked once for another form, however often they
 * take turns. */
static void expect_algorithms(bool dense)
{
    world w;
    void *far = NULL;
    open_group(&w, 1, 5);
    fake_first_us = 100000; /* more than a pause of this process */
    assert_true(make_plans(&w, "gemm:bf16:64x64x64:r1", "serial"));
    fake_first_us = 0;
    fake_dense = dense;
    assert_int_equal(shingle_alloc(w.comm[0], (size_t)64 * 80 * 2 + 16, &far), SHINGLE_OK);
    const shingle_tensors own = {.a = w.a[0], .b = w.b[0][0], .c = w.c[0][0]};
    shingle_tensors odd = own;
    shingle_tensors wide = own;
    odd.a = (char *)far + 16;
    wide.a = far, wide.a_stride = 80;
    const shingle_tensors *const turns[] = {&own, &odd, &own, &wide, &own, &wide, &own};
    const int asked = fake_asked;
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        assert_int_equal(shingle_run_tensors(w.plan[0], turns[i], NULL), SHINGLE_OK);
        assert_int_equal(fake_algorithm, !dense || turns[i] == &own); /* the first one is slow */
    }
    assert_int_equal(fake_asked - asked, dense ? 2 : 0);
    sync_all(&w);
    run_right(&w, 1);
    fake_dense = false;
    shingle_free(w.comm[0], far);
    drop_plans(&w);
    close_group(&w);
}

static void products_keep_their_algorithm(void **state)
{
    (void)state;
    expect_algorithms(false);
    expect_algorithms(true);
}

/* Of several ranks, a product of rows that lie apart is the library's as well; but at odd bytes, or
 * where its algorithm does not serve them, it is ours: what the library takes may not be loaded. */
static void rows_that_lie_apart_are_the_librarys(void **state)
{
    (void)state;
    static const char *const problem[] = {"ag_gemm:bf16:64x48x64:r2",
                                          "gemm_rs:bf16:64x48x64:r2:relu",
                                          "ag_gemm:bf16:64x48x64:r2:b=32,16"};
    for (int i = 0; i < 9; i++) {
        const int form = i % 3, products = i < 6 ? 1 : 2;
        world w;
        open_group(&w, 2, 5);
        w.pad = form == 1 ? 4 : 8;
        if (!make_plans(&w, problem[i / 3], "serial{windows=0}")) fail_msg("%s", shingle_error());
        fake_dense = form == 2;
        fill(&w, 1);
        const int before = fake_products;
        for (int r = 0; r < 2; r++)
            if (run_rank(&w, r, NULL) != SHINGLE_OK) fail_msg("%s", shingle_error());
        sync_all(&w);
        expect_right(&w, problem[i / 3]);
        assert_int_equal(fake_products - before, form == 0 ? 2 * products : 0);
        fake_dense = false;
        drop_plans(&w);
        close_group(&w);
    }
}

/* A product of which no algorithm runs is refused when a plan is made, and not kept as the best. */
static void products_that_do_not_run_are_refused(void **state)
{
    (void)state;
    world w;
    open_group(&w, 1, 5);
    fake_productless = true;
    assert_false(make_plans(&w, "gemm:bf16:64x64x64:r1", "serial"));
    expect_text("cublasLtMatmul");
    fake_productless = false;
    assert_true(make_plans(&w, "gemm:bf16:64x64x64:r1", "serial"));
    run_right(&w, 1);
    drop_plans(&w);
    close_group(&w);
}

/* Sums of half of so long a k need more bits than the type has; the library may not round them. */
static void sums_of_plain_products_are_not_rounded_on_the_way(void **state)
{
    (void)state;
    static const char *const problem[] = {"gemm:bf16:24x16x1000:r1", "gemm:f16:24x16x3000:r1"};
    world w;
    open_group(&w, 1, 5);
    for (int i = 0; i < 2; i++) {
        assert_true(make_plans(&w, problem[i], "serial"));
        run_right(&w, 1);
        drop_plans(&w);
    }
    close_group(&w);
}

/* A plain product behind a run that waits for other ranks loads no kernel for a form that it was
 * not made for: that would wait for them, whose runs the same thread has yet to enqueue. */
static void plain_products_load_nothing_behind_others(void **state)
{
    (void)state;
    world dense;
    open_group(&dense, RANKS, 20);
    world apart = dense;
    world scatter = dense;
    apart.pad = 8;
    assert_true(make_plans(&scatter, "gemm_rs:bf16:256x128x64:r4", "fused_out"));
    assert_true(make_plans(&dense, "gemm:bf16:128x128x64:r4", "serial"));
    assert_true(make_plans(&apart, "gemm:bf16:128x128x64:r4", "serial"));
    for (int r = 0; r < RANKS; r++) { /* plans that were made for dense rows get others */
        shingle_plan *const plan = apart.plan[r];
        apart.plan[r] = dense.plan[r];
        dense.plan[r] = plan;
    }
    fill(&scatter, 1);
    fill(&apart, 1);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(run_rank(&scatter, r, NULL), SHINGLE_OK);
        if (run_rank(&apart, r, NULL) != SHINGLE_OK) fail_msg("%s", shingle_error());
    }
    sync_all(&scatter);
    expect_right(&scatter, "in front of plain products");
    expect_right(&apart, "behind a scatter");
    drop_plans(&apart);
    drop_plans(&dense);
    drop_plans(&scatter);
    close_group(&dense);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Nothing is freed beside a run that waits for another rank, which the same thread may have to
 * begin: cudaFree would wait for it.  It goes with the first wait behind. */
static void memory_is_freed_at_rest(void **state)
{
    (void)state;
    static const shingle_plan_options serial = {.strategy = "serial"};
    world w;
    shingle_plan *product = NULL;
    void *memory = NULL;
    open_group(&w, 2, 20);
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x64:r2", "fused_out{tile_m=128,tile_n=128}"));
    assert_int_equal(shingle_alloc(w.comm[0], 1 << 20, &memory), SHINGLE_OK);
    fill(&w, 1);
    fake_stalls = 0;
    assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_OK);
    assert_true(fake_busy(0));
    shingle_free(w.comm[0], memory);
    assert_int_equal(shingle_plan_create(w.comm[0], "gemm:bf16:96x64x64:r2", &serial, &product),
                     SHINGLE_OK);
    assert_int_equal(fake_stalls, 0);
    const int kept = fake_live();
    assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_OK);
    sync_all(&w);
    expect_right(&w, "freed beside it");
    assert_int_equal(fake_live(), kept - 1);
    shingle_plan_free(product);
    drop_plans(&w);
    close_group(&w);
    assert_int_equal(fake_stalls, 0);
}

/* What was found out of an address holds until memory is freed: it may come back as other
 * memory. */
static void freed_addresses_are_looked_at_again(void **state)
{
    (void)state;
    static uint16_t __attribute__((aligned(16))) here[48 * 16];
    world w;
    void *memory = NULL;
    open_group(&w, RANKS, 20);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r4", "fused_out"));
    assert_int_equal(shingle_alloc(w.comm[2], sizeof here, &memory), SHINGLE_OK);
    void *const there = w.b[1][0];
    w.b[1][0] = here;
    run_right(&w, 1);
    fake_host = here;
    shingle_free(w.comm[2], memory);
    assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_EINVAL);
    expect_text("b of rank 1 is in the host's memory");
    fake_host = NULL;
    w.b[1][0] = there;
    run_right(&w, 2);
    drop_plans(&w);
    close_group(&w);
}

/* The first figure behind KEY in TEXT. */
static double figure(const char *text, const char *key)
{
    const char *const at = strstr(text, key);
    assert_non_null(at);
    return atof(at + strlen(key));
}

static void machines_go_by_the_name_of_the_gpu(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"NVIDIA H200", "machines/h200x4.machine"},
        {"NVIDIA A100-SXM4-80GB", "machines/a100x8.machine"},
        {"NVIDIA A100-PCIE-40GB", "machines/a100-pcie-x8.machine"},
        {"NVIDIA A100 80GB PCIe", "machines/a100-pcie-x8.machine"},
        {"NVIDIA GeForce RTX 4090", "machines/rtx4090x4.machine"},
        {"NVIDIA L20", "machines/l20x8.machine"},
        {"NVIDIA H2000", NULL},
        {"NVIDIA L200", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world w;
        shingle_machine *file = NULL;
        fake_name = cases[i][0];
        open_group(&w, RANKS, 5);
        const char *const seen = shingle_machine_text(shingle_comm_machine(w.comm[0]));
        const double gbps = figure(seen, "\nmem_gbps");
        if (cases[i][1] != NULL) {
            assert_int_equal(shingle_machine_load(cases[i][1], &file), SHINGLE_OK);
            assert_true(gbps == figure(shingle_machine_text(file), "\nmem_gbps"));
            assert_true(figure(seen, "\ncopy_gbps") ==
                        figure(shingle_machine_text(file), "\ncopy_gbps"));
        } else {
            assert_true(gbps != 4200 && gbps != 864);     /* neither H200 nor L20 */
            assert_true(figure(seen, "\ncache_mb") < 40); /* part of what the GPU says of itself */
        }
        shingle_machine_free(file);
        close_group(&w);
    }
    fake_name = "NVIDIA H200";
}

/* What cannot be told is not told by halves. */
static void devices_are_told_whole(void **state)
{
    (void)state;
    world w;
    shingle_device device;
    unsigned char before[sizeof device];
    memset(&device, UNTOUCHED, sizeof device);
    memcpy(before, &device, sizeof device);
    open_group(&w, 1, 5);
    fake_fail_at(0, cudaErrorUnknown);
    assert_int_not_equal(shingle_comm_device(w.comm[0], &device), SHINGLE_OK);
    fake_fail_at(-1, cudaErrorUnknown);
    assert_memory_equal(&device, before, sizeof device);
    assert_int_equal(shingle_comm_device(w.comm[0], &device), SHINGLE_OK);
    close_group(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_leave_the_current_device),
        cmocka_unit_test(failures_leave_the_current_device),
        cmocka_unit_test(threads_keep_their_devices),
        cmocka_unit_test(ranks_have_threads),
        cmocka_unit_test(a_bias_that_nobody_asked_for_is_refused),
        cmocka_unit_test(ranks_may_have_different_strides),
        cmocka_unit_test(products_keep_their_algorithm),
        cmocka_unit_test(rows_that_lie_apart_are_the_librarys),
        cmocka_unit_test(products_that_do_not_run_are_refused),
        cmocka_unit_test(sums_of_plain_products_are_not_rounded_on_the_way),
        cmocka_unit_test(plain_products_load_nothing_behind_others),
        cmocka_unit_test(memory_is_freed_at_rest),
        cmocka_unit_test(freed_addresses_are_looked_at_again),
        cmocka_unit_test(devices_are_told_whole),
        cmocka_unit_test(machines_go_by_the_name_of_the_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
