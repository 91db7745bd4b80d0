/* cpu_test.c -- see cpu_test.h. */
#include "backend/cpu/cpu_test.h"

#include "backend/cpu/cpu.h"
#include "core/comm.h"

void sg_cpu_test_delays(shingle_comm *comm, uint64_t seed, double most_us)
{
    sg_cpu *const cpu = comm->group->self;
    pthread_mutex_lock(&cpu->mutex);
    cpu->delay_us = most_us;
    for (int i = 0; i < cpu->threads; i++) cpu->worker[i].random.state = sg_mix(seed + (uint64_t)i);
    for (int r = 0; r < cpu->ranks; r++)
        cpu->rank[r].link.random.state = sg_mix(seed + 1000 + (uint64_t)r);
    pthread_mutex_unlock(&cpu->mutex);
}

void sg_cpu_test_stop(shingle_comm *comm, int rank, int64_t units)
{
    sg_cpu *const cpu = comm->group->self;
    pthread_mutex_lock(&cpu->mutex);
    cpu->rank[rank].stop_after = units;
    pthread_mutex_unlock(&cpu->mutex);
}

int64_t sg_cpu_test_units(shingle_comm *comm, int rank)
{
    sg_cpu *const cpu = comm->group->self;
    pthread_mutex_lock(&cpu->mutex);
    const int64_t units = cpu->rank[rank].begun_units;
    pthread_mutex_unlock(&cpu->mutex);
    return units;
}

int sg_cpu_test_packs(shingle_comm *comm)
{
    sg_cpu *const cpu = comm->group->self;
    pthread_mutex_lock(&cpu->mutex);
    const int packs = (int)cpu->packs;
    pthread_mutex_unlock(&cpu->mutex);
    return packs;
}

void sg_cpu_test_links(shingle_comm *comm, double rate, double latency_us)
{
    sg_cpu *const cpu = comm->group->self;
    pthread_mutex_lock(&cpu->mutex);
    cpu->held = rate > 0;
    for (int type = 0; type < SG_TYPES; type++)
        cpu->rates[type] = (sg_rates){.copy_us = latency_us,
                                      .copy_rate = rate,
                                      .store_us = latency_us,
                                      .store_rate = rate,
                                      .coll_us = latency_us,
                                      .coll_rate = rate,
                                      .flag_us = latency_us};
    pthread_mutex_unlock(&cpu->mutex);
}

void sg_cpu_test_epoch(shingle_comm *comm, uint64_t epoch)
{
    const sg_group *const group = comm->group;
    sg_cpu *const cpu = group->self;
    pthread_mutex_lock(&cpu->mutex);
    for (int r = 0; r < group->ranks; r++) group->work[r]->epoch = epoch - 1;
    sg_work_recover(group->ranks, group->work);
    pthread_mutex_unlock(&cpu->mutex);
}

void sg_cpu_test_memory(shingle_comm *comm, int rank, sg_cpu_test_memory_fn visitor, void *context)
{
    const sg_work *const work = comm->group->work[rank];
    for (int kind = 0; kind < SG_BLOCK_KINDS; kind++)
        for (int i = 0; i < SG_BLOCK_CLASSES; i++)
            if (work->block[kind][i] != NULL)
                visitor(context, (sg_block_kind)kind, work->block[kind][i], (size_t)1 << i);
}
