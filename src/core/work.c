/* work.c -- see work.h. */
#include "core/work.h"

#include <stdlib.h>
#include <string.h>

static shingle_status get(sg_work *work, sg_arena_kind arena, size_t bytes, void **memory_out)
{
    return work->backend->alloc(work->self, work->rank, arena, bytes, memory_out);
}

/* As memory for tensors, which peers store into, too: a backend may have blocks of SYM in pairs. */
static shingle_status get_words(sg_work *work, size_t bytes, void **memory_out)
{
    return get(work, SG_USER, bytes, memory_out);
}

static void put(sg_work *work, void *memory)
{
    if (memory != NULL) work->backend->release(work->self, work->rank, memory);
}

static shingle_status make_words(sg_work *work)
{
    const size_t ranks = (size_t)work->ranks;
    void *memory = NULL;
    SG_TRY(get_words(work, ranks * sizeof *work->words.done, &memory));
    work->words.done = memory;
    SG_TRY(get_words(work, ranks * sizeof *work->words.abort, &memory));
    work->words.abort = memory;
    SG_TRY(get_words(work, 2 * ranks * sizeof *work->words.hello, &memory));
    work->words.hello = memory;
    return SHINGLE_OK;
}

static shingle_status open_one(int rank, int ranks, const sg_backend *backend, void *self,
                               sg_work **work_out)
{
    sg_work *const work = calloc(1, sizeof *work);
    if (work == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for the words of rank %d", rank);
    *work_out = work;
    work->rank = rank;
    work->ranks = ranks;
    work->backend = backend;
    work->self = self;
    work->epoch = 1;
    work->prev_half = 1;
    work->peer = calloc((size_t)ranks, sizeof(sg_words *));
    if (work->peer == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory for the words of rank %d", rank);
    return make_words(work);
}

shingle_status sg_work_open(int ranks, const sg_backend *backend, void *self, sg_work **work_out)
{
    memset(work_out, 0, (size_t)ranks * sizeof *work_out);
    for (int r = 0; r < ranks; r++) {
        const shingle_status status = open_one(r, ranks, backend, self, &work_out[r]);
        if (status != SHINGLE_OK) {
            sg_work_close(ranks, work_out);
            return status;
        }
    }
    for (int r = 0; r < ranks; r++)
        for (int q = 0; q < ranks; q++) work_out[r]->peer[q] = &work_out[q]->words;
    return SHINGLE_OK;
}

void sg_work_close(int ranks, sg_work **work)
{
    for (int r = 0; r < ranks; r++) {
        sg_work *const w = work[r];
        if (w == NULL) continue;
        for (int kind = 0; kind < SG_BLOCK_KINDS; kind++)
            for (int cls = 0; cls < SG_BLOCK_CLASSES; cls++) put(w, w->block[kind][cls]);
        for (int page = 0; page < SG_FLAG_PAGES; page++) put(w, w->words.flag[page]);
        put(w, w->words.hello);
        put(w, w->words.abort);
        put(w, w->words.done);
        free(w->peer);
        free(w);
        work[r] = NULL;
    }
}

/* Flags of one rank in page PAGE, and the index of the first. */
static int64_t page_size(int page)
{
    return page == 0 ? SG_FLAG_PAGE0 : (int64_t)SG_FLAG_PAGE0 << (page - 1);
}

static int64_t page_first(int page)
{
    return page == 0 ? 0 : page_size(page);
}

shingle_status sg_work_flags(sg_work *work, int64_t flags)
{
    for (int page = 0; page < SG_FLAG_PAGES && page_first(page) < flags; page++) {
        if (work->words.flag[page] != NULL) continue;
        const size_t words = (size_t)(work->ranks * page_size(page));
        void *memory = NULL;
        SG_TRY(get_words(work, words * sizeof(uint64_t), &memory));
        work->words.flag[page] = memory;
    }
    return SHINGLE_OK;
}

shingle_status sg_work_block(sg_work *work, sg_block_kind kind, int64_t bytes, void **block_out)
{
    static const sg_arena_kind arena[SG_BLOCK_KINDS] = {SG_SYM,   SG_SYM,     SG_REST,   SG_REST,
                                                        SG_LOCAL, SG_LIBRARY, SG_WINDOWS};
    int cls = SG_BLOCK_CLASS0;
    while (cls < SG_BLOCK_CLASSES && INT64_C(1) << cls < bytes) cls++;
    if (cls == SG_BLOCK_CLASSES)
        return sg_fail(SHINGLE_ENOMEM, "a workspace of %lld bytes; at most 2^%d are possible",
                       (long long)bytes, SG_BLOCK_CLASSES - 1);
    if (bytes > 0 && work->block[kind][cls] == NULL)
        SG_TRY(get(work, arena[kind], (size_t)1 << cls, &work->block[kind][cls]));
    *block_out = bytes > 0 ? work->block[kind][cls] : NULL;
    return SHINGLE_OK;
}

/* Nothing runs, and whoever begins a run next is told so through the backend's own lock, so relaxed
 * stores do. */
static void clear(sg_words *words, int ranks, uint64_t done)
{
    for (int by = 0; by < ranks; by++) {
        atomic_store_explicit(&words->done[by], done, memory_order_relaxed);
        atomic_store_explicit(&words->abort[by], 0, memory_order_relaxed);
        for (int i = 0; i < 2; i++)
            atomic_store_explicit(&words->hello[2 * by + i].epoch, 0, memory_order_relaxed);
    }
    for (int page = 0; page < SG_FLAG_PAGES; page++) {
        const int64_t count = words->flag[page] != NULL ? ranks * page_size(page) : 0;
        for (int64_t i = 0; i < count; i++)
            atomic_store_explicit(&words->flag[page][i], 0, memory_order_relaxed);
    }
}

void sg_work_recover(int ranks, sg_work *const *work)
{
    uint64_t most = 0;
    for (int r = 0; r < ranks; r++)
        if (work[r]->epoch > most) most = work[r]->epoch;
    for (int r = 0; r < ranks; r++) {
        clear(&work[r]->words, ranks, most);
        work[r]->epoch = most + 1;
        work[r]->last[0] = work[r]->last[1] = 0;
        work[r]->prev_half = 1;
    }
}
