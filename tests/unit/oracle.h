/* oracle.h -- a second, slow opinion on schedules, for tests of the checker: element by element and
 * with the whole order written out as a transitive closure.  It shares no code and no shortcut with
 * src/core/check*: no cells, no clocks, no search.
 *
 * Every access is a node.  Order: accesses of a visit or step in their own order; steps of a lane;
 * `after`; a raise before what awaits its flag.  Visits of a launch are unordered.  A deadlock is a
 * cycle once visits of a launch are put in list order.  Values are evaluated in any order that
 * obeys this, with other hashes than the checker's.
 *
 * An element may be stored again where that changes nothing for anybody: the store is
 * ordered after the store before it and after every read of it.  (The checker asks for
 * more: that the event adds it.) */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include "oracle_norm.h"
#include "oracle_state.h"

static int oracle_new_node(oracle *o, int what)
{
    if (o->nodes == o->node_room) {
        o->node_room = o->node_room ? 2 * o->node_room : 256;
        o->node = realloc(o->node, (size_t)o->node_room * sizeof *o->node);
    }
    o->node[o->nodes] =
        (oracle_node){.what = what, .rank = o->rank, .step = o->step, .event = o->events - 1};
    return o->nodes++;
}

static void oracle_new_edge(oracle *o, int from, int to, bool lists)
{
    if (from < 0 || to < 0) return;
    if (o->edges == o->edge_room) {
        o->edge_room = o->edge_room ? 2 * o->edge_room : 512;
        o->edge = realloc(o->edge, (size_t)o->edge_room * sizeof *o->edge);
    }
    o->edge[o->edges++] = (oracle_edge){from, to, lists};
}

static void oracle_new_event(oracle *o, bool final, bool norm)
{
    if (o->events == o->event_room) {
        o->event_room = o->event_room ? 2 * o->event_room : 64;
        o->event = realloc(o->event, (size_t)o->event_room * sizeof *o->event);
    }
    o->event[o->events++] = (oracle_event){.final = final, .norm = norm};
}

static void oracle_see(void *context, const sg_access *access)
{
    oracle *const o = context;
    const int node = oracle_new_node(o, 0);
    o->node[node].access = *access;
    oracle_new_edge(o, o->previous, node, false);
    o->previous = node;
}

/* Accesses of one visit or step between nodes BEGIN and END; returns the last of them. */
static int oracle_read(oracle *o, const sg_sched *s, int step, const sg_visit *v, bool final,
                       int begin, int end)
{
    oracle_new_event(o, final, sg_step_norms(&s->step[step]));
    o->previous = begin;
    sg_step_access(s, step, v, oracle_see, o);
    oracle_new_edge(o, o->previous, end, false);
    if (o->previous != begin) o->node[o->previous].last = true;
    return o->previous;
}

static void oracle_build(oracle *o)
{
    int *const joint = malloc(4096 * sizeof *joint);
    for (int i = 0; i < 4096; i++) joint[i] = -1;
    for (int r = 0; r < o->ranks; r++) {
        const sg_sched *const s = &o->sched[r];
        int lane_end[SG_MAX_LANES];
        int *const ends = malloc((size_t)(s->steps + 1) * sizeof *ends);
        for (int l = 0; l < SG_MAX_LANES; l++) lane_end[l] = -1;
        o->rank = r;
        o->step = s->steps;
        const int over = oracle_new_node(o, 3);
        for (int i = 0; i < s->steps; i++) {
            const sg_step *const step = &s->step[i];
            o->step = i;
            const int begin = oracle_new_node(o, 1);
            const int end = oracle_new_node(o, 2);
            /* A launch carries the copies of a lane in any order. */
            const bool alone = step->kind == SG_COPY && step->u.copy.carrier == SG_BY_LAUNCH;
            if (!alone) oracle_new_edge(o, lane_end[step->lane], begin, false);
            for (int j = 0; j < 2; j++)
                if (step->after[j] >= 0) oracle_new_edge(o, ends[step->after[j]], begin, false);
            oracle_new_edge(o, begin, end, false);
            if (step->kind == SG_LAUNCH) {
                int previous = begin;
                for (int v = 0; v < step->u.launch.visits; v++) {
                    sg_visit visit;
                    sg_sched_visit(s, &step->u.launch, v, &visit);
                    const int first = o->nodes;
                    const int last =
                        oracle_read(o, s, i, &visit, s->patch[visit.patch].final, begin, end);
                    if (o->nodes > first) oracle_new_edge(o, previous, first, true);
                    previous = last;
                }
            } else {
                const int first = o->nodes;
                oracle_read(o, s, i, NULL, step->kind == SG_REDUCE && step->u.reduce.final, begin,
                            end);
                if (step->kind == SG_COLL) { /* in front of its first area all ranks meet */
                    const int seq = step->u.coll.seq;
                    if (joint[seq] < 0)
                        joint[seq] = oracle_new_node(o, 4), o->node[joint[seq]].step = seq;
                    int area = first;
                    while (o->node[area].what == 0 && o->node[area].access.what == SG_WAITS) area++;
                    oracle_new_edge(o, area > first ? area - 1 : begin, joint[seq], true);
                    oracle_new_edge(o, joint[seq], area, true);
                }
            }
            ends[i] = lane_end[step->lane] = end;
            oracle_new_edge(o, end, over, false);
        }
        free(ends);
    }
    free(joint);
}

/* Raises before waits.  One raiser a flag unless all count in one word that expects them all. */
static void oracle_flags(oracle *o)
{
    int *const raises = malloc(((size_t)o->nodes + 1) * sizeof *raises);
    int count = 0;
    for (int x = 0; x < o->nodes; x++)
        if (o->node[x].what == 0 && o->node[x].access.what == SG_RAISES) raises[count++] = x;
    for (int w = 0; w < o->nodes; w++) {
        const oracle_node *const n = &o->node[w];
        if (n->what != 0 || n->access.what == SG_READS || n->access.what == SG_WRITES) continue;
        const bool waits = n->access.what == SG_WAITS;
        for (int i = 0; i < n->access.flags.count; i++) {
            const int flag = n->access.flags.first + i * n->access.flags.step;
            const int at = waits ? n->rank : n->access.peer;
            const int by = waits ? n->access.peer : n->rank;
            int raisers = 0;
            for (int x = 0; x < count; x++) {
                const oracle_node *const m = &o->node[raises[x]];
                if (m->rank != by || m->access.peer != at || m->access.flags.first != flag)
                    continue;
                raisers++;
                if (waits) oracle_new_edge(o, raises[x], w, false);
                if (!waits && m->access.counter != n->access.counter) o->wrong = "two counters";
            }
            if (waits && raisers == 0) o->wrong = "no raiser";
            if (waits) continue;
            const int counter = n->access.counter;
            if (raisers != (counter < 0 ? 1 : o->sched[by].counter[counter])) o->wrong = "raisers";
        }
    }
    free(raises);
}

/* Nodes in an order that obeys all edges, or NULL if there is none. */
static int *oracle_sort(const oracle *o, bool lists)
{
    int *const in = calloc((size_t)o->nodes + 1, sizeof *in);
    int *const first = malloc(((size_t)o->nodes + 1) * sizeof *first);
    int *const next = malloc(((size_t)o->edges + 1) * sizeof *next);
    int *const order = malloc(((size_t)o->nodes + 1) * sizeof *order);
    for (int i = 0; i < o->nodes; i++) first[i] = -1;
    for (int e = 0; e < o->edges; e++) {
        if (o->edge[e].lists && !lists) continue;
        in[o->edge[e].to]++;
        next[e] = first[o->edge[e].from];
        first[o->edge[e].from] = e;
    }
    int count = 0;
    for (int i = 0; i < o->nodes; i++)
        if (in[i] == 0) order[count++] = i;
    for (int i = 0; i < count; i++)
        for (int e = first[order[i]]; e >= 0; e = next[e])
            if (--in[o->edge[e].to] == 0) order[count++] = o->edge[e].to;
    const bool cycle = count < o->nodes;
    free(in), free(first), free(next);
    if (!cycle) return order;
    free(order);
    return NULL;
}

static void oracle_close(oracle *o)
{
    const size_t words = (size_t)o->nodes / 64 + 1;
    int *const order = oracle_sort(o, false);
    o->before = calloc((size_t)o->nodes + 1, sizeof *o->before);
    for (int i = 0; i < o->nodes; i++) o->before[i] = calloc(words, sizeof **o->before);
    if (order == NULL) {
        o->wrong = "a cycle";
        return;
    }
    int *const first = malloc(((size_t)o->nodes + 1) * sizeof *first);
    int *const next = malloc(((size_t)o->edges + 1) * sizeof *next);
    for (int i = 0; i < o->nodes; i++) first[i] = -1;
    for (int e = 0; e < o->edges; e++) {
        next[e] = first[o->edge[e].from];
        first[o->edge[e].from] = e;
    }
    for (int i = 0; i < o->nodes; i++) {
        for (int e = first[order[i]]; e >= 0; e = next[e]) {
            if (o->edge[e].lists) continue;
            uint64_t *const to = o->before[o->edge[e].to];
            for (size_t w = 0; w < words; w++) to[w] |= o->before[order[i]][w];
            to[order[i] / 64] |= UINT64_C(1) << (order[i] % 64);
        }
    }
    free(order), free(first), free(next);
}

/* Of all buffers together. */
static int64_t oracle_elements(const oracle *o)
{
    int64_t elements = 0;
    for (int r = 0; r < o->ranks; r++)
        for (int b = 0; b < o->sched[r].bufs; b++)
            elements += o->sched[r].buf[b].rows * o->sched[r].buf[b].cols;
    return elements;
}

static void oracle_fill(oracle *o)
{
    const sg_problem *const p = o->sched[0].problem;
    for (int r = 0; r < o->ranks; r++) {
        for (int b = 0; b < o->sched[r].bufs; b++) {
            const sg_buf *const buf = &o->sched[r].buf[b];
            const size_t count = (size_t)(buf->rows * buf->cols) + 1;
            const bool input = b == SG_A || b == SG_B || b == SG_BIAS || b == SG_RESIDUAL ||
                               b == SG_GAIN || (b == SG_C && p->accumulate);
            o->value[r][b] = calloc(count, sizeof(uint64_t));
            o->writer[r][b] = calloc(count, sizeof(int));
            for (int64_t i = 0; i < buf->rows && input; i++) {
                for (int64_t j = 0; j < buf->cols; j++) {
                    const int64_t at = i * buf->cols + j;
                    o->value[r][b][at] =
                        b == SG_BIAS ? oracle_bias(p, r, j) : oracle_held(p, b, r, i, j);
                    o->writer[r][b][at] = -1;
                }
            }
        }
    }
}

/* What NODE reads of AREA; free() it. */
static uint64_t *oracle_fetch(oracle *o, int node, const sg_area *area)
{
    uint64_t *const value = calloc((size_t)(area->rows * area->cols) + 1, sizeof *value);
    for (int i = 0; i < area->rows; i++)
        for (int j = 0; j < area->cols; j++)
            value[i * area->cols + j] = oracle_get(o, node, area, i, j);
    return value;
}

static void oracle_multiply(oracle *o, int node, const sg_area *b)
{
    oracle_event *const e = &o->event[o->node[node].event];
    oracle_shape(e, e->a.rows, b->rows);
    if (e->a.cols != b->cols || e->rows != e->a.rows || e->cols != b->rows) {
        o->wrong = "shapes";
        return;
    }
    uint64_t *const x = oracle_fetch(o, node - 1, &e->a);
    uint64_t *const y = oracle_fetch(o, node, b);
    for (int i = 0; i < e->rows; i++)
        for (int j = 0; j < e->cols; j++)
            for (int k = 0; k < b->cols; k++)
                e->sum[i * e->cols + j] += x[i * b->cols + k] * y[j * b->cols + k];
    free(x), free(y);
}

static void oracle_access(oracle *o, int node)
{
    const sg_access *const a = &o->node[node].access;
    oracle_event *const e = &o->event[o->node[node].event];
    const bool finishes = e->final && sg_problem_has_epilogue(o->sched[0].problem);
    if (a->role == SG_ROLE_A && a->what == SG_READS) e->a = a->area;
    if (a->role == SG_ROLE_B && a->what == SG_READS) oracle_multiply(o, node, &a->area);
    if (a->role == SG_ROLE_BIAS) e->bias = a->area, e->has_bias = true;
    const bool adds = a->what == SG_READS && (a->role == SG_ROLE_ADDEND || a->role == SG_ROLE_SRC);
    if (a->what == SG_READS) oracle_note(o, node, &a->area);
    if (e->norm && oracle_norm_access(o, node)) return;
    if (a->role == SG_ROLE_ZERO)
        for (int i = 0; i < a->area.rows; i++)
            for (int j = 0; j < a->area.cols; j++) oracle_put(o, node, &a->area, i, j, 0);
    if (!adds && a->role != SG_ROLE_DST) return;
    oracle_shape(e, a->area.rows, a->area.cols);
    if (e->rows != a->area.rows || e->cols != a->area.cols) {
        if (a->area.rows && a->area.cols) o->wrong = "shapes";
        return;
    }
    for (int i = 0; i < e->rows; i++) {
        for (int j = 0; j < e->cols; j++) {
            uint64_t v = e->sum[i * e->cols + j];
            if (adds) {
                e->sum[i * e->cols + j] += oracle_get(o, node, &a->area, i, j);
                continue;
            }
            if (finishes)
                v = oracle_finish(v, e->has_bias ? oracle_get(o, node, &e->bias, 0, j) : 0);
            oracle_put(o, node, &a->area, i, j, v);
        }
    }
}

/* The own area of a rank's collective SEQ, or its part PART; NULL if there is none. */
static const sg_area *oracle_area(const oracle *o, int rank, int seq, sg_role role, int part,
                                  int *node_out)
{
    for (int i = 0; i < o->nodes; i++) {
        const oracle_node *const n = &o->node[i];
        if (n->what != 0 || n->rank != rank || n->access.role != role) continue;
        const sg_step *const step = &o->sched[rank].step[n->step];
        if (step->kind != SG_COLL || step->u.coll.seq != seq || part-- > 0) continue;
        *node_out = i;
        return &n->access.area;
    }
    return NULL;
}

static int oracle_kind(const oracle *o, int rank, int seq)
{
    for (int i = 0; i < o->sched[rank].steps; i++) {
        const sg_step *const step = &o->sched[rank].step[i];
        if (step->kind == SG_COLL && step->u.coll.seq == seq) return step->u.coll.kind;
    }
    return -1;
}

static void oracle_coll(oracle *o, int seq)
{
    const int kind = oracle_kind(o, 0, seq);
    for (int r = 0; r < o->ranks; r++) {
        if (oracle_kind(o, r, seq) != kind) {
            o->wrong = "collectives differ";
            return;
        }
    }
    uint64_t *sums = NULL;
    for (int r = 0; r < o->ranks; r++) {
        for (int q = 0; q < o->ranks; q++) {
            int to = 0;
            int from = 0;
            const bool pairs = kind == SG_ALL_TO_ALL; /* sends first, then what arrives */
            const bool copies = pairs || kind == SG_ALL_GATHER;
            const bool dealt = pairs || kind == SG_REDUCE_SCATTER;
            const sg_area *const dst = oracle_area(o, r, seq, copies ? SG_ROLE_PART : SG_ROLE_SELF,
                                                   kind == SG_ALL_REDUCE ? 1
                                                   : !copies             ? 0
                                                   : pairs               ? o->ranks + q
                                                                         : q,
                                                   &to);
            const sg_area *const src =
                oracle_area(o, q, seq, dealt ? SG_ROLE_PART : SG_ROLE_SELF, dealt ? r : 0, &from);
            if (!dst || !src || dst->rows != src->rows || dst->cols != src->cols) {
                o->wrong = "collectives do not fit";
                free(sums);
                return;
            }
            const size_t count = (size_t)dst->rows * (size_t)dst->cols;
            oracle_note(o, from, src);
            if (q == 0 && (r == 0 || kind != SG_ALL_REDUCE)) {
                free(sums);
                sums = calloc(count + 1, sizeof *sums);
            }
            for (int i = 0; i < dst->rows; i++) {
                for (int j = 0; j < dst->cols; j++) {
                    const uint64_t v = oracle_get(o, from, src, i, j);
                    if (copies) {
                        oracle_put(o, to, dst, i, j, v);
                        continue;
                    }
                    /* An all-reduce sums once, then stores everywhere. */
                    uint64_t *const sum = &sums[i * dst->cols + j];
                    if (kind == SG_REDUCE_SCATTER || r == 0) *sum += v;
                    if (kind == SG_REDUCE_SCATTER && q == o->ranks - 1)
                        oracle_put(o, to, dst, i, j, *sum);
                }
            }
        }
    }
    for (int r = 0; r < o->ranks && kind == SG_ALL_REDUCE; r++) {
        int to = 0;
        const sg_area *const dst = oracle_area(o, r, seq, SG_ROLE_SELF, 1, &to);
        for (int i = 0; i < dst->rows; i++)
            for (int j = 0; j < dst->cols; j++)
                oracle_put(o, to, dst, i, j, sums[i * dst->cols + j]);
    }
    free(sums);
}

/* What rank R returns of A, before node OVER. */
static void oracle_returned(oracle *o, int r, int over)
{
    const sg_problem *const p = o->sched[0].problem;
    const sg_area all = {.rank = (int16_t)r, .buf = SG_RETURNED};
    for (int64_t i = 0; p->return_a && i < oracle_rows(p, r) * p->k && o->wrong == NULL; i++) {
        if (o->writer[r][SG_RETURNED][i] <= 0) o->wrong = "never returned";
        if (oracle_get(o, over, &all, i / p->k, i % p->k) != oracle_a(p, r, i / p->k, i % p->k) &&
            o->wrong == NULL)
            o->wrong = "a wrong row returned";
    }
}

static void oracle_outputs(oracle *o)
{
    const sg_problem *const p = o->sched[0].problem;
    uint64_t *const b = calloc((size_t)(p->ranks * p->k * p->n) + 1, sizeof *b);
    uint64_t *const want = calloc((size_t)p->n + 1, sizeof *want);
    for (int q = 0; q < p->ranks; q++)
        for (int64_t x = 0; x < p->k; x++)
            for (int64_t j = 0; j < p->n; j++) b[(q * p->k + x) * p->n + j] = oracle_b(p, q, j, x);
    for (int r = 0; r < o->ranks && o->wrong == NULL; r++) {
        int over = 0;
        while (o->node[over].what != 3 || o->node[over].rank != r) over++;
        int64_t rows = oracle_rows(p, r);
        if (p->op == SG_OP_GEMM_RS) rows = p->share[r].rows;
        if (p->op == SG_OP_GEMM_A2A) {
            rows = 0;
            for (int q = 0; q < p->ranks; q++) rows += oracle_count(p, q, r);
        }
        if (o->sched[r].buf[SG_C].rows != rows) o->wrong = "C of another height";
        oracle_returned(o, r, over);
        for (int64_t i = 0; i < rows && o->wrong == NULL; i++) {
            oracle_want(p, b, r, i, want);
            if (p->norm) oracle_normed(o, r, i, over, want);
            for (int64_t j = 0; j < p->n && o->wrong == NULL && !p->norm; j++) {
                const sg_area all = {.rank = (int16_t)r, .buf = SG_C};
                if (o->writer[r][SG_C][i * p->n + j] <= 0) o->wrong = "never stored";
                if (oracle_get(o, over, &all, i, j) != want[j] && o->wrong == NULL)
                    o->wrong = "a wrong result";
            }
        }
    }
    free(b), free(want);
}

/* A function of the user makes whole rows. */
static void oracle_calls(oracle *o)
{
    const sg_problem *const p = o->sched[0].problem;
    for (int r = 0; r < o->ranks && p->call; r++) {
        for (int i = 0; i < o->sched[r].steps; i++) {
            const sg_step *const step = &o->sched[r].step[i];
            for (int v = 0; step->kind == SG_LAUNCH && v < step->u.launch.visits; v++) {
                sg_visit visit;
                sg_sched_visit(&o->sched[r], &step->u.launch, v, &visit);
                if (visit.k0 == visit.k1) continue;
                if (visit.k0 != 0 || visit.k1 != p->k || visit.cols != p->n)
                    o->wrong = "half a row";
            }
        }
    }
}

/* NULL if the schedules of all RANKS (at most 8) compute what they should in every interleaving,
 * else what is wrong with them.  "too large" if this would take too long. */
static const char *oracle_judge(const sg_sched *sched, int ranks)
{
    oracle o = {.sched = sched, .ranks = ranks};
    oracle_build(&o);
    if (o.nodes > ORACLE_MOST_NODES || oracle_elements(&o) > ORACLE_MOST_ELEMENTS)
        o.wrong = "too large";
    if (o.wrong == NULL) oracle_calls(&o);
    if (o.wrong == NULL) oracle_flags(&o);
    if (o.wrong == NULL) oracle_close(&o);
    int *const order = o.wrong == NULL ? oracle_sort(&o, true) : NULL;
    if (o.wrong == NULL && order == NULL) o.wrong = "deadlock";
    if (order != NULL) oracle_fill(&o);
    for (int i = 0; i < o.nodes && o.wrong == NULL; i++) {
        const oracle_node *const n = &o.node[order[i]];
        if (n->what == 4) oracle_coll(&o, n->step);
        if (n->what == 0 && o.sched[n->rank].step[n->step].kind != SG_COLL)
            oracle_access(&o, order[i]);
    }
    if (o.wrong == NULL) oracle_outputs(&o);
    for (int i = 0; i < o.events; i++) free(o.event[i].sum);
    for (int i = 0; i < o.nodes && o.before != NULL; i++) free(o.before[i]);
    for (int r = 0; r < ranks; r++)
        for (int b = 0; b < SG_MAX_BUFS; b++)
            free(o.value[r][b]), free(o.writer[r][b]), free(o.got[r][b].list);
    free(order), free(o.before), free(o.node), free(o.edge), free(o.event);
    return o.wrong;
}

#endif
