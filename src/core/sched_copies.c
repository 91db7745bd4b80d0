/* sched_copies.c -- copies that can be carried out together: see sched.h.
 *
 * Rows that are dealt to ranks in turns are put in order run by run, and each run of rows is a copy
 * of its own: hundreds of them, any of which is over before a kernel has started. */
#include "core/sched.h"

static bool waits(const sg_step *step)
{
    return step->waits > 0 || step->after[0] >= 0 || step->after[1] >= 0;
}

/* Of one buffer of this rank into another one of its own, behind which nobody is told. */
static bool is_within(const sg_sched *s, const sg_step *step)
{
    if (step->kind != SG_COPY || step->u.copy.carrier != SG_BY_SMS) return false;
    if (step->tos != 1 || step->raises > 0) return false;
    const sg_area *const to = &s->to[step->to0];
    return to->rank == s->rank && to->buf != step->u.copy.src.buf;
}

/* Can the copy STEP be carried out together with the one right in front of it? */
static bool joins(const sg_sched *s, int32_t step)
{
    const sg_step *const next = &s->step[step];
    if (step == 0 || !is_within(s, next) || waits(next)) return false;
    const sg_step *const last = next - 1;
    return is_within(s, last) && last->lane == next->lane && next->to0 == last->to0 + 1 &&
           last->u.copy.src.buf == next->u.copy.src.buf &&
           s->to[last->to0].buf == s->to[next->to0].buf;
}

int32_t sg_sched_copies(const sg_sched *s, int32_t step)
{
    int32_t count = 1;
    if (joins(s, step)) return 0;
    if (s->step[step].kind != SG_COPY) return 1;
    while (step + count < s->steps && joins(s, step + count)) count++;
    return count;
}
