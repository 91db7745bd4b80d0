/* built.h -- what strategies propose for a problem, and the sealed schedules of
 * all ranks that they build. */
#ifndef TESTS_BUILT_H
#define TESTS_BUILT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/plan.h"
#include "core/propose.h"
#include "core/strategy.h"

/* ---- What is proposed ------------------------------------------------------------------------ */

/* The plain machine with 132 SMs and one shape of tile. */
static inline sg_machine machine_of_tiles(int tile_m, int tile_n)
{
    sg_machine machine;
    sg_machine_plain(&machine);
    machine.sms = 132;
    machine.tiles = 1;
    machine.tile[0] = (sg_tile){.m = tile_m, .n = tile_n, .rate = 1};
    return machine;
}

/* Sets of knobs, or why there are none. */
typedef struct proposals {
    int count;
    sg_knobs set[SG_MAX_KNOB_SETS];
    char why[160];
} proposals;

/* As the planner asks. */
static inline void propose_to(const sg_problem *p, const sg_strategy *strategy,
                              const sg_machine *machine, proposals *all)
{
    sg_text why = {all->why, sizeof all->why, 0};
    memset(all, 0, sizeof *all);
    all->count = sg_strategy_propose(strategy, p, machine, all->set, &why);
    assert_in_range(all->count, 0, SG_MAX_KNOB_SETS);
}

static inline void propose(const char *text, const sg_strategy *strategy, const sg_machine *machine,
                           proposals *all)
{
    sg_problem p;
    assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
    propose_to(&p, strategy, machine, all);
    sg_problem_free(&p);
}

static inline int knob_called(const sg_strategy *strategy, const char *name)
{
    for (int i = 0; i < sg_knob_count(strategy); i++)
        if (strcmp(strategy->knob[i].name, name) == 0) return i;
    fail_msg("%s has no knob %s", strategy->name, name);
    return -1;
}

static inline int most_of(const proposals *all, int knob)
{
    int most = 0;
    for (int i = 0; i < all->count; i++)
        if (all->set[i].value[knob] > most) most = all->set[i].value[knob];
    return most;
}

/* ---- What is built --------------------------------------------------------------------------- */

enum { BUILT_RANKS = 8 };

typedef struct built {
    sg_problem problem;
    sg_sched sched[BUILT_RANKS];
} built;

static inline void build_with(const char *text, const sg_strategy *strategy, const sg_knobs *knobs,
                              built *b)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(sg_problem_parse(text, &b->problem), SHINGLE_OK);
    assert_in_range(b->problem.ranks, 1, BUILT_RANKS);
    for (int r = 0; r < b->problem.ranks; r++)
        if (sg_plan_build(&b->problem, strategy, knobs, r, &b->sched[r]) != SHINGLE_OK)
            fail_msg("%s %s: %s", text, strategy->name, shingle_error());
}

/* By the first knobs that are proposed for the plain machine; false if there are none. */
static inline bool build_first(const char *text, const sg_strategy *strategy, built *b)
{
    sg_machine machine;
    proposals all;
    sg_machine_plain(&machine);
    propose(text, strategy, &machine, &all);
    if (all.count > 0) build_with(text, strategy, &all.set[0], b);
    return all.count > 0;
}

/* PLAN is "strategy{knobs}", all of them, or "strategy" for the first that it proposes. */
static inline void build(const char *text, const char *plan, built *b)
{
    const sg_strategy *strategy = NULL;
    sg_knobs knobs;
    bool given = false;
    if (sg_strategy_parse(plan, &strategy, NULL, &knobs, &given) != SHINGLE_OK)
        fail_msg("%s", shingle_error());
    if (given)
        build_with(text, strategy, &knobs, b);
    else
        assert_true(build_first(text, strategy, b));
}

static inline void discard(built *b)
{
    for (int r = 0; r < b->problem.ranks; r++) sg_sched_free(&b->sched[r]);
    sg_problem_free(&b->problem);
}

#endif
