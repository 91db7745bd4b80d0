/* stages_sm90.cuh -- the ring of stages through which A, B and addends come to the math warps of
 * the Hopper product (gemm_sm90.cuh), for who fills it and who empties it. */
#pragma once
#include "kernel/wait_sm90.cuh"

/* A position in the stages.  Where there are narrow tiles, each stage has a bit of PARITY: those of
 * narrow tiles are more, FINE ones, in the same memory and by the same barriers. */
template <class S> struct Stages {
    int at = 0;
    uint32_t parity = 0;
    bool fine = false;
};

template <class S> DEV uint32_t stages_parity(const Stages<S> &ring)
{
    return S::NARROW > 0 ? ring.parity >> ring.at & 1 : ring.parity;
}

/* Where it is, from the first one on. */
template <class S> DEV uint32_t stages_place(const Stages<S> &ring)
{
    return ring.at * (S::NARROW > 0 && ring.fine ? S::FINE_BYTES : S::STAGE_BYTES);
}

template <class S> DEV void stages_step(Stages<S> &ring)
{
    if (S::NARROW > 0) {
        ring.parity ^= 1u << ring.at;
        if (++ring.at == (ring.fine ? S::FINE : S::STAGES)) ring.at = 0;
    } else if (++ring.at == S::STAGES) {
        ring.at = 0, ring.parity ^= 1;
    }
}

/* From here on they are those of narrow tiles, or not. */
template <class S> DEV void stages_cut(Stages<S> &ring, bool fine)
{
    if (S::NARROW > 0 && ring.fine != fine) ring.fine = fine, ring.at = 0;
}
