/* Tests of what data that tell by themselves that they have come cost in the timing model. */
#include "built.h"
#include "core/sim.h"
#include "quiet.h"

static double price_with(const char *problem, const sg_knobs *knobs, const sg_machine *machine)
{
    const sg_strategy *const strategy = sg_strategy_find("fused_out");
    sg_simulator *const simulator = sg_simulator_new();
    sg_problem p;
    sg_sim_result result;
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    assert_int_equal(sg_simulate_built(simulator, &p, strategy, knobs, machine, NULL, &result),
                     SHINGLE_OK);
    sg_problem_free(&p);
    sg_simulator_free(simulator);
    return result.us;
}

static double price_of(const char *problem, bool tagged, const sg_machine *machine)
{
    const sg_knobs at_once = {{1, 0, 64, 64, 1, 1, 1, tagged}};
    return price_with(problem, &at_once, machine);
}

static double price(bool tagged, const sg_machine *machine)
{
    return price_of("gemm_ar:f32:64x64x64:r3", tagged, machine);
}

/* One tile a rank: its product, its bytes to two peers, the latency, three tiles to add and to put
 * back to rest, but no visit for that. */
static void words_are_all_data(void **state)
{
    (void)state;
    const double tile_us = 100;
    const double tile_bytes = 4.0 * 64 * 64;
    sg_machine m = quiet_machine(1, 64, 64, tile_us);
    expect_us(price(false, &m), tile_us);
    expect_us(price(true, &m), tile_us);
    m.visit_us = 3;
    m.add_us = 7;
    expect_us(price(false, &m), tile_us + 2 * 3 + 3 * 7);
    expect_us(price(true, &m), tile_us + 3); /* one visit */
    m.mem_gbps = tile_bytes / 4e3; /* the result, and addends behind it at twice the rate */
    expect_us(price(false, &m), tile_us + 3 + 4 + 3 * 7 + 3 * 2);
    expect_us(price(true, &m), tile_us + 3 + 4 + 2 * 3 * 2);
    m.mem_gbps = 1e6;
    m.store_gbps =
        tile_bytes / 20e3; /* a block has its sum ready but for the last tile that comes */
    expect_us(price(false, &m), tile_us + 3 + 2 * 20);
    expect_us(price(true, &m), tile_us + 3 + 2 * 20);
    m.run_us = 1;
    m.flag_us = 2;
    m.store_us = 11;
    expect_us(price(false, &m), tile_us + 3 + 2 * 20 + 11 + 1);
    expect_us(price(true, &m), tile_us + 3 + 2 * 20 + 2 + 11 + 1); /* nobody knows better */
    m.tagged_us = 5; /* the end of the run and the last stores among it */
    m.epilogue_us = 13;
    expect_us(price(false, &m), tile_us + 3 + 2 * 20 + 11 + 1 + 13);
    expect_us(price(true, &m), tile_us + 3 + 2 * 20 + 5);
    /* Rows that are not there are not sent. */
    expect_us(price_of("gemm_ar:f32:16x64x64:r3", true, &m), tile_us + 3 + 10 + 5);
    m.tagged_gbps = m.store_gbps / 2;
    expect_us(price(true, &m), tile_us + 3 + 4 * 20 + 5);
    /* Own words are there without a link, and no flag is awaited. */
    m.flag_us = 1000;
    expect_us(price_of("gemm_ar:f32:64x64x64:r1", true, &m), tile_us + 3 + 5);
}

/* Who stores words computes nothing meanwhile: of two tiles of a block the second begins behind the
 * first one's stores. */
static void words_are_stored_beside_no_product(void **state)
{
    (void)state;
    const double tile_us = 100;
    sg_machine m = quiet_machine(1, 64, 64, tile_us);
    m.store_gbps = 4.0 * 64 * 64 / 20e3;
    expect_us(price_of("gemm_ar:f32:64x128x64:r3", true, &m), 2 * (tile_us + 2 * 20));
    m.sms = 2;
    m.gemm_tflops[SG_F32] *= 2;
    expect_us(price_of("gemm_ar:f32:64x128x64:r3", true, &m), tile_us + 2 * 2 * 20);
}

static double price_to_owners(const char *problem, const sg_machine *machine)
{
    const sg_knobs to_owners = {{1, 0, 64, 64, 0, 1, 1, 1}};
    return price_with(problem, &to_owners, machine);
}

/* A tile for each owner of rows, the own one last, or one tile for all. */
static void rows_of_all_owners_cost_one_tile(void **state)
{
    (void)state;
    const double tile_us = 100;
    sg_machine m = quiet_machine(1, 64, 64, tile_us);
    m.store_gbps = 4.0 * 64 * 64 / 20e3;
    m.tagged_us = 5;
    m.hop_us = 1000; /* there is none */
    expect_us(price_to_owners("gemm_rs:f32:128x64x64:r2", &m), 2 * tile_us + 5);
    expect_us(price_to_owners("gemm_rs:f32:64x64x64:r2", &m), tile_us + 20.0 / 2 + 5);
    m.mem_gbps = 4.0 * 64 * 64 / 90e3; /* of a tile: B and all rows of A, or half of them */
    const double joined_us = price_to_owners("gemm_rs:f32:64x64x64:r2", &m);
    assert_true(joined_us < price_to_owners("gemm_rs:f32:66x64x64:r2", &m) - 90);
}

/* A tile for each of three ranks: two products leave, and later the own sum leaves for two
 * others. */
static void hops_follow_each_other(void **state)
{
    (void)state;
    const double tile_us = 100;
    sg_machine m = quiet_machine(3, 64, 64, tile_us);
    m.store_gbps = 4.0 * 64 * 64 / 20e3;
    m.run_us = m.flag_us = 1000;
    m.tagged_us = 5;
    m.hop_us = 7;
    m.tagged_gbps = m.store_gbps / 2;
    expect_us(price_to_owners("gemm_ar:f32:64x192x64:r3", &m), tile_us + 4 * 20 + 7 + 4 * 20 + 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_all_data),
        cmocka_unit_test(words_are_stored_beside_no_product),
        cmocka_unit_test(rows_of_all_owners_cost_one_tile),
        cmocka_unit_test(hops_follow_each_other),
    };
    return cmocka_run_group_tests_name("tagged_costs", tests, NULL, NULL);
}
