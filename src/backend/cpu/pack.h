/* pack.h -- B as the micro-kernel wants it: transposed to f32, in blocks of SG_PACK_K values of k
 * by `width` columns of the product, packed on first use by the workers that share it.
 *
 *     B (n rows of k)                 the pack
 *     row j  ------------>    block (j / width, x / 256): line x % 256 holds B[j0 .. j0 + width)[x]
 *
 * One pack serves one rank: it is reserved at bind for the largest B of the rank's plans, and begun
 * once a run, before the run's first visit.  All launches of a run that read the same B share it,
 * so the slices of a sliced plan pack once.
 *
 * Workers share blocks without ever waiting: a block's state is a stamp of the run (empty of this
 * run, being packed, ready).  A worker that finds a block being packed does another block first,
 * and in the end packs a private copy into its scratch.
 */
#ifndef SG_PACK_H
#define SG_PACK_H

#include <stdatomic.h>

#include "core/problem.h"

enum { SG_PACK_K = 256 }; /* of a block */

typedef struct sg_pack {
    float *data;             /* room floats */
    _Atomic uint64_t *state; /* block_room stamps: 2 * run while packing, 2 * run + 1 when ready */
    int64_t room, block_room;
    uint64_t run; /* counts sg_pack_begin */

    /* Of the run. */
    const void *b;
    sg_type type;
    int64_t stride, n, k;
    int64_t blocks_k; /* blocks side by side along k */
    int width;        /* columns of a block, as the engine likes them (micro.h) */
} sg_pack;

/* An empty pack; release takes NULL. */
shingle_status sg_pack_create(sg_pack **pack_out);
void sg_pack_free(sg_pack *pack);

/* Makes room for an N x K matrix of TYPE; never shrinks.  Not while a run uses the pack. */
shingle_status sg_pack_reserve(sg_pack *pack, sg_type type, int64_t n, int64_t k);

/* Forgets what was packed; the run's B is N rows of K values of TYPE, STRIDE elements apart, at
 * least reserved.  The caller makes this happen before the first visit of the run (the release
 * that publishes the run to its workers) and after the last visit of the run before. */
void sg_pack_begin(sg_pack *pack, sg_type type, const void *b, int64_t stride, int64_t n,
                   int64_t k);

/* For the tile engine. */

/* The floats of block (PANEL, BLOCK_K), or NULL while another worker packs it; packs it if nobody
 * has.  Line x of it is at x * width. */
const float *sg_pack_get(sg_pack *pack, int64_t panel, int64_t block_k);

/* Packs block (PANEL, BLOCK_K) into DST (SG_PACK_K x width floats). */
void sg_pack_copy(const sg_pack *pack, int64_t panel, int64_t block_k, float *dst);

#endif
