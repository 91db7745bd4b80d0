/* parts.h -- several B or C that are tensors by themselves, to and from the one matrix as which
 * data.h counts them: all B one behind the other, all C side by side. */
#ifndef TESTS_PARTS_H
#define TESTS_PARTS_H

#include <string.h>

#include "core/problem.h"

/* Between WHOLE, which is dense and has ROWS rows of C, and PART, whose rows are STRIDE elements
 * apart; BACK: from the parts. */
static inline void parts_move(const sg_problem *p, bool is_c, int64_t rows, char *whole,
                              void *const *part, const int64_t *stride, bool back)
{
    const int64_t bytes = sg_type_bytes(p->type);
    int64_t at = 0; /* row of B, column of C */
    for (int i = 0; i < p->b_count; at += p->b_cols[i++]) {
        const int64_t count = is_c ? rows : p->b_count > 1 ? p->b_cols[i] : rows;
        const int64_t cols = is_c ? p->b_cols[i] : p->k;
        for (int64_t row = 0; row < count; row++) {
            char *const there = whole + (is_c ? row * p->n + at : (at + row) * p->k) * bytes;
            char *const here = (char *)part[i] + row * stride[i] * bytes;
            memcpy(back ? there : here, back ? here : there, (size_t)(cols * bytes));
        }
    }
}

#endif
