/* bench_sim.c -- what planning and simulating cost: every candidate of the llama-3-70b products on
 * eight ranks (built and simulated), behind a switch and behind PCIe bridges, 1024 ranks, and time
 * against steps.  Prints a table, or JSON with --json.  Each figure is the best of several rounds,
 * on one thread.  Reads machines/, so it runs in the source folder.  Exits with 1 if a limit of
 * planning is broken with --strict: 20 ms for all candidates of a problem, on 1024 ranks 1 s for a
 * strategy (the slowest is named) and 1 GB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/sim.h"
#include "core/strategy.h"

static void fail(const char *what)
{
    fprintf(stderr, "bench_sim: %s: %s\n", what, shingle_error());
    exit(2);
}

typedef struct figures {
    double us; /* of the best round, all candidates together */
    double build_us;
    double slowest_us;
    const char *slowest; /* strategy */
    int candidates;
    int64_t events, steps;
} figures;

/* Prices all candidates of TEXT once. */
static void plan_all(sg_simulator *simulator, const char *text, const sg_machine *machine, int most,
                     bool build_only, figures *f)
{
    static sg_sched sched[1];
    sg_problem p;
    if (sg_problem_parse(text, &p) != SHINGLE_OK) fail(text);
    f->candidates = 0;
    f->events = f->steps = 0;
    for (int i = 0; sg_strategy_at(i) != NULL; i++) {
        const sg_strategy *const strategy = sg_strategy_at(i);
        sg_knobs sets[SG_MAX_KNOB_SETS];
        char why[160] = "";
        sg_text reason = {why, sizeof why, 0};
        memset(sets, 0, sizeof sets);
        int count = strategy->propose(&p, machine, sets, &reason);
        if (count > most) count = most;
        for (int k = 0; k < count; k++) {
            f->candidates++;
            if (build_only) {
                for (int r = 0; r < p.ranks; r++) {
                    sg_sched_begin(sched, &p, r);
                    strategy->build(&p, &sets[k], r, sched);
                    if (sg_sched_seal(sched) != SHINGLE_OK) fail(text);
                    f->steps += sched->steps + sched->patches;
                }
                continue;
            }
            sg_sim_result result;
            const double begin = sg_now_us();
            if (sg_simulate_built(simulator, &p, strategy, &sets[k], machine, NULL, &result) !=
                SHINGLE_OK)
                fail(text);
            f->events += result.events;
            const double us = sg_now_us() - begin;
            if (us < f->slowest_us) continue;
            f->slowest_us = us;
            f->slowest = strategy->name;
        }
    }
    sg_problem_free(&p);
}

static figures measure(sg_simulator *simulator, const char *text, const sg_machine *machine,
                       int most, int rounds)
{
    figures best = {.us = 1e30, .build_us = 1e30};
    for (int i = 0; i < rounds; i++) {
        figures f = {0};
        double begin = sg_now_us();
        plan_all(simulator, text, machine, most, false, &f);
        const double us = sg_now_us() - begin;
        figures g = {0};
        begin = sg_now_us();
        plan_all(simulator, text, machine, most, true, &g);
        const double build = sg_now_us() - begin;
        best.candidates = f.candidates;
        best.events = f.events;
        best.steps = g.steps;
        if (us < best.us) {
            best.us = us;
            best.slowest_us = f.slowest_us;
            best.slowest = f.slowest;
        }
        if (build < best.build_us) best.build_us = build;
    }
    return best;
}

static double memory_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

typedef struct table {
    bool json;
    int rows;
    bool broken;
} table;

static void print_row(table *t, const char *what, const char *text, const figures *f,
                      double limit_ms, bool each)
{
    const bool good = (each ? f->slowest_us : f->us) / 1e3 <= limit_ms;
    t->broken |= !good;
    if (t->json)
        printf("%s    {\"what\": \"%s\", \"problem\": \"%s\", \"candidates\": %d, \"ms\": %.3f, "
               "\"build_ms\": %.3f, \"slowest\": \"%s\", \"slowest_ms\": %.3f, \"events\": %lld, "
               "\"steps\": %lld, \"limit_ms\": %.0f, \"limit_of\": \"%s\"}",
               t->rows ? ",\n" : "", what, text, f->candidates, f->us / 1e3, f->build_us / 1e3,
               f->slowest, f->slowest_us / 1e3, (long long)f->events, (long long)f->steps, limit_ms,
               each ? "slowest" : "all");
    else
        printf("%-8s %-35s %3d candidates %9.3f ms (building alone %8.3f; %-8s %8.3f) %8lld events "
               "%9lld steps  limit %.0f ms%s%s\n",
               what, text, f->candidates, f->us / 1e3, f->build_us / 1e3, f->slowest,
               f->slowest_us / 1e3, (long long)f->events, (long long)f->steps, limit_ms,
               each ? " each" : "", good ? "" : "  BROKEN");
    t->rows++;
}

/* llama-3-70b on eight ranks: qkv, attention output, gate and up, down. */
static void plan_layer(table *t, sg_simulator *simulator, const char *what,
                       const sg_machine *machine)
{
    static const char *const planned[] = {
        "ag_gemm:bf16:%dx1280x8192:r8", "gemm_rs:bf16:%dx8192x1024:r8",
        "ag_gemm:bf16:%dx7168x8192:r8", "gemm_rs:bf16:%dx8192x3584:r8",
        "gemm_ar:bf16:%dx8192x3584:r8",
    };
    for (int size = 512; size <= 16384; size *= 32) {
        for (size_t i = 0; i < sizeof planned / sizeof *planned; i++) {
            char text[80];
            snprintf(text, sizeof text, planned[i], size); /* NOLINT */
            const figures f = measure(simulator, text, machine, SG_MAX_KNOB_SETS, 5);
            print_row(t, what, text, &f, 20, false);
        }
    }
}

int main(int argc, char **argv)
{
    table t = {0};
    bool strict = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            t.json = true;
        else if (strcmp(argv[i], "--strict") == 0)
            strict = true;
        else {
            fprintf(stderr, "bench_sim: \"%s\"; --json and --strict are possible\n", argv[i]);
            return 2;
        }
    }
    sg_machine eight;
    sg_machine_plain(&eight);
    eight.ranks = 8;
    eight.sms = 132;
    eight.coll_sms = 24;
    sg_simulator *const simulator = sg_simulator_new();
    if (simulator == NULL) return 2;
    if (t.json) printf("{\n  \"rows\": [\n");

    plan_layer(&t, simulator, "plan", &eight);
    /* Whatever leaves a card shares bridges there: the dearest machine to simulate. */
    sg_machine cards;
    if (sg_machine_read("machines/a100-pcie-x8.machine", &cards) != SHINGLE_OK) fail("PCIe");
    plan_layer(&t, simulator, "pcie", &cards);

    /* One proposal of every strategy. */
    sg_machine many = eight;
    many.ranks = SG_MAX_RANKS;
    static const char *const large[] = {"ag_gemm:bf16:131072x1024x8192:r1024",
                                        "gemm_rs:bf16:131072x8192x1024:r1024"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        const figures f = measure(simulator, large[i], &many, 1, 1);
        print_row(&t, "1024", large[i], &f, 1000, true);
    }
    const double memory = memory_mb();
    t.broken |= memory > 1024;

    /* Cost against steps. */
    for (int ranks = 2; ranks <= 256; ranks *= 2) {
        char text[80];
        snprintf(text, sizeof text, "ag_gemm:bf16:%dx4096x8192:r%d", ranks * 256, ranks);
        const figures f = measure(simulator, text, &many, 1, 2);
        print_row(&t, "scaling", text, &f, 1000, true);
    }
    if (t.json)
        printf("\n  ],\n  \"most_memory_mb\": %.1f\n}\n", memory);
    else
        printf("most memory until 1024 ranks: %.1f MB\n", memory);
    sg_simulator_free(simulator);
    return strict && t.broken ? 1 : 0;
}
