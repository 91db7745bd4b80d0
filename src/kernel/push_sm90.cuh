/* push_sm90.cuh -- rows that a launch of the Hopper product (gemm_sm90.cuh) carries to peers beside
 * its tiles: no engine is taken for them, and no kernel before it.
 *
 * Couriers do it (courier_sm90.cuh), blocks for which there are no tiles: the tiles of a launch
 * rarely fill all SMs to the end.  Where there are none, the storers' warps do, while the math
 * warpgroups multiply their first tiles, through the slots that these will need afterwards.  Where
 * all first tiles wait for what others carry, or couriers are few, the storers carry the first
 * steps even beside couriers: little else is under way in their SMs then, and what is waited for
 * first arrives in a hundred small pieces at once.  A piece is as much of a COPY step as a
 * carrier's memory holds: rows, or a part of one; a courier's, and those of first steps, no more
 * than leaves each carrier one.  Pieces are dealt to all blocks that carry, those of the first step
 * first: piece g of all steps is one of block g % all.
 *
 * Who carries does not credit: the barrier of memory that this takes waits for all that the SM has
 * on its way.  Another warp does, all steps at once of which the block's pieces have arrived. */
#pragma once
#include "kernel/wait_sm90.cuh"

/* ---- What storers wait for, both here and in store_sm90.cuh ---------------------------------- */

/* May something be stored into the own tensor of rank Q?  Partner: watcher_leave(). */
template <class S> DEV bool storer_may(const Param &P, const Smem<S> &smem, int q)
{
    const uint32_t bit = 1u << q % 32, word = hello_place(smem, q);
    uint32_t tries = 0;
    while (!(progress_acquire(word) & bit))
        if (!patient(P, smem, &tries, ROLE_STORER)) return false;
    return shared_load(word + HELLO_MAY) & bit;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* How a step is cut. */
struct Cut {
    int pieces;
    int rows;      /* of a piece */
    int parts;     /* of a row, if a piece is not whole rows */
    int row_bytes; /* of the step */
    int bytes;     /* of a row in a piece: all, or a part */
};

/* For SHARE carriers or blocks of them, in pieces of ROOM bytes at most. */
DEV Cut push_cut(const Param &P, const sg_kernel_step &s, int room, int share)
{
    Cut c;
    c.row_bytes = s.src.cols * element_bytes(P.program, P.program.place[s.src.buf]);
    if (c.row_bytes <= room) {
        c.rows = sg_walk_min(room / c.row_bytes, sg_walk_div(s.src.rows, share));
        c.parts = 1, c.bytes = c.row_bytes;
        c.pieces = sg_walk_div(s.src.rows, c.rows);
    } else {
        c.rows = 1, c.parts = sg_walk_div(c.row_bytes, room);
        c.bytes = sg_walk_div(c.row_bytes, 16 * c.parts) * 16;
        c.pieces = s.src.rows * c.parts;
    }
    return c;
}

struct Piece {
    int row, rows; /* of the step */
    int at, bytes; /* in a row */
};

DEV Piece push_piece(const sg_kernel_step &s, const Cut &c, int i)
{
    Piece p;
    const int band = c.parts == 1 ? i : i / c.parts;
    p.row = band * c.rows, p.rows = sg_walk_min(c.rows, s.src.rows - p.row);
    p.at = (i - band * c.parts) * c.bytes, p.bytes = sg_walk_min(c.bytes, c.row_bytes - p.at);
    if (c.parts == 1) p.at = 0;
    return p;
}

/* The first byte of PIECE in AREA, a matrix that begins at SPOT. */
DEV char *push_place(const Param &P, const sg_area &area, const Spot &spot, const Piece &p)
{
    return spot.data + (int64_t)(area.row0 + p.row) * spot.pitch +
           (int64_t)area.col0 * element_bytes(P.program, P.program.place[area.buf]) + p.at;
}

/* Where PIECE comes from.  It is of an input, which has no halves and needs no gate. */
DEV Spot push_source(const Param &P, const sg_kernel_step &s, const Piece &p)
{
    const sg_kernel_place &place = P.program.place[s.src.buf];
    Spot spot = {(char *)place.data[0], place.pitch};
    spot.data = push_place(P, s.src, spot, p);
    return spot;
}

/* Rows side by side; BAR counts the bytes. */
DEV void push_load(const Spot &source, const Piece &p, uint32_t to, uint32_t bar)
{
    const char *from = source.data;
    mbar_expect(bar, (uint32_t)(p.rows * p.bytes));
    if (source.pitch == p.bytes) {
        bulk_load(to, from, (uint32_t)(p.rows * p.bytes), bar);
    } else {
        for (int r = 0; r < p.rows; ++r, from += source.pitch, to += (uint32_t)p.bytes)
            bulk_load(to, from, (uint32_t)p.bytes, bar);
    }
}

/* Behind the launch before us, with all looked up before that the first load needs. */
DEV void push_begin(const Spot &source, const Piece &p)
{
    compute_now((int)(uintptr_t)source.data + (int)source.pitch + p.rows + p.bytes);
    launch_wait();
}

/* Where PIECE goes of area TO of the step, rows PITCH apart; data NULL: nowhere. */
template <class S>
DEV Spot push_target(const Param &P, const Smem<S> &smem, const sg_kernel_step &s, int to,
                     const Piece &p, int half)
{
    const sg_area &area = P.program.to[s.to0 + to];
    const sg_kernel_place &place = P.program.place[area.buf];
    Spot spot = {(char *)place.data[half], place.pitch};
    if (area.leave) {
        if (!storer_may(P, smem, area.rank)) return Spot{nullptr, 0};
        const uint32_t word = hello_place(smem, area.rank) + HELLO_DIRECT;
        if (shared_load(word) & 1u << area.rank % 32)
            spot = hello_tensor(P.program, area.rank, run_epoch(P.program.rank));
    }
    spot.data = push_place(P, area, spot, p);
    return spot;
}

/* So many targets of a piece and raises of a step are looked up ahead, and kept in shared memory,
 * since no register can. */
enum { AHEAD = 8, SPOT_BYTES = 16 };

DEV void spot_keep(uint32_t at, const Spot &s)
{
    const uint64_t data = (uint64_t)(uintptr_t)s.data, pitch = (uint64_t)s.pitch;
    shared_store(at, (uint32_t)data);
    shared_store(at + 4, (uint32_t)(data >> 32));
    shared_store(at + 8, (uint32_t)pitch);
    shared_store(at + 12, (uint32_t)(pitch >> 32));
}

DEV Spot spot_kept(uint32_t at)
{
    const uint64_t data = shared_load(at) | (uint64_t)shared_load(at + 4) << 32;
    const uint64_t pitch = shared_load(at + 8) | (uint64_t)shared_load(at + 12) << 32;
    return Spot{(char *)(uintptr_t)data, (int64_t)pitch};
}

DEV void raise_keep(uint32_t at, const Raise &x)
{
    const uint64_t flag = (uint64_t)(uintptr_t)x.flag;
    shared_store(at, (uint32_t)flag);
    shared_store(at + 4, (uint32_t)(flag >> 32));
    shared_store(at + 8, (uint32_t)x.counter);
    shared_store(at + 12, x.raisers);
}

DEV Raise raise_kept(uint32_t at)
{
    const uint64_t flag = shared_load(at) | (uint64_t)shared_load(at + 4) << 32;
    return Raise{(uint64_t *)(uintptr_t)flag, (int)shared_load(at + 8), shared_load(at + 12)};
}

DEV void push_store(const Spot &to, const Piece &p, uint32_t from)
{
    if (to.data == nullptr) return;
    if (to.pitch == p.bytes) {
        bulk_store(to.data, from, (uint32_t)(p.rows * p.bytes));
        return;
    }
    char *row = to.data;
    for (int r = 0; r < p.rows; ++r, row += to.pitch)
        bulk_store(row, from + (uint32_t)(r * p.bytes), (uint32_t)p.bytes);
}

/* Targets from FIRST on that are looked up ahead. */
template <class S>
DEV void push_keep(const Param &P, const Smem<S> &smem, const sg_kernel_step &s, const Piece &p,
                   int half, uint32_t spots, int first)
{
    for (int to = first; to < s.tos && to < AHEAD; ++to)
        spot_keep(spots + SPOT_BYTES * to, push_target(P, smem, s, to, p, half));
}

template <class S>
DEV Spot push_kept(const Param &P, const Smem<S> &smem, const sg_kernel_step &s, const Piece &p,
                   int half, uint32_t spots, int to)
{
    return to < AHEAD ? spot_kept(spots + SPOT_BYTES * to) : push_target(P, smem, s, to, p, half);
}

/* ---- Crediting ------------------------------------------------------------------------------- */

/* Blocks that share steps FIRST, FIRST + BY, ... in front of END, and which of ALL this one is. */
struct Team {
    int block, all;
    int first, by, end;
};

/* How many of the first PIECES of all are a block's. */
DEV int team_share(int pieces, const Team &team)
{
    return pieces > team.block ? sg_walk_div(pieces - team.block, team.all) : 0;
}

/* What a block has of a step. */
struct Share {
    uint32_t end; /* its pieces of this step and of all before it */
    int sharers;  /* blocks that have any of it */
    bool any;
};

/* The sum of V over the lanes up to this one. */
DEV int lanes_upto(int v, int lane)
{
    for (int by = 1; by < LANES; by *= 2) {
        const int those = __shfl_sync(0xffffffff, v, lane < by ? lane : lane - by);
        if (lane >= by) v += those;
    }
    return v;
}

/* Of the step of each lane, which has PIECES; *BEFORE: those of all steps before the lanes', and
 * then theirs as well. */
DEV Share team_shares(int pieces, const Team &team, int lane, int *before)
{
    const int upto = *before + lanes_upto(pieces, lane);
    const int first = team_share(upto - pieces, team), end = team_share(upto, team);
    *before = __shfl_sync(0xffffffff, upto, LANES - 1);
    return Share{(uint32_t)end, sg_walk_min(pieces, team.all), first < end};
}

/* Where the pieces of a block are counted that have arrived, and, unless 0, those of the steps that
 * it has credited. */
struct Arrivals {
    uint32_t here, told;
};

/* Waits until pieces up to NEXT have arrived; returns how many have.  Who has lost patience goes
 * on, see mbar_wait(). */
template <class S>
DEV uint32_t push_here(const Param &P, const Smem<S> &smem, uint32_t word, uint32_t next, int role,
                       int lane)
{
    uint32_t here = next;
    if (lane == 0) {
        const uint32_t seen = progress_wait(P, smem, word, next, ROLE_STORER);
        if (seen > here) here = seen;
        stamp(smem.stamp, role, STAMP_STAGED, (int)here);
    }
    __syncwarp(); /* what a lane has acquired, all have */
    return __shfl_sync(0xffffffff, here, 0);
}

/* Until a step is raised whose TICKET the herald then clears, which has this block's count by now.
 * Nothing but time hangs on it, and the herald may have no SM yet while others' kernels have some:
 * so it ends after some LOOKS, which take half a microsecond each.  Partner: herald_steps(). */
DEV void push_pause(const uint32_t *ticket, bool waits)
{
    enum { LOOKS = 64 };
    int looks = 0;
    while (__any_sync(0xffffffff, waits && load_acquire_gpu(ticket) != 0) && looks < LOOKS) ++looks;
}

/* By all lanes of a warp: a block is counted in when all pieces have arrived that it carries of a
 * step, and the last one that has some raises.  A carrier's stores are complete, and seen by it,
 * behind its bulk_wait(), and by all lanes behind the release and acquire of HERE; so the barrier
 * of memory before the relaxed count, for this GPU, and that of the last block behind its own, for
 * all, put them before the flags for whoever acquires these.
 *
 * Each of these barriers takes some microseconds, since it waits for all that its SM has on its
 * way.  So a lane has a step, and all steps that have arrived are credited between two of them;
 * and where there is a herald, it passes them for all, and a block only counts itself.
 * ROOM and SHARE: see push_cut().  KEPT: room for EACH raises of each lane's step.  ROLE: who
 * notes.  Partners: whoever waits for the step's flags, herald_steps(). */
template <class S, int EACH>
DEV void push_credit(const Param &P, const Smem<S> &smem, const Team &team, int room, int share,
                     const Arrivals &at, uint32_t kept, int role, int lane)
{
    const uint64_t epoch = run_epoch(P.program.rank);
    int before = 0;
    kept += SPOT_BYTES * EACH * lane;
    for (int i = team.first + team.by * lane; __any_sync(0xffffffff, i < team.end);
         i += team.by * LANES) {
        const sg_kernel_step s = P.push[sg_walk_min(i, team.end - 1)];
        const int pieces = i < team.end ? push_cut(P, s, room, share).pieces : 0;
        const Share mine = team_shares(pieces, team, lane, &before);
        const int raises = mine.any ? s.raises : 0;
        for (int j = 0; j < raises && j < EACH; ++j)
            raise_keep(kept + SPOT_BYTES * j,
                       raise_find(P.program, P.program.raise[s.raise0 + j], 0));
        bool owed = mine.any;
        for (uint32_t lacking; (lacking = __ballot_sync(0xffffffff, owed)) != 0;) {
            const uint32_t next = __shfl_sync(0xffffffff, mine.end, __ffs((int)lacking) - 1);
            const uint32_t here = push_here(P, smem, at.here, next, role, lane);
            const bool now = owed && mine.end <= here;
            if (P.heralds == 0 && __any_sync(0xffffffff, now && mine.sharers == 1))
                fence_sys();
            else if (P.heralds == 0)
                fence_gpu();
            else if (now && raises > 0 && !defect_noted(smem))
                add_release_gpu(s.ticket);
            if (lane == 0) stamp(smem.stamp, role, STAMP_SENT);
            const bool last = now && raises > 0 && P.heralds == 0 && !defect_noted(smem) &&
                              (mine.sharers == 1 || count_up(s.ticket, (uint32_t)mine.sharers));
            for (int j = 0; last && j < raises; ++j)
                raise_fire(P.program,
                           j < EACH ? raise_kept(kept + SPOT_BYTES * j)
                                    : raise_find(P.program, P.program.raise[s.raise0 + j], 0),
                           epoch);
            if (at.told && P.pauses > 0) push_pause(s.ticket, now && i < team.first + P.pauses);
            owed = owed && !now;
            const int credited = 31 - __clz((int)__ballot_sync(0xffffffff, now));
            const uint32_t told = __shfl_sync(0xffffffff, mine.end, credited);
            if (lane == 0) {
                if (at.told) progress_release(at.told, told);
                stamp(smem.stamp, role, STAMP_RAISED, (int)told);
            }
        }
    }
}

/* ---- Storers that carry ---------------------------------------------------------------------- */

/* The slots of all storers hold two pieces: one comes, the other leaves. */
template <class S> constexpr int PUSH_ROOM = S::SLOT_BYTES / 2 / 16 * 16;

/* The pieces of this block, by all lanes of the first storer's warp.  A lane has a step: whose
 * piece it is loads and stores it.  The next one is on its way in, or asked for, before the one
 * before is known to have arrived.  Partner: push_credit(). */
template <class S>
DEV void push_rows(const Param &P, const Smem<S> &smem, const Team &team, int share,
                   const Arrivals &at, int lane)
{
    int half = -1; /* not known: the launch before us may still be at work */
    const auto load = [&](const sg_kernel_step &s, const Cut &cut, int piece, uint32_t turn) {
        const Piece p = push_piece(s, cut, piece);
        const Spot source = push_source(P, s, p);
        if (half < 0) push_begin(source, p);
        push_load(source, p, smem.slot + turn % 2 * PUSH_ROOM<S>, smem.pushed + 8 * (turn % 2));
    };
    int next = team.block, last = -1; /* its next piece; the lane of the last one */
    uint32_t turn = 0;                /* how many have left */
    for (int i = team.first + lane; __any_sync(0xffffffff, i < team.end); i += LANES) {
        const sg_kernel_step &s = P.push[sg_walk_min(i, team.end - 1)];
        const Cut cut = push_cut(P, s, PUSH_ROOM<S>, share);
        const int pieces = i < team.end ? cut.pieces : 0, upto = lanes_upto(pieces, lane);
        const auto lane_of = [&](int piece) {
            return __ffs((int)__ballot_sync(0xffffffff, piece < upto)) - 1;
        };
        int now = lane_of(next);
        if (lane == now) load(s, cut, next - (upto - pieces), turn);
        if (half < 0) launch_wait(), half = run_half(P.program);
        while (now >= 0) {
            if (turn == 0 && P.protocol.gate && !warp_gate(P, smem)) {
                if (lane == now) mbar_wait(P, smem, smem.pushed, 0, ROLE_STORER);
                return; /* nothing may come when the block has ended */
            }
            if (lane == now) {
                /* Loads that depend on each other, while the rows are on their way. */
                const Piece p = push_piece(s, cut, next - (upto - pieces));
                const Spot to0 = push_target(P, smem, s, 0, p, half);
                push_keep(P, smem, s, p, half, smem.aim, 1);
                mbar_wait(P, smem, smem.pushed + 8 * (turn % 2), turn / 2 % 2, ROLE_STORER);
                const uint32_t from = smem.slot + turn % 2 * PUSH_ROOM<S>;
                push_store(to0, p, from);
                for (int to = 1; to < s.tos; ++to)
                    push_store(push_kept(P, smem, s, p, half, smem.aim, to), p, from);
                bulk_commit();
                stamp(smem.stamp, STAMP_STORER, STAMP_SENT, (int)turn);
            }
            __syncwarp();
            if (lane == last) bulk_wait<0>(), progress_release(at.here, turn);
            __syncwarp();
            last = now, ++turn, next += team.all;
            now = lane_of(next);
            if (lane == now) load(s, cut, next - (upto - pieces), turn);
        }
        next -= __shfl_sync(0xffffffff, upto, LANES - 1); /* counted on from the last piece */
    }
    if (lane == last) bulk_wait<0>(), progress_release(at.here, turn);
}

/* By all lanes of warps 1 and 2, before a storer is one.  Math gets the slots afterwards. */
template <class S> DEV void push_by_storers(const Param &P, const Smem<S> &smem, int warp, int lane)
{
    const int steps = storers_carry(P);
    if (steps == 0) return;
    static_assert(SPOT_BYTES * LANES <= 2 * RAISED_BYTES, "no raise of a tile is looked up yet");
    static_assert(SPOT_BYTES * AHEAD <= 4 * 2 * AIM_WORDS, "no tile is aimed yet");
    const Team team = {seat_of(smem), P.workers, 0, 1, steps};
    const int share = P.early > 0 ? P.workers : 1; /* otherwise pieces are as large as may be */
    const Arrivals at = {smem.carried, 0};
    if (warp == 2) launch_wait();
    if (warp == 1)
        push_rows(P, smem, team, share, at, lane);
    else if (!P.protocol.gate || warp_gate(P, smem))
        push_credit<S, 1>(P, smem, team, PUSH_ROOM<S>, share, at, smem.raised, STAMP_STORER + 1,
                          lane);
    named_sync(MEET_STORERS, 2 * LANES);
}
