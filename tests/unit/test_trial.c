/* Tests of what a benchmark makes of times, which are this program's own (CMakeLists.txt): medians,
 * the better of two ways of timing, and turns in another order each round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
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

/* Whole runs of plans that are told apart by their texts. */
enum { PLANS = 64 };

static bool by_plan;
static struct seen {
    char text[160];
    const char *strategy;
    int times;
} told[PLANS];
static int plans, whole_runs;
static const char *fails, *errs; /* strategy whose runs fail, or compute something wrong ... */
static int errs_from;            /* ... from this run of a plan on */

static struct seen *see(const shingle_plan *plan)
{
    int i = 0;
    while (i < plans && strcmp(told[i].text, plan->text) != 0) i++;
    assert_true(i < PLANS);
    if (i < plans) return &told[i];
    told[plans].strategy = plan->strategy->name;
    snprintf(told[plans].text, sizeof told->text, "%s", plan->text);
    return &told[plans++];
}

/* Which knobs of its strategy ONE is, from 0, in the order of their first runs. */
static int nth(const struct seen *one)
{
    int before = 0;
    for (const struct seen *s = told; s < one; s++)
        before += strcmp(s->strategy, one->strategy) == 0;
    return before;
}

/* A first run is of other memory than those that follow: without it the second knobs are the
 * fastest, with it the first. */
static shingle_status time_by_plan(const shingle_plan *plan, double *us_out)
{
    static const double race[2][3] = {{100, 390, 410}, {1000, 380, 412}};
    struct seen *const one = see(plan);
    const int run = one->times++, knobs = nth(one);
    whole_runs++;
    if (fails != NULL && (strcmp(fails, "all") == 0 || strcmp(fails, one->strategy) == 0) &&
        strcmp(one->strategy, "serial") != 0)
        return sg_fail(SHINGLE_EBACKEND, "the fake broke");
    *us_out = strcmp(one->strategy, "serial") == 0 ? 600 : 250;
    if (strcmp(one->strategy, "ring") == 0)
        *us_out = knobs > 1 ? 2000 : run < 3 ? race[knobs][run] : 450 + 10 * knobs;
    return SHINGLE_OK;
}

int64_t __wrap_sg_bench_wrong_of(const sg_bench *bench, const shingle_plan *plan);
int64_t __wrap_sg_bench_wrong_of(const sg_bench *bench, const shingle_plan *plan)
{
    (void)bench;
    if (!by_plan || errs == NULL || strcmp(errs, plan->strategy->name) != 0) return 0;
    return see(plan)->times >= errs_from ? 7 : 0;
}

shingle_status __wrap_sg_bench_time(sg_bench *bench, const shingle_plan *plan, unsigned kinds,
                                    sg_timing how, double *us_out);
shingle_status __wrap_sg_bench_time(sg_bench *bench, const shingle_plan *plan, unsigned kinds,
                                    sg_timing how, double *us_out)
{
    (void)bench;
    if (by_plan && kinds == ~0u && how != SG_TIMING_MANY) return time_by_plan(plan, us_out);
    const int i = contestant(plan, kinds);
    if (by_plan) {
        *us_out = base_us[i];
        return SHINGLE_OK;
    }
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

/* ---- Strategies beside ---------------------------------------------------------------------- */

/* Ring has several knobs there that are predicted alike, and is not what prediction takes. */
static shingle_bench_result beside(const shingle_bench_options *options)
{
    shingle_comm *comm[RANKS];
    shingle_bench_result result;
    const shingle_config config = {.threads = 1, .machine = "machines/h200x2.machine"};
    assert_int_equal(shingle_open(RANKS, &config, comm), SHINGLE_OK);
    by_plan = true;
    plans = whole_runs = 0;
    memset(told, 0, sizeof told);
    const shingle_status status =
        shingle_bench(RANKS, comm, "gemm_rs:bf16:512x64x512:r2", options, &result);
    by_plan = false;
    if (status != SHINGLE_OK) fail_msg("%s", shingle_error());
    shingle_close(RANKS, comm);
    return result;
}

static void the_fastest_knobs_stay(void **state)
{
    (void)state;
    shingle_bench_row row;
    shingle_bench_options options = {.strategy = "serial",
                                     .iterations = 3,
                                     .warmup = -1,
                                     .strategies = "ring",
                                     .rows_out = &row,
                                     .rows = 1};
    shingle_bench_result r = beside(&options);
    int rings = 0;
    const char *of[PLANS];
    for (int i = 0; i < plans; i++)
        if (strcmp(told[i].strategy, "ring") == 0) of[rings++] = strstr(told[i].text, "ring{");
    assert_int_equal(rings, 3);
    assert_true(row.us == 460 && strncmp(of[1], row.strategy, strlen(row.strategy)) == 0);
    assert_true(r.overlapped_us == 600 && r.prediction_us == 250);

    /* Other knobs of the same strategy are another plan. */
    char other[96];
    snprintf(other, sizeof other, "%.*s", (int)strcspn(of[0], " "), of[0]);
    options.strategy = other;
    r = beside(&options);
    assert_string_equal(r.strategy, other);
    assert_true(r.overlapped_us == 450 && row.us == 460);
}

/* A hang takes the time limit of waits: nobody runs such a plan twice. */
static void what_fails_is_not_run_again(void **state)
{
    (void)state;
    shingle_bench_row row[16];
    const shingle_bench_options options = {.strategy = "serial",
                                           .iterations = 3,
                                           .warmup = -1,
                                           .strategies = "all",
                                           .rows_out = row,
                                           .rows = 16};
    fails = "all";
    const shingle_bench_result r = beside(&options);
    fails = NULL;
    for (int i = 0; i < plans; i++)
        assert_true(told[i].times == 1 || strcmp(told[i].strategy, "serial") == 0);
    for (int i = 0; i < r.rows; i++) assert_true(row[i].us == 0 && row[i].declined[0] != '\0');
    assert_true(r.overlapped_us == 600 && r.prediction_us == 0);
}

static void wrong_elements_are_counted_in_their_row(void **state)
{
    (void)state;
    shingle_bench_row row;
    const shingle_bench_options options = {.strategy = "serial",
                                           .iterations = 3,
                                           .warmup = -1,
                                           .strategies = "ring",
                                           .rows_out = &row,
                                           .rows = 1};
    errs = "ring";
    for (errs_from = 0; errs_from < 5; errs_from += 4) { /* in the race, of all three; behind it */
        (void)beside(&options);
        assert_int_equal(row.wrong, errs_from == 0 ? 3 * 7 : 7);
        assert_true(row.us == 0 && strstr(row.declined, "computed 7 wrong elements") != NULL);
    }
    errs = NULL;
}

/* Five runs behind one, or with a limit as many as it allows, at least three and at most 1000. */
static void the_number_of_rounds_has_defaults(void **state)
{
    (void)state;
    shingle_bench_options options = {.strategy = "ring"};
    assert_int_equal(beside(&options).iterations, 5);
    assert_int_equal(whole_runs, 2 * (1 + 5)); /* serial and ours */
    options.seconds = 1000;
    assert_int_equal(beside(&options).iterations, 1000);
    options.seconds = 1e-9;
    assert_int_equal(beside(&options).iterations, 3);
    options.iterations = 2;
    assert_int_equal(beside(&options).iterations, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_are_reported),
        cmocka_unit_test(the_better_way_counts),
        cmocka_unit_test(rounds_take_turns),
        cmocka_unit_test(clocks_are_read_between_rounds),
        cmocka_unit_test(the_fastest_knobs_stay),
        cmocka_unit_test(what_fails_is_not_run_again),
        cmocka_unit_test(wrong_elements_are_counted_in_their_row),
        cmocka_unit_test(the_number_of_rounds_has_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
