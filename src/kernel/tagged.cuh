/* tagged.cuh -- data that tell by themselves that they have come: the words of tagged data and
 * their places, for the fast kernels (tagged_sm90.cuh, hops_sm90.cuh) and the slow one
 * (gemm_slow.cuh) alike, since ranks of a run may have either.
 *
 * A word is 16 bytes, eight neighbours of a row.  Memory at rest is all ones, which as numbers are
 * NaNs that no conversion from f32 makes: all of those are 0x7fff.  So a word that is not at rest
 * has come.  (Lamport's one-word synchronization; known libraries take -0 for it, and change sums
 * by that.)
 *
 * A word arrives whole or not at all.  store_tagged() and load_tagged() are one access of the
 * scalar type .b128 each, at system scope (PTX ISA 8.3, .sys with .b128 in 8.4), which
 * atom.cas.b128 may meet at the same address; libcu++ makes atomic objects of 16 bytes of them.
 * Vectors (.v2.b64) are not promised that: they are so many accesses in any order (PTX ISA, 8.2.4,
 * which still says that no scalar is wider than 64 bits).  ptxas makes the same 128-bit instruction
 * of both.  Nothing else is asked of the order of words: each speaks for itself alone.
 *
 * Every word that is stored has one reader, in the run in which it is stored, who puts it back to
 * rest as soon as he has read it.  So between two runs that use a half all of it is at rest; runs
 * of it are behind gates that say that the readers before have ended.  After a failure that is not
 * so, and recovery puts all of it back.
 *
 * A place holds its tile by eights of rows; in each, 32 columns after 32 columns are 32 words, of
 * which word 4 i + j holds the j-th eight columns of row i. */
#pragma once
#include "kernel/device.cuh"

enum { WORD_BYTES = 16, WORD_COLS = 32, WORDS_BYTES = 32 * WORD_BYTES };

constexpr uint32_t AT_REST = 0xffffffffu;

/* Its last two numbers tell for all: it is whole or has not come. */
DEV bool has_come(const uint4 &word)
{
    return word.w != AT_REST;
}

/* A word of any numbers as it may be sent: of two NaNs that would tell of rest the first is
 * another. */
DEV uint4 word_not_at_rest(uint4 word)
{
    if (!has_come(word)) word.w = 0xffff7fffu;
    return word;
}

template <class T> DEV uint4 word_packed(const float *v)
{
    return make_uint4(pack<T>(v[0], v[1]), pack<T>(v[2], v[3]), pack<T>(v[4], v[5]),
                      pack<T>(v[6], v[7]));
}

template <class T> DEV void word_add(const uint4 &word, float *sum)
{
    const uint32_t w[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 two = unpack<T>(w[i]);
        sum[2 * i] += two.x, sum[2 * i + 1] += two.y;
    }
}
