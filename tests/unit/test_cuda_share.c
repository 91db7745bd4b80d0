/* Several ranks on one GPU (src/backend/cuda/share.c): how GPUs are dealt, that every grid keeps to
 * its rank's part, that nothing starts early, that results are right, and that nobody takes the
 * times for those of a GPU a rank. */
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

#include "core/comm.h"
#include "core/plan.h"
#include "fake_world.h"

extern const sg_backend sg_backend_cuda;

static int share(void **state)
{
    (void)state;
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    setenv("SHINGLE_SHARE_GPU", "1", 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    unsetenv("SHINGLE_SHARE_GPU");
    fake_devices(FAKE_DEVICES);
    return fake_live();
}

static sg_cuda *cuda_of(const world *w)
{
    return w->comm[0]->group->self;
}

static void without_the_variable_it_is_refused(void **state)
{
    (void)state;
    static const char *const off[] = {"", "0"};
    const shingle_config config = {.backend = "cuda"};
    shingle_comm *comm[SG_CUDA_RANKS + 1];
    fake_devices(1);
    for (int i = 0; i < 2; i++) {
        setenv("SHINGLE_SHARE_GPU", off[i], 1);
        assert_int_equal(shingle_open(2, &config, comm), SHINGLE_EUNSUPPORTED);
        expect_text("2 ranks; this machine has 1 GPU, one a rank");
        expect_text("SHINGLE_SHARE_GPU=1");
        expect_text("--backend cpu");
        assert_null(getenv("CUDA_DEVICE_MAX_CONNECTIONS"));
    }
    setenv("SHINGLE_SHARE_GPU", "yes", 1);
    assert_int_equal(shingle_open(2, &config, comm), SHINGLE_EINVAL);
    expect_text("SHINGLE_SHARE_GPU");
    setenv("SHINGLE_SHARE_GPU", "1", 1);
    assert_int_equal(shingle_open(SG_CUDA_RANKS + 1, &config, comm), SHINGLE_EUNSUPPORTED);
    expect_text("9 ranks; 8 are possible");
}

/* Rank r has GPU r modulo the GPUs; SMs are dealt by the fullest one, in
 * pairs, and some are left over. */
static void gpus_are_dealt_in_turn(void **state)
{
    (void)state;
    static const struct {
        int ranks, devices, sharing, sms;
    } asked[] = {{4, 1, 4, 30}, {3, 1, 3, 40},  {2, 1, 2, 62}, {4, 2, 2, 62},
                 {3, 2, 2, 62}, {4, 4, 1, 132}, {2, 4, 1, 132}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        world w;
        shingle_device device;
        fake_devices(asked[i].devices);
        open_group(&w, asked[i].ranks, 20);
        const sg_cuda *const cuda = cuda_of(&w);
        assert_int_equal(cuda->sharing, asked[i].sharing);
        for (int r = 0; r < w.ranks; r++) {
            assert_int_equal(cuda->rank[r].device, r % asked[i].devices);
            assert_int_equal(cuda->rank[r].sms, asked[i].sms);
        }
        const bool shared = asked[i].sharing > 1;
        assert_int_equal(w.comm[0]->group->machine.sms, asked[i].sms);
        assert_int_equal(strstr(w.comm[0]->group->machine.name, " shared") != NULL, shared);
        assert_int_equal(cuda->collect == NULL, shared);
        assert_int_equal(shingle_comm_device(w.comm[1], &device), SHINGLE_OK);
        assert_int_equal(device.ranks, asked[i].sharing);
        assert_int_equal(strstr(device.name, "ranks on it") != NULL, shared);
        close_group(&w);
    }
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
}

/* What the user has set stays. */
static void the_user_may_choose_connections(void **state)
{
    (void)state;
    world w;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16", 1);
    fake_devices(1);
    open_group(&w, 2, 20);
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "16");
    close_group(&w);
}

/* Grids keep to the rank's part and start behind each other; results are right. */
static void shared_runs_are_right(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"gemm_ar:bf16:520x136x64:r%d", "fused_out{tile_m=128,tile_n=128,once=1}"},
        {"gemm_rs:bf16:520x136x64:r%d:bias", "fused_out{tile_m=128,tile_n=128}"},
        {"ag_gemm:bf16:520x136x64:r%d", "fused_in{tile_m=128,tile_n=128,push=1}"},
        {"ag_gemm:bf16:520x136x64:r%d", "fused_in{tile_m=128,tile_n=128,push=0}"},
        {"ag_gemm:bf16:300x136x64:r%d", "ring{vendor=1}"},
        {"gemm_rs:bf16:520x136x64:r%d", "direct"},
        {"gemm_ar:bf16:300x136x64:r%d", "ring"},
        {"gemm_rs:bf16:520x136x64:r%d", "dma{form=1,chunks=2}"},
        {"gemm:bf16:96x64x64:r%d", "serial"},
    };
    static const int shares[][2] = {{2, 1}, {3, 2}, {4, 1}}; /* ranks, devices */
    for (int k = 0; k < 3; k++) {
        world w;
        int most = 0;
        const int ranks = shares[k][0];
        fake_devices(shares[k][1]);
        open_group(&w, ranks, 20);
        for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
            char problem[96];
            snprintf(problem, sizeof problem, asked[i][0], ranks);
            fake_most_sms = fake_early = 0;
            if (!make_plans(&w, problem, asked[i][1])) fail_msg("%s", shingle_error());
            for (uint64_t seed = 0; seed < 2; seed++) run_right(&w, seed);
            assert_true(fake_most_sms <= cuda_of(&w)->rank[0].sms);
            most = fake_most_sms > most ? fake_most_sms : most;
            assert_int_equal(fake_early, 0);
            drop_plans(&w);
        }
        assert_int_equal(most, cuda_of(&w)->rank[0].sms);
        close_group(&w);
    }
}

/* A rank that does not come is named, and the group recovers. */
static void a_missing_rank_is_named(void **state)
{
    (void)state;
    world w;
    fake_devices(1);
    open_group(&w, 3, SHORT_LIMIT);
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x64:r3", "fused_out{tile_m=128,tile_n=128}"));
    fill(&w, 1);
    for (int r = 0; r < 2; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    assert_int_equal(shingle_sync(w.comm[1], 20), SHINGLE_ETIMEOUT);
    expect_text("rank 2 did not begin");
    recover(&w);
    run_right(&w, 2);
    drop_plans(&w);
    close_group(&w);
}

/* Nothing is freed while a rank waits for the one that frees: cudaFree would wait for it, too. */
static void memory_is_freed_at_rest(void **state)
{
    (void)state;
    static const char *const strategy = "fused_out{tile_m=128,tile_n=128}";
    const shingle_plan_options options = {.strategy = strategy};
    const shingle_plan_options serial = {.strategy = "serial"};
    world w;
    shingle_plan *other = NULL;
    shingle_plan *product = NULL;
    void *memory = NULL;
    fake_devices(1);
    open_group(&w, 2, 20);
    assert_true(make_plans(&w, "gemm_rs:bf16:520x136x64:r2", strategy));
    assert_int_equal(shingle_plan_create(w.comm[1], "gemm_rs:bf16:300x136x64:r2", &options, &other),
                     SHINGLE_OK);
    assert_int_equal(shingle_alloc(w.comm[1], 1 << 20, &memory), SHINGLE_OK);
    fill(&w, 1);
    fake_stalls = 0;
    assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_OK);
    assert_true(fake_busy(0));
    const int live = fake_live();
    shingle_plan_free(other);
    shingle_free(w.comm[1], memory);
    assert_true(fake_live() >= live);
    assert_int_equal(shingle_plan_create(w.comm[1], "gemm:bf16:96x64x64:r2", &serial, &product),
                     SHINGLE_OK);
    assert_int_equal(fake_stalls, 0);
    const int kept = fake_live();
    assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_OK);
    sync_all(&w);
    expect_right(&w, "freed beside it");
    assert_true(fake_live() < kept);
    assert_int_equal(shingle_alloc(w.comm[0], 1 << 20, &memory), SHINGLE_OK);
    sg_cuda *const cuda = cuda_of(&w);
    assert_int_equal(sg_cuda_enqueues(cuda, &cuda->rank[1]),
                     SHINGLE_OK); /* in the middle of a run's kernels */
    shingle_free(w.comm[0], memory);
    assert_non_null(cuda->dropped);
    sg_cuda_enqueued(cuda, &cuda->rank[1]);
    sg_cuda_sweep(cuda, false);
    assert_null(cuda->dropped);
    shingle_plan_free(product);
    drop_plans(&w);
    close_group(&w);
    assert_int_equal(fake_stalls, 0);
}

static void what_cannot_share_is_declined(void **state)
{
    (void)state;
    world w;
    fake_devices(1);
    open_group(&w, RANKS, 20);
    assert_false(make_plans(&w, "gemm_rs:bf16:520x136x64:r4", "serial"));
    expect_text("no collectives (SHINGLE_SHARE_GPU)");
    assert_false(make_plans(&w, "gemm_rs:bf16:520x136x64:r4",
                            "dma{form=1,chunks=2,blocks=64,tile_m=128,tile_n=128}"));
    expect_text("wants 64 SMs; this rank has 30");
    close_group(&w);
}

/* A share of a GPU may have fewer SMs than a collective holds on all of it: what is proposed has
 * some beside it none the less. */
static void a_small_share_has_plans(void **state)
{
    (void)state;
    world w;
    sg_machine machine;
    shingle_plan *plan = NULL;
    fake_devices(1);
    open_group(&w, 8, 20);
    assert_int_equal(sg_backend_cuda.describe(cuda_of(&w), SG_BF16, &machine), SHINGLE_OK);
    assert_int_equal(machine.sms, cuda_of(&w)->rank[0].sms);
    assert_true(machine.coll_sms < machine.sms);
    assert_int_equal(shingle_plan_create(w.comm[0], "gemm_rs:bf16:2048x1024x256:r8", NULL, &plan),
                     SHINGLE_OK);
    for (int i = 0; i < plan->candidates; i++)
        if (strstr(plan->candidate[i].text, "=-") != NULL) fail_msg("%s", plan->candidate[i].text);
    shingle_plan_free(plan);
    close_group(&w);
}

/* A plan by itself is run and compared; there is no serial one to compare its time with. */
static void benchmarks_do_without_a_serial_plan(void **state)
{
    (void)state;
    static const char *const problem = "gemm_ar:bf16:96x64x64:r3";
    shingle_bench_row rows[32];
    const shingle_bench_options options = {
        .iterations = 1, .strategies = "all", .knob_sets = 1, .rows_out = rows, .rows = 32};
    const shingle_bench_options forced = {.iterations = 1,
                                          .strategy = "fused_out{tile_m=64,tile_n=128}"};
    shingle_bench_result result;
    world w;
    int timed = 0;
    fake_devices(1);
    open_group(&w, 3, 20);
    for (int i = 0; i < 2; i++) {
        if (shingle_bench(3, w.comm, problem, i ? &forced : &options, &result) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
        assert_int_equal(result.wrong, 0);
        assert_true(result.overlapped_us > 0);
        assert_true(result.gemm_us == 0 && result.coll_us == 0 && result.serial_us == 0);
        assert_true(result.speedup == 0);
        for (int r = 0; r < result.rows; r++) timed += rows[r].us > 0;
    }
    assert_true(timed >= 2);
    close_group(&w);
}

/* Times are not kept, neither as a machine nor as a plan; what is forced to be one is no
 * machine's. */
static void times_are_not_kept(void **state)
{
    (void)state;
    static const char path[] = "test_cuda_share.plans";
    const shingle_config config = {.backend = "cuda", .plans = path};
    const shingle_plan_options measure = {.measure_seconds = 0.01};
    shingle_comm *comm[2];
    shingle_machine *machine = NULL;
    shingle_plan *plan = NULL;
    fake_devices(1);
    assert_int_equal(shingle_open(2, &config, comm), SHINGLE_OK);
    assert_int_equal(shingle_calibrate(2, comm, NULL, &machine), SHINGLE_EUNSUPPORTED);
    expect_text("2 ranks share a device; calibrating needs one a rank");
    assert_int_equal(shingle_tune(comm[0], "gemm:bf16:96x64x64:r2", &measure, &plan),
                     SHINGLE_EUNSUPPORTED);
    expect_text("2 ranks share a device; tuning needs one a rank");
    assert_null(machine);
    assert_null(plan);
    assert_int_not_equal(access(path, F_OK), 0);
    shingle_close(2, comm);
}

/* Owners of 16 rows, which end inside C and the inboxes of eight ranks. */
static void what_has_too_many_maps_is_declined(void **state)
{
    (void)state;
    world w;
    open_group(&w, MOST_RANKS, 20);
    assert_false(make_plans(&w, "gemm_ar:bf16:128x1032x64:r8", "fused_out{tile_m=64,tile_n=128}"));
    expect_text("than 32 maps");
    assert_true(make_plans(&w, "gemm_ar:bf16:512x136x64:r8", "fused_out{tile_m=64,tile_n=128}"));
    drop_plans(&w);
    close_group(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_the_variable_it_is_refused, share, stop),
        cmocka_unit_test_setup_teardown(gpus_are_dealt_in_turn, share, stop),
        cmocka_unit_test_setup_teardown(the_user_may_choose_connections, share, stop),
        cmocka_unit_test_setup_teardown(shared_runs_are_right, share, stop),
        cmocka_unit_test_setup_teardown(a_missing_rank_is_named, share, stop),
        cmocka_unit_test_setup_teardown(memory_is_freed_at_rest, share, stop),
        cmocka_unit_test_setup_teardown(what_cannot_share_is_declined, share, stop),
        cmocka_unit_test_setup_teardown(what_has_too_many_maps_is_declined, share, stop),
        cmocka_unit_test_setup_teardown(a_small_share_has_plans, share, stop),
        cmocka_unit_test_setup_teardown(benchmarks_do_without_a_serial_plan, share, stop),
        cmocka_unit_test_setup_teardown(times_are_not_kept, share, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
