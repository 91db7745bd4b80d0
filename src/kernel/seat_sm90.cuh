/* seat_sm90.cuh -- which seat of a launch a block of the Hopper product has: units are dealt to
 * seats.
 *
 * Reads of the same line by SMs of a TPC or of a GPC within some 100 cycles are one read of the L2
 * (bench/lab/DIARY.md), which is what products of few rows wait for.  So tiles of the same rows or
 * columns of operands should be at SMs of one GPC.  On which SM a block comes nobody can choose,
 * but it can ask: of a launch on all SMs each SM has a seat.
 *
 * Who comes second to an SM takes the first seat that is free: other work may keep one from the
 * launch until another SM is through with its block.  That a seat is free is not said by a word
 * that somebody would have to clear; it has been taken as often as there were launches.  Every
 * block takes a ticket, too, which says how many those were. */
#pragma once
#include "kernel/shape_sm90.cuh"

/* What a block has asked for, and is on its way. */
struct Seat {
    int home;
    uint32_t ticket, before; /* of the home seat: how often it was taken */
};

template <class S> DEV Seat seat_ask(const Param &P)
{
    if (!S::SEATS || P.seats == nullptr) return Seat{(int)blockIdx.x, 0, 0};
    const int home = P.seat[sm_here()];
    return Seat{home, count_round(&P.seats->tickets, gridDim.x * SG_KERNEL_SEAT_ROUNDS - 1),
                count_round(&P.seats->taken[home], SG_KERNEL_SEAT_ROUNDS - 1)};
}

/* There is one, since there are as many as blocks, and nobody leaves one.  The launch behind this
 * one, which starts early, finds HOME as it should be. */
DEV int seat_search(const Param &P, int home, uint32_t launch)
{
    const uint32_t next = (launch + 1) % SG_KERNEL_SEAT_ROUNDS;
    int seat = 0;
    count_back(&P.seats->taken[home], SG_KERNEL_SEAT_ROUNDS - 1);
    fence_gpu();
    while (!count_from(&P.seats->taken[seat], launch, next)) seat = (seat + 1) % (int)gridDim.x;
    return seat;
}

/* Partner: seat_of(), behind a barrier of the block. */
template <class S> DEV int seat_take(const Param &P, const Smem<S> &smem, const Seat &s)
{
    int seat = s.home;
    if (S::SEATS && P.seats != nullptr) {
        const uint32_t launch = s.ticket / gridDim.x;
        if (s.before != launch) seat = seat_search(P, s.home, launch);
    }
    if (S::SEATS) shared_store(smem.seat, seat);
    return seat;
}
