/* micro.c -- what is known about each library that multiplies small blocks.
 *
 * LIBXSMM is column-major and generates code for every shape.  Our C, rows x cols and row-major, is
 * its C^T, cols x rows; so its A is our packed B, its B is our A, both untransposed:
 *
 *     its M = cols, N = rows, K = k
 *     its A = our B (lda = b_stride), its B = our A (ldb = a_stride)
 *
 * OpenBLAS is the CBLAS that is usually found.  Three traps: it starts a thread per core as soon as
 * it is loaded, which would take the program's signals, so it is loaded only where it multiplies,
 * and with signals blocked; it gives each of them a part of every product, where our workers have
 * parts already; and version 0.3.21 (Debian 12) takes Intel processors that are newer than itself
 * for a "Prescott" and then reaches a fifth of what they can. */
#include "backend/cpu/micro.h"

#include <pthread.h>
#include <string.h>

#ifdef SG_WITH_XSMM
#include <libxsmm.h>
#endif
#ifdef SG_CBLAS_NAME
#include <cblas.h>
#include <dlfcn.h>
#endif

enum { WIDE = SG_MICRO_WIDTH };

#define INLINE static inline __attribute__((always_inline))

/* ---- Plain C --------------------------------------------------------------------------------- */

/* Multiplies and adds: fused where the machine does that in one instruction.  (A call of fmaf would
 * be emulated elsewhere, a hundred times slower.) */
INLINE float chain(float a, float b, float c, bool fused)
{
    return fused ? __builtin_fmaf(a, b, c) : a * b + c;
}

INLINE void plain_body(const sg_micro *m, bool fused)
{
    for (int64_t i = 0; i < m->rows; i++) {
        const float *const a = m->a + i * m->a_stride;
        float *const c = m->c + i * m->c_stride;
        if (!m->accumulate) memset(c, 0, (size_t)m->cols * sizeof *c);
        for (int64_t x = 0; x < m->k; x++) {
            const float *const b = m->b + x * m->b_stride;
            const float factor = a[x];
            for (int64_t j = 0; j < m->cols; j++) c[j] = chain(factor, b[j], c[j], fused);
        }
    }
}

static void plain_multiply_base(const sg_micro *m)
{
#ifdef __FP_FAST_FMAF
    plain_body(m, true);
#else
    plain_body(m, false);
#endif
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma"))) static void plain_multiply_fma(const sg_micro *m)
{
    plain_body(m, true);
}

static void plain_multiply(const sg_micro *m)
{
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        plain_multiply_fma(m);
    } else {
        plain_multiply_base(m);
    }
}
#else
static void plain_multiply(const sg_micro *m)
{
    plain_multiply_base(m);
}
#endif

static bool plain_init(sg_text *text, int *width_out)
{
    sg_text_add(text, "plain C");
    *width_out = WIDE;
    return true;
}

static const sg_engine plain = {"plain", plain_init, plain_multiply, NULL};

/* ---- CBLAS ----------------------------------------------------------------------------------- */

#ifdef SG_CBLAS_NAME

/* Of the library once it is loaded.  OpenBLAS alone has the last two. */
static struct {
    __typeof__(&cblas_sgemm) sgemm;
    void (*set_num_threads)(int threads);
    char *(*get_corename)(void);
} blas;

static bool find(void *library, const char *name, void *entry)
{
    void *const symbol = dlsym(library, name);
    if (symbol != NULL) *(void **)entry = symbol;
    return symbol != NULL;
}

/* Found by its name or, in a folder that the loader does not know, where the build found it.  It
 * is not closed: threads of its own are in it. */
static void *cblas_load(void *context)
{
    void *library = dlopen(SG_CBLAS_NAME, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) library = dlopen(SG_CBLAS_PATH, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || !find(library, "cblas_sgemm", &blas.sgemm)) {
        const char *const reason = dlerror();
        sg_log(SG_LOG_WARN, "no CBLAS: %s", reason != NULL ? reason : SG_CBLAS_NAME);
        return NULL;
    }
    (void)find(library, "openblas_get_corename", &blas.get_corename);
    if (find(library, "openblas_set_num_threads", &blas.set_num_threads)) blas.set_num_threads(1);
    return context;
}

/* By a thread of the library: what starts there blocks signals as it does. */
static bool cblas_is_loaded(void)
{
    pthread_t loader;
    void *loaded = NULL;
    if (sg_thread_start(&loader, cblas_load, &blas) != 0) return false;
    pthread_join(loader, &loaded);
    return loaded != NULL;
}

static bool cblas_init(sg_text *text, int *width_out)
{
    if (!cblas_is_loaded()) return false;
    const char *const core = blas.get_corename != NULL ? blas.get_corename() : NULL;
    sg_text_add(text, core != NULL ? "openblas (%s)" : "cblas", core);
#if defined(__x86_64__) && defined(__GNUC__)
    if (core != NULL && strcmp(core, "Prescott") == 0 && __builtin_cpu_supports("avx2")) {
        sg_log(SG_LOG_WARN,
               "OpenBLAS takes this processor for a Prescott and runs at a fraction of its speed; "
               "set OPENBLAS_CORETYPE=%s",
               __builtin_cpu_supports("avx512f") ? "SkylakeX" : "Haswell");
    }
#endif
    *width_out = WIDE;
    return true;
}

static void cblas_call(const sg_micro *m, CBLAS_TRANSPOSE b_form)
{
    blas.sgemm(CblasRowMajor, CblasNoTrans, b_form, (int)m->rows, (int)m->cols, (int)m->k, 1.0f,
               m->a, (int)m->a_stride, m->b, (int)m->b_stride, m->accumulate ? 1.0f : 0.0f, m->c,
               (int)m->c_stride);
}

static void cblas_multiply(const sg_micro *m)
{
    cblas_call(m, CblasNoTrans);
}

static void cblas_multiply_transposed(const sg_micro *m)
{
    cblas_call(m, CblasTrans);
}

static const sg_engine cblas = {"cblas", cblas_init, cblas_multiply, cblas_multiply_transposed};
#endif

/* ---- LIBXSMM --------------------------------------------------------------------------------- */

#ifdef SG_WITH_XSMM

/* LIBXSMM has locks of its own while it starts and generates code, by which a child that is forked
 * meanwhile would wait for a thread that it has not.  So forks wait for whoever is in there. */
static pthread_mutex_t xsmm_inside = PTHREAD_MUTEX_INITIALIZER;

static void xsmm_lock(void)
{
    pthread_mutex_lock(&xsmm_inside);
}

static void xsmm_unlock(void)
{
    pthread_mutex_unlock(&xsmm_inside);
}

/* Code for one shape, kept by LIBXSMM.  NULL if it cannot be generated: no executable memory to be
 * had, or LIBXSMM's table is full. */
static libxsmm_smmfunction xsmm_make(const sg_micro *m)
{
    const libxsmm_blasint lda = (libxsmm_blasint)m->b_stride;
    const libxsmm_blasint ldb = (libxsmm_blasint)m->a_stride;
    const libxsmm_blasint ldc = (libxsmm_blasint)m->c_stride;
    const float alpha = 1.0f;
    const float beta = m->accumulate ? 1.0f : 0.0f;
    const int flags = LIBXSMM_GEMM_FLAG_NONE;
    const int prefetch = LIBXSMM_PREFETCH_NONE;
    xsmm_lock();
    const libxsmm_smmfunction code = libxsmm_smmdispatch(
        (libxsmm_blasint)m->cols, (libxsmm_blasint)m->rows, (libxsmm_blasint)m->k, &lda, &ldb, &ldc,
        &alpha, &beta, &flags, &prefetch);
    xsmm_unlock();
    return code;
}

/* The same, by what this thread has asked for lately. */
static libxsmm_smmfunction xsmm_code(const sg_micro *m)
{
    enum { KNOWN = 16 };
    typedef struct shape {
        int64_t rows, cols, k, a_stride, b_stride, c_stride, accumulate;
    } shape;
    static _Thread_local struct {
        shape of; /* zeros: none */
        libxsmm_smmfunction code;
    } known[KNOWN];
    const shape asked = {m->rows,     m->cols,     m->k,         m->a_stride,
                         m->b_stride, m->c_stride, m->accumulate};
    const int i = (int)((m->rows * 7 + m->cols * 3 + m->k + asked.accumulate) % KNOWN);
    if (memcmp(&known[i].of, &asked, sizeof asked) != 0) {
        known[i].code = xsmm_make(m);
        known[i].of = asked;
    }
    return known[i].code;
}

/* For up to 11 rows of up to 16 columns, one register of AVX-512, LIBXSMM 1.17 keeps two or more
 * sums of every element and adds them in the end, where all other shapes have one chain over k. */
static bool xsmm_splits_the_chain(const sg_micro *m)
{
    return m->rows < 12 && m->cols <= 16;
}

static void xsmm_multiply(const sg_micro *m)
{
    const libxsmm_smmfunction code = xsmm_splits_the_chain(m) ? NULL : xsmm_code(m);
    if (code != NULL) {
        code(m->b, m->a, m->c);
    } else if (libxsmm_get_target_archid() >= LIBXSMM_X86_AVX2) {
        plain_multiply(m);
    } else {
        plain_multiply_base(m);
    }
}

static void xsmm_guard(void)
{
    (void)pthread_atfork(xsmm_lock, xsmm_unlock, xsmm_unlock);
}

static bool xsmm_init(sg_text *text, int *width_out)
{
    static pthread_once_t guarded = PTHREAD_ONCE_INIT; /* may be started again by force */
    (void)pthread_once(&guarded, xsmm_guard);
    xsmm_lock();
    libxsmm_init();
    xsmm_unlock();
    const sg_micro probe = {
        .a_stride = 16, .b_stride = 16, .c_stride = 16, .rows = 16, .cols = 16, .k = 16};
    if (xsmm_code(&probe) == NULL) {
        sg_log(SG_LOG_WARN, "LIBXSMM cannot generate code here (no executable memory?)");
        return false;
    }
    sg_text_add(text, "libxsmm (%s)", libxsmm_get_target_arch());
    /* With AVX-512 every width of 16 to 128 columns runs at 98 % of the unit's peak, and few wide
     * blocks cost least; with AVX2 32 columns reach that and wider blocks 83 % (EPYC, Zen 4). */
    *width_out = libxsmm_get_target_archid() >= LIBXSMM_X86_AVX512 ? WIDE : WIDE / 2;
    return true;
}

static const sg_engine xsmm = {"libxsmm", xsmm_init, xsmm_multiply, NULL};
#endif

/* ---- Choice ---------------------------------------------------------------------------------- */

static const sg_engine *const engines[] = {
#ifdef SG_WITH_XSMM
    &xsmm,
#endif
#ifdef SG_CBLAS_NAME
    &cblas,
#endif
    &plain,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const sg_engine *chosen; /* these three are written under `once`, and by force */
static int chosen_width;
static char chosen_text[64];

static bool use(const sg_engine *engine)
{
    sg_text text = {chosen_text, sizeof chosen_text, 0};
    if (!engine->init(&text, &chosen_width)) return false;
    chosen = engine;
    return true;
}

static void choose(void)
{
    for (size_t i = 0; chosen == NULL && i < sizeof engines / sizeof *engines; i++) {
        (void)use(engines[i]);
    }
    sg_log(SG_LOG_INFO, "tile engine: %s", chosen_text);
}

const sg_engine *sg_micro_engine(void)
{
    (void)pthread_once(&once, choose);
    return chosen;
}

int sg_micro_width(void)
{
    (void)pthread_once(&once, choose);
    return chosen_width;
}

const char *sg_micro_text(void)
{
    (void)pthread_once(&once, choose);
    return chosen_text;
}

bool sg_micro_force(const char *name)
{
    (void)pthread_once(&once, choose);
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        if (strcmp(engines[i]->name, name) == 0) return use(engines[i]);
    }
    return false;
}
