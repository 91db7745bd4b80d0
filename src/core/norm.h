/* norm.h -- what "norm" does to a finished row: the residual is added to it, and the sum is divided
 * by the root of its mean square (RMSNorm).  One order of additions for all backends, so that the
 * bits are the same.
 *
 *     y = what C would hold without it        x = y + residual, rounded to the type
 *     residual := x                           C := x * (1 / sqrt(sum of x^2 / n + epsilon)) * gain
 *
 * All in f32 with a rounding each.  Squares are added up in SG_NORM_LANES sums, in each of those
 * whose columns leave the same rest, columns ascending; these are then added in pairs at distances
 * 4, 2, 1 (eight neighbours: 16 bytes of a half-precision row), 128, 64, 32, 16, 8 (a warp) and
 * 1024, 512, 256 (its block).
 */
#ifndef SG_NORM_H
#define SG_NORM_H

#include "core/problem.h"

enum { SG_NORM_LANES = 2048 };

/* A row of COUNT columns: Y holds the sums in f32, unrounded, and then what C holds.  RESIDUAL and
 * GAIN are of TYPE.  SUMS is room for SG_NORM_LANES floats. */
void sg_norm_row(sg_type type, float epsilon, int64_t count, float *y, void *residual,
                 const void *gain, float *sums);

/* What COUNT values of X are multiplied by before the gain. */
float sg_norm_scale(float epsilon, int64_t count, const float *x, float *sums);

#endif
