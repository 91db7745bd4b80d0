/* conform_cuda.c -- the CUDA backend on real GPUs, bit for bit:
 *
 *     conform_cuda [MOST_RANKS] [check] [knobs] [mix] [replay] [fault] [only=STRATEGY,...] [verbose]
 *
 *     check    every operator and strategy, ragged rows, three runs each on new data, memory poisoned
 *     mix      plans of different shapes on one workspace, eager and replayed, in random order, while
 *              epochs pass 2^32
 *     replay   a captured run a thousand times, among eager ones
 *     fault    a rank that does not come: the same error everywhere within the limit, then recovery
 *
 * All parts are carried out if none is named.  Exits with 77 if there is no GPU. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "core/comm.h"
#include "core/data.h"

enum { RANKS = 4, GUARD = 256, POISON_MOST = 16 << 20 };

static int passed, failed;
static int most_ranks = RANKS;
static const char *only; /* names of strategies, or NULL for all */
static bool verbose;

typedef struct world {
    int ranks;
    shingle_comm *comm[RANKS];
} world;

/* A problem with a plan a rank, and matrices of all ranks. */
typedef struct job {
    world *w;
    char name[160];
    sg_problem problem;
    sg_data data;
    shingle_plan *plan[RANKS];
    void *a[RANKS], *b[RANKS], *bias[RANKS], *c[RANKS]; /* C starts GUARD bytes into its block */
    void *host;
    size_t host_bytes;
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

/* ---- Memory ---------------------------------------------------------------------------------- */

static const sg_backend *backend(const world *w)
{
    return w->comm[0]->group->backend;
}

static bool put(const world *w, int r, void *to, const void *from, size_t bytes)
{
    return backend(w)->write(w->comm[0]->group->self, r, to, from, bytes) == SHINGLE_OK;
}

static bool fetch(const world *w, int r, void *to, const void *from, size_t bytes)
{
    return backend(w)->read(w->comm[0]->group->self, r, to, from, bytes) == SHINGLE_OK;
}

static size_t bytes_of(const job *j, int64_t rows, int64_t cols)
{
    return (size_t)(rows * cols * sg_type_bytes(j->problem.type));
}

static size_t c_bytes(const job *j, int r)
{
    return bytes_of(j, sg_problem_c_rows(&j->problem, r), j->problem.n);
}

static bool get(job *j, int r, size_t bytes, void **memory)
{
    if (bytes > j->host_bytes) {
        free(j->host);
        j->host = malloc(bytes);
        j->host_bytes = bytes;
    }
    return shingle_alloc(j->w->comm[r], bytes, memory) == SHINGLE_OK && j->host != NULL;
}

static void close_job(job *j)
{
    for (int r = 0; r < j->w->ranks; r++) {
        shingle_plan_free(j->plan[r]);
        shingle_free(j->w->comm[r], j->a[r]);
        shingle_free(j->w->comm[r], j->b[r]);
        shingle_free(j->w->comm[r], j->bias[r]);
        shingle_free(j->w->comm[r], j->c[r]);
        if (j->graph[r] != NULL) cudaGraphExecDestroy(j->graph[r]);
        if (j->stream[r] != NULL) cudaStreamDestroy(j->stream[r]);
    }
    free(j->host);
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
    if (verbose) printf("%s %s\n", problem, strategy), fflush(stdout);
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
        const bool declined = status == SHINGLE_EUNSUPPORTED && r == 0;
        if (!declined) complain(j->name, shingle_error());
        if (declined && verbose) printf("    declined: %s\n", shingle_error());
        close_job(j);
        return declined ? 0 : -1;
    }
    snprintf(j->name, sizeof j->name, "%s", shingle_plan_text(j->plan[0]));
    const sg_problem *const p = &j->problem;
    for (int r = 0; r < w->ranks; r++)
        if (!get(j, r, bytes_of(j, sg_problem_a_rows(p, r), p->k) + 1, &j->a[r]) ||
            !get(j, r, bytes_of(j, p->n, p->k) + 1, &j->b[r]) ||
            !get(j, r, bytes_of(j, 1, p->n) + 1, &j->bias[r]) ||
            !get(j, r, c_bytes(j, r) + 2 * GUARD, &j->c[r])) {
            complain(j->name, shingle_error());
            close_job(j);
            return -1;
        }
    return 1;
}

static bool fill(job *j, sg_tensor tensor, int r, void *to, size_t bytes)
{
    return sg_data_fill(&j->data, tensor, r, j->host, 0) == SHINGLE_OK &&
           put(j->w, r, to, j->host, bytes);
}

/* New data, and a C in which nothing is right. */
static bool prepare(job *j)
{
    const sg_problem *const p = &j->problem;
    if (sg_data_make(p, sg_random_next(&dice), &j->data) != SHINGLE_OK) return false;
    for (int r = 0; r < j->w->ranks; r++) {
        if (!fill(j, SG_TENSOR_A, r, j->a[r], bytes_of(j, sg_problem_a_rows(p, r), p->k)))
            return false;
        if (!fill(j, SG_TENSOR_B, r, j->b[r], bytes_of(j, p->n, p->k))) return false;
        if (p->bias && !fill(j, SG_TENSOR_BIAS, r, j->bias[r], bytes_of(j, 1, p->n))) return false;
        memset(j->host, 0xa5, c_bytes(j, r) + 2 * GUARD);
        memset((char *)j->host + GUARD, 0xff, c_bytes(j, r));
        if (!put(j->w, r, j->c[r], j->host, c_bytes(j, r) + 2 * GUARD)) return false;
    }
    return true;
}

/* NaN in all of the workspace that is not too large, while nothing runs. */
static void poison(const world *w)
{
    static char *ones;
    if (ones == NULL) {
        ones = malloc(POISON_MOST);
        memset(ones, 0xff, POISON_MOST);
    }
    for (int r = 0; r < w->ranks; r++) {
        const sg_work *const work = w->comm[0]->group->work[r];
        const sg_cuda *const cuda = w->comm[0]->group->self;
        for (int cls = SG_BLOCK_CLASS0; 1 << cls <= POISON_MOST; cls++) {
            for (int kind = 0; kind < SG_BLOCK_KINDS; kind++)
                if (work->block[kind][cls] != NULL)
                    put(w, r, work->block[kind][cls], ones, (size_t)1 << cls);
            if (cuda->rank[r].landing[cls] != NULL)
                put(w, r, cuda->rank[r].landing[cls], ones, (size_t)1 << cls);
        }
    }
}

static bool compare(job *j)
{
    for (int r = 0; r < j->w->ranks; r++) {
        const size_t bytes = c_bytes(j, r);
        const unsigned char *const c = j->host;
        sg_data_wrong wrong;
        char line[200] = "";
        sg_text text = {line, sizeof line, 0};
        if (!fetch(j->w, r, j->host, j->c[r], bytes + 2 * GUARD))
            return complain(j->name, shingle_error());
        for (size_t i = 0; i < GUARD; i++)
            if (c[i] != 0xa5 || c[GUARD + bytes + i] != 0xa5)
                return complain(j->name, "stored outside of C");
        if (sg_data_compare(&j->data, r, c + GUARD, 0, &wrong) != SHINGLE_OK)
            return complain(j->name, shingle_error());
        sg_data_describe(&wrong, r, &text);
        if (wrong.elements > 0) return complain(j->name, line);
    }
    return true;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static shingle_status enqueue(job *j, int r, void *stream)
{
    const shingle_tensors t = {.a = j->a[r],
                               .b = j->b[r],
                               .bias = j->problem.bias ? j->bias[r] : NULL,
                               .c = (char *)j->c[r] + GUARD};
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
    if (!prepare(j)) return complain(j->name, shingle_error());
    return run_eager(j) && compare(j);
}

static bool capture(job *j)
{
    for (int r = 0; r < j->w->ranks; r++) {
        cudaGraph_t graph = NULL;
        cudaSetDevice(r);
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
        cudaSetDevice(r);
        cudaGraphLaunch(j->graph[r], j->stream[r]);
    }
}

/* Graphs are on streams of their own: the host keeps them and eager runs apart. */
static bool wait_graphs(job *j)
{
    for (int r = 0; r < j->w->ranks; r++) {
        cudaSetDevice(r);
        const cudaError_t error = cudaStreamSynchronize(j->stream[r]);
        if (error != cudaSuccess) return complain(j->name, cudaGetErrorString(error));
    }
    return wait_all(j);
}

static bool open_world(world *w, int ranks, double seconds)
{
    const shingle_config config = {.backend = "cuda", .timeout_seconds = seconds};
    w->ranks = ranks;
    if (shingle_open(ranks, &config, w->comm) == SHINGLE_OK) return true;
    return complain("open", shingle_error());
}

static void recover(world *w)
{
    for (int r = 0; r < w->ranks; r++)
        if (shingle_recover(w->comm[r], 0) != SHINGLE_OK && r == w->ranks - 1)
            complain("recover", shingle_error());
}

/* ---- The parts ------------------------------------------------------------------------------- */

static const char *const ops[] = {"ag_gemm", "gemm_rs", "gemm_ar"};
static const char *const strategies[] = {"serial", "fused_in", "fused_out", "direct",
                                         "ring",   "sliced",   "dma"};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

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

static void check(int ranks)
{
    static const char *const shapes[] = {"1x512x512", "7x512x512", "1000x768x512", "4097x1024x512",
                                         "2048x1536x1024"};
    static const char *const more[] = {"ag_gemm:f16:520x264x256",
                                       "gemm_rs:f16:520x264x256",
                                       "gemm_ar:f16:520x264x256",
                                       "ag_gemm:bf16:300x512x512:bias:relu",
                                       "gemm_rs:bf16:300x512x512:bias",
                                       "gemm_ar:bf16:300x512x512:bias:silu",
                                       "gemm_rs:bf16:1000x512x512",
                                       "ag_gemm:f32:300x512x512",
                                       "gemm_rs:f32:100x33x65",
                                       "gemm_ar:bf16:100x33x65",
                                       "gemm:bf16:1000x1000x1000:bias:gelu"};
    world w;
    if (!open_world(&w, ranks, 5)) return;
    char problem[120];
    const int before = passed;
    for (int op = 0; op < 3; op++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int i = 0; i < STRATEGIES; i++) {
                snprintf(problem, sizeof problem, "%s:bf16:%s:r%d", ops[op], shapes[s], ranks);
                if (!check_one(&w, problem, strategies[i])) recover(&w);
            }
    for (size_t s = 0; s < sizeof more / sizeof more[0]; s++)
        for (int i = 0; i < STRATEGIES; i++) {
            const char *const end = strstr(more[s], ":bias");
            const int length = end != NULL ? (int)(end - more[s]) : (int)strlen(more[s]);
            snprintf(problem, sizeof problem, "%.*s:r%d%s", length, more[s], ranks,
                     end != NULL ? end : "");
            if (!check_one(&w, problem, strategies[i])) recover(&w);
        }
    shingle_close(ranks, w.comm);
    printf("check: %d ranks, %d plans right\n", ranks, passed - before);
    fflush(stdout);
}

/* Every knob set that a strategy proposes for a shape of several tiles a rank. */
static void check_knobs(int ranks)
{
    world w;
    if (!open_world(&w, ranks, 5)) return;
    const int before = passed;
    for (int op = 0; op < 3; op++)
        for (int i = 0; i < STRATEGIES; i++) {
            char problem[120];
            sg_problem p;
            sg_knobs sets[SG_MAX_KNOB_SETS] = {0};
            char reason[200] = "";
            sg_text why = {reason, sizeof reason, 0};
            snprintf(problem, sizeof problem, "%s:bf16:2200x1544x1152:r%d", ops[op], ranks);
            const sg_strategy *const s = sg_strategy_find(strategies[i]);
            if (s == NULL || sg_problem_parse(problem, &p) != SHINGLE_OK) continue;
            const sg_machine *const machine = sg_comm_machine(w.comm[0], SG_BF16);
            const int count = s->accepts(&p, &why) ? s->propose(&p, machine, sets, &why) : 0;
            for (int k = 0; k < count; k++) {
                char text[120];
                sg_text t = {text, sizeof text, 0};
                sg_strategy_print(s, &sets[k], &t);
                if (!check_one(&w, problem, text)) recover(&w);
            }
            sg_problem_free(&p);
        }
    shingle_close(ranks, w.comm);
    printf("knobs: %d ranks, %d plans right\n", ranks, passed - before);
    fflush(stdout);
}

static void start_epochs_at(world *w, uint64_t epoch)
{
    sg_cuda *const cuda = w->comm[0]->group->self;
    for (int r = 0; r < w->ranks; r++) put(w, r, &cuda->rank[r].state->epoch, &epoch, sizeof epoch);
}

static void mix(int ranks)
{
    static const char *const shapes[] = {"3x512x512", "300x512x256", "1025x256x512"};
    enum { JOBS = 12, TURNS = 200 };
    static job jobs[JOBS];
    world w;
    if (!open_world(&w, ranks, 5)) return;
    int count = 0;
    bool ok = true;
    for (int i = 0; count < JOBS && i < 40; i++) {
        char problem[120];
        snprintf(problem, sizeof problem, "%s:bf16:%s:r%d", ops[i % 3], shapes[i / 3 % 3], ranks);
        if (open_job(&w, problem, strategies[i % STRATEGIES], &jobs[count]) == 1) count++;
    }
    start_epochs_at(&w, (UINT64_C(1) << 32) - 40);
    for (int i = 0; i < count && ok; i++) ok = run_right(&jobs[i]) && capture(&jobs[i]);
    for (int i = 0; i < TURNS && ok; i++) {
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
    printf("mix: %d ranks, %d plans, %s\n", ranks, count, ok ? "right" : "WRONG");
    fflush(stdout);
}

/* Microseconds that shingle_run takes, on average of all ranks' runs. */
static double time_to_enqueue(job *j)
{
    enum { TIMES = 40 };
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
    static const char *const asked[][2] = {{"ag_gemm", "fused_in"},  {"ag_gemm", "serial"},
                                           {"gemm_rs", "fused_out"}, {"gemm_rs", "direct"},
                                           {"gemm_ar", "fused_out"}, {"gemm_ar", "ring"},
                                           {"gemm_rs", "sliced"}};
    world w;
    if (!open_world(&w, ranks, 5)) return;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        char problem[120];
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
        printf("replay: %s %s, %.1f us to enqueue\n", j.name, ok ? "1000 times right" : "WRONG",
               ok ? time_to_enqueue(&j) : 0);
        fflush(stdout);
        close_job(&j);
        if (!ok) recover(&w);
    }
    shingle_close(ranks, w.comm);
}

static bool miss(world *w, job *j, int missing)
{
    char first[600] = "";
    char words[40];
    const double begin = sg_now_us();
    if (!prepare(j)) return complain(j->name, shingle_error());
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
    return run_right(j);
}

static void fault(int ranks)
{
    static const struct {
        const char *op, *strategy;
        int times;
    } asked[] = {{"gemm_rs", "fused_out", 8}, {"ag_gemm", "fused_in", 6}, {"gemm_ar", "direct", 3},
                 {"gemm_ar", "ring", 3},      {"gemm_rs", "serial", 3},   {"ag_gemm", "sliced", 2}};
    world w;
    if (!open_world(&w, ranks, 1)) return;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        char problem[120];
        job j;
        snprintf(problem, sizeof problem, "%s:bf16:1000x1024x512:r%d", asked[i].op, ranks);
        if (open_job(&w, problem, asked[i].strategy, &j) != 1) continue;
        bool ok = run_right(&j);
        int k = 0;
        for (; k < asked[i].times && ok; k++) ok = miss(&w, &j, (k + 1) % ranks);
        passed += ok;
        printf("fault: %s, %d times %s\n", j.name, k, ok ? "told and recovered" : "WRONG");
        fflush(stdout);
        close_job(&j);
        if (!ok) break;
    }
    shingle_close(ranks, w.comm);
}

static bool asked(int argc, char **argv, const char *part)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], part) == 0) return true;
        any |= strlen(argv[i]) > 1 && strncmp(argv[i], "only=", 5) != 0 &&
               strcmp(argv[i], "verbose") != 0;
    }
    return !any;
}

int main(int argc, char **argv)
{
    int devices = 0;
    setenv("CUDA_MODULE_LOADING", "EAGER", 0); /* before the first call, which is ours here */
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 1) {
        printf("no GPU here\n");
        return 77;
    }
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] >= '1' && argv[i][0] <= '9') most_ranks = atoi(argv[i]);
        if (strncmp(argv[i], "only=", 5) == 0) only = argv[i] + 5;
        verbose |= strcmp(argv[i], "verbose") == 0;
    }
    if (devices < most_ranks) most_ranks = devices;
    if (most_ranks > RANKS) most_ranks = RANKS;
    for (int ranks = most_ranks; ranks >= 1 && asked(argc, argv, "check"); ranks--) check(ranks);
    if (asked(argc, argv, "knobs")) check_knobs(most_ranks);
    if (asked(argc, argv, "mix")) mix(most_ranks);
    if (asked(argc, argv, "replay")) replay(most_ranks);
    if (asked(argc, argv, "fault") && most_ranks > 1) fault(most_ranks);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
