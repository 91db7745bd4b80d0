/* order_cuda.c -- reproducible plans on random data, bit for bit (docs/reproducible.md):
 *
 *     order_cuda [RANKS] [seconds=S] [backend=NAME] [verbose]
 *
 * A family is an operator with n, k and what goes with it, of which several m are run.  Rows of the
 * product have names, under which their contents are the same in every m, wherever they stand: what
 * the first plan makes of a named row, every other plan that is admitted must make of it, too,
 * whatever its strategy, knobs and tile shape.  Of the plans that are declined some are run as
 * well, and counted: data of which they made the same would show nothing.
 *
 * All numbers of ranks from RANKS (default: as many GPUs as there are, at most 4) down to 1, each
 * for S seconds at most (default 60).  Exits with 77 if there is no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/comm.h"
#include "core/data.h"

enum { RANKS = 8, NAMES = 2048, HEIGHTS = 3, VALUES = 1 << 20, OTHERS = 8 };

typedef struct order_counts {
    int problems;
    int admitted,
        plans; /* candidates that are reproducible; plans that were compared, forced ones too */
    int64_t elements;          /* compared */
    int64_t different;         /* of these, from those of the first plan that had the row */
    int others, others_differ; /* plans that are declined: run, and with other bits */
    int64_t others_elements, others_different;
} order_counts;

typedef struct family {
    const char *op, *more;
    sg_type type;
    int n, k;
} family;

static const family families[] = {
    {"gemm_rs", "", SG_BF16, 1544, 1216},           {"gemm_ar", "", SG_BF16, 1544, 1216},
    {"ag_gemm", "", SG_BF16, 1544, 1216},           {"gemm_rs", ":bias:gelu", SG_F16, 520, 1000},
    {"gemm_ar", ":bias:silu", SG_BF16, 520, 1000},  {"ag_gemm", ":bias:gelu", SG_BF16, 520, 1000},
    {"gemm_rs", ":cyclic=100", SG_BF16, 520, 1000}, {"ag_gemm", ":cyclic=100", SG_F16, 520, 1000},
    {"ag_gemm", ":gather=b", SG_BF16, 1536, 1000},  {"ag_gemm", ":gather=k", SG_BF16, 520, 1024},
};
static const int heights[HEIGHTS] = {512, 1000, 1537};

/* Every shape of a tile, and waits and slices that nobody would propose together. */
static const char *const forms[][16] = {
    {"fused_add{tile_m=128,tile_n=256}", "fused_add{tile_m=128,tile_n=192}",
     "fused_add{tile_m=64,tile_n=128}", "fused_out{tile_m=128,tile_n=256}",
     "fused_out{tile_m=128,tile_n=224}", "fused_out{tile_m=128,tile_n=192}",
     "fused_out{tile_m=128,tile_n=160}", "fused_out{tile_m=128,tile_n=128}",
     "fused_out{tile_m=64,tile_n=256}", "fused_out{tile_m=64,tile_n=128}",
     "direct{chunks=3,vendor=0,tile_m=128,tile_n=160}",
     "dma{form=0,chunks=3,tile_m=128,tile_n=128}", "dma{form=3,chunks=2,tile_m=128,tile_n=128}"},
    {"fused_add{tile_m=128,tile_n=256}", "fused_add{tile_m=128,tile_n=128,strips=1}",
     "fused_add{subs=2,lag=1,tile_m=64,tile_n=256,strips=1}",
     "fused_out{tile_m=128,tile_n=256,once=1}", "fused_out{tile_m=128,tile_n=224,once=1}",
     "fused_out{tile_m=128,tile_n=160,once=1}", "fused_out{tile_m=128,tile_n=128,once=1}",
     "fused_out{subs=3,lag=1,tile_m=128,tile_n=128}", "fused_out{tile_m=64,tile_n=128,once=1}",
     "fused_out{tile_m=64,tile_n=256}", "fused_out{tile_m=128,tile_n=160,once=0,strips=0,tagged=0}",
     "direct{chunks=3,vendor=0,tile_m=128,tile_n=160}",
     "dma{form=0,chunks=3,tile_m=128,tile_n=128}"},
    {"fused_in{chunks=2,slabs=1,push=0,tile_m=128,tile_n=256}",
     "fused_in{chunks=1,slabs=5,push=1,tile_m=128,tile_n=224}",
     "fused_in{chunks=3,slabs=1,push=1,tile_m=128,tile_n=192}",
     "fused_in{chunks=1,slabs=8,push=0,tile_m=128,tile_n=160}",
     "fused_in{chunks=1,slabs=1,push=1,tile_m=128,tile_n=128}",
     "fused_in{chunks=2,slabs=3,push=1,tile_m=64,tile_n=256}",
     "fused_in{chunks=1,slabs=8,push=1,tile_m=64,tile_n=128}",
     "fused_in{chunks=1,slabs=1,push=1,tile_m=64,tile_n=64}",
     "fused_in{chunks=1,slabs=1,push=1,tile_m=128,tile_n=112}", "dma{form=1,chunks=3}",
     "ring{sub=2,vendor=0,tile_m=128,tile_n=128}", "sliced{slices=3,tile_m=128,tile_n=128}"},
};

typedef struct world {
    shingle_comm *comm[RANKS];
    int ranks;
    double until_us;
    bool verbose;
    order_counts *counts;
} world;

/* All that a family's problems are made of. */
typedef struct job {
    world *w;
    const family *f;
    const uint8_t *values; /* of the type, about normally distributed */
    uint8_t *known[RANKS]; /* [name][n]: what the first plan made of a row */
    bool *is_known[RANKS];
    char text[128];
    sg_problem problem;
    void *a[RANKS], *b[RANKS], *bias[RANKS], *c[RANKS]; /* where runs reach them */
    uint8_t *host;                                      /* as large as any C */
    bool ok;
} job;

static bool complain(job *j, const char *what)
{
    printf("FAILED order %s: %s\n", j->text, what);
    fflush(stdout);
    j->ok = false;
    return false;
}

/* ---- Data ------------------------------------------------------------------------------------ */

static uint8_t *make_values(sg_type type)
{
    uint8_t *const values = malloc((size_t)VALUES * 4);
    sg_random random = {42};
    for (int64_t i = 0; values != NULL && i < VALUES; i++) {
        double sum = 0;
        const uint64_t bits = sg_random_next(&random);
        for (int t = 0; t < 4; t++) sum += (double)(bits >> 16 * t & 0xffff) / 65536 - 0.5;
        sg_data_store(type, (float)(sum * 1.73), values, i);
    }
    return values;
}

/* COUNT values of row ROW of matrix WHAT. */
static void copy_row(const job *j, int what, int64_t row, int64_t first, int64_t count, uint8_t *to)
{
    const int bytes = sg_type_bytes(j->f->type);
    const int64_t at = (int64_t)(sg_mix((uint64_t)what << 40 ^ (uint64_t)row) % VALUES);
    for (int64_t done = 0; done < count;) {
        const int64_t from = (at + first + done) % VALUES;
        const int64_t some = sg_min(count - done, VALUES - from);
        memcpy(to + done * bytes, j->values + from * bytes, (size_t)(some * bytes));
        done += some;
    }
}

static int64_t name_of(const sg_problem *p, int64_t row)
{
    return (row + 3 * p->m) % NAMES;
}

/* The row of what moves that RANK holds at place X. */
static int64_t held_row(const sg_problem *p, int rank, int64_t x)
{
    for (int32_t at = p->share[rank].first; at >= 0; at = p->segments[at].next) {
        const sg_segment *const g = &p->segments[at];
        if (x < g->own_row + g->rows) return g->row0 + x - g->own_row;
    }
    return -1;
}

static int64_t c_row(const sg_problem *p, int rank, int64_t x)
{
    return sg_problem_out(p) == SG_OUT_SCATTER ? held_row(p, rank, x) : x;
}

/* Fills matrix A (0) or B (1) of RANK in HOST. */
static void fill(const job *j, int what, int rank, uint8_t *host)
{
    const sg_problem *const p = &j->problem;
    const int bytes = sg_type_bytes(p->type);
    const bool gather = sg_problem_in(p) == SG_IN_GATHER;
    const bool gathered = gather && (p->gather == SG_GATHER_B) == (what == 1);
    const bool along_k = gathered && p->gather == SG_GATHER_K;
    const int64_t rows = what == 0 ? sg_problem_a_rows(p, rank) : sg_problem_b_rows(p, rank);
    const int64_t cols = what == 0 ? sg_problem_a_cols(p, rank) : p->k;
    const int whose = gathered ? what : 2 + 2 * rank + what;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = gathered && !along_k ? held_row(p, rank, i) : i;
        copy_row(j, whose, what == 0 ? name_of(p, row) : row, along_k ? held_row(p, rank, 0) : 0,
                 cols, host + i * cols * bytes);
    }
}

static bool give(job *j, int rank, int64_t elements, void **memory)
{
    const size_t bytes = (size_t)(elements * sg_type_bytes(j->f->type));
    shingle_comm *const comm = j->w->comm[rank];
    if (shingle_alloc(comm, bytes + 256, memory) != SHINGLE_OK) return complain(j, shingle_error());
    if (shingle_write(comm, *memory, j->host, bytes) != SHINGLE_OK)
        return complain(j, shingle_error());
    return true;
}

static bool open_problem(job *j, int m)
{
    const family *const f = j->f;
    snprintf(j->text, sizeof j->text, "%s:%s:%dx%dx%d:r%d%s", f->op, sg_type_name(f->type), m, f->n,
             f->k, j->w->ranks, f->more);
    if (sg_problem_parse(j->text, &j->problem) != SHINGLE_OK) return complain(j, shingle_error());
    const sg_problem *const p = &j->problem;
    for (int r = 0; r < p->ranks && j->ok; r++) {
        fill(j, 0, r, j->host);
        if (!give(j, r, sg_problem_a_rows(p, r) * sg_problem_a_cols(p, r), &j->a[r])) break;
        fill(j, 1, r, j->host);
        if (!give(j, r, sg_problem_b_rows(p, r) * p->k, &j->b[r])) break;
        copy_row(j, 99, 0, 0, p->n, j->host);
        if (!give(j, r, p->n, &j->bias[r])) break;
        give(j, r, sg_problem_c_rows(p, r) * p->n, &j->c[r]);
    }
    return j->ok;
}

static void close_problem(job *j)
{
    for (int r = 0; r < j->w->ranks; r++) {
        void **const memory[] = {&j->a[r], &j->b[r], &j->bias[r], &j->c[r]};
        for (int i = 0; i < 4; i++) {
            shingle_free(j->w->comm[r], *memory[i]);
            *memory[i] = NULL;
        }
    }
    sg_problem_free(&j->problem);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Compares RANK's C with what is known, or makes it known; elements that differ. */
static int64_t look_at(job *j, int rank, bool learn, int64_t *elements)
{
    const sg_problem *const p = &j->problem;
    const int bytes = sg_type_bytes(p->type);
    const size_t line = (size_t)(p->n * bytes);
    const int table = sg_problem_sums(p) ? 0 : rank;
    int64_t different = 0;
    for (int64_t i = 0; i < sg_problem_c_rows(p, rank); i++) {
        const int64_t name = name_of(p, c_row(p, rank, i));
        const uint8_t *const seen = j->host + i * (int64_t)line;
        uint8_t *const known = j->known[table] + name * (int64_t)line;
        if (!j->is_known[table][name]) {
            if (!learn) continue;
            memcpy(known, seen, line);
            j->is_known[table][name] = true;
            continue;
        }
        *elements += p->n;
        if (memcmp(known, seen, line) == 0) continue;
        for (int64_t x = 0; x < p->n; x++)
            different += memcmp(known + x * bytes, seen + x * bytes, (size_t)bytes) != 0;
    }
    return different;
}

/* Runs STRATEGY; -1: it is not to be had. */
static int64_t run(job *j, const char *strategy, bool learn, int64_t *elements)
{
    const sg_problem *const p = &j->problem;
    shingle_plan *plan[RANKS] = {NULL};
    const shingle_plan_options options = {.strategy = strategy, .reproducible = learn};
    int64_t different = -1;
    shingle_status status = SHINGLE_OK;
    for (int r = 0; r < p->ranks && status == SHINGLE_OK; r++) {
        const size_t bytes = (size_t)(sg_problem_c_rows(p, r) * p->n * sg_type_bytes(p->type));
        status = shingle_plan_create(j->w->comm[r], j->text, &options, &plan[r]);
        if (status == SHINGLE_EUNSUPPORTED && r == 0) return -1;
        memset(j->host, 0xff, bytes);
        if (status == SHINGLE_OK) status = shingle_write(j->w->comm[r], j->c[r], j->host, bytes);
    }
    for (int r = 0; r < p->ranks && status == SHINGLE_OK; r++) {
        const shingle_tensors t = {
            .a = j->a[r], .b = j->b[r], .bias = p->bias ? j->bias[r] : NULL, .c = j->c[r]};
        status = shingle_run_tensors(plan[r], &t, NULL);
    }
    for (int r = 0; r < p->ranks && status == SHINGLE_OK; r++)
        status = shingle_sync(j->w->comm[r], 10);
    for (int r = 0; r < p->ranks && status == SHINGLE_OK; r++) {
        const size_t bytes = (size_t)(sg_problem_c_rows(p, r) * p->n * sg_type_bytes(p->type));
        status = shingle_read(j->w->comm[r], j->host, j->c[r], bytes);
        if (r == 0) different = 0;
        if (status == SHINGLE_OK) different += look_at(j, r, learn, elements);
    }
    if (status != SHINGLE_OK) {
        printf("order: %s\n", strategy);
        complain(j, shingle_error());
    }
    for (int r = 0; r < p->ranks; r++) shingle_plan_free(plan[r]);
    return different;
}

static void run_admitted(job *j, const char *strategy)
{
    order_counts *const n = j->w->counts;
    const int64_t different = run(j, strategy, true, &n->elements);
    if (different < 0) return;
    n->plans++;
    n->different += different;
    if (different > 0 || j->w->verbose)
        printf("order: %s %s: %lld elements differ\n", j->text, strategy, (long long)different);
}

static void run_other(job *j, const char *strategy, const char *why)
{
    order_counts *const n = j->w->counts;
    int64_t elements = 0;
    const int64_t different = run(j, strategy, false, &elements);
    if (different < 0) return;
    n->others++;
    n->others_differ += different > 0;
    n->others_elements += elements;
    n->others_different += different;
    if (j->w->verbose)
        printf("order: %s %s (%s): %lld of %lld differ\n", j->text, strategy, why,
               (long long)different, (long long)elements);
}

static bool has_time(const job *j)
{
    return j->ok && sg_now_us() < j->w->until_us;
}

/* What is declined: of every strategy and reason one plan. */
static void run_others(job *j, const shingle_plan *plan)
{
    char seen[OTHERS][160];
    int count = 0;
    for (int i = 0; i < shingle_plan_candidates(plan) && has_time(j); i++) {
        shingle_candidate c;
        char mark[160];
        bool known = false;
        if (shingle_plan_candidate(plan, i, &c) != SHINGLE_OK || c.declined == NULL) continue;
        snprintf(mark, sizeof mark, "%.*s %.100s", (int)strcspn(c.strategy, "{"), c.strategy,
                 c.declined);
        for (int k = 0; k < count; k++) known |= strcmp(mark, seen[k]) == 0;
        if (known || count == OTHERS || strchr(c.strategy, '{') == NULL) continue;
        memcpy(seen[count++], mark, sizeof mark);
        run_other(j, c.strategy, c.declined);
    }
}

static void run_problem(job *j, int m, bool others)
{
    const shingle_plan_options options = {.reproducible = 1};
    shingle_plan *plan = NULL;
    if (open_problem(j, m)) {
        j->w->counts->problems++;
        const shingle_status status = shingle_plan_create(j->w->comm[0], j->text, &options, &plan);
        /* Without collectives some problems have no plan at all. */
        const bool none = status == SHINGLE_EUNSUPPORTED && getenv("SHINGLE_SHARE_GPU") != NULL;
        if (none)
            printf("order: %s: %s\n", j->text, shingle_error());
        else if (status != SHINGLE_OK)
            complain(j, shingle_error());
    }
    for (int i = 0; i < shingle_plan_candidates(plan) && has_time(j); i++) {
        shingle_candidate c;
        if (shingle_plan_candidate(plan, i, &c) != SHINGLE_OK || c.declined != NULL) continue;
        j->w->counts->admitted++;
        run_admitted(j, c.strategy);
    }
    const int form = strcmp(j->f->op, "gemm_rs") == 0   ? 0
                     : strcmp(j->f->op, "gemm_ar") == 0 ? 1
                                                        : 2;
    for (int i = 0; i < 16 && forms[form][i] != NULL && has_time(j); i++)
        run_admitted(j, forms[form][i]);
    if (others && plan != NULL) run_others(j, plan);
    /* Another kernel, and what it makes of the same product. */
    if (others && strstr(j->f->more, "cyclic") != NULL && form == 2 && has_time(j))
        run_other(j, "serial{tile_m=96,tile_n=96,permute=0}", "a slow kernel");
    shingle_plan_free(plan);
    close_problem(j);
}

static bool run_family(world *w, const family *f)
{
    job j = {.w = w, .f = f, .ok = true};
    const size_t table = (size_t)NAMES * (size_t)f->n * (size_t)sg_type_bytes(f->type);
    uint8_t *const values = make_values(f->type);
    j.values = values;
    j.host = malloc((size_t)NAMES * (size_t)sg_max(f->n, f->k) * 4);
    for (int r = 0; r < w->ranks; r++) {
        j.known[r] = malloc(table);
        j.is_known[r] = calloc(NAMES, sizeof *j.is_known[r]);
        if (j.known[r] == NULL || j.is_known[r] == NULL) complain(&j, "no memory");
    }
    if (values == NULL || j.host == NULL) complain(&j, "no memory");
    for (int i = 0; i < HEIGHTS && has_time(&j); i++) run_problem(&j, heights[i], i == 1);
    for (int r = 0; r < w->ranks; r++) {
        free(j.known[r]);
        free(j.is_known[r]);
    }
    free(j.host);
    free(values);
    return j.ok;
}

static bool order(const char *backend, int ranks, double seconds, bool verbose)
{
    const shingle_config config = {.backend = backend, .timeout_seconds = 5};
    order_counts n = {0};
    const double begin_us = sg_now_us();
    world w = {
        .ranks = ranks, .until_us = begin_us + seconds * 1e6, .verbose = verbose, .counts = &n};
    if (shingle_open(ranks, &config, w.comm) != SHINGLE_OK) {
        printf("FAILED order: %s\n", shingle_error());
        return false;
    }
    bool ok = true;
    size_t done = 0;
    for (; done < sizeof families / sizeof families[0] && ok; done++)
        ok = run_family(&w, &families[done]);
    shingle_close(ranks, w.comm);
    ok = ok && n.different == 0 && n.plans > 0;
    printf(
        "order: %d ranks, %d problems, %d plans admitted, %d compared, %lld elements, %lld differ; %d "
        "declined ones run, %d differ, in %lld of %lld elements; %.1f s: %s\n",
        ranks, n.problems, n.admitted, n.plans, (long long)n.elements, (long long)n.different,
        n.others, n.others_differ, (long long)n.others_different, (long long)n.others_elements,
        (sg_now_us() - begin_us) / 1e6, ok ? "right" : "WRONG");
    fflush(stdout);
    return ok;
}

int main(int argc, char **argv)
{
    const char *backend = "cuda";
    double seconds = 60;
    int ranks = 4;
    bool verbose = false;
    setenv("CUDA_MODULE_LOADING", "EAGER", 0); /* before the first call */
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] >= '1' && argv[i][0] <= '9') ranks = atoi(argv[i]);
        if (strncmp(argv[i], "seconds=", 8) == 0) seconds = atof(argv[i] + 8);
        if (strncmp(argv[i], "backend=", 8) == 0) backend = argv[i] + 8;
        verbose |= strcmp(argv[i], "verbose") == 0;
    }
    if (ranks > RANKS) ranks = RANKS;
    const shingle_config config = {.backend = backend};
    shingle_comm *comm[RANKS];
    while (ranks > 0 && shingle_open(ranks, &config, comm) != SHINGLE_OK) ranks--;
    if (ranks == 0) {
        printf("no GPU here: %s\n", shingle_error());
        return 77;
    }
    shingle_close(ranks, comm);
    bool ok = true;
    for (; ranks >= 1; ranks--) ok &= order(backend, ranks, seconds, verbose);
    return !ok;
}
