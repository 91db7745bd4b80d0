/* runs_along_k.cpp -- of test_kernel_runs.cpp: a product of columns that ranks hold, which begins
 * with the own ones and goes on with those of others as their rows come. */
#include "runs_world.h"

enum { HASH = 911, FLAG = 120, STAGE = 64 };

/* Places: A, B, C, and from 3 on where columns come at each rank. */
struct along_k {
    const along_k_ask q;
    const std::string what;
    const uint64_t epoch = (1ull << 32) - 2;
    const std::vector<int> base; /* the first column of each rank */
    const int k;
    world w;
    std::vector<matrix> come[2], b;
    std::vector<plan> l;
    std::vector<std::vector<matrix>> a, c, was; /* of each run and rank; WAS: C before */

    explicit along_k(const along_k_ask &ask);
    int cols(int r) const
    {
        return base[(size_t)r + 1] - base[(size_t)r];
    }
    int pitch(int r) const
    {
        return cols(r) + (q.arch == 0 ? 16 : 3);
    }
    void make_patches(int r);
    void make_pushes(int r);
    bool enqueue(int run, int r);
    void check_stopped() const;
    void recover();
    void check(int runs) const;
};

/* Whole stages of each rank, and REST columns of the last one. */
static std::vector<int> share_k(const along_k_ask &q)
{
    std::vector<int> base = share(q.stages, q.ranks, q.empty);
    for (int &x : base) x *= STAGE;
    base.back() += q.empty ? 0 : q.rest;
    return base;
}

along_k::along_k(const along_k_ask &ask)
    : q(ask), what("along k of " + std::to_string(q.ranks) + " ranks " + std::to_string(q.m) + "x" +
                   std::to_string(q.n) + " tile " + std::to_string(q.tm) + "x" +
                   std::to_string(q.tn) + " cluster " + std::to_string(q.cluster) + " arch " +
                   std::to_string(q.arch) + " missing " + std::to_string(q.missing)),
      base(share_k(q)), k(base.back()), w(q.ranks, epoch, q.missing < 0 ? 40000000 : 300000),
      l((size_t)q.ranks), a((size_t)q.runs), c((size_t)q.runs)
{
    for (int r = 0; r < q.ranks; ++r) {
        for (auto &half : come) half.push_back(poisoned((size_t)q.m * k));
        b.push_back(random_matrix((size_t)q.n * k));
        make_patches(r);
        make_pushes(r);
        l[(size_t)r].finish(&w, r, HASH, false);
        for (int run = 0; run < q.runs; ++run) {
            a[(size_t)run].push_back(random_matrix((size_t)q.m * pitch(r)));
            c[(size_t)run].push_back((q.adds ? random_matrix : poisoned)((size_t)q.m * q.n));
        }
    }
    was = c;
}

/* As core/moves.c has it. */
void along_k::make_patches(int r)
{
    plan &p = l[(size_t)r];
    for (int i = 0; i < q.ranks; ++i) {
        const int at = (r + i) % q.ranks, k0 = base[(size_t)at];
        if (cols(at) == 0) continue;
        const sg_area from =
            i ? area(r, 3 + r, 0, q.m, k0, cols(at)) : area(r, 0, 0, q.m, 0, cols(at));
        sg_patch &patch = p.rect(0, q.m, q.n, 0, from, area(r, 1, 0, q.n, k0, cols(at)));
        patch.k0 = k0, patch.k1 = k0 + cols(at);
        sg_patch &first = p.patch[0];
        if (p.patch.size() > 1) {
            patch.width = first.width, patch.final = 0, patch.goes_on = 1;
            ++first.more, first.rest += cols(at);
        } else {
            p.store(area(r, 2, 0, q.m, 0, q.n));
            if (q.adds) p.adds(area(r, 2, 0, q.m, 0, q.n), nullptr);
        }
        if (i == 0) continue;
        sg_wait wait = wait_one(at, FLAG);
        wait.per = SG_PER_ROWS;
        wait.rows = q.m, wait.chunk = q.chunk, wait.chunks_k = 1;
        p.waits(wait);
    }
}

void along_k::make_pushes(int r)
{
    plan &p = l[(size_t)r];
    for (int x = 0, flag = FLAG; x < q.m && cols(r) > 0; x += q.chunk, ++flag) {
        const int rows = std::min(q.chunk, q.m - x);
        p.copy(area(r, 0, x, rows, 0, cols(r)));
        for (int i = 1; i < q.ranks; ++i) {
            const int to = (r + i) % q.ranks;
            p.step_store(area(to, 3 + to, x, rows, base[(size_t)r], cols(r)));
            p.step_raise(to, flag);
        }
    }
}

bool along_k::enqueue(int run, int r)
{
    plan &p = l[(size_t)r];
    sg_kernel_place *place = p.program.place;
    T *mine = a[(size_t)run][(size_t)r].data(), *out = c[(size_t)run][(size_t)r].data();
    place[0] = place_of(mine, mine, q.m, std::max(1, cols(r)), pitch(r));
    place[1] = place_of(b[(size_t)r].data(), b[(size_t)r].data(), q.n, k, k);
    place[2] = place_of(out, out, q.m, q.n, q.n);
    for (int i = 0; i < q.ranks; ++i)
        place[3 + i] = place_of(come[0][(size_t)i].data(), come[1][(size_t)i].data(), q.m, k, k);
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    const way how = {q.tm, q.tn, q.cluster, q.blocks, q.arch, q.ranks};
    if (!aim(g.get(), p, (int)p.patch.size(), (int)p.step.size(), how, what)) return false;
    expect(q.arch != 0 || g->slow == nullptr, what + ": takes a slow kernel");
    g->param.protocol = protocol_of(q.ranks, nullptr, 0);
    return start(g.get(), r, what);
}

/* Who waits for columns of the one who is missing says so, and nobody else has trouble. */
void along_k::check_stopped() const
{
    for (int r = 0; r < q.ranks; ++r) {
        const sg_kernel_trouble &t = w.of[(size_t)r]->trouble;
        expect(r == q.missing || t.kind != 0, what + ": rank " + std::to_string(r) + " stops");
    }
}

void along_k::recover()
{
    w.recover();
    for (auto &x : w.of) x->rank.limit_ns = 40000000;
    for (plan &p : l) {
        std::fill(p.count.begin(), p.count.end(), 0);
        std::fill(p.ticket.begin(), p.ticket.end(), 0);
    }
}

void along_k::check(int runs) const
{
    if (q.missing < 0) const_cast<world &>(w).ended(epoch + (uint64_t)q.runs - 1, what);
    for (const plan &p : l) expect(p.at_rest(), what + ": counts");
    for (int run = q.runs - runs; run < q.runs; ++run) {
        matrix all((size_t)q.m * k);
        for (int r = 0; r < q.ranks; ++r)
            for (int y = 0; y < q.m; ++y)
                for (int x = 0; x < cols(r); ++x)
                    all[(size_t)y * k + base[(size_t)r] + x] =
                        a[(size_t)run][(size_t)r][(size_t)y * pitch(r) + x];
        for (int r = 0; r < q.ranks; ++r) {
            std::vector<float> want = product(all.data(), k, b[(size_t)r], q.m, q.n, k);
            for (size_t i = 0; q.adds && i < want.size(); ++i)
                want[i] += __bfloat162float(was[(size_t)run][(size_t)r][i]);
            judge(c[(size_t)run][(size_t)r], q.n, 0, q.m, q.n, want.data(),
                  what + " run " + std::to_string(run) + " rank " + std::to_string(r));
        }
    }
}

static void try_along_k(const along_k_ask &ask)
{
    along_k t(ask);
    go_through(t);
}

void try_all_along_k(void)
{
    /* ranks, m, n, stages, rest, tile, cluster, chunk, blocks, arch, runs, adds, empty, missing */
    try_along_k({2, 300, 264, 4, 8, 128, 128, 0, 128, 2, 0, 3, true, false, -1});
    try_along_k({2, 260, 264, 3, 0, 128, 256, 0, 300, 0, 0, 3, false, false, -1});
    try_along_k({3, 520, 520, 5, 24, 128, 256, 2, 256, 4, 0, 2, true, false, -1});
    try_along_k({3, 200, 400, 3, 0, 128, 192, 0, 64, 2, 0, 3, true, true, -1});
    try_along_k({2, 300, 400, 5, 16, 128, 192, 0, 128, 2, 0, 2, false, false, -1});
    try_along_k({3, 260, 264, 4, 0, 128, 128, 2, 100, 2, 0, 2, false, false, -1});
    try_along_k({5, 100, 136, 7, 0, 64, 128, 0, 40, 3, 0, 3, false, true, -1});
    try_along_k({4, 70, 264, 9, 40, 64, 256, 1, 64, 2, 0, 2, true, false, 3});
    try_along_k({2, 256, 320, 6, 0, 128, 160, 2, 128, 4, 0, 4, false, false, 0});
    try_along_k({3, 75, 77, 4, 3, 64, 64, 0, 30, 2, 80, 3, true, false, -1});
    try_along_k({2, 90, 40, 3, 0, 64, 64, 0, 64, 2, 70, 2, false, true, 1});
}
