/* wgmma.cuh -- a wrapper per warpgroup matrix instruction, of both input types: d (64 x N,
 * f32, N/2 registers a thread) (+)= a (64 x 16) * b (N x 16)', both operands K-major in
 * shared memory behind descriptors.  keep = 0 overwrites d: the first instruction of a tile
 * needs no zeroed accumulators. */
#ifndef SG_WGMMA_CUH
#define SG_WGMMA_CUH

#include "kernel/wgmma_bf16.cuh"
#include "kernel/wgmma_f16.cuh"

#endif
