/* forms.h -- the problems that tests of whole runs go through: every operator with its attributes,
 * shapes with odd and empty extents, ways of dealing rows out. */
#ifndef TESTS_FORMS_H
#define TESTS_FORMS_H

#include <stdlib.h>
#include <string.h>

#include "core/base.h"

enum { FORM_RANKS = 8 };

static const char *const shapes[] = {"13x17x31", "1x3x7",  "64x64x64", "5x1x129",  "37x29x5",
                                     "0x8x8",    "8x0x16", "3x7x0",    "97x40x67", "2x65x33"};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Operators with their attributes. */
typedef enum dealt { NOT_DEALT, BY_ROWS, BY_COUNTS } dealt;

static const struct form {
    const char *op, *more; /* MORE stands behind what says who owns what */
    dealt dealt;
    char along; /* the extent that is dealt: m, n or k */
    bool ends;  /* may have bias and activation */
    int b;      /* B matrices that share A; 0: one, without a border */
} forms[] = {{"ag_gemm", "", BY_ROWS, 'm', true, 0},
             {"gemm_rs", "", BY_ROWS, 'm', true, 0},
             {"gemm_ar", "", BY_ROWS, 'm', true, 0},
             {"gemm", "", NOT_DEALT, 'm', true, 0},
             {"a2a_gemm", "", BY_COUNTS, 'm', true, 0},
             {"gemm_a2a", "", BY_COUNTS, 'm', true, 0},
             {"ag_gemm", ":gather=b", BY_ROWS, 'n', true, 0},
             {"ag_gemm", ":gather=k", BY_ROWS, 'k', true, 0},
             {"ag_gemm", ":accumulate", BY_ROWS, 'm', false, 0},
             {"ag_gemm", ":gather=b:accumulate", BY_ROWS, 'n', false, 0},
             {"ag_gemm", ":gather=k:accumulate", BY_ROWS, 'k', false, 0},
             {"gemm", ":accumulate", NOT_DEALT, 'm', false, 0},
             {"ag_gemm", ":call=4000", BY_ROWS, 'm', true, 0},
             {"gemm_rs", ":call=4000", BY_ROWS, 'm', true, 0},
             {"gemm_ar", ":call=4000", BY_ROWS, 'm', true, 0},
             {"gemm", ":call=4000", NOT_DEALT, 'm', true, 0},
             {"a2a_gemm", ":call=4000", BY_COUNTS, 'm', true, 0},
             {"gemm_a2a", ":call=4000", BY_COUNTS, 'm', true, 0},
             {"ag_gemm", "", BY_ROWS, 'm', true, 3},
             {"ag_gemm", ":return_a", BY_ROWS, 'm', true, 4},
             {"ag_gemm", ":return_a:accumulate", BY_ROWS, 'm', false, 2},
             {"ag_gemm", ":return_a:call=4000", BY_ROWS, 'm', true, 0},
             {"a2a_gemm", ":return_a", BY_COUNTS, 'm', true, 3},
             {"gemm", "", NOT_DEALT, 'm', true, 2},
             {"gemm_rs", ":norm", BY_ROWS, 'm', false, 0},
             {"gemm_ar", ":bias:norm=1e-3", BY_ROWS, 'm', false, 0}};
enum { FORMS = sizeof forms / sizeof forms[0] };

static const char *const types[] = {"f32", "bf16", "f16"};
static const char *const ends[] = {"", ":bias", ":relu", ":bias:gelu", ":bias:silu"};

/* EXTENT rows dealt out so that some ranks get much and some nothing. */
static void ragged(int64_t extent, int ranks, sg_text *t)
{
    int64_t left = extent;
    for (int r = 0; r < ranks; r++) {
        const int64_t rows = r == ranks - 1 ? left : r % 3 == 1 ? 0 : left / 2;
        sg_text_add(t, "%s%lld", r == 0 ? ":rows=" : ",", (long long)rows);
        left -= rows;
    }
}

/* Counts of an all-to-all: products of quite different heights, at most M, and zeros here and
 * there; PRODUCT is the rank whose product is M high.  With IN, counts are named by who sends. */
static void uneven(sg_random *random, int ranks, int64_t m, bool in, sg_text *text)
{
    int64_t count[FORM_RANKS][FORM_RANKS] = {{0}}; /* of a product, of an owner */
    const int full = (int)sg_random_below(random, ranks);
    for (int r = 0; r < ranks; r++) {
        int64_t left = r == full ? m : sg_random_below(random, m + 1);
        for (int i = 0; i < ranks && left > 0; i++) {
            const int q = (r + i) % ranks;
            const int64_t rows =
                i == ranks - 1 ? left : sg_random_below(random, left + 1) * (i % 2);
            count[r][q] = rows;
            left -= rows;
        }
    }
    for (int x = 0; x < ranks; x++)
        for (int y = 0; y < ranks; y++)
            sg_text_add(text, "%s%lld",
                        y > 0   ? ","
                        : x > 0 ? "/"
                                : ":counts=",
                        (long long)(in ? count[y][x] : count[x][y]));
}

/* The extent that FORM deals out, of "MxNxK". */
static int64_t extent_of(const struct form *form, const char *shape)
{
    for (char skipped = 'm'; skipped != form->along; skipped = skipped == 'm' ? 'n' : 'k')
        shape = strchr(shape, 'x') + 1;
    return atoi(shape);
}

/* N columns for COUNT B, the first with about half of them. */
static void share(int64_t n, int count, sg_text *line)
{
    for (int i = 0; i < count; i++) {
        const int64_t half = sg_max(1, n / 2 - i);
        const int64_t cols = i == count - 1 ? n : half;
        sg_text_add(line, "%s%lld", i == 0 ? ":b=" : ",", (long long)cols);
        n -= cols;
    }
}

/* Writes the problem of FORM, in TYPE, with SHAPE, rows dealt in way OWNER (0 to 2) and epilogue
 * END.  False: there is none. */
static bool form_text(const struct form *form, int type, int shape, int owner, int end, int ranks,
                      sg_random *random, sg_text *line)
{
    const bool is_call = strstr(form->more, ":call") != NULL;
    const int64_t n = atoi(strchr(shapes[shape], 'x') + 1);
    const int64_t extent = extent_of(form, shapes[shape]);
    /* What a call of no columns would be, nobody knows: it is refused. */
    if (is_call && strcmp(strrchr(shapes[shape], 'x'), "x0") == 0) return false;
    if (n < form->b || (n == 0 && strstr(form->more, ":return_a") != NULL)) return false;
    sg_text_add(line, "%s:%s:%s:r%d", form->op, types[type], shapes[shape], ranks);
    if (form->dealt == BY_ROWS && owner == 1) ragged(extent, ranks, line);
    if (form->dealt == BY_ROWS && owner == 2) sg_text_add(line, ":cyclic=3");
    if (form->dealt == BY_COUNTS && owner > 0)
        uneven(random, ranks, extent, strcmp(form->op, "a2a_gemm") == 0, line);
    share(n, form->b, line);
    sg_text_add(line, "%s%s", form->more, form->ends ? ends[end] : "");
    return true;
}

#endif
