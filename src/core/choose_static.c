/* choose_static.c -- see choose_static.h. */
#include "core/choose_static.h"
#include "core/sched_rules.h"
#include "core/sim.h"

#include <math.h>
#include <stdlib.h>

/* A piece is worth cutting off if what it hides is this many times what it costs. */
static const double worth = 4;
static const double fine = 4; /* pieces from which on each is multiplied as it comes */

/* Kinds matter among candidates whose bounds are this near to each other: a rule of thumb that
 * mistakes two bounds as far apart as this is no rule. */
static const double margin = 1.15;
static const double tags_margin = 1.5; /* of tagged data */

/* ---- The rule -------------------------------------------------------------------------------- */

static double area_bytes(const sg_area *area, const sg_problem *p)
{
    return (double)area->rows * (double)area->cols * sg_type_bytes(p->type);
}

/* What one rank has for messages while all ranks send as this one does: links of a
 * mesh are one peer's, bridges are shared by the ranks of a half.  FAR: the part of
 * the bytes that leaves a half. */
static double link_gbps(const sg_machine *m, int ranks, double far)
{
    double gbps = sg_machine_link_gbps(m);
    if (m->topology != SG_PCIE) return gbps;
    const int half = m->numa_ranks > 0 && m->numa_ranks < ranks ? m->numa_ranks : ranks;
    /* A message passes its own bridge, and where it goes far the other half's, too. */
    const double passes = (1 - far) * (m->host_staged ? 2 : 1) + 2 * far;
    if (m->host_gbps > 0) gbps = fmin(gbps, m->host_gbps / (half * passes));
    if (m->numa_gbps > 0 && far > 0) gbps = fmin(gbps, m->numa_gbps / (half * far));
    return gbps;
}

/* The part of all ranks whose peer at the distance from rank FROM to TO is in another half. */
static double far_part(const sg_machine *m, int ranks, int from, int to)
{
    if (m->topology != SG_PCIE || m->numa_ranks <= 0 || m->numa_ranks >= ranks) return 0;
    int far = 0;
    for (int r = 0; r < ranks; r++)
        far += r / m->numa_ranks != (r + to - from + ranks) % ranks / m->numa_ranks;
    return (double)far / ranks;
}

void sg_static_rule(const sg_sched *serial, const sg_machine *machine, sg_static_wish *wish_out)
{
    const sg_problem *const p = serial->problem;
    const double m = (double)p->m;
    const double n = (double)p->n;
    const double k = (double)p->k;
    const double ops = sg_problem_flops(p, m, n, k);
    const double traffic = sg_type_bytes(p->type) * (m * k + n * k + m * n);
    sg_static_wish w = {
        .ops_per_byte = traffic > 0 ? ops / traffic : 0,
        .traffic_bytes = traffic,
        .gemm_us =
            fmax(ops / (machine->gemm_tflops[p->type] * 1e6), traffic / (machine->mem_gbps * 1e3)),
    };
    for (int32_t i = 0; i < serial->steps; i++)
        if (serial->step[i].kind == SG_COLL)
            w.coll_us += sg_sim_coll_us(machine, serial, &serial->step[i]);
    /* What can be hidden at most, one part per rank, against what a part costs. */
    const double part = fmin(w.gemm_us, w.coll_us) / p->ranks;
    const double step = machine->copy_us + machine->flag_us;
    if (w.coll_us <= 0)
        w.kind = SG_STATIC_SERIAL;
    else if (m < k)
        w.kind = SG_STATIC_SLABS;
    else if (part < worth * step)
        w.kind = SG_STATIC_UNIFORM;
    else
        w.kind = part < worth * fine * step ? SG_STATIC_HETERO : SG_STATIC_FINE;
    *wish_out = w;
}

void sg_static_explain(const sg_static_wish *wish, sg_text *text)
{
    static const char *const names[] = {[SG_STATIC_SERIAL] = "nothing to hide",
                                        [SG_STATIC_UNIFORM] = "uniform",
                                        [SG_STATIC_HETERO] = "hetero",
                                        [SG_STATIC_FINE] = "hetero, fine",
                                        [SG_STATIC_SLABS] = "m < k, slabs"};
    sg_text_add(text, "%.0f flop/B, coll/gemm %.2f: %s", wish->ops_per_byte,
                wish->gemm_us > 0 ? wish->coll_us / wish->gemm_us : 0, names[wish->kind]);
}

/* ---- What a schedule looks like -------------------------------------------------------------- */

typedef struct counts {
    const sg_machine *machine;
    int lanes, colls;
    double messages, copies; /* to peers */
    double copy_bytes, store_bytes, far_bytes;
    double coll_us, sum_us;
    double gemm_us;      /* of all launches, cut up as they are */
    uint32_t copy_lanes; /* bit mask */
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
        const sg_area *const to = &s->to[patch->to0 + i];
        if (to->rank == s->rank) continue;
        c->messages += sg_sched_patch_visits(s, launch, index);
        c->store_bytes += area_bytes(to, s->problem);
        c->far_bytes +=
            area_bytes(to, s->problem) * far_part(c->machine, s->problem->ranks, s->rank, to->rank);
        look->overlaps = true;
    }
}

/* What a launch takes by itself: whole waves of whole tiles, and not less than its operands and
 * results take; patches that read the same part of B share it. */
static double launch_us(const sg_sched *s, const sg_launch *launch, const sg_machine *machine)
{
    const sg_problem *const p = s->problem;
    double bytes = 0;
    double ops = 0;
    double most_k = 0;
    const sg_area *b = NULL;
    for (int32_t i = 0; i < launch->patches; i++) {
        const sg_patch *const patch = &s->patch[launch->patch0 + i];
        const double k = patch->k1 - patch->k0;
        ops += sg_problem_flops(p, patch->rows, patch->cols, k);
        const bool again = b != NULL && b->row0 == patch->b.row0 && b->col0 == patch->b.col0;
        bytes += sg_type_bytes(p->type) * (patch->rows * k + (again ? 0 : patch->cols * k) +
                                           (double)patch->rows * patch->cols);
        b = &patch->b;
        most_k = fmax(most_k, k);
    }
    const double rate = machine->gemm_tflops[p->type] * 1e6; /* per microsecond */
    const double memory_us = bytes / (machine->mem_gbps * 1e3);
    if (launch->vendor) return fmax(ops / rate, memory_us);
    const double blocks = launch->blocks > 0 ? launch->blocks : machine->sms;
    double part = 1;
    for (int i = 0; i < machine->tiles; i++)
        if (machine->tile[i].m == launch->tile_m && machine->tile[i].n == launch->tile_n &&
            machine->tile[i].rate > 0)
            part = machine->tile[i].rate;
    const double tile_us =
        2.0 * launch->tile_m * launch->tile_n * most_k * machine->sms / (rate * part);
    const double visits = sg_sched_is_joined(s, launch)
                              ? sg_sched_patch_visits(s, launch, launch->patch0)
                              : launch->visits;
    return fmax(ceil(visits / blocks) * tile_us, memory_us);
}

static void count_launch(const sg_sched *s, const sg_step *step, counts *c, sg_static_look *look)
{
    const sg_launch *const launch = &step->u.launch;
    if (!c->any_launch) {
        const bool after = step->after[0] >= 0 || step->after[1] >= 0 || step->waits > 0;
        c->first_waits = after || (launch->patches > 0 && s->patch[launch->patch0].waits > 0);
    }
    c->any_launch = true;
    for (int32_t i = 0; i < launch->patches; i++)
        count_patch(s, launch, launch->patch0 + i, c, look);
    c->gemm_us += launch_us(s, launch, c->machine);
    look->tagged |= c->machine->pool == 0 && sg_sched_is_tagged(s, launch);
}

static void count_step(const sg_sched *s, int32_t index, counts *c, sg_static_look *look)
{
    const sg_step *const step = &s->step[index];
    const sg_machine *const m = c->machine;
    const bool push = sg_step_is_push(step);
    if (step->lane >= c->lanes && !push) c->lanes = step->lane + 1;
    look->overlaps |= push;
    if (sg_step_norms(step)) return; /* every plan has it */
    if (step->kind == SG_LAUNCH) count_launch(s, step, c, look);
    if (step->kind == SG_COLL) {
        c->colls++;
        c->coll_us += sg_sim_coll_us(m, s, step);
    }
    if (step->kind == SG_REDUCE)
        for (int32_t i = 0; i < step->u.reduce.adds; i++)
            c->sum_us +=
                area_bytes(&s->add[step->u.reduce.add0 + i].area, s->problem) / (m->mem_gbps * 1e3);
    for (int32_t i = 0; step->kind == SG_COPY && i < step->tos; i++) {
        const sg_area *const to = &s->to[step->to0 + i];
        if (to->rank == s->rank) continue;
        c->messages++;
        if (push) {
            c->store_bytes += area_bytes(to, s->problem);
        } else {
            c->copies++;
            c->copy_lanes |= 1u << step->lane;
            c->copy_bytes += area_bytes(to, s->problem);
        }
        c->far_bytes +=
            area_bytes(to, s->problem) * far_part(m, s->problem->ranks, s->rank, to->rank);
    }
}

void sg_static_look_at(const sg_sched *s, const sg_machine *machine, sg_static_look *look_out)
{
    counts c = {.machine = machine};
    sg_static_look look = {0};
    for (int32_t i = 0; i < s->steps; i++) count_step(s, i, &c, &look);
    look.overlaps |= c.lanes > 1;
    look.hetero = look.overlaps && c.colls == 0 && !c.first_waits;
    const double peers = s->problem->ranks > 1 ? s->problem->ranks - 1 : 1;
    const double bytes = c.copy_bytes + c.store_bytes;
    const double gbps = link_gbps(machine, s->problem->ranks, bytes > 0 ? c.far_bytes / bytes : 0);
    const double store_gbps = fmin(machine->store_gbps, gbps);
    const double engine_us =
        c.copies * machine->copy_us + c.copy_bytes / (fmin(machine->copy_gbps, gbps) * 1e3);
    const double stores_us =
        c.store_bytes > 0 ? machine->store_us + c.store_bytes / (store_gbps * 1e3) : 0;
    /* Lanes of copies run at once, as far as there are engines; only links of a mesh add up. */
    int lanes = 0;
    for (uint32_t mask = c.copy_lanes; mask != 0; mask &= mask - 1) lanes++;
    const int engines = machine->copy_engines > 0 ? machine->copy_engines : 1;
    const bool adds = machine->topology == SG_MESH;
    const double at_once = adds && lanes > 1 ? fmin(lanes, engines) : 1;
    const double comm_us = engine_us / at_once + stores_us + c.coll_us;
    /* A part of what is shorter is alone at the beginning or at the end: the first or last of the
     * pieces, own rows counting as one more rank's. */
    const double pieces = c.colls > 0 ? c.colls : fmax(1, c.messages / peers) * s->problem->ranks;
    look.us = fmax(c.gemm_us, comm_us) + fmin(c.gemm_us, comm_us) / pieces + c.sum_us +
              (c.lanes > 1 ? machine->join_us : 0);
    if (look.tagged) { /* sent when all is multiplied, and seen at once */
        const double tagged_gbps = machine->tagged_gbps > 0 ? machine->tagged_gbps : store_gbps;
        look.us = c.gemm_us + machine->tagged_us + c.store_bytes / (fmin(tagged_gbps, gbps) * 1e3);
    }
    *look_out = look;
}

bool sg_static_is_nearer(const sg_static_wish *wish, const sg_static_look *a,
                         const sg_static_look *b)
{
    /* Not slower than serial by this chooser's own measure. */
    const double serial_us = wish->gemm_us + wish->coll_us;
    const bool a_pays = a->overlaps && a->us < serial_us;
    const bool b_pays = b->overlaps && b->us < serial_us;
    if (a_pays != b_pays) return a_pays;
    if (!a_pays) return !a->overlaps && b->overlaps;
    /* Of few rows there is little to hide under, and what waits for flags waits longer than this
     * measure knows. */
    if (a->tagged != b->tagged)
        return a->tagged ? a->us < tags_margin * b->us : b->us >= tags_margin * a->us;
    if (a->us > b->us * margin || b->us > a->us * margin) return a->us < b->us;
    const bool slabs = wish->kind == SG_STATIC_SLABS;
    if (a->slabs != b->slabs) return a->slabs == slabs;
    const bool hetero = wish->kind != SG_STATIC_UNIFORM;
    if (a->hetero != b->hetero) return a->hetero == hetero;
    return a->us < b->us * (1 - 1e-6);
}
