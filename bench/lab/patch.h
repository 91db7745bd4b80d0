/* The patch list: what one launch of the persistent GEMM computes, in which order, from where, to where, and whom it
 * waits for.  Plain C, read alike by the host's planner and by every role of the kernel.
 *
 * A visit is one tile (or, in a cluster, one tile per block of the cluster) over one range of k.  Visits are dealt to the
 * clusters of the grid round robin, in list order.  Nothing ever waits for a later visit of the same list, and the whole
 * grid is resident, so the list cannot deadlock by itself. */
#pragma once
#include <cuda.h>
#include <stdint.h>

#ifdef __CUDACC__
#define LAB_FN static __host__ __device__ __forceinline__
#else
#define LAB_FN static inline
#endif

enum { LAB_PATCHES = 24, LAB_AREAS = 32, LAB_A_MAPS = 2, LAB_C_MAPS = 4, LAB_SLAB = 64 /* k of one pipeline stage, 128 bytes */ };

enum lab_raise { RAISE_NONE, RAISE_TILE, RAISE_COUNTED };

typedef struct lab_patch {
    int32_t bands, cols;           /* tiles down and across */
    int32_t a_row, c_row, col;     /* first row in the map of A, first row in the maps of C, first column: elements */
    int32_t k0, k1;                /* elements; k0 is a multiple of LAB_SLAB */
    int32_t visits;                /* cluster units in this patch; filled in by lab_patch_close */
    uint8_t across, width;         /* order inside: strips `width` units wide, running across or down the rectangle */
    uint8_t a;                     /* which map the rows of A come from */
    uint8_t c_maps;                /* bit set of the maps of C the finished tile is stored to; 0: to the area */
    uint8_t area;                  /* else: the tiled area it goes to, and whose flags RAISE_TILE raises */
    uint8_t add0, adds, own_at;    /* areas added to the product, in this order; own product before addend own_at */
    int32_t wait0;                 /* first flag word of this patch ... */
    int32_t wait_rows, wait_k;     /* ... one per this many rows (0: no waiting) and, if not 0, per this many k */
    uint8_t raise, raise_bands;    /* counted: one flag per this many bands */
    int32_t raise0;                /* first count word, and first raised flag */
} lab_patch;

/* Tiles in the order band * cols + col, each in the private order in which the threads of the kernel hold it. */
typedef struct lab_area {
    char *base;
    uint64_t *flag; /* one word per tile, in the memory that base is in */
} lab_area;

/* First trouble wins; whoever waits looks at `abort` and drains. */
typedef struct lab_trouble {
    uint32_t abort, role, patch, index;
    uint64_t seen, wanted;
} lab_trouble;

typedef struct lab_launch {
    CUtensorMap a[LAB_A_MAPS], b, c[LAB_C_MAPS];
    lab_area area[LAB_AREAS];
    const uint64_t *wait_flag;
    uint64_t *raise_flag;
    uint32_t *count; /* zero at rest */
    lab_trouble *trouble;
    uint64_t epoch, limit_ns;
    uint64_t keep_a, keep_b, keep_c; /* L2 policies: KEEP_* in ptx.cuh */
    uint64_t *stamp; /* if set, eight words a block: nanoseconds and cycles at entry, math begins, first stage, math ends */
    int32_t patches, visits;
    int32_t wait_slabs;             /* flags along k in one row of flags */
    int32_t load_bytes;             /* of one stage: less than its size where A has fewer rows than a tile */
    int32_t burst;                     /* slabs asked for together */
    lab_patch patch[LAB_PATCHES];
} lab_launch;

LAB_FN int lab_ceil(int a, int b) { return (a + b - 1) / b; }

/* cm, cn: tiles of a cluster down and across. */
LAB_FN void lab_patch_close(lab_patch *p, int cm, int cn) { p->visits = lab_ceil(p->bands, cm) * lab_ceil(p->cols, cn); }

/* Visit i of a patch, for the block at (im, in) of its cluster. Returns whether that tile lies in the rectangle: in an odd
 * rectangle a cluster overhangs, and the block beyond the edge goes through the motions and stores nothing. */
LAB_FN bool lab_walk(const lab_patch *p, int i, int cm, int cn, int im, int in, int *band, int *col) {
    int down = lab_ceil(p->bands, cm), over = lab_ceil(p->cols, cn);
    int thick = p->across ? down : over; /* strips are cut along this side ... */
    int runs = p->across ? over : down;  /* ... and run along this one */
    int strip = i / (p->width * runs), rest = i - strip * p->width * runs;
    int wide = thick - strip * p->width;
    wide = wide < p->width ? wide : p->width;
    int run = rest / wide, at = strip * p->width + rest - run * wide;
    *band = (p->across ? at : run) * cm + im;
    *col = (p->across ? run : at) * cn + in;
    return *band < p->bands && *col < p->cols;
}
