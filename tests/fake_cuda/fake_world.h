/* fake_world.h -- a group of the CUDA backend on the host
 * (tests/fake_cuda), a plan a rank, matrices. */
#ifndef FAKE_WORLD_H
#define FAKE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cuda/cuda.h"
#include "core/comm.h"
#include "core/data.h"
#include "fake.h"
#include "parts.h"

enum { RANKS = 4, MOST_RANKS = 8, CANARY = 64, UNTOUCHED = 0xa5 };

/* Seconds of a time limit that is to pass.  What is right within it has to be: a machine that runs
 * many tests may stand still for a tenth of a second. */
#define SHORT_LIMIT 0.3

typedef struct world {
    int ranks;
    shingle_comm *comm[MOST_RANKS];
    shingle_plan *plan[MOST_RANKS];
    sg_problem problem;
    sg_data data;
    void *a[MOST_RANKS], *bias[MOST_RANKS], *returned[MOST_RANKS], *residual[MOST_RANKS],
        *gain[MOST_RANKS];
    void *b[MOST_RANKS][SHINGLE_MOST_B], *c[MOST_RANKS][SHINGLE_MOST_B];
    int live;    /* what was there before */
    int pad;     /* elements between the rows of A, B and C */
    size_t lead; /* bytes before their first elements */
} world;

/* What an earlier test planted, or what a failure of it left as the current device, is not this
 * one's. */
static inline void open_group(world *w, int ranks, double seconds)
{
    fake_fail_at(-1, cudaErrorUnknown);
    cudaSetDevice(0);
    const shingle_config config = {.backend = "cuda", .timeout_seconds = seconds};
    memset(w, 0, sizeof *w);
    w->ranks = ranks;
    w->live = fake_live();
    if (shingle_open(ranks, &config, w->comm) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

static inline void close_group(world *w)
{
    shingle_close(w->ranks, w->comm);
    assert_int_equal(fake_live(), w->live);
}

static inline size_t bytes_of(const world *w, int64_t rows, int64_t cols)
{
    return (size_t)(rows * cols * sg_type_bytes(w->problem.type));
}

static inline void *get(const world *w, int r, int64_t rows, int64_t cols)
{
    void *memory = NULL;
    const size_t bytes = w->lead + bytes_of(w, rows, cols + w->pad) + CANARY;
    if (shingle_alloc(w->comm[r], bytes, &memory) != SHINGLE_OK) fail_msg("%s", shingle_error());
    memset(memory, UNTOUCHED, bytes);
    return (char *)memory + w->lead;
}

static inline void put(const world *w, int r, void *data)
{
    if (data != NULL) shingle_free(w->comm[r], (char *)data - w->lead);
}

/* Rows of number I of RANK's B. */
static inline int64_t b_rows(const sg_problem *p, int rank, int i)
{
    return p->b_count > 1 ? p->b_cols[i] : sg_problem_b_rows(p, rank);
}

static inline bool make_plans(world *w, const char *problem, const char *strategy)
{
    if (sg_problem_parse(problem, &w->problem) != SHINGLE_OK) fail_msg("%s", shingle_error());
    const sg_problem *const p = &w->problem;
    for (int r = 0; r < w->ranks; r++) {
        const shingle_plan_options options = {.strategy = strategy};
        const shingle_status status =
            shingle_plan_create(w->comm[r], problem, &options, &w->plan[r]);
        if (status == SHINGLE_OK) continue;
        for (int q = 0; q < r; q++) shingle_plan_free(w->plan[q]);
        sg_problem_free(&w->problem);
        if (status != SHINGLE_EUNSUPPORTED) fail_msg("%s", shingle_error());
        return false;
    }
    for (int r = 0; r < w->ranks; r++) {
        w->a[r] = get(w, r, sg_problem_a_rows(p, r), sg_problem_a_cols(p, r));
        w->bias[r] = get(w, r, 1, p->n);
        w->returned[r] = get(w, r, sg_problem_returned_rows(p, r), p->k);
        w->residual[r] = get(w, r, sg_problem_residual_rows(p, r), p->n);
        w->gain[r] = get(w, r, 1, p->n);
        for (int i = 0; i < p->b_count; i++) {
            w->b[r][i] = get(w, r, b_rows(p, r, i), p->k);
            w->c[r][i] = get(w, r, sg_problem_c_rows(p, r), p->b_cols[i]);
        }
    }
    return true;
}

static inline void drop_plans(world *w)
{
    for (int r = 0; r < w->ranks; r++) {
        shingle_plan_free(w->plan[r]);
        put(w, r, w->a[r]);
        put(w, r, w->bias[r]);
        put(w, r, w->returned[r]);
        put(w, r, w->residual[r]);
        put(w, r, w->gain[r]);
        for (int i = 0; i < w->problem.b_count; i++) {
            put(w, r, w->b[r][i]);
            put(w, r, w->c[r][i]);
        }
    }
    sg_problem_free(&w->problem);
}

/* Elements from row to row; 0: dense. */
static inline int64_t stride_of(const world *w, int64_t cols)
{
    return w->pad > 0 ? cols + w->pad : 0;
}

/* All B of RANK, or all C, from WHOLE or BACK. */
static inline void move_parts(const world *w, bool is_c, int rank, char *whole, bool back)
{
    const sg_problem *const p = &w->problem;
    int64_t stride[SHINGLE_MOST_B];
    for (int i = 0; i < p->b_count; i++) stride[i] = (is_c ? p->b_cols[i] : p->k) + w->pad;
    const int64_t rows = is_c ? sg_problem_c_rows(p, rank) : sg_problem_b_rows(p, rank);
    parts_move(p, is_c, rows, whole, is_c ? w->c[rank] : w->b[rank], stride, back);
}

static inline void fill(world *w, uint64_t seed)
{
    const sg_problem *const p = &w->problem;
    assert_int_equal(sg_data_make(p, seed, &w->data), SHINGLE_OK);
    for (int r = 0; r < w->ranks; r++) {
        const int64_t a_stride = stride_of(w, sg_problem_a_cols(p, r));
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_A, r, w->a[r], a_stride), SHINGLE_OK);
        char *const whole = malloc(bytes_of(w, sg_problem_b_rows(p, r), p->k) +
                                   bytes_of(w, sg_problem_c_rows(p, r), p->n) + 1);
        assert_non_null(whole);
        assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_B, r, whole, 0), SHINGLE_OK);
        move_parts(w, false, r, whole, false);
        if (p->bias)
            assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_BIAS, r, w->bias[r], 0), SHINGLE_OK);
        if (p->norm) {
            assert_int_equal(
                sg_data_fill(&w->data, SG_TENSOR_RESIDUAL, r, w->residual[r], stride_of(w, p->n)),
                SHINGLE_OK);
            assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_GAIN, r, w->gain[r], 0), SHINGLE_OK);
        }
        memset(whole, 0xff, bytes_of(w, sg_problem_c_rows(p, r), p->n));
        if (p->accumulate)
            assert_int_equal(sg_data_fill(&w->data, SG_TENSOR_C, r, whole, 0), SHINGLE_OK);
        move_parts(w, true, r, whole, false);
        free(whole);
        for (int64_t row = 0; row < sg_problem_returned_rows(p, r); row++)
            memset((char *)w->returned[r] + bytes_of(w, row, p->k + w->pad), 0xff,
                   bytes_of(w, 1, p->k));
    }
}

static inline shingle_status run_rank(const world *w, int r, void *stream)
{
    const sg_problem *const p = &w->problem;
    shingle_tensors t = {.a = w->a[r],
                         .b = w->b[r][0],
                         .bias = p->bias ? w->bias[r] : NULL,
                         .c = w->c[r][0],
                         .a_stride = stride_of(w, sg_problem_a_cols(p, r)),
                         .b_stride = stride_of(w, p->k),
                         .c_stride = stride_of(w, p->b_cols[0]),
                         .returned_a = p->return_a ? w->returned[r] : NULL,
                         .returned_a_stride = stride_of(w, p->k),
                         .residual = p->norm ? w->residual[r] : NULL,
                         .residual_stride = stride_of(w, p->n),
                         .gain = p->norm ? w->gain[r] : NULL};
    for (int i = 1; i < p->b_count; i++) {
        t.more_b[i - 1] = w->b[r][i];
        t.more_c[i - 1] = w->c[r][i];
        t.more_b_stride[i - 1] = stride_of(w, p->k);
        t.more_c_stride[i - 1] = stride_of(w, p->b_cols[i]);
    }
    return shingle_run_tensors(w->plan[r], &t, stream);
}

/* Between the rows of an output and behind it nothing is stored. */
static inline void expect_untouched(const world *w, const char *output, int64_t rows, int64_t cols)
{
    for (int64_t row = 0; row < rows; row++) {
        const char *const end = output + bytes_of(w, row, cols + w->pad) + bytes_of(w, 1, cols);
        for (size_t i = 0; i < bytes_of(w, 1, w->pad); i++)
            assert_int_equal((unsigned char)end[i], UNTOUCHED);
    }
    for (size_t i = 0; i < CANARY; i++)
        assert_int_equal((unsigned char)output[bytes_of(w, rows, cols + w->pad) + i], UNTOUCHED);
}

static inline void expect_right(const world *w, const char *what)
{
    const sg_problem *const p = &w->problem;
    for (int r = 0; r < w->ranks; r++) {
        const int64_t rows = sg_problem_c_rows(p, r);
        sg_data_wrong wrong[3];
        char line[160] = "";
        sg_text text = {line, sizeof line, 0};
        char *const whole = malloc(bytes_of(w, rows, p->n) + 1);
        assert_non_null(whole);
        move_parts(w, true, r, whole, true);
        assert_int_equal(sg_data_compare(&w->data, r, whole, 0, &wrong[0]), SHINGLE_OK);
        free(whole);
        assert_int_equal(
            sg_data_compare_returned(&w->data, r, w->returned[r], stride_of(w, p->k), &wrong[1]),
            SHINGLE_OK);
        assert_int_equal(
            sg_data_compare_residual(&w->data, r, w->residual[r], stride_of(w, p->n), &wrong[2]),
            SHINGLE_OK);
        for (int i = 2; i >= 0; i--) {
            text.length = 0;
            if (wrong[i].elements > 0) sg_data_describe(&wrong[i], r, &text);
        }
        if (line[0] != '\0') fail_msg("%s: %s", what, line);
        expect_untouched(w, w->residual[r], sg_problem_residual_rows(p, r), p->n);
        for (int i = 0; i < p->b_count; i++) expect_untouched(w, w->c[r][i], rows, p->b_cols[i]);
        expect_untouched(w, w->returned[r], sg_problem_returned_rows(p, r), p->k);
    }
}

static inline void sync_all(const world *w)
{
    for (int r = 0; r < w->ranks; r++)
        if (shingle_sync(w->comm[r], 20) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

/* Bytes of what tagged data is stored to that are not at rest; *BYTES_OUT (or NULL): of all. */
static inline int64_t count_awake(const world *w, int64_t *bytes_out)
{
    int64_t awake = 0;
    int64_t all = 0;
    for (int r = 0; r < w->ranks; r++)
        for (int kind = SG_BLOCK_REST0; kind <= SG_BLOCK_REST1; kind++)
            for (int i = 0; i < SG_BLOCK_CLASSES; i++) {
                const unsigned char *const block = w->comm[0]->group->work[r]->block[kind][i];
                const int64_t bytes = block != NULL ? INT64_C(1) << i : 0;
                for (int64_t at = 0; at < bytes; at++) awake += block[at] != 0xff;
                all += bytes;
            }
    if (bytes_out != NULL) *bytes_out = all;
    return awake;
}

static inline void run_right(world *w, uint64_t seed)
{
    fill(w, seed);
    for (int r = 0; r < w->ranks; r++)
        if (run_rank(w, (r + (int)seed) % w->ranks, NULL) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
    sync_all(w);
    expect_right(w, shingle_plan_text(w->plan[0]));
    assert_int_equal(count_awake(w, NULL), 0);
    assert_int_equal(fake_trampled, 0);
}

static inline void recover(world *w)
{
    for (int r = 0; r < w->ranks - 1; r++)
        assert_int_equal(shingle_recover(w->comm[r], 0), SHINGLE_ETIMEOUT);
    if (shingle_recover(w->comm[w->ranks - 1], 0) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

static inline void expect_text(const char *words)
{
    if (strstr(shingle_error(), words) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", words, shingle_error());
}

#endif
