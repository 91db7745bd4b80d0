/* ring.c -- P2P steps to the right neighbour (CommFuse / Flash-Overlap, arXiv 2604.24013,
 * algorithms 1 and 2; sub-slices as m rings in a pipeline).
 *
 *     gather   lane 1:  send r | send r-1 | send r-2 ...     to r+1, each when it has arrived
 *              lane 0:  own rows | rows of r-1 | rows of r-2 ...
 *
 *     scatter  lane 0:  rows of r-1 | rows of r-2 + inbox | ... | own rows + inbox -> C
 *              lane 1:              | send r-1 to r+1     | ...
 *
 *     both     half of every owner's rows goes the other way round, in lane 2
 *
 * With `vendor` every product is a launch of the vendor's, in a scatter behind a step that waits
 * for the message it adds, and what is sent is copied after its launch.  With `taper` the last
 * slice of a scatter is halved so many times: what an all-reduce sends on at the end is little.
 *
 * Every step is one neighbour's traffic, so a plain ring of links suffices; both ways together use
 * its links in both directions, or two links of a mesh.  Nothing is exposed at the start of a
 * gather or at the end of a scatter.  A sum is rounded to the wire type at every hop and its order
 * differs from row to row of owners; the chain of hops also passes on every delay.  All-reduce is
 * the scatter, then the finished rows go round once more.
 */
#include "core/moves.h"
#include "core/strategy.h"
#include "core/tiles.h"

enum { SUB, SPLIT, BLOCKS, TILE_M, TILE_N, BOTH, VENDOR, TAPER };

enum {
    MOST_SUBS = 64,
    MOST_TAPER = 6,
    LEAST_TAPERED = 512,   /* rows of a last slice */
    OWNERS_OF_A_FLAG = 256 /* whose waits one step lists, of 65535 */
};

static bool accepts(const sg_problem *p, sg_text *why)
{
    if (sg_problem_in(p) == SG_IN_EXCHANGE || sg_problem_out(p) == SG_OUT_EXCHANGE)
        return sg_decline(why, "rows of an all-to-all would pass through the ranks between");
    return sg_accepts_moves(p, why);
}

/* FORM is 1 for both ways, 0 for one, -1 for one with products of the vendor's.  What an all-reduce
 * sends on last is exposed, so its last slices taper off. */
static int propose_subs(const sg_problem *p, const sg_tile *tile, int blocks, int form,
                        sg_knobs *sets)
{
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int both = form > 0;
    const int64_t least = form < 0 ? SG_VENDOR_ROWS : 1;
    int n = 0;
    for (int sub = 1; sub <= 4 && (sub == 1 || sub * (1 + both) * least <= p->most_rows);
         sub *= 2) {
        if (all && form < 0 && sub == 2) continue; /* one, halved once more */
        sg_knobs *const set = &sets[n++];
        set->value[SUB] = sub;
        set->value[SPLIT] = 0;
        set->value[BLOCKS] = blocks;
        set->value[TILE_M] = tile->m;
        set->value[TILE_N] = tile->n;
        set->value[BOTH] = both;
        set->value[VENDOR] = form < 0;
        while (all && form < 0 && set->value[TAPER] < MOST_TAPER &&
               p->most_rows / sub >> (set->value[TAPER] + 1) >= LEAST_TAPERED)
            set->value[TAPER]++;
    }
    return n;
}

static int propose(const sg_problem *p, const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    if (!accepts(p, why)) return 0;
    const int blocks = sg_blocks_beside(machine, 4, why); /* sends wait on an SM */
    if (blocks < 0) return 0;
    const int64_t rows = p->most_rows;
    /* Behind one port both ways only share it; two ranks have one way. */
    const bool links = machine->topology == SG_RING || machine->topology == SG_MESH;
    /* A gather by the vendor is direct's, which waits for nothing on a lane of copies. */
    const bool vendor = sg_problem_out(p) != SG_OUT_NONE && !p->call && rows >= SG_VENDOR_ROWS;
    int n = 0;
    for (int form = links && p->ranks > 2; form >= -(int)vendor; form--) {
        const int shapes = form < 0 ? 1 : 2; /* tiles are not the vendor's */
        for (int t = 0; t < machine->tiles && t < shapes; t++)
            n += propose_subs(p, &machine->tile[t], blocks, form, &sets[n]);
    }
    return n;
}

static void launch(sg_sched *s, const sg_knobs *k)
{
    sg_sched_launch(s, 0, k->value[TILE_M], k->value[TILE_N], k->value[BLOCKS], false);
}

/* Sub-slices of an owner's rows that go one way. */
static int per_way(const sg_problem *p, const sg_knobs *k)
{
    return k->value[SUB] + (sg_problem_out(p) != SG_OUT_NONE ? k->value[TAPER] : 0);
}

/* All of them: the first half goes to the right, the other to the left. */
static int subs(const sg_problem *p, const sg_knobs *k)
{
    return per_way(p, k) * (1 + k->value[BOTH]);
}

static int way(const sg_problem *p, const sg_knobs *k, int c)
{
    return c < per_way(p, k) ? 1 : -1;
}

static int lane(const sg_problem *p, const sg_knobs *k, int c)
{
    return way(p, k, c) > 0 ? 1 : 2;
}

/* The rank that I steps of sub-slice C lead to; back if I is negative. */
static int along(const sg_problem *p, const sg_knobs *k, int rank, int c, int i)
{
    return (rank + way(p, k, c) * i + p->ranks) % p->ranks;
}

/* Rows [*X0_OUT, *X0_OUT + result) of OWNER are sub-slice C.  Of those that go one way all are
 * equal but for the last, which is halved TAPER times. */
static int32_t sub_rows(const sg_problem *p, const sg_knobs *k, int owner, int c, int32_t *x0_out)
{
    const int equal = k->value[SUB];
    const int i = c % per_way(p, k);
    const int slice = c / per_way(p, k) * equal + (i < equal ? i : equal - 1);
    int32_t rows = sg_slice_rows(p, owner, owner, slice, equal * (1 + k->value[BOTH]),
                                 k->value[TILE_M], x0_out);
    for (int cut = 0; cut < i - equal + 2 && cut < k->value[TAPER]; cut++) {
        const int32_t half = sg_walk_min(rows, sg_chunk_rows(rows, 2, k->value[TILE_M]));
        if (cut == i - equal + 1) return half;
        *x0_out += half;
        rows -= half;
    }
    return rows;
}

static void build_gather(const sg_problem *p, const sg_knobs *k, int rank, sg_sched *s)
{
    const int gathered = sg_moves_gathered(s, SG_SYM, SG_FIXED);
    const int32_t tile = sg_tile_along(p, k->value[TILE_M], k->value[TILE_N]);
    const int all = subs(p, k);
    sg_arrival arrival[2][SG_MAX_RANKS]; /* to the right, to the left */
    for (int q = 0; q < p->ranks; q++)
        for (int i = 0; i < 2; i++)
            arrival[i][q] = (sg_arrival){.by = (int16_t)along(p, k, rank, i * per_way(p, k), -1),
                                         .flag0 = q * all,
                                         .chunk = sg_chunk_rows(p->share[q].rows, all, tile)};
    /* The last step brings what the next rank owns. */
    for (int i = 0; i < p->ranks - 1; i++) {
        for (int c = 0; c < all; c++) {
            const int q = along(p, k, rank, c, -i);
            const int next = along(p, k, rank, c, 1);
            const sg_arrival *const from = &arrival[way(p, k, c) < 0][q];
            const sg_area src =
                i == 0 ? sg_moves_held(s, next) : sg_moves_arrived(s, rank, q, gathered);
            sg_moves_send_chunk(s, lane(p, k, c), q, src, next, gathered, from, c,
                                i == 0 ? NULL : from);
        }
    }
    const bool vendor = k->value[VENDOR] && p->gather != SG_GATHER_K;
    sg_gathering gathering = {.gathered = gathered, .vendor = vendor};
    const bool by_sub = vendor || k->value[BOTH];
    if (!k->value[SPLIT] && !vendor) launch(s, k);
    for (int i = 0; i < p->ranks; i++) {
        const int right = along(p, k, rank, 0, -i);
        const int left = along(p, k, rank, all - 1, -i);
        if (k->value[SPLIT] && !vendor && p->share[right].rows + p->share[left].rows > 0)
            launch(s, k);
        /* Own rows, and those that come one way alone to one launch, are
         * not told apart by sub-slice. */
        for (int c = 0; c < (i > 0 && by_sub ? all : 1); c++) {
            gathering.arrival = arrival[way(p, k, c) < 0];
            gathering.chunk = i > 0 && by_sub ? c + 1 : 0;
            sg_moves_gather_patches(s, &gathering, way(p, k, c) > 0 ? &right : &left, 1);
        }
    }
}

/* Product of sub-slice C of Q's rows at step I, with what the rank before has summed
 * so far.  It raises a flag for what is sent on; the vendor's launches raise none, and
 * the last of them is returned. */
static int scatter_sub(const sg_problem *p, const sg_knobs *k, int i, int c, int message, int inbox,
                       sg_sched *s)
{
    const int q = along(p, k, s->rank, c, -(i + 1));
    const bool last = q == s->rank;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int32_t flag = q * subs(p, k) + c;
    const sg_wait wait = sg_wait_one(along(p, k, s->rank, c, -1), flag);
    int launched = -1;
    int32_t x0 = 0;
    const int32_t rows = sub_rows(p, k, q, c, &x0);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(p, s->rank, q, x0, x0 + rows); sg_piece_next(&it, &piece);) {
        const bool vendor = k->value[VENDOR];
        const int64_t packed = p->share[q].base + piece.own_row;
        const sg_area sum = sg_area_of(s->rank, inbox, packed, piece.rows, 0, p->n);
        const int32_t to = all ? piece.row0 : piece.own_row;
        if (vendor)
            launched = sg_moves_vendor_patch(s, &piece, last, i > 0 ? &wait : NULL);
        else
            sg_moves_scatter_patch(s, &piece, i > 0, last);
        if (i > 0) sg_sched_add(s, sum, vendor ? NULL : &wait);
        sg_sched_to(s, last ? sg_area_of(s->rank, SG_C, to, piece.rows, 0, p->n)
                            : sg_area_of(s->rank, message, packed, piece.rows, 0, p->n));
        if ((!last || all) && !vendor) sg_sched_raise(s, s->rank, SG_PER_PATCH, flag);
    }
    return launched;
}

/* The open copy is of what scatter_sub has multiplied. */
static void after_product(const sg_knobs *k, int32_t flag, int launched, sg_sched *s)
{
    if (k->value[VENDOR])
        sg_sched_after(s, launched);
    else
        sg_sched_wait(s, sg_wait_one(s->rank, flag));
}

/* Sends the message for sub-slice C at step I to the next rank. */
static void send_sub(const sg_problem *p, const sg_knobs *k, int i, int c, int message, int inbox,
                     int launched, sg_sched *s)
{
    const int q = along(p, k, s->rank, c, -(i + 1));
    const int next = along(p, k, s->rank, c, 1);
    const int32_t flag = q * subs(p, k) + c;
    int32_t x0 = 0;
    const int32_t rows = sub_rows(p, k, q, c, &x0);
    const int64_t row = p->share[q].base + x0;
    sg_sched_copy(s, lane(p, k, c), SG_BY_ENGINE, sg_area_of(s->rank, message, row, rows, 0, p->n));
    after_product(k, flag, launched, s);
    sg_sched_to(s, sg_area_of(next, inbox, row, rows, 0, p->n));
    sg_sched_raise(s, next, SG_PER_PATCH, flag);
}

/* Sends sub-slice C of the finished rows of the rank I steps back on to the next rank: own ones
 * when they are multiplied, others when they have arrived. */
static void send_done(const sg_problem *p, const sg_knobs *k, int i, int c, int launched,
                      sg_sched *s)
{
    const int rank = s->rank;
    const int q = along(p, k, rank, c, -i);
    const int next = along(p, k, rank, c, 1);
    const int32_t flag = q * subs(p, k) + c;
    const int32_t done = p->ranks * subs(p, k) + flag;
    int32_t x0 = 0;
    const int32_t rows = sub_rows(p, k, q, c, &x0);
    sg_piece piece;
    for (sg_pieces it = sg_pieces_of(p, s->rank, q, x0, x0 + rows); sg_piece_next(&it, &piece);) {
        sg_sched_copy(s, lane(p, k, c), SG_BY_ENGINE,
                      sg_area_of(rank, SG_C, piece.row0, piece.rows, 0, p->n));
        if (i == 0)
            after_product(k, flag, launched, s);
        else
            sg_sched_wait(s, sg_wait_one(along(p, k, rank, c, -1), done));
        sg_sched_to(s, sg_area_of(next, SG_C, piece.row0, piece.rows, 0, p->n));
        sg_sched_raise(s, next, SG_PER_PATCH, done);
    }
}

/* All-reduce: what is finished goes round the ring. */
static void send_round(const sg_problem *p, const sg_knobs *k, const int *launched, sg_sched *s)
{
    const int32_t done = p->ranks * subs(p, k);
    for (int i = 0; i < p->ranks - 1; i++)
        for (int c = 0; c < subs(p, k); c++) send_done(p, k, i, c, launched[c], s);
    for (int q = 0; q < p->ranks && p->n > 0; q++) {
        if (q % OWNERS_OF_A_FLAG == 0) sg_sched_flag(s, 0);
        for (int c = 0; c < subs(p, k) && q != s->rank; c++) {
            int32_t x0 = 0;
            if (sub_rows(p, k, q, c, &x0) > 0)
                sg_sched_wait(s,
                              sg_wait_one(along(p, k, s->rank, c, -1), done + q * subs(p, k) + c));
        }
    }
}

static void build_scatter(const sg_problem *p, const sg_knobs *k, sg_sched *s)
{
    const int inbox = sg_sched_buf(s, SG_SYM, "inbox", p->m, p->n, SG_FIXED);
    const int message = sg_sched_buf(s, SG_LOCAL, "message", p->m, p->n, 0);
    const bool vendor = k->value[VENDOR];
    int launched[2 * (MOST_SUBS + MOST_TAPER)] = {0}; /* of the step at hand */
    for (int i = 0; i < p->ranks; i++) {
        if (!vendor && (i == 0 || k->value[SPLIT])) launch(s, k);
        for (int c = 0; c < subs(p, k); c++) {
            launched[c] = scatter_sub(p, k, i, c, message, inbox, s);
            if (vendor && i < p->ranks - 1) send_sub(p, k, i, c, message, inbox, launched[c], s);
        }
    }
    for (int i = 0; i < p->ranks - 1 && !vendor; i++)
        for (int c = 0; c < subs(p, k); c++) send_sub(p, k, i, c, message, inbox, -1, s);
    if (sg_problem_out(p) == SG_OUT_ALL) send_round(p, k, launched, s);
}

static void build(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    if (sg_problem_in(p) == SG_IN_GATHER)
        build_gather(p, knobs, rank, s);
    else
        build_scatter(p, knobs, s);
}

const sg_strategy sg_strategy_ring = {
    .name = "ring",
    .brief = "copies to a neighbour, own rows first or last (CommFuse, ring form)",
    .knob = {[SUB] = {"sub", 1, MOST_SUBS},
             [SPLIT] = {"split", 0, 1},
             [BLOCKS] = {"blocks", 0, SG_MOST_SMS},
             [TILE_M] = {"tile_m", 1, 4096},
             [TILE_N] = {"tile_n", 1, 4096},
             [BOTH] = {"both", 0, 1},
             [VENDOR] = {"vendor", 0, 1},
             [TAPER] = {"taper", 0, MOST_TAPER}},
    .accepts = accepts,
    .propose = propose,
    .build = build,
};
