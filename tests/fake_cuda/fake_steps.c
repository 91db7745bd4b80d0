/* fake_steps.c -- the functions of kernel/kernel.h that are not products, on the host; see
 * fake.h. */
#include <stdlib.h>
#include <string.h>

#include "fake_words.h"

static void see_how(unsigned how)
{
    fake_early += (how & SG_KERNEL_EARLY) != 0;
}

/* ---- Other steps ----------------------------------------------------------------------------- */

typedef struct step_op {
    sg_kernel_program p;
    sg_kernel_step s;
    bool sums, copies;
    patience patience;
} step_op;

static bool step_ready(const step_op *o, missing *m)
{
    const sg_kernel_program *const p = &o->p;
    if (!fake_may_copy(p, &o->s, m)) return false;
    for (int32_t i = 0; i < o->s.adds && o->sums; i++) {
        const struct sg_addend *const a = &p->add[o->s.add0 + i];
        if (a->awaited &&
            !fake_flags_up(p->rank, a->wait.by, sg_walk_wait(&a->wait, 0, 0, 0, 0), m))
            return false;
    }
    for (int32_t i = 0; i < o->s.tos; i++)
        if (!fake_may_leave(p, &p->to[o->s.to0 + i], m)) return false;
    return true;
}

static float summed(const step_op *o, int32_t row, int32_t col, int64_t product_col)
{
    float x = 0;
    for (int32_t i = 0; i < o->s.adds; i++)
        x += fake_get(&o->p, &o->p.add[o->s.add0 + i].area, row, col);
    return o->s.final ? fake_finish(&o->p, x, product_col) : x;
}

static bool run_step(void *data, bool first)
{
    step_op *const o = data;
    missing m;
    if (first && *o->s.ticket != 0 && !fake_aborted(o->p.rank)) abort(); /* zero at rest */
    *o->s.ticket = 1;
    const bool ready = step_ready(o, &m);
    if (!ready && !fake_give_up(o->p.rank, &o->patience, &m, o->s.step, -1)) return false;
    if (ready) *o->s.ticket = 0; /* who gives up leaves it as it is */
    if (o->copies) {
        fake_copy(&o->p, &o->s, ready);
        return true;
    }
    for (int32_t k = 0; k < o->s.tos && o->sums; k++) {
        const struct sg_area *const to = &o->p.to[o->s.to0 + k];
        if (!ready && to->leave) continue;
        for (int32_t i = 0; i < to->rows; i++)
            for (int32_t j = 0; j < to->cols; j++)
                fake_put(&o->p, to, i, j, summed(o, i, j, to->col0 + j), true);
    }
    for (int32_t i = 0; i < o->s.raises; i++) fake_raise(&o->p, &o->p.raise[o->s.raise0 + i], 0);
    return true;
}

static cudaError_t enqueue_step(const sg_kernel_program *program, const sg_kernel_step *step,
                                bool sums, bool copies, cudaStream_t stream)
{
    const step_op o = {.p = *program, .s = *step, .sums = sums, .copies = copies};
    fake_launches++;
    return fake_enqueue(stream, run_step, &o, sizeof o);
}

cudaError_t sg_kernel_flag(const sg_kernel_program *program, const sg_kernel_step *step,
                           unsigned how, cudaStream_t stream)
{
    see_how(how);
    return enqueue_step(program, step, false, false, stream);
}

cudaError_t sg_kernel_copy(const sg_kernel_program *program, const sg_kernel_step *step, int blocks,
                           unsigned how, cudaStream_t stream)
{
    see_how(how);
    if (blocks > fake_most_sms) fake_most_sms = blocks;
    return enqueue_step(program, step, false, true, stream);
}

cudaError_t sg_kernel_reduce(const sg_kernel_program *program, const sg_kernel_step *step,
                             int blocks, unsigned how, cudaStream_t stream)
{
    see_how(how);
    if (blocks > fake_most_sms) fake_most_sms = blocks;
    return enqueue_step(program, step, true, false, stream);
}

typedef struct copies_op {
    sg_kernel_program p;
    const sg_kernel_move *move;
    int count;
} copies_op;

static bool run_copies(void *data, bool first)
{
    const copies_op *const o = data;
    (void)first;
    for (int i = 0; i < o->count; i++)
        for (int32_t r = 0; r < o->move[i].src.rows; r++)
            for (int32_t c = 0; c < o->move[i].src.cols; c++)
                fake_put(&o->p, &o->move[i].to, r, c, fake_get(&o->p, &o->move[i].src, r, c),
                         false);
    return true;
}

cudaError_t sg_kernel_copies(const sg_kernel_program *program, const sg_kernel_move *move,
                             int count, int64_t rows, int blocks, unsigned how, cudaStream_t stream)
{
    const copies_op o = {*program, move, count};
    int64_t all = 0;
    for (int i = 0; i < count; i++) {
        if (move[i].row != all) return cudaErrorInvalidValue;
        all += move[i].src.rows;
    }
    if (all != rows) return cudaErrorInvalidValue;
    see_how(how);
    fake_launches++;
    fake_joined += count;
    if (blocks > fake_most_sms) fake_most_sms = blocks;
    return fake_enqueue(stream, run_copies, &o, sizeof o);
}

typedef struct permute_op {
    sg_kernel_place src, dst;
    const int32_t *runs;
    int count, bytes;
} permute_op;

static bool run_permute(void *data, bool first)
{
    const permute_op *const o = data;
    const int32_t whole[3] = {0, 0, o->src.rows};
    const int32_t *const runs = o->runs != NULL ? o->runs : whole;
    const int count = o->runs != NULL ? o->count : 1;
    (void)first;
    for (int i = 0; i < count; i++)
        for (int32_t r = 0; r < runs[3 * i + 2]; r++)
            memcpy((char *)o->dst.data[0] + (runs[3 * i + 1] + r) * o->dst.pitch,
                   (const char *)o->src.data[0] + (runs[3 * i] + r) * o->src.pitch,
                   (size_t)(o->src.cols * o->bytes));
    return true;
}

cudaError_t sg_kernel_permute(const sg_kernel_place *src, const sg_kernel_place *dst,
                              const int32_t *runs, int count, int element_bytes, int blocks,
                              unsigned how, cudaStream_t stream)
{
    const permute_op o = {*src, *dst, runs, count, element_bytes};
    see_how(how);
    if (runs == NULL)
        fake_moved++;
    else if (blocks > fake_most_sms)
        fake_most_sms = blocks;
    return fake_enqueue(stream, run_permute, &o, sizeof o);
}

/* ---- The run protocol ------------------------------------------------------------------------ */

static bool run_begin(void *data, bool first)
{
    fake_run *const o = data;
    sg_kernel_rank *const rank = o->rank;
    missing m;
    if (first) fake_say_hello(o);
    if (!o->gate || fake_gate_open(rank, o->baked, &m)) return true;
    return fake_give_up(rank, &o->patience, &m, o->step, -1);
}

cudaError_t sg_kernel_begin(sg_kernel_rank *rank, uint64_t hash, const void *c, int64_t c_stride,
                            int baked, int hello, int gate, unsigned how, cudaStream_t stream)
{
    const fake_run o = {.rank = rank,
                        .hash = hash,
                        .c = (uint64_t)(uintptr_t)c,
                        .c_stride = (uint64_t)c_stride,
                        .baked = baked,
                        .hello = hello,
                        .gate = gate,
                        .step = -1};
    see_how(how);
    fake_launches++;
    return fake_enqueue(stream, run_begin, &o, sizeof o);
}

static bool run_end(void *data, bool first)
{
    (void)first;
    return fake_end(data);
}

cudaError_t sg_kernel_end(sg_kernel_rank *rank, uint64_t hash, int baked, int hello, int done,
                          unsigned how, cudaStream_t stream)
{
    const fake_run o = {.rank = rank, .hash = hash, .baked = baked, .hello = hello, .done = done};
    see_how(how);
    fake_launches++;
    return fake_enqueue(stream, run_end, &o, sizeof o);
}

cudaError_t sg_kernel_load(void)
{
    return fake_fails() ? fake_error() : cudaSuccess;
}
