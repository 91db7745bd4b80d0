/* emulate.cpp -- the machine behind emulate.h: fibers, shared memory, barriers with bytes, the bulk
 * engine, and as much of the CUDA runtime as the host side of a launch needs. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <vector>

#include "kernel/instance.h"
#include "kernel_emulated.h"

enum { STACK = 96 * 1024, SHARED = 232448, SMS = 4 };

/* ---- State --------------------------------------------------------------------------------------------- */

struct barrier { /* of mbarrier instructions */
    int arrivals, pending;
    int64_t bytes; /* announced and not landed */
    uint32_t phase;
};

struct tensor { /* inside a CUtensorMap */
    uint8_t *base;
    uint64_t size[3], stride[2];
    uint32_t box[3], swizzle, element;
};

struct bulk_op {
    tensor map;
    int x, y, z;
    uint32_t at, bar;
    int block;       /* of the grid: whose shared memory and barrier */
    unsigned blocks; /* of the cluster that a load goes to */
    std::vector<uint8_t> data;
    bool read;
};

struct fiber {
    ucontext_t context;
    emu_index thread, where; /* threadIdx, blockIdx */
    int block;               /* of the grid */
    bool ended;
    bool waits; /* for the phase of a barrier */
    uint32_t bar, parity;
    int meets;                                /* a rendezvous it has come to; 0: none */
    uint64_t meeting;                         /* how often that one had met when it came */
    std::vector<std::vector<bulk_op>> groups; /* stores, committed */
    std::vector<bulk_op> open;
};

struct meeting {
    int here;
    uint64_t times;
};

struct block_state {
    std::vector<uint8_t> shared;
    std::vector<barrier> bars; /* by address / 8, from SHARED - 2048 on */
    meeting sync, named[16], warp[16], group[4];
    uint32_t words[16][192];
};

emu_index threadIdx, blockIdx, gridDim;
int emu_cluster_blocks;
static int block_threads;
static ucontext_t scheduler;
static std::vector<fiber *> fibers;
static std::vector<block_state> blocks;
static std::vector<meeting> clusters;
static std::vector<bulk_op> loads; /* under way */
static fiber *now;
static uint64_t sweeps, draw = 1;
static bool (*outside)(void);

static uint32_t random_below(uint32_t n)
{
    draw = draw * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(draw >> 33) % n;
}

void emu_seed(uint64_t seed)
{
    draw = seed * 2 + 1;
}

void emu_outside(bool (*step)(void))
{
    outside = step;
}

static void stop(const char *why)
{
    fprintf(stderr, "emulator: %s\n", why);
    abort();
}

/* ---- Fibers ----------------------------------------------------------------------------------------------- */

void emu_yield(void)
{
    swapcontext(&now->context, &scheduler);
}

uint64_t emu_now_ns(void)
{
    return sweeps * 1000;
}

uint8_t *emu_shared(uint32_t at)
{
    if (at >= SHARED) stop("shared memory is left");
    return &blocks[(size_t)now->block].shared[at];
}

static block_state *mine(void)
{
    return &blocks[(size_t)now->block];
}

static void rendezvous(meeting *m, int threads)
{
    const uint64_t before = m->times;
    if (++m->here == threads) {
        m->here = 0;
        ++m->times;
        return;
    }
    while (m->times == before) emu_yield();
}

void emu_barrier(int id, int threads)
{
    rendezvous(&mine()->named[id], threads);
}

void emu_sync_threads(void)
{
    rendezvous(&mine()->sync, block_threads);
}

void emu_warp_barrier(void)
{
    rendezvous(&mine()->warp[threadIdx.x / 32], 32);
}

void emu_group_barrier(void)
{
    rendezvous(&mine()->group[threadIdx.x / 128], 128);
}

void emu_cluster_barrier(void)
{
    rendezvous(&clusters[(size_t)(now->block / emu_cluster_blocks)],
               block_threads * emu_cluster_blocks);
}

uint32_t *emu_warp_words(void)
{
    return mine()->words[threadIdx.x / 32];
}

/* ---- Barriers with bytes ------------------------------------------------------------------------------------ */

static barrier *bar_of(int block, uint32_t bar)
{
    if (bar % 8 != 0 || bar >= SHARED) stop("a barrier outside shared memory");
    return &blocks[(size_t)block].bars[bar / 8];
}

static int in_cluster(int block_in_cluster)
{
    const int n = emu_cluster_blocks;
    return block_in_cluster < 0 ? now->block : now->block / n * n + block_in_cluster;
}

static void bar_settle(barrier *b)
{
    if (b->pending > 0 || b->bytes != 0) return;
    b->pending = b->arrivals;
    b->phase ^= 1;
}

void emu_bar_init(uint32_t bar, int arrivals)
{
    *bar_of(now->block, bar) = barrier{arrivals, arrivals, 0, 0};
}

void emu_bar_arrive(int block_in_cluster, uint32_t bar, int64_t bytes)
{
    barrier *const b = bar_of(in_cluster(block_in_cluster), bar);
    if (b->pending <= 0) stop("more arrivals than a barrier counts");
    b->bytes += bytes;
    --b->pending;
    bar_settle(b);
}

/* The phase of PARITY has ended: that is, the barrier is in the other one. */
bool emu_bar_done(uint32_t bar, uint32_t parity)
{
    const barrier *const b = bar_of(now->block, bar);
    if (b->phase != parity) return true;
    now->waits = true;
    now->bar = bar;
    now->parity = parity;
    emu_yield();
    return bar_of(now->block, bar)->phase != parity;
}

/* ---- The bulk engine -------------------------------------------------------------------------------------------- */

static tensor tensor_of(const CUtensorMap *map)
{
    tensor t;
    memcpy(&t, map, sizeof t);
    return t;
}

/* Where byte I of a row R of a box stands, from address AT on. */
static uint32_t swizzled(const tensor *t, uint32_t at, uint32_t row, uint32_t byte)
{
    const uint32_t span = t->box[0] * t->element;
    const uint32_t a = at + row * span + byte;
    const uint32_t bits = t->swizzle == 128 ? 7 : t->swizzle == 64 ? 3 : 1;
    return a ^ ((a >> 7 & bits) << 4);
}

static uint8_t *global_of(const tensor *t, int64_t x, int64_t y, int64_t z)
{
    if (x < 0 || y < 0 || z < 0 || x >= (int64_t)t->size[0] || y >= (int64_t)t->size[1] ||
        z >= (int64_t)t->size[2])
        return nullptr;
    return t->base + (uint64_t)z * t->stride[1] + (uint64_t)y * t->stride[0] +
           (uint64_t)x * t->element;
}

void emu_load(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t bar,
              unsigned targets)
{
    loads.push_back(bulk_op{tensor_of(map), x, y, z, to, bar, now->block, targets, {}, false});
    if (to % 128 != 0) stop("a bulk load to an address not aligned to 128");
    if (loads.back().map.base == nullptr) stop("a bulk load by a map that was never made");
}

/* One load lands, in every block it goes to. */
static void land(const bulk_op &op)
{
    const tensor *const t = &op.map;
    const int first = op.block / emu_cluster_blocks * emu_cluster_blocks;
    for (int i = 0; i < emu_cluster_blocks; ++i) {
        const int block = first + i;
        if (op.blocks == 0 ? block != op.block : !(op.blocks >> i & 1)) continue;
        std::vector<uint8_t> &shared = blocks[(size_t)block].shared;
        for (uint32_t row = 0; row < t->box[1]; ++row)
            for (uint32_t col = 0; col < t->box[0]; ++col) {
                const uint8_t *from = global_of(t, op.x + (int64_t)col, op.y + (int64_t)row, op.z);
                for (uint32_t byte = 0; byte < t->element; ++byte)
                    shared[swizzled(t, op.at, row, col * t->element + byte)] =
                        from ? from[byte] : 0;
            }
        barrier *const b = bar_of(block, op.bar);
        b->bytes -= (int64_t)t->box[0] * t->box[1] * t->element;
        bar_settle(b);
    }
}

void emu_store(const CUtensorMap *map, int x, int y, int z, uint32_t from)
{
    now->open.push_back(bulk_op{tensor_of(map), x, y, z, from, 0, now->block, 0, {}, false});
    if (from % 128 != 0) stop("a bulk store from an address not aligned to 128");
    if (now->open.back().map.base == nullptr) stop("a bulk store by a map that was never made");
}

void emu_store_commit(void)
{
    now->groups.push_back(now->open);
    now->open.clear();
}

static void store_read(bulk_op *op)
{
    const tensor *const t = &op->map;
    if (op->read) return;
    op->read = true;
    op->data.resize((size_t)t->box[0] * t->box[1] * t->element);
    for (uint32_t row = 0; row < t->box[1]; ++row)
        for (uint32_t byte = 0; byte < t->box[0] * t->element; ++byte)
            op->data[row * t->box[0] * t->element + byte] =
                blocks[(size_t)op->block].shared[swizzled(t, op->at, row, byte)];
}

static void store_write(const bulk_op *op)
{
    const tensor *const t = &op->map;
    for (uint32_t row = 0; row < t->box[1]; ++row)
        for (uint32_t col = 0; col < t->box[0]; ++col) {
            uint8_t *to = global_of(t, op->x + (int64_t)col, op->y + (int64_t)row, op->z);
            if (to != nullptr)
                memcpy(to, &op->data[(row * t->box[0] + col) * t->element], t->element);
        }
}

void emu_store_wait(int groups, bool read_only)
{
    emu_yield();
    const size_t count = now->groups.size();
    for (size_t i = 0; i + (size_t)groups < count; ++i)
        for (bulk_op &op : now->groups[i]) {
            store_read(&op);
            if (!read_only) store_write(&op);
        }
    if (!read_only && count > (size_t)groups)
        now->groups.erase(now->groups.begin(), now->groups.end() - groups);
}

/* ---- Launches ------------------------------------------------------------------------------------------------------ */

typedef void (*kernel_fn)(const sg_kernel_gemm_param);
static kernel_fn kernel;
static const sg_kernel_gemm_param *argument;

static void enter(void)
{
    kernel(*argument);
    now->ended = true;
    if (!now->open.empty()) stop("a store that was never committed");
    emu_store_wait(0, false);
    emu_yield();
}

static bool is_ready(const fiber *f)
{
    return !f->ended && (!f->waits || bar_of(f->block, f->bar)->phase != f->parity);
}

static void resume(fiber *f)
{
    f->waits = false;
    now = f;
    threadIdx = f->thread;
    blockIdx = f->where;
    swapcontext(&scheduler, &f->context);
}

/* Goes round all fibers until they have ended.  A round in which only soft waits (for flags and counts)
 * were tried moves the clock on; many of them in a row are a standstill. */
static bool run_all(void)
{
    uint64_t idle = 0;
    for (;;) {
        bool alive = false, moved = false;
        ++sweeps;
        while (!loads.empty() && random_below(4) != 0) {
            const size_t i = random_below((uint32_t)loads.size());
            const bulk_op op = loads[i];
            loads.erase(loads.begin() + (std::ptrdiff_t)i);
            land(op);
            moved = true;
        }
        if (outside != nullptr && outside()) moved = true;
        const size_t start = random_below((uint32_t)fibers.size());
        for (size_t i = 0; i < fibers.size(); ++i) {
            fiber *const f = fibers[(start + i) % fibers.size()];
            alive |= !f->ended;
            if (!is_ready(f) || random_below(8) == 0) continue;
            moved |= f->waits; /* a barrier has let it go */
            resume(f);
        }
        if (!alive) return true;
        idle = moved ? 0 : idle + 1;
        if (idle > 20000) return false;
    }
}

/* For the blocks from FIRST on, COUNT of them. */
static void make_fibers(int grid, int threads, int cluster, int first, int count)
{
    gridDim = emu_index{(unsigned)grid, 1, 1};
    emu_cluster_blocks = cluster;
    block_threads = threads;
    blocks.resize((size_t)grid);
    clusters.assign((size_t)grid, meeting{0, 0});
    for (block_state &b : blocks) {
        b.shared.assign(SHARED, 0xff);
        b.bars.assign(SHARED / 8, barrier{0, 0, 0, 0});
        b.sync = meeting{0, 0};
        for (meeting &m : b.named) m = meeting{0, 0};
        for (meeting &m : b.warp) m = meeting{0, 0};
        for (meeting &m : b.group) m = meeting{0, 0};
    }
    for (int i = first * threads; i < (first + count) * threads; ++i) {
        fiber *const f = new fiber();
        f->block = i / threads;
        f->thread = emu_index{(unsigned)(i % threads), 0, 0};
        f->where = emu_index{(unsigned)(i / threads), 0, 0};
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        f->context.uc_stack.ss_size = STACK;
        f->context.uc_link = &scheduler;
        makecontext(&f->context, enter, 0);
        fibers.push_back(f);
    }
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    int cluster = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
            cluster = (int)config->attrs[i].val.clusterDim.x;
    if (config->dynamicSmemBytes > SHARED) return cudaErrorInvalidConfiguration;
    kernel = (kernel_fn)function;
    argument = (const sg_kernel_gemm_param *)args[0];
    loads.clear();
    const int grid = (int)config->gridDim.x, threads = (int)config->blockDim.x;
    const int together = config->dynamicSmemBytes > 0 ? grid : 1;
    bool ended = true;
    for (int first = 0; first < grid; first += together) {
        make_fibers(grid, threads, cluster, first, together);
        ended &= run_all();
        for (fiber *f : fibers) {
            munmap(f->context.uc_stack.ss_sp, STACK);
            delete f;
        }
        fibers.clear();
    }
    return ended && loads.empty() ? cudaSuccess : cudaErrorLaunchTimeout;
}

/* ---- The runtime ------------------------------------------------------------------------------------------------------ */

static CUresult encode(CUtensorMap *map, CUtensorMapDataType, cuuint32_t rank, void *base,
                       const cuuint64_t *size, const cuuint64_t *stride, const cuuint32_t *box,
                       const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    tensor t = {};
    if (rank != 3 || (uintptr_t)base % 16 != 0 || stride[0] % 16 != 0 || stride[1] % 16 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    t.base = (uint8_t *)base;
    for (int i = 0; i < 3; ++i) {
        t.size[i] = size[i];
        t.box[i] = box[i];
        if (box[i] < 1 || box[i] > 256) return CUDA_ERROR_INVALID_VALUE;
    }
    t.stride[0] = stride[0];
    t.stride[1] = stride[1];
    t.element = 2;
    t.swizzle = swizzle == CU_TENSOR_MAP_SWIZZLE_128B  ? 128
                : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64
                                                       : 32;
    if (t.box[0] * 2 != t.swizzle) return CUDA_ERROR_INVALID_VALUE;
    static_assert(sizeof t <= sizeof *map, "");
    memset(map, 0, sizeof *map);
    memcpy(map, &t, sizeof t);
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult *result)
{
    *function = (void *)encode;
    *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    *value = attribute == cudaDevAttrComputeCapabilityMajor   ? 9
             : attribute == cudaDevAttrComputeCapabilityMinor ? 0
                                                              : (int)SMS;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *)
{
    return cudaSuccess;
}

/* ---- What is not emulated ----------------------------------------------------------------------------------------------- */

int sg_instance_f16(sg_instance *)
{
    return 0;
}

cudaError_t sg_instance_load_steps(void)
{
    return cudaSuccess;
}
