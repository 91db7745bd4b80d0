/* Tests of sim.h: what holds on every machine (a plan is never faster than its bound, better
 * machines are never slower, serial is the sum of its parts), what can be counted by hand, and that
 * a wait for ever ends. */
#include <stdlib.h>

#include "built.h"
#include "core/sim.h"
#include "quiet.h"

static double price(const built *b, const sg_machine *machine)
{
    double us = -1;
    if (sg_sim_us(b->sched, b->problem.ranks, machine, &us) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    return us;
}

/* All knob sets that all strategies propose for TEXT. */
typedef void (*each_fn)(const char *text, const sg_strategy *strategy, const sg_knobs *knobs,
                        const sg_machine *machine);

static void for_each_set(const char *text, const sg_machine *machine, each_fn each)
{
    for (int i = 0; sg_strategy_at(i) != NULL; i++) {
        proposals all;
        propose(text, sg_strategy_at(i), machine, &all);
        for (int s = 0; s < all.count; s++) each(text, sg_strategy_at(i), &all.set[s], machine);
    }
}

static const char *const texts[] = {
    "gemm:bf16:1024x1024x1024:r1",          "ag_gemm:bf16:4096x2048x2048:r4",
    "ag_gemm:bf16:512x4096x4096:r8",        "ag_gemm:f32:1000x500x700:r3:cyclic=100",
    "gemm_rs:bf16:4096x4096x1024:r4",       "gemm_rs:f16:300x900x8192:r5:rows=100,0,50,150,0",
    "gemm_rs:bf16:2048x2048x2048:r8:bias",  "gemm_ar:bf16:4096x4096x4096:r4",
    "gemm_ar:f32:128x128x128:r2:bias:gelu",
};

enum { TEXTS = sizeof texts / sizeof texts[0] };

/* ---- The bound ------------------------------------------------------------------------------- */

/* No plan is faster than the product's flops, nor than what has to leave or reach a rank at the
 * fastest of the machine's ways. */
static void is_above_bound(const char *text, const sg_strategy *strategy, const sg_knobs *knobs,
                           const sg_machine *machine)
{
    built b;
    build_with(text, strategy, knobs, &b);
    const sg_problem *const p = &b.problem;
    const double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    const double math = flops / (machine->gemm_tflops[p->type] * 1e6);
    const double width =
        (double)((sg_problem_in(p) == SG_IN_GATHER ? p->k : p->n) * sg_type_bytes(p->type));
    double moved = 0;
    for (int r = 0; r < p->ranks && p->op != SG_OP_GEMM; r++)
        moved = fmax(moved, (double)(p->m - p->share[r].rows) * width);
    double gbps = fmax(machine->copy_gbps, machine->store_gbps);
    if (sg_problem_out(p) == SG_OUT_ALL) moved = 0;
    gbps = fmax(gbps, machine->coll_gbps);
    const double us = price(&b, machine);
    if (us < math * 0.999 || us < moved / (gbps * 1e3) * 0.999)
        fail_msg("%s %s: %g us; product %g, moved %g", text, strategy->name, us, math,
                 moved / (gbps * 1e3));
    assert_true(us < 1e7);
    discard(&b);
}

static void no_plan_beats_its_bound(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    for (int i = 0; i < TEXTS; i++) for_each_set(texts[i], &machine, is_above_bound);
    machine.sms = 3;
    machine.coll_sms = 1;
    for (int i = 0; i < TEXTS; i++) for_each_set(texts[i], &machine, is_above_bound);
}

/* ---- Better machines ------------------------------------------------------------------------- */

static void improve(sg_machine *m, int what)
{
    switch (what) {
    case 0: m->copy_gbps *= 3; break;
    case 1: m->store_gbps *= 3; break;
    case 2: m->coll_gbps *= 3; break;
    case 3: m->mem_gbps *= 3; break;
    case 4: m->copy_us = 0; break;
    case 5: m->coll_us = 0; break;
    case 6: m->flag_us = 0; break;
    case 7: m->launch_us = 0; break;
    case 8: m->join_us = m->epilogue_us = m->store_us = 0; break;
    default:
        for (int t = 0; t < SG_TYPES; t++) m->gemm_tflops[t] *= 2;
        break;
    }
}

/* Waves are whole, and whoever is free first takes the next tile: more speed in one place can shift
 * work to where it ends later (Graham's anomalies).  A twentieth is allowed for that. */
static void is_no_slower_on_better(const char *text, const sg_strategy *strategy,
                                   const sg_knobs *knobs, const sg_machine *machine)
{
    built b;
    build_with(text, strategy, knobs, &b);
    const double us = price(&b, machine);
    for (int what = 0; what < 10; what++) {
        sg_machine better = *machine;
        improve(&better, what);
        const double faster = price(&b, &better);
        if (faster > us * 1.05 + 0.5)
            fail_msg("%s %s: %g us, better machine %d %g us", text, strategy->name, us, what,
                     faster);
    }
    discard(&b);
}

static void better_machines_are_never_slower(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    for (int i = 0; i < TEXTS; i++) for_each_set(texts[i], &machine, is_no_slower_on_better);
}

static void the_same_plan_has_the_same_price(const char *text, const sg_strategy *strategy,
                                             const sg_knobs *knobs, const sg_machine *machine)
{
    built b;
    build_with(text, strategy, knobs, &b);
    const double us = price(&b, machine);
    for (int i = 0; i < 3; i++) assert_true(price(&b, machine) == us);
    discard(&b);
}

static void prices_repeat(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    for (int i = 0; i < TEXTS; i++)
        for_each_set(texts[i], &machine, the_same_plan_has_the_same_price);
}

/* ---- By hand --------------------------------------------------------------------------------- */

static sg_machine four_sms(void)
{
    return quiet_machine(4, 64, 10, 10);
}

/* One launch of a product on one rank: tiles of 64 x 64 on four SMs. */
static double product_us(const sg_machine *machine, const char *text, bool vendor, int blocks)
{
    sg_problem p;
    sg_sched s = {0};
    double us = 0;
    assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
    sg_sched_begin(&s, &p, 0);
    sg_sched_launch(&s, 0, 64, 64, blocks, vendor);
    const sg_patch patch = {.rows = (int32_t)p.m,
                            .cols = (int32_t)p.n,
                            .k1 = (int32_t)p.k,
                            .final = 1,
                            .a = sg_area_of(0, SG_A, 0, p.m, 0, p.k),
                            .b = sg_area_of(0, SG_B, 0, p.n, 0, p.k)};
    sg_sched_patch(&s, &patch);
    sg_sched_to(&s, sg_area_of(0, SG_C, 0, p.m, 0, p.n));
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    assert_int_equal(sg_sim_us(&s, 1, machine, &us), SHINGLE_OK);
    sg_sched_free(&s);
    sg_problem_free(&p);
    return us;
}

static void products_take_waves(void **state)
{
    (void)state;
    sg_machine m = four_sms();
    expect_us(product_us(&m, "gemm:f32:64x64x10:r1", false, 0), 10);
    expect_us(product_us(&m, "gemm:f32:256x64x10:r1", false, 0), 10);
    expect_us(product_us(&m, "gemm:f32:320x64x10:r1", false, 0), 20); /* 5 tiles on 4 SMs */
    expect_us(product_us(&m, "gemm:f32:320x64x10:r1", false, 2), 30);
    expect_us(product_us(&m, "gemm:f32:65x64x10:r1", false, 0), 10); /* an edge is a whole tile */
    expect_us(product_us(&m, "gemm:f32:6400x640x10:r1", false, 0), 2500);
    expect_us(product_us(&m, "gemm:f32:384x64x10:r1", true, 0), 15); /* the vendor has no waves */
    expect_us(product_us(&m, "gemm:f32:320x64x10:r1", true, 0), 12.5 + 0.3 * 2.5); /* but tiles */
    expect_us(product_us(&m, "gemm:f32:96x64x10:r1", true, 0), 3.75); /* of few rows, any */
    expect_us(product_us(&m, "gemm:f32:0x64x10:r1", false, 0), 0);
    m.launch_us = 3;
    m.epilogue_us = 2;
    expect_us(product_us(&m, "gemm:f32:320x64x10:r1", false, 0), 25);
    m.tile[0].rate = 0.5;
    expect_us(product_us(&m, "gemm:f32:320x64x10:r1", false, 0), 45);
    m = four_sms();
    m.mem_gbps = 1e-3 * 4 * (64 * 10 * 2 + 64 * 64) / 1e3; /* one tile's bytes: 1 ms */
    expect_us(product_us(&m, "gemm:f32:64x64x10:r1", false, 0), 1e6 / 1e3);
}

/* Serial is its product and its collective, one after the other. */
static void serial_is_the_sum(void **state)
{
    (void)state;
    sg_machine m;
    sg_machine_plain(&m);
    static const char *const ops[] = {"gemm", "ag_gemm", "gemm_rs", "gemm_ar"};
    for (int op = 1; op < 4; op++) {
        char text[80];
        sg_text t = {text, sizeof text, 0};
        sg_text_add(&t, "%s:bf16:4096x4096x4096:r4", ops[op]);
        built b;
        proposals all;
        propose(text, sg_strategy_at(0), &m, &all);
        assert_int_equal(all.count, 1);
        build_with(text, sg_strategy_at(0), &all.set[0], &b);
        const double gemm = 2.0 * 4096 * 4096 * 4096 / (m.gemm_tflops[SG_BF16] * 1e6);
        const double bytes = 4096.0 * 4096 * 2 * 3 / 4 * (op == 3 ? 2 : 1);
        expect_us(price(&b, &m),
                  gemm + m.launch_us + m.epilogue_us + m.coll_us + bytes / (m.coll_gbps * 1e3));
        discard(&b);
    }
}

/* Where the product is long, direct copies are hidden under it; where it is short, it under
 * them. */
static void overlap_comes_near_the_bound(void **state)
{
    (void)state;
    sg_machine m;
    sg_machine_plain(&m);
    m.sms = 128;
    static const struct {
        const char *text;
        double bound;
    } cases[] = {
        {"ag_gemm:bf16:16384x16384x8192:r4", 2.0 * 16384 * 16384 * 8192 / 500e6},
        {"ag_gemm:bf16:16384x128x8192:r4", 16384.0 * 8192 * 2 * 3 / 4 / 200e3},
        {"gemm_rs:bf16:16384x8192x16384:r4", 2.0 * 16384 * 8192 * 16384 / 500e6},
    };
    for (int i = 0; i < 3; i++) {
        shingle_plan *plan = NULL;
        const shingle_machine handle = {.numbers = m};
        assert_int_equal(shingle_plan_for(cases[i].text, &handle, NULL, &plan), SHINGLE_OK);
        const double us = plan->predicted_us;
        if (us < cases[i].bound * 0.999 || us > cases[i].bound * 1.1)
            fail_msg("%s: %g us, bound %g", plan->text, us, cases[i].bound);
        sg_plan_free(plan);
    }
}

/* ---- Links ----------------------------------------------------------------------------------- */

/* All ranks copy ROWS rows each to rank 0 (or each to the next, if AROUND). */
static double copies_us(const sg_machine *m, int ranks, bool around)
{
    static sg_sched s[BUILT_RANKS];
    sg_problem p;
    double us = 0;
    assert_int_equal(sg_problem_parse("gemm:f32:64x64x64:r4", &p), SHINGLE_OK);
    for (int r = 0; r < ranks; r++) {
        sg_sched_begin(&s[r], &p, r);
        const int inbox = sg_sched_buf(&s[r], SG_SYM, "inbox", 64 * ranks, 64, SG_FIXED);
        const int to = around ? (r + 1) % ranks : 0;
        if (to != r) {
            sg_sched_copy(&s[r], 0, SG_BY_ENGINE, sg_area_of(r, SG_A, 0, 64, 0, 64));
            sg_sched_to(&s[r], sg_area_of(to, inbox, 64 * r, 64, 0, 64));
        }
        assert_int_equal(sg_sched_seal(&s[r]), SHINGLE_OK);
    }
    assert_int_equal(sg_sim_us(s, ranks, m, &us), SHINGLE_OK);
    for (int r = 0; r < ranks; r++) sg_sched_free(&s[r]);
    sg_problem_free(&p);
    return us;
}

static void receivers_share_their_link(void **state)
{
    (void)state;
    sg_machine m = four_sms();
    m.copy_gbps = m.link_gbps = 64 * 64 * 4 / 1e4; /* a copy: 10 us */
    expect_us(copies_us(&m, 4, true), 10);
    expect_us(copies_us(&m, 4, false), 30);
    m.copy_us = 5;
    expect_us(copies_us(&m, 4, true), 15);
}

/* ---- Deadlock and spans ---------------------------------------------------------------------- */

static void waiting_for_ever_is_an_error(void **state)
{
    (void)state;
    sg_machine m = four_sms();
    sg_sched s[2] = {{0}};
    sg_problem p;
    double us = -7;
    assert_int_equal(sg_problem_parse("gemm:f32:4x4x4:r2", &p), SHINGLE_OK);
    for (int r = 0; r < 2; r++) {
        sg_sched_begin(&s[r], &p, r);
        sg_sched_flag(&s[r], 0);
        sg_sched_wait(&s[r], sg_wait_one(1 - r, 0)); /* each waits before it raises */
        sg_sched_flag(&s[r], 0);
        sg_sched_raise(&s[r], 1 - r, SG_PER_PATCH, 0);
        assert_int_equal(sg_sched_seal(&s[r]), SHINGLE_OK);
    }
    assert_int_equal(sg_sim_us(s, 2, &m, &us), SHINGLE_EBUG);
    assert_non_null(strstr(shingle_error(), "waits for ever at step 0"));
    assert_true(us == -7);
    for (int r = 0; r < 2; r++) sg_sched_free(&s[r]);
    sg_problem_free(&p);
}

typedef struct spans {
    const built *b;
    int64_t visits[BUILT_RANKS];
    double end;
} spans;

static void see_span(void *context, const sg_span *span)
{
    spans *const seen = context;
    assert_true(span->begin_us >= 0 && span->end_us >= span->begin_us);
    assert_in_range(span->step, 0, seen->b->sched[span->rank].steps - 1);
    if (span->kind == SG_SPAN_WORK && span->patch >= 0) seen->visits[span->rank] += span->tiles;
    seen->end = fmax(seen->end, span->end_us);
}

/* Every visit is told of once, and nothing ends after the run. */
static void spans_cover_all_visits(const char *text, const sg_strategy *strategy,
                                   const sg_knobs *knobs, const sg_machine *machine)
{
    built b;
    build_with(text, strategy, knobs, &b);
    spans seen = {.b = &b};
    double us = 0;
    assert_int_equal(sg_sim_spans(b.sched, b.problem.ranks, machine, see_span, &seen, &us),
                     SHINGLE_OK);
    assert_true(seen.end <= us + 1e-9);
    for (int r = 0; r < b.problem.ranks; r++) {
        int64_t visits = 0;
        for (int32_t i = 0; i < b.sched[r].steps; i++) {
            const sg_step *const step = &b.sched[r].step[i];
            if (step->kind == SG_LAUNCH && !step->u.launch.vendor) visits += step->u.launch.visits;
        }
        assert_int_equal(seen.visits[r], visits);
    }
    discard(&b);
}

static void every_visit_is_told_once(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    for (int i = 0; i < TEXTS; i++) for_each_set(texts[i], &machine, spans_cover_all_visits);
    machine.sms = 1;
    for (int i = 0; i < TEXTS; i++) for_each_set(texts[i], &machine, spans_cover_all_visits);
}

typedef struct moved {
    double bytes[BUILT_RANKS];
} moved;

static void see_collective(void *context, const sg_span *span)
{
    moved *const seen = context;
    if (span->kind == SG_SPAN_COLL) seen->bytes[span->rank] += span->bytes;
}

/* Of an all-to-all each rank is told what it moves itself, however many patches others have: of
 * rows of 256 bytes rank 0 sends 400 and gets 20, rank 1 gets 220, rank 2 sends 40 and gets 200. */
static void each_rank_is_told_what_it_moves(void **state)
{
    (void)state;
    static const char text[] = "gemm_a2a:f32:600x64x16:r3:counts=200,200,200/0,0,0/20,20,20";
    static const char *const strategies[] = {"serial", "sliced", "signal"};
    sg_machine machine;
    sg_machine_plain(&machine);
    for (int i = 0; i < 3; i++) {
        proposals all;
        built b;
        moved seen = {{0}};
        double us = 0;
        propose(text, sg_strategy_find(strategies[i]), &machine, &all);
        assert_true(all.count > 0);
        build_with(text, sg_strategy_find(strategies[i]), &all.set[0], &b);
        assert_int_equal(sg_sim_spans(b.sched, 3, &machine, see_collective, &seen, &us),
                         SHINGLE_OK);
        static const double least[] = {400, 220, 200}; /* in pieces: whole tiles */
        for (int r = 0; r < 3; r++) {
            assert_true(seen.bytes[r] >= 256 * least[r]);
            assert_true(seen.bytes[r] <= 256 * (i == 0 ? 1 : 2) * least[r]);
        }
        discard(&b);
    }
}

/* What is told of a plan follows from four times. */
static void shares_follow_from_times(void **state)
{
    static const char *const problem[] = {"gemm_ar:bf16:2048x2048x1024:r4:bias:gelu",
                                          "ag_gemm:bf16:8192x4096x512:r4", "gemm:f32:64x64x64:r1"};
    (void)state;
    bool differ = false; /* what a serial run takes, and the sum of both alone */
    for (int i = 0; i < 3; i++) {
        shingle_plan *plan = NULL;
        shingle_simulation s;
        assert_int_equal(shingle_plan_for(problem[i], NULL, NULL, &plan), SHINGLE_OK);
        assert_int_equal(shingle_plan_simulate(plan, NULL, &s), SHINGLE_OK);
        shingle_plan_free(plan);
        assert_true(s.gemm_us > 0 && s.overlapped_us > 0 && s.serial_us >= s.overlapped_us);
        const double less = fmin(s.gemm_us, s.coll_us);
        const double hidden = less > 0 ? (s.gemm_us + s.coll_us - s.overlapped_us) / less : 1;
        differ |= fabs(s.serial_us - s.gemm_us - s.coll_us) > 0.01 * less;
        expect_about_us(s.hidden, hidden, 1e-12);
        expect_about_us(s.efficiency, fmax(s.gemm_us, s.coll_us) / s.overlapped_us, 1e-12);
        expect_about_us(s.speedup, s.serial_us / s.overlapped_us, 1e-12);
    }
    assert_true(differ);
}

/* Nothing moves: no time is told of what does not take place, however small. */
static void products_alone_have_no_communication(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm:bf16:123x7777x4097:r1",
                                           "gemm:bf16:123x7777x4097:r4",
                                           "gemm_rs:bf16:123x7777x4097:r1"};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        shingle_plan *plan = NULL;
        shingle_simulation s;
        assert_int_equal(shingle_plan_for(problems[i], NULL, NULL, &plan), SHINGLE_OK);
        assert_int_equal(shingle_plan_simulate(plan, NULL, &s), SHINGLE_OK);
        assert_true(s.gemm_us > 0 && s.coll_us == 0 && s.comm_us == 0);
        assert_true(s.hidden == 1);
        shingle_plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_follow_from_times),
        cmocka_unit_test(no_plan_beats_its_bound),
        cmocka_unit_test(better_machines_are_never_slower),
        cmocka_unit_test(prices_repeat),
        cmocka_unit_test(products_take_waves),
        cmocka_unit_test(serial_is_the_sum),
        cmocka_unit_test(overlap_comes_near_the_bound),
        cmocka_unit_test(receivers_share_their_link),
        cmocka_unit_test(waiting_for_ever_is_an_error),
        cmocka_unit_test(every_visit_is_told_once),
        cmocka_unit_test(each_rank_is_told_what_it_moves),
        cmocka_unit_test(products_alone_have_no_communication),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
