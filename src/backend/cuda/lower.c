/* lower.c -- a sealed schedule with the addresses of a rank: the lists of the schedule go to the
 * device as they are, but that areas name places (kernel.h) instead of buffers.  Nothing here is
 * done again for a run but filling in the user's tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/vendor.h"
#include "core/moves.h"
#include "core/sched_rules.h"

/* ---- Words ----------------------------------------------------------------------------------- */

static sg_kernel_words words_of(const sg_words *words)
{
    sg_kernel_words w = {.done = (uint64_t *)(void *)words->done,
                         .abort = (uint64_t *)(void *)words->abort,
                         .hello = (sg_kernel_hello *)(void *)words->hello};
    for (int i = 0; i < SG_FLAG_PAGES; i++) w.flag[i] = (uint64_t *)(void *)words->flag[i];
    return w;
}

_Static_assert(sizeof(sg_hello) == sizeof(sg_kernel_hello) &&
                   (int)SG_FLAG_PAGES == (int)SG_KERNEL_FLAG_PAGES &&
                   (int)SG_FLAG_PAGE0 == (int)SG_KERNEL_FLAG_PAGE0,
               "host and device see the same words");

static shingle_status show_words(sg_cuda *cuda, const sg_bound *bound)
{
    sg_kernel_words all[SG_CUDA_RANKS];
    for (int q = 0; q < cuda->ranks; q++) all[q] = words_of(bound->work->peer[q]);
    for (int q = 0; q < cuda->ranks; q++) {
        sg_cuda_rank *const rank = &cuda->rank[q];
        int caller = 0;
        SG_TRY(sg_cuda_enter(rank, &caller));
        const shingle_status status =
            sg_cuda_put(rank, rank->words, all, (size_t)cuda->ranks * sizeof all[0]);
        sg_cuda_leave(rank, caller);
        SG_TRY(status);
    }
    return SHINGLE_OK;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

typedef struct layout {
    size_t patch, wait, add, to, raise, raisers, push, move, words, end;
} layout;

static size_t take(size_t *at, int32_t count, size_t size)
{
    const size_t here = *at;
    *at = (here + (size_t)count * size + 15) / 16 * 16;
    return here;
}

/* Waits of addends of reductions, which are listed once more behind the waits of the schedule. */
static int32_t more_waits(const sg_sched *s)
{
    int32_t count = 0;
    for (int32_t i = 0; i < s->steps; i++)
        if (s->step[i].kind == SG_REDUCE) count += s->step[i].u.reduce.adds;
    return count;
}

static int32_t count_pushes(const sg_sched *s)
{
    int32_t count = 0;
    for (int32_t i = 0; i < s->steps; i++) count += sg_step_is_push(&s->step[i]);
    return count;
}

static layout lay_out(const sg_sched *s)
{
    layout l;
    size_t at = 0;
    l.patch = take(&at, s->patches, sizeof *s->patch);
    l.wait = take(&at, s->waits + more_waits(s), sizeof *s->wait);
    l.add = take(&at, s->adds, sizeof *s->add);
    l.to = take(&at, s->tos, sizeof *s->to);
    l.raise = take(&at, s->raises, sizeof *s->raise);
    l.raisers = take(&at, s->counters, sizeof *s->counter);
    l.push = take(&at, count_pushes(s), sizeof(sg_kernel_step));
    l.move = take(&at, sg_cuda_count_moves(s), sizeof(sg_kernel_move));
    l.words = take(&at, s->counters + s->steps, sizeof(uint32_t));
    l.end = at;
    return l;
}

static void copy_list(char *host, size_t at, const void *list, int32_t count, size_t size)
{
    if (count > 0) memcpy(host + at, list, (size_t)count * size);
}

static shingle_status make_lists(sg_cuda_plan *plan, const layout *l, void *const *landing)
{
    const sg_sched *const s = &plan->bound->sched;
    char *const host = calloc(1, l->end + 16);
    if (host == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to bind %s", plan->bound->text);
    plan->host = host;
    copy_list(host, l->patch, s->patch, s->patches, sizeof *s->patch);
    copy_list(host, l->wait, s->wait, s->waits, sizeof *s->wait);
    copy_list(host, l->add, s->add, s->adds, sizeof *s->add);
    copy_list(host, l->to, s->to, s->tos, sizeof *s->to);
    copy_list(host, l->raise, s->raise, s->raises, sizeof *s->raise);
    copy_list(host, l->raisers, s->counter, s->counters, sizeof *s->counter);
    sg_patch *const patch = (sg_patch *)(void *)(host + l->patch);
    sg_addend *const add = (sg_addend *)(void *)(host + l->add);
    sg_area *const to = (sg_area *)(void *)(host + l->to);
    sg_wait *const wait = (sg_wait *)(void *)(host + l->wait);
    int32_t waits = s->waits;
    for (int32_t i = 0; i < s->steps; i++) {
        if (s->step[i].kind != SG_REDUCE) continue;
        plan->step[i].adds_wait0 = waits;
        for (int32_t j = 0; j < s->step[i].u.reduce.adds; j++) {
            const sg_addend *const a = &s->add[s->step[i].u.reduce.add0 + j];
            if (a->awaited) wait[waits++] = a->wait;
        }
        plan->step[i].adds_waits = waits - plan->step[i].adds_wait0;
    }
    for (int32_t i = 0; i < s->patches; i++) {
        if (patch[i].k0 >= patch[i].k1) continue; /* reads nothing */
        SG_TRY(sg_cuda_name_place(plan, &patch[i].a, true, landing));
        SG_TRY(sg_cuda_name_place(plan, &patch[i].b, true, landing));
    }
    for (int32_t i = 0; i < s->adds; i++)
        SG_TRY(sg_cuda_name_place(plan, &add[i].area, true, landing));
    const bool summed = s->buf[SG_C].summed; /* by launches, which store all there is */
    for (int32_t i = 0; i < s->tos && !summed; i++)
        SG_TRY(sg_cuda_name_place(plan, &to[i], false, landing));
    for (int32_t i = 0; i < s->patches && summed; i++)
        for (int32_t j = patch[i].to0; j < patch[i].to0 + patch[i].tos; j++)
            SG_TRY(sg_cuda_name_place(plan, &to[j], patch[i].adds == 0, landing));
    for (int32_t i = 0; i < s->tos && plan->bound->problem.gather == SG_GATHER_B; i++)
        SG_TRY(sg_cuda_clip_place(plan, &to[i]));
    plan->push = (sg_kernel_step *)(void *)(host + l->push);
    plan->push_at = l->push;
    plan->move = (sg_kernel_move *)(void *)(host + l->move);
    plan->move_at = l->move;
    plan->lists = (sg_kernel_lists){patch, wait, add, to, (sg_raise *)(void *)(host + l->raise)};
    return SHINGLE_OK;
}

/* Launches by themselves take copies of matrices whose rows begin at odd bytes, if there are places
 * left for these. */
static shingle_status make_even(sg_cuda_rank *rank, sg_cuda_plan *plan, const layout *l)
{
    const sg_sched *const s = &plan->bound->sched;
    char *const host = plan->host;
    sg_addend *const add = (sg_addend *)(void *)(host + l->add);
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_launch *const launch = &s->step[i].u.launch;
        if (s->step[i].kind != SG_LAUNCH || !sg_cuda_is_plain(plan, i)) continue;
        sg_patch *const p = (sg_patch *)(void *)(host + l->patch) + launch->patch0;
        sg_area *area[SG_EVENS] = {[SG_EVEN_A] = &p->a,
                                   [SG_EVEN_B] = &p->b,
                                   [SG_EVEN_C] = (sg_area *)(void *)(host + l->to) + p->to0,
                                   [SG_EVEN_ADD] = p->adds > 0 ? &add[p->add0].area : NULL};
        SG_TRY(sg_cuda_make_even(rank, plan, i, area));
    }
    return SHINGLE_OK;
}

static shingle_status upload(const sg_cuda *cuda, sg_cuda_rank *rank, sg_cuda_plan *plan,
                             const layout *l)
{
    SG_TRY(sg_cuda_get(rank, l->end, &plan->device));
    SG_TRY(sg_cuda_put(rank, plan->device, plan->host, l->push));
    char *const device = plan->device;
    const sg_bound *const bound = plan->bound;
    plan->words = device + l->words;
    plan->words_bytes = l->end - l->words;
    sg_kernel_program *const p = &plan->program;
    p->rank = rank->state;
    p->patch = (sg_patch *)(void *)(device + l->patch);
    p->wait = (sg_wait *)(void *)(device + l->wait);
    p->add = (sg_addend *)(void *)(device + l->add);
    p->to = (sg_area *)(void *)(device + l->to);
    p->raise = (sg_raise *)(void *)(device + l->raise);
    p->raisers = (int32_t *)(void *)(device + l->raisers);
    p->count = plan->words;
    p->type = (int32_t)bound->problem.type;
    p->act = (int32_t)bound->problem.act;
    p->hash = bound->hash;
    p->baked = bound->sched.baked;
    p->limit_ns = (uint64_t)(cuda->timeout_us * 1000);
    p->own = words_of(&bound->work->words);
    return SHINGLE_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Elements from row to row of AREA, which names a place; what its offset is no
 * multiple of goes into *ODD. */
static int64_t stride_in(const sg_cuda_plan *plan, const sg_area *area, int64_t *odd)
{
    const sg_kernel_place *const place = &plan->program.place[area->buf];
    const int bytes = place->wide ? 4 : sg_type_bytes(plan->bound->problem.type);
    *odd |= area->row0 * place->pitch + (int64_t)area->col0 * bytes;
    return place->pitch / bytes;
}

/* With dense and aligned matrices of the user's. */
static sg_product_ask ask_for(const sg_cuda_plan *plan, const sg_launch *l)
{
    const sg_problem *const p = &plan->bound->problem;
    const sg_patch *const patch = &plan->lists.patch[l->patch0];
    const sg_area *const to = &plan->lists.to[patch->to0];
    const bool adds = patch->adds > 0;
    int64_t odd = 256;
    sg_product_ask ask = {.type = p->type,
                          .m = patch->rows,
                          .n = patch->cols,
                          .k = patch->k1 - patch->k0,
                          .bias = patch->final && p->bias,
                          .accumulate = adds,
                          .act = patch->final ? p->act : SG_ACT_NONE};
    ask.a_stride = stride_in(plan, &patch->a, &odd);
    ask.b_stride = stride_in(plan, &patch->b, &odd);
    ask.c_stride = stride_in(plan, to, &odd);
    const sg_area *const add = adds ? &plan->lists.add[patch->add0].area : to;
    ask.in_place = add->buf == to->buf && add->row0 == to->row0 && add->col0 == to->col0;
    ask.add_stride = stride_in(plan, add, &odd);
    if (ask.bias) odd |= (int64_t)patch->col0 * sg_type_bytes(p->type);
    ask.aligned = (uint32_t)(odd & -odd);
    return ask;
}

/* Cycles that a tile of M x N takes for what is done to its sums before they are rounded (H200s,
 * machines/h200x2.machine: bias 2 us of 128x256, relu 1.2, gelu and silu 3.5). */
static double finishing_cycles(const sg_problem *p, double m, double n)
{
    const double bias = 0.107, relu = 0.064, gate = 0.187;
    double each = p->bias ? bias : 0;
    if (p->act == SG_ACT_RELU) each += relu;
    if (p->act == SG_ACT_GELU || p->act == SG_ACT_SILU) each += gate;
    return each * m * n;
}

/* Whether the rows or columns of a patch end inside the matrix that it is stored into. */
typedef struct ends_inside {
    bool rows, cols;
} ends_inside;

/* For a launch that has no tile, being meant for the vendor.  An SM takes m n / 32 cycles for what
 * a tile multiplies of 64 of k, or 2.1 (m + n) until it has them; what is done to its sums half of
 * the next tile hides, ping-pong.  Of what ends INSIDE a matrix, tiles that are stored whole would
 * store over what is beside it, and pieces of 32 columns leave two rows at a time. */
static sg_kernel_tile best_tile(const sg_problem *p, const sg_patch *patch, ends_inside inside,
                                int sms)
{
    enum { TILES = 24, ANY = 1, PIECE = 32, WIDE = 64, STAGE_K = 64 };
    const int piece = inside.rows && patch->rows % 2 != 0 ? WIDE
                      : inside.rows || inside.cols        ? PIECE
                                                          : ANY;
    sg_kernel_tile tile[TILES], best = {.m = 64, .n = 64};
    double least = INFINITY;
    const int count = sg_kernel_tiles((enum sg_kernel_type)p->type, tile, TILES);
    const double stages = (double)sg_ceil_div(patch->k1 - patch->k0, STAGE_K);
    for (int i = 0; i < count; i++) {
        const double m = tile[i].m, n = tile[i].n;
        if (patch->adds > 0 ? !tile[i].adds : !tile[i].bare) continue;
        if (tile[i].n % piece != 0) continue;
        const int64_t tiles =
            sg_ceil_div(patch->rows, tile[i].m) * sg_ceil_div(patch->cols, tile[i].n);
        const double waves = (double)sg_ceil_div(tiles, sms);
        const double product = stages * fmax(m * n / 32, 2.1 * (m + n));
        const double finishing = patch->final ? finishing_cycles(p, m, n) : 0;
        const bool hides = tile[i].pingpong && patch->adds == 0;
        const double shown = hides ? fmax(0, finishing - product / 2) : finishing;
        const double cycles = waves * (product + shown) + finishing - shown;
        if (cycles < least) best = tile[i], least = cycles;
    }
    return best;
}

/* Of our kernel for a launch.  Cut at odd bytes it is for a slow kernel, by a tile that no fast one
 * has (test_choice.cpp). */
static sg_kernel_tile tile_of(const sg_bound *bound, const sg_launch *l, bool odd, int sms)
{
    enum { NONE_FAST = 256 };
    if (odd) return (sg_kernel_tile){.m = NONE_FAST, .n = NONE_FAST};
    if (!l->vendor || l->patches == 0) return (sg_kernel_tile){.m = l->tile_m, .n = l->tile_n};
    const sg_sched *const s = &bound->sched;
    const sg_patch *const patch = &s->patch[l->patch0];
    const sg_area *const to = &s->to[patch->to0];
    const sg_buf *const buf = &s->buf[to->buf];
    const ends_inside inside = {to->row0 + to->rows != buf->rows, to->col0 + to->cols != buf->cols};
    return best_tile(&bound->problem, patch, inside, sms);
}

/* A patch that is meant for the vendor has no order of tiles: one that a kernel of ours walks by
 * row reads B in every band (H200, 2048x12288x6144 with silu: 433 us, in groups of bands 410). */
static void order_tiles(const sg_cuda_rank *rank, sg_cuda_plan *plan, const layout *l)
{
    const sg_sched *const s = &plan->bound->sched;
    sg_patch *const patch = (sg_patch *)(void *)((char *)plan->host + l->patch);
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_launch *const launch = &s->step[i].u.launch;
        if (s->step[i].kind != SG_LAUNCH || !launch->vendor || launch->patches == 0) continue;
        const sg_kernel_tile tile = tile_of(plan->bound, launch, false, rank->sms);
        sg_patch *const p = &patch[launch->patch0];
        p->raster = SG_GROUPED;
        p->width = sg_moves_group(p->rows, tile.m, tile.n);
    }
}

/* What the plan's pushes are to the launch that carries them. */
static void give_pushes(sg_cuda_plan *plan, sg_kernel_gemm *gemm)
{
    gemm->param.push = (sg_kernel_step *)(void *)((char *)plan->device + plan->push_at);
    sg_kernel_count_pieces(plan->push + plan->pushes - plan->takes, plan->takes, plan->lists.raise);
    gemm->carried = plan->pushed_bytes;
    gemm->param.leaves |= plan->push_leaves;
}

static shingle_status make_launch(sg_cuda *cuda, sg_cuda_rank *rank, sg_cuda_plan *plan,
                                  int32_t index)
{
    const sg_launch *const l = &plan->bound->sched.step[index].u.launch;
    sg_cuda_step *const step = &plan->step[index];
    if (l->norm || (l->patches == 0 && plan->pushes == 0)) return SHINGLE_OK;
    /* The vendor's kernels are slow where n or k is odd, wherever rows begin: one of ours
     * multiplies the copies. */
    if (sg_cuda_is_vendor(rank, &plan->bound->sched, l) && step->even.which == 0) {
        const sg_product_ask ask = ask_for(plan, l);
        SG_TRY(sg_product_make(rank->vendor, &cuda->choice, &ask, sg_cuda_is_busy(cuda, rank),
                               &step->lt));
        /* For a run in another form one of our kernels stands by: the vendor's for that may have to
         * be loaded, which waits for all that runs here, and that for ranks yet to come. */
        if (cuda->ranks == 1) return SHINGLE_OK;
    }
    step->gemm = calloc(1, sizeof *step->gemm);
    if (step->gemm == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory to bind %s", plan->bound->text);
    const bool odd = !sg_cuda_is_cut_well(&plan->bound->sched, l) && step->even.which == 0;
    const sg_kernel_tile tile = tile_of(plan->bound, l, odd, rank->sms);
    if (odd && step->lt == NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED, "step %d of %s cuts rows at odd bytes", index,
                       plan->bound->text);
    if (l->blocks > rank->sms)
        return sg_fail(SHINGLE_EUNSUPPORTED, "step %d of %s wants %d SMs; this rank has %d", index,
                       plan->bound->text, l->blocks, rank->sms);
    const char *const why = sg_kernel_gemm_make(step->gemm, &plan->program, &plan->lists, index,
                                                l->patch0, l->patches, tile.m, tile.n, l->blocks);
    if (why != NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED, "step %d of %s: %s", index, plan->bound->text, why);
    step->gemm->sms = rank->sms, step->gemm->ranks = plan->bound->problem.ranks;
    const size_t maps = sg_kernel_remake_bytes(step->gemm),
                 seats = sg_kernel_seats_bytes(step->gemm);
    if (maps > 0) SG_TRY(sg_cuda_get(rank, maps, &step->remake));
    if (seats > 0) SG_TRY(sg_cuda_get(rank, seats, &step->seats));
    step->gemm->param.remake = step->remake, step->gemm->seats = step->seats;
    step->gemm->own_parts = sg_cuda_owns_parts(&plan->bound->sched, l);
    if (plan->bound->sched.step[index].lane == 0) give_pushes(plan, step->gemm);
    return SHINGLE_OK;
}

/* Is every raiser that counts in COUNTER a copy of an engine in LANE, among those of its raises
 * that have a bit? *LAST: the last of them. */
static bool is_of_one_lane(const sg_sched *s, int32_t counter, int lane, int32_t *last)
{
    for (int32_t i = 0; i < s->patches; i++)
        for (int32_t k = s->patch[i].raise0; k < s->patch[i].raise0 + s->patch[i].raises; k++)
            if (s->raise[k].counter == counter) return false;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        for (int32_t k = 0; step->kind != SG_LAUNCH && k < step->raises; k++) {
            if (s->raise[step->raise0 + k].counter != counter) continue;
            if (step->kind != SG_COPY || step->u.copy.carrier != SG_BY_ENGINE ||
                step->lane != lane || k >= SG_CUDA_RAISES)
                return false;
            *last = i;
        }
    }
    return true;
}

/* A copy engine raises by copying the epoch word.  If several copies of its lane raise a flag
 * together, the last one does it for all.  Other flags with several raisers need their counter, and
 * a kernel; which ones, all raisers of a flag must agree on. */
static void choose_raises(const sg_sched *s, int32_t index, sg_cuda_step *step)
{
    const sg_step *const copy = &s->step[index];
    for (int32_t i = 0; i < copy->raises && i < SG_CUDA_RAISES; i++) {
        const int32_t counter = s->raise[copy->raise0 + i].counter;
        int32_t last = index;
        if (counter >= 0 && !is_of_one_lane(s, counter, copy->lane, &last)) continue;
        if (last == index)
            step->raise_by_copy |= 1u << i;
        else
            step->raise_by_other |= 1u << i;
    }
}

/* A launch copies in units of 16 bytes, of rows whose bytes it counts in 32 bits; where the user's
 * matrices lie is each run's to see. */
static void add_push(sg_cuda_plan *plan, const sg_step *from, const sg_cuda_step *step)
{
    const sg_sched *const s = &plan->bound->sched;
    const sg_area *const src = &from->u.copy.src;
    const int64_t bytes = sg_sched_element_bytes(s, src->buf);
    bool fits = src->col0 * bytes % 16 == 0 && src->cols * bytes % 16 == 0;
    fits &= src->cols * bytes <= INT32_MAX;
    for (int32_t i = from->to0; i < from->to0 + from->tos; i++) {
        plan->push_leaves |= s->to[i].leave != 0;
        fits &= s->to[i].col0 * bytes % 16 == 0 && s->buf[s->to[i].buf].cols * bytes % 16 == 0;
    }
    plan->push_fits = fits && (plan->pushes == 0 || plan->push_fits);
    if (src->buf < SG_USER_BUFS) plan->pushed[src->buf] = true;
    if (sg_sched_is_take(s, from))
        plan->takes++;
    else
        plan->pushed_bytes += (int64_t)src->rows * src->cols * bytes * from->tos;
    plan->push[plan->pushes++] = step->flags;
}

static shingle_status make_step(sg_cuda *cuda, sg_cuda_rank *rank, sg_cuda_plan *plan,
                                int32_t index, void *const *landing)
{
    const sg_sched *const s = &plan->bound->sched;
    const sg_step *const from = &s->step[index];
    sg_cuda_step *const step = &plan->step[index];
    if (!sg_step_is_push(from)) plan->lanes |= 1u << from->lane;
    plan->collects |= from->kind == SG_COLL;
    for (int i = 0; i < 2; i++) { /* of steps that this one is after */
        const int32_t other = from->after[i];
        cudaEvent_t *const ended = other >= 0 ? &plan->step[other].ended : NULL;
        if (ended != NULL && *ended == NULL && s->step[other].lane != from->lane)
            SG_CUDA(cudaEventCreateWithFlags(ended, cudaEventDisableTiming));
    }
    step->flags = (sg_kernel_step){
        .step = index,
        .wait0 = from->wait0,
        .waits = from->waits,
        .to0 = from->to0,
        .tos = from->tos,
        .raise0 = from->raise0,
        .raises = from->raises,
        .ticket = (uint32_t *)plan->words + s->counters + index,
    };
    switch (from->kind) {
    case SG_LAUNCH: return make_launch(cuda, rank, plan, index);
    case SG_COPY:
        step->flags.src = from->u.copy.src;
        if (from->u.copy.carrier == SG_BY_ENGINE) choose_raises(s, index, step);
        SG_TRY(sg_cuda_name_place(plan, &step->flags.src, true, landing));
        if (sg_step_is_push(from)) add_push(plan, from, step);
        return SHINGLE_OK;
    case SG_REDUCE:
        step->flags.add0 = from->u.reduce.add0;
        step->flags.adds = from->u.reduce.adds;
        step->flags.final = from->u.reduce.final;
        return SHINGLE_OK;
    default: return SHINGLE_OK;
    }
}

/* ---- Bind ------------------------------------------------------------------------------------ */

static void free_plan(sg_cuda *cuda, sg_cuda_plan *plan)
{
    const int32_t steps = plan->step != NULL ? plan->bound->sched.steps : 0;
    for (int32_t i = 0; i < steps; i++) {
        if (plan->step[i].ended != NULL) (void)cudaEventDestroy(plan->step[i].ended);
        sg_product_free(plan->step[i].lt);
        sg_cuda_drop(cuda, plan->step[i].remake);
        sg_cuda_drop(cuda, plan->step[i].seats);
        sg_cuda_drop(cuda, plan->step[i].even.memory);
        free(plan->step[i].gemm);
    }
    sg_cuda_drop(cuda, plan->device);
    sg_cuda_drop(cuda, plan->home);
    free(plan->step);
    free(plan->away);
    free(plan->host);
    free(plan);
}

static shingle_status fill_plan(sg_cuda *cuda, sg_cuda_rank *rank, sg_cuda_plan *plan)
{
    sg_bound *const bound = plan->bound;
    const sg_sched *const s = &bound->sched;
    void *landing[SG_CUDA_RANKS] = {NULL};
    const layout l = lay_out(s);
    memset(plan->place_of, -1, sizeof plan->place_of);
    /* A while has passed since the last one. */
    (void)__atomic_add_fetch(&cuda->memory_changes, 1, __ATOMIC_RELAXED);
    plan->landed = -1;
    plan->step = calloc((size_t)s->steps + 1, sizeof *plan->step);
    if (plan->step == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to bind %s", bound->text);
    /* Who owns all columns, say, stores into peers' C, and nobody into its own. */
    const bool reached = sg_cuda_is_reached(bound);
    if (reached || sg_cuda_reaches_peers(bound))
        SG_TRY(sg_cuda_land(cuda, &bound->problem, landing));
    if (reached)
        SG_TRY(sg_cuda_new_place(plan, landing[rank->rank], landing[rank->rank], s->buf[SG_C].rows,
                                 bound->problem.n, false, &plan->landed));
    SG_TRY(sg_cuda_find_places(plan, rank->rank, landing));
    SG_TRY(make_lists(plan, &l, landing));
    /* What stands in no list gets its place, too, before launches copy the places. */
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind != SG_COPY && step->kind != SG_COLL) continue;
        if (step->kind == SG_COLL && step->u.coll.kind == SG_ALL_TO_ALL) continue;
        sg_area area = step->kind == SG_COPY ? step->u.copy.src : step->u.coll.self;
        SG_TRY(sg_cuda_name_place(plan, &area, true, landing));
    }
    SG_TRY(make_even(rank, plan, &l));
    order_tiles(rank, plan, &l);
    SG_TRY(upload(cuda, rank, plan, &l));
    for (int pass = 0; pass < 2; pass++) /* launches know what they carry */
        for (int32_t i = 0; i < s->steps; i++)
            if ((s->step[i].kind == SG_LAUNCH) == (pass == 1))
                SG_TRY(make_step(cuda, rank, plan, i, landing));
    /* Words of tagged data, never sent as if at rest, are for the kernel that takes some, too. */
    if (plan->takes == 0 && sg_sched_gathers_tagged(s)) plan->push_fits = false;
    if (plan->pushes > 0)
        SG_TRY(sg_cuda_put(rank, (char *)plan->device + l.push, plan->push,
                           (size_t)plan->pushes * sizeof *plan->push));
    SG_TRY(sg_cuda_make_moves(rank, plan));
    SG_TRY(sg_cuda_make_dense(rank, plan));
    SG_TRY(sg_cuda_make_home(rank, plan));
    sg_cuda_plan_protocol(plan);
    return SHINGLE_OK;
}

shingle_status sg_cuda_bind(void *self, sg_bound *bound)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[bound->work->rank];
    if (bound->problem.ranks > SG_CUDA_RANKS) return sg_cuda_too_many_places(bound);
    sg_cuda_plan *const plan = calloc(1, sizeof *plan);
    if (plan == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to bind %s", bound->text);
    plan->bound = bound;
    const enum cudaStreamCaptureMode mode = sg_cuda_relax();
    int caller = 0;
    shingle_status status = show_words(cuda, bound);
    if (status == SHINGLE_OK) status = sg_cuda_enter(rank, &caller);
    const bool entered = status == SHINGLE_OK;
    if (entered) status = fill_plan(cuda, rank, plan);
    if (status != SHINGLE_OK) free_plan(cuda, plan);
    if (entered) sg_cuda_leave(rank, caller);
    sg_cuda_restore(mode);
    SG_TRY(status);
    pthread_mutex_lock(&cuda->mutex);
    plan->next = rank->plans;
    rank->plans = plan;
    pthread_mutex_unlock(&cuda->mutex);
    bound->backend = plan;
    return SHINGLE_OK;
}

void sg_cuda_unbind(void *self, sg_bound *bound)
{
    sg_cuda *const cuda = self;
    sg_cuda_rank *const rank = &cuda->rank[bound->work->rank];
    sg_cuda_plan *const plan = bound->backend;
    const double seconds = 2 * cuda->timeout_us / 1e6 + 1;
    /* What goes on, behind a failure as well, keeps the plan. */
    if (sg_cuda_sync(cuda, rank->rank, seconds) == SHINGLE_EBUSY) return;
    int caller = 0;
    if (sg_cuda_enter(rank, &caller) != SHINGLE_OK) return;
    pthread_mutex_lock(&cuda->mutex);
    sg_cuda_plan **at = &rank->plans;
    while (*at != plan) at = &(*at)->next;
    *at = plan->next;
    pthread_mutex_unlock(&cuda->mutex);
    free_plan(cuda, plan);
    sg_cuda_leave(rank, caller);
    bound->backend = NULL;
}
