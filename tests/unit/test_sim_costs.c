/* Tests of what a product pays for beside its multiply-adds, each against times counted
 * by hand: operands that are read again, sums behind the product, what its storers push,
 * and lanes that wait for it. */
#include <string.h>

#include "core/sim.h"
#include "core/strategy.h"
#include "quiet.h"

enum { SIDE = 64, DEPTH = 64 };

static const double tile_us = 100; /* SIDE x SIDE over k DEPTH */
static const double block_bytes =
    4.0 * SIDE * DEPTH; /* that many rows of an operand, or a tile, in f32 */

/* SMS tiles at once. */
static sg_machine quiet(int sms)
{
    return quiet_machine(sms, SIDE, DEPTH, tile_us);
}

/* Rates at which BLOCKS of block_bytes take US. */
static double gbps_of(double blocks, double us)
{
    return blocks * block_bytes / (us * 1e3);
}

static sg_sim_result parts_of(const char *problem, const char *strategy, const sg_machine *machine)
{
    const sg_sim_options options = {.parts = true};
    sg_simulator *const simulator = sg_simulator_new();
    const sg_strategy *of = NULL;
    sg_problem p;
    sg_knobs knobs;
    sg_sim_result result = {0};
    bool given = false;
    assert_non_null(simulator);
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    if (sg_strategy_parse(strategy, &of, NULL, &knobs, &given) != SHINGLE_OK ||
        sg_simulate_built(simulator, &p, of, &knobs, machine, &options, &result) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    sg_problem_free(&p);
    sg_simulator_free(simulator);
    return result;
}

static double price(const char *problem, const char *strategy, const sg_machine *machine)
{
    return parts_of(problem, strategy, machine).us;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

#define SERIAL "serial{tile_m=64,tile_n=64,windows=0,permute=0}"
#define ALONE "alone{tile_m=64,tile_n=64}"
#define GATHER "fused_in{chunks=1,slabs=1,tile_m=64,tile_n=64,push=0,strips=%d}"
#define PUSHED "fused_in{chunks=1,slabs=%d,tile_m=64,tile_n=64,push=1,strips=1}"
#define AT_ONCE "fused_out{subs=1,lag=0,tile_m=64,tile_n=64,once=1,splits=1,strips=1,tagged=0}"
#define CUT "fused_out{subs=1,lag=0,tile_m=64,tile_n=64,once=0,splits=2,strips=1,tagged=0}"
#define IN_STRIPS "fused_out{subs=1,lag=0,tile_m=64,tile_n=64,once=1,splits=1,strips=2,tagged=0}"
#define IN_SLICES "fused_out{subs=3,lag=1,tile_m=64,tile_n=64,once=0,splits=1,strips=1,tagged=0}"
#define SCATTER "fused_out{subs=1,lag=0,tile_m=64,tile_n=64,once=0,splits=1,strips=1,tagged=0}"

static double gathered(int strips, const char *problem, const sg_machine *m)
{
    char text[96];
    sg_text strategy = {text, sizeof text, 0};
    sg_text_add(&strategy, GATHER, strips);
    return price(problem, text, m);
}

/* The longer of both, and a part of the shorter one by its share of the longer. */
static void a_part_of_memory_shows(void **state)
{
    (void)state;
    sg_machine m = quiet(1);
    expect_us(price("gemm:f32:64x64x64:r1", SERIAL, &m), tile_us);
    m.mem_gbps = gbps_of(3, 40); /* two operands and the result */
    expect_us(price("gemm:f32:64x64x64:r1", SERIAL, &m), tile_us);
    m.mem_part = 0.25;
    expect_us(price("gemm:f32:64x64x64:r1", SERIAL, &m), tile_us + 0.25 * 40 * 0.4);
    /* Own rows and the peer's: each of both patches reads all that it needs. */
    expect_us(gathered(1, "ag_gemm:f32:128x64x64:r2", &m), 2 * (tile_us + 0.25 * 40 * 0.4));
    m.mem_gbps = gbps_of(3, tile_us);
    expect_us(price("gemm:f32:64x64x64:r1", SERIAL, &m), 1.25 * tile_us);
    m.mem_gbps = gbps_of(3, 2 * tile_us);
    expect_us(price("gemm:f32:64x64x64:r1", SERIAL, &m), 2 * tile_us + 0.25 * tile_us / 2);
}

/* Tiles side by side that read the same columns read them once. */
static void what_runs_side_by_side_shares_columns(void **state)
{
    (void)state;
    sg_machine m = quiet(2);
    m.mem_gbps = gbps_of(3, 60);
    m.mem_part = 0.25;
    /* Each of both patches reads half of them. */
    expect_us(gathered(1, "ag_gemm:f32:128x64x64:r2", &m), tile_us + 0.25 * 50 * 0.5);
    const double whole = gathered(1, "ag_gemm:f32:128x256x64:r2", &m);
    const double strips = gathered(4, "ag_gemm:f32:128x256x64:r2", &m);
    assert_true(strips < whole - 1);
}

/* In a last wave that not all blocks have a tile of, each has more of the memory. */
static void few_tiles_share_the_memory(void **state)
{
    (void)state;
    sg_machine m = quiet(2);
    m.mem_gbps = gbps_of(2, 300);
    /* A tile reads its rows and a third of the columns, and stores one block. */
    expect_us(price("gemm:f32:128x64x64:r1", ALONE, &m), 300 * 2.5);
    expect_us(price("gemm:f32:192x64x64:r1", ALONE, &m), 300 * (7.0 / 3) * 1.5);
    expect_us(price("gemm:f32:256x64x64:r1", ALONE, &m), 300 * 2.25 * 2);
}

/* One SM alone does not read as fast as the memory could. */
static void one_sm_reads_so_fast(void **state)
{
    (void)state;
    sg_machine m = quiet(2);
    m.mem_gbps = gbps_of(2, 300);
    expect_us(price("gemm:f32:64x64x64:r1", ALONE, &m), 300 * 1.5);
    m.sm_gbps = gbps_of(2, 400);
    expect_us(price("gemm:f32:64x64x64:r1", ALONE, &m), 400 * 1.5);
    expect_us(price("gemm:f32:128x64x64:r1", ALONE, &m), 300 * 2.5); /* two share the memory */
    m.sm_gbps = gbps_of(2, 250);
    expect_us(price("gemm:f32:64x64x64:r1", ALONE, &m), 300 * 1.5);
}

/* What STEP_US of memory become beside DEEP_US of products where two tiles read US of columns
 * side by side: the nearer both come, the more of these each reads by itself. */
static double drifted(double step_us, double deep_us, double us)
{
    return step_us + us / 2 * 0.6 * fmin(1, fmax(0, (step_us / deep_us - 0.6) / 0.4));
}

/* Of columns that no cache holds, tiles that have waited long for rows find nothing there any
 * more. */
static void who_waits_falls_behind(void **state)
{
    (void)state;
    enum { BLOCKS = 4096 }; /* of k: 67 MB for a tile's columns */
    sg_machine m = quiet(2);
    const double near = 1e-4; /* a block of 4096 more or less */
    const double deep_us = tile_us * BLOCKS;
    m.mem_gbps = gbps_of(2, 50);
    m.mem_part = 0.25;
    /* Two blocks read rows and the same columns at the same time, and store one block each. */
    const double step = drifted(50 * (1.5 * BLOCKS + 1), deep_us, 50.0 * BLOCKS);
    const double beside = deep_us + 0.25 * step * step / deep_us;
    expect_about_us(price("gemm_a2a:f32:128x64x262144:r2", SCATTER, &m), beside, near);
    /* Until then a third of 34 MB are read twice: what has been read is still there. */
    const double soon_us = 50.0 * BLOCKS / 6;
    m.copy_gbps = gbps_of(BLOCKS, soon_us);
    expect_about_us(gathered(1, "ag_gemm:f32:128x64x262144:r2", &m), soon_us + beside, near);
    /* 48 MB: half of it is. */
    const double full_us = 48e6 / (m.mem_gbps * 1e3);
    const double half = 50 * (1.75 * BLOCKS + 1);
    m.copy_gbps = gbps_of(BLOCKS, full_us);
    expect_about_us(gathered(1, "ag_gemm:f32:128x64x262144:r2", &m),
                    full_us + deep_us + 0.25 * half * half / deep_us, near);
    m.copy_gbps = gbps_of(BLOCKS, 50.0 * BLOCKS); /* twice 67 MB */
    const double apart = 50 * (2 * BLOCKS + 1);
    expect_about_us(gathered(1, "ag_gemm:f32:128x64x262144:r2", &m),
                    50.0 * BLOCKS + deep_us + 0.25 * apart * apart / deep_us, near);
    /* Parts of k: own rows begin before the first one has come, and have a fifth of their time left
     * when the second has. */
    static const char *const halves =
        "fused_in{chunks=1,slabs=2,tile_m=64,tile_n=64,push=0,strips=1}";
    const double own_us = deep_us + 0.25 * apart * apart / deep_us;
    const double late = apart * (0.5 + (own_us - 100.0 * BLOCKS) / own_us);
    m.copy_gbps = gbps_of(BLOCKS, 100.0 * BLOCKS);
    expect_about_us(price("ag_gemm:f32:128x64x262144:r2", halves, &m),
                    50.0 * BLOCKS + deep_us + 0.25 * late * late / deep_us, near);
    /* So do rows of two peers, which one engine of each rank brings at different moments. */
    m.sms = 3;
    m.gemm_tflops[SG_F32] *= 1.5;
    m.mem_gbps = gbps_of(3, 50);
    const double lag_us = 50.0 * BLOCKS / 3;
    m.copy_gbps = gbps_of(BLOCKS, lag_us);
    expect_about_us(gathered(1, "ag_gemm:f32:192x64x262144:r3", &m),
                    2 * lag_us + deep_us + 0.25 * apart * apart / deep_us, near);
}

/* A strip of columns that a cache holds is read once by all rows that meet it; what it takes of the
 * memory, other strips do not have. */
static void a_held_strip_is_read_once(void **state)
{
    (void)state;
    enum { BLOCKS = 1700 }; /* of k: strips of 28 of 56 MB; of 4096 67 of 134 */
    static const char strips[] =
        "fused_out{subs=1,lag=0,tile_m=64,tile_n=64,once=0,splits=1,strips=2,tagged=0}";
    const double near = 1e-4;
    for (int sms = 1; sms <= 2; sms++) {
        sg_machine m = quiet(sms);
        m.mem_gbps = gbps_of(sms, 50);
        m.mem_part = 0.25;
        const double deep_us = tile_us * BLOCKS;
        const double step = drifted(50 * (1.5 * BLOCKS + 1), deep_us, 50.0 * BLOCKS);
        expect_about_us(price("gemm_a2a:f32:128x128x108800:r2", strips, &m),
                        4.0 / sms * (deep_us + 0.25 * step * step / deep_us), near);
    }
    sg_machine m = quiet(1);
    m.mem_gbps = gbps_of(1, 50);
    m.mem_part = 0.25;
    const double deeper_us = tile_us * 4096;
    const double apart = 50 * (2 * 4096 + 1);
    expect_about_us(price("gemm_a2a:f32:128x128x262144:r2", strips, &m),
                    4 * (deeper_us + 0.25 * apart * apart / deeper_us), near);
}

/* What has arrived is added when the product is done. */
static void sums_come_behind_the_product(void **state)
{
    (void)state;
    sg_machine m = quiet(1);
    expect_us(price("gemm_rs:f32:128x64x64:r2", SCATTER, &m), 2 * tile_us);
    m.mem_gbps = gbps_of(1, 20); /* operands and result of a tile take 60, hidden */
    expect_us(price("gemm_rs:f32:128x64x64:r2", SCATTER, &m), 2 * tile_us + 10);
}

/* Each of them costs a tile its time; under a product those behind the first one may cost less. */
static void addends_cost_by_number(void **state)
{
    (void)state;
    sg_machine m = quiet(1);
    m.add_us = 7;
    expect_us(price("gemm:f32:128x64x64:r1", ALONE, &m), 2 * tile_us);
    expect_us(price("gemm_rs:f32:128x64x64:r2", SCATTER, &m), 2 * tile_us + 7);
    expect_us(price("gemm_rs:f32:192x64x64:r3", SCATTER, &m), 3 * tile_us + 2 * 7);
    expect_us(price("gemm_ar:f32:64x64x64:r3", AT_ONCE, &m), tile_us + 3 * 7);
    m.more_add_us = 3;
    expect_us(price("gemm_rs:f32:128x64x64:r2", SCATTER, &m), 2 * tile_us + 7);
    expect_us(price("gemm_rs:f32:256x64x64:r4", SCATTER, &m), 4 * tile_us + 7 + 2 * 3);
    expect_us(price("gemm_ar:f32:64x64x64:r3", AT_ONCE, &m), tile_us + 3 * 7); /* no product */
}

/* All tiles at once: addends come when the products are over, and two behind the first one at most
 * take their time from then on.  In several waves a tile's product is over before.  What is done to
 * a sum is done behind the last of them. */
static void addends_of_one_wave_come_late(void **state)
{
    (void)state;
    sg_machine m = quiet(8);
    m.store_us = 40;
    m.add_us = 7;
    m.more_add_us = 3;
    expect_us(price("gemm_rs:f32:128x64x64:r2", SCATTER, &m), tile_us + 40);
    expect_us(price("gemm_rs:f32:192x64x64:r3", SCATTER, &m), tile_us + 40 + 7);
    expect_us(price("gemm_rs:f32:256x64x64:r4", SCATTER, &m), tile_us + 40 + 2 * 7);
    expect_us(price("gemm_rs:f32:320x64x64:r5", SCATTER, &m), tile_us + 40 + 2 * 7);
    m.gate_us = 8 * 5;
    expect_us(price("gemm_rs:f32:128x64x64:r2:silu", SCATTER, &m), tile_us + 40 + 5);
    expect_us(price("gemm_rs:f32:192x64x64:r3:silu", SCATTER, &m), tile_us + 40 + 7 + 5);
    m.sms = 3;
    m.gemm_tflops[SG_F32] *= 3.0 / 8;
    expect_us(price("gemm_rs:f32:256x64x64:r4", SCATTER, &m), 2 * tile_us + 7 + 2 * 3);
}

/* Sums in f32, which parts of k hand on, are twice as much as what ranks send of 16 bits. */
static void wide_addends_count_twice(void **state)
{
    (void)state;
    sg_machine m = quiet(1);
    m.add_us = 7;
    m.more_add_us = 3;
    m.gemm_tflops[SG_BF16] = m.gemm_tflops[SG_F32];
    const char *const of_f32 = "gemm_rs:f32:128x64x64:r2";
    const char *const of_bf16 = "gemm_rs:bf16:128x64x64:r2";
    expect_us(price(of_f32, CUT, &m), price(of_f32, SCATTER, &m) + 7 + 3);
    expect_us(price(of_bf16, CUT, &m), price(of_bf16, SCATTER, &m) + 2 * 7 + 2 * 7 + 3 - 7);
}

/* Up to three come under the next product, if that takes long enough and
 * nothing else is done to the sum. */
static void tiles_of_some_shapes_hide_addends(void **state)
{
    (void)state;
    sg_machine m = quiet(1);
    m.add_us = 8;
    m.tile[0].late = 0.25;
    expect_us(price("gemm_rs:f32:128x64x64:r2", SCATTER, &m), 2 * tile_us + 2);
    expect_us(price("gemm_rs:f32:256x64x64:r4", SCATTER, &m), 4 * tile_us + 3 * 2);
    expect_us(price("gemm_rs:f32:320x64x64:r5", SCATTER, &m), 5 * tile_us + 4 * 8);
    expect_us(price("gemm_rs:f32:128x64x64:r2:relu", SCATTER, &m), 2 * tile_us + 8);
    m.add_us = tile_us / 2;
    expect_us(price("gemm_rs:f32:128x64x64:r2", SCATTER, &m), 2 * tile_us + m.add_us);
}

/* A block of such tiles multiplies another one while one waits for what others send: own tiles of
 * the first strip, and then the others' of the second. */
static void tiles_in_turn_wait_beside_others(void **state)
{
    (void)state;
    sg_machine m = quiet(2);
    m.store_us = 1.5 * tile_us;
    expect_us(price("gemm_rs:f32:128x256x64:r2", IN_STRIPS, &m), 2 * (tile_us + m.store_us));
    m.tile[0].late = 0.5;
    expect_us(price("gemm_rs:f32:128x256x64:r2", IN_STRIPS, &m), 3 * tile_us + m.store_us);
}

/* Of three slices own ones follow by one: the first sum leaves before the last slice of the other's
 * rows, and takes the link twice as long; of whole rows none does. */
static void sums_amid_others_take_the_link_longer(void **state)
{
    (void)state;
    const char *const problem = "gemm_ar:f32:384x64x64:r2";
    sg_machine m = quiet(1);
    m.store_gbps = gbps_of(1, 150);
    const double slices = price(problem, IN_SLICES, &m);
    const double whole = price("gemm_ar:f32:128x64x64:r2", SCATTER, &m);
    expect_us(slices, tile_us + 6 * 150);
    m.amid_part = 2;
    expect_us(price(problem, IN_SLICES, &m), slices + 150);
    expect_us(price("gemm_ar:f32:128x64x64:r2", SCATTER, &m), whole);
}

/* Who waits for rows is fed less than it multiplies, the smaller its tiles; own rows are not. */
static void small_tiles_that_wait_are_fed_less(void **state)
{
    (void)state;
    const double enough = (1.0 / 128 + 1.0 / 160) / (2.0 / SIDE);
    sg_machine m = quiet(1);
    m.fed_part = 0.8;
    expect_us(gathered(1, "ag_gemm:f32:128x64x64:r2", &m), tile_us + tile_us / 0.8);
    m.fed_part = 0.3;
    expect_us(gathered(1, "ag_gemm:f32:128x64x64:r2", &m), tile_us + tile_us / enough);
    expect_us(price("gemm_rs:f32:128x64x64:r2", SCATTER, &m), 2 * tile_us);
}

/* A vendor's product of few columns does not ask for all that the memory gives. */
static void few_columns_ask_for_less(void **state)
{
    (void)state;
    sg_machine m = quiet(1);
    m.mem_gbps = gbps_of(3, 200);
    expect_us(price("gemm:f32:64x64x64:r1", SERIAL, &m), 200);
    m.asked_cols = SIDE / 2.0;
    expect_us(price("gemm:f32:64x64x64:r1", SERIAL, &m), 200 / (1 - exp(-2)));
    expect_us(price("gemm:f32:64x64x64:r1", ALONE, &m), 200);
    /* Eight times 256 rows have as many tiles as 256 of eight times the columns. */
    m.mem_gbps = gbps_of(32 + 1 + 32, 32 * 200);
    expect_us(price("gemm:f32:2048x64x64:r1", SERIAL, &m), 32 * 200 / (1 - exp(-16)));
}

/* SMs without a tile leave power to the others: in a launch of few tiles,
 * and at the end of another. */
/* A lower tile takes what the lowest one of the file takes, and a narrow one what 32 columns take:
 * no GPU has a kernel for less.  Workers of a pool do. */
static void tiles_have_a_least_size(void **state)
{
    (void)state;
    sg_machine m = quiet(4);
    const double whole = price("gemm:f32:64x64x64:r1", ALONE, &m);
    expect_us(price("gemm:f32:16x64x64:r1", "alone{tile_m=16,tile_n=64}", &m), whole);
    expect_us(price("gemm:f32:64x8x64:r1", "alone{tile_m=64,tile_n=8}", &m), whole / 2);
    expect_us(price("gemm:f32:1x1x64:r1", "alone{tile_m=1,tile_n=1}", &m), whole / 2);
    assert_true(sg_machine_tile_part(&m, 64, 32) == 1 && sg_machine_tile_part(&m, 16, 16) == 8);
    m.pool = 4;
    assert_true(sg_machine_tile_part(&m, 16, 16) == 1);
}

/* What copies cost the vendor's product is contention, as it is of ours. */
static void vendors_contend_as_others(void **state)
{
    (void)state;
    static const char *const ring =
        "ring{sub=2,split=0,blocks=100,tile_m=128,tile_n=128,both=0,vendor=1,taper=0}";
    static const char *const problem = "gemm_rs:bf16:8192x8192x2048:r4";
    sg_machine m;
    sg_machine_plain(&m);
    const sg_sim_result calm = parts_of(problem, ring, &m);
    m.vendor_by_copy = 1.5;
    const sg_sim_result beside = parts_of(problem, ring, &m);
    assert_true(beside.us > 1.05 * calm.us);
    assert_true(beside.contention_us > 0.8 * (beside.us - calm.us)); /* some of it hides latency */
    expect_us(beside.exposed_us, calm.exposed_us);
}

static void few_tiles_go_faster(void **state)
{
    (void)state;
    sg_machine m = quiet(4);
    m.idle_part = 0.4;
    expect_us(price("gemm:f32:256x64x64:r1", ALONE, &m), tile_us);
    expect_us(price("gemm:f32:64x64x64:r1", ALONE, &m), tile_us * 0.7);
    expect_us(price("gemm:f32:384x64x64:r1", ALONE, &m), tile_us + tile_us * 0.8);
}

/* 76 tiles are two waves of 38 SMs, 66 would be two of 33: those take all 40, and then 26. */
static void tiles_are_dealt_evenly(void **state)
{
    (void)state;
    sg_machine m = quiet(40);
    m.idle_part = 0.4;
    expect_us(price("gemm:f32:4864x64x64:r1", ALONE, &m), 2 * tile_us * (1 - 0.4 * 2 / 40));
    expect_us(price("gemm:f32:4224x64x64:r1", ALONE, &m), tile_us + tile_us * (1 - 0.4 * 14 / 40));
}

/* The first microseconds of a run go faster, the vendor's by a factor of its own. */
static void the_vendor_has_a_burst_of_its_own(void **state)
{
    (void)state;
    sg_machine m = quiet(1);
    m.burst = 1.25;
    m.burst_us = 40;
    expect_us(price("gemm:f32:64x64x64:r1", SERIAL, &m), tile_us - 40 * 0.25);
    m.vendor_burst = 1.5;
    expect_us(price("gemm:f32:64x64x64:r1", SERIAL, &m), tile_us - 40 * 0.5);
    expect_us(gathered(1, "ag_gemm:f32:128x64x64:r2", &m), 2 * tile_us - 40 * 0.25);
}

/* ---- Pushes ---------------------------------------------------------------------------------- */

static double pushed(int slabs, const sg_machine *m)
{
    char text[96];
    sg_text strategy = {text, sizeof text, 0};
    sg_text_add(&strategy, PUSHED, slabs);
    return price("ag_gemm:f32:128x64x64:r2", text, m);
}

static void pushes_take_from_the_product(void **state)
{
    (void)state;
    sg_machine m = quiet(1);
    m.store_gbps = gbps_of(1, 40); /* while the first tile is computed */
    expect_us(pushed(1, &m), 2 * tile_us);
    m.push_part = 0.5;
    expect_us(pushed(1, &m), 2 * tile_us + 20);
    m.store_gbps = gbps_of(1, 160); /* the tile is half done when the push is nearly over */
    m.push_part = 0.25;
    expect_us(pushed(1, &m), 160 + tile_us);
    m.sms = 2;
    m.gemm_tflops[SG_F32] *= 2;
    m.store_gbps = gbps_of(1, 40); /* the peer's tile begins when its rows are there */
    expect_us(pushed(1, &m), 40 + tile_us);
}

/* Parts of k come one after the other, or all of a round together. */
static void a_round_of_pushes_is_there_at_once(void **state)
{
    (void)state;
    sg_machine m = quiet(2);
    m.store_gbps = gbps_of(1, 80);
    expect_us(pushed(4, &m), 20 + tile_us);
    m.push_kb = block_bytes / 2e3; /* of each of two blocks: all that is pushed */
    expect_us(pushed(4, &m), 80 + tile_us);
    m.push_kb /= 2; /* half of it: the second half is there when a tile has had the first */
    expect_us(pushed(4, &m), 40 + tile_us);
    m.push_kb = 1e6;
    expect_us(pushed(1, &m), 80 + tile_us);
}

/* Elements of 16 bits as fast as those of 32. */
static sg_machine halves(int sms)
{
    sg_machine m = quiet(sms);
    m.gemm_tflops[SG_BF16] = m.gemm_tflops[SG_F32];
    return m;
}

/* Blocks without tiles carry what they can carry in time, at a rate of their own, and cost the
 * product nothing. */
static void couriers_carry_beside_the_product(void **state)
{
    (void)state;
    static const char *const problem = "ag_gemm:bf16:128x64x64:r2";
    static const char *const pushes =
        "fused_in{chunks=1,slabs=1,tile_m=64,tile_n=64,push=1,strips=1}";
    sg_machine m = halves(6); /* two tiles: four are left */
    m.push_part = 0.5;
    m.store_gbps = gbps_of(0.5, 10);
    expect_us(price(problem, pushes, &m), 10 + tile_us); /* by storers */
    m.courier_gbps = gbps_of(0.5, 4 * 20);
    expect_us(price(problem, pushes, &m), 20 + tile_us);
    m.courier_gbps = gbps_of(0.5, 4 * 5); /* no more than stores have */
    expect_us(price(problem, pushes, &m), 10 + tile_us);
    m.courier_gbps = gbps_of(0.5, 4 * 30);
    expect_us(price(problem, pushes, &m), 30 + tile_us);
    expect_us(pushed(1, &m), 20 + tile_us); /* twice the bytes, too many in time: by storers */
    m = halves(5);                          /* too few */
    m.store_gbps = gbps_of(0.5, 10);
    m.courier_gbps = gbps_of(0.5, 3 * 20);
    expect_us(price(problem, pushes, &m), 10 + tile_us);
    m = quiet(18); /* enough, however slow */
    m.store_gbps = gbps_of(1, 10);
    m.courier_gbps = gbps_of(1, 16 * 40);
    expect_us(pushed(1, &m), 40 + tile_us);
    m.push_kb = 1e6; /* no rounds: a tile begins with the first part */
    expect_us(pushed(4, &m), 10 + tile_us);
}

/* The first part of k, if all tiles wait for it, when own rows begin with those that come; or if
 * few carry to a single peer, for one wave. */
static void storers_carry_what_all_wait_for(void **state)
{
    (void)state;
    static const char *const free_rows =
        "fused_in{chunks=1,slabs=8,tile_m=64,tile_n=64,push=1,strips=1}";
    static const char *const held =
        "fused_in{chunks=1,slabs=8,tile_m=64,tile_n=64,push=3,strips=1}";
    sg_machine m = halves(6); /* two tiles, four couriers */
    m.store_gbps = gbps_of(0.5, 8);
    m.courier_gbps = gbps_of(0.5, 4 * 16);
    expect_us(price("ag_gemm:bf16:128x64x64:r2", free_rows, &m), 1 + tile_us);
    expect_us(price("ag_gemm:bf16:128x64x64:r2", held, &m), 1 + tile_us);
    m = halves(10); /* eight */
    m.store_gbps = gbps_of(0.5, 8);
    m.courier_gbps = gbps_of(0.5, 8 * 12);
    expect_us(price("ag_gemm:bf16:128x64x64:r2", free_rows, &m), 1.5 + tile_us);
    expect_us(price("ag_gemm:bf16:128x64x64:r2", held, &m), 1 + tile_us);
}

/* Nine tiles on eight SMs leave three of them in the second wave, if waves are as even as they can
 * be: too few couriers, so it is as if there were none. */
static void waves_leave_couriers_by_the_longest(void **state)
{
    (void)state;
    static const char *const pushes =
        "fused_in{chunks=1,slabs=1,tile_m=64,tile_n=512,push=1,strips=1}";
    static const char *const problem = "ag_gemm:bf16:576x512x64:r2:rows=256,320";
    for (int sms = 8; sms <= 14; sms += 6) { /* five are left of 14 */
        sg_machine m = halves(sms);
        m.push_part = 0.5;
        m.store_gbps = gbps_of(0.5, 5);
        const double storers = price(problem, pushes, &m);
        m.courier_gbps = gbps_of(0.5, 4 * 7);
        const double couriers = price(problem, pushes, &m);
        assert_int_equal(fabs(couriers - storers) < 1e-6, sms == 8);
    }
}

/* In tiles of one wave; the first part of k is there for the last peer after an eighth of the time,
 * or behind all that goes to the others. */
static void parts_of_k_to_several_peers(void **state)
{
    (void)state;
    static const char *const abreast =
        "fused_in{chunks=1,slabs=8,tile_m=64,tile_n=512,push=1,strips=1}";
    static const char *const by_peer =
        "fused_in{chunks=1,slabs=8,tile_m=64,tile_n=512,push=2,strips=1}";
    sg_machine m = halves(8);
    m.store_gbps = gbps_of(0.5, 1);
    m.courier_gbps = gbps_of(1.5, 4 * 30);
    expect_us(price("ag_gemm:bf16:256x512x64:r4", abreast, &m), 30.0 / 8 + 8 * tile_us);
    expect_us(price("ag_gemm:bf16:256x512x64:r4", by_peer, &m), 20 + 10.0 / 8 + 8 * tile_us);
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

static void lanes_that_wait_begin_later(void **state)
{
    (void)state;
    static const char *const direct =
        "direct{chunks=1,split=0,blocks=0,tile_m=64,tile_n=64,vendor=0}";
    sg_machine m = quiet(4);
    const double alone = price("gemm_rs:f32:128x64x64:r2", SCATTER, &m);
    const double lanes = price("gemm_rs:f32:128x64x64:r2", direct, &m);
    m.lane_us = 8;
    expect_us(price("gemm_rs:f32:128x64x64:r2", SCATTER, &m), alone);
    const double later = price("gemm_rs:f32:128x64x64:r2", direct, &m);
    /* The copy waits for the tile, the sum for the copy. */
    expect_us(later, lanes + 2 * m.lane_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_memory_shows),
        cmocka_unit_test(what_runs_side_by_side_shares_columns),
        cmocka_unit_test(few_tiles_share_the_memory),
        cmocka_unit_test(one_sm_reads_so_fast),
        cmocka_unit_test(who_waits_falls_behind),
        cmocka_unit_test(a_held_strip_is_read_once),
        cmocka_unit_test(sums_come_behind_the_product),
        cmocka_unit_test(addends_cost_by_number),
        cmocka_unit_test(addends_of_one_wave_come_late),
        cmocka_unit_test(wide_addends_count_twice),
        cmocka_unit_test(tiles_of_some_shapes_hide_addends),
        cmocka_unit_test(tiles_in_turn_wait_beside_others),
        cmocka_unit_test(sums_amid_others_take_the_link_longer),
        cmocka_unit_test(small_tiles_that_wait_are_fed_less),
        cmocka_unit_test(few_columns_ask_for_less),
        cmocka_unit_test(tiles_have_a_least_size),
        cmocka_unit_test(vendors_contend_as_others),
        cmocka_unit_test(few_tiles_go_faster),
        cmocka_unit_test(tiles_are_dealt_evenly),
        cmocka_unit_test(the_vendor_has_a_burst_of_its_own),
        cmocka_unit_test(pushes_take_from_the_product),
        cmocka_unit_test(a_round_of_pushes_is_there_at_once),
        cmocka_unit_test(couriers_carry_beside_the_product),
        cmocka_unit_test(storers_carry_what_all_wait_for),
        cmocka_unit_test(waves_leave_couriers_by_the_longest),
        cmocka_unit_test(parts_of_k_to_several_peers),
        cmocka_unit_test(lanes_that_wait_begin_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
