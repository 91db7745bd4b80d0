/* oracle_values.h -- what the matrices of a problem hold for the oracle, and what C should hold:
 * element by element, straight from the problem's segments and counts. */
#ifndef TESTS_ORACLE_VALUES_H
#define TESTS_ORACLE_VALUES_H

#include "core/problem.h"

static uint64_t oracle_input(int what, int64_t rank, int64_t row, int64_t col)
{
    const uint64_t x = (uint64_t)(((rank * 8 + what) * 65536 + row) * 65536 + col);
    return sg_mix(sg_mix(x) ^ UINT64_C(0x1234567));
}

/* What the product counts as OWN_ROW of the rows (columns, k) that RANK owns. */
static int64_t oracle_product_row(const sg_problem *p, int rank, int64_t own_row)
{
    for (int i = 0; i < p->segment_count; i++) {
        const sg_segment *const g = &p->segments[i];
        if (g->owner == rank && own_row >= g->own_row && own_row < g->own_row + g->rows)
            return g->row0 + own_row - g->own_row;
    }
    return -1;
}

/* Rows of RANK's product that OWNER has, in an all-to-all. */
static int64_t oracle_count(const sg_problem *p, int rank, int owner)
{
    if (p->counts != NULL) return p->counts[rank * p->ranks + owner];
    return p->m / p->ranks + (owner < p->m % p->ranks);
}

static int64_t oracle_rows(const sg_problem *p, int rank)
{
    int64_t rows = 0;
    if (p->counts == NULL) return p->m;
    for (int q = 0; q < p->ranks; q++) rows += oracle_count(p, rank, q);
    return rows;
}

/* Row ROW of RANK's product: whose it is, and which of the owner's rows. */
static int oracle_owner(const sg_problem *p, int rank, int64_t row, int64_t *own_row_out)
{
    int owner = 0;
    for (; row >= oracle_count(p, rank, owner); owner++) row -= oracle_count(p, rank, owner);
    for (int r = 0; r < rank; r++) row += oracle_count(p, r, owner);
    *own_row_out = row;
    return owner;
}

/* Elements of the operands as the product of RANK counts them. */
static uint64_t oracle_a(const sg_problem *p, int rank, int64_t row, int64_t x)
{
    int64_t own = row;
    if (p->op == SG_OP_A2A_GEMM) {
        const int owner = oracle_owner(p, rank, row, &own);
        return oracle_input(1, owner, own, x);
    }
    return oracle_input(1, p->op == SG_OP_AG_GEMM && p->gather != SG_GATHER_B ? 0 : rank, row, x);
}

static uint64_t oracle_b(const sg_problem *p, int rank, int64_t col, int64_t x)
{
    return oracle_input(2, p->gather == SG_GATHER_B ? 0 : rank, col, x);
}

/* The same where they are held. */
static uint64_t oracle_held(const sg_problem *p, int buf, int rank, int64_t i, int64_t j)
{
    const bool gathers = p->op == SG_OP_AG_GEMM;
    if (buf == SG_C) return oracle_input(0, rank, i, j);
    if (buf == SG_RESIDUAL) return oracle_input(4, rank, i, j);
    if (buf == SG_GAIN) return oracle_input(5, 0, 0, j);
    if (buf == SG_B)
        return oracle_b(p, rank, p->gather == SG_GATHER_B ? oracle_product_row(p, rank, i) : i, j);
    if (p->op == SG_OP_A2A_GEMM) return oracle_input(1, rank, i, j);
    if (gathers && p->gather == SG_GATHER_A) i = oracle_product_row(p, rank, i);
    if (gathers && p->gather == SG_GATHER_K) j = oracle_product_row(p, rank, j);
    return oracle_a(p, rank, i, j);
}

static uint64_t oracle_bias(const sg_problem *p, int rank, int64_t col)
{
    if (!p->bias) return 0;
    return oracle_input(3, p->op == SG_OP_GEMM_RS || p->op == SG_OP_GEMM_AR ? 0 : rank, 0, col);
}

static uint64_t oracle_finish(uint64_t sum, uint64_t bias)
{
    return sg_mix((sum ^ UINT64_C(0x77)) * 3 + bias);
}

/* What a norm makes of a row of COUNT sums: with the residual, and then before the gain is
 * added. */
static void oracle_add_residual(uint64_t *row, int rank, int64_t i, int64_t count)
{
    for (int64_t j = 0; j < count; j++) row[j] = row[j] * 5 + oracle_input(4, rank, i, j);
}

static void oracle_norm(uint64_t *row, int64_t count)
{
    uint64_t whole = 0;
    for (int64_t j = 0; j < count; j++) whole += sg_mix(row[j] + (uint64_t)j);
    for (int64_t j = 0; j < count; j++) row[j] = sg_mix(row[j] ^ sg_mix(whole));
}

/* Row I of C of RANK: a row of which product? */
static int64_t oracle_c_row(const sg_problem *p, int rank, int64_t i, int *by_out)
{
    *by_out = rank;
    if (p->op == SG_OP_GEMM_RS) return oracle_product_row(p, rank, i);
    if (p->op != SG_OP_GEMM_A2A) return i;
    int by = 0;
    for (; i >= oracle_count(p, by, rank); by++) i -= oracle_count(p, by, rank);
    for (int q = 0; q < rank; q++) i += oracle_count(p, by, q);
    *by_out = by;
    return i;
}

/* Row I of C of RANK, before a norm; B: of all ranks, [rank][k][n]. */
static void oracle_want(const sg_problem *p, const uint64_t *b, int rank, int64_t i, uint64_t *want)
{
    const bool sums = p->op == SG_OP_GEMM_RS || p->op == SG_OP_GEMM_AR;
    int by = 0;
    const int64_t row = oracle_c_row(p, rank, i, &by);
    for (int64_t j = 0; j < p->n; j++)
        want[j] = p->accumulate ? oracle_held(p, SG_C, rank, i, j) : 0;
    for (int q = 0; q < p->ranks; q++)
        for (int64_t x = 0; x < p->k && (sums || q == by); x++) {
            const uint64_t a = oracle_a(p, q, row, x);
            for (int64_t j = 0; j < p->n; j++) want[j] += a * b[(q * p->k + x) * p->n + j];
        }
    for (int64_t j = 0; j < p->n && sg_problem_has_epilogue(p); j++)
        want[j] = oracle_finish(want[j], oracle_bias(p, by, j));
}

#endif
