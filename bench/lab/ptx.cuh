// Thin wrappers, one instruction each, for sm_90a.  No policy lives here, except the bound on every spin.
#pragma once
#include <cuda.h>
#include <cstdint>

#define DEV static __device__ __forceinline__

// ---------------------------------------------------------------- who am I
DEV uint32_t smem_addr(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

DEV uint32_t cluster_rank() {
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

DEV bool elect_one() {  // one lane of a converged warp; the compiler then knows the branch is taken by one thread
    uint32_t yes;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(yes));
    return yes != 0;
}

DEV uint64_t now_ns() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

DEV uint64_t cycles() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t));
    return t;
}

// ---------------------------------------------------------------- barriers
// Everybody of the cluster is here. Orders barrier initialisation (mbar_init_visible) and nothing else: the releasing form
// costs a memory barrier of the whole GPU.
DEV void cluster_meet() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

DEV void named_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

DEV void mbar_init(uint32_t bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

DEV void mbar_init_visible() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

DEV void mbar_expect(uint32_t bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

DEV void mbar_arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }

// The same barrier in another block of the cluster. No explicit .release.cluster: that is a memory barrier of several hundred
// cycles in the middle of the multiplication, and there is nothing to publish, only buffers to hand back.
DEV void mbar_arrive_at(uint32_t bar, uint32_t cta) {
    asm volatile(
        "{\n.reg .b32 far;\nmapa.shared::cluster.u32 far, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [far];\n}" ::"r"(bar), "r"(cta)
        : "memory");
}

DEV bool mbar_try(uint32_t bar, uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
    return done != 0;
}

// ---------------------------------------------------------------- the bulk copy engine of an SM
DEV void map_prefetch(const CUtensorMap *map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

// How long the L2 should keep what is loaded: what createpolicy gives for the whole of an access.
constexpr uint64_t KEEP_NORMAL = 0x1000000000000000, KEEP_FIRST_OUT = 0x12f0000000000000, KEEP_LAST_OUT = 0x14f0000000000000;

DEV void tma_load(uint32_t to, const CUtensorMap *map, int x, int y, uint32_t bar, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
            to),
        "l"(map), "r"(x), "r"(y), "r"(bar), "l"(policy)
        : "memory");
}

DEV void tma_load_multicast(uint32_t to, const CUtensorMap *map, int x, int y, uint32_t bar, uint64_t policy, uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
        " [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(bar), "h"(blocks), "l"(policy)
        : "memory");
}

DEV void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes),
                 "r"(bar)
                 : "memory");
}

DEV void tma_store(const CUtensorMap *map, int x, int y, uint32_t from, uint64_t policy) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2}], [%3], %4;" ::"l"(map), "r"(x), "r"(y),
                 "r"(from), "l"(policy)
                 : "memory");
}

DEV void bulk_store(void *to, uint32_t from, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}

DEV void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// The source in shared memory may be overwritten; says nothing about the destination.
template <int N> DEV void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
// The writes are complete and visible to this thread: only now may it raise a flag about them.
template <int N> DEV void bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }

// ---------------------------------------------------------------- proxies
// By every thread that wrote shared memory with ordinary stores, before the barrier behind which a bulk store reads it.
DEV void proxy_fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// By the thread that saw a flag about global memory and will now read that memory with bulk loads.
DEV void proxy_fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// ---------------------------------------------------------------- matrix instructions
DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

// K-major operand, rows of 128 bytes, 128-byte swizzle: 8-row atoms 1024 bytes apart, each 1024-byte aligned.
// 16 columns further along k is 32 bytes further, 2 in the encoded address.
DEV uint64_t wgmma_operand(uint32_t addr) {
    return (uint64_t)((addr & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

template <int N> DEV void regs_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEV void regs_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

DEV void stmatrix4(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

DEV void st_shared4(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

DEV void ld_shared4(uint32_t from, uint32_t (&v)[4]) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(from) : "memory");
}

// ---------------------------------------------------------------- flags in global memory, any GPU
DEV uint64_t flag_acquire(const uint64_t *p) {
    uint64_t v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
DEV void flag_release(uint64_t *p, uint64_t v) { asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
// The same between kernels or blocks of one GPU: a cheaper barrier.
DEV uint64_t flag_acquire_gpu(const uint64_t *p) {
    uint64_t v;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
DEV void flag_release_gpu(uint64_t *p, uint64_t v) { asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
// Counting orders both ways: the last one to count has seen everything the earlier ones stored.
DEV uint32_t count_up(uint32_t *p) {
    uint32_t v;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(v) : "l"(p) : "memory");
    return v;
}
DEV void store_relaxed(uint32_t *p, uint32_t v) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

DEV void st_global4(void *p, const float *v) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
}
DEV void ld_global4(const void *p, float *v) {  // past the L1: written by other SMs while we run
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "l"(p) : "memory");
}

DEV uint32_t shared_load(uint32_t p) {
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(p) : "memory");
    return v;
}
DEV void shared_store(uint32_t p, uint32_t v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(p), "r"(v) : "memory"); }

// Progress words between two warps of one block.
DEV uint32_t progress_acquire(uint32_t p) {
    uint32_t v;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(p) : "memory");
    return v;
}
DEV void progress_release(uint32_t p, uint32_t v) { asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(p), "r"(v) : "memory"); }

// ---------------------------------------------------------------- overlap of launches in a stream
DEV void launch_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
DEV void launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
