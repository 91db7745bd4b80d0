/* ptx.cuh -- thin wrappers, one instruction each.  No policy lives here.
 *
 * Instructions of sm_90 and sm_90a stand beside older ones: what a kernel does not use
 * is not compiled for it.  tests/kernel/emulate.h says the same in C++, so that the
 * kernels above run on a CPU. */
#ifndef SG_PTX_CUH
#define SG_PTX_CUH

#include <cuda.h>
#include <stdint.h>

#define DEV static __device__ __forceinline__

/* ---- Who and when ---------------------------------------------------------------------------- */

DEV uint32_t smem_addr(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* What the launch gave a block beside what its kernel declares. */
DEV void *shared_memory()
{
    extern __shared__ __align__(128) uint8_t shared_bytes[];
    return shared_bytes;
}

DEV uint32_t cluster_rank()
{
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

/* Which SM this is. */
DEV uint32_t sm_here()
{
    uint32_t v;
    asm("mov.u32 %0, %%smid;" : "=r"(v));
    return v;
}

/* One lane of a converged warp; the compiler then knows that one thread takes the branch. */
DEV bool elect_one()
{
    uint32_t yes;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(yes));
    return yes != 0;
}

DEV uint64_t now_ns()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* 2^X and 1 / X to about two units in the last place; what is not normal is 0. */
DEV float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

DEV float reciprocal_approx(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The larger one, or NaN where one of them is. */
DEV float max_or_nan(float a, float b)
{
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

/* Of global memory, into the L1. */
DEV void line_prefetch(const void *p)
{
    asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
}

/* ---- Barriers -------------------------------------------------------------------------------- */

/* All of the cluster are here.  Orders barrier initialisation (mbar_init_visible) and nothing else:
 * the releasing form costs a memory barrier of the whole GPU. */
DEV void cluster_meet()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::
                     : "memory");
}

DEV void named_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Counts among those THREADS, and waits for nobody. */
DEV void named_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

DEV void mbar_init(uint32_t bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

DEV void mbar_init_visible()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

DEV void mbar_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}

DEV void mbar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

/* The same barrier in another block of the cluster.  No explicit .release.cluster: that is a memory
 * barrier of several hundred cycles, and there is nothing to publish, only buffers to hand back. */
DEV void mbar_arrive_at(uint32_t bar, uint32_t block)
{
    asm volatile("{\n.reg .b32 far;\nmapa.shared::cluster.u32 far, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [far];\n}" ::"r"(bar),
                 "r"(block)
                 : "memory");
}

DEV bool mbar_try(uint32_t bar, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return done != 0;
}

/* The same for who has tried before: the thread sleeps until the phase ends, or for about a
 * microsecond.  Tries end after a hundred cycles by themselves, and each takes power. */
DEV bool mbar_nap(uint32_t bar, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity), "r"(1000)
                 : "memory");
    return done != 0;
}

/* ---- The bulk copy engine of an SM ----------------------------------------------------------- */

DEV void map_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* How long the L2 should keep what is loaded: what createpolicy gives for all of an access. */
constexpr uint64_t KEEP_NORMAL = 0x1000000000000000;

DEV void tma_load(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t bar,
                  uint64_t keep)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar), "l"(keep)
                 : "memory");
}

/* Asks the L2 for the same, and nobody waits for it. */
DEV void tma_prefetch(const CUtensorMap *map, int x, int y, int z, uint64_t keep)
{
    asm volatile(
        "cp.async.bulk.prefetch.tensor.3d.L2.global.L2::cache_hint [%0, {%1, %2, %3}], %4;" ::"l"(
            map),
        "r"(x), "r"(y), "r"(z), "l"(keep)
        : "memory");
}

DEV void tma_load_multicast(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t bar,
                            uint64_t keep, uint16_t blocks)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar), "h"(blocks), "l"(keep)
        : "memory");
}

/* ONTO: what lies there becomes its sum with what is at FROM, both of the map's type, rounded
 * once. */
DEV void tma_store(const CUtensorMap *map, int x, int y, int z, uint32_t from, bool onto)
{
    if (onto)
        asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
                     "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
                     "r"(x), "r"(y), "r"(z), "r"(from)
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group "
                     "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
                     "r"(x), "r"(y), "r"(z), "r"(from)
                     : "memory");
}

/* The same for BYTES side by side, without a map: a multiple of 16, as both addresses are. */
DEV void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}

DEV void bulk_store(void *to, uint32_t from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}

DEV void bulk_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* The source in shared memory may be overwritten; says nothing about the destination. */
template <int N> DEV void bulk_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/* The writes are complete and visible to this thread: only now may it raise a flag about them. */
template <int N> DEV void bulk_wait()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

/* ---- Tensor maps in global memory ------------------------------------------------------------ */

DEV void map_set_address(CUtensorMap *map, const void *address)
{
    asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(
                     __cvta_generic_to_global(map)),
                 "l"(address)
                 : "memory");
}

/* Bytes from row to row.  CUDA before 12.5 takes them without their four lowest bits. */
DEV void map_set_pitch(CUtensorMap *map, uint64_t bytes)
{
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1205
    bytes >>= 4;
#endif
    asm volatile("tensormap.replace.tile.global_stride.global.b1024.b64 [%0], 0, %1;" ::"l"(
                     __cvta_generic_to_global(map)),
                 "l"(bytes)
                 : "memory");
}

/* By the thread that changed a map, before it tells others of it. */
DEV void map_release()
{
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
}

/* By every thread that was told, before its first bulk copy by that map. */
DEV void map_acquire(const CUtensorMap *map)
{
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

/* ---- Proxies --------------------------------------------------------------------------------- */

/* By every thread that wrote shared memory with ordinary stores, before the barrier behind which a
 * bulk store reads it. */
DEV void proxy_fence_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* By the thread that saw a flag about global memory that bulk loads read next. */
DEV void proxy_fence_global()
{
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* ---- Matrix instructions --------------------------------------------------------------------- */

DEV void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEV void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int N> DEV void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* K-major operand, rows of 128 bytes, 128-byte swizzle: 8-row atoms 1024 bytes apart, each
 * aligned to 1024.  AT: its address in shared memory in units of 16 bytes; 16 columns
 * further along k is 2 of them. */
DEV uint64_t wgmma_operand(uint32_t at)
{
    return (uint64_t)(at + (1 << 16)) | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

template <int N> DEV void regs_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> DEV void regs_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

DEV void stmatrix4(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

DEV void ldmatrix4(uint32_t from, uint32_t (&v)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(from)
                 : "memory");
}

/* Nothing is read from V before what stands before this. */
DEV void keep_order(float &v)
{
    asm volatile("" : "+f"(v)::"memory");
}

/* V is computed here, though nobody uses it. */
DEV void compute_now(int v)
{
    asm volatile("" ::"r"(v));
}

/* Two neighbours, rounded to nearest even; LO at the lower address. */
DEV uint32_t pack_bf16(float lo, float hi)
{
    uint32_t v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}

DEV uint32_t pack_f16(float lo, float hi)
{
    uint32_t v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}

/* d (16 x 8, f32) += a (16 x 16) * b (8 x 16)'. */
DEV void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEV void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* 16 bytes from global to shared memory, of which the first BYTES are read and the rest is zero. */
DEV void cp_async16(uint32_t to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

DEV void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> DEV void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#include "kernel/ptx_memory.cuh"

#endif
