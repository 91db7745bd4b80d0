/* attention.h -- softmax(q K^T / sqrt(d)) V for one query and one head: what both attention
 * examples compute, in float as part of a call and in double as the reference. */
#ifndef EXAMPLE_ATTENTION_H
#define EXAMPLE_ATTENTION_H

#include <math.h>

enum { TOKENS = 192, HEADS = 8, HEAD = 16, HIDDEN = HEADS * HEAD };

/* Numbers between -1 and 1 that look random. */
static inline float number(unsigned seed, int row, int col)
{
    unsigned x = seed * 2654435761u + (unsigned)row * 40503u + (unsigned)col * 2246822519u;
    x = (x ^ x >> 15) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    return (float)((x ^ x >> 16) % 20001u) / 10000.0f - 1.0f;
}

/* The keys and values of KEYS tokens, STRIDE apart; OUT gets HEAD values. */
static inline void attend(const float *q, const float *k, const float *v, int keys, int stride,
                          float *out)
{
    float weight[TOKENS];
    float most = -INFINITY;
    float sum = 0;
    for (int t = 0; t < keys; t++) {
        weight[t] = 0;
        for (int x = 0; x < HEAD; x++) weight[t] += q[x] * k[t * stride + x];
        weight[t] /= sqrtf(HEAD);
        if (weight[t] > most) most = weight[t];
    }
    for (int t = 0; t < keys; t++) sum += weight[t] = expf(weight[t] - most);
    for (int x = 0; x < HEAD; x++) {
        out[x] = 0;
        for (int t = 0; t < keys; t++) out[x] += weight[t] / sum * v[t * stride + x];
    }
}

/* The same of head H, unsplit, from matrices of all tokens and heads. */
static inline void attend_plainly(const float *q, const float (*k)[HIDDEN],
                                  const float (*v)[HIDDEN], int h, int keys, double *out)
{
    double weight[TOKENS];
    double sum = 0;
    for (int t = 0; t < keys; t++) {
        double score = 0;
        for (int x = 0; x < HEAD; x++)
            score += (double)q[h * HEAD + x] * (double)k[t][h * HEAD + x];
        sum += weight[t] = exp(score / sqrt(HEAD));
    }
    for (int x = 0; x < HEAD; x++) {
        out[x] = 0;
        for (int t = 0; t < keys; t++) out[x] += weight[t] / sum * (double)v[t][h * HEAD + x];
    }
}

#endif
