/* emulate.cpp -- the machine behind emulate.h: fibers, shared memory, barriers with bytes, launches
 * in streams.  The bulk engine and the runtime are in emulate_bulk.cpp. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "emulate_state.h"

/* ---- State ----------------------------------------------------------------------------------- */

emu_index threadIdx, blockIdx, gridDim, blockDim;
int emu_cluster_blocks;
static jmp_buf scheduler; /* without the signals that swapcontext() asks the system about */
static std::map<cudaStream_t, std::shared_ptr<launch>> streams; /* what each has last */
static std::vector<std::shared_ptr<launch>> waiting;            /* not ended, in order */
std::vector<bulk_op> loads;
static std::vector<tagged_word> words; /* under way */
fiber *now;
static std::vector<void *> stacks; /* to be used again, as these: */
static std::vector<std::unique_ptr<block_state>> spare;
static uint64_t sweeps, draw = 1;
static bool together; /* a block has met in this round */
static bool (*outside)(void);

uint32_t random_below(uint32_t n)
{
    draw = draw * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(draw >> 33) % n;
}

void emu_seed(uint64_t seed)
{
    draw = seed * 2 + 1;
}

cudaStream_t emu_stream(int r)
{
    return (cudaStream_t)(intptr_t)(r + 1);
}

int emu_blocks(int)
{
    return 0;
}

void emu_outside(bool (*step)(void))
{
    outside = step;
}

void stop(const char *why)
{
    fprintf(stderr, "emulator: %s\n", why);
    abort();
}

/* ---- Fibers ---------------------------------------------------------------------------------- */

void emu_yield(void)
{
    if (_setjmp(now->here) == 0) _longjmp(scheduler, 1);
}

void emu_yield_at_times(void)
{
    if (random_below(8) == 0) emu_yield();
}

uint64_t emu_now_ns(void)
{
    return sweeps * 1000;
}

uint8_t *emu_shared(uint32_t at)
{
    if (at >= SHARED) stop("shared memory is left");
    return &mine()->shared[at];
}

void emu_shared_store(uint32_t at)
{
    if (!now->met) mine()->fresh[at] = now;
}

void emu_shared_load(uint32_t at)
{
    const auto &fresh = mine()->fresh;
    const auto word = fresh.find(at);
    if (word != fresh.end() && word->second != now && !word->second->met)
        stop("a word of shared memory is read with no barrier behind who stored it");
}

block_state *mine(void)
{
    return now->run->blocks[(size_t)now->block].get();
}

static void arrive(meeting *m, int threads)
{
    if (m->here > 0 && m->all != threads) stop("a barrier is met by two groups of threads");
    m->all = threads;
    if (++m->here < threads) return;
    m->here = 0;
    ++m->times;
}

static void rendezvous(meeting *m, int threads)
{
    now->met = true;
    const uint64_t before = m->times;
    arrive(m, threads);
    if (m->times != before) return;
    now->at = m;
    now->times = before;
    emu_yield();
}

/* One of many is late with what follows a barrier. */
static void be_late(void)
{
    if (random_below(4096) != 0) return;
    now->not_before = sweeps + random_below(64);
    emu_yield();
}

void emu_rest_word(void *to)
{
    emu_lack_fence();
    now->rests.push_back(to);
}

/* What F has put back to rest is seen now. */
static void rests_land(fiber *f)
{
    for (void *to : f->rests) memset(to, 0xff, 16);
    f->rests.clear();
}

/* Who does not wait may be late with what he does next: alone, or all who do not wait at a
 * meeting. */
void emu_barrier_arrive(int id, int threads)
{
    rests_land(now);
    meeting *const m = &mine()->named[id];
    if (m->drawn <= m->times) { /* the first of them */
        m->drawn = m->times + 1;
        m->late = random_below(4) == 0 ? sweeps + random_below(400) : 0;
    }
    const bool alone = random_below(256) == 0;
    now->not_before = alone ? sweeps + random_below(400) : m->late;
    arrive(m, threads);
    if (now->not_before > sweeps) emu_yield();
}

void emu_barrier(int id, int threads)
{
    rests_land(now);
    rendezvous(&mine()->named[id], threads);
    be_late();
}

void emu_sync_threads(void)
{
    rests_land(now);
    emu_lack_fence();
    rendezvous(&mine()->sync, now->run->threads);
    together = true;
    be_late();
}

void emu_warp_barrier(void)
{
    rendezvous(&mine()->warp[threadIdx.x / 32], 32);
}

void emu_group_barrier(void)
{
    rendezvous(&mine()->group[threadIdx.x / 128], 128);
    be_late();
}

/* Orders nothing but what barriers begin with. */
void emu_cluster_barrier(void)
{
    launch *const l = now->run;
    const bool met = now->met;
    rendezvous(&l->clusters[(size_t)(now->block / l->cluster)], l->threads * l->cluster);
    now->met = met;
}

bool emu_vote(bool yes)
{
    block_state *const b = mine();
    emu_sync_threads();
    b->yes = true;
    emu_sync_threads();
    b->yes &= yes;
    emu_sync_threads();
    return b->yes;
}

void emu_store_word(void *to, const uint4 &word)
{
    if ((uintptr_t)to % 16 != 0) stop("a word that is not aligned to 16");
    words.push_back(tagged_word{to, word});
}

/* Some of them, or ALL.  Whether there were any. */
static bool words_land(bool all)
{
    size_t left = 0;
    for (const tagged_word &w : words) {
        if (!all && random_below(4) == 0)
            words[left++] = w;
        else
            memcpy(w.to, &w.word, 16);
    }
    const bool any = !words.empty();
    words.resize(left);
    return any;
}

void emu_product(const emu_product_of &product)
{
    now->products.push_back(product);
    now->products.back().batch = now->batches;
}

void emu_products_commit(void)
{
    ++now->batches;
}

void emu_products_wait(int batches)
{
    std::vector<emu_product_of> &all = now->products;
    size_t i = 0;
    for (; i < all.size() && now->batches - all[i].batch > (uint32_t)batches; ++i)
        all[i].multiply(all[i].sums, all[i].a, all[i].b, all[i].keep);
    all.erase(all.begin(), all.begin() + (std::ptrdiff_t)i);
}

uint32_t *emu_warp_words(void)
{
    return mine()->words[threadIdx.x / 32];
}

/* ---- Barriers with bytes --------------------------------------------------------------------- */

barrier *bar_of(launch *run, int block, uint32_t bar)
{
    if (bar % 8 != 0 || bar >= SHARED) stop("a barrier outside shared memory");
    return &run->blocks[(size_t)block]->bars[bar / 8];
}

static int in_cluster(int block_in_cluster)
{
    const int n = now->run->cluster;
    return block_in_cluster < 0 ? now->block : now->block / n * n + block_in_cluster;
}

void bar_settle(barrier *b)
{
    if (b->pending > 0 || b->bytes != 0) return;
    b->pending = b->arrivals;
    b->phase ^= 1;
}

void emu_bar_init(uint32_t bar, int arrivals)
{
    *bar_of(now->run, now->block, bar) = barrier{arrivals, arrivals, 0, 0};
}

void emu_bar_arrive(int block_in_cluster, uint32_t bar, int64_t bytes)
{
    barrier *const b = bar_of(now->run, in_cluster(block_in_cluster), bar);
    if (b->pending <= 0) stop("more arrivals than a barrier counts");
    b->bytes += bytes;
    --b->pending;
    bar_settle(b);
}

/* The phase of PARITY has ended: that is, the barrier is in the other one. */
bool emu_bar_done(uint32_t bar, uint32_t parity)
{
    const barrier *const b = bar_of(now->run, now->block, bar);
    if (b->phase != parity) return true;
    now->waits = true;
    now->bar = bar;
    now->parity = parity;
    emu_yield();
    return bar_of(now->run, now->block, bar)->phase != parity;
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void enter(void)
{
    now->run->body();
    if (!now->open.empty()) stop("a store that was never committed");
    if (!now->groups.empty()) stop("a thread ends before its stores are complete");
    if (!now->products.empty()) stop("a thread ends before its products");
    now->ended = true;
    emu_yield();
    stop("a fiber goes on behind its end");
}

static bool has_phase_ended(const fiber *f)
{
    return bar_of(f->run, f->block, f->bar)->phase != f->parity;
}

/* A try of a barrier may end before the phase does. */
static bool is_ready(const fiber *f)
{
    if (f->ended || (f->at != nullptr && f->at->times == f->times)) return false;
    if (f->not_before > sweeps) return false;
    if (f->behind && !f->run->before->ended) return false;
    return !f->waits || has_phase_ended(f) || random_below(16) == 0;
}

static void resume(fiber *f)
{
    f->waits = f->behind = false;
    f->at = nullptr;
    now = f;
    threadIdx = f->thread;
    blockIdx = f->where;
    gridDim = emu_index{(unsigned)f->run->grid, 1, 1};
    blockDim = emu_index{(unsigned)f->run->threads, 1, 1};
    emu_cluster_blocks = f->run->cluster;
    if (_setjmp(scheduler) != 0) return;
    if (f->begun) _longjmp(f->here, 1);
    f->begun = true;
    setcontext(&f->context);
}

void emu_launch_wait(void)
{
    if (now->run->before == nullptr || now->run->before->ended) return;
    now->behind = true;
    emu_yield();
}

void emu_launch_next(void)
{
    mine()->next = true;
}

static bool has_ended(const launch *l, int block)
{
    for (const auto &f : l->fibers)
        if (f->block == block && !f->ended) return false;
    return true;
}

/* Behind the launch before it; or, early, beside it as soon as all of its
 * blocks say so or have ended. */
static bool may_start(const launch *l)
{
    const launch *const b = l->before.get();
    if (sweeps < l->not_before) return false;
    if (b == nullptr || b->ended) return true;
    if (!l->early || !b->started) return false;
    for (int i = 0; i < b->grid; ++i)
        if (!b->blocks[(size_t)i]->next && !has_ended(b, i)) return false;
    return true;
}

static void *take_stack(void)
{
    if (stacks.empty())
        return mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *const stack = stacks.back();
    stacks.pop_back();
    return stack;
}

static void begin(launch *l)
{
    l->started = true;
    for (int i = 0; i < l->grid; ++i) {
        if (spare.empty()) spare.emplace_back(new block_state());
        l->blocks.push_back(std::move(spare.back()));
        spare.pop_back();
    }
    l->clusters.assign((size_t)l->grid, meeting{0, 0});
    for (auto &block : l->blocks) {
        block_state &b = *block;
        b.maps.clear();
        b.fresh.clear();
        b.told.clear();
        b.shared.assign(SHARED, 0xff);
        b.wrote.assign(SHARED / 16, touch{0, 0});
        b.read.assign(SHARED / 16, touch{0, 0});
        b.bars.assign(SHARED / 8, barrier{0, 0, 0, 0});
        b.next = false;
        b.sync = meeting{0, 0};
        for (meeting &m : b.named) m = meeting{0, 0};
        for (meeting &m : b.warp) m = meeting{0, 0};
        for (meeting &m : b.group) m = meeting{0, 0};
    }
    std::vector<uint32_t> sm;
    for (int i = 0; i < l->grid; ++i) {
        sm.push_back((uint32_t)i);
        std::swap(sm[(size_t)i], sm[random_below((uint32_t)i + 1)]);
    }
    for (int i = (int)random_below(3); i > 0; --i) /* two have one */
        sm[random_below((uint32_t)l->grid)] = sm[random_below((uint32_t)l->grid)];
    for (int i = 0; i < l->grid * l->threads; ++i) {
        fiber *const f = new fiber();
        f->sm = sm[(size_t)(i / l->threads)];
        l->fibers.emplace_back(f);
        f->run = l;
        f->block = i / l->threads;
        f->thread = emu_index{(unsigned)(i % l->threads), 0, 0};
        f->where = emu_index{(unsigned)(i / l->threads), 0, 0};
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = take_stack();
        f->context.uc_stack.ss_size = STACK;
        f->context.uc_link = nullptr; /* a fiber that has ended is never resumed */
        makecontext(&f->context, enter, 0);
    }
}

static void end(launch *l)
{
    for (const bulk_op &op : loads)
        if (op.run == l) stop("a launch ends before its loads have landed");
    for (const auto &f : l->fibers) {
        rests_land(f.get());
        stacks.push_back(f->context.uc_stack.ss_sp);
    }
    l->fibers.clear();
    for (auto &b : l->blocks) spare.push_back(std::move(b));
    l->blocks.clear();
    l->before = nullptr;
    l->ended = true;
}

/* Goes once round all fibers of a launch.  Whether a barrier has let one go. */
static bool go_round(launch *l)
{
    bool alive = false, moved = false;
    const size_t count = l->fibers.size();
    for (size_t i = 0, at = random_below((uint32_t)count); i < count; ++i, ++at) {
        if (at == count) at = 0;
        fiber *const f = l->fibers[at].get();
        alive |= !f->ended;
        if (!is_ready(f) || random_below(8) == 0) continue;
        moved |= f->waits && has_phase_ended(f);
        if (!f->rests.empty() && random_below(4) == 0) rests_land(f);
        resume(f);
    }
    if (!alive) end(l);
    return moved || !alive;
}

/* A round in which only soft waits (for flags and counts) were tried moves the clock on; many of
 * them in a row are a standstill. */
bool emu_run(void)
{
    for (uint64_t idle = 0; !waiting.empty() && idle <= 20000;) {
        bool moved = false;
        ++sweeps;
        while (!loads.empty() && random_below(4) != 0) {
            const size_t i = random_below((uint32_t)loads.size());
            const bulk_op op = loads[i];
            loads.erase(loads.begin() + (std::ptrdiff_t)i);
            land(op);
            moved = true;
        }
        if (random_below(4) != 0 && words_land(false)) moved = true;
        if (outside != nullptr && outside()) moved = true;
        for (size_t i = 0; i < waiting.size(); ++i) {
            launch *const l = waiting[i].get();
            if (l->started) {
                moved |= random_below(8) != 0 && go_round(l);
            } else if (may_start(l) && random_below(4) == 0) {
                begin(l);
                moved = true;
            }
        }
        for (size_t i = 0; i < waiting.size();)
            if (waiting[i]->ended)
                waiting.erase(waiting.begin() + (std::ptrdiff_t)i);
            else
                ++i;
        idle = moved || together ? 0 : idle + 1;
        together = false;
    }
    const bool well = waiting.empty();
    words_land(true);
    waiting.clear(); /* what stands still is left as it is */
    streams.clear();
    loads.clear();
    return well;
}

uint32_t emu_sm(void)
{
    return now->sm;
}

cudaError_t emu_launch(const cudaLaunchConfig_t *config, std::function<void(void)> body)
{
    const auto l = std::make_shared<launch>();
    l->body = body;
    l->grid = (int)config->gridDim.x;
    l->threads = (int)config->blockDim.x;
    l->cluster = 1;
    if (l->grid < 1 || config->dynamicSmemBytes > SHARED) return cudaErrorInvalidConfiguration;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const cudaLaunchAttribute *const a = &config->attrs[i];
        if (a->id == cudaLaunchAttributeClusterDimension) l->cluster = (int)a->val.clusterDim.x;
        if (a->id == cudaLaunchAttributeProgrammaticStreamSerialization)
            l->early = a->val.programmaticStreamSerializationAllowed != 0;
    }
    std::shared_ptr<launch> &last = streams[config->stream];
    l->before = last;
    l->not_before = sweeps + (random_below(4) == 0 ? random_below(300) : 0);
    last = l;
    waiting.push_back(l);
    if (config->stream != nullptr) return cudaSuccess;
    return emu_run() ? cudaSuccess : cudaErrorLaunchTimeout;
}

/* Products alone come this way. */
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    const auto kernel = (void (*)(const sg_kernel_gemm_param))function;
    const auto param = std::make_shared<sg_kernel_gemm_param>(*(sg_kernel_gemm_param *)args[0]);
    return emu_launch(config, [=] { kernel(*param); });
}
