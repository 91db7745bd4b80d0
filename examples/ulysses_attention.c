/* ulysses_attention.c -- attention between two all-to-alls (Ulysses, arXiv 2309.14509): ranks hold
 * tokens, attention wants heads.
 *
 *     rank q has 48 tokens of all heads
 *        |   a2a_gemm with a call: q, k, v of a head group go to its rank; there the position is
 *        v   turned into q and k (rotary embedding) as rows arrive
 *     rank r has all 192 tokens of 2 heads
 *        |   gemm_a2a with a call: attention of a run of queries; its rows go straight to the rank
 *        v   of their tokens while the next run is computed
 *     rank q has 48 tokens of all heads
 *
 * Compares with the same computed unsplit, in several strategies; exits 0 if all is right. */
#include <stdio.h>

#include "attention.h"
#include "shingle.h"

enum { RANKS = 4, OWN_HEADS = HEADS / RANKS, WIDTH = OWN_HEADS * HEAD, OWN = TOKENS / RANKS };

/* A row is q, k and v of a token and two heads, one behind the other. */
static const char before[] = "a2a_gemm:f32:192x96x96:r4:call=192";
static const char after[] = "gemm_a2a:f32:192x32x32:r4:call=24576";

static float q[TOKENS][HIDDEN], k[TOKENS][HIDDEN], v[TOKENS][HIDDEN];

/* What one rank holds. */
typedef struct part {
    float tokens[RANKS][OWN][3 * WIDTH]; /* its tokens by head group, as they leave */
    float heads[TOKENS][3 * WIDTH];      /* all tokens of its heads, as they arrive */
    float result[RANKS][OWN][WIDTH];     /* its tokens by head group, as they come back */
} part;

static part parts[RANKS];

/* Turns pairs of values of the heads of ROW by an angle that grows with POSITION. */
static void rotate(float *row, int position, int heads)
{
    for (int x = 0; x < heads * HEAD; x += 2) {
        const float angle = (float)position * powf(100.0f, -(float)(x % HEAD) / HEAD);
        const float a = row[x];
        const float b = row[x + 1];
        row[x] = a * cosf(angle) - b * sinf(angle);
        row[x + 1] = a * sinf(angle) + b * cosf(angle);
    }
}

/* Rows that have arrived: row number and position of the token are the same. */
static int arrive(void *context, const shingle_rows *rows)
{
    (void)context;
    for (int64_t i = 0; i < rows->rows; i++) {
        float *const row = rows->sum + i * rows->sum_stride;
        for (int x = 0; x < 3 * WIDTH; x++)
            row[x] = ((const float *)rows->a)[i * rows->a_stride + x];
        rotate(row, (int)(rows->row0 + i), OWN_HEADS);
        rotate(row + WIDTH, (int)(rows->row0 + i), OWN_HEADS);
    }
    return 0;
}

/* Attention of a run of queries of the rank's heads, causal. */
static int compute(void *context, const shingle_rows *rows)
{
    const part *const p = context;
    for (int64_t i = 0; i < rows->rows; i++)
        for (int h = 0; h < OWN_HEADS; h++)
            attend((const float *)rows->a + i * rows->a_stride + h * HEAD,
                   p->heads[0] + WIDTH + h * HEAD, p->heads[0] + 2 * WIDTH + h * HEAD,
                   (int)(rows->row0 + i) + 1, 3 * WIDTH,
                   rows->sum + i * rows->sum_stride + h * HEAD);
    return 0;
}

static void make_data(void)
{
    for (int t = 0; t < TOKENS; t++)
        for (int x = 0; x < HIDDEN; x++) {
            float *const row = parts[t / OWN].tokens[x / WIDTH][t % OWN];
            row[x % WIDTH] = q[t][x] = number(1, t, x);
            row[WIDTH + x % WIDTH] = k[t][x] = number(2, t, x);
            row[2 * WIDTH + x % WIDTH] = v[t][x] = number(3, t, x);
        }
    for (int t = 0; t < TOKENS; t++) {
        rotate(q[t], t, HEADS);
        rotate(k[t], t, HEADS);
    }
    for (int t = 0; t < TOKENS; t++)
        for (int x = 0; x < HIDDEN; x++) parts[t / OWN].result[x / WIDTH][t % OWN][x % WIDTH] = NAN;
}

/* Largest distance of any element from the unsplit computation. */
static double distance(void)
{
    double most = 0;
    for (int t = 0; t < TOKENS; t++)
        for (int h = 0; h < HEADS; h++) {
            const float *const got =
                parts[t / OWN].result[h / OWN_HEADS][t % OWN] + h % OWN_HEADS * HEAD;
            double o[HEAD];
            attend_plainly(q[t], k, v, h, t + 1, o);
            for (int x = 0; x < HEAD; x++) {
                const double off = fabs(o[x] - (double)got[x]);
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

static int run(shingle_comm *const *comm, const char *first, const char *second)
{
    shingle_plan *plan[2][RANKS];
    make_data();
    for (int r = 0; r < RANKS; r++) {
        const shingle_plan_options in = {.strategy = first, .compute = arrive};
        const shingle_plan_options out = {
            .strategy = second, .compute = compute, .compute_context = &parts[r]};
        if (shingle_plan_create(comm[r], before, &in, &plan[0][r]) != SHINGLE_OK ||
            shingle_plan_create(comm[r], after, &out, &plan[1][r]) != SHINGLE_OK)
            return fail("plan");
    }
    /* Runs of a rank follow each other, so nothing is waited for in between. */
    for (int r = 0; r < RANKS; r++) {
        const shingle_tensors in = {.a = parts[r].tokens, .c = parts[r].heads};
        const shingle_tensors out = {
            .a = parts[r].heads, .c = parts[r].result, .a_stride = 3 * WIDTH};
        if (shingle_run_tensors(plan[0][r], &in, NULL) != SHINGLE_OK ||
            shingle_run_tensors(plan[1][r], &out, NULL) != SHINGLE_OK)
            return fail("run");
    }
    for (int r = 0; r < RANKS; r++)
        if (shingle_sync(comm[r], 10.0) != SHINGLE_OK) return fail("sync");
    const double most = distance();
    printf("%-10s %-10s off by at most %.1e\n", first != NULL ? first : "(chosen)",
           second != NULL ? second : "(chosen)", most);
    for (int r = 0; r < RANKS; r++) {
        shingle_plan_free(plan[0][r]);
        shingle_plan_free(plan[1][r]);
    }
    return !(most < 1e-4);
}

int main(void)
{
    static const char *const strategies[][2] = {
        {NULL, NULL}, {"serial", "serial"}, {"fused_in", "fused_out"}, {"direct", "direct"}};
    shingle_comm *comm[RANKS];
    int failed = 0;
    if (shingle_open(RANKS, NULL, comm) != SHINGLE_OK) return fail("open");
    for (int i = 0; i < 4; i++) failed += run(comm, strategies[i][0], strategies[i][1]);
    shingle_close(RANKS, comm);
    return failed > 0;
}
