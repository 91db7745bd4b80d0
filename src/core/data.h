/* data.h -- exact data for tests and benchmarks: integer matrices of which every element of every
 * product is known without computing it.
 *
 *     A(row, x) = u_r(row) * p_r(x)              C(row, col) = sum over ranks r of
 *     B(col, x) = v_r(col) * p_r(x) * s_r(x)                   u_r(row) * v_r(col) * S_r
 *
 * Ranks that gather one A have u and p in common, ranks that gather one B have v, p and s.  With
 * accumulation a start value is added that is another for every element.
 *
 * p is +1 or -1 at random.  The sums s(0) + ... + s(x) climb over the first half of k, step down
 * over the second and never take a value twice, so every range of k, missing or taken twice,
 * changes the result; their total S is 1 or 3, so results stay small.  All partial sums are
 * integers below 2^24, and sums over ranks are at most 256: exact in f32, bf16 and f16, whatever
 * the order.
 *
 * Everything is a function of the seed; runs that follow each other use different seeds, so
 * whatever is left over from an earlier run is wrong. */
#ifndef SG_DATA_H
#define SG_DATA_H

#include "core/data_element.h"

enum { SG_DATA_RANKS = 256 }; /* sums over more ranks are not exact in bf16 */

/* C: what stands there before the run, if the problem accumulates. */
typedef enum sg_tensor {
    SG_TENSOR_A,
    SG_TENSOR_B, /* of several B: one behind the other */
    SG_TENSOR_BIAS,
    SG_TENSOR_C, /* of several C: side by side */
    SG_TENSOR_RETURNED,
    SG_TENSOR_RESIDUAL, /* what stands there before the run */
    SG_TENSOR_GAIN
} sg_tensor;

typedef struct sg_data {
    const sg_problem *problem; /* must outlive it */
    uint64_t seed;
    int32_t uv_most; /* u and v are powers of two up to this, of either sign */
    int32_t s_most;  /* S_r is 1 or this */
    int32_t s_steps; /* s(x) has the size 2, 4 .. 2 * s_steps */
} sg_data;

/* SHINGLE_EUNSUPPORTED for more than SG_DATA_RANKS ranks. */
shingle_status sg_data_make(const sg_problem *problem, uint64_t seed, sg_data *data_out);

/* Fills RANK's matrix A, B, C, bias (1 by n) or returned A (what it must be) in the problem's type;
 * sg_problem_a_rows and the like are their shapes.  STRIDE in elements; 0 means dense.
 * SHINGLE_ENOMEM needs a row's worth. */
shingle_status sg_data_fill(const sg_data *data, sg_tensor tensor, int rank, void *matrix,
                            int64_t stride);

/* A matrix as whoever keeps it can make it or look at it himself.  SG_FILL_SUMS: element (i, j) is
 * the sum over t of row[t * rows + i] * col[t * cols + j], or 0 if that is negative and RELU is
 * set, rounded to the type.  SG_FILL_DRAWN: element number x of the whole matrix is sg_mix(KEY ^ x)
 * % (2 * MOST + 1) - MOST.  What a norm leaves (norm.h) can only be looked at: of sums, with a
 * residual that was drawn. */
typedef enum sg_fill_kind {
    SG_FILL_SUMS,
    SG_FILL_NORMAL, /* random values, mean 0 and deviation 1 */
    SG_FILL_NAN,    /* all bits set */
    SG_FILL_DRAWN,
    SG_FILL_NORMED,  /* in C */
    SG_FILL_RESIDUAL /* in the residual */
} sg_fill_kind;

typedef struct sg_fill {
    sg_fill_kind kind;
    sg_type type;
    int64_t rows, cols;
    int terms;
    bool relu;
    int32_t *row, *col; /* of sums; free(row) frees GAIN, too */
    uint64_t key;       /* of what is drawn */
    int32_t most;
    float epsilon, *gain; /* of a norm; [cols] */
} sg_fill;

/* RANK's A, B, or what C, the returned A or the residual must be: sums, or what a norm makes of
 * them.  SHINGLE_EUNSUPPORTED where elements are not such sums: what a run adds to differs
 * everywhere, and gelu and silu are no integers. */
shingle_status sg_data_sums(const sg_data *data, sg_tensor tensor, int rank, sg_fill *fill_out);

/* RANK's residual before a run, as SG_FILL_DRAWN. */
sg_fill sg_data_drawn(const sg_data *data, int rank);

/* What stands at (ROW, COL) of RANK's C: bias and activation included, rounded
 * to the type, but not normed. */
float sg_data_expected(const sg_data *data, int rank, int64_t row, int64_t col);

/* What stands at (ROW, COL) of the A that RANK returns. */
float sg_data_returned(const sg_data *data, int rank, int64_t row, int64_t col);

/* What was wrong with a C, or a returned A. */
typedef struct sg_data_wrong {
    int64_t elements; /* of the whole matrix, 0 if all is right */
    int64_t row, col; /* the first one */
    float seen, expected;
    bool returned; /* of the returned A */
    bool residual; /* of the residual */
} sg_data_wrong;

/* Compares all of RANK's C, bit for bit; after gelu and silu, whose last bit depends on the math
 * library, to two units in the last place of the type. */
shingle_status sg_data_compare(const sg_data *data, int rank, const void *c, int64_t stride,
                               sg_data_wrong *wrong_out);

/* The same of the A that RANK returns. */
shingle_status sg_data_compare_returned(const sg_data *data, int rank, const void *a,
                                        int64_t stride, sg_data_wrong *wrong_out);

/* The same of the residual after a run that norms; C is then compared bit for bit, too. */
shingle_status sg_data_compare_residual(const sg_data *data, int rank, const void *residual,
                                        int64_t stride, sg_data_wrong *wrong_out);

/* Elements of what a norm reads, which every type holds exactly. */
float sg_data_residual(const sg_data *data, int rank, int64_t row, int64_t col);
float sg_data_gain(const sg_data *data, int64_t col);

/* Calls VISITOR for every row of RANK's C with the sums of its columns: bias and activation are
 * left out, and what is done with them is sg_data_finished. */
typedef void (*sg_data_row_fn)(void *context, const sg_data *data, int64_t row,
                               const int32_t *sums);
shingle_status sg_data_each_row(const sg_data *data, int rank, sg_data_row_fn visitor,
                                void *context);
float sg_data_finished(const sg_data *data, int64_t sum, int64_t col);

/* Compares C or the residual with what a norm leaves there (data_norm.c); counts one wrong
 * element. */
shingle_status sg_data_compare_normed(const sg_data *data, int rank, sg_tensor tensor,
                                      const void *matrix, int64_t stride, sg_data_wrong *wrong_out);

/* What it leaves at (ROW, COL). */
shingle_status sg_data_normed(const sg_data *data, int rank, sg_tensor tensor, int64_t row,
                              int64_t col, float *value_out);
void sg_data_see(sg_data_wrong *wrong, int64_t row, int64_t col, float seen, float expected);

/* "C[3,17] of rank 1 is 4, expected -2; 12 elements are wrong" */
void sg_data_describe(const sg_data_wrong *wrong, int rank, sg_text *text);

/* Multiplies by B, as a user's function of a call may: the function that such data is for.  CONTEXT
 * is the sg_problem. */
int sg_data_compute(void *context, const shingle_rows *rows);

#endif
