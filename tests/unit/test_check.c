/* test_check.c -- small schedules written by hand, one or two per rule of the checker. */
#include "proof.h"

/* ---- Values ---------------------------------------------------------------------------------- */

static void plain_product(void **state)
{
    (void)state;
    begin("gemm:f32:5x3x4:r1:bias:gelu");
    launch(&sched[0]);
    rows_patch(&sched[0], 0, 5);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 5));
    accepted();
    assert_int_equal(result.visits, 6);
}

static void row_not_stored(void **state)
{
    (void)state;
    begin("gemm:f32:5x3x4:r1");
    launch(&sched[0]);
    rows_patch(&sched[0], 0, 4);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 4));
    REFUSED("rank 0", "nobody stores C row 4, col 0");
}

static void wrong_rows(void **state)
{
    (void)state;
    begin("gemm:f32:4x3x4:r1");
    launch(&sched[0]);
    rows_patch(&sched[0], 0, 2);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 2, 2));
    rows_patch(&sched[0], 2, 2);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 2));
    REFUSED("rank 0, step 0 (gemm), visit", "stores a wrong value", "C of rank 0, row 0, col 0");
}

static void part_of_k(void **state)
{
    (void)state;
    begin("gemm:f32:2x2x8:r1");
    launch(&sched[0]);
    rows_patch(&sched[0], 0, 2);
    sched[0].patch[0].k1 = 7;
    sched[0].patch[0].a.cols = sched[0].patch[0].b.cols = 7;
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 2));
    REFUSED("k 0:7", "wrong value");
}

static void epilogue_missing(void **state)
{
    (void)state;
    begin("gemm:f32:2x2x2:r1:relu");
    launch(&sched[0]);
    rows_patch(&sched[0], 0, 2);
    sched[0].patch[0].final = 0;
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 2));
    REFUSED("wrong value");
}

static void stored_twice(void **state)
{
    (void)state;
    begin("gemm:f32:4x2x2:r1");
    launch(&sched[0]);
    rows_patch(&sched[0], 0, 3);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 3));
    rows_patch(&sched[0], 2, 2);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 2, 2));
    REFUSED("stores what rank 0, step 0 has stored", "C of rank 0, rows 2:4, cols 0:2");
}

static void area_outside(void **state)
{
    (void)state;
    begin("gemm:f32:4x2x2:r1");
    launch(&sched[0]);
    rows_patch(&sched[0], 0, 4);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 4));
    seal();
    sched[0].to[0].row0 = 1;
    REFUSED_SEALED("step 0 (gemm)", "outside its buffer of 4 x 2", "rows 3:5");
}

/* A sum of nothing but A is A, but in f32, which no product reads. */
static void operand_of_sums(void **state)
{
    (void)state;
    static const char *const problems[] = {"gemm:bf16:2x4x4:r1", "gemm:f32:2x4x4:r1"};
    for (int i = 0; i < 2; i++) {
        begin(problems[i]);
        sg_sched *const s = &sched[0];
        const int wide = sg_sched_buf(s, SG_LOCAL, "wide", 2, 4, SG_WIDE);
        sg_sched_reduce(s, 0, false);
        sg_sched_add(s, sg_area_of(0, SG_A, 0, 2, 0, 4), NULL);
        sg_sched_to(s, sg_area_of(0, wide, 0, 2, 0, 4));
        launch(s);
        rows_patch(s, 0, 2);
        s->patch[0].a.buf = (uint8_t)wide;
        sg_sched_to(s, rows_of(0, SG_C, 0, 2));
        if (i == 1)
            accepted(); /* the problem's type is f32 */
        else
            REFUSED("step 1 (gemm), visit 0", "multiplies f32", "wide of rank 0");
    }
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* A product into scratch in lane 0, and its copy to C in lane 1. */
static int product_and_copy(void)
{
    begin("gemm:f32:4x2x2:r1");
    sg_sched *const s = &sched[0];
    const int scratch = sg_sched_buf(s, SG_LOCAL, "scratch", 4, 2, 0);
    launch(s);
    rows_patch(s, 0, 4);
    sg_sched_to(s, rows_of(0, scratch, 0, 4));
    sg_sched_raise(s, 0, SG_PER_PATCH, 0);
    sg_sched_copy(s, 1, SG_BY_SMS, rows_of(0, scratch, 0, 4));
    sg_sched_to(s, rows_of(0, SG_C, 0, 4));
    return 0;
}

static void copy_waits(void **state)
{
    (void)state;
    product_and_copy();
    sg_sched_wait(&sched[0], sg_wait_one(0, 0));
    accepted();
    product_and_copy();
    sg_sched_after(&sched[0], 0);
    accepted();
}

static void copy_does_not_wait(void **state)
{
    (void)state;
    product_and_copy();
    REFUSED("rank 0, step 1 (copy)", "reads", "scratch of rank 0, rows 0:4, cols 0:2");
}

/* Lane 2 waits for lane 1, which waits for lane 0: the order of the first and last is found. */
static void order_through_a_chain(void **state)
{
    (void)state;
    for (int broken = 0; broken < 2; broken++) {
        begin("gemm:f32:4x2x2:r1");
        sg_sched *const s = &sched[0];
        const int scratch = sg_sched_buf(s, SG_LOCAL, "scratch", 4, 2, 0);
        launch(s);
        rows_patch(s, 0, 4);
        sg_sched_to(s, rows_of(0, scratch, 0, 4));
        sg_sched_raise(s, 0, SG_PER_PATCH, 0);
        sg_sched_flag(s, 1);
        if (!broken) sg_sched_wait(s, sg_wait_one(0, 0));
        sg_sched_raise(s, 0, SG_PER_PATCH, 1);
        sg_sched_copy(s, 2, SG_BY_SMS, rows_of(0, scratch, 0, 4));
        sg_sched_wait(s, sg_wait_one(0, 1));
        sg_sched_to(s, rows_of(0, SG_C, 0, 4));
        if (!broken) accepted();
        if (broken) REFUSED("rank 0, step 2 (copy)", "reads");
    }
}

/* One tile adds what another tile of its launch has stored: fine after its flag, a race without. */
static void tiles_of_a_launch(void **state)
{
    (void)state;
    for (int broken = 0; broken < 2; broken++) {
        begin("gemm:f32:2x2x4:r1");
        sg_sched *const s = &sched[0];
        const int part = sg_sched_buf(s, SG_LOCAL, "part", 2, 2, SG_WIDE);
        launch(s);
        for (int i = 0; i < 2; i++) {
            rows_patch(s, 0, 2);
            sg_patch *const p = &s->patch[i];
            p->k0 = 2 * i, p->k1 = 2 * i + 2, p->final = i == 1;
            p->a.col0 = p->b.col0 = 2 * i;
            p->a.cols = p->b.cols = 2;
            const sg_wait wait = sg_wait_one(0, 0);
            if (i == 1) sg_sched_add(s, rows_of(0, part, 0, 2), broken ? NULL : &wait);
            sg_sched_to(s, rows_of(0, i ? SG_C : part, 0, 2));
            if (i == 0) sg_sched_raise(s, 0, SG_PER_PATCH, 0);
        }
        if (!broken) accepted();
        if (broken)
            REFUSED("visit 1 (rows 0:2, cols 0:2, k 2:4)",
                    "reads without waiting for the writer, rank 0, step 0", "part of rank 0");
    }
}

static void deadlock_in_list_order(void **state)
{
    (void)state;
    begin("gemm:f32:4x2x2:r1");
    launch(&sched[0]);
    rows_patch(&sched[0], 0, 2);
    sg_sched_wait(&sched[0], sg_wait_one(0, 7));
    sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 2));
    rows_patch(&sched[0], 2, 2);
    sg_sched_to(&sched[0], rows_of(0, SG_C, 2, 2));
    sg_sched_raise(&sched[0], 0, SG_PER_PATCH, 7);
    REFUSED(
        "rank 0, step 0 (gemm), visit 0",
        "deadlock: waits for flag 7 of rank 0, raised by rank 0, step 0 (gemm), visit 1 (rows 2:4");
}

static void deadlock_of_lanes(void **state)
{
    (void)state;
    begin("gemm:f32:0x2x2:r2");
    for (int r = 0; r < 2; r++) {
        sg_sched_flag(&sched[r], 3);
        sg_sched_wait(&sched[r], sg_wait_one(1 - r, 0));
        sg_sched_raise(&sched[r], 1 - r, SG_PER_PATCH, 0);
    }
    REFUSED("rank 0, step 0 (flag)",
            "deadlock: waits for flag 0 of rank 1, raised by rank 1, step 0 (flag)");
}

static void nobody_raises(void **state)
{
    (void)state;
    begin("gemm:f32:0x2x2:r2");
    sg_sched_flag(&sched[0], 0);
    sg_sched_raise(&sched[0], 1, SG_PER_PATCH, 2);
    sg_sched_flag(&sched[1], 0);
    sg_sched_wait(&sched[1], sg_wait_one(0, 3));
    REFUSED("rank 1, step 0 (flag)", "waits for a flag that nobody raises: flag 3 of rank 0");
    begin("gemm:f32:0x2x2:r3"); /* it is raised at another rank, or by another one */
    sg_sched_flag(&sched[2], 0);
    sg_sched_raise(&sched[2], 0, SG_PER_PATCH, 0); /* takes part */
    sg_sched_flag(&sched[0], 0);
    sg_sched_raise(&sched[0], 2, SG_PER_PATCH, 3);
    sg_sched_flag(&sched[1], 0);
    sg_sched_wait(&sched[1], sg_wait_one(0, 3));
    REFUSED("flag 3 of rank 0; rank 0 raises it at rank 2");
    begin("gemm:f32:0x2x2:r3");
    sg_sched_flag(&sched[0], 0);
    sg_sched_raise(&sched[0], 2, SG_PER_PATCH, 0);
    sg_sched_raise(&sched[0], 0, SG_PER_PATCH, 3);
    sg_sched_flag(&sched[2], 0);
    sg_sched_raise(&sched[2], 1, SG_PER_PATCH, 3);
    sg_sched_flag(&sched[1], 0);
    sg_sched_raise(&sched[1], 1, SG_PER_PATCH, 3);
    sg_sched_wait(&sched[1], sg_wait_one(0, 3));
    REFUSED("flag 3 of rank 0; rank 2 raises one of this number here");
}

static void raised_twice(void **state)
{
    (void)state;
    begin("gemm:f32:0x2x2:r2");
    for (int i = 0; i < 2; i++) {
        sg_sched_flag(&sched[0], i);
        sg_sched_raise(&sched[0], 1, SG_PER_PATCH, 0);
    }
    sg_sched_flag(&sched[1], 0);
    sg_sched_wait(&sched[1], sg_wait_one(0, 0));
    seal(); /* two raisers through one counter are right */
    sg_checker *const ck = sg_checker_new();
    assert_int_equal(sg_check(ck, sched, 2, 0, &result), SHINGLE_OK);
    sg_checker_free(ck);
    sched[0].raise[0].counter = sched[0].raise[1].counter = -1;
    REFUSED_SEALED("rank 0, step 1 (flag)", "raises flag 0 at rank 1 a second time");
}

/* ---- Peers ----------------------------------------------------------------------------------- */

/* All-gather of one row a rank: copies to the peer, own product, product of what arrived.  Waits
 * for the flag of slab 0 at the second slab too if BROKEN. */
static void gather_by_slabs(bool broken)
{
    begin("ag_gemm:f32:2x2x4:r2");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int gathered = sg_sched_buf(s, SG_SYM, "gathered", 2, 4, SG_FIXED);
        for (int i = 0; i < 2; i++) {
            sg_sched_copy(s, 1, SG_BY_ENGINE, sg_area_of(r, SG_A, 0, 1, 2 * i, 2));
            sg_sched_to(s, sg_area_of(1 - r, gathered, r, 1, 2 * i, 2));
            sg_sched_raise(s, 1 - r, SG_PER_PATCH, i);
        }
        launch(s);
        rows_patch(s, r, 1);
        s->patch[0].a.row0 = 0;
        sg_sched_to(s, rows_of(r, SG_C, r, 1));
        rows_patch(s, 1 - r, 1);
        s->patch[1].slab = 2;
        s->patch[1].a = sg_area_of(r, gathered, 1 - r, 1, 0, 4);
        sg_sched_wait(s, (sg_wait){.by = (int16_t)(1 - r),
                                   .per = SG_PER_ROWS,
                                   .row0 = 1 - r,
                                   .rows = 1,
                                   .chunk = 1,
                                   .chunk_k = broken ? 4 : 2,
                                   .chunks_k = broken ? 1 : 2});
        sg_sched_to(s, rows_of(r, SG_C, 1 - r, 1));
    }
}

static void slab_waits(void **state)
{
    (void)state;
    gather_by_slabs(false);
    accepted();
    gather_by_slabs(true);
    REFUSED("step 2 (gemm), visit 1 (rows", "reads", "gathered of rank", "cols 2:4");
}

/* Every rank stores its row of the sum on both ranks. */
static void reduce_to_all(bool awaited)
{
    begin("gemm_ar:f32:2x2x3:r2");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int inbox = sg_sched_buf(s, SG_SYM, "inbox", 1, 2, 0);
        launch(s);
        rows_patch(s, 1 - r, 1);
        s->patch[0].final = 0;
        sg_sched_to(s, rows_of(1 - r, inbox, 0, 1));
        sg_sched_raise(s, 1 - r, SG_PER_PATCH, 0);
        rows_patch(s, r, 1);
        const sg_wait wait = sg_wait_one(1 - r, 0);
        sg_sched_add(s, rows_of(r, inbox, 0, 1), &wait);
        for (int q = 0; q < 2; q++) sg_sched_to(s, rows_of(q, SG_C, r, 1));
        sg_sched_raise(s, 1 - r, SG_PER_PATCH, 1);
        sg_sched_flag(s, 0);
        if (awaited) sg_sched_wait(s, sg_wait_one(1 - r, 1));
    }
}

static void end_reads_outputs(void **state)
{
    (void)state;
    reduce_to_all(true);
    accepted();
    reduce_to_all(false);
    REFUSED("rank 1, step 0 (gemm), visit 1", "C of rank 0, row 1, col 0",
            "not awaited before that rank's end");
}

static void protocol(void **state)
{
    (void)state;
    reduce_to_all(true);
    accepted();
    sched[1].step[0].gate = 0;
    REFUSED_SEALED("rank 1, step 0 (gemm), visit 0", "without the gate", "inbox of rank 0");
    sched[1].step[0].gate = 1;
    for (int32_t i = 0; i < sched[0].tos; i++) sched[0].to[i].leave = 0;
    REFUSED_SEALED("rank 0", "stores without that rank's leave", "C of rank 1");
    reduce_to_all(true);
    seal();
    sched[1].hello = 0;
    REFUSED_SEALED("rank 1 says no hello");
    sched[1].hello = 1, sched[0].done = 0;
    REFUSED_SEALED("rank 0 says no done");
    sched[0].done = 1, sched[1].baked = 1;
    REFUSED_SEALED("ranks 0 and 1 may use different halves");
    sched[1].baked = 0, sched[1].buf[SG_USER_BUFS].rows++;
    sched[0].arena_bytes[SG_SYM] = sched[1].arena_bytes[SG_SYM] += SG_BUF_ALIGN;
    REFUSED_SEALED("rank 1: shared buffer inbox is 2 x 2, on rank 0 it is 1 x 2");
    sched[1].buf[SG_USER_BUFS].rows--, sched[1].buf[SG_USER_BUFS].wide ^= 1;
    REFUSED_SEALED("shared buffer inbox is not as on rank 0");
    sched[1].buf[SG_USER_BUFS].wide ^= 1;
    sched[1].arena_bytes[SG_SYM] += SG_BUF_ALIGN;
    REFUSED_SEALED("rank 1: 768 bytes of SYM, rank 0 has 512");
}

/* All that is returned comes from peers, with their leave and in time, but a hello tells nobody
 * where it lies. */
static void returned_by_peers(void **state)
{
    (void)state;
    begin("ag_gemm:f32:4x2x3:r2:return_a");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int peer = 1 - r;
        const int gathered = sg_sched_buf(s, SG_SYM, "gathered", 4, 3, 0);
        const int scratch = sg_sched_buf(s, SG_LOCAL, "scratch", 2, 3, 0);
        sg_sched_copy(s, 1, SG_BY_SMS, sg_area_of(r, SG_A, 0, 2, 0, 3));
        sg_sched_to(s, sg_area_of(r, SG_RETURNED, 2 * r, 2, 0, 3));
        sg_sched_to(s, sg_area_of(r, scratch, 0, 2, 0, 3));
        sg_sched_to(s, sg_area_of(peer, gathered, 2 * r, 2, 0, 3));
        sg_sched_raise(s, peer, SG_PER_PATCH, 0);
        launch(s);
        for (int q = 0; q < 2; q++) {
            rows_patch(s, 2 * q, 2);
            s->patch[q].a =
                q == r ? sg_area_of(r, SG_A, 0, 2, 0, 3) : sg_area_of(r, gathered, 2 * q, 2, 0, 3);
            if (q == peer) sg_sched_wait(s, sg_wait_one(peer, 0));
            sg_sched_to(s, rows_of(r, SG_C, 2 * q, 2));
        }
    }
    seal();
    for (int r = 0; r < 2; r++) {
        sched[r].to[1] = sg_area_of(1 - r, SG_RETURNED, 2 * r, 2, 0, 3);
        sched[r].to[1].leave = 1;
        sched[r].buf[SG_RETURNED].reach = 1;
    }
    REFUSED_SEALED("rank 0, step 0 (copy)", "stores where peers cannot reach",
                   "returned of rank 1, rows 0:2");
}

static void halves(void **state)
{
    (void)state;
    gather_by_slabs(false);
    seal();
    assert_true(sched[0].baked);
    sched[0].baked = sched[1].baked = 0;
    REFUSED_SEALED("gathered has a fixed address");
    for (int r = 0; r < 2; r++) sched[r].buf[SG_USER_BUFS].fixed = 0;
    REFUSED_SEALED("rank 0, step 0 (copy)", "an engine uses a fixed half");
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* Sum of all ranks' products in place in C; READER copies C's rows away in another lane before. */
static void all_reduce(int collectives_of_rank_1, bool reader)
{
    begin("gemm_ar:f32:2x2x3:r2");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int other = sg_sched_buf(s, SG_LOCAL, "other", 2, 2, 0);
        launch(s);
        rows_patch(s, 0, 2);
        sg_sched_to(s, rows_of(r, SG_C, 0, 2));
        sg_sched_raise(s, r, SG_PER_PATCH, 0);
        if (reader) {
            sg_sched_copy(s, 1, SG_BY_SMS, rows_of(r, SG_C, 0, 2));
            sg_sched_wait(s, sg_wait_one(r, 0));
            sg_sched_to(s, rows_of(r, other, 0, 2));
            sg_sched_flag(s, 0);
        }
        for (int i = 0; i < (r == 1 ? collectives_of_rank_1 : 1); i++)
            sg_sched_coll(s, 0, SG_ALL_REDUCE, 4, rows_of(r, SG_C, 0, 2));
    }
}

static void collectives(void **state)
{
    (void)state;
    all_reduce(1, false);
    accepted();
    all_reduce(2, false);
    REFUSED("rank 0 has no collective 1");
    all_reduce(0, false);
    REFUSED("rank 1 has no collective 0");
    all_reduce(1, true);
    REFUSED("C of rank");
    all_reduce(1, false);
    seal();
    sched[1].step[1].u.coll.self.row0 = 1;
    sched[1].step[1].u.coll.self.rows = 1;
    REFUSED_SEALED("step 1 (coll)", "rows do not fit");
}

static void collective_waits_for_ever(void **state)
{
    (void)state;
    all_reduce(1, false);
    sg_sched *const s = &sched[1];
    sg_sched_wait(s,
                  sg_wait_one(1, 9)); /* the collective of rank 1 waits for what stands behind it */
    sg_sched_flag(s, 0);
    sg_sched_raise(s, 1, SG_PER_PATCH, 9);
    REFUSED("deadlock", "rank 0, step 1 (coll)", "waits in a collective for another rank");
}

/* ---- SMs ------------------------------------------------------------------------------------- */

static void sms_fit(void **state)
{
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        begin("gemm:f32:4x2x2:r1");
        sg_sched *const s = &sched[0];
        int first = -1;
        for (int i = 0; i < 2; i++) {
            const int step = sg_sched_launch(s, i, 2, 2, 6, false);
            if (i == 0) first = step;
            if (i == 1 && ordered) sg_sched_after(s, first);
            rows_patch(s, 2 * i, 2);
            sg_sched_to(s, rows_of(0, SG_C, 2 * i, 2));
            sg_sched_raise(s, 0, SG_PER_PATCH, i);
        }
        sms = ordered ? 6 : 12;
        accepted();
        sms--;
        REFUSED_SEALED("rank 0, step 0 (gemm)", "SMs are needed while it runs");
        sms = 13;
        sg_sched_flag(s, 2); /* a lane that waits holds an SM beside launches with a budget */
        sg_sched_wait(s, sg_wait_one(0, 1));
        if (!ordered) accepted();
        sms = ordered ? 6 : 12;
        REFUSED("SMs are needed while it runs");
    }
}

static void sms_of_all(void **state)
{
    (void)state;
    all_reduce(1, false);
    sms = 8;
    accepted();
    all_reduce(1, false);
    sms = 8;
    for (int r = 0; r < 2; r++) {
        sched[r].step[1].lane = 1; /* beside a launch on all SMs there is no room */
        sg_sched_wait(&sched[r], sg_wait_one(r, 0));
    }
    REFUSED("rank 0, step 0 (gemm)", "12 SMs are needed while it runs; the machine has 8");
}

/* A launch on all SMs leaves none to a lane that waits. */
static void waits_hold_one(void **state)
{
    (void)state;
    for (int blocks = 0; blocks <= 8; blocks++) {
        begin("gemm:f32:4x2x2:r1");
        sg_sched *const s = &sched[0];
        sg_sched_launch(s, 0, 2, 2, blocks, false);
        rows_patch(s, 0, 4);
        sg_sched_to(s, rows_of(0, SG_C, 0, 4));
        sg_sched_raise(s, 0, SG_PER_PATCH, 0);
        sg_sched_flag(s, 1);
        sg_sched_wait(s, sg_wait_one(0, 0));
        sms = 8;
        if (blocks > 0 && blocks < 8)
            accepted();
        else
            REFUSED("rank 0, step 0 (gemm)", "9 SMs are needed while it runs; the machine has 8");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_product),
        cmocka_unit_test(row_not_stored),
        cmocka_unit_test(wrong_rows),
        cmocka_unit_test(part_of_k),
        cmocka_unit_test(epilogue_missing),
        cmocka_unit_test(stored_twice),
        cmocka_unit_test(area_outside),
        cmocka_unit_test(operand_of_sums),
        cmocka_unit_test(copy_waits),
        cmocka_unit_test(copy_does_not_wait),
        cmocka_unit_test(order_through_a_chain),
        cmocka_unit_test(tiles_of_a_launch),
        cmocka_unit_test(deadlock_in_list_order),
        cmocka_unit_test(deadlock_of_lanes),
        cmocka_unit_test(nobody_raises),
        cmocka_unit_test(raised_twice),
        cmocka_unit_test(slab_waits),
        cmocka_unit_test(end_reads_outputs),
        cmocka_unit_test(protocol),
        cmocka_unit_test(returned_by_peers),
        cmocka_unit_test(halves),
        cmocka_unit_test(collectives),
        cmocka_unit_test(collective_waits_for_ever),
        cmocka_unit_test(sms_fit),
        cmocka_unit_test(sms_of_all),
        cmocka_unit_test(waits_hold_one),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
