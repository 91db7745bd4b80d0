/* sched.c -- building and reading schedules; sealing is in seal.c, printing in sched_print.c. */
#include "core/sched.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Building -------------------------------------------------------------------------------- */

/* Of open_step and open_patch: there was one, of nothing; there was none yet. */
enum { DROPPED = -1, NONE = -2 };

void sg_sched_spoil(sg_sched *s, shingle_status status, const char *format, ...)
{
    if (s->status != SHINGLE_OK) return;
    va_list arguments;
    va_start(arguments, format);
    sg_format(s->why, sizeof s->why, format, arguments);
    va_end(arguments);
    s->status = status;
}

/* Room for one more element of LIST; false if the schedule is spoilt. */
#define ROOM(s, list, count, room)                                                                 \
    ((s)->status == SHINGLE_OK &&                                                                  \
     room_for((s), &(s)->list, &(s)->room, (s)->count, sizeof *(s)->list))

static bool room_for(sg_sched *s, void *list, int32_t *room, int32_t count, size_t size)
{
    if (count < *room || sg_grow(list, room, (int64_t)count + 1, size)) return true;
    sg_sched_spoil(s, SHINGLE_ENOMEM, "no memory for a schedule of %d entries", count);
    return false;
}

static void user_buf(sg_sched *s, int buf, const char *name, int64_t rows, int64_t cols)
{
    s->buf[buf] = (sg_buf){.arena = SG_USER, .rows = rows, .cols = cols};
    snprintf(s->buf[buf].name, sizeof s->buf[buf].name, "%s", name);
}

void sg_sched_begin(sg_sched *s, const sg_problem *p, int rank)
{
    sg_sched kept = *s;
    memset(s, 0, sizeof *s);
    s->step = kept.step, s->step_room = kept.step_room;
    s->patch = kept.patch, s->patch_room = kept.patch_room;
    s->wait = kept.wait, s->wait_room = kept.wait_room;
    s->add = kept.add, s->add_room = kept.add_room;
    s->to = kept.to, s->to_room = kept.to_room;
    s->raise = kept.raise, s->raise_room = kept.raise_room;
    s->counter = kept.counter, s->counter_room = kept.counter_room;
    s->table = kept.table, s->table_room = kept.table_room;

    s->problem = p;
    s->rank = rank;
    s->open_step = s->open_patch = NONE;
    user_buf(s, SG_A, "A", sg_problem_a_rows(p, rank), sg_problem_a_cols(p, rank));
    user_buf(s, SG_B, "B", sg_problem_b_rows(p, rank), p->k);
    user_buf(s, SG_C, "C", sg_problem_c_rows(p, rank), p->n);
    user_buf(s, SG_BIAS, "bias", p->bias ? 1 : 0, p->n);
    user_buf(s, SG_RETURNED, "returned", sg_problem_returned_rows(p, rank), p->k);
    user_buf(s, SG_RESIDUAL, "residual", sg_problem_residual_rows(p, rank), p->n);
    user_buf(s, SG_GAIN, "gain", p->norm ? 1 : 0, p->n);
    s->bufs = SG_USER_BUFS;
}

void sg_sched_free(sg_sched *s)
{
    free(s->step);
    free(s->patch);
    free(s->wait);
    free(s->add);
    free(s->to);
    free(s->raise);
    free(s->counter);
    free(s->table);
    memset(s, 0, sizeof *s);
}

uint8_t sg_sched_buf(sg_sched *s, sg_arena_kind arena, const char *name, int64_t rows, int64_t cols,
                     unsigned traits)
{
    if (s->bufs == SG_MAX_BUFS) {
        sg_sched_spoil(s, SHINGLE_EBUG, "more than %d buffers", SG_MAX_BUFS);
        return 0;
    }
    /* Areas count rows and columns in 32 bits. */
    if (rows > SG_MAX_EXTENT || cols > SG_MAX_EXTENT)
        sg_sched_spoil(s, SHINGLE_EUNSUPPORTED, "%s of %lld x %lld is too large", name,
                       (long long)rows, (long long)cols);
    sg_buf *const buf = &s->buf[s->bufs];
    *buf = (sg_buf){.arena = (uint8_t)arena,
                    .wide = (traits & SG_WIDE) != 0,
                    .fixed = (traits & SG_FIXED) != 0,
                    .tagged = (traits & SG_TAGGED) != 0,
                    .rows = rows,
                    .cols = cols};
    snprintf(buf->name, sizeof buf->name, "%s", name);
    return (uint8_t)s->bufs++;
}

sg_area sg_area_of(int rank, int buf, int64_t row0, int64_t rows, int64_t col0, int64_t cols)
{
    return (sg_area){.rank = (int16_t)rank,
                     .buf = (uint8_t)buf,
                     .row0 = (int32_t)row0,
                     .rows = (int32_t)rows,
                     .col0 = (int32_t)col0,
                     .cols = (int32_t)cols};
}

sg_area sg_area_tiled(int rank, int buf, int64_t place0, int64_t places, int32_t tile_m,
                      int32_t tile_n)
{
    sg_area area = sg_area_of(rank, buf, place0 * tile_m, places * tile_m, 0, tile_n);
    area.tiled = 1;
    return area;
}

sg_wait sg_wait_one(int by, int32_t flag)
{
    return (sg_wait){.by = (int16_t)by, .per = SG_PER_PATCH, .flag0 = flag, .chunks_k = 1};
}

sg_wait sg_wait_tile(int by, int32_t flag0)
{
    sg_wait wait = sg_wait_one(by, flag0);
    wait.per = SG_PER_TILE;
    return wait;
}

static bool is_empty(sg_area area)
{
    return area.rows <= 0 || area.cols <= 0;
}

static sg_step *open_step(sg_sched *s, sg_kind kind, int lane)
{
    s->open_step = DROPPED;
    s->open_patch = NONE;
    if (lane < 0 || lane >= SG_MAX_LANES) {
        sg_sched_spoil(s, SHINGLE_EBUG, "lane %d; 0 to %d are possible", lane, SG_MAX_LANES - 1);
        return NULL;
    }
    if (!ROOM(s, step, steps, step_room)) return NULL;
    sg_step *const step = &s->step[s->steps];
    memset(step, 0, sizeof *step);
    step->kind = (uint8_t)kind;
    step->lane = (uint8_t)lane;
    step->after[0] = step->after[1] = -1;
    step->wait0 = s->waits;
    step->to0 = s->tos;
    step->raise0 = s->raises;
    s->open_step = s->steps++;
    return step;
}

static int drop(sg_sched *s)
{
    s->open_step = s->open_patch = DROPPED;
    return -1;
}

int sg_sched_launch(sg_sched *s, int lane, int32_t tile_m, int32_t tile_n, int blocks, bool vendor)
{
    if (s->problem->m == 0 || s->problem->n == 0) return drop(s);
    sg_step *const step = open_step(s, SG_LAUNCH, lane);
    if (step == NULL) return -1;
    if (s->problem->call) tile_n = (int32_t)s->problem->n; /* a call makes whole rows */
    step->u.launch = (sg_launch){.tile_m = tile_m,
                                 .tile_n = tile_n,
                                 .patch0 = s->patches,
                                 .blocks = (int16_t)blocks,
                                 .vendor = vendor};
    return s->open_step;
}

int sg_sched_copy(sg_sched *s, int lane, sg_carrier carrier, sg_area src)
{
    if (is_empty(src)) return drop(s);
    sg_step *const step = open_step(s, SG_COPY, lane);
    if (step == NULL) return -1;
    step->u.copy = (sg_copy){.src = src, .carrier = (uint8_t)carrier};
    return s->open_step;
}

int sg_sched_reduce(sg_sched *s, int lane, bool final)
{
    sg_step *const step = open_step(s, SG_REDUCE, lane);
    if (step == NULL) return -1;
    step->u.reduce = (sg_reduce){.add0 = s->adds, .final = final};
    return s->open_step;
}

int sg_sched_coll(sg_sched *s, int lane, sg_coll_kind kind, int sms, sg_area self)
{
    sg_step *const step = open_step(s, SG_COLL, lane);
    if (step == NULL) return -1;
    step->u.coll =
        (sg_coll){.kind = (uint8_t)kind, .sms = (int16_t)sms, .seq = s->colls++, .self = self};
    return s->open_step;
}

int sg_sched_flag(sg_sched *s, int lane)
{
    open_step(s, SG_FLAG, lane);
    return s->open_step;
}

/* Tiles of a launch, and so their flags, are counted in 32 bits. */
static bool count_tiles(sg_sched *s, sg_launch *launch, const sg_patch *patch)
{
    if (launch->tile_m < 1 || launch->tile_n < 1) return true; /* the sealer refuses it */
    const int64_t all = sg_walk_tiles(patch, launch->tile_m, launch->tile_n);
    const int64_t tiles = patch->tiles > 0 ? patch->tiles : all;
    if (all > SG_MAX_VISITS || launch->visits + tiles > SG_MAX_VISITS) {
        sg_sched_spoil(s, SHINGLE_EUNSUPPORTED,
                       "too many tiles of %d x %d; a launch has at most %d", launch->tile_m,
                       launch->tile_n, SG_MAX_VISITS);
        return false;
    }
    launch->visits += (int32_t)tiles;
    return true;
}

/* The patch with whose product one that comes now goes on; NULL: there is none. */
static sg_patch *going_on(sg_sched *s, const sg_step *step)
{
    int32_t first = s->patches - 1;
    while (first >= step->u.launch.patch0 && s->patch[first].goes_on) first--;
    if (first >= step->u.launch.patch0 && s->patch[first].more < UINT8_MAX) return &s->patch[first];
    sg_sched_spoil(s, SHINGLE_EBUG, "step %d goes on with no product, or with more than %d patches",
                   s->open_step, UINT8_MAX);
    return NULL;
}

void sg_sched_patch(sg_sched *s, const sg_patch *patch)
{
    s->open_patch = DROPPED;
    if (s->open_step == DROPPED || s->status != SHINGLE_OK) return;
    sg_step *const step = s->open_step >= 0 ? &s->step[s->open_step] : NULL;
    if (step == NULL || step->kind != SG_LAUNCH) {
        sg_sched_spoil(s, SHINGLE_EBUG, "patch outside a launch");
        return;
    }
    if (patch->rows <= 0 || patch->cols <= 0) return;
    if (!count_tiles(s, &step->u.launch, patch)) return;
    if (!ROOM(s, patch, patches, patch_room)) return;
    sg_patch *const first = patch->goes_on ? going_on(s, step) : NULL;
    if (s->status != SHINGLE_OK) return;
    if (first != NULL) first->more++, first->rest += patch->k1 - patch->k0;
    sg_patch *const p = &s->patch[s->patches];
    *p = *patch;
    p->wait0 = s->waits;
    p->add0 = s->adds;
    p->to0 = s->tos;
    p->raise0 = s->raises;
    p->waits = p->adds = p->tos = p->raises = 0;
    p->more = 0;
    p->rest = 0;
    step->u.launch.patches++;
    s->open_patch = s->patches++;
}

/* One more entry of a list that is counted in 16 bits. */
static void count(sg_sched *s, uint16_t *entries)
{
    if (*entries == UINT16_MAX)
        sg_sched_spoil(s, SHINGLE_EBUG, "step %d lists more than %d entries", s->open_step,
                       UINT16_MAX);
    else
        ++*entries;
}

/* Is there something to attach to?  A launch takes attachments through its patches alone. */
static bool is_open(sg_sched *s)
{
    if (s->open_step == NONE) sg_sched_spoil(s, SHINGLE_EBUG, "attached to no step");
    if (s->open_step < 0 || s->status != SHINGLE_OK) return false;
    if (s->step[s->open_step].kind != SG_LAUNCH) return true;
    if (s->open_patch == NONE)
        sg_sched_spoil(s, SHINGLE_EBUG, "attached to step %d, a launch without a patch yet",
                       s->open_step);
    return s->open_patch >= 0;
}

void sg_sched_after(sg_sched *s, int step)
{
    if (step < 0 || s->open_step < 0 || s->status != SHINGLE_OK) return;
    int32_t *const after = s->step[s->open_step].after;
    if (after[0] < 0)
        after[0] = step;
    else if (after[1] < 0)
        after[1] = step;
    else
        sg_sched_spoil(s, SHINGLE_EBUG, "step %d is after more than two steps", s->open_step);
}

void sg_sched_wait(sg_sched *s, sg_wait wait)
{
    if (!is_open(s) || !ROOM(s, wait, waits, wait_room)) return;
    s->wait[s->waits++] = wait;
    if (s->open_patch >= 0)
        count(s, &s->patch[s->open_patch].waits);
    else
        count(s, &s->step[s->open_step].waits);
}

void sg_sched_add(sg_sched *s, sg_area area, const sg_wait *wait)
{
    if (!is_open(s) || !ROOM(s, add, adds, add_room)) return;
    s->add[s->adds++] =
        (sg_addend){.area = area, .wait = wait ? *wait : (sg_wait){0}, .awaited = wait != NULL};
    if (s->open_patch >= 0)
        count(s, &s->patch[s->open_patch].adds);
    else if (s->step[s->open_step].kind == SG_REDUCE)
        count(s, &s->step[s->open_step].u.reduce.adds);
    else
        sg_sched_spoil(s, SHINGLE_EBUG, "step %d takes no addends", s->open_step);
}

void sg_sched_to(sg_sched *s, sg_area area)
{
    if (!is_open(s) || !ROOM(s, to, tos, to_room)) return;
    s->to[s->tos++] = area;
    if (s->open_patch >= 0)
        count(s, &s->patch[s->open_patch].tos);
    else
        count(s, &s->step[s->open_step].tos);
}

void sg_sched_raise(sg_sched *s, int at, enum sg_per per, int32_t flag0)
{
    if (!is_open(s) || !ROOM(s, raise, raises, raise_room)) return;
    s->raise[s->raises++] =
        (sg_raise){.at = (int16_t)at, .per = (uint8_t)per, .flag0 = flag0, .counter = -1};
    if (s->open_patch >= 0)
        count(s, &s->patch[s->open_patch].raises);
    else
        count(s, &s->step[s->open_step].raises);
}

/* ---- Reading --------------------------------------------------------------------------------- */

int sg_sched_element_bytes(const sg_sched *s, int buf)
{
    return s->buf[buf].wide ? 4 : sg_type_bytes(s->problem->type);
}

int32_t sg_sched_patch_visits(const sg_sched *s, const sg_launch *launch, int32_t patch)
{
    return sg_walk_visits(&s->patch[patch], launch->tile_m, launch->tile_n);
}

void sg_sched_patch_visit(const sg_sched *s, const sg_launch *launch, int32_t patch, int32_t index,
                          sg_visit *visit_out)
{
    const sg_patch *const p = &s->patch[patch];
    const int32_t cols = sg_walk_cols(p, launch->tile_n);
    const int32_t width = sg_walk_width(p, launch->tile_n);
    int32_t band = 0;
    int32_t col = 0;
    sg_walk_tile(p, sg_walk_bands(p, launch->tile_m), cols, p->tile0 + index, &band, &col);
    *visit_out = (sg_visit){
        .patch = patch,
        .index = index,
        .tile = band * cols + col,
        .row0 = p->row0 + band * launch->tile_m,
        .rows = sg_walk_min(launch->tile_m, p->rows - band * launch->tile_m),
        .col0 = p->col0 + col * width,
        .cols = sg_walk_min(width, p->cols - col * width),
        .k0 = p->k0,
        .k1 = p->k1,
    };
}

void sg_sched_visit(const sg_sched *s, const sg_launch *launch, int32_t index, sg_visit *visit_out)
{
    int32_t patch = launch->patch0;
    for (;; patch++) {
        const int32_t visits = sg_sched_patch_visits(s, launch, patch);
        if (index < visits) break;
        index -= visits;
    }
    sg_sched_patch_visit(s, launch, patch, index, visit_out);
}
