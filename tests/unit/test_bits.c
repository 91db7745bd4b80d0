/* Tests of reproducible plans (docs/reproducible.md): on random data whose sums depend on their order, every
 * plan that is admitted gives every row the bits of a plain loop, whatever strategy, knobs, m and place
 * the row has; plans that are declined do not; and a schedule that is changed is no longer admitted.
 *
 *     test_bits        some plans of each problem
 *     test_bits all    all of them, and how many
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/tile.h"
#include "core/bits.h"
#include "core/check.h"
#include "core/comm.h"
#include "core/data.h"
#include "core/planner.h"

enum { LABELS = 64, RANKS = 7, MOST_N = 40, SETS = 3 };

static int every = 5; /* of the admitted plans one is run */
static int admitted, compared, refused, differing;

/* ---- Data: by what an element is, wherever it lies ---------------------------------------------------- */

typedef enum what { OF_A, OF_B, OF_BIAS, OF_C } what;

/* About normally distributed, of every size that matters to a sum. */
static float value_of(sg_type type, what w, int64_t rank, int64_t row, int64_t col)
{
    sg_random random = {sg_mix((uint64_t)w << 60 ^ (uint64_t)rank << 48 ^
                               sg_mix((uint64_t)row << 32 ^ (uint64_t)col))};
    double sum = 0;
    for (int i = 0; i < 6; i++) sum += (double)(sg_random_next(&random) >> 40) / (1 << 24) - 0.5;
    float stored = 0;
    sg_data_store(type, (float)(sum * 1.41), &stored, 0);
    return sg_data_load(type, &stored, 0);
}

/* Rows of the product are called something else in every m. */
static int64_t label_of(const sg_problem *p, int64_t row)
{
    return (row + 11 * p->m) % LABELS;
}

static float a_of(const sg_problem *p, int rank, int64_t label, int64_t k)
{
    const bool one = sg_problem_in(p) == SG_IN_GATHER && p->gather != SG_GATHER_B;
    return value_of(p->type, OF_A, one ? -1 : rank, label, k);
}

static float b_of(const sg_problem *p, int rank, int64_t col, int64_t k)
{
    return value_of(p->type, OF_B, p->gather == SG_GATHER_B ? -1 : rank, col, k);
}

static float bias_of(const sg_problem *p, int rank, int64_t col)
{
    return value_of(p->type, OF_BIAS, sg_problem_sums(p) ? -1 : rank, 0, col);
}

/* ---- The plain loop ------------------------------------------------------------------------------------ */

static float rounded(sg_type type, float x)
{
    float stored = 0;
    sg_data_store(type, x, &stored, 0);
    return sg_data_load(type, &stored, 0);
}

static float chain(const sg_problem *p, int rank, int64_t label, int64_t col, int64_t k0,
                   int64_t k1)
{
    float sum = 0;
    for (int64_t k = k0; k < k1; k++)
        sum = fmaf(a_of(p, rank, label, k), b_of(p, rank, col, k), sum);
    return sum;
}

static float product(const sg_problem *p, int rank, int64_t label, int64_t col)
{
    if (p->gather != SG_GATHER_K) return chain(p, rank, label, col, 0, p->k);
    float sum = 0;
    bool any = false;
    for (int i = 0; i < p->ranks; i++)
        for (int32_t at = p->share[(rank + i) % p->ranks].first; at >= 0;
             at = p->segments[at].next) {
            const sg_segment *const g = &p->segments[at];
            const float part = chain(p, rank, label, col, g->row0, g->row0 + g->rows);
            sum = any ? sum + part : part;
            any = true;
        }
    return sum;
}

static float expected(const sg_problem *p, int rank, int64_t label, int64_t col)
{
    float sum = 0;
    if (sg_problem_sums(p) && p->ranks > 1) {
        sum = rounded(p->type, product(p, 0, label, col));
        for (int r = 1; r < p->ranks; r++) sum += rounded(p->type, product(p, r, label, col));
    } else {
        sum = product(p, rank, label, col);
    }
    if (p->accumulate) sum += value_of(p->type, OF_C, rank, label, col);
    if (p->bias) sum += bias_of(p, rank, col);
    sg_convert_act(p->act, &sum, 1);
    return sum;
}

/* [rank][label][col], of the problem's type; of all m. */
static uint8_t *expect(const sg_problem *p)
{
    const int bytes = sg_type_bytes(p->type);
    uint8_t *const all = calloc((size_t)(p->ranks * LABELS * p->n), (size_t)bytes);
    assert_non_null(all);
    for (int r = 0; r < p->ranks; r++)
        for (int64_t l = 0; l < LABELS; l++)
            for (int64_t j = 0; j < p->n; j++) {
                const int64_t at = (r * LABELS + l) * p->n + j;
                if (r > 0 && sg_problem_sums(p))
                    memcpy(all + at * bytes, all + (l * p->n + j) * bytes, (size_t)bytes);
                else
                    sg_data_store(p->type, expected(p, r, l, j), all, at);
            }
    return all;
}

/* ---- Matrices --------------------------------------------------------------------------------------------- */

typedef struct tensors {
    void *a, *b, *bias, *c;
} tensors;

/* The product's rows (columns of A along k, rows of B) that RANK has at place X of what it holds. */
static int64_t held_row(const sg_problem *p, int rank, int64_t x)
{
    for (int32_t at = p->share[rank].first; at >= 0; at = p->segments[at].next) {
        const sg_segment *const g = &p->segments[at];
        if (x < g->own_row + g->rows) return g->row0 + x - g->own_row;
    }
    return -1;
}

static int64_t c_row(const sg_problem *p, int rank, int64_t x)
{
    return sg_problem_out(p) == SG_OUT_SCATTER ? held_row(p, rank, x) : x;
}

static void *room(int64_t elements, sg_type type)
{
    void *const memory = malloc((size_t)(elements + 16) * (size_t)sg_type_bytes(type));
    assert_non_null(memory);
    return memory;
}

static void fill_c(const sg_problem *p, int rank, void *c)
{
    for (int64_t i = 0; i < sg_problem_c_rows(p, rank); i++)
        for (int64_t j = 0; j < p->n; j++)
            sg_data_store(p->type,
                          p->accumulate
                              ? value_of(p->type, OF_C, rank, label_of(p, c_row(p, rank, i)), j)
                              : NAN,
                          c, i * p->n + j);
}

static void make(const sg_problem *p, int rank, tensors *t)
{
    const bool gather = sg_problem_in(p) == SG_IN_GATHER;
    const int64_t depth = sg_problem_a_cols(p, rank);
    const int64_t a_rows = sg_problem_a_rows(p, rank);
    const int64_t b_rows = sg_problem_b_rows(p, rank);
    *t = (tensors){room(a_rows * depth, p->type), room(b_rows * p->k, p->type), room(p->n, p->type),
                   room(sg_problem_c_rows(p, rank) * p->n, p->type)};
    for (int64_t i = 0; i < a_rows; i++)
        for (int64_t k = 0; k < depth; k++) {
            const int64_t row = gather && p->gather == SG_GATHER_A ? held_row(p, rank, i) : i;
            const int64_t x = p->gather == SG_GATHER_K ? held_row(p, rank, k) : k;
            sg_data_store(p->type, a_of(p, rank, label_of(p, row), x), t->a, i * depth + k);
        }
    for (int64_t i = 0; i < b_rows; i++)
        for (int64_t k = 0; k < p->k; k++) {
            const int64_t col = p->gather == SG_GATHER_B ? held_row(p, rank, i) : i;
            sg_data_store(p->type, b_of(p, rank, col, k), t->b, i * p->k + k);
        }
    for (int64_t j = 0; j < p->n; j++) sg_data_store(p->type, bias_of(p, rank, j), t->bias, j);
}

static void drop(tensors *t)
{
    free(t->a);
    free(t->b);
    free(t->bias);
    free(t->c);
}

/* ---- Runs ---------------------------------------------------------------------------------------------------- */

typedef struct group {
    shingle_comm *comm[RANKS];
    int ranks;
} group;

/* Elements of all ranks that are not as in WANT; -1: STRATEGY does not do PROBLEM. */
static int64_t run(group *g, const char *problem, const sg_problem *p, const char *strategy,
                   tensors *t, const uint8_t *want)
{
    shingle_plan *plan[RANKS] = {NULL};
    const int bytes = sg_type_bytes(p->type);
    const shingle_plan_options options = {.strategy = strategy};
    for (int r = 0; r < g->ranks; r++) {
        const shingle_status status = shingle_plan_create(g->comm[r], problem, &options, &plan[r]);
        if (status == SHINGLE_EUNSUPPORTED && r == 0) return -1;
        if (status != SHINGLE_OK) fail_msg("%s %s: %s", problem, strategy, shingle_error());
        fill_c(p, r, t[r].c);
    }
    for (int r = 0; r < g->ranks; r++) {
        const shingle_tensors given = {
            .a = t[r].a, .b = t[r].b, .bias = p->bias ? t[r].bias : NULL, .c = t[r].c};
        assert_int_equal(shingle_run_tensors(plan[r], &given, NULL), SHINGLE_OK);
    }
    int64_t wrong = 0;
    for (int r = 0; r < g->ranks; r++) {
        if (shingle_sync(g->comm[r], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
        for (int64_t i = 0; i < sg_problem_c_rows(p, r); i++) {
            const int64_t label = label_of(p, c_row(p, r, i));
            const uint8_t *const line = (const uint8_t *)t[r].c + i * p->n * bytes;
            for (int64_t j = 0; j < p->n; j++)
                wrong += memcmp(line + j * bytes, want + ((r * LABELS + label) * p->n + j) * bytes,
                                (size_t)bytes) != 0;
        }
        shingle_plan_free(plan[r]);
    }
    return wrong;
}

/* Admits or declines STRATEGY with its knobs, and runs it. */
static void try_one(group *g, const char *problem, const sg_problem *p, const char *strategy,
                    tensors *t, const uint8_t *want)
{
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = strategy, .reproducible = 1};
    const bool keeps = shingle_plan_for(problem, NULL, &options, &plan) == SHINGLE_OK;
    shingle_plan_free(plan);
    const int64_t wrong = run(g, problem, p, strategy, t, want);
    if (wrong < 0) return;
    if (keeps && wrong > 0)
        fail_msg("%s %s: %lld elements have other bits", problem, strategy, (long long)wrong);
    compared += keeps;
    refused += !keeps;
    differing += !keeps && wrong > 0;
}

/* What is proposed for a machine of round numbers, and knobs that nobody would propose. */
static void try_all(group *g, const char *problem, const sg_problem *p, const uint8_t *want,
                    sg_random *random)
{
    static const char *const odd[] = {
        "fused_in{chunks=3,slabs=3,tile_m=5,tile_n=16,push=1}",
        "fused_in{chunks=1,slabs=5,tile_m=64,tile_n=64,push=0}",
        "fused_out{subs=3,lag=1,tile_m=4,tile_n=8,once=0,splits=1}",
        "fused_out{subs=2,lag=1,tile_m=3,tile_n=32,once=1,splits=1}",
        "fused_out{subs=1,lag=0,tile_m=16,tile_n=16,once=0,splits=3}",
        "direct{chunks=3,split=1,blocks=0,tile_m=7,tile_n=9,vendor=0}",
        "direct{chunks=1,split=0,blocks=0,tile_m=16,tile_n=16,vendor=1}",
        "dma{form=0,chunks=3,lanes=2,streams=1,blocks=0,tile_m=6,tile_n=10}",
        "dma{form=2,chunks=2,lanes=1,streams=2,blocks=0,tile_m=8,tile_n=8}",
        "dma{form=3,chunks=3,lanes=1,streams=1,blocks=0,tile_m=8,tile_n=8}",
        "ring{sub=2,split=0,blocks=0,tile_m=6,tile_n=16,both=0,vendor=0,taper=0}",
        "sliced{slices=3,sms=0,blocks=0,tile_m=5,tile_n=11,by=0}",
    };
    tensors t[RANKS];
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.reproducible = 1};
    for (int r = 0; r < p->ranks; r++) make(p, r, &t[r]);
    if (shingle_plan_for(problem, NULL, &options, &plan) != SHINGLE_OK)
        fail_msg("%s: %s", problem, shingle_error());
    for (int i = 0; i < shingle_plan_candidates(plan); i++) {
        shingle_candidate c;
        assert_int_equal(shingle_plan_candidate(plan, i, &c), SHINGLE_OK);
        admitted += c.declined == NULL;
        if (strchr(c.strategy, '{') != NULL && sg_random_below(random, every) == 0)
            try_one(g, problem, p, c.strategy, t, want);
    }
    shingle_plan_free(plan);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        if (sg_random_below(random, every) == 0) try_one(g, problem, p, odd[i], t, want);
    for (int r = 0; r < p->ranks; r++) drop(&t[r]);
}

static const struct family {
    const char *op, *type, *more;
    int n, k;
    bool cyclic;
} families[] = {
    {"gemm_rs", "bf16", "", 24, 70, false},
    {"gemm_rs", "f16", ":bias:gelu", 17, 65, true},
    {"gemm_rs", "f32", "", 9, 40, false},
    {"gemm_ar", "bf16", ":bias:silu", 24, 70, false},
    {"gemm_ar", "f16", "", 17, 65, false},
    {"gemm_ar", "bf16", "", 16, 129, true},
    {"ag_gemm", "bf16", ":bias:relu", 24, 70, false},
    {"ag_gemm", "bf16", "", 33, 130, true},
    {"ag_gemm", "f16", ":accumulate", 17, 65, false},
    {"ag_gemm", "bf16", ":gather=b", 40, 70, false},
    {"ag_gemm", "bf16", ":gather=k", 16, 130, false},
    {"ag_gemm", "f32", "", 9, 40, false},
};

static void same_bits(int ranks)
{
    static const int rows[SETS] = {3, 20, 37};
    group g = {.ranks = ranks};
    sg_random random = {(uint64_t)ranks};
    const shingle_config config = {.timeout_seconds = 20};
    assert_int_equal(shingle_open(ranks, &config, g.comm), SHINGLE_OK);
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        const struct family *const x = &families[f];
        uint8_t *want = NULL;
        for (int i = 0; i < SETS; i++) {
            char problem[96];
            sg_problem p;
            snprintf(problem, sizeof problem, "%s:%s:%dx%dx%d:r%d%s%s", x->op, x->type, rows[i],
                     x->n, x->k, ranks, x->cyclic ? ":cyclic=2" : "", x->more);
            assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
            if (want == NULL) want = expect(&p);
            try_all(&g, problem, &p, want, &random);
            sg_problem_free(&p);
        }
        free(want);
    }
    shingle_close(ranks, g.comm);
}

static void admitted_plans_agree(void **state)
{
    static const int ranks[] = {1, 2, 3, 5, 7};
    (void)state;
    if (!sg_tile_is_one_chain()) skip();
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) same_bits(ranks[i]);
    printf("%d plans admitted; %d compared, none differs; %d declined ones were run, %d differ\n",
           admitted, compared, refused, differing);
    assert_true(compared > 100);
    assert_true(differing > 20);
}

/* ---- What the check sees ---------------------------------------------------------------------------------------- */

typedef struct sealed {
    sg_problem problem;
    sg_sched sched[RANKS];
    sg_checker *checker;
} sealed;

static void build(sealed *s, const char *text)
{
    shingle_plan *plan = NULL;
    memset(s, 0, sizeof *s);
    char problem[96] = "";
    memcpy(problem, text, strcspn(text, " "));
    const shingle_plan_options options = {.strategy = text + strcspn(text, " ") + 1};
    if (shingle_plan_for(problem, NULL, &options, &plan) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    assert_int_equal(sg_problem_copy(&plan->problem, &s->problem), SHINGLE_OK);
    for (int r = 0; r < s->problem.ranks; r++)
        assert_int_equal(sg_plan_build(&s->problem, plan->strategy, &plan->knobs, r, &s->sched[r]),
                         SHINGLE_OK);
    shingle_plan_free(plan);
    s->checker = sg_checker_new();
    assert_non_null(s->checker);
}

static void drop_sealed(sealed *s)
{
    for (int r = 0; r < s->problem.ranks; r++) sg_sched_free(&s->sched[r]);
    sg_problem_free(&s->problem);
    sg_checker_free(s->checker);
}

/* NULL if the schedules keep the order, or why not. */
static const char *verdict(sealed *s)
{
    static sg_check_result result;
    const shingle_status status = sg_check_bits(s->checker, s->sched, s->problem.ranks, &result);
    if (status == SHINGLE_OK) return NULL;
    assert_int_equal(status, SHINGLE_EUNSUPPORTED);
    return result.why;
}

static void expect_verdict(const char *text, const char *why)
{
    sealed s;
    build(&s, text);
    const char *const said = verdict(&s);
    if (why == NULL && said != NULL) fail_msg("%s: %s", text, said);
    if (why != NULL && said == NULL) fail_msg("%s is admitted", text);
    if (why != NULL) assert_string_equal(said, why);
    drop_sealed(&s);
}

static void reasons_are_named(void **state)
{
    (void)state;
    expect_verdict("gemm_rs:bf16:40x16x256:r3 fused_out{tile_m=8,tile_n=8}", NULL);
    expect_verdict("gemm_rs:bf16:40x16x256:r3 serial",
                   "the order of the vendor's product is not known");
    expect_verdict("gemm_rs:bf16:40x16x256:r3 sliced{slices=2}",
                   "the order of the library's sum is not known");
    expect_verdict("gemm_rs:bf16:40x16x256:r3 fused_out{tile_m=8,tile_n=8,splits=2}",
                   "k is summed in parts");
    expect_verdict("ag_gemm:bf16:40x16x256:r3 dma{form=3,chunks=2}", "k is summed in parts");
    expect_verdict("ag_gemm:bf16:40x16x256:r3 serial",
                   "the order of the vendor's product is not known");
    expect_verdict("gemm_rs:bf16:40x16x256:r3 ring",
                   "sums are rounded on their way from rank to rank");
    expect_verdict("gemm_rs:bf16:40x16x256:r2 ring",
                   "the own product is not rounded as those of others are");
    /* Nothing is rounded in between, and two may come in any order. */
    expect_verdict("gemm_rs:f32:40x16x256:r2 ring", NULL);
    expect_verdict("gemm_rs:f32:40x16x256:r3 ring", "what is added comes in another order");
    expect_verdict("ag_gemm:bf16:40x16x258:r3:gather=k direct{chunks=1}", NULL);
    expect_verdict("ag_gemm:bf16:40x16x258:r3:gather=k direct{chunks=3}",
                   "k is summed in other parts, or in another order of them");
    expect_verdict("ag_gemm:bf16:40x16x258:r3:gather=k ring",
                   "k is summed in other parts, or in another order of them");
    /* An all-to-all adds nothing, and a library that copies is as good as any. */
    expect_verdict("gemm_a2a:bf16:40x16x256:r3 sliced{slices=2}", NULL);
    expect_verdict("a2a_gemm:bf16:40x16x256:r3 fused_in", NULL);
    /* Several B are as many products, and what is returned is not summed. */
    expect_verdict("ag_gemm:bf16:40x16x256:r3:b=7,9:return_a fused_in", NULL);
}

static void changed_schedules_are_declined(void **state)
{
    static const char *const text = "gemm_rs:bf16:40x16x256:r3:bias fused_out{tile_m=8,tile_n=8}";
    (void)state;
    for (int change = 0; change < 4; change++) {
        sealed s;
        build(&s, text);
        assert_null(verdict(&s));
        sg_sched *const one = &s.sched[1];
        for (int32_t i = 0; i < one->patches; i++) {
            sg_patch *const p = &one->patch[i];
            if (p->adds != 2) continue;
            const sg_addend first = one->add[p->add0];
            if (change == 0) p->own_rounded = 0;
            if (change == 1) p->own_at = 2;
            if (change == 2) p->own_at = 0; /* a + b is b + a */
            if (change == 3) {
                one->add[p->add0] = one->add[p->add0 + 1];
                one->add[p->add0 + 1] = first;
            }
        }
        const char *const said = verdict(&s);
        if (change == 2)
            assert_null(said);
        else
            assert_non_null(said);
        drop_sealed(&s);
    }
}

/* What is right is made in this order or another, and nothing else; and what is wrong is in no order. */
static void random_plans_have_an_order(void **state)
{
    enum { TRIPLES = 1500 };
    sg_random random = {7};
    sg_check_result result;
    int kept = 0;
    (void)state;
    for (int i = 0; i < TRIPLES; i++) {
        sealed s;
        sg_knobs knobs;
        const sg_strategy *strategy = NULL;
        memset(&s, 0, sizeof s);
        s.checker = sg_checker_new();
        assert_int_equal(sg_check_triple(&random, RANKS, &s.problem, &strategy, &knobs),
                         SHINGLE_OK);
        bool built = true;
        for (int r = 0; r < s.problem.ranks && built; r++)
            built = sg_plan_build(&s.problem, strategy, &knobs, r, &s.sched[r]) == SHINGLE_OK;
        if (built) {
            const shingle_status status =
                sg_check_bits(s.checker, s.sched, s.problem.ranks, &result);
            if (status != SHINGLE_OK && status != SHINGLE_EUNSUPPORTED)
                fail_msg("triple %d, %s: %s", i, strategy->name, shingle_error());
            kept += status == SHINGLE_OK;
            /* The checker's memory is used again, by checks of the other kind, too. */
            assert_int_equal(sg_check(s.checker, s.sched, s.problem.ranks, 0, &result), SHINGLE_OK);
        }
        drop_sealed(&s);
    }
    printf("%d of %d random plans are reproducible\n", kept, (int)TRIPLES);
    assert_true(kept > TRIPLES / 8 && kept < TRIPLES * 7 / 8);
}

static void values_follow_their_order(void **state)
{
    const uint64_t x[] = {sg_bits_input(1), sg_bits_input(2), sg_bits_input(3)};
    (void)state;
    assert_true(sg_bits_add(x[0], x[1]) == sg_bits_add(x[1], x[0]));
    assert_true(sg_bits_add(sg_bits_add(x[0], x[1]), x[2]) !=
                sg_bits_add(x[0], sg_bits_add(x[1], x[2])));
    assert_true(sg_bits_add(0, x[0]) == x[0]);
    const uint64_t chain_ab = sg_bits_chain(sg_bits_chain(0, x[0], x[1]), x[1], x[2]);
    const uint64_t chain_ba = sg_bits_chain(sg_bits_chain(0, x[1], x[2]), x[0], x[1]);
    assert_true(chain_ab != chain_ba);
    assert_true(chain_ab !=
                sg_bits_add(sg_bits_chain(0, x[0], x[1]), sg_bits_chain(0, x[1], x[2])));
    assert_true(sg_bits_round(chain_ab) != chain_ab);
    assert_true(sg_bits_round(sg_bits_round(chain_ab)) == sg_bits_round(chain_ab));
    assert_true(sg_bits_round(x[0]) == x[0]);
    assert_true(sg_bits_equal(chain_ab, chain_ab));
    assert_false(sg_bits_equal(sg_bits_mark(chain_ab, SG_BITS_VENDOR), chain_ab));
    assert_true(sg_bits_activate(chain_ab, 1) != sg_bits_activate(chain_ab, 2));
}

/* ---- Choosing ------------------------------------------------------------------------------------------------------ */

static void the_planner_keeps_to_it(void **state)
{
    static const char *const how[] = {"predict", "static"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        shingle_plan *plan = NULL;
        const shingle_plan_options options = {.choose = how[i], .reproducible = 1};
        assert_int_equal(shingle_plan_for("gemm_ar:bf16:4096x4096x4096:r4", NULL, &options, &plan),
                         SHINGLE_OK);
        const sg_candidate *const chosen = &plan->candidate[plan->chosen];
        assert_string_equal(chosen->declined, "");
        assert_string_not_equal(chosen->strategy->name, "serial");
        assert_non_null(strstr(shingle_plan_reason(plan), "; reproducible, as are "));
        sealed s;
        char text[200];
        snprintf(text, sizeof text, "%.*s %s", (int)strcspn(plan->text, " "), plan->text,
                 chosen->text);
        build(&s, text);
        assert_null(verdict(&s));
        drop_sealed(&s);
        for (int c = 0; c < plan->candidates; c++)
            if (strcmp(plan->candidate[c].strategy->name, "serial") == 0)
                assert_string_equal(plan->candidate[c].declined,
                                    "the order of the vendor's product is not known");
        shingle_plan_free(plan);
    }
}

static bool loose(void *self, const sg_sched *s, sg_text *why)
{
    (void)self;
    (void)s;
    sg_text_add(why, "sums as it likes");
    return false;
}

static void what_is_impossible_is_an_error(void **state)
{
    sg_able can = {.keeps_order = loose};
    shingle_plan *plan = NULL;
    sg_problem problem;
    sg_machine plain;
    const shingle_plan_options free_choice = {.reproducible = 1};
    const shingle_plan_options forced = {.strategy = "serial", .reproducible = 1};
    (void)state;
    assert_int_equal(shingle_plan_for("gemm_rs:bf16:64x64x64:r2", NULL, &forced, &plan),
                     SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "serial{"));
    assert_non_null(strstr(shingle_error(), "the order of the vendor's product is not known"));
    /* A backend that does not say how it adds up has no such plans. */
    for (int kind = 0; kind < SG_KINDS; kind++) can.kind[kind] = true;
    sg_machine_plain(&plain);
    assert_int_equal(sg_problem_parse("gemm_rs:bf16:64x64x64:r2", &problem), SHINGLE_OK);
    assert_int_equal(sg_planner_choose(&problem, &plain, &free_choice, NULL, &can, &plan),
                     SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "no plan is reproducible; serial{"));
    assert_non_null(strstr(shingle_error(), "sums as it likes"));
    sg_problem_free(&problem);
    assert_null(plan);
}

/* Of a group: what was measured is admitted, too, and kept apart from what is chosen freely. */
static void groups_measure_what_is_admitted(void **state)
{
    static const char *const problem = "gemm_rs:bf16:64x64x64:r2";
    const shingle_config config = {.timeout_seconds = 20};
    shingle_comm *comm[2];
    shingle_plan *plan = NULL;
    (void)state;
    if (!sg_tile_is_one_chain()) skip();
    assert_int_equal(shingle_open(2, &config, comm), SHINGLE_OK);
    const shingle_plan_options measured = {
        .choose = "measure", .measure_seconds = 0.02, .reproducible = 1};
    assert_int_equal(shingle_plan_create(comm[0], problem, &measured, &plan), SHINGLE_OK);
    assert_true(plan->candidate[plan->chosen].measured_us > 0);
    for (int i = 0; i < plan->candidates; i++)
        assert_true(plan->candidate[i].measured_us == 0 || plan->candidate[i].declined[0] == '\0');
    const shingle_plan_options both[] = {{.strategy = "serial"},
                                         {.strategy = "serial", .reproducible = 1}};
    shingle_plan *serial = NULL;
    assert_int_equal(shingle_plan_create(comm[0], problem, &both[0], &serial), SHINGLE_OK);
    assert_int_equal(shingle_plan_create(comm[0], problem, &both[1], &serial),
                     SHINGLE_EUNSUPPORTED);
    assert_int_equal(shingle_tune(comm[0], problem, &measured, NULL), SHINGLE_EUNSUPPORTED);
    /* What was tuned freely is taken by those who choose freely. */
    const shingle_plan_options tuned = {.strategy = "serial", .measure_seconds = 0.001};
    const shingle_plan_options wants = {.reproducible = 1};
    assert_int_equal(shingle_tune(comm[0], problem, &tuned, NULL), SHINGLE_OK);
    assert_int_equal(shingle_plan_create(comm[0], problem, NULL, &plan), SHINGLE_OK);
    assert_string_equal(plan->strategy->name, "serial");
    assert_int_equal(shingle_plan_create(comm[0], problem, &wants, &plan), SHINGLE_OK);
    assert_string_not_equal(plan->strategy->name, "serial");
    shingle_close(2, comm);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admitted_plans_agree),
        cmocka_unit_test(reasons_are_named),
        cmocka_unit_test(changed_schedules_are_declined),
        cmocka_unit_test(random_plans_have_an_order),
        cmocka_unit_test(values_follow_their_order),
        cmocka_unit_test(the_planner_keeps_to_it),
        cmocka_unit_test(what_is_impossible_is_an_error),
        cmocka_unit_test(groups_measure_what_is_admitted),
    };
    if (argc > 1 && strcmp(argv[1], "all") == 0) every = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
