/* oracle_norm.h -- rows that are normed, for oracle.h: as a whole, since
 * each element follows from all. */
#ifndef TESTS_ORACLE_NORM_H
#define TESTS_ORACLE_NORM_H

#include "oracle_state.h"

/* Reads columns of the rows, side by side. */
static void oracle_take(oracle *o, int node, const sg_area *from)
{
    oracle_event *const e = &o->event[o->node[node].event];
    oracle_shape(e, from->rows, (int32_t)o->sched[0].problem->n);
    if (from->rows != e->rows || e->col + from->cols > e->cols) {
        o->wrong = "shapes";
        return;
    }
    for (int i = 0; i < from->rows; i++)
        for (int j = 0; j < from->cols; j++)
            e->sum[i * e->cols + e->col + j] = oracle_get(o, node, from, i, j);
    e->col += from->cols;
}

/* Stores the rows: into the residual first, then to C. */
static void oracle_store_rows(oracle *o, int node, const sg_area *to)
{
    const sg_problem *const p = o->sched[0].problem;
    oracle_event *const e = &o->event[o->node[node].event];
    const bool finishes = e->final && sg_problem_has_epilogue(p);
    if (e->col != e->cols || to->rows != e->rows || to->cols != e->cols) {
        o->wrong = "shapes";
        return;
    }
    for (int i = 0; i < e->rows; i++) {
        uint64_t *const row = e->sum + i * e->cols;
        for (int j = 0; j < e->cols && to->buf == SG_RESIDUAL; j++) {
            if (finishes)
                row[j] =
                    oracle_finish(row[j], e->has_bias ? oracle_get(o, node, &e->bias, 0, j) : 0);
            row[j] = row[j] * 5 + oracle_get(o, node, &e->residual, i, j);
        }
        if (to->buf == SG_C) oracle_norm(row, e->cols);
        for (int j = 0; j < e->cols && to->buf == SG_C; j++)
            row[j] += oracle_get(o, node, &e->gain, 0, j);
        for (int j = 0; j < e->cols; j++) oracle_put(o, node, to, i, j, row[j]);
    }
}

/* An access of a launch that norms; false: it is none of these. */
static bool oracle_norm_access(oracle *o, int node)
{
    const sg_access *const a = &o->node[node].access;
    oracle_event *const e = &o->event[o->node[node].event];
    if (a->role == SG_ROLE_RESIDUAL) e->residual = a->area;
    if (a->role == SG_ROLE_GAIN) e->gain = a->area;
    if (a->role == SG_ROLE_ADDEND) oracle_take(o, node, &a->area);
    if (a->role == SG_ROLE_DST) oracle_store_rows(o, node, &a->area);
    return a->role != SG_ROLE_BIAS;
}

/* Row I of C and of the residual of rank R, before node OVER; ROW: what C
 * would hold without the norm. */
static void oracle_normed(oracle *o, int r, int64_t i, int over, uint64_t *row)
{
    const sg_problem *const p = o->sched[0].problem;
    const sg_area c = {.rank = (int16_t)r, .buf = SG_C};
    const sg_area residual = {.rank = (int16_t)r, .buf = SG_RESIDUAL};
    oracle_add_residual(row, r, i, p->n);
    for (int pass = 0; pass < 2; pass++) {
        const sg_area *const all = pass == 0 ? &residual : &c;
        for (int64_t j = 0; j < p->n && o->wrong == NULL; j++) {
            if (o->writer[r][all->buf][i * p->n + j] <= 0) o->wrong = "a row not normed";
            if (oracle_get(o, over, all, i, j) != row[j] && o->wrong == NULL)
                o->wrong = "a wrong norm";
        }
        oracle_norm(row, p->n);
        for (int64_t j = 0; j < p->n; j++) row[j] += oracle_input(5, 0, 0, j);
    }
}

#endif
