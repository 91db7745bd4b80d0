/* wait.c -- calls of the library that wait for something, made with a limit.
 *
 * NCCL connects, registers and takes down in calls that have none, be its communicators blocking or
 * not: ncclCommAbort waits for threads of its own.  So a thread makes the call, and is left behind
 * when the time is up.  What it works on stays its own until it comes back: then the group can be
 * recovered. */
#include <stdatomic.h>
#include <time.h>

#include "backend/nccl/library.h"

static void *make_call(void *of)
{
    sg_collect *const c = of;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* beside captures of others */
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    c->call(c);
    /* Release.  Partner: sg_collect_hangs().  Nothing here touches C any more. */
    atomic_store_explicit(&c->away, false, memory_order_release);
    return NULL;
}

bool sg_collect_hangs(const sg_collect *c)
{
    return c != NULL && atomic_load_explicit(&c->away, memory_order_acquire);
}

static bool await(const sg_collect *c, double until_us)
{
    static const struct timespec pause = {0, 20000};
    while (sg_collect_hangs(c)) {
        if (sg_now_us() > until_us) return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

bool sg_wait_within(sg_collect *c, void (*call)(sg_collect *c), double limit_us)
{
    pthread_t thread;
    const double until_us = sg_now_us() + limit_us;
    if (!await(c, until_us)) return false;
    c->call = call;
    atomic_store_explicit(&c->away, true, memory_order_relaxed);
    if (sg_thread_start(&thread, make_call, c) == 0)
        pthread_detach(thread);
    else
        make_call(c); /* without a limit, but made */
    return await(c, until_us);
}

shingle_status sg_wait_alone(sg_collect *c, void (*call)(sg_collect *c), const char *what)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const double ns = (double)until.tv_nsec + c->limit_us * 1e3;
    until.tv_sec += (time_t)(ns / 1e9);
    until.tv_nsec = (long)(ns - 1e9 * (double)(time_t)(ns / 1e9));
    if (pthread_rwlock_timedwrlock(&c->calls, &until) != 0)
        return sg_fail(SHINGLE_ETIMEOUT,
                       "%s: a collective's call has not come back for %g s, and %s "
                       "waits for it",
                       c->name, c->limit_us / 1e6, what);
    const shingle_status status = sg_wait_for(c, call, what);
    pthread_rwlock_unlock(&c->calls);
    return status;
}

shingle_status sg_wait_for(sg_collect *c, void (*call)(sg_collect *c), const char *what)
{
    if (sg_wait_within(c, call, c->limit_us)) return sg_collect_check(c, c->result, what);
    return sg_fail(SHINGLE_ETIMEOUT, "%s: %s does not come back within %g s", c->name, what,
                   c->limit_us / 1e6);
}
