/* data_element.c -- see data_element.h. */
#include "core/data_element.h"

#include <string.h>

uint32_t sg_float_bits(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t to_bf16(float value)
{
    const uint32_t bits = sg_float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static uint16_t to_f16(float value)
{
    const uint32_t bits = sg_float_bits(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more */
    if (size < 0x38800000u) {
        /* Below 2^-14: the sum with 0.5 rounds to multiples of 2^-24. */
        const uint32_t rounded = sg_float_bits(float_of(size) + 0.5f);
        return (uint16_t)(sign | (rounded - 0x3f000000u));
    }
    const uint32_t rounded = size - 0x38000000u + 0xfffu + (size >> 13 & 1u);
    return (uint16_t)(sign | rounded >> 13);
}

static float from_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = half >> 10 & 0x1fu;
    const uint32_t fraction = half & 0x3ffu;
    if (exponent == 0x1f) return float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

void sg_data_store(sg_type type, float value, void *matrix, int64_t index)
{
    if (type == SG_F32)
        ((float *)matrix)[index] = value;
    else
        ((uint16_t *)matrix)[index] = type == SG_BF16 ? to_bf16(value) : to_f16(value);
}

float sg_data_load(sg_type type, const void *matrix, int64_t index)
{
    if (type == SG_F32) return ((const float *)matrix)[index];
    const uint16_t half = ((const uint16_t *)matrix)[index];
    return type == SG_BF16 ? float_of((uint32_t)half << 16) : from_f16(half);
}

float sg_data_round(sg_type type, float value)
{
    uint32_t room = 0;
    sg_data_store(type, value, &room, 0);
    return sg_data_load(type, &room, 0);
}
