/* runs_tagged.cpp -- of test_kernel_runs.cpp: all-reduces and scatters by data that tell by
 * themselves that they have come. */
#include "runs_world.h"

enum { HASH = 4711 };
enum { ONE_HOP, TWO_HOPS, SCATTER }; /* tagged_ask.owners */

struct tagged {
    const tagged_ask q;
    const std::string what;
    const uint64_t epoch = (1ull << 32) - 2;
    const int pitch, tiles; /* of C; of a rank */
    const int most;         /* tiles of an owner */
    const int places_rows;
    const uint8_t width; /* visit I is of the same tile at all ranks */
    world w;
    std::vector<matrix> inbox[2], b;
    matrix bias;
    std::vector<plan> l;
    std::vector<std::vector<matrix>> a, c; /* of each run and rank */
    std::vector<matrix> moved;             /* A where no fast kernel can read it, of each run */

    explicit tagged(const tagged_ask &ask);
    void make_patches(int r);
    bool open(int r, int owner, bool product);
    sg_area owners(int at, int owner, int share) const;
    void make_hops(int r);
    int row0(int owner) const
    {
        return q.m * owner / q.ranks;
    }
    sg_area owned(int at, int owner, int from) const;
    void make_scatter(int r);
    sg_area places(int at, int from) const;
    bool aim_at(sg_kernel_gemm *g, int run, int r);
    bool enqueue(int run, int r);
    std::vector<float> wanted(int run) const;
    void check(int runs);
    void recover();
    void check_stopped() const;
};

tagged::tagged(const tagged_ask &ask)
    : q(ask),
      what("tagged of " + std::to_string(q.ranks) + " ranks " + std::to_string(q.m) + "x" +
           std::to_string(q.n) + "x" + std::to_string(q.k) + " tile " + std::to_string(q.tm) + "x" +
           std::to_string(q.tn) + " blocks " + std::to_string(q.blocks) + " missing " +
           std::to_string(q.missing) + " slow " + std::to_string(q.slow) +
           (q.owners == TWO_HOPS  ? " in two hops"
            : q.owners == SCATTER ? " scattered"
                                  : "") +
           (q.nan < 0 ? "" : ", NaN")),
      pitch(q.n + q.odd), tiles(up(q.m, q.tm) * up(q.n, q.tn)),
      most(q.owners == SCATTER ? up(up(q.m, q.ranks), q.tm) * up(q.n, q.tn)
                               : up(q.m, q.tm) * up(up(q.n, q.tn), q.ranks)),
      places_rows(q.ranks * q.tm *
                  (q.owners == TWO_HOPS  ? 2 * most
                   : q.owners == SCATTER ? most
                                         : tiles)),
      width((uint8_t)(1 + draw(3))), w(q.ranks, epoch, q.missing < 0 ? 40000000 : 300000),
      bias(wide_matrix((size_t)q.n)), l((size_t)q.ranks), a((size_t)q.runs), c((size_t)q.runs)
{
    for (int r = 0; r < q.ranks; ++r) {
        for (auto &half : inbox) half.push_back(poisoned((size_t)places_rows * q.tn));
        b.push_back(wide_matrix((size_t)q.n * q.k));
        if (q.owners == SCATTER)
            make_scatter(r);
        else if (q.owners == TWO_HOPS)
            make_hops(r);
        else
            make_patches(r);
        l[(size_t)r].finish(&w, r, HASH, q.baked);
        for (int run = 0; run < q.runs; ++run) {
            a[(size_t)run].push_back(wide_matrix((size_t)q.m * q.k));
            T &some = a[(size_t)run].back()[(size_t)draw(q.m) * q.k + draw(q.k)];
            if (q.nan == r) memset((void *)&some, 0xff, sizeof some);
            c[(size_t)run].push_back(poisoned((size_t)q.m * pitch));
        }
    }
}

/* Where rank AT keeps what FROM sends. */
sg_area tagged::places(int at, int from) const
{
    sg_area s = area(at, 8 + at, from * tiles * q.tm, tiles * q.tm, 0, q.tn);
    s.tiled = 1;
    return s;
}

void tagged::make_patches(int r)
{
    plan &p = l[(size_t)r];
    sg_patch &send =
        p.rect(0, q.m, q.n, q.k, area(r, 0, 0, q.m, 0, q.k), area(r, 1, 0, q.n, 0, q.k));
    send.final = 0;
    send.width = width;
    for (int i = 1; i <= q.ranks; ++i) {
        const int at = (r + i) % q.ranks;
        p.store(places(at, r));
        p.raises(at, SG_PER_TILE, 1, 1);
    }
    sg_patch &sum = p.rect(0, q.m, q.n, q.k, sg_area{}, sg_area{});
    sum.k1 = 0;
    sum.width = width;
    for (int from = 0; from < q.ranks; ++from) {
        sg_wait wait = wait_one(from, 1);
        wait.per = SG_PER_TILE;
        p.adds(places(r, from), &wait);
    }
    p.store(area(r, 2, 0, q.m, 0, q.n));
}

/* Columns of owner Q, with its product or without.  False: it has none. */
bool tagged::open(int r, int owner, bool product)
{
    const int across = up(q.n, q.tn);
    const int col0 = across * owner / q.ranks * q.tn;
    const int end = std::min(q.n, across * (owner + 1) / q.ranks * q.tn);
    if (col0 >= end) return false;
    sg_patch &p = l[(size_t)r].rect(0, q.m, end - col0, q.k, area(r, 0, 0, q.m, 0, q.k),
                                    area(r, 1, col0, end - col0, 0, q.k));
    p.col0 = col0;
    p.width = width;
    p.final = 0;
    if (!product) p.k1 = 0;
    return true;
}

/* Of OWNER's tiles, the places at rank AT that follow SHARE owners' full shares of them. */
sg_area tagged::owners(int at, int owner, int share) const
{
    const int across = up(q.n, q.tn);
    const int cols = across * (owner + 1) / q.ranks - across * owner / q.ranks;
    sg_area s = area(at, 8 + at, share * most * q.tm, up(q.m, q.tm) * cols * q.tm, 0, q.tn);
    s.tiled = 1;
    return s;
}

/* As core/moves_tagged.c has it. */
void tagged::make_hops(int r)
{
    plan &p = l[(size_t)r];
    const int ranks = q.ranks;
    const auto store_c = [&] {
        const sg_patch &last = p.patch.back();
        p.store(area(r, 2, 0, q.m, last.col0, last.cols));
    };
    for (int i = 1; i <= ranks; ++i) {
        const int to = (r + i) % ranks;
        if (!open(r, to, true)) continue;
        p.store(owners(to, to, r));
        p.raises(to, SG_PER_TILE, 1, 1);
    }
    if (open(r, r, false)) {
        p.patch.back().final = 1;
        for (int from = 0; from < ranks; ++from) {
            sg_wait wait = wait_one(from, 1);
            wait.per = SG_PER_TILE;
            p.adds(owners(r, r, from), &wait);
        }
        for (int i = 1; i < ranks; ++i) {
            p.store(owners((r + i) % ranks, r, ranks + r));
            p.raises((r + i) % ranks, SG_PER_TILE, 1 + most, 1);
        }
        store_c();
    }
    for (int i = 1; i < ranks; ++i) {
        const int from = (r + i) % ranks;
        if (!open(r, from, false)) continue;
        sg_wait wait = wait_one(from, 1 + most);
        wait.per = SG_PER_TILE;
        p.adds(owners(r, from, ranks + from), &wait);
        store_c();
    }
}

/* Where rank AT, who owns OWNER's rows, keeps FROM's product of them. */
sg_area tagged::owned(int at, int owner, int from) const
{
    const int count = up(row0(owner + 1) - row0(owner), q.tm) * up(q.n, q.tn);
    sg_area s = area(at, 8 + at, from * most * q.tm, count * q.tm, 0, q.tn);
    s.tiled = 1;
    return s;
}

void tagged::make_scatter(int r)
{
    plan &p = l[(size_t)r];
    const auto open = [&](int owner, bool product) {
        const int first = row0(owner), rows = row0(owner + 1) - first;
        if (rows == 0) return false;
        sg_patch &patch = p.rect(first, rows, q.n, q.k, area(r, 0, first, rows, 0, q.k),
                                 area(r, 1, 0, q.n, 0, q.k));
        patch.width = (uint8_t)(1 + (width + owner) % 3);
        patch.final = !product;
        if (!product) patch.k1 = 0;
        return true;
    };
    for (int i = 1; i <= q.ranks; ++i) {
        const int to = (r + i) % q.ranks;
        if (!open(to, true)) continue;
        p.store(owned(to, to, r));
        p.raises(to, SG_PER_TILE, 1, 1);
    }
    if (!open(r, false)) return;
    for (int from = 0; from < q.ranks; ++from) {
        sg_wait wait = wait_one(from, 1);
        wait.per = SG_PER_TILE;
        p.adds(owned(r, r, from), &wait);
    }
    p.store(area(r, 2, 0, row0(r + 1) - row0(r), 0, q.n));
}

bool tagged::aim_at(sg_kernel_gemm *g, int run, int r)
{
    plan &p = l[(size_t)r];
    sg_kernel_place *place = p.program.place;
    T *out = c[(size_t)run][(size_t)r].data(), *in = a[(size_t)run][(size_t)r].data();
    const bool slow = q.slow == r || q.slow == q.ranks;
    place[0] = place_of(in, in, q.m, q.k, q.k);
    if (slow) {
        moved.emplace_back(1);
        moved.back().insert(moved.back().end(), in, in + (size_t)q.m * q.k);
        place[0] = place_of(moved.back().data() + 1, moved.back().data() + 1, q.m, q.k, q.k);
    }
    place[1] = place_of(b[(size_t)r].data(), b[(size_t)r].data(), q.n, q.k, q.k);
    place[2] = place_of(out, out, q.m, q.n, pitch);
    for (int i = 0; i < q.ranks; ++i) {
        place[8 + i] = place_of(inbox[0][(size_t)i].data(), inbox[1][(size_t)i].data(), places_rows,
                                q.tn, q.tn);
        place[8 + i].tagged = 1;
    }
    p.program.bias = q.bias ? bias.data() : nullptr;
    p.program.act = q.bias ? SG_KERNEL_RELU : SG_KERNEL_NONE;
    if (!aim(g, p, (int)p.patch.size(), 0, way{q.tm, q.tn, 0, q.blocks, slow ? 90 : 0, q.ranks},
             what))
        return false;
    expect((g->slow != nullptr) == slow, what + ": takes the slow kernel");
    return true;
}

bool tagged::enqueue(int run, int r)
{
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    if (!aim_at(g.get(), run, r)) return false;
    g->param.protocol = protocol_of(q.ranks, nullptr, 0);
    return start(g.get(), r, what);
}

/* Each product rounded, summed in rank order, rounded once. */
std::vector<float> tagged::wanted(int run) const
{
    std::vector<float> want((size_t)q.m * q.n, -0.f);
    for (int r = 0; r < q.ranks; ++r) {
        const std::vector<float> part =
            product(a[(size_t)run][(size_t)r].data(), q.k, b[(size_t)r], q.m, q.n, q.k);
        for (size_t i = 0; i < part.size(); ++i)
            want[i] += __bfloat162float(__float2bfloat16_rn(part[i]));
    }
    for (size_t i = 0; i < want.size(); ++i) {
        if (q.bias) want[i] += __bfloat162float(bias[i % (size_t)q.n]);
        if (q.bias && want[i] < 0.f) want[i] = 0.f;
        want[i] = __bfloat162float(__float2bfloat16_rn(want[i]));
    }
    return want;
}

void tagged::check(int runs)
{
    w.ended(w.of[0]->rank.epoch - 1, what);
    for (const plan &p : l) expect(p.at_rest(), what + ": counts");
    size_t left = 0;
    for (const auto &half : inbox)
        for (const matrix &m : half)
            for (const T &v : m) left += !is_poison(v);
    expect(left == 0, what + ": " + std::to_string(left) + " numbers are not at rest");
    for (int run = q.runs - runs; run < q.runs; ++run) {
        const std::vector<float> want = wanted(run);
        for (int r = 0; r < q.ranks; ++r)
            judge(c[(size_t)run][(size_t)r], pitch, 0,
                  q.owners == SCATTER ? row0(r + 1) - row0(r) : q.m, q.n,
                  want.data() + (q.owners == SCATTER ? (size_t)row0(r) * q.n : 0),
                  what + " run " + std::to_string(run) + " rank " + std::to_string(r));
    }
}

/* Who came has stopped, knows whom it waited for, and has left nothing. */
void tagged::check_stopped() const
{
    bool named = false;
    for (int r = 0; r < q.ranks; ++r) {
        const world::member &m = *w.of[(size_t)r];
        if (r == q.missing) continue;
        expect(m.trouble.kind != 0 && m.rank.epoch == epoch &&
                   (m.rank.leaving & ~SG_KERNEL_ABORTED) == SG_KERNEL_CLAIMED,
               what + ": rank " + std::to_string(r) + " stops");
        expect(!m.trouble.late || m.trouble.by == q.missing, what + ": whom it waits for");
        named |= m.trouble.by == q.missing;
    }
    expect(named, what + ": named");
}

/* As the host does it: what is under way has landed. */
void tagged::recover()
{
    w.recover();
    for (auto &m : w.of) m->rank.limit_ns = 40000000;
    for (auto &half : inbox)
        for (matrix &m : half) m = poisoned(m.size());
}

static void try_tagged(const tagged_ask &ask)
{
    tagged t(ask);
    go_through(t);
}

/* Math without patience goes on behind a try in vain, if there is one: no
 * rank ends a run behind that. */
static void try_tagged_impatient(void)
{
    int stopped = 0;
    for (int time = 0; time < 24; ++time) {
        tagged t({2, 16, 64, 640, 64, 64, 0, 1, 0, false, false, -1, -1, 0, -1});
        for (int r = 0; r < 2; ++r) {
            const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
            if (!t.aim_at(g.get(), 0, r)) return;
            g->param.protocol = protocol_of(2, nullptr, 0);
            g->param.patience = 0;
            if (!start(g.get(), r, t.what)) return;
        }
        expect(emu_run(), t.what + ": goes through without patience");
        for (const auto &m : t.w.of) {
            const bool defect = m->trouble.kind == SG_KERNEL_STUCK_DEFECT;
            expect(defect || !m->trouble.late, t.what + ": trouble without patience");
            const bool told = m->abort[0] != 0 || m->abort[1] != 0; /* perhaps behind its end */
            const bool ended = m->rank.epoch == t.epoch + 1;
            expect(defect ? told && !ended : told || ended,
                   t.what + ": ends no run behind a defect, which all are told of");
            stopped += defect;
        }
    }
    expect(stopped > 0, "a try in vain stops a run of tagged data");
}

/* Others may wait for words: what no kernel does with them is refused, and not done in another
 * way. */
static void try_tagged_refused(void)
{
    tagged t({2, 16, 64, 72, 64, 64, 0, 1, 0, false, false, -1, -1, 0, -1});
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    plan &p = t.l[0];
    expect(t.aim_at(g.get(), 0, 0), t.what + ": is served");
    const auto refused = [&](const char *why_not, int tn = 64) {
        const char *why = sg_kernel_gemm_make(g.get(), &p.program, &p.host, 7, 0, 2, 64, tn, 0);
        if (why == nullptr) why = sg_kernel_gemm_aim(g.get());
        expect(why != nullptr, t.what + ": is refused with " + why_not);
    };
    p.program.place[9].tagged = 0;
    refused("a place of plain numbers");
    p.program.place[9].tagged = 1;
    p.program.place[8].cols = p.program.place[9].cols = 48;
    refused("half a word's columns", 48);
    p.program.place[8].cols = p.program.place[9].cols = 64;
    p.program.type = SG_KERNEL_F32;
    refused("f32");
}

void try_all_tagged(void)
{
    /* ranks, m, n, k, tile, blocks, runs, odd, baked, bias, missing, slow, owners, nan */
    try_tagged({2, 16, 264, 72, 64, 64, 0, 4, 8, false, false, -1, -1, 0, -1});
    try_tagged({2, 1, 200, 136, 64, 32, 3, 5, 3, true, true, -1, -1, 0, -1});
    try_tagged({1, 70, 136, 72, 64, 96, 0, 3, 0, true, false, -1, -1, 0, 0});
    try_tagged({3, 75, 264, 72, 64, 128, 2, 3, 8, false, true, -1, -1, 0, 1});
    try_tagged({5, 150, 77, 40, 128, 64, 2, 3, 1, true, false, -1, -1, 0, -1});
    try_tagged({2, 200, 136, 136, 128, 96, 3, 3, 4, false, false, -1, -1, 0, -1});
    try_tagged({9, 30, 136, 40, 128, 128, 2, 2, 2, false, true, -1, -1, 0, -1});
    try_tagged({3, 40, 136, 72, 64, 64, 2, 2, 0, false, false, 1, -1, 0, -1});
    try_tagged({2, 130, 200, 72, 128, 128, 0, 2, 8, true, true, 0, -1, 0, -1});
    try_tagged({4, 70, 136, 40, 64, 96, 0, 3, 3, false, true, -1, 1, 0, 1});
    try_tagged({2, 16, 72, 136, 64, 64, 2, 4, 0, true, false, -1, 0, 0, 1});
    try_tagged({2, 150, 136, 40, 128, 128, 2, 2, 1, false, false, -1, 2, 0, -1});
    try_tagged({3, 40, 136, 72, 64, 64, 2, 3, 0, false, true, 2, 0, 0, -1});
    try_tagged({2, 16, 264, 72, 64, 64, 0, 4, 8, true, false, -1, -1, 1, -1});
    try_tagged({3, 1, 200, 136, 64, 32, 3, 5, 3, false, true, -1, -1, 1, 2});
    try_tagged({4, 70, 520, 40, 64, 96, 0, 3, 0, true, false, -1, -1, 1, 1});
    try_tagged({3, 75, 264, 72, 64, 128, 2, 3, 8, false, true, -1, -1, 1, -1});
    try_tagged({5, 150, 77, 40, 128, 64, 2, 4, 1, true, false, -1, -1, 1, -1});
    try_tagged({2, 200, 136, 136, 128, 96, 3, 3, 4, false, false, -1, -1, 1, 0});
    try_tagged({6, 100, 264, 40, 128, 128, 2, 2, 2, true, true, -1, -1, 1, -1});
    try_tagged({2, 130, 392, 40, 128, 192, 2, 3, 8, true, false, -1, -1, 1, -1});
    try_tagged({3, 40, 136, 72, 64, 64, 2, 2, 0, false, false, 1, -1, 1, -1});
    try_tagged({2, 130, 200, 72, 128, 128, 0, 2, 8, true, true, 0, -1, 1, -1});
    try_tagged({3, 70, 200, 40, 64, 96, 0, 3, 3, true, true, -1, 1, 1, 1});
    try_tagged({2, 150, 136, 40, 128, 128, 2, 2, 1, false, true, -1, 2, 1, 0});
    try_tagged({2, 16, 264, 72, 64, 64, 0, 4, 8, false, false, -1, -1, 2, -1});
    try_tagged({3, 1, 200, 136, 64, 32, 3, 5, 3, true, true, -1, -1, 2, 2});
    try_tagged({4, 70, 520, 40, 64, 96, 0, 3, 0, false, false, -1, -1, 2, 1});
    try_tagged({3, 275, 264, 72, 64, 128, 2, 3, 8, true, true, -1, -1, 2, -1});
    try_tagged({5, 150, 77, 40, 128, 64, 2, 4, 1, false, false, -1, -1, 2, -1});
    try_tagged({2, 333, 136, 136, 128, 96, 3, 3, 4, true, false, -1, -1, 2, 0});
    try_tagged({6, 100, 264, 40, 128, 128, 2, 2, 2, false, true, -1, -1, 2, -1});
    try_tagged({2, 130, 392, 40, 128, 192, 2, 3, 8, true, false, -1, -1, 2, -1});
    try_tagged({9, 30, 136, 40, 64, 64, 0, 2, 0, false, true, -1, -1, 2, -1});
    try_tagged({3, 40, 136, 72, 64, 64, 2, 2, 0, true, false, 1, -1, 2, -1});
    try_tagged({2, 130, 200, 72, 128, 128, 0, 2, 8, false, true, 0, -1, 2, -1});
    try_tagged({3, 70, 200, 40, 64, 96, 0, 3, 3, true, true, -1, 1, 2, 1});
    try_tagged({2, 150, 136, 40, 128, 128, 2, 2, 1, false, true, -1, 2, 2, 0});
    try_tagged_impatient();
    try_tagged_refused();
}
