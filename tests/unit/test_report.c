/* Tests of what the command reports: numbers follow from each other, shares are told where they
 * mean something, and an element of a user's data that is wrong is counted and makes it fail.  The
 * comparison is a stand-in of this program (CMakeLists.txt). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "refer.h"
#include "report.h"

static char folder[] = "/tmp/test_report_XXXXXX";
static int64_t found; /* wrong elements, says the comparison */

bool __wrap_refer_compare(const deal *d, int64_t *wrong_out, char *error);
bool __wrap_refer_compare(const deal *d, int64_t *wrong_out, char *error)
{
    (void)d;
    (void)error;
    *wrong_out = found;
    return true;
}

/* A matrix of 4 x 4 ones. */
static void write_ones(const char *name)
{
    char path[80];
    char head[128];
    const float one = 1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    snprintf(head + 10, sizeof head - 10, "%-117s",
             "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }");
    head[127] = '\n';
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(head, 1, sizeof head, file), sizeof head);
    for (int i = 0; i < 16; i++) assert_int_equal(fwrite(&one, sizeof one, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    write_ones("a.npy");
    write_ones("b.npy");
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* What is printed goes to PATH from now on; returns what be_heard() needs. */
static int speak_to(const char *path)
{
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    assert_non_null(freopen(path, "w", stdout));
    return kept;
}

static void be_heard(int kept)
{
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
}

/* Runs `shingle run LINE --json` in the folder; its exit code and what it printed. */
static int runs(const char *line, json_t **object_out)
{
    char words[300], path[80];
    char *argv[20] = {"run"};
    int argc = 1;
    snprintf(words, sizeof words, "%s -n 2 --json", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    snprintf(path, sizeof path, "%s/out.json", folder);
    const int kept = speak_to(path);
    const int code = cmd_run(argc, argv);
    be_heard(kept);
    *object_out = json_load_file(path, 0, NULL);
    assert_non_null(*object_out);
    return code;
}

/* The machine that a group is a scale model of is read when it is opened: its file may be gone when
 * a table tells of it. */
static void a_machine_is_read_once(void **state)
{
    (void)state;
    char path[80], text[400];
    shingle_machine *machine = NULL;
    snprintf(path, sizeof path, "%s/gone.machine", folder);
    assert_int_equal(shingle_machine_load("h200x4", &machine), SHINGLE_OK);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(shingle_machine_text(machine), file) >= 0 && fclose(file) == 0);
    shingle_machine_free(machine);

    group g;
    const group_options options = {.as = path};
    assert_int_equal(group_open(2, &options, &g), CLI_OK);
    assert_int_equal(remove(path), 0);
    const int kept = speak_to(path);
    report_group("", &g, &options, "f32");
    be_heard(kept);
    group_close(&g);
    file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    if (strstr(text, "a scale model of ") == NULL || strstr(text, "1 : ") == NULL)
        fail_msg("no scale in \"%s\"", text);
}

static double number(const json_t *result, const char *key)
{
    const json_t *const value = json_object_get(result, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-3 * fmax(fabs(a), fabs(b)) + 1e-3; /* as it is printed */
}

static void wrong_elements_of_data_are_told(void **state)
{
    (void)state;
    char line[200];
    snprintf(line, sizeof line, "gemm:f32:4x4x4:r1 --a %s/a.npy --b %s/b.npy --out %s/c.npy",
             folder, folder, folder);
    for (found = 0; found < 6; found += 5) {
        json_t *object = NULL;
        assert_int_equal(runs(line, &object), found > 0 ? CLI_WRONG : CLI_OK);
        const json_t *const result = json_array_get(json_object_get(object, "results"), 0);
        assert_true(number(result, "wrong") == (double)found);
        json_decref(object);
    }
}

static void numbers_follow_from_each_other(void **state)
{
    (void)state;
    json_t *object = NULL;
    assert_int_equal(runs("gemm_rs:f32:96x64x64:r2 --all", &object), CLI_OK);
    const json_t *const list = json_object_get(object, "results");
    assert_true(json_array_size(list) > 3);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *const r = json_array_get(list, i);
        const double gemm = number(r, "gemm_us");
        const double coll = number(r, "coll_us");
        const double ours = number(r, "overlapped_us");
        assert_true(ours > 0 && is_near(number(r, "speedup"), number(r, "serial_us") / ours));
        assert_true(is_near(number(r, "efficiency"), fmax(gemm, coll) / ours));
        if (json_is_number(json_object_get(r, "hidden")))
            assert_true(is_near(number(r, "hidden"), (gemm + coll - ours) / fmin(gemm, coll)));
    }
    json_decref(object);
}

/* Of each strategy the knobs run that are predicted to be fastest. */
static void the_best_knobs_run(void **state)
{
    (void)state;
    static const char problem[] = "gemm_rs:f32:96x64x64:r2";
    static const char file[] = "machines/h200x2.machine";
    char line[100];
    json_t *object = NULL;
    shingle_machine *machine = NULL;
    shingle_plan *plan = NULL;
    snprintf(line, sizeof line, "%s --all --iters 1", problem);
    setenv("SHINGLE_MACHINE", file, 1);
    assert_int_equal(runs(line, &object), CLI_OK);
    unsetenv("SHINGLE_MACHINE");
    assert_int_equal(shingle_machine_load(file, &machine), SHINGLE_OK);
    assert_int_equal(shingle_plan_for(problem, machine, NULL, &plan), SHINGLE_OK);
    const json_t *const list = json_object_get(object, "results");
    int others = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *const r = json_array_get(list, i);
        const char *const name = json_string_value(json_object_get(r, "strategy"));
        for (int j = 0; j < shingle_plan_candidates(plan); j++) {
            shingle_candidate c;
            assert_int_equal(shingle_plan_candidate(plan, j, &c), SHINGLE_OK);
            if (c.declined != NULL || strncmp(c.strategy, name, strcspn(name, "{") + 1) != 0)
                continue;
            assert_true(number(r, "predicted_us") <= c.predicted_us * 1.001 + 0.001);
            others += strcmp(c.strategy, name) != 0;
        }
    }
    assert_true(others > 0);
    shingle_plan_free(plan);
    shingle_machine_free(machine);
    json_decref(object);
}

/* Equal problems share what is left; what the first does not use the second has. */
static void time_left_is_shared(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm:f32:4x4x4:r1", "gemm:f32:4x4x4:r1"};
    const report_options options = {.seconds = 1000};
    report_budget b = report_plan(&options, problems, 2);
    const double first = report_share(&b, &options, problems[0]);
    const double second = report_share(&b, &options, problems[1]);
    assert_true(first > 450 && first <= 500);
    assert_true(second > 900 && second <= 1000);
}

static void is_text(const json_t *object, const char *key, const char *text)
{
    const char *const seen = json_string_value(json_object_get(object, key));
    if (seen == NULL || strcmp(seen, text) != 0) fail_msg("%s is %s", key, seen ? seen : "none");
}

static void is_number(const json_t *object, const char *key, double value)
{
    const double seen = json_number_value(json_object_get(object, key));
    if (seen != value) fail_msg("%s is %g", key, seen);
}

/* Each number and text stands under its own key. */
static void keys_have_their_numbers(void **state)
{
    (void)state;
    const shingle_bench_result r = {.strategy = "ring{sub=1}",
                                    .gemm_us = 30,
                                    .coll_us = 20,
                                    .serial_us = 50,
                                    .overlapped_us = 40,
                                    .predicted_us = 41,
                                    .hidden = 0.5,
                                    .speedup = 1.25,
                                    .efficiency = 0.75,
                                    .wrong = 3,
                                    .enqueue_us = 7,
                                    .prediction = "direct",
                                    .prediction_us = 42,
                                    .mhz = 1980,
                                    .iterations = 5,
                                    .checks = 2,
                                    .on_device = 1,
                                    .seconds = 9};
    json_t *const o = report_json("gemm:f32:4x4x4:r1", &r);
    static const char *const keys[] = {
        "gemm_us", "coll_us",    "serial_us",  "overlapped_us", "predicted_us",
        "hidden",  "speedup",    "efficiency", "wrong",         "enqueue_us",
        "mhz",     "iterations", "checks",     "seconds",       "prediction_us"};
    static const double numbers[] = {30, 20, 50, 40, 41, 0.5, 1.25, 0.75, 3, 7, 1980, 5, 2, 9, 42};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) is_number(o, keys[i], numbers[i]);
    is_text(o, "problem", "gemm:f32:4x4x4:r1");
    is_text(o, "strategy", "ring{sub=1}");
    is_text(o, "prediction", "direct");
    is_text(o, "compared_by", "device");
    json_decref(o);

    const shingle_bench_row rows[] = {
        {.strategy = "ring{sub=1}", .us = 40, .predicted_us = 41, .enqueue_us = 7, .wrong = 1},
        {.strategy = "dma", .declined = "two ranks alone", .wrong = 2}};
    json_t *const list = report_rows_json(rows, 2);
    const json_t *const timed = json_array_get(list, 0);
    is_text(timed, "strategy", "ring{sub=1}");
    is_number(timed, "us", 40);
    is_number(timed, "predicted_us", 41);
    is_number(timed, "enqueue_us", 7);
    is_number(timed, "wrong", 1);
    is_text(json_array_get(list, 1), "declined", "two ranks alone");
    is_number(json_array_get(list, 1), "wrong", 2);
    json_decref(list);
}

static void the_longer_part_bounds(void **state)
{
    (void)state;
    const shingle_bench_result a = {.gemm_us = 30, .coll_us = 20};
    const shingle_bench_result b = {.gemm_us = 10, .coll_us = 20};
    assert_true(report_bound(&a) == 30 && report_bound(&b) == 20);
}

/* Of a part below a twentieth of the other, or of none, nothing is said, nor of serial. */
static void hidden_is_told_where_it_means_something(void **state)
{
    (void)state;
    assert_true(report_can_hide(100, 5) && report_can_hide(5, 100));
    assert_false(report_can_hide(100, 4.9));
    assert_false(report_can_hide(4.9, 100));
    assert_false(report_can_hide(100, 0));
    assert_true(report_hidden_of("ring{sub=1}", 100, 50, 0.5) == 0.5);
    assert_true(isnan(report_hidden_of("ring{sub=1}", 100, 4, 0.5)));
    assert_true(isnan(report_hidden_of("serial{tile_m=1}", 100, 50, 0.5)));
    assert_true(isnan(report_hidden_of("serial", 100, 50, 0.5)));
    assert_true(report_hidden_of("serially", 100, 50, 0.5) == 0.5);
}

/* Setting up counts as a quarter of what the largest takes, and nobody gets no time at all. */
static void large_problems_get_more_of_the_time(void **state)
{
    (void)state;
    static const char *const problem[] = {"gemm:f32:512x512x512:r1", "gemm:f32:8x8x8:r1"};
    const report_options options = {.seconds = 1000};
    report_budget b = report_plan(&options, problem, 2);
    assert_true(fabs(report_share(&b, &options, problem[0]) - 800) < 40);
    assert_true(fabs(report_share(&b, &options, problem[1]) - 1000) < 40); /* what is left */
    b = report_plan(&options, problem, 2);
    b.end_seconds = 0;
    assert_true(report_share(&b, &options, problem[0]) == 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_elements_of_data_are_told),
        cmocka_unit_test(numbers_follow_from_each_other),
        cmocka_unit_test(a_machine_is_read_once),
        cmocka_unit_test(the_best_knobs_run),
        cmocka_unit_test(time_left_is_shared),
        cmocka_unit_test(keys_have_their_numbers),
        cmocka_unit_test(the_longer_part_bounds),
        cmocka_unit_test(hidden_is_told_where_it_means_something),
        cmocka_unit_test(large_problems_get_more_of_the_time),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
