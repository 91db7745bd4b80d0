/* runs_fail.cpp -- of test_kernel_runs: a rank gives up, and then, while everything drains, raises
 * flags over what it has never stored.  Who acquires such a flag sees nothing else of it. */
#include "runs_world.h"

/* Where the flag is waited for: by one of several blocks of a launch, behind the last one, or in
 * the launch before the one that ends the run. */
enum where { IN_BLOCK, AT_END, BEFORE };

enum { M = 64, N = 128, K = 3072, SHORT_K = 64, TM = 64, TN = 32, FLAG = 100, RAISED = 400 };

static world *group;
static int rounds; /* until rank 1 gives up; -1: it has */

static bool give_up(void)
{
    if (rounds < 0 || --rounds >= 0) return false;
    world::member &m = *group->of[0];
    m.abort[1] = m.rank.epoch;
    m.flag[0][256 + FLAG] = m.rank.epoch;
    return true;
}

/* Rank 0's part of a run with rank 1. */
struct given_up {
    const where at;
    const int arch;
    const std::string what;
    const uint64_t epoch = 7;
    world w;
    matrix a, b, inbox, c;
    plan l[2]; /* in one launch, unless AT is BEFORE */

    given_up(where, int);
    void make();
    bool enqueue(int launch);
};

given_up::given_up(where flag_at, int kernel)
    : at(flag_at), arch(kernel),
      what("a flag of who gave up " + std::to_string(at) + ", arch " + std::to_string(arch)),
      w(2, epoch, 4000000000), a(random_matrix((size_t)M * K)), b(random_matrix((size_t)N * K)),
      inbox(random_matrix((size_t)M * N)), c(poisoned((size_t)M * N))
{
    make();
    for (plan &p : l) {
        p.finish(&w, 0, 3, false);
        p.program.place[0] = place_of(a.data(), a.data(), M, K, K);
        p.program.place[1] = place_of(b.data(), b.data(), N, K, K);
        p.program.place[2] = place_of(c.data(), c.data(), M, N, N);
        p.program.place[3] = place_of(inbox.data(), inbox.data(), M, N, N);
    }
    w.of[0]->hello[2 + (epoch & 1)] = sg_kernel_hello{epoch, 3, 0, 0};
}

/* A tile that is soon computed and adds what has come, and three others. */
void given_up::make()
{
    sg_wait wait = wait_one(1, FLAG);
    plan &other = l[at == BEFORE];
    l[0].rect(0, M, TN, SHORT_K, area(0, 0, 0, M, 0, SHORT_K), area(0, 1, 0, TN, 0, SHORT_K));
    l[0].adds(area(0, 3, 0, M, 0, TN), at == AT_END ? nullptr : &wait);
    l[0].store(area(0, 2, 0, M, 0, TN));
    const int k = arch == 0 ? K : K / 16;
    other.rect(0, M, N - TN, k, area(0, 0, 0, M, 0, k), area(0, 1, TN, N - TN, 0, k)).col0 = TN;
    other.adds(area(0, 3, 0, M, TN, N - TN), nullptr);
    other.store(area(0, 2, 0, M, TN, N - TN));
    if (at == AT_END) l[0].wait.push_back(wait);
}

bool given_up::enqueue(int launch)
{
    plan &p = l[launch];
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    if (!aim(g.get(), p, (int)p.patch.size(), 0, {TM, TN, 0, 0, arch, 2}, what)) return false;
    sg_kernel_protocol &protocol = g->param.protocol;
    protocol = protocol_of(2, nullptr, 0);
    if (launch > 0) protocol.begin = protocol.gate = 0;
    if (launch == 0 && at == BEFORE) protocol.end = protocol.done = 0;
    if (at == AT_END)
        protocol.wait0 = (int32_t)p.wait.size() - 1, protocol.waits = 1, protocol.wait_step = 9;
    return sg_kernel_gemm_run(g.get(), SG_KERNEL_EARLY, emu_stream(0)) == cudaSuccess;
}

void try_given_up(void)
{
    static const where all[] = {IN_BLOCK, AT_END, BEFORE};
    emu_sms(4);
    for (int time = 0; time < 72; ++time) {
        given_up t(all[time % 3], time % 4 ? 0 : 80);
        group = &t.w;
        rounds = t.at == IN_BLOCK ? 5 + draw(80) : draw(600);
        emu_outside(give_up);
        const bool ok = t.enqueue(0) && (t.at != BEFORE || t.enqueue(1)) && emu_run();
        emu_outside(nullptr);
        expect(ok && rounds < 0, t.what + ": goes through");
        const sg_kernel_rank &rank = t.w.of[0]->rank;
        expect(rank.epoch == t.epoch && (rank.leaving & 0xffff) == 0, t.what + ": ends no run");
    }
    emu_sms(0);
}

/* ---- The record is first --------------------------------------------------------------------- */

int early_aborts;
static int half_records;

/* Flags from RAISED on are about what never came. */
static bool look_at_aborts(void)
{
    for (int r = 0; r < group->ranks; ++r) {
        const sg_kernel_trouble &t = group->of[(size_t)r]->trouble;
        const bool told = t.kind != 0;
        half_records += told && t.kind != SG_KERNEL_STUCK_DEFECT && t.epoch == 0;
        for (int q = 0; q < group->ranks; ++q) {
            const bool heard = group->of[(size_t)q]->abort[(size_t)r] != 0;
            bool raised = false;
            for (int i = 0; i < N / TN; ++i) raised |= group->flag(q, r, RAISED + i) != 0;
            early_aborts += (heard && !told) || (raised && !heard);
        }
    }
    return false;
}

bool (*watch_aborts(world *w))(void)
{
    group = w;
    early_aborts = half_records = 0;
    return look_at_aborts;
}

/* Rank 0 alone of two: all its blocks wait for what rank 1 never sends, and give up together.  Who
 * sees its abort, or a flag that it raises while it drains, finds the record filled. */
static void record_first(int arch)
{
    const std::string what = "a record before the abort, arch " + std::to_string(arch);
    const uint64_t epoch = 7;
    world w(2, epoch, 300000);
    matrix a = random_matrix((size_t)M * SHORT_K), b = random_matrix((size_t)N * SHORT_K);
    matrix inbox = random_matrix((size_t)M * N), c = poisoned((size_t)M * N);
    const sg_wait wait = wait_one(1, FLAG);
    plan p;
    for (int x = 0; x < N; x += TN) {
        p.rect(0, M, TN, SHORT_K, area(0, 0, 0, M, 0, SHORT_K), area(0, 1, x, TN, 0, SHORT_K))
            .col0 = x;
        p.adds(area(0, 3, 0, M, x, TN), &wait);
        p.store(area(0, 2, 0, M, x, TN));
        p.raises(1, SG_PER_PATCH, RAISED + x / TN, 1);
    }
    p.finish(&w, 0, 3, false);
    p.program.place[0] = place_of(a.data(), a.data(), M, SHORT_K, SHORT_K);
    p.program.place[1] = place_of(b.data(), b.data(), N, SHORT_K, SHORT_K);
    p.program.place[2] = place_of(c.data(), c.data(), M, N, N);
    p.program.place[3] = place_of(inbox.data(), inbox.data(), M, N, N);
    const std::unique_ptr<sg_kernel_gemm> g(new sg_kernel_gemm());
    if (!aim(g.get(), p, (int)p.patch.size(), 0, {TM, TN, 0, 0, arch, 2}, what)) return;
    g->param.protocol = protocol_of(2, nullptr, 0);
    emu_outside(watch_aborts(&w));
    expect(start(g.get(), 0, what) && emu_run(), what + ": goes through");
    emu_outside(nullptr);
    const world::member &m = *w.of[0];
    expect(m.trouble.kind == SG_KERNEL_STUCK_FLAG && m.trouble.late, what + ": is told");
    expect(m.abort[0] == epoch && w.of[1]->abort[0] == epoch, what + ": is said at all ranks");
    expect(w.flag(1, 0, RAISED) == epoch, what + ": drains");
    expect(early_aborts == 0, what + ": " + std::to_string(early_aborts) + " looks too early");
    expect(half_records == 0, what + ": " + std::to_string(half_records) + " looks at half of it");
}

void try_record_first(void)
{
    emu_sms(4);
    for (int time = 0; time < 12; ++time) record_first(time % 2 ? 80 : 0);
    emu_sms(0);
}

/* A run without hellos says no done, and no gate waits for one. */
void try_end_alone(void)
{
    world w(2, 7, 300000);
    world::member &m = *w.of[0];
    const cudaStream_t s = emu_stream(0);
    for (int run = 0; run < 3; ++run) sg_kernel_end(&m.rank, 5, 0, 0, 0, 0, s);
    sg_kernel_begin(&m.rank, 5, nullptr, 0, 0, 0, 1, 0, s); /* the gate alone */
    expect(emu_run() && m.trouble.kind == 0, "runs without hellos: go through");
    expect(m.rank.epoch == 10 && m.rank.prev_half == 0, "runs without hellos: end");
    expect(m.rank.last[0] == 0 && m.rank.last[1] == 0 && m.done[0] == 6 && w.of[1]->done[0] == 6,
           "runs without hellos: say no done");
}
