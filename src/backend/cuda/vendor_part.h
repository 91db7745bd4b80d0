/* vendor_part.h -- what vendor.c and vendor_search.c know of each other. */
#ifndef SG_VENDOR_PART_H
#define SG_VENDOR_PART_H

#include <cublasLt.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/vendor.h"

enum { SG_VENDOR_ALIGNED = 256 }; /* bytes that addresses are multiples of, at most */
#define SG_VENDOR_WORK ((size_t)64 << 20)

typedef struct sg_cublaslt {
    cublasStatus_t (*cublasLtCreate)(cublasLtHandle_t *);
    cublasStatus_t (*cublasLtDestroy)(cublasLtHandle_t);
    cublasStatus_t (*cublasLtMatmulDescCreate)(cublasLtMatmulDesc_t *, cublasComputeType_t,
                                               cudaDataType_t);
    cublasStatus_t (*cublasLtMatmulDescDestroy)(cublasLtMatmulDesc_t);
    cublasStatus_t (*cublasLtMatmulDescSetAttribute)(cublasLtMatmulDesc_t,
                                                     cublasLtMatmulDescAttributes_t, const void *,
                                                     size_t);
    cublasStatus_t (*cublasLtMatrixLayoutCreate)(cublasLtMatrixLayout_t *, cudaDataType_t, uint64_t,
                                                 uint64_t, int64_t);
    cublasStatus_t (*cublasLtMatrixLayoutDestroy)(cublasLtMatrixLayout_t);
    cublasStatus_t (*cublasLtMatmulPreferenceCreate)(cublasLtMatmulPreference_t *);
    cublasStatus_t (*cublasLtMatmulPreferenceDestroy)(cublasLtMatmulPreference_t);
    cublasStatus_t (*cublasLtMatmulPreferenceSetAttribute)(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t,
                                                           const void *, size_t);
    cublasStatus_t (*cublasLtMatmulAlgoGetHeuristic)(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatmulPreference_t, int,
                                                     cublasLtMatmulHeuristicResult_t *, int *);
    cublasStatus_t (*cublasLtMatmulAlgoCheck)(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              const cublasLtMatmulAlgo_t *,
                                              cublasLtMatmulHeuristicResult_t *);
    cublasStatus_t (*cublasLtMatmulAlgoCapGetAttribute)(const cublasLtMatmulAlgo_t *,
                                                        cublasLtMatmulAlgoCapAttributes_t, void *,
                                                        size_t, size_t *);
    cublasStatus_t (*cublasLtMatmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *,
                                     const void *, cublasLtMatrixLayout_t, const void *,
                                     cublasLtMatrixLayout_t, const void *, const void *,
                                     cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t,
                                     const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t);
} sg_cublaslt;

struct sg_vendor {
    sg_cuda *cuda;
    sg_cuda_rank *rank;
    sg_cublaslt lib;
    cublasLtHandle_t handle;
    void *work;
};

/* What a product is asked for with: algorithms hold for these strides and this alignment. */
typedef struct sg_product_form {
    int64_t a_stride, b_stride, add_stride, c_stride;
    uint32_t aligned; /* bytes that all addresses are multiples of */
} sg_product_form;

/* How a product in such a form is told to the library, and by which algorithm it is done. */
typedef struct sg_product_way {
    sg_product_form form;
    cublasLtMatrixLayout_t a, b, add, c; /* NULL: none yet */
    cublasLtMatmulAlgo_t algo;
} sg_product_way;

struct sg_product {
    sg_vendor *vendor;
    sg_type type;
    int64_t m, n, k;
    bool bias, accumulate, in_place;
    sg_act act;
    cublasLtMatmulDesc_t desc;
    sg_product_way bound; /* as it was made: nothing that comes later changes its algorithm */
    sg_product_way other; /* the latest form that this does not fit */
    bool loaded;          /* is what the algorithm needs for rows that lie apart? */
};

/* An error of cuBLASLt's becomes ours, with the name of the CALL. */
shingle_status sg_vendor_check(cublasStatus_t status, const char *call);
#define SG_LT(call) SG_TRY(sg_vendor_check((call), #call))

/* WAY is what FORM is told to the library as, until it is dropped; its algorithm stays as it is. */
shingle_status sg_product_lay_out(const sg_product *product, const sg_product_form *form,
                                  sg_product_way *way);
void sg_product_drop(const sg_product *product, sg_product_way *way);

/* At most ROOM algorithms that the library proposes, and at least one. */
shingle_status sg_product_propose(const sg_product *product, const sg_product_way *way,
                                  cublasLtMatmulHeuristicResult_t *found, int room, int *count_out);

/* WORK is nobody else's until STREAM is past it. */
shingle_status sg_product_multiply(const sg_product *product, const sg_product_way *way,
                                   const cublasLtMatmulAlgo_t *algo, const sg_operands *o,
                                   void *work, cudaStream_t stream);

/* The fastest algorithm becomes that of `bound`.  BUSY: kernels may have all SMs, and nothing can
 * be tried until they end. */
shingle_status sg_product_choose(sg_product *product, const sg_product_ask *wanted,
                                 sg_choice **list, cudaStream_t stream, bool busy);

#endif
