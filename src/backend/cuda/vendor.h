/* vendor.h -- the vendor's product (cuBLASLt), by the algorithm that was fastest here.  The
 * library is looked for when a group opens; without it launches of the vendor's are served by
 * our kernels. */
#ifndef SG_VENDOR_H
#define SG_VENDOR_H

#include <cuda_runtime_api.h>

#include "core/problem.h"

struct sg_cuda; /* cuda.h */
struct sg_cuda_rank;
typedef struct sg_vendor sg_vendor;   /* of a rank: handle and workspace */
typedef struct sg_product sg_product; /* of a bound launch */
typedef struct sg_choice sg_choice;   /* algorithms by shape, of a group */

/* *VENDOR_OUT is NULL, and that is no failure, if there is no library. */
shingle_status sg_vendor_open(struct sg_cuda *cuda, struct sg_cuda_rank *rank,
                              sg_vendor **vendor_out);
void sg_vendor_close(sg_vendor *vendor);
void sg_vendor_forget(sg_choice *choice);

typedef struct sg_operands {
    const void *a, *b, *bias; /* bias: NULL if none */
    const void *add;          /* what is accumulated to; NULL: C itself */
    void *c;
    int64_t a_stride, b_stride, add_stride, c_stride; /* elements */
} sg_operands;

/* C = A * B' (or ADD + A * B'), then bias and ACT (none or relu).  Strides in elements, and
 * ALIGNED, the bytes (at most 256) that all addresses are multiples of, are those that runs are
 * expected to have. */
typedef struct sg_product_ask {
    sg_type type;
    int64_t m, n, k;
    bool bias, accumulate;
    bool in_place; /* what is accumulated to is C itself */
    sg_act act;
    int64_t a_stride, b_stride, add_stride, c_stride;
    uint32_t aligned;
} sg_product_ask;

/* CHOICE remembers what was timed; the first product of a shape takes some tens of milliseconds of
 * the rank's service stream.  Its kernel is then loaded on the current device: to load one waits
 * for kernels that run, which may wait for this product.  BUSY: such kernels may run now, so
 * nothing is timed or loaded, and the library's first choice it is, for this time. */
shingle_status sg_product_make(sg_vendor *vendor, sg_choice **choice, const sg_product_ask *ask,
                               bool busy, sg_product **product_out);
void sg_product_free(sg_product *product);

/* Is all loaded that these strides and this alignment need?  So it is for those that it was made
 * for, and for others that its algorithm serves as well. */
bool sg_product_fits(sg_product *product, const sg_operands *o);
shingle_status sg_product_run(sg_product *product, const sg_operands *o, cudaStream_t stream);

#endif
