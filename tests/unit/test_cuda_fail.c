/* What the CUDA backend takes for a failure and what not, without a GPU (tests/fake_cuda): a pause
 * and the caller's own work are none; a rank that does not come is one all the same, and a run that
 * cannot be enqueued. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "fake_world.h"

/* Whether GPUs are shared or not. */
static void more_ranks_than_a_group_has_are_refused(void **state)
{
    (void)state;
    const shingle_config config = {.backend = "cuda"};
    shingle_comm *comm[64];
    for (int ranks = SG_CUDA_RANKS + 1; ranks <= 64; ranks += 11) {
        char words[64];
        snprintf(words, sizeof words, "%d ranks; 8 are possible on GPUs", ranks);
        assert_int_equal(shingle_open(ranks, &config, comm), SHINGLE_EUNSUPPORTED);
        expect_text(words);
        expect_text("--backend cpu");
    }
    assert_int_equal(fake_live(), 0);
}

/* ---- Waiting that is no failure -------------------------------------------------------------- */

static const char *const asked[][2] = {
    {"gemm_rs:bf16:48x16x32:r4", "serial{windows=0}"},
    {"gemm_rs:bf16:48x16x32:r4", "serial{windows=1}"},
    {"gemm_rs:bf16:48x16x32:r4", "fused_out"},
    {"ag_gemm:bf16:48x16x32:r4", "fused_in"},
    {"gemm_ar:bf16:48x16x32:r4", "direct"},
    {"gemm_rs:bf16:48x16x32:r4", "sliced"},
    {"gemm_rs:bf16:300x136x16:r4", "signal{unit=2,cuts=1,tile_m=64,tile_n=128}"},
    {"gemm:bf16:16x16x16:r4", "serial"},
};
enum { ASKED = sizeof asked / sizeof asked[0] };

static const double limit_seconds = 0.2;
static const double long_seconds =
    0.65; /* twice the limit and what the host waits longer, and more */

typedef struct bench {
    world w;
    cudaStream_t stream[RANKS];
} bench;

/* Groups side by side, whose time limits pass together. */
static bench all[ASKED];

static void open_all(void)
{
    for (int i = 0; i < ASKED; i++) {
        open_group(&all[i].w, RANKS, limit_seconds);
        assert_true(make_plans(&all[i].w, asked[i][0], asked[i][1]));
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(cudaSetDevice(r), cudaSuccess);
            cudaStreamCreateWithFlags(&all[i].stream[r], cudaStreamNonBlocking);
        }
        assert_int_equal(cudaSetDevice(0), cudaSuccess);
        run_right(&all[i].w, 1);
    }
}

static void close_all(void)
{
    for (int i = ASKED - 1; i >= 0; i--) {
        for (int r = 0; r < RANKS; r++) cudaStreamDestroy(all[i].stream[r]);
        drop_plans(&all[i].w);
        close_group(&all[i].w);
    }
}

static void nap(double seconds)
{
    usleep((useconds_t)(seconds * 1e6));
}

/* Who waits by streams comes back after a pause of any length.  What ended long ago does not
 * hang. */
static void a_pause_is_no_failure(void **state)
{
    (void)state;
    open_all();
    for (uint64_t turn = 0; turn < 3; turn++) {
        for (int i = 0; i < ASKED; i++) {
            bench *const x = &all[i];
            fill(&x->w, turn);
            for (int r = 0; r < RANKS; r++)
                if (run_rank(&x->w, r, x->stream[r]) != SHINGLE_OK)
                    fail_msg("%s, turn %d: %s", asked[i][1], (int)turn, shingle_error());
            for (int r = 0; r < RANKS; r++) cudaStreamSynchronize(x->stream[r]);
            expect_right(&x->w, "after a pause");
        }
        nap(long_seconds);
    }
    for (int i = 0; i < ASKED; i++) sync_all(&all[i].w);
    close_all();
}

/* Work of the caller's that is in front of a run. */
static bool pass(void *data, bool first)
{
    double until = 0;
    (void)first;
    memcpy(&until, data, sizeof until);
    return sg_now_us() >= until;
}

static void enqueue_work(cudaStream_t stream, double seconds)
{
    const double until = sg_now_us() + seconds * 1e6;
    assert_int_equal(fake_enqueue(stream, pass, &until, sizeof until), cudaSuccess);
}

/* Two runs behind other work of so many SECONDS on rank 0, and on each rank behind it some MORE. */
static void begin_behind(bench *x, double seconds, double more)
{
    fill(&x->w, 2);
    for (int r = 0; r < RANKS; r++) enqueue_work(x->stream[r], seconds + r * more);
    for (int n = 0; n < 2; n++)
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(run_rank(&x->w, r, x->stream[r]), SHINGLE_OK);
}

static void expect_ended(const bench *x, const char *what)
{
    for (int r = 0; r < RANKS; r++)
        if (shingle_sync(x->w.comm[r], 20) != SHINGLE_OK) fail_msg("%s: %s", what, shingle_error());
    expect_right(&x->w, what);
}

/* On all ranks: nobody waits for anybody yet. */
static void the_callers_work_is_no_failure(void **state)
{
    (void)state;
    open_all();
    for (int i = 0; i < ASKED; i++) begin_behind(&all[i], 2 * long_seconds, 0);
    for (int i = 0; i < ASKED; i++) expect_ended(&all[i], asked[i][1]);
    /* Nor has anybody waited long who begins shortly before somebody looks, be it after a pause. */
    for (int i = 0; i < ASKED; i++) {
        begin_behind(&all[i], 0.18, 0.015);
        expect_ended(&all[i], asked[i][1]);
        begin_behind(&all[i], 0.4, 0.015);
        nap(0.4);
        expect_ended(&all[i], asked[i][1]);
    }
    close_all();
}

/* SECONDS: of other work on rank 1, whose run comes behind it; 0: it has no run, and the others
 * have other work. */
static void begin_without_one(bench *x, double seconds)
{
    fill(&x->w, 2);
    for (int r = 0; r < RANKS; r++) {
        if (r == 1 && seconds == 0) continue;
        if ((r == 1) == (seconds > 0)) enqueue_work(x->stream[r], r == 1 ? seconds : long_seconds);
        assert_int_equal(run_rank(&x->w, r, x->stream[r]), SHINGLE_OK);
    }
}

static void expect_one_named(bench *x, const char *what)
{
    char first[600] = "";
    for (int n = 0; n < RANKS; n++) { /* rank 1 is told last: it may have nothing to wait for */
        if (shingle_sync(x->w.comm[(n + 2) % RANKS], 20) != SHINGLE_ETIMEOUT)
            fail_msg("%s: %s", what, shingle_error());
        if (n == 0) snprintf(first, sizeof first, "%s", shingle_error());
        assert_string_equal(shingle_error(), first);
    }
    /* Or "stopped": kernels that begin behind the failure end at once. */
    if (strncmp(first, "rank 1 ", 7) != 0) fail_msg("%s: \"%s\"", what, first);
    for (int r = 0; r < RANKS; r++) cudaStreamSynchronize(x->stream[r]);
    recover(&x->w);
    run_right(&x->w, 3);
}

/* A rank that never comes is noticed although its peers had other work to do first; and one that
 * comes, but whose stream does not let it begin, when the others have waited for it for the
 * limit. */
static void a_rank_that_does_not_begin_is_named(void **state)
{
    enum { WAITING = ASKED - 1 }; /* the last one waits for nobody */
    (void)state;
    open_all();
    for (int i = 0; i < WAITING; i++) begin_without_one(&all[i], 0);
    for (int i = 0; i < WAITING; i++) expect_one_named(&all[i], asked[i][1]);
    for (int i = 0; i < WAITING; i++) {
        begin_without_one(&all[i], 5 * limit_seconds);
        expect_one_named(&all[i], asked[i][1]);
    }
    close_all();
}

/* ---- Runs that cannot be enqueued ------------------------------------------------------------ */

/* Call number CALL of a run of rank 0 on STREAM (or NULL) has failed.  Either nothing of it was
 * enqueued, and it may run again, or everybody is told, and what was has drained. */
static bool expect_all_or_nothing(world *w, cudaStream_t stream, const char *strategy, int call)
{
    char why[600] = "";
    snprintf(why, sizeof why, "%s", shingle_error());
    const bool told = shingle_sync(w->comm[1], 5) != SHINGLE_OK;
    if (told && stream != NULL && cudaStreamQuery(stream) != cudaSuccess)
        fail_msg("%s, call %d: the rest of the run is still on its way", strategy, call);
    for (int r = 0; r < RANKS; r++) {
        const bool runs = run_rank(w, r, r == 0 ? stream : NULL) == SHINGLE_OK;
        if (runs == told) fail_msg("%s, call %d: rank %d runs: %d", strategy, call, r, runs);
        if (told && strcmp(why, shingle_error()) != 0)
            fail_msg("%s, call %d: \"%s\" and \"%s\"", strategy, call, why, shingle_error());
    }
    for (int r = 0; r < RANKS; r++)
        if ((shingle_sync(w->comm[r], 5) == SHINGLE_OK) == told)
            fail_msg("%s, call %d: %s", strategy, call, shingle_error());
    if (told)
        recover(w);
    else
        expect_right(w, strategy);
    return told;
}

/* The run of rank 0 was enqueued, whatever failed: with the others' it is right. */
static void expect_others(world *w, const char *strategy)
{
    for (int r = 1; r < w->ranks; r++) assert_int_equal(run_rank(w, r, NULL), SHINGLE_OK);
    sync_all(w);
    expect_right(w, strategy);
}

static void runs_are_enqueued_whole_or_everybody_is_told(void **state)
{
    (void)state;
    static const char *const strategies[] = {
        "fused_out", "dma{form=1,chunks=2,tile_m=64,tile_n=128}", "ring", "serial", "sliced",
        "direct"};
    for (int i = 0; i < 6; i++)
        for (int own = 0; own < 2; own++) {
            world w;
            cudaStream_t stream = NULL;
            int told = 0;
            bool reached = true;
            open_group(&w, RANKS, 5);
            if (!own) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
            assert_true(make_plans(&w, "gemm_rs:bf16:136x136x16:r4", strategies[i]));
            for (int call = 0; reached; call++) {
                run_right(&w, 1);
                fill(&w, 2);
                if (!own) enqueue_work(stream, 0.005);
                fake_fail_at(call, cudaErrorUnknown);
                const bool ran = run_rank(&w, 0, stream) == SHINGLE_OK;
                reached = fake_calls() > call;
                fake_fail_at(-1, cudaErrorUnknown);
                if (ran)
                    expect_others(&w, strategies[i]);
                else
                    told += expect_all_or_nothing(&w, stream, strategies[i], call);
            }
            assert_true(told > 0);
            if (!own) cudaStreamDestroy(stream);
            drop_plans(&w);
            close_group(&w);
        }
}

/* ---- Slow calls ------------------------------------------------------------------------------ */

/* Enqueued behind the failure or refused: what it was is told by the next sync. */
static void *run_slowly(void *data)
{
    (void)run_rank(data, 0, NULL);
    return NULL;
}

/* A rank that takes longer than the limit to enqueue a collective fails the run, but its call comes
 * back before the library's group is taken down. */
static void nothing_is_taken_down_under_a_call(void **state)
{
    (void)state;
    world w;
    pthread_t slow;
    open_group(&w, RANKS, limit_seconds);
    assert_true(make_plans(&w, "gemm_ar:bf16:136x136x16:r4", "serial"));
    run_right(&w, 1);
    fill(&w, 2);
    fake_torn = 0;
    fake_slow_us = (int)(6e6 * limit_seconds);
    assert_int_equal(pthread_create(&slow, NULL, run_slowly, &w), 0);
    while (fake_slow_us > 0) usleep(100);
    for (int r = 1; r < RANKS; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    assert_int_equal(shingle_sync(w.comm[1], 10), SHINGLE_ETIMEOUT);
    assert_int_equal(pthread_join(slow, NULL), 0);
    assert_int_equal(shingle_sync(w.comm[0], 10), SHINGLE_ETIMEOUT);
    assert_int_equal(fake_torn, 0);
    recover(&w);
    run_right(&w, 3);
    drop_plans(&w);
    close_group(&w);
}

/* Each call fails that another form of a product of the library's takes: it has its old one, with
 * its algorithm, which may serve the new one or not.  What asks whether peers reach a tensor may
 * fail without harm; whether it is asked again depends on its address. */
static void products_keep_their_form(void **state)
{
    (void)state;
    world dense;
    open_group(&dense, 1, 5);
    world apart = dense, far = dense;
    apart.pad = 8, far.pad = 16;
    assert_true(make_plans(&dense, "gemm:bf16:16x16x16:r1", "serial"));
    assert_true(make_plans(&apart, "gemm:bf16:16x16x16:r1", "serial"));
    assert_true(make_plans(&far, "gemm:bf16:16x16x16:r1", "serial"));
    shingle_plan *const own[2] = {apart.plan[0], far.plan[0]};
    apart.plan[0] = far.plan[0] = dense.plan[0];
    for (int serves = 0, failed = 0; serves < 2; serves++, failed = 0) {
        bool reached = true;
        fake_dense = serves == 0;
        for (int call = 0; reached; call++) {
            run_right(&dense, 1);
            run_right(&far, 1); /* the latest other form */
            fill(&apart, 2);
            fake_fail_at(call, cudaErrorUnknown);
            const bool ran = run_rank(&apart, 0, NULL) == SHINGLE_OK;
            reached = fake_calls() > call;
            fake_fail_at(-1, cudaErrorUnknown);
            failed += !ran;
            if (ran) expect_others(&apart, "serial");
            if (!ran) recover(&dense);
            if (call % 2 == 0) run_right(&dense, 3);
            run_right(&apart, 4);
        }
        assert_true(failed > (serves ? 0 : 6)); /* four layouts, and what their algorithm takes */
    }
    apart.plan[0] = own[0], far.plan[0] = own[1];
    drop_plans(&far);
    drop_plans(&apart);
    drop_plans(&dense);
    close_group(&dense);
}

/* Algorithms are timed while a run is on its way: what it keeps in the workspace stays. */
static void binding_leaves_runs_alone(void **state)
{
    (void)state;
    static const char *const others[] = {"gemm:bf16:16x24x16:r1", "gemm:bf16:24x16x32:r1"};
    world w;
    open_group(&w, 1, 5);
    for (int i = 0; i < 2; i++) { /* their kernels are loaded from here on */
        assert_true(make_plans(&w, others[i], "serial"));
        drop_plans(&w);
    }
    close_group(&w);
    open_group(&w, 1, 5);
    assert_true(make_plans(&w, "gemm:bf16:32x16x16:r1", "serial"));
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    fake_clashes = 0;
    for (int i = 0; i < 2; i++) {
        world other = w;
        fill(&w, (uint64_t)i);
        enqueue_work(stream, 0.1);
        assert_int_equal(run_rank(&w, 0, stream), SHINGLE_OK);
        const int before = fake_launches;
        assert_true(make_plans(&other, others[i], "serial"));
        assert_true(fake_launches > before + 1); /* some are timed */
        sync_all(&w);
        expect_right(&w, "beside a search");
        drop_plans(&other);
    }
    assert_int_equal(fake_clashes, 0);
    cudaStreamDestroy(stream);
    drop_plans(&w);
    close_group(&w);
}

/* ---- GPUs that fail -------------------------------------------------------------------------- */

/* On streams of the ranks' own, which are asked themselves, and on others, of which events are. */
static void errors_of_gpus_are_told(void **state)
{
    (void)state;
    static const char *const strategies[] = {"fused_out", "serial", "ring"};
    for (int i = 0; i < 6; i++) {
        world w;
        cudaStream_t stream = NULL;
        open_group(&w, RANKS, 5);
        if (i % 2 == 1) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r4", strategies[i / 2]));
        run_right(&w, 1);
        fill(&w, 2);
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(run_rank(&w, r, r == 0 ? stream : NULL), SHINGLE_OK);
        fake_lost = cudaErrorIllegalAddress;
        for (int n = 0; n < 2; n++)
            for (int r = 0; r < RANKS; r++) {
                if (n == 0)
                    assert_int_equal(shingle_sync(w.comm[r], 5), SHINGLE_EBACKEND);
                else
                    assert_int_equal(run_rank(&w, r, NULL), SHINGLE_EBACKEND);
                expect_text("the GPU of rank 0 failed: a planted failure");
            }
        for (int r = 0; r < RANKS; r++) assert_true(shingle_recover(w.comm[r], 0) != SHINGLE_OK);
        assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_EBACKEND);
        fake_lost = cudaSuccess; /* GPUs do not get well, but groups must be closed */
        recover(&w);
        run_right(&w, 3);
        if (stream != NULL) cudaStreamDestroy(stream);
        drop_plans(&w);
        close_group(&w);
    }
}

/* Nobody may ask while another thread captures a graph: then nothing is
 * known, neither good nor bad. */
static void what_cannot_be_asked_is_not_known(void **state)
{
    (void)state;
    world w;
    open_group(&w, RANKS, 5);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r4", "fused_out"));
    fill(&w, 2);
    for (int r = 0; r < RANKS; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    fake_lost = cudaErrorStreamCaptureUnsupported;
    assert_int_equal(shingle_sync(w.comm[0], 0.01), SHINGLE_EBUSY);
    expect_text("they go on");
    fake_lost = cudaSuccess;
    sync_all(&w);
    expect_right(&w, "captured beside it");
    drop_plans(&w);
    close_group(&w);
}

/* Runs of which the library has not seen the end, a pause, and then a capture: what it asks about
 * them, by the thread that captures or by another one, breaks no capture. */
static void captures_stay_whole(void **state)
{
    (void)state;
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal};
    world w;
    cudaStream_t stream;
    open_group(&w, RANKS, 0.2);
    assert_true(make_plans(&w, "gemm_rs:bf16:48x16x32:r4", "fused_out"));
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int i = 0; i < 2; i++) {
        cudaGraph_t graph;
        fill(&w, (uint64_t)i);
        for (int r = 0; r < RANKS; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
        nanosleep(&(struct timespec){0, 150 * 1000000}, NULL);
        cudaStreamBeginCapture(stream, modes[i]);
        assert_int_equal(run_rank(&w, 0, stream), SHINGLE_OK);
        assert_int_equal(shingle_sync(w.comm[1], 1), SHINGLE_OK);
        assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
        cudaGraphDestroy(graph);
        sync_all(&w);
        expect_right(&w, "in front of a capture");
    }
    cudaStreamDestroy(stream);
    drop_plans(&w);
    close_group(&w);
}

/* ---- Who did what ---------------------------------------------------------------------------- */

/* A run that is queued behind the one that fails says hello in its number: the verdict is about the
 * first all the same, and names who did not come. */
static void queued_runs_blame_nobody(void **state)
{
    (void)state;
    world w;
    shingle_plan *other = NULL;
    open_group(&w, 3, limit_seconds);
    assert_true(make_plans(&w, "ag_gemm:bf16:384x256x64:r3", "fused_in"));
    fill(&w, 1);
    const shingle_plan_options options = {.strategy = "fused_in{chunks=2}"};
    assert_int_equal(shingle_plan_create(w.comm[0], "ag_gemm:bf16:384x256x64:r3", &options, &other),
                     SHINGLE_OK);
    for (int r = 0; r < 2; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    shingle_plan *const first = w.plan[0];
    w.plan[0] = other;
    assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_OK);
    w.plan[0] = first;
    for (int r = 0; r < 3; r++) {
        assert_int_equal(shingle_sync(w.comm[r], 20), SHINGLE_ETIMEOUT);
        expect_text("rank 2 ");
    }
    for (int r = 0; r < 3; r++) (void)shingle_recover(w.comm[r], 0);
    shingle_plan_free(other);
    drop_plans(&w);
    close_group(&w);
}

/* A rank without tiles has neither launches nor flags of the others' kind; what runs next finds all
 * ranks at the same number. */
static void a_rank_without_tiles_counts_as_all_do(void **state)
{
    (void)state;
    world w;
    open_group(&w, 3, 20);
    assert_true(make_plans(&w, "gemm_a2a:bf16:384x256x64:r3:counts=128,128,128/128,128,128/0,0,0",
                           "signal"));
    for (int run = 0; run < 2; run++) {
        fill(&w, (uint64_t)run + 1);
        for (int r = 0; r < 3; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
        sync_all(&w);
        expect_right(&w, "signal");
    }
    const sg_cuda *const cuda = w.comm[0]->group->self;
    for (int r = 0; r < 3; r++)
        assert_int_equal(cuda->rank[r].state->epoch, cuda->rank[0].state->epoch);
    drop_plans(&w);
    assert_true(
        make_plans(&w, "a2a_gemm:bf16:384x256x64:r3:counts=128,128,0/128,128,0/128,128,0", "dma"));
    fill(&w, 3);
    for (int r = 0; r < 3; r++) assert_int_equal(run_rank(&w, r, NULL), SHINGLE_OK);
    sync_all(&w);
    expect_right(&w, "dma");
    drop_plans(&w);
    close_group(&w);
}

/* A plan is made while a run is on its way that waits for a rank which has not come yet, and may
 * not come before the plan is made: its memory is filled by no kernel, and its product tried by
 * none. */
static void plans_are_made_beside_runs_that_wait(void **state)
{
    (void)state;
    static const char *const others[][2] = {{"gemm_rs:bf16:600x256x128:r2", "direct"},
                                            {"gemm_rs:bf16:640x256x128:r2", "serial{windows=0}"}};
    for (int i = 0; i < 2; i++) {
        world w;
        shingle_plan *other = NULL;
        const shingle_plan_options options = {.strategy = others[i][1]};
        open_group(&w, 2, 2);
        assert_true(make_plans(&w, "ag_gemm:bf16:64x64x64:r2", "fused_in{push=1}"));
        fill(&w, 1);
        assert_int_equal(run_rank(&w, 0, NULL), SHINGLE_OK);
        const double begin = sg_now_us();
        if (shingle_plan_create(w.comm[0], others[i][0], &options, &other) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
        assert_true(sg_now_us() - begin < 1e6);
        assert_int_equal(run_rank(&w, 1, NULL), SHINGLE_OK);
        sync_all(&w);
        expect_right(&w, others[i][0]);
        shingle_plan_free(other);
        drop_plans(&w);
        close_group(&w);
    }
}

/* What a kernel's roles count with has no room for more. */
static void limits_beyond_a_quarter_of_an_hour_are_refused(void **state)
{
    (void)state;
    shingle_comm *comm[1];
    const shingle_config config = {.backend = "cuda", .timeout_seconds = 901};
    assert_int_equal(shingle_open(1, &config, comm), SHINGLE_EINVAL);
    expect_text("timeout_seconds is 901; on GPUs at most 900");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures_stay_whole),
        cmocka_unit_test(queued_runs_blame_nobody),
        cmocka_unit_test(a_rank_without_tiles_counts_as_all_do),
        cmocka_unit_test(plans_are_made_beside_runs_that_wait),
        cmocka_unit_test(limits_beyond_a_quarter_of_an_hour_are_refused),
        cmocka_unit_test(more_ranks_than_a_group_has_are_refused),
        cmocka_unit_test(a_pause_is_no_failure),
        cmocka_unit_test(the_callers_work_is_no_failure),
        cmocka_unit_test(a_rank_that_does_not_begin_is_named),
        cmocka_unit_test(runs_are_enqueued_whole_or_everybody_is_told),
        cmocka_unit_test(nothing_is_taken_down_under_a_call),
        cmocka_unit_test(products_keep_their_form),
        cmocka_unit_test(binding_leaves_runs_alone),
        cmocka_unit_test(errors_of_gpus_are_told),
        cmocka_unit_test(what_cannot_be_asked_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
