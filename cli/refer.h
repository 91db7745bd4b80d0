/* refer.h -- the plain product that results are compared with: float inputs, double sums, no
 * library.  Slow, and meant to be obviously right. */
#ifndef CLI_REFER_H
#define CLI_REFER_H

#include "deal.h"

/* Compares C of every rank with what A, B and the bias give, and counts the elements that are off
 * by more than the error bound of such a sum; and what is returned of A, bit for bit.  ACT is "",
 * "relu", "gelu" or "silu".
 *
 * With u the rounding of float (2^-24), w that of the problem's type, k terms a rank and the sums p
 * of P ranks, an element may be off by
 *
 *     (k + P + 8) u sum |a| |b|  +  w (P sum |p| + 2 |c|)
 *
 * because products are summed in float in any order and a rank's partial sum may be rounded to the
 * type before each of up to P additions.  sum |a| |b| is bounded by the lengths of the rows.  Where
 * sum |a| |b| is above the largest float, or sum |p| above the type's largest number, some order
 * overflows, and what is infinite or no number is right, too.
 *
 * With a norm that is what is added to the residual, whose sum x is rounded once more; and C is
 * held against the x that was stored, of whose n squares 2048 sums and these in pairs were made. */
bool refer_compare(const deal *d, int64_t *wrong_out, char *error);

/* The plain product as a call computes it; CONTEXT is a shingle_shape. */
int refer_compute(void *context, const shingle_rows *rows);

/* The value of one element of the type: "f32", "bf16" or "f16". */
double refer_value(const char *type, const void *data, int64_t index);

#endif
