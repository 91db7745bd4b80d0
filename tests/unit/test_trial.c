/* Tests of what a benchmark makes of times, which are this program's own (CMakeLists.txt): medians,
 * the better of two ways of timing, and turns in another order each round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/bench.h"

enum { RANKS = 2, ROUNDS = 7, CONTESTANTS = 4, MOST = 200 };

static double many_part; /* of runs by themselves, that runs back to back take; 0: not timed */
static int who[MOST], timed;
static int times_of[CONTESTANTS]; /* runs by themselves so far */

/* Product, collective, serial, ours. */
static const double base_us[CONTESTANTS] = {300, 200, 600, 400};

static int contestant(const shingle_plan *plan, unsigned kinds)
{
    if (kinds == 1u << SG_COLL) return 1;
    if (kinds != ~0u) return 0;
    return strcmp(plan->strategy->name, "serial") == 0 ? 2 : 3;
}

shingle_status __wrap_sg_bench_time(sg_bench *bench, const shingle_plan *plan, unsigned kinds,
                                    sg_timing how, double *us_out);
shingle_status __wrap_sg_bench_time(sg_bench *bench, const shingle_plan *plan, unsigned kinds,
                                    sg_timing how, double *us_out)
{
    (void)bench;
    const int i = contestant(plan, kinds);
    *us_out = base_us[i] * many_part;
    if (how == SG_TIMING_MANY) return SHINGLE_OK;
    assert_true(timed < MOST);
    who[timed++] = i;
    /* One far off, and few others. */
    *us_out = base_us[i] + (times_of[i] == 1 ? 1000 : times_of[i]);
    times_of[i]++;
    return SHINGLE_OK;
}

/* Never called: that there is one makes a benchmark time in two ways. */
static shingle_status no_time(void *self, sg_enqueue *run, void *context, int runs, double *us_out)
{
    (void)self, (void)run, (void)context, (void)runs, (void)us_out;
    return sg_fail(SHINGLE_EBUG, "a stand-in times");
}

/* Clocks are read when all have run, of each rank. */
static int clocks;

static shingle_status clock_of(void *self, int rank, bool clocks_only, shingle_device *device_out)
{
    (void)self, (void)rank;
    if (clocks_only) assert_int_equal(timed, (1 + clocks++ / RANKS) * CONTESTANTS);
    *device_out = (shingle_device){.mhz = 1000 + clocks};
    return SHINGLE_OK;
}

static shingle_bench_result bench(double part)
{
    shingle_comm *comm[RANKS];
    shingle_bench_result result;
    const shingle_bench_options options = {.strategy = "ring", .iterations = ROUNDS, .warmup = -1};
    assert_int_equal(shingle_open(RANKS, &(shingle_config){.threads = 1}, comm), SHINGLE_OK);
    sg_backend two_ways = *comm[0]->group->backend;
    const sg_backend *const real = comm[0]->group->backend;
    two_ways.time = part > 0 ? no_time : NULL;
    two_ways.facts = clock_of;
    clocks = 0;
    many_part = part;
    timed = 0;
    memset(times_of, 0, sizeof times_of);
    comm[0]->group->backend = &two_ways;
    const shingle_status status =
        shingle_bench(RANKS, comm, "gemm_rs:f32:64x64x64:r2", &options, &result);
    comm[0]->group->backend = real;
    if (status != SHINGLE_OK) fail_msg("%s", shingle_error());
    shingle_close(RANKS, comm);
    assert_int_equal(result.iterations, ROUNDS);
    return result;
}

static void is_result(const shingle_bench_result *r, double gemm, double coll, double serial,
                      double ours)
{
    assert_true(r->gemm_us == gemm && r->coll_us == coll);
    assert_true(r->serial_us == serial && r->overlapped_us == ours);
    assert_true(r->hidden == (gemm + coll - ours) / coll);
    assert_true(r->efficiency == gemm / ours);
    assert_true(r->speedup == serial / ours);
}

/* Of 0, 1000, 2 .. 6 more the median is 4. */
static void medians_are_reported(void **state)
{
    (void)state;
    const shingle_bench_result r = bench(0);
    is_result(&r, 304, 204, 604, 404);
}

/* Back to back where that is faster, and by themselves where it is not. */
static void the_better_way_counts(void **state)
{
    (void)state;
    shingle_bench_result r = bench(0.5);
    is_result(&r, 150, 100, 300, 200);
    r = bench(2);
    is_result(&r, 304, 204, 604, 404);
}

/* Each once a round, and not always behind the same one. */
static void rounds_take_turns(void **state)
{
    (void)state;
    bool differ = false;
    bench(0);
    assert_int_equal(timed, ROUNDS * CONTESTANTS);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned seen = 0;
        for (int i = 0; i < CONTESTANTS; i++) {
            seen |= 1u << who[round * CONTESTANTS + i];
            differ |= who[round * CONTESTANTS + i] != who[i];
        }
        assert_int_equal(seen, (1u << CONTESTANTS) - 1);
    }
    assert_true(differ);
}

/* What comes behind that has rested: not always the same one, nor never one of them.  The lower of
 * two ranks counts, 1001 in the first round, and the median round. */
static void clocks_are_read_between_rounds(void **state)
{
    (void)state;
    const shingle_bench_result r = bench(0.5);
    assert_int_equal(clocks, ROUNDS * RANKS);
    assert_true(r.mhz == 1001 + RANKS * (ROUNDS / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_are_reported),
        cmocka_unit_test(the_better_way_counts),
        cmocka_unit_test(rounds_take_turns),
        cmocka_unit_test(clocks_are_read_between_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
