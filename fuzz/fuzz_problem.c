/* fuzz_problem.c -- the text of problems: no input breaks the parser, errors are one line, and what
 * is printed of an accepted problem is accepted and printed alike. */
#include "core/problem.h"
#include "fuzz.h"

enum { ROOM = 32768 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char first[ROOM];
    static char second[ROOM];
    char *const text = fuzz_string(data, size);
    sg_problem problem;
    if (sg_problem_parse(text, &problem) == SHINGLE_OK) {
        const size_t length = sg_problem_print(&problem, first, sizeof first);
        FUZZ_EXPECT(length < sizeof first);
        int64_t rows = 0;
        for (int r = 0; r < problem.ranks; r++) rows += problem.share[r].rows;
        FUZZ_EXPECT(rows == problem.m);
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
