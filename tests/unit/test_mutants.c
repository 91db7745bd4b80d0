/* test_mutants.c -- one list of schedule bugs.  Each is seeded into the sealed schedules of many
 * random triples; the checker must refuse every mutant that is not an equivalent program.
 *
 * A mutant that the checker lets pass is equivalent only if oracle.h, a second checker that
 * shares no code with the first, finds that it cannot deadlock, that every read is ordered after
 * its writer in the transitive closure of all waits, and that every element is right.  Mutants
 * of the run protocol, of tables and of SMs never pass for equivalent.  Any other survivor fails
 * the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/strategy.h"
#include "mutants.h"
#include "oracle.h"

enum { PER_KIND = 60, MOST_VISITS = 400 };

/* ---- Trying them ----------------------------------------------------------------------------- */

static void build(world *w)
{
    w->sms = 0;
    w->broken = false;
    for (int r = 0; r < w->ranks; r++) {
        sg_sched_begin(&w->sched[r], &w->problem, r);
        w->strategy->build(&w->problem, &w->knobs, r, &w->sched[r]);
        assert_int_equal(sg_sched_seal(&w->sched[r]), SHINGLE_OK);
    }
}

static void say(const world *w, const mutant *m, const char *what)
{
    char problem[256];
    char knobs[128];
    sg_text t = {knobs, sizeof knobs, 0};
    sg_problem_print(&w->problem, problem, sizeof problem);
    sg_strategy_print(w->strategy, &w->knobs, &t);
    fprintf(stderr, "%s: %s %s: %s\n", m->name, problem, knobs, what);
}

static void try_mutant(world *w, mutant *m, sg_checker *ck, int *unexplained)
{
    sg_check_result result;
    if (w->broken) build(w);
    m->tried++;
    w->broken = m->apply(w);
    if (!w->broken) return;
    m->applied++;
    const shingle_status status = sg_check(ck, w->sched, w->ranks, w->sms, &result);
    if (status == SHINGLE_EBUG) {
        m->caught++;
        assert_true(result.why[0] != '\0');
        return;
    }
    assert_int_equal(status, SHINGLE_OK);
    const char *const wrong =
        m->may_be_equivalent ? oracle_judge(w->sched, w->ranks) : "passes for equivalent";
    if (wrong == NULL) {
        m->equivalent++;
    } else if (strcmp(wrong, "too large") == 0) {
        m->applied--; /* nobody judged it, so it does not count */
        m->large++;
    } else {
        say(w, m, wrong);
        ++*unexplained;
    }
}

static void every_mutant_is_caught(void **state)
{
    (void)state;
    sg_random random = {20261};
    static world w; /* large, and begun anew for every triple */
    sg_checker *const ck = sg_checker_new();
    int unexplained = 0;
    w.random = &random;
    for (int i = 0; i < 4000; i++) {
        sg_check_result result;
        assert_int_equal(sg_check_triple(&random, WORLD_RANKS, &w.problem, &w.strategy, &w.knobs),
                         SHINGLE_OK);
        w.ranks = w.problem.ranks;
        build(&w);
        assert_int_equal(sg_check(ck, w.sched, w.ranks, 0, &result), SHINGLE_OK);
        for (int m = 0; m < MUTANTS && result.visits <= MOST_VISITS; m++)
            if (mutants[m].applied < PER_KIND) try_mutant(&w, &mutants[m], ck, &unexplained);
        sg_problem_free(&w.problem);
    }
    printf("%-32s %8s %8s %10s\n", "mutant", "applied", "caught", "equivalent");
    int all[3] = {0};
    for (int m = 0; m < MUTANTS; m++) {
        printf("%-32s %8d %8d %10d\n", mutants[m].name, mutants[m].applied, mutants[m].caught,
               mutants[m].equivalent);
        all[0] += mutants[m].applied, all[1] += mutants[m].caught, all[2] += mutants[m].equivalent;
        assert_true(mutants[m].caught > 0);
        assert_int_equal(mutants[m].applied, mutants[m].caught + mutants[m].equivalent);
    }
    printf("%-32s %8d %8d %10d\n", "all", all[0], all[1], all[2]);
    assert_int_equal(unexplained, 0);
    for (int r = 0; r < WORLD_RANKS; r++) sg_sched_free(&w.sched[r]);
    sg_checker_free(ck);
}

/* What the checker accepts, the oracle accepts too. */
static void oracle_agrees(void **state)
{
    (void)state;
    sg_random random = {77};
    sg_sched sched[WORLD_RANKS] = {{0}};
    int judged = 0;
    for (int i = 0; i < 120; i++) {
        sg_problem problem;
        const sg_strategy *strategy = NULL;
        sg_knobs knobs;
        assert_int_equal(sg_check_triple(&random, 5, &problem, &strategy, &knobs), SHINGLE_OK);
        for (int r = 0; r < problem.ranks; r++) {
            sg_sched_begin(&sched[r], &problem, r);
            strategy->build(&problem, &knobs, r, &sched[r]);
            assert_int_equal(sg_sched_seal(&sched[r]), SHINGLE_OK);
        }
        const char *const wrong = oracle_judge(sched, problem.ranks);
        if (wrong == NULL) judged++;
        assert_true(wrong == NULL || strcmp(wrong, "too large") == 0);
        sg_problem_free(&problem);
    }
    assert_true(judged > 100);
    for (int r = 0; r < WORLD_RANKS; r++) sg_sched_free(&sched[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_agrees),
        cmocka_unit_test(every_mutant_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
