/* sched_norm.c -- the norm of a rank's rows behind everything else: see sched.h.
 *
 * Strategies need not know of it.  What they store to C goes to a buffer of that shape, which their
 * copies and peers use in its place, and one launch behind all lanes brings it to C.  It costs a
 * pass over the rows and is what a caller would do, less one of its own launches; a strategy that
 * reads its sums once more in any case (signal's reorder) norms them there. */
#include "core/sched_rules.h"

int sg_sched_norm(sg_sched *s, int lane, int32_t tile_m, int blocks)
{
    enum { ELEMENTS = 1 << 18, MOST_ROWS = 64 }; /* of a visit */
    const int64_t n = sg_max(s->problem->n, 1);
    const int64_t rows = tile_m > 0 ? tile_m : sg_max(sg_min(ELEMENTS / n, MOST_ROWS), 1);
    const int step = sg_sched_launch(s, lane, (int32_t)rows, (int32_t)n, blocks, false);
    if (step >= 0) s->step[step].u.launch.norm = 1;
    return step;
}

static bool norms(const sg_sched *s)
{
    for (int32_t i = 0; i < s->steps; i++)
        if (sg_step_norms(&s->step[i])) return true;
    return false;
}

/* Does this rank store all of C itself, and nothing into others'?  Then all ranks do. */
static bool stores_alone(const sg_sched *s)
{
    int64_t own = 0;
    for (int32_t i = 0; i < s->tos; i++) {
        const sg_area *const to = &s->to[i];
        if (to->buf != SG_C) continue;
        if (to->rank != s->rank) return false;
        own += (int64_t)to->rows * to->cols;
    }
    return own == s->buf[SG_C].rows * s->problem->n;
}

/* A buffer for what C gets.  Where all ranks get all rows, or sums are made in C, peers may store
 * into each other's, and it is declared alike on all ranks whether they do or not, unless each of
 * them adds up all by itself; what a collective touches is a library's. */
static uint8_t sum_buf(sg_sched *s)
{
    const sg_problem *const p = s->problem;
    bool collects = false;
    bool fixed = false;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind != SG_COLL) continue;
        collects |= step->u.coll.self.buf == SG_C;
        for (int32_t j = step->to0; j < step->to0 + step->tos; j++)
            collects |= s->to[j].buf == SG_C;
    }
    for (int i = SG_USER_BUFS; i < s->bufs; i++)
        fixed |= s->buf[i].arena == SG_SYM && s->buf[i].fixed;
    const bool summed = s->buf[SG_C].summed;
    const bool all = p->op == SG_OP_GEMM_AR && p->ranks > 1 && !stores_alone(s);
    const uint8_t buf = sg_sched_buf(s,
                                     collects        ? SG_LIBRARY
                                     : summed || all ? SG_SYM
                                                     : SG_LOCAL,
                                     "unnormed", summed && !all ? p->most_rows : s->buf[SG_C].rows,
                                     p->n, fixed ? SG_FIXED : 0);
    s->buf[buf].summed = summed;
    s->buf[SG_C].summed = 0;
    return buf;
}

static void move(sg_area *area, uint8_t buf)
{
    if (area->buf == SG_C) area->buf = buf;
}

static void move_all(sg_sched *s, uint8_t buf)
{
    for (int32_t i = 0; i < s->steps; i++) {
        sg_step *const step = &s->step[i];
        if (step->kind == SG_COPY) move(&step->u.copy.src, buf);
        if (step->kind == SG_COLL) move(&step->u.coll.self, buf);
    }
    for (int32_t i = 0; i < s->adds; i++) move(&s->add[i].area, buf);
    for (int32_t i = 0; i < s->tos; i++) move(&s->to[i], buf);
}

/* Opens the launch, behind the last steps of all other lanes: a step is after two others at
 * most. */
static void open_behind_all(sg_sched *s)
{
    int32_t last[SG_MAX_LANES];
    int32_t other[SG_MAX_LANES];
    int others = 0;
    for (int lane = 0; lane < SG_MAX_LANES; lane++) last[lane] = -1;
    for (int32_t i = 0; i < s->steps; i++) last[s->step[i].lane] = i;
    for (int lane = 1; lane < SG_MAX_LANES; lane++)
        if (last[lane] >= 0) other[others++] = last[lane];
    int joined = 0;
    for (; others - joined > 2; joined += 2) {
        sg_sched_flag(s, 0);
        sg_sched_after(s, other[joined]);
        sg_sched_after(s, other[joined + 1]);
    }
    sg_sched_norm(s, 0, 0, 0);
    for (; joined < others; joined++) sg_sched_after(s, other[joined]);
}

void sg_sched_norm_all(sg_sched *s)
{
    const sg_problem *const p = s->problem;
    const int64_t rows = s->buf[SG_C].rows;
    if (!p->norm || p->m == 0 || p->n == 0 || norms(s)) return;
    const uint8_t sum = sum_buf(s);
    move_all(s, sum);
    if (rows == 0) return;
    const sg_patch all = {.rows = (int32_t)rows, .cols = (int32_t)p->n};
    open_behind_all(s);
    sg_sched_patch(s, &all);
    sg_sched_add(s, sg_area_of(s->rank, sum, 0, rows, 0, p->n), NULL);
    sg_sched_to(s, sg_area_of(s->rank, SG_C, 0, rows, 0, p->n));
}

bool sg_sched_norms_own(const sg_sched *s)
{
    if (s->steps == 0 || !sg_step_norms(&s->step[s->steps - 1])) return false;
    const sg_launch *const l = &s->step[s->steps - 1].u.launch;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++)
        for (int32_t j = s->patch[i].add0; j < s->patch[i].add0 + s->patch[i].adds; j++)
            if (s->buf[s->add[j].area.buf].arena != SG_LOCAL) return false;
    return true;
}
