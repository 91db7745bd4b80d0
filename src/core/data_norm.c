/* data_norm.c -- what a norm leaves in C and in the residual, bit for bit: see data.h. */
#include <stdlib.h>
#include <string.h>

#include "core/data.h"
#include "core/norm.h"

typedef struct normed {
    int rank;
    sg_tensor tensor; /* which of the two is looked at */
    const char *matrix;
    int64_t row_bytes;
    sg_data_wrong wrong;
    float *y;              /* a row */
    char *residual, *gain; /* in the type */
    float sums[SG_NORM_LANES];
} normed;

static void look_at(void *context, const sg_data *d, int64_t row, const int32_t *sums)
{
    normed *const x = context;
    const sg_problem *const p = d->problem;
    const char *const matrix = x->matrix + row * x->row_bytes;
    for (int64_t col = 0; col < p->n; col++) {
        x->y[col] = sg_data_finished(d, sums[col], col);
        sg_data_store(p->type, sg_data_residual(d, x->rank, row, col), x->residual, col);
    }
    sg_norm_row(p->type, sg_problem_epsilon(p), p->n, x->y, x->residual, x->gain, x->sums);
    for (int64_t col = 0; col < p->n; col++) {
        const float seen = sg_data_load(p->type, matrix, col);
        const float expected =
            x->tensor == SG_TENSOR_C ? x->y[col] : sg_data_load(p->type, x->residual, col);
        if (memcmp(&seen, &expected, sizeof seen) != 0)
            sg_data_see(&x->wrong, row, col, seen, expected);
    }
}

shingle_status sg_data_compare_normed(const sg_data *d, int rank, sg_tensor tensor,
                                      const void *matrix, int64_t stride, sg_data_wrong *wrong_out)
{
    const sg_problem *const p = d->problem;
    const int64_t bytes = sg_type_bytes(p->type);
    char *const room = malloc((size_t)(p->n * (4 + 2 * bytes)) + 1);
    if (room == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory for a row of %lld elements", (long long)p->n);
    normed x = {.rank = rank,
                .tensor = tensor,
                .matrix = matrix,
                .row_bytes = (stride ? stride : p->n) * bytes,
                .wrong = {.residual = tensor == SG_TENSOR_RESIDUAL},
                .y = (float *)(void *)room,
                .residual = room + p->n * 4,
                .gain = room + p->n * (4 + bytes)};
    shingle_status status = sg_data_fill(d, SG_TENSOR_GAIN, rank, x.gain, 0);
    if (status == SHINGLE_OK) status = sg_data_each_row(d, rank, look_at, &x);
    free(room);
    if (status == SHINGLE_OK) *wrong_out = x.wrong;
    return status;
}

shingle_status sg_data_normed(const sg_data *d, int rank, sg_tensor tensor, int64_t row,
                              int64_t col, float *value_out)
{
    const sg_problem *const p = d->problem;
    const int64_t n = p->n;
    float *const room = malloc((size_t)(3 * n + SG_NORM_LANES) * sizeof *room);
    if (room == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory for a row of %lld elements", (long long)n);
    float *const y = room + SG_NORM_LANES;
    float *const residual = y + n;
    float *const gain = residual + n;
    for (int64_t x = 0; x < n; x++) {
        y[x] = sg_data_expected(d, rank, row, x);
        sg_data_store(p->type, sg_data_residual(d, rank, row, x), residual, x);
        sg_data_store(p->type, sg_data_gain(d, x), gain, x);
    }
    sg_norm_row(p->type, sg_problem_epsilon(p), n, y, residual, gain, room);
    *value_out = tensor == SG_TENSOR_C ? y[col] : sg_data_load(p->type, residual, col);
    free(room);
    return SHINGLE_OK;
}

shingle_status sg_data_compare_residual(const sg_data *d, int rank, const void *residual,
                                        int64_t stride, sg_data_wrong *wrong_out)
{
    *wrong_out = (sg_data_wrong){.residual = true};
    if (!d->problem->norm) return SHINGLE_OK;
    return sg_data_compare_normed(d, rank, SG_TENSOR_RESIDUAL, residual, stride, wrong_out);
}
