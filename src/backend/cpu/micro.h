/* micro.h -- the micro-kernels under the tile engine: LIBXSMM, any CBLAS, plain C.
 *
 * SG_WITH_XSMM and SG_CBLAS_NAME say what the build found; the first that works on this machine
 * is used, in that order.  Plain C is always there: the last resort, and the reference of tests. */
#ifndef SG_MICRO_H
#define SG_MICRO_H

#include "core/base.h"
#include "core/pool_sizes.h"

enum { SG_MICRO_WIDTH = SG_POOL_PACKED };

/* C (+)= A * B of one block, all f32.  A is rows x k; B is k x cols, or cols x k if transposed. */
typedef struct sg_micro {
    const float *a, *b;
    float *c;
    int64_t a_stride, b_stride, c_stride;
    int64_t rows, cols, k; /* all > 0 */
    bool accumulate;       /* else C is not read */
} sg_micro;

typedef struct sg_engine {
    const char *name;

    /* Makes ready; false if it cannot run here.  Adds details of itself to TEXT and stores how many
     * columns of B it likes to have side by side. */
    bool (*init)(sg_text *text, int *width_out);

    /* B as packed, k x cols. */
    void (*multiply)(const sg_micro *micro);

    /* B as it lies in memory, cols x k, blocks of any size; NULL: cannot. */
    void (*multiply_transposed)(const sg_micro *micro);
} sg_engine;

/* The engine in use; chooses one at the first call. */
const sg_engine *sg_micro_engine(void);

/* The columns of B that it likes side by side: SG_MICRO_WIDTH or half of that. */
int sg_micro_width(void);

/* Its name and details, "libxsmm (cpx)". */
const char *sg_micro_text(void);

/* Another engine from now on ("libxsmm", "cblas", "plain"), for tests and benchmarks, while no
 * other thread multiplies; false if it is not there. */
bool sg_micro_force(const char *name);

#endif
