/* Tests of fused_add: plans of all forms are proved, add where they should and nowhere else, and
 * leave the bits of fused_out; what is broken in them by hand is named. */
#include "built.h"

#include <math.h>
#include <stdio.h>

#include "core/check.h"
#include "core/comm.h"
#include "core/data.h"
#include "guarded.h"

enum { RANKS = 2 };

/* ---- Plans ----------------------------------------------------------------------------------- */

static const int odd_rows[] = {1, 2, 7, 129, 1000};

/* Knobs of all forms, behind which come the tile's. */
static const struct form {
    int subs, lag, strips;
} forms[] = {
    {1, 0, 1}, {1, 1, 1}, {3, 1, 1}, {4, 3, 1}, {1, 0, 0}, {3, 0, 0},
    {3, 1, 0}, {1, 0, 3}, {1, 1, 3}, {1, 8, 3}, {2, 1, 3},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

static const char *plan_of(const struct form *f, int tile_m, int tile_n, char *text, size_t size)
{
    snprintf(text, size, "fused_add{subs=%d,lag=%d,tile_m=%d,tile_n=%d,strips=%d}", f->subs, f->lag,
             tile_m, tile_n, f->strips);
    return text;
}

/* What the checker says of all ranks' schedules; "": they are proved. */
static void expect_verdict(const sg_sched *sched, int ranks, const char *words, const char *what)
{
    sg_checker *const ck = sg_checker_new();
    sg_check_result result;
    assert_non_null(ck);
    const shingle_status status = sg_check(ck, sched, ranks, 0, &result);
    sg_checker_free(ck);
    const bool right = words[0] == '\0' ? status == SHINGLE_OK
                                        : status == SHINGLE_EBUG && strstr(result.why, words);
    if (!right) fail_msg("%s: \"%s\", not \"%s\"", what, result.why, words);
}

/* Where S makes its sums. */
static int sums_of(const sg_sched *s)
{
    int buf = -1;
    for (int i = 0; i < s->bufs; i++)
        if (s->buf[i].summed) buf = buf < 0 ? i : SG_MAX_BUFS;
    return buf;
}

/* A rank's adding patches, each of which says so, make what it owns, and others add nothing.  Of an
 * all-reduce all is stored at both ranks, of a scatter at the owner: in C, or in front of a norm in
 * what peers reach of the workspace. */
static void expect_onto(const sg_sched *s, const char *what)
{
    const sg_problem *const p = s->problem;
    const bool all = sg_problem_out(p) == SG_OUT_ALL;
    const int sums = sums_of(s);
    int64_t stored = 0, added = 0;
    if (p->norm ? sums < SG_USER_BUFS || s->buf[sums].arena != SG_SYM : sums != SG_C)
        fail_msg("%s: sums of rank %d in buffer %d", what, s->rank, sums);
    for (int32_t i = 0; i < s->patches; i++) {
        const sg_patch *const patch = &s->patch[i];
        const sg_area *const to = &s->to[patch->to0];
        const bool adds = patch->adds > 0;
        if (to->buf == SG_C && p->norm) continue; /* the norm's */
        if (patch->onto != adds || patch->adds > 1 || patch->final != adds ||
            patch->own_rounded != adds || patch->tos != (all ? 2 : 1))
            fail_msg("%s: patch %d of rank %d", what, (int)i, s->rank);
        *(adds ? &added : &stored) += (int64_t)patch->rows * patch->cols;
        for (int32_t j = 0; j < patch->tos; j++) {
            assert_int_equal(to[j].buf, sums);
            assert_int_equal(to[j].row0, to[0].row0);
            assert_int_equal(to[j].col0, patch->col0);
        }
        if (all) assert_int_equal(to[0].rank + to[1].rank, 1);
        if (!all) assert_int_equal(to[0].rank, adds ? s->rank : 1 - s->rank);
        if (adds) assert_int_equal(s->add[patch->add0].wait.by, 1 - s->rank);
    }
    assert_int_equal(stored + added, p->m * p->n);
    if (!all) assert_int_equal(added, p->share[s->rank].rows * p->n);
}

static void prove(const char *problem, const char *plan)
{
    char what[256];
    int64_t added = 0;
    built b;
    snprintf(what, sizeof what, "%s %s", problem, plan);
    build(problem, plan, &b);
    for (int r = 0; r < RANKS; r++) {
        const sg_sched *const s = &b.sched[r];
        expect_onto(s, what);
        for (int32_t i = 0; i < s->patches; i++)
            if (s->patch[i].onto) added += (int64_t)s->patch[i].rows * s->patch[i].cols;
    }
    assert_int_equal(added, b.problem.m * b.problem.n);
    expect_verdict(b.sched, RANKS, "", what);
    discard(&b);
}

/* Of N columns, which no tile divides; K 0: sums of nothing are added, too. */
static void all_forms_are_proved(void **state)
{
    (void)state;
    static const char *const deals[] = {"", ":cyclic=3", ":rows=0,%d", ":rows=%d,0"};
    static const struct {
        const char *op;
        int n, k;
        const char *form;
    } ops[] = {{"gemm_rs", 50, 3, ""}, {"gemm_ar", 50, 3, ""},      {"gemm_rs", 1, 0, ""},
               {"gemm_ar", 13, 0, ""}, {"gemm_rs", 50, 3, ":norm"}, {"gemm_ar", 13, 0, ":norm"}};
    for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
        for (size_t m = 0; m < sizeof odd_rows / sizeof odd_rows[0]; m++)
            for (size_t d = 0; d < sizeof deals / sizeof deals[0]; d++)
                for (int f = 0; f < FORMS; f++) {
                    char deal[32], problem[96], plan[96];
                    snprintf(deal, sizeof deal, deals[d], odd_rows[m]);
                    snprintf(problem, sizeof problem, "%s:bf16:%dx%dx%d:r2%s%s", ops[o].op,
                             odd_rows[m], ops[o].n, ops[o].k, deal, ops[o].form);
                    prove(problem, plan_of(&forms[f], 24, 16, plan, sizeof plan));
                }
}

/* What is proposed for GPUs of several shapes of tiles, and for none whose file says nothing of
 * such adds. */
static void proposals_are_proved(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm_rs:bf16:1000x4100x2048:r2",
                                           "gemm_ar:bf16:700x8200x8192:r2",
                                           "gemm_ar:bf16:3000x2056x1024:r2"};
    const sg_strategy *const strategy = sg_strategy_find("fused_add");
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        sg_machine machine = machine_of_tiles(128, 256);
        sg_problem p;
        proposals all;
        machine.tiles = 3;
        machine.onto_us = 1;
        machine.tile[1] = (sg_tile){.m = 128, .n = 192, .rate = 1};
        machine.tile[2] = (sg_tile){.m = 64, .n = 128, .rate = 1};
        assert_int_equal(sg_problem_parse(problems[i], &p), SHINGLE_OK);
        propose_to(&p, strategy, &machine, &all);
        assert_in_range(all.count, 2, 6);
        sg_problem_free(&p);
        for (int j = 0; j < all.count; j++) {
            built b;
            build_with(problems[i], strategy, &all.set[j], &b);
            for (int r = 0; r < RANKS; r++) expect_onto(&b.sched[r], problems[i]);
            if (i == 0) expect_verdict(b.sched, RANKS, "", problems[i]);
            discard(&b);
        }
        machine.onto_us = 0;
        propose(problems[i], strategy, &machine, &all);
        assert_int_equal(all.count, 0);
        assert_string_equal(all.why,
                            "the machine's products do not add where they store, by its file");
    }
}

/* C that is added to is an addend that is stored again, too, but peers know nothing of it. */
static void nobody_else_adds_onto(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm_rs:f32:40x24x16:r2", "gemm_ar:f32:40x24x16:r2",
                                           "gemm:f32:40x24x16:r2:accumulate",
                                           "ag_gemm:f32:40x24x16:r2:accumulate"};
    int seen = 0;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++)
        for (int n = 0; sg_strategy_at(n) != NULL; n++) {
            const sg_strategy *const strategy = sg_strategy_at(n);
            built b;
            if (strcmp(strategy->name, "fused_add") == 0) continue;
            if (!build_first(problems[i], strategy, &b)) continue;
            for (int r = 0; r < RANKS; r++) {
                assert_false(b.sched[r].buf[SG_C].summed);
                for (int32_t x = 0; x < b.sched[r].patches; x++)
                    assert_false(b.sched[r].patch[x].onto);
            }
            seen++;
            discard(&b);
        }
    assert_true(seen > 12);
}

/* An empty buffer alone is shared. */
static void takes_no_workspace(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm_rs:bf16:1000x520x64:r2",
                                           "gemm_ar:bf16:1000x520x64:r2"};
    for (int i = 0; i < 2; i++)
        for (int f = 0; f < FORMS; f++) {
            char plan[96];
            built b;
            sg_sched empty = {0};
            build(problems[i], plan_of(&forms[f], 64, 128, plan, sizeof plan), &b);
            sg_sched_begin(&empty, &b.problem, 0);
            sg_sched_buf(&empty, SG_SYM, "none", 0, 0, 0);
            assert_int_equal(sg_sched_seal(&empty), SHINGLE_OK);
            for (int r = 0; r < RANKS; r++)
                for (int a = 0; a < SG_ARENAS; a++)
                    assert_int_equal(b.sched[r].arena_bytes[a], empty.arena_bytes[a]);
            sg_sched_free(&empty);
            discard(&b);
        }
}

static void declines_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *problem, *says;
    } cases[] = {
        {"gemm:bf16:64x64x64:r2", "no rows of C are summed"},
        {"ag_gemm:bf16:64x64x64:r2", "no rows of C are summed"},
        {"gemm_a2a:bf16:64x64x64:r2", "no rows of C are summed"},
        {"gemm_rs:bf16:64x64x64:r1", "one rank has nobody to talk to"},
        {"gemm_ar:bf16:64x64x64:r1", "one rank has nobody to talk to"},
        {"gemm_rs:bf16:64x64x64:r3", "sums of 3 ranks would be rounded more than once"},
        {"gemm_ar:bf16:64x64x64:r8", "sums of 8 ranks would be rounded more than once"},
        {"gemm_ar:bf16:64x64x64:r2:bias", "something is done to sums that are made in memory"},
        {"gemm_rs:bf16:64x64x64:r2:gelu", "something is done to sums that are made in memory"},
        {"gemm_rs:bf16:64x64x64:r2:bias:norm", "something is done to sums that are made in memory"},
        {"gemm_ar:bf16:64x64x64:r2:call=9", "a call makes whole rows, and stores them itself"},
    };
    const sg_strategy *const strategy = sg_strategy_find("fused_add");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char reason[160] = "";
        sg_text why = {reason, sizeof reason, 0};
        sg_problem p;
        if (sg_problem_parse(cases[i].problem, &p) != SHINGLE_OK) fail_msg("%s", shingle_error());
        if (strategy->accepts(&p, &why) || strcmp(reason, cases[i].says) != 0)
            fail_msg("%s: \"%s\"", cases[i].problem, reason);
        sg_problem_free(&p);
    }
}

/* ---- Broken by hand -------------------------------------------------------------------------- */

/* The first patch of RANK that adds, or of those that do not. */
static sg_patch *patch_of(built *b, int rank, bool adds)
{
    for (int32_t i = 0; i < b->sched[rank].patches; i++)
        if ((b->sched[rank].patch[i].adds > 0) == adds) return &b->sched[rank].patch[i];
    fail_msg("rank %d has no such patch", rank);
    return NULL;
}

static sg_area *store_at(built *b, int rank, sg_patch *p, int at)
{
    for (int32_t i = p->to0; i < p->to0 + p->tos; i++)
        if (b->sched[rank].to[i].rank == at) return &b->sched[rank].to[i];
    fail_msg("rank %d stores nothing at %d", rank, at);
    return NULL;
}

/* The add of rank 1 waits for nothing. */
static void without_its_wait(built *b)
{
    b->sched[1].add[patch_of(b, 1, true)->add0].awaited = 0;
}

/* Rank 0 stores only at rank 1, or only at home; or at home both tiles in each other's place. */
static void only_at_the_owner(built *b)
{
    sg_patch *const p = patch_of(b, 0, false);
    b->sched[0].to[p->to0] = *store_at(b, 0, p, 1);
    p->tos = 1;
}

static void only_at_home(built *b)
{
    sg_patch *const p = patch_of(b, 0, false);
    b->sched[0].to[p->to0] = *store_at(b, 0, p, 0);
    p->tos = 1;
}

static void to_other_columns(built *b)
{
    sg_patch *const one = patch_of(b, 0, false);
    store_at(b, 0, one, 0)->col0 = 2;
    store_at(b, 0, one + 1, 0)->col0 = 0;
}

/* Rank 1 adds at rank 0 onto another tile. */
static void onto_other_columns(built *b)
{
    store_at(b, 1, patch_of(b, 1, true), 0)->col0 = 2;
}

/* It says that it adds where it stores, and has another addend. */
static void stored_elsewhere(built *b)
{
    const sg_patch *const p = patch_of(b, 1, true);
    b->sched[1].add[p->add0] = b->sched[1].add[p[1].add0];
}

/* Of rank 0's two patches each raises the flag of the other one's tile. */
static void raised_by_another(built *b)
{
    sg_sched *const s = &b->sched[0];
    sg_patch *const one = patch_of(b, 0, false), *const other = one + 1;
    const sg_raise first = s->raise[one->raise0];
    s->raise[one->raise0].flag0 = s->raise[other->raise0].flag0;
    s->raise[other->raise0].flag0 = first.flag0;
}

typedef struct broken {
    const char *op, *says;
    void (*change)(built *b);
} broken;

/* Rank 0 owns nothing, so that rank 1 alone adds: a tile in each of two strips. */
static void what_is_broken_is_named(void **state)
{
    (void)state;
    static const broken all[] = {
        {"gemm_rs", "rank 1, step 0 (gemm), visit 0", without_its_wait},
        {"gemm_ar", "rank 1, step 0 (gemm), visit 0", without_its_wait},
        {"gemm_ar", "adds onto what is not its addend", only_at_the_owner},
        {"gemm_ar", "reads what nobody has stored yet", only_at_home},
        {"gemm_ar", "adds onto what is not its addend", to_other_columns},
        {"gemm_ar", "adds onto what is not its addend", onto_other_columns},
        {"gemm_rs", "adds onto what is not its addend", stored_elsewhere},
        {"gemm_ar", "adds onto what is not its addend", stored_elsewhere},
        {"gemm_rs", "reads", raised_by_another},
        {"gemm_ar", "reads", raised_by_another},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char problem[64], what[96];
        built b;
        snprintf(problem, sizeof problem, "%s:f32:4x4x3:r2:rows=0,4", all[i].op);
        snprintf(what, sizeof what, "%s, broken %d", problem, (int)i);
        build(problem, "fused_add{subs=1,lag=0,tile_m=4,tile_n=2,strips=2}", &b);
        expect_verdict(b.sched, RANKS, "", what);
        all[i].change(&b);
        expect_verdict(b.sched, RANKS, all[i].says, what);
        discard(&b);
    }
}

/* ---- Runs on the CPU ------------------------------------------------------------------------- */

/* About normally distributed: the sums are rounded. */
static void fill(matrix *m, sg_type type, uint64_t seed)
{
    sg_random random = {seed};
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->cols; j++) {
            double sum = 0;
            for (int x = 0; x < 6; x++)
                sum += (double)(sg_random_next(&random) >> 40) / (1 << 24) - 0.5;
            sg_data_store(type, (float)(1.41 * sum), m->data, i * m->stride + j);
        }
    m->hash = hash_of(m);
}

typedef struct group {
    shingle_comm *comm[RANKS];
    sg_problem problem;
    matrix a[RANKS], b[RANKS], gain[RANKS];
    matrix c[2][RANKS], residual[2][RANKS]; /* of one plan and of the other */
} group;

static void make(group *g, const char *problem)
{
    assert_int_equal(sg_problem_parse(problem, &g->problem), SHINGLE_OK);
    const sg_problem *const p = &g->problem;
    const int bytes = sg_type_bytes(p->type);
    for (int r = 0; r < RANKS; r++) {
        g->a[r] = new_matrix(p->m, p->k, 3, bytes);
        g->b[r] = new_matrix(p->n, p->k, 0, bytes);
        g->gain[r] = new_matrix(1, p->n, 0, bytes);
        for (int i = 0; i < 2; i++) {
            g->c[i][r] = new_matrix(sg_problem_c_rows(p, r), p->n, 5, bytes);
            g->residual[i][r] = new_matrix(sg_problem_c_rows(p, r), p->n, 1, bytes);
        }
    }
}

static void drop(group *g)
{
    for (int r = 0; r < RANKS; r++) {
        free(g->a[r].memory);
        free(g->b[r].memory);
        free(g->gain[r].memory);
        for (int i = 0; i < 2; i++) {
            free(g->c[i][r].memory);
            free(g->residual[i][r].memory);
        }
    }
    sg_problem_free(&g->problem);
}

/* Runs PLAN twice in a row, into C number I. */
static void run(group *g, const char *problem, const char *text, int i)
{
    shingle_plan *plan[RANKS] = {NULL};
    const bool norm = g->problem.norm;
    const shingle_plan_options options = {.strategy = text};
    for (int r = 0; r < RANKS; r++) {
        if (shingle_plan_create(g->comm[r], problem, &options, &plan[r]) != SHINGLE_OK)
            fail_msg("%s %s: %s", problem, text, shingle_error());
        poison(&g->c[i][r]);
    }
    for (int r = 0; r < 2 * RANKS; r++) {
        const int rank = r % RANKS;
        const shingle_tensors given = {.a = g->a[rank].data,
                                       .b = g->b[rank].data,
                                       .c = g->c[i][rank].data,
                                       .gain = norm ? g->gain[rank].data : NULL,
                                       .residual = norm ? g->residual[i][rank].data : NULL,
                                       .a_stride = g->a[rank].stride,
                                       .c_stride = g->c[i][rank].stride,
                                       .residual_stride = norm ? g->residual[i][rank].stride : 0};
        assert_int_equal(shingle_run_tensors(plan[rank], &given, NULL), SHINGLE_OK);
    }
    for (int r = 0; r < RANKS; r++)
        if (shingle_sync(g->comm[r], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
    for (int r = 0; r < RANKS; r++) shingle_plan_free(plan[r]);
}

/* Is C of RANK the same by both plans, and nothing else changed? */
static bool agrees(const group *g, int rank)
{
    const matrix *const one = &g->c[0][rank], *const other = &g->c[1][rank];
    const matrix *const kept = &g->residual[0][rank];
    bool same = canaries_live(one) && hash_of(one) == hash_of(other);
    same &= canaries_live(kept) && hash_of(kept) == hash_of(&g->residual[1][rank]);
    for (int64_t i = 0; i < one->rows; i++)
        for (int64_t j = 0; j < one->cols; j++)
            same &= isfinite(sg_data_load(g->problem.type, one->data, i * one->stride + j));
    return same && hash_of(&g->a[rank]) == g->a[rank].hash &&
           hash_of(&g->b[rank]) == g->b[rank].hash;
}

/* Both round two products and then their sum. */
static void bits_are_those_of_fused_out(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "gemm_rs:bf16:129x50x70:r2",
        "gemm_ar:bf16:129x50x70:r2",
        "gemm_rs:f16:7x37x65:r2:cyclic=2",
        "gemm_ar:f16:40x37x65:r2:cyclic=3",
        "gemm_rs:f32:1x50x40:r2",
        "gemm_ar:f32:2x50x40:r2",
        "gemm_rs:bf16:60x33x64:r2:rows=60,0",
        "gemm_ar:bf16:60x33x64:r2:rows=0,60",
        "gemm_rs:bf16:129x50x70:r2:norm",
        "gemm_ar:f16:40x37x65:r2:cyclic=3:norm",
        "gemm_rs:f32:40x50x40:r2:rows=30,10:norm",
    };
    group g;
    const shingle_config config = {.timeout_seconds = 20};
    assert_int_equal(shingle_open(RANKS, &config, g.comm), SHINGLE_OK);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        make(&g, problems[i]);
        for (int f = 0; f < FORMS; f++) {
            char plan[96];
            for (int r = 0; r < RANKS; r++) {
                fill(&g.a[r], g.problem.type, 4 * i + 64 * (uint64_t)f + (uint64_t)r);
                fill(&g.b[r], g.problem.type, 4 * i + 64 * (uint64_t)f + (uint64_t)r + 2);
                fill(&g.gain[r], g.problem.type, (uint64_t)f);
                for (int x = 0; x < 2; x++)
                    fill(&g.residual[x][r], g.problem.type, 64 * i + (uint64_t)(f + r));
            }
            run(&g, problems[i], plan_of(&forms[f], 16, 16, plan, sizeof plan), 0);
            run(&g, problems[i],
                "fused_out{subs=1,lag=0,tile_m=16,tile_n=16,once=0,splits=1,strips=1,tagged=0}", 1);
            for (int r = 0; r < RANKS; r++)
                if (!agrees(&g, r)) fail_msg("%s %s: rank %d has other bits", problems[i], plan, r);
        }
        drop(&g);
    }
    shingle_close(RANKS, g.comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_are_proved),        cmocka_unit_test(proposals_are_proved),
        cmocka_unit_test(nobody_else_adds_onto),       cmocka_unit_test(takes_no_workspace),
        cmocka_unit_test(declines_with_a_reason),      cmocka_unit_test(what_is_broken_is_named),
        cmocka_unit_test(bits_are_those_of_fused_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
