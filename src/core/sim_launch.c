/* sim_launch.c -- products on a rank's own SMs, see sim_state.h.
 *
 * A launch is a set of blocks, held as groups that act together:
 *
 *     blocks  0..99   |  tiles 0..99   |  tiles 132..231 |  ...
 *     blocks 100..131 | (wait) tiles 100..131 |  tiles 232..263 | ...
 *
 * A group that is free takes the next tiles of the list that can start together; when its first
 * round of them is computed they are stored.  Work is linear in steps, patches and waves, and in
 * tiles only where tiles have flags of their own. */
#include "core/sim_state.h"

/* ---- What a product costs -------------------------------------------------------------------- */

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

/* Bytes of a patch's rows and of its result. */
static double row_bytes(const sg_sched *s, const sg_patch *p)
{
    const double elements = (double)p->rows * ((double)(p->k1 - p->k0) + p->cols);
    return elements * sg_type_bytes(s->problem->type);
}

/* Bytes that it moves behind that, while its blocks have nothing to multiply: addends, of which
 * tagged ones are read and put back to rest, and sums so far that are left for another patch. */
static double late_bytes(const sg_sched *s, const sg_patch *p)
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

/* SMs that have no tile leave power and a cache's bandwidth to those that do: of A's launch tiles
 * are left, or so many SMs are not wanted. */
static double beside_idle(const sg_machine *machine, const sg_sim_agent *a)
{
    const double busy = fmin((double)a->left_tiles, machine->sms - a->spared) / machine->sms;
    return busy < 1 ? 1 - machine->idle_part * (1 - busy) : 1;
}

/* What a rank does at the same time slows its tiles down. */
static double contention(const sg_sim *m, int rank)
{
    const sg_machine *const machine = m->machine;
    double factor = 1;
    if (m->rank[rank].moving > 0 && machine->gemm_by_copy > 1) factor *= machine->gemm_by_copy;
    if (m->rank[rank].colls > 0 && machine->gemm_by_coll > 1) factor *= machine->gemm_by_coll;
    return factor;
}

/* A visit of US while storers of the launch carry pushes: until the last of them has left, the
 * product is slower. */
static double beside_pushes(const sg_sim *m, int rank, double us)
{
    const sg_machine *const machine = m->machine;
    const double lost = machine->push_part;
    const double left =
        machine->launch_us - m->now + sg_sim_us_of(m->rank[rank].pushing, machine->store_gbps);
    if (lost <= 0 || left <= 0 || m->rank[rank].couriers > 0) return us;
    return us / (1 - lost) < left ? us / (1 - lost) : us + lost * left;
}

/* A product of MATH whose operands and result take MEMORY by themselves.  The nearer the shorter
 * one comes to the longer, the more often one waits for the other. */
static double beside_memory(const sg_machine *machine, double math, double memory)
{
    const double longer = fmax(math, memory);
    const double shorter = fmin(math, memory);
    return longer > 0 ? longer + machine->mem_part * shorter * shorter / longer : 0;
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
        const int64_t bytes = sg_sched_element_bytes(s, s->add[p->add0 + i].area.buf);
        const double each = more && i > 0 ? machine->more_add_us : machine->add_us;
        us += each * (double)bytes / sg_type_bytes(s->problem->type);
    }
    return us;
}

/* Where all tiles are multiplied at once, addends come when the product is over, and there is no
 * other one to add them beside: what those behind the first take from the last flag on (four
 * H200s: 256x6144x6144 scattered 67 us, priced at 56 without this;
 * results/gpu/unseen_4xh200_v1.json).  More than two have not been measured. */
static double behind_us(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                        const sg_sim_agent *a, const sg_patch *p)
{
    enum { MOST = 2 };
    if (l->visits > a->room || p->k0 >= p->k1 || p->adds < 2 || adds_tags(s, p)) return 0;
    return machine->add_us * (double)sg_min(p->adds - 1, MOST);
}

/* Of what addends take, the part that no other product of so many US hides: a tile of such a shape
 * leaves while the next one is computed, and up to three addends come where it leaves, if nothing
 * else is done to it (kernel/sums_sm90.cuh). */
static double late_part(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                        const sg_patch *p, double us)
{
    const bool epilogue = p->final && sg_problem_has_epilogue(s->problem);
    const bool ordered = p->own_rounded || p->own_at <= 1;
    const bool hides = p->adds <= 3 && p->waits == 0 && ordered && !epilogue &&
                       us >= 2 * machine->add_us + adding_us(machine, s, p);
    return hides ? tile_of(machine, l).late : 1;
}

/* Do blocks of L multiply another tile while one of P waits for its addends?  They have two under
 * way, in turn; or it is who stores that waits. */
static bool waits_in_turn(const sg_machine *machine, const sg_sched *s, const sg_launch *l,
                          const sg_patch *p, double us)
{
    return adds_onto(machine, p) || (p->adds > 0 && late_part(machine, s, l, p, us) < 1);
}

/* Tiles of a launch that are multiplied. */
static double products_of(const sg_sched *s, const sg_launch *l)
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

/* The part of what all SMs multiply that those with tiles of M x N reach whose rows come.  SMs that
 * go along k in step ask the L2 for the same lines at the same time, and it joins that; those that
 * wait do not, and a tile smaller than 128 x 160 is then fed more slowly than it multiplies.  Not
 * so a CALL's, whose function is the user's. */
static double fed_part(const sg_machine *machine, const sg_patch *p, int32_t m, int32_t n,
                       bool call)
{
    const double enough = 1.0 / 128 + 1.0 / 160;
    if (p->waits == 0 || machine->fed_part <= 0 || call) return 1;
    return fmin(1, fmax(machine->fed_part, enough / (1.0 / m + 1.0 / n)));
}

/* What a visit of P takes at least where whatever its SM reads comes a stage of k at a time, beside
 * warps that take rows. */
static double least_us(const sg_machine *machine, const sg_patch *p)
{
    enum { STAGE_K = 64 };
    return machine->stage_us * (double)sg_ceil_div(p->k1 - p->k0, STAGE_K);
}

/* A visit of a patch: tiles at its edges cost as much as whole ones, but for calls of the user. */
static double visit_us(const sg_sim *m, const sg_sched *s, const sg_launch *l,
                       const sg_sim_agent *a)
{
    const sg_patch *const p = &s->patch[a->patch];
    const sg_machine *const machine = m->machine;
    const double tiles = (double)sg_walk_bands(p, l->tile_m) * (double)sg_walk_cols(p, l->tile_n);
    const bool call = s->problem->call;
    const double rows = (double)(call ? p->rows : sg_round_up(p->rows, l->tile_m));
    const int32_t width = sg_walk_width(p, l->tile_n);
    const double cols = (double)(call ? p->cols : sg_round_up(p->cols, width));
    const double depth = (double)(p->k1 - p->k0);
    const double part = call ? 1 : sg_machine_tile_part(machine, l->tile_m, width);
    const double flops = depth > 0 ? part * sg_problem_flops(s->problem, rows, cols, depth) : 0;
    const double shape = shape_of(machine, l->tile_m, width).rate;
    const double fed = fed_part(machine, p, l->tile_m, width, call);
    const double rate = flops_us(machine, s->problem) * fmin(shape, fed);
    const double product =
        fmax(sg_sim_least_us(machine, s, p, l->tile_m, width),
             with_burst(machine, machine->burst, m->now, flops * machine->sms / (rate * tiles)));
    const double late = late_part(machine, s, l, p, product);
    const bool joined = depth > 0 && m->machine->pool == 0 && sg_sched_is_joined(s, l);
    if (joined && a->patch > l->patch0) return 0; /* with the first one's */
    const double math = (adds_tags(s, p) ? 0 : machine->visit_us) + product;
    /* The memory serves all blocks that have a tile, of other patches of the launch, too, where
     * no cache holds B: other owners' and other strips'.  But sums of tagged tiles are no tiles of
     * their own. */
    const double whole_b = (double)s->problem->n * depth * sg_type_bytes(s->problem->type);
    const double together = sg_sim_is_tagged(m, s, l)    ? products_of(s, l)
                            : sg_sim_is_held(m, whole_b) ? (double)a->stretch.tiles
                                                         : l->visits;
    const double at_once = fmin(together, busy_blocks(m, a));
    const double most = machine->sm_gbps > 0 ? 1 / machine->sm_gbps : 0;
    const double unit = fmax(at_once / machine->mem_gbps, most) / (tiles * 1e3);
    const double in_step = (row_bytes(s, p) + sg_sim_b_read(m, s, l, a, 0)) * unit;
    const double apart = sg_sim_apart(in_step, math * (double)p->rows / rows, fed);
    const double b_read = joined ? sg_sim_b_bytes(s, p) : sg_sim_b_read(m, s, l, a, apart);
    const double memory = (row_bytes(s, p) + b_read) * unit;
    /* While other blocks multiply, a block has twice its share. */
    const double adding = adding_us(machine, s, p) + late_bytes(s, p) * unit / 2;
    const double visit = late * adding + beside_memory(machine, math, memory);
    return m->rank[a->rank].takes ? fmax(visit, least_us(machine, p)) : visit;
}

/* The vendor's product, begun at BEGIN, has no waves: libraries split k and choose among many
 * tiles.  Only a product of few tiles and deep k shows. */
static double vendor_us(const sg_machine *machine, const sg_problem *problem, double rows,
                        double cols, double depth, double share, double bytes, double begin)
{
    double edge = 1e18;
    for (int i = 0; i < machine->tiles; i++) {
        const double tile = (double)machine->tile[i].m * machine->tile[i].n;
        if (tile < edge) edge = tile;
    }
    const double rate = flops_us(machine, problem) * (machine->vendor > 0 ? machine->vendor : 1);
    double us = sg_problem_flops(problem, rows, cols, depth) / (rate * share);
    const double least = problem->call ? 0 : 2 * edge * depth / 8 * machine->sms / rate;
    const double part = problem->call ? 1 : sg_machine_asked_part(machine, rows, cols);
    const double memory = sg_sim_us_of(bytes, machine->mem_gbps * part);
    if (us < least) us = least;
    return beside_memory(machine, vendor_with_burst(machine, begin, us), memory);
}

/* Storing the last tiles of the vendor's product, which are dealt to all SMs: EPILOGUE_US is that
 * of one of the machine's first shape. */
static double vendor_epilogue_us(const sg_machine *machine, double rows, double cols)
{
    const double first = (double)machine->tile[0].m * machine->tile[0].n;
    return machine->epilogue_us * fmin(1, rows * cols / machine->sms / first);
}

/* The same of a launch of our own, whose threads store rows side by side.  Sums of tagged data have
 * been counted with what they wait for. */
static double epilogue_us(const sg_sim *m, const sg_sched *s, const sg_launch *l)
{
    double rows = 0;
    if (sg_sim_is_tagged(m, s, l)) return 0;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++)
        rows = fmax(rows, s->patch[i].rows);
    return m->machine->epilogue_us * fmin(1, rows / m->machine->tile[0].m);
}

double sg_sim_overhead_us(const sg_machine *machine, const sg_problem *problem, double rows)
{
    if (rows <= 0 || problem->n == 0 || machine->pool > 0) return 0;
    return machine->launch_us + vendor_epilogue_us(machine, rows, (double)problem->n);
}

double sg_sim_alone_us(const sg_machine *machine, const sg_problem *problem, double rows)
{
    if (rows <= 0 || problem->n == 0) return 0;
    const double n = (double)problem->n;
    const double k = (double)problem->k;
    const double bytes = ((rows + n) * k + rows * n) * sg_type_bytes(problem->type);
    const double us = vendor_us(machine, problem, rows, n, k, 1, bytes, 0);
    return us + sg_sim_overhead_us(machine, problem, rows);
}

/* ---- Groups of blocks ------------------------------------------------------------------------ */

/* One group of all that are free at about this time: moments apart cost little and make many small
 * groups.  NULL: none is. */
static sg_sim_group *free_group(sg_sim *m, sg_sim_agent *a)
{
    sg_sim_group *into = NULL;
    for (int32_t i = 0; i < a->groups; i++) {
        sg_sim_group *const g = &a->group[i];
        if (g->tiles == 0 && g->free_us <= m->now && (into == NULL || g->free_us < into->free_us))
            into = g;
    }
    const double until = into != NULL ? into->free_us + a->moment : 0;
    for (int32_t i = a->groups; into != NULL && i-- > 0;) {
        sg_sim_group *const g = &a->group[i];
        if (g == into || g->tiles > 0 || g->free_us > until) continue;
        into->blocks += g->blocks;
        if (into->free_us < g->free_us) into->free_us = g->free_us;
        if (into->idle_us < g->idle_us) into->idle_us = g->idle_us;
        *g = a->group[--a->groups];
        if (into == &a->group[a->groups]) into = g;
    }
    return into;
}

static void tell_group(const sg_sim *m, const sg_sim_agent *a, const sg_sim_group *g, bool works,
                       double begin, double end)
{
    if (m->visit == NULL || end <= begin) return;
    sg_sim_tell(m, &(sg_span){.kind = works ? SG_SPAN_WORK : SG_SPAN_WAIT,
                              .rank = a->rank,
                              .lane = a->lane,
                              .peer = SG_NONE,
                              .step = a->step,
                              .patch = g->patch,
                              .tile0 = g->tile0,
                              .tiles = works ? g->tiles : 0,
                              .blocks = g->blocks,
                              .begin_us = begin,
                              .end_us = end});
}

/* How many of the tiles behind the first can start with it, which can at *START. */
static int32_t start_together(sg_sim *m, sg_sim_agent *a, const sg_launch *l, const sg_patch *p,
                              int32_t most, double visit, double free_us, double *start)
{
    int32_t taken = 1;
    for (; taken < most; taken++) {
        double other = free_us;
        if (sg_sim_tile_start(m, a, l, p, a->tile + taken, visit, &other) != NULL) break;
        if (other < *start - a->moment || other > *start + a->moment) break;
        if (*start < other) *start = other;
    }
    return taken;
}

/* Gives the free group G the next tiles that can start together; returns a flag that is missing for
 * the first of them, or NULL. */
static sg_sim_slot *take_tiles(sg_sim *m, sg_sim_agent *a, const sg_launch *l, sg_sim_group *g)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_patch *const p = &s->patch[a->patch];
    const int32_t tiles = sg_walk_visits(p, l->tile_m, l->tile_n);
    sg_sim_find_step(m, s, l, a);
    const double alone = visit_us(m, s, l, a) * beside_idle(m->machine, a);
    const double visit = beside_pushes(m, a->rank, alone * contention(m, a->rank));
    /* A tile whose last flag has just come may have begun long ago: it needs some only at the
     * end. */
    const double begun = g->free_us;
    double start = begun;
    a->moment = visit / 128;
    a->behind = behind_us(m->machine, s, l, a, p);
    if (a->ready_patch != a->patch) sg_sim_forget_bands(m, a, l, p);
    sg_sim_slot *const missing = sg_sim_tile_start(m, a, l, p, a->tile, visit, &start);
    if (missing != NULL) return missing;

    int32_t taken = sg_walk_min(g->blocks, tiles - a->tile);
    int32_t rounds = 1;
    if (sg_sim_waits_by_tile(s, p)) {
        taken = start_together(m, a, l, p, taken, visit, g->free_us, &start);
    } else if (taken == g->blocks) {
        /* Several waves at once while many are left. */
        rounds = (tiles - a->tile) / (8 * (a->got > 0 ? a->got : 1));
        if (rounds < 1) rounds = 1;
    }
    if (taken < g->blocks && a->groups < SG_SIM_GROUPS) {
        a->group[a->groups++] = (sg_sim_group){
            .free_us = g->free_us, .idle_us = g->idle_us, .blocks = g->blocks - taken};
        g->blocks = taken;
    }
    g->patch = a->patch;
    g->tile0 = a->tile;
    g->tiles = taken * rounds;
    g->rounds = rounds;
    g->visit_us = visit;
    g->store_us = g->due_us = start + visit > m->now ? start + visit : m->now;
    g->free_us = g->store_us + (rounds - 1) * visit;
    if (start > g->idle_us + a->moment) tell_group(m, a, g, false, g->idle_us, start);
    tell_group(m, a, g, true, start, g->free_us);
    if (rounds == 1 && waits_in_turn(m->machine, s, l, p, visit)) g->free_us = begun + visit;
    a->tile += g->tiles;
    a->left_tiles -= g->tiles;
    if (a->tile == tiles) {
        a->patch++;
        a->tile = 0;
    }
    return NULL;
}

/* Stores what the group has computed, unless the link still carries too much of what was stored
 * before, or what the launch has to carry first: then its staging memory is not free. */
static void store_group(sg_sim *m, sg_sim_agent *a, const sg_launch *l, sg_sim_group *g)
{
    const sg_sim_rank *const r = &m->rank[a->rank];
    const sg_sched *const s = &m->sched[a->rank];
    const sg_patch *const p = &s->patch[g->patch];
    if (a->in_flight > a->most_bytes || (r->pushes > 0 && r->couriers == 0)) {
        g->stalled = true;
        return;
    }
    const double waited = m->now - g->due_us;
    if (waited > 0) g->free_us += waited;
    if (a->products < 0) a->products = products_of(s, l); /* once: a launch may have many patches */
    g->free_us += g->rounds * sg_sim_own_stores_us(m, s, l, p, fmin(a->got, a->products));
    sg_sim_store_tiles(m, a, l, g->patch, g->tile0, g->tiles, g->rounds, g->blocks, g->visit_us);
    g->tiles = 0;
    g->idle_us = g->free_us;
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void begin_products(sg_sim *m, const sg_sim_agent *a)
{
    if (m->rank[a->rank].products++ == 0) sg_sim_contend(m, a->rank);
}

static void end_products(sg_sim *m, sg_sim_agent *a)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_launch *const l = &s->step[a->step].u.launch;
    const sg_patch *const p = &s->patch[l->patch0];
    if (--m->rank[a->rank].products == 0) sg_sim_contend(m, a->rank);
    sg_sim_end_step(m, a,
                    m->now + (l->vendor && l->patches > 0
                                  ? vendor_epilogue_us(m->machine, p->rows, p->cols)
                                  : epilogue_us(m, s, l)));
}

/* A wave's worth of tiles may be on its way to peers while the next one is computed. */
static double most_in_flight(const sg_sched *s, const sg_launch *l, int32_t blocks)
{
    double most = 0;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        double bytes = 0;
        for (int32_t j = p->to0; j < p->to0 + p->tos; j++)
            if (s->to[j].rank != s->rank) bytes += sg_sched_element_bytes(s, s->to[j].buf);
        bytes *= (double)sg_walk_min(l->tile_m, p->rows) * sg_walk_min(l->tile_n, p->cols);
        if (most < bytes) most = bytes;
    }
    return most * blocks * 1.001;
}

static void run_vendor(sg_sim *m, sg_sim_agent *a, const sg_launch *l)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_patch *const p = &s->patch[l->patch0];
    const double share = (double)a->got / m->machine->sms;
    const double us = vendor_us(m->machine, s->problem, p->rows, p->cols, p->k1 - p->k0, share,
                                row_bytes(s, p) + sg_sim_b_bytes(s, p), m->now);
    /* What it adds to is read behind the product. */
    const double late = sg_sim_us_of(late_bytes(s, p), m->machine->mem_gbps);
    a->phase = SG_AT_LAST;
    m->rank[a->rank].product_flow = sg_sim_send(m, SG_FLOW_PRODUCT, (int32_t)(a - m->agents),
                                                a->rank, a->rank, us + late, 1, 0);
}

void sg_sim_end_vendor(sg_sim *m, sg_sim_agent *a)
{
    m->rank[a->rank].product_flow = SG_NONE;
    end_products(m, a);
}

void sg_sim_start_launch(sg_sim *m, sg_sim_agent *a)
{
    const sg_sched *const s = &m->sched[a->rank];
    const sg_launch *const l = &s->step[a->step].u.launch;
    const int32_t sms = m->machine->sms;
    const int32_t most = l->blocks > 0 && l->blocks < sms ? l->blocks : sms;
    const int32_t room = most - m->rank[a->rank].couriers;
    const bool deals = m->machine->idle_part > 0 && !l->vendor && l->visits > room &&
                       sg_walk_alike(&s->patch[l->patch0], l->patches);
    const int32_t blocks = deals ? sg_walk_even(l->visits, room) : room;
    a->room = room;
    a->spared = room - blocks;
    if (!sg_sim_take_sms(m, a, 1, blocks, !l->vendor)) return;
    a->begun_us = a->now;
    a->patch = l->patch0;
    a->tile = 0;
    a->left_tiles = l->visits;
    a->products = -1;
    a->stretch.end = a->step_end = l->patch0;
    a->step_begin = a->step_tiles = 0;
    a->ready_patch = SG_NONE;
    a->phase = SG_AT_MOVE;
    a->pending = 0;
    a->in_flight = 0;
    a->most_bytes = most_in_flight(s, l, blocks);
    a->moment = 0;
    a->group = &m->groups[(size_t)(a - m->agents) * SG_SIM_GROUPS];
    a->group[0] = (sg_sim_group){.free_us = a->now + m->machine->launch_us,
                                 .idle_us = a->now + m->machine->launch_us,
                                 .blocks = a->got};
    a->groups = 1;
    begin_products(m, a);
    sg_sim_agent_at(m, a, a->now + m->machine->launch_us);
}

void sg_sim_grow_launch(sg_sim *m, sg_sim_agent *a, int32_t blocks)
{
    if (a->groups < SG_SIM_GROUPS)
        a->group[a->groups++] =
            (sg_sim_group){.free_us = m->now, .idle_us = m->now, .blocks = blocks};
    else
        a->group[0].blocks += blocks;
    sg_sim_agent_at(m, a, m->now);
}

/* Blocks that find no more tiles are given back. */
static void give_back(sg_sim *m, sg_sim_agent *a)
{
    int32_t blocks = 0;
    for (int32_t i = a->groups; i-- > 0;) {
        if (a->group[i].tiles > 0 || a->group[i].free_us > m->now) continue;
        blocks += a->group[i].blocks;
        a->group[i] = a->group[--a->groups];
    }
    /* It would grow again by what it gives back. */
    a->want = a->least = a->got;
    if (blocks > 0) sg_sim_give_sms(m, a, blocks);
}

/* When the launch does something next. */
static double next_moment(const sg_sim_agent *a, bool takes)
{
    double next = INFINITY;
    for (int32_t i = 0; i < a->groups; i++) {
        const sg_sim_group *const g = &a->group[i];
        if (g->stalled || (g->tiles == 0 && !takes)) continue;
        const double us = g->tiles > 0 ? g->store_us : g->free_us;
        if (next > us) next = us;
    }
    return next;
}

void sg_sim_run_launch(sg_sim *m, sg_sim_agent *a)
{
    const sg_launch *const l = &m->sched[a->rank].step[a->step].u.launch;
    if (l->vendor && l->patches > 0) { /* a rank's product may have no rows */
        run_vendor(m, a, l);
        return;
    }
    for (int32_t i = 0; i < a->groups; i++) {
        sg_sim_group *const g = &a->group[i];
        if (g->tiles > 0 && !g->stalled && g->store_us <= m->now) store_group(m, a, l, g);
    }
    const int32_t end = l->patch0 + l->patches;
    sg_sim_slot *missing = NULL;
    while (a->patch < end && missing == NULL) {
        sg_sim_group *const g = free_group(m, a);
        if (g == NULL) break;
        missing = take_tiles(m, a, l, g);
    }
    if (missing != NULL) sg_sim_park(m, a, &missing->parked);
    if (a->patch == end) give_back(m, a);
    if (a->groups == 0) {
        if (a->pending == 0) end_products(m, a);
        return;
    }
    const double next = next_moment(a, missing == NULL);
    if (next < INFINITY) sg_sim_agent_at(m, a, next);
}
