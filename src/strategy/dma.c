/* dma.c -- FiCCO (arXiv 2512.10236): copy engines bring a chunk of everybody's rows at a time, and
 * a product of its own multiplies each chunk.
 *
 *     lanes 1..:         chunk 0 to all | chunk 1 to all | chunk 2 to all      a copy for every peer
 *     uniform-fused-1D:                 | rows 0 of all  | rows 1 of all  | rows 2 of all
 *     hetero-fused-1D:   own rows       | rows 0 of rest | rows 1 of rest | rows 2 of rest
 *     hetero-unfused-1D: own rows       | a product for every piece that has come
 *     uniform-fused-2D:                 | columns 0      | columns 1      | columns 2
 *
 * One level below the shard: every chunk is a small all-to-all, so that a full mesh has all its
 * links at work at once (a lane per peer), where a shard at a time uses one.  Columns are of k:
 * every product has all rows and adds to the sum so far, which is kept in f32.  Chunks need not be
 * as many as ranks.  Loses what short products lose: launches, waves that are not full, another
 * pass over the sum in 2D.
 *
 * The other way round (GEMM_RS, GEMM_AR, GEMM_A2A) chunks leave behind their product: rows of
 * others first and own rows last (hetero), or own rows in every step (uniform); columns are of C.
 * Engines do not add, so partial sums go to their owner, who adds them in rank order with one
 * rounding; in an all-reduce the finished rows then go to all.  A gather along k brings columns
 * anyway: 2D is 1D there, as it is for a call, which makes whole rows.
 *
 * The paper names the four schedules and the axes; which step does what, and all of the way back,
 * is our reconstruction.  It differs in that chunks arrive where they are read, without gathering
 * and scattering around a product, and that a tile waits for its own chunk alone, not for the whole
 * step.
 */
#include "core/strategy.h"
#include "core/sums.h"
#include "core/tiles.h"

enum { FORM, CHUNKS, LANES, STREAMS, BLOCKS, TILE_M, TILE_N };

enum { UNIFORM, HETERO, UNFUSED, UNIFORM_2D, FORMS };

/* ---- Knobs ----------------------------------------------------------------------------------- */

static bool own_apart(int form)
{
    return form == HETERO || form == UNFUSED;
}

/* Time of the products of FORM in tiles of TILE on SMS of a rank: every launch ends with a wave of
 * its own, and chunks are cut into tiles by themselves. */
static double launches_us(const sg_problem *p, const sg_machine *machine, int form, int chunks,
                          int sms, const sg_tile *tile)
{
    const bool b = p->gather == SG_GATHER_B;
    const bool by_cols = form == UNIFORM_2D;
    const int64_t bands = sg_ceil_div(p->most_rows, b ? tile->n : tile->m);
    const int64_t cols = b ? sg_ceil_div(p->m, tile->m) : sg_problem_col_tiles(p, tile->n);
    const int64_t chunk = by_cols ? bands * sg_ceil_div(cols, chunks)
                                  : sg_ceil_div(bands, chunks) * cols; /* of an owner */
    const int owners = form == UNFUSED ? 1 : p->ranks - own_apart(form);
    const int launches = form == UNFUSED ? (p->ranks - 1) * chunks : chunks;
    const int64_t waves = launches * sg_ceil_div(owners * chunk, sms) +
                          (own_apart(form) ? sg_ceil_div(bands * cols, sms) : 0);
    return (double)waves * sg_tile_us(p, machine, tile);
}

/* The tile of MACHINE whose waves suit these launches best.  Launches that have all tiles, for a
 * part of k, are suited by the one that suits the product. */
static const sg_tile *best_tile(const sg_problem *p, const sg_machine *machine, int form,
                                int chunks, int sms)
{
    const sg_tile *best = &machine->tile[0];
    const bool along_k = sg_problem_in(p) != SG_IN_NONE && form == UNIFORM_2D;
    /* Ranks that share workers have no waves. */
    if (along_k || p->gather == SG_GATHER_K || machine->pool > 0) return best;
    for (int t = 1; t < machine->tiles; t++)
        if (launches_us(p, machine, form, chunks, sms, &machine->tile[t]) <
            launches_us(p, machine, form, chunks, sms, best))
            best = &machine->tile[t];
    return best;
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    enum { MOST_CHUNKS = 16, MOST_PIECES = 64, MOST_COPIES = 2048 };
    if (!sg_accepts_moves(p, why)) return 0;
    const bool gather = sg_problem_in(p) != SG_IN_NONE;
    const int peers = p->ranks - 1;
    /* A link for every peer wants a lane for every peer; behind one port they would only share
     * it. */
    const int lanes = machine->topology == SG_MESH ? (int)sg_min(peers, SG_MAX_LANES - 1) : 1;
    /* Lanes whose copies wait for a product take an SM each. */
    const int blocks = gather ? 0 : sg_blocks_beside(machine, lanes, why);
    if (blocks < 0) return 0;
    /* As many chunks as ranks is the paper's choice, up to where copies are too many to be issued,
     * and 2D for m < k its rule. */
    const int most = (int)sg_min(MOST_CHUNKS, sg_max(2, MOST_COPIES / peers));
    const int ranks = (int)sg_min(p->ranks, most);
    const int wish[][2] = {
        {p->m < p->k ? UNIFORM_2D : HETERO, ranks},
        {HETERO, ranks},
        {HETERO, 2 * ranks},
        {HETERO, 2},
        {UNIFORM, ranks},
        {UNFUSED, ranks},
        {UNIFORM_2D, ranks},
    };
    int n = 0;
    for (int i = 0; i < (int)(sizeof wish / sizeof wish[0]); i++) {
        const int form = wish[i][0];
        const int chunks = wish[i][1];
        const bool by_cols = form == UNIFORM_2D;
        const int64_t extent = !by_cols ? p->most_rows : gather ? p->k : p->n;
        bool skip = chunks > most || chunks > extent;
        skip |= by_cols && (p->call || p->gather == SG_GATHER_K);
        skip |= form == UNFUSED && chunks * peers > MOST_PIECES;
        for (int j = 0; j < i; j++) skip |= wish[j][0] == form && wish[j][1] == chunks;
        if (skip) continue;
        /* Two launches side by side leave no SM that is not dealt out. */
        const bool room = machine->sms >= 8 && (gather || blocks > 1);
        const int streams = form == UNFUSED && room ? 2 : 1;
        const int sms = (streams > 1 && blocks == 0 ? machine->sms : blocks) / streams;
        const sg_tile *const tile =
            best_tile(p, machine, form, chunks, sms > 0 ? sms : machine->sms);
        sets[n++] = (sg_knobs){{[FORM] = form,
                                [CHUNKS] = chunks,
                                [LANES] = lanes,
                                [STREAMS] = streams,
                                [BLOCKS] = sms,
                                [TILE_M] = tile->m,
                                [TILE_N] = tile->n}};
    }
    if (n == 0)
        sg_decline(why, "%lld rows of a rank are too few for chunks", (long long)p->most_rows);
    return n;
}

static int form_of(const sg_problem *p, const sg_knobs *k)
{
    const bool rows_only = p->call || p->gather == SG_GATHER_K;
    return k->value[FORM] == UNIFORM_2D && rows_only ? UNIFORM : k->value[FORM];
}

/* Lanes of products: pieces that are multiplied one by one may run side by side.  Along k each adds
 * to the one before. */
static int streams_of(const sg_problem *p, const sg_knobs *k)
{
    return form_of(p, k) == UNFUSED && p->gather != SG_GATHER_K ? k->value[STREAMS] : 1;
}

/* The other lanes are for copies: a lane for each of a chunk's peers, or where there are fewer,
 * dealt so that no peer's rows have to share a lane all the time. */
static int copy_lane(const sg_problem *p, const sg_knobs *k, int distance, int c)
{
    const int streams = streams_of(p, k);
    const int peers = p->ranks - 1;
    const int lanes = (int)sg_min(sg_min(k->value[LANES], peers), SG_MAX_LANES - streams);
    return streams + (c * peers + distance - 1) % lanes;
}

/* On the SMs of so many STREAMS: one's, or of all where no other runs beside it. */
static int launch(sg_sched *s, const sg_knobs *k, int lane, int streams)
{
    return sg_sched_launch(s, lane, k->value[TILE_M], k->value[TILE_N], streams * k->value[BLOCKS],
                           false);
}

/* The rank I places behind. */
static int behind(const sg_problem *p, int rank, int i)
{
    return (rank - i + p->ranks) % p->ranks;
}

/* ---- Gather ---------------------------------------------------------------------------------- */

/* How rows of OWNER come to RANK: in chunks of rows, or in one with chunks of k. */
static sg_arrival arrival_of(const sg_problem *p, const sg_knobs *k, int rank, int owner)
{
    const int64_t rows = sg_problem_part(p, rank, owner).rows;
    const int32_t tile = sg_tile_along(p, k->value[TILE_M], k->value[TILE_N]);
    const bool by_cols = form_of(p, k) == UNIFORM_2D;
    return (sg_arrival){.by = (int16_t)owner,
                        .chunk = sg_chunk_rows(rows, by_cols ? 1 : k->value[CHUNKS], tile),
                        .chunk_k = by_cols ? sg_chunk_k(p->k, k->value[CHUNKS]) : 0};
}

/* Sends chunk C of the own rows to all, to the one first that wants it first. */
static void send_chunk(const sg_problem *p, const sg_knobs *k, int c, int gathered, sg_sched *s)
{
    for (int i = 1; i < p->ranks; i++) {
        const int peer = behind(p, s->rank, i);
        const sg_arrival arrival = arrival_of(p, k, peer, s->rank);
        sg_moves_send_chunk(s, copy_lane(p, k, i, c), s->rank, sg_moves_held(s, peer), peer,
                            gathered, &arrival, c, NULL);
    }
}

/* Has any of COUNT owners rows in the chunk that G is at? */
static bool has_rows(const sg_sched *s, const sg_gathering *g, const int *order, int count)
{
    bool any = false;
    for (int i = 0; i < count; i++) {
        const int64_t rows = sg_problem_part(s->problem, s->rank, order[i]).rows;
        any |= (int64_t)sg_max(g->chunk - 1, 0) * g->arrival[order[i]].chunk < rows;
    }
    return any;
}

static void build_gather(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int form = form_of(p, k);
    const bool apart = own_apart(form);
    const int gathered = sg_moves_gathered(s, SG_SYM, SG_FIXED);
    sg_arrival arrival[SG_MAX_RANKS];
    int order[SG_MAX_RANKS];
    for (int q = 0; q < p->ranks; q++) {
        arrival[q] = arrival_of(p, k, rank, q);
        order[q] = (rank + q) % p->ranks;
    }
    sg_gathering g = {.gathered = gathered, .arrival = arrival};
    int own = -1;
    if (apart && has_rows(s, &g, order, 1)) {
        own = launch(s, k, 0, streams_of(p, k));
        sg_moves_gather_patches(s, &g, order, 1);
    }
    const int32_t chunk_k = arrival[rank].chunk_k;
    int steps = form == UNIFORM_2D ? 1 : k->value[CHUNKS];
    if (chunk_k > 0) steps = (int)sg_ceil_div(p->k, chunk_k);
    int pieces = 0;
    for (int c = 0; c < steps; c++) {
        send_chunk(p, k, c, gathered, s);
        if (form != UNIFORM_2D) g.chunk = c + 1;
        g.k0 = c * chunk_k;
        g.k1 = chunk_k > 0 ? (int32_t)sg_min(p->k, g.k0 + (int64_t)chunk_k) : 0;
        const int at_once = form == UNFUSED ? 1 : p->ranks - apart;
        for (int i = apart; i < p->ranks; i += at_once) {
            if (!has_rows(s, &g, &order[i], at_once)) continue;
            const int lane = form == UNFUSED ? pieces % streams_of(p, k) : 0;
            launch(s, k, lane, 1);
            if (pieces++ == 1 && lane == 1) sg_sched_after(s, own);
            sg_moves_gather_patches(s, &g, &order[i], at_once);
        }
    }
}

/* ---- Scatter --------------------------------------------------------------------------------- */

/* Products for step C of the rows of Q; what belongs to others raises a flag here. */
static void multiply(const sg_problem *p, const sg_sums *x, int q, int c, sg_sched *s)
{
    const bool own = q == s->rank;
    const sg_chunk chunk = sg_sums_chunk(p, x, s->rank, q, c);
    const sg_part where = sg_problem_part(p, s->rank, q);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(p, s->rank, q, chunk.x0, chunk.x0 + chunk.rows);
         sg_piece_next(&it, &piece);) {
        const bool here = x->exchange && own; /* finished, in its place */
        sg_patch patch = sg_moves_patch(s, &piece, x->exchange);
        sg_moves_cut_cols(&patch, chunk.col0, chunk.cols);
        sg_sched_patch(s, &patch);
        sg_sched_to(s, sg_chunk_area(s->rank, here ? SG_C : x->partial,
                                     piece.own_row + (here ? where.held : where.base), piece.rows,
                                     &chunk));
        if (!own) sg_sched_raise(s, s->rank, SG_PER_PATCH, q * x->chunks + c);
    }
}

static void send(const sg_problem *p, const sg_knobs *k, int distance, int c, const sg_sums *x,
                 sg_sched *s)
{
    const int q = (s->rank + distance) % p->ranks;
    const sg_chunk chunk = sg_sums_chunk(p, x, s->rank, q, c);
    const sg_part where = sg_problem_part(p, s->rank, q);
    const int64_t to = x->exchange ? where.held : s->rank * p->most_rows;
    sg_sched_copy(s, copy_lane(p, k, distance, c), SG_BY_ENGINE,
                  sg_chunk_area(s->rank, x->partial, where.base + chunk.x0, chunk.rows, &chunk));
    sg_sched_wait(s, sg_wait_one(s->rank, q * x->chunks + c));
    sg_sched_to(s,
                sg_chunk_area(q, x->exchange ? SG_C : x->inbox, to + chunk.x0, chunk.rows, &chunk));
    sg_sched_raise(s, q, SG_PER_PATCH, c);
}

/* Sums step C of the own rows; in an all-reduce they then go to everybody. */
static void sum(const sg_problem *p, const sg_knobs *k, int c, const sg_sums *x, sg_sched *s)
{
    if (x->exchange) return;
    const int added = sg_sums_add(s, x, c);
    if (sg_problem_out(p) != SG_OUT_ALL) return;
    for (int i = 1; i < p->ranks; i++)
        sg_sums_send(s, x, copy_lane(p, k, i, c), (s->rank + i) % p->ranks, c, added);
}

/* Launches step C of the owners at distance FIRST to LAST. */
static int step(const sg_problem *p, const sg_knobs *k, int first, int last, int c, int lane,
                const sg_sums *x, sg_sched *s)
{
    bool any = false;
    for (int i = first; i <= last; i++)
        any |= sg_sums_chunk(p, x, s->rank, (s->rank + i) % p->ranks, c).rows > 0;
    if (!any) return -1;
    const int index = launch(s, k, lane, 1);
    for (int i = first; i <= last; i++) multiply(p, x, (s->rank + i) % p->ranks, c, s);
    return index;
}

static void build_scatter(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int form = form_of(p, k);
    const bool apart = own_apart(form);
    const bool exchange = sg_problem_out(p) == SG_OUT_EXCHANGE;
    sg_sums x = {.chunks = k->value[CHUNKS],
                 .by_cols = form == UNIFORM_2D,
                 .tile_m = k->value[TILE_M],
                 .tile_n = k->value[TILE_N],
                 .exchange = exchange};
    x.partial = sg_sched_buf(s, SG_LOCAL, "partial", sg_problem_rows(p, rank), p->n, 0);
    /* Empty in an all-to-all, but shared: a rank without any rows says hello and done too. */
    const int64_t inbox_rows = exchange ? 0 : p->ranks * p->most_rows;
    x.inbox = sg_sched_buf(s, SG_SYM, "inbox", inbox_rows, p->n, exchange ? 0 : SG_FIXED);
    int other = -1; /* last launch of the second stream */
    int pieces = 0;
    for (int c = 0; c < x.chunks; c++) {
        if (form == UNFUSED) {
            for (int i = 1; i < p->ranks; i++) {
                const int lane = pieces % streams_of(p, k);
                const int index = step(p, k, i, i, c, lane, &x, s);
                pieces += index >= 0;
                if (lane == 1 && index >= 0) other = index;
                send(p, k, i, c, &x, s);
            }
            continue;
        }
        step(p, k, 1, apart ? p->ranks - 1 : p->ranks, c, 0, &x, s);
        for (int i = 1; i < p->ranks; i++) send(p, k, i, c, &x, s);
        if (!apart && c > 0) sum(p, k, c - 1, &x, s); /* has come under this step's product */
    }
    if (apart && sg_problem_part(p, rank, rank).rows > 0) {
        launch(s, k, 0, streams_of(p, k));
        sg_sched_after(s, other);
        for (int c = 0; c < x.chunks; c++) multiply(p, &x, rank, c, s);
    }
    for (int c = apart ? 0 : x.chunks - 1; c < x.chunks; c++) sum(p, k, c, &x, s);
    if (sg_problem_out(p) == SG_OUT_SCATTER) return;
    /* Behind the products: it needs an SM, as they do. */
    sg_sums_await(s, &x);
    sg_sched_after(s, other);
}

static void build(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    if (sg_problem_in(p) != SG_IN_NONE)
        build_gather(p, knobs, rank, s);
    else
        build_scatter(p, knobs, rank, s);
}

const sg_strategy sg_strategy_dma = {
    .name = "dma",
    .brief = "engines bring a chunk of all ranks' rows or columns at a time (FiCCO)",
    .knob = {[FORM] = {"form", UNIFORM, FORMS - 1},
             [CHUNKS] = {"chunks", 1, 64},
             [LANES] = {"lanes", 1, SG_MAX_LANES - 1},
             [STREAMS] = {"streams", 1, 2},
             [BLOCKS] = {"blocks", 0, SG_MOST_SMS},
             [TILE_M] = {"tile_m", 1, 4096},
             [TILE_N] = {"tile_n", 1, 4096}},
    .accepts = sg_accepts_moves,
    .propose = propose,
    .build = build,
};
