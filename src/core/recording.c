/* recording.c -- see recording.h: measured timelines.
 *
 *     start   makes a record and hands it to the backend
 *     run     the backend fills it
 *     stop    takes it back and makes spans of its marks */
#include "core/recording.h"

#include <stdlib.h>

struct sg_recording {
    shingle_plan *plan; /* a copy that is data */
    sg_record *record;
};

/* Marks of one rank at most: 100 MB for a group of eight. */
enum { MOST_MARKS = 1 << 17, LEAST_MARKS = 256 };

/* ---- From marks to spans --------------------------------------------------------------------- */

static sg_does does_what(const sg_sched *s, const sg_mark *mark)
{
    const sg_step *const step = &s->step[mark->step];
    if (step->kind == SG_COLL) return SG_DOES_COLL;
    if (mark->deed == SG_DEED_STORE) return SG_DOES_STORE;
    if (step->kind == SG_REDUCE || sg_step_norms(step)) return SG_DOES_SUM;
    if (step->kind == SG_COPY)
        return mark->peer < 0 || mark->peer == s->rank ? SG_DOES_COPY : SG_DOES_SEND;
    return mark->visit.k0 == mark->visit.k1 && s->problem->k > 0 ? SG_DOES_SUM : SG_DOES_PRODUCT;
}

static sg_track track_of(const sg_mark *mark, sg_does does)
{
    if (does == SG_DOES_COLL) return SG_TRACK_COLL;
    return mark->deed == SG_DEED_WORK ? SG_TRACK_COMPUTE : SG_TRACK_LINK;
}

static bool add_mark(shingle_timeline *t, const sg_sched *s, sg_owners_index *index,
                     const sg_mark *mark, double begin_us)
{
    const sg_does does = does_what(s, mark);
    const bool is_visit = mark->visit.patch >= 0;
    const sg_timeline_span span = {.begin_us = mark->begin_us - begin_us,
                                   .end_us = mark->end_us - begin_us,
                                   .share = 1,
                                   .bytes = mark->bytes,
                                   .owners = is_visit ? sg_owners_of_visit(s, &mark->visit)
                                                      : sg_owners_of_step(index, mark->step),
                                   .step = mark->step,
                                   .patch = mark->visit.patch,
                                   .tile0 = is_visit ? mark->visit.tile : 0,
                                   .tiles = is_visit ? 1 : 0,
                                   .rank = mark->rank,
                                   .peer = mark->peer,
                                   .track = (uint8_t)track_of(mark, does),
                                   .does = (uint8_t)does};
    return sg_timeline_add(t, &span);
}

static shingle_status take_marks(const sg_sched *sched, const sg_record *record,
                                 shingle_timeline *t)
{
    double begin = record->begin_us[0];
    for (int r = 1; r < record->ranks; r++)
        if (record->begin_us[r] < begin) begin = record->begin_us[r];
    for (int r = 0; r < record->ranks; r++) {
        t->rank_us[r] = record->end_us[r] - begin;
        if (t->us < t->rank_us[r]) t->us = t->rank_us[r];
    }
    sg_owners_index *index[SG_LOCAL_RANKS] = {NULL};
    shingle_status status = SHINGLE_OK;
    for (int r = 0; r < record->ranks && status == SHINGLE_OK; r++)
        status = sg_owners_index_make(&sched[r], &index[r]);
    for (int64_t i = 0; i < record->marks && status == SHINGLE_OK; i++) {
        const sg_mark *const mark = &record->mark[i];
        if (!add_mark(t, &sched[mark->rank], index[mark->rank], mark, begin))
            status = sg_fail(SHINGLE_ENOMEM, "no memory for %lld spans", (long long)record->marks);
    }
    for (int r = 0; r < record->ranks; r++) sg_owners_index_free(index[r]);
    SG_TRY(status);
    t->lost += record->lost;
    return sg_timeline_end(t);
}

static shingle_status build_all(const shingle_plan *plan, sg_sched *sched)
{
    for (int r = 0; r < plan->problem.ranks; r++)
        SG_TRY(sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, r, &sched[r]));
    return SHINGLE_OK;
}

static shingle_status make_timeline(const shingle_plan *plan, const sg_record *record,
                                    const sg_sched *sched, const char *machine,
                                    shingle_timeline **timeline_out)
{
    shingle_timeline *t = NULL;
    SG_TRY(sg_timeline_make(plan, machine, &t));
    t->measured = true;
    t->workers = record->workers;
    const shingle_status status = take_marks(sched, record, t);
    if (status != SHINGLE_OK)
        shingle_timeline_free(t);
    else
        *timeline_out = t;
    return status;
}

static shingle_status timeline_of(const struct sg_recording *recording, const char *machine,
                                  shingle_timeline **timeline_out)
{
    const sg_record *const record = recording->record;
    for (int r = 0; r < record->ranks; r++)
        if (record->end_us[r] <= 0)
            return sg_fail(SHINGLE_EINVAL, "rank %d has not %s the run that is recorded, %s", r,
                           record->epoch[r] == 0 ? "begun" : "ended", recording->plan->text);
    sg_sched *const sched = calloc((size_t)record->ranks, sizeof *sched);
    if (sched == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a timeline");
    shingle_status status = build_all(recording->plan, sched);
    if (status == SHINGLE_OK)
        status = make_timeline(recording->plan, record, sched, machine, timeline_out);
    for (int r = 0; r < record->ranks; r++) sg_sched_free(&sched[r]);
    free(sched);
    return status;
}

/* ---- A group's recording --------------------------------------------------------------------- */

/* Units of work, the stores of each, and some for pieces and for units that wait in between. */
static shingle_status count_marks(const shingle_plan *plan, int64_t *room_out)
{
    sg_sched s = {0};
    int64_t room = 0;
    for (int r = 0; r < plan->problem.ranks; r++) {
        int64_t mine = 0;
        const shingle_status status =
            sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, r, &s);
        if (status != SHINGLE_OK) {
            sg_sched_free(&s);
            return status;
        }
        for (int32_t i = 0; i < s.steps; i++) {
            const sg_launch *const l = &s.step[i].u.launch;
            mine += LEAST_MARKS;
            if (s.step[i].kind != SG_LAUNCH) continue;
            for (int32_t j = l->patch0; j < l->patch0 + l->patches; j++)
                mine += sg_sched_patch_visits(&s, l, j) * (INT64_C(4) + s.patch[j].tos);
        }
        room += sg_min(mine, MOST_MARKS);
    }
    sg_sched_free(&s);
    *room_out = room;
    return SHINGLE_OK;
}

static void free_recording(struct sg_recording *recording)
{
    if (recording == NULL) return;
    sg_plan_free(recording->plan);
    free(recording->record);
    free(recording);
}

static shingle_status make_recording(const shingle_plan *plan, int64_t spans,
                                     struct sg_recording **recording_out)
{
    int64_t room = spans;
    if (spans == 0) SG_TRY(count_marks(plan, &room));
    struct sg_recording *const recording = calloc(1, sizeof *recording);
    if (recording == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a recording");
    shingle_status status =
        sg_plan_make(&plan->problem, plan->strategy, &plan->knobs, &recording->plan);
    if (status == SHINGLE_OK)
        status = sg_record_make(plan->hash, plan->problem.ranks, room, &recording->record);
    if (status != SHINGLE_OK)
        free_recording(recording);
    else
        *recording_out = recording;
    return status;
}

void sg_recording_drop(sg_group *group)
{
    if (group->recording == NULL) return;
    group->backend->record(group->self, NULL);
    free_recording(group->recording);
    group->recording = NULL;
}

static shingle_status group_of(int ranks, shingle_comm *const *comm, sg_group **group_out)
{
    SG_TRY(sg_comm_check_all(ranks, comm));
    *group_out = comm[0]->group;
    return SHINGLE_OK;
}

static shingle_status start(int ranks, shingle_comm *const *comm, const shingle_plan *plan,
                            int64_t spans)
{
    sg_group *group = NULL;
    SG_TRY(group_of(ranks, comm, &group));
    if (spans < 0)
        return sg_fail(SHINGLE_EINVAL, "room for %lld spans; 0 (what the plan needs) or more",
                       (long long)spans);
    if (plan->problem.ranks != ranks)
        return sg_fail(SHINGLE_EINVAL, "the plan has %d ranks; this group has %d",
                       plan->problem.ranks, ranks);
    const shingle_comm *const owner = plan->bound != NULL ? plan->bound->owner : NULL;
    if (owner != NULL && owner->group != group)
        return sg_fail(SHINGLE_EINVAL,
                       "the plan is another group's; one of these comms' is accepted");
    if (group->backend->record == NULL)
        return sg_fail(SHINGLE_EUNSUPPORTED, "backend %s cannot record runs", group->backend->name);
    SG_TRY(sg_comm_check_idle(group, 0));
    struct sg_recording *recording = NULL;
    SG_TRY(make_recording(plan, spans, &recording));
    sg_recording_drop(group);
    group->recording = recording;
    group->backend->record(group->self, recording->record);
    return SHINGLE_OK;
}

shingle_status shingle_timeline_start(int ranks, shingle_comm *const *comm,
                                      const shingle_plan *plan, int64_t spans)
{
    if (plan == NULL) return sg_fail(SHINGLE_EINVAL, "no plan to record");
    if (plan->bound == NULL)
        return sg_fail(SHINGLE_EINVAL, "%s is only data; shingle_plan_create makes plans that run",
                       plan->text);
    return start(ranks, comm, plan, spans);
}

shingle_status shingle_timeline_stop(int ranks, shingle_comm *const *comm,
                                     shingle_timeline **timeline_out)
{
    sg_group *group = NULL;
    SG_TRY(group_of(ranks, comm, &group));
    if (group->recording == NULL)
        return sg_fail(SHINGLE_EINVAL, "nothing is recorded; shingle_timeline_start begins it");
    shingle_status status = SHINGLE_OK;
    if (timeline_out != NULL) {
        /* While a rank's run goes on, its marks are not all there: it can be asked again. */
        SG_TRY(sg_comm_check_idle(group, 0));
        const sg_type type = group->recording->plan->problem.type;
        status = timeline_of(group->recording, sg_comm_machine(comm[0], type)->name, timeline_out);
    }
    if (status != SHINGLE_EINVAL) sg_recording_drop(group);
    return status;
}

/* ---- Of a benchmark -------------------------------------------------------------------------- */

static double off_by(const shingle_timeline *t, double us)
{
    return t->us < us ? us - t->us : t->us - us;
}

static shingle_status record_runs(sg_group *group, sg_bench *bench, const shingle_plan *plan,
                                  double like_us, shingle_timeline **best)
{
    enum { RUNS = 3 };
    for (int i = 0; i < RUNS; i++) {
        double us = 0;
        shingle_timeline *t = NULL;
        SG_TRY(start(group->ranks, group->comm, plan, 0));
        const shingle_status status = sg_bench_run(bench, plan, ~0u, &us);
        if (status != SHINGLE_OK) {
            sg_recording_drop(group);
            return status;
        }
        SG_TRY(shingle_timeline_stop(group->ranks, group->comm, &t));
        if (*best != NULL && off_by(*best, like_us) <= off_by(t, like_us)) {
            shingle_timeline_free(t);
            continue;
        }
        shingle_timeline_free(*best);
        *best = t;
    }
    return SHINGLE_OK;
}

shingle_status sg_recording_bench(sg_group *group, sg_bench *bench, const shingle_plan *plan,
                                  shingle_bench_result *result, shingle_timeline *timelines_out[2])
{
    shingle_timeline *predicted = NULL;
    shingle_timeline *measured = NULL;
    const sg_machine machine = sg_comm_machine_here(group->comm[0], plan->problem.type);
    SG_TRY(sg_timeline_predict(plan, &machine, &predicted));
    shingle_status status = SHINGLE_OK;
    if (group->backend->record != NULL)
        status = record_runs(group, bench, plan, result->overlapped_us, &measured);
    if (status != SHINGLE_OK) {
        shingle_timeline_free(predicted);
        shingle_timeline_free(measured);
        return status;
    }
    result->wrong = sg_bench_wrong(bench);
    if (measured != NULL) {
        measured->gemm_us = result->gemm_us;
        measured->coll_us = result->coll_us;
        measured->serial_us = result->serial_us;
    }
    timelines_out[0] = predicted;
    timelines_out[1] = measured;
    return SHINGLE_OK;
}
