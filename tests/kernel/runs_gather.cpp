/* runs_gather.cpp -- of test_kernel_runs.cpp: gathers whose rows come as data that tell by
 * themselves that they have come. */
#include "runs_world.h"

enum { HASH = 815 };

struct gather_tagged {
    const tagged_gather_ask q;
    const std::string what;
    const uint64_t epoch = (1ull << 32) - 2;
    const std::vector<int> base; /* the first row of each rank */
    const int m, slab, pitch;    /* pitch: of A */
    world w;
    std::vector<matrix> inbox[2], scratch, b;
    matrix bias;
    std::vector<plan> l;
    std::vector<std::vector<matrix>> a, c; /* of each run and rank */

    explicit gather_tagged(const tagged_gather_ask &ask);
    int rows(int r) const
    {
        return base[(size_t)r + 1] - base[(size_t)r];
    }
    void make_sends(int r);
    void make_takes(int r);
    void make_patch(int r, int row0, int count, bool here);
    bool aim_at(sg_kernel_gemm *g, int run, int r);
    bool enqueue(int run, int r);
    void check(int runs);
    void check_stopped() const;
    void shut_gates();
    void check_shut() const;
    void recover();
};

gather_tagged::gather_tagged(const tagged_gather_ask &ask)
    : q(ask),
      what("tagged gather of " + std::to_string(q.ranks) + " ranks " + std::to_string(q.m) + "x" +
           std::to_string(q.n) + "x" + std::to_string(q.k) + " slab " + std::to_string(q.slab) +
           " tile " + std::to_string(q.tm) + "x" + std::to_string(q.tn) + " blocks " +
           std::to_string(q.blocks) + " missing " + std::to_string(q.missing) + " slow " +
           std::to_string(q.slow) + (q.nan < 0 ? "" : ", NaN")),
      base(share(q.m, q.ranks, q.empty)), m(base.back()), slab(q.slab ? q.slab : q.k),
      pitch(q.k + 8), w(q.ranks, epoch, q.missing < 0 && !q.shut ? 40000000 : 300000),
      bias(random_matrix((size_t)q.n)), l((size_t)q.ranks), a((size_t)q.runs), c((size_t)q.runs)
{
    for (int r = 0; r < q.ranks; ++r) {
        for (auto &half : inbox) half.push_back(poisoned((size_t)m * q.k));
        scratch.push_back(poisoned((size_t)m * q.k));
        b.push_back(random_matrix((size_t)q.n * q.k));
        plan &p = l[(size_t)r];
        if (q.in_place) make_patch(r, base[(size_t)r], rows(r), true);
        make_patch(r, 0, q.in_place ? base[(size_t)r] : m, false);
        if (q.in_place) make_patch(r, base[(size_t)r + 1], m - base[(size_t)r + 1], false);
        make_sends(r);
        const size_t sends = p.step.size();
        make_takes(r);
        p.finish(&w, r, HASH, q.baked);
        sg_kernel_count_pieces(p.step.data() + sends, (int32_t)(p.step.size() - sends),
                               p.raise.data());
        for (int run = 0; run < q.runs; ++run) {
            a[(size_t)run].push_back(random_matrix((size_t)rows(r) * pitch + 1));
            matrix &own = a[(size_t)run].back();
            if (q.nan == r) /* two in the last numbers of a word */
                memset((void *)&own[(size_t)draw(rows(r)) * pitch + draw(q.k / 8) * 8 + 6], 0xff,
                       2 * sizeof(T));
            c[(size_t)run].push_back(poisoned((size_t)m * q.n));
        }
    }
}

/* Of COUNT rows from ROW0 on, own ones that are HERE or those that come. */
void gather_tagged::make_patch(int r, int row0, int count, bool here)
{
    plan &p = l[(size_t)r];
    if (count == 0) return;
    const sg_area from = here ? area(r, 0, 0, count, 0, q.k) : area(r, 3, row0, count, 0, q.k);
    sg_patch &patch = p.rect(row0, count, q.n, q.k, from, area(r, 1, 0, q.n, 0, q.k));
    if (!here) {
        sg_wait wait = wait_one(r, 1);
        patch.slab = q.slab;
        wait.per = SG_PER_ROWS, wait.row0 = row0, wait.rows = wait.chunk = count;
        wait.chunk_k = q.slab, wait.chunks_k = up(q.k, slab);
        p.waits(wait);
    }
    p.store(area(r, 2, row0, count, 0, q.n));
}

/* As core/moves_tagged.c has it. */
void gather_tagged::make_sends(int r)
{
    plan &p = l[(size_t)r];
    for (int k0 = 0, flag = 1; k0 < q.k && rows(r) > 0; k0 += slab, ++flag) {
        const int cols = std::min(slab, q.k - k0);
        p.copy(area(r, 0, 0, rows(r), k0, cols));
        for (int i = 1; i < q.ranks; ++i) {
            const int to = (r + i) % q.ranks;
            p.step_store(area(to, 8 + to, base[(size_t)r], rows(r), k0, cols));
            p.step_raise(to, flag);
        }
    }
}

void gather_tagged::make_takes(int r)
{
    plan &p = l[(size_t)r];
    int owners = 0;
    for (int i = 0; i < q.ranks; ++i) owners += rows(i) > 0 && !(q.in_place && i == r);
    for (int k0 = 0, flag = 1; k0 < q.k; k0 += slab, ++flag) {
        const int cols = std::min(slab, q.k - k0);
        for (int i = q.in_place; i < q.ranks; ++i) {
            const int from = (r + i) % q.ranks, row0 = base[(size_t)from];
            if (rows(from) == 0) continue;
            p.copy(i == 0 ? area(r, 0, 0, rows(r), k0, cols)
                          : area(r, 8 + r, row0, rows(from), k0, cols));
            if (i > 0) p.wait.push_back(wait_one(from, flag)), p.step.back().waits = 1;
            p.step_store(area(r, 3, row0, rows(from), k0, cols));
            p.step_raise(r, flag);
            if (owners > 1) p.raise.back().counter = flag - 1;
        }
        if (owners > 1) p.raisers.push_back(owners);
    }
}

bool gather_tagged::aim_at(sg_kernel_gemm *g, int run, int r)
{
    plan &p = l[(size_t)r];
    sg_kernel_place *place = p.program.place;
    const bool slow = q.slow == r || q.slow == q.ranks;
    T *in = a[(size_t)run][(size_t)r].data(), *out = c[(size_t)run][(size_t)r].data();
    T *all = scratch[(size_t)r].data();
    place[0] = place_of(in, in, rows(r), q.k, pitch);
    place[1] = place_of(b[(size_t)r].data(), b[(size_t)r].data(), q.n, q.k, q.k);
    place[2] = place_of(out, out, m, q.n, q.n);
    place[3] = place_of(all, all, m, q.k, q.k);
    for (int i = 0; i < q.ranks; ++i) {
        place[8 + i] =
            place_of(inbox[0][(size_t)i].data(), inbox[1][(size_t)i].data(), m, q.k, q.k);
        place[8 + i].tagged = 1;
    }
    p.program.bias = q.bias ? bias.data() : nullptr;
    p.program.act = q.bias ? SG_KERNEL_RELU : SG_KERNEL_NONE;
    int takes = 0;
    for (const sg_kernel_step &s : p.step) takes += p.to[(size_t)s.to0].rank == r;
    const way how = {q.tm, q.tn, 0, q.blocks, slow ? 80 : 0, q.ranks, 0, takes};
    if (!aim(g, p, (int)p.patch.size(), (int)p.step.size(), how, what)) return false;
    expect((g->slow != nullptr) == slow, what + ": takes the slow kernel");
    return true;
}

bool gather_tagged::enqueue(int run, int r)
{
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    if (!aim_at(g.get(), run, r)) return false;
    g->param.protocol = protocol_of(q.ranks, nullptr, 0);
    return start(g.get(), r, what);
}

void gather_tagged::check(int runs)
{
    w.ended(w.of[0]->rank.epoch - 1, what);
    for (const plan &p : l) expect(p.at_rest(), what + ": counts");
    size_t left = 0;
    for (const auto &half : inbox)
        for (const matrix &x : half)
            for (const T &v : x) left += !is_poison(v);
    expect(left == 0, what + ": " + std::to_string(left) + " numbers are not at rest");
    for (int run = q.runs - runs; run < q.runs; ++run)
        for (int r = 0; r < q.ranks; ++r)
            for (int from = 0; from < q.ranks; ++from) {
                std::vector<float> want = product(a[(size_t)run][(size_t)from].data(), pitch,
                                                  b[(size_t)r], rows(from), q.n, q.k);
                for (size_t i = 0; i < want.size() && q.bias; ++i) {
                    want[i] += __bfloat162float(bias[i % (size_t)q.n]);
                    if (want[i] < 0.f) want[i] = 0.f;
                }
                const size_t at = (size_t)base[(size_t)from] * q.n;
                const matrix &got = c[(size_t)run][(size_t)r];
                judge(matrix(got.begin() + at, got.begin() + at + want.size()), q.n, 0, rows(from),
                      q.n, want.data(),
                      what + " run " + std::to_string(run) + " rank " + std::to_string(r));
            }
}

/* Who came has stopped, knows that something did not come, and has left nothing. */
void gather_tagged::check_stopped() const
{
    bool named = false;
    for (int r = 0; r < q.ranks; ++r) {
        const world::member &x = *w.of[(size_t)r];
        if (r == q.missing) continue;
        expect(x.trouble.kind != 0 && x.rank.epoch == epoch &&
                   (x.rank.leaving & ~SG_KERNEL_ABORTED) == SG_KERNEL_CLAIMED,
               what + ": rank " + std::to_string(r) + " stops");
        /* Watchers wait for flags of this rank, which wait for what does not come. */
        expect(!x.trouble.late || x.trouble.by == q.missing || x.trouble.by == r,
               what + ": whom it waits for");
        named |= x.trouble.by == q.missing || x.trouble.by == r;
    }
    expect(named, what + ": named");
}

/* The last rank has not ended the last run of either half. */
void gather_tagged::shut_gates()
{
    for (auto &x : w.of) {
        x->rank.last[0] = x->rank.last[1] = epoch - 1;
        x->done[(size_t)q.ranks - 1] = epoch - 2;
    }
}

/* Nothing is sent, and nothing taken. */
void gather_tagged::check_shut() const
{
    for (int r = 0; r < q.ranks; ++r) {
        const world::member &x = *w.of[(size_t)r];
        expect(x.trouble.kind != 0 && x.rank.epoch == epoch, what + ": stops");
        for (auto &half : inbox) judge(half[(size_t)r], q.k, 0, 0, q.k, nullptr, what + ", shut");
        judge(scratch[(size_t)r], q.k, 0, 0, q.k, nullptr, what + ", shut");
    }
}

/* As the host does it: what is under way has landed. */
void gather_tagged::recover()
{
    w.recover();
    for (auto &x : w.of) x->rank.limit_ns = 40000000;
    for (auto &half : inbox)
        for (matrix &x : half) x = poisoned(x.size());
    for (plan &p : l) {
        std::fill(p.count.begin(), p.count.end(), 0);
        std::fill(p.ticket.begin(), p.ticket.end(), 0);
    }
}

static void try_tagged_gather(const tagged_gather_ask &ask)
{
    gather_tagged t(ask);
    if (!ask.shut) return go_through(t);
    bool ok = true;
    t.shut_gates();
    for (int r = 0; r < ask.ranks; ++r) ok = ok && t.enqueue(0, r);
    expect(ok && emu_run(), t.what + ": goes through, shut");
    t.check_shut();
}

void try_all_tagged_gathers(void)
{
    /* ranks, m, n, k, slab, tile, blocks, runs, empty, baked, bias, missing, slow, nan */
    try_tagged_gather({2, 16, 264, 72, 0, 64, 64, 0, 4, false, false, false, -1, -1, -1});
    try_tagged_gather({2, 1, 200, 136, 64, 64, 32, 3, 5, false, true, true, -1, -1, 0});
    try_tagged_gather({3, 75, 264, 328, 128, 64, 128, 2, 3, true, false, true, -1, -1, 1});
    try_tagged_gather({5, 150, 80, 264, 64, 128, 64, 2, 3, false, true, false, -1, -1, -1});
    try_tagged_gather({2, 200, 136, 1160, 1088, 128, 96, 3, 3, false, false, false, -1, -1, 0});
    try_tagged_gather({9, 30, 136, 200, 64, 128, 128, 2, 2, true, false, true, -1, -1, -1});
    try_tagged_gather({4, 64, 520, 648, 192, 64, 256, 0, 3, false, true, false, -1, -1, 2});
    try_tagged_gather({2, 128, 520, 648, 320, 128, 256, 0, 3, false, false, true, -1, -1, -1});
    try_tagged_gather({3, 40, 136, 200, 64, 64, 64, 2, 2, false, false, false, 1, -1, -1});
    try_tagged_gather({2, 130, 200, 136, 64, 128, 128, 0, 2, false, true, true, 0, -1, -1});
    try_tagged_gather({3, 70, 136, 136, 64, 64, 64, 0, 3, false, false, true, -1, 1, 1});
    try_tagged_gather({2, 16, 72, 136, 64, 64, 64, 2, 4, false, true, false, -1, 0, 0});
    try_tagged_gather({2, 150, 136, 72, 64, 128, 128, 2, 2, false, false, false, -1, 2, -1});
    try_tagged_gather({3, 40, 136, 72, 64, 64, 64, 2, 3, false, false, true, 2, 0, -1});
    try_tagged_gather({3, 40, 136, 200, 64, 64, 64, 2, 1, false, false, false, -1, -1, -1, true});
    try_tagged_gather({2, 40, 136, 72, 0, 64, 64, 2, 1, false, true, false, -1, 2, -1, true});
    /* Pieces of a row that are not as long as each other; more warps than pieces of a step, some
     * with none of any. */
    try_tagged_gather({2, 20, 72, 1096, 0, 64, 64, 2, 3, false, false, false, -1, -1, -1});
    try_tagged_gather({3, 3, 64, 136, 64, 64, 64, 0, 3, false, false, true, -1, -1, -1});
    /* the same, shut, in place */
    try_tagged_gather(
        {2, 150, 264, 200, 64, 64, 64, 0, 4, false, false, true, -1, -1, 0, false, true});
    try_tagged_gather(
        {3, 384, 160, 72, 0, 128, 96, 2, 3, false, true, true, -1, -1, -1, false, true});
    try_tagged_gather(
        {4, 100, 136, 328, 128, 64, 128, 3, 3, true, false, true, -1, 1, 2, false, true});
    try_tagged_gather(
        {2, 132, 200, 136, 64, 128, 160, 0, 2, false, true, true, 0, -1, -1, false, true});
    try_tagged_gather(
        {3, 42, 248, 200, 64, 128, 224, 2, 1, false, false, true, -1, -1, -1, true, true});
}
