/* fake_norm.c -- launches that norm rows, on the host; see fake.h. */
#include <stdlib.h>

#include "core/norm.h"
#include "fake_words.h"

typedef struct norm_op {
    sg_kernel_program p;
    sg_kernel_norm n;
} norm_op;

/* An element of the sums, which may stand in places. */
static float sum_at(const norm_op *o, const struct sg_patch *patch, int32_t row, int32_t col)
{
    const struct sg_area *const from = &o->p.add[patch->add0].area;
    if (!from->tiled) return fake_get(&o->p, from, row, col);
    const int32_t band = row / o->n.tile_m;
    const int32_t strip = col / from->cols;
    const int32_t index = sg_walk_index(patch, sg_walk_bands(patch, o->n.tile_m),
                                        sg_walk_cols(patch, from->cols), band, strip);
    return fake_get(&o->p, from, (int64_t)index * o->n.tile_m + row % o->n.tile_m,
                    col - strip * from->cols);
}

static bool run_norm(void *data, bool first)
{
    const norm_op *const o = data;
    const sg_kernel_place *const residual = &o->p.place[o->n.residual];
    float *const sums = malloc(SG_NORM_LANES * sizeof *sums);
    (void)first;
    for (int32_t i = o->n.patch0; i < o->n.patch0 + o->n.patches; i++) {
        const struct sg_patch *const patch = &o->p.patch[i];
        const struct sg_area *const to = &o->p.to[patch->to0];
        float *const y = malloc((size_t)patch->cols * sizeof *y);
        if (y == NULL || sums == NULL) abort();
        for (int32_t row = 0; row < patch->rows; row++) {
            for (int32_t col = 0; col < patch->cols; col++) {
                const float sum = sum_at(o, patch, row, col);
                y[col] = patch->final ? fake_finish(&o->p, sum, col) : sum;
            }
            sg_norm_row((sg_type)o->p.type, o->n.epsilon, patch->cols, y,
                        (char *)residual->data[0] + (to->row0 + row) * residual->pitch, o->n.gain,
                        sums);
            for (int32_t col = 0; col < patch->cols; col++)
                fake_put(&o->p, to, row, col, y[col], true);
        }
        free(y);
    }
    free(sums);
    return true;
}

cudaError_t sg_kernel_norm_run(const sg_kernel_program *program, const sg_kernel_norm *norm,
                               int sms, unsigned how, cudaStream_t stream)
{
    const norm_op o = {*program, *norm};
    (void)sms;
    fake_early += (how & SG_KERNEL_EARLY) != 0;
    fake_launches++;
    return fake_enqueue(stream, run_norm, &o, sizeof o);
}
