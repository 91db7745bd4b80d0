/* broken.h -- schedules that strategies have built and that a test breaks before they are
 * sealed. */
#ifndef TESTS_BROKEN_H
#define TESTS_BROKEN_H

#include "built.h"
#include "by_hand.h"

/* What is said of a schedule that is changed like that. */
typedef struct breaker {
    const char *says;
    void (*change)(sg_sched *s);
} breaker;

static inline int buf_called(const sg_sched *s, const char *name)
{
    for (int i = SG_USER_BUFS; i < s->bufs; i++)
        if (strcmp(s->buf[i].name, name) == 0) return i;
    fail_msg("there is no buffer %s", name);
    return -1;
}

/* Rank 1's schedule, changed, is not sealed. */
static inline void expect_broken(const char *problem, const char *knobs_text, const breaker *how)
{
    const sg_strategy *strategy = NULL;
    sg_problem p;
    sg_knobs knobs;
    bool given = false;
    sg_sched s = {0};
    assert_int_equal(sg_problem_parse(problem, &p), SHINGLE_OK);
    assert_int_equal(sg_strategy_parse(knobs_text, &strategy, NULL, &knobs, &given), SHINGLE_OK);
    sg_sched_begin(&s, &p, 1);
    strategy->build(&p, &knobs, 1, &s);
    how->change(&s);
    expect_fault(&s, how->says);
    sg_sched_free(&s);
    sg_problem_free(&p);
}

#endif
