/* fit.c -- see fit.h.  Levenberg and Marquardt's method, with derivatives from simulations:
 *
 *     minimise  sum of rho(ln(predicted / measured))  +  sum of (prior * (x - x0))^2
 *
 * over x, a rate's logarithm or a latency in units of what it was at first.  rho grows like a
 * square near 0 and like a straight line further out. */
#include "core/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/sim.h"

enum { ROUNDS = 60, TRIALS = 8 };

static const double prior = 0.02;  /* of moving a rate by e, or a latency by itself */
static const double outlier = 0.1; /* relative errors beyond this count less */
static const double probe = 0.04;  /* step of a derivative */
static const double exact = 1e-12; /* a cost that no other numbers would lower */

/* One number: x is what the method moves. */
typedef struct number {
    const char *name;
    double least, most;
    double unit; /* 0: x is the logarithm */
    double start, x;
} number;

typedef struct fit {
    sg_simulator *simulator;
    sg_fit_run *run;
    int runs, numbers;
    double until_us;
    sg_machine machine;
    number number[SG_FIT_NUMBERS];
    double *predicted, *before; /* [runs] */
    double *slope;              /* [runs][numbers] of ln(predicted) */
    bool seen[SG_FIT_NUMBERS];  /* some run depended on it somewhere on the way */
} fit;

/* ---- Numbers --------------------------------------------------------------------------------- */

static double value_of(const number *n, double x)
{
    const double value = n->unit > 0 ? x * n->unit : exp(x);
    return value < n->least ? n->least : value > n->most ? n->most : value;
}

static double x_of(const number *n, double value)
{
    return n->unit > 0 ? value / n->unit : log(value);
}

static void set_number(sg_machine *machine, const number *n, double x)
{
    *sg_machine_number(machine, n->name, NULL, NULL) = value_of(n, x);
}

static bool ends_in(const char *name, const char *end)
{
    const size_t length = strlen(name);
    const size_t tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

/* What ends in _us may be 0.  A number that was left out begins where it makes no difference: a
 * factor at 1, a rate at that of the memory. */
static shingle_status open_number(fit *f, const char *name, number *n)
{
    *n = (number){.name = name};
    double *const at = sg_machine_number(&f->machine, name, &n->least, &n->most);
    if (at == NULL) return sg_fail(SHINGLE_EINVAL, "no number \"%s\" in a machine file", name);
    double value = *at;
    if (ends_in(name, "_us")) n->unit = value > 1 ? value : 1;
    if (value <= 0 && n->unit <= 0) value = ends_in(name, "_gbps") ? f->machine.mem_gbps : 1;
    *at = value_of(n, x_of(n, value));
    n->start = n->x = x_of(n, *at);
    return SHINGLE_OK;
}

/* Four figures are more than a measurement has. */
double sg_fit_rounded(double value)
{
    if (value <= 0) return 0;
    const double unit = pow(10, floor(log10(value)) - 3);
    return unit < 1e-6 ? round(value * 1e6) / 1e6 : round(value / unit) * unit;
}

/* ---- Predictions ----------------------------------------------------------------------------- */

static shingle_status predict_one(sg_simulator *simulator, const sg_fit_run *run,
                                  const sg_machine *machine, double *us_out)
{
    sg_sim_result result;
    SG_TRY(sg_simulate_built(simulator, run->problem, run->strategy, &run->knobs, machine, NULL,
                             &result));
    *us_out = result.us > 1e-3 ? result.us : 1e-3;
    return SHINGLE_OK;
}

static shingle_status predict(fit *f, const sg_machine *machine)
{
    for (int i = 0; i < f->runs; i++)
        SG_TRY(predict_one(f->simulator, &f->run[i], machine, &f->predicted[i]));
    return SHINGLE_OK;
}

static double loss(double error)
{
    const double size = fabs(error);
    return size <= outlier ? size * size : outlier * (2 * size - outlier);
}

/* Predicts all runs, or as many as it takes to see that the cost is not below LIMIT; then it is
 * infinite.  Those that depend on number MOVED (-1: on any) come first: they show it soonest. */
static shingle_status predict_cost(fit *f, const number *numbers, const sg_machine *machine,
                                   int moved, double limit, double *cost_out)
{
    double cost = 0;
    for (int j = 0; j < f->numbers; j++) {
        const double away = prior * (numbers[j].x - numbers[j].start);
        cost += away * away;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < f->runs && cost < limit; i++) {
            const bool early = moved < 0 || fabs(f->slope[i * f->numbers + moved]) > 0.01;
            if (early != (pass == 0)) continue;
            SG_TRY(predict_one(f->simulator, &f->run[i], machine, &f->predicted[i]));
            cost += loss(log(f->predicted[i] / f->run[i].us));
        }
    }
    *cost_out = cost < limit ? cost : INFINITY;
    return SHINGLE_OK;
}

/* A step up, or down where there is no more room. */
static shingle_status find_slopes(fit *f)
{
    for (int j = 0; j < f->numbers; j++) {
        const number *const n = &f->number[j];
        const double up = value_of(n, n->x + probe) > value_of(n, n->x) ? probe : -probe;
        sg_machine other = f->machine;
        set_number(&other, n, n->x + up);
        for (int i = 0; i < f->runs; i++) {
            double us = 0;
            SG_TRY(predict_one(f->simulator, &f->run[i], &other, &us));
            const double slope = log(us / f->predicted[i]) / up;
            f->slope[i * f->numbers + j] = slope;
            f->seen[j] |= fabs(slope) > 1e-6;
        }
    }
    return SHINGLE_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

enum { WIDTH = SG_FIT_NUMBERS + 1 };

/* Solves the system of N rows in place, its right sides in column N; the matrix is positive. */
static void solve(double system[SG_FIT_NUMBERS][WIDTH], int n, double *x_out)
{
    for (int i = 0; i < n; i++) {
        for (int row = i + 1; row < n; row++) {
            const double factor = system[row][i] / system[i][i];
            for (int col = i; col <= n; col++) system[row][col] -= factor * system[i][col];
        }
    }
    for (int i = n; i-- > 0;) {
        double sum = system[i][n];
        for (int col = i + 1; col < n; col++) sum -= system[i][col] * x_out[col];
        x_out[i] = sum / system[i][i];
    }
}

/* Where the numbers should go if the model were linear; DAMPING keeps them near. */
static void find_step(const fit *f, double damping, double *step_out)
{
    double system[SG_FIT_NUMBERS][WIDTH];
    memset(system, 0, sizeof system);
    for (int i = 0; i < f->runs; i++) {
        const double error = log(f->predicted[i] / f->run[i].us);
        const double weight = fabs(error) <= outlier ? 1 : outlier / fabs(error);
        const double *const slope = &f->slope[i * f->numbers];
        for (int a = 0; a < f->numbers; a++) {
            for (int b = 0; b < f->numbers; b++) system[a][b] += weight * slope[a] * slope[b];
            system[a][f->numbers] -= weight * slope[a] * error;
        }
    }
    for (int j = 0; j < f->numbers; j++) {
        const number *const n = &f->number[j];
        system[j][f->numbers] -= prior * prior * (n->x - n->start);
        system[j][j] = (system[j][j] + prior * prior) * (1 + damping);
    }
    solve(system, f->numbers, step_out);
}

/* Half a rate's logarithm at a time is as far as slopes are to be trusted. */
static double trusted(const number *n, double step)
{
    const double most = n->unit > 0 ? 2 : 0.5;
    return step > most ? most : step < -most ? -most : step;
}

static void try_step(const fit *f, const double *step, number *numbers, sg_machine *machine)
{
    *machine = f->machine;
    for (int j = 0; j < f->numbers; j++) {
        number *const n = &numbers[j];
        *n = f->number[j];
        n->x += step[j];
        n->x = x_of(n, value_of(n, n->x)); /* not beyond what the line may hold */
        set_number(machine, n, n->x);
    }
}

/* Goes STEP, of number MOVED or of all (-1), if that is better: *COST is what it is then. */
static shingle_status go_if_better(fit *f, const double *step, int moved, double *cost,
                                   bool *better_out)
{
    number numbers[SG_FIT_NUMBERS];
    sg_machine machine;
    double other = 0;
    try_step(f, step, numbers, &machine);
    SG_TRY(predict_cost(f, numbers, &machine, moved, *cost, &other));
    *better_out = other < *cost;
    if (!*better_out) return SHINGLE_OK;
    memcpy(f->number, numbers, (size_t)f->numbers * sizeof *numbers);
    f->machine = machine;
    *cost = other;
    return SHINGLE_OK;
}

/* One step by slopes; damped more and more until it helps. */
static shingle_status step_by_slopes(fit *f, double *damping, double *cost)
{
    bool better = false;
    SG_TRY(predict(f, &f->machine));
    SG_TRY(find_slopes(f));
    memcpy(f->before, f->predicted, (size_t)f->runs * sizeof *f->before);
    for (int trial = 0; trial < TRIALS && !better; trial++, *damping *= 4) {
        double step[SG_FIT_NUMBERS];
        memcpy(f->predicted, f->before, (size_t)f->runs * sizeof *f->before);
        find_step(f, *damping, step);
        for (int j = 0; j < f->numbers; j++) step[j] = trusted(&f->number[j], step[j]);
        SG_TRY(go_if_better(f, step, -1, cost, &better));
        if (better) *damping /= 32;
    }
    return SHINGLE_OK;
}

/* Moves one number after the other by STRIDE: times jump where another tile or copy comes first,
 * and slopes do not see beyond that. */
static shingle_status step_by_one(fit *f, double stride, double *cost)
{
    for (int j = 0; j < f->numbers && sg_now_us() < f->until_us; j++) {
        bool better = false;
        for (int way = 0; way < 2 && !better; way++) {
            double step[SG_FIT_NUMBERS] = {0};
            step[j] = way == 0 ? stride : -stride;
            SG_TRY(go_if_better(f, step, j, cost, &better));
        }
        f->seen[j] |= better;
    }
    return SHINGLE_OK;
}

static shingle_status search(fit *f)
{
    double damping = 0.01;
    double stride = 1.6;
    double cost = 0;
    SG_TRY(predict_cost(f, f->number, &f->machine, -1, INFINITY, &cost));
    for (int round = 0; round < ROUNDS && stride > 0.004 && sg_now_us() < f->until_us; round++) {
        const double before = cost;
        SG_TRY(step_by_slopes(f, &damping, &cost));
        if (damping > 1e3) damping = 0.1;
        SG_TRY(step_by_one(f, stride, &cost));
        if (cost > before * 0.995) stride /= 2;
        if (cost < exact) break;
    }
    return SHINGLE_OK;
}

/* ---- The calls ------------------------------------------------------------------------------- */

shingle_status sg_fit_predict(sg_fit_run *run, int runs, const sg_machine *machine)
{
    sg_simulator *const simulator = sg_simulator_new();
    if (simulator == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a simulator");
    shingle_status status = SHINGLE_OK;
    for (int i = 0; i < runs && status == SHINGLE_OK; i++)
        status = predict_one(simulator, &run[i], machine, &run[i].predicted_us);
    sg_simulator_free(simulator);
    return status;
}

double sg_fit_error(const sg_fit_run *run, int runs)
{
    double *const error = malloc((size_t)(runs > 0 ? runs : 1) * sizeof *error);
    double median = 0;
    for (int i = 0; error != NULL && i < runs; i++)
        error[i] = fabs(run[i].predicted_us / run[i].us - 1);
    if (error != NULL) median = sg_median(error, runs);
    free(error);
    return median;
}

static shingle_status check_runs(const sg_fit_run *run, int runs, int names)
{
    if (names > SG_FIT_NUMBERS)
        return sg_fail(SHINGLE_EINVAL, "%d numbers to be found; at most %d are possible", names,
                       (int)SG_FIT_NUMBERS);
    for (int i = 0; i < runs; i++)
        if (!(run[i].us > 0) || !(run[i].us < 1e15))
            return sg_fail(SHINGLE_EINVAL, "run %d took %g us; more than 0 is needed", i,
                           run[i].us);
    return SHINGLE_OK;
}

static shingle_status fit_all(fit *f, const char *const *name, sg_machine *machine,
                              sg_fit_report *report_out)
{
    for (int j = 0; j < f->numbers; j++) SG_TRY(open_number(f, name[j], &f->number[j]));
    SG_TRY(sg_fit_predict(f->run, f->runs, machine));
    report_out->error_before = sg_fit_error(f->run, f->runs);
    SG_TRY(search(f));
    for (int j = 0; j < f->numbers; j++) {
        const number *const n = &f->number[j];
        double value = sg_fit_rounded(value_of(n, n->x));
        if (value > n->most) value = n->most;
        if (value < n->least) value = n->least;
        report_out->seen[j] = f->seen[j];
        if (report_out->seen[j]) *sg_machine_number(machine, n->name, NULL, NULL) = value;
    }
    SG_TRY(sg_fit_predict(f->run, f->runs, machine));
    report_out->error_after = sg_fit_error(f->run, f->runs);
    return SHINGLE_OK;
}

shingle_status sg_fit(sg_fit_run *run, int runs, const char *const *name, int names,
                      double until_us, sg_machine *machine, sg_fit_report *report_out)
{
    *report_out = (sg_fit_report){.error_before = 0};
    SG_TRY(check_runs(run, runs, names));
    if (runs == 0 || names == 0) return SHINGLE_OK;
    const size_t cells = (size_t)runs * (size_t)names;
    fit *const f = calloc(1, sizeof *f);
    double *const doubles = calloc(2 * (size_t)runs + cells, sizeof *doubles);
    sg_simulator *const simulator = sg_simulator_new();
    shingle_status status = SHINGLE_OK;
    if (f == NULL || doubles == NULL || simulator == NULL) {
        status = sg_fail(SHINGLE_ENOMEM, "no memory to fit %d numbers to %d runs", names, runs);
    } else {
        *f = (fit){.simulator = simulator,
                   .run = run,
                   .runs = runs,
                   .numbers = names,
                   .until_us = until_us,
                   .machine = *machine,
                   .predicted = doubles,
                   .before = doubles + runs,
                   .slope = doubles + 2 * runs};
        sg_machine found = *machine;
        status = fit_all(f, name, &found, report_out);
        if (status == SHINGLE_OK) *machine = found;
    }
    sg_simulator_free(simulator);
    free(doubles);
    free(f);
    return status;
}
