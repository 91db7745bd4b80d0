/* What the CUDA backend does when a GPU does not end what the library itself has enqueued there,
 * without a GPU (tests/fake_cuda) and on a clock of its own: every wait ends with an error, and so
 * does closing the group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

enum { LIMIT = 20, TOO_LONG = 60 /* seconds of a test, by the true clock */ };

/* ---- Clock ----------------------------------------------------------------------------------- */

double __real_sg_now_us(void);
double __wrap_sg_now_us(void);

static _Atomic bool hurries; /* every look at the clock takes a quarter of a second */
static _Atomic bool naps;    /* and a true millisecond: a thread that makes a call gets to run */
static _Atomic long skipped_us;

static void look(void);

double __wrap_sg_now_us(void)
{
    look();
    if (hurries) skipped_us += 250000;
    if (hurries && naps) usleep(1000);
    return __real_sg_now_us() + (double)skipped_us;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static _Atomic bool hangs;

static bool hang(void *data, bool first)
{
    (void)data;
    (void)first;
    return !hangs;
}

static const sg_cuda_rank *to_hang; /* at the look at the clock after so many more */
static int looks;                   /* negative: it did */

static void look(void)
{
    if (to_hang == NULL || looks-- > 0) return;
    const cudaStream_t service = to_hang->service;
    to_hang = NULL;
    hangs = hurries = true;
    (void)fake_enqueue(service, hang, NULL, 0);
}

/* What RANK's GPU gets from the library stands behind something that does not end. */
static void hang_up(const world *w, int rank)
{
    const sg_cuda *const cuda = w->comm[0]->group->self;
    hangs = true;
    assert_int_equal(fake_enqueue(cuda->rank[rank].service, hang, NULL, 0), cudaSuccess);
    hurries = true;
}

static void expect_hung(shingle_status status)
{
    assert_int_equal(status, SHINGLE_ETIMEOUT);
    expect_text("GPU 1 ");
    expect_text("hangs");
    assert_null(strchr(shingle_error(), '\n'));
}

static void copies_do_not_wait_for_ever(void **state)
{
    (void)state;
    uint16_t here[64] = {0};
    world w;
    shingle_plan *plan = NULL;
    open_group(&w, 2, LIMIT);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    run_right(&w, 1);
    hang_up(&w, 1);
    expect_hung(shingle_write(w.comm[1], w.a[1], here, sizeof here));
    expect_text("within 80 s");
    expect_hung(shingle_read(w.comm[1], here, w.a[1], sizeof here));
    expect_hung(shingle_plan_create(w.comm[1], "gemm_rs:bf16:96x16x32:r2", NULL, &plan));
    /* What ends at last is forgotten. */
    hangs = hurries = false;
    assert_int_equal(shingle_write(w.comm[1], w.a[1], here, sizeof here), SHINGLE_OK);
    run_right(&w, 2);
    drop_plans(&w);
    close_group(&w);
}

/* Memory stays, since to free it would be to wait. */
static void close_returns_from_a_gpu_that_hangs(void **state)
{
    (void)state;
    uint16_t here[64] = {0};
    world w;
    open_group(&w, 2, LIMIT);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "fused_out"));
    run_right(&w, 1);
    hang_up(&w, 1);
    expect_hung(shingle_write(w.comm[1], w.a[1], here, sizeof here));
    fake_stalls = 0;
    shingle_free(w.comm[1], w.bias[1]);
    assert_int_equal(shingle_close(2, w.comm), SHINGLE_ETIMEOUT);
    expect_text("must stay");
    assert_int_equal(fake_stalls, 0);
    hangs = hurries = false;
    sg_problem_free(&w.problem);
}

/* Everything that gets, fills, moves or frees memory.  True: all of it went well. */
static bool use_memory(const world *w, const char *problem, const char *strategy)
{
    const shingle_plan_options options = {.strategy = strategy};
    uint16_t here[64] = {0};
    shingle_plan *plan = NULL;
    void *memory = NULL;
    shingle_status status = shingle_plan_create(w->comm[1], problem, &options, &plan);
    if (status == SHINGLE_OK) status = shingle_alloc(w->comm[1], sizeof here, &memory);
    if (status == SHINGLE_OK) status = shingle_write(w->comm[1], memory, here, sizeof here);
    if (status == SHINGLE_OK) status = shingle_read(w->comm[1], here, memory, sizeof here);
    if (status != SHINGLE_OK)
        expect_hung(status);
    else
        to_hang = NULL; /* what nobody waits for nobody knows to hang */
    if (status == SHINGLE_OK) hangs = hurries = false;
    shingle_free(w->comm[1], memory);
    shingle_plan_free(plan);
    return status == SHINGLE_OK;
}

/* Wherever it begins to hang: who asks is told, and nothing is freed that the GPU may still
 * touch. */
static void a_gpu_may_hang_at_any_time(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"gemm_ar:bf16:520x136x16:r2", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
        {"gemm_ar:bf16:520x136x16:r2", "ring"},
        {"gemm_rs:bf16:520x136x16:r2", "serial{windows=1}"},
        {"ag_gemm:bf16:520x136x16:r2", "dma"},
    };
    for (size_t n = 0; n < sizeof asked / sizeof asked[0]; n++) {
        int told = 0;
        bool reached = true;
        for (int i = 0; reached; i++) {
            world w;
            open_group(&w, 2, LIMIT);
            const sg_cuda *const cuda = w.comm[0]->group->self;
            fake_stalls = 0;
            looks = i;
            to_hang = &cuda->rank[1];
            told += !use_memory(&w, asked[n][0], asked[n][1]);
            reached = looks < 0;
            if (fake_stalls > 0) fail_msg("%s: freed while the GPU hangs: %d", asked[n][1], i);
            hangs = hurries = false;
            close_group(&w);
        }
        assert_true(told > 10);
    }
}

/* The library's first collective neither ends nor hears of an abort. */
static void open_returns_without_a_collective(void **state)
{
    (void)state;
    const shingle_config config = {.backend = "cuda", .timeout_seconds = LIMIT};
    shingle_comm *comm[2];
    fake_deaf = true;
    hurries = naps = true;
    fake_stalls = 0;
    assert_int_equal(shingle_open(2, &config, comm), SHINGLE_ETIMEOUT);
    expect_text("does not end within 80 s, nor when it is aborted");
    assert_int_equal(fake_stalls, 0);
    hurries = naps = false;
    fake_deaf = false;
}

/* ---- Calls of NCCL --------------------------------------------------------------------------- */

static void hold(bool holds)
{
    fake_held = hurries = naps = holds;
}

/* Rank 1 does not come to a collective, and to take NCCL down does not end: everybody hears of it
 * all the same, and the group can be recovered when it has ended. */
static void an_abort_that_hangs_is_left_behind(void **state)
{
    (void)state;
    void *memory = NULL;
    world w;
    open_group(&w, 2, LIMIT);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r2", "serial{windows=0}"));
    run_right(&w, 1);
    assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_OK);
    hold(true);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(shingle_sync(w.comm[r], 1e6), SHINGLE_EBUSY);
        expect_text(" s: rank 1 did not begin run 2");
    }
    assert_int_equal(shingle_recover(w.comm[0], 0), SHINGLE_ETIMEOUT);
    assert_int_equal(shingle_recover(w.comm[1], 0), SHINGLE_ETIMEOUT);
    expect_text("NCCL 2.28.9 did not let go of its runs within 20 s");
    assert_int_equal(shingle_alloc(w.comm[0], 64, &memory), SHINGLE_OK);
    shingle_free(w.comm[0], memory);
    assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_ETIMEOUT);
    hold(false);
    recover(&w);
    run_right(&w, 2);
    drop_plans(&w);
    close_group(&w);
}

static void windows_that_hang_are_an_error(void **state)
{
    (void)state;
    const shingle_plan_options options = {.strategy = "serial{windows=1}"};
    shingle_plan *plan = NULL;
    world w;
    open_group(&w, 2, LIMIT);
    hold(true);
    assert_int_equal(shingle_plan_create(w.comm[0], "ag_gemm:bf16:48x16x32:r2", &options, &plan),
                     SHINGLE_ETIMEOUT);
    expect_text("NCCL 2.28.9: ncclCommWindowRegister does not come back within 80 s");
    assert_int_equal(shingle_plan_create(w.comm[1], "ag_gemm:bf16:48x16x32:r2", &options, &plan),
                     SHINGLE_ETIMEOUT);
    expect_text("NCCL 2.28.9 has not come back");
    hold(false);
    recover(&w);
    assert_true(make_plans(&w, "ag_gemm:bf16:48x16x32:r2", options.strategy));
    run_right(&w, 1);
    drop_plans(&w);
    close_group(&w);
}

static void close_returns_from_nccl_that_hangs(void **state)
{
    (void)state;
    shingle_comm *comm[2];
    const shingle_config config = {.backend = "cuda", .timeout_seconds = LIMIT};
    assert_int_equal(shingle_open(2, &config, comm), SHINGLE_OK);
    hold(true);
    assert_int_equal(shingle_close(2, comm), SHINGLE_OK);
    hold(false);
}

static void open_returns_from_nccl_that_hangs(void **state)
{
    (void)state;
    shingle_comm *comm[2];
    const shingle_config config = {.backend = "cuda", .timeout_seconds = LIMIT};
    hold(true);
    assert_int_equal(shingle_open(2, &config, comm), SHINGLE_ETIMEOUT);
    expect_text("NCCL 2.28.9: ncclCommInitAll does not come back within 80 s");
    hold(false);
}

/* To the leak sanitizer: what these leave behind stays for good. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:close_returns_from_a_gpu_that_hangs\nleak:open_returns_without_a_collective\n"
           "leak:close_returns_from_nccl_that_hangs\nleak:open_returns_from_nccl_that_hangs\n";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_do_not_wait_for_ever),
        cmocka_unit_test(close_returns_from_a_gpu_that_hangs),
        cmocka_unit_test(a_gpu_may_hang_at_any_time),
        cmocka_unit_test(open_returns_without_a_collective),
        cmocka_unit_test(an_abort_that_hangs_is_left_behind),
        cmocka_unit_test(windows_that_hang_are_an_error),
        cmocka_unit_test(close_returns_from_nccl_that_hangs),
        cmocka_unit_test(open_returns_from_nccl_that_hangs),
    };
    alarm(TOO_LONG);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
