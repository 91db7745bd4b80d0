/* ptx_memory.cuh -- the part of ptx.cuh about words that threads, launches and GPUs share: flags,
 * counts, and what lets one launch start beside another. */
#pragma once
#include <stdint.h>

/* ---- Flags and counts in global memory ------------------------------------------------------- */

DEV uint64_t load_acquire(const uint64_t *p)
{
    uint64_t v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

DEV uint64_t load_relaxed(const uint64_t *p)
{
    uint64_t v;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

DEV int32_t load_relaxed(const int32_t *p)
{
    int32_t v;
    asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

DEV void store_release(uint64_t *p, uint64_t v)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* With a store_relaxed() behind it, store_release(); what is loaded before it
 * may be on its way meanwhile. */
DEV void fence_sys()
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/* The same for this GPU alone: it does not wait for what is on its way to others. */
DEV void fence_gpu()
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

DEV void store_relaxed(uint64_t *p, uint64_t v)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

DEV void store_release(uint32_t *p, uint32_t v)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

DEV uint32_t load_acquire_gpu(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

DEV void add_release_gpu(uint32_t *p)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory");
}

/* Counts to LIMIT, behind a fence of the caller's, for this GPU at least; true for the last one,
 * who has then seen all that the earlier ones stored, may tell any GPU of it, since causality is
 * transitive, and leaves the word at rest again.  The others need not see anything, and do not wait
 * for it. */
DEV bool count_up(uint32_t *p, uint32_t limit)
{
    uint32_t v;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(v) : "l"(p) : "memory");
    if (v + 1 < limit) return false;
    asm volatile("fence.acq_rel.sys;\nst.relaxed.gpu.global.u32 [%0], 0;" ::"l"(p) : "memory");
    return true;
}

/* The same for MORE at once, where the last one tells this GPU alone. */
DEV bool count_up_here(uint32_t *p, uint32_t more, uint32_t limit)
{
    uint32_t v;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(v)
                 : "l"(p), "r"(more)
                 : "memory");
    if (v + more < limit) return false;
    asm volatile("fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%0], 0;" ::"l"(p) : "memory");
    return true;
}

/* As count_up() for who cannot do anything else meanwhile: all see what the earlier ones stored,
 * which saves the last one a barrier of memory.  Not true for anybody if BAD is among the bits
 * of the word, which it stays. */
DEV bool count_leave(uint32_t *p, uint32_t limit, uint32_t bad)
{
    uint32_t v;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(v) : "l"(p) : "memory");
    if ((v & ~bad) + 1 < limit) return false;
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v & bad) : "memory");
    return (v & bad) == 0;
}

/* One more, behind LAST 0 again; returns what was there.  Relaxed, as all that seats are by. */
DEV uint32_t count_round(uint32_t *p, uint32_t last)
{
    uint32_t v;
    asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(v)
                 : "l"(p), "r"(last)
                 : "memory");
    return v;
}

/* One less, before 0 LAST. */
DEV void count_back(uint32_t *p, uint32_t last)
{
    asm volatile("red.relaxed.gpu.global.dec.u32 [%0], %1;" ::"l"(p), "r"(last) : "memory");
}

/* NEXT instead of WAS; false: there is something else. */
DEV bool count_from(uint32_t *p, uint32_t was, uint32_t next)
{
    uint32_t v;
    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(v)
                 : "l"(p), "r"(was), "r"(next)
                 : "memory");
    return v == was;
}

DEV void store_relaxed(uint32_t *p, uint32_t v)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

DEV void st_global4(void *p, const float *v)
{
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(v[0]), "f"(v[1]),
                 "f"(v[2]), "f"(v[3])
                 : "memory");
}

/* Past the L1: written by other SMs while this kernel runs. */
DEV void ld_global4(const void *p, float *v)
{
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "l"(p)
                 : "memory");
}

/* 16 bytes in one access, which nobody sees half of: one of a scalar type, and not a vector. */
DEV void store_tagged(void *p, const uint4 &v)
{
    asm volatile("{\n.reg .b64 low, high;\n.reg .b128 word;\n"
                 "mov.b64 low, {%1, %2};\nmov.b64 high, {%3, %4};\nmov.b128 word, {low, high};\n"
                 "st.relaxed.sys.global.b128 [%0], word;\n}" ::"l"(p),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

DEV void load_tagged(const void *p, uint4 *v)
{
    asm volatile("{\n.reg .b64 low, high;\n.reg .b128 word;\n"
                 "ld.relaxed.sys.global.b128 word, [%4];\nmov.b128 {low, high}, word;\n"
                 "mov.b64 {%0, %1}, low;\nmov.b64 {%2, %3}, high;\n}"
                 : "=r"(v->x), "=r"(v->y), "=r"(v->z), "=r"(v->w)
                 : "l"(p)
                 : "memory");
}

/* Puts a word that has been read, in the own memory, back to rest. */
DEV void rest_tagged(void *p)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(p), "r"(0xffffffffu) : "memory");
}

/* Lets others have the memory for a quarter of a microsecond. */
DEV void nap()
{
    asm volatile("nanosleep.u32 256;" ::: "memory");
}

/* ---- Words in shared memory ------------------------------------------------------------------ */

DEV uint32_t shared_load(uint32_t p)
{
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(p) : "memory");
    return v;
}

DEV void shared_store(uint32_t p, uint32_t v)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(p), "r"(v) : "memory");
}

DEV void shared_load4(uint32_t p, float *v)
{
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(p)
                 : "memory");
}

/* Progress words between two warps of a block. */
DEV uint32_t progress_acquire(uint32_t p)
{
    uint32_t v;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(p) : "memory");
    return v;
}

DEV void progress_release(uint32_t p, uint32_t v)
{
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(p), "r"(v) : "memory");
}

/* ---- Overlap of launches in a stream --------------------------------------------------------- */

/* The launch before this one in the stream has ended, and what it stored is here. */
DEV void launch_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The launch behind this one may take what SMs are free.  Behind launch_wait() only: so the launch
 * before this one has ended before anything of that one runs. */
DEV void launch_next()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
