/* signal.c -- FlashOverlap's signalling (arXiv 2504.19519, sections 4 and 5): one product whose
 * tiles are stored in the order in which they finish, a flag per group of tiles, a collective per
 * group, and a reorder behind it.
 *
 *     lane 0:  gemm:  group 0 | group 1 | group 2 ...  |        | reorder all but the last | reorder
 *     lane 1:                 | coll 0  | coll 1 ...        | coll 2 |
 *
 * A group is whatever has finished at a moment, not a rectangle: with a place per tile it is still
 * contiguous, as collectives need it.  Groups end behind whole waves; which ones, CUTS says: bit i
 * ends a group behind (i + 1) * UNIT tiles.  All ranks walk the tiles in one order.
 *
 * All-reduce sums places.  For reduce-scatter and all-to-all a group holds the same part of every
 * owner's tiles, owner behind owner, so that every owner gets whole tiles of its own rows.
 *
 * Where rows are normed, that is done on the way from the places to C: the reorder costs nothing
 * then.
 *
 * Needs nothing but a flag in the epilogue and a collective library, so it works where peers cannot
 * reach each other's memory.  Exposed: the last group's collective and its reorder.  Loses where
 * the collective's SMs are missed more than the overlap brings.
 */
#include "core/moves.h"
#include "core/strategy.h"
#include "core/tiles.h"

enum { UNIT, CUTS, SMS, BLOCKS, TILE_M, TILE_N };

enum { MOST_UNITS = 31, SEARCH_UNITS = 10, KEPT = 3 };

static const sg_coll_kind kind_of[] = {[SG_OUT_SCATTER] = SG_REDUCE_SCATTER,
                                       [SG_OUT_ALL] = SG_ALL_REDUCE,
                                       [SG_OUT_EXCHANGE] = SG_ALL_TO_ALL};

/* ---- Tiles and groups ------------------------------------------------------------------------ */

/* What the tiles of a product are cut into. */
typedef struct layout {
    const sg_problem *p;
    int32_t tile_m, tile_n;
    int owners; /* in an all-reduce everything counts as one owner's */
    int groups;
    int64_t bound[MOST_UNITS + 1]; /* tiles in front of each group */
    int64_t part[SG_MAX_RANKS];    /* tiles of each owner in this rank's product */
    int64_t all;                   /* their sum */
} layout;

/* The pieces whose tiles OWNER gets of RANK's product. */
static sg_pieces pieces_of(const sg_problem *p, int rank, int owner)
{
    if (sg_problem_out(p) == SG_OUT_ALL)
        return (sg_pieces){.problem = p, .owner = rank, .segment = -1, .end = p->m};
    return sg_pieces_of(p, rank, owner, 0, p->m);
}

static int64_t piece_tiles(const layout *x, const sg_piece *piece)
{
    return sg_ceil_div(piece->rows, x->tile_m) * sg_ceil_div(x->p->n, x->tile_n);
}

static int64_t part_tiles(const layout *x, int rank, int owner)
{
    int64_t tiles = 0;
    sg_piece piece;
    for (sg_pieces it = pieces_of(x->p, rank, owner); sg_piece_next(&it, &piece);)
        tiles += piece_tiles(x, &piece);
    return tiles;
}

/* Places of tiles that reach far beyond the product would be memory for zeros. */
static int32_t cap(int32_t tile, int64_t extent)
{
    int32_t most = 1;
    while (most < extent && most < tile) most *= 2;
    return tile < most ? tile : most;
}

static sg_tile capped(const sg_problem *p, sg_tile tile)
{
    tile.m = cap(tile.m, sg_problem_out(p) == SG_OUT_ALL ? p->m : p->most_rows);
    tile.n = p->call ? (int32_t)p->n : cap(tile.n, p->n);
    return tile;
}

static void set_layout(layout *x, const sg_problem *p, const sg_knobs *k, int rank)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const sg_tile tile = capped(p, (sg_tile){.m = k->value[TILE_M], .n = k->value[TILE_N]});
    x->p = p;
    x->tile_m = tile.m;
    x->tile_n = tile.n;
    x->owners = all ? 1 : p->ranks;
    x->groups = 0;
    for (int i = 0; i < MOST_UNITS - 1; i++)
        if (k->value[CUTS] >> i & 1) x->bound[++x->groups] = (int64_t)(i + 1) * k->value[UNIT];
    x->bound[0] = 0;
    x->bound[++x->groups] = INT64_MAX;
    x->all = 0;
    for (int q = 0; q < x->owners; q++) {
        x->part[q] = part_tiles(x, rank, q);
        x->all += x->part[q];
    }
}

/* Of PART tiles of an owner, those in front of group G of a product of ALL tiles. */
static int64_t tiles_before(const layout *x, int64_t part, int64_t all, int g)
{
    /* More than a launch takes: the builder says so, as long as all of them are asked for. */
    if (all > SG_MAX_VISITS) return sg_min(x->bound[g], part);
    return all > 0 ? sg_min(x->bound[g], all) * part / all : 0;
}

/* The same of this rank's product. */
static int64_t own_before(const layout *x, int owner, int g)
{
    return tiles_before(x, x->part[owner], x->all, g);
}

/* ---- Patches --------------------------------------------------------------------------------- */

/* Tiles [t0, t1) of what OWNER gets of RANK's product; the first has place PLACE0 of BUF. */
typedef struct stretch {
    int rank, owner;
    int64_t t0, t1;
    int64_t place0;
    int buf;
} stretch;

/* A patch of the product, stored to its places. */
static void emit_product(sg_sched *s, const sg_patch *patch, sg_area places, int32_t flag)
{
    sg_sched_patch(s, patch);
    sg_sched_to(s, places);
    sg_sched_raise(s, s->rank, SG_PER_PATCH, flag);
}

/* A patch that brings the same tiles from their places to where they belong in C, from ROW on. */
static void emit_reorder(sg_sched *s, const sg_patch *patch, sg_area places, int64_t row)
{
    sg_patch back = *patch;
    back.row0 = (int32_t)row;
    back.k0 = back.k1 = 0;
    back.final = sg_problem_sums(s->problem);
    sg_sched_patch(s, &back);
    sg_sched_add(s, places, NULL);
    sg_sched_to(s, sg_area_of(s->rank, SG_C, row, patch->rows, 0, patch->cols));
}

/* Bands of PATCH, from its first on, of which no tile stands behind the first TILES. */
static int32_t whole_bands(const layout *x, const sg_patch *patch, int64_t tiles)
{
    const int32_t bands = sg_walk_bands(patch, x->tile_m);
    const int32_t cols = sg_walk_cols(patch, x->tile_n);
    const int32_t group = patch->raster == SG_GROUPED  ? (patch->width > 0 ? patch->width : 1)
                          : patch->raster == SG_BY_COL ? bands
                                                       : 1;
    const int64_t whole = tiles / ((int64_t)group * cols) * group;
    return tiles >= (int64_t)bands * cols ? bands : (int32_t)sg_min(whole, bands);
}

/* The open launch norms the rows of this rank of which all tiles are in front of tile T1 of Z, but
 * not all in front of T0.  Place PLACE0 has this rank's first tile. */
static void emit_norm(sg_sched *s, const layout *x, const stretch *z)
{
    const bool all = sg_problem_out(x->p) == SG_OUT_ALL;
    int64_t passed = 0;
    sg_piece piece;
    for (sg_pieces it = pieces_of(x->p, s->rank, s->rank); sg_piece_next(&it, &piece);) {
        sg_patch patch = sg_moves_patch(s, &piece, true);
        patch.width = sg_moves_group(piece.rows, x->tile_m, x->tile_n); /* as the product has it */
        const int32_t from = whole_bands(x, &patch, sg_max(z->t0 - passed, 0));
        const int32_t to = whole_bands(x, &patch, sg_max(z->t1 - passed, 0));
        const int64_t cols = sg_walk_cols(&patch, x->tile_n);
        const int64_t row = (int64_t)from * x->tile_m;
        const int64_t rows = sg_min((int64_t)to * x->tile_m, piece.rows) - row;
        if (from < to) {
            patch.row0 = (int32_t)((all ? piece.row0 : piece.own_row) + row);
            patch.rows = (int32_t)rows;
            patch.k0 = patch.k1 = 0;
            sg_sched_patch(s, &patch);
            sg_sched_add(s,
                         sg_area_tiled(s->rank, z->buf, z->place0 + passed + from * cols,
                                       (to - from) * cols, x->tile_m, x->tile_n),
                         NULL);
            sg_sched_to(s, sg_area_of(s->rank, SG_C, patch.row0, rows, 0, x->p->n));
        }
        passed += piece_tiles(x, &piece);
    }
}

/* Appends the patches of STRETCH: of the product, raising FLAG, or of the reorder (FLAG < 0). */
static void emit(sg_sched *s, const layout *x, const stretch *z, int32_t flag)
{
    const bool all = sg_problem_out(x->p) == SG_OUT_ALL;
    const int64_t held = all ? 0 : sg_problem_part(x->p, z->rank, z->owner).held;
    int64_t passed = 0;
    sg_piece piece;
    for (sg_pieces it = pieces_of(x->p, z->rank, z->owner);
         passed < z->t1 && sg_piece_next(&it, &piece);) {
        const int64_t tiles = piece_tiles(x, &piece);
        const int64_t from = sg_max(z->t0 - passed, 0);
        const int64_t to = sg_min(z->t1 - passed, tiles);
        if (from < to) {
            sg_patch patch = sg_moves_patch(s, &piece, !sg_problem_sums(x->p));
            patch.tile0 = (int32_t)from;
            patch.tiles = (int32_t)(to - from);
            const sg_area places = sg_area_tiled(s->rank, z->buf, z->place0 + passed + from - z->t0,
                                                 to - from, x->tile_m, x->tile_n);
            if (flag >= 0)
                emit_product(s, &patch, places, flag);
            else
                emit_reorder(s, &patch, places, held + (all ? piece.row0 : piece.own_row));
        }
        passed += tiles;
    }
}

/* ---- Building -------------------------------------------------------------------------------- */

static void build_product(sg_sched *s, const layout *x, const sg_knobs *k, int tiled)
{
    sg_sched_launch(s, 0, x->tile_m, x->tile_n, k->value[BLOCKS], false);
    int64_t place = 0;
    for (int g = 0; g < x->groups; g++) {
        for (int q = 0; q < x->owners; q++) {
            const stretch z = {s->rank, q,    own_before(x, q, g), own_before(x, q, g + 1),
                               place,   tiled};
            emit(s, x, &z, g);
            place += z.t1 - z.t0;
        }
    }
}

/* What the collectives of all groups leave here, source behind source. */
typedef struct arrived {
    int buf;
    int64_t place0[SG_MAX_RANKS]; /* of each source's tiles */
    int64_t part[SG_MAX_RANKS];   /* how many; and how many its whole product has */
    int64_t all[SG_MAX_RANKS];
} arrived;

/* Sources of an all-to-all: every rank, each with a product of its own.  Of a sum: this rank, which
 * stands for all. */
static int sources(const layout *x)
{
    return sg_problem_sums(x->p) ? 1 : x->p->ranks;
}

static void set_arrived(sg_sched *s, const layout *x, int tiled, arrived *a)
{
    const int me = s->rank;
    int64_t places = 0;
    for (int q = 0; q < sources(x); q++) {
        const int source = sg_problem_sums(x->p) ? me : q;
        a->place0[q] = places;
        a->part[q] = part_tiles(x, source, me);
        a->all[q] = x->all;
        if (x->p->counts != NULL) {
            a->all[q] = 0;
            for (int to = 0; to < x->p->ranks; to++) a->all[q] += part_tiles(x, source, to);
        }
        places += a->part[q];
    }
    a->buf = sg_problem_out(x->p) == SG_OUT_ALL
                 ? tiled /* summed in place */
                 : sg_sched_buf(s, SG_LIBRARY, "arrived", places * x->tile_m, x->tile_n, 0);
}

/* COUNT places from PLACE0 on, as a collective sees them. */
static sg_area rows_of(const layout *x, int rank, int buf, int64_t place0, int64_t count)
{
    return sg_area_of(rank, buf, place0 * x->tile_m, count * x->tile_m, 0, x->tile_n);
}

/* Where what SOURCE (its index) has in group G arrives. */
static sg_area arrives(const sg_sched *s, const layout *x, const arrived *a, int source, int g)
{
    const int64_t from = tiles_before(x, a->part[source], a->all[source], g);
    const int64_t to = tiles_before(x, a->part[source], a->all[source], g + 1);
    return rows_of(x, s->rank, a->buf, a->place0[source] + from, to - from);
}

/* The collective of group G, whose places start at PLACE; returns its step. */
static int build_coll(sg_sched *s, const layout *x, const sg_knobs *k, int g, int64_t place,
                      int tiled, const arrived *a)
{
    const sg_out out = sg_problem_out(x->p);
    const sg_area self = out == SG_OUT_EXCHANGE ? (sg_area){0} : arrives(s, x, a, 0, g);
    const int step = sg_sched_coll(s, 1, kind_of[out], k->value[SMS], self);
    int64_t tiles = 0;
    for (int q = 0; q < x->owners; q++) {
        const int64_t count = own_before(x, q, g + 1) - own_before(x, q, g);
        if (out != SG_OUT_ALL) sg_sched_to(s, rows_of(x, s->rank, tiled, place + tiles, count));
        tiles += count;
    }
    for (int q = 0; q < sources(x) && out == SG_OUT_EXCHANGE; q++)
        sg_sched_to(s, arrives(s, x, a, q, g));
    if (tiles > 0 || (x->all == 0 && g == 0)) sg_sched_wait(s, sg_wait_one(s->rank, g));
    return step;
}

/* Brings groups [G0, G1) from their places to C, behind step AFTER. */
static void build_reorder(sg_sched *s, const layout *x, const sg_knobs *k, int g0, int g1,
                          int after, const arrived *a)
{
    if (g0 == g1) return;
    if (x->p->norm) {
        const stretch z = {s->rank,
                           s->rank,
                           tiles_before(x, a->part[0], a->all[0], g0),
                           tiles_before(x, a->part[0], a->all[0], g1),
                           a->place0[0],
                           a->buf};
        sg_sched_norm(s, 0, x->tile_m, k->value[BLOCKS]);
        sg_sched_after(s, after);
        emit_norm(s, x, &z);
        return;
    }
    sg_sched_launch(s, 0, x->tile_m, x->tile_n, k->value[BLOCKS], false);
    sg_sched_after(s, after);
    for (int q = 0; q < sources(x); q++) {
        const int64_t from = tiles_before(x, a->part[q], a->all[q], g0);
        const stretch z = {sg_problem_sums(x->p) ? s->rank : q,
                           s->rank,
                           from,
                           tiles_before(x, a->part[q], a->all[q], g1),
                           a->place0[q] + from,
                           a->buf};
        emit(s, x, &z, -1);
    }
}

static void build(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    layout x;
    arrived a;
    if (p->n == 0 || p->m == 0) return;
    set_layout(&x, p, k, rank);
    const int tiled = sg_sched_buf(s, SG_LIBRARY, "tiles", x.all * x.tile_m, x.tile_n, 0);
    set_arrived(s, &x, tiled, &a);
    build_product(s, &x, k, tiled);
    if (x.all ==
        0) { /* a rank without tiles raises a flag as well: all ranks count the run, or none */
        sg_sched_flag(s, 0);
        sg_sched_raise(s, s->rank, SG_PER_PATCH, 0);
    }
    int64_t place = 0;
    int before = -1; /* the collectives of the last group and of the one before */
    int last = -1;
    for (int g = 0; g < x.groups; g++) {
        before = last;
        last = build_coll(s, &x, k, g, place, tiled, &a);
        for (int q = 0; q < x.owners; q++) place += own_before(&x, q, g + 1) - own_before(&x, q, g);
    }
    build_reorder(s, &x, k, 0, x.groups - 1, before, &a);
    build_reorder(s, &x, k, x.groups - 1, x.groups, last, &a);
}

/* ---- Search ---------------------------------------------------------------------------------- */

/* What the search knows: times of one unit, and of collectives of 0, 1, 2 ... units (section 4.2 of
 * the paper: the latency predictor).  What moves beside the product takes BESIDE times as long. */
typedef struct search {
    int units;
    double unit_us;
    double start_us, move_us[SEARCH_UNITS + 1];
    double beside;
} search;

static int64_t tiles_of(const sg_problem *p, const sg_tile *tile)
{
    layout x;
    set_layout(&x, p, &(sg_knobs){{[TILE_M] = tile->m, [TILE_N] = tile->n}}, 0);
    return sg_max(x.all, 1);
}

static double tile_us(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const sg_tile t = capped(p, *tile);
    return sg_tile_us(p, machine, &t);
}

static search search_of(const sg_problem *p, const sg_machine *machine, int sms, double unit_us,
                        int units)
{
    const sg_out out = sg_problem_out(p);
    const int curve = sg_machine_curve(machine, (int)kind_of[out], false);
    const double part = sms > 0 ? sg_curve_at(&machine->coll_part, sms, 1) : 1;
    const double bytes = (double)p->m * (double)p->n * sg_type_bytes(p->type);
    search z = {.units = units,
                .unit_us = unit_us,
                .start_us = machine->coll_us,
                .beside = machine->coll_by_gemm > 1 ? machine->coll_by_gemm : 1};
    for (int i = 1; i <= units; i++) {
        const double message = bytes * i / units;
        const double bus = (out == SG_OUT_ALL ? 2 : 1) * message * (p->ranks - 1) / p->ranks;
        const double us = sg_machine_coll_us(machine, curve, message, bus);
        z.move_us[i] = us > z.start_us ? (us - z.start_us) / part : 0;
    }
    return z;
}

/* When everything has arrived if groups end where CUTS says. */
static double predict_us(const search *z, int32_t cuts)
{
    const double product_us = z->units * z->unit_us;
    double done = 0; /* of the collectives so far */
    int begun = 0;
    for (int i = 0; i < z->units; i++) {
        if (i < z->units - 1 && (cuts >> i & 1) == 0) continue;
        const double ready = (i + 1) * z->unit_us;
        const double begin = (ready > done ? ready : done) + z->start_us;
        const double move = z->move_us[i + 1 - begun];
        const double most = product_us > begin ? (product_us - begin) / z->beside : 0;
        const double beside = move < most ? move : most; /* moved before the product ends */
        done = begin + move + beside * (z->beside - 1);
        begun = i + 1;
    }
    return done;
}

/* The KEPT best of all cuts, best first. */
static int best_cuts(const search *z, int32_t *best_out)
{
    double us[KEPT + 1];
    int kept = 0;
    for (int32_t cuts = 0; cuts < 1 << (z->units - 1); cuts++) {
        const double now = predict_us(z, cuts);
        int at = kept;
        for (; at > 0 && now < us[at - 1]; at--) {
            us[at] = us[at - 1];
            if (at < KEPT) best_out[at] = best_out[at - 1];
        }
        if (at == KEPT) continue;
        us[at] = now;
        best_out[at] = cuts;
        if (kept < KEPT) kept++;
    }
    return kept;
}

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (sg_problem_out(p) == SG_OUT_NONE)
        return sg_decline(why, "nothing leaves after the product; groups of tiles are sent");
    return sg_accepts_moves(p, why);
}

/* The tile of MACHINE whose waves take the product least time on BLOCKS SMs. */
static const sg_tile *best_tile(const sg_problem *p, const sg_machine *machine, int blocks)
{
    const sg_tile *best = NULL;
    double least = 0;
    for (int t = 0; t < machine->tiles; t++) {
        const sg_tile *const tile = &machine->tile[t];
        const int64_t waves = sg_ceil_div(tiles_of(p, tile), blocks);
        const double us = (double)waves * tile_us(p, machine, tile);
        if (best != NULL && us >= least) continue;
        best = tile;
        least = us;
    }
    return best;
}

/* Appends the best cuts of tiles of TILE on BLOCKS SMs, 0 for all, with SMS for the collective. */
static int propose_cuts(const sg_problem *p, const sg_machine *machine, const sg_tile *tile,
                        int blocks, int sms, sg_knobs *sets)
{
    const int most = blocks > 0 ? blocks : machine->sms;
    const int64_t tiles = tiles_of(p, tile);
    const int64_t waves = sg_ceil_div(sg_ceil_div(tiles, most), SEARCH_UNITS); /* of a unit */
    const int64_t unit = waves * most;
    if (unit > INT32_MAX) return 0;
    const double unit_us = (double)waves * tile_us(p, machine, tile);
    const search z = search_of(p, machine, sms, unit_us, (int)sg_ceil_div(tiles, unit));
    int32_t cuts[KEPT];
    const int kept = best_cuts(&z, cuts);
    for (int i = 0; i < kept; i++)
        sets[i] = (sg_knobs){{[UNIT] = (int32_t)unit,
                              [CUTS] = cuts[i],
                              [SMS] = sms,
                              [BLOCKS] = blocks,
                              [TILE_M] = tile->m,
                              [TILE_N] = tile->n}};
    return kept;
}

/* The tile whose waves suit the SMs that a collective leaves, and the two that suit all SMs best:
 * waves are not all that a small product's time depends on. */
static int propose_beside(const sg_problem *p, const sg_machine *machine, int blocks, int sms,
                          sg_knobs *sets)
{
    const sg_tile *const best = best_tile(p, machine, blocks > 0 ? blocks : machine->sms);
    int n = propose_cuts(p, machine, best, blocks, sms, sets);
    for (int t = 0; t < machine->tiles && t < 2; t++)
        if (best != &machine->tile[t])
            n += propose_cuts(p, machine, &machine->tile[t], blocks, sms, &sets[n]);
    return n;
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    const int few = sg_machine_few_coll_sms(machine);
    if (!accepts(p, why)) return 0;
    if (p->m == 0 || p->n == 0) {
        sg_decline(why, "there are no tiles");
        return 0;
    }
    /* A collective that would take half of the SMs is given none and waits on one. */
    const int alone = sg_blocks_beside(machine, 1, why);
    if (alone < 0) return 0;
    int n = 0;
    if (machine->coll_sms > 0 && machine->sms > 2 * machine->coll_sms)
        n += propose_beside(p, machine, machine->sms - machine->coll_sms, machine->coll_sms, sets);
    if (few < machine->coll_sms && machine->sms > 2 * few)
        n += propose_beside(p, machine, machine->sms - few, few, &sets[n]);
    if (n == 0) n = propose_beside(p, machine, alone, 0, sets);
    if (n == 0) sg_decline(why, "there are too many tiles to count");
    return n;
}

const sg_strategy sg_strategy_signal = {
    .name = "signal",
    .brief = "a collective for every group of tiles as it finishes, reorder behind (FlashOverlap)",
    .knob = {[UNIT] = {"unit", 1, INT32_MAX},
             [CUTS] = {"cuts", 0, (1 << (MOST_UNITS - 1)) - 1},
             [SMS] = {"sms", 0, SG_MOST_SMS},
             [BLOCKS] = {"blocks", 0, SG_MOST_SMS},
             [TILE_M] = {"tile_m", 1, 4096},
             [TILE_N] = {"tile_n", 1, 4096}},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
