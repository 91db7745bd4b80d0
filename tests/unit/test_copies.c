/* Tests of sched_copies.c: which copies a backend may carry out together, and what that costs. */
#include <math.h>

#include "by_hand.h"
#include "core/sim.h"
#include "quiet.h"

enum { FROM = SG_USER_BUFS, INTO, OTHER, PEERS, ROWS = 12, LANE = 1 };

typedef struct row {
    sg_problem problem;
    sg_sched s;
} row;

static void begin(row *r)
{
    *r = (row){.problem = problem_of("ag_gemm:f32:24x5x7:r2")};
    sg_sched_begin(&r->s, &r->problem, 1);
    assert_int_equal(sg_sched_buf(&r->s, SG_LIBRARY, "from", ROWS, 7, 0), FROM);
    assert_int_equal(sg_sched_buf(&r->s, SG_LOCAL, "into", ROWS, 7, 0), INTO);
    assert_int_equal(sg_sched_buf(&r->s, SG_LOCAL, "other", ROWS, 7, 0), OTHER);
    assert_int_equal(sg_sched_buf(&r->s, SG_SYM, "peers", ROWS, 7, 0), PEERS);
}

/* Row INDEX of buffer SRC to the last one but INDEX of buffer DST. */
static int copy(row *r, int lane, sg_carrier by, int src, int dst, int index)
{
    const int step = sg_sched_copy(&r->s, lane, by, sg_area_of(1, src, index, 1, 0, 7));
    sg_sched_to(&r->s, sg_area_of(1, dst, ROWS - 1 - index, 1, 0, 7));
    return step;
}

static void plain(row *r, int index)
{
    copy(r, LANE, SG_BY_SMS, FROM, INTO, index);
}

/* What sg_sched_copies() says of each step. */
static void expect(row *r, int count, const int *want)
{
    assert_int_equal(r->s.status, SHINGLE_OK);
    assert_int_equal(r->s.steps, count);
    for (int i = 0; i < count; i++) assert_int_equal(sg_sched_copies(&r->s, i), want[i]);
    sg_sched_free(&r->s);
    sg_problem_free(&r->problem);
}

#define EXPECT(r, ...)                                                                             \
    do {                                                                                           \
        const int want_[] = {__VA_ARGS__};                                                         \
        expect((r), (int)(sizeof want_ / sizeof want_[0]), want_);                                 \
    } while (0)

static void copies_side_by_side_go_together(void **state)
{
    (void)state;
    row r;
    begin(&r);
    plain(&r, 0);
    EXPECT(&r, 1);
    begin(&r);
    sg_sched_flag(&r.s, LANE);
    for (int i = 0; i < 4; i++) plain(&r, i);
    sg_sched_flag(&r.s, LANE);
    EXPECT(&r, 1, 4, 0, 0, 0, 1);
}

static void the_first_alone_waits(void **state)
{
    (void)state;
    row r;
    begin(&r);
    plain(&r, 0);
    sg_sched_wait(&r.s, sg_wait_one(0, 1));
    plain(&r, 1);
    plain(&r, 2);
    sg_sched_wait(&r.s, sg_wait_one(0, 2));
    plain(&r, 3);
    EXPECT(&r, 2, 0, 2, 0);
    begin(&r);
    const int flag = sg_sched_flag(&r.s, 0);
    const int second = sg_sched_flag(&r.s, 2);
    plain(&r, 0);
    sg_sched_after(&r.s, flag);
    plain(&r, 1);
    plain(&r, 2);
    sg_sched_after(&r.s, second);
    plain(&r, 3);
    EXPECT(&r, 1, 1, 2, 0, 2, 0);
}

static void who_raises_is_alone(void **state)
{
    (void)state;
    row r;
    begin(&r);
    for (int i = 0; i < 5; i++) {
        plain(&r, i);
        if (i == 2) sg_sched_raise(&r.s, 1, SG_PER_PATCH, 3);
    }
    EXPECT(&r, 2, 0, 1, 2, 0);
}

static void they_have_one_source_one_target_and_one_lane(void **state)
{
    (void)state;
    row r;
    begin(&r);
    plain(&r, 0);
    plain(&r, 1);
    copy(&r, LANE, SG_BY_SMS, OTHER, INTO, 2);
    copy(&r, LANE, SG_BY_SMS, OTHER, INTO, 3);
    copy(&r, LANE, SG_BY_SMS, FROM, OTHER, 4);
    copy(&r, LANE, SG_BY_SMS, FROM, OTHER, 5);
    EXPECT(&r, 2, 0, 2, 0, 2, 0);
    begin(&r);
    plain(&r, 0);
    copy(&r, 0, SG_BY_SMS, FROM, INTO, 1);
    plain(&r, 2);
    plain(&r, 3);
    EXPECT(&r, 1, 1, 2, 0);
}

/* One that reads what another has stored, for all that anybody knows. */
static void within_one_buffer_they_follow_each_other(void **state)
{
    (void)state;
    row r;
    begin(&r);
    for (int i = 0; i < 3; i++) copy(&r, LANE, SG_BY_SMS, INTO, INTO, i);
    EXPECT(&r, 1, 1, 1);
}

static void engines_and_peers_take_them_one_by_one(void **state)
{
    (void)state;
    row r;
    begin(&r);
    for (int i = 0; i < 2; i++) copy(&r, LANE, SG_BY_ENGINE, FROM, INTO, i);
    plain(&r, 2);
    plain(&r, 3);
    EXPECT(&r, 1, 1, 2, 0);
    begin(&r);
    for (int i = 0; i < 2; i++) {
        sg_sched_copy(&r.s, LANE, SG_BY_SMS, sg_area_of(1, FROM, i, 1, 0, 7));
        sg_sched_to(&r.s, sg_area_of(0, PEERS, i, 1, 0, 7));
    }
    EXPECT(&r, 1, 1);
    begin(&r);
    plain(&r, 0);
    plain(&r, 1);
    sg_sched_to(&r.s, sg_area_of(1, INTO, 0, 1, 0, 7));
    plain(&r, 2);
    EXPECT(&r, 1, 1, 1);
}

/* ---- Prices ---------------------------------------------------------------------------------- */

enum { COPIES = 5, LAUNCH_US = 3, ROW_US = 2 };

typedef struct spans {
    int work, transfers;
    double bytes;
} spans;

static void count_span(void *context, const sg_span *span)
{
    spans *const all = context;
    all->work += span->kind == SG_SPAN_WORK;
    all->transfers += span->kind == SG_SPAN_TRANSFER;
    if (span->kind == SG_SPAN_TRANSFER) all->bytes += span->bytes;
}

/* Of COPIES rows, one a copy; TOGETHER, or from one buffer and another in turns.  A row of another
 * lane is copied behind the second of them. */
static double priced(const sg_machine *machine, bool together, spans *all)
{
    const sg_sim_options options = {.visit = count_span, .context = all};
    sg_simulator *const simulator = sg_simulator_new();
    sg_sim_result result;
    row r;
    int second = -1;
    assert_non_null(simulator);
    r = (row){.problem = problem_of("gemm:f32:24x5x7:r1")};
    sg_sched_begin(&r.s, &r.problem, 0);
    for (int i = FROM; i <= OTHER; i++) sg_sched_buf(&r.s, SG_LOCAL, "rows", ROWS, 7, 0);
    for (int i = 0; i < COPIES; i++) {
        const int src = together || i % 2 == 0 ? FROM : OTHER;
        const int step = sg_sched_copy(&r.s, 0, SG_BY_SMS, sg_area_of(0, src, i, 1, 0, 7));
        sg_sched_to(&r.s, sg_area_of(0, INTO, i, 1, 0, 7));
        if (i == 1) second = step;
    }
    sg_sched_copy(&r.s, 1, SG_BY_SMS, sg_area_of(0, INTO, 1, 1, 0, 7));
    sg_sched_after(&r.s, second);
    sg_sched_to(&r.s, sg_area_of(0, OTHER, ROWS - 1, 1, 0, 7));
    if (sg_sched_seal(&r.s) != SHINGLE_OK ||
        sg_simulate(simulator, &r.s, 1, machine, &options, &result) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    sg_simulator_free(simulator);
    sg_sched_free(&r.s);
    sg_problem_free(&r.problem);
    return result.us;
}

static void together_they_start_once(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(8, 64, 64, 100);
    spans one = {0};
    spans many = {0};
    m.launch_us = LAUNCH_US;
    m.local_gbps = 32 / (ROW_US * 1e3); /* rows of 28 bytes, a sector */
    /* Behind the second is behind all of them. */
    expect_us(priced(&m, true, &one), 2 * LAUNCH_US + (COPIES + 1) * ROW_US);
    assert_int_equal(one.work, 2);
    assert_int_equal(one.transfers, 2);
    expect_us(one.bytes, 2 * (COPIES + 1) * 32);
    expect_us(priced(&m, false, &many), COPIES * (LAUNCH_US + ROW_US));
    assert_int_equal(many.work, COPIES + 1);
    expect_us(many.bytes, one.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_side_by_side_go_together),
        cmocka_unit_test(the_first_alone_waits),
        cmocka_unit_test(who_raises_is_alone),
        cmocka_unit_test(they_have_one_source_one_target_and_one_lane),
        cmocka_unit_test(within_one_buffer_they_follow_each_other),
        cmocka_unit_test(engines_and_peers_take_them_one_by_one),
        cmocka_unit_test(together_they_start_once),
    };
    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
