/* refer.c -- see refer.h. */
#include "refer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"

typedef enum kind { F32, BF16, F16 } kind;

static kind kind_of(const char *type)
{
    return strcmp(type, "f32") == 0 ? F32 : strcmp(type, "bf16") == 0 ? BF16 : F16;
}

static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    double value = 0;
    if (exponent == 31)
        value = fraction ? (double)NAN : (double)INFINITY;
    else
        value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

static double value_at(kind type, const void *data, int64_t index)
{
    float value = 0;
    uint32_t bits = 0;
    switch (type) {
    case F32: return ((const float *)data)[index];
    case F16: return half_value(((const uint16_t *)data)[index]);
    case BF16:
        bits = (uint32_t)((const uint16_t *)data)[index] << 16;
        memcpy(&value, &bits, sizeof value);
        break;
    }
    return value;
}

double refer_value(const char *type, const void *data, int64_t index)
{
    return value_at(kind_of(type), data, index);
}

/* What the bound needs to know of a type: its rounding, its smallest step and its largest value. */
static const struct {
    double rounding, step, most;
} limits[] = {
    [F32] = {0x1p-24, 0x1p-149, 0x1.fffffep127},
    [BF16] = {0x1p-8, 0x1p-133, 0x1.fep127},
    [F16] = {0x1p-11, 0x1p-24, 65504.0},
};

/* ---- One rank's operand as floats ------------------------------------------------------------ */

typedef struct matrix {
    float *value;   /* rows x cols */
    double *length; /* of each row, as a vector */
    int64_t rows, cols;
} matrix;

static bool widen(kind type, const void *data, int64_t rows, int64_t cols, matrix *m)
{
    m->rows = rows;
    m->cols = cols;
    m->value = malloc((size_t)(rows * cols) * sizeof *m->value + 1);
    m->length = malloc((size_t)rows * sizeof *m->length + 1);
    if (m->value == NULL || m->length == NULL) return false;
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t x = 0; x < cols; x++) {
            const double value = value_at(type, data, i * cols + x);
            m->value[i * cols + x] = (float)value; /* exact: every type is part of float */
            sum += value * value;
        }
        m->length[i] = sqrt(sum);
    }
    return true;
}

static void drop(matrix *m)
{
    free(m->value);
    free(m->length);
}

/* Four sums at once, so that the additions do not wait for each other. */
static double dot(const float *a, const float *b, int64_t count)
{
    double sum[4] = {0, 0, 0, 0};
    int64_t x = 0;
    for (; x + 4 <= count; x += 4)
        for (int lane = 0; lane < 4; lane++) sum[lane] += (double)a[x + lane] * (double)b[x + lane];
    for (; x < count; x++) sum[0] += (double)a[x] * (double)b[x];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* ---- Elements -------------------------------------------------------------------------------- */

typedef struct expected {
    double value;
    double off; /* how far a right result may be from it */
} expected;

/* gelu in its tanh form, as the library computes it. */
static double apply(const char *act, double x)
{
    if (strcmp(act, "relu") == 0) return x > 0 ? x : 0;
    if (strcmp(act, "silu") == 0) return x / (1 + exp(-x));
    if (strcmp(act, "gelu") == 0)
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return x;
}

/* Adds bias and activation.  No activation's slope exceeds 1.13, and each is computed in float. */
static expected finish(kind type, expected sum, double bias, const char *act)
{
    const double x = sum.value + bias;
    const double y = apply(act, x);
    double off = sum.off + limits[F32].rounding * 4 * (fabs(x) + fabs(bias));
    if (act[0] != '\0') off = 1.13 * off + limits[F32].rounding * 16 * (fabs(x) + 1);
    return (expected){y, off + 2 * limits[type].rounding * fabs(y) + 2 * limits[type].step};
}

static bool is_right(kind type, expected want, double got)
{
    if (!isfinite(want.value)) return isnan(want.value) ? isnan(got) : !isfinite(got);
    if (fabs(want.value) + want.off > limits[type].most && isinf(got))
        return signbit(got) == signbit(want.value);
    return fabs(got - want.value) <= want.off; /* false for NaN */
}

typedef struct work {
    const deal *d;
    kind type;
    bool gathers; /* a[0] is the whole A, its rows packed by owner */
    bool sums;    /* over ranks */
    bool owned;   /* rows of C are dealt to owners */
    matrix a[DEAL_RANKS], b[DEAL_RANKS];
    int64_t *where; /* row of A of a product row */
    int64_t *c_row; /* row of the owner's C of a product row */
    int *owner;     /* of a product row of C */
} work;

/* Row I, column J of the product of rank R alone; or of all ranks together. */
static expected sum_of(const work *w, int rank, int64_t i, int64_t j)
{
    const int64_t k = w->d->shape.k;
    const int first = w->sums ? 0 : rank;
    const int count = w->sums ? w->d->shape.ranks : 1;
    double sum = 0;
    double partials = 0;
    double lengths = 0;
    for (int r = first; r < first + count; r++) {
        const matrix *const a = &w->a[w->gathers ? 0 : r];
        const double partial = dot(a->value + w->where[i] * k, w->b[r].value + j * k, k);
        sum += partial;
        partials += fabs(partial);
        lengths += a->length[w->where[i]] * w->b[r].length[j];
    }
    const double terms = (double)(k + count + 8);
    double off = terms * (limits[F32].rounding * lengths + limits[F32].step);
    if (w->sums) off += count * (limits[w->type].rounding * partials + limits[w->type].step);
    return (expected){sum, off};
}

static bool holds(const work *w, int rank, int64_t i, int64_t j, expected sum, const char *act)
{
    const deal *const d = w->d;
    const double bias = d->bias[rank] ? value_at(w->type, d->bias[rank], j) : 0;
    const int64_t row = w->owned ? w->c_row[i] : i;
    const expected want = finish(w->type, sum, bias, act);
    return is_right(w->type, want, value_at(w->type, d->c[rank], row * d->shape.n + j));
}

static int64_t compare_row(const work *w, int64_t i, const char *act)
{
    const shingle_shape *const s = &w->d->shape;
    int64_t wrong = 0;
    for (int64_t j = 0; j < s->n; j++) {
        expected sum = {0, 0};
        for (int r = 0; r < s->ranks; r++) {
            /* A sum over ranks is the same for whoever gets it. */
            if (r == 0 || !w->sums) sum = sum_of(w, r, i, j);
            if (!w->owned || w->owner[i] == r) wrong += !holds(w, r, i, j, sum, act);
        }
    }
    return wrong;
}

static bool begin(work *w, const deal *d)
{
    const shingle_shape *const s = &d->shape;
    w->gathers = strcmp(s->op, "ag_gemm") == 0;
    w->d = d;
    w->type = kind_of(s->type);
    w->owned = strcmp(s->op, "gemm_rs") == 0;
    w->sums = w->owned || strcmp(s->op, "gemm_ar") == 0;
    w->where = calloc((size_t)s->m + 1, sizeof *w->where);
    w->c_row = calloc((size_t)s->m + 1, sizeof *w->c_row);
    w->owner = calloc((size_t)s->m + 1, sizeof *w->owner);
    if (w->where == NULL || w->c_row == NULL || w->owner == NULL) return false;
    for (int64_t i = 0; i < s->m; i++) w->where[i] = i;
    for (int r = 0; r < s->ranks; r++) {
        if (!widen(w->type, d->b[r], s->n, s->k, &w->b[r])) return false;
        if (!w->gathers && !widen(w->type, d->a[r], s->m, s->k, &w->a[r])) return false;
        for (int64_t i = 0; i < d->c_rows[r] && w->owned; i++) {
            w->owner[deal_row(d, r, i)] = r;
            w->c_row[deal_row(d, r, i)] = i;
        }
    }
    if (!w->gathers) return true;
    /* All shards one behind the other, and where each product row went. */
    const size_t row_bytes = (size_t)s->k * (size_t)s->element_bytes;
    char *const all = malloc((size_t)s->m * row_bytes + 1);
    int64_t next = 0;
    for (int r = 0; r < s->ranks && all != NULL; r++) {
        memcpy(all + (size_t)next * row_bytes, d->a[r], (size_t)d->a_rows[r] * row_bytes);
        for (int64_t i = 0; i < d->a_rows[r]; i++) w->where[deal_row(d, r, i)] = next++;
    }
    const bool ok = all != NULL && widen(w->type, all, s->m, s->k, &w->a[0]);
    free(all);
    return ok;
}

bool refer_compare(const deal *d, const char *act, int64_t *wrong_out, char *error)
{
    work *const w = calloc(1, sizeof *w);
    const bool ok = w != NULL && begin(w, d);
    int64_t wrong = 0;
    for (int64_t i = 0; i < d->shape.m && ok; i++) {
        if (i % 16 == 0)
            out_progress("comparing with a plain product: row %lld of %lld", (long long)i,
                         (long long)d->shape.m);
        wrong += compare_row(w, i, act);
    }
    out_progress_end();
    for (int r = 0; r < DEAL_RANKS && w != NULL; r++) {
        drop(&w->a[r]);
        drop(&w->b[r]);
    }
    if (w != NULL) {
        free(w->where);
        free(w->c_row);
        free(w->owner);
    }
    free(w);
    if (!ok) return file_fail(error, "no memory for the plain product");
    *wrong_out = wrong;
    return true;
}
