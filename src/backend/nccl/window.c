/* window.c -- windows: see collect.h.
 *
 * Registering is a call of all ranks, each of which waits for the others: one thread makes it for
 * all in a group, when all have their blocks.  So the first rank that asks for a block of a size
 * gets those of the others made, too; while it does, no rank enqueues a collective.  Where that
 * fails, there are no more windows in this group: a rank with one and a rank without would not
 * understand each other. */
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

/* A window of c->bytes: c->window, or NULL. */
static void make(sg_collect *c)
{
    window *const w = calloc(1, sizeof *w + (size_t)c->ranks * sizeof w->seat[0]);
    bool made = w != NULL;
    c->window = NULL;
    c->result = ncclSuccess;
    for (int r = 0; r < c->ranks && made; r++) {
        const int before = sg_window_enter(c, r);
        made = c->lib.ncclMemAlloc(&w->seat[r].memory, c->bytes) == ncclSuccess;
        sg_window_leave(before);
    }
    if (!made) {
        if (w != NULL) drop(c, w);
        give_up(c, "no memory that could be registered");
        return;
    }
    w->bytes = c->bytes;
    if (c->comm[0] != NULL && !register_all(c, w)) {
        drop(c, w);
        give_up(c, "memory could not be registered");
        return;
    }
    pthread_mutex_lock(&c->mutex);
    w->next = c->windows;
    c->windows = w;
    pthread_mutex_unlock(&c->mutex);
    c->window = w;
}

shingle_status sg_collect_get(sg_collect *c, int rank, size_t bytes, void **memory_out)
{
    *memory_out = NULL;
    if (sg_collect_hangs(c))
        return sg_fail(SHINGLE_ETIMEOUT, "%s has not come back from a call, and hangs", c->name);
    if (c->lib.ncclCommWindowRegister == NULL) give_up(c, "windows came with 2.27");
    window *w = c->windows;
    while (w != NULL && (w->bytes != bytes || w->seat[rank].taken)) w = w->next;
    if (w == NULL && !c->plain) {
        c->bytes = bytes;
        SG_TRY(sg_wait_alone(c, make, "ncclCommWindowRegister"));
        w = c->window;
    }
    if (w == NULL) return SHINGLE_OK;
    w->seat[rank].taken = true;
    *memory_out = w->seat[rank].memory;
    return SHINGLE_OK;
}

/* c->window, which is in the list no more; NULL: it is gone. */
static void drop_window(sg_collect *c)
{
    window *const gone = c->window;
    c->window = NULL;
    drop(c, gone);
}

/* Gives the seat of RANK that has MEMORY up; *W_OUT: the window, if that was the last one, which is
 * taken from the list, unless it STAYS.  What hangs is left as it is. */
static bool leave_seat(sg_collect *c, int rank, const void *memory, bool stays, window **w_out)
{
    window **at = &c->windows;
    while (*at != NULL && (*at)->seat[rank].memory != memory) at = &(*at)->next;
    window *const w = *at;
    if (w == NULL || sg_collect_hangs(c)) return w != NULL;
    w->seat[rank].taken = false;
    for (int r = 0; r < c->ranks; r++) stays |= w->seat[r].taken;
    if (stays) return true;
    *at = w->next;
    *w_out = w;
    return true;
}

bool sg_collect_put(sg_collect *c, int rank, const void *memory, bool stays)
{
    window *last = NULL;
    pthread_mutex_lock(&c->mutex);
    const bool found = leave_seat(c, rank, memory, stays, &last);
    pthread_mutex_unlock(&c->mutex);
    if (last == NULL) return found;
    c->window = last;
    c->result = ncclSuccess;
    (void)sg_wait_alone(c, drop_window, "ncclCommWindowDeregister");
    if (sg_collect_hangs(c) || c->window == NULL) return true;
    pthread_mutex_lock(&c->mutex); /* for the next one who asks */
    last->next = c->windows;
    c->windows = last;
    pthread_mutex_unlock(&c->mutex);
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
    pthread_mutex_lock(&c->mutex);
    window *w = c->windows;
    c->windows = NULL;
    pthread_mutex_unlock(&c->mutex);
    while (w != NULL) {
        window *const next = w->next;
        drop(c, w);
        w = next;
    }
}
