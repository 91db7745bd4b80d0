/* Tests of copies that a launch carries: every rule broken once and named, what their order proves,
 * what they cost, and that a gather by them needs no fixed memory. */
#include "built.h"
#include "core/check.h"
#include "core/sim.h"
#include "quiet.h"

/* Two ranks; each pushes its four rows of A in two halves and multiplies all eight. */
typedef struct pair {
    sg_problem problem;
    sg_sched sched[2];
} pair;

typedef void (*change_fn)(sg_sched *s, int part);

static const int own_flags[] = {0, 1};

enum { BEFORE, PUSHED, LAUNCHED, END }; /* parts of a schedule, behind which a test adds to it */

/* FLAGS: which the rows of each half wait for. */
static void open_pair(pair *p, const int *flags, change_fn change)
{
    memset(p, 0, sizeof *p);
    assert_int_equal(sg_problem_parse("ag_gemm:f32:8x4x6:r2", &p->problem), SHINGLE_OK);
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &p->sched[r];
        sg_sched_begin(s, &p->problem, r);
        const int gathered = sg_sched_buf(s, SG_SYM, "gathered", 8, 6, 0);
        change(s, BEFORE);
        for (int half = 0; half < 2; half++) {
            sg_sched_copy(s, 1, SG_BY_LAUNCH, sg_area_of(r, SG_A, 2 * half, 2, 0, 6));
            sg_sched_to(s, sg_area_of(1 - r, gathered, 4 * r + 2 * half, 2, 0, 6));
            sg_sched_raise(s, 1 - r, SG_PER_PATCH, half);
        }
        change(s, PUSHED);
        sg_sched_launch(s, 0, 2, 2, 0, false);
        for (int i = 0; i < 4; i++) { /* own rows, then those of the other rank */
            const int owner = i < 2 ? r : 1 - r;
            const int row = 4 * owner + 2 * (i % 2);
            const sg_patch patch = {.row0 = row,
                                    .rows = 2,
                                    .cols = 4,
                                    .k1 = 6,
                                    .final = 1,
                                    .a = i < 2 ? sg_area_of(r, SG_A, 2 * i, 2, 0, 6)
                                               : sg_area_of(r, gathered, row, 2, 0, 6),
                                    .b = sg_area_of(r, SG_B, 0, 4, 0, 6)};
            sg_sched_patch(s, &patch);
            if (i >= 2) sg_sched_wait(s, sg_wait_one(1 - r, flags[i - 2]));
            sg_sched_to(s, sg_area_of(r, SG_C, row, 2, 0, 4));
        }
        change(s, LAUNCHED);
        sg_sched_flag(s, 0);
        change(s, END);
    }
}

static void close_pair(pair *p)
{
    for (int r = 0; r < 2; r++) sg_sched_free(&p->sched[r]);
    sg_problem_free(&p->problem);
}

static void nothing(sg_sched *s, int part)
{
    (void)s;
    (void)part;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static sg_step *first_push(sg_sched *s)
{
    for (int32_t i = 0; i < s->steps; i++)
        if (sg_step_is_push(&s->step[i])) return &s->step[i];
    fail_msg("no push");
    return NULL;
}

static void waits(sg_sched *s, int part)
{
    if (part == PUSHED) sg_sched_wait(s, sg_wait_one(1 - s->rank, 0));
}

static void after_a_step(sg_sched *s, int part)
{
    if (part == BEFORE) sg_sched_flag(s, 2);
    if (part == PUSHED) sg_sched_after(s, 0);
}

static void of_no_input(sg_sched *s, int part)
{
    if (part == END) first_push(s)->u.copy.src.buf = SG_USER_BUFS;
}

static void to_itself(sg_sched *s, int part)
{
    if (part == PUSHED) sg_sched_to(s, sg_area_of(s->rank, SG_USER_BUFS, 0, 2, 0, 6));
}

static void in_a_lane_of_flags(sg_sched *s, int part)
{
    if (part == END) sg_sched_flag(s, 1);
}

static void step_after_it(sg_sched *s, int part)
{
    if (part == END) sg_sched_after(s, 1);
}

static void launch_after_a_step(sg_sched *s, int part)
{
    if (part == BEFORE) sg_sched_flag(s, 2);
    if (part == LAUNCHED) s->step[3].after[0] = 0;
}

static void step_before_the_launch(sg_sched *s, int part)
{
    if (part == PUSHED) sg_sched_flag(s, 0);
}

static void vendor_launch(sg_sched *s, int part)
{
    if (part != LAUNCHED) return;
    s->step[2].u.launch.vendor = 1;
    s->step[2].u.launch.patches = 1;
    s->patch[s->step[2].u.launch.patch0].waits = 0;
}

static void two_launches(sg_sched *s, int part)
{
    if (part != LAUNCHED) return;
    sg_sched_launch(s, 0, 2, 2, 0, false);
}

static void no_launch(sg_sched *s, int part)
{
    if (part == END) s->step[2].lane = 2;
}

static void every_rule_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        change_fn change;
    } breakers[] = {
        {"a copy that a launch carries waits", waits},
        {"a copy that a launch carries waits", after_a_step},
        {"is of no input", of_no_input},
        {"stays on its rank", to_itself},
        {"in a lane of copies", in_a_lane_of_flags},
        {"is after a copy that a launch carries", step_after_it},
        {"no launch opens lane 0", launch_after_a_step},
        {"no launch opens lane 0", step_before_the_launch},
        {"no launch opens lane 0", vendor_launch},
        {"no launch opens lane 0", two_launches},
        {"no launch opens lane 0", no_launch},
    };
    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++) {
        pair p;
        open_pair(&p, own_flags, breakers[i].change);
        assert_int_equal(sg_sched_seal(&p.sched[0]), SHINGLE_EBUG);
        if (strstr(shingle_error(), breakers[i].says) == NULL)
            fail_msg("%s, expected %s", shingle_error(), breakers[i].says);
        close_pair(&p);
    }
}

/* ---- Order ----------------------------------------------------------------------------------- */

static shingle_status check_pair(const int *flags, sg_check_result *result)
{
    pair p;
    open_pair(&p, flags, nothing);
    for (int r = 0; r < 2; r++) assert_int_equal(sg_sched_seal(&p.sched[r]), SHINGLE_OK);
    assert_int_equal(p.sched[0].baked, 0);
    sg_checker *const ck = sg_checker_new();
    const shingle_status status = sg_check(ck, p.sched, 2, 4, result);
    sg_checker_free(ck);
    close_pair(&p);
    return status;
}

/* Blocks share the copies of a lane out, so the flag of one says nothing of another, not even that
 * of a later one. */
static void neighbours_are_not_ordered(void **state)
{
    (void)state;
    sg_check_result result;
    assert_int_equal(check_pair(own_flags, &result), SHINGLE_OK);
    for (int flag = 0; flag < 2; flag++) {
        const int one_flag[] = {flag, flag};
        assert_int_equal(check_pair(one_flag, &result), SHINGLE_EBUG);
        assert_non_null(strstr(result.why, "reads without waiting for the writer"));
        assert_non_null(strstr(result.why, "gathered"));
    }
}

/* ---- Cost ------------------------------------------------------------------------------------ */

static double price(const sg_machine *machine)
{
    pair p;
    double us = -1;
    open_pair(&p, own_flags, nothing);
    for (int r = 0; r < 2; r++) assert_int_equal(sg_sched_seal(&p.sched[r]), SHINGLE_OK);
    if (sg_sim_us(p.sched, 2, machine, &us) != SHINGLE_OK) fail_msg("%s", shingle_error());
    close_pair(&p);
    return us;
}

static void stores_carry_them(void **state)
{
    (void)state;
    sg_machine m;
    sg_machine_plain(&m);
    for (int t = 0; t < SG_TYPES; t++) m.gemm_tflops[t] = 1e9; /* products take no time */
    m.mem_gbps = 1e9;
    m.visit_us = m.epilogue_us = m.flag_us = m.launch_us = m.store_us = 0;
    m.link_gbps = 0;
    m.store_gbps = 96e-6; /* four rows of six floats in 1000 us */
    m.copy_gbps = 1e-9;   /* neither these nor lanes that join have a part in it */
    m.copy_us = m.join_us = 1e6;
    expect_us(price(&m), 1000);
    m.store_us = 7; /* the last ones are seen then */
    m.launch_us = 11;
    expect_us(price(&m), 1018);
    m.link_gbps = 48e-6;
    expect_us(price(&m), 2018);
    m.link_gbps = 0;
    m.store_us = m.launch_us = 0;
    m.sms = 2;
    m.visit_us = 400; /* eight tiles; the first two are stored when all is on its way */
    expect_us(price(&m), 1000 + 3 * 400);
}

/* ---- Strategies ------------------------------------------------------------------------------ */

static int baked_by(const char *plan)
{
    built b;
    int pushes = 0;
    build("ag_gemm:f32:100x24x16:r5", plan, &b);
    const sg_sched *const s = &b.sched[1];
    for (int32_t i = 0; i < s->steps; i++)
        if (sg_step_is_push(&s->step[i])) pushes += s->step[i].tos;
    const int baked = s->baked;
    assert_int_equal(pushes, baked ? 0 : 4 * 2 * 2);
    discard(&b);
    return baked;
}

static void gathers_by_a_launch_use_both_halves(void **state)
{
    (void)state;
    assert_int_equal(baked_by("fused_in{chunks=2,slabs=2,tile_m=5,tile_n=8,push=0,strips=1}"), 1);
    assert_int_equal(baked_by("fused_in{chunks=2,slabs=2,tile_m=5,tile_n=8,push=1,strips=2}"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_is_named),
        cmocka_unit_test(neighbours_are_not_ordered),
        cmocka_unit_test(stores_carry_them),
        cmocka_unit_test(gathers_by_a_launch_use_both_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
