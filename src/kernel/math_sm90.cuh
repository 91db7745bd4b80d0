/* math_sm90.cuh -- the math warpgroups of the Hopper product: wgmma from the stages, what is added
 * to that (sums_sm90.cuh), bias and activation, and the finished tile into staging slots.
 *
 * Warpgroups that share a tile round it into registers when it is finished, and begin the next at
 * once; its pieces go out spread over all stages of the next tile, since a link to a peer takes
 * about a tile's time for a tile and would stop the product if it got all of it together.
 *
 * Warpgroups with a tile each (ping-pong) take turns at the stages, which the loader fills tile
 * after tile: while one multiplies, the other has all that time to get its tile out of the
 * registers it was summed in. */
#pragma once
#include "kernel/sums_sm90.cuh"
#include "kernel/wgmma.cuh"

/* ---- Products -------------------------------------------------------------------------------- */

/* Products of N columns with the stage at A and B, in the queue.  A batch begins and ends in one
 * branch: the compiler makes two of one that ends behind it, and each waits for the other. */
template <class S, int N>
DEV void stage_batch(float (&acc)[S::MI][S::SUMS], uint32_t a, uint32_t b, int s)
{
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < STAGE_K / 16; ++k)
#pragma unroll
        for (int i = 0; i < S::MI; ++i)
            Wgmma<typename S::T, N>::issue(reinterpret_cast<float(&)[N / 2]>(acc[i]),
                                           wgmma_operand(a + i * 512 + k * 2),
                                           wgmma_operand(b + k * 2), s | k);
    wgmma_commit();
}

/* Stage S's products are put in the queue; stage_settle leaves them there and
 * waits for the ones before. */
template <class S> DEV void stage_issue(Math<S> &m, float (&acc)[S::MI][S::SUMS], int s)
{
    const uint32_t since = stamp_clock();
    mbar_wait(m.P, m.smem, m.smem.full + 8 * m.ring.at, stages_parity(m.ring), ROLE_MATH);
    if (s == 0)
        math_stamp(m, STAMP_FIRST);
    else
        math_waited(m, 0, since);
    const uint32_t a = m.smem.stage / 16 + m.part * S::MI * 512 + stages_place(m.ring) / 16;
    const uint32_t b = m.smem.stage / 16 + S::A_BYTES / 16 + stages_place(m.ring) / 16;
    if constexpr (S::NARROW > 0)
        if (m.ring.fine) return stage_batch<S, S::NARROW>(acc, a, b, s);
    stage_batch<S, S::BN>(acc, a, b, s);
}

template <class S> DEV void stage_settle(Math<S> &m, int s)
{
    wgmma_wait<1>();
    if (s > 0) stage_release(m, m.before);
    m.before = m.ring.at;
    stages_step(m.ring);
}

/* ANY: there was a stage. */
template <class S> DEV void multiply_end(Math<S> &m, float (&acc)[S::MI][S::SUMS], bool any)
{
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < S::MI; ++i)
#pragma unroll
        for (int j = 0; j < S::SUMS; ++j) /* read no sum before the wait */
            keep_order(acc[i][j]);
    if (any) stage_release(m, m.before);
    math_waits(m, STAMP_MULTIPLIED, 0);
    math_waits(m, STAMP_SLOTS, 1);
}

/* Stages of UNIT, negative if its tile is narrow, given those of the unit before: a patch has as
 * many for all its tiles, and little else runs while a warp finds out. */
template <class S> DEV int stages_of(const Math<S> &m, Cursor &cursor, int unit, int before)
{
    const Param &P = m.P;
    if (unit >= P.units) return 0;
    if (S::FOLD != FOLD_SLICES && unit < cursor.end) return before;
    int in_pass;
    const int slice = slice_of<S>(P, unit, &in_pass);
    cursor_move<S>(P, m.smem, cursor, in_pass);
    const sg_patch p = patch_of(P, cursor);
    const Span span = span_of<S>(P, p, slice);
    /* At most one of several patches ends inside a stage: read_operands(). */
    const int stages = sg_walk_div(span.k1 - span.k0 + (S::GOES_ON ? p.rest : 0), STAGE_K);
    return is_narrow<S>(p) ? -stages : stages;
}

template <class S> DEV void look_ahead(Math<S> &m, int unit, int before)
{
    const int patch = m.ahead.patch;
    m.next_stages = stages_of<S>(m, m.ahead, unit, before);
    if (S::FOLD == FOLD_PARTS && m.ahead.patch != patch) m.next_row = part_row(m.P, m.ahead.patch);
}

template <class S>
DEV void stage_piece(Math<S> &m, const uint32_t *v, bool last = false, int piece = 0);

/* Stages of a tile half of whose time flags take behind the one before. */
enum { SHORT_TILE = 32 };

/* The product over the stages of unit AHEAD - STRIDE, KNOWN by stages_of(); meanwhile the tile
 * before goes out, in every second block or cluster half a piece later if tiles are for others, who
 * are told: what all send at a time is in the way of what all load (four H200s, 8192x12288x12288
 * all-reduced 3283 us, so 3262, and 3540 if all goes out in the first quarter).  But under the
 * block's last tile, which may wait for what others send meanwhile; and if that is a short one, all
 * goes out in its first half (2048x8192x2048 scattered 123.6 us, so 119.5; with k 7168 8192 rows
 * all-reduced 1301, 1313). */
template <class S>
DEV void multiply(Math<S> &m, float (&acc)[S::MI][S::SUMS], int known, int ahead,
                  const uint32_t *held, bool holding)
{
    const int stages = S::NARROW > 0 && known < 0 ? -known : known;
    stages_cut(m.ring, known < 0);
    /* A tile under which nothing goes out, as a block's first one, has a loop of its own: who has
     * no other runs less code.  With addends there are no registers for two loops. */
    if (S::HOLDS && (S::ADDS || holding)) {
        int s = 0;
        const bool last = ahead >= m.P.units;
        const bool waits = m.P.raises && !last && blockIdx.x / S::CL % 2 > 0;
        const int later = waits ? stages / (2 * S::CHUNKS) : 0;
        const int spread = m.P.raises && last && stages <= SHORT_TILE ? stages / 2 : stages;
        for (; s < later; ++s) stage_issue(m, acc, s), stage_settle(m, s);
#pragma unroll
        for (int c = 0; c < S::CHUNKS; ++c) {
            const bool more = s < stages;
            if (more) stage_issue(m, acc, s);
            if (holding) stage_piece(m, held + c * S::PIECE_SUMS / 2);
            if (more) stage_settle(m, s), ++s;
            /* Here and not between two tiles, when nothing else runs: */
            if (c == 0) look_ahead(m, ahead, known);
            const int until = c + 1 < S::CHUNKS ? spread * (c + 1) / S::CHUNKS + later : stages;
            const int count = until - s;
            for (int left = count; left > 0; --left) stage_issue(m, acc, 1), stage_settle(m, 1);
            if (count > 0) s += count;
        }
    } else {
        look_ahead(m, ahead, known);
        if (stages > 0) stage_issue(m, acc, 0), stage_settle(m, 0);
        for (int left = stages - 1; left > 0; --left) stage_issue(m, acc, 1), stage_settle(m, 1);
    }
    multiply_end(m, acc, stages > 0);
}

/* ---- Finishing ------------------------------------------------------------------------------- */

/* Bias of a tile whose first column in the patch is COL; two columns of each eight are this
 * thread's.  The lines are asked for at once, for registers hold a few numbers at a time. */
template <class S>
DEV void add_bias(const Math<S> &m, const sg_patch &p, int col, float (&acc)[S::MI][S::SUMS])
{
    typedef typename S::T T;
    const int first = col + m.lane % 4 * 2, cols = p.cols;
    const T *bias = (const T *)m.P.program.bias + p.col0 + first;
    if (64 * m.lane < S::BN && first + 64 * m.lane < cols) line_prefetch(bias + 64 * m.lane);
#pragma unroll
    for (int j = 0; j < S::BN / 8; ++j) {
        const float b0 = first + 8 * j < cols ? to_float(bias[8 * j]) : 0.f;
        const float b1 = first + 8 * j + 1 < cols ? to_float(bias[8 * j + 1]) : 0.f;
#pragma unroll
        for (int i = 0; i < S::MI; ++i) {
            acc[i][4 * j] += b0, acc[i][4 * j + 1] += b1;
            acc[i][4 * j + 2] += b0, acc[i][4 * j + 3] += b1;
        }
        if (j % 4 == 3) asm volatile("" ::: "memory"); /* not all loads at once */
    }
}

/* Bias and activation of a tile whose first column in the patch is COL; piece after piece, since
 * with more numbers in one branch some registers are spilled. */
template <class S>
DEV void finish_tile(const Math<S> &m, const sg_patch &p, int col, float (&acc)[S::MI][S::SUMS])
{
    constexpr int V = S::PIECE_SUMS;
    if (m.P.program.bias != nullptr) add_bias(m, p, col, acc);
    const int act = m.P.program.act;
    if (act == SG_KERNEL_NONE) return;
#pragma unroll
    for (int c = 0; c < S::CHUNKS; ++c)
        activate<false>(act, *(float(*)[V]) & acc[c * V / S::SUMS][c * V % S::SUMS]);
}

template <class S> DEV void write_piece(const Math<S> &m, const uint32_t *v, uint32_t to)
{
    to += piece_vector(m, 0); /* whose bits below those of a row are its place in the swizzle */
#pragma unroll
    for (int q = 0; q < S::VECTORS; ++q)
        stmatrix4(S::W > 64 ? to + 32 * q : to ^ 32 * q, v[4 * q], v[4 * q + 1], v[4 * q + 2],
                  v[4 * q + 3]);
}

/* 64 rows x W columns, rounded, into the next free slot; ping-pong, piece PIECE of the block's last
 * tile into the stages. */
template <class S> DEV void stage_piece(Math<S> &m, const uint32_t *v, bool last, int piece)
{
    const int at = m.wg * S::SLOTS + m.slot.at;
    const uint32_t since = stamp_clock();
    slot_wait(m);
    math_waited(m, 1, since);
    write_piece(m, v, last ? last_place(m.smem, m.wg, piece) : m.smem.slot + at * S::PIECE_BYTES);
    tell_storer(m);
}

/* Warpgroups that share a tile tell when all of the last one is in the stages.  One with a tile of
 * its own has no registers for both ways of staging. */
template <class S> DEV void stage_last(Math<S> &m, const uint32_t *v, int piece)
{
    write_piece(m, v, last_place(m.smem, m.wg, piece));
    if (piece + 1 < S::CHUNKS) return;
    slot_wait(m);
    tell_storer(m);
}

/* A place for a tile is filled with zeros where the patch has no rows or columns. */
template <class S>
DEV void blank_rest(const Math<S> &m, const sg_patch &p, const Tile &t,
                    float (&acc)[S::MI][S::SUMS])
{
    const int rows = p.rows - t.band * S::BM - m.part * S::MI * 64 - m.warp * 16 - m.lane / 4;
    const int cols = p.cols - t.col * width_of<S>(p) - m.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < S::MI; ++i)
#pragma unroll
        for (int j = 0; j < S::SUMS; ++j)
            if (i * 64 + (j & 2) * 4 >= rows || j / 4 * 8 + (j & 1) >= cols) acc[i][j] = 0.f;
}

/* The other warpgroup may look for its stages: all threads of this one have seen theirs loaded.
 * Before that, a barrier could be two phases behind the one that the other waits for, and would not
 * tell; and who is late for a turn of one stage would find its barrier two phases on. */
template <class S> DEV void pass_stages(const Math<S> &m)
{
    __syncwarp();
    if (m.lane == 0) mbar_arrive(m.smem.order + 8 * (1 - m.wg));
}

/* All math warps have done with the stages: the last tile may go there.  Ping-pong, the warpgroup
 * that has another tile to stage does not wait for the end of that one. */
template <class S> DEV void stages_leave(bool last)
{
    if (S::WGS == 1)
        named_sync(MEET_GROUP, 128);
    else if (!S::PINGPONG || last)
        named_sync(MEET_MATH, 256);
    else
        named_arrive(MEET_MATH, 256);
}

template <class S> DEV void round_piece(const float *x, uint32_t *out)
{
#pragma unroll
    for (int j = 0; j < S::PIECE_SUMS / 2; ++j)
        out[j] = pack<typename S::T>(x[2 * j], x[2 * j + 1]);
}

/* Rounds the finished tile into HELD, or stages it at once. */
template <class S>
DEV void round_tile(Math<S> &m, int unit, float (&acc)[S::MI][S::SUMS], uint32_t *held)
{
    constexpr int V = S::PIECE_SUMS;
    if (S::ADDS || m.P.epilogue || m.P.tiled) {
        const sg_patch &p = patch_in_list(m.P, m.patch);
        if (S::ADDS && !S::SLOT_ADDS && p.adds)
#pragma unroll
            for (int c = 0; c < S::CHUNKS; ++c)
                fold_addends(m, c, p.adds, own_place(p), S::FOLD == FOLD_ADDENDS && p.own_rounded,
                             &acc[c * V / S::SUMS][c * V % S::SUMS]);
        if (S::ADDS && !S::SLOT_ADDS && p.adds) math_stamp(m, STAMP_ADDED);
        if ((m.P.epilogue && p.final) || m.P.tiled) {
            int in_pass;
            slice_of<S>(m.P, unit, &in_pass);
            const Tile t = tile_at<S>(p, in_pass - m.base, m.im, m.in);
            if (m.P.epilogue && p.final) finish_tile(m, p, t.col * width_of<S>(p), acc);
            if (S::CL == 1 && m.P.tiled) blank_rest(m, p, t, acc);
        }
    }
    const bool last = !S::HOLDS && is_last<S>(m.P, unit);
    /* Ping-pong, one leaves them a tile earlier than the other. */
    if (last || (S::PINGPONG && is_last<S>(m.P, unit + stride_of<S>(m.P)))) stages_leave<S>(last);
    if (!S::PINGPONG && last) {
#pragma unroll
        for (int c = 0; c < S::CHUNKS; ++c) {
            round_piece<S>(&acc[c * V / S::SUMS][c * V % S::SUMS], held);
            stage_last(m, held, c);
        }
        return;
    }
    const sg_patch &p = patch_in_list(m.P, m.patch);
    const int adds = S::SLOT_ADDS ? p.adds : 0;
    if (adds > 0 && last) slot_wait(m), tell_storer(m); /* addends may come into the stages */
#pragma unroll
    for (int c = 0; c < S::CHUNKS; ++c) {
        uint32_t *out = held + (S::HOLDS ? c * V / 2 : 0);
        if (adds > 0) slot_addends(m, p, c, last, &acc[c * V / S::SUMS][c * V % S::SUMS]);
        round_piece<S>(&acc[c * V / S::SUMS][c * V % S::SUMS], out);
        if (!S::HOLDS) stage_piece(m, out, last, c);
    }
}

/* Past the stages of the tile that is the other warpgroup's. */
template <class S> DEV void stages_skip(Math<S> &m, int stages)
{
    const int at = m.ring.at + stages;
    m.ring.parity ^= at / S::STAGES & 1;
    m.ring.at = at % S::STAGES;
}

/* Stage S of a tile, or 1 for any but the first: three loops' worth of code, so that the one
 * that runs long asks nothing but whether the stage is there.  PASS: behind it the stages
 * are the other warpgroup's. */
template <class S>
DEV void stage_pingpong(Math<S> &m, float (&acc)[S::MI][S::SUMS], int s, bool pass)
{
    stage_issue(m, acc, s);
    if (pass) pass_stages(m);
    stage_settle(m, s);
}

/* One tile after the other, of which every second one is this warpgroup's. */
template <class S> DEV void math_pingpong(Math<S> &m)
{
    const int stride = stride_of<S>(m.P);
    float acc[S::MI][S::SUMS];
    uint32_t out[S::PIECE_SUMS / 2];
    int stages = 0, skip = m.wg;
    for (int unit = first_unit<S>(m.P, m.smem); unit < m.P.units; unit += stride) {
        stages = stages_of<S>(m, m.ahead, unit, stages);
        m.patch = m.ahead.patch, m.base = m.ahead.base;
        if (skip-- > 0) {
            stages_skip(m, stages);
            continue;
        }
        skip = 1;
        mbar_wait(m.P, m.smem, m.smem.order + 8 * m.wg, m.order_parity,
                  ROLE_MATH); /* partner: pass_stages() */
        m.order_parity ^= 1;
        math_stamp(m, STAMP_TILE, m.patch);
        if (stages > 0) stage_pingpong(m, acc, 0, stages == 1);
        for (int left = stages - 2; left > 0; --left) stage_pingpong(m, acc, 1, false);
        if (stages > 1) stage_pingpong(m, acc, 1, true);
        multiply_end(m, acc, stages > 0);
        round_tile(m, unit, acc, out);
    }
    const int first = first_unit<S>(m.P, m.smem);
    if (m.wg > 0 && first < m.P.units && is_last<S>(m.P, first))
        stages_leave<S>(false); /* one tile */
}

template <class S> DEV void math_run(Math<S> &m)
{
    constexpr int V = S::PIECE_SUMS;
    const int first = first_unit<S>(m.P, m.smem), stride = stride_of<S>(m.P);
    float acc[S::MI][S::SUMS];
    uint32_t held[S::HOLDS ? S::MI * S::BN / 4 : V / 2];
    bool holding = false;
    look_ahead(m, first, 0);
    for (int unit = first; unit < m.P.units; unit += stride) {
        m.patch = m.ahead.patch, m.base = m.ahead.base, m.row = m.next_row;
        math_stamp(m, STAMP_TILE, m.patch);
        multiply(m, acc, m.next_stages, unit + stride, held, holding);
        holding = false;
        if (S::FOLD == FOLD_SLICES) {
            int in_pass;
            const int slice = slice_of<S>(m.P, unit, &in_pass);
            const int tile = in_pass * S::CL + m.im + m.in * S::CM;
            if (slice > 0) {
                partial_store(m, slice, tile, acc);
                continue;
            }
            fold_slices(m, tile, acc);
        }
        if (S::FOLD == FOLD_PARTS && m.row >= 0) {
            part_leave(m, unit, acc);
            continue;
        }
        round_tile(m, unit, acc, held);
        holding = S::HOLDS;
    }
    if (!holding) return;
    stages_leave<S>(true);
#pragma unroll
    for (int c = 0; c < S::CHUNKS; ++c) stage_last(m, held + (S::HOLDS ? c * V / 2 : 0), c);
}
