/* fake_start.c -- the line of kernel/start.h on the host; see fake.h. */
#include "core/base.h"
#include "fake.h"
#include "kernel/start.h"

typedef struct start_op {
    const uint32_t *count;
    uint32_t turn;
    double until_us;
} start_op;

static bool run(void *data, bool first)
{
    const start_op *const o = data;
    (void)first;
    return (int32_t)(*o->count - o->turn) >= 0 || sg_now_us() > o->until_us;
}

cudaError_t sg_kernel_start(const uint32_t *count, uint32_t turn, uint64_t limit_ns,
                            cudaStream_t stream)
{
    const start_op o = {count, turn, sg_now_us() + (double)limit_ns / 1e3};
    return fake_enqueue(stream, run, &o, sizeof o);
}
