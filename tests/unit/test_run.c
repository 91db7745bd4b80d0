/* test_run.c -- the words and the verdict of the run protocol, one question at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/exec.h"

enum { RANKS = 3 };

/* ---- A backend of nothing but memory -------------------------------------------------------- */

static shingle_status get(void *self, int rank, sg_arena_kind arena, size_t bytes, void **memory)
{
    (void)self;
    (void)rank;
    (void)arena;
    *memory = calloc(1, bytes);
    return *memory != NULL ? SHINGLE_OK : SHINGLE_ENOMEM;
}

static void put(void *self, int rank, void *memory)
{
    (void)self;
    (void)rank;
    free(memory);
}

static const sg_backend memory_only = {.name = "memory", .alloc = get, .release = put};

typedef struct world {
    sg_work *work[RANKS];
    sg_bound bound[RANKS];
    sg_run run[RANKS];
} world;

static void open_world(world *w)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(sg_work_open(RANKS, &memory_only, NULL, w->work), SHINGLE_OK);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(sg_work_flags(w->work[r], 10), SHINGLE_OK);
        w->bound[r].hash = 77;
        w->bound[r].sched.hello = w->bound[r].sched.done = w->bound[r].sched.peers = 1;
        w->run[r] = (sg_run){.bound = &w->bound[r], .work = w->work[r]};
    }
}

static void close_world(world *w)
{
    sg_work_close(RANKS, w->work);
}

/* ---- Workspace ------------------------------------------------------------------------------- */

static void growth_moves_nothing(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    _Atomic uint64_t *const flag = sg_work_flag(&w.work[0]->words, 1, 9);
    void *small = NULL;
    void *large = NULL;
    void *again = NULL;
    assert_int_equal(sg_work_block(w.work[0], SG_BLOCK_SYM0, 5000, &small), SHINGLE_OK);
    assert_int_equal(sg_work_block(w.work[0], SG_BLOCK_SYM0, 500000, &large), SHINGLE_OK);
    assert_int_equal(sg_work_flags(w.work[0], 100000), SHINGLE_OK);
    assert_ptr_equal(sg_work_flag(&w.work[0]->words, 1, 9), flag);
    /* The block depends on the need alone, not on what was asked for before. */
    assert_int_equal(sg_work_block(w.work[0], SG_BLOCK_SYM0, 8192, &again), SHINGLE_OK);
    assert_ptr_equal(again, small);
    assert_ptr_not_equal(large, small);
    assert_int_equal(sg_work_block(w.work[0], SG_BLOCK_SYM1, 8192, &again), SHINGLE_OK);
    assert_ptr_not_equal(again, small);
    assert_int_equal(sg_work_block(w.work[0], SG_BLOCK_SYM0, 0, &again), SHINGLE_OK);
    assert_null(again);
    assert_int_equal(sg_work_block(w.work[0], SG_BLOCK_SYM0, INT64_MAX, &again), SHINGLE_ENOMEM);
    close_world(&w);
}

static void every_flag_has_its_word(void **state)
{
    (void)state;
    enum { FLAGS = 5000 };
    world w;
    open_world(&w);
    assert_int_equal(sg_work_flags(w.work[2], FLAGS), SHINGLE_OK);
    for (int by = 0; by < RANKS; by++)
        for (int32_t i = 0; i < FLAGS; i++)
            atomic_store(sg_work_flag(&w.work[2]->words, by, i), (uint64_t)(by * FLAGS + i));
    for (int by = 0; by < RANKS; by++)
        for (int32_t i = 0; i < FLAGS; i++)
            assert_int_equal(atomic_load(sg_work_flag(&w.work[2]->words, by, i)), by * FLAGS + i);
    close_world(&w);
}

/* ---- Questions ------------------------------------------------------------------------------- */

static void words_answer_for_this_run_alone(void **state)
{
    (void)state;
    world w;
    sg_stuck stuck;
    int peer = -1;
    open_world(&w);
    const struct sg_flags flag = {4, 1, 1};
    for (int run = 0; run < 5; run++) {
        sg_run_begin(&w.run[0]);
        assert_true(sg_run_gate_ready(&w.run[0], &stuck));
        assert_false(sg_run_leave_ready(&w.run[0], 1, &stuck));
        assert_int_equal(stuck.by, 1);
        assert_false(sg_run_end_ready(&w.run[0], &stuck));
        w.run[1].tensors.c = &w;
        w.run[1].tensors.c_stride = 40 + run;
        sg_run_begin(&w.run[1]);
        assert_true(sg_run_leave_ready(&w.run[0], 1, &stuck));
        void *c = NULL;
        int64_t stride = 0;
        sg_run_output_of(&w.run[0], 1, &c, &stride);
        assert_ptr_equal(c, &w);
        assert_int_equal(stride, 40 + run);
        assert_false(sg_run_flags_ready(&w.run[0], 1, flag, &stuck));
        assert_int_equal(stuck.flag, 4);
        sg_run_post(&w.run[1], 0, 4);
        assert_true(sg_run_flags_ready(&w.run[0], 1, flag, &stuck));
        assert_false(sg_run_end_ready(&w.run[0], &stuck));
        assert_int_equal(stuck.by, 2);
        sg_run_begin(&w.run[2]);
        assert_true(sg_run_end_ready(&w.run[0], &stuck));
        assert_false(sg_run_mismatch(&w.run[0], &peer));
        for (int r = 0; r < RANKS; r++) sg_run_end(&w.run[r]);
    }
    close_world(&w);
}

/* Halves take turns; a half is entered again once all have ended the run that used it last. */
static void gate_keeps_runs_apart(void **state)
{
    (void)state;
    world w;
    sg_stuck stuck;
    open_world(&w);
    for (int r = 0; r < RANKS; r++) sg_run_begin(&w.run[r]);
    const int half = w.run[0].half;
    sg_run_end(&w.run[0]);
    sg_run_begin(&w.run[0]);
    assert_int_equal(w.run[0].half, 1 - half);
    assert_true(sg_run_gate_ready(&w.run[0], &stuck));
    sg_run_end(&w.run[0]);
    sg_run_begin(&w.run[0]);
    assert_int_equal(w.run[0].half, half);
    assert_false(sg_run_gate_ready(&w.run[0], &stuck));
    assert_int_equal(stuck.wanted, 1);
    sg_run_end(&w.run[1]);
    assert_false(sg_run_gate_ready(&w.run[0], &stuck));
    assert_int_equal(stuck.by, 2);
    sg_run_end(&w.run[2]);
    assert_true(sg_run_gate_ready(&w.run[0], &stuck));
    /* A plan with fixed addresses always takes half 0. */
    w.bound[1].sched.baked = 1;
    for (int i = 0; i < 3; i++) {
        sg_run_begin(&w.run[1]);
        assert_int_equal(w.run[1].half, 0);
        sg_run_end(&w.run[1]);
    }
    close_world(&w);
}

static void other_plans_are_no_leave(void **state)
{
    (void)state;
    world w;
    sg_stuck stuck;
    int peer = -1;
    open_world(&w);
    w.bound[1].hash = 78;
    sg_run_begin(&w.run[0]);
    sg_run_begin(&w.run[1]);
    assert_false(sg_run_leave_ready(&w.run[0], 1, &stuck));
    assert_true(sg_run_mismatch(&w.run[0], &peer));
    assert_int_equal(peer, 1);
    assert_true(sg_run_mismatch(&w.run[1], &peer));
    assert_int_equal(peer, 0);
    close_world(&w);
}

static void recovery_joins_epochs(void **state)
{
    (void)state;
    world w;
    sg_stuck stuck;
    open_world(&w);
    for (int i = 0; i < 3; i++) {
        sg_run_begin(&w.run[1]);
        sg_run_post(&w.run[1], 0, 3);
        sg_run_end(&w.run[1]);
    }
    sg_run_begin(&w.run[0]);
    sg_work_recover(RANKS, w.work);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(w.work[r]->epoch, 5);
        sg_run_begin(&w.run[r]);
        assert_true(sg_run_gate_ready(&w.run[r], &stuck));
    }
    assert_false(sg_run_flags_ready(&w.run[0], 1, (struct sg_flags){3, 1, 1}, &stuck));
    assert_int_equal(stuck.seen, 0);
    assert_int_equal(w.run[0].half, w.run[2].half);
    close_world(&w);
}

static void last_of_several_raises(void **state)
{
    (void)state;
    world w;
    int32_t raisers[] = {3, 1};
    _Atomic uint32_t count[2] = {0, 0};
    open_world(&w);
    w.bound[0].sched.counter = raisers;
    w.bound[0].sched.counters = 2;
    w.bound[0].count = count;
    for (int run = 0; run < 2; run++) {
        assert_false(sg_run_count(&w.run[0], 0));
        assert_false(sg_run_count(&w.run[0], 0));
        assert_true(sg_run_count(&w.run[0], 1));
        assert_true(sg_run_count(&w.run[0], 0));
        assert_int_equal(atomic_load(&count[0]), 0);
    }
    close_world(&w);
}

/* ---- Verdict --------------------------------------------------------------------------------- */

static const sg_stuck on_flag = {
    .kind = SG_STUCK_FLAG, .by = 1, .step = 2, .visit = 3, .flag = 4, .seen = 8, .wanted = 9};

static void expect(const sg_stand *stand, shingle_status status, const char *begin)
{
    sg_verdict verdict;
    sg_run_verdict(stand, RANKS, 0.5, &verdict);
    assert_int_equal(verdict.status, status);
    if (strncmp(verdict.text, begin, strlen(begin)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", verdict.text, begin);
}

static void verdict_names_the_culprit(void **state)
{
    (void)state;
    const sg_stand waits = {
        .epoch = 9, .running = true, .waiting = true, .hash = 5, .plan = "X", .stuck = on_flag};
    const sg_stand works = {.epoch = 9, .running = true, .hash = 5, .plan = "X", .stuck.step = -1};
    const sg_stand away = {.epoch = 8, .plan = ""};
    sg_stand behind = works;
    sg_stand other = waits;
    behind.epoch = 8;
    other.hash = 6;
    other.plan = "Y";
    expect(
        (sg_stand[]){waits, away, waits}, SHINGLE_ETIMEOUT,
        "rank 1 did not begin run 9 within 0.5 s; rank 0 waits in step 2, visit 3, for flag 4 of "
        "rank 1 (seen 8, wanted 9)");
    expect((sg_stand[]){away, waits, away}, SHINGLE_ETIMEOUT, "ranks 0, 2 did not begin run 9");
    expect((sg_stand[]){waits, waits, works}, SHINGLE_ETIMEOUT,
           "rank 2 stopped in the middle of a run");
    expect((sg_stand[]){waits, behind, waits}, SHINGLE_ETIMEOUT,
           "rank 1 stopped in the middle of a run");
    expect((sg_stand[]){works, away, waits}, SHINGLE_ETIMEOUT, "rank 1 did not begin run 9");
    expect((sg_stand[]){waits, waits, waits}, SHINGLE_EBUG, "every rank waits for another");
    expect((sg_stand[]){waits, other, away}, SHINGLE_EMISMATCH,
           "ranks 0 and 1 run different plans: rank 0 runs X, rank 1 runs Y");
}

/* The names of two plans of the same sixteen ranks, with as many rows each. */
static void name_plans(const char *first, const char *second, char (*text)[400])
{
    const char *const knobs[2] = {first, second};
    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i],
                 "gemm_rs:bf16:163840x8192x8192:r16:rows=10240,10240,10240,10240,10240,10240,10240,"
                 "10240,10240,10240,10240,10240,10240,10240,10240,10240:bias "
                 "signal{tile_m=128,tile_n=256,cap=%s,reorder=1} #%016x",
                 knobs[i], 0xabc0 + i);
}

/* Long texts are cut so that their difference is shown, and their hashes. */
static void verdict_shows_where_plans_differ(void **state)
{
    (void)state;
    char plan[2][400];
    sg_stand stand[RANKS] = {{.epoch = 9, .running = true, .hash = 5, .plan = plan[0]},
                             {.epoch = 9, .running = true, .hash = 6, .plan = plan[1]},
                             {.epoch = 8, .plan = ""}};
    name_plans("1", "2", plan);
    sg_verdict verdict;
    sg_run_verdict(stand, RANKS, 0, &verdict);
    assert_non_null(strstr(verdict.text, "rank 0 runs ..."));
    assert_non_null(strstr(verdict.text, "cap=1,reorder=1} #000000000000abc0, rank 1 runs ..."));
    assert_non_null(strstr(verdict.text, "cap=2,reorder=1} #000000000000abc1"));
    assert_int_equal(verdict.text[strlen(verdict.text) - 1], '1');
    /* The first letters differ, and no more than the hash does. */
    for (int same = 0; same < 2; same++) {
        name_plans("1", "1", plan);
        if (!same) plan[1][0] = 'G';
        sg_run_verdict(stand, RANKS, 0, &verdict);
        assert_non_null(strstr(verdict.text, "rank 0 runs gemm_rs:bf16:163840x"));
        assert_non_null(strstr(verdict.text, "... #000000000000abc0, rank 1 runs "));
        assert_non_null(strstr(verdict.text, "... #000000000000abc1"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_moves_nothing),
        cmocka_unit_test(every_flag_has_its_word),
        cmocka_unit_test(words_answer_for_this_run_alone),
        cmocka_unit_test(gate_keeps_runs_apart),
        cmocka_unit_test(other_plans_are_no_leave),
        cmocka_unit_test(recovery_joins_epochs),
        cmocka_unit_test(last_of_several_raises),
        cmocka_unit_test(verdict_names_the_culprit),
        cmocka_unit_test(verdict_shows_where_plans_differ),
    };
    return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
