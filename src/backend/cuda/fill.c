/* fill.c -- matrices of a benchmark, made and compared on the GPU: of a matrix of a gigabyte every
 * element is looked at in a millisecond, where sending it to the host alone would take longer. */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "core/data.h"
#include "core/norm.h"
#include "kernel/fill.h"

_Static_assert((int)SG_KERNEL_NORM_LANES == (int)SG_NORM_LANES, "one order of additions");

/* The factors of a matrix on the device, with room for what is found behind them. */
typedef struct upload {
    void *memory;
    sg_kernel_sums sums;
    const float *gain; /* of a norm */
    sg_kernel_differences *found;
} upload;

static shingle_status send(sg_cuda_rank *rank, const sg_fill *f, upload *u)
{
    const sg_kernel_differences none = {0, UINT64_MAX};
    const int64_t factors = f->terms * (f->rows + f->cols);
    const size_t bytes = (size_t)(factors + (f->gain != NULL ? f->cols : 0)) * sizeof *f->row;
    SG_TRY(sg_cuda_get(rank, bytes + sizeof none, &u->memory));
    u->found = u->memory;
    int32_t *const row = (int32_t *)(void *)(u->found + 1);
    u->sums = (sg_kernel_sums){.type = (int32_t)f->type,
                               .terms = f->terms,
                               .relu = f->relu,
                               .rows = f->rows,
                               .cols = f->cols,
                               .row = row,
                               .col = row + f->terms * f->rows};
    u->gain = (const float *)(const void *)(row + factors);
    SG_TRY(sg_cuda_put(rank, u->found, &none, sizeof none));
    return bytes > 0 ? sg_cuda_put(rank, row, f->row, bytes) : SHINGLE_OK;
}

static shingle_status fill_sums(sg_cuda_rank *rank, const sg_fill *f, void *matrix)
{
    upload u = {.memory = NULL};
    shingle_status status = send(rank, f, &u);
    if (status == SHINGLE_OK)
        status = sg_cuda_check(sg_kernel_fill(&u.sums, matrix, rank->service), "sg_kernel_fill()");
    if (status == SHINGLE_OK) status = sg_cuda_settle(rank);
    sg_cuda_drop(rank->cuda, u.memory);
    return status;
}

static sg_kernel_drawn drawn_of(const sg_fill *f)
{
    return (sg_kernel_drawn){.key = f->key, .most = f->most};
}

static shingle_status fill_any(sg_cuda_rank *rank, const sg_fill *f, void *matrix)
{
    const int64_t count = f->rows * f->cols;
    const size_t bytes = (size_t)(count * sg_type_bytes(f->type));
    const sg_kernel_drawn drawn = drawn_of(f);
    if (count == 0) return SHINGLE_OK;
    if (f->kind == SG_FILL_SUMS) return fill_sums(rank, f, matrix);
    if (f->kind == SG_FILL_NORMAL)
        SG_CUDA(sg_kernel_normal((int32_t)f->type, matrix, count, (uint64_t)rank->rank + 1,
                                 rank->service));
    else if (f->kind == SG_FILL_DRAWN)
        SG_CUDA(sg_kernel_draw((int32_t)f->type, &drawn, matrix, count, rank->service));
    else
        SG_CUDA(cudaMemsetAsync(matrix, 0xff, bytes, rank->service));
    return sg_cuda_settle(rank);
}

shingle_status sg_cuda_fill(void *self, int index, const sg_fill *f, void *matrix)
{
    sg_cuda *const cuda = self;
    int caller = 0;
    SG_TRY(sg_cuda_enter(&cuda->rank[index], &caller));
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    const shingle_status status = fill_any(&cuda->rank[index], f, matrix);
    sg_cuda_restore(mode);
    sg_cuda_leave(&cuda->rank[index], caller);
    return status;
}

static shingle_status differ(const sg_cuda_rank *rank, const sg_fill *f, const upload *u,
                             const void *matrix)
{
    if (f->kind == SG_FILL_SUMS)
        return sg_cuda_check(sg_kernel_differ(&u->sums, matrix, u->found, rank->service),
                             "sg_kernel_differ()");
    const sg_kernel_normed normed = {.sums = u->sums,
                                     .residual = drawn_of(f),
                                     .gain = u->gain,
                                     .epsilon = f->epsilon,
                                     .of_residual = f->kind == SG_FILL_RESIDUAL};
    return sg_cuda_check(sg_kernel_differ_normed(&normed, matrix, u->found, rank->service),
                         "sg_kernel_differ_normed()");
}

static shingle_status find(sg_cuda_rank *rank, const sg_fill *f, const void *matrix,
                           sg_kernel_differences *found)
{
    upload u = {.memory = NULL};
    shingle_status status = send(rank, f, &u);
    if (status == SHINGLE_OK) status = differ(rank, f, &u, matrix);
    if (status == SHINGLE_OK) status = sg_cuda_fetch(rank, found, u.found, sizeof *found);
    sg_cuda_drop(rank->cuda, u.memory);
    return status;
}

shingle_status sg_cuda_differ(void *self, int index, const sg_fill *f, const void *matrix,
                              int64_t *wrong_out, int64_t *first_out)
{
    sg_cuda *const cuda = self;
    sg_kernel_differences found;
    int caller = 0;
    SG_TRY(sg_cuda_enter(&cuda->rank[index], &caller));
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    const shingle_status status = find(&cuda->rank[index], f, matrix, &found);
    sg_cuda_restore(mode);
    sg_cuda_leave(&cuda->rank[index], caller);
    SG_TRY(status);
    *wrong_out = (int64_t)found.count;
    *first_out = (int64_t)found.first;
    return SHINGLE_OK;
}
