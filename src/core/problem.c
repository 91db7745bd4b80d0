/* problem.c -- see problem.h. */
#include "core/problem.h"

#include <stdlib.h>
#include <string.h>

static const char *const op_names[SG_OPS] = {"gemm", "ag_gemm", "gemm_rs", "gemm_ar"};
static const char *const type_names[SG_TYPES] = {"f32", "bf16", "f16"};
static const char *const act_names[SG_ACTS] = {"none", "relu", "gelu", "silu"};

int sg_type_bytes(sg_type type)
{
    return type == SG_F32 ? 4 : 2;
}

const char *sg_type_name(sg_type type)
{
    return type_names[type];
}

const char *sg_op_name(sg_op op)
{
    return op_names[op];
}

const char *sg_act_name(sg_act act)
{
    return act_names[act];
}

sg_in sg_problem_in(const sg_problem *problem)
{
    return problem->op == SG_OP_AG_GEMM ? SG_IN_GATHER : SG_IN_NONE;
}

sg_out sg_problem_out(const sg_problem *problem)
{
    if (problem->op == SG_OP_GEMM_RS) return SG_OUT_SCATTER;
    return problem->op == SG_OP_GEMM_AR ? SG_OUT_ALL : SG_OUT_NONE;
}

int64_t sg_problem_a_rows(const sg_problem *problem, int rank)
{
    return sg_problem_in(problem) == SG_IN_GATHER ? problem->share[rank].rows : problem->m;
}

int64_t sg_problem_c_rows(const sg_problem *problem, int rank)
{
    return sg_problem_out(problem) == SG_OUT_SCATTER ? problem->share[rank].rows : problem->m;
}

int64_t sg_problem_max_own_rows(const sg_problem *problem)
{
    int64_t most = 0;
    for (int r = 0; r < problem->ranks; r++) most = sg_max(most, problem->share[r].rows);
    return most;
}

bool sg_problem_has_epilogue(const sg_problem *problem)
{
    return problem->bias || problem->act != SG_ACT_NONE;
}

void sg_problem_free(sg_problem *problem)
{
    free(problem->segments);
    free(problem->share);
    problem->segments = NULL;
    problem->share = NULL;
}

/* ---- Ownership ------------------------------------------------------------------------------------ */

/* Rows of share RANK of an even split. */
static int64_t even_rows(int64_t m, int ranks, int rank)
{
    return m / ranks + (rank < m % ranks ? 1 : 0);
}

static void add_segment(sg_problem *p, int owner, int64_t *row, int64_t rows)
{
    if (rows == 0) return;
    sg_segment *const segment = &p->segments[p->segment_count];
    sg_share *const share = &p->share[owner];
    *segment = (sg_segment){
        .row0 = *row, .rows = rows, .own_row = share->rows, .owner = owner, .next = -1};
    share->rows += rows;
    p->segment_count++;
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
    }
}

static shingle_status own(sg_problem *p, const int64_t *rows, int64_t cyclic)
{
    const int64_t blocks = cyclic > 0 ? sg_ceil_div(p->m, cyclic) : p->ranks;
    if (blocks > INT64_C(1) << 16)
        return sg_fail(SHINGLE_EINVAL, "cyclic=%lld cuts m %lld into %lld blocks; at most 65536",
                       (long long)cyclic, (long long)p->m, (long long)blocks);
    p->segments = malloc((size_t)sg_max(blocks, 1) * sizeof *p->segments);
    p->share = calloc((size_t)p->ranks, sizeof *p->share);
    if (p->segments == NULL || p->share == NULL) {
        sg_problem_free(p);
        return sg_fail(SHINGLE_ENOMEM, "no memory for the rows of %d ranks", p->ranks);
    }
    int64_t row = 0;
    if (cyclic > 0) {
        for (int64_t i = 0; i < blocks; i++)
            add_segment(p, (int)(i % p->ranks), &row, sg_min(cyclic, p->m - row));
    } else {
        for (int r = 0; r < p->ranks; r++)
            add_segment(p, r, &row, rows ? rows[r] : even_rows(p->m, p->ranks, r));
    }
    link_shares(p);
    return SHINGLE_OK;
}

static shingle_status check_extent(const char *name, int64_t value)
{
    if (value < 0 || value > SG_MAX_EXTENT)
        return sg_fail(SHINGLE_EINVAL, "%s is %lld; 0 to %lld is possible", name, (long long)value,
                       (long long)SG_MAX_EXTENT);
    return SHINGLE_OK;
}

shingle_status sg_problem_make(sg_op op, sg_type type, int64_t m, int64_t n, int64_t k, int ranks,
                               const int64_t *rows, int64_t cyclic, sg_problem *problem_out)
{
    SG_TRY(check_extent("m", m));
    SG_TRY(check_extent("n", n));
    SG_TRY(check_extent("k", k));
    if (ranks < 1 || ranks > SG_MAX_RANKS)
        return sg_fail(SHINGLE_EINVAL, "%d ranks; 1 to %d are possible", ranks, SG_MAX_RANKS);
    if (rows != NULL) {
        int64_t sum = 0;
        for (int r = 0; r < ranks; r++) {
            if (rows[r] < 0 || rows[r] > m)
                return sg_fail(SHINGLE_EINVAL, "rank %d owns %lld rows; 0 to m %lld are possible",
                               r, (long long)rows[r], (long long)m);
            sum += rows[r];
        }
        if (sum != m)
            return sg_fail(SHINGLE_EINVAL, "rows= add up to %lld; m is %lld", (long long)sum,
                           (long long)m);
    }
    sg_problem p = {.op = op, .type = type, .ranks = ranks, .m = m, .n = n, .k = k};
    SG_TRY(own(&p, rows, cyclic));
    *problem_out = p;
    return SHINGLE_OK;
}

shingle_status sg_problem_copy(const sg_problem *problem, sg_problem *copy_out)
{
    sg_problem copy = *problem;
    const size_t segment_bytes = (size_t)problem->segment_count * sizeof *copy.segments;
    const size_t share_bytes = (size_t)problem->ranks * sizeof *copy.share;
    copy.segments = malloc(segment_bytes ? segment_bytes : 1);
    copy.share = malloc(share_bytes);
    if (copy.segments == NULL || copy.share == NULL) {
        sg_problem_free(&copy);
        return sg_fail(SHINGLE_ENOMEM, "no memory for the rows of %d ranks", problem->ranks);
    }
    memcpy(copy.segments, problem->segments, segment_bytes);
    memcpy(copy.share, problem->share, share_bytes);
    *copy_out = copy;
    return SHINGLE_OK;
}

/* ---- Text ------------------------------------------------------------------------------------------ */

typedef struct reader {
    const char *text;
    size_t at;
} reader;

static shingle_status expect(const reader *r, const char *what)
{
    return sg_fail(SHINGLE_EINVAL, "problem \"%.60s\", column %zu: %s expected", r->text, r->at + 1,
                   what);
}

/* A word of letters, digits and underscores; its length. */
static size_t word_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
}

static bool take_name(reader *r, const char *const *names, int count, int *index_out)
{
    const size_t length = word_length(r->text + r->at);
    for (int i = 0; i < count; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], r->text + r->at, length) == 0) {
            r->at += length;
            *index_out = i;
            return true;
        }
    }
    return false;
}

static bool take_char(reader *r, char c)
{
    if (r->text[r->at] != c) return false;
    r->at++;
    return true;
}

/* A number of 0 to SG_MAX_EXTENT. */
static shingle_status take_number(reader *r, const char *what, int64_t *value_out)
{
    int64_t value = 0;
    const size_t start = r->at;
    while (r->text[r->at] >= '0' && r->text[r->at] <= '9') {
        value = value * 10 + (r->text[r->at] - '0');
        if (value > SG_MAX_EXTENT) {
            r->at = start;
            return expect(r, "a number up to 2147483647");
        }
        r->at++;
    }
    if (r->at == start) return expect(r, what);
    *value_out = value;
    return SHINGLE_OK;
}

static shingle_status take_rows(reader *r, int ranks, int64_t *rows)
{
    for (int i = 0; i < ranks; i++) {
        if (i > 0 && !take_char(r, ',')) return expect(r, "\",\" and the rows of the next rank");
        SG_TRY(take_number(r, "a number of rows", &rows[i]));
    }
    if (r->text[r->at] == ',') return expect(r, "the end of rows=, one number per rank");
    return SHINGLE_OK;
}

typedef struct options {
    int64_t *rows; /* NULL if not given */
    int64_t cyclic;
    bool bias;
    int act;
} options;

static shingle_status take_option(reader *r, int ranks, options *o)
{
    const char *const what = "rows=, cyclic=, bias, relu, gelu or silu";
    int act = 0;
    if (strncmp(r->text + r->at, "rows=", 5) == 0 && o->rows == NULL && o->cyclic == 0) {
        r->at += 5;
        o->rows = calloc((size_t)ranks, sizeof *o->rows);
        if (o->rows == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %d ranks", ranks);
        return take_rows(r, ranks, o->rows);
    }
    if (strncmp(r->text + r->at, "cyclic=", 7) == 0 && o->rows == NULL && o->cyclic == 0) {
        r->at += 7;
        const reader value = *r;
        SG_TRY(take_number(r, "a number of rows", &o->cyclic));
        return o->cyclic > 0 ? SHINGLE_OK : expect(&value, "a number of at least 1");
    }
    if (word_length(r->text + r->at) == 4 && strncmp(r->text + r->at, "bias", 4) == 0 && !o->bias) {
        r->at += 4;
        o->bias = true;
        return SHINGLE_OK;
    }
    if (o->act == SG_ACT_NONE && take_name(r, act_names + 1, SG_ACTS - 1, &act)) {
        o->act = act + 1;
        return SHINGLE_OK;
    }
    return expect(r, what);
}

static shingle_status parse(reader *r, options *o, sg_problem *problem_out)
{
    int op = 0;
    int type = 0;
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
    int64_t ranks = 0;
    if (!take_name(r, op_names, SG_OPS, &op)) return expect(r, "ag_gemm, gemm_rs, gemm_ar or gemm");
    if (!take_char(r, ':')) return expect(r, "\":\"");
    if (!take_name(r, type_names, SG_TYPES, &type)) return expect(r, "f32, bf16 or f16");
    if (!take_char(r, ':')) return expect(r, "\":\"");
    SG_TRY(take_number(r, "m of MxNxK", &m));
    if (!take_char(r, 'x')) return expect(r, "\"x\"");
    SG_TRY(take_number(r, "n of MxNxK", &n));
    if (!take_char(r, 'x')) return expect(r, "\"x\"");
    SG_TRY(take_number(r, "k of MxNxK", &k));
    if (!take_char(r, ':') || !take_char(r, 'r')) return expect(r, "\":rRANKS\"");
    SG_TRY(take_number(r, "a number of ranks", &ranks));
    if (ranks < 1 || ranks > SG_MAX_RANKS)
        return sg_fail(SHINGLE_EINVAL, "problem \"%.60s\": %lld ranks; 1 to %d are possible",
                       r->text, (long long)ranks, SG_MAX_RANKS);
    while (take_char(r, ':')) SG_TRY(take_option(r, (int)ranks, o));
    if (r->text[r->at] != '\0') return expect(r, "\":\" or the end");

    SG_TRY(sg_problem_make((sg_op)op, (sg_type)type, m, n, k, (int)ranks, o->rows, o->cyclic,
                           problem_out));
    problem_out->bias = o->bias;
    problem_out->act = (sg_act)o->act;
    return SHINGLE_OK;
}

shingle_status sg_problem_parse(const char *text, sg_problem *problem_out)
{
    if (text == NULL)
        return sg_fail(SHINGLE_EINVAL, "no problem given; e.g. ag_gemm:bf16:512x1024x768:r4");
    reader r = {text, 0};
    options o = {NULL, 0, false, SG_ACT_NONE};
    const shingle_status status = parse(&r, &o, problem_out);
    free(o.rows);
    return status;
}

/* Is the ownership what an even split gives? */
static bool is_even(const sg_problem *p)
{
    int64_t base = 0;
    for (int r = 0; r < p->ranks; r++) {
        const sg_share *const share = &p->share[r];
        if (share->rows != even_rows(p->m, p->ranks, r)) return false;
        if (share->rows > 0 &&
            (p->segments[share->first].row0 != base || p->segments[share->first].next >= 0))
            return false;
        base += share->rows;
    }
    return true;
}

size_t sg_problem_print(const sg_problem *p, char *text, size_t room)
{
    sg_text t = {text, room, 0};
    sg_text_add(&t, "%s:%s:%lldx%lldx%lld:r%d", sg_op_name(p->op), sg_type_name(p->type),
                (long long)p->m, (long long)p->n, (long long)p->k, p->ranks);
    if (!is_even(p)) {
        bool cyclic = false;
        for (int r = 0; r < p->ranks && !cyclic; r++)
            cyclic = p->share[r].first >= 0 && p->segments[p->share[r].first].next >= 0;
        if (cyclic) {
            sg_text_add(&t, ":cyclic=%lld", (long long)p->segments[0].rows);
        } else {
            for (int r = 0; r < p->ranks; r++)
                sg_text_add(&t, "%s%lld", r ? "," : ":rows=", (long long)p->share[r].rows);
        }
    }
    if (p->bias) sg_text_add(&t, ":bias");
    if (p->act != SG_ACT_NONE) sg_text_add(&t, ":%s", sg_act_name(p->act));
    return t.length;
}

shingle_status shingle_problem_shape(const char *problem, int rank, shingle_shape *shape_out)
{
    sg_problem p;
    SG_TRY(sg_problem_parse(problem, &p));
    if (rank < 0 || rank >= p.ranks) {
        const int ranks = p.ranks;
        sg_problem_free(&p);
        return sg_fail(SHINGLE_EINVAL, "rank %d of \"%.60s\"; 0 to %d are its ranks", rank, problem,
                       ranks - 1);
    }
    *shape_out = (shingle_shape){.ranks = p.ranks,
                                 .m = p.m,
                                 .n = p.n,
                                 .k = p.k,
                                 .a_rows = sg_problem_a_rows(&p, rank),
                                 .c_rows = sg_problem_c_rows(&p, rank),
                                 .element_bytes = sg_type_bytes(p.type),
                                 .has_bias = p.bias};
    memcpy(shape_out->op, sg_op_name(p.op), strlen(sg_op_name(p.op)) + 1);
    memcpy(shape_out->type, sg_type_name(p.type), strlen(sg_type_name(p.type)) + 1);
    sg_problem_free(&p);
    return SHINGLE_OK;
}
