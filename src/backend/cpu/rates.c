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
 *     sizes of messages  machine's / scale_rows
 *
 * Its links are the machine's, too: what ranks share there they share here (link.c).
 *
 * s depends on the type, because machines multiply some types faster than others while links do not
 * care: every type has its own scale model.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "core/links.h"

/* ---- Product --------------------------------------------------------------------------------- */

typedef struct trial {
    int64_t m, n, k;
    double budget_us; /* per type */
    int least;        /* rounds, whatever they take: one may be interrupted for all of a budget */
} trial;

/* About 0.3 s for a scale model, whose times all hang on this; else as short as is of use. */
static const trial thorough = {512, 1024, 1024, 1e5, 1};
static const trial quick = {64, 256, 256, 3e3, 5};

typedef struct bench {
    sg_cpu *cpu;
    const sg_backend *backend;
    sg_problem problem;
    sg_work *work[SG_LOCAL_RANKS];
    sg_bound *bound[SG_LOCAL_RANKS];
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
    /* Any value does that is not zero everywhere; both bytes alike make a
     * small number of each type. */
    memset(t->a, 0x3c, (size_t)(p->m * p->k) * bytes);
    memset(t->b, 0x3c, (size_t)(p->n * p->k) * bytes);
    return SHINGLE_OK;
}

static void clean_up(bench *t)
{
    for (int r = 0; r < t->problem.ranks; r++) (void)sg_exec_free(t->bound[r]);
    if (t->work[0] != NULL) sg_work_close(t->problem.ranks, t->work);
    free(t->a);
    free(t->b);
    free(t->c);
    sg_problem_free(&t->problem);
}

/* Rounds end by themselves, or by the group's limit of no progress. */
static const double most_seconds = 3600;

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
    for (int r = 0; r < p->ranks; r++) SG_TRY(t->backend->sync(t->cpu, r, most_seconds));
    *us_out = sg_now_us() - begin;
    return SHINGLE_OK;
}

/* The best round after a first one that pays for page faults and compiled kernels: what else
 * happens on the machine only ever makes a round longer. */
static shingle_status time_rounds(const bench *t, const trial *size, double *us_out)
{
    double us = 0;
    int rounds = 0;
    double best = INFINITY;
    SG_TRY(round_of(t, &us));
    const double until = sg_now_us() + size->budget_us;
    do {
        SG_TRY(round_of(t, &us));
        if (us < best) best = us;
    } while (++rounds < size->least || sg_now_us() + us < until);
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
    if (status == SHINGLE_OK) status = time_rounds(&t, size, &us);
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
        /* What is copied must be used, or it need not be copied. */
        volatile char *const used = memory;
        used[BYTES] = (char)(used[i] + 1);
        if (rate > best) best = rate;
    }
    free(memory);
    return best;
}

/* Bytes of B a microsecond that one thread brings into order, far from any cache. */
static double measure_pack(sg_type type)
{
    enum { COLS = 2048, DEPTH = 2048 };
    const size_t bytes = (size_t)COLS * DEPTH * (size_t)sg_type_bytes(type);
    sg_pack *pack = NULL;
    void *const b = calloc(1, bytes);
    double us = 0;
    if (b != NULL && sg_pack_create(&pack) == SHINGLE_OK &&
        sg_pack_reserve(pack, type, COLS, DEPTH) == SHINGLE_OK) {
        memset(b, 0x3c, bytes);
        for (int round = 0; round < 2; round++) { /* the first one pays for page faults */
            sg_pack_begin_one(pack, type, b, DEPTH, COLS, DEPTH);
            const double begin = sg_now_us();
            for (int64_t panel = 0; panel * pack->one.width < COLS; panel++)
                for (int64_t x = 0; x < pack->one.blocks_k; x++)
                    (void)sg_pack_get(pack, &pack->one, panel, x);
            us = sg_now_us() - begin;
        }
    }
    sg_pack_free(pack);
    free(b);
    return us > 0 ? (double)bytes / us : 1e6;
}

/* ---- Machines -------------------------------------------------------------------------------- */

/* Without a scale model, links are memory.  The latencies are what waking a thread costs on Linux,
 * once or a few times; they only have to be of the right order.  What a tile costs beside its
 * multiply-adds is what the tile engine cuts a vendor's product by (tile.c). */
static void describe(const sg_cpu *cpu, double copy_rate, double pack_rate, sg_machine *m)
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
        .pool = cpu->threads,
        .pack_gbps = pack_rate / 1e3,
        .unit_us = 5,
        .work_row = 24,
        .work_col = 8,
        .work_element = 64,
    };
    snprintf(m->name, sizeof m->name, "cpu, %d threads", cpu->threads);
    m->tiles = sg_tile_shapes(m->tile);
}

/* The rate of tiles of the first shape and endless k, from that of a product in pieces, which has
 * also brought B into order. */
static double tile_tflops(const sg_cpu *cpu, const trial *size, const sg_machine *m, double tflops)
{
    const sg_split split = sg_tile_split(size->m, size->n, size->k, cpu->threads);
    const double rows = (double)split.row_step;
    const double cols = (double)split.col_step;
    const double depth = (double)size->k;
    const double flops = 2.0 * (double)size->m * (double)size->n * depth;
    const double b_bytes = (double)size->n * depth * 2;
    const int at_once = cpu->threads < cpu->ranks ? cpu->threads : cpu->ranks;
    const double us = flops / (tflops * 1e6);
    const double pack_us = b_bytes / (m->pack_gbps * 1e3) * cpu->ranks / at_once;
    const double piece = (rows * cols + m->work_row * rows + m->work_col * cols) * depth +
                         m->work_element * rows * cols;
    const double tile_rows = m->tile[0].m;
    const double tile_cols = m->tile[0].n;
    const double tile = 1 + m->work_row / tile_cols + m->work_col / tile_rows;
    return flops / (us - pack_us > us / 2 ? us - pack_us : us / 2) / 1e6 *
           (piece / (rows * cols * depth)) / tile;
}

/* The rate that the machine's file gives for TYPE, or the nearest it gives. */
static double machine_rate(const sg_machine *machine, sg_type type)
{
    double rate = machine->gemm_tflops[type];
    if (rate <= 0 && type != SG_F32) rate = machine->gemm_tflops[type == SG_F16 ? SG_BF16 : SG_F16];
    for (int i = 0; i < SG_TYPES && rate <= 0; i++) rate = machine->gemm_tflops[i];
    return rate;
}

/* Contention is not scaled: here products and links do what they do. */
static void scale(const sg_machine *of, double rows, sg_type type, double tflops, sg_machine *m)
{
    const double s = tflops / machine_rate(of, type);
    const double later = 1 / s / rows;
    m->copy_gbps = of->copy_gbps * s;
    m->store_gbps = of->store_gbps * s;
    m->coll_gbps = of->coll_gbps * s;
    m->topology = of->topology;
    m->link_gbps = sg_machine_link_gbps(of) * s;
    m->host_gbps = of->host_gbps * s;
    m->numa_gbps = of->numa_gbps * s;
    m->nic_gbps = of->nic_gbps * s;
    m->numa_ranks = of->numa_ranks;
    m->host_staged = of->host_staged;
    m->node_ranks = of->node_ranks;
    m->copy_us = of->copy_us * later;
    m->peer_us = of->peer_us * later;
    m->node_us = of->node_us * later;
    m->store_us = of->store_us * later;
    m->coll_us = of->coll_us * later;
    m->flag_us = of->flag_us * later;
    m->ranks = of->ranks;
    for (int kind = 0; kind < SG_MACHINE_COLLS; kind++) {
        m->coll_curve[kind] = of->coll_curve[kind];
        for (int i = 0; i < m->coll_curve[kind].points; i++) {
            m->coll_curve[kind].point[i].at /= rows;
            m->coll_curve[kind].point[i].value *= s;
        }
    }
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
    const double pack_rate = measure_pack(SG_BF16);
    double tflops[SG_TYPES];
    for (int type = 0; type < SG_TYPES; type++)
        SG_TRY(measure_product(cpu, backend, (sg_type)type, size, &tflops[type]));
    for (int type = 0; type < SG_TYPES; type++) {
        sg_machine *const m = &cpu->machine[type];
        describe(cpu, copy_rate, pack_rate, m);
        for (int t = 0; t < SG_TYPES; t++) m->gemm_tflops[t] = tile_tflops(cpu, size, m, tflops[t]);
        if (config->scale_of == NULL) continue;
        scale(config->scale_of, config->scale_rows, (sg_type)type, tflops[type], m);
        cpu->rates[type] = rates_of(m);
    }
    if (config->scale_of != NULL) {
        const sg_links links = {&cpu->machine[0], cpu->ranks, cpu->ranks};
        cpu->links_us = calloc((size_t)sg_links_count(&links), sizeof *cpu->links_us);
        if (cpu->links_us == NULL)
            return sg_fail(SHINGLE_ENOMEM, "no memory for the links of %d ranks", cpu->ranks);
    }
    cpu->held = config->scale_of != NULL;
    for (int r = 0; r < cpu->ranks; r++) cpu->rank[r].begun = 0;
    return SHINGLE_OK;
}
