/* Tests of reproducible plans (docs/reproducible.md): on random data whose sums depend on their
 * order, every plan that is admitted gives every row the bits of a plain loop, whatever strategy,
 * knobs, m and place the row has; plans that are declined do not.
 *
 *     test_bits_runs        some plans of each problem
 *     test_bits_runs all    all of them
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
#include "core/comm.h"
#include "core/data.h"

enum { LABELS = 64, RANKS = 7, MOST_N = 40, SETS = 3 };

static int every = 5; /* of the admitted plans one is run */
static int admitted, compared, refused, differing;

/* ---- Data: by what an element is, wherever it lies ------------------------------------------- */

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

/* ---- The plain loop -------------------------------------------------------------------------- */

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

/* ---- Matrices -------------------------------------------------------------------------------- */

typedef struct tensors {
    void *a, *b, *bias, *c;
} tensors;

/* The product's rows (columns of A along k, rows of B) that RANK has at place X of what it
 * holds. */
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

/* ---- Runs ------------------------------------------------------------------------------------ */

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
        "fused_out{subs=3,lag=1,tile_m=4,tile_n=8,once=0,splits=1,strips=2,tagged=0}",
        "fused_out{subs=1,lag=2,tile_m=4,tile_n=8,once=0,splits=1,strips=4,tagged=0}",
        "fused_out{subs=1,lag=0,tile_m=4,tile_n=8,once=1,splits=1,strips=3,tagged=0}",
        "fused_out{subs=2,lag=1,tile_m=3,tile_n=32,once=1,splits=1,strips=1,tagged=0}",
        "fused_out{subs=1,lag=0,tile_m=16,tile_n=16,once=0,splits=3,strips=1,tagged=0}",
        "fused_out{subs=1,lag=0,tile_m=16,tile_n=8,once=1,splits=1,strips=1,tagged=1}",
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(admitted_plans_agree)};
    if (argc > 1 && strcmp(argv[1], "all") == 0) every = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
