/* device.cuh -- what all kernels share: words and flags of the run protocol, bounded waiting, types
 * and the epilogue. */
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernel/kernel.h"
#include "kernel/ptx.cuh"

/* ---- Words -------------------------------------------------------------------------------------------- */

/* Word of flag INDEX raised by BY, in WORDS; pages as in core/work.h. */
DEV uint64_t *flag_word(const sg_kernel_words *words, int by, int index)
{
    const int page = 32 - __clz(index / SG_KERNEL_FLAG_PAGE0);
    const int first = page == 0 ? 0 : SG_KERNEL_FLAG_PAGE0 << (page - 1);
    const int size = page == 0 ? SG_KERNEL_FLAG_PAGE0 : first;
    return words->flag[page] + (int64_t)by * size + (index - first);
}

DEV const sg_kernel_words *own_words(const sg_kernel_rank *rank)
{
    return &rank->words[rank->rank];
}

/* ---- Trouble --------------------------------------------------------------------------------------------- */

/* What a wait is about; `visit` and `flag` are -1 where there is none. */
struct Stuck {
    int kind, by, step, visit, flag;
};

DEV bool aborted(const sg_kernel_rank *rank)
{
    const sg_kernel_words *words = own_words(rank);
    for (int by = 0; by < rank->ranks; ++by)
        if (load_relaxed(words->abort + by) != 0) return true;
    return false;
}

/* The first trouble of a rank is the one that is told.  `kind` is stored last: its reader is the
 * host. */
DEV void trouble_record(sg_kernel_rank *rank, const Stuck &stuck, bool late, uint64_t seen,
                        uint64_t wanted)
{
    if (atomicExch(&rank->claimed, 1u) != 0) return;
    volatile sg_kernel_trouble *t = rank->trouble;
    t->late = late, t->rank = rank->rank, t->by = stuck.by;
    t->step = stuck.step, t->visit = stuck.visit, t->flag = stuck.flag;
    t->epoch = rank->epoch, t->seen = seen, t->wanted = wanted;
    store_release((uint32_t *)&rank->trouble->kind, (uint32_t)stuck.kind);
}

/* Partner: aborted(), at all ranks. */
DEV void abort_all(const sg_kernel_rank *rank)
{
    for (int q = 0; q < rank->ranks; ++q)
        store_release(rank->words[q].abort + rank->rank, rank->epoch);
}

/* ---- Waiting ------------------------------------------------------------------------------------------------ */

/* Acquires WORD once it is at least WANTED.  False: time is up, or somebody has given up; then what
 * the word guards may not be there. */
DEV bool word_wait(sg_kernel_rank *rank, const uint64_t *word, uint64_t wanted, const Stuck &stuck)
{
    uint64_t seen = load_acquire(word);
    if (seen >= wanted) return true;
    const uint64_t start = now_ns();
    for (uint32_t tries = 0;; ++tries) {
        seen = load_acquire(word);
        if (seen >= wanted) return true;
        if (tries % 32 != 0) continue;
        const bool late = now_ns() - start > rank->limit_ns;
        if (!late && !aborted(rank)) continue;
        trouble_record(rank, stuck, late, seen, wanted);
        if (late) abort_all(rank);
        return false;
    }
}

/* Waits for one flag of this rank's words.  Partner: flag_raise() at rank BY. */
DEV bool flag_wait(sg_kernel_rank *rank, int by, int index, uint64_t epoch, int step, int visit)
{
    return word_wait(rank, flag_word(own_words(rank), by, index), epoch,
                     Stuck{SG_KERNEL_STUCK_FLAG, by, step, visit, index});
}

DEV void flag_raise(const sg_kernel_rank *rank, int at, int index, uint64_t epoch)
{
    store_release(flag_word(&rank->words[at], rank->rank, index), epoch);
}

/* Waits for PEER's hello of this run, and compares its plan.  Partner: say_hello() at PEER. */
DEV bool hello_wait(sg_kernel_rank *rank, int peer, uint64_t epoch, int kind, int step)
{
    const sg_kernel_hello *hello = own_words(rank)->hello + 2 * peer + (int)(epoch & 1);
    if (!word_wait(rank, &hello->epoch, epoch, Stuck{kind, peer, step, -1, -1})) return false;
    const uint64_t hash = load_relaxed(&hello->hash);
    if (hash == rank->hash) return true;
    trouble_record(rank, Stuck{SG_KERNEL_STUCK_MISMATCH, peer, step, -1, -1}, true, hash,
                   rank->hash);
    abort_all(rank);
    return false;
}

/* Raises R of a step, or of a visit: `part` is its band or tile. */
DEV void raise_one(const sg_kernel_program &program, const sg_raise &r, int part, uint64_t epoch)
{
    const int index = r.flag0 + (r.per == SG_PER_PATCH ? 0 : part);
    if (r.counter >= 0) {
        const int counter = r.counter + (r.per == SG_PER_BAND ? part : 0);
        if (count_up(program.count + counter) + 1 < (uint32_t)program.raisers[counter]) return;
        /* Nobody counts here again in this run; at rest for the next. */
        store_relaxed(program.count + counter, 0);
    }
    flag_raise(program.rank, r.at, index, epoch);
}

/* ---- Types ---------------------------------------------------------------------------------------------------- */

/* Two neighbours, rounded; LO at the lower address. */
template <class T> DEV uint32_t pack(float lo, float hi);
template <> __device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float lo, float hi)
{
    uint32_t v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}
template <> __device__ __forceinline__ uint32_t pack<__half>(float lo, float hi)
{
    uint32_t v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
    return v;
}

template <class T> DEV float2 unpack(uint32_t v);
template <> __device__ __forceinline__ float2 unpack<__nv_bfloat16>(uint32_t v)
{
    return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000u));
}
template <> __device__ __forceinline__ float2 unpack<__half>(uint32_t v)
{
    return __half22float2(*reinterpret_cast<__half2 *>(&v));
}

DEV float to_float(float v)
{
    return v;
}
DEV float to_float(__nv_bfloat16 v)
{
    return __bfloat162float(v);
}
DEV float to_float(__half v)
{
    return __half2float(v);
}

template <class T> DEV T from_float(float v);
template <> __device__ __forceinline__ float from_float<float>(float v)
{
    return v;
}
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float v)
{
    return __float2bfloat16_rn(v);
}
template <> __device__ __forceinline__ __half from_float<__half>(float v)
{
    return __float2half_rn(v);
}

/* ---- Epilogue ---------------------------------------------------------------------------------------------------- */

/* 1 / (1 + exp(-x)); EXACT: to about two units in the last place of f32.  The clamp keeps the
 * approximate division away from where it gives 0. */
template <bool EXACT> DEV float sigmoid(float x)
{
    const float t = fminf(fmaxf(-x, -87.f), 87.f);
    if (EXACT) return 1.f / (1.f + expf(t));
    return __fdividef(1.f, 1.f + __expf(t));
}

/* gelu is 0.5 x (1 + tanh(u)), and 0.5 (1 + tanh(u)) is sigmoid(2 u). */
template <bool EXACT> DEV float activate(int act, float x)
{
    if (act == SG_KERNEL_RELU) return x < 0.f ? 0.f : x;
    if (act == SG_KERNEL_GELU)
        return x * sigmoid<EXACT>(1.59576912f * (x + 0.044715f * (x * x * x)));
    return act == SG_KERNEL_SILU ? x * sigmoid<EXACT>(x) : x;
}
