/* test_check_many.c -- the checker on plans of real size, and the proof of many random triples. */
#include <stdio.h>
#include <time.h>

#include "built.h"
#include "core/check.h"

/* ---- Plans that are refuted ------------------------------------------------------------------ */

/* Stands between proofs and the checker. */
shingle_status __real_sg_check_built(sg_checker *checker, const sg_problem *problem,
                                     const sg_strategy *strategy, const sg_knobs *knobs, int sms,
                                     sg_check_result *result_out);
shingle_status __wrap_sg_check_built(sg_checker *checker, const sg_problem *problem,
                                     const sg_strategy *strategy, const sg_knobs *knobs, int sms,
                                     sg_check_result *result_out);

static shingle_status verdict; /* of products of an odd number of rows; SHINGLE_OK: the checker's */
static _Thread_local int last_sms;

shingle_status __wrap_sg_check_built(sg_checker *checker, const sg_problem *problem,
                                     const sg_strategy *strategy, const sg_knobs *knobs, int sms,
                                     sg_check_result *result_out)
{
    if (verdict == SHINGLE_OK) {
        last_sms = sms;
        return __real_sg_check_built(checker, problem, strategy, knobs, sms, result_out);
    }
    *result_out = (sg_check_result){.visits = 1};
    if (problem->m % 2 == 0) return SHINGLE_OK;
    snprintf(result_out->why, sizeof result_out->why, "%d ranks are odd", problem->ranks);
    return sg_fail(verdict, "%s", result_out->why);
}

/* ---- Real sizes ------------------------------------------------------------------------------ */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* Of processor time, for one plan; sanitizers slow it down. */
#ifdef SANITIZED
static const double most_seconds = 10;
#else
static const double most_seconds = 1;
#endif

static void check_all_strategies(const char *text, const sg_machine *machine)
{
    sg_problem p;
    sg_check_result result;
    sg_checker *const ck = sg_checker_new();
    assert_int_equal(sg_problem_parse(text, &p), SHINGLE_OK);
    for (int i = 0; sg_strategy_at(i) != NULL; i++) {
        const sg_strategy *const strategy = sg_strategy_at(i);
        proposals all;
        propose_to(&p, strategy, machine, &all);
        for (int j = 0; j < all.count; j++) {
            const clock_t start = clock();
            if (sg_check_built(ck, &p, strategy, &all.set[j], machine->sms, &result) != SHINGLE_OK)
                fail_msg("%s %s, knob set %d: %s", text, strategy->name, j, shingle_error());
            const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (seconds > most_seconds)
                fail_msg("%s %s, knob set %d: %.1f s", text, strategy->name, j, seconds);
        }
    }
    sg_checker_free(ck);
    sg_problem_free(&p);
}

static void real_sizes(void **state)
{
    (void)state;
    sg_machine machine;
    sg_machine_plain(&machine);
    check_all_strategies("ag_gemm:bf16:8192x7168x8192:r4", &machine);
    check_all_strategies("gemm_rs:bf16:8192x8192x7168:r8:bias", &machine);
    check_all_strategies("gemm_ar:bf16:4097x8192x3584:r3:silu", &machine);
    check_all_strategies("gemm_rs:f16:1024x4096x512:r4:cyclic=128", &machine);
    check_all_strategies("ag_gemm:f32:30000x8192x4096:r2:rows=20001,9999", &machine);
    check_all_strategies("gemm:f32:2147483x2147483x2147483:r1", &machine);
    check_all_strategies("ag_gemm:bf16:4096x7168x8192:r4:gather=b", &machine);
    check_all_strategies("ag_gemm:bf16:4096x2048x8192:r4:gather=k:accumulate", &machine);
    check_all_strategies("gemm_rs:f32:4096x4096x512:r4:call=1000000", &machine);
    check_all_strategies("a2a_gemm:bf16:5300x2048x4096:r4:counts=100,2000,700,1500/2500,0,300,1200/"
                         "700,900,4000,10/2000,800,300,1300",
                         &machine);
    check_all_strategies("gemm_a2a:f16:5610x2048x4096:r4:counts=100,2000,700,1500/2500,0,300,1200/"
                         "700,900,4000,10/2000,800,300,1300",
                         &machine);
}

/* What strategies propose fits on the machine that they propose it for. */
static void proposals_fit(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "ag_gemm:bf16:512x384x256:r4",
        "gemm_rs:bf16:512x384x256:r3",
        "gemm_ar:f32:512x384x256:r5:gelu",
        "gemm_rs:f16:96x384x256:r3:cyclic=16",
        "ag_gemm:bf16:16x4096x4096:r8",
        "gemm:f32:64x64x64:r2",
        "a2a_gemm:bf16:512x384x256:r4",
        "gemm_a2a:f16:512x384x256:r3:bias",
        "ag_gemm:f32:384x512x256:r4:gather=b",
        "ag_gemm:f32:96x96x512:r4:gather=k:accumulate",
        "gemm_ar:f32:512x384x256:r4:call=9",
        "gemm_a2a:bf16:96x384x256:r3:counts=32,32,32/32,0,32/32,32,32", /* one keeps no rows */
        "gemm_rs:bf16:103x138x65:r8:bias:silu"};
    static const int counts[] = {1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 108, 132};
    for (size_t i = 0; i < 2 * (sizeof counts / sizeof counts[0]); i++) {
        sg_machine machine;
        sg_machine_plain(&machine);
        machine.topology = i % 2 ? SG_MESH : SG_SWITCH;
        machine.sms = counts[i / 2];
        machine.coll_sms = (int)sg_min(machine.coll_sms, machine.sms - 1);
        for (size_t j = 0; j < sizeof texts / sizeof texts[0]; j++)
            check_all_strategies(texts[j], &machine);
    }
}

static void too_large(void **state)
{
    (void)state;
    sg_problem p;
    sg_check_result result;
    const sg_knobs knobs = {{1, 1}};
    sg_checker *const ck = sg_checker_new();
    assert_int_equal(sg_problem_parse("gemm:f32:2147483647x1x1:r1", &p), SHINGLE_OK);
    const shingle_status status =
        sg_check_built(ck, &p, sg_strategy_find("serial"), &knobs, 0, &result);
    assert_int_equal(status, SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "too many to be checked; 268435456 are possible"));
    sg_problem_free(&p);
    assert_int_equal(sg_problem_parse("gemm_rs:f32:4000000x1x1:r2", &p), SHINGLE_OK);
    const sg_knobs direct = {{1, 0, 0, 1, 1}};
    assert_int_equal(sg_check_built(ck, &p, sg_strategy_find("direct"), &direct, 0, &result),
                     SHINGLE_EUNSUPPORTED);
    assert_non_null(strstr(shingle_error(), "8000000 visits are too many"));
    sg_checker_free(ck);
    sg_problem_free(&p);
}

/* ---- Many triples ---------------------------------------------------------------------------- */

typedef struct progress {
    int64_t calls, last;
} progress;

static void note(void *context, int64_t done, int64_t count)
{
    progress *const p = context;
    assert_true(done >= p->last && done <= count);
    p->calls++;
    p->last = done;
}

static void many_triples(void **state)
{
    (void)state;
    shingle_check_report report[2];
    progress seen = {0, 0};
    for (int i = 0; i < 2; i++) {
        const shingle_check_options options = {.count = 1500,
                                               .seed = 11,
                                               .threads = 1 + 2 * i,
                                               .progress = i == 0 ? note : NULL,
                                               .context = &seen};
        assert_int_equal(shingle_check_random(&options, &report[i]), SHINGLE_OK);
        if (report[i].violations > 0) fail_msg("%s", report[i].first);
        assert_int_equal(report[i].checked, 1500);
    }
    /* Triples depend on seed and number alone. */
    assert_true(report[0].visits == report[1].visits && report[0].visits > 10000);
    assert_true(seen.calls > 10 && seen.last == 1500);
}

/* What a triple may be; each is to come up often enough that a proof of thousands is one of it. */
typedef struct kinds {
    int ranks[65], op[SG_OPS], type[SG_TYPES], act[SG_ACTS], gather[3];
    int none[3], few, idle, dealt, uneven, ragged, norm, returned, several, adds, call, bias;
    int strategy[16], knobs[16];
} kinds;

static bool has_least_knobs(const sg_strategy *strategy, const sg_knobs *knobs)
{
    for (int i = 0; i < sg_knob_count(strategy); i++)
        if (knobs->value[i] != strategy->knob[i].least) return false;
    return true;
}

static void note_kind(kinds *k, const sg_problem *p, const sg_strategy *strategy,
                      const sg_knobs *knobs)
{
    bool idle = false;
    for (int r = 0; r < p->ranks; r++) idle |= p->counts == NULL && p->share[r].rows == 0;
    k->ranks[p->ranks]++;
    k->op[p->op]++, k->type[p->type]++, k->act[p->act]++, k->gather[p->gather]++;
    k->none[0] += p->m == 0, k->none[1] += p->n == 0, k->none[2] += p->k == 0;
    k->few += p->m > 0 && p->m < p->ranks;
    k->idle += idle && p->m >= p->ranks && p->ranks > 1;
    k->dealt += p->segment_count > p->ranks;
    int nothing = 0; /* pairs */
    for (int i = 0; i < p->ranks * p->ranks && p->counts != NULL; i++) nothing += p->counts[i] == 0;
    k->uneven += p->ranks > 4 && p->m > 16 * p->ranks && 4 * nothing > p->ranks * p->ranks;
    for (int r = 1; r < p->ranks && p->counts == NULL; r++) /* in turns or even, none has more */
        if (p->share[r].rows > p->share[r - 1].rows) {
            k->ragged++;
            break;
        }
    k->norm += p->norm, k->returned += p->return_a, k->several += p->b_count > 1;
    k->adds += p->accumulate, k->call += p->call, k->bias += p->bias;
    for (int i = 0; sg_strategy_at(i) != NULL; i++)
        if (sg_strategy_at(i) == strategy) {
            k->strategy[i]++;
            k->knobs[i] += !has_least_knobs(strategy, knobs);
        }
}

static void all_often(const int *counts, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (counts[i] < 5) fail_msg("%s %zu comes up %d times", name, i, counts[i]);
}

#define ALL_OFTEN(list) all_often(k.list, sizeof k.list / sizeof k.list[0], #list)

static void triples_are_of_all_kinds(void **state)
{
    (void)state;
    static const int ranks[] = {1, 2, 3, 5, 7, 8, 64};
    sg_random random = {7};
    kinds k = {0};
    int strategies = 0;
    while (sg_strategy_at(strategies) != NULL) strategies++;
    for (int i = 0; i < 4000; i++) {
        sg_problem p;
        const sg_strategy *strategy = NULL;
        sg_knobs knobs;
        assert_int_equal(sg_check_triple(&random, 64, &p, &strategy, &knobs), SHINGLE_OK);
        note_kind(&k, &p, strategy, &knobs);
        sg_problem_free(&p);
    }
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
        all_often(&k.ranks[ranks[i]], 1, "a number of ranks");
    all_often(k.strategy, (size_t)strategies, "strategy");
    all_often(k.knobs, (size_t)strategies, "knobs of strategy");
    const int others[] = {k.ragged,   k.few,     k.idle, k.dealt, k.uneven, k.norm,
                          k.returned, k.several, k.adds, k.call,  k.bias};
    all_often(others, sizeof others / sizeof others[0], "attribute");
    ALL_OFTEN(op);
    ALL_OFTEN(type);
    ALL_OFTEN(act);
    ALL_OFTEN(gather);
    ALL_OFTEN(none);
}

/* Their number and the first of them, whoever comes to it first. */
static void refuted_triples_are_reported(void **state)
{
    (void)state;
    shingle_check_report report[2];
    verdict = SHINGLE_EBUG;
    for (int i = 0; i < 2; i++) {
        const shingle_check_options options = {.count = 400, .seed = 3, .threads = 1 + 2 * i};
        assert_int_equal(shingle_check_random(&options, &report[i]), SHINGLE_OK);
        assert_int_equal(report[i].checked, 400);
    }
    assert_in_range(report[0].violations, 100, 300);
    assert_int_equal(report[1].violations, report[0].violations);
    assert_non_null(strstr(report[0].first, "}: "));
    assert_non_null(strstr(report[0].first, " ranks are odd"));
    assert_string_equal(report[1].first, report[0].first);
    const shingle_check_options one = {.count = 400, .seed = 3, .threads = 1};
    for (int64_t count = 1; count < 400 && report[1].violations != 1; count++) {
        shingle_check_options fewer = one;
        fewer.count = count;
        assert_int_equal(shingle_check_random(&fewer, &report[1]), SHINGLE_OK);
    }
    assert_string_equal(report[1].first, report[0].first);

    verdict = SHINGLE_ENOMEM; /* nothing is proved then */
    assert_int_equal(shingle_check_random(&one, &report[1]), SHINGLE_ENOMEM);
    assert_non_null(strstr(shingle_error(), " ranks are odd"));
    verdict = SHINGLE_OK;
}

/* With the SMs that the machine has, if there is one. */
static void a_plan_is_proved_on_a_machine(void **state)
{
    (void)state;
    shingle_plan plan = {.strategy = sg_strategy_find("serial"), .knobs = {{1, 1, 0, 0}}};
    assert_int_equal(sg_problem_parse("gemm:f32:3x2x2:r1", &plan.problem), SHINGLE_OK);
    shingle_machine machine = {0};
    sg_machine_plain(&machine.numbers);
    assert_int_equal(shingle_plan_check(&plan, &machine), SHINGLE_OK);
    assert_true(last_sms > 0 && last_sms == sg_machine_held_sms(&machine.numbers));
    assert_int_equal(shingle_plan_check(&plan, NULL), SHINGLE_OK);
    assert_int_equal(last_sms, 0);
    verdict = SHINGLE_EBUG;
    assert_int_equal(shingle_plan_check(&plan, NULL), SHINGLE_EBUG);
    assert_non_null(strstr(shingle_error(), " ranks are odd"));
    verdict = SHINGLE_OK;
    sg_problem_free(&plan.problem);
}

/* By all that names it: what is the same but for the SMs, a knob, the strategy or the problem is
 * proved anew, and what was refuted once is so again. */
static void what_is_proved_is_remembered(void **state)
{
    (void)state;
    const sg_strategy *const serial = sg_strategy_find("serial");
    const sg_strategy *const other = sg_strategy_find("direct");
    const sg_knobs knobs = {{4, 4, 0, 0}}, more = {{4, 4, 0, 1}};
    sg_checker *const ck = sg_checker_new();
    sg_problem p[2];
    sg_sched sched[2] = {{0}};
    sg_check_result result;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sg_problem_parse(i ? "gemm:f32:4x8x4:r1" : "gemm:f32:8x4x4:r1", &p[i]),
                         SHINGLE_OK);
        sg_sched_begin(&sched[i], &p[i], 0);
        serial->build(&p[i], &knobs, 0, &sched[i]);
        assert_int_equal(sg_sched_seal(&sched[i]), SHINGLE_OK);
    }
    sg_check_forget();
    sched[0].to[0].row0++;
    for (int i = 0; i < 2; i++)
        assert_int_equal(sg_check_once(ck, &sched[0], 0, serial, &knobs, &result), SHINGLE_EBUG);
    sched[0].to[0].row0--;
    assert_int_equal(sg_check_once(ck, &sched[0], 0, serial, &knobs, &result), SHINGLE_OK);
    assert_true(result.visits > 0);
    sched[0].to[0].row0++, sched[1].to[0].row0++;
    assert_int_equal(sg_check_once(ck, &sched[0], 0, serial, &knobs, &result), SHINGLE_OK);
    assert_int_equal(result.visits, 0); /* it is not looked at again */
    assert_int_equal(sg_check_once(ck, &sched[0], 9, serial, &knobs, &result), SHINGLE_EBUG);
    assert_int_equal(sg_check_once(ck, &sched[0], 0, serial, &more, &result), SHINGLE_EBUG);
    assert_int_equal(sg_check_once(ck, &sched[0], 0, other, &knobs, &result), SHINGLE_EBUG);
    assert_int_equal(sg_check_once(ck, &sched[1], 0, serial, &knobs, &result), SHINGLE_EBUG);
    sg_check_forget();
    assert_int_equal(sg_check_once(ck, &sched[0], 0, serial, &knobs, &result), SHINGLE_EBUG);
    for (int i = 0; i < 2; i++) {
        sg_sched_free(&sched[i]);
        sg_problem_free(&p[i]);
    }
    sg_checker_free(ck);
}

static void bad_options(void **state)
{
    (void)state;
    shingle_check_report report = {.checked = -5};
    assert_int_equal(shingle_check_random(&(shingle_check_options){.count = -1}, &report),
                     SHINGLE_EINVAL);
    assert_int_equal(shingle_check_random(&(shingle_check_options){.threads = 1000}, &report),
                     SHINGLE_EINVAL);
    assert_int_equal(shingle_check_random(&(shingle_check_options){.max_ranks = -1}, &report),
                     SHINGLE_EINVAL);
    assert_int_equal(shingle_check_random(&(shingle_check_options){.max_ranks = 65}, &report),
                     SHINGLE_EINVAL);
    assert_string_equal(shingle_error(), "at most 65 ranks; 0 (all) to 64 are possible");
    assert_int_equal(shingle_check_random(NULL, &report), SHINGLE_EINVAL);
    assert_int_equal(report.checked, -5);
    assert_int_equal(shingle_check_random(&(shingle_check_options){.count = 0}, &report),
                     SHINGLE_OK);
    assert_int_equal(report.checked, 0);
    assert_int_equal(shingle_plan_check(NULL, NULL), SHINGLE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_sizes),
        cmocka_unit_test(proposals_fit),
        cmocka_unit_test(too_large),
        cmocka_unit_test(many_triples),
        cmocka_unit_test(triples_are_of_all_kinds),
        cmocka_unit_test(refuted_triples_are_reported),
        cmocka_unit_test(what_is_proved_is_remembered),
        cmocka_unit_test(a_plan_is_proved_on_a_machine),
        cmocka_unit_test(bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
