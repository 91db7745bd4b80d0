/* device.cuh -- what all kernels share: words and flags of the run protocol, bounded waiting, types
 * and the epilogue. */
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernel/kernel.h"
#include "kernel/ptx.cuh"

/* ---- Words ----------------------------------------------------------------------------------- */

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

/* The run's epoch, and which half of the workspace it uses: past the L1, which a launch that
 * started early may have filled while the run before still ended. */
DEV uint64_t run_epoch(const sg_kernel_rank *rank)
{
    return load_relaxed(&rank->epoch);
}

DEV int run_half(const sg_kernel_rank *rank, int baked)
{
    return baked ? 0 : 1 - load_relaxed(&rank->prev_half);
}

DEV int run_half(const sg_kernel_program &program)
{
    return program.rank ? run_half(program.rank, program.baked) : 0;
}

/* The words of the rank that runs PROGRAM. */
DEV const sg_kernel_words *own_words(const sg_kernel_program &program)
{
    return program.own.done != nullptr ? &program.own : own_words(program.rank);
}

/* Word of flag INDEX raised by BY for the rank that runs PROGRAM. */
DEV uint64_t *own_flag(const sg_kernel_program &program, int by, int index)
{
    return flag_word(own_words(program), by, index);
}

/* ---- Trouble --------------------------------------------------------------------------------- */

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

/* True once: for the first trouble of a rank, the one that is told.  Partner: count_leave(). */
DEV bool trouble_claim(sg_kernel_rank *rank)
{
    return (atomicOr(&rank->leaving, SG_KERNEL_CLAIMED) & SG_KERNEL_CLAIMED) == 0;
}

/* Of the plan by which this rank has said hello in the run at hand; 0: none. */
DEV uint64_t own_hash(const sg_kernel_rank *rank)
{
    const sg_kernel_hello *hello = own_words(rank)->hello;
    if (hello == nullptr) return 0;
    hello += 2 * rank->rank + (int)(rank->epoch & 1);
    return load_relaxed(&hello->epoch) == rank->epoch ? load_relaxed(&hello->hash) : 0;
}

/* True once the rank's record can be read, be it of this trouble or of the first one.  `kind` is
 * stored last: its reader is the host. */
DEV bool trouble_record(sg_kernel_rank *rank, const Stuck &stuck, bool late, uint64_t seen,
                        uint64_t wanted)
{
    if (!trouble_claim(rank)) return load_relaxed((const int32_t *)&rank->trouble->kind) != 0;
    volatile sg_kernel_trouble *t = rank->trouble;
    t->late = late, t->rank = rank->rank, t->by = stuck.by;
    t->step = stuck.step, t->visit = stuck.visit, t->flag = stuck.flag;
    t->epoch = rank->epoch, t->seen = seen, t->wanted = wanted;
    t->hash = own_hash(rank);
    store_release((uint32_t *)&rank->trouble->kind, (uint32_t)stuck.kind);
    return true;
}

/* Tells all ranks that this one has given up.  Partner: aborted(). */
DEV void abort_all(const sg_kernel_rank *rank)
{
    for (int q = 0; q < rank->ranks; ++q)
        store_release(rank->words[q].abort + rank->rank, rank->epoch);
}

/* Gives up a wait, and says so to all ranks before this one raises flags over what has never come.
 * False: not yet, since another block is about to fill the record.  It is there before the abort:
 * a run that sees the abort may end at once, and the host takes it for a good one unless some
 * record tells of trouble. */
DEV bool give_up(sg_kernel_rank *rank, const Stuck &stuck, bool late, uint64_t seen,
                 uint64_t wanted)
{
    if (!trouble_record(rank, stuck, late, seen, wanted)) return false;
    abort_all(rank);
    return true;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

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
        if ((late || aborted(rank)) && give_up(rank, stuck, late, seen, wanted)) return false;
    }
}

/* Waits for one flag of this rank's words.  Partner: raise_fire() at rank BY. */
DEV bool flag_wait(const sg_kernel_program &program, int by, int index, uint64_t epoch, int step,
                   int visit)
{
    return word_wait(program.rank, own_flag(program, by, index), epoch,
                     Stuck{SG_KERNEL_STUCK_FLAG, by, step, visit, index});
}

/* Waits for PEER's hello of EPOCH, the run that this rank is in, and compares its plan with HASH.
 * Partner: protocol_hello() at PEER.
 *
 * Two hellos of a rank are enough, although plans without hellos wait for nobody: who has ended
 * this run says hello of one more, and cannot end that before this rank says hello of it, too.  But
 * that may be the run after the next, and this hello be written over, hash first, before it is
 * compared.  Then `done`, which runs with hellos alone tell, is EPOCH: PEER was in this plan, has
 * compared it with ours, and has all that is stored to it. */
DEV bool hello_wait(sg_kernel_rank *rank, int peer, uint64_t epoch, uint64_t hash, int kind,
                    int step)
{
    const sg_kernel_hello *hello = own_words(rank)->hello + 2 * peer + (int)(epoch & 1);
    if (!word_wait(rank, &hello->epoch, epoch, Stuck{kind, peer, step, -1, -1})) return false;
    const uint64_t theirs = load_relaxed(&hello->hash);
    if (theirs == hash) return true;
    fence_sys(); /* if this is the hash of a later run, done of this one was stored before it */
    if (load_acquire(own_words(rank)->done + peer) >= epoch) return kind == SG_KERNEL_STUCK_END;
    const Stuck mismatch = {SG_KERNEL_STUCK_MISMATCH, peer, step, -1, -1};
    while (!give_up(rank, mismatch, true, theirs, hash)) nap();
    return false;
}

/* ---- Places ---------------------------------------------------------------------------------- */

DEV int element_bytes(const sg_kernel_program &program, const sg_kernel_place &place)
{
    return place.wide || program.type == SG_KERNEL_F32 ? 4 : 2;
}

/* Rows in memory, PITCH bytes apart. */
struct Spot {
    char *data;
    int64_t pitch;
};

/* PEER's own tensor, behind its hello; data NULL: what goes there is stored into its landing. */

DEV Spot hello_tensor(const sg_kernel_program &program, int peer, uint64_t epoch)
{
    const sg_kernel_hello *hello = own_words(program.rank)->hello + 2 * peer + (int)(epoch & 1);
    const int bytes = program.type == SG_KERNEL_F32 ? 4 : 2;
    return Spot{(char *)(uintptr_t)load_relaxed(&hello->c),
                (int64_t)load_relaxed(&hello->c_stride) * bytes};
}

/* Where AREA begins.  STORED: into a peer's tensor if that is said in its hello, which has come. */
DEV Spot spot_of(const sg_kernel_program &program, const sg_area &area, int half, bool stored)
{
    const sg_kernel_place &place = program.place[area.buf];
    Spot s = {(char *)place.data[half], place.pitch};
    if (stored && area.leave) {
        const Spot direct = hello_tensor(program, area.rank, run_epoch(program.rank));
        if (direct.data != nullptr) s = direct;
    }
    s.data += area.row0 * s.pitch + (int64_t)area.col0 * element_bytes(program, place);
    return s;
}

/* ---- Raising --------------------------------------------------------------------------------- */

/* A raise as it is looked up before the stores that it is about have ended. */
struct Raise {
    uint64_t *flag;
    int counter; /* -1: nobody else raises it */
    uint32_t raisers;
};

/* Of a step, or of a visit, whose tile is TILE. */
DEV Raise raise_find(const sg_kernel_program &program, const sg_raise &r, int tile)
{
    const int index = r.flag0 + (r.per == SG_PER_TILE ? tile : 0);
    return Raise{flag_word(&program.rank->words[r.at], program.rank->rank, index), r.counter,
                 r.counter < 0 ? 0u : (uint32_t)program.raisers[r.counter]};
}

/* By the thread that has seen all stores of this raiser, behind a fence_sys() of its own, or
 * fence_gpu() if X is counted: one for all flags about these stores, since a fence for each would
 * wait for the flag before it to arrive at its rank.  No address here is NULL by a condition: see
 * scripts/sass.py.  Partner: flag_wait(). */
DEV void raise_fire(const sg_kernel_program &program, const Raise &x, uint64_t epoch)
{
    if (x.counter >= 0 && !count_up(program.count + x.counter, x.raisers)) return;
    store_relaxed(x.flag, epoch);
}

/* ---- Types ----------------------------------------------------------------------------------- */

template <class T> DEV uint32_t pack(float lo, float hi);
template <> __device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float lo, float hi)
{
    return pack_bf16(lo, hi);
}
template <> __device__ __forceinline__ uint32_t pack<__half>(float lo, float hi)
{
    return pack_f16(lo, hi);
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

/* WIDTH neighbours of a row, to and from f32. */
template <class T, int WIDTH> struct Lump {
    T v[WIDTH];
};

template <class T, int WIDTH> DEV void load_lump(const char *from, float *v)
{
    Lump<T, WIDTH> lump;
    if (sizeof lump == 16)
        *(uint4 *)&lump = __ldcg((const uint4 *)from);
    else if (sizeof(T) == 4)
        *(uint32_t *)&lump = __ldcg((const uint32_t *)from);
    else
        *(unsigned short *)&lump = __ldcg((const unsigned short *)from);
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) v[i] = to_float(lump.v[i]);
}

template <class T, int WIDTH>
DEV void load_some(const sg_kernel_place &place, const char *from, float *v)
{
    if (sizeof(T) == 2 && place.wide) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) v[i] = __ldcg((const float *)from + i);
    } else {
        load_lump<T, WIDTH>(from, v);
    }
}

template <class T, int WIDTH>
DEV void store_some(const sg_kernel_place &place, char *to, const float *v)
{
    if (sizeof(T) == 2 && place.wide) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) ((float *)to)[i] = v[i];
        return;
    }
    Lump<T, WIDTH> lump;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) lump.v[i] = from_float<T>(v[i]);
    if (sizeof lump == 16)
        *(uint4 *)to = *(uint4 *)&lump;
    else
        *(T *)to = lump.v[0];
}

/* ---- Epilogue -------------------------------------------------------------------------------- */

/* 1 / (1 + exp(-U)), to about two units in the last place of f32.  It never is 0 or subnormal. */
DEV float sigmoid(float u)
{
    return 1.f / (1.f + expf(fminf(fmaxf(-u, -87.f), 87.f)));
}

/* 1 / (1 + 2^-T), to some units in the last place, or 0. */
DEV float sigmoid_2(float t)
{
    return reciprocal_approx(1.f + exp2_approx(-t));
}

/* gelu is 0.5 x (1 + tanh(u / 2)), which is x sigmoid(u), u = 1.59577 x (1 + 0.044715 x^2), and
 * silu is x sigmoid(x).  EXACT: for f32; otherwise exponents are of 2.
 *
 * Where X is in registers loops are laid out, and what a tile takes is what its code takes to come,
 * which has not run before.  So there are few instructions a number, and none that is not for ACT:
 * when each had all that any may need, a relu took 15 us.  Gelu and silu are in one loop, and a
 * loop is for a piece of a tile: with more branches around full registers some are spilled. */
template <bool EXACT, int N> DEV void activate(int act, float (&x)[N])
{
    if (act == SG_KERNEL_RELU) {
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = x[i] < 0.f ? 0.f : x[i];
    } else if (act != SG_KERNEL_NONE) {
        const float unit = EXACT ? 1.f : 1.44269504f;
        const float one = act == SG_KERNEL_GELU ? 1.59576912f * unit : unit;
        const float three = act == SG_KERNEL_GELU ? 0.0713548163f * unit : 0.f;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const float y = max_or_nan(x[i], -88.f), near = fminf(y, 88.f);
            const float u = near * fmaf(near * near, three, one);
            x[i] = y * (EXACT ? sigmoid(u) : sigmoid_2(u));
        }
    }
}
