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

/* What the magnitudes of the terms add up to. */
static double magnitude(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t x = 0; x < count; x++) sum += fabs((double)a[x] * (double)b[x]);
    return sum;
}

/* ---- Elements -------------------------------------------------------------------------------- */

typedef struct expected {
    double value;
    double off;    /* how far a right result may be from it */
    double way;    /* how large a sum may be on the way to it, in some order */
    bool vanishes; /* an activation may make 0 of one that overflows there */
} expected;

/* gelu in its tanh form, as the library computes it. */
static double apply(const char *act, double x)
{
    if (strcmp(act, "relu") == 0) return x < 0 ? 0 : x; /* NaN stays, as the library has it */
    if (isinf(x) && x < 0) return act[0] != '\0' ? 0 : x;
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
    off += 2 * limits[type].rounding * fabs(y) + 2 * limits[type].step;
    return (expected){y, off, sum.way + fabs(bias), act[0] != '\0'};
}

static bool is_right(kind type, expected want, double got)
{
    if (!isfinite(want.value)) return isnan(want.value) ? isnan(got) : !isfinite(got);
    if (want.way > limits[F32].most && (!isfinite(got) || (want.vanishes && got == 0))) return true;
    if (fabs(want.value) + want.off > limits[type].most && isinf(got))
        return signbit(got) == signbit(want.value);
    return fabs(got - want.value) <= want.off; /* false for NaN */
}

typedef struct work {
    const deal *d;
    kind type;
    bool sums;                           /* over ranks */
    matrix a[DEAL_RANKS], b[DEAL_RANKS]; /* as they are multiplied */
    bool same_a, same_b;                 /* rank 0's are everybody's */
    expected *row;                       /* what one row adds up to */
} work;

static const matrix *a_of(const work *w, int rank)
{
    return &w->a[w->same_a ? 0 : rank];
}

static const matrix *b_of(const work *w, int rank)
{
    return &w->b[w->same_b ? 0 : rank];
}

/* How large sums may be on the way to row I, column J, of COUNT ranks, which travel in their type.
 * PARTIALS: the magnitudes of theirs; BOUND: no less than those of all terms. */
static double way_to(const work *w, int first, int count, int64_t i, int64_t j, double partials,
                     double bound)
{
    const int64_t k = w->d->shape.k;
    double sum = 0;
    if (w->sums && partials > limits[w->type].most) return (double)INFINITY;
    if (!(bound > limits[F32].most / 2)) return bound;
    for (int r = first; r < first + count; r++)
        sum += magnitude(a_of(w, r)->value + i * k, b_of(w, r)->value + j * k, k);
    return sum;
}

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
        const matrix *const a = a_of(w, r);
        const matrix *const b = b_of(w, r);
        const double partial = dot(a->value + i * k, b->value + j * k, k);
        sum += partial;
        partials += fabs(partial);
        lengths += a->length[i] * b->length[j];
    }
    const double terms = (double)(k + count + 8);
    double off = terms * (limits[F32].rounding * lengths + limits[F32].step);
    if (w->sums) off += count * (limits[w->type].rounding * partials + limits[w->type].step);
    return (expected){sum, off, way_to(w, first, count, i, j, partials, lengths), false};
}

/* Is element J of row ROW of RANK's C the SUM of products, of which the last is OF's? */
static bool holds(const work *w, int rank, int of, int64_t row, int64_t j, expected sum,
                  const char *act)
{
    const deal *const d = w->d;
    const int64_t at = row * d->shape.n + j;
    const double bias = d->bias[of] ? value_at(w->type, d->bias[of], j) : 0;
    if (d->start[rank] != NULL) {
        const double start = value_at(w->type, d->start[rank], at);
        sum.value += start;
        sum.off += limits[F32].rounding * 4 * fabs(start);
        sum.way += fabs(start);
    }
    const expected want = finish(w->type, sum, bias, act);
    return is_right(w->type, want, value_at(w->type, d->c[rank], at));
}

/* Elements of row ROW of RANK's residual and C that are not what the norm of these sums leaves. */
static int64_t compare_normed(const work *w, int rank, int64_t row)
{
    const deal *const d = w->d;
    const int64_t n = d->shape.n;
    const double u = limits[F32].rounding;
    int64_t wrong = 0;
    double squares = 0;
    for (int64_t j = 0; j < n; j++) {
        const double bias = d->bias[rank] ? value_at(w->type, d->bias[rank], j) : 0;
        const expected y = finish(w->type, w->row[j], bias, "");
        const double added = value_at(w->type, d->added[rank], row * n + j);
        expected x = y;
        x.value += value_at(w->type, d->residual[rank], row * n + j);
        x.off += 2 * limits[w->type].rounding * fabs(x.value) + 2 * limits[w->type].step;
        wrong += !is_right(w->type, x, added);
        squares += added * added;
    }
    const double scale = 1 / sqrt(squares / (double)n + d->shape.epsilon);
    const double terms = ceil((double)n / 2048) + 11 + 8;
    for (int64_t j = 0; j < n; j++) {
        const double added = value_at(w->type, d->added[rank], row * n + j);
        const double c = added * scale * value_at(w->type, d->gain[rank], j);
        const double off = terms * u + 2 * limits[w->type].rounding;
        const double step = limits[w->type].step;
        expected want = {.value = c, .off = off * fabs(c) + 2 * step};
        /* In float the squares add up to infinity, by which what is finite becomes 0. */
        if (squares > limits[F32].most && isfinite(added))
            want.value = 0 * value_at(w->type, d->gain[rank], j), want.off = 0;
        wrong += !is_right(w->type, want, value_at(w->type, d->c[rank], row * n + j));
    }
    return wrong;
}

/* Row ROW of RANK's C, whose sums are known and the last of which is OF's. */
static int64_t compare_known(const work *w, int rank, int of, int64_t row, const char *act)
{
    int64_t wrong = 0;
    if (w->d->shape.has_norm) return compare_normed(w, rank, row);
    for (int64_t j = 0; j < w->d->shape.n; j++)
        wrong += !holds(w, rank, of, row, j, w->row[j], act);
    return wrong;
}

/* Row ROW of RANK's C; of everybody's, where all get the same sum. */
static int64_t compare_row(const work *w, int rank, int64_t row, const char *act)
{
    const deal *const d = w->d;
    const bool all = w->sums && !d->scatter;
    int of = 0;
    const int64_t i = deal_c_row(d, rank, row, &of);
    for (int64_t j = 0; j < d->shape.n; j++) w->row[j] = sum_of(w, of, i, j);
    int64_t wrong = compare_known(w, rank, of, row, act);
    for (int r = 0; r < d->shape.ranks && all; r++)
        if (r != rank) wrong += compare_known(w, r, r, row, act);
    return wrong;
}

/* ---- Operands as they are multiplied --------------------------------------------------------- */

/* COUNT rows from row FROM of PIECE to row TO of WHOLE. */
static void move_rows(const deal *d, char *whole, int64_t to, const char *piece, int64_t from,
                      int64_t count)
{
    const size_t bytes = (size_t)d->shape.k * (size_t)d->shape.element_bytes;
    memcpy(whole + (size_t)to * bytes, piece + (size_t)from * bytes, (size_t)count * bytes);
}

/* Rows of A that rank OWNER holds into rank R's A. */
static void take_a(const deal *d, int r, int owner, char *whole)
{
    const size_t item = (size_t)d->shape.element_bytes;
    const char *const piece = d->a[owner];
    if (d->exchange_in) {
        int64_t to = 0;
        int64_t from = 0;
        for (int q = 0; q < owner; q++) to += d->sent[q][r];
        for (int q = 0; q < r; q++) from += d->sent[owner][q];
        move_rows(d, whole, to, piece, from, d->sent[owner][r]);
    } else if (d->shape.gather == 'k') {
        for (int64_t i = 0; i < d->shape.m; i++)
            for (int64_t x = 0; x < d->a_cols[owner]; x++)
                memcpy(whole + (size_t)(i * d->shape.k + deal_row(d, owner, x)) * item,
                       piece + (size_t)(i * d->a_cols[owner] + x) * item, item);
    } else {
        for (int64_t i = 0; i < d->a_rows[owner]; i++)
            move_rows(d, whole, deal_row(d, owner, i), piece, i, 1);
    }
}

static bool begin_rank(work *w, int r)
{
    const deal *const d = w->d;
    const shingle_shape *const s = &d->shape;
    const bool whole_a = !w->same_a && !d->exchange_in;
    const int64_t rows = w->same_a ? s->m : d->rows[r];
    if (whole_a && !widen(w->type, d->a[r], rows, s->k, &w->a[r])) return false;
    if (!w->same_b && !widen(w->type, d->b[r], s->n, s->k, &w->b[r])) return false;
    const bool parts_a = !whole_a && (r == 0 || !w->same_a);
    const bool parts_b = w->same_b && r == 0;
    const int64_t most = rows > s->n ? rows : s->n;
    char *const whole = malloc((size_t)(most * s->k * s->element_bytes) + 1);
    bool ok = whole != NULL;
    for (int q = 0; ok && parts_a && q < s->ranks; q++) take_a(d, r, q, whole);
    if (parts_a) ok = ok && widen(w->type, whole, rows, s->k, &w->a[r]);
    for (int q = 0; ok && parts_b && q < s->ranks; q++)
        for (int64_t i = 0; i < d->b_rows[q]; i++)
            move_rows(d, whole, deal_row(d, q, i), d->b[q], i, 1);
    if (parts_b) ok = ok && widen(w->type, whole, s->n, s->k, &w->b[r]);
    free(whole);
    return ok;
}

static bool begin(work *w, const deal *d)
{
    w->d = d;
    w->type = kind_of(d->shape.type);
    w->sums = d->scatter || strcmp(d->shape.op, "gemm_ar") == 0;
    w->same_a = d->shape.gather == 'a' || d->shape.gather == 'k';
    w->same_b = d->shape.gather == 'b';
    w->row = malloc((size_t)d->shape.n * sizeof *w->row + 1);
    if (w->row == NULL) return false;
    for (int r = 0; r < d->shape.ranks; r++)
        if (!begin_rank(w, r)) return false;
    return true;
}

/* Elements of the A that rank R returns which are not those it has multiplied. */
static bool compare_returned(const deal *d, int r, int64_t *wrong)
{
    const int64_t bytes = d->shape.element_bytes;
    const int64_t count = d->rows[r] * d->shape.k;
    char *const whole = malloc((size_t)(count * bytes) + 1);
    if (whole == NULL) return false;
    for (int q = 0; q < d->shape.ranks; q++) take_a(d, r, q, whole);
    for (int64_t i = 0; i < count; i++)
        *wrong +=
            memcmp(whole + i * bytes, (const char *)d->returned[r] + i * bytes, (size_t)bytes) != 0;
    free(whole);
    return true;
}

bool refer_compare(const deal *d, int64_t *wrong_out, char *error)
{
    work *const w = calloc(1, sizeof *w);
    bool ok = w != NULL && begin(w, d);
    const bool all = ok && w->sums && !d->scatter; /* rank 0's rows stand for all */
    int64_t wrong = 0;
    for (int r = 0; ok && r < (all ? 1 : d->shape.ranks); r++)
        for (int64_t i = 0; i < d->c_rows[r]; i++) {
            if (i % 16 == 0)
                out_progress("comparing with a plain product: rank %d, row %lld of %lld", r,
                             (long long)i, (long long)d->c_rows[r]);
            wrong += compare_row(w, r, i, d->shape.act);
        }
    out_progress_end();
    for (int r = 0; ok && r < d->shape.ranks; r++)
        if (d->returned[r] != NULL) ok = compare_returned(d, r, &wrong);
    for (int r = 0; r < DEAL_RANKS && w != NULL; r++) {
        drop(&w->a[r]);
        drop(&w->b[r]);
    }
    if (w != NULL) free(w->row);
    free(w);
    if (!ok) return file_fail(error, "no memory for the plain product");
    *wrong_out = wrong;
    return true;
}

int refer_compute(void *context, const shingle_rows *rows)
{
    const shingle_shape *const s = context;
    const kind type = kind_of(s->type);
    for (int64_t i = 0; i < rows->rows; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double sum = 0;
            for (int64_t x = 0; x < s->k; x++)
                sum += value_at(type, rows->a, i * rows->a_stride + x) *
                       value_at(type, rows->b, j * rows->b_stride + x);
            rows->sum[i * rows->sum_stride + j] = (float)sum;
        }
    return 0;
}
