/* protocol.cuh -- the run protocol inside a kernel: hello, gate and end, each by the lanes of one
 * warp, a rank or flag a lane. */
#pragma once
#include "kernel/device.cuh"

enum { LANES = 32 };

/* Where this rank's hellos are at rank Q: looked up before there is anything to say. */
DEV sg_kernel_hello *hello_address(const sg_kernel_rank *rank, int q)
{
    return rank->words[q].hello + 2 * rank->rank;
}

/* Tells every rank that this one has begun the run.  THERE: hello_address() of LANE, if there is
 * such a rank.  Partner: hello_wait() there. */
DEV void protocol_hello(const sg_kernel_rank *rank, sg_kernel_hello *there, int lane, uint64_t hash,
                        const void *c, int64_t c_stride)
{
    const uint64_t epoch = run_epoch(rank);
    for (int q = lane; q < rank->ranks; q += LANES) {
        sg_kernel_hello *hello = (q == lane ? there : hello_address(rank, q)) + (int)(epoch & 1);
        volatile sg_kernel_hello *plain = hello;
        plain->hash = hash, plain->c = (uint64_t)(uintptr_t)c;
        plain->c_stride = (uint64_t)c_stride;
        store_release(&hello->epoch, epoch);
    }
}

/* Every rank has ended the last run that used this half.  False, for all lanes: time is up.  What
 * says which run that was is asked for together with what says whether it is over.  Partner:
 * protocol_end() there. */
DEV bool protocol_gate(sg_kernel_rank *rank, const sg_kernel_words *own, int lane, int baked,
                       int step)
{
    const uint64_t last[2] = {load_relaxed(&rank->last[0]), load_relaxed(&rank->last[1])};
    const int half = run_half(rank, baked);
    const uint64_t seen = lane < rank->ranks ? load_acquire(own->done + lane) : 0;
    const uint64_t need = half ? last[1] : last[0];
    bool open = true;
    for (int q = lane; q < rank->ranks; q += LANES)
        if (q != lane || seen < need)
            open &=
                word_wait(rank, own->done + q, need, Stuck{SG_KERNEL_STUCK_GATE, q, step, -1, -1});
    open = __all_sync(0xffffffff, open);
    __syncwarp(); /* what a lane has acquired, all have */
    return open;
}

/* What is known, and what can be looked up, before a run is over: done by a block's idle warp,
 * while the others still work. */
struct Leaving {
    uint64_t epoch;
    uint64_t *done; /* this rank's word at rank LANE */
    int half;
    bool
        heard; /* the ranks whose hellos are this lane's to wait for have said them, of this plan */
};

DEV Leaving protocol_leaving(const sg_kernel_rank *rank, const sg_kernel_words *own, int lane,
                             uint64_t hash, int baked, int hello)
{
    const int ranks = rank->ranks;
    Leaving at = {run_epoch(rank), nullptr, run_half(rank, baked), true};
    if (lane < ranks) at.done = rank->words[lane].done + rank->rank;
    for (int q = lane; hello && q < ranks; q += LANES) {
        const sg_kernel_hello *theirs = own->hello + 2 * q + (int)(at.epoch & 1);
        /* Partner: protocol_hello() at Q. */
        at.heard = at.heard && load_acquire(&theirs->epoch) >= at.epoch &&
                   load_relaxed(&theirs->hash) == hash;
    }
    return at;
}

/* The ranks that are this lane's to look at have not given up.  To be asked behind all
 * flags that are acquired: who gives up says so first, and then, draining, raises flags
 * over what it never stored. */
DEV bool protocol_clear(const sg_kernel_rank *rank, const sg_kernel_words *own, int lane)
{
    uint64_t aborted = lane < rank->ranks ? load_relaxed(own->abort + lane) : 0;
    for (int q = lane + LANES; q < rank->ranks; q += LANES) aborted |= load_relaxed(own->abort + q);
    return aborted == 0;
}

/* The run is over: behind the hellos of all ranks, that they are in the same plan, and behind
 * everything that this rank stored and read.  After a failure nothing is ended.  OK: this lane
 * knows of none, protocol_clear() included.  TELLS: otherwise nothing is waited for, and nobody
 * told. */
DEV void protocol_end(sg_kernel_rank *rank, const Leaving &at, int lane, uint64_t hash, int hello,
                      int done, bool ok, bool tells)
{
    for (int q = lane; hello && !at.heard && tells && q < rank->ranks; q += LANES)
        ok &= hello_wait(rank, q, at.epoch, hash, SG_KERNEL_STUCK_END, -1);
    if (tells) fence_sys(); /* a release, together with the stores below */
    if (!__all_sync(0xffffffff, ok && tells)) return;
    __syncwarp();
    /* Partner: protocol_gate() at Q.  What this rank read or stored in this half is behind it. */
    for (int q = lane; done && q < rank->ranks; q += LANES)
        store_relaxed(q == lane ? at.done : rank->words[q].done + rank->rank, at.epoch);
    __syncwarp();
    if (lane != 0) return;
    if (done) rank->last[at.half] = at.epoch; /* otherwise it used neither */
    rank->prev_half = at.half;
    rank->epoch = at.epoch + 1;
}

DEV Leaving protocol_leaving(const sg_kernel_program &program, const sg_kernel_protocol &protocol,
                             int lane)
{
    return protocol_leaving(program.rank, own_words(program), lane, program.hash, program.baked,
                            protocol.hello);
}

/* What a launch does of it when a block leaves, by the last block: BLOCKS is their number.
 * By a warp that has acquired the block's flags, and MEETs the rest of it when all its work
 * is behind.  Before that it goes through all of this once and tells nobody, since nothing
 * hides what the last block does, and in a kernel of 200 KB most of its instructions and
 * words would come from the L2 then. */
template <class Meet>
DEV void protocol_leave(const sg_kernel_program &program, const sg_kernel_protocol &protocol,
                        const Leaving &at, int lane, uint32_t blocks, Meet meet)
{
    sg_kernel_rank *rank = program.rank;
#pragma unroll 1
    for (int time = 0; time < 2; ++time) {
        const bool tells = time == 1;
        if (tells) launch_wait(); /* a launch of this run before this one acquires flags, too */
        bool last = true, ok = protocol_clear(rank, own_words(program), lane);
        if (tells) {
            __syncwarp(); /* a warp comes to a barrier together */
            meet();
            /* It may have read what was never stored.  The last block, which may have looked before
             * that rank gave up, is told. */
            if (!__all_sync(0xffffffff, ok) && lane == 0)
                atomicOr(&rank->leaving, SG_KERNEL_ABORTED);
            last = lane == 0 &&
                   count_leave(&rank->leaving, blocks, SG_KERNEL_CLAIMED | SG_KERNEL_ABORTED);
        }
        if (!__any_sync(0xffffffff, last)) return;
        __syncwarp();
        for (int i = lane; i < protocol.waits; i += LANES) {
            const sg_wait &wait = program.wait[protocol.wait0 + i];
            const sg_flags f = sg_walk_wait(&wait, 0, 0x7fffffff, 0, 0);
            for (int j = 0; j < f.count; ++j) {
                const int flag = f.first + j * f.step;
                if (load_acquire(own_flag(program, wait.by, flag)) < at.epoch && tells)
                    ok &= flag_wait(program, wait.by, flag, at.epoch, protocol.wait_step, -1);
            }
        }
        /* These flags, too.  The loads are on their way during the fence of protocol_end(). */
        if (protocol.waits > 0) {
            __syncwarp();
            ok &= protocol_clear(rank, own_words(program), lane);
        }
        protocol_end(rank, at, lane, program.hash, protocol.hello, protocol.done, ok, tells);
    }
}
