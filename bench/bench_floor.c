/* bench_floor.c -- how near to its bound an overlap can come on this machine: every product beside
 * the transfer that belongs to it, neither of which waits for the other.
 *
 *     bench_floor SUITE [--backend B] [--as MACHINE] [--ranks N] [--seconds S] [--only SUBSTRING]
 *                 [--json [--commit C]]
 *
 * The bound of a problem is the longer of the vendor's product and the library's collective, each
 * with the machine to itself.  Together they share memory, links and watts, so that even what has
 * nothing to wait for takes longer.  How much longer say, in turns with both,
 *
 *     beside{by=0,1}  the vendor's product in one lane, the collective in another; 1: in windows
 *     beside{by=2}    the same with copy engines, a lane a peer; what arrives is not added up
 *     loose           a plan without its waits: its launch, its stores, its sums of whatever is
 *                     there; of three strategies the candidate that is predicted to be best
 *
 * What they compute is wrong by construction, and what the bench counts of it is not asked for.
 * The time is not wrong: it is the least of any overlap by these means, whose last tile must still
 * travel.  `floor` is the best of them and of the plan that is chosen: what every second round says
 * is best, as the other rounds have it, since the least of so many medians is less than what any of
 * them takes.
 *
 * Suites are those of `shingle bench`, of AG_GEMM, GEMM_RS and GEMM_AR with one B. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/bench.h"
#include "core/moves.h"

enum { GEMM, COLL, COLL_IN_WINDOWS, CHOSEN, BESIDE, IN_WINDOWS, ENGINES, LOOSE };
enum { MOST_LOOSE = 3, RUNNERS = LOOSE + MOST_LOOSE };
enum { MOST_ROUNDS = 64, LEAST_ROUNDS = 4, MOST_PROBLEMS = 256, MEANS = 3 };
enum { ONE, MANY, WAYS }; /* runs by themselves, and one behind the other */

static const char *const runner_name[LOOSE] = {"gemm",   "coll",    "coll_in_windows", "chosen",
                                               "beside", "windows", "engines"};
static const double alone_share = 0.6; /* of the time: runs by themselves, as in trial.c */

typedef struct request {
    const char *suite, *backend, *as, *only, *commit;
    int ranks;
    double seconds;
    bool json;
} request;

typedef struct runner {
    shingle_plan *plan;       /* NULL: there is none */
    const sg_strategy *whole; /* of a loose one: what it leaves the waits out of ... */
    sg_strategy loose;        /* ... which its plan points to */
    char name[24];            /* of that */
    unsigned kinds;
    double round_us[WAYS][MOST_ROUNDS];
    double half_us[WAYS][2]; /* of every second round, from the first and from the second on */
    double us;
} runner;

typedef struct product {
    const char *text;
    sg_problem problem;
    sg_bench *bench;
    runner run[RUNNERS];
    int rounds[WAYS];
    double coll_us, bound_us, floor_us;
} product;

static void check(shingle_status status)
{
    if (status == SHINGLE_OK) return;
    fprintf(stderr, "bench_floor: %s\n", shingle_error());
    exit(1);
}

/* ---- Side by side ---------------------------------------------------------------------------- */

enum { BY_LIBRARY, BY_LIBRARY_IN_WINDOWS, BY_ENGINES };

/* All of a product by the vendor, A from buffer FROM, into buffer TO. */
static void multiply(sg_sched *s, int from, int to)
{
    const sg_problem *const p = s->problem;
    sg_sched_launch(s, 0, (int32_t)p->m, (int32_t)p->n, 0, true);
    sg_sched_patch(s, &(sg_patch){.rows = (int32_t)p->m,
                                  .cols = (int32_t)p->n,
                                  .k1 = (int32_t)p->k,
                                  .final = true,
                                  .a = sg_area_of(s->rank, from, 0, p->m, 0, p->k),
                                  .b = sg_area_of(s->rank, SG_B, 0, p->n, 0, p->k)});
    sg_sched_to(s, sg_area_of(s->rank, to, 0, p->m, 0, p->n));
}

/* From FROM, ROWS rows of COLS columns from ROW on, to the same rows of buffer TO at all others. */
static void copy_to_all(sg_sched *s, int from, int64_t from_row, int to, int64_t to_row,
                        int64_t rows, int64_t cols)
{
    const int ranks = s->problem->ranks;
    for (int i = 1; i < ranks; i++) {
        sg_sched_copy(s, i, SG_BY_ENGINE, sg_area_of(s->rank, from, from_row, rows, 0, cols));
        sg_sched_to(s, sg_area_of((s->rank + i) % ranks, to, to_row, rows, 0, cols));
    }
}

/* What is sent and what is multiplied are numbers everywhere: zeros would take less power.  So what
 * this rank holds goes to where it is read, in a lane of its own for which nobody waits. */
static void copy_own(sg_sched *s, sg_area to)
{
    sg_sched_copy(s, s->problem->ranks, SG_BY_ENGINE, sg_moves_held(s, s->rank));
    sg_sched_to(s, to);
}

static void gather_beside(const sg_problem *p, int by, int rank, sg_sched *s)
{
    static const sg_arena_kind arena[] = {SG_LIBRARY, SG_WINDOWS, SG_SYM};
    const sg_share *const own = &p->share[rank];
    const int gathered = sg_moves_gathered(s, arena[by], by == BY_ENGINES ? SG_FIXED : 0);
    sg_area sent = sg_moves_held(s, rank);
    if (by == BY_ENGINES) {
        copy_to_all(s, SG_A, 0, gathered, own->base, own->rows, p->k);
        copy_own(s, sg_area_of(rank, gathered, own->base, own->rows, 0, p->k));
    } else {
        if (by == BY_LIBRARY_IN_WINDOWS) {
            const int held = sg_sched_buf(s, SG_WINDOWS, "own", p->most_rows, p->k, 0);
            sent = sg_area_of(rank, held, 0, own->rows, 0, p->k);
            copy_own(s, sent);
        }
        sg_sched_coll(s, 1, SG_ALL_GATHER, 0, sent);
        for (int q = 0; q < p->ranks; q++) sg_sched_to(s, sg_moves_arrived(s, rank, q, gathered));
    }
    multiply(s, gathered, SG_C);
}

static void scatter_beside(const sg_problem *p, int by, int rank, sg_sched *s)
{
    const sg_arena_kind arena = by == BY_LIBRARY_IN_WINDOWS ? SG_WINDOWS : SG_LIBRARY;
    const int partial =
        sg_sched_buf(s, by == BY_ENGINES ? SG_LOCAL : arena, "partial", p->m, p->n, 0);
    if (by == BY_ENGINES) {
        const int inbox = sg_sched_buf(s, SG_SYM, "inbox", p->ranks * p->most_rows, p->n, SG_FIXED);
        for (int i = 1; i < p->ranks; i++) {
            const int q = (rank + i) % p->ranks;
            const int64_t rows = p->share[q].rows;
            sg_sched_copy(s, i, SG_BY_ENGINE,
                          sg_area_of(rank, partial, p->share[q].base, rows, 0, p->n));
            sg_sched_to(s, sg_area_of(q, inbox, rank * p->most_rows, rows, 0, p->n));
        }
    } else {
        const int sum = sg_sched_buf(s, arena, "sum", p->most_rows, p->n, 0);
        sg_sched_coll(s, 1, SG_REDUCE_SCATTER, 0,
                      sg_area_of(rank, sum, 0, p->share[rank].rows, 0, p->n));
        for (int q = 0; q < p->ranks; q++)
            sg_sched_to(s, sg_area_of(rank, partial, p->share[q].base, p->share[q].rows, 0, p->n));
    }
    multiply(s, SG_A, partial);
}

/* An all-reduce: engines scatter the products and gather as much again. */
static void all_beside(const sg_problem *p, int by, int rank, sg_sched *s)
{
    if (by != BY_ENGINES) {
        sg_sched_coll(s, 1, SG_ALL_REDUCE, 0, sg_area_of(rank, SG_C, 0, p->m, 0, p->n));
        multiply(s, SG_A, SG_C);
        return;
    }
    const sg_share *const own = &p->share[rank];
    const int sums = sg_sched_buf(s, SG_SYM, "sums", p->m, p->n, SG_FIXED);
    scatter_beside(p, by, rank, s);
    copy_to_all(s, SG_C, own->base, sums, own->base, own->rows, p->n);
}

static void build_beside(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    if (sg_problem_in(p) != SG_IN_NONE)
        gather_beside(p, knobs->value[0], rank, s);
    else if (sg_problem_out(p) == SG_OUT_SCATTER)
        scatter_beside(p, knobs->value[0], rank, s);
    else
        all_beside(p, knobs->value[0], rank, s);
}

static const sg_strategy beside = {
    .name = "beside", .knob = {{"by", 0, BY_ENGINES}}, .build = build_beside};

/* ---- Without waits --------------------------------------------------------------------------- */

static const sg_strategy *whole; /* what build_loose takes the waits from: see time_one() */

static void build_loose(const sg_problem *p, const sg_knobs *knobs, int rank, sg_sched *s)
{
    whole->build(p, knobs, rank, s);
    for (int32_t i = 0; i < s->patches; i++) s->patch[i].waits = 0;
    for (int32_t i = 0; i < s->adds; i++) s->add[i].awaited = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        s->step[i].waits = 0;
        s->step[i].after[0] = s->step[i].after[1] = -1;
    }
}

/* Does what comes say so by itself?  Then there are no flags to leave out. */
static bool is_tagged(const sg_problem *p, const sg_candidate *c)
{
    sg_sched s = {0};
    bool found = false;
    check(sg_plan_build(p, c->strategy, &c->knobs, 0, &s));
    for (int32_t i = 0; i < s.bufs; i++) found |= s.buf[i].arena == SG_REST;
    sg_sched_free(&s);
    return found;
}

/* The candidate that is predicted to be best of those that have waits, of none of the strategies of
 * X's loose runners so far; NULL: there is none. */
static const sg_candidate *best_with_waits(const product *x, const shingle_plan *plan)
{
    const sg_candidate *best = NULL;
    for (int i = 1; i < plan->candidates; i++) { /* behind `serial` */
        const sg_candidate *const c = &plan->candidate[i];
        bool other = c->declined[0] == '\0';
        for (int j = LOOSE; j < RUNNERS; j++) other &= x->run[j].whole != c->strategy;
        const bool better = best == NULL || c->predicted_us < best->predicted_us;
        if (other && better && !is_tagged(&x->problem, c)) best = c;
    }
    return best;
}

/* ---- Timing ---------------------------------------------------------------------------------- */

static void make_runner(product *x, int at, const sg_strategy *strategy, int knob, unsigned kinds)
{
    sg_knobs knobs = {{knob}};
    if (strategy == sg_strategy_at(0)) knobs = (sg_knobs){{128, 256, knob}};
    check(sg_plan_make(&x->problem, strategy, &knobs, &x->run[at].plan));
    x->run[at].kinds = kinds;
}

static void make_loose(product *x, const shingle_plan *plan, runner *r)
{
    const sg_candidate *const c = best_with_waits(x, plan);
    if (c == NULL) return;
    r->whole = c->strategy;
    r->loose = *c->strategy;
    snprintf(r->name, sizeof r->name, "loose_%s", c->strategy->name);
    r->loose.name = r->name; /* the bench tells plans by their texts */
    r->loose.build = build_loose;
    check(sg_plan_make(&x->problem, &r->loose, &c->knobs, &r->plan));
    r->kinds = ~0u;
}

static void make_runners(sg_group *group, product *x)
{
    const unsigned coll = 1u << SG_COLL;
    const sg_strategy *const serial = sg_strategy_at(0);
    const bool equal = x->problem.most_rows * x->problem.ranks == x->problem.m;
    const bool windows = equal && sg_problem_out(&x->problem) != SG_OUT_ALL;
    shingle_plan *plan = NULL;
    make_runner(x, GEMM, serial, 0, ~coll);
    make_runner(x, COLL, serial, 0, coll);
    make_runner(x, BESIDE, &beside, BY_LIBRARY, ~0u);
    make_runner(x, ENGINES, &beside, BY_ENGINES, ~0u);
    if (windows) {
        make_runner(x, COLL_IN_WINDOWS, serial, 1, coll);
        make_runner(x, IN_WINDOWS, &beside, BY_LIBRARY_IN_WINDOWS, ~0u);
    }
    check(sg_planner_choose(&x->problem, sg_comm_machine(group->comm[0], x->problem.type), NULL,
                            NULL, &group->can, &plan));
    x->run[CHOSEN].plan = plan;
    x->run[CHOSEN].kinds = ~0u;
    for (int i = LOOSE; i < RUNNERS; i++) make_loose(x, plan, &x->run[i]);
}

static void time_one(product *x, runner *r, sg_timing how, double *us_out)
{
    whole = r->whole; /* it is built when it runs for the first time */
    check(sg_bench_time(x->bench, r->plan, r->kinds, how, us_out));
}

/* Rounds in one way until UNTIL_US, each in another order. */
static void time_rounds(product *x, int way, double until_us)
{
    const sg_timing how = way == MANY ? SG_TIMING_MANY : SG_TIMING_ONE;
    int rounds = 0;
    int who[RUNNERS], order[RUNNERS];
    int count = 0;
    for (int i = 0; i < RUNNERS; i++)
        if (x->run[i].plan != NULL) who[count++] = i;
    while (rounds < MOST_ROUNDS && (rounds < LEAST_ROUNDS || sg_now_us() < until_us)) {
        sg_turns((uint64_t)rounds, count, order);
        for (int turn = 0; turn < count; turn++) {
            runner *const r = &x->run[who[order[turn]]];
            time_one(x, r, how, &r->round_us[way][rounds]);
        }
        rounds++;
    }
    x->rounds[way] = rounds;
}

/* Of R's rounds in one way, every second one from FIRST on. */
static double half_median(const product *x, const runner *r, int way, int first)
{
    double half[MOST_ROUNDS];
    int n = 0;
    for (int i = first; i < x->rounds[way]; i += 2) half[n++] = r->round_us[way][i];
    return sg_median(half, n);
}

/* What one half of the rounds says is best, as the other half has it. */
static double floor_by(const product *x, int half)
{
    double least = INFINITY, floor_us = 0;
    for (int i = CHOSEN; i < RUNNERS; i++) {
        for (int way = 0; way < WAYS; way++) {
            const double *const us = x->run[i].half_us[way];
            if (us[half] > 0 && us[half] < least) least = us[half], floor_us = us[1 - half];
        }
    }
    return floor_us;
}

/* The better of both ways, as `shingle bench` has it. */
static void time_all(product *x, double seconds)
{
    const double begin = sg_now_us();
    double warm_up = 0;
    for (int i = 0; i < RUNNERS; i++)
        if (x->run[i].plan != NULL) time_one(x, &x->run[i], SG_TIMING_ONE, &warm_up);
    time_rounds(x, ONE, begin + seconds * 1e6 * alone_share);
    time_rounds(x, MANY, begin + seconds * 1e6);
    for (int i = 0; i < RUNNERS; i++) {
        runner *const r = &x->run[i];
        if (r->plan == NULL) continue;
        for (int half = 0; half < 2; half++) /* a median puts its rounds in order */
            for (int way = 0; way < WAYS; way++)
                r->half_us[way][half] = half_median(x, r, way, half);
        const double many = sg_median(r->round_us[MANY], x->rounds[MANY]);
        r->us = sg_median(r->round_us[ONE], x->rounds[ONE]);
        if (many > 0 && many < r->us) r->us = many;
    }
    x->floor_us = (floor_by(x, 0) + floor_by(x, 1)) / 2;
}

static bool can_stand_beside(const sg_problem *p)
{
    const bool gathers = sg_problem_in(p) == SG_IN_GATHER && p->gather == SG_GATHER_A;
    const bool sums = sg_problem_out(p) == SG_OUT_SCATTER || sg_problem_out(p) == SG_OUT_ALL;
    return (gathers || sums) && p->b_count == 1 && !p->call && p->ranks > 1;
}

static void measure(sg_group *group, double seconds, product *x)
{
    check(sg_problem_parse(x->text, &x->problem));
    if (!can_stand_beside(&x->problem)) {
        fprintf(stderr, "bench_floor: %s; AG_GEMM, GEMM_RS and GEMM_AR with one B are accepted\n",
                x->text);
        exit(2);
    }
    check(sg_bench_open(group, &x->problem, 1, &x->bench));
    make_runners(group, x);
    time_all(x, seconds);
    x->coll_us = x->run[COLL].us;
    if (x->run[COLL_IN_WINDOWS].us > 0) x->coll_us = fmin(x->coll_us, x->run[COLL_IN_WINDOWS].us);
    x->bound_us = fmax(x->run[GEMM].us, x->coll_us);
    sg_bench_close(x->bench);
    x->bench = NULL;
}

/* ---- Report ---------------------------------------------------------------------------------- */

static void print_head(const sg_group *group, const request *q)
{
    shingle_device device = {.name = "?"};
    char date[16] = "";
    const time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    if (group->backend->facts != NULL) check(group->backend->facts(group->self, 0, false, &device));
    if (q->json)
        printf(
            "{\n  \"date\": \"%s\", \"commit\": \"%s\", \"device\": \"%s\", \"software\": \"%s\",\n"
            "  \"ranks\": %d, \"planned_for\": \"%s\",\n  \"results\": [",
            date, q->commit, device.name, device.software, group->ranks, group->machine.name);
    else
        printf("%s, %d ranks\n%-32s %8s %8s %8s | %8s %8s %8s | %26s | %7s %7s\n", device.name,
               group->ranks, "us", "gemm", "coll", "chosen", "beside", "windows", "engines",
               "loose", "floor", "chosen");
}

static void print_text(const product *x)
{
    const double bound = x->bound_us;
    printf("%-32s %8.1f %8.1f %8.1f |", x->text, x->run[GEMM].us, x->coll_us, x->run[CHOSEN].us);
    for (int i = BESIDE; i < LOOSE; i++) printf(" %8.1f", x->run[i].us);
    printf(" |");
    for (int i = LOOSE; i < RUNNERS; i++) printf(" %8.1f", x->run[i].us);
    printf(" | %7.3f %7.3f\n", x->floor_us / bound, x->run[CHOSEN].us / bound);
}

/* What `floor` comes from: of each way, the medians of both halves of its rounds. */
static void print_halves(const product *x)
{
    const char *comma = "";
    printf(",\n     \"halves\": {");
    for (int i = CHOSEN; i < RUNNERS; i++) {
        const runner *const r = &x->run[i];
        if (r->plan == NULL) continue;
        printf("%s\"%s\": [", comma, i < LOOSE ? runner_name[i] : r->name);
        for (int way = 0; way < WAYS; way++)
            printf("%s[%.4f, %.4f]", way > 0 ? ", " : "", r->half_us[way][0], r->half_us[way][1]);
        printf("]");
        comma = ", ";
    }
    printf("}");
}

static void print_json(const product *x, bool first)
{
    printf("%s\n    {\"problem\": \"%s\", \"bound_us\": %.2f, \"floor_us\": %.2f", first ? "" : ",",
           x->text, x->bound_us, x->floor_us);
    for (int i = 0; i < LOOSE; i++)
        if (x->run[i].us > 0) printf(", \"%s_us\": %.2f", runner_name[i], x->run[i].us);
    printf(",\n     \"chosen\": \"%s\", \"loose\": {", strchr(x->run[CHOSEN].plan->text, ' ') + 1);
    const char *comma = "";
    for (int i = LOOSE; i < RUNNERS; i++, comma = ", ")
        if (x->run[i].us > 0)
            printf("%s\"%s\": %.2f", comma, strchr(x->run[i].plan->text, ' ') + 1, x->run[i].us);
    printf("}");
    print_halves(x);
    printf("}");
}

/* Geometric means over the problems whose text begins with NAME. */
static void print_mean(const product *x, int count, const char *name, const request *q)
{
    double floors = 0, chosen = 0;
    int n = 0;
    for (int i = 0; i < count; i++) {
        if (strncmp(x[i].text, name, strlen(name)) != 0) continue;
        floors += log(x[i].floor_us / x[i].bound_us);
        chosen += log(x[i].run[CHOSEN].us / x[i].bound_us);
        n++;
    }
    if (n == 0) return;
    floors = exp(floors / n), chosen = exp(chosen / n);
    const char *const called = name[0] != '\0' ? name : "all";
    if (q->json)
        printf(",\n  \"%s\": {\"problems\": %d, \"floor/bound\": %.4f, \"chosen/bound\": %.4f}",
               called, n, floors, chosen);
    else
        printf("%-8s %3d problems: floor / bound %.3f, chosen / bound %.3f, chosen / floor %.3f\n",
               called, n, floors, chosen, chosen / floors);
}

/* ---- The call -------------------------------------------------------------------------------- */

static request parse(int argc, char **argv)
{
    request q = {.ranks = 4, .seconds = 2, .commit = ""};
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--json") == 0)
            q.json = true;
        else if (more && strcmp(argv[i], "--backend") == 0)
            q.backend = argv[++i];
        else if (more && strcmp(argv[i], "--as") == 0)
            q.as = argv[++i];
        else if (more && strcmp(argv[i], "--ranks") == 0)
            q.ranks = atoi(argv[++i]);
        else if (more && strcmp(argv[i], "--seconds") == 0)
            q.seconds = atof(argv[++i]);
        else if (more && strcmp(argv[i], "--only") == 0)
            q.only = argv[++i];
        else if (more && strcmp(argv[i], "--commit") == 0)
            q.commit = argv[++i];
        else if (q.suite == NULL && argv[i][0] != '-')
            q.suite = argv[i];
        else {
            fprintf(stderr, "bench_floor: \"%s\"; the file's header says what is possible\n",
                    argv[i]);
            exit(2);
        }
    }
    if (q.suite == NULL || q.ranks < 2 || q.ranks >= SG_MAX_LANES) {
        fprintf(stderr, "bench_floor: a suite, and 2 to %d ranks\n", SG_MAX_LANES - 1);
        exit(2);
    }
    return q;
}

/* The problems of a suite, a line each. */
static int read_suite(const request *q, product *x)
{
    static char line[MOST_PROBLEMS][128];
    FILE *const file = fopen(q->suite, "r");
    int count = 0;
    if (file == NULL) {
        fprintf(stderr, "bench_floor: %s cannot be read\n", q->suite);
        exit(2);
    }
    while (count < MOST_PROBLEMS && fgets(line[count], sizeof line[count], file) != NULL) {
        line[count][strcspn(line[count], " \t\n")] = '\0';
        const bool wanted = q->only == NULL || strstr(line[count], q->only) != NULL;
        if (line[count][0] != '#' && line[count][0] != '\0' && wanted) {
            x[count].text = line[count];
            count++;
        }
    }
    fclose(file);
    return count;
}

int main(int argc, char **argv)
{
    static product x[MOST_PROBLEMS];
    static const char *const mean[MEANS + 1] = {"ag_gemm", "gemm_rs", "gemm_ar", ""};
    const request q = parse(argc, argv);
    const int count = read_suite(&q, x);
    shingle_comm *comm[SG_MAX_LANES];
    const shingle_config config = {.backend = q.backend, .scale_of = q.as};
    check(shingle_open(q.ranks, &config, comm));
    print_head(comm[0]->group, &q);
    for (int i = 0; i < count; i++) {
        measure(comm[0]->group, q.seconds, &x[i]);
        if (q.json)
            print_json(&x[i], i == 0);
        else
            print_text(&x[i]);
        fflush(stdout);
    }
    if (q.json) printf("\n  ]");
    for (int i = 0; i <= MEANS; i++) print_mean(x, count, mean[i], &q);
    if (q.json) printf("\n}\n");
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < RUNNERS; j++) sg_plan_free(x[i].run[j].plan);
        sg_problem_free(&x[i].problem);
    }
    shingle_close(q.ranks, comm);
    return 0;
}
