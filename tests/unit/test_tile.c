/* test_tile.c -- the tile engine and the pack, against a reference one element at a time.
 *
 * Products use small integers, whose sums are exact in f32 in any order; one more test uses random
 * values and compares bits with the chain that tile.h promises. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/convert.h"
#include "backend/cpu/micro.h"
#include "backend/cpu/tile.h"
#include "tasks.h"

#define POISON 0x7fa5a5a5u /* a NaN: reading what was never written shows in every result */

/* ---- References ------------------------------------------------------------------------------ */

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Matrices of a product, with poisoned elements around them. */
typedef struct world {
    sg_type type;
    int64_t rows, n, k;
    int64_t a_stride, b_stride, c_stride;
    void *a, *b;
    float *c, *want;
    sg_pack *pack;
    sg_tile_scratch *scratch;
} world;

static void *random_integers(sg_type type, int64_t rows, int64_t cols, int64_t stride, sg_random *r)
{
    float *const wide = malloc((size_t)(rows * stride + 1) * sizeof *wide);
    char *const out = malloc((size_t)(rows * stride + 1) * (size_t)sg_type_bytes(type));
    assert_true(wide != NULL && out != NULL);
    for (int64_t i = 0; i < rows * stride; i++) {
        wide[i] = i % stride < cols ? (float)(sg_random_below(r, 9) - 4) : float_of(POISON);
    }
    sg_convert_store(type, wide, out, rows * stride);
    free(wide);
    return out;
}

static void world_open(world *w, sg_type type, int64_t rows, int64_t n, int64_t k, sg_random *r)
{
    *w = (world){.type = type, .rows = rows, .n = n, .k = k};
    w->a_stride = k + sg_random_below(r, 3);
    w->b_stride = k + sg_random_below(r, 3);
    w->c_stride = n + sg_random_below(r, 3);
    w->a = random_integers(type, rows, k, w->a_stride, r);
    w->b = random_integers(type, n, k, w->b_stride, r);
    w->c = malloc((size_t)(rows * w->c_stride + 1) * sizeof *w->c);
    w->want = malloc((size_t)(rows * w->c_stride + 1) * sizeof *w->want);
    assert_true(w->c != NULL && w->want != NULL);
    assert_int_equal(sg_pack_create(&w->pack), SHINGLE_OK);
    assert_int_equal(sg_pack_reserve(w->pack, type, n, k), SHINGLE_OK);
    assert_int_equal(sg_tile_scratch_create(&w->scratch), SHINGLE_OK);
    sg_pack_begin_one(w->pack, type, w->b, w->b_stride, n, k);
    for (int64_t i = 0; i < rows * w->c_stride; i++) w->c[i] = w->want[i] = float_of(POISON);
}

static void world_close(world *w)
{
    sg_tile_scratch_free(w->scratch);
    sg_pack_free(w->pack);
    free(w->a);
    free(w->b);
    free(w->c);
    free(w->want);
}

/* Whether the reference rounds once for a product and its sum, as most engines do (find_fused).
 * Sums that are exact do not need it. */
static bool fused = false;

/* The same as sg_tile_multiply, one element after the other, in the chain that tile.h promises. */
static void reference(const world *w, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
                      int64_t k0, int64_t k1, bool accumulate)
{
    float *const a = malloc((size_t)(k1 - k0 + 1) * sizeof *a);
    float *const b = malloc((size_t)(cols * (k1 - k0) + 1) * sizeof *b);
    const int64_t bytes = sg_type_bytes(w->type);
    assert_true(a != NULL && b != NULL);
    sg_convert_load_block(w->type, (const char *)w->b + (col0 * w->b_stride + k0) * bytes,
                          w->b_stride, b, k1 - k0, cols, k1 - k0);
    for (int64_t i = row0; i < row0 + rows; i++) {
        sg_convert_load(w->type, (const char *)w->a + (i * w->a_stride + k0) * bytes, a, k1 - k0);
        for (int64_t j = 0; j < cols; j++) {
            float *const c = &w->want[i * w->c_stride + col0 + j];
            float sum = accumulate ? *c : 0.0f;
            for (int64_t x = 0; x < k1 - k0; x++) {
                const float factor = b[j * (k1 - k0) + x];
                sum = fused ? fmaf(a[x], factor, sum) : sum + a[x] * factor;
            }
            *c = sum;
        }
    }
    free(a);
    free(b);
}

static void multiply(world *w, int64_t row0, int64_t rows, int64_t col0, int64_t cols, int64_t k0,
                     int64_t k1, bool accumulate)
{
    const int64_t bytes = sg_type_bytes(w->type);
    const sg_tile_work work = {
        .a = (const char *)w->a + (row0 * w->a_stride + k0) * bytes,
        .a_stride = w->a_stride,
        .a_type = w->type,
        .rows = rows,
        .col0 = col0,
        .cols = cols,
        .k0 = k0,
        .k1 = k1,
        .acc = w->c + row0 * w->c_stride + col0,
        .acc_stride = w->c_stride,
        .accumulate = accumulate,
    };
    sg_tile_multiply(w->scratch, w->pack, &work);
    reference(w, row0, rows, col0, cols, k0, k1, accumulate);
}

/* (1 + e)^2 - (1 + 2 e) is e^2, and 0 if the product is rounded first. */
static void find_fused(void)
{
    const float a[2] = {1.0f, 1.0f + 0x1p-12f};
    const float b[2] = {-1.0f - 0x1p-11f, 1.0f + 0x1p-12f};
    float c = 0.0f;
    const sg_micro micro = {.a = a,
                            .b = b,
                            .c = &c,
                            .a_stride = 2,
                            .b_stride = 1,
                            .c_stride = 1,
                            .rows = 1,
                            .cols = 1,
                            .k = 2,
                            .accumulate = false};
    sg_micro_engine()->multiply(&micro);
    assert_true(c == 0.0f || c == 0x1p-24f);
    fused = c != 0.0f;
}

static void world_expect_equal(const world *w)
{
    const size_t bytes = (size_t)(w->rows * w->c_stride) * sizeof *w->c;
    /* Compared as a whole: nothing beside the written elements may change either. */
    assert_memory_equal(w->c, w->want, bytes);
}

static void products_of_odd_shapes(void **state)
{
    (void)state;
    static const int64_t extents[] = {0, 1, 2, 5, 15, 16, 17, 31, 33, 63, 64, 65, 97, 130, 259};
    static const int64_t ks[] = {0, 1, 3, 15, 16, 17, 64, 100, 255, 256, 257, 300, 513};
    enum { EXTENTS = sizeof extents / sizeof *extents, KS = sizeof ks / sizeof *ks };
    sg_random r = {1};
    for (int round = 0; round < 60; round++) {
        world w;
        const sg_type type = (sg_type)(round % SG_TYPES);
        world_open(&w, type, extents[sg_random_below(&r, EXTENTS)],
                   extents[sg_random_below(&r, EXTENTS)], ks[sg_random_below(&r, KS)], &r);
        multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
        world_expect_equal(&w);
        multiply(&w, 0, w.rows, 0, w.n, 0, w.k, true);
        world_expect_equal(&w);
        world_close(&w);
    }
}

static void products_of_any_part(void **state)
{
    (void)state;
    sg_random r = {2};
    for (int round = 0; round < 24; round++) {
        world w;
        world_open(&w, (sg_type)(round % SG_TYPES), 90, 210, 530, &r);
        multiply(&w, 0, w.rows, 0, w.n, 0, 0, false); /* an empty range of k writes zeros */
        for (int part = 0; part < 8; part++) {
            const int64_t row0 = sg_random_below(&r, w.rows);
            const int64_t col0 = sg_random_below(&r, w.n);
            const int64_t k0 = sg_random_below(&r, w.k);
            multiply(&w, row0, sg_random_below(&r, w.rows - row0 + 1), col0,
                     sg_random_below(&r, w.n - col0 + 1), k0,
                     k0 + sg_random_below(&r, w.k - k0 + 1), sg_random_below(&r, 3) > 0);
        }
        world_expect_equal(&w);
        world_close(&w);
    }
}

/* More rows and columns than one block of C, more panels than one mask. */
static void products_larger_than_a_block(void **state)
{
    (void)state;
    sg_random r = {3};
    world w;
    world_open(&w, SG_F32, 300, 1100, 40, &r);
    multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
    world_expect_equal(&w);
    world_close(&w);
    world_open(&w, SG_BF16, 20, 4200, 20, &r);
    multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
    world_expect_equal(&w);
    world_close(&w);
}

/* Further than a library's 32-bit offsets reach; what lies between the rows stays untouched. */
static void rows_far_apart(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 20, K = 40 };
    const int64_t stride = (1 << 24) + 8;
    sg_random r = {10};
    world w;
    world_open(&w, SG_F32, ROWS, COLS, K, &r);
    float *const a = calloc((size_t)(ROWS * stride), sizeof *a);
    float *const c = calloc((size_t)(ROWS * stride), sizeof *c);
    assert_true(a != NULL && c != NULL);
    sg_convert_load_block(SG_F32, w.a, w.a_stride, a, stride, ROWS, K);
    reference(&w, 0, ROWS, 0, COLS, 0, K, false);
    reference(&w, 0, ROWS, 0, COLS, 3, K, true);
    for (int part = 0; part < 2; part++) {
        const int64_t k0 = 3 * part;
        const sg_tile_work work = {.a = a + k0,
                                   .a_stride = stride,
                                   .a_type = SG_F32,
                                   .rows = ROWS,
                                   .cols = COLS,
                                   .k0 = k0,
                                   .k1 = K,
                                   .acc = c,
                                   .acc_stride = stride,
                                   .accumulate = part > 0};
        sg_tile_multiply(w.scratch, w.pack, &work);
    }
    for (int64_t i = 0; i < ROWS; i++) {
        assert_memory_equal(c + i * stride, w.want + i * w.c_stride, COLS * sizeof *c);
        assert_true(c[i * stride + COLS] == 0.0f);
    }
    free(a);
    free(c);
    world_close(&w);
}

static void fill_random(float *data, int64_t count, sg_random *r)
{
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)((double)(sg_random_next(r) >> 11) * 0x1p-52 - 1.0);
    }
}

/* Values whose sums do round: every slab, tile and shape gives the bits of one ascending chain. */
static void sums_are_one_chain(void **state)
{
    (void)state;
    if (strcmp(sg_micro_engine()->name, "cblas") == 0) return; /* promises less (tile.h) */
    find_fused();
    static const int64_t edges[] = {1, 2, 3, 5, 7, 8, 11, 12, 16, 17, 31, 32, 64};
    enum { EDGES = sizeof edges / sizeof *edges };
    sg_random r = {4};
    for (int i = 0; i < EDGES; i++) {
        world w;
        world_open(&w, SG_F32, edges[i], 97, 300, &r);
        fill_random(w.a, w.rows * w.a_stride, &r);
        fill_random(w.b, w.n * w.b_stride, &r);
        for (int j = 0; j < EDGES; j++) {
            const int64_t cut = 1 + sg_random_below(&r, w.k - 1);
            const int64_t col0 = sg_random_below(&r, w.n - edges[j] + 1);
            multiply(&w, 0, w.rows, col0, edges[j], 0, cut, false);
            world_expect_equal(&w);
            multiply(&w, 0, w.rows, col0, edges[j], cut, w.k, true);
            world_expect_equal(&w);
        }
        world_close(&w);
    }
    fused = false;
}

/* ---- The pack -------------------------------------------------------------------------------- */

static void a_new_run_sees_the_new_b(void **state)
{
    (void)state;
    sg_random r = {5};
    world w;
    world_open(&w, SG_BF16, 33, 150, 300, &r);
    for (int run = 0; run < 4; run++) {
        multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
        world_expect_equal(&w);
        /* The same memory with other values; then another shape, smaller and larger. */
        free(w.b);
        w.b = random_integers(w.type, w.n, w.k, w.b_stride, &r);
        sg_pack_begin_one(w.pack, w.type, w.b, w.b_stride, w.n, w.k);
    }
    world_close(&w);
}

static void one_pack_serves_matrices_of_other_shapes(void **state)
{
    (void)state;
    sg_random r = {6};
    sg_pack *pack = NULL;
    assert_int_equal(sg_pack_create(&pack), SHINGLE_OK);
    static const int64_t shapes[][2] = {{100, 300}, {40, 20}, {300, 100},
                                        {64, 512},  {0, 5},   {5, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        world w;
        world_open(&w, (sg_type)(i % SG_TYPES), 10, shapes[i][0], shapes[i][1], &r);
        assert_int_equal(sg_pack_reserve(pack, w.type, w.n, w.k), SHINGLE_OK);
        sg_pack *const own = w.pack;
        w.pack = pack;
        sg_pack_begin_one(pack, w.type, w.b, w.b_stride, w.n, w.k);
        multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
        world_expect_equal(&w);
        w.pack = own;
        world_close(&w);
    }
    sg_pack_free(pack);
    assert_int_equal(sg_pack_create(&pack), SHINGLE_OK);
    assert_int_equal(sg_pack_reserve(pack, SG_F32, SG_MAX_EXTENT, SG_MAX_EXTENT), SHINGLE_ENOMEM);
    sg_pack_free(pack);
    sg_pack_free(NULL);
    sg_tile_scratch_free(NULL);
}

/* A block that another worker has begun and not finished: this one still gets its product. */
static void a_busy_block_is_packed_privately(void **state)
{
    (void)state;
    if (sg_micro_engine()->multiply_transposed != NULL) return; /* f32 is not packed */
    sg_random r = {7};
    world w;
    world_open(&w, SG_F32, 20, 200, 600, &r);
    for (int64_t i = 0; i < 12; i += 2) atomic_store(&w.pack->state[i], 2 * w.pack->run);
    assert_null(sg_pack_get(w.pack, &w.pack->one, 0, 0));
    multiply(&w, 0, w.rows, 0, w.n, 0, w.k, false);
    world_expect_equal(&w);
    for (int64_t i = 0; i < 12; i++) {
        assert_int_equal(atomic_load(&w.pack->state[i]), 2 * w.pack->run + (uint64_t)(i & 1));
    }
    world_close(&w);
}

typedef struct hand {
    world *w;
    sg_tile_scratch *scratch;
    _Atomic int64_t *next;
    sg_split split;
} hand;

static void *work_on_pieces(void *context)
{
    const hand *const h = context;
    const world *const w = h->w;
    for (;;) {
        const int64_t index = atomic_fetch_add(h->next, 1);
        if (index >= h->split.pieces) return NULL;
        const sg_tile_rect rect = sg_tile_split_at(&h->split, index);
        const int64_t half = w->k / 2;
        for (int slab = 0; slab < 2; slab++) {
            const int64_t k0 = slab * half;
            const sg_tile_work work = {
                .a = (const char *)w->a + (rect.row0 * w->a_stride + k0) * sg_type_bytes(w->type),
                .a_stride = w->a_stride,
                .a_type = w->type,
                .rows = rect.rows,
                .col0 = rect.col0,
                .cols = rect.cols,
                .k0 = k0,
                .k1 = slab ? w->k : half,
                .acc = w->c + rect.row0 * w->c_stride + rect.col0,
                .acc_stride = w->c_stride,
                .accumulate = slab > 0,
            };
            sg_tile_multiply(h->scratch, w->pack, &work);
        }
    }
}

static void threads_share_one_pack(void **state)
{
    (void)state;
    enum { THREADS = 3, RUNS = 8 };
    sg_random r = {8};
    world w;
    world_open(&w, SG_BF16, 70, 260, 600, &r);
    hand hands[THREADS];
    _Atomic int64_t next;
    for (int i = 0; i < THREADS; i++) {
        hands[i] = (hand){.w = &w, .next = &next};
        /* Many small pieces, whose edges lie inside the pack's blocks. */
        hands[i].split = (sg_split){
            .rows = w.rows, .cols = w.n, .row_step = 24, .col_step = 40, .pieces = 3 * 7};
        assert_int_equal(sg_tile_scratch_create(&hands[i].scratch), SHINGLE_OK);
    }
    for (int run = 0; run < RUNS; run++) {
        pthread_t thread[THREADS];
        atomic_store(&next, 0);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&thread[i], NULL, work_on_pieces, &hands[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
        reference(&w, 0, w.rows, 0, w.n, 0, w.k, false);
        world_expect_equal(&w);
        free(w.b);
        w.b = random_integers(w.type, w.n, w.k, w.b_stride, &r);
        sg_pack_begin_one(w.pack, w.type, w.b, w.b_stride, w.n, w.k);
    }
    for (int i = 0; i < THREADS; i++) sg_tile_scratch_free(hands[i].scratch);
    world_close(&w);
}

/* ---- Shapes and engines ---------------------------------------------------------------------- */

static void splits_cover_every_element_once(void **state)
{
    (void)state;
    sg_random r = {9};
    for (int round = 0; round < 300; round++) {
        const int64_t rows = sg_random_below(&r, round % 2 ? 40 : 400);
        const int64_t cols = sg_random_below(&r, round % 3 ? 700 : 50);
        const int workers = 1 + (int)sg_random_below(&r, 8);
        const sg_split split = sg_tile_split(rows, cols, 1 + sg_random_below(&r, 5000), workers);
        unsigned char *const seen = calloc((size_t)(rows * cols + 1), 1);
        assert_non_null(seen);
        for (int64_t i = 0; i < split.pieces; i++) {
            const sg_tile_rect rect = sg_tile_split_at(&split, i);
            assert_true(rect.rows > 0 && rect.rows <= split.row_step);
            assert_true(rect.cols > 0 && rect.cols <= split.col_step);
            assert_true(rect.row0 >= 0 && rect.row0 + rect.rows <= rows);
            assert_true(rect.col0 >= 0 && rect.col0 + rect.cols <= cols);
            for (int64_t y = 0; y < rect.rows; y++) {
                for (int64_t x = 0; x < rect.cols; x++) {
                    seen[(rect.row0 + y) * cols + rect.col0 + x]++;
                }
            }
        }
        for (int64_t i = 0; i < rows * cols; i++) assert_int_equal(seen[i], 1);
        free(seen);
    }
    /* A large product keeps its workers equally busy. */
    const sg_split split = sg_tile_split(2048, 4096, 4096, 2);
    assert_true(split.pieces >= 2 && split.pieces % 2 == 0);
}

static void shapes_are_offered_and_accumulators_reserved(void **state)
{
    (void)state;
    sg_tile shape[SG_TILES];
    const int shapes = sg_tile_shapes(shape);
    assert_true(shapes > 0 && shapes <= SG_TILES);
    for (int i = 0; i < shapes; i++) assert_true(shape[i].m > 0 && shape[i].n > 0);
    sg_tile_scratch *scratch = NULL;
    assert_int_equal(sg_tile_scratch_create(&scratch), SHINGLE_OK);
    assert_int_equal(sg_tile_scratch_reserve(scratch, 100, 100), SHINGLE_OK);
    float *const acc = sg_tile_acc(scratch);
    assert_int_equal((uintptr_t)acc % 64, 0);
    for (int i = 0; i < 10000; i++) acc[i] = 1.0f;
    assert_int_equal(sg_tile_scratch_reserve(scratch, 10, 10), SHINGLE_OK);
    assert_ptr_equal(sg_tile_acc(scratch), acc);
    assert_int_equal(sg_tile_scratch_reserve(scratch, INT64_MAX, 4), SHINGLE_ENOMEM);
    sg_tile_scratch_free(scratch);
}

/* The threads of this process that would take SIGTERM. */
static int takers(void)
{
    int without = 0;
    const int threads = threads_now(SIGTERM, &without);
    return threads - without;
}

/* OpenBLAS has a thread for each core.  A program has none of them where another engine multiplies,
 * and where OpenBLAS does they leave signals to the program. */
static void threads_of_openblas_take_no_signals(void **state)
{
    (void)state;
    const int before = takers();
    assert_null(dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD));
    if (!sg_micro_force("cblas")) skip(); /* not in this build */
    assert_int_equal(takers(), before);
}

/* OpenBLAS reads its core type when it is loaded, so this program runs itself again. */
static void a_misjudged_processor_is_named(void **state)
{
    (void)state;
#if defined(__x86_64__) && defined(__GNUC__)
    if (!sg_micro_force("cblas") || strncmp(sg_micro_text(), "openblas", 8) != 0) return;
    if (!__builtin_cpu_supports("avx2")) return;
    static const char *const types[] = {"Prescott", "Haswell"};
    for (int i = 0; i < 2; i++) {
        char self[4096];
        char command[4400];
        char said[400] = "";
        const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        if (length <= 0) return;
        self[length] = '\0';
        snprintf(command, sizeof command, "OPENBLAS_CORETYPE=%s SHINGLE_LOG=warn '%s' cblas 2>&1",
                 types[i], self);
        FILE *const out = popen(command, "r");
        assert_non_null(out);
        const size_t bytes = fread(said, 1, sizeof said - 1, out);
        said[bytes] = '\0';
        assert_int_equal(pclose(out), 0);
        assert_int_equal(strstr(said, "OPENBLAS_CORETYPE") != NULL, i == 0);
    }
#endif
}

static int use_engine(void **state)
{
    return sg_micro_force(*state) ? 0 : -1;
}

int main(int count, char **arguments)
{
    if (count > 1) return sg_micro_force(arguments[1]) ? 0 : 1;
    const struct CMUnitTest shapes[] = {
        cmocka_unit_test(threads_of_openblas_take_no_signals), /* before it is loaded */
        cmocka_unit_test(splits_cover_every_element_once),
        cmocka_unit_test(shapes_are_offered_and_accumulators_reserved),
        cmocka_unit_test(a_misjudged_processor_is_named),
    };
    int failed = cmocka_run_group_tests_name("shapes", shapes, NULL, NULL);

    static char *const engines[] = {"libxsmm", "cblas", "plain"};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        if (!sg_micro_force(engines[i])) continue; /* not in this build */
        char *const name = engines[i];
        const struct CMUnitTest products[] = {
            cmocka_unit_test_prestate_setup_teardown(products_of_odd_shapes, use_engine, NULL,
                                                     name),
            cmocka_unit_test(products_of_any_part),
            cmocka_unit_test(products_larger_than_a_block),
            cmocka_unit_test(rows_far_apart),
            cmocka_unit_test(sums_are_one_chain),
            cmocka_unit_test(a_new_run_sees_the_new_b),
            cmocka_unit_test(one_pack_serves_matrices_of_other_shapes),
            cmocka_unit_test(a_busy_block_is_packed_privately),
            cmocka_unit_test(threads_share_one_pack),
        };
        failed += cmocka_run_group_tests_name(name, products, NULL, NULL);
    }
    return failed;
}
