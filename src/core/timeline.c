/* timeline.c -- see timeline.h: making timelines, what follows from their spans, and predicting
 * them.  Measured ones are made in recording.c. */
#include "core/timeline.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/baseline.h"
#include "core/sim.h"

/* Spans of one timeline: more cannot be seen, and take 400 MB. */
enum { MOST_SPANS = 1 << 22 };

/* Ranks of which each is simulated, though some may be images of others. */
enum { MOST_SIMULATED = 256 };

/* Gaps of a measured run shorter than this share of it are the hand of a worker between two
 * tiles. */
static const double least_gap = 1.0 / 400;

const char *sg_timeline_track_name(sg_track track)
{
    static const char *const name[SG_TRACKS] = {"compute", "link", "collective"};
    return name[track];
}

const char *sg_timeline_does_name(sg_does does)
{
    static const char *const name[SG_DOES] = {"product", "sum",        "copy", "send",
                                              "store",   "collective", "wait"};
    return name[does];
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* All ranks, or a sample that begins with the first and ends with the last. */
static void show_ranks(shingle_timeline *t)
{
    const int ranks = t->problem.ranks;
    t->shown = ranks <= SG_TIMELINE_RANKS ? ranks : SG_TIMELINE_SAMPLE;
    for (int i = 0; i < t->shown; i++)
        t->rank[i] = (int16_t)(t->shown == ranks ? i : (ranks - 1) * i / (t->shown - 1));
}

shingle_status sg_timeline_make(const shingle_plan *plan, const char *machine,
                                shingle_timeline **timeline_out)
{
    shingle_timeline *const t = calloc(1, sizeof *t);
    const size_t length = strlen(plan->text);
    if (t == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a timeline");
    t->plan = malloc(length + 1);
    shingle_status status = t->plan != NULL ? sg_problem_copy(&plan->problem, &t->problem)
                                            : sg_fail(SHINGLE_ENOMEM, "no memory for a timeline");
    if (status != SHINGLE_OK) {
        shingle_timeline_free(t);
        return status;
    }
    memcpy(t->plan, plan->text, length + 1);
    sg_text name = {t->strategy, sizeof t->strategy, 0};
    sg_strategy_print(plan->strategy, &plan->knobs, &name);
    snprintf(t->machine, sizeof t->machine, "%s", machine);
    show_ranks(t);
    *timeline_out = t;
    return SHINGLE_OK;
}

void shingle_timeline_free(shingle_timeline *t)
{
    if (t == NULL) return;
    sg_problem_free(&t->problem);
    free(t->plan);
    free(t->span);
    free(t->gap);
    free(t);
}

int sg_timeline_row(const shingle_timeline *t, int rank)
{
    int low = 0;
    int high = t->shown - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (t->rank[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low <= high && t->rank[low] == rank ? low : -1;
}

bool sg_timeline_add(shingle_timeline *t, const sg_timeline_span *span)
{
    if (sg_timeline_row(t, span->rank) < 0) return true;
    if (t->spans == MOST_SPANS) {
        t->lost++;
        return true;
    }
    if (!sg_grow(&t->span, &t->room, (int64_t)t->spans + 1, sizeof *t->span)) return false;
    t->span[t->spans++] = *span;
    return true;
}

/* ---- Order ----------------------------------------------------------------------------------- */

static int by_place(const void *x, const void *y)
{
    const sg_timeline_span *const a = x;
    const sg_timeline_span *const b = y;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->track != b->track) return a->track < b->track ? -1 : 1;
    if (a->begin_us < b->begin_us || b->begin_us < a->begin_us)
        return a->begin_us < b->begin_us ? -1 : 1;
    return (a->end_us > b->end_us) - (a->end_us < b->end_us);
}

/* The first span that does not stand before the rank and track. */
static int32_t first_of(const shingle_timeline *t, int rank, int track)
{
    int32_t low = 0;
    int32_t high = t->spans;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const sg_timeline_span *const s = &t->span[middle];
        if (s->rank < rank || (s->rank == rank && s->track < track))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t sg_timeline_range(const shingle_timeline *t, int row, sg_track track, int32_t *first_out)
{
    *first_out = first_of(t, t->rank[row], (int)track);
    return first_of(t, t->rank[row], (int)track + 1);
}

/* ---- Gaps ------------------------------------------------------------------------------------ */

/* Times at which a processor is taken (+1) or let go (-1). */
typedef struct edge {
    double at_us;
    int by;
} edge;

static int by_time(const void *x, const void *y)
{
    const edge *const a = x;
    const edge *const b = y;
    if (a->at_us < b->at_us || b->at_us < a->at_us) return a->at_us < b->at_us ? -1 : 1;
    return (a->by > b->by) - (a->by < b->by);
}

static bool computes(const sg_timeline_span *s)
{
    return s->track == SG_TRACK_COMPUTE && s->does != SG_DOES_WAIT;
}

/* Intervals in which all processors that the ranks share are taken, as pairs of edges; NULL with
 * *COUNT_OUT -1 without memory. */
static edge *find_full(const shingle_timeline *t, int32_t *count_out)
{
    edge *const list = malloc(((size_t)t->spans * 2 + 2) * sizeof *list);
    int32_t edges = 0;
    *count_out = -1;
    if (list == NULL) return NULL;
    for (int32_t i = 0; i < t->spans; i++) {
        if (!computes(&t->span[i])) continue;
        list[edges++] = (edge){t->span[i].begin_us, 1};
        list[edges++] = (edge){t->span[i].end_us, -1};
    }
    qsort(list, (size_t)edges, sizeof *list, by_time);
    int32_t kept = 0;
    int active = 0;
    for (int32_t i = 0; i < edges; i++) {
        const bool was = active >= t->workers;
        active += list[i].by;
        if (was != (active >= t->workers)) list[kept++] = list[i];
    }
    *count_out = kept;
    return list;
}

static bool add_gap(shingle_timeline *t, int row, double begin, double end)
{
    const double least = t->measured ? t->us * least_gap : 0;
    if (end - begin <= least) return true;
    if (!sg_grow(&t->gap, &t->gap_room, (int64_t)t->gaps + 1, sizeof *t->gap)) return false;
    t->gap[t->gaps++] = (sg_timeline_gap){begin, end, row};
    return true;
}

/* [BEGIN, END) without the FULL intervals. */
static bool add_gaps(shingle_timeline *t, int row, double begin, double end, const edge *full,
                     int32_t count)
{
    for (int32_t i = 0; i + 1 < count && begin < end; i += 2) {
        if (full[i + 1].at_us <= begin) continue;
        if (full[i].at_us >= end) break;
        if (full[i].at_us > begin && !add_gap(t, row, begin, full[i].at_us)) return false;
        begin = full[i + 1].at_us;
    }
    return begin >= end || add_gap(t, row, begin, end);
}

static bool find_gaps(shingle_timeline *t, const edge *full, int32_t count)
{
    for (int row = 0; row < t->shown; row++) {
        int32_t i = 0;
        const int32_t end = sg_timeline_range(t, row, SG_TRACK_COMPUTE, &i);
        double until = 0;
        for (; i < end; i++) {
            const sg_timeline_span *const s = &t->span[i];
            if (!computes(s)) continue;
            if (until < s->begin_us && !add_gaps(t, row, until, s->begin_us, full, count))
                return false;
            if (until < s->end_us) until = s->end_us;
        }
        if (!add_gaps(t, row, until, t->rank_us[row], full, count)) return false;
    }
    return true;
}

/* A measured run tells nothing of waits: they are its gaps. */
static bool add_waits(shingle_timeline *t)
{
    for (int32_t i = 0; i < t->gaps && t->measured; i++) {
        const sg_timeline_span wait = {.begin_us = t->gap[i].begin_us,
                                       .end_us = t->gap[i].end_us,
                                       .share = 1,
                                       .owners = {0, -1},
                                       .step = -1,
                                       .patch = -1,
                                       .rank = t->rank[t->gap[i].row],
                                       .peer = -1,
                                       .track = SG_TRACK_COMPUTE,
                                       .does = SG_DOES_WAIT};
        if (!sg_timeline_add(t, &wait)) return false;
    }
    return true;
}

static void sort(shingle_timeline *t)
{
    if (t->spans > 1) qsort(t->span, (size_t)t->spans, sizeof *t->span, by_place);
}

shingle_status sg_timeline_end(shingle_timeline *t)
{
    int32_t count = 0;
    edge *full = NULL;
    sort(t);
    if (t->workers > 0) full = find_full(t, &count);
    const bool done = count >= 0 && find_gaps(t, full, count) && add_waits(t);
    free(full);
    if (!done) return sg_fail(SHINGLE_ENOMEM, "no memory for %d spans", t->spans);
    sort(t);
    t->exposed_us = 0;
    for (int32_t i = 0; i < t->gaps; i++)
        t->exposed_us += (t->gap[i].end_us - t->gap[i].begin_us) / t->shown;
    return SHINGLE_OK;
}

/* ---- Predicting ------------------------------------------------------------------------------ */

typedef struct telling {
    shingle_timeline *timeline;
    const sg_sched *sched; /* by row */
    sg_owners_index *index[SG_TIMELINE_RANKS];
    int sms;
    bool full; /* no memory */
} telling;

/* The one rank that a step stores to, -1: several, or none. */
static int receiver(const sg_sched *s, const sg_step *step)
{
    return step->tos == 1 ? s->to[step->to0].rank : -1;
}

static sg_does does_what(const sg_sched *s, const sg_span *span)
{
    const sg_step *const step = span->step >= 0 ? &s->step[span->step] : NULL;
    if (span->kind == SG_SPAN_WAIT || step == NULL) return SG_DOES_WAIT;
    if (span->kind == SG_SPAN_COLL || step->kind == SG_COLL) return SG_DOES_COLL;
    if (span->kind == SG_SPAN_TRANSFER && step->kind != SG_COPY) return SG_DOES_STORE;
    if (step->kind == SG_REDUCE || sg_step_norms(step)) return SG_DOES_SUM;
    if (step->kind == SG_COPY) {
        const int to = span->kind == SG_SPAN_TRANSFER ? span->peer : receiver(s, step);
        return to == s->rank ? SG_DOES_COPY : SG_DOES_SEND;
    }
    if (span->patch < 0) return SG_DOES_PRODUCT;
    const sg_patch *const patch = &s->patch[span->patch];
    return patch->k0 == patch->k1 && s->problem->k > 0 ? SG_DOES_SUM : SG_DOES_PRODUCT;
}

/* Copies belong to the link even within a rank: the engine does them. */
static sg_track track_of(const sg_sched *s, const sg_span *span, sg_does does)
{
    if (does == SG_DOES_COLL) return SG_TRACK_COLL;
    if (does == SG_DOES_SEND || does == SG_DOES_STORE) return SG_TRACK_LINK;
    if (span->step < 0) return SG_TRACK_COMPUTE;
    const sg_step *const step = &s->step[span->step];
    if (step->kind == SG_COLL) return SG_TRACK_COLL;
    if (step->kind != SG_COPY) return SG_TRACK_COMPUTE;
    return step->u.copy.carrier == SG_BY_SMS && does != SG_DOES_WAIT ? SG_TRACK_COMPUTE
                                                                     : SG_TRACK_LINK;
}

/* Of copies that go together the first stands for all (sg_sim_end_step). */
static sg_owners owners_of_copies(sg_owners_index *index, int32_t first, int32_t count)
{
    sg_owners all = sg_owners_of_step(index, first);
    for (int32_t i = first + 1; i < first + count; i++) {
        const sg_owners more = sg_owners_of_step(index, i);
        if (more.one != all.one) all.one = -1;
        all.mask |= more.mask;
    }
    return all;
}

static sg_owners owners_of(const sg_sched *s, sg_owners_index *index, const sg_span *span,
                           sg_does does, bool by_gpu)
{
    if (does == SG_DOES_WAIT || span->step < 0) return (sg_owners){0, -1};
    if (s->step[span->step].kind == SG_LAUNCH && span->patch >= 0)
        return sg_owners_of_visits(s, span->step, span->patch, span->tile0,
                                   span->tiles > 0 ? span->tiles : 1);
    return owners_of_copies(index, span->step, by_gpu ? sg_sched_copies(s, span->step) : 1);
}

static void take_span(void *context, const sg_span *span)
{
    telling *const to = context;
    const int row = sg_timeline_row(to->timeline, span->rank);
    if (row < 0 || span->end_us <= span->begin_us) return;
    const sg_sched *const s = &to->sched[row];
    if (span->step >= 0 && s->step[span->step].kind == SG_FLAG && span->kind == SG_SPAN_WORK)
        return;
    /* What a launch or a sum moves within its own memory is part of its work. */
    if (span->kind == SG_SPAN_TRANSFER && span->peer == span->rank &&
        (span->step < 0 || s->step[span->step].kind != SG_COPY))
        return;
    const sg_does does = does_what(s, span);
    const sg_track track = track_of(s, span, does);
    const bool is_part =
        track == SG_TRACK_COMPUTE && does != SG_DOES_WAIT && to->timeline->workers == 0;
    const double share = is_part && span->blocks > 0 ? (double)span->blocks / to->sms : 1;
    const sg_timeline_span mine = {
        .begin_us = span->begin_us,
        .end_us = span->end_us,
        .share = share < 1 ? share : 1,
        .bytes = (int64_t)span->bytes,
        .owners = owners_of(s, to->index[row], span, does, to->timeline->workers == 0),
        .step = span->step,
        .patch = span->step >= 0 ? span->patch : -1,
        .tile0 = span->tile0,
        .tiles = span->tiles,
        .rank = (int16_t)span->rank,
        .peer =
            (int16_t)(span->peer >= 0 && (span->kind == SG_SPAN_TRANSFER || does == SG_DOES_WAIT)
                          ? span->peer
                      : does == SG_DOES_SEND ? receiver(s, &s->step[span->step])
                                             : -1),
        .track = (uint8_t)track,
        .does = (uint8_t)does};
    if (!sg_timeline_add(to->timeline, &mine)) to->full = true;
    if (to->timeline->rank_us[row] < span->end_us) to->timeline->rank_us[row] = span->end_us;
}

/* Only the schedules of ranks that are shown are looked at; the simulator builds its own. */
static shingle_status simulate(sg_simulator *simulator, const shingle_plan *plan,
                               const sg_machine *machine, shingle_timeline *t)
{
    sg_sched sched[SG_TIMELINE_RANKS];
    telling to = {.timeline = t, .sched = sched, .sms = machine->sms > 0 ? machine->sms : 1};
    /* Images of a rank are told of in its own patches, which may be cut at other places than
     * theirs; such spans then have no owner. */
    const sg_sim_options options = {
        .every_rank = plan->problem.ranks <= MOST_SIMULATED, .visit = take_span, .context = &to};
    sg_sim_result result = {.us = 0};
    shingle_status status = SHINGLE_OK;
    memset(sched, 0, sizeof sched);
    for (int i = 0; i < t->shown && status == SHINGLE_OK; i++) {
        status = sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, t->rank[i], &sched[i]);
        if (status == SHINGLE_OK) status = sg_owners_index_make(&sched[i], &to.index[i]);
    }
    if (status == SHINGLE_OK)
        status = sg_simulate_built(simulator, &plan->problem, plan->strategy, &plan->knobs, machine,
                                   &options, &result);
    if (status == SHINGLE_OK && to.full)
        status = sg_fail(SHINGLE_ENOMEM, "no memory for %d spans", t->spans);
    for (int i = 0; i < t->shown; i++) {
        sg_owners_index_free(to.index[i]);
        sg_sched_free(&sched[i]);
    }
    t->us = result.us;
    return status == SHINGLE_OK ? sg_timeline_end(t) : status;
}

/* Product and collective alone, and one after the other: what the first of all strategies does,
 * which does not overlap. */
static shingle_status simulate_alone(sg_simulator *simulator, const shingle_plan *plan,
                                     const sg_machine *machine, shingle_timeline *t)
{
    const sg_sim_options options = {.parts = true};
    sg_sim_result result;
    SG_TRY(sg_baseline_simulate(simulator, &plan->problem, machine, &options, &result));
    t->gemm_us = result.gemm_us;
    t->coll_us = result.comm_us;
    t->serial_us = result.us;
    return SHINGLE_OK;
}

shingle_status sg_timeline_predict(const shingle_plan *plan, const sg_machine *machine,
                                   shingle_timeline **timeline_out)
{
    if (plan->problem.ranks > machine->ranks)
        return sg_fail(SHINGLE_EINVAL, "the problem has %d ranks; machine %s reaches %d",
                       plan->problem.ranks, machine->name, machine->ranks);
    shingle_timeline *t = NULL;
    sg_simulator *const simulator = sg_simulator_new();
    if (simulator == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a simulator");
    shingle_status status = sg_timeline_make(plan, machine->name, &t);
    if (status == SHINGLE_OK) t->workers = machine->pool;
    if (status == SHINGLE_OK) status = simulate(simulator, plan, machine, t);
    if (status == SHINGLE_OK) status = simulate_alone(simulator, plan, machine, t);
    sg_simulator_free(simulator);
    if (status != SHINGLE_OK) {
        shingle_timeline_free(t);
        return status;
    }
    *timeline_out = t;
    return SHINGLE_OK;
}

shingle_status shingle_timeline_predict(const shingle_plan *plan, const shingle_machine *machine,
                                        shingle_timeline **timeline_out)
{
    if (plan == NULL || timeline_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no plan or no place for the timeline; both are needed");
    sg_machine plain;
    sg_machine_plain(&plain);
    return sg_timeline_predict(plan, machine != NULL ? &machine->numbers : &plain, timeline_out);
}

/* ---- Reading --------------------------------------------------------------------------------- */

shingle_status shingle_timeline_about(const shingle_timeline *t, shingle_timeline_facts *facts_out)
{
    if (t == NULL || facts_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no timeline or no place for its facts; both are needed");
    *facts_out = (shingle_timeline_facts){.plan = t->plan,
                                          .strategy = t->strategy,
                                          .machine = t->machine,
                                          .measured = t->measured,
                                          .ranks = t->problem.ranks,
                                          .ranks_shown = t->shown,
                                          .us = t->us,
                                          .gemm_us = t->gemm_us,
                                          .coll_us = t->coll_us,
                                          .serial_us = t->serial_us,
                                          .exposed_us = t->exposed_us,
                                          .spans = t->spans,
                                          .lost = t->lost};
    return SHINGLE_OK;
}

shingle_status shingle_timeline_span(const shingle_timeline *t, int64_t index,
                                     shingle_span *span_out)
{
    if (t == NULL || span_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no timeline or no place for the span; both are needed");
    if (index < 0 || index >= t->spans)
        return sg_fail(SHINGLE_EINVAL, "span %lld; this timeline has %d", (long long)index,
                       t->spans);
    const sg_timeline_span *const s = &t->span[index];
    *span_out = (shingle_span){.rank = s->rank,
                               .track = sg_timeline_track_name((sg_track)s->track),
                               .does = sg_timeline_does_name((sg_does)s->does),
                               .owner = s->owners.one,
                               .peer = s->peer,
                               .step = s->step,
                               .bytes = s->bytes,
                               .begin_us = s->begin_us,
                               .end_us = s->end_us};
    return SHINGLE_OK;
}
