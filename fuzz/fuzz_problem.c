/* fuzz_problem.c -- the text of problems: no input breaks the parser, errors are one line, and what
 * is printed of an accepted problem is accepted and printed alike. */
#include "core/problem.h"
#include "fuzz.h"

enum { ROOM = 32768 };

/* Parts stand one behind the other, in products and at their owners. */
static void check_pairs(const sg_problem *p)
{
    for (int r = 0; r < p->ranks; r++) {
        int64_t row = 0;
        int64_t held = 0;
        for (int q = 0; q < p->ranks; q++) {
            FUZZ_EXPECT(sg_problem_part(p, r, q).base == row);
            FUZZ_EXPECT(sg_problem_part(p, q, r).held == held);
            row += sg_problem_part(p, r, q).rows;
            held += sg_problem_part(p, q, r).rows;
        }
        FUZZ_EXPECT(row == sg_problem_rows(p, r) && row <= p->m);
    }
}

/* Borders between several B cut the columns into parts of their widths. */
static void check_borders(const sg_problem *p)
{
    int64_t low = 0;
    int64_t high = 0;
    for (int b = 0; b < p->b_count; b++) {
        const int64_t col0 = high;
        FUZZ_EXPECT(p->b_count == 1 || p->b_cols[b] > 0);
        FUZZ_EXPECT(sg_problem_b_at(p, col0, &low, &high) == b && low == col0);
        FUZZ_EXPECT(high == col0 + p->b_cols[b]);
    }
    FUZZ_EXPECT(high == p->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char first[ROOM];
    static char second[ROOM];
    char *const text = fuzz_string(data, size);
    sg_problem problem;
    if (sg_problem_parse(text, &problem) == SHINGLE_OK) {
        const size_t length = sg_problem_print(&problem, first, sizeof first);
        FUZZ_EXPECT(length < sizeof first);
        const int64_t extent[SG_GATHERS] = {problem.m, problem.n, problem.k};
        int64_t rows = 0;
        for (int r = 0; r < problem.ranks; r++) rows += problem.share[r].rows;
        FUZZ_EXPECT(rows == extent[problem.gather]);
        if (problem.counts != NULL) check_pairs(&problem);
        check_borders(&problem);
        sg_problem_free(&problem);
        FUZZ_EXPECT(sg_problem_parse(first, &problem) == SHINGLE_OK);
        sg_problem_print(&problem, second, sizeof second);
        FUZZ_EXPECT(strcmp(first, second) == 0);
        sg_problem_free(&problem);
    } else {
        FUZZ_EXPECT(shingle_error()[0] != '\0' && strchr(shingle_error(), '\n') == NULL);
    }
    free(text);
    return 0;
}
