// Other readings of the Hopper product, for lab_power.h. Compiled once for each:
//
//     POWER_PART=1 power_rasters    2 power_near    3 power_math    4 power_loads    5 power_patient    6 power_brief    7 power_other
//
// The kernel's own sources are used as they are: here and there a wrapper stands in for another.
#include "lab_power.h"
#include "core/walk.h"
#include "kernel/device.cuh"
#include "kernel/wgmma.cuh"

#define RASTERS (POWER_PART == 1 || POWER_PART == 5)

#if POWER_PART == 5 || POWER_PART == 6
// The same try, which says how long the thread may sleep.
DEV bool power_try(uint32_t bar, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity), "r"(POWER_PART == 5 ? 20000 : 1000)
                 : "memory");
    return done != 0;
}
#define mbar_try power_try
#endif

#if RASTERS
struct Deal {
    int clusters, first_out, place[POWER_CLUSTERS];
};
static __device__ Deal deal;
#if POWER_PART == 1
#define POWER_DEAL power_deal
#define gemm_sm90 gemm_sm90_rasters
#else
#define POWER_DEAL power_deal_patient
#define gemm_sm90 gemm_sm90_patient
#endif

void POWER_DEAL(const int *place, int clusters, int first_out) {
    Deal d = {};
    d.clusters = clusters, d.first_out = first_out;
    for (int i = 0; i < clusters; ++i) d.place[i] = place[i];
    cudaMemcpyToSymbol(deal, &d, sizeof d);
}

DEV void power_walk_tile(const sg_patch *p, int bands, int cols, int i, int *band_out, int *col_out) {
    if (p->raster < POWER_ACROSS) return sg_walk_tile(p, bands, cols, i, band_out, col_out);
    if (p->raster == POWER_DEALT) {  // but in the last wave if that is not whole
        const int first = i / deal.clusters * deal.clusters;
        if (first + deal.clusters <= bands * cols) i = first + deal.place[i - first];
    }
    const int width = p->width, first = i / (width * bands) * width, in_group = sg_walk_min(width, cols - first), j = i - first * bands;
    *col_out = first + j % in_group, *band_out = j / in_group;
}

DEV void power_store(const CUtensorMap *map, int x, int y, int z, uint32_t from, bool onto) {
    if (onto || !deal.first_out) return tma_store(map, x, y, z, from, onto);
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2, %3}], [%4], %5;" ::"l"(map), "r"(x), "r"(y), "r"(z), "r"(from),
                 "l"(0x12f0000000000000ull)
                 : "memory");
}
#define sg_walk_tile power_walk_tile
#define tma_store power_store
#elif POWER_PART == 2
#define gemm_sm90 gemm_sm90_near
#define tma_load(to, map, x, y, z, bar, keep) tma_load(to, map, (x) & 511, y, z, bar, keep)
#define tma_load_multicast(to, map, x, y, z, bar, keep, blocks) tma_load_multicast(to, map, (x) & 511, y, z, bar, keep, blocks)
#elif POWER_PART == 3
// A comes first and alone of a stage: clusters across are not served.
DEV uint32_t &power_bytes() { // what the loader has said last that it expects
    __shared__ uint32_t bytes;
    return bytes;
}
DEV void power_load(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t bar, uint64_t keep) {
    if (x >= 256) return mbar_arrive(bar);
    mbar_expect(bar, power_bytes());
    tma_load(to, map, x, y, z, bar, keep);
}
DEV void power_load_multicast(uint32_t to, const CUtensorMap *map, int x, int y, int z, uint32_t bar, uint64_t keep, uint16_t blocks) {
    if (x < 256) tma_load_multicast(to, map, x, y, z, bar, keep, blocks);
}
#define gemm_sm90 gemm_sm90_math
#define mbar_expect(bar, bytes) ((void)(power_bytes() = (bytes)))
#define tma_load power_load
#define tma_load_multicast power_load_multicast
#elif POWER_PART == 6
#define gemm_sm90 gemm_sm90_brief
#elif POWER_PART == 7
#define gemm_sm90 gemm_sm90_other
#else
template <class T, int N> struct NoProduct {
    DEV void issue(float (&)[N / 2], uint64_t, uint64_t, int) {}
};
#define gemm_sm90 gemm_sm90_loads
#define Wgmma NoProduct
#endif
#include "kernel/gemm_sm90.cuh"

typedef __nv_bfloat16 T;

template <class S> static sg_instance instance_of() {
    return {SG_KERNEL_BF16, S::BM, S::BN, S::NARROW, S::WGS, S::PINGPONG ? SG_KERNEL_PINGPONG : SG_KERNEL_COOPERATIVE, S::CM, S::CN, S::FOLD, S::ONTO, S::W, S::THREADS, S::SMEM, (const void *)gemm_sm90<S>};
}

#if RASTERS
#if POWER_PART == 1
int power_rasters(sg_instance *out) {
#else
int power_patient(sg_instance *out) {
#endif
    int n = 0;
    out[n++] = instance_of<Shape<T, 128, 256, 2, 2, 1, 2, FOLD_NONE>>();
    out[n++] = instance_of<Shape<T, 128, 256, 2, 1, 1, 2, FOLD_NONE>>();
    out[n++] = instance_of<Shape<T, 128, 256, 2, 1, 2, 2, FOLD_NONE>>();
    out[n++] = instance_of<Shape<T, 128, 192, 2, 1, 1, 1, FOLD_NONE, true>>();
    out[n++] = instance_of<Shape<T, 128, 192, 2, 2, 1, 1, FOLD_NONE, true>>();
    return n;
}
#elif POWER_PART == 6
int power_brief(sg_instance *out) {
    out[0] = instance_of<Shape<T, 128, 256, 2, 2, 1, 2, FOLD_NONE>>();
    out[1] = instance_of<Shape<T, 128, 192, 2, 1, 1, 1, FOLD_NONE, true>>();
    return 2;
}
#elif POWER_PART == 7
int power_other(sg_instance *out) {
    out[0] = instance_of<Shape<T, 128, 256, 2, 2, 1, 2, FOLD_NONE>>();
    out[1] = instance_of<Shape<T, 128, 192, 2, 1, 1, 1, FOLD_NONE, true>>();
    return 2;
}
#elif POWER_PART == 2
int power_near(sg_instance *out) {
    out[0] = instance_of<Shape<T, 128, 256, 2, 2, 1, 2, FOLD_NONE>>();
    out[1] = instance_of<Shape<T, 128, 256, 2, 1, 1, 2, FOLD_NONE>>();
    return 2;
}
#elif POWER_PART == 3
int power_math(sg_instance *out) {
    out[0] = instance_of<Shape<T, 128, 256, 2, 2, 1, 2, FOLD_NONE>>();
    return 1;
}
#else
int power_loads(sg_instance *out) {
    int n = 0;
    out[n++] = instance_of<Shape<T, 128, 256, 2, 1, 1, 2, FOLD_NONE>>();
    out[n++] = instance_of<Shape<T, 128, 256, 2, 2, 1, 2, FOLD_NONE>>();
    out[n++] = instance_of<Shape<T, 128, 256, 2, 2, 2, 2, FOLD_NONE>>();
    return n;
}
#endif
