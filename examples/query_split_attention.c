/* query_split_attention.c -- attention, output projection and the reduce-scatter behind it as one
 * problem (Query-Split attention, CommFuse, arXiv 2604.24013, algorithm 4).
 *
 * Four ranks hold two of the eight heads each.  K and V of these heads are complete; queries are
 * cut into runs of rows as the strategy likes.  For each run a rank computes scores, softmax, the
 * values and its part of the output projection; the library sums the parts over ranks and leaves
 * every rank its own rows, while the next run is computed:
 *
 *     y[row] = sum over ranks of  Wo_r * attention(q_r[row], K_r, V_r)
 *
 * Compares with the same computed unsplit, causal and not, in several
 * strategies; exits 0 if all is right. */
#include <stdio.h>

#include "attention.h"
#include "shingle.h"

enum { RANKS = 4, OWN_HEADS = HEADS / RANKS, WIDTH = OWN_HEADS * HEAD, OWN = TOKENS / RANKS };

/* gemm_rs: A is the queries of a rank's heads, B its columns of Wo; FLOPS of a row are those of
 * 2 * 192 * 32 scores and values each, and of 128 * 32 weights. */
static const char problem[] = "gemm_rs:f32:192x128x32:r4:call=32768";

static float q[TOKENS][HIDDEN], k[TOKENS][HIDDEN], v[TOKENS][HIDDEN], wo[HIDDEN][HIDDEN];

/* What one rank holds. */
typedef struct part {
    float q[TOKENS][WIDTH], k[TOKENS][WIDTH], v[TOKENS][WIDTH], wo[HIDDEN][WIDTH];
    float y[OWN][HIDDEN];
    int causal;
} part;

static part parts[RANKS];

/* Rows of the product of one rank: attention of its heads, then its part of the projection. */
static int compute(void *context, const shingle_rows *rows)
{
    const part *const p = context;
    for (int64_t i = 0; i < rows->rows; i++) {
        const float *const query = (const float *)rows->a + i * rows->a_stride;
        float *const sum = rows->sum + i * rows->sum_stride;
        const int keys = p->causal ? (int)(rows->row0 + i) + 1 : TOKENS;
        float o[WIDTH];
        for (int h = 0; h < OWN_HEADS; h++)
            attend(query + h * HEAD, p->k[0] + h * HEAD, p->v[0] + h * HEAD, keys, WIDTH,
                   o + h * HEAD);
        for (int j = 0; j < HIDDEN; j++) {
            const float *const weight = (const float *)rows->b + j * rows->b_stride;
            sum[j] = 0;
            for (int x = 0; x < WIDTH; x++) sum[j] += o[x] * weight[x];
        }
    }
    return 0;
}

static void make_data(int causal)
{
    for (int t = 0; t < TOKENS; t++)
        for (int x = 0; x < HIDDEN; x++) {
            q[t][x] = number(1, t, x);
            k[t][x] = number(2, t, x);
            v[t][x] = number(3, t, x);
            if (t < HIDDEN) wo[t][x] = number(4, t, x);
        }
    for (int r = 0; r < RANKS; r++) {
        parts[r].causal = causal;
        for (int t = 0; t < TOKENS; t++)
            for (int x = 0; x < WIDTH; x++) {
                parts[r].q[t][x] = q[t][r * WIDTH + x];
                parts[r].k[t][x] = k[t][r * WIDTH + x];
                parts[r].v[t][x] = v[t][r * WIDTH + x];
                if (t < HIDDEN) parts[r].wo[t][x] = wo[t][r * WIDTH + x];
            }
    }
}

/* Largest distance of any element from the unsplit computation. */
static double distance(int causal)
{
    double most = 0;
    for (int t = 0; t < TOKENS; t++) {
        double o[HIDDEN];
        for (int h = 0; h < HEADS; h++)
            attend_plainly(q[t], k, v, h, causal ? t + 1 : TOKENS, o + h * HEAD);
        for (int j = 0; j < HIDDEN; j++) {
            double y = 0;
            for (int x = 0; x < HIDDEN; x++) y += o[x] * (double)wo[j][x];
            const double off = fabs(y - (double)parts[t / OWN].y[t % OWN][j]);
            if (!(off <= most)) most = off; /* NaN, too */
        }
    }
    return most;
}

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, shingle_error());
    return 1;
}

static int run(shingle_comm *const *comm, const char *strategy, int causal)
{
    shingle_plan *plan[RANKS] = {NULL};
    make_data(causal);
    for (int r = 0; r < RANKS; r++) {
        const shingle_plan_options options = {
            .strategy = strategy, .compute = compute, .compute_context = &parts[r]};
        if (shingle_plan_create(comm[r], problem, &options, &plan[r]) != SHINGLE_OK)
            return fail("plan");
        for (int t = 0; t < OWN; t++)
            for (int j = 0; j < HIDDEN; j++) parts[r].y[t][j] = NAN;
    }
    for (int r = 0; r < RANKS; r++)
        if (shingle_run(plan[r], parts[r].q, parts[r].wo, parts[r].y, NULL) != SHINGLE_OK)
            return fail("run");
    for (int r = 0; r < RANKS; r++)
        if (shingle_sync(comm[r], 10.0) != SHINGLE_OK) return fail("sync");
    const double most = distance(causal);
    printf("%-10s %-10s off by at most %.1e\n", causal ? "causal" : "full",
           strategy != NULL ? strategy : "(chosen)", most);
    for (int r = 0; r < RANKS; r++) shingle_plan_free(plan[r]);
    return !(most < 1e-4);
}

int main(void)
{
    static const char *const strategies[] = {NULL, "serial", "direct", "ring", "fused_out"};
    shingle_comm *comm[RANKS];
    int failed = 0;
    if (shingle_open(RANKS, NULL, comm) != SHINGLE_OK) return fail("open");
    for (int causal = 0; causal < 2; causal++)
        for (int i = 0; i < 5; i++) failed += run(comm, strategies[i], causal);
    shingle_close(RANKS, comm);
    return failed > 0;
}
