/* bench_choose.c -- what choosing costs and how good a choice is: bench_choose
 * [MACHINE.machine...].
 *
 * For each machine file, products of Llama-3 and GPT-3 layers from decoding to long prompts, and
 * the large products of FiCCO's scenarios: how often the static rule takes what prediction takes
 * (or something predicted within 1 %), what it loses when it does not, and how long planning takes,
 * every candidate simulated. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan.h"

static bool verbose;
static const int rows[] = {64, 512, 2048, 8192, 16384};

/* OP, and n and k of a whole layer; the ranks share n (gather) or k (scatter). */
static const struct layer {
    const char *op;
    int n, k;
} layers[] = {
    {"ag_gemm", 10240, 8192}, {"ag_gemm", 57344, 8192}, {"ag_gemm", 49152, 12288},
    {"gemm_rs", 8192, 8192},  {"gemm_rs", 8192, 28672}, {"gemm_rs", 12288, 49152},
    {"gemm_ar", 8192, 8192},  {"gemm_ar", 8192, 28672}, {"gemm_ar", 4096, 14336},
};

/* m, n, k of a rank with 8 ranks, gathered: FiCCO's scenarios g1 to g9 with n shared by the
 * ranks. */
static const int scenario[][3] = {
    {16384, 2048, 131072}, {131072, 2048, 16384}, {53248, 2048, 131072},
    {16384, 6656, 16384},  {8192, 1024, 262144},  {262144, 1024, 8192},
    {28672, 1024, 262144}, {262144, 3584, 8192},  {196608, 2304, 16384},
};

enum {
    ROWS = sizeof rows / sizeof rows[0],
    LAYERS = sizeof layers / sizeof layers[0],
    SCENARIOS = sizeof scenario / sizeof scenario[0]
};

typedef struct tally {
    int problems, same, near_best, serial_right;
    double regret, worst, log_predict, log_static;
    double predict_us, most_us, static_us;
    char worst_problem[96], slow_problem[96];
} tally;

static double plan_by(const char *problem, const shingle_machine *machine, const char *choose,
                      shingle_plan **plan_out)
{
    const shingle_plan_options options = {.choose = choose};
    const double begin = sg_now_us();
    if (shingle_plan_for(problem, machine, &options, plan_out) != SHINGLE_OK) {
        fprintf(stderr, "%s: %s\n", problem, shingle_error());
        exit(1);
    }
    return sg_now_us() - begin;
}

static void try_one(const char *problem, const shingle_machine *machine, tally *t)
{
    shingle_plan *best = NULL;
    shingle_plan *rule = NULL;
    const double predict_us = plan_by(problem, machine, "predict", &best);
    const double static_us = plan_by(problem, machine, "static", &rule);
    const double regret = rule->predicted_us / best->predicted_us - 1;
    const double serial = best->candidate[0].predicted_us;
    t->problems++;
    t->same += strcmp(best->text, rule->text) == 0;
    t->near_best += regret < 0.01;
    t->serial_right += (best->chosen == 0) == (rule->chosen == 0);
    t->regret += regret;
    t->log_predict += log(serial / best->predicted_us);
    t->log_static += log(serial / rule->predicted_us);
    t->predict_us += predict_us;
    t->static_us += static_us;
    if (predict_us > t->most_us) {
        t->most_us = predict_us;
        snprintf(t->slow_problem, sizeof t->slow_problem, "%s", problem);
    }
    if (regret > t->worst) {
        t->worst = regret;
        snprintf(t->worst_problem, sizeof t->worst_problem, "%s", problem);
    }
    if (verbose)
        printf("%-40s %-60s %8.1f | %-60s %8.1f serial %8.1f %s\n", problem,
               best->candidate[best->chosen].text, best->predicted_us,
               rule->candidate[rule->chosen].text, rule->predicted_us, serial,
               strstr(rule->reason, "static"));
    sg_plan_free(best);
    sg_plan_free(rule);
}

static void try_machine(const char *path)
{
    shingle_machine *machine = NULL;
    if (shingle_machine_load(path, &machine) != SHINGLE_OK) {
        fprintf(stderr, "%s\n", shingle_error());
        exit(1);
    }
    const int ranks = machine->numbers.ranks < 8 ? machine->numbers.ranks : 8;
    tally t = {0};
    char problem[96];
    for (int l = 0; l < LAYERS; l++) {
        const bool gather = strcmp(layers[l].op, "ag_gemm") == 0;
        for (int r = 0; r < ROWS; r++) {
            snprintf(problem, sizeof problem, "%s:bf16:%dx%dx%d:r%d", layers[l].op, rows[r],
                     gather ? layers[l].n / ranks : layers[l].n,
                     gather ? layers[l].k : layers[l].k / ranks, ranks);
            try_one(problem, machine, &t);
        }
    }
    for (int i = 0; i < SCENARIOS && ranks == 8; i++) {
        snprintf(problem, sizeof problem, "ag_gemm:bf16:%dx%dx%d:r8", scenario[i][0],
                 scenario[i][1], scenario[i][2]);
        try_one(problem, machine, &t);
    }
    const double n = t.problems;
    printf("%-14s %8d %8.0f%% %8.0f%% %9.1f%% %8.1f%% %8.3f %8.3f %8.2f %8.2f %8.2f  %-34s %s\n",
           machine->numbers.name, t.problems, 100 * t.near_best / n, 100 * t.serial_right / n,
           100 * t.regret / n, 100 * t.worst, exp(t.log_predict / n), exp(t.log_static / n),
           t.predict_us / n / 1e3, t.most_us / 1e3, t.static_us / n / 1e3, t.worst_problem,
           t.slow_problem);
    shingle_machine_free(machine);
}

int main(int argc, char **argv)
{
    printf(
        "# accuracy: static within 1 %% of predicted best; serial: both or neither take serial;\n"
        "# regret: static over predict, mean and worst; gain: serial / chosen, geometric mean;\n"
        "# planning in ms, all candidates simulated (mean, worst) and static (mean)\n");
    printf("%-14s %8s %9s %9s %10s %9s %8s %8s %8s %8s %8s  %-34s %s\n", "# machine", "problems",
           "accuracy", "serial", "regret", "worst", "predict", "static", "plan_ms", "most_ms",
           "rule_ms", "worst at", "most_ms at");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else
            try_machine(argv[i]);
    }
    return 0;
}
