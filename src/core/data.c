/* data.c -- see data.h. */
#include "core/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The numbers ----------------------------------------------------------------------------- */

enum { OF_P, OF_S, OF_TOTAL, OF_U, OF_V, OF_BIAS, OF_START, OF_RESIDUAL }; /* streams of numbers */

enum { START_MOST = 16 };

static uint64_t key_of(const sg_data *d, int what, int rank)
{
    return sg_mix(d->seed * 8 + (uint64_t)what) ^ (uint64_t)rank << 40;
}

static uint64_t draw(const sg_data *d, int what, int rank, int64_t index)
{
    return sg_mix(key_of(d, what, rank) ^ (uint64_t)index);
}

/* Whose u, whose v and whose p are RANK's: where ranks hold parts of one
 * matrix, rank 0's are everybody's. */
static int of_u(const sg_data *d, int rank)
{
    const bool shared =
        sg_problem_in(d->problem) == SG_IN_GATHER && d->problem->gather != SG_GATHER_B;
    return shared ? 0 : rank;
}

static int of_v(const sg_data *d, int rank)
{
    return d->problem->gather == SG_GATHER_B ? 0 : rank;
}

static int of_p(const sg_data *d, int rank)
{
    return sg_problem_in(d->problem) == SG_IN_GATHER ? 0 : rank;
}

static int32_t sign_of(uint64_t random)
{
    return random & 1 ? 1 : -1;
}

/* A power of two up to uv_most, of either sign. */
static int32_t factor(const sg_data *d, uint64_t random)
{
    int32_t size = d->uv_most;
    for (uint64_t halves = random >> 8 & 3; halves > 0 && size > 1; halves--) size /= 2;
    return size * sign_of(random);
}

static int32_t u_of(const sg_data *d, int rank, int64_t row)
{
    return factor(d, draw(d, OF_U, of_u(d, rank), row));
}

static int32_t v_of(const sg_data *d, int rank, int64_t col)
{
    return factor(d, draw(d, OF_V, of_v(d, rank), col));
}

static int32_t p_of(const sg_data *d, int rank, int64_t x)
{
    return sign_of(draw(d, OF_P, of_p(d, rank), x));
}

/* S_r; odd, so that the sums of the second half differ from those of the first, which are even. */
static int32_t total_of(const sg_data *d, int rank)
{
    if (d->problem->k == 0) return 0;
    return draw(d, OF_TOTAL, of_v(d, rank), 0) & 1 ? d->s_most : 1;
}

static int32_t s_of(const sg_data *d, int rank, int64_t x)
{
    const int64_t k = d->problem->k;
    const int64_t half = k / 2;
    if (k % 2 == 1 && x == half) return total_of(d, rank);
    const int64_t pair = x < half ? x : x - half - k % 2;
    const int32_t size =
        2 + 2 * (int32_t)(draw(d, OF_S, of_v(d, rank), pair) % (uint64_t)d->s_steps);
    if (x < half) return size;
    return k % 2 == 0 && x == half ? total_of(d, rank) - size : -size;
}

static int32_t bias_of(const sg_data *d, int64_t col)
{
    return (int32_t)(draw(d, OF_BIAS, 0, col) % 9) - 4;
}

/* What stands in C before a run that accumulates. */
static int32_t start_of(const sg_data *d, int rank, int64_t row, int64_t col)
{
    const uint64_t random = draw(d, OF_START, rank, row * d->problem->n + col);
    return (int32_t)(random % (2 * START_MOST + 1)) - START_MOST;
}

float sg_data_residual(const sg_data *d, int rank, int64_t row, int64_t col)
{
    const uint64_t random = draw(d, OF_RESIDUAL, rank, row * d->problem->n + col);
    return (float)(int32_t)(random % (2 * START_MOST + 1)) - START_MOST;
}

sg_fill sg_data_drawn(const sg_data *d, int rank)
{
    return (sg_fill){.kind = SG_FILL_DRAWN,
                     .type = d->problem->type,
                     .rows = sg_problem_residual_rows(d->problem, rank),
                     .cols = d->problem->n,
                     .key = key_of(d, OF_RESIDUAL, rank),
                     .most = START_MOST};
}

float sg_data_gain(const sg_data *d, int64_t col)
{
    return (float)(draw(d, OF_BIAS, 1, col) % 16 + 1) * 0.25f; /* rank 0's draws are the bias */
}

shingle_status sg_data_make(const sg_problem *problem, uint64_t seed, sg_data *data_out)
{
    if (problem->ranks > SG_DATA_RANKS)
        return sg_fail(SHINGLE_EUNSUPPORTED, "exact data for %d ranks; up to %d are possible",
                       problem->ranks, SG_DATA_RANKS);
    const int32_t terms = sg_problem_sums(problem) ? problem->ranks : 1;
    const int32_t room = (256 - (problem->accumulate ? START_MOST : 0)) / terms;
    sg_data d = {.problem = problem, .seed = seed, .uv_most = 8, .s_most = 1, .s_steps = 4};
    if (room >= 12) d.s_most = 3;
    /* The climb is at most 8 * k / 2; in f32 it is exact below 2^24. */
    while (d.uv_most > 1 &&
           (d.uv_most * d.uv_most * d.s_most > room ||
            d.uv_most * d.uv_most * 4 > (INT64_C(1) << 24) / sg_max(problem->k, 1)))
        d.uv_most /= 2;
    if (problem->k > INT64_C(1) << 22) d.s_steps = 1;
    *data_out = d;
    return SHINGLE_OK;
}

/* ---- Filling --------------------------------------------------------------------------------- */

/* Walks the rows of a matrix in order: of which rank's product they are, and where in it. */
typedef struct row_walk {
    const sg_problem *problem;
    int rank;        /* whose matrix */
    bool by_owner;   /* it holds the parts of ranks' products one behind the other */
    bool own;        /* its rows are those that the rank owns of one product of all */
    int32_t segment; /* of the row at hand, if OWN */
    int source;      /* rank whose product it is of, if BY_OWNER */
} row_walk;

static row_walk walk_rows(const sg_problem *p, int rank, bool moves)
{
    const bool exchange = p->op == SG_OP_A2A_GEMM || p->op == SG_OP_GEMM_A2A;
    return (row_walk){.problem = p,
                      .rank = rank,
                      .by_owner = moves && exchange,
                      .own = moves && !exchange,
                      .segment = p->share[rank].first,
                      .source = 0};
}

/* Row I of the matrix; I never falls.  *OF: the rank whose product row the result is. */
static int64_t product_row(row_walk *walk, int64_t i, int *of)
{
    const sg_problem *const p = walk->problem;
    *of = walk->rank;
    if (walk->by_owner) {
        sg_part part = sg_problem_part(p, walk->source, walk->rank);
        while (i >= part.held + part.rows) part = sg_problem_part(p, ++walk->source, walk->rank);
        *of = walk->source;
        return part.base + i - part.held;
    }
    if (!walk->own) return i;
    const sg_segment *segment = &p->segments[walk->segment];
    while (i >= segment->own_row + segment->rows) {
        walk->segment = segment->next;
        segment = &p->segments[walk->segment];
    }
    return segment->row0 + i - segment->own_row;
}

/* How the rows of RANK's A, B and C are walked. */
static row_walk rows_of(const sg_data *d, sg_tensor tensor, int rank)
{
    const sg_problem *const p = d->problem;
    const bool in = sg_problem_in(p) != SG_IN_NONE;
    const sg_out out = sg_problem_out(p);
    return walk_rows(p, rank,
                     tensor == SG_TENSOR_A   ? in && p->gather == SG_GATHER_A
                     : tensor == SG_TENSOR_B ? p->gather == SG_GATHER_B
                                             : out == SG_OUT_SCATTER || out == SG_OUT_EXCHANGE);
}

static int64_t rows_in(const sg_problem *p, sg_tensor tensor, int rank)
{
    return tensor == SG_TENSOR_A          ? sg_problem_a_rows(p, rank)
           : tensor == SG_TENSOR_B        ? sg_problem_b_rows(p, rank)
           : tensor == SG_TENSOR_RETURNED ? sg_problem_returned_rows(p, rank)
                                          : sg_problem_c_rows(p, rank);
}

static int64_t cols_in(const sg_problem *p, sg_tensor tensor, int rank)
{
    if (tensor == SG_TENSOR_A) return sg_problem_a_cols(p, rank);
    return tensor == SG_TENSOR_B || tensor == SG_TENSOR_RETURNED ? p->k : p->n;
}

static shingle_status no_memory(int64_t elements)
{
    return sg_fail(SHINGLE_ENOMEM, "no memory for a row of %lld elements", (long long)elements);
}

/* Rows differ by their factor alone, of which there are few: each factor's row is made once and
 * copied from then on. */
typedef struct row_kinds {
    int32_t factor[8];
    const char *row[8];
    int count;
} row_kinds;

static void fill_row(sg_type type, row_kinds *kinds, int32_t factor_of_row, const int32_t *pattern,
                     int64_t k, char *row)
{
    for (int i = 0; i < kinds->count; i++) {
        if (kinds->factor[i] != factor_of_row) continue;
        memcpy(row, kinds->row[i], (size_t)(k * sg_type_bytes(type)));
        return;
    }
    for (int64_t x = 0; x < k; x++)
        sg_data_store(type, (float)(factor_of_row * pattern[x]), row, x);
    kinds->factor[kinds->count] = factor_of_row;
    kinds->row[kinds->count++] = row;
}

/* A row is its factor times the pattern of the rank whose product it is of, and
 * such rows stand side by side. */
static shingle_status fill_rows(const sg_data *d, sg_tensor tensor, int rank, char *matrix,
                                int64_t row_bytes)
{
    const sg_problem *const p = d->problem;
    const bool is_a = tensor != SG_TENSOR_B;
    const int64_t rows = rows_in(p, tensor, rank);
    const int64_t k = cols_in(p, tensor, rank);
    int32_t *const pattern = malloc((size_t)(k + 1) * sizeof *pattern);
    if (pattern == NULL) return no_memory(k);
    row_walk along_k = walk_rows(p, rank, is_a && p->gather == SG_GATHER_K);
    row_walk walk = rows_of(d, tensor, rank);
    row_kinds kinds = {.count = 0};
    int made = -1; /* the rank whose pattern it is */
    for (int64_t i = 0; i < rows; i++) {
        int of = rank;
        const int64_t row = product_row(&walk, i, &of);
        for (int64_t x = 0; x < k && made != of; x++) {
            int unused = 0;
            const int64_t at = product_row(&along_k, x, &unused);
            pattern[x] = p_of(d, of, at) * (is_a ? 1 : s_of(d, of, at));
        }
        if (made != of) kinds.count = 0;
        made = of;
        const int32_t f = is_a ? u_of(d, of, row) : v_of(d, of, row);
        fill_row(p->type, &kinds, f, pattern, k, matrix + i * row_bytes);
    }
    free(pattern);
    return SHINGLE_OK;
}

shingle_status sg_data_fill(const sg_data *d, sg_tensor tensor, int rank, void *matrix,
                            int64_t stride)
{
    const sg_problem *const p = d->problem;
    const int64_t cols = cols_in(p, tensor, rank);
    const int64_t row_bytes = (stride ? stride : cols) * sg_type_bytes(p->type);
    if (tensor == SG_TENSOR_BIAS || tensor == SG_TENSOR_GAIN) {
        for (int64_t col = 0; col < p->n; col++)
            sg_data_store(p->type,
                          tensor == SG_TENSOR_GAIN ? sg_data_gain(d, col) : (float)bias_of(d, col),
                          matrix, col);
        return SHINGLE_OK;
    }
    if (cols == 0) return SHINGLE_OK; /* of two thousand million rows, perhaps */
    const bool residual = tensor == SG_TENSOR_RESIDUAL;
    if (tensor != SG_TENSOR_C && !residual) return fill_rows(d, tensor, rank, matrix, row_bytes);
    for (int64_t row = 0; row < sg_problem_c_rows(p, rank); row++)
        for (int64_t col = 0; col < p->n; col++)
            sg_data_store(p->type,
                          residual ? sg_data_residual(d, rank, row, col)
                                   : (float)start_of(d, rank, row, col),
                          (char *)matrix + row * row_bytes, col);
    return SHINGLE_OK;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static float activated(sg_act act, float x)
{
    if (act == SG_ACT_RELU) return x < 0 ? 0 : x;
    if (act == SG_ACT_GELU) {
        const double y = (double)x;
        const double root = 0.79788456080286535588; /* sqrt(2 / pi) */
        return (float)(0.5 * y * (1 + tanh(root * (y + 0.044715 * y * y * y))));
    }
    if (act == SG_ACT_SILU) return (float)((double)x / (1 + exp(-(double)x)));
    return x;
}

float sg_data_finished(const sg_data *d, int64_t sum, int64_t col)
{
    const float value = (float)(sum + (d->problem->bias ? bias_of(d, col) : 0));
    return sg_data_round(d->problem->type, activated(d->problem->act, value));
}

/* The sum over ranks of the products at (ROW, COL) of RANK's C, whose row is ROW of OF's
 * product. */
static int64_t sum_at(const sg_data *d, int of, int64_t row, int64_t col)
{
    const bool sums = sg_problem_sums(d->problem);
    int64_t sum = 0;
    for (int r = sums ? 0 : of; r < (sums ? d->problem->ranks : of + 1); r++)
        sum += u_of(d, r, row) * v_of(d, r, col) * total_of(d, r);
    return sum;
}

float sg_data_expected(const sg_data *d, int rank, int64_t row, int64_t col)
{
    int of = rank;
    row_walk walk = rows_of(d, SG_TENSOR_C, rank);
    const int64_t of_product = product_row(&walk, row, &of);
    const int64_t start = d->problem->accumulate ? start_of(d, rank, row, col) : 0;
    return sg_data_finished(d, start + sum_at(d, of, of_product, col), col);
}

float sg_data_returned(const sg_data *d, int rank, int64_t row, int64_t col)
{
    return (float)(u_of(d, rank, row) * p_of(d, rank, col));
}

/* Two units in the last place, and for results that all but vanish a part of the smallest input. */
static bool is_near(sg_type type, float seen, float expected)
{
    const float unit = type == SG_F32 ? 0x1p-22f : type == SG_F16 ? 0x1p-9f : 0x1p-6f;
    return fabsf(seen - expected) <= fabsf(expected) * unit + 0x1p-20f;
}

static bool is_right(const sg_problem *p, float seen, float expected)
{
    if (p->act == SG_ACT_GELU || p->act == SG_ACT_SILU) return is_near(p->type, seen, expected);
    return sg_float_bits(seen) == sg_float_bits(expected);
}

typedef struct comparing {
    const char *c;
    int64_t row_bytes;
    sg_data_wrong wrong;
} comparing;

void sg_data_see(sg_data_wrong *wrong, int64_t row, int64_t col, float seen, float expected)
{
    if (wrong->elements++ > 0) return;
    wrong->row = row;
    wrong->col = col;
    wrong->seen = seen;
    wrong->expected = expected;
}

/* Adds a whole row of C, and whether it is the first wrong one. */
static void compare_row(void *context, const sg_data *d, int64_t row, const int32_t *sums)
{
    comparing *const to = context;
    const sg_problem *const p = d->problem;
    const char *const c = to->c + row * to->row_bytes;
    const bool plain = !sg_problem_has_epilogue(p); /* then sums need no rounding */
    for (int64_t col = 0; col < p->n; col++) {
        const float expected = plain ? (float)sums[col] : sg_data_finished(d, sums[col], col);
        const float seen = sg_data_load(p->type, c, col);
        if (!is_right(p, seen, expected)) sg_data_see(&to->wrong, row, col, seen, expected);
    }
}

/* v times S of every rank whose products meet in the rows of OF's product: one, or all. */
static void weigh_columns(const sg_data *d, int of, int32_t *weights)
{
    const int64_t n = d->problem->n;
    const bool sums = sg_problem_sums(d->problem);
    for (int r = sums ? 0 : of; r < (sums ? d->problem->ranks : of + 1); r++, weights += n)
        for (int64_t col = 0; col < n; col++) weights[col] = v_of(d, r, col) * total_of(d, r);
}

shingle_status sg_data_each_row(const sg_data *d, int rank, sg_data_row_fn visitor, void *context)
{
    const sg_problem *const p = d->problem;
    const int64_t n = p->n;
    const bool sums_ranks = sg_problem_sums(p);
    const int count = sums_ranks ? p->ranks : 1;
    if (n == 0) return SHINGLE_OK;
    /* The sums of a row, then the weights of each rank. */
    int32_t *const sums = malloc((size_t)(n * (count + 1) + 1) * sizeof *sums);
    if (sums == NULL) return no_memory(n);
    row_walk walk = rows_of(d, SG_TENSOR_C, rank);
    int weighed = -1;
    for (int64_t i = 0; i < sg_problem_c_rows(p, rank); i++) {
        int of = rank;
        const int64_t row = product_row(&walk, i, &of);
        if (weighed != of) weigh_columns(d, of, sums + n);
        weighed = of;
        for (int64_t col = 0; col < n; col++)
            sums[col] = p->accumulate ? start_of(d, rank, i, col) : 0;
        for (int r = 0; r < count; r++) {
            const int32_t u = u_of(d, sums_ranks ? r : of, row);
            const int32_t *const weights = sums + (r + 1) * n;
            for (int64_t col = 0; col < n; col++) sums[col] += u * weights[col];
        }
        visitor(context, d, i, sums);
    }
    free(sums);
    return SHINGLE_OK;
}

shingle_status sg_data_compare(const sg_data *d, int rank, const void *c, int64_t stride,
                               sg_data_wrong *wrong_out)
{
    const sg_problem *const p = d->problem;
    comparing to = {.c = c, .row_bytes = (stride ? stride : p->n) * sg_type_bytes(p->type)};
    if (p->norm) return sg_data_compare_normed(d, rank, SG_TENSOR_C, c, stride, wrong_out);
    SG_TRY(sg_data_each_row(d, rank, compare_row, &to));
    *wrong_out = to.wrong;
    return SHINGLE_OK;
}

shingle_status sg_data_compare_returned(const sg_data *d, int rank, const void *a, int64_t stride,
                                        sg_data_wrong *wrong_out)
{
    const int64_t k = d->problem->k;
    sg_data_wrong wrong = {.returned = true};
    for (int64_t i = 0; i < sg_problem_returned_rows(d->problem, rank) * k; i++) {
        const float expected = sg_data_returned(d, rank, i / k, i % k);
        const float seen = sg_data_load(d->problem->type, a, i / k * (stride ? stride : k) + i % k);
        if (sg_float_bits(seen) != sg_float_bits(expected))
            sg_data_see(&wrong, i / k, i % k, seen, expected);
    }
    *wrong_out = wrong;
    return SHINGLE_OK;
}

void sg_data_describe(const sg_data_wrong *wrong, int rank, sg_text *text)
{
    const char *const name = wrong->returned ? "returned A" : wrong->residual ? "residual" : "C";
    if (wrong->elements == 0) {
        sg_text_add(text, "%s of rank %d is right", name, rank);
        return;
    }
    sg_text_add(text, "%s[%lld,%lld] of rank %d is %g, expected %g; %lld elements are wrong", name,
                (long long)wrong->row, (long long)wrong->col, rank, (double)wrong->seen,
                (double)wrong->expected, (long long)wrong->elements);
}

/* ---- Matrices as sums ------------------------------------------------------------------------ */

/* Of whose products the terms are: one a rank where rows of several meet
 * in a matrix, or their sums. */
static bool by_rank(const sg_data *d, sg_tensor tensor, int rank)
{
    const bool sums = tensor == SG_TENSOR_C && sg_problem_sums(d->problem);
    return sums || rows_of(d, tensor, rank).by_owner;
}

static void fill_sum_cols(const sg_data *d, sg_tensor tensor, int rank, sg_fill *f)
{
    const sg_problem *const p = d->problem;
    const bool several = by_rank(d, tensor, rank);
    for (int t = 0; t < (several ? p->ranks : 1); t++) {
        const int of = several ? t : rank;
        int32_t *const col = f->col + t * f->cols;
        row_walk along_k = walk_rows(p, rank, tensor == SG_TENSOR_A && p->gather == SG_GATHER_K);
        for (int64_t x = 0; x < f->cols; x++) {
            int unused = 0;
            const int64_t at = tensor == SG_TENSOR_C ? x : product_row(&along_k, x, &unused);
            col[x] = tensor == SG_TENSOR_B   ? p_of(d, of, at) * s_of(d, of, at)
                     : tensor == SG_TENSOR_C ? v_of(d, of, at) * total_of(d, of)
                                             : p_of(d, of, at);
        }
    }
}

static void fill_sum_rows(const sg_data *d, sg_tensor tensor, int rank, sg_fill *f)
{
    const bool sums = tensor == SG_TENSOR_C && sg_problem_sums(d->problem);
    const bool several = by_rank(d, tensor, rank);
    row_walk walk = rows_of(d, tensor, rank);
    for (int64_t i = 0; i < f->rows; i++) {
        int of = rank;
        const int64_t row = product_row(&walk, i, &of);
        for (int t = 0; t < (several ? d->problem->ranks : 1); t++) {
            const int whose = sums ? t : of;
            const bool here = !several || t == whose;
            f->row[t * f->rows + i] = !here                   ? 0
                                      : tensor == SG_TENSOR_B ? v_of(d, whose, row)
                                                              : u_of(d, whose, row);
        }
    }
}

/* What the norm of F's sums reads; the gain stands behind the factors. */
static void take_norm(const sg_data *d, int rank, sg_fill *f)
{
    f->key = key_of(d, OF_RESIDUAL, rank);
    f->most = START_MOST;
    f->epsilon = sg_problem_epsilon(d->problem);
    f->gain = (float *)(void *)(f->col + f->terms * f->cols);
    for (int64_t x = 0; x < f->cols; x++) f->gain[x] = sg_data_gain(d, x);
}

shingle_status sg_data_sums(const sg_data *d, sg_tensor tensor, int rank, sg_fill *fill_out)
{
    const sg_problem *const p = d->problem;
    const bool normed = p->norm && (tensor == SG_TENSOR_C || tensor == SG_TENSOR_RESIDUAL);
    const sg_fill_kind kind = !normed                 ? SG_FILL_SUMS
                              : tensor == SG_TENSOR_C ? SG_FILL_NORMED
                                                      : SG_FILL_RESIDUAL;
    if (normed) tensor = SG_TENSOR_C; /* it is of these sums */
    const bool is_c = tensor == SG_TENSOR_C;
    const bool smooth = p->act == SG_ACT_GELU || p->act == SG_ACT_SILU;
    if (tensor == SG_TENSOR_BIAS || tensor == SG_TENSOR_GAIN || tensor == SG_TENSOR_RESIDUAL ||
        (is_c && (p->accumulate || smooth)))
        return sg_fail(SHINGLE_EUNSUPPORTED, "elements of this matrix are no sums of products");
    sg_fill f = {.kind = kind,
                 .type = p->type,
                 .rows = rows_in(p, tensor, rank),
                 .cols = cols_in(p, tensor, rank),
                 .relu = is_c && p->act == SG_ACT_RELU};
    const bool biased = is_c && p->bias;
    f.terms = (by_rank(d, tensor, rank) ? p->ranks : 1) + (biased ? 1 : 0);
    f.row = malloc((size_t)(f.terms * (f.rows + f.cols) + f.cols + 1) * sizeof *f.row);
    if (f.row == NULL) return no_memory(f.rows + f.cols);
    f.col = f.row + f.terms * f.rows;
    fill_sum_cols(d, tensor, rank, &f);
    fill_sum_rows(d, tensor, rank, &f);
    const int last = f.terms - 1;
    for (int64_t i = 0; biased && i < f.rows; i++) f.row[last * f.rows + i] = 1;
    for (int64_t x = 0; biased && x < f.cols; x++) f.col[last * f.cols + x] = bias_of(d, x);
    if (normed) take_norm(d, rank, &f);
    *fill_out = f;
    return SHINGLE_OK;
}

/* ---- A function for calls -------------------------------------------------------------------- */

/* Rows and columns of a block whose rows of A and B are widened at once. */
enum { CALL_ROWS = 8, CALL_DEPTH = 256 };

static void widen(sg_type type, const void *row, int64_t from, int64_t count, float *out)
{
    for (int64_t x = 0; x < count; x++) out[x] = sg_data_load(type, row, from + x);
}

/* SUM[i] += A[i] * B over COUNT values, four rows' worth of chains that do not wait for each
 * other. */
static void add_block(const float (*a)[CALL_DEPTH], const float *b, int64_t rows, int64_t count,
                      float *sum, int64_t stride)
{
    for (int64_t i = 0; i < rows; i++) {
        float part[4] = {0, 0, 0, 0};
        int64_t x = 0;
        for (; x + 4 <= count; x += 4)
            for (int lane = 0; lane < 4; lane++) part[lane] += a[i][x + lane] * b[x + lane];
        for (; x < count; x++) part[0] += a[i][x] * b[x];
        sum[i * stride] += part[0] + part[1] + (part[2] + part[3]);
    }
}

int sg_data_compute(void *context, const shingle_rows *rows)
{
    const sg_problem *const p = context;
    const int64_t bytes = sg_type_bytes(p->type);
    const char *const a_rows = rows->a;
    const char *const b_rows = rows->b;
    float a[CALL_ROWS][CALL_DEPTH];
    float b[CALL_DEPTH];
    for (int64_t i = 0; i < rows->rows; i++)
        memset(rows->sum + i * rows->sum_stride, 0, (size_t)p->n * sizeof *rows->sum);
    for (int64_t row = 0; row < rows->rows; row += CALL_ROWS) {
        const int64_t count = sg_min(CALL_ROWS, rows->rows - row);
        float *const sum = rows->sum + row * rows->sum_stride;
        for (int64_t x = 0; x < p->k; x += CALL_DEPTH) {
            const int64_t depth = sg_min(CALL_DEPTH, p->k - x);
            for (int64_t i = 0; i < count; i++)
                widen(p->type, a_rows + (row + i) * rows->a_stride * bytes, x, depth, a[i]);
            for (int64_t col = 0; col < p->n; col++) {
                widen(p->type, b_rows + col * rows->b_stride * bytes, x, depth, b);
                add_block(a, b, count, depth, sum + col, rows->sum_stride);
            }
        }
    }
    return 0;
}
