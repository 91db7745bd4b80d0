/* tensors.c -- see tensors.h. */
#include "core/tensors.h"

#include <stdio.h>

/* Two columns of more_b and more_c, and the seven that come once. */
enum { TENSORS = 2 * (SHINGLE_MOST_B - 1) + 7 };

typedef struct tensor {
    const char *name;
    int number; /* of several by that name; -1: the only one */
    const void *data;
    int64_t rows, cols;
    int64_t stride; /* between rows, in elements */
    bool stored;
} tensor;

typedef struct tensors {
    const sg_problem *problem;
    tensor one[TENSORS];
    int count;
} tensors;

static void write_name(const tensor *t, char name[24])
{
    if (t->number < 0)
        snprintf(name, 24, "%s", t->name);
    else
        snprintf(name, 24, "%s[%d]", t->name, t->number);
}

/* ---- One by one ------------------------------------------------------------------------------ */

static shingle_status check_one(const sg_problem *p, const tensor *t)
{
    const int64_t bytes = sg_type_bytes(p->type);
    const int64_t most = INT64_MAX / 2 / bytes / (t->rows > 0 ? t->rows : 1);
    char name[24];
    write_name(t, name);
    if (t->stride < t->cols)
        return sg_fail(SHINGLE_EINVAL,
                       "%s has %lld elements from row to row; 0 (dense) or at least %lld", name,
                       (long long)t->stride, (long long)t->cols);
    if (t->stride > most)
        return sg_fail(SHINGLE_EINVAL, "%s has %lld elements from row to row; at most %lld", name,
                       (long long)t->stride, (long long)most);
    if (t->rows == 0 || t->cols == 0) return SHINGLE_OK;
    if (t->data == NULL)
        return sg_fail(SHINGLE_EINVAL, "%s is NULL; a matrix of %lld x %lld is needed", name,
                       (long long)t->rows, (long long)t->cols);
    if ((uintptr_t)t->data % (uintptr_t)bytes != 0)
        return sg_fail(SHINGLE_EINVAL, "%s lies at %p; it must be aligned to %d bytes", name,
                       t->data, (int)bytes);
    return SHINGLE_OK;
}

/* Adds T, which the problem has.  STRIDE: the caller's, 0 becomes dense; NULL: a vector. */
static shingle_status add(tensors *all, tensor t, int64_t *stride)
{
    if (stride != NULL && *stride == 0) *stride = t.cols;
    t.stride = stride != NULL ? *stride : t.cols;
    SG_ASSERT(all->count < TENSORS);
    all->one[all->count++] = t;
    return check_one(all->problem, &t);
}

/* A tensor that the problem does not have: to drop it would be to compute
 * something else than was meant. */
static shingle_status check_none(const char *name, const void *data, const char *word)
{
    if (data == NULL) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL, "%s is given, but the problem has none; add :%s, or pass NULL",
                   name, word);
}

static shingle_status check_more(const sg_problem *p, char letter, int index, const void *data)
{
    if (data == NULL) return SHINGLE_OK;
    return sg_fail(
        SHINGLE_EINVAL,
        "more_%c[%d] is given; the problem has %d %c: name more in :b=N1,N2,..., or pass "
        "NULL",
        letter, index, p->b_count > 1 ? p->b_count : 1, letter == 'b' ? 'B' : 'C');
}

/* The second B and C, and all behind. */
static shingle_status add_more(tensors *all, int64_t some, int64_t c_rows, shingle_tensors *t)
{
    const sg_problem *const p = all->problem;
    for (int i = 0; i < SHINGLE_MOST_B - 1; i++) {
        if (i >= p->b_count - 1) {
            SG_TRY(check_more(p, 'b', i, t->more_b[i]));
            SG_TRY(check_more(p, 'c', i, t->more_c[i]));
            continue;
        }
        const int64_t cols = p->b_cols[i + 1];
        SG_TRY(add(all, (tensor){"more_b", i, t->more_b[i], some * cols, p->k, 0, false},
                   &t->more_b_stride[i]));
        SG_TRY(add(all, (tensor){"more_c", i, t->more_c[i], c_rows, cols, 0, true},
                   &t->more_c_stride[i]));
    }
    return SHINGLE_OK;
}

static shingle_status add_norm(tensors *all, int rank, shingle_tensors *t)
{
    const sg_problem *const p = all->problem;
    const int64_t rows = sg_problem_residual_rows(p, rank);
    if (!p->norm) {
        SG_TRY(check_none("residual", t->residual, "norm"));
        return check_none("gain", t->gain, "norm");
    }
    SG_TRY(
        add(all, (tensor){"residual", -1, t->residual, rows, p->n, 0, true}, &t->residual_stride));
    return add(all, (tensor){"gain", -1, t->gain, rows > 0, p->n, 0, false}, NULL);
}

static shingle_status add_all(tensors *all, int rank, shingle_tensors *t)
{
    const sg_problem *const p = all->problem;
    const int64_t some = p->m > 0; /* without a product, operands are not read */
    const int64_t a_rows = p->n > 0 ? sg_problem_a_rows(p, rank) : 0;
    const int64_t a_cols = sg_problem_a_cols(p, rank);
    const int64_t b_rows = p->b_count > 1 ? p->b_cols[0] : sg_problem_b_rows(p, rank);
    const int64_t c_rows = sg_problem_c_rows(p, rank);
    SG_TRY(add(all, (tensor){"a", -1, t->a, a_rows, a_cols, 0, false}, &t->a_stride));
    /* A call reads B itself, if it likes. */
    SG_TRY(add(all, (tensor){"b", -1, t->b, p->call ? 0 : some * b_rows, p->k, 0, false},
               &t->b_stride));
    SG_TRY(add(all, (tensor){"c", -1, t->c, c_rows, p->b_cols[0], 0, true}, &t->c_stride));
    SG_TRY(add_more(all, some, c_rows, t));
    if (p->return_a)
        SG_TRY(add(all,
                   (tensor){"returned_a", -1, t->returned_a, sg_problem_returned_rows(p, rank),
                            p->k, 0, true},
                   &t->returned_a_stride));
    else
        SG_TRY(check_none("returned_a", t->returned_a, "return_a"));
    SG_TRY(add_norm(all, rank, t));
    if (!p->bias) return check_none("bias", t->bias, "bias");
    return add(all, (tensor){"bias", -1, t->bias, some, p->n, 0, false}, NULL);
}

/* ---- One over another ------------------------------------------------------------------------ */

/* Elements from the first to behind the last. */
static int64_t extent(const tensor *t)
{
    return t->rows > 0 && t->cols > 0 ? (t->rows - 1) * t->stride + t->cols : 0;
}

static bool meet(int64_t at0, int64_t count0, int64_t at1, int64_t count1)
{
    return at0 < at1 + count1 && at1 < at0 + count0;
}

/* Do X and Y, which begins AHEAD elements behind X, share an element?  Both have rows side by side
 * in rows of one length, as column blocks of one matrix have. */
static bool blocks_meet(const tensor *x, const tensor *y, int64_t ahead)
{
    const int64_t row = ahead / x->stride, col = ahead % x->stride;
    return (meet(0, x->rows, row, y->rows) && meet(0, x->cols, col, y->cols)) ||
           (meet(0, x->rows, row + 1, y->rows) && meet(0, x->cols, col - x->stride, y->cols));
}

/* Does a row of X share an element with the COUNT that begin AHEAD elements behind X's first? */
static bool row_meets(const tensor *x, int64_t ahead, int64_t count)
{
    const int64_t row = ahead / x->stride, col = ahead % x->stride;
    if (row >= x->rows) return false;
    return col < x->cols || (row + 1 < x->rows && col + count > x->stride);
}

static bool is_dense(const tensor *t)
{
    return t->rows == 1 || t->stride == t->cols;
}

static bool lie_over(const tensor *x, const tensor *y, int bytes)
{
    if (extent(x) == 0 || extent(y) == 0) return false;
    if ((uintptr_t)y->data < (uintptr_t)x->data) return lie_over(y, x, bytes);
    const int64_t ahead = (int64_t)(((uintptr_t)y->data - (uintptr_t)x->data) / (uintptr_t)bytes);
    if (ahead >= extent(x)) return false;
    if (is_dense(x)) return true;
    if (is_dense(y)) return row_meets(x, ahead, extent(y));
    if (x->stride == y->stride) return blocks_meet(x, y, ahead);
    for (int64_t row = 0; row < y->rows; row++)
        if (row_meets(x, ahead + row * y->stride, y->cols)) return true;
    return false;
}

static shingle_status check_places(const tensors *all)
{
    const int bytes = sg_type_bytes(all->problem->type);
    for (int i = 0; i < all->count; i++)
        for (int j = 0; j < i; j++) {
            const tensor *const x = &all->one[j], *const y = &all->one[i];
            if ((!x->stored && !y->stored) || !lie_over(x, y, bytes)) continue;
            char name[2][24];
            write_name(x, name[0]);
            write_name(y, name[1]);
            return sg_fail(
                SHINGLE_EINVAL,
                "%s at %p and %s at %p lie over each other; what is stored to needs memory "
                "of its own",
                name[0], x->data, name[1], y->data);
        }
    return SHINGLE_OK;
}

shingle_status sg_tensors_check(const sg_problem *p, int rank, shingle_tensors *t)
{
    tensors all = {.problem = p};
    SG_TRY(add_all(&all, rank, t));
    return check_places(&all);
}
