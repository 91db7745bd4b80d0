/* npy.c -- see npy.h. */
#include "npy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "out.h"

enum { MAGIC = 6, LEAST_HEAD = 10, MOST_HEAD = 1 << 16 };

static const struct {
    const char *descr, *type;
    size_t bytes;
} descrs[] = {{"<f4", "f32", 4},
              {"<f2", "f16", 2},
              {"<u2", "bf16", 2},
              {"|V2", "bf16", 2},
              {"<V2", "bf16", 2}};

/* ---- The header: a Python dict of three keys ------------------------------------------------- */

typedef struct reader {
    const char *name; /* of the file */
    const char *text;
    size_t length, at;
    char *error;
} reader;

static void skip_space(reader *r)
{
    while (r->at < r->length && (r->text[r->at] == ' ' || r->text[r->at] == '\n')) r->at++;
}

static bool expect(const reader *r, const char *what)
{
    return file_fail(r->error, "%s: header, column %zu: %s expected", r->name, r->at + 1, what);
}

static bool take_char(reader *r, char c)
{
    skip_space(r);
    if (r->at >= r->length || r->text[r->at] != c) return false;
    r->at++;
    return true;
}

static bool take_word(reader *r, const char *word)
{
    const size_t length = strlen(word);
    skip_space(r);
    if (r->length - r->at < length || memcmp(r->text + r->at, word, length) != 0) return false;
    r->at += length;
    return true;
}

/* A quoted string of at most ROOM - 1 bytes, without escapes. */
static bool take_string(reader *r, char *string, size_t room)
{
    skip_space(r);
    const char quote = r->at < r->length ? r->text[r->at] : '\0';
    if (quote != '\'' && quote != '"') return expect(r, "a quoted string");
    size_t length = 0;
    for (size_t i = r->at + 1; i < r->length && r->text[i] != quote; i++) {
        if (length + 1 == room) return expect(r, "a short string");
        string[length++] = r->text[i];
    }
    if (r->at + 1 + length >= r->length) return expect(r, "a string that ends");
    string[length] = '\0';
    r->at += length + 2;
    return true;
}

static bool take_descr(reader *r, npy_array *array)
{
    char descr[16];
    skip_space(r);
    if (r->at < r->length && r->text[r->at] == '[')
        return file_fail(r->error, "%s: records; '<f4', '<f2', '<u2' or '|V2' are accepted",
                         r->name);
    if (!take_string(r, descr, sizeof descr)) return false;
    for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++) {
        if (strcmp(descr, descrs[i].descr) != 0) continue;
        array->type = descrs[i].type;
        array->item_bytes = descrs[i].bytes;
        return true;
    }
    return file_fail(r->error,
                     "%s: type '%s'; '<f4' (f32), '<f2' (f16), '<u2' or '|V2' (bf16) "
                     "are accepted",
                     r->name, descr);
}

static bool take_extent(reader *r, int64_t *value_out)
{
    int64_t value = 0;
    skip_space(r);
    const size_t start = r->at;
    for (; r->at < r->length && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++) {
        if (value > INT64_MAX / 100) return expect(r, "a smaller extent");
        value = value * 10 + (r->text[r->at] - '0');
    }
    if (r->at == start) return expect(r, "an extent");
    if (r->at < r->length && r->text[r->at] == 'L') r->at++; /* Python 2 wrote long numbers so */
    *value_out = value;
    return true;
}

static bool take_shape(reader *r, npy_array *array)
{
    if (!take_char(r, '(')) return expect(r, "\"(\"");
    array->dims = 0;
    while (!take_char(r, ')')) {
        int64_t extent = 0;
        if (!take_extent(r, &extent)) return false;
        if (array->dims == 2)
            return file_fail(r->error, "%s: more than two dimensions; 1 or 2 are accepted",
                             r->name);
        array->extent[array->dims++] = extent;
        if (take_char(r, ',')) continue;
        if (!take_char(r, ')')) return expect(r, "\",\" or \")\"");
        break;
    }
    if (array->dims == 0)
        return file_fail(r->error, "%s: a single number; 1 or 2 dimensions are accepted", r->name);
    return true;
}

static bool take_bool(reader *r, bool *value_out)
{
    *value_out = take_word(r, "True");
    return *value_out || take_word(r, "False") || expect(r, "True or False");
}

/* A key and its value; SEEN has a bit for each key that was there. */
static bool take_entry(reader *r, npy_array *array, unsigned *seen)
{
    char key[16];
    unsigned bit = 0;
    if (!take_string(r, key, sizeof key)) return false;
    if (!take_char(r, ':')) return expect(r, "\":\"");
    if (strcmp(key, "descr") == 0) {
        bit = 1;
        if (!take_descr(r, array)) return false;
    } else if (strcmp(key, "fortran_order") == 0) {
        bit = 2;
        if (!take_bool(r, &array->fortran)) return false;
    } else if (strcmp(key, "shape") == 0) {
        bit = 4;
        if (!take_shape(r, array)) return false;
    }
    if (bit == 0 || (*seen & bit))
        return file_fail(r->error, "%s: header: unknown or repeated key \"%s\"", r->name, key);
    *seen |= bit;
    return true;
}

static bool take_dict(reader *r, npy_array *array)
{
    unsigned seen = 0;
    if (!take_char(r, '{')) return expect(r, "\"{\"");
    while (!take_char(r, '}')) {
        if (!take_entry(r, array, &seen)) return false;
        if (take_char(r, ',')) continue;
        if (!take_char(r, '}')) return expect(r, "\",\" or \"}\"");
        break;
    }
    skip_space(r);
    if (r->at != r->length) return expect(r, "the end");
    if (seen != 7)
        return file_fail(r->error, "%s: header without %s", r->name,
                         !(seen & 1)   ? "'descr'"
                         : !(seen & 2) ? "'fortran_order'"
                                       : "'shape'");
    return true;
}

static bool set_bytes(npy_array *array, const char *name, char *error)
{
    const size_t rows = (size_t)array->extent[0];
    const size_t cols = array->dims == 2 ? (size_t)array->extent[1] : 1;
    const size_t most = (size_t)PTRDIFF_MAX / array->item_bytes;
    if (cols != 0 && rows > most / cols)
        return file_fail(error, "%s: shape (%zu, %zu) is beyond memory", name, rows, cols);
    array->data_bytes = rows * cols * array->item_bytes;
    return true;
}

/* Length of what stands before the dict, and of the dict, from the first LEAST_HEAD + 2 bytes. */
static bool head_lengths(const unsigned char *head, const char *name, size_t *before_out,
                         size_t *dict_out, char *error)
{
    if (memcmp(head, "\x93NUMPY", MAGIC) != 0)
        return file_fail(error, "%s: not a .npy file (its first six bytes say so)", name);
    if ((head[6] != 1 && head[6] != 2) || head[7] != 0)
        return file_fail(error, "%s: .npy version %d.%d; 1.0 and 2.0 are accepted", name, head[6],
                         head[7]);
    *before_out = head[6] == 1 ? LEAST_HEAD : LEAST_HEAD + 2;
    *dict_out = (size_t)head[8] | (size_t)head[9] << 8;
    if (head[6] == 2) *dict_out |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    if (*dict_out > MOST_HEAD)
        return file_fail(error, "%s: header of %zu bytes; at most %d are accepted", name, *dict_out,
                         (int)MOST_HEAD);
    return true;
}

bool npy_parse(const void *bytes, size_t count, const char *name, npy_array *array_out,
               size_t *data_at, char *error)
{
    size_t before = 0;
    size_t dict = 0;
    if (count < LEAST_HEAD + 2)
        return file_fail(error, "%s: %zu bytes are too few for a .npy file", name, count);
    if (!head_lengths(bytes, name, &before, &dict, error)) return false;
    if (count - before < dict) return file_fail(error, "%s: ends inside its header", name);
    npy_array array = {.type = NULL};
    reader r = {name, (const char *)bytes + before, dict, 0, error};
    if (!take_dict(&r, &array) || !set_bytes(&array, name, error)) return false;
    *data_at = before + dict;
    *array_out = array;
    return true;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool truncated(const char *path, const npy_array *array, size_t found, char *error)
{
    return file_fail(error,
                     "%s: truncated: its header promises %zu bytes of numbers, %zu are there", path,
                     array->data_bytes, found);
}

static bool read_data(FILE *stream, const char *path, npy_array *array, char *error)
{
    struct stat info;
    const long at = ftell(stream);
    /* Asked first, so that a header that lies does not cost its memory. */
    if (at >= 0 && fstat(fileno(stream), &info) == 0 && S_ISREG(info.st_mode) &&
        (size_t)(info.st_size - at) < array->data_bytes)
        return truncated(path, array, (size_t)(info.st_size - at), error);
    array->data = out_get(array->data_bytes);
    errno = 0;
    const size_t found = fread(array->data, 1, array->data_bytes, stream);
    if (ferror(stream)) return file_fail(error, "%s: %s", path, strerror(errno));
    if (found != array->data_bytes) return truncated(path, array, found, error);
    if (fgetc(stream) != EOF)
        return file_fail(error, "%s: goes on after the %zu bytes that its header promises", path,
                         array->data_bytes);
    return true;
}

static bool read_stream(FILE *stream, const char *path, npy_array *array, char *error)
{
    unsigned char head[LEAST_HEAD + 2 + MOST_HEAD];
    size_t before = 0;
    size_t dict = 0;
    size_t data_at = 0;
    errno = 0;
    const size_t first = fread(head, 1, LEAST_HEAD + 2, stream);
    if (ferror(stream)) return file_fail(error, "%s: %s", path, strerror(errno));
    if (first < LEAST_HEAD + 2)
        return file_fail(error, "%s: %zu bytes are too few for a .npy file", path, first);
    if (!head_lengths(head, path, &before, &dict, error)) return false;
    /* A dict of three keys is longer than the two bytes of it that are here already. */
    const size_t all = before + dict;
    const size_t rest = all > first ? all - first : 0;
    const size_t more = fread(head + first, 1, rest, stream);
    return npy_parse(head, first + more, path, array, &data_at, error) &&
           read_data(stream, path, array, error);
}

bool npy_read(const char *path, npy_array *array_out, char *error)
{
    FILE *const stream = file_open(path, error);
    if (stream == NULL) return false;
    npy_array array = {.type = NULL};
    const bool ok = read_stream(stream, path, &array, error);
    fclose(stream);
    if (ok)
        *array_out = array;
    else
        npy_free(&array);
    return ok;
}

void npy_free(npy_array *array)
{
    free(array->data);
    array->data = NULL;
}

bool npy_write(const char *path, const char *type, int64_t rows, int64_t cols, const void *data,
               file_writer *writer_out, char *error)
{
    size_t i = 0;
    while (i < sizeof descrs / sizeof *descrs && strcmp(descrs[i].type, type) != 0) i++;
    if (i == sizeof descrs / sizeof *descrs)
        return file_fail(error, "%s: type %s has no .npy form", path, type);
    /* The dict is filled with spaces so that the numbers begin at a multiple of 64 bytes. */
    char head[192];
    memset(head, ' ', sizeof head);
    const int length = snprintf(head + LEAST_HEAD, sizeof head - LEAST_HEAD,
                                "{'descr': '%s', 'fortran_order': False, 'shape': (%lld, %lld), }",
                                descrs[i].descr, (long long)rows, (long long)cols);
    const size_t used = LEAST_HEAD + (size_t)length + 1;
    const size_t all = (used + 63) / 64 * 64;
    head[LEAST_HEAD + length] = ' ';
    head[all - 1] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)((all - LEAST_HEAD) & 0xff);
    head[9] = (char)((all - LEAST_HEAD) >> 8);

    return file_begin(writer_out, path, error) && file_put(writer_out, head, all, error) &&
           file_put(writer_out, data, (size_t)rows * (size_t)cols * descrs[i].bytes, error) &&
           file_close(writer_out, error);
}
