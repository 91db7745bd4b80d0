/* fused_out.c -- FLUX's scatter (arXiv 2406.06858, section 3.1): the product stores each tile
 * straight to its owner, and the owner's last tiles add what has arrived.
 *
 *     lane 0:  rows of r+1 -> r+1 | rows of r+2 -> r+2 | ... | own rows + inboxes -> C
 *
 * One launch, no copies, no separate reduction.  A tile raises one flag at its owner; the owner
 * adds the tiles of ranks 0..P-1 in this order, its own product in its place.  Ranks start with
 * different owners, so no link carries two ranks' tiles at once.  Where the link is slower than the
 * product, own rows come in slices between those that leave, and not when all has left.
 *
 * All-reduce: the finished tile is stored on every rank.  With `subs` slices of every owner's rows
 * finished one after the other (own rows `lag` slices behind) these stores travel under the rest of
 * the product; only the last slice's are exposed.  All-to-all: no sum, tiles go into the output.
 *
 *     once     lane 0:  a slice of all rows -> everybody | the slice `lag` before: inboxes -> C | ...
 *
 * An all-reduce at `once`: every tile goes to all ranks, each of which adds up all of them, in rank
 * order, so that all get the same bits.  One hop instead of two, and nobody stores into another's
 * C; but P / 2 times the bytes, and every rank does all the sums: for small products of few ranks.
 *
 *     tagged   lane 0:  all rows -> places of everybody, at rest before | places of all ranks -> C
 *
 * What travels tells by itself that it has come: no acknowledgement, no flag behind it, no tile of
 * its own for the sum.  In two hops ranks own columns of tiles (moves_tagged.c).  A scatter's go to
 * the owner of their rows.
 *
 *     strips   lane 0:  first columns: rows of r+1 -> r+1, ..., own rows -> r | next columns: ... |
 *                       inboxes -> C
 *
 * Owner by owner, all of B is read for each of them, if no cache holds it.  In strips of columns,
 * each a wave of everybody's rows, it is read once.  Own tiles would wait for what the others just
 * multiply: so they go to an inbox, too, and all is added up at the end.  A call makes whole rows.
 *
 *     strips   lane 0:  strip 1: rows of r+1 -> r+1, ... | strip 2: rows of r+1 -> r+1, ... |
 *     and lag           own rows of strip 1 + inboxes -> C | strip 3: ... | own rows of strip 2 ...
 *
 * With a lag, own rows come `lag` strips behind and add what has arrived meanwhile: only the last
 * strip's stores are exposed.  Slices do the same, but read all of B each, strips twice at most.
 *
 *     strips   lane 0:  strip 1: rows of r+1 -> r+1, ..., own rows + inboxes -> C | strip 2: ...
 *     and once
 *
 * Own tiles of a scatter may wait in their strip all the same, where warpgroups have a tile each:
 * one multiplies the next strip's meanwhile.  Two waves then are two strips, and nothing is added
 * up at the end.
 *
 *     strips=0 lane 0:  columns of r+1 -> r+1 | columns of r+2 -> r+2 | ... | own columns + inboxes -> C
 *
 * No strips: owners of an all-reduce have columns instead of rows (split_columns.c).  All rows meet
 * a column of B at the same time, and it is read once, A for each owner; in slices of all rows, own
 * columns `lag` slices behind, once in each.
 *
 * `splits` parts of k (split.h) fill the SMs that few tiles leave idle. */
#include "core/split.h"
#include "core/strategy.h"
#include "core/tiles.h"

enum { SUBS, LAG, TILE_M, TILE_N, ONCE, SPLITS, STRIPS, TAGGED };

/* Of a rank's tiles, as it sends them to all others at once; beyond, two hops are faster. */
static const double most_once_bytes = 64e6;

/* Columns of a tile of tagged data: no kernel keeps more in its registers until they are stored,
 * the latter in tall tiles for owners (src/kernel/instance_sm90.cuh). */
enum { MOST_TAGGED_COLS = 128, MOST_TAGGED_TALL = 192, TALL = 128, LEAST_TALL = 64 };

/* The same of tagged data, summed when all is sent: up to 512 rows of 16384 columns in two hops of
 * four ranks; and at once where two hops are possible, which pay sooner here. */
static const double most_tagged_bytes = 26e6, most_tagged_once_bytes = 8e6;

/* A slice reads all of B: where no cache holds that, the memory takes longer for it than the
 * products of a low slice (measured: 17 to 40 % of the run in slices of one band).  More slices
 * than waves are no sooner on their way, and wait for more (two H200s: 4096x4096x2048, four waves,
 * 131 us in 4 and 144 in 8; 1536 rows, three, 65 whole and 72 in 6). */
enum { LEAST_BANDS = 4, MOST_SUBS = 8 };

/* Of a product of few waves, more shapes of tiles are worth trying: where waves end shows. */
enum { FEW_WAVES = 4, LOW_BANDS = 8, OWNED_BANDS = 2, MOST_STRIPS = 64 };

/* Strips that own rows follow: fewer end in more that is exposed, more read rows of A more often.
 * On four H200s eight of a wave or less cost up to 20 % more than four, and 8192 rows and more, of
 * which little is exposed, up to 8 % more than whole ones. */
enum { MOST_LAGGING = 4, LAGGING_WAVES = 6 };

/* Slices of what leaves rank by rank.  Over a slow link (results/gpu/alone_h200_v4.json) 4 waves
 * took 547 us whole, 493 in 4 slices, 459 in 8, 450 in 16; over none two bands take 4 to 14 %
 * longer than whole rows, four 2 to 4 %, 4 slices of owned columns 0 to 4 (plan_h200_v1.json). */
enum { SLICES_OF_WAVE = 2, SLICE_BANDS = 2, MOST_OF_COLUMNS = 4 };

/* Tiles that deal the columns of few rows to all SMs: the most bands, heights tried. */
enum { NARROW_BANDS = 2, HEIGHTS = 2 };

/* Has the knob a meaning with the others? */
static bool may_be_tagged(const sg_problem *p, const sg_knobs *knobs)
{
    const int32_t *const k = knobs->value;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    if (!all && (sg_problem_out(p) != SG_OUT_SCATTER || !sg_moves_owns_runs(p))) return false;
    return p->k > 0 && !p->call && k[SUBS] == 1 && k[LAG] == 0 && k[SPLITS] == 1 &&
           ((all && k[ONCE]) || (k[STRIPS] == 1 && p->ranks > 1));
}

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (sg_problem_out(p) == SG_OUT_NONE) return sg_decline(why, "no rows of C leave");
    return sg_accepts_moves(p, why);
}

/* Knobs of one slice, one strip and whole k, in two hops, in tiles of M x N. */
static sg_knobs whole(int32_t m, int32_t n)
{
    return (sg_knobs){{[SUBS] = 1, [TILE_M] = m, [TILE_N] = n, [SPLITS] = 1, [STRIPS] = 1}};
}

/* The same of owners of columns, in SLICES of all rows and PARTS of k. */
static sg_knobs owned_columns(const sg_tile *tile, int slices, int parts)
{
    return (sg_knobs){{[SUBS] = slices, [TILE_M] = tile->m, [TILE_N] = tile->n, [SPLITS] = parts}};
}

/* Appends knobs with k whole or, with CUT, in as many parts as fill the SMs with the tiles of all
 * slices.  More parts, which fill them with the tiles of one slice, would send it sooner; but each
 * wave would read all of B for a slice's rows alone, and that has cost more than it hid. */
static int propose_parts(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                         int subs, bool once, bool cut, sg_knobs *sets)
{
    const int64_t slices = sg_min(p->m, once ? subs : (int64_t)subs * p->ranks);
    const int64_t bands = slices * sg_ceil_div(sg_ceil_div(p->m, sg_max(1, slices)), tile->m);
    const int64_t tiles = bands * sg_ceil_div(p->n, tile->n);
    const int parts = p->call || !cut ? 1 : sg_split_parts(tiles, p->k, machine->sms);
    if (cut && parts == 1) return 0;
    sets[0] = whole(tile->m, tile->n);
    sets[0].value[SUBS] = subs;
    sets[0].value[LAG] = subs > 1;
    sets[0].value[ONCE] = once;
    sets[0].value[SPLITS] = parts;
    return 1;
}

/* Appends knobs for a B that no cache holds.  For few bands, of all or of an owner, or A is read as
 * often: strips of a wave or more, the more of which there are, the more is added up at the end,
 * unless columns may be OWNED by several ranks (four H200s: 512x8192x7168 119 us so, 122 in strips,
 * 512x12288x12288 246, 262; four H100s: 127, 136).  For sums of a few waves that all get: strips
 * that own rows follow.  Workers take what comes. */
static int propose_strips(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                          bool owned, sg_knobs *sets)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL && machine->pool == 0;
    const int64_t bands = sg_ceil_div(p->m, tile->m), waves = sg_tile_waves(p, machine, tile);
    const bool low = sg_ceil_div(p->most_rows, tile->m) <= OWNED_BANDS;
    int n = 0;
    if (p->call) return 0;
    if (waves > 1 && !(owned && p->ranks > 2) &&
        (low || (bands <= LOW_BANDS && waves <= FEW_WAVES))) {
        sets[n] = whole(tile->m, tile->n);
        sets[n++].value[STRIPS] = (int32_t)sg_min(waves, FEW_WAVES);
    }
    if (all && waves > 1 && waves <= LAGGING_WAVES) {
        sets[n] = whole(tile->m, tile->n);
        sets[n].value[LAG] = 1;
        sets[n++].value[STRIPS] = (int32_t)sg_min(waves, MOST_LAGGING);
    }
    return n;
}

/* Appends knobs of a scatter of two waves, in ping-pong tiles, whose own tiles are
 * added at once: B is read once, where it would be for others' rows and again for own ones.  (Two
 * H100s: 512x8192x4096 66.7 us whole, 63.6 so, 72.3 summed at the end; 512x12288x24576 469, 424,
 * 431; four waves, 1024x8192x14336, 326 whole and 351.) */
static int propose_at_once(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                           sg_knobs *sets)
{
    const double b_bytes = (double)p->n * (double)p->k * sg_type_bytes(p->type);
    const bool anew = b_bytes >= 2 * sg_machine_cached_bytes(machine);
    const bool low = sg_ceil_div(p->most_rows, tile->m) <= OWNED_BANDS;
    /* Clusters take two tiles, and what they cannot take is not ping-pong: own tiles block SMs. */
    const bool pairs = sg_ceil_div(p->n, tile->n) % 4 == 0;
    if (p->call || machine->pool > 0 || sg_problem_out(p) != SG_OUT_SCATTER || !anew || !low ||
        !pairs || sg_tile_waves(p, machine, tile) != 2 || !sg_tile_pingpong(tile))
        return 0;
    sets[0] = whole(tile->m, tile->n);
    sets[0].value[ONCE] = 1;
    sets[0].value[STRIPS] = 2;
    return 1;
}

/* Appends knobs for a link that takes longer to carry tiles, or sums that all get, than it takes to
 * multiply them.  The rank's own come last, when nothing travels any more: in slices, of rows or,
 * where nothing is summed, of columns, they come in between. */
static int propose_slices(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                          sg_knobs *sets)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL, sums = sg_problem_sums(p);
    const double bytes = (double)p->m * (double)p->n * sg_type_bytes(p->type);
    const int64_t waves = sg_tile_waves(p, machine, tile), rows = all ? p->m : p->most_rows;
    const int64_t most = sums ? rows / (SLICE_BANDS * tile->m) : sg_ceil_div(p->n, tile->n);
    const int slices =
        (int)sg_min(sg_min(most, SLICES_OF_WAVE * waves), all ? MOST_OF_COLUMNS : MOST_SUBS);
    const double sent_us = bytes * (all ? p->ranks - 1 : 1) / (machine->store_gbps * 1e3);
    if (p->call || machine->pool > 0 || waves < 2 || slices < 2) return 0;
    if (sent_us <= (double)waves * sg_tile_us(p, machine, tile)) return 0;
    sets[0] = all ? owned_columns(tile, slices, 1) : whole(tile->m, tile->n);
    sets[0].value[sums ? SUBS : STRIPS] = slices;
    sets[0].value[LAG] = sums && !all;
    return 1;
}

/* Appends knobs with tiles so narrow that a product of few rows has one of HEIGHT for every SM:
 * reading B takes all SMs, none reads what others do, and no sum is handed on. */
static int propose_narrow(const sg_problem *p, const sg_machine *machine, int32_t height, bool once,
                          sg_knobs *sets)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL, low = !once && p->m <= height;
    /* Rows of all owners that fit a tile are one tile's of tagged data. */
    const int64_t slices = once || low ? 1 : sg_min(p->m, p->ranks);
    const int64_t bands = slices * sg_ceil_div(sg_ceil_div(p->m, sg_max(1, slices)), height);
    /* A pool's workers take what comes, and calls are tall. */
    if (machine->pool > 0 || p->call || bands > NARROW_BANDS) return 0;
    int32_t width = sg_narrow_tile(machine, height, p->n * bands);
    if (width > 0 && height >= TALL && width < LEAST_TALL) width = LEAST_TALL;
    if (width == 0 || (all && low)) return 0;
    /* Two bands read what one tall tile of the same rows reads once (two H200s, 96 and 128 rows
     * all-reduced: in 64x96 2 to 34 % slower than in 128x64, five of five;
     * results/gpu/alternatives_2xh200_v1.json, unseen_2xh200_v1.json). */
    if (height < TALL && slices == 1 && bands > 1 && width > LEAST_TALL) return 0;
    sets[0] = whole(height, width);
    sets[0].value[ONCE] = once;
    return 1;
}

/* The same of all heights that are tried, in two hops or at once. */
static int propose_dealt(const sg_problem *p, const sg_machine *machine, bool at_once,
                         sg_knobs *sets)
{
    int32_t height[HEIGHTS];
    const int heights = sg_tile_heights(machine, HEIGHTS, height);
    int n = 0;
    for (int h = 0; h < heights; h++)
        for (int once = 0; once <= (int)at_once; once++)
            n += propose_narrow(p, machine, height[h], once, &sets[n]);
    return n;
}

/* Do narrow tiles of HEIGHT rows, at once, leave no SMs for parts of k, 2 to 15 % slower? */
static bool is_dealt(const sg_problem *p, const sg_machine *machine, int32_t height)
{
    sg_knobs narrow;
    if (propose_narrow(p, machine, height, true, &narrow) == 0) return false;
    const int64_t bands = sg_ceil_div(p->m, height);
    const int64_t tiles = bands * sg_ceil_div(p->n, narrow.value[TILE_N]);
    return sg_split_parts(tiles, p->k, machine->sms) == 1;
}

/* May tagged data be of tiles as in K?  It is stored beside no product: one wave is best; owners of
 * several ranks save so much that there may be two, the last as good as full.  On four H200s
 * 512x8192x2048: 65 us in 256 tiles, 74 in 172, else 75, scattered 44 in 256, 61 in 172, else 49;
 * 512x12288x12288: 270 in 384, else 259.  With a B that is read anew owners of columns do without:
 * 512x8192x7168 124 us, else 117. */
static bool suits_tags(const sg_problem *p, const sg_machine *machine, const int32_t *k, bool once)
{
    const double b_bytes = (double)p->n * (double)p->k * sg_type_bytes(p->type);
    const int64_t sms = machine->sms;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int64_t bands = all || p->m <= k[TILE_M]
                              ? sg_ceil_div(p->m, k[TILE_M])
                              : sg_min(p->m, p->ranks) * sg_ceil_div(p->most_rows, k[TILE_M]);
    const int64_t tiles = bands * sg_ceil_div(p->n, k[TILE_N]);
    const bool tall = !once && k[TILE_M] >= TALL;
    if (k[TILE_N] > (tall ? MOST_TAGGED_TALL : MOST_TAGGED_COLS)) return false;
    const bool two = !once && p->ranks > 2 && tiles <= 2 * sms &&
                     (!all || b_bytes < 2 * sg_machine_cached_bytes(machine));
    return tiles <= sms || (two && 4 * tiles >= 3 * sg_round_up(tiles, sms));
}

/* Appends those of N knob sets that may be tagged once more, tagged, where a machine says what that
 * is worth: sums that all get in two hops, which send P / 2 times less, and in one. */
static int propose_tagged(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, int n)
{
    const bool sums_to_all = sg_problem_out(p) == SG_OUT_ALL;
    const double all = (double)p->m * (double)p->n * sg_type_bytes(p->type) * (p->ranks - 1.0);
    const double to_owners = (sums_to_all ? 2 : 1) * all / p->ranks;
    const bool owners = p->ranks > 1 && (!sums_to_all || machine->hop_us > 0);
    const double most_once = owners ? most_tagged_once_bytes : most_tagged_bytes;
    int count = n;
    for (int i = 0; i < n && machine->tagged_us > 0 && machine->pool == 0; i++) {
        if (sets[i].value[ONCE] != (int)sums_to_all || !may_be_tagged(p, &sets[i])) continue;
        for (int once = owners ? 0 : 1; once <= (int)sums_to_all && count < SG_MAX_KNOB_SETS;
             once++) {
            if (once ? all > most_once : to_owners > most_tagged_bytes) continue;
            if (!suits_tags(p, machine, sets[i].value, once)) continue;
            sets[count] = sets[i];
            sets[count].value[ONCE] = once;
            sets[count++].value[TAGGED] = 1;
        }
    }
    return count;
}

/* Is a scatter better tagged, in one of SHAPES, than in strips?  Of a B that nearly fits a cache
 * these save little, and add up at the end (four H100s: 512x8192x2048 55 us in two strips, tagged
 * 50; results/gpu/table_4xh100_v3.json). */
static bool rather_tagged(const sg_problem *p, const sg_machine *machine, int shapes)
{
    const double b_bytes = (double)p->n * (double)p->k * sg_type_bytes(p->type);
    sg_knobs sets[SG_MAX_KNOB_SETS] = {0};
    for (int i = 0; i < shapes; i++) sets[i] = whole(machine->tile[i].m, machine->tile[i].n);
    return sg_problem_out(p) == SG_OUT_SCATTER && b_bytes < 2 * sg_machine_cached_bytes(machine) &&
           propose_tagged(p, machine, sets, shapes) > shapes;
}

/* Appends knobs with k whole that read a B that no cache holds once, own rows or columns beside the
 * others'. */
static int propose_reading_once(const sg_problem *p, const sg_machine *machine, int shapes,
                                sg_knobs *sets)
{
    int n = 0;
    for (int i = 0; i < shapes; i++) {
        const sg_tile *const tile = &machine->tile[i];
        n += propose_at_once(p, machine, tile, &sets[n]);
        if (sg_column_parts(p, machine, tile, false, false) > 0)
            sets[n++] = owned_columns(tile, 1, 1);
    }
    return n;
}

/* Of those that are predicted alike the first is taken.  What reads B once stands in front, where
 * no cache holds it, being faster than predicted (two H200s, 512x8192x14336 scattered: 178 us in
 * two strips at once, 185 whole, either predicted at 180).  Then simpler ones: with k whole before
 * those with parts of it, and narrow tiles, which are for the same as parts, in front of both but
 * for the first; tagged ones come last. */
static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!accepts(p, why)) return 0;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const double sent = (p->ranks - 1.0) * (double)p->m * (double)p->n * sg_type_bytes(p->type);
    const double b_bytes = (double)p->n * (double)p->k * sg_type_bytes(p->type);
    const bool held = b_bytes <= sg_machine_cached_bytes(machine);
    const int most = sg_tile_waves(p, machine, &machine->tile[0]) <= FEW_WAVES ? 3 : 2;
    const int shapes = machine->tiles < most ? machine->tiles : most;
    const bool at_once = all && sent <= most_once_bytes;
    const bool tagged = rather_tagged(p, machine, shapes);
    int n = held ? 0 : propose_reading_once(p, machine, shapes, sets);
    for (int i = 0; i < 2 * shapes; i++) {
        const bool cut = i >= shapes;
        const sg_tile *const tile = &machine->tile[i % shapes];
        if (cut && at_once && is_dealt(p, machine, tile->m)) continue;
        n += propose_parts(p, machine, tile, 1, false, cut, &sets[n]);
        if (i == 0) n += propose_dealt(p, machine, at_once, &sets[n]);
        const int parts = sg_column_parts(p, machine, tile, held, cut);
        if (parts > 0 && (cut || held)) sets[n++] = owned_columns(tile, 1, parts);
        if (!cut && !held && !tagged) n += propose_strips(p, machine, tile, parts > 0, &sets[n]);
        if (!cut) n += propose_slices(p, machine, tile, &sets[n]);
        const int64_t low = sg_ceil_div(p->most_rows, tile->m) / (held ? 1 : LEAST_BANDS);
        const int64_t slices =
            machine->pool > 0 ? low : sg_min(low, sg_tile_waves(p, machine, tile));
        const int subs = all ? (int)sg_min(slices, MOST_SUBS) : 1;
        if (subs > 1) n += propose_parts(p, machine, tile, subs, false, cut, &sets[n]);
        if (subs == MOST_SUBS && i == 0) /* fewer may fill their waves better */
            n += propose_parts(p, machine, tile, subs / 2, false, cut, &sets[n]);
        if (at_once) n += propose_parts(p, machine, tile, 1, true, cut, &sets[n]);
    }
    return propose_tagged(p, machine, sets, n);
}

/* What all slices of a build need. */
typedef struct building {
    const sg_problem *problem;
    const sg_knobs *knobs;
    sg_sched *sched;
    sg_split_k split;
    int inbox;
    bool lags; /* own rows follow strip by strip, at once or some strips behind */
} building;

/* Strips of columns; the last ones may be empty. */
static int strips_of(const building *b)
{
    return b->problem->call ? 1 : (int)sg_max(1, b->knobs->value[STRIPS]);
}

/* Moves on to strip T of the columns.  False: there is nothing of it. */
static bool take_strip(building *b, int t)
{
    const int64_t n = b->problem->n;
    const int strips = strips_of(b);
    if (strips == 1) return true;
    const int64_t width = sg_round_up(sg_max(1, sg_ceil_div(n, strips)), b->knobs->value[TILE_N]);
    if (t * width >= n) return false;
    b->split.col0 = (int32_t)(t * width);
    b->split.cols = (int32_t)sg_min(n - t * width, width);
    return true;
}

/* Columns at hand of ROWS rows from ROW0 on of BUF at rank AT. */
static sg_area strip_of(const building *b, int at, int buf, int64_t row0, int64_t rows)
{
    const int32_t cols = b->split.cols > 0 ? b->split.cols : (int32_t)b->problem->n;
    return sg_area_of(at, buf, row0, rows, b->split.col0, cols);
}

/* Where the product of rank FROM arrives at PIECE's owner. */
static sg_area inbox_of(const building *b, int from, const sg_piece *piece)
{
    const int64_t row = from * b->problem->most_rows + piece->own_row;
    return strip_of(b, piece->owner, b->inbox, row, piece->rows);
}

/* Adds, in rank order, what all have sent; PARTS: the own product comes from the patch itself. */
static void add_all(building *b, const sg_piece *piece, int32_t flag0, bool parts)
{
    for (int from = 0; from < b->problem->ranks; from++) {
        const sg_wait wait = sg_wait_tile(from, flag0);
        if (parts && from == b->sched->rank)
            sg_split_add(b->sched, &b->split);
        else
            sg_sched_add(b->sched, inbox_of(b, from, piece), &wait);
    }
}

/* A finished piece of the own rows: to C, of everybody in an all-reduce. */
static void store_sum(building *b, const sg_piece *piece)
{
    const sg_problem *const p = b->problem;
    sg_sched *const s = b->sched;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int32_t to = all ? piece->row0 : piece->own_row;
    sg_sched_to(s, strip_of(b, s->rank, SG_C, to, piece->rows));
    for (int i = 1; i < p->ranks && all; i++) {
        const int peer = (s->rank + i) % p->ranks;
        sg_sched_to(s, strip_of(b, peer, SG_C, to, piece->rows));
        sg_sched_raise(s, peer, SG_PER_PATCH, SG_FLAG_DONE);
    }
}

/* A slice goes to its owner's inbox, or is added to what others have sent, or all have sent. */
typedef enum form { SENT, ADDED, SUMMED } form;

/* Emits slice C of Q's rows, of the columns at hand; FLAG0, its first tile flag, moves on. */
static void emit_slice(building *b, int q, int c, form how, int32_t *flag0)
{
    const int32_t *const k = b->knobs->value;
    sg_sched *const s = b->sched;
    int32_t x0 = 0;
    const int32_t rows = sg_slice_rows(b->problem, s->rank, q, c, k[SUBS], k[TILE_M], &x0);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(b->problem, s->rank, q, x0, x0 + rows);
         sg_piece_next(&it, &piece);) {
        if (how == SENT) {
            sg_split_patch(s, &b->split, &piece, 0, false);
            sg_split_add(s, &b->split);
            sg_sched_to(s, inbox_of(b, s->rank, &piece));
            sg_sched_raise(s, q, SG_PER_TILE, *flag0);
        } else if (how == ADDED) {
            sg_split_patch(s, &b->split, &piece, s->rank, true);
            add_all(b, &piece, *flag0, true);
            store_sum(b, &piece);
        } else {
            sg_patch patch = sg_moves_patch(s, &piece, true);
            if (b->split.cols > 0) sg_moves_cut_cols(&patch, b->split.col0, b->split.cols);
            patch.k1 = patch.k0;
            sg_sched_patch(s, &patch);
            add_all(b, &piece, *flag0, false);
            store_sum(b, &piece);
        }
        *flag0 += sg_split_tiles(s, &b->split, &piece);
    }
}

/* The rows of Q, of the columns at hand. */
static void exchange_with(building *b, int q)
{
    sg_sched *const s = b->sched;
    const sg_part part = sg_problem_part(b->problem, s->rank, q);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(b->problem, s->rank, q, 0, part.rows);
         sg_piece_next(&it, &piece);) {
        sg_split_patch(s, &b->split, &piece, 0, true);
        sg_split_add(s, &b->split);
        sg_sched_to(s, strip_of(b, q, SG_C, part.held + piece.own_row, piece.rows));
        if (q != s->rank) sg_sched_raise(s, q, SG_PER_PATCH, SG_FLAG_DONE);
    }
}

/* All-to-all: every tile goes to its place in its owner's output. */
static void build_exchange(building *b)
{
    const sg_problem *const p = b->problem;
    sg_sched *const s = b->sched;
    /* Shared by all, so that a rank without any rows says hello and done too. */
    sg_sched_buf(s, SG_SYM, "none", 0, 0, 0);
    sg_sched_launch(s, 0, b->knobs->value[TILE_M], b->knobs->value[TILE_N], 0, false);
    for (int t = 0; t < strips_of(b) && take_strip(b, t); t++)
        for (int i = 1; i <= p->ranks; i++) exchange_with(b, (s->rank + i) % p->ranks);
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++)
        if (q != s->rank && sg_problem_part(p, q, s->rank).rows > 0)
            sg_sched_wait(s, sg_wait_one(q, SG_FLAG_DONE));
}

/* ---- Any ------------------------------------------------------------------------------------- */

/* Sends stage C, from the tile flags FLAG0 of each owner on: a slice of rows, strip by strip, or a
 * strip.  Own tiles travel, too, if they are added up behind all strips. */
static void send_stage(building *b, int c, int32_t *flag0)
{
    const int ranks = b->problem->ranks;
    const int strips = strips_of(b);
    const int owners = strips > 1 && !b->lags ? ranks : ranks - 1;
    const int end = b->lags ? c + 1 : strips;
    for (int t = b->lags ? c : 0; t < end && take_strip(b, t); t++)
        for (int i = 1; i <= owners; i++) {
            const int q = (b->sched->rank + i) % ranks;
            emit_slice(b, q, b->lags ? 0 : c, SENT, &flag0[q]);
        }
}

/* Finishes stage C of the own rows. */
static void add_stage(building *b, int c, int32_t *flag0)
{
    const int strips = strips_of(b);
    const form how = strips > 1 && !b->lags ? SUMMED : ADDED;
    const int end = b->lags ? c + 1 : strips;
    for (int t = b->lags ? c : 0; t < end && take_strip(b, t); t++)
        emit_slice(b, b->sched->rank, b->lags ? 0 : c, how, flag0);
}

static void build_sums(building *b)
{
    const sg_problem *const p = b->problem;
    const int32_t *const k = b->knobs->value;
    sg_sched *const s = b->sched;
    const int stages = b->lags ? strips_of(b) : k[SUBS];
    int32_t flag0[SG_MAX_RANKS]; /* next tile flag at each owner */
    int32_t added = SG_FLAG_TILES;
    for (int q = 0; q < p->ranks; q++) flag0[q] = SG_FLAG_TILES;
    b->inbox = sg_sched_buf(s, SG_SYM, "inbox", p->ranks * p->most_rows, p->n, 0);
    sg_sched_launch(s, 0, k[TILE_M], k[TILE_N], 0, false);
    for (int c = 0; c < stages + k[LAG]; c++) {
        if (c < stages) send_stage(b, c, flag0);
        if (c >= k[LAG]) add_stage(b, c - k[LAG], &added);
    }
    if (sg_problem_out(p) != SG_OUT_ALL) return;
    sg_sched_flag(s, 0);
    for (int q = 0; q < p->ranks && p->n > 0; q++)
        if (q != s->rank && p->share[q].rows > 0) sg_sched_wait(s, sg_wait_one(q, SG_FLAG_DONE));
}

/* Own flags are those of parts of k, behind those of tiles that a rank sends to itself. */
static int32_t first_part_flag(const building *b)
{
    const int32_t *const k = b->knobs->value;
    const sg_tiling tiling = {k[TILE_M], k[TILE_N], 0};
    if (strips_of(b) == 1 || b->lags || sg_problem_out(b->problem) == SG_OUT_EXCHANGE) return 0;
    int64_t flags = SG_FLAG_TILES;
    for (int c = 0; c < k[SUBS]; c++) {
        int32_t x0 = 0;
        const int rank = b->sched->rank;
        const int32_t rows = sg_slice_rows(b->problem, rank, rank, c, k[SUBS], k[TILE_M], &x0);
        sg_piece piece;
        for (sg_pieces it = sg_pieces_of(b->problem, rank, rank, x0, x0 + rows);
             sg_piece_next(&it, &piece);)
            flags += sg_piece_tiles(b->sched, &piece, &tiling);
    }
    return (int32_t)sg_min(flags, SG_MAX_VISITS);
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL, once = all && k->value[ONCE];
    const bool at_once = sg_problem_out(p) == SG_OUT_SCATTER && k->value[ONCE];
    const bool columns = all && !once && k->value[STRIPS] == 0 && !p->call;
    building b = {.problem = p, .knobs = k, .sched = s};
    (void)rank;
    b.lags = strips_of(&b) > 1 && k->value[SUBS] == 1 && (k->value[LAG] > 0 || at_once);
    const sg_tiling tiling = {k->value[TILE_M], k->value[TILE_N], 0};
    if (!once && !columns)
        b.split = sg_split_begin(s, k->value[SPLITS], tiling, first_part_flag(&b));
    const bool tagged = k->value[TAGGED] && may_be_tagged(p, k);
    if (tagged && !once)
        (all ? sg_moves_two_hops : sg_moves_tagged_scatter)(s, tiling.tile_m, tiling.tile_n);
    else if (sg_problem_out(p) == SG_OUT_EXCHANGE)
        build_exchange(&b);
    else if (once)
        sg_split_once(s, tiling, k->value[SPLITS], k->value[SUBS], k->value[LAG], tagged);
    else if (columns)
        sg_split_columns(s, tiling, k->value[SPLITS], k->value[SUBS], k->value[LAG]);
    else
        build_sums(&b);
}

const sg_strategy sg_strategy_fused_out = {
    .name = "fused_out",
    .brief = "tiles go straight to their owner, who adds them in its own (FLUX, scatter)",
    .knob = {"subs", "lag", "tile_m", "tile_n", "once", "splits", "strips", "tagged"},
    .least = {1, 0, 1, 1, 0, 1, 0, 0},
    .most = {64, 8, 4096, 4096, 1, 16, MOST_STRIPS, 1},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
