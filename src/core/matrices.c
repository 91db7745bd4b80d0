/* matrices.c -- see matrices.h.
 *
 * Three kinds of memory: the host's, which is worked on in place; a device's whose backend makes
 * and compares matrices itself; and a device's that is filled and read through the host, all ranks
 * at the same time, for what such a backend cannot express (activations, what a run adds to). */
#include "core/matrices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 256 };

/* What runs store to lies between two canaries. */
typedef struct output {
    sg_tensor tensor;
    uint8_t *block; /* the matrix starts CANARY bytes later */
    size_t bytes;
    int64_t rows, cols;
} output;

/* Matrices of one rank.  Several B are the rows of one, several C the columns of one. */
typedef struct tensors {
    void *a, *b, *bias, *gain;
    output c, returned, residual;
    size_t a_bytes, b_bytes, bias_bytes, gain_bytes;
    void *host; /* room for the largest of them, if they travel */
} tensors;

struct sg_matrices {
    sg_group *group;
    const sg_problem *problem;
    tensors *rank;
    bool c_on_device; /* C is compared by the backend */
};

static const sg_backend *backend_of(const sg_matrices *m)
{
    return m->group->backend;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static shingle_status matrix_bytes(const sg_problem *p, int64_t rows, int64_t cols, size_t *out)
{
    int64_t bytes = 0;
    if (!sg_mul(rows, cols, &bytes) || !sg_mul(bytes, sg_type_bytes(p->type), &bytes))
        return sg_fail(SHINGLE_ENOMEM, "a matrix of %lld x %lld is too large", (long long)rows,
                       (long long)cols);
    *out = (size_t)bytes;
    return SHINGLE_OK;
}

static shingle_status alloc_output(const sg_matrices *m, int r, output *o)
{
    void *block = NULL;
    SG_TRY(matrix_bytes(m->problem, o->rows, o->cols, &o->bytes));
    SG_TRY(shingle_alloc(m->group->comm[r], o->bytes + 2 * CANARY, &block));
    o->block = block;
    return SHINGLE_OK;
}

static shingle_status alloc_rank(const sg_matrices *m, int r, tensors *t)
{
    const sg_problem *const p = m->problem;
    shingle_comm *const comm = m->group->comm[r];
    SG_TRY(matrix_bytes(p, sg_problem_a_rows(p, r), sg_problem_a_cols(p, r), &t->a_bytes));
    SG_TRY(matrix_bytes(p, sg_problem_b_rows(p, r), p->k, &t->b_bytes));
    SG_TRY(matrix_bytes(p, p->bias ? 1 : 0, p->n, &t->bias_bytes));
    SG_TRY(shingle_alloc(comm, t->a_bytes + 1, &t->a));
    SG_TRY(shingle_alloc(comm, t->b_bytes + 1, &t->b));
    SG_TRY(shingle_alloc(comm, t->bias_bytes + 1, &t->bias));
    SG_TRY(matrix_bytes(p, p->norm ? 1 : 0, p->n, &t->gain_bytes));
    SG_TRY(shingle_alloc(comm, t->gain_bytes + 1, &t->gain));
    t->c = (output){.tensor = SG_TENSOR_C, .rows = sg_problem_c_rows(p, r), .cols = p->n};
    t->returned = (output){
        .tensor = SG_TENSOR_RETURNED, .rows = sg_problem_returned_rows(p, r), .cols = p->k};
    t->residual = (output){
        .tensor = SG_TENSOR_RESIDUAL, .rows = sg_problem_residual_rows(p, r), .cols = p->n};
    SG_TRY(alloc_output(m, r, &t->c));
    if (p->norm) SG_TRY(alloc_output(m, r, &t->residual));
    return p->return_a ? alloc_output(m, r, &t->returned) : SHINGLE_OK;
}

static bool can_compare(const sg_matrices *m)
{
    const sg_problem *const p = m->problem;
    return backend_of(m)->differ != NULL && !p->accumulate && p->act != SG_ACT_GELU &&
           p->act != SG_ACT_SILU;
}

shingle_status sg_matrices_open(sg_group *group, const sg_problem *problem,
                                sg_matrices **matrices_out)
{
    sg_matrices *const m = calloc(1, sizeof *m);
    if (m == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a benchmark");
    *m = (sg_matrices){.group = group, .problem = problem};
    m->rank = calloc((size_t)group->ranks, sizeof *m->rank);
    m->c_on_device = can_compare(m);
    shingle_status status = SHINGLE_OK;
    if (m->rank == NULL) status = sg_fail(SHINGLE_ENOMEM, "no memory for a benchmark");
    for (int r = 0; status == SHINGLE_OK && r < group->ranks; r++)
        status = alloc_rank(m, r, &m->rank[r]);
    if (status != SHINGLE_OK) {
        sg_matrices_close(m);
        return status;
    }
    *matrices_out = m;
    return SHINGLE_OK;
}

void sg_matrices_close(sg_matrices *m)
{
    if (m == NULL) return;
    for (int r = 0; m->rank != NULL && r < m->group->ranks; r++) {
        tensors *const t = &m->rank[r];
        shingle_comm *const comm = m->group->comm[r];
        shingle_free(comm, t->a);
        shingle_free(comm, t->b);
        shingle_free(comm, t->bias);
        shingle_free(comm, t->c.block);
        shingle_free(comm, t->returned.block);
        shingle_free(comm, t->residual.block);
        shingle_free(comm, t->gain);
        free(t->host);
    }
    free(m->rank);
    free(m);
}

bool sg_matrices_on_device(const sg_matrices *m)
{
    return m->c_on_device;
}

shingle_tensors sg_matrices_tensors(const sg_matrices *m, int rank)
{
    const tensors *const t = &m->rank[rank];
    const sg_problem *const p = m->problem;
    const int64_t element = sg_type_bytes(p->type);
    shingle_tensors run = {.a = t->a,
                           .b = t->b,
                           .bias = p->bias ? t->bias : NULL,
                           .c = t->c.block + CANARY,
                           .c_stride = p->n};
    if (p->return_a) run.returned_a = t->returned.block + CANARY;
    if (p->norm) run.residual = t->residual.block + CANARY;
    if (p->norm) run.gain = t->gain;
    for (int64_t i = 1, col = p->b_cols[0]; i < p->b_count; col += p->b_cols[i++]) {
        run.more_b[i - 1] = (const char *)t->b + col * p->k * element;
        run.more_c[i - 1] = t->c.block + CANARY + col * element;
        run.more_c_stride[i - 1] = p->n;
    }
    return run;
}

int64_t sg_matrices_bytes(const sg_matrices *m)
{
    const tensors *const t = &m->rank[0];
    return (int64_t)(t->a_bytes + t->b_bytes + t->c.bytes + t->returned.bytes + t->residual.bytes);
}

/* ---- One rank at a time ---------------------------------------------------------------------- */

/* What is done for each rank before and after a run: one after the other where the memory is the
 * host's, at the same time where all of it travels. */
typedef struct errand {
    sg_matrices *matrices;
    const sg_data *data;
    const char *plan;
    int rank;
    int64_t wrong;
    shingle_status status;
    char why[256];
} errand;

static void *run_errand(errand *e, shingle_status (*go)(errand *))
{
    e->status = go(e);
    if (e->status != SHINGLE_OK) snprintf(e->why, sizeof e->why, "%s", shingle_error());
    return NULL;
}

/* Room on the host, which is asked for at the first matrix that travels. */
static shingle_status host_room(tensors *t)
{
    size_t bytes = t->c.bytes + 2 * CANARY;
    if (t->returned.bytes + 2 * CANARY > bytes) bytes = t->returned.bytes + 2 * CANARY;
    if (t->a_bytes > bytes) bytes = t->a_bytes;
    if (t->b_bytes > bytes) bytes = t->b_bytes;
    if (t->bias_bytes > bytes) bytes = t->bias_bytes;
    if (t->gain_bytes > bytes) bytes = t->gain_bytes;
    if (t->host == NULL) t->host = malloc(bytes);
    return t->host != NULL ? SHINGLE_OK : sg_fail(SHINGLE_ENOMEM, "no memory for a benchmark");
}

static shingle_status fill_input(const errand *e, sg_tensor tensor, void *to, size_t bytes)
{
    sg_matrices *const m = e->matrices;
    const sg_backend *const backend = backend_of(m);
    sg_fill sums;
    if (backend->write == NULL) return sg_data_fill(e->data, tensor, e->rank, to, 0);
    if (backend->fill != NULL && tensor != SG_TENSOR_BIAS && tensor != SG_TENSOR_GAIN) {
        SG_TRY(sg_data_sums(e->data, tensor, e->rank, &sums));
        const shingle_status status = backend->fill(m->group->self, e->rank, &sums, to);
        free(sums.row);
        return status;
    }
    tensors *const t = &m->rank[e->rank];
    SG_TRY(host_room(t));
    SG_TRY(sg_data_fill(e->data, tensor, e->rank, t->host, 0));
    return backend->write(m->group->self, e->rank, to, t->host, bytes);
}

/* NaN, or what a run adds to, between canaries, by the backend. */
static shingle_status prepare_there(const errand *e, const output *o)
{
    const sg_matrices *const m = e->matrices;
    const sg_backend *const backend = backend_of(m);
    uint8_t canary[CANARY];
    const sg_fill nan = {
        .kind = SG_FILL_NAN, .type = m->problem->type, .rows = o->rows, .cols = o->cols};
    const sg_fill fill = o->tensor == SG_TENSOR_RESIDUAL ? sg_data_drawn(e->data, e->rank) : nan;
    memset(canary, 0xa5, sizeof canary);
    SG_TRY(backend->write(m->group->self, e->rank, o->block, canary, CANARY));
    SG_TRY(backend->write(m->group->self, e->rank, o->block + CANARY + o->bytes, canary, CANARY));
    return backend->fill(m->group->self, e->rank, &fill, o->block + CANARY);
}

/* The same on the host, and what stands in C or in the residual before a run that adds to it. */
static shingle_status prepare_output(const errand *e, const output *o)
{
    const sg_matrices *const m = e->matrices;
    tensors *const t = &m->rank[e->rank];
    const bool travels = backend_of(m)->write != NULL;
    if (o->block == NULL) return SHINGLE_OK;
    if (m->c_on_device && backend_of(m)->fill != NULL) return prepare_there(e, o);
    if (travels) SG_TRY(host_room(t));
    uint8_t *const c = travels ? t->host : o->block;
    memset(c, 0xa5, o->bytes + 2 * CANARY);
    memset(c + CANARY, 0xff, o->bytes); /* NaN in every type */
    if (o->tensor == SG_TENSOR_RESIDUAL || (m->problem->accumulate && o->tensor == SG_TENSOR_C))
        SG_TRY(sg_data_fill(e->data, o->tensor, e->rank, c + CANARY, 0));
    if (!travels) return SHINGLE_OK;
    return backend_of(m)->write(m->group->self, e->rank, o->block, c, o->bytes + 2 * CANARY);
}

static shingle_status prepare(errand *e)
{
    const tensors *const t = &e->matrices->rank[e->rank];
    SG_TRY(fill_input(e, SG_TENSOR_A, t->a, t->a_bytes));
    SG_TRY(fill_input(e, SG_TENSOR_B, t->b, t->b_bytes));
    if (e->matrices->problem->bias) SG_TRY(fill_input(e, SG_TENSOR_BIAS, t->bias, t->bias_bytes));
    if (e->matrices->problem->norm) SG_TRY(fill_input(e, SG_TENSOR_GAIN, t->gain, t->gain_bytes));
    SG_TRY(prepare_output(e, &t->residual));
    SG_TRY(prepare_output(e, &t->c));
    return prepare_output(e, &t->returned);
}

static shingle_status check_canaries(const errand *e, const uint8_t *before, const uint8_t *behind)
{
    for (size_t i = 0; i < CANARY; i++)
        if (before[i] != 0xa5 || behind[i] != 0xa5)
            return sg_fail(SHINGLE_EBUG, "a run stored outside of an output of rank %d", e->rank);
    return SHINGLE_OK;
}

static void report_wrong(errand *e, const sg_data_wrong *wrong)
{
    char line[160] = "";
    sg_text text = {line, sizeof line, 0};
    e->wrong += wrong->elements;
    if (wrong->elements == 0) return;
    sg_data_describe(wrong, e->rank, &text);
    sg_log(SG_LOG_ERROR, "%s: %s", e->plan, line);
}

static shingle_status expect(const errand *e, const output *o, sg_data_wrong *wrong)
{
    const sg_data *const d = e->data;
    if (o->tensor == SG_TENSOR_RETURNED)
        wrong->expected = sg_data_returned(d, e->rank, wrong->row, wrong->col);
    else if (d->problem->norm)
        return sg_data_normed(d, e->rank, o->tensor, wrong->row, wrong->col, &wrong->expected);
    else
        wrong->expected = sg_data_expected(d, e->rank, wrong->row, wrong->col);
    return SHINGLE_OK;
}

/* The backend counts; the first wrong element is fetched to be shown. */
static shingle_status compare_there(errand *e, const output *o)
{
    const sg_matrices *const m = e->matrices;
    const sg_backend *const backend = backend_of(m);
    void *const self = m->group->self;
    uint8_t edge[2][CANARY];
    SG_TRY(backend->read(self, e->rank, edge[0], o->block, CANARY));
    SG_TRY(backend->read(self, e->rank, edge[1], o->block + CANARY + o->bytes, CANARY));
    SG_TRY(check_canaries(e, edge[0], edge[1]));
    sg_fill sums;
    int64_t first = 0;
    sg_data_wrong wrong = {.returned = o->tensor == SG_TENSOR_RETURNED,
                           .residual = o->tensor == SG_TENSOR_RESIDUAL};
    SG_TRY(sg_data_sums(e->data, o->tensor, e->rank, &sums));
    shingle_status status =
        backend->differ(self, e->rank, &sums, o->block + CANARY, &wrong.elements, &first);
    free(sums.row);
    SG_TRY(status);
    if (wrong.elements > 0) {
        uint32_t element = 0;
        const int bytes = sg_type_bytes(m->problem->type);
        SG_TRY(backend->read(self, e->rank, &element, o->block + CANARY + first * bytes,
                             (size_t)bytes));
        wrong.row = first / o->cols;
        wrong.col = first % o->cols;
        wrong.seen = sg_data_load(m->problem->type, &element, 0);
        SG_TRY(expect(e, o, &wrong));
    }
    report_wrong(e, &wrong);
    return SHINGLE_OK;
}

static shingle_status compare_output(errand *e, const output *o)
{
    const sg_matrices *const m = e->matrices;
    tensors *const t = &m->rank[e->rank];
    if (o->block == NULL) return SHINGLE_OK;
    if (m->c_on_device) return compare_there(e, o);
    const uint8_t *c = o->block;
    if (backend_of(m)->read != NULL) {
        SG_TRY(host_room(t));
        c = t->host;
        SG_TRY(
            backend_of(m)->read(m->group->self, e->rank, t->host, o->block, o->bytes + 2 * CANARY));
    }
    SG_TRY(check_canaries(e, c, c + CANARY + o->bytes));
    sg_data_wrong wrong;
    if (o->tensor == SG_TENSOR_C)
        SG_TRY(sg_data_compare(e->data, e->rank, c + CANARY, 0, &wrong));
    else if (o->tensor == SG_TENSOR_RESIDUAL)
        SG_TRY(sg_data_compare_residual(e->data, e->rank, c + CANARY, 0, &wrong));
    else
        SG_TRY(sg_data_compare_returned(e->data, e->rank, c + CANARY, 0, &wrong));
    report_wrong(e, &wrong);
    return SHINGLE_OK;
}

static shingle_status compare(errand *e)
{
    const tensors *const t = &e->matrices->rank[e->rank];
    SG_TRY(compare_output(e, &t->c));
    SG_TRY(compare_output(e, &t->residual));
    return compare_output(e, &t->returned);
}

static void *prepare_thread(void *argument)
{
    return run_errand(argument, prepare);
}

static void *compare_thread(void *argument)
{
    return run_errand(argument, compare);
}

static shingle_status for_ranks(sg_matrices *m, const sg_data *data, const char *plan,
                                void *(*go)(void *), int64_t *wrong)
{
    const int ranks = m->group->ranks;
    const bool parallel = backend_of(m)->write != NULL;
    shingle_status status = SHINGLE_OK;
    errand *const list = calloc((size_t)ranks, sizeof *list);
    pthread_t *const thread = calloc((size_t)ranks, sizeof *thread);
    bool *const started = calloc((size_t)ranks, sizeof *started);
    const bool complete = list != NULL && thread != NULL && started != NULL;
    if (!complete) status = sg_fail(SHINGLE_ENOMEM, "no memory for %d ranks", ranks);
    for (int r = 0; complete && r < ranks; r++) {
        list[r] = (errand){.matrices = m, .data = data, .plan = plan, .rank = r};
        started[r] = parallel && sg_thread_start(&thread[r], go, &list[r]) == 0;
        if (!started[r]) go(&list[r]);
    }
    for (int r = 0; complete && r < ranks; r++) {
        if (started[r]) pthread_join(thread[r], NULL);
        *wrong += list[r].wrong;
        if (status == SHINGLE_OK && list[r].status != SHINGLE_OK)
            status = sg_fail(list[r].status, "%s", list[r].why);
    }
    free(list);
    free(thread);
    free(started);
    return status;
}

/* ---- All ranks ------------------------------------------------------------------------------- */

shingle_status sg_matrices_fill(sg_matrices *m, const sg_data *data)
{
    int64_t none = 0;
    return for_ranks(m, data, NULL, prepare_thread, &none);
}

shingle_status sg_matrices_compare(sg_matrices *m, const sg_data *data, const char *plan,
                                   int64_t *wrong_out)
{
    *wrong_out = 0;
    return for_ranks(m, data, plan, compare_thread, wrong_out);
}

static char *normal_values(sg_type type, int64_t count)
{
    char *const values = malloc((size_t)(count * sg_type_bytes(type)));
    sg_random random = {1};
    for (int64_t i = 0; values != NULL && i < count; i++) {
        /* A sum of four uniform values is close enough. */
        double sum = 0;
        for (int j = 0; j < 4; j++) sum += (double)(sg_random_next(&random) >> 11) * 0x1p-53;
        sg_data_store(type, (float)((sum - 2) * 1.7320508), values, i);
    }
    return values;
}

/* The same values again and again, by way of the host. */
static shingle_status repeat(const sg_matrices *m, int rank, void *to, size_t bytes,
                             const char *values, size_t value_bytes)
{
    const sg_backend *const backend = backend_of(m);
    for (size_t at = 0; at < bytes; at += value_bytes) {
        const size_t part = bytes - at < value_bytes ? bytes - at : value_bytes;
        if (backend->write == NULL)
            memcpy((char *)to + at, values, part);
        else
            SG_TRY(backend->write(m->group->self, rank, (char *)to + at, values, part));
    }
    return SHINGLE_OK;
}

static shingle_status randomize_there(const sg_matrices *m)
{
    const sg_type type = m->problem->type;
    const int64_t element = sg_type_bytes(type);
    for (int r = 0; r < m->group->ranks; r++) {
        const tensors *const t = &m->rank[r];
        sg_fill f = {.kind = SG_FILL_NORMAL, .type = type, .rows = 1};
        f.cols = (int64_t)t->a_bytes / element;
        SG_TRY(backend_of(m)->fill(m->group->self, r, &f, t->a));
        f.cols = (int64_t)t->b_bytes / element;
        SG_TRY(backend_of(m)->fill(m->group->self, r, &f, t->b));
    }
    return SHINGLE_OK;
}

shingle_status sg_matrices_randomize(sg_matrices *m)
{
    enum { VALUES = 1 << 20 };
    const sg_type type = m->problem->type;
    if (backend_of(m)->fill != NULL) return randomize_there(m);
    const size_t value_bytes = (size_t)(VALUES * sg_type_bytes(type));
    char *const values = normal_values(type, VALUES);
    shingle_status status = SHINGLE_OK;
    if (values == NULL) status = sg_fail(SHINGLE_ENOMEM, "no memory for a benchmark");
    for (int r = 0; status == SHINGLE_OK && r < m->group->ranks; r++) {
        const tensors *const t = &m->rank[r];
        status = repeat(m, r, t->a, t->a_bytes, values, value_bytes);
        if (status == SHINGLE_OK) status = repeat(m, r, t->b, t->b_bytes, values, value_bytes);
    }
    free(values);
    return status;
}
