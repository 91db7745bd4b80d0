/* courier_sm90.cuh -- a block of the Hopper product (gemm_sm90.cuh) that has no tiles and carries
 * rows to peers (push_sm90.cuh), with all of the shared memory that others have for their stages.
 * The product then has the bulk engines of its SMs to itself.
 *
 * A thread of each warp but the watcher's is a carrier.  Pieces are dealt to couriers first, and
 * then to the carriers of each: piece g of all steps is turn g / couriers of courier g % couriers.
 * Small steps are dealt whole: no courier then waits for others before it raises a flag.
 * All are loaded as soon as may be, and leave an SM in turn: what is wanted first is not to share
 * the link with what is wanted last.  What a carrier does in its turn, all others wait for, so
 * everything is looked up before.
 *
 * The watcher's warp credits what has arrived, all steps of it at once: the barriers of memory that
 * this takes wait for all that their SM has on its way, and no carrier waits for them.
 *
 * Three words of shared memory count turns: LEFT, those whose stores have been issued; HERE, those
 * whose stores have arrived; TOLD, those of the steps that this SM has credited. */
#pragma once
#include "kernel/push_sm90.cuh"
#include "kernel/watch_sm90.cuh"

template <class S> struct Courier {
    static constexpr int CARRIERS = S::THREADS / 32 - 1;
    static constexpr int ROOM = S::STAGES * S::STAGE_BYTES / CARRIERS / 1024 * 1024;
    /* Barriers, spots of carriers, and as many raises of each step as there is room for. */
    static constexpr int SPOTS = (8 + AHEAD * SPOT_BYTES) * CARRIERS;
    static constexpr int RAISES_ROOM = (S::SLOT_BYTES - SPOTS) / (SPOT_BYTES * LANES);
    static constexpr int KEPT = RAISES_ROOM < AHEAD ? RAISES_ROOM : AHEAD;
    static_assert(KEPT >= 1, "a raise of each step");
};

/* Where the barrier of carrier I is: it has no tile to stage. */
template <class S> DEV uint32_t courier_barrier(const Smem<S> &smem, int i)
{
    return smem.slot + 8 * i;
}

/* Where carrier I keeps targets that it has looked up ahead, and behind those of all carriers the
 * watcher's lanes keep raises. */
template <class S> DEV uint32_t courier_spots(const Smem<S> &smem, int i)
{
    return courier_barrier(smem, Courier<S>::CARRIERS) + AHEAD * SPOT_BYTES * i;
}

/* The words, zero when a block begins: nobody counts stages in them here, and nobody keeps maps. */
struct Turns {
    uint32_t left, here, told;
};

template <class S> DEV Turns courier_turns(const Smem<S> &smem)
{
    return Turns{smem.progress, smem.progress + 4, smem.mapped};
}

/* On the way to peers, at most, where couriers have smaller pieces: a little less than keeps a link
 * busy (400 GB/s, 2 MB), since with 3 MB some SMs' first pieces arrive with the last ones. */
enum { PUSHED_AT_ONCE = 5 << 18 };

/* How many pieces of an SM may be under way.  One is best where many SMs carry: of more, what comes
 * first would share the links with what comes last, and each barrier of memory waits for all that
 * its SM has on its way. */
DEV int courier_ahead(const sg_kernel_step &s, const Cut &cut, int couriers)
{
    const int round = cut.rows * cut.bytes * s.tos * couriers;
    return round > PUSHED_AT_ONCE ? 1 : PUSHED_AT_ONCE / round;
}

/* Waits for TURN, and until few enough are under way; with one at a time, and if it has PAUSED,
 * until all steps before this one, of FIRST turns, are credited, whose barrier of memory would wait
 * for this piece. */
template <class S>
DEV void courier_turn(const Param &P, const Smem<S> &smem, const Turns &at, int turn, int ahead,
                      int first, bool paused)
{
    progress_wait(P, smem, at.left, (uint32_t)turn, ROLE_STORER);
    if (turn >= ahead) progress_wait(P, smem, at.here, (uint32_t)(turn - ahead + 1), ROLE_STORER);
    if (ahead == 1 || paused) progress_wait(P, smem, at.told, (uint32_t)first, ROLE_STORER);
}

/* A carrier's piece of turn BEHIND, if it has one that is not known to have arrived.  Partner:
 * push_credit(). */
template <class S>
DEV void courier_arrive(const Param &P, const Smem<S> &smem, const Turns &at, int *behind)
{
    if (*behind < 0) return;
    bulk_wait<0>();
    progress_wait(P, smem, at.here, (uint32_t)*behind, ROLE_STORER);
    progress_release(at.here, (uint32_t)*behind + 1);
    *behind = -1;
}

/* One of ALL threads that carry pieces, each through ROOM bytes of shared memory at AT.  A step is
 * cut for as many blocks as SHARE it. */
struct Carrier {
    int index, all, share;
    uint32_t at;
    int room;
    uint32_t bar;   /* counts the bytes that come */
    uint32_t spots; /* room for AHEAD of them */
};

/* The first three carriers of an SM note what they do, in places of roles that it does not have. */
template <class S>
DEV void courier_stamp(const Smem<S> &smem, const Carrier &self, StampEvent event, int turn)
{
    const int role = self.index / self.share;
    if (role < STAMP_WATCHER) stamp(smem.stamp, role, event, turn);
}

/* A courier has all steps with all others, or every so many-th one to itself, see
 * sg_kernel_gemm_param.whole. */
DEV Team courier_team(const Param &P, int seat)
{
    const int couriers = couriers_of(P), block = seat - P.workers;
    return P.whole ? Team{0, 1, P.early + block, couriers, P.pushes}
                   : Team{block, couriers, P.early, 1, P.pushes};
}

/* All pieces of SELF, the first step being S. */
template <class S>
DEV void courier_carry(const Param &P, const Smem<S> &smem, const Team &team, const Carrier &self,
                       sg_kernel_step s)
{
    const Turns at = courier_turns(smem);
    int half = -1, behind = -1;
    int next = self.index, before = 0; /* its first piece of the step; pieces of all steps before */
    int turn = self.index / self.share;
    uint32_t parity = 0;
    for (int i = team.first; i < P.pushes; s = P.push[sg_walk_min(i += team.by, P.pushes - 1)]) {
        const Cut cut = push_cut(P, s, self.room, self.share);
        const int ahead = courier_ahead(s, cut, self.share);
        const int first = team_share(before, team);
        const bool paused = i <= team.first + P.pauses; /* in the first step: for nothing */
        for (; next < cut.pieces; next += self.all, turn += Courier<S>::CARRIERS) {
            const Piece p = push_piece(s, cut, next);
            const Spot source = push_source(P, s, p);
            const bool begins = half < 0;
            if (begins) {
                push_begin(source, p);
                if (self.index < self.share) launch_next(); /* warp 0's */
            } else {
                bulk_wait_read<0>();
            }
            push_load(source, p, self.at, self.bar);
            courier_stamp(smem, self, STAMP_TILE, turn);
            if (begins) half = run_half(P.program);
            if (P.leaves) courier_arrive(P, smem, at, &behind); /* a hello may take its time */
            const Spot to0 = push_target(P, smem, s, 0, p, half);
            push_keep(P, smem, s, p, half, self.spots, 1);
            courier_arrive(P, smem, at, &behind);
            /* All but the store of the first piece is before that; nothing may
             * come when the block has ended. */
            if (begins && P.protocol.gate && !storer_gate(P, smem)) {
                mbar_wait(P, smem, self.bar, parity, ROLE_STORER);
                return;
            }
            mbar_wait(P, smem, self.bar, parity, ROLE_STORER);
            courier_stamp(smem, self, STAMP_FIRST, turn);
            parity ^= 1;
            courier_turn(P, smem, at, turn, ahead, first, paused);
            push_store(to0, p, self.at);
            for (int to = 1; to < s.tos; ++to)
                push_store(push_kept(P, smem, s, p, half, self.spots, to), p, self.at);
            bulk_commit();
            progress_release(at.left, (uint32_t)turn + 1);
            courier_stamp(smem, self, STAMP_SENT, turn);
            behind = turn;
        }
        next -= cut.pieces, before += cut.pieces; /* counted on from the last piece of this step */
    }
    courier_arrive(P, smem, at, &behind);
}

template <class S> DEV void courier(const Param &P, const Smem<S> &smem, int warp)
{
    typedef Courier<S> C;
    const Team team = courier_team(P, seat_of(smem));
    const int lane = (int)threadIdx.x % 32;
    if (warp == 3) {
        watcher_enter(P, smem, lane);
        watcher<S>(P, smem, 0, 0, lane); /* hellos of those whose tensors rows go to */
        launch_wait();
        const Turns at = courier_turns(smem);
        if (!P.protocol.gate || warp_gate(P, smem))
            push_credit<S, C::KEPT>(P, smem, team, C::ROOM, team.all, Arrivals{at.here, at.told},
                                    courier_spots(smem, C::CARRIERS), STAMP_WATCHER, lane);
    } else if (P.pushes > 0 && elect_one()) {
        const sg_kernel_step first = P.push[sg_walk_min(team.first, P.pushes - 1)];
        const int i = warp < 3 ? warp : warp - 1;
        const Carrier self = {i * team.all + team.block,
                              C::CARRIERS * team.all,
                              team.all,
                              smem.stage + i * C::ROOM,
                              C::ROOM,
                              courier_barrier(smem, i),
                              courier_spots(smem, i)};
        courier_carry(P, smem, team, self, first);
    }
    __syncwarp();
}
