/* runs_onto.cpp -- of test_kernel_runs: two ranks that add their tiles onto what the other one has
 * stored. Where a run knows C that is done by storers; otherwise math adds what lies in the
 * landing, and the sum goes to C. */
#include "runs_world.h"

/* LANDED: the place of what others add to, or have stored to be added to: C's own, if it is
 * known. */
enum { HASH = 4711, DONE = 0, TILES = 1, LANDED = 4 };

struct onto {
    const onto_ask q;
    const std::string what;
    const uint64_t epoch = (1ull << 32) - 2;
    const std::vector<int> base; /* the first row of each rank */
    const int pitch;             /* of C */
    world w;
    std::vector<matrix> landing, b;
    std::vector<std::vector<int32_t>> home; /* the rows that come from there */
    std::vector<plan> l;
    std::vector<std::vector<CUtensorMap>> remake;
    std::vector<std::unique_ptr<sg_kernel_gemm>> gemm; /* of each rank, for all runs */
    std::vector<std::vector<matrix>> a, c;             /* of each run and rank */

    explicit onto(const onto_ask &ask);
    int rows(int r) const /* of its C */
    {
        return q.all ? base.back() : base[(size_t)r + 1] - base[(size_t)r];
    }
    bool is_direct(int run, int r) const
    {
        return q.direct >> (run % 2 * 2 + r) & 1;
    }
    void make_patch(int r, int owner);
    bool aim_at(int run, int r);
    void make_protocol(int run, int r);
    bool bring_home(int r, T *out);
    bool enqueue(int run, int r);
    std::vector<float> wanted(int run) const;
    void check(int runs);
    void check_stopped() const;
    void recover();
};

onto::onto(const onto_ask &ask)
    : q(ask),
      what(std::string(q.all ? "all-reduce" : "scatter") + " onto peers " + std::to_string(q.m) +
           "x" + std::to_string(q.n) + "x" + std::to_string(q.k) + " tile " + std::to_string(q.tm) +
           "x" + std::to_string(q.tn) + " cluster " + std::to_string(q.cluster) + " blocks " +
           std::to_string(q.blocks) + " direct " + std::to_string(q.direct) + " slow " +
           std::to_string(q.slow) + " missing " + std::to_string(q.missing)),
      base(share(q.m, q.ranks, q.empty)), pitch(q.n + 16),
      w(q.ranks, epoch, q.missing < 0 ? 40000000 : 300000), l((size_t)q.ranks),
      remake((size_t)q.ranks), gemm((size_t)q.ranks), a((size_t)q.runs), c((size_t)q.runs)
{
    for (int r = 0; r < q.ranks; ++r) {
        landing.push_back(poisoned((size_t)rows(r) * q.n + 1));
        b.push_back(wide_matrix((size_t)q.n * q.k));
        home.push_back({base[(size_t)(1 - r)], base[(size_t)(1 - r)],
                        base[(size_t)(2 - r)] - base[(size_t)(1 - r)]});
        plan &p = l[(size_t)r];
        make_patch(r, 1 - r);
        make_patch(r, r);
        p.copy(area(r, 0, 0, 0, 0, 0)); /* the flags that end the run */
        p.step.back().wait0 = (int32_t)p.wait.size();
        if (q.all && base[(size_t)(2 - r)] > base[(size_t)(1 - r)])
            p.wait.push_back(wait_one(1 - r, DONE)), p.step.back().waits = 1;
        p.finish(&w, r, HASH, false);
        for (int run = 0; run < q.runs; ++run) {
            a[(size_t)run].push_back(wide_matrix((size_t)q.m * q.k));
            c[(size_t)run].push_back(poisoned((size_t)rows(r) * pitch + 1));
        }
    }
}

/* As strategy/fused_add.c has it. */
void onto::make_patch(int r, int owner)
{
    plan &p = l[(size_t)r];
    const int row0 = base[(size_t)owner], count = base[(size_t)owner + 1] - row0, peer = 1 - r;
    const int at = q.all ? row0 : 0;
    const bool adds = owner == r;
    if (count == 0) return;
    sg_patch &patch =
        p.rect(row0, count, q.n, q.k, area(r, 0, row0, count, 0, q.k), area(r, 1, 0, q.n, 0, q.k));
    patch.final = patch.own_rounded = patch.onto = adds;
    patch.own_at = (uint16_t)(adds ? r : 0);
    sg_wait wait = wait_one(peer, TILES);
    wait.per = SG_PER_TILE;
    if (adds) p.adds(area(r, LANDED, at, count, 0, q.n), &wait);
    if (adds || q.all) p.store(area(r, adds ? 2 + r : LANDED, at, count, 0, q.n));
    if (!adds || q.all) {
        sg_area there = area(peer, 2 + peer, at, count, 0, q.n);
        there.leave = 1;
        p.store(there);
    }
    if (!adds)
        p.raises(peer, SG_PER_TILE, TILES, 1);
    else if (q.all)
        p.raises(peer, SG_PER_PATCH, DONE, up(count, q.tm) * up(q.n, q.tn));
}

/* A run ends in its launch, unless something is to be brought from the landing. */
void onto::make_protocol(int run, int r)
{
    const sg_kernel_step &end = l[(size_t)r].step.back();
    const bool direct = is_direct(run, r);
    sg_kernel_protocol &protocol = gemm[(size_t)r]->param.protocol;
    protocol = protocol_of(q.ranks, direct ? c[(size_t)run][(size_t)r].data() : nullptr, pitch);
    if (!direct && q.all) protocol.end = protocol.done = 0;
    if (direct) protocol.wait0 = end.wait0, protocol.waits = end.waits, protocol.wait_step = 9;
}

bool onto::bring_home(int r, T *out)
{
    plan &p = l[(size_t)r];
    const cudaStream_t s = emu_stream(r);
    const sg_kernel_place to = place_of(out, out, rows(r), q.n, pitch);
    cudaError_t ok = cudaSuccess;
    if (p.step.back().waits > 0) ok = sg_kernel_flag(&p.program, &p.step.back(), 0, s);
    if (ok == cudaSuccess && home[(size_t)r][2] > 0)
        ok = sg_kernel_permute(&p.program.place[LANDED], &to, home[(size_t)r].data(), 1,
                               (int)sizeof(T), 1, 0, s);
    if (ok == cudaSuccess) ok = sg_kernel_end(&w.of[(size_t)r]->rank, HASH, 0, 1, 1, 0, s);
    expect(ok == cudaSuccess, what + ": comes home");
    return ok == cudaSuccess;
}

/* Made once, and aimed again at what has moved, as a plan does. */
bool onto::aim_at(int run, int r)
{
    plan &p = l[(size_t)r];
    std::unique_ptr<sg_kernel_gemm> &g = gemm[(size_t)r];
    const bool slow = q.slow >> r & 1, bare = q.tm > 64 || (q.tn != 32 && q.tn != 96);
    const bool adds = bare && p.patch.back().onto && is_direct(run, r);
    if (g == nullptr) {
        const way how = {q.tm, q.tn, q.cluster, q.blocks, slow ? 80 : 0, q.ranks};
        g.reset(new sg_kernel_gemm());
        if (!aim(g.get(), p, (int)p.patch.size(), 0, how, what)) return false;
        remake[(size_t)r].resize(sg_kernel_remake_bytes(g.get()) / sizeof(CUtensorMap));
        g->param.remake = remake[(size_t)r].data();
    } else {
        memcpy(g->param.program.place, p.program.place, sizeof p.program.place);
        if (sg_kernel_gemm_aim(g.get()) != nullptr) return false;
    }
    expect((g->slow != nullptr) == slow && (slow || g->param.onto == adds),
           what + ": storers add, " + std::to_string(g->param.onto));
    make_protocol(run, r);
    return true;
}

bool onto::enqueue(int run, int r)
{
    sg_kernel_place *place = l[(size_t)r].program.place;
    T *out = c[(size_t)run][(size_t)r].data(), *in = a[(size_t)run][(size_t)r].data();
    const bool direct = is_direct(run, r);
    place[0] = place_of(in, in, q.m, q.k, q.k);
    place[1] = place_of(b[(size_t)r].data(), b[(size_t)r].data(), q.n, q.k, q.k);
    for (int i = 0; i < q.ranks; ++i) {
        T *there = landing[(size_t)i].data();
        place[2 + i] = i == r ? place_of(out, out, rows(r), q.n, pitch)
                              : place_of(there, there, rows(i), q.n, q.n);
        if (i == r)
            place[LANDED] = direct ? place[2 + r] : place_of(there, there, rows(r), q.n, q.n);
    }
    return aim_at(run, r) && start(gemm[(size_t)r].get(), r, what) &&
           (direct || !q.all || bring_home(r, out));
}

/* Both products are rounded, and then their sum. */
std::vector<float> onto::wanted(int run) const
{
    std::vector<float> want((size_t)base.back() * q.n, 0.f);
    for (int r = 0; r < q.ranks; ++r) {
        const std::vector<float> part =
            product(a[(size_t)run][(size_t)r].data(), q.k, b[(size_t)r], base.back(), q.n, q.k);
        for (size_t i = 0; i < part.size(); ++i)
            want[i] = __bfloat162float(
                __float2bfloat16_rn(want[i] + __bfloat162float(__float2bfloat16_rn(part[i]))));
    }
    return want;
}

void onto::check(int runs)
{
    w.ended(w.of[0]->rank.epoch - 1, what);
    for (const plan &p : l) expect(p.at_rest(), what + ": counts");
    for (int run = q.runs - runs; run < q.runs; ++run) {
        const std::vector<float> want = wanted(run);
        for (int r = 0; r < q.ranks; ++r)
            judge(c[(size_t)run][(size_t)r], pitch, 0, rows(r), q.n,
                  want.data() + (q.all ? 0 : (size_t)base[(size_t)r] * q.n),
                  what + " run " + std::to_string(run) + " rank " + std::to_string(r));
    }
    for (int r = 0; r < q.ranks; ++r)
        if (is_direct(0, r) && is_direct(1, r))
            judge(landing[(size_t)r], q.n, 0, 0, q.n, nullptr, what + ", its landing");
}

/* Who came has stopped, and nothing is stored at who did not. */
void onto::check_stopped() const
{
    const world::member &x = *w.of[(size_t)(1 - q.missing)];
    expect(x.trouble.kind == SG_KERNEL_STUCK_LEAVE || x.trouble.kind == SG_KERNEL_STUCK_FLAG,
           what + ": trouble " + std::to_string(x.trouble.kind));
    expect(x.trouble.by == q.missing && x.rank.epoch == epoch &&
               (x.rank.leaving & ~SG_KERNEL_ABORTED) == SG_KERNEL_CLAIMED,
           what + ": stops");
    judge(c[0][(size_t)q.missing], pitch, 0, 0, q.n, nullptr, what + ", its tensor");
    judge(landing[(size_t)q.missing], q.n, 0, 0, q.n, nullptr, what + ", its landing");
}

/* As the host does it. */
void onto::recover()
{
    w.recover();
    for (auto &x : w.of) x->rank.limit_ns = 40000000;
    for (plan &p : l) {
        std::fill(p.count.begin(), p.count.end(), 0);
        std::fill(p.ticket.begin(), p.ticket.end(), 0);
    }
    for (matrix &m : landing) m = poisoned(m.size());
}

static void try_onto(const onto_ask &ask)
{
    onto t(ask);
    go_through(t);
}

/* A peer that has said hello and then stores nothing: tiles wait for its flags. */
static void try_silent(bool all, int tm, int tn)
{
    onto t({2, 200, 264, 40, tm, tn, 0, 0, 1, all, false, 15, 0, 1});
    matrix there = poisoned((size_t)t.rows(1) * t.pitch);
    const uint64_t c = (uint64_t)(uintptr_t)there.data();
    t.w.of[0]->hello[2 + (t.epoch & 1)] = sg_kernel_hello{t.epoch, HASH, c, (uint64_t)t.pitch};
    expect(t.enqueue(0, 0) && emu_run(), t.what + ": goes through, silent");
    const world::member &m = *t.w.of[0];
    expect(m.trouble.kind == SG_KERNEL_STUCK_FLAG && m.trouble.by == 1 && m.trouble.flag >= TILES &&
               m.rank.epoch == t.epoch && m.abort[0] == t.epoch,
           t.what + ": silent, trouble " + std::to_string(m.trouble.kind) + " of flag " +
               std::to_string(m.trouble.flag));
}

void try_all_onto(void)
{
    /* ranks, m, n, k, tile, cluster, blocks, runs, all, empty, direct (of two bits for runs 0, 2
     * and so on, and of two for the others), slow, missing */
    for (bool all : {false, true}) {
        try_onto({2, 300, 328, 40, 128, 256, 1, 2, 2, all, false, 15, 0, -1});
        try_onto({2, 300, 264, 40, 128, 256, 2, 4, 2, all, false, 5, 0, -1});
        try_onto({2, 530, 264, 40, 128, 192, 1, 2, 2, all, false, 15, 0, -1});
        try_onto({2, 150, 392, 72, 128, 192, 0, 3, 2, all, false, 0, 0, -1});
        try_onto({2, 150, 264, 40, 128, 192, 0, 2, 4, all, false, 6, 0, -1});
        try_onto({2, 300, 264, 40, 128, 128, 2, 2, 2, all, false, 10, 0, -1});
        try_onto({2, 150, 264, 136, 64, 128, 1, 3, 3, all, false, 10, 0, -1});
        try_onto({2, 150, 264, 72, 64, 128, 0, 0, 2, all, true, 15, 0, -1});
        try_onto({2, 7, 136, 72, 64, 64, 0, 1, 5, all, false, 3, 0, -1});
        try_onto({2, 1, 264, 72, 128, 128, 0, 0, 3, all, false, 5, 0, -1});
        try_onto({2, 100, 264, 40, 128, 256, 0, 2, 2, all, false, 15, 2, -1});
        try_onto({2, 70, 136, 40, 64, 128, 0, 2, 2, all, false, 0, 1, -1});
        try_onto({2, 70, 264, 40, 128, 192, 1, 2, 3, all, false, 15, 0, 1});
        try_onto({2, 150, 264, 40, 64, 128, 1, 2, 3, all, false, 5, 0, 0});
        for (int tn : {32, 96}) /* which math adds to, as there is nothing else */
            try_onto({2, 192, tn + 40, 40, 64, tn, 0, 2, 2, all, false, 15, 0, -1});
        for (int tn : {96, 128, 160, 176, 224})
            try_onto({2, 192, tn + 40, 40, 128, tn, 0, 2, 2, all, false, 15, 0, -1});
        try_silent(all, 128, 256);
        try_silent(all, 128, 192);
        try_silent(all, 64, 128);
    }
}
