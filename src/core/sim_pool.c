/* sim_pool.c -- products by workers that all ranks share, see sim_state.h. */
#include "core/sim_state.h"
bool sg_sim_set_pool(sg_sim *m)
{
    (void)m;
    return true;
}
void sg_sim_open_units(sg_sim *m, sg_sim_agent *a)
{
    (void)m;
    (void)a;
}
void sg_sim_worker_act(sg_sim *m, int32_t worker)
{
    (void)m;
    (void)worker;
}
void sg_sim_wake_workers(sg_sim *m, double time)
{
    (void)m;
    (void)time;
}
void sg_sim_pool_landed(sg_sim *m, sg_sim_agent *a)
{
    (void)m;
    (void)a;
}
