/* check_values.c -- what the matrices hold, and what C should hold in the end.
 *
 * Inputs are hashes of what an element is for the problem: rows of A that all ranks gather hash by
 * their row of the product, so that it does not matter who holds them; what a rank has for itself
 * hashes by the rank too.  The reference is the product of these hashes, cell by cell. */
#include <string.h>

#include "core/bits.h"
#include "core/check_state.h"

enum { MIX_A = 1, MIX_B, MIX_BIAS, MIX_C, MIX_RESIDUAL, MIX_GAIN };

/* ---- Inputs ---------------------------------------------------------------------------------- */

static uint64_t input(const sg_checker *ck, uint64_t what, int64_t rank, int64_t row, int64_t col)
{
    const uint64_t hash =
        sg_mix(what << 60 ^ (uint64_t)rank << 48 ^ sg_mix((uint64_t)row << 32 ^ (uint64_t)col));
    return ck->bits ? sg_bits_input(hash) : hash;
}

/* A rank that adds up products of all ranks has the same bias as they; any other has its own. */
static uint64_t bias_at(const sg_checker *ck, int rank, int64_t col)
{
    if (!ck->problem->bias) return 0;
    return input(ck, MIX_BIAS, sg_problem_sums(ck->problem) ? 0 : rank, 0, col);
}

/* Where the first COUNT cells of AXIS begin, in OUT; if they are what RANK owns of something that
 * is gathered, as the product counts it. */
static void label(const sg_checker *ck, int axis, int32_t count, int rank, bool owned, int64_t *out)
{
    const sg_problem *const p = ck->problem;
    int32_t segment = p->share[rank].first;
    for (int32_t i = 0; i < count; i++) {
        out[i] = sg_check_place(ck, axis, i);
        if (!owned) continue;
        while (p->segments[segment].own_row + p->segments[segment].rows <= out[i])
            segment = p->segments[segment].next;
        out[i] += p->segments[segment].row0 - p->segments[segment].own_row;
    }
}

/* Fills matrix BUF of RANK.  OWNED_AXIS says along what it is a part of a matrix of all ranks: rows
 * 0, columns 1, -1 if it is the rank's own. */
static shingle_status fill(sg_checker *ck, uint64_t what, int buf, int rank, int owned_axis)
{
    const sg_grid *const grid = &ck->grid[rank * SG_MAX_BUFS + buf];
    SG_ROOM(ck, label, label_room, (int64_t)grid->rows + grid->cols);
    int64_t *const rows = ck->label;
    int64_t *const cols = rows + grid->rows;
    label(ck, 2 * buf, grid->rows, rank, owned_axis == 0, rows);
    label(ck, 2 * buf + 1, grid->cols, rank, owned_axis == 1, cols);
    for (int32_t i = 0; i < grid->rows; i++) {
        const int64_t cell = grid->cell0 + (int64_t)i * grid->cols;
        for (int32_t j = 0; j < grid->cols; j++) {
            ck->value[cell + j] = input(ck, what, owned_axis < 0 ? rank : 0, rows[i], cols[j]);
            ck->writer[cell + j] = SG_INPUT;
        }
    }
    return SHINGLE_OK;
}

static void fill_bias(sg_checker *ck, int rank)
{
    const sg_grid *const grid = &ck->grid[rank * SG_MAX_BUFS + SG_BIAS];
    for (int32_t j = 0; j < grid->rows * grid->cols; j++) {
        ck->value[grid->cell0 + j] = bias_at(ck, rank, sg_check_place(ck, 2 * SG_BIAS + 1, j));
        ck->writer[grid->cell0 + j] = SG_INPUT;
    }
}

/* A row, the same on all ranks. */
static void fill_gain(sg_checker *ck, int rank)
{
    const sg_grid *const grid = &ck->grid[rank * SG_MAX_BUFS + SG_GAIN];
    for (int32_t j = 0; j < grid->rows * grid->cols; j++) {
        ck->value[grid->cell0 + j] =
            input(ck, MIX_GAIN, 0, 0, sg_check_place(ck, 2 * SG_GAIN + 1, j));
        ck->writer[grid->cell0 + j] = SG_INPUT;
    }
}

shingle_status sg_check_inputs(sg_checker *ck)
{
    const sg_problem *const p = ck->problem;
    const bool gather = sg_problem_in(p) == SG_IN_GATHER;
    const int a_axis = !gather || p->gather == SG_GATHER_B ? -1 : p->gather == SG_GATHER_K ? 1 : 0;
    for (int r = 0; r < ck->ranks; r++) {
        SG_TRY(fill(ck, MIX_A, SG_A, r, a_axis));
        SG_TRY(fill(ck, MIX_B, SG_B, r, p->gather == SG_GATHER_B ? 0 : -1));
        if (p->accumulate) SG_TRY(fill(ck, MIX_C, SG_C, r, -1));
        fill_bias(ck, r);
        SG_TRY(fill(ck, MIX_RESIDUAL, SG_RESIDUAL, r, -1));
        fill_gain(ck, r);
    }
    return SHINGLE_OK;
}

/* ---- Norm ------------------------------------------------------------------------------------ */

void sg_check_add_residual(const sg_checker *ck, uint64_t *row, const uint64_t *residual,
                           int32_t count)
{
    for (int32_t j = 0; j < count; j++)
        row[j] = ck->bits ? sg_check_bits_residual(ck, row[j], residual[j]) : row[j] + residual[j];
}

void sg_check_norm(const sg_checker *ck, uint64_t *row, const uint64_t *gain, int32_t count)
{
    uint64_t whole = 0;
    uint64_t facts = 0;
    for (int32_t j = 0; j < count; j++) {
        whole = sg_mix(whole ^ (ck->bits ? sg_bits_hash(row[j]) : row[j]));
        facts |= row[j] & SG_BITS_PAST;
    }
    for (int32_t j = 0; j < count; j++) {
        const uint64_t x = ck->bits ? sg_bits_hash(row[j]) : row[j];
        const uint64_t value = sg_mix(sg_mix(x + whole) ^ gain[j]);
        row[j] = ck->bits ? sg_bits_of(value, (unsigned)facts | SG_BITS_ROUNDED) : value;
    }
}

/* ---- Reference ------------------------------------------------------------------------------- */

/* The product of one rank: rows of A and of B as the product counts them, and what they make. */
typedef struct reference {
    int row_axis; /* whose cells are rows of the product */
    int32_t rows, cols, depth;
    uint64_t *a, *b, *product;
    uint64_t *row; /* of C as it should be */
} reference;

static int32_t cells(const sg_checker *ck, int axis, int64_t at)
{
    return sg_check_cells_before(ck, axis, at);
}

/* A matrix that all ranks gather, as a whole: of ROWS x DEPTH cells,
 * labelled by the product's axes. */
static void whole(const sg_checker *ck, uint64_t what, int axis, int32_t rows, int32_t depth,
                  uint64_t *out)
{
    for (int32_t i = 0; i < rows; i++)
        for (int32_t x = 0; x < depth; x++)
            out[(int64_t)i * depth + x] = input(ck, what, 0, sg_check_place(ck, axis, i),
                                                sg_check_place(ck, 2 * SG_B + 1, x));
}

/* Rows of A for RANK's product. */
static void rows_of_a(const sg_checker *ck, int rank, const reference *ref)
{
    const sg_problem *const p = ck->problem;
    const size_t line = (size_t)ref->depth * sizeof *ref->a;
    if (sg_problem_in(p) == SG_IN_GATHER && p->gather != SG_GATHER_B) {
        if (rank == 0) whole(ck, MIX_A, ref->row_axis, ref->rows, ref->depth, ref->a);
        return;
    }
    if (sg_problem_in(p) != SG_IN_EXCHANGE) {
        const sg_grid *const a = &ck->grid[rank * SG_MAX_BUFS + SG_A];
        memcpy(ref->a, &ck->value[a->cell0], (size_t)ref->rows * line);
        return;
    }
    for (int q = 0; q < p->ranks; q++) {
        const sg_part part = sg_problem_part(p, rank, q);
        const sg_grid *const a = &ck->grid[q * SG_MAX_BUFS + SG_A];
        const int32_t from = cells(ck, 2 * SG_A, part.held);
        const int32_t to = cells(ck, ref->row_axis, part.base);
        const int32_t rows = cells(ck, ref->row_axis, part.base + part.rows) - to;
        memcpy(&ref->a[(int64_t)to * ref->depth], &ck->value[a->cell0 + (int64_t)from * a->cols],
               (size_t)rows * line);
    }
}

/* Adds RANK's product to that of REF. */
static void multiply(const sg_checker *ck, int rank, const reference *ref)
{
    const uint64_t *const b = ck->problem->gather == SG_GATHER_B
                                  ? ref->b
                                  : &ck->value[ck->grid[rank * SG_MAX_BUFS + SG_B].cell0];
    for (int32_t i = 0; i < ref->rows; i++) {
        const uint64_t *const x = &ref->a[(int64_t)i * ref->depth];
        for (int32_t j = 0; j < ref->cols; j++) {
            const uint64_t *const y = &b[(int64_t)j * ref->depth];
            uint64_t *const all = &ref->product[(int64_t)i * ref->cols + j];
            uint64_t sum = 0;
            if (ck->bits) {
                *all = sg_bits_add(*all, sg_check_bits_product(ck, rank, x, y, ref->depth));
                continue;
            }
            for (int32_t k = 0; k < ref->depth; k++) sum += x[k] * y[k];
            *all += sum;
        }
    }
}

static uint64_t plus(const sg_checker *ck, uint64_t one, uint64_t other)
{
    return ck->bits ? sg_bits_add(one, other) : one + other;
}

/* Plans that are made otherwise are no defect, and not asked for. */
static shingle_status compare_bits(sg_checker *ck, uint64_t seen, uint64_t wanted)
{
    if (sg_bits_equal(seen, wanted)) return SHINGLE_OK;
    sg_text t = {ck->result->why, sizeof ck->result->why, 0};
    sg_text_add(&t, "%s", sg_bits_why(seen, wanted));
    return sg_fail(SHINGLE_EUNSUPPORTED, "%s", ck->result->why);
}

/* What C of RANK, computed by rank BY, should hold at (I, J) of a product of WANT. */
static uint64_t finished(const sg_checker *ck, int rank, int by, int32_t i, int32_t j,
                         uint64_t want)
{
    const int64_t row = sg_check_place(ck, 2 * SG_C, i);
    const int64_t col = sg_check_place(ck, 2 * SG_C + 1, j);
    if (ck->problem->accumulate) want = plus(ck, want, input(ck, MIX_C, rank, row, col));
    if (sg_problem_has_epilogue(ck->problem))
        want = sg_check_finish(ck, want, bias_at(ck, by, col));
    return want;
}

/* One cell of BUF, which is C or the residual, of RANK should be WANT.  LAST is the writer of the
 * cell before it, whose store is known to be awaited. */
static shingle_status compare_cell(sg_checker *ck, int rank, int buf, int32_t i, int32_t j,
                                   uint64_t want, uint32_t *last)
{
    const sg_grid *const c = &ck->grid[rank * SG_MAX_BUFS + buf];
    const int64_t cell = c->cell0 + (int64_t)i * c->cols + j;
    const uint32_t writer = ck->writer[cell];
    const char *const name = ck->sched[rank].buf[buf].name;
    const long long row = sg_check_place(ck, 2 * buf, i);
    const long long col = sg_check_place(ck, 2 * buf + 1, j);
    if (writer < SG_FIRST_WRITER)
        return sg_check_violation(ck, -1, -1, "rank %d: nobody stores %s row %lld, col %lld", rank,
                                  name, row, col);
    const int32_t event = (int32_t)(writer - SG_FIRST_WRITER);
    if (ck->bits) return compare_bits(ck, ck->value[cell], sg_check_bits_stored(ck, NULL, want));
    if (ck->value[cell] != want)
        return sg_check_violation(ck, event, -1,
                                  "stores a wrong value: %s of rank %d, row %lld, col %lld", name,
                                  rank, row, col);
    if (writer != *last && !sg_check_ordered(ck, rank, -1, -1, event))
        return sg_check_violation(ck, event, -1,
                                  "its store to %s of rank %d, row %lld, col %lld is not awaited "
                                  "before that rank's end",
                                  name, rank, row, col);
    *last = writer;
    return SHINGLE_OK;
}

/* Row I of C of RANK, and of its residual, follows from ROW, which is what C
 * would hold without a norm. */
static shingle_status compare_normed(sg_checker *ck, int rank, int32_t i, uint64_t *row,
                                     int32_t count)
{
    uint32_t last = SG_NO_WRITER;
    SG_ROOM(ck, label, label_room, 2 * (int64_t)count);
    uint64_t *const start = (uint64_t *)ck->label;
    uint64_t *const gain = start + count;
    const int64_t at = sg_check_place(ck, 2 * SG_RESIDUAL, i);
    for (int32_t j = 0; j < count; j++) {
        const int64_t col = sg_check_place(ck, 2 * SG_C + 1, j);
        start[j] = input(ck, MIX_RESIDUAL, rank, at, col);
        gain[j] = input(ck, MIX_GAIN, 0, 0, col);
    }
    sg_check_add_residual(ck, row, start, count);
    for (int32_t j = 0; j < count; j++)
        SG_TRY(compare_cell(ck, rank, SG_RESIDUAL, i, j, row[j], &last));
    sg_check_norm(ck, row, gain, count);
    for (int32_t j = 0; j < count; j++) SG_TRY(compare_cell(ck, rank, SG_C, i, j, row[j], &last));
    return SHINGLE_OK;
}

/* COUNT rows of C of RANK from row HELD on are rows of the product of rank BY from ROW on. */
static shingle_status compare(sg_checker *ck, int rank, int64_t held, int64_t count, int by,
                              const reference *ref, int64_t row)
{
    if (count == 0) return SHINGLE_OK;
    const int32_t first = cells(ck, 2 * SG_C, held);
    const int32_t end = cells(ck, 2 * SG_C, held + count);
    const int32_t from = cells(ck, ref->row_axis, row);
    uint32_t last = SG_NO_WRITER;
    for (int32_t i = first; i < end; i++) {
        const uint64_t *const want = &ref->product[(int64_t)(from + i - first) * ref->cols];
        for (int32_t j = 0; j < ref->cols; j++) ref->row[j] = finished(ck, rank, by, i, j, want[j]);
        if (ck->problem->norm) SG_TRY(compare_normed(ck, rank, i, ref->row, ref->cols));
        for (int32_t j = 0; j < ref->cols && !ck->problem->norm; j++)
            SG_TRY(compare_cell(ck, rank, SG_C, i, j, ref->row[j], &last));
    }
    return SHINGLE_OK;
}

/* Sums over all ranks are complete. */
static shingle_status compare_sums(sg_checker *ck, const reference *ref)
{
    const sg_problem *const p = ck->problem;
    for (int r = 0; r < ck->ranks; r++) {
        if (sg_problem_out(p) == SG_OUT_ALL) SG_TRY(compare(ck, r, 0, p->m, r, ref, 0));
        if (sg_problem_out(p) != SG_OUT_SCATTER) continue;
        for (int32_t i = p->share[r].first; i >= 0; i = p->segments[i].next) {
            const sg_segment *const g = &p->segments[i];
            SG_TRY(compare(ck, r, g->own_row, g->rows, r, ref, g->row0));
        }
    }
    return SHINGLE_OK;
}

/* Every row that RANK has multiplied stands in what it returns.  The first row and column of A that
 * REF holds are those of the product. */
static shingle_status compare_returned(sg_checker *ck, int rank, const reference *ref)
{
    const sg_grid *const to = &ck->grid[rank * SG_MAX_BUFS + SG_RETURNED];
    uint32_t last = SG_NO_WRITER;
    for (int32_t i = 0; i < to->rows; i++) {
        for (int32_t x = 0; x < to->cols; x++) {
            const int64_t cell = to->cell0 + (int64_t)i * to->cols + x;
            const uint32_t writer = ck->writer[cell];
            const long long row = sg_check_place(ck, 2 * SG_RETURNED, i);
            const long long col = sg_check_place(ck, 2 * SG_RETURNED + 1, x);
            if (writer < SG_FIRST_WRITER)
                return sg_check_violation(
                    ck, -1, -1, "rank %d: nobody returns A row %lld, col %lld", rank, row, col);
            const int32_t event = (int32_t)(writer - SG_FIRST_WRITER);
            if (ck->value[cell] != ref->a[(int64_t)i * ref->depth + x])
                return sg_check_violation(ck, event, -1,
                                          "returns a wrong value: A of rank %d, row %lld, col %lld",
                                          rank, row, col);
            if (writer != last && !sg_check_ordered(ck, rank, -1, -1, event))
                return sg_check_violation(ck, event, -1,
                                          "its store to what rank %d returns, row %lld, is not "
                                          "awaited before that rank's end",
                                          rank, row);
            last = writer;
        }
    }
    return SHINGLE_OK;
}

static shingle_status compare_product(sg_checker *ck, int rank, const reference *ref)
{
    const sg_problem *const p = ck->problem;
    if (sg_problem_out(p) != SG_OUT_EXCHANGE)
        return compare(ck, rank, 0, sg_problem_rows(p, rank), rank, ref, 0);
    for (int q = 0; q < p->ranks; q++) {
        const sg_part part = sg_problem_part(p, rank, q);
        SG_TRY(compare(ck, q, part.held, part.rows, rank, ref, part.base));
    }
    return SHINGLE_OK;
}

shingle_status sg_check_outputs(sg_checker *ck)
{
    const sg_problem *const p = ck->problem;
    const bool sums = sg_problem_sums(p);
    reference ref = {.row_axis = sg_problem_in(p) == SG_IN_NONE ? 2 * SG_A : 2 * SG_C};
    ref.rows = cells(ck, ref.row_axis, p->m);
    ref.cols = cells(ck, 2 * SG_C + 1, p->n);
    ref.depth = cells(ck, 2 * SG_B + 1, p->k);
    const int64_t a_cells = (int64_t)ref.rows * ref.depth;
    const int64_t b_cells = p->gather == SG_GATHER_B ? (int64_t)ref.cols * ref.depth : 0;
    const int64_t c_cells = (int64_t)ref.rows * ref.cols;
    SG_ROOM(ck, reference, reference_room, a_cells + b_cells + c_cells + ref.cols);
    ref.a = ck->reference;
    ref.b = ref.a + a_cells;
    ref.product = ref.b + b_cells;
    ref.row = ref.product + c_cells;
    if (b_cells > 0) whole(ck, MIX_B, 2 * SG_C + 1, ref.cols, ref.depth, ref.b);
    for (int r = 0; r < ck->ranks; r++) {
        const int32_t most = ref.rows;
        ref.rows = cells(ck, ref.row_axis, sg_problem_rows(p, r));
        if (r == 0 || !sums) memset(ref.product, 0, (size_t)c_cells * sizeof *ref.product);
        rows_of_a(ck, r, &ref);
        multiply(ck, r, &ref);
        if (p->return_a) SG_TRY(compare_returned(ck, r, &ref));
        if (!sums) SG_TRY(compare_product(ck, r, &ref));
        ref.rows = most;
    }
    return sums ? compare_sums(ck, &ref) : SHINGLE_OK;
}
