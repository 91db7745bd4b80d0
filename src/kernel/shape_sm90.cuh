/* shape_sm90.cuh -- what all roles of the Hopper product kernel (gemm_sm90.cuh) share: the shape of
 * an instance, its shared memory, its barriers, and where a visit is. */
#pragma once
#include "kernel/instance.h"
#include "kernel/protocol.cuh"
#include "kernel/stamp.cuh"

typedef sg_kernel_gemm_param Param;

constexpr int STAGE_K = SG_KERNEL_STAGE_K; /* of a pipeline stage */
constexpr int RAISES = 16;                 /* of a tile, that a storer has looked up */
constexpr int SMEM_MOST = 232448;          /* of a block */
constexpr int SMEM_BARRIERS = 1280;        /* barriers, progress words, raises */

/* BM x BN tile by GROUPS math warpgroups; a cluster of CM tiles down, which share B, and CN across,
 * which share A; SLOTS pieces of the finished tile are on their way out at a time.  PINGPONG:
 * two warpgroups have a tile each, and one stores while the other multiplies.  NARROW:
 * columns that tiles of some patches have instead of BN, with products that add nothing. */
template <class Elem, int Bm, int Bn, int Groups, int Cm, int Cn, int Slots, Fold Folding,
          bool PingPong = false, int Narrow = 0>
struct Shape {
    using T = Elem;
    static constexpr int BM = Bm, BN = Bn, WGS = Groups, CM = Cm, CN = Cn, CL = CM * CN;
    static constexpr bool PINGPONG = PingPong;
    static constexpr int TILES = PINGPONG ? 2 : 1; /* of a block at a time */
    static constexpr int PARTS = WGS / TILES;      /* warpgroups of a tile */
    static constexpr int NARROW = Narrow;
    static constexpr Fold FOLD = Folding;
    static constexpr bool ADDS = FOLD == FOLD_ADDENDS || FOLD == FOLD_PARTS;
    static constexpr bool GOES_ON = FOLD <= FOLD_ADDENDS; /* patches may go on with a product */
    /* Ping-pong, addends come into the slots in which pieces leave, under the products of the
     * other. */
    static constexpr bool SLOT_ADDS = FOLD == FOLD_ADDENDS && PINGPONG;
    static constexpr int MI = BM / PARTS / 64; /* 64-row blocks of a warpgroup */
    /* Columns of a piece: what a swizzle takes, or for plain products a whole or half tile
     * without. */
    static constexpr int W = BN % 64 == 0 && NARROW % 64 == 0   ? 64
                             : BN == 112 && FOLD == FOLD_NONE   ? 112
                             : BN == 80 && FOLD == FOLD_NONE    ? 80
                             : BN == 160 && FOLD == FOLD_SLICES ? 80
                             : BN % 32 == 0                     ? 32
                                                                : 16;
    static constexpr int ACROSS = BN / W, CHUNKS = MI * ACROSS; /* pieces of a warpgroup */
    static constexpr int A_BYTES = BM * 128, B_BYTES = BN * 128, STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int PIECE_BYTES = 64 * W * 2, SLOTS = Slots;
    static constexpr int VECTORS = W / 16; /* 16-byte vectors that a thread has in a piece */
    /* f32 sums that a thread has of a 64-row block and of a piece, and 16-byte vectors of all. */
    static constexpr int SUMS = BN / 2, PIECE_SUMS = W / 2, PARTIALS = MI * SUMS / 4;
    /* Registers for a finished, rounded tile beside the sums of the next: the way out then hides
     * under its products. */
    static constexpr bool TAGS = FOLD == FOLD_TAGGED || FOLD == FOLD_HOPS;
    static constexpr bool GATHERS = FOLD == FOLD_GATHER;
    /* Storers may add onto what lies there; two shapes have no register left for it. */
    static constexpr bool ONTO =
        FOLD == FOLD_NONE && NARROW == 0 && BM <= 128 && !(PINGPONG && CL > 1 && BN > 128);
    /* Blocks may have seats that are not their numbers, see seat_sm90.cuh. */
    static constexpr bool SEATS =
        CL == 1 && (FOLD == FOLD_NONE || FOLD == FOLD_ADDENDS || FOLD == FOLD_PARTS);
    static constexpr bool PUSHES = !TAGS && !GATHERS && FOLD != FOLD_SLICES; /* storers may carry */
    static constexpr bool HOLDS =
        !PINGPONG && !TAGS && !GATHERS && MI * BN / 2 + MI * BN / 4 <= 192;
    static constexpr int ADDENDS =
        STAGE_BYTES / (PARTS * PIECE_BYTES); /* pieces that fit a stage */
    static constexpr int SLOT_BYTES = WGS * SLOTS * PIECE_BYTES;
    static constexpr int ROOM = SMEM_MOST - 1024 /* alignment */ - SMEM_BARRIERS - SLOT_BYTES;
    static constexpr int STAGES = ROOM / STAGE_BYTES < 12 ? ROOM / STAGE_BYTES : 12;
    /* For a narrow tile the same memory is cut into more of them, since as much has to be on its
     * way: in those of wide tiles 128x96 takes half as long again (docs/diary.md). */
    static constexpr int FINE_BYTES = A_BYTES + NARROW * 128;
    static constexpr int FINE_FIT = STAGES * STAGE_BYTES / FINE_BYTES;
    static constexpr int FINE = NARROW == 0 ? STAGES : FINE_FIT < 12 ? FINE_FIT : 12;
    static constexpr int SMEM = 1024 + STAGES * STAGE_BYTES + SLOT_BYTES + SMEM_BARRIERS;
    static constexpr int THREADS = 128 * (1 + WGS);
    /* 504 registers for a thread of each of three warpgroups.  Movers that take words have many
     * under way. */
    static constexpr int MATH_REGS = GATHERS                                         ? 200
                                     : MI * SUMS + (HOLDS ? MI * SUMS / 2 : 0) > 176 ? 224
                                                                                     : 216;
    static constexpr int MOVER_REGS = 504 - 2 * MATH_REGS;
    /* Blocks that read what this block multicasts: those in its row and column of the cluster. */
    static constexpr int READERS = CM + CN - 1;
    static_assert(BM % (64 * PARTS) == 0 && BN % 16 == 0 && WGS <= 2, "tile");
    static_assert(WGS % TILES == 0 && (!PINGPONG || FOLD < FOLD_SLICES), "ping-pong");
    static_assert(!PINGPONG || CM == 1 || CN == 1, "all blocks read what each multicasts");
    static_assert(!SLOT_ADDS || SLOTS == 1, "a piece and its addends take the slot in turn");
    static_assert(!SLOT_ADDS ||
                      (1 + SG_INSTANCE_SLOT_ADDS) * CHUNKS * PIECE_BYTES <= STAGES * STAGE_BYTES,
                  "addends of a last tile");
    static_assert(FOLD != FOLD_PARTS || (CL == 1 && ADDENDS >= 2), "a sum is two pieces");
    static_assert(!(TAGS || GATHERS) || CL == 1, "a unit is a tile");
    static_assert((BN / CM) % 8 == 0 && (BM / CN) % 8 == 0, "cluster");
    static_assert(NARROW == 0 ||
                      (CL == 1 && !PINGPONG && FOLD == FOLD_NONE && NARROW < BN && NARROW % W == 0),
                  "narrow tiles");
    static_assert(STAGES >= 3 && PARTS * PIECE_BYTES <= STAGE_BYTES, "shared memory");
};

/* ---- Places in shared memory ----------------------------------------------------------------- */

template <class S> struct Smem {
    uint32_t stage, slot;
    uint32_t full, empty, slot_full, slot_empty; /* barriers, side by side with those that follow */
    uint32_t pushed;                  /* two: rows that storers carry are in half of the slots */
    uint32_t order;                   /* for each math warpgroup: the stages that come are its */
    uint32_t added;                   /* for each math warpgroup: an addend is in its slot */
    uint32_t progress, watched, gate; /* words, as many as WORDS with those that follow */
    uint32_t hello, mapped;           /* of 64 ranks, a bit each; mapped: for each storer */
    uint32_t defect;                  /* a role that another has kept waiting; 0: none */
    uint32_t carried;                 /* pieces that storers carry and that have arrived */
    uint32_t raised;                  /* for each storer, see raises_look() */
    uint32_t aim;                     /* words for each storer, see aim_at() */
    uint32_t pace;                    /* ping-pong: two words for each storer, see pace_tile() */
    uint32_t seat;                    /* a word, see seat_sm90.cuh */
    uint32_t stamp;
};

/* What a storer has looked up of a tile, AIMED areas at most, see aim_at(): words of it, and of an
 * area, of which the map's address has two. */
constexpr int AIMED = 4;
enum { AIM_BAND, AIM_COL, AIM_ROWS, AIM_COLS, AIM_AREAS, AIM_ONTO, AIM_STEPS, AIM_FIRST };
enum { AIM_APART = 255 }; /* instead of their number in AIM_AREAS: nothing is known of them */
/* AIM_LINES: so many maps behind that of pieces is that of lines; 0: the patch ends with the
 * matrix, or with a whole piece. */
enum { AIM_X, AIM_Y, AIM_Z, AIM_LINES, AIM_MAP, AIM_EACH = AIM_MAP + 2 };
enum { AIM_WORDS = AIM_FIRST + AIMED * AIM_EACH };
constexpr int WORDS = 16, PACES = 4, RAISED_BYTES = 16 * RAISES;

template <class S> DEV Smem<S> smem_layout(void *raw)
{
    Smem<S> s;
    s.stage = (smem_addr(raw) + 1023) & ~1023u; /* a swizzle atom is 1024 bytes */
    s.slot = s.stage + S::STAGES * S::STAGE_BYTES;
    s.full = s.slot + S::SLOT_BYTES, s.empty = s.full + 8 * S::FINE;
    s.slot_full = s.empty + 8 * S::FINE, s.slot_empty = s.slot_full + 8 * S::WGS * S::SLOTS;
    s.pushed = s.slot_empty + 8 * S::WGS * S::SLOTS, s.order = s.pushed + 8 * 2;
    s.added = s.order + 8 * S::WGS;
    s.progress = s.added + 8 * S::WGS, s.watched = s.progress + 8, s.gate = s.progress + 12;
    s.hello = s.progress + 16, s.mapped = s.progress + 40, s.defect = s.progress + 56;
    s.carried = s.progress + 60;
    s.raised = s.progress + 4 * WORDS, s.aim = s.raised + 2 * RAISED_BYTES;
    s.pace = s.aim + 4 * 2 * AIM_WORDS;
    s.seat = s.pace + 4 * (S::PINGPONG ? PACES : 0);
    s.stamp = s.full + SMEM_BARRIERS - STAMP_BYTES;
    constexpr int words = WORDS + 2 * AIM_WORDS + (S::PINGPONG ? PACES : 0) + 1;
    static_assert(16 * (S::FINE + S::WGS * S::SLOTS + S::WGS) + 16 + 4 * words + 2 * RAISED_BYTES <=
                      SMEM_BARRIERS - STAMP_BYTES,
                  "");
    return s;
}

DEV void shared_store8(uint32_t to, uint64_t v)
{
    shared_store(to, (uint32_t)v);
    shared_store(to + 4, (uint32_t)(v >> 32));
}

DEV uint64_t shared_load8(uint32_t from)
{
    return (uint64_t)shared_load(from + 4) << 32 | shared_load(from);
}

/* A position in a ring of N buffers, and the parity of the phase that the next wait is about. */
template <int N> struct Ring {
    int at = 0;
    uint32_t parity = 0;
};

template <int N> DEV void ring_step(Ring<N> &ring)
{
    if (++ring.at == N) ring.at = 0, ring.parity ^= 1;
}

/* Named barriers of a block, which has 0 for all threads: one number for two groups of threads
 * that may be at it at a time is one too few. */
enum {
    MEET_GROUP = 1,  /* of math warpgroup 0, and the next one of warpgroup 1 */
    MEET_MATH = 3,   /* all math warps: they have done with the stages */
    MEET_READ = 4,   /* all words of tagged data have been read: math arrives, the watcher waits */
    MEET_STORERS = 5 /* the storers' warps: all rows that they carry are credited */
};

/* ---- What a block is told of others ---------------------------------------------------------- */

/* Ranks whose hello the watcher has waited for, a bit each; behind that those who may be stored to,
 * and those whose own tensor is stored to and not their landing: of rank Q. */
enum { HELLO_MAY = 8, HELLO_DIRECT = 16 };
enum { GATE_OPEN = 1, GATE_SHUT = 2 }; /* of Smem.gate; 0: not yet known */

template <class S> DEV uint32_t hello_place(const Smem<S> &smem, int q)
{
    return smem.hello + 4 * (q / 32);
}

/* The map of a rank's own tensor that this block makes from that of PLACE, its landing. */
DEV CUtensorMap *map_remade(const Param &P, int place, int use)
{
    return P.remake + ((int64_t)blockIdx.x * P.remakes + P.remade[place] + (use == MAP_ROW));
}

/* ---- Where a visit is ------------------------------------------------------------------------ */

/* By which units are dealt.  Partner: seat_take(). */
template <class S> DEV int seat_of(const Smem<S> &smem)
{
    return S::SEATS ? (int)shared_load(smem.seat) : (int)blockIdx.x;
}

/* Who has a seat behind the workers' has no tiles: it is a courier (courier_sm90.cuh).  Asked in
 * this way, the compiler puts the code of couriers behind that of tiles (gemm_sm90.cuh). */
DEV bool is_courier(const Param &P, int seat)
{
    return seat > (int)(P.workers - 1u);
}

/* The last block of all may be a herald (herald_sm90.cuh), which carries nothing. */
DEV int couriers_of(const Param &P)
{
    return (int)gridDim.x - P.workers - P.heralds;
}

/* Steps of rows that the storers carry: all, since there are no couriers, or the first ones. */
DEV int storers_carry(const Param &P)
{
    return couriers_of(P) == 0 ? P.pushes : P.early;
}

/* The units of this block are FIRST_UNIT, FIRST_UNIT + STRIDE, ... */
template <class S> DEV int first_unit(const Param &P, const Smem<S> &smem)
{
    const int seat = seat_of(smem);
    return is_courier(P, seat) ? P.units : seat / S::CL;
}

template <class S> DEV int stride_of(const Param &P)
{
    return P.workers / S::CL;
}

/* No unit of this block follows: nothing will be loaded any more. */
template <class S> DEV bool is_last(const Param &P, int unit)
{
    return unit + stride_of<S>(P) >= P.units;
}

/* Where piece PIECE of warpgroup WG waits to be stored if it is of the block's last tile: in the
 * stages, which nobody needs then.  So none waits for another at the end of a launch. */
template <class S> DEV uint32_t last_place(const Smem<S> &smem, int wg, int piece)
{
    static_assert(S::WGS * S::CHUNKS * S::PIECE_BYTES <= S::STAGES * S::STAGE_BYTES, "last tile");
    return smem.stage + (wg * S::CHUNKS + piece) * S::PIECE_BYTES;
}

/* Which patch a unit is in; every role walks the list by itself. */
struct Cursor {
    int patch = -1, base = 0, end = 0; /* of the launch; its first unit, and the one behind */
};

/* A copy of the patch of CURSOR, the first one from the parameters: for who takes a few numbers
 * from it at once, and in a hurry. */
DEV sg_patch patch_of(const Param &P, const Cursor &c)
{
    return c.patch == 0 ? P.first : P.program.patch[P.patch0 + c.patch];
}

/* The same in the list, for who comes back to it: no register keeps any of it. */
DEV const sg_patch &patch_in_list(const Param &P, int patch)
{
    return P.program.patch[P.patch0 + patch];
}

/* Moves CURSOR to the patch of UNIT; units never go back.  The host has looked up the first one. */
template <class S> DEV void cursor_move(const Param &P, const Smem<S> &smem, Cursor &c, int unit)
{
    if constexpr (S::FOLD == FOLD_SLICES) {
        c.patch = 0; /* one patch, taken several times */
    } else {
        if (c.patch < 0) {
            const sg_kernel_deal &deal = P.deal[seat_of(smem)];
            c.patch = deal.patch, c.base = deal.base, c.end = deal.end;
        }
        while (unit >= c.end) {
            ++c.patch;
            c.base = c.end;
            const sg_patch p = patch_of(P, c);
            c.end += sg_walk_units(&p, S::BM, S::BN, S::CM, S::CN);
        }
    }
}

template <class S> DEV bool is_narrow(const sg_patch &p)
{
    return S::NARROW > 0 && p.tile_n > 0;
}

/* Columns of a tile of P. */
template <class S> DEV int width_of(const sg_patch &p)
{
    return is_narrow<S>(p) ? S::NARROW : S::BN;
}

/* A tile of a patch, for the block at (IM, IN) of its cluster.  In an odd rectangle a cluster
 * overhangs; the block beyond the edge goes through the motions and stores nothing. */
struct Tile {
    int band, col;
    bool live;
};

/* The tile of the unit that begins with BAND and COL. */
template <class S> DEV Tile tile_of(const sg_patch &p, int band, int col, int im, int in)
{
    Tile t = {band + im, col + in, true};
    if (S::CL > 1) t.live = t.band * S::BM < p.rows && t.col * S::BN < p.cols;
    return t;
}

template <class S> DEV Tile tile_at(const sg_patch &p, int unit, int im, int in)
{
    int band, col;
    sg_walk_unit(&p, S::BM, S::BN, S::CM, S::CN, unit, &band, &col);
    return tile_of<S>(p, band, col, im, in);
}

DEV int tile_number(const sg_patch &p, const Tile &t, int tile_n)
{
    return t.band * sg_walk_cols(&p, tile_n) + t.col;
}

/* ---- Slices of k ----------------------------------------------------------------------------- */

/* Slices 1 .. split - 1 come first in the list and leave their sums; slice 0, whose tiles only ever
 * wait for earlier units, adds them in ascending order. */
template <class S> DEV int slice_of(const Param &P, int unit, int *unit_out)
{
    *unit_out = unit;
    if (S::FOLD != FOLD_SLICES) return 0;
    const int units = P.units / P.split, pass = unit / units;
    *unit_out = unit - pass * units;
    return pass + 1 == P.split ? 0 : pass + 1;
}

struct Span {
    int k0, k1;
};

template <class S> DEV Span span_of(const Param &P, const sg_patch &p, int slice)
{
    if (S::FOLD != FOLD_SLICES) return Span{p.k0, p.k1};
    const int stages = sg_walk_div(p.k1 - p.k0, STAGE_K), each = (stages - P.skew) / P.split;
    Span s;
    s.k0 = slice == 0 ? p.k0 : p.k0 + STAGE_K * (stages - each * (P.split - slice));
    s.k1 = sg_walk_min(p.k1, p.k0 + STAGE_K * (stages - each * (P.split - slice - 1)));
    return s;
}

/* ---- Addends --------------------------------------------------------------------------------- */

enum { NO_OWN = 1 << 16 }; /* behind any number of addends: there is no own product */

/* Where the own product stands among the addends of P, and where the parts begin: right before
 * it. */
DEV int own_place(const sg_patch &p)
{
    return p.k0 < p.k1 ? p.own_at : NO_OWN;
}

DEV int part_place(const Param &P, int own_at)
{
    return own_at - (own_at == NO_OWN ? 0 : P.parts);
}

/* Addends come through the stages piece after piece of the tile, those of a piece in the listed
 * order, as many in a stage as fit.  ADD takes so much room: a sum in f32 that of two pieces. */
template <class S> DEV int addend_room(int add, int part0, int own_at)
{
    return S::FOLD == FOLD_PARTS && add >= part0 && add < own_at ? 2 : 1;
}

/* What is taken of the stage that begins with ADD of PIECE. */
template <class S> DEV int stage_room(int piece, int add, int adds, int part0, int own_at)
{
    if (S::FOLD != FOLD_PARTS) return sg_walk_min(S::ADDENDS, (S::CHUNKS - piece) * adds - add);
    int taken = 0;
    for (; piece < S::CHUNKS; ++piece, add = 0)
        for (; add < adds; ++add) {
            const int room = addend_room<S>(add, part0, own_at);
            if (taken + room > S::ADDENDS) return taken;
            taken += room;
        }
    return taken;
}

/* Sums of a tile in f32 lie in the order in which threads hold them: those of a warpgroup side by
 * side, and of these a piece, 16 bytes a thread. */
template <class S> DEV char *part_address(const Param &P, int row)
{
    return (char *)P.program.place[P.part_place].data[0] + (int64_t)row * (S::BN * 4);
}

/* ---- Places ---------------------------------------------------------------------------------- */

DEV const CUtensorMap *map_of(const Param &P, int place, int use)
{
    return &P.map[P.map_of[place][use]];
}

/* Third coordinate in the maps of PLACE.  Half is read when it is first needed, since the first
 * load of a launch should not wait for it; HALF keeps it, -1 before. */
DEV int half_of(const Param &P, int place, int *half)
{
    const int flip = P.flip[place];
    if (flip == 0) return 0;
    if (*half < 0) *half = run_half(P.program);
    return flip == 1 ? *half : 1 - *half;
}
