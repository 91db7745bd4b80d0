/* gemm_sm90.cuh -- the persistent Hopper product that carries out a launch.
 *
 *     C (m x n) = A (m x k) * B (n x k)', rows contiguous, bf16 or f16 in and out, f32 sums
 *
 * One block per SM.  Its first warpgroup moves data, one elected thread per duty; the others
 * multiply.
 *
 *     warp 0        loader   waits for free stages, loads A, B and addends through the bulk engine
 *     warp 1, 2     storer   one per multiplying warpgroup: stores staged pieces, raises flags
 *     warp 3        watcher  waits for flags, as far ahead of the loader as they are up
 *     warpgroup 1.. math     (math_sm90.cuh) 64 or 128 rows of the tile each
 *
 * Units (a tile, or a tile per block of the cluster) are dealt round robin in list order.  Nothing
 * waits for a later unit of the list, so any number of blocks makes progress.  The math warps never
 * touch a flag, and never wait for anything further away than their cluster's barriers. */
#pragma once
#include "kernel/math_sm90.cuh"

/* ---- Watcher -------------------------------------------------------------------------------------------- */

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

/* Waits for the hellos of those whose own tensors the unit stores to.  Partner: storer_may(). */
template <class S> DEV void watcher_leave(Watcher<S> &w, const sg_patch &p)
{
    for (int i = 0; i < p.tos; ++i) {
        const sg_area &area = w.P.program.to[p.to0 + i];
        const uint32_t bit = 1u << area.rank % 32, word = hello_place(w.smem, area.rank);
        const uint32_t asked = shared_load(word);
        if (!area.leave || (asked & bit)) continue;
        watcher_tell(w);
        if (hello_wait(w.P.program.rank, area.rank, w.epoch, SG_KERNEL_STUCK_LEAVE, w.P.step))
            shared_store(word + 8, shared_load(word + 8) | bit);
        progress_release(word, asked | bit);
    }
}

template <class S> DEV void watcher(const Param &P, const Smem<S> &smem, int im, int in)
{
    for (int i = 0; i < SEEN_FLAGS; ++i) shared_store(smem.seen + 4 * i, 0);
    if (P.program.rank == nullptr) return;
    /* No launch_wait(): a flag of this epoch speaks for itself, whatever still runs in this stream,
     * and SG_KERNEL_EARLY is not for the first kernel of a run. */
    Watcher<S> w = {P, smem, P.program.rank->epoch, 0, 0, false};
    Cursor cursor;
    for (int unit = blockIdx.x / S::CL; unit < P.units; unit += gridDim.x / S::CL) {
        cursor_move<S>(P, cursor, unit);
        const sg_patch &p = patch_in_list(P, cursor.patch);
        const bool adds = S::FOLD == FOLD_ADDENDS && p.adds;
        if (P.leaves) watcher_leave(w, p);
        if (p.waits == 0 && !adds) continue;
        const Tile t = tile_at<S>(p, unit - cursor.base, im, in);
        const int tile = tile_number(p, t, S::BN), row = t.band * S::BM;
        const int slabs = p.waits ? sg_walk_slabs(&p) : 0;
        for (int s = 0; s < slabs; ++s) {
            for (int i = 0; i < p.waits; ++i)
                watcher_wait(w, p, P.program.wait[p.wait0 + i], row, p.k0 + s * p.slab, tile, unit);
            if (++w.steps - w.told >= 4 || w.told < 4) watcher_tell(w);
        }
        for (int i = 0; adds && t.live && i < p.adds; ++i) {
            const sg_addend &add = P.program.add[p.add0 + i];
            if (add.waits) watcher_wait(w, p, add.wait, row, p.k0, tile, unit);
        }
        w.steps += adds;
        watcher_tell(w);
    }
}

/* ---- Loader ------------------------------------------------------------------------------------------------ */

/* Where a unit's operands are.  Finding out takes a few hundred cycles (divisions, loads of the
 * list), which the stages that are full by then hide; the first time it does so before it waits for the
 * launch before. */
struct Source {
    const CUtensorMap *a, *b;
    Tile tile;
    int k0, k1, a_k, b_k; /* span of k; what to add to k for columns of A and B */
    int row, column;      /* this block's share of the rows of A and of B */
    int slab, waits, a_place;
    int add0, adds, index; /* of addends: which; which visit of its patch this is */
};

template <class S>
DEV void source_find(Source &s, const Param &P, Cursor &cursor, int unit, int im, int in)
{
    int in_pass;
    const int slice = slice_of<S>(P, unit, &in_pass);
    cursor_move<S>(P, cursor, in_pass);
    const sg_patch p = patch_of(P, cursor);
    const Span span = span_of<S>(P, p, slice);
    s.add0 = p.add0, s.adds = p.adds, s.index = in_pass - cursor.base;
    s.tile = tile_at<S>(p, in_pass - cursor.base, im, in);
    s.k0 = span.k0, s.k1 = span.k1;
    s.a_k = p.a.col0 - p.k0, s.b_k = p.b.col0 - p.k0;
    s.row = p.a.row0 + s.tile.band * S::BM + in * (S::BM / S::CN);
    s.column = p.b.row0 + s.tile.col * S::BN + im * (S::BN / S::CM);
    s.slab = p.slab, s.waits = p.waits, s.a_place = p.a.buf;
    s.a = map_of(P, p.a.buf, MAP_A), s.b = map_of(P, p.b.buf, MAP_B);
}

/* The addends of a tile, piece by piece, as many of a piece's in one stage as fit. */
template <class S>
DEV void load_addends(const Param &P, const Smem<S> &smem, const Source &at, int *half,
                      Ring<S::STAGES> &ring)
{
    for (int piece = 0; piece < S::CHUNKS; ++piece) {
        const int x = piece % S::ACROSS * S::W, y = piece / S::ACROSS * 64;
        for (int add = 0; add < at.adds; add += S::ADDENDS, ring_step(ring)) {
            const int count = at.tile.live ? sg_walk_min(at.adds - add, S::ADDENDS) : 0;
            const uint32_t full = smem.full + 8 * ring.at;
            uint32_t to = smem.stage + ring.at * S::STAGE_BYTES;
            mbar_wait(P, smem.empty + 8 * ring.at, ring.parity ^ 1, ROLE_LOADER);
            mbar_expect(full, count * S::WGS * S::PIECE_BYTES);
            for (int i = 0; i < count; ++i) {
                const sg_area &area = P.program.add[at.add0 + add + i].area;
                const bool tiled = area.tiled;
                const int col = area.col0 + x + (tiled ? 0 : at.tile.col * S::BN);
                const int row = area.row0 + y + (tiled ? at.index : at.tile.band) * S::BM;
                for (int wg = 0; wg < S::WGS; ++wg, to += S::PIECE_BYTES)
                    tma_load(to, map_of(P, area.buf, MAP_PIECE), col, row + wg * S::MI * 64,
                             half_of(P, area.buf, half), full, KEEP_NORMAL);
            }
        }
    }
}

template <class S> DEV void loader(const Param &P, const Smem<S> &smem, int im, int in)
{
    constexpr uint16_t down_mask = (1 << S::CM) - 1;               /* of a column of the cluster */
    constexpr uint16_t over_mask = ((1 << S::CL) - 1) / down_mask; /* of a row: every CM-th bit */
    const int stride = gridDim.x / S::CL;
    Ring<S::STAGES> ring;
    Cursor cursor;
    Source at;
    uint32_t steps = 0;
    int unit = blockIdx.x / S::CL;
    if (unit < P.units) source_find<S>(at, P, cursor, unit, im, in);
    launch_wait(); /* of the launch before us in the stream, if we were started early */
    launch_next();
    int half = -1;
    for (; unit < P.units; unit += stride) {
        const int a_half = half_of(P, at.a_place, &half);
        /* A block that overhangs still multicasts to a live neighbour, so it waits, too. */
        int wake = at.waits ? at.k0 : 0x7fffffff;
        for (int k = at.k0; k < at.k1; k += STAGE_K, ring_step(ring)) {
            while (wake < k + STAGE_K && wake < at.k1) {
                /* Pairs with watcher_tell(). */
                progress_wait(P, smem.watched, ++steps, ROLE_LOADER);
                wake = at.slab > 0 ? wake + at.slab : 0x7fffffff;
            }
            const uint32_t full = smem.full + 8 * ring.at;
            uint32_t to = smem.stage + ring.at * S::STAGE_BYTES;
            /* Pairs with stage_release() of math. */
            mbar_wait(P, smem.empty + 8 * ring.at, ring.parity ^ 1, ROLE_LOADER);
            mbar_expect(full, P.load_bytes);
            if (S::CN == 1)
                tma_load(to, at.a, at.a_k + k, at.row, a_half, full, P.keep_a);
            else
                tma_load_multicast(to + in * (S::A_BYTES / S::CN), at.a, at.a_k + k, at.row, a_half,
                                   full, P.keep_a, over_mask << im);
            to += S::A_BYTES;
            if (S::CM == 1)
                tma_load(to, at.b, at.b_k + k, at.column, 0, full, P.keep_b);
            else
                tma_load_multicast(to + im * (S::B_BYTES / S::CM), at.b, at.b_k + k, at.column, 0,
                                   full, P.keep_b, down_mask << (in * S::CM));
        }
        if (S::FOLD == FOLD_ADDENDS && at.adds) {
            progress_wait(P, smem.watched, ++steps, ROLE_LOADER);
            load_addends<S>(P, smem, at, &half, ring);
        }
        if (unit + stride < P.units) source_find<S>(at, P, cursor, unit + stride, im, in);
    }
}

/* ---- Storer of one math warpgroup -------------------------------------------------------------------------- */

/* May a tile be stored into the own tensor of rank Q?  Partner: watcher_leave(). */
template <class S> DEV bool storer_may(const Param &P, const Smem<S> &smem, int q)
{
    const uint32_t bit = 1u << q % 32, word = hello_place(smem, q);
    uint64_t start = 0;
    for (uint32_t tries = 1; !(progress_acquire(word) & bit); ++tries)
        if (tries % 4096 == 0 && overdue(P, &start, ROLE_STORER)) return false;
    return shared_load(word + 8) & bit;
}

/* A visit as the storers see it. */
struct Target {
    const sg_patch &p;
    int index; /* which visit of the patch it is */
    Tile tile;
};

/* Stores the piece at FROM, whose upper left corner is (ROW, COL) of the tile, to all areas. */
template <class S>
DEV void store_piece(const Param &P, const Smem<S> &smem, int *half, const Target &v, int row,
                     int col, uint32_t from)
{
    const int down = v.tile.band * S::BM + row, over = v.tile.col * S::BN + col;
    const int left = v.p.rows - down;
    for (int i = 0; i < v.p.tos; ++i) {
        const sg_area &area = P.program.to[v.p.to0 + i];
        const int place = area.buf, z = half_of(P, place, half);
        if (area.tiled) {
            tma_store(map_of(P, place, MAP_PIECE), area.col0 + col,
                      area.row0 + v.index * S::BM + row, z, from);
            continue;
        }
        if (left <= 0 || over >= v.p.cols) continue;
        if (area.leave && !storer_may(P, smem, area.rank)) continue;
        const int x = area.col0 + over, y = area.row0 + down;
        if (left >= 64 || area.row0 + v.p.rows == P.program.place[place].rows) {
            tma_store(map_of(P, place, MAP_PIECE), x, y, z, from);
        } else { /* other rows follow in this matrix */
            for (int r = 0; r < left; ++r)
                tma_store(map_of(P, place, MAP_ROW), x, y + r, z, from + r * S::W * 2);
        }
    }
}

/* Brings what the first store and raise need into the caches, while there is nothing to store: at
 * the end of a short launch each of these loads would be exposed. */
template <class S> DEV void storer_touch(const Param &P, const sg_patch &p)
{
    int sum = P.program.rank ? (int)P.program.rank->epoch + P.program.rank->rank : 0;
    for (int i = 0; i < p.tos; ++i) {
        const sg_area &area = P.program.to[p.to0 + i];
        sum += area.row0 + area.col0 + P.program.place[area.buf].rows + P.flip[area.buf];
        map_prefetch(map_of(P, area.buf, MAP_PIECE));
    }
    for (int i = 0; i < p.raises; ++i) {
        const sg_raise &r = P.program.raise[p.raise0 + i];
        sum += r.flag0 + (int)(uintptr_t)flag_word(&P.program.rank->words[r.at], 0, r.flag0);
        if (r.counter >= 0) sum += P.program.raisers[r.counter];
    }
    compute_now(sum);
}

template <class S> DEV void storer(const Param &P, const Smem<S> &smem, int im, int in, int wg)
{
    const uint32_t slots = smem.slot + wg * S::SLOTS * S::PIECE_BYTES;
    const uint32_t full = smem.slot_full + 8 * wg * S::SLOTS;
    const uint32_t empty = smem.slot_empty + 8 * wg * S::SLOTS;
    Ring<S::SLOTS> ring;
    Cursor cursor;
    int behind = 0;        /* pieces issued whose slots are not given back yet, at most SLOTS - 1 */
    uint32_t finished = 0; /* visits with a raise whose stores are complete */
    if (blockIdx.x / S::CL < P.units) storer_touch<S>(P, P.first);
    launch_wait();
    const uint64_t epoch = P.program.rank ? P.program.rank->epoch : 0;
    int half = -1;
    for (int unit = blockIdx.x / S::CL; unit < P.units; unit += gridDim.x / S::CL) {
        int in_pass;
        if (slice_of<S>(P, unit, &in_pass) != 0) continue; /* math stores these sums itself */
        cursor_move<S>(P, cursor, in_pass);
        const sg_patch &p = patch_in_list(P, cursor.patch);
        const int index = in_pass - cursor.base;
        const Target v = {p, index, tile_at<S>(p, index, im, in)};
        for (int piece = 0; piece < S::CHUNKS; ++piece, ring_step(ring)) {
            const uint32_t from = slots + ring.at * S::PIECE_BYTES;
            /* Pairs with stage_piece() of math. */
            mbar_wait(P, full + 8 * ring.at, ring.parity, ROLE_STORER);
            if (v.tile.live)
                store_piece(P, smem, &half, v, (wg * S::MI + piece / S::ACROSS) * 64,
                            piece % S::ACROSS * S::W, from);
            bulk_commit();
            if (++behind == S::SLOTS) { /* the oldest piece is in the slot after this */
                bulk_wait_read<S::SLOTS - 1>();
                mbar_arrive(empty + 8 * (ring.at + 1 == S::SLOTS ? 0 : ring.at + 1));
                --behind;
            }
        }
        if (p.raises == 0 || !v.tile.live) continue;
        const int tile = tile_number(p, v.tile, S::BN);
        if (wg + 1 < S::WGS) {
            bulk_wait<0>();
            progress_release(smem.progress + 4 * wg, ++finished); /* to the last storer */
            continue;
        }
        for (int i = 0; i < p.raises; ++i) {
            const sg_raise r = P.program.raise[p.raise0 + i];
            const Raise x = raise_find(P.program, r, r.per == SG_PER_BAND ? v.tile.band : tile);
            if (i == 0) {
                bulk_wait<0>();
                ++finished;
                for (int other = 0; other < wg; ++other)
                    progress_wait(P, smem.progress + 4 * other, finished, ROLE_STORER);
            }
            raise_fire(x, epoch);
        }
    }
    bulk_wait<0>();
}

/* ---- Kernel --------------------------------------------------------------------------------------------------- */

template <class S>
__global__ void __launch_bounds__(S::THREADS, 1) gemm_sm90(const __grid_constant__ Param P)
{
    extern __shared__ uint8_t raw[];
    const Smem<S> smem = smem_layout<S>(raw);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const int rank = S::CL == 1 ? 0 : (int)cluster_rank(), im = rank % S::CM, in = rank / S::CM;
    if (threadIdx.x == 0) {
        map_prefetch(&P.map[0]);
        map_prefetch(&P.map[1]);
        for (int i = 0; i < S::STAGES; ++i) {
            mbar_init(smem.full + 8 * i, 1); /* the loader, and the bytes it announced */
            mbar_init(smem.empty + 8 * i, S::WGS * S::READERS);
        }
        for (int i = 0; i < S::WGS * S::SLOTS; ++i) {
            mbar_init(smem.slot_full + 8 * i, 4); /* a thread per warp of the warpgroup */
            mbar_init(smem.slot_empty + 8 * i, 1);
        }
        /* Progress words, watched and hello. */
        for (int i = 0; i < 8; ++i) progress_release(smem.progress + 4 * i, 0);
        mbar_init_visible();
    }
    if (S::CL > 1)
        cluster_meet();
    else
        __syncthreads();
    if (warp < 4) {
        if (S::WGS > 1) regs_down<S::MOVER_REGS>();
        if (warp == 0) {
            if (elect_one()) loader<S>(P, smem, im, in);
        } else if (warp <= S::WGS) {
            if (elect_one()) storer<S>(P, smem, im, in, warp - 1);
        } else if (warp == 3) {
            if (elect_one()) watcher<S>(P, smem, im, in);
        }
        __syncwarp();
    } else {
        if (S::WGS > 1) regs_up<S::MATH_REGS>();
        const int to = warp % 4, lane = threadIdx.x % 32;
        const bool tells = lane == 0 && to < S::CL && (to % S::CM == im || to / S::CM == in);
        Math<S> math = {P, smem, warp / 4 - 1, (int)threadIdx.x % 128, to, lane, im, in, tells};
        math_run(math);
    }
    if (S::CL > 1) cluster_meet(); /* peers arrive on our barriers until their last visit is done */
}
