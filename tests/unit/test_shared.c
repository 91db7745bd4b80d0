/* Runs of several B that share a gathered A, and of a returned A: what shingle_run_tensors takes
 * and refuses, tensors that lie apart, and ranks that draw other borders. */
#include "built.h"
#include "core/data.h"
#include "parts.h"

enum { M = 37, K = 19, N = 16, RANKS = 3, ROOM = 24 }; /* ROOM: elements from row to row */

typedef struct rank {
    float a[M * K], b[3][N * ROOM], c[3][M * ROOM], returned[M * ROOM];
} rank;

typedef struct world {
    shingle_comm *comm[RANKS];
    shingle_plan *plan[RANKS];
    sg_problem problem;
    sg_data data;
    rank rank[RANKS];
} world;

static void parts_of(const sg_problem *p, float (*part)[N * ROOM], void **list, int64_t *stride)
{
    for (int i = 0; i < p->b_count; i++) {
        list[i] = part[i];
        stride[i] = ROOM;
    }
}

static void open_world(world *w, const char *problem, const char *strategy)
{
    const shingle_config config = {.timeout_seconds = 5, .threads = 2};
    const shingle_plan_options options = {.strategy = strategy};
    memset(w, 0, sizeof *w);
    assert_int_equal(shingle_open(RANKS, &config, w->comm), SHINGLE_OK);
    assert_int_equal(sg_problem_parse(problem, &w->problem), SHINGLE_OK);
    assert_int_equal(sg_data_make(&w->problem, 5, &w->data), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) {
        void *list[SHINGLE_MOST_B];
        int64_t stride[SHINGLE_MOST_B];
        float whole[N * K];
        assert_int_equal(shingle_plan_create(w->comm[r], problem, &options, &w->plan[r]),
                         SHINGLE_OK);
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_A, r, w->rank[r].a, 0), SHINGLE_OK);
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_B, r, whole, 0), SHINGLE_OK);
        parts_of(&w->problem, w->rank[r].b, list, stride);
        parts_move(&w->problem, false, N, (char *)whole, list, stride, false);
    }
}

static void close_world(world *w)
{
    shingle_close(RANKS, w->comm);
    sg_problem_free(&w->problem);
}

static shingle_tensors tensors_of(rank *r)
{
    return (shingle_tensors){.a = r->a,
                             .b = r->b[0],
                             .c = r->c[0],
                             .b_stride = ROOM,
                             .c_stride = ROOM,
                             .more_b = {r->b[1], r->b[2]},
                             .more_c = {r->c[1], r->c[2]},
                             .more_b_stride = {ROOM, ROOM},
                             .more_c_stride = {ROOM, ROOM},
                             .returned_a = r->returned,
                             .returned_a_stride = ROOM};
}

static void expect_right(world *w, int r)
{
    float whole[M * N];
    void *list[SHINGLE_MOST_B];
    int64_t stride[SHINGLE_MOST_B];
    sg_data_wrong wrong;
    for (int i = 0; i < w->problem.b_count; i++) {
        list[i] = w->rank[r].c[i];
        stride[i] = ROOM;
    }
    parts_move(&w->problem, true, M, (char *)whole, list, stride, true);
    assert_int_equal(sg_data_compare(&w->data, r, whole, 0, &wrong), SHINGLE_OK);
    assert_int_equal(wrong.elements, 0);
    assert_int_equal(sg_data_compare_returned(&w->data, r, w->rank[r].returned, ROOM, &wrong),
                     SHINGLE_OK);
    assert_int_equal(wrong.elements, 0);
}

static void sync_all(const world *w)
{
    for (int r = 0; r < RANKS; r++)
        if (shingle_sync(w->comm[r], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

static void tensors_lie_apart(void **state)
{
    (void)state;
    static const char *const strategies[] = {"serial", "fused_in", "direct",
                                             "ring",   "sliced",   "dma"};
    static world w;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        open_world(&w, "ag_gemm:f32:37x16x19:r3:cyclic=4:b=9,6,1:return_a", strategies[i]);
        for (int r = 0; r < RANKS; r++) {
            const shingle_tensors t = tensors_of(&w.rank[r]);
            assert_int_equal(shingle_run_tensors(w.plan[r], &t, NULL), SHINGLE_OK);
        }
        sync_all(&w);
        for (int r = 0; r < RANKS; r++) expect_right(&w, r);
        close_world(&w);
    }
}

/* The first that is missing or wrong is named, and nothing is enqueued. */
static void what_is_missing_is_named(void **state)
{
    (void)state;
    static world w;
    open_world(&w, "ag_gemm:f32:37x16x19:r3:b=9,6,1:return_a", "fused_in");
    const shingle_tensors right = tensors_of(&w.rank[0]);
    shingle_tensors wrong[6] = {right, right, right, right, right, right};
    static const char *const says[] = {
        "more_b[0] is NULL; a matrix of 6 x 19",      "more_c[1] is NULL; a matrix of 37 x 1",
        "returned_a is NULL; a matrix of 37 x 19",    "more_c[0] has 5 elements from row to row",
        "returned_a has 18 elements from row to row", "c has 8 elements from row to row"};
    wrong[0].more_b[0] = NULL;
    wrong[1].more_c[1] = NULL;
    wrong[2].returned_a = NULL;
    wrong[3].more_c_stride[0] = 5;
    wrong[4].returned_a_stride = 18;
    wrong[5].c_stride = 8;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(shingle_run_tensors(w.plan[0], &wrong[i], NULL), SHINGLE_EINVAL);
        if (strstr(shingle_error(), says[i]) == NULL) fail_msg("%s", shingle_error());
    }
    assert_int_equal(shingle_run(w.plan[0], right.a, right.b, right.c, NULL), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "takes several B and C: shingle_run_tensors"));
    assert_int_equal(shingle_run_tensors(w.plan[0], &right, &w), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), ": backend cpu has no streams; NULL is accepted"));
    for (int r = 0; r < RANKS; r++) {
        const shingle_tensors t = tensors_of(&w.rank[r]);
        assert_int_equal(shingle_run_tensors(w.plan[r], &t, NULL), SHINGLE_OK);
    }
    sync_all(&w);
    expect_right(&w, 2);
    close_world(&w);

    open_world(&w, "ag_gemm:f32:37x16x19:r3:return_a", "serial");
    assert_int_equal(shingle_run(w.plan[0], right.a, right.b, right.c, NULL), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "takes a returned A: shingle_run_tensors"));
    close_world(&w);
}

/* One launch for all B is what sharing is for: the vendor's would be one for each. */
static void launches_are_shared(void **state)
{
    (void)state;
    static const char *const problems[] = {"ag_gemm:bf16:8192x5120x8192:r2",
                                           "ag_gemm:bf16:8192x5120x8192:r2:b=4096,512,512"};
    const sg_strategy *const direct = sg_strategy_find("direct");
    sg_machine machine;
    sg_machine_plain(&machine);
    const int vendor = knob_called(direct, "vendor");
    for (int i = 0; i < 2; i++) {
        proposals all;
        propose(problems[i], direct, &machine, &all);
        assert_true(all.count > 0);
        assert_int_equal(most_of(&all, vendor), i == 0);
    }
}

/* Patches end at the borders, and a group of bands is multiplied with
 * every B before the next one is. */
static void bands_meet_every_b_in_turn(void **state)
{
    (void)state;
    static const int64_t border[] = {0, 9, 15, 16};
    built b;
    build("ag_gemm:f32:400x16x19:r2:b=9,6,1",
          "fused_in{chunks=2,slabs=1,tile_m=8,tile_n=4,push=0,strips=1}", &b);
    const sg_sched *const s = &b.sched[1];
    int32_t covered = 0; /* rows of own and of arrived rows, all B */
    assert_true(s->patches > 6 && s->patches % 3 == 0);
    for (int32_t i = 0; i < s->patches; i++) {
        const sg_patch *const a = &s->patch[i];
        const sg_patch *const first = &s->patch[i - i % 3];
        assert_true(a->col0 == border[i % 3] && a->col0 + a->cols == border[i % 3 + 1]);
        assert_true(a->row0 == first->row0 && a->rows == first->rows);
        assert_true(a->a.row0 == first->a.row0 && a->b.row0 == a->col0 && a->b.rows == a->cols);
        assert_int_equal(a->waits, first->waits);
        assert_true(a->waits == (a->a.buf == SG_A ? 0 : 1) && a->tos == 1);
        if (i % 3 == 0) covered += a->rows;
    }
    assert_int_equal(covered, 400);
    discard(&b);
}

#define SERIAL "serial{tile_m=8,tile_n=4,windows=0,permute="

/* What is returned: nothing where it has arrived in its place, neighbours in one copy, behind the
 * products of all lanes. */
static void returns_are_few(void **state)
{
    (void)state;
    static const struct {
        const char *problem, *strategy;
        int copies;
    } cases[] = {{"ag_gemm:f32:60x16x19:r3:return_a", SERIAL "0}", 0},
                 {"ag_gemm:f32:60x16x19:r3:b=9,7:return_a", SERIAL "0}", 0},
                 {"ag_gemm:f32:12x16x19:r3:cyclic=2:return_a", SERIAL "0}", 6},
                 {"ag_gemm:f32:60x16x19:r3:b=9,7:return_a",
                  "fused_in{chunks=2,slabs=1,tile_m=8,tile_n=4,push=1,strips=1}", 3},
                 {"ag_gemm:f32:60x16x19:r3:b=9,7:return_a",
                  "fused_in{chunks=1,slabs=1,tile_m=8,tile_n=4,push=0,strips=4}", 3},
                 {"ag_gemm:f32:60x16x19:r3:return_a",
                  "dma{form=2,chunks=1,lanes=1,streams=2,blocks=0,tile_m=8,tile_n=4}", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        built b;
        int copies = 0;
        int32_t last_of_lane_1 = -1;
        build(cases[i].problem, cases[i].strategy, &b);
        const sg_sched *const s = &b.sched[1];
        for (int32_t j = 0; j < s->steps; j++) {
            const sg_step *const step = &s->step[j];
            if (step->kind == SG_LAUNCH && step->lane == 1) last_of_lane_1 = j;
            assert_true(step->kind != SG_LAUNCH || copies == 0);
            if (step->kind != SG_COPY || s->to[step->to0].buf != SG_RETURNED) continue;
            assert_true(step->lane == 0 && step->after[0] == last_of_lane_1);
            copies++;
        }
        assert_true((last_of_lane_1 >= 0) == (strstr(cases[i].strategy, "streams=2") != NULL));
        if (copies != cases[i].copies)
            fail_msg("%s %s: %d copies", cases[i].problem, cases[i].strategy, copies);
        discard(&b);
    }
}

static void other_borders_are_another_plan(void **state)
{
    (void)state;
    static world w;
    shingle_plan *other = NULL;
    const shingle_plan_options options = {.strategy = "fused_in"};
    open_world(&w, "ag_gemm:f32:37x16x19:r3:b=9,6,1", "fused_in");
    assert_int_equal(
        shingle_plan_create(w.comm[1], "ag_gemm:f32:37x16x19:r3:b=6,9,1", &options, &other),
        SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) {
        shingle_tensors t = tensors_of(&w.rank[r]);
        t.returned_a = NULL; /* the problem returns none */
        const shingle_status status = shingle_run_tensors(r == 1 ? other : w.plan[r], &t, NULL);
        assert_true(status == SHINGLE_OK || (r > 0 && status == SHINGLE_EMISMATCH));
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_EMISMATCH);
    assert_non_null(strstr(shingle_error(), "b=6,9,1"));
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_lie_apart),   cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(launches_are_shared), cmocka_unit_test(bands_meet_every_b_in_turn),
        cmocka_unit_test(returns_are_few),     cmocka_unit_test(other_borders_are_another_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
