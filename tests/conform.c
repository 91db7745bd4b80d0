/* conform.c -- every strategy, with every knob set it proposes and some that it only accepts,
 * computes the right bits: on every operator, what a gather brings, with accumulation and functions
 * of the user, on every type and epilogue, on 1 to 8 ranks, for ragged and degenerate shapes,
 * several runs in flight, plans mixed on one workspace.
 *
 * Runs are hostile: outputs and workspace are poisoned with NaN, canaries stand around every
 * matrix, between its rows and behind what a plan needs of its workspace, random delays hit visits,
 * raises and copies, and every run has other data.
 *
 *     conform                   quick, what `make test` runs
 *     conform --full            all problems on all ranks with all knob sets
 *     conform PROBLEM [PLAN]    one problem (and one plan, as printed by a failure)
 *     --seed S                  other data, orders, delays and knobs
 *     --strategy NAME           of all strategies this one alone
 *     --every N                 quick, but one of N turns; 1 is all of them
 *     --ranks R                 one number of ranks alone
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_test.h"
#include "core/comm.h"
#include "core/data.h"
#include "forms.h"
#include "guarded.h"
#include "parts.h"

enum {
    MAX_RANKS = FORM_RANKS,
    MAX_PLANS = 256, /* of one problem */
    SETS = 4,        /* of matrices: runs that may be in flight */
    RUNS = 3         /* of each plan */
};

typedef struct set {
    matrix a, bias, returned, residual, gain;
    matrix b[SHINGLE_MOST_B], c[SHINGLE_MOST_B]; /* each a tensor by itself */
} set;

typedef struct tried {
    const sg_strategy *strategy;
    sg_knobs knobs;
    char text[128];
    shingle_plan *plan[MAX_RANKS];
    bool failed;
} tried;

typedef struct test {
    shingle_comm *comm[MAX_RANKS];
    int ranks;
    sg_problem problem;
    char text[512];
    tried tried[MAX_PLANS];
    int plans;
    set set[SETS][MAX_RANKS];
    sg_random random;
    bool full;
    const char *only;     /* plan text */
    const char *strategy; /* NULL: all */
    int every;
} test;

static int passed;
static int failed;

static void complain(test *t, tried *plan, const char *what)
{
    enum { SHOWN = 40 };
    plan->failed = true;
    if (failed < SHOWN) printf("FAILED %s %s: %s\n", t->text, plan->text, what);
    fflush(stdout);
}

/* ---- Matrices -------------------------------------------------------------------------------- */

static void make_sets(test *t)
{
    const sg_problem *const p = &t->problem;
    const int bytes = sg_type_bytes(p->type);
    for (int i = 0; i < SETS; i++)
        for (int r = 0; r < t->ranks; r++) {
            set *const s = &t->set[i][r];
            const int64_t pad = sg_random_below(&t->random, 3) == 0 ? 5 : 0;
            s->a = new_matrix(sg_problem_a_rows(p, r), sg_problem_a_cols(p, r), pad, bytes);
            s->bias = new_matrix(p->bias ? 1 : 0, p->n, 0, bytes);
            s->returned = new_matrix(sg_problem_returned_rows(p, r), p->k, pad, bytes);
            s->residual = new_matrix(sg_problem_residual_rows(p, r), p->n, 2 * pad, bytes);
            s->gain = new_matrix(p->norm ? 1 : 0, p->n, 0, bytes);
            for (int b = 0; b < p->b_count; b++) {
                const int64_t rows = p->b_count > 1 ? p->b_cols[b] : sg_problem_b_rows(p, r);
                s->b[b] = new_matrix(rows, p->k, b % 2 == 0 ? pad : 3, bytes);
                s->c[b] =
                    new_matrix(sg_problem_c_rows(p, r), p->b_cols[b], b % 2 == 0 ? pad : 7, bytes);
            }
        }
}

static void free_sets(test *t)
{
    for (int i = 0; i < SETS; i++)
        for (int r = 0; r < t->ranks; r++) {
            set *const s = &t->set[i][r];
            free(s->a.memory);
            free(s->bias.memory);
            free(s->returned.memory);
            free(s->residual.memory);
            free(s->gain.memory);
            for (int b = 0; b < t->problem.b_count; b++) {
                free(s->b[b].memory);
                free(s->c[b].memory);
            }
        }
}

/* All C of a rank, or all B, as one matrix, which the caller frees; with WHOLE the other way. */
static char *whole_of(const test *t, const matrix *parts, bool is_c, char *whole)
{
    const bool back = whole == NULL;
    void *part[SHINGLE_MOST_B];
    int64_t stride[SHINGLE_MOST_B];
    int64_t size = 1;
    for (int b = 0; b < t->problem.b_count; b++) {
        part[b] = parts[b].data;
        stride[b] = parts[b].stride;
        size += parts[b].rows * parts[b].cols * parts[b].bytes;
    }
    if (back) whole = calloc(1, (size_t)size);
    if (whole == NULL) abort();
    parts_move(&t->problem, is_c, parts[0].rows, whole, part, stride, back);
    return whole;
}

/* Stores what DATA says to all B, or to all C. */
static void fill_parts(const test *t, const sg_data *data, int rank, matrix *parts, bool is_c)
{
    char *const whole = whole_of(t, parts, is_c, NULL);
    if (sg_data_fill(data, is_c ? SG_TENSOR_C : SG_TENSOR_B, rank, whole, 0) != SHINGLE_OK) abort();
    free(whole_of(t, parts, is_c, whole));
}

static void fill_set(test *t, int index, uint64_t seed)
{
    sg_data data;
    if (sg_data_make(&t->problem, seed, &data) != SHINGLE_OK) abort();
    for (int r = 0; r < t->ranks; r++) {
        set *const s = &t->set[index][r];
        if (sg_data_fill(&data, SG_TENSOR_A, r, s->a.data, s->a.stride) != SHINGLE_OK) abort();
        fill_parts(t, &data, r, s->b, false);
        if (t->problem.bias &&
            sg_data_fill(&data, SG_TENSOR_BIAS, r, s->bias.data, 0) != SHINGLE_OK)
            abort();
        if (t->problem.norm &&
            (sg_data_fill(&data, SG_TENSOR_RESIDUAL, r, s->residual.data, s->residual.stride) !=
                 SHINGLE_OK ||
             sg_data_fill(&data, SG_TENSOR_GAIN, r, s->gain.data, 0) != SHINGLE_OK))
            abort();
        poison(&s->returned);
        for (int b = 0; b < t->problem.b_count; b++) {
            poison(&s->c[b]);
            s->b[b].hash = hash_of(&s->b[b]);
        }
        if (t->problem.accumulate) fill_parts(t, &data, r, s->c, true);
        s->a.hash = hash_of(&s->a);
        s->bias.hash = hash_of(&s->bias);
        s->gain.hash = hash_of(&s->gain);
    }
}

/* Says what is wrong with what RANK holds after a run, if something is. */
static void check_rank(test *t, set *s, const sg_data *data, int rank, sg_text *text)
{
    sg_data_wrong wrong = {0};
    sg_data_wrong returned = {0};
    sg_data_wrong residual = {0};
    char *const whole = whole_of(t, s->c, true, NULL);
    if (sg_data_compare(data, rank, whole, 0, &wrong) != SHINGLE_OK ||
        sg_data_compare_returned(data, rank, s->returned.data, s->returned.stride, &returned) !=
            SHINGLE_OK ||
        sg_data_compare_residual(data, rank, s->residual.data, s->residual.stride, &residual) !=
            SHINGLE_OK)
        abort();
    free(whole);
    bool live = canaries_live(&s->returned) && canaries_live(&s->residual);
    bool kept = s->a.hash == hash_of(&s->a) && s->bias.hash == hash_of(&s->bias) &&
                s->gain.hash == hash_of(&s->gain);
    for (int b = 0; b < t->problem.b_count; b++) {
        live &= canaries_live(&s->c[b]);
        kept &= s->b[b].hash == hash_of(&s->b[b]);
    }
    if (wrong.elements > 0)
        sg_data_describe(&wrong, rank, text);
    else if (returned.elements > 0)
        sg_data_describe(&returned, rank, text);
    else if (residual.elements > 0)
        sg_data_describe(&residual, rank, text);
    else if (!live)
        sg_text_add(text, "a canary of an output of rank %d is dead", rank);
    else if (!kept)
        sg_text_add(text, "an input of rank %d was written", rank);
}

static bool check_set(test *t, int index, uint64_t seed, tried *plan)
{
    sg_data data;
    if (sg_data_make(&t->problem, seed, &data) != SHINGLE_OK) abort();
    for (int r = 0; r < t->ranks; r++) {
        char what[200] = "";
        sg_text text = {what, sizeof what, 0};
        check_rank(t, &t->set[index][r], &data, r, &text);
        if (text.length == 0) continue;
        complain(t, plan, what);
        return false;
    }
    return true;
}

/* ---- Workspace ------------------------------------------------------------------------------- */

typedef struct looking {
    const test *t;
    int rank;
    const char *found;
} looking;

/* What plans of this problem need of a block of BYTES; negative: none uses it. */
static int64_t need_of(const looking *l, sg_block_kind kind, size_t bytes)
{
    static const sg_arena_kind arena[] = {SG_SYM,   SG_SYM,     SG_REST,   SG_REST,
                                          SG_LOCAL, SG_LIBRARY, SG_WINDOWS};
    int64_t most = -1;
    for (int i = 0; i < l->t->plans; i++) {
        const shingle_plan *const plan = l->t->tried[i].plan[l->rank];
        const int64_t need = plan->bound->sched.arena_bytes[arena[kind]];
        const int64_t least =
            (int64_t)bytes > INT64_C(1) << SG_BLOCK_CLASS0 ? (int64_t)bytes / 2 : 0;
        if (need <= (int64_t)bytes && need > least) most = sg_max(most, need);
    }
    return most;
}

/* What is behind what plans need stays as it was, which is looked at when all have run. */
static void poison_needed(void *context, sg_block_kind kind, void *memory, size_t bytes)
{
    const int64_t need = need_of(context, kind, bytes);
    if (need > 0) memset(memory, POISON, (size_t)need);
}

static void poison_block(void *context, sg_block_kind kind, void *memory, size_t bytes)
{
    if (need_of(context, kind, bytes) > 0) memset(memory, POISON, bytes);
}

/* What lies behind what any plan needs of a block of this size is as it was. */
static void look_behind(void *context, sg_block_kind kind, void *memory, size_t bytes)
{
    static const char *const name[] = {"SYM half 0", "SYM half 1", "REST half 0", "REST half 1",
                                       "LOCAL",      "LIBRARY",    "WINDOWS"};
    looking *const l = context;
    const int64_t used = need_of(l, kind, bytes);
    if (used > 0 && !is_filled((const uint8_t *)memory + used, (int64_t)bytes - used, POISON))
        l->found = name[kind];
}

static void poison_workspace(test *t, sg_cpu_test_memory_fn poisons)
{
    for (int r = 0; r < t->ranks; r++) {
        looking l = {t, r, NULL};
        sg_cpu_test_memory(t->comm[0], r, poisons, &l);
    }
}

static void check_workspace(test *t)
{
    for (int r = 0; r < t->ranks; r++) {
        looking l = {t, r, NULL};
        sg_cpu_test_memory(t->comm[0], r, look_behind, &l);
        if (l.found == NULL) continue;
        char what[80];
        snprintf(what, sizeof what, "a plan of this problem stored behind its %s of rank %d",
                 l.found, r);
        complain(t, &t->tried[0], what);
    }
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void add_plan(test *t, const sg_strategy *strategy, const sg_knobs *knobs)
{
    if (t->plans == MAX_PLANS) return;
    tried *const plan = &t->tried[t->plans];
    memset(plan, 0, sizeof *plan);
    plan->strategy = strategy;
    plan->knobs = *knobs;
    sg_text text = {plan->text, sizeof plan->text, 0};
    sg_strategy_print(strategy, knobs, &text);
    for (int i = 0; i < t->plans; i++)
        if (strcmp(t->tried[i].text, plan->text) == 0) return;
    if (t->only != NULL && strcmp(t->only, plan->text) != 0) return;
    t->plans++;
}

static void add_proposed(test *t, const sg_strategy *strategy, const sg_machine *machine, int most)
{
    sg_knobs sets[SG_MAX_KNOB_SETS] = {0};
    char reason[160];
    sg_text why = {reason, sizeof reason, 0};
    const int count = strategy->propose(&t->problem, machine, sets, &why);
    for (int i = 0; i < count && i < most; i++) add_plan(t, strategy, &sets[i]);
}

/* Half of the knobs are near their least value, where the corner cases are. */
static void add_random(test *t, const sg_strategy *strategy)
{
    sg_knobs knobs = {0};
    for (int i = 0; i < SG_MAX_KNOBS && strategy->knob[i].name != NULL; i++) {
        /* Tiles that are much larger than all shapes show nothing new and take much memory. */
        const bool is_tile = strncmp(strategy->knob[i].name, "tile_", 5) == 0;
        const int64_t most = is_tile ? sg_min(strategy->knob[i].most, 160) : strategy->knob[i].most;
        const int64_t span = most - strategy->knob[i].least + 1;
        const int64_t reach = sg_random_below(&t->random, 2) == 0 ? sg_min(span, 8) : span;
        knobs.value[i] = (int32_t)(strategy->knob[i].least + sg_random_below(&t->random, reach));
    }
    add_plan(t, strategy, &knobs);
}

/* Knobs that have a meaning with few others alone, which chance does not meet: owners of columns,
 * tagged data, and strips that own rows follow. */
static void add_rare(test *t, const sg_strategy *strategy)
{
    enum { SIDE = 48 };
    const sg_out out = sg_problem_out(&t->problem);
    if (strcmp(strategy->name, "fused_out") != 0) return;
    const int32_t tile_m = 1 + (int32_t)sg_random_below(&t->random, SIDE);
    const int32_t tile_n = 1 + (int32_t)sg_random_below(&t->random, SIDE);
    const int32_t lag = 1 + (int32_t)sg_random_below(&t->random, 3);
    const int32_t strips = 2 + (int32_t)sg_random_below(&t->random, 8);
    const int32_t once = (int32_t)sg_random_below(&t->random, 2);
    if (out == SG_OUT_ALL)
        add_plan(t, strategy, &(sg_knobs){{strips, lag - 1, tile_m, tile_n, 0, lag, 0, 0}});
    if (out == SG_OUT_ALL)
        add_plan(t, strategy, &(sg_knobs){{1, 0, tile_m, tile_n, once, 1, 1, 1}});
    if (out != SG_OUT_EXCHANGE)
        add_plan(t, strategy, &(sg_knobs){{1, lag, tile_m, tile_n, 0, 1, strips, 0}});
}

static void find_plans(test *t)
{
    sg_machine plain;
    sg_machine_plain(&plain);
    t->plans = 0;
    for (int i = 0; sg_strategy_at(i) != NULL; i++) {
        const sg_strategy *const strategy = sg_strategy_at(i);
        char reason[160];
        sg_text why = {reason, sizeof reason, 0};
        if (t->strategy != NULL && strcmp(t->strategy, strategy->name) != 0) continue;
        if (!strategy->accepts(&t->problem, &why)) continue;
        const int most = t->full || t->only != NULL ? SG_MAX_KNOB_SETS : 3;
        add_proposed(t, strategy, &plain, most);
        add_proposed(t, strategy, sg_comm_machine(t->comm[0], t->problem.type), most);
        if (t->only != NULL) {
            const sg_strategy *named = NULL;
            sg_knobs knobs = {0};
            bool given = false;
            if (sg_strategy_parse(t->only, &named, NULL, &knobs, &given) == SHINGLE_OK)
                add_plan(t, named, &knobs);
        }
        for (int j = 0; j < (t->full ? 8 : 2); j++) add_random(t, strategy);
        add_rare(t, strategy);
    }
}

static bool bind_plans(test *t)
{
    for (int i = 0; i < t->plans; i++)
        for (int r = 0; r < t->ranks; r++) {
            tried *const plan = &t->tried[i];
            bool made = sg_plan_make(&t->problem, plan->strategy, &plan->knobs, &plan->plan[r]) ==
                        SHINGLE_OK;
            if (made && t->problem.call) {
                plan->plan[r]->compute = sg_data_compute;
                plan->plan[r]->compute_context = &t->problem;
            }
            made = made && sg_comm_bind(t->comm[r], plan->plan[r]) == SHINGLE_OK;
            if (made) continue;
            complain(t, plan, shingle_error());
            return false;
        }
    return true;
}

static void free_plans(test *t)
{
    for (int i = 0; i < t->plans; i++) {
        for (int r = 0; r < t->ranks; r++) shingle_plan_free(t->tried[i].plan[r]);
        passed += !t->tried[i].failed;
        failed += t->tried[i].failed;
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static bool enqueue(test *t, tried *plan, int index)
{
    /* Ranks come in any order. */
    const int first = (int)sg_random_below(&t->random, t->ranks);
    for (int i = 0; i < t->ranks; i++) {
        const int r = (first + i) % t->ranks;
        const set *const s = &t->set[index][r];
        const sg_problem *const p = &t->problem;
        shingle_tensors tensors = {.a = s->a.data,
                                   .b = s->b[0].data,
                                   .bias = p->bias ? s->bias.data : NULL,
                                   .c = s->c[0].data,
                                   .a_stride = s->a.stride,
                                   .b_stride = s->b[0].stride,
                                   .c_stride = s->c[0].stride,
                                   .returned_a = p->return_a ? s->returned.data : NULL,
                                   .returned_a_stride = s->returned.stride,
                                   .residual = p->norm ? s->residual.data : NULL,
                                   .residual_stride = s->residual.stride,
                                   .gain = p->norm ? s->gain.data : NULL};
        for (int b = 1; b < p->b_count; b++) {
            tensors.more_b[b - 1] = s->b[b].data;
            tensors.more_c[b - 1] = s->c[b].data;
            tensors.more_b_stride[b - 1] = s->b[b].stride;
            tensors.more_c_stride[b - 1] = s->c[b].stride;
        }
        if (shingle_run_tensors(plan->plan[r], &tensors, NULL) == SHINGLE_OK) continue;
        complain(t, plan, shingle_error());
        return false;
    }
    return true;
}

static bool wait_all(test *t, tried *plan)
{
    for (int r = 0; r < t->ranks; r++)
        if (shingle_sync(t->comm[r], 60) != SHINGLE_OK) {
            complain(t, plan, shingle_error());
            return false;
        }
    return true;
}

/* RUNS runs of every plan in random order, up to SETS of them in flight at once. */
static bool run_plans(test *t)
{
    int order[MAX_PLANS * RUNS];
    const int count = t->plans * RUNS;
    for (int i = 0; i < count; i++) {
        const int64_t j = sg_random_below(&t->random, i + 1);
        order[i] = order[j];
        order[j] = i % t->plans;
    }
    poison_workspace(t, poison_block);
    for (int i = 0; i < count;) {
        const int flight = (int)sg_min(count - i, 1 + sg_random_below(&t->random, SETS));
        uint64_t seed[SETS];
        for (int f = 0; f < flight; f++) {
            seed[f] = sg_random_next(&t->random);
            fill_set(t, f, seed[f]);
        }
        poison_workspace(t, poison_needed);
        for (int f = 0; f < flight; f++)
            if (!enqueue(t, &t->tried[order[i + f]], f)) return false;
        if (!wait_all(t, &t->tried[order[i]])) {
            check_workspace(t); /* what was written behind may be why */
            return false;
        }
        for (int f = 0; f < flight; f++) check_set(t, f, seed[f], &t->tried[order[i + f]]);
        i += flight;
    }
    check_workspace(t);
    return true;
}

static bool open_ranks(test *t, int ranks)
{
    const shingle_config config = {.timeout_seconds = 20};
    t->ranks = ranks;
    if (shingle_open(ranks, &config, t->comm) == SHINGLE_OK) return true;
    printf("FAILED to open %d ranks: %s\n", ranks, shingle_error());
    failed++;
    return false;
}

/* False if the group cannot be used any more. */
static bool try_problem(test *t, const char *text)
{
    snprintf(t->text, sizeof t->text, "%s", text);
    if (sg_problem_parse(text, &t->problem) != SHINGLE_OK) {
        printf("FAILED %s: %s\n", text, shingle_error());
        failed++;
        return true;
    }
    /* A third of the problems has random delays, a third links that are held back. */
    const int64_t kind = sg_random_below(&t->random, 3);
    sg_cpu_test_delays(t->comm[0], sg_random_next(&t->random), kind == 1 ? 300 : 0);
    sg_cpu_test_links(t->comm[0], kind == 2 ? 400 : 0, kind == 2 ? 20 : 0);
    find_plans(t);
    make_sets(t);
    const bool usable = bind_plans(t) && run_plans(t);
    free_plans(t);
    free_sets(t);
    sg_problem_free(&t->problem);
    return usable;
}

/* ---- Problems -------------------------------------------------------------------------------- */

static bool try_shape(test *t, const struct form *form, int type, int shape, int owner, int end)
{
    char text[512];
    sg_text line = {text, sizeof text, 0};
    return !form_text(form, type, shape, owner, end, t->ranks, &t->random, &line) ||
           try_problem(t, text);
}

/* Quick: every form, type, epilogue and kind of ownership meets every number of ranks and every
 * shape, but not all of them each other. */
static bool try_ranks(test *t)
{
    const int every = t->every;
    int turn = t->ranks;
    for (int i = 0; i < FORMS; i++)
        for (int shape = 0; shape < SHAPES; shape++)
            for (int owner = 0; owner < 3; owner++) {
                if (t->full) {
                    for (int type = 0; type < 3; type++)
                        for (int end = 0; end < (forms[i].ends ? 5 : 1); end++)
                            if (!try_shape(t, &forms[i], type, shape, owner, end)) return false;
                } else if (turn++ % every == 0) {
                    if (!try_shape(t, &forms[i], turn / every % 3, shape, owner, turn / every % 5))
                        return false;
                }
            }
    return true;
}

static void try_one(test *t, const char *text)
{
    sg_problem problem;
    if (sg_problem_parse(text, &problem) != SHINGLE_OK) {
        printf("%s\n", shingle_error());
        failed++;
        return;
    }
    const int ranks = problem.ranks;
    sg_problem_free(&problem);
    if (ranks > MAX_RANKS) {
        printf("%d ranks; at most %d here\n", ranks, MAX_RANKS);
        failed++;
    } else if (open_ranks(t, ranks)) {
        t->full = true;
        for (int i = 0; i < 6; i++) /* delays and links differ */
            if (!try_problem(t, text)) break;
        shingle_close(ranks, t->comm);
    }
}

int main(int argc, char **argv)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 7, 8};
    static test t;
    const char *problem = NULL;
    int only_ranks = 0;
    t.random.state = 1;
    t.every = 17;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0)
            t.full = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            t.random.state = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--strategy") == 0 && i + 1 < argc)
            t.strategy = argv[++i];
        else if (strcmp(argv[i], "--every") == 0 && i + 1 < argc)
            t.every = (int)sg_max(1, atoi(argv[++i]));
        else if (strcmp(argv[i], "--ranks") == 0 && i + 1 < argc)
            only_ranks = atoi(argv[++i]);
        else if (problem == NULL)
            problem = argv[i];
        else
            t.only = argv[i];
    }
    if (problem != NULL) try_one(&t, problem);
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0] && problem == NULL; i++) {
        const double begin = sg_now_us();
        const int before = passed;
        if (only_ranks > 0 && ranks[i] != only_ranks) continue;
        if (!open_ranks(&t, ranks[i])) continue;
        try_ranks(&t);
        shingle_close(ranks[i], t.comm);
        printf("%d ranks: %d plans, %.1f s\n", ranks[i], passed - before,
               (sg_now_us() - begin) / 1e6);
        fflush(stdout);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
