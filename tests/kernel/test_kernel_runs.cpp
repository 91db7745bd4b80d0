/* test_kernel_runs.cpp -- runs of several ranks against each other on the emulator: the run
 * protocol inside one launch a rank, rows that launches carry, tiles stored into peers' own
 * tensors, early starts, steps, ranks that never come, recovery.  Several runs follow each other on
 * the same words, in streams, with delays drawn from a seed; epochs begin just below 2^32.
 *
 *     test_kernel_runs [SEED] */
#include "runs_world.h"

/* ---- A gather whose rows are carried by the launch itself ------------------------------------ */

struct gather_ask {
    int ranks, m, n, k, tm, tn, cluster, chunk, chunk_k, blocks, arch, runs;
    bool empty, baked, apart; /* apart: a step for each peer */
    int couriers = -1;        /* blocks without tiles that carry; -1: whatever comes */
    int more = 0;        /* times that each step stores its rows besides: it is long on its way */
    int64_t carried = 0; /* bytes, as the host says: too many for few couriers */
    bool shut = false;   /* a rank has not ended the run before */
    bool held = false;   /* own rows wait for the next rank's parts of k, too; chunks are whole */
    bool adds = false;   /* to what C holds */
    bool of_b = false;   /* what is gathered is B; a chunk has all rows of a rank, and all k */
};

struct gather {
    const gather_ask q;
    const std::string what;
    const uint64_t epoch = (1ull << 32) - 2;
    const std::vector<int> base;
    const int m, slabs, pitch; /* pitch: of A */
    world w;
    std::vector<matrix> sym[2], spare, b;
    std::vector<plan> l;
    std::vector<std::vector<matrix>> a, c, was; /* of each run and rank; WAS: C before */

    explicit gather(const gather_ask &ask);
    void make_patches(int r);
    void make_pushes(int r);
    bool enqueue(int run, int r);
    void check(int run, int r) const;
    void shut_gates();
    void check_shut() const;
};

gather::gather(const gather_ask &ask)
    : q(ask),
      what("gather of " + std::to_string(q.ranks) + " ranks " + std::to_string(q.m) + "x" +
           std::to_string(q.n) + "x" + std::to_string(q.k) + " tile " + std::to_string(q.tm) + "x" +
           std::to_string(q.tn) + " cluster " + std::to_string(q.cluster) + " chunk " +
           std::to_string(q.chunk) + "," + std::to_string(q.chunk_k) + " arch " +
           std::to_string(q.arch) + " more " + std::to_string(q.more) + (q.of_b ? ", of B" : "")),
      base(share(q.m, q.ranks, q.empty)), m(base.back()), slabs(q.chunk_k ? up(q.k, q.chunk_k) : 1),
      pitch(q.k + (q.arch == 0 ? 16 : 3)), w(q.ranks, epoch, q.shut ? 300000 : 40000000),
      l((size_t)q.ranks), a((size_t)q.runs), c((size_t)q.runs)
{
    for (int r = 0; r < q.ranks; ++r) {
        for (auto &half : sym) half.push_back(poisoned((size_t)m * q.k));
        spare.push_back(poisoned((size_t)q.more * m * q.k));
        b.push_back(random_matrix((size_t)q.n * q.k));
        make_patches(r);
        make_pushes(r);
        l[(size_t)r].finish(&w, r, 4711, q.baked);
        for (int run = 0; run < q.runs; ++run) {
            a[(size_t)run].push_back(random_matrix((size_t)(base[r + 1] - base[r] + 1) * pitch));
            c[(size_t)run].push_back((q.adds ? random_matrix : poisoned)((size_t)m * q.n));
        }
    }
    was = c;
}

void gather::make_patches(int r)
{
    plan &p = l[(size_t)r];
    for (int i = 0; i < q.ranks; ++i) {
        const int at = (r + i) % q.ranks, rows = base[at + 1] - base[at];
        if (rows == 0) continue;
        const sg_area from = area(r, i ? 3 + r : 0, i ? base[at] : 0, rows, 0, q.k);
        if (q.of_b) {
            p.rect(0, q.n, rows, q.k, area(r, 1, 0, q.n, 0, q.k), from).col0 = base[at];
            p.store(area(r, 2, 0, q.n, base[at], rows));
            if (i > 0) p.waits(wait_one(at, 200));
            continue;
        }
        p.rect(base[at], rows, q.n, q.k, from, area(r, 1, 0, q.n, 0, q.k));
        p.store(area(r, 2, base[at], rows, 0, q.n));
        if (q.adds) p.adds(area(r, 2, base[at], rows, 0, q.n), nullptr);
        if (i == 0 && !q.held) continue;
        sg_wait wait = wait_one(i ? at : (r + 1) % q.ranks, 200);
        wait.per = SG_PER_ROWS;
        wait.row0 = base[at];
        wait.rows = rows;
        wait.chunk = q.held ? rows : q.chunk;
        wait.chunk_k = q.chunk_k;
        wait.chunks_k = slabs;
        p.waits(wait);
        p.patch.back().slab = q.chunk_k;
    }
}

void gather::make_pushes(int r)
{
    plan &p = l[(size_t)r];
    const int own = base[r + 1] - base[r];
    for (int x = 0, flag = 200; x < own; x += q.chunk)
        for (int s = 0; s < slabs; ++s, ++flag) {
            const int k0 = s * q.chunk_k, rest = q.k - k0;
            const int width = q.chunk_k && rest > q.chunk_k ? q.chunk_k : rest;
            const int rows = own - x < q.chunk ? own - x : q.chunk;
            for (int i = 1; i < q.ranks; ++i) {
                const int to = (r + i) % q.ranks;
                if (i == 1 || q.apart) p.copy(area(r, 0, x, rows, k0, width));
                for (int j = 0; j < q.more; ++j)
                    p.step_store(area(to, 3 + q.ranks + to, j * m + base[r] + x, rows, k0, width));
                p.step_store(area(to, 3 + to, base[r] + x, rows, k0, width));
                p.step_raise(to, flag);
            }
        }
}

bool gather::enqueue(int run, int r)
{
    plan &p = l[(size_t)r];
    const int own = base[r + 1] - base[r];
    sg_kernel_place *place = p.program.place;
    T *mine = a[(size_t)run][(size_t)r].data(), *out = c[(size_t)run][(size_t)r].data();
    place[0] = place_of(mine, mine, own ? own : 1, q.k, pitch);
    place[1] = place_of(b[(size_t)r].data(), b[(size_t)r].data(), q.n, q.k, q.k);
    place[2] = q.of_b ? place_of(out, out, q.n, m, m) : place_of(out, out, m, q.n, q.n);
    for (int i = 0; i < q.ranks; ++i) {
        T *beside = spare[(size_t)i].data();
        place[3 + i] = place_of(sym[0][(size_t)i].data(), sym[1][(size_t)i].data(), m, q.k, q.k);
        if (q.more > 0) place[3 + q.ranks + i] = place_of(beside, beside, q.more * m, q.k, q.k);
    }
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    const way how = {q.tm, q.tn, q.cluster, q.blocks, q.arch, q.ranks, q.carried};
    if (!aim(g.get(), p, (int)p.patch.size(), (int)p.step.size(), how, what)) return false;
    const int couriers = g->blocks - g->param.workers;
    expect(q.arch != 0 || g->slow == nullptr, what + ": takes a slow kernel");
    expect(q.couriers < 0 || couriers == q.couriers, what + ": " + std::to_string(couriers));
    const bool few = q.carried > 0 && q.carried < 1000;
    const bool many = couriers >= 8 || (q.ranks > 2 && couriers >= 4 && g->param.pushes >= 8);
    expect(q.couriers < 1 || (g->param.heralds > 0) == (many && !few), what + ": heralds");
    expect((g->param.pauses > 0) == (g->param.heralds > 0 && q.ranks == 2), what + ": pauses");
    const bool wave = g->param.units * q.cluster <= g->param.workers && g->param.pushes > 1;
    const bool early = q.held || (q.ranks == 2 && couriers < 8 && wave);
    expect(q.couriers < 1 || (g->param.early == early && (g->param.whole != 0) == few),
           what + ": " + std::to_string(g->param.early) + " early, whole " +
               std::to_string(g->param.whole));
    g->param.protocol = protocol_of(q.ranks, nullptr, 0);
    return start(g.get(), r, what);
}

void gather::check(int run, int r) const
{
    std::vector<float> want;
    for (int i = 0; i < q.ranks; ++i) {
        const std::vector<float> part = product(a[(size_t)run][(size_t)i].data(), pitch,
                                                b[(size_t)r], base[i + 1] - base[i], q.n, q.k);
        want.insert(want.end(), part.begin(), part.end());
    }
    for (size_t i = 0; q.adds && i < want.size(); ++i)
        want[i] += __bfloat162float(was[(size_t)run][(size_t)r][i]);
    const std::vector<float> turned = want;
    for (size_t i = 0; q.of_b && i < want.size(); ++i)
        want[i % (size_t)q.n * m + i / (size_t)q.n] = turned[i];
    judge(c[(size_t)run][(size_t)r], q.of_b ? m : q.n, 0, q.of_b ? q.n : m, q.of_b ? m : q.n,
          want.data(), what + " run " + std::to_string(run) + " rank " + std::to_string(r));
    int wrong = 0; /* of the last run's rows beside */
    for (int i = 0; run + 1 == q.runs && i < q.ranks; ++i)
        for (int y = 0; i != r && y < q.more * (base[i + 1] - base[i]); ++y) {
            const int row = y / q.more, at = y % q.more * m + base[i] + row;
            for (int x = 0; x < q.k; ++x)
                wrong += !(__bfloat162float(spare[(size_t)r][(size_t)at * q.k + x]) ==
                           __bfloat162float(a[(size_t)run][(size_t)i][(size_t)row * pitch + x]));
        }
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " wrong beside");
}

void gather::shut_gates()
{
    for (auto &member : w.of) {
        member->rank.last[0] = member->rank.last[1] = epoch - 1;
        member->done[0] = epoch - 2;
    }
}

/* Nothing is stored. */
void gather::check_shut() const
{
    for (int r = 0; r < q.ranks; ++r) {
        const world::member &m = *w.of[(size_t)r];
        expect(m.trouble.kind != 0 && m.rank.epoch == epoch, what + ": stops");
        for (auto &half : sym) judge(half[(size_t)r], q.k, 0, 0, q.k, nullptr, what + ", shut");
    }
}

static void try_gather(gather_ask ask, bool of_b = false)
{
    ask.of_b = of_b;
    gather t(ask);
    bool ok = true;
    if (ask.shut) t.shut_gates();
    for (int run = 0; run < ask.runs; ++run)
        for (int r = 0; r < ask.ranks; ++r) ok = ok && t.enqueue(run, r);
    ok = ok && emu_run();
    expect(ok, t.what + ": goes through");
    if (!ok) return;
    if (ask.shut) {
        t.check_shut();
        return;
    }
    t.w.ended(t.epoch + (uint64_t)ask.runs - 1, t.what);
    for (const plan &p : t.l) expect(p.at_rest(), t.what + ": counts");
    for (int run = 0; run < ask.runs; ++run)
        for (int r = 0; r < ask.ranks; ++r) t.check(run, r);
}

/* ---- An all-reduce whose sums are stored into peers' tensors --------------------------------- */

struct reduce_ask {
    int ranks, m, n, k, tm, tn, cluster, blocks, arch, runs;
    int direct;  /* bit: this rank says where its C is; the others have a landing */
    int missing; /* this rank never comes; -1: all do */
};

/* Each rank's own rows come last and add what peers stored into its inbox; the sum goes to all.
 * The launch ends the run behind the flags of all others' sums. */
struct all_reduce {
    const reduce_ask q;
    const std::string what;
    const uint64_t epoch = (1ull << 32) - 2;
    const std::vector<int> base;
    const int most, pitch; /* rows of a rank; of C */
    world w;
    std::vector<matrix> inbox[2], landing, b;
    std::vector<plan> l;
    std::vector<std::vector<CUtensorMap>> remake;
    std::vector<std::vector<matrix>> seen; /* C, by who comes behind the run in its stream */
    const std::vector<int32_t> whole;
    std::vector<std::vector<matrix>> a, c; /* of each run and rank */

    explicit all_reduce(const reduce_ask &ask);
    void make_patch(int r, int at);
    bool enqueue(int run, int r);
    std::vector<float> wanted(int run) const;
    void check(int run, int r, const std::vector<float> &want);
    void check_missing() const;
    bool is_direct(int r) const
    {
        return q.direct >> r & 1;
    }
};

all_reduce::all_reduce(const reduce_ask &ask)
    : q(ask), what("all-reduce of " + std::to_string(q.ranks) + " ranks " + std::to_string(q.m) +
                   "x" + std::to_string(q.n) + "x" + std::to_string(q.k) + " tile " +
                   std::to_string(q.tm) + "x" + std::to_string(q.tn) + " cluster " +
                   std::to_string(q.cluster) + " direct " + std::to_string(q.direct) + " arch " +
                   std::to_string(q.arch) + " missing " + std::to_string(q.missing)),
      base(share(q.m, q.ranks, false)), most(base[1]), pitch(q.n + 16),
      w(q.ranks, epoch, q.missing < 0 ? 40000000 : 300000), l((size_t)q.ranks),
      remake((size_t)q.ranks), seen((size_t)q.runs), whole{0, 0, q.m}, a((size_t)q.runs),
      c((size_t)q.runs)
{
    for (int r = 0; r < q.ranks; ++r) {
        for (auto &half : inbox) half.push_back(poisoned((size_t)q.ranks * most * q.n));
        landing.push_back(poisoned((size_t)q.m * q.n));
        b.push_back(random_matrix((size_t)q.n * q.k));
        for (int i = 1; i <= q.ranks; ++i) make_patch(r, (r + i) % q.ranks);
        for (int from = 0; from < q.ranks; ++from)
            if (from != r) l[(size_t)r].wait.push_back(wait_one(from, 0));
        l[(size_t)r].finish(&w, r, 4711, false);
        for (int run = 0; run < q.runs; ++run) {
            a[(size_t)run].push_back(random_matrix((size_t)q.m * q.k));
            seen[(size_t)run].push_back(poisoned((size_t)q.m * pitch));
            c[(size_t)run].push_back(poisoned((size_t)q.m * pitch));
        }
    }
}

void all_reduce::make_patch(int r, int at)
{
    plan &p = l[(size_t)r];
    const int rows = base[at + 1] - base[at];
    sg_patch &patch = p.rect(base[at], rows, q.n, q.k, area(r, 0, base[at], rows, 0, q.k),
                             area(r, 1, 0, q.n, 0, q.k));
    patch.final = at == r;
    if (at != r) {
        p.store(area(at, 8 + at, r * most, rows, 0, q.n));
        p.raises(at, SG_PER_TILE, 1, 1);
        return;
    }
    for (int from = 0; from < q.ranks; ++from) {
        sg_wait wait = wait_one(from, 1);
        wait.per = SG_PER_TILE;
        if (from != r) p.adds(area(r, 8 + r, from * most, rows, 0, q.n), &wait);
    }
    for (int j = 0; j < q.ranks; ++j) {
        const int to = (r + j) % q.ranks;
        sg_area s = area(to, 2 + to, base[r], rows, 0, q.n);
        s.leave = to != r;
        p.store(s);
    }
    for (int j = 1; j < q.ranks; ++j)
        p.raises((r + j) % q.ranks, SG_PER_PATCH, 0, up(rows, q.tm) * up(q.n, q.tn));
}

bool all_reduce::enqueue(int run, int r)
{
    plan &p = l[(size_t)r];
    sg_kernel_place *place = p.program.place;
    T *out = c[(size_t)run][(size_t)r].data(), *in = a[(size_t)run][(size_t)r].data();
    place[0] = place_of(in, in, q.m, q.k, q.k);
    place[1] = place_of(b[(size_t)r].data(), b[(size_t)r].data(), q.n, q.k, q.k);
    for (int i = 0; i < q.ranks; ++i) {
        T *there = landing[(size_t)i].data();
        place[2 + i] =
            i == r ? place_of(out, out, q.m, q.n, pitch) : place_of(there, there, q.m, q.n, q.n);
        place[8 + i] = place_of(inbox[0][(size_t)i].data(), inbox[1][(size_t)i].data(),
                                q.ranks * most, q.n, q.n);
    }
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    const way how = {q.tm, q.tn, q.cluster, q.blocks, q.arch, q.ranks};
    if (!aim(g.get(), p, (int)p.patch.size(), 0, how, what)) return false;
    /* The same memory in every run, as a plan keeps it. */
    if (run == 0) remake[(size_t)r].resize(sg_kernel_remake_bytes(g.get()) / sizeof(CUtensorMap));
    g->param.remake = remake[(size_t)r].data();
    g->param.protocol = protocol_of(q.ranks, is_direct(r) ? out : nullptr, pitch);
    g->param.protocol.waits = q.ranks - 1;
    g->param.protocol.wait0 = (int32_t)p.wait.size() - (q.ranks - 1);
    g->param.protocol.wait_step = 9;
    if (!start(g.get(), r, what)) return false;
    T *copy = seen[(size_t)run][(size_t)r].data();
    const sg_kernel_place from = place[2 + r], to = place_of(copy, copy, q.m, q.n, pitch);
    const bool ok = sg_kernel_permute(&from, &to, whole.data(), 1, (int)sizeof(T), 1, 0,
                                      emu_stream(r)) == cudaSuccess;
    expect(ok, what + ": is looked at");
    return ok;
}

std::vector<float> all_reduce::wanted(int run) const
{
    std::vector<float> want((size_t)q.m * q.n, 0.f);
    for (int r = 0; r < q.ranks; ++r) {
        const std::vector<float> part =
            product(a[(size_t)run][(size_t)r].data(), q.k, b[(size_t)r], q.m, q.n, q.k);
        for (size_t i = 0; i < part.size(); ++i) want[i] += part[i];
    }
    return want;
}

void all_reduce::check(int run, int r, const std::vector<float> &want)
{
    const std::string here = what + " run " + std::to_string(run) + " rank " + std::to_string(r);
    const matrix &mine = c[(size_t)run][(size_t)r];
    if (is_direct(r)) {
        judge(mine, pitch, 0, q.m, q.n, want.data(), here);
        judge(seen[(size_t)run][(size_t)r], pitch, 0, q.m, q.n, want.data(), here + ", behind it");
        return;
    }
    const size_t first = (size_t)base[r] * q.n, end = (size_t)base[r + 1] * q.n;
    judge(mine, pitch, base[r], base[r + 1] - base[r], q.n, want.data() + first, here);
    if (run + 1 < q.runs) return;
    matrix all = landing[(size_t)r]; /* its own rows are not written there */
    for (size_t i = first; i < end; ++i)
        all[i] = __float2bfloat16_rn(is_poison(all[i]) ? want[i] : 99.f);
    judge(all, q.n, 0, q.m, q.n, want.data(), here + ", landing");
}

void all_reduce::check_missing() const
{
    for (int r = 0; r < q.ranks; ++r) {
        const world::member &m = *w.of[(size_t)r];
        if (r == q.missing) continue;
        expect(m.trouble.kind != 0 && m.rank.epoch == epoch &&
                   (m.rank.leaving & ~SG_KERNEL_ABORTED) == SG_KERNEL_CLAIMED,
               what + ": rank " + std::to_string(r) + " stops");
    }
    for (int run = 0; run < q.runs; ++run)
        judge(c[(size_t)run][(size_t)q.missing], pitch, 0, 0, q.n, nullptr, what + ", its tensor");
    judge(landing[(size_t)q.missing], q.n, 0, 0, q.n, nullptr, what + ", its landing");
}

static void try_all_reduce(const reduce_ask &ask)
{
    all_reduce t(ask);
    bool ok = true;
    for (int run = 0; run < ask.runs; ++run)
        for (int r = 0; r < ask.ranks; ++r) ok = ok && (r == ask.missing || t.enqueue(run, r));
    ok = ok && emu_run();
    expect(ok, t.what + ": goes through");
    if (!ok) return;
    if (ask.missing >= 0) {
        t.check_missing();
        return;
    }
    t.w.ended(t.epoch + (uint64_t)ask.runs - 1, t.what);
    for (const plan &p : t.l) expect(p.at_rest(), t.what + ": counts");
    for (int run = 0; run < ask.runs; ++run) {
        const std::vector<float> want = t.wanted(run);
        for (int r = 0; r < ask.ranks; ++r) t.check(run, r, want);
    }
}

/* A rank has not ended the run before: no tile is stored at another rank. */
static void try_shut(const reduce_ask &ask)
{
    all_reduce t(ask);
    const std::string what = t.what + ", shut";
    bool ok = true;
    for (auto &member : t.w.of) {
        member->rank.last[0] = member->rank.last[1] = t.epoch - 1;
        member->rank.limit_ns = 300000;
        member->done[0] = t.epoch - 2;
    }
    for (int r = 0; r < ask.ranks; ++r) ok = ok && t.enqueue(0, r);
    expect(ok && emu_run(), what + ": goes through");
    for (auto &member : t.w.of)
        expect(member->trouble.kind != 0 && member->rank.epoch == t.epoch, what + ": stops");
    for (auto &half : t.inbox)
        for (matrix &x : half) judge(x, ask.n, 0, 0, ask.n, nullptr, what + ", inbox");
}

/* A rank that has failed, or knows of one that has, ends no run, whatever it computes. */
static void try_failed(bool claimed)
{
    all_reduce t({1, 70, 136, 72, 64, 128, 1, 0, 0, 1, 0, -1});
    world::member &m = *t.w.of[0];
    const uint32_t left = claimed ? SG_KERNEL_CLAIMED : 0;
    m.rank.leaving = left;
    if (!claimed) m.abort[0] = t.epoch;
    expect(t.enqueue(0, 0) && emu_run(), t.what + ": goes through, failed");
    expect(m.rank.epoch == t.epoch && (m.rank.leaving & ~SG_KERNEL_ABORTED) == left &&
               m.done[0] < t.epoch,
           t.what + (claimed ? ": does not end, failed" : ": does not end, aborted"));
}

/* Rank 1's words at rank 0 when it is in the second run behind this one, of another plan, and the
 * run between was of a plan without hellos.  JOINED: it has ended this run; otherwise this one was
 * of such a plan, too. */
static void look_ahead(world *w, uint64_t epoch, matrix *elsewhere, bool joined)
{
    world::member &m = *w->of[0];
    m.hello[2 + (epoch & 1)] = {epoch + 2, 815, (uint64_t)(uintptr_t)elsewhere->data(), 8};
    m.done[1] = joined ? epoch : epoch - 1;
    for (auto &page : m.flag) std::fill(page.begin() + 256, page.end(), epoch);
}

/* A peer that is ahead is no mismatch, and nothing is stored to where its tensor is by now. */
static void try_ahead(int arch, bool joined)
{
    gather t({2, 200, 136, 72, 64, 128, 1, 64, 0, 0, arch, 1, true, false, true});
    matrix elsewhere = poisoned(1 << 16);
    look_ahead(&t.w, t.epoch, &elsewhere, joined);
    const std::string what = t.what + (joined ? ", a peer ahead" : ", a peer elsewhere");
    const world::member &m = *t.w.of[0];
    expect(t.enqueue(0, 0) && emu_run(), what + ": goes through");
    expect(m.rank.epoch == t.epoch + joined, what + ": in run " + std::to_string(m.rank.epoch));
    expect(m.trouble.kind == (joined ? 0 : SG_KERNEL_STUCK_MISMATCH), what + ": trouble");

    all_reduce r({2, 100, 136, 72, 64, 128, 0, 0, arch, 1, 3, -1});
    look_ahead(&r.w, r.epoch, &elsewhere, joined);
    const world::member &n = *r.w.of[0];
    expect(r.enqueue(0, 0) && emu_run(), what + ": goes through, leaving");
    expect(n.rank.epoch == r.epoch + joined && (n.trouble.kind == 0) == joined,
           what + ": leaving, trouble " + std::to_string(n.trouble.kind));
    judge(elsewhere, 8, 0, 0, 8, nullptr, what + ", its tensor by now");
    judge(r.landing[1], 136, 0, 0, 136, nullptr, what + ", its landing");
}

/* Of few SMs some have no tiles.  Here and in main(): ranks, m, n, k, tile, cluster, chunk,
 * chunk_k, blocks, arch, runs; empty, baked, apart, couriers, more, carried, shut, held, adds. */
static void try_couriers()
{
    /* Four couriers: nine tiles, two waves; none: many tiles, many bytes, math that adds first. */
    emu_sms(13);
    try_gather({3, 300, 264, 136, 128, 128, 1, 40, 0, 0, 0, 3, false, false, true, 4});
    try_gather({2, 300, 504, 72, 128, 128, 2, 60, 64, 0, 0, 3, false, false, false, 4});
    try_gather({3, 250, 264, 72, 64, 128, 1, 17, 0, 0, 0, 3, true, true, false, 0});
    try_gather({3, 300, 264, 72, 128, 128, 1, 40, 0, 0, 0, 2, false, false, true, 0, 0, 1 << 30});
    try_gather({5, 250, 136, 72, 64, 128, 1, 17, 0, 12, 0, 3, false, true, true});
    try_gather({2, 256,   72,    72,   128, 128, 1, 3,     0,     4,   0,
                2, false, false, true, 0,   12,  0, false, false, true});
    try_carry({3, 33, 4120, 64, 128, 5, 0, true});
    try_carry({3, 20, 136, 128, 256, 7, 0, false});
    /* Four couriers: two pieces of a step each, of which one is under way, or two at most; fewer
     * pieces than couriers, all under way; more steps than carriers, one behind the other. */
    emu_sms(6);
    for (int cluster = 1; cluster <= 2; ++cluster) { /* runs of B are in both halves */
        try_gather({2, 512, 200, 136, 128, 128, cluster, 512, 0, 0, 0, 3}, true);
        try_gather({3, 384, 300, 136, 128, 128, cluster, 512, 0, 0, 0, 3, false, true}, true);
    }
    try_gather({2, 256, 72, 1032, 128, 128, 1, 64, 0, 0, 0, 2, false, false, true, 4, 19});
    try_gather({2, 256, 72, 1032, 128, 128, 1, 51, 0, 0, 0, 2, false, false, true, 4, 6});
    try_gather({2, 128, 72, 1032, 128, 128, 1, 3, 520, 0, 0, 2, false, true, true, 4, 12});
    try_gather({2, 128, 72, 1032, 128, 128, 1, 3, 520, 0, 0, 1, false, true, true, 4, 12, 0, true});
    try_gather({2, 256, 72, 1032, 128, 128, 1, 8, 0, 0, 0, 2, false, false, true, 4, 79});
    /* Steps dealt whole: several to each courier, not as many to all. */
    try_gather({2, 256, 72, 1032, 128, 128, 1, 8, 0, 0, 0, 2, false, false, true, 4, 0, 900});
    try_gather({2, 128, 72, 1032, 128, 128, 1, 9, 520, 0, 0, 3, false, true, true, 4, 12, 900});
    /* The first step by storers, the others shared or whole. */
    try_gather({2, 256, 72,    1032,  128,   128, 1, 128, 128,   0,
                0, 3,   false, false, false, 4,   0, 0,   false, true});
    try_gather({2, 256, 72,    1032, 128,  128, 1, 128, 64,    0,
                0, 3,   false, true, true, 4,   2, 900, false, true});
    try_gather({2, 256, 72,    1032, 128,  128, 1, 128, 64,   0,
                0, 1,   false, true, true, 4,   0, 900, true, true});
    /* With seats, of which couriers have the last. */
    try_gather({2, 256, 72, 1024, 128, 128, 1, 64, 0, 0, 0, 6, false, false, true, 4});
    /* Many that share steps, of which one raises all: without it the others would have steps of
     * their own; the first step is the storers'. */
    emu_sms(10);
    try_gather({2, 128, 72, 192, 128, 128, 1, 13, 64, 0, 0, 3, false, true, true, 8, 2, 1000});
    try_gather({2, 128, 72, 192, 128, 128, 1, 13, 64, 0, 0, 1, false, true, true, 8, 2, 0, true});
    emu_sms(14);
    try_gather({3, 250, 136, 136, 128, 128, 1, 40, 72, 0, 0, 3, false, false, true, 8, 3});
    try_gather(
        {2, 256, 72, 520, 128, 128, 1, 128, 64, 0, 0, 3, false, true, true, 12, 2, 0, false, true});
    /* Two waves of tiles alike leave more than may carry: of what is over, one is the herald, and
     * one stands still. */
    emu_sms(80);
    try_gather({2, 256, 2944, 72, 64, 128, 1, 16, 0, 80, 0, 2, false, false, true, 33});
    emu_sms(0);
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1;
    draw(-1 - seed);
    emu_seed((uint64_t)seed);
    try_gather({2, 300, 264, 136, 128, 128, 1, 40, 0, 0, 0, 3, false, false, true});
    try_gather({3, 300, 264, 136, 128, 128, 2, 60, 64, 0, 0, 3, false, false, false});
    try_couriers();
    try_gather({5, 250, 136, 72, 64, 128, 1, 17, 0, 2, 0, 4, false, true, true});
    try_gather({2, 140, 520, 64, 64, 128, 1, 70, 0, 1, 0, 5, false, true, true});
    try_gather({1, 130, 136, 72, 64, 128, 1, 64, 0, 0, 0, 3, false, false, true});
    try_gather(
        {2, 9, 64, 4120, 64, 64, 1, 3, 0, 0, 0, 2, false, false, true}); /* rows beyond a slot */
    try_gather({3, 200, 264, 72, 128, 256, 2, 100, 0, 0, 0, 2, true, false, true});
    try_gather({2, 150, 136, 136, 128, 128, 0, 40, 72, 2, 80, 3, false, false, true});
    try_gather({3, 70, 56, 41, 96, 40, 0, 13, 0, 3, 70, 2, true, true, false});
    /* ranks, m, n, k, tile, cluster, blocks, arch, runs, direct, missing */
    try_all_reduce({2, 200, 264, 72, 128, 128, 0, 0, 0, 3, 3, -1});
    try_all_reduce({3, 300, 136, 136, 128, 128, 0, 2, 0, 3, 5, -1});
    try_all_reduce({5, 250, 136, 72, 64, 128, 1, 2, 0, 2, 11, -1});
    try_all_reduce({2, 70, 264, 72, 128, 256, 2, 0, 0, 2, 0, -1});
    try_all_reduce({2, 100, 77, 40, 64, 64, 0, 2, 70, 2, 2, -1});
    try_all_reduce({6, 96, 64, 40, 64, 64, 0, 0, 0, 2, 0, -1});
    try_all_reduce({3, 150, 136, 72, 128, 64, 0, 2, 80, 2, 7, -1});
    try_all_reduce({3, 200, 136, 72, 64, 128, 1, 0, 0, 2, 7, 2});
    try_all_reduce({3, 100, 136, 72, 64, 128, 0, 2, 80, 2, 7, 0});
    /* Seats: of rows that begin at even 16 bytes, several bands in the first wave. */
    for (int tn : {128, 256}) {
        try_gather({2, 300, 136, 128, 128, tn, 0, 40, 0, 0, 0, 6, false, false, true});
        try_gather({3, 200, 136, 64, 64, 128, 0, 17, 0, 1, 0, 6, false, true, true});
        try_all_reduce({2, 300, 136, 128, 128, tn, 0, 0, 0, 6, 3, -1});
        try_all_reduce({3, 250, 200, 64, 64, 128, 0, 0, 0, 6, 5, -1});
    }
    try_shut({2, 200, 264, 72, 128, 128, 0, 0, 0, 1, 3, -1});
    try_shut({2, 300, 136, 136, 128, 192, 0, 2, 0, 1, 0, -1});
    try_failed(true);
    try_failed(false);
    try_given_up();
    try_record_first();
    for (int arch = 0; arch <= 80; arch += 80)
        for (int joined = 0; joined < 2; ++joined) try_ahead(arch, joined);
    try_end_alone();
    try_steps({1, 20, 24, 2, 1, false});
    try_steps({2, 50, 40, 3, 3, false});
    try_steps({3, 31, 77, 3, 5, false});
    try_steps({5, 33, 16, 4, 9, false});
    try_steps({5, 33, 16, 2, 0, false}); /* in units, with more addends than are under way */
    try_steps({7, 30, 40, 2, 0, false});
    try_steps({3, 20, 16, 1, 7, true});
    for (int run : {1, 2, 3, 16, 100}) {
        try_copies({50, 24, run, 0, 1, false});
        try_copies({50, 24, run, 8, 7, false}); /* units of 16, 4 and 2 bytes */
        try_copies({37, 18, run, 0, 3, false});
        try_copies({37, 7, run, 0, 60, false}); /* more blocks than rows */
        try_copies({9, 50, run, 6, 5, true});
        try_copies({1, 50, run, 1, 4, true});
    }
    try_all_shifted();
    try_most_rows();
    try_flag_pages();
    try_wide_copy();
    try_carry({2, 7, 520, 64, 128, 1, 0, true});
    try_carry({3, 33, 4120, 64, 128, 5, 0, true});
    try_carry({3, 20, 136, 128, 256, 7, 0, false});
    try_carry({3, 20, 77, 64, 64, 2, 80, false});
    try_impatient(64, 64);
    try_impatient(128, 256);
    try_impatient(128, 192);
    try_patient();
    try_all_along_k();
    try_all_onto();
    try_all_tagged();
    try_all_tagged_gathers();
    expect(seated > 20, "only " + std::to_string(seated) + " launches have seats");
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
