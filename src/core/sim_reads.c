/* sim_reads.c -- how often a launch reads B from memory, see sim_state.h.
 *
 * Blocks that begin tiles of the same columns at the same moment go along k in step: one of them
 * brings a line of B, the others find it in a cache.  Who begins later reads it again, if the cache
 * has been filled with other columns meanwhile:
 *
 *     own rows                   |########|               B
 *     a peer's, when they come       |########|           B again
 *     those of the next one              |########|       and again
 *
 * Rows that come are cut into patches where their buffer begins anew, which is after other owners
 * at each rank.  Nothing here may depend on that: what counts is a stretch of such patches, and
 * the owners whose rows it waits for. */
#include "core/blocks.h"
#include "core/sim_state.h"

double sg_sim_b_bytes(const sg_sched *s, const sg_patch *p)
{
    return (double)p->cols * (double)sg_walk_depth(p) * sg_type_bytes(s->problem->type);
}

bool sg_sim_is_held(const sg_sim *m, double bytes)
{
    return bytes <= sg_machine_cached_bytes(m->machine);
}

/* Of COUNT bands or columns. */
static bool are_paired(int32_t count)
{
    return sg_blocks_share_odd(sg_round_up(count, 2), count);
}

bool sg_sim_launch_adds_onto(const sg_sched *s, const sg_launch *l)
{
    return l->patches > 0 && s->patch[l->patch0 + l->patches - 1].onto;
}

/* Of A and B, by odd_gbps, if rows of k elements are no whole sectors.  Tiles of bands in pairs
 * share B, and narrow ones A: see serves() in kernel/gemm.cu.  Those of 192 columns add onto C in
 * no cluster. */
static double lines_us(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                       const sg_patch *p, int32_t tile_n)
{
    enum { NARROW = 128, TALL = 128, SINGLE = 192 };
    const int32_t tile_m = l->tile_m;
    const int unit = sg_type_bytes(s->problem->type);
    if (machine->odd_gbps <= 0 || !sg_problem_straddles(s->problem)) return 0;
    const bool single = tile_n == SINGLE && sg_sim_launch_adds_onto(s, l);
    double lines = tile_m + tile_n;
    if (tile_m >= TALL && !single && are_paired(sg_walk_bands(p, tile_m)))
        lines -= tile_n / 2.0;
    else if (tile_m >= TALL && tile_n <= NARROW && are_paired(sg_walk_cols(p, tile_n)))
        lines -= tile_m / 2.0;
    return sg_sim_us_of(lines * (double)sg_walk_depth(p) * unit, machine->odd_gbps);
}

double sg_sim_stages_us(const sg_machine *machine, double depth)
{
    enum { STAGE_K = 64 };
    return machine->stage_least_us * ceil(depth / STAGE_K);
}

double sg_sim_least_us(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                       const sg_patch *p, int32_t tile_n)
{
    enum { PIECE = 32, WHOLE = 64 };
    if (s->problem->call || p->k0 >= p->k1) return 0;
    const double leave =
        tile_n % WHOLE == 0 ? 0 : machine->piece_us * (double)sg_ceil_div(tile_n, PIECE);
    return fmax(sg_sim_stages_us(machine, (double)sg_walk_depth(p)),
                fmax(leave, lines_us(machine, s, l, p, tile_n)));
}

/* ---- Stretches ------------------------------------------------------------------------------- */

static bool reads_same_b(const sg_patch *p, const sg_patch *q)
{
    return p->col0 == q->col0 && p->cols == q->cols && p->k0 == q->k0 && p->k1 == q->k1;
}

bool sg_sim_has_many(const sg_machine *machine, const sg_sched *s, const sg_launch *l)
{
    return machine->patch_us > 0 && !s->problem->call && l->patches > SG_SIM_FEW_PATCHES;
}

/* Bands one by one are cut where rows of other owners lie between. */
static bool are_bands(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                      const sg_patch *p, const sg_patch *q)
{
    return sg_sim_has_many(machine, s, l) && p->waits == 0 && q->waits == 0 &&
           sg_walk_bands(p, l->tile_m) == 1 && sg_walk_bands(q, l->tile_m) == 1;
}

static bool continues(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                      const sg_patch *p, const sg_patch *q)
{
    const bool come = p->waits > 0 && q->waits > 0 && p->a.buf == q->a.buf;
    return (come || are_bands(machine, s, l, p, q)) && reads_same_b(p, q);
}

/* Owners that a patch waits for: the rows of one come together, those of another at another
 * moment.  One that waits for none counts as one. */
static int32_t owners_of(const sg_sched *s, const sg_patch *p)
{
    int32_t owners = 1;
    for (int32_t i = p->wait0 + 1; i < p->wait0 + p->waits; i++)
        owners += s->wait[i].by != s->wait[i - 1].by;
    return owners;
}

/* The stretch that begins with PATCH. */
static sg_sim_stretch stretch_at(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                                 int32_t patch)
{
    const sg_patch *const first = &s->patch[patch];
    const bool grouped = first->raster == SG_GROUPED && first->width > 0;
    sg_sim_stretch found = {.groups = !grouped, .end = patch};
    while (found.end < l->patch0 + l->patches) {
        const sg_patch *const p = &s->patch[found.end];
        if (p != first && !continues(machine, s, l, first, p)) break;
        found.rows += p->rows;
        found.tiles += sg_walk_visits(p, l->tile_m, l->tile_n);
        found.owners += owners_of(s, p);
        if (grouped) found.groups += sg_walk_div(sg_walk_bands(p, l->tile_m), first->width);
        found.end++;
    }
    return found;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* The part of its columns that a stretch from P on no longer finds in a cache, when the rows of the
 * next owner, or a part of their k, come that it waits for: none where the memory can have filled
 * three quarters of the cache meanwhile, all where it can have filled five.  AHEAD: the first
 * tiles of the launch wait for nothing; otherwise parts of k begin with the others, and all but
 * `several_behind` do where several owners' come, by what gathers of one wave take (four H200s:
 * 512x7168x8192 in 128x256 119 us, predicted 106 in step and 133 behind). */
static double part_behind(const sg_sim *m, const sg_sched *s, const sg_sim_agent *a,
                          const sg_patch *p, const sg_sim_stretch *of, bool ahead)
{
    const sg_machine *const machine = m->machine;
    const int32_t slabs = sg_walk_slabs(p);
    if (p->waits == 0 || sg_sim_is_held(m, sg_sim_b_bytes(s, p))) return 0;
    if (slabs > 1 && !ahead) return 0;
    const double row_bytes = (double)sg_walk_depth(p) * sg_type_bytes(s->problem->type);
    const double bytes = row_bytes * (double)of->rows / of->owners / slabs;
    const sg_sim_rank *const r = &m->rank[a->rank];
    const double push_gbps = r->early ? machine->store_gbps : r->push_gbps;
    const double lag_us =
        r->couriers > 0
            ? machine->launch_us + sg_sim_us_of(bytes, push_gbps) + machine->store_us
            : machine->copy_us + sg_sim_us_of(bytes, machine->copy_gbps) + machine->flag_us;
    const double fill_us = sg_sim_us_of(sg_machine_cached_bytes(machine), machine->mem_gbps);
    const double several_behind = 0.4;
    const double part = slabs > 1 && s->problem->ranks > 2 ? several_behind : 1;
    return part * fmin(1, fmax(0, 2 * lag_us / fill_us - 1.5));
}

/* Is it a strip of B that a cache holds? */
static bool is_held_strip(const sg_sim *m, const sg_sched *s, const sg_patch *p)
{
    return p->cols < s->problem->n && sg_sim_is_held(m, sg_sim_b_bytes(s, p));
}

/* The next stretches of the launch that read B in step, in the same wave: until the end of the
 * second one, and those of a strip of columns later, too, if together they fill it; or that find
 * their strip of it in a cache. */
static void find_step(const sg_sim *m, const sg_sched *s, const sg_launch *l, sg_sim_agent *a)
{
    const sg_patch *const from = &s->patch[a->patch];
    const int64_t blocks = a->got;
    int64_t all = 0;
    a->step_begin += a->step_tiles;
    a->step_tiles = 0;
    a->step_behind = 0;
    a->step_end = a->patch;
    const bool ahead = from->waits == 0 && a->step_begin == 0;
    for (int32_t i = a->patch; i < l->patch0 + l->patches;) {
        const sg_patch *const p = &s->patch[i];
        const sg_sim_stretch next = stretch_at(m->machine, s, l, i);
        all += next.tiles;
        i = next.end;
        const int64_t end = a->step_begin + all;
        const bool early = end <= 2 * blocks && a->step_begin / blocks == (end - 1) / blocks;
        const bool near = end <= 2 * blocks || p->cols < s->problem->n;
        const bool fills = near && all <= blocks && 4 * all > 3 * blocks;
        const bool held = is_held_strip(m, s, p);
        const double behind = part_behind(m, s, a, p, &next, ahead);
        if (p != from && (!reads_same_b(from, p) || behind >= 1)) break;
        if (p != from && all > blocks && !early && !held) break;
        if (p != from && !early && !fills && !held) continue; /* with those behind it, perhaps */
        a->step_tiles = all;
        a->step_end = next.end;
        a->step_behind = fmax(a->step_behind, behind);
    }
}

void sg_sim_find_step(const sg_sim *m, const sg_sched *s, const sg_launch *l, sg_sim_agent *a)
{
    if (a->patch >= a->stretch.end) a->stretch = stretch_at(m->machine, s, l, a->patch);
    if (a->patch >= a->step_end) find_step(m, s, l, a);
}

/* B as often as a stretch reads it whose rows come at so many moments. */
static double reads(const sg_sim_agent *a, int32_t groups, int32_t moments)
{
    const double waves = ceil((double)a->stretch.tiles / moments / a->got);
    return moments * fmin(sg_walk_div(groups, moments), waves);
}

double sg_sim_b_read(const sg_sim *m, const sg_sched *s, const sg_launch *l, const sg_sim_agent *a,
                     double apart)
{
    const sg_patch *const p = &s->patch[a->patch];
    const sg_sim_stretch *const of = &a->stretch;
    const double b = sg_sim_b_bytes(s, p);
    const double own = sg_walk_visits(p, l->tile_m, l->tile_n);
    const int32_t groups = sg_sim_is_held(m, b) ? 1 : of->groups;
    const double in_step = reads(a, groups, 1) / (double)a->step_tiles;
    const double alone = reads(a, groups, sg_walk_min(of->owners, groups)) / (double)of->tiles;
    return b * own * (in_step + fmax(a->step_behind, apart) * (alone - in_step));
}

double sg_sim_apart(double memory, double math, double fed)
{
    enum { FROM = 6, TO = 10, SOONER = 15 }; /* tenths of the products' time */
    const double most = 0.6 + fmin(0.2, 1 - fed);
    const double tenths = (math > 0 ? 10 * memory / math : 0) + SOONER * (1 - fed);
    return most * fmin(1, fmax(0, (tenths - FROM) / (TO - FROM)));
}
