/* prove.c -- proofs by the thousand: random triples of problem, strategy and knobs, each checked
 * for all ranks; and the proof of one plan. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/plan.h"

/* ---- Random triples -------------------------------------------------------------------------- */

static const int rank_counts[] = {1, 2, 3, 5, 7, 8, 64};
static const int64_t primes[] = {2,  3,  5,  7,  11, 13, 17, 19, 23,
                                 29, 31, 37, 41, 43, 47, 53, 59, 61};

enum {
    RANK_COUNTS = sizeof rank_counts / sizeof rank_counts[0],
    PRIMES = sizeof primes / sizeof primes[0],
    MOST_ROWS = 300,      /* of a small group */
    MOST_LOAD = 3000,     /* accesses of a rank: about 400 visits */
    MOST_LOAD_MANY = 600, /* of a group that is not small */
    MANY = 16,
    MOST_SPAN = 1 << 12, /* of knobs, by magnitude */
    MOST_RANKS = 64,
    TRIES = 8
};

static bool one_in(sg_random *random, int n)
{
    return sg_random_below(random, n) == 0;
}

static int64_t extent(sg_random *random, int64_t most)
{
    const int64_t kind = sg_random_below(random, 16);
    if (kind == 0) return 0;
    if (kind == 1) return 1;
    if (kind < 6) return sg_min(most, primes[sg_random_below(random, PRIMES)]);
    if (kind < 10) return sg_min(most, INT64_C(1) << sg_random_below(random, 9));
    return 1 + sg_random_below(random, kind < 14 ? sg_min(most, 64) : most);
}

/* Splits M rows over the ranks in any way, some owning nothing. */
static void ragged(sg_random *random, int64_t m, int ranks, int64_t *rows)
{
    int64_t left = m;
    for (int r = 0; r < ranks; r++) rows[r] = 0;
    for (int r = 0; r < ranks - 1; r++) {
        const int64_t share = 2 * sg_ceil_div(m, ranks);
        rows[r] = one_in(random, 5) ? 0 : sg_random_below(random, sg_min(left, share) + 1);
        left -= rows[r];
    }
    rows[ranks - 1] = left;
    const int64_t other = sg_random_below(random, ranks);
    const int64_t kept = rows[other];
    rows[other] = rows[ranks - 1];
    rows[ranks - 1] = kept;
}

/* Rows for every pair of ranks, in any way: many none, a few many.  Returns the highest product. */
static int64_t uneven(sg_random *random, sg_op op, int64_t m, int ranks, int64_t *counts)
{
    const int64_t even = sg_ceil_div(m, ranks);
    for (int i = 0; i < ranks * ranks; i++) {
        const int64_t kind = sg_random_below(random, 8);
        counts[i] = kind < 3 ? 0 : sg_random_below(random, (kind == 7 ? 3 : 1) * even + 1);
    }
    int64_t most = 0;
    for (int r = 0; r < ranks; r++) {
        int64_t rows = 0;
        for (int q = 0; q < ranks; q++)
            rows += op == SG_OP_A2A_GEMM ? counts[q * ranks + r] : counts[r * ranks + q];
        most = sg_max(most, rows);
    }
    return most;
}

/* N columns for two or more B, and A as an output. */
static void random_shared(sg_random *random, sg_ask *ask)
{
    const bool arrives = ask->op == SG_OP_AG_GEMM || ask->op == SG_OP_A2A_GEMM;
    if (ask->gather != SG_GATHER_A || (!arrives && ask->op != SG_OP_GEMM)) return;
    ask->return_a = arrives && ask->n > 0 && one_in(random, 3);
    if (ask->call || ask->n < 2 || one_in(random, 2)) return;
    int64_t left = ask->n;
    const int count = (int)sg_min(left, 2 + sg_random_below(random, SHINGLE_MOST_B - 1));
    for (int i = 0; i < count; i++, ask->b_count++) {
        const int64_t most = left - (count - 1 - i);
        ask->b_cols[i] = i == count - 1 ? left : 1 + sg_random_below(random, most);
        left -= ask->b_cols[i];
    }
}

/* What goes with the operator of ASK, whose extents are chosen. */
static void random_attributes(sg_random *random, sg_ask *ask)
{
    if (ask->op == SG_OP_AG_GEMM && one_in(random, 2))
        ask->gather = one_in(random, 2) ? SG_GATHER_B : SG_GATHER_K;
    const bool adds = ask->op == SG_OP_GEMM || ask->op == SG_OP_AG_GEMM;
    ask->accumulate = adds && one_in(random, 3);
    ask->call = !ask->accumulate && ask->gather == SG_GATHER_A && ask->k > 0 && one_in(random, 6);
    if (ask->call) ask->call_flops = sg_random_below(random, 1000);
    random_shared(random, ask);
    if (ask->accumulate) return;
    ask->bias = one_in(random, 3);
    ask->act = one_in(random, 3) ? (sg_act)sg_random_below(random, SG_ACTS) : SG_ACT_NONE;
    const bool sums = ask->op == SG_OP_GEMM_RS || ask->op == SG_OP_GEMM_AR;
    ask->norm = sums && !ask->call && ask->act == SG_ACT_NONE && one_in(random, 3);
}

/* Who owns what moves, in LIST if it takes one. */
static void random_deal(sg_random *random, sg_ask *ask, int64_t *list)
{
    const int64_t split = sg_random_below(random, 4);
    if (ask->op == SG_OP_A2A_GEMM || ask->op == SG_OP_GEMM_A2A) {
        if (split < 2) return;
        ask->m = uneven(random, ask->op, ask->m, ask->ranks, list);
        ask->counts = list;
        return;
    }
    const int64_t moves = ask->gather == SG_GATHER_B   ? ask->n
                          : ask->gather == SG_GATHER_K ? ask->k
                                                       : ask->m;
    if (split == 1) ask->cyclic = 1 + sg_random_below(random, sg_max(1, moves / 2));
    if (split != 2) return;
    ragged(random, moves, ask->ranks, list);
    ask->rows = list;
}

static shingle_status random_problem(sg_random *random, int ranks, int64_t shrink, sg_problem *out)
{
    int64_t list[MOST_RANKS * MOST_RANKS];
    const bool many = ranks > MANY;
    sg_ask ask = {.ranks = ranks,
                  .m = extent(random, sg_max(1, MOST_ROWS / shrink)),
                  .n = extent(random, sg_max(1, (many ? 32 : MOST_ROWS) / shrink)),
                  .k = extent(random, sg_max(1, (many ? 32 : MOST_ROWS) / shrink)),
                  .op = (sg_op)sg_random_below(random, SG_OPS),
                  .type = (sg_type)sg_random_below(random, SG_TYPES)};
    random_attributes(random, &ask);
    random_deal(random, &ask, list);
    return sg_problem_ask(&ask, out);
}

static const sg_strategy *random_strategy(sg_random *random, const sg_problem *problem)
{
    const sg_strategy *chosen = NULL;
    int64_t seen = 0;
    for (int i = 0; sg_strategy_at(i) != NULL; i++) {
        char reason[160];
        sg_text why = {reason, sizeof reason, 0};
        if (!sg_strategy_at(i)->accepts(problem, &why)) continue;
        if (sg_random_below(random, ++seen) == 0) chosen = sg_strategy_at(i);
    }
    return chosen;
}

/* Anywhere inside the limits; of knobs that reach far, most by magnitude, so that values that do
 * something to small extents are frequent. */
static void random_knobs(sg_random *random, const sg_strategy *strategy, sg_knobs *knobs)
{
    const int count = sg_knob_count(strategy);
    *knobs = (sg_knobs){{0}};
    for (int i = 0; i < count; i++) {
        int64_t span = (int64_t)strategy->knob[i].most - strategy->knob[i].least + 1;
        if (!one_in(random, span > 32 ? 8 : 2)) {
            int bits = 1;
            while (INT64_C(1) << bits < sg_min(span, MOST_SPAN)) bits++;
            span = sg_min(span, INT64_C(1) << sg_random_below(random, bits + 1));
        }
        knobs->value[i] = strategy->knob[i].least + (int32_t)sg_random_below(random, span);
    }
}

/* Accesses of all visits and steps of rank 0, roughly. */
static int64_t load_of(const sg_sched *s)
{
    int64_t load = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        load += 2 + step->waits + step->tos;
        if (step->kind == SG_REDUCE) load += 2 * step->u.reduce.adds;
        if (step->kind != SG_LAUNCH) continue;
        const sg_launch *const l = &step->u.launch;
        for (int32_t j = l->patch0; j < l->patch0 + l->patches; j++) {
            const sg_patch *const p = &s->patch[j];
            load += (int64_t)sg_sched_patch_visits(s, l, j) *
                    ((int64_t)sg_walk_slabs(p) * (2 + p->waits) + 2 * p->adds + p->tos + p->raises);
        }
    }
    return load;
}

static bool is_bounded(const sg_problem *problem, const sg_strategy *strategy,
                       const sg_knobs *knobs)
{
    sg_sched s = {0};
    sg_sched_begin(&s, problem, 0);
    strategy->build(problem, knobs, 0, &s);
    const bool bounded = s.status != SHINGLE_OK ||
                         load_of(&s) <= (problem->ranks > MANY ? MOST_LOAD_MANY : MOST_LOAD);
    sg_sched_free(&s);
    return bounded;
}

shingle_status sg_check_triple(sg_random *random, int max_ranks, sg_problem *problem_out,
                               const sg_strategy **strategy_out, sg_knobs *knobs_out)
{
    int counts = 0;
    while (counts < RANK_COUNTS && rank_counts[counts] <= max_ranks) counts++;
    if (counts == 0)
        return sg_fail(SHINGLE_EINVAL, "at most %d ranks; 1 or more are possible", max_ranks);
    const int ranks = rank_counts[sg_random_below(random, counts)];
    for (int64_t shrink = 1;; shrink *= 2) {
        SG_TRY(random_problem(random, ranks, shrink, problem_out));
        *strategy_out = random_strategy(random, problem_out);
        for (int i = 0; i < TRIES && *strategy_out != NULL; i++) {
            random_knobs(random, *strategy_out, knobs_out);
            if (is_bounded(problem_out, *strategy_out, knobs_out)) return SHINGLE_OK;
        }
        /* A product of one row cannot be made smaller. */
        if (shrink > MOST_ROWS && *strategy_out != NULL) return SHINGLE_OK;
        sg_problem_free(problem_out);
        if (shrink > MOST_ROWS) return sg_fail(SHINGLE_EBUG, "no strategy accepts a problem");
    }
}

/* ---- Many of them, on threads ---------------------------------------------------------------- */

enum { BATCH = 16, MOST_THREADS = 256 };

typedef struct proof {
    const shingle_check_options *options;
    int max_ranks;
    atomic_llong next, done; /* triples handed out and finished; order among threads is free */
    atomic_bool stop;        /* a thread failed; relaxed, it only saves work */
    pthread_mutex_t lock;    /* of what follows */
    shingle_status status;
    char why[256]; /* of status */
    int64_t first; /* lowest triple that is refuted */
    shingle_check_report report;
} proof;

static void refute(proof *all, int64_t index, const sg_problem *problem,
                   const sg_strategy *strategy, const sg_knobs *knobs, const char *why)
{
    pthread_mutex_lock(&all->lock);
    all->report.violations++;
    if (all->first < 0 || index < all->first) {
        char text[sizeof all->report.first];
        all->first = index;
        sg_text t = {all->report.first, sizeof all->report.first, 0};
        sg_problem_print(problem, text, 200);
        sg_text_add(&t, "%s ", text);
        sg_strategy_print(strategy, knobs, &t);
        sg_text_add(&t, ": %s", why);
    }
    pthread_mutex_unlock(&all->lock);
}

/* Checks triple INDEX, which depends on the seed and on INDEX alone. */
static shingle_status check_one(proof *all, sg_checker *checker, int64_t index, int64_t *visits)
{
    sg_random random = {sg_mix(all->options->seed + sg_mix((uint64_t)index))};
    sg_problem problem;
    const sg_strategy *strategy = NULL;
    sg_knobs knobs;
    sg_check_result result;
    SG_TRY(sg_check_triple(&random, all->max_ranks, &problem, &strategy, &knobs));
    shingle_status status = sg_check_built(checker, &problem, strategy, &knobs, 0, &result);
    *visits += result.visits;
    if (status == SHINGLE_EBUG) {
        refute(all, index, &problem, strategy, &knobs, result.why);
        status = SHINGLE_OK;
    }
    sg_problem_free(&problem);
    return status;
}

static shingle_status check_batch(proof *all, sg_checker *checker, int64_t first, int64_t end)
{
    int64_t visits = 0;
    shingle_status status = SHINGLE_OK;
    for (int64_t i = first; i < end && status == SHINGLE_OK; i++)
        status = check_one(all, checker, i, &visits);
    pthread_mutex_lock(&all->lock);
    all->report.visits += visits;
    if (status != SHINGLE_OK && all->status == SHINGLE_OK) {
        all->status = status;
        snprintf(all->why, sizeof all->why, "%s", shingle_error());
    }
    pthread_mutex_unlock(&all->lock);
    return status;
}

/* Takes batches until none is left.  The calling thread alone reports progress. */
static void work(proof *all, bool reports)
{
    const shingle_check_options *const o = all->options;
    sg_checker *const checker = sg_checker_new();
    while (checker != NULL && !atomic_load_explicit(&all->stop, memory_order_relaxed)) {
        const int64_t first = atomic_fetch_add(&all->next, BATCH);
        if (first >= o->count) break;
        const int64_t end = sg_min(first + BATCH, o->count);
        if (check_batch(all, checker, first, end) != SHINGLE_OK) atomic_store(&all->stop, true);
        const int64_t done = atomic_fetch_add(&all->done, end - first) + end - first;
        if (reports && o->progress != NULL) o->progress(o->context, done, o->count);
    }
    if (checker == NULL) {
        pthread_mutex_lock(&all->lock);
        all->status = SHINGLE_ENOMEM;
        snprintf(all->why, sizeof all->why, "no memory for a checker");
        pthread_mutex_unlock(&all->lock);
        atomic_store(&all->stop, true);
    }
    sg_checker_free(checker);
}

static void *helper(void *context)
{
    work(context, false);
    return NULL;
}

static int threads_of(const shingle_check_options *options)
{
    if (options->threads > 0) return options->threads;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return (int)sg_max(1, sg_min(cores, MOST_THREADS));
}

shingle_status shingle_check_random(const shingle_check_options *options,
                                    shingle_check_report *report_out)
{
    if (options == NULL || report_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no options or no report given");
    if (options->count < 0)
        return sg_fail(SHINGLE_EINVAL, "%lld triples; 0 or more are possible",
                       (long long)options->count);
    if (options->max_ranks < 0 || options->max_ranks > MOST_RANKS)
        return sg_fail(SHINGLE_EINVAL, "at most %d ranks; 0 (all) to %d are possible",
                       options->max_ranks, MOST_RANKS);
    if (options->threads < 0 || options->threads > MOST_THREADS)
        return sg_fail(SHINGLE_EINVAL, "%d threads; 0 (cores) to %d are possible", options->threads,
                       MOST_THREADS);
    const double begin = sg_now_us();
    proof all = {.options = options,
                 .max_ranks = options->max_ranks > 0 ? options->max_ranks : MOST_RANKS,
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .first = -1};
    pthread_t thread[MOST_THREADS];
    int started = 0;
    /* Fewer threads than asked for still prove everything. */
    while (started < threads_of(options) - 1 &&
           sg_thread_start(&thread[started], helper, &all) == 0)
        started++;
    work(&all, true);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&all.lock);
    if (all.status != SHINGLE_OK) return sg_fail(all.status, "%s", all.why);
    all.report.checked = options->count;
    all.report.seconds = (sg_now_us() - begin) / 1e6;
    if (options->progress != NULL)
        options->progress(options->context, options->count, options->count);
    *report_out = all.report;
    return SHINGLE_OK;
}

/* ---- One plan -------------------------------------------------------------------------------- */

shingle_status shingle_plan_check(const shingle_plan *plan, const shingle_machine *machine)
{
    if (plan == NULL) return sg_fail(SHINGLE_EINVAL, "no plan given");
    sg_checker *const checker = sg_checker_new();
    if (checker == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a checker");
    sg_check_result result;
    const int sms = machine != NULL ? sg_machine_held_sms(&machine->numbers) : 0;
    const shingle_status status =
        sg_check_built(checker, &plan->problem, plan->strategy, &plan->knobs, sms, &result);
    sg_checker_free(checker);
    return status;
}
