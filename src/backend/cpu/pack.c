/* pack.c -- packs blocks of B, once a run and block, for whoever comes first. */
#include "backend/cpu/pack.h"

#include <stdlib.h>
#include <string.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "backend/cpu/micro.h"
#include "backend/cpu/transpose.h"

enum { HUGE_PAGE = 2 << 20 };

/* ---- Memory ---------------------------------------------------------------------------------- */

shingle_status sg_pack_create(sg_pack **pack_out)
{
    sg_pack *const pack = calloc(1, sizeof *pack);
    if (pack == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a pack of B");
    *pack_out = pack;
    return SHINGLE_OK;
}

void sg_pack_free(sg_pack *pack)
{
    if (pack == NULL) return;
    free(pack->data);
    free((void *)pack->state);
    free(pack);
}

/* Large packs ask for huge pages: they are written once a run and read from end to end. */
static float *get_data(int64_t bytes)
{
    const bool large = bytes >= 2 * HUGE_PAGE;
    const size_t align = large ? HUGE_PAGE : 64;
    const size_t room = (size_t)sg_round_up(bytes, (int64_t)align);
    float *const data = aligned_alloc(align, room);
#ifdef MADV_HUGEPAGE
    /* Where it is refused the pages stay small. */
    if (data != NULL && large) (void)madvise(data, room, MADV_HUGEPAGE);
#endif
    return data;
}

shingle_status sg_pack_reserve(sg_pack *pack, sg_type type, int64_t n, int64_t k)
{
    (void)type; /* blocks hold f32, whatever the type of B */
    const int64_t cols = sg_round_up(n, SG_MICRO_WIDTH);
    const int64_t blocks_k = sg_ceil_div(k, SG_PACK_K);
    int64_t blocks = 0;
    int64_t floats = 0;
    int64_t bytes = 0;
    if (!sg_mul(cols / sg_micro_width(), blocks_k, &blocks) ||
        !sg_mul(blocks, (int64_t)sg_micro_width() * SG_PACK_K, &floats) ||
        !sg_mul(floats, (int64_t)sizeof *pack->data, &bytes)) {
        return sg_fail(SHINGLE_ENOMEM, "no memory to pack a B of %lld x %lld", (long long)n,
                       (long long)k);
    }
    if (blocks > pack->block_room) {
        _Atomic uint64_t *const state = calloc((size_t)blocks, sizeof *state);
        float *const data = get_data(bytes);
        if (state == NULL || data == NULL) {
            free((void *)state);
            free(data);
            return sg_fail(SHINGLE_ENOMEM, "no memory to pack a B of %lld x %lld (%lld bytes)",
                           (long long)n, (long long)k, (long long)bytes);
        }
        free((void *)pack->state);
        free(pack->data);
        pack->state = state;
        pack->data = data;
        pack->block_room = blocks;
        pack->room = floats;
    }
    return SHINGLE_OK;
}

/* ---- Packing --------------------------------------------------------------------------------- */

void sg_pack_begin(sg_pack *pack, sg_type type, const void *b, int64_t stride, int64_t n, int64_t k)
{
    pack->run++;
    pack->b = b;
    pack->type = type;
    pack->stride = stride;
    pack->n = n;
    pack->k = k;
    pack->blocks_k = sg_ceil_div(k, SG_PACK_K);
    pack->width = sg_micro_width();
    SG_CHECK(sg_ceil_div(n, pack->width) * pack->blocks_k <= pack->block_room);
}

void sg_pack_copy(const sg_pack *pack, int64_t panel, int64_t block_k, float *dst)
{
    const int64_t col0 = panel * pack->width;
    const int64_t k0 = block_k * SG_PACK_K;
    const char *const src =
        (const char *)pack->b + (col0 * pack->stride + k0) * (int64_t)sg_type_bytes(pack->type);
    sg_transpose(pack->type, src, pack->stride, sg_min(pack->width, pack->n - col0),
                 sg_min(SG_PACK_K, pack->k - k0), dst, pack->width);
}

const float *sg_pack_get(sg_pack *pack, int64_t panel, int64_t block_k)
{
    const int64_t block = panel * pack->blocks_k + block_k;
    const uint64_t packing = 2 * pack->run;
    float *const data = pack->data + block * pack->width * SG_PACK_K;

    /* Acquire.  Partner: the release below, in the worker that packed the block. */
    uint64_t state = atomic_load_explicit(&pack->state[block], memory_order_acquire);
    if (state == packing + 1) return data;
    if (state == packing) return NULL;
    /* Another stamp than this run's two is an older run's: the block is ours to pack if no other
     * worker is faster.  Readers of the older run have ended before sg_pack_begin. */
    if (!atomic_compare_exchange_strong_explicit(&pack->state[block], &state, packing,
                                                 memory_order_acquire, memory_order_acquire)) {
        return state == packing + 1 ? data : NULL;
    }
    sg_pack_copy(pack, panel, block_k, data);
    /* Release: the block's floats are visible to whoever sees the stamp.  Partner: the loads above
     * in other workers. */
    atomic_store_explicit(&pack->state[block], packing + 1, memory_order_release);
    return data;
}
