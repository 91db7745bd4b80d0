/* Tests of serial where rows are dealt in turns: it puts them in order by copies that go together,
 * proved and run for blocks of every size; and it does so where that is faster. */
#include <stdio.h>

#include "built.h"
#include "core/baseline.h"
#include "core/check.h"
#include "core/moves.h"
#include "core/sim.h"
#include "shingle.h"

#define SERIAL "serial{tile_m=64,tile_n=64,windows=%d,permute=%d}"

/* What follows cyclic=; R stands for the ranks. */
static const char *const dealt[] = {
    "ag_gemm:f32:23x5x7:rR:cyclic=C",
    "ag_gemm:bf16:1x5x7:rR:cyclic=C",
    "ag_gemm:bf16:7x16x24:rR:cyclic=C:bias:gelu",
    "ag_gemm:f16:100x9x16:rR:cyclic=C:accumulate",
    "ag_gemm:bf16:97x12x16:rR:cyclic=C:b=5,3,4:return_a:bias",
    "ag_gemm:f32:50x12x9:rR:cyclic=C:return_a",
    "ag_gemm:f16:1000x4x3:rR:cyclic=C:b=2,2:accumulate",
    "ag_gemm:f16:4097x2x3:rR:cyclic=C:relu",
    "ag_gemm:bf16:6x50x16:rR:gather=b:cyclic=C:bias:silu",
    "ag_gemm:f32:5x33x7:rR:gather=b:cyclic=C:accumulate",
    "ag_gemm:f32:7x13x25:rR:gather=k:cyclic=C",
    "gemm_rs:f32:23x5x7:rR:cyclic=C",
    "gemm_rs:bf16:1x8x16:rR:cyclic=C:bias",
    "gemm_rs:f16:7x9x16:rR:cyclic=C:bias:gelu",
    "gemm_rs:bf16:100x16x24:rR:cyclic=C",
    "gemm_rs:bf16:61x33x8:rR:cyclic=C:bias:norm",
    "gemm_rs:f16:1000x4x3:rR:cyclic=C:norm",
    "gemm_rs:f32:4097x2x3:rR:cyclic=C",
    "gemm_ar:bf16:50x16x8:rR:cyclic=C",
};
enum { DEALT = sizeof dealt / sizeof dealt[0], MOST = 7 };

static const int rank_counts[] = {1, 2, 3, 5, 7};
static const int blocks[] = {1, 2, 3, 16};

static void write_problem(char *text, size_t room, const char *of, int ranks, int block)
{
    size_t at = 0;
    for (; *of != '\0' && at + 4 < room; of++) {
        if (*of == 'R')
            at += (size_t)snprintf(text + at, room - at, "%d", ranks);
        else if (*of == 'C')
            at += (size_t)snprintf(text + at, room - at, "%d", block);
        else
            text[at++] = *of;
    }
    text[at] = '\0';
}

typedef void (*each_fn)(const char *problem, const char *plan, void *context);

static void for_each(const int *ranks, int counts, each_fn fn, void *context)
{
    char problem[96];
    char plan[64];
    for (int i = 0; i < DEALT; i++)
        for (int r = 0; r < counts; r++)
            for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++)
                for (int windows = 0; windows < 2; windows++) {
                    write_problem(problem, sizeof problem, dealt[i], ranks[r], blocks[b]);
                    snprintf(plan, sizeof plan, SERIAL, windows, 1);
                    fn(problem, plan, context);
                }
}

/* ---- Schedules ------------------------------------------------------------------------------- */

/* Are all products the vendor's, and do all runs of rows go together? */
static void see_shape(const built *b, const char *problem)
{
    for (int r = 0; r < b->problem.ranks; r++) {
        const sg_sched *const s = &b->sched[r];
        int64_t moved = 0;
        int many = 0;
        for (int32_t i = 0; i < s->steps; i++) {
            const sg_step *const step = &s->step[i];
            if (step->kind == SG_LAUNCH && !step->u.launch.vendor && !step->u.launch.norm)
                fail_msg("%s: a launch of tiles", problem);
            if (step->kind != SG_COPY) continue;
            const int32_t count = sg_sched_copies(s, i);
            for (int32_t j = i; j < i + count && count > 1; j++)
                moved += s->to[s->step[j].to0].rows;
            many += count > 1;
        }
        /* Rows of two ranks or more, in turns. */
        const bool of_b = b->problem.gather == SG_GATHER_B;
        const bool moves = sg_problem_in(&b->problem) == SG_IN_GATHER ||
                           sg_problem_out(&b->problem) == SG_OUT_SCATTER;
        const bool of_k = b->problem.gather == SG_GATHER_K;
        const int wanted = !of_k && moves && !sg_is_packed(&b->problem);
        if (many > 1 || many < wanted ||
            (many == 1 && !of_k && moved != (of_b ? b->problem.n : b->problem.m)))
            fail_msg("%s: %d launches of copies, %lld rows", problem, many, (long long)moved);
    }
}

static void prove(const char *problem, const char *plan, void *context)
{
    sg_check_result result;
    built b;
    build(problem, plan, &b);
    if (sg_check(context, b.sched, b.problem.ranks, 0, &result) != SHINGLE_OK)
        fail_msg("%s %s: %s", problem, plan, result.why);
    see_shape(&b, problem);
    discard(&b);
}

static void all_are_proved(void **state)
{
    (void)state;
    sg_checker *const checker = sg_checker_new();
    assert_non_null(checker);
    for_each(rank_counts, sizeof rank_counts / sizeof rank_counts[0], prove, checker);
    sg_checker_free(checker);
}

static int steps_of(const sg_sched *s, sg_kind kind)
{
    int count = 0;
    for (int32_t i = 0; i < s->steps; i++) count += s->step[i].kind == kind;
    return count;
}

/* A gather's rows, which two ranks hold in turns, and a scatter's. */
static void a_copy_a_run_puts_them_in_order(void **state)
{
    (void)state;
    built b;
    build("ag_gemm:f32:10x5x7:r2:cyclic=3", "serial{tile_m=2,tile_n=2,windows=0,permute=1}", &b);
    static const int32_t from[] = {0, 3, 6, 9};
    static const int32_t to[] = {0, 6, 3, 9};
    static const int32_t rows[] = {3, 3, 3, 1};
    const sg_sched *s = &b.sched[1];
    assert_int_equal(s->steps, 6);
    for (int i = 0; i < 4; i++) {
        const sg_area *const src = &s->step[1 + i].u.copy.src;
        const sg_area *const dst = &s->to[s->step[1 + i].to0];
        assert_true(src->row0 == from[i] && dst->row0 == to[i] && src->rows == rows[i]);
        assert_true(s->buf[src->buf].arena == SG_LIBRARY && s->buf[dst->buf].arena == SG_LOCAL);
        assert_int_equal(sg_sched_copies(s, 1 + i), i == 0 ? 4 : 0);
    }
    discard(&b);
    build("gemm_rs:f32:10x5x7:r2:cyclic=3", "serial{tile_m=2,tile_n=2,windows=0,permute=1}", &b);
    s = &b.sched[0];
    assert_int_equal(s->steps, 6);
    assert_int_equal(s->step[0].kind, SG_LAUNCH);
    for (int i = 0; i < 4; i++) {
        const sg_area *const src = &s->step[1 + i].u.copy.src;
        assert_true(src->row0 == to[i] && s->to[s->step[1 + i].to0].row0 == from[i]);
    }
    assert_int_equal(s->step[5].kind, SG_COLL);
    discard(&b);
}

/* What is returned is put in order where it belongs; and no other buffer is. */
static void what_is_returned_is_put_in_order_in_its_place(void **state)
{
    (void)state;
    built b;
    build("ag_gemm:f32:64x16x19:r2:cyclic=4:b=9,7:return_a",
          "serial{tile_m=8,tile_n=4,windows=0,permute=1}", &b);
    const sg_sched *const s = &b.sched[0];
    assert_int_equal(steps_of(s, SG_COPY), 16);
    assert_int_equal(steps_of(s, SG_LAUNCH), 2);
    for (int32_t i = 0; i < s->patches; i++) assert_int_equal(s->patch[i].a.buf, SG_RETURNED);
    assert_int_equal(s->bufs, SG_USER_BUFS + 1);
    discard(&b);
}

/* Rows that are side by side stay where the collective brings them, whatever the knob says. */
static void packed_rows_stay(void **state)
{
    (void)state;
    static const char *const packed[] = {
        "ag_gemm:f32:64x16x19:r2:rows=60,4", "gemm_rs:f32:64x16x19:r2",  "gemm_ar:f32:64x16x19:r2",
        "gemm_ar:f32:64x16x19:r2:cyclic=4",  "a2a_gemm:f32:64x16x19:r2", "gemm:f32:64x16x19:r2"};
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
        built b;
        build(packed[i], "serial{tile_m=8,tile_n=4,windows=0,permute=1}", &b);
        assert_int_equal(steps_of(&b.sched[1], SG_COPY), 0);
        discard(&b);
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct group {
    shingle_comm *comm[MOST];
    int ranks;
} group;

/* Whatever a run stores is compared with sums that were made in the order of the reference. */
static void run(const char *problem, const char *plan, void *context)
{
    group *const g = context;
    const shingle_bench_options options = {.strategy = plan, .iterations = 1};
    shingle_bench_result result;
    if (shingle_bench(g->ranks, g->comm, problem, &options, &result) != SHINGLE_OK)
        fail_msg("%s %s: %s", problem, plan, shingle_error());
    if (result.wrong != 0) fail_msg("%s %s: %lld wrong", problem, plan, (long long)result.wrong);
}

static void all_run_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rank_counts / sizeof rank_counts[0]; i++) {
        group g = {.ranks = rank_counts[i]};
        const shingle_config config = {.timeout_seconds = 20, .threads = 2};
        assert_int_equal(shingle_open(g.ranks, &config, g.comm), SHINGLE_OK);
        for_each(&rank_counts[i], 1, run, &g);
        shingle_close(g.ranks, g.comm);
    }
}

/* ---- Choices --------------------------------------------------------------------------------- */

/* Both ways are proposed where there are two, each beside windows. */
static void both_ways_are_proposed(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int count, first;
    } asked[] = {{"ag_gemm:bf16:8192x7168x8192:r4:cyclic=16", 2, 1},
                 {"ag_gemm:bf16:7168x8192x8192:r4:gather=b:cyclic=16", 2, 1},
                 {"gemm_rs:bf16:8192x7168x2048:r4:cyclic=16", 2, 1},
                 {"ag_gemm:bf16:32768x7168x8192:r4:cyclic=4096", 2, 0},
                 {"gemm_rs:bf16:32768x7168x2048:r4:cyclic=4096", 2, 0},
                 {"ag_gemm:bf16:8192x7168x8192:r4:gather=k:cyclic=16", 1, 0},
                 {"gemm_ar:bf16:8192x7168x8192:r4:cyclic=16", 1, 0},
                 {"ag_gemm:bf16:8192x7168x8192:r4", 1, 0}};
    const sg_strategy *const serial = sg_strategy_find("serial");
    const int permute = knob_called(serial, "permute");
    const int windows = knob_called(serial, "windows");
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        sg_machine machine = machine_of_tiles(128, 256);
        proposals all;
        propose(asked[i].problem, serial, &machine, &all);
        assert_int_equal(all.count, asked[i].count);
        assert_int_equal(all.set[0].value[permute], asked[i].first);
        if (all.count > 1) assert_int_equal(all.set[1].value[permute], 1 - asked[i].first);
        for (int kind = SG_ALL_GATHER; kind <= SG_REDUCE_SCATTER; kind++)
            machine.coll_curve[SG_MACHINE_COLLS + kind] = (sg_curve){1, {{1e6, 100}}};
        propose(asked[i].problem, serial, &machine, &all);
        const bool moves = strstr(asked[i].problem, "gemm_ar") == NULL;
        assert_int_equal(all.count, asked[i].count * (moves ? 2 : 1));
        for (int j = 0; j < all.count; j++)
            assert_int_equal(all.set[j].value[windows], j >= asked[i].count);
    }
}

/* What others are compared with is the faster of both, whichever is proposed first. */
static void the_baseline_is_the_faster_one(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int permute;
    } asked[] = {{"ag_gemm:bf16:8192x7168x8192:r4:cyclic=16", 1},
                 {"gemm_rs:bf16:4096x8192x4096:r4:cyclic=64", 1},
                 {"ag_gemm:bf16:32768x7168x8192:r4:cyclic=4096", 0},
                 {"ag_gemm:bf16:1024x4096x2048:r4:cyclic=128", 1}}; /* proposed second */
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        double us[2];
        shingle_plan *plan = NULL;
        shingle_simulation simulation;
        for (int permute = 0; permute < 2; permute++) {
            char text[64];
            const shingle_plan_options forced = {.strategy = text};
            snprintf(text, sizeof text, "serial{permute=%d}", permute);
            assert_int_equal(shingle_plan_for(asked[i].problem, NULL, &forced, &plan), SHINGLE_OK);
            us[permute] = plan->predicted_us;
            const double serial_us = plan->candidate[0].predicted_us;
            shingle_plan_free(plan);
            if (permute == 1) assert_true(serial_us <= us[0] && serial_us <= us[1]);
        }
        assert_true(us[asked[i].permute] < us[1 - asked[i].permute]);
        const shingle_plan_options serial = {.strategy = "serial"};
        assert_int_equal(shingle_plan_for(asked[i].problem, NULL, &serial, &plan), SHINGLE_OK);
        assert_int_equal(plan->candidates, 2); /* once is enough */
        assert_true(plan->chosen == 0 && plan->predicted_us == us[asked[i].permute]);
        assert_int_equal(shingle_plan_simulate(plan, NULL, &simulation), SHINGLE_OK);
        assert_true(simulation.serial_us == us[asked[i].permute]);
        shingle_plan_free(plan);
    }
}

/* So it is where the static rule chooses, and where only one of them is reproducible. */
static void the_rule_knows_both(void **state)
{
    (void)state;
    static const char *const problems[] = {"ag_gemm:bf16:512x8192x512:r4:cyclic=64",
                                           "ag_gemm:bf16:512x1024x512:r4:cyclic=64",
                                           "ag_gemm:bf16:1024x512x1024:r4:cyclic=16"};
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++)
        for (int reproducible = 0; reproducible < 2; reproducible++) {
            const shingle_plan_options rule = {.choose = "static", .reproducible = reproducible};
            const shingle_plan_options forced = {.strategy = "serial{permute=0}"};
            shingle_plan *plan = NULL;
            shingle_plan *tiles = NULL;
            assert_int_equal(shingle_plan_for(problems[i], NULL, &forced, &tiles), SHINGLE_OK);
            assert_int_equal(shingle_plan_for(problems[i], NULL, &rule, &plan), SHINGLE_OK);
            if (plan->predicted_us > tiles->predicted_us)
                fail_msg("%s: %s, %g us, not %g", problems[i], plan->text, plan->predicted_us,
                         tiles->predicted_us);
            shingle_plan_free(tiles);
            shingle_plan_free(plan);
        }
}

/* Of the first strategy's plans the fastest leads, if it is so by more than counts as equal. */
static void the_fastest_leads(void **state)
{
    (void)state;
    const sg_strategy *const serial = sg_strategy_at(0);
    const sg_strategy *const other = sg_strategy_at(1);
    static const struct {
        double us[4];
        bool declined[4];
        int leads;
    } cases[] = {{{9, 8, 7, 1}, {false}, 2}, /* the last is another strategy's */
                 {{9, 8.95, 10, 1}, {false}, 0},
                 {{0, 8, 9, 1}, {true}, 1},
                 {{9, 2, 8, 1}, {false, true}, 2},
                 {{9, 0, 0, 1}, {false, true, true}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_candidate all[4];
        memset(all, 0, sizeof all);
        for (int j = 0; j < 4; j++) {
            all[j].strategy = j < 3 ? serial : other;
            all[j].predicted_us = cases[i].us[j];
            all[j].knobs.value[0] = j;
            if (cases[i].declined[j]) strcpy(all[j].declined, "too large");
        }
        sg_baseline_lead(all, 4, 0.01);
        const int leads = cases[i].leads;
        for (int j = 0; j < 4; j++)
            assert_int_equal(all[j].knobs.value[0], j == 0 ? leads : j == leads ? 0 : j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_proved),
        cmocka_unit_test(a_copy_a_run_puts_them_in_order),
        cmocka_unit_test(what_is_returned_is_put_in_order_in_its_place),
        cmocka_unit_test(packed_rows_stay),
        cmocka_unit_test(all_run_right),
        cmocka_unit_test(both_ways_are_proposed),
        cmocka_unit_test(the_baseline_is_the_faster_one),
        cmocka_unit_test(the_rule_knows_both),
        cmocka_unit_test(the_fastest_leads),
    };
    return cmocka_run_group_tests_name("permute", tests, NULL, NULL);
}
