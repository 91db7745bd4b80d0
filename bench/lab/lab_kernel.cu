// The product's kernels (src/kernel) on one GPU: checks, then the 32 shapes against the best of cuBLASLt's heuristics, then the price
// of waits and raises whose flags are already set.
//
//     lab_kernel [check] [time] [hooks] [out=FILE.json] [many=CANDIDATES] [only=m,n,k] [show]
#include "kernel_check.h"
#include <functional>
#include <memory>

struct Problem {
    int m, n, k;
    const char *name;
};

static const Problem problems[] = {
    {16, 2560, 8192, "qkv"},      {16, 14336, 8192, "gateup"},  {16, 8192, 2048, "o"},       {16, 8192, 7168, "down"},
    {64, 2560, 8192, "qkv"},      {64, 14336, 8192, "gateup"},  {64, 8192, 7168, "down"},    {128, 2560, 8192, "qkv"},
    {128, 14336, 8192, "gateup"}, {128, 8192, 2048, "o"},       {128, 8192, 7168, "down"},   {512, 2560, 8192, "qkv"},
    {512, 14336, 8192, "gateup"}, {512, 8192, 2048, "o"},       {512, 8192, 7168, "down"},   {512, 12288, 12288, "fc"},
    {2048, 2560, 8192, "qkv"},    {2048, 14336, 8192, "gateup"}, {2048, 8192, 2048, "o"},    {2048, 8192, 7168, "down"},
    {2048, 8192, 4096, "o tp2"},  {4096, 4096, 4096, "square"}, {4096, 5120, 8192, "qkv tp2"}, {8192, 2560, 8192, "qkv"},
    {8192, 14336, 8192, "gateup"}, {8192, 8192, 2048, "o"},     {8192, 8192, 7168, "down"},  {8192, 8192, 8192, "square"},
    {8192, 12288, 12288, "fc"},   {16384, 8192, 2048, "o"},     {16384, 2560, 8192, "qkv"},  {16384, 8192, 7168, "down"},
};

typedef __nv_bfloat16 T;

struct Runner {
    std::string name;
    std::function<void(int)> issue;
    double us = 1e30;
    std::vector<double> samples;
    bool vendor = false;
};

struct Bench {
    KernelCheck &check;
    Vendor vendor;
    char *pool, *out, *vendor_out;
    size_t pool_bytes = 3ull << 30, out_bytes = 1ull << 30;
    cudaEvent_t begin, end;
    FILE *json;
    std::vector<double> hot, cool, first_choice;
    int sets;
    size_t set_bytes, a_bytes;

    Bench(KernelCheck &c, FILE *file) : check(c), json(file) {
        vendor.open();
        CHECK(cudaMalloc(&pool, pool_bytes)), CHECK(cudaMalloc(&out, out_bytes)), CHECK(cudaMalloc(&vendor_out, out_bytes));
        fill_run(TYPE_BF16, pool, pool_bytes / 2, 1234, NORMAL);
        CHECK(cudaEventCreate(&begin)), CHECK(cudaEventCreate(&end));
    }
    void rotate(const Problem &p) {  // enough operand sets to exceed the L2 between two uses
        a_bytes = ((size_t)p.m * p.k * 2 + 1023) & ~1023ull;
        set_bytes = a_bytes + (((size_t)p.n * p.k * 2 + 1023) & ~1023ull);
        sets = (int)std::min<size_t>(std::max<size_t>(2, (300 << 20) / set_bytes), std::min<size_t>(16, pool_bytes / set_bytes));
    }
    char *a(int set) { return pool + set * set_bytes; }
    char *b(int set) { return a(set) + a_bytes; }

    double batch(Runner &r, int count) {
        r.issue(count);
        CHECK(cudaEventRecord(begin));
        for (int i = 0; i < count; ++i) r.issue(i);
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        return ms * 1000 / count;
    }
    static double median(std::vector<double> v) {
        std::sort(v.begin(), v.end());
        return v[v.size() / 2];
    }
    void interleave(std::vector<Runner *> &set, int rounds, double batch_us, int rest_us = 0) {
        for (int round = 0; round < rounds; ++round)
            for (size_t i = 0; i < set.size(); ++i) {
                Runner *r = set[(i + round) % set.size()];
                if (rest_us) usleep(rest_us);
                r->samples.push_back(batch(*r, std::max(3, (int)(batch_us / r->us))));
            }
        for (Runner *r : set) r->us = median(r->samples), r->samples.clear();
    }

    // A launch of one patch for each operand set; dress may add hooks to the lists before they are uploaded.
    struct Launches {
        sg_kernel_plain q;
        Lists lists;
        std::vector<sg_kernel_gemm> gemm;
    };
    const char *lower(const Problem &p, const sg_kernel_plain &q, std::shared_ptr<Launches> l, std::function<void(Lists &)> dress, sg_kernel_rank *rank) {
        l->q = q;
        l->lists.patch.push_back(q.patch), l->lists.to.push_back(q.to);
        if (dress) dress(l->lists);
        l->lists.finish(rank, q.type);
        l->gemm.resize(sets);
        for (int i = 0; i < sets; ++i) {
            sg_kernel_program &program = l->lists.program;
            program.place[0] = place_of(a(i), nullptr, p.m, p.k, p.k, 2), program.place[1] = place_of(b(i), nullptr, p.n, p.k, p.k, 2);
            program.place[2] = place_of(out, nullptr, p.m, p.n, p.n, 2);
            const char *why = sg_kernel_plain_make(&l->gemm[i], &l->q, &program, &l->lists.host, check.partial, check.fold);
            l->gemm[i].seats = seats_of(&l->gemm[i]);
            if (!why) why = sg_kernel_gemm_aim(&l->gemm[i]);
            if (!why) why = l->gemm[i].slow;
            if (why) return why;
        }
        return nullptr;
    }
    static std::string name_of(const sg_kernel_plain &q) {
        char s[120];
        snprintf(s, sizeof s, "%dx%d%s c%d k/%d w%d s%d", q.tile_m, q.tile_n, q.math == SG_KERNEL_PINGPONG ? " ping-pong" : "", q.cluster, q.split, q.patch.width, q.skew);
        return s;
    }
    Runner runner(std::shared_ptr<Launches> l, bool early) {
        Runner r;
        r.name = name_of(l->q) + (early ? "" : " late");
        r.issue = [=](int i) { CHECK(sg_kernel_gemm_run(&l->gemm[i % l->gemm.size()], early ? SG_KERNEL_EARLY : 0, 0)); };
        return r;
    }
    Runner theirs(int algo) {
        Runner r;
        r.name = vendor.describe(algo), r.vendor = true;
        r.issue = [=](int i) { vendor.run(algo, a(i % sets), b(i % sets), vendor_out, 0); };
        return r;
    }
    void same(const Problem &p, Runner &r) {
        CHECK(cudaMemset(out, 0xff, (size_t)p.m * p.n * 2));
        r.issue(0);
        CHECK(cudaDeviceSynchronize());
        Verdict v = verdict((T *)out, (T *)vendor_out, (int64_t)p.m * p.n);
        char detail[200];
        snprintf(detail, sizeof detail, "%dx%dx%d %s against cuBLASLt: %.2e", p.m, p.n, p.k, r.name.c_str(), sqrt(v.error2 / v.norm2));
        check.expect(sqrt(v.error2 / v.norm2) < 4e-3, detail);
    }

    void time(const Problem &p, int many, bool show) {
        rotate(p);
        vendor.shape(p.m, p.n, p.k, TYPE_BF16);
        std::vector<Runner> all;
        std::vector<std::shared_ptr<Launches>> ours;
        for (int i = 0; i < vendor.algos; ++i) all.push_back(theirs(i));
        all[0].issue(0);
        for (int i = 0; i < many; ++i) {
            sg_kernel_plain q = {};
            q.m = p.m, q.n = p.n, q.k = p.k, q.type = SG_KERNEL_BF16;
            if (sg_kernel_plain_choose(&q, i)) break;
            if (q.partial_bytes > (256 << 20) || q.fold_bytes > (4 << 16)) continue;
            auto l = std::make_shared<Launches>();
            const char *why = lower(p, q, l, nullptr, nullptr);
            if (why) {
                printf("%s: %s\n", name_of(q).c_str(), why);
                continue;
            }
            ours.push_back(l), all.push_back(runner(l, true));
            same(p, all.back());
        }
        const size_t vendors = vendor.algos;
        const std::string chosen = vendors < all.size() ? all[vendors].name : "";
        std::vector<Runner *> list;
        for (Runner &r : all) list.push_back(&r);
        for (Runner *r : list) batch(*r, 1), r->us = batch(*r, 2);
        interleave(list, 3, std::max(600.0, 3 * list[0]->us));
        std::vector<Runner *> last;
        std::vector<double> quick;
        for (Runner &r : all) quick.push_back(r.us);
        std::stable_sort(list.begin(), list.end(), [](Runner *x, Runner *y) { return x->us < y->us; });
        int taken[2] = {0, 0};
        for (Runner *r : list)
            if (taken[r->vendor]++ < 4 || r == &all[vendors]) last.push_back(r);
        auto best = [&](bool v) {
            Runner *b = nullptr;
            for (Runner *r : last)
                if (r->vendor == v && (!b || r->us < b->us)) b = r;
            return b;
        };
        interleave(last, 9, std::max(2500.0, 4 * list[0]->us));
        const double hot_theirs = best(true)->us, hot_ours = best(false)->us, hot_first = all[vendors].us;
        const std::string hot_name = best(false)->name, hot_vendor = best(true)->name;
        size_t winner = 0;
        for (size_t i = vendors; i < all.size(); ++i)
            if (&all[i] == best(false)) winner = i - vendors;
        interleave(last, 7, std::min(1500.0, std::max(600.0, 2 * best(true)->us)), 12000);
        const double cool_theirs = best(true)->us, cool_ours = best(false)->us;
        const std::string cool_name = best(false)->name;
        Runner late = runner(ours[winner], false);
        late.us = hot_ours;
        std::vector<Runner *> pair = {best(true), &late};
        interleave(pair, 5, std::max(2000.0, 3 * hot_ours));
        hot.push_back(hot_theirs / hot_ours), cool.push_back(cool_theirs / cool_ours), first_choice.push_back(hot_theirs / hot_first);
        printf("%6d %6d %6d %-8s lt %8.1f ours %8.1f us %4.0f TF ratio %.3f cool %.3f late %.3f model's %.3f | %s%s%s | %s | %s\n", p.m, p.n, p.k, p.name, hot_theirs, hot_ours,
               2e-6 * p.m * p.n * p.k / hot_ours, hot.back(), cool.back(), pair[0]->us / late.us, first_choice.back(), hot_name.c_str(), cool_name == hot_name ? "" : " cool ",
               cool_name == hot_name ? "" : cool_name.c_str(), chosen.c_str(), hot_vendor.c_str());
        fprintf(json,
                "{\"m\":%d,\"n\":%d,\"k\":%d,\"layer\":\"%s\",\"cublaslt_us\":%.2f,\"cublaslt_algo\":\"%s\",\"ours_us\":%.2f,\"kernel\":\"%s\",\"ratio\":%.4f,\"cool_cublaslt_us\":%.2f,"
                "\"cool_ours_us\":%.2f,\"cool_kernel\":\"%s\",\"cool_ratio\":%.4f,\"ratio_without_early_start\":%.4f,\"first_choice\":\"%s\",\"first_choice_us\":%.2f,\"candidates\":[",
                p.m, p.n, p.k, p.name, hot_theirs, hot_vendor.c_str(), hot_ours, hot_name.c_str(), hot.back(), cool_theirs, cool_ours, cool_name.c_str(), cool.back(), pair[0]->us / late.us,
                chosen.c_str(), hot_first);
        for (size_t i = vendors; i < all.size(); ++i) {
            fprintf(json, "%s[\"%s\",%.1f,%.1f]", i > vendors ? "," : "", all[i].name.c_str(), quick[i], ours[i - vendors]->q.predicted_us);
            if (show) printf("        %8.1f us  model %8.1f  %s\n", quick[i], ours[i - vendors]->q.predicted_us, all[i].name.c_str());
        }
        fprintf(json, "]},\n");
        fflush(json), fflush(stdout);
    }

    // The same launch without hooks, with waits on flags that are set, with raises, with both.
    void hook_cost(const Problem &p, int tm, int tn, int cluster) {
        rotate(p);
        sg_kernel_plain q = {};
        q.m = p.m, q.n = p.n, q.k = p.k, q.type = SG_KERNEL_BF16;
        if (sg_kernel_plain_choose(&q, 0)) return;
        q.math = SG_KERNEL_ANY_MATH, q.tile_m = tm, q.tile_n = tn, q.cluster = cluster, q.split = 1, q.skew = 0, q.patch.width = 12;
        World &w = check.world;
        for (int page = 0; page < PAGES; ++page) CHECK(cudaMemset(w.words[0].flag[page] + (page ? 256 << (page - 1) : 256), 0x7f, 8 * (page ? 256 << (page - 1) : 256)));
        struct Dress {
            const char *name;
            bool rows, slabs, tile, counted;
        };
        static const Dress dresses[] = {{"none", 0, 0, 0, 0}, {"rows", 1, 0, 0, 0}, {"rows and slabs", 1, 1, 0, 0}, {"tile raise", 0, 0, 1, 0}, {"patch raise", 0, 0, 0, 1}, {"all", 1, 1, 0, 1}};
        std::vector<Runner> r;
        for (const Dress &d : dresses) {
            auto l = std::make_shared<Launches>();
            const char *why = lower(p, q, l, [&](Lists &lists) {
                sg_patch &t = lists.patch[0];
                lists.program.own = w.words[0];  // as the library does
                if (d.rows) {
                    sg_wait wait = {};
                    wait.by = 1, wait.per = SG_PER_ROWS, wait.rows = p.m, wait.chunk = 256, wait.chunk_k = d.slabs ? 512 : 0, wait.chunks_k = d.slabs ? lab_ceil(p.k, 512) : 1;
                    t.slab = d.slabs ? 512 : 0;
                    lists.waits(wait);
                }
                if (d.tile) lists.raises(1, SG_PER_TILE, 0);
                if (d.counted) lists.raises(1, SG_PER_PATCH, 0, lab_ceil(p.m, tm) * lab_ceil(p.n, tn));
            }, w.rank[0]);
            if (why) return (void)printf("hooks: %s\n", why);
            r.push_back(runner(l, true));
        }
        std::vector<Runner *> set;
        for (Runner &x : r) batch(x, 2), x.us = batch(x, 3), set.push_back(&x);
        interleave(set, 13, std::max(2000.0, 3 * r[0].us));
        printf("hooks %5d %5d %5d %dx%d cluster %d none %.1f us;", p.m, p.n, p.k, tm, tn, cluster, r[0].us);
        fprintf(json, "{\"hooks\":1,\"m\":%d,\"n\":%d,\"k\":%d,\"tile\":\"%dx%d\",\"cluster\":%d,\"none_us\":%.2f", p.m, p.n, p.k, tm, tn, cluster, r[0].us);
        for (size_t i = 1; i < r.size(); ++i) {
            printf(" %s %+.2f %%;", dresses[i].name, (r[i].us / r[0].us - 1) * 100);
            fprintf(json, ",\"%s\":%.4f", dresses[i].name, r[i].us / r[0].us);
        }
        printf("\n");
        fprintf(json, "},\n");
    }
    void summary(const char *what, std::vector<double> r) {
        if (r.empty()) return;
        std::sort(r.begin(), r.end());
        double log_sum = 0;
        for (double x : r) log_sum += log(x);
        printf("%s: ratio to the best of cuBLASLt: median %.3f, geometric mean %.3f, lowest %.3f, highest %.3f\n", what, (r[r.size() / 2] + r[(r.size() - 1) / 2]) / 2, exp(log_sum / r.size()),
               r.front(), r.back());
    }
};

int main(int argc, char **argv) {
    bool do_check = false, do_time = false, do_hooks = false, show = false;
    const char *path = "/dev/null";
    Problem only = {0, 0, 0, "asked"};
    int many = 20;
    for (int i = 1; i < argc; ++i) {
        do_check |= !strcmp(argv[i], "check"), do_time |= !strcmp(argv[i], "time"), do_hooks |= !strcmp(argv[i], "hooks"), show |= !strcmp(argv[i], "show");
        if (!strncmp(argv[i], "out=", 4)) path = argv[i] + 4;
        if (!strncmp(argv[i], "many=", 5)) many = atoi(argv[i] + 5);
        sscanf(argv[i], "only=%d,%d,%d", &only.m, &only.n, &only.k);
    }
    setvbuf(stdout, nullptr, _IOLBF, 0);
    KernelCheck check;
    check.open();
    CHECK(sg_kernel_load());
    FILE *json = fopen(path, "w");
    if (do_check) check.run(false);
    if (do_time || do_hooks) {
        Bench bench(check, json);
        if (do_time && only.m) bench.time(only, many, show);
        else if (do_time)
            for (const Problem &p : problems) bench.time(p, many, show);
        bench.summary("hot", bench.hot), bench.summary("cool", bench.cool), bench.summary("hot, the model's first choice", bench.first_choice);
        if (do_hooks)
            for (int cluster : {2, 1})
                for (int k : {1024, 2048, 8192})
                    for (int m : {2048, 8192}) bench.hook_cost({m, 8192, k, "hooks"}, 128, 256, cluster);
        if (do_hooks) bench.hook_cost({8192, 8192, 2048, "hooks"}, 128, 128, 2), bench.hook_cost({8192, 8192, 2048, "hooks"}, 128, 192, 1);
    }
    printf("checks: %d passed, %d failed\n", check.passed, check.failed);
    return check.failed != 0;
}
