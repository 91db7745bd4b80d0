// The laboratory of the Hopper GEMM on one GPU: checks every instance, then times candidates against the best of cuBLASLt's
// heuristics, interleaved, on random data in rotating buffers; then the price of the hooks with flags that are already set.
//
//     lab_gemm [check] [time] [hooks] [out=FILE.json] [only=m,n,k] [many=CANDIDATES] [show] [bare=KERNEL]
#include "gemm_sm90.cuh"
#include "check.h"
#include <functional>
#include <memory>
#include <unistd.h>

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

struct Bench {
    Checker &check;
    Vendor vendor;
    std::vector<lab_kernel> &kernels;
    char *pool, *out, *vendor_out;
    size_t pool_bytes = 3ull << 30, out_bytes = 1ull << 30;
    cudaEvent_t begin, end;
    FILE *json;
    std::vector<double> ratios, cool_ratios;

    Bench(Checker &c, FILE *json) : check(c), kernels(c.kernels), json(json) {
        vendor.open();
        CHECK(cudaMalloc(&pool, pool_bytes)), CHECK(cudaMalloc(&out, out_bytes)), CHECK(cudaMalloc(&vendor_out, out_bytes));
        fill_run(TYPE_BF16, pool, pool_bytes / 2, 1234, NORMAL);
        CHECK(cudaEventCreate(&begin)), CHECK(cudaEventCreate(&end));
    }

    // Operand sets of one shape, far enough apart and enough of them to exceed the L2 between two uses.
    int sets;
    size_t set_bytes, a_bytes;
    void rotate(const Problem &p) {
        a_bytes = ((size_t)p.m * p.k * 2 + 1023) & ~1023ull;
        set_bytes = a_bytes + (((size_t)p.n * p.k * 2 + 1023) & ~1023ull);
        sets = (int)std::min<size_t>(std::max<size_t>(2, (300 << 20) / set_bytes), std::min<size_t>(16, pool_bytes / set_bytes));
    }
    const char *a(int set) { return pool + set * set_bytes; }
    const char *b(int set) { return a(set) + a_bytes; }

    // One thing that can be timed: issue(i) puts the product of operand set i % sets on the stream.
    struct Runner {
        std::string name;
        std::function<void(int)> issue;
        double us = 1e30;
        std::vector<double> samples;
    };

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

    Runner ours(const Problem &p, const Plan &plan, bool early, std::function<void(lab_launch &)> dress = nullptr) {
        const lab_kernel &k = kernels[plan.kernel];
        auto lowered = std::make_shared<std::vector<lab_launch>>(sets);
        for (int i = 0; i < sets; ++i) {
            plan_lower(plan, k, p.m, p.n, p.k, a(i), b(i), out, check.scratch, check.trouble, &(*lowered)[i]);
            if (dress) dress((*lowered)[i]);
        }
        Runner r;
        r.name = plan_name(plan, kernels) + (early ? "" : " late");
        r.issue = [=](int i) {
            lab_launch &l = (*lowered)[i % sets];
            l.epoch = ++check.epoch;
            launch(k, l, plan.grid, early, 0);
        };
        return r;
    }

    Runner theirs(const Problem &p, int algo) {
        Runner r;
        r.name = vendor.describe(algo);
        r.issue = [=](int i) { vendor.run(algo, a(i % sets), b(i % sets), vendor_out, 0); };
        return r;
    }

    bool same(const Problem &p, Runner &r) {
        CHECK(cudaMemset(out, 0xff, (size_t)p.m * p.n * 2));
        r.issue(0);
        CHECK(cudaDeviceSynchronize());
        lab_trouble t = check.take_trouble();
        Verdict v = verdict((__nv_bfloat16 *)out, (__nv_bfloat16 *)vendor_out, (int64_t)p.m * p.n);
        char detail[160];
        snprintf(detail, sizeof detail, "%s against cuBLASLt: %.2e, abort %u role %u", r.name.c_str(), sqrt(v.error2 / v.norm2), t.abort, t.role);
        return check.expect(!t.abort && sqrt(v.error2 / v.norm2) < 4e-3, p.name, detail);
    }

    double sampled_error(const Problem &p) {
        double *e, host[2];
        CHECK(cudaMalloc(&e, 16));
        CHECK(cudaMemset(e, 0, 16));
        sampled<<<256, 256>>>((__nv_bfloat16 *)a(0), (__nv_bfloat16 *)b(0), (__nv_bfloat16 *)out, p.m, p.n, p.k, 2048, 5, e, e + 1);
        CHECK(cudaMemcpy(host, e, 16, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(e));
        return sqrt(host[0] / host[1]);
    }

    // Medians over blocks, in microseconds from the first block's entry: entries, math begins, first stage is there, math ends (the
    // last block's); then the clock in MHz and thousands of cycles between first stage and end in the slowest block.
    struct Anatomy {
        double enter, begin, fed, end, mhz, kcycles;
    };
    Anatomy anatomy(const Problem &p, const Plan &plan) {
        uint64_t *stamp;
        CHECK(cudaMalloc(&stamp, 64 * plan.grid));
        Runner r = ours(p, plan, true, [=](lab_launch &l) { l.stamp = stamp; });
        for (int i = 0; i < 3; ++i) r.issue(i);
        std::vector<uint64_t> s(8 * plan.grid);
        CHECK(cudaMemcpy(s.data(), stamp, 64 * plan.grid, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(stamp));
        uint64_t origin = ~0ull;
        std::vector<double> at[4];
        double most = 0, mhz = 0;
        for (int b = 0; b < plan.grid; ++b) origin = std::min(origin, s[8 * b]);
        for (int b = 0; b < plan.grid; ++b) {
            for (int i = 0; i < 4; ++i) at[i].push_back((s[8 * b + i] - origin) * 1e-3);
            most = std::max(most, (double)(s[8 * b + 7] - s[8 * b + 6]));
            mhz = std::max(mhz, 1e3 * (s[8 * b + 7] - s[8 * b + 5]) / (s[8 * b + 3] - s[8 * b + 1]));
        }
        return {median(at[0]), median(at[1]), median(at[2]), *std::max_element(at[3].begin(), at[3].end()), mhz, most * 1e-3};
    }

    static double median(std::vector<double> v) {
        std::sort(v.begin(), v.end());
        return v[v.size() / 2];
    }

    // A, B, A, B, ...: whatever the clock does, it does to all of them.
    void interleave(std::vector<Runner *> &set, int rounds, double batch_us, int rest_us = 0) {
        for (int round = 0; round < rounds; ++round)
            for (size_t i = 0; i < set.size(); ++i) {
                Runner *r = set[(i + round) % set.size()];
                if (rest_us) usleep(rest_us);
                r->samples.push_back(batch(*r, std::max(3, (int)(batch_us / r->us))));
            }
        for (Runner *r : set) r->us = median(r->samples), r->samples.clear();
    }

    void time(const Problem &p, size_t how_many, bool show) {
        rotate(p);
        vendor.shape(p.m, p.n, p.k, TYPE_BF16);
        std::vector<Runner> v, w;
        for (int i = 0; i < vendor.algos; ++i) v.push_back(theirs(p, i));
        v[0].issue(0);
        std::vector<Plan> plans;
        w.reserve(200);  // Runners are pointed at
        for (Plan &plan : candidates(kernels, p.m, p.n, p.k, how_many))
            if (scratch_bytes(plan, kernels[plan.kernel], p.m, p.n) <= (int64_t)check.scratch.size)
                plans.push_back(plan), w.push_back(ours(p, plan, true));
        for (Runner &r : w) same(p, r);
        double error = sampled_error(p);
        std::vector<Runner *> first, second, last;
        for (Runner &r : v) first.push_back(&r);
        for (Runner &r : w) first.push_back(&r);
        for (Runner *r : first) batch(*r, 1), r->us = batch(*r, 2);
        interleave(first, 3, std::max(800.0, 3 * first[0]->us));
        auto ranking = [&] {
            std::vector<size_t> order(w.size());
            for (size_t i = 0; i < w.size(); ++i) order[i] = i;
            std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return w[x].us < w[y].us; });
            return order;
        };
        auto again = [&](const Plan &plan, double us) {
            if (w.size() + 1 >= w.capacity()) return;
            plans.push_back(plan), w.push_back(ours(p, plan, true));
            w.back().us = us, second.push_back(&w.back());
        };
        // The best three kernels in other rasters: which blocks read the same operands at the same time decides how much the L2 sees.
        std::vector<int> tried;
        for (size_t i : ranking()) {
            if (tried.size() == 3 || std::count(tried.begin(), tried.end(), plans[i].kernel)) continue;
            tried.push_back(plans[i].kernel);
            const lab_kernel &k = kernels[plans[i].kernel];
            for (int across = 0; across < 2; ++across)
                for (int width : {1, 2, 3, 4, 6, 8, 12, 16, 32}) {
                    Plan plan = plans[i];
                    if (width > (across ? lab_ceil(lab_ceil(p.m, k.bm), k.cm) : lab_ceil(lab_ceil(p.n, k.bn), k.cn))) break;
                    if (plan.across == across && plan.width == width) continue;
                    plan.across = across, plan.width = width;
                    again(plan, w[i].us);
                }
        }
        interleave(second, 3, std::max(500.0, 3 * first[0]->us));
        second.clear();
        // The best two plans with loads in bursts, with other L2 policies, with uneven slices.
        std::vector<size_t> order = ranking();
        for (size_t i = 0; i < 2 && i < order.size(); ++i) {
            static const int knobs[][5] = {{1, 0, 0, 0, 0}, {1, 0, 0, 1, 0}, {1, 2, 1, 0, 0}, {2, 2, 1, 0, 0}, {1, 2, 1, 0, 2}, {1, 2, 1, 0, 4}};
            for (auto &knob : knobs) {
                Plan plan = plans[order[i]];
                plan.burst = knob[0], plan.keep_a = knob[1], plan.keep_b = knob[2], plan.keep_c = knob[3], plan.skew = knob[4];
                if (plan.skew && (plan.split == 1 || lab_ceil(p.k, 64) < 4 * plan.split + plan.skew)) continue;
                if (plan.burst > 1 && plan.burst * 2 > kernels[plan.kernel].stages) continue;
                again(plan, w[order[i]].us);
            }
        }
        interleave(second, 3, std::max(800.0, 3 * first[0]->us));
        auto pick = [&](std::vector<Runner> &from, size_t n) {
            std::vector<Runner *> s;
            for (Runner &r : from) s.push_back(&r);
            std::sort(s.begin(), s.end(), [](Runner *x, Runner *y) { return x->us < y->us; });
            last.insert(last.end(), s.begin(), s.begin() + std::min(n, s.size()));
        };
        pick(v, 2), pick(w, 4);
        std::vector<double> quick;
        for (Runner &r : w) quick.push_back(r.us);
        interleave(last, 9, std::max(3000.0, 4 * first[0]->us));
        Runner *bv = nullptr, *bw = nullptr;
        auto best = [&](bool vendors) {
            Runner *b = nullptr;
            for (Runner *r : last)
                if ((r >= v.data() && r < v.data() + v.size()) == vendors && (!b || r->us < b->us)) b = r;
            return b;
        };
        bv = best(true), bw = best(false);
        double ours_us = bw->us, theirs_us = bv->us, first_us = v[0].us;
        // Again with pauses, so that the power cap does not set the clock.
        interleave(last, 7, std::min(1500.0, std::max(600.0, 2 * bv->us)), 15000);
        double cool_theirs = best(true)->us, cool_ours = best(false)->us;
        std::string cool_name = best(false)->name;
        Anatomy an = anatomy(p, plans[bw - w.data()]);
        // The winner once more without the early start, against the vendor again.
        Runner late = ours(p, plans[bw - w.data()], false);
        late.us = bw->us;
        std::vector<Runner *> pair = {bv, &late};
        interleave(pair, 5, std::max(2000.0, 3 * bv->us));
        double ratio = theirs_us / ours_us, tflops = 2e-6 * p.m * p.n * p.k / ours_us;
        ratios.push_back(ratio), cool_ratios.push_back(cool_theirs / cool_ours);
        printf("%6d %6d %6d %-8s lt %8.1f us (first %8.1f)  ours %8.1f us %4.0f TF  ratio %.3f (late %.3f) cool %.3f %4.0f TF %s | %s | %s | %.1f %.1f %.1f %.1f us %.0f MHz %.1f kc\n", p.m, p.n, p.k,
               p.name, theirs_us, first_us, ours_us, tflops, ratio, bv->us / late.us, cool_theirs / cool_ours,
               2e-6 * p.m * p.n * p.k / cool_ours, bw->name.c_str(), cool_name == bw->name ? "" : cool_name.c_str(), bv->name.c_str(), an.enter, an.begin, an.fed, an.end, an.mhz, an.kcycles);
        fprintf(json, "{\"m\":%d,\"n\":%d,\"k\":%d,\"layer\":\"%s\",\"cublaslt_us\":%.2f,\"cublaslt_algo\":\"%s\",\"ours_us\":%.2f,\"plan\":\"%s\",\"ratio\":%.4f,"
                      "\"ratio_without_early_start\":%.4f,\"cool_cublaslt_us\":%.2f,\"cool_ours_us\":%.2f,\"cool_plan\":\"%s\",\"anatomy_us_enter_begin_fed_end\":[%.2f,%.2f,%.2f,%.2f],\"mhz\":%.0f,\"kcycles\":%.1f,\"relative_error_f64\":%.2e,\"candidates\":[", p.m, p.n, p.k, p.name, theirs_us,
                bv->name.c_str(), ours_us, bw->name.c_str(), ratio, bv->us / late.us, cool_theirs, cool_ours, cool_name.c_str(), an.enter, an.begin,
                an.fed, an.end, an.mhz, an.kcycles, error);
        for (size_t i = 0; i < w.size(); ++i) {
            fprintf(json, "%s[\"%s\",%.1f,%.1f]", i ? "," : "", w[i].name.c_str(), quick[i], plans[i].predicted_us);
            if (show) printf("        %8.1f us  model %8.1f  %s\n", quick[i], plans[i].predicted_us, w[i].name.c_str());
        }
        fprintf(json, "]},\n");
        fflush(json), fflush(stdout);
    }

    // For a profiler: one kernel and all of the vendor's algorithms, twice each.
    void bare(const Problem &p, const char *kernel) {
        rotate(p);
        vendor.shape(p.m, p.n, p.k, TYPE_BF16);
        for (size_t i = 0; i < kernels.size(); ++i)
            if (!strncmp(kernels[i].name, kernel, strlen(kernel)) && kernels[i].fold == FOLD_NONE) {
                Runner r = ours(p, {(int)i, 132, 0, std::max(1, 8 / kernels[i].cn), 1, 0, 0}, false);
                r.issue(0), r.issue(1);
                CHECK(cudaDeviceSynchronize());
                printf("%s\n", r.name.c_str());
                break;
            }
        for (int i = 0; i < vendor.algos; ++i) {
            Runner r = theirs(p, i);
            r.issue(0), r.issue(1);
            CHECK(cudaDeviceSynchronize());
            printf("%s\n", r.name.c_str());
        }
    }

    // Gate 3: the same launch without hooks, with waits on flags that are set, with raises, with both.
    void hook_cost(const Problem &p, const char *kernel) {
        rotate(p);
        int which = -1;
        for (size_t i = 0; i < kernels.size(); ++i)
            if (!strcmp(kernels[i].name, kernel)) which = i;
        if (which < 0) return;
        uint64_t *flags, *raised;
        uint32_t *counts;
        CHECK(cudaMalloc(&flags, 8 << 12)), CHECK(cudaMalloc(&raised, 8 << 14)), CHECK(cudaMalloc(&counts, 4 << 12));
        CHECK(cudaMemset(flags, 0x7f, 8 << 12)), CHECK(cudaMemset(counts, 0, 4 << 12));
        Plan plan = {which, 132, 0, 8, 1, 0, 0};
        auto dress = [&](bool rows, bool slabs, bool counted, bool tile) {
            return [=](lab_launch &l) {
                lab_patch &t = l.patch[0];
                l.wait_flag = flags, l.raise_flag = raised, l.count = counts, l.area[0].flag = raised;
                if (rows) t.wait_rows = 256;
                if (slabs) t.wait_k = 512, l.wait_slabs = lab_ceil(p.k, 512);
                if (counted) t.raise = RAISE_COUNTED, t.raise_bands = 2;
                if (tile) t.raise = RAISE_TILE;
            };
        };
        std::vector<Runner> r;
        r.push_back(ours(p, plan, true, dress(0, 0, 0, 0))), r.push_back(ours(p, plan, true, dress(1, 0, 0, 0)));
        r.push_back(ours(p, plan, true, dress(1, 1, 0, 0))), r.push_back(ours(p, plan, true, dress(0, 0, 1, 0)));
        r.push_back(ours(p, plan, true, dress(0, 0, 0, 1))), r.push_back(ours(p, plan, true, dress(1, 1, 1, 0)));
        std::vector<Runner *> set;
        for (Runner &x : r) batch(x, 2), x.us = batch(x, 3), set.push_back(&x);
        interleave(set, 15, std::max(2000.0, 3 * r[0].us));
        static const char *names[] = {"none", "rows", "rows and slabs", "counted", "tile", "all"};
        printf("hooks %5d %5d %5d %-22s none %.1f us;", p.m, p.n, p.k, kernel, r[0].us);
        fprintf(json, "{\"hooks\":1,\"m\":%d,\"n\":%d,\"k\":%d,\"kernel\":\"%s\",\"none_us\":%.2f", p.m, p.n, p.k, kernel, r[0].us);
        for (int i = 1; i < 6; ++i) {
            printf(" %s %+.2f %%;", names[i], (r[i].us / r[0].us - 1) * 100);
            fprintf(json, ",\"%s\":%.4f", names[i], r[i].us / r[0].us);
        }
        printf("\n");
        fprintf(json, "},\n");
        CHECK(cudaFree(flags)), CHECK(cudaFree(raised)), CHECK(cudaFree(counts));
    }
};

int main(int argc, char **argv) {
    bool do_check = false, do_time = false, do_hooks = false, show = false;
    const char *path = "/dev/null", *bare = nullptr;
    Problem only = {0, 0, 0, "asked"};
    int many = 12;
    for (int i = 1; i < argc; ++i) {
        do_check |= !strcmp(argv[i], "check"), do_time |= !strcmp(argv[i], "time"), do_hooks |= !strcmp(argv[i], "hooks");
        show |= !strcmp(argv[i], "show");
        if (!strncmp(argv[i], "out=", 4)) path = argv[i] + 4;
        if (!strncmp(argv[i], "bare=", 5)) bare = argv[i] + 5;
        if (!strncmp(argv[i], "many=", 5)) many = atoi(argv[i] + 5);
        sscanf(argv[i], "only=%d,%d,%d", &only.m, &only.n, &only.k);
    }
    Checker check;
    check.open();
    for (const lab_kernel &k : check.kernels) {
        cudaLaunchConfig_t config = {};
        cudaLaunchAttribute attr[1];
        config.gridDim = dim3(132), config.blockDim = dim3(k.threads), config.dynamicSmemBytes = k.smem, config.attrs = attr, config.numAttrs = 1;
        attr[0].id = cudaLaunchAttributeClusterDimension;
        attr[0].val.clusterDim.x = k.cm * k.cn, attr[0].val.clusterDim.y = attr[0].val.clusterDim.z = 1;
        int clusters = 0;
        CHECK(cudaOccupancyMaxActiveClusters(&clusters, k.function, &config));
        if (clusters * k.cm * k.cn < 132) printf("%s: only %d clusters at once\n", k.name, clusters);
    }
    FILE *json = fopen(path, "w");
    if (do_check) {
        check.instances();
        fflush(stdout);
        check.hooks();
        fflush(stdout);
    }
    if (do_time || do_hooks || bare) {
        Bench bench(check, json);
        if (bare) bench.bare(only, bare);
        if (do_time) {
            if (only.m) bench.time(only, many, show);
            else for (const Problem &p : problems) bench.time(p, many, show);
            for (bool cool : {false, true}) {
                std::vector<double> r = cool ? bench.cool_ratios : bench.ratios;
                std::sort(r.begin(), r.end());
                double log_sum = 0;
                for (double x : r) log_sum += log(x);
                printf("%s: ratio to the best of cuBLASLt: median %.3f, geometric mean %.3f, lowest %.3f, highest %.3f\n", cool ? "cool" : "hot",
                       r[r.size() / 2], exp(log_sum / r.size()), r.front(), r.back());
            }
        }
        if (do_hooks)
            for (const char *kernel : {"128x256/2x1 s4 p2", "128x256/1x1 s4 p2", "128x128/1x2 s6 p2"})
                for (int k : {1024, 2048, 8192})
                    for (int m : {2048, 8192}) bench.hook_cost({m, 8192, k, "hooks"}, kernel);
    }
    printf("checks: %d passed, %d failed\n", check.passed, check.failed);
    return check.failed != 0;
}
