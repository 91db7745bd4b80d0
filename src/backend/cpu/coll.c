/* coll.c -- library collectives: a rendezvous of all ranks, then each rank's link moves its part.
 *
 *     all-gather       rank r copies every rank's rows into its own memory
 *     reduce-scatter   rank r sums, over ranks 0 .. P-1, the rows that go to it
 *     all-reduce       rank r sums its share of the elements and stores it at all ranks, in place
 *     all-to-all       rank r copies what every rank has for it into its own memory
 *
 * Sums are f32 and rounded once.  A collective ends at all ranks together, since until then
 * somebody may still read their operands. */
#include <string.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/cpu.h"

enum { BLOCK = 1024 }; /* elements that are summed at once */

static const sg_coll *coll_of(const sg_cpu *cpu, const sg_cpu_coll *c, int rank)
{
    const sg_cpu_rank *const r = &cpu->rank[rank];
    return &r->run[r->first].bound->sched.step[c->step[rank]].u.coll;
}

/* ---- Areas ----------------------------------------------------------------------------------- */

typedef struct finding {
    int want;
    sg_role role;
    sg_access_what what; /* of an all-to-all's two parts for a rank */
    bool either;         /* where there is one alone */
    sg_area area;
} finding;

static void find_area(void *context, const sg_access *access)
{
    finding *const f = context;
    if (access->what != SG_READS && access->what != SG_WRITES) return;
    if (!f->either && access->what != f->what) return;
    if (access->role == f->role && (f->role == SG_ROLE_SELF || access->addend == f->want))
        f->area = access->area;
}

/* RANK's own area of the collective, or its part for rank PART. */
static sg_area area_of(const sg_cpu *cpu, const sg_cpu_coll *c, int rank, int part)
{
    const sg_cpu_rank *const r = &cpu->rank[rank];
    finding f = {.want = part, .role = part < 0 ? SG_ROLE_SELF : SG_ROLE_PART, .either = true};
    sg_step_access(&r->run[r->first].bound->sched, c->step[rank], NULL, find_area, &f);
    return f.area;
}

/* What RANK sends to PEER in an all-to-all (READS), or gets from it (WRITES). */
static sg_area exchanged(const sg_cpu *cpu, const sg_cpu_coll *c, int rank, int peer,
                         sg_access_what what)
{
    const sg_cpu_rank *const r = &cpu->rank[rank];
    finding f = {.want = peer, .role = SG_ROLE_PART, .what = what};
    sg_step_access(&r->run[r->first].bound->sched, c->step[rank], NULL, find_area, &f);
    return f.area;
}

static int64_t elements_of(const sg_area *area)
{
    return (int64_t)area->rows * area->cols;
}

static sg_place place_of(const sg_cpu *cpu, int rank, const sg_area *area)
{
    const sg_cpu_rank *const r = &cpu->rank[rank];
    return sg_exec_address(&r->run[r->first], area);
}

/* Element INDEX of a matrix of COLS columns, counted row by row. */
static uint8_t *element(const sg_place *place, int64_t cols, int64_t index)
{
    return place->data + index / cols * place->stride_bytes +
           index % cols * sg_type_bytes(place->type);
}

/* ---- Rendezvous ------------------------------------------------------------------------------ */

/* Elements that RANK sends to all, or gets from all, in an all-to-all. */
static int64_t traffic(const sg_cpu *cpu, const sg_cpu_coll *c, int rank, sg_access_what what,
                       bool with_own)
{
    int64_t all = 0;
    for (int q = 0; q < cpu->ranks; q++) {
        const sg_area part = exchanged(cpu, c, rank, q, what);
        if (q != rank || with_own) all += elements_of(&part);
    }
    return all;
}

/* Elements that RANK's link moves: what it stores into its own memory, or its share of a sum. */
static int64_t work_of(const sg_cpu *cpu, const sg_cpu_coll *c, int rank)
{
    if (coll_of(cpu, c, rank)->kind == SG_ALL_TO_ALL) return traffic(cpu, c, rank, SG_WRITES, true);
    const sg_area self = area_of(cpu, c, rank, -1);
    const int64_t own = elements_of(&self);
    if (coll_of(cpu, c, rank)->kind == SG_ALL_REDUCE)
        return (rank + 1) * own / cpu->ranks - rank * own / cpu->ranks;
    if (coll_of(cpu, c, rank)->kind == SG_REDUCE_SCATTER) return own;
    int64_t all = 0;
    for (int q = 0; q < cpu->ranks; q++) {
        const sg_area part = area_of(cpu, c, rank, q);
        all += elements_of(&part);
    }
    return all;
}

/* Counted as bus bandwidth is: what the busiest rank receives (gather) or sends (scatter), twice
 * the even share of both for all-reduce; the larger of what this rank sends and what it gets in an
 * all-to-all. */
double sg_coll_bytes(const sg_cpu *cpu, int rank, int32_t index)
{
    const sg_cpu_coll *const c = &cpu->coll[index];
    if (coll_of(cpu, c, rank)->kind == SG_ALL_TO_ALL) {
        const sg_area own = exchanged(cpu, c, rank, rank, SG_WRITES);
        return (double)sg_max(traffic(cpu, c, rank, SG_READS, false),
                              traffic(cpu, c, rank, SG_WRITES, false)) *
               sg_type_bytes(place_of(cpu, rank, &own).type);
    }
    const sg_area self = area_of(cpu, c, rank, -1);
    const double bytes = sg_type_bytes(place_of(cpu, rank, &self).type);
    if (coll_of(cpu, c, rank)->kind == SG_ALL_REDUCE)
        return 2 * bytes * (double)elements_of(&self) * (cpu->ranks - 1) / cpu->ranks;
    int64_t all = 0;
    int64_t least = INT64_MAX;
    for (int q = 0; q < cpu->ranks; q++) {
        const sg_area part = area_of(cpu, c, rank, q);
        all += elements_of(&part);
        least = sg_min(least, elements_of(&part));
    }
    return bytes * (double)(all - least);
}

static sg_cpu_coll *find(const sg_cpu *cpu, uint64_t epoch, int32_t seq, sg_cpu_coll **free_out)
{
    sg_cpu_coll *found = NULL;
    for (int32_t i = 0; i < cpu->colls; i++) {
        sg_cpu_coll *const c = &cpu->coll[i];
        if (!c->open)
            *free_out = c;
        else if (c->epoch == epoch && c->seq == seq)
            found = c;
    }
    return found;
}

void sg_coll_arrive(sg_cpu *cpu, sg_cpu_rank *rank, int32_t step)
{
    const sg_run *const run = sg_lane_run(rank);
    const int32_t seq = run->bound->sched.step[step].u.coll.seq;
    sg_cpu_coll *unused = NULL;
    sg_cpu_coll *c = find(cpu, run->epoch, seq, &unused);
    if (c == NULL) {
        /* A rank has at most one collective a lane open. */
        SG_CHECK(unused != NULL);
        c = unused;
        *c = (sg_cpu_coll){.open = true, .epoch = run->epoch, .seq = seq};
    }
    c->here[rank->rank] = true;
    c->step[rank->rank] = step;
    sg_pool_progress(cpu);
    if (++c->came < cpu->ranks) return;
    c->left = cpu->ranks;
    for (int r = 0; r < cpu->ranks; r++)
        sg_link_coll(&cpu->rank[r].link, c->step[r], (int32_t)(c - cpu->coll), work_of(cpu, c, r));
}

bool sg_coll_missing(const sg_cpu *cpu, const sg_cpu_rank *rank, int32_t step, sg_stuck *stuck)
{
    const sg_run *const run = &rank->run[rank->first];
    sg_cpu_coll *unused = NULL;
    const sg_cpu_coll *const c =
        find(cpu, run->epoch, run->bound->sched.step[step].u.coll.seq, &unused);
    for (int q = 0; c != NULL && q < cpu->ranks; q++) {
        if (c->here[q]) continue;
        *stuck = (sg_stuck){.kind = SG_STUCK_COLL,
                            .by = q,
                            .flag = -1,
                            .seen = (uint64_t)c->came,
                            .wanted = (uint64_t)cpu->ranks};
        return true;
    }
    return false;
}

void sg_coll_part_done(sg_cpu *cpu, int32_t index)
{
    sg_cpu_coll *const c = &cpu->coll[index];
    if (--c->left > 0) return;
    const sg_cpu_coll done = *c;
    c->open = false;
    for (int r = 0; r < cpu->ranks; r++) {
        const sg_cpu_plan *const plan = sg_lane_plan(&cpu->rank[r]);
        sg_lane_done(cpu, &cpu->rank[r], done.step[r], NULL, plan->step[done.step[r]].weight,
                     false);
    }
}

/* ---- Moving ---------------------------------------------------------------------------------- */

/* Copies elements [FROM, TO) of all parts, counted one part after the other. */
static void gather(const sg_cpu *cpu, const sg_cpu_coll *c, int rank, int64_t from, int64_t to)
{
    const bool exchanges = coll_of(cpu, c, rank)->kind == SG_ALL_TO_ALL;
    int64_t first = 0;
    for (int q = 0; q < cpu->ranks && first < to; q++) {
        const sg_area part =
            exchanges ? exchanged(cpu, c, rank, q, SG_WRITES) : area_of(cpu, c, rank, q);
        const sg_area source =
            exchanges ? exchanged(cpu, c, q, rank, SG_READS) : area_of(cpu, c, q, -1);
        const sg_place dst = place_of(cpu, rank, &part);
        const sg_place src = place_of(cpu, q, &source);
        const int64_t end = first + elements_of(&part);
        for (int64_t i = sg_max(from, first); i < sg_min(to, end);) {
            const int64_t row_end = ((i - first) / part.cols + 1) * part.cols + first;
            const int64_t count = sg_min(sg_min(to, end), row_end) - i;
            uint8_t *const into = element(&dst, part.cols, i - first);
            const uint8_t *const out_of = element(&src, part.cols, i - first);
            if (into != out_of) memcpy(into, out_of, (size_t)(count * sg_type_bytes(dst.type)));
            i += count;
        }
        first = end;
    }
}

/* Sums elements [FROM, TO) of RANK's operands at all ranks: PART of each, or all of what is summed
 * in place (PART < 0), which is then stored at all ranks. */
static void sum(const sg_cpu *cpu, const sg_cpu_coll *c, int rank, int part, int64_t from,
                int64_t to)
{
    sg_place operand[SG_LOCAL_RANKS];
    float total[BLOCK];
    for (int q = 0; q < cpu->ranks; q++) {
        const sg_area area = area_of(cpu, c, q, part);
        operand[q] = place_of(cpu, q, &area);
    }
    const sg_area self = area_of(cpu, c, rank, -1);
    const sg_place out = place_of(cpu, rank, &self);
    for (int64_t i = from; i < to;) {
        const int64_t row_end = (i / self.cols + 1) * self.cols;
        const int64_t count = sg_min(sg_min(to, row_end) - i, BLOCK);
        sg_convert_load(operand[0].type, element(&operand[0], self.cols, i), total, count);
        for (int q = 1; q < cpu->ranks; q++)
            sg_convert_add(operand[q].type, element(&operand[q], self.cols, i), total, count);
        for (int q = 0; part < 0 && q < cpu->ranks; q++)
            sg_convert_store(operand[q].type, total, element(&operand[q], self.cols, i), count);
        if (part >= 0) sg_convert_store(out.type, total, element(&out, self.cols, i), count);
        i += count;
    }
}

/* What the collective consists of does not change while a part of it is left, so this reads it
 * without the mutex. */
void sg_coll_move(sg_cpu *cpu, int rank, int32_t index, int64_t from, int64_t to)
{
    const sg_cpu_coll *const c = &cpu->coll[index];
    const int kind = coll_of(cpu, c, rank)->kind;
    if (kind == SG_ALL_GATHER || kind == SG_ALL_TO_ALL) {
        gather(cpu, c, rank, from, to);
    } else if (kind == SG_REDUCE_SCATTER) {
        sum(cpu, c, rank, rank, from, to);
    } else {
        const sg_area self = area_of(cpu, c, rank, -1);
        const int64_t first = rank * elements_of(&self) / cpu->ranks;
        sum(cpu, c, rank, -1, first + from, first + to);
    }
}
