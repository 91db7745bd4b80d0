/* Tests of timeline.h and recording.h: a timeline tells all that a schedule does, once, in order
 * and inside the run, predicted or recorded; and recording costs nothing when it is off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "core/timeline.h"

enum { RANKS = 3 };

static shingle_comm *comm[RANKS];

static int open_group(void **state)
{
    (void)state;
    return shingle_open(RANKS, NULL, comm) == SHINGLE_OK ? 0 : -1;
}

static int close_group(void **state)
{
    (void)state;
    shingle_close(RANKS, comm);
    return 0;
}

/* ---- What holds of every timeline ------------------------------------------------------------ */

/* Sorted, inside the run, on known ranks and tracks. */
static void is_in_order(const shingle_timeline *t)
{
    assert_true(t->us > 0 && t->spans > 0);
    for (int32_t i = 0; i < t->spans; i++) {
        const sg_timeline_span *const s = &t->span[i];
        const int row = sg_timeline_row(t, s->rank);
        assert_in_range(row, 0, t->shown - 1);
        assert_in_range(s->track, 0, SG_TRACKS - 1);
        assert_in_range(s->does, 0, SG_DOES - 1);
        assert_true(s->begin_us >= 0 && s->begin_us <= s->end_us);
        assert_true(s->end_us <= t->us * (1 + 1e-9) + 1e-6);
        assert_true(s->share > 0 && s->share <= 1);
        if (i == 0) continue;
        const sg_timeline_span *const last = s - 1;
        assert_true(last->rank <= s->rank);
        if (last->rank != s->rank) continue;
        assert_true(last->track <= s->track);
        if (last->track == s->track) assert_true(last->begin_us <= s->begin_us);
    }
}

/* Time in which a row computes, without overlaps. */
static double computes_us(const shingle_timeline *t, int row)
{
    int32_t i = 0;
    const int32_t end = sg_timeline_range(t, row, SG_TRACK_COMPUTE, &i);
    double sum = 0;
    double until = 0;
    for (; i < end; i++) {
        const sg_timeline_span *const s = &t->span[i];
        if (s->does == SG_DOES_WAIT || s->end_us <= until) continue;
        sum += s->end_us - fmax(s->begin_us, until);
        until = s->end_us;
    }
    return sum;
}

/* Gaps are what computing leaves of a run; where ranks share processors they are inside that. */
static void gaps_fit(const shingle_timeline *t)
{
    double exposed = 0;
    for (int row = 0; row < t->shown; row++) {
        double gaps = 0;
        double until = 0;
        for (int32_t i = 0; i < t->gaps; i++) {
            if (t->gap[i].row != row) continue;
            assert_true(t->gap[i].begin_us >= until);
            until = t->gap[i].end_us;
            assert_true(until > t->gap[i].begin_us && until <= t->rank_us[row] + 1e-6);
            gaps += until - t->gap[i].begin_us;
        }
        const double rest = t->rank_us[row] - computes_us(t, row);
        if (t->workers > 0)
            assert_true(gaps <= rest + 1e-6);
        else
            assert_true(fabs(gaps - rest) <= 1e-6 * t->us + 1e-6);
        exposed += gaps / t->shown;
    }
    assert_true(fabs(exposed - t->exposed_us) <= 1e-6 * t->us + 1e-6);
}

typedef struct tally {
    int64_t visits;    /* of tile programs */
    double sent_bytes; /* by copies to peers */
} tally;

static tally count_schedule(const shingle_plan *plan, int rank)
{
    tally count = {0, 0};
    sg_sched s = {0};
    if (sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, rank, &s) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    for (int32_t i = 0; i < s.steps; i++) {
        const sg_step *const step = &s.step[i];
        if (step->kind == SG_LAUNCH && !step->u.launch.vendor)
            count.visits += step->u.launch.visits;
        for (int32_t j = step->to0; step->kind == SG_COPY && j < step->to0 + step->tos; j++)
            if (s.to[j].rank != rank)
                count.sent_bytes +=
                    (double)s.to[j].rows * s.to[j].cols * sg_sched_element_bytes(&s, s.to[j].buf);
    }
    sg_sched_free(&s);
    return count;
}

/* Every visit of a tile program is in one span, and in one alone, and so is
 * every byte that is copied. */
static void tells_every_visit(const shingle_timeline *t, const shingle_plan *plan)
{
    for (int row = 0; row < t->shown; row++) {
        const tally want = count_schedule(plan, t->rank[row]);
        int64_t tiles = 0;
        double sent = 0;
        for (int32_t i = 0; i < t->spans; i++) {
            const sg_timeline_span *const s = &t->span[i];
            if (s->rank == t->rank[row] && s->does == SG_DOES_SEND) sent += (double)s->bytes;
            if (s->rank != t->rank[row] || s->track != SG_TRACK_COMPUTE || s->patch < 0 ||
                s->does == SG_DOES_WAIT)
                continue;
            tiles += s->tiles;
            assert_true(s->owners.mask != 0);
        }
        if (fabs(sent - want.sent_bytes) > 0.5)
            fail_msg("%s, rank %d: %.0f of %.0f bytes", t->plan, t->rank[row], sent,
                     want.sent_bytes);
        if (tiles != want.visits)
            fail_msg("%s, rank %d: %lld of %lld visits", t->plan, t->rank[row], (long long)tiles,
                     (long long)want.visits);
    }
}

/* ---- Predicted ------------------------------------------------------------------------------- */

static const char *const problems[] = {
    "gemm:f32:640x512x64:r3",
    "ag_gemm:bf16:2048x1024x512:r4",
    "ag_gemm:f32:1000x500x700:r3:cyclic=100",
    "gemm_rs:bf16:2048x2048x1024:r8:bias",
    "gemm_rs:f16:300x900x512:r5:rows=100,0,50,150,0",
    "gemm_ar:bf16:1024x1024x512:r4",
    "ag_gemm:bf16:2048x1024x512:r4:gather=b",
    "ag_gemm:bf16:1024x1024x2048:r4:gather=k",
    "a2a_gemm:bf16:2048x1024x512:r4",
    "gemm_a2a:bf16:2048x1024x512:r4",
};

enum { PROBLEMS = sizeof problems / sizeof problems[0] };

static void predictions_are_whole(void **state)
{
    (void)state;
    int done = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        for (int j = 0; shingle_strategy_name(j) != NULL; j++) {
            const shingle_plan_options options = {.strategy = shingle_strategy_name(j)};
            shingle_plan *plan = NULL;
            const shingle_status status = shingle_plan_for(problems[i], NULL, &options, &plan);
            if (status == SHINGLE_EUNSUPPORTED) continue;
            if (status != SHINGLE_OK) fail_msg("%s: %s", problems[i], shingle_error());
            shingle_timeline *t = NULL;
            if (shingle_timeline_predict(plan, NULL, &t) != SHINGLE_OK)
                fail_msg("%s: %s", shingle_plan_text(plan), shingle_error());
            is_in_order(t);
            gaps_fit(t);
            tells_every_visit(t, plan);
            assert_true(t->serial_us > 0 && t->gemm_us > 0);
            assert_int_equal(t->coll_us > 0, i > 0);
            assert_string_equal(t->plan, shingle_plan_text(plan));
            shingle_timeline_free(t);
            shingle_plan_free(plan);
            done++;
        }
    }
    assert_true(done > PROBLEMS);
}

/* Rows of every owner are multiplied on every rank of a gather, and the spans say whose they
 * are. */
static void spans_know_their_owner(void **state)
{
    (void)state;
    shingle_plan *plan = NULL;
    shingle_timeline *t = NULL;
    const shingle_plan_options options = {.strategy = "ring"};
    assert_int_equal(shingle_plan_for("ag_gemm:bf16:8192x1024x512:r4", NULL, &options, &plan),
                     SHINGLE_OK);
    assert_int_equal(shingle_timeline_predict(plan, NULL, &t), SHINGLE_OK);
    uint64_t seen[4] = {0};
    for (int32_t i = 0; i < t->spans; i++) {
        const sg_timeline_span *const s = &t->span[i];
        if (s->does == SG_DOES_PRODUCT) seen[s->rank] |= s->owners.mask;
        if (s->does == SG_DOES_SEND) {
            /* A ring passes on: what leaves is one owner's, and never the receiver's own. */
            assert_in_range(s->owners.one, 0, 3);
            assert_int_not_equal(s->owners.one, s->peer);
        }
    }
    for (int r = 0; r < 4; r++) assert_int_equal(seen[r], 15);
    shingle_timeline_free(t);
    shingle_plan_free(plan);
}

static void many_ranks_are_sampled(void **state)
{
    (void)state;
    shingle_plan *plan = NULL;
    shingle_timeline *t = NULL;
    const shingle_plan_options options = {.strategy = "serial"};
    assert_int_equal(shingle_plan_for("gemm_rs:bf16:4096x512x64:r256", NULL, &options, &plan),
                     SHINGLE_OK);
    assert_int_equal(shingle_timeline_predict(plan, NULL, &t), SHINGLE_OK);
    assert_int_equal(t->shown, SG_TIMELINE_SAMPLE);
    assert_int_equal(t->rank[0], 0);
    assert_int_equal(t->rank[t->shown - 1], 255);
    is_in_order(t);
    gaps_fit(t);
    assert_true(t->exposed_us > 0);
    shingle_timeline_free(t);
    shingle_plan_free(plan);
}

/* ---- By hand --------------------------------------------------------------------------------- */

/* A timeline of three ranks that are all done at US, with no spans. */
static shingle_timeline *empty(double us)
{
    shingle_plan *plan = NULL;
    shingle_timeline *t = NULL;
    assert_int_equal(shingle_plan_for("gemm:f32:64x64x64:r3", NULL, NULL, &plan), SHINGLE_OK);
    assert_int_equal(sg_timeline_make(plan, "none", &t), SHINGLE_OK);
    shingle_plan_free(plan);
    t->us = us;
    for (int row = 0; row < RANKS; row++) t->rank_us[row] = us;
    return t;
}

static void add(shingle_timeline *t, int rank, double begin, double end)
{
    const sg_timeline_span span = {.begin_us = begin,
                                   .end_us = end,
                                   .share = 1,
                                   .owners = {1, 0},
                                   .step = 0,
                                   .patch = 0,
                                   .tiles = 1,
                                   .rank = (int16_t)rank,
                                   .peer = -1,
                                   .track = SG_TRACK_COMPUTE,
                                   .does = SG_DOES_PRODUCT};
    assert_true(sg_timeline_add(t, &span));
}

static void gaps_are(const shingle_timeline *t, const sg_timeline_gap *gap, int count)
{
    double exposed = 0;
    assert_int_equal(t->gaps, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(t->gap[i].row, gap[i].row);
        assert_true(t->gap[i].begin_us == gap[i].begin_us && t->gap[i].end_us == gap[i].end_us);
        exposed += gap[i].end_us - gap[i].begin_us;
    }
    assert_true(fabs(t->exposed_us - exposed / RANKS) < 1e-9);
}

/* A rank stands still where it does nothing and one of the workers would do it for it.
 *
 *     rank 0   |======================|                 |=====|
 *     rank 1   |==========|     |=================|
 *     rank 2                    |=====|     |==============|
 *              0     1    2     3     4     5     6     7  7.5 8          10
 *     both     ************     *******     *******     ****
 */
static void gaps_need_a_worker_that_is_free(void **state)
{
    static const sg_timeline_gap gap[] = {{4, 5, 0}, {6, 7, 0}, {8, 10, 0},
                                          {2, 3, 1}, {6, 7, 1}, {7.5, 10, 1},
                                          {2, 3, 2}, {4, 5, 2}, {7.5, 10, 2}};
    (void)state;
    shingle_timeline *const t = empty(10);
    t->workers = 2;
    add(t, 2, 5, 7.5);
    add(t, 0, 0, 4);
    add(t, 1, 3, 6);
    add(t, 0, 7, 8);
    add(t, 2, 3, 4);
    add(t, 1, 0, 2);
    assert_int_equal(sg_timeline_end(t), SHINGLE_OK);
    gaps_are(t, gap, 9);
    assert_int_equal(t->spans, 6); /* what is predicted tells of its waits itself */
    shingle_timeline_free(t);
}

/* Where each rank has processors of its own, all it leaves of the run is a gap. */
static void gaps_are_what_is_left(void **state)
{
    static const sg_timeline_gap gap[] = {{0, 1, 0}, {4, 6, 0}, {0, 10, 1}};
    (void)state;
    shingle_timeline *const t = empty(10);
    add(t, 0, 1, 4);
    add(t, 0, 2, 3);
    add(t, 0, 6, 10);
    add(t, 2, 0, 10);
    assert_int_equal(sg_timeline_end(t), SHINGLE_OK);
    gaps_are(t, gap, 3);
    shingle_timeline_free(t);
}

/* In a measured run a 400th of it is the hand of a worker; what is longer is a wait. */
static void short_gaps_of_a_measured_run_are_none(void **state)
{
    static const sg_timeline_gap gap[] = {{21, 23, 0}};
    (void)state;
    shingle_timeline *const t = empty(400);
    t->measured = true;
    t->workers = RANKS;
    add(t, 0, 0, 10);
    add(t, 0, 11, 21);
    add(t, 0, 23, 400);
    add(t, 1, 0, 400);
    add(t, 2, 0.5, 399.5);
    assert_int_equal(sg_timeline_end(t), SHINGLE_OK);
    gaps_are(t, gap, 1);
    assert_int_equal(t->spans, 6);
    const sg_timeline_span *const wait = &t->span[2];
    assert_int_equal(wait->does, SG_DOES_WAIT);
    assert_true(wait->begin_us == 21 && wait->end_us == 23 && wait->rank == 0);
    shingle_timeline_free(t);
}

/* ---- Recorded -------------------------------------------------------------------------------- */

typedef struct running {
    shingle_plan *plan[RANKS];
    void *a[RANKS], *b[RANKS], *c[RANKS];
} running;

static void *filled(int64_t elements)
{
    float *const data = malloc((size_t)(elements > 0 ? elements : 1) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < elements; i++) data[i] = (float)(i % 7) - 3;
    return data;
}

static void start(const char *problem, const char *strategy, running *r)
{
    const shingle_plan_options options = {.strategy = strategy};
    for (int i = 0; i < RANKS; i++) {
        shingle_shape shape;
        assert_int_equal(shingle_problem_shape(problem, i, &shape), SHINGLE_OK);
        if (shingle_plan_create(comm[i], problem, &options, &r->plan[i]) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
        r->a[i] = filled(shape.a_rows * shape.k);
        r->b[i] = filled(shape.n * shape.k);
        r->c[i] = filled(shape.m * shape.n);
    }
}

static void run(const running *r)
{
    for (int i = 0; i < RANKS; i++)
        if (shingle_run(r->plan[i], r->a[i], r->b[i], r->c[i], NULL) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
    for (int i = 0; i < RANKS; i++)
        if (shingle_sync(comm[i], 60) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

static void finish(running *r)
{
    for (int i = 0; i < RANKS; i++) {
        shingle_plan_free(r->plan[i]);
        free(r->a[i]);
        free(r->b[i]);
        free(r->c[i]);
    }
}

/* Units that find something missing go on later, so a visit may be told of in several spans; none
 * is told of too rarely. */
static void records_every_visit(const shingle_timeline *t, const shingle_plan *plan)
{
    for (int row = 0; row < t->shown; row++) {
        sg_sched s = {0};
        assert_int_equal(sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, row, &s),
                         SHINGLE_OK);
        for (int32_t i = 0; i < s.steps; i++) {
            const sg_launch *const l = &s.step[i].u.launch;
            if (s.step[i].kind != SG_LAUNCH || l->vendor) continue;
            for (int32_t p = l->patch0; p < l->patch0 + l->patches; p++) {
                const int32_t visits = sg_sched_patch_visits(&s, l, p);
                for (int32_t v = 0; v < visits; v++) {
                    sg_visit visit;
                    bool found = false;
                    sg_sched_patch_visit(&s, l, p, v, &visit);
                    for (int32_t j = 0; j < t->spans && !found; j++)
                        found = t->span[j].rank == row && t->span[j].step == i &&
                                t->span[j].patch == p && t->span[j].tile0 == visit.tile;
                    if (!found)
                        fail_msg("%s, rank %d, step %d, patch %d: visit %d is missing", t->plan,
                                 row, i, p, v);
                }
            }
        }
        sg_sched_free(&s);
    }
}

static void records_are_whole(void **state)
{
    (void)state;
    static const char *const asked[][2] = {{"ag_gemm:f32:384x256x512:r3", "direct"},
                                           {"ag_gemm:f32:384x256x512:r3", "fused_in"},
                                           {"gemm_rs:f32:384x256x512:r3", "ring"},
                                           {"gemm_rs:f32:384x256x512:r3", "serial"},
                                           {"gemm_ar:f32:384x256x512:r3", "sliced"}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        running r = {{NULL}, {NULL}, {NULL}, {NULL}};
        shingle_timeline *t = NULL;
        start(asked[i][0], asked[i][1], &r);
        run(&r); /* not recorded */
        assert_int_equal(shingle_timeline_start(RANKS, comm, r.plan[1], 0), SHINGLE_OK);
        run(&r);
        run(&r); /* not recorded either: the first one was */
        if (shingle_timeline_stop(RANKS, comm, &t) != SHINGLE_OK) fail_msg("%s", shingle_error());
        assert_true(t->measured && t->workers > 0);
        assert_int_equal(t->lost, 0);
        is_in_order(t);
        gaps_fit(t);
        records_every_visit(t, r.plan[0]);
        shingle_timeline_free(t);
        finish(&r);
    }
}

static void records_have_limits(void **state)
{
    (void)state;
    running r = {{NULL}, {NULL}, {NULL}, {NULL}};
    running other = {{NULL}, {NULL}, {NULL}, {NULL}};
    shingle_timeline *t = NULL;
    start("gemm_rs:f32:384x256x512:r3", "ring", &r);
    start("gemm_rs:f32:96x64x32:r3", "serial", &other);

    assert_int_equal(shingle_timeline_start(RANKS, comm, r.plan[0], 5), SHINGLE_OK);
    run(&r);
    assert_int_equal(shingle_timeline_stop(RANKS, comm, &t), SHINGLE_OK);
    shingle_timeline_facts facts;
    assert_int_equal(shingle_timeline_about(t, &facts), SHINGLE_OK);
    assert_true(facts.lost > 0);
    int told = 0; /* by all ranks together; waits are what is left */
    for (int32_t i = 0; i < t->spans; i++) told += t->span[i].does != SG_DOES_WAIT;
    assert_int_equal(told, 5);
    is_in_order(t);
    shingle_timeline_free(t);
    t = NULL;

    /* Runs of other plans are not recorded, and a run that was never begun is no timeline, nor is
     * one that goes on; recording goes on until it has ended. */
    assert_int_equal(shingle_timeline_start(RANKS, comm, r.plan[0], 0), SHINGLE_OK);
    run(&other);
    assert_int_equal(shingle_timeline_stop(RANKS, comm, &t), SHINGLE_EINVAL);
    assert_null(t);
    assert_non_null(strstr(shingle_error(), "rank 0 has not begun"));
    assert_int_equal(shingle_run(r.plan[0], r.a[0], r.b[0], r.c[0], NULL), SHINGLE_OK);
    assert_int_equal(shingle_timeline_stop(RANKS, comm, &t), SHINGLE_EINVAL);
    assert_null(t);
    assert_non_null(strstr(shingle_error(), "rank 0 has 1 run in flight; shingle_sync first"));
    for (int i = 1; i < RANKS; i++)
        assert_int_equal(shingle_run(r.plan[i], r.a[i], r.b[i], r.c[i], NULL), SHINGLE_OK);
    for (int i = 0; i < RANKS; i++) assert_int_equal(shingle_sync(comm[i], 20), SHINGLE_OK);
    assert_int_equal(shingle_timeline_stop(RANKS, comm, &t), SHINGLE_OK);
    shingle_timeline_free(t);
    t = NULL;
    assert_int_equal(shingle_timeline_stop(RANKS, comm, &t), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "nothing is recorded"));

    /* Starting anew forgets, and so does closing (the group's end). */
    assert_int_equal(shingle_timeline_start(RANKS, comm, r.plan[0], 0), SHINGLE_OK);
    assert_int_equal(shingle_timeline_start(RANKS, comm, r.plan[0], 0), SHINGLE_OK);
    run(&r);
    assert_int_equal(shingle_timeline_stop(RANKS, comm, NULL), SHINGLE_OK);
    finish(&r);
    finish(&other);
}

static void bad_questions_are_answered(void **state)
{
    (void)state;
    running r = {{NULL}, {NULL}, {NULL}, {NULL}};
    shingle_plan *wide = NULL;
    shingle_timeline *t = NULL;
    shingle_span span;
    shingle_timeline_facts facts;
    start("gemm_rs:f32:96x64x32:r3", "ring", &r);
    assert_int_equal(shingle_plan_for("gemm_rs:f32:96x64x32:r3", NULL, NULL, &wide), SHINGLE_OK);
    assert_int_equal(shingle_timeline_start(RANKS, comm, wide, 0), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "is only data"));
    shingle_plan_free(wide);
    assert_int_equal(shingle_plan_for("gemm_rs:f32:96x64x32:r4", NULL, NULL, &wide), SHINGLE_OK);
    assert_int_equal(shingle_timeline_text(NULL, 1, SHINGLE_SVG, NULL, 0), -1);
    assert_string_equal(shingle_error(), "no timelines to draw");
    assert_int_equal(shingle_timeline_start(RANKS, comm, NULL, 0), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_start(RANKS, NULL, r.plan[0], 0), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_start(RANKS - 1, comm, r.plan[0], 0), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_start(RANKS, comm, r.plan[0], -1), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_start(RANKS, comm, wide, 0), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_start(RANKS, comm, r.plan[0], INT64_MAX), SHINGLE_ENOMEM);
    shingle_comm *others[RANKS];
    shingle_plan *theirs = NULL;
    assert_int_equal(shingle_open(RANKS, NULL, others), SHINGLE_OK);
    assert_int_equal(shingle_plan_create(others[0], "gemm_rs:f32:96x64x32:r3", NULL, &theirs),
                     SHINGLE_OK);
    assert_int_equal(shingle_timeline_start(RANKS, comm, theirs, 0), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "the plan is another group's"));
    assert_int_equal(shingle_timeline_start(RANKS, others, theirs, 0), SHINGLE_OK);
    assert_int_equal(shingle_close(RANKS, others), SHINGLE_OK);
    assert_int_equal(shingle_timeline_predict(NULL, NULL, &t), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_predict(wide, NULL, NULL), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_about(NULL, &facts), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_predict(wide, NULL, &t), SHINGLE_OK);
    assert_int_equal(shingle_timeline_about(t, &facts), SHINGLE_OK);
    assert_int_equal(shingle_timeline_span(t, facts.spans - 1, &span), SHINGLE_OK);
    assert_true(span.rank == 3 && span.begin_us < span.end_us);
    assert_int_equal(shingle_timeline_span(t, facts.spans, &span), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_span(t, -1, &span), SHINGLE_EINVAL);
    shingle_timeline_free(t);
    shingle_timeline_free(NULL);
    shingle_plan_free(wide);
    finish(&r);
}

/* A benchmark gives both, and its measured one took what it reports, more or less. */
static void benchmarks_give_both(void **state)
{
    (void)state;
    shingle_timeline *both[2] = {NULL, NULL};
    const shingle_bench_options options = {
        .strategy = "direct", .iterations = 3, .timelines_out = both};
    shingle_bench_result result;
    /* A run that is to be recorded stays so. */
    running r = {{NULL}, {NULL}, {NULL}, {NULL}};
    start("gemm_rs:f32:96x64x32:r3", "ring", &r);
    assert_int_equal(shingle_timeline_start(RANKS, comm, r.plan[0], 0), SHINGLE_OK);
    assert_int_equal(shingle_bench(RANKS, comm, "ag_gemm:f32:384x256x512:r3", &options, &result),
                     SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_stop(RANKS, comm, NULL), SHINGLE_OK);
    finish(&r);
    if (shingle_bench(RANKS, comm, "ag_gemm:f32:384x256x512:r3", &options, &result) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    assert_non_null(both[0]);
    assert_non_null(both[1]);
    assert_true(!both[0]->measured && both[1]->measured);
    assert_true(both[1]->serial_us == result.serial_us && both[1]->gemm_us == result.gemm_us);
    assert_string_equal(both[0]->plan, both[1]->plan);
    assert_int_equal(result.wrong, 0);
    for (int i = 0; i < 2; i++) {
        assert_true(both[i]->workers > 0);
        is_in_order(both[i]);
        gaps_fit(both[i]);
    }
    shingle_plan *plan = NULL;
    assert_int_equal(shingle_plan_parse(both[0]->plan, &plan), SHINGLE_OK);
    tells_every_visit(both[0], plan);
    records_every_visit(both[1], plan);
    shingle_plan_free(plan);
    shingle_timeline_free(both[0]);
    shingle_timeline_free(both[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_whole),
        cmocka_unit_test(spans_know_their_owner),
        cmocka_unit_test(many_ranks_are_sampled),
        cmocka_unit_test(records_are_whole),
        cmocka_unit_test(records_have_limits),
        cmocka_unit_test(bad_questions_are_answered),
        cmocka_unit_test(benchmarks_give_both),
        cmocka_unit_test(gaps_need_a_worker_that_is_free),
        cmocka_unit_test(gaps_are_what_is_left),
        cmocka_unit_test(short_gaps_of_a_measured_run_are_none),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
