/* choose_static.c -- see choose_static.h. */
#include "core/choose_static.h"

#include <math.h>

/* A piece is worth cutting off if what it hides is this many times what it costs. */
static const double worth = 4;
static const double fine = 4; /* pieces from which on each is multiplied as it comes */
static const double most_pieces = 16;

/* ---- The rule --------------------------------------------------------------------------------------- */

static double area_bytes(const sg_area *area, const sg_problem *p)
{
    return (double)area->rows * (double)area->cols * sg_type_bytes(p->type);
}

/* What a rank's collectives carry, in bus bytes, and how many there are: of the schedule that does
 * not overlap, so that every operator says it in the same way. */
static double coll_bytes(const sg_sched *s, int *colls)
{
    const sg_problem *const p = s->problem;
    double bytes = 0;
    *colls = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind != SG_COLL) continue;
        ++*colls;
        /* In place: every byte goes out and comes back. */
        if (step->tos == 0) bytes += 2 * area_bytes(&step->u.coll.self, p);
        for (int32_t t = 0; t < step->tos; t++) bytes += area_bytes(&s->to[step->to0 + t], p);
    }
    return bytes * (p->ranks - 1) / p->ranks;
}

void sg_static_rule(const sg_sched *serial, const sg_machine *machine, sg_static_wish *wish_out)
{
    const sg_problem *const p = serial->problem;
    const double m = (double)p->m;
    const double n = (double)p->n;
    const double k = (double)p->k;
    const double ops = 2 * m * n * k;
    const double traffic = sg_type_bytes(p->type) * (m * k + n * k + m * n);
    int colls = 0;
    const double moved = coll_bytes(serial, &colls);
    sg_static_wish w = {
        .ops_per_byte = traffic > 0 ? ops / traffic : 0,
        .traffic_bytes = traffic,
        .gemm_us =
            fmax(ops / (machine->gemm_tflops[p->type] * 1e6), traffic / (machine->mem_gbps * 1e3)),
        .coll_us = colls * machine->coll_us + moved / (machine->coll_gbps * 1e3),
        .step_us = machine->copy_us + machine->flag_us,
        .pieces = 1,
    };
    /* What can be hidden at most, cut into one part per rank, against what the parts cost. */
    const double hidden = fmin(w.gemm_us, w.coll_us);
    const double part = p->ranks > 1 ? hidden / p->ranks : 0;
    if (colls == 0 || hidden * (p->ranks - 1) < machine->join_us + p->ranks * w.step_us) {
        w.kind = SG_STATIC_SERIAL;
    } else {
        while (w.pieces < most_pieces && part >= worth * 2 * w.pieces * w.step_us) w.pieces *= 2;
        if (m < k)
            w.kind = SG_STATIC_SLABS;
        else if (part < worth * w.step_us)
            w.kind = SG_STATIC_UNIFORM;
        else
            w.kind = w.pieces < fine ? SG_STATIC_HETERO : SG_STATIC_HETERO_FINE;
    }
    *wish_out = w;
}

void sg_static_explain(const sg_static_wish *wish, sg_text *text)
{
    static const char *const names[] = {[SG_STATIC_SERIAL] = "too little to hide",
                                        [SG_STATIC_UNIFORM] = "uniform",
                                        [SG_STATIC_HETERO] = "hetero",
                                        [SG_STATIC_HETERO_FINE] = "hetero, fine",
                                        [SG_STATIC_SLABS] = "m < k, slabs"};
    sg_text_add(text, "%.0f flop/B, coll/gemm %.2f: %s", wish->ops_per_byte,
                wish->gemm_us > 0 ? wish->coll_us / wish->gemm_us : 0, names[wish->kind]);
    if (wish->kind != SG_STATIC_SERIAL) sg_text_add(text, ", %.0f pieces", wish->pieces);
}

/* ---- What a schedule looks like ----------------------------------------------------------------------- */

typedef struct counts {
    int lanes, colls;
    double messages; /* to peers */
    bool first_waits, any_launch;
} counts;

static void count_patch(const sg_sched *s, const sg_launch *launch, int32_t index, counts *c,
                        sg_static_look *look)
{
    const sg_patch *const patch = &s->patch[index];
    for (int32_t i = 0; i < patch->waits; i++) look->slabs |= s->wait[patch->wait0 + i].chunk_k > 0;
    look->slabs |= patch->k1 > patch->k0 && patch->k1 - patch->k0 < s->problem->k;
    look->overlaps |= patch->waits > 0 || patch->raises > 0;
    for (int32_t i = 0; i < patch->tos; i++) {
        if (s->to[patch->to0 + i].rank == s->rank) continue;
        c->messages += sg_sched_patch_visits(s, launch, index);
        look->overlaps = true;
    }
}

static void count_step(const sg_sched *s, int32_t index, counts *c, sg_static_look *look)
{
    const sg_step *const step = &s->step[index];
    if (step->lane >= c->lanes) c->lanes = step->lane + 1;
    if (step->kind == SG_COLL) c->colls++;
    if (step->kind == SG_COPY)
        for (int32_t i = 0; i < step->tos; i++) c->messages += s->to[step->to0 + i].rank != s->rank;
    if (step->kind != SG_GEMM) return;
    const sg_launch *const launch = &step->u.launch;
    if (!c->any_launch) {
        const bool after = step->after[0] >= 0 || step->after[1] >= 0 || step->waits > 0;
        c->first_waits = after || (launch->patches > 0 && s->patch[launch->patch0].waits > 0);
    }
    c->any_launch = true;
    for (int32_t i = 0; i < launch->patches; i++)
        count_patch(s, launch, launch->patch0 + i, c, look);
}

void sg_static_look_at(const sg_sched *s, sg_static_look *look_out)
{
    counts c = {0};
    sg_static_look look = {0};
    for (int32_t i = 0; i < s->steps; i++) count_step(s, i, &c, &look);
    look.overlaps |= c.lanes > 1;
    look.hetero = look.overlaps && c.colls == 0 && !c.first_waits;
    const double peers = s->problem->ranks > 1 ? s->problem->ranks - 1 : 1;
    look.pieces = fmax(1, fmax(c.colls, c.messages / peers));
    *look_out = look;
}

bool sg_static_is_nearer(const sg_static_wish *wish, const sg_static_look *a,
                         const sg_static_look *b)
{
    const bool overlaps = wish->kind != SG_STATIC_SERIAL;
    if (a->overlaps != b->overlaps) return a->overlaps == overlaps;
    if (!overlaps) return false;
    const bool slabs = wish->kind == SG_STATIC_SLABS;
    if (a->slabs != b->slabs) return a->slabs == slabs;
    const bool hetero = wish->kind != SG_STATIC_UNIFORM;
    if (a->hetero != b->hetero) return a->hetero == hetero;
    const double wanted = log2(wish->pieces);
    return fabs(log2(a->pieces) - wanted) < fabs(log2(b->pieces) - wanted) - 1e-9;
}
