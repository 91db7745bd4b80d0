/* sums_sm90.cuh -- what a math warpgroup of the Hopper product adds to the sums of its tile
 * (addends, parts and slices of k), and how it leaves sums in f32 for others to add. */
#pragma once
#include "kernel/stages_sm90.cuh"

template <class S> struct Math {
    const Param &P;
    const Smem<S> &smem;
    const int wg, part, thread, warp, lane, im, in; /* part: of the tile */
    const bool tells; /* this thread reports to block `warp` of the cluster: our row or column */
    Stages<S> ring;
    Ring<S::SLOTS> slot;
    Cursor ahead;      /* of the next unit, once its stages are known */
    int patch, base;   /* of the unit at hand */
    int next_stages;   /* as of stages_of() */
    int row, next_row; /* where the sums of the patch stay in f32, see part_row() */
    int before;        /* the stage whose products may still be running */
    int room;          /* of a stage of addends: taken from it so far, see addend_room() */
    uint32_t order_parity, added_parity;
};

/* See stamp.cuh. */
template <class S> DEV void math_stamp(const Math<S> &m, StampEvent event, int value = 0)
{
    if (m.thread == 0) stamp(m.smem.stamp, STAMP_MATH + m.wg, event, value);
}

template <class S> DEV void math_waited(const Math<S> &m, int other, uint32_t since)
{
    if (m.thread == 0) stamp_waited(m.smem.stamp, STAMP_MATH + m.wg, other, since);
}

template <class S> DEV void math_waits(const Math<S> &m, StampEvent event, int other)
{
    if (m.thread == 0) stamp_waits(m.smem.stamp, STAMP_MATH + m.wg, event, other);
}

/* Stage AT may be overwritten: told to every block whose loader fills a part of it.  Ping-pong,
 * which has no register for more, that is every block of the cluster. */
template <class S> DEV void stage_release(const Math<S> &m, int at)
{
    const uint32_t bar = m.smem.empty + 8 * at;
    if (S::CL == 1) {
        if (m.thread == 0) mbar_arrive(bar);
    } else {
        const bool tells = S::PINGPONG ? m.lane == 0 && m.warp < S::CL : m.tells;
        if (tells) mbar_arrive_at(bar, m.warp);
    }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Where this thread's vector Q of a staged piece is: 64 rows of W columns
 * in the swizzle of the maps. */
template <class S> DEV uint32_t piece_vector(const Math<S> &m, int q)
{
    const int row = m.warp * 16 + (m.lane & 15);
    const int turn = S::W == 64   ? row & 7
                     : S::W == 32 ? row >> 1 & 3
                     : S::W == 16 ? row >> 2 & 1
                                  : 0; /* no swizzle */
    return row * (S::W * 2) + ((2 * q + (m.lane >> 4)) ^ turn) * 16;
}

/* SUM += a piece of another patch's sums in f32 at FROM. */
template <class S> DEV void fold_part(const Math<S> &m, uint32_t from, float (&sum)[S::PIECE_SUMS])
{
    from += m.thread * 16;
#pragma unroll
    for (int q = 0; q < S::PIECE_SUMS / 4; ++q) {
        float x[4];
        shared_load4(from + q * 2048, x);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[4 * q + i] += x[i];
    }
}

/* Adds the product's sums V to SUM.  They are rounded on the way and not in their place:
 * the compiler would take accumulators that are written here for ones that matrix
 * instructions must wait for. */
template <class T, int COUNT> DEV void take_own(float *sum, const float *v, bool rounded)
{
    if (rounded) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            const float2 two = unpack<T>(pack<T>(v[i], v[i + 1]));
            sum[i] += two.x, sum[i + 1] += two.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sum[i] += v[i];
    }
}

/* V, the sums of piece PIECE, becomes the sum of addends and V in the listed order.  They come
 * through the pipeline's stages.  Partner: load_addends(). */
template <class S>
DEV void fold_addends(Math<S> &m, int piece, int adds, int own_at, bool own_rounded, float *v)
{
    constexpr int V = S::PIECE_SUMS;
    const int part0 = S::FOLD == FOLD_PARTS ? part_place(m.P, own_at) : 0;
    float sum[V];
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] = -0.f;
    if (own_at == 0) take_own<typename S::T, V>(sum, v, own_rounded);
    for (int add = 0; add < adds;) {
        if (m.room == 0)
            mbar_wait(m.P, m.smem, m.smem.full + 8 * m.ring.at, stages_parity(m.ring), ROLE_MATH);
        const uint32_t from =
            m.smem.stage + stages_place(m.ring) + (m.room * S::PARTS + m.part) * S::PIECE_BYTES;
        const int room = addend_room<S>(add, part0, own_at);
        if (room > 1) {
            fold_part(m, from + m.part * S::PIECE_BYTES, sum);
        } else {
#pragma unroll
            for (int q = 0; q < S::VECTORS; ++q) {
                uint32_t x[4];
                ldmatrix4(from + piece_vector(m, q), x);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float2 two = unpack<typename S::T>(x[i]);
                    sum[8 * q + 2 * i] += two.x, sum[8 * q + 2 * i + 1] += two.y;
                }
            }
        }
        if (++add == own_at) take_own<typename S::T, V>(sum, v, own_rounded);
        m.room += room;
        const bool ends = piece + 1 == S::CHUNKS && add == adds;
        const int next = addend_room<S>(add == adds ? 0 : add, part0, own_at);
        if (!ends && m.room + next <= S::ADDENDS) continue;
        m.room = 0;
        proxy_fence_shared(); /* these reads come before the bulk engine's next write */
        named_sync(MEET_GROUP + m.wg, 128);
        stage_release(m, m.ring.at);
        stages_step(m.ring);
    }
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] = sum[i];
}

/* The next slot is free.  Partner: storer(). */
template <class S> DEV void slot_wait(const Math<S> &m)
{
    const int at = m.wg * S::SLOTS + m.slot.at;
    mbar_wait(m.P, m.smem, m.smem.slot_empty + 8 * at, m.slot.parity ^ 1, ROLE_MATH);
}

/* Partner: storer(). */
template <class S> DEV void tell_storer(Math<S> &m)
{
    proxy_fence_shared(); /* ordinary loads and stores before, the bulk engine's after */
    __syncwarp();
    if (m.lane == 0) mbar_arrive(m.smem.slot_full + 8 * (m.wg * S::SLOTS + m.slot.at));
    ring_step(m.slot);
}

/* Ping-pong: an addend of piece PIECE of this warpgroup's tile joins the sum V.  Addends come one
 * after the other through the slot by which the piece leaves, those of the block's LAST tile all at
 * once into the stages; a warp reads and writes rows of its own alone.  Partners: load_for_piece(),
 * load_for_last(). */
template <class S> DEV void slot_add(Math<S> &m, int piece, int add, int adds, bool last, float *v)
{
    if (!last) slot_wait(m);
    if (!last || piece + add == 0) {
        mbar_wait(m.P, m.smem, m.smem.added + 8 * m.wg, m.added_parity, ROLE_MATH);
        m.added_parity ^= 1;
    }
    const uint32_t from = last ? last_place(m.smem, m.wg, piece * adds + add)
                               : m.smem.slot + (m.wg * S::SLOTS + m.slot.at) * S::PIECE_BYTES;
#pragma unroll
    for (int q = 0; q < S::VECTORS; ++q) {
        uint32_t x[4];
        ldmatrix4(from + piece_vector(m, q), x);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 two = unpack<typename S::T>(x[i]);
            v[8 * q + 2 * i] += two.x, v[8 * q + 2 * i + 1] += two.y;
        }
    }
    if (!last && add + 1 < adds) tell_storer(m); /* the slot is to be filled again */
}

/* V, the sums of piece PIECE, becomes the sum of it and the addends of patch P in the listed order.
 * Rounded, it fits into half the registers until it is its turn, and V holds the sum so far.
 * Otherwise it is the first or the second, whose order is free: V is both. */
template <class S>
DEV void slot_addends(Math<S> &m, const sg_patch &p, int piece, bool last, float *v)
{
    uint32_t own[S::PIECE_SUMS / 2];
    int add = 0;
    if (p.own_rounded) {
#pragma unroll
        for (int i = 0; i < S::PIECE_SUMS / 2; ++i) {
            own[i] = pack<typename S::T>(v[2 * i], v[2 * i + 1]);
            v[2 * i] = v[2 * i + 1] = -0.f;
        }
        for (; add < p.own_at; ++add) slot_add(m, piece, add, p.adds, last, v);
#pragma unroll
        for (int i = 0; i < S::PIECE_SUMS / 2; ++i) {
            const float2 two = unpack<typename S::T>(own[i]);
            v[2 * i] += two.x, v[2 * i + 1] += two.y;
        }
    }
    for (; add < p.adds; ++add) slot_add(m, piece, add, p.adds, last, v);
}

/* Sums of slices of k go straight between registers and (L2) memory, in the order the threads hold
 * them: both ways lie at the end of a launch, where a detour through staging would be all
 * latency. */
template <class S> DEV char *partial_place(const Math<S> &m, int slice, int tile)
{
    const int64_t tiles = m.P.units / m.P.split * S::CL; /* overhanging ones too */
    return (char *)m.P.partial + ((slice - 1) * tiles + tile) * (S::BM * S::BN * 4) +
           m.part * S::PARTIALS * 2048 + m.thread * 16;
}

template <class S> DEV void sums_store(char *to, const float (&acc)[S::MI][S::SUMS])
{
#pragma unroll
    for (int q = 0; q < S::PARTIALS; ++q)
        st_global4(to + q * 2048, &acc[q * 4 / S::SUMS][q * 4 % S::SUMS]);
}

template <class S>
DEV void partial_store(Math<S> &m, int slice, int tile, const float (&acc)[S::MI][S::SUMS])
{
    sums_store<S>(partial_place(m, slice, tile), acc);
    named_sync(MEET_GROUP + m.wg, 128);
    /* Partner: fold_slices(), of the block that has slice 0 of this tile. */
    if (m.thread == 0) add_release_gpu(m.P.fold + tile * S::PARTS + m.part);
}

template <class S> DEV void fold_slices(Math<S> &m, int tile, float (&acc)[S::MI][S::SUMS])
{
    if (m.thread == 0) {
        uint32_t *word = m.P.fold + tile * S::PARTS + m.part;
        uint32_t tries = 0;
        while (load_acquire_gpu(word) != (uint32_t)m.P.split - 1)
            if (!patient(m.P, m.smem, &tries, ROLE_MATH)) break;
        store_relaxed(word, 0); /* at rest for the next launch */
    }
    named_sync(MEET_GROUP + m.wg, 128);
    constexpr int ALL = S::PARTIALS;
    constexpr int Q = ALL > 24 ? ALL / 4 : ALL; /* loads in flight, as registers allow */
#pragma unroll
    for (int q = 0; q < ALL; q += Q) {
        for (int slice = 1; slice < m.P.split; ++slice) {
            const char *from = partial_place(m, slice, tile) + q * 2048;
            float x[4 * Q];
#pragma unroll
            for (int i = 0; i < Q; ++i) ld_global4(from + i * 2048, x + 4 * i);
#pragma unroll
            for (int i = 0; i < 4 * Q; ++i)
                acc[(4 * q + i) / S::SUMS][(4 * q + i) % S::SUMS] += x[i];
        }
    }
}

/* The row of the place for the first visit of PATCH if its sums stay in f32
 * for another; -1: they do not. */
DEV int part_row(const Param &P, int patch)
{
    const sg_area &to = P.program.to[patch_in_list(P, patch).to0];
    return to.buf == P.part_place ? to.row0 : -1;
}

/* The sums of a tile stay in f32, for a later visit: load_part().  The storer is told by a piece
 * that it does not store, and raises the flag. */
template <class S> DEV void part_leave(Math<S> &m, int unit, const float (&acc)[S::MI][S::SUMS])
{
    char *to = part_address<S>(m.P, m.row + (unit - m.base) * S::BM);
    sums_store<S>(to + m.part * S::PARTIALS * 2048 + m.thread * 16, acc);
    const int at = m.wg * S::SLOTS + m.slot.at;
    mbar_wait(m.P, m.smem, m.smem.slot_empty + 8 * at, m.slot.parity ^ 1, ROLE_MATH);
    __syncwarp();
    if (m.lane == 0) mbar_arrive(m.smem.slot_full + 8 * at);
    ring_step(m.slot);
}
