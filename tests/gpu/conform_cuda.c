/* conform_cuda.c -- the CUDA backend on real GPUs, bit for bit:
 *
 *     conform_cuda [RANKS] [check] [knobs] [mix] [replay] [fault] [only=STRATEGY,...] [least=RANKS]
 *                  [every=N] [times=N] [limit=SECONDS] [json=FILE] [apart] [verbose]
 *
 *     check    every operator, strategy and form of a launch, ragged rows, three runs each on new data,
 *              memory poisoned; by RANKS ranks and by fewer, down to `least` (default 1); of the plans
 *              every N-th alone
 *     knobs    every knob set that a strategy proposes for a shape of several tiles a rank
 *     mix      plans of different shapes on one workspace, eager and replayed, epochs passing 2^32
 *     replay   captured runs a thousand times, among eager ones; microseconds to enqueue one
 *     fault    a rank that does not come, TIMES times a plan (default 4): one error everywhere, recovery
 *
 * Each counts the plans that ran on a slow kernel, too, which bits do not tell.
 *
 * All parts are carried out if none is named, on RANKS GPUs (default: all, at most 4); with
 * SHINGLE_SHARE_GPU=1 there may be fewer.  LIMIT: of waits (5 s; 1 s in `fault`).  APART: no rank's
 * C is told to peers, as if it were memory that they do not reach.  77: no GPU. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "at_rest.h"
#include "backend/cuda/cuda.h"
#include "core/matrices.h"
#include "core/propose.h"
#include "more_problems.h"
#include "slow.h"

enum { RANKS = SG_CUDA_RANKS, POISON_MOST = 16 << 20, POISON = 0xff, NAME = 200 };

static int passed, failed, declined, slow, most_ranks = 4, least_ranks = 1, times = 4, every = 1;
static double limit_seconds; /* of waits; 0: as the part likes */
static const char *only;     /* names of strategies, or NULL for all */
static bool verbose, apart;
static FILE *json;

typedef struct world {
    int ranks;
    shingle_comm *comm[RANKS];
    sg_group *group;
} world;

/* A problem with a plan a rank, and matrices of all ranks. */
typedef struct job {
    world *w;
    char name[NAME];
    sg_problem problem;
    sg_data data;
    shingle_plan *plan[RANKS];
    sg_matrices *matrices;
    cudaStream_t stream[RANKS];
    cudaGraphExec_t graph[RANKS];
} job;

static sg_random dice = {12345};

static bool complain(const char *name, const char *what)
{
    failed++;
    printf("FAILED %s: %s\n", name, what);
    fflush(stdout);
    return false;
}

/* One line a part on the screen, and one in the file. */
static void report(const char *part, int ranks, int right, int before, double begin_us)
{
    const double seconds = (sg_now_us() - begin_us) / 1e6;
    printf("%s: %d ranks, %d right (%d on slow kernels), %d wrong, %d declined, %.0f s\n", part,
           ranks, right, slow, failed - before, declined, seconds);
    fflush(stdout);
    if (json != NULL)
        fprintf(json,
                "{\"part\": \"%s\", \"ranks\": %d, \"right\": %d, \"slow\": %d, \"failed\": %d, "
                "\"declined\": %d, \"seconds\": %.1f}\n",
                part, ranks, right, slow, failed - before, declined, seconds);
    declined = slow = 0;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

static void close_job(job *j)
{
    slow += j->plan[0] != NULL && count_slow(j->plan[0], verbose) > 0;
    for (int r = 0; r < j->w->ranks; r++) {
        shingle_plan_free(j->plan[r]);
        if (j->graph[r] != NULL) cudaGraphExecDestroy(j->graph[r]);
        if (j->stream[r] != NULL) cudaStreamDestroy(j->stream[r]);
    }
    sg_matrices_close(j->matrices);
    sg_problem_free(&j->problem);
    memset(j, 0, sizeof *j);
}

static bool is_named(const char *strategy)
{
    const size_t length = strcspn(strategy, "{");
    for (const char *at = only; at != NULL; at = strchr(at, ','), at += at != NULL) {
        const size_t end = strcspn(at, ",");
        if (end == length && strncmp(at, strategy, length) == 0) return true;
    }
    return false;
}

/* 1: made; 0: the strategy does not do this problem; -1: it should have been made. */
static int open_job(world *w, const char *problem, const char *strategy, job *j)
{
    memset(j, 0, sizeof *j);
    j->w = w;
    if (only != NULL && !is_named(strategy)) return 0;
    if (verbose) printf("%6.1f %s %s\n", sg_now_us() / 1e6, problem, strategy), fflush(stdout);
    snprintf(j->name, sizeof j->name, "%s %s", problem, strategy);
    if (sg_problem_parse(problem, &j->problem) != SHINGLE_OK) {
        complain(problem, shingle_error());
        return -1;
    }
    for (int r = 0; r < w->ranks; r++) {
        const shingle_plan_options options = {.strategy = strategy};
        const shingle_status status =
            shingle_plan_create(w->comm[r], problem, &options, &j->plan[r]);
        if (status == SHINGLE_OK) continue;
        const bool none = status == SHINGLE_EUNSUPPORTED && r == 0;
        if (!none) complain(j->name, shingle_error());
        if (none && verbose) printf("    declined: %s\n", shingle_error());
        declined += none;
        close_job(j);
        return none ? 0 : -1;
    }
    snprintf(j->name, sizeof j->name, "%s", shingle_plan_text(j->plan[0]));
    if (sg_matrices_open(w->group, &j->problem, &j->matrices) == SHINGLE_OK) return 1;
    complain(j->name, shingle_error());
    close_job(j);
    return -1;
}

/* New data, and a C in which nothing is right. */
static bool prepare(job *j)
{
    if (sg_data_make(&j->problem, sg_random_next(&dice), &j->data) == SHINGLE_OK &&
        sg_matrices_fill(j->matrices, &j->data) == SHINGLE_OK)
        return true;
    return complain(j->name, shingle_error());
}

static void enter(const world *w, int rank)
{
    const sg_cuda *const cuda = w->group->self;
    cudaSetDevice(cuda->rank[rank].device);
}

/* NaN in all of the workspace that is not too large, while nothing runs; but REST, which rests. */
static void poison(const world *w)
{
    const sg_cuda *const cuda = w->group->self;
    for (int r = 0; r < w->ranks; r++) {
        const sg_work *const work = w->group->work[r];
        enter(w, r);
        for (int cls = SG_BLOCK_CLASS0; 1 << cls <= POISON_MOST; cls++) {
            void *const block[] = {
                cuda->rank[r].landing[cls],        cuda->rank[r].dense[cls],
                work->block[SG_BLOCK_SYM0][cls],   work->block[SG_BLOCK_SYM1][cls],
                work->block[SG_BLOCK_LOCAL][cls],  work->block[SG_BLOCK_LIBRARY][cls],
                work->block[SG_BLOCK_WINDOWS][cls]};
            for (size_t i = 0; i < sizeof block / sizeof block[0]; i++)
                if (block[i] != NULL) cudaMemset(block[i], POISON, (size_t)1 << cls);
        }
        cudaDeviceSynchronize();
    }
}

/* Does all that tagged data may have been stored to rest, while nothing runs? */
static bool all_rests(const job *j)
{
    const bool tagged = j->plan[0]->bound->sched.arena_bytes[SG_REST] > 0;
    if (!tagged || count_awake(j->w->group, POISON_MOST) == 0) return true;
    return complain(j->name, "words of tagged data are not at rest");
}

static bool compare(job *j)
{
    char line[80];
    int64_t wrong = 0;
    if (!all_rests(j)) return false;
    if (sg_matrices_compare(j->matrices, &j->data, j->name, &wrong) != SHINGLE_OK)
        return complain(j->name, shingle_error());
    snprintf(line, sizeof line, "%lld elements are wrong", (long long)wrong);
    return wrong == 0 || complain(j->name, line);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static shingle_status enqueue(job *j, int r, void *stream)
{
    const shingle_tensors t = sg_matrices_tensors(j->matrices, r);
    return shingle_run_tensors(j->plan[r], &t, stream);
}

static bool wait_all(job *j)
{
    bool ok = true;
    for (int r = 0; r < j->w->ranks; r++)
        if (shingle_sync(j->w->comm[r], 30) != SHINGLE_OK && ok)
            ok = complain(j->name, shingle_error());
    return ok;
}

static bool run_eager(job *j)
{
    const int first = (int)sg_random_below(&dice, j->w->ranks);
    for (int i = 0; i < j->w->ranks; i++)
        if (enqueue(j, (first + i) % j->w->ranks, NULL) != SHINGLE_OK)
            return complain(j->name, shingle_error());
    return wait_all(j);
}

static bool run_right(job *j)
{
    return prepare(j) && run_eager(j) && compare(j);
}

static bool capture(job *j)
{
    for (int r = 0; r < j->w->ranks; r++) {
        cudaGraph_t graph = NULL;
        enter(j->w, r);
        cudaStreamCreateWithFlags(&j->stream[r], cudaStreamNonBlocking);
        cudaStreamBeginCapture(j->stream[r], cudaStreamCaptureModeThreadLocal);
        const shingle_status status = enqueue(j, r, j->stream[r]);
        const cudaError_t error = cudaStreamEndCapture(j->stream[r], &graph);
        if (status != SHINGLE_OK) return complain(j->name, shingle_error());
        if (error != cudaSuccess || cudaGraphInstantiate(&j->graph[r], graph, 0) != cudaSuccess)
            return complain(j->name, cudaGetErrorString(error));
        cudaGraphDestroy(graph);
    }
    return true;
}

static void launch(job *j)
{
    for (int r = 0; r < j->w->ranks; r++) {
        enter(j->w, r);
        cudaGraphLaunch(j->graph[r], j->stream[r]);
    }
}

/* Graphs are on streams of their own: the host keeps them and eager runs apart. */
static bool wait_graphs(job *j)
{
    for (int r = 0; r < j->w->ranks; r++) {
        enter(j->w, r);
        const cudaError_t error = cudaStreamSynchronize(j->stream[r]);
        if (error != cudaSuccess) return complain(j->name, cudaGetErrorString(error));
    }
    return wait_all(j);
}

static bool open_world(world *w, int ranks, double seconds)
{
    const double limit = limit_seconds > 0 ? limit_seconds : seconds;
    const shingle_config config = {.backend = "cuda", .timeout_seconds = limit};
    w->ranks = ranks;
    if (shingle_open(ranks, &config, w->comm) != SHINGLE_OK)
        return complain("open", shingle_error());
    w->group = w->comm[0]->group;
    /* Who cannot ask the driver does not know what peers reach. */
    if (apart) ((sg_cuda *)w->group->self)->driver.pointer = NULL;
    return true;
}

static void recover(world *w)
{
    for (int r = 0; r < w->ranks; r++)
        if (shingle_recover(w->comm[r], 0) != SHINGLE_OK && r == w->ranks - 1)
            complain("recover", shingle_error());
}

/* ---- Check ----------------------------------------------------------------------------------- */

static const char *const strategies[] = {"serial",    "sliced",    "direct", "ring",   "fused_in",
                                         "fused_add", "fused_out", "dma",    "signal", NULL};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] - 1 };

/* True if it was right, or declined. */
static bool check_one(world *w, const char *problem, const char *strategy)
{
    job j;
    const int opened = open_job(w, problem, strategy, &j);
    if (opened <= 0) return opened == 0;
    bool ok = true;
    for (int i = 0; i < 3 && ok; i++) {
        poison(w);
        ok = run_right(&j);
    }
    passed += ok;
    close_job(&j);
    return ok;
}

static void check_all(world *w, const char *problem, const char *const *more)
{
    static int turn;
    const char *const *const list[] = {strategies, more, tagged_forms_of(problem)};
    for (int i = 0; i < 3; i++)
        for (const char *const *form = list[i]; *form != NULL; form++)
            if (turn++ % every == 0 && !check_one(w, problem, *form)) recover(w);
}

static void check(int ranks)
{
    static const char *const shapes[] = {"1x512x512", "7x512x512", "1000x768x512", "4097x1024x512",
                                         "2048x1536x1024"};
    world w;
    if (!open_world(&w, ranks, 5)) return;
    char problem[NAME];
    const double begin_us = sg_now_us();
    const int right = passed, wrong = failed;
    for (int op = 0; op < OPS; op++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            snprintf(problem, sizeof problem, "%s:bf16:%s:r%d", ops[op], shapes[s], ranks);
            check_all(&w, problem, forms[op]);
        }
    for (size_t s = 0; s < sizeof more_problems / sizeof more_problems[0]; s++) {
        const char *const end = strstr(more_problems[s], "r%d");
        snprintf(problem, sizeof problem, "%.*sr%d%s", (int)(end - more_problems[s]),
                 more_problems[s], ranks, end + 3);
        check_all(&w, problem, more_forms_of(problem));
    }
    shingle_close(ranks, w.comm);
    report("check", ranks, passed - right, wrong, begin_us);
}

static void check_knobs(int ranks)
{
    world w;
    if (!open_world(&w, ranks, 5)) return;
    const double begin_us = sg_now_us();
    const int right = passed, wrong = failed;
    for (int op = 0; op < OPS; op++)
        for (int i = 0; i < STRATEGIES; i++) {
            char problem[NAME];
            sg_problem p;
            sg_knobs sets[SG_MAX_KNOB_SETS] = {0};
            char reason[NAME] = "";
            sg_text why = {reason, sizeof reason, 0};
            snprintf(problem, sizeof problem, "%s:bf16:2200x1544x1152:r%d", ops[op], ranks);
            const sg_strategy *const s = sg_strategy_find(strategies[i]);
            if (s == NULL || sg_problem_parse(problem, &p) != SHINGLE_OK) continue;
            const sg_machine *const machine = sg_comm_machine(w.comm[0], SG_BF16);
            const int count =
                s->accepts(&p, &why) ? sg_strategy_propose(s, &p, machine, sets, &why) : 0;
            for (int k = 0; k < count; k++) {
                char text[NAME];
                sg_text t = {text, sizeof text, 0};
                sg_strategy_print(s, &sets[k], &t);
                if (!check_one(&w, problem, text)) recover(&w);
            }
            sg_problem_free(&p);
        }
    shingle_close(ranks, w.comm);
    report("knobs", ranks, passed - right, wrong, begin_us);
}

/* ---- Order ----------------------------------------------------------------------------------- */

static void start_epochs_at(world *w, uint64_t epoch)
{
    sg_cuda *const cuda = w->group->self;
    for (int r = 0; r < w->ranks; r++)
        w->group->backend->write(cuda, r, &cuda->rank[r].state->epoch, &epoch, sizeof epoch);
}

static void mix(int ranks)
{
    enum { JOBS = sizeof mixed / sizeof mixed[0], TURNS = 300 };
    static job jobs[JOBS];
    world w;
    if (!open_world(&w, ranks, 5)) return;
    const double begin_us = sg_now_us();
    const int right = passed, wrong = failed;
    int count = 0;
    for (int i = 0; i < JOBS; i++) {
        char problem[NAME];
        snprintf(problem, sizeof problem, "%s:r%d%s", mixed[i][0], ranks, mixed[i][2]);
        if (open_job(&w, problem, mixed[i][1], &jobs[count]) == 1) count++;
    }
    start_epochs_at(&w, (UINT64_C(1) << 32) - 60);
    bool ok = true;
    for (int i = 0; i < count && ok; i++) ok = run_right(&jobs[i]) && capture(&jobs[i]);
    for (int i = 0; i < TURNS && ok && count > 0; i++) {
        job *const j = &jobs[sg_random_below(&dice, count)];
        if (sg_random_below(&dice, 2) == 0) {
            ok = run_right(j);
        } else {
            ok = prepare(j);
            if (ok) launch(j);
            ok = ok && wait_graphs(j) && compare(j);
        }
        passed += ok;
    }
    for (int i = 0; i < count; i++) close_job(&jobs[i]);
    shingle_close(ranks, w.comm);
    printf("mix: %d plans\n", count);
    report("mix", ranks, passed - right, wrong, begin_us);
}

/* Microseconds that shingle_run takes, on average of all ranks' runs. */
static double time_to_enqueue(job *j)
{
    enum { TIMES = 48 };
    double us = 0;
    for (int i = 0; i < TIMES; i++) {
        const double begin = sg_now_us();
        for (int r = 0; r < j->w->ranks; r++) (void)enqueue(j, r, NULL);
        us += sg_now_us() - begin;
        if (i % 8 == 7) (void)wait_all(j);
    }
    return us / (TIMES * j->w->ranks);
}

static void replay(int ranks)
{
    static const char *const asked[][2] = {
        {"ag_gemm", "fused_in{tile_m=128,tile_n=128,push=1}"},
        {"ag_gemm", "fused_in{tile_m=128,tile_n=128,push=0}"},
        {"ag_gemm", "fused_in{chunks=1,slabs=4,tile_m=128,tile_n=64,push=4}"},
        {"ag_gemm", "serial"},
        {"gemm_rs", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_rs", "fused_out{tile_m=64,tile_n=128,tagged=1}"},
        {"gemm_rs", "fused_add{tile_m=128,tile_n=128}"},
        {"gemm_ar", "fused_add{tile_m=128,tile_n=192}"},
        {"gemm_rs", "direct"},
        {"gemm_rs", "signal"},
        {"gemm_ar", "fused_out{tile_m=128,tile_n=128}"},
        {"gemm_ar", "fused_out{tile_m=128,tile_n=128,once=1}"},
        {"gemm_ar", "fused_out{tile_m=128,tile_n=128,once=0,strips=0,tagged=0}"},
        {"gemm_ar", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}"},
        {"gemm_ar", "fused_out{tile_m=64,tile_n=128,once=0,tagged=1}"},
        {"gemm_ar", "ring"},
        {"gemm_rs", "direct{tile_m=128,tile_n=128}"},
        {"gemm_ar", "ring{tile_m=128,tile_n=128}"},
        {"gemm_rs", "sliced"},
        {"gemm_rs", "serial"},
        {"ag_gemm", "serial{windows=1}"},
        {"gemm_rs", "serial{windows=1}"},
        {"gemm_ar", "serial"}};
    world w;
    if (!open_world(&w, ranks, 5)) return;
    const double begin_us = sg_now_us();
    const int right = passed, wrong = failed;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        char problem[NAME];
        job j;
        snprintf(problem, sizeof problem, "%s:bf16:1000x1024x512:r%d", asked[i][0], ranks);
        if (open_job(&w, problem, asked[i][1], &j) != 1) continue;
        bool ok = run_right(&j) && capture(&j);
        for (int k = 0; k < 10 && ok; k++) {
            ok = prepare(&j);
            for (int n = 0; n < 100 && ok; n++) launch(&j);
            ok = ok && wait_graphs(&j) && compare(&j) && run_right(&j);
        }
        passed += ok;
        const double us = ok ? time_to_enqueue(&j) : 0;
        printf("replay: %-70s %s, %.1f us to enqueue\n", j.name, ok ? "1000 times" : "WRONG", us);
        fflush(stdout);
        if (json != NULL)
            fprintf(json, "{\"part\": \"enqueue\", \"plan\": \"%s\", \"us\": %.2f}\n", j.name, us);
        close_job(&j);
        if (!ok) recover(&w);
    }
    shingle_close(ranks, w.comm);
    report("replay", ranks, passed - right, wrong, begin_us);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static bool miss(world *w, job *j, int missing)
{
    char first[600] = "";
    char words[40];
    const double begin = sg_now_us();
    if (!prepare(j)) return false;
    for (int r = 0; r < w->ranks; r++)
        if (r != missing && enqueue(j, r, NULL) != SHINGLE_OK)
            return complain(j->name, shingle_error());
    for (int i = 1; i <= w->ranks; i++) {
        const shingle_status status = shingle_sync(w->comm[(missing + i) % w->ranks], 30);
        if (i == 1) snprintf(first, sizeof first, "%s", shingle_error());
        if (status != SHINGLE_ETIMEOUT || strcmp(first, shingle_error()) != 0)
            return complain(j->name, shingle_error());
    }
    const double seconds = (sg_now_us() - begin) / 1e6;
    snprintf(words, sizeof words, "rank %d did not begin", missing);
    if (strstr(first, words) == NULL) return complain(j->name, first);
    if (seconds > 4) return complain(j->name, "the error took more than 4 s");
    recover(w);
    return all_rests(j) && run_right(j);
}

static void fault(int ranks)
{
    world w;
    if (!open_world(&w, ranks, 1)) return;
    const double begin_us = sg_now_us();
    const int right = passed, wrong = failed;
    for (size_t i = 0; i < sizeof missed / sizeof missed[0]; i++) {
        char problem[NAME];
        job j;
        snprintf(problem, sizeof problem, "%s:bf16:1000x1024x512:r%d%s", missed[i][0], ranks,
                 missed[i][2]);
        if (open_job(&w, problem, missed[i][1], &j) != 1) continue;
        bool ok = run_right(&j);
        for (int k = 0; k < times && ok; k++) {
            ok = miss(&w, &j, (k + 1) % ranks);
            passed += ok;
        }
        close_job(&j);
        if (!ok) break;
    }
    shingle_close(ranks, w.comm);
    report("fault", ranks, passed - right, wrong, begin_us);
}

/* ---- Command --------------------------------------------------------------------------------- */

static bool asked(int argc, char **argv, const char *part)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], part) == 0) return true;
        const bool option = strchr(argv[i], '=') != NULL || strcmp(argv[i], "verbose") == 0 ||
                            strcmp(argv[i], "apart") == 0;
        any |= strlen(argv[i]) > 1 && !option;
    }
    return !any;
}

int main(int argc, char **argv)
{
    int devices = 0;
    bool shares = false;
    setenv("CUDA_MODULE_LOADING", "EAGER", 0); /* before the first call, which is ours here */
    if (sg_cuda_ask_share(&shares) != SHINGLE_OK) complain("SHINGLE_SHARE_GPU", shingle_error());
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 1) {
        printf("no GPU here\n");
        return 77;
    }
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] >= '1' && argv[i][0] <= '9') most_ranks = atoi(argv[i]);
        if (strncmp(argv[i], "only=", 5) == 0) only = argv[i] + 5;
        if (strncmp(argv[i], "least=", 6) == 0) least_ranks = atoi(argv[i] + 6);
        if (strncmp(argv[i], "every=", 6) == 0 && atoi(argv[i] + 6) > 0) every = atoi(argv[i] + 6);
        if (strncmp(argv[i], "times=", 6) == 0) times = atoi(argv[i] + 6);
        if (strncmp(argv[i], "limit=", 6) == 0) limit_seconds = atof(argv[i] + 6);
        if (strncmp(argv[i], "json=", 5) == 0) json = fopen(argv[i] + 5, "w");
        verbose |= strcmp(argv[i], "verbose") == 0;
        apart |= strcmp(argv[i], "apart") == 0;
    }
    if (devices < most_ranks && !shares) most_ranks = devices;
    if (most_ranks > RANKS) most_ranks = RANKS;
    if (least_ranks < 1 || least_ranks > most_ranks) { /* nothing would be checked, and pass */
        fprintf(stderr, "least is %d; 1 to %d ranks are accepted\n", least_ranks, most_ranks);
        return 2;
    }
    for (int ranks = most_ranks; ranks >= least_ranks && asked(argc, argv, "check"); ranks--)
        check(ranks);
    if (asked(argc, argv, "knobs")) check_knobs(most_ranks);
    if (asked(argc, argv, "mix")) mix(most_ranks);
    if (asked(argc, argv, "replay")) replay(most_ranks);
    if (asked(argc, argv, "fault") && most_ranks > 1) fault(most_ranks);
    printf("%d passed, %d failed\n", passed, failed);
    if (json != NULL) fclose(json);
    return failed > 0;
}
