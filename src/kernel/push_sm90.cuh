/* push_sm90.cuh -- rows that a launch of the Hopper product (gemm_sm90.cuh) carries to peers beside
 * its tiles: no engine is taken for them, and no kernel before it.
 *
 * Couriers do it (courier_sm90.cuh), blocks for which there are no tiles: the tiles of a launch
 * rarely fill all SMs to the end.  Where there are none, the storers do, while the math warpgroups
 * multiply their first tiles, through the slots that these will need afterwards.  Where all first
 * tiles wait for what others carry, the storers carry the first steps even beside couriers: nothing
 * else is under way in their SMs then, and what all wait for arrives in a hundred small pieces at
 * once.  A piece is as much of a COPY step as a carrier's memory holds: rows, or a part of one; a
 * courier's, and those of first steps, no more than leaves each carrier one.  Pieces are dealt to
 * all carriers, those of the first step first.  While one is being loaded, the one before is still
 * on its way out. */
#pragma once
#include "kernel/shape_sm90.cuh"

/* ---- What storers wait for, both here and in store_sm90.cuh ---------------------------------- */

/* False: the gate did not open in time.  Partner: watcher_enter(). */
template <class S> DEV bool storer_gate(const Param &P, const Smem<S> &smem)
{
    progress_wait(P, smem, smem.gate, GATE_OPEN, ROLE_STORER);
    return progress_acquire(smem.gate) == GATE_OPEN;
}

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

/* Rows side by side; BAR counts the bytes.  They are of an input, which has
 * no halves and needs no gate. */
DEV void push_load(const Param &P, const sg_kernel_step &s, const Piece &p, uint32_t to,
                   uint32_t bar)
{
    const sg_kernel_place &place = P.program.place[s.src.buf];
    const Spot spot = {(char *)place.data[0], place.pitch};
    const char *from = push_place(P, s.src, spot, p);
    mbar_expect(bar, (uint32_t)(p.rows * p.bytes));
    if (spot.pitch == p.bytes) {
        bulk_load(to, from, (uint32_t)(p.rows * p.bytes), bar);
    } else {
        for (int r = 0; r < p.rows; ++r, from += spot.pitch, to += (uint32_t)p.bytes)
            bulk_load(to, from, (uint32_t)p.bytes, bar);
    }
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

/* One of ALL threads that carry pieces, each through ROOM bytes of shared memory at AT.  A step is
 * cut for as many as SHARE it. */
struct Carrier {
    int index, all, share;
    uint32_t at;
    int room;
    uint32_t bar;   /* counts the bytes that come */
    uint32_t spots; /* room for AHEAD of them */
};

/* ---- Storers that carry ---------------------------------------------------------------------- */

/* This carrier's pieces of a step are on their way.  Waits for them; the last one of all that have
 * some raises.  Partner: whoever waits for the step's flags. */
DEV void push_credit(const Param &P, const sg_kernel_step &s, const Carrier &self, uint64_t epoch)
{
    bulk_wait<0>();
    if (s.raises == 0) return;
    const int pieces = push_cut(P, s, self.room, self.share).pieces;
    const int sharers = sg_walk_min(pieces, self.all);
    fence_sys();
    if (sharers > 1 && !count_up(s.ticket, (uint32_t)sharers)) return;
    for (int i = 0; i < s.raises; ++i)
        raise_fire(P.program, raise_find(P.program, P.program.raise[s.raise0 + i], 0), epoch);
}

/* All pieces of SELF, of the first STEPS.  Before and afterwards nothing is in its memory. */
template <class S>
DEV void push_rows(const Param &P, const Smem<S> &smem, const Carrier &self, int steps,
                   uint64_t epoch)
{
    const int half = run_half(P.program);
    int next = self.index; /* which piece of the step is the first of its own */
    int owed = -1;         /* a step of which all of its pieces are stored */
    uint32_t parity = 0;
    for (int i = 0; i < steps; ++i) {
        const sg_kernel_step &s = P.push[i];
        const Cut cut = push_cut(P, s, self.room, self.share);
        const bool mine = next < cut.pieces;
        for (; next < cut.pieces; next += self.all) {
            const Piece p = push_piece(s, cut, next);
            bulk_wait_read<0>();
            push_load(P, s, p, self.at, self.bar);
            if (owed >= 0) { /* meanwhile: the step before */
                push_credit(P, P.push[owed], self, epoch);
                owed = -1;
            }
            /* Loads that depend on each other, while the rows are on their way. */
            push_keep(P, smem, s, p, half, self.spots, 0);
            mbar_wait(P, smem, self.bar, parity, ROLE_STORER);
            parity ^= 1;
            for (int to = 0; to < s.tos; ++to)
                push_store(push_kept(P, smem, s, p, half, self.spots, to), p, self.at);
            bulk_commit();
        }
        next -= cut.pieces; /* counted on from the last piece of this step */
        if (mine) owed = i;
    }
    if (owed >= 0) push_credit(P, P.push[owed], self, epoch);
}
