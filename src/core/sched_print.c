/* sched_print.c -- schedules as text, a step or patch a line, for people. */
#include "core/sched.h"

static void print_area(const sg_sched *s, sg_area a, sg_text *t)
{
    if (a.rank != s->rank) sg_text_add(t, "r%d.", a.rank);
    sg_text_add(t, "%s[%d:%d,%d:%d]", s->buf[a.buf].name, a.row0, a.row0 + a.rows, a.col0,
                a.col0 + a.cols);
    if (a.tiled) sg_text_add(t, "tiled");
    if (a.leave) sg_text_add(t, "!");
}

static void print_wait(const sg_wait *w, sg_text *t)
{
    sg_text_add(t, " ? r%d#%d", w->by, w->flag0);
    if (w->per == SG_PER_TILE) sg_text_add(t, "+tile");
    if (w->per == SG_PER_ROWS) {
        sg_text_add(t, "+(row-%d)/%d", w->row0, w->chunk);
        if (w->chunk_k > 0) sg_text_add(t, "*%d+k/%d", w->chunks_k, w->chunk_k);
    }
}

static void print_raises(const sg_sched *s, int32_t raise0, int32_t raises, sg_text *t)
{
    for (int32_t i = raise0; i < raise0 + raises; i++)
        sg_text_add(t, " => #%d%s@r%d", s->raise[i].flag0,
                    s->raise[i].per == SG_PER_TILE ? "+tile" : "", s->raise[i].at);
}

static void print_tos(const sg_sched *s, int32_t to0, int32_t tos, sg_text *t)
{
    for (int32_t i = to0; i < to0 + tos; i++) {
        sg_text_add(t, i == to0 ? " -> " : ", ");
        print_area(s, s->to[i], t);
    }
}

static void print_adds(const sg_sched *s, int32_t add0, int32_t adds, sg_text *t)
{
    for (int32_t i = add0; i < add0 + adds; i++) {
        sg_text_add(t, " + ");
        print_area(s, s->add[i].area, t);
        if (s->add[i].awaited) print_wait(&s->add[i].wait, t);
    }
}

static void print_launch(const sg_sched *s, const sg_launch *launch, sg_text *t)
{
    static const char *const raster[] = {"by row", "by column", "grouped"};
    if (launch->norm)
        sg_text_add(t, " rows %d", launch->tile_m);
    else if (launch->vendor)
        sg_text_add(t, " vendor");
    else
        sg_text_add(t, " tile %dx%d", launch->tile_m, launch->tile_n);
    if (launch->blocks > 0) sg_text_add(t, " blocks %d", launch->blocks);
    for (int32_t i = launch->patch0; i < launch->patch0 + launch->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        if (p->goes_on)
            sg_text_add(t, "\n            + ");
        else
            sg_text_add(t, "\n        C[%d:%d,%d:%d] = ", p->row0, p->row0 + p->rows, p->col0,
                        p->col0 + p->cols);
        if (p->k0 < p->k1) {
            print_area(s, p->a, t);
            sg_text_add(t, " * ");
            print_area(s, p->b, t);
        } else {
            sg_text_add(t, "0");
        }
        for (int32_t w = 0; w < p->waits; w++) print_wait(&s->wait[p->wait0 + w], t);
        print_adds(s, p->add0, p->adds, t);
        if (p->own_rounded && p->adds > 0) sg_text_add(t, " rounded");
        if (p->onto) sg_text_add(t, " onto");
        if (p->final) sg_text_add(t, " final");
        print_tos(s, p->to0, p->tos, t);
        print_raises(s, p->raise0, p->raises, t);
        if (p->tiles > 0) sg_text_add(t, " tiles %d:%d", p->tile0, p->tile0 + p->tiles);
        if (p->tile_n > 0) sg_text_add(t, " tile %dx%d", launch->tile_m, p->tile_n);
        sg_text_add(t, " (%s)", raster[p->raster]);
    }
}

static void print_step(const sg_sched *s, int32_t index, sg_text *t)
{
    static const char *const kind[] = {"gemm", "copy", "reduce", "coll", "flag"};
    static const char *const by[] = {" engine ", " sms ", " launch "};
    static const char *const coll[] = {"all-gather", "reduce-scatter", "all-reduce", "all-to-all"};
    const sg_step *const step = &s->step[index];
    sg_text_add(t, "%4d lane %d %s", index, step->lane,
                sg_step_norms(step) ? "norm" : kind[step->kind]);
    if (step->kind == SG_COLL) {
        sg_text_add(t, " %s ", coll[step->u.coll.kind]);
        if (step->u.coll.kind != SG_ALL_TO_ALL) print_area(s, step->u.coll.self, t);
        if (step->u.coll.sms > 0) sg_text_add(t, " sms %d", step->u.coll.sms);
    }
    if (step->kind == SG_COPY) {
        sg_text_add(t, "%s", by[step->u.copy.carrier]);
        print_area(s, step->u.copy.src, t);
    }
    if (step->kind == SG_REDUCE) {
        print_adds(s, step->u.reduce.add0, step->u.reduce.adds, t);
        if (step->u.reduce.final) sg_text_add(t, " final");
    }
    if (step->kind == SG_LAUNCH) print_launch(s, &step->u.launch, t);
    for (int32_t i = 0; i < step->waits; i++) print_wait(&s->wait[step->wait0 + i], t);
    print_tos(s, step->to0, step->tos, t);
    print_raises(s, step->raise0, step->raises, t);
    for (int i = 0; i < 2; i++)
        if (step->after[i] >= 0) sg_text_add(t, " after %d", step->after[i]);
    sg_text_add(t, "\n");
}

void sg_sched_print(const sg_sched *s, sg_text *t)
{
    static const char *const arena[] = {"user", "sym", "rest", "local", "library", "windows"};
    sg_text_add(t, "rank %d of %d\n", s->rank, s->problem->ranks);
    for (int i = SG_USER_BUFS; i < s->bufs; i++)
        sg_text_add(t, "     %s %s %lldx%lld%s\n", arena[s->buf[i].arena], s->buf[i].name,
                    (long long)s->buf[i].rows, (long long)s->buf[i].cols,
                    s->buf[i].wide     ? " f32"
                    : s->buf[i].tagged ? " tagged"
                                       : "");
    for (int32_t i = 0; i < s->steps; i++) print_step(s, i, t);
}
