/* Graphs are captured a while after runs whose end nobody has asked the library about, by every
 * mode, while another thread waits in shingle_sync: captures stay whole, and replays give what
 * eager runs give.  So do captures of two runs on two streams.
 *
 *     capture_cuda [RANKS]      default: all GPUs, at most four */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shingle.h"

enum { RANKS = 4, M = 256, N = 512, K = 128, BYTES = M * N * 2, CAPTURES = 3, PLANS = 3 };

static const char *const strategy[PLANS] = {NULL, "ring", "dma"};

typedef struct rank {
    shingle_comm *comm;
    shingle_plan *plan[PLANS];
    void *a, *b, *c;
    cudaStream_t stream, other;
    cudaEvent_t forks, joins;
    cudaGraphExec_t exec;
} rank;

static volatile int over;

static int fails(const char *what, const char *why)
{
    fprintf(stderr, "capture_cuda: %s: %s\n", what, why);
    return 1;
}
#define CUDA(call)                                                                                 \
    do {                                                                                           \
        const cudaError_t error_ = (call);                                                         \
        if (error_ != cudaSuccess) return fails(#call, cudaGetErrorString(error_));                \
    } while (0)
#define RUN(call)                                                                                  \
    do {                                                                                           \
        if ((call) != SHINGLE_OK) return fails(#call, shingle_error());                            \
    } while (0)

static void nap(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void *keeps_asking(void *comm)
{
    while (!over) {
        (void)shingle_sync(comm, 0.001);
        nap(1);
    }
    return NULL;
}

static int open_rank(rank *r, const char *problem, int device)
{
    CUDA(cudaSetDevice(device));
    CUDA(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&r->other, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&r->forks, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&r->joins, cudaEventDisableTiming));
    CUDA(cudaMalloc(&r->a, (size_t)M * K * 2));
    CUDA(cudaMalloc(&r->b, (size_t)N * K * 2));
    CUDA(cudaMalloc(&r->c, BYTES));
    CUDA(cudaMemset(r->a, 0x3f, (size_t)M * K * 2)); /* 0.747 */
    CUDA(cudaMemset(r->b, 0x3e, (size_t)N * K * 2));
    for (int i = 0; i < PLANS; i++) {
        const shingle_plan_options options = {.strategy = strategy[i]};
        const shingle_status status = shingle_plan_create(r->comm, problem, &options, &r->plan[i]);
        if (status != SHINGLE_EUNSUPPORTED) RUN(status); /* one rank has nobody to talk to */
    }
    return 0;
}

static int run_all(rank *all, int ranks, int devices)
{
    for (int r = 0; r < ranks; r++) {
        CUDA(cudaSetDevice(r % devices));
        RUN(shingle_run(all[r].plan[0], all[r].a, all[r].b, all[r].c, all[r].stream));
    }
    for (int r = 0; r < ranks; r++) CUDA(cudaStreamSynchronize(all[r].stream));
    return 0;
}

/* One capture over all ranks; by one thread, as every rank's is. */
static int capture(rank *all, int ranks, int devices, enum cudaStreamCaptureMode mode)
{
    for (int r = 0; r < ranks; r++) {
        cudaGraph_t graph;
        CUDA(cudaSetDevice(r % devices));
        CUDA(cudaStreamBeginCapture(all[r].stream, mode));
        RUN(shingle_run(all[r].plan[0], all[r].a, all[r].b, all[r].c, all[r].stream));
        CUDA(cudaStreamEndCapture(all[r].stream, &graph));
        CUDA(cudaGraphInstantiate(&all[r].exec, graph, 0));
        CUDA(cudaGraphDestroy(graph));
    }
    return 0;
}

/* Two runs in one graph, each on a stream of its own. */
static int capture_two(rank *all, int ranks, int devices, int plan)
{
    for (int r = 0; r < ranks; r++) {
        rank *const x = &all[r];
        cudaGraph_t graph;
        CUDA(cudaSetDevice(r % devices));
        CUDA(cudaStreamBeginCapture(x->stream, cudaStreamCaptureModeThreadLocal));
        CUDA(cudaEventRecord(x->forks, x->stream));
        CUDA(cudaStreamWaitEvent(x->other, x->forks, 0));
        RUN(shingle_run(x->plan[plan], x->a, x->b, x->c, x->stream));
        RUN(shingle_run(x->plan[plan], x->a, x->b, x->c, x->other));
        CUDA(cudaEventRecord(x->joins, x->other));
        CUDA(cudaStreamWaitEvent(x->stream, x->joins, 0));
        CUDA(cudaStreamEndCapture(x->stream, &graph));
        CUDA(cudaGraphInstantiate(&x->exec, graph, 0));
        CUDA(cudaGraphDestroy(graph));
    }
    return 0;
}

static int replay(rank *all, int ranks, int devices, const char *expected, char *seen)
{
    for (int r = 0; r < ranks; r++) {
        CUDA(cudaSetDevice(r % devices));
        CUDA(cudaMemset(all[r].c, 0xff, BYTES));
    }
    for (int r = 0; r < ranks; r++) CUDA(cudaGraphLaunch(all[r].exec, all[r].stream));
    for (int r = 0; r < ranks; r++) {
        CUDA(cudaStreamSynchronize(all[r].stream));
        CUDA(cudaMemcpy(seen, all[r].c, BYTES, cudaMemcpyDeviceToHost));
        if (memcmp(seen, expected, BYTES) != 0) return fails("replay", "other bits than eager");
        CUDA(cudaGraphExecDestroy(all[r].exec));
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const enum cudaStreamCaptureMode modes[CAPTURES] = {cudaStreamCaptureModeGlobal,
                                                               cudaStreamCaptureModeThreadLocal,
                                                               cudaStreamCaptureModeRelaxed};
    static char expected[BYTES], seen[BYTES];
    const shingle_config config = {.backend = "cuda", .timeout_seconds = 1};
    rank all[RANKS] = {{0}};
    shingle_comm *comm[RANKS];
    pthread_t asking;
    int devices = 0;
    char problem[64];
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 77;
    const int ranks = argc > 1 ? atoi(argv[1]) : devices < RANKS ? devices : RANKS;
    if (ranks < 1 || ranks > RANKS) return fails("ranks", "1 to 4");
    snprintf(problem, sizeof problem, "gemm_ar:bf16:%dx%dx%d:r%d", M, N, K, ranks);
    RUN(shingle_open(ranks, &config, comm));
    for (int r = 0; r < ranks; r++) {
        all[r].comm = comm[r];
        if (open_rank(&all[r], problem, r % devices) != 0) return 1;
    }
    if (run_all(all, ranks, devices) != 0) return 1;
    CUDA(cudaMemcpy(expected, all[0].c, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 2 * CAPTURES; i++) {
        const int beside = i >= CAPTURES;
        if (run_all(all, ranks, devices) != 0) return 1;
        nap(700);
        over = 0;
        if (beside && pthread_create(&asking, NULL, keeps_asking, comm[0]) != 0) return 1;
        if (capture(all, ranks, devices, modes[i % CAPTURES]) != 0) return 1;
        over = 1;
        if (beside) pthread_join(asking, NULL);
        if (replay(all, ranks, devices, expected, seen) != 0) return 1;
    }
    for (int i = 0; i < 2 * PLANS; i++) {
        if (all[0].plan[i % PLANS] == NULL) continue;
        if (capture_two(all, ranks, devices, i % PLANS) != 0) return 1;
        if (replay(all, ranks, devices, expected, seen) != 0) return 1;
    }
    for (int r = 0; r < ranks; r++) RUN(shingle_sync(comm[r], 1));
    shingle_close(ranks, comm);
    printf("%d ranks: %d captures whole, %d of two streams, replays as eager\n", ranks,
           2 * CAPTURES, 2 * PLANS);
    return 0;
}
