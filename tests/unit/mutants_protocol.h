/* mutants_protocol.h -- bugs of the run protocol, of the tables of buffers and counters, and of
 * SMs. */
#ifndef TESTS_MUTANTS_PROTOCOL_H
#define TESTS_MUTANTS_PROTOCOL_H

#include "world.h"

static bool gate_omitted(world *w)
{
    pick p;
    if (!choose(w, STEPS, NULL, &p) || !p.step->gate) return false;
    p.step->gate = 0;
    return true;
}

static bool is_to_leave(const world *w, const pick *p)
{
    (void)w;
    return p->s->to[p->index].leave != 0;
}

static bool leave_omitted(world *w)
{
    pick p;
    if (!choose(w, TOS, is_to_leave, &p)) return false;
    p.s->to[p.index].leave = 0;
    return true;
}

static bool hello_omitted(world *w)
{
    sg_sched *const s = partner(w);
    if (s != NULL) s->hello = 0;
    return s != NULL;
}

static bool done_omitted(world *w)
{
    sg_sched *const s = partner(w);
    if (s != NULL) s->done = 0;
    return s != NULL;
}

static bool wrong_half(world *w)
{
    sg_sched *const s = partner(w);
    if (s == NULL || !s->baked) return false;
    s->baked = 0;
    return true;
}

static bool buffer_too_small(world *w)
{
    sg_sched *s = NULL;
    sg_buf *const buf = workspace(w, &s);
    if (buf == NULL) return false;
    buf->rows--;
    return true;
}

static bool buffer_past_arena(world *w)
{
    sg_sched *s = NULL;
    sg_buf *const buf = workspace(w, &s);
    if (buf == NULL) return false;
    buf->offset += s->arena_bytes[buf->arena];
    return true;
}

static bool buffers_overlap(world *w)
{
    sg_sched *s = NULL;
    sg_buf *const buf = workspace(w, &s);
    if (buf == NULL || buf->offset == 0) return false;
    buf->offset = 0;
    return true;
}

static bool counter_off(world *w)
{
    pick p;
    if (!choose(w, RAISES, NULL, &p) || p.s->raise[p.index].counter < 0) return false;
    p.s->counter[p.s->raise[p.index].counter] += sg_random_below(w->random, 2) ? 1 : -1;
    return true;
}

/* Flags of one raiser have a counter that no raise goes through. */
static bool is_counted(const sg_sched *s, int32_t counter)
{
    bool any = false;
    for (int32_t i = 0; i < s->raises; i++) any |= s->raise[i].counter == counter;
    return any;
}

/* Every count at every rank, as by a sealer that counts wrongly: no rank differs from another. */
static bool counters_off(world *w)
{
    const int32_t by = sg_random_below(w->random, 2) ? 1 : -1;
    bool any = false;
    for (int r = 0; r < w->ranks; r++)
        for (int32_t i = 0; i < w->sched[r].counters; i++) {
            if (!is_counted(&w->sched[r], i)) continue;
            w->sched[r].counter[i] += by;
            any = true;
        }
    return any;
}

static bool counter_skipped(world *w)
{
    pick p;
    if (!choose(w, RAISES, NULL, &p) || p.s->raise[p.index].counter < 0) return false;
    p.s->raise[p.index].counter = -1;
    return true;
}

/* The smallest machine that all fits on. */
static int machine_for(world *w)
{
    sg_checker *const ck = sg_checker_new();
    sg_check_result result;
    int low = 0;
    int high = 1 << 14;
    while (high - low > 1) {
        const int sms = (low + high) / 2;
        if (sg_check(ck, w->sched, w->ranks, sms, &result) == SHINGLE_OK)
            high = sms;
        else
            low = sms;
    }
    sg_checker_free(ck);
    return high;
}

/* A machine that just fits a launch beside a collective; then launches of one block more. */
static bool sms_overdrawn(world *w)
{
    const sg_sched *const s = &w->sched[sg_random_below(w->random, w->ranks)];
    const sg_launch *launch = NULL;
    int colls = 0;
    int sms = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        if (s->step[i].kind == SG_LAUNCH) launch = &s->step[i].u.launch;
        if (s->step[i].kind == SG_COLL) colls++, sms = s->step[i].u.coll.sms;
    }
    if (launch == NULL || launch->blocks == 0 || colls < 2 || sms == 0) return false;
    const int fits = machine_for(w);
    if (fits < launch->blocks + sms) return false;
    w->sms = fits;
    for (int r = 0; r < w->ranks; r++)
        for (int32_t i = 0; i < w->sched[r].steps; i++)
            if (w->sched[r].step[i].kind == SG_LAUNCH) w->sched[r].step[i].u.launch.blocks++;
    return true;
}

#endif
