/* watch_sm90.cuh -- the watcher of the Hopper product (gemm_sm90.cuh): a warp that says hello and waits
 * for the gate, and then for the flags and hellos of all visits of its block, one thread of it but for
 * addends.  Partners: the loader and the storers, through words of shared memory. */
#pragma once
#include "kernel/shape_sm90.cuh"

/* To acquire a flag takes most of a microsecond, which the loader cannot spare every few stages.  So
 * another thread runs ahead and counts, in shared memory, how many steps of the list are ready. */
template <class S> struct Watcher {
    const Param &P;
    const Smem<S> &smem;
    uint64_t epoch;
    uint32_t steps, told;
    bool fresh; /* a flag was seen since the last proxy fence */
};

/* What the flags are about was written by others and is read by the bulk engine next.  Partner:
 * progress_wait() in the loader. */
template <class S> DEV void watcher_tell(Watcher<S> &w)
{
    if (w.fresh) proxy_fence_global();
    if (w.told != w.steps) progress_release(w.smem.watched, w.steps);
    w.told = w.steps, w.fresh = false;
}

template <class S> DEV void watcher_need(Watcher<S> &w, int by, int index, int unit)
{
    const uint32_t id = ((uint32_t)by << 22 ^ (uint32_t)index) + 1;
    const uint32_t word = w.smem.seen + 4 * ((uint32_t)(index ^ by * 41) % SEEN_FLAGS);
    const bool exact = by < 1024 && index < 1 << 22;
    if (exact && shared_load(word) == id) return;
    if (load_acquire(own_flag(w.P.program, by, index)) < w.epoch) {
        watcher_tell(w); /* the loader may as well have the steps before */
        flag_wait(w.P.program, by, index, w.epoch, w.P.step, unit * S::CL);
    }
    w.fresh = true;
    if (exact) shared_store(word, id);
}

template <class S>
DEV void watcher_wait(Watcher<S> &w, const sg_patch &p, const sg_wait &wait, int row, int k0,
                      int tile, int unit)
{
    const sg_flags f =
        sg_walk_wait(&wait, p.row0 + row, sg_walk_min(S::BM, p.rows - row), k0, tile);
    for (int i = 0; i < f.count; ++i) watcher_need(w, wait.by, f.first + i * f.step, unit);
}

/* A rank's own tensor has the shape of its landing: the landing's maps with another address and pitch.
 * The launch before this one may use what is written here.  Partner: storer_map(). */
template <class S> DEV void watcher_remake(const Param &P, int place, const Spot &direct)
{
    launch_wait();
#pragma unroll 1 /* this thread has few registers, and time */
    for (int use = MAP_PIECE; use <= MAP_ROW; ++use) {
        if (P.map_of[place][use] < 0) continue;
        const uint4 *from = (const uint4 *)map_of(P, place, use);
        CUtensorMap *to = map_remade(P, place, use);
#pragma unroll 1
        for (int i = 0; i < (int)(sizeof *to / sizeof *from); ++i) ((uint4 *)to)[i] = from[i];
        map_set_address(to, direct.data);
        map_set_pitch(to, (uint64_t)direct.pitch);
    }
    map_release();
}

/* Waits for the hellos of those into whose own tensors some areas are stored.  Partner: storer_may(). */
template <class S> DEV void watcher_leave(Watcher<S> &w, int to0, int tos)
{
    for (int i = 0; i < tos; ++i) {
        const sg_area &area = w.P.program.to[to0 + i];
        const uint32_t bit = 1u << area.rank % 32, word = hello_place(w.smem, area.rank);
        const uint32_t asked = shared_load(word);
        if (!area.leave || (asked & bit)) continue;
        watcher_tell(w);
        const int q = area.rank;
        if (hello_wait(w.P.program.rank, q, w.epoch, w.P.program.hash, SG_KERNEL_STUCK_LEAVE,
                       w.P.step)) {
            const Spot direct = hello_tensor(w.P.program, q, w.epoch);
            shared_store(word + HELLO_MAY, shared_load(word + HELLO_MAY) | bit);
            const bool maps = w.P.remade[area.buf] >= 0; /* tiles go there, and not rows alone */
            if (direct.data != nullptr && (!maps || w.P.remake != nullptr)) {
                if (maps) watcher_remake<S>(w.P, area.buf, direct);
                shared_store(word + HELLO_DIRECT, shared_load(word + HELLO_DIRECT) | bit);
            }
        }
        progress_release(word, asked | bit);
    }
}

/* By all lanes of the watcher's warp, first of all.  Partner: storer_gate(). */
template <class S> DEV void watcher_enter(const Param &P, const Smem<S> &smem, int lane)
{
    sg_kernel_rank *rank = P.program.rank;
    /* The end of the run before changes the epoch.  Otherwise there is nothing to wait for: a flag of
     * this epoch speaks for itself, whatever still runs in this stream. */
    const bool says = P.turn.begin && P.turn.hello && blockIdx.x == 0;
    sg_kernel_hello *there = nullptr;
    if (says && lane < rank->ranks) there = turn_address(rank, lane);
    if (P.turn.begin) launch_wait();
    if (lane == 0) stamp(smem.stamp, STAMP_WATCHER, STAMP_FREE);
    if (says) turn_hello(rank, there, lane, P.program.hash, P.turn.c, P.turn.c_stride);
    if (!P.turn.gate) return;
    const bool open = turn_gate(rank, own_words(P.program), lane, P.program.baked, P.step);
    if (lane != 0) return;
    stamp(smem.stamp, STAMP_WATCHER, STAMP_GATE);
    proxy_fence_global(); /* the bulk engine stores next to where peers have read */
    progress_release(smem.gate, open ? GATE_OPEN : GATE_SHUT);
}

/* The addends of a tile, each waited for by a lane: one behind the other, look-up and flag of each would
 * cost the end of a launch most of a microsecond. */
template <class S>
DEV void watcher_addends(Watcher<S> &w, const sg_patch &p, int row, int tile, int unit, int lane)
{
    if (lane == 0) watcher_tell(w); /* the loader may as well have the steps before */
    for (int i = lane; i < p.adds; i += LANES) {
        const sg_addend &add = w.P.program.add[p.add0 + i];
        if (!add.waits) continue;
        const sg_flags f =
            sg_walk_wait(&add.wait, p.row0 + row, sg_walk_min(S::BM, p.rows - row), p.k0, tile);
        for (int j = 0; j < f.count; ++j)
            flag_wait(w.P.program, add.wait.by, f.first + j * f.step, w.epoch, w.P.step,
                      unit * S::CL);
    }
    __syncwarp(); /* what a lane has acquired, all have */
    w.fresh = true;
}

/* By all lanes of the watcher's warp. */
template <class S> DEV void watcher(const Param &P, const Smem<S> &smem, int im, int in, int lane)
{
    for (int i = lane; i < SEEN_FLAGS; i += LANES) shared_store(smem.seen + 4 * i, 0);
    __syncwarp();
    if (P.program.rank == nullptr) return;
    Watcher<S> w = {P, smem, run_epoch(P.program.rank), 0, 0, false};
    const bool first = lane == 0;
    /* First the hellos of those to whom rows are carried, LEFT steps of them, by the code that those of tiles
     * take: it is long, and every instance has it. */
    int left = P.leaves ? P.pushes : 0, next = first_unit<S>(P);
    Cursor cursor;
    while (left > 0 || next < P.units) {
        const bool carries = left > 0;
        const int unit = next;
        if (!carries) cursor_move<S>(P, cursor, unit);
        const sg_patch &p = patch_in_list(P, carries ? 0 : cursor.patch);
        const sg_kernel_step *step = P.push + (carries ? P.pushes - left : 0);
        if (first && P.leaves)
            watcher_leave(w, carries ? step->to0 : p.to0, carries ? step->tos : p.tos);
        if (carries) {
            --left;
            continue;
        }
        next += stride_of<S>(P);
        const bool adds = S::ADDS && p.adds;
        if (p.waits == 0 && !adds) continue;
        const Tile t = tile_at<S>(p, unit - cursor.base, im, in);
        const int tile = tile_number(p, t, S::BN), row = t.band * S::BM;
        const int slabs = p.waits ? sg_walk_slabs(&p) : 0;
        for (int s = 0; s < slabs && first; ++s) {
            for (int i = 0; i < p.waits; ++i)
                watcher_wait(w, p, P.program.wait[p.wait0 + i], row, p.k0 + s * p.slab, tile, unit);
            if (++w.steps - w.told >= 4 || w.told < 4) watcher_tell(w);
        }
        if (adds && t.live) watcher_addends(w, p, row, tile, unit, lane);
        w.steps += adds;
        if (first) watcher_tell(w);
        stamp(smem.stamp, STAMP_WATCHER, STAMP_FLAG, cursor.patch);
    }
}
