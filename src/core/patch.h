/* patch.h -- what a launch multiplies, and what it waits for, adds, stores and raises: lists of a
 * schedule (sched.h) in the form in which kernels read them.
 *
 * Plain C on 32-bit integers that nvcc compiles too. */
#ifndef SG_PATCH_H
#define SG_PATCH_H

#include <stdint.h>

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
    int32_t awaited; /* 0: readable at once; 1: after `wait` */
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
 * schedule's lists (sched.h).
 *
 * Where k lies in several places, so does the product: patches of the same tiles go on with that of
 * the one before them, in the same visits.  They have waits, and nothing else of their own, and
 * none of them is cut into slabs. */
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
    uint8_t goes_on;      /* with the product of the patch before it: it has no visits of its own */
    uint8_t more;         /* counted: so many patches behind it go on with its product ... */
    int32_t rest;         /* ... and multiply so much of k */
    int32_t tile_n;       /* columns of its tiles, fewer than the launch's have; 0: as many */
    int32_t tile0, tiles; /* the range of the raster that is visited; tiles 0: all */
    sg_area a, b;         /* read: rows x (k1 - k0) and cols x (k1 - k0) */
    int32_t wait0, add0, to0, raise0;
    uint16_t waits, adds, tos, raises;
} sg_patch;

#endif
