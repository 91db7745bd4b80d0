/* Tests of effort.h and race.h on a clock of this program's own (CMakeLists.txt), which moves by
 * what each plan is said to take: how many plans are timed, how often, and in which order. */
#include <stdio.h>
#include <stdlib.h>

#include "built.h"
#include "core/effort.h"
#include "core/race.h"

static double now_us;

double __wrap_sg_now_us(void);
double __wrap_sg_now_us(void)
{
    return now_us;
}

/* ---- Effort ---------------------------------------------------------------------------------- */

static sg_effort effort_of(shingle_plan_options options)
{
    sg_effort e = {0};
    if (sg_effort_read(&options, &e) != SHINGLE_OK) fail_msg("%s", shingle_error());
    return e;
}

static void is_effort(shingle_plan_options options, int by, int plans, double seconds)
{
    const sg_effort e = effort_of(options);
    assert_int_equal(e.by, by);
    assert_int_equal(e.plans, plans);
    assert_true(e.seconds == seconds);
}

/* docs/tuning.md has these numbers. */
static void levels_are_as_told(void **state)
{
    typedef shingle_plan_options o;
    (void)state;
    is_effort((o){.level = "measure"}, SG_BY_TIMING, 3, 5);
    is_effort((o){.level = "patient"}, SG_BY_TIMING, 8, 20);
    is_effort((o){.level = "exhaustive"}, SG_BY_TIMING, SG_RACE_PLANS - 1, 120);
    is_effort((o){.choose = "measure"}, SG_BY_TIMING, 3, 5);
    is_effort((o){.measure = 7}, SG_BY_TIMING, 7, 5);
    is_effort((o){.level = "patient", .measure = 2}, SG_BY_TIMING, 2, 20);
    is_effort((o){.level = "patient", .measure_seconds = 0.5}, SG_BY_TIMING, 8, 0.5);
    is_effort((o){.level = "exhaustive", .measure_seconds = 3600}, SG_BY_TIMING, 64, 3600);
    assert_int_equal(effort_of((o){.level = "estimate"}).by, SG_BY_PREDICTION);
    /* A number of plans is timed, whatever the level; it has no time of its own then. */
    is_effort((o){.level = "estimate", .measure = 2}, SG_BY_TIMING, 2, 5);
    assert_int_equal(effort_of((o){.choose = NULL}).by, SG_BY_PREDICTION);
    assert_int_equal(effort_of((o){.choose = "predict"}).by, SG_BY_PREDICTION);
    assert_int_equal(effort_of((o){.choose = "static"}).by, SG_BY_RULE);
}

/* ---- Races ----------------------------------------------------------------------------------- */

enum { PLANS = 5, MOST_RUNS = 200 };

static sg_problem problem;
static sg_candidate candidate[PLANS]; /* the first knob sets of the first strategies */

typedef struct runs {
    double us[PLANS]; /* each takes so long, and ... */
    double more;      /* ... this much longer every time */
    int fails[PLANS]; /* its run of this number, counted from 1; 0: none */
    int who[MOST_RUNS], count;
    int runs_of[PLANS];
    int mended;
} runs;

static shingle_status run(void *context, const shingle_plan *plan, double *us_out)
{
    runs *const r = context;
    int who = 0;
    while (candidate[who].strategy != plan->strategy) who++;
    assert_in_range(who, 0, PLANS - 1);
    assert_true(r->count < MOST_RUNS);
    r->who[r->count++] = who;
    *us_out = r->us[who] + r->more * r->runs_of[who]++;
    now_us += *us_out;
    if (r->runs_of[who] == r->fails[who]) return sg_fail(SHINGLE_ETIMEOUT, "rank 1 stopped");
    return SHINGLE_OK;
}

static shingle_status mend(void *context)
{
    ((runs *)context)->mended++;
    return SHINGLE_OK;
}

static int make_candidates(void **state)
{
    (void)state;
    const sg_machine machine = machine_of_tiles(64, 64);
    if (sg_problem_parse("gemm_rs:f32:512x512x512:r4", &problem) != SHINGLE_OK) return -1;
    int count = 0;
    for (int i = 0; sg_strategy_at(i) != NULL && count < PLANS; i++) {
        proposals all;
        propose_to(&problem, sg_strategy_at(i), &machine, &all);
        if (all.count == 0) continue;
        snprintf(candidate[count].text, sizeof candidate[count].text, "%d", count);
        candidate[count].strategy = sg_strategy_at(i);
        candidate[count++].knobs = all.set[0];
    }
    return count == PLANS ? 0 : -1;
}

static int free_candidates(void **state)
{
    (void)state;
    sg_problem_free(&problem);
    return 0;
}

static shingle_status race_of(runs *r, int plans, double us)
{
    static const int index[PLANS] = {0, 1, 2, 3, 4};
    const sg_stopwatch watch = {run, r, mend};
    now_us = 1e6;
    for (int i = 0; i < PLANS; i++) candidate[i].measured_us = candidate[i].declined[0] = 0;
    return sg_race(&problem, candidate, index, plans, &watch, us / 1e6);
}

static void race_for(runs *r, int plans, double us, double *us_out)
{
    assert_int_equal(race_of(r, plans, us), SHINGLE_OK);
    for (int i = 0; i < plans; i++) us_out[i] = candidate[i].measured_us;
}

/* Three rounds of 30 us fit into 100, and the first does not count. */
static void rounds_end_in_time(void **state)
{
    (void)state;
    runs r = {.us = {10, 10, 10}};
    double us[PLANS];
    race_for(&r, 3, 100, us);
    assert_int_equal(r.count, 9);
    for (int i = 0; i < 3; i++) assert_true(us[i] == 10 && r.runs_of[i] == 3);
    /* One round that counts, however long. */
    r = (runs){.us = {10, 10, 10}};
    race_for(&r, 3, 61, us);
    assert_int_equal(r.count, 6);
}

/* Fifteen rounds are enough; the median of those that count. */
static void medians_are_taken(void **state)
{
    (void)state;
    runs r = {.us = {10, 20}, .more = 1};
    double us[PLANS];
    race_for(&r, 2, 1e9, us);
    assert_int_equal(r.count, 2 + 2 * 15);
    assert_true(us[0] == 10 + 8 && us[1] == 20 + 8);
    int turned = 0;
    for (int i = 2; i < r.count; i += 2) {
        assert_int_equal(r.who[i] + r.who[i + 1], 1); /* each once a round */
        turned += r.who[i] == 1;
    }
    assert_in_range(turned, 3, 12); /* neither always goes first */
}

/* Of an incumbent of 100, LOW to HIGH in its rounds. */
static bool overtakes(double us, double low, double high)
{
    const sg_candidate other = {.measured_us = 100, .low_us = 99.8, .high_us = 101};
    const sg_candidate one = {.measured_us = us, .low_us = low, .high_us = high};
    return sg_race_is_faster(&one, &other);
}

/* By half a per cent if every round says so, by two otherwise. */
static void who_is_faster(void **state)
{
    (void)state;
    assert_true(overtakes(99.4, 99.3, 99.7));
    assert_false(overtakes(99.6, 99.5, 99.7));
    assert_false(overtakes(99.4, 99.3, 99.9));
    assert_false(overtakes(98.1, 97, 99.9));
    assert_true(overtakes(97.9, 97, 103));
    assert_false(overtakes(101, 90, 102));
    /* Rounds of 10, 11, ... us: the quartiles of fifteen, the ends of three. */
    runs r = {.us = {10, 10}, .more = 1};
    double us[PLANS];
    race_for(&r, 2, 1e9, us);
    assert_true(candidate[0].low_us == 14 && candidate[0].high_us == 22);
    r = (runs){.us = {10, 10}, .more = 1};
    race_for(&r, 2, 100, us);
    assert_int_equal(r.runs_of[0], 4);
    assert_true(candidate[0].low_us == 11 && candidate[0].high_us == 13);
    /* One round says little: two per cent count as equal. */
    r = (runs){.us = {100, 98.5}};
    race_for(&r, 2, 1, us);
    assert_int_equal(r.runs_of[0], 2);
    assert_false(sg_race_is_faster(&candidate[1], &candidate[0]));
    r = (runs){.us = {100, 97.5}};
    race_for(&r, 2, 1, us);
    assert_true(sg_race_is_faster(&candidate[1], &candidate[0]));
}

/* Half of the time is for warming up: who is not reached by then has no time. */
static void the_last_are_cut_off(void **state)
{
    (void)state;
    runs r = {.us = {20, 20, 20, 20, 20}};
    double us[PLANS];
    race_for(&r, PLANS, 100, us);
    assert_int_equal(r.count, 3 + 3);
    for (int i = 0; i < PLANS; i++) assert_true(us[i] == (i < 3 ? 20 : 0));
    /* Two at least: the serial plan and the best predicted one. */
    r = (runs){.us = {20, 20, 20, 20, 20}};
    race_for(&r, PLANS, 1, us);
    assert_int_equal(r.count, 2 + 2);
    for (int i = 0; i < PLANS; i++) assert_true(us[i] == (i < 2 ? 20 : 0));
}

/* Who fails is not run again, in the round that does not count or later; the others go on. */
static void who_fails_drops_out(void **state)
{
    (void)state;
    for (int at = 1; at <= 3; at++) {
        runs r = {.us = {10, 10, 10, 10}, .fails = {0, at, 0, 1}};
        double us[PLANS];
        race_for(&r, 4, 1e9, us);
        assert_int_equal(r.mended, 2);
        assert_true(us[0] == 10 && us[1] == 0 && us[2] == 10 && us[3] == 0);
        assert_int_equal(r.runs_of[0], 1 + 15);
        assert_int_equal(r.runs_of[1], at);
        assert_int_equal(r.runs_of[2], 1 + 15);
        assert_int_equal(r.runs_of[3], 1);
        assert_string_equal(candidate[1].declined, "rank 1 stopped");
        assert_string_equal(candidate[2].declined, "");
    }
    /* However long that took, the others have their time. */
    runs r = {.us = {10, 1e6, 10, 10}, .fails = {0, 1}};
    double us[PLANS];
    race_for(&r, 4, 100, us);
    assert_true(us[0] == 10 && us[1] == 0 && us[2] == 10 && us[3] == 10);
    assert_int_equal(r.runs_of[3], 3);
}

/* What all are compared with may not fail, nor the last one. */
static void a_race_needs_the_baseline_and_one_more(void **state)
{
    (void)state;
    runs r = {.us = {10, 10, 10}, .fails = {2}};
    assert_int_equal(race_of(&r, 3, 1e9), SHINGLE_ETIMEOUT);
    assert_string_equal(shingle_error(), "0: rank 1 stopped");
    assert_int_equal(r.mended, 1);
    r = (runs){.us = {10, 10, 10}, .fails = {0, 1, 3}};
    const sg_stopwatch watch = {run, &r, mend};
    const int others[] = {1, 2};
    for (int i = 0; i < PLANS; i++) candidate[i].declined[0] = 0;
    assert_int_equal(sg_race(&problem, candidate, others, 2, &watch, 1), SHINGLE_ETIMEOUT);
    assert_string_equal(shingle_error(), "2: rank 1 stopped");
    assert_int_equal(r.mended, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_as_told),
        cmocka_unit_test(rounds_end_in_time),
        cmocka_unit_test(medians_are_taken),
        cmocka_unit_test(who_is_faster),
        cmocka_unit_test(the_last_are_cut_off),
        cmocka_unit_test(who_fails_drops_out),
        cmocka_unit_test(a_race_needs_the_baseline_and_one_more),
    };
    return cmocka_run_group_tests(tests, make_candidates, free_candidates);
}
