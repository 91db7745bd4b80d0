/* test_check_rules.c -- sealed schedules in which one thing is changed as no sealer would write it:
 * each rule of the checker that needs no run is broken once, and named; and what its rules of order
 * and SMs make of schedules by hand. */
#include "proof.h"

/* ---- Schedules ------------------------------------------------------------------------------- */

/* Both ranks copy their rows to the peer and multiply their own, then the peer's.  A raise of two
 * tiles goes through a counter. */
static void gather(void)
{
    begin("ag_gemm:f32:4x2x3:r2:bias");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int gathered = sg_sched_buf(s, SG_SYM, "gathered", 4, 3, 0);
        sg_sched_buf(s, SG_LOCAL, "scratch", 4, 2, 0);
        sg_sched_copy(s, 1, SG_BY_SMS, sg_area_of(r, SG_A, 0, 2, 0, 3));
        sg_sched_to(s, sg_area_of(1 - r, gathered, 2 * r, 2, 0, 3));
        sg_sched_raise(s, 1 - r, SG_PER_PATCH, 0);
        sg_sched_launch(s, 0, 1, 2, 0, false);
        for (int i = 0; i < 2; i++) {
            const int owner = i ? 1 - r : r;
            rows_patch(s, 2 * owner, 2);
            s->patch[i].a = sg_area_of(r, i ? gathered : SG_A, i ? 2 * owner : 0, 2, 0, 3);
            if (i) sg_sched_wait(s, sg_wait_one(owner, 0));
            sg_sched_to(s, rows_of(r, SG_C, 2 * owner, 2));
            if (i) sg_sched_raise(s, r, SG_PER_PATCH, 1);
        }
    }
    seal();
}

enum { GATHERED = SG_USER_BUFS, SCRATCH };

/* All ranks' rows of A by a collective, from and to BUF in ARENA. */
static void collect(sg_arena_kind arena, unsigned traits)
{
    begin("ag_gemm:f32:4x2x3:r2");
    for (int r = 0; r < 2; r++) {
        sg_sched *const s = &sched[r];
        const int gathered = sg_sched_buf(s, arena, "gathered", 4, 3, traits);
        sg_sched_buf(s, arena, "other", 4, 3, traits);
        sg_sched_coll(s, 0, SG_ALL_GATHER, 0, sg_area_of(r, SG_A, 0, 2, 0, 3));
        for (int q = 0; q < 2; q++) sg_sched_to(s, sg_area_of(r, gathered, 2 * q, 2, 0, 3));
        launch(s);
        rows_patch(s, 0, 4);
        s->patch[0].a = sg_area_of(r, gathered, 0, 4, 0, 3);
        sg_sched_to(s, rows_of(r, SG_C, 0, 4));
    }
    seal();
}

/* ---- Buffers --------------------------------------------------------------------------------- */

static void buffers_have_a_place(void **state)
{
    (void)state;
    gather();
    sched[0].buf[GATHERED].offset = -SG_BUF_ALIGN;
    REFUSED_SEALED("rank 0: gathered lies outside its arena");
    gather();
    sched[1].buf[SCRATCH].arena = SG_USER;
    REFUSED_SEALED("rank 1: scratch has no arena");
    gather();
    sched[1].buf[SG_C].arena = SG_LOCAL;
    REFUSED_SEALED("rank 1: C is not as large as the problem says");
}

/* A peer stores where its own buffer lies, elements as large and rows as long as there. */
static void shared_buffers_are_alike(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        begin("gemm:f32:0x2x2:r2");
        for (int r = 0; r < 2; r++) sg_sched_buf(&sched[r], SG_SYM, "spare", 4, 3, 0);
        accepted();
        sg_buf *const buf = &sched[1].buf[GATHERED];
        for (int r = 0; r < 2; r++) sched[r].arena_bytes[SG_SYM] += SG_BUF_ALIGN;
        if (i == 0) buf->cols = 4;
        if (i == 1) buf->wide = 1;
        if (i == 2) buf->offset = SG_BUF_ALIGN;
        if (i == 3) buf->fixed = sched[0].baked = sched[1].baked = 1;
        REFUSED_SEALED(i == 0 ? "rank 1: shared buffer spare is 4 x 4, on rank 0 it is 4 x 3"
                              : "rank 1: shared buffer spare is not as on rank 0");
    }
}

/* ---- Areas ----------------------------------------------------------------------------------- */

static void areas_lie_in_buffers(void **state)
{
    (void)state;
    gather();
    sched[1].to[0].buf = SCRATCH + 1;
    REFUSED_SEALED("rank 1, step 0 (copy)", "touches no buffer of any rank");
    for (int i = 0; i < 2; i++) {
        gather();
        *(i ? &sched[1].to[0].col0 : &sched[1].to[0].row0) = -1;
        REFUSED_SEALED("rank 1, step 0 (copy)", "outside its buffer of 4 x 3");
    }
}

/* An addend that is stored again is no excuse. */
static void inputs_stay_as_they_are(void **state)
{
    (void)state;
    static const int inputs[] = {SG_A, SG_B, SG_BIAS, SG_GAIN};
    for (int i = 0; i < 4; i++) {
        begin("gemm_rs:f32:1x1x1:r1:bias:norm");
        sg_sched_reduce(&sched[0], 0, false);
        sg_sched_add(&sched[0], sg_area_of(0, SG_C, 0, 1, 0, 1), NULL);
        sg_sched_to(&sched[0], sg_area_of(0, SG_C, 0, 1, 0, 1));
        seal();
        sched[0].add[0].area.buf = sched[0].to[0].buf = (uint8_t)inputs[i];
        REFUSED_SEALED("rank 0, step 0 (reduce)", "stores into an input");
    }
}

/* Its values would be right, and nobody would have to wait for them. */
static void tensors_of_peers_are_not_read(void **state)
{
    (void)state;
    gather();
    sched[0].patch[1].a = sg_area_of(1, SG_A, 0, 2, 0, 3);
    REFUSED_SEALED("rank 0, step 1 (gemm), visit 2", "reads a peer's memory", "A of rank 1");
}

/* Who stores into peers' tensors says so of the buffer, too: who binds it asks there. */
static void reach_is_told(void **state)
{
    (void)state;
    begin("gemm_rs:f32:4x2x3:r2");
    sg_sched_copy(&sched[0], 0, SG_BY_SMS, rows_of(0, SG_C, 0, 2));
    sg_sched_to(&sched[0], rows_of(1, SG_C, 0, 2));
    seal();
    sched[0].buf[SG_C].reach = 0;
    REFUSED_SEALED("rank 0, step 0 (copy)", "stores without that rank's leave", "C of rank 1");
}

/* The address of a collective's matrices is told once. */
static void collectives_use_a_fixed_half(void **state)
{
    (void)state;
    collect(SG_SYM, SG_FIXED);
    for (int r = 0; r < 2; r++)
        sched[r].baked = sched[r].buf[GATHERED].fixed = sched[r].buf[SCRATCH].fixed = 0;
    REFUSED_SEALED("rank 0, step 0 (coll)", "an engine uses a fixed half");
}

static void copies_do_not_convert(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        begin("gemm:bf16:4x2x2:r1");
        const int sum = sg_sched_buf(&sched[0], SG_LOCAL, "sum", 4, 2, wide ? SG_WIDE : 0);
        launch(&sched[0]);
        rows_patch(&sched[0], 0, 4);
        sg_sched_to(&sched[0], rows_of(0, sum, 0, 4));
        sg_sched_copy(&sched[0], 0, SG_BY_SMS, rows_of(0, sum, 0, 4));
        sg_sched_to(&sched[0], rows_of(0, SG_C, 0, 4));
        if (!wide) accepted();
        if (wide) REFUSED("step 1 (copy)", "a copy between f32 and the problem's type");
    }
}

/* The same of B as of A. */
static void b_is_of_the_problem_s_type(void **state)
{
    (void)state;
    begin("gemm:bf16:2x4x4:r1");
    sg_sched *const s = &sched[0];
    const int wide = sg_sched_buf(s, SG_LOCAL, "wide", 4, 4, SG_WIDE);
    sg_sched_reduce(s, 0, false);
    sg_sched_add(s, sg_area_of(0, SG_B, 0, 4, 0, 4), NULL);
    sg_sched_to(s, sg_area_of(0, wide, 0, 4, 0, 4));
    launch(s);
    rows_patch(s, 0, 2);
    s->patch[0].b.buf = (uint8_t)wide;
    sg_sched_to(s, rows_of(0, SG_C, 0, 2));
    REFUSED("step 1 (gemm), visit 0", "multiplies f32", "wide of rank 0");
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void steps_are_what_they_may_be(void **state)
{
    (void)state;
    gather();
    sched[1].step[0].kind = SG_KINDS;
    REFUSED_SEALED("rank 1, step 0 has no kind or lane");
    gather();
    sched[1].step[0].lane = SG_MAX_LANES;
    REFUSED_SEALED("rank 1, step 0 has no kind or lane");
    gather();
    sched[1].step[1].after[1] = 1;
    REFUSED_SEALED("rank 1, step 1 is after a later step");
    gather();
    sched[1].step[1].u.launch.visits--;
    REFUSED_SEALED("rank 1, step 1: 4 visits, sealed with 3");
    gather();
    sched[1].step[1].u.launch.visits++;
    REFUSED_SEALED("rank 1, step 1: 4 visits, sealed with 5");
    gather();
    sched[1].patch[0].tile0 = -1;
    sched[1].patch[0].tiles = 2;
    REFUSED_SEALED("rank 1, step 1: tiles -1 to 0 of a patch that has 2");
}

static void schedules_are_of_one_problem_and_all_ranks(void **state)
{
    (void)state;
    gather();
    sched[1].rank = 0;
    REFUSED_SEALED("schedule 1 is of rank 0");
    gather();
    const sg_problem other = problem;
    sched[1].problem = &other;
    REFUSED_SEALED("schedule 1 is of rank 1");
}

/* ---- Flags ----------------------------------------------------------------------------------- */

static void flags_are_of_ranks_that_exist(void **state)
{
    (void)state;
    gather();
    sched[0].raise[0].at = 2;
    REFUSED_SEALED("rank 0, step 0 (copy)", "rank 2 is none of 2");
    gather();
    sched[1].flags = 1;
    REFUSED_SEALED("rank 1, step 1 (gemm), visit 2", "flag 1 of rank 1; there are 1");
}

/* The last raiser of a flag raises it: whoever counts in another word, or beside other flags,
 * leaves somebody waiting for ever. */
static void raisers_count_in_the_word_of_their_flag(void **state)
{
    (void)state;
    begin("gemm:f32:0x2x2:r1");
    sg_sched *const s = &sched[0];
    for (int i = 0; i < 4; i++) {
        sg_sched_flag(s, 0);
        sg_sched_raise(s, 0, SG_PER_PATCH, i / 2);
    }
    accepted();
    s->raise[0].counter = 2;
    REFUSED_SEALED("step 0 (flag)", "raises through counter 2 of 2");
    s->raise[0].counter = 0, s->raise[1].counter = 1;
    s->counter[0] = 1, s->counter[1] = 3;
    REFUSED_SEALED("step 1 (flag)", "raises flag 0 at rank 0 a second time");
    s->raise[1].counter = 0;
    s->counter[0] = s->counter[1] = 2;
    s->raise[1].flag0 = 2, s->flags = 3;
    REFUSED_SEALED("raises a flag with 1 raisers, counter 0 expects 2");
    begin("gemm:f32:0x2x2:r1");
    sg_sched_flag(s, 0);
    for (int i = 0; i < 2; i++) sg_sched_raise(s, 0, SG_PER_PATCH, 0);
    REFUSED("step 0 (flag)", "raises flag 0 at rank 0 twice");
    begin("gemm:f32:4x2x2:r1");
    launch(s);
    rows_patch(s, 0, 4);
    sg_sched_to(s, rows_of(0, SG_C, 0, 4));
    sg_sched_raise(s, 0, SG_PER_TILE, 0);
    accepted();
    s->raise[0].counter = 0; /* of a schedule that counts nothing */
    REFUSED_SEALED("step 0 (gemm), visit 0", "raises through counter 0 of 0");
}

/* ---- The run protocol ------------------------------------------------------------------------ */

static void all_ranks_count_the_run_or_none(void **state)
{
    (void)state;
    for (int counting = 0; counting < 2; counting++) {
        begin("gemm:f32:0x2x2:r2");
        sg_sched_flag(&sched[counting], 0);
        sg_sched_raise(&sched[counting], counting, SG_PER_PATCH, 0);
        REFUSED(counting == 0 ? "rank 1 has no shared buffer and no flag, rank 0 has"
                              : "rank 0 has no shared buffer and no flag, rank 1 has");
    }
}

static void forget_protocol(void)
{
    seal();
    for (int r = 0; r < 2; r++) sched[r].peers = sched[r].hello = sched[r].done = 0;
}

/* Flags of peers and shared buffers each are enough, and what one rank's schedule says is. */
static void who_shares_says_hello(void **state)
{
    (void)state;
    begin("gemm:f32:0x2x2:r2");
    sg_sched_flag(&sched[0], 0);
    sg_sched_raise(&sched[0], 1, SG_PER_PATCH, 0);
    sg_sched_flag(&sched[1], 0);
    sg_sched_wait(&sched[1], sg_wait_one(0, 0));
    forget_protocol();
    REFUSED_SEALED("rank 0 says no hello");

    begin("gemm:f32:4x2x2:r2");
    for (int r = 0; r < 2; r++) {
        const int own = sg_sched_buf(&sched[r], SG_SYM, "own", 4, 2, 0);
        launch(&sched[r]);
        rows_patch(&sched[r], 0, 4);
        sg_sched_to(&sched[r], rows_of(r, own, 0, 4));
        sg_sched_copy(&sched[r], 0, SG_BY_SMS, rows_of(r, own, 0, 4));
        sg_sched_to(&sched[r], rows_of(r, SG_C, 0, 4));
    }
    forget_protocol();
    REFUSED_SEALED("rank 0 says no hello");

    begin("gemm:f32:0x2x2:r2");
    for (int r = 0; r < 2; r++) sg_sched_buf(&sched[r], SG_SYM, "none", 0, 0, 0);
    accepted();
    sched[1].hello = 0;
    REFUSED_SEALED("rank 1 says no hello");
    gather();
    sched[1].peers = 0;
    REFUSED_SEALED("rank 1 has no part in the run");
}

/* ---- Collectives ----------------------------------------------------------------------------- */

static void collectives_have_a_number_each(void **state)
{
    (void)state;
    collect(SG_LIBRARY, 0);
    sched[1].step[0].u.coll.seq = -1;
    REFUSED_SEALED("rank 1, step 0 (coll)", "is collective -1, as is another step");
    begin("gemm:f32:4x2x2:r1");
    for (int i = 0; i < 2; i++) {
        launch(&sched[0]);
        rows_patch(&sched[0], 2 * i, 2);
        sg_sched_to(&sched[0], rows_of(0, SG_C, 2 * i, 2));
        sg_sched_coll(&sched[0], 0, SG_ALL_REDUCE, 0, rows_of(0, SG_C, 2 * i, 2));
    }
    accepted();
    sched[0].step[3].u.coll.seq = 0;
    REFUSED_SEALED("rank 0, step 3 (coll)", "is collective 0, as is another step");
}

static void collectives_have_as_much_at_both_ends(void **state)
{
    (void)state;
    collect(SG_LIBRARY, 0);
    sched[1].to[0].cols = 2;
    REFUSED_SEALED("rank 1, step 0 (coll)", "2 columns do not fit 3 of rank 0");
    collect(SG_LIBRARY, 0);
    sched[1].step[0].tos = 1;
    REFUSED_SEALED("rank 1, step 0 (coll)", "has no area for rank 1");
}

/* In another window of the same shape, too, and for sums as for rows. */
static void windows_are_the_same_everywhere(void **state)
{
    (void)state;
    collect(SG_WINDOWS, 0);
    for (int i = 0; i < 2; i++) sched[1].to[i].buf = GATHERED + 1;
    sched[1].patch[0].a.buf = GATHERED + 1;
    REFUSED_SEALED("rank 1, step 0 (coll)", "a collective in windows is not as on rank 0");
    for (int other = 0; other < 2; other++) {
        begin("gemm_ar:f32:4x2x3:r2");
        for (int r = 0; r < 2; r++) {
            sg_sched *const s = &sched[r];
            const int sum = sg_sched_buf(s, SG_WINDOWS, "sum", 8, 2, 0);
            const int64_t row = r == 1 && other ? 4 : 0;
            launch(s);
            rows_patch(s, 0, 4);
            sg_sched_to(s, rows_of(r, sum, row, 4));
            sg_sched_coll(s, 0, SG_ALL_REDUCE, 0, rows_of(r, sum, row, 4));
            sg_sched_copy(s, 0, SG_BY_SMS, rows_of(r, sum, row, 4));
            sg_sched_to(s, rows_of(r, SG_C, 0, 4));
        }
        if (!other) accepted();
        if (other) REFUSED("rank 1, step 1 (coll)", "a collective in windows is not as on rank 0");
    }
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* A part of k in each of three lanes.  The second one's flag says by its own wait that the first is
 * there, but only to what stands behind the wait for it. */
static void a_wait_orders_what_follows_it(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        begin("gemm:f32:2x2x3:r1");
        sg_sched *const s = &sched[0];
        int part[2];
        for (int i = 0; i < 2; i++) part[i] = sg_sched_buf(s, SG_LOCAL, "part", 2, 2, SG_WIDE);
        for (int i = 0; i < 3; i++) {
            sg_sched_launch(s, i, 2, 2, 1, false);
            rows_patch(s, 0, 2);
            sg_patch *const p = &s->patch[i];
            p->k0 = p->a.col0 = p->b.col0 = i;
            p->k1 = i + 1;
            p->a.cols = p->b.cols = 1;
            p->final = i == 2;
            const sg_wait wait = sg_wait_one(0, i - 1);
            if (i == 1) sg_sched_wait(s, wait);
            for (int j = 0; j < 2 && i == 2; j++) {
                const bool awaited = j == first;
                sg_sched_add(s, rows_of(0, part[awaited], 0, 2), awaited ? &wait : NULL);
            }
            sg_sched_to(s, rows_of(0, i < 2 ? part[i] : SG_C, 0, 2));
            if (i < 2) sg_sched_raise(s, 0, SG_PER_PATCH, i);
        }
        if (first == 0) accepted();
        if (first == 1)
            REFUSED("step 2 (gemm)", "reads without waiting for the writer, rank 0, step 0");
    }
}

/* ---- Sums in C ------------------------------------------------------------------------------- */

/* Rank 0 stores its rows at both ranks, at home in another order or not, and rank 1 adds its own to
 * what lies there, of which it reads what it has. */
static void both_hold_what_is_added_onto(void **state)
{
    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        begin("gemm_ar:f32:2x2x3:r2");
        for (int r = 0; r < 2; r++) {
            sg_sched *const s = &sched[r];
            sg_sched_sums_in_c(s);
            sg_sched_launch(s, 0, 1, 2, 0, false);
            for (int row = 0; row < 2; row++) {
                rows_patch(s, row, 1);
                s->patch[row].final = s->patch[row].own_rounded = r == 1;
                for (int flag = 0; flag < 2 && r == 1; flag++)
                    sg_sched_wait(s, sg_wait_one(0, flag));
                if (r == 1) sg_sched_add(s, rows_of(1, SG_C, row, 1), NULL);
                sg_sched_to(s, rows_of(0, SG_C, r == 0 && swapped ? 1 - row : row, 1));
                sg_sched_to(s, rows_of(1, SG_C, row, 1));
                sg_sched_raise(s, 1 - r, SG_PER_PATCH, row);
            }
        }
        sg_sched_flag(&sched[0], 0);
        for (int flag = 0; flag < 2; flag++) sg_sched_wait(&sched[0], sg_wait_one(1, flag));
        if (!swapped) accepted();
        if (swapped)
            REFUSED("rank 1, step 0 (gemm)", "adds onto what is not its addend", "C of rank 0");
    }
}

/* ---- SMs ------------------------------------------------------------------------------------- */

/* Launches of three lanes, the last one behind the second or not. */
static void lanes(bool ordered)
{
    begin("gemm:f32:6x2x2:r1");
    int step = -1;
    for (int i = 0; i < 3; i++) {
        const int before = step;
        step = sg_sched_launch(&sched[0], i, 2, 2, 4, false);
        if (i == 2 && ordered) sg_sched_after(&sched[0], before);
        rows_patch(&sched[0], 2 * i, 2);
        sg_sched_to(&sched[0], rows_of(0, SG_C, 2 * i, 2));
    }
}

static void all_lanes_fit_together(void **state)
{
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        lanes(ordered);
        sms = ordered ? 8 : 12;
        accepted();
        sms--;
        if (ordered) REFUSED_SEALED("step 0 (gemm)", "8 SMs are needed while it runs");
        if (!ordered) REFUSED_SEALED("step 0 (gemm)", "12 SMs are needed while it runs");
    }
}

/* A sum that waits for what it adds, too. */
static void sums_that_wait_hold_an_sm(void **state)
{
    (void)state;
    for (int blocks = 7; blocks <= 8; blocks++) {
        begin("gemm:f32:4x2x2:r1");
        sg_sched *const s = &sched[0];
        const int other = sg_sched_buf(s, SG_LOCAL, "other", 4, 2, 0);
        const sg_wait wait = sg_wait_one(0, 0);
        sg_sched_launch(s, 0, 2, 2, blocks, false);
        rows_patch(s, 0, 4);
        sg_sched_to(s, rows_of(0, SG_C, 0, 4));
        sg_sched_raise(s, 0, SG_PER_PATCH, 0);
        sg_sched_reduce(s, 1, false);
        sg_sched_add(s, rows_of(0, SG_C, 0, 4), &wait);
        sg_sched_to(s, rows_of(0, other, 0, 4));
        sms = 8;
        if (blocks == 7) accepted();
        if (blocks == 8) REFUSED("step 0 (gemm)", "9 SMs are needed while it runs");
    }
}

static void every_rank_has_its_sms(void **state)
{
    (void)state;
    begin("gemm:f32:4x2x2:r2");
    for (int r = 0; r < 2; r++) {
        sg_sched_launch(&sched[r], 0, 2, 2, 4 + r, false);
        rows_patch(&sched[r], 0, 4);
        sg_sched_to(&sched[r], rows_of(r, SG_C, 0, 4));
    }
    sms = 5;
    accepted();
    sms = 4;
    REFUSED_SEALED("rank 1, step 0 (gemm)", "5 SMs are needed while it runs; the machine has 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_have_a_place),
        cmocka_unit_test(shared_buffers_are_alike),
        cmocka_unit_test(areas_lie_in_buffers),
        cmocka_unit_test(inputs_stay_as_they_are),
        cmocka_unit_test(tensors_of_peers_are_not_read),
        cmocka_unit_test(reach_is_told),
        cmocka_unit_test(collectives_use_a_fixed_half),
        cmocka_unit_test(copies_do_not_convert),
        cmocka_unit_test(b_is_of_the_problem_s_type),
        cmocka_unit_test(steps_are_what_they_may_be),
        cmocka_unit_test(schedules_are_of_one_problem_and_all_ranks),
        cmocka_unit_test(flags_are_of_ranks_that_exist),
        cmocka_unit_test(raisers_count_in_the_word_of_their_flag),
        cmocka_unit_test(all_ranks_count_the_run_or_none),
        cmocka_unit_test(who_shares_says_hello),
        cmocka_unit_test(collectives_have_a_number_each),
        cmocka_unit_test(collectives_have_as_much_at_both_ends),
        cmocka_unit_test(windows_are_the_same_everywhere),
        cmocka_unit_test(a_wait_orders_what_follows_it),
        cmocka_unit_test(both_hold_what_is_added_onto),
        cmocka_unit_test(all_lanes_fit_together),
        cmocka_unit_test(sums_that_wait_hold_an_sm),
        cmocka_unit_test(every_rank_has_its_sms),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
