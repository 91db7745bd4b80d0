// What an all-reduce of few rows costs beside its product, by flags and by tagged data: two to four ranks on one GPU, which
// tells what the protocol costs even without a link.
//
//     lab_tagged [ranks=2] [blocks=44] [out=x.json] [check]
//
// Every rank has BLOCKS SMs and as many columns as these have tiles.  Times are of graphs of RUNS launches a rank, all at once, the
// slowest rank's, over SETS sets of operands.  First, what comes out of runs in changing order is compared bit by bit with the sum of
// the ranks' products, NaNs among them, and all words must be at rest again; then a rank stays away, and the others must stop in time.
#include "kernel/stamp.cuh"
#include "world.h"
#include <memory>
#include <string>

enum { RUNS = 32, SETS = 4 };
typedef __nv_bfloat16 T;

static int ranks = 2, blocks = 44, sms;
static World world;
static cudaStream_t stream[MOST_RANKS];
static FILE *out;

enum Way { ALONE, TURN, FLAGS, TAGGED, WAYS };
static const char *const way_name[WAYS] = {"alone", "with protocol", "flags", "tagged"};

struct Ask {
    int m, n, k, tm, tn;
    int tiles() const { return lab_ceil(m, tm) * lab_ceil(n, tn); }
};

// One rank's operands.
struct Set {
    T *a, *b, *c, *part;
};
struct Rank {
    Set set[SETS];
    T *inbox[2], *words[2];
    T *bias;
};
static Rank rank[MOST_RANKS];

static void open_set(const Ask &q) {
    for (int r = 0; r < ranks; ++r) {
        for (int s = 0; s < SETS; ++s) {
            Set &x = rank[r].set[s];
            x.a = device<T>((size_t)q.m * q.k), x.b = device<T>((size_t)q.n * q.k);
            x.c = device<T>((size_t)q.m * q.n), x.part = device<T>((size_t)q.m * q.n);
            fill<<<512, 256>>>(x.a, (int64_t)q.m * q.k, 17 * r + s, NORMAL);
            fill<<<512, 256>>>(x.b, (int64_t)q.n * q.k, 1700 + 17 * r + s, NORMAL);
            if (s == 1 && r == 0) CHECK(cudaMemset(x.a + (int64_t)(q.m / 2) * q.k, 0xff, 2));  // a NaN, as words at rest are
        }
        const size_t places = (size_t)ranks * q.tiles() * q.tm * q.tn;
        for (int half = 0; half < 2; ++half) {
            rank[r].inbox[half] = device<T>((size_t)ranks * q.m * q.n), rank[r].words[half] = device<T>(places);
            CHECK(cudaMemset(rank[r].words[half], 0xff, 2 * places)); // at rest
        }
    }
    CHECK(cudaDeviceSynchronize());
}
static void close_set() {
    for (int r = 0; r < ranks; ++r) {
        for (Set &x : rank[r].set) CHECK(cudaFree(x.a)), CHECK(cudaFree(x.b)), CHECK(cudaFree(x.c)), CHECK(cudaFree(x.part));
        for (int half = 0; half < 2; ++half) CHECK(cudaFree(rank[r].inbox[half])), CHECK(cudaFree(rank[r].words[half]));
    }
}

// A rank's plan, and its launches: one for each set.
struct Plan {
    Lists l;
    std::unique_ptr<sg_kernel_gemm> gemm[SETS];
};

static sg_area tiled(int at, int from, const Ask &q) {
    sg_area a = Lists::area(at, 8 + at, from * q.tiles() * q.tm, q.tiles() * q.tm, 0, q.tn);
    a.tiled = 1;
    return a;
}

// The next wider tile of as many rows, since products alone are not served by all that sums are.
static int wider(int tn) { return tn < 64 ? 64 : tn < 112 ? 112 : tn < 128 ? 128 : 0; }

// False: there is no kernel that serves it by flags.
static bool make(Plan &x, int r, const Ask &q, Way way) {
    sg_patch &p = x.l.rect(0, q.m, q.n, q.k, Lists::area(r, 0, 0, q.m, 0, q.k), Lists::area(r, 1, 0, q.n, 0, q.k), 16);
    p.final = way < FLAGS;
    if (way < FLAGS) x.l.store(Lists::area(r, 2, 0, q.m, 0, q.n));
    for (int i = 1; i <= ranks && way >= FLAGS; ++i) {
        const int at = (r + i) % ranks;
        x.l.store(way == TAGGED ? tiled(at, r, q) : Lists::area(at, 4 + at, 0, q.m, r * q.n, q.n));
        x.l.raises(at, SG_PER_TILE, 0);
    }
    if (way >= FLAGS) {
        x.l.rect(0, q.m, q.n, 0, Lists::area(r, 0, 0, q.m, 0, 0), Lists::area(r, 1, 0, q.n, 0, 0), 16);
        for (int from = 0; from < ranks; ++from) {
            sg_wait w = {};
            w.by = (int16_t)from, w.per = SG_PER_TILE;
            x.l.adds(way == TAGGED ? tiled(r, from, q) : Lists::area(r, 4 + r, 0, q.m, from * q.n, q.n), &w);
        }
        x.l.store(Lists::area(r, 2, 0, q.m, 0, q.n));
    }
    x.l.program.own = world.words[r], x.l.program.hash = 7;
    x.l.finish(world.rank[r], SG_KERNEL_BF16);
    x.l.program.own = world.words[r];
    sg_kernel_place *place = x.l.program.place;
    for (int i = 0; i < ranks; ++i) {
        place[4 + i] = place_of(rank[i].inbox[0], rank[i].inbox[1], q.m, ranks * q.n, ranks * q.n, 2);
        place[8 + i] = place_of(rank[i].words[0], rank[i].words[1], ranks * q.tiles() * q.tm, q.tn, q.tn, 2);
        place[8 + i].tagged = 1;
    }
    for (int s = 0; s < SETS; ++s) {
        Set &o = rank[r].set[s];
        place[0] = place_of(o.a, nullptr, q.m, q.k, q.k, 2), place[1] = place_of(o.b, nullptr, q.n, q.k, q.k, 2);
        place[2] = place_of(way < FLAGS ? o.part : o.c, nullptr, q.m, q.n, q.n, 2);
        sg_kernel_gemm *g = new sg_kernel_gemm();
        x.gemm[s].reset(g);
        const char *why = nullptr;
        for (int tn = q.tn; tn > 0 && (tn == q.tn || (why && way < FLAGS)); tn = wider(tn)) {
            why = sg_kernel_gemm_make(g, &x.l.program, &x.l.host, 0, 0, (int)x.l.patch.size(), q.tm, tn, blocks);
            g->want_cluster = 1;
            if (!why) why = sg_kernel_gemm_aim(g);
            if (!why) why = g->slow;
        }
        if (why && way == FLAGS) return false;
        if (why) printf("%s: %s\n", way_name[way], why), exit(1);
        sg_kernel_protocol &t = g->param.protocol;
        t.ranks = ranks;
        if (way > ALONE) t.begin = t.hello = t.gate = t.end = t.done = 1;
    }
    return true;
}

#ifdef SHINGLE_STAMPS
// Medians over the blocks of what one rank's last launch noted, in cycles since the block's first note.
static void show_stamps(const char *what) {
    static Stamps *s = new Stamps();
    CHECK(sg_kernel_stamps(0, s));
    printf("%s:", what);
    for (int role = 0; role < STAMP_ROLES; ++role)
        for (int e = 0; e < STAMP_EVENTS; ++e) {
            std::vector<int64_t> at;
            for (int b = 0; b < blocks; ++b)
                for (int i = 0; i < s->count[b][role] && i < STAMP_MOST; ++i)
                    if (s->stamp[b][role][i].event == e) {
                        at.push_back((int32_t)(s->stamp[b][role][i].clock - s->stamp[b][0][0].clock));
                        break;
                    }
            std::sort(at.begin(), at.end());
            if (!at.empty()) printf(" %d.%d %lld..%lld", role, e, (long long)at[at.size() / 2], (long long)at.back());
        }
    printf("\n");
}
#else
static void show_stamps(const char *) {}
#endif

static bool troubled() {
    bool any = false;
    for (int r = 0; r < ranks; ++r)
        if (world.trouble[r].kind)
            printf("rank %d: trouble %u by %d step %d visit %d flag %d late %u\n", r, world.trouble[r].kind, world.trouble[r].by, world.trouble[r].step,
                   world.trouble[r].visit, world.trouble[r].flag, world.trouble[r].late), any = true;
    return any;
}

static double time_runs(Plan *plan) {
    cudaGraphExec_t exec[MOST_RANKS];
    cudaEvent_t from[MOST_RANKS], to[MOST_RANKS];
    for (int r = 0; r < ranks; ++r) {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(stream[r], cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < RUNS; ++i) CHECK(sg_kernel_gemm_run(plan[r].gemm[i % SETS].get(), SG_KERNEL_EARLY, stream[r]));
        CHECK(cudaStreamEndCapture(stream[r], &graph));
        CHECK(cudaGraphInstantiate(&exec[r], graph, 0));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaEventCreate(&from[r])), CHECK(cudaEventCreate(&to[r]));
    }
    std::vector<double> us;
    for (int round = 0; round < 12; ++round) {
        for (int r = 0; r < ranks; ++r) CHECK(cudaEventRecord(from[r], stream[r])), CHECK(cudaGraphLaunch(exec[r], stream[r])), CHECK(cudaEventRecord(to[r], stream[r]));
        float most = 0;
        for (int r = 0; r < ranks; ++r) {
            float ms;
            CHECK(cudaEventSynchronize(to[r]));
            CHECK(cudaEventElapsedTime(&ms, from[r], to[r]));
            most = std::max(most, ms);
        }
        if (round > 1) us.push_back(most * 1e3 / RUNS);
    }
    for (int r = 0; r < ranks; ++r) CHECK(cudaGraphExecDestroy(exec[r])), CHECK(cudaEventDestroy(from[r])), CHECK(cudaEventDestroy(to[r]));
    if (troubled()) exit(1);
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
}

struct Parts {
    const T *part[MOST_RANKS];
};
static __global__ void differ(Parts parts, int ranks, const T *c, int64_t count, unsigned long long *wrong) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64_t)blockDim.x) {
        float sum = -0.f;
        for (int r = 0; r < ranks; ++r) sum += (float)parts.part[r][i];
        if (__bfloat16_as_ushort((T)sum) != __bfloat16_as_ushort(c[i])) atomicAdd(wrong, 1ull);
    }
}

static __global__ void stir(const T *words, int64_t count, unsigned long long *wrong) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64_t)blockDim.x)
        if (__bfloat16_as_ushort(words[i]) != 0xffff) atomicAdd(wrong, 1ull);
}

// Elements that are not the rounded sum of the rounded products; C is poisoned first, and every set is run several times; and words that are not at rest behind that.
static unsigned long long check(Plan *plan, const Ask &q) {
    for (int r = 0; r < ranks; ++r)
        for (Set &x : rank[r].set) CHECK(cudaMemset(x.c, 0xff, (size_t)q.m * q.n * 2));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 5 * SETS + 1; ++i)
        for (int r = 0; r < ranks; ++r) CHECK(sg_kernel_gemm_run(plan[r].gemm[i * 3 % SETS].get(), i % 5 ? SG_KERNEL_EARLY : 0, stream[r]));
    CHECK(cudaDeviceSynchronize());
    if (troubled()) exit(1);
    static unsigned long long *count = device<unsigned long long>(1);
    unsigned long long host;
    CHECK(cudaMemset(count, 0, 8));
    for (int s = 0; s < SETS; ++s) {
        Parts parts = {};
        for (int r = 0; r < ranks; ++r) parts.part[r] = rank[r].set[s].part;
        for (int r = 0; r < ranks; ++r) differ<<<256, 256>>>(parts, ranks, rank[r].set[s].c, (int64_t)q.m * q.n, count);
    }
    for (int r = 0; r < ranks; ++r)
        for (const T *words : rank[r].words) stir<<<256, 256>>>(words, (int64_t)ranks * q.tiles() * q.tm * q.tn, count);
    CHECK(cudaMemcpy(&host, count, 8, cudaMemcpyDeviceToHost));
    return host;
}

static unsigned long long all_wrong;

static void measure(const Ask &q, bool timed) {
    open_set(q);
    double us[WAYS] = {};
    unsigned long long wrong[WAYS] = {};
    for (int w = 0; w < WAYS; ++w) {
        std::vector<Plan> plan(ranks);
        bool served = true;
        for (int r = 0; r < ranks; ++r) served &= make(plan[r], r, q, (Way)w);
        if (!served) continue;
        if (w == ALONE)
            for (int r = 0; r < ranks; ++r) {
                for (auto &g : plan[r].gemm) CHECK(sg_kernel_gemm_run(g.get(), 0, stream[r]));
                CHECK(cudaDeviceSynchronize());
            }
        if (w >= FLAGS) wrong[w] = check(plan.data(), q), all_wrong += wrong[w];
        if (timed) us[w] = time_runs(plan.data());
        if (timed && ranks == 1) show_stamps(way_name[w]);
        CHECK(cudaDeviceSynchronize());
    }
    printf("%d ranks  %4d x %5d x %5d  %3d x %3d  units %3d | alone %6.2f  protocol %6.2f  flags %6.2f  tagged %6.2f | over alone: flags %5.2f tagged %5.2f | wrong %llu %llu\n", ranks,
           q.m, q.n, q.k, q.tm, q.tn, q.tiles(), us[ALONE], us[TURN], us[FLAGS], us[TAGGED], us[FLAGS] - us[ALONE], us[TAGGED] - us[ALONE], wrong[FLAGS], wrong[TAGGED]);
    fflush(stdout);
    if (out && timed)
        fprintf(out, "{\"ranks\":%d,\"m\":%d,\"n\":%d,\"k\":%d,\"tm\":%d,\"tn\":%d,\"alone_us\":%.3f,\"protocol_us\":%.3f,\"flags_us\":%.3f,\"tagged_us\":%.3f,\"wrong\":%llu}\n", ranks, q.m,
                q.n, q.k, q.tm, q.tn, us[ALONE], us[TURN], us[FLAGS], us[TAGGED], wrong[TAGGED] + wrong[FLAGS]), fflush(out);
    close_set();
}

// The last rank stays away: the others stop, name it, and nothing of the run is ended.
static void stay_away() {
    const Ask q = {40, 256, 512, 64, 64};
    open_set(q);
    std::vector<Plan> plan(ranks);
    for (int r = 0; r < ranks; ++r) make(plan[r], r, q, TAGGED);
    std::vector<sg_kernel_rank> before;
    for (int r = 0; r < ranks; ++r) {
        before.push_back(world.get(r));
        const uint64_t limit = 20000000;
        CHECK(cudaMemcpy((char *)world.rank[r] + offsetof(sg_kernel_rank, limit_ns), &limit, 8, cudaMemcpyHostToDevice));
    }
    for (int r = 0; r + 1 < ranks; ++r) CHECK(sg_kernel_gemm_run(plan[r].gemm[0].get(), 0, stream[r]));
    CHECK(cudaDeviceSynchronize());
    bool well = true;
    for (int r = 0; r + 1 < ranks; ++r) {
        const sg_kernel_trouble &t = world.trouble[r];
        printf("rank %d, alone: kind %u by %d visit %d flag %d late %u\n", r, t.kind, t.by, t.visit, t.flag, t.late);
        well &= t.kind != 0 && (!t.late || t.by == ranks - 1) && world.get(r).epoch == before[r].epoch && world.get(r).leaving == 0;
    }
    printf("%s\n", well ? "stopped as it should" : "WRONG: not stopped as it should");
    all_wrong += !well;
    close_set();
}

int main(int argc, char **argv) {
    bool timed = true;
    for (int i = 1; i < argc; ++i) {
        if (!strncmp(argv[i], "ranks=", 6)) ranks = atoi(argv[i] + 6);
        if (!strncmp(argv[i], "blocks=", 7)) blocks = atoi(argv[i] + 7);
        if (!strncmp(argv[i], "out=", 4)) out = fopen(argv[i] + 4, "a");
        if (!strcmp(argv[i], "check")) timed = false;
    }
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    if (ranks > 1) blocks = std::min(blocks, sms / (2 * ranks - 1));  // of the other ranks, two launches may be there before this one's first
    CHECK(sg_kernel_load());
    world.open(ranks, (1ull << 32) - 2, 200000000);
    for (int r = 0; r < ranks; ++r) CHECK(cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking));
    if (!timed) {
        for (int m : {1, 8, 16, 23, 64, 100, 128, 130})
            for (int tm : {64, 128})
                for (int tn : {32, 64, 96, 128})
                    if (tm == 64 || tn > 32) measure({m, m % 3 ? 4 * blocks / 2 * 32 + 8 : 1000, 512, tm, tn}, false);
    } else {
        // Llama 3 8B and 70B, two ranks: n 4096 and 8192; k 2048, 7168; 4096, 14336.  Of n, what the SMs are of all.
        for (int m : {16, 64, 128})
            for (int n : {4096, 8192})
                for (int k : {n / 2, n == 4096 ? 7168 : 14336})
                    for (int tm : {64, 128})
                        for (int tn : {32, 64, 128}) {
                            if (tn * 128 > 2 * n || tm > 64 + m / 2 || (tm == 128 && tn == 32)) continue;
                            const int bands = lab_ceil(m, tm), tiles = n / tn * bands;
                            if (tiles < 64 || tiles > 132) continue;
                            measure({m, std::min(tiles * blocks / 132 / bands, blocks / bands) * tn, k, tm, tn}, true);
                        }
    }
    stay_away();
    printf("%llu wrong\n", all_wrong);
    return all_wrong != 0;
}
