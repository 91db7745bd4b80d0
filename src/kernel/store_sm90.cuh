/* store_sm90.cuh -- the storers of the Hopper product (gemm_sm90.cuh): a thread for each math
 * warpgroup that stores its staged pieces and raises flags.  Before that their warps carry rows to
 * peers (push_sm90.cuh). */
#pragma once
#include "kernel/load_sm90.cuh"
#include "kernel/pace_sm90.cuh"
#include "kernel/push_sm90.cuh"

/* The map by which a piece goes to AREA: of the place, or of the own tensor of a peer that said
 * where it is.  Partner: watcher_remake(). */
template <class S>
DEV const CUtensorMap *storer_map(const Param &P, const Smem<S> &smem, const sg_area &area, int use,
                                  int wg)
{
    if (!area.leave) return map_of(P, area.buf, use);
    const uint32_t bit = 1u << area.rank % 32, word = hello_place(smem, area.rank);
    if (!(shared_load(word + HELLO_DIRECT) & bit)) return map_of(P, area.buf, use);
    const uint32_t mapped = smem.mapped + 8 * wg + 4 * (area.rank / 32);
    const CUtensorMap *map = map_remade(P, area.buf, use);
    if (!(shared_load(mapped) & bit)) {
        map_acquire(map_remade(P, area.buf, MAP_PIECE)), map_prefetch(map);
        if (P.map_of[area.buf][MAP_ROW] >= 0) map_acquire(map_remade(P, area.buf, MAP_ROW));
        shared_store(mapped, shared_load(mapped) | bit);
    }
    return map;
}

/* A visit as the storers see it. */
struct Target {
    const sg_patch &p;
    int index; /* which visit of the patch it is */
    Tile tile;
    int over; /* the first column of its tile in the patch */
};

/* Is a tile of P added onto what lies where it is stored?  If so, nobody else adds in this launch:
 * see adds_onto() in needs.cuh. */
template <class S> DEV bool goes_onto(const Param &P, const sg_patch &p)
{
    return S::ONTO && P.onto && p.adds > 0;
}

/* LEFT rows of the piece at FROM, of fewer than it has, behind which others follow in the matrix:
 * line after line, the last two of which may meet. */
template <class S>
DEV void store_lines(const Param &P, const CUtensorMap *map, int x, int y, int z, uint32_t from,
                     int left, bool onto)
{
    for (int r = 0; r < left; r += P.line) {
        const int at = sg_walk_min(r, left - P.line);
        tma_store(map, x, y + at, z, from + at * S::W * 2, onto);
    }
}

/* Do other rows follow those of P in AREA's matrix, on which its last pieces would lie? */
DEV bool others_follow(const Param &P, const sg_patch &p, const sg_area &area)
{
    return p.rows % 64 != 0 && area.row0 + p.rows != P.program.place[area.buf].rows;
}

/* Stores the piece at FROM, whose upper left corner is (ROW, COL) of the tile, to all areas. */
template <class S>
DEV void store_piece(const Param &P, const Smem<S> &smem, int *half, const Target &v, int row,
                     int col, uint32_t from, int wg)
{
    const bool onto = goes_onto<S>(P, v.p);
    const int down = v.tile.band * S::BM + row, over = v.over + col;
    const int left = v.p.rows - down;
    for (int i = 0; i < v.p.tos; ++i) {
        const sg_area &area = P.program.to[v.p.to0 + i];
        const int place = area.buf, z = half_of(P, place, half);
        if (area.tiled) {
            tma_store(map_of(P, place, MAP_PIECE), area.col0 + col,
                      area.row0 + v.index * S::BM + row, z, from, false);
            continue;
        }
        if (left <= 0 || over >= v.p.cols || col >= width_of<S>(v.p)) continue;
        if (area.leave && !storer_may(P, smem, area.rank)) continue;
        const int x = area.col0 + over, y = area.row0 + down;
        if (left < 64 && others_follow(P, v.p, area))
            store_lines<S>(P, storer_map(P, smem, area, MAP_ROW, wg), x, y, z, from, left, onto);
        else
            tma_store(storer_map(P, smem, area, MAP_PIECE, wg), x, y, z, from, onto);
    }
}

/* What is looked up of AREA; AT: its words. */
template <class S>
DEV void aim_area(const Param &P, const Smem<S> &smem, uint32_t at, int *half, const Target &v,
                  const sg_area &area, int wg)
{
    const CUtensorMap *map = storer_map(P, smem, area, MAP_PIECE, wg);
    int lines = 0;
    if (others_follow(P, v.p, area)) lines = (int)(storer_map(P, smem, area, MAP_ROW, wg) - map);
    shared_store(at + 4 * AIM_X, area.col0 + v.over);
    shared_store(at + 4 * AIM_Y, area.row0 + v.tile.band * S::BM);
    shared_store(at + 4 * AIM_Z, half_of(P, area.buf, half));
    shared_store(at + 4 * AIM_LINES, lines);
    shared_store8(at + 4 * AIM_MAP, (uint64_t)(uintptr_t)map);
}

/* Which tile it is, and where it goes: looked up while there is nothing to store, and kept in
 * shared memory, since no register can.  All of it comes from the L2, because whoever acquires a
 * flag empties the L1, and at the end of a launch nothing would hide that.  Pieces of a tile that
 * goes to more than AIMED areas, or to places, are looked up one by one: see store_piece(). */
template <class S>
DEV void aim_at(const Param &P, const Smem<S> &smem, uint32_t aim, int *half, const Target &v,
                int wg)
{
    const int tos = v.p.tos, to0 = v.p.to0;
    int areas = tos > AIMED ? AIM_APART : 0;
    for (int i = 0; i < tos && areas != AIM_APART; ++i) {
        const sg_area &area = P.program.to[to0 + i];
        if (area.leave && !storer_may(P, smem, area.rank)) continue;
        if (area.tiled) {
            areas = AIM_APART;
        } else {
            aim_area(P, smem, aim + 4 * (AIM_FIRST + AIM_EACH * areas), half, v, area, wg);
            ++areas;
        }
    }
    /* Rows and columns that the patch has from the tile's corner, and no more than a narrow one. */
    const int cols = v.p.cols - v.over, left = v.p.rows - v.tile.band * S::BM;
    shared_store(aim + 4 * AIM_BAND, v.tile.band), shared_store(aim + 4 * AIM_COL, v.tile.col);
    shared_store(aim + 4 * AIM_ROWS, left);
    shared_store(aim + 4 * AIM_COLS, S::NARROW > 0 ? sg_walk_min(cols, width_of<S>(v.p)) : cols);
    shared_store(aim + 4 * AIM_AREAS, areas);
    if (S::ONTO) shared_store(aim + 4 * AIM_ONTO, goes_onto<S>(P, v.p));
}

DEV Tile aimed_tile(uint32_t aim)
{
    return Tile{(int)shared_load(aim + 4 * AIM_BAND), (int)shared_load(aim + 4 * AIM_COL), true};
}

/* The piece at FROM of a tile that aim_at() has looked up, to AREAS areas. */
template <class S>
DEV void store_aimed(const Param &P, uint32_t aim, int areas, int row, int col, uint32_t from)
{
    const bool onto = S::ONTO && shared_load(aim + 4 * AIM_ONTO);
    const int left = (int)shared_load(aim + 4 * AIM_ROWS) - row;
    if (left <= 0 || col >= (int)shared_load(aim + 4 * AIM_COLS)) return;
    aim += 4 * AIM_FIRST;
    for (; areas > 0; --areas, aim += 4 * AIM_EACH) {
        const CUtensorMap *map = (const CUtensorMap *)(uintptr_t)shared_load8(aim + 4 * AIM_MAP);
        const int x = shared_load(aim + 4 * AIM_X) + col, y = shared_load(aim + 4 * AIM_Y) + row;
        const int z = shared_load(aim + 4 * AIM_Z);
        const int lines = left < 64 ? (int)shared_load(aim + 4 * AIM_LINES) : 0;
        if (lines != 0)
            store_lines<S>(P, map + lines, x, y, z, from, left, onto);
        else
            tma_store(map, x, y, z, from, onto);
    }
}

/* Brings what the first store and raise need into the caches, while there is nothing to store: at
 * the end of a short launch each of these loads would be exposed. */
template <class S> DEV void storer_touch(const Param &P, const sg_patch &p)
{
    int sum = P.program.rank ? P.program.rank->rank : 0;
    for (int i = 0; i < p.tos; ++i) {
        const sg_area &area = P.program.to[p.to0 + i];
        sum += area.row0 + area.col0 + P.program.place[area.buf].rows + P.flip[area.buf];
        if (S::FOLD != FOLD_PARTS || area.buf != P.part_place)
            map_prefetch(map_of(P, area.buf, MAP_PIECE));
    }
    for (int i = 0; i < p.raises; ++i) {
        const sg_raise &r = P.program.raise[p.raise0 + i];
        sum += r.flag0 + (int)(uintptr_t)flag_word(&P.program.rank->words[r.at], 0, r.flag0);
        if (r.counter >= 0) sum += P.program.raisers[r.counter];
    }
    compute_now(sum);
}

/* ---- Raises ---------------------------------------------------------------------------------- */

/* Looks up what a tile raises while its stores are on their way: each look-up is loads that depend
 * on each other, which an owner of the tile would wait for.  Of more than RAISES, the rest is
 * looked up afterwards.  True: all are known to be counted. */
DEV bool raises_look(const Param &P, uint32_t to, const sg_patch &p, int number)
{
    bool counted = p.raises <= RAISES;
    for (int i = 0; i < p.raises && i < RAISES; ++i, to += 16) {
        const Raise x = raise_find(P.program, P.program.raise[p.raise0 + i], number);
        counted &= x.counter >= 0;
        raise_keep(to, x);
    }
    return counted;
}

/* Raise I, looked up at FROM and behind or not yet. */
DEV Raise raises_at(const Param &P, uint32_t from, const sg_patch &p, int i, int number)
{
    return i < RAISES ? raise_kept(from + 16 * i)
                      : raise_find(P.program, P.program.raise[p.raise0 + i], number);
}

/* By the thread that has seen all stores of a tile.  Who counts tells this GPU alone, which does
 * not wait for what is on its way to others; the last one tells them, see count_up().  Partner:
 * flag_wait(). */
DEV void raises_fire(const Param &P, uint32_t from, const sg_patch &p, int number, uint64_t epoch,
                     bool counted)
{
    if (counted)
        fence_gpu();
    else
        fence_sys();
    for (int i = 0; i < p.raises; ++i)
        raise_fire(P.program, raises_at(P, from, p, i, number), epoch);
}

/* ---- Addends, ping-pong ---------------------------------------------------------------------- */

/* Those of PIECE, one after the other into the slot by which their sum leaves.  Math gives it back
 * for each but the last.  Partner: slot_addends(). */
template <class S>
DEV void load_for_piece(const Param &P, const Smem<S> &smem, const Target &v, int wg, int piece,
                        int *half, Ring<S::SLOTS> &ring)
{
    const uint32_t added = smem.added + 8 * wg, to = smem.slot + wg * S::PIECE_BYTES;
    for (int add = 0; add < v.p.adds; ++add) {
        if (add > 0) {
            mbar_wait(P, smem, smem.slot_full + 8 * wg, ring.parity, ROLE_STORER);
            ring_step(ring);
            mbar_arrive(smem.slot_empty + 8 * wg);
        }
        mbar_expect(added, S::PIECE_BYTES);
        load_addend<S>(P, P.program.add[v.p.add0 + add].area, v.tile, v.index, piece, half, to,
                       added);
    }
}

/* ---- One tile -------------------------------------------------------------------------------- */

/* Does a tile of P go to another rank? */
DEV bool goes_away(const Param &P, const sg_patch &p)
{
    const int own = P.program.rank ? P.program.rank->rank : 0;
    bool away = false;
    for (int i = 0; i < p.tos; ++i) away |= P.program.to[p.to0 + i].rank != own;
    return away;
}

/* A storer between its visits. */
template <class S> struct Storer {
    enum { LAST = -1 }; /* instead of the number of ... */
    int wg;             /* the math warpgroup whose pieces it stores */
    int behind;         /* pieces issued whose slots are not given back yet, at most SLOTS - 1 */
    int half;           /* of places, see half_of() */
    uint32_t steps;     /* of the watcher's, of addends: up to the visit at hand */
    Ring<S::SLOTS> ring;
};

/* Before the block's last tile, whose pieces are not in the slots: all are given back. */
template <class S> DEV void storer_give_back(const Smem<S> &smem, Storer<S> &self)
{
    const uint32_t empty = smem.slot_empty + 8 * self.wg * S::SLOTS;
    const int at = self.ring.at;
    bulk_wait_read<0>();
#pragma unroll
    for (int i = 1; i < S::SLOTS; ++i)
        if (i <= self.behind) mbar_arrive(empty + 8 * (at < i ? at + S::SLOTS - i : at - i));
    self.behind = Storer<S>::LAST;
}

/* Those of the block's last tile, ADDS of them and no more than are looked up (see serves() in
 * gemm.cu), all at once into the stages, which math has left. */
template <class S>
DEV void load_for_last(const Param &P, const Smem<S> &smem, Storer<S> &self, const Target &v,
                       int adds)
{
    const int wg = self.wg;
    const uint32_t added = smem.added + 8 * wg;
    const Addends looked = addends_look(P, v.p.add0, adds);
    progress_wait(P, smem, smem.watched, self.steps, ROLE_STORER);
    mbar_wait(P, smem, smem.slot_full + 8 * wg, self.ring.parity, ROLE_STORER);
    ring_step(self.ring);
    mbar_expect(added, S::CHUNKS * adds * S::PIECE_BYTES);
    for (int piece = 0; piece < S::CHUNKS; ++piece)
        for (int add = 0; add < adds; ++add)
            load_addend<S>(P, addend_at(P, looked, 0, add), v.tile, v.index, piece, &self.half,
                           last_place(smem, wg, piece * adds + add), added);
    mbar_arrive(smem.slot_empty + 8 * wg);
}

/* The slot of the piece that was just issued; those of a last tile are not in slots. */
template <class S> DEV void storer_pass_on(const Smem<S> &smem, Storer<S> &self)
{
    const uint32_t empty = smem.slot_empty + 8 * self.wg * S::SLOTS;
    const int at = self.ring.at;
    if (self.behind == Storer<S>::LAST) return;
    if (++self.behind == S::SLOTS) { /* the oldest piece is in the slot after this */
        const uint32_t since = stamp_clock();
        bulk_wait_read<S::SLOTS - 1>();
        stamp_waited(smem.stamp, STAMP_STORER + self.wg, 0, since);
        mbar_arrive(empty + 8 * (at + 1 == S::SLOTS ? 0 : at + 1));
        --self.behind;
    }
}

/* Stores the tile of V, piece after piece as math stages them.  Partner: tell_storer(). */
template <class S>
DEV void storer_send(const Param &P, const Smem<S> &smem, Storer<S> &self, const Target &v,
                     uint32_t aim, bool away)
{
    const int wg = self.wg, adds = S::SLOT_ADDS ? v.p.adds : 0;
    const bool last = self.behind == Storer<S>::LAST;
    const uint32_t full = smem.slot_full + 8 * wg * S::SLOTS;
    const uint32_t empty = smem.slot_empty + 8 * wg * S::SLOTS;
    if (adds > 0 && last)
        load_for_last(P, smem, self, v, adds);
    else if (adds > 0)
        progress_wait(P, smem, smem.watched, self.steps, ROLE_STORER);
    if (S::SLOT_ADDS) self.steps += S::TILES;
    if (S::ONTO && P.onto) { /* no register counts here */
        const uint32_t steps = shared_load(aim + 4 * AIM_STEPS) + S::TILES;
        shared_store(aim + 4 * AIM_STEPS, steps);
        progress_wait(P, smem, smem.watched, steps, ROLE_STORER);
    }
    /* Math has stored these sums itself, and tells so.  Partner: part_leave(). */
    const bool stay = S::FOLD == FOLD_PARTS && P.program.to[v.p.to0].buf == P.part_place;
    const int pieces = stay ? 1 : S::CHUNKS;
    for (int piece = 0; piece < pieces; ++piece, ring_step(self.ring)) {
        const uint32_t from = last ? last_place(smem, wg, piece)
                                   : smem.slot + (wg * S::SLOTS + self.ring.at) * S::PIECE_BYTES;
        if (adds > 0 && !last) load_for_piece(P, smem, v, wg, piece, &self.half, self.ring);
        /* Of a last tile, all pieces are there at once. */
        if (!last || piece == 0 || S::PINGPONG)
            mbar_wait(P, smem, full + 8 * self.ring.at, self.ring.parity, ROLE_STORER);
        /* Ping-pong, math waits before each piece, and need not here: see stage_piece(). */
        if (last && S::PINGPONG) mbar_arrive(empty + 8 * self.ring.at);
        if (piece == 0) stamp(smem.stamp, STAMP_STORER + wg, STAMP_STAGED);
        if (S::PINGPONG && piece == 0) pace_tile<S>(smem.pace + 4 * PACE_WORDS * wg, wg);
        if (S::PINGPONG && away && !last) pace_piece(smem.pace + 4 * PACE_WORDS * wg, piece);
        /* No register keeps whether the gate is open. */
        if (!stay && v.tile.live && (!P.protocol.gate || shared_load(smem.gate) == GATE_OPEN)) {
            const int row = (wg % S::PARTS * S::MI + piece / S::ACROSS) * 64;
            const int col = piece % S::ACROSS * S::W;
            const int areas = (int)shared_load(aim + 4 * AIM_AREAS);
            if (areas != AIM_APART)
                store_aimed<S>(P, aim, areas, row, col, from);
            else
                store_piece(P, smem, &self.half, Target{v.p, v.index, aimed_tile(aim), v.over}, row,
                            col, from, wg);
        }
        if (!last || piece + 1 == pieces) bulk_commit(); /* nobody waits for one of the last */
        storer_pass_on(smem, self);
    }
}

/* Raises the flags of a tile of patch P when all storers' parts of it are complete. */
template <class S>
DEV void storer_raise(const Param &P, const Smem<S> &smem, int wg, const sg_patch &p, uint32_t aim,
                      uint64_t epoch)
{
    /* Visits with a raise whose stores are complete: what this storer has of them. */
    const int part = wg % S::PARTS;
    const uint32_t word = smem.progress + 4 * part;
    if (part + 1 < S::PARTS) {
        bulk_wait<0>();
        progress_release(word, shared_load(word) + 1); /* to the last storer */
        return;
    }
    const int number = tile_number(p, aimed_tile(aim), S::BN);
    const uint32_t looked = smem.raised + RAISED_BYTES * wg;
    const bool counted = raises_look(P, looked, p, number);
    bulk_wait<0>();
    const uint32_t finished = shared_load(word) + 1;
    shared_store(word, finished);
    for (int other = 0; other < part; ++other)
        progress_wait(P, smem, smem.progress + 4 * other, finished, ROLE_STORER);
    if (defect_noted(smem)) return;
    raises_fire(P, looked, p, number, epoch, counted);
    stamp(smem.stamp, STAMP_STORER + wg, STAMP_RAISED);
}

/* ---- All of them ----------------------------------------------------------------------------- */

template <class S> DEV void storer(const Param &P, const Smem<S> &smem, int im, int in, int wg)
{
    const int stride = stride_of<S>(P);
    const uint32_t aim = smem.aim + 4 * AIM_WORDS * wg;
    Storer<S> self = {wg, 0, -1, (uint32_t)wg + 1};
    Cursor cursor;
    int unit = first_unit<S>(P, smem) + wg / S::PARTS * stride;
    if (unit < P.units) storer_touch<S>(P, P.first);
    stamp(smem.stamp, STAMP_STORER + wg, STAMP_BEGUN);
    launch_wait();
    const uint64_t epoch = P.program.rank ? run_epoch(P.program.rank) : 0;
    if (S::FOLD != FOLD_SLICES && P.protocol.gate) storer_gate(P, smem);
    if (S::PUSHES && storers_carry(P) > 0) {
        stamp(smem.stamp, STAMP_STORER + wg, STAMP_PUSHED);
        /* Pairs with stage_piece() of math, which has waited for its first slots. */
        for (int i = 0; i < S::SLOTS; ++i) mbar_arrive(smem.slot_empty + 8 * (wg * S::SLOTS + i));
    }
    shared_store(aim + 4 * AIM_STEPS, wg / S::PARTS + 1 - S::TILES);
    if (S::PINGPONG) pace_begin(smem.pace + 4 * PACE_WORDS * wg);
    for (; unit < P.units; unit += S::TILES * stride) {
        int in_pass;
        if (slice_of<S>(P, unit, &in_pass) != 0) continue; /* math stores these sums itself */
        cursor_move<S>(P, smem, cursor, in_pass);
        const sg_patch &p = patch_in_list(P, cursor.patch);
        const int index = in_pass - cursor.base;
        stamp(smem.stamp, STAMP_STORER + wg, STAMP_TILE, cursor.patch);
        const Tile tile = tile_at<S>(p, index, im, in);
        const Target v = {p, index, tile, tile.col * width_of<S>(p)};
        if (is_last<S>(P, unit)) storer_give_back(smem, self);
        aim_at(P, smem, aim, &self.half, v, wg);
        storer_send(P, smem, self, v, aim, S::PINGPONG && goes_away(P, p));
        stamp_waits(smem.stamp, STAMP_STORER + wg, STAMP_SENT, 0);
        if (p.raises > 0 && v.tile.live) storer_raise(P, smem, wg, p, aim, epoch);
    }
    bulk_wait<0>();
}
