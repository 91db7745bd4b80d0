/* turn.cuh -- the run protocol inside a kernel: hello, gate and end, each by the lanes of one warp, a
 * rank or flag a lane. */
#pragma once
#include "kernel/device.cuh"

enum { LANES = 32 };

/* Tells every rank that this one has begun the run.  Partner: hello_wait() there. */
DEV void turn_hello(const sg_kernel_rank *rank, int lane, uint64_t hash, const void *c,
                    int64_t c_stride)
{
    const uint64_t epoch = run_epoch(rank);
    for (int q = lane; q < rank->ranks; q += LANES) {
        sg_kernel_hello *hello = rank->words[q].hello + 2 * rank->rank + (int)(epoch & 1);
        volatile sg_kernel_hello *plain = hello;
        plain->hash = hash, plain->c = (uint64_t)(uintptr_t)c;
        plain->c_stride = (uint64_t)c_stride;
        store_release(&hello->epoch, epoch);
    }
}

/* Every rank has ended the last run that used this half.  False, for all lanes: time is up.  Partner:
 * turn_end() there. */
DEV bool turn_gate(sg_kernel_rank *rank, int lane, int baked, int step)
{
    const uint64_t *last = &rank->last[run_half(rank, baked)];
    const uint64_t need = load_relaxed(last);
    bool open = true;
    for (int q = lane; q < rank->ranks; q += LANES)
        open &= word_wait(rank, own_words(rank)->done + q, need,
                          Stuck{SG_KERNEL_STUCK_GATE, q, step, -1, -1});
    open = __all_sync(0xffffffff, open);
    __syncwarp(); /* what a lane has acquired, all have */
    return open;
}

/* The run is over: behind the hellos of all ranks, that they are in the same plan, and behind
 * everything that this rank stored and read.  After a failure nothing is ended.  OK: no lane knows of a
 * failure. */
DEV void turn_end(sg_kernel_rank *rank, int lane, uint64_t hash, int baked, int hello, int done,
                  bool ok)
{
    const uint64_t epoch = run_epoch(rank);
    for (int q = lane; hello && q < rank->ranks; q += LANES)
        ok &= hello_wait(rank, q, epoch, hash, SG_KERNEL_STUCK_END, -1);
    if (lane == 0) ok &= !aborted(rank) && load_relaxed((const int32_t *)&rank->claimed) == 0;
    if (!__all_sync(0xffffffff, ok)) return;
    __syncwarp();
    /* Partner: turn_gate() at Q.  What this rank read or stored in this half is behind it. */
    for (int q = lane; done && q < rank->ranks; q += LANES)
        store_release(rank->words[q].done + rank->rank, epoch);
    __syncwarp();
    if (lane != 0) return;
    const int half = run_half(rank, baked);
    rank->last[half] = epoch;
    rank->prev_half = half;
    rank->epoch = epoch + 1;
}

/* What a launch does of it when a block leaves, by the last block: BLOCKS is their number.  All threads
 * of the block have come here through a barrier. */
DEV void turn_leave(const sg_kernel_program &program, const sg_kernel_turn &turn, int lane,
                    uint32_t blocks)
{
    sg_kernel_rank *rank = program.rank;
    bool last = false;
    if (lane == 0) last = count_up(&rank->leaving, blocks);
    if (!__any_sync(0xffffffff, last)) return;
    __syncwarp();
    bool ok = true;
    for (int i = lane; i < turn.waits; i += LANES) {
        const sg_wait &wait = program.wait[turn.wait0 + i];
        const sg_flags f = sg_walk_wait(&wait, 0, 0x7fffffff, 0, 0);
        for (int j = 0; j < f.count; ++j)
            ok &= flag_wait(program, wait.by, f.first + j * f.step, run_epoch(rank), turn.wait_step,
                            -1);
    }
    turn_end(rank, lane, program.hash, program.baked, turn.hello, turn.done, ok);
}
