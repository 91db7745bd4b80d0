// What a launch of one rank takes alone, when all that the others send is there: what is left of a plan's time without its link. After
// rests, in turns, beside the best of cuBLASLt's heuristics; results against a plain kernel, all elements.
//
//     lab_alone [out=FILE.json] [ranks=2|3|4] [peers=host] MxNxK ...
//
// bare: the product of all rows, one patch. rows: the rows of the other ranks, then the own ones. sums: and own tiles add. slices: the
// same in 4 to 32 slices of each rank's rows, own ones a slice behind. strips: both in two strips of columns. all: as sums, and own tiles
// go to the other ranks, too. columns: the same where ranks own columns.
// peers=host: what goes to other ranks goes to the host's memory, over a link that is slower than one between GPUs; k has to be longer as
// much for the same share of the time.
#include "kernel/instance.h"
#include "kernel_check.h"
#include "runner.h"
#include <memory>

typedef __nv_bfloat16 T;
enum { ROUNDS = 9, FIRST_FLAG = 256 };
enum Place { A, B, C, PEER, INBOX = PEER + MOST_RANKS };  // two of each rank
enum Form { BARE, ROWS, SUMS, SLICES4, SLICES8, SLICES16, SLICES32, STRIPS, ALL, COLUMNS, FORMS };
static const char *const names[FORMS] = {"bare", "rows", "sums", "slices 4", "slices 8", "slices 16", "slices 32", "strips", "all", "columns"};
static const int tiles[][2] = {{128, 256}, {128, 192}, {128, 128}};

struct Launches {
    Lists lists;
    std::vector<sg_kernel_gemm> gemm;
};

struct Alone {
    KernelCheck check;
    Vendor vendor;
    cudaEvent_t begin, end;
    char *pool, *out, *peer[MOST_RANKS], *inbox[MOST_RANKS], *want;
    size_t pool_bytes = 2ull << 30, out_bytes = 1ull << 29, set_bytes = 0, a_bytes = 0;
    int m = 0, n = 0, k = 0, sets = 0, ranks = 2;
    bool by_host = false;

    void open() {
        check.open(MOST_RANKS), vendor.open();
        CHECK(cudaEventCreate(&begin)), CHECK(cudaEventCreate(&end));
        CHECK(cudaMalloc(&pool, pool_bytes)), fill_run(TYPE_BF16, pool, pool_bytes / 2, 1234, NORMAL);
        std::vector<char **> whole = {&out, &want};
        for (int q = 1; q < MOST_RANKS; ++q) {
            whole.push_back(&inbox[q]);
            if (!by_host) whole.push_back(&peer[q]);
            else CHECK(cudaHostAlloc((void **)&peer[q], out_bytes, cudaHostAllocDefault));
        }
        for (char **p : whole) CHECK(cudaMalloc(p, out_bytes)), CHECK(cudaMemset(*p, 0, out_bytes));
        for (int r = 0; r < MOST_RANKS; ++r)  // all flags are up
            for (int page = 0; page < PAGES; ++page) {
                const size_t size = page ? 256 << (page - 1) : 256;
                CHECK(cudaMemset(check.world.words[r].flag[page], 0x7f, 8 * check.world.ranks * size));
            }
    }
    char *a(int set) { return pool + set * set_bytes; }
    char *b(int set) { return a(set) + a_bytes; }

    // OWNER's ROWS rows from ROW0, columns [COL0, COL0 + COLS), in bands of TM: rank 0's add what has come, and go where FORM says.
    void part(Lists &l, Form form, int owner, int row0, int rows, int col0, int cols, int tm) {
        sg_patch &p = l.rect(row0, rows, cols, k, Lists::area(0, A, row0, rows, 0, k), Lists::area(0, B, col0, cols, 0, k), std::min(12, lab_ceil(rows, tm)));
        p.col0 = col0, p.final = owner == 0;
        l.store(Lists::area(0, owner ? PEER + owner : C, row0, rows, col0, cols));
        if (owner) return l.raises(owner, SG_PER_TILE, 0);
        for (int q = 1; q < ranks && form >= SUMS; ++q) {
            sg_wait wait = {};
            wait.by = (int16_t)q, wait.per = SG_PER_TILE, wait.flag0 = FIRST_FLAG, wait.chunks_k = 1;
            l.adds(Lists::area(0, INBOX + q, row0, rows, col0, cols), &wait);
            l.patch.back().own_at = 1, l.patch.back().own_rounded = 1;
        }
        for (int q = 1; q < ranks && form >= ALL; ++q) l.store(Lists::area(0, PEER + q, row0, rows, col0, cols));
    }
    // Slice C of OWNER's rows; one beyond the last is empty.
    void slice(Lists &l, int owner, int c, int slices, int tm) {
        const int rows = m / ranks, high = lab_ceil(lab_ceil(rows, slices), tm) * tm, row0 = std::min(rows, c * high);
        if (c >= 0 && row0 < rows) part(l, SUMS, owner, owner * rows + row0, std::min(high, rows - row0), 0, n, tm);
    }
    // Of each of PARTS, in whole tiles.
    int columns(int parts, int tn) { return lab_ceil(lab_ceil(n, parts), tn) * tn; }
    void lists(Lists &l, Form form, int tm, int tn) {
        l.program.own = check.world.words[0];
        if (form == BARE) return part(l, form, 0, 0, m, 0, n, tm);
        const bool sliced = form >= SLICES4 && form <= SLICES32;
        if (sliced)
            for (int c = 0, slices = 4 << (form - SLICES4); c <= slices; ++c)
                for (int i = 1; i <= ranks; ++i) slice(l, i % ranks, c - (i == ranks), slices, tm);
        const int rows = m / ranks, strip = form == STRIPS ? columns(2, tn) : n;
        for (int i = 1; i <= ranks && form == COLUMNS; ++i) {
            const int q = i % ranks, col0 = std::min(n, q * columns(ranks, tn));
            if (col0 < n) part(l, form, q, 0, m, col0, std::min(columns(ranks, tn), n - col0), tm);
        }
        for (int col0 = 0; col0 < n && form != COLUMNS && !sliced; col0 += strip)
            for (int i = 1; i <= ranks; ++i) part(l, form, i % ranks, i % ranks * rows, rows, col0, std::min(strip, n - col0), tm);
    }
    // Empty, or why it cannot be.
    const char *make(Launches &l, Form form, int tm, int tn) {
        lists(l.lists, form, tm, tn);
        l.lists.finish(check.world.rank[0], SG_KERNEL_BF16);
        l.gemm.resize(sets);
        const char *why = nullptr;
        for (int i = 0; i < sets && !why; ++i) {
            sg_kernel_place *place = l.lists.program.place;
            place[A] = place_of(a(i), nullptr, m, k, k, 2), place[B] = place_of(b(i), nullptr, n, k, k, 2);
            place[C] = place_of(out, nullptr, m, n, n, 2);
            for (int q = 1; q < ranks; ++q) place[PEER + q] = place_of(peer[q], nullptr, m, n, n, 2), place[INBOX + q] = place_of(inbox[q], nullptr, m, n, n, 2);
            why = sg_kernel_gemm_make(&l.gemm[i], &l.lists.program, &l.lists.host, 0, 0, (int)l.lists.patch.size(), tm, tn, 0);
            l.gemm[i].want_cluster = 1;
            if (!why) why = sg_kernel_gemm_aim(&l.gemm[i]);
            if (!why) why = l.gemm[i].slow;
        }
        return why;
    }
    bool same(const char *x, const char *y, size_t pitch, size_t bytes, size_t rows) {
        std::vector<char> a(bytes * rows), b(bytes * rows);
        CHECK(cudaMemcpy2D(a.data(), bytes, x, pitch, bytes, rows, cudaMemcpyDefault));
        CHECK(cudaMemcpy2D(b.data(), bytes, y, pitch, bytes, rows, cudaMemcpyDefault));
        return a == b;
    }
    // What addends of zeros leave is the product: here, or at another rank; own tiles that go to all are there as well.
    void judge(Runner &r, Form form, int tm, int tn) {
        CHECK(cudaMemset(out, 0xff, out_bytes));
        for (int q = 1; q < ranks; ++q) CHECK(cudaMemset(peer[q], 0xff, out_bytes));
        r.issue(0);
        CHECK(cudaDeviceSynchronize());
        const size_t pitch = 2 * n, rows = m / ranks, band = rows * pitch;
        const int width = columns(ranks, tn);
        if (form >= ALL) {
            const size_t across = form == COLUMNS ? 2 * width : pitch, down = form == COLUMNS ? m : rows;
            for (int q = 1; q < ranks; ++q) check.expect(same(out, peer[q], pitch, across, down), "what all have is the same");
        }
        for (int q = 1; q < ranks && form != BARE; ++q) {
            const size_t at = form == COLUMNS ? 2 * std::min(n, q * width) : q * band;
            const size_t across = form == COLUMNS ? std::min<size_t>(2 * width, pitch - at) : pitch;
            if (across) CHECK(cudaMemcpy2D(out + at, pitch, peer[q] + at, pitch, across, form == COLUMNS ? m : rows, cudaMemcpyDefault));
        }
        const Verdict v = verdict((T *)out, (T *)want, (int64_t)m * n);
        char what[100];
        snprintf(what, sizeof what, "%dx%dx%d %s in %dx%d: %.2e", m, n, k, names[form], tm, tn, sqrt(v.error2 / v.norm2));
        check.expect(sqrt(v.error2 / v.norm2) < 4e-3, what);
    }
    void shape(int m_, int n_, int k_, FILE *json) {
        m = m_, n = n_, k = k_;
        a_bytes = ((size_t)m * k * 2 + 1023) & ~1023ull, set_bytes = a_bytes + (((size_t)n * k * 2 + 1023) & ~1023ull);
        sets = (int)std::min<size_t>(8, pool_bytes / set_bytes);
        if (sets < 1 || m % ranks || (size_t)m * n * 2 > out_bytes) fprintf(stderr, "%dx%dx%d is too large, or no multiple of ranks\n", m, n, k), exit(1);
        vendor.shape(m, n, k, TYPE_BF16);
        std::vector<Runner> all;
        for (int i = 0; i < vendor.algos; ++i) all.push_back({"cuBLASLt", [=](int x) { vendor.run(i, a(x % sets), b(x % sets), want, 0); }, {}});
        all[0].issue(0);
        for (auto &t : tiles)
            for (int form = 0; form < FORMS; ++form) {
                auto l = std::make_shared<Launches>();
                if (const char *why = make(*l, (Form)form, t[0], t[1])) {
                    printf("%s in %dx%d: %s\n", names[form], t[0], t[1], why);
                    continue;
                }
                const std::string name = std::string(names[form]) + " " + std::to_string(t[0]) + "x" + std::to_string(t[1]);
                all.push_back({name, [=](int x) { CHECK(sg_kernel_gemm_run(&l->gemm[x % l->gemm.size()], SG_KERNEL_EARLY, 0)); }, {}});
                judge(all.back(), (Form)form, t[0], t[1]);
            }
        for (int round = 0; round < ROUNDS; ++round)
            for (size_t i = 0; i < all.size(); ++i) all[(i + round) % all.size()].time(begin, end);
        double best = 1e30;
        for (int i = 0; i < vendor.algos; ++i) best = std::min(best, all[i].median());
        printf("%d ranks, %dx%dx%d: cuBLASLt %.1f us", ranks, m, n, k, best);
        fprintf(json, "{\"ranks\":%d,\"m\":%d,\"n\":%d,\"k\":%d,\"cublaslt_us\":%.2f", ranks, m, n, k, best);
        for (size_t i = vendor.algos; i < all.size(); ++i) {
            printf("%s%s %.1f", (i - vendor.algos) % FORMS ? ", " : "\n    ", all[i].name.c_str(), all[i].median());
            fprintf(json, ",\"%s\":%.2f", all[i].name.c_str(), all[i].median());
        }
        printf("\n"), fprintf(json, "}\n");
    }
};

int main(int argc, char **argv) {
    Alone alone;
    FILE *json = fopen("/dev/null", "w");
    for (int i = 1; i < argc; ++i) alone.by_host |= !strcmp(argv[i], "peers=host");
    alone.open();
    CHECK(sg_kernel_load());
    for (int i = 1, m, n, k; i < argc; ++i) {
        if (!strncmp(argv[i], "out=", 4)) json = fopen(argv[i] + 4, "w");
        else if (sscanf(argv[i], "ranks=%d", &m) == 1 && m >= 2 && m <= MOST_RANKS) alone.ranks = m;
        else if (sscanf(argv[i], "%dx%dx%d", &m, &n, &k) == 3) alone.shape(m, n, k, json);
        else if (strcmp(argv[i], "peers=host")) fprintf(stderr, "lab_alone: %s: out=FILE, ranks=2|3|4, peers=host or MxNxK is expected\n", argv[i]), exit(2);
    }
    alone.check.expect(alone.check.world.trouble[0].kind == 0, "trouble");
    printf("checks: %d passed, %d failed\n", alone.check.passed, alone.check.failed);
    return alone.check.failed != 0;
}
