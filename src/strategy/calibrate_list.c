/* calibrate_list.c -- see core/calibrate_list.h.  Shapes are none that benchmarks of this project
 * use: a calibration is judged on others than it has seen.
 *
 * What shows what:  serial products: the vendor's rate, short and long;  products alone: tiles, SMs
 * that stand still, operands that no cache holds, in few waves and in many (by few alone 128x128
 * seemed as fast as 128x256, and products of many waves got plans that take 6 % longer;
 * results/gpu/shapes_2xh200_v1.json);  scatters with deep k: launches, ends, addends;  with flat k:
 * stores;  small all-reduces: flags, begin and end of runs;  tagged data: what a hop without flags
 * takes;  gathers by engines and by launches, in pairs: copies, pushes, what is read again;  large
 * gathers by ours and by the vendor's launches: one against the other;  direct and ring: lanes,
 * sums;  signal: products beside collectives. */
#include "core/calibrate_list.h"

static const sg_calibrate_item large[] = {
    {"gemm:bf16:384x3072x3072", "serial", false},
    {"gemm:bf16:640x6144x6144", "serial", false},
    {"gemm:bf16:640x10240x20480", "serial", false},
    {"gemm:bf16:1536x6144x3072", "serial", false},
    {"gemm:bf16:3072x10240x5120", "serial", false},
    {"gemm:bf16:6144x10240x10240", "serial", false},
    {"gemm:bf16:12288x10240x20480", "serial", false},
    {"gemm:bf16:512x10240x7168", "alone", true},
    {"gemm:bf16:6144x6144x1024", "alone", true},
    {"gemm:bf16:3072x10240x5120", "alone", true},
    {"gemm:bf16:256x6144x5120", "alone", false},
    {"gemm:bf16:128x20480x5120", "alone", false},
    {"gemm:bf16:64x10240x5120", "alone", false},
    {"gemm:bf16:64x10240x5120", "serial", false},
    {"gemm_rs:bf16:640x10240x5120", "fused_out", true},
    {"gemm_rs:bf16:512x10240x20480", "fused_out{tile_m=128,tile_n=192}", false},
    {"gemm_rs:bf16:512x10240x20480", "fused_out{tile_m=64,tile_n=256}", false},
    {"gemm_ar:bf16:512x10240x7168", "fused_out{once=1}", false},
    {"ag_gemm:bf16:512x20480x10240", "fused_in{push=0,slabs=8}", false},
    {"gemm_rs:bf16:1536x6144x6144", "fused_out", true},
    {"gemm_rs:bf16:3072x6144x10240", "fused_out", true},
    {"gemm_rs:bf16:6144x10240x5120", "fused_out", true},
    {"gemm_rs:bf16:384x3072x3072", "fused_out", false},
    {"gemm_rs:bf16:640x6144x10240", "fused_out", false},
    {"gemm_rs:bf16:3072x10240x3072", "fused_out", false},
    {"gemm_rs:bf16:6144x10240x10240", "fused_out", false},
    {"gemm_rs:bf16:12288x10240x20480", "fused_out", false},
    {"gemm_rs:bf16:768x6144x512", "fused_out", false},
    {"gemm_rs:bf16:3072x20480x512", "fused_out", false},
    {"gemm_rs:bf16:6144x10240x768", "fused_out", false},
    {"gemm_ar:bf16:384x2048x768", "fused_out", false},
    {"gemm_ar:bf16:640x6144x3072", "fused_out", false},
    {"gemm_ar:bf16:1536x6144x3072", "fused_out", false},
    {"gemm_ar:bf16:6144x10240x3072", "fused_out", false},
    {"gemm_ar:bf16:6144x6144x10240", "fused_out", false},
    {"ag_gemm:bf16:384x3072x3072", "fused_in{push=1}", false},
    {"ag_gemm:bf16:640x6144x6144", "fused_in{push=1}", false},
    {"ag_gemm:bf16:640x20480x5120", "fused_in{push=1}", false},
    {"ag_gemm:bf16:1536x3072x6144", "fused_in{push=1}", false},
    {"ag_gemm:bf16:3072x10240x5120", "fused_in{push=1}", false},
    {"ag_gemm:bf16:640x6144x6144", "fused_in{push=0}", false},
    {"ag_gemm:bf16:1536x3072x6144", "fused_in{push=0}", false},
    {"ag_gemm:bf16:3072x10240x5120", "fused_in{push=0}", false},
    {"ag_gemm:bf16:384x3072x3072", "fused_in{push=0,slabs=8}", false},
    {"ag_gemm:bf16:640x6144x6144", "fused_in{push=0,slabs=8}", false},
    {"ag_gemm:bf16:1536x3072x6144", "fused_in{push=0,chunks=4}", false},
    {"ag_gemm:bf16:6144x1536x10240", "fused_in{push=0}", false},
    {"ag_gemm:bf16:12288x3072x10240", "fused_in{push=0}", false},
    {"ag_gemm:bf16:12288x10240x6144", "fused_in{push=0}", false},
    {"ag_gemm:bf16:640x20480x5120", "fused_in{push=0}", false},
    {"ag_gemm:bf16:384x6144x10240", "fused_in{push=1,slabs=8}", false},
    {"ag_gemm:bf16:384x6144x10240", "fused_in{push=0,slabs=8}", false},
    {"ag_gemm:bf16:2560x20480x5120", "fused_in{push=1}", false},
    {"ag_gemm:bf16:2560x20480x5120", "fused_in{push=0}", false},
    {"ag_gemm:bf16:1536x20480x6144", "fused_in{push=0}", false},
    {"ag_gemm:bf16:1536x20480x6144", "fused_in{push=0,strips=1}", false},
    {"ag_gemm:bf16:640x6144x6144", "direct", false},
    {"ag_gemm:bf16:640x10240x5120", "ring", false},
    {"ag_gemm:bf16:768x6144x10240", "dma", false},
    {"gemm_rs:bf16:640x6144x5120", "direct", false},
    {"gemm_rs:bf16:1536x6144x3072", "direct{chunks=4}", false},
    {"gemm_rs:bf16:640x6144x6144", "ring", false},
    {"gemm_rs:bf16:768x10240x5120", "dma", false},
    {"gemm_ar:bf16:640x10240x3072", "ring", false},
    {"gemm_ar:bf16:768x6144x6144", "signal", false},
    {"gemm_rs:bf16:1536x10240x3072", "sliced", false},
    {"gemm_ar:bf16:6144x6144x5120", "ring", false},
    {"gemm_ar:bf16:6144x6144x5120", "sliced", false},
    {"gemm_rs:bf16:6144x10240x5120", "dma", false},
    {"ag_gemm:bf16:3072x6144x6144", "direct", false},
    {"ag_gemm:bf16:3072x6144x6144", "sliced", false},
    {"ag_gemm:bf16:3072x6144x6144", "ring", false},
    {"ag_gemm:bf16:6144x6144x3072", "dma", false},
    {"gemm_rs:bf16:1536x6144x3072", "direct", false},
    {"gemm_rs:bf16:6144x10240x3072", "direct", false},
    {"gemm_ar:bf16:3072x6144x3072", "direct", false},
    {"gemm_rs:bf16:3072x6144x6144", "ring", false},
    {"ag_gemm:bf16:3072x6144x6144", "direct{vendor=1}", false},
    {"ag_gemm:bf16:3072x20480x6144", "ring", false},
    {"ag_gemm:bf16:3072x20480x6144", "direct{vendor=1}", false},
    {"ag_gemm:bf16:10240x6144x6144", "fused_in{push=0}", false},
    {"ag_gemm:bf16:10240x6144x6144", "direct{vendor=1}", false},
    {"gemm_rs:bf16:6144x10240x3072", "direct{vendor=1}", false},
    {"gemm_rs:bf16:3072x6144x6144", "ring{vendor=1}", false},
    {"gemm_ar:bf16:384x2048x768", "fused_out{once=1}", false},
    {"gemm_ar:bf16:640x6144x3072", "fused_out{once=1}", false},
    {"gemm_ar:bf16:48x5120x3072", "fused_out{tile_m=64,tile_n=64,once=1}", false},
    {"gemm_ar:bf16:48x5120x3072", "fused_out{tile_m=64,tile_n=64,once=1,tagged=1}", false},
    {"gemm_ar:bf16:48x10240x3072", "fused_out{tile_m=64,tile_n=96,once=1,tagged=1}", false},
    {"gemm_ar:bf16:192x5120x768", "fused_out{tile_m=128,tile_n=64,once=1,tagged=1}", false},
    {"gemm_ar:bf16:48x5120x3072", "fused_out{tile_m=64,tile_n=64,once=0,tagged=1}", false},
    {"gemm_ar:bf16:192x5120x768", "fused_out{tile_m=128,tile_n=64,once=0,tagged=1}", false},
    {"gemm_rs:bf16:640x6144x3072", "fused_out{tile_m=128,tile_n=256,splits=2}", false},
    {"gemm_rs:bf16:640x6144x10240", "fused_out{tile_m=128,tile_n=256,splits=2}", false},
    {"gemm_ar:bf16:384x10240x6144", "fused_out{tile_m=128,tile_n=256,splits=2}", false},
    {"gemm_ar:bf16:3072x10240x3072", "signal", false},
    {"gemm_ar:bf16:3072x10240x3072", "signal{sms=8}", false},
    {"gemm_ar:bf16:3072x10240x3072", "signal{sms=16}", false},
    {"gemm_rs:bf16:6144x10240x5120", "signal", false},
    {"ag_gemm:bf16:640x6144x6144", "serial", false},
    {"ag_gemm:bf16:6144x10240x3072", "serial", false},
    {"gemm_rs:bf16:1536x6144x3072", "serial", false},
    {"gemm_rs:bf16:6144x10240x3072", "serial", false},
    {"gemm_ar:bf16:640x6144x3072", "serial", false},
    {"gemm_ar:bf16:6144x10240x3072", "serial", false},
    {"gemm:f16:1536x6144x3072", "serial", false},
    {"gemm_rs:f16:3072x6144x6144", "fused_out", false},
    {"gemm:f32:1536x3072x3072", "serial", false},
};

static const sg_calibrate_item small[] = {
    {"gemm:bf16:192x384x320", "serial", false},
    {"gemm:bf16:384x768x640", "serial", false},
    {"gemm:bf16:96x192x1280", "serial", false},
    {"gemm:f16:192x768x640", "serial", false},
    {"gemm:f32:192x768x640", "serial", false},
    {"gemm_rs:bf16:384x384x640", "fused_out", false},
    {"gemm_rs:bf16:192x1280x96", "fused_out", false},
    {"gemm_rs:bf16:48x192x96", "fused_out", false},
    {"gemm_ar:bf16:192x384x320", "fused_out", false},
    {"ag_gemm:bf16:384x192x640", "fused_in{push=0}", false},
    {"ag_gemm:bf16:768x96x640", "fused_in{push=0}", false},
    {"ag_gemm:bf16:768x32x1280", "fused_in{push=0}", false},
    {"ag_gemm:bf16:1280x32x640", "fused_in{push=0}", false},
    {"ag_gemm:bf16:96x32x192", "fused_in{push=0}", false},
    {"ag_gemm:bf16:768x96x640", "fused_in{push=1}", false},
    {"ag_gemm:bf16:48x96x192", "fused_in{push=1}", false},
    {"ag_gemm:bf16:384x192x640", "direct", false},
    {"gemm_rs:bf16:384x640x192", "direct", false},
    {"gemm_rs:bf16:384x640x192", "ring", false},
    {"gemm_rs:bf16:384x640x192", "serial", false},
    {"ag_gemm:bf16:768x96x640", "serial", false},
    {"gemm_ar:bf16:192x640x192", "serial", false},
};

/* NCCL goes over to another protocol between 1.5 and 4, by the kind and the number of ranks: there
 * a little more takes up to 60 % longer (two H200s gather 2 MB in 16.8 us, 2.5 MB in 23.2). */
static const double large_messages[] = {0.0625, 0.5, 1.5, 2, 2.5, 3, 4, 8, 16, 64, 256};
static const double small_messages[] = {0.015625, 0.125, 1};

#define PRODUCT "fitted to products alone, and under scatters that they hide"

static const sg_calibrate_number numbers[] = {
    {"gemm_tflops_bf16", PRODUCT, true, true, true, 1},
    {"gemm_tflops_f16", PRODUCT, true, true, true, 1},
    {"gemm_tflops_f32", "fitted to a product alone", true, true, true, 1},
    {"vendor", "fitted to the vendor's products, 7 Gflop to 5 Tflop", true, false, true, 2},
    {"burst", "fitted: short products against long ones", true, false, true, 1},
    {"vendor_burst", "fitted: short products of the vendor's against long ones", true, false, true,
     2},
    {"burst_us", "fitted: short products against long ones", true, false, true, 1},
    {"mem_part", "fitted: products that read much against those that compute much", true, false,
     true, 2},
    {"visit_us", "fitted: products of different k", true, false, true, 2},
    {"add_us", "fitted: scatters, which add, against gathers", true, false, true, 2},
    {"idle_part", "fitted: products of few tiles against those of many", true, false, true, 2},
    {"epilogue_us", "fitted to small products", true, false, true, 2},
    {"launch_us", "fitted to small products", true, false, true, 1},
    {"sum_gbps", "fitted to strategies that sum what copies bring", true, false, true, 2},
    {"local_gbps", "fitted to strategies that copy within a rank", true, false, true, 2},
    {"copy_gbps", "fitted to gathers by copy engines, 6 to 240 MB", true, true, true, 2},
    {"copy_us", "fitted to gathers by copy engines", true, true, true, 2},
    {"peer_us", "fitted to gathers by copy engines", true, true, true, 3},
    {"store_gbps", "fitted to scatters with large n and small k", true, true, true, 2},
    {"store_us", "fitted to small scatters", true, true, true, 2},
    {"flag_us", "fitted to small all-reduces", true, true, true, 2},
    {"run_us", "fitted to small runs with and without peers", true, false, true, 2},
    {"tagged_us", "fitted to all-reduces of few rows, tagged and not", true, false, true, 2},
    {"hop_us", "fitted to tagged all-reduces of few rows, in two hops", true, false, true, 2},
    {"tagged_gbps", "fitted to all-reduces of few rows, tagged and not", true, false, true, 2},
    {"lane_us", "fitted to strategies whose lanes wait for each other", true, false, true, 2},
    {"join_us", "fitted to runs with and without lanes", true, false, true, 2},
    {"push_part", "fitted: gathers by launches against gathers by copy engines", true, false, true,
     2},
    {"gemm_by_copy", "fitted: products alone and beside copies", true, false, true, 2},
    {"vendor_by_copy", "fitted: the vendor's products alone and beside copies", true, false, true,
     2},
    {"copy_by_gemm", "fitted: copies beside long and short products", true, false, true, 2},
    {"gemm_by_coll", "fitted: products alone and beside collectives", true, false, true, 2},
    {"coll_by_gemm", "fitted: collectives alone and beside products", true, false, true, 2},
    {"pack_gbps", "fitted to products alone", true, true, false, 1},
    {"unit_us", "fitted to small runs", true, true, false, 1},
    {"coll_us", "measured: the fastest collective of the smallest message", false, true, true, 2},
    {"coll_gbps", "measured: the largest message, median of kinds", false, true, true, 2},
    {"tile", "fitted to scatters that deep products hide", true, false, true, 2},
    {"coll_part", "fitted to products beside collectives with so many SMs", true, false, true, 2},
    {"coll_curve", "measured: collectives alone", false, true, true, 2},
};

const sg_calibrate_item *sg_calibrate_items(bool pool, int *count_out)
{
    *count_out = (int)(pool ? sizeof small / sizeof *small : sizeof large / sizeof *large);
    return pool ? small : large;
}

const double *sg_calibrate_messages(bool pool, int *count_out)
{
    *count_out = (int)(pool ? sizeof small_messages / sizeof *small_messages
                            : sizeof large_messages / sizeof *large_messages);
    return pool ? small_messages : large_messages;
}

const sg_calibrate_number *sg_calibrate_numbers(int *count_out)
{
    *count_out = (int)(sizeof numbers / sizeof *numbers);
    return numbers;
}
