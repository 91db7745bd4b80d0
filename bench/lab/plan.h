// Which kernel, grid and patch list for a product on one GPU: a cost model that ranks candidates, and the lists themselves.
#pragma once
#include "host.h"
#include "ptx.cuh"
#include <algorithm>
#include <string>

struct Plan {
    int kernel, grid;
    int across, width;   // raster inside a patch
    int split;           // slices of k, summed in ascending order
    int tail_cols;       // only the last so many tile columns are split (0: all)
    double predicted_us;
    int burst = 1, keep_a = 0, keep_b = 0, keep_c = 0;
    int skew = 0;        // stages that slice 0 computes more than the others, while they store and raise
};

static std::string plan_name(const Plan &p, const std::vector<lab_kernel> &kernels) {
    char s[128];
    snprintf(s, sizeof s, "%s g%d %s%d", kernels[p.kernel].name, p.grid, p.across ? "a" : "d", p.width);
    std::string out = s;
    if (p.split > 1) snprintf(s, sizeof s, " k/%d", p.split), out += s;
    if (p.tail_cols) snprintf(s, sizeof s, " tail%d", p.tail_cols), out += s;
    if (p.burst > 1) snprintf(s, sizeof s, " b%d", p.burst), out += s;
    if (p.keep_a || p.keep_b || p.keep_c) snprintf(s, sizeof s, " l%d%d%d", p.keep_a, p.keep_b, p.keep_c), out += s;
    if (p.skew) snprintf(s, sizeof s, " w%d", p.skew), out += s;
    return out;
}

// Cycles are of a 1.75 GHz clock; the constants are rough, the ranking is what matters.
static double predict_us(const lab_kernel &k, int m, int n, int depth, int grid, int split, int tail_cols) {
    const double l2_bytes = 48, hbm_bytes = 2450, ghz = 1.75;
    int cl = k.cm * k.cn, units = grid / cl;
    int down = lab_ceil(lab_ceil(m, k.bm), k.cm), over = lab_ceil(lab_ceil(n, k.bn), k.cn);
    int slabs = lab_ceil(depth, 64);
    double math = k.bm * k.bn / 32.0 / 0.95;
    if (k.bn < 128) math *= 1.0 + (128 - k.bn) / 400.0;  // shared memory reads of narrow instructions
    double load = (k.bm / k.cn + k.bn / k.cm) * 128 / l2_bytes, slab = std::max(math, load);
    double ends = 1200 + k.bm * k.bn * 0.012;  // epilogue that is not hidden
    double cycles = 6000;
    auto visits = [&](double count, double length) { cycles += ceil(count / units) * length; };
    double fold = split > 1 ? 2500 + (split - 1) * k.bm * k.bn * 4.0 / 40 : 0;
    double slice = ceil(slabs / (double)split) * slab + ends;
    if (split == 1) visits((double)down * over, slabs * slab + ends);
    else if (tail_cols == 0) visits((double)down * over * split, slice), cycles += fold;
    else visits((double)down * (over - tail_cols / k.cn), slabs * slab + ends), visits((double)down * tail_cols / k.cn * split, slice), cycles += fold;
    double bytes = 2.0 * ((double)m * depth + (double)n * depth + (double)m * n);
    return std::max(cycles, bytes / hbm_bytes + 5000) / ghz / 1000;
}

static std::vector<Plan> candidates(const std::vector<lab_kernel> &kernels, int m, int n, int depth, size_t limit) {
    std::vector<Plan> all;
    for (int i = 0; i < (int)kernels.size(); ++i) {
        const lab_kernel &k = kernels[i];
        if (k.type != TYPE_BF16 || k.fold == 1) continue;
        int bands = lab_ceil(m, k.bm), cols = lab_ceil(n, k.bn);
        if ((k.cm > 1 && bands < 2) || (k.cn > 1 && cols < 2) || (k.bm > 64 && m <= 64)) continue;
        int grid = 132;
        auto add = [&](int split, int tail) {
            double us = predict_us(k, m, n, depth, grid, split, tail);
            // Strips about as wide as makes a wave's tiles a square of operand bytes, and half of that.
            int wave_down = std::max(1, (int)lround(sqrt(grid * (double)k.bn / k.bm)));
            int wave_over = std::max(1, grid / wave_down);
            all.push_back({i, grid, 0, std::max(1, wave_over / k.cn), split, tail, us});
            if (bands > wave_down) all.push_back({i, grid, 1, std::max(1, wave_down / k.cm), split, tail, us * 1.0001});
            if (cols > 2 * wave_over) all.push_back({i, grid, 0, std::max(1, 2 * wave_over / k.cn), split, tail, us * 1.0002});
        };
        if (k.fold == 0) {
            add(1, 0);
            continue;
        }
        int slabs = lab_ceil(depth, 64);
        for (int split = 2; split <= 8 && split * 4 <= slabs; ++split) {
            if ((int64_t)bands * cols * split <= 2 * grid) add(split, 0);
            // A tail of whole columns behind full waves.
            for (int tail = k.cn; tail < cols; tail += k.cn)
                if ((int64_t)bands * tail * split <= grid && bands * (cols - tail) / grid < 8 && (cols - tail) % k.cn == 0) {
                    double waves = (double)bands * (cols - tail) / grid;
                    if (waves - floor(waves) == 0 || waves - floor(waves) > 0.9) add(split, tail);
                }
        }
    }
    std::stable_sort(all.begin(), all.end(), [](const Plan &a, const Plan &b) { return a.predicted_us < b.predicted_us; });
    std::vector<Plan> kept;
    for (const Plan &p : all) {  // not more than three of one kernel
        int same = 0;
        for (const Plan &q : kept) same += q.kernel == p.kernel;
        if (same < 3 && kept.size() < limit) kept.push_back(p);
    }
    return kept;
}

// Scratch for split k: a tiled f32 area and a word per tile for every slice but the last.
struct Scratch {
    char *bytes;
    size_t size;
    uint64_t *flags;
};

static int64_t scratch_bytes(const Plan &p, const lab_kernel &k, int m, int n) {
    return p.split > 1 ? (int64_t)(p.split - 1) * lab_ceil(m, k.bm) * (p.tail_cols ? p.tail_cols : lab_ceil(n, k.bn)) * k.tile_bytes : 0;
}

static lab_patch patch_rect(const lab_kernel &k, const Plan &p, int bands, int cols, int col, int k0, int k1) {
    lab_patch t = {};
    t.bands = bands, t.cols = cols, t.col = col, t.k0 = k0, t.k1 = k1, t.c_maps = 1;
    t.across = p.across, t.width = p.width;
    lab_patch_close(&t, k.cm, k.cn);
    return t;
}

static void patch_push(lab_launch *l, const lab_patch &t) {
    if (l->patches == LAB_PATCHES) abort();
    l->patch[l->patches++] = t;
    l->visits += t.visits;
}

static void plan_lower(const Plan &p, const lab_kernel &k, int m, int n, int depth, const void *A, const void *B, void *C,
                       const Scratch &scratch, lab_trouble *trouble, lab_launch *l) {
    static const uint64_t keep[] = {KEEP_NORMAL, KEEP_FIRST_OUT, KEEP_LAST_OUT};
    memset(l, 0, sizeof *l);
    map_a(&l->a[0], k, A, m, depth, m);
    l->load_bytes = load_bytes(k, m);
    l->a[1] = l->a[0];
    map_b(&l->b, k, B, n, depth);
    for (int i = 0; i < LAB_C_MAPS; ++i) map_c(&l->c[i], k, C, m, n);
    l->trouble = trouble, l->limit_ns = 1000000000, l->epoch = 1, l->wait_slabs = 1;
    l->burst = p.burst, l->keep_a = keep[p.keep_a], l->keep_b = keep[p.keep_b], l->keep_c = keep[p.keep_c];
    int bands = lab_ceil(m, k.bm), cols = lab_ceil(n, k.bn);
    int tail = p.split == 1 ? 0 : p.tail_cols ? p.tail_cols : cols;
    if (cols > tail) patch_push(l, patch_rect(k, p, bands, cols - tail, 0, 0, depth));
    // Slices 1 .. split-1 leave their sums in scratch, then slice 0 adds them to its own: k ascends. The tiles of slice 0 come
    // last in the list, so they only ever wait for earlier ones.
    int slabs = lab_ceil(depth, 64);
    for (int i = 1; tail && i <= p.split; ++i) {
        int s = i % p.split;
        int each = (slabs - p.skew) / p.split;
        auto first = [&](int x) { return x == 0 ? 0 : std::min(depth, 64 * (slabs - each * (p.split - x))); };
        lab_patch t = patch_rect(k, p, bands, tail, (cols - tail) * k.bn, first(s), first(s + 1));
        if (s == 0) {
            t.adds = p.split - 1, t.own_at = k.fold == 1 ? t.adds : 0;
        } else {
            t.c_maps = 0, t.area = s - 1, t.raise = RAISE_TILE;
            l->area[s - 1].base = scratch.bytes + (int64_t)(s - 1) * bands * tail * k.tile_bytes;
            l->area[s - 1].flag = scratch.flags + (int64_t)(s - 1) * bands * tail * k.groups;
        }
        patch_push(l, t);
    }
}
