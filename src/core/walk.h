/* walk.h -- in which order a launch visits its tiles, and which flags a visit waits for.
 *
 * Plain inline C on 32-bit integers that nvcc compiles too: kernels, CPU workers, simulator and
 * checker all call these functions, so order and flag arithmetic exist once.
 */
#ifndef SG_WALK_H
#define SG_WALK_H

#include <stdint.h>

#ifdef __CUDACC__
#define SG_WALK static inline __host__ __device__
#else
#define SG_WALK static inline
#endif

/* Order of the tiles inside a patch. */
enum sg_raster {
    SG_BY_ROW, /* along a band, then the next band */
    SG_BY_COL, /* down a column of tiles, then the next column */
    SG_GROUPED /* groups of `width` bands; inside a group down its bands, then the next column */
};

/* What one flag of a wait or raise stands for. */
enum sg_per {
    SG_PER_PATCH, /* all of it: one flag */
    SG_PER_ROWS,  /* waits only: a chunk of rows (and of k, if chunk_k is not 0) */
    SG_PER_TILE   /* a tile of the patch, counted along bands whatever the raster */
};

/* A rectangle of one rank's buffer, in elements.
 *
 * A tiled area, which only a patch stores to or adds, is a column of places, each as large as a
 * tile: visit i of the patch has place i, at row0 + i * tile_m.  A tile at the patch's edge stands
 * in the upper left corner of its place; a store fills the rest with zeros. */
typedef struct sg_area {
    int16_t rank;
    uint8_t buf;
    uint8_t leave : 1; /* sealed: a store here waits for that rank's hello first */
    uint8_t tiled : 1;
    int32_t row0, rows, col0, cols;
} sg_area;

/* Flags of rank BY in this rank's memory. */
typedef struct sg_wait {
    int16_t by;
    uint8_t per;   /* SG_PER_PATCH, SG_PER_ROWS, SG_PER_TILE */
    int32_t flag0; /* first flag */
    int32_t row0; /* PER_ROWS: product row at which chunk 0 starts (may lie before the patch) ... */
    int32_t rows; /* ... how many rows from there on it covers ... */
    int32_t chunk;    /* ... and the rows of one chunk */
    int32_t chunk_k;  /* PER_ROWS: k of one flag, 0 if a flag stands for all k */
    int32_t chunks_k; /* PER_ROWS: flags side by side for one chunk of rows; 1 if chunk_k is 0 */
} sg_wait;

/* Something summed: an area as large as the patch (or the reduced rows), readable after its
 * wait. */
typedef struct sg_addend {
    sg_area area;
    sg_wait wait;
    int32_t waits; /* 0: readable at once; 1: after `wait` */
} sg_addend;

/* A raise sets flags of this rank in the memory of AT. */
typedef struct sg_raise {
    int16_t at;
    uint8_t per; /* SG_PER_PATCH (or step), SG_PER_TILE */
    int32_t flag0;
    int32_t counter; /* sealed: first counter of the raisers, -1 if there is one raiser a flag */
} sg_raise;

/* A rectangle of the product, cut into tiles from its upper left corner, walked in one
 * raster, all of it or a range.  A patch of no product (k0 == k1) sums its addends alone; its
 * rows are then rows of what it stores.  Waits, addends, stores and raises are ranges of the
 * schedule's lists (sched.h). */
typedef struct sg_patch {
    int32_t row0, rows, col0, cols; /* of the product, in elements; never empty */
    int32_t k0, k1;                 /* range of k this patch multiplies; equal for no product */
    int32_t slab;         /* waits may stand at every multiple of slab after k0; 0: at k0 */
    uint8_t raster;       /* enum sg_raster */
    uint8_t width;        /* bands of a group, for SG_GROUPED */
    uint8_t final;        /* values are complete: bias and activation are applied */
    uint8_t own_rounded;  /* the own product is rounded to the type before addends join it */
    uint16_t own_at;      /* the own product is added after this many addends */
    uint8_t onto;         /* sealed: its one addend is what lies wherever it stores */
    int32_t tile_n;       /* columns of its tiles, fewer than the launch's have; 0: as many */
    int32_t tile0, tiles; /* the range of the raster that is visited; tiles 0: all */
    sg_area a, b;         /* read: rows x (k1 - k0) and cols x (k1 - k0) */
    int32_t wait0, add0, to0, raise0;
    uint16_t waits, adds, tos, raises;
} sg_patch;

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

/* Visits of a patch. */
SG_WALK int32_t sg_walk_visits(const struct sg_patch *p, int32_t tile_m, int32_t tile_n)
{
    return p->tiles > 0 ? p->tiles : sg_walk_bands(p, tile_m) * sg_walk_cols(p, tile_n);
}

/* Tiles of a launch of PATCHES that its waves are made of: all, or those that are not narrower, for
 * which the others are a wave of their own. */
SG_WALK int32_t sg_walk_in_waves(const struct sg_patch *patch, int32_t patches, int32_t tile_m,
                                 int32_t tile_n)
{
    int32_t all = 0, wide = 0;
    for (int32_t i = 0; i < patches; ++i) {
        const int32_t visits = sg_walk_visits(&patch[i], tile_m, tile_n);
        all += visits;
        if (patch[i].tile_n == 0) wide += visits;
    }
    return wide > 0 ? wide : all;
}

/* The fewest blocks that go through UNITS, of which there are some, in no more waves than MOST. */
SG_WALK int32_t sg_walk_fewest(int64_t units, int32_t most)
{
    const int64_t waves = (units + most - 1) / most;
    return (int32_t)((units + waves - 1) / waves);
}

/* Blocks of MOST that UNITS, which take about as long each, are dealt to: the fewest, if that
 * leaves two to six of 132 SMs to nobody.  What those do not draw and ask for the others have (two
 * H200s: 8192x8192x4096 scattered on 132 SMs 713 us, on 128 704;
 * results/gpu/even_2xh200_v1.json). */
SG_WALK int32_t sg_walk_even(int64_t units, int32_t most)
{
    if (most < 1 || units <= most) return (int32_t)units;
    const int32_t even = sg_walk_fewest(units, most);
    return most - even <= most / 20 && most - even >= most / 50 ? even : most;
}

/* Blocks that only carry rows: ENOUGH are as fast as any link, and one of so many is a herald. */
enum {
    SG_COURIERS_LEAST = 4,
    SG_COURIERS_OF_HERALD = 8,
    SG_COURIERS_ENOUGH = 16,
    SG_COURIERS_MOST = 32
};

/* Have so many COURIERS carried CARRIED bytes to peers well before WORKERS have multiplied what a
 * launch of PATCHES multiplies?  By what a courier carries and a block multiplies in a microsecond
 * (H200s, H100s). */
SG_WALK int32_t sg_walk_carry_in_time(const struct sg_patch *patch, int32_t patches, double carried,
                                      double couriers, double workers)
{
    const double each = 35e3, block = 2.6e6, part = 0.75;
    double products = 0;
    for (int32_t i = 0; i < patches; ++i)
        products += (double)patch[i].rows * patch[i].cols * (double)(patch[i].k1 - patch[i].k0);
    return carried <= part * products / (block * workers) * each * couriers;
}

/* Of SPARE blocks, which WORKERS leave over, those that carry; fewer than ENOUGH do if they are
 * done in time, and otherwise who stores tiles carries. */
SG_WALK int32_t sg_walk_couriers(const struct sg_patch *patch, int32_t patches, double carried,
                                 int32_t spare, int32_t workers)
{
    if (spare < SG_COURIERS_LEAST) return 0;
    if (spare < SG_COURIERS_ENOUGH &&
        !sg_walk_carry_in_time(patch, patches, carried, spare, workers))
        return 0;
    return spare < SG_COURIERS_MOST ? spare : SG_COURIERS_MOST;
}

/* Are tiles whose rows begin at odd 16 bytes shared in clusters that have PLACES for TILES?  One in
 * ten may be left without a tile. */
SG_WALK int32_t sg_walk_shares_odd(int64_t places, int64_t tiles)
{
    return places * 10 <= tiles * 11;
}

/* Do tiles of a launch of PATCHES take about as long each, and does nobody wait for the last ones?
 * Of an all-reduce's, a part of a wave is sooner stored at all ranks than a whole one. */
SG_WALK int32_t sg_walk_alike(const struct sg_patch *patch, int32_t patches)
{
    if (patches < 1 || patch[patches - 1].raises > 0) return 0;
    for (int32_t i = 0; i < patches; ++i) {
        if (patch[i].k1 - patch[i].k0 != patch[0].k1 - patch[0].k0) return 0;
        if (patch[i].tile_n != patch[0].tile_n) return 0;
    }
    return 1;
}

/* Do the first tiles of a launch of PATCHES, one for each of BLOCKS, all wait for something?  Then
 * its storers carry the first of what it pushes, having nothing else to do. */
SG_WALK int32_t sg_walk_all_wait(const struct sg_patch *patch, int32_t patches, int32_t tile_m,
                                 int32_t tile_n, int32_t blocks)
{
    for (int32_t i = 0; i < patches && blocks > 0; ++i) {
        if (patch[i].waits == 0) return 0;
        blocks -= sg_walk_visits(&patch[i], tile_m, tile_n);
    }
    return 1;
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
    if (cm * cn == 1) return sg_walk_visits(p, tile_m, tile_n);
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
