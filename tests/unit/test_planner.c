/* Tests of planner.h: decisions per machine as tables compared as text (tests/golden; run with
 * --write to make them anew, then review the difference), and the rules of choosing.  Takes seconds
 * in debug builds, where every candidate is proved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/disk.h"
#include "core/planner.h"

static bool writing;

/* ---- Golden tables --------------------------------------------------------------------------- */

/* Products of published models' layers, from decoding to long prompts; m stands for %d. */
static const char *const layers[] = {
    "ag_gemm:bf16:%dx2560x8192", "ag_gemm:bf16:%dx7168x8192", "gemm_rs:bf16:%dx8192x2048",
    "gemm_rs:bf16:%dx8192x7168", "gemm_ar:bf16:%dx8192x2048", "gemm_ar:bf16:%dx8192x7168",
};
static const int rows[] = {1, 128, 512, 2048, 8192};

enum { LAYERS = sizeof layers / sizeof layers[0], ROWS = sizeof rows / sizeof rows[0] };

static void add_decision(const char *problem, const shingle_machine *machine, sg_text *table)
{
    shingle_plan *plan = NULL;
    if (shingle_plan_for(problem, machine, NULL, &plan) != SHINGLE_OK)
        fail_msg("%s: %s", problem, shingle_error());
    const char *const strategy = strchr(plan->text, ' ') + 1;
    const double serial = plan->candidate[0].predicted_us;
    sg_text_add(table, "%-34s %-62.*s %8.0f us, serial %8.0f us\n", problem,
                (int)(strchr(strategy, ' ') - strategy), strategy, plan->predicted_us, serial);
    assert_true(plan->predicted_us <= serial);
    sg_plan_free(plan);
}

static void compare_table(const char *path, const char *table)
{
    if (writing) {
        FILE *const file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(table, file) >= 0);
        assert_int_equal(fclose(file), 0);
        return;
    }
    char *golden = NULL;
    size_t bytes = 0;
    if (sg_disk_read(path, 1 << 20, &golden, &bytes) != SHINGLE_OK) fail_msg("%s", shingle_error());
    const char *a = golden;
    for (const char *b = table; *a != '\0' || *b != '\0';) {
        const size_t length_a = strcspn(a, "\n");
        const size_t length_b = strcspn(b, "\n");
        if (length_a != length_b || memcmp(a, b, length_a) != 0)
            fail_msg("%s\n  says  %.*s\n  now   %.*s\ntest_planner --write makes it anew", path,
                     (int)length_a, a, (int)length_b, b);
        a += length_a + (a[length_a] != '\0');
        b += length_b + (b[length_b] != '\0');
    }
    free(golden);
}

/* Debug builds prove every candidate, which takes a minute for all machines. */
#ifdef NDEBUG
static const char machine_files[] = "machines/*.machine";
#else
static const char machine_files[] = "machines/h200x*.machine";
#endif

static void decisions_are_as_reviewed(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob(machine_files, 0, NULL, &found), 0); /* in the source folder */
    for (size_t i = 0; i < found.gl_pathc; i++) {
        shingle_machine *machine = NULL;
        static char table[1 << 15];
        sg_text t = {table, sizeof table, 0};
        assert_int_equal(shingle_machine_load(found.gl_pathv[i], &machine), SHINGLE_OK);
        for (int l = 0; l < LAYERS; l++) {
            for (int r = 0; r < ROWS; r++) {
                char problem[80];
                sg_text p = {problem, sizeof problem, 0};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                sg_text_add(&p, layers[l], rows[r]);
#pragma GCC diagnostic pop
                sg_text_add(&p, ":r%d", machine->numbers.ranks < 8 ? machine->numbers.ranks : 8);
                add_decision(problem, machine, &t);
            }
        }
        assert_true(t.length < sizeof table);
        char path[120];
        snprintf(path, sizeof path, "tests/golden/%s.plans", machine->numbers.name);
        compare_table(path, table);
        shingle_machine_free(machine);
    }
    globfree(&found);
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static shingle_plan *plan_for(const char *problem, const char *strategy)
{
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = strategy};
    if (shingle_plan_for(problem, NULL, &options, &plan) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    return plan;
}

static void expect_error(const char *problem, const char *strategy, shingle_status status,
                         const char *error)
{
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = strategy};
    assert_int_equal(shingle_plan_for(problem, NULL, &options, &plan), status);
    assert_null(plan);
    if (strstr(shingle_error(), error) == NULL)
        fail_msg("error is \"%s\", expected \"%s\"", shingle_error(), error);
}

static void the_fastest_is_chosen_and_explained(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "gemm:f32:64x64x64:r1",
        "gemm:bf16:64x64x64:r4",
        "ag_gemm:bf16:64x64x64:r1",
        "ag_gemm:bf16:8192x8192x4096:r8",
        "gemm_rs:f16:8192x8192x8192:r4",
        "gemm_rs:f32:7x5x3:r5:rows=0,0,7,0,0",
        "gemm_ar:bf16:4096x4096x4096:r4:bias:silu",
        "gemm_ar:bf16:0x0x0:r3",
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        shingle_plan *const plan = plan_for(problems[i], NULL);
        const sg_candidate *const best = &plan->candidate[plan->chosen];
        assert_string_equal(plan->candidate[0].strategy->name, sg_strategy_at(0)->name);
        assert_int_equal(plan->candidate[0].declined[0], '\0');
        assert_ptr_equal(plan->strategy, best->strategy);
        int strategies = 0;
        for (int c = 0; c < plan->candidates; c++) {
            const sg_candidate *const other = &plan->candidate[c];
            strategies += c == 0 || plan->candidate[c - 1].strategy != other->strategy;
            if (other->declined[0] != '\0') continue;
            assert_true(best->predicted_us <= other->predicted_us * 1.0102);
            /* Of equals the first one. */
            if (c < plan->chosen) assert_true(best->predicted_us < other->predicted_us);
        }
        int all = 0;
        while (sg_strategy_at(all) != NULL) all++;
        assert_int_equal(strategies, all);
        assert_int_equal(strncmp(plan->reason, best->text, strlen(best->text)), 0);
        sg_plan_free(plan);
    }
}

static void choices_repeat(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        shingle_plan *const a = plan_for("gemm_rs:bf16:3000x4000x5000:r7", NULL);
        shingle_plan *const b = plan_for("gemm_rs:bf16:3000x4000x5000:r7", NULL);
        assert_string_equal(a->text, b->text);
        assert_string_equal(a->reason, b->reason);
        assert_true(a->predicted_us == b->predicted_us);
        sg_plan_free(a);
        sg_plan_free(b);
    }
}

static void forced_strategies_are_taken(void **state)
{
    (void)state;
    const char *const problem = "gemm_rs:bf16:1024x1024x1024:r4";
    for (int i = 0; sg_strategy_at(i) != NULL; i++) {
        const sg_strategy *const strategy = sg_strategy_at(i);
        sg_problem p;
        char why[160] = "";
        sg_text reason = {why, sizeof why, 0};
        assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
        const bool accepts = strategy->accepts(&p, &reason);
        sg_problem_free(&p);
        if (!accepts) {
            expect_error(problem, strategy->name, SHINGLE_EUNSUPPORTED, why);
            continue;
        }
        shingle_plan *const named = plan_for(problem, strategy->name);
        assert_ptr_equal(named->strategy, strategy);
        /* Its fastest knob set, though serial may be faster. */
        for (int c = 0; c < named->candidates; c++)
            if (named->candidate[c].strategy == strategy)
                assert_true(named->predicted_us <= named->candidate[c].predicted_us * 1.0102);
        /* Exactly these knobs. */
        char text[200];
        sg_text t = {text, sizeof text, 0};
        sg_knobs knobs = named->knobs;
        knobs.value[0] = strategy->knob[0].least;
        sg_strategy_print(strategy, &knobs, &t);
        shingle_plan *const exact = plan_for(problem, text);
        assert_memory_equal(&exact->knobs, &knobs, sizeof knobs);
        assert_non_null(strstr(exact->reason, "asked for by name"));
        assert_string_equal(exact->candidate[exact->chosen].text, text);
        sg_plan_free(exact);
        /* One knob alone: the others are the first proposal's. */
        t.length = 0;
        sg_text_add(&t, "%s{%s=%d}", strategy->name, strategy->knob[0].name,
                    strategy->knob[0].least);
        shingle_plan *const one = plan_for(problem, text);
        assert_int_equal(one->knobs.value[0], strategy->knob[0].least);
        sg_plan_free(one);
        sg_plan_free(named);
    }
}

static void wrong_wishes_are_named(void **state)
{
    (void)state;
    const char *const problem = "gemm_rs:bf16:64x64x64:r4";
    const char *const name = sg_strategy_at(1)->name;
    char text[120];
    expect_error(problem, "nobody", SHINGLE_EINVAL, "strategy \"nobody\": there are ");
    expect_error(problem, "{", SHINGLE_EINVAL, "there are ");
    snprintf(text, sizeof text, "%s{speed=9}", name);
    expect_error(problem, text, SHINGLE_EINVAL, "column");
    snprintf(text, sizeof text, "%s{%s=1000000}", name, sg_strategy_at(1)->knob[0].name);
    expect_error(problem, text, SHINGLE_EINVAL, "is a number from");
    expect_error("gemm_rs:bf16:64x64", NULL, SHINGLE_EINVAL, "column");
    expect_error(NULL, NULL, SHINGLE_EINVAL, "no problem given");
    shingle_plan *plan = NULL;
    shingle_plan_options options = {.measure = -1};
    assert_int_equal(shingle_plan_for(problem, NULL, &options, &plan), SHINGLE_EINVAL);
    options = (shingle_plan_options){.measure_seconds = -1};
    assert_int_equal(shingle_plan_for(problem, NULL, &options, &plan), SHINGLE_EINVAL);
    sg_machine machine;
    sg_problem p;
    sg_machine_plain(&machine);
    machine.ranks = 2;
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    assert_int_equal(sg_planner_choose(&p, &machine, NULL, NULL, NULL, &plan), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "has 4 ranks; machine plain reaches 2"));
    sg_problem_free(&p);
}

/* What a backend cannot carry out is declined; without collectives serial goes too. */
static void steps_that_the_backend_lacks_are_declined(void **state)
{
    (void)state;
    sg_machine machine;
    sg_problem p;
    shingle_plan *plan = NULL;
    sg_machine_plain(&machine);
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:4096x4096x4096:r4", &p), SHINGLE_OK);
    for (int kind = 0; kind < SG_KINDS; kind++) {
        sg_able can = {.kind = {true, true, true, true, true}};
        can.kind[kind] = false;
        const shingle_status status = sg_planner_choose(&p, &machine, NULL, NULL, &can, &plan);
        if (kind == SG_LAUNCH) {
            assert_int_equal(status, SHINGLE_EUNSUPPORTED);
            assert_non_null(strstr(shingle_error(), "does not carry out products"));
            continue;
        }
        assert_int_equal(status, SHINGLE_OK);
        for (int r = 0; r < p.ranks; r++) {
            sg_sched s = {0};
            assert_int_equal(sg_plan_build(&p, plan->strategy, &plan->knobs, r, &s), SHINGLE_OK);
            for (int32_t i = 0; i < s.steps; i++) assert_int_not_equal(s.step[i].kind, kind);
            sg_sched_free(&s);
        }
        if (kind == SG_COLL)
            assert_string_equal(plan->candidate[0].declined,
                                "the backend does not carry out collectives");
        sg_plan_free(plan);
    }
    sg_problem_free(&p);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

typedef struct fake {
    const char *fast; /* strategy that is fastest when measured */
    int runs;
    int fail_at; /* run that fails; -1: none */
} fake;

static shingle_status fake_run(void *context, const shingle_plan *plan, double *us_out)
{
    fake *const f = context;
    if (f->runs++ == f->fail_at) return sg_fail(SHINGLE_ETIMEOUT, "rank 1 stopped");
    /* Every third run is disturbed; the median does not mind. */
    *us_out = (strcmp(plan->strategy->name, f->fast) == 0 ? 10 : 20) * (f->runs % 3 == 0 ? 9 : 1);
    return SHINGLE_OK;
}

static void the_measured_fastest_wins(void **state)
{
    (void)state;
    sg_machine machine;
    sg_problem p;
    sg_machine_plain(&machine);
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:4096x4096x4096:r4", &p), SHINGLE_OK);
    for (int i = 0; sg_strategy_at(i) != NULL; i++) {
        fake f = {sg_strategy_at(i)->name, 0, -1};
        const sg_stopwatch watch = {fake_run, &f, NULL};
        const shingle_plan_options options = {.measure = 40, .measure_seconds = 0.1};
        shingle_plan *plan = NULL;
        assert_int_equal(sg_planner_choose(&p, &machine, &options, &watch, NULL, &plan),
                         SHINGLE_OK);
        char why[160] = "";
        sg_text reason = {why, sizeof why, 0};
        const bool accepts = sg_strategy_at(i)->accepts(&p, &reason);
        if (accepts) assert_ptr_equal(plan->strategy, sg_strategy_at(i));
        /* All equally slow: the serial plan, the first. */
        if (!accepts) assert_int_equal(plan->chosen, 0);
        for (int c = 0; c < plan->candidates; c++)
            assert_true((plan->candidate[c].measured_us > 0) ==
                        (plan->candidate[c].declined[0] == '\0'));
        assert_non_null(strstr(plan->reason, "measured"));
        assert_true(f.runs >= 2 * 3);
        sg_plan_free(plan);
    }
    sg_problem_free(&p);
}

/* All but the serial plan are faster by *CONTEXT. */
static shingle_status nearly_run(void *context, const shingle_plan *plan, double *us_out)
{
    *us_out = plan->strategy == sg_strategy_at(0) ? 1000 : 1000 * (1 - *(const double *)context);
    return SHINGLE_OK;
}

/* Less than half a per cent is no reason to overlap. */
static void serial_stays_where_times_are_equal(void **state)
{
    (void)state;
    sg_machine machine;
    sg_problem p;
    sg_machine_plain(&machine);
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:4096x4096x4096:r4", &p), SHINGLE_OK);
    for (int i = 0; i < 2; i++) {
        double by = i == 0 ? 0.004 : 0.006;
        const sg_stopwatch watch = {nearly_run, &by, NULL};
        const shingle_plan_options options = {.measure = 2, .measure_seconds = 0.01};
        shingle_plan *plan = NULL;
        assert_int_equal(sg_planner_choose(&p, &machine, &options, &watch, NULL, &plan),
                         SHINGLE_OK);
        assert_int_equal(plan->chosen == 0, i == 0);
        sg_plan_free(plan);
    }
    sg_problem_free(&p);
}

static void a_few_are_measured_and_serial_always(void **state)
{
    (void)state;
    sg_machine machine;
    sg_problem p;
    sg_machine_plain(&machine);
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:4096x4096x4096:r4", &p), SHINGLE_OK);
    fake f = {"", 0, -1};
    const sg_stopwatch watch = {fake_run, &f, NULL};
    const shingle_plan_options options = {.measure = 2, .measure_seconds = 0.2};
    shingle_plan *plan = NULL;
    assert_int_equal(sg_planner_choose(&p, &machine, &options, &watch, NULL, &plan), SHINGLE_OK);
    int measured = 0;
    for (int c = 0; c < plan->candidates; c++) measured += plan->candidate[c].measured_us > 0;
    assert_int_equal(measured, 3);
    assert_true(plan->candidate[0].measured_us > 0);
    sg_plan_free(plan);
    plan = NULL;
    for (int at = 0; at < 5; at++) {
        f.runs = 0;
        f.fail_at = at;
        assert_int_equal(sg_planner_choose(&p, &machine, &options, &watch, NULL, &plan),
                         SHINGLE_ETIMEOUT);
        assert_string_equal(shingle_error(), "rank 1 stopped");
        assert_null(plan);
    }
    sg_problem_free(&p);
}

/* ---- Who chooses ----------------------------------------------------------------------------- */

static void options_of_choosing_are_checked(void **state)
{
    (void)state;
    static const struct {
        shingle_plan_options options;
        shingle_status status;
        const char *error;
    } cases[] = {
        {{.choose = "luck"}, SHINGLE_EINVAL, "static, predict or measure is accepted"},
        {{.choose = "static", .strategy = "ring"}, SHINGLE_EINVAL, "leaves nothing to choose"},
        {{.level = "fast"}, SHINGLE_EINVAL, "estimate, measure, patient or exhaustive"},
        {{.choose = "static", .level = "patient"}, SHINGLE_EINVAL, "measures nothing"},
        {{.choose = "predict", .measure = 2}, SHINGLE_EINVAL, "measures nothing"},
        {{.choose = "measure", .measure = -2}, SHINGLE_EINVAL, "0 or more plans"},
        {{.choose = "measure", .measure_seconds = 1e9}, SHINGLE_EINVAL, "0 (default) to 3600"},
        /* No ranks are there to be timed. */
        {{.choose = "measure"}, SHINGLE_EUNSUPPORTED, "needs ranks that run"},
        {{.level = "patient"}, SHINGLE_EUNSUPPORTED, "needs ranks that run"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shingle_plan *plan = NULL;
        assert_int_equal(
            shingle_plan_for("gemm_rs:bf16:64x64x64:r4", NULL, &cases[i].options, &plan),
            cases[i].status);
        if (strstr(shingle_error(), cases[i].error) == NULL)
            fail_msg("error is \"%s\", expected \"%s\"", shingle_error(), cases[i].error);
    }
    /* Levels and choosers that measure nothing need nobody. */
    static const shingle_plan_options quiet[] = {{.choose = "predict"},
                                                 {.strategy = "", .choose = "", .level = ""},
                                                 {.level = "estimate"},
                                                 {.choose = "measure", .level = "estimate"}};
    shingle_plan *const wanted = plan_for("gemm_rs:bf16:4096x4096x4096:r4", NULL);
    for (size_t i = 0; i < sizeof quiet / sizeof quiet[0]; i++) {
        shingle_plan *plan = NULL;
        assert_int_equal(shingle_plan_for("gemm_rs:bf16:4096x4096x4096:r4", NULL, &quiet[i], &plan),
                         SHINGLE_OK);
        assert_string_equal(plan->text, wanted->text);
        sg_plan_free(plan);
    }
    sg_plan_free(wanted);
}

static void levels_say_how_many_are_timed(void **state)
{
    (void)state;
    static const struct {
        const char *level;
        int measure, timed;
    } cases[] = {{NULL, 0, 4}, {"measure", 0, 4}, {"patient", 0, 9}, {"patient", 2, 3}};
    sg_machine machine;
    sg_problem p;
    sg_machine_plain(&machine);
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:4096x4096x4096:r4", &p), SHINGLE_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake f = {"", 0, -1};
        const sg_stopwatch watch = {fake_run, &f, NULL};
        const shingle_plan_options options = {.choose = "measure",
                                              .level = cases[i].level,
                                              .measure = cases[i].measure,
                                              .measure_seconds = 1};
        shingle_plan *plan = NULL;
        assert_int_equal(sg_planner_choose(&p, &machine, &options, &watch, NULL, &plan),
                         SHINGLE_OK);
        int timed = 0;
        for (int c = 0; c < plan->candidates; c++) timed += plan->candidate[c].measured_us > 0;
        assert_int_equal(timed, cases[i].timed);
        assert_true(plan->measured_us > 0);
        sg_plan_free(plan);
    }
    sg_problem_free(&p);
}

/* A run that takes longer than all the time there is. */
static shingle_status slow_run(void *context, const shingle_plan *plan, double *us_out)
{
    const double end = sg_now_us() + 5000;
    (void)plan;
    ++*(int *)context;
    while (sg_now_us() < end) continue;
    *us_out = 5000;
    return SHINGLE_OK;
}

/* Two are timed whatever the limit says: serial and what prediction takes, the first of equals. */
static void the_time_limit_holds(void **state)
{
    (void)state;
    const char problem[] = "ag_gemm:bf16:3072x10240x4096:r2";
    shingle_machine *machine = NULL;
    sg_problem p;
    int runs = 0;
    const sg_stopwatch watch = {slow_run, &runs, NULL};
    const shingle_plan_options options = {.level = "exhaustive", .measure_seconds = 0.001};
    shingle_plan *best = NULL;
    shingle_plan *plan = NULL;
    assert_int_equal(shingle_machine_load("machines/h200x2.machine", &machine), SHINGLE_OK);
    assert_int_equal(shingle_plan_for(problem, machine, NULL, &best), SHINGLE_OK);
    assert_non_null(strstr(best->reason, "counts as equal, and the first stays"));
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    assert_int_equal(sg_planner_choose(&p, &machine->numbers, &options, &watch, NULL, &plan),
                     SHINGLE_OK);
    assert_int_equal(runs, 4);
    for (int c = 0; c < plan->candidates; c++)
        assert_true((plan->candidate[c].measured_us > 0) == (c == 0 || c == best->chosen));
    assert_true(plan->measured_us > 0);
    sg_plan_free(best);
    sg_plan_free(plan);
    sg_problem_free(&p);
    shingle_machine_free(machine);
}

/* The rule simulates no more than its choice and serial, says what it went by, and loses on the
 * average no more than this to the prediction. */
static void the_static_rule_is_near_the_prediction(void **state)
{
    (void)state;
    static const char *const ops[] = {"ag_gemm:bf16:%dx3584x8192:r8",
                                      "gemm_rs:bf16:%dx8192x3584:r8",
                                      "gemm_ar:bf16:%dx8192x3584:r8"};
    shingle_machine *machine = NULL;
    assert_int_equal(shingle_machine_load("machines/h100x8.machine", &machine), SHINGLE_OK);
    const shingle_plan_options by_rule = {.choose = "static"};
    double regret = 0;
    int problems = 0;
    for (int i = 0; i < 3 * ROWS; i++) {
        char problem[80];
        shingle_plan *best = NULL;
        shingle_plan *rule = NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(problem, sizeof problem, ops[i % 3], rows[i / 3]);
#pragma GCC diagnostic pop
        assert_int_equal(shingle_plan_for(problem, machine, NULL, &best), SHINGLE_OK);
        assert_int_equal(shingle_plan_for(problem, machine, &by_rule, &rule), SHINGLE_OK);
        assert_non_null(strstr(rule->reason, "static: "));
        int priced = 0;
        for (int c = 0; c < rule->candidates; c++) priced += rule->candidate[c].predicted_us > 0;
        assert_in_range(priced, 1 + (rule->chosen != 0), 2);
        /* Not faster than all: the planner may have taken a simpler plan within one per cent. */
        double least = best->predicted_us;
        for (int c = 0; c < best->candidates; c++)
            if (best->candidate[c].predicted_us > 0)
                least = fmin(least, best->candidate[c].predicted_us);
        assert_true(rule->predicted_us >= least * 0.999);
        regret += rule->predicted_us / best->predicted_us - 1;
        problems++;
        sg_plan_free(best);
        sg_plan_free(rule);
    }
    if (regret > 0.25 * problems) fail_msg("mean regret is %.0f %%", 100 * regret / problems);
    shingle_machine_free(machine);
}

static void the_static_rule_takes_what_the_backend_can(void **state)
{
    (void)state;
    sg_machine machine;
    sg_problem p;
    shingle_plan *plan = NULL;
    const shingle_plan_options by_rule = {.choose = "static"};
    sg_machine_plain(&machine);
    static const char *const problems[] = {"gemm:bf16:64x64x64:r4", "ag_gemm:bf16:1x1x1:r1",
                                           "gemm_ar:bf16:0x0x0:r3",
                                           "gemm_rs:bf16:4096x4096x4096:r4"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sg_problem_parse(problems[i], &p), SHINGLE_OK);
        assert_int_equal(sg_planner_choose(&p, &machine, &by_rule, NULL, NULL, &plan), SHINGLE_OK);
        if (i < 2) assert_int_equal(plan->chosen, 0); /* nothing to hide */
        sg_plan_free(plan);
        sg_able can = {.accepts = NULL};
        for (int k = 0; k < SG_KINDS; k++) can.kind[k] = k != SG_COLL && k != SG_COPY;
        if (i == 3) {
            assert_int_equal(sg_planner_choose(&p, &machine, &by_rule, NULL, &can, &plan),
                             SHINGLE_OK);
            for (int r = 0; r < p.ranks; r++) {
                sg_sched s = {0};
                assert_int_equal(sg_plan_build(&p, plan->strategy, &plan->knobs, r, &s),
                                 SHINGLE_OK);
                for (int32_t k = 0; k < s.steps; k++) assert_true(can.kind[s.step[k].kind]);
                sg_sched_free(&s);
            }
            sg_plan_free(plan);
        }
        sg_problem_free(&p);
    }
}

int main(int argc, char **argv)
{
    writing = argc > 1 && strcmp(argv[1], "--write") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_as_reviewed),
        cmocka_unit_test(the_fastest_is_chosen_and_explained),
        cmocka_unit_test(choices_repeat),
        cmocka_unit_test(forced_strategies_are_taken),
        cmocka_unit_test(wrong_wishes_are_named),
        cmocka_unit_test(steps_that_the_backend_lacks_are_declined),
        cmocka_unit_test(the_measured_fastest_wins),
        cmocka_unit_test(serial_stays_where_times_are_equal),
        cmocka_unit_test(a_few_are_measured_and_serial_always),
        cmocka_unit_test(options_of_choosing_are_checked),
        cmocka_unit_test(levels_say_how_many_are_timed),
        cmocka_unit_test(the_time_limit_holds),
        cmocka_unit_test(the_static_rule_is_near_the_prediction),
        cmocka_unit_test(the_static_rule_takes_what_the_backend_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
