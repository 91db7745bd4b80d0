/* fake_fill.c -- the functions of kernel/fill.h on the host, and the runtime's questions about
 * itself; see fake.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data.h"
#include "core/norm.h"
#include "fake.h"
#include "kernel/fill.h"

typedef struct fill_op {
    sg_kernel_sums sums;
    void *matrix;
    sg_kernel_differences *found; /* NULL: store */
} fill_op;

static float value_at(const sg_kernel_sums *s, int64_t i, int64_t j)
{
    int64_t sum = 0;
    for (int t = 0; t < s->terms; t++)
        sum += (int64_t)s->row[t * s->rows + i] * s->col[t * s->cols + j];
    return s->relu && sum < 0 ? 0.0f : (float)sum;
}

static bool run(void *data, bool first)
{
    const fill_op *const o = data;
    const sg_kernel_sums *const s = &o->sums;
    const sg_type type = (sg_type)s->type;
    const size_t bytes = (size_t)sg_type_bytes(type);
    (void)first;
    for (int64_t at = 0; at < s->rows * s->cols; at++) {
        uint32_t value = 0;
        char *const here = (char *)o->matrix + (size_t)at * bytes;
        sg_data_store(type, value_at(s, at / s->cols, at % s->cols), &value, 0);
        if (o->found == NULL) {
            memcpy(here, &value, bytes);
        } else if (memcmp(here, &value, bytes) != 0) {
            if (o->found->count++ == 0) o->found->first = (unsigned long long)at;
        }
    }
    return true;
}

cudaError_t sg_kernel_fill(const sg_kernel_sums *sums, void *matrix, cudaStream_t stream)
{
    const fill_op o = {*sums, matrix, NULL};
    return fake_enqueue(stream, run, &o, sizeof o);
}

cudaError_t sg_kernel_differ(const sg_kernel_sums *sums, const void *matrix,
                             sg_kernel_differences *found, cudaStream_t stream)
{
    const fill_op o = {*sums, (void *)(uintptr_t)matrix, found};
    return fake_enqueue(stream, run, &o, sizeof o);
}

static float drawn_at(const sg_kernel_drawn *d, int64_t at)
{
    const uint64_t span = 2 * (uint64_t)d->most + 1;
    return (float)((int32_t)(sg_mix(d->key ^ (uint64_t)at) % span) - d->most);
}

typedef struct normed_op {
    sg_kernel_normed normed;
    const char *matrix;
    sg_kernel_differences *found;
} normed_op;

/* By the function of the host, which says what is right. */
static bool run_normed(void *data, bool first)
{
    const normed_op *const o = data;
    const sg_kernel_normed *const n = &o->normed;
    const sg_type type = (sg_type)n->sums.type;
    const int64_t cols = n->sums.cols;
    const size_t bytes = (size_t)sg_type_bytes(type);
    float *const room = malloc((size_t)(3 * cols + SG_NORM_LANES) * sizeof *room);
    float *const y = room + SG_NORM_LANES;
    char *const residual = (char *)(y + cols);
    char *const gain = (char *)(y + 2 * cols);
    (void)first;
    for (int64_t row = 0; row < n->sums.rows; row++) {
        for (int64_t col = 0; col < cols; col++) {
            y[col] = value_at(&n->sums, row, col);
            sg_data_store(type, drawn_at(&n->residual, row * cols + col), residual, col);
            sg_data_store(type, n->gain[col], gain, col);
        }
        sg_norm_row(type, n->epsilon, cols, y, residual, gain, room);
        for (int64_t col = 0; col < cols; col++) {
            uint32_t value = 0;
            const int64_t at = row * cols + col;
            sg_data_store(type, n->of_residual ? sg_data_load(type, residual, col) : y[col], &value,
                          0);
            if (memcmp(o->matrix + (size_t)at * bytes, &value, bytes) == 0) continue;
            if (o->found->count++ == 0) o->found->first = (unsigned long long)at;
        }
    }
    free(room);
    return true;
}

cudaError_t sg_kernel_differ_normed(const sg_kernel_normed *normed, const void *matrix,
                                    sg_kernel_differences *found, cudaStream_t stream)
{
    const normed_op o = {*normed, matrix, found};
    return fake_enqueue(stream, run_normed, &o, sizeof o);
}

cudaError_t sg_kernel_draw(int32_t type, const sg_kernel_drawn *drawn, void *matrix, int64_t count,
                           cudaStream_t stream)
{
    (void)stream;
    for (int64_t i = 0; i < count; i++) sg_data_store((sg_type)type, drawn_at(drawn, i), matrix, i);
    return cudaSuccess;
}

cudaError_t sg_kernel_normal(int32_t type, void *matrix, int64_t count, uint64_t seed,
                             cudaStream_t stream)
{
    sg_random random = {seed};
    (void)stream;
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)(sg_random_next(&random) >> 11) * 0x1p-53;
        sg_data_store((sg_type)type, (float)((2 * x - 1) * 1.7320508), matrix, i);
    }
    return cudaSuccess;
}

FAKE cudaError_t cudaRuntimeGetVersion(int *out)
{
    FAKE_MAY_FAIL();
    *out = 13000;
    return cudaSuccess;
}

FAKE cudaError_t cudaDeviceGetPCIBusId(char *out, int room, int device)
{
    FAKE_MAY_FAIL();
    snprintf(out, (size_t)room, "0000:%02x:00.0", device);
    return cudaSuccess;
}
