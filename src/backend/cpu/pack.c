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

bool sg_pack_plan(sg_pack_source *source, int64_t *blocks, int64_t *floats)
{
    int64_t count = 0;
    int64_t each = 0;
    int64_t size = 0;
    /* A few rows of B make narrow blocks: parts that arrive one by one may be many. */
    source->width = (int)sg_max(1, sg_min(sg_micro_width(), source->n));
    source->blocks_k = sg_ceil_div(source->k, SG_PACK_K);
    source->block0 = *blocks;
    source->float0 = *floats;
    if (!sg_mul(sg_ceil_div(source->n, source->width), source->blocks_k, &count) ||
        !sg_mul(source->width, SG_PACK_K, &each) || !sg_mul(count, each, &size) ||
        size > INT64_MAX / 16 - *floats)
        return false;
    *blocks += count;
    *floats += size;
    return true;
}

shingle_status sg_pack_room(sg_pack *pack, int64_t blocks, int64_t floats)
{
    if (blocks <= pack->block_room && floats <= pack->room) return SHINGLE_OK;
    const int64_t more_blocks = sg_max(blocks, pack->block_room);
    const int64_t more_floats = sg_max(floats, pack->room);
    const int64_t bytes = more_floats * (int64_t)sizeof *pack->data;
    _Atomic uint64_t *const state = calloc((size_t)more_blocks, sizeof *state);
    float *const data = get_data(bytes);
    if (state == NULL || data == NULL) {
        free((void *)state);
        free(data);
        return sg_fail(SHINGLE_ENOMEM, "no memory to pack B (%lld bytes)", (long long)bytes);
    }
    free((void *)pack->state);
    free(pack->data);
    pack->state = state;
    pack->data = data;
    pack->block_room = more_blocks;
    pack->room = more_floats;
    return SHINGLE_OK;
}

shingle_status sg_pack_reserve(sg_pack *pack, sg_type type, int64_t n, int64_t k)
{
    (void)type; /* blocks hold f32, whatever the type of B */
    sg_pack_source whole = {.n = n, .k = k};
    int64_t blocks = 0;
    int64_t floats = 0;
    if (!sg_pack_plan(&whole, &blocks, &floats))
        return sg_fail(SHINGLE_ENOMEM, "no memory to pack a B of %lld x %lld", (long long)n,
                       (long long)k);
    return sg_pack_room(pack, blocks, floats);
}

/* ---- Packing --------------------------------------------------------------------------------- */

void sg_pack_begin(sg_pack *pack, sg_type type)
{
    pack->run++;
    pack->type = type;
}

void sg_pack_begin_one(sg_pack *pack, sg_type type, const void *b, int64_t stride, int64_t n,
                       int64_t k)
{
    int64_t blocks = 0;
    int64_t floats = 0;
    sg_pack_begin(pack, type);
    pack->one = (sg_pack_source){.b = b, .stride = stride, .n = n, .k = k};
    SG_CHECK(sg_pack_plan(&pack->one, &blocks, &floats));
    SG_CHECK(blocks <= pack->block_room && floats <= pack->room);
}

void sg_pack_copy(const sg_pack *pack, const sg_pack_source *source, int64_t panel, int64_t block_k,
                  float *dst)
{
    const int64_t col0 = panel * source->width;
    const int64_t k0 = block_k * SG_PACK_K;
    const char *const src =
        (const char *)source->b + (col0 * source->stride + k0) * (int64_t)sg_type_bytes(pack->type);
    sg_transpose(pack->type, src, source->stride, sg_min(source->width, source->n - col0),
                 sg_min(SG_PACK_K, source->k - k0), dst, source->width);
}

const float *sg_pack_get(sg_pack *pack, const sg_pack_source *source, int64_t panel,
                         int64_t block_k)
{
    const int64_t in_source = panel * source->blocks_k + block_k;
    const int64_t block = source->block0 + in_source;
    const uint64_t packing = 2 * pack->run;
    float *const data = pack->data + source->float0 + in_source * source->width * SG_PACK_K;

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
    sg_pack_copy(pack, source, panel, block_k, data);
    /* Release: the block's floats are visible to whoever sees the stamp.  Partner: the loads above
     * in other workers. */
    atomic_store_explicit(&pack->state[block], packing + 1, memory_order_release);
    return data;
}
