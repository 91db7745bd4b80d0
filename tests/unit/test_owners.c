/* Tests of owners.h against the definition, element by element: whose a row, a column or a part of
 * k is, the problem's segments say; which of them a copy moves, the patches that read or store the
 * same elements do. */
#include "built.h"

#include "by_hand.h"
#include "core/owners.h"

/* ---- The definition -------------------------------------------------------------------------- */

static int slot_of(const sg_problem *p, int owner)
{
    int slot = 0; /* the last that begins at OWNER or before */
    if (p->ranks <= SG_OWNER_SLOTS) return owner;
    while (slot + 1 < SG_OWNER_SLOTS && (slot + 1) * p->ranks <= owner * SG_OWNER_SLOTS) slot++;
    return slot;
}

/* The owners so far, by rank. */
typedef struct owners {
    bool of[1024];
} owners;

static void segment_of(const sg_problem *p, int64_t x, owners *o)
{
    for (int32_t i = 0; i < p->segment_count; i++)
        if (x >= p->segments[i].row0 && x < p->segments[i].row0 + p->segments[i].rows)
            o->of[p->segments[i].owner] = true;
}

/* A box of RANK's product: rows, columns and part of k, each from and to. */
typedef struct box {
    int64_t row0, row1, col0, col1, k0, k1;
} box;

static void box_of(const sg_problem *p, int rank, const box *b, owners *o)
{
    const bool by_part = p->op == SG_OP_A2A_GEMM || p->op == SG_OP_GEMM_A2A;
    if (p->op == SG_OP_GEMM) {
        o->of[rank] = true;
        return;
    }
    if (p->gather == SG_GATHER_K) {
        for (int64_t x = b->k0; x < b->k1; x++) segment_of(p, x, o);
        return;
    }
    if (p->gather == SG_GATHER_B) {
        for (int64_t x = b->col0; x < b->col1; x++) segment_of(p, x, o);
        return;
    }
    for (int64_t x = b->row0; x < b->row1; x++) {
        for (int q = 0; by_part && q < p->ranks; q++) {
            const sg_part part = sg_problem_part(p, rank, q);
            if (x >= part.base && x < part.base + part.rows) o->of[q] = true;
        }
        if (!by_part) segment_of(p, x, o);
    }
}

/* A patch that only adds up: its rows are the rank's own, unless all ranks get all. */
static bool only_sums(const sg_sched *s, const sg_patch *patch)
{
    return patch->k0 == patch->k1 && s->problem->k > 0 && s->problem->op != SG_OP_GEMM_AR;
}

static void patch_box(const sg_sched *s, const sg_patch *patch, const box *b, owners *o)
{
    if (only_sums(s, patch))
        o->of[s->rank] = true;
    else
        box_of(s->problem, s->rank, b, o);
}

static void is_set(const sg_sched *s, const owners *o, sg_owners seen, const char *what, int at)
{
    uint64_t mask = 0;
    int count = 0;
    int one = -1;
    for (int q = 0; q < s->problem->ranks; q++) {
        if (!o->of[q]) continue;
        mask |= UINT64_C(1) << slot_of(s->problem, q);
        one = count++ > 0 ? -1 : q;
    }
    if (seen.mask == mask && seen.one == one) return;
    char text[300];
    sg_problem_print(s->problem, text, sizeof text);
    fail_msg("%s, rank %d, %s %d: %llx and %d, not %llx and %d", text, s->rank, what, at,
             (unsigned long long)seen.mask, seen.one, (unsigned long long)mask, one);
}

static bool holds(const sg_area *area, int64_t row, int64_t col)
{
    return row >= area->row0 && row < area->row0 + area->rows && col >= area->col0 &&
           col < area->col0 + area->cols;
}

/* What the elements of AREA are to PATCH as OPERAND (0: A, 1: B, then what it stores); false: it
 * has none of them. */
static bool operand_of(const sg_sched *s, const sg_patch *patch, int operand, const sg_area *area,
                       owners *o)
{
    const sg_area *const mine = operand == 0   ? &patch->a
                                : operand == 1 ? &patch->b
                                               : &s->to[patch->to0 + operand - 2];
    bool any = false;
    if (mine->rank != area->rank || mine->buf != area->buf || mine->tiled || area->tiled)
        return false;
    for (int64_t row = area->row0; row < area->row0 + area->rows; row++) {
        for (int64_t col = area->col0; col < area->col0 + area->cols; col++) {
            if (!holds(mine, row, col)) continue;
            const int64_t i = row - mine->row0;
            const int64_t j = col - mine->col0;
            box b = {.row0 = patch->row0,
                     .row1 = patch->row0 + patch->rows,
                     .col0 = patch->col0,
                     .col1 = patch->col0 + patch->cols,
                     .k0 = patch->k0,
                     .k1 = patch->k1};
            if (operand != 1) b.row0 += i, b.row1 = b.row0 + 1;
            if (operand == 1) b.col0 += i, b.col1 = b.col0 + 1;
            if (operand > 1) b.col0 += j, b.col1 = b.col0 + 1;
            if (operand < 2) b.k0 += j, b.k1 = b.k0 + 1;
            box_of(s->problem, s->rank, &b, o);
            any = true;
        }
    }
    return any;
}

static void area_of(const sg_sched *s, const sg_area *area, owners *o)
{
    for (int32_t i = 0; i < s->patches; i++) {
        const sg_patch *const patch = &s->patch[i];
        if (only_sums(s, patch)) continue;
        for (int operand = 0; operand < 2 + patch->tos; operand++)
            if (operand_of(s, patch, operand, area, o)) break;
    }
}

static bool is_empty(const owners *o)
{
    for (size_t q = 0; q < sizeof o->of; q++)
        if (o->of[q]) return false;
    return true;
}

/* ---- Schedules ------------------------------------------------------------------------------- */

static void visits_are_right(const sg_sched *s, int32_t step)
{
    const sg_launch *const l = &s->step[step].u.launch;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const patch = &s->patch[i];
        const int32_t visits = sg_sched_patch_visits(s, l, i);
        owners some = {{false}};
        int32_t from = 0;
        for (int32_t j = 0; j < visits; j++) {
            owners one = {{false}};
            sg_visit v;
            sg_sched_patch_visit(s, l, i, j, &v);
            for (int32_t k = 0; k <= patch->more; k++) {
                const box b = {v.row0,          v.row0 + v.rows, v.col0,
                               v.col0 + v.cols, patch[k].k0,     patch[k].k1};
                patch_box(s, patch, &b, &one);
                patch_box(s, patch, &b, &some);
            }
            is_set(s, &one, sg_owners_of_visit(s, &v), "visit", j);
            is_set(s, &one, sg_owners_of_visits(s, step, i, j, 1), "visit", j);
            if (j % 3 != 2 && j + 1 < visits) continue;
            is_set(s, &some, sg_owners_of_visits(s, step, i, from, 3), "three visits to", j);
            some = (owners){{false}};
            from = j + 1;
        }
    }
}

static void step_is(const sg_sched *s, int32_t at, owners *o)
{
    const sg_step *const step = &s->step[at];
    if (step->kind == SG_COLL) {
        for (int q = 0; q < s->problem->ranks; q++) o->of[q] = true;
    } else if (step->kind == SG_LAUNCH) {
        for (int32_t i = 0; i < step->u.launch.patches; i++) {
            const sg_patch *const patch = &s->patch[step->u.launch.patch0 + i];
            const box b = {patch->row0, patch->row0 + patch->rows,
                           patch->col0, patch->col0 + patch->cols,
                           patch->k0,   patch->k1};
            patch_box(s, patch, &b, o);
        }
    } else if (step->kind == SG_COPY) {
        const int peer = step->tos > 0 ? s->to[step->to0].rank : s->rank;
        area_of(s, &step->u.copy.src, o);
        if (is_empty(o)) o->of[sg_problem_out(s->problem) != SG_OUT_NONE ? peer : s->rank] = true;
    } else if (step->kind == SG_REDUCE) {
        for (int32_t i = 0; i < step->u.reduce.adds; i++)
            area_of(s, &s->add[step->u.reduce.add0 + i].area, o);
        if (is_empty(o)) o->of[s->rank] = true;
    }
}

static void schedule_is_right(const sg_sched *s)
{
    sg_owners_index *index = NULL;
    assert_int_equal(sg_owners_index_make(s, &index), SHINGLE_OK);
    for (int again = 0; again < 2; again++) { /* what was found is kept */
        for (int32_t i = 0; i < s->steps; i++) {
            owners o = {{false}};
            if (s->step[i].kind == SG_LAUNCH && !again) visits_are_right(s, i);
            step_is(s, i, &o);
            is_set(s, &o, sg_owners_of_step(index, i), "step", i);
        }
    }
    sg_owners_index_free(index);
}

static const char *const problems[] = {
    "gemm:f32:20x12x8:r2",
    "ag_gemm:f32:40x24x16:r4",
    "ag_gemm:f32:37x20x12:r3:cyclic=5",
    "ag_gemm:f32:40x20x12:r4:rows=9,0,30,1",
    "ag_gemm:f32:20x36x16:r3:gather=b:cyclic=5",
    "ag_gemm:f32:20x12x36:r3:gather=k:cyclic=6",
    "gemm_rs:f32:40x24x16:r4",
    "gemm_rs:bf16:37x20x12:r3:cyclic=5:bias",
    "gemm_rs:f32:40x20x12:r5:rows=9,0,20,1,10",
    "gemm_rs:f32:12x8x0:r3",
    "gemm_ar:f32:40x24x16:r4",
    "gemm_ar:bf16:37x20x12:r3:cyclic=5:relu",
    "a2a_gemm:f32:36x20x12:r3",
    "a2a_gemm:f32:9x5x24:r3:counts=4,0,1/2,3,0/0,6,1",
    "gemm_a2a:f32:36x20x12:r3",
    "gemm_a2a:f32:9x5x24:r3:counts=4,0,1/2,3,0/2,6,1",
};

/* All knob sets that all strategies propose. */
static void owners_are_those_of_the_elements(void **state)
{
    (void)state;
    int built_ones = 0;
    const sg_machine machine = machine_of_tiles(8, 16);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        for (int j = 0; sg_strategy_at(j) != NULL; j++) {
            proposals all;
            propose(problems[i], sg_strategy_at(j), &machine, &all);
            for (int k = 0; k < all.count; k++) {
                built b;
                build_with(problems[i], sg_strategy_at(j), &all.set[k], &b);
                for (int r = 0; r < b.problem.ranks; r++) schedule_is_right(&b.sched[r]);
                discard(&b);
                built_ones++;
            }
        }
    }
    assert_true(built_ones > 100);
}

/* Beyond SG_OWNER_SLOTS ranks, neighbours are counted together, and none is left out. */
static void many_ranks_share_slots(void **state)
{
    static const char *const text[] = {"ag_gemm:f32:200x8x8:r100", "gemm_rs:f32:200x8x8:r65",
                                       "gemm_ar:f32:200x8x8:r64", "ag_gemm:f32:200x8x8:r200"};
    (void)state;
    const sg_machine machine = machine_of_tiles(16, 16);
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        sg_problem p = problem_of(text[i]);
        assert_int_equal(sg_owners_slot(&p, 0), 0);
        assert_int_equal(sg_owners_slot(&p, p.ranks - 1), SG_OWNER_SLOTS - 1);
        for (int q = 0; q < p.ranks; q++) assert_int_equal(sg_owners_slot(&p, q), slot_of(&p, q));
        for (int j = 0; sg_strategy_at(j) != NULL; j++) {
            proposals all;
            propose_to(&p, sg_strategy_at(j), &machine, &all);
            for (int rank = 0; all.count > 0 && rank < p.ranks; rank += p.ranks / 2 - 1) {
                sg_sched s = {0};
                if (sg_plan_build(&p, sg_strategy_at(j), &all.set[0], rank, &s) != SHINGLE_OK)
                    fail_msg("%s", shingle_error());
                schedule_is_right(&s);
                sg_sched_free(&s);
            }
        }
        sg_problem_free(&p);
    }
}

/* The owner of each copy of S's last steps, WANT of them. */
static void copies_are_of(const sg_sched *s, const int *want, int count)
{
    sg_owners_index *index = NULL;
    assert_int_equal(s->status, SHINGLE_OK);
    assert_int_equal(sg_owners_index_make(s, &index), SHINGLE_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(sg_owners_of_step(index, s->steps - count + i).one, want[i]);
    sg_owners_index_free(index);
    schedule_is_right(s);
}

/* No strategy copies part of what a patch stores of a gathered B, whose columns have owners. */
static void copies_of_some_columns_are_their_owners(void **state)
{
    (void)state;
    sg_problem p = problem_of("ag_gemm:f32:8x24x4:r3:gather=b");
    sg_sched s = {0};
    sg_sched_begin(&s, &p, 1);
    const uint8_t room = sg_sched_buf(&s, SG_WINDOWS, "room", 8, 24, 0);
    const uint8_t other = sg_sched_buf(&s, SG_WINDOWS, "other", 24, 24, 0);
    sg_sched_launch(&s, 0, 8, 8, 0, false);
    const sg_patch patch = {.rows = 8,
                            .col0 = 4,
                            .cols = 20,
                            .k1 = 4,
                            .a = sg_area_of(1, SG_A, 0, 8, 0, 4),
                            .b = sg_area_of(1, other, 0, 20, 0, 4)};
    sg_sched_patch(&s, &patch);
    sg_sched_to(&s, sg_area_of(1, room, 0, 8, 2, 20));
    static const int of[][2] = {{2, 4}, {6, 8}, {14, 8}, {5, 2}};
    static const int want[] = {0, 1, 2, -1};
    for (int i = 0; i < 4; i++) {
        sg_sched_copy(&s, 0, SG_BY_SMS, sg_area_of(1, room, 1, 2, of[i][0], of[i][1]));
        sg_sched_to(&s, sg_area_of(1, other, 20, 2, of[i][0], of[i][1]));
    }
    copies_are_of(&s, want, 4);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

/* Part of a gathered A that a patch reads whole: of its k, then of its rows.  Another patch begins
 * behind the first and ends before what is copied. */
static void copies_of_some_of_a_are_their_owners(void **state)
{
    static const char *const text[] = {"ag_gemm:f32:24x8x24:r3:gather=k", "ag_gemm:f32:24x8x24:r3"};
    static const int want[] = {0, 1, 2, -1};
    static const int at[][2] = {{0, 8}, {9, 5}, {16, 8}, {6, 4}};
    (void)state;
    for (int by_row = 0; by_row < 2; by_row++) {
        sg_problem p = problem_of(text[by_row]);
        sg_sched s = {0};
        sg_sched_begin(&s, &p, 1);
        const uint8_t room = sg_sched_buf(&s, SG_WINDOWS, "room", 24, 24, 0);
        const uint8_t other = sg_sched_buf(&s, SG_WINDOWS, "other", 24, 24, 0);
        sg_sched_launch(&s, 0, 8, 8, 0, false);
        sg_patch patch = rows_of(&s, 0, 24);
        patch.a = sg_area_of(1, room, 0, 24, 0, 24);
        sg_sched_patch(&s, &patch);
        sg_sched_to(&s, sg_area_of(1, SG_C, 0, 24, 0, 8));
        patch = rows_of(&s, 1, 2);
        patch.a = sg_area_of(1, room, 1, 2, 0, 24);
        sg_sched_patch(&s, &patch);
        sg_sched_to(&s, sg_area_of(1, SG_C, 1, 2, 0, 8));
        for (int i = 0; i < 4; i++) {
            const sg_area src = by_row ? sg_area_of(1, room, at[i][0], at[i][1], 3, 7)
                                       : sg_area_of(1, room, 10, 7, at[i][0], at[i][1]);
            sg_sched_copy(&s, 0, SG_BY_SMS, src);
            sg_sched_to(&s, sg_area_of(1, other, src.row0, src.rows, src.col0, src.cols));
        }
        copies_are_of(&s, want, 4);
        sg_sched_free(&s);
        sg_problem_free(&p);
    }
}

/* ---- Who owns what if nobody says ------------------------------------------------------------ */

/* Of all-reduces in runs of 64 rows, but for the last, if that makes no share an eighth longer. */
static void sums_of_all_are_dealt_in_runs(void **state)
{
    (void)state;
    enum { MOST = 1500, RUN = 64 };
    int in_runs = 0;
    for (int ranks = 1; ranks <= 33; ranks += ranks < 9 ? 1 : 8)
        for (int64_t m = 0; m <= MOST; m++) {
            const int64_t even = (m + ranks - 1) / ranks;
            int64_t sum = 0, most = 0;
            bool runs = true;
            for (int r = 0; r < ranks; r++) {
                const int64_t rows = sg_problem_dealt_rows(SG_OP_GEMM_AR, m, ranks, r);
                assert_in_range(rows, 0, m);
                sum += rows;
                most = rows > most ? rows : most;
                runs &= rows % RUN == 0 || sum == m;
                assert_int_equal(sg_problem_dealt_rows(SG_OP_GEMM_RS, m, ranks, r),
                                 m / ranks + (r < m % ranks));
            }
            assert_int_equal(sum, m);
            assert_true(8 * (most - even) <= even);
            const int64_t rounded = (even + RUN - 1) / RUN * RUN;
            const bool in = even > RUN && 8 * (rounded - even) <= even;
            if (in) assert_true(runs), in_runs++;
            for (int r = 0; r < ranks; r++) {
                const int64_t rows = sg_problem_dealt_rows(SG_OP_GEMM_AR, m, ranks, r);
                if (in) assert_true(rows > 0);
                if (!in) assert_int_equal(rows, m / ranks + (r < m % ranks));
            }
        }
    assert_true(in_runs > MOST);
    assert_int_equal(sg_problem_dealt_rows(SG_OP_GEMM_AR, 1000, 4, 0), 256);
    assert_int_equal(sg_problem_dealt_rows(SG_OP_GEMM_AR, 1000, 4, 3), 232);
    assert_int_equal(sg_problem_dealt_rows(SG_OP_GEMM_AR, 640, 4, 0), 160);
}

/* Who says what is dealt anyway has said nothing. */
static void what_is_dealt_is_not_printed(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"gemm_ar:f32:1000x8x8:r4:rows=256,256,256,232", "gemm_ar:f32:1000x8x8:r4"},
        {"gemm_ar:f32:1000x8x8:r4:rows=250,250,250,250",
         "gemm_ar:f32:1000x8x8:r4:rows=250,250,250,250"},
        {"gemm_rs:f32:1000x8x8:r4:rows=250,250,250,250", "gemm_rs:f32:1000x8x8:r4"},
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        sg_problem p;
        char text[100];
        assert_int_equal(sg_problem_parse(same[i][0], &p), SHINGLE_OK);
        assert_in_range(sg_problem_print(&p, text, sizeof text), 1, sizeof text - 1);
        assert_string_equal(text, same[i][1]);
        sg_problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_all_are_dealt_in_runs),
        cmocka_unit_test(what_is_dealt_is_not_printed),
        cmocka_unit_test(owners_are_those_of_the_elements),
        cmocka_unit_test(many_ranks_share_slots),
        cmocka_unit_test(copies_of_some_columns_are_their_owners),
        cmocka_unit_test(copies_of_some_of_a_are_their_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
