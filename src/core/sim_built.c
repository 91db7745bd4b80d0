/* sim_built.c -- simulators, schedules that they build by themselves, and which ranks are mirror
 * images of others (sim.h).
 *
 * On a machine that looks the same from ranks r and r + period, schedules that are the same but for
 * the names of ranks and flags do the same at the same moments.  Then ranks 0 .. period - 1 stand
 * for all, and what rank r raises at q is what r's image raises at q's:
 *
 *     simulated   0 --raise i, flag f--> 5         period 2: 5 is an image of 1, four ranks on
 *     image       P - 4 --raise i, flag f'--> 1    f' is what rank P - 4 calls it
 *
 * Every rank's schedule is built and compared with the one it is said to be like, step by step; the
 * names of flags are taken from it on the way.  Nothing of it is kept, so memory does not grow with
 * the number of images. */
#include <stdlib.h>
#include <string.h>

#include "core/plan.h"
#include "core/sim_state.h"
#include "core/strategy.h"

struct sg_simulator {
    sg_sim sim;
    sg_sched *sched; /* of the ranks built last, and one more to compare with */
    int ranks;
    int32_t **mirror;
    int32_t *mirror_room;
};

sg_simulator *sg_simulator_new(void)
{
    return calloc(1, sizeof(sg_simulator));
}

void sg_simulator_free(sg_simulator *simulator)
{
    if (simulator == NULL) return;
    for (int r = 0; r < simulator->ranks; r++) {
        sg_sched_free(&simulator->sched[r]);
        free(simulator->mirror[r]);
    }
    free(simulator->sched);
    free(simulator->mirror);
    free(simulator->mirror_room);
    for (int i = 0; i < SG_MEM_COUNT; i++) free(simulator->sim.memory[i].data);
    sg_arena_free(&simulator->sim.arena);
    free(simulator);
}

shingle_status sg_simulate(sg_simulator *simulator, const sg_sched *sched, int ranks,
                           const sg_machine *machine, const sg_sim_options *options,
                           sg_sim_result *result_out)
{
    sg_sim *const m = &simulator->sim;
    m->sched = sched;
    m->ranks = m->all = ranks;
    m->mirror = NULL;
    return sg_sim_go(m, machine, options, result_out);
}

/* ---- Building -------------------------------------------------------------------------------- */

static shingle_status reserve(sg_simulator *simulator, int ranks)
{
    if (ranks <= simulator->ranks) return SHINGLE_OK;
    const int had = simulator->ranks;
    const size_t count = (size_t)ranks;
    sg_sched *const sched = realloc(simulator->sched, count * sizeof *sched);
    if (sched != NULL) simulator->sched = sched;
    int32_t **const mirror = realloc(simulator->mirror, count * sizeof *mirror);
    if (mirror != NULL) simulator->mirror = mirror;
    int32_t *const room = realloc(simulator->mirror_room, count * sizeof *room);
    if (room != NULL) simulator->mirror_room = room;
    if (sched == NULL || mirror == NULL || room == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory to simulate %d ranks", ranks);
    for (int r = had; r < ranks; r++) {
        memset(&sched[r], 0, sizeof sched[r]);
        mirror[r] = NULL;
        room[r] = 0;
    }
    simulator->ranks = ranks;
    return SHINGLE_OK;
}

/* ---- Images ---------------------------------------------------------------------------------- */

/* After how many ranks the machine looks the same again; 0: never. */
static int period_of(const sg_machine *machine, int ranks)
{
    int period = 1;
    if (machine->topology == SG_NODES) period = machine->node_ranks;
    if (machine->topology == SG_PCIE && machine->numa_ranks > 0) period = machine->numa_ranks;
    /* Workers of a pool go from rank to rank and favour none, but they do it in some order. */
    if (machine->pool > 0) return 0;
    if (period >= ranks) period = 1; /* all within the first half or node */
    return ranks % period == 0 && period < ranks ? period : 0;
}

typedef struct likeness {
    const sg_sched *of, *as; /* is AS the image of OF? */
    int shift, ranks;
    int32_t *wait_of; /* per rank: the wait or addend that waits for it */
} likeness;

static bool same_rank(likeness *l, int of, int as)
{
    return (of + l->shift) % l->ranks == as;
}

static bool same_areas(likeness *l, int32_t of, int32_t as, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const sg_area *const x = &l->of->to[of + i];
        const sg_area *const y = &l->as->to[as + i];
        if (x->rows != y->rows || x->cols != y->cols || !same_rank(l, x->rank, y->rank) ||
            l->of->buf[x->buf].wide != l->as->buf[y->buf].wide)
            return false;
    }
    return true;
}

/* Areas of a collective stand in the order of ranks, which is another one at each of them. */
static bool same_parts(likeness *l, const sg_step *of, const sg_step *as)
{
    double bytes[2] = {0, 0};
    double own[2] = {0, 0};
    double least[2] = {INFINITY, INFINITY};
    const sg_sched *const s[2] = {l->of, l->as};
    const sg_step *const step[2] = {of, as};
    for (int side = 0; side < 2; side++) {
        for (int32_t i = 0; i < of->tos; i++) {
            const double each = sg_sim_area_bytes(s[side], &s[side]->to[step[side]->to0 + i]);
            bytes[side] += each;
            if (i % l->ranks == s[side]->rank) own[side] += each;
            least[side] = fmin(least[side], each);
        }
    }
    return bytes[0] == bytes[1] && own[0] == own[1] && !(least[0] != least[1]) &&
           of->u.coll.kind == as->u.coll.kind && of->u.coll.sms == as->u.coll.sms &&
           of->u.coll.self.rows == as->u.coll.self.rows &&
           of->u.coll.self.cols == as->u.coll.self.cols;
}

static bool same_wait(likeness *l, const sg_wait *x, const sg_wait *y, int32_t row_x, int32_t row_y)
{
    if (x->per != y->per || !same_rank(l, x->by, y->by)) return false;
    return x->per != SG_PER_ROWS ||
           (x->row0 - row_x == y->row0 - row_y && x->rows == y->rows && x->chunk == y->chunk &&
            x->chunk_k == y->chunk_k && x->chunks_k == y->chunks_k);
}

/* In the same order, or rank by rank in the order of ranks at both: all of them are waited for. */
static bool same_waits(likeness *l, int32_t of, int32_t as, int32_t count, int32_t row_x,
                       int32_t row_y)
{
    const sg_wait *const x = &l->of->wait[of];
    const sg_wait *const y = &l->as->wait[as];
    int32_t i = 0;
    while (i < count && same_wait(l, &x[i], &y[i], row_x, row_y)) i++;
    if (i == count) return true;
    /* The first wait for each rank; those for the same rank stand behind it. */
    for (i = count; i-- > 0;) l->wait_of[x[i].by] = i;
    for (i = 0; i < count; i++) {
        const int by = (y[i].by - l->shift % l->ranks + l->ranks) % l->ranks;
        const int32_t like = l->wait_of[by];
        if (like < 0 || like >= count || !same_wait(l, &x[like], &y[i], row_x, row_y)) return false;
        l->wait_of[by] = like + 1;
    }
    return true;
}

/* Addends stand in the order of ranks, which is another one at each of them; for the time they take
 * they are a set. */
static bool same_adds(likeness *l, int32_t of, int32_t as, int32_t count, int32_t row_x,
                      int32_t row_y)
{
    int32_t plain = 0;
    for (int32_t i = 0; i < count; i++) {
        const sg_addend *const x = &l->of->add[of + i];
        if (x->awaited) l->wait_of[x->wait.by] = of + i;
        plain += !x->awaited;
    }
    for (int32_t i = 0; i < count; i++) {
        const sg_addend *const y = &l->as->add[as + i];
        plain -= !y->awaited;
        if (!y->awaited) continue;
        const int by = (y->wait.by - l->shift % l->ranks + l->ranks) % l->ranks;
        const int32_t like = l->wait_of[by];
        if (like < of || like >= of + count) return false;
        const sg_addend *const x = &l->of->add[like];
        l->wait_of[by] = -1; /* each stands for one */
        if (!x->awaited || x->area.rows != y->area.rows || x->area.cols != y->area.cols ||
            !same_wait(l, &x->wait, &y->wait, row_x, row_y))
            return false;
    }
    return plain == 0;
}

static bool same_raises(likeness *l, int32_t of, int32_t as, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const sg_raise *const x = &l->of->raise[of + i];
        const sg_raise *const y = &l->as->raise[as + i];
        if (x->per != y->per || !same_rank(l, x->at, y->at)) return false;
        if ((x->counter < 0) != (y->counter < 0)) return false;
        if (x->counter >= 0 && l->of->counter[x->counter] != l->as->counter[y->counter])
            return false;
    }
    return true;
}

static bool same_patch(likeness *l, const sg_patch *x, const sg_patch *y)
{
    return x->rows == y->rows && x->cols == y->cols && x->k1 - x->k0 == y->k1 - y->k0 &&
           x->slab == y->slab && x->raster == y->raster && x->width == y->width &&
           x->tile_n == y->tile_n && x->tile0 == y->tile0 && x->tiles == y->tiles &&
           x->goes_on == y->goes_on && x->waits == y->waits && x->adds == y->adds &&
           x->tos == y->tos && x->raises == y->raises &&
           same_waits(l, x->wait0, y->wait0, x->waits, x->row0, y->row0) &&
           same_adds(l, x->add0, y->add0, x->adds, x->row0, y->row0) &&
           same_areas(l, x->to0, y->to0, x->tos) && same_raises(l, x->raise0, y->raise0, x->raises);
}

/* Rows of a launch that depend on the same flags, in the order in which they are computed. */
typedef struct run_of_rows {
    const sg_sched *s;
    const sg_launch *launch;
    int32_t patch, wait; /* next */
    int32_t row;         /* of the patch, that the next wait begins with */
} run_of_rows;

typedef struct rows_alike {
    int32_t rows, cols, k0, k1, slab, raster;
    const sg_wait *wait; /* NULL: none */
} rows_alike;

/* A patch in groups of bands whose every wait is for whole groups is its waits' rows one after the
 * other, wherever patches begin and end.  False: the patch is something else. */
static bool is_in_groups(const sg_sched *s, const sg_launch *l, const sg_patch *p)
{
    const int64_t group =
        (int64_t)l->tile_m * (p->raster == SG_GROUPED && p->width > 0 ? p->width : 1);
    if (p->raster == SG_BY_COL || p->goes_on || p->more > 0 || p->tile_n > 0 || p->tiles > 0 ||
        p->adds > 0 || p->raises > 0 || p->tos != 1 || s->to[p->to0].rank != s->rank ||
        p->rows % group != 0)
        return false;
    int32_t row = p->row0;
    for (int32_t i = 0; i < p->waits; i++) {
        const sg_wait *const w = &s->wait[p->wait0 + i];
        if (w->per != SG_PER_ROWS || w->row0 != row || w->rows % group != 0) return false;
        row += w->rows;
    }
    return p->waits == 0 || row == p->row0 + p->rows;
}

static bool next_rows(run_of_rows *r, rows_alike *out)
{
    if (r->patch == r->launch->patch0 + r->launch->patches) return false;
    const sg_patch *const p = &r->s->patch[r->patch];
    *out = (rows_alike){.rows = p->rows,
                        .cols = p->cols,
                        .k0 = p->k0,
                        .k1 = p->k1,
                        .slab = p->slab,
                        .raster = p->raster << 8 | p->width};
    if (p->waits > 0) {
        out->wait = &r->s->wait[p->wait0 + r->wait];
        out->rows = out->wait->rows;
    }
    if (++r->wait >= p->waits) {
        r->wait = 0;
        r->patch++;
    }
    return true;
}

/* The same rows in the same order, cut into patches at other places. */
static bool same_rows(likeness *l, const sg_launch *x, const sg_launch *y)
{
    for (int32_t i = 0; i < x->patches; i++)
        if (!is_in_groups(l->of, x, &l->of->patch[x->patch0 + i])) return false;
    for (int32_t i = 0; i < y->patches; i++)
        if (!is_in_groups(l->as, y, &l->as->patch[y->patch0 + i])) return false;
    run_of_rows of = {.s = l->of, .launch = x, .patch = x->patch0};
    run_of_rows as = {.s = l->as, .launch = y, .patch = y->patch0};
    for (;;) {
        rows_alike a = {0};
        rows_alike b = {0};
        const bool more = next_rows(&of, &a);
        if (more != next_rows(&as, &b)) return false;
        if (!more) return true;
        if (a.rows != b.rows || a.cols != b.cols || a.k0 != b.k0 || a.k1 != b.k1 ||
            a.slab != b.slab || a.raster != b.raster || (a.wait == NULL) != (b.wait == NULL))
            return false;
        if (a.wait != NULL && !same_wait(l, a.wait, b.wait, a.wait->row0, b.wait->row0))
            return false;
    }
}

static bool same_launch(likeness *l, const sg_launch *x, const sg_launch *y)
{
    if (x->tile_m != y->tile_m || x->tile_n != y->tile_n || x->blocks != y->blocks ||
        x->vendor != y->vendor || x->norm != y->norm || x->visits != y->visits)
        return false;
    if (x->patches != y->patches) return same_rows(l, x, y);
    for (int32_t i = 0; i < x->patches; i++)
        if (!same_patch(l, &l->of->patch[x->patch0 + i], &l->as->patch[y->patch0 + i]))
            return same_rows(l, x, y);
    return true;
}

static bool same_step(likeness *l, const sg_step *x, const sg_step *y)
{
    if (x->kind != y->kind || x->lane != y->lane || x->waits != y->waits || x->tos != y->tos ||
        x->raises != y->raises || memcmp(x->after, y->after, sizeof x->after) != 0)
        return false;
    if (x->kind == SG_LAUNCH) return same_launch(l, &x->u.launch, &y->u.launch);
    if (!same_waits(l, x->wait0, y->wait0, x->waits, 0, 0) ||
        !same_raises(l, x->raise0, y->raise0, x->raises))
        return false;
    if (x->kind == SG_COLL) return same_parts(l, x, y);
    if (x->kind == SG_COPY &&
        (x->u.copy.carrier != y->u.copy.carrier || x->u.copy.src.rows != y->u.copy.src.rows ||
         x->u.copy.src.cols != y->u.copy.src.cols))
        return false;
    if (x->kind == SG_REDUCE &&
        (x->u.reduce.adds != y->u.reduce.adds ||
         !same_adds(l, x->u.reduce.add0, y->u.reduce.add0, x->u.reduce.adds, 0, 0)))
        return false;
    return same_areas(l, x->to0, y->to0, x->tos);
}

static bool is_image(likeness *l)
{
    const sg_sched *const x = l->of;
    const sg_sched *const y = l->as;
    if (x->steps != y->steps || x->raises != y->raises || x->peers != y->peers ||
        x->baked != y->baked)
        return false;
    for (int32_t i = 0; i < x->steps; i++)
        if (!same_step(l, &x->step[i], &y->step[i]) ||
            (sg_sched_copies(x, i) == 0) != (sg_sched_copies(y, i) == 0))
            return false;
    return true;
}

/* What AS raises at simulated ranks is what its original is told when it raises that. */
static void take_names(likeness *l, int period, int32_t *mirror)
{
    for (int32_t i = 0; i < l->as->raises; i++)
        if (l->as->raise[i].at < period) mirror[i] = l->as->raise[i].flag0;
}

/* Builds ranks 0 .. PERIOD - 1 and compares all others with them; *IMAGES tells if they are
 * alike. */
static shingle_status build_images(sg_simulator *simulator, const sg_problem *problem,
                                   const sg_strategy *strategy, const sg_knobs *knobs, int period,
                                   bool *images)
{
    *images = true;
    simulator->sim.full = false;
    SG_TRY(reserve(simulator, period + 1));
    for (int r = 0; r < period; r++) {
        sg_sched *const s = &simulator->sched[r];
        SG_TRY(sg_plan_build(problem, strategy, knobs, r, s));
        if (!sg_grow(&simulator->mirror[r], &simulator->mirror_room[r], s->raises,
                     sizeof *simulator->mirror[r]))
            return sg_fail(SHINGLE_ENOMEM, "no memory for the flags of %d ranks", problem->ranks);
        take_names(&(likeness){.as = s}, period, simulator->mirror[r]);
    }
    int32_t *const wait_of =
        sg_sim_get(&simulator->sim, SG_MEM_IMAGES, problem->ranks, sizeof *wait_of);
    if (simulator->sim.full)
        return sg_fail(SHINGLE_ENOMEM, "no memory to simulate %d ranks", problem->ranks);
    for (int r = 0; r < problem->ranks; r++) wait_of[r] = -1;
    sg_sched *const other = &simulator->sched[period];
    for (int r = period; r < problem->ranks && *images; r++) {
        SG_TRY(sg_plan_build(problem, strategy, knobs, r, other));
        likeness l = {&simulator->sched[r % period], other, r - r % period, problem->ranks,
                      wait_of};
        *images = is_image(&l);
        if (*images) take_names(&l, period, simulator->mirror[r % period]);
    }
    return SHINGLE_OK;
}

shingle_status sg_simulate_built(sg_simulator *simulator, const sg_problem *problem,
                                 const sg_strategy *strategy, const sg_knobs *knobs,
                                 const sg_machine *machine, const sg_sim_options *options,
                                 sg_sim_result *result_out)
{
    sg_sim *const m = &simulator->sim;
    const int period =
        options != NULL && options->every_rank ? 0 : period_of(machine, problem->ranks);
    bool images = false;
    if (period > 0) SG_TRY(build_images(simulator, problem, strategy, knobs, period, &images));
    if (images) {
        m->sched = simulator->sched;
        m->ranks = period;
        m->all = problem->ranks;
        m->mirror = (const int32_t *const *)simulator->mirror;
        return sg_sim_go(m, machine, options, result_out);
    }
    SG_TRY(reserve(simulator, problem->ranks));
    for (int r = 0; r < problem->ranks; r++)
        SG_TRY(sg_plan_build(problem, strategy, knobs, r, &simulator->sched[r]));
    return sg_simulate(simulator, simulator->sched, problem->ranks, machine, options, result_out);
}
