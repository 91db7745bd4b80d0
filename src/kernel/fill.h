/* fill.h -- makes and compares matrices of a benchmark where they are, as the host sees it. */
#ifndef SG_KERNEL_FILL_H
#define SG_KERNEL_FILL_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A dense matrix whose element (i, j) is the sum over t of row[t * rows + i] * col[t *
 * cols + j], or 0 where that is negative and RELU is set, rounded to TYPE.  The vectors
 * are in the device's memory. */
typedef struct sg_kernel_sums {
    int32_t type; /* enum sg_kernel_type, kernel.h */
    int32_t terms, relu;
    int64_t rows, cols;
    const int32_t *row, *col;
} sg_kernel_sums;

/* Whole numbers from -MOST to MOST, by a hash of KEY and the number of each element in its
 * matrix. */
typedef struct sg_kernel_drawn {
    uint64_t key;
    int32_t most;
} sg_kernel_drawn;

enum { SG_KERNEL_NORM_LANES = 2048 }; /* as core/norm.h has it */

/* What a norm (core/norm.h) of SUMS leaves in C, or in the residual, which was drawn. */
typedef struct sg_kernel_normed {
    sg_kernel_sums sums;
    sg_kernel_drawn residual;
    const float *gain; /* [sums.cols], in the device's memory */
    float epsilon;
    int32_t of_residual;
} sg_kernel_normed;

/* In the device's memory, {0, UINT64_MAX} before: elements whose bits
 * differ, and the first of them. */
typedef struct sg_kernel_differences {
    unsigned long long count, first;
} sg_kernel_differences;

cudaError_t sg_kernel_fill(const sg_kernel_sums *sums, void *matrix, cudaStream_t stream);
cudaError_t sg_kernel_differ(const sg_kernel_sums *sums, const void *matrix,
                             sg_kernel_differences *found, cudaStream_t stream);
cudaError_t sg_kernel_differ_normed(const sg_kernel_normed *normed, const void *matrix,
                                    sg_kernel_differences *found, cudaStream_t stream);

cudaError_t sg_kernel_draw(int32_t type, const sg_kernel_drawn *drawn, void *matrix, int64_t count,
                           cudaStream_t stream);

/* COUNT values with mean 0 and deviation 1; they depend on SEED and their place alone. */
cudaError_t sg_kernel_normal(int32_t type, void *matrix, int64_t count, uint64_t seed,
                             cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
