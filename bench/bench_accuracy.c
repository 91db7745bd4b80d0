/* bench_accuracy.c -- how near predictions come: on a scale model, every strategy's best proposal
 * for every tensor-parallel product of Llama 3 8B and 70B is run, checked and compared with what
 * the simulator says of it.
 *
 *     bench_accuracy --as machines/h200x4.machine [--tokens T] [--rounds N] [--model 8b|70b] [--ar]
 *                    [--only SUBSTRING] [--json]
 *
 * Prints predicted and measured times, the median of |predicted - measured| / measured, and what
 * the predicted choice costs against the best that was measured.  Wants a machine that does nothing
 * else: the scale model is made anew for every product, and a round in which the cores had more or
 * less to give than then (a spinning thread on each says so, before and after) is repeated; how
 * many were is printed. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bench.h"
#include "core/sim.h"

enum { RANKS = 4, MOST = 64, MOST_ROUNDS = 31, SPINNERS = 2, MOST_TRIES = 4, MOST_MODELS = 6 };

static const double spin_us = 20000;
static const double steady = 0.9; /* of what the cores gave at first */

typedef struct product {
    const char *model, *name;
    bool gather;
    int64_t n, k;
} product;

static const product products[] = {
    {"8b", "qkv", true, 1536, 4096},       {"8b", "o", false, 4096, 1024},
    {"8b", "gate_up", true, 7168, 4096},   {"8b", "down", false, 4096, 3584},
    {"70b", "qkv", true, 2560, 8192},      {"70b", "o", false, 8192, 2048},
    {"70b", "gate_up", true, 14336, 8192}, {"70b", "down", false, 8192, 7168},
};

typedef struct request {
    const char *as, *model, *only;
    int tokens, rounds, threads;
    bool ar, json;
} request;

typedef struct row {
    char text[96];
    double predicted_us, measured_us;
} row;

typedef struct results {
    double error[8 * MOST];
    int errors;
    double regret[8];
    int regrets;
    int64_t wrong;
    int repeated;
    bool begun;
    double spin; /* what the cores gave when the scale model was made, which is once a product */
} results;

static void check(shingle_status status)
{
    if (status == SHINGLE_OK) return;
    fprintf(stderr, "bench_accuracy: %s\n", shingle_error());
    exit(1);
}

/* ---- Is anybody else here? ------------------------------------------------------------------- */

static void *spin(void *count)
{
    const double until = sg_now_us() + spin_us;
    uint64_t turns = 0;
    uint64_t value = 1;
    while (sg_now_us() < until) {
        for (int i = 0; i < 1000; i++) value = sg_mix(value);
        turns += value != 0;
    }
    *(uint64_t *)count = turns;
    return NULL;
}

/* What the cores have to give, in turns. */
static double spin_all(void)
{
    pthread_t thread[SPINNERS];
    uint64_t turns[SPINNERS];
    double all = 0;
    for (int i = 0; i < SPINNERS; i++) pthread_create(&thread[i], NULL, spin, &turns[i]);
    for (int i = 0; i < SPINNERS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < SPINNERS; i++) all += (double)turns[i];
    return all;
}

/* Runs a plan once while nobody disturbs; false if that cannot be had. */
static bool run_steadily(sg_bench *bench, const shingle_plan *plan, results *r, double *us_out)
{
    for (int i = 0; i < MOST_TRIES; i++) {
        const double before = spin_all() / r->spin;
        check(sg_bench_run(bench, plan, ~0u, us_out));
        const double after = spin_all() / r->spin;
        if (fmin(before, after) > steady && fmax(before, after) < 1 / steady) return true;
        r->repeated++;
    }
    return false;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Each strategy's best proposal, best predicted first. */
static int pick(const shingle_plan *plan, const request *q, int index[MOST])
{
    int count = 0;
    for (int i = 0; i < plan->candidates; i++) {
        const sg_candidate *const c = &plan->candidate[i];
        if (c->declined[0] != '\0') continue;
        if (q->only != NULL && strstr(c->text, q->only) == NULL) continue;
        int same = 0;
        while (same < count && plan->candidate[index[same]].strategy != c->strategy) same++;
        if (same == MOST) continue;
        if (same == count)
            index[count++] = i;
        else if (c->predicted_us < plan->candidate[index[same]].predicted_us)
            index[same] = i;
    }
    return count;
}

static bool run_all(sg_bench *bench, const sg_problem *problem, const shingle_plan *plan,
                    const int *index, int count, const request *q, bool last, row *rows, results *r)
{
    static double us[MOST][MOST_ROUNDS];
    shingle_plan *made[MOST];
    for (int i = 0; i < count; i++) {
        const sg_candidate *const c = &plan->candidate[index[i]];
        double first = 0;
        check(sg_plan_make(problem, c->strategy, &c->knobs, &made[i]));
        check(sg_bench_run(bench, made[i], ~0u, &first));
    }
    bool good = true;
    for (int round = 0; round < q->rounds && (good || last); round++)
        for (int i = 0; i < count && (good || last); i++)
            good &= run_steadily(bench, made[i], r, &us[i][round]);
    for (int i = 0; i < count; i++) {
        const sg_candidate *const c = &plan->candidate[index[i]];
        snprintf(rows[i].text, sizeof rows[i].text, "%s", c->text);
        rows[i].predicted_us = c->predicted_us;
        rows[i].measured_us = sg_median(us[i], q->rounds);
        sg_plan_free(made[i]);
    }
    return good || last;
}

static void print_rows(const request *q, const char *problem, const char *here, const row *rows,
                       int count, double regret, results *r)
{
    if (q->json)
        printf("%s    {\"problem\": \"%s\", \"here\": \"%s\", \"regret\": %.4f, \"strategies\": [",
               r->begun ? ",\n" : "", problem, here, regret);
    else
        printf("%s on %s\n", problem, here);
    r->begun = true;
    for (int i = 0; i < count; i++) {
        const double off = rows[i].predicted_us / rows[i].measured_us - 1;
        if (q->json)
            printf(
                "%s\n      {\"strategy\": \"%s\", \"predicted_us\": %.1f, \"measured_us\": %.1f}",
                i ? "," : "", rows[i].text, rows[i].predicted_us, rows[i].measured_us);
        else
            printf("    %-62s predicted %9.1f ms, measured %9.1f ms, %+6.1f %%\n", rows[i].text,
                   rows[i].predicted_us / 1e3, rows[i].measured_us / 1e3, 100 * off);
        r->error[r->errors++] = fabs(off);
    }
    if (q->json)
        printf("]}");
    else
        printf("    the predicted choice is %.1f %% slower than the best measured\n", 100 * regret);
    fflush(stdout);
}

/* False: the cores changed while the product was measured; LAST takes it as it is. */
static bool compare(const product *p, const request *q, bool last, results *r)
{
    shingle_comm *comm[RANKS];
    const shingle_config config = {.scale_of = q->as, .threads = q->threads, .timeout_seconds = 60};
    check(shingle_open(RANKS, &config, comm));
    sg_group *const group = comm[0]->group;
    r->spin = 0;
    for (int i = 0; i < 5; i++) r->spin = fmax(r->spin, spin_all());
    char text[80];
    snprintf(text, sizeof text, "%s:bf16:%dx%lldx%lld:r%d",
             p->gather ? "ag_gemm"
             : q->ar   ? "gemm_ar"
                       : "gemm_rs",
             q->tokens, (long long)p->n, (long long)p->k, RANKS);
    sg_problem problem;
    shingle_plan *plan = NULL;
    sg_bench *bench = NULL;
    int index[MOST];
    row rows[MOST];
    check(sg_problem_parse(text, &problem));
    check(sg_planner_choose(&problem, &group->machine_of[problem.type], NULL, NULL, &group->can,
                            &plan));
    const int count = pick(plan, q, index);
    check(sg_bench_open(group, &problem, 1, &bench));
    const bool good = run_all(bench, &problem, plan, index, count, q, last, rows, r);
    r->wrong += sg_bench_wrong(bench);
    sg_bench_close(bench);
    const sg_strategy *const chosen = plan->candidate[plan->chosen].strategy;
    double best = INFINITY;
    double regret = 0; /* of a choice that --only leaves out: none */
    for (int i = 0; i < count; i++) best = fmin(best, rows[i].measured_us);
    for (int i = 0; i < count; i++)
        if (plan->candidate[index[i]].strategy == chosen) regret = rows[i].measured_us / best - 1;
    if (good) r->regret[r->regrets++] = regret;
    if (good) print_rows(q, text, group->machine_of[problem.type].name, rows, count, regret, r);
    sg_plan_free(plan);
    sg_problem_free(&problem);
    shingle_close(RANKS, comm);
    return good;
}

static request parse(int argc, char **argv)
{
    request q = {.as = "machines/h200x4.machine", .tokens = 256, .rounds = 3};
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--json") == 0)
            q.json = true;
        else if (strcmp(argv[i], "--ar") == 0)
            q.ar = true;
        else if (more && strcmp(argv[i], "--as") == 0)
            q.as = argv[++i];
        else if (more && strcmp(argv[i], "--model") == 0)
            q.model = argv[++i];
        else if (more && strcmp(argv[i], "--only") == 0)
            q.only = argv[++i];
        else if (more && strcmp(argv[i], "--tokens") == 0)
            q.tokens = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--rounds") == 0)
            q.rounds = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--threads") == 0)
            q.threads = atoi(argv[++i]);
        else {
            fprintf(stderr, "bench_accuracy: \"%s\"; the file's header says what is possible\n",
                    argv[i]);
            exit(2);
        }
    }
    if (q.tokens < 1 || q.rounds < 1 || q.rounds > MOST_ROUNDS) {
        fprintf(stderr, "bench_accuracy: at least one token, 1 to %d rounds\n", MOST_ROUNDS);
        exit(2);
    }
    return q;
}

int main(int argc, char **argv)
{
    const request q = parse(argc, argv);
    results r = {0};
    if (q.json)
        printf("{\n  \"machine\": \"%s\", \"tokens\": %d, \"rounds\": %d,\n  \"products\": [\n",
               q.as, q.tokens, q.rounds);
    else
        printf("%s, %d tokens, medians of %d\n", q.as, q.tokens, q.rounds);
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (q.model != NULL && strcmp(products[i].model, q.model) != 0) continue;
        if (q.ar && products[i].gather) continue;
        for (int models = 1; !compare(&products[i], &q, models == MOST_MODELS, &r);) models++;
    }
    const double error = sg_median(r.error, r.errors);
    const double regret = sg_median(r.regret, r.regrets);
    double worst = 0;
    for (int i = 0; i < r.regrets; i++) worst = fmax(worst, r.regret[i]);
    if (q.json)
        printf("\n  ],\n  \"median_error\": %.4f, \"median_regret\": %.4f, \"most_regret\": %.4f, "
               "\"repeated\": %d, \"wrong\": %lld\n}\n",
               error, regret, worst, r.repeated, (long long)r.wrong);
    else
        printf("median error %.1f %%; the choice costs %.1f %% in the median, %.1f %% at most; "
               "%d runs repeated; %lld wrong elements\n",
               100 * error, 100 * regret, 100 * worst, r.repeated, (long long)r.wrong);
    return r.wrong != 0;
}
