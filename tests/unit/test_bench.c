/* Tests of bench.h and tuned.h on the CPU backend: what a benchmark reports is consistent, every
 * rank of a group gets the same plan, whoever asks first, and measuring leaves the group usable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/bench.h"
#include "core/data.h"
#include "core/tuned.h"

enum { RANKS = 3 };

static shingle_comm *comm[RANKS];

static int open_group(void **state)
{
    (void)state;
    return shingle_open(RANKS, NULL, comm) == SHINGLE_OK ? 0 : -1;
}

static int close_group(void **state)
{
    (void)state;
    shingle_close(RANKS, comm);
    return 0;
}

static void results_are_consistent(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm:f32:64x64x64:r3", "ag_gemm:bf16:67x40x96:r3",
                                           "gemm_rs:f16:50x48x64:r3:bias:relu",
                                           "gemm_ar:f32:30x20x10:r3:rows=0,30,0"};
    for (int i = 0; i < 4; i++) {
        const shingle_bench_options options = {.iterations = 3, .seed = (uint64_t)i};
        shingle_bench_result result;
        if (shingle_bench(RANKS, comm, problems[i], &options, &result) != SHINGLE_OK)
            fail_msg("%s: %s", problems[i], shingle_error());
        assert_int_equal(result.wrong, 0);
        assert_true(result.gemm_us > 0 && result.serial_us > 0 && result.overlapped_us > 0);
        assert_true(result.predicted_us > 0);
        assert_true((result.coll_us > 0) == (i > 0));
        if (i == 0) assert_true(result.hidden == 1);
        const double more = fmax(result.gemm_us, result.coll_us);
        const double less = fmin(result.gemm_us, result.coll_us);
        assert_true(result.speedup == result.serial_us / result.overlapped_us);
        assert_true(result.efficiency == more / result.overlapped_us);
        if (i > 0)
            assert_true(result.hidden ==
                        (result.gemm_us + result.coll_us - result.overlapped_us) / less);
        assert_true(strlen(result.strategy) > 0);
    }
}

static void every_strategy_can_be_asked_for(void **state)
{
    (void)state;
    int done = 0;
    for (int i = 0; shingle_strategy_name(i) != NULL; i++) {
        const shingle_bench_options options = {.strategy = shingle_strategy_name(i),
                                               .iterations = 1};
        shingle_bench_result result;
        const shingle_status status =
            shingle_bench(RANKS, comm, "gemm_rs:f32:96x64x64:r3", &options, &result);
        if (status == SHINGLE_EUNSUPPORTED) continue;
        assert_int_equal(status, SHINGLE_OK);
        assert_int_equal(result.wrong, 0);
        assert_int_equal(strncmp(result.strategy, options.strategy, strlen(options.strategy)), 0);
        done++;
    }
    assert_true(done >= 4);
}

/* Every strategy has a row: a time, or a reason; and whoever is timed is right. */
static void strategies_take_turns(void **state)
{
    (void)state;
    shingle_bench_row rows[32];
    const shingle_bench_options options = {.choose = "measure",
                                           .measure_seconds = 0.05,
                                           .seconds = 0.4,
                                           .iterations = 4,
                                           .strategies = "all",
                                           .knob_sets = 2,
                                           .rows_out = rows,
                                           .rows = 32};
    shingle_bench_result result;
    if (shingle_bench(RANKS, comm, "gemm_rs:f32:96x64x64:r3", &options, &result) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    int named = 0;
    int timed = 0;
    while (shingle_strategy_name(named) != NULL) named++;
    assert_int_equal(result.rows, named - 1); /* serial has a column of its own */
    for (int i = 0; i < result.rows; i++) {
        assert_int_equal(rows[i].wrong, 0);
        const char *const name = shingle_strategy_name(i + 1);
        assert_int_equal(strncmp(rows[i].strategy, name, strlen(name)), 0);
        assert_true((rows[i].us > 0) == (rows[i].declined[0] == '\0'));
        assert_true((rows[i].enqueue_us > 0) == (rows[i].us > 0));
        timed += rows[i].us > 0;
        if (strcmp(rows[i].strategy, result.strategy) == 0)
            assert_true(rows[i].us == result.overlapped_us);
    }
    assert_true(timed >= 4);
    assert_int_equal(result.wrong, 0);
    assert_true(result.iterations >= 3 && result.iterations <= 4);
    assert_true(result.enqueue_us > 0 && result.prediction_us > 0 && result.seconds > 0);
    assert_true(strlen(result.prediction) > 0);
    assert_false(result.on_device);
}

static void a_few_strategies_can_be_named(void **state)
{
    (void)state;
    shingle_bench_row rows[2];
    const shingle_bench_options options = {
        .iterations = 1, .warmup = -1, .strategies = "ring,direct", .rows_out = rows, .rows = 1};
    shingle_bench_result result;
    assert_int_equal(shingle_bench(RANKS, comm, "ag_gemm:f32:96x64x64:r3", &options, &result),
                     SHINGLE_OK);
    assert_int_equal(result.rows, 1); /* no more than there is room for */
    assert_int_equal(result.iterations, 1);
    assert_true(rows[0].us > 0);
}

/* Not overlapping is timed in any case; by its name it has a row beside, too. */
static void not_overlapping_can_be_named(void **state)
{
    (void)state;
    shingle_bench_row rows[2];
    const shingle_bench_options options = {
        .iterations = 1, .warmup = -1, .strategies = "direct,serial", .rows_out = rows, .rows = 2};
    shingle_bench_result result;
    assert_int_equal(shingle_bench(RANKS, comm, "ag_gemm:f32:96x64x64:r3", &options, &result),
                     SHINGLE_OK);
    assert_int_equal(result.rows, 2);
    assert_int_equal(strncmp(rows[0].strategy, "serial{", 7), 0);
    assert_true(rows[0].us > 0 && rows[0].predicted_us > 0 && rows[0].declined[0] == '\0');
    assert_int_equal(strncmp(rows[1].strategy, "direct{", 7), 0);
}

static void memory_is_written_and_read(void **state)
{
    (void)state;
    const char text[] = "what a rank is given";
    char back[sizeof text] = "";
    void *memory = NULL;
    shingle_device device;
    assert_int_equal(shingle_alloc(comm[1], sizeof text, &memory), SHINGLE_OK);
    assert_int_equal(shingle_write(comm[1], memory, text, sizeof text), SHINGLE_OK);
    assert_int_equal(shingle_read(comm[1], back, memory, sizeof back), SHINGLE_OK);
    assert_string_equal(back, text);
    assert_int_equal(shingle_write(comm[1], NULL, NULL, 0), SHINGLE_OK);
    assert_int_equal(shingle_write(comm[1], NULL, text, 1), SHINGLE_EINVAL);
    assert_int_equal(shingle_read(comm[1], back, NULL, 1), SHINGLE_EINVAL);
    assert_int_equal(shingle_read(NULL, back, memory, 1), SHINGLE_EINVAL);
    shingle_free(comm[1], memory);
    assert_int_equal(shingle_comm_device(comm[0], &device), SHINGLE_OK);
    assert_true(device.name[0] == '\0' && device.mhz == 0);
    assert_int_equal(shingle_comm_device(NULL, &device), SHINGLE_EINVAL);
}

static void expect_error(int ranks, shingle_comm *const *comms, const char *problem,
                         const shingle_bench_options *options, const char *error)
{
    shingle_bench_result result;
    memset(&result, 0x55, sizeof result);
    const shingle_bench_result before = result;
    assert_int_equal(shingle_bench(ranks, comms, problem, options, &result), SHINGLE_EINVAL);
    if (strstr(shingle_error(), error) == NULL) fail_msg("error is \"%s\"", shingle_error());
    assert_memory_equal(&result, &before, sizeof result);
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    const char *const problem = "gemm:f32:8x8x8:r3";
    shingle_comm *const swapped[RANKS] = {comm[1], comm[0], comm[2]};
    expect_error(0, comm, problem, NULL, "no comms");
    expect_error(RANKS, NULL, problem, NULL, "no comms");
    expect_error(2, comm, problem, NULL, "2 comms of a group of 3");
    expect_error(RANKS, swapped, problem, NULL, "in rank order");
    expect_error(RANKS, comm, "gemm:f32:8x8x8:r4", NULL, "4 ranks; this group has 3");
    expect_error(RANKS, comm, "gemm:f32:8x8", NULL, "column");
    expect_error(RANKS, comm, problem, &(shingle_bench_options){.iterations = -1}, "iterations");
    expect_error(RANKS, comm, problem, &(shingle_bench_options){.warmup = 1 << 20}, "warmup");
    expect_error(RANKS, comm, problem, &(shingle_bench_options){.strategy = "nobody"}, "nobody");
    expect_error(RANKS, comm, problem, &(shingle_bench_options){.strategies = "ring,all"},
                 "all stands alone");
    expect_error(RANKS, comm, problem, &(shingle_bench_options){.strategies = "ring,nobody"},
                 "\"nobody\"");
    expect_error(RANKS, comm, problem, &(shingle_bench_options){.seconds = -1}, "seconds");
    expect_error(RANKS, comm, problem, &(shingle_bench_options){.knob_sets = 99}, "knob_sets");
    expect_error(RANKS, comm, problem, &(shingle_bench_options){.rows = 1}, "no place for them");
    expect_error(RANKS, comm, problem, &(shingle_bench_options){.choose = "lot"}, "choose");
    expect_error(RANKS, comm, problem,
                 &(shingle_bench_options){.strategy = "serial", .choose = "static"},
                 "leaves nothing to choose");
}

/* A result that is wrong is counted, and the stopwatch fails.  The plan is of another problem of
 * the same shapes: its relu is missing, so that negative elements are wrong. */
static void wrong_elements_are_counted(void **state)
{
    (void)state;
    sg_problem with;
    sg_problem without;
    shingle_plan *plan = NULL;
    sg_bench *bench = NULL;
    double us = 0;
    assert_int_equal(sg_problem_parse("ag_gemm:f32:33x16x8:r3:relu", &with), SHINGLE_OK);
    assert_int_equal(sg_problem_parse("ag_gemm:f32:33x16x8:r3", &without), SHINGLE_OK);
    assert_int_equal(sg_tuned_plan(comm[0], &without, NULL, &plan), SHINGLE_OK);
    assert_int_equal(sg_bench_open(comm[0]->group, &with, 1, &bench), SHINGLE_OK);
    assert_int_equal(sg_bench_run(bench, plan, ~0u, &us), SHINGLE_OK);
    assert_true(us > 0);
    const int64_t wrong = sg_bench_wrong(bench);
    assert_true(wrong > 3 * 33 * 16 / 4 && wrong < 3 * 33 * 16 * 3 / 4);
    assert_int_equal(sg_bench_watch(bench, plan, &us), SHINGLE_EBUG);
    assert_non_null(strstr(shingle_error(), "wrong elements"));
    sg_bench_close(bench);
    sg_bench_close(NULL);
    sg_plan_free(plan);
    sg_problem_free(&with);
    sg_problem_free(&without);
}

/* Steps of some kinds alone would wait for flags that nobody raises. */
static void plans_with_flags_run_whole(void **state)
{
    (void)state;
    static float a[4 * 4], b[4 * 4], c[12 * 4];
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = "direct"};
    const shingle_tensors tensors = {.a = a, .b = b, .c = c};
    if (shingle_plan_create(comm[0], "ag_gemm:f32:12x4x4:r3", &options, &plan) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    assert_int_equal(sg_comm_run(plan, &tensors, NULL, 1u << SG_LAUNCH), SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "it runs whole or not at all"));
    shingle_plan_free(plan);
}

static const sg_backend *real;
static uint64_t seen[2]; /* what A was in rank 0's runs */
static int begun;

static shingle_status begin_and_look(void *self, sg_run *run)
{
    seen[begun++ % 2] = sg_hash(run->tensors.a, 12 * 8 * sizeof(float), 0);
    return real->begin(self, run);
}

/* What the run before has left anywhere would be wrong in the next one. */
static void every_run_has_data_of_its_own(void **state)
{
    (void)state;
    sg_group *const group = comm[0]->group;
    real = group->work[0]->backend;
    sg_backend looking = *real;
    sg_bench *bench = NULL;
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = "direct"};
    sg_problem p;
    double us = 0;
    looking.begin = begin_and_look;
    assert_int_equal(sg_problem_parse("gemm_rs:f32:12x4x8:r3", &p), SHINGLE_OK);
    assert_int_equal(shingle_plan_for("gemm_rs:f32:12x4x8:r3", NULL, &options, &plan), SHINGLE_OK);
    assert_int_equal(sg_bench_open(group, &p, 1, &bench), SHINGLE_OK);
    group->work[0]->backend = &looking;
    for (int i = 0; i < 2; i++) assert_int_equal(sg_bench_run(bench, plan, ~0u, &us), SHINGLE_OK);
    group->work[0]->backend = real;
    assert_int_equal(begun, 2);
    assert_true(seen[0] != seen[1] && sg_bench_wrong(bench) == 0);
    sg_bench_close(bench);
    shingle_plan_free(plan);
    sg_problem_free(&p);
}

static void medians(void **state)
{
    (void)state;
    double odd[] = {9, 1, 5};
    double even[] = {4, 1, 3, 2};
    assert_true(sg_median(odd, 3) == 5);
    assert_true(sg_median(even, 4) == 2.5);
    assert_true(sg_median(even, 0) == 0);
}

/* ---- Plans of a group ------------------------------------------------------------------------ */

/* Runs PLAN on exact data with all ranks driven from here. */
static void run_and_compare(shingle_plan **plan)
{
    const sg_problem *const p = &plan[0]->problem;
    sg_data data;
    void *a[RANKS];
    void *b[RANKS];
    void *c[RANKS];
    assert_int_equal(sg_data_make(p, 77, &data), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) {
        a[r] = calloc((size_t)(p->m * p->k), 4);
        b[r] = calloc((size_t)(p->n * p->k), 4);
        c[r] = calloc((size_t)(p->m * p->n), 4);
        assert_int_equal(sg_data_fill(&data, SG_TENSOR_A, r, a[r], 0), SHINGLE_OK);
        assert_int_equal(sg_data_fill(&data, SG_TENSOR_B, r, b[r], 0), SHINGLE_OK);
        assert_int_equal(shingle_run(plan[r], a[r], b[r], c[r], NULL), SHINGLE_OK);
    }
    for (int r = 0; r < RANKS; r++) assert_int_equal(shingle_sync(comm[r], 60), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) {
        sg_data_wrong wrong;
        assert_int_equal(sg_data_compare(&data, r, c[r], 0, &wrong), SHINGLE_OK);
        assert_int_equal(wrong.elements, 0);
        free(a[r]);
        free(b[r]);
        free(c[r]);
    }
}

typedef struct asker {
    int rank;
    const shingle_plan_options *options;
    shingle_plan *plan;
    shingle_status status;
} asker;

static void *ask(void *context)
{
    asker *const a = context;
    a->status =
        shingle_plan_create(comm[a->rank], "gemm_rs:bf16:120x64x64:r3", a->options, &a->plan);
    return NULL;
}

/* All ranks ask at once, measuring; the first plans, and all take its choice. */
static void ranks_take_the_same_plan(void **state)
{
    (void)state;
    const shingle_plan_options options = {.measure = 20, .measure_seconds = 0.05};
    asker askers[RANKS];
    pthread_t thread[RANKS];
    shingle_plan *plan[RANKS];
    for (int r = 0; r < RANKS; r++) {
        askers[r] = (asker){r, &options, NULL, SHINGLE_EBUG};
        assert_int_equal(pthread_create(&thread[r], NULL, ask, &askers[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) pthread_join(thread[r], NULL);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(askers[r].status, SHINGLE_OK);
        plan[r] = askers[r].plan;
        assert_string_equal(plan[r]->text, plan[0]->text);
        assert_string_equal(plan[r]->reason, plan[0]->reason);
        assert_true(plan[r]->candidate[plan[r]->chosen].measured_us > 0);
        assert_non_null(plan[r]->bound);
    }
    for (int i = 0; i < 3; i++) run_and_compare(plan);
    for (int r = 0; r < RANKS; r++) shingle_plan_free(plan[r]);
}

static void options_are_part_of_the_question(void **state)
{
    (void)state;
    const char *const problem = "gemm_rs:f32:120x64x64:r3";
    for (int i = 0; i < 2; i++) {
        const shingle_plan_options options = {.strategy = shingle_strategy_name(i)};
        shingle_plan *plan[RANKS];
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(shingle_plan_create(comm[r], problem, &options, &plan[r]), SHINGLE_OK);
        assert_string_equal(plan[0]->strategy->name, shingle_strategy_name(i));
        run_and_compare(plan);
        for (int r = 0; r < RANKS; r++) shingle_plan_free(plan[r]);
    }
    shingle_plan *plan = NULL;
    assert_int_equal(shingle_plan_create(NULL, problem, NULL, &plan), SHINGLE_EINVAL);
    assert_int_equal(shingle_plan_create(comm[0], "gemm:f32:8x8x8:r2", NULL, &plan),
                     SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "2 ranks; this group has 3"));
    assert_int_equal(shingle_plan_create(comm[0], "nonsense", NULL, &plan), SHINGLE_EINVAL);
    assert_null(plan);
}

/* More shapes than a group remembers: the old ones are chosen again, alike. */
static void many_shapes_are_planned(void **state)
{
    (void)state;
    char first[200] = "";
    for (int i = 0; i <= 1030; i++) {
        char text[80];
        sg_text t = {text, sizeof text, 0};
        sg_problem p;
        shingle_plan *plan = NULL;
        sg_text_add(&t, "gemm:f32:%dx8x8:r3", i % 1030 + 1);
        assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
        assert_int_equal(sg_tuned_plan(comm[1], &p, NULL, &plan), SHINGLE_OK);
        if (i == 0) strncpy(first, plan->text, sizeof first - 1);
        if (i == 1030) assert_string_equal(plan->text, first);
        sg_plan_free(plan);
        sg_problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_consistent),
        cmocka_unit_test(every_strategy_can_be_asked_for),
        cmocka_unit_test(strategies_take_turns),
        cmocka_unit_test(a_few_strategies_can_be_named),
        cmocka_unit_test(not_overlapping_can_be_named),
        cmocka_unit_test(memory_is_written_and_read),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(wrong_elements_are_counted),
        cmocka_unit_test(plans_with_flags_run_whole),
        cmocka_unit_test(every_run_has_data_of_its_own),
        cmocka_unit_test(medians),
        cmocka_unit_test(ranks_take_the_same_plan),
        cmocka_unit_test(options_are_part_of_the_question),
        cmocka_unit_test(many_shapes_are_planned),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
