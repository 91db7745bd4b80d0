/* fused_out_sets.c -- which knobs of fused_out are worth trying for a problem on a machine, and
 * what has shown it; fused_out.c says what they mean. */
#include "strategy/fused_out.h"

#include "core/split.h"
#include "core/tiles.h"

/* Of a rank's tiles, as it sends them to all others at once; beyond, two hops are faster. */
static const double most_once_bytes = 64e6;

/* Columns of a tile of tagged data: no kernel keeps more in its registers until they are stored,
 * the latter in tall tiles for owners (src/kernel/instance_sm90.cuh). */
enum { MOST_TAGGED_COLS = 128, MOST_TAGGED_TALL = 192, TALL = 128, LEAST_TALL = 64 };

/* The same of tagged data, summed when all is sent: up to 512 rows of 16384 columns in two hops of
 * four ranks; and at once where two hops are possible, which pay sooner here. */
static const double most_tagged_bytes = 26e6, most_tagged_once_bytes = 8e6;

/* A slice reads all of B: where no cache holds that, the memory takes longer for it than the
 * products of a low slice (measured: 17 to 40 % of the run in slices of one band). */
enum { LEAST_BANDS = 4, MOST_SUBS = 8 };

/* Of an all-reduce a slice is a wave at least, or FULL percent of it, and two where own tiles
 * follow at once.  Those of a smaller one wait for what peers multiply in the same wave, and blocks
 * that wait are late for every wave behind it, which no prediction knows (two H200s:
 * 4096x4096x2048, four waves, 131 us in 4 slices and 144 in 8; 1000 rows, two, 48 in 2 and 58 in 4;
 * 1536 rows, three, 65 whole and 72 in 6; 2048x1728x576 with gelu, 1.7, by columns 39 whole and 47
 * in 4; four: 1024x8192x2048, 3.9, by columns 99 whole and 115 in 4).  Own rows behind two halves
 * wait no longer than behind the whole. */
enum { FULL = 95, HALVES = 2 };

/* Of a product of few waves, more shapes of tiles are worth trying: where waves end shows. */
enum { FEW_WAVES = 4, LOW_BANDS = 8, OWNED_BANDS = 2 };

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

/* Whole waves of TILEs, see FULL. */
static int64_t full_waves(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const int64_t tiles = sg_ceil_div(p->m, tile->m) * sg_problem_col_tiles(p, tile->n);
    return 100 * tiles / ((int64_t)FULL * machine->sms);
}

/* The most slices of an all-reduce with own rows one slice behind.  Workers take what comes. */
static int64_t most_in_turn(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const int64_t slices = sg_max(HALVES, full_waves(p, machine, tile));
    return machine->pool > 0 ? MOST_SUBS : sg_min(slices, sg_tile_waves(p, machine, tile));
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
    const int64_t of_waves = all ? full_waves(p, machine, tile) / 2 : SLICES_OF_WAVE * waves;
    const int slices = (int)sg_min(sg_min(most, of_waves), all ? MOST_OF_COLUMNS : MOST_SUBS);
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
        if (sets[i].value[ONCE] != (int)sums_to_all || !sg_fused_out_may_be_tagged(p, &sets[i]))
            continue;
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
int sg_fused_out_propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets,
                         sg_text *why)
{
    if (!sg_fused_out_accepts(p, why)) return 0;
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
        const int64_t slices = sg_min(low, most_in_turn(p, machine, tile));
        const int subs = all ? (int)sg_min(slices, MOST_SUBS) : 1;
        if (subs > 1) n += propose_parts(p, machine, tile, subs, false, cut, &sets[n]);
        if (subs == MOST_SUBS && i == 0) /* fewer may fill their waves better */
            n += propose_parts(p, machine, tile, subs / 2, false, cut, &sets[n]);
        if (at_once) n += propose_parts(p, machine, tile, 1, true, cut, &sets[n]);
    }
    return propose_tagged(p, machine, sets, n);
}
