/* sched_tagged.c -- data that carry their own flags: see sched.h. */
#include "core/sched.h"

static bool is_tagged(const sg_sched *s, const sg_area *a)
{
    return s->buf[a->buf].tagged;
}

bool sg_sched_is_tagged(const sg_sched *s, const sg_launch *l)
{
    const sg_patch *const p = &s->patch[l->patch0];
    return l->patches > 0 && !l->norm && p->tos > 0 && is_tagged(s, &s->to[p->to0]);
}

/* All rows of a product to places at every rank, with a flag a tile for each. */
static const char *product_fault(const sg_sched *s, const sg_patch *p)
{
    if (p->k0 >= p->k1 || p->adds > 0 || p->waits > 0 || p->final)
        return "tagged data that are no bare product";
    if (p->tos != s->problem->ranks || p->raises != p->tos)
        return "tagged data that do not go to all ranks, each with a flag";
    const sg_area *const first = &s->to[p->to0];
    for (int32_t i = 0; i < p->tos; i++) {
        const sg_area *const to = &s->to[p->to0 + i];
        const sg_raise *const raise = &s->raise[p->raise0 + i];
        if (!to->tiled || to->buf != first->buf || to->row0 != first->row0)
            return "tagged data outside the same places of all ranks";
        if (raise->at != to->rank || raise->per != SG_PER_TILE ||
            raise->flag0 != s->raise[p->raise0].flag0)
            return "tagged data without a flag for each tile";
    }
    return NULL;
}

/* The same tiles of all ranks, in rank order, each behind its flag. */
static const char *sum_fault(const sg_sched *s, const sg_patch *product, const sg_patch *p)
{
    const sg_area *const sent = &s->to[product->to0];
    if (p->k0 < p->k1 || p->waits > 0 || p->raises > 0 || p->tos != 1 ||
        is_tagged(s, &s->to[p->to0]) || s->to[p->to0].tiled)
        return "tagged data that meet more than their sum";
    if (p->row0 != product->row0 || p->rows != product->rows || p->col0 != product->col0 ||
        p->cols != product->cols || p->raster != product->raster || p->width != product->width ||
        p->tiles > 0 || product->tiles > 0)
        return "tagged data that are added in another order than stored";
    if (p->adds != s->problem->ranks) return "a sum without the tagged data of all ranks";
    for (int32_t i = 0; i < p->adds; i++) {
        const sg_addend *const add = &s->add[p->add0 + i];
        if (!add->area.tiled || add->area.buf != sent->buf || add->area.row0 != i * sent->rows ||
            add->area.rows != sent->rows)
            return "a sum of tagged data that are not in rank order";
        if (!add->waits || add->wait.by != i || add->wait.per != SG_PER_TILE ||
            add->wait.flag0 != s->raise[product->raise0].flag0)
            return "a sum of tagged data without a flag for each tile";
    }
    return NULL;
}

static const char *launch_fault(const sg_sched *s, const sg_launch *l)
{
    const sg_patch *const product = &s->patch[l->patch0];
    const sg_area *const sent = &s->to[product->to0];
    const sg_buf *const buf = &s->buf[sent->buf];
    if (buf->arena != SG_SYM || buf->wide || buf->engine)
        return "tagged data in a buffer of another kind";
    if (l->patches != 2 || l->vendor) return "tagged data in other than a product and its sum";
    if (s->waits > 0 || s->raises != product->raises)
        return "tagged data beside other flags, which tell of nothing else";
    const char *const fault = product_fault(s, product);
    if (fault != NULL) return fault;
    if (sent->row0 != s->rank * sent->rows) return "tagged data at another rank's places";
    return sum_fault(s, product, product + 1);
}

/* Areas of tagged buffers in the lists; how many of them belong to launch L; and those outside launches. */
static int32_t count_areas(const sg_sched *s)
{
    int32_t count = 0;
    for (int32_t i = 0; i < s->tos; i++) count += is_tagged(s, &s->to[i]);
    for (int32_t i = 0; i < s->adds; i++) count += is_tagged(s, &s->add[i].area);
    for (int32_t i = 0; i < s->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        if (p->k0 < p->k1) count += is_tagged(s, &p->a) + is_tagged(s, &p->b);
    }
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        count += step->kind == SG_COPY && is_tagged(s, &step->u.copy.src);
        count += step->kind == SG_COLL && is_tagged(s, &step->u.coll.self);
    }
    return count;
}

const char *sg_sched_tagged_fault(const sg_sched *s, int32_t *step_out)
{
    int32_t others = count_areas(s);
    int launches = 0;
    if (others == 0) return NULL;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind != SG_GEMM || !sg_sched_is_tagged(s, &step->u.launch)) continue;
        *step_out = i;
        launches++;
        others -= 2 * s->problem->ranks;
        const char *const fault = launch_fault(s, &step->u.launch);
        if (fault != NULL) return fault;
    }
    *step_out = launches > 0 ? *step_out : 0;
    return launches != 1 || others != 0 ? "tagged data outside one launch" : NULL;
}
