/* sched_return.c -- the tensor of the user's that return_a adds to a schedule: see sched.h.
 *
 * What a rank has multiplied of A is what it returns, so the copies follow from the patches:
 * strategies know nothing of it.  They stand on lane 0 behind all products, where everything has
 * arrived, and cost a pass over the gathered rows; peers that stored into the caller's tensor would
 * save it, and need its address in their hello and rows in the product's order. */
#include "core/sched_rules.h"

/* Patches that read the same rows for other columns return them once; and some have arrived
 * there. */
static bool returns(const sg_patch *patch)
{
    return patch->k0 < patch->k1 && patch->col0 == 0 && patch->a.buf != SG_RETURNED;
}

static sg_area target(const sg_sched *s, const sg_patch *p)
{
    return sg_area_of(s->rank, SG_RETURNED, p->row0, p->rows, p->k0, p->k1 - p->k0);
}

/* Do the rows of NEXT follow those of SRC and TO, in both? */
static bool follows(const sg_area *src, const sg_area *to, const sg_area *next,
                    const sg_area *next_to)
{
    return next->buf == src->buf && next->row0 == src->row0 + src->rows &&
           next->col0 == src->col0 && next->cols == src->cols &&
           next_to->row0 == to->row0 + to->rows && next_to->col0 == to->col0;
}

/* A copy on lane 0, behind the last products of the other lanes. */
static void emit(sg_sched *s, const int32_t *last, sg_area src, sg_area to)
{
    sg_sched_copy(s, 0, SG_BY_SMS, src);
    for (int lane = 1; lane < SG_MAX_LANES; lane++) sg_sched_after(s, last[lane]);
    sg_sched_to(s, to);
}

void sg_sched_return(sg_sched *s)
{
    int32_t last[SG_MAX_LANES];
    sg_area src = {0};
    sg_area to = {0};
    const int32_t steps = s->steps;
    if (!s->problem->return_a) return;
    for (int32_t i = 0; i < steps; i++)
        if (s->step[i].kind == SG_COPY && s->step[i].tos > 0 &&
            s->to[s->step[i].to0].buf == SG_RETURNED)
            return; /* it was sealed before */
    for (int lane = 0; lane < SG_MAX_LANES; lane++) last[lane] = -1;
    for (int32_t i = 0; i < steps; i++)
        if (s->step[i].kind == SG_LAUNCH) last[s->step[i].lane] = i;
    for (int32_t i = 0; i < steps; i++) {
        if (s->step[i].kind != SG_LAUNCH) continue;
        const sg_launch l = s->step[i].u.launch; /* a copy: steps move when some are appended */
        for (int32_t j = l.patch0; j < l.patch0 + l.patches; j++) {
            const sg_area a = s->patch[j].a;
            if (!returns(&s->patch[j])) continue;
            const sg_area there = target(s, &s->patch[j]);
            if (src.rows > 0 && follows(&src, &to, &a, &there)) {
                src.rows += a.rows;
                to.rows += a.rows;
                continue;
            }
            if (src.rows > 0) emit(s, last, src, to);
            src = a;
            to = there;
        }
    }
    if (src.rows > 0) emit(s, last, src, to);
}
