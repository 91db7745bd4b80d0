/* watch_sm90.cuh -- the watcher of the Hopper product (gemm_sm90.cuh): a warp that says hello and
 * waits for the gate, and then for the flags and hellos of all visits of its block.  Partners: the
 * loader and the storers, through words of shared memory. */
#pragma once
#include "kernel/wait_sm90.cuh"

/* To acquire a flag takes most of a microsecond, which the loader cannot spare every few stages.
 * So another warp runs ahead and counts, in shared memory, how many steps of the list are ready.
 * All lanes hold the same but LANE. */
template <class S> struct Watcher {
    const Param &P;
    const Smem<S> &smem;
    uint64_t epoch;
    int lane;
    uint32_t steps;
    /* A visit whose flags have all been seen: its patch, if that has one wait,
     * and the first slab's flags. */
    int patch;
    sg_flags flags;
};

/* What the flags are about was written by others and is read by the bulk engine next.  Partner:
 * progress_wait() in the loader. */
template <class S> DEV void watcher_tell(Watcher<S> &w)
{
    if (w.lane != 0 || w.steps == 0) return; /* watcher_first() may have told of more */
    proxy_fence_global();
    progress_release(w.smem.watched, w.steps);
}

template <class S>
DEV sg_flags watcher_flags(const sg_patch &p, const sg_wait &wait, int row, int k0, int tile)
{
    return sg_walk_wait(&wait, p.row0 + row, sg_walk_min(S::BM, p.rows - row), k0, tile);
}

/* Slabs of a visit of P that the loader asks for. */
template <class S> DEV int watcher_count(const sg_patch &p)
{
    return S::GOES_ON ? sg_walk_all_slabs(&p) : sg_walk_slabs(&p);
}

/* Is all there that slab SLAB reads?  WAITS: waits for what is not, in order. */
template <class S>
DEV bool watcher_sees(const Watcher<S> &w, int patch, int row, int slab, int tile, int unit,
                      bool waits)
{
    /* Where patches go on with a product, each is a slab of it. */
    const sg_patch &p = patch_in_list(w.P, patch + (S::GOES_ON ? slab * w.P.goes_on : 0));
    const int k0 = p.k0 + slab * p.slab;
    for (int i = 0; i < p.waits; ++i) {
        const sg_wait &wait = w.P.program.wait[p.wait0 + i];
        const sg_flags f = watcher_flags<S>(p, wait, row, k0, tile);
        for (int j = 0; j < f.count; ++j) {
            const int index = f.first + j * f.step;
            if (waits)
                flag_wait(w.P.program, wait.by, index, w.epoch, w.P.step, unit * S::CL);
            else if (load_acquire(own_flag(w.P.program, wait.by, index)) < w.epoch)
                return false;
        }
    }
    return true;
}

/* Does a visit need the same flags as the one remembered?  It is remembered from now on: a block's
 * next tile is often beside its last one. */
template <class S>
DEV bool watcher_again(Watcher<S> &w, const sg_patch &p, int patch, int row, int tile)
{
    const sg_flags f = watcher_flags<S>(p, w.P.program.wait[p.wait0], row, p.k0, tile);
    const bool same =
        p.waits == 1 && patch == w.patch && f.first == w.flags.first && f.count == w.flags.count;
    w.patch = p.waits == 1 ? patch : -1, w.flags = f;
    return same;
}

/* Slabs of a tile, each looked up by a lane: one behind the other, they would come late for a
 * launch's first tile. */
template <class S> DEV void watcher_slabs(Watcher<S> &w, int patch, int row, int tile, int unit)
{
    const int slabs = watcher_count<S>(patch_in_list(w.P, patch));
    for (int at = 0; at < slabs;) {
        const int slab = at + w.lane;
        const bool lacks = slab < slabs && !watcher_sees(w, patch, row, slab, tile, unit, false);
        const uint32_t lacking = __ballot_sync(0xffffffff, lacks);
        const int there = lacking != 0 ? __ffs((int)lacking) - 1 : LANES;
        __syncwarp(); /* what a lane has acquired, all have */
        w.steps += sg_walk_min(there, slabs - at);
        if (there > 0) watcher_tell(w); /* the loader may as well have these before */
        at += there;
        if (lacking == 0) continue;
        if (w.lane == there) watcher_sees(w, patch, row, slab, tile, unit, true);
        __syncwarp();
        ++w.steps, ++at;
        watcher_tell(w);
    }
}

/* A rank's own tensor has the shape of its landing: the landing's maps with another address and
 * pitch.  The launch before this one may use what is written here.  Partner: storer_map(). */
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

/* Waits for the hellos of those into whose own tensors some areas are
 * stored.  Partner: storer_may(). */
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
        proxy_fence_global(); /* as in watcher_enter() */
        progress_release(word, asked | bit);
    }
}

/* By all lanes of the watcher's warp, first of all.  Partner: storer_gate(). */
template <class S> DEV void watcher_enter(const Param &P, const Smem<S> &smem, int lane)
{
    sg_kernel_rank *rank = P.program.rank;
    /* The end of the run before changes the epoch.  Otherwise there is nothing to wait for: a flag
     * of this epoch speaks for itself, whatever still runs in this stream. */
    const bool says = P.protocol.begin && P.protocol.hello && blockIdx.x == 0;
    sg_kernel_hello *there = nullptr;
    if (says && lane < rank->ranks) there = hello_address(rank, lane);
    if (P.protocol.begin) launch_wait();
    if (lane == 0) stamp(smem.stamp, STAMP_WATCHER, STAMP_FREE);
    if (says) protocol_hello(rank, there, lane, P.program.hash, P.protocol.c, P.protocol.c_stride);
    if (!P.protocol.gate) return;
    const bool open = protocol_gate(rank, own_words(P.program), lane, P.program.baked, P.step);
    if (lane != 0) return;
    stamp(smem.stamp, STAMP_WATCHER, STAMP_GATE);
    proxy_fence_global(); /* the bulk engine stores next to where peers have read */
    progress_release(smem.gate, open ? GATE_OPEN : GATE_SHUT);
}

/* The addends of a tile, each waited for by a lane: one behind the other, look-up and flag of each
 * would cost the end of a launch most of a microsecond. */
template <class S>
DEV void watcher_addends(Watcher<S> &w, const sg_patch &p, int row, int tile, int unit)
{
    for (int i = w.lane; i < p.adds; i += LANES) {
        const sg_addend &add = w.P.program.add[p.add0 + i];
        if (!add.awaited) continue;
        const sg_flags f = watcher_flags<S>(p, add.wait, row, p.k0, tile);
        for (int j = 0; j < f.count; ++j)
            flag_wait(w.P.program, add.wait.by, f.first + j * f.step, w.epoch, w.P.step,
                      unit * S::CL);
    }
    __syncwarp(); /* what a lane has acquired, all have */
}

/* What a block begins with is often there already, and looking it up takes some microseconds, in
 * which nothing else runs.  So the host has found out which flag it is (deal_flag()), and if that
 * is up, the loader is told of a step at once. */
template <class S> DEV void watcher_first(Watcher<S> &w)
{
    const int32_t flag = w.P.deal[seat_of(w.smem)].flag;
    if (S::FOLD == FOLD_SLICES || first_unit<S>(w.P, w.smem) >= w.P.units || flag < 0) return;
    const int by = flag >> SG_KERNEL_DEAL_BITS, index = flag & ((1 << SG_KERNEL_DEAL_BITS) - 1);
    if (load_acquire(own_flag(w.P.program, by, index)) < w.epoch) return;
    w.steps = 1;
    watcher_tell(w);
    w.steps = 0; /* what follows counts all of them */
}

/* Visit UNIT of the patch of CURSOR. */
template <class S>
DEV void watcher_visit(Watcher<S> &w, const Cursor &cursor, int unit, int im, int in)
{
    const sg_patch &p = patch_in_list(w.P, cursor.patch);
    /* Storers count units, and the loader waits for nothing. */
    const bool counts = S::SLOT_ADDS || (S::ONTO && w.P.onto);
    const bool adds = (S::ADDS || counts) && p.adds;
    const bool more = S::GOES_ON && w.P.goes_on && p.more > 0;
    if (p.waits == 0 && !more && !adds && !counts) return;
    const Tile t = tile_at<S>(p, unit - cursor.base, im, in);
    const int tile = tile_number(p, t, S::BN), row = t.band * S::BM;
    if (p.waits > 0 && !more && watcher_again(w, p, cursor.patch, row, tile))
        w.steps += sg_walk_slabs(&p);
    else if (p.waits > 0 || more)
        watcher_slabs(w, cursor.patch, row, tile, unit);
    watcher_tell(w);
    if (adds && t.live) watcher_addends(w, p, row, tile, unit);
    w.steps += counts ? 1 : adds;
    watcher_tell(w);
    stamp(w.smem.stamp, STAMP_WATCHER, STAMP_FLAG, cursor.patch);
}

/* By all lanes of the watcher's warp. */
template <class S> DEV void watcher(const Param &P, const Smem<S> &smem, int im, int in, int lane)
{
    if (P.program.rank == nullptr) return;
    Watcher<S> w = {P, smem, run_epoch(P.program.rank), lane, 0, -1, {0, 0, 0}};
    watcher_first(w);
    /* First the hellos of those to whom rows are carried, LEFT steps of them, by the code that
     * those of tiles take: it is long, and every instance has it. */
    int left = P.leaves ? P.pushes : 0, unit = first_unit<S>(P, smem);
    Cursor cursor;
    while (left > 0 || unit < P.units) {
        if (left == 0) cursor_move<S>(P, smem, cursor, unit);
        const sg_patch &p = patch_in_list(P, left > 0 ? 0 : cursor.patch);
        const sg_kernel_step *step = P.push + (left > 0 ? P.pushes - left : 0);
        if (P.leaves && lane == 0)
            watcher_leave(w, left > 0 ? step->to0 : p.to0, left > 0 ? step->tos : p.tos);
        __syncwarp();
        if (left > 0) {
            --left;
            continue;
        }
        watcher_visit(w, cursor, unit, im, in);
        unit += stride_of<S>(P);
    }
}
