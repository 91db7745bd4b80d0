/* norm.c -- see norm.h. */
#include "core/norm.h"

#include <math.h>
#include <string.h>

#include "core/data_element.h"

/* At distances from MOST down to LEAST, each half the one before, in every group of 2 * MOST
 * of the first LANES: sums are in the multiples of LEAST, and what is added up then is in the first
 * lane of its group. */
static void add_pairs(float *sums, int lanes, int most, int least)
{
    for (int distance = most; distance >= least; distance /= 2)
        for (int i = 0; i < lanes; i += 2 * most)
            for (int j = i; j < i + distance; j += least) sums[j] += sums[j + distance];
}

float sg_norm_scale(float epsilon, int64_t count, const float *x, float *sums)
{
    /* Sums of squares are never -0: groups without an element would add +0 and change no bit. */
    const int used = (int)sg_min(SG_NORM_LANES, count);
    memset(sums, 0, SG_NORM_LANES * sizeof *sums);
    for (int64_t at = 0; at < count; at += SG_NORM_LANES) {
        const int lanes = (int)sg_min(SG_NORM_LANES, count - at);
        for (int j = 0; j < lanes; j++) sums[j] += x[at + j] * x[at + j];
    }
    add_pairs(sums, used, 4, 1);
    add_pairs(sums, used, 128, 8);
    add_pairs(sums, used, 1024, 256);
    return 1.0f / sqrtf(sums[0] / (float)count + epsilon);
}

void sg_norm_row(sg_type type, float epsilon, int64_t count, float *y, void *residual,
                 const void *gain, float *sums)
{
    for (int64_t i = 0; i < count; i++) {
        const float sum = sg_data_round(type, y[i]) + sg_data_load(type, residual, i);
        y[i] = sg_data_round(type, sum);
        sg_data_store(type, y[i], residual, i);
    }
    const float scale = sg_norm_scale(epsilon, count, y, sums);
    for (int64_t i = 0; i < count; i++)
        y[i] = sg_data_round(type, y[i] * scale * sg_data_load(type, gain, i));
}
