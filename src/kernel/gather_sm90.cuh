/* gather_sm90.cuh -- rows of all ranks that come as data which tell by themselves that they have
 * come (tagged.cuh), beside the Hopper product (gemm_sm90.cuh).
 *
 * What the launch carries is of two kinds.  Sends store own rows into memory at rest of peers.
 * Takes read what peers have sent as soon as it is there, put it back to rest and store it into the
 * own scratch, and own rows beside it; the product loads all rows from there.  No flag travels:
 * takes raise those of this rank, one for each part of k, that watchers wait for.
 *
 *     warp 1   sends, and then is a storer      in blocks without tiles half of the math warps, too
 *     warp 2   takes, and then may be a storer  and the other half
 *     loader   asks for B of all stages at once, and for A of each as it comes (load_sm90.cuh)
 *
 * Sends wait for the gate alone.  So takes, which wait for sends of peers, and tiles, which wait
 * for takes, go on with any number of blocks.
 *
 * A step is cut into pieces of as many words as a warp has under way, and these are dealt to all
 * warps of a kind, the first part of k first. */
#pragma once
#include "kernel/tagged.cuh"
#include "kernel/wait_sm90.cuh"

enum { AT_ONCE = SG_KERNEL_PIECE_WORDS / LANES }; /* words of a lane */

/* Of each kind in a block without tiles: a mover and half of the math warps. */
template <class S> constexpr int HANDS = 1 + 2 * S::WGS;

/* One of ALL warps that send, or that take. */
struct Hand {
    int index, all, lane;
};

/* What a lane has of a piece: COUNT words, 32 apart from each other, from byte AT of row ROW on. */
struct Words {
    int row, at, count;
};

/* All pieces of a row are about as long. */
DEV Words words_of(const sg_kernel_step &s, int piece, int lane)
{
    const int of_row = s.src.cols / 8, parts = sg_kernel_row_pieces(&s);
    const int each = sg_walk_div(of_row, parts), row = piece / parts;
    const int first = (piece - row * parts) * each, words = sg_walk_min(each, of_row - first);
    return Words{row, (first + lane) * WORD_BYTES, (words - lane + LANES - 1) / LANES};
}

DEV char *words_place(const Spot &spot, const Words &w)
{
    return spot.data + w.row * spot.pitch + w.at;
}

enum { APART = LANES * WORD_BYTES };

/* Own rows, which were here before the launch. */
DEV void words_load(const char *from, int count, uint4 (&word)[AT_ONCE])
{
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        if (i < count) word[i] = __ldcg((const uint4 *)(from + i * APART));
}

/* Brings what the first piece needs into the caches, before anything may begin. */
DEV void gather_touch(const Param &P, int step)
{
    const sg_kernel_step &s = P.push[step];
    int sum = s.src.cols;
    for (int i = 0; i < s.tos; ++i) sum += P.program.to[s.to0 + i].row0;
    if (s.raises > 0) sum += P.program.raise[s.raise0].flag0;
    compute_now(sum);
}

/* Of the first warp of each kind in a block: as storers do. */
template <class S>
DEV void gather_stamp(const Smem<S> &smem, bool takes, StampEvent event, int value = 0)
{
    if (threadIdx.x == (takes ? 64 : 32))
        stamp(smem.stamp, takes ? STAMP_STORER + 1 : STAMP_STORER, event, value);
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Partner: words_await() there. */
template <class S> DEV void gather_send(const Param &P, const Smem<S> &smem, const Hand &self)
{
    const int steps = P.pushes - P.takes, half = run_half(P.program);
    bool open = false;
    for (int i = 0, next = self.index; i < steps; ++i) {
        const sg_kernel_step &s = P.push[i];
        const Spot from = spot_of(P.program, s.src, half, false);
        const int pieces = sg_kernel_pieces(&s);
        for (; next < pieces; next += self.all) {
            const Words mine = words_of(s, next, self.lane);
            uint4 word[AT_ONCE];
            words_load(words_place(from, mine), mine.count, word);
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) word[j] = word_not_at_rest(word[j]);
            if (!open && !(open = !P.protocol.gate || warp_gate(P, smem))) return;
            gather_stamp(smem, false, STAMP_STAGED, i);
            for (int to = 0; to < s.tos; ++to) {
                char *there =
                    words_place(spot_of(P.program, P.program.to[s.to0 + to], half, false), mine);
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j)
                    if (j < mine.count) store_tagged(there + j * APART, word[j]);
            }
        }
        next -= pieces; /* counted on from the last piece of this step */
    }
    gather_stamp(smem, false, STAMP_SENT);
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* What a warp that takes has looked up to credit pieces of one part of k, while the first of
 * them was on its way: in shared memory, since no register can keep it, and each look-up is
 * loads that depend on each other. */
enum {
    CREDIT_COUNT = 0,
    CREDIT_FLAG = 8,
    CREDIT_EPOCH = 16,
    CREDIT_PIECES = 24,
    CREDIT_BYTES = 32
};

template <class S> DEV uint32_t credit_place(const Smem<S> &smem, int number)
{
    static_assert(CREDIT_BYTES * HANDS<S> <= 2 * RAISED_BYTES, "no raise is looked up yet");
    return smem.raised + CREDIT_BYTES * number;
}

/* A number of pieces has been stored into the scratch, by all lanes before a __syncwarp(); by
 * the lane that has looked up.  Whoever credits the last one of a part of k raises its
 * flag.  Partner: flag_wait() of this rank's watchers. */
DEV void credit_fire(uint32_t from, uint32_t pieces)
{
    fence_gpu();
    if (count_up_here((uint32_t *)(uintptr_t)shared_load8(from + CREDIT_COUNT), pieces,
                      shared_load(from + CREDIT_PIECES)))
        store_relaxed((uint64_t *)(uintptr_t)shared_load8(from + CREDIT_FLAG),
                      shared_load8(from + CREDIT_EPOCH));
}

/* By one lane, at the first piece of step S: the OWED pieces of another part of k are credited.
 * Returns how many are still. */
DEV uint32_t credit_look_up(const Param &P, const sg_kernel_step &s, uint32_t to, uint32_t owed)
{
    const sg_raise &r = P.program.raise[s.raise0];
    const uint32_t *count = r.counter < 0 ? s.ticket : P.program.count + r.counter;
    const uint64_t *flag = own_flag(P.program, P.program.rank->rank, r.flag0);
    if (owed > 0 && shared_load8(to + CREDIT_FLAG) == (uint64_t)(uintptr_t)flag) return owed;
    if (owed > 0) credit_fire(to, owed);
    shared_store8(to + CREDIT_COUNT, (uint64_t)(uintptr_t)count);
    shared_store8(to + CREDIT_FLAG, (uint64_t)(uintptr_t)flag);
    shared_store8(to + CREDIT_EPOCH, run_epoch(P.program.rank));
    shared_store(to + CREDIT_PIECES, (uint32_t)s.pieces);
    return 0;
}

/* This warp has waited for words of S since START.  Is that too long, or has somebody given up,
 * and are all ranks told so?  HERE: this lane has what it waits for.  As tagged_overdue(), which
 * one function for both would make five percent more code of. */
DEV bool words_overdue(const Param &P, const sg_kernel_step &s, bool here, uint64_t start)
{
    sg_kernel_rank *rank = P.program.rank;
    const uint64_t *aborts = own_words(P.program)->abort;
    bool gone = false;
#pragma unroll 1 /* here and below: movers have few registers */
    for (int q = 0; q < rank->ranks; ++q) gone |= load_relaxed(aborts + q) != 0;
    const bool late = __any_sync(0xffffffff, now_ns() - start > rank->limit_ns);
    if (!__any_sync(0xffffffff, late || gone)) return false;
    if (!here) {
        const sg_wait &wait = P.program.wait[s.wait0];
        here = trouble_record(rank, Stuck{SG_KERNEL_STUCK_FLAG, wait.by, s.step, -1, wait.flag0},
                              late, 0, run_epoch(rank));
    }
    /* As give_up(), by all lanes, behind the record that they have seen. */
    if (!__all_sync(0xffffffff, here)) return false;
    __syncwarp();
#pragma unroll 1
    for (int q = 0; q < rank->ranks; ++q)
        store_release(rank->words[q].abort + rank->rank, run_epoch(rank));
    return true;
}

/* COUNT words at FROM once they have come.  GO_ON() is done while they are on their way.  False,
 * for all lanes: they do not come. */
template <class Meanwhile>
DEV bool words_await(const Param &P, const sg_kernel_step &s, const char *from, int count,
                     uint4 (&word)[AT_ONCE], Meanwhile go_on)
{
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) word[i].w = i < count ? AT_REST : 0;
    uint64_t start = 0;
    for (uint32_t tries = 1;; ++tries) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (!has_come(word[i])) load_tagged(from + i * APART, &word[i]);
        if (tries == 1) go_on();
        bool here = true;
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) here = here && has_come(word[i]);
        if (__all_sync(0xffffffff, here)) return true;
        if (tries > 8) nap(); /* these loads take their share of the L2 */
        if (tries % 32 != 0) continue;
        if (start == 0) start = now_ns();
        if (words_overdue(P, s, here, start)) return false;
    }
}

/* NUMBER: of the warps of this block that take. */
template <class S>
DEV void gather_take(const Param &P, const Smem<S> &smem, const Hand &self, int number)
{
    const int half = run_half(P.program);
    const uint32_t credit = credit_place(smem, number);
    uint32_t owed = 0; /* pieces that are stored and not yet credited, in lane 0 */
    int looked = -1;   /* the step of the last one */
    if (P.protocol.gate && !warp_gate(P, smem)) return;
    gather_stamp(smem, true, STAMP_GATE);
    for (int i = P.pushes - P.takes, next = self.index; i < P.pushes; ++i) {
        const sg_kernel_step &s = P.push[i];
        const bool comes = P.program.place[s.src.buf].tagged;
        const int pieces = sg_kernel_pieces(&s);
        for (; next < pieces; next += self.all) {
            const Words mine = words_of(s, next, self.lane);
            char *from = words_place(spot_of(P.program, s.src, half, false), mine);
            uint4 word[AT_ONCE];
            const auto go_on = [&] {
                if (self.lane == 0 && looked != i) owed = credit_look_up(P, s, credit, owed);
                looked = i;
                __syncwarp();
            };
            if (!comes) {
                words_load(from, mine.count, word);
                go_on();
            } else if (!words_await(P, s, from, mine.count, word, go_on)) {
                return; /* recovery puts everything back */
            }
            char *into = words_place(spot_of(P.program, P.program.to[s.to0], half, false), mine);
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) {
                if (j >= mine.count) continue;
                *(uint4 *)(into + j * APART) = word[j];
                if (comes) rest_tagged(from + j * APART);
            }
            __syncwarp(); /* whoever credits has seen what all lanes have stored */
            gather_stamp(smem, true, STAMP_STAGED, i);
            ++owed;
        }
        next -= pieces;
    }
    if (owed > 0 && self.lane == 0) credit_fire(credit, owed);
    gather_stamp(smem, true, STAMP_RAISED);
}

/* ---- Who does it ----------------------------------------------------------------------------- */

/* By a warp that carries: the NUMBER-th of its kind in the block. */
template <class S>
DEV void gather_carry(const Param &P, const Smem<S> &smem, bool takes, int number)
{
    const int couriers = (int)gridDim.x - P.workers, block = (int)blockIdx.x - P.workers;
    const Hand self = {block < 0 ? (int)blockIdx.x : P.workers + number * couriers + block,
                       P.workers + HANDS<S> * couriers, (int)threadIdx.x % 32};
    gather_touch(P, takes ? P.pushes - P.takes : 0);
    gather_stamp(smem, takes, STAMP_BEGUN);
    launch_wait();
    gather_stamp(smem, takes, STAMP_FREE);
    if (takes)
        gather_take(P, smem, self, number);
    else
        gather_send(P, smem, self);
    __syncwarp();
}

/* A block without tiles. */
template <class S> DEV void gather_block(const Param &P, const Smem<S> &smem, int warp)
{
    if (warp == 0) {
        launch_wait();
        if (elect_one()) launch_next();
    } else if (warp == 3) {
        watcher_enter(P, smem, (int)threadIdx.x % 32);
    } else if (warp < 3) {
        gather_carry(P, smem, warp == 2, 0);
    } else {
        gather_carry(P, smem, warp % 2 != 0, 1 + (warp - 4) / 2);
    }
    __syncwarp();
}
