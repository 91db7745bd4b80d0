// What a run takes between kernels of others, which do not start early, as in a model, and back to back, as benchmarks have it: by
// the default plan of two GPUs, and not overlapped.  Graphs of sixteen runs, in turns; the others' kernels alone are subtracted.
//
//     lab_between PROBLEM ...         gemm_ar:bf16:16x4096x2048:r2:norm ...
#include "shingle.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

enum { RANKS = 2, RUNS = 16, TIMES = 25, BLOCKS = 132, THREADS = 256 };
// Graphs: of others' kernels, and of runs by the default plan and by `serial`, back to back and between others' kernels.
enum { PLANS = 2, OTHERS = 2 * PLANS, KINDS };

#define CUDA(call) must((call) == cudaSuccess, #call, "")
#define DONE(call) must((call) == SHINGLE_OK, #call, shingle_error())

static void must(bool well, const char *what, const char *why) {
    if (well) return;
    fprintf(stderr, "%s: %s %s\n", what, why, cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

static __global__ void others(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1.f; }

// bf16 of both signs, between 1/128 and 1/32.
static __global__ void fill(unsigned short *x, size_t count) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const unsigned hash = (unsigned)i * 2654435761u;
        x[i] = 0x3c00 + (hash >> 15 & 0x80ff) % 0x100 + (hash & 0x8000);
    }
}

static void *matrix(size_t rows, size_t cols) {
    void *data;
    CUDA(cudaMalloc(&data, rows * cols * 2));
    fill<<<BLOCKS, THREADS>>>((unsigned short *)data, rows * cols);
    CUDA(cudaDeviceSynchronize());
    return data;
}

struct Rank {
    shingle_comm *comm;
    shingle_plan *plan[PLANS] = {};
    shingle_tensors tensors = {};
    cudaStream_t stream;
    cudaEvent_t begin, end;
    cudaGraphExec_t graph[KINDS];
    float *x;

    void open(const char *problem, int m, int n, int k) {
        shingle_plan_options serial = {};
        serial.strategy = "serial";
        DONE(shingle_plan_create(comm, problem, NULL, &plan[0]));
        DONE(shingle_plan_create(comm, problem, &serial, &plan[1]));
        CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CUDA(cudaEventCreate(&begin));
        CUDA(cudaEventCreate(&end));
        CUDA(cudaMalloc(&x, BLOCKS * THREADS * sizeof *x));
        tensors.a = matrix(m, k), tensors.b = matrix(n, k), tensors.c = matrix(m, n);
        if (strstr(problem, ":norm") != nullptr) tensors.residual = matrix(m, n), tensors.gain = matrix(1, n);
    }
    void run(int i) { DONE(shingle_run_tensors(plan[i], &tensors, stream)); }
    void capture(int kind) {
        cudaGraph_t all;
        CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < RUNS; i++) {
            if (kind >= PLANS) others<<<BLOCKS, THREADS, 0, stream>>>(x);
            if (kind != OTHERS) run(kind % PLANS);
        }
        CUDA(cudaStreamEndCapture(stream, &all));
        CUDA(cudaGraphInstantiate(&graph[kind], all, 0));
        CUDA(cudaGraphDestroy(all));
    }
    void launch(int kind) {
        CUDA(cudaEventRecord(begin, stream));
        CUDA(cudaGraphLaunch(graph[kind], stream));
        CUDA(cudaEventRecord(end, stream));
    }
    float took() {
        float ms;
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaEventElapsedTime(&ms, begin, end));
        return ms * 1e3f / RUNS;
    }
    void close() {
        DONE(shingle_sync(comm, 5)); // no run has failed
        for (cudaGraphExec_t g : graph) CUDA(cudaGraphExecDestroy(g));
        for (shingle_plan *p : plan) shingle_plan_free(p);
        for (const void *p : {tensors.a, tensors.b, (const void *)tensors.c, (const void *)tensors.residual, tensors.gain, (const void *)x})
            CUDA(cudaFree((void *)p)); // or nothing
    }
};

template <class Do> static void on_each(Rank (&rank)[RANKS], Do what) {
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaSetDevice(r));
        what(rank[r]);
    }
}

static void time_problem(Rank (&rank)[RANKS], const char *problem) {
    int m, n, k;
    std::vector<float> us[KINDS];
    must(sscanf(problem, "%*[a-z_]:bf16:%dx%dx%d", &m, &n, &k) == 3, problem, "a product of bf16 is accepted");
    on_each(rank, [&](Rank &x) { x.open(problem, m, n, k); });
    for (int i = 0; i < 2 * PLANS; i++) on_each(rank, [&](Rank &x) { x.run(i % PLANS); });
    for (int kind = 0; kind < KINDS; kind++) on_each(rank, [&](Rank &x) { x.capture(kind); });
    for (int i = -3; i < TIMES; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            float most = 0;
            on_each(rank, [&](Rank &x) { x.launch(kind); });
            on_each(rank, [&](Rank &x) { most = std::max(most, x.took()); });
            if (i >= 0) us[kind].push_back(most);
        }
    for (auto &u : us) std::nth_element(u.begin(), u.begin() + TIMES / 2, u.end());
    const auto median = [&](int kind) { return us[kind][TIMES / 2]; };
    const auto between = [&](int i) { return median(PLANS + i) - median(OTHERS); };
    printf("%-44s %8.2f us between others' kernels, not overlapped %8.2f, %.3f x; back to back %8.2f, %8.2f, %.3f x\n", problem,
           between(0), between(1), between(1) / between(0), median(0), median(1), median(1) / median(0));
    fflush(stdout);
    on_each(rank, [](Rank &x) { x.close(); });
}

int main(int argc, char **argv) {
    shingle_config config = {};
    shingle_comm *comm[RANKS];
    Rank rank[RANKS];
    config.backend = "cuda", config.timeout_seconds = 5;
    DONE(shingle_open(RANKS, &config, comm));
    for (int r = 0; r < RANKS; r++) rank[r].comm = comm[r];
    for (int i = 1; i < argc; i++) time_problem(rank, argv[i]);
    DONE(shingle_close(RANKS, comm));
    return 0;
}
