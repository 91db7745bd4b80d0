// What a collective's bytes cost a product that waits for none of them: two GPUs, cuBLASLt's best beside copies by the engines.
//
//     lab_beside SUITE OUT.json [seconds=N]     lines of SUITE: problems of two ranks, as `shingle bench` takes them
//
// Nothing waits for anything here, nothing is added up, no SM is taken and no flag raised: as many bytes as the collective moves leave
// each GPU while its product runs.  A plan that takes longer does so because of its own product, of what it adds up and of what waits,
// and not because bytes pass.  Times as `shingle bench` takes them: by themselves behind a rest, short ones also back to back, the better
// median, the slower GPU.
#include "data.cuh"
#include "kernel/start.h"
#include <algorithm>
#include <unistd.h>

enum { RANKS = 2, SETS = 4, GEMM = 1, COPIES = 2, BOTH = 3 };

struct Rank {
    Vendor vendor;
    cudaStream_t stream[2];  // of the product, of the copies
    cudaEvent_t begin, end[2];
    char *a[SETS], *b[SETS], *c[SETS], *from, *landing;
};

struct Problem {
    char op[16];
    int m, n, k;
    size_t sent;  // bytes that leave a rank
};

static Rank rank[RANKS];
static uint32_t *line;

static void gemm(int r, int algo, int set) { rank[r].vendor.run(algo, rank[r].a[set], rank[r].b[set], rank[r].c[set], rank[r].stream[0]); }

// From the line that all streams start from to the end of the last: RUNS of each of PARTS, us a run.
static double run(const Problem &p, int parts, int algo, int runs, int sets) {
    static int turn;
    usleep(200);
    for (int r = 0; r < RANKS; ++r) {
        CHECK(cudaSetDevice(r));
        for (int s = 0; s < 2; ++s)
            if (parts & 1 << s) CHECK(sg_kernel_start(line, *line + 1, 2000000000, rank[r].stream[s]));
        CHECK(cudaEventRecord(rank[r].begin, rank[r].stream[parts & GEMM ? 0 : 1]));
        for (int i = 0; i < runs; ++i) {
            if (parts & GEMM) gemm(r, algo, (turn + i) % sets);
            if (parts & COPIES) CHECK(cudaMemcpyPeerAsync(rank[1 - r].landing, 1 - r, rank[r].from, r, p.sent, rank[r].stream[1]));
        }
        for (int s = 0; s < 2; ++s)
            if (parts & 1 << s) CHECK(cudaEventRecord(rank[r].end[s], rank[r].stream[s]));
    }
    ++turn;
    *(volatile uint32_t *)line = *line + 1;
    double most = 0;
    for (int r = 0; r < RANKS; ++r) {
        CHECK(cudaSetDevice(r));
        for (int s = 0; s < 2; ++s) {
            float ms = 0;
            if (!(parts & 1 << s)) continue;
            CHECK(cudaEventSynchronize(rank[r].end[s]));
            CHECK(cudaEventElapsedTime(&ms, rank[r].begin, rank[r].end[s]));
            most = std::max(most, 1000.0 * ms / runs);
        }
    }
    return most;
}

static double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

static void open_rank(int r) {
    Rank &x = rank[r];
    CHECK(cudaSetDevice(r));
    CHECK(cudaDeviceEnablePeerAccess(1 - r, 0));
    x.vendor.open();
    for (int s = 0; s < 2; ++s) CHECK(cudaStreamCreateWithFlags(&x.stream[s], cudaStreamNonBlocking)), CHECK(cudaEventCreate(&x.end[s]));
    CHECK(cudaEventCreate(&x.begin));
    CHECK(cudaMalloc(&x.a[0], 8ull << 30)), CHECK(cudaMalloc(&x.c[0], 4ull << 30)), CHECK(cudaMalloc(&x.from, 1ull << 30)), CHECK(cudaMalloc(&x.landing, 1ull << 30));
}

// As many sets of operands as make the L2 cold; every algorithm once, since a kernel's first launch loads it, and would wait for the line.
static int prepare(const Problem &p) {
    const size_t a = (size_t)p.m * p.k * 2, b = (size_t)p.n * p.k * 2, c = (size_t)p.m * p.n * 2;
    const int sets = (int)std::min<size_t>(SETS, 1 + (192u << 20) / (a + b + c));
    for (int r = 0; r < RANKS; ++r) {
        Rank &x = rank[r];
        CHECK(cudaSetDevice(r));
        x.vendor.shape(p.m, p.n, p.k, TYPE_BF16);
        for (int i = 0; i < sets; ++i) x.a[i] = x.a[0] + i * (a + b), x.b[i] = x.a[i] + a, x.c[i] = x.c[0] + i * c;
        fill_run(TYPE_BF16, x.a[0], (int64_t)(sets * (a + b)) / 2, 1234 + r, NORMAL);
        fill_run(TYPE_BF16, x.from, (int64_t)p.sent / 2, 77 + r, NORMAL);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < x.vendor.algos; ++i) gemm(r, i, 0);
        CHECK(cudaDeviceSynchronize());
    }
    return sets;
}

static void measure(const Problem &p, double seconds, FILE *json) {
    const int sets = prepare(p);
    int best = 0;
    double least = 1e30;
    for (int i = 0; i < rank[0].vendor.algos; ++i) {
        const double us = std::min(run(p, GEMM, i, 1, sets), run(p, GEMM, i, 1, sets));
        if (us < least) least = us, best = i;
    }
    const int many = least < 2000 ? std::max(2, std::min(64, (int)(5000 / least))) : 0;
    const double round_us = 3 * (least + 400) + (many ? 15000 : 0);
    const int rounds = std::max(5, std::min(60, (int)(seconds * 1e6 / round_us)));
    std::vector<double> one[BOTH + 1], lots[BOTH + 1];
    double us[BOTH + 1];
    for (int i = 0; i < rounds; ++i)
        for (int j = 0; j < BOTH; ++j) {
            const int parts = 1 + (i + j) % BOTH;
            one[parts].push_back(run(p, parts, best, 1, sets));
            if (many) lots[parts].push_back(run(p, parts, best, many, sets));
        }
    for (int parts = GEMM; parts <= BOTH; ++parts) us[parts] = many ? std::min(median(one[parts]), median(lots[parts])) : median(one[parts]);
    const double alone = median(one[BOTH]) / median(one[GEMM]);
    printf("%-8s %6d %6d %6d product %8.1f copies %8.1f both %8.1f us %.3f, by themselves %.3f\n", p.op, p.m, p.n, p.k, us[GEMM], us[COPIES], us[BOTH], us[BOTH] / us[GEMM], alone);
    fflush(stdout);
    fprintf(json,
            "{\"op\":\"%s\",\"m\":%d,\"n\":%d,\"k\":%d,\"sent_bytes\":%zu,\"gemm_us\":%.2f,\"copies_us\":%.2f,\"both_us\":%.2f,\"both/gemm\":%.4f,"
            "\"by_themselves\":%.4f,\"rounds\":%d}",
            p.op, p.m, p.n, p.k, p.sent, us[GEMM], us[COPIES], us[BOTH], us[BOTH] / us[GEMM], alone, rounds);
}

int main(int argc, char **argv) {
    double seconds = 60;
    if (argc > 3) sscanf(argv[3], "seconds=%lf", &seconds);
    FILE *suite = argc > 2 ? fopen(argv[1], "r") : nullptr, *json = argc > 2 ? fopen(argv[2], "w") : nullptr;
    if (!suite || !json) return fprintf(stderr, "lab_beside SUITE OUT.json [seconds=N]\n"), 1;
    CHECK(cudaHostAlloc(&line, 4, cudaHostAllocMapped | cudaHostAllocPortable));
    *line = 0;
    for (int r = 0; r < RANKS; ++r) open_rank(r);
    std::vector<Problem> problems;
    char text[512];
    while (fgets(text, sizeof text, suite)) {
        Problem p;
        if (sscanf(text, "%15[a-z_]:bf16:%dx%dx%d:r2", p.op, &p.m, &p.n, &p.k) != 4) continue;
        const size_t half = (size_t)p.m / 2 * 2;  // bytes of half of the rows, a column
        p.sent = !strcmp(p.op, "ag_gemm") ? half * p.k : !strcmp(p.op, "gemm_rs") ? half * p.n : 2 * half * p.n;
        problems.push_back(p);
    }
    fprintf(json, "[");
    for (size_t i = 0; i < problems.size(); ++i) {
        fprintf(json, "%s", i ? ",\n" : "");
        measure(problems[i], seconds / problems.size(), json);
    }
    fprintf(json, "]\n");
    return fclose(json);
}
