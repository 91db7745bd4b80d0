/* sched_tagged.c -- data that tell by themselves that they have come: see sched.h. */
#include "core/sched_rules.h"

static bool is_tagged(const sg_sched *s, const sg_area *a)
{
    return s->buf[a->buf].tagged;
}

bool sg_sched_is_tagged(const sg_sched *s, const sg_launch *l)
{
    const sg_patch *const p = &s->patch[l->patch0];
    return l->patches > 0 && !l->norm && p->tos > 0 && is_tagged(s, &s->to[p->to0]);
}

bool sg_sched_is_joined(const sg_sched *s, const sg_launch *l)
{
    const sg_patch *const first = &s->patch[l->patch0];
    int32_t rows = 0, products = 0;
    if (!sg_sched_is_tagged(s, l) || sg_problem_out(s->problem) != SG_OUT_SCATTER) return false;
    for (; products < l->patches && first[products].k0 < first[products].k1; products++)
        rows += first[products].rows;
    return products > 1 && rows <= l->tile_m;
}

/* ---- In one hop ------------------------------------------------------------------------------ */

/* All rows of a product to places at every rank, with a flag a tile for each. */
static const char *product_fault(const sg_sched *s, const sg_patch *p)
{
    if (p->k0 >= p->k1 || p->adds > 0 || p->waits > 0 || p->final)
        return "tagged data that are no bare product";
    if (p->tos != s->problem->ranks || p->raises != p->tos)
        return "tagged data that do not go to all ranks, each with a flag";
    const sg_area *const first = &s->to[p->to0];
    for (int32_t i = 0; i < p->tos; i++) {
        const sg_area *const to = &s->to[p->to0 + i];
        const sg_raise *const raise = &s->raise[p->raise0 + i];
        if (!to->tiled || to->buf != first->buf || to->row0 != first->row0)
            return "tagged data outside the same places of all ranks";
        if (raise->at != to->rank || raise->per != SG_PER_TILE ||
            raise->flag0 != s->raise[p->raise0].flag0)
            return "tagged data without a flag for each tile";
    }
    return NULL;
}

/* The same tiles of all ranks, in rank order, each behind its flag. */
static const char *sum_fault(const sg_sched *s, const sg_patch *product, const sg_patch *p)
{
    const sg_area *const sent = &s->to[product->to0];
    if (p->k0 < p->k1 || p->waits > 0 || p->raises > 0 || p->tos != 1 ||
        is_tagged(s, &s->to[p->to0]) || s->to[p->to0].tiled)
        return "tagged data that meet more than their sum";
    if (p->row0 != product->row0 || p->rows != product->rows || p->col0 != product->col0 ||
        p->cols != product->cols || p->raster != product->raster || p->width != product->width ||
        p->tiles > 0 || product->tiles > 0)
        return "tagged data that are added in another order than stored";
    if (p->adds != s->problem->ranks) return "a sum without the tagged data of all ranks";
    for (int32_t i = 0; i < p->adds; i++) {
        const sg_addend *const add = &s->add[p->add0 + i];
        if (!add->area.tiled || add->area.buf != sent->buf || add->area.row0 != i * sent->rows ||
            add->area.rows != sent->rows)
            return "a sum of tagged data that are not in rank order";
        if (!add->awaited || add->wait.by != i || add->wait.per != SG_PER_TILE ||
            add->wait.flag0 != s->raise[product->raise0].flag0)
            return "a sum of tagged data without a flag for each tile";
    }
    return NULL;
}

static const char *one_hop_fault(const sg_sched *s, const sg_launch *l)
{
    const sg_patch *const product = &s->patch[l->patch0];
    const sg_area *const sent = &s->to[product->to0];
    if (l->patches != 2) return "tagged data in other than a product and its sum";
    if (s->raises != product->raises)
        return "tagged data beside other flags, which tell of nothing else";
    const char *const fault = product_fault(s, product);
    if (fault != NULL) return fault;
    if (sent->row0 != s->rank * sent->rows) return "tagged data at another rank's places";
    return sum_fault(s, product, product + 1);
}

/* ---- To owners ------------------------------------------------------------------------------- */

/* Do P and Q, of one launch, have the same kind of walk over all their tiles? */
static bool same_walk(const sg_patch *p, const sg_patch *q)
{
    return p->raster == q->raster && p->tiles == 0 && q->tiles == 0;
}

static bool same_rows(const sg_patch *p, const sg_patch *q)
{
    return p->row0 == q->row0 && p->rows == q->rows && p->width == q->width;
}

static bool same_cols(const sg_patch *p, const sg_patch *q)
{
    return p->col0 == q->col0 && p->cols == q->cols;
}

static bool same_tiles(const sg_patch *p, const sg_patch *q)
{
    return same_walk(p, q) && same_rows(p, q) && same_cols(p, q);
}

/* Each rank's columns of all rows, or rows of all columns, to that rank alone, the own ones last if
 * there are any.  *OWN_OUT: there are. */
static const char *to_owners_fault(const sg_sched *s, const sg_patch *product, int32_t count,
                                   bool *own_out)
{
    const bool by_cols = sg_problem_out(s->problem) == SG_OUT_ALL;
    const sg_area *const first = &s->to[product->to0];
    const int ranks = s->problem->ranks;
    int last = -1;
    for (int32_t i = 0; i < count; i++) {
        const sg_patch *const p = &product[i];
        const bool beside = by_cols ? same_rows(p, product) : same_cols(p, product);
        if (p->k0 >= p->k1 || p->adds > 0 || p->waits > 0 || p->final || p->tos != 1 ||
            p->raises != 1 || !beside || !same_walk(p, product))
            return "tagged data of an owner that are no bare product";
        const sg_area *const to = &s->to[p->to0];
        const sg_raise *const raise = &s->raise[p->raise0];
        const int turn = (to->rank - s->rank - 1 + ranks) % ranks;
        if (!to->tiled || to->buf != first->buf || to->row0 != first->row0 || turn <= last)
            return "tagged data outside one place of each owner";
        last = turn;
        if (raise->at != to->rank || raise->per != SG_PER_TILE ||
            raise->flag0 != s->raise[product->raise0].flag0)
            return "tagged data without a flag for each tile";
    }
    *own_out = last == ranks - 1;
    return NULL;
}

/* Is addend ADD a place of BUF, behind the flags of the tiles, from FLAG0 on, of rank BY? */
static bool is_awaited(const sg_addend *add, int buf, int by, int32_t flag0)
{
    return add->area.tiled && add->area.buf == buf && add->awaited && add->wait.by == by &&
           add->wait.per == SG_PER_TILE && add->wait.flag0 == flag0;
}

/* What an owner adds up: the own product of all ranks in rank order, into an own matrix, behind
 * SENDS other stores. */
static const char *own_sum_fault(const sg_sched *s, const sg_patch *product, const sg_patch *p,
                                 int sends)
{
    const int ranks = s->problem->ranks;
    const sg_area *const sent = &s->to[product->to0];
    if (p->k0 < p->k1 || p->waits > 0 || !same_tiles(p, product) || p->adds != ranks ||
        p->tos != sends + 1 || p->raises != sends)
        return "tagged data of an owner that meet more than their sum";
    const int32_t apart = ranks > 1 ? s->add[p->add0 + 1].area.row0 : 0;
    for (int32_t i = 0; i < ranks; i++) {
        const sg_addend *const add = &s->add[p->add0 + i];
        if (!is_awaited(add, sent->buf, i, s->raise[product->raise0].flag0) ||
            add->area.row0 != i * apart || add->area.rows != sent->rows)
            return "an owner's sum of tagged data that are not in rank order, each with its flag";
    }
    if (sent->row0 != s->rank * apart) return "tagged data at another rank's places";
    const sg_area *const c = &s->to[p->to0 + sends];
    return c->tiled || is_tagged(s, c) ? "a sum of tagged data outside an own matrix" : NULL;
}

/* Products for owners of rows, and the sum of the own ones. */
static const char *scatter_fault(const sg_sched *s, const sg_launch *l, int32_t count)
{
    const sg_patch *const product = &s->patch[l->patch0];
    bool own = false;
    const char *const fault = to_owners_fault(s, product, count, &own);
    if (fault != NULL) return fault;
    if (l->patches != count + own) return "tagged data in other than products and their sums";
    if (s->raises != count) return "tagged data beside other flags, which tell of nothing else";
    return own ? own_sum_fault(s, product + count - 1, product + count, 0) : NULL;
}

/* ---- In two hops ----------------------------------------------------------------------------- */

/* The sums P of the own columns go to the same places of all others. */
static const char *sums_sent_fault(const sg_sched *s, const sg_patch *product, const sg_patch *p,
                                   int32_t flag1)
{
    const int ranks = s->problem->ranks;
    const sg_area *const sent = &s->to[product->to0];
    for (int32_t i = 0; i < ranks - 1; i++) {
        const sg_area *const to = &s->to[p->to0 + i];
        const sg_raise *const raise = &s->raise[p->raise0 + i];
        if (!to->tiled || to->buf != sent->buf || to->row0 != s->to[p->to0].row0 ||
            to->rank != (s->rank + 1 + i) % ranks || raise->at != to->rank ||
            raise->per != SG_PER_TILE || raise->flag0 != flag1)
            return "sums of tagged data that do not go to all others, each with a flag";
    }
    return NULL;
}

/* Sums that have come from the owner of PRODUCT, into an own matrix. */
static const char *come_fault(const sg_sched *s, const sg_patch *product, const sg_patch *p,
                              int32_t flag1)
{
    const sg_area *const sent = &s->to[product->to0];
    if (p->k0 < p->k1 || p->waits > 0 || p->final || p->raises > 0 || p->tos != 1 || p->adds != 1 ||
        !same_tiles(p, product) || s->to[p->to0].tiled || is_tagged(s, &s->to[p->to0]))
        return "sums of tagged data that are not stored as they come";
    const sg_addend *const add = &s->add[p->add0];
    return is_awaited(add, sent->buf, sent->rank, flag1)
               ? NULL
               : "sums of tagged data without a flag for each tile";
}

/* Products, the sum of the own columns, and what the other owners send, in the same order. */
static const char *two_hops_fault(const sg_sched *s, const sg_launch *l, int32_t count)
{
    const sg_patch *const product = &s->patch[l->patch0];
    bool own = false;
    if (l->patches != 2 * count) return "tagged data in other than products and their sums";
    const char *fault = to_owners_fault(s, product, count, &own);
    const int32_t sums = own ? s->problem->ranks - 1 : 0;
    if (fault != NULL) return fault;
    if (s->raises != count + sums)
        return "tagged data beside other flags, which tell of nothing else";
    const sg_patch *const sum = product + count;
    if (own && sum->raises == 0) return "sums of tagged data that are not sent";
    if (!own && sum->adds == 0) return "sums of tagged data that do not come";
    const int32_t flag1 =
        own ? s->raise[sum->raise0].flag0 : s->add[sum->add0].wait.flag0; /* of the second hop */
    if (own) fault = own_sum_fault(s, product + count - 1, sum, sums);
    if (own && fault == NULL) fault = sums_sent_fault(s, product + count - 1, sum, flag1);
    for (int32_t i = 0; i < count - own && fault == NULL; i++)
        fault = come_fault(s, product + i, sum + own + i, flag1);
    return fault;
}

static const char *launch_fault(const sg_sched *s, const sg_launch *l)
{
    const sg_patch *const product = &s->patch[l->patch0];
    const sg_buf *const buf = &s->buf[s->to[product->to0].buf];
    if (buf->wide || buf->fixed) return "tagged data in a buffer of another kind";
    if (l->vendor) return "tagged data of the vendor's product";
    if (s->waits > 0) return "tagged data beside other flags, which tell of nothing else";
    if (product->tos > 1 || s->problem->ranks == 1) return one_hop_fault(s, l);
    int32_t count = 0;
    while (count < l->patches && product[count].k0 < product[count].k1) count++;
    return sg_problem_out(s->problem) == SG_OUT_ALL ? two_hops_fault(s, l, count)
                                                    : scatter_fault(s, l, count);
}

/* ---- Of a gather, carried by a launch -------------------------------------------------------- */

enum { WORD_COLS = 8 }; /* elements of a word, which comes as a whole */

bool sg_sched_is_take(const sg_sched *s, const sg_step *step)
{
    return sg_step_is_push(step) && step->tos == 1 && s->to[step->to0].rank == s->rank;
}

bool sg_sched_gathers_tagged(const sg_sched *s)
{
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (!sg_step_is_push(step)) continue;
        if (is_tagged(s, &step->u.copy.src) || is_tagged(s, &s->to[step->to0])) return true;
    }
    return false;
}

static bool is_whole_words(const sg_sched *s, const sg_area *a)
{
    return a->col0 % WORD_COLS == 0 && a->cols % WORD_COLS == 0 && s->problem->type != SG_F32 &&
           !s->buf[a->buf].wide;
}

/* Rows for peers, with a flag for each.  SENT: elements, by peer. */
static const char *send_fault(const sg_sched *s, const sg_step *step, int64_t *sent)
{
    if (step->u.copy.src.buf != SG_A || step->raises != step->tos)
        return "tagged data that are no rows of A, each with a flag";
    for (int32_t i = 0; i < step->tos; i++) {
        const sg_area *const to = &s->to[step->to0 + i];
        const sg_raise *const raise = &s->raise[step->raise0 + i];
        if (!is_tagged(s, to) || raise->at != to->rank || raise->per != SG_PER_PATCH)
            return "rows beside tagged data that are none, or without their flag";
        if (!is_whole_words(s, to)) return "tagged data that are no whole words";
        sent[to->rank] += (int64_t)to->rows * to->cols;
    }
    return NULL;
}

/* What has come, or own rows, into the own scratch.  *TAKEN: elements that had come. */
static const char *take_fault(const sg_sched *s, const sg_step *step, int64_t *taken)
{
    const sg_area *const src = &step->u.copy.src;
    const sg_area *const to = &s->to[step->to0];
    const sg_wait *const wait = &s->wait[step->wait0];
    if (step->raises != 1 || s->raise[step->raise0].at != s->rank)
        return "tagged data are taken without an own flag";
    if (!is_whole_words(s, to)) return "tagged data that are no whole words";
    if (!is_tagged(s, src)) return NULL;
    if (step->waits != 1 || wait->per != SG_PER_PATCH || wait->by == s->rank)
        return "tagged data are taken without their one flag";
    if (src->rank != s->rank || src->row0 != to->row0 || src->col0 != to->col0 ||
        s->buf[src->buf].rows != s->buf[to->buf].rows ||
        s->buf[src->buf].cols != s->buf[to->buf].cols)
        return "tagged data change their places";
    *taken += (int64_t)src->rows * src->cols;
    return NULL;
}

/* Whatever is sent is all there is, and whatever comes is taken once: a second time would be a
 * second store to the same element of the scratch. */
static const char *amounts_fault(const sg_sched *s, const int64_t *sent, int64_t taken)
{
    const sg_problem *const p = s->problem;
    for (int q = 0; q < p->ranks; q++) {
        if (q == s->rank) continue;
        if (sent[q] != sg_problem_part(p, q, s->rank).rows * p->k)
            return "tagged data of a gather that do not go to all others";
        taken -= sg_problem_part(p, s->rank, q).rows * p->k;
    }
    return taken == 0 ? NULL : "tagged data of a gather that are not all taken";
}

static const char *gather_fault(const sg_sched *s, int32_t *step_out)
{
    int64_t sent[SG_MAX_RANKS] = {0};
    int64_t taken = 0;
    int32_t waits = 0;
    int32_t raises = 0;
    bool takes = false;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (!sg_step_is_push(step)) continue;
        const bool stays = sg_sched_is_take(s, step);
        const char *const fault = stays   ? take_fault(s, step, &taken)
                                  : takes ? "rows are sent behind what is taken"
                                          : send_fault(s, step, sent);
        *step_out = i;
        if (fault != NULL) return fault;
        takes |= stays;
        waits += step->waits;
        if (!stays) raises += step->raises;
    }
    for (int32_t i = 0; i < s->waits; i++) waits -= s->wait[i].by != s->rank;
    for (int32_t i = 0; i < s->raises; i++) raises -= s->raise[i].at != s->rank;
    if (waits != 0 || raises != 0)
        return "tagged data beside other flags, which tell of nothing else";
    return amounts_fault(s, sent, taken);
}

/* Areas of tagged data that pushes store to or take. */
static int32_t count_pushed(const sg_sched *s)
{
    int32_t count = 0;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (!sg_step_is_push(step)) continue;
        count += is_tagged(s, &step->u.copy.src);
        for (int32_t j = 0; j < step->tos; j++) count += is_tagged(s, &s->to[step->to0 + j]);
    }
    return count;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Areas of tagged buffers in the lists; how many of them belong to launch L;
 * and those outside launches. */
static int32_t count_areas(const sg_sched *s)
{
    int32_t count = 0;
    for (int32_t i = 0; i < s->tos; i++) count += is_tagged(s, &s->to[i]);
    for (int32_t i = 0; i < s->adds; i++) count += is_tagged(s, &s->add[i].area);
    for (int32_t i = 0; i < s->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        if (p->k0 < p->k1) count += is_tagged(s, &p->a) + is_tagged(s, &p->b);
    }
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        count += step->kind == SG_COPY && is_tagged(s, &step->u.copy.src);
        count += step->kind == SG_COLL && is_tagged(s, &step->u.coll.self);
    }
    return count;
}

/* Those of launch L that it stores to and adds. */
static int32_t count_launch(const sg_sched *s, const sg_launch *l)
{
    int32_t count = 0;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        for (int32_t j = p->to0; j < p->to0 + p->tos; j++) count += is_tagged(s, &s->to[j]);
        for (int32_t j = p->add0; j < p->add0 + p->adds; j++)
            count += is_tagged(s, &s->add[j].area);
    }
    return count;
}

/* What rests belongs to words that are put back there by who reads them. */
static const char *arena_fault(const sg_sched *s)
{
    for (int i = 0; i < s->bufs; i++)
        if ((s->buf[i].arena == SG_REST) != (s->buf[i].tagged != 0))
            return s->buf[i].tagged ? "tagged data that are not in REST"
                                    : "other than tagged data in REST";
    return NULL;
}

const char *sg_sched_tagged_fault(const sg_sched *s, int32_t *step_out)
{
    int32_t others = count_areas(s);
    int launches = 0;
    const char *const misplaced = arena_fault(s);
    *step_out = 0;
    if (misplaced != NULL || others == 0) return misplaced;
    const int32_t pushed = count_pushed(s);
    if (pushed > 0)
        return pushed < others ? "tagged data of a gather outside its launch"
                               : gather_fault(s, step_out);
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        if (step->kind != SG_LAUNCH || !sg_sched_is_tagged(s, &step->u.launch)) continue;
        *step_out = i;
        launches++;
        others -= count_launch(s, &step->u.launch);
        const char *const fault = launch_fault(s, &step->u.launch);
        if (fault != NULL) return fault;
    }
    return launches != 1 || others != 0 ? "tagged data outside one launch" : NULL;
}
