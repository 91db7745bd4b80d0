/* land.c -- what peers store into C, and what collectives take of matrices that are not dense.
 *
 * Peers store into C itself where a run may tell them its address (protocol.c).  Otherwise what
 * they store goes to the rank's landing, which every rank knows from bind on, and from there to C
 * at the end of the run; where ranks own columns, all but the own ones.  Rows of C that this rank
 * passes on after they came from a peer are then read from the landing, too.  Where sums are made
 * in C, so is what a peer has stored for them, and what this rank stores for a peer to add to goes
 * there.  One landing is enough: peers store there after this rank's hello only, which comes behind
 * the end of its run before. */
#include <stdlib.h>

#include "backend/cuda/cuda.h"

enum { FEW_RUNS = 8 };

/* ---- Landings -------------------------------------------------------------------------------- */

static int class_of(int64_t bytes)
{
    int class = SG_BLOCK_CLASS0;
    while (class < SG_BLOCK_CLASSES - 1 && INT64_C(1) << class < bytes) class ++;
    return class;
}

/* The landings of all ranks for the C of this plan. */
shingle_status sg_cuda_land(sg_cuda *cuda, const sg_problem *p, void **landing)
{
    int64_t rows = 0;
    for (int q = 0; q < cuda->ranks; q++) rows = sg_max(rows, sg_problem_c_rows(p, q));
    const int class = class_of(rows * p->n * sg_type_bytes(p->type));
    for (int q = 0; q < cuda->ranks; q++) {
        sg_cuda_rank *const rank = &cuda->rank[q];
        if (rank->landing[class] == NULL) {
            int caller = 0;
            SG_TRY(sg_cuda_enter(rank, &caller));
            pthread_mutex_lock(&cuda->mutex);
            const shingle_status status =
                sg_cuda_get(rank, (size_t)1 << class, &rank->landing[class]);
            pthread_mutex_unlock(&cuda->mutex);
            sg_cuda_leave(rank, caller);
            SG_TRY(status);
        }
        landing[q] = rank->landing[class];
    }
    return SHINGLE_OK;
}

/* ---- Who stores what ------------------------------------------------------------------------- */

static bool overlap(int64_t row0, int64_t rows, int64_t other, int64_t others)
{
    return row0 < other + others && other < row0 + rows;
}

/* Are any of rows [ROW0, ROW0 + ROWS) of RANK's C made by a peer: sums of rows that it owns, or, of
 * an all-to-all, rows of its product? */
static bool are_of_peers(const sg_problem *p, int rank, int64_t row0, int64_t rows)
{
    const sg_out out = sg_problem_out(p);
    bool any = false;
    for (int32_t i = 0; i < p->segment_count && out == SG_OUT_ALL; i++)
        any |= p->segments[i].owner != rank &&
               overlap(row0, rows, p->segments[i].row0, p->segments[i].rows);
    for (int q = 0; q < p->ranks && out == SG_OUT_EXCHANGE; q++) {
        const sg_part part = sg_problem_part(p, q, rank);
        any |= q != rank && overlap(row0, rows, part.held, part.rows);
    }
    return any;
}

/* How the C of a rank is divided among those who store into it. */
typedef struct division {
    enum {
        BY_ROWS,    /* each rank stores what it makes */
        BY_COLUMNS, /* each rank makes some columns of all rows, maybe none, and stores them */
        ALONE       /* the rank stores all of it: what peers make comes by its workspace */
    } how;
    int64_t lo, hi; /* columns that the rank stores itself; none if hi is not above lo */
} division;

/* What this rank stores into its own C, as seen so far. */
typedef struct stored {
    bool any, for_peers;
    int64_t lo, hi; /* columns */
} stored;

static void see_stores(stored *x, const sg_bound *bound, int32_t to0, int32_t tos)
{
    const int rank = bound->work->rank;
    for (int32_t i = to0; i < to0 + tos; i++) {
        const sg_area *const to = &bound->sched.to[i];
        if (to->buf != SG_C || to->rank != rank) continue;
        x->any = true;
        x->for_peers |= are_of_peers(&bound->problem, rank, to->row0, to->rows);
        x->lo = sg_min(x->lo, to->col0);
        x->hi = sg_max(x->hi, to->col0 + to->cols);
    }
}

/* No schedule says how; what this rank stores into its own C does.  Where sums are made there, that
 * is what it adds to others'. */
static division division_of(const sg_bound *bound)
{
    const sg_sched *const s = &bound->sched;
    const sg_problem *const p = &bound->problem;
    const bool summed = s->buf[SG_C].summed;
    stored x = {.lo = p->n};
    for (int32_t i = 0; i < s->patches && summed; i++)
        if (s->patch[i].adds > 0) see_stores(&x, bound, s->patch[i].to0, s->patch[i].tos);
    if (!summed) see_stores(&x, bound, 0, s->tos);
    division d = {.how = BY_ROWS, .lo = x.lo, .hi = x.hi};
    /* Who owns rows and divides by rows stores those at least, whole. */
    const bool has_no_columns = !x.any && p->share[bound->work->rank].rows > 0;
    const bool has_some_columns = x.any && (x.hi - x.lo < p->n || (x.for_peers && summed));
    if (s->peers && sg_problem_out(p) == SG_OUT_ALL && (has_no_columns || has_some_columns))
        d.how = BY_COLUMNS;
    else if (x.for_peers)
        d.how = ALONE;
    return d;
}

bool sg_cuda_is_reached(const sg_bound *bound)
{
    const sg_sched *const s = &bound->sched;
    const sg_out out = sg_problem_out(&bound->problem);
    const bool is_of_several = out == SG_OUT_ALL || out == SG_OUT_EXCHANGE;
    if (s->buf[SG_C].summed) return true;
    if (!s->peers || !is_of_several) return s->buf[SG_C].reach;
    return division_of(bound).how != ALONE;
}

bool sg_cuda_reaches_peers(const sg_bound *bound)
{
    const sg_sched *const s = &bound->sched;
    for (int32_t i = 0; i < s->tos; i++)
        if (s->to[i].buf == SG_C && s->to[i].rank != bound->work->rank) return true;
    return false;
}

bool sg_cuda_is_landed(const sg_cuda_plan *plan, const sg_area *area)
{
    const int rank = plan->bound->work->rank;
    if (area->buf != SG_C || area->rank != rank || plan->landed < 0) return false;
    if (plan->bound->sched.buf[SG_C].summed) return true;
    const division d = division_of(plan->bound);
    if (d.how == BY_COLUMNS) return area->col0 < d.lo || area->col0 + area->cols > d.hi;
    return are_of_peers(&plan->bound->problem, rank, area->row0, area->rows);
}

/* ---- From landing to C ----------------------------------------------------------------------- */

static void add_away(sg_cuda_plan *plan, int64_t row, int64_t rows)
{
    int32_t *const next = &plan->away[3 * plan->aways];
    if (rows == 0) return;
    if (plan->aways > 0 && next[-3] + next[-1] == row) {
        next[-1] += (int32_t)rows;
        return;
    }
    plan->aways++;
    next[0] = next[1] = (int32_t)row;
    next[2] = (int32_t)rows;
}

/* Few runs of rows are few copies; but kernels of one lane start sooner behind each other. */
shingle_status sg_cuda_make_home(sg_cuda_rank *rank, sg_cuda_plan *plan)
{
    const sg_problem *const p = &plan->bound->problem;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    if (plan->landed < 0) return SHINGLE_OK;
    /* A scatter's own rows are stored where they belong, with what has come added. */
    if (plan->bound->sched.buf[SG_C].summed && !all) return SHINGLE_OK;
    const division d = division_of(plan->bound);
    const bool columns = d.how == BY_COLUMNS;
    plan->stays[0] = columns ? d.lo : p->n;
    plan->stays[1] = columns ? sg_max(d.lo, d.hi) : p->n;
    const size_t room = 3 * (size_t)((all ? p->segment_count : p->ranks) + 1);
    plan->away = calloc(room, sizeof *plan->away);
    if (plan->away == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory to bind %s", plan->bound->text);
    for (int32_t i = 0; i < p->segment_count && all; i++)
        if (columns || p->segments[i].owner != rank->rank)
            add_away(plan, p->segments[i].row0, p->segments[i].rows);
    for (int q = 0; q < p->ranks && !all; q++) {
        const sg_part part = sg_problem_part(p, q, rank->rank);
        if (q != rank->rank) add_away(plan, part.held, part.rows);
    }
    if (plan->aways == 0 || (plan->aways <= FEW_RUNS && (plan->lanes & ~1u) != 0))
        return SHINGLE_OK;
    const size_t bytes = (size_t)plan->aways * 3 * sizeof *plan->away;
    void *memory = NULL;
    SG_TRY(sg_cuda_get(rank, bytes, &memory));
    plan->home = memory;
    return sg_cuda_put(rank, memory, plan->away, bytes);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* Bytes of the parts of STEP that may lie apart from row to row. */
static int64_t loose_bytes(const sg_sched *s, const sg_step *step)
{
    int64_t bytes = 0;
    for (int32_t i = -1; i < step->tos; i++) {
        if (i < 0 && step->u.coll.kind == SG_ALL_TO_ALL) continue;
        const sg_area *const a = i < 0 ? &step->u.coll.self : &s->to[step->to0 + i];
        const sg_buf *const buf = &s->buf[a->buf];
        if (buf->arena != SG_USER && a->cols == buf->cols) continue;
        bytes += (int64_t)a->rows * a->cols * sg_sched_element_bytes(s, a->buf);
    }
    return bytes;
}

/* Collectives take elements side by side.  Which strides the user's matrices have only a run knows,
 * and a run allocates nothing. */
shingle_status sg_cuda_make_dense(sg_cuda_rank *rank, sg_cuda_plan *plan)
{
    const sg_sched *const s = &plan->bound->sched;
    int64_t most = 0;
    for (int32_t i = 0; i < s->steps; i++)
        if (s->step[i].kind == SG_COLL) most = sg_max(most, loose_bytes(s, &s->step[i]));
    if (most == 0) return SHINGLE_OK;
    const int class = class_of(most);
    if (rank->dense[class] == NULL)
        SG_TRY(sg_cuda_get(rank, (size_t)1 << class, &rank->dense[class]));
    plan->dense = rank->dense[class];
    return SHINGLE_OK;
}
