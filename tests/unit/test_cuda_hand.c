/* Schedules that no strategy builds, in the CUDA backend without a GPU (tests/fake_cuda): what it
 * must keep of a sealed schedule, whoever wrote that. */
#include "by_hand.h"
#include "core/exec.h"
#include "fake_world.h"

enum { ROWS = 64, WIDTH = 64, RUNS = 3 };

typedef void (*write_fn)(sg_sched *s);

/* A plan of each rank of W, written by WRITE. */
static void bind_all(const world *w, const char *problem, write_fn write, sg_bound **bound_out)
{
    sg_problem p = problem_of(problem);
    for (int r = 0; r < w->ranks; r++) {
        assert_int_equal(sg_exec_create(&p, 99, "a plan by hand", &bound_out[r]), SHINGLE_OK);
        sg_sched *const s = &bound_out[r]->sched;
        sg_sched_begin(s, &bound_out[r]->problem, r);
        write(s);
        if (sg_sched_seal(s) != SHINGLE_OK ||
            sg_exec_bind(bound_out[r], w->comm[0]->group->work, r) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
    }
    sg_problem_free(&p);
}

static uint16_t *matrix(const world *w, int r, int64_t rows, uint16_t value)
{
    void *memory = NULL;
    assert_int_equal(shingle_alloc(w->comm[r], (size_t)rows * WIDTH * 2, &memory), SHINGLE_OK);
    for (int64_t i = 0; i < rows * WIDTH; i++) ((uint16_t *)memory)[i] = value;
    return memory;
}

static void drop(const world *w, sg_bound **bound, int r, uint16_t *a, uint16_t *b, uint16_t *c)
{
    sg_exec_free(bound[r]);
    shingle_free(w->comm[r], a);
    shingle_free(w->comm[r], b);
    shingle_free(w->comm[r], c);
}

/* The second half of the rows waits for the first. */
static void in_two_halves(sg_sched *s)
{
    sg_sched_launch(s, 0, ROWS, 128, 0, false);
    for (int half = 0; half < 2; half++) {
        sg_patch patch = rows_of(s, half * ROWS, ROWS);
        patch.final = 1;
        sg_sched_patch(s, &patch);
        if (half == 1) sg_sched_wait(s, sg_wait_one(s->rank, 0));
        sg_sched_to(s, sg_area_of(s->rank, SG_C, half * ROWS, ROWS, 0, WIDTH));
        if (half == 0) sg_sched_raise(s, s->rank, SG_PER_PATCH, 0);
    }
}

/* Nothing in such a run waits for the one before, whose end changes the epoch. */
static void runs_that_are_not_begun_do_not_start_early(void **state)
{
    (void)state;
    world w;
    sg_bound *bound[1];
    open_group(&w, 1, 20);
    bind_all(&w, "ag_gemm:bf16:128x64x64:r1", in_two_halves, bound);
    assert_true(!bound[0]->sched.peers && bound[0]->sched.flags == 1);
    uint16_t *const a = matrix(&w, 0, 2 * ROWS, 0x3f80);
    uint16_t *const b = matrix(&w, 0, WIDTH, 0x3f80);
    uint16_t *const c = matrix(&w, 0, 2 * ROWS, 0);
    const sg_cuda *const cuda = w.comm[0]->group->self;
    const int early = fake_early;
    const int launches = fake_launches;
    const shingle_tensors t = {.a = a, .b = b, .c = c};
    for (int run = 0; run < RUNS; run++)
        assert_int_equal(sg_exec_run(bound[0], &t, NULL, ~0u), SHINGLE_OK);
    assert_int_equal(shingle_sync(w.comm[0], 20), SHINGLE_OK);
    assert_int_equal(fake_launches - launches, RUNS);
    assert_int_equal(fake_early - early, 0);
    assert_int_equal(cuda->rank[0].state->epoch, 1 + RUNS);
    for (int i = 0; i < 2 * ROWS * WIDTH; i++) assert_int_equal(c[i], 0x4280); /* 64 */
    drop(&w, bound, 0, a, b, c);
    close_group(&w);
}

static void by_the_vendor(sg_sched *s)
{
    const sg_problem *const p = s->problem;
    sg_patch patch = {
        .rows = (int32_t)p->m, .cols = (int32_t)p->n, .k1 = (int32_t)p->k, .final = 1};
    patch.a = sg_area_of(s->rank, SG_A, 0, p->m, 0, p->k);
    patch.b = sg_area_of(s->rank, SG_B, 0, p->n, 0, p->k);
    sg_sched_launch(s, 0, patch.rows, patch.cols, 0, true);
    sg_sched_patch(s, &patch);
    sg_sched_to(s, sg_area_of(s->rank, SG_C, 0, p->m, 0, p->n));
}

/* The vendor's library has no gelu, and its launch no tile: ours has the one with which all of 132
 * SMs are done first. */
static void what_the_vendor_does_not_do_has_a_tile(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        int m, n;
    } best[] = {
        {"gemm:bf16:16x16384x64:r1:gelu", 64, 128},    /* a wave of the lowest */
        {"gemm:bf16:16x29568x64:r1:gelu", 64, 112},    /* two of these before one of 224 columns */
        {"gemm:bf16:128x16384x64:r1:gelu", 128, 128},  /* a wave; of the lowest two */
        {"gemm:bf16:128x28672x64:r1:gelu", 128, 224},  /* a wave, as of 256 columns */
        {"gemm:bf16:1024x4096x64:r1:gelu", 128, 128}}; /* two, of which one hides the other's end */
    for (size_t i = 0; i < sizeof best / sizeof best[0]; i++) {
        world w;
        sg_bound *bound[1];
        open_group(&w, 1, 20);
        bind_all(&w, best[i].problem, by_the_vendor, bound);
        const sg_cuda_plan *const plan = bound[0]->backend;
        const sg_kernel_gemm_param *const param = &plan->step[0].gemm->param;
        if (param->tile_m != best[i].m || param->tile_n != best[i].n)
            fail_msg("%s: %d x %d", best[i].problem, param->tile_m, param->tile_n);
        sg_exec_free(bound[0]);
        close_group(&w);
    }
}

/* Own rows of A go to the peer's C, and their product to the own. */
static void rows_to_the_peer(sg_sched *s)
{
    const int own = s->rank * ROWS;
    sg_sched_copy(s, 1, SG_BY_LAUNCH, sg_area_of(s->rank, SG_A, 0, ROWS, 0, WIDTH));
    sg_sched_to(s, sg_area_of(1 - s->rank, SG_C, own, ROWS, 0, WIDTH));
    sg_sched_raise(s, 1 - s->rank, SG_PER_PATCH, 0);
    sg_sched_launch(s, 0, ROWS, 128, 0, false);
    sg_patch patch = rows_of(s, own, ROWS);
    patch.a.row0 = 0;
    patch.final = 1;
    sg_sched_patch(s, &patch);
    sg_sched_to(s, sg_area_of(s->rank, SG_C, own, ROWS, 0, WIDTH));
    sg_sched_flag(s, 0);
    sg_sched_wait(s, sg_wait_one(1 - s->rank, 0));
}

/* The launch waits for the hello of whom they are stored to. */
static void rows_may_be_carried_into_tensors(void **state)
{
    (void)state;
    world w;
    sg_bound *bound[2];
    uint16_t *a[2];
    uint16_t *b[2];
    uint16_t *c[2];
    open_group(&w, 2, 20);
    bind_all(&w, "ag_gemm:bf16:128x64x64:r2", rows_to_the_peer, bound);
    const int pushes = fake_pushes;
    for (int r = 0; r < 2; r++) {
        a[r] = matrix(&w, r, ROWS, 0x3f80);
        b[r] = matrix(&w, r, WIDTH, 0x3f80);
        c[r] = matrix(&w, r, 2 * ROWS, 0);
        const shingle_tensors t = {.a = a[r], .b = b[r], .c = c[r]};
        assert_int_equal(sg_exec_run(bound[r], &t, NULL, ~0u), SHINGLE_OK);
        const sg_cuda_plan *const plan = bound[r]->backend;
        assert_true(plan->step[1].gemm->param.leaves);
    }
    for (int r = 0; r < 2; r++)
        if (shingle_sync(w.comm[r], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
    assert_int_equal(fake_pushes - pushes, 2);
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 2 * ROWS * WIDTH; i++)
            assert_int_equal(c[r][i], i / (ROWS * WIDTH) == r ? 0x4280 : 0x3f80);
        drop(&w, bound, r, a[r], b[r], c[r]);
    }
    close_group(&w);
}

/* Rows of A go to the peer in three pieces by copy engines.  Flag 0 is about the first two, of one
 * lane, so that the second one's engine raises it; flag 1 about the first and the third, of
 * different lanes, which count. */
static void pieces_share_flags(sg_sched *s)
{
    enum { PIECES = 3, PIECE = ROWS / 4 };
    static const int lane[PIECES] = {1, 1, 2};
    static const int first[PIECES] = {0, PIECE, 2 * PIECE};
    static const int rows[PIECES] = {PIECE, PIECE, 2 * PIECE};
    const int peer = 1 - s->rank;
    const int inbox = sg_sched_buf(s, SG_SYM, "inbox", ROWS, WIDTH, SG_FIXED);
    for (int i = 0; i < PIECES; i++) {
        sg_sched_copy(s, lane[i], SG_BY_ENGINE,
                      sg_area_of(s->rank, SG_A, first[i], rows[i], 0, WIDTH));
        sg_sched_to(s, sg_area_of(peer, inbox, first[i], rows[i], 0, WIDTH));
        if (i < 2) sg_sched_raise(s, peer, SG_PER_PATCH, 0);
        if (i != 1) sg_sched_raise(s, peer, SG_PER_PATCH, 1);
    }
    sg_sched_launch(s, 0, ROWS, 128, 0, false);
    for (int i = 0; i < 2; i++) {
        const int of = i == 0 ? s->rank : peer;
        sg_patch patch = rows_of(s, of * ROWS, ROWS);
        patch.a = sg_area_of(s->rank, i == 0 ? SG_A : inbox, 0, ROWS, 0, WIDTH);
        patch.final = 1;
        sg_sched_patch(s, &patch);
        if (i == 1) sg_sched_wait(s, sg_wait_one(peer, 0));
        if (i == 1) sg_sched_wait(s, sg_wait_one(peer, 1));
        sg_sched_to(s, sg_area_of(s->rank, SG_C, of * ROWS, ROWS, 0, WIDTH));
    }
}

/* A copy that needs a kernel for one of its flags leaves the other to the
 * engine that raises it for all. */
static void copies_count_where_they_raise(void **state)
{
    (void)state;
    world w;
    sg_bound *bound[2];
    uint16_t *a[2];
    uint16_t *b[2];
    uint16_t *c[2];
    open_group(&w, 2, 20);
    bind_all(&w, "ag_gemm:bf16:128x64x64:r2", pieces_share_flags, bound);
    for (int r = 0; r < 2; r++) {
        a[r] = matrix(&w, r, ROWS, 0x3f80);
        b[r] = matrix(&w, r, WIDTH, 0x3f80);
        c[r] = matrix(&w, r, 2 * ROWS, 0);
    }
    for (int run = 0; run < RUNS; run++) {
        for (int r = 0; r < 2; r++) {
            const shingle_tensors t = {.a = a[r], .b = b[r], .c = c[r]};
            assert_int_equal(sg_exec_run(bound[r], &t, NULL, ~0u), SHINGLE_OK);
        }
        for (int r = 0; r < 2; r++)
            if (shingle_sync(w.comm[r], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
        for (int r = 0; r < 2; r++) {
            const sg_cuda_plan *const plan = bound[r]->backend;
            assert_true(bound[r]->sched.counters > 1);
            for (int i = 0; i < bound[r]->sched.counters; i++)
                assert_int_equal(plan->program.count[i], 0);
            for (int i = 0; i < 2 * ROWS * WIDTH; i++) assert_int_equal(c[r][i], 0x4280);
        }
    }
    for (int r = 0; r < 2; r++) drop(&w, bound, r, a[r], b[r], c[r]);
    close_group(&w);
}

/* Rows of A come to the library's memory behind a flag of another lane, and from there row by row
 * to where they stand from behind; a lane that is behind one of these takes that row. */
static void rows_are_turned_round(sg_sched *s)
{
    const int from = sg_sched_buf(s, SG_LIBRARY, "from", ROWS, WIDTH, 0);
    const int into = sg_sched_buf(s, SG_LOCAL, "into", ROWS, WIDTH, 0);
    int middle = -1;
    sg_sched_copy(s, 1, SG_BY_SMS, sg_area_of(0, SG_A, 0, ROWS, 0, WIDTH));
    sg_sched_to(s, sg_area_of(0, from, 0, ROWS, 0, WIDTH));
    sg_sched_raise(s, 0, SG_PER_PATCH, 0);
    for (int i = 0; i < ROWS; i++) {
        const int step = sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, from, i, 1, 0, WIDTH));
        if (i == 0) sg_sched_wait(s, sg_wait_one(0, 0));
        sg_sched_to(s, sg_area_of(0, into, ROWS - 1 - i, 1, 0, WIDTH));
        if (i == ROWS / 2) middle = step;
    }
    sg_sched_copy(s, 2, SG_BY_SMS, sg_area_of(0, into, ROWS - 1 - ROWS / 2, 1, 0, WIDTH));
    sg_sched_after(s, middle);
    sg_sched_to(s, sg_area_of(0, SG_C, ROWS, 1, 0, WIDTH));
    sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(0, into, 0, ROWS, 0, WIDTH));
    sg_sched_to(s, sg_area_of(0, SG_C, 0, ROWS, 0, WIDTH));
}

static void copies_go_together(void **state)
{
    (void)state;
    world w;
    sg_bound *bound[1];
    open_group(&w, 1, 20);
    bind_all(&w, "ag_gemm:bf16:65x64x64:r1", rows_are_turned_round, bound);
    uint16_t *const a = matrix(&w, 0, ROWS + 1, 0);
    uint16_t *const c = matrix(&w, 0, ROWS + 1, 0);
    const shingle_tensors t = {.a = a, .b = a, .c = c};
    int launches = 0;
    for (int run = 0; run < RUNS; run++) {
        for (int i = 0; i < ROWS * WIDTH; i++) a[i] = (uint16_t)(0x3f80 + i + run);
        const int before = fake_launches;
        const int joined = fake_joined;
        assert_int_equal(sg_exec_run(bound[0], &t, NULL, ~0u), SHINGLE_OK);
        if (shingle_sync(w.comm[0], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
        assert_int_equal(fake_joined - joined, ROWS);
        launches = fake_launches - before;
        for (int i = 0; i < ROWS; i++)
            assert_memory_equal(c + i * WIDTH, a + (ROWS - 1 - i) * WIDTH, WIDTH * 2);
        assert_memory_equal(c + ROWS * WIDTH, a + ROWS / 2 * WIDTH, WIDTH * 2);
    }
    assert_int_equal(launches, 6); /* four of copies, one that waits, one that ends the run */
    sg_exec_free(bound[0]);
    shingle_free(w.comm[0], a);
    shingle_free(w.comm[0], c);
    close_group(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_vendor_does_not_do_has_a_tile),
        cmocka_unit_test(runs_that_are_not_begun_do_not_start_early),
        cmocka_unit_test(rows_may_be_carried_into_tensors),
        cmocka_unit_test(copies_count_where_they_raise),
        cmocka_unit_test(copies_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
