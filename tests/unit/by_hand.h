/* by_hand.h -- what schedules that a test writes itself begin with. */
#ifndef TESTS_BY_HAND_H
#define TESTS_BY_HAND_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/sched.h"

static inline sg_problem problem_of(const char *text)
{
    sg_problem p;
    assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
    return p;
}

/* A patch that multiplies rows [ROW0, ROW0 + ROWS) over all columns and all of k. */
static inline sg_patch rows_of(const sg_sched *s, int32_t row0, int32_t rows)
{
    const sg_problem *const p = s->problem;
    return (sg_patch){.row0 = row0,
                      .rows = rows,
                      .cols = (int32_t)p->n,
                      .k1 = (int32_t)p->k,
                      .a = sg_area_of(s->rank, SG_A, row0, rows, 0, p->k),
                      .b = sg_area_of(s->rank, SG_B, 0, p->n, 0, p->k)};
}

/* S breaks a rule, which is named. */
static inline void expect_fault(sg_sched *s, const char *says)
{
    if (sg_sched_seal(s) == SHINGLE_OK) fail_msg("\"%s\" is sealed", says);
    if (strstr(shingle_error(), says) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", shingle_error(), says);
}

#endif
