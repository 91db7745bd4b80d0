/* runs_steps.cpp -- of test_kernel_runs.cpp: kernels of steps, and launches that
 * carry rows and nothing else. */
#include "kernel/copy.cuh"
#include "runs_world.h"

/* ---- Kernels of steps, one behind the other -------------------------------------------------- */

/* An all-reduce by copies, flags and sums, each a kernel, most of them started early; the sums go
 * into peers' tensors. */
struct by_steps {
    const steps_ask q;
    const std::string what;
    const uint64_t epoch = (1ull << 32) - 2;
    const std::vector<int> base;
    const int most, pitch;
    world w;
    std::vector<matrix> inbox[2], landing;
    std::vector<plan> l;
    std::vector<std::vector<matrix>> a, c;

    explicit by_steps(const steps_ask &ask);
    void make_steps(int r);
    void enqueue(int run, int r);
    void check(int run);
};

by_steps::by_steps(const steps_ask &ask)
    : q(ask), what("steps of " + std::to_string(q.ranks) + " ranks " + std::to_string(q.m) + "x" +
                   std::to_string(q.n) + (q.mismatch ? ", two plans" : "")),
      base(share(q.m, q.ranks, false)), most(base[1]), pitch(q.n + 3),
      w(q.ranks, epoch, q.mismatch ? 300000 : 3000000), l((size_t)q.ranks), a((size_t)q.runs),
      c((size_t)q.runs)
{
    for (int r = 0; r < q.ranks; ++r) {
        for (auto &half : inbox) half.push_back(poisoned((size_t)q.ranks * most * q.n));
        landing.push_back(poisoned((size_t)q.m * q.n));
        make_steps(r);
        l[(size_t)r].finish(&w, r, q.mismatch && r == 0 ? 1 : 2, false);
        for (int run = 0; run < q.runs; ++run) {
            a[(size_t)run].push_back(random_matrix((size_t)q.m * q.n));
            c[(size_t)run].push_back(poisoned((size_t)q.m * pitch));
        }
    }
}

void by_steps::make_steps(int r)
{
    plan &p = l[(size_t)r];
    const int own = base[r + 1] - base[r];
    for (int i = 1; i < q.ranks; ++i) {
        const int to = (r + i) % q.ranks, rows = base[to + 1] - base[to];
        p.copy(area(r, 0, base[to], rows, 0, q.n));
        p.step_store(area(to, 16 + to, r * most, rows, 0, q.n));
        p.step_raise(to, 300);
    }
    p.copy(sg_area{}); /* the sum */
    for (int from = 0; from < q.ranks; ++from) {
        const sg_wait wait = wait_one(from, 300);
        if (from == r)
            p.step_add(area(r, 0, base[r], own, 0, q.n), nullptr);
        else
            p.step_add(area(r, 16 + r, from * most, own, 0, q.n), &wait);
    }
    for (int to = 0; to < q.ranks; ++to) {
        sg_area s = area(to, 2 + to, base[r], own, 0, q.n);
        s.leave = to != r;
        p.step_store(s);
        if (to != r) p.step_raise(to, 7);
    }
    p.copy(sg_area{}); /* all others' sums have come */
    for (int from = 0; from < q.ranks; ++from) {
        if (from == r) continue;
        p.wait.push_back(wait_one(from, 7));
        ++p.step.back().waits;
    }
}

void by_steps::enqueue(int run, int r)
{
    plan &p = l[(size_t)r];
    sg_kernel_place *place = p.program.place;
    T *out = c[(size_t)run][(size_t)r].data(), *in = a[(size_t)run][(size_t)r].data();
    place[0] = place_of(in, in, q.m, q.n, q.n);
    for (int i = 0; i < q.ranks; ++i) {
        T *there = landing[(size_t)i].data();
        place[2 + i] =
            i == r ? place_of(out, out, q.m, q.n, pitch) : place_of(there, there, q.m, q.n, q.n);
        place[16 + i] = place_of(inbox[0][(size_t)i].data(), inbox[1][(size_t)i].data(),
                                 q.ranks * most, q.n, q.n);
    }
    const cudaStream_t s = emu_stream(r);
    const auto how = [] { return draw(3) ? SG_KERNEL_EARLY : 0u; };
    sg_kernel_rank *rank = p.program.rank;
    const uint64_t hash = p.program.hash;
    const void *said = q.direct >> r & 1 ? out : nullptr;
    cudaError_t ok = sg_kernel_begin(rank, hash, said, pitch, 0, 1, 1, how(), s);
    for (int i = 0; i + 1 < q.ranks && ok == cudaSuccess; ++i)
        ok = sg_kernel_copy(&p.program, &p.step[(size_t)i], 1 + draw(3), how(), s);
    if (ok == cudaSuccess)
        ok = sg_kernel_reduce(&p.program, &p.step[(size_t)q.ranks - 1], 1 + draw(3), how(), s);
    if (ok == cudaSuccess) ok = sg_kernel_flag(&p.program, &p.step.back(), how(), s);
    if (ok == cudaSuccess) ok = sg_kernel_end(rank, hash, 0, 1, 1, how(), s);
    expect(ok == cudaSuccess, what + ": starts");
}

void by_steps::check(int run)
{
    std::vector<float> want((size_t)q.m * q.n, 0.f);
    for (int r = 0; r < q.ranks; ++r)
        for (size_t i = 0; i < want.size(); ++i)
            want[i] += __bfloat162float(a[(size_t)run][(size_t)r][i]);
    for (int r = 0; r < q.ranks; ++r) {
        const bool direct = q.direct >> r & 1;
        const int row0 = direct ? 0 : base[r], rows = direct ? q.m : base[r + 1] - base[r];
        judge(c[(size_t)run][(size_t)r], pitch, row0, rows, q.n, want.data() + (size_t)row0 * q.n,
              what + " run " + std::to_string(run) + " rank " + std::to_string(r));
    }
}

void try_steps(const steps_ask &ask)
{
    by_steps t(ask);
    for (int run = 0; run < ask.runs; ++run)
        for (int r = 0; r < ask.ranks; ++r) t.enqueue(run, r);
    const bool ok = emu_run();
    expect(ok, t.what + ": goes through");
    if (!ok) return;
    if (!ask.mismatch) {
        t.w.ended(t.epoch + (uint64_t)ask.runs - 1, t.what);
        for (const plan &p : t.l) expect(p.at_rest(), t.what + ": tickets");
        for (int run = 0; run < ask.runs; ++run) t.check(run);
        return;
    }
    bool named = false;
    for (const auto &m : t.w.of) {
        named |= m->trouble.kind == SG_KERNEL_STUCK_MISMATCH;
        expect(m->rank.epoch == t.epoch, t.what + ": nothing ends");
    }
    expect(named, t.what + ": named");
}

/* ---- Copies that go together ----------------------------------------------------------------- */

/* A matrix of ROWS x COLS in runs of RUN rows (or columns, if ACROSS), which go to where they stand
 * from behind: every element once, whatever the number of blocks; and nothing beside them. */
void try_copies(const copies_ask &q)
{
    const std::string what = "copies of " + std::to_string(q.rows) + "x" + std::to_string(q.cols) +
                             " in runs of " + std::to_string(q.run) + (q.across ? " across" : "") +
                             " by " + std::to_string(q.blocks) + " blocks";
    const int end = q.across ? q.cols : q.rows, pitch = q.cols + q.odd;
    world w(1, 9, 3000000);
    matrix from = random_matrix((size_t)q.rows * pitch), into = poisoned((size_t)q.rows * pitch);
    std::vector<sg_kernel_move> move;
    int64_t rows = 0;
    for (int x = 0; x < end; x += q.run) {
        const int count = end - x < q.run ? end - x : q.run, back = end - x - count;
        const sg_area src =
            q.across ? area(0, 0, 0, q.rows, x, count) : area(0, 0, x, count, 0, q.cols);
        const sg_area to =
            q.across ? area(0, 1, 0, q.rows, back, count) : area(0, 1, back, count, 0, q.cols);
        move.push_back({src, to, rows});
        rows += src.rows;
    }
    plan p;
    p.finish(&w, 0, 3, false);
    p.program.place[0] = place_of(from.data(), from.data(), q.rows, q.cols, pitch);
    p.program.place[1] = place_of(into.data(), into.data(), q.rows, q.cols, pitch);
    const bool ok = sg_kernel_copies(&p.program, move.data(), (int)move.size(), rows, q.blocks, 0,
                                     emu_stream(0)) == cudaSuccess;
    expect(ok && emu_run(), what + ": goes through");
    int wrong = 0;
    for (int i = 0; i < q.rows; ++i)
        for (int j = 0; j < pitch; ++j) {
            const T got = into[(size_t)i * pitch + j];
            if (j >= q.cols) {
                wrong += !is_poison(got);
                continue;
            }
            const int at = q.across ? j : i, run = (end - 1 - at) / q.run;
            /* Run RUN begins there, and its first row or column went to where it ends. */
            const int x = run * q.run, count = end - x < q.run ? end - x : q.run;
            const int source = x + (at - (end - x - count));
            const T want =
                q.across ? from[(size_t)i * pitch + source] : from[(size_t)source * pitch + j];
            wrong += !(__bfloat162float(got) == __bfloat162float(want));
        }
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " wrong");
}

/* All rows of a matrix from one address and pitch to another, which are odd: nothing beside them is
 * written, and nothing beyond what stands there is read (the last rows end with the memory). */
static void try_shifted(int rows, int cols, int from_at, int from_pad, int to_at, int to_pad,
                        int blocks)
{
    const std::string what = "copy of " + std::to_string(rows) + "x" + std::to_string(cols) +
                             " from " + std::to_string(from_at) + "+" + std::to_string(from_pad) +
                             " to " + std::to_string(to_at) + "+" + std::to_string(to_pad);
    const size_t from_pitch = (size_t)(cols + from_pad), to_pitch = (size_t)(cols + to_pad);
    matrix from = random_matrix((size_t)from_at + (size_t)rows * from_pitch);
    matrix into = poisoned((size_t)to_at + (size_t)rows * to_pitch + 8);
    const sg_kernel_place source =
        place_of(from.data() + from_at, from.data() + from_at, rows, cols, (int)from_pitch);
    const sg_kernel_place target =
        place_of(into.data() + to_at, into.data() + to_at, rows, cols, (int)to_pitch);
    const bool ok = sg_kernel_permute(&source, &target, nullptr, 0, (int)sizeof(T), blocks, 0,
                                      emu_stream(0)) == cudaSuccess;
    expect(ok && emu_run(), what + ": goes through");
    int wrong = 0;
    for (size_t i = 0; i < into.size(); ++i) {
        const size_t behind = i - (size_t)to_at, row = behind / to_pitch, col = behind % to_pitch;
        if (i < (size_t)to_at || row >= (size_t)rows || col >= (size_t)cols)
            wrong += !is_poison(into[i]);
        else
            wrong +=
                memcmp(&into[i], &from[(size_t)from_at + row * from_pitch + col], sizeof(T)) != 0;
    }
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " wrong");
}

void try_all_shifted(void)
{
    for (int cols : {1, 3, 7, 8, 15, 65, 249, 257, 600})
        for (int at = 0; at < 8; ++at) {
            try_shifted(5, cols, at, 0, 0, (8 - cols % 8) % 8, 1); /* as operands are copied */
            try_shifted(4, cols, 0, (8 - cols % 8) % 8, at, 0, 2); /* and results back */
            try_shifted(3, cols, at, 3, (at + 5) % 8, 1, 3);
        }
}

/* ---- Launches that carry rows and nothing else ----------------------------------------------- */

/* Rows to everybody, into their own tensors where they say so: no tiles. */
struct carry {
    const carry_ask q;
    const std::string what;
    const uint64_t epoch = (1ull << 32) - 1;
    const int pitch;
    world w;
    std::vector<matrix> a, c, landing;
    std::vector<plan> l;

    explicit carry(const carry_ask &ask);
    void make_steps(int r);
    bool enqueue(int r);
    void check(int r) const;
    void check_stopped() const;
};

carry::carry(const carry_ask &ask)
    : q(ask), what("carry of " + std::to_string(q.ranks) + " ranks " + std::to_string(q.m) + "x" +
                   std::to_string(q.k) + " arch " + std::to_string(q.arch) +
                   (q.come ? "" : ", one does not come")),
      pitch(q.k + 24), w(q.ranks, epoch, q.come ? 3000000 : 200000), l((size_t)q.ranks)
{
    for (int r = 0; r < q.ranks; ++r) {
        a.push_back(random_matrix((size_t)q.m * q.k));
        c.push_back(poisoned((size_t)q.ranks * q.m * pitch));
        landing.push_back(poisoned((size_t)q.ranks * q.m * q.k));
        make_steps(r);
        l[(size_t)r].finish(&w, r, 5, false);
    }
}

void carry::make_steps(int r)
{
    plan &p = l[(size_t)r];
    for (int half = q.m < 2; half < 2; ++half) {
        const int row = half * (q.m / 2), rows = half ? q.m - q.m / 2 : q.m / 2;
        p.copy(area(r, 0, row, rows, 0, q.k));
        for (int to = 0; to < q.ranks; ++to) {
            if (to == r) continue;
            sg_area s = area(to, 1 + to, r * q.m + row, rows, 0, q.k);
            s.leave = 1;
            p.step_store(s);
            p.step_raise(to, 20 + half);
            p.wait.push_back(wait_one(to, 20 + half));
        }
    }
}

bool carry::enqueue(int r)
{
    plan &p = l[(size_t)r];
    p.program.place[0] = place_of(a[(size_t)r].data(), a[(size_t)r].data(), q.m, q.k, q.k);
    for (int i = 0; i < q.ranks; ++i) {
        T *there = landing[(size_t)i].data();
        p.program.place[1 + i] = place_of(there, there, q.ranks * q.m, q.k, q.k);
    }
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    const way how = {q.tm, q.tn, 0, 0, q.arch, q.ranks};
    if (!aim(g.get(), p, 0, (int)p.step.size(), how, what)) return false;
    g->param.protocol =
        protocol_of(q.ranks, q.direct >> r & 1 ? c[(size_t)r].data() : nullptr, pitch);
    g->param.protocol.waits = (int32_t)p.wait.size();
    return start(g.get(), r, what);
}

void carry::check(int r) const
{
    const bool direct = q.direct >> r & 1;
    const matrix &got = direct ? c[(size_t)r] : landing[(size_t)r];
    const int apart = direct ? pitch : q.k;
    int wrong = 0;
    for (int i = 0; i < q.ranks * q.m; ++i)
        for (int x = 0; x < apart; ++x) {
            const T v = got[(size_t)i * apart + x];
            const int from = i / q.m;
            if (from == r || x >= q.k)
                wrong += !is_poison(v);
            else
                wrong += !(__bfloat162float(v) ==
                           __bfloat162float(a[(size_t)from][(size_t)(i % q.m * q.k + x)]));
        }
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " wrong");
}

void carry::check_stopped() const
{
    for (int r = 0; r < q.ranks; ++r)
        expect(r == 1 ||
                   (w.of[(size_t)r]->trouble.kind != 0 && w.of[(size_t)r]->rank.epoch == epoch),
               what + ": stops");
    judge(c[1], pitch, 0, 0, q.k, nullptr, what + ", its tensor");
    judge(landing[1], q.k, 0, 0, q.k, nullptr, what + ", its landing");
}

void try_carry(const carry_ask &ask)
{
    carry t(ask);
    for (int round = ask.come; round < 2; ++round) {
        bool ok = true;
        for (int r = 0; r < ask.ranks; ++r) ok = ok && ((round == 0 && r == 1) || t.enqueue(r));
        ok = ok && emu_run();
        expect(ok, t.what + ": goes through");
        if (!ok) return;
        if (round == 1) break;
        t.check_stopped();
        t.w.recover();
        for (auto &m : t.w.of) m->rank.limit_ns = 3000000;
        for (plan &p : t.l) p.ticket.assign(p.ticket.size(), 0); /* the host clears them, too */
        for (matrix &m : t.c) m = poisoned(m.size());
        for (matrix &m : t.landing) m = poisoned(m.size());
    }
    t.w.ended(ask.come ? t.epoch : t.epoch + 1, t.what);
    for (int r = 0; r < ask.ranks; ++r) {
        expect(t.l[(size_t)r].at_rest(), t.what + ": tickets");
        t.check(r);
    }
}

/* A flag does not come for far longer than the roles of a block wait for each other: they go on,
 * one of them is told of, no flag is raised over what they did, all ranks hear of it, and the run
 * does not end. */
void try_impatient(int tm, int tn)
{
    const std::string what =
        "a block without patience " + std::to_string(tm) + "x" + std::to_string(tn);
    enum { RAISED0 = 100 };
    const int m = 100, n = 304, k = 200;
    const uint64_t epoch = 9;
    world w(1, epoch, 16000000);
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    matrix c = poisoned((size_t)m * n);
    plan l;
    l.rect(0, m, n, k, area(0, 0, 0, m, 0, k), area(0, 1, 0, n, 0, k));
    l.waits(wait_one(0, 5));
    l.store(area(0, 2, 0, m, 0, n));
    l.raises(0, SG_PER_TILE, RAISED0, 1);
    l.finish(&w, 0, 3, false);
    l.program.place[0] = place_of(a.data(), a.data(), m, k, k);
    l.program.place[1] = place_of(b.data(), b.data(), n, k, k);
    l.program.place[2] = place_of(c.data(), c.data(), m, n, n);
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    if (!aim(g.get(), l, 1, 0, {tm, tn, 0, 0, 0, 1}, what)) return;
    g->param.protocol = protocol_of(1, nullptr, 0);
    expect(g->param.patience == 40000000 * 7, what + ": ten seconds seven times");
    g->param.patience = 1;
    if (!start(g.get(), 0, what)) return;
    emu_careless = true;
    expect(emu_run(), what + ": goes through");
    emu_careless = false;
    const sg_kernel_rank &rank = w.of[0]->rank;
    const sg_kernel_trouble &t = w.of[0]->trouble;
    expect(t.kind == SG_KERNEL_STUCK_DEFECT && t.step == 7 && t.flag >= 1 && t.flag <= 3,
           what + ": trouble " + std::to_string(t.kind) + " of " + std::to_string(t.flag));
    expect(rank.epoch == epoch, what + ": ends no run");
    expect(w.of[0]->abort[0] == epoch, what + ": all are told");
    const int tiles = ((m + tm - 1) / tm) * ((n + tn - 1) / tn);
    for (int tile = 0; tile < tiles; ++tile)
        expect(w.flag(0, 0, RAISED0 + tile) < epoch, what + ": flag " + std::to_string(tile));
}

/* A thread of the largest grid that has the last of as many rows, or columns, as there may be,
 * finds no other one behind it, however often it looks. */
void try_most_rows(void)
{
    const uint32_t most = INT32_MAX, threads = 132 * 256;
    Deal narrow = {most - 1, 0, threads, 0, 1}, wide = {0, most - 1, 0, threads, most};
    for (int i = 0; i < 4; ++i) {
        deal_step(narrow), deal_step(wide);
        expect(narrow.row >= most, "the last of 2^31 - 1 rows");
    }
    expect(wide.row == 1 && wide.col == 4 * threads - 1, "the last of 2^31 - 1 columns");
}

/* Flags are in pages, each as large as all before it together; of a page a rank's flags lie side by
 * side. */
void try_flag_pages(void)
{
    enum { PAGES = 4, BY = 3 };
    std::vector<uint64_t> page[PAGES];
    sg_kernel_words words = {};
    for (int i = 0; i < PAGES; ++i) {
        page[i].assign((size_t)(BY * (256 << (i ? i - 1 : 0))), 0);
        words.flag[i] = page[i].data();
    }
    for (int by = 0; by < BY; ++by)
        for (int index = 0; index < 256 << (PAGES - 1); ++index) ++*flag_word(&words, by, index);
    size_t other = 0;
    for (const auto &all : page)
        for (const uint64_t x : all) other += x != 1;
    expect(other == 0, "each flag of a rank has a word of its own");
    expect(flag_word(&words, 2, 1023) == &page[2][3 * 512 - 1], "the last flag of a page");
    expect(flag_word(&words, 1, 1024) == &page[3][1024], "the first flag of a page");
}

/* Rows of f32 into a peer's own tensor. */
void try_wide_copy(void)
{
    enum { ROWS = 5, COLS = 12, ROW0 = 2, COL0 = 3, PITCH = 20 };
    const uint64_t epoch = 7, hash = 3;
    world w(2, epoch, 3000000);
    std::vector<float> from(ROWS * COLS), into((ROW0 + ROWS + 1) * PITCH, -1.f), landing(into);
    for (size_t i = 0; i < from.size(); ++i) from[i] = (float)draw(1 << 24);
    w.of[0]->hello[2 + (epoch & 1)] = {epoch, hash, (uint64_t)(uintptr_t)into.data(), PITCH};
    plan p;
    p.copy(area(0, 0, 0, ROWS, 0, COLS));
    sg_area to = area(1, 1, ROW0, ROWS, COL0, COLS);
    to.leave = 1;
    p.step_store(to);
    p.finish(&w, 0, hash, false);
    p.program.type = SG_KERNEL_F32;
    const auto put = [&](int i, std::vector<float> &data, int64_t pitch) {
        p.program.place[i] = {};
        p.program.place[i].data[0] = p.program.place[i].data[1] = data.data();
        p.program.place[i].pitch = pitch * (int64_t)sizeof(float);
    };
    put(0, from, COLS), put(1, landing, COL0 + COLS);
    const bool ok = sg_kernel_copy(&p.program, &p.step[0], 2, 0, emu_stream(0)) == cudaSuccess;
    expect(ok && emu_run(), "a copy of f32: goes through");
    int wrong = 0;
    for (int i = 0; i < (int)into.size(); ++i) {
        const int row = i / PITCH - ROW0, col = i % PITCH - COL0;
        const bool in = row >= 0 && row < ROWS && col >= 0 && col < COLS;
        wrong += into[(size_t)i] != (in ? from[(size_t)(row * COLS + col)] : -1.f);
        wrong += landing[(size_t)i] != -1.f;
    }
    expect(wrong == 0, "a copy of f32: " + std::to_string(wrong) + " wrong");
}

/* Flags that come one behind the other, each within the limit. */
static struct {
    world::member *at;
    int next, rounds;
} coming;
enum { COMING0 = 5, COMING = 64, COMING_APART = 480 };

static bool one_comes(void)
{
    if (coming.next == COMING || ++coming.rounds < COMING_APART) return false;
    coming.rounds = 0;
    coming.at->flag[0][(size_t)(COMING0 + coming.next++)] = coming.at->rank.epoch;
    return true;
}

/* A tile may wait for many of them: that is no defect, however long it takes. */
void try_patient(void)
{
    const std::string what = "many flags in a row";
    const int m = COMING, n = 64, k = 64;
    world w(1, 9, 600000);
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    matrix c = poisoned((size_t)m * n);
    plan l;
    l.rect(0, m, n, k, area(0, 0, 0, m, 0, k), area(0, 1, 0, n, 0, k));
    sg_wait wait = wait_one(0, COMING0);
    wait.per = SG_PER_ROWS, wait.rows = m, wait.chunk = 1, wait.chunks_k = 1;
    l.waits(wait);
    l.store(area(0, 2, 0, m, 0, n));
    l.finish(&w, 0, 3, false);
    l.program.limit_ns = w.of[0]->rank.limit_ns;
    l.program.place[0] = place_of(a.data(), a.data(), m, k, k);
    l.program.place[1] = place_of(b.data(), b.data(), n, k, k);
    l.program.place[2] = place_of(c.data(), c.data(), m, n, n);
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    if (!aim(g.get(), l, 1, 0, {64, 64, 0, 0, 0, 1}, what)) return;
    g->param.protocol = protocol_of(1, nullptr, 0);
    if (!start(g.get(), 0, what)) return;
    coming = {w.of[0].get(), 0, 0};
    emu_outside(one_comes);
    expect(emu_run(), what + ": goes through");
    emu_outside(nullptr);
    w.ended(9, what);
    judge(c, n, 0, m, n, product(a.data(), k, b, m, n, k).data(), what);
}
