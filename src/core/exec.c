/* exec.c -- see exec.h. */
#include "core/exec.h"

#include <stdlib.h>
#include <string.h>

#include "core/tensors.h"

shingle_status sg_exec_create(const sg_problem *problem, uint64_t hash, const char *text,
                              sg_bound **bound_out)
{
    const size_t text_bytes = strlen(text) + 1;
    sg_bound *const bound = calloc(1, sizeof *bound);
    char *const own_text = malloc(text_bytes);
    shingle_status status = SHINGLE_OK;
    if (bound == NULL || own_text == NULL)
        status = sg_fail(SHINGLE_ENOMEM, "no memory for a bound plan");
    if (status == SHINGLE_OK) status = sg_problem_copy(problem, &bound->problem);
    if (status != SHINGLE_OK) {
        free(own_text);
        free(bound);
        return status;
    }
    memcpy(own_text, text, text_bytes);
    bound->hash = hash;
    bound->text = own_text;
    *bound_out = bound;
    return SHINGLE_OK;
}

/* The blocks of a half of ARENA: KIND. */
static shingle_status bind_half(sg_bound *bound, sg_work *const *work, sg_arena_kind arena,
                                sg_block_kind kind, uint8_t ***blocks_out)
{
    const int ranks = bound->work->ranks;
    const bool second = kind == SG_BLOCK_SYM1 || kind == SG_BLOCK_REST1;
    *blocks_out = calloc((size_t)sg_max(ranks, 1), sizeof(uint8_t *));
    if (*blocks_out == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory for the addresses of %d ranks", ranks);
    for (int q = 0; q < ranks && !(second && bound->sched.baked); q++) {
        void *block = NULL;
        SG_TRY(sg_work_block(work[q], kind, bound->sched.arena_bytes[arena], &block));
        (*blocks_out)[q] = block;
    }
    return SHINGLE_OK;
}

/* Flags, SYM and REST of all ranks: peers store there as soon as they run the plan. */
static shingle_status bind_shared(sg_bound *bound, sg_work *const *work)
{
    for (int q = 0; q < bound->work->ranks; q++) SG_TRY(sg_work_flags(work[q], bound->sched.flags));
    SG_TRY(bind_half(bound, work, SG_SYM, SG_BLOCK_SYM0, &bound->sym[0]));
    SG_TRY(bind_half(bound, work, SG_SYM, SG_BLOCK_SYM1, &bound->sym[1]));
    SG_TRY(bind_half(bound, work, SG_REST, SG_BLOCK_REST0, &bound->rest[0]));
    return bind_half(bound, work, SG_REST, SG_BLOCK_REST1, &bound->rest[1]);
}

shingle_status sg_exec_bind(sg_bound *bound, sg_work *const *work, int rank)
{
    const sg_sched *const s = &bound->sched;
    bound->work = work[rank];
    SG_TRY(bind_shared(bound, work));
    void *block = NULL;
    SG_TRY(sg_work_block(bound->work, SG_BLOCK_LOCAL, s->arena_bytes[SG_LOCAL], &block));
    bound->local = block;
    SG_TRY(sg_work_block(bound->work, SG_BLOCK_LIBRARY, s->arena_bytes[SG_LIBRARY], &block));
    bound->library = block;
    /* A window is one at all ranks. */
    for (int q = 0; q < bound->work->ranks; q++) {
        SG_TRY(sg_work_block(work[q], SG_BLOCK_WINDOWS, s->arena_bytes[SG_WINDOWS], &block));
        if (q == rank) bound->windows = block;
    }
    if (s->counters > 0) {
        bound->count = calloc((size_t)s->counters, sizeof *bound->count);
        if (bound->count == NULL)
            return sg_fail(SHINGLE_ENOMEM, "no memory for %d counters", s->counters);
    }
    return bound->work->backend->bind(bound->work->self, bound);
}

bool sg_exec_free(sg_bound *bound)
{
    if (bound == NULL) return true;
    if (bound->backend != NULL) bound->work->backend->unbind(bound->work->self, bound);
    if (bound->backend != NULL) return false; /* somebody still works in this memory */
    for (int half = 0; half < 2; half++) {
        free(bound->sym[half]);
        free(bound->rest[half]);
    }
    free(bound->count);
    sg_sched_free(&bound->sched);
    sg_problem_free(&bound->problem);
    free(bound->text);
    free(bound);
    return true;
}

/* ---- Running --------------------------------------------------------------------------------- */

shingle_status sg_exec_run(sg_bound *bound, const shingle_tensors *tensors, void *stream,
                           unsigned kinds)
{
    const sg_backend *const backend = bound->work->backend;
    void *const self = bound->work->self;
    const sg_sched *const s = &bound->sched;
    if (kinds != ~0u && s->flags > 0)
        return sg_fail(SHINGLE_EUNSUPPORTED, "%s waits for flags: it runs whole or not at all",
                       bound->text);
    /* Host memory has no streams: who names one counts on an order that nobody would keep. */
    if (stream != NULL && backend->write == NULL)
        return sg_fail(SHINGLE_EINVAL, "stream %p: backend %s has no streams; NULL is accepted",
                       stream, backend->name);
    sg_run run = {
        .bound = bound, .work = bound->work, .tensors = *tensors, .stream = stream, .kinds = kinds};
    SG_TRY(sg_tensors_check(&bound->problem, bound->work->rank, &run.tensors));
    SG_TRY(backend->begin(self, &run));
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if ((kinds & 1u << step->kind) == 0) continue;
        SG_TRY(backend->issue[step->kind](self, &run, i));
    }
    return backend->end(self, &run);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

/* Number I of the B or C, where the first is FIRST and the others are in MORE. */
static sg_user_matrix numbered(int i, const void *first, int64_t first_stride,
                               const void *const *more, const int64_t *more_stride)
{
    if (i > 0) return (sg_user_matrix){(void *)(uintptr_t)more[i - 1], more_stride[i - 1]};
    return (sg_user_matrix){(void *)(uintptr_t)first, first_stride};
}

sg_user_matrix sg_exec_user(const sg_problem *p, const shingle_tensors *t, sg_area *area)
{
    int64_t low = 0;
    int64_t high = 0;
    switch (area->buf) {
    case SG_A: return (sg_user_matrix){(void *)(uintptr_t)t->a, t->a_stride};
    case SG_BIAS: return (sg_user_matrix){(void *)(uintptr_t)t->bias, 0};
    case SG_RETURNED: return (sg_user_matrix){t->returned_a, t->returned_a_stride};
    case SG_RESIDUAL: return (sg_user_matrix){t->residual, t->residual_stride};
    case SG_GAIN: return (sg_user_matrix){(void *)(uintptr_t)t->gain, 0};
    case SG_B: {
        const int i = sg_problem_b_at(p, area->row0, &low, &high);
        area->row0 -= (int32_t)low;
        return numbered(i, t->b, t->b_stride, t->more_b, t->more_b_stride);
    }
    default: {
        const int i = sg_problem_b_at(p, area->col0, &low, &high);
        area->col0 -= (int32_t)low;
        return numbered(i, t->c, t->c_stride, (const void *const *)t->more_c, t->more_c_stride);
    }
    }
}

static uint8_t *block_of(const sg_run *run, const sg_buf *buf, int rank)
{
    const sg_bound *const bound = run->bound;
    switch (buf->arena) {
    case SG_SYM: return bound->sym[run->half][rank];
    case SG_REST: return bound->rest[run->half][rank];
    case SG_LOCAL: return bound->local;
    case SG_LIBRARY: return bound->library;
    default: return bound->windows;
    }
}

static sg_place user_place(const sg_run *run, sg_area *area)
{
    const sg_problem *const p = &run->bound->problem;
    sg_user_matrix at = {0};
    if (area->rank != run->work->rank)
        sg_run_output_of(run, area->rank, &at.data, &at.stride);
    else
        at = sg_exec_user(p, &run->tensors, area);
    return (sg_place){at.data, at.stride * sg_type_bytes(p->type), p->type};
}

sg_place sg_exec_address(const sg_run *run, const sg_area *of)
{
    sg_area in_buf = *of;
    sg_area *const area = &in_buf;
    const sg_bound *const bound = run->bound;
    const sg_buf *const buf = &bound->sched.buf[area->buf];
    sg_place place;
    if (buf->arena == SG_USER) {
        place = user_place(run, area);
    } else {
        place.type = buf->wide ? SG_F32 : bound->problem.type;
        place.stride_bytes = buf->cols * sg_type_bytes(place.type);
        uint8_t *const block = block_of(run, buf, area->rank);
        place.data = block != NULL ? block + buf->offset : NULL;
    }
    if (place.data != NULL)
        place.data +=
            area->row0 * place.stride_bytes + (int64_t)area->col0 * sg_type_bytes(place.type);
    return place;
}
