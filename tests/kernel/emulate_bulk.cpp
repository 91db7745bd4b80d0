/* emulate_bulk.cpp -- the bulk engine of the machine of emulate.cpp, tensor maps, and as much of
 * the CUDA runtime as the host side of a launch needs. */
#include <stdio.h>
#include <stdlib.h>

#include "emulate_state.h"
#include "kernel/neighbours.h"

static std::map<const CUtensorMap *, tensor> released; /* maps that kernels changed */

/* ---- Ordinary accesses and the bulk engine --------------------------------------------------- */

static touch touch_now(void)
{
    return touch{(uint16_t)(now->thread.x + 1), now->fences};
}

uint8_t *emu_shared_write(uint32_t at)
{
    uint8_t *const place = emu_shared(at);
    mine()->wrote[at / 16] = touch_now();
    return place;
}

const uint8_t *emu_shared_read(uint32_t at)
{
    const uint8_t *const place = emu_shared(at);
    mine()->read[at / 16] = touch_now();
    return place;
}

void emu_shared_fence(void)
{
    now->fences++;
}

static fiber *lane_of_mine(int lane)
{
    const size_t first = (size_t)now->block * (size_t)now->run->threads + now->thread.x / 32 * 32;
    return now->run->fibers[first + (size_t)lane].get();
}

void emu_flag_seen(void)
{
    emu_lack_fence();
    now->saw = true;
}

void emu_flag_tell(uint32_t at)
{
    bool saw = false;
    for (int i = 0; i < 32; ++i) saw |= lane_of_mine(i)->saw;
    mine()->told[at] = saw;
}

void emu_flag_told(uint32_t at)
{
    emu_lack_fence();
    const auto word = mine()->told.find(at);
    now->saw |= word != mine()->told.end() && word->second;
}

/* A bulk copy to or from memory is asked for. */
static void asked(void)
{
    if (now->saw) stop("a bulk copy behind a flag with no fence between");
}

void emu_memory_fence(void)
{
    for (int i = 0; i < 32; ++i) lane_of_mine(i)->saw = false;
}

void emu_lack_fence(void)
{
    now->before_flags = UNFENCED;
}

void emu_fence(bool all)
{
    if (all)
        now->before_flags = FENCED;
    else if (now->before_flags == UNFENCED)
        now->before_flags = FENCED_HERE;
}

void emu_count(bool last)
{
    if (now->before_flags == UNFENCED) stop("counted with no fence before");
    if (last && now->before_flags == FENCED_HERE) now->before_flags = COUNTED_HERE;
}

void emu_raise(void)
{
    if (now->before_flags > COUNTED_HERE) stop("a flag is raised with no fence before");
}

bool emu_careless;

/* The bulk engine takes the place of ordinary accesses, those in TOUCHES among them. */
static void handed_over(const launch *run, int block, const std::vector<touch> &touches,
                        uint32_t at, uint32_t bytes, const char *defect)
{
    for (uint32_t i = at / 16; i < (at + bytes + 15) / 16; ++i) {
        const touch t = touches[i];
        if (t.thread == 0) continue;
        const fiber *const by =
            run->fibers[(size_t)block * (size_t)run->threads + (size_t)t.thread - 1].get();
        if (by->fences == t.fences && !emu_careless) stop(defect);
    }
}

static uint32_t box_bytes(const tensor *t)
{
    return t->box[0] * t->box[1] * t->element;
}

/* A bulk load is about to write. */
static void overwrites(const launch *run, int block, uint32_t at, uint32_t bytes)
{
    const block_state &b = *run->blocks[(size_t)block];
    handed_over(run, block, b.wrote, at, bytes,
                "a bulk load into what was written with no fence behind");
    handed_over(run, block, b.read, at, bytes,
                "a bulk load into what was read with no fence behind");
}

/* ---- The bulk engine ------------------------------------------------------------------------- */

/* A map that kernels change is used as its block has acquired it. */
static tensor tensor_of(const CUtensorMap *map)
{
    tensor t;
    const auto changed = mine()->maps.find(map);
    if (changed != mine()->maps.end()) return changed->second;
    if (released.count(map)) stop("a map is used that this block has not acquired");
    memcpy(&t, map, sizeof t);
    return t;
}

void emu_map_changed(CUtensorMap *map, const void *address, uint64_t pitch)
{
    tensor t;
    memcpy(&t, map, sizeof t);
    if (address != nullptr) t.base = (uint8_t *)address;
    if (pitch != 0) t.stride[0] = pitch;
    if ((uintptr_t)t.base % 16 != 0 || t.stride[0] % 16 != 0) stop("a map of odd bytes");
    memcpy(map, &t, sizeof t);
    now->changed.push_back(map);
    if (released.count(map) == 0) released[map] = tensor{};
}

void emu_map_release(void)
{
    for (const CUtensorMap *map : now->changed) memcpy(&released[map], map, sizeof(tensor));
    now->changed.clear();
}

void emu_map_acquire(const CUtensorMap *map)
{
    if (released.count(map) == 0) stop("a map is acquired that nobody changed");
    mine()->maps[map] = released[map];
}

/* Where byte I of a row R of a box stands, from address AT on. */
static uint32_t swizzled(const tensor *t, uint32_t at, uint32_t row, uint32_t byte)
{
    const uint32_t span = t->box[0] * t->element;
    const uint32_t a = at + row * span + byte;
    const uint32_t bits = t->swizzle == 128 ? 7 : t->swizzle == 64 ? 3 : t->swizzle == 32 ? 1 : 0;
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

static void (*loads_seen)(int sm, const void *base, int row, int beyond);

void emu_loads_seen(void (*see)(int sm, const void *base, int row, int beyond))
{
    loads_seen = see;
}

void emu_load(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t bar,
              unsigned targets)
{
    asked();
    loads.push_back(bulk_op{tensor_of(map),
                            nullptr,
                            x,
                            y,
                            z,
                            to,
                            bar,
                            0,
                            now->run,
                            now->block,
                            targets,
                            {},
                            false,
                            false});
    if (to % 128 != 0) stop("a bulk load to an address not aligned to 128");
    if (loads.back().map.base == nullptr) stop("a bulk load by a map that was never made");
    const tensor &t = loads.back().map;
    const int64_t behind = (int64_t)y + t.box[1] - (int64_t)t.size[1];
    if (loads_seen != nullptr) loads_seen((int)now->sm, t.base, y, behind > 0 ? (int)behind : 0);
}

void emu_prefetch(const CUtensorMap *map)
{
    if (map == nullptr || tensor_of(map).base == nullptr)
        stop("a prefetch by a map that was never made");
}

static bulk_op plain(const void *memory, uint32_t at, uint32_t bytes, uint32_t bar)
{
    asked();
    if (((uintptr_t)memory | at | bytes) % 16 != 0 || bytes == 0)
        stop("a bulk copy of odd bytes or none");
    return bulk_op{{},    (uint8_t *)memory, 0,          0, 0,  at,    bar,
                   bytes, now->run,          now->block, 0, {}, false, false};
}

void emu_bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar)
{
    loads.push_back(plain(from, to, bytes, bar));
}

void emu_bulk_store(void *to, uint32_t from, uint32_t bytes)
{
    now->open.push_back(plain(to, from, bytes, 0));
}

static void landed(const bulk_op &op, int block, int64_t bytes)
{
    barrier *const b = bar_of(op.run, block, op.bar);
    b->bytes -= bytes;
    bar_settle(b);
}

/* One load lands, in every block it goes to. */
void land(const bulk_op &op)
{
    const tensor *const t = &op.map;
    const int cluster = op.run->cluster, first = op.block / cluster * cluster;
    if (t->base == nullptr) {
        overwrites(op.run, op.block, op.at, op.bytes);
        memcpy(&op.run->blocks[(size_t)op.block]->shared[op.at], op.memory, op.bytes);
        landed(op, op.block, op.bytes);
        return;
    }
    for (int i = 0; i < cluster; ++i) {
        const int block = first + i;
        if (op.blocks == 0 ? block != op.block : !(op.blocks >> i & 1)) continue;
        std::vector<uint8_t> &shared = op.run->blocks[(size_t)block]->shared;
        overwrites(op.run, block, op.at, box_bytes(t));
        for (uint32_t row = 0; row < t->box[1]; ++row)
            for (uint32_t col = 0; col < t->box[0]; ++col) {
                const uint8_t *from = global_of(t, op.x + (int64_t)col, op.y + (int64_t)row, op.z);
                for (uint32_t byte = 0; byte < t->element; ++byte)
                    shared[swizzled(t, op.at, row, col * t->element + byte)] =
                        from ? from[byte] : 0;
            }
        landed(op, block, box_bytes(t));
    }
}

void emu_store(const CUtensorMap *map, int x, int y, int z, uint32_t from, bool onto)
{
    asked();
    now->open.push_back(bulk_op{
        tensor_of(map), nullptr, x, y, z, from, 0, 0, now->run, now->block, 0, {}, false, onto});
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
    const block_state &b = *op->run->blocks[(size_t)op->block];
    const std::vector<uint8_t> &shared = b.shared;
    if (op->read) return;
    op->read = true;
    handed_over(op->run, op->block, b.wrote, op->at, t->base == nullptr ? op->bytes : box_bytes(t),
                "a bulk store of what was written with no fence behind");
    if (t->base == nullptr) {
        op->data.assign(shared.begin() + op->at, shared.begin() + op->at + op->bytes);
        return;
    }
    op->data.resize(box_bytes(t));
    for (uint32_t row = 0; row < t->box[1]; ++row)
        for (uint32_t byte = 0; byte < t->box[0] * t->element; ++byte)
            op->data[row * t->box[0] * t->element + byte] = shared[swizzled(t, op->at, row, byte)];
}

template <class T> static void add_to(uint8_t *to, const uint8_t *from)
{
    T sum, more;
    memcpy(&sum, to, sizeof sum), memcpy(&more, from, sizeof more);
    sum = T((float)sum + (float)more);
    memcpy(to, &sum, sizeof sum);
}

static void store_write(const bulk_op *op)
{
    const tensor *const t = &op->map;
    if (t->base == nullptr) {
        memcpy(op->memory, op->data.data(), op->bytes);
        return;
    }
    for (uint32_t row = 0; row < t->box[1]; ++row)
        for (uint32_t col = 0; col < t->box[0]; ++col) {
            uint8_t *to = global_of(t, op->x + (int64_t)col, op->y + (int64_t)row, op->z);
            const uint8_t *const from = &op->data[(row * t->box[0] + col) * t->element];
            if (to == nullptr) continue;
            if (op->onto)
                t->f16 ? add_to<__half>(to, from) : add_to<__nv_bfloat16>(to, from);
            else
                memcpy(to, from, t->element);
        }
}

void emu_store_wait(int groups, bool read_only)
{
    emu_yield();
    if (!read_only && !now->groups.empty()) emu_lack_fence();
    const size_t count = now->groups.size();
    for (size_t i = 0; i + (size_t)groups < count; ++i)
        for (bulk_op &op : now->groups[i]) {
            store_read(&op);
            if (!read_only) store_write(&op);
        }
    if (!read_only && count > (size_t)groups)
        now->groups.erase(now->groups.begin(), now->groups.end() - groups);
}

/* ---- The runtime ----------------------------------------------------------------------------- */

static CUresult encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base,
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
    t.f16 = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    t.swizzle = swizzle == CU_TENSOR_MAP_SWIZZLE_128B  ? 128
                : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64
                : swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 32
                                                       : 0;
    if (t.swizzle != 0 && t.box[0] * 2 != t.swizzle) return CUDA_ERROR_INVALID_VALUE;
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

static int sms = SMS;

void emu_sms(int count)
{
    sms = count > 0 ? count : (int)SMS;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    *value = attribute == cudaDevAttrComputeCapabilityMajor   ? 9
             : attribute == cudaDevAttrComputeCapabilityMinor ? 0
                                                              : sms;
    return cudaSuccess;
}

static int first_sm;

void emu_first_sm(int number)
{
    first_sm = number;
}

/* In an order of no meaning. */
int sg_neighbours(uint8_t *sm_out, int room)
{
    if (first_sm < 0) return 0;
    for (int i = 0; i < sms && i < room; ++i) sm_out[i] = (uint8_t)(first_sm + sms - 1 - i);
    return sms <= room ? sms : 0;
}

void sg_neighbours_look(void)
{
}

cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *)
{
    return cudaSuccess;
}
