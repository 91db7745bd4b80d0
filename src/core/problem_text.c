/* problem_text.c -- problems as text, see problem.h and docs/problem.md. */
#include "core/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[SG_OPS] = {"gemm",    "ag_gemm",  "gemm_rs",
                                             "gemm_ar", "a2a_gemm", "gemm_a2a"};
static const char *const type_names[SG_TYPES] = {"f32", "bf16", "f16"};
static const char *const act_names[SG_ACTS] = {"none", "relu", "gelu", "silu"};
static const char *const gather_names[SG_GATHERS] = {"a", "b", "k"};

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

const char *sg_gather_name(sg_gather gather)
{
    return gather_names[gather];
}

/* ---- Parsing --------------------------------------------------------------------------------- */

typedef struct reader {
    const char *text;
    size_t at;
} reader;

static shingle_status expect(const reader *r, const char *what)
{
    return sg_fail(SHINGLE_EINVAL, "problem \"%s\", column %zu: %s expected",
                   sg_quote(r->text, r->at).text, r->at + 1, what);
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

/* A number of 0 to MOST. */
static shingle_status take_up_to(reader *r, int64_t most, const char *what, int64_t *value_out)
{
    int64_t value = 0;
    const size_t start = r->at;
    while (r->text[r->at] >= '0' && r->text[r->at] <= '9') {
        value = value * 10 + (r->text[r->at] - '0');
        if (value > most) {
            char limit[48];
            snprintf(limit, sizeof limit, "a number up to %lld", (long long)most);
            r->at = start;
            return expect(r, limit);
        }
        r->at++;
    }
    if (r->at == start) return expect(r, what);
    *value_out = value;
    return SHINGLE_OK;
}

static shingle_status take_number(reader *r, const char *what, int64_t *value_out)
{
    return take_up_to(r, SG_MAX_EXTENT, what, value_out);
}

/* One number per rank; MORE is what may stand behind the last. */
static shingle_status take_rows(reader *r, int ranks, const char *what, int64_t *rows)
{
    for (int i = 0; i < ranks; i++) {
        if (i > 0 && !take_char(r, ',')) return expect(r, "\",\" and the rows of the next rank");
        SG_TRY(take_number(r, "a number of rows", &rows[i]));
    }
    return r->text[r->at] == ',' ? expect(r, what) : SHINGLE_OK;
}

/* A group of numbers per source. */
static shingle_status take_counts(reader *r, int ranks, int64_t *counts)
{
    for (int i = 0; i < ranks; i++) {
        if (i > 0 && !take_char(r, '/'))
            return expect(r, "\"/\" and what the next rank sends to each rank");
        SG_TRY(take_rows(r, ranks, "\"/\", one number per rank", counts + (int64_t)i * ranks));
    }
    return r->text[r->at] == '/' ? expect(r, "the end of counts=, one group per rank") : SHINGLE_OK;
}

/* Who owns what may be said once. */
static bool is_dealt(const sg_ask *a)
{
    return a->rows != NULL || a->counts != NULL || a->cyclic > 0;
}

static bool take_word(reader *r, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(r->text + r->at, word, length) != 0) return false;
    if (word[length - 1] != '=' && word_length(r->text + r->at) != length) return false;
    r->at += length;
    return true;
}

static shingle_status take_deal(reader *r, sg_ask *a, int64_t **list_out, bool *taken_out)
{
    const int64_t ranks = a->ranks;
    *taken_out = true;
    if (take_word(r, "rows=")) {
        *list_out = calloc((size_t)ranks, sizeof(int64_t));
        if (*list_out == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %d ranks", a->ranks);
        a->rows = *list_out;
        return take_rows(r, a->ranks, "the end of rows=, one number per rank", *list_out);
    }
    if (take_word(r, "counts=")) {
        *list_out = calloc((size_t)(ranks * ranks), sizeof(int64_t));
        if (*list_out == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %d ranks", a->ranks);
        a->counts = *list_out;
        return take_counts(r, a->ranks, *list_out);
    }
    if (take_word(r, "cyclic=")) {
        const reader value = *r;
        SG_TRY(take_number(r, "a number of rows", &a->cyclic));
        return a->cyclic > 0 ? SHINGLE_OK : expect(&value, "a number of at least 1");
    }
    *taken_out = false;
    return SHINGLE_OK;
}

/* Columns of each of several B. */
static shingle_status take_b(reader *r, sg_ask *a)
{
    do {
        if (a->b_count == SHINGLE_MOST_B) {
            r->at--;
            return expect(r, "the end of b=, at most 4 numbers");
        }
        SG_TRY(take_number(r, "the columns of a B", &a->b_cols[a->b_count]));
        a->b_count++;
    } while (take_char(r, ','));
    return SHINGLE_OK;
}

/* Digits with a point and an exponent that is not above 0.  Not strtod: that
 * one listens to the locale. */
static shingle_status take_epsilon(reader *r, sg_decimal *epsilon)
{
    static const char *const what =
        "a number above 0 of at most 6 digits and 20 places, such as 1e-6,";
    const reader start = *r;
    int64_t digits = 0;
    int64_t places = 0;
    int64_t exponent = 0;
    bool behind = false;
    for (;; r->at++) {
        const char c = r->text[r->at];
        if (c == '.' && !behind && r->at > start.at) {
            behind = true;
            continue;
        }
        if (c < '0' || c > '9') break;
        digits = digits * 10 + (c - '0');
        places += behind;
        if (digits > SG_MOST_DIGITS || places > SG_MOST_PLACES) return expect(&start, what);
    }
    if (take_char(r, 'e')) {
        if (!take_char(r, '-')) return expect(&start, what);
        SG_TRY(take_up_to(r, SG_MOST_PLACES, "an exponent", &exponent));
    }
    *epsilon = (sg_decimal){(int32_t)digits, (int32_t)(places + exponent)};
    return digits > 0 && places + exponent <= SG_MOST_PLACES ? SHINGLE_OK : expect(&start, what);
}

static shingle_status take_norm(reader *r, sg_ask *a)
{
    a->norm = true;
    return r->text[r->at - 1] == '=' ? take_epsilon(r, &a->epsilon) : SHINGLE_OK;
}

/* What comes again, or is no option at all. */
static shingle_status refuse_option(reader *r)
{
    static const char *const once[] = {"rows=",    "cyclic=",    "counts=", "gather=", "b=",
                                       "return_a", "accumulate", "call=",   "bias",    "norm"};
    enum { DEALS = 3 }; /* of these, which exclude each other */
    const size_t at = r->at;
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        if (take_word(r, once[i]) || (i + 1 == sizeof once / sizeof *once && take_word(r, "norm=")))
            return sg_fail(SHINGLE_EINVAL, "problem \"%s\", column %zu: %s %s",
                           sg_quote(r->text, at).text, at + 1, once[i],
                           i < DEALS ? "behind another; only one of rows=, cyclic= and counts= is "
                                       "accepted"
                                     : "is given twice; once is accepted");
    return expect(r,
                  "rows=, cyclic=, counts=, gather=, b=, return_a, accumulate, call=, bias, relu, "
                  "gelu, silu or norm");
}

static shingle_status take_option(reader *r, sg_ask *a, int64_t **list_out)
{
    int index = 0;
    bool taken = false;
    if (!is_dealt(a)) SG_TRY(take_deal(r, a, list_out, &taken));
    if (taken) return SHINGLE_OK;
    if (a->gather == SG_GATHER_A && take_word(r, "gather=")) {
        if (!take_name(r, gather_names + 1, SG_GATHERS - 1, &index)) return expect(r, "b or k");
        a->gather = (sg_gather)(index + 1);
        return SHINGLE_OK;
    }
    if (a->b_count == 0 && take_word(r, "b=")) return take_b(r, a);
    if (!a->return_a && take_word(r, "return_a")) {
        a->return_a = true;
        return SHINGLE_OK;
    }
    if (!a->call && take_word(r, "call=")) {
        a->call = true;
        return take_up_to(r, SG_MAX_CALL_FLOPS, "the operations of a row", &a->call_flops);
    }
    if (!a->accumulate && take_word(r, "accumulate")) {
        a->accumulate = true;
        return SHINGLE_OK;
    }
    if (!a->bias && take_word(r, "bias")) {
        a->bias = true;
        return SHINGLE_OK;
    }
    const size_t at = r->at;
    if (take_name(r, act_names + 1, SG_ACTS - 1, &index)) {
        if (a->act != SG_ACT_NONE)
            return sg_fail(SHINGLE_EINVAL,
                           "problem \"%s\", column %zu: %s behind %s; only one of relu, gelu and "
                           "silu is accepted",
                           sg_quote(r->text, at).text, at + 1, act_names[index + 1],
                           act_names[a->act]);
        a->act = (sg_act)(index + 1);
        return SHINGLE_OK;
    }
    if (!a->norm && (take_word(r, "norm=") || take_word(r, "norm"))) return take_norm(r, a);
    return refuse_option(r);
}

static shingle_status take_ask(reader *r, sg_ask *a, int64_t **list_out)
{
    int op = 0;
    int type = 0;
    int64_t ranks = 0;
    if (!take_name(r, op_names, SG_OPS, &op))
        return expect(r, "ag_gemm, gemm_rs, gemm_ar, a2a_gemm, gemm_a2a or gemm");
    if (!take_char(r, ':')) return expect(r, "\":\"");
    if (!take_name(r, type_names, SG_TYPES, &type)) return expect(r, "f32, bf16 or f16");
    if (!take_char(r, ':')) return expect(r, "\":\"");
    SG_TRY(take_number(r, "m of MxNxK", &a->m));
    if (!take_char(r, 'x')) return expect(r, "\"x\"");
    SG_TRY(take_number(r, "n of MxNxK", &a->n));
    if (!take_char(r, 'x')) return expect(r, "\"x\"");
    SG_TRY(take_number(r, "k of MxNxK", &a->k));
    if (!take_char(r, ':') || !take_char(r, 'r')) return expect(r, "\":rRANKS\"");
    SG_TRY(take_number(r, "a number of ranks", &ranks));
    if (ranks < 1 || ranks > SG_MAX_RANKS)
        return sg_fail(SHINGLE_EINVAL, "problem \"%s\": %lld ranks; 1 to %d are possible",
                       sg_quote(r->text, r->at).text, (long long)ranks, SG_MAX_RANKS);
    a->op = (sg_op)op;
    a->type = (sg_type)type;
    a->ranks = (int)ranks;
    while (take_char(r, ':')) SG_TRY(take_option(r, a, list_out));
    return r->text[r->at] != '\0' ? expect(r, "\":\" or the end") : SHINGLE_OK;
}

shingle_status sg_problem_parse(const char *text, sg_problem *problem_out)
{
    if (text == NULL)
        return sg_fail(SHINGLE_EINVAL, "no problem given; e.g. ag_gemm:bf16:512x1024x768:r4");
    reader r = {text, 0};
    sg_ask ask = {0};
    int64_t *list = NULL; /* of rows= or counts= */
    shingle_status status = take_ask(&r, &ask, &list);
    if (status == SHINGLE_OK) status = sg_problem_ask(&ask, problem_out);
    free(list);
    return status;
}

/* ---- Printing -------------------------------------------------------------------------------- */

/* Is the ownership what nobody has to ask for? */
static bool is_as_dealt(const sg_problem *p)
{
    int64_t base = 0;
    int64_t extent = 0;
    for (int r = 0; r < p->ranks; r++) extent += p->share[r].rows;
    for (int r = 0; r < p->ranks; r++) {
        const sg_share *const share = &p->share[r];
        if (share->rows != sg_problem_dealt_rows(p->op, extent, p->ranks, r)) return false;
        if (share->rows > 0 &&
            (p->segments[share->first].row0 != base || p->segments[share->first].next >= 0))
            return false;
        base += share->rows;
    }
    return true;
}

static void print_shares(const sg_problem *p, sg_text *t)
{
    bool cyclic = false;
    for (int r = 0; r < p->ranks && !cyclic; r++)
        cyclic = p->share[r].first >= 0 && p->segments[p->share[r].first].next >= 0;
    if (cyclic) {
        sg_text_add(t, ":cyclic=%lld", (long long)p->segments[0].rows);
        return;
    }
    for (int r = 0; r < p->ranks; r++)
        sg_text_add(t, "%s%lld", r ? "," : ":rows=", (long long)p->share[r].rows);
}

/* As parsed: what each source sends to each destination. */
static void print_counts(const sg_problem *p, sg_text *t)
{
    const bool owner_sends = p->op == SG_OP_A2A_GEMM;
    sg_text_add(t, ":counts=");
    for (int from = 0; from < p->ranks; from++)
        for (int to = 0; to < p->ranks; to++) {
            const int64_t pair =
                owner_sends ? (int64_t)to * p->ranks + from : (int64_t)from * p->ranks + to;
            sg_text_add(t, "%s%lld",
                        to > 0     ? ","
                        : from > 0 ? "/"
                                   : "",
                        (long long)p->counts[pair]);
        }
}

static void print_b(const sg_problem *p, sg_text *t)
{
    for (int i = 0; i < p->b_count && p->b_count > 1; i++)
        sg_text_add(t, "%s%lld", i > 0 ? "," : ":b=", (long long)p->b_cols[i]);
}

size_t sg_problem_print(const sg_problem *p, char *text, size_t room)
{
    sg_text t = {text, room, 0};
    sg_text_add(&t, "%s:%s:%lldx%lldx%lld:r%d", sg_op_name(p->op), sg_type_name(p->type),
                (long long)p->m, (long long)p->n, (long long)p->k, p->ranks);
    if (p->gather != SG_GATHER_A) sg_text_add(&t, ":gather=%s", sg_gather_name(p->gather));
    if (!is_as_dealt(p)) print_shares(p, &t);
    if (p->counts != NULL) print_counts(p, &t);
    print_b(p, &t);
    if (p->return_a) sg_text_add(&t, ":return_a");
    if (p->accumulate) sg_text_add(&t, ":accumulate");
    if (p->call) sg_text_add(&t, ":call=%lld", (long long)p->call_flops);
    if (p->bias) sg_text_add(&t, ":bias");
    if (p->act != SG_ACT_NONE) sg_text_add(&t, ":%s", sg_act_name(p->act));
    if (p->norm) sg_text_add(&t, ":norm");
    if (p->norm && (p->epsilon.digits != 1 || p->epsilon.places != 5))
        sg_text_add(&t, "=%de-%d", (int)p->epsilon.digits, (int)p->epsilon.places);
    return t.length;
}
