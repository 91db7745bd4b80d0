/* sim_product.c -- what a product costs, see sim_state.h: a tile of a launch beside what else SMs,
 * memory and links have to do, and the vendor's.  docs/machine.md says it in words. */
#include "core/blocks.h"
#include "core/sched_rules.h"
#include "core/sim_state.h"

static sg_tile shape_of(const sg_machine *machine, int32_t tile_m, int32_t tile_n)
{
    sg_tile tile = {tile_m, tile_n, 1, 1};
    for (int i = 0; i < machine->tiles; i++)
        if (machine->tile[i].m == tile_m && machine->tile[i].n == tile_n) tile = machine->tile[i];
    if (tile.rate <= 0) tile.rate = 1;
    if (tile.late <= 0) tile.late = 1;
    return tile;
}

static sg_tile tile_of(const sg_machine *machine, const sg_launch *l)
{
    return shape_of(machine, l->tile_m, l->tile_n);
}

/* Flops per microsecond of all SMs together. */
static double flops_us(const sg_machine *machine, const sg_problem *problem)
{
    return machine->gemm_tflops[problem->type] * 1e6;
}

/* US of a product that begins at BEGIN, where the first microseconds of a run go faster, by
 * BURST. */
static double with_burst(const sg_machine *machine, double burst, double begin, double us)
{
    if (burst <= 1 || begin >= machine->burst_us) return us;
    const double first = machine->burst_us - begin;
    return us <= first * burst ? us / burst : us - first * (burst - 1);
}

static double vendor_with_burst(const sg_machine *machine, double begin, double us)
{
    const double burst = machine->vendor_burst > 0 ? machine->vendor_burst : machine->burst;
    return with_burst(machine, burst, begin, us);
}

double sg_sim_row_bytes(const sg_sched *s, const sg_patch *p)
{
    const double elements = (double)p->rows * ((double)sg_walk_depth(p) + p->cols);
    return elements * sg_type_bytes(s->problem->type);
}

double sg_sim_late_bytes(const sg_sched *s, const sg_patch *p)
{
    int64_t bytes = 0;
    for (int32_t i = p->add0; i < p->add0 + p->adds; i++) {
        const int buf = s->add[i].area.buf;
        bytes += sg_sched_element_bytes(s, buf) * (s->buf[buf].tagged ? 2 : 1);
    }
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++) {
        const int64_t each = sg_sched_element_bytes(s, s->to[i].buf);
        if (s->to[i].rank == s->rank && each > sg_type_bytes(s->problem->type)) bytes += each;
    }
    return (double)bytes * p->rows * p->cols;
}

double sg_sim_beside_idle(const sg_machine *machine, const sg_sim_agent *a)
{
    const double busy = fmin((double)a->left_tiles, machine->sms - a->spared) / machine->sms;
    return busy < 1 ? 1 - machine->idle_part * (1 - busy) : 1;
}

double sg_sim_contention(const sg_sim *m, int rank)
{
    const sg_machine *const machine = m->machine;
    double factor = 1;
    if (m->rank[rank].moving > 0 && machine->gemm_by_copy > 1) factor *= machine->gemm_by_copy;
    if (m->rank[rank].colls > 0 && machine->gemm_by_coll > 1) factor *= machine->gemm_by_coll;
    return factor;
}

double sg_sim_beside_pushes(const sg_sim *m, int rank, double us)
{
    const sg_machine *const machine = m->machine;
    const double lost = machine->push_part;
    const double left =
        machine->launch_us - m->now + sg_sim_us_of(m->rank[rank].pushing, machine->store_gbps);
    if (lost <= 0 || left <= 0 || m->rank[rank].couriers > 0) return us;
    return us / (1 - lost) < left ? us / (1 - lost) : us + lost * left;
}

/* A product of MATH whose operands and result take MEMORY by themselves.  The nearer the shorter
 * one comes to the longer, the more often one waits for the other: PART of it. */
static double beside_memory(double part, double math, double memory)
{
    const double longer = fmax(math, memory);
    const double shorter = fmin(math, memory);
    return longer > 0 ? longer + part * shorter * shorter / longer : 0;
}

/* Tagged tiles are added up by the blocks that have computed them, without a tile of the ring for
 * it: neither as a visit nor by their number do they cost anything. */
static bool adds_tags(const sg_sched *s, const sg_patch *p)
{
    return p->adds > 0 && s->buf[s->add[p->add0].area.buf].tagged;
}

/* Is what P adds added where it lies, by who stores the tile? */
static bool adds_onto(const sg_machine *machine, const sg_patch *p)
{
    return p->onto && machine->onto_us > 0;
}

/* What the addends of a visit cost beside their bytes: under a product those behind the first have
 * come by the time that it has, and sums in f32 take twice as long. */
static double adding_us(const sg_machine *machine, const sg_sched *s, const sg_patch *p)
{
    const bool more = p->k0 < p->k1 && machine->more_add_us > 0;
    double us = 0;
    if (adds_onto(machine, p)) return machine->onto_us;
    for (int32_t i = 0; i < p->adds && !adds_tags(s, p); i++) {
        const sg_addend *const add = &s->add[p->add0 + i];
        const int64_t bytes = sg_sched_element_bytes(s, add->area.buf);
        const bool here = add->area.buf == SG_C && !add->awaited && machine->here_us > 0;
        const double first = here ? machine->here_us : machine->add_us;
        const double each = more && i > 0 ? machine->more_add_us : first;
        us += each * (double)bytes / sg_type_bytes(s->problem->type);
    }
    return us;
}

/* Of what addends take, the part that no other product of so many US hides: a tile of such a shape
 * leaves while the next one is computed, and up to three addends come where it leaves, if nothing
 * else is done to it (kernel/sums_sm90.cuh). */
static double late_part(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                        const sg_patch *p, double us)
{
    const bool epilogue = p->final && sg_problem_has_epilogue(s->problem);
    const bool ordered = p->own_rounded || p->own_at <= 1;
    const bool waits = p->waits > 0 || p->more > 0;
    const bool hides = p->adds <= 3 && !waits && ordered && !epilogue &&
                       us >= 2 * machine->add_us + adding_us(machine, s, p);
    return hides ? tile_of(machine, l).late : 1;
}

bool sg_sim_waits_pingpong(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                           const sg_patch *p, double us)
{
    return adds_onto(machine, p) || (p->adds > 0 && late_part(machine, s, l, p, us) < 1);
}

double sg_sim_products(const sg_sched *s, const sg_launch *l)
{
    double tiles = 0;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++)
        if (s->patch[i].k0 < s->patch[i].k1)
            tiles += sg_walk_visits(&s->patch[i], l->tile_m, l->tile_n);
    return tiles;
}

/* Blocks that compute a tile beside the next one: those that are free and find one, and others
 * until they have half of a visit left, by what is left from then on. */
static double busy_blocks(const sg_sim *m, const sg_sim_agent *a)
{
    double busy = (double)a->left_tiles;
    for (int32_t i = 0; i < a->groups; i++) {
        const sg_sim_group *const g = &a->group[i];
        const double left_us = g->tiles > 0 ? fmax(0, g->free_us - m->now) : 0;
        if (left_us > 0) busy += g->blocks * fmin(1, 2 * left_us / g->visit_us);
    }
    return fmin(busy, a->got);
}

/* Are tiles of a launch in no cluster, because P has a band too many, and of so many waves that
 * they do not go along k in step by themselves? */
static bool are_single(const sg_machine *machine, const sg_launch *l, const sg_patch *p)
{
    enum { TALL = 128, IN_STEP_WAVES = 2 };
    return l->tile_m >= TALL && sg_walk_bands(p, l->tile_m) % 2 != 0 &&
           l->visits > (int64_t)IN_STEP_WAVES * machine->sms;
}

/* What those keep of their rate where their storers carry rows, which bring them out of step: two
 * H200s, owners of five and seven bands, 1 to 11 % of five gathers (1280x10520x7040 in 128x160 280
 * us, by engine 260; of six bands nothing; results/gpu/alternatives_2xh200_v1.json).  Narrower
 * tiles than those are fed slowly by themselves. */
static double beside_pushes(const sg_sim *m, const sg_sched *s, const sg_launch *l,
                            const sg_patch *p)
{
    enum { NARROW = 128 };
    const bool gpu = m->machine->pool == 0 && !s->problem->call && l->tile_n > NARROW;
    return gpu && m->rank[s->rank].pushing > 0 && are_single(m->machine, l, p) ? 0.94 : 1;
}

/* Owners of single bands have many patches: every block walks the list of them.  Two H200s,
 * 4096x3712x3968 scattered in turns of 64 rows, in 64x256: 296, 311, 380 and 529 us in 64, 128, 256
 * and 512 patches, 196 in two (results/gpu/forms_2xh200_v3.json). */
static double walking_us(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                         const sg_sim_agent *a)
{
    if (!sg_sim_has_many(machine, s, l)) return 0;
    const double more = (double)l->patches - SG_SIM_FEW_PATCHES;
    return more * machine->patch_us * a->got / fmax(a->got, (double)l->visits);
}

/* What low tiles of such a launch keep of their rate, which have no other band beside them and are
 * fed more slowly. */
static double beside_bands(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                           const sg_patch *p)
{
    enum { TALL = 128, IN_STEP_WAVES = 2 };
    const bool low = l->tile_m < TALL && sg_walk_bands(p, l->tile_m) == 1;
    const bool waves = l->visits > (int64_t)IN_STEP_WAVES * machine->sms;
    return low && waves && p->waits == 0 && sg_sim_has_many(machine, s, l) ? 0.7 : 1;
}

/* The part of what all SMs multiply that those with tiles of N columns reach whose rows come.  SMs
 * that go along k in step ask the L2 for the same lines at the same time, and it joins that; those
 * that wait do not, and a tile smaller than 128 x 160 is then fed more slowly than it multiplies;
 * of a single wave, smaller than 128 x 128, and none where the cache holds B anyway (64x256, 384
 * rows gathered of 5120x8192 65 us, predicted 72, and of 3072x4096 33, predicted 42;
 * results/gpu/rows_2xh200_v2.json).  Nor do single tiles that are added onto C (two H200s,
 * 1280x9088x3424 all-reduced in 128x128, five bands an owner: 149 us, by owners of columns 132).
 * Not so a call's, whose function is the user's. */
static double fed_part(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                       const sg_patch *p, int32_t n, bool held)
{
    if (machine->fed_part <= 0 || s->problem->call) return 1;
    const bool single = sg_sim_launch_adds_onto(s, l) && are_single(machine, l, p);
    const bool wave = !single && l->visits <= machine->sms;
    const double enough = 1.0 / 128 + (wave ? 1.0 / 128 : 1.0 / 160);
    if ((p->waits == 0 && !single) || (wave && held)) return 1;
    return fmin(1, fmax(machine->fed_part, enough / (1.0 / l->tile_m + 1.0 / n)));
}

/* What a visit of P takes at least where whatever its SM reads comes a stage of k at a time, beside
 * warps that take rows. */
static double least_us(const sg_machine *machine, const sg_patch *p)
{
    enum { STAGE_K = 64 };
    return machine->stage_us * (double)sg_ceil_div(sg_walk_depth(p), STAGE_K);
}

static double tiles_of(const sg_launch *l, const sg_patch *p)
{
    return (double)sg_walk_tiles(p, l->tile_m, l->tile_n);
}

/* Rows of all tiles of a patch: those at its edge cost as much as whole ones, but for calls of the
 * user. */
static double rows_of(const sg_sched *s, const sg_launch *l, const sg_patch *p)
{
    return (double)(s->problem->call ? p->rows : sg_round_up(p->rows, l->tile_m));
}

/* What multiplying a tile of P takes by itself. */
static double product_us(const sg_sim *m, const sg_sched *s, const sg_launch *l, const sg_patch *p,
                         double fed)
{
    const sg_machine *const machine = m->machine;
    const bool call = s->problem->call;
    const int32_t width = sg_walk_width(p, l->tile_n);
    const double cols = (double)(call ? p->cols : sg_round_up(p->cols, width));
    const double depth = (double)sg_walk_depth(p);
    const double part = call ? 1 : sg_machine_tile_part(machine, l->tile_m, width);
    const double rows = rows_of(s, l, p);
    const double flops = depth > 0 ? part * sg_problem_flops(s->problem, rows, cols, depth) : 0;
    const double shape = shape_of(machine, l->tile_m, width).rate;
    const double rate = flops_us(machine, s->problem) * fmin(shape, fed) *
                        beside_pushes(m, s, l, p) * beside_bands(machine, s, l, p);
    const double us = flops * machine->sms / (rate * tiles_of(l, p));
    return fmax(sg_sim_least_us(machine, s, l, p, width),
                with_burst(machine, machine->burst, m->now, us));
}

static bool is_gated(const sg_problem *problem)
{
    return problem->act == SG_ACT_GELU || problem->act == SG_ACT_SILU;
}

/* What is done to that many numbers of a block before they are rounded. */
static double finishing_us(const sg_machine *machine, const sg_problem *problem, double numbers)
{
    enum { WHOLE = 128 * 256 };
    double us = problem->bias ? machine->bias_us : 0;
    if (problem->act == SG_ACT_RELU) us += machine->relu_us;
    if (is_gated(problem)) us += machine->gate_us;
    return us * numbers / WHOLE;
}

double sg_sim_behind_us(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                        const sg_sim_agent *a, const sg_patch *p)
{
    enum { MOST = 2 };
    if (p->adds == 0 || adds_tags(s, p)) return 0;
    const int32_t width = sg_walk_width(p, l->tile_n);
    const double finishing =
        p->final ? finishing_us(machine, s->problem, (double)l->tile_m * width) : 0;
    if (l->visits > a->room || p->k0 >= p->k1) return finishing;
    return finishing + machine->add_us * (double)sg_min(p->adds - 1, MOST);
}

static double waves_of(double tiles, double blocks)
{
    return fmax(1, ceil(tiles / fmax(1, blocks)));
}

/* What a tile of NUMBERS, one of WAVES, shows of ALL that is done to its sums behind a product of
 * US.  Ping-pong, a third of the next one's product hides first that the tile is stored, and then
 * what was done to it; the last one's is left.  (One H200, 2048x8192 in 128x128, eight waves: with
 * gelu 13.6, 10.3, 7.1 and 2.2 us more at k 512, 768, 1024 and 1536, with bias and silu 20, 19, 16
 * and 7, which this says within 1.5; results/gpu/endings_h200_v1.json.) */
static double shown_us(bool pingpong, double numbers, double all, double us, double waves)
{
    enum { WHOLE = 128 * 256 };
    const double hiding = 0.35, storing_us = 2.66 * numbers / WHOLE;
    const double hidden = fmin(all, fmax(0, hiding * us - storing_us));
    const double each = pingpong ? all - hidden : all;
    return each + (all - each) / waves;
}

double sg_sim_visit_us(const sg_sim *m, const sg_sched *s, const sg_launch *l,
                       const sg_sim_agent *a)
{
    const sg_patch *const p = &s->patch[a->patch];
    const sg_machine *const machine = m->machine;
    const double depth = (double)sg_walk_depth(p);
    const bool joined = depth > 0 && machine->pool == 0 && sg_sched_is_joined(s, l);
    if (joined && a->patch > l->patch0) return 0; /* with the first one's */
    const int32_t width = sg_walk_width(p, l->tile_n);
    /* The memory serves all blocks that have a tile, of other patches of the launch, too, where
     * no cache holds B: other owners' and other strips'.  But sums of tagged tiles are no tiles of
     * their own. */
    const double whole_b = (double)s->problem->n * depth * sg_type_bytes(s->problem->type);
    const bool held = sg_sim_is_held(m, whole_b);
    const double together = sg_sim_is_tagged(m, s, l) ? sg_sim_products(s, l)
                            : held                    ? (double)a->stretch.tiles
                                                      : l->visits;
    const double at_once = fmin(together, busy_blocks(m, a));
    const double fed = fed_part(machine, s, l, p, width, held);
    const double product = product_us(m, s, l, p, fed);
    const double numbers = p->final ? (double)l->tile_m * width : 0;
    const double finishing = shown_us(
        p->adds == 0 && p->tile_n == 0 && tile_of(machine, l).late < 1, numbers,
        finishing_us(machine, s->problem, numbers), product, waves_of((double)l->visits, a->got));
    const double math = (adds_tags(s, p) ? 0 : machine->visit_us + finishing) + product;
    const double most = machine->sm_gbps > 0 ? 1 / machine->sm_gbps : 0;
    const double unit = fmax(at_once / machine->mem_gbps, most) / (tiles_of(l, p) * 1e3);
    const double in_step = (sg_sim_row_bytes(s, p) + sg_sim_b_read(m, s, l, a, 0)) * unit;
    const double apart = sg_sim_apart(in_step, math * (double)p->rows / rows_of(s, l, p), fed);
    const double b_read = joined ? sg_sim_b_bytes(s, p) : sg_sim_b_read(m, s, l, a, apart);
    const double memory = (sg_sim_row_bytes(s, p) + b_read) * unit;
    /* While other blocks multiply, a block has twice its share. */
    const double adding = adding_us(machine, s, p) + sg_sim_late_bytes(s, p) * unit / 2;
    const double late = late_part(machine, s, l, p, product);
    const double visit = late * adding + beside_memory(machine->mem_part, math, memory) +
                         walking_us(machine, s, l, a);
    return m->rank[a->rank].takes ? fmax(visit, least_us(machine, p)) : visit;
}

/* ROWS as the vendor's product takes them, whose tiles they do not fill: a third of what a tile of
 * 128 lacks costs as much as if it were there (two H200s: 96 products of 129 to 1023 rows, whose
 * times it finds within 5 %, on the average not at all; 2.5 % too low without). */
static double vendor_rows(double rows)
{
    enum { TALL = 128 };
    return rows <= TALL ? rows : rows + 0.3 * (TALL * ceil(rows / TALL) - rows);
}

double sg_sim_copied_us(const sg_machine *machine, const sg_problem *problem, double rows,
                        double cols, double depth)
{
    const double part = 0.6; /* of the memory's rate */
    if (problem->call || machine->pool > 0 || problem->type == SG_F32) return 0;
    const double read = sg_problem_has_odd_k(problem) ? (rows + cols) * depth : 0;
    const double stored = sg_problem_has_odd_n(problem) ? rows * cols : 0;
    const double elements = read + (problem->accumulate ? 2 : 1) * stored;
    return sg_sim_us_of(2 * elements * sg_type_bytes(problem->type), machine->mem_gbps * part);
}

/* A product of ours in the vendor's place, in tiles T. */
static double in_tiles_us(const sg_machine *machine, const sg_problem *problem,
                          const sg_sim_vendors *of, double begin, const sg_tile *t)
{
    const double tiles = ceil(of->rows / t->m) * ceil(of->cols / t->n);
    const double waves = waves_of(tiles, machine->sms * of->share);
    const double idle = fmax(0, 1 - tiles / machine->sms) * machine->idle_part;
    const double rate = flops_us(machine, problem) * t->rate;
    const double flops = sg_problem_flops(problem, t->m, t->n, of->depth);
    const double math = (1 - idle) * flops * machine->sms / rate;
    const double burst = with_burst(machine, machine->burst, begin, waves * math);
    const double product = fmax(burst, waves * sg_sim_stages_us(machine, of->depth));
    const double finishing = finishing_us(machine, problem, (double)t->m * t->n);
    return product + waves * shown_us(t->late < 1, (double)t->m * t->n, finishing, math, waves);
}

/* What ends in a gate is not the vendor's: ours is in the shape of tile that takes least, of the
 * file's or, where these are too few for the SMs, 64x64 (best_tile() in backend/cuda/lower.c). */
static double gated_us(const sg_machine *machine, const sg_problem *problem,
                       const sg_sim_vendors *of, double begin)
{
    sg_tile small = {.m = 64, .n = 64, .rate = 1, .late = 1};
    double least = INFINITY;
    for (int i = 0; i < machine->tiles; i++) {
        const sg_tile t = shape_of(machine, machine->tile[i].m, machine->tile[i].n);
        least = fmin(least, in_tiles_us(machine, problem, of, begin, &t));
        small.rate = fmin(small.rate, t.rate);
    }
    return fmin(least, in_tiles_us(machine, problem, of, begin, &small));
}

double sg_sim_vendor_us(const sg_machine *machine, const sg_problem *problem,
                        const sg_sim_vendors *of, double begin)
{
    double edge = 1e18;
    for (int i = 0; i < machine->tiles; i++) {
        const double tile = (double)machine->tile[i].m * machine->tile[i].n;
        if (tile < edge) edge = tile;
    }
    const double rate = flops_us(machine, problem) * (machine->vendor > 0 ? machine->vendor : 1);
    const bool vendor = !problem->call && machine->pool == 0;
    const double rows = vendor ? vendor_rows(of->rows) : of->rows;
    const double math = sg_problem_flops(problem, rows, of->cols, of->depth) / (rate * of->share);
    const double least = problem->call ? 0 : 2 * edge * of->depth / 8 * machine->sms / rate;
    const bool gated = vendor && of->final && is_gated(problem);
    const double split = gated ? 0 : of->depth; /* by libraries alone */
    const double part =
        problem->call ? 1 : sg_machine_asked_part(machine, of->rows, of->cols, split);
    const double memory = sg_sim_us_of(of->bytes, machine->mem_gbps * part);
    double us = vendor_with_burst(machine, begin, fmax(math, least));
    if (gated) us = fmax(us, gated_us(machine, problem, of, begin));
    return beside_memory(machine->mem_part, us, memory);
}

double sg_sim_vendor_epilogue_us(const sg_machine *machine, double rows, double cols)
{
    const double first = (double)machine->tile[0].m * machine->tile[0].n;
    return machine->epilogue_us * fmin(1, rows * cols / machine->sms / first);
}

double sg_sim_epilogue_us(const sg_sim *m, const sg_sched *s, const sg_launch *l)
{
    const sg_tile *const first = &m->machine->tile[0];
    const bool gathers = sg_problem_in(s->problem) != SG_IN_NONE && !m->rank[s->rank].takes;
    const bool wave = l->visits <= m->machine->sms;
    double rows = 0;
    if (sg_sim_is_tagged(m, s, l)) return 0;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++)
        rows = fmax(rows, s->patch[i].rows);
    if (!gathers || !wave) return m->machine->epilogue_us * fmin(1, rows / first->m);
    const double tile = fmin(rows, l->tile_m) * l->tile_n;
    return m->machine->epilogue_us * fmin(1, tile / ((double)first->m * first->n));
}

double sg_sim_overhead_us(const sg_machine *machine, const sg_problem *problem, double rows)
{
    if (rows <= 0 || problem->n == 0 || machine->pool > 0) return 0;
    return machine->launch_us + sg_sim_vendor_epilogue_us(machine, rows, (double)problem->n);
}

double sg_sim_alone_us(const sg_machine *machine, const sg_problem *problem, double rows)
{
    if (rows <= 0 || problem->n == 0) return 0;
    const double n = (double)problem->n;
    const double k = (double)problem->k;
    const double bytes = ((rows + n) * k + rows * n) * sg_type_bytes(problem->type);
    const sg_sim_vendors all = {rows, n, k, 1, bytes, true};
    return sg_sim_vendor_us(machine, problem, &all, 0) + sg_sim_overhead_us(machine, problem, rows);
}
