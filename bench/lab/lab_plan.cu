// What the launch of any plan takes on one rank alone, when all that the others send is there: what the simulator says of waves, parts of
// k, slices, strips and addends, without a link.  After rests, in turns, beside cuBLASLt's best; own results against it.
//
//     lab_plan MACHINE [out=FILE.json] PROBLEM [STRATEGY{KNOBS} ...] [PROBLEM ...]
//
// Peers' memory is memory of this GPU.  Flags of others are up, own ones are raised anew in each launch (a kernel between two launches
// moves the epoch on); what others push or copy is there.
#include "kernel_check.h"
#include "plan_rank.h"
#include "runner.h"
#include <map>
#include <memory>

typedef __nv_bfloat16 T;
enum { ROUNDS = 9, MOST_SETS = 8, BUF_A = 0, BUF_B = 1, BUF_C = 2 };

static __global__ void next_epoch(sg_kernel_rank *rank) { rank->epoch += 2; }

struct Predicted : Runner {
    double alone_us = 0, predicted_us = 0;  // without links, with them; 0: cuBLASLt
};

struct Launches {
    lab_rank rank;
    Lists lists;
    std::vector<sg_kernel_gemm> gemm;
    std::vector<void *> memory, remake;
    ~Launches() {
        for (void *p : memory) cudaFree(p);
        for (void *p : remake) cudaFree(p);
    }
};

struct Bench {
    KernelCheck check;
    Vendor vendor;
    cudaEvent_t begin, end;
    char *pool, *want;
    size_t pool_bytes = 2ull << 30, out_bytes = 1ull << 30, set_bytes = 0, a_bytes = 0;
    int m = 0, n = 0, k = 0, ranks = 0, sets = 0;

    void open() {
        check.open(MOST_RANKS), vendor.open();
        CHECK(cudaEventCreate(&begin)), CHECK(cudaEventCreate(&end));
        CHECK(cudaMalloc(&pool, pool_bytes)), fill_run(TYPE_BF16, pool, pool_bytes / 2, 1234, NORMAL);
        CHECK(cudaMalloc(&want, out_bytes));
        for (int r = 0; r < MOST_RANKS; ++r)  // all flags are up, but those that a rank raises itself
            for (int page = 0; page < PAGES; ++page) {
                const size_t size = page ? 256 << (page - 1) : 256;
                CHECK(cudaMemset(check.world.words[r].flag[page], 0x7f, 8 * check.world.ranks * size));
                if (r == 0) CHECK(cudaMemset(check.world.words[r].flag[page], 0, 8 * size));
            }
    }
    char *a(int set) { return pool + set * set_bytes; }
    char *b(int set) { return a(set) + a_bytes; }

    // Empty, or why it cannot be.
    const char *make(Launches &l) {
        const lab_rank &r = l.rank;
        Lists &lists = l.lists;
        std::map<std::pair<int, int>, int> place_of_buffer;
        std::vector<char *> data;
        lists.patch.assign(r.patch, r.patch + r.patches), lists.wait.assign(r.wait, r.wait + r.waits), lists.add.assign(r.add, r.add + r.adds);
        lists.to.assign(r.to, r.to + r.tos), lists.raise.assign(r.raise, r.raise + r.raises), lists.raisers.assign(r.counter, r.counter + r.counters);
        if (r.flags > (256 << (PAGES - 1))) return "too many flags";
        const char *why = nullptr;
        auto name = [&](sg_area &area) {
            const lab_buffer &buf = r.buffer[area.buf];
            const auto key = std::make_pair((int)area.buf, (int)area.rank);
            if (!place_of_buffer.count(key)) {
                const int place = (int)place_of_buffer.size();
                if (buf.tagged || place == SG_KERNEL_PLACES) why = buf.tagged ? "tagged data" : "too many places";
                if (why) return;
                place_of_buffer[key] = place;
                const size_t bytes = (size_t)buf.rows * buf.cols * (buf.wide ? 4 : 2);
                char *p = nullptr;
                if (!(buf.user && area.buf <= BUF_B)) {
                    CHECK(cudaMalloc(&p, bytes + 1024)), CHECK(cudaMemset(p, 0, bytes + 1024));
                    l.memory.push_back(p);
                }
                lists.program.place[place] = place_of(p, nullptr, (int)buf.rows, (int)buf.cols, (int)buf.cols, buf.wide ? 4 : 2);
                lists.program.place[place].wide = buf.wide;
            }
            area.buf = (uint8_t)place_of_buffer[key], area.rank = 0, area.leave = 0;
        };
        for (sg_patch &p : lists.patch)
            if (p.k0 < p.k1) name(p.a), name(p.b);
        for (sg_addend &x : lists.add) name(x.area);
        for (sg_area &x : lists.to) name(x);
        if (why) return why;
        lists.program.own = check.world.words[0];
        lists.finish(check.world.rank[0], SG_KERNEL_BF16);
        l.gemm.resize(sets);
        for (int i = 0; i < sets && !why; ++i) {
            sg_kernel_gemm &g = l.gemm[i];
            if (place_of_buffer.count({BUF_A, 0})) {
                sg_kernel_place &p = lists.program.place[place_of_buffer[{BUF_A, 0}]];
                p.data[0] = p.data[1] = a(i);
            }
            sg_kernel_place &p = lists.program.place[place_of_buffer[{BUF_B, 0}]];
            p.data[0] = p.data[1] = b(i);
            why = sg_kernel_gemm_make(&g, &lists.program, &lists.host, 0, r.patch0, r.count, r.tile_m, r.tile_n, r.blocks);
            g.ranks = (int)r.ranks, g.own_parts = r.own_parts;
            if (const size_t bytes = why ? 0 : sg_kernel_remake_bytes(&g)) {
                CHECK(cudaMalloc(&g.param.remake, bytes));
                l.remake.push_back(g.param.remake);
            }
            g.seats = seats_of(&g);
            if (!why) why = sg_kernel_gemm_aim(&g);
            if (!why) why = g.slow;
        }
        return why;
    }
    // Own rows of C of patches whose A is here, against the vendor's product.
    void judge(Launches &l, const std::string &name, const std::function<void(int)> &issue) {
        issue(0);
        check.settle(name.c_str());
        double error2 = 0, norm2 = 0;
        int64_t judged = 0;
        std::vector<T> got, exact;
        for (int i = l.rank.patch0; i < l.rank.patch0 + l.rank.count; ++i) {
            const sg_patch &p = l.rank.patch[i];
            if (p.k0 < p.k1 && p.a.buf != BUF_A) continue;
            for (int j = p.to0; j < p.to0 + p.tos; ++j) {
                const sg_area &to = l.rank.to[j];
                if (to.buf != BUF_C || to.rank != 0 || !p.final) continue;
                const sg_area &at = l.lists.to[j];
                const sg_kernel_place &place = l.lists.program.place[at.buf];
                const size_t count = (size_t)p.rows * p.cols;
                got.resize(count), exact.resize(count);
                CHECK(cudaMemcpy2D(got.data(), 2 * p.cols, (char *)place.data[0] + at.row0 * place.pitch + 2 * at.col0, place.pitch, 2 * p.cols, p.rows, cudaMemcpyDefault));
                CHECK(cudaMemcpy2D(exact.data(), 2 * p.cols, want + ((size_t)p.row0 * n + p.col0) * 2, 2 * (size_t)n, 2 * p.cols, p.rows, cudaMemcpyDefault));
                for (size_t e = 0; e < count; ++e) {
                    const double d = (double)(float)got[e] - (double)(float)exact[e];
                    error2 += d * d, norm2 += (double)(float)exact[e] * (double)(float)exact[e];
                }
                judged += count;
            }
        }
        char what[300];
        snprintf(what, sizeof what, "%s: %lld elements, %.2e", name.c_str(), (long long)judged, sqrt(error2 / norm2));
        check.expect(check.calm(name.c_str()) && judged > 0 && sqrt(error2 / norm2) < 4e-3, what);
    }
    void problem(const char *machine, const char *text, const std::vector<const char *> &strategies, FILE *json) {
        std::vector<Predicted> all;
        for (const char *strategy : strategies) {
            auto l = std::make_shared<Launches>();
            if (!lab_rank_make(machine, text, strategy, &l->rank)) continue;
            const lab_rank &r = l->rank;
            if (all.empty()) {
                m = (int)r.m, n = (int)r.n, k = (int)r.k, ranks = (int)r.ranks;
                a_bytes = ((size_t)m * k * 2 + 1023) & ~1023ull, set_bytes = a_bytes + (((size_t)n * k * 2 + 1023) & ~1023ull);
                sets = (int)std::min<size_t>(MOST_SETS, pool_bytes / set_bytes);
                if (sets < 1 || (size_t)m * n * 2 > out_bytes || ranks > MOST_RANKS) return (void)fprintf(stderr, "%s is too large\n", text);
                vendor.shape(m, n, k, TYPE_BF16);
                for (int i = 0; i < vendor.algos; ++i) {
                    all.push_back({{"cuBLASLt", [=](int x) { vendor.run(i, a(x % sets), b(x % sets), want, 0); }, {}}});
                }
                all[0].issue(0);
            }
            if (const char *why = make(*l)) {
                printf("%s %s: %s\n", text, r.text, why);
                continue;
            }
            sg_kernel_rank *const state = check.world.rank[0];
            auto issue = [=](int x) {
                next_epoch<<<1, 1>>>(state);
                CHECK(sg_kernel_gemm_run(&l->gemm[x % l->gemm.size()], SG_KERNEL_EARLY, 0));
            };
            judge(*l, std::string(text) + " " + r.text, issue);
            all.push_back({{r.text, issue, {}}, r.alone_us, r.us});
        }
        for (int round = 0; round < ROUNDS; ++round)
            for (size_t i = 0; i < all.size(); ++i) all[(i + round) % all.size()].time(begin, end);
        double best = 1e30;
        for (Predicted &r : all)
            if (r.alone_us == 0) best = std::min(best, r.median());
        printf("%s: cuBLASLt %.1f us\n", text, best);
        for (Predicted &r : all) {
            if (r.alone_us == 0) continue;
            const std::string knobs = r.name;
            printf("  %8.1f us, predicted %8.1f alone %8.1f  %s\n", r.median(), r.alone_us, r.predicted_us, knobs.c_str());
            fprintf(json, "{\"problem\":\"%s\",\"strategy\":\"%s\",\"us\":%.2f,\"alone_us\":%.2f,\"predicted_us\":%.2f,\"cublaslt_us\":%.2f}\n", text, knobs.c_str(), r.median(), r.alone_us, r.predicted_us, best);
        }
        fflush(stdout);
    }
};

int main(int argc, char **argv) {
    Bench bench;
    FILE *json = fopen("/dev/null", "w");
    bench.open();
    CHECK(sg_kernel_load());
    for (int i = 2; i < argc;) {
        if (!strncmp(argv[i], "out=", 4)) {
            json = fopen(argv[i++] + 4, "w");
            continue;
        }
        const char *const text = argv[i++];
        std::vector<const char *> strategies;
        while (i < argc && !strchr(argv[i], ':') && strncmp(argv[i], "out=", 4)) strategies.push_back(argv[i++]);
        if (strategies.empty()) strategies.push_back("");
        bench.problem(argv[1], text, strategies, json);
    }
    bench.check.expect(bench.check.world.trouble[0].kind == 0, "trouble");
    printf("checks: %d passed, %d failed\n", bench.check.passed, bench.check.failed);
    return bench.check.failed != 0;
}
