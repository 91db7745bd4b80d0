/* proof.h -- schedules written by hand, and what the checker says of them. */
#ifndef TESTS_PROOF_H
#define TESTS_PROOF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"

enum { MOST_RANKS = 8 };

static sg_problem problem;
static sg_sched sched[MOST_RANKS];
static sg_check_result result;
static int sms;

/* ---- Building by hand ------------------------------------------------------------------------ */

static void begin(const char *text)
{
    sg_problem_free(&problem);
    assert_int_equal(sg_problem_parse(text, &problem), SHINGLE_OK);
    for (int r = 0; r < problem.ranks; r++) sg_sched_begin(&sched[r], &problem, r);
    sms = 0;
}

static shingle_status check(void)
{
    sg_checker *const ck = sg_checker_new();
    assert_non_null(ck);
    for (int r = 0; r < problem.ranks; r++)
        if (sg_sched_seal(&sched[r]) != SHINGLE_OK) fail_msg("%s", shingle_error());
    const shingle_status status = sg_check(ck, sched, problem.ranks, sms, &result);
    sg_checker_free(ck);
    return status;
}

static void accepted(void)
{
    if (check() != SHINGLE_OK) fail_msg("%s", result.why);
    assert_string_equal(result.why, "");
}

/* The sealed schedules are refused, with all of WORDS in the reason. */
static void refused_sealed(const char *const *words)
{
    sg_checker *const ck = sg_checker_new();
    assert_int_equal(sg_check(ck, sched, problem.ranks, sms, &result), SHINGLE_EBUG);
    sg_checker_free(ck);
    for (int i = 0; words[i] != NULL; i++)
        if (strstr(result.why, words[i]) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", result.why, words[i]);
    assert_null(strchr(result.why, '\n'));
    assert_string_equal(shingle_error(), result.why);
}

static void seal(void)
{
    for (int r = 0; r < problem.ranks; r++)
        if (sg_sched_seal(&sched[r]) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

#define REFUSED_SEALED(...) refused_sealed((const char *const[]){__VA_ARGS__, NULL})
#define REFUSED(...) (seal(), REFUSED_SEALED(__VA_ARGS__))

/* Opens a patch of rows [row0, row0 + rows) of the product, all columns
 * and all of k, A in its place. */
static void rows_patch(sg_sched *s, int64_t row0, int64_t rows)
{
    const sg_patch p = {.row0 = (int32_t)row0,
                        .rows = (int32_t)rows,
                        .cols = (int32_t)problem.n,
                        .k1 = (int32_t)problem.k,
                        .final = 1,
                        .a = sg_area_of(s->rank, SG_A, row0, rows, 0, problem.k),
                        .b = sg_area_of(s->rank, SG_B, 0, problem.n, 0, problem.k)};
    sg_sched_patch(s, &p);
}

static sg_area rows_of(int rank, int buf, int64_t row0, int64_t rows)
{
    return sg_area_of(rank, buf, row0, rows, 0, problem.n);
}

static void launch(sg_sched *s)
{
    sg_sched_launch(s, 0, 2, 2, 0, false);
}

static int clean(void **state)
{
    (void)state;
    for (int r = 0; r < MOST_RANKS; r++) sg_sched_free(&sched[r]);
    sg_problem_free(&problem);
    return 0;
}

#endif
