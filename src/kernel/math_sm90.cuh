/* math_sm90.cuh -- the math warpgroups of the Hopper product: wgmma from the stages, sums of addends
 * and of slices of k, bias and activation, and the finished tile into staging slots.
 *
 * Warpgroups that share a tile round it into registers when it is finished, and begin the next at
 * once; its pieces go out spread over all stages of the next tile, since a link to a peer takes about
 * a tile's time for a tile and would stop the product if it got all of it together.
 *
 * Warpgroups with a tile each take turns at the stages, which the loader fills tile after tile: while
 * one multiplies, the other has all that time to get its tile out of the registers it was summed in. */
#pragma once
#include "kernel/shape_sm90.cuh"
#include "kernel/wgmma.cuh"

template <class S> struct Math {
    const Param &P;
    const Smem<S> &smem;
    const int wg, part, thread, warp, lane, im, in; /* part: of the tile */
    const bool tells; /* this thread reports to block `warp` of the cluster: our row or column */
    Ring<S::STAGES> ring;
    Ring<S::SLOTS> slot;
    Cursor ahead;    /* of the next unit, once its stages are known */
    int patch, base; /* of the unit at hand */
    int next_stages;
    int before; /* the stage whose products may still be running */
    uint32_t turn_parity;
};

/* ---- Products ------------------------------------------------------------------------------------------- */

/* Stage AT may be overwritten: told to every block whose loader fills a part of it. */
template <class S> DEV void stage_release(const Math<S> &m, int at)
{
    const uint32_t bar = m.smem.empty + 8 * at;
    if (S::CL == 1) {
        if (m.thread == 0) mbar_arrive(bar);
    } else {
        if (m.tells) mbar_arrive_at(bar, m.warp);
    }
}

/* One stage's products are put in the queue; stage_settle leaves them there and waits for the ones
 * before. */
template <class S> DEV void stage_issue(Math<S> &m, float (&acc)[S::MI][S::SUMS], int s)
{
    mbar_spin(m.smem.full + 8 * m.ring.at, m.ring.parity);
    const uint32_t stage = m.smem.stage + m.ring.at * S::STAGE_BYTES;
    const uint64_t a = wgmma_operand(stage + m.part * S::MI * 8192);
    const uint64_t b = wgmma_operand(stage + S::A_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < STAGE_K / 16; ++k)
#pragma unroll
        for (int i = 0; i < S::MI; ++i)
            Wgmma<typename S::T, S::BN>::issue(acc[i], a + i * 512 + k * 2, b + k * 2, s | k);
    wgmma_commit();
}

template <class S> DEV void stage_settle(Math<S> &m, int s)
{
    wgmma_wait<1>();
    if (s > 0) stage_release(m, m.before);
    m.before = m.ring.at;
    ring_step(m.ring);
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
}

/* Stages of UNIT, given those of the unit before: a patch has as many for all its tiles, and little
 * else runs while a warp finds out. */
template <class S> DEV int stages_of(const Param &P, Cursor &cursor, int unit, int before)
{
    if (unit >= P.units) return 0;
    if (S::FOLD != FOLD_SLICES && unit < cursor.end) return before;
    int in_pass;
    const int slice = slice_of<S>(P, unit, &in_pass);
    cursor_move<S>(P, cursor, in_pass);
    const Span span = span_of<S>(P, patch_of(P, cursor), slice);
    return sg_walk_div(span.k1 - span.k0, STAGE_K);
}

template <class S>
DEV void stage_piece(Math<S> &m, const uint32_t *v, bool last = false, int piece = 0);

/* The product over the stages of unit AHEAD - STRIDE; meanwhile the tile before goes out. */
template <class S>
DEV void multiply(Math<S> &m, float (&acc)[S::MI][S::SUMS], int stages, int ahead,
                  const uint32_t *held, bool holding)
{
    int s = 0;
    if (S::HOLDS) {
#pragma unroll
        for (int c = 0; c < S::CHUNKS; ++c) {
            const bool more = s < stages;
            if (more) stage_issue(m, acc, s);
            if (holding) stage_piece(m, held + c * S::PIECE_SUMS / 2);
            if (more) stage_settle(m, s), ++s;
            /* Here and not between two tiles, when nothing else runs: */
            if (c == 0) m.next_stages = stages_of<S>(m.P, m.ahead, ahead, stages);
            for (const int until = stages * (c + 1) / S::CHUNKS; s < until; ++s)
                stage_issue(m, acc, s), stage_settle(m, s);
        }
    } else {
        m.next_stages = stages_of<S>(m.P, m.ahead, ahead, stages);
        for (; s < stages; ++s) stage_issue(m, acc, s), stage_settle(m, s);
    }
    multiply_end(m, acc, stages > 0);
}

/* ---- Sums ------------------------------------------------------------------------------------------------- */

/* Where this thread's vector Q of a staged piece is: 64 rows of W columns in the swizzle of the maps. */
template <class S> DEV uint32_t piece_vector(const Math<S> &m, int q)
{
    const int row = m.warp * 16 + (m.lane & 15);
    const int turn = S::W == 64 ? row & 7 : S::W == 32 ? row >> 1 & 3 : row >> 2 & 1;
    return row * (S::W * 2) + ((2 * q + (m.lane >> 4)) ^ turn) * 16;
}

enum { NO_OWN = 1 << 16 }; /* behind any number of addends: there is no own product */

/* Adds the product's sums V to SUM.  They are rounded on the way and not in their place: the compiler would
 * take accumulators that are written here for ones that matrix instructions must wait for. */
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

/* V becomes the sum of addends and V in the listed order.  They come through the pipeline's stages. */
template <class S>
DEV void fold_addends(Math<S> &m, int adds, int own_at, bool own_rounded, float *v)
{
    constexpr int V = S::PIECE_SUMS;
    float sum[V];
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] = -0.f;
    if (own_at == 0) take_own<typename S::T, V>(sum, v, own_rounded);
    for (int add = 0; add < adds;) {
        mbar_spin(m.smem.full + 8 * m.ring.at, m.ring.parity);
        uint32_t from = m.smem.stage + m.ring.at * S::STAGE_BYTES + m.part * S::PIECE_BYTES;
        const int until = sg_walk_min(adds, add + S::ADDENDS);
        for (; add < until; from += S::PARTS * S::PIECE_BYTES) {
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
            if (++add == own_at) take_own<typename S::T, V>(sum, v, own_rounded);
        }
        proxy_fence_shared(); /* these reads come before the bulk engine's next write */
        named_sync(1 + m.wg, 128);
        stage_release(m, m.ring.at);
        ring_step(m.ring);
    }
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] = sum[i];
}

/* Sums of slices of k go straight between registers and (L2) memory, in the order the threads hold
 * them: both ways lie at the end of a launch, where a detour through staging would be all latency. */
template <class S> DEV char *partial_place(const Math<S> &m, int slice, int tile)
{
    const int64_t tiles = m.P.units / m.P.split * S::CL; /* overhanging ones too */
    return (char *)m.P.partial + ((slice - 1) * tiles + tile) * (S::BM * S::BN * 4) +
           m.part * S::PARTIALS * 2048 + m.thread * 16;
}

template <class S>
DEV void partial_store(Math<S> &m, int slice, int tile, const float (&acc)[S::MI][S::SUMS])
{
    char *to = partial_place(m, slice, tile);
#pragma unroll
    for (int q = 0; q < S::PARTIALS; ++q)
        st_global4(to + q * 2048, &acc[q * 4 / S::SUMS][q * 4 % S::SUMS]);
    named_sync(1 + m.wg, 128);
    /* Partner: fold_slices(), of the block that has slice 0 of this tile. */
    if (m.thread == 0) add_release_gpu(m.P.fold + tile * S::PARTS + m.part);
}

template <class S> DEV void fold_slices(Math<S> &m, int tile, float (&acc)[S::MI][S::SUMS])
{
    if (m.thread == 0) {
        uint32_t *word = m.P.fold + tile * S::PARTS + m.part;
        uint64_t start = 0;
        for (uint32_t tries = 1; load_acquire_gpu(word) != (uint32_t)m.P.split - 1; ++tries)
            if (tries % 1024 == 0 && overdue(m.P, &start, ROLE_MATH)) break;
        store_relaxed(word, 0); /* at rest for the next launch */
    }
    named_sync(1 + m.wg, 128);
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

/* ---- Finishing ---------------------------------------------------------------------------------------------- */

/* Bias and activation of a tile whose first column in the patch is COL; two columns of each eight
 * are this thread's. */
template <class S>
DEV void finish_tile(const Math<S> &m, const sg_patch &p, int col, float (&acc)[S::MI][S::SUMS])
{
    typedef typename S::T T;
    const T *bias = (const T *)m.P.program.bias;
    if (bias != nullptr) {
        const int first = col + m.lane % 4 * 2, cols = p.cols;
        bias += p.col0 + first;
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
    const int act = m.P.program.act;
    if (act == SG_KERNEL_NONE) return;
#pragma unroll
    for (int i = 0; i < S::MI; ++i)
#pragma unroll
        for (int j = 0; j < S::SUMS; ++j) acc[i][j] = activate<false>(act, acc[i][j]);
}

/* 64 rows x W columns, rounded, into the next free slot; or piece PIECE of the block's last tile into
 * the stages.  Partner: storer(). */
template <class S> DEV void stage_piece(Math<S> &m, const uint32_t *v, bool last, int piece)
{
    const int at = m.wg * S::SLOTS + m.slot.at;
    mbar_spin(m.smem.slot_empty + 8 * at, m.slot.parity ^ 1);
    const uint32_t to = last ? last_place(m.smem, m.wg, piece) : m.smem.slot + at * S::PIECE_BYTES;
#pragma unroll
    for (int q = 0; q < S::VECTORS; ++q)
        stmatrix4(to + piece_vector(m, q), v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]);
    proxy_fence_shared(); /* ordinary stores before, the storer's bulk store after */
    __syncwarp();
    if (m.lane == 0) mbar_arrive(m.smem.slot_full + 8 * at);
    ring_step(m.slot);
}

/* A place for a tile is filled with zeros where the patch has no rows or columns. */
template <class S>
DEV void blank_rest(const Math<S> &m, const sg_patch &p, const Tile &t,
                    float (&acc)[S::MI][S::SUMS])
{
    const int rows = p.rows - t.band * S::BM - m.part * S::MI * 64 - m.warp * 16 - m.lane / 4;
    const int cols = p.cols - t.col * S::BN - m.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < S::MI; ++i)
#pragma unroll
        for (int j = 0; j < S::SUMS; ++j)
            if (i * 64 + (j & 2) * 4 >= rows || j / 4 * 8 + (j & 1) >= cols) acc[i][j] = 0.f;
}

/* The other warpgroup may look for its stages: this one has seen all of its own loaded.  Before that,
 * a barrier could be two phases behind the one that the other waits for, and would not tell. */
template <class S> DEV void turn_pass(const Math<S> &m)
{
    if (m.thread == 0) mbar_arrive(m.smem.turn + 8 * (1 - m.wg));
}

/* All math warps have done with the stages: the last tile may go there. */
template <class S> DEV void stages_leave()
{
    if (S::WGS == 1)
        named_sync(1, 128);
    else
        named_sync(3, 256);
}

/* Rounds the finished tile into HELD, or stages it at once. */
template <class S>
DEV void round_tile(Math<S> &m, int unit, float (&acc)[S::MI][S::SUMS], uint32_t *held)
{
    constexpr int V = S::PIECE_SUMS;
    if (S::FOLD == FOLD_ADDENDS || m.P.epilogue || m.P.tiled) {
        const sg_patch &p = patch_in_list(m.P, m.patch);
        if (S::FOLD == FOLD_ADDENDS && p.adds)
#pragma unroll
            for (int c = 0; c < S::CHUNKS; ++c)
                fold_addends(m, p.adds, p.k0 < p.k1 ? p.own_at : NO_OWN, p.own_rounded,
                             &acc[c * V / S::SUMS][c * V % S::SUMS]);
        if (S::TURNS > 1 && S::FOLD == FOLD_ADDENDS && p.adds) turn_pass(m);
        if ((m.P.epilogue && p.final) || m.P.tiled) {
            int in_pass;
            slice_of<S>(m.P, unit, &in_pass);
            const Tile t = tile_at<S>(p, in_pass - m.base, m.im, m.in);
            if (m.P.epilogue && p.final) finish_tile(m, p, t.col * S::BN, acc);
            if (S::CL == 1 && m.P.tiled) blank_rest(m, p, t, acc);
        }
    }
    const bool last = !S::HOLDS && is_last<S>(m.P, unit);
    /* In turn, one leaves them a tile earlier than the other. */
    if (last || (S::TURNS > 1 && is_last<S>(m.P, unit + gridDim.x / S::CL))) stages_leave<S>();
#pragma unroll
    for (int c = 0; c < S::CHUNKS; ++c) {
        const float *x = &acc[c * V / S::SUMS][c * V % S::SUMS];
        uint32_t *out = held + (S::HOLDS ? c * V / 2 : 0);
#pragma unroll
        for (int j = 0; j < V / 2; ++j) out[j] = pack<typename S::T>(x[2 * j], x[2 * j + 1]);
        if (!S::HOLDS) stage_piece(m, out, last, c);
    }
}

/* Past the stages of the tile of patch PATCH that is the other warpgroup's. */
template <class S> DEV void stages_skip(Math<S> &m, int patch, int stages)
{
    if (S::FOLD == FOLD_ADDENDS)
        stages += S::CHUNKS * sg_walk_div(patch_in_list(m.P, patch).adds, S::ADDENDS);
    const int at = m.ring.at + stages;
    m.ring.parity ^= at / S::STAGES & 1;
    m.ring.at = at % S::STAGES;
}

/* One tile after the other, of which every second one is this warpgroup's. */
template <class S> DEV void math_in_turn(Math<S> &m)
{
    const int stride = gridDim.x / S::CL;
    float acc[S::MI][S::SUMS];
    uint32_t out[S::PIECE_SUMS / 2];
    int stages = 0, turn = m.wg;
    for (int unit = blockIdx.x / S::CL; unit < m.P.units; unit += stride) {
        stages = stages_of<S>(m.P, m.ahead, unit, stages);
        m.patch = m.ahead.patch, m.base = m.ahead.base;
        if (turn-- > 0) {
            stages_skip(m, m.patch, stages);
            continue;
        }
        turn = 1;
        mbar_spin(m.smem.turn + 8 * m.wg, m.turn_parity); /* partner: turn_pass() */
        m.turn_parity ^= 1;
        /* Addends come through stages, too, behind those of the product. */
        const bool adds = S::FOLD == FOLD_ADDENDS && patch_in_list(m.P, m.patch).adds > 0;
        for (int s = 0; s < stages; ++s) {
            stage_issue(m, acc, s);
            if (s + 1 == stages && !adds) turn_pass(m);
            stage_settle(m, s);
        }
        multiply_end(m, acc, stages > 0);
        round_tile(m, unit, acc, out);
    }
    const int first = blockIdx.x / S::CL;
    if (m.wg > 0 && first < m.P.units && is_last<S>(m.P, first)) stages_leave<S>(); /* one tile */
}

template <class S> DEV void math_run(Math<S> &m)
{
    constexpr int V = S::PIECE_SUMS;
    const int first = blockIdx.x / S::CL, stride = gridDim.x / S::CL;
    float acc[S::MI][S::SUMS];
    uint32_t held[S::HOLDS ? S::MI * S::BN / 4 : V / 2];
    bool holding = false;
    m.next_stages = stages_of<S>(m.P, m.ahead, first, 0);
    for (int unit = first; unit < m.P.units; unit += stride) {
        m.patch = m.ahead.patch, m.base = m.ahead.base;
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
        round_tile(m, unit, acc, held);
        holding = S::HOLDS;
    }
    if (!holding) return;
    stages_leave<S>();
#pragma unroll
    for (int c = 0; c < S::CHUNKS; ++c) stage_piece(m, held + (S::HOLDS ? c * V / 2 : 0), true, c);
}
