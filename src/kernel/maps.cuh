/* maps.cuh -- the tensor maps of a launch: of each matrix one for each use that its kernel makes
 * of it (gemm.cu). */
#pragma once
#include "kernel/needs.cuh"

typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                              const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                              const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static encode_fn encoder(void)
{
    static const encode_fn fn = [] {
        void *found = nullptr;
        cudaDriverEntryPointQueryResult result;
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                             cudaEnableDefault, &result) != cudaSuccess)
            found = nullptr;
        return (encode_fn)found;
    }();
    return fn;
}

/* The matrix in boxes of BOX_ROWS x BOX_COLS; a third dimension leads from one half to the other.
 * Beyond the edges zeros are read and nothing is written. */
static const char *encode_map(CUtensorMap *map, int type, const sg_kernel_place *place,
                              int box_rows, int box_cols)
{
    const encode_fn encode = encoder();
    if (encode == nullptr) return "the driver has no tensor maps";
    const uintptr_t d0 = (uintptr_t)place->data[0], d1 = (uintptr_t)place->data[1];
    const uintptr_t low = d0 < d1 ? d0 : d1, apart = (d0 < d1 ? d1 : d0) - low;
    if (low % 16 != 0 || apart % 16 != 0 || place->pitch % 16 != 0)
        return "a matrix or its rows are not aligned to 16 bytes";
    if (place->pitch <= 0 || place->pitch >> 40 != 0 || apart >> 40 != 0 || place->rows < 1 ||
        place->cols < 1)
        return "a matrix is beyond what tensor maps hold";
    const cuuint64_t size[3] = {(cuuint64_t)place->cols, (cuuint64_t)place->rows, apart ? 2u : 1u};
    const cuuint64_t stride[2] = {(cuuint64_t)place->pitch,
                                  apart ? (cuuint64_t)apart : (cuuint64_t)place->pitch};
    const cuuint32_t box[3] = {(cuuint32_t)box_cols, (cuuint32_t)box_rows, 1};
    const cuuint32_t step[3] = {1, 1, 1};
    const CUtensorMapSwizzle swizzle = box_cols == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                                       : box_cols == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                       : box_cols == 16 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                        : CU_TENSOR_MAP_SWIZZLE_NONE;
    const CUresult result = encode(
        map,
        type == SG_KERNEL_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        3, (void *)low, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? nullptr : "the driver refuses a tensor map";
}

/* Rows that are stored at a time of a piece that ends inside a matrix: as many as any such piece
 * has, so that the last ones are stored twice, or are part of what all have, if they are added. */
static int rows_at_a_time(const needs *n)
{
    int rows = 1;
    while (2 * rows <= n->least_odd && (!n->onto || n->odd_rows % (2 * rows) == 0)) rows *= 2;
    return rows;
}

/* Rows that a block loads of its SHARE of a tile's rows, or of its columns, where a patch ends
 * inside it: as many as any patch then needs.  Marks the places that need a map for them.  0: none
 * ends so.
 *
 * A row beyond a matrix takes the bulk engine three times as long as one within, since it fills it
 * with zeros (one H200, results/gpu/rest_h200_v1.json: 132x5120x8192 in 128x128 76 us, 256 rows in
 * the same tiles 43). */
static int rest_of(const sg_kernel_gemm *g, needs *n, bool of_b, int share)
{
    enum { SWIZZLED = 8 }; /* rows of a pattern */
    int rest = 0;
    for (int i = 0; i < g->param.patches; ++i) {
        const sg_patch *p = n->joined ? &n->first : &g->lists->patch[g->param.patch0 + i];
        const int left = (of_b ? p->cols : p->rows) % share;
        if (p->k0 >= p->k1 || left == 0 || (of_b && p->tile_n > 0)) continue;
        n->use[of_b ? p->b.buf : p->a.buf] |= of_b ? USE_B_REST : USE_A_REST;
        rest = rest < left ? left : rest;
    }
    return sg_walk_div(rest, SWIZZLED) * SWIZZLED;
}

/* The map of place I for one USE. */
static const char *make_map(sg_kernel_gemm *g, const sg_instance *k, int i, int use)
{
    /* In the order of the bits USE_A, USE_B, USE_PIECE, USE_ROW, USE_NARROW, USE_A_REST and
     * USE_B_REST: */
    const int w = k->piece_cols, cols[USES] = {64, 64, w, w, 64, 64, 64};
    const int rows[USES] = {k->bm / k->cn,   k->bn / k->cm,  64, g->param.line, k->narrow,
                            g->param.a_rest, g->param.b_rest};
    const sg_kernel_place *p = &g->param.program.place[i];
    g->param.flip[i] = p->data[0] == p->data[1] ? 0 : p->data[0] < p->data[1] ? 1 : 2;
    return encode_map(&g->param.map[g->param.map_of[i][use]], k->type, p, rows[use], cols[use]);
}

static const char *make_maps(sg_kernel_gemm *g, const sg_instance *k, needs *n)
{
    sg_kernel_gemm_param *param = &g->param;
    int count = 0;
    param->line = rows_at_a_time(n);
    param->a_rest = rest_of(g, n, false, k->bm / k->cn);
    param->b_rest = rest_of(g, n, true, k->bn / k->cm);
    memset(param->map_of, -1, sizeof param->map_of);
    for (int use = 0; use < USES; ++use)
        for (int i = 0; i < SG_KERNEL_PLACES; ++i) {
            if (!(n->use[i] & 1 << use)) continue;
            if (count == SG_KERNEL_MAPS && use >= MAP_A_REST) continue; /* it does without */
            if (count == SG_KERNEL_MAPS) return "the launch stores into too many matrices";
            param->map_of[i][use] = (int8_t)count++;
            const char *why = make_map(g, k, i, use);
            if (why != nullptr) return why;
        }
    return nullptr;
}
