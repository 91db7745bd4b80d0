// What lab_power times beside the library's kernels: the same sources with one wrapper exchanged (lab_power_parts.cu).
#pragma once
#include "kernel/instance.h"

enum PowerKind { POWER_PRODUCT, POWER_RASTERS, POWER_PATIENT, POWER_BRIEF, POWER_OTHER, POWER_NEAR, POWER_MATH, POWER_LOADS, POWER_KINDS };

// Each appends to OUT and returns how many.
int power_rasters(sg_instance *out);  // products with more rasters, and a choice of how long the L2 keeps C
int power_patient(sg_instance *out);  // the same, and waits inside a block sleep for up to 20 us at a time
int power_brief(sg_instance *out);    // products whose waits sleep for up to 1 us
int power_other(sg_instance *out);    // products of the sources in another folder
int power_near(sg_instance *out);     // products of the first 512 of k again and again: no memory beyond the L2
int power_math(sg_instance *out);     // products of the first 256 of k again and again: nothing is loaded behind them
int power_loads(sg_instance *out);    // what a product loads, without the products

// Of power_rasters and power_patient: which place in a wave a cluster has, by its number; and whether the L2 gives up C first.
enum { POWER_ACROSS = 3, POWER_DEALT = 4 };  // beside enum sg_raster: groups of `width` columns, along them first; and dealt to the places
enum { POWER_CLUSTERS = 256 };
void power_deal(const int *place, int clusters, int first_out);
void power_deal_patient(const int *place, int clusters, int first_out);
