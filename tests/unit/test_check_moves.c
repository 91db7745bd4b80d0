/* test_check_moves.c -- schedules written by hand for what gathers of B and along k, all-to-all,
 * accumulation, places, ranges and calls ask of the checker. */
#include "proof.h"

/* ---- Sums in place --------------------------------------------------------------------------- */

/* Adds C and stores it, ADDS times over. */
static void accumulate(int adds)
{
    begin("gemm:f32:4x3x5:r1:accumulate");
    launch(&sched[0]);
    rows_patch(&sched[0], 0, 4);
    for (int i = 0; i < adds; i++) sg_sched_add(&sched[0], rows_of(0, SG_C, 0, 4), NULL);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 4));
}

static void c_is_its_own_addend(void **state)
{
    (void)state;
    accumulate(1);
    accepted();
    accumulate(0);
    REFUSED("stores over an input that it does not add", "C of rank 0");
    accumulate(2);
    REFUSED("wrong value");
    accumulate(1);
    sched[0].patch[0].rows = 2, sched[0].patch[0].a.rows = 2;
    sched[0].add[0].area.rows = sched[0].to[0].rows = 2;
    REFUSED("nobody stores C row 2");
    accumulate(1);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 4));
    REFUSED("stores what rank 0, step 0 has stored");
}

/* Three patches of a launch multiply a slab of k each and sum in place, the last into C; tile by
 * tile in the order of flags.  Returns the id of the sum. */
static int chain(void)
{
    begin("gemm:f32:3x3x6:r1");
    sg_sched *const s = &sched[0];
    const int sum = sg_sched_buf(s, SG_LOCAL, "sum", 3, 3, SG_WIDE);
    launch(s);
    for (int i = 0; i < 3; i++) {
        sg_patch p = {.rows = 3, .cols = 3, .k0 = 2 * i, .k1 = 2 * i + 2, .final = i == 2};
        p.a = sg_area_of(0, SG_A, 0, 3, 2 * i, 2);
        p.b = sg_area_of(0, SG_B, 0, 3, 2 * i, 2);
        sg_sched_patch(s, &p);
        const sg_wait wait = {.by = 0, .per = SG_PER_TILE, .flag0 = 4 * (i - 1), .chunks_k = 1};
        if (i > 0) sg_sched_add(s, rows_of(0, sum, 0, 3), &wait);
        sg_sched_to(s, rows_of(0, i < 2 ? sum : SG_C, 0, 3));
        if (i < 2) sg_sched_raise(s, 0, SG_PER_TILE, 4 * i);
    }
    return sum;
}

static void chains_sum_in_place(void **state)
{
    (void)state;
    chain();
    accepted();
    assert_int_equal(result.visits, 12);
    chain();
    sched[0].add[0].awaited = 0;
    REFUSED("visit 4 (rows 0:2, cols 0:2, k 2:4)", "reads without waiting for the writer",
            "sum of rank 0");
    chain();
    sched[0].add[1].wait.flag0 = 0; /* the last link awaits the first, not the second */
    REFUSED("visit 8", "reads without waiting for the writer");
    chain();
    sched[0].patch[1].adds = 0; /* stores without adding */
    REFUSED("visit 4", "stores what rank 0, step 0 has stored", "sum of rank 0");
}

/* Somebody else reads a sum that is still to be stored again: who knows which one. */
static void sums_are_read_by_nobody_else(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        const int sum = chain();
        sg_sched *const s = &sched[0];
        const int other = sg_sched_buf(s, SG_LOCAL, "other", 3, 3, SG_WIDE);
        sg_sched_copy(s, 1, SG_BY_SMS, rows_of(0, sum, 0, 3));
        for (int i = 0; i < 4; i++) sg_sched_wait(s, sg_wait_one(0, 4 * last + i));
        sg_sched_to(s, rows_of(0, other, 0, 3));
        if (last) accepted(); /* nobody stores what the second link has left */
        if (!last) REFUSED("sum of rank 0", "sum");
    }
}

static void collectives_read_before_sums(void **state)
{
    (void)state;
    begin("gemm_ar:f32:2x2x3:r2");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int all = sg_sched_buf(s, SG_LIBRARY, "all", 4, 2, 0);
        launch(s);
        rows_patch(s, 0, 2);
        sg_sched_to(s, rows_of(r, SG_C, 0, 2));
        sg_sched_coll(s, 0, SG_ALL_GATHER, 0, rows_of(r, SG_C, 0, 2));
        for (int q = 0; q < 2; q++) sg_sched_to(s, rows_of(r, all, 2 * q, 2));
        sg_sched_coll(s, 0, SG_ALL_REDUCE, 0, rows_of(r, SG_C, 0, 2));
    }
    REFUSED("step 2 (coll)", "sums in place what another step reads before", "C of rank");
}

/* Both ranks' products of all rows become sums in both C: rank 0 stores there what rank 1 adds its
 * own to. */
enum summing { TOGETHER, APART, TOLD_EARLY, UNMARKED };

/* TOGETHER: a patch of rank 0 stores at both; APART: one for each, and one flag; TOLD_EARLY: that
 * is raised by a step before; UNMARKED: nobody says that sums are made in C. */
static void sum_in_c(enum summing how)
{
    const sg_wait wait = sg_wait_tile(0, 0);
    begin("gemm_ar:f32:2x2x3:r2");
    for (int r = 0; r < 2 && how != UNMARKED; r++) sg_sched_sums_in_c(&sched[r]);
    sg_sched *const s = &sched[0], *const adds = &sched[1];
    if (how == TOLD_EARLY) {
        sg_sched_flag(s, 0);
        sg_sched_raise(s, 1, SG_PER_PATCH, 0);
    }
    launch(s);
    for (int to = how == APART ? 0 : 1; to < 2; to++) {
        rows_patch(s, 0, 2);
        s->patch[s->patches - 1].final = 0;
        if (how != APART || to == 0) sg_sched_to(s, rows_of(0, SG_C, 0, 2));
        if (to == 1) sg_sched_to(s, rows_of(1, SG_C, 0, 2));
        if (to == 1 && how != TOLD_EARLY) sg_sched_raise(s, 1, SG_PER_TILE, 0);
    }
    launch(adds);
    rows_patch(adds, 0, 2);
    adds->patch[0].own_rounded = 1;
    sg_sched_add(adds, rows_of(1, SG_C, 0, 2), &wait);
    for (int to = 0; to < 2; to++) sg_sched_to(adds, rows_of(to, SG_C, 0, 2));
    sg_sched_raise(adds, 0, SG_PER_PATCH, 1);
    sg_sched_flag(s, 0);
    sg_sched_wait(s, sg_wait_one(1, 1));
}

static void sums_are_made_in_both(void **state)
{
    (void)state;
    sum_in_c(TOGETHER);
    accepted();
    assert_true(sched[1].patch[0].onto && !sched[0].patch[0].onto);
    sum_in_c(APART);
    REFUSED("rank 1, step 0 (gemm)", "adds onto what it does not wait for", "C of rank 0");
    sum_in_c(TOLD_EARLY);
    REFUSED("rank 1, step 0 (gemm)", "reads without waiting for the writer", "C of rank 1");
    sum_in_c(UNMARKED);
    REFUSED("rank 1, step 0 (gemm)", "stores what rank 0, step 0 has stored", "C of rank 0");
    sum_in_c(TOGETHER);
    seal();
    sched[1].add[0].awaited = 0;
    REFUSED_SEALED("rank 1, step 0 (gemm)", "reads without waiting for the writer", "C of rank 1");
    sum_in_c(TOGETHER);
    seal();
    sched[1].patch[0].tos = 1; /* at the peer alone */
    REFUSED_SEALED("rank 0, step 0 (gemm)", "stores a wrong value: C of rank 1, row 0");
    sched[1].to[0] = sched[1].to[1]; /* at home alone */
    REFUSED_SEALED("rank 0, step 0 (gemm)", "stores a wrong value: C of rank 0, row 0");
    sum_in_c(TOGETHER);
    seal();
    sched[0].step[1].waits = 0; /* the run ends before the sums have come */
    REFUSED_SEALED("rank 1, step 0 (gemm)", "C of rank 0", "not awaited before that rank's end");
}

/* Rows of both in windows, or in a rank's own place. */
static void gather_in_windows(int pad)
{
    begin("ag_gemm:f32:4x2x3:r2");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        if (pad > r) sg_sched_buf(s, SG_WINDOWS, "pad", 1, 3, 0);
        const int gathered = sg_sched_buf(s, SG_WINDOWS, "gathered", 4, 3, 0);
        sg_sched_coll(s, 0, SG_ALL_GATHER, 0, sg_area_of(r, SG_A, 0, 2, 0, 3));
        for (int q = 0; q < 2; q++) sg_sched_to(s, sg_area_of(r, gathered, 2 * q, 2, 0, 3));
        launch(s);
        sg_sched_patch(s, &(sg_patch){.rows = 4,
                                      .cols = 2,
                                      .k1 = 3,
                                      .final = 1,
                                      .a = sg_area_of(r, gathered, 0, 4, 0, 3),
                                      .b = sg_area_of(r, SG_B, 0, 2, 0, 3)});
        sg_sched_to(s, sg_area_of(r, SG_C, 0, 4, 0, 2));
    }
}

static void windows_are_alike(void **state)
{
    (void)state;
    gather_in_windows(0);
    accepted();
    gather_in_windows(1);
    seal();
    REFUSED_SEALED("rank 1: shared buffer gathered is 4 x 3, on rank 0 it is 1 x 3");
    gather_in_windows(0);
    seal();
    sched[1].arena_bytes[SG_WINDOWS] += SG_BUF_ALIGN;
    REFUSED_SEALED("bytes of WINDOWS, rank 0 has");
    gather_in_windows(2);
    seal();
    sched[1].buf[SG_USER_BUFS].rows = 2;
    REFUSED_SEALED("rank 1: shared buffer pad is 2 x 3, on rank 0 it is 1 x 3");
    gather_in_windows(0);
    seal();
    for (int r = 0; r < 2; r++) sched[r].buf[SG_USER_BUFS].rows++;
    for (int i = 0; i < 2; i++) sched[1].to[i].row0++;
    sched[1].patch[0].a.row0++;
    REFUSED_SEALED("a collective in windows is not as on rank 0");
}

/* ---- Places and ranges ----------------------------------------------------------------------- */

/* All-reduce of a 3 x 3 product in tiles of 2 x 2: stored to four places, summed, brought to C. */
static void reduce_places(int raster_back)
{
    begin("gemm_ar:f32:3x3x2:r2:bias");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int tiles = sg_sched_buf(s, SG_LIBRARY, "tiles", 8, 2, 0);
        launch(s);
        rows_patch(s, 0, 3);
        s->patch[0].final = 0;
        sg_sched_to(s, sg_area_tiled(r, tiles, 0, 4, 2, 2));
        sg_sched_raise(s, r, SG_PER_PATCH, 0);
        sg_sched_coll(s, 1, SG_ALL_REDUCE, 0, sg_area_of(r, tiles, 0, 8, 0, 2));
        sg_sched_wait(s, sg_wait_one(r, 0));
        const int coll = s->steps - 1;
        launch(s);
        sg_sched_after(s, coll);
        rows_patch(s, 0, 3);
        s->patch[1].k1 = 0;
        s->patch[1].raster = (uint8_t)raster_back;
        sg_sched_add(s, sg_area_tiled(r, tiles, 0, 4, 2, 2), NULL);
        sg_sched_to(s, rows_of(r, SG_C, 0, 3));
    }
}

static void places(void **state)
{
    (void)state;
    reduce_places(SG_BY_ROW);
    accepted();
    assert_int_equal(result.visits, 16);
    reduce_places(SG_BY_COL); /* two tiles change places */
    REFUSED("step 2 (gemm), visit");
    reduce_places(SG_BY_ROW);
    seal();
    sched[0].step[1].waits = 0;
    REFUSED_SEALED("rank 0, step 1 (coll)", "tiles of rank 0");
    reduce_places(SG_BY_ROW);
    seal();
    sched[1].step[2].after[0] = -1;
    REFUSED_SEALED("rank 1", "reads", "tiles of rank 1");
    reduce_places(SG_BY_ROW);
    seal();
    sched[0].to[0].row0 = 2; /* a place further */
    REFUSED_SEALED("rank 0, step 0 (gemm), visit 3", "outside its buffer of 8 x 2", "rows 8:9");
}

/* An edge tile alone, stored as it is: the rest of its place is what a collective would read. */
static void places_are_filled(void **state)
{
    (void)state;
    for (int filled = 0; filled < 2; filled++) {
        begin("gemm_ar:f32:1x1x2:r2");
        for (int r = 0; r < 2; r++) {
            sg_sched *const s = &sched[r];
            const int tiles = sg_sched_buf(s, SG_LIBRARY, "tiles", 2, 2, 0);
            launch(s);
            rows_patch(s, 0, 1);
            sg_sched_to(s, filled ? sg_area_tiled(r, tiles, 0, 1, 2, 2) : rows_of(r, tiles, 0, 1));
            sg_sched_coll(s, 0, SG_ALL_REDUCE, 0, sg_area_of(r, tiles, 0, 2, 0, 2));
            launch(s);
            rows_patch(s, 0, 1);
            s->patch[1].k1 = 0;
            sg_sched_add(s, sg_area_tiled(r, tiles, 0, 1, 2, 2), NULL);
            sg_sched_to(s, rows_of(r, SG_C, 0, 1));
        }
        if (filled) accepted();
        if (!filled) REFUSED("step 1 (coll)", "reads what nobody has stored yet", "tiles of rank");
    }
}

/* Row 0 with zeros below it, plus a zero and row 1: what fills a place counts as zero. */
static void zeros_are_zeros(void **state)
{
    (void)state;
    begin("gemm:f32:2x2x3:r1");
    sg_sched *const s = &sched[0];
    const int place = sg_sched_buf(s, SG_LOCAL, "place", 2, 2, 0);
    const int other = sg_sched_buf(s, SG_LOCAL, "other", 2, 2, 0);
    launch(s);
    rows_patch(s, 0, 1);
    s->patch[0].final = 0;
    sg_sched_to(s, sg_area_tiled(0, place, 0, 1, 2, 2));
    rows_patch(s, 0, 1);
    s->patch[1].k1 = s->patch[1].final = 0;
    sg_sched_to(s, rows_of(0, other, 0, 1));
    rows_patch(s, 1, 1);
    s->patch[2].final = 0;
    sg_sched_to(s, rows_of(0, other, 1, 1));
    sg_sched_reduce(s, 0, true);
    sg_sched_add(s, rows_of(0, place, 0, 2), NULL);
    sg_sched_add(s, rows_of(0, other, 0, 2), NULL);
    sg_sched_to(s, rows_of(0, SG_C, 0, 2));
    accepted();
}

/* Every rank gets the products of both and adds up its row of blocks 0 and SECOND. */
static void blocks_of_ranks(int second)
{
    begin("gemm_rs:f32:2x2x3:r2");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", 2, 2, 0);
        const int all = sg_sched_buf(s, SG_LIBRARY, "all", 4, 2, 0);
        launch(s);
        rows_patch(s, 0, 2);
        s->patch[0].final = 0;
        sg_sched_to(s, rows_of(r, partial, 0, 2));
        sg_sched_coll(s, 0, SG_ALL_GATHER, 0, rows_of(r, partial, 0, 2));
        for (int q = 0; q < 2; q++) sg_sched_to(s, rows_of(r, all, 2 * q, 2));
        sg_sched_reduce(s, 0, true);
        sg_sched_add(s, rows_of(r, all, r, 1), NULL);
        sg_sched_add(s, rows_of(r, all, 2 * second + r, 1), NULL);
        sg_sched_to(s, rows_of(r, SG_C, 0, 1));
    }
}

static void ranks_differ(void **state)
{
    (void)state;
    blocks_of_ranks(1);
    accepted();
    blocks_of_ranks(0); /* rank 0's product twice, rank 1's not at all */
    REFUSED("stores a wrong value: C of rank 0, row 0, col 0");
}

/* The first FIRST of four tiles, then COUNT from tile FROM on. */
static void two_ranges(int first, int from, int count)
{
    begin("gemm:f32:4x4x2:r1");
    launch(&sched[0]);
    for (int i = 0; i < 2; i++) {
        rows_patch(&sched[0], 0, 4);
        sched[0].patch[i].tile0 = i ? from : 0;
        sched[0].patch[i].tiles = i ? count : first;
        sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 4));
    }
}

static void ranges_of_a_raster(void **state)
{
    (void)state;
    two_ranges(1, 1, 3);
    accepted();
    assert_int_equal(result.visits, 4);
    two_ranges(3, 3, 1);
    accepted();
    two_ranges(2, 1, 3);
    REFUSED("visit 2 (rows 0:2, cols 2:4", "stores what rank 0, step 0 has stored");
    two_ranges(2, 3, 1);
    REFUSED("nobody stores C row 2, col 0");
}

/* ---- All-to-all ------------------------------------------------------------------------------ */

/* Rank 0 computes 1 row for itself and 2 for rank 1; rank 1 computes 2 for rank 0 and 2 for
 * itself. */
static void exchange(bool final)
{
    begin("gemm_a2a:f32:4x2x3:r2:counts=1,2/2,2:bias");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int64_t rows = sg_problem_rows(&problem, r);
        const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", rows, 2, 0);
        const int arrived = sg_sched_buf(s, SG_LIBRARY, "arrived", 4, 2, 0);
        launch(s);
        rows_patch(s, 0, rows);
        s->patch[0].final = final;
        sg_sched_to(s, rows_of(r, partial, 0, rows));
        sg_sched_coll(s, 0, SG_ALL_TO_ALL, 4, (sg_area){0});
        sg_sched_to(s, rows_of(r, partial, 0, r ? 2 : 1));
        sg_sched_to(s, rows_of(r, partial, r ? 2 : 1, 2));
        for (int q = 0; q < 2; q++) {
            const sg_part part = sg_problem_part(&problem, q, r);
            sg_sched_to(s, rows_of(r, final ? SG_C : arrived, part.held, part.rows));
        }
        if (final) continue;
        sg_sched_reduce(s, 0, true);
        sg_sched_add(s, rows_of(r, arrived, 0, r ? 4 : 3), NULL);
        sg_sched_to(s, rows_of(r, SG_C, 0, r ? 4 : 3));
    }
}

static void all_to_all(void **state)
{
    (void)state;
    exchange(true);
    accepted();
    exchange(false); /* the bias is the one of the rank that multiplies */
    REFUSED("stores a wrong value: C of rank 1, row 0");
    exchange(true);
    seal();
    const sg_area first = sched[1].to[3];
    sched[1].to[3] = sched[1].to[4]; /* where rows of ranks 0 and 1 arrive */
    sched[1].to[4] = first;
    REFUSED_SEALED("stores a wrong value: C of rank 1");
    exchange(true);
    seal();
    sched[0].to[1].rows = 2; /* sends more than arrives */
    REFUSED_SEALED("(coll)", "rows do not fit");
    exchange(true);
    seal();
    sched[1].buf[SG_USER_BUFS].wide = 1;
    sched[1].arena_bytes[SG_LIBRARY] += SG_BUF_ALIGN;
    REFUSED_SEALED("a collective between f32 and the problem's type");
}

/* Each rank multiplies what the ranks send to it: one row of its own and all rows of the other. */
static void dispatch(int64_t row_of_a)
{
    begin("a2a_gemm:f32:4x2x3:r2:counts=1,3/2,1");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int64_t rows = sg_problem_rows(&problem, r);
        const int gathered = sg_sched_buf(s, SG_LIBRARY, "gathered", rows, 3, 0);
        sg_sched_coll(s, 0, SG_ALL_TO_ALL, 0, (sg_area){0});
        for (int i = 0; i < 4; i++) {
            const int to = i < 2 ? i : r;
            const int from = i < 2 ? r : i - 2;
            const sg_part part = sg_problem_part(&problem, to, from);
            sg_sched_to(s, sg_area_of(r, i < 2 ? SG_A : gathered, i < 2 ? part.held : part.base,
                                      part.rows, 0, 3));
        }
        launch(s);
        rows_patch(s, 0, rows);
        s->patch[0].a = sg_area_of(r, gathered, 0, rows, 0, 3);
        sg_sched_to(s, rows_of(r, SG_C, 0, rows));
    }
    sched[0].to[0].row0 = (int32_t)row_of_a;
}

static void dispatch_of_rows(void **state)
{
    (void)state;
    dispatch(0);
    accepted();
    dispatch(1); /* another row of rank 0's own */
    REFUSED("stores a wrong value: C of rank 0, row 0");
    dispatch(0);
    seal();
    sched[1].buf[SG_C].rows--;
    REFUSED_SEALED("rank 1: C is not as large as the problem says");
}

/* ---- Gathers of B and along k ---------------------------------------------------------------- */

/* All-gather of what is held, then the product; OTHER is the rank whose block is read twice, or
 * -1. */
static void gather_b(int other)
{
    begin("ag_gemm:f32:2x5x3:r2:gather=b:rows=2,3");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int gathered = sg_sched_buf(s, SG_LIBRARY, "gathered", 5, 3, 0);
        sg_sched_coll(s, 0, SG_ALL_GATHER, 0, sg_area_of(r, SG_B, 0, r ? 3 : 2, 0, 3));
        sg_sched_to(s, sg_area_of(r, gathered, 0, 2, 0, 3));
        sg_sched_to(s, sg_area_of(r, gathered, 2, 3, 0, 3));
        launch(s);
        for (int q = 0; q < 2; q++) {
            rows_patch(s, 0, 2);
            sg_patch *const p = &s->patch[q];
            p->col0 = q ? 2 : 0;
            p->cols = q ? 3 : 2;
            p->b = sg_area_of(r, gathered, q && other != r ? 2 : 0, p->cols, 0, 3);
            sg_sched_to(s, sg_area_of(r, SG_C, 0, 2, p->col0, p->cols));
        }
    }
}

static void rows_of_b(void **state)
{
    (void)state;
    gather_b(-1);
    accepted();
    gather_b(1);
    REFUSED("stores a wrong value: C of rank 1, row 0, col 2");
}

/* Columns of A, a block of k from each rank, blocks dealt in turn.  The sum runs over them in the
 * order of ranks; column COL of rank 1 comes first among its own. */
static void gather_k(int col)
{
    begin("ag_gemm:f32:2x2x4:r2:gather=k:cyclic=1");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int blocks = sg_sched_buf(s, SG_LIBRARY, "blocks", 4, 2, 0);
        const int gathered = sg_sched_buf(s, SG_LOCAL, "gathered", 2, 4, 0);
        sg_sched_coll(s, 0, SG_ALL_GATHER, 0, sg_area_of(r, SG_A, 0, 2, 0, 2));
        for (int q = 0; q < 2; q++) sg_sched_to(s, sg_area_of(r, blocks, 2 * q, 2, 0, 2));
        for (int i = 0; i < 4; i++) {
            const int from = i % 2 == 1 && col ? 1 - i / 2 : i / 2;
            sg_sched_copy(s, 0, SG_BY_SMS, sg_area_of(r, blocks, 2 * (i % 2), 2, from, 1));
            sg_sched_to(s, sg_area_of(r, gathered, 0, 2, i, 1));
        }
        launch(s);
        rows_patch(s, 0, 2);
        s->patch[0].a = sg_area_of(r, gathered, 0, 2, 0, 4);
        sg_sched_to(s, rows_of(r, SG_C, 0, 2));
    }
}

static void columns_of_a(void **state)
{
    (void)state;
    gather_k(0);
    accepted();
    gather_k(1); /* k 1 and k 3 have changed places, but only in A */
    REFUSED("stores a wrong value: C of rank 0, row 0, col 0");
    gather_k(0);
    seal();
    sched[1].buf[SG_A].cols++;
    REFUSED_SEALED("rank 1: A is not as large as the problem says");
}

/* Own rows that no access cuts where the problem does are not taken for others. */
static void owners_are_cut_apart(void **state)
{
    (void)state;
    begin("gemm_rs:f32:4x2x3:r2:cyclic=1");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int partial = sg_sched_buf(s, SG_LIBRARY, "partial", 4, 2, 0);
        sg_sched_launch(s, 0, 4, 2, 0, false);
        rows_patch(s, 0, 4);
        sg_sched_to(s, rows_of(r, partial, 0, 4));
        sg_sched_coll(s, 0, SG_REDUCE_SCATTER, 0, rows_of(r, SG_C, 0, 2));
        for (int q = 0; q < 2; q++) sg_sched_to(s, rows_of(r, partial, 2 * q, 2));
    }
    REFUSED("stores a wrong value: C of rank 0, row 1");
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void calls_make_whole_rows(void **state)
{
    (void)state;
    begin("gemm:f32:4x4x2:r1:call=8:relu");
    launch(&sched[0]); /* tiles are as wide as C, whatever is asked for */
    rows_patch(&sched[0], 0, 4);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 4));
    accepted();
    assert_int_equal(result.visits, 2);
    sched[0].step[0].u.launch.tile_n = 2;
    sched[0].step[0].u.launch.visits = 4;
    REFUSED_SEALED("visit 0 (rows 0:2, cols 0:2", "a part of a row that a call makes whole");
    for (int first = 0; first < 2; first++) { /* of k, its first half or its last */
        sched[0].step[0].u.launch =
            (sg_launch){.tile_m = 2, .tile_n = 4, .patches = 1, .visits = 2};
        sched[0].patch[0].k0 = !first;
        sched[0].patch[0].k1 = 1 + !first;
        sched[0].patch[0].a.cols = sched[0].patch[0].b.cols = 1;
        REFUSED_SEALED("visit 0 (rows 0:2, cols 0:4", "a part of a row that a call makes whole");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c_is_its_own_addend),
        cmocka_unit_test(chains_sum_in_place),
        cmocka_unit_test(sums_are_read_by_nobody_else),
        cmocka_unit_test(collectives_read_before_sums),
        cmocka_unit_test(sums_are_made_in_both),
        cmocka_unit_test(windows_are_alike),
        cmocka_unit_test(places),
        cmocka_unit_test(places_are_filled),
        cmocka_unit_test(zeros_are_zeros),
        cmocka_unit_test(ranks_differ),
        cmocka_unit_test(ranges_of_a_raster),
        cmocka_unit_test(all_to_all),
        cmocka_unit_test(dispatch_of_rows),
        cmocka_unit_test(rows_of_b),
        cmocka_unit_test(columns_of_a),
        cmocka_unit_test(owners_are_cut_apart),
        cmocka_unit_test(calls_make_whole_rows),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
