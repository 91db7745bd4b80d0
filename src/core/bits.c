/* bits.c -- see bits.h. */
#include "core/bits.h"

enum { ADD = 0x5add, ROUND = 0x40d };

static bool is_rounded(uint64_t value)
{
    return (value & SG_BITS_ROUNDED) != 0;
}

static bool is_sum(uint64_t value)
{
    return (value & SG_BITS_SUM) != 0;
}

uint64_t sg_bits_add(uint64_t one, uint64_t other)
{
    if (one == 0 || other == 0) return one | other;
    unsigned facts = (unsigned)((one | other) & SG_BITS_PAST) | SG_BITS_SUM;
    if ((is_rounded(one) && is_sum(one)) || (is_rounded(other) && is_sum(other)))
        facts |= SG_BITS_AGAIN;
    if ((is_rounded(one) && !is_rounded(other) && !is_sum(other)) ||
        (is_rounded(other) && !is_rounded(one) && !is_sum(one)))
        facts |= SG_BITS_MIXED;
    return sg_bits_of(sg_mix(sg_bits_hash(one) ^ ADD) + sg_mix(sg_bits_hash(other) ^ ADD), facts);
}

uint64_t sg_bits_round(uint64_t value)
{
    if (value == 0 || is_rounded(value)) return value;
    return sg_bits_of(sg_bits_hash(value) ^ ROUND,
                      (unsigned)(value & (SG_BITS_PAST | SG_BITS_SUM)) | SG_BITS_ROUNDED);
}

uint64_t sg_bits_activate(uint64_t value, int act)
{
    if (value == 0 || act == 0) return value;
    return sg_bits_of(sg_bits_hash(value) + (uint64_t)act, (unsigned)(value & SG_BITS_PAST));
}

const char *sg_bits_why(uint64_t seen, uint64_t wanted)
{
    static const struct reason {
        unsigned fact;
        const char *text;
    } reasons[] = {
        {SG_BITS_VENDOR, "the order of the vendor's product is not known"},
        {SG_BITS_LIBRARY, "the order of the library's sum is not known"},
        {SG_BITS_PARTS, "k is summed in parts"},
        {SG_BITS_AGAIN, "sums are rounded on their way from rank to rank"},
        {SG_BITS_MIXED, "the own product is not rounded as those of others are"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if ((seen & ~wanted & reasons[i].fact) != 0) return reasons[i].text;
    return (seen & SG_BITS_PARTS) != 0 ? "k is summed in other parts, or in another order of them"
                                       : "what is added comes in another order";
}
