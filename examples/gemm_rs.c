/* gemm_rs.c -- the five calls: four ranks multiply, the product is summed over ranks, every rank
 * keeps its rows.  Checks every element and exits 0 if all are right. */
#include <stdio.h>
#include <stdlib.h>

#include "shingle.h"

enum { RANKS = 4, M = 512, N = 384, K = 256, OWN = M / RANKS };

static const char problem[] = "gemm_rs:f32:512x384x256:r4";

/* Small whole numbers, so that every sum is exact and can be compared bit for bit. */
static float a_value(int rank, int row, int x)
{
    return (float)((row + rank) % 3 * (x % 2 ? 1 : -1) + (x == 7 ? rank + 1 : 0));
}

static float b_value(int rank, int col, int x)
{
    return (float)(col % 5 + (x == 7 ? rank : 0));
}

/* C[row][col] summed over ranks: the terms of x and x + 1 cancel, except next to x = 7. */
static float wanted(int row, int col)
{
    float sum = 0;
    for (int rank = 0; rank < RANKS; rank++)
        for (int x = 6; x < 8; x++) sum += a_value(rank, row, x) * b_value(rank, col, x);
    return sum;
}

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, shingle_error());
    return 1;
}

int main(void)
{
    static float a[RANKS][M][K], b[RANKS][N][K], c[RANKS][OWN][N];
    shingle_comm *comm[RANKS];
    shingle_plan *plan[RANKS];

    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < M; i++)
            for (int x = 0; x < K; x++) a[r][i][x] = a_value(r, i, x);
        for (int j = 0; j < N; j++)
            for (int x = 0; x < K; x++) b[r][j][x] = b_value(r, j, x);
    }

    if (shingle_open(RANKS, NULL, comm) != SHINGLE_OK) return fail("open");
    for (int r = 0; r < RANKS; r++)
        if (shingle_plan_create(comm[r], problem, NULL, &plan[r]) != SHINGLE_OK)
            return fail("plan");
    for (int r = 0; r < RANKS; r++)
        if (shingle_run(plan[r], a[r], b[r], c[r], NULL) != SHINGLE_OK) return fail("run");
    for (int r = 0; r < RANKS; r++)
        if (shingle_sync(comm[r], 10.0) != SHINGLE_OK) return fail("sync");

    int wrong = 0;
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < OWN; i++)
            for (int j = 0; j < N; j++) wrong += c[r][i][j] != wanted(r * OWN + i, j);
    printf("%s\n%d wrong elements\n", shingle_plan_reason(plan[0]), wrong);
    shingle_close(RANKS, comm);
    return wrong != 0;
}
