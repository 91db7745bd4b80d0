/* Tests of single prices of the simulator, a closed form each: norms, kernels side by side, flows
 * that cannot use their share of a link, exchanges, small collectives, a pool's sums, small pushes,
 * lines of odd length, what ends a tile, stages, patches, what C held, products that go on. */
#include <math.h>
#include <string.h>

#include "by_hand.h"
#include "core/sim.h"
#include "core/strategy.h"
#include "quiet.h"

enum { SIDE = 64, DEPTH = 64 };

static const double tile_us = 100;                    /* SIDE x SIDE over k DEPTH */
static const double block_bytes = 4.0 * SIDE * DEPTH; /* so many rows of an operand, in f32 */
#define SERIAL "serial{tile_m=64,tile_n=64,windows=0,permute=0}"

static double gbps_of(double blocks, double us)
{
    return blocks * block_bytes / (us * 1e3);
}

static sg_sim_result parts_of(const char *problem, const char *strategy, const sg_machine *machine)
{
    const sg_sim_options options = {.parts = true};
    sg_simulator *const simulator = sg_simulator_new();
    const sg_strategy *of = NULL;
    sg_problem p = problem_of(problem);
    sg_knobs knobs;
    sg_sim_result result = {0};
    bool given = false;
    assert_non_null(simulator);
    if (sg_strategy_parse(strategy, &of, NULL, &knobs, &given) != SHINGLE_OK ||
        sg_simulate_built(simulator, &p, of, &knobs, machine, &options, &result) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    sg_problem_free(&p);
    sg_simulator_free(simulator);
    return result;
}

static double price_of(const char *problem, const char *strategy, const sg_machine *machine)
{
    return parts_of(problem, strategy, machine).us;
}

static double price(const char *problem, const sg_machine *machine)
{
    return price_of(problem, SERIAL, machine);
}

static double seal_and_price(sg_sched *s, int ranks, const sg_machine *machine)
{
    double us = -1;
    for (int r = 0; r < ranks; r++)
        if (sg_sched_seal(&s[r]) != SHINGLE_OK) fail_msg("%s", shingle_error());
    if (sg_sim_us(s, ranks, machine, &us) != SHINGLE_OK) fail_msg("%s", shingle_error());
    for (int r = 0; r < ranks; r++) sg_sched_free(&s[r]);
    return us;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* A norm reads sums and residual, and stores the result and the residual. */
static void norms_move_four_times_their_rows(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(4, SIDE, DEPTH, tile_us);
    m.mem_gbps = gbps_of(4, 40);
    const double sums = price("gemm_rs:f32:128x64x64:r2", &m);
    expect_about_us(price("gemm_rs:f32:128x64x64:r2:norm", &m), sums + 40, 1e-4);
}

/* Products of ours begin and end a run by themselves, in front of a norm of own sums, too; what
 * lies where peers store is normed before the end, and lanes do neither. */
static void a_run_is_begun_and_ended_by_launches(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(4, SIDE, DEPTH, tile_us);
    static const char fused[] =
        "fused_out{subs=1,lag=0,tile_m=64,tile_n=64,once=0,splits=1,strips=1,tagged=0}";
    static const struct {
        const char *problem, *strategy;
        int launches; /* in turn */
    } cases[] = {
        {"gemm_rs:f32:128x64x64:r2", fused, 1},
        {"gemm_rs:f32:128x64x64:r2:norm", fused, 2},
        {"gemm_ar:f32:128x64x64:r2:norm", fused, 2 + 2}, /* a flag, and sums that peers store */
        {"ag_gemm:f32:128x64x64:r2",
         "direct{chunks=1,split=0,blocks=0,tile_m=64,tile_n=64,vendor=0}", 1 + 2},
        {"gemm_rs:f32:128x64x64:r2", SERIAL, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        m.launch_us = 0;
        const double before = price_of(cases[i].problem, cases[i].strategy, &m);
        m.launch_us = 5;
        expect_about_us(price_of(cases[i].problem, cases[i].strategy, &m),
                        before + 5 * cases[i].launches, 1e-4);
    }
}

/* Copies within a rank by SMs, LANES of them side by side. */
static double copies_us(int lanes, const sg_machine *machine)
{
    sg_problem p = problem_of("gemm:f32:64x64x64:r1");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 0);
    const uint8_t from = sg_sched_buf(&s, SG_LOCAL, "from", 256, 64, 0);
    const uint8_t to = sg_sched_buf(&s, SG_LOCAL, "to", 256, 64, 0);
    for (int lane = 0; lane < lanes; lane++) {
        sg_sched_copy(&s, lane, SG_BY_SMS, sg_area_of(0, from, 64 * lane, 64, 0, 64));
        sg_sched_to(&s, sg_area_of(0, to, 64 * lane, 64, 0, 64));
    }
    const double us = seal_and_price(&s, 1, machine);
    sg_problem_free(&p);
    return us;
}

/* A kernel that copies takes a quarter of the SMs and one more, which is enough for the memory; the
 * rest is left to others. */
static void a_quarter_of_the_sms_copies(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(8, SIDE, DEPTH, tile_us);
    m.mem_gbps = gbps_of(2, 12); /* reads one block and stores one */
    expect_us(copies_us(1, &m), 12);
    expect_us(copies_us(2, &m), 12); /* 3 SMs each, and what they do shares nothing */
    m.sms = 2;
    expect_us(copies_us(2, &m), 12);
    m.sms = 1; /* one behind the other */
    expect_us(copies_us(2, &m), 24);
    m.local_gbps = gbps_of(1, 5); /* both ways at once */
    expect_us(copies_us(1, &m), 5);
}

/* ---- Links ----------------------------------------------------------------------------------- */

/* One that cannot use its half of a receiver's port leaves the rest to the other. */
static void what_a_slow_flow_leaves_the_other_has(void **state)
{
    (void)state;
    sg_problem p = problem_of("gemm:f32:64x64x64:r3");
    sg_machine m = quiet_machine(4, SIDE, DEPTH, tile_us);
    m.link_gbps = gbps_of(10, 100);
    m.copy_gbps = gbps_of(9, 100);
    m.store_gbps = gbps_of(2, 100);
    for (int alone = 0; alone < 2; alone++) {
        sg_sched s[3];
        memset(s, 0, sizeof s);
        for (int r = 0; r < 3; r++) {
            sg_sched_begin(&s[r], &p, r);
            const uint8_t inbox = sg_sched_buf(&s[r], SG_SYM, "inbox", 1024, 64, SG_FIXED);
            const uint8_t from = sg_sched_buf(&s[r], SG_LOCAL, "from", 1024, 64, SG_FIXED);
            const int64_t rows = r == 0 ? 8 * 64 : 2 * 64; /* each in 100 us */
            if (r == 2 || (r == 1 && alone)) continue;
            sg_sched_copy(&s[r], 0, r == 0 ? SG_BY_ENGINE : SG_BY_SMS,
                          sg_area_of(r, from, 0, rows, 0, 64));
            sg_sched_to(&s[r], sg_area_of(2, inbox, 512 * r, rows, 0, 64));
        }
        expect_about_us(seal_and_price(s, 3, &m), alone ? 800.0 / 9 : 100, 1e-4);
    }
    sg_problem_free(&p);
}

/* Without a number of its own a link is as fast as the fastest that uses it. */
static void links_are_as_fast_as_what_they_carry(void **state)
{
    (void)state;
    sg_machine m;
    sg_machine_plain(&m);
    m.copy_gbps = 30;
    m.store_gbps = 20;
    m.coll_gbps = 10;
    assert_true(sg_machine_link_gbps(&m) == 30);
    m.store_gbps = 40;
    assert_true(sg_machine_link_gbps(&m) == 40);
    m.coll_gbps = 50;
    assert_true(sg_machine_link_gbps(&m) == 50);
    m.coll_curve[SG_ALL_REDUCE] = (sg_curve){2, {{1e6, 20}, {2e6, 60}}};
    assert_true(sg_machine_link_gbps(&m) == 60);
    m.link_gbps = 15;
    assert_true(sg_machine_link_gbps(&m) == 15);
}

/* In a scatter of one wave, what own tiles are added to is there sooner than what is read, or
 * than what is added up at both ranks. */
static void own_tiles_are_added_to_what_has_landed(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(4, SIDE, DEPTH, tile_us);
    static const struct {
        const char *problem, *strategy;
        double less_us;
    } cases[] = {
        {"gemm_rs:f32:384x64x64:r2", "fused_add{subs=1,lag=0,tile_m=64,tile_n=64,strips=1}", 0},
        {"gemm_rs:f32:128x64x64:r2", "fused_add{subs=1,lag=0,tile_m=64,tile_n=64,strips=1}", 6},
        {"gemm_ar:f32:128x64x64:r2", "fused_add{subs=1,lag=0,tile_m=64,tile_n=64,strips=1}", 0},
        {"gemm_rs:f32:128x64x64:r2",
         "fused_out{subs=1,lag=0,tile_m=64,tile_n=64,once=0,splits=1,strips=1,tagged=0}", 0},
    };
    m.onto_us = 1;
    m.store_us = 10;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        m.landed_us = 0;
        const double before = price_of(cases[i].problem, cases[i].strategy, &m);
        m.landed_us = 4;
        expect_about_us(price_of(cases[i].problem, cases[i].strategy, &m),
                        before - cases[i].less_us, 1e-4);
    }
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* An exchange takes as long as the busiest rank, be it one that receives more than it sends. */
static void exchanges_wait_for_the_busiest(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    m.coll_gbps = gbps_of(1, 10);
    /* All rows to rank 2, which has none; all from rank 0; then one block each way. */
    expect_about_us(price("gemm_a2a:f32:64x64x64:r3:counts=0,0,64/0,0,64/0,0,0", &m), tile_us + 20,
                    1e-4);
    expect_about_us(price("gemm_a2a:f32:128x64x64:r3:counts=0,64,64/0,0,0/0,0,0", &m),
                    2 * tile_us + 20, 1e-4);
    expect_about_us(price("gemm_a2a:f32:64x64x64:r2:counts=0,64/64,0", &m), tile_us + 10, 1e-4);
    /* What stays moves nothing. */
    expect_about_us(price("gemm_a2a:f32:64x64x64:r2:counts=64,0/0,64", &m), tile_us, 1e-4);
}

/* A curve knows even shares alone: others are read off it where as much is moved. */
static void uneven_shares_move_as_even_ones(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    const double message = 2 * block_bytes; /* of which each of two ranks moves a block */
    const sg_curve curve = {2, {{message, gbps_of(1, 20)}, {2 * message, gbps_of(2, 22)}}};
    m.coll_curve[SG_ALL_TO_ALL] = m.coll_curve[SG_ALL_GATHER] = curve;
    const double one = price("gemm:f32:64x64x64:r1", &m);
    const double two = price("gemm:f32:128x64x64:r1", &m);
    const double three = price("gemm:f32:192x64x64:r1", &m);
    static const char ragged[] = "ag_gemm:f32:192x64x64:r2:rows=64,128";
    expect_about_us(price("gemm_a2a:f32:128x64x64:r2:counts=64,64/64,64", &m), two + 20, 1e-4);
    expect_about_us(price("gemm_a2a:f32:64x64x64:r2:counts=0,64/0,64", &m), one + 20, 1e-4);
    expect_about_us(price("gemm_a2a:f32:192x64x64:r2:counts=64,128/64,128", &m), three + 22, 1e-4);
    expect_about_us(price(ragged, &m), three + 22, 1e-4);
    m.ragged_us = 7;
    m.ragged_gbps = gbps_of(1, 5);
    m.coll_us = 14;
    expect_about_us(price(ragged, &m), three + 2 * 7 + 2 * 5, 1e-4);
    /* None takes less than as much in even shares. */
    expect_about_us(price("ag_gemm:f32:128x64x64:r2:rows=128,0", &m), two + 20, 1e-4);
    expect_about_us(price("ag_gemm:f32:128x64x64:r2", &m), two + 20, 1e-4);
    expect_about_us(price("gemm_a2a:f32:64x64x64:r2:counts=0,64/0,64", &m), one + 20, 1e-4);
    m.coll_us = 3; /* of little data they hide each other */
    m.coll_curve[SG_ALL_GATHER].points = 0;
    expect_about_us(price(ragged, &m), three + 3 + 2 * block_bytes / 80e3 + 2 * 5, 1e-4);
}

static void collectives_take_turns_with_products(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    m.coll_gbps = gbps_of(1, 10);
    static const char *const problem[] = {"ag_gemm:f32:128x64x64:r2", "gemm_rs:f32:128x64x64:r2",
                                          "gemm:f32:128x64x64:r1"};
    double before[3];
    for (int i = 0; i < 3; i++) before[i] = price(problem[i], &m);
    m.turn_us = 3;
    for (int i = 0; i < 3; i++) expect_us(price(problem[i], &m), before[i] + (i < 2 ? 3 : 0));
    /* On lanes of their own they have nobody to take turns with. */
    const char sliced[] = "sliced{slices=2,sms=0,blocks=1,tile_m=64,tile_n=64,by=0}";
    const double beside = price_of(problem[1], sliced, &m);
    m.turn_us = 0;
    expect_us(price_of(problem[1], sliced, &m), beside);
}

/* Below the first point of a curve: from the start-up, or from what the point itself takes if that
 * is less. */
static void small_collectives_start_up(void **state)
{
    (void)state;
    sg_machine m;
    sg_machine_plain(&m);
    m.coll_us = 4;
    m.coll_curve[SG_ALL_GATHER] = (sg_curve){2, {{1e6, 100}, {2e6, 160}}};
    expect_us(sg_machine_coll_us(&m, SG_ALL_GATHER, 1e6, 1e6), 10);
    expect_us(sg_machine_coll_us(&m, SG_ALL_GATHER, 5e5, 5e5), 7);
    expect_us(sg_machine_coll_us(&m, SG_ALL_GATHER, 0, 0), 4);
    expect_us(sg_machine_coll_us(&m, SG_ALL_GATHER, 2e6, 2e6), 12.5);
    expect_us(sg_machine_coll_us(&m, SG_ALL_GATHER, 1.5e6, 1.5e6), 11.25);
    expect_us(sg_machine_coll_us(&m, SG_ALL_GATHER, 8e6, 8e6), 50);
    expect_us(sg_machine_coll_us(&m, SG_ALL_GATHER, 8e6, 4e6), 25);
    m.coll_us = 50;
    expect_us(sg_machine_coll_us(&m, SG_ALL_GATHER, 5e5, 5e5), 10);
    expect_us(sg_machine_coll_us(&m, SG_ALL_GATHER, 1e6, 1e6), 10);
    m.coll_gbps = 20; /* without a curve */
    expect_us(sg_machine_coll_us(&m, SG_ALL_REDUCE, 1e6, 1e6), 50 + 50);
}

/* ---- Pools ----------------------------------------------------------------------------------- */

/* A worker's sums and norms go through the memory: an addend is read and added to what is there,
 * and a norm takes rows, residual and squares, there and back. */
static void workers_pay_for_memory(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    m.pool = 1;
    const double sums = price("gemm_rs:f32:128x64x64:r2", &m);
    expect_about_us(price("gemm_rs:f32:128x64x64:r2:norm", &m), sums, 1e-4);
    m.mem_gbps = gbps_of(1, 10); /* of each rank; one works for both */
    expect_about_us(price("gemm_rs:f32:128x64x64:r2", &m), sums, 1e-4);
    expect_about_us(price("gemm_rs:f32:128x64x64:r2:norm", &m), sums + 10 * (2 + 6), 1e-4);
}

/* ---- Gathers --------------------------------------------------------------------------------- */

#define IN_PARTS "fused_in{chunks=1,slabs=4,tile_m=64,tile_n=64,push=1,strips=1}"
#define WHOLE "fused_in{chunks=1,slabs=1,tile_m=64,tile_n=64,push=1,strips=1}"

/* Behind the first, whose rows are looked for before. */
static void small_pushes_take_their_time(void **state)
{
    (void)state;
    static const char problem[] = "ag_gemm:f32:128x64x64:r2";
    sg_machine m = quiet_machine(2, SIDE, DEPTH, tile_us);
    m.store_gbps = gbps_of(1, 80);
    expect_us(price_of(problem, IN_PARTS, &m), 20 + tile_us);
    m.push_us = 20;
    expect_us(price_of(problem, IN_PARTS, &m), 20 + tile_us);
    m.push_us = 30;
    expect_us(price_of(problem, IN_PARTS, &m), 20 + 3 * 30 + tile_us / 4);
    expect_us(price_of(problem, WHOLE, &m), 80 + tile_us);
}

/* Rows of 60 numbers begin at odd 16 bytes, which holds nobody up who is slower; those of 64 do
 * not. */
static void lines_in_five_sectors_are_brought_more_slowly(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(2, SIDE, DEPTH, tile_us);
    m.store_gbps = gbps_of(1, 80);
    expect_us(price_of("ag_gemm:f32:128x64x60:r2", WHOLE, &m), 75 + tile_us * 60 / 64);
    m.odd_gbps = gbps_of(2, 90);
    expect_us(price_of("ag_gemm:f32:128x64x60:r2", WHOLE, &m), 75 + tile_us * 60 / 64);
    m.odd_gbps = gbps_of(2, 160);
    expect_us(price_of("ag_gemm:f32:128x64x60:r2", WHOLE, &m), 75 + 150);
    expect_us(price_of("ag_gemm:f32:128x64x64:r2", WHOLE, &m), 80 + tile_us);
}

/* A tile of 96 columns leaves in three pieces, and holds the next one up if that takes longer; one
 * of 64 leaves as it is. */
static void narrow_pieces_hold_the_next_tile_up(void **state)
{
    (void)state;
    static const char wide[] = "fused_in{chunks=1,slabs=1,tile_m=64,tile_n=96,push=1,strips=1}";
    sg_machine m = quiet_machine(2, SIDE, DEPTH, tile_us);
    m.store_gbps = gbps_of(1, 80);
    const double us = price_of("ag_gemm:f32:128x96x64:r2", wide, &m);
    m.piece_us = us / 4; /* less than the tile takes, until the rows have come left out */
    const double held = price_of("ag_gemm:f32:128x96x64:r2", wide, &m);
    expect_us(held, 80 + fmax(us - 80, 3 * us / 4));
    m.piece_us = us;
    expect_us(price_of("ag_gemm:f32:128x96x64:r2", wide, &m), 80 + 3 * us);
    expect_us(price_of("ag_gemm:f32:128x64x64:r2", WHOLE, &m), 80 + tile_us);
}

#define ALONE "alone{tile_m=64,tile_n=64}"
#define SUMS "fused_out{subs=1,lag=0,tile_m=64,tile_n=64,once=0,splits=1,strips=1,tagged=0}"

/* Of a tile of an eighth of the numbers that a machine's file speaks of.  The vendor's product
 * takes bias and relu with it, and a gate is not the vendor's; nor are sums that go to others
 * finished. */
static void what_ends_a_tile_has_its_price(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    m.bias_us = 8, m.relu_us = 16, m.gate_us = 32;
    expect_us(price_of("gemm:f32:128x64x64:r1", ALONE, &m), 2 * tile_us);
    expect_us(price_of("gemm:f32:128x64x64:r1:bias", ALONE, &m), 2 * (tile_us + 1));
    expect_us(price_of("gemm:f32:128x64x64:r1:relu", ALONE, &m), 2 * (tile_us + 2));
    expect_us(price_of("gemm:f32:128x64x64:r1:bias:gelu", ALONE, &m), 2 * (tile_us + 5));
    expect_us(price_of("gemm:f32:128x64x64:r1:silu", ALONE, &m), 2 * (tile_us + 4));
    expect_us(price_of("gemm_rs:f32:128x64x64:r2:silu", SUMS, &m), 2 * tile_us + 4);
    expect_us(price("gemm:f32:128x64x64:r1:bias:relu", &m), 2 * tile_us);
    expect_us(price("gemm:f32:128x64x64:r1:bias:silu", &m), 2 * (tile_us + 5));
    /* In turn with another tile, a third of that hides it; the last one shows. */
    m.tile[0].late = 0.5;
    expect_us(price_of("gemm:f32:256x64x64:r1:silu", ALONE, &m), 4 * tile_us + 4);
    expect_us(price("gemm:f32:256x64x64:r1:silu", &m), 4 * tile_us + 4);
    m.gate_us = 8 * 60; /* of which 35 are hidden, less what stores the tile */
    const double stored = 2.66 / 8;
    expect_us(price_of("gemm:f32:256x64x64:r1:silu", ALONE, &m), 4 * 160 - 3 * (35 - stored));
    expect_us(price("gemm:f32:256x64x64:r1:silu", &m), 4 * 160 - 3 * (35 - stored));
}

/* Whatever a tile takes, the communication alone takes as long. */
static void what_tiles_take_is_no_communication(void **state)
{
    (void)state;
    static const char ends[] = "gemm_rs:f32:128x64x64:r2:bias:silu";
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    m.store_gbps = gbps_of(1, 30);
    const sg_sim_result plain = parts_of(ends, SUMS, &m);
    assert_true(plain.comm_us > 0);
    m.bias_us = m.gate_us = 80;
    m.add_us = m.here_us = 5;
    m.stage_us = m.stage_least_us = 7;
    m.visit_us = 11;
    const sg_sim_result slow = parts_of(ends, SUMS, &m);
    assert_true(slow.us > plain.us + 11);
    expect_about_us(slow.comm_us, plain.comm_us, 1e-6);
}

/* Of counts that differ a rank waits for what others store into its C, not for what it stores. */
static void what_others_store_lands(void **state)
{
    (void)state;
    static const char counts[] = "gemm_a2a:f32:128x64x64:r2:counts=0,128/0,0";
    sg_machine m = quiet_machine(2, SIDE, DEPTH, tile_us);
    const double before = price_of(counts, SUMS, &m);
    m.land_gbps = gbps_of(2, 500);
    expect_us(price_of(counts, SUMS, &m), before + 500);
}

/* A gated product of ours is in a tile of 64x64 where the file's are too large for the SMs, and its
 * stages are no shorter. */
static void few_tiles_that_end_in_a_gate_are_small(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(1, 2 * SIDE, DEPTH, tile_us);
    m.gate_us = 32;
    expect_us(price("gemm:f32:64x64x64:r1", &m), tile_us / 4);
    expect_us(price("gemm:f32:64x64x64:r1:silu", &m), tile_us / 4 + 4);
    m.stage_least_us = tile_us / 2;
    expect_us(price("gemm:f32:64x64x64:r1:silu", &m), tile_us / 2 + 4);
}

/* Stages of k come one behind the other, however few there are beside them. */
static void no_stage_is_shorter_than_the_least(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    m.stage_least_us = 0.9 * tile_us;
    expect_us(price_of("gemm:f32:128x64x128:r1", ALONE, &m), 4 * tile_us);
    m.stage_least_us = 1.5 * tile_us;
    expect_us(price_of("gemm:f32:128x64x128:r1", ALONE, &m), 4 * 1.5 * tile_us);
}

/* Ten pieces of each of two owners: twelve patches more than a few, of low bands by themselves. */
static void many_patches_are_walked(void **state)
{
    (void)state;
    static const char turns[] = "gemm_rs:f32:640x64x64:r2:cyclic=32";
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    expect_us(price_of(turns, SUMS, &m), 20 * tile_us);
    m.patch_us = 3;
    expect_us(price_of(turns, SUMS, &m), 20 * tile_us / 0.7 + 12 * 3);
    expect_us(price_of("gemm_rs:f32:640x64x64:r2", SUMS, &m), 10 * tile_us);
}

/* What C held, by itself; not what others send. */
static void what_c_held_has_its_price(void **state)
{
    (void)state;
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    m.add_us = 7;
    expect_us(price_of("gemm:f32:128x64x64:r1:accumulate", ALONE, &m), 2 * (tile_us + 7));
    m.here_us = 3;
    expect_us(price_of("gemm:f32:128x64x64:r1:accumulate", ALONE, &m), 2 * (tile_us + 3));
    expect_us(price_of("gemm_rs:f32:128x64x64:r2", SUMS, &m), 2 * tile_us + 7);
}

/* Own k first; then the other's, as soon as it has come.  Nothing is added up. */
static void products_go_on_when_columns_have_come(void **state)
{
    (void)state;
    static const char problem[] = "ag_gemm:f32:64x64x128:r2:gather=k";
    static const char by[] = "fused_in{chunks=1,slabs=1,tile_m=64,tile_n=64,push=0,strips=1}";
    sg_machine m = quiet_machine(1, SIDE, DEPTH, tile_us);
    m.add_us = 7;
    expect_us(price_of(problem, by, &m), 2 * tile_us);
    m.copy_gbps = gbps_of(1, 0.9 * tile_us);
    expect_us(price_of(problem, by, &m), 2 * tile_us);
    m.copy_gbps = gbps_of(1, 1.5 * tile_us);
    expect_us(price_of(problem, by, &m), 2.5 * tile_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_move_four_times_their_rows),
        cmocka_unit_test(a_run_is_begun_and_ended_by_launches),
        cmocka_unit_test(a_quarter_of_the_sms_copies),
        cmocka_unit_test(what_a_slow_flow_leaves_the_other_has),
        cmocka_unit_test(links_are_as_fast_as_what_they_carry),
        cmocka_unit_test(own_tiles_are_added_to_what_has_landed),
        cmocka_unit_test(exchanges_wait_for_the_busiest),
        cmocka_unit_test(uneven_shares_move_as_even_ones),
        cmocka_unit_test(collectives_take_turns_with_products),
        cmocka_unit_test(small_collectives_start_up),
        cmocka_unit_test(workers_pay_for_memory),
        cmocka_unit_test(small_pushes_take_their_time),
        cmocka_unit_test(lines_in_five_sectors_are_brought_more_slowly),
        cmocka_unit_test(narrow_pieces_hold_the_next_tile_up),
        cmocka_unit_test(what_ends_a_tile_has_its_price),
        cmocka_unit_test(what_tiles_take_is_no_communication),
        cmocka_unit_test(what_others_store_lands),
        cmocka_unit_test(few_tiles_that_end_in_a_gate_are_small),
        cmocka_unit_test(no_stage_is_shorter_than_the_least),
        cmocka_unit_test(many_patches_are_walked),
        cmocka_unit_test(what_c_held_has_its_price),
        cmocka_unit_test(products_go_on_when_columns_have_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
