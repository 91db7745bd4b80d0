/* window.c -- windows: see collect.h.
 *
 * Registering is a call of all ranks, each of which waits for the others: one thread makes it for
 * all in a group, when all have their blocks.  So the first rank that asks for a block of a size
 * gets those of the others made, too.  Where that fails, there are no more windows in this group: a
 * rank with one and a rank without would not understand each other. */
#include <stdlib.h>

#include "backend/nccl/library.h"

int sg_window_enter(const sg_collect *c, int rank)
{
    int before = c->device[rank];
    if (cudaGetDevice(&before) == cudaSuccess && before != c->device[rank])
        (void)cudaSetDevice(c->device[rank]);
    return before;
}

void sg_window_leave(int device)
{
    int now = device;
    if (cudaGetDevice(&now) == cudaSuccess && now != device) (void)cudaSetDevice(device);
}

/* ---- Registering ----------------------------------------------------------------------------- */

static void deregister_all(sg_collect *c, window *w)
{
    (void)c->lib.ncclGroupStart();
    for (int r = 0; r < c->ranks; r++) {
        if (w->seat[r].handle != NULL && c->comm[r] != NULL)
            (void)c->lib.ncclCommWindowDeregister(c->comm[r], w->seat[r].handle);
        w->seat[r].handle = NULL;
    }
    (void)c->lib.ncclGroupEnd();
}

static bool register_all(sg_collect *c, window *w)
{
    ncclResult_t result = c->lib.ncclGroupStart();
    for (int r = 0; r < c->ranks && result == ncclSuccess; r++)
        result = c->lib.ncclCommWindowRegister(c->comm[r], w->seat[r].memory, w->bytes,
                                               &w->seat[r].handle, NCCL_WIN_COLL_SYMMETRIC);
    const ncclResult_t ended = c->lib.ncclGroupEnd();
    if (result == ncclSuccess && ended == ncclSuccess) return true;
    deregister_all(c, w);
    return false;
}

static void give_up(sg_collect *c, const char *why)
{
    if (!c->plain) sg_log(SG_LOG_WARN, "%s: %s; collectives do without windows", c->name, why);
    c->plain = true;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void drop(sg_collect *c, window *w)
{
    deregister_all(c, w);
    for (int r = 0; r < c->ranks; r++) {
        const int before = sg_window_enter(c, r);
        if (w->seat[r].memory != NULL) (void)c->lib.ncclMemFree(w->seat[r].memory);
        sg_window_leave(before);
    }
    free(w);
}

static window *make(sg_collect *c, size_t bytes)
{
    window *const w = calloc(1, sizeof *w + (size_t)c->ranks * sizeof w->seat[0]);
    bool made = w != NULL;
    for (int r = 0; r < c->ranks && made; r++) {
        const int before = sg_window_enter(c, r);
        made = c->lib.ncclMemAlloc(&w->seat[r].memory, bytes) == ncclSuccess;
        sg_window_leave(before);
    }
    if (!made) {
        if (w != NULL) drop(c, w);
        give_up(c, "no memory that could be registered");
        return NULL;
    }
    w->bytes = bytes;
    if (c->comm[0] != NULL && !register_all(c, w)) {
        drop(c, w);
        give_up(c, "memory could not be registered");
        return NULL;
    }
    pthread_mutex_lock(&c->mutex);
    w->next = c->windows;
    c->windows = w;
    pthread_mutex_unlock(&c->mutex);
    return w;
}

bool sg_collect_get(sg_collect *c, int rank, size_t bytes, void **memory_out)
{
    if (c->lib.ncclCommWindowRegister == NULL) give_up(c, "windows came with 2.27");
    window *w = c->windows;
    while (w != NULL && (w->bytes != bytes || w->seat[rank].taken)) w = w->next;
    if (w == NULL && !c->plain) w = make(c, bytes);
    if (w == NULL) return false;
    w->seat[rank].taken = true;
    *memory_out = w->seat[rank].memory;
    return true;
}

bool sg_collect_put(sg_collect *c, int rank, const void *memory)
{
    window **at = &c->windows;
    while (*at != NULL && (*at)->seat[rank].memory != memory) at = &(*at)->next;
    window *const w = *at;
    if (w == NULL) return false;
    w->seat[rank].taken = false;
    for (int r = 0; r < c->ranks; r++)
        if (w->seat[r].taken) return true;
    pthread_mutex_lock(&c->mutex);
    *at = w->next;
    pthread_mutex_unlock(&c->mutex);
    drop(c, w);
    return true;
}

window *sg_window_of(sg_collect *c, int rank, const void *memory, size_t *offset_out)
{
    pthread_mutex_lock(&c->mutex);
    window *w = c->windows;
    for (; w != NULL; w = w->next) {
        *offset_out = (uintptr_t)memory - (uintptr_t)w->seat[rank].memory;
        if (w->seat[rank].handle != NULL && *offset_out < w->bytes) break;
    }
    pthread_mutex_unlock(&c->mutex);
    return w;
}

/* ---- With the group -------------------------------------------------------------------------- */

void sg_window_renew(sg_collect *c)
{
    for (window *w = c->windows; w != NULL; w = w->next)
        if (!register_all(c, w)) give_up(c, "memory could not be registered again");
}

void sg_window_lose(sg_collect *c)
{
    pthread_mutex_lock(&c->mutex);
    for (window *w = c->windows; w != NULL; w = w->next)
        for (int r = 0; r < c->ranks; r++) w->seat[r].handle = NULL;
    pthread_mutex_unlock(&c->mutex);
}

void sg_window_close(sg_collect *c)
{
    while (c->windows != NULL) {
        window *const w = c->windows;
        c->windows = w->next;
        drop(c, w);
    }
}
