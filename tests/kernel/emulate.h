/* emulate.h -- the instructions of src/kernel/ptx.cuh and wgmma.cuh in C++, so that the Hopper
 * product runs on a CPU as it stands.  Included before anything else (-include).
 *
 * Threads of a GPU are fibers of one thread; who waits lets others go on, in an order drawn from a
 * seed.  The bulk engine is as late as the memory model allows: a load lands at some time after it
 * was issued, a store reads shared memory when its issuer waits for that, and writes when its
 * issuer waits for all of it.  Tagged words land at any time and in any order, and are put back to
 * rest when their reader comes to a barrier of the block, or before.  So a slot that is reused too
 * early, a flag raised too early and a barrier counted wrongly show as wrong results or as a
 * standstill.  A fence that is missing between ordinary instructions and the bulk engine, or before
 * a flag, stops the machine at once (test_proxies.cpp).  Speed and the warps' lock step are not
 * modelled. */
#ifndef SG_EMULATE_H
#define SG_EMULATE_H

#define SG_PTX_CUH
#define SG_WGMMA_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <functional>

#define DEV static inline

/* ---- Machine (emulate.cpp) ------------------------------------------------------------------- */

struct emu_index {
    unsigned x, y, z;
};
enum { EMU_SMS = 4 }; /* before emu_sms() */
/* Of the fiber that runs. */
extern emu_index threadIdx, blockIdx, gridDim, blockDim;
extern int emu_cluster_blocks;
/* Roles of a block go on without each other, so nobody is ahead of the bulk engine by a fence. */
extern bool emu_careless;

/* Enqueues BODY, which every thread calls. */
cudaError_t emu_launch(const cudaLaunchConfig_t *config, std::function<void(void)> body);

void emu_yield(void);
void emu_yield_at_times(void);
void emu_barrier(int id, int threads); /* of the block; id 0 is __syncthreads */
void emu_barrier_arrive(int id, int threads);
void emu_warp_barrier(void);
void emu_group_barrier(void); /* of a warpgroup */
void emu_cluster_barrier(void);
uint8_t *emu_shared(uint32_t at); /* of this block */
/* A thread that has met nobody yet stores a word: others read it behind a barrier of the block. */
void emu_shared_store(uint32_t at);
void emu_shared_load(uint32_t at);
uint8_t *emu_shared_of(int block_in_cluster, uint32_t at);
/* Ordinary accesses to the 16 bytes at AT; the bulk engine gets them behind the thread's fence. */
uint8_t *emu_shared_write(uint32_t at);
const uint8_t *emu_shared_read(uint32_t at);
void emu_shared_fence(void);
/* Who has seen a flag about memory, or was told of it by the word at AT, fences before the bulk
 * engine goes there; a fence of a lane is one of its warp. */
void emu_flag_seen(void);
void emu_flag_tell(uint32_t at);
void emu_flag_told(uint32_t at);
void emu_memory_fence(void);
/* Who has stored, or has seen what others stored, needs a fence before it counts or raises a flag:
 * for its GPU, or for ALL if the flag is another's. */
void emu_lack_fence(void);
void emu_fence(bool all);
void emu_count(bool last);
void emu_raise(void);
void emu_bar_init(uint32_t bar, int arrivals);
void emu_bar_arrive(int block_in_cluster, uint32_t bar, int64_t bytes);
bool emu_bar_done(uint32_t bar, uint32_t parity);
void emu_prefetch(const CUtensorMap *map);
void emu_load(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t bar,
              unsigned blocks);
void emu_store(const CUtensorMap *map, int x, int y, int z, uint32_t from, bool onto);
void emu_bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar);
void emu_bulk_store(void *to, uint32_t from, uint32_t bytes);
void emu_map_changed(CUtensorMap *map, const void *address,
                     uint64_t pitch); /* NULL, 0: as it was */
void emu_map_release(void);
void emu_map_acquire(const CUtensorMap *map);
void emu_store_commit(void);
void emu_store_wait(int groups, bool read_only);
uint64_t emu_now_ns(void);
uint32_t *emu_warp_words(void); /* [32 * 6] that a warp shares, between barriers */
void emu_sync_threads(void);
/* Of a launch that fills all SMs, mostly one of its own; at times several blocks have the same. */
uint32_t emu_sm(void);
bool emu_vote(bool yes); /* of the block: all say yes */
void emu_store_word(void *to, const uint4 &word);
void emu_rest_word(void *to);
void emu_launch_wait(void);
void emu_launch_next(void);

/* ---- Keywords and intrinsics ----------------------------------------------------------------- */

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

template <class... P, class... A>
static cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                      const A &...args)
{
    return emu_launch(config, [=] { kernel(args...); });
}

static inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}
template <class T> static inline T __shfl_sync(unsigned, T v, int from)
{
    static_assert(sizeof v == 4, "a word each");
    uint32_t *words = emu_warp_words();
    memcpy(&words[threadIdx.x % 32], &v, 4);
    emu_warp_barrier();
    memcpy(&v, &words[from], 4);
    emu_warp_barrier();
    return v;
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int distance)
{
    return __shfl_sync(mask, v, (int)(threadIdx.x % 32) ^ distance);
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __fsqrt_rn(float v)
{
    return sqrtf(v);
}
static inline void __syncthreads()
{
    emu_sync_threads();
}
static inline bool __syncthreads_and(bool yes)
{
    return emu_vote(yes);
}
static inline void __syncwarp()
{
    emu_warp_barrier();
}
static inline bool __all_sync(unsigned, bool yes)
{
    uint32_t *words = emu_warp_words();
    words[threadIdx.x % 32] = yes;
    emu_warp_barrier();
    bool all = true;
    for (int i = 0; i < 32; ++i) all &= words[i] != 0;
    emu_warp_barrier();
    return all;
}
static inline unsigned __ballot_sync(unsigned, bool yes)
{
    uint32_t *words = emu_warp_words();
    words[threadIdx.x % 32] = yes;
    emu_warp_barrier();
    unsigned bits = 0;
    for (int i = 0; i < 32; ++i) bits |= (words[i] != 0u) << i;
    emu_warp_barrier();
    return bits;
}
static inline int __ffs(int v)
{
    return __builtin_ffs(v);
}
static inline bool __any_sync(unsigned mask, bool yes)
{
    return !__all_sync(mask, !yes);
}
static inline uint32_t atomicOr(uint32_t *p, uint32_t v)
{
    const uint32_t old = *p;
    *p |= v;
    return old;
}
template <class T> static inline T __ldcg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
static inline float __uint_as_float(uint32_t v)
{
    float f;
    memcpy(&f, &v, 4);
    return f;
}
/* ---- Who and when ---------------------------------------------------------------------------- */

static inline uint32_t smem_addr(const void *)
{
    return 0; /* addresses in shared memory are offsets in the block's */
}
static inline void *shared_memory()
{
    return emu_shared(0);
}
static inline uint32_t sm_here()
{
    return emu_sm();
}
static inline uint32_t cluster_rank()
{
    return blockIdx.x % (unsigned)emu_cluster_blocks;
}
static inline bool elect_one()
{
    return threadIdx.x % 32 == 0;
}
static inline uint64_t now_ns()
{
    emu_yield();
    return emu_now_ns();
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static inline float exp2_approx(float x)
{
    return exp2f(x);
}
static inline float reciprocal_approx(float x)
{
    return 1.f / x;
}
static inline float max_or_nan(float a, float b)
{
    return a != a || b != b ? NAN : a > b ? a : b;
}

static inline void line_prefetch(const void *)
{
}

/* ---- Barriers -------------------------------------------------------------------------------- */

static inline void cluster_meet()
{
    emu_cluster_barrier();
}
static inline void named_sync(int id, int threads)
{
    emu_barrier(id, threads);
}
static inline void named_arrive(int id, int threads)
{
    emu_barrier_arrive(id, threads);
}
static inline void mbar_init(uint32_t bar, int arrivals)
{
    emu_bar_init(bar, arrivals);
}
static inline void mbar_init_visible()
{
}
static inline void mbar_expect(uint32_t bar, uint32_t bytes)
{
    emu_bar_arrive(-1, bar, bytes);
}
static inline void mbar_arrive(uint32_t bar)
{
    emu_bar_arrive(-1, bar, 0);
}
static inline void mbar_arrive_at(uint32_t bar, uint32_t block)
{
    emu_bar_arrive((int)block, bar, 0);
}
static inline bool mbar_try(uint32_t bar, uint32_t parity)
{
    return emu_bar_done(bar, parity);
}
static inline bool mbar_nap(uint32_t bar, uint32_t parity)
{
    return mbar_try(bar, parity);
}

/* ---- The bulk copy engine -------------------------------------------------------------------- */

constexpr uint64_t KEEP_NORMAL = 0x1000000000000000;

static inline void map_prefetch(const CUtensorMap *)
{
}
static inline void tma_load(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t bar,
                            uint64_t)
{
    emu_load(to, map, x, y, z, bar, 0);
}
static inline void tma_prefetch(const CUtensorMap *map, int, int, int, uint64_t)
{
    emu_prefetch(map);
}
static inline void tma_load_multicast(uint32_t to, const CUtensorMap *map, int x, int y, int z,
                                      uint32_t bar, uint64_t, uint16_t blocks)
{
    emu_load(to, map, x, y, z, bar, blocks);
}
static inline void tma_store(const CUtensorMap *map, int x, int y, int z, uint32_t from, bool onto)
{
    emu_store(map, x, y, z, from, onto);
}
static inline void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar)
{
    emu_bulk_load(to, from, bytes, bar);
}
static inline void bulk_store(void *to, uint32_t from, uint32_t bytes)
{
    emu_bulk_store(to, from, bytes);
}
static inline void map_set_address(CUtensorMap *map, const void *address)
{
    emu_map_changed(map, address, 0);
}
static inline void map_set_pitch(CUtensorMap *map, uint64_t bytes)
{
    emu_map_changed(map, nullptr, bytes);
}
static inline void map_release()
{
    emu_map_release();
}
static inline void map_acquire(const CUtensorMap *map)
{
    emu_map_acquire(map);
}
static inline void bulk_commit()
{
    emu_store_commit();
}
template <int N> static inline void bulk_wait_read()
{
    emu_store_wait(N, true);
}
template <int N> static inline void bulk_wait()
{
    emu_store_wait(N, false);
}
static inline void proxy_fence_shared()
{
    emu_shared_fence();
}
static inline void proxy_fence_global()
{
    emu_memory_fence();
}

#include "emulate_matrix.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

static inline uint64_t load_acquire(const uint64_t *p)
{
    emu_yield_at_times();
    emu_flag_seen();
    return *p;
}
template <class T> static inline T load_relaxed(const T *p)
{
    return *p;
}
/* Others may go on before and behind it. */
static inline void store_release(uint64_t *p, uint64_t v)
{
    *p = v;
    emu_yield_at_times();
}
/* Of a trouble record, which is the host's to read from here on. */
static inline void store_release(uint32_t *p, uint32_t v)
{
    emu_yield();
    *p = v;
    emu_yield();
}
static inline void fence_sys()
{
    emu_fence(true);
}
static inline void fence_gpu()
{
    emu_fence(false);
}
/* Of a flag. */
static inline void store_relaxed(uint64_t *p, uint64_t v)
{
    emu_raise();
    *p = v;
}
static inline void nap()
{
    emu_yield();
}
static inline uint32_t load_acquire_gpu(const uint32_t *p)
{
    emu_yield();
    emu_lack_fence();
    return *p;
}
static inline void add_release_gpu(uint32_t *p)
{
    ++*p;
}
static inline bool count_up_here(uint32_t *p, uint32_t more, uint32_t limit)
{
    emu_yield();
    *p += more;
    const bool last = *p >= limit;
    emu_count(last);
    if (last) *p = 0;
    return last;
}
static inline uint32_t count_round(uint32_t *p, uint32_t last)
{
    emu_yield();
    const uint32_t v = *p;
    *p = v >= last ? 0 : v + 1;
    return v;
}
static inline void count_back(uint32_t *p, uint32_t last)
{
    emu_yield();
    *p = *p == 0 || *p > last ? last : *p - 1;
}
static inline bool count_from(uint32_t *p, uint32_t was, uint32_t next)
{
    emu_yield();
    if (*p != was) return false;
    *p = next;
    return true;
}
static inline bool count_up(uint32_t *p, uint32_t limit)
{
    if (!count_up_here(p, 1, limit)) return false;
    emu_fence(true);
    return true;
}
static inline bool count_leave(uint32_t *p, uint32_t limit, uint32_t bad)
{
    emu_yield();
    emu_lack_fence();
    const uint32_t v = (*p)++;
    if ((v & ~bad) + 1 < limit) return false;
    *p = v & bad;
    return (v & bad) == 0;
}
static inline void store_relaxed(uint32_t *p, uint32_t v)
{
    *p = v;
}
static inline void st_global4(void *p, const float *v)
{
    memcpy(p, v, 16);
}
static inline void ld_global4(const void *p, float *v)
{
    memcpy(v, p, 16);
}
static inline void store_tagged(void *p, const uint4 &v)
{
    emu_store_word(p, v);
}
static inline void load_tagged(const void *p, uint4 *v)
{
    memcpy(v, p, 16);
}
static inline void rest_tagged(void *p)
{
    emu_rest_word(p);
}
static inline uint32_t shared_load(uint32_t p)
{
    uint32_t v;
    emu_shared_load(p);
    memcpy(&v, emu_shared_read(p), 4);
    return v;
}
static inline void shared_load4(uint32_t p, float *v)
{
    memcpy(v, emu_shared_read(p), 16);
}
static inline void shared_store(uint32_t p, uint32_t v)
{
    emu_shared_store(p);
    memcpy(emu_shared_write(p), &v, 4);
}
static inline uint32_t progress_acquire(uint32_t p)
{
    emu_yield();
    emu_flag_told(p);
    return shared_load(p);
}
static inline void progress_release(uint32_t p, uint32_t v)
{
    emu_flag_tell(p);
    shared_store(p, v);
}
static inline void launch_wait()
{
    emu_launch_wait();
}
static inline void launch_next()
{
    emu_launch_next();
}

#endif
