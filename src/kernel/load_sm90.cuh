/* load_sm90.cuh -- the loader of the Hopper product (gemm_sm90.cuh): one thread that fills the
 * stages with A and B, and with addends, through the bulk engine. */
#pragma once
#include "kernel/stages_sm90.cuh"

/* Where a unit's operands are. */
struct Source {
    const CUtensorMap *a, *b; /* in clusters, NULL: nothing of it is this block's to load */
    Tile tile;
    int k0, k1, a_k, b_k; /* span of k; what to add to k for columns of A and B */
    int row, column;      /* this block's share of the rows of A and of B */
    int bytes;            /* of a stage */
    int slab, a_place, b_place;
    int add0, adds, index; /* of addends: which; which visit of its patch this is */
    int own_at, part0;     /* among them */
    int more;              /* patches that are still to go on with it */
    bool waits, narrow;
};

/* The tile is loaded so. */
template <class S> DEV void source_loads(Source &s, const Param &P, const sg_kernel_loads &loads)
{
    s.a = S::CN > 1 && loads.a < 0 ? nullptr : &P.map[loads.a];
    s.b = S::CM > 1 && loads.b < 0 ? nullptr : &P.map[loads.b];
    s.bytes = loads.rows * 128;
}

/* How it is, if nobody has found out before. */
template <class S>
DEV void source_look(Source &s, const Param &P, const sg_patch &p, int im, int in)
{
    source_loads<S>(s, P,
                    instance_loads(&P, &p, s.tile.band * S::BM, s.tile.col * width_of<S>(p), S::BM,
                                   S::BN, S::CM, S::CN, im, in));
}

/* What patch P reads over SPAN of k for the tile at hand. */
template <class S>
DEV void source_read(Source &s, const Param &P, const sg_patch &p, Span span, int im, int in)
{
    s.k0 = span.k0, s.k1 = span.k1;
    s.a_k = p.a.col0 - p.k0, s.b_k = p.b.col0 - p.k0;
    s.row = p.a.row0 + s.tile.band * S::BM + in * (S::BM / S::CN);
    s.column = p.b.row0 + s.tile.col * width_of<S>(p) + im * (S::BN / S::CM);
    s.narrow = is_narrow<S>(p);
    s.slab = p.slab, s.a_place = p.a.buf, s.b_place = p.b.buf;
    /* Of several patches each is a step of the watcher's. */
    s.waits = p.waits > 0 || (S::GOES_ON && (p.more > 0 || p.goes_on));
}

/* Those of TILE, visit INDEX of patch P. */
template <class S>
DEV void source_set(Source &s, const Param &P, const sg_patch &p, const Tile &tile, int index,
                    int slice, int im, int in)
{
    s.add0 = p.add0, s.adds = p.adds, s.index = index;
    s.own_at = own_place(p), s.part0 = part_place(P, s.own_at);
    s.tile = tile;
    s.more = S::GOES_ON ? p.more : 0;
    source_read<S>(s, P, p, span_of<S>(P, p, slice), im, in);
}

/* The next patch that goes on with the product of PATCH, of which there are MORE; false: there is
 * none. */
template <class S>
DEV bool source_goes_on(Source &s, const Param &P, int patch, int more, int im, int in)
{
    if (!S::GOES_ON || s.more == 0) return false;
    const sg_patch &p = patch_in_list(P, patch + more - --s.more);
    source_read<S>(s, P, p, Span{p.k0, p.k1}, im, in);
    source_look<S>(s, P, p, im, in);
    return true;
}

/* Finding out takes a few hundred cycles (divisions, loads of the list), which the stages that are
 * full by then hide. */
template <class S>
DEV void source_find(Source &s, const Param &P, const Smem<S> &smem, Cursor &cursor, int unit,
                     int im, int in)
{
    int in_pass;
    const int slice = slice_of<S>(P, unit, &in_pass);
    cursor_move<S>(P, smem, cursor, in_pass);
    const sg_patch p = patch_of(P, cursor);
    const int index = in_pass - cursor.base;
    source_set<S>(s, P, p, tile_at<S>(p, index, im, in), index, slice, im, in);
    source_look<S>(s, P, p, im, in);
}

/* Of the block's first unit, which nothing hides; but for slices of k, the host has divided. */
template <class S>
DEV void source_first(Source &s, const Param &P, const Smem<S> &smem, Cursor &cursor, int unit,
                      int im, int in)
{
    if constexpr (S::FOLD == FOLD_SLICES) {
        source_find<S>(s, P, smem, cursor, unit, im, in);
    } else {
        const sg_kernel_deal &deal = P.deal[seat_of(smem)];
        cursor = {deal.patch, deal.base, deal.end};
        const sg_patch p = patch_of(P, cursor);
        source_set<S>(s, P, p, tile_of<S>(p, deal.band, deal.col, im, in), unit - deal.base, 0, im,
                      in);
        source_loads<S>(s, P, deal.loads);
    }
}

/* Where the first addends of a tile are, ADDS of them from ADD0 on.  They are looked up before what
 * they hold is waited for: who acquires a flag empties the L1, and a look-up behind that is most of
 * a microsecond (four H200s, 512x8192x7168 all-reduced 119 us, looked up before 117). */
struct Addends {
    sg_area area[SG_INSTANCE_SLOT_ADDS];
};

DEV Addends addends_look(const Param &P, int add0, int adds)
{
    Addends a;
#pragma unroll
    for (int i = 0; i < SG_INSTANCE_SLOT_ADDS; ++i)
        a.area[i] = P.program.add[add0 + sg_walk_min(i, adds - 1)].area;
    return a;
}

DEV sg_area addend_at(const Param &P, const Addends &a, int add0, int add)
{
    sg_area area = a.area[0];
#pragma unroll
    for (int i = 1; i < SG_INSTANCE_SLOT_ADDS; ++i)
        if (add == i) area = a.area[i];
    return add < SG_INSTANCE_SLOT_ADDS ? area : P.program.add[add0 + add].area;
}

/* PIECE of addend AREA of visit INDEX of a patch, of all warpgroups that share
 * the tile, to TO and behind. */
template <class S>
DEV void load_addend(const Param &P, const sg_area &area, const Tile &tile, int index, int piece,
                     int *half, uint32_t to, uint32_t full)
{
    const int x = piece % S::ACROSS * S::W, y = piece / S::ACROSS * 64;
    const bool tiled = area.tiled;
    const int col = area.col0 + x + (tiled ? 0 : tile.col * S::BN);
    const int row = area.row0 + y + (tiled ? index : tile.band) * S::BM;
    for (int part = 0; part < S::PARTS; ++part, to += S::PIECE_BYTES)
        tma_load(to, map_of(P, area.buf, MAP_PIECE), col, row + part * S::MI * 64,
                 half_of(P, area.buf, half), full, KEEP_NORMAL);
}

/* The same of sums in f32.  Partner: part_leave(). */
template <class S>
DEV void load_part(const Param &P, const sg_area &area, const Source &at, int piece, uint32_t to,
                   uint32_t full)
{
    constexpr int BYTES = 2 * S::PIECE_BYTES;
    const char *from = part_address<S>(P, area.row0 + at.index * S::BM) + piece * BYTES;
    for (int part = 0; part < S::PARTS; ++part)
        bulk_load(to + part * BYTES, from + part * S::CHUNKS * BYTES, BYTES, full);
}

/* The addends of a tile; LOOKED: where the first ones are.  Partner: fold_addends(). */
template <class S>
DEV void load_addends(const Param &P, const Smem<S> &smem, const Source &at, const Addends &looked,
                      int *half, Stages<S> &ring)
{
    int left = 0; /* of what is taken of the stage at hand */
    uint32_t full = 0, to = 0;
    for (int piece = 0; piece < S::CHUNKS; ++piece) {
        for (int add = 0; add < at.adds; ++add) {
            if (left == 0) {
                full = smem.full + 8 * ring.at, to = smem.stage + stages_place(ring);
                const uint32_t since = stamp_clock();
                mbar_wait(P, smem, smem.empty + 8 * ring.at, stages_parity(ring) ^ 1, ROLE_LOADER);
                stamp_waited(smem.stamp, STAMP_LOADER, 0, since);
                left = stage_room<S>(piece, add, at.adds, at.part0, at.own_at);
                mbar_expect(full, at.tile.live ? left * S::PARTS * S::PIECE_BYTES : 0);
            }
            const int room = addend_room<S>(add, at.part0, at.own_at);
            const sg_area area = addend_at(P, looked, at.add0, add);
            if (at.tile.live && room > 1)
                load_part<S>(P, area, at, piece, to, full);
            else if (at.tile.live)
                load_addend<S>(P, area, at.tile, at.index, piece, half, to, full);
            to += room * S::PARTS * S::PIECE_BYTES;
            left -= room;
            if (left == 0) stages_step(ring);
        }
    }
}

/* Behind the launch before us in the stream, if we were started early; the next one may come. */
DEV void launch_in_order()
{
    launch_wait();
    launch_next();
}

/* B's first stages may be asked for before the launch before us has ended: what that may still
 * write goes through the same L2.  Of a B that comes from peers the half is not known yet. */
template <class S> DEV void loader_begin(const Param &P, const Smem<S> &smem, const Source &at)
{
    const bool known = P.flip[at.b_place] == 0 && (S::CM == 1 || at.b != nullptr);
    const int until = known ? at.k0 + P.ahead : at.k0;
    for (int k = at.k0; k < at.k1 && k < until; k += STAGE_K)
        tma_prefetch(at.b, at.b_k + k, at.column, 0, P.keep_b);
    launch_in_order();
    stamp(smem.stamp, STAMP_LOADER, STAMP_FREE);
}

/* Where rows are still on their way when a launch begins, B is not: what the first stages hold
 * is asked for at once, and of the rest what the memory gives meanwhile, into the L2, half of
 * which that may take.  Returns how many of the first unit's stages then lack A alone. */
template <class S> DEV int loader_ahead(const Param &P, const Smem<S> &smem, const Source &at)
{
    enum { MORE = (256 << 10) / S::B_BYTES };
    int stages = 0, k = at.k0;
    for (; stages < S::STAGES && k < at.k1; ++stages, k += STAGE_K) {
        const uint32_t full = smem.full + 8 * stages;
        mbar_expect(full, at.bytes);
        tma_load(smem.stage + stages * S::STAGE_BYTES + S::A_BYTES, at.b, at.b_k + k, at.column, 0,
                 full, P.keep_b);
    }
    for (int i = 0; i < MORE && k < at.k1; ++i, k += STAGE_K)
        tma_prefetch(at.b, at.b_k + k, at.column, 0, P.keep_b);
    return stages;
}

/* Before the stages are cut anew, nothing of the old ones is needed any more. */
template <class S>
DEV void stages_wait(const Param &P, const Smem<S> &smem, const Stages<S> &ring, bool fine)
{
    if constexpr (S::NARROW > 0)
        for (int i = 0; ring.fine != fine && i < (ring.fine ? S::FINE : S::STAGES); ++i)
            mbar_wait(P, smem, smem.empty + 8 * i, (ring.parity >> i & 1) ^ 1, ROLE_LOADER);
}

/* What a loader keeps from one tile to the next. */
template <class S> struct Loading {
    Stages<S> ring;
    uint32_t steps = 0, ready = 0; /* of the watcher's: taken; known to be ready */
    int half = -1;
    int lack_a = 0; /* stages whose B has been asked for */
};

/* The next step of the watcher's list. */
template <class S> DEV void step_wait(Loading<S> &l, const Param &P, const Smem<S> &smem)
{
    /* Pairs with watcher_tell(). */
    const uint32_t since = stamp_clock();
    if (++l.steps > l.ready) l.ready = progress_wait(P, smem, smem.watched, l.steps, ROLE_LOADER);
    stamp_waited(smem.stamp, STAMP_LOADER, 1, since);
}

/* A and B of a tile over the span of k of AT. */
template <class S>
DEV void load_product(Loading<S> &l, const Param &P, const Smem<S> &smem, const Source &at, int im,
                      int in)
{
    constexpr uint16_t down_mask = (1 << S::CM) - 1;               /* of a column of the cluster */
    constexpr uint16_t over_mask = ((1 << S::CL) - 1) / down_mask; /* of a row: every CM-th bit */
    const int a_half = half_of(P, at.a_place, &l.half), b_half = half_of(P, at.b_place, &l.half);
    /* A block that overhangs still multicasts to a live neighbour, so it waits, too. */
    int wake = at.waits ? at.k0 : 0x7fffffff;
    for (int k = at.k0; k < at.k1; k += STAGE_K, stages_step(l.ring)) {
        while (wake < k + STAGE_K && wake < at.k1) {
            step_wait(l, P, smem);
            wake = at.slab > 0 ? wake + at.slab : 0x7fffffff;
        }
        const uint32_t full = smem.full + 8 * l.ring.at;
        uint32_t to = smem.stage + stages_place(l.ring);
        /* Pairs with stage_release() of math. */
        const uint32_t since = stamp_clock();
        mbar_wait(P, smem, smem.empty + 8 * l.ring.at, stages_parity(l.ring) ^ 1, ROLE_LOADER);
        stamp_waited(smem.stamp, STAMP_LOADER, 0, since);
        if (!S::GATHERS || l.lack_a == 0) mbar_expect(full, at.bytes);
        if (S::CN == 1)
            tma_load(to, at.a, at.a_k + k, at.row, a_half, full, P.keep_a);
        else if (at.a != nullptr)
            tma_load_multicast(to + in * (S::A_BYTES / S::CN), at.a, at.a_k + k, at.row, a_half,
                               full, P.keep_a, over_mask << im);
        to += S::A_BYTES;
        if (S::GATHERS && l.lack_a > 0)
            --l.lack_a;
        else if (S::CM == 1)
            tma_load(to, at.b, at.b_k + k, at.column, b_half, full, P.keep_b);
        else if (at.b != nullptr)
            tma_load_multicast(to + im * (S::B_BYTES / S::CM), at.b, at.b_k + k, at.column, b_half,
                               full, P.keep_b, down_mask << (in * S::CM));
    }
}

template <class S> DEV void loader(const Param &P, const Smem<S> &smem, int im, int in)
{
    const int stride = stride_of<S>(P);
    Loading<S> l;
    Cursor cursor;
    Source at;
    int unit = first_unit<S>(P, smem);
    stamp(smem.stamp, STAMP_LOADER, STAMP_BEGUN);
    if (unit >= P.units) return launch_in_order();
    source_first<S>(at, P, smem, cursor, unit, im, in);
    loader_begin(P, smem, at);
    if constexpr (S::GATHERS) l.lack_a = loader_ahead(P, smem, at);
    for (;;) {
        stages_wait(P, smem, l.ring, at.narrow);
        stages_cut(l.ring, at.narrow);
        stamp(smem.stamp, STAMP_LOADER, STAMP_TILE, cursor.patch);
        const int more = at.more;
        do load_product(l, P, smem, at, im, in);
        while (source_goes_on<S>(at, P, cursor.patch, more, im, in));
        if (S::ADDS && !S::SLOT_ADDS && at.adds) {
            const Addends looked = addends_look(P, at.add0, at.adds);
            step_wait(l, P, smem);
            load_addends<S>(P, smem, at, looked, &l.half, l.ring);
        }
        stamp_waits(smem.stamp, STAMP_LOADER, STAMP_AWAITED, 1);
        stamp_waits(smem.stamp, STAMP_LOADER, STAMP_LOADED, 0);
        unit += stride;
        if (unit >= P.units) return;
        source_find<S>(at, P, smem, cursor, unit, im, in);
    }
}
