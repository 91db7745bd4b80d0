/* tile.c -- cuts a product into blocks that stay in the caches and calls a micro-kernel on them.
 *
 *     a block of C, at most BLOCK_ROWS x BLOCK_COLS, stays in the second-level cache
 *       for each SG_PACK_K of k:
 *         A: rows x SG_PACK_K, copied to the scratch (converted; no two rows on one cache set)
 *         for each panel of B (pack.h): one call of the micro-kernel, k ascending
 */
#include "backend/cpu/tile.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/micro.h"
#include "core/pool_sizes.h"

/* Chosen for the caches; halving or doubling one costs 1 to 2 % (EPYC, Zen 4, bench_gemm). */
enum {
    BLOCK_ROWS = SG_POOL_ROWS,
    BLOCK_COLS = SG_POOL_COLS,
    A_STRIDE = SG_PACK_K + 16,  /* rows start on different cache sets */
    C_STRIDE = BLOCK_COLS + 16, /* likewise */
    MAX_STRIDE = 1 << 22        /* libraries count bytes of a few rows, and of blocks, in 32 bits */
};

struct sg_tile_scratch {
    float *acc;
    int64_t acc_room;
    float *a; /* BLOCK_ROWS x A_STRIDE */
    float *b; /* a private block of B */
    float *c; /* BLOCK_ROWS x C_STRIDE: see multiply_block */
};

/* ---- Scratch --------------------------------------------------------------------------------- */

static float *get_floats(int64_t count)
{
    const int64_t line = 64;
    return aligned_alloc((size_t)line, (size_t)sg_round_up(count * (int64_t)sizeof(float), line));
}

shingle_status sg_tile_scratch_create(sg_tile_scratch **scratch_out)
{
    sg_tile_scratch *const scratch = calloc(1, sizeof *scratch);
    if (scratch != NULL) {
        scratch->a = get_floats(BLOCK_ROWS * A_STRIDE);
        scratch->b = get_floats(SG_MICRO_WIDTH * SG_PACK_K);
        scratch->c = get_floats(BLOCK_ROWS * C_STRIDE);
    }
    if (scratch == NULL || scratch->a == NULL || scratch->b == NULL || scratch->c == NULL) {
        sg_tile_scratch_free(scratch);
        return sg_fail(SHINGLE_ENOMEM, "no memory for a worker's tile");
    }
    *scratch_out = scratch;
    return SHINGLE_OK;
}

void sg_tile_scratch_free(sg_tile_scratch *scratch)
{
    if (scratch == NULL) return;
    free(scratch->acc);
    free(scratch->a);
    free(scratch->b);
    free(scratch->c);
    free(scratch);
}

shingle_status sg_tile_scratch_reserve(sg_tile_scratch *scratch, int64_t rows, int64_t cols)
{
    int64_t need = 0;
    int64_t bytes = 0;
    float *acc = NULL;
    if (sg_mul(rows, cols, &need) && need <= scratch->acc_room) return SHINGLE_OK;
    if (sg_mul(rows, cols, &need) && sg_mul(need, 2 * (int64_t)sizeof *acc, &bytes)) {
        acc = get_floats(need);
    }
    if (acc == NULL) {
        return sg_fail(SHINGLE_ENOMEM, "no memory for a tile of %lld x %lld", (long long)rows,
                       (long long)cols);
    }
    free(scratch->acc);
    scratch->acc = acc;
    scratch->acc_room = need;
    return SHINGLE_OK;
}

float *sg_tile_acc(const sg_tile_scratch *scratch)
{
    return scratch->acc;
}

/* ---- Product --------------------------------------------------------------------------------- */

/* One block of C and one block of k: rows [row0, row0 + rows) of the work, columns
 * [col0, col1) of B, k [k0, k1) inside block `block_k` of the pack. */
typedef struct piece {
    const sg_tile_work *work;
    const sg_pack_source *source;
    int64_t row0, rows, col0, col1, k0, k1, block_k;
    const float *a;
    float *c; /* the block's first element */
    int64_t c_stride;
    const char *next;   /* the first row of A at k1 */
    int64_t next_bytes; /* of a row that the next block of k reads; 0 after the last */
} piece;

static void multiply_panel(const piece *p, int64_t width, int64_t panel, const float *block)
{
    const int64_t first = sg_max(p->col0, panel * width);
    const int64_t end = sg_min(p->col1, (panel + 1) * width);
    const int64_t line = p->k0 - p->block_k * SG_PACK_K;
    const sg_tile_work *const work = p->work;
    const sg_micro micro = {
        .a = p->a,
        .a_stride = A_STRIDE,
        .b = block + line * width + (first - panel * width),
        .b_stride = width,
        .c = p->c + (first - p->col0),
        .c_stride = p->c_stride,
        .rows = p->rows,
        .cols = end - first,
        .k = p->k1 - p->k0,
        .accumulate = work->accumulate || p->k0 > work->k0,
    };
    sg_micro_engine()->multiply(&micro);
}

/* Fetches part PART of PARTS of the next block of A while this one is multiplied:
 * its rows are short and far apart, which the processor does not foresee.  Worth 3
 * to 5 % for tiles of 128 columns. */
static void prefetch_next(const piece *p, int64_t part, int64_t parts)
{
    const int64_t row_bytes = p->work->a_stride * sg_type_bytes(p->work->a_type);
    for (int64_t i = p->rows * part / parts; i < p->rows * (part + 1) / parts; i++) {
        const char *const row = p->next + i * row_bytes;
        for (int64_t x = 0; x < p->next_bytes; x += 64) __builtin_prefetch(row + x, 0, 2);
    }
}

/* Panels that another worker is packing are left for the end, when they are usually ready; what is
 * then still being packed is packed once more for this worker alone, so nobody ever waits. */
static void multiply_panels(const piece *p, sg_tile_scratch *scratch, sg_pack *pack)
{
    const sg_pack_source *const source = p->source;
    const int64_t width = source->width;
    const int64_t panel0 = p->col0 / width;
    const int64_t panels = sg_ceil_div(p->col1, width) - panel0;
    _Static_assert(2 * BLOCK_COLS / SG_MICRO_WIDTH + 1 <= 64, "a bit for every panel of a block");
    SG_ASSERT(panels <= 64);
    uint64_t busy = 0;
    for (int64_t i = 0; i < panels; i++) {
        const float *const block =
            p->work->alone ? NULL : sg_pack_get(pack, source, panel0 + i, p->block_k);
        prefetch_next(p, i, panels);
        if (block != NULL) {
            multiply_panel(p, width, panel0 + i, block);
        } else {
            busy |= UINT64_C(1) << i;
        }
    }
    for (int64_t i = 0; busy >> i != 0; i++) {
        if ((busy >> i & 1) == 0) continue;
        const float *block =
            p->work->alone ? NULL : sg_pack_get(pack, source, panel0 + i, p->block_k);
        if (block == NULL) {
            sg_pack_copy(pack, source, panel0 + i, p->block_k, scratch->b);
            block = scratch->b;
        }
        multiply_panel(p, width, panel0 + i, block);
    }
}

/* All k of one block of C.  In a C of long rows the block's rows lie a large power of two apart, or
 * nearly, and share a few sets of the second-level cache; what is read and written again for every
 * block of k is then kept in the scratch. */
static void multiply_block(sg_tile_scratch *scratch, sg_pack *pack, const sg_tile_work *work,
                           const sg_pack_source *source, int64_t row0, int64_t col0)
{
    float *const c = work->acc + row0 * work->acc_stride + col0;
    piece p = {.work = work, .source = source, .row0 = row0};
    p.rows = sg_min(BLOCK_ROWS, work->rows - row0);
    p.col0 = work->col0 + col0;
    p.col1 = sg_min(p.col0 + BLOCK_COLS, work->col0 + work->cols);
    const int64_t cols = p.col1 - p.col0;
    const bool moved = work->acc_stride > MAX_STRIDE ||
                       (work->acc_stride > 2 * C_STRIDE && work->k1 - work->k0 > 2 * SG_PACK_K);
    p.c = moved ? scratch->c : c;
    p.c_stride = moved ? C_STRIDE : work->acc_stride;
    if (moved && work->accumulate) {
        sg_convert_load_block(SG_F32, c, work->acc_stride, p.c, C_STRIDE, p.rows, cols);
    }
    const int64_t element = sg_type_bytes(work->a_type);
    for (p.k0 = work->k0; p.k0 < work->k1; p.k0 = p.k1) {
        p.block_k = p.k0 / SG_PACK_K;
        p.k1 = sg_min((p.block_k + 1) * SG_PACK_K, work->k1);
        const char *const a =
            (const char *)work->a + (row0 * work->a_stride + (p.k0 - work->k0)) * element;
        sg_convert_load_block(work->a_type, a, work->a_stride, scratch->a, A_STRIDE, p.rows,
                              p.k1 - p.k0);
        p.a = scratch->a;
        p.next = a + (p.k1 - p.k0) * element;
        p.next_bytes = sg_min(SG_PACK_K, work->k1 - p.k1) * element;
        multiply_panels(&p, scratch, pack);
    }
    if (moved) sg_convert_store_block(SG_F32, p.c, C_STRIDE, c, work->acc_stride, p.rows, cols);
}

static bool can_multiply_in_place(const sg_pack *pack, const sg_tile_work *work,
                                  const sg_pack_source *source)
{
    return sg_micro_engine()->multiply_transposed != NULL && work->a_type == SG_F32 &&
           pack->type == SG_F32 && work->a_stride <= MAX_STRIDE && source->stride <= MAX_STRIDE &&
           work->acc_stride <= MAX_STRIDE;
}

/* The whole work at once, by a library that blocks for the caches itself. */
static void multiply_in_place(const sg_tile_work *work, const sg_pack_source *source)
{
    const sg_micro micro = {
        .a = work->a,
        .a_stride = work->a_stride,
        .b = (const float *)source->b + work->col0 * source->stride + work->k0,
        .b_stride = source->stride,
        .c = work->acc,
        .c_stride = work->acc_stride,
        .rows = work->rows,
        .cols = work->cols,
        .k = work->k1 - work->k0,
        .accumulate = work->accumulate,
    };
    sg_micro_engine()->multiply_transposed(&micro);
}

void sg_tile_multiply(sg_tile_scratch *scratch, sg_pack *pack, const sg_tile_work *work)
{
    const sg_pack_source *const source = work->source != NULL ? work->source : &pack->one;
    if (work->rows <= 0 || work->cols <= 0) return;
    SG_ASSERT(work->k0 >= work->k1 || (work->k0 >= 0 && work->k1 <= source->k));
    SG_ASSERT(work->k0 >= work->k1 || (work->col0 >= 0 && work->col0 + work->cols <= source->n));
    if (work->k0 >= work->k1) {
        for (int64_t i = 0; !work->accumulate && i < work->rows; i++) {
            memset(work->acc + i * work->acc_stride, 0, (size_t)work->cols * sizeof *work->acc);
        }
    } else if (can_multiply_in_place(pack, work, source)) {
        multiply_in_place(work, source);
    } else {
        for (int64_t row0 = 0; row0 < work->rows; row0 += BLOCK_ROWS) {
            for (int64_t col0 = 0; col0 < work->cols; col0 += BLOCK_COLS) {
                multiply_block(scratch, pack, work, source, row0, col0);
            }
        }
    }
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Cost of pieces of ROW_STEP x COL_STEP on the busiest of WORKERS, in multiply-adds.  A
 * piece also copies its rows of A, fetches its columns of B and stores its C: worth about
 * 24, 8 and 64 of them an element. */
static double split_cost(int64_t rows, int64_t cols, int64_t k, int workers, int64_t row_step,
                         int64_t col_step)
{
    const int64_t pieces = sg_ceil_div(rows, row_step) * sg_ceil_div(cols, col_step);
    const double r = (double)row_step;
    const double c = (double)col_step;
    const double each = (r * c + 24.0 * r + 8.0 * c) * (double)k + 64.0 * r * c + 20000.0;
    return (double)sg_ceil_div(pieces, workers) * each;
}

sg_split sg_tile_split(int64_t rows, int64_t cols, int64_t k, int workers)
{
    enum { TRIES = 8 };
    sg_split best = {.rows = rows, .cols = cols, .row_step = rows, .col_step = cols, .pieces = 0};
    if (rows <= 0 || cols <= 0) return best;
    double least = 0.0;
    const int64_t bands = sg_ceil_div(rows, BLOCK_ROWS);
    const int64_t strips = sg_ceil_div(cols, BLOCK_COLS);
    for (int64_t i = bands; i < bands + TRIES; i++) {
        for (int64_t j = strips; j < strips + TRIES; j++) {
            const int64_t row_step = sg_ceil_div(rows, i);
            const int64_t col_step = sg_round_up(sg_ceil_div(cols, j), SG_MICRO_WIDTH);
            const double cost = split_cost(rows, cols, k, workers, row_step, col_step);
            if (best.pieces == 0 || cost < least) {
                least = cost;
                best.row_step = row_step;
                best.col_step = col_step;
                best.pieces = sg_ceil_div(rows, row_step) * sg_ceil_div(cols, col_step);
            }
        }
    }
    return best;
}

/* Pieces of one strip of columns follow each other: the workers then share its blocks of B. */
sg_tile_rect sg_tile_split_at(const sg_split *split, int64_t index)
{
    const int64_t bands = sg_ceil_div(split->rows, split->row_step);
    sg_tile_rect rect = {.row0 = index % bands * split->row_step,
                         .col0 = index / bands * split->col_step};
    rect.rows = sg_min(split->row_step, split->rows - rect.row0);
    rect.cols = sg_min(split->col_step, split->cols - rect.col0);
    return rect;
}

int sg_tile_shapes(sg_tile tile_out[SG_TILES])
{
    /* Rates: time of the processors for bench_gemm's product in pieces against that in tiles of
     * this shape, stored once more from the accumulators (EPYC, Zen 4, 2 threads). */
    static const sg_tile shapes[] = {
        {128, 512, 0.99, 1}, {128, 256, 0.98, 1}, {128, 128, 0.92, 1}, {64, 64, 0.80, 1}};
    _Static_assert(sizeof shapes / sizeof *shapes <= SG_TILES, "machine.tile has room for them");
    memcpy(tile_out, shapes, sizeof shapes);
    return (int)(sizeof shapes / sizeof *shapes);
}

const char *sg_tile_engine(void)
{
    return sg_micro_text();
}

bool sg_tile_is_one_chain(void)
{
    return strcmp(sg_micro_engine()->name, "cblas") != 0;
}

void sg_tile_init(void)
{
    (void)sg_micro_engine();
}
