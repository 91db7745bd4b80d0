/* Tests of "norm": the order of additions, the launches of every strategy, what the checker says of
 * wrong ones, and runs with the tensors that it takes. */
#include <math.h>
#include <stdlib.h>

#include "built.h"
#include "core/check.h"
#include "core/data.h"
#include "core/norm.h"

/* ---- A row ----------------------------------------------------------------------------------- */

/* Pairs are added as norm.h says, written out once more. */
static float total_of(const float *lane)
{
    float eight[256];
    float warp[8];
    for (int t = 0; t < 256; t++) {
        const float *const s = lane + 8 * t;
        eight[t] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    }
    for (int w = 0; w < 8; w++) {
        for (int d = 16; d > 0; d /= 2)
            for (int i = 0; i < d; i++) eight[32 * w + i] += eight[32 * w + i + d];
        warp[w] = eight[32 * w];
    }
    return ((warp[0] + warp[4]) + (warp[2] + warp[6])) +
           ((warp[1] + warp[5]) + (warp[3] + warp[7]));
}

static void rows_are_normed(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 7, 8, 2047, 2048, 2049, 9001};
    static float y[9001], was[9001], sums[SG_NORM_LANES], lane[SG_NORM_LANES];
    static char residual[4 * 9001], before[4 * 9001], gain[4 * 9001];
    sg_random random = {5};
    for (int i = 0; i < 7 * SG_TYPES; i++) {
        const sg_type type = (sg_type)(i % SG_TYPES);
        const int64_t n = lengths[i / SG_TYPES];
        double squares = 0;
        memset(lane, 0, sizeof lane);
        for (int64_t j = 0; j < n; j++) {
            y[j] = was[j] = (float)(sg_random_below(&random, 20001) - 10000) / 700.0f;
            sg_data_store(type, (float)(sg_random_below(&random, 2001) - 1000) / 70.0f, before, j);
            sg_data_store(type, (float)(sg_random_below(&random, 21) - 10) / 4.0f, gain, j);
            memcpy(residual, before, sizeof residual);
            const float sum = sg_data_round(type, was[j]) + sg_data_load(type, before, j);
            const float x = sg_data_round(type, sum);
            squares += (double)x * (double)x;
            lane[j % SG_NORM_LANES] += x * x;
        }
        sg_norm_row(type, 1e-5f, n, y, residual, gain, sums);
        const float all = total_of(lane);
        const float scale = 1.0f / sqrtf(all / (float)n + 1e-5f);
        assert_true(fabs((double)all - squares) <= squares * 1e-5);
        for (int64_t j = 0; j < n; j++) {
            const float x =
                sg_data_round(type, sg_data_round(type, was[j]) + sg_data_load(type, before, j));
            const float c = sg_data_round(type, x * scale * sg_data_load(type, gain, j));
            const float stored = sg_data_load(type, residual, j);
            assert_memory_equal(&stored, &x, sizeof x);
            assert_memory_equal(&y[j], &c, sizeof c);
        }
    }
}

/* ---- Schedules ------------------------------------------------------------------------------- */

/* Norm launch INDEX of S; NULL: there are not so many. */
static sg_step *norm_of(const sg_sched *s, int index)
{
    for (int32_t i = 0; i < s->steps; i++)
        if (sg_step_norms(&s->step[i]) && index-- == 0) return &s->step[i];
    return NULL;
}

static const char *const problems[] = {
    "gemm_rs:bf16:130x70x16:r4:norm",
    "gemm_rs:f32:61x33x8:r5:cyclic=4:bias:norm",
    "gemm_rs:f16:9x40x8:r3:rows=4,0,5:norm",
    "gemm_ar:bf16:130x70x16:r4:bias:norm",
    "gemm_ar:f32:61x33x8:r5:cyclic=4:norm",
    "gemm_ar:f16:3x2056x8:r2:norm=1e-3",
    "gemm_rs:f32:20x8x8:r1:norm",
    "gemm_ar:f32:20x8x0:r2:bias:norm",
    "gemm_rs:f32:0x8x8:r2:norm",
    "gemm_ar:f32:8x0x8:r2:norm",
};

/* Rows of C are normed once each, by launches alone, and nothing else is stored there. */
static void every_strategy_norms(void **state)
{
    (void)state;
    sg_checker *const ck = sg_checker_new();
    sg_machine machine;
    int proved = 0;
    sg_machine_plain(&machine);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        for (int k = 0; sg_strategy_at(k) != NULL; k++) {
            built b;
            sg_check_result result;
            if (!build_first(problems[i], sg_strategy_at(k), &b)) continue;
            for (int r = 0; r < b.problem.ranks; r++) {
                const sg_sched *const s = &b.sched[r];
                int64_t rows = 0;
                for (int n = 0; norm_of(s, n) != NULL; n++) {
                    const sg_launch *const l = &norm_of(s, n)->u.launch;
                    for (int32_t j = l->patch0; j < l->patch0 + l->patches; j++) {
                        rows += s->patch[j].rows;
                        assert_int_equal(s->to[s->patch[j].to0].buf, SG_C);
                    }
                }
                assert_int_equal(rows, b.problem.n > 0 ? sg_problem_c_rows(&b.problem, r) : 0);
            }
            if (sg_check(ck, b.sched, b.problem.ranks, machine.sms, &result) != SHINGLE_OK)
                fail_msg("%s %s: %s", problems[i], sg_strategy_at(k)->name, result.why);
            proved++;
            discard(&b);
        }
    }
    assert_true(proved >= 40);
    sg_checker_free(ck);
}

/* Rows that earlier groups complete are normed before the last collective, the others behind it. */
static void signal_norms_in_two_parts(void **state)
{
    (void)state;
    built b;
    build("gemm_ar:f32:1024x64x8:r2:norm",
          "signal{unit=128,cuts=1,sms=0,blocks=0,tile_m=16,tile_n=16}", &b);
    const sg_sched *const s = &b.sched[0];
    const sg_step *const early = norm_of(s, 0);
    const sg_step *const late = norm_of(s, 1);
    assert_true(early != NULL && late != NULL && norm_of(s, 2) == NULL);
    assert_true(early->after[0] >= 0 && early->after[0] < late->after[0]);
    assert_int_equal(early->u.launch.patches, 1);
    const sg_patch *const first = &s->patch[early->u.launch.patch0];
    const sg_patch *const last = &s->patch[late->u.launch.patch0];
    assert_true(first->row0 == 0 && first->rows > 0 && first->rows % 16 == 0);
    assert_true(last->row0 == first->rows && last->rows == 1024 - first->rows);
    assert_true(s->add[first->add0].area.tiled && s->add[last->add0].area.tiled);
    discard(&b);
}

/* ---- Wrong ones ------------------------------------------------------------------------------ */

typedef bool spoiler(built *b);

static sg_patch *patch_of(const sg_sched *s, const sg_step *step)
{
    return &s->patch[step->u.launch.patch0];
}

static bool twice(built *b)
{
    sg_step *const late = norm_of(&b->sched[0], 1);
    if (late == NULL || norm_of(&b->sched[0], 0)->u.launch.patches == 0) return false;
    late->u.launch = norm_of(&b->sched[0], 0)->u.launch;
    return true;
}

static bool before_the_last_group(built *b)
{
    sg_step *const late = norm_of(&b->sched[0], 1);
    if (late == NULL) return false;
    late->after[0] = norm_of(&b->sched[0], 0)->after[0];
    return true;
}

static bool behind_no_lane(built *b)
{
    sg_step *const step = norm_of(&b->sched[0], 0);
    /* What only sends need not be over. */
    if (step->after[0] < 0 || b->sched[0].step[step->after[0]].kind == SG_COPY) return false;
    step->after[0] = step->after[1] = -1;
    return true;
}

static bool a_row_less(built *b)
{
    sg_sched *const s = &b->sched[1];
    sg_patch *const p = patch_of(s, norm_of(s, 0));
    if (s->add[p->add0].area.tiled) return false;
    p->rows--;
    s->to[p->to0].rows--;
    s->add[p->add0].area.rows--;
    return true;
}

static bool other_rows(built *b)
{
    sg_sched *const s = &b->sched[0];
    sg_patch *const p = patch_of(s, norm_of(s, 0));
    sg_area *const from = &s->add[p->add0].area;
    if (from->tiled || from->rows < 2) return false;
    from->rows = p->rows = s->to[p->to0].rows = from->rows - 1;
    from->row0++;
    return true;
}

static bool another_raster(built *b)
{
    sg_sched *const s = &b->sched[0];
    sg_patch *const p = patch_of(s, norm_of(s, 0));
    if (!s->add[p->add0].area.tiled || p->width < 2) return false;
    p->raster = SG_BY_ROW;
    return true;
}

static bool bias_left_out(built *b)
{
    sg_sched *const s = &b->sched[0];
    bool any = false;
    for (int32_t i = 0; i < s->patches; i++) {
        any |= s->patch[i].final != 0;
        s->patch[i].final = 0;
    }
    return any && b->problem.bias;
}

static bool bias_twice(built *b)
{
    sg_sched *const s = &b->sched[0];
    sg_patch *const p = patch_of(s, norm_of(s, 0));
    if (p->final || !b->problem.bias) return false;
    p->final = 1;
    return true;
}

static bool not_normed(built *b)
{
    sg_step *const step = norm_of(&b->sched[0], 0);
    if (b->sched[0].add[patch_of(&b->sched[0], step)->add0].area.tiled) return false;
    step->u.launch.norm = 0;
    return true;
}

/* Each of them somewhere, and nowhere without being seen. */
static void wrong_norms_are_seen(void **state)
{
    (void)state;
    static const struct {
        spoiler *go;
        const char *says; /* at one place at least */
    } spoilers[] = {{twice, "stores what rank 0"},
                    {before_the_last_group, "reads"},
                    {behind_no_lane, "reads"},
                    {a_row_less, "nobody stores"},
                    {other_rows, "wrong value"},
                    {another_raster, ""},
                    {bias_left_out, "wrong value"},
                    {bias_twice, "wrong value"},
                    {not_normed, "nobody stores residual"}};
    static const char *const strategies[] = {
        "serial", "ring", "direct", "fused_out",
        "signal{unit=100,cuts=3,sms=0,blocks=0,tile_m=16,tile_n=16}"};
    sg_checker *const ck = sg_checker_new();
    for (size_t k = 0; k < sizeof spoilers / sizeof spoilers[0]; k++) {
        int seen = 0;
        int said = 0;
        for (size_t i = 0; i < 2 * sizeof strategies / sizeof strategies[0]; i++) {
            built b;
            sg_check_result result;
            const char *const text = i % 2 == 0 ? "gemm_rs:f32:1040x70x4:r3:bias:norm"
                                                : "gemm_ar:f32:1040x70x4:r3:bias:norm";
            build(text, strategies[i / 2], &b);
            if (spoilers[k].go(&b)) {
                if (sg_check(ck, b.sched, b.problem.ranks, 0, &result) != SHINGLE_EBUG)
                    fail_msg("%s %s: spoiler %zu is not seen", text, strategies[i / 2], k);
                said += strstr(result.why, spoilers[k].says) != NULL;
                seen++;
            }
            discard(&b);
        }
        if (seen == 0 || said == 0) fail_msg("spoiler %zu: %d seen, %d said", k, seen, said);
    }
    sg_checker_free(ck);
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Whoever makes the residual himself, and looks at what the norm has left, knows the same
 * numbers. */
static void norms_can_be_looked_at(void **state)
{
    (void)state;
    sg_problem p;
    sg_data d;
    sg_fill c;
    sg_fill after;
    assert_int_equal(sg_problem_parse("gemm_rs:f32:9x5x8:r2:norm=1e-3", &p), SHINGLE_OK);
    assert_int_equal(sg_data_make(&p, 6, &d), SHINGLE_OK);
    for (int r = 0; r < p.ranks; r++) {
        const sg_fill before = sg_data_drawn(&d, r);
        const uint64_t span = 2 * (uint64_t)before.most + 1;
        assert_int_equal(before.kind, SG_FILL_DRAWN);
        assert_int_equal(before.rows, sg_problem_c_rows(&p, r));
        assert_int_equal(sg_data_sums(&d, SG_TENSOR_C, r, &c), SHINGLE_OK);
        assert_int_equal(sg_data_sums(&d, SG_TENSOR_RESIDUAL, r, &after), SHINGLE_OK);
        assert_int_equal(c.kind, SG_FILL_NORMED);
        assert_int_equal(after.kind, SG_FILL_RESIDUAL);
        assert_true(c.key == before.key && after.key == before.key && c.epsilon == 1e-3f);
        for (int64_t i = 0; i < before.rows * p.n; i++) {
            const int64_t drawn = (int64_t)(sg_mix(before.key ^ (uint64_t)i) % span) - before.most;
            const float y = sg_data_expected(&d, r, i / p.n, i % p.n);
            float left = 0;
            assert_true((float)drawn == sg_data_residual(&d, r, i / p.n, i % p.n));
            assert_true(c.gain[i % p.n] == sg_data_gain(&d, i % p.n));
            assert_int_equal(sg_data_normed(&d, r, SG_TENSOR_RESIDUAL, i / p.n, i % p.n, &left),
                             SHINGLE_OK);
            assert_true(left == y + (float)drawn);
        }
        free(c.row);
        free(after.row);
    }
    sg_problem_free(&p);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* What is missing is named; what is there is computed. */
static void tensors_are_taken(void **state)
{
    (void)state;
    enum { M = 10, N = 12, K = 7, RANKS = 2, ROOM = 15 };
    static float a[RANKS][M * K], b[RANKS][N * K], c[RANKS][M * N], residual[RANKS][M * ROOM],
        gain[RANKS][N];
    static const char *const text = "gemm_ar:f32:10x12x7:r2:norm";
    shingle_comm *comm[RANKS];
    shingle_plan *plan[RANKS];
    sg_problem p;
    sg_data data;
    sg_data_wrong wrong;
    shingle_shape shape;
    assert_int_equal(shingle_problem_shape(text, 0, &shape), SHINGLE_OK);
    assert_int_equal(shape.has_norm, 1);
    assert_int_equal(shingle_open(RANKS, NULL, comm), SHINGLE_OK);
    assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
    assert_int_equal(sg_data_make(&p, 3, &data), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(shingle_plan_create(comm[r], text, NULL, &plan[r]), SHINGLE_OK);
        assert_int_equal(sg_data_fill(&data, SG_TENSOR_A, r, a[r], 0), SHINGLE_OK);
        assert_int_equal(sg_data_fill(&data, SG_TENSOR_B, r, b[r], 0), SHINGLE_OK);
        assert_int_equal(sg_data_fill(&data, SG_TENSOR_RESIDUAL, r, residual[r], ROOM), SHINGLE_OK);
        assert_int_equal(sg_data_fill(&data, SG_TENSOR_GAIN, r, gain[r], 0), SHINGLE_OK);
    }
    assert_int_equal(shingle_run(plan[0], a[0], b[0], c[0], NULL), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), "takes a residual and a gain: shingle_run_tensors"));
    for (int r = 0; r < RANKS; r++) {
        const shingle_tensors right = {.a = a[r],
                                       .b = b[r],
                                       .c = c[r],
                                       .residual = residual[r],
                                       .residual_stride = ROOM,
                                       .gain = gain[r]};
        shingle_tensors bad = right;
        bad.residual = NULL;
        assert_int_equal(shingle_run_tensors(plan[r], &bad, NULL), SHINGLE_EINVAL);
        assert_non_null(strstr(shingle_error(), "residual is NULL; a matrix of 10 x 12"));
        bad = right;
        bad.gain = NULL;
        assert_int_equal(shingle_run_tensors(plan[r], &bad, NULL), SHINGLE_EINVAL);
        assert_non_null(strstr(shingle_error(), "gain is NULL; a matrix of 1 x 12"));
        bad = right;
        bad.residual_stride = 11;
        assert_int_equal(shingle_run_tensors(plan[r], &bad, NULL), SHINGLE_EINVAL);
        assert_int_equal(shingle_run_tensors(plan[r], &right, NULL), SHINGLE_OK);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(shingle_sync(comm[r], 20), SHINGLE_OK);
        assert_int_equal(sg_data_compare(&data, r, c[r], 0, &wrong), SHINGLE_OK);
        assert_int_equal(wrong.elements, 0);
        assert_int_equal(sg_data_compare_residual(&data, r, residual[r], ROOM, &wrong), SHINGLE_OK);
        assert_int_equal(wrong.elements, 0);
        c[r][N + 3] += 1;
        residual[r][ROOM + 2] += 1;
        assert_int_equal(sg_data_compare(&data, r, c[r], 0, &wrong), SHINGLE_OK);
        assert_true(wrong.elements == 1 && wrong.row == 1 && wrong.col == 3);
        assert_int_equal(sg_data_compare_residual(&data, r, residual[r], ROOM, &wrong), SHINGLE_OK);
        assert_true(wrong.elements == 1 && wrong.row == 1 && wrong.col == 2 && wrong.residual);
    }
    shingle_close(RANKS, comm);
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_normed),           cmocka_unit_test(every_strategy_norms),
        cmocka_unit_test(signal_norms_in_two_parts), cmocka_unit_test(wrong_norms_are_seen),
        cmocka_unit_test(norms_can_be_looked_at),    cmocka_unit_test(tensors_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
