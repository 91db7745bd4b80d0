/* graph_cuda.c -- as a framework has it on GPUs: matrices of its own in the memory of each GPU, its
 * own streams with work before and behind a run, and a CUDA graph of all that, replayed on other
 * values.  A rank a GPU, at most four; with SHINGLE_SHARE_GPU=1 two ranks share one.  Checks every
 * element; exits 77 if there is no GPU. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "shingle.h"

enum { RANKS = 4, M = 512, N = 384, K = 256, REPLAYS = 5 };

typedef struct rank {
    int device;
    shingle_comm *comm;
    shingle_plan *plan;
    cudaStream_t stream;
    cudaGraphExec_t graph;
    unsigned short *a, *b, *c; /* of the GPU, bf16 */
    unsigned short *from,
        *to; /* of the host: what comes in before each run, and goes out behind it */
} rank;

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}
#define CUDA(call)                                                                                 \
    do {                                                                                           \
        const cudaError_t error_ = (call);                                                         \
        if (error_ != cudaSuccess) return fail(#call, cudaGetErrorString(error_));                 \
    } while (0)
#define RUN(call)                                                                                  \
    do {                                                                                           \
        if ((call) != SHINGLE_OK) return fail(#call, shingle_error());                             \
    } while (0)

/* bf16 of a whole number up to 256, exactly. */
static unsigned short bf16(int value)
{
    union {
        float f;
        unsigned u;
    } x = {.f = (float)value};
    return (unsigned short)(x.u >> 16);
}

/* A is zero but in one column of each row, so that every element of C is small and whole. */
static int a_value(int run, int r, int i)
{
    return (i + r + run) % 7 - 3;
}

static int b_value(int r, int j)
{
    return (j + 2 * r) % 5 - 2;
}

static int open_rank(rank *me, const char *problem, int r)
{
    const size_t a = (size_t)M * K * 2, b = (size_t)N * K * 2, c = (size_t)M * N * 2;
    CUDA(cudaSetDevice(me->device));
    CUDA(cudaStreamCreateWithFlags(&me->stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&me->a, a));
    CUDA(cudaMalloc((void **)&me->b, b));
    CUDA(cudaMalloc((void **)&me->c, c));
    CUDA(cudaMallocHost((void **)&me->from, a));
    CUDA(cudaMallocHost((void **)&me->to, c));
    for (int j = 0; j < N; j++)
        for (int x = 0; x < K; x++)
            me->from[j * K + x] = bf16(b_value(r, j)); /* N is less than M */
    CUDA(cudaMemcpy(me->b, me->from, b, cudaMemcpyHostToDevice));
    RUN(shingle_plan_create(me->comm, problem, NULL, &me->plan));
    return 0;
}

/* The values of RUN, which the copy of the next step or replay takes along. */
static void fill(rank *me, int r, int run)
{
    for (int i = 0; i < M; i++)
        for (int x = 0; x < K; x++) me->from[i * K + x] = x == i % K ? bf16(a_value(run, r, i)) : 0;
}

/* One step: A comes in, C = its rows of the sum over ranks of A * B^T, C
 * goes out.  Nothing waits here. */
static int step(rank *me, int ranks)
{
    CUDA(cudaSetDevice(me->device));
    CUDA(cudaMemcpyAsync(me->a, me->from, (size_t)M * K * 2, cudaMemcpyHostToDevice, me->stream));
    RUN(shingle_run(me->plan, me->a, me->b, me->c, me->stream));
    CUDA(cudaMemcpyAsync(me->to, me->c, (size_t)M / (size_t)ranks * N * 2, cudaMemcpyDeviceToHost,
                         me->stream));
    return 0;
}

/* The same as a graph: what a framework does once for each shape. */
static int capture(rank *me, int ranks)
{
    cudaGraph_t graph;
    CUDA(cudaSetDevice(me->device));
    CUDA(cudaStreamBeginCapture(me->stream, cudaStreamCaptureModeThreadLocal));
    if (step(me, ranks) != 0) return 1;
    CUDA(cudaStreamEndCapture(me->stream, &graph));
    CUDA(cudaGraphInstantiate(&me->graph, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return 0;
}

/* Waits inside a run are bounded, so its stream comes to an end; whether the run was right says
 * shingle_sync(). */
static int finish(rank *all, int ranks, int run, int *wrong)
{
    for (int r = 0; r < ranks; r++) CUDA(cudaStreamSynchronize(all[r].stream));
    for (int r = 0; r < ranks; r++) RUN(shingle_sync(all[r].comm, 10));
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < M / ranks; i++)
            for (int j = 0; j < N; j++) {
                int sum = 0;
                for (int q = 0; q < ranks; q++)
                    sum += a_value(run, q, r * (M / ranks) + i) * b_value(q, j);
                *wrong +=
                    all[r].to[i * N + j] != (sum == 0 ? all[r].to[i * N + j] & 0x8000 : bf16(sum));
            }
    return 0;
}

static void close_rank(rank *me)
{
    cudaSetDevice(me->device);
    cudaGraphExecDestroy(me->graph);
    cudaStreamDestroy(me->stream);
    cudaFree(me->a), cudaFree(me->b), cudaFree(me->c);
    cudaFreeHost(me->from), cudaFreeHost(me->to);
}

int main(void)
{
    const shingle_config config = {.backend = "cuda"};
    rank all[RANKS] = {{0}};
    shingle_comm *comm[RANKS];
    char problem[64];
    int devices = 0;
    int wrong = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 77;
    const int least = getenv("SHINGLE_SHARE_GPU") != NULL ? 2 : 1;
    const int ranks = devices >= 4 ? 4 : devices < least ? least : devices == 3 ? 2 : devices;
    snprintf(problem, sizeof problem, "gemm_rs:bf16:%dx%dx%d:r%d", M, N, K, ranks);
    RUN(shingle_open(ranks, &config, comm));
    for (int r = 0; r < ranks; r++) {
        all[r].comm = comm[r];
        all[r].device = r % devices;
        if (open_rank(&all[r], problem, r) != 0) return 1;
    }
    for (int r = 0; r < ranks; r++) {
        fill(&all[r], r, 0);
        if (step(&all[r], ranks) != 0) return 1;
    }
    if (finish(all, ranks, 0, &wrong) != 0) return 1;
    for (int r = 0; r < ranks; r++)
        if (capture(&all[r], ranks) != 0) return 1;
    for (int run = 1; run <= REPLAYS; run++) {
        for (int r = 0; r < ranks; r++) fill(&all[r], r, run);
        for (int r = 0; r < ranks; r++) CUDA(cudaGraphLaunch(all[r].graph, all[r].stream));
        if (finish(all, ranks, run, &wrong) != 0) return 1;
    }
    printf("%s\n%d runs, %d wrong elements\n", shingle_plan_reason(all[0].plan), 1 + REPLAYS,
           wrong);
    shingle_close(ranks, comm); /* before what its runs read and stored */
    for (int r = 0; r < ranks; r++) close_rank(&all[r]);
    return wrong != 0;
}
