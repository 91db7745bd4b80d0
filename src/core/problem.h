/* problem.h -- what is asked: the product one rank computes, its types, the ranks, and two
 * movements: "in" brings rows of A to the ranks, "out" takes rows of C away.
 *
 * Who owns which rows is a list of segments, the same on all ranks.  A segment is a run of product
 * rows with one owner; the owner keeps its segments one behind the other, in list order:
 *
 *     product rows   0 . . . . . 6 . . 9 . . 12          rows=6,3,3
 *                    |  rank 0   | r 1 | r 2  |
 *
 * Text form, parsed and printed by this file:
 *
 *     OP:TYPE:MxNxK:rRANKS[:rows=a,b,...|:cyclic=ROWS][:bias][:relu|:gelu|:silu]
 */
#ifndef SG_PROBLEM_H
#define SG_PROBLEM_H

#include "core/base.h"

enum { SG_MAX_RANKS = 1024 };
/* Of m, n and k: schedules hold 32-bit rows and columns. */
#define SG_MAX_EXTENT INT64_C(2147483647)

typedef enum sg_op { SG_OP_GEMM, SG_OP_AG_GEMM, SG_OP_GEMM_RS, SG_OP_GEMM_AR, SG_OPS } sg_op;
typedef enum sg_type { SG_F32, SG_BF16, SG_F16, SG_TYPES } sg_type;
typedef enum sg_act { SG_ACT_NONE, SG_ACT_RELU, SG_ACT_GELU, SG_ACT_SILU, SG_ACTS } sg_act;

/* Movements of an operator. */
typedef enum sg_in { SG_IN_NONE, SG_IN_GATHER } sg_in;
typedef enum sg_out { SG_OUT_NONE, SG_OUT_SCATTER, SG_OUT_ALL } sg_out; /* both sum over ranks */

typedef struct sg_segment {
    int64_t row0;    /* first product row */
    int64_t rows;    /* > 0 */
    int64_t own_row; /* where it starts among its owner's rows */
    int32_t owner;
    int32_t next; /* the owner's next segment, -1 after its last */
} sg_segment;

/* The rows of one rank, all its segments together. */
typedef struct sg_share {
    int64_t rows;
    int64_t base;  /* rows of all lower ranks: where its rows start in a buffer packed by owner */
    int32_t first; /* its first segment, -1 if it owns nothing */
} sg_share;

typedef struct sg_problem {
    sg_op op;
    sg_type type;
    sg_act act;
    bool bias;
    int ranks;
    int64_t m, n, k;
    sg_segment *segments; /* rows 0..m in order, without gaps; owned by the problem */
    int32_t segment_count;
    sg_share *share; /* per rank; owned by the problem */
} sg_problem;

/* Parses TEXT.  The error names the column and what is accepted there.  Release with
 * sg_problem_free, which takes zeroed problems too. */
shingle_status sg_problem_parse(const char *text, sg_problem *problem_out);

/* As parse, from values.  ROWS holds one count per rank, or is NULL for an even split (the first
 * m % ranks ranks own one row more); CYCLIC > 0 deals blocks of that many rows round the ranks. */
shingle_status sg_problem_make(sg_op op, sg_type type, int64_t m, int64_t n, int64_t k, int ranks,
                               const int64_t *rows, int64_t cyclic, sg_problem *problem_out);
shingle_status sg_problem_copy(const sg_problem *problem, sg_problem *copy_out);
void sg_problem_free(sg_problem *problem);

/* Canonical text: equal problems print equal.  Cut if ROOM is short (1024 ragged ranks need 24 KB);
 * returns the full length. */
size_t sg_problem_print(const sg_problem *problem, char *text, size_t room);

sg_in sg_problem_in(const sg_problem *problem);
sg_out sg_problem_out(const sg_problem *problem);

/* Rows of A and C that RANK holds in its own matrices. */
int64_t sg_problem_a_rows(const sg_problem *problem, int rank);
int64_t sg_problem_c_rows(const sg_problem *problem, int rank);

int64_t sg_problem_max_own_rows(const sg_problem *problem);

/* Is there anything to apply once a value is complete (bias, activation)? */
bool sg_problem_has_epilogue(const sg_problem *problem);

int sg_type_bytes(sg_type type);
const char *sg_type_name(sg_type type);
const char *sg_op_name(sg_op op);
const char *sg_act_name(sg_act act);

#endif
