/* wait_sm90.cuh -- how the roles of a block of the Hopper product wait for each other: never for
 * ever, and nothing is told of what they have then gone on without. */
#pragma once
#include "kernel/shape_sm90.cuh"

enum Role { ROLE_LOADER = 1, ROLE_STORER, ROLE_MATH };

/* Waiting inside a block or cluster: the other side waits for flags alone, each within the limit,
 * and goes on if one does not come.  So who waits P.patience naps (patience_of() in gemm.cu) is
 * behind a defect of this kernel; even then nothing hangs.  A kernel has tens of these waits.  So
 * none says more than a word of shared memory, and the block tells the rest when its roles have
 * ended: defect_tell(). */
template <class S> DEV void defect_note(const Smem<S> &smem, Role role)
{
    shared_store(smem.defect, role);
}

template <class S>
DEV void mbar_wait(const Param &P, const Smem<S> &smem, uint32_t bar, uint32_t parity, Role role)
{
    if (mbar_try(bar, parity)) return;
    for (uint32_t naps = 0; !mbar_nap(bar, parity);)
        if (++naps > P.patience) return defect_note(smem, role);
}

/* Is a loop that looks at something in vain, TRIES times so far, to go on?  It naps if that is
 * often. */
template <class S> DEV bool patient(const Param &P, const Smem<S> &smem, uint32_t *tries, Role role)
{
    enum { TRIES = 4096 };
    if (++*tries < TRIES) return true;
    nap();
    if (*tries <= P.patience) return true;
    defect_note(smem, role);
    return false;
}

/* A count in shared memory that another warp of this block moves on: where it is by then. */
template <class S>
DEV uint32_t progress_wait(const Param &P, const Smem<S> &smem, uint32_t word, uint32_t target,
                           Role role)
{
    uint32_t tries = 0, seen = progress_acquire(word);
    while (seen < target && patient(P, smem, &tries, role)) seen = progress_acquire(word);
    return seen;
}

/* Has a role of this block gone on without what it waited for?  Asked before a flag is raised,
 * which would speak for what may never have been there. */
template <class S> DEV bool defect_noted(const Smem<S> &smem)
{
    return shared_load(smem.defect) != 0;
}

/* By who may have noted something, when its role has ended, and before the block counts itself
 * among those that have left: no run ends behind a defect, at any rank. */
template <class S> DEV void defect_tell(const Param &P, const Smem<S> &smem)
{
    const uint32_t role = shared_load(smem.defect);
    sg_kernel_rank *rank = P.program.rank;
    if (role == 0 || rank == nullptr || !trouble_claim(rank)) return;
    rank->trouble->step = P.step, rank->trouble->flag = (int32_t)role;
    store_release(&rank->trouble->kind, (uint32_t)SG_KERNEL_STUCK_DEFECT);
    abort_all(rank);
}

/* False: the gate did not open in time.  Partner: watcher_enter(). */
template <class S> DEV bool storer_gate(const Param &P, const Smem<S> &smem)
{
    progress_wait(P, smem, smem.gate, GATE_OPEN, ROLE_STORER);
    return progress_acquire(smem.gate) == GATE_OPEN;
}

/* The same for all lanes of a warp, who agree. */
template <class S> DEV bool warp_gate(const Param &P, const Smem<S> &smem)
{
    return __all_sync(0xffffffff, storer_gate(P, smem));
}
