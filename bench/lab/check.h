// Gate 0: every instance against the plain reference, on even and ragged shapes, with real and with exact data; the waiting,
// raising, adding and giving-up of the patch list on one GPU.
#pragma once
#include "data.cuh"
#include "plan.h"

struct Checker {
    std::vector<lab_kernel> kernels;
    lab_trouble *trouble;
    Scratch scratch;
    char *A, *B, *C;
    float *ref;
    uint64_t epoch = 0;
    int failed = 0, passed = 0;
    static constexpr int64_t ELEMENTS = 4 << 20, GUARD = 1 << 16;

    void open() {
        kernels = all_kernels();
        CHECK(cudaMalloc(&trouble, sizeof *trouble));
        CHECK(cudaMemset(trouble, 0, sizeof *trouble));
        scratch.size = 256 << 20;
        CHECK(cudaMalloc(&scratch.bytes, scratch.size));
        CHECK(cudaMalloc(&scratch.flags, 8 << 16));
        CHECK(cudaMemset(scratch.flags, 0, 8 << 16));
        CHECK(cudaMalloc(&A, 2 * ELEMENTS)), CHECK(cudaMalloc(&B, 2 * ELEMENTS));
        CHECK(cudaMalloc(&C, 2 * (ELEMENTS + 2 * GUARD)));
        CHECK(cudaMalloc(&ref, 4 * ELEMENTS));
    }

    bool expect(bool ok, const char *what, const char *detail) {
        ok ? ++passed : ++failed;
        if (!ok && failed < 40) printf("FAILED %s: %s\n", what, detail);
        return ok;
    }

    lab_trouble take_trouble() {
        lab_trouble t;
        CHECK(cudaMemcpy(&t, trouble, sizeof t, cudaMemcpyDeviceToHost));
        if (t.abort) CHECK(cudaMemset(trouble, 0, sizeof *trouble));
        return t;
    }

    template <class T> void make(int type, int m, int n, int depth, Data kind) {
        fill_run(type, A, (int64_t)m * depth, 11 + m + depth, kind), fill_run(type, B, (int64_t)n * depth, 77 + n, kind);
        reference<<<dim3(lab_ceil(n, 32), lab_ceil(m, 32)), dim3(32, 32)>>>((T *)A, (T *)B, ref, m, n, depth);
        CHECK(cudaGetLastError());
    }

    // Runs what is lowered in l, whose C points into our guarded buffer, and judges it.
    template <class T> bool judge(const lab_kernel &k, lab_launch &l, int grid, int m, int n, Data kind, const char *what) {
        char detail[200];
        l.epoch = ++epoch;
        launch(k, l, grid, false, 0);
        cudaError_t e = cudaDeviceSynchronize();
        if (e != cudaSuccess) {
            printf("%s: %s\n", what, cudaGetErrorString(e));
            exit(1);
        }
        lab_trouble t = take_trouble();
        if (t.abort) {
            snprintf(detail, sizeof detail, "gave up: role %u patch %u index %u seen %llu wanted %llu", t.role, t.patch, t.index,
                     (unsigned long long)t.seen, (unsigned long long)t.wanted);
            return expect(false, what, detail);
        }
        Verdict v = verdict((T *)C + GUARD, ref, (int64_t)m * n);
        std::vector<uint16_t> guard(2 * GUARD);
        CHECK(cudaMemcpy(guard.data(), C, 2 * GUARD, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(guard.data() + GUARD, (uint16_t *)C + GUARD + (int64_t)m * n, 2 * GUARD, cudaMemcpyDeviceToHost));
        int64_t trampled = 0;
        for (uint16_t g : guard) trampled += g != 0xffff;
        double rel = sqrt(v.error2 / v.norm2);
        bool ok = trampled == 0 && (kind == INTEGER ? v.wrong == 0 : rel < 3e-3);
        snprintf(detail, sizeof detail, "relative error %.2e, %llu wrong bits, %lld guards trampled", rel, v.wrong, (long long)trampled);
        return expect(ok, what, detail);
    }

    void poison() { CHECK(cudaMemset(C, 0xff, 2 * (ELEMENTS + 2 * GUARD))); }  // NaN

    template <class T> void one(int which, int m, int n, int depth, Data kind, int split, int own_at) {
        const lab_kernel &k = kernels[which];
        Plan p = {which, 132, 0, 2, split, 0, 0};
        if (split == 1 && (m + n) % 3 == 0) p.across = 1, p.width = 3;
        if (scratch_bytes(p, k, m, n) > (int64_t)scratch.size) return;
        poison();
        CHECK(cudaMemset(scratch.bytes, 0xff, scratch_bytes(p, k, m, n)));
        lab_launch l;
        plan_lower(p, k, m, n, depth, A, B, (T *)C + GUARD, scratch, trouble, &l);
        if (own_at >= 0 && k.fold == 1) l.patch[l.patches - 1].own_at = own_at;
        char what[200];
        snprintf(what, sizeof what, "%s, %d x %d x %d, %s, k/%d own %d", k.name, m, n, depth, kind == INTEGER ? "integer" : "normal", split, own_at);
        judge<T>(k, l, 132, m, n, kind, what);
    }

    void instances() {
        static const int shapes[][3] = {{512, 1024, 512}, {200, 520, 264}, {1000, 776, 1096}, {16, 2560, 1024}, {1, 8, 8}, {384, 1800, 2040}, {2000, 1600, 320}};
        for (auto &s : shapes)
            for (Data kind : {INTEGER, NORMAL})
                for (int type : {TYPE_BF16, TYPE_F16}) {
                    if (type == TYPE_BF16) make<__nv_bfloat16>(type, s[0], s[1], s[2], kind);
                    else make<__half>(type, s[0], s[1], s[2], kind);
                    for (int i = 0; i < (int)kernels.size(); ++i) {
                        if (kernels[i].type != type) continue;
                        for (int split = kernels[i].fold ? 2 : 1; split <= (kernels[i].fold ? 3 : 1); ++split) {
                            if (lab_ceil(s[2], 64) < split) continue;
                            for (int own = split > 1 && kind == INTEGER ? 0 : -1; own < (kind == INTEGER ? split - 1 : 0); ++own)
                                if (type == TYPE_BF16) one<__nv_bfloat16>(i, s[0], s[1], s[2], kind, split, own);
                                else one<__half>(i, s[0], s[1], s[2], kind, split, own);
                        }
                    }
                }
        printf("instances: %d passed, %d failed\n", passed, failed);
    }
    void hooks();
};

// Copies A row chunk by row chunk, slab by slab, in a few slow blocks, and raises a flag behind each piece: the copy engine
// of a peer, played by the same GPU.  Partner of the release: flag_wait in the loader.
static __global__ void pusher(const uint4 *from, uint4 *to, int rows, int row_vectors, int chunk_rows, int slab_vectors, int slabs,
                              uint64_t *flag, uint64_t epoch, int pause_ns) {
    for (int chunk = 0; chunk * chunk_rows < rows; ++chunk)
        for (int slab = 0; slab < slabs; ++slab) {
            for (int i = threadIdx.x; i < chunk_rows * slab_vectors; i += blockDim.x) {
                int row = chunk * chunk_rows + i / slab_vectors, at = slab * slab_vectors + i % slab_vectors;
                if (row < rows && at < row_vectors) to[(int64_t)row * row_vectors + at] = from[(int64_t)row * row_vectors + at];
            }
            __syncthreads();
            if (threadIdx.x == 0) flag_release(flag + chunk * slabs + slab, epoch);
            __nanosleep(pause_ns);
        }
}

inline void Checker::hooks() {
    typedef __nv_bfloat16 T;
    const int m = 1280, n = 1000, depth = 1024;
    cudaStream_t other;
    uint64_t *flags, *raised;
    uint32_t *counts;
    char *arrived;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&flags, 8 << 12)), CHECK(cudaMalloc(&raised, 8 << 12)), CHECK(cudaMalloc(&counts, 4 << 12));
    CHECK(cudaMemset(flags, 0, 8 << 12)), CHECK(cudaMemset(raised, 0, 8 << 12)), CHECK(cudaMemset(counts, 0, 4 << 12));
    CHECK(cudaMalloc(&arrived, 2 * ELEMENTS));
    int before = failed;
    make<T>(TYPE_BF16, m, n, depth, INTEGER);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < (int)kernels.size(); ++i) {
        const lab_kernel &k = kernels[i];
        if (k.type != TYPE_BF16 || k.fold) continue;
        for (int round = 0; round < 3; ++round) {
            char what[200];
            int chunk = round == 1 ? 256 : 192, slab = round == 0 ? 0 : 256, slabs = slab ? depth / slab : 1;
            Plan p = {i, 120, 1, 1, 1, 0, 0};
            lab_launch l;
            plan_lower(p, k, m, n, depth, arrived, B, (T *)C + GUARD, scratch, trouble, &l);
            lab_patch &t = l.patch[0];
            t.wait_rows = chunk, t.wait_k = slab, l.wait_slabs = slabs, l.wait_flag = flags;
            t.raise = RAISE_COUNTED, t.raise_bands = 2, t.raise0 = 3, l.count = counts, l.raise_flag = raised;
            poison();
            CHECK(cudaMemset(arrived, 0xff, 2 * (size_t)m * depth));
            CHECK(cudaDeviceSynchronize());
            int row_vectors = depth / 8, slab_vectors = row_vectors / slabs;
            pusher<<<1, 1024, 0, other>>>((uint4 *)A, (uint4 *)arrived, m, row_vectors, chunk, slab_vectors, slabs, flags, epoch + 1, 3000);
            snprintf(what, sizeof what, "late flags, %s, rows %d slab %d", k.name, chunk, slab);
            judge<T>(k, l, 120, m, n, INTEGER, what);
            std::vector<uint64_t> up(64);
            std::vector<uint32_t> rest(64);
            CHECK(cudaMemcpy(up.data(), raised, 512, cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(rest.data(), counts, 256, cudaMemcpyDeviceToHost));
            int groups = lab_ceil(lab_ceil(m, k.bm), 2), wrong = 0;
            for (int g = 0; g < groups; ++g) wrong += up[3 + g] != epoch;
            for (uint32_t c : rest) wrong += c != 0;
            expect(wrong == 0, what, "counted raise");
        }
        // A flag that never comes: the launch ends by itself, says who waited for what, and the next one is fine.
        lab_launch l;
        Plan p = {i, 132, 0, 4, 1, 0, 0};
        plan_lower(p, k, m, n, depth, A, B, (T *)C + GUARD, scratch, trouble, &l);
        l.patch[0].wait_rows = 256, l.wait_flag = flags, l.limit_ns = 2000000, l.epoch = 1ull << 40;
        launch(k, l, 132, false, 0);
        CHECK(cudaDeviceSynchronize());
        lab_trouble t = take_trouble();
        expect(t.abort == 1 && t.role == ROLE_FLAG && t.wanted == 1ull << 40, k.name, "missing flag is reported");
        poison();
        l.patch[0].wait_rows = 0;
        judge<T>(k, l, 132, m, n, INTEGER, "after giving up");
    }
    printf("hooks: %d failed\n", failed - before);
}
