/* problem.c -- see problem.h; the text form is in problem_text.c. */
#include "core/problem.h"

#include <stdlib.h>
#include <string.h>

int sg_type_bytes(sg_type type)
{
    return type == SG_F32 ? 4 : 2;
}

sg_in sg_problem_in(const sg_problem *problem)
{
    if (problem->op == SG_OP_AG_GEMM) return SG_IN_GATHER;
    return problem->op == SG_OP_A2A_GEMM ? SG_IN_EXCHANGE : SG_IN_NONE;
}

sg_out sg_problem_out(const sg_problem *problem)
{
    switch (problem->op) {
    case SG_OP_GEMM_RS: return SG_OUT_SCATTER;
    case SG_OP_GEMM_AR: return SG_OUT_ALL;
    case SG_OP_GEMM_A2A: return SG_OUT_EXCHANGE;
    default: return SG_OUT_NONE;
    }
}

bool sg_problem_sums(const sg_problem *problem)
{
    const sg_out out = sg_problem_out(problem);
    return out == SG_OUT_SCATTER || out == SG_OUT_ALL;
}

float sg_problem_epsilon(const sg_problem *p)
{
    double unit = 1;
    for (int32_t i = 0; i < p->epsilon.places; i++) unit *= 10; /* exact up to 1e22 */
    return (float)(p->epsilon.digits / unit);
}

bool sg_problem_has_epilogue(const sg_problem *problem)
{
    return problem->bias || problem->act != SG_ACT_NONE;
}

bool sg_problem_straddles(const sg_problem *problem)
{
    enum { SECTOR = 32 };
    return problem->k * sg_type_bytes(problem->type) % SECTOR != 0;
}

enum { EVEN_BYTES = 16 };

bool sg_problem_has_odd_k(const sg_problem *problem)
{
    return problem->k * sg_type_bytes(problem->type) % EVEN_BYTES != 0;
}

bool sg_problem_has_odd_n(const sg_problem *problem)
{
    bool odd = false;
    for (int i = 0; i < problem->b_count; i++)
        odd |= problem->b_cols[i] * sg_type_bytes(problem->type) % EVEN_BYTES != 0;
    return odd;
}

double sg_problem_flops(const sg_problem *problem, double rows, double cols, double depth)
{
    return problem->call ? rows * (double)problem->call_flops : 2 * rows * cols * depth;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Rows of share RANK of an even split. */
static int64_t even_rows(int64_t m, int ranks, int rank)
{
    return m / ranks + (rank < m % ranks ? 1 : 0);
}

/* Rows of the shares below RANK. */
static int64_t even_base(int64_t m, int ranks, int rank)
{
    return rank * (m / ranks) + sg_min(rank, m % ranks);
}

int64_t sg_problem_dealt_rows(sg_op op, int64_t extent, int ranks, int rank)
{
    enum { RUN = 64, PART = 8 };
    const int64_t even = sg_ceil_div(extent, ranks), most = sg_round_up(even, RUN);
    if (op != SG_OP_GEMM_AR || even <= RUN || PART * (most - even) > even)
        return even_rows(extent, ranks, rank);
    const int64_t runs = sg_ceil_div(extent, RUN), base = RUN * even_base(runs, ranks, rank);
    return sg_min(RUN * even_rows(runs, ranks, rank), sg_max(0, extent - base));
}

static bool is_exchange(const sg_problem *p)
{
    return p->op == SG_OP_A2A_GEMM || p->op == SG_OP_GEMM_A2A;
}

sg_part sg_problem_part(const sg_problem *p, int rank, int owner)
{
    if (!is_exchange(p)) return (sg_part){p->share[owner].rows, p->share[owner].base, 0};
    if (p->counts == NULL) {
        const int64_t rows = even_rows(p->m, p->ranks, owner);
        return (sg_part){rows, even_base(p->m, p->ranks, owner), rank * rows};
    }
    const int64_t pair = (int64_t)rank * p->ranks + owner;
    return (sg_part){p->counts[pair], p->in_product[pair], p->in_owner[pair]};
}

int64_t sg_problem_rows(const sg_problem *p, int rank)
{
    if (p->counts == NULL) return p->m;
    const int64_t last = (int64_t)rank * p->ranks + p->ranks - 1;
    return p->in_product[last] + p->counts[last];
}

/* Rows of an all-to-all in OWNER's matrix. */
static int64_t owner_rows(const sg_problem *p, int owner)
{
    const sg_part last = sg_problem_part(p, p->ranks - 1, owner);
    return last.held + last.rows;
}

int64_t sg_problem_a_rows(const sg_problem *p, int rank)
{
    if (p->op == SG_OP_A2A_GEMM) return owner_rows(p, rank);
    if (p->op == SG_OP_AG_GEMM && p->gather == SG_GATHER_A) return p->share[rank].rows;
    return sg_problem_rows(p, rank);
}

int64_t sg_problem_a_cols(const sg_problem *p, int rank)
{
    return p->gather == SG_GATHER_K ? p->share[rank].rows : p->k;
}

int64_t sg_problem_b_rows(const sg_problem *p, int rank)
{
    return p->gather == SG_GATHER_B ? p->share[rank].rows : p->n;
}

int64_t sg_problem_c_rows(const sg_problem *p, int rank)
{
    if (p->op == SG_OP_GEMM_A2A) return owner_rows(p, rank);
    if (p->op == SG_OP_GEMM_RS) return p->share[rank].rows;
    return sg_problem_rows(p, rank);
}

int64_t sg_problem_returned_rows(const sg_problem *p, int rank)
{
    return p->return_a ? sg_problem_rows(p, rank) : 0;
}

int64_t sg_problem_residual_rows(const sg_problem *p, int rank)
{
    return p->norm ? sg_problem_c_rows(p, rank) : 0;
}

int sg_problem_b_at(const sg_problem *p, int64_t col, int64_t *low_out, int64_t *high_out)
{
    int b = 0;
    int64_t low = 0;
    for (; b < p->b_count - 1 && col >= low + p->b_cols[b]; b++) low += p->b_cols[b];
    *low_out = low;
    *high_out = low + p->b_cols[b];
    return b;
}

int64_t sg_problem_col_tiles(const sg_problem *p, int32_t tile_n)
{
    if (p->call) return 1;
    int64_t tiles = 0;
    for (int i = 0; i < p->b_count; i++) tiles += sg_ceil_div(p->b_cols[i], tile_n);
    return tiles;
}

/* ---- Ownership ------------------------------------------------------------------------------- */

/* Rows of what moves, as problem.h counts them. */
static int64_t moved_rows(const sg_problem *p)
{
    return p->gather == SG_GATHER_B ? p->n : p->gather == SG_GATHER_K ? p->k : p->m;
}

/* Rows that lie behind others of their owner's are one segment with them. */
static void add_segment(sg_problem *p, int owner, int64_t *row, int64_t rows)
{
    if (rows == 0) return;
    const int32_t count = p->segment_count;
    sg_share *const share = &p->share[owner];
    if (count > 0 && p->segments[count - 1].owner == owner)
        p->segments[count - 1].rows += rows;
    else
        p->segments[p->segment_count++] = (sg_segment){
            .row0 = *row, .rows = rows, .own_row = share->rows, .owner = owner, .next = -1};
    share->rows += rows;
    *row += rows;
}

/* Chains the segments of each owner in list order, and sums the bases. */
static void link_shares(sg_problem *p)
{
    for (int r = 0; r < p->ranks; r++) p->share[r].first = -1;
    for (int32_t i = p->segment_count; i-- > 0;) {
        sg_share *const share = &p->share[p->segments[i].owner];
        p->segments[i].next = share->first;
        share->first = i;
    }
    int64_t base = 0;
    for (int r = 0; r < p->ranks; r++) {
        p->share[r].base = base;
        base += p->share[r].rows;
        p->most_rows = sg_max(p->most_rows, p->share[r].rows);
    }
}

/* Counts that are what an even split gives are not kept: equal problems are equal. */
static void drop_even_counts(sg_problem *p)
{
    for (int64_t r = 0; r < p->ranks; r++)
        for (int q = 0; q < p->ranks; q++)
            if (p->counts[r * p->ranks + q] != even_rows(p->m, p->ranks, q)) return;
    free(p->counts);
    free(p->in_product);
    free(p->in_owner);
    p->counts = p->in_product = p->in_owner = NULL;
}

static shingle_status no_memory(int ranks)
{
    return sg_fail(SHINGLE_ENOMEM, "no memory for the rows of %d ranks", ranks);
}

static shingle_status deal_rows(sg_problem *p, const int64_t *rows, int64_t cyclic)
{
    const int64_t extent = moved_rows(p);
    const int64_t blocks = cyclic > 0 ? sg_ceil_div(extent, cyclic) : p->ranks;
    if (blocks > INT64_C(1) << 16)
        return sg_fail(SHINGLE_EINVAL, "cyclic=%lld cuts %lld rows into %lld blocks; at most 65536",
                       (long long)cyclic, (long long)extent, (long long)blocks);
    p->segments = malloc((size_t)sg_max(blocks, 1) * sizeof *p->segments);
    p->share = calloc((size_t)p->ranks, sizeof *p->share);
    if (p->segments == NULL || p->share == NULL) return no_memory(p->ranks);
    int64_t row = 0;
    if (cyclic > 0) {
        for (int64_t i = 0; i < blocks; i++)
            add_segment(p, (int)(i % p->ranks), &row, sg_min(cyclic, extent - row));
    } else {
        for (int r = 0; r < p->ranks; r++)
            add_segment(p, r, &row,
                        rows ? rows[r] : sg_problem_dealt_rows(p->op, extent, p->ranks, r));
    }
    link_shares(p);
    return SHINGLE_OK;
}

/* Takes COUNTS, [source][destination], and sums them along products and along owners. */
static shingle_status take_counts(sg_problem *p, const int64_t *counts)
{
    const int64_t ranks = p->ranks;
    const size_t bytes = (size_t)(ranks * ranks) * sizeof *counts;
    p->counts = malloc(bytes);
    p->in_product = malloc(bytes);
    p->in_owner = malloc(bytes);
    if (p->counts == NULL || p->in_product == NULL || p->in_owner == NULL)
        return no_memory(p->ranks);
    const bool owner_sends = p->op == SG_OP_A2A_GEMM;
    int64_t most = 0;
    for (int64_t r = 0; r < ranks; r++) {
        int64_t row = 0;
        for (int64_t q = 0; q < ranks; q++) {
            const int64_t rows = owner_sends ? counts[q * ranks + r] : counts[r * ranks + q];
            if (rows < 0 || rows > p->m)
                return sg_fail(SHINGLE_EINVAL,
                               "rank %lld sends %lld rows to rank %lld; 0 to m %lld are possible",
                               (long long)(owner_sends ? q : r), (long long)rows,
                               (long long)(owner_sends ? r : q), (long long)p->m);
            p->counts[r * ranks + q] = rows;
            p->in_product[r * ranks + q] = row;
            p->most_rows = sg_max(p->most_rows, rows);
            row += rows;
        }
        most = sg_max(most, row);
    }
    for (int64_t q = 0; q < ranks; q++) {
        int64_t row = 0;
        for (int64_t r = 0; r < ranks; r++) {
            p->in_owner[r * ranks + q] = row;
            row += p->counts[r * ranks + q];
        }
        if (row > SG_MAX_EXTENT)
            return sg_fail(SHINGLE_EINVAL, "counts= give rank %lld %lld rows; at most %lld",
                           (long long)q, (long long)row, (long long)SG_MAX_EXTENT);
    }
    if (most != p->m)
        return sg_fail(SHINGLE_EINVAL, "counts= make products of up to %lld rows; m is %lld",
                       (long long)most, (long long)p->m);
    drop_even_counts(p);
    return SHINGLE_OK;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static shingle_status check_extent(const char *name, int64_t value)
{
    if (value < 0 || value > SG_MAX_EXTENT)
        return sg_fail(SHINGLE_EINVAL, "%s is %lld; 0 to %lld is possible", name, (long long)value,
                       (long long)SG_MAX_EXTENT);
    return SHINGLE_OK;
}

static shingle_status check_rows(const sg_problem *p, const int64_t *rows)
{
    const int64_t extent = moved_rows(p);
    const char *const name = p->gather == SG_GATHER_B ? "n" : p->gather == SG_GATHER_K ? "k" : "m";
    int64_t sum = 0;
    for (int r = 0; r < p->ranks; r++) {
        if (rows[r] < 0 || rows[r] > extent)
            return sg_fail(SHINGLE_EINVAL, "rank %d owns %lld rows; 0 to %s %lld are possible", r,
                           (long long)rows[r], name, (long long)extent);
        sum += rows[r];
    }
    if (sum == extent) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL, "rows= add up to %lld; %s is %lld", (long long)sum, name,
                   (long long)extent);
}

/* Several B, and A as an output. */
static shingle_status check_shared(const sg_ask *ask)
{
    const bool arrives = ask->op == SG_OP_AG_GEMM || ask->op == SG_OP_A2A_GEMM;
    const char *const gather = sg_gather_name(ask->gather);
    if (ask->return_a && (!arrives || ask->gather != SG_GATHER_A))
        return arrives
                   ? sg_fail(SHINGLE_EINVAL, "return_a with gather=%s; it returns rows of A",
                             gather)
                   : sg_fail(SHINGLE_EINVAL, "return_a with %s; it goes with ag_gemm and a2a_gemm",
                             sg_op_name(ask->op));
    if (ask->return_a && ask->n == 0)
        return sg_fail(SHINGLE_EINVAL, "return_a with n 0; rows arrive to be multiplied");
    if (ask->b_count == 0) return SHINGLE_OK;
    if (ask->b_count > SHINGLE_MOST_B)
        return sg_fail(SHINGLE_EINVAL, "%d B; at most %d", (int)ask->b_count, SHINGLE_MOST_B);
    int64_t sum = 0;
    for (int i = 0; i < ask->b_count; i++) {
        if (ask->b_cols[i] < 1 || ask->b_cols[i] > ask->n)
            return sg_fail(SHINGLE_EINVAL, "b= gives B %d %lld columns; 1 to n %lld are possible",
                           i + 1, (long long)ask->b_cols[i], (long long)ask->n);
        sum += ask->b_cols[i];
    }
    if (sum != ask->n)
        return sg_fail(SHINGLE_EINVAL, "b= add up to %lld; n is %lld", (long long)sum,
                       (long long)ask->n);
    if (!arrives && ask->op != SG_OP_GEMM)
        return sg_fail(SHINGLE_EINVAL, "b= with %s; it goes with ag_gemm, a2a_gemm and gemm",
                       sg_op_name(ask->op));
    if (ask->call) return sg_fail(SHINGLE_EINVAL, "b= with call; a call makes whole rows of one C");
    if (ask->gather == SG_GATHER_A) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL, "b= with gather=%s; several B share rows of A", gather);
}

/* A residual, and the norm of what it is added to. */
static shingle_status check_norm(const sg_ask *ask)
{
    if (ask->op != SG_OP_GEMM_RS && ask->op != SG_OP_GEMM_AR)
        return sg_fail(SHINGLE_EINVAL, "norm with %s; it goes with gemm_rs and gemm_ar",
                       sg_op_name(ask->op));
    if (ask->call || ask->act != SG_ACT_NONE)
        return sg_fail(SHINGLE_EINVAL, "norm with %s; it norms sums of products and a bias",
                       ask->call ? "call" : sg_act_name(ask->act));
    const sg_decimal e = ask->epsilon;
    if (e.digits >= 0 && e.digits <= SG_MOST_DIGITS && e.places >= 0 && e.places <= SG_MOST_PLACES)
        return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL, "norm=%de-%d; 1 to %d digits and %d places are possible",
                   (int)e.digits, (int)e.places, 6, SG_MOST_PLACES);
}

/* Equal problems print equal. */
static sg_decimal shortest(sg_decimal e)
{
    if (e.digits == 0) return (sg_decimal){1, 5};
    for (; e.digits % 10 == 0 && e.places > 0; e.digits /= 10) e.places--;
    return e;
}

/* What does not go together. */
static shingle_status check_attributes(const sg_ask *ask)
{
    const bool exchange = ask->op == SG_OP_A2A_GEMM || ask->op == SG_OP_GEMM_A2A;
    const char *const op = sg_op_name(ask->op);
    if (ask->gather != SG_GATHER_A && ask->op != SG_OP_AG_GEMM)
        return sg_fail(SHINGLE_EINVAL, "gather=%s with %s; it goes with ag_gemm",
                       sg_gather_name(ask->gather), op);
    if (ask->counts != NULL && !exchange)
        return sg_fail(SHINGLE_EINVAL, "counts= with %s; it goes with a2a_gemm and gemm_a2a", op);
    if (exchange && (ask->rows != NULL || ask->cyclic > 0))
        return sg_fail(SHINGLE_EINVAL, "%s= with %s; counts= says which rows go where",
                       ask->rows != NULL ? "rows" : "cyclic", op);
    if (ask->accumulate && ask->op != SG_OP_GEMM && ask->op != SG_OP_AG_GEMM)
        return sg_fail(SHINGLE_EINVAL, "accumulate with %s; it goes with gemm and ag_gemm", op);
    if (ask->accumulate && (ask->bias || ask->act != SG_ACT_NONE))
        return sg_fail(SHINGLE_EINVAL, "accumulate with %s; C holds sums without either",
                       ask->bias ? "bias" : sg_act_name(ask->act));
    if (ask->norm) SG_TRY(check_norm(ask));
    if (!ask->call) return SHINGLE_OK;
    if (ask->accumulate || ask->gather != SG_GATHER_A)
        return sg_fail(SHINGLE_EINVAL,
                       "call with %s%s; a call makes whole rows of C from rows of A",
                       ask->accumulate ? "accumulate" : "gather=",
                       ask->accumulate ? "" : sg_gather_name(ask->gather));
    if (ask->k == 0) return sg_fail(SHINGLE_EINVAL, "call with k 0; a call needs columns of A");
    return SHINGLE_OK;
}

/* An even all-to-all gives the first rank the most rows of each. */
static shingle_status check_exchange(const sg_ask *ask)
{
    if ((ask->op != SG_OP_A2A_GEMM && ask->op != SG_OP_GEMM_A2A) || ask->counts != NULL)
        return SHINGLE_OK;
    const int64_t rows = sg_ceil_div(ask->m, ask->ranks) * ask->ranks;
    if (rows <= SG_MAX_EXTENT) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL, "m %lld gives rank 0 %lld rows; at most %lld", (long long)ask->m,
                   (long long)rows, (long long)SG_MAX_EXTENT);
}

static shingle_status check_ask(const sg_ask *ask)
{
    SG_TRY(check_extent("m", ask->m));
    SG_TRY(check_extent("n", ask->n));
    SG_TRY(check_extent("k", ask->k));
    if (ask->ranks < 1 || ask->ranks > SG_MAX_RANKS)
        return sg_fail(SHINGLE_EINVAL, "%d ranks; 1 to %d are possible", ask->ranks, SG_MAX_RANKS);
    SG_TRY(check_exchange(ask));
    return check_attributes(ask);
}

shingle_status sg_problem_ask(const sg_ask *ask, sg_problem *problem_out)
{
    SG_TRY(check_ask(ask));
    SG_TRY(check_shared(ask));
    sg_problem p = {.op = ask->op,
                    .type = ask->type,
                    .act = ask->act,
                    .gather = ask->gather,
                    .bias = ask->bias,
                    .accumulate = ask->accumulate,
                    .call = ask->call,
                    .return_a = ask->return_a,
                    .norm = ask->norm,
                    .epsilon = ask->norm ? shortest(ask->epsilon) : (sg_decimal){0, 0},
                    .ranks = ask->ranks,
                    .m = ask->m,
                    .n = ask->n,
                    .k = ask->k,
                    .call_flops = ask->call ? ask->call_flops : 0,
                    .b_count = (int32_t)sg_max(ask->b_count, 1),
                    .b_cols = {ask->n}};
    for (int i = 0; i < ask->b_count; i++) p.b_cols[i] = ask->b_cols[i];
    if (ask->rows != NULL) SG_TRY(check_rows(&p, ask->rows));
    shingle_status status = deal_rows(&p, ask->rows, ask->cyclic);
    if (status == SHINGLE_OK && ask->counts != NULL) status = take_counts(&p, ask->counts);
    if (status == SHINGLE_OK)
        *problem_out = p;
    else
        sg_problem_free(&p);
    return status;
}

shingle_status sg_problem_make(sg_op op, sg_type type, int64_t m, int64_t n, int64_t k, int ranks,
                               const int64_t *rows, int64_t cyclic, sg_problem *problem_out)
{
    const sg_ask ask = {.op = op,
                        .type = type,
                        .ranks = ranks,
                        .m = m,
                        .n = n,
                        .k = k,
                        .rows = rows,
                        .cyclic = cyclic};
    return sg_problem_ask(&ask, problem_out);
}

void sg_problem_free(sg_problem *problem)
{
    free(problem->segments);
    free(problem->share);
    free(problem->counts);
    free(problem->in_product);
    free(problem->in_owner);
    problem->segments = NULL;
    problem->share = NULL;
    problem->counts = problem->in_product = problem->in_owner = NULL;
}

/* COUNT elements of SIZE bytes of their own; NULL stays NULL. */
static bool copy_list(void *list_out, const void *list, int64_t count, size_t size)
{
    void *copy = NULL;
    if (list != NULL) {
        copy = malloc((size_t)sg_max(count, 1) * size);
        if (copy == NULL) return false;
        memcpy(copy, list, (size_t)count * size);
    }
    memcpy(list_out, &copy, sizeof copy);
    return true;
}

shingle_status sg_problem_copy(const sg_problem *p, sg_problem *copy_out)
{
    sg_problem copy = *p;
    const int64_t pairs = (int64_t)p->ranks * p->ranks;
    copy.segments = NULL;
    copy.share = NULL;
    copy.counts = copy.in_product = copy.in_owner = NULL;
    if (!copy_list(&copy.segments, p->segments, p->segment_count, sizeof *p->segments) ||
        !copy_list(&copy.share, p->share, p->ranks, sizeof *p->share) ||
        !copy_list(&copy.counts, p->counts, pairs, sizeof *p->counts) ||
        !copy_list(&copy.in_product, p->in_product, pairs, sizeof *p->in_product) ||
        !copy_list(&copy.in_owner, p->in_owner, pairs, sizeof *p->in_owner)) {
        sg_problem_free(&copy);
        return no_memory(p->ranks);
    }
    *copy_out = copy;
    return SHINGLE_OK;
}

shingle_status shingle_problem_shape(const char *problem, int rank, shingle_shape *shape_out)
{
    if (shape_out == NULL) return sg_fail(SHINGLE_EINVAL, "no place for the shape");
    sg_problem p;
    SG_TRY(sg_problem_parse(problem, &p));
    if (rank < 0 || rank >= p.ranks) {
        const int ranks = p.ranks;
        sg_problem_free(&p);
        return sg_fail(SHINGLE_EINVAL, "rank %d of \"%s\"; 0 to %d are its ranks", rank,
                       sg_quote(problem, 0).text, ranks - 1);
    }
    *shape_out = (shingle_shape){.ranks = p.ranks,
                                 .m = p.m,
                                 .n = p.n,
                                 .k = p.k,
                                 .a_rows = sg_problem_a_rows(&p, rank),
                                 .a_cols = sg_problem_a_cols(&p, rank),
                                 .b_rows = sg_problem_b_rows(&p, rank),
                                 .c_rows = sg_problem_c_rows(&p, rank),
                                 .element_bytes = sg_type_bytes(p.type),
                                 .has_bias = p.bias,
                                 .returned_rows = sg_problem_returned_rows(&p, rank),
                                 .has_norm = p.norm,
                                 .epsilon = p.norm ? (double)sg_problem_epsilon(&p) : 0,
                                 .gather = p.op == SG_OP_AG_GEMM ? "abk"[p.gather] : '\0',
                                 .accumulates = p.accumulate,
                                 .is_call = p.call,
                                 .b_count = p.b_count};
    for (int i = 0; i < p.b_count; i++) shape_out->b_cols[i] = p.b_cols[i];
    memcpy(shape_out->op, sg_op_name(p.op), strlen(sg_op_name(p.op)) + 1);
    if (p.act != SG_ACT_NONE)
        memcpy(shape_out->act, sg_act_name(p.act), strlen(sg_act_name(p.act)) + 1);
    memcpy(shape_out->type, sg_type_name(p.type), strlen(sg_type_name(p.type)) + 1);
    sg_problem_free(&p);
    return SHINGLE_OK;
}
