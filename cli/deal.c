/* deal.c -- see deal.h. */
#include "deal.h"

#include <stdlib.h>
#include <string.h>

#include "out.h"

typedef enum how { BY_ROWS, BY_COLUMNS, BY_OWNER, COLUMNS_BY_OWNER, FOR_ALL } how;

/* One operand of all ranks: how the whole array is cut, and a rank's piece of it. */
typedef struct layout {
    const char *name; /* "A" */
    how cut;
    int64_t whole_rows, whole_cols;
    int64_t rows[DEAL_RANKS], cols[DEAL_RANKS]; /* of a rank's piece */
    bool transposes; /* a Fortran-ordered (cols, rows) array is accepted: the same memory */
} layout;

int64_t deal_row(const deal *d, int rank, int64_t row)
{
    if (d->cyclic > 0)
        return (row / d->cyclic * d->shape.ranks + rank) * d->cyclic + row % d->cyclic;
    const int64_t *const rows = d->shape.gather == 'b'   ? d->b_rows
                                : d->shape.gather == 'k' ? d->a_cols
                                : d->shape.gather == 'a' ? d->a_rows
                                                         : d->c_rows;
    for (int r = 0; r < rank; r++) row += rows[r];
    return row;
}

int64_t deal_c_row(const deal *d, int rank, int64_t row, int *of_out)
{
    *of_out = rank;
    if (d->scatter) return deal_row(d, rank, row);
    if (!d->exchange_out) return row;
    int of = 0;
    for (; row >= d->sent[of][rank]; of++) row -= d->sent[of][rank];
    for (int r = 0; r < rank; r++) row += d->sent[of][r];
    *of_out = of;
    return row;
}

/* The value of an option of PROBLEM, KEY being ":name="; NULL: it has none.  The library has taken
 * PROBLEM: an option stands there once at most, and nothing but an option has a colon in front. */
static const char *option_of(const char *problem, const char *key)
{
    const char *const at = strstr(problem, key);
    return at != NULL ? at + strlen(key) : NULL;
}

/* What ranks send to each other: counts=, or an even share of every product. */
static void count_pairs(const char *problem, deal *d)
{
    const int64_t ranks = d->shape.ranks;
    const char *at = option_of(problem, ":counts=");
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++) {
            /* The owner of the rows: who sends them in front of a product, who gets them behind. */
            const int owner = d->exchange_in ? from : to;
            char *end = NULL;
            d->sent[from][to] = at != NULL ? strtoll(at, &end, 10)
                                           : d->shape.m / ranks + (owner < d->shape.m % ranks);
            if (at != NULL) at = end + 1; /* behind a comma or a slash */
        }
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++) d->rows[d->exchange_in ? to : from] += d->sent[from][to];
}

static bool is_op(const deal *d, const char *op)
{
    return strcmp(d->shape.op, op) == 0;
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
        d->a_cols[r] = shape.a_cols;
        d->b_rows[r] = shape.b_rows;
        d->c_rows[r] = shape.c_rows;
        d->returns |= shape.returned_rows > 0;
    }
    const char *const cyclic = option_of(problem, ":cyclic=");
    if (cyclic != NULL) d->cyclic = strtoll(cyclic, NULL, 10);
    d->exchange_in = is_op(d, "a2a_gemm");
    d->exchange_out = is_op(d, "gemm_a2a");
    d->scatter = is_op(d, "gemm_rs");
    if (d->exchange_in || d->exchange_out)
        count_pairs(problem, d);
    else
        for (int r = 0; r < ranks; r++) d->rows[r] = d->shape.m;
    return true;
}

/* ROWS and COLS of each rank's piece; NULL: EACH, or all WIDE. */
static void set(layout *l, const char *name, how cut, int ranks, const int64_t *rows, int64_t each,
                const int64_t *cols, int64_t wide)
{
    memset(l, 0, sizeof *l);
    l->name = name;
    l->cut = cut;
    for (int r = 0; r < ranks; r++) {
        l->rows[r] = rows ? rows[r] : each;
        l->cols[r] = cols ? cols[r] : wide;
        const bool down = cut == BY_ROWS || cut == BY_OWNER;
        const bool across = cut == BY_COLUMNS || cut == COLUMNS_BY_OWNER;
        l->whole_rows = down ? l->whole_rows + l->rows[r] : each;
        l->whole_cols = across ? l->whole_cols + l->cols[r] : wide;
    }
}

typedef enum operand {
    OPERAND_A,
    OPERAND_B,
    OPERAND_BIAS,
    OPERAND_C,
    OPERAND_RESIDUAL,
    OPERAND_GAIN
} operand;

static layout layout_of(const deal *d, operand which)
{
    const shingle_shape *const s = &d->shape;
    const bool sums = d->scatter || is_op(d, "gemm_ar");
    layout l;
    switch (which) {
    case OPERAND_A:
        if (d->shape.gather == 'k')
            set(&l, "A", COLUMNS_BY_OWNER, s->ranks, NULL, s->m, d->a_cols, s->k);
        else
            set(&l, "A",
                d->shape.gather == 'a' ? BY_OWNER
                : sums                 ? BY_COLUMNS
                                       : BY_ROWS,
                s->ranks, d->a_rows, s->m, NULL, s->k);
        break;
    case OPERAND_B:
        set(&l, "B",
            d->shape.gather == 'b' ? BY_OWNER
            : sums                 ? BY_COLUMNS
                                   : BY_ROWS,
            s->ranks, d->b_rows, s->n, NULL, s->k);
        l.transposes = true;
        break;
    case OPERAND_BIAS:
        set(&l, "bias", sums || d->shape.gather == 'b' ? FOR_ALL : BY_COLUMNS, s->ranks, NULL, 1,
            NULL, s->n);
        break;
    case OPERAND_GAIN: set(&l, "gain", FOR_ALL, s->ranks, NULL, 1, NULL, s->n); break;
    case OPERAND_C:
    case OPERAND_RESIDUAL:
        set(&l, which == OPERAND_C ? "C" : "residual",
            d->scatter                                         ? BY_OWNER
            : d->shape.gather == 'a' || d->shape.gather == 'k' ? BY_COLUMNS
            : sums                                             ? FOR_ALL
                                                               : BY_ROWS,
            s->ranks, d->c_rows, s->m, NULL, s->n);
        break;
    }
    return l;
}

/* Copies RANK's piece out of the WHOLE array, or into it. */
static void copy_piece(const deal *d, const layout *l, int rank, char *piece, char *whole, bool out)
{
    const size_t item = (size_t)d->shape.element_bytes;
    const size_t bytes = (size_t)l->cols[rank] * item;
    int64_t row0 = 0;
    int64_t col0 = 0;
    for (int r = 0; r < rank; r++) {
        if (l->cut == BY_ROWS) row0 += l->rows[r];
        if (l->cut == BY_COLUMNS) col0 += l->cols[r];
    }
    for (int64_t i = 0; i < l->rows[rank]; i++) {
        const int64_t row = l->cut == BY_OWNER ? deal_row(d, rank, i) : row0 + i;
        char *const line = whole + (size_t)(row * l->whole_cols) * item;
        char *const here = piece + (size_t)i * bytes;
        /* Columns of an owner may lie apart: they go one by one. */
        const bool single = l->cut == COLUMNS_BY_OWNER;
        for (int64_t x = 0; x < (single ? l->cols[rank] : 1); x++) {
            char *const there = line + (size_t)(single ? deal_row(d, rank, x) : col0) * item;
            char *const mine = here + (size_t)x * item;
            memcpy(out ? mine : there, out ? there : mine, single ? item : bytes);
        }
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
    if (l->cut != BY_OWNER && (strcmp(l->name, "bias") == 0 || strcmp(l->name, "gain") == 0))
        return file_fail(error, "%s: %s has shape %s; (%lld,) is accepted", path, l->name, shape,
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

static size_t bytes_of(const deal *d, int64_t rows, int64_t cols)
{
    return (size_t)rows * (size_t)cols * (size_t)d->shape.element_bytes;
}

static void *get(const deal *d, int64_t rows, int64_t cols)
{
    return out_get(bytes_of(d, rows, cols));
}

static bool read_operand(const deal *d, operand which, const char *path, void **piece, char *error)
{
    const layout l = layout_of(d, which);
    const int ranks = d->shape.ranks;
    npy_array array;
    for (int r = 0; r < ranks; r++) piece[r] = get(d, l.rows[r], l.cols[r]);
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
        const bool ok = check(d, &l, name, &array, l.rows[r], l.cols[r], error);
        if (ok) memcpy(piece[r], array.data, array.data_bytes);
        npy_free(&array);
        if (!ok) return false;
    }
    return true;
}

bool deal_read(deal *d, const deal_paths *from, char *error)
{
    const struct {
        operand which;
        const char *path;
        void **piece;
    } files[] = {{OPERAND_A, from->a, d->a},
                 {OPERAND_B, from->b, d->b},
                 {OPERAND_BIAS, from->bias, d->bias},
                 {OPERAND_RESIDUAL, from->residual, d->residual},
                 {OPERAND_GAIN, from->gain, d->gain}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].path != NULL &&
            !read_operand(d, files[i].which, files[i].path, files[i].piece, error))
            return false;
    const char *const start = from->start;
    const layout l = layout_of(d, OPERAND_C);
    for (int r = 0; r < d->shape.ranks; r++) {
        d->c[r] = get(d, l.rows[r], l.cols[r]);
        if (d->returns) d->returned[r] = get(d, d->rows[r], d->shape.k);
        if (d->shape.has_norm) d->added[r] = get(d, l.rows[r], l.cols[r]);
        if (d->shape.accumulates && start == NULL)
            d->start[r] =
                memset(get(d, l.rows[r], l.cols[r]), 0, bytes_of(d, l.rows[r], l.cols[r]));
    }
    return start == NULL || read_operand(d, OPERAND_C, start, d->start, error);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Files that are complete, and appear together. */
typedef struct writing {
    file_writer *writer;
    int count;
} writing;

static bool write_whole(const deal *d, const layout *l, void *const *piece, const char *path,
                        writing *w, char *error)
{
    const size_t bytes = bytes_of(d, l->whole_rows, l->whole_cols);
    void *const whole = calloc(1, bytes ? bytes : 1);
    if (whole == NULL) return file_fail(error, "%s: no memory for %zu bytes", path, bytes);
    /* FOR_ALL: the pieces are equal, the first stands for them. */
    const int pieces = l->cut == FOR_ALL ? 1 : d->shape.ranks;
    for (int r = 0; r < pieces; r++) copy_piece(d, l, r, piece[r], whole, false);
    const bool ok = npy_write(path, d->shape.type, l->whole_rows, l->whole_cols, whole,
                              &w->writer[w->count++], error);
    free(whole);
    return ok;
}

static bool write_operand(const deal *d, operand which, void *const *piece, const char *path,
                          writing *w, char *error)
{
    const layout l = layout_of(d, which);
    if (!is_per_rank(path)) return write_whole(d, &l, piece, path, w, error);
    bool ok = true;
    for (int r = 0; r < d->shape.ranks && ok; r++) {
        char name[FILE_PATH];
        ok = path_of(path, r, name, sizeof name, error) &&
             npy_write(name, d->shape.type, l.rows[r], l.cols[r], piece[r], &w->writer[w->count++],
                       error);
    }
    return ok;
}

bool deal_check_path(const char *path, int ranks, char *error)
{
    char name[FILE_PATH];
    if (!is_per_rank(path)) return file_check(path, error);
    for (int r = 0; r < ranks; r++)
        if (!path_of(path, r, name, sizeof name, error) || !file_check(name, error)) return false;
    return true;
}

int deal_files(const char *path, int ranks)
{
    return is_per_rank(path) ? ranks : 1;
}

bool deal_file(const char *path, int rank, char *name)
{
    char error[FILE_ERROR];
    if (is_per_rank(path)) return path_of(path, rank, name, FILE_PATH, error);
    const int length = snprintf(name, FILE_PATH, "%s", path);
    return length >= 0 && length < FILE_PATH;
}

bool deal_write(const deal *d, const char *c, const char *residual, char *error)
{
    writing w = {calloc(2 * (size_t)d->shape.ranks, sizeof *w.writer), 0};
    if (w.writer == NULL) return file_fail(error, "no memory for %d files", 2 * d->shape.ranks);
    bool ok =
        (c == NULL || write_operand(d, OPERAND_C, d->c, c, &w, error)) &&
        (residual == NULL || write_operand(d, OPERAND_RESIDUAL, d->added, residual, &w, error));
    for (int i = 0; i < w.count && ok; i++) ok = file_appear(&w.writer[i], error);
    for (int i = 0; i < w.count && !ok; i++) file_drop(&w.writer[i]);
    free(w.writer);
    return ok;
}

void deal_free(deal *d)
{
    for (int r = 0; r < DEAL_RANKS; r++) {
        free(d->a[r]);
        free(d->b[r]);
        free(d->bias[r]);
        free(d->c[r]);
        free(d->start[r]);
        free(d->residual[r]);
        free(d->gain[r]);
        free(d->added[r]);
        free(d->returned[r]);
    }
    memset(d, 0, sizeof *d);
}
