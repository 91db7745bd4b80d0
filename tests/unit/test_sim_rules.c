/* Tests of the simulator's rules, each against a timeline counted by hand: links by
 * topology, engines, SMs, contention, collectives by size, bursts, pools, the parts of
 * a result and mirror images. */
#include "built.h"
#include "core/sim.h"
#include "quiet.h"

enum { MOST_RANKS = 8 };

/* 64 x 64 f32 in 10 us: what a copy of ROWS 64 takes alone. */
static const double unit_gbps = 64 * 64 * 4 / 1e4;

/* Four SMs that take 10 us for a 64 x 64 tile over k 10, and links that take as long for one. */
static sg_machine quiet(void)
{
    sg_machine m = quiet_machine(4, 64, 10, 10);
    m.copy_gbps = m.store_gbps = m.coll_gbps = m.link_gbps = unit_gbps;
    return m;
}

/* Schedules that a test writes itself. */
typedef struct scene {
    sg_problem problem;
    sg_sched sched[MOST_RANKS];
    int ranks, inbox[MOST_RANKS];
} scene;

static void open_scene(scene *s, int ranks)
{
    memset(s, 0, sizeof *s);
    char text[40];
    sg_text t = {text, sizeof text, 0};
    sg_text_add(&t, "gemm:f32:640x64x10:r%d", ranks);
    assert_int_equal(sg_problem_parse(text, &s->problem), SHINGLE_OK);
    s->ranks = ranks;
    for (int r = 0; r < ranks; r++) {
        sg_sched_begin(&s->sched[r], &s->problem, r);
        s->inbox[r] = sg_sched_buf(&s->sched[r], SG_SYM, "inbox", 4096, 64, SG_FIXED);
    }
}

static void copy(scene *s, int lane, int from, int to, int64_t rows)
{
    const int source = sg_sched_buf(&s->sched[from], SG_LOCAL, "source", rows, 64, SG_FIXED);
    sg_sched_copy(&s->sched[from], lane, SG_BY_ENGINE, sg_area_of(from, source, 0, rows, 0, 64));
    sg_sched_to(&s->sched[from],
                sg_area_of(to, s->inbox[to], 256 * from + 128 * lane, rows, 0, 64));
}

/* TILES tiles, one below the other. */
static int launch(scene *s, int rank, int lane, int tiles, int blocks, bool vendor)
{
    sg_sched *const sched = &s->sched[rank];
    const int step = sg_sched_launch(sched, lane, 64, 64, blocks, vendor);
    sg_sched_patch(sched, &(sg_patch){.rows = 64 * tiles,
                                      .cols = 64,
                                      .k1 = 10,
                                      .a = sg_area_of(rank, SG_A, 0, 64 * tiles, 0, 10),
                                      .b = sg_area_of(rank, SG_B, 0, 64, 0, 10)});
    sg_sched_to(sched, sg_area_of(rank, SG_C, 0, 64 * tiles, 0, 64));
    return step;
}

/* All-reduce of ROWS x 64 by every rank. */
static void reduce_all(scene *s, int lane, int64_t rows, int sms)
{
    for (int r = 0; r < s->ranks; r++) {
        const int sum = sg_sched_buf(&s->sched[r], SG_LIBRARY, "sum", rows, 64, 0);
        sg_sched_coll(&s->sched[r], lane, SG_ALL_REDUCE, sms, sg_area_of(r, sum, 0, rows, 0, 64));
    }
}

static double close_scene(scene *s, const sg_machine *machine)
{
    double us = -1;
    for (int r = 0; r < s->ranks; r++)
        if (sg_sched_seal(&s->sched[r]) != SHINGLE_OK) fail_msg("%s", shingle_error());
    if (sg_sim_us(s->sched, s->ranks, machine, &us) != SHINGLE_OK) fail_msg("%s", shingle_error());
    for (int r = 0; r < s->ranks; r++) sg_sched_free(&s->sched[r]);
    sg_problem_free(&s->problem);
    return us;
}

/* Every rank copies 64 rows to the one STEP further (or all to rank 0). */
static double copies_us(const sg_machine *m, int ranks, int step)
{
    scene s;
    open_scene(&s, ranks);
    for (int r = 0; r < ranks; r++) {
        const int to = step > 0 ? (r + step) % ranks : 0;
        if (to != r) copy(&s, 0, r, to, 64);
    }
    return close_scene(&s, m);
}

static double one_copy_us(const sg_machine *m, int from, int to)
{
    scene s;
    open_scene(&s, 4);
    copy(&s, 0, from, to, 64);
    return close_scene(&s, m);
}

/* ---- Links ----------------------------------------------------------------------------------- */

static void ports_of_a_switch_are_shared(void **state)
{
    (void)state;
    sg_machine m = quiet();
    expect_us(copies_us(&m, 4, 1), 10);
    expect_us(copies_us(&m, 4, 0), 30); /* three into one port */
    m.link_gbps = 3 * unit_gbps;
    expect_us(copies_us(&m, 4, 0), 10);
    m.link_gbps = unit_gbps;

    /* Half as much from rank 2: both at half the rate until it is there at 10, 5 us are left. */
    scene s;
    open_scene(&s, 3);
    copy(&s, 0, 1, 0, 64);
    copy(&s, 0, 2, 0, 32);
    expect_us(close_scene(&s, &m), 15);
}

static void engines_copy_one_after_the_other(void **state)
{
    (void)state;
    sg_machine m = quiet();
    m.link_gbps = 2 * unit_gbps;
    for (int engines = 1; engines <= 2; engines++) {
        m.copy_engines = engines;
        scene s;
        open_scene(&s, 3);
        copy(&s, 0, 0, 1, 64);
        copy(&s, 1, 0, 2, 64);
        expect_us(close_scene(&s, &m), engines == 1 ? 20 : 10);
    }
    m.copy_engines = 1;
    m.copy_us = 3;
    m.peer_us = 4;
    scene s;
    open_scene(&s, 3);
    copy(&s, 0, 0, 1, 64); /* 3 + 10 */
    copy(&s, 0, 0, 1, 64); /* 3 + 10 */
    copy(&s, 0, 0, 2, 64); /* 3 + 4 + 10 */
    expect_us(close_scene(&s, &m), 43);
}

static void every_pair_of_a_mesh_has_its_link(void **state)
{
    (void)state;
    sg_machine m = quiet();
    m.topology = SG_MESH;
    expect_us(copies_us(&m, 4, 0), 10);
    m.copy_engines = 2;
    scene s;
    open_scene(&s, 3);
    copy(&s, 0, 0, 1, 64);
    copy(&s, 1, 0, 1, 64); /* the same link */
    expect_us(close_scene(&s, &m), 20);
    open_scene(&s, 3);
    copy(&s, 0, 0, 1, 64);
    copy(&s, 1, 0, 2, 64);
    expect_us(close_scene(&s, &m), 10);
}

static void rings_pass_on_the_short_way(void **state)
{
    (void)state;
    sg_machine m = quiet();
    m.topology = SG_RING;
    expect_us(copies_us(&m, 4, 1), 10);
    expect_us(copies_us(&m, 4, 3), 10); /* one to the left */
    expect_us(one_copy_us(&m, 0, 2), 10);
    expect_us(copies_us(&m, 4, 2), 20); /* two hops each, so two on every link */
    expect_us(copies_us(&m, 6, 3), 30);
}

static void bridges_are_shared(void **state)
{
    (void)state;
    sg_machine m = quiet();
    m.topology = SG_PCIE;
    expect_us(copies_us(&m, 4, 1), 10);
    m.host_gbps = 2 * unit_gbps;
    expect_us(copies_us(&m, 4, 1), 20); /* four over a bridge for two */
    expect_us(one_copy_us(&m, 0, 1), 10);
    m.host_staged = 1;
    expect_us(copies_us(&m, 4, 1), 40);
    expect_us(one_copy_us(&m, 0, 1), 10);
    m = quiet();
    m.topology = SG_PCIE;
    m.numa_ranks = 2;
    m.numa_gbps = unit_gbps / 2;
    expect_us(one_copy_us(&m, 0, 1), 10);
    expect_us(one_copy_us(&m, 0, 2), 20);
    expect_us(copies_us(&m, 4, 2), 40); /* 0 and 1 leave the first half */
}

static void nodes_have_nics(void **state)
{
    (void)state;
    sg_machine m = quiet();
    m.topology = SG_NODES;
    m.node_ranks = 2;
    m.nic_gbps = unit_gbps / 4;
    m.node_us = 3;
    expect_us(one_copy_us(&m, 0, 1), 10);
    expect_us(one_copy_us(&m, 0, 2), 43);
    expect_us(copies_us(&m, 4, 2), 43); /* a NIC each */
    scene s;
    open_scene(&s, 4);
    copy(&s, 0, 0, 2, 64);
    copy(&s, 0, 1, 2, 64);
    expect_us(close_scene(&s, &m), 83); /* into one NIC */
}

/* ---- SMs ------------------------------------------------------------------------------------- */

static void launches_share_sms(void **state)
{
    (void)state;
    const sg_machine m = quiet();
    scene s;
    open_scene(&s, 1);
    launch(&s, 0, 0, 4, 2, false);
    launch(&s, 0, 1, 4, 2, false);
    expect_us(close_scene(&s, &m), 20); /* beside each other, two waves each */
    open_scene(&s, 1);
    launch(&s, 0, 0, 4, 0, false);
    launch(&s, 0, 1, 4, 0, false);
    expect_us(close_scene(&s, &m), 20); /* behind each other */
    open_scene(&s, 1);
    launch(&s, 0, 0, 5, 0, false); /* four, then one */
    launch(&s, 0, 1, 3, 0, false); /* on what the second wave leaves */
    expect_us(close_scene(&s, &m), 20);
    open_scene(&s, 1);
    launch(&s, 0, 0, 5, 0, false);
    launch(&s, 0, 1, 4, 0, false); /* three beside it, the last one behind */
    expect_us(close_scene(&s, &m), 30);
}

static void collectives_hold_sms(void **state)
{
    (void)state;
    sg_machine m = quiet();
    scene s;
    open_scene(&s, 2); /* 256 x 64 f32, all of it on the bus: 40 us */
    reduce_all(&s, 0, 256, 2);
    for (int r = 0; r < 2; r++) launch(&s, r, 1, 10, 0, false);
    expect_us(close_scene(&s, &m), 50); /* four waves of two blocks, then one of all */
    open_scene(&s, 2);
    for (int r = 0; r < 2; r++) launch(&s, r, 0, 4, 0, false);
    reduce_all(&s, 1, 256, 2); /* finds no SM before the product ends */
    expect_us(close_scene(&s, &m), 50);
    m.coll_part = (sg_curve){2, {{2, 0.5}, {4, 1}}};
    open_scene(&s, 2);
    reduce_all(&s, 0, 256, 2);
    expect_us(close_scene(&s, &m), 80);
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static void products_and_traffic_slow_each_other(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        sg_machine m = quiet();
        if (what & 1) m.gemm_by_copy = 2;
        if (what & 2) m.copy_by_gemm = 2;
        scene s;
        open_scene(&s, 2);
        launch(&s, 0, 0, 8, 0, true); /* 20 us alone */
        copy(&s, 1, 0, 1, 64);        /* 10 us alone */
        /* Slowed to half for 10 us; or the copy for all of its 20. */
        expect_us(close_scene(&s, &m), what == 0 ? 20 : what == 1 ? 25 : 20);
    }
    sg_machine m = quiet();
    m.copy_by_gemm = 4;
    scene s;
    open_scene(&s, 2);
    launch(&s, 0, 0, 8, 0, true); /* until 20; a half of the copy's 10 us is done by then */
    copy(&s, 1, 0, 1, 64);
    expect_us(close_scene(&s, &m), 25);
    m = quiet();
    m.gemm_by_copy = 2;
    m.vendor_by_copy = 4; /* which has a factor of its own */
    open_scene(&s, 2);
    launch(&s, 0, 0, 8, 0, true);
    copy(&s, 1, 0, 1, 64);
    expect_us(close_scene(&s, &m), 27.5);
    m = quiet();
    m.gemm_by_coll = 2;
    m.coll_by_gemm = 2;
    open_scene(&s, 2);
    for (int r = 0; r < 2; r++) launch(&s, r, 0, 8, 0, true); /* 20 us alone */
    reduce_all(&s, 1, 64, 0);                                 /* 10 us alone: 20 at half */
    expect_us(close_scene(&s, &m), 30); /* half the product by 20, the rest at full rate */
}

static void tiles_cost_what_does_not_depend_on_k(void **state)
{
    (void)state;
    sg_machine m = quiet();
    scene s;
    m.visit_us = 3;
    open_scene(&s, 1);
    launch(&s, 0, 0, 5, 0, false);
    expect_us(close_scene(&s, &m), 26);
    m.burst = 2;
    m.burst_us = 5;
    open_scene(&s, 1);
    launch(&s, 0, 0, 8, 0, true); /* 20 us: ten of them in the first five */
    expect_us(close_scene(&s, &m), 15);
    m.vendor = 0.5;
    open_scene(&s, 1);
    launch(&s, 0, 0, 8, 0, true);
    expect_us(close_scene(&s, &m), 35);
}

static void collectives_follow_their_curve(void **state)
{
    (void)state;
    sg_machine m = quiet();
    m.coll_us = 4;
    scene s;
    open_scene(&s, 2);
    reduce_all(&s, 0, 64, 0); /* 16384 bytes on the bus */
    expect_us(close_scene(&s, &m), 14);
    m.link_gbps = 1e6;
    const double bytes = 64 * 64 * 4;
    m.coll_curve[SG_ALL_REDUCE] =
        (sg_curve){2, {{bytes, bytes / 1e3 / 20}, {3 * bytes, 3 * bytes / 1e3 / 30}}};
    static const struct {
        int64_t rows;
        double us;
    } cases[] = {{64, 20}, {192, 30}, {128, 25}, {32, 12}, {384, 60}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_scene(&s, 2);
        reduce_all(&s, 0, cases[i].rows, 0);
        expect_us(close_scene(&s, &m), cases[i].us);
    }
}

/* Rows of two ranks brought to both, in a buffer of ARENA. */
static double gather_us(sg_machine *m, sg_arena_kind arena, int64_t rows)
{
    scene s;
    open_scene(&s, 2);
    for (int r = 0; r < 2; r++) {
        const int all = sg_sched_buf(&s.sched[r], arena, "all", 2 * rows, 64, 0);
        sg_sched_coll(&s.sched[r], 0, SG_ALL_GATHER, 0, sg_area_of(r, all, r * rows, rows, 0, 64));
        for (int q = 0; q < 2; q++)
            sg_sched_to(&s.sched[r], sg_area_of(r, all, q * rows, rows, 0, 64));
    }
    return close_scene(&s, m);
}

static void windows_have_a_curve(void **state)
{
    (void)state;
    sg_machine m = quiet();
    m.link_gbps = 1e6;
    const double bytes = 128 * 64 * 4;
    m.coll_curve[SG_ALL_GATHER] = (sg_curve){1, {{bytes, bytes / 2e3 / 20}}};
    expect_us(gather_us(&m, SG_LIBRARY, 64), 20);
    expect_us(gather_us(&m, SG_WINDOWS, 64), 20);
    m.coll_curve[SG_MACHINE_COLLS + SG_ALL_GATHER] = (sg_curve){1, {{bytes, bytes / 2e3 / 16}}};
    expect_us(gather_us(&m, SG_LIBRARY, 64), 20);
    expect_us(gather_us(&m, SG_WINDOWS, 64), 16);
    expect_us(gather_us(&m, SG_WINDOWS, 128), 32);
}

/* Two workers, four ranks: a rank has half a worker when all work, and both when it works alone. */
/* All-reduce of two tiles on two ranks: each computes both and stores a sum at its peer. */
static double fused_us(const sg_machine *m)
{
    sg_problem p;
    sg_knobs knobs = {{1, 0, 64, 64, 0, 1, 1, 0}};
    sg_sim_result result;
    sg_simulator *const simulator = sg_simulator_new();
    assert_int_equal(sg_problem_parse("gemm_ar:f32:128x64x10:r2", &p), SHINGLE_OK);
    assert_int_equal(
        sg_simulate_built(simulator, &p, sg_strategy_find("fused_out"), &knobs, m, NULL, &result),
        SHINGLE_OK);
    sg_simulator_free(simulator);
    sg_problem_free(&p);
    return result.us;
}

static void runs_begin_end_and_land(void **state)
{
    (void)state;
    sg_machine m = quiet();
    const double before = fused_us(&m);
    const double copies = copies_us(&m, 2, 1);
    m.run_us = 7;
    expect_us(fused_us(&m), before + 7);
    expect_us(copies_us(&m, 2, 1), copies + 7);
    /* One launch is all of the run, or there is one before and one behind it. */
    m.launch_us = 3;
    expect_us(fused_us(&m), before + 7 + 3);
    expect_us(copies_us(&m, 2, 1), copies + 7 + 6);
    /* What is stored into C arrives elsewhere; what copies bring to an inbox stays there. */
    m.land_gbps = unit_gbps / 2;
    expect_us(fused_us(&m), before + 7 + 3 + 20);
    expect_us(copies_us(&m, 2, 1), copies + 7 + 6);
}

static void workers_of_a_pool_go_where_work_is(void **state)
{
    (void)state;
    sg_machine m = quiet();
    m.pool = 2;
    m.sms = 1;
    m.gemm_tflops[SG_F32] = 1e-6 * 2 * 64 * 64; /* a tile on half a worker: 10 us */
    scene s;
    open_scene(&s, 4);
    for (int r = 0; r < 4; r++) launch(&s, r, 0, 1, 0, false);
    expect_us(close_scene(&s, &m), 10);
    open_scene(&s, 4);
    launch(&s, 0, 0, 4, 0, false);
    expect_us(close_scene(&s, &m), 10); /* two rounds of 5 us on both workers */
    m.unit_us = 1;
    m.pack_gbps = 64 * 10 * 4 / 2e3; /* B of a rank in 2 us, by whoever comes first */
    open_scene(&s, 4);
    launch(&s, 0, 0, 4, 0, false);
    expect_us(close_scene(&s, &m), 14); /* 1 + 2 + 5, then 1 + 5 */
}

/* ---- Results --------------------------------------------------------------------------------- */

static const char *const texts[] = {
    "ag_gemm:bf16:4096x2048x2048:r8",          "gemm_rs:bf16:4096x4096x1024:r4",
    "gemm_ar:bf16:2048x2048x2048:r4",          "gemm_rs:bf16:1000x900x700:r4",
    "gemm_a2a:bf16:2048x2048x1024:r4",         "a2a_gemm:bf16:2048x2048x1024:r4",
    "ag_gemm:bf16:2048x2048x1024:r8:gather=k", "gemm_ar:bf16:512x512x512:r2:bias:gelu",
};

typedef void (*each_fn)(sg_simulator *simulator, const sg_problem *p, const sg_strategy *strategy,
                        const sg_knobs *knobs, const sg_machine *machine);

static void for_each(const sg_machine *machine, each_fn each)
{
    sg_simulator *const simulator = sg_simulator_new();
    assert_non_null(simulator);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        sg_problem p;
        assert_int_equal(sg_problem_parse(texts[i], &p), SHINGLE_OK);
        for (int n = 0; sg_strategy_at(n) != NULL; n++) {
            proposals all;
            propose_to(&p, sg_strategy_at(n), machine, &all);
            for (int k = 0; k < all.count; k++)
                each(simulator, &p, sg_strategy_at(n), &all.set[k], machine);
        }
        sg_problem_free(&p);
    }
    sg_simulator_free(simulator);
}

static void parts_add_up_to_one(sg_simulator *simulator, const sg_problem *p,
                                const sg_strategy *strategy, const sg_knobs *knobs,
                                const sg_machine *machine)
{
    const sg_sim_options options = {.parts = true};
    sg_sim_result r;
    if (sg_simulate_built(simulator, p, strategy, knobs, machine, &options, &r) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    const double sum =
        r.gemm_us + r.decomposition_us + r.exposed_us + r.contention_us + r.latency_us;
    if (fabs(sum - r.us) > 1e-6 * r.us) fail_msg("%s: %g of %g us", strategy->name, sum, r.us);
    assert_true(r.gemm_us > 0 && r.comm_us > 0 && r.comm_us < r.us * 1.05);
    assert_true(r.decomposition_us > -0.05 * r.us && r.exposed_us > -0.05 * r.us);
}

static void parts_add_up(void **state)
{
    (void)state;
    sg_machine m;
    sg_machine_plain(&m);
    m.gemm_by_copy = m.copy_by_gemm = 1.05;
    m.gemm_by_coll = 1.2;
    for_each(&m, parts_add_up_to_one);
}

static int mirrored, compared;

/* What ties break differently where ranks are told apart can shift a few tiles. */
static void images_cost_the_same_as_all(sg_simulator *simulator, const sg_problem *p,
                                        const sg_strategy *strategy, const sg_knobs *knobs,
                                        const sg_machine *machine)
{
    const sg_sim_options options = {.every_rank = true};
    sg_sim_result one;
    sg_sim_result all;
    assert_int_equal(sg_simulate_built(simulator, p, strategy, knobs, machine, NULL, &one),
                     SHINGLE_OK);
    assert_int_equal(sg_simulate_built(simulator, p, strategy, knobs, machine, &options, &all),
                     SHINGLE_OK);
    assert_int_equal(all.ranks_simulated, p->ranks);
    mirrored += one.ranks_simulated < p->ranks;
    compared++;
    if (fabs(one.us - all.us) > 0.03 * all.us)
        fail_msg("%s: %g us by %d of its ranks, %g by all", strategy->name, one.us,
                 one.ranks_simulated, all.us);
}

static void images_stand_for_ranks(void **state)
{
    (void)state;
    sg_machine m;
    sg_machine_plain(&m);
    static const sg_topology topologies[] = {SG_SWITCH, SG_MESH, SG_RING, SG_PCIE, SG_NODES};
    for (size_t i = 0; i < sizeof topologies / sizeof topologies[0]; i++) {
        m.topology = topologies[i];
        m.link_gbps = 200;
        m.numa_ranks = m.node_ranks = 2;
        m.host_gbps = 300;
        m.numa_gbps = m.nic_gbps = 60;
        m.node_us = 3;
        for_each(&m, images_cost_the_same_as_all);
    }
    assert_true(mirrored > compared * 3 / 5);
}

static void compare_images(const char *problem, const char *plan)
{
    sg_machine m;
    sg_problem p;
    sg_knobs knobs;
    bool given = false;
    const sg_strategy *strategy = NULL;
    assert_int_equal(sg_machine_read("machines/h800x8.machine", &m), SHINGLE_OK);
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    assert_int_equal(sg_strategy_parse(plan, &strategy, NULL, &knobs, &given), SHINGLE_OK);
    sg_simulator *const simulator = sg_simulator_new();
    images_cost_the_same_as_all(simulator, &p, strategy, &knobs, &m);
    sg_simulator_free(simulator);
    sg_problem_free(&p);
}

/* A flag is up before it can be seen.  Who is parked on it learns of that no later than who
 * looks. */
static void a_parked_block_sees_a_flag_as_any_other(void **state)
{
    (void)state;
    compare_images("gemm_ar:f16:7x32x19:r7",
                   "fused_out{subs=25,lag=0,tile_m=7,tile_n=3,once=1,splits=1,strips=41,tagged=0}");
}

/* What comes from the peers is one patch at rank 0; at rank 7 - i its last i owners are another,
 * of few tiles, which cost what they cost in the midst of others. */
static void patches_may_be_cut_anywhere(void **state)
{
    (void)state;
    static const char *const of[] = {"a2a_gemm:bf16:512x2560x10240:r8",
                                     "ag_gemm:bf16:512x8192x7168:r8"};
    static const char *const plans[] = {
        "fused_in{chunks=1,slabs=1,tile_m=64,tile_n=128,push=1,strips=2}",
        "fused_in{chunks=2,slabs=1,tile_m=64,tile_n=256,push=0,strips=1}",
        "direct{chunks=1,split=0,blocks=0,tile_m=64,tile_n=256,vendor=0}",
    };
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < sizeof plans / sizeof plans[0]; j++) compare_images(of[i], plans[j]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports_of_a_switch_are_shared),
        cmocka_unit_test(engines_copy_one_after_the_other),
        cmocka_unit_test(every_pair_of_a_mesh_has_its_link),
        cmocka_unit_test(rings_pass_on_the_short_way),
        cmocka_unit_test(bridges_are_shared),
        cmocka_unit_test(nodes_have_nics),
        cmocka_unit_test(launches_share_sms),
        cmocka_unit_test(collectives_hold_sms),
        cmocka_unit_test(products_and_traffic_slow_each_other),
        cmocka_unit_test(tiles_cost_what_does_not_depend_on_k),
        cmocka_unit_test(collectives_follow_their_curve),
        cmocka_unit_test(windows_have_a_curve),
        cmocka_unit_test(runs_begin_end_and_land),
        cmocka_unit_test(workers_of_a_pool_go_where_work_is),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(images_stand_for_ranks),
        cmocka_unit_test(a_parked_block_sees_a_flag_as_any_other),
        cmocka_unit_test(patches_may_be_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
