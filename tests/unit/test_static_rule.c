/* Tests of choose_static.h: what a collective costs by the rule is what it costs anywhere, and
 * copies on several lanes what links and engines have for them. */
#include "built.h"
#include "core/choose_static.h"

/* `coll` of the rule for the serial plan of TEXT. */
static double coll_us(const char *text, const char *plan, const sg_machine *machine)
{
    built b;
    sg_static_wish wish;
    build(text, plan, &b);
    sg_static_rule(&b.sched[0], machine, &wish);
    discard(&b);
    return wish.coll_us;
}

/* Of 4 ranks; the message is 4096 x 1024 of 2 bytes, of which PASSES times 3/4 pass a port. */
static void collectives_are_priced_as_by_the_simulator(void **state)
{
    (void)state;
    static const struct {
        const char *text, *plan;
        int curve;
        double passes;
    } cases[] = {
        {"ag_gemm:bf16:4096x512x1024:r4", "windows=0", SG_ALL_GATHER, 1},
        {"ag_gemm:bf16:4096x512x1024:r4", "windows=1", SG_MACHINE_COLLS + SG_ALL_GATHER, 1},
        {"gemm_rs:bf16:4096x1024x512:r4", "windows=0", SG_REDUCE_SCATTER, 1},
        {"gemm_ar:bf16:4096x1024x512:r4", "windows=0", SG_ALL_REDUCE, 2},
        {"a2a_gemm:bf16:4096x512x1024:r4", "windows=0", SG_ALL_TO_ALL, 1},
        {"gemm_a2a:bf16:4096x1024x512:r4", "windows=0", SG_ALL_TO_ALL, 1},
    };
    const double message = 4096.0 * 1024 * 2;
    for (int measured = 0; measured <= 1; measured++) {
        sg_machine machine;
        sg_machine_plain(&machine);
        /* A rate of its own for each curve, which grows with the message. */
        for (int c = 0; c < SG_MACHINE_CURVES && measured; c++)
            machine.coll_curve[c] = (sg_curve){2, {{1e6, 20.0 + c}, {64e6, 100.0 + c}}};
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            char plan[64];
            sg_text t = {plan, sizeof plan, 0};
            sg_text_add(&t, "serial{tile_m=128,tile_n=128,%s,permute=0}", cases[i].plan);
            const int curve = measured ? cases[i].curve : cases[i].curve % SG_MACHINE_COLLS;
            const double bus = cases[i].passes * message * 3 / 4;
            const double expected = sg_machine_coll_us(&machine, curve, message, bus);
            const double us = coll_us(cases[i].text, plan, &machine);
            if (us < expected * (1 - 1e-9) || us > expected * (1 + 1e-9))
                fail_msg("%s %s: %g us, not %g", cases[i].text, plan, us, expected);
        }
    }
}

/* Copies both ways round a ring are at once where links add up and each has an engine. */
static void lanes_need_engines(void **state)
{
    (void)state;
    static const char plan[] =
        "ring{sub=1,split=0,blocks=0,tile_m=128,tile_n=128,both=1,vendor=0,taper=0}";
    double us[2][4]; /* behind a switch and in a mesh; by the number of engines */
    built b;
    build("ag_gemm:bf16:8192x128x8192:r4", plan, &b);
    for (int mesh = 0; mesh < 2; mesh++)
        for (int engines = 0; engines < 4; engines++) {
            sg_machine machine;
            sg_static_look look;
            sg_machine_plain(&machine);
            machine.topology = mesh ? SG_MESH : SG_SWITCH;
            machine.copy_engines = engines;
            sg_static_look_at(&b.sched[0], &machine, &look);
            us[mesh][engines] = look.us;
        }
    discard(&b);
    for (int engines = 1; engines < 4; engines++) assert_true(us[0][engines] == us[0][0]);
    assert_true(us[1][1] == us[1][0] && us[1][2] < us[1][1] && us[1][3] == us[1][2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_need_engines),
        cmocka_unit_test(collectives_are_priced_as_by_the_simulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
