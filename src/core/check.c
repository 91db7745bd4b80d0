/* check.c -- the way through a check, and the wording of violations; see check.h and
 * docs/check.md. */
#include "core/check.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check_state.h"

sg_checker *sg_checker_new(void)
{
    return calloc(1, sizeof(sg_checker));
}

void sg_checker_free(sg_checker *ck)
{
    if (ck == NULL) return;
    for (int32_t i = 0; i < ck->built_room; i++) sg_sched_free(&ck->built[i]);
    void *const lists[] = {ck->touch,     ck->event,  ck->stage,   ck->stage0,   ck->flag,
                           ck->node,      ck->pair,   ck->agent,   ck->queue,    ck->found,
                           ck->covered,   ck->counts, ck->arrival, ck->arrived,  ck->proved,
                           ck->cuts,      ck->before, ck->place,   ck->coupling, ck->coupled,
                           ck->grid,      ck->value,  ck->writer,  ck->seen,     ck->sum,
                           ck->reference, ck->label,  ck->built,   ck->own,      ck};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) free(lists[i]);
}

/* ---- Wording --------------------------------------------------------------------------------- */

static void say_event(const sg_checker *ck, const sg_event *e, sg_text *t)
{
    static const char *const kind[] = {"gemm", "copy", "reduce", "coll", "flag"};
    const sg_sched *const s = &ck->sched[e->rank];
    const sg_step *const step = &s->step[e->step];
    sg_text_add(t, "rank %d, step %d (%s)", e->rank, e->step,
                sg_step_norms(step) ? "norm" : kind[step->kind]);
    if (e->visit >= 0) {
        sg_visit v;
        sg_sched_visit(s, &step->u.launch, e->visit, &v);
        sg_text_add(t, ", visit %d (rows %d:%d, cols %d:%d, k %d:%d)", e->visit, v.row0,
                    v.row0 + v.rows, v.col0, v.col0 + v.cols, v.k0, v.k1);
    }
}

/* The area of a touch, in elements whatever it is held in. */
static void say_area(const sg_checker *ck, const sg_touch *r, sg_text *t)
{
    int64_t low[2];
    int64_t high[2];
    for (int i = 0; i < 2; i++) {
        const int axis = 2 * r->buf + i;
        low[i] = r->celled ? sg_check_place(ck, axis, r->axis[i].first) : r->axis[i].first;
        high[i] = r->celled ? sg_check_place(ck, axis, r->axis[i].first + r->axis[i].count)
                            : low[i] + r->axis[i].count;
    }
    const sg_sched *const s = &ck->sched[r->rank >= 0 && r->rank < ck->ranks ? r->rank : 0];
    sg_text_add(t, "; %s of rank %d, rows %lld:%lld, cols %lld:%lld",
                r->buf < s->bufs ? s->buf[r->buf].name : "no buffer", r->rank, (long long)low[0],
                (long long)high[0], (long long)low[1], (long long)high[1]);
}

shingle_status sg_check_violation(sg_checker *ck, int32_t event, int32_t touch, const char *format,
                                  ...)
{
    sg_text t = {ck->result->why, sizeof ck->result->why, 0};
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    sg_format(what, sizeof what, format, arguments);
    va_end(arguments);
    if (event >= 0) {
        say_event(ck, &ck->event[event], &t);
        sg_text_add(&t, ": ");
    }
    sg_text_add(&t, "%s", what);
    if (touch >= 0 && sg_check_is_area(&ck->touch[touch])) say_area(ck, &ck->touch[touch], &t);
    return sg_fail(SHINGLE_EBUG, "%s", ck->result->why);
}

/* Does rank BY raise its flag NUMBER at rank AT, a peer?  Flags at home mostly have the numbers of
 * those that peers get for the same rows, and tell nothing of these. */
static bool is_raised(const sg_checker *ck, int at, int by, int32_t number)
{
    const sg_pair *const pair = &ck->pair[at * ck->ranks + by];
    return at != by && pair->low <= number && number < pair->high &&
           ck->flag[pair->first + number - pair->low].raisers > 0;
}

int32_t sg_check_number(const sg_checker *ck, int32_t event, int32_t touch, int32_t index)
{
    const sg_touch *const r = &ck->touch[touch];
    const bool raises = r->what == SG_RAISES;
    const int at = raises ? r->rank : ck->event[event].rank;
    const int by = raises ? ck->event[event].rank : r->rank;
    const sg_pair *const pair = &ck->pair[at * ck->ranks + by];
    return sg_check_flag(r, index) - (int32_t)pair->first + pair->low;
}

shingle_status sg_check_unraised(sg_checker *ck, int32_t event, int32_t touch, int32_t index)
{
    char where[64] = "";
    sg_text t = {where, sizeof where, 0};
    const int at = ck->event[event].rank;
    const int by = ck->touch[touch].rank;
    const int32_t number = sg_check_number(ck, event, touch, index);
    for (int r = 0; r < ck->ranks && t.length == 0; r++) {
        if (is_raised(ck, r, by, number))
            sg_text_add(&t, "; rank %d raises it at rank %d", by, r);
        else if (is_raised(ck, at, r, number))
            sg_text_add(&t, "; rank %d raises one of this number here", r);
    }
    return sg_check_violation(ck, event, touch,
                              "waits for a flag that nobody raises: flag %d of rank %d%s", number,
                              by, where);
}

shingle_status sg_check_parked(sg_checker *ck, int32_t event, int32_t touch, int32_t index)
{
    char who[120] = "";
    sg_text t = {who, sizeof who, 0};
    const sg_flag *const f = &ck->flag[sg_check_flag(&ck->touch[touch], index)];
    if (f->raisers == 1)
        say_event(ck, &ck->event[ck->node[f->raiser].what], &t);
    else
        sg_text_add(&t, "%d steps or visits, of which %d have", f->raisers, f->raised);
    return sg_check_violation(ck, event, -1, "deadlock: waits for flag %d of rank %d, raised by %s",
                              sg_check_number(ck, event, touch, index), ck->touch[touch].rank, who);
}

/* ---- The way through ------------------------------------------------------------------------- */

static shingle_status prove(sg_checker *ck)
{
    SG_TRY(sg_check_axes(ck));
    SG_TRY(sg_check_read(ck));
    SG_TRY(sg_check_link(ck));
    for (int r = 0; r < ck->ranks && ck->sms > 0; r++) SG_TRY(sg_check_sms(ck, r));
    SG_TRY(sg_check_colls(ck));
    SG_TRY(sg_check_cells(ck));
    SG_TRY(sg_check_inputs(ck));
    SG_TRY(sg_check_run(ck));
    return sg_check_outputs(ck);
}

static shingle_status check(sg_checker *ck, const sg_sched *sched, int ranks, int sms, bool bits,
                            sg_check_result *result_out)
{
    *result_out = (sg_check_result){0};
    ck->sched = sched;
    ck->problem = sched[0].problem;
    ck->ranks = ranks;
    ck->sms = sms;
    ck->bits = bits;
    ck->result = result_out;
    return prove(ck);
}

shingle_status sg_check(sg_checker *ck, const sg_sched *sched, int ranks, int sms,
                        sg_check_result *result_out)
{
    return check(ck, sched, ranks, sms, false, result_out);
}

shingle_status sg_check_bits(sg_checker *ck, const sg_sched *sched, int ranks,
                             sg_check_result *result_out)
{
    return check(ck, sched, ranks, 0, true, result_out);
}

shingle_status sg_check_built(sg_checker *ck, const sg_problem *problem,
                              const sg_strategy *strategy, const sg_knobs *knobs, int sms,
                              sg_check_result *result_out)
{
    *result_out = (sg_check_result){0};
    const int32_t had = ck->built_room;
    ck->ranks = problem->ranks;
    SG_ROOM(ck, built, built_room, problem->ranks);
    if (ck->built_room > had)
        memset(&ck->built[had], 0, (size_t)(ck->built_room - had) * sizeof *ck->built);
    for (int r = 0; r < problem->ranks; r++) {
        sg_sched *const s = &ck->built[r];
        sg_sched_begin(s, problem, r);
        strategy->build(problem, knobs, r, s);
        const shingle_status status = sg_sched_seal(s);
        if (status == SHINGLE_OK) continue;
        snprintf(result_out->why, sizeof result_out->why, "%s", shingle_error());
        return status;
    }
    return sg_check(ck, ck->built, problem->ranks, sms, result_out);
}

/* ---- What has been proved -------------------------------------------------------------------- */

/* Hashes of what has been proved; what falls into a slot that is taken takes it.  A hash says all
 * that there is to say, so order among threads is free. */
enum { SLOTS = 1 << 13 };
static atomic_uint_least64_t proofs[SLOTS];

static shingle_status name_proof(const sg_problem *problem, int sms, const sg_strategy *strategy,
                                 const sg_knobs *knobs, uint64_t *hash_out)
{
    const size_t length = sg_problem_print(problem, NULL, 0);
    char *const text = malloc(length + 1);
    if (text == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to name what is proved");
    sg_problem_print(problem, text, length + 1);
    const uint64_t name = sg_hash(strategy->name, strlen(strategy->name), (uint64_t)sms);
    *hash_out = sg_hash(text, length, sg_hash(knobs->value, sizeof knobs->value, name));
    free(text);
    return SHINGLE_OK;
}

shingle_status sg_check_once(sg_checker *ck, const sg_sched *sched, int sms,
                             const sg_strategy *strategy, const sg_knobs *knobs,
                             sg_check_result *result_out)
{
    const sg_problem *const problem = sched[0].problem;
    uint64_t hash = 0;
    SG_TRY(name_proof(problem, sms, strategy, knobs, &hash));
    atomic_uint_least64_t *const slot = &proofs[hash % SLOTS];
    *result_out = (sg_check_result){0};
    if (hash == atomic_load_explicit(slot, memory_order_relaxed)) return SHINGLE_OK;
    SG_TRY(sg_check(ck, sched, problem->ranks, sms, result_out));
    atomic_store_explicit(slot, hash, memory_order_relaxed);
    return SHINGLE_OK;
}

void sg_check_forget(void)
{
    for (int i = 0; i < SLOTS; i++) atomic_store_explicit(&proofs[i], 0, memory_order_relaxed);
}
