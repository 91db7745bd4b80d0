/* gemm_sm90.cuh -- the persistent Hopper product that carries out a launch.
 *
 *     C (m x n) = A (m x k) * B (n x k)', rows contiguous, bf16 or f16 in and out, f32 sums
 *
 * One block per SM.  Its first warpgroup moves data, one elected thread per duty; the others
 * multiply.
 *
 *     warp 0        loader   waits for free stages, loads A, B and addends through the bulk engine
 *     warp 1, 2     storer   one per multiplying warpgroup: stores staged pieces, raises flags; before
 *                            that, warp 1 carries rows to peers if no block is a courier, and
 *                            warp 2 credits them
 *     warp 3        watcher  begins the run; waits for the gate, and for flags as far ahead of the
 *                            loader as they are up; the last block's ends the run
 *     warpgroup 1.. math     (math_sm90.cuh) 64 or 128 rows of the tile each, or a tile each (ping-pong)
 *
 * Blocks behind those with tiles carry rows (courier_sm90.cuh), the last one may raise what they
 * have carried (herald_sm90.cuh).  Of a launch of tagged data, warps 1 to 3 do what tagged_sm90.cuh
 * says, and of one whose rows come as such what gather_sm90.cuh says.
 *
 * Of some 250 KB of code a launch runs a small part.  How much of that an SM still has from the
 * launch before depends on where it lies, and a jump to what it has not takes 0.2 us
 * (results/lab/jumps_h200_v1.txt).  So there is none from the entry to the first load.  The
 * compiler puts what stands behind `else` first, if the condition is `>`; it is why roles are asked
 * for as they are, and in this order.
 *
 * Units (a tile, or a tile per block of the cluster) are dealt round robin in list order, to blocks
 * or to SMs (seat_sm90.cuh).  Nothing waits for a later unit of the list, so any number of blocks
 * makes progress.  The math warps never touch a flag, and never wait for anything further away than
 * their cluster's barriers. */
#pragma once
#include "kernel/courier_sm90.cuh"
#include "kernel/gather_sm90.cuh"
#include "kernel/herald_sm90.cuh"
#include "kernel/hops_sm90.cuh"
#include "kernel/load_sm90.cuh"
#include "kernel/math_sm90.cuh"
#include "kernel/seat_sm90.cuh"
#include "kernel/store_sm90.cuh"

/* What the roles meet at, by one thread, and words, by the lanes of another warp.  The launch waits
 * for this, and code that runs once comes from the L2: it is as short as it can be. */
template <class S> DEV void barriers_begin(const Param &P, const Smem<S> &smem)
{
    const Seat asked = seat_ask<S>(P);
    if (P.units > 0) {
        map_prefetch(&P.map[0]);
        map_prefetch(&P.map[1]);
    }
    for (int i = 0; i < S::FINE; ++i) {
        mbar_init(smem.full + 8 * i, 1); /* the loader, and the bytes it announced */
        mbar_init(smem.empty + 8 * i, S::PARTS * S::READERS);
    }
    for (int i = 0; i < S::WGS * S::SLOTS; ++i) {
        mbar_init(smem.slot_full + 8 * i, 4); /* a thread per warp of the warpgroup */
        mbar_init(smem.slot_empty + 8 * i, 1);
        /* Its first phase is over: math waits for the second, until the
         * storer has carried its rows. */
        if (S::PUSHES && storers_carry(P) > 0) mbar_arrive(smem.slot_empty + 8 * i);
    }
    for (int i = 0; i < 2; ++i) mbar_init(smem.pushed + 8 * i, 1); /* who carries */
    for (int i = 0; i < S::WGS; ++i) {
        mbar_init(smem.order + 8 * i, 4); /* a thread per warp of the other warpgroup */
        if (S::SLOT_ADDS)
            mbar_init(smem.added + 8 * i, 1); /* its storer, and the bytes it announced */
    }
    for (int i = 0; i < 4; ++i) mbar_arrive(smem.order); /* the first tile is warpgroup 0's */
    const int seat = seat_take(P, smem, asked);
    for (int i = 0; !S::GATHERS && is_courier(P, seat) && i < Courier<S>::CARRIERS; ++i)
        mbar_init(courier_barrier(smem, i), 1);
    stamp_begin(smem.stamp);
    mbar_init_visible();
}

template <class S> DEV void words_begin(const Smem<S> &smem, int lane)
{
    static_assert(WORDS <= LANES, "a word each");
    if (lane < WORDS) shared_store(smem.progress + 4 * lane, 0);
}

template <class S>
__global__ void __launch_bounds__(S::THREADS, 1) gemm_sm90(const __grid_constant__ Param P)
{
    extern __shared__ uint8_t raw[];
    const Smem<S> smem = smem_layout<S>(raw);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const int rank = S::CL == 1 ? 0 : (int)cluster_rank();
    const int im = rank % S::CM, in = S::CN == 1 ? 0 : rank / S::CM;
    if (threadIdx.x == 0)
        barriers_begin(P, smem);
    else if (warp == 1)
        words_begin(smem, threadIdx.x % 32);
    __syncthreads();
    if (S::CL > 1) cluster_meet(); /* of all blocks' barriers: it orders nothing else */
    if (S::FOLD != FOLD_SLICES && is_courier(P, seat_of(smem))) {
        if constexpr (S::GATHERS) {
            gather_block(P, smem, warp);
        } else if constexpr (S::PUSHES) {
            if (is_herald(P, seat_of(smem)))
                herald(P, smem, warp);
            else
                courier(P, smem, warp);
        } else {
            courier(P, smem, warp);
        }
    } else if (warp > 3) {
        if (S::WGS > 1) regs_up<S::MATH_REGS>();
        const int to = warp % 4, lane = threadIdx.x % 32;
        const bool tells = lane == 0 && to < S::CL && (to % S::CM == im || to / S::CM == in);
        const int wg = warp / 4 - 1, thread = (int)threadIdx.x % 128;
        Math<S> math = {P, smem, wg, wg % S::PARTS, thread, to, lane, im, in, tells};
        if constexpr (S::FOLD == FOLD_TAGGED)
            tagged_run(math);
        else if constexpr (S::FOLD == FOLD_HOPS)
            hops_run(math);
        else if constexpr (S::PINGPONG)
            math_pingpong(math);
        else
            math_run(math);
    } else {
        if (S::WGS > 1) regs_down<S::MOVER_REGS>();
        const int lane = (int)threadIdx.x % LANES;
        if (warp > 0) {
            if constexpr (S::TAGS) {
                if (warp == 3) tagged_watch(P, smem, lane);
            } else if (warp > 2) {
                if (S::FOLD != FOLD_SLICES) watcher_enter(P, smem, lane);
                watcher<S>(P, smem, im, in, lane);
            } else {
                if constexpr (S::GATHERS) gather_carry(P, smem, warp == 2, 0);
                if constexpr (S::PUSHES) push_by_storers(P, smem, warp, lane);
                if (warp <= S::WGS && elect_one()) storer<S>(P, smem, im, in, warp - 1);
            }
        } else if (elect_one()) {
            loader<S>(P, smem, im, in);
        }
        __syncwarp();
        if (S::CL == 1 && P.program.rank == nullptr) return; /* nobody is told of its end */
    }
    defect_tell(P, smem);
    /* Tagged data: the watcher has done so already. */
    if (S::FOLD != FOLD_SLICES && !S::TAGS && P.protocol.end) {
        const auto meet = [&] {
            __syncthreads(); /* all of this block's stores and loads are behind */
            if (threadIdx.x == 96) stamp(smem.stamp, STAMP_WATCHER, STAMP_TOGETHER);
        };
        if (warp == 3)
            protocol_leave(P.program, P.protocol,
                           protocol_leaving(P.program, P.protocol, threadIdx.x % 32),
                           threadIdx.x % 32, gridDim.x, meet);
        else
            meet();
    }
    if (threadIdx.x == 96) stamp(smem.stamp, STAMP_WATCHER, STAMP_LEFT);
    if (S::CL > 1) cluster_meet(); /* peers arrive on our barriers until their last visit is done */
}
