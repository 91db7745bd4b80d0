/* herald_sm90.cuh -- a block of the Hopper product (gemm_sm90.cuh) that has no tiles and carries
 * nothing, but raises the flags of what couriers carry.
 *
 * What a flag is about has to be seen by who sees the flag, at another GPU as well.  The barrier of
 * memory that this takes waits for all that an SM has on its way, 2 to 4 us where rows are carried,
 * and who is the last one of several takes another.  Of many couriers who share steps this would be
 * the same one again and again, since it is late for its next piece.  So each counts its part of a
 * step behind a barrier for its GPU alone, which does not wait for what is on its way to peers; the
 * herald sees the counts, passes the barrier for all GPUs, which takes less than a microsecond
 * where nothing is going on, and raises.  What it has seen it passes on: the memory model's
 * causality order is transitive.
 *
 * Where something is going on, that barrier and the flag behind it go to the end of what this GPU
 * has on its links.  What tiles begin with is not to wait for that.  So on two ranks, couriers that
 * have had a part of one of the first steps send nothing until that is raised (push_pause()).
 * Later steps have the time that the first ones take to be multiplied. */
#pragma once
#include "kernel/courier_sm90.cuh"

DEV bool is_herald(const Param &P, int seat)
{
    return P.heralds > 0 && seat >= (int)gridDim.x - P.heralds;
}

/* Is there reason to look again, TRIES times so far in vain?  All lanes agree. */
template <class S> DEV bool herald_goes_on(const Param &P, const Smem<S> &smem, uint32_t *tries)
{
    const bool on =
        patient(P, smem, tries, ROLE_STORER) && (*tries % 32 != 0 || !aborted(P.program.rank));
    return __all_sync(0xffffffff, on);
}

/* A lane has a step at a time; what it raises is looked up while nothing is to be raised.  Partner:
 * push_credit(). */
template <class S> DEV void herald_steps(const Param &P, const Smem<S> &smem, int lane)
{
    const uint64_t epoch = run_epoch(P.program.rank);
    const uint32_t kept = smem.stage + SPOT_BYTES * AHEAD * lane;
    uint32_t tries = 0;
    for (int i = lane; __any_sync(0xffffffff, i < P.pushes); i += LANES) {
        const int at = sg_walk_min(i, P.pushes - 1);
        const sg_kernel_step s = P.push[at];
        const bool early = at < P.early;
        const int all = early ? P.workers : couriers_of(P);
        const Cut cut = push_cut(P, s, early ? PUSH_ROOM<S> : Courier<S>::ROOM, all);
        const uint32_t sharers = (uint32_t)sg_walk_min(cut.pieces, all);
        const auto raise = [&](int j) {
            return raise_find(P.program, P.program.raise[s.raise0 + j], 0);
        };
        for (int j = 0; j < s.raises && j < AHEAD; ++j) raise_keep(kept + SPOT_BYTES * j, raise(j));
        bool owed = i < P.pushes && s.raises > 0;
        while (__any_sync(0xffffffff, owed)) {
            const bool now = owed && load_acquire_gpu(s.ticket) >= sharers;
            if (!__any_sync(0xffffffff, now)) {
                if (!herald_goes_on(P, smem, &tries)) return;
                continue;
            }
            tries = 0;
            fence_sys();
            for (int j = 0; now && j < s.raises; ++j)
                raise_fire(P.program, j < AHEAD ? raise_kept(kept + SPOT_BYTES * j) : raise(j),
                           epoch);
            if (now) store_relaxed(s.ticket, 0);
            owed = owed && !now;
        }
    }
}

template <class S> DEV void herald(const Param &P, const Smem<S> &smem, int warp)
{
    const int lane = (int)threadIdx.x % LANES;
    if (warp == 3) watcher_enter(P, smem, lane);
    if (warp == 0 || warp == 3) launch_wait();
    if (warp == 0 && elect_one()) launch_next();
    __syncwarp();
    const bool raises =
        warp == 3 && seat_of(smem) + 1 == (int)gridDim.x; /* the last one of its cluster */
    if (raises && (!P.protocol.gate || warp_gate(P, smem))) herald_steps(P, smem, lane);
}
