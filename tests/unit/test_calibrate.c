/* test_calibrate.c -- calibration on machines that are none: what runs take there is what a
 * simulation of another machine says, and the clock is the test's.  What comes of it must predict
 * products that it has not seen, say how each number was found, and keep the time limit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "built.h"
#include "core/calibrate.h"
#include "core/sim.h"

/* ---- A machine that is none ------------------------------------------------------------------ */

typedef struct fake {
    sg_machine truth;
    double clock_us, each_us; /* what a timing takes */
    const char *cannot;       /* words of plans that it does not know */
    double noise;
    uint64_t timings;
    uint64_t cold;         /* so many timings at first take ten times as long */
    int breaks_at, breaks; /* the first timing that fails, and how many do */
    int seen;              /* largest progress */
    const char *held;
    bool windows;
    int told, colls; /* measurements, of collectives alone */
} fake;

static double coll_us(const sg_machine *m, const sg_problem *p, bool windows)
{
    const int kind = p->op == SG_OP_AG_GEMM   ? SG_ALL_GATHER
                     : p->op == SG_OP_GEMM_RS ? SG_REDUCE_SCATTER
                     : p->op == SG_OP_GEMM_AR ? SG_ALL_REDUCE
                                              : SG_ALL_TO_ALL;
    const double cols = (double)(sg_problem_in(p) != SG_IN_NONE ? p->k : p->n);
    const double message = (double)p->m * cols * sg_type_bytes(p->type);
    const double bus = message * (p->ranks - 1) / p->ranks * (kind == SG_ALL_REDUCE ? 2 : 1);
    return sg_machine_coll_us(m, sg_machine_curve(m, kind, windows), message, bus);
}

static shingle_status fake_time(void *context, const shingle_plan *plan, bool colls, double *us_out)
{
    fake *const f = context;
    f->clock_us += f->each_us;
    f->timings++;
    if (f->timings >= (uint64_t)f->breaks_at &&
        f->timings < (uint64_t)f->breaks_at + (uint64_t)f->breaks)
        return sg_fail(SHINGLE_EBACKEND, "the fake broke");
    if (f->cannot != NULL && strstr(plan->text, f->cannot) != NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED, "no %s here", f->cannot);
    const double times = f->timings <= f->cold ? 10 : 1;
    if (colls) {
        *us_out =
            times * coll_us(&f->truth, &plan->problem, strstr(plan->text, "windows=1") != NULL);
        return SHINGLE_OK;
    }
    sg_fit_run run = {
        .problem = &plan->problem, .strategy = plan->strategy, .knobs = plan->knobs, .us = 1};
    SG_TRY(sg_fit_predict(&run, 1, &f->truth));
    const double part = (double)(sg_mix(f->timings) >> 11) * 0x1p-53;
    *us_out = times * run.predicted_us * (1 + f->noise * (2 * part - 1));
    return SHINGLE_OK;
}

static double fake_now(void *context)
{
    return ((const fake *)context)->clock_us;
}

static void fake_progress(void *context, int done, int count)
{
    fake *const f = context;
    assert_true(done < count);
    if (f->seen < done) f->seen = done;
}

static void fake_measured(void *context, const shingle_plan *plan, bool colls, double us)
{
    fake *const f = context;
    assert_non_null(strchr(plan->text, ' '));
    assert_true(us > 0);
    f->told++;
    f->colls += colls;
}

static shingle_status calibrate(fake *f, const sg_machine *start, int ranks, double seconds,
                                sg_machine *machine_out, char *text_out)
{
    const sg_calibrate_watch watch = {.time = fake_time,
                                      .now_us = fake_now,
                                      .progress = fake_progress,
                                      .measured = fake_measured,
                                      .held = f->held,
                                      .windows = f->windows,
                                      .context = f};
    return sg_calibrate(start, ranks, seconds, &watch, machine_out, text_out);
}

/* ---- What it is judged on -------------------------------------------------------------------- */

static const struct {
    const char *op;
    int n, k;
} products[] = {
    {"ag_gemm", 2560, 8192}, {"ag_gemm", 14336, 8192}, {"ag_gemm", 12288, 12288},
    {"gemm_rs", 8192, 2048}, {"gemm_rs", 8192, 7168},  {"gemm_rs", 12288, 12288},
    {"gemm_ar", 8192, 2048}, {"gemm_ar", 8192, 7168},  {"gemm_ar", 12288, 12288},
};
static const int heights[] = {512, 2048, 8192, 16384};

enum { PRODUCTS = 9, HEIGHTS = 4, STRATEGIES = 3, RUNS = PRODUCTS * HEIGHTS * STRATEGIES };

/* Each product's first proposals on TRUTH, timed there and predicted on M: median error. */
static double error_elsewhere(const sg_machine *truth, const sg_machine *m, int ranks)
{
    static const char *const names[STRATEGIES] = {"serial", "fused_in", "fused_out"};
    static sg_problem problem[PRODUCTS * HEIGHTS];
    static sg_fit_run run[RUNS];
    int runs = 0;
    for (int i = 0; i < PRODUCTS * HEIGHTS; i++) {
        char whole[80];
        snprintf(whole, sizeof whole, "%s:bf16:%dx%dx%d:r%d", products[i / HEIGHTS].op,
                 heights[i % HEIGHTS], products[i / HEIGHTS].n, products[i / HEIGHTS].k, ranks);
        assert_int_equal(sg_problem_parse(whole, &problem[i]), SHINGLE_OK);
        for (int n = 0; n < STRATEGIES; n++) {
            proposals all;
            const sg_strategy *const s = sg_strategy_find(names[n]);
            propose_to(&problem[i], s, truth, &all);
            if (all.count > 0)
                run[runs++] =
                    (sg_fit_run){.problem = &problem[i], .strategy = s, .knobs = all.set[0]};
        }
    }
    assert_int_equal(sg_fit_predict(run, runs, truth), SHINGLE_OK);
    for (int i = 0; i < runs; i++) run[i].us = run[i].predicted_us;
    assert_int_equal(sg_fit_predict(run, runs, m), SHINGLE_OK);
    for (int i = 0; i < PRODUCTS * HEIGHTS; i++) sg_problem_free(&problem[i]);
    return sg_fit_error(run, runs);
}

/* As machines/h200x2 has it, and a machine that differs from it in everything that is measured. */
static sg_machine known(void)
{
    sg_machine m;
    assert_int_equal(sg_machine_read("machines/h200x2.machine", &m), SHINGLE_OK);
    return m;
}

static sg_machine other(void)
{
    sg_machine m = known();
    m.gemm_tflops[SG_BF16] = 530;
    m.vendor = 1.04;
    m.visit_us = 2;
    m.copy_gbps = 250;
    m.copy_us = 5;
    m.store_gbps = 210;
    m.store_us = 3;
    m.flag_us = 2.5;
    m.launch_us = 2.5;
    m.join_us = 9;
    m.epilogue_us = 4;
    m.run_us = 6;
    m.tagged_us = 1.5;
    m.tagged_gbps = 140;
    m.hop_us = 4;
    m.tile[1].rate = 0.9;
    for (int kind = 0; kind < SG_MACHINE_COLLS; kind++)
        for (int i = 0; i < m.coll_curve[kind].points; i++)
            m.coll_curve[kind].point[i].value *= 0.6;
    return m;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static char text[SG_CALIBRATE_TEXT];

static void expect_line(const char *line)
{
    char with[160];
    snprintf(with, sizeof with, "\n%s", line);
    if (strstr(text, with) == NULL) fail_msg("no line begins \"%s\" in\n%s", line, text);
}

/* What stands behind the # of the line that begins with NAME, and a blank. */
static const char *how(const char *name)
{
    static char comment[200];
    char with[80];
    snprintf(with, sizeof with, "\n%s ", name);
    const char *const line = strstr(text, with);
    if (line == NULL) fail_msg("no %s", name);
    const char *const mark = strchr(line + 1, '#');
    if (mark == NULL || mark > strchr(line + 1, '\n')) return "";
    snprintf(comment, sizeof comment, "%.*s", (int)strcspn(mark, "\n"), mark);
    return comment;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void unseen_products_are_predicted(void **state)
{
    (void)state;
    const sg_machine start = known();
    fake f = {.truth = other(), .each_us = 1e4, .noise = 0.01};
    sg_machine m;
    if (calibrate(&f, &start, 2, 60, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    const double before = error_elsewhere(&f.truth, &start, 2);
    const double after = error_elsewhere(&f.truth, &m, 2);
    assert_true(before > 0.15);
    if (after > 0.02) fail_msg("median error %g elsewhere", after);
    assert_true(f.seen > 80);
    assert_int_equal(f.told, f.seen + 1);
    assert_true(f.colls > 20 && f.told - f.colls > 80);

    /* The bandwidth of collectives is what was timed; every number says where it is from. */
    const double at = 64 * 1048576.0;
    double last[SG_MACHINE_COLLS];
    for (int kind = 0; kind < SG_MACHINE_COLLS; kind++) {
        const sg_curve *const curve = &m.coll_curve[kind];
        const double bus = kind == SG_ALL_REDUCE ? at : at / 2; /* of two ranks */
        const double right = bus / (sg_machine_coll_us(&f.truth, kind, at, bus) * 1e3);
        assert_true(curve->points > 0 && curve->point[0].at == 524288); /* less is start-up */
        assert_true(fabs(sg_curve_at(curve, at, 0) / right - 1) < 0.01);
        last[kind] = curve->point[curve->points - 1].value;
        /* On both sides of where NCCL goes over to another protocol, by the machine's file. */
        for (double message = 1572864; message < 5e6; message += 524288) {
            const double bytes = kind == SG_ALL_REDUCE ? message : message / 2;
            const double us = sg_machine_coll_us(&m, kind, message, bytes);
            const double true_us = sg_machine_coll_us(&f.truth, kind, message, bytes);
            if (fabs(us / true_us - 1) > 0.03)
                fail_msg("kind %d, %g bytes: %g us, %g", kind, message, us, true_us);
        }
    }
    /* One number for all of them: what the largest messages reach, the median of the kinds. */
    qsort(last, SG_MACHINE_COLLS, sizeof *last, by_size);
    assert_true(fabs(m.coll_gbps / ((last[1] + last[2]) / 2) - 1) < 0.001);
    assert_true(fabs(m.coll_gbps / start.coll_gbps - 1) > 0.01);
    expect_line("name h200x2\n");
    assert_non_null(strstr(how("gemm_tflops_bf16"), "fitted"));
    assert_non_null(strstr(how("tile 128x128"), "fitted"));
    assert_non_null(strstr(how("tagged_us"), "fitted"));
    if (fabs(m.tagged_us - 1.5) > 0.5) fail_msg("tagged_us %g", m.tagged_us);
    assert_non_null(strstr(how("tagged_gbps"), "fitted"));
    if (fabs(m.hop_us - 4) > 0.8) fail_msg("hop_us %g", m.hop_us);
    if (fabs(m.tagged_gbps - 140) > 14) fail_msg("tagged_gbps %g", m.tagged_gbps);
    assert_non_null(strstr(how("coll_us"), "measured"));
    assert_non_null(strstr(how("coll_curve all_reduce"), "measured"));
    assert_non_null(strstr(how("coll_sms"), "described"));
    expect_line("tile 128x256\n");
    for (const char *line = strchr(text, '\n'); line != NULL && line[1] != '\0';
         line = strchr(line + 1, '\n'))
        if (line[1] != '#' && memchr(line + 1, '#', strcspn(line + 1, "\n")) == NULL &&
            strncmp(line + 1, "name ", 5) != 0 && strncmp(line + 1, "tile ", 5) != 0)
            fail_msg("no word on %.40s", line + 1);
}

/* A machine without windows takes as long in them as without. */
static void windows_are_kept_where_they_are_asked_for_and_faster(void **state)
{
    (void)state;
    const double at = 8 * 1048576.0;
    const int gathers = SG_MACHINE_COLLS + SG_ALL_GATHER;
    const int scatters = SG_MACHINE_COLLS + SG_REDUCE_SCATTER;
    const sg_machine start = known();
    fake f = {.truth = start, .each_us = 1e4, .windows = true};
    sg_machine m;
    f.truth.coll_curve[gathers].points = f.truth.coll_curve[scatters].points = 0;
    if (calibrate(&f, &start, 2, 60, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_false(sg_machine_in_windows(&m, SG_ALL_GATHER));
    f.truth.coll_curve[gathers] = (sg_curve){2, {{at, 250}, {4 * at, 260}}};
    f.truth.coll_curve[scatters] = (sg_curve){1, {{at, 20}}};
    f.timings = 0, f.clock_us = 0;
    if (calibrate(&f, &start, 2, 60, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_true(fabs(sg_curve_at(&m.coll_curve[gathers], at, 0) - 250) < 1);
    assert_non_null(strstr(how("coll_curve all_gather_windows"), "measured"));
    assert_false(sg_machine_in_windows(&m, SG_REDUCE_SCATTER));
    f.timings = 0, f.clock_us = 0, f.windows = false;
    if (calibrate(&f, &start, 2, 60, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_false(sg_machine_in_windows(&m, SG_ALL_GATHER));
    assert_null(strstr(text, "_windows"));
}

static void what_cannot_run_is_left_out(void **state)
{
    (void)state;
    const sg_machine start = known();
    fake f = {.truth = start, .each_us = 1e4, .cannot = "signal"};
    sg_machine m;
    if (calibrate(&f, &start, 2, 3, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_non_null(strstr(text, "; 5 more cannot be run there"));
    assert_true(error_elsewhere(&f.truth, &m, 2) < 0.03);
}

static void one_rank_has_products_alone(void **state)
{
    (void)state;
    const sg_machine start = known();
    fake f = {.truth = other(), .each_us = 1e4};
    sg_machine m;
    if (calibrate(&f, &start, 1, 5, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_true(fabs(m.gemm_tflops[SG_BF16] / (530 * 1.04) - 1) < 0.08);
    assert_true(m.copy_gbps == start.copy_gbps && m.coll_us == start.coll_us);
    assert_non_null(strstr(how("copy_gbps"), "described"));
    assert_non_null(strstr(how("coll_us"), "described"));
    assert_non_null(strstr(text, " measurements on 1 rank, in turns, at least "));
    assert_non_null(strstr(text, " times each,\n"));
    const double most = 1.5 * f.each_us / 1e6 / 0.8; /* of which 0.8 is for timing */
    if (calibrate(&f, &start, 1, most * f.told, &m, text) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    assert_non_null(strstr(text, " measurements on 1 rank, in turns, at least once each,\n"));
}

/* Workers that four ranks share, and what is to be found of them. */
static fake pool_of(sg_machine *start)
{
    sg_machine_plain(start);
    start->gemm_tflops[SG_F32] = start->gemm_tflops[SG_BF16] = start->gemm_tflops[SG_F16] = 0.1;
    start->mem_gbps = 20;
    start->copy_gbps = start->store_gbps = start->coll_gbps = 5;
    start->pool = 4;
    start->pack_gbps = 4;
    start->unit_us = 5;
    fake f = {.truth = *start, .each_us = 1e4};
    f.truth.gemm_tflops[SG_BF16] = 0.05;
    f.truth.copy_gbps = 1;
    f.truth.store_gbps = 0.8;
    f.truth.pack_gbps = 2;
    f.truth.copy_us = 40;
    return f;
}

static void a_pool_has_numbers_of_its_own(void **state)
{
    (void)state;
    sg_machine start;
    fake f = pool_of(&start);
    sg_machine m;
    if (calibrate(&f, &start, 4, 5, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_int_equal(m.pool, 4);
    assert_true(fabs(m.gemm_tflops[SG_BF16] / 0.05 - 1) < 0.1);
    if (fabs(m.copy_gbps / 1 - 1) > 0.1) fail_msg("%s", strstr(text, "mem_gbps"));
    assert_non_null(strstr(how("pack_gbps"), "fitted"));
    assert_non_null(strstr(how("copy_us"), "fitted"));
    assert_true(m.copy_us != start.copy_us && m.unit_us != start.unit_us);
}

/* The first round warms up.  Where nothing else is known, the fastest collective of all is what one
 * takes at least. */
static void first_runs_do_not_count(void **state)
{
    (void)state;
    sg_machine start;
    fake f = pool_of(&start);
    sg_machine m;
    f.cold = 34;
    if (calibrate(&f, &start, 4, 0.9, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_int_equal(f.told, f.cold); /* one round was cold, one was not */
    assert_non_null(strstr(text, "at least 2 times each"));
    const double least = sg_machine_coll_us(&f.truth, SG_ALL_GATHER, 16384, 16384 * 3 / 4.0);
    assert_true(fabs(m.coll_us / least - 1) < 0.001);
    const double most = sg_machine_coll_us(&f.truth, SG_ALL_GATHER, 1048576, 1048576 * 3 / 4.0);
    const double gbps = 1048576 * 3 / 4.0 / (most * 1e3);
    assert_true(fabs(m.coll_curve[SG_ALL_GATHER].point[2].value / gbps - 1) < 0.001);
}

/* Begun with a machine on which a large message takes less than a small one, as where a library
 * changes its way between them: measurements are in the order of what they were to take. */
static void curves_are_in_the_order_of_messages(void **state)
{
    (void)state;
    static const double at[] = {16384, 131072, 1048576};
    sg_machine start;
    fake f = pool_of(&start);
    sg_machine m;
    start.coll_curve[SG_ALL_GATHER] = (sg_curve){2, {{131072, 0.05}, {1048576, 5}}};
    if (calibrate(&f, &start, 4, 0.5, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    const sg_curve *const curve = &m.coll_curve[SG_ALL_GATHER];
    assert_int_equal(curve->points, 3);
    for (int i = 0; i < 3; i++) assert_true(curve->point[i].at == at[i]);
}

/* Whoever knows a number better says so, and the others are fitted to it. */
static void held_numbers_stay(void **state)
{
    (void)state;
    sg_machine start;
    fake f = pool_of(&start);
    sg_machine m;
    f.held = "copy_us,unit_us";
    if (calibrate(&f, &start, 4, 5, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_true(m.copy_us == start.copy_us && m.unit_us == start.unit_us);
    assert_true(m.copy_gbps != start.copy_gbps);
    assert_non_null(strstr(how("copy_us"), "described"));
    assert_non_null(strstr(how("copy_gbps"), "fitted"));
}

static void limits_and_failures_are_named(void **state)
{
    (void)state;
    const sg_machine start = known();
    fake slow = {.truth = start, .each_us = 1e6};
    fake broken = {.truth = start, .each_us = 1e4, .breaks_at = 7, .breaks = 4};
    sg_machine m = start;
    memset(text, 0, sizeof text);
    assert_int_equal(calibrate(&slow, &start, 2, 20, &m, text), SHINGLE_ETIMEOUT);
    assert_non_null(strstr(shingle_error(), "20 s are over after 17 of "));
    assert_true(slow.clock_us < 20e6);
    assert_int_equal(calibrate(&broken, &start, 2, 20, &m, text), SHINGLE_EBACKEND);
    assert_string_equal(shingle_error(), "the fake broke");
    assert_memory_equal(&m, &start, sizeof m);
    assert_string_equal(text, "");
}

static void what_fails_is_left_out_and_named(void **state)
{
    (void)state;
    sg_machine start = known();
    start.tagged_us = start.tagged_gbps = start.hop_us = 0;
    fake f = {.truth = start, .each_us = 1e4, .cannot = "tagged=1", .breaks_at = 1, .breaks = 3};
    sg_machine m;
    if (calibrate(&f, &start, 2, 3, &m, text) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_non_null(strstr(text, "; 8 more cannot be run there"));
    assert_true(m.tagged_us == 0); /* nobody is to propose what nobody has timed */
    assert_null(strstr(text, "\ntagged_us"));
    assert_null(strstr(text, "\ntagged_gbps"));
    assert_null(strstr(text, "\nhop_us"));
    assert_non_null(strstr(text, "\n# Failed, and left out: "));
    assert_non_null(strstr(text, "\n# (the fake broke)\n"));
    assert_true(error_elsewhere(&f.truth, &m, 2) < 0.03);
}

/* The CPU backend itself, timed by the real clock. */
static void a_real_group_is_calibrated(void **state)
{
    (void)state;
    shingle_comm *comm[2];
    shingle_machine *machine = NULL;
    shingle_calibrate_options options = {.seconds = 0.6};
    if (shingle_open(2, NULL, comm) != SHINGLE_OK) fail_msg("%s", shingle_error());
    shingle_status status = shingle_calibrate(2, comm, &options, &machine);
    options.seconds = 60; /* on a slow or busy machine */
    if (status == SHINGLE_ETIMEOUT) status = shingle_calibrate(2, comm, &options, &machine);
    if (status != SHINGLE_OK) fail_msg("%s", shingle_error());
    sg_machine m;
    assert_int_equal(sg_machine_parse(shingle_machine_text(machine), "text", &m), SHINGLE_OK);
    assert_int_equal(m.ranks, 2);
    assert_true(m.pool > 0 && m.gemm_tflops[SG_BF16] > 1e-5 && m.gemm_tflops[SG_BF16] < 100);
    assert_true(m.coll_curve[SG_ALL_TO_ALL].points == 3);

    /* It plans for what it has measured. */
    shingle_plan *plan = NULL;
    assert_int_equal(shingle_plan_for("gemm_rs:bf16:512x1024x768:r2", machine, NULL, &plan),
                     SHINGLE_OK);
    shingle_plan_free(plan);
    shingle_machine_free(machine);
    options.seconds = 0.0001;
    machine = NULL;
    assert_int_equal(shingle_calibrate(2, comm, &options, &machine), SHINGLE_ETIMEOUT);
    options.seconds = -1;
    assert_int_equal(shingle_calibrate(2, comm, &options, &machine), SHINGLE_EINVAL);
    assert_int_equal(shingle_calibrate(1, comm, NULL, &machine), SHINGLE_EINVAL);
    assert_int_equal(shingle_calibrate(2, comm, NULL, NULL), SHINGLE_EINVAL);
    assert_null(machine);
    shingle_close(2, comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unseen_products_are_predicted),
        cmocka_unit_test(windows_are_kept_where_they_are_asked_for_and_faster),
        cmocka_unit_test(what_cannot_run_is_left_out),
        cmocka_unit_test(one_rank_has_products_alone),
        cmocka_unit_test(a_pool_has_numbers_of_its_own),
        cmocka_unit_test(first_runs_do_not_count),
        cmocka_unit_test(curves_are_in_the_order_of_messages),
        cmocka_unit_test(held_numbers_stay),
        cmocka_unit_test(limits_and_failures_are_named),
        cmocka_unit_test(what_fails_is_left_out_and_named),
        cmocka_unit_test(a_real_group_is_calibrated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
