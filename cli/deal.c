/* deal.c -- see deal.h. */
#include "deal.h"

#include <stdlib.h>
#include <string.h>

typedef enum how { BY_ROWS, BY_COLUMNS, BY_OWNER, FOR_ALL } how;

/* One operand of all ranks: how the whole array is cut, and a rank's piece of it. */
typedef struct layout {
    const char *name; /* "A" */
    how cut;
    int64_t whole_rows, whole_cols;
    int64_t cols; /* of a rank's piece */
    int64_t rows[DEAL_RANKS];
    bool transposes; /* a Fortran-ordered (cols, rows) array is accepted: the same memory */
} layout;

int64_t deal_row(const deal *d, int rank, int64_t row)
{
    if (d->cyclic > 0)
        return (row / d->cyclic * d->shape.ranks + rank) * d->cyclic + row % d->cyclic;
    /* Only A of ag_gemm and C of gemm_rs are dealt by owner. */
    const int64_t *const rows = strcmp(d->shape.op, "ag_gemm") == 0 ? d->a_rows : d->c_rows;
    for (int r = 0; r < rank; r++) row += rows[r];
    return row;
}

bool deal_begin(const char *problem, deal *d, char *error)
{
    memset(d, 0, sizeof *d);
    shingle_shape shape;
    int ranks = 1;
    for (int r = 0; r < ranks; r++) {
        if (shingle_problem_shape(problem, r, &shape) != SHINGLE_OK)
            return file_fail(error, "%s", shingle_error());
        if (r == 0) d->shape = shape;
        ranks = shape.ranks < DEAL_RANKS ? shape.ranks : DEAL_RANKS;
        d->a_rows[r] = shape.a_rows;
        d->c_rows[r] = shape.c_rows;
    }
    const char *const cyclic = strstr(problem, ":cyclic=");
    if (cyclic != NULL) d->cyclic = strtoll(cyclic + strlen(":cyclic="), NULL, 10);
    return true;
}

static void set(layout *l, const char *name, how cut, int ranks, const int64_t *rows, int64_t each,
                int64_t cols)
{
    memset(l, 0, sizeof *l);
    l->name = name;
    l->cut = cut;
    l->cols = cols;
    l->whole_cols = cut == BY_COLUMNS ? ranks * cols : cols;
    for (int r = 0; r < ranks; r++) {
        l->rows[r] = rows ? rows[r] : each;
        if (cut == BY_ROWS || cut == BY_OWNER)
            l->whole_rows += l->rows[r];
        else
            l->whole_rows = each;
    }
}

typedef enum operand { OPERAND_A, OPERAND_B, OPERAND_BIAS, OPERAND_C } operand;

static layout layout_of(const deal *d, operand which)
{
    const shingle_shape *const s = &d->shape;
    const bool gathers = strcmp(s->op, "ag_gemm") == 0;
    const bool scatters = strcmp(s->op, "gemm_rs") == 0;
    const bool sums = scatters || strcmp(s->op, "gemm_ar") == 0;
    layout l;
    switch (which) {
    case OPERAND_A:
        if (gathers)
            set(&l, "A", BY_OWNER, s->ranks, d->a_rows, 0, s->k);
        else
            set(&l, "A", sums ? BY_COLUMNS : BY_ROWS, s->ranks, NULL, s->m, s->k);
        break;
    case OPERAND_B:
        set(&l, "B", sums ? BY_COLUMNS : BY_ROWS, s->ranks, NULL, s->n, s->k);
        l.transposes = true;
        break;
    case OPERAND_BIAS: set(&l, "bias", sums ? FOR_ALL : BY_COLUMNS, s->ranks, NULL, 1, s->n); break;
    case OPERAND_C:
        if (scatters)
            set(&l, "C", BY_OWNER, s->ranks, d->c_rows, 0, s->n);
        else if (gathers)
            set(&l, "C", BY_COLUMNS, s->ranks, NULL, s->m, s->n);
        else
            set(&l, "C", sums ? FOR_ALL : BY_ROWS, s->ranks, NULL, s->m, s->n);
        break;
    }
    return l;
}

/* Copies RANK's piece out of the WHOLE array, or into it. */
static void copy_piece(const deal *d, const layout *l, int rank, char *piece, char *whole, bool out)
{
    const size_t item = (size_t)d->shape.element_bytes;
    const size_t bytes = (size_t)l->cols * item;
    int64_t row0 = 0;
    for (int r = 0; r < rank && l->cut == BY_ROWS; r++) row0 += l->rows[r];
    const int64_t col0 = l->cut == BY_COLUMNS ? rank * l->cols : 0;
    for (int64_t i = 0; i < l->rows[rank]; i++) {
        const int64_t row = l->cut == BY_OWNER ? deal_row(d, rank, i) : row0 + i;
        char *const there = whole + (size_t)(row * l->whole_cols + col0) * item;
        char *const here = piece + (size_t)i * bytes;
        memcpy(out ? here : there, out ? there : here, bytes);
    }
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static bool is_per_rank(const char *path)
{
    return strstr(path, "%d") != NULL;
}

/* Puts RANK in place of the first %d. */
static bool path_of(const char *pattern, int rank, char *path, size_t room, char *error)
{
    const char *const at = strstr(pattern, "%d");
    const int length = snprintf(path, room, "%.*s%d%s", (int)(at - pattern), pattern, rank, at + 2);
    return (length > 0 && (size_t)length < room) || file_fail(error, "%.60s...: too long", pattern);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool check(const deal *d, const layout *l, const char *path, const npy_array *array,
                  int64_t rows, int64_t cols, char *error)
{
    if (strcmp(array->type, d->shape.type) != 0)
        return file_fail(error, "%s: holds %s; the problem's %s is accepted", path, array->type,
                         d->shape.type);
    int64_t found_rows = array->dims == 2 ? array->extent[0] : 1;
    int64_t found_cols = array->dims == 2 ? array->extent[1] : array->extent[0];
    /* One row or one column is the same in both orders. */
    const bool fortran = array->fortran && found_rows > 1 && found_cols > 1;
    if (fortran && !l->transposes)
        return file_fail(error, "%s: Fortran order; C order is accepted for %s", path, l->name);
    if (fortran) {
        const int64_t swap = found_rows;
        found_rows = found_cols;
        found_cols = swap;
    }
    if (found_rows == rows && found_cols == cols && (array->dims == 2 || rows == 1)) return true;
    char shape[64];
    snprintf(shape, sizeof shape, array->dims == 2 ? "(%lld, %lld)" : "(%lld,)",
             (long long)array->extent[0], (long long)array->extent[1]);
    if (rows == 1 && strcmp(l->name, "bias") == 0)
        return file_fail(error, "%s: bias has shape %s; (%lld,) is accepted", path, shape,
                         (long long)cols);
    if (l->transposes)
        return file_fail(error,
                         "%s: B has shape %s in %s order; (%lld, %lld) in C order or (%lld, "
                         "%lld) in Fortran order is accepted",
                         path, shape, array->fortran ? "Fortran" : "C", (long long)rows,
                         (long long)cols, (long long)cols, (long long)rows);
    return file_fail(error, "%s: %s has shape %s; (%lld, %lld) is accepted", path, l->name, shape,
                     (long long)rows, (long long)cols);
}

static bool get(const deal *d, int64_t rows, int64_t cols, void **memory_out, char *error)
{
    const size_t bytes = (size_t)rows * (size_t)cols * (size_t)d->shape.element_bytes;
    *memory_out = calloc(1, bytes ? bytes : 1);
    return *memory_out != NULL || file_fail(error, "no memory for %zu bytes", bytes);
}

static bool read_operand(const deal *d, operand which, const char *path, void **piece, char *error)
{
    const layout l = layout_of(d, which);
    const int ranks = d->shape.ranks;
    npy_array array;
    for (int r = 0; r < ranks; r++)
        if (!get(d, l.rows[r], l.cols, &piece[r], error)) return false;
    if (!is_per_rank(path)) {
        if (!npy_read(path, &array, error)) return false;
        const bool ok = check(d, &l, path, &array, l.whole_rows, l.whole_cols, error);
        for (int r = 0; r < ranks && ok; r++) copy_piece(d, &l, r, piece[r], array.data, true);
        npy_free(&array);
        return ok;
    }
    for (int r = 0; r < ranks; r++) {
        char name[FILE_PATH];
        if (!path_of(path, r, name, sizeof name, error) || !npy_read(name, &array, error))
            return false;
        const bool ok = check(d, &l, name, &array, l.rows[r], l.cols, error);
        if (ok) memcpy(piece[r], array.data, array.data_bytes);
        npy_free(&array);
        if (!ok) return false;
    }
    return true;
}

bool deal_read(deal *d, const char *a, const char *b, const char *bias, char *error)
{
    if (!read_operand(d, OPERAND_A, a, d->a, error) || !read_operand(d, OPERAND_B, b, d->b, error))
        return false;
    if (bias != NULL && !read_operand(d, OPERAND_BIAS, bias, d->bias, error)) return false;
    const layout l = layout_of(d, OPERAND_C);
    for (int r = 0; r < d->shape.ranks; r++)
        if (!get(d, l.rows[r], l.cols, &d->c[r], error)) return false;
    return true;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool write_whole(const deal *d, const layout *l, const char *path, char *error)
{
    void *whole = NULL;
    if (!get(d, l->whole_rows, l->whole_cols, &whole, error)) return false;
    /* FOR_ALL: the pieces are equal, the first stands for them. */
    const int pieces = l->cut == FOR_ALL ? 1 : d->shape.ranks;
    for (int r = 0; r < pieces; r++) copy_piece(d, l, r, d->c[r], whole, false);
    file_writer writer;
    const bool ok =
        npy_write(path, d->shape.type, l->whole_rows, l->whole_cols, whole, &writer, error) &&
        file_appear(&writer, error);
    free(whole);
    return ok;
}

bool deal_write(const deal *d, const char *path, char *error)
{
    const layout l = layout_of(d, OPERAND_C);
    const int ranks = d->shape.ranks;
    if (!is_per_rank(path)) return write_whole(d, &l, path, error);
    file_writer *const writer = calloc((size_t)ranks, sizeof *writer);
    if (writer == NULL) return file_fail(error, "no memory for %d files", ranks);
    bool ok = true;
    for (int r = 0; r < ranks && ok; r++) {
        char name[FILE_PATH];
        ok = path_of(path, r, name, sizeof name, error) &&
             npy_write(name, d->shape.type, l.rows[r], l.cols, d->c[r], &writer[r], error);
    }
    for (int r = 0; r < ranks && ok; r++) ok = file_appear(&writer[r], error);
    for (int r = 0; r < ranks && !ok; r++) file_drop(&writer[r]);
    free(writer);
    return ok;
}

void deal_free(deal *d)
{
    for (int r = 0; r < DEAL_RANKS; r++) {
        free(d->a[r]);
        free(d->b[r]);
        free(d->bias[r]);
        free(d->c[r]);
    }
    memset(d, 0, sizeof *d);
}
