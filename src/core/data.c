/* data.c -- see data.h. */
#include "core/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Types ---------------------------------------------------------------------------------------- */

static uint32_t bits_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t to_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static uint16_t to_f16(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more */
    if (size < 0x38800000u) {
        /* Below 2^-14: the sum with 0.5 rounds to multiples of 2^-24. */
        const uint32_t rounded = bits_of(float_of(size) + 0.5f);
        return (uint16_t)(sign | (rounded - 0x3f000000u));
    }
    const uint32_t rounded = size - 0x38000000u + 0xfffu + (size >> 13 & 1u);
    return (uint16_t)(sign | rounded >> 13);
}

static float from_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = half >> 10 & 0x1fu;
    const uint32_t fraction = half & 0x3ffu;
    if (exponent == 0x1f) return float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

void sg_data_store(sg_type type, float value, void *matrix, int64_t index)
{
    if (type == SG_F32)
        ((float *)matrix)[index] = value;
    else
        ((uint16_t *)matrix)[index] = type == SG_BF16 ? to_bf16(value) : to_f16(value);
}

float sg_data_load(sg_type type, const void *matrix, int64_t index)
{
    if (type == SG_F32) return ((const float *)matrix)[index];
    const uint16_t half = ((const uint16_t *)matrix)[index];
    return type == SG_BF16 ? float_of((uint32_t)half << 16) : from_f16(half);
}

/* ---- The numbers ----------------------------------------------------------------------------------- */

enum { OF_P = 1, OF_S, OF_TOTAL, OF_U, OF_V, OF_BIAS }; /* streams of random numbers */

static uint64_t draw(const sg_data *d, int what, int rank, int64_t index)
{
    return sg_mix(sg_mix(d->seed * 8 + (uint64_t)what) ^ (uint64_t)rank << 40 ^ (uint64_t)index);
}

static bool is_gather(const sg_data *d)
{
    return sg_problem_in(d->problem) == SG_IN_GATHER;
}

/* All ranks hold rows of one gathered A, so they share its u and p. */
static int of_a(const sg_data *d, int rank)
{
    return is_gather(d) ? 0 : rank;
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
    return factor(d, draw(d, OF_U, of_a(d, rank), row));
}

static int32_t v_of(const sg_data *d, int rank, int64_t col)
{
    return factor(d, draw(d, OF_V, rank, col));
}

static int32_t p_of(const sg_data *d, int rank, int64_t x)
{
    return sign_of(draw(d, OF_P, of_a(d, rank), x));
}

/* S_r; odd, so that the sums of the second half differ from those of the first, which are even. */
static int32_t total_of(const sg_data *d, int rank)
{
    if (d->problem->k == 0) return 0;
    return draw(d, OF_TOTAL, rank, 0) & 1 ? d->s_most : 1;
}

static int32_t s_of(const sg_data *d, int rank, int64_t x)
{
    const int64_t k = d->problem->k;
    const int64_t half = k / 2;
    if (k % 2 == 1 && x == half) return total_of(d, rank);
    const int64_t pair = x < half ? x : x - half - k % 2;
    const int32_t size = 2 + 2 * (int32_t)(draw(d, OF_S, rank, pair) % (uint64_t)d->s_steps);
    if (x < half) return size;
    return k % 2 == 0 && x == half ? total_of(d, rank) - size : -size;
}

static int32_t bias_of(const sg_data *d, int64_t col)
{
    return (int32_t)(draw(d, OF_BIAS, 0, col) % 9) - 4;
}

shingle_status sg_data_make(const sg_problem *problem, uint64_t seed, sg_data *data_out)
{
    if (problem->ranks > SG_DATA_RANKS)
        return sg_fail(SHINGLE_EUNSUPPORTED, "exact data for %d ranks; up to %d are possible",
                       problem->ranks, SG_DATA_RANKS);
    const int32_t terms = sg_problem_out(problem) == SG_OUT_NONE ? 1 : problem->ranks;
    const int32_t room = 256 / terms;
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

/* ---- Filling --------------------------------------------------------------------------------------- */

/* Row of the product that row OWN of RANK's shard is: walks forward from segment *AT. */
static int64_t product_row(const sg_problem *p, int32_t *at, int64_t own)
{
    const sg_segment *segment = &p->segments[*at];
    while (own >= segment->own_row + segment->rows) {
        *at = segment->next;
        segment = &p->segments[*at];
    }
    return segment->row0 + own - segment->own_row;
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

shingle_status sg_data_fill(const sg_data *d, sg_tensor tensor, int rank, void *matrix,
                            int64_t stride)
{
    const sg_problem *const p = d->problem;
    if (tensor == SG_TENSOR_BIAS) {
        for (int64_t col = 0; col < p->n; col++)
            sg_data_store(p->type, (float)bias_of(d, col), matrix, col);
        return SHINGLE_OK;
    }
    const int64_t k = p->k;
    const int64_t rows = tensor == SG_TENSOR_A ? sg_problem_a_rows(p, rank) : p->n;
    const int64_t row_bytes = (stride ? stride : k) * sg_type_bytes(p->type);
    int32_t *const pattern = malloc((size_t)(k + 1) * sizeof *pattern);
    if (pattern == NULL) return no_memory(k);
    for (int64_t x = 0; x < k; x++)
        pattern[x] = p_of(d, rank, x) * (tensor == SG_TENSOR_A ? 1 : s_of(d, rank, x));

    const bool own_rows = tensor == SG_TENSOR_A && is_gather(d);
    int32_t segment = p->share[rank].first;
    row_kinds kinds = {.count = 0};
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = own_rows ? product_row(p, &segment, i) : i;
        const int32_t f = tensor == SG_TENSOR_A ? u_of(d, rank, row) : v_of(d, rank, row);
        fill_row(p->type, &kinds, f, pattern, k, (char *)matrix + i * row_bytes);
    }
    free(pattern);
    return SHINGLE_OK;
}

/* ---- Comparing -------------------------------------------------------------------------------------- */

static float rounded(sg_type type, float value)
{
    uint32_t room = 0;
    sg_data_store(type, value, &room, 0);
    return sg_data_load(type, &room, 0);
}

static float activated(sg_act act, float x)
{
    if (act == SG_ACT_RELU) return x > 0 ? x : 0;
    if (act == SG_ACT_GELU) {
        const double y = (double)x;
        const double root = 0.79788456080286535588; /* sqrt(2 / pi) */
        return (float)(0.5 * y * (1 + tanh(root * (y + 0.044715 * y * y * y))));
    }
    if (act == SG_ACT_SILU) return (float)((double)x / (1 + exp(-(double)x)));
    return x;
}

static float finished(const sg_data *d, int64_t sum, int64_t col)
{
    const float value = (float)(sum + (d->problem->bias ? bias_of(d, col) : 0));
    return rounded(d->problem->type, activated(d->problem->act, value));
}

/* Which ranks' products meet in an element of RANK's C: [*FIRST, *END). */
static void summed_ranks(const sg_data *d, int rank, int *first, int *end)
{
    const bool all = sg_problem_out(d->problem) != SG_OUT_NONE;
    *first = all ? 0 : rank;
    *end = all ? d->problem->ranks : rank + 1;
}

static bool is_scatter(const sg_data *d)
{
    return sg_problem_out(d->problem) == SG_OUT_SCATTER;
}

float sg_data_expected(const sg_data *d, int rank, int64_t row, int64_t col)
{
    int32_t segment = d->problem->share[rank].first;
    const int64_t of_product = is_scatter(d) ? product_row(d->problem, &segment, row) : row;
    int first = 0;
    int end = 0;
    summed_ranks(d, rank, &first, &end);
    int64_t sum = 0;
    for (int r = first; r < end; r++)
        sum += u_of(d, r, of_product) * v_of(d, r, col) * total_of(d, r);
    return finished(d, sum, col);
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
    return bits_of(seen) == bits_of(expected);
}

/* Adds a whole row of C, and whether it is the first wrong one. */
static void compare_row(const sg_data *d, const int32_t *sums, const char *c, int64_t row,
                        sg_data_wrong *wrong)
{
    const sg_problem *const p = d->problem;
    const bool plain = !sg_problem_has_epilogue(p); /* then sums need no rounding */
    for (int64_t col = 0; col < p->n; col++) {
        const float expected = plain ? (float)sums[col] : finished(d, sums[col], col);
        const float seen = sg_data_load(p->type, c, col);
        if (is_right(p, seen, expected)) continue;
        if (wrong->elements++ > 0) continue;
        wrong->row = row;
        wrong->col = col;
        wrong->seen = seen;
        wrong->expected = expected;
    }
}

shingle_status sg_data_compare(const sg_data *d, int rank, const void *c, int64_t stride,
                               sg_data_wrong *wrong_out)
{
    const sg_problem *const p = d->problem;
    int first = 0;
    int end = 0;
    summed_ranks(d, rank, &first, &end);
    const int64_t n = p->n;
    /* The sums of a row, then for each rank its v times S. */
    int32_t *const sums = malloc((size_t)(n * (end - first + 1) + 1) * sizeof *sums);
    if (sums == NULL) return no_memory(n);
    for (int r = first; r < end; r++)
        for (int64_t col = 0; col < n; col++)
            sums[(r - first + 1) * n + col] = v_of(d, r, col) * total_of(d, r);

    sg_data_wrong wrong = {0};
    const int64_t row_bytes = (stride ? stride : n) * sg_type_bytes(p->type);
    int32_t segment = p->share[rank].first;
    for (int64_t i = 0; i < sg_problem_c_rows(p, rank); i++) {
        const int64_t row = is_scatter(d) ? product_row(p, &segment, i) : i;
        memset(sums, 0, (size_t)n * sizeof *sums);
        for (int r = first; r < end; r++) {
            const int32_t u = u_of(d, r, row);
            const int32_t *const vs = sums + (r - first + 1) * n;
            for (int64_t col = 0; col < n; col++) sums[col] += u * vs[col];
        }
        compare_row(d, sums, (const char *)c + i * row_bytes, i, &wrong);
    }
    free(sums);
    *wrong_out = wrong;
    return SHINGLE_OK;
}

void sg_data_describe(const sg_data_wrong *wrong, int rank, sg_text *text)
{
    if (wrong->elements == 0) {
        sg_text_add(text, "C of rank %d is right", rank);
        return;
    }
    sg_text_add(text, "C[%lld,%lld] of rank %d is %g, expected %g; %lld elements are wrong",
                (long long)wrong->row, (long long)wrong->col, rank, (double)wrong->seen,
                (double)wrong->expected, (long long)wrong->elements);
}
