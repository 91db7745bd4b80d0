/* npy.h -- NumPy's .npy files, format versions 1.0 and 2.0, one or two dimensions.
 *
 *     descr          read as   written
 *     '<f4'          f32       '<f4'
 *     '<f2'          f16       '<f2'
 *     '<u2' '|V2'    bf16      '<u2'      16-bit patterns: the upper half of a float
 *
 * NumPy has no bf16 of its own.  np.save of an ml_dtypes.bfloat16 array writes '|V2' or '<V2', and
 * array.view(np.uint16) writes '<u2'; both mean bf16 here.  What is written comes back with
 * np.load(path).view(ml_dtypes.bfloat16). */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file.h"

typedef struct npy_array {
    const char *type; /* "f32", "f16" or "bf16" */
    size_t item_bytes;
    int dims;          /* 1 or 2 */
    int64_t extent[2]; /* as NumPy's .shape */
    bool fortran;      /* columns one behind the other instead of rows */
    size_t data_bytes;
    void *data; /* NULL after npy_parse; otherwise released with npy_free */
} npy_array;

/* Reads the file's header from its first COUNT bytes.  DATA_AT is where its numbers begin. */
bool npy_parse(const void *bytes, size_t count, const char *name, npy_array *array_out,
               size_t *data_at, char *error);

/* Reads a file; its length must be what its header says. */
bool npy_read(const char *path, npy_array *array_out, char *error);
void npy_free(npy_array *array);

/* Writes ROWS x COLS values of TYPE in C order, closed and on the disk; file_appear gives the file
 * its name, file_drop removes it. */
bool npy_write(const char *path, const char *type, int64_t rows, int64_t cols, const void *data,
               file_writer *writer_out, char *error);

#endif
