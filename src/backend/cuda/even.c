/* even.c -- products of matrices whose rows begin at odd bytes, as with a k or an n that is no
 * multiple of eight elements.
 *
 * What multiplies fast loads and stores rows that begin at multiples of 16 bytes.  The vendor's
 * library is up to eight times as slow where n or k is odd, wherever rows begin, and our kernel
 * for any rows fifty times.  So a launch that has its lane to itself, as those meant for the
 * vendor have, multiplies copies of what lies so by a fast kernel of ours, and its result is
 * copied to where it belongs.  Matrices whose rows do not, by the caller's strides, are read and
 * stored where they are. */
#include "backend/cuda/cuda.h"
#include "core/sched_rules.h"

/* Copies have whole lines: rows at odd 16 bytes are loaded more slowly. */
enum { EVEN = 16, LINE = 128 };

/* Of fewer rows the vendor's product, which reads B once at any address, is over before a copy of
 * B is made. */
enum { LEAST_ROWS = 16 };

static int64_t even_pitch(const sg_area *area, int bytes)
{
    return sg_round_up((int64_t)area->cols * bytes, LINE);
}

/* ---- Bind ------------------------------------------------------------------------------------ */

/* Does AREA, operand I, which names a place, have rows that begin at odd bytes, with dense and
 * aligned matrices of the user's?  Several C may stand side by side in one. */
static bool is_odd(const sg_cuda_plan *plan, int i, const sg_area *area)
{
    const sg_problem *const p = &plan->bound->problem;
    const int bytes = sg_type_bytes(p->type);
    const int64_t pitch = plan->program.place[area->buf].pitch;
    const bool in_one =
        (i == SG_EVEN_C || i == SG_EVEN_ADD) && p->b_count > 1 && sg_problem_has_odd_n(p);
    return in_one || ((area->row0 * pitch + (int64_t)area->col0 * bytes) | pitch) % EVEN != 0;
}

bool sg_cuda_is_small(const sg_patch *patch)
{
    enum { LEAST_WORK = 1 << 22 };
    const double depth = (double)patch->k1 - patch->k0;
    return (double)patch->rows * patch->cols * depth < LEAST_WORK;
}

static const sg_area *area_of(const sg_sched *s, int32_t index, int i)
{
    const sg_patch *const patch = &s->patch[s->step[index].u.launch.patch0];
    return i == SG_EVEN_A   ? &patch->a
           : i == SG_EVEN_B ? &patch->b
           : i == SG_EVEN_C ? &s->to[patch->to0]
                            : &s->add[patch->add0].area;
}

/* Does operand I of a launch lie at the same address in each run, as far as the workspace goes? */
static bool is_fixed(const sg_sched *s, int32_t index, int i)
{
    return s->baked || !sg_buf_is_shared(&s->buf[area_of(s, index, i)->buf]);
}

bool sg_cuda_is_plain(const sg_cuda_plan *plan, int32_t index)
{
    const sg_problem *const p = &plan->bound->problem;
    const sg_sched *const s = &plan->bound->sched;
    const sg_launch *const l = &s->step[index].u.launch;
    bool fixed = true;
    if (!l->vendor || l->norm || l->patches != 1 || p->type == SG_F32) return false;
    const sg_patch *const patch = &plan->lists.patch[l->patch0];
    if (patch->k0 >= patch->k1 || patch->tos != 1 || patch->adds > 1) return false;
    if (sg_cuda_is_small(patch)) return false;
    for (int i = 0; i < SG_EVENS; i++)
        if (i != SG_EVEN_ADD || patch->adds > 0) fixed &= is_fixed(s, index, i);
    const sg_area *const to = &plan->lists.to[patch->to0];
    const sg_area *const add = patch->adds > 0 ? &plan->lists.add[patch->add0].area : to;
    const sg_kernel_place *const place = plan->program.place;
    return fixed && !to->tiled && !to->leave && !place[to->buf].wide && !place[to->buf].tagged &&
           !place[add->buf].wide;
}

static bool are_one(const sg_area *a, const sg_area *b)
{
    return a->buf == b->buf && a->rank == b->rank && a->row0 == b->row0 && a->col0 == b->col0 &&
           a->rows == b->rows && a->cols == b->cols;
}

/* The launch in front of step INDEX in its lane that has a copy of what is operand I of both and
 * stored by neither; -1: there is none. */
static int32_t lender_of(const sg_cuda_plan *plan, int32_t index, int i)
{
    const sg_sched *const s = &plan->bound->sched;
    if (i != SG_EVEN_A && i != SG_EVEN_B) return -1;
    for (int32_t j = 0; j < index; j++)
        if ((plan->step[j].even.which >> i & 1) != 0 && s->step[j].lane == s->step[index].lane &&
            are_one(area_of(s, j, i), area_of(s, index, i)))
            return j;
    return -1;
}

/* AREA, operand I of EVEN's launch, names a place of its own from now on, at AT. */
static shingle_status move_area(sg_cuda_plan *plan, sg_cuda_even *even, int i, sg_area *area,
                                char *at)
{
    const int bytes = sg_type_bytes(plan->bound->problem.type);
    SG_TRY(sg_cuda_new_place(plan, at, at, area->rows, area->cols, false, &even->place[i]));
    plan->program.place[even->place[i]].pitch = even_pitch(area, bytes);
    area->buf = (uint8_t)even->place[i];
    area->row0 = area->col0 = 0;
    return SHINGLE_OK;
}

/* Of the launch of step INDEX: which operands are odd, and do copies of them pay?  GPUs other than
 * Hopper's have one tile, and no fast kernel. */
static uint32_t which_are_odd(const sg_cuda_rank *rank, const sg_cuda_plan *plan, int32_t index,
                              sg_area *const area[SG_EVENS])
{
    const sg_sched *const s = &plan->bound->sched;
    const bool vendor = sg_cuda_is_vendor(rank, s, &s->step[index].u.launch);
    sg_kernel_tile tile[2];
    uint32_t which = 0;
    for (int i = 0; i < SG_EVENS; i++)
        if (area[i] != NULL && is_odd(plan, i, area[i])) which |= 1u << i;
    const bool few = (which >> SG_EVEN_B & 1) != 0 && area[SG_EVEN_A]->rows < LEAST_ROWS;
    const bool fast = sg_kernel_tiles((enum sg_kernel_type)s->problem->type, tile, 2) > 1;
    return vendor && (few || !fast) ? 0 : which;
}

shingle_status sg_cuda_make_even(sg_cuda_rank *rank, sg_cuda_plan *plan, int32_t index,
                                 sg_area *area[SG_EVENS])
{
    const int bytes = sg_type_bytes(plan->bound->problem.type);
    sg_cuda_even *const even = &plan->step[index].even;
    const uint32_t which = which_are_odd(rank, plan, index, area);
    const sg_area *const c = area[SG_EVEN_C], *const add = area[SG_EVEN_ADD];
    const bool in_place =
        add != NULL && add->buf == c->buf && add->row0 == c->row0 && add->col0 == c->col0;
    int64_t at[SG_EVENS], all = 0;
    int places = 0;
    int32_t lender[SG_EVENS];
    for (int i = 0; i < SG_EVENS; i++) {
        at[i] = all;
        lender[i] = which >> i & 1 ? lender_of(plan, index, i) : -1;
        if ((which >> i & 1) == 0 || lender[i] >= 0 || (i == SG_EVEN_ADD && in_place)) continue;
        all += sg_round_up(area[i]->rows * even_pitch(area[i], bytes), SG_BUF_ALIGN);
        places++;
    }
    if (which == 0 || plan->places + places > SG_KERNEL_PLACES) return SHINGLE_OK;
    if (all > 0 && sg_cuda_get(rank, (size_t)all, &even->memory) != SHINGLE_OK) return SHINGLE_OK;
    even->which = which;
    for (int i = 0; i < SG_EVENS; i++) {
        if ((which >> i & 1) == 0) continue;
        if (i == SG_EVEN_ADD && in_place) {
            even->place[i] = even->place[SG_EVEN_C];
            *area[i] = *area[SG_EVEN_C];
        } else if (lender[i] >= 0) {
            even->lent |= 1u << i;
            even->place[i] = plan->step[lender[i]].even.place[i];
            area[i]->buf = (uint8_t)even->place[i];
            area[i]->row0 = area[i]->col0 = 0;
        } else {
            SG_TRY(move_area(plan, even, i, area[i], (char *)even->memory + at[i]));
        }
    }
    return SHINGLE_OK;
}

/* ---- Run ------------------------------------------------------------------------------------- */

/* Operand I of a launch, as it lies in this run. */
static sg_kernel_place given(const sg_run *run, int32_t index, int i)
{
    const sg_area *const area = area_of(&run->bound->sched, index, i);
    const sg_cuda_place at = sg_cuda_address(run, area, i != SG_EVEN_C);
    return (sg_kernel_place){
        .data = {at.data, at.data}, .pitch = at.pitch, .rows = area->rows, .cols = area->cols};
}

/* As it is multiplied: itself, or its copy. */
static sg_kernel_place taken(const sg_run *run, int32_t index, int i, bool *is_copy_out)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_kernel_place at = given(run, index, i);
    *is_copy_out = ((uintptr_t)at.data[0] | (uintptr_t)at.pitch) % EVEN != 0;
    return *is_copy_out ? plan->program.place[plan->step[index].even.place[i]] : at;
}

void sg_cuda_aim_even(sg_kernel_program *program, const sg_run *run, int32_t index)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const sg_cuda_even *const even = &plan->step[index].even;
    bool is_copy = false;
    for (int i = 0; i < SG_EVENS; i++)
        if (even->which >> i & 1) program->place[even->place[i]] = taken(run, index, i, &is_copy);
}

shingle_status sg_cuda_even_copy(const sg_cuda_rank *rank, const sg_run *run, int32_t index,
                                 bool back, cudaStream_t stream)
{
    const sg_cuda_plan *const plan = run->bound->backend;
    const int bytes = sg_type_bytes(run->bound->problem.type);
    for (int i = 0; i < SG_EVENS; i++) {
        const sg_cuda_even *const x = &plan->step[index].even;
        if ((x->which >> i & 1) == 0 || x->lent >> i & 1 || (i == SG_EVEN_C) != back) continue;
        bool is_copy = false;
        const sg_kernel_place own = given(run, index, i), even = taken(run, index, i, &is_copy);
        if (is_copy && own.rows > 0 && own.cols > 0)
            SG_CUDA(sg_kernel_permute(back ? &even : &own, back ? &own : &even, NULL, 0, bytes,
                                      rank->sms * SG_KERNEL_STEP_BLOCKS, rank->how, stream));
    }
    return SHINGLE_OK;
}
