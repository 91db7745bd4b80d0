/* Tests of tuned.c that no clock decides: the stopwatch and the planner are called through
 * stand-ins of this program (CMakeLists.txt), so times are what a test says, and what is planned
 * anew is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu_test.h"
#include "core/bench.h"
#include "core/disk.h"
#include "core/planner.h"
#include "core/tuned_file.h"
#include "plans_folder.h"

enum { RANKS = 2, CHOICES = 1024 /* that a group keeps: MOST_PLANS of tuned.c */ };

static double serial_us = 100, other_us = 50; /* what the stopwatch tells */
static int planned;                           /* calls of the planner */
static const char *culprit;                   /* strategy of which a rank stops; NULL: none */
static shingle_comm *culprits_comm;

shingle_status __real_sg_bench_watch(void *context, const shingle_plan *plan, double *us_out);
shingle_status __wrap_sg_bench_watch(void *context, const shingle_plan *plan, double *us_out);
shingle_status __wrap_sg_bench_watch(void *context, const shingle_plan *plan, double *us_out)
{
    if (culprit != NULL && strcmp(plan->strategy->name, culprit) == 0) {
        sg_cpu_test_stop(culprits_comm, 1, 1);
        const shingle_status status = __real_sg_bench_watch(context, plan, us_out);
        sg_cpu_test_stop(culprits_comm, 1, -1);
        return status;
    }
    *us_out = strcmp(plan->strategy->name, "serial") == 0 ? serial_us : other_us;
    return SHINGLE_OK;
}

shingle_status __real_sg_planner_choose(const sg_problem *problem, const sg_machine *machine,
                                        const shingle_plan_options *options,
                                        const sg_stopwatch *watch, const sg_able *can,
                                        shingle_plan **plan_out);
shingle_status __wrap_sg_planner_choose(const sg_problem *problem, const sg_machine *machine,
                                        const shingle_plan_options *options,
                                        const sg_stopwatch *watch, const sg_able *can,
                                        shingle_plan **plan_out);
shingle_status __wrap_sg_planner_choose(const sg_problem *problem, const sg_machine *machine,
                                        const shingle_plan_options *options,
                                        const sg_stopwatch *watch, const sg_able *can,
                                        shingle_plan **plan_out)
{
    planned++;
    return __real_sg_planner_choose(problem, machine, options, watch, can, plan_out);
}

static int begin(void **state)
{
    (void)state;
    unlink(path);
    serial_us = 100;
    other_us = 50;
    culprit = NULL;
    return 0;
}

static void open_with(const shingle_config *config, shingle_comm **comm)
{
    if (shingle_open(RANKS, config, comm) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

static void open_group(shingle_comm **comm)
{
    open_with(&(shingle_config){.plans = path, .threads = 1}, comm);
}

/* Asks for a plan; how often the planner was called for it. */
static int asks(shingle_comm *comm, const char *problem, const shingle_plan_options *options,
                shingle_plan **plan_out)
{
    const int before = planned;
    if (shingle_plan_create(comm, problem, options, plan_out) != SHINGLE_OK)
        fail_msg("%s: %s", problem, shingle_error());
    return planned - before;
}

static bool is_tuned(shingle_comm *comm, const char *problem)
{
    shingle_plan *plan = NULL;
    asks(comm, problem, NULL, &plan);
    const bool tuned = strstr(shingle_plan_reason(plan), " tuned, ") != NULL;
    shingle_plan_free(plan);
    return tuned;
}

/* In tiles of one element: predicted to lose to serial, whatever the machine. */
static const shingle_plan_options slow = {.strategy = "fused_out{tile_m=1,tile_n=1}",
                                          .measure_seconds = 0.001};

static void tune(shingle_comm *comm, const char *problem, const shingle_plan_options *options)
{
    if (shingle_tune(comm, problem, options, NULL) != SHINGLE_OK)
        fail_msg("%s: %s", problem, shingle_error());
}

/* What was asked for by name and loses to serial is not what others get. */
static void what_loses_to_serial_is_not_kept(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    const char *const problem = "gemm_rs:f32:64x64x64:r2";
    const char *const other = "gemm_rs:f32:64x66x64:r2";
    const shingle_plan_options unnamed = {.measure_seconds = 0.001};
    other_us = 100.5;
    open_group(comm);
    assert_int_equal(shingle_tune(comm[0], problem, &slow, NULL), SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "slower than not overlapping is not kept"));
    assert_non_null(strstr(shingle_error(), "takes 100.5 us, serial{"));
    assert_false(is_tuned(comm[0], problem));
    setenv("SHINGLE_STRATEGY", slow.strategy, 1);
    assert_int_equal(shingle_tune(comm[0], other, &unnamed, NULL), SHINGLE_EUNSUPPORTED);
    unsetenv("SHINGLE_STRATEGY");
    shingle_close(RANKS, comm);
    open_group(comm);
    assert_false(is_tuned(comm[0], problem));
    assert_false(is_tuned(comm[0], other));
    /* As fast as serial is no loss. */
    other_us = 100;
    tune(comm[0], problem, &slow);
    assert_true(is_tuned(comm[0], problem));
    shingle_close(RANKS, comm);
}

/* What was measured counts for its own problem alone where predictions say that it loses. */
static void a_neighbour_that_is_predicted_to_lose_is_dropped(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    shingle_plan *plan = NULL;
    open_group(comm);
    tune(comm[0], "gemm_rs:f32:64x64x64:r2", &slow);
    assert_true(is_tuned(comm[0], "gemm_rs:f32:64x64x64:r2"));
    asks(comm[0], "gemm_rs:f32:64x64x64:r2", NULL, &plan);
    assert_true(plan->predicted_us > plan->candidate[0].predicted_us);
    assert_false(is_tuned(comm[0], "gemm_rs:f32:66x64x64:r2"));
    shingle_close(RANKS, comm);
}

/* Of two that are as far away the first that was tuned. */
static void the_first_of_equally_near_stays(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    shingle_plan *plan = NULL;
    const shingle_plan_options serial = {.strategy = "serial", .measure_seconds = 0.001};
    open_group(comm);
    tune(comm[0], "ag_gemm:f32:50x64x64:r2", &serial);
    tune(comm[0], "ag_gemm:f32:200x64x64:r2", &serial);
    asks(comm[0], "ag_gemm:f32:100x64x64:r2", NULL, &plan);
    assert_non_null(strstr(shingle_plan_reason(plan), " at m 50;"));
    shingle_close(RANKS, comm);
}

/* A plan of which a rank does not come loses; the others are timed, and the group goes on. */
static void one_that_fails_loses(void **state)
{
    (void)state;
    static const char *const problem = "gemm_rs:f32:64x64x64:r2";
    const shingle_plan_options options = {.measure = 20, .measure_seconds = 0.001};
    shingle_comm *comm[RANKS];
    shingle_plan *plan = NULL;
    shingle_bench_result result;
    open_with(&(shingle_config){.threads = 1, .timeout_seconds = 0.2}, comm);
    culprits_comm = comm[0];
    culprit = "ring";
    if (shingle_tune(comm[0], problem, &options, &plan) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    assert_string_not_equal(plan->strategy->name, "ring");
    int failed = 0;
    int timed = 0;
    for (int i = 0; i < plan->candidates; i++) {
        timed += plan->candidate[i].measured_us > 0;
        const bool lost = strstr(plan->candidate[i].declined, "rank 1") != NULL;
        if (lost) assert_string_equal(plan->candidate[i].strategy->name, "ring");
        failed += lost;
    }
    assert_true(failed > 0 && timed > 2);
    assert_int_equal(shingle_bench(RANKS, comm, problem, NULL, &result), SHINGLE_OK);
    assert_int_equal(result.wrong, 0);
    /* Asked for by name, and without what it is compared with. */
    shingle_plan_free(plan);
    plan = NULL;
    const shingle_plan_options ring = {.strategy = "ring", .measure_seconds = 0.001};
    assert_int_equal(shingle_tune(comm[0], problem, &ring, &plan), SHINGLE_EBACKEND);
    assert_non_null(strstr(shingle_error(), "rank 1"));
    culprit = "serial";
    assert_int_equal(shingle_tune(comm[0], problem, &options, &plan), SHINGLE_ETIMEOUT);
    assert_non_null(strstr(shingle_error(), "serial"));
    assert_null(plan);
    assert_int_equal(shingle_bench(RANKS, comm, problem, NULL, &result), SHINGLE_OK);
    shingle_close(RANKS, comm);
}

/* What failed before, and stands, is told and not recovered from behind the back of who ran it. */
static void a_failure_that_stands_is_told(void **state)
{
    (void)state;
    static const char *const problem = "gemm_rs:f32:64x64x64:r2";
    static float a[RANKS][64 * 64], b[RANKS][64 * 64], c[RANKS][32 * 64];
    shingle_comm *comm[RANKS];
    shingle_plan *plan[RANKS];
    shingle_plan *tuned = NULL;
    open_with(&(shingle_config){.threads = 1, .timeout_seconds = 0.2}, comm);
    for (int r = 0; r < RANKS; r++) asks(comm[r], problem, NULL, &plan[r]);
    assert_int_equal(shingle_run(plan[0], a[0], b[0], c[0], NULL), SHINGLE_OK); /* 1 does not */
    assert_int_equal(shingle_sync(comm[0], 10), SHINGLE_ETIMEOUT);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(shingle_tune(comm[0], problem, NULL, &tuned), SHINGLE_ETIMEOUT);
        assert_null(strstr(shingle_error(), "serial"));
        assert_int_not_equal(shingle_sync(comm[1], 10), SHINGLE_OK);
    }
    for (int r = 0; r < RANKS; r++) (void)shingle_recover(comm[r], 0);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(shingle_run(plan[r], a[r], b[r], c[r], NULL), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) assert_int_equal(shingle_sync(comm[r], 10), SHINGLE_OK);
    shingle_close(RANKS, comm);
}

/* ---- Choices that a group keeps -------------------------------------------------------------- */

static int asks_nth(shingle_comm *comm, int n)
{
    static const shingle_plan_options serial = {.strategy = "serial"};
    char problem[40];
    shingle_plan *plan = NULL;
    snprintf(problem, sizeof problem, "gemm:f32:%dx1x1:r2", n + 1);
    const int calls = asks(comm, problem, &serial, &plan);
    shingle_plan_free(plan);
    return calls;
}

/* The oldest leaves, twice around. */
static void so_many_choices_are_kept(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    open_with(&(shingle_config){.threads = 1}, comm);
    for (int n = 0; n < 2 * CHOICES + 5; n++) assert_int_equal(asks_nth(comm[0], n), 1);
    for (int n = CHOICES + 5; n < 2 * CHOICES + 5; n++) assert_int_equal(asks_nth(comm[0], n), 0);
    assert_int_equal(asks_nth(comm[0], CHOICES + 4), 1);
    assert_int_equal(asks_nth(comm[0], CHOICES + 5), 1);
    assert_int_equal(asks_nth(comm[0], CHOICES + 7), 0);
    shingle_close(RANKS, comm);
}

/* Whatever is asked for differently is another choice. */
static void options_are_part_of_the_key(void **state)
{
    static const shingle_plan_options all[] = {
        {.choose = NULL},
        {.choose = "predict"},
        {.choose = "static"},
        {.reproducible = 1},
        {.strategy = "ring"},
        {.choose = "measure", .measure_seconds = 0.002},
        {.choose = "measure", .measure_seconds = 0.004},
        {.choose = "measure", .measure = 2, .measure_seconds = 0.004},
        {.choose = "measure", .level = "patient", .measure_seconds = 0.004}};
    (void)state;
    shingle_comm *comm[RANKS];
    open_with(&(shingle_config){.threads = 1}, comm);
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
            shingle_plan *plan = NULL;
            assert_int_equal(asks(comm[0], "gemm_rs:f32:64x48x40:r2", &all[i], &plan), !again);
            assert_int_equal(strstr(plan->reason, "; reproducible, ") != NULL, all[i].reproducible);
        }
    }
    shingle_close(RANKS, comm);
}

/* Tuning forgets what was chosen for its problem and for other m, which may follow it, and for no
 * other that begins alike. */
static void tuning_forgets_its_problem_alone(void **state)
{
    (void)state;
    shingle_comm *comm[RANKS];
    shingle_plan *plan = NULL;
    open_group(comm);
    assert_int_equal(asks(comm[0], "gemm_rs:f32:64x64x64:r2", NULL, &plan), 1);
    assert_int_equal(asks(comm[0], "gemm_rs:f32:128x64x64:r2", NULL, &plan), 1);
    assert_int_equal(asks(comm[0], "gemm_rs:f32:64x64x64:r2:relu", NULL, &plan), 1);
    tune(comm[0], "gemm_rs:f32:64x64x64:r2", &slow);
    assert_int_equal(asks(comm[0], "gemm_rs:f32:64x64x64:r2:relu", NULL, &plan), 0);
    assert_int_equal(asks(comm[0], "gemm_rs:f32:64x64x64:r2", NULL, &plan), 1);
    assert_true(asks(comm[0], "gemm_rs:f32:128x64x64:r2", NULL, &plan) > 0);
    shingle_close(RANKS, comm);
}

/* ---- Signatures ------------------------------------------------------------------------------ */

/* The signature of a group that was opened so, as it stands in its file. */
static void signature_of(shingle_config config, char *text)
{
    shingle_comm *comm[RANKS];
    char *data = NULL;
    size_t bytes = 0;
    unlink(path);
    config.plans = path;
    open_with(&config, comm);
    tune(comm[0], "gemm_rs:f32:64x64x64:r2", &slow);
    shingle_close(RANKS, comm);
    if (sg_disk_read(path, 1 << 20, &data, &bytes) != SHINGLE_OK) fail_msg("%s", shingle_error());
    const char *const line = strchr(data, '\n') + 1;
    snprintf(text, SG_SIGNATURE, "%.*s", (int)strcspn(line, " "), line);
    free(data);
}

static void write_machine(const char *where, const char *text)
{
    if (sg_disk_replace(where, text, strlen(text)) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

/* All that times depend on and that is set from outside makes another signature. */
static void signatures_know_what_was_set(void **state)
{
    (void)state;
    char one[64], two[64];
    sg_machine machine;
    char text[SG_MACHINE_TEXT];
    snprintf(one, sizeof one, "%s/one.machine", folder);
    snprintf(two, sizeof two, "%s/two.machine", folder);
    sg_machine_plain(&machine);
    assert_in_range(sg_machine_print(&machine, text, sizeof text), 1, sizeof text - 1);
    write_machine(one, text);
    machine.copy_gbps *= 2;
    sg_machine_print(&machine, text, sizeof text);
    write_machine(two, text);
    const shingle_config all[] = {
        {.machine = one, .threads = 1},  {.machine = two, .threads = 1},
        {.machine = one, .threads = 2},  {.scale_of = one, .threads = 1},
        {.scale_of = two, .threads = 1}, {.scale_of = one, .scale_rows = 8, .threads = 1}};
    enum { ALL = sizeof all / sizeof all[0] };
    char seen[ALL][SG_SIGNATURE], again[SG_SIGNATURE];
    for (int i = 0; i < ALL; i++) {
        signature_of(all[i], seen[i]);
        for (int j = 0; j < i; j++)
            if (strcmp(seen[i], seen[j]) == 0) fail_msg("%d and %d: %s", i, j, seen[i]);
    }
    signature_of(all[0], again);
    assert_string_equal(again, seen[0]);
    /* The default stands for its number. */
    signature_of((shingle_config){.scale_of = one, .scale_rows = 16, .threads = 1}, again);
    assert_string_equal(again, seen[3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_loses_to_serial_is_not_kept, begin),
        cmocka_unit_test_setup(a_neighbour_that_is_predicted_to_lose_is_dropped, begin),
        cmocka_unit_test_setup(the_first_of_equally_near_stays, begin),
        cmocka_unit_test_setup(one_that_fails_loses, begin),
        cmocka_unit_test_setup(a_failure_that_stands_is_told, begin),
        cmocka_unit_test_setup(so_many_choices_are_kept, begin),
        cmocka_unit_test_setup(options_are_part_of_the_key, begin),
        cmocka_unit_test_setup(tuning_forgets_its_problem_alone, begin),
        cmocka_unit_test_setup(signatures_know_what_was_set, begin),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
