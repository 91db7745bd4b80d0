/* Tests of who has come to which collective (src/backend/nccl/meeting.c), without a GPU
 * (tests/fake_cuda): what no strategy asks for, but the library of collectives could not end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "backend/nccl/library.h"
#include "fake_world.h"

enum { COUNT = 32 };

static sg_collect *collect_of(const world *w)
{
    const sg_cuda *const cuda = w->comm[0]->group->self;
    return cuda->collect;
}

/* ---- What is told apart ---------------------------------------------------------------------- */

static void every_difference_is_refused(void **state)
{
    (void)state;
    enum { FIELDS = 8 };
    world w;
    open_group(&w, RANKS, 5);
    sg_collect *const c = collect_of(&w);
    window one = {.bytes = 1}, other = {.bytes = 1};
    const meeting its = {.kind = SG_ALL_GATHER,
                         .type = ncclFloat32,
                         .count = COUNT,
                         .even = true,
                         .window = &one,
                         .own = &one,
                         .offset = 64,
                         .own_offset = 128};
    for (int i = 0; i <= FIELDS; i++) {
        meeting x = its;
        if (i == 1) x.kind = SG_REDUCE_SCATTER;
        if (i == 2) x.type = ncclFloat16;
        if (i == 3) x.count++;
        if (i == 4) x.window = &other;
        if (i == 5) x.own = NULL;
        if (i == 6) x.offset += 64;
        if (i == 7) x.own_offset += 64;
        if (i == 8) x.even = false;
        const sg_coll_part part[2 * RANKS] = {{NULL, 0}};
        assert_int_equal(sg_meeting_come(c, 2, &its, part), SHINGLE_OK);
        const shingle_status status = sg_meeting_come(c, 0, &x, part);
        if (status != (i == 0 ? SHINGLE_OK : SHINGLE_EMISMATCH)) fail_msg("field %d", i);
        sg_meeting_forget(c);
    }
    close_group(&w);
}

/* Of who is further ahead nothing is noted, so nobody could come for the others. */
static void nobody_is_too_far_ahead(void **state)
{
    (void)state;
    world w;
    open_group(&w, 2, 5);
    sg_collect *const c = collect_of(&w);
    window one = {.bytes = 1};
    const meeting its = {.kind = SG_ALL_REDUCE, .count = COUNT, .even = true, .window = &one};
    for (int round = 0; round < 2; round++) {
        while (c->came[1] < c->came[0] + MEETINGS)
            assert_int_equal(sg_meeting_come(c, 1, &its, NULL), SHINGLE_OK);
        assert_int_equal(sg_meeting_come(c, 1, &its, NULL), SHINGLE_ETIMEOUT);
        expect_text("rank 1 is 4096 collectives ahead");
        assert_int_equal(sg_meeting_come(c, 0, &its, NULL), SHINGLE_OK);
    }
    sg_meeting_forget(c);
    close_group(&w);
}

/* ---- In the name of others ------------------------------------------------------------------- */

typedef struct seats {
    world w;
    sg_collect *c;
    void *window[RANKS], *plain[RANKS], *stream[RANKS];
} seats;

static void sit_down(seats *x)
{
    const size_t bytes = RANKS * COUNT * sizeof(float);
    open_group(&x->w, RANKS, 5);
    x->c = collect_of(&x->w);
    for (int r = 0; r < RANKS; r++) {
        cudaStream_t stream = NULL;
        assert_int_equal(sg_collect_get(x->c, r, bytes, &x->window[r]), SHINGLE_OK);
        assert_non_null(x->window[r]);
        assert_int_equal(cudaMalloc(&x->plain[r], 2 * bytes), cudaSuccess);
        assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        x->stream[r] = stream;
    }
}

static void stand_up(seats *x)
{
    for (int r = 0; r < RANKS; r++) {
        assert_true(sg_collect_put(x->c, r, x->window[r], false));
        cudaFree(x->plain[r]);
        cudaStreamDestroy(x->stream[r]);
    }
    close_group(&x->w);
}

static shingle_status gather_rank(const seats *x, int r, float *own)
{
    sg_coll_part part[RANKS];
    float *const all = x->window[r];
    for (int q = 0; q < RANKS; q++) part[q] = (sg_coll_part){all + (size_t)q * COUNT, COUNT};
    return sg_collect_run(x->c, r, SG_ALL_GATHER, SG_F32, (sg_coll_part){own, COUNT}, part, true,
                          false, x->stream[r]);
}

static void expect_ended(const seats *x)
{
    fake_pump();
    for (int r = 0; r < RANKS; r++) assert_false(fake_pending(x->stream[r]));
}

/* What all get is in a window, and what each sends is not: nor is it that of who is missing. */
static void shares_outside_of_windows_are_represented(void **state)
{
    (void)state;
    seats x;
    sit_down(&x);
    for (int r = 1; r < RANKS; r++) assert_int_equal(gather_rank(&x, r, x.plain[r]), SHINGLE_OK);
    assert_true(sg_collect_attend(x.c, x.stream));
    assert_non_null(x.c->spare[0]);
    expect_ended(&x);
    stand_up(&x);
}

/* Each sends COUNT elements to all others, and nothing to itself. */
static shingle_status exchange_rank(const seats *x, int r)
{
    sg_coll_part part[2 * RANKS];
    float *const words = x->plain[r];
    for (int i = 0; i < 2 * RANKS; i++)
        part[i] = (sg_coll_part){words + (size_t)i * COUNT, i % RANKS == r ? 0 : COUNT};
    return sg_collect_run(x->c, r, SG_ALL_TO_ALL, SG_F32, (sg_coll_part){NULL, 0}, part, false,
                          false, x->stream[r]);
}

/* Rank 0 comes to an exchange that it cannot enqueue: it is as missing as rank 2, which does not
 * come, and those two exchange nothing. */
static void who_could_not_enqueue_is_missing(void **state)
{
    (void)state;
    seats x;
    sit_down(&x);
    for (int r = 0; r < RANKS; r++)
        if (r != 2) assert_int_equal(gather_rank(&x, r, x.window[r]), SHINGLE_OK);
    assert_int_equal(exchange_rank(&x, 1), SHINGLE_OK);
    fake_fail_at(0, cudaErrorUnknown);
    assert_int_equal(exchange_rank(&x, 0), SHINGLE_EBACKEND);
    fake_fail_at(-1, cudaErrorUnknown);
    assert_int_equal(exchange_rank(&x, 3), SHINGLE_OK);
    assert_true(sg_collect_attend(x.c, x.stream));
    expect_ended(&x);
    stand_up(&x);
}

/* ---- After an abort -------------------------------------------------------------------------- */

/* New communicators know nothing of the old ones' windows, although not all can be told of them. */
static void windows_may_be_lost_with_their_group(void **state)
{
    (void)state;
    int lost = 0;
    for (int i = 0, reached = 1; reached; i++) {
        seats x;
        sit_down(&x);
        assert_true(sg_collect_abort(x.c, 5e6));
        fake_fail_at(i, cudaErrorUnknown);
        const shingle_status status = sg_collect_renew(x.c);
        reached = fake_calls() > i;
        fake_fail_at(-1, cudaErrorUnknown);
        if (status != SHINGLE_OK) assert_int_equal(sg_collect_renew(x.c), SHINGLE_OK);
        lost += x.c->plain;
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(gather_rank(&x, r, x.window[r]), SHINGLE_OK);
        expect_ended(&x);
        stand_up(&x);
    }
    assert_int_equal(lost, RANKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_difference_is_refused),
        cmocka_unit_test(nobody_is_too_far_ahead),
        cmocka_unit_test(shares_outside_of_windows_are_represented),
        cmocka_unit_test(who_could_not_enqueue_is_missing),
        cmocka_unit_test(windows_may_be_lost_with_their_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
