/* walk.h -- in which order a launch visits its tiles, and which flags a visit waits for.
 *
 * Plain inline C that nvcc compiles too: kernels, CPU workers, simulator and checker all call these
 * functions, so order and flag arithmetic exist once. */
#ifndef SG_WALK_H
#define SG_WALK_H

#include "core/patch.h"

#ifdef __CUDACC__
#define SG_WALK static inline __host__ __device__
#else
#define SG_WALK static inline
#endif

/* Flags first, first + step, ... (count of them). */
typedef struct sg_flags {
    int32_t first, step, count;
} sg_flags;

/* a / b, rounded up; neither is negative.  In 64 bits it would be ten times
 * the instructions on a GPU. */
SG_WALK int32_t sg_walk_div(int32_t a, int32_t b)
{
    return (int32_t)(((uint32_t)a + (uint32_t)b - 1) / (uint32_t)b);
}

SG_WALK int32_t sg_walk_min(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

SG_WALK int32_t sg_walk_bands(const struct sg_patch *p, int32_t tile_m)
{
    return sg_walk_div(p->rows, tile_m);
}

/* Columns of a tile of P in a launch of tiles with TILE_N. */
SG_WALK int32_t sg_walk_width(const struct sg_patch *p, int32_t tile_n)
{
    return p->tile_n > 0 ? p->tile_n : tile_n;
}

SG_WALK int32_t sg_walk_cols(const struct sg_patch *p, int32_t tile_n)
{
    return sg_walk_div(p->cols, sg_walk_width(p, tile_n));
}

/* Tiles of the whole raster of a patch. */
SG_WALK int64_t sg_walk_tiles(const struct sg_patch *p, int32_t tile_m, int32_t tile_n)
{
    return (int64_t)sg_walk_bands(p, tile_m) * sg_walk_cols(p, tile_n);
}

/* Those that are visited: none for its own sake of a patch that goes on with another's product. */
SG_WALK int32_t sg_walk_visits(const struct sg_patch *p, int32_t tile_m, int32_t tile_n)
{
    if (p->goes_on) return 0;
    return p->tiles > 0 ? p->tiles : sg_walk_bands(p, tile_m) * sg_walk_cols(p, tile_n);
}

/* Tile I of BANDS x COLS tiles in RASTER, with groups of WIDTH bands (0: one). */
SG_WALK void sg_walk_raster(uint8_t raster, int32_t width, int32_t bands, int32_t cols, int32_t i,
                            int32_t *band_out, int32_t *col_out)
{
    if (raster == SG_BY_ROW) {
        *band_out = i / cols;
        *col_out = i % cols;
    } else if (raster == SG_BY_COL) {
        *band_out = i % bands;
        *col_out = i / bands;
    } else {
        if (width == 0) width = 1;
        const int32_t group = i / (width * cols);
        const int32_t first = group * width;
        const int32_t in_group = sg_walk_min(width, bands - first);
        const int32_t j = i - first * cols;
        *band_out = first + j % in_group;
        *col_out = j / in_group;
    }
}

/* Tile I (of the whole raster: tile0 + the visit's number) of a patch of BANDS
 * x COLS tiles in its raster. */
SG_WALK void sg_walk_tile(const struct sg_patch *p, int32_t bands, int32_t cols, int32_t i,
                          int32_t *band_out, int32_t *col_out)
{
    sg_walk_raster(p->raster, p->width, bands, cols, i, band_out, col_out);
}

/* What is dealt to the blocks of a launch is units: tiles, or for clusters of blocks
 * CM tiles down and CN across.  At the edges a cluster overhangs.  Only units of one
 * tile know of a range of tiles. */
SG_WALK int32_t sg_walk_units(const struct sg_patch *p, int32_t tile_m, int32_t tile_n, int32_t cm,
                              int32_t cn)
{
    if (cm * cn == 1 || p->goes_on) return sg_walk_visits(p, tile_m, tile_n);
    return sg_walk_div(sg_walk_bands(p, tile_m), cm) * sg_walk_div(sg_walk_cols(p, tile_n), cn);
}

/* Band and column of the first tile of unit I of a patch; units are walked as tiles are. */
SG_WALK void sg_walk_unit(const struct sg_patch *p, int32_t tile_m, int32_t tile_n, int32_t cm,
                          int32_t cn, int32_t i, int32_t *band_out, int32_t *col_out)
{
    const int32_t bands = sg_walk_div(sg_walk_bands(p, tile_m), cm);
    const int32_t cols = sg_walk_div(sg_walk_cols(p, tile_n), cn);
    if (cm * cn == 1) i += p->tile0;
    sg_walk_raster(p->raster, sg_walk_div(p->width, cm), bands, cols, i, band_out, col_out);
    *band_out *= cm, *col_out *= cn;
}

/* The other way: which tile of the raster is the one in BAND and COL. */
SG_WALK int32_t sg_walk_index(const struct sg_patch *p, int32_t bands, int32_t cols, int32_t band,
                              int32_t col)
{
    if (p->raster == SG_BY_ROW) return band * cols + col;
    if (p->raster == SG_BY_COL) return col * bands + band;
    const int32_t width = p->width ? p->width : 1;
    const int32_t first = band / width * width;
    return first * cols + col * sg_walk_min(width, bands - first) + (band - first);
}

/* Slabs of a visit: at least one, so that waits at k0 have a place even without a product. */
SG_WALK int32_t sg_walk_slabs(const struct sg_patch *p)
{
    return p->slab > 0 && p->k1 > p->k0 ? sg_walk_div(p->k1 - p->k0, p->slab) : 1;
}

/* The same with those of the patches that go on with its product, one each. */
SG_WALK int32_t sg_walk_all_slabs(const struct sg_patch *p)
{
    return p->more + sg_walk_slabs(p);
}

/* Of which of these patches slab *SLAB of a visit of P is, and as which of its own. */
SG_WALK const struct sg_patch *sg_walk_slab(const struct sg_patch *p, int32_t *slab)
{
    const int32_t behind = sg_walk_min(*slab, p->more);
    *slab -= behind;
    return p + behind;
}

/* k of all of a visit. */
SG_WALK int32_t sg_walk_depth(const struct sg_patch *p)
{
    return p->k1 - p->k0 + p->rest;
}

/* Flags of W that rows [row, row + rows) of the product need for the slab that begins at K0. */
SG_WALK struct sg_flags sg_walk_wait(const struct sg_wait *w, int32_t row, int32_t rows, int32_t k0,
                                     int32_t tile)
{
    struct sg_flags f = {0, 1, 0};
    if (w->per == SG_PER_PATCH) {
        f.first = w->flag0;
        f.count = 1;
    } else if (w->per == SG_PER_TILE) {
        f.first = w->flag0 + tile;
        f.count = 1;
    } else {
        const int32_t low = row > w->row0 ? row : w->row0;
        const int32_t high = sg_walk_min(row + rows, w->row0 + w->rows);
        if (low < high) {
            const int32_t c0 = (low - w->row0) / w->chunk;
            const int32_t c1 = (high - 1 - w->row0) / w->chunk;
            /* A slab lies inside one chunk of k (seal.c verifies it). */
            f.first = w->flag0 + c0 * w->chunks_k + (w->chunk_k > 0 ? k0 / w->chunk_k : 0);
            f.step = w->chunks_k;
            f.count = c1 - c0 + 1;
        }
    }
    return f;
}

#endif
