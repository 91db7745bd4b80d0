/* tagged_sm90.cuh -- sums over all ranks by data that tell by themselves that they have come
 * (tagged.cuh), in the Hopper product (gemm_sm90.cuh): a launch of two patches, of which the first
 * stores its product into every rank's places for tiles, and the second adds up what has come.
 *
 * Math warps store their rounded tile straight from registers, and afterwards read all ranks' words
 * until none is at rest any more, and put them back to rest.  So there is no acknowledgement, no
 * flag, no count of raisers and no stage of the pipeline between the last product and the sum.
 * Rows beyond the patch are neither stored nor awaited; columns beyond it, up to the tile's, are
 * both.
 *
 *     warp 3     watcher   hello, gate; looks up where words go and come from, for the math warps; hears the
 *                          others' hellos meanwhile.  Ends the run when all words have been read and put
 *                          back, while the sums are still being stored
 *     math                 all products of the block, each stored at once; then all sums
 *     storers              have nothing to do
 *
 * What is read and put back is behind named_sync() with the watcher, count_leave() of the launch
 * and protocol_end(), and so before any word of a later run in this half. */
#pragma once
#include "kernel/math_sm90.cuh"
#include "kernel/tagged.cuh"

template <class S> constexpr bool HOPS = S::FOLD == FOLD_HOPS; /* two (hops_sm90.cuh) */

/* ---- What the watcher's warp leaves for the math warps --------------------------------------- */

enum { TAGGED_RANKS = 32, TAGGED_FINAL = 1, TAGGED_EVEN = 2 };

/* Words of shared memory that raises and hellos take in other launches.  Addresses are of a patch's
 * first place, in the order of the lists. */
template <class S> DEV uint32_t tagged_to(const Smem<S> &smem, int i)
{
    return smem.raised + 8 * i;
}
template <class S> DEV uint32_t tagged_from(const Smem<S> &smem, int i)
{
    return smem.raised + 8 * (TAGGED_RANKS + i);
}
static_assert(16 * TAGGED_RANKS <= 2 * RAISED_BYTES, "");
enum { TAGGED_C = 0, TAGGED_PITCH = 8, TAGGED_HOW = 16 }; /* from Smem.hello on */

/* The first place of AREA. */
template <class S> DEV uint64_t tagged_place(const Param &P, const sg_area &area, int half)
{
    const char *data = (const char *)P.program.place[area.buf].data[half];
    return (uint64_t)(uintptr_t)(data + (int64_t)area.row0 * (S::BN * 2));
}

template <class S> DEV void tagged_look_up(const Param &P, const Smem<S> &smem, int lane)
{
    const int half = run_half(P.program);
    const sg_patch &sum = patch_in_list(P, 1);
    if (lane < P.first.tos)
        shared_store8(tagged_to(smem, lane),
                      tagged_place<S>(P, P.program.to[P.first.to0 + lane], half));
    if (lane < sum.adds)
        shared_store8(tagged_from(smem, lane),
                      tagged_place<S>(P, P.program.add[sum.add0 + lane].area, half));
    if (lane != 0) return;
    const sg_area &to = P.program.to[sum.to0];
    const sg_kernel_place &c = P.program.place[to.buf];
    const char *data = (const char *)c.data[half] + to.row0 * c.pitch + to.col0 * 2;
    const bool even = (((uintptr_t)data | (uintptr_t)c.pitch) & 15) == 0;
    shared_store8(smem.hello + TAGGED_C, (uint64_t)(uintptr_t)data);
    shared_store8(smem.hello + TAGGED_PITCH, (uint64_t)c.pitch);
    shared_store(smem.hello + TAGGED_HOW,
                 (sum.final ? TAGGED_FINAL : 0) | (even ? TAGGED_EVEN : 0));
}

/* The same in two hops (hops_sm90.cuh). */
template <class S> DEV void hops_look_up(const Param &P, const Smem<S> &smem, int lane);

/* By all lanes of the watcher's warp, first of all.  Partner: tagged_run(). */
template <class S> DEV void tagged_enter(const Param &P, const Smem<S> &smem, int lane)
{
    sg_kernel_rank *rank = P.program.rank;
    const bool says = P.protocol.begin && P.protocol.hello && blockIdx.x == 0;
    sg_kernel_hello *there = nullptr;
    if (says && lane < rank->ranks) there = hello_address(rank, lane);
    launch_wait(); /* the end of the run before changes epoch and half */
    if (lane == 0) stamp(smem.stamp, STAMP_WATCHER, STAMP_FREE);
    if (says) protocol_hello(rank, there, lane, P.program.hash, P.protocol.c, P.protocol.c_stride);
    if constexpr (HOPS<S>)
        hops_look_up(P, smem, lane);
    else
        tagged_look_up(P, smem, lane);
    const bool open = !P.protocol.gate ||
                      protocol_gate(rank, own_words(P.program), lane, P.program.baked, P.step);
    __syncwarp();
    if (lane != 0) return;
    stamp(smem.stamp, STAMP_WATCHER, STAMP_GATE);
    progress_release(smem.gate, open ? GATE_OPEN : GATE_SHUT);
}

/* What can be known of the run's end while the others multiply. */
DEV Leaving tagged_leaving(const Param &P, int lane)
{
    sg_kernel_rank *rank = P.program.rank;
    Leaving at = protocol_leaving(P.program, P.protocol, lane);
    if (at.heard) return at;
    at.heard = true;
    for (int q = lane; q < rank->ranks; q += LANES)
        at.heard &= hello_wait(rank, q, at.epoch, P.program.hash, SG_KERNEL_STUCK_END, -1);
    return at;
}

template <class S> DEV void tagged_watch(const Param &P, const Smem<S> &smem, int lane)
{
    tagged_enter(P, smem, lane);
    const auto meet = [&] {
        named_sync(MEET_READ, 128 * S::WGS + LANES);
        defect_tell(P, smem); /* what math has noted, or the loader for which it waited */
        if (lane == 0) stamp(smem.stamp, STAMP_WATCHER, STAMP_TOGETHER);
    };
    __syncwarp(); /* a warp comes to a barrier together */
    if (P.protocol.end)
        protocol_leave(P.program, P.protocol, tagged_leaving(P, lane), lane, gridDim.x, meet);
    else
        meet();
}

/* ---- A unit, as a math warp sees it ---------------------------------------------------------- */

template <class S> constexpr int EIGHT = S::BN / WORD_COLS; /* of 32 words each, for eight rows */

/* What two hops know of a part of a launch: the patch that adds, where it and who is sent to are
 * looked up, the block's first word of the tile, and the patch's columns.  Of one hop these are
 * constants, or parameters that are read anew each time: registers for them make other code of the
 * loop around the products. */
template <bool TWO> struct Hop {
    static constexpr int sum = 1, from = 0, to = 0, begin = 0, cols = 0, c_col = 0;
};
template <> struct Hop<true> {
    int sum, from, to, begin, cols, c_col;
};

template <class S> struct Summing {
    const Math<S> &m;
    int unit, row0, col0; /* of the patch: the tile's corner */
    int rows;             /* of the tile that the patch has */
    int words;            /* of 32 each */
    bool alive;           /* nobody has given up */
    Hop<HOPS<S>> hop;
};

template <class S> DEV void tagged_find(Summing<S> &s, int unit)
{
    const sg_patch &p = s.m.P.first;
    const Tile t = tile_at<S>(p, unit, 0, 0);
    s.unit = unit, s.row0 = t.band * S::BM, s.col0 = t.col * S::BN;
    s.rows = sg_walk_min(S::BM, p.rows - s.row0);
    s.words = sg_walk_div(s.rows, 8) * EIGHT<S>;
}

/* ---- Storing --------------------------------------------------------------------------------- */

/* Of 32 columns a lane has, rounded, two of each eight, and V of the first of them; now it gets the
 * lane % 4-th eight: a transposition among the four lanes of a row. */
template <class T> DEV uint4 tagged_word(const float *v, int lane)
{
    const bool odd = lane & 1, behind = lane & 2;
    uint32_t w[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) w[j] = pack<T>(v[4 * j], v[4 * j + 1]);
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
        const uint32_t got = __shfl_xor_sync(0xffffffff, odd ? w[j] : w[j + 1], 1);
        w[j] = odd ? got : w[j], w[j + 1] = odd ? w[j + 1] : got;
    }
    const uint32_t x = __shfl_xor_sync(0xffffffff, behind ? w[0] : w[2], 2);
    const uint32_t y = __shfl_xor_sync(0xffffffff, behind ? w[1] : w[3], 2);
    return behind ? make_uint4(x, y, w[2], w[3]) : make_uint4(w[0], w[1], x, y);
}

/* The tile in ACC, rounded, to who is to get it. */
template <class S> DEV void tagged_send(const Summing<S> &s, const float (&acc)[S::MI][S::SUMS])
{
    const Math<S> &m = s.m;
    const int first = (m.part * S::MI * 4 + m.warp) * 16;
    const int64_t at = ((int64_t)s.unit * S::BM + first) * (S::BN * 2) + m.lane * WORD_BYTES;
#pragma unroll
    for (int eight = 0; eight < 2 * S::MI; ++eight) {
        const int row = eight / 2 * 64 + eight % 2 * 8;
        const bool mine = first + row + m.lane / 4 < s.rows;
        uint4 word[EIGHT<S>];
#pragma unroll
        for (int x = 0; x < EIGHT<S>; ++x)
            word[x] = tagged_word<typename S::T>(&acc[eight / 2][16 * x + eight % 2 * 2], m.lane);
        for (int d = 0; d < (HOPS<S> ? 1 : m.P.first.tos); ++d) {
            char *there = (char *)(uintptr_t)shared_load8(tagged_to(m.smem, s.hop.to + d)) + at;
#pragma unroll
            for (int x = 0; x < EIGHT<S>; ++x)
                if (mine) store_tagged(there + (row / 8 * EIGHT<S> + x) * WORDS_BYTES, word[x]);
        }
    }
}

/* ---- Summing --------------------------------------------------------------------------------- */

/* This warp has waited since START.  Is that too long, or has somebody given up, and are all ranks
 * told so?  HERE: this lane has what it waits for; otherwise the AT-th of the sum has not come.
 * Lanes part for a record alone, and no loop is longer for one than for another: the compiler then
 * keeps to one count of stages for a warp. */
template <class S> DEV bool tagged_overdue(const Summing<S> &s, bool here, int at, uint64_t start)
{
    const Param &P = s.m.P;
    sg_kernel_rank *rank = P.program.rank;
    const uint64_t *words = own_words(P.program)->abort;
    uint64_t aborts = 0;
    for (int q = 0; q < (HOPS<S> ? rank->ranks : P.first.tos); ++q)
        aborts |= load_relaxed(words + q);
    const bool late = __any_sync(0xffffffff, now_ns() - start > rank->limit_ns);
    if (!late && !__any_sync(0xffffffff, aborts != 0)) return false;
    if (!here) {
        const sg_patch &p = patch_in_list(P, s.hop.sum);
        const sg_wait &wait = P.program.add[p.add0 + at].wait;
        const int tile = s.row0 / S::BM * sg_walk_cols(&p, S::BN) + s.col0 / S::BN;
        here = trouble_record(
            rank, Stuck{SG_KERNEL_STUCK_FLAG, wait.by, P.step, s.unit, wait.flag0 + tile}, late, 0,
            run_epoch(rank));
    }
    /* As give_up(), by all lanes, behind the record that they have seen. */
    if (!__all_sync(0xffffffff, here)) return false;
    __syncwarp();
    for (int q = 0; q < (HOPS<S> ? rank->ranks : P.first.tos); ++q)
        store_release(rank->words[q].abort + rank->rank, run_epoch(rank));
    return true;
}

/* What is loaded at a time: words of ITEMS times 32, of RANKS ranks each. */
template <int RANKS, int ITEMS> struct Batch {
    uint4 word[ITEMS][RANKS];
};

/* Is this lane's word X of the tile one that comes? */
template <class S> DEV bool tagged_comes(const Summing<S> &s, int x)
{
    return x < s.words && x / EIGHT<S> * 8 + s.m.lane / 4 < s.rows;
}

/* Where this lane's word WORD of the AT-th rank's tile comes. */
template <class S> DEV char *tagged_at(const Summing<S> &s, int at, int word)
{
    return (char *)(uintptr_t)shared_load8(tagged_from(s.m.smem, s.hop.from + at)) +
           (int64_t)s.unit * (S::BM * S::BN * 2) + word * WORDS_BYTES + s.m.lane * WORD_BYTES;
}

/* Words WORD, WORD + APART, ... of ranks RANK0 and behind, once they are there, and back to
 * rest. */
template <class S, int RANKS, int ITEMS>
DEV void tagged_read(Summing<S> &s, Batch<RANKS, ITEMS> &b, int rank0, int ranks, int word)
{
    constexpr int APART = 4 * S::WGS;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const bool any = tagged_comes(s, word + i * APART);
#pragma unroll
        for (int r = 0; r < RANKS; ++r) /* who is not asked for is there */
            b.word[i][r].w = any && rank0 + r < ranks ? AT_REST : 0;
    }
    uint64_t start = 0;
    for (uint32_t tries = 1; s.alive; ++tries) {
        bool here = true;
        int missing = 0;
#pragma unroll
        for (int r = 0; r < RANKS; ++r) {
            const char *from = tagged_at(s, rank0 + r, word);
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                if (!has_come(b.word[i][r]))
                    load_tagged(from + i * (APART * WORDS_BYTES), &b.word[i][r]);
        }
#pragma unroll
        for (int r = RANKS - 1; r >= 0; --r)
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                if (!has_come(b.word[i][r])) here = false, missing = rank0 + r;
        if (__all_sync(0xffffffff, here)) break;
        if (tries > 8) nap(); /* these loads take their share of the L2 */
        if (tries % 32 != 0) continue;
        if (start == 0) start = now_ns();
        s.alive = !tagged_overdue(s, here, missing, start);
    }
    if (!s.alive) return; /* recovery puts everything back */
#pragma unroll
    for (int r = 0; r < RANKS; ++r) {
        char *from = tagged_at(s, rank0 + r, word);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i)
            if (rank0 + r < ranks && tagged_comes(s, word + i * APART))
                rest_tagged(from + i * (APART * WORDS_BYTES));
    }
}

/* Word X into C. */
template <class S> DEV void tagged_put(const Summing<S> &s, int x, const uint4 &word)
{
    const Math<S> &m = s.m;
    const int row = x / EIGHT<S> * 8 + m.lane / 4;
    const int col = s.col0 + x % EIGHT<S> * WORD_COLS + m.lane % 4 * 8;
    const int left = tagged_comes(s, x) ? (HOPS<S> ? s.hop.cols : m.P.first.cols) - col : 0;
    char *to = (char *)(uintptr_t)shared_load8(m.smem.hello + TAGGED_C) +
               (s.row0 + row) * (int64_t)shared_load8(m.smem.hello + TAGGED_PITCH) +
               (HOPS<S> ? s.hop.c_col + col : col) * 2;
    if (left >= 8 && (shared_load(m.smem.hello + TAGGED_HOW) & TAGGED_EVEN)) {
        *(uint4 *)to = word;
    } else {
        const uint32_t w[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (i < left) ((uint16_t *)to)[i] = (uint16_t)(w[i / 2] >> i % 2 * 16);
    }
}

/* Word X to all others, TOS of them. */
template <class S> DEV void hops_send(const Summing<S> &s, int x, const uint4 &word, int tos);

/* Bias and activation of V, the sums of eight neighbours in word X. */
template <class S> DEV void tagged_finish(const Summing<S> &s, int x, float (&v)[8])
{
    typedef typename S::T T;
    const Math<S> &m = s.m;
    const int col = s.col0 + x % EIGHT<S> * WORD_COLS + m.lane % 4 * 8;
    const int left = tagged_comes(s, x) ? (HOPS<S> ? s.hop.cols : m.P.first.cols) - col : 0;
    const T *bias = (const T *)m.P.program.bias;
#pragma unroll
    for (int i = 0; i < 8 && bias != nullptr; ++i)
        if (i < left) v[i] += to_float(bias[(HOPS<S> ? s.hop.c_col : m.P.first.col0) + col + i]);
    activate<false>(m.P.program.act, v);
}

/* This warp's share of the words of a unit.  LAST: there is no other unit, so that the watcher may
 * know when they are all read. */
template <class S, int RANKS, int ITEMS>
DEV void tagged_sum(Summing<S> &s, int ranks, bool last, int tos = 0)
{
    constexpr int APART = 4 * S::WGS;
    const int begin = s.hop.begin;
    /* As often for all warps, which the compiler sees: then it goes on counting stages for all
     * threads at once. */
    for (int word0 = begin; word0 == begin || word0 < s.words; word0 += ITEMS * APART) {
        const int word = word0 + s.m.wg * 4 + s.m.warp;
        float sum[ITEMS][8];
#pragma unroll
        for (int i = 0; i < 8 * ITEMS; ++i) sum[i / 8][i % 8] = -0.f;
        for (int rank0 = 0; rank0 < ranks; rank0 += RANKS) {
            Batch<RANKS, ITEMS> b;
            tagged_read<S, RANKS, ITEMS>(s, b, rank0, ranks, word);
#pragma unroll
            for (int x = 0; x < RANKS * ITEMS; ++x) {
                const int r = x / ITEMS, i = x % ITEMS;
                if (rank0 + r < ranks) word_add<typename S::T>(b.word[i][r], sum[i]);
            }
        }
        __syncwarp();
        if (last && word0 + ITEMS * APART >= s.words) named_arrive(MEET_READ, 128 * S::WGS + LANES);
        /* Of all words before one is stored: who has none of it to do jumps once. */
        if (s.m.P.epilogue && (shared_load(s.m.smem.hello + TAGGED_HOW) & TAGGED_FINAL))
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) tagged_finish(s, word + i * APART, sum[i]);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const uint4 rounded = word_packed<typename S::T>(sum[i]);
            if constexpr (HOPS<S>) hops_send(s, word + i * APART, rounded, tos);
            tagged_put(s, word + i * APART, rounded);
        }
        __syncwarp(); /* who stores nothing does not count the next round before the others */
    }
}

/* ---- A math warp ----------------------------------------------------------------------------- */

/* False: nothing may be stored.  Partner: tagged_enter(). */
template <class S> DEV bool tagged_gate(const Math<S> &m)
{
    progress_wait(m.P, m.smem, m.smem.gate, GATE_OPEN, ROLE_MATH);
    __syncwarp();
    return progress_acquire(m.smem.gate) == GATE_OPEN;
}

template <class S> DEV void tagged_sum(Summing<S> &s, bool last)
{
    const int ranks = s.m.P.first.tos;
    if (ranks <= 2)
        tagged_sum<S, 2, 4>(s, ranks, last);
    else if (ranks <= 4)
        tagged_sum<S, 4, 2>(s, ranks, last);
    else
        tagged_sum<S, 8, 1>(s, ranks, last);
}

/* All products of the block, and then all sums. */
template <class S> DEV void tagged_run(Math<S> &m)
{
    const int first = first_unit<S>(m.P, m.smem), stride = stride_of<S>(m.P);
    Summing<S> s = {m, first, 0, 0, 0, 0, true};
    look_ahead(m, first, 0);
    for (int unit = first; unit < m.P.units; unit += stride) {
        float acc[S::MI][S::SUMS];
        m.patch = m.ahead.patch, m.base = m.ahead.base;
        math_stamp(m, STAMP_TILE, m.patch);
        tagged_find(s, unit);
        __syncwarp(); /* matrix instructions are for whole warps */
        multiply(m, acc, m.next_stages, unit + stride, nullptr, false);
        if (unit == first) s.alive = tagged_gate(m);
        if (!s.alive) s.rows = 0;
        tagged_send(s, acc);
        math_stamp(m, STAMP_SENT);
    }
    for (int unit = first; unit < m.P.units; unit += stride) {
        if (unit != s.unit || !s.alive) tagged_find(s, unit);
        tagged_sum(s, is_last<S>(m.P, unit));
    }
    math_stamp(m, STAMP_ADDED);
}
