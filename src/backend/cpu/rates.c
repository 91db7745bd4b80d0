/* rates.c -- what this machine reaches, and the scale model.
 *
 * Measured: a product per rank, all ranks at once, through the pool, exactly as runs go; and how
 * fast memory is copied.
 *
 * A scale model of a machine keeps that machine's ratio of compute to link.  With
 *
 *     s(type) = rate of a rank here / machine's gemm_tflops(type)             (1 : 5000, say)
 *
 * a product of the same flops takes 1 / s as long here, so links are slower by s as well, and what
 * takes a fixed time there takes 1 / s as long here.  A problem here has fewer rows than the one it
 * stands for, by scale_rows, so all its times except the fixed ones are shorter by scale_rows;
 * fixed times must be, too:
 *
 *     rates of links     machine's * s
 *     latencies          machine's / s / scale_rows
 *
 * s depends on the type, because machines multiply some types faster than others while links do not
 * care: every type has its own scale model.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"

/* ---- Product --------------------------------------------------------------------------------- */

typedef struct trial {
    int64_t m, n, k;
    double budget_us; /* per type */
} trial;

/* About 0.3 s for a scale model, whose times all hang on this; else as short as is of use. */
static const trial thorough = {512, 1024, 1024, 1e5};
static const trial quick = {64, 256, 256, 3e3};

typedef struct bench {
    sg_cpu *cpu;
    const sg_backend *backend;
    sg_problem problem;
    sg_work *work[64];
    sg_bound *bound[64];
    void *a, *b, *c;
} bench;

static shingle_status build(sg_bound *bound, int rank)
{
    sg_sched *const s = &bound->sched;
    const sg_problem *const p = &bound->problem;
    sg_sched_begin(s, p, rank);
    sg_sched_launch(s, 0, (int32_t)p->m, (int32_t)p->n, 0, true);
    sg_sched_patch(s, &(sg_patch){.rows = (int32_t)p->m,
                                  .cols = (int32_t)p->n,
                                  .k1 = (int32_t)p->k,
                                  .final = 1,
                                  .a = sg_area_of(rank, SG_A, 0, p->m, 0, p->k),
                                  .b = sg_area_of(rank, SG_B, 0, p->n, 0, p->k)});
    sg_sched_to(s, sg_area_of(rank, SG_C, 0, p->m, 0, p->n));
    return sg_sched_seal(s);
}

static shingle_status prepare(bench *t)
{
    const sg_problem *const p = &t->problem;
    const size_t bytes = (size_t)sg_type_bytes(p->type);
    SG_TRY(sg_work_open(p->ranks, t->backend, t->cpu, t->work));
    for (int r = 0; r < p->ranks; r++) {
        SG_TRY(sg_exec_create(p, 1, "the product that measures this machine", &t->bound[r]));
        SG_TRY(build(t->bound[r], r));
        SG_TRY(sg_exec_bind(t->bound[r], t->work, r));
    }
    t->a = calloc((size_t)(p->m * p->k), bytes);
    t->b = calloc((size_t)(p->n * p->k), bytes);
    t->c = calloc((size_t)(p->m * p->n * p->ranks), bytes);
    if (t->a == NULL || t->b == NULL || t->c == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory to measure a product of %lldx%lldx%lld",
                       (long long)p->m, (long long)p->n, (long long)p->k);
    /* Any value does that is not zero everywhere; both bytes alike make a small number of each
     * type. */
    memset(t->a, 0x3c, (size_t)(p->m * p->k) * bytes);
    memset(t->b, 0x3c, (size_t)(p->n * p->k) * bytes);
    return SHINGLE_OK;
}

static void clean_up(bench *t)
{
    for (int r = 0; r < t->problem.ranks; r++) sg_exec_free(t->bound[r]);
    if (t->work[0] != NULL) sg_work_close(t->problem.ranks, t->work);
    free(t->a);
    free(t->b);
    free(t->c);
    sg_problem_free(&t->problem);
}

static shingle_status round_of(const bench *t, double *us_out)
{
    const sg_problem *const p = &t->problem;
    const double begin = sg_now_us();
    for (int r = 0; r < p->ranks; r++) {
        char *const c = t->c;
        const int64_t c_bytes = p->m * p->n * sg_type_bytes(p->type);
        const shingle_tensors tensors = {.a = t->a, .b = t->b, .c = c + r * c_bytes};
        SG_TRY(sg_exec_run(t->bound[r], &tensors, NULL, ~0u));
    }
    for (int r = 0; r < p->ranks; r++)
        SG_TRY(t->backend->sync(t->cpu, r, t->cpu->timeout_us / 1e6));
    *us_out = sg_now_us() - begin;
    return SHINGLE_OK;
}

/* The best round after a first one that pays for page faults and compiled kernels: what else
 * happens on the machine only ever makes a round longer. */
static shingle_status time_rounds(const bench *t, double budget_us, double *us_out)
{
    double us = 0;
    double best = INFINITY;
    SG_TRY(round_of(t, &us));
    const double until = sg_now_us() + budget_us;
    do {
        SG_TRY(round_of(t, &us));
        if (us < best) best = us;
    } while (sg_now_us() + us < until);
    *us_out = best;
    return SHINGLE_OK;
}

/* Rate of one rank while all are busy, in Tflop/s. */
static shingle_status measure_product(sg_cpu *cpu, const sg_backend *backend, sg_type type,
                                      const trial *size, double *tflops_out)
{
    bench t = {.cpu = cpu, .backend = backend};
    SG_TRY(sg_problem_make(SG_OP_GEMM, type, size->m, size->n, size->k, cpu->ranks, NULL, 0,
                           &t.problem));
    double us = 0;
    shingle_status status = prepare(&t);
    if (status == SHINGLE_OK) status = time_rounds(&t, size->budget_us, &us);
    clean_up(&t);
    const double flops = 2.0 * (double)size->m * (double)size->n * (double)size->k;
    if (status == SHINGLE_OK) *tflops_out = flops / (us > 1 ? us : 1) / 1e6;
    return status;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Bytes a microsecond that one thread copies. */
static double measure_copy(void)
{
    enum { BYTES = 4 << 20, ROUNDS = 4 };
    double best = 0;
    char *const memory = malloc(2 * (size_t)BYTES);
    if (memory == NULL) return 1000;
    memset(memory, 1, 2 * (size_t)BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        const double begin = sg_now_us();
        memcpy(memory, memory + BYTES, BYTES);
        const double rate = BYTES / (sg_now_us() - begin + 0.1);
        if (rate > best) best = rate;
    }
    free(memory);
    return best;
}

/* ---- Machines -------------------------------------------------------------------------------- */

/* Without a scale model, links are memory.  The latencies are what waking a thread costs on Linux,
 * once or a few times; they only have to be of the right order. */
static void describe(const sg_cpu *cpu, double copy_rate, sg_machine *m)
{
    const int at_once = cpu->threads < cpu->ranks ? cpu->threads : cpu->ranks;
    const double gbps = copy_rate / 1e3 * at_once / cpu->ranks;
    *m = (sg_machine){
        .ranks = cpu->ranks,
        .sms = (cpu->threads + cpu->ranks - 1) / cpu->ranks,
        .mem_gbps = 2 * gbps,
        .copy_gbps = gbps,
        .copy_us = 20,
        .store_gbps = gbps,
        .store_us = 5,
        .coll_gbps = gbps / 2,
        .coll_us = 50,
        .flag_us = 5,
        .launch_us = 5,
        .join_us = 10,
        .epilogue_us = 2,
    };
    snprintf(m->name, sizeof m->name, "cpu, %d threads", cpu->threads);
    m->tiles = sg_tile_shapes(m->tile);
}

/* The rate that the machine's file gives for TYPE, or the nearest it gives. */
static double machine_rate(const sg_machine *machine, sg_type type)
{
    double rate = machine->gemm_tflops[type];
    if (rate <= 0 && type != SG_F32) rate = machine->gemm_tflops[type == SG_F16 ? SG_BF16 : SG_F16];
    for (int i = 0; i < SG_TYPES && rate <= 0; i++) rate = machine->gemm_tflops[i];
    return rate;
}

static void scale(const sg_machine *of, double rows, sg_type type, sg_machine *m)
{
    const double s = m->gemm_tflops[type] / machine_rate(of, type);
    const double later = 1 / s / rows;
    m->copy_gbps = of->copy_gbps * s;
    m->store_gbps = of->store_gbps * s;
    m->coll_gbps = of->coll_gbps * s;
    m->copy_us = of->copy_us * later;
    m->store_us = of->store_us * later;
    m->coll_us = of->coll_us * later;
    m->flag_us = of->flag_us * later;
    m->ranks = of->ranks;
    snprintf(m->name, sizeof m->name, "%.30s at 1:%.0f", of->name, 1 / s);
}

/* Gigabytes a second to bytes a microsecond. */
static sg_rates rates_of(const sg_machine *m)
{
    return (sg_rates){
        .copy_us = m->copy_us,
        .copy_rate = m->copy_gbps * 1e3,
        .store_us = m->store_us,
        .store_rate = m->store_gbps * 1e3,
        .coll_us = m->coll_us,
        .coll_rate = m->coll_gbps * 1e3,
        .flag_us = m->flag_us,
    };
}

shingle_status sg_rates_measure(sg_cpu *cpu, const sg_backend *backend,
                                const sg_backend_config *config)
{
    const trial *const size = config->scale_of != NULL ? &thorough : &quick;
    const double copy_rate = measure_copy();
    double tflops[SG_TYPES];
    for (int type = 0; type < SG_TYPES; type++)
        SG_TRY(measure_product(cpu, backend, (sg_type)type, size, &tflops[type]));
    for (int type = 0; type < SG_TYPES; type++) {
        sg_machine *const m = &cpu->machine[type];
        describe(cpu, copy_rate, m);
        memcpy(m->gemm_tflops, tflops, sizeof tflops);
        if (config->scale_of == NULL) continue;
        scale(config->scale_of, config->scale_rows, (sg_type)type, m);
        cpu->rates[type] = rates_of(m);
    }
    cpu->held = config->scale_of != NULL;
    for (int r = 0; r < cpu->ranks; r++) cpu->rank[r].begun = 0;
    return SHINGLE_OK;
}
