/* bits.h -- what the bits of an element follow from: values that stand for expressions
 * (docs/reproducible.md).
 *
 * The checker carries schedules out over numbers whose sum does not depend on its order.  Over the
 * values here it does: each is a hash of how it was made, so that two are equal if the same
 * operands were multiplied, added and rounded in the same order, be it in another strategy or
 * another tile.
 *
 *     0          a sum of nothing
 *     chain      products of one accumulator, k ascending
 *     add        of two values in f32: either may come first, but (a + b) + c is not a + (b + c)
 *     round      to the problem's type, which once is enough for
 *
 * A value's low byte says what there was on the way to it, for the reason why it is
 * another than it should be. */
#ifndef SG_BITS_H
#define SG_BITS_H

#include "core/base.h"

enum {
    SG_BITS_ROUNDED = 1, /* it is of the problem's type */
    SG_BITS_SUM = 2,     /* something has been added */
    SG_BITS_VENDOR = 4,  /* a product of the vendor's library */
    SG_BITS_LIBRARY = 8, /* a sum by a library of collectives */
    SG_BITS_PARTS = 16,  /* a product of a part of k */
    SG_BITS_AGAIN = 32,  /* a sum was rounded and then added to */
    SG_BITS_MIXED = 64,  /* a product was added unrounded to something rounded */
    SG_BITS_FACTS = 255
};

/* What stays true of whatever is made of a value. */
enum {
    SG_BITS_PAST = SG_BITS_VENDOR | SG_BITS_LIBRARY | SG_BITS_PARTS | SG_BITS_AGAIN | SG_BITS_MIXED
};

/* All but the facts. */
static inline uint64_t sg_bits_hash(uint64_t value)
{
    return value & ~(uint64_t)SG_BITS_FACTS;
}

static inline uint64_t sg_bits_of(uint64_t hash, unsigned facts)
{
    return sg_bits_hash(sg_mix(hash)) | facts;
}

/* An element of an input. */
static inline uint64_t sg_bits_input(uint64_t hash)
{
    return sg_bits_of(hash, SG_BITS_ROUNDED);
}

/* A and B multiplied and added to the accumulator, which has CHAIN. */
static inline uint64_t sg_bits_chain(uint64_t chain, uint64_t a, uint64_t b)
{
    return sg_bits_of(sg_mix(sg_bits_hash(chain) + 1) ^ sg_mix(sg_bits_hash(a) + 2) * 3 ^
                          sg_mix(sg_bits_hash(b) + 3) * 5,
                      (unsigned)((chain | a | b) & SG_BITS_PAST));
}

/* The same value with FACTS. */
static inline uint64_t sg_bits_mark(uint64_t value, unsigned facts)
{
    return value == 0 ? 0 : value | facts;
}

uint64_t sg_bits_add(uint64_t one, uint64_t other);
uint64_t sg_bits_round(uint64_t value);

/* With activation ACT, if that is not 0. */
uint64_t sg_bits_activate(uint64_t value, int act);

/* Made in the same order, and in none that is not known. */
static inline bool sg_bits_equal(uint64_t seen, uint64_t wanted)
{
    return sg_bits_hash(seen) == sg_bits_hash(wanted) && (seen & ~wanted & SG_BITS_PAST) == 0;
}

/* Why SEEN is not WANTED. */
const char *sg_bits_why(uint64_t seen, uint64_t wanted);

#endif
