/* qkv_projection.c -- queries, keys and values of a layer whose tokens are dealt over the ranks
 * (sequence parallelism, grouped-query attention): three weights share one gather of the tokens,
 * and the gathered tokens come back, as the backward pass needs them.
 *
 * Four ranks hold 24 of 96 tokens, 32 of 128 columns of queries and 8 of 32 columns of keys and of
 * values each.  Every weight and every result is a tensor of its own.  Compares with plain loops,
 * in several strategies; exits 0 if all is right. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shingle.h"

enum { RANKS = 4, TOKENS = 96, HIDDEN = 64, Q = 32, KV = 8, OWN = TOKENS / RANKS };

static const char problem[] = "ag_gemm:f32:96x48x64:r4:b=32,8,8:return_a";

typedef struct part {
    float x[OWN][HIDDEN];                                /* own tokens */
    float wq[Q][HIDDEN], wk[KV][HIDDEN], wv[KV][HIDDEN]; /* own rows of the weights */
    float q[TOKENS][Q], k[TOKENS][KV], v[TOKENS][KV];
    float all[TOKENS][HIDDEN]; /* the tokens of all ranks */
} part;

static part parts[RANKS];

/* Small numbers whose products are exact. */
static float number(int what, int i, int j)
{
    return (float)((what * 37 + i * 11 + j * 5) % 17 - 8) / 8;
}

static void make_data(void)
{
    for (int r = 0; r < RANKS; r++) {
        part *const p = &parts[r];
        memset(p, 0xff, sizeof *p); /* NaN, where nothing is stored */
        for (int j = 0; j < HIDDEN; j++) {
            for (int i = 0; i < OWN; i++) p->x[i][j] = number(0, r * OWN + i, j);
            for (int i = 0; i < Q; i++) p->wq[i][j] = number(1, r * Q + i, j);
            for (int i = 0; i < KV; i++) p->wk[i][j] = number(2, r * KV + i, j);
            for (int i = 0; i < KV; i++) p->wv[i][j] = number(3, r * KV + i, j);
        }
    }
}

/* Elements of the COLS columns of OUT, and of the weight WHAT of rank R, that
 * are not what they must be. */
static int wrong_in(const float *out, int cols, int what, int r)
{
    int wrong = 0;
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < cols; i++) {
            float sum = 0;
            for (int j = 0; j < HIDDEN; j++) sum += number(0, t, j) * number(what, r * cols + i, j);
            wrong += !(fabsf(out[t * cols + i] - sum) < 1e-4f);
        }
    return wrong;
}

static int wrong_of(int r)
{
    const part *const p = &parts[r];
    int wrong = wrong_in(p->q[0], Q, 1, r) + wrong_in(p->k[0], KV, 2, r);
    wrong += wrong_in(p->v[0], KV, 3, r);
    for (int t = 0; t < TOKENS; t++)
        for (int j = 0; j < HIDDEN; j++) wrong += !(p->all[t][j] == number(0, t, j));
    return wrong;
}

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, shingle_error());
    return 1;
}

static int run(shingle_comm *const *comm, const char *strategy)
{
    shingle_plan *plan[RANKS] = {NULL};
    const shingle_plan_options options = {.strategy = strategy};
    int wrong = 0;
    make_data();
    for (int r = 0; r < RANKS; r++)
        if (shingle_plan_create(comm[r], problem, &options, &plan[r]) != SHINGLE_OK)
            return fail("plan");
    for (int r = 0; r < RANKS; r++) {
        part *const p = &parts[r];
        const shingle_tensors tensors = {.a = p->x,
                                         .b = p->wq,
                                         .c = p->q,
                                         .more_b = {p->wk, p->wv},
                                         .more_c = {p->k, p->v},
                                         .returned_a = p->all};
        if (shingle_run_tensors(plan[r], &tensors, NULL) != SHINGLE_OK) return fail("run");
    }
    for (int r = 0; r < RANKS; r++)
        if (shingle_sync(comm[r], 10.0) != SHINGLE_OK) return fail("sync");
    for (int r = 0; r < RANKS; r++) wrong += wrong_of(r);
    printf("%-10s %d elements wrong\n", strategy != NULL ? strategy : "(chosen)", wrong);
    for (int r = 0; r < RANKS; r++) shingle_plan_free(plan[r]);
    return wrong > 0;
}

int main(void)
{
    static const char *const strategies[] = {NULL, "serial", "fused_in", "direct", "ring"};
    shingle_comm *comm[RANKS];
    int failed = 0;
    if (shingle_open(RANKS, NULL, comm) != SHINGLE_OK) return fail("open");
    for (int i = 0; i < 5; i++) failed += run(comm, strategies[i]);
    shingle_close(RANKS, comm);
    return failed > 0;
}
