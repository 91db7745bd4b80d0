/* check_order.c -- is a read ordered after its writer?  Evidence, cheapest first:
 *
 *   - the writer's step has ended before the reader's begins: same lane, or through `after`
 *   - a flag that the writer raises has been awaited by the reader up to the slab or addend that
 *     reads, or by a step that has ended before
 *   - a chain of these: a search backwards from what the reader has awaited
 *
 * Visits of a launch are unordered among each other, and a wait orders what follows
 * it in its own visit alone. */
#include <string.h>

#include "core/check_state.h"

/* For every step of RANK and lane, the last step that has ended before it begins. */
void sg_check_clocks(sg_checker *ck, int rank)
{
    const sg_sched *const s = &ck->sched[rank];
    for (int32_t i = 0; i < s->steps; i++) {
        sg_stage *const stage = sg_check_stage(ck, rank, i);
        /* A launch carries its copies in any order. */
        const int32_t before = sg_step_is_push(&s->step[i]) ? -1 : stage->before;
        const int32_t behind[] = {before, s->step[i].after[0], s->step[i].after[1]};
        memset(stage->ended, 0xff, sizeof stage->ended);
        for (int j = 0; j < 3; j++) {
            if (behind[j] < 0) continue;
            const sg_stage *const other = sg_check_stage(ck, rank, behind[j]);
            for (int l = 0; l < SG_MAX_LANES; l++)
                if (other->ended[l] > stage->ended[l]) stage->ended[l] = other->ended[l];
            if (behind[j] > stage->ended[other->lane]) stage->ended[other->lane] = behind[j];
        }
    }
}

static const int32_t all_ended[SG_MAX_LANES] = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX,
                                                INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX};

static const int32_t *clock_of(const sg_checker *ck, int rank, int32_t event)
{
    return event < 0 ? all_ended : sg_check_stage(ck, rank, ck->event[event].step)->ended;
}

/* Has EVENT, or a step that ended before it, awaited a flag that WRITER raises? */
static bool awaits(const sg_checker *ck, int rank, int32_t event, const int32_t *clock,
                   int32_t writer)
{
    const sg_event *const w = &ck->event[writer];
    for (int32_t i = w->touch0 + w->touches - 1; i >= w->touch0; i--) {
        const sg_touch *const r = &ck->touch[i];
        if (r->what != SG_RAISES) break;
        if (r->rank != rank) continue;
        for (int32_t j = 0; j < r->flags.count; j++) {
            const sg_flag *const f = &ck->flag[sg_check_flag(r, j)];
            if (event >= 0 && f->mark == event + 1) return true;
            for (int32_t l = f->awaiting; l >= 0; l = ck->node[l].next) {
                const int32_t step = ck->node[l].what;
                if (step <= clock[sg_check_stage(ck, rank, step)->lane]) return true;
            }
        }
    }
    return false;
}

/* ---- Search ---------------------------------------------------------------------------------- */

static void find_flags(sg_checker *ck, int32_t touch, int32_t end)
{
    for (; touch < end; touch++) {
        const sg_touch *const r = &ck->touch[touch];
        if (r->what != SG_WAITS) continue;
        for (int32_t j = 0; j < r->flags.count; j++) {
            const int32_t flag = sg_check_flag(r, j);
            if (ck->flag[flag].found == ck->search) continue;
            ck->flag[flag].found = ck->search;
            ck->found[ck->founds++] = flag;
        }
    }
}

/* Follows all steps of RANK that have ended by CLOCK; true if WRITER is among them. */
static bool cover(sg_checker *ck, int rank, const int32_t *clock, int32_t writer)
{
    const sg_event *const w = &ck->event[writer];
    for (int l = 0; l < SG_MAX_LANES; l++) {
        int32_t *const covered = &ck->covered[rank * SG_MAX_LANES + l];
        int32_t step = clock[l];
        if (step == INT32_MAX) {
            step = ck->sched[rank].steps - 1;
            while (step >= 0 && sg_check_stage(ck, rank, step)->lane != l) step--;
        }
        const int32_t upto = step;
        for (; step > *covered; step = sg_check_stage(ck, rank, step)->before) {
            const sg_stage *const stage = sg_check_stage(ck, rank, step);
            if (w->rank == rank && w->step == step) return true;
            for (int32_t e = stage->event0; e < stage->event0 + stage->events; e++)
                find_flags(ck, ck->event[e].touch0, ck->event[e].touch0 + ck->event[e].touches);
        }
        if (upto > *covered) *covered = upto;
    }
    return false;
}

static bool search(sg_checker *ck, int rank, int32_t event, int32_t touch, int32_t writer)
{
    const size_t lanes = (size_t)ck->ranks * SG_MAX_LANES;
    memset(ck->covered, 0xff, lanes * sizeof *ck->covered);
    ck->search++;
    ck->founds = 0;
    if (event >= 0) find_flags(ck, ck->event[event].touch0, touch);
    if (cover(ck, rank, clock_of(ck, rank, event), writer)) return true;
    while (ck->founds > 0) {
        const sg_flag *const f = &ck->flag[ck->found[--ck->founds]];
        for (int32_t l = f->raiser; l >= 0; l = ck->node[l].next) {
            const int32_t raiser = ck->node[l].what;
            const sg_event *const e = &ck->event[raiser];
            if (raiser == writer || cover(ck, e->rank, clock_of(ck, e->rank, raiser), writer))
                return true;
            find_flags(ck, e->touch0, e->touch0 + e->touches);
        }
    }
    return false;
}

bool sg_check_ordered(sg_checker *ck, int rank, int32_t event, int32_t touch, int32_t writer)
{
    const sg_event *const w = &ck->event[writer];
    const int32_t *const clock = clock_of(ck, rank, event);
    if (w->rank == rank && w->step <= clock[sg_check_stage(ck, rank, w->step)->lane]) return true;
    if (event >= 0 && ck->proved[writer] == event + 1) return true;
    if (!awaits(ck, rank, event, clock, writer) && !search(ck, rank, event, touch, writer))
        return false;
    if (event >= 0) ck->proved[writer] = event + 1;
    return true;
}

/* ---- SMs ------------------------------------------------------------------------------------- */

/* SMs that a step holds while it runs: 0 if it is neither a launch nor a collective. */
static int sms_of(const sg_checker *ck, const sg_step *step)
{
    if (step->kind == SG_COLL) return step->u.coll.sms;
    if (step->kind != SG_LAUNCH) return 0;
    return step->u.launch.blocks > 0 ? step->u.launch.blocks : ck->sms;
}

/* Does STEP wait, and hold no SMs else?  A collective that does waits on those it will run on. */
static bool is_waiting(const sg_sched *s, const sg_step *step)
{
    if (step->kind == SG_LAUNCH || sg_step_is_push(step)) return false;
    if (step->kind == SG_COLL && step->u.coll.sms > 0) return false;
    bool waits = step->waits > 0;
    for (int32_t i = 0; step->kind == SG_REDUCE && i < step->u.reduce.adds; i++)
        waits |= s->add[step->u.reduce.add0 + i].awaited != 0;
    return waits;
}

static bool unordered(const sg_checker *ck, int rank, int32_t one, int32_t other)
{
    const sg_stage *const a = sg_check_stage(ck, rank, one);
    const sg_stage *const b = sg_check_stage(ck, rank, other);
    return a->lane != b->lane && a->ended[b->lane] < other && b->ended[a->lane] < one;
}

/* The most SMs that lanes from LANE on can hold beside the steps CHOSEN (one a lane at most). */
static int most_beside(const sg_checker *ck, int rank, int lane, int32_t *chosen, int count)
{
    if (lane == SG_MAX_LANES) return 0;
    const sg_sched *const s = &ck->sched[rank];
    int most = most_beside(ck, rank, lane + 1, chosen, count);
    for (int32_t i = 0; i < s->steps; i++) {
        const int sms = s->step[i].lane == lane ? sms_of(ck, &s->step[i]) : 0;
        bool beside = sms > 0;
        for (int j = 0; j < count && beside; j++) beside = unordered(ck, rank, i, chosen[j]);
        if (!beside) continue;
        chosen[count] = i;
        const int total = sms + most_beside(ck, rank, lane + 1, chosen, count + 1);
        if (total > most) most = total;
    }
    return most;
}

/* Lanes with a step that waits while LAUNCH runs: on a GPU each is a kernel that needs an SM. */
static int waiting_lanes(const sg_checker *ck, int rank, int32_t launch)
{
    const sg_sched *const s = &ck->sched[rank];
    bool waits[SG_MAX_LANES] = {false};
    int lanes = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const int lane = s->step[i].lane;
        if (waits[lane] || !is_waiting(s, &s->step[i]) || !unordered(ck, rank, launch, i)) continue;
        waits[lane] = true;
        lanes++;
    }
    return lanes;
}

shingle_status sg_check_sms(sg_checker *ck, int rank)
{
    const sg_sched *const s = &ck->sched[rank];
    for (int32_t i = 0; i < s->steps; i++) {
        const int own = sms_of(ck, &s->step[i]);
        if (own == 0) continue;
        int32_t chosen[SG_MAX_LANES + 1] = {i};
        int total = own + most_beside(ck, rank, 0, chosen, 1);
        /* Blocks of a vendor's product end tile by tile, and what waits gets their place. */
        if (s->step[i].kind == SG_LAUNCH && !s->step[i].u.launch.vendor)
            total += waiting_lanes(ck, rank, i);
        if (total > ck->sms)
            return sg_check_violation(ck, sg_check_event(ck, rank, i), -1,
                                      "%d SMs are needed while it runs; the machine has %d", total,
                                      ck->sms);
    }
    return SHINGLE_OK;
}
