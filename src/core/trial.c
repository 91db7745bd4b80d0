/* trial.c -- the public benchmark: who takes part in it, in turns, and what comes of it.
 *
 * The product and the collective alone, the serial plan, the chosen plan, what prediction alone
 * would have chosen, and the best knobs of every strategy that is asked for take turns; whoever is
 * twice among them runs once.  A strategy that fails or computes something wrong drops out with the
 * reason, and the group is made usable again; if the serial or the chosen plan fails, so does the
 * trial.  Where the backend has no collectives there is no serial plan to compare with, and the
 * others are timed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bench.h"
#include "core/effort.h"
#include "core/planner.h"
#include "core/recording.h"
#include "core/recover.h"
#include "core/tuned.h"

enum {
    GEMM_ALONE,
    COLL_ALONE,
    SERIAL,
    OURS,
    PREDICTED,
    ROWS, /* the first strategy of its own row */
    MOST_ROWS = 32,
    MOST_RUNS = 10000,
    MOST_KNOB_SETS = 32,
    MOST_FAILED = 64,
    LEAST_ROUNDS = 3,
    BATCH_ROUNDS = 7, /* of runs back to back */
    MANY_ROUNDS = 1000,
    BRIEF_ROUNDS = 5,
    FEW_ROUNDS = 2
};

/* Shares of the time limit: for finding the best knobs of all strategies, and then for measuring
 * plans, of which those are bound and compared already.  The rest is for the runs that count. */
static const double knobs_share = 0.35;
static const double choose_share = 0.25;

/* Of the time that is left, the share of runs by themselves; the rest is for runs back to back. */
static const double alone_share = 0.6;

/* Knobs that are predicted to be slower than a strategy's best by more than this are not tried. */
static const double knobs_margin = 1.3;

static const double wrong_us = 1e15; /* of a plan whose result is wrong: it loses, and is counted */

typedef struct contestant {
    shingle_plan *plan; /* NULL: does not take part */
    unsigned kinds;
    int same_as;   /* an earlier one that runs the same, or -1 */
    double *one;   /* of each round: a run by itself */
    double *many;  /* of each round: runs back to back; 0: too long for that */
    char why[160]; /* it dropped out; "": it did not */
} contestant;

typedef struct trial {
    sg_group *group;
    const sg_problem *problem;
    const shingle_bench_options *o;
    sg_bench *bench;
    double begin_us;
    contestant who[ROWS + MOST_ROWS];
    shingle_bench_row row[MOST_ROWS];
    int rows;
    double *clock; /* of each round */
    int rounds, batches;
    uint64_t failed
        [MOST_FAILED]; /* plans that are not run again: a hang costs the time limit of waits */
    int failures;
} trial;

static double seconds_so_far(const trial *t)
{
    return (sg_now_us() - t->begin_us) / 1e6;
}

/* ---- One run --------------------------------------------------------------------------------- */

static bool has_failed(const trial *t, const shingle_plan *plan)
{
    for (int i = 0; i < t->failures; i++)
        if (t->failed[i] == plan->hash) return true;
    return false;
}

/* Runs PLAN.  If it fails or something is wrong, WHY says so and the group is usable again; only
 * what cannot be mended is an error. */
static shingle_status attempt(trial *t, const shingle_plan *plan, unsigned kinds, sg_timing how,
                              double *us_out, char *why, size_t room)
{
    if (has_failed(t, plan)) {
        snprintf(why, room, "it failed before");
        return SHINGLE_OK;
    }
    const shingle_status status = sg_bench_time(t->bench, plan, kinds, how, us_out);
    const int64_t wrong = sg_bench_wrong_of(t->bench, plan);
    if (status == SHINGLE_OK && wrong == 0) return SHINGLE_OK;
    if (t->failures < MOST_FAILED) t->failed[t->failures++] = plan->hash;
    if (status == SHINGLE_OK) {
        snprintf(why, room, "computed %lld wrong elements", (long long)wrong);
        return SHINGLE_OK;
    }
    snprintf(why, room, "%s", shingle_error());
    sg_log(SG_LOG_ERROR, "%s failed: %s", plan->text, why);
    return sg_recover_mend(t->group);
}

/* The stopwatch of a choice. */
static shingle_status watch_plan(void *context, const shingle_plan *plan, double *us_out)
{
    char why[160] = "";
    SG_TRY(attempt(context, plan, ~0u, SG_TIMING_BETTER, us_out, why, sizeof why));
    if (why[0] == '\0') return SHINGLE_OK;
    *us_out = wrong_us;
    const trial *const t = context;
    return sg_bench_wrong_of(t->bench, plan) > 0 ? SHINGLE_OK
                                                 : sg_fail(SHINGLE_EBACKEND, "%s", why);
}

static shingle_status is_mended(void *context)
{
    (void)context;
    return SHINGLE_OK; /* by attempt() */
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static bool has_colls(const shingle_plan *plan)
{
    sg_sched s = {0};
    bool found = false;
    if (sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, 0, &s) == SHINGLE_OK)
        for (int32_t i = 0; i < s.steps; i++) found |= s.step[i].kind == SG_COLL;
    sg_sched_free(&s);
    return found;
}

static shingle_status plan_by(const trial *t, const shingle_plan_options *options,
                              const sg_stopwatch *watch, shingle_plan **plan_out)
{
    const sg_machine machine = sg_comm_machine_here(t->group->comm[0], t->problem->type);
    return sg_planner_choose(t->problem, &machine, options, watch, &t->group->can, plan_out);
}

static shingle_plan_options options_of(const shingle_bench_options *o)
{
    return (shingle_plan_options){.strategy = o->strategy,
                                  .measure = o->measure,
                                  .measure_seconds = o->measure_seconds,
                                  .choose = o->choose,
                                  .level = o->level,
                                  .reproducible = o->reproducible};
}

/* The serial plan and, where it may be another than the chosen one, what is predicted to be
 * best. */
static shingle_status predict_plans(trial *t)
{
    const shingle_plan_options wanted = options_of(t->o);
    const shingle_plan_options baseline = {.strategy = sg_strategy_at(0)->name};
    const shingle_plan_options predicted = {.choose = "predict",
                                            .reproducible = t->o->reproducible};
    bool measures = false;
    SG_TRY(sg_effort_measures(&wanted, &measures));
    const shingle_status serial = plan_by(t, &baseline, NULL, &t->who[SERIAL].plan);
    if (serial != SHINGLE_EUNSUPPORTED) SG_TRY(serial);
    if (!measures && t->o->strategies == NULL) return SHINGLE_OK;
    return plan_by(t, &predicted, NULL, &t->who[PREDICTED].plan);
}

/* Without measuring it is the plan that the group would take, tuned ones among them. */
static shingle_status choose_plan(trial *t)
{
    shingle_plan_options wanted = options_of(t->o);
    const sg_stopwatch watch = {watch_plan, t, is_mended};
    bool measures = false;
    SG_TRY(sg_effort_measures(&wanted, &measures));
    if (!measures) return sg_tuned_plan(t->group->comm[0], t->problem, &wanted, &t->who[OURS].plan);
    const double share = t->o->seconds * choose_share;
    if (wanted.measure_seconds == 0)
        wanted.measure_seconds = share < SG_EFFORT_SECONDS ? share : SG_EFFORT_SECONDS;
    return plan_by(t, &wanted, &watch, &t->who[OURS].plan);
}

/* ---- Strategies ------------------------------------------------------------------------------ */

/* The name behind the one at AT, of names between commas; NULL: that was the last. */
static const char *next_name(const char *at)
{
    const char *const comma = strchr(at, ',');
    return comma != NULL ? comma + 1 : NULL;
}

/* "all" is without the first, which does not overlap and is timed in any case; named, it gets a row
 * of its own as others do. */
static bool is_asked_for(const char *list, int strategy)
{
    if (strcmp(list, "all") == 0) return strategy > 0;
    const char *const name = sg_strategy_at(strategy)->name;
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = next_name(at))
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0) return true;
    return false;
}

static shingle_status check_names(const char *list)
{
    if (strcmp(list, "all") == 0) return SHINGLE_OK;
    for (const char *at = list; at != NULL; at = next_name(at)) {
        char name[32] = "";
        const size_t length = strcspn(at, ",");
        if (length < sizeof name) memcpy(name, at, length);
        if (strcmp(name, "all") == 0)
            return sg_fail(SHINGLE_EINVAL, "strategies \"%.60s\": all stands alone", list);
        if (sg_strategy_find(name) == NULL)
            return sg_fail(SHINGLE_EINVAL, "strategies \"%.60s\": no strategy is called \"%.*s\"",
                           list, (int)(length < 40 ? length : 40), at);
    }
    return SHINGLE_OK;
}

/* The best predicted candidates of STRATEGY, at most COUNT; and why there is none. */
static int best_of(const shingle_plan *all, const sg_strategy *strategy, int count,
                   const sg_candidate **best, const char **declined)
{
    int found = 0;
    *declined = "it was not considered";
    for (int n = 0; n < count; n++) {
        const sg_candidate *next = NULL;
        for (int i = 0; i < all->candidates; i++) {
            const sg_candidate *const c = &all->candidate[i];
            bool taken = c->strategy != strategy;
            if (!taken && c->declined[0] != '\0') *declined = c->declined;
            for (int j = 0; j < found; j++) taken |= best[j] == c;
            if (taken || c->declined[0] != '\0') continue;
            if (next == NULL || c->predicted_us < next->predicted_us) next = c;
        }
        if (next == NULL || (n > 0 && next->predicted_us > best[0]->predicted_us * knobs_margin))
            break;
        best[found++] = next;
    }
    return found;
}

/* Plans of the same strategy, timed in turns until SECONDS are over (0: a few times); the fastest
 * one's place, or -1. */
static shingle_status race_knobs(trial *t, shingle_plan *const *plan, int count, double seconds,
                                 char *why, size_t room, int *best)
{
    double us[MOST_KNOB_SETS][BRIEF_ROUNDS + 1];
    bool out[MOST_KNOB_SETS] = {false};
    const double until = sg_now_us() + seconds * 1e6;
    /* The first run warms up, unless the backend sees to that. */
    const int cold = t->group->backend->time == NULL;
    int rounds = 0;
    do {
        for (int i = 0; i < count; i++) {
            char failed[160] = "";
            if (out[i]) continue;
            SG_TRY(
                attempt(t, plan[i], ~0u, SG_TIMING_BETTER, &us[i][rounds], failed, sizeof failed));
            out[i] = failed[0] != '\0';
            if (out[i]) snprintf(why, room, "%.60s: %.90s", plan[i]->text, failed);
        }
        rounds++;
        if (rounds <= cold) continue;
        if (seconds > 0 ? sg_now_us() > until : rounds >= cold + FEW_ROUNDS) break;
    } while (count > 1 && rounds <= BRIEF_ROUNDS);
    double least = 0;
    *best = -1;
    for (int i = 0; i < count; i++) {
        if (out[i]) continue;
        const int first = rounds > 1 ? cold : 0;
        const double median = sg_median(us[i] + first, rounds - first);
        if (*best >= 0 && median >= least) continue;
        least = median;
        *best = i;
    }
    return SHINGLE_OK;
}

static shingle_status enter_strategy(trial *t, const sg_strategy *strategy, double seconds)
{
    const sg_candidate *best[MOST_KNOB_SETS];
    shingle_plan *plan[MOST_KNOB_SETS] = {NULL};
    const char *declined = NULL;
    shingle_bench_row *const row = &t->row[t->rows];
    const int sets = t->o->knob_sets;
    const int count = best_of(t->who[PREDICTED].plan, strategy, sets, best, &declined);
    int winner = -1;
    shingle_status status = SHINGLE_OK;
    snprintf(row->strategy, sizeof row->strategy, "%s", strategy->name);
    if (count == 0) snprintf(row->declined, sizeof row->declined, "%s", declined);
    for (int i = 0; i < count && status == SHINGLE_OK; i++)
        status = sg_plan_make(t->problem, strategy, &best[i]->knobs, &plan[i]);
    if (status == SHINGLE_OK && count > 0)
        status = race_knobs(t, plan, count, seconds, row->declined, sizeof row->declined, &winner);
    for (int i = 0; i < count; i++) {
        row->wrong += plan[i] != NULL ? sg_bench_wrong_of(t->bench, plan[i]) : 0;
        if (i != winner) sg_plan_free(plan[i]);
    }
    if (winner >= 0) {
        row->declined[0] = '\0';
        row->predicted_us = best[winner]->predicted_us;
        snprintf(row->strategy, sizeof row->strategy, "%s", best[winner]->text);
        t->who[ROWS + t->rows].plan = plan[winner];
    }
    t->rows++;
    return status;
}

static shingle_status enter_strategies(trial *t)
{
    if (t->o->strategies == NULL) return SHINGLE_OK;
    int wanted = 0;
    for (int i = 0; sg_strategy_at(i) != NULL; i++) wanted += is_asked_for(t->o->strategies, i);
    const double share = wanted > 0 ? t->o->seconds * knobs_share / wanted : 0;
    for (int i = 0; sg_strategy_at(i) != NULL && t->rows < MOST_ROWS; i++)
        if (is_asked_for(t->o->strategies, i)) SG_TRY(enter_strategy(t, sg_strategy_at(i), share));
    return SHINGLE_OK;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* Whatever is not the product or the collective (bias and activation of a
 * sum) counts with the product. */
static shingle_status line_up(trial *t)
{
    const unsigned coll = 1u << SG_COLL;
    const int count = ROWS + t->rows;
    const shingle_plan *const serial = t->who[SERIAL].plan;
    for (int i = 0; i < count; i++) {
        contestant *const w = &t->who[i];
        w->kinds = i == GEMM_ALONE ? ~0u & ~coll : i == COLL_ALONE ? coll : ~0u;
        w->same_as = -1;
        const bool alone = i == GEMM_ALONE || i == COLL_ALONE;
        if (alone && serial != NULL && (i == GEMM_ALONE || has_colls(serial)))
            SG_TRY(sg_plan_copy(serial, &w->plan));
        if (w->plan == NULL) continue;
        for (int j = SERIAL; j < i && w->same_as < 0; j++)
            if (t->who[j].plan != NULL && t->who[j].same_as < 0 && w->kinds == t->who[j].kinds &&
                strcmp(w->plan->text, t->who[j].plan->text) == 0)
                w->same_as = j;
    }
    const int rounds = t->o->iterations;
    double *us = calloc((size_t)rounds * (size_t)(2 * count + 1), sizeof *us);
    if (us == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %d rounds", rounds);
    t->clock = us;
    for (int i = 0; i < count; i++) {
        t->who[i].one = us += rounds;
        t->who[i].many = us += rounds;
    }
    return SHINGLE_OK;
}

/* The clock of the slowest device; 0: not known. */
static double read_clock(const sg_group *group)
{
    double least = 0;
    for (int r = 0; group->backend->facts != NULL && r < group->ranks; r++) {
        shingle_device d;
        if (group->backend->facts(group->self, r, true, &d) != SHINGLE_OK) return 0;
        if (r == 0 || d.mhz < least) least = d.mhz;
    }
    return least;
}

/* Who takes part in the next round. */
static int those_who_run(const trial *t, int *who_out)
{
    int count = 0;
    for (int i = 0; i < ROWS + t->rows; i++) {
        const contestant *const w = &t->who[i];
        if (w->plan != NULL && w->same_as < 0 && w->why[0] == '\0') who_out[count++] = i;
    }
    return count;
}

/* One of each, in turn; AT < 0: it does not count.  Every round has another order: at its power
 * limit a device is slower behind a product than behind a collective, and nobody shall run behind
 * the same one more often than others do.  Few rounds cannot do that, so each problem begins with
 * another one. */
static shingle_status run_round(trial *t, sg_timing how, int at)
{
    int who[ROWS + MOST_ROWS], order[ROWS + MOST_ROWS];
    const int count = those_who_run(t, who);
    sg_turns(t->who[OURS].plan->hash + (uint64_t)(at + 1), count, order);
    for (int turn = 0; turn < count; turn++) {
        const int i = who[order[turn]];
        contestant *const w = &t->who[i];
        double us = 0;
        if (i < PREDICTED)
            SG_TRY(sg_bench_time(t->bench, w->plan, w->kinds, how, &us));
        else
            SG_TRY(attempt(t, w->plan, w->kinds, how, &us, w->why, sizeof w->why));
        if (at >= 0) (how == SG_TIMING_MANY ? w->many : w->one)[at] = us;
    }
    /* Devices rest meanwhile: whoever that is good for, it is another one each round. */
    if (at >= 0 && how == SG_TIMING_ONE) t->clock[at] = read_clock(t->group);
    return SHINGLE_OK;
}

/* Rounds in one way until the trial has taken SECONDS (0: no limit), at most MOST; says how
 * many. */
static shingle_status run_phase(trial *t, sg_timing how, int most, double seconds, int *rounds)
{
    const int least = most < LEAST_ROUNDS ? most : LEAST_ROUNDS;
    while (*rounds < most) {
        const double before = seconds_so_far(t);
        SG_TRY(run_round(t, how, *rounds));
        ++*rounds;
        const double now = seconds_so_far(t);
        if (seconds > 0 && *rounds >= least && now + (now - before) > seconds) break;
    }
    return SHINGLE_OK;
}

/* Runs by themselves first, which find the machine as cool as it is between such runs. */
static shingle_status run_rounds(trial *t)
{
    const shingle_bench_options *const o = t->o;
    const bool times = t->group->backend->time != NULL;
    for (int i = 0; i < o->warmup; i++) SG_TRY(run_round(t, SG_TIMING_ONE, -1));
    const double left = o->seconds - seconds_so_far(t);
    const double until = times && left > 0 ? o->seconds - left * (1 - alone_share) : o->seconds;
    SG_TRY(run_phase(t, SG_TIMING_ONE, o->iterations, until, &t->rounds));
    if (!times) return SHINGLE_OK;
    const int most = o->iterations < BATCH_ROUNDS ? o->iterations : BATCH_ROUNDS;
    return run_phase(t, SG_TIMING_MANY, most, o->seconds, &t->batches);
}

/* ---- Report ---------------------------------------------------------------------------------- */

static const contestant *runner(const trial *t, int i)
{
    const contestant *const w = &t->who[i];
    return w->same_as >= 0 ? &t->who[w->same_as] : w;
}

/* The better of the two ways. */
static double median_of(const trial *t, int i)
{
    const contestant *const w = runner(t, i);
    if (w->plan == NULL || w->why[0] != '\0') return 0;
    const double one = sg_median(w->one, t->rounds);
    const double many = sg_median(w->many, t->batches);
    return many > 0 && many < one ? many : one;
}

static void name_plan(const shingle_plan *plan, char *name, size_t room)
{
    sg_text text = {name, room, 0};
    sg_strategy_print(plan->strategy, &plan->knobs, &text);
}

static void report_rows(trial *t, shingle_bench_result *result)
{
    for (int i = 0; i < t->rows; i++) {
        shingle_bench_row *const row = &t->row[i];
        const contestant *const w = runner(t, ROWS + i);
        if (w->plan != NULL && w->why[0] != '\0') {
            row->wrong = sg_bench_wrong_of(t->bench, w->plan);
            snprintf(row->declined, sizeof row->declined, "%s", w->why);
        } else if (w->plan != NULL) {
            row->us = median_of(t, ROWS + i);
            row->enqueue_us = sg_bench_enqueue_us(t->bench, w->plan);
        }
        if (result->rows < t->o->rows) t->o->rows_out[result->rows++] = *row;
    }
}

static void report(trial *t, shingle_bench_result *result_out)
{
    const shingle_plan *const plan = t->who[OURS].plan;
    const shingle_plan *const predicted = t->who[PREDICTED].plan;
    const double gemm = median_of(t, GEMM_ALONE);
    const double coll = median_of(t, COLL_ALONE);
    const double serial = median_of(t, SERIAL);
    const double ours = median_of(t, OURS);
    const double less = gemm < coll ? gemm : coll;
    const double more = gemm < coll ? coll : gemm;
    *result_out = (shingle_bench_result){
        .gemm_us = gemm,
        .coll_us = coll,
        .serial_us = serial,
        .overlapped_us = ours,
        .predicted_us = plan->predicted_us,
        .hidden = less > 0 ? (gemm + coll - ours) / less : 1,
        .speedup = ours > 0 ? serial / ours : 1,
        .efficiency = ours > 0 ? more / ours : 1,
        .wrong = sg_bench_wrong(t->bench),
        .enqueue_us = sg_bench_enqueue_us(t->bench, plan),
        .prediction_us = predicted != NULL ? median_of(t, PREDICTED) : ours,
        .mhz = sg_median(t->clock, t->rounds),
        .iterations = t->rounds,
        .checks = sg_bench_checks(t->bench),
        .on_device = sg_bench_on_device(t->bench),
        .seconds = seconds_so_far(t),
    };
    name_plan(plan, result_out->strategy, sizeof result_out->strategy);
    name_plan(predicted != NULL ? predicted : plan, result_out->prediction,
              sizeof result_out->prediction);
}

/* ---- The call -------------------------------------------------------------------------------- */

static shingle_status run_trial(trial *t, shingle_bench_result *result_out)
{
    SG_TRY(sg_bench_open(t->group, t->problem, t->o->seed, &t->bench));
    SG_TRY(predict_plans(t));
    SG_TRY(enter_strategies(t));
    SG_TRY(choose_plan(t));
    SG_TRY(line_up(t));
    SG_TRY(run_rounds(t));
    shingle_bench_result result;
    report(t, &result);
    if (t->o->timelines_out != NULL)
        SG_TRY(sg_recording_bench(t->group, t->bench, t->who[OURS].plan, &result,
                                  t->o->timelines_out));
    report_rows(t, &result);
    *result_out = result;
    return SHINGLE_OK;
}

static shingle_status bench_problem(sg_group *group, const sg_problem *problem,
                                    const shingle_bench_options *o,
                                    shingle_bench_result *result_out)
{
    trial *const t = calloc(1, sizeof *t);
    if (t == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a benchmark");
    *t = (trial){.group = group, .problem = problem, .o = o, .begin_us = sg_now_us()};
    shingle_status status = run_trial(t, result_out);
    /* Ranks may still wait for each other, in memory that is about to be freed. */
    if (status != SHINGLE_OK) (void)sg_recover_mend(group);
    sg_bench_close(t->bench);
    for (int i = 0; i < ROWS + MOST_ROWS; i++) sg_plan_free(t->who[i].plan);
    free(t->clock);
    free(t);
    return status;
}

static shingle_status check_options(shingle_bench_options *o)
{
    if (o->iterations < 0 || o->iterations > MOST_RUNS)
        return sg_fail(SHINGLE_EINVAL, "iterations is %d; 0 (default) to %d", o->iterations,
                       MOST_RUNS);
    if (o->warmup < -1 || o->warmup > MOST_RUNS)
        return sg_fail(SHINGLE_EINVAL, "warmup is %d; 0 (default) to %d, or -1 for none", o->warmup,
                       MOST_RUNS);
    if (!(o->seconds >= 0) || !(o->seconds <= 1e6))
        return sg_fail(SHINGLE_EINVAL, "seconds is %g; 0 (no limit) to 1e6", o->seconds);
    if (o->knob_sets < 0 || o->knob_sets > MOST_KNOB_SETS)
        return sg_fail(SHINGLE_EINVAL, "knob_sets is %d; 0 (default) to %d", o->knob_sets,
                       MOST_KNOB_SETS);
    if (o->strategies != NULL) SG_TRY(check_names(o->strategies));
    if (o->knob_sets > 0 && o->strategies == NULL)
        return sg_fail(SHINGLE_EINVAL,
                       "knob_sets is %d without strategies; 0, or strategies to time beside, is "
                       "accepted",
                       o->knob_sets);
    if (o->rows < 0) return sg_fail(SHINGLE_EINVAL, "rows is %d; 0 or more are accepted", o->rows);
    if (o->rows > 0 && o->rows_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "%d rows, and no place for them", o->rows);
    if (o->rows == 0 && o->rows_out != NULL)
        return sg_fail(SHINGLE_EINVAL,
                       "rows is 0, and rows_out is given; how many it has room for is accepted");
    if (o->iterations == 0) o->iterations = o->seconds > 0 ? MANY_ROUNDS : 5;
    if (o->warmup == 0) o->warmup = 1;
    if (o->knob_sets == 0) o->knob_sets = 3;
    return SHINGLE_OK;
}

shingle_status shingle_bench(int ranks, shingle_comm *const *comm, const char *problem,
                             const shingle_bench_options *options, shingle_bench_result *result_out)
{
    SG_TRY(sg_comm_check_all(ranks, comm));
    if (result_out == NULL) return sg_fail(SHINGLE_EINVAL, "no place for the result");
    shingle_bench_options o = {0};
    if (options != NULL) o = *options;
    o.strategies = sg_given(o.strategies);
    SG_TRY(check_options(&o));
    SG_TRY(sg_comm_check_sound(comm[0]->group, 0));
    if (o.timelines_out != NULL && comm[0]->group->recording != NULL)
        return sg_fail(SHINGLE_EINVAL, "timelines_out, while a run is to be recorded; NULL, or "
                                       "shingle_timeline_stop before, is accepted");
    sg_problem parsed;
    SG_TRY(sg_problem_parse(problem, &parsed));
    const shingle_status status = bench_problem(comm[0]->group, &parsed, &o, result_out);
    sg_problem_free(&parsed);
    return status;
}
