/* oracle_state.h -- what oracle.h keeps of schedules, and elements of their buffers. */
#ifndef TESTS_ORACLE_STATE_H
#define TESTS_ORACLE_STATE_H

#include <stdlib.h>
#include <string.h>

#include "core/sched.h"
#include "oracle_values.h"

enum { ORACLE_MOST_NODES = 5000, ORACLE_MOST_ELEMENTS = 1 << 20, ORACLE_RANKS = 8 };

typedef struct oracle_node {
    sg_access access;
    int what; /* 0 access, 1 begin of a step, 2 end of a step, 3 end of a rank, 4 a collective */
    int rank, step, event;
    bool last; /* of its event */
} oracle_node;

typedef struct oracle_event {
    uint64_t *sum;
    int32_t rows, cols;
    bool final;
    sg_area a, bias, residual, gain;
    bool has_bias;
    bool norm;
    int32_t col; /* of a norm: columns so far */
} oracle_event;

typedef struct oracle_edge {
    int from, to;
    bool lists; /* only for list order, not for races */
} oracle_edge;

/* A read of an area of the workspace or of C. */
typedef struct oracle_got {
    int node;
    sg_area area;
} oracle_got;

typedef struct oracle_gots {
    oracle_got *list;
    int32_t count, room;
} oracle_gots;

typedef struct oracle {
    const sg_sched *sched;
    int ranks;
    oracle_node *node;
    oracle_edge *edge;
    oracle_event *event;
    int nodes, node_room, edges, edge_room, events, event_room;
    int rank, step, previous;
    uint64_t **before; /* per node: bit set of the nodes that are ordered before it */
    uint64_t *value[ORACLE_RANKS][SG_MAX_BUFS];
    int *writer[ORACLE_RANKS][SG_MAX_BUFS]; /* node + 1; -1: input */
    oracle_gots got[ORACLE_RANKS][SG_MAX_BUFS];
    const char *wrong; /* what is wrong, or NULL */
} oracle;

static bool oracle_is_before(const oracle *o, int one, int other)
{
    return o->before[other][one / 64] >> (one % 64) & 1;
}

/* Index of element (i, j) of AREA, or -1 if it is outside. */
static int64_t oracle_at(oracle *o, const sg_area *area, int64_t i, int64_t j)
{
    if (area->rank < 0 || area->rank >= o->ranks || area->buf >= o->sched[area->rank].bufs) {
        o->wrong = "no buffer";
        return -1;
    }
    const sg_buf *const buf = &o->sched[area->rank].buf[area->buf];
    const int64_t row = area->row0 + i;
    const int64_t col = area->col0 + j;
    if (row < 0 || row >= buf->rows || col < 0 || col >= buf->cols) {
        o->wrong = "outside a buffer";
        return -1;
    }
    return row * buf->cols + col;
}

static uint64_t oracle_get(oracle *o, int node, const sg_area *area, int64_t i, int64_t j)
{
    const int64_t at = oracle_at(o, area, i, j);
    if (at < 0) return 0;
    const int writer = o->writer[area->rank][area->buf][at];
    if (writer == 0) o->wrong = "read before it is stored";
    if (writer > 0 && !oracle_is_before(o, writer - 1, node)) o->wrong = "race";
    return o->value[area->rank][area->buf][at];
}

/* NODE reads AREA: whoever stores there again has to come later. */
static void oracle_note(oracle *o, int node, const sg_area *area)
{
    if (area->rank < 0 || area->rank >= o->ranks || area->buf >= o->sched[area->rank].bufs) return;
    oracle_gots *const g = &o->got[area->rank][area->buf];
    if (g->count == g->room) {
        g->room = g->room ? 2 * g->room : 16;
        g->list = realloc(g->list, (size_t)g->room * sizeof *g->list);
    }
    g->list[g->count++] = (oracle_got){node, *area};
}

/* NODE stores element (ROW, COL) of a buffer again. */
static void oracle_again(oracle *o, int node, const sg_area *area, int64_t row, int64_t col,
                         int writer)
{
    const oracle_gots *const g = &o->got[area->rank][area->buf];
    if (area->buf == SG_A || area->buf == SG_B || area->buf == SG_BIAS || area->buf == SG_GAIN)
        o->wrong = "an input";
    if (writer > 0 && !oracle_is_before(o, writer - 1, node)) o->wrong = "two stores";
    for (int x = 0; x < g->count; x++) {
        const sg_area *const a = &g->list[x].area;
        const bool hits =
            row >= a->row0 && row < a->row0 + a->rows && col >= a->col0 && col < a->col0 + a->cols;
        if (hits && g->list[x].node != node && !oracle_is_before(o, g->list[x].node, node))
            o->wrong = "stored again before it is read";
    }
}

static void oracle_put(oracle *o, int node, const sg_area *area, int64_t i, int64_t j, uint64_t v)
{
    const int64_t at = oracle_at(o, area, i, j);
    if (at < 0) return;
    int *const writer = &o->writer[area->rank][area->buf][at];
    if (*writer != 0) oracle_again(o, node, area, area->row0 + i, area->col0 + j, *writer);
    *writer = node + 1;
    o->value[area->rank][area->buf][at] = v;
}

static void oracle_shape(oracle_event *e, int32_t rows, int32_t cols)
{
    if (e->sum != NULL || rows == 0 || cols == 0) return;
    e->rows = rows;
    e->cols = cols;
    e->sum = calloc((size_t)rows * (size_t)cols, sizeof *e->sum);
}

#endif
