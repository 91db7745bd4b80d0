/* data_element.h -- one element to and from its type, rounded to nearest even. */
#ifndef SG_DATA_ELEMENT_H
#define SG_DATA_ELEMENT_H

#include "core/problem.h"

void sg_data_store(sg_type type, float value, void *matrix, int64_t index);
float sg_data_load(sg_type type, const void *matrix, int64_t index);
float sg_data_round(sg_type type, float value);

uint32_t sg_float_bits(float value);

#endif
