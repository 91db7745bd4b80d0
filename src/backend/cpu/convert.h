/* convert.h -- rows of elements to and from f32: load, add, store with one rounding, bias,
 * activations.
 *
 * Every function works element by element: the result of an element depends neither on its place
 * in the row nor on the vector unit of the machine, so tests can compute it one at a time.  Types
 * round to nearest, ties to even; NaN stays NaN (made quiet), overflow becomes infinity, and
 * subnormal values are kept.  Rows need no alignment beyond that of their elements.
 */
#ifndef SG_CONVERT_H
#define SG_CONVERT_H

#include "core/problem.h"

/* DST[i] = SRC[i]: exact. */
void sg_convert_load(sg_type type, const void *src, float *dst, int64_t count);

/* DST[i] += SRC[i] in f32: addends, and the bias. */
void sg_convert_add(sg_type type, const void *src, float *dst, int64_t count);

/* DST[i] = SRC[i], rounded once. */
void sg_convert_store(sg_type type, const float *src, void *dst, int64_t count);

/* ROW[i] = act(ROW[i]) in f32.  gelu is the tanh form,
 * x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))); silu is x / (1 + exp(-x)). */
void sg_convert_act(sg_act act, float *row, int64_t count);

/* The same on blocks of rows.  Strides are in elements. */
void sg_convert_load_block(sg_type type, const void *src, int64_t src_stride, float *dst,
                           int64_t dst_stride, int64_t rows, int64_t cols);
void sg_convert_add_block(sg_type type, const void *src, int64_t src_stride, float *dst,
                          int64_t dst_stride, int64_t rows, int64_t cols);
void sg_convert_store_block(sg_type type, const float *src, int64_t src_stride, void *dst,
                            int64_t dst_stride, int64_t rows, int64_t cols);

/* Every element of ACC becomes what a store to TYPE would leave of it. */
void sg_convert_round_block(sg_type type, float *acc, int64_t acc_stride, int64_t rows,
                            int64_t cols);

/* Bias (COLS values of TYPE, or NULL) and then the activation, in place. */
void sg_convert_epilogue(sg_type type, const void *bias, sg_act act, float *acc, int64_t acc_stride,
                         int64_t rows, int64_t cols);

#endif
