/* Tests of choose_static.h: what a collective costs by the rule is what it costs anywhere. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_are_priced_as_by_the_simulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
