/* runs_world.cpp -- see runs_world.h. */
#include "runs_world.h"

/* ---- Ranks ----------------------------------------------------------------------------------- */

world::world(int count, uint64_t epoch, uint64_t limit_ns) : ranks(count), words((size_t)count)
{
    for (int r = 0; r < count; ++r) {
        of.emplace_back(new member());
        member &m = *of.back();
        m.done.assign((size_t)count, epoch - 1);
        m.abort.assign((size_t)count, 0);
        m.hello.assign((size_t)(2 * count), sg_kernel_hello{});
        for (auto &page : m.flag) page.assign((size_t)count * 256, 0);
        m.trouble = {};
        sg_kernel_words &w = words[(size_t)r];
        w = {};
        w.done = m.done.data();
        w.abort = m.abort.data();
        w.hello = m.hello.data();
        w.flag[0] = m.flag[0].data();
        w.flag[1] = m.flag[1].data();
    }
    for (int r = 0; r < count; ++r) {
        member &m = *of[(size_t)r];
        m.rank = {};
        m.rank.epoch = epoch;
        m.rank.prev_half = 1;
        m.rank.rank = r;
        m.rank.ranks = count;
        m.rank.limit_ns = limit_ns;
        m.rank.words = words.data();
        m.rank.trouble = &m.trouble;
    }
}

uint64_t world::flag(int at, int by, int index)
{
    return of[(size_t)at]->flag[index / 256][(size_t)(by * 256 + index % 256)];
}

void world::recover()
{
    uint64_t most = 0;
    for (auto &m : of) most = m->rank.epoch > most ? m->rank.epoch : most;
    for (auto &m : of) {
        m->done.assign((size_t)ranks, most);
        m->abort.assign((size_t)ranks, 0);
        m->hello.assign((size_t)(2 * ranks), sg_kernel_hello{});
        for (auto &page : m->flag) page.assign((size_t)ranks * 256, 0);
        m->trouble = {};
        m->rank.epoch = most + 1;
        m->rank.last[0] = m->rank.last[1] = 0;
        m->rank.prev_half = 1;
        m->rank.leaving = 0;
    }
}

void world::ended(uint64_t epoch, const std::string &what)
{
    for (int r = 0; r < ranks; ++r) {
        const member &m = *of[(size_t)r];
        bool well = m.rank.epoch == epoch + 1 && m.rank.leaving == 0;
        for (uint64_t d : m.done) well &= d == epoch;
        const sg_kernel_trouble &t = m.trouble;
        expect(well && t.kind == 0,
               what + ": rank " + std::to_string(r) + " is in run " + std::to_string(m.rank.epoch) +
                   ", trouble " + std::to_string(t.kind) + " by " + std::to_string(t.by) +
                   " step " + std::to_string(t.step) + " flag " + std::to_string(t.flag));
    }
}

/* ---- Lists ----------------------------------------------------------------------------------- */

sg_kernel_step &plan::copy(sg_area src)
{
    sg_kernel_step s = {};
    s.step = 100 + (int32_t)step.size();
    s.wait0 = (int32_t)wait.size();
    s.add0 = (int32_t)add.size();
    s.to0 = (int32_t)to.size();
    s.raise0 = (int32_t)raise.size();
    s.src = src;
    step.push_back(s);
    return step.back();
}

void plan::step_store(sg_area a)
{
    to.push_back(a);
    ++step.back().tos;
}

void plan::step_add(sg_area a, const sg_wait *w)
{
    sg_addend d = {};
    d.area = a;
    if (w != nullptr) d.wait = *w;
    d.awaited = w != nullptr;
    add.push_back(d);
    ++step.back().adds;
}

void plan::step_raise(int at, int flag)
{
    sg_raise r = {};
    r.at = (int16_t)at;
    r.flag0 = flag;
    r.counter = -1;
    raise.push_back(r);
    ++step.back().raises;
}

/* Of the emulator's GPU. */
static int sms(void)
{
    int count = 0;
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
    return count;
}

void plan::finish(world *w, int r, uint64_t hash, bool baked)
{
    close();
    ticket.assign(step.size() + 1, 0);
    /* A seat is given back in the first launch, in which it counts as never taken, and a round ends
     * with the second one. */
    seats.tickets = (uint32_t)sms() * (SG_KERNEL_SEAT_ROUNDS - 2);
    for (int seat = 0; seat < sms(); ++seat) seats.taken[seat] = SG_KERNEL_SEAT_ROUNDS - 2;
    for (size_t i = 0; i < step.size(); ++i) step[i].ticket = &ticket[i];
    program.rank = &w->of[(size_t)r]->rank;
    if (draw(2)) program.own = w->words[(size_t)r];
    program.hash = hash;
    program.baked = baked;
}

bool plan::at_rest() const
{
    bool rest = true;
    for (uint32_t x : count) rest &= x == 0;
    for (uint32_t x : ticket) rest &= x == 0;
    for (int seat = 0; seat < sms(); ++seat)
        rest &= seats.taken[seat] == seats.tickets / (uint32_t)sms();
    return rest && seats.tickets % (uint32_t)sms() == 0;
}

sg_wait wait_one(int by, int flag)
{
    sg_wait w = {};
    w.by = (int16_t)by;
    w.per = SG_PER_PATCH;
    w.flag0 = flag;
    return w;
}

sg_kernel_place place_of(T *low, T *high, int rows, int cols, int pitch)
{
    sg_kernel_place p = {};
    p.data[0] = low;
    p.data[1] = high;
    p.rows = rows;
    p.cols = cols;
    p.pitch = pitch * (int64_t)sizeof(T);
    return p;
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Rows of each of RANKS, uneven; one rank may have none. */
std::vector<int> share(int m, int ranks, bool empty)
{
    std::vector<int> base(1, 0);
    for (int r = 0; r < ranks; ++r) {
        const int rows = m / ranks + (r < m % ranks);
        base.push_back(base.back() + (empty && r == ranks - 1 ? 0 : rows));
    }
    return base;
}

int seated;

bool aim(sg_kernel_gemm *g, plan &l, int patches, int pushes, const way &how,
         const std::string &what)
{
    const int blocks = how.blocks > 0 ? how.blocks : emu_blocks(how.ranks);
    const char *why =
        sg_kernel_gemm_make(g, &l.program, &l.host, 7, 0, patches, how.tm, how.tn, blocks);
    g->want_cluster = how.cluster;
    if (how.blocks == 0 && how.cluster <= 1 && draw(2)) { /* on all SMs, by seats */
        g->want_blocks = 0;
        g->seats = &l.seats;
    }
    g->ranks = how.ranks;
    g->carried = how.carried;
    if (how.arch != 0) g->arch = how.arch;
    g->param.push = l.step.data();
    g->param.pushes = pushes;
    g->param.takes = how.takes;
    for (int i = 0; i < pushes; ++i)
        for (int j = 0; j < l.step[(size_t)i].tos; ++j)
            g->param.leaves |= l.to[(size_t)(l.step[(size_t)i].to0 + j)].leave;
    if (why == nullptr) why = sg_kernel_gemm_aim(g);
    if (why == nullptr && how.arch == 0) why = g->slow;
    expect(why == nullptr, what + ": " + (why ? why : ""));
    seated += why == nullptr && g->param.seats != nullptr;
    return why == nullptr;
}

bool start(const sg_kernel_gemm *g, int r, const std::string &what)
{
    const bool ok =
        sg_kernel_gemm_run(g, draw(3) ? SG_KERNEL_EARLY : 0, emu_stream(r)) == cudaSuccess;
    expect(ok, what + ": starts");
    return ok;
}

sg_kernel_protocol protocol_of(int ranks, T *c, int pitch)
{
    sg_kernel_protocol t = {};
    t.c = c;
    t.c_stride = pitch;
    t.ranks = ranks;
    t.begin = t.hello = t.gate = t.end = t.done = 1;
    return t;
}
