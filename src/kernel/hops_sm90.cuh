/* hops_sm90.cuh -- sums over all ranks by data that tell by themselves that they have come, by
 * owners.  In two hops: a launch of a product for each owner of columns, of the sum of the own
 * columns, and of what the other owners send.  In one, of a scatter: of a product for each owner of
 * rows and of the sum of the own rows, without what is stored at others or comes from them.
 *
 *     math     all products of the block, each stored at its owner | its share of the own columns: all ranks'
 *              words, added, stored at all others and in C | its share of the other columns: sums, into C
 *
 * Words and places are those of tagged_sm90.cuh, and so are the other warps.  Of the second and
 * third part a rank's blocks share the tiles among each other, so that none of them adds up a whole
 * tile while the others wait; what a block waits for may come from any block of any rank, all of
 * which have stored their products before they wait. */
#pragma once
#include "kernel/tagged_sm90.cuh"

/* Of what watchers leave, behind that of one hop: places of products and then of sums in
 * tagged_to(); in tagged_from() those of all ranks' products, and from HOPS_RANKS on of the other
 * owners' sums; the extents of products in slots, which nobody else needs. */
enum { HOPS_RANKS = 16, HOPS_OWN = 4, HOPS_ON = 8, HOPS_EXTENT = 16 };
static_assert(2 * HOPS_RANKS <= TAGGED_RANKS, "");

template <class S> DEV uint32_t hops_extent(const Smem<S> &smem, int product)
{
    static_assert(HOPS_EXTENT * HOPS_RANKS <= S::SLOT_BYTES, "");
    return smem.slot + HOPS_EXTENT * product;
}

template <class S> DEV void hops_look_up(const Param &P, const Smem<S> &smem, int lane)
{
    const int half = run_half(P.program);
    const int products = P.products, behind = P.patches - products;
    if (lane < products) {
        const sg_patch &p = patch_in_list(P, lane);
        const uint32_t to = hops_extent(smem, lane);
        shared_store8(tagged_to(smem, lane), tagged_place<S>(P, P.program.to[p.to0], half));
        shared_store(to, (uint32_t)p.col0), shared_store(to + 4, (uint32_t)p.cols);
        shared_store(to + 8, (uint32_t)p.rows);
        shared_store(to + 12, (uint32_t)(p.row0 - P.first.row0) << 8 | p.width);
    }
    if (behind == 0) { /* a scatter of which this rank gets nothing */
        if (lane == 0) shared_store(smem.hello + TAGGED_HOW, 0);
        return;
    }
    const sg_patch &sum = patch_in_list(P, products);
    const bool own = sum.adds > 1;
    if (own && lane < sum.adds)
        shared_store8(tagged_from(smem, lane),
                      tagged_place<S>(P, P.program.add[sum.add0 + lane].area, half));
    if (own && lane < sum.tos - 1)
        shared_store8(tagged_to(smem, products + lane),
                      tagged_place<S>(P, P.program.to[sum.to0 + lane], half));
    if (lane < behind - own) {
        const sg_patch &come = patch_in_list(P, products + own + lane);
        shared_store8(tagged_from(smem, HOPS_RANKS + lane),
                      tagged_place<S>(P, P.program.add[come.add0].area, half));
    }
    if (lane != 0) return;
    const sg_area &to = P.program.to[sum.to0 + sum.tos - 1];
    const sg_kernel_place &c = P.program.place[to.buf];
    const char *data = (const char *)c.data[half] + to.row0 * c.pitch;
    const bool even = (((uintptr_t)data | (uintptr_t)c.pitch) & 15) == 0;
    shared_store8(smem.hello + TAGGED_C, (uint64_t)(uintptr_t)data);
    shared_store8(smem.hello + TAGGED_PITCH, (uint64_t)c.pitch);
    shared_store(smem.hello + TAGGED_HOW, (sum.final ? TAGGED_FINAL : 0) |
                                              (even ? TAGGED_EVEN : 0) | (own ? HOPS_OWN : 0) |
                                              (own && sum.tos > 1 ? HOPS_ON : 0));
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* All products have the same walk but for their extent: PRODUCT's patch, as walks need it. */
template <class S> DEV sg_patch hops_patch(const Math<S> &m, int product)
{
    const uint32_t from = hops_extent(m.smem, product);
    sg_patch p = m.P.first;
    p.col0 = (int32_t)shared_load(from), p.cols = (int32_t)shared_load(from + 4);
    p.rows = (int32_t)shared_load(from + 8), p.width = (uint8_t)shared_load(from + 12);
    return p;
}

/* Of products whose rows are one tile's: which has row ROW of the tile, and *ROW_OUT of its own. */
template <class S> DEV int hops_owner(const Math<S> &m, int row, int *row_out)
{
    int product = 0;
    for (;; ++product) {
        const uint32_t from = hops_extent(m.smem, product);
        *row_out = row - (int)(shared_load(from + 12) >> 8);
        const bool here = (unsigned)*row_out < shared_load(from + 8);
        if (here || product + 1 >= m.P.products) return product;
    }
}

/* Slice SLICE of SLICES of tile INDEX of PRODUCT. */
template <class S> DEV void hops_find(Summing<S> &s, int product, int index, int slice, int slices)
{
    const sg_patch p = hops_patch(s.m, product);
    const Tile t = tile_at<S>(p, index, 0, 0);
    s.unit = index, s.row0 = t.band * S::BM, s.col0 = t.col * S::BN;
    s.hop.c_col = p.col0, s.hop.cols = p.cols;
    s.rows = s.alive ? sg_walk_min(S::BM, p.rows - s.row0) : 0;
    const int words = sg_walk_div(s.rows, 8) * EIGHT<S>;
    s.hop.begin = words * slice / slices, s.words = words * (slice + 1) / slices;
}

template <class S> DEV int hops_tiles(const Math<S> &m, int product)
{
    const sg_patch p = hops_patch(m, product);
    return sg_walk_visits(&p, S::BM, S::BN);
}

template <class S> DEV void hops_send(const Summing<S> &s, int x, const uint4 &word, int tos)
{
    const Math<S> &m = s.m;
    if (!s.alive || !tagged_comes(s, x)) return;
    const int64_t at =
        (int64_t)s.unit * (S::BM * S::BN * 2) + x * WORDS_BYTES + m.lane * WORD_BYTES;
    for (int d = 0; d < tos; ++d)
        store_tagged((char *)(uintptr_t)shared_load8(tagged_to(m.smem, s.hop.to + d)) + at, word);
}

/* This warp's share of the words of another owner's tile, which are sums: into C as they come. */
template <class S, int ITEMS> DEV void hops_take(Summing<S> &s, bool last)
{
    constexpr int APART = 4 * S::WGS;
    const int begin = s.hop.begin;
    /* As often for all warps: see tagged_sum(). */
    for (int word0 = begin; word0 == begin || word0 < s.words; word0 += ITEMS * APART) {
        const int word = word0 + s.m.wg * 4 + s.m.warp;
        Batch<1, ITEMS> b;
        tagged_read<S, 1, ITEMS>(s, b, 0, 1, word);
        __syncwarp();
        if (last && word0 + ITEMS * APART >= s.words) named_arrive(MEET_READ, 128 * S::WGS + LANES);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) tagged_put(s, word + i * APART, b.word[i][0]);
        __syncwarp();
    }
}

/* As tagged_send(), each row to its owner. */
template <class S>
DEV void hops_send_joined(const Summing<S> &s, const float (&acc)[S::MI][S::SUMS])
{
    const Math<S> &m = s.m;
    const int first = (m.part * S::MI * 4 + m.warp) * 16;
#pragma unroll
    for (int eight = 0; eight < 2 * S::MI; ++eight) {
        const int row = first + eight / 2 * 64 + eight % 2 * 8 + m.lane / 4;
        int own_row = 0;
        const int owner = hops_owner(m, row, &own_row);
        char *there = (char *)(uintptr_t)shared_load8(tagged_to(m.smem, owner)) +
                      ((int64_t)s.unit * S::BM + own_row / 8 * 8) * (S::BN * 2) +
                      (own_row % 8 * 4 + m.lane % 4) * WORD_BYTES;
#pragma unroll
        for (int x = 0; x < EIGHT<S>; ++x) {
            const uint4 word =
                tagged_word<typename S::T>(&acc[eight / 2][16 * x + eight % 2 * 2], m.lane);
            if (row < s.rows) store_tagged(there + x * WORDS_BYTES, word);
        }
    }
}

/* ---- A math warp ----------------------------------------------------------------------------- */

template <class S> DEV void hops_products(Math<S> &m, Summing<S> &s)
{
    const int first = first_unit<S>(m.P, m.smem), stride = stride_of<S>(m.P);
    look_ahead(m, first, 0);
    for (int unit = first; unit < m.P.units; unit += stride) {
        float acc[S::MI][S::SUMS];
        m.patch = m.ahead.patch, m.base = m.ahead.base;
        math_stamp(m, STAMP_TILE, m.patch);
        __syncwarp(); /* matrix instructions are for whole warps */
        multiply(m, acc, m.next_stages, unit + stride, nullptr, false);
        if (unit == first) s.alive = tagged_gate(m);
        if (m.P.joined) {
            s.unit = unit, s.rows = s.alive ? m.P.first.rows : 0;
            hops_send_joined(s, acc);
        } else {
            hops_find(s, m.patch, unit - m.base, 0, 1);
            s.hop.to = m.patch;
            tagged_send(s, acc);
        }
        math_stamp(m, STAMP_SENT);
    }
}

/* The own columns or rows, the last product's, TILES of them: to all others, if sums go ON.  ENDS:
 * nothing comes behind them. */
template <class S> DEV void hops_own(Summing<S> &s, int products, int tiles, bool on, bool ends)
{
    const int first = first_unit<S>(s.m.P, s.m.smem), stride = stride_of<S>(s.m.P);
    const int ranks = s.m.P.program.rank->ranks, tos = on ? ranks - 1 : 0;
    const int slices = 0 < tiles && tiles < stride ? stride / tiles : 1;
    s.hop.sum = products, s.hop.from = 0, s.hop.to = products;
    for (int u = first; u < tiles * slices; u += stride) {
        const bool last = ends && u + stride >= tiles * slices;
        hops_find(s, products - 1, u % tiles, u / tiles, slices);
        if (ranks <= 2)
            tagged_sum<S, 2, 4>(s, ranks, last, tos);
        else if (ranks <= 4)
            tagged_sum<S, 4, 2>(s, ranks, last, tos);
        else
            tagged_sum<S, 8, 1>(s, ranks, last, tos);
    }
    if (ends && first >= tiles * slices) named_arrive(MEET_READ, 128 * S::WGS + LANES);
}

/* All other columns, TILES of them. */
template <class S> DEV void hops_others(Summing<S> &s, int products, bool own, int tiles)
{
    const int first = first_unit<S>(s.m.P, s.m.smem), stride = stride_of<S>(s.m.P);
    const int slices = 0 < tiles && tiles < stride ? stride / tiles : 1;
    for (int u = first; u < tiles * slices; u += stride) {
        int product = 0, index = u % tiles;
        for (int here; index >= (here = hops_tiles(s.m, product)); ++product) index -= here;
        hops_find(s, product, index, u / tiles, slices);
        s.hop.sum = products + own + product, s.hop.from = HOPS_RANKS + product;
        hops_take<S, 8>(s, u + stride >= tiles * slices);
    }
    if (first >= tiles * slices) named_arrive(MEET_READ, 128 * S::WGS + LANES);
}

template <class S> DEV void hops_run(Math<S> &m)
{
    Summing<S> s = {m, 0, 0, 0, 0, 0, true};
    hops_products(m, s);
    const int products = m.P.products;
    const uint32_t how = shared_load(m.smem.hello + TAGGED_HOW);
    const bool own = how & HOPS_OWN, come = m.P.patches > products + own;
    const int tiles = own ? hops_tiles(m, products - 1) : 0;
    hops_own(s, products, tiles, how & HOPS_ON, !come);
    if (come) hops_others(s, products, own, m.P.units - tiles);
    math_stamp(m, STAMP_ADDED);
}
