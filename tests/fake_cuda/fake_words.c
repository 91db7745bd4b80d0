/* fake_words.c -- words, waits, elements and the protocol of a run; see fake_words.h. */
#include "fake_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

long fake_direct, fake_tagged, fake_trampled;

/* ---- Words ----------------------------------------------------------------------------------- */

static uint64_t *flag_word(const sg_kernel_words *words, int by, int32_t index)
{
    int page = 0;
    int32_t first = 0;
    int32_t size = SG_KERNEL_FLAG_PAGE0;
    while (index >= first + size) {
        first += size;
        size = first;
        page++;
    }
    return words->flag[page] + (int64_t)by * size + (index - first);
}

bool fake_aborted(const sg_kernel_rank *rank)
{
    for (int q = 0; q < rank->ranks; q++)
        if (rank->words[rank->rank].abort[q] != 0) return true;
    return false;
}

static void record(sg_kernel_rank *rank, const missing *m, int step, int visit, bool late)
{
    if (rank->leaving & SG_KERNEL_CLAIMED) return;
    rank->leaving |= SG_KERNEL_CLAIMED;
    sg_kernel_trouble *const t = rank->trouble;
    t->late = late;
    t->rank = rank->rank;
    t->by = m->by;
    t->step = step;
    t->visit = visit;
    t->flag = m->flag;
    t->epoch = rank->epoch;
    t->seen = m->seen;
    t->wanted = m->wanted;
    const sg_kernel_hello *const hello = rank->words[rank->rank].hello;
    const int own = 2 * rank->rank + (int)(rank->epoch & 1);
    t->hash = hello != NULL && hello[own].epoch == rank->epoch ? hello[own].hash : 0;
    t->kind = (uint32_t)m->kind;
}

static void abort_all(sg_kernel_rank *rank)
{
    for (int q = 0; q < rank->ranks; q++) rank->words[q].abort[rank->rank] = rank->epoch;
}

bool fake_give_up(sg_kernel_rank *rank, patience *p, const missing *m, int step, int visit)
{
    if (fake_aborted(rank)) {
        record(rank, m, step, visit, false);
        return true;
    }
    if (p->since_us == 0) p->since_us = sg_now_us();
    if ((sg_now_us() - p->since_us) * 1000 < (double)rank->limit_ns) return false;
    record(rank, m, step, visit, true);
    abort_all(rank);
    return true;
}

bool fake_flags_up(const sg_kernel_rank *rank, int by, struct sg_flags f, missing *m)
{
    for (int32_t i = 0; i < f.count; i++) {
        const int32_t index = f.first + i * f.step;
        const uint64_t seen = *flag_word(&rank->words[rank->rank], by, index);
        if (seen >= rank->epoch) continue;
        *m = (missing){SG_KERNEL_STUCK_FLAG, by, index, seen, rank->epoch};
        return false;
    }
    return true;
}

static const sg_kernel_hello *hello_of(const sg_kernel_rank *rank, int by)
{
    return &rank->words[rank->rank].hello[2 * by + (int)(rank->epoch & 1)];
}

bool fake_may_leave(const sg_kernel_program *p, const struct sg_area *area, missing *m)
{
    const sg_kernel_rank *const rank = p->rank;
    if (!area->leave) return true;
    const sg_kernel_hello *const h = hello_of(rank, area->rank);
    if (h->epoch == rank->epoch && h->hash == p->hash) return true;
    *m = (missing){SG_KERNEL_STUCK_LEAVE, area->rank, -1, h->epoch, rank->epoch};
    return false;
}

void fake_raise(const sg_kernel_program *p, const struct sg_raise *r, int32_t at)
{
    const int32_t counter = r->counter < 0 ? -1 : r->counter + at;
    if (counter >= 0) {
        if (++p->count[counter] < (uint32_t)p->raisers[counter]) return;
        p->count[counter] = 0;
    }
    *flag_word(&p->rank->words[r->at], p->rank->rank, r->flag0 + at) = p->rank->epoch;
}

/* ---- Elements -------------------------------------------------------------------------------- */

int fake_half(const sg_kernel_rank *rank, int baked)
{
    return baked ? 0 : 1 - rank->prev_half;
}

static sg_type type_of(const sg_kernel_program *p, const struct sg_area *a)
{
    return p->place[a->buf].wide ? SG_F32 : (sg_type)p->type;
}

static char *row_of(const sg_kernel_program *p, const struct sg_area *a, int64_t row)
{
    const sg_kernel_place *const place = &p->place[a->buf];
    return (char *)place->data[fake_half(p->rank, p->baked)] + (a->row0 + row) * place->pitch;
}

enum { LANES = 8 };

/* The sum over COUNT products, a multiple of LANES.  Eight sums side by side, which one chain of
 * additions would take eight times as long for: what tests multiply is exact in any order
 * (core/data.h).  Most of what tests compute, so no sanitizer looks at each element. */
__attribute__((noinline, no_sanitize("address", "undefined"))) static float
sum_bf16(const uint16_t *x, const uint16_t *y, int64_t count)
{
    float lane[LANES] = {0};
    float sum = 0;
    for (int64_t i = 0; i < count; i += LANES)
        for (int l = 0; l < LANES; l++) {
            union {
                uint32_t bits;
                float value;
            } u = {(uint32_t)x[i + l] << 16}, v = {(uint32_t)y[i + l] << 16};
            lane[l] += u.value * v.value;
        }
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

float fake_sum(sg_type type, const void *x, int64_t x0, const void *y, int64_t y0, int64_t count)
{
    float sum = 0;
    int64_t i = 0;
    if (type == SG_BF16 && count >= LANES) {
        const uint16_t *const u = (const uint16_t *)x + x0;
        const uint16_t *const v = (const uint16_t *)y + y0;
        i = count / LANES * LANES;
        /* The first and the last of each a sanitizer does see. */
        for (int64_t at = 0; at < i; at += i - 1)
            (void)(*(const volatile uint16_t *)&u[at] + *(const volatile uint16_t *)&v[at]);
        sum = sum_bf16(u, v, i);
    }
    for (; i < count; i++) sum += sg_data_load(type, x, x0 + i) * sg_data_load(type, y, y0 + i);
    return sum;
}

float fake_dot(const sg_kernel_program *p, const struct sg_area *a, int64_t a_row,
               const struct sg_area *b, int64_t b_row, int32_t count)
{
    return fake_sum((sg_type)p->type, row_of(p, a, a_row), a->col0, row_of(p, b, b_row), b->col0,
                    count);
}

/* Words of tagged places: 16 bytes, at rest while the upper 8 are all ones. */
enum { WORD = 16 };

static uint64_t *word_of(const sg_kernel_program *p, const struct sg_area *a, int64_t row,
                         int64_t col)
{
    const int64_t at = (a->col0 + col) * (int64_t)sg_type_bytes((sg_type)p->type);
    return (uint64_t *)(void *)(row_of(p, a, row) + at / WORD * WORD);
}

static bool rests(const uint64_t *word)
{
    return word[1] == UINT64_MAX;
}

bool fake_words_here(const sg_kernel_program *p, const struct sg_area *a, int64_t row, int32_t rows,
                     const struct sg_wait *wait, missing *m)
{
    for (int32_t i = 0; i < rows; i++)
        for (int32_t j = 0; j < a->cols; j++) {
            if (!rests(word_of(p, a, row + i, j))) continue;
            *m = (missing){SG_KERNEL_STUCK_FLAG, wait->by, wait->flag0, 0, p->rank->epoch};
            return false;
        }
    return true;
}

void fake_rest(const sg_kernel_program *p, const struct sg_area *a, int64_t row, int32_t rows)
{
    const size_t bytes = (size_t)(a->cols * sg_type_bytes((sg_type)p->type));
    for (int32_t i = 0; i < rows && p->place[a->buf].tagged; i++)
        memset(word_of(p, a, row + i, 0), 0xff, bytes);
}

float fake_get(const sg_kernel_program *p, const struct sg_area *a, int64_t row, int64_t col)
{
    return sg_data_load(type_of(p, a), row_of(p, a, row), a->col0 + col);
}

void fake_put(const sg_kernel_program *p, const struct sg_area *a, int64_t row, int64_t col,
              float value, bool direct)
{
    char *to = row_of(p, a, row);
    if (p->place[a->buf].tagged) { /* words are stored from their first element on */
        const bool begins = (a->col0 + col) * (int64_t)sg_type_bytes((sg_type)p->type) % WORD == 0;
        fake_trampled += begins && !rests(word_of(p, a, row, col));
        fake_tagged++;
    }
    if (a->leave) {
        const sg_kernel_hello *const h = hello_of(p->rank, a->rank);
        char *const c = (char *)(uintptr_t)h->c;
        if (c != NULL && !direct) abort(); /* that rank does not look into its landing */
        if (c != NULL)
            to = c + (a->row0 + row) * (int64_t)h->c_stride * sg_type_bytes((sg_type)p->type);
        fake_direct += c != NULL;
    }
    sg_data_store(type_of(p, a), value, to, a->col0 + col);
}

bool fake_may_copy(const sg_kernel_program *p, const sg_kernel_step *s, missing *m)
{
    for (int32_t i = 0; i < s->waits; i++) {
        const struct sg_wait *const w = &p->wait[s->wait0 + i];
        const bool here = p->place[s->src.buf].tagged
                              ? fake_words_here(p, &s->src, 0, s->src.rows, w, m)
                              : fake_flags_up(p->rank, w->by, sg_walk_wait(w, 0, 0, 0, 0), m);
        if (!here) return false;
    }
    return true;
}

void fake_copy(const sg_kernel_program *p, const sg_kernel_step *s, bool may)
{
    bool tagged = false; /* nobody waits for these flags */
    for (int32_t k = s->to0; k < s->to0 + s->tos; k++) {
        tagged |= p->place[p->to[k].buf].tagged != 0;
        for (int32_t i = 0; i < s->src.rows && (may || !p->to[k].leave); i++)
            for (int32_t j = 0; j < s->src.cols; j++)
                fake_put(p, &p->to[k], i, j, fake_get(p, &s->src, i, j), true);
    }
    fake_rest(p, &s->src, 0, s->src.rows);
    for (int32_t i = s->raise0; i < s->raise0 + s->raises && !tagged; i++)
        fake_raise(p, &p->raise[i], 0);
}

float fake_finish(const sg_kernel_program *p, float x, int64_t col)
{
    if (p->bias != NULL) x += sg_data_load((sg_type)p->type, p->bias, col);
    const double y = (double)x;
    if (p->act == SG_KERNEL_RELU) return x > 0 ? x : 0;
    if (p->act == SG_KERNEL_GELU)
        return (float)(0.5 * y * (1 + tanh(0.79788456080286535588 * (y + 0.044715 * y * y * y))));
    if (p->act == SG_KERNEL_SILU) return (float)(y / (1 + exp(-y)));
    return x;
}

/* ---- The run protocol ------------------------------------------------------------------------ */

void fake_say_hello(const fake_run *o)
{
    sg_kernel_rank *const rank = o->rank;
    for (int q = 0; q < rank->ranks && o->hello; q++)
        rank->words[q].hello[2 * rank->rank + (int)(rank->epoch & 1)] =
            (sg_kernel_hello){rank->epoch, o->hash, o->c, o->c_stride};
}

bool fake_gate_open(const sg_kernel_rank *rank, int baked, missing *m)
{
    const uint64_t need = rank->last[fake_half(rank, baked)];
    for (int q = 0; q < rank->ranks; q++) {
        const uint64_t seen = rank->words[rank->rank].done[q];
        if (seen >= need) continue;
        *m = (missing){SG_KERNEL_STUCK_GATE, q, -1, seen, need};
        return false;
    }
    return true;
}

static bool all_here(const fake_run *o, missing *m)
{
    for (int q = 0; q < o->rank->ranks && o->hello; q++) {
        const sg_kernel_hello *const h = hello_of(o->rank, q);
        if (h->epoch >= o->rank->epoch) continue;
        *m = (missing){SG_KERNEL_STUCK_END, q, -1, h->epoch, o->rank->epoch};
        return false;
    }
    return true;
}

bool fake_end(fake_run *o)
{
    sg_kernel_rank *const rank = o->rank;
    missing m;
    if (fake_aborted(rank)) return true;
    if (!all_here(o, &m)) {
        (void)fake_give_up(rank, &o->patience, &m, -1, -1);
        return fake_aborted(rank);
    }
    for (int q = 0; q < rank->ranks && o->hello; q++) {
        const sg_kernel_hello *const h = hello_of(rank, q);
        if (h->hash == o->hash || rank->words[rank->rank].done[q] >= rank->epoch) continue;
        m = (missing){SG_KERNEL_STUCK_MISMATCH, q, -1, h->hash, o->hash};
        record(rank, &m, -1, -1, true);
        abort_all(rank);
        return true;
    }
    for (int q = 0; q < rank->ranks && o->done; q++) rank->words[q].done[rank->rank] = rank->epoch;
    const int half = fake_half(rank, o->baked);
    if (o->done) rank->last[half] = rank->epoch;
    rank->prev_half = half;
    rank->epoch++;
    return true;
}
