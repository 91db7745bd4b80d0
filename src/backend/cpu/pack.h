/* pack.h -- B as the micro-kernel wants it: transposed to f32, in blocks of SG_PACK_K values of k
 * by `width` columns of the product, packed on first use by the workers that share it.
 *
 *     B (n rows of k)                 the pack
 *     row j  ------------>    block (j / width, x / 256): line x % 256 holds B[j0 .. j0 + width)[x]
 *
 * One pack serves one rank: it is reserved at bind for all that a plan of the rank multiplies by,
 * and begun once a run, before the run's first visit.  Usually that is one matrix, the user's B; a
 * plan that gathers B has a source for every part that arrives by itself, so that no block spans
 * what is here and what is not.  Launches that read the same source share it, so the slices of a
 * sliced plan pack once.
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

/* A matrix that is multiplied by: N rows of K values. */
typedef struct sg_pack_source {
    const void *b;
    int64_t stride, n, k; /* stride in elements */

    /* Laid out by sg_pack_plan. */
    int64_t block0;   /* its first block */
    int64_t float0;   /* where that starts */
    int64_t blocks_k; /* blocks side by side along k */
    int width;        /* columns of a block, as the engine likes them (micro.h), or all of a few */
} sg_pack_source;

typedef struct sg_pack {
    float *data;             /* room floats */
    _Atomic uint64_t *state; /* block_room stamps: 2 * run while packing, 2 * run + 1 when ready */
    int64_t room, block_room;
    uint64_t run; /* counts sg_pack_begin */
    sg_type type; /* of the run's sources */
    sg_pack_source one;
} sg_pack;

/* An empty pack; release takes NULL. */
shingle_status sg_pack_create(sg_pack **pack_out);
void sg_pack_free(sg_pack *pack);

/* Lays SOURCE (n and k are set) out behind BLOCKS blocks of FLOATS floats and adds it to both.
 * False: too large to count. */
bool sg_pack_plan(sg_pack_source *source, int64_t *blocks, int64_t *floats);

/* Makes room for so much; never shrinks.  Not while a run uses the pack. */
shingle_status sg_pack_room(sg_pack *pack, int64_t blocks, int64_t floats);

/* Forgets what was packed: a run begins, and its sources are of TYPE.  The caller makes this happen
 * before the first visit of the run (the release that publishes the run to its workers) and after
 * the last visit of the run before. */
void sg_pack_begin(sg_pack *pack, sg_type type);

/* The same for one matrix, pack->one: room for an N x K matrix of TYPE, and a run whose B is N rows
 * of K values, STRIDE elements apart, at most as many as were reserved. */
shingle_status sg_pack_reserve(sg_pack *pack, sg_type type, int64_t n, int64_t k);
void sg_pack_begin_one(sg_pack *pack, sg_type type, const void *b, int64_t stride, int64_t n,
                       int64_t k);

/* For the tile engine. */

/* The floats of block (PANEL, BLOCK_K) of SOURCE, or NULL while another worker packs it; packs it
 * if nobody has.  Line x of it is at x * source->width. */
const float *sg_pack_get(sg_pack *pack, const sg_pack_source *source, int64_t panel,
                         int64_t block_k);

/* Packs block (PANEL, BLOCK_K) into DST (SG_PACK_K x width floats). */
void sg_pack_copy(const sg_pack *pack, const sg_pack_source *source, int64_t panel, int64_t block_k,
                  float *dst);

#endif
