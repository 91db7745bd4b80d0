/* world.h -- the sealed schedules of all ranks of a triple, and how a test picks
 * something in them to break. */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/strategy.h"

enum { WORLD_RANKS = 8 };

typedef struct world {
    sg_problem problem;
    const sg_strategy *strategy;
    sg_knobs knobs;
    sg_sched sched[WORLD_RANKS];
    sg_random *random;
    int ranks, sms;
    bool broken; /* SCHED is not what the strategy has built */
} world;

/* ---- Choosing what to break ------------------------------------------------------------------ */

/* One element of a range that belongs to a step or patch. */
typedef struct pick {
    sg_sched *s;
    sg_step *step;
    sg_patch *patch; /* NULL for steps that have none */
    int32_t *first;
    uint16_t *count;
    int32_t index; /* in the schedule's list */
} pick;

typedef bool (*fits_fn)(const world *w, const pick *p);
typedef enum list { WAITS, ADDS, TOS, RAISES, STEPS, PATCHES } list;

static void consider(world *w, const pick *p, fits_fn fits, int64_t *seen, pick *chosen)
{
    if (fits != NULL && !fits(w, p)) return;
    if (sg_random_below(w->random, ++*seen) == 0) *chosen = *p;
}

static void consider_range(world *w, pick p, list which, fits_fn fits, int64_t *seen, pick *chosen)
{
    sg_patch *const a = p.patch;
    sg_step *const t = p.step;
    switch (which) {
    case WAITS: p.first = a ? &a->wait0 : &t->wait0, p.count = a ? &a->waits : &t->waits; break;
    case TOS: p.first = a ? &a->to0 : &t->to0, p.count = a ? &a->tos : &t->tos; break;
    case RAISES:
        p.first = a ? &a->raise0 : &t->raise0, p.count = a ? &a->raises : &t->raises;
        break;
    case ADDS:
        if (a == NULL && t->kind != SG_REDUCE) return;
        p.first = a ? &a->add0 : &t->u.reduce.add0, p.count = a ? &a->adds : &t->u.reduce.adds;
        break;
    default: break;
    }
    if (which == STEPS || which == PATCHES) {
        if ((which == PATCHES) == (a != NULL)) consider(w, &p, fits, seen, chosen);
        return;
    }
    for (int32_t i = 0; i < *p.count; i++) {
        p.index = *p.first + i;
        consider(w, &p, fits, seen, chosen);
    }
}

/* Chooses one of all ranks' elements of a list that FITS, each as likely. */
static bool choose(world *w, list which, fits_fn fits, pick *chosen)
{
    int64_t seen = 0;
    *chosen = (pick){0};
    for (int r = 0; r < w->ranks; r++) {
        sg_sched *const s = &w->sched[r];
        for (int32_t i = 0; i < s->steps; i++) {
            sg_step *const t = &s->step[i];
            pick p = {.s = s, .step = t, .index = i};
            if (t->kind != SG_LAUNCH || which == STEPS) {
                consider_range(w, p, which, fits, &seen, chosen);
                continue;
            }
            for (int32_t j = 0; j < t->u.launch.patches; j++) {
                p.index = t->u.launch.patch0 + j;
                p.patch = &s->patch[p.index];
                consider_range(w, p, which, fits, &seen, chosen);
            }
        }
    }
    return seen > 0;
}

static void recount(sg_sched *s, sg_step *t)
{
    t->u.launch.visits = 0;
    for (int32_t i = t->u.launch.patch0; i < t->u.launch.patch0 + t->u.launch.patches; i++)
        t->u.launch.visits += sg_sched_patch_visits(s, &t->u.launch, i);
}

static int other_rank(world *w, int rank)
{
    return (rank + 1 + (int)sg_random_below(w->random, w->ranks - 1)) % w->ranks;
}

/* Takes an element out of its range. */
#define TAKE_OUT(p, list)                                                                          \
    do {                                                                                           \
        for (int32_t i = (p).index; i + 1 < *(p).first + *(p).count; i++)                          \
            (p).s->list[i] = (p).s->list[i + 1];                                                   \
        --*(p).count;                                                                              \
    } while (0)

/* Copies a range to the end of its list, with one element twice. */
#define DOUBLE(p, list, lists, room)                                                               \
    do {                                                                                           \
        assert_true(sg_grow(&(p).s->list, &(p).s->room, (p).s->lists + *(p).count + 1,             \
                            sizeof *(p).s->list));                                                 \
        const int32_t begin = (p).s->lists;                                                        \
        for (int32_t i = 0; i < *(p).count; i++) {                                                 \
            (p).s->list[(p).s->lists++] = (p).s->list[*(p).first + i];                             \
            if (*(p).first + i == (p).index) (p).s->list[(p).s->lists++] = (p).s->list[(p).index]; \
        }                                                                                          \
        *(p).first = begin;                                                                        \
        ++*(p).count;                                                                              \
    } while (0)

/* A rank whose schedule takes part in the run protocol. */
static sg_sched *partner(world *w)
{
    sg_sched *const s = &w->sched[sg_random_below(w->random, w->ranks)];
    return s->peers ? s : NULL;
}

/* A buffer of the workspace that is not empty; NULL if the rank chosen has none there. */
static sg_buf *workspace(world *w, sg_sched **s_out)
{
    sg_sched *const s = *s_out = &w->sched[sg_random_below(w->random, w->ranks)];
    if (s->bufs == SG_USER_BUFS) return NULL;
    sg_buf *const buf = &s->buf[SG_USER_BUFS + sg_random_below(w->random, s->bufs - SG_USER_BUFS)];
    return buf->rows > 0 && buf->cols > 0 ? buf : NULL;
}

#endif
