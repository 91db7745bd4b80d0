/* place.c -- which matrices the launches of a plan touch: buffers of the workspace in both halves,
 * tensors of the user's, which each run names, and parts of them. */
#include "backend/cuda/cuda.h"

shingle_status sg_cuda_too_many_places(const sg_bound *bound)
{
    return sg_fail(SHINGLE_EUNSUPPORTED, "%s touches more than %d matrices", bound->text,
                   (int)SG_KERNEL_PLACES);
}

shingle_status sg_cuda_new_place(sg_cuda_plan *plan, void *low, void *high, int64_t rows,
                                 int64_t cols, bool wide, int8_t *index_out)
{
    const sg_type type = wide ? SG_F32 : plan->bound->problem.type;
    if (plan->places == SG_KERNEL_PLACES) return sg_cuda_too_many_places(plan->bound);
    plan->program.place[plan->places] = (sg_kernel_place){
        .data = {low, high},
        .pitch = cols * sg_type_bytes(type),
        .rows = (int32_t)rows,
        .cols = (int32_t)cols,
        .wide = wide,
    };
    *index_out = (int8_t)plan->places++;
    return SHINGLE_OK;
}

/* Place of buffer BUF at rank Q. */
static shingle_status find_place(sg_cuda_plan *plan, int buf, int q, void *const *landing)
{
    const sg_bound *const bound = plan->bound;
    const sg_problem *const p = &bound->problem;
    const sg_buf *const b = &bound->sched.buf[buf];
    int8_t *const index = &plan->place_of[buf][q];
    if (*index >= 0) return SHINGLE_OK;
    if (b->arena == SG_USER) {
        const bool own = q == bound->work->rank;
        const int64_t rows = own ? b->rows : sg_problem_c_rows(p, q);
        if (!own && buf != SG_C)
            return sg_fail(SHINGLE_EBUG, "%s: an input of a peer", bound->text);
        if (!own && landing[q] == NULL)
            return sg_fail(SHINGLE_EUNSUPPORTED, "%s: rows of C come from peers and from here",
                           bound->text);
        /* The first of several B or C; the others have places of their own. */
        const bool shares = p->b_count > 1;
        return sg_cuda_new_place(plan, own ? NULL : landing[q], own ? NULL : landing[q],
                                 shares && buf == SG_B ? p->b_cols[0] : rows,
                                 shares && buf == SG_C ? p->b_cols[0] : b->cols, false, index);
    }
    uint8_t *low = b->arena == SG_LOCAL     ? bound->local
                   : b->arena == SG_LIBRARY ? bound->library
                                            : bound->windows;
    uint8_t *high = low;
    if (sg_buf_is_shared(b)) {
        uint8_t **const *const half = b->arena == SG_REST ? bound->rest : bound->sym;
        low = half[0][q];
        high = bound->sched.baked ? low : half[1][q];
    }
    SG_TRY(sg_cuda_new_place(plan, low != NULL ? low + b->offset : NULL,
                             high != NULL ? high + b->offset : NULL, b->rows, b->cols, b->wide,
                             index));
    plan->program.place[*index].tagged = b->tagged;
    return SHINGLE_OK;
}

shingle_status sg_cuda_find_places(sg_cuda_plan *plan, int rank, void *const *landing)
{
    const sg_problem *const p = &plan->bound->problem;
    for (int buf = 0; buf < SG_BIAS; buf++) SG_TRY(find_place(plan, buf, rank, landing));
    if (p->return_a) SG_TRY(find_place(plan, SG_RETURNED, rank, landing));
    if (p->norm) SG_TRY(find_place(plan, SG_RESIDUAL, rank, landing));
    for (int i = 0; i < p->b_count - 1; i++) {
        const int64_t cols = p->b_cols[i + 1];
        const int64_t rows = plan->bound->sched.buf[SG_C].rows;
        SG_TRY(sg_cuda_new_place(plan, NULL, NULL, cols, p->k, false, &plan->more_b[i]));
        SG_TRY(sg_cuda_new_place(plan, NULL, NULL, rows, cols, false, &plan->more_c[i]));
    }
    return SHINGLE_OK;
}

/* Which of several B or C is AREA of?  It becomes an area of that one. */
static int move_to_part(const sg_cuda_plan *plan, sg_area *area)
{
    int64_t low = 0;
    int64_t high = 0;
    if (area->buf != SG_B && area->buf != SG_C) return 0;
    int32_t *const at = area->buf == SG_B ? &area->row0 : &area->col0;
    const int part = sg_problem_b_at(&plan->bound->problem, *at, &low, &high);
    *at -= (int32_t)low;
    return part;
}

shingle_status sg_cuda_name_place(sg_cuda_plan *plan, sg_area *area, bool source,
                                  void *const *landing)
{
    if (source && sg_cuda_is_landed(plan, area)) {
        area->buf = (uint8_t)plan->landed;
        return SHINGLE_OK;
    }
    SG_TRY(find_place(plan, area->buf, area->rank, landing));
    const uint8_t buf = area->buf;
    const int part = area->rank == plan->bound->work->rank ? move_to_part(plan, area) : 0;
    area->buf = (uint8_t)(part == 0     ? plan->place_of[buf][area->rank]
                          : buf == SG_B ? plan->more_b[part - 1]
                                        : plan->more_c[part - 1]);
    return SHINGLE_OK;
}

shingle_status sg_cuda_clip_place(sg_cuda_plan *plan, sg_area *to)
{
    enum { BOX = 64 };
    const int8_t c = plan->place_of[SG_C][plan->bound->work->rank];
    sg_kernel_place *const place = plan->program.place;
    const int32_t end = to->col0 + to->cols;
    if (to->buf != c || end == place[c].cols || to->cols % BOX == 0) return SHINGLE_OK;
    int at = 0;
    while (at < plan->clips && place[plan->clipped[at]].cols != end) at++;
    if (at == SG_CUDA_CLIPPED) return SHINGLE_OK;
    if (at == plan->clips) {
        if (plan->places == SG_KERNEL_PLACES) return SHINGLE_OK;
        SG_TRY(sg_cuda_new_place(plan, NULL, NULL, place[c].rows, end, false, &plan->clipped[at]));
        place[plan->clipped[at]].pitch = place[c].pitch;
        plan->clips++;
    }
    to->buf = (uint8_t)plan->clipped[at];
    return SHINGLE_OK;
}
