/* Tests of what the CUDA backend makes of rows in turns, without a GPU (tests/fake_cuda): the
 * copies that put them in order are one kernel of a run, and what is cut at odd bytes is
 * declined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "fake_world.h"

/* However many runs of rows there are; along k, too, and where they are returned. */
static void rows_in_turns_are_put_in_order_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *packed, *in_turns;
        int copies, more; /* of a rank: copies, and kernels that a packed problem has not */
    } asked[] = {
        {"ag_gemm:bf16:512x136x64:r4", "ag_gemm:bf16:512x136x64:r4:cyclic=4", 128, 1},
        {"ag_gemm:bf16:50x136x64:r4:return_a", "ag_gemm:bf16:50x136x64:r4:cyclic=1:return_a", 50,
         1},
        {"ag_gemm:bf16:40x136x64:r4:gather=b", "ag_gemm:bf16:40x136x64:r4:gather=b:cyclic=8", 17,
         1},
        {"gemm_rs:bf16:512x136x16:r4", "gemm_rs:bf16:512x136x16:r4:cyclic=4", 128, 1},
        {"gemm_rs:f16:50x17x16:r4:bias:norm", "gemm_rs:f16:50x17x16:r4:cyclic=3:bias:norm", 17, 1},
        {"ag_gemm:bf16:40x24x64:r4:gather=k", "ag_gemm:bf16:40x24x64:r4:gather=k:cyclic=2", 32, 0},
    };
    world w;
    open_group(&w, RANKS, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        int launches[2];
        for (int in_turns = 0; in_turns < 2; in_turns++) {
            const char *const problem = in_turns ? asked[i].in_turns : asked[i].packed;
            if (!make_plans(&w, problem, "serial{permute=1}")) fail_msg("%s", shingle_error());
            for (uint64_t seed = 0; seed < 3; seed++) {
                const int joined = fake_joined;
                launches[in_turns] = fake_launches;
                run_right(&w, seed);
                launches[in_turns] = fake_launches - launches[in_turns];
                if (in_turns) assert_int_equal(fake_joined - joined, RANKS * asked[i].copies);
            }
            drop_plans(&w);
        }
        if (launches[1] != launches[0] + RANKS * asked[i].more)
            fail_msg("%s: %d launches, and %d", asked[i].in_turns, launches[1], launches[0]);
    }
    close_group(&w);
}

/* Rows of tensors that lie apart, at addresses that no unit of 16 bytes fits; and in windows. */
static void they_need_not_be_dense(void **state)
{
    (void)state;
    static const char *const asked[] = {
        "ag_gemm:bf16:50x24x40:r4:cyclic=3:return_a", "ag_gemm:f16:50x17x31:r4:cyclic=7:b=9,8",
        "ag_gemm:bf16:24x50x33:r4:gather=b:cyclic=3:accumulate", "gemm_rs:f32:50x17x9:r4:cyclic=2",
        "gemm_rs:bf16:50x24x16:r4:cyclic=1:norm"};
    for (int pad = 0; pad < 2; pad++) {
        const char *const plan = pad == 0 ? "serial{windows=1,permute=1}" : "serial{permute=1}";
        world w;
        open_group(&w, RANKS, 20);
        w.pad = pad;
        for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
            if (!make_plans(&w, asked[i], plan)) fail_msg("%s", shingle_error());
            for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
            drop_plans(&w);
        }
        close_group(&w);
    }
}

/* None of our kernels is bound for columns that are cut at odd bytes: where owners' rows of B are,
 * the plan is another one, and whoever asks for such launches is told why they are declined. */
static void columns_are_cut_at_odd_bytes(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"ag_gemm:bf16:64x136x64:r2:gather=b:cyclic=3", "serial{permute=0}"},
        {"ag_gemm:f32:16x70x64:r2:gather=b:cyclic=5", "serial{permute=0}"},
        {"ag_gemm:bf16:8x2054x1024:r2:gather=b:gelu", "direct{vendor=1}"}, /* has no gelu */
        {"ag_gemm:f16:8x2054x1024:r2:gather=b:silu", "direct{chunks=2,vendor=1}"},
    };
    world w;
    open_group(&w, 2, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (!make_plans(&w, asked[i][0], NULL)) fail_msg("%s", shingle_error());
        run_right(&w, i);
        drop_plans(&w);
        assert_false(make_plans(&w, asked[i][0], asked[i][1]));
        expect_text("cut at places that are no multiples of 16 bytes");
    }
    close_group(&w);
}

/* The vendor's library does them; of tensors that lie in another way than the plan was made for, a
 * kernel of ours, since the library's might have to be loaded, behind runs that wait for others. */
static void they_may_lie_apart_behind_other_runs(void **state)
{
    (void)state;
    world w;
    for (int pad = 0; pad < 2; pad++) {
        open_group(&w, 2, 20);
        w.pad = pad;
        assert_true(make_plans(&w, "ag_gemm:bf16:8x2054x64:r2:gather=b:relu", "direct{vendor=1}"));
        const int asked = fake_asked;
        for (uint64_t seed = 0; seed < 3; seed++) run_right(&w, seed);
        assert_int_equal(fake_asked, asked);
        drop_plans(&w);
        close_group(&w);
    }
}

/* Matrices copied, and products of the vendor's, in two runs that are right. */
typedef struct done {
    int moved, products;
} done;

static done run_twice(world *w, const char *problem, const char *plan, int pad)
{
    w->pad = pad;
    if (!make_plans(w, problem, plan)) fail_msg("%s", shingle_error());
    const done before = {fake_moved, fake_products};
    for (uint64_t seed = 0; seed < 2; seed++) run_right(w, seed);
    const done now = {fake_moved - before.moved, fake_products - before.products};
    drop_plans(w);
    return now;
}

/* Of a product whose rows are odd copies are multiplied, by a kernel of ours; with room between
 * rows that makes them even, they are multiplied where they are. */
static void copies_of_odd_rows_are_multiplied(void **state)
{
    (void)state;
    enum { EVEN_PAD = 7 };
    static const struct {
        const char *problem;
        int copies; /* of a rank and run that rows with room between them do without */
    } asked[] = {
        {"gemm:bf16:65x264x257:r4", 2},           {"gemm:f16:65x257x264:r4", 1},
        {"gemm:bf16:65x265x249:r4:gelu", 3},      {"gemm:bf16:65x257x264:r4:accumulate", 2},
        {"ag_gemm:bf16:66x257x264:r4:bias", 1},   {"ag_gemm:f16:66x264x257:r4:silu", 1},
        {"gemm_a2a:bf16:66x264x257:r4:relu", 2},  {"gemm_rs:bf16:66x257x249:r4", 2},
        {"gemm:bf16:264x426x257:r4:b=89,337", 5}, /* of A once */
    };
    world w;
    open_group(&w, RANKS, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const char *const problem = asked[i].problem;
        const done odd = run_twice(&w, problem, "serial", 0);
        const done even = run_twice(&w, problem, "serial", EVEN_PAD);
        if (odd.moved - even.moved != 2 * RANKS * asked[i].copies || odd.products > 0 ||
            even.products > 0)
            fail_msg("%s: %d copies, %d with room; %d and %d products", problem, odd.moved,
                     even.moved, odd.products, even.products);
    }
    /* Launches of a lane share the copy of what they all read. */
    const done shared = run_twice(&w, "ag_gemm:bf16:264x265x257:r4", "direct{vendor=1}", 0);
    assert_int_equal(shared.moved, 2 * RANKS * (RANKS + 1 + RANKS));
    assert_int_equal(shared.products, 0);
    /* What is even, small, of few rows of a B that would be copied, or f32 is the vendor's. */
    static const char *const others[] = {"gemm:bf16:65x264x256:r4", "gemm:bf16:9x17x33:r4",
                                         "gemm:bf16:15x1009x313:r4", "gemm:f32:65x257x257:r4"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const done there = run_twice(&w, others[i], "serial", 0);
        if (there.products != 2 * RANKS) fail_msg("%s: %d products", others[i], there.products);
    }
    close_group(&w);
}

/* In the vendor's place, of columns that end beside others, a tile that can be stored so, in
 * groups of bands. */
static void a_fast_kernel_is_in_the_vendors_place(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"ag_gemm:bf16:40x448x64:r2:gather=b:silu", "direct{chunks=2,vendor=1}"},
        {"ag_gemm:f16:200x896x64:r2:gather=b:bias:gelu", "direct{chunks=2,vendor=1}"},
        {"ag_gemm:bf16:642x8512x8:r2:silu", "direct{vendor=1}"}, /* 321 rows before others */
        {"gemm:bf16:400x448x64:r2:silu", "serial"}};
    world w;
    open_group(&w, 2, 20);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const int slow = fake_slow, by_row = fake_by_row;
        (void)run_twice(&w, asked[i][0], asked[i][1], 0);
        assert_int_equal(fake_slow, slow);
        assert_int_equal(fake_by_row, by_row);
    }
    close_group(&w);
}

/* Slow kernels, which take any rows, are for what is small; a launch of ours that is not is left to
 * the plan that multiplies copies. */
static void no_slow_kernel_takes_much(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, 20);
    assert_false(make_plans(&w, "gemm:bf16:65x264x257:r4", "alone"));
    assert_non_null(
        strstr(shingle_error(), "rows of k or n elements are not multiples of 16 bytes"));
    (void)run_twice(&w, "gemm:bf16:9x17x33:r4", "alone", 0);
    (void)run_twice(&w, "gemm:f32:65x264x257:r4", "alone", 0);
    close_group(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_turns_are_put_in_order_at_once),
        cmocka_unit_test(they_need_not_be_dense),
        cmocka_unit_test(copies_of_odd_rows_are_multiplied),
        cmocka_unit_test(a_fast_kernel_is_in_the_vendors_place),
        cmocka_unit_test(no_slow_kernel_takes_much),
        cmocka_unit_test(columns_are_cut_at_odd_bytes),
        cmocka_unit_test(they_may_lie_apart_behind_other_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
