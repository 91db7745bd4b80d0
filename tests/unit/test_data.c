/* Tests of data.h: what it expects is what multiplying gives, in every operator, type and split;
 * and each way of computing something else shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data.h"

enum { MOST_RANKS = 8 };

/* Matrices of all ranks, as f32 whatever the type. */
typedef struct world {
    sg_problem problem;
    sg_data data;
    float *a[MOST_RANKS], *b[MOST_RANKS]; /* A: all product rows a rank multiplies */
    void *c[MOST_RANKS];
} world;

/* Which part of the sum is computed wrongly. */
typedef struct slip {
    int64_t k0, k1; /* this range of k is left out; or taken twice */
    bool twice;
    int no_rank, twice_rank; /* -1: none */
    int64_t row_a, row_b;    /* exchanged rows of the product; -1: none */
} slip;

static const slip right = {0, 0, false, -1, -1, -1, -1};

static float *loaded(const sg_problem *p, const void *matrix, int64_t count)
{
    float *const out = malloc((size_t)(count + 1) * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < count; i++) out[i] = sg_data_load(p->type, matrix, i);
    return out;
}

/* Fills A and B of all ranks; A of a gather is put together from the shares. */
static void make_world(const char *text, uint64_t seed, world *w)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(sg_problem_parse(text, &w->problem), SHINGLE_OK);
    const sg_problem *const p = &w->problem;
    assert_true(p->ranks <= MOST_RANKS);
    assert_int_equal(sg_data_make(p, seed, &w->data), SHINGLE_OK);
    const bool gather = sg_problem_in(p) == SG_IN_GATHER;
    float *const whole = calloc((size_t)(p->m * p->k + 1), sizeof *whole);
    for (int r = 0; r < p->ranks; r++) {
        const int64_t rows = sg_problem_a_rows(p, r);
        void *const raw = malloc((size_t)(sg_max(rows, p->n) * p->k * 4 + 1));
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_A, r, raw, 0), SHINGLE_OK);
        w->a[r] = loaded(p, raw, rows * p->k);
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_B, r, raw, 0), SHINGLE_OK);
        w->b[r] = loaded(p, raw, p->n * p->k);
        free(raw);
        for (int32_t i = p->share[r].first; gather && i >= 0; i = p->segments[i].next)
            memcpy(whole + p->segments[i].row0 * p->k, w->a[r] + p->segments[i].own_row * p->k,
                   (size_t)(p->segments[i].rows * p->k) * sizeof *whole);
        w->c[r] = malloc((size_t)(sg_problem_c_rows(p, r) * p->n * 4 + 1));
    }
    for (int r = 0; r < p->ranks && gather; r++) {
        free(w->a[r]);
        w->a[r] = malloc((size_t)(p->m * p->k + 1) * sizeof *whole);
        memcpy(w->a[r], whole, (size_t)(p->m * p->k) * sizeof *whole);
    }
    free(whole);
}

static void free_world(world *w)
{
    for (int r = 0; r < w->problem.ranks; r++) {
        free(w->a[r]);
        free(w->b[r]);
        free(w->c[r]);
    }
    sg_problem_free(&w->problem);
}

static float product(const world *w, int rank, int64_t row, int64_t col, const slip *s)
{
    const int64_t k = w->problem.k;
    float sum = 0;
    for (int64_t x = 0; x < k; x++) {
        const bool in = x >= s->k0 && x < s->k1;
        if (in && !s->twice) continue;
        sum += w->a[rank][row * k + x] * w->b[rank][col * k + x] * (in ? 2 : 1);
    }
    return sum;
}

/* Every partial product is rounded to the type on its way, as a wire does; it must not matter. */
static float through_wire(const world *w, float value)
{
    uint32_t room = 0;
    sg_data_store(w->problem.type, value, &room, 0);
    return sg_data_load(w->problem.type, &room, 0);
}

static float activated(sg_act act, float x)
{
    if (act == SG_ACT_RELU) return x > 0 ? x : 0;
    if (act == SG_ACT_SILU) return x / (1 + expf(-x));
    if (act != SG_ACT_GELU) return x;
    return x * 0.5f * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

/* Computes C of RANK with a slip; stores it in the problem's type. */
static void compute(world *w, int rank, const slip *s)
{
    const sg_problem *const p = &w->problem;
    const bool sums = sg_problem_out(p) != SG_OUT_NONE;
    const bool own = sg_problem_out(p) == SG_OUT_SCATTER;
    float bias[512] = {0};
    char raw[512 * 4];
    if (p->bias) {
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_BIAS, rank, raw, 0), SHINGLE_OK);
        for (int64_t i = 0; i < p->n; i++) bias[i] = sg_data_load(p->type, raw, i);
    }
    for (int32_t i = 0; i < p->segment_count; i++) {
        const sg_segment *const segment = &p->segments[i];
        if (own && segment->owner != rank) continue;
        for (int64_t x = 0; x < segment->rows; x++) {
            int64_t row = segment->row0 + x;
            const int64_t to = own ? segment->own_row + x : row;
            if (row == s->row_a)
                row = s->row_b;
            else if (row == s->row_b)
                row = s->row_a;
            for (int64_t col = 0; col < p->n; col++) {
                float sum = 0;
                for (int r = sums ? 0 : rank; r < (sums ? p->ranks : rank + 1); r++) {
                    if (r == s->no_rank) continue;
                    const float part = through_wire(w, product(w, r, row, col, s));
                    sum += r == s->twice_rank ? 2 * part : part;
                }
                sg_data_store(p->type, activated(p->act, sum + bias[col]), w->c[rank],
                              to * p->n + col);
            }
        }
    }
}

static int64_t wrong_elements(world *w, int rank, const slip *s)
{
    sg_data_wrong wrong;
    compute(w, rank, s);
    assert_int_equal(sg_data_compare(&w->data, rank, w->c[rank], 0, &wrong), SHINGLE_OK);
    return wrong.elements;
}

static const char *const worlds[] = {
    "gemm:f32:5x7x9:r1",
    "gemm:bf16:4x4x64:r3",
    "ag_gemm:f32:16x12x33:r4",
    "ag_gemm:bf16:17x9x64:r4:cyclic=3",
    "ag_gemm:f16:9x8x130:r3:rows=0,9,0:bias:relu",
    "gemm_rs:f32:16x12x32:r4",
    "gemm_rs:bf16:13x6x65:r8",
    "gemm_rs:f16:12x5x100:r5:cyclic=2:bias",
    "gemm_rs:bf16:3x5x16:r7:bias:gelu",
    "gemm_ar:f32:8x8x1:r2",
    "gemm_ar:bf16:10x9x2:r5:silu",
    "gemm_ar:f16:6x6x77:r6:rows=1,0,2,0,3,0",
    "gemm_ar:f32:4x4x300:r8:bias:gelu",
    "gemm_rs:bf16:4x4x0:r2:bias",
};

enum { WORLDS = sizeof worlds / sizeof worlds[0] };

static void expected_is_what_multiplying_gives(void **state)
{
    (void)state;
    for (int i = 0; i < WORLDS; i++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            world w;
            make_world(worlds[i], seed, &w);
            for (int r = 0; r < w.problem.ranks; r++) {
                if (wrong_elements(&w, r, &right) != 0)
                    fail_msg("%s: rank %d, seed %d", worlds[i], r, (int)seed);
                const int64_t rows = sg_problem_c_rows(&w.problem, r);
                for (int64_t j = 0; j < rows * w.problem.n; j++) {
                    const float e = sg_data_expected(&w.data, r, j / w.problem.n, j % w.problem.n);
                    const float seen = sg_data_load(w.problem.type, w.c[r], j);
                    assert_true(fabsf(seen - e) <= 0.02f * fabsf(e) + 1e-6f);
                }
            }
            free_world(&w);
        }
    }
}

static void sums_are_exact_in_every_type(void **state)
{
    (void)state;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        make_world(worlds[i], 9, &w);
        const int64_t k = w.problem.k;
        float all = 0;
        for (int r = 0; r < w.problem.ranks; r++) {
            float most = 0;
            for (int64_t j = 0; j < w.problem.m * w.problem.n; j++) {
                const float part = fabsf(product(&w, r, j / w.problem.n, j % w.problem.n, &right));
                if (most < part) most = part;
                if (k > 0) assert_true(part >= 1);
            }
            all += most;
        }
        const bool sums = sg_problem_out(&w.problem) != SG_OUT_NONE;
        assert_true(all <= (float)(sums ? 256 : 256 * w.problem.ranks));
        free_world(&w);
    }
}

/* Any range of k left out or taken twice changes every element of every rank's product. */
static void every_range_of_k_matters(void **state)
{
    (void)state;
    static const char *const text[] = {"ag_gemm:f32:4x4x48:r2", "ag_gemm:bf16:4x4x49:r2"};
    for (int i = 0; i < 2; i++) {
        world w;
        make_world(text[i], 5, &w);
        for (int64_t k0 = 0; k0 < w.problem.k; k0++) {
            for (int64_t k1 = k0 + 1; k1 <= w.problem.k; k1++) {
                slip s = right;
                s.k0 = k0;
                s.k1 = k1;
                assert_int_equal(wrong_elements(&w, 1, &s), 16);
                s.twice = true;
                assert_int_equal(wrong_elements(&w, 1, &s), 16);
            }
        }
        free_world(&w);
    }
}

static void lost_and_doubled_addends_show_everywhere(void **state)
{
    (void)state;
    world w;
    make_world("gemm_rs:bf16:16x8x64:r8", 2, &w);
    for (int r = 0; r < 8; r++) {
        slip s = right;
        s.no_rank = r;
        assert_int_equal(wrong_elements(&w, 3, &s), 16);
        s.no_rank = -1;
        s.twice_rank = r;
        assert_int_equal(wrong_elements(&w, 3, &s), 16);
    }
    free_world(&w);
}

/* Rows have few factors, so two may be equal; bands of eight rows are not. */
static void swapped_bands_show(void **state)
{
    (void)state;
    static const char *const text[] = {"ag_gemm:bf16:64x16x64:r4", "gemm_ar:f32:64x16x64:r4"};
    for (int i = 0; i < 2; i++) {
        world w;
        make_world(text[i], 3, &w);
        for (int64_t a = 0; a < 8; a++) {
            for (int64_t b = a + 1; b < 8; b++) {
                int64_t wrong = 0;
                for (int64_t x = 0; x < 8; x++) {
                    slip s = right;
                    s.row_a = 8 * a + x;
                    s.row_b = 8 * b + x;
                    wrong += wrong_elements(&w, 0, &s);
                }
                assert_true(wrong > 8 * 16 / 4);
            }
        }
        free_world(&w);
    }
}

/* What an earlier run left is wrong nearly everywhere: with another seed, and with another
 * rank's. */
static void stale_results_show(void **state)
{
    (void)state;
    world w;
    make_world("ag_gemm:bf16:32x32x64:r2", 7, &w);
    compute(&w, 0, &right);
    sg_data other;
    sg_data_wrong wrong;
    assert_int_equal(sg_data_make(&w.problem, 8, &other), SHINGLE_OK);
    assert_int_equal(sg_data_compare(&other, 0, w.c[0], 0, &wrong), SHINGLE_OK);
    assert_true(wrong.elements > 32 * 32 / 2);
    assert_int_equal(sg_data_compare(&w.data, 1, w.c[0], 0, &wrong), SHINGLE_OK);
    assert_true(wrong.elements > 32 * 32 / 2);
    char line[160] = "";
    sg_text t = {line, sizeof line, 0};
    sg_data_describe(&wrong, 1, &t);
    assert_non_null(strstr(line, "of rank 1 is "));
    assert_non_null(strstr(line, "elements are wrong"));
    free_world(&w);
}

static void the_first_wrong_element_is_named(void **state)
{
    (void)state;
    world w;
    make_world("gemm_rs:f32:12x6x16:r3", 1, &w);
    compute(&w, 2, &right);
    float *const c = w.c[2];
    const float was = c[2 * 6 + 5];
    c[2 * 6 + 5] = was + 1;
    c[3 * 6 + 1] = NAN;
    sg_data_wrong wrong;
    assert_int_equal(sg_data_compare(&w.data, 2, c, 0, &wrong), SHINGLE_OK);
    assert_int_equal(wrong.elements, 2);
    assert_int_equal(wrong.row, 2);
    assert_int_equal(wrong.col, 5);
    assert_true(wrong.seen == was + 1 && wrong.expected == was);
    free_world(&w);
}

/* ---- Matrices that are dealt in other ways --------------------------------------------------- */

/* Raw matrices of all ranks, each as its rank holds it. */
typedef struct dealt {
    sg_problem problem;
    sg_data data;
    void *a[MOST_RANKS], *b[MOST_RANKS], *c[MOST_RANKS];
} dealt;

/* Whose row ROW of what moves is, and where it stands among that rank's rows. */
static int owner_of(const sg_problem *p, int64_t row, int64_t *own_out)
{
    for (int32_t i = 0; i < p->segment_count; i++) {
        const sg_segment *const s = &p->segments[i];
        if (row < s->row0 || row >= s->row0 + s->rows) continue;
        *own_out = s->own_row + row - s->row0;
        return s->owner;
    }
    fail();
    return 0;
}

/* Element X of row ROW of the A that RANK multiplies. */
static float moved_a(const dealt *w, int rank, int64_t row, int64_t x)
{
    const sg_problem *const p = &w->problem;
    int64_t own = x;
    if (p->gather == SG_GATHER_K) {
        const int owner = owner_of(p, x, &own);
        return sg_data_load(p->type, w->a[owner], row * p->share[owner].rows + own);
    }
    for (int q = 0; q < p->ranks && p->op == SG_OP_A2A_GEMM; q++) {
        const sg_part part = sg_problem_part(p, rank, q);
        if (row >= part.base && row < part.base + part.rows)
            return sg_data_load(p->type, w->a[q], (part.held + row - part.base) * p->k + x);
    }
    return sg_data_load(p->type, w->a[rank], row * p->k + x);
}

static float moved_b(const dealt *w, int rank, int64_t col, int64_t x)
{
    const sg_problem *const p = &w->problem;
    const int owner = p->gather == SG_GATHER_B ? owner_of(p, col, &col) : rank;
    return sg_data_load(p->type, w->b[owner], col * p->k + x);
}

/* What stands at (ROW, COL) of RANK's C when the product over [0, K1) is added to it. */
static float moved_c(const dealt *w, int rank, int64_t row, int64_t col, int64_t k1)
{
    const sg_problem *const p = &w->problem;
    float sum = p->accumulate ? sg_data_load(p->type, w->c[rank], row * p->n + col) : 0;
    int of = rank;
    int64_t from = row;
    for (int r = 0; r < p->ranks && p->op == SG_OP_GEMM_A2A; r++) {
        const sg_part part = sg_problem_part(p, r, rank);
        if (row < part.held || row >= part.held + part.rows) continue;
        of = r;
        from = part.base + row - part.held;
    }
    for (int64_t x = 0; x < k1; x++) sum += moved_a(w, of, from, x) * moved_b(w, of, col, x);
    return sum;
}

static void make_dealt(const char *text, dealt *w)
{
    assert_int_equal(sg_problem_parse(text, &w->problem), SHINGLE_OK);
    const sg_problem *const p = &w->problem;
    assert_int_equal(sg_data_make(p, 21, &w->data), SHINGLE_OK);
    for (int r = 0; r < p->ranks; r++) {
        w->a[r] = calloc((size_t)(sg_problem_a_rows(p, r) * sg_problem_a_cols(p, r) + 1), 4);
        w->b[r] = calloc((size_t)(sg_problem_b_rows(p, r) * p->k + 1), 4);
        w->c[r] = calloc((size_t)(sg_problem_c_rows(p, r) * p->n + 1), 4);
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_A, r, w->a[r], 0), SHINGLE_OK);
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_B, r, w->b[r], 0), SHINGLE_OK);
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_C, r, w->c[r], 0), SHINGLE_OK);
    }
}

/* Right results are right, and without the last k every one is wrong. */
static void matrices_that_move_are_exact(void **state)
{
    static const char *const text[] = {"a2a_gemm:bf16:13x5x24:r3",
                                       "a2a_gemm:f32:9x5x24:r3:counts=4,0,1/2,3,0/0,6,1",
                                       "gemm_a2a:f16:13x5x24:r4",
                                       "gemm_a2a:f32:9x5x24:r3:counts=4,0,1/2,3,0/2,6,1",
                                       "ag_gemm:f32:7x13x24:r3:gather=b:cyclic=2",
                                       "ag_gemm:bf16:7x13x25:r3:gather=k:rows=0,20,5",
                                       "ag_gemm:bf16:7x13x25:r3:gather=k:cyclic=4:accumulate",
                                       "gemm:f16:7x13x24:r2:accumulate"};
    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        dealt w = {.data = {.seed = 0}};
        make_dealt(text[i], &w);
        const sg_problem *const p = &w.problem;
        for (int r = 0; r < p->ranks; r++) {
            const int64_t count = sg_problem_c_rows(p, r) * p->n;
            void *const c = calloc((size_t)count + 1, 4);
            for (int64_t k1 = p->k - 1; k1 <= p->k; k1++) {
                sg_data_wrong wrong;
                for (int64_t j = 0; j < count; j++) {
                    const float value = moved_c(&w, r, j / p->n, j % p->n, k1);
                    sg_data_store(p->type, value, c, j);
                    const float e = sg_data_expected(&w.data, r, j / p->n, j % p->n);
                    assert_true((value - e == 0) == (k1 == p->k));
                }
                assert_int_equal(sg_data_compare(&w.data, r, c, 0, &wrong), SHINGLE_OK);
                assert_int_equal(wrong.elements, k1 == p->k ? 0 : count);
            }
            free(c);
        }
        for (int r = 0; r < p->ranks; r++) {
            free(w.a[r]);
            free(w.b[r]);
            free(w.c[r]);
        }
        sg_problem_free(&w.problem);
    }
}

/* Element (I, J) of a matrix that is given as sums. */
static float from_sums(const sg_fill *f, int64_t i, int64_t j)
{
    int64_t sum = 0;
    uint32_t room = 0;
    for (int t = 0; t < f->terms; t++)
        sum += (int64_t)f->row[t * f->rows + i] * f->col[t * f->cols + j];
    sg_data_store(f->type, f->relu && sum < 0 ? 0.0f : (float)sum, &room, 0);
    return sg_data_load(f->type, &room, 0);
}

static void sums_are_of(const sg_data *d, sg_tensor tensor, int rank)
{
    sg_fill f;
    assert_int_equal(sg_data_sums(d, tensor, rank, &f), SHINGLE_OK);
    float *const matrix = malloc((size_t)(f.rows * f.cols + 1) * sizeof *matrix);
    assert_non_null(matrix);
    if (tensor != SG_TENSOR_C)
        assert_int_equal(sg_data_fill(d, tensor, rank, matrix, 0), SHINGLE_OK);
    for (int64_t i = 0; i < f.rows; i++)
        for (int64_t j = 0; j < f.cols; j++) {
            const float wanted = tensor == SG_TENSOR_C
                                     ? sg_data_expected(d, rank, i, j)
                                     : sg_data_load(f.type, matrix, i * f.cols + j);
            if (from_sums(&f, i, j) != wanted)
                fail_msg("matrix %d of rank %d, (%d, %d): %g, not %g", (int)tensor, rank, (int)i,
                         (int)j, (double)from_sums(&f, i, j), (double)wanted);
        }
    free(matrix);
    free(f.row);
}

/* A backend that makes and compares matrices where they are sees the same ones. */
static void matrices_are_sums(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "ag_gemm:f32:13x5x7:r3",          "ag_gemm:bf16:13x6x8:r3:bias:relu",
        "gemm_rs:f16:13x5x8:r3:cyclic=2", "gemm_ar:bf16:9x5x7:r4:bias",
        "ag_gemm:f32:6x9x4:r3:gather=b",  "ag_gemm:f32:6x5x9:r3:gather=k",
        "gemm_rs:f32:9x4x6:r2:rows=0,9",  "a2a_gemm:f32:9x5x7:r2:counts=4,5/5,4",
        "gemm_a2a:f32:9x5x7:r2",          "gemm:f32:4x5x0:r1:relu",
        "gemm_rs:f16:9x5x8:r2:bias:norm"}; /* before the norm */
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        sg_problem p;
        sg_data d;
        if (sg_problem_parse(problems[i], &p) != SHINGLE_OK)
            fail_msg("%s: %s", problems[i], shingle_error());
        assert_int_equal(sg_data_make(&p, 5 + i, &d), SHINGLE_OK);
        for (int r = 0; r < p.ranks; r++) {
            sums_are_of(&d, SG_TENSOR_A, r);
            sums_are_of(&d, SG_TENSOR_B, r);
            sums_are_of(&d, SG_TENSOR_C, r);
        }
        sg_problem_free(&p);
    }
    static const char *const others[] = {"gemm:f32:4x5x6:r1:accumulate", "gemm:f32:4x5x6:r1:gelu",
                                         "gemm:f32:4x5x6:r1:silu"};
    for (int i = 0; i < 3; i++) {
        sg_problem p;
        sg_data d;
        sg_fill f;
        assert_int_equal(sg_problem_parse(others[i], &p), SHINGLE_OK);
        assert_int_equal(sg_data_make(&p, 1, &d), SHINGLE_OK);
        assert_int_equal(sg_data_sums(&d, SG_TENSOR_C, 0, &f), SHINGLE_EUNSUPPORTED);
        sg_problem_free(&p);
    }
}

static void strides_leave_gaps_alone(void **state)
{
    (void)state;
    sg_problem p;
    sg_data d;
    float dense[3 * 4];
    float wide[3 * 7];
    for (int i = 0; i < 21; i++) wide[i] = -77;
    assert_int_equal(sg_problem_parse("gemm:f32:3x2x4:r1", &p), SHINGLE_OK);
    assert_int_equal(sg_data_make(&p, 1, &d), SHINGLE_OK);
    assert_int_equal(sg_data_fill(&d, SG_TENSOR_A, 0, dense, 0), SHINGLE_OK);
    assert_int_equal(sg_data_fill(&d, SG_TENSOR_A, 0, wide, 7), SHINGLE_OK);
    for (int i = 0; i < 21; i++)
        assert_true(wide[i] == (i % 7 < 4 ? dense[i / 7 * 4 + i % 7] : -77));
    sg_problem_free(&p);
    assert_int_equal(sg_problem_parse("gemm_rs:f32:3x2x4:r257", &p), SHINGLE_OK);
    assert_int_equal(sg_data_make(&p, 1, &d), SHINGLE_EUNSUPPORTED);
    sg_problem_free(&p);
}

/* The nearest of all finite values of the type, ties to the even one. */
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    static const sg_type types[] = {SG_BF16, SG_F16};
    for (int i = 0; i < 2; i++) {
        const uint16_t infinity = types[i] == SG_BF16 ? 0x7f80 : 0x7c00;
        for (uint32_t bits = 0; bits + 1 < infinity; bits++) {
            const uint16_t pair[2] = {(uint16_t)bits, (uint16_t)(bits + 1)};
            const double low = (double)sg_data_load(types[i], pair, 0);
            const double high = (double)sg_data_load(types[i], pair, 1);
            const double middle = (low + high) / 2;
            const double value[3] = {low, middle, high};
            for (int v = 0; v < 3; v++) {
                uint16_t stored = 0;
                if ((double)(float)value[v] != value[v]) continue; /* below f32's smallest */
                sg_data_store(types[i], (float)value[v], &stored, 0);
                assert_int_equal(stored, v == 1 ? (bits + 1) & ~1u : v == 0 ? bits : bits + 1);
                sg_data_store(types[i], -(float)value[v], &stored, 0);
                assert_int_equal(stored & 0x8000, 0x8000);
            }
            uint16_t stored = 0;
            sg_data_store(types[i], nextafterf((float)middle, INFINITY), &stored, 0);
            if ((double)(float)middle == middle) assert_int_equal(stored, bits + 1);
        }
        uint16_t stored = 0;
        sg_data_store(types[i], INFINITY, &stored, 0);
        assert_int_equal(stored, infinity);
        sg_data_store(types[i], 3.4e38f, &stored, 0);
        assert_int_equal(stored, infinity);
        sg_data_store(types[i], NAN, &stored, 0);
        assert_true(isnan(sg_data_load(types[i], &stored, 0)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expected_is_what_multiplying_gives),
        cmocka_unit_test(sums_are_exact_in_every_type),
        cmocka_unit_test(every_range_of_k_matters),
        cmocka_unit_test(lost_and_doubled_addends_show_everywhere),
        cmocka_unit_test(swapped_bands_show),
        cmocka_unit_test(stale_results_show),
        cmocka_unit_test(the_first_wrong_element_is_named),
        cmocka_unit_test(matrices_that_move_are_exact),
        cmocka_unit_test(matrices_are_sums),
        cmocka_unit_test(strides_leave_gaps_alone),
        cmocka_unit_test(halves_round_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
