/* Tests of walk.h: every raster visits every tile once and near ones together; the flags of a wait
 * are those that a search over all rows and chunks finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "core/blocks.h"
#include "core/walk.h"

static void every_tile_is_visited_once(void **state)
{
    (void)state;
    static const enum sg_raster rasters[] = {SG_BY_ROW, SG_BY_COL, SG_GROUPED};
    for (int32_t bands = 1; bands <= 9; bands++) {
        for (int32_t cols = 1; cols <= 9; cols++) {
            for (int r = 0; r < 3; r++) {
                for (int width = 0; width <= 11; width++) {
                    const sg_patch p = {.raster = (uint8_t)rasters[r], .width = (uint8_t)width};
                    unsigned char seen[81] = {0};
                    for (int32_t i = 0; i < bands * cols; i++) {
                        int32_t band = -1;
                        int32_t col = -1;
                        sg_walk_tile(&p, bands, cols, i, &band, &col);
                        assert_in_range(band, 0, bands - 1);
                        assert_in_range(col, 0, cols - 1);
                        assert_int_equal(seen[band * cols + col]++, 0);
                    }
                }
            }
        }
    }
}

static void rasters_have_their_order(void **state)
{
    (void)state;
    /* Tiles of a patch of 5 bands x 3 columns, as band * 10 + column. */
    static const struct {
        enum sg_raster raster;
        int width;
        int order[15];
    } cases[] = {
        {SG_BY_ROW, 0, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42}},
        {SG_BY_COL, 0, {0, 10, 20, 30, 40, 1, 11, 21, 31, 41, 2, 12, 22, 32, 42}},
        {SG_GROUPED, 2, {0, 10, 1, 11, 2, 12, 20, 30, 21, 31, 22, 32, 40, 41, 42}},
        {SG_GROUPED, 1, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42}},
        {SG_GROUPED, 9, {0, 10, 20, 30, 40, 1, 11, 21, 31, 41, 2, 12, 22, 32, 42}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const sg_patch p = {.raster = (uint8_t)cases[c].raster, .width = (uint8_t)cases[c].width};
        for (int32_t i = 0; i < 15; i++) {
            int32_t band = -1;
            int32_t col = -1;
            sg_walk_tile(&p, 5, 3, i, &band, &col);
            assert_int_equal(band * 10 + col, cases[c].order[i]);
        }
    }
}

static void tiles_and_slabs_are_counted(void **state)
{
    (void)state;
    for (int32_t rows = 1; rows < 20; rows++)
        for (int32_t tile = 1; tile < 24; tile++) {
            const sg_patch p = {.rows = rows, .cols = rows, .k0 = 3, .k1 = 3 + rows, .slab = tile};
            const int32_t count = (rows + tile - 1) / tile;
            assert_int_equal(sg_walk_bands(&p, tile), count);
            assert_int_equal(sg_walk_cols(&p, tile), count);
            assert_int_equal(sg_walk_slabs(&p), count);
        }
    const sg_patch empty = {.rows = 1, .cols = 1, .k0 = 5, .k1 = 5, .slab = 2};
    assert_int_equal(sg_walk_slabs(&empty), 1);
    const sg_patch whole = {.rows = 1, .cols = 1, .k0 = 0, .k1 = 9, .slab = 0};
    assert_int_equal(sg_walk_slabs(&whole), 1);
    const sg_patch large = {.rows = INT32_MAX, .cols = INT32_MAX};
    assert_int_equal(sg_walk_bands(&large, 128), 1 << 24);
    assert_int_equal(sg_walk_cols(&large, INT32_MAX), 1);
}

static void waits_of_patch_and_tile(void **state)
{
    (void)state;
    const sg_wait patch = {.per = SG_PER_PATCH, .flag0 = 7, .chunks_k = 1};
    const sg_wait tile = {.per = SG_PER_TILE, .flag0 = 7, .chunks_k = 1};
    struct sg_flags f = sg_walk_wait(&patch, 10, 5, 64, 3);
    assert_true(f.first == 7 && f.count == 1);
    f = sg_walk_wait(&tile, 10, 5, 64, 3);
    assert_true(f.first == 10 && f.count == 1);
}

/* Flag of row ROW and slab K0 by definition, or -1 if the wait does not cover the row. */
static int32_t flag_of(const sg_wait *w, int32_t row, int32_t k0)
{
    if (row < w->row0 || row >= w->row0 + w->rows) return -1;
    const int32_t chunk = (row - w->row0) / w->chunk;
    return w->flag0 + chunk * w->chunks_k + (w->chunk_k > 0 ? k0 / w->chunk_k : 0);
}

static void waits_by_rows_are_what_a_search_finds(void **state)
{
    (void)state;
    sg_random random = {(uint64_t)sg_now_us()};
    print_message("seed %llu\n", (unsigned long long)random.state);
    int covered = 0;
    for (int round = 0; round < 20000; round++) {
        const int32_t k = 1 + (int32_t)sg_random_below(&random, 40);
        sg_wait w = {.per = SG_PER_ROWS,
                     .flag0 = (int32_t)sg_random_below(&random, 50),
                     .row0 = (int32_t)sg_random_below(&random, 30),
                     .rows = 1 + (int32_t)sg_random_below(&random, 30),
                     .chunk = 1 + (int32_t)sg_random_below(&random, 12),
                     .chunks_k = 1};
        if (sg_random_below(&random, 2) == 0) {
            w.chunk_k = 1 + (int32_t)sg_random_below(&random, k);
            w.chunks_k = sg_walk_div(k, w.chunk_k);
        }
        const int32_t row = (int32_t)sg_random_below(&random, 60);
        const int32_t rows = 1 + (int32_t)sg_random_below(&random, 20);
        const int32_t k0 = (int32_t)sg_random_below(&random, k);

        unsigned char wanted[2000] = {0};
        unsigned char got[2000] = {0};
        for (int32_t x = row; x < row + rows; x++) {
            const int32_t flag = flag_of(&w, x, k0);
            if (flag >= 0) wanted[flag] = 1;
        }
        const struct sg_flags f = sg_walk_wait(&w, row, rows, k0, 0);
        for (int32_t i = 0; i < f.count; i++) got[f.first + i * f.step] = 1;
        assert_memory_equal(wanted, got, sizeof got);
        covered += f.count > 1;
    }
    assert_true(covered > 1000);
}

static void launches_are_dealt_evenly(void **state)
{
    (void)state;
    static const struct {
        int64_t units;
        int32_t most, even;
    } cases[] = {
        {1, 132, 1},     {132, 132, 132},  {264, 132, 132}, /* full waves */
        {256, 132, 128}, {512, 132, 128},  {1280, 132, 128},
        {640, 66, 64},                    /* in clusters */
        {378, 132, 126}, {375, 132, 132}, /* 125 would leave seven */
        {390, 132, 130}, {393, 132, 132}, /* 131 would leave one */
        {320, 132, 132}, {6144, 132, 132}, {76, 40, 38},
        {8, 8, 8},       {14, 8, 8},       {(int64_t)1 << 40, 132, 132},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(sg_blocks_even(cases[i].units, cases[i].most), cases[i].even);
}

static void launches_of_one_kind_are_told(void **state)
{
    (void)state;
    sg_patch p[3] = {{.k1 = 64}, {.k0 = 64, .k1 = 128}, {.k1 = 64}};
    assert_true(sg_blocks_alike(p, 3));
    assert_false(sg_blocks_alike(p, 0));
    p[0].raises = 1; /* somebody waits for tiles that are not the last */
    assert_true(sg_blocks_alike(p, 3));
    p[2].raises = 1;
    assert_false(sg_blocks_alike(p, 3));
    assert_true(sg_blocks_alike(p, 2));
    p[1].k1 = 64; /* a sum */
    assert_false(sg_blocks_alike(p, 2));
    p[1] = (sg_patch){.k1 = 64, .tile_n = 96};
    assert_false(sg_blocks_alike(p, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_is_visited_once),
        cmocka_unit_test(rasters_have_their_order),
        cmocka_unit_test(tiles_and_slabs_are_counted),
        cmocka_unit_test(waits_of_patch_and_tile),
        cmocka_unit_test(waits_by_rows_are_what_a_search_finds),
        cmocka_unit_test(launches_are_dealt_evenly),
        cmocka_unit_test(launches_of_one_kind_are_told),
    };
    return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
