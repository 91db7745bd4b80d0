/* sched_access.c -- everything that a step, or a visit of a launch, does, in order: see sched.h. */
#include "core/sched.h"

/* The part of AREA that visit V touches: its place, or the same rows and columns as in patch P. */
static sg_area visit_area(sg_area area, const sg_patch *p, const sg_visit *v, int32_t tile_m)
{
    area.row0 += area.tiled ? v->index * tile_m : v->row0 - p->row0;
    area.col0 += area.tiled ? 0 : v->col0 - p->col0;
    area.tiled = 0;
    area.rows = v->rows;
    area.cols = v->cols;
    return area;
}

static void say_wait(const sg_wait *w, const sg_visit *v, int32_t k0, int32_t slab, int32_t addend,
                     sg_access_fn visitor, void *context)
{
    const struct sg_flags flags =
        v ? sg_walk_wait(w, v->row0, v->rows, k0, v->tile) : sg_walk_wait(w, 0, 0, 0, 0);
    if (flags.count == 0) return;
    visitor(context, &(sg_access){.what = SG_WAITS,
                                  .role = addend >= 0 ? SG_ROLE_ADDEND : SG_ROLE_NONE,
                                  .peer = w->by,
                                  .flags = flags,
                                  .counter = -1,
                                  .slab = slab,
                                  .addend = addend});
}

static void say_area(sg_access_what what, sg_role role, sg_area area, int32_t addend,
                     sg_access_fn visitor, void *context)
{
    visitor(
        context,
        &(sg_access){.what = what, .role = role, .area = area, .counter = -1, .addend = addend});
}

/* The store of a visit; in a place, with the zeros around it. */
static void say_store(const sg_launch *l, const sg_area *to, const sg_patch *p, const sg_visit *v,
                      sg_access_fn visitor, void *context)
{
    const sg_area area = visit_area(*to, p, v, l->tile_m);
    say_area(SG_WRITES, SG_ROLE_DST, area, -1, visitor, context);
    if (!to->tiled) return;
    sg_area right = area;
    right.col0 += v->cols;
    right.cols = l->tile_n - v->cols;
    if (right.cols > 0) say_area(SG_WRITES, SG_ROLE_ZERO, right, -1, visitor, context);
    sg_area below = area;
    below.row0 += v->rows;
    below.rows = l->tile_m - v->rows;
    below.cols = l->tile_n;
    if (below.rows > 0) say_area(SG_WRITES, SG_ROLE_ZERO, below, -1, visitor, context);
}

/* A raise per tile names the flag of the visit's tile. */
static void say_raise(const sg_raise *r, int32_t tile, sg_access_fn visitor, void *context)
{
    const int32_t i = r->per == SG_PER_TILE ? tile : 0;
    visitor(context, &(sg_access){.what = SG_RAISES,
                                  .peer = r->at,
                                  .flags = {r->flag0 + i, 1, 1},
                                  .counter = r->counter,
                                  .addend = -1});
}

static void access_slabs(const sg_sched *s, const sg_patch *first, const sg_visit *v,
                         sg_access_fn visitor, void *context)
{
    const int32_t slabs = sg_walk_all_slabs(first);
    for (int32_t i = 0; i < slabs; i++) {
        int32_t at = i;
        const sg_patch *const p = sg_walk_slab(first, &at);
        const int32_t k0 = p->k0 + at * p->slab;
        const int32_t k1 = sg_walk_slabs(p) == 1 ? p->k1 : sg_walk_min(p->k1, k0 + p->slab);
        for (int32_t w = 0; w < p->waits; w++) {
            const sg_wait *const wait = &s->wait[p->wait0 + w];
            /* A wait without chunks of k concerns all slabs, so it stands at the first. */
            if (at == 0 || wait->chunk_k > 0) say_wait(wait, v, k0, i, -1, visitor, context);
        }
        if (p->k0 == p->k1) continue;
        sg_access access = {.what = SG_READS,
                            .role = SG_ROLE_A,
                            .area = p->a,
                            .counter = -1,
                            .slab = i,
                            .addend = -1,
                            .k0 = k0,
                            .k1 = k1};
        access.area.row0 += v->row0 - p->row0;
        access.area.rows = v->rows;
        access.area.col0 += k0 - p->k0;
        access.area.cols = k1 - k0;
        visitor(context, &access);
        access.role = SG_ROLE_B;
        access.area = p->b;
        access.area.row0 += v->col0 - p->col0;
        access.area.rows = v->cols;
        access.area.col0 += k0 - p->k0;
        access.area.cols = k1 - k0;
        visitor(context, &access);
    }
}

/* The rows of a visit that norms, place by place if they stand in places. */
static void access_rows(const sg_sched *s, const sg_launch *launch, const sg_visit *v,
                        sg_access_fn visitor, void *context)
{
    const sg_patch *const p = &s->patch[v->patch];
    const sg_area from = s->add[p->add0].area;
    const int32_t width = from.tiled && from.cols > 0 ? from.cols : v->cols;
    const int32_t bands = sg_walk_bands(p, launch->tile_m);
    const int32_t cols = sg_walk_cols(p, width);
    for (int32_t i = 0; i < cols; i++) {
        sg_access access = {.what = SG_READS,
                            .role = SG_ROLE_ADDEND,
                            .area = from,
                            .counter = -1,
                            .col = i * width};
        access.area.tiled = 0;
        access.area.row0 += from.tiled ? sg_walk_index(p, bands, cols, v->index, i) * launch->tile_m
                                       : v->row0 - p->row0;
        access.area.rows = v->rows;
        access.area.cols = sg_walk_min(width, v->cols - i * width);
        visitor(context, &access);
    }
}

/* A visit that norms: the residual has the rows of C. */
static void access_norm(const sg_sched *s, const sg_launch *launch, const sg_visit *v,
                        sg_access_fn visitor, void *context)
{
    const sg_patch *const p = &s->patch[v->patch];
    const sg_area c = visit_area(s->to[p->to0], p, v, launch->tile_m);
    sg_area residual = c;
    residual.buf = SG_RESIDUAL;
    access_rows(s, launch, v, visitor, context);
    if (p->final && s->problem->bias)
        say_area(SG_READS, SG_ROLE_BIAS, sg_area_of(s->rank, SG_BIAS, 0, 1, v->col0, v->cols), -1,
                 visitor, context);
    say_area(SG_READS, SG_ROLE_RESIDUAL, residual, -1, visitor, context);
    say_area(SG_READS, SG_ROLE_GAIN, sg_area_of(s->rank, SG_GAIN, 0, 1, v->col0, v->cols), -1,
             visitor, context);
    say_area(SG_WRITES, SG_ROLE_DST, residual, -1, visitor, context);
    say_area(SG_WRITES, SG_ROLE_DST, c, -1, visitor, context);
}

static void access_visit(const sg_sched *s, const sg_launch *launch, const sg_visit *v,
                         sg_access_fn visitor, void *context)
{
    const sg_patch *const p = &s->patch[v->patch];
    if (launch->norm) {
        access_norm(s, launch, v, visitor, context);
        return;
    }
    access_slabs(s, p, v, visitor, context);
    for (int32_t i = 0; i < p->adds; i++) {
        const sg_addend *const add = &s->add[p->add0 + i];
        if (add->awaited) say_wait(&add->wait, v, p->k0, 0, i, visitor, context);
        say_area(SG_READS, SG_ROLE_ADDEND, visit_area(add->area, p, v, launch->tile_m), i, visitor,
                 context);
    }
    if (p->final && s->problem->bias)
        say_area(SG_READS, SG_ROLE_BIAS, sg_area_of(s->rank, SG_BIAS, 0, 1, v->col0, v->cols), -1,
                 visitor, context);
    for (int32_t i = 0; i < p->tos; i++)
        say_store(launch, &s->to[p->to0 + i], p, v, visitor, context);
    for (int32_t i = 0; i < p->raises; i++)
        say_raise(&s->raise[p->raise0 + i], v->tile, visitor, context);
}

static void access_reduce(const sg_sched *s, const sg_step *step, sg_access_fn visitor,
                          void *context)
{
    const sg_reduce *const reduce = &step->u.reduce;
    for (int32_t i = 0; i < reduce->adds; i++) {
        const sg_addend *const add = &s->add[reduce->add0 + i];
        if (add->awaited) say_wait(&add->wait, NULL, 0, 0, i, visitor, context);
        say_area(SG_READS, SG_ROLE_ADDEND, add->area, i, visitor, context);
    }
    if (reduce->final && s->problem->bias && step->tos > 0) {
        const sg_area to = s->to[step->to0];
        say_area(SG_READS, SG_ROLE_BIAS, sg_area_of(s->rank, SG_BIAS, 0, 1, to.col0, to.cols), -1,
                 visitor, context);
    }
}

static void access_coll(const sg_sched *s, const sg_step *step, sg_access_fn visitor, void *context)
{
    const sg_coll *const coll = &step->u.coll;
    const bool scatter = coll->kind == SG_REDUCE_SCATTER;
    if (coll->kind == SG_ALL_TO_ALL) {
        const int32_t ranks = step->tos / 2;
        for (int32_t i = 0; i < step->tos; i++)
            say_area(i < ranks ? SG_READS : SG_WRITES, SG_ROLE_PART, s->to[step->to0 + i],
                     i % ranks, visitor, context);
        return;
    }
    if (!scatter) say_area(SG_READS, SG_ROLE_SELF, coll->self, -1, visitor, context);
    for (int32_t i = 0; i < step->tos; i++)
        say_area(scatter ? SG_READS : SG_WRITES, SG_ROLE_PART, s->to[step->to0 + i], i, visitor,
                 context);
    if (scatter || coll->kind == SG_ALL_REDUCE)
        say_area(SG_WRITES, SG_ROLE_SELF, coll->self, -1, visitor, context);
}

void sg_step_access(const sg_sched *s, int32_t index, const sg_visit *visit, sg_access_fn visitor,
                    void *context)
{
    const sg_step *const step = &s->step[index];
    if (step->kind == SG_LAUNCH) {
        access_visit(s, &step->u.launch, visit, visitor, context);
        return;
    }
    for (int32_t i = 0; i < step->waits; i++)
        say_wait(&s->wait[step->wait0 + i], NULL, 0, 0, -1, visitor, context);
    if (step->kind == SG_COLL) {
        access_coll(s, step, visitor, context);
    } else {
        if (step->kind == SG_COPY)
            say_area(SG_READS, SG_ROLE_SRC, step->u.copy.src, -1, visitor, context);
        if (step->kind == SG_REDUCE) access_reduce(s, step, visitor, context);
        for (int32_t i = 0; i < step->tos; i++)
            say_area(SG_WRITES, SG_ROLE_DST, s->to[step->to0 + i], -1, visitor, context);
    }
    for (int32_t i = 0; i < step->raises; i++)
        say_raise(&s->raise[step->raise0 + i], 0, visitor, context);
}
