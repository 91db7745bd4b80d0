/* guarded.h -- matrices with canaries around them and between their rows, for tests of whole
 * runs. */
#ifndef TESTS_GUARDED_H
#define TESTS_GUARDED_H

#include <stdlib.h>
#include <string.h>

#include "core/base.h"

enum {
    GUARD = 64, /* bytes around every matrix */
    CANARY = 0xa5,
    POISON = 0xff /* NaN in every type */
};

typedef struct matrix {
    uint8_t *memory;
    void *data;
    int64_t rows, cols, stride;
    int bytes; /* of an element */
    uint64_t hash;
} matrix;

static matrix new_matrix(int64_t rows, int64_t cols, int64_t padding, int bytes)
{
    matrix m = {.rows = rows, .cols = cols, .stride = cols + padding, .bytes = bytes};
    const size_t size = (size_t)(rows * m.stride * bytes) + 2 * GUARD;
    m.memory = malloc(size);
    if (m.memory == NULL) abort();
    memset(m.memory, CANARY, size);
    m.data = m.memory + GUARD;
    return m;
}

static void poison(matrix *m)
{
    for (int64_t row = 0; row < m->rows; row++)
        memset((uint8_t *)m->data + row * m->stride * m->bytes, POISON,
               (size_t)(m->cols * m->bytes));
}

static bool is_filled(const uint8_t *data, int64_t bytes, uint8_t value)
{
    /* The first byte is right and every other is like the one before it. */
    return bytes <= 0 || (data[0] == value && memcmp(data, data + 1, (size_t)(bytes - 1)) == 0);
}

static bool canaries_live(const matrix *m)
{
    const uint8_t *const data = m->data;
    const int64_t row_bytes = m->stride * m->bytes;
    if (!is_filled(m->memory, GUARD, CANARY)) return false;
    if (!is_filled(data + m->rows * row_bytes, GUARD, CANARY)) return false;
    for (int64_t row = 0; row < m->rows; row++)
        if (!is_filled(data + row * row_bytes + m->cols * m->bytes,
                       (m->stride - m->cols) * m->bytes, CANARY))
            return false;
    return true;
}

/* By words: sanitizers look at each read. */
static uint64_t hash_of(const matrix *m)
{
    const int64_t size = m->rows * m->stride * m->bytes + 2 * GUARD;
    uint64_t hash = 7;
    for (int64_t at = 0; at < size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, m->memory + at, (size_t)sg_min(8, size - at));
        hash = sg_mix(hash ^ word);
    }
    return hash;
}

#endif
