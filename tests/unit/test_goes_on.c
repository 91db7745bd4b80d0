/* Tests of products that go on from patch to patch: how they are walked and accessed, the rules of
 * seal.c for them, and gathers along k, which are made so. */
#include <stdio.h>
#include <string.h>

#include "built.h"
#include "by_hand.h"

/* Of rank 0 of ag_gemm:f32:8x4x6:r2:gather=k, whose A has columns 0 to 3: the product of these, and
 * of the others from a buffer of columns that come. */
static sg_patch first_of(const sg_sched *s)
{
    sg_patch p = rows_of(s, 0, 8);
    p.k1 = p.a.cols = p.b.cols = 3;
    return p;
}

static sg_patch rest_of(sg_sched *s)
{
    sg_patch p = rows_of(s, 0, 8);
    const uint8_t come = sg_sched_buf(s, SG_LOCAL, "come", 8, 6, 0);
    p.k0 = 3;
    p.a = sg_area_of(s->rank, come, 0, 8, 3, 3);
    p.b.col0 = p.b.cols = 3;
    p.goes_on = 1;
    return p;
}

/* Both, in tiles of 2 x 2, of which the last may be left out or twice there. */
static void both(sg_sched *s, const sg_patch *first, const sg_patch *rest, int times)
{
    sg_sched_launch(s, 0, 2, 2, 0, false);
    sg_sched_patch(s, first);
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 8, 0, 4));
    for (int i = 0; i < times; i++) sg_sched_patch(s, rest);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void they_have_no_visits_of_their_own(void **state)
{
    (void)state;
    const sg_patch p[3] = {{.rows = 10, .cols = 7, .k0 = 4, .k1 = 9, .more = 2, .rest = 4},
                           {.rows = 10, .cols = 7, .k0 = 1, .k1 = 4, .goes_on = 1},
                           {.rows = 10, .cols = 7, .k1 = 1, .goes_on = 1}};
    for (int i = 0; i < 3; i++) {
        int32_t slab = i;
        assert_int_equal(sg_walk_visits(&p[i], 4, 2), i == 0 ? 12 : 0);
        assert_int_equal(sg_walk_units(&p[i], 4, 2, 1, 1), i == 0 ? 12 : 0);
        assert_int_equal(sg_walk_units(&p[i], 4, 2, 2, 2), i == 0 ? 4 : 0);
        assert_ptr_equal(sg_walk_slab(&p[0], &slab), &p[i]);
        assert_int_equal(slab, 0);
    }
    assert_int_equal(sg_walk_all_slabs(&p[0]), 3);
    assert_int_equal(sg_walk_depth(&p[0]), 9);
    /* Slabs of a product that is one patch are its own. */
    const sg_patch cut = {.rows = 10, .cols = 7, .k0 = 1, .k1 = 9, .slab = 3};
    int32_t slab = 2;
    assert_ptr_equal(sg_walk_slab(&cut, &slab), &cut);
    assert_int_equal(slab, 2);
    assert_int_equal(sg_walk_all_slabs(&cut), 3);
}

enum { MOST = 16 };

typedef struct accesses {
    sg_access of[MOST];
    int count;
} accesses;

static void note(void *context, const sg_access *access)
{
    accesses *const all = context;
    assert_true(all->count < MOST);
    all->of[all->count++] = *access;
}

/* What is here, then the flags of what comes, and it; and C last. */
static void a_visit_goes_through_all_of_them(void **state)
{
    (void)state;
    static const struct {
        sg_access_what what;
        sg_role role;
        int32_t slab, k0;
    } want[] = {{SG_READS, SG_ROLE_A, 0, 3},    {SG_READS, SG_ROLE_B, 0, 3},
                {SG_WAITS, SG_ROLE_NONE, 1, 0}, {SG_READS, SG_ROLE_A, 1, 0},
                {SG_READS, SG_ROLE_B, 1, 0},    {SG_WRITES, SG_ROLE_DST, 0, 0}};
    built b;
    build("ag_gemm:f32:8x4x6:r2:gather=k",
          "fused_in{chunks=2,slabs=1,tile_m=2,tile_n=2,push=1,strips=1}", &b);
    const sg_sched *const s = &b.sched[1];
    const int32_t last = s->steps - 1;
    const sg_launch *const l = &s->step[last].u.launch;
    assert_int_equal(l->visits, 8);
    for (int32_t i = 0; i < l->visits; i++) {
        accesses all = {.count = 0};
        sg_visit v;
        sg_sched_visit(s, l, i, &v);
        assert_int_equal(v.patch, l->patch0);
        sg_step_access(s, last, &v, note, &all);
        assert_int_equal(all.count, sizeof want / sizeof want[0]);
        for (int j = 0; j < all.count; j++) {
            const sg_access *const a = &all.of[j];
            assert_int_equal(a->what, want[j].what);
            assert_int_equal(a->role, want[j].role);
            if (j < 5) assert_int_equal(a->slab, want[j].slab);
            if (a->role == SG_ROLE_A || a->role == SG_ROLE_B) {
                assert_int_equal(a->k0, want[j].k0);
                assert_int_equal(a->area.cols, 3);
            }
        }
        assert_int_equal(all.of[0].area.buf, SG_A);
        assert_int_equal(all.of[1].area.col0, 3);
        assert_int_equal(all.of[2].flags.first, v.row0 / 4);
        assert_int_equal(all.of[2].peer, 0);
        assert_int_equal(all.of[3].area.row0, v.row0);
        assert_int_equal(all.of[4].area.col0, 0);
    }
    discard(&b);
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static void with_nothing_before(sg_sched *s)
{
    const sg_patch rest = rest_of(s);
    sg_sched_launch(s, 0, 2, 2, 0, false);
    sg_sched_patch(s, &rest);
}

static void with_another_launch(sg_sched *s)
{
    const sg_patch first = first_of(s), rest = rest_of(s);
    both(s, &first, &rest, 0);
    sg_sched_launch(s, 0, 2, 2, 0, false);
    sg_sched_patch(s, &rest);
}

static void with_too_many(sg_sched *s)
{
    const sg_patch first = first_of(s), rest = rest_of(s);
    both(s, &first, &rest, 256);
}

static void in_other_tiles(sg_sched *s)
{
    sg_patch first = first_of(s), rest = rest_of(s);
    rest.raster = SG_BY_COL;
    both(s, &first, &rest, 1);
}

static void in_fewer_tiles(sg_sched *s)
{
    const sg_patch first = first_of(s);
    sg_patch rest = rest_of(s);
    rest.rows = rest.a.rows = 6;
    both(s, &first, &rest, 1);
}

static void with_another_b(sg_sched *s)
{
    const sg_patch first = first_of(s);
    sg_patch rest = rest_of(s);
    rest.b.buf = sg_sched_buf(s, SG_LOCAL, "b", 4, 6, 0);
    both(s, &first, &rest, 1);
}

static void in_slabs(sg_sched *s)
{
    const sg_patch first = first_of(s);
    sg_patch rest = rest_of(s);
    rest.slab = 1;
    both(s, &first, &rest, 1);
}

static void with_nothing(sg_sched *s)
{
    const sg_patch first = first_of(s);
    sg_patch rest = rest_of(s);
    rest.k1 = rest.k0;
    both(s, &first, &rest, 1);
}

static void and_stores(sg_sched *s)
{
    const sg_patch first = first_of(s), rest = rest_of(s);
    both(s, &first, &rest, 1);
    sg_sched_to(s, sg_area_of(0, SG_C, 0, 8, 0, 4));
}

static void and_raises(sg_sched *s)
{
    const sg_patch first = first_of(s), rest = rest_of(s);
    both(s, &first, &rest, 1);
    sg_sched_raise(s, 1, SG_PER_PATCH, 0);
}

static void from_a_sum(sg_sched *s)
{
    sg_patch first = first_of(s);
    const sg_patch rest = rest_of(s);
    first.k1 = 0;
    both(s, &first, &rest, 1);
}

static void broken_rules_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        void (*build)(sg_sched *s);
    } broken[] = {
        {"goes on with no product", with_nothing_before},
        {"goes on with no product", with_another_launch},
        {"more than 255 patches", with_too_many},
        {"goes on in other tiles", in_other_tiles},
        {"goes on in other tiles", in_fewer_tiles},
        {"goes on with another B", with_another_b},
        {"with nothing, or in slabs", in_slabs},
        {"with nothing, or in slabs", with_nothing},
        {"has more than waits", and_stores},
        {"has more than waits", and_raises},
        {"with a product that cannot", from_a_sum},
    };
    sg_problem p = problem_of("ag_gemm:f32:8x4x6:r2:gather=k");
    sg_sched s = {0};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        sg_sched_begin(&s, &p, 0);
        broken[i].build(&s);
        expect_fault(&s, broken[i].says);
    }
    sg_sched_begin(&s, &p, 0);
    const sg_patch first = first_of(&s), rest = rest_of(&s);
    both(&s, &first, &rest, 1);
    assert_int_equal(sg_sched_seal(&s), SHINGLE_OK);
    assert_int_equal(s.patch[0].more, 1);
    assert_int_equal(s.patch[0].rest, 3);
    assert_int_equal(s.step[0].u.launch.visits, 8);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* ---- Gathers along k ------------------------------------------------------------------------- */

/* Own columns first, then those of the ranks behind, each chunk of rows by itself; a chunk goes to
 * all before the next one does. */
static void gathers_along_k_are_one_product(void **state)
{
    (void)state;
    built b;
    build("ag_gemm:f32:32x16x48:r3:gather=k:accumulate",
          "fused_in{chunks=4,slabs=1,tile_m=8,tile_n=8,push=0,strips=1}", &b);
    const sg_sched *const s = &b.sched[1];
    assert_int_equal(s->patches, 3);
    for (int32_t i = 0; i < 3; i++) {
        const sg_patch *const p = &s->patch[i];
        assert_int_equal(p->k0, (1 + i) % 3 * 16);
        assert_int_equal(p->k1, p->k0 + 16);
        assert_int_equal(p->a.buf == SG_A, i == 0);
        assert_int_equal(p->goes_on, i > 0);
        assert_int_equal(p->adds, i == 0);
        assert_int_equal(p->tos, i == 0);
        assert_int_equal(p->waits, i > 0);
        for (int32_t row = 0; row < 32 && i > 0; row += 8) {
            const sg_flags f = sg_walk_wait(&s->wait[p->wait0], row, 8, p->k0, 0);
            assert_int_equal(s->wait[p->wait0].by, (1 + i) % 3);
            assert_int_equal(f.first, row / 8);
            assert_int_equal(f.count, 1);
        }
    }
    int copies = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind != SG_COPY) continue;
        assert_int_equal(step->u.copy.src.row0, copies++ * 8);
        assert_int_equal(step->u.copy.src.rows, 8);
        assert_int_equal(step->tos, 2);
        for (int j = 0; j < 2; j++) assert_int_equal(s->to[step->to0 + j].col0, 16);
    }
    assert_int_equal(copies, 4);
    discard(&b);
    /* Who has no columns begins with those of the next. */
    build("ag_gemm:f32:32x16x48:r3:gather=k:rows=32,0,16",
          "fused_in{chunks=1,slabs=1,tile_m=8,tile_n=8,push=1,strips=1}", &b);
    assert_int_equal(b.sched[1].patches, 2);
    assert_int_equal(b.sched[1].patch[0].k0, 32);
    assert_int_equal(b.sched[1].patch[0].waits, 1);
    assert_int_equal(b.sched[1].patch[0].more, 1);
    discard(&b);
}

static void many_pieces_of_k_are_declined(void **state)
{
    (void)state;
    proposals all;
    const sg_machine machine = machine_of_tiles(128, 256);
    propose("ag_gemm:f32:16x16x400:r2:gather=k:cyclic=2", sg_strategy_find("fused_in"), &machine,
            &all);
    assert_true(all.count > 0);
    sg_problem p = problem_of("ag_gemm:f32:16x16x402:r2:gather=k:cyclic=2");
    char line[160];
    sg_text why = {line, sizeof line, 0};
    assert_false(sg_strategy_find("fused_in")->accepts(&p, &why));
    assert_non_null(strstr(line, "too many pieces"));
    sg_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_have_no_visits_of_their_own),
        cmocka_unit_test(a_visit_goes_through_all_of_them),
        cmocka_unit_test(broken_rules_are_named),
        cmocka_unit_test(gathers_along_k_are_one_product),
        cmocka_unit_test(many_pieces_of_k_are_declined),
    };
    return cmocka_run_group_tests_name("goes_on", tests, NULL, NULL);
}
