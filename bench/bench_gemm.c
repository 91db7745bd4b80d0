/* bench_gemm.c -- the tile engine against the libraries that a user would call instead.
 *
 *     bench_gemm [MxNxK [ROUNDS [THREADS]]]          default 2048x4096x4096, 9 rounds, 2 threads
 *
 * Rows of the table, all C = A * B^T in f32 on THREADS threads:
 *
 *     engine     threads that take pieces of sg_tile_split and share one pack, as the workers of
 *                the CPU backend do; packing B is part of every run
 *     run        a real serial plan "gemm:f32:MxNxK:r1" through shingle_run and shingle_sync
 *     openblas   cblas_sgemm with its own threads            if built with SG_WITH_CBLAS
 *     libxsmm    libxsmm_sgemm on a part of the rows a thread, given B^T for nothing: it cannot
 *                transpose, and hands large products to BLAS  if built with SG_WITH_XSMM
 *     onednn     dnnl_sgemm with its own threads             if built with SG_WITH_DNNL
 *
 * Rounds are interleaved, each begins with another row, and medians are printed.  Matrices hold
 * small integers, so every result is exact and every element of every run is compared.  On a busy
 * machine "cpu ms", of all threads together, tells more than the time on the clock.
 *
 * OpenBLAS reads its core type when it is loaded, and 0.3.21 does not know newer processors, so the
 * program runs itself again with the best type the machine has (OPENBLAS_CORETYPE overrides), and
 * with OpenMP threads that sleep while they wait, so that no row disturbs the next. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/tile.h"
#include "shingle.h"

#ifdef SG_WITH_XSMM
#include <libxsmm.h>
#endif
#ifdef SG_WITH_CBLAS
#include <cblas.h>
extern char *openblas_get_corename(void) __attribute__((weak));
extern void openblas_set_num_threads(int threads) __attribute__((weak));
#endif
#ifdef SG_WITH_DNNL
#include <dnnl.h>
#endif

enum { MAX_THREADS = 64, MAX_ROUNDS = 99 };

static int64_t m = 2048, n = 4096, k = 4096;
static int rounds = 9, threads = 2;
static float *a, *b, *c, *want;

/* ---- engine ---------------------------------------------------------------------------------- */

static sg_pack *pack;
static sg_tile_scratch *scratch[MAX_THREADS];
static sg_split split;
static _Atomic int64_t next_piece;

static void *engine_thread(void *context)
{
    sg_tile_scratch *const own = context;
    for (;;) {
        const int64_t index = atomic_fetch_add(&next_piece, 1);
        if (index >= split.pieces) return NULL;
        const sg_tile_rect rect = sg_tile_split_at(&split, index);
        const sg_tile_work work = {
            .a = a + rect.row0 * k,
            .a_stride = k,
            .a_type = SG_F32,
            .rows = rect.rows,
            .col0 = rect.col0,
            .cols = rect.cols,
            .k0 = 0,
            .k1 = k,
            .acc = c + rect.row0 * n + rect.col0,
            .acc_stride = n,
            .accumulate = false,
        };
        sg_tile_multiply(own, pack, &work);
    }
}

static bool on_threads(void *(*function)(void *), void *const *context)
{
    pthread_t thread[MAX_THREADS];
    int started = 0;
    while (started < threads - 1 &&
           pthread_create(&thread[started], NULL, function, context[started]) == 0) {
        started++;
    }
    if (started == threads - 1) (void)function(context[threads - 1]);
    for (int i = 0; i < started; i++) (void)pthread_join(thread[i], NULL);
    return started == threads - 1;
}

static bool engine_open(void)
{
    if (sg_pack_create(&pack) != SHINGLE_OK) return false;
    if (sg_pack_reserve(pack, SG_F32, n, k) != SHINGLE_OK) return false;
    for (int i = 0; i < threads; i++) {
        if (sg_tile_scratch_create(&scratch[i]) != SHINGLE_OK) return false;
    }
    split = sg_tile_split(m, n, k, threads);
    printf("engine: %s, %lld pieces of %lld x %lld\n", sg_tile_engine(), (long long)split.pieces,
           (long long)split.row_step, (long long)split.col_step);
    return true;
}

static bool engine_run(void)
{
    sg_pack_begin_one(pack, SG_F32, b, k, n, k);
    atomic_store(&next_piece, 0);
    void *context[MAX_THREADS];
    for (int i = 0; i < threads; i++) context[i] = scratch[i];
    return on_threads(engine_thread, context);
}

/* ---- run ------------------------------------------------------------------------------------- */

static shingle_comm *comm;
static shingle_plan *plan;

static bool run_open(void)
{
    const shingle_config config = {.threads = threads};
    const shingle_plan_options options = {.strategy = "serial"};
    char problem[80];
    snprintf(problem, sizeof problem, "gemm:f32:%lldx%lldx%lld:r1", (long long)m, (long long)n,
             (long long)k);
    if (shingle_open(1, &config, &comm) == SHINGLE_OK &&
        shingle_plan_create(comm, problem, &options, &plan) == SHINGLE_OK) {
        printf("run: %s\n", shingle_plan_text(plan));
        return true;
    }
    printf("run: %s\n", shingle_error());
    return false;
}

static bool run_run(void)
{
    return shingle_run(plan, a, b, c, NULL) == SHINGLE_OK && shingle_sync(comm, 60.0) == SHINGLE_OK;
}

/* ---- The libraries --------------------------------------------------------------------------- */

#ifdef SG_WITH_CBLAS
static bool openblas_open(void)
{
    printf("openblas: core type %s\n",
           openblas_get_corename != NULL ? openblas_get_corename() : "unknown (another CBLAS)");
    return true;
}

static void openblas_threads(int count)
{
    if (openblas_set_num_threads != NULL) openblas_set_num_threads(count);
}

static bool openblas_run(void)
{
    openblas_threads(threads);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1.0f, a, (int)k, b,
                (int)k, 0.0f, c, (int)n);
    openblas_threads(1);
    return true;
}
#endif

#ifdef SG_WITH_XSMM
static float *b_transposed;

static bool xsmm_open(void)
{
    b_transposed = malloc((size_t)(n * k) * sizeof *b_transposed);
    if (b_transposed == NULL) return false;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t x = 0; x < k; x++) b_transposed[x * n + j] = b[j * k + x];
    }
    printf("libxsmm: %s\n", libxsmm_get_target_arch());
    return true;
}

static void *xsmm_thread(void *context)
{
    const int64_t part = *(const int64_t *)context;
    const int64_t row0 = m * part / threads;
    const libxsmm_blasint rows = (libxsmm_blasint)(m * (part + 1) / threads - row0);
    const libxsmm_blasint cols = (libxsmm_blasint)n;
    const libxsmm_blasint depth = (libxsmm_blasint)k;
    const float one = 1.0f;
    const float zero = 0.0f;
    libxsmm_sgemm("N", "N", &cols, &rows, &depth, &one, b_transposed, &cols, a + row0 * k, &depth,
                  &zero, c + row0 * n, &cols);
    return NULL;
}

static bool xsmm_run(void)
{
    int64_t part[MAX_THREADS];
    void *context[MAX_THREADS];
    for (int i = 0; i < threads; i++) {
        part[i] = i;
        context[i] = &part[i];
    }
    return on_threads(xsmm_thread, context);
}
#endif

#ifdef SG_WITH_DNNL
static bool dnnl_open(void)
{
    const dnnl_version_t *const version = dnnl_version();
    printf("onednn: %d.%d.%d\n", version->major, version->minor, version->patch);
    return true;
}

static bool dnnl_run(void)
{
    return dnnl_sgemm('N', 'T', m, n, k, 1.0f, a, k, b, k, 0.0f, c, n) == dnnl_success;
}
#endif

/* ---- The table ------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    bool ours;
    bool (*open)(void);
    bool (*run)(void);
    bool present;
    int64_t wrong;
    double ms[MAX_ROUNDS];
    double cpu_ms[MAX_ROUNDS]; /* of all threads together */
} row;

static row table[] = {
    {.name = "engine", .ours = true, .open = engine_open, .run = engine_run},
    {.name = "run", .ours = true, .open = run_open, .run = run_run},
#ifdef SG_WITH_CBLAS
    {.name = "openblas", .open = openblas_open, .run = openblas_run},
#endif
#ifdef SG_WITH_XSMM
    {.name = "libxsmm", .open = xsmm_open, .run = xsmm_run},
#endif
#ifdef SG_WITH_DNNL
    {.name = "onednn", .open = dnnl_open, .run = dnnl_run},
#endif
};

enum { ROWS = sizeof table / sizeof *table };

static double now_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int compare(const void *x, const void *y)
{
    const double p = *(const double *)x;
    const double q = *(const double *)y;
    return (p > q) - (p < q);
}

static double median(double *value, int count)
{
    qsort(value, (size_t)count, sizeof *value, compare);
    return value[count / 2];
}

/* Times one run; poisons C before it and counts wrong elements after it.  The pause lets threads of
 * other libraries fall asleep. */
static bool measure(row *r, double *ms_out, double *cpu_ms_out)
{
    memset(c, 0x7f, (size_t)(m * n) * sizeof *c);
    usleep(150000);
    const double start = now_ms(CLOCK_MONOTONIC);
    const double cpu_start = now_ms(CLOCK_PROCESS_CPUTIME_ID);
    const bool done = r->run();
    *ms_out = now_ms(CLOCK_MONOTONIC) - start;
    *cpu_ms_out = now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
    for (int64_t i = 0; i < m * n; i++) r->wrong += !(c[i] == want[i]);
    return done;
}

/* Elements of the reference that are computed here, one at a time; the rest of it comes from the
 * first row, so an error there shows in all other rows. */
static int64_t spot_check(void)
{
    int64_t wrong = 0;
    sg_random random = {99};
    for (int i = 0; i < 2000; i++) {
        const int64_t y = sg_random_below(&random, m);
        const int64_t x = sg_random_below(&random, n);
        double sum = 0.0;
        for (int64_t z = 0; z < k; z++) sum += (double)a[y * k + z] * (double)b[x * k + z];
        wrong += (double)want[y * n + x] != sum;
    }
    return wrong;
}

static bool prepare(void)
{
    a = malloc((size_t)(m * k) * sizeof *a);
    b = malloc((size_t)(n * k) * sizeof *b);
    c = malloc((size_t)(m * n) * sizeof *c);
    want = malloc((size_t)(m * n) * sizeof *want);
    if (a == NULL || b == NULL || c == NULL || want == NULL) return false;
    sg_random random = {1};
    for (int64_t i = 0; i < m * k; i++) a[i] = (float)(sg_random_below(&random, 9) - 4);
    for (int64_t i = 0; i < n * k; i++) b[i] = (float)(sg_random_below(&random, 9) - 4);
    for (int i = 0; i < ROWS; i++) table[i].present = table[i].open();
    if (!table[0].present || !table[0].run()) return false;
    memcpy(want, c, (size_t)(m * n) * sizeof *want);
    return spot_check() == 0;
}

static int report(void)
{
    const double flop = 2.0 * (double)m * (double)n * (double)k;
    const row *rival = NULL;
    double middle[ROWS];
    int64_t wrong = 0;
    for (int i = 0; i < ROWS; i++) {
        if (!table[i].present) continue;
        middle[i] = median(table[i].ms, rounds);
        wrong += table[i].wrong;
        if (!table[i].ours && (rival == NULL || middle[i] < middle[rival - table])) {
            rival = &table[i];
        }
    }
    printf("%lldx%lldx%lld f32, %d threads, medians of %d interleaved rounds\n", (long long)m,
           (long long)n, (long long)k, threads, rounds);
    printf("%-10s %10s %10s %10s %10s %8s\n", "", "ms", "best ms", "cpu ms", "GFLOP/s", "wrong");
    for (int i = 0; i < ROWS; i++) {
        if (!table[i].present) continue;
        printf("%-10s %10.2f %10.2f %10.2f %10.1f %8lld\n", table[i].name, middle[i],
               table[i].ms[0], median(table[i].cpu_ms, rounds), flop / middle[i] * 1e-6,
               (long long)table[i].wrong);
    }
    for (int i = 0; i < ROWS && rival != NULL; i++) {
        if (!table[i].present || !table[i].ours) continue;
        printf("%s reaches %.1f %% of %s\n", table[i].name,
               100.0 * middle[rival - table] / middle[i], rival->name);
    }
    return wrong == 0 ? 0 : 1;
}

/* Runs this program again with what libraries read only when they are loaded. */
static void set_libraries_up(char **arguments)
{
    if (getenv("BENCH_GEMM_AGAIN") != NULL) return;
    char count[16];
    snprintf(count, sizeof count, "%d", threads);
#if defined(__x86_64__) && defined(__GNUC__)
    const char *const type = __builtin_cpu_supports("avx512f") ? "SkylakeX" : "Haswell";
    setenv("OPENBLAS_CORETYPE", type, 0);
#endif
    setenv("OMP_NUM_THREADS", count, 1);
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("BENCH_GEMM_AGAIN", "1", 1);
    (void)execv("/proc/self/exe", arguments); /* stays here if there is no /proc */
}

int main(int count, char **arguments)
{
    long long shape[3] = {m, n, k};
    if (count > 1 && sscanf(arguments[1], "%lldx%lldx%lld", &shape[0], &shape[1], &shape[2]) != 3) {
        fprintf(stderr, "usage: bench_gemm [MxNxK [ROUNDS [THREADS]]]\n");
        return 2;
    }
    m = sg_max(1, sg_min(shape[0], 32768));
    n = sg_max(1, sg_min(shape[1], 32768));
    k = sg_max(1, sg_min(shape[2], 32768));
    if (count > 2) rounds = (int)sg_max(1, sg_min(atoi(arguments[2]), MAX_ROUNDS));
    if (count > 3) threads = (int)sg_max(1, sg_min(atoi(arguments[3]), MAX_THREADS));
    set_libraries_up(arguments);
    if (!prepare()) {
        fprintf(stderr, "bench_gemm: no memory, or a wrong product\n");
        return 1;
    }
    double ignored[2];
    for (int i = 0; i < ROWS; i++) {
        if (table[i].present) table[i].present = measure(&table[i], &ignored[0], &ignored[1]);
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < ROWS; i++) {
            row *const r = &table[(i + round) % ROWS];
            if (r->present) r->present = measure(r, &r->ms[round], &r->cpu_ms[round]);
        }
    }
    return report();
}
