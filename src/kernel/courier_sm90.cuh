/* courier_sm90.cuh -- a block of the Hopper product (gemm_sm90.cuh) that has no tiles and carries rows to
 * peers (push_sm90.cuh), with all of the shared memory that others have for their stages.  The product then
 * has the bulk engines of its SMs to itself. */
#pragma once
#include "kernel/push_sm90.cuh"
#include "kernel/watch_sm90.cuh"

/* A thread of each warp but the watcher's is a carrier. */
template <class S> struct Courier {
    static constexpr int CARRIERS = S::THREADS / 32 - 1;
    static constexpr int ROOM = S::STAGES * S::STAGE_BYTES / CARRIERS / 1024 * 1024;
    static_assert((8 + AHEAD * SPOT_BYTES) * CARRIERS <= S::SLOT_BYTES, "barriers, spots");
};

/* Where the barrier of carrier I is: it has no tile to stage. */
template <class S> DEV uint32_t courier_barrier(const Smem<S> &smem, int i)
{
    return smem.slot + 8 * i;
}

template <class S> DEV void courier(const Param &P, const Smem<S> &smem, int warp)
{
    typedef Courier<S> C;
    if (warp == 3) {
        watcher_enter(P, smem, threadIdx.x % 32);
        watcher<S>(P, smem, 0, 0, threadIdx.x % 32); /* hellos of those whose tensors rows go to */
    } else if (elect_one()) {
        launch_wait();
        if (warp == 0) launch_next();
        const int i = warp < 3 ? warp : warp - 1;
        const int couriers = (int)gridDim.x - P.workers;
        const Carrier self = {i * couriers + (int)blockIdx.x - P.workers,
                              C::CARRIERS * couriers,
                              couriers,
                              smem.stage + i * C::ROOM,
                              C::ROOM,
                              courier_barrier(smem, i),
                              courier_barrier(smem, C::CARRIERS) + AHEAD * SPOT_BYTES * i,
                              smem.progress};
        if (P.pushes > 0 && (!P.turn.gate || storer_gate(P, smem)))
            push_rows(P, smem, self, run_epoch(P.program.rank));
    }
    __syncwarp();
}
