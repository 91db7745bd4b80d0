/* mutants_push.h -- bugs of copies that a launch carries. */
#ifndef TESTS_MUTANTS_PUSH_H
#define TESTS_MUTANTS_PUSH_H

#include "world.h"

static bool is_push(const world *w, const pick *p)
{
    (void)w;
    return p->step->kind == SG_COPY && p->step->u.copy.carrier == SG_BY_LAUNCH;
}

static bool push_by_engine(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_push, &p)) return false;
    p.step->u.copy.carrier = SG_BY_ENGINE;
    return true;
}

static bool push_after_another(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_push, &p) || p.index == 0) return false;
    p.step->after[0] = p.index - 1;
    return true;
}

static bool push_waits(world *w)
{
    pick p;
    pick other;
    if (!choose(w, STEPS, is_push, &p) || !choose(w, WAITS, NULL, &other)) return false;
    if (p.s != other.s) return false;
    p.step->wait0 = other.index;
    p.step->waits = 1;
    return true;
}

static bool push_of_what_arrives(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_push, &p)) return false;
    sg_area *const src = &p.step->u.copy.src;
    src->buf = p.s->to[p.step->to0].buf;
    return true;
}

static bool is_launch(const world *w, const pick *p)
{
    (void)w;
    return p->step->kind == SG_LAUNCH && p->step->lane == 0;
}

static bool has_push(const sg_sched *s)
{
    for (int32_t i = 0; i < s->steps; i++)
        if (sg_step_is_push(&s->step[i])) return true;
    return false;
}

static bool push_without_its_launch(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_launch, &p) || !has_push(p.s)) return false;
    p.step->lane = 2;
    return true;
}

static bool push_carried_by_the_vendor(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_launch, &p) || !has_push(p.s)) return false;
    p.step->u.launch.vendor = 1;
    return true;
}

static bool push_in_the_launch_lane(world *w)
{
    pick p;
    if (!choose(w, STEPS, is_push, &p)) return false;
    p.step->lane = 0;
    return true;
}

#endif
