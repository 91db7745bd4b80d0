/* trace.c -- what a record is told, while there is one: units that workers carried out and pieces
 * that links moved, of the recorded run alone.  Everything here happens with the pool's mutex held,
 * which is what orders the calls of sg_record_add. */
#include "backend/cpu/cpu.h"

/* Shorter units only found out that they have to wait. */
static const double least_us = 0.5;

bool sg_trace_is_on(const sg_cpu *cpu, sg_cpu_rank *rank)
{
    return rank->active && sg_record_is_on(cpu->record, rank->rank, sg_lane_run(rank)->epoch);
}

void sg_trace_begin(sg_cpu *cpu, sg_cpu_rank *rank)
{
    const sg_run *const run = sg_lane_run(rank);
    sg_record_begin(cpu->record, rank->rank, run->bound->hash, run->epoch, sg_now_us());
}

void sg_trace_end(sg_cpu *cpu, sg_cpu_rank *rank)
{
    sg_record_end(cpu->record, rank->rank, sg_lane_run(rank)->epoch, sg_now_us());
}

void sg_trace_unit(sg_cpu *cpu, sg_cpu_rank *rank, const sg_cpu_visit *v, double begin_us)
{
    sg_mark mark = {.begin_us = begin_us,
                    .end_us = sg_now_us(),
                    .visit = v->visit,
                    .step = v->step,
                    .rank = (int16_t)rank->rank,
                    .peer = -1,
                    .deed = SG_DEED_WORK};
    if (!sg_trace_is_on(cpu, rank) || mark.end_us - begin_us < least_us) return;
    if (sg_lane_run(rank)->bound->sched.step[v->step].kind != SG_LAUNCH) mark.visit.patch = -1;
    sg_record_add(cpu->record, &mark);
}

void sg_trace_piece(const sg_link *link, int32_t step, const sg_visit *visit)
{
    const sg_cpu *const cpu = link->cpu;
    if (!sg_trace_is_on(cpu, &cpu->rank[link->rank])) return;
    sg_mark mark = {.begin_us = link->sent_us,
                    .end_us = link->land_us > 0 ? link->land_us : sg_now_us(),
                    .bytes = (int64_t)link->sent_bytes,
                    .visit = {.patch = -1},
                    .step = step,
                    .rank = (int16_t)link->rank,
                    .peer = (int16_t)link->sent_to,
                    .deed = visit != NULL ? SG_DEED_STORE : SG_DEED_MOVE};
    if (visit != NULL) mark.visit = *visit;
    sg_record_add(cpu->record, &mark);
}
