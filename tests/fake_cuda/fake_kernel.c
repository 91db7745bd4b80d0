/* fake_kernel.c -- products of kernel/kernel.h on the host, by its words; see fake.h. */
#include <stdlib.h>
#include <string.h>

#include "core/data.h"
#include "fake_words.h"

/* ---- Making and aiming ----------------------------------------------------------------------- */

static const sg_kernel_tile tiles[] = {{128, 256, 1, 6, 1, 1, 96, 0}, {128, 224, 0, 0, 1, 1, 0, 0},
                                       {128, 128, 1, 7, 1, 1, 0, 1},  {64, 128, 1, 7, 1, 1, 0, 0},
                                       {128, 96, 0, 0, 0, 1, 0, 0},   {64, 112, 0, 0, 1, 0, 0, 0}};
enum { TILES = sizeof tiles / sizeof tiles[0] };

int sg_kernel_tiles(enum sg_kernel_type type, sg_kernel_tile *tiles_out, int room)
{
    int count = 0;
    for (int i = 0; i < TILES && i < room && type != SG_KERNEL_F32; i++)
        tiles_out[count++] = tiles[i];
    return count;
}

static bool leaves(const sg_kernel_gemm *gemm)
{
    bool any = false;
    for (int32_t i = gemm->param.patch0; i < gemm->param.patch0 + gemm->param.patches; i++) {
        const struct sg_patch *const p = &gemm->lists->patch[i];
        for (int32_t j = p->to0; j < p->to0 + p->tos; j++) any |= gemm->lists->to[j].leave != 0;
    }
    return any;
}

const char *sg_kernel_gemm_make(sg_kernel_gemm *gemm, const sg_kernel_program *program,
                                const sg_kernel_lists *lists, int step, int patch0, int patches,
                                int tile_m, int tile_n, int blocks)
{
    if (fake_fails()) return "a planted failure";
    memset(gemm, 0, sizeof *gemm);
    gemm->param.program = *program;
    gemm->param.step = step;
    gemm->param.patch0 = patch0;
    gemm->param.patches = patches;
    gemm->param.tile_m = tile_m;
    gemm->param.tile_n = tile_n;
    gemm->lists = lists;
    gemm->want_blocks = blocks;
    gemm->sms = FAKE_SMS;
    gemm->param.leaves = leaves(gemm);
    return NULL;
}

size_t sg_kernel_seats_bytes(const sg_kernel_gemm *gemm)
{
    (void)gemm;
    return 0;
}

size_t sg_kernel_remake_bytes(const sg_kernel_gemm *gemm)
{
    return leaves(gemm) ? FAKE_SMS * sizeof(CUtensorMap) : 0;
}

static bool is_odd(const sg_kernel_gemm *gemm, const struct sg_area *a)
{
    const sg_kernel_place *const place = &gemm->param.program.place[a->buf];
    return (uintptr_t)place->data[0] % 16 != 0 || place->pitch % 16 != 0 ||
           (place->wide && (!gemm->own_parts || !a->tiled));
}

/* Would tiles of P be stored over what stands in TO's matrix beside or behind it?  Pieces have 64
 * columns or 32, of which two rows are one line; other tiles are stored whole. */
static bool tramples(const sg_kernel_gemm *gemm, const struct sg_patch *p, const struct sg_area *to)
{
    const sg_kernel_place *const place = &gemm->param.program.place[to->buf];
    const int32_t tile_n = gemm->param.tile_n;
    const int32_t piece = tile_n % 64 == 0 ? 64 : tile_n % 32 == 0 ? 32 : 1 << 30;
    const int32_t line = piece <= 64 ? 64 / piece : 64;
    if (to->tiled || place->wide) return false;
    return (to->col0 + p->cols != place->cols && p->cols % piece != 0) ||
           (to->row0 + p->rows != place->rows && p->rows % line != 0);
}

/* Some of what makes a launch slow on a Hopper. */
static const char *slow(const sg_kernel_gemm *gemm)
{
    const sg_kernel_program *const program = &gemm->param.program;
    bool tiled = false;
    for (int i = 0; i < TILES; i++)
        tiled |= gemm->param.tile_m == tiles[i].m && gemm->param.tile_n == tiles[i].n;
    if (program->type == SG_KERNEL_F32 || !tiled) return "there is no fast kernel";
    for (int32_t i = gemm->param.patch0; i < gemm->param.patch0 + gemm->param.patches; i++) {
        const struct sg_patch *const p = &gemm->lists->patch[i];
        if (p->k0 >= p->k1) return "there is no product";
        for (int32_t j = p->to0; j < p->to0 + p->tos && !p->goes_on; j++)
            if (tramples(gemm, p, &gemm->lists->to[j])) return "it stores over what it has not";
        bool odd = is_odd(gemm, &p->a) || is_odd(gemm, &p->b);
        for (int32_t j = p->to0; j < p->to0 + p->tos; j++) odd |= is_odd(gemm, &gemm->lists->to[j]);
        for (int32_t j = p->add0; j < p->add0 + p->adds; j++)
            odd |= is_odd(gemm, &gemm->lists->add[j].area);
        if (odd) return "a matrix is not aligned";
    }
    return NULL;
}

const char *sg_kernel_gemm_aim(sg_kernel_gemm *gemm)
{
    if (fake_fails()) return "a planted failure";
    gemm->slow = slow(gemm);
    gemm->param.early = gemm->param.pushes > 1; /* as where all tiles wait */
    return NULL;
}

const char *sg_kernel_plain_choose(sg_kernel_plain *plain, int rank)
{
    (void)plain;
    (void)rank;
    return "there is one slow kernel here";
}

/* ---- Visits ---------------------------------------------------------------------------------- */

_Atomic int fake_kernels[16];

typedef struct gemm_op {
    sg_kernel_program p;
    int32_t step, patch0, patches, tile_m, tile_n, blocks, visits;
    uint8_t *done;
    patience patience;
    sg_kernel_protocol protocol;
    const sg_kernel_step *push;
    int32_t pushes; /* left to be carried */
    bool leaves;    /* hellos of peers who are stored to are waited for */
    bool direct;    /* tiles go into peers' own tensors where they say so */
    fake_run run;
    patience at_end;
    int device;
} gemm_op;

typedef struct tile {
    const struct sg_patch *patch;
    int32_t visit, number, row, rows, col, cols; /* rows and columns of the patch */
    int32_t index;                               /* among the visits of the patch */
} tile;

static tile find_tile(const gemm_op *g, int32_t visit)
{
    tile t = {.patch = g->p.patch + g->patch0, .visit = visit};
    int32_t count;
    while (visit >= (count = sg_walk_visits(t.patch, g->tile_m, g->tile_n))) {
        visit -= count;
        t.patch++;
    }
    const int32_t cols = sg_walk_cols(t.patch, g->tile_n);
    int32_t band = 0;
    int32_t col = 0;
    sg_walk_tile(t.patch, sg_walk_bands(t.patch, g->tile_m), cols, t.patch->tile0 + visit, &band,
                 &col);
    t.index = visit;
    t.number = band * cols + col;
    t.row = band * g->tile_m;
    t.rows = sg_walk_min(g->tile_m, t.patch->rows - t.row);
    const int32_t width = sg_walk_width(t.patch, g->tile_n);
    t.col = col * width;
    t.cols = sg_walk_min(width, t.patch->cols - t.col);
    return t;
}

static bool is_ready(const gemm_op *g, const tile *t, missing *m)
{
    const struct sg_patch *const p = t->patch;
    for (int32_t i = 0; i < sg_walk_all_slabs(p); i++) {
        int32_t at = i;
        const struct sg_patch *const q = sg_walk_slab(p, &at);
        const int32_t k0 = q->k0 + at * q->slab;
        for (int32_t w = 0; w < q->waits; w++) {
            const struct sg_wait *const wait = &g->p.wait[q->wait0 + w];
            if (at > 0 && wait->chunk_k == 0) continue;
            const struct sg_flags f = sg_walk_wait(wait, p->row0 + t->row, t->rows, k0, t->number);
            if (!fake_flags_up(g->p.rank, wait->by, f, m)) return false;
        }
    }
    for (int32_t i = 0; i < p->adds; i++) {
        const struct sg_addend *const a = &g->p.add[p->add0 + i];
        if (!a->awaited) continue;
        if (g->p.place[a->area.buf].tagged) { /* nobody raises these flags */
            if (!fake_words_here(&g->p, &a->area, (int64_t)t->index * g->tile_m, t->rows, &a->wait,
                                 m))
                return false;
            continue;
        }
        const struct sg_flags f =
            sg_walk_wait(&a->wait, p->row0 + t->row, t->rows, p->k0, t->number);
        if (!fake_flags_up(g->p.rank, a->wait.by, f, m)) return false;
    }
    if (g->protocol.gate && !fake_gate_open(g->p.rank, g->p.baked, m)) return false;
    for (int32_t i = 0; i < p->tos; i++)
        if (!fake_may_leave(&g->p, &g->p.to[p->to0 + i], m)) return false;
    return true;
}

/* Row and column of AREA for row I and column J of the patch. */
static int32_t row_in(const gemm_op *g, const tile *t, const struct sg_area *area, int32_t i)
{
    return area->tiled ? t->index * g->tile_m + i - t->row : i;
}

static int32_t col_in(const tile *t, const struct sg_area *area, int32_t j)
{
    return area->tiled ? j - t->col : j;
}

static float sum(const gemm_op *g, const tile *t, int32_t row, int32_t col)
{
    const struct sg_patch *const p = t->patch;
    float own = 0;
    for (const struct sg_patch *q = p; q <= p + p->more && q->k0 < q->k1; q++)
        own += fake_dot(&g->p, &q->a, row, &q->b, col, q->k1 - q->k0);
    if (p->own_rounded && p->adds > 0) {
        float rounded = 0;
        sg_data_store((sg_type)g->p.type, own, &rounded, 0);
        own = sg_data_load((sg_type)g->p.type, &rounded, 0);
    }
    float all = 0;
    for (int32_t i = 0; i <= p->adds; i++) {
        if (i == p->own_at) all += own;
        if (i == p->adds) break;
        const struct sg_area *const area = &g->p.add[p->add0 + i].area;
        all += fake_get(&g->p, area, row_in(g, t, area, row), col_in(t, area, col));
    }
    return p->final ? fake_finish(&g->p, all, p->col0 + col) : all;
}

/* MAY: stores to peers' own tensors are left out after a failure.  Rows and columns beyond the
 * patch are zeros, and only places for tiles have them. */
static void visit(const gemm_op *g, const tile *t, bool may)
{
    const struct sg_patch *const p = t->patch;
    const bool whole = g->p.to[p->to0].tiled;
    for (int32_t i = t->row; i < t->row + (whole ? g->tile_m : t->rows); i++)
        for (int32_t j = t->col; j < t->col + (whole ? g->tile_n : t->cols); j++) {
            const bool inside = i < p->rows && j < p->cols;
            const float x = inside ? sum(g, t, i, j) : 0;
            for (int32_t k = p->to0; k < p->to0 + p->tos; k++) {
                const struct sg_area *const to = &g->p.to[k];
                if ((inside || to->tiled) && (may || !to->leave))
                    fake_put(&g->p, to, row_in(g, t, to, i), col_in(t, to, j), x, g->direct);
            }
        }
    for (int32_t i = 0; i < p->adds; i++)
        fake_rest(&g->p, &g->p.add[p->add0 + i].area, (int64_t)t->index * g->tile_m, g->tile_m);
    const int32_t raises = g->p.place[g->p.to[p->to0].buf].tagged ? 0 : p->raises;
    for (int32_t i = 0; i < raises; i++) {
        const struct sg_raise *const r = &g->p.raise[p->raise0 + i];
        fake_raise(&g->p, r, r->per == SG_PER_TILE ? t->number : 0);
    }
}

/* As many visits as there are blocks are begun, in order; each goes on when it can. */
static bool all_visited(gemm_op *g)
{
    int32_t begun = 0;
    for (int32_t v = 0; v < g->visits && begun < g->blocks; v++) {
        if (g->done[v]) continue;
        missing m;
        const tile t = find_tile(g, v);
        const bool ready = is_ready(g, &t, &m);
        if (ready || fake_give_up(g->p.rank, &g->patience, &m, g->step, v)) {
            visit(g, &t, ready);
            g->done[v] = 1;
            g->patience.since_us = 0;
            v = -1; /* its raise may have made others ready */
            begun = 0;
            continue;
        }
        begun++;
    }
    return begun == 0;
}

/* ---- A launch's part in the protocol --------------------------------------------------------- */

static bool all_pushed(gemm_op *g)
{
    missing m;
    if (g->pushes == 0) return true;
    if (g->protocol.gate && !fake_gate_open(g->p.rank, g->p.baked, &m) &&
        !fake_give_up(g->p.rank, &g->patience, &m, g->step, -1))
        return false;
    bool may = true;
    for (int32_t n = 0; n < g->pushes && may; n++)
        for (int32_t k = g->push[n].to0; k < g->push[n].to0 + g->push[n].tos && may; k++) {
            if (g->p.to[k].leave && !g->leaves) abort(); /* it waits for no hello then */
            may = fake_may_leave(&g->p, &g->p.to[k], &m);
        }
    if (!may && !fake_give_up(g->p.rank, &g->patience, &m, g->step, -1)) return false;
    for (; g->pushes > 0; g->push++, g->pushes--, fake_pushes++) {
        if (!fake_may_copy(&g->p, g->push, &m) &&
            !fake_give_up(g->p.rank, &g->patience, &m, g->push->step, -1))
            return false;
        fake_copy(&g->p, g->push, may);
    }
    return true;
}

static bool has_ended(gemm_op *g)
{
    missing m;
    if (!g->protocol.end) return true;
    for (int32_t i = g->protocol.wait0; i < g->protocol.wait0 + g->protocol.waits; i++) {
        const struct sg_wait *const w = &g->p.wait[i];
        if (!fake_flags_up(g->p.rank, w->by, sg_walk_wait(w, 0, 0, 0, 0), &m) &&
            !fake_give_up(g->p.rank, &g->at_end, &m, g->protocol.wait_step, -1))
            return false;
    }
    return fake_end(&g->run);
}

static bool run_gemm(void *data, bool first)
{
    gemm_op *const g = data;
    if (first) {
        for (int32_t i = 0; i < g->patches; i++)
            g->visits += sg_walk_visits(&g->p.patch[g->patch0 + i], g->tile_m, g->tile_n);
        g->done = calloc((size_t)g->visits + 1, 1);
        if (g->protocol.begin) fake_say_hello(&g->run);
        fake_kernels[g->device] += g->blocks >= FAKE_SMS; /* all of them */
    }
    if (g->done != NULL) {
        const bool pushed = all_pushed(g);
        if (!all_visited(g) || !pushed) return false;
        free(g->done);
        g->done = NULL;
    }
    if (!has_ended(g)) return false;
    fake_kernels[g->device] -= g->blocks >= FAKE_SMS;
    return true;
}

static bool first_is_by_row(const sg_kernel_gemm *gemm)
{
    const sg_kernel_gemm_param *const param = &gemm->param;
    if (param->patches == 0) return false;
    const struct sg_patch *const p = &gemm->lists->patch[param->patch0];
    return p->raster == SG_BY_ROW && p->rows > param->tile_m;
}

cudaError_t sg_kernel_gemm_run(const sg_kernel_gemm *gemm, unsigned how, cudaStream_t stream)
{
    const sg_kernel_gemm_param *const param = &gemm->param;
    const sg_kernel_protocol *const protocol = &param->protocol;
    const int32_t blocks = gemm->want_blocks > 0 ? gemm->want_blocks : gemm->sms;
    int device = 0;
    /* A GPU's storers would carry what went in front. */
    if (param->early > param->pushes) return cudaErrorMisalignedAddress;
    (void)cudaGetDevice(&device);
    const gemm_op g = {.p = param->program,
                       .device = device,
                       .step = param->step,
                       .patch0 = param->patch0,
                       .patches = param->patches,
                       .tile_m = param->tile_m,
                       .tile_n = param->tile_n,
                       .blocks = blocks,
                       .protocol = *protocol,
                       .push = param->push,
                       .pushes = param->pushes,
                       .leaves = param->leaves != 0,
                       .direct = param->remake != NULL || gemm->slow != NULL,
                       .run = {.rank = param->program.rank,
                               .hash = param->program.hash,
                               .c = (uint64_t)(uintptr_t)protocol->c,
                               .c_stride = (uint64_t)protocol->c_stride,
                               .baked = param->program.baked,
                               .hello = protocol->hello,
                               .done = protocol->done,
                               .step = -1}};
    fake_launches++;
    fake_slow += gemm->slow != NULL;
    fake_by_row += first_is_by_row(gemm);
    fake_early += (how & SG_KERNEL_EARLY) != 0;
    if (blocks > fake_most_sms) fake_most_sms = blocks;
    return fake_enqueue(stream, run_gemm, &g, sizeof g);
}
