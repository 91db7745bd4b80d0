/* fused_in.c -- FLUX's gather (arXiv 2406.06858, section 3.2): the product itself waits for the
 * rows and the part of k that it is about to read, while the copy engine brings them.
 *
 *     lane 1:  chunk by chunk of the own rows to r-1, r-2, ...   a flag per chunk of rows and of k
 *     lane 0:  one launch: own rows, then r+1, r+2, ...          a tile waits for the chunks it reads
 *
 * With `push` that launch brings the chunks instead of a copy engine (lane 1 then is no lane of a
 * GPU): everything is one launch, which saves what copy engines cost to start and to join, and
 * loses where stores are slower than copies, or where much travels and storers carry it: they come
 * to the tiles last.  Its chunks of k go to all peers side by side: chunk 0 to each, then chunk 1.
 * So where all tiles run at once, no peer's wait for their first chunk until another peer has all
 * of its own.  With `push` 2 they go to one peer after the other, as tiles of several waves come to
 * them, and as an engine brings them, which takes its time to turn to another peer.  With `push` 3
 * tiles of own rows wait for the next rank's chunks as well, so that both read B in step, from
 * memory once, and all SMs are free to carry the first chunk.
 *
 *     push 4   lane 0:  one launch of all rows alike, in step with k
 *              carried: own rows, part by part of k, tagged, to all | what comes and own rows -> scratch
 *
 * With `push` 4 rows are few, and come as tagged data: nobody waits until a store is acknowledged
 * and a flag has followed it.  Whoever sees such data puts them into the own scratch, where rows of
 * all owners lie as in the product, so that a tile may have several owners' and B is read once.
 * Own rows are put there, too, unless all owners have whole tiles of them; these wait as well.
 *
 *     push 5   lane 0:  one launch: own rows in narrow tiles, then r+1, ... in wide ones
 *
 * With `push` 5, where others' rows are a wave of tiles, own rows are a wave in front of it, of
 * tiles as much narrower as they are fewer, while the first parts of k come, as with `push` 1.
 *
 * The chunk that travels and the tile that is multiplied are chosen apart.  Chunks of k let a tile
 * start with the first part of k: that is for products of one wave, where all tiles run at once
 * and waiting for whole rows would hide nothing.  With several waves and a copy engine, which takes
 * its time for each chunk, tiles that wait in the middle hold their SMs, and chunks of rows alone
 * are better; pushes for several waves are as quick in many parts as in one.
 *
 *     strips   lane 0:  first columns: own rows, r+1, ... | next columns: own rows, r+1, ... | ...
 *
 * Own rows first means that all of B is read for them, and again for each of the others, from
 * memory if it does not fit into a cache; and every byte takes power, which is time at its limit.
 * In strips of columns, each a wave of everybody's rows, B is read once.  The first is wider, a
 * wave of own rows, since nothing else has arrived; with chunks of k it need not be.  Tiles of own
 * rows then wait for the next rank's chunks as well: the launch ends no sooner if they run ahead,
 * and with pushes it ends later (H200s, two by 27 us of 374, four by 12 of 207 and 15 of 258), it
 * is thought since they then read B at another time.  A call makes whole rows.
 *
 *     gather=k lane 1:  chunk by chunk of rows: the own columns to all          a flag per chunk
 *              lane 0:  one launch of all tiles: own k, then that of r+1, ...   a tile waits for
 *                       the chunks of its rows on the way
 *
 * Where k arrives, every tile needs what all have: a tile multiplies own k first and goes on with
 * what has come by then.  Nobody adds up sums of parts of k, and only the first wave waits.
 */
#include <math.h>

#include "core/blocks.h"
#include "core/moves.h"
#include "core/strategy.h"
#include "core/tiles.h"

enum { CHUNKS, SLABS, TILE_M, TILE_N, PUSH, STRIPS };

/* Values of PUSH beside 0, which differ in chunks of k. */
enum { ABREAST = 1, PEER_BY_PEER = 2, IN_STEP = 3, TAGGED = 4, OWN_WAVE = 5 };

/* Shapes of tiles that are proposed, those first whose waves take the least time; which rows come
 * when is the simulator's to say.  Two H200s, the best of two and of four: 1500x2368x3200 53.6 and
 * 44.8 us, 1024x3264x2048 34.6 and 29.4, 768x4672x1664 37.5 and 32.1
 * (results/gpu/shapes_2xh200_v1.json). */
enum { SHAPES = 4, SHAPES_IF_ODD = 2 };

/* Where rows begin at odd 16 bytes, others than the first two are priced too low: 2500x4096x3560 in
 * 128x224 110 us, and takes 159, 116 by `direct` (there). */
static int shapes_for(const sg_problem *p, const sg_machine *machine)
{
    const int most = sg_problem_straddles(p) ? SHAPES_IF_ODD : SHAPES;
    return machine->tiles < most ? machine->tiles : most;
}

/* Of several waves a push costs nothing beside its bytes, so that chunks of k help as long as a
 * wave that waits is a good part of the product; an engine's copy does. */
enum { FEW_WAVES = 4, SLABS_OF_FEW = 8, SLABS_OF_STRIPS = 12, SLABS_TO_SEVERAL = 4 };

/* To a single peer, each part takes its time to be told of, whoever brings it: so many of k make
 * one (two H200s, results/gpu/parts_2xh200_v1.json: 512x3584x4096 by many couriers 49 us in 8
 * parts, 36 in 2 or 3; 512x2560x8192 64 and 49 in 4; by engine 1024x3072x4096 70 and 58; by four
 * couriers, early_2xh200_v1.json: 512x4096x4096 44 in 8 parts, 39 in 4). */
enum { K_OF_PART = 2048, LEAST_PARTS = 3, MOST_PARTS = 4 };

/* The same of several waves: 2048x6144x2048 pushed takes 84 us in 8 parts, 78 in 4 or 2; x1536 73
 * and, in chunks of rows, 57 (results/gpu/alternatives_2xh200_v1.json). */
enum { K_OF_WAVES = 1024 };
enum { FEW_IDLE = SG_COURIERS_OF_HERALD };

/* Own rows of more bands read A as often as they read B: a wave is no higher.  Of two ranks, strips
 * of four to eight bands took 0 to 12 % longer than all columns at once, 15 of 15 (two H200s,
 * results/gpu/alternatives_2xh200_v1.json, tables), of two bands 8 % less. */
enum { LOW_BANDS = 8, LOW_BANDS_OF_TWO = 3, MOST_STRIPS = 64 };

/* Of a rank's rows by copy engine, for which own rows are kept: 4 and 6 MB were
 * no slower for it, 17 were. */
static const double most_kept_bytes = 8e6;

/* Of a rank's rows, as it sends them to all others; beyond, copy engines have paid for themselves.
 * To several peers in strips: 6 and 9 MB were faster, 25 slower (four H200s, 2048x2560x8192: 192
 * us, by engine 156). */
static const double most_pushed_bytes = 32e6, most_pushed_in_strips = 16e6;

/* Of all rows, that are taken from tagged data: 4 MB gain 10 to 20 %, 8 MB lose as much, since few
 * warps put them where products load them. */
static const double most_tagged_bytes = 4.5e6;

enum { MOST_TAGGED_COLS = 128 };
enum { MOST_PIECES_OF_K = 200 }; /* a product goes on with so many patches at most */

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (sg_problem_in(p) == SG_IN_NONE) return sg_decline(why, "no operand arrives");
    if (p->gather == SG_GATHER_K && p->segment_count > MOST_PIECES_OF_K)
        return sg_decline(why, "k lies in too many pieces for one product");
    return sg_accepts_moves(p, why);
}

/* As many as waves, where it pays. */
static int strips_of(const sg_problem *p, const sg_tile *tile, int64_t waves)
{
    const int most = p->ranks > 2 ? LOW_BANDS : LOW_BANDS_OF_TWO;
    const bool low = sg_ceil_div(p->most_rows, tile->m) <= most;
    const bool pays = p->gather == SG_GATHER_A && !p->call && p->ranks > 1 && low && waves > 1;
    return pays ? (int)sg_min(waves, MOST_STRIPS) : 1;
}

static int parts_of(const sg_problem *p, int least)
{
    return (int)sg_max(least, sg_min(p->k / K_OF_PART, MOST_PARTS));
}

/* How many chunks of k may be better than one; of strips 0: these are no use. */
static int slabs_of(const sg_problem *p, const sg_machine *machine, int64_t tiles, bool push,
                    bool strips, double sent)
{
    const int64_t waves = sg_ceil_div(tiles, machine->sms);
    if (p->gather != SG_GATHER_A || p->k < 512) return 1;
    /* H200s: four, 512x2560x8192, 67 us in 4 parts, 73 in 2, 74 in 8, 78 whole;
     * two, 2048x5120x8192, two waves, 240 us in 4 or 8 parts, 241 in 16, 242 in
     * four chunks of whole rows. */
    if (push && !strips && p->ranks > 2) return waves > 1 ? 1 : SLABS_TO_SEVERAL;
    if (push && strips && p->ranks > 2 && sent > most_pushed_in_strips) return 0;
    if (strips && !push) {
        const bool kept = p->ranks == 2 && waves <= FEW_WAVES && sent <= most_kept_bytes;
        return kept ? SLABS_OF_STRIPS : 1;
    }
    if (p->ranks == 2 && waves == 1 && machine->pool == 0 && (machine->courier_gbps > 0 || !push))
        return parts_of(p, LEAST_PARTS);
    if (p->ranks == 2 && push && waves <= FEW_WAVES && machine->push_us > 0)
        return (int)sg_max(1, sg_min(p->k / K_OF_WAVES, SLABS_OF_FEW));
    return waves <= (push ? FEW_WAVES : 1) ? SLABS_OF_FEW : 1;
}

/* Have so many blocks no tile that one of them raises what the others carry? */
static bool leaves_many(const sg_machine *machine, int64_t tiles)
{
    return machine->sms - tiles >= FEW_IDLE;
}

/* Chunks of k for which own rows are worth holding back; 0: they are not.  In a product of one wave
 * own rows end first, and while they run ahead all of B is read twice: two H200s, results/gpu/
 * early_2xh200_v1.json, 512x7168x8192 96 us, so 89 to 90.  But what is held back wants parts of k
 * as fast as it multiplies them, and so many flags come no faster (three parts of 512x6144x4096
 * 47 us, eight 53).  Where many blocks carry, products gain by it of which B is much
 * (256x9216x6144 65 us, 68 if own rows run ahead, 69 not overlapped; 768x2304x8192 63, 61). */
static int slabs_in_step(const sg_problem *p, const sg_machine *machine, int64_t tiles, int slabs)
{
    const double part_us = 12;
    const double flops = sg_problem_flops(p, (double)p->m, (double)p->n, (double)p->k);
    const double product_us = flops / (machine->gemm_tflops[p->type] * 1e6);
    const double b_bytes = (double)p->n * (double)p->k * sg_type_bytes(p->type);
    const double b_us = b_bytes / (machine->mem_gbps * 1e3);
    if (p->ranks != 2 || tiles > machine->sms || slabs == 1 || b_us > product_us) return 0;
    if (leaves_many(machine, tiles))
        return machine->courier_gbps > 0 && 2 * b_us > product_us ? slabs : 0;
    return product_us < LEAST_PARTS * part_us ? 0 : (int)fmin(product_us / part_us, SLABS_OF_FEW);
}

static sg_knobs knobs_of(int chunks, int slabs, const sg_tile *tile, int push, int strips)
{
    return (sg_knobs){{[CHUNKS] = chunks,
                       [SLABS] = slabs,
                       [TILE_M] = tile->m,
                       [TILE_N] = tile->n,
                       [PUSH] = push,
                       [STRIPS] = strips}};
}

/* Has that value a meaning with the others?  Words of tagged data are eight elements of 16 bits,
 * and what is returned of A is to be what was sent, bit by bit. */
static bool may_be_tagged(const sg_problem *p, const sg_knobs *k)
{
    return k->value[PUSH] == TAGGED && k->value[CHUNKS] == 1 && k->value[STRIPS] == 1 &&
           p->gather == SG_GATHER_A && p->type != SG_F32 && p->ranks > 1 && !p->call &&
           !p->return_a && p->m > 0 && p->n > 0 && p->k > 0 && p->k % 8 == 0 &&
           sg_chunk_k(p->k, k->value[SLABS]) % 8 == 0;
}

/* May gathers of so few rows come tagged, in tiles like TILE?  Bands that are not full lose (two
 * H100s, 3072x8192 in 128x64: 128 rows 36 us, 160 80, 192 72, 256 51), and so do very few rows (two
 * H200s, 16x5120x8192: 37.9 us, not overlapped 35.3) and a single band of low, wide tiles (64 rows
 * in 64x128: 9216x6144 50.8 us, not overlapped 41.6; 14336x4096 44.3 and 43.9). */
static bool suits_tags(const sg_problem *p, const sg_tile *tile)
{
    enum { MORE_THAN = 32, LOW = 64 };
    const double gathered = (double)p->m * (double)p->k * sg_type_bytes(p->type);
    const bool full =
        p->m % tile->m == 0 || (p->m < tile->m && (tile->m <= LOW || 2 * p->m > tile->m));
    const bool wide = p->m <= LOW && tile->m <= LOW && tile->n > LOW;
    return full && !wide && p->m > MORE_THAN && gathered <= most_tagged_bytes;
}

/* Columns of a tile of own rows that has its part of TILE_N; 0: all of it. */
static int32_t own_width(int ranks, int32_t tile_n)
{
    enum { STEP = 32 };
    const int64_t width = sg_round_up(sg_ceil_div(tile_n, sg_max(1, ranks - 1)), STEP);
    return width < tile_n ? (int32_t)width : 0;
}

/* Appends to N knob sets one with own rows as a wave of narrow tiles in front of one of the others'
 * (four H200s: 2048x2560x8192 133 us, 144 in two waves alike). */
static int propose_own_wave(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                            sg_knobs *sets, int n)
{
    enum { TALL = 128, WIDE = 256, OWN_N = 96 }; /* what has a kernel */
    enum { SPARE = 4 };                          /* blocks that carry */
    const int32_t own_n = own_width(p->ranks, tile->n);
    const int64_t own_bands = sg_ceil_div(sg_problem_part(p, 0, 0).rows, tile->m);
    int64_t bands = 0;
    for (int q = 1; q < p->ranks; q++) bands += sg_ceil_div(sg_problem_part(p, 0, q).rows, tile->m);
    const int64_t wide = bands * sg_ceil_div(p->n, tile->n);
    const int64_t narrow = own_bands * sg_ceil_div(p->n, sg_max(1, own_n));
    const bool waves = wide <= machine->sms - SPARE && 2 * wide > machine->sms && narrow <= wide;
    if (p->gather != SG_GATHER_A || p->ranks < 3 || p->b_count > 1 || p->call || p->k < 512 ||
        machine->pool > 0 || tile->m != TALL || tile->n != WIDE || own_n != OWN_N || !waves)
        return n;
    sets[n] = knobs_of(1, SLABS_TO_SEVERAL, tile, OWN_WAVE, 1);
    return n + 1;
}

/* The width of tiles of which those of BANDS make one wave and leave enough SMs over to push the
 * rows in time (two H200s, 1024x1536x8192: 62 us in 128x128, in 128x96 by storers 68, in eight
 * parts).  0: there is none, or it is among the proposals already. */
static int32_t carried_width(const sg_problem *p, const sg_machine *machine, int32_t height,
                             int64_t bands)
{
    enum { STEP = 32, WIDEST = 256, SPARE = 2 * FEW_IDLE };
    if (p->ranks != 2 || machine->courier_gbps <= 0 || machine->sms <= SPARE) return 0;
    const int64_t each = sg_ceil_div(p->n * bands, machine->sms - SPARE);
    const int64_t width = sg_round_up(each, STEP);
    for (int t = 0; t < shapes_for(p, machine); t++)
        if (machine->tile[t].m == height && machine->tile[t].n == width) return 0;
    return width <= WIDEST ? (int32_t)width : 0;
}

/* The least width of COLS or more that a kernel gathers tagged data in, by tiles of HEIGHT: low
 * ones have no 96, tall ones no 32 (src/kernel/instance_sm90.cuh). */
static int32_t tagged_width(int32_t height, int64_t cols)
{
    enum { STEP = 32, TALL = 128, TALL_HAS = 64, NOT_LOW = 96, WIDER = 128 };
    const int32_t width = (int32_t)sg_round_up(cols, STEP);
    if (height >= TALL) return width < TALL_HAS ? TALL_HAS : width;
    return width == NOT_LOW ? WIDER : width;
}

/* For a product of few rows: appends knob sets whose tiles are so narrow that every SM has one, or
 * all but those that push.  Two kinds: pushed rows, of which each owner's make tiles of their own,
 * and tagged rows, with k in a few parts (four H200s, 256x7168x8192: 68.0 us in four, 70.8 in two,
 * 74.2 in eight; not overlapped 82.9). */
static int propose_narrow(const sg_problem *p, const sg_machine *machine, double sent,
                          sg_knobs *sets, int n)
{
    enum { HEIGHTS = 2, TALL = 128, LEAST_TALL = 96 };
    int32_t height[HEIGHTS];
    const int heights = sg_tile_heights(machine, HEIGHTS, height);
    if (p->gather != SG_GATHER_A || p->ranks < 2 || machine->pool > 0 || p->call) return n;
    for (int h = 0; h < heights && n + 5 < SG_MAX_KNOB_SETS; h++) {
        int64_t bands = 0;
        for (int q = 0; q < p->ranks; q++)
            bands += sg_ceil_div(sg_problem_part(p, 0, q).rows, height[h]);
        const bool tall = height[h] >= TALL && 2 * p->most_rows > height[h];
        const int32_t width[] = {sg_narrow_tile(machine, height[h], p->n * bands),
                                 carried_width(p, machine, height[h], bands)};
        for (int w = 0; w < 2 && tall && sent <= most_pushed_bytes; w++) {
            const sg_tile tile = {.m = height[h], .n = width[w]};
            if (tile.n < LEAST_TALL || (w > 0 && tile.n == width[0])) continue;
            const int64_t tiles = bands * sg_ceil_div(p->n, tile.n);
            const int slabs = slabs_of(p, machine, tiles, true, false, sent);
            const int in_step = slabs_in_step(p, machine, tiles, slabs);
            if (in_step > 0) sets[n++] = knobs_of(1, in_step, &tile, IN_STEP, 1);
            if (in_step == 0 || leaves_many(machine, tiles))
                sets[n++] = knobs_of(1, slabs, &tile, ABREAST, 1);
        }
        const int64_t cols = sg_ceil_div(p->n * sg_ceil_div(p->m, height[h]), machine->sms);
        const sg_tile tile = {.m = height[h], .n = tagged_width(height[h], cols)};
        const sg_knobs tagged = knobs_of(1, parts_of(p, 1), &tile, TAGGED, 1);
        if (machine->tagged_us > 0 && tile.n <= MOST_TAGGED_COLS && suits_tags(p, &tile) &&
            may_be_tagged(p, &tagged))
            sets[n++] = tagged;
    }
    return n;
}

/* Of columns, whose product waits on its way.  In four chunks of rows, since the first wave waits
 * for as many as it has (two H200s, results/gpu/along_k_2xh200_v1.json: 4096x3072x4096 by engine
 * 162 us, in one chunk 184; 4096x14336x2048 pushed 358 and 390), or pushed in one, since a chunk of
 * little k leaves at its own cost (640x8704x1152 39 us, in one 30;
 * results/gpu/forms_2xh200_v3.json).  To several peers SMs without a tile send at the link's rate,
 * storers at half of it, which is worth more than how full waves are, so that more shapes are tried
 * (predicted, not measured: eight H100s, 8192x1024x2048 193 us and 117, four H200s, 4096x512x2048
 * 92 and 64). */
static int propose_along_k(const sg_problem *p, const sg_machine *machine, bool push,
                           sg_knobs *sets)
{
    enum { OF_ROWS = 4, SHAPES_TO_SEVERAL = 7 };
    const int most = p->ranks > 2 ? SHAPES_TO_SEVERAL : SHAPES;
    int n = 0;
    for (int t = 0; t < machine->tiles && t < most; t++) {
        for (int by = push; by >= 0; by--)
            sets[n++] = knobs_of(OF_ROWS, 1, &machine->tile[t], by, 1);
        if (push) sets[n++] = knobs_of(1, 1, &machine->tile[t], ABREAST, 1);
    }
    return n;
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!accepts(p, why)) return 0;
    const int64_t rows = p->most_rows;
    const double extent = (double)(p->gather == SG_GATHER_K ? p->m : p->k);
    const double sent = (p->ranks - 1.0) * (double)rows * extent * sg_type_bytes(p->type);
    const int push = sent <= most_pushed_bytes;
    const bool several = p->ranks > 2 && p->gather == SG_GATHER_A && p->k >= 512;
    int n = 0;
    if (p->gather == SG_GATHER_K) return propose_along_k(p, machine, push, sets);
    /* Of two that are alike, the first one is taken: that which takes no engine, and of several
     * waves in parts of k. */
    const int shapes = shapes_for(p, machine);
    for (int t = 0; t < shapes; t++) {
        const sg_tile tile = machine->tile[t];
        const int64_t tiles = sg_ceil_div(p->m, tile.m) * sg_problem_col_tiles(p, tile.n);
        const int64_t waves = sg_tile_waves(p, machine, &tile);
        const int strips = strips_of(p, &tile, waves);
        for (int by = push; by >= 0; by--) {
            const bool finest = by && waves > 1; /* comes first */
            const int slabs = slabs_of(p, machine, tiles, by, false, sent);
            const int thin =
                strips > 1 ? slabs_of(p, machine, tiles, by, true, sent) : 0; /* those of strips */
            const int in_step = by ? slabs_in_step(p, machine, tiles, slabs) : 0;
            const bool kept = in_step > 0 && !leaves_many(machine, tiles);
            if (thin > 1) sets[n++] = knobs_of(1, thin, &tile, by, strips);
            if (thin >= 1) sets[n++] = knobs_of(1, 1, &tile, by, strips);
            if (in_step > 0) sets[n++] = knobs_of(1, in_step, &tile, IN_STEP, 1);
            if (by && several && waves > 1 && waves <= FEW_WAVES)
                sets[n++] = knobs_of(1, SLABS_OF_FEW, &tile, PEER_BY_PEER, 1);
            for (int chunks = 1; chunks <= 4 && (chunks == 1 || chunks <= rows);
                 chunks *= 2 + 2 * by) {
                const int parts = by && chunks > 1 ? 1 : slabs;
                for (int i = 0; i < 1 + (parts > 1); i++) {
                    const int part = (i == 0) == finest ? parts : 1;
                    if (part == 1 || !kept) sets[n++] = knobs_of(chunks, part, &tile, by, 1);
                }
            }
        }
    }
    for (int t = 0; t < machine->tiles && push && n + 3 < SG_MAX_KNOB_SETS; t++)
        n = propose_own_wave(p, machine, &machine->tile[t], sets, n);
    return propose_narrow(p, machine, sent, sets, n);
}

/* All columns, or strip by strip.  The first is as wide as its own rows need to fill a wave. */
static void emit_strips(sg_sched *s, const sg_knobs *k, sg_gathering *gathering, const int *order)
{
    const sg_problem *const p = s->problem;
    const int strips = p->gather == SG_GATHER_A && !p->call ? k->value[STRIPS] : 1;
    const int64_t width = sg_round_up(sg_ceil_div(sg_max(p->n, 1), strips), k->value[TILE_N]);
    const int64_t first = k->value[SLABS] > 1 ? width : width * p->ranks;
    /* What never comes raises no flag. */
    const bool kept =
        k->value[SLABS] > 1 && p->ranks > 1 && sg_problem_part(p, order[0], order[1]).rows > 0;
    if (k->value[PUSH] == OWN_WAVE && !p->call)
        gathering->own_n = own_width(p->ranks, k->value[TILE_N]);
    for (int64_t col0 = 0; strips > 1 && col0 < p->n;) {
        gathering->in_step = (int16_t)(col0 == 0 && kept ? 1 + order[1] : 0);
        gathering->col0 = (int32_t)col0;
        gathering->cols = (int32_t)sg_min(col0 == 0 ? first : width, p->n - col0);
        sg_moves_gather_patches(s, gathering, order, p->ranks);
        col0 += gathering->cols;
    }
    if (strips > 1) return;
    gathering->in_step = (int16_t)(kept && k->value[PUSH] == IN_STEP ? 1 + order[1] : 0);
    sg_moves_gather_patches(s, gathering, order, p->ranks);
}

/* Of ROWS that arrive, or of as many columns, those that come together. */
static int32_t chunk_of(const sg_knobs *k, const sg_problem *p, int64_t rows)
{
    const int32_t tile = sg_tile_along(p, k->value[TILE_M], k->value[TILE_N]);
    if (p->gather == SG_GATHER_K) return (int32_t)sg_max(1, rows);
    return sg_chunk_rows(rows, k->value[CHUNKS], tile);
}

/* How long these are: of chunks of columns, the chunk is one of rows. */
static int32_t length_of(const sg_knobs *k, const sg_problem *p)
{
    if (p->gather == SG_GATHER_K) return sg_chunk_rows(p->m, k->value[CHUNKS], k->value[TILE_M]);
    return p->gather == SG_GATHER_A ? sg_chunk_k(p->k, k->value[SLABS]) : 0;
}

/* Own rows, as OWN says, to the others. */
static void send_own(sg_sched *s, const sg_knobs *k, int gathered, const sg_arrival *own)
{
    const sg_problem *const p = s->problem;
    const bool push = k->value[PUSH];
    sg_arrival sent[SG_MAX_RANKS];
    for (int peer = 0; peer < p->ranks; peer++) {
        sent[peer] = *own;
        sent[peer].chunk = chunk_of(k, p, sg_problem_part(p, peer, s->rank).rows);
        sent[peer].carrier = push ? SG_BY_LAUNCH : SG_BY_ENGINE;
    }
    const bool by_slabs = push && k->value[PUSH] != PEER_BY_PEER && own->chunk_k > 0;
    if (by_slabs || p->gather == SG_GATHER_K) {
        sg_moves_send_together(s, 1, gathered, sent);
        return;
    }
    for (int i = 1; i < p->ranks; i++) {
        const int peer = (s->rank - i + p->ranks) % p->ranks;
        sg_moves_send(s, 1, peer, gathered, &sent[peer]);
    }
}

/* Have all owners rows, and as many as make whole tiles? */
static bool has_whole_tiles(const sg_problem *p, int tile_m)
{
    bool whole = sg_moves_owns_runs(p);
    for (int q = 0; q < p->ranks; q++) {
        const int64_t rows = sg_problem_part(p, q, q).rows;
        whole &= rows > 0 && rows % tile_m == 0;
    }
    return whole;
}

static void build_tagged(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    sg_arrival arrival[SG_MAX_RANKS];
    sg_gathering gathering;
    int order[SG_MAX_RANKS];
    const bool whole = has_whole_tiles(p, k->value[TILE_M]);
    int count = 0;
    if (whole) order[count++] = rank;
    for (int i = 0; i < p->ranks; i++) /* as in the product */
        if (!whole || i != rank) order[count++] = i;
    sg_moves_tagged_gather(s, k->value[SLABS], !whole, arrival, &gathering);
    gathering.in_step = (int16_t)(1 + rank); /* B is read once */
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], 0, false);
    sg_moves_gather_patches(s, &gathering, order, p->ranks);
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    if (may_be_tagged(p, k)) {
        build_tagged(p, k, rank, s);
        return;
    }
    const bool push = k->value[PUSH];
    const int gathered = sg_moves_gathered(s, SG_SYM, push ? 0 : SG_FIXED);
    sg_arrival arrival[SG_MAX_RANKS];
    int order[SG_MAX_RANKS];
    /* Where nothing is multiplied there is no launch to carry anything. */
    const bool sends = !push || (p->m > 0 && p->n > 0);
    for (int i = 0; i < p->ranks; i++) {
        order[i] = (rank + i) % p->ranks;
        arrival[i] = (sg_arrival){.by = (int16_t)i,
                                  .chunk = chunk_of(k, p, sg_problem_part(p, rank, i).rows),
                                  .chunk_k = length_of(k, p)};
    }
    if (sends) send_own(s, k, gathered, &arrival[rank]);
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], 0, false);
    sg_gathering gathering = {.gathered = gathered, .arrival = arrival};
    if (p->gather == SG_GATHER_K)
        sg_moves_gather_product(s, &gathering, order, p->ranks);
    else
        emit_strips(s, k, &gathering, order);
}

const sg_strategy sg_strategy_fused_in = {
    .name = "fused_in",
    .brief = "tiles wait for the chunks of A that they read (FLUX, gather)",
    .knob = {[CHUNKS] = {"chunks", 1, 64},
             [SLABS] = {"slabs", 1, 64},
             [TILE_M] = {"tile_m", 1, 4096},
             [TILE_N] = {"tile_n", 1, 4096},
             [PUSH] = {"push", 0, OWN_WAVE},
             [STRIPS] = {"strips", 1, MOST_STRIPS}},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
