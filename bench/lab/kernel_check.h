// Checks of src/kernel on one GPU: shapes, types, tiles; gather and scatter among ranks that share the GPU; time-outs.
#pragma once
#include "world.h"
#include <unistd.h>

template <class T> constexpr int type_of() { return sizeof(T) == 4 ? SG_KERNEL_F32 : (float)(T)1.00390625f == 1.f ? SG_KERNEL_BF16 : SG_KERNEL_F16; }
template <> constexpr int type_of<float>() { return SG_KERNEL_F32; }
template <> constexpr int type_of<__nv_bfloat16>() { return SG_KERNEL_BF16; }
template <> constexpr int type_of<__half>() { return SG_KERNEL_F16; }

// Memory for the seats of a launch's blocks, which lasts as long as the program; LAB_SEATS=0: blocks keep their numbers.
static sg_kernel_seats *seats_of(const sg_kernel_gemm *g) {
    static const bool wanted = !getenv("LAB_SEATS") || atoi(getenv("LAB_SEATS")) > 0;
    sg_neighbours_look();
    sg_kernel_seats *memory = nullptr;
    const size_t bytes = wanted ? sg_kernel_seats_bytes(g) : 0;
    if (bytes) CHECK(cudaMalloc(&memory, bytes)), CHECK(cudaMemset(memory, 0, bytes));
    return memory;
}

struct KernelCheck {
    int passed = 0, failed = 0, slow = 0;
    World world;
    cudaStream_t stream[MOST_RANKS], other;
    float *partial;
    uint32_t *fold;

    void open(int ranks = 3) {
        world.open(ranks, (1ull << 32) - 40, 2000000000);
        for (auto &s : stream) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        partial = device<float>(64 << 20), fold = device<uint32_t>(1 << 16);
    }
    bool expect(bool ok, const char *what) {
        ok ? ++passed : ++failed;
        if (!ok && failed < 60) printf("FAILED %s\n", what);
        return ok;
    }
    void settle(const char *what) {
        cudaError_t e = cudaDeviceSynchronize();
        if (e == cudaSuccess) return;
        printf("%s: %s\n", what, cudaGetErrorString(e));
        exit(1);
    }
    bool calm(const char *what) {  // no rank has trouble
        bool ok = true;
        for (int r = 0; r < world.ranks; ++r) {
            sg_kernel_trouble &t = world.trouble[r];
            if (!t.kind) continue;
            printf("%s: rank %d kind %u late %u by %d step %d visit %d flag %d seen %llu wanted %llu\n", what, r, t.kind, t.late, t.by, t.step, t.visit, t.flag,
                   (unsigned long long)t.seen, (unsigned long long)t.wanted);
            ok = false;
        }
        if (!ok) world.recover();
        return ok;
    }
    void report(const Judgement &j, const char *what) {
        char text[300];
        snprintf(text, sizeof text, "%s: %llu wrong, first [%d,%d] is %g expected %g, %llu trampled", what, j.wrong, j.row, j.col, j.got, j.want, j.trampled);
        expect(j.wrong == 0 && j.trampled == 0, text);
    }
    template <class T> void fill_exact(T *p, int64_t count, uint64_t seed) {
        fill<<<256, 256>>>(p, count, seed, INTEGER);
        CHECK(cudaGetLastError());
    }
    template <class T> float *make_reference(const T *A, const T *B, int m, int n, int k) {
        float *ref = device<float>((size_t)m * n);
        if (k > 0) reference<<<dim3(lab_ceil(n, 32), lab_ceil(m, 32)), dim3(32, 32)>>>(A, B, ref, m, n, k);
        CHECK(cudaGetLastError());
        return ref;
    }
    void begin_all(int gate = 0) {
        for (int r = 0; r < world.ranks; ++r) CHECK(sg_kernel_begin(world.rank[r], 77, nullptr, 0, 0, 1, gate, 0, stream[0]));
        CHECK(cudaStreamSynchronize(stream[0]));
    }
    void end_all() {
        for (int r = 0; r < world.ranks; ++r) CHECK(sg_kernel_end(world.rank[r], 77, 0, 1, 1, 0, stream[0]));
        CHECK(cudaStreamSynchronize(stream[0]));
    }

    // One patch, tile and kernel; raises checked too. arch 0: the device's own; 80 and 70 force the slower kernels.
    template <class T> void single(int m, int n, int k, int tm, int tn, int arch, int extra, int bias_on, int act, int raise) {
        char what[200];
        snprintf(what, sizeof what, "single type %d %dx%dx%d tile %dx%d arch %d pitch+%d bias %d act %d raise %d", type_of<T>(), m, n, k, tm, tn, arch, extra, bias_on, act, raise);
        T *A = device<T>((size_t)m * (k + extra) + 8), *B = device<T>((size_t)n * (k + extra) + 8), *bias = device<T>(n + 8);
        T *dense_a = device<T>((size_t)m * k + 8), *dense_b = device<T>((size_t)n * k + 8);
        fill_exact(dense_a, (int64_t)m * k, 11 + m), fill_exact(dense_b, (int64_t)n * k, 5 + n), fill_exact(bias, n, 9);
        CHECK(cudaMemset(A, 0xff, (size_t)m * (k + extra) * sizeof(T))), CHECK(cudaMemset(B, 0xff, (size_t)n * (k + extra) * sizeof(T)));
        if (k) CHECK(cudaMemcpy2D(A, (k + extra) * sizeof(T), dense_a, k * sizeof(T), k * sizeof(T), m, cudaMemcpyDeviceToDevice));
        if (k) CHECK(cudaMemcpy2D(B, (k + extra) * sizeof(T), dense_b, k * sizeof(T), k * sizeof(T), n, cudaMemcpyDeviceToDevice));
        float *ref = make_reference(dense_a, dense_b, m, n, k);
        Guarded<T> C;
        C.open(m, n, n + extra);
        {
            Lists l;
            l.rect(0, m, n, k, Lists::area(0, 0, 0, m, 0, k), Lists::area(0, 1, 0, n, 0, k), (m + n) % 7 + 1);
            l.store(Lists::area(0, 2, 0, m, 0, n));
            const int bands = lab_ceil(m, tm), cols = lab_ceil(n, tn);
            if (raise) {
                l.raises(0, SG_PER_TILE, 300), l.raises(2, SG_PER_PATCH, 5, bands * cols);
            }
            l.program.act = act, l.program.bias = bias_on ? bias : nullptr;
            l.finish(world.rank[0], type_of<T>());
            l.program.place[0] = place_of(A, nullptr, m, k, k + extra, sizeof(T)), l.program.place[1] = place_of(B, nullptr, n, k, k + extra, sizeof(T));
            l.program.place[2] = place_of(C.data, nullptr, m, n, n + extra, sizeof(T));
            begin_all();
            sg_kernel_gemm g;
            const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 0, 0, 1, tm, tn, 0);
            if (arch) g.arch = arch;
            if (!why) why = sg_kernel_gemm_aim(&g);
            slow += g.slow != nullptr;
            if (why) printf("%s: %s\n", what, why);
            else CHECK(sg_kernel_gemm_run(&g, 0, stream[0]));
            settle(what);
            expect(!why && calm(what), what);
            report(judge(C, ref, n, bias_on ? bias : nullptr, act), what);
            if (raise) {
                const uint64_t e = world.get(0).epoch;
                int bad = 0;
                for (int i = 0; i < bands * cols; i += bands * cols > 64 ? 17 : 1) bad += world.flag(0, 0, 300 + i) != e;
                bad += world.flag(0, 0, 300 + bands * cols) == e;
                bad += world.flag(2, 0, 5) != e;
                std::vector<uint32_t> counts(l.raisers.size() + 1);
                CHECK(cudaMemcpy(counts.data(), l.program.count, 4 * counts.size(), cudaMemcpyDeviceToHost));
                for (uint32_t c : counts) bad += c != 0;
                expect(bad == 0, (std::string("raises of ") + what).c_str());
            }
            end_all();
        }
        cudaFree(A), cudaFree(B), cudaFree(bias), cudaFree(dense_a), cudaFree(dense_b), cudaFree(ref), C.close();
    }

    // Slices of k and the model's choices.
    template <class T> void plain(int m, int n, int k, int from, int to) {
        T *A = device<T>((size_t)m * k), *B = device<T>((size_t)n * k);
        fill_exact(A, (int64_t)m * k, 3 + m), fill_exact(B, (int64_t)n * k, 4 + n);
        float *ref = make_reference(A, B, m, n, k);
        Guarded<T> C;
        C.open(m, n, n);
        for (int i = from; i < to; ++i) {
            sg_kernel_plain q = {};
            q.m = m, q.n = n, q.k = k, q.type = type_of<T>();
            if (sg_kernel_plain_choose(&q, i)) break;
            char what[200];
            snprintf(what, sizeof what, "plain type %d %dx%dx%d tile %dx%d cluster %d split %d skew %d width %d", q.type, m, n, k, q.tile_m, q.tile_n, q.cluster, q.split, q.skew, q.patch.width);
            if (q.partial_bytes > (256 << 20) || q.fold_bytes > (4 << 16)) continue;
            Lists l;
            l.patch.push_back(q.patch), l.to.push_back(q.to);
            l.finish(nullptr, q.type);
            l.program.place[0] = place_of(A, nullptr, m, k, k, sizeof(T)), l.program.place[1] = place_of(B, nullptr, n, k, k, sizeof(T));
            l.program.place[2] = place_of(C.data, nullptr, m, n, n, sizeof(T));
            CHECK(cudaMemset(partial, 0xff, q.partial_bytes));
            sg_kernel_gemm g;
            const char *why = sg_kernel_plain_make(&g, &q, &l.program, &l.host, partial, fold);
            if (!why) why = sg_kernel_gemm_aim(&g);
            if (!why && g.slow) why = g.slow;
            if (why) printf("%s: %s\n", what, why);
            for (int round = 0; round < 2 && !why; ++round) {
                C.poison();
                CHECK(cudaDeviceSynchronize());
                CHECK(sg_kernel_gemm_run(&g, round ? SG_KERNEL_EARLY : 0, stream[0]));
                settle(what);
                report(judge(C, ref, n, (const T *)nullptr, 0), what);
            }
            expect(!why, what);
        }
        cudaFree(A), cudaFree(B), cudaFree(ref), C.close();
    }

    // Rank 0 gathers: its own rows are at home, those of ranks 1 and 2 are copied while the product waits, chunk by chunk and slab by slab.
    template <class T> void gather(int m, int n, int k, int tm, int tn, int arch, int chunk, int chunk_k, int blocks, int run) {
        char what[200];
        snprintf(what, sizeof what, "gather type %d %dx%dx%d tile %dx%d arch %d chunk %d,%d run %d", type_of<T>(), m, n, k, tm, tn, arch, chunk, chunk_k, run);
        const int ranks = 3;
        int base[4];
        for (int r = 0; r <= ranks; ++r) base[r] = r * (m / ranks) + std::min(r, m % ranks);
        T *A = device<T>((size_t)m * k), *B = device<T>((size_t)n * k), *gathered[2] = {device<T>((size_t)m * k), device<T>((size_t)m * k)};
        fill_exact(A, (int64_t)m * k, 21 + m + run), fill_exact(B, (int64_t)n * k, 4 + n);
        for (T *g : gathered) CHECK(cudaMemset(g, 0xff, (size_t)m * k * sizeof(T)));
        float *ref = make_reference(A, B, m, n, k);
        Guarded<T> C;
        C.open(m, n, n);
        const int slabs = chunk_k ? lab_ceil(k, chunk_k) : 1;
        {
            // Places: 0 A of rank 0, 1 B, 2 C, 3 gathered, 4 A of all (the pushers' source)
            Lists l;
            struct Push {
                int rank;
                sg_kernel_step step;
            };
            std::vector<Push> pushes;
            for (int q = 0; q < ranks; ++q) {
                const int rows = base[q + 1] - base[q];
                if (rows == 0) continue;
                l.rect(base[q], rows, n, k, Lists::area(0, q ? 3 : 0, base[q], rows, 0, k), Lists::area(0, 1, 0, n, 0, k), 3);
                if (q) {
                    sg_wait w = {};
                    w.by = (int16_t)q, w.per = SG_PER_ROWS, w.row0 = base[q], w.rows = rows, w.chunk = chunk, w.chunk_k = chunk_k, w.chunks_k = slabs;
                    l.waits(w), l.patch.back().slab = chunk_k;
                }
                l.store(Lists::area(0, 2, base[q], rows, 0, n));
            }
            const int patches = (int)l.patch.size();
            for (int q = 1; q < ranks; ++q) {
                const int rows = base[q + 1] - base[q];
                for (int x = 0, c = 0; x < rows; x += chunk, ++c)
                    for (int s = 0; s < slabs; ++s) {
                        const int k0 = s * chunk_k, width = chunk_k ? std::min(chunk_k, k - k0) : k, high = std::min(chunk, rows - x);
                        Push p = {q, {}};
                        p.step.step = 1, p.step.src = Lists::area(q, 4, base[q] + x, high, k0, width);
                        p.step.to0 = (int)l.to.size(), p.step.tos = 1, p.step.raise0 = (int)l.raise.size(), p.step.raises = 1;
                        p.step.ticket = (uint32_t *)fold + 60000 + q;
                        l.to.push_back(Lists::area(0, 3, base[q] + x, high, k0, width));
                        sg_raise r = {};
                        r.at = 0, r.per = SG_PER_PATCH, r.flag0 = c * slabs + s, r.counter = -1;
                        l.raise.push_back(r);
                        pushes.push_back(p);
                    }
            }
            l.finish(world.rank[0], type_of<T>());
            l.program.place[0] = place_of(A, nullptr, m, k, k, sizeof(T)), l.program.place[1] = place_of(B, nullptr, n, k, k, sizeof(T));
            l.program.place[2] = place_of(C.data, nullptr, m, n, n, sizeof(T)), l.program.place[4] = l.program.place[0];
            l.program.place[3] = run % 2 ? place_of(gathered[1], gathered[0], m, k, k, sizeof(T)) : place_of(gathered[0], gathered[1], m, k, k, sizeof(T));
            begin_all(1);
            sg_kernel_gemm g;
            const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 0, 0, patches, tm, tn, blocks);
            if (arch) g.arch = arch;
            if (!why) why = sg_kernel_gemm_aim(&g);
            slow += g.slow != nullptr;
            if (why) printf("%s: %s\n", what, why);
            else CHECK(sg_kernel_gemm_run(&g, SG_KERNEL_EARLY, stream[0]));
            usleep(300);
            for (size_t i = 0; i < pushes.size(); ++i) {
                sg_kernel_program mine = l.program;
                mine.rank = world.rank[pushes[i].rank];
                CHECK(sg_kernel_copy(&mine, &pushes[i].step, 1 + (int)(i % 3), 0, other));
                if (i % 5 == 4) usleep(100);
            }
            settle(what);
            expect(!why && calm(what), what);
            report(judge(C, ref, n, (const T *)nullptr, 0), what);
            end_all();
        }
        cudaFree(A), cudaFree(B), cudaFree(gathered[0]), cudaFree(gathered[1]), cudaFree(ref), C.close();
    }

    // Three ranks scatter (or reduce to all): tiles go to their owner's inbox, the owner adds them in rank order. All three launches run at
    // once on a third of the SMs each.
    template <class T> void scatter(int m, int n, int k, int tm, int tn, int arch, bool all, bool final, int run, bool stingy = false) {
        char what[200];
        snprintf(what, sizeof what, "scatter type %d %dx%dx%d tile %dx%d arch %d all %d final %d run %d", type_of<T>(), m, n, k, tm, tn, arch, all, final, run);
        const int ranks = 3;
        int base[4], most = 0;
        for (int r = 0; r <= ranks; ++r) base[r] = r * (m / ranks) + std::min(r, m % ranks);
        for (int r = 0; r < ranks; ++r) most = std::max(most, base[r + 1] - base[r]);
        T *A[3], *B[3], *inbox[3][2], *bias = device<T>(n);
        Guarded<T> C[3];
        fill_exact(bias, n, 99);
        float *sum = device<float>((size_t)m * n);
        for (int r = 0; r < ranks; ++r) {
            A[r] = device<T>((size_t)m * k), B[r] = device<T>((size_t)n * k);
            fill_exact(A[r], (int64_t)m * k, 31 + m + 7 * r + run), fill_exact(B[r], (int64_t)n * k, 44 + n + r);
            for (int h = 0; h < 2; ++h) {
                inbox[r][h] = device<T>((size_t)ranks * most * n);
                CHECK(cudaMemset(inbox[r][h], 0xff, (size_t)ranks * most * n * sizeof(T)));
            }
            float *ref = make_reference(A[r], B[r], m, n, k);
            add_to(sum, ref, (int64_t)m * n);
            CHECK(cudaDeviceSynchronize());
            cudaFree(ref);
            C[r].open(all ? m : base[r + 1] - base[r], n, n);
        }
        {
            // Places: 0 A, 1 B, 2..4 C of ranks, 5..7 inbox of ranks
            Lists l[3];
            sg_kernel_gemm g[3];
            const char *why = nullptr;
            for (int r = 0; r < ranks; ++r) {
                int flag0 = 0, tiles[3];
                for (int q = 0; q < ranks; ++q) tiles[q] = lab_ceil(base[q + 1] - base[q], tm) * lab_ceil(n, tn);
                (void)flag0;
                for (int i = 1; i <= ranks; ++i) {
                    const int q = (r + i) % ranks, rows = base[q + 1] - base[q];
                    if (rows == 0) continue;
                    sg_patch &p = l[r].rect(base[q], rows, n, k, Lists::area(r, 0, base[q], rows, 0, k), Lists::area(r, 1, 0, n, 0, k), 2);
                    p.final = q == r && final;
                    if (q != r) {
                        l[r].store(Lists::area(q, 5 + q, r * most, rows, 0, n)), l[r].raises(q, SG_PER_TILE, 1);
                        continue;
                    }
                    p.own_at = (uint16_t)r;
                    for (int from = 0; from < ranks; ++from) {
                        if (from == r) continue;
                        sg_wait w = {};
                        w.by = (int16_t)from, w.per = SG_PER_TILE, w.flag0 = 1, w.chunks_k = 1;
                        l[r].adds(Lists::area(r, 5 + r, from * most, rows, 0, n), &w);
                    }
                    for (int j = 0; j < (all ? ranks : 1); ++j) {
                        const int to = (r + j) % ranks;
                        sg_area a = Lists::area(to, 2 + to, all ? base[r] : 0, rows, 0, n);
                        a.leave = to != r;
                        l[r].store(a);
                        if (j) l[r].raises(to, SG_PER_PATCH, 0, tiles[r]);
                    }
                }
                const int wait0 = (int)l[r].wait.size();
                for (int q = 0; q < ranks && all; ++q) {
                    sg_wait w = {};
                    w.by = (int16_t)q, w.per = SG_PER_PATCH, w.chunks_k = 1;
                    if (q != r && base[q + 1] > base[q]) l[r].wait.push_back(w);
                }
                l[r].program.bias = final ? bias : nullptr, l[r].program.act = final ? SG_KERNEL_RELU : 0;
                l[r].finish(world.rank[r], type_of<T>());
                l[r].program.hash = 78;
                sg_kernel_place *place = l[r].program.place;
                place[0] = place_of(A[r], nullptr, m, k, k, sizeof(T)), place[1] = place_of(B[r], nullptr, n, k, k, sizeof(T));
                for (int q = 0; q < ranks; ++q) {
                    place[2 + q] = place_of(C[q].data, nullptr, C[q].rows, n, n, sizeof(T));
                    place[5 + q] = place_of(inbox[q][0], inbox[q][1], ranks * most, n, n, sizeof(T));
                }
                const char *reason = sg_kernel_gemm_make(&g[r], &l[r].program, &l[r].host, r, 0, (int)l[r].patch.size(), tm, tn, 44);
                if (arch) g[r].arch = arch;
                if (!reason) reason = sg_kernel_gemm_aim(&g[r]);
                if (reason) why = reason;
                slow += g[r].slow != nullptr;
                (void)wait0;
            }
            if (why) printf("%s: %s\n", what, why);
            for (int r = 0; r < ranks && !(stingy && r == 2); ++r) CHECK(sg_kernel_begin(world.rank[r], 78, C[r].data, n, 0, 1, 1, 0, stream[r]));
            CHECK(cudaDeviceSynchronize());
            for (int r = 0; r < ranks && !why && !(stingy && r == 2); ++r) {
                CHECK(sg_kernel_gemm_run(&g[r], SG_KERNEL_EARLY, stream[r]));
                usleep(run % 3 * 200);
                sg_kernel_step s = {};
                s.step = 9, s.waits = 0;
                for (int q = 0; q < ranks && all; ++q) s.waits += q != r && base[q + 1] > base[q];
                s.wait0 = (int)l[r].wait.size() - s.waits;
                CHECK(sg_kernel_flag(&l[r].program, &s, 0, stream[r]));
                CHECK(sg_kernel_end(world.rank[r], 78, 0, 1, 1, 0, stream[r]));
            }
            settle(what);
            if (stingy) {  // rank 2 never came: the others end, and say so
                bool named = false;
                for (int r = 0; r < 2; ++r) named |= world.trouble[r].kind != 0 && world.trouble[r].late && world.trouble[r].by == 2;
                expect(named && world.trouble[0].kind && world.trouble[1].kind, "both others stop for rank 2");
                Guarded<T> &untouched = C[2];
                std::vector<unsigned char> bytes(untouched.count * sizeof(T));
                CHECK(cudaMemcpy(bytes.data(), untouched.all, bytes.size(), cudaMemcpyDeviceToHost));
                size_t touched = 0;
                for (unsigned char b : bytes) touched += b != 0xff;
                expect(touched == 0, "nothing is stored into the tensor of a rank that said no hello");
                world.recover();
            } else {
                expect(!why && calm(what), what);
                for (int r = 0; r < ranks; ++r)
                    report(judge(C[r], all ? sum : sum + (int64_t)base[r] * n, n, final ? bias : nullptr, final ? SG_KERNEL_RELU : 0), what);
            }
        }
        for (int r = 0; r < ranks; ++r) cudaFree(A[r]), cudaFree(B[r]), cudaFree(inbox[r][0]), cudaFree(inbox[r][1]), C[r].close();
        cudaFree(sum), cudaFree(bias);
    }

    // Places for tiles: a raster in two ranges into places, then sums of places without and with a product.
    template <class T> void tiled(int m, int n, int k, int tm, int tn, int arch) {
        char what[160];
        snprintf(what, sizeof what, "tiled type %d %dx%dx%d tile %dx%d arch %d", type_of<T>(), m, n, k, tm, tn, arch);
        const int bands = lab_ceil(m, tm), cols = lab_ceil(n, tn), all = bands * cols, low = all / 3;
        T *A = device<T>((size_t)m * k), *B = device<T>((size_t)n * k);
        fill_exact(A, (int64_t)m * k, 51 + m), fill_exact(B, (int64_t)n * k, 52 + n);
        float *ref = make_reference(A, B, m, n, k), *twice = device<float>((size_t)m * n);
        add_to(twice, ref, (int64_t)m * n), add_to(twice, ref, (int64_t)m * n);
        Guarded<T> C[2], places;
        for (Guarded<T> &c : C) c.open(m, n, n + 8);
        places.open(all * tm, tn, tn);
        {
            Lists l;
            const sg_area a = Lists::area(0, 0, 0, m, 0, k), b = Lists::area(0, 1, 0, n, 0, k);
            for (int part = 0; part < 2; ++part) {
                sg_patch &p = l.rect(0, m, n, k, a, b, 2);
                p.tile0 = part ? low : 0, p.tiles = part ? all - low : low;
                if (p.tiles == 0) {
                    l.patch.pop_back();
                    continue;
                }
                sg_area to = Lists::area(0, 3, p.tile0 * tm, p.tiles * tm, 0, tn);
                to.tiled = 1;
                l.store(to);
            }
            const int first = (int)l.patch.size();
            sg_area from = Lists::area(0, 3, 0, all * tm, 0, tn);
            from.tiled = 1;
            for (int product = 0; product < 2; ++product) {
                sg_patch &p = l.rect(0, m, n, product ? k : 0, a, b, 2);
                p.own_at = (uint16_t)product;
                l.adds(from, nullptr), l.store(Lists::area(0, product ? 4 : 2, 0, m, 0, n));
            }
            l.finish(world.rank[0], type_of<T>());
            sg_kernel_place *place = l.program.place;
            place[0] = place_of(A, nullptr, m, k, k, sizeof(T)), place[1] = place_of(B, nullptr, n, k, k, sizeof(T));
            place[2] = place_of(C[0].data, nullptr, m, n, n + 8, sizeof(T)), place[4] = place_of(C[1].data, nullptr, m, n, n + 8, sizeof(T));
            place[3] = place_of(places.data, nullptr, all * tm, tn, tn, sizeof(T));
            begin_all();
            const char *why = nullptr;
            for (int launch = 0; launch < 3 && !why; ++launch) {
                sg_kernel_gemm g;
                why = sg_kernel_gemm_make(&g, &l.program, &l.host, launch, launch == 0 ? 0 : first + launch - 1, launch == 0 ? first : 1, tm, tn, 0);
                if (arch) g.arch = arch;
                if (!why) why = sg_kernel_gemm_aim(&g);
                if (!why) CHECK(sg_kernel_gemm_run(&g, 0, stream[0]));
                expect(!arch || g.slow, "asked for a slower kernel");
                if (!arch && launch != 1 && g.slow && type_of<T>() != SG_KERNEL_F32) printf("%s: %s\n", what, g.slow);
            }
            settle(what);
            if (why) printf("%s: %s\n", what, why);
            expect(!why && calm(what), what);
            report(judge(C[0], ref, n, (const T *)nullptr, 0), (std::string(what) + ", no product").c_str());
            report(judge(C[1], twice, n, (const T *)nullptr, 0), (std::string(what) + ", and a product").c_str());
            std::vector<T> host(places.count);
            CHECK(cudaMemcpy(host.data(), places.all, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
            int bad = 0;
            for (int i = 0; i < all; ++i) {
                int band, col;
                sg_walk_tile(&l.patch[0], bands, cols, i, &band, &col);
                for (int r = 0; r < tm; ++r)
                    for (int x = 0; x < tn; ++x)
                        if (band * tm + r >= m || col * tn + x >= n) bad += (float)host[Guarded<T>::GUARD + ((size_t)i * tm + r) * tn + x] != 0.f;
            }
            expect(bad == 0, (std::string(what) + ": places are not blank beyond the edge").c_str());
            end_all();
        }
        cudaFree(A), cudaFree(B), cudaFree(ref), cudaFree(twice), C[0].close(), C[1].close(), places.close();
    }

    // Sums and permutations.
    template <class T> void reduce(int rows, int cols, int extra, int act) {
        char what[160];
        snprintf(what, sizeof what, "reduce type %d %dx%d pitch+%d act %d", type_of<T>(), rows, cols, extra, act);
        T *in[3], *bias = device<T>(cols);
        float *want = device<float>((size_t)rows * cols);
        fill_exact(bias, cols, 8);
        Guarded<T> C[2];
        for (Guarded<T> &c : C) c.open(rows, cols, cols + extra);
        Lists l;
        l.rect(0, rows, cols, 0, Lists::area(0, 0, 0, rows, 0, 0), Lists::area(0, 0, 0, rows, 0, 0), 1);
        for (int i = 0; i < 3; ++i) {
            in[i] = device<T>((size_t)rows * cols);
            fill_exact(in[i], (int64_t)rows * cols, 100 + i);
            add_to(want, in[i], (int64_t)rows * cols);
            l.adds(Lists::area(0, i, 0, rows, 0, cols), nullptr);
            l.program.place[i] = place_of(in[i], nullptr, rows, cols, cols, sizeof(T));
        }
        for (int i = 0; i < 2; ++i) l.store(Lists::area(0, 3 + i, 0, rows, 0, cols)), l.program.place[3 + i] = place_of(C[i].data, nullptr, rows, cols, cols + extra, sizeof(T));
        l.raises(1, SG_PER_PATCH, 7);
        l.program.bias = bias, l.program.act = act;
        l.finish(world.rank[0], type_of<T>());
        begin_all();
        sg_kernel_step s = {};
        s.adds = 3, s.tos = 2, s.raises = 1, s.final = 1, s.ticket = fold + 60010;
        CHECK(sg_kernel_reduce(&l.program, &s, 20, 0, stream[0]));
        settle(what);
        expect(calm(what) && world.flag(1, 0, 7) == world.get(0).epoch, what);
        for (Guarded<T> &c : C) report(judge(c, want, cols, bias, act), what);
        // The rows of C[0], the upper and the lower half exchanged, in C[1].
        const int low = rows / 2;
        int32_t *runs = upload(std::vector<int32_t>{0, rows - low, low, low, 0, rows - low});
        C[1].poison();
        CHECK(cudaDeviceSynchronize());
        CHECK(sg_kernel_permute(&l.program.place[3], &l.program.place[4], runs, 2, sizeof(T), 8, 0, stream[0]));
        settle(what);
        std::vector<T> x(C[0].count), y(C[1].count);
        CHECK(cudaMemcpy(x.data(), C[0].all, x.size() * sizeof(T), cudaMemcpyDeviceToHost)), CHECK(cudaMemcpy(y.data(), C[1].all, y.size() * sizeof(T), cudaMemcpyDeviceToHost));
        int bad = 0;
        for (int row = 0; row < rows; ++row)
            bad += memcmp(&x[Guarded<T>::GUARD + (size_t)row * (cols + extra)], &y[Guarded<T>::GUARD + (size_t)(row < low ? row + rows - low : row - low) * (cols + extra)], cols * sizeof(T)) != 0;
        expect(bad == 0, (std::string("permute after ") + what).c_str());
        end_all();
        for (T *p : in) cudaFree(p);
        for (Guarded<T> &c : C) c.close();
        cudaFree(bias), cudaFree(want), cudaFree(runs);
    }

    template <class X> void add_to(float *sum, const X *x, int64_t count);

    // A flag that never comes: the launch ends by itself, says who waited for what, and the next run is right.
    void missing_flag(int tm, int tn, int arch) {
        typedef __nv_bfloat16 T;
        char what[100];
        snprintf(what, sizeof what, "missing flag, tile %dx%d arch %d", tm, tn, arch);
        const int m = 700, n = 520, k = 512;
        T *A = device<T>(m * k), *B = device<T>(n * k), *C = device<T>(m * n);
        {
            Lists l;
            l.rect(0, m, n, k, Lists::area(0, 0, 0, m, 0, k), Lists::area(0, 1, 0, n, 0, k), 2);
            sg_wait w = {};
            w.by = 1, w.per = SG_PER_ROWS, w.flag0 = 600, w.rows = m, w.chunk = 256, w.chunks_k = 1;
            l.waits(w), l.store(Lists::area(0, 2, 0, m, 0, n)), l.raises(1, SG_PER_PATCH, 3, lab_ceil(m, tm) * lab_ceil(n, tn));
            l.finish(world.rank[0], type_of<T>());
            l.program.place[0] = place_of(A, nullptr, m, k, k, 2), l.program.place[1] = place_of(B, nullptr, n, k, k, 2), l.program.place[2] = place_of(C, nullptr, m, n, n, 2);
            uint64_t brief = 20000000;
            CHECK(cudaMemcpy(&world.rank[0]->limit_ns, &brief, 8, cudaMemcpyHostToDevice));
            begin_all();
            sg_kernel_gemm g;
            const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 4, 0, 1, tm, tn, 0);
            if (arch) g.arch = arch;
            if (!why) why = sg_kernel_gemm_aim(&g);
            double before = now_seconds();
            if (!why) CHECK(sg_kernel_gemm_run(&g, 0, stream[0]));
            settle(what);
            double took = now_seconds() - before;
            sg_kernel_trouble t = world.trouble[0];
            bool told = t.kind == SG_KERNEL_STUCK_FLAG && t.late && t.by == 1 && t.step == 4 && t.flag >= 600 && t.flag < 603 && t.wanted == world.get(0).epoch && t.seen < t.wanted;
            if (!expect(!why && told && took < 0.5, what))
                printf("  kind %u late %u by %d step %d visit %d flag %d seen %llu wanted %llu, %.3f s\n", t.kind, t.late, t.by, t.step, t.visit, t.flag, (unsigned long long)t.seen,
                       (unsigned long long)t.wanted, took);
            uint64_t word;
            CHECK(cudaMemcpy(&word, world.words[2].abort + 0, 8, cudaMemcpyDeviceToHost));
            expect(word == world.get(0).epoch, "abort is raised at the other ranks");
            brief = 2000000000;
            CHECK(cudaMemcpy(&world.rank[0]->limit_ns, &brief, 8, cudaMemcpyHostToDevice));
            world.recover();
        }
        cudaFree(A), cudaFree(B), cudaFree(C);
    }
    static double now_seconds() {
        timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec + 1e-9 * t.tv_nsec;
    }
    void run(bool brief);
};

template <class X> __global__ void add_kernel(float *sum, const X *x, int64_t count) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64_t)blockDim.x) sum[i] += (float)x[i];
}
template <class X> void KernelCheck::add_to(float *sum, const X *x, int64_t count) {
    ::add_kernel<<<256, 256>>>(sum, x, count);
    CHECK(cudaGetLastError());
}

template <class T> static void check_type(KernelCheck &c, bool brief) {
    sg_kernel_tile tiles[16];
    const int count = sg_kernel_tiles((enum sg_kernel_type)type_of<T>(), tiles, 16);
    static const int shapes[][3] = {{512, 1024, 512}, {200, 520, 264}, {1000, 776, 1096}, {16, 2560, 1024}, {1, 8, 8}, {384, 1800, 2040}, {2000, 1600, 320}, {4097, 264, 192}};
    for (auto &s : shapes)
        for (int i = 0; i < count; ++i) c.single<T>(s[0], s[1], s[2], tiles[i].m, tiles[i].n, 0, (s[0] + i) % 3 * 8, 0, 0, 1);
    for (int i = 0; i < count; ++i)
        for (int act = 0; act < 4; ++act) c.single<T>(333, 520, 192, tiles[i].m, tiles[i].n, 0, 8, act != 1, act, 0);
    for (int arch : {80, 70}) {
        for (int i = 0; i < 4; ++i) c.single<T>(shapes[i + 1][0], shapes[i + 1][1], shapes[i + 1][2], 128, 128, arch, 8 * (i % 2), i == 1, i, 1);
        c.single<T>(100, 77, 300, 96, 40, arch, arch == 70 ? 3 : 8, 1, 2, 1);
        c.single<T>(65, 70, 0, 64, 64, arch, 8, 1, 0, 1);
    }
    c.single<T>(65, 70, 33, 64, 128, 0, 1, 1, 0, 1);   // not aligned
    c.single<T>(65, 72, 0, 64, 128, 0, 8, 1, 0, 1);    // no product
    for (int i = 0; i < count && i < 5; ++i)
        for (int run = 0; run < 2; ++run) {
            c.gather<T>(1000, 776, 1024, tiles[i].m, tiles[i].n, 0, 128, 0, 120, run);
            c.gather<T>(1200, 520, 1096, tiles[i].m, tiles[i].n, 0, 100, 256, 124, run);
            c.scatter<T>(1000, 776, 512, tiles[i].m, tiles[i].n, 0, run, run, run);
            c.scatter<T>(7, 264, 128, tiles[i].m, tiles[i].n, 0, run, 0, run);
            c.scatter<T>(2, 264, 128, tiles[i].m, tiles[i].n, 0, run, 0, run);
        }
    for (int arch : {80, 70}) {
        c.gather<T>(500, 264, 1032, 128, 128, arch, 100, 256, 60, 1), c.scatter<T>(500, 264, 256, 128, 128, arch, true, true, 1);
        c.scatter<T>(500, 264, 256, 128, 256, arch, false, false, 1);
    }
    for (int i = 0; i < count; ++i)
        if (tiles[i].m * tiles[i].n != 64 * 64) c.tiled<T>(300 + i, 520, 136, tiles[i].m, tiles[i].n, 0);
    for (int arch : {80, 70}) c.tiled<T>(300, 520, 136, 128, 128, arch), c.tiled<T>(150, 77, 40, 96, 40, arch);
    c.reduce<T>(300, 520, 0, 0), c.reduce<T>(301, 77, 5, 1), c.reduce<T>(64, 1024, 8, 2);
}

inline void KernelCheck::run(bool brief) {
    check_type<__nv_bfloat16>(*this, brief);
    printf("bf16: %d passed, %d failed, %d launches by slower kernels\n", passed, failed, slow), fflush(stdout);
    check_type<__half>(*this, brief);
    printf("f16:  %d passed, %d failed, %d slower\n", passed, failed, slow), fflush(stdout);
    check_type<float>(*this, brief);
    printf("f32:  %d passed, %d failed, %d slower\n", passed, failed, slow), fflush(stdout);
    static const int shapes[][3] = {{16, 2560, 2048}, {128, 2560, 1024}, {512, 2560, 1024}, {200, 520, 1032}, {1000, 776, 1096}};
    for (auto &s : shapes) plain<__nv_bfloat16>(s[0], s[1], s[2], 0, 60), plain<__half>(s[0], s[1], s[2], 0, 20);
    printf("plain: %d passed, %d failed\n", passed, failed), fflush(stdout);
    for (int i = 0; i < 3; ++i) {
        missing_flag(128, 256, 0), missing_flag(128, 128, 0), missing_flag(64, 128, 0), missing_flag(128, 128, 80), missing_flag(64, 64, 70);
        scatter<__nv_bfloat16>(600, 520, 256, 128, 256, 0, true, false, i, i == 1);
        scatter<__nv_bfloat16>(600, 520, 256, 128, 128, 0, true, false, i);
    }
    printf("time-outs: %d passed, %d failed\n", passed, failed), fflush(stdout);
}
