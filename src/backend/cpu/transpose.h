/* transpose.h -- a block of rows of any type, as f32 columns: what packing B consists of. */
#ifndef SG_TRANSPOSE_H
#define SG_TRANSPOSE_H

#include "core/problem.h"

/* DST[x * DST_STRIDE + j] = SRC[j * SRC_STRIDE + x] as f32, for j < ROWS and x < COLS.  Strides are
 * in elements; nothing else of DST is written. */
void sg_transpose(sg_type type, const void *src, int64_t src_stride, int64_t rows, int64_t cols,
                  float *dst, int64_t dst_stride);

#endif
