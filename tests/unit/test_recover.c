/* test_recover.c -- recoveries that take more than one attempt, or meet a recording. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "shingle.h"

enum { RANKS = 2, ROWS = 16, COLS = 8 };

static atomic_bool held;

static void nap(void)
{
    const struct timespec ms = {0, 1000000};
    nanosleep(&ms, NULL);
}

/* Stays in the function until the test lets go. */
static int compute(void *context, const shingle_rows *rows)
{
    (void)context;
    while (atomic_load(&held)) nap();
    for (int64_t i = 0; i < rows->rows; i++)
        for (int64_t j = 0; j < COLS; j++) ((float *)rows->sum)[i * rows->sum_stride + j] = 1;
    return 0;
}

typedef struct world {
    shingle_comm *comm[RANKS];
    shingle_plan *plan[RANKS];
    float a[ROWS * COLS], b[COLS * COLS], c[RANKS][ROWS * COLS];
    bool calls; /* without B */
} world;

static void open_world(world *w, const char *problem, const shingle_plan_options *options)
{
    const shingle_config config = {.threads = 2, .timeout_seconds = 0.2};
    memset(w, 0, sizeof *w);
    w->calls = options != NULL;
    if (shingle_open(RANKS, &config, w->comm) != SHINGLE_OK) fail_msg("%s", shingle_error());
    for (int r = 0; r < RANKS; r++)
        if (shingle_plan_create(w->comm[r], problem, options, &w->plan[r]) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
}

static void run_rank(world *w, int rank)
{
    if (shingle_run(w->plan[rank], w->a, w->calls ? NULL : w->b, w->c[rank], NULL) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
}

static void run_whole(world *w)
{
    for (int r = 0; r < RANKS; r++) run_rank(w, r);
    for (int r = 0; r < RANKS; r++)
        if (shingle_sync(w->comm[r], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

static void close_world(world *w)
{
    for (int r = 0; r < RANKS; r++) shingle_plan_free(w->plan[r]);
    assert_int_equal(shingle_close(RANKS, w->comm), SHINGLE_OK);
}

static void fail_in_function(world *w)
{
    const shingle_plan_options options = {.compute = compute};
    open_world(w, "gemm_rs:f32:16x8x8:r2:call=100", &options);
    atomic_store(&held, true);
    for (int r = 0; r < RANKS; r++) run_rank(w, r);
    for (int r = 0; r < RANKS; r++)
        assert_int_not_equal(shingle_sync(w->comm[r], 0.05), SHINGLE_OK);
}

/* One thread brings all ranks; the last one's attempt ends before the function does.  The others
 * were told that they need not call again. */
static void the_last_rank_tries_again(void **state)
{
    (void)state;
    world w;
    fail_in_function(&w);
    assert_int_equal(shingle_recover(w.comm[0], 0), SHINGLE_ETIMEOUT);
    assert_non_null(strstr(shingle_error(), "it need not call again"));
    assert_int_equal(shingle_recover(w.comm[1], 0), SHINGLE_ETIMEOUT);
    assert_non_null(strstr(shingle_error(), "did not let go within 0.2 s"));
    atomic_store(&held, false);
    if (shingle_recover(w.comm[1], 5) != SHINGLE_OK) fail_msg("%s", shingle_error());
    run_whole(&w);
    assert_true(w.c[1][3] == RANKS);
    close_world(&w);
}

static atomic_int waits_with;
static atomic_bool waits;

static void *wait_for_recovery(void *comm)
{
    atomic_store(&waits, true);
    atomic_store(&waits_with, shingle_recover(comm, 60));
    return NULL;
}

/* A rank that waits with a longer limit waits on when the other one's attempt was too short. */
static void others_wait_on(void **state)
{
    (void)state;
    world w;
    pthread_t thread;
    fail_in_function(&w);
    atomic_store(&waits_with, -1);
    atomic_store(&waits, false);
    assert_int_equal(shingle_recover(w.comm[0], 0), SHINGLE_ETIMEOUT); /* it has come for certain */
    assert_int_equal(pthread_create(&thread, NULL, wait_for_recovery, w.comm[0]), 0);
    while (!atomic_load(&waits)) nap();
    for (int i = 0; i < 100; i++) nap();
    assert_int_equal(shingle_recover(w.comm[1], 0), SHINGLE_ETIMEOUT);
    assert_non_null(strstr(shingle_error(), "did not let go"));
    for (int i = 0; i < 100; i++) nap();
    assert_int_equal(atomic_load(&waits_with), -1);
    atomic_store(&held, false);
    if (shingle_recover(w.comm[1], 5) != SHINGLE_OK) fail_msg("%s", shingle_error());
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&waits_with), SHINGLE_OK);
    run_whole(&w);
    close_world(&w);
}

/* A rank that has come and tries to run before the others have come still counts as come. */
static void a_refused_run_withdraws_nothing(void **state)
{
    (void)state;
    world w;
    open_world(&w, "gemm_rs:f32:16x8x8:r2", NULL);
    run_rank(&w, 0);
    assert_int_equal(shingle_sync(w.comm[0], 2), SHINGLE_ETIMEOUT);
    assert_int_equal(shingle_recover(w.comm[0], 0), SHINGLE_ETIMEOUT);
    assert_int_not_equal(shingle_run(w.plan[0], w.a, w.b, w.c[0], NULL), SHINGLE_OK);
    if (shingle_recover(w.comm[1], 0) != SHINGLE_OK) fail_msg("%s", shingle_error());
    run_whole(&w);
    close_world(&w);
}

/* Who times something on a group that has failed is told, and the failure stands for who asks. */
static void a_failure_is_not_recovered_from_unasked(void **state)
{
    (void)state;
    world w;
    shingle_machine *machine = NULL;
    shingle_bench_result result;
    open_world(&w, "gemm_rs:f32:16x8x8:r2", NULL);
    run_rank(&w, 0);
    assert_int_equal(shingle_sync(w.comm[0], 2), SHINGLE_ETIMEOUT);
    assert_int_equal(shingle_calibrate(RANKS, w.comm, NULL, &machine), SHINGLE_ETIMEOUT);
    assert_non_null(strstr(shingle_error(), "rank 1 did not begin"));
    assert_int_equal(shingle_bench(RANKS, w.comm, "gemm_rs:f32:16x8x8:r2", NULL, &result),
                     SHINGLE_ETIMEOUT);
    for (int r = 0; r < RANKS; r++) assert_int_equal(shingle_sync(w.comm[r], 0), SHINGLE_ETIMEOUT);
    assert_int_equal(shingle_recover(w.comm[0], 0), SHINGLE_ETIMEOUT);
    if (shingle_recover(w.comm[1], 0) != SHINGLE_OK) fail_msg("%s", shingle_error());
    run_whole(&w);
    close_world(&w);
}

/* A run that failed is no timeline; the first one after the recovery is. */
static void a_recording_goes_on(void **state)
{
    (void)state;
    world w;
    shingle_timeline *t = NULL;
    open_world(&w, "gemm_rs:f32:16x8x8:r2", NULL);
    run_whole(&w);
    assert_int_equal(shingle_timeline_start(RANKS, w.comm, w.plan[0], 0), SHINGLE_OK);
    run_rank(&w, 0);
    assert_int_equal(shingle_sync(w.comm[0], 2), SHINGLE_ETIMEOUT);
    assert_int_equal(shingle_recover(w.comm[0], 0), SHINGLE_ETIMEOUT);
    if (shingle_recover(w.comm[1], 0) != SHINGLE_OK) fail_msg("%s", shingle_error());
    run_whole(&w);
    if (shingle_timeline_stop(RANKS, w.comm, &t) != SHINGLE_OK) fail_msg("%s", shingle_error());
    shingle_timeline_facts facts;
    assert_int_equal(shingle_timeline_about(t, &facts), SHINGLE_OK);
    assert_true(facts.us < 199000); /* less than the limit that the failed run waited for */
    shingle_timeline_free(t);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_rank_tries_again),
        cmocka_unit_test(others_wait_on),
        cmocka_unit_test(a_refused_run_withdraws_nothing),
        cmocka_unit_test(a_failure_is_not_recovered_from_unasked),
        cmocka_unit_test(a_recording_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
