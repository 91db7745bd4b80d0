/* more_problems.h -- what GPUs are tested with: forms of plans, and problems beside the plain
 * ones: epilogues, types, what is gathered, all-to-all, several B, a returned A; %d stands for
 * the ranks. */
#ifndef TESTS_MORE_PROBLEMS_H
#define TESTS_MORE_PROBLEMS_H

#include <string.h>

static const char *const ops[] = {"ag_gemm", "gemm_rs", "gemm_ar", "a2a_gemm", "gemm_a2a"};
enum { OPS = sizeof ops / sizeof ops[0] };

/* What a plan of that problem may look like, besides what is predicted to be best. */
enum { FORMS = 20 }; /* until NULL */
static const char *const forms[OPS][FORMS] = {
    {"fused_in{chunks=1,slabs=1,tile_m=128,tile_n=128,push=1}",
     "fused_in{chunks=4,slabs=1,tile_m=128,tile_n=256,push=1}",
     "fused_in{chunks=1,slabs=8,tile_m=128,tile_n=256,push=1}",
     "fused_in{chunks=1,slabs=8,tile_m=128,tile_n=256,push=3}",
     "fused_in{chunks=1,slabs=4,tile_m=128,tile_n=256,push=5}",
     "fused_in{chunks=1,slabs=4,tile_m=128,tile_n=128,push=0,strips=2}",
     "fused_in{chunks=1,slabs=4,tile_m=128,tile_n=128,push=1,strips=2}",
     "fused_in{chunks=2,slabs=1,tile_m=128,tile_n=256}", "ring{sub=2,vendor=1}", "ring{vendor=0}",
     "direct{vendor=1}", "dma{form=0,chunks=3}", "dma{form=1,chunks=2}", "dma{form=2,chunks=2}"},
    {"fused_add{tile_m=128,tile_n=128}", "fused_add{tile_m=128,tile_n=256}",
     "fused_add{tile_m=128,tile_n=192,strips=2}", "fused_add{subs=2,lag=1,tile_m=64,tile_n=128}",
     "fused_out{tile_m=128,tile_n=128}", "fused_out{tile_m=128,tile_n=256}",
     "fused_out{tile_m=128,tile_n=256,splits=3}", "fused_out{tile_m=128,tile_n=128,strips=3}",
     "fused_out{tile_m=128,tile_n=256,splits=2,strips=2}", "fused_out{tile_m=128,tile_n=192}",
     "fused_out{tile_m=128,tile_n=128,once=1,strips=2}",
     "fused_out{tile_m=128,tile_n=192,once=1,strips=2}", "ring{sub=2,vendor=1}", "ring{vendor=0}",
     "direct{vendor=1}", "dma{form=0,chunks=3}", "dma{form=1,chunks=2}", "dma{form=3,chunks=2}"},
    {"fused_add{tile_m=128,tile_n=128}", "fused_add{tile_m=128,tile_n=256,strips=1}",
     "fused_add{subs=2,lag=1,tile_m=128,tile_n=192,strips=1}",
     "fused_add{tile_m=64,tile_n=128,strips=3}", "fused_out{tile_m=128,tile_n=128}",
     "fused_out{tile_m=128,tile_n=256,once=1}", "fused_out{tile_m=128,tile_n=128,once=1}",
     "fused_out{subs=2,lag=1,tile_m=128,tile_n=128}",
     "fused_out{subs=2,lag=1,tile_m=128,tile_n=256,splits=4}",
     "fused_out{tile_m=128,tile_n=128,once=1,splits=2}",
     "fused_out{tile_m=128,tile_n=256,strips=2}",
     "fused_out{tile_m=128,tile_n=128,once=0,strips=0,tagged=0}",
     "fused_out{tile_m=128,tile_n=192,once=0,tagged=0}",
     "fused_out{subs=2,lag=1,tile_m=128,tile_n=256,once=0,splits=2,strips=0,tagged=0}",
     "ring{sub=2,vendor=1}", "ring{vendor=0}", "direct{vendor=1}", "dma{form=1,chunks=2}",
     "dma{form=3,chunks=2}"},
    {"fused_in{chunks=1,slabs=1,tile_m=128,tile_n=128,push=1}", "fused_in{chunks=2}"},
    {"fused_out{tile_m=128,tile_n=128}", "fused_out{tile_m=128,tile_n=128,strips=2}",
     "dma{form=1,chunks=2}"},
};

/* Plans that a rank does not come to. */
static const char *const missed[][3] = {
    {"ag_gemm", "fused_in{tile_m=128,tile_n=128,push=1}", ""},
    {"ag_gemm", "fused_in{chunks=1,slabs=4,tile_m=128,tile_n=64,push=4}", ""},
    {"gemm_ar", "fused_out{tile_m=128,tile_n=128}", ""},
    {"gemm_rs", "fused_out{tile_m=128,tile_n=128}", ""},
    {"gemm_rs", "fused_out{tile_m=64,tile_n=128,tagged=1}", ""},
    {"gemm_ar", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}", ""},
    {"gemm_ar", "fused_out{tile_m=64,tile_n=128,once=0,tagged=1}", ""},
    {"gemm_rs", "fused_add{tile_m=128,tile_n=256}", ""},
    {"gemm_ar", "fused_add{tile_m=128,tile_n=128}", ""},
    {"gemm_ar", "direct", ""},
    {"gemm_ar", "ring", ""},
    {"gemm_ar", "ring{tile_m=128,tile_n=128}", ""},
    {"gemm_rs", "dma{form=1,chunks=2}", ""},
    {"gemm_rs", "serial", ""},
    {"ag_gemm", "serial{windows=1}", ""},
    {"gemm_rs", "serial{windows=1}", ""},
    {"gemm_rs", "signal", ""},
    {"gemm_ar", "fused_out{tile_m=128,tile_n=128}", ":norm"},
    {"gemm_ar", "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}", ":norm"},
    {"gemm_rs", "fused_add{tile_m=128,tile_n=256}", ":norm"}};

/* Plans that take turns on one workspace: product, strategy, form. */
static const char *const mixed[][3] = {
    {"ag_gemm:bf16:3x512x512", "fused_in{tile_m=128,tile_n=128,push=1}", ""},
    {"ag_gemm:bf16:1025x512x256", "fused_in{chunks=2,tile_m=128,tile_n=256,push=1}", ""},
    {"ag_gemm:bf16:300x512x256", "fused_in{tile_m=128,tile_n=128}", ""},
    {"ag_gemm:bf16:70x512x256", "fused_in{chunks=1,slabs=2,tile_m=128,tile_n=64,push=4}", ""},
    {"ag_gemm:bf16:300x512x256", "ring{vendor=1}", ""},
    {"ag_gemm:bf16:1025x256x512", "serial", ""},
    {"gemm_rs:bf16:3x512x512", "fused_out{tile_m=128,tile_n=128}", ""},
    {"gemm_rs:bf16:1025x256x512", "fused_out{tile_m=128,tile_n=256}", ""},
    {"gemm_rs:bf16:70x512x256", "fused_out{tile_m=64,tile_n=64,tagged=1}", ""},
    {"gemm_rs:bf16:300x512x256", "direct", ""},
    {"gemm_rs:bf16:1025x256x512", "fused_add{tile_m=128,tile_n=128}", ""},
    {"gemm_ar:bf16:300x512x256", "fused_add{tile_m=128,tile_n=128,strips=1}", ""},
    {"gemm_rs:bf16:2048x1024x256", "signal", ""},
    {"gemm_ar:bf16:3x512x512", "fused_out{tile_m=128,tile_n=128,once=1}", ""},
    {"gemm_ar:bf16:1025x256x512", "fused_out{tile_m=128,tile_n=256}", ""},
    {"gemm_ar:bf16:70x512x256", "fused_out{tile_m=64,tile_n=64,once=1,tagged=1}", ""},
    {"gemm_ar:bf16:16x1024x256", "fused_out{tile_m=64,tile_n=32,once=1,tagged=1}", ""},
    {"gemm_ar:bf16:70x1024x256", "fused_out{tile_m=64,tile_n=64,once=0,tagged=1}", ""},
    {"gemm_ar:bf16:300x512x256", "ring", ""},
    {"gemm_ar:bf16:300x512x256", "dma{form=1,chunks=2}", ""},
    {"gemm_a2a:bf16:300x512x256", "fused_out{tile_m=128,tile_n=128}", ""},
    {"a2a_gemm:bf16:300x512x256", "serial", ""},
    {"gemm_ar:bf16:300x512x256", "fused_out{tile_m=128,tile_n=128}", ":bias:norm"},
    {"gemm_ar:bf16:16x1024x256", "fused_out{tile_m=64,tile_n=32,once=1,tagged=1}", ":norm"},
    {"gemm_rs:bf16:3x512x512", "fused_out{tile_m=128,tile_n=128}", ":norm"},
    {"gemm_rs:bf16:1025x256x512", "fused_add{tile_m=128,tile_n=128}", ":norm"},
    {"gemm_ar:bf16:300x512x256", "fused_add{tile_m=128,tile_n=128,strips=1}", ":norm"}};

/* Data that tell by themselves that they have come, in all tiles that take them: gathers, then
 * sums; the first of these are of all-reduces alone. */
enum { GATHER_FORMS = 8, ONE_HOP_FORMS = 7 };
static const char *const tagged_forms[] = {
    "fused_in{chunks=1,slabs=3,tile_m=64,tile_n=32,push=4}",
    "fused_in{chunks=1,slabs=1,tile_m=64,tile_n=64,push=4}",
    "fused_in{chunks=1,slabs=4,tile_m=64,tile_n=128,push=4}",
    "fused_in{chunks=1,slabs=8,tile_m=64,tile_n=256,push=4}",
    "fused_in{chunks=1,slabs=8,tile_m=128,tile_n=64,push=4}",
    "fused_in{chunks=1,slabs=2,tile_m=128,tile_n=96,push=4}",
    "fused_in{chunks=1,slabs=16,tile_m=128,tile_n=128,push=4}",
    "fused_in{chunks=1,slabs=4,tile_m=128,tile_n=256,push=4}",
    NULL,
    "fused_out{tile_m=64,tile_n=32,once=1,tagged=1}",
    "fused_out{tile_m=64,tile_n=64,once=1,tagged=1}",
    "fused_out{tile_m=64,tile_n=96,once=1,tagged=1}",
    "fused_out{tile_m=64,tile_n=128,once=1,tagged=1}",
    "fused_out{tile_m=128,tile_n=64,once=1,tagged=1}",
    "fused_out{tile_m=128,tile_n=96,once=1,tagged=1}",
    "fused_out{tile_m=128,tile_n=128,once=1,tagged=1}",
    "fused_out{tile_m=64,tile_n=32,once=0,tagged=1}",
    "fused_out{tile_m=64,tile_n=64,once=0,tagged=1}",
    "fused_out{tile_m=64,tile_n=96,once=0,tagged=1}",
    "fused_out{tile_m=64,tile_n=128,once=0,tagged=1}",
    "fused_out{tile_m=128,tile_n=64,once=0,tagged=1}",
    "fused_out{tile_m=128,tile_n=96,once=0,tagged=1}",
    "fused_out{tile_m=128,tile_n=128,once=0,tagged=1}",
    "fused_out{tile_m=128,tile_n=192,once=0,tagged=1}",
    NULL,
};

/* Those that PROBLEM may have, until NULL. */
static inline const char *const *tagged_forms_of(const char *problem)
{
    const char *const *const sums = tagged_forms + GATHER_FORMS + 1;
    if (strncmp(problem, "ag_gemm", 7) == 0 || strncmp(problem, "a2a_gemm", 8) == 0)
        return tagged_forms;
    if (strncmp(problem, "gemm_ar", 7) == 0) return sums;
    return strncmp(problem, "gemm_rs", 7) == 0 ? sums + ONE_HOP_FORMS : sums - 1;
}

static const char *const more_problems[] = {
    "ag_gemm:f16:520x264x256:r%d",
    "gemm_rs:f16:520x264x256:r%d",
    "gemm_ar:f16:520x264x256:r%d",
    "ag_gemm:bf16:300x512x512:r%d:bias:relu",
    "gemm_rs:bf16:300x512x512:r%d:bias",
    "gemm_ar:bf16:300x512x512:r%d:bias:silu",
    "gemm_ar:bf16:1000x512x512:r%d:cyclic=100",
    "ag_gemm:f32:300x512x512:r%d",
    "gemm_rs:f32:100x33x65:r%d",
    "gemm_ar:bf16:100x33x65:r%d",
    "gemm_ar:bf16:16x8192x1024:r%d",
    "gemm_ar:f16:65x1001x512:r%d:bias:gelu",
    "gemm:bf16:1000x1000x1000:r%d:bias:gelu",
    "ag_gemm:bf16:1000x1536x512:r%d:gather=b",
    "ag_gemm:bf16:7x2048x512:r%d:gather=b:bias",
    "ag_gemm:bf16:1000x512x1536:r%d:gather=k",
    "ag_gemm:bf16:300x512x1024:r%d:gather=k:accumulate",
    "ag_gemm:bf16:1000x512x512:r%d:accumulate",
    "ag_gemm:bf16:512x4096x512:r%d:accumulate",  /* of 132 SMs four are left: storers carry */
    "ag_gemm:bf16:2048x4224x512:r%d:accumulate", /* none is */
    "ag_gemm:f16:300x1024x512:r%d:gather=b:accumulate",
    "a2a_gemm:bf16:1000x512x512:r%d:bias:relu",
    "gemm_a2a:bf16:1000x512x512:r%d:bias:gelu",
    "ag_gemm:bf16:1000x768x512:r%d:b=512,128,128",
    "ag_gemm:bf16:2048x1200x1024:r%d:b=8,1184,8:bias:relu",
    "ag_gemm:f16:300x1096x512:r%d:b=536,24,536:return_a",
    "ag_gemm:bf16:1000x640x512:r%d:cyclic=100:b=320,320:return_a:accumulate",
    "ag_gemm:bf16:300x544x1024:r%d:b=500,44",
    "ag_gemm:bf16:64x2048x4096:r%d:cyclic=3",
    "ag_gemm:f32:300x513x65:r%d:b=500,13:return_a",
    "ag_gemm:bf16:7x512x512:r%d:b=256,128,128:return_a",
    "a2a_gemm:bf16:1000x512x512:r%d:b=256,256:return_a",
    "gemm:bf16:1000x1536x512:r%d:b=1024,256,256:bias:silu",
    "gemm_rs:bf16:1000x1536x512:r%d:norm",
    "gemm_ar:bf16:1000x1536x512:r%d:bias:norm=1e-6",
    "gemm_ar:f16:300x1096x512:r%d:norm",
    "gemm_rs:bf16:7x9000x512:r%d:norm",
    "gemm_rs:bf16:300x18432x128:r%d:cyclic=50:norm",
    "gemm_rs:f32:100x33x65:r%d:bias:norm",
};

/* Forms of a plan of one of those, until NULL. */
static inline const char *const *more_forms_of(const char *problem)
{
    static const char *const gather[] = {"fused_in{tile_m=128,tile_n=128,push=1}",
                                         "fused_in{slabs=8,tile_m=128,tile_n=128,push=3}",
                                         "fused_in{tile_m=128,tile_n=256,push=0}", NULL};
    static const char *const scatter[] = {"fused_out{tile_m=128,tile_n=256,splits=2}", NULL};
    return strncmp(problem, "ag_gemm", 7) == 0 ? gather : scatter;
}

#endif
