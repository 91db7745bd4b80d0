/* sched_push.c -- pushes: copies that a launch carries, and what a schedule with them must keep. */
#include "core/sched_rules.h"

bool sg_step_is_push(const sg_step *step)
{
    return step->kind == SG_COPY && step->u.copy.carrier == SG_BY_LAUNCH;
}

/* Beside tagged data some stay: those that take such data, behind their flags, and own rows. */
static const char *one_push_fault(const sg_sched *s, const sg_step *step, bool tagged)
{
    const int buf = step->u.copy.src.buf;
    const bool takes = s->buf[buf].tagged;
    if ((step->waits > 0 && !takes) || step->after[0] >= 0 || step->after[1] >= 0)
        return "a copy that a launch carries waits";
    if (buf != SG_A && buf != SG_B && !takes) return "a copy that a launch carries is of no input";
    for (int32_t i = step->to0; i < step->to0 + step->tos; i++) {
        const bool stays = s->to[i].rank == s->rank;
        if (stays && !(tagged && step->tos == 1 && s->buf[s->to[i].buf].arena == SG_LOCAL))
            return "a copy that a launch carries stays on its rank";
        if (takes && !stays) return "tagged data go on to another rank";
    }
    return NULL;
}

/* Steps of other kinds beside pushes: they are not after one, and not in its lane. */
static const char *other_fault(const sg_sched *s, const sg_step *step, uint32_t push_lanes)
{
    if (push_lanes & 1u << step->lane) return "a step in a lane of copies that a launch carries";
    for (int i = 0; i < 2; i++)
        if (step->after[i] >= 0 && step->after[i] < s->steps &&
            sg_step_is_push(&s->step[step->after[i]]))
            return "is after a copy that a launch carries";
    return NULL;
}

const char *sg_sched_push_fault(const sg_sched *s, int32_t *step_out)
{
    uint32_t push_lanes = 0;
    int32_t first = -1; /* of lane 0 */
    int32_t push = -1;
    int launches = 0;
    bool tagged = false;
    for (int i = 0; i < s->bufs; i++) tagged |= s->buf[i].tagged;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (sg_step_is_push(step)) {
            push_lanes |= 1u << step->lane;
            push = i;
        }
        if (step->lane != 0) continue;
        if (first < 0) first = i;
        launches += step->kind == SG_LAUNCH;
    }
    if (push < 0) return NULL;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        *step_out = i;
        const char *const fault = sg_step_is_push(step) ? one_push_fault(s, step, tagged)
                                                        : other_fault(s, step, push_lanes);
        if (fault != NULL) return fault;
    }
    *step_out = push;
    const sg_step *const carrier = first >= 0 ? &s->step[first] : NULL;
    const bool carries = carrier != NULL && carrier->kind == SG_LAUNCH && launches == 1 &&
                         !carrier->u.launch.vendor && carrier->after[0] < 0 &&
                         carrier->after[1] < 0;
    return carries ? NULL : "no launch opens lane 0, alone there, to carry the copy";
}
