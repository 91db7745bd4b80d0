// The persistent Hopper GEMM that reads a patch list.
//
//     C (m x n, rows contiguous) = A (m x k, rows contiguous) * B (n x k, rows contiguous)',   bf16 or f16 in and out, f32 sums
//
// One block per SM.  Its first warpgroup moves data, one elected thread per duty; the others multiply.
//
//     warp 0        loader   waits for free stages, loads A, B and addends through the bulk engine
//     warp 1, 2     storer   one per multiplying warpgroup: stores staged pieces, raises flags
//     warp 3        watcher  waits for the flags of A, as far ahead of the loader as they are up
//     warpgroup 1.. math     64 (or 128) rows of the tile each: wgmma from the stages, epilogue into staging slots
//
// The math warps never touch a flag, and never wait for anything further away than this block's (cluster's) barriers.
// The two math warpgroups drift apart by about one epilogue, so that one multiplies while the other stores.
#pragma once
#include "patch.h"
#include "ptx.cuh"
#include "wgmma.cuh"

enum Fold { FOLD_NONE, FOLD_WIRE, FOLD_F32 };  // what tiled areas hold: nothing, input-typed values, f32 partial sums

template <class Elem, int Bm, int Bn, int Groups, int Cm, int Cn, int Slots, Fold Folding> struct Shape {
    using T = Elem;
    static constexpr int BM = Bm, BN = Bn;               // tile
    static constexpr int WGS = Groups, MI = BM / WGS / 64;  // math warpgroups, 64-row blocks of each
    static constexpr int CM = Cm, CN = Cn, CL = CM * CN;  // cluster: tiles down (share B) and across (share A)
    static constexpr Fold FOLD = Folding;
    static constexpr int W = BN % 64 == 0 ? 64 : BN % 32 == 0 ? 32 : 16;  // columns of one staged piece
    static constexpr int A_BYTES = BM * 128, B_BYTES = BN * 128, STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int PIECE_BYTES = 64 * W * 2, SLOTS = Slots, VECTORS = W / 16;  // 16-byte vectors a thread has in a piece
    static constexpr int CHUNKS = MI * BN / W;                                       // pieces of a math warpgroup's part of the tile
    static constexpr int TILE_BYTES = BM * BN * (FOLD == FOLD_F32 ? 4 : 2);          // in a tiled area
    // Registers for a finished, rounded tile beside the accumulators of the next: the epilogue then hides under its products.
    static constexpr bool HOLDS = MI * BN / 2 + MI * BN / 4 <= 192;
    static constexpr int ADDENDS = STAGE_BYTES / (WGS * PIECE_BYTES);                // pieces of addends that fit a stage
    static constexpr int SLOT_BYTES = WGS * SLOTS * PIECE_BYTES;
    static constexpr int ROOM = 232448 - 1024 /* alignment */ - 1024 /* barriers, memory of flags */ - SLOT_BYTES;
    static constexpr int STAGES = ROOM / STAGE_BYTES < 12 ? ROOM / STAGE_BYTES : 12;
    static constexpr int SMEM = 1024 + STAGES * STAGE_BYTES + SLOT_BYTES + 1024;
    static constexpr int THREADS = 128 * (1 + WGS);
    // 504 registers for a thread of each of three warpgroups: what the math part of a shape can spare goes to the movers.
    static constexpr bool TIGHT = MI == 2 && (BN >= 192 || FOLD == FOLD_F32);
    static constexpr int MOVER_REGS = TIGHT ? 40 : 56, MATH_REGS = TIGHT ? 232 : 224;
    // Blocks that read what this block's loader multicasts: those in its row and in its column of the cluster.
    static constexpr int READERS = CM + CN - 1;
    static_assert(BM % (64 * WGS) == 0 && BN % 16 == 0 && WGS <= 2 && (BN / CM) % 8 == 0 && (BM / CN) % 8 == 0, "tile");
    static_assert(STAGES >= 3 && WGS * PIECE_BYTES <= STAGE_BYTES, "shared memory");
};

// ---------------------------------------------------------------- bounded waiting
DEV bool gave_up(const lab_launch &L) { return *(volatile uint32_t *)&L.trouble->abort != 0; }

DEV void give_up(const lab_launch &L, uint32_t role, uint32_t patch, uint32_t index, uint64_t seen, uint64_t wanted) {
    if (atomicCAS_system(&L.trouble->abort, 0u, 1u) == 0u) {
        L.trouble->role = role, L.trouble->patch = patch, L.trouble->index = index;
        L.trouble->seen = seen, L.trouble->wanted = wanted;
    }
}

enum Role { ROLE_LOADER = 1, ROLE_STORER, ROLE_MATH, ROLE_FLAG };

// A barrier of this block or cluster. Missing the limit means a defect of this file, but even then nothing hangs.
DEV void mbar_wait(const lab_launch &L, uint32_t bar, uint32_t parity, Role role) {
    if (mbar_try(bar, parity)) return;
    uint64_t start = 0;
    for (uint32_t tries = 1; !mbar_try(bar, parity); ++tries) {
        if (tries % 1024 != 0) continue;
        if (gave_up(L)) return;
        if (start == 0) start = now_ns();
        if (now_ns() - start > 4 * L.limit_ns) return give_up(L, role, blockIdx.x, bar, parity, 0);
    }
}

// A flag: acquires what its raiser released (flag_release in raise() below, or a copy engine's copy of the epoch word).
template <bool NEAR = false> DEV void flag_wait(const lab_launch &L, const uint64_t *flag, uint32_t patch, uint32_t index) {
    auto read = [&] { return NEAR ? flag_acquire_gpu(flag) : flag_acquire(flag); };
    uint64_t seen = read();
    if (seen >= L.epoch) return;
    for (uint64_t start = now_ns(); (seen = read()) < L.epoch;) {
        if (gave_up(L)) return;
        if (now_ns() - start > L.limit_ns) return give_up(L, ROLE_FLAG, patch, index, seen, L.epoch);
    }
}

// A count in shared memory that another warp of this block moves on (and which is itself bounded in its waiting).
DEV void progress_wait(const lab_launch &L, uint32_t word, uint32_t target) {
    for (uint32_t tries = 1; progress_acquire(word) < target; ++tries)
        if (tries % 256 == 0 && gave_up(L)) return;
}

// ---------------------------------------------------------------- places in shared memory
template <class S> struct Smem {
    uint32_t stage, slot, full, empty, slot_full, slot_empty, progress, watched, seen;
    DEV Smem make(void *raw) {
        uint32_t at = (smem_addr(raw) + 1023) & ~1023u;  // a swizzle atom is 1024 bytes
        Smem s;
        s.stage = at, s.slot = at + S::STAGES * S::STAGE_BYTES;
        s.full = s.slot + S::SLOT_BYTES, s.empty = s.full + 8 * S::STAGES;
        s.slot_full = s.empty + 8 * S::STAGES, s.slot_empty = s.slot_full + 8 * S::WGS * S::SLOTS;
        s.progress = s.slot_empty + 8 * S::WGS * S::SLOTS, s.watched = s.progress + 12, s.seen = s.progress + 16;
        return s;
    }
};

// A position in a ring of N buffers, and the parity of the barrier phase that the next wait there is about.
template <int N> struct Ring {
    int at = 0;
    uint32_t parity = 0;
    __device__ __forceinline__ void step() {
        if (++at == N) at = 0, parity ^= 1;
    }
};

// Which patch visit v is in; every role walks the list by itself.
struct Cursor {
    int patch = 0, base = 0;
    __device__ __forceinline__ const lab_patch &at(const lab_launch &L, int v) {
        while (v - base >= L.patch[patch].visits) base += L.patch[patch++].visits;
        return L.patch[patch];
    }
};

// Where visit v is. Finding out takes a few hundred cycles (divisions, loads of the list), so the loader looks one visit ahead.
template <class S> struct Place {
    const lab_patch *p;
    int band, col;
    bool live;
    __device__ __forceinline__ void find(const lab_launch &L, Cursor &cursor, int v, int im, int in) {
        p = &cursor.at(L, v);
        live = lab_walk(p, v - cursor.base, S::CM, S::CN, im, in, &band, &col);
    }
    // This block's share of the rows of A, and of the rows of B.
    __device__ __forceinline__ int row(int in) const { return p->a_row + band * S::BM + in * (S::BM / S::CN); }
    __device__ __forceinline__ int column(int im) const { return p->col + col * S::BN + im * (S::BN / S::CM); }
};

DEV int slabs_of(const lab_patch &p) { return (p.k1 - p.k0 + LAB_SLAB - 1) / LAB_SLAB; }

// ---------------------------------------------------------------- watcher
// The columns of A at which the next flag counts, after column k; the same steps for watcher and loader.
DEV int next_wait(const lab_patch &p, int k) { return p.wait_k ? (k / p.wait_k + 1) * p.wait_k : 0x7fffffff; }

constexpr int SEEN_WORDS = 64;  // flags this block has acquired in this launch: the first 2048 are remembered, a bit each

// To acquire a flag takes most of a microsecond, which the loader cannot spare every few stages.  So another thread runs ahead
// and counts, in shared memory, how many steps of the list are ready; the loader only looks at the count.
template <class S> struct Watcher {
    const lab_launch &L;
    const Smem<S> &smem;
    uint32_t steps = 0, told = 0;
    bool fresh = false;  // a flag was seen since the last proxy fence

    // What the flags are about was written by others, and is read by the bulk engine next.  Partner: the acquire in loader.
    __device__ __forceinline__ void tell() {
        if (fresh) proxy_fence_global();
        if (told != steps) progress_release(smem.watched, steps);
        told = steps, fresh = false;
    }
    __device__ __forceinline__ void need(const uint64_t *flag, int patch, int index) {
        if (flag_acquire(flag) < L.epoch) tell(), flag_wait(L, flag, patch, index);  // the loader may as well have the steps before
        fresh = true;
    }
    // One of the flags of A, unless this block has seen it before.
    __device__ __forceinline__ void need_rows(int patch, int index) {
        uint32_t word = smem.seen + index / 32 % SEEN_WORDS * 4, bit = index < 32 * SEEN_WORDS ? 1u << index % 32 : 0, bits = shared_load(word);
        if (bits & bit) return;
        need(L.wait_flag + index, patch, index);
        shared_store(word, bits | bit);
    }

    __device__ __forceinline__ void run(int im, int in) {
        // No launch_wait: a flag of this epoch speaks for itself, whatever is still running in this stream.
        Cursor cursor;
        for (int i = 0; i < SEEN_WORDS; ++i) shared_store(smem.seen + 4 * i, 0);
        const int first = blockIdx.x / S::CL;
        for (int v = first; v < L.visits; v += gridDim.x / S::CL) {
            const lab_patch &p = cursor.at(L, v);
            const bool adds = S::FOLD == FOLD_WIRE && p.adds;
            if (p.wait_rows == 0 && !adds) continue;
            int band, col;
            const bool live = lab_walk(&p, v - cursor.base, S::CM, S::CN, im, in, &band, &col);
            const int row = band * S::BM, left = (p.bands - band) * S::BM, rows = left < S::BM ? left : S::BM;
            for (int k = p.wait_rows && band < p.bands ? p.k0 : p.k1; k < p.k1; k = next_wait(p, k)) {
                for (int chunk = row / p.wait_rows; chunk * p.wait_rows < row + rows; ++chunk)
                    need_rows(cursor.patch, p.wait0 + chunk * L.wait_slabs + (p.wait_k ? k / p.wait_k : 0));
                if (++steps - told >= 4 || v == first) tell();
            }
            if constexpr (S::FOLD == FOLD_WIRE) {
                for (int add = 0, tile = band * p.cols + col; add < p.adds && live; ++add)
                    need(L.area[p.add0 + add].flag + tile, cursor.patch, 1000 * add + tile);
                steps += adds;
            }
            tell();
        }
    }
};

// ---------------------------------------------------------------- loader
// The addends of a tile, chunk by chunk, as many of a chunk's in one stage as fit.
template <class S> DEV void load_addends(const lab_launch &L, const Smem<S> &smem, const lab_patch &p, int tile, bool live, Ring<S::STAGES> &ring,
                                         uint32_t step) {
    constexpr uint32_t bytes = S::WGS * S::PIECE_BYTES;
    progress_wait(L, smem.watched, step);  // usually long since raised: this tile comes last
    for (int chunk = 0; chunk < S::CHUNKS; ++chunk) {
        for (int add = 0; add < p.adds; add += S::ADDENDS, ring.step()) {
            const int count = live ? (p.adds - add < S::ADDENDS ? p.adds - add : S::ADDENDS) : 0;
            const uint32_t full = smem.full + 8 * ring.at, to = smem.stage + ring.at * S::STAGE_BYTES;
            mbar_wait(L, smem.empty + 8 * ring.at, ring.parity ^ 1, ROLE_LOADER);
            mbar_expect(full, count * bytes);
            for (int i = 0; i < count; ++i)
                bulk_load(to + i * bytes, L.area[p.add0 + add + i].base + (int64_t)tile * S::TILE_BYTES + chunk * bytes, bytes, full);
        }
    }
}

template <class S> DEV void loader(const lab_launch &L, const Smem<S> &smem, int im, int in) {
    constexpr uint16_t column_mask = (1 << S::CM) - 1, row_mask = ((1 << S::CL) - 1) / column_mask;  // every CM-th bit
    const int stride = gridDim.x / S::CL;
    Ring<S::STAGES> ring;
    Cursor cursor;
    Place<S> next;
    uint32_t steps = 0;
    int v = blockIdx.x / S::CL;
    if (v < L.visits) next.find(L, cursor, v, im, in);
    launch_wait();  // of the launch before us in the stream, if we were started early
    launch_next();
    for (; v < L.visits; v += stride) {
        const Place<S> at = next;
        const lab_patch &p = *at.p;
        const CUtensorMap *a = &L.a[p.a];
        const int row = at.row(in), column = at.column(im);
        // A block that overhangs to the right still multicasts its share of A to a live neighbour, so it waits too.
        int wake = p.wait_rows && at.band < p.bands ? p.k0 : 0x7fffffff;
        const int halfway = (p.k0 + p.k1) / (2 * LAB_SLAB) * LAB_SLAB;
        for (int k = p.k0; k < p.k1; k += LAB_SLAB, ring.step()) {
            if (k >= wake) {
                progress_wait(L, smem.watched, ++steps);  // pairs with the release in watcher
                wake = next_wait(p, k);
            }
            uint32_t full = smem.full + 8 * ring.at, to = smem.stage + ring.at * S::STAGE_BYTES;
            if (L.burst > 1 && (k - p.k0) / LAB_SLAB % L.burst == 0) {
                // Neighbouring slabs are neighbours in memory: asked for together, they cost DRAM fewer row changes.
                int last = ring.at + L.burst - 1;
                bool wraps = last >= S::STAGES;
                mbar_wait(L, smem.empty + 8 * (wraps ? last - S::STAGES : last), ring.parity ^ 1 ^ wraps, ROLE_LOADER);
            }
            mbar_wait(L, smem.empty + 8 * ring.at, ring.parity ^ 1, ROLE_LOADER);  // pairs with release() of math
            mbar_expect(full, L.load_bytes);
            if (S::CN == 1) tma_load(to, a, k, row, full, L.keep_a);
            else tma_load_multicast(to + in * (S::A_BYTES / S::CN), a, k, row, full, L.keep_a, row_mask << im);
            to += S::A_BYTES;
            if (S::CM == 1) tma_load(to, &L.b, k, column, full, L.keep_b);
            else tma_load_multicast(to + im * (S::B_BYTES / S::CM), &L.b, k, column, full, L.keep_b, column_mask << (in * S::CM));
            if (k == halfway && v + stride < L.visits) next.find(L, cursor, v + stride, im, in);  // all stages are full now
        }
        if constexpr (S::FOLD == FOLD_WIRE)
            if (p.adds) load_addends(L, smem, p, at.band * p.cols + at.col, at.live, ring, ++steps);
    }
}

// ---------------------------------------------------------------- storer of one math warpgroup
// Tile `tile` of this patch is complete and visible to this thread.  Partner: flag_wait, here or at a peer.
DEV void raise(const lab_launch &L, const lab_patch &p, int band, int tile) {
    if (p.raise == RAISE_TILE) return flag_release(L.area[p.area].flag + tile, L.epoch);
    int group = band / p.raise_bands, first = group * p.raise_bands;
    int bands = p.bands - first < p.raise_bands ? p.bands - first : p.raise_bands;
    uint32_t *count = L.count + p.raise0 + group;
    if (count_up(count) + 1 < (uint32_t)(bands * p.cols)) return;
    store_relaxed(count, 0);  // nobody counts here again in this launch; at rest for the next
    flag_release(L.raise_flag + p.raise0 + group, L.epoch);
}

template <class S> DEV void storer(const lab_launch &L, const Smem<S> &smem, int im, int in, int wg) {
    const uint32_t slots = smem.slot + wg * S::SLOTS * S::PIECE_BYTES;
    const uint32_t full = smem.slot_full + 8 * wg * S::SLOTS, empty = smem.slot_empty + 8 * wg * S::SLOTS;
    Ring<S::SLOTS> ring;
    Cursor cursor;
    int behind = 0;         // pieces issued whose slots are not given back yet, at most SLOTS - 1
    uint32_t finished = 0;  // visits with a raise whose stores are complete
    launch_wait();
    for (int v = blockIdx.x / S::CL; v < L.visits; v += gridDim.x / S::CL) {
        const lab_patch &p = cursor.at(L, v);
        int band, col;
        bool live = lab_walk(&p, v - cursor.base, S::CM, S::CN, im, in, &band, &col);
        bool tiled = S::FOLD != FOLD_NONE && p.c_maps == 0;
        if (S::FOLD == FOLD_F32 && tiled) continue;  // the math warps do that themselves
        int tile = band * p.cols + col;
        for (int piece = 0; piece < S::CHUNKS; ++piece, ring.step()) {
            uint32_t from = slots + ring.at * S::PIECE_BYTES;
            mbar_wait(L, full + 8 * ring.at, ring.parity, ROLE_STORER);  // pairs with stage_done() of math
            if (live && tiled) {
                char *to = L.area[p.area].base + (int64_t)tile * S::TILE_BYTES + (piece * S::WGS + wg) * S::PIECE_BYTES;
                bulk_store(to, from, S::PIECE_BYTES);
            } else if (live) {
                constexpr int across = S::BN / S::W;
                int y = p.c_row + band * S::BM + (wg * S::MI + piece / across) * 64, x = p.col + col * S::BN + piece % across * S::W;
                for (int map = 0; map < LAB_C_MAPS; ++map)
                    if (p.c_maps >> map & 1) tma_store(&L.c[map], x, y, from, L.keep_c);
            }
            bulk_commit();
            if (++behind == S::SLOTS) {  // the oldest piece is the one in the slot after this
                bulk_wait_read<S::SLOTS - 1>();
                int oldest = ring.at + 1 == S::SLOTS ? 0 : ring.at + 1;
                mbar_arrive(empty + 8 * oldest);  // pairs with stage_wait() of math
                --behind;
            }
        }
        if (p.raise == RAISE_NONE || !live) continue;
        bulk_wait<0>();
        ++finished;
        if (wg + 1 < S::WGS) {
            progress_release(smem.progress + 4 * wg, finished);  // pairs with the acquire below, in the last storer
            continue;
        }
        for (int other = 0; other < wg; ++other) progress_wait(L, smem.progress + 4 * other, finished);
        raise(L, p, band, tile);
    }
    bulk_wait<0>();
}

// ---------------------------------------------------------------- math
template <class T> DEV uint32_t pack(float lo, float hi);
template <> __device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float lo, float hi) {
    uint32_t v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}
template <> __device__ __forceinline__ uint32_t pack<__half>(float lo, float hi) {
    uint32_t v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}
template <class T> DEV float2 unpack(uint32_t v);
template <> __device__ __forceinline__ float2 unpack<__nv_bfloat16>(uint32_t v) {
    return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000u));
}
template <> __device__ __forceinline__ float2 unpack<__half>(uint32_t v) { return __half22float2(*reinterpret_cast<__half2 *>(&v)); }

template <class S> struct Math {
    using T = typename S::T;
    static constexpr int REGS = S::BN / 2, V = S::W / 2;  // accumulators of a 64-row block; values a thread has in a chunk
    const lab_launch &L;
    const Smem<S> &smem;
    const int wg, thread, warp, lane, im, in;
    const bool tells;  // this thread reports to block `warp` of the cluster: it is in our row or column
    Ring<S::STAGES> ring;
    Ring<S::SLOTS> slot;
    Cursor cursor;
    int next_slabs = 0;
    int before = 0;  // the stage whose products may still be running

    // Stage `at` may be overwritten: told to every block whose loader fills a part of it (mbar_wait in loader).
    __device__ __forceinline__ void release(int at) {
        uint32_t bar = smem.empty + 8 * at;
        if (S::CL == 1) {
            if (thread == 0) mbar_arrive(bar);
        } else {
            if (tells) mbar_arrive_at(bar, warp);
        }
    }

    // One stage's products are put in the queue; `settle` leaves them there and waits for the ones before.
    __device__ __forceinline__ void issue(float (&acc)[S::MI][REGS], int s) {
        mbar_wait(L, smem.full + 8 * ring.at, ring.parity, ROLE_MATH);  // the bulk engine's bytes are all here
        uint32_t stage = smem.stage + ring.at * S::STAGE_BYTES;
        uint64_t a = wgmma_operand(stage + wg * S::MI * 8192), b = wgmma_operand(stage + S::A_BYTES);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < LAB_SLAB / 16; ++k)
#pragma unroll
            for (int i = 0; i < S::MI; ++i) Wgmma<T, S::BN>::issue(acc[i], a + i * 512 + k * 2, b + k * 2, s | k);
        wgmma_commit();
    }
    __device__ __forceinline__ void settle(int s) {
        wgmma_wait<1>();
        if (s > 0) release(before);
        before = ring.at;
        ring.step();
    }

    // The product over `slabs` stages. Meanwhile the tile before, rounded and held in registers, goes out chunk by chunk, spread
    // over all the stages: a link to a peer takes about a tile's time for a tile, and would stop us if it got all at once.
    __device__ __forceinline__ void multiply(float (&acc)[S::MI][REGS], int slabs, int v, int stride, const uint32_t *held, bool holding, bool tiled) {
        int s = 0;
        if (S::HOLDS) {
#pragma unroll
            for (int c = 0; c < S::CHUNKS; ++c) {
                const bool more = s < slabs;
                if (more) issue(acc, s);
                if (holding) stage_chunk(held + c * V / 2, tiled);
                if (more) settle(s), ++s;
                // Not between two tiles, when nothing else runs:
                if (c == 0) next_slabs = v + stride < L.visits ? slabs_of(cursor.at(L, v + stride)) : 0;
                for (const int until = slabs * (c + 1) / S::CHUNKS; s < until; ++s) issue(acc, s), settle(s);
            }
        } else {
            next_slabs = v + stride < L.visits ? slabs_of(cursor.at(L, v + stride)) : 0;
            for (; s < slabs; ++s) issue(acc, s), settle(s);
        }
        wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < S::MI; ++i)
#pragma unroll
            for (int j = 0; j < REGS; ++j) asm volatile("" : "+f"(acc[i][j])::"memory");  // read no sum before the wait
        release(before);
    }

    // ---- addends that came over a link, input-typed, through the pipeline stages: v = their sum with v, in the listed order
    __device__ __forceinline__ void fold_wire(const lab_patch &p, float *v) {
        float sum[V];
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] = p.own_at == 0 ? v[i] : 0.f;
        for (int add = 0; add < p.adds;) {
            mbar_wait(L, smem.full + 8 * ring.at, ring.parity, ROLE_MATH);
            uint32_t from = smem.stage + ring.at * S::STAGE_BYTES + wg * S::PIECE_BYTES + thread * 16;
            const int until = p.adds - add < S::ADDENDS ? p.adds : add + S::ADDENDS;
            for (; add < until; from += S::WGS * S::PIECE_BYTES) {
#pragma unroll
                for (int q = 0; q < S::VECTORS; ++q) {
                    uint32_t x[4];
                    ld_shared4(from + q * 2048, x);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        float2 two = unpack<T>(x[i]);
                        sum[8 * q + 2 * i] += two.x, sum[8 * q + 2 * i + 1] += two.y;
                    }
                }
                if (++add == p.own_at)
#pragma unroll
                    for (int i = 0; i < V; ++i) sum[i] += v[i];
            }
            proxy_fence_shared();  // these reads come before the bulk engine's next write
            named_sync(1 + wg, 128);
            release(ring.at);
            ring.step();
        }
#pragma unroll
        for (int i = 0; i < V; ++i) v[i] = sum[i];
    }

    // ---- f32 partial sums of slices of k: straight between registers and (L2) memory, in the order the threads hold them.
    // Both ways lie at the end of a launch, where a detour through staging would be all latency.
    static constexpr int PARTIALS = S::MI * REGS / 4;
    __device__ __forceinline__ char *partial_place(int area, int tile) {
        return L.area[area].base + (int64_t)tile * S::TILE_BYTES + wg * PARTIALS * 2048 + thread * 16;
    }
    __device__ __forceinline__ void partial_store(const lab_patch &p, int tile, const float (&acc)[S::MI][REGS]) {
        char *to = partial_place(p.area, tile);
#pragma unroll
        for (int q = 0; q < PARTIALS; ++q) st_global4(to + q * 2048, &acc[q * 4 / REGS][q * 4 % REGS]);
        named_sync(1 + wg, 128);
        if (thread == 0) flag_release_gpu(L.area[p.area].flag + tile * S::WGS + wg, L.epoch);  // partner: fold_partials below
    }
    __device__ __forceinline__ void fold_partials(const lab_patch &p, int patch, int tile, float (&acc)[S::MI][REGS]) {
        if (thread == 0)
            for (int add = 0; add < p.adds; ++add) flag_wait<true>(L, L.area[p.add0 + add].flag + tile * S::WGS + wg, patch, tile);
        named_sync(1 + wg, 128);
        constexpr int Q = PARTIALS > 24 ? PARTIALS / 4 : PARTIALS;  // 16-byte loads in flight, as registers allow
#pragma unroll
        for (int q = 0; q < PARTIALS; q += Q) {
            for (int add = 0; add < p.adds; ++add) {  // the own product comes first: it has the lowest k
                const char *from = partial_place(p.add0 + add, tile) + q * 2048;
                float x[4 * Q];
#pragma unroll
                for (int i = 0; i < Q; ++i) ld_global4(from + i * 2048, x + 4 * i);
#pragma unroll
                for (int i = 0; i < 4 * Q; ++i) acc[(4 * q + i) / REGS][(4 * q + i) % REGS] += x[i];
            }
        }
    }

    // ---- staging: 64 rows x W columns, rounded, in the swizzle of C's map, or thread by thread for a tiled area
    __device__ __forceinline__ void stage_chunk(const uint32_t *v, bool tiled) {
        mbar_wait(L, smem.slot_empty + 8 * (wg * S::SLOTS + slot.at), slot.parity ^ 1, ROLE_MATH);
        const uint32_t to = smem.slot + (wg * S::SLOTS + slot.at) * S::PIECE_BYTES;
        if (S::FOLD == FOLD_WIRE && tiled) {
#pragma unroll
            for (int q = 0; q < S::VECTORS; ++q) st_shared4(to + q * 2048 + thread * 16, v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]);
        } else {
            const int row = warp * 16 + (lane & 15), turn = S::W == 64 ? row & 7 : S::W == 32 ? row >> 1 & 3 : row >> 2 & 1;
#pragma unroll
            for (int q = 0; q < S::VECTORS; ++q) {
                uint32_t unit = (2 * q + (lane >> 4)) ^ turn;  // 16-byte unit of the row
                stmatrix4(to + row * (S::W * 2) + unit * 16, v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]);
            }
        }
        proxy_fence_shared();  // ordinary stores before, the storer's bulk store after
        __syncwarp();
        if (lane == 0) mbar_arrive(smem.slot_full + 8 * (wg * S::SLOTS + slot.at));
        slot.step();
    }

    __device__ __forceinline__ void stamp(int i) {  // when math begins, has its first stage, ends
        if (L.stamp && thread == 0 && wg == 0) L.stamp[8 * blockIdx.x + i] = now_ns(), L.stamp[8 * blockIdx.x + 4 + i] = cycles();
    }

    __device__ __forceinline__ void run() {
        const int first = blockIdx.x / S::CL, stride = gridDim.x / S::CL;
        float acc[S::MI][REGS];
        uint32_t held[S::HOLDS ? S::MI * REGS / 2 : V / 2];
        bool holding = false, tiled = false;
        Cursor here;
        if (first < L.visits) next_slabs = slabs_of(cursor.at(L, first));
        for (int v = first; v < L.visits; v += stride) {
            multiply(acc, next_slabs, v, stride, held, holding, tiled);
            holding = false;
            const lab_patch *list = nullptr;
            if (S::FOLD != FOLD_NONE) list = &here.at(L, v), tiled = list->c_maps == 0;
            if (S::FOLD == FOLD_F32 && (tiled || list->adds)) {
                int band, col;
                bool live = lab_walk(list, v - here.base, S::CM, S::CN, im, in, &band, &col);
                if (tiled) {
                    if (live) partial_store(*list, band * list->cols + col, acc);
                    continue;
                }
                if (live) fold_partials(*list, here.patch, band * list->cols + col, acc);
            }
#pragma unroll
            for (int c = 0; c < S::CHUNKS; ++c) {
                float x[V];
                uint32_t *out = held + (S::HOLDS ? c * V / 2 : 0);
#pragma unroll
                for (int j = 0; j < V; ++j) x[j] = acc[c * V / REGS][c * V % REGS + j];
                if (S::FOLD == FOLD_WIRE && list->adds) fold_wire(*list, x);
#pragma unroll
                for (int j = 0; j < V / 2; ++j) out[j] = pack<T>(x[2 * j], x[2 * j + 1]);
                if (!S::HOLDS) stage_chunk(out, tiled);
            }
            holding = S::HOLDS;
        }
        if (holding)
#pragma unroll
            for (int c = 0; c < S::CHUNKS; ++c) stage_chunk(held + (S::HOLDS ? c * V / 2 : 0), tiled);
    }
};

// ---------------------------------------------------------------- kernel
template <class S> __global__ void __launch_bounds__(S::THREADS, 1) gemm(const __grid_constant__ lab_launch L) {
    extern __shared__ uint8_t raw[];
    if (L.stamp && threadIdx.x == 0) L.stamp[8 * blockIdx.x] = now_ns(), L.stamp[8 * blockIdx.x + 4] = cycles();
    const Smem<S> smem = Smem<S>::make(raw);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), rank = S::CL == 1 ? 0 : (int)cluster_rank();
    const int im = rank % S::CM, in = rank / S::CM;
    if (threadIdx.x == 0) {
        for (int i = 0; i < LAB_A_MAPS; ++i) map_prefetch(&L.a[i]);
        map_prefetch(&L.b);
        for (int i = 0; i < S::STAGES; ++i) {
            mbar_init(smem.full + 8 * i, 1);                        // the loader, and the bytes it announced
            mbar_init(smem.empty + 8 * i, S::WGS * S::READERS);     // one thread per math warpgroup that reads our multicasts
        }
        for (int i = 0; i < S::WGS * S::SLOTS; ++i) {
            mbar_init(smem.slot_full + 8 * i, 4);  // one thread per warp of the math warpgroup
            mbar_init(smem.slot_empty + 8 * i, 1);
        }
        for (int i = 0; i < 4; ++i) progress_release(smem.progress + 4 * i, 0);  // the watcher's, too
        mbar_init_visible();
    }
    if (S::CL > 1) cluster_meet();
    else __syncthreads();
    if (warp < 4) {
        if (S::WGS > 1) regs_down<S::MOVER_REGS>();
        if (warp == 0) {
            if (elect_one()) loader<S>(L, smem, im, in);
        } else if (warp <= S::WGS) {
            if (elect_one()) storer<S>(L, smem, im, in, warp - 1);
        } else if (warp == 3) {
            if (elect_one()) Watcher<S>{L, smem}.run(im, in);
        }
        __syncwarp();
    } else {
        if (S::WGS > 1) regs_up<S::MATH_REGS>();
        const int to = warp % 4, lane = threadIdx.x % 32;
        const bool tells = lane == 0 && to < S::CL && (to % S::CM == im || to / S::CM == in);
        Math<S> math{L, smem, warp / 4 - 1, (int)threadIdx.x % 128, to, lane, im, in, tells};
        math.stamp(1);
        if (L.stamp && blockIdx.x / S::CL < L.visits) mbar_wait(L, smem.full, 0, ROLE_MATH), math.stamp(2);
        math.run();
        math.stamp(3);
    }
    if (S::CL > 1) cluster_meet();  // peers still arrive on our barriers until their last visit is done
}
