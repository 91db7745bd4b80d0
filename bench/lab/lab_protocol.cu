// What a run in one launch costs, and how fast launches carry rows: two ranks, on two GPUs or on one.
//
//     lab_protocol [same] [out=x.json]     same: both ranks on GPU 0
//
// Times are of graphs of 20 launches a rank, both at once, the slower rank's; a gather's result is compared bit by bit with a
// product of the whole A by the same tiles.
#include "data.cuh"
#include "kernel/kernel.h"
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

enum { RANKS = 2, RUNS = 20, PAGES = 2 };
typedef __nv_bfloat16 T;

static bool same;
static void go(int r) { CHECK(cudaSetDevice(same ? 0 : r)); }

template <class X> static X *device(size_t count) {
    X *p;
    CHECK(cudaMalloc(&p, count * sizeof(X) + 256));
    CHECK(cudaMemset(p, 0, count * sizeof(X)));
    return p;
}
template <class X> static X *upload(const std::vector<X> &v) {
    X *p = device<X>(v.size() + 1);
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(X), cudaMemcpyHostToDevice));
    return p;
}

static sg_kernel_words words[RANKS];
static sg_kernel_rank *state[RANKS];
static sg_kernel_trouble *trouble;
static cudaStream_t stream[RANKS];
static int sms;

static void open_ranks() {
    CHECK(cudaHostAlloc(&trouble, RANKS * sizeof *trouble, cudaHostAllocMapped | cudaHostAllocPortable));
    memset(trouble, 0, RANKS * sizeof *trouble);
    for (int r = 0; r < RANKS; ++r) {
        go(r);
        if (!same) CHECK(cudaDeviceEnablePeerAccess(1 - r, 0));
        CHECK(sg_kernel_load());
        words[r] = {};
        words[r].done = device<uint64_t>(RANKS), words[r].abort = device<uint64_t>(RANKS), words[r].hello = device<sg_kernel_hello>(2 * RANKS);
        for (int p = 0; p < PAGES; ++p) words[r].flag[p] = device<uint64_t>(RANKS * 256);
        CHECK(cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking));
    }
    for (int r = 0; r < RANKS; ++r) {
        go(r);
        sg_kernel_rank k = {};
        k.epoch = 1, k.prev_half = 1, k.rank = r, k.ranks = RANKS, k.limit_ns = 200000000;
        k.words = upload(std::vector<sg_kernel_words>(words, words + RANKS));
        CHECK(cudaHostGetDevicePointer((void **)&k.trouble, trouble + r, 0));
        state[r] = upload(std::vector<sg_kernel_rank>(1, k));
    }
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
}

static sg_area area(int rank, int place, int row0, int rows, int cols) {
    sg_area a = {};
    a.rank = (int16_t)rank, a.buf = (uint8_t)place, a.row0 = row0, a.rows = rows, a.cols = cols;
    return a;
}
static sg_kernel_place place_of(void *low, void *high, int rows, int cols) {
    sg_kernel_place p = {};
    p.data[0] = low, p.data[1] = high, p.rows = rows, p.cols = cols, p.pitch = cols * (int64_t)sizeof(T);
    return p;
}

// One rank's gather: own rows from A, the other's from where it pushes them.
struct Rank {
    std::vector<sg_patch> patch;
    std::vector<sg_wait> wait;
    std::vector<sg_area> to;
    std::vector<sg_raise> raise;
    std::vector<sg_kernel_step> push;
    sg_kernel_lists lists;
    std::unique_ptr<sg_kernel_gemm> gemm{new sg_kernel_gemm()};
    T *a, *b, *c, *want, *sym[2];
};
struct Ask {
    int m, n, k, chunk, tm, tn;
    bool push;
};

static void make(Rank *all, int r, const Ask &q) {
    Rank &x = all[r];
    const int own = q.m / RANKS, other = 1 - r;
    sg_wait w = {};
    w.by = (int16_t)other, w.per = SG_PER_ROWS, w.row0 = other * own, w.rows = own, w.chunk = q.chunk, w.chunks_k = 1;
    x.wait.push_back(w);
    for (int i = 0; i < RANKS && q.n > 0; ++i) {
        sg_patch p = {};
        const int at = (r + i) % RANKS;
        p.row0 = at * own, p.rows = own, p.cols = q.n, p.k1 = q.k, p.raster = SG_GROUPED, p.width = 16, p.final = 1;
        p.a = area(r, i ? 3 + r : 0, i ? at * own : 0, own, q.k), p.b = area(r, 1, 0, q.n, q.k);
        p.waits = (uint16_t)(i && q.push), p.to0 = i, p.tos = 1;
        x.to.push_back(area(r, 2, at * own, own, q.n));
        x.patch.push_back(p);
    }
    for (int row = 0, flag = 0; row < own && q.push; row += q.chunk, ++flag) {
        sg_kernel_step s = {};
        s.step = flag, s.src = area(r, 0, row, std::min(q.chunk, own - row), q.k);
        s.to0 = (int)x.to.size(), s.tos = 1, s.raise0 = flag, s.raises = 1;
        s.ticket = device<uint32_t>(1);
        x.to.push_back(area(other, 3 + other, r * own + row, s.src.rows, q.k));
        sg_raise up = {};
        up.at = (int16_t)other, up.flag0 = flag, up.counter = -1;
        x.raise.push_back(up);
        x.push.push_back(s);
        sg_wait end = w;
        end.per = SG_PER_PATCH, end.flag0 = flag;
        x.wait.push_back(end);
    }
    x.lists = {x.patch.data(), x.wait.data(), nullptr, x.to.data(), x.raise.data()};
    sg_kernel_program program = {};
    program.rank = state[r], program.patch = upload(x.patch), program.wait = upload(x.wait), program.to = upload(x.to);
    program.raise = upload(x.raise), program.type = SG_KERNEL_BF16, program.hash = 7, program.own = words[r];
    program.place[0] = place_of(x.a, x.a, own, q.k), program.place[1] = place_of(x.b, x.b, std::max(q.n, 1), q.k);
    program.place[2] = place_of(x.c, x.c, q.m, std::max(q.n, 8));
    for (int i = 0; i < RANKS; ++i) program.place[3 + i] = place_of(all[i].sym[0], all[i].sym[1], q.m, q.k);
    const char *why = sg_kernel_gemm_make(x.gemm.get(), &program, &x.lists, 0, 0, (int)x.patch.size(), q.tm, q.tn, same ? sms / 8 * 2 : 0);
    x.gemm->param.push = x.push.empty() ? nullptr : upload(x.push), x.gemm->param.pushes = (int)x.push.size();
    if (!why) why = sg_kernel_gemm_aim(x.gemm.get());
    if (why) printf("%s\n", why), exit(1);
}

// Microseconds of a launch; without TURN it is a product and nothing else.
static double time_runs(Rank *all, bool protocol, bool waits) {
    cudaGraphExec_t exec[RANKS];
    cudaEvent_t from[RANKS], to[RANKS];
    for (int r = 0; r < RANKS; ++r) {
        go(r);
        sg_kernel_protocol &t = all[r].gemm->param.protocol;
        t = {};
        t.ranks = RANKS;
        if (protocol) t.begin = t.hello = t.gate = t.end = t.done = 1, t.wait0 = 1, t.waits = waits ? all[r].gemm->param.pushes : 0;
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(stream[r], cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < RUNS; ++i) CHECK(sg_kernel_gemm_run(all[r].gemm.get(), SG_KERNEL_EARLY, stream[r]));
        CHECK(cudaStreamEndCapture(stream[r], &graph));
        CHECK(cudaGraphInstantiate(&exec[r], graph, 0));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaEventCreate(&from[r]));
        CHECK(cudaEventCreate(&to[r]));
    }
    std::vector<double> us;
    for (int round = 0; round < 6; ++round) {
        for (int r = 0; r < RANKS; ++r) go(r), CHECK(cudaEventRecord(from[r], stream[r])), CHECK(cudaGraphLaunch(exec[r], stream[r])), CHECK(cudaEventRecord(to[r], stream[r]));
        float most = 0;
        for (int r = 0; r < RANKS; ++r) {
            float ms;
            go(r);
            CHECK(cudaEventSynchronize(to[r]));
            CHECK(cudaEventElapsedTime(&ms, from[r], to[r]));
            most = std::max(most, ms);
        }
        if (round) us.push_back(most * 1e3 / RUNS);
    }
    for (int r = 0; r < RANKS; ++r)
        if (trouble[r].kind) printf("rank %d: trouble %u by %d step %d flag %d late %u\n", r, trouble[r].kind, trouble[r].by, trouble[r].step, trouble[r].flag, trouble[r].late), exit(1);
    for (int r = 0; r < RANKS; ++r) CHECK(cudaGraphExecDestroy(exec[r]));
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
}

static __global__ void differ(const T *x, const T *y, int64_t count, unsigned long long *out) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64_t)blockDim.x)
        if (__bfloat16_as_ushort(x[i]) != __bfloat16_as_ushort(y[i])) atomicAdd(out, 1ull);
}

static FILE *out;
static void line(const char *what, const Ask &q, double us, double plain, double protocol, double gbps, unsigned long long wrong) {
    printf("%-8s m %5d n %5d k %5d chunk %5d  %8.2f us  plain %8.2f  with protocol %8.2f  %6.1f GB/s  wrong %llu\n", what, q.m, q.n, q.k, q.chunk, us, plain, protocol, gbps, wrong), fflush(stdout);
    if (out) fprintf(out, "{\"what\":\"%s\",\"same\":%d,\"m\":%d,\"n\":%d,\"k\":%d,\"chunk\":%d,\"us\":%.3f,\"plain_us\":%.3f,\"protocol_us\":%.3f,\"gbps\":%.1f,\"wrong\":%llu}\n", what, same, q.m, q.n, q.k, q.chunk, us, plain, protocol, gbps, wrong), fflush(out);
}

static void measure(const char *what, const Ask &q) {
    Rank all[RANKS];
    const int own = q.m / RANKS, cols = std::max(q.n, 8);
    for (int r = 0; r < RANKS; ++r) {
        go(r);
        Rank &x = all[r];
        x.a = device<T>((size_t)std::max(own, 1) * q.k), x.b = device<T>((size_t)std::max(q.n, 1) * q.k), x.c = device<T>((size_t)q.m * cols), x.want = device<T>((size_t)q.m * cols);
        T *both = device<T>(2 * (size_t)q.m * q.k);
        x.sym[0] = both, x.sym[1] = both + (size_t)q.m * q.k;
        fill<<<256, 256>>>(x.a, (int64_t)own * q.k, 11 + r, INTEGER);
        fill<<<256, 256>>>(x.b, (int64_t)std::max(q.n, 1) * q.k, 5, INTEGER);
        CHECK(cudaDeviceSynchronize());
    }
    double plain = 0, protocol = 0;
    unsigned long long wrong = 0;
    if (q.n > 0) {  // the same tiles of rows that are all there already
        Rank local[RANKS];
        Ask alone = q;
        alone.push = false;
        for (int r = 0; r < RANKS; ++r) {
            local[r].a = all[r].a, local[r].b = all[r].b, local[r].c = all[r].want, local[r].sym[0] = all[r].sym[0], local[r].sym[1] = all[r].sym[1];
            for (int i = 0; i < RANKS; ++i)
                for (int half = 0; half < 2; ++half) CHECK(cudaMemcpy(all[r].sym[half] + (size_t)i * own * q.k, all[i].a, (size_t)own * q.k * sizeof(T), cudaMemcpyDefault));
        }
        for (int r = 0; r < RANKS; ++r) go(r), make(local, r, alone);
        plain = time_runs(local, false, false);
        protocol = time_runs(local, true, false);
        for (int r = 0; r < RANKS; ++r)
            for (int half = 0; half < 2; ++half) CHECK(cudaMemset(all[r].sym[half], 0xff, (size_t)q.m * q.k * sizeof(T)));
    }
    for (int r = 0; r < RANKS; ++r) go(r), make(all, r, q);
    const double us = time_runs(all, true, true);
    for (int r = 0; r < RANKS; ++r) {
        go(r);
        unsigned long long *count = device<unsigned long long>(1), host;
        if (q.n > 0) differ<<<256, 256>>>(all[r].c, all[r].want, (int64_t)q.m * cols, count);
        for (int half = 0; half < 2 && q.push; ++half) differ<<<256, 256>>>(all[r].sym[half] + (size_t)(1 - r) * own * q.k, all[1 - r].a, (int64_t)own * q.k, count);
        CHECK(cudaMemcpy(&host, count, 8, cudaMemcpyDeviceToHost));
        wrong += host;
    }
    line(what, q, us, plain, protocol, q.push ? (double)own * q.k * sizeof(T) / us / 1e3 : 0, wrong);
    for (int r = 0; r < RANKS; ++r) {
        go(r);
        CHECK(cudaFree(all[r].a)), CHECK(cudaFree(all[r].b)), CHECK(cudaFree(all[r].c)), CHECK(cudaFree(all[r].want)), CHECK(cudaFree(all[r].sym[0]));
    }
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        if (!strcmp(argv[i], "same")) same = true;
        if (!strncmp(argv[i], "out=", 4)) out = fopen(argv[i] + 4, "w");
    }
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    same |= count < RANKS;
    printf("two ranks on %s\n", same ? "one GPU" : "two GPUs");
    open_ranks();
    measure("protocol", {2, 0, 64, 1, 128, 256, false});
    for (int mb : {1, 2, 4, 8, 16, 64}) measure("carry", {mb * 128, 0, 8192, std::max(mb * 64 / 4, 16), 128, 256, true});
    measure("carry", {512, 0, 8192, 256, 128, 256, true});
    // Tiles that leave SMs for couriers: of 32 a rank (one GPU), of 132.
    const int left[][3] = {{512, 3584, 8192}, {512, 4096, 8192}, {512, 28672, 8192}};
    for (auto &s : left)
        for (int parts : {1, 4}) measure("left", {s[0], s[1], s[2], s[0] / 2 / parts, 128, s[1] < 28672 ? 128 : 224, true});
    const int shapes[][3] = {{512, 2560, 8192}, {512, 14336, 8192}, {1024, 2560, 8192}, {2048, 2560, 8192}, {2048, 14336, 8192}, {8192, 2560, 8192}};
    for (auto &s : shapes)
        for (int parts : {1, 4}) measure("gather", {s[0], s[1], s[2], s[0] / 2 / parts, 128, s[0] < 1024 ? 128 : 256, true});
    return 0;
}
