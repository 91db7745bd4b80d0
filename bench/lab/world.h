// Ranks that all live on one GPU: words, lists and programs for kernels of src/kernel, and a judge that compares bit by bit.
#pragma once
#include "data.cuh"
#include "kernel/kernel.h"
#include "kernel/neighbours.h"
#include <algorithm>
#include <vector>

enum { MOST_RANKS = 8, PAGES = 8 /* 32768 flags */ };

template <class T> static T *device(size_t count) {
    T *p;
    CHECK(cudaMalloc(&p, count * sizeof(T) + 256));
    CHECK(cudaMemset(p, 0, count * sizeof(T)));
    return p;
}
template <class T> static T *upload(const std::vector<T> &v) {
    T *p = device<T>(v.size() + 1);
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

struct World {
    int ranks;
    sg_kernel_words words[MOST_RANKS];
    sg_kernel_rank *rank[MOST_RANKS];
    sg_kernel_trouble *trouble, *trouble_seen;

    void open(int n, uint64_t epoch, uint64_t limit_ns) {
        ranks = n;
        for (int r = 0; r < n; ++r) {
            sg_kernel_words &w = words[r];
            w = {};
            w.done = device<uint64_t>(n), w.abort = device<uint64_t>(n), w.hello = device<sg_kernel_hello>(2 * n);
            for (int page = 0; page < PAGES; ++page) w.flag[page] = device<uint64_t>((size_t)n * (page ? 256 << (page - 1) : 256));
        }
        std::vector<sg_kernel_words> all(words, words + n);
        const sg_kernel_words *table = upload(all);
        CHECK(cudaHostAlloc(&trouble, MOST_RANKS * sizeof *trouble, cudaHostAllocMapped));
        memset(trouble, 0, MOST_RANKS * sizeof *trouble);
        CHECK(cudaHostGetDevicePointer((void **)&trouble_seen, trouble, 0));
        for (int r = 0; r < n; ++r) {
            sg_kernel_rank k = {};
            k.epoch = epoch, k.prev_half = 1, k.rank = r, k.ranks = n, k.limit_ns = limit_ns, k.words = table, k.trouble = trouble_seen + r;
            rank[r] = device<sg_kernel_rank>(1);
            CHECK(cudaMemcpy(rank[r], &k, sizeof k, cudaMemcpyHostToDevice));
        }
    }
    sg_kernel_rank get(int r) {
        sg_kernel_rank k;
        CHECK(cudaMemcpy(&k, rank[r], sizeof k, cudaMemcpyDeviceToHost));
        return k;
    }
    uint64_t flag(int at, int by, int index) {
        int page = 0, first = 0, size = 256;
        while (index >= first + size) first += size, size = first, ++page;
        uint64_t v;
        CHECK(cudaMemcpy(&v, words[at].flag[page] + (int64_t)by * size + index - first, 8, cudaMemcpyDeviceToHost));
        return v;
    }
    void recover() {  // what the host does after a failure
        for (int r = 0; r < ranks; ++r) {
            CHECK(cudaMemset(words[r].abort, 0, 8 * ranks));
            sg_kernel_rank k = get(r);
            k.leaving = 0, k.epoch += 2;
            CHECK(cudaMemcpy(rank[r], &k, sizeof k, cudaMemcpyHostToDevice));
        }
        uint64_t most = 0;
        for (int r = 0; r < ranks; ++r) most = std::max(most, get(r).epoch);
        for (int r = 0; r < ranks; ++r) CHECK(cudaMemcpy(&rank[r]->epoch, &most, 8, cudaMemcpyHostToDevice));
        memset(trouble, 0, MOST_RANKS * sizeof *trouble);
    }
};

// The lists of one rank's schedule, and its program.
struct Lists {
    std::vector<sg_patch> patch;
    std::vector<sg_wait> wait;
    std::vector<sg_addend> add;
    std::vector<sg_area> to;
    std::vector<sg_raise> raise;
    std::vector<int32_t> raisers;
    sg_kernel_program program = {};
    sg_kernel_lists host;
    std::vector<void *> held;

    static sg_area area(int rank, int place, int row0, int rows, int col0, int cols) {
        sg_area a = {};
        a.rank = (int16_t)rank, a.buf = (uint8_t)place, a.row0 = row0, a.rows = rows, a.col0 = col0, a.cols = cols;
        return a;
    }
    sg_patch &rect(int row0, int rows, int n, int k, sg_area a, sg_area b, int width) {
        sg_patch p = {};
        p.row0 = row0, p.rows = rows, p.cols = n, p.k1 = k, p.raster = SG_GROUPED, p.width = (uint8_t)width, p.final = 1;
        p.a = a, p.b = b;
        p.wait0 = (int)wait.size(), p.add0 = (int)add.size(), p.to0 = (int)to.size(), p.raise0 = (int)raise.size();
        patch.push_back(p);
        return patch.back();
    }
    void store(sg_area a) { to.push_back(a), ++patch.back().tos; }
    void waits(sg_wait w) { wait.push_back(w), ++patch.back().waits; }
    void adds(sg_area a, const sg_wait *w) {
        sg_addend d = {};
        d.area = a;
        if (w) d.wait = *w, d.awaited = 1;
        add.push_back(d), ++patch.back().adds;
    }
    void raises(int at, int per, int flag0, int by = 1) {
        sg_raise r = {};
        r.at = (int16_t)at, r.per = (uint8_t)per, r.flag0 = flag0, r.counter = by > 1 ? (int)raisers.size() : -1;
        if (by > 1) raisers.push_back(by);
        raise.push_back(r), ++patch.back().raises;
    }
    void finish(sg_kernel_rank *rank, int type) {
        auto keep = [&](auto *p) { return held.push_back((void *)p), p; };
        program.rank = rank, program.type = type;
        program.patch = keep(upload(patch)), program.wait = keep(upload(wait)), program.add = keep(upload(add));
        program.to = keep(upload(to)), program.raise = keep(upload(raise)), program.raisers = keep(upload(raisers));
        program.count = keep(device<uint32_t>(raisers.size() + 1));
        host = {patch.data(), wait.data(), add.data(), to.data(), raise.data()};
    }
    ~Lists() {
        for (void *p : held) cudaFree(p);
    }
};

static sg_kernel_place place_of(void *data, void *other, int rows, int cols, int pitch, int bytes) {
    sg_kernel_place p = {};
    p.data[0] = data, p.data[1] = other ? other : data, p.rows = rows, p.cols = cols, p.pitch = (int64_t)pitch * bytes;
    return p;
}

// A matrix with poison before, behind and between its rows.
template <class T> struct Guarded {
    T *all, *data;
    int rows, cols, pitch;
    size_t count;
    static constexpr int GUARD = 1 << 14;
    void open(int r, int c, int p) {
        rows = r, cols = c, pitch = p, count = (size_t)r * p + 2 * GUARD;
        CHECK(cudaMalloc(&all, count * sizeof(T)));
        data = all + GUARD;
        poison();
    }
    void poison() { CHECK(cudaMemset(all, 0xff, count * sizeof(T))); }
    void close() { CHECK(cudaFree(all)); }
};

template <class T> __device__ bool is_poison(const T *p) {
    const unsigned char *b = (const unsigned char *)p;
    for (int i = 0; i < (int)sizeof(T); ++i)
        if (b[i] != 0xff) return false;
    return true;
}

__device__ inline float act_reference(int act, float x) {
    if (act == SG_KERNEL_RELU) return x < 0 ? 0 : x;
    if (act == SG_KERNEL_GELU) return (float)(0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * (double)x * x * x))));
    if (act == SG_KERNEL_SILU) return (float)(x / (1 + exp(-(double)x)));
    return x;
}

struct Judgement {
    unsigned long long wrong, trampled;
    float got, want;
    int row, col;
};

// Every element inside must be the rounded reference; every one outside must be poison. near: two units in the last place.
template <class T>
__global__ void judge_kernel(const T *all, int guard, int rows, int cols, int pitch, const float *want, int want_pitch, const T *bias, int act, Judgement *out) {
    int64_t count = (int64_t)rows * pitch + 2 * guard;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64_t)blockDim.x) {
        int64_t at = i - guard;
        int row = at < 0 ? -1 : (int)(at / pitch), col = at < 0 ? 0 : (int)(at % pitch);
        if (row < 0 || row >= rows || col >= cols) {
            if (!is_poison(all + i)) atomicAdd(&out->trampled, 1ull);
            continue;
        }
        float w = want[(int64_t)row * want_pitch + col];
        if (bias) w += (float)bias[col];
        w = (float)(T)act_reference(act, w);
        float g = (float)all[i];
        float slack = act >= SG_KERNEL_GELU ? fabsf(w) * (sizeof(T) == 4 ? 1e-5f : (float)(T)1.00390625f != 1.f ? 2e-3f : 1.6e-2f) + 1e-6f : 0.f;
        if (!(fabsf(g - w) <= slack) && atomicAdd(&out->wrong, 1ull) == 0) out->got = g, out->want = w, out->row = row, out->col = col;
    }
}

template <class T> static Judgement judge(const Guarded<T> &c, const float *want, int want_pitch, const T *bias, int act) {
    static Judgement *j = nullptr;
    if (!j) CHECK(cudaMalloc(&j, sizeof *j));
    Judgement host;
    CHECK(cudaMemset(j, 0, sizeof *j));
    judge_kernel<<<512, 256>>>(c.all, Guarded<T>::GUARD, c.rows, c.cols, c.pitch, want, want_pitch, bias, act, j);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&host, j, sizeof host, cudaMemcpyDeviceToHost));
    return host;
}
