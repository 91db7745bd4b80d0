/* problem.h -- what is asked: the product one rank computes, its types, the ranks, and two
 * movements: "in" brings an operand to the ranks, "out" takes rows of C away.
 *
 * Who owns which rows of what moves is a list of segments, the same on all ranks.  A segment is a
 * run of product rows with one owner; the owner keeps its segments one behind the other, in list
 * order:
 *
 *     product rows   0 . . . . . 6 . . 9 . . 12          rows=6,3,3
 *                    |  rank 0   | r 1 | r 2  |
 *
 * What moves is counted in "rows" whatever it is: rows of A and C; with gather=b rows of B, which
 * are columns of the product; with gather=k columns of A, which are its k.
 *
 * In an all-to-all every pair of ranks has rows of its own, and ranks may compute products of
 * different height: counts[rank][owner] rows of RANK's product belong to OWNER.  A product holds
 * them in the order of owners, an owner's matrix in the order of ranks.
 *
 * Several B may share what arrives of A, each with a C of its own.  A problem, and a schedule,
 * counts them as one B of n rows and one C of n columns with borders, which no patch reaches over;
 * that they are tensors by themselves is a matter of addresses (exec.h).
 *
 * Text form (problem_text.c):
 *
 *     OP:TYPE:MxNxK:rRANKS[:gather=b|:gather=k][:rows=a,b,...|:cyclic=ROWS|:counts=a,b/c,d]
 *         [:b=N1,N2,...][:return_a][:accumulate][:call=FLOPS][:bias][:relu|:gelu|:silu]
 *         [:norm|:norm=EPSILON]
 */
#ifndef SG_PROBLEM_H
#define SG_PROBLEM_H

#include "core/base.h"

enum { SG_MAX_RANKS = 1024 };
/* Of m, n and k: schedules hold 32-bit rows and columns. */
#define SG_MAX_EXTENT INT64_C(2147483647)
/* Of a row of a call: what a double counts exactly. */
#define SG_MAX_CALL_FLOPS INT64_C(9007199254740992)

typedef enum sg_op {
    SG_OP_GEMM,
    SG_OP_AG_GEMM,
    SG_OP_GEMM_RS,
    SG_OP_GEMM_AR,
    SG_OP_A2A_GEMM,
    SG_OP_GEMM_A2A,
    SG_OPS
} sg_op;
typedef enum sg_type { SG_F32, SG_BF16, SG_F16, SG_TYPES } sg_type;
typedef enum sg_act { SG_ACT_NONE, SG_ACT_RELU, SG_ACT_GELU, SG_ACT_SILU, SG_ACTS } sg_act;

/* Movements of an operator.  SCATTER and ALL sum over ranks; EXCHANGE is all-to-all. */
typedef enum sg_in { SG_IN_NONE, SG_IN_GATHER, SG_IN_EXCHANGE } sg_in;
typedef enum sg_out { SG_OUT_NONE, SG_OUT_SCATTER, SG_OUT_ALL, SG_OUT_EXCHANGE } sg_out;

/* What a gather brings: rows of A, rows of B, or columns of A. */
typedef enum sg_gather { SG_GATHER_A, SG_GATHER_B, SG_GATHER_K, SG_GATHERS } sg_gather;

/* DIGITS / 10^PLACES, with as few of either as will do: what a norm adds to a mean square. */
typedef struct sg_decimal {
    int32_t digits; /* up to SG_MOST_DIGITS */
    int32_t places; /* up to SG_MOST_PLACES */
} sg_decimal;

enum { SG_MOST_DIGITS = 999999, SG_MOST_PLACES = 20 };

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
    sg_gather gather;
    bool bias;
    bool accumulate;    /* C += product, instead of C = product */
    bool call;          /* a function of the user computes rows of the product from rows of A */
    bool return_a;      /* the rows of A that have been multiplied are an output, too */
    bool norm;          /* the residual is added to finished rows, which are then normed (norm.h) */
    sg_decimal epsilon; /* with norm; otherwise 0 */
    int ranks;
    int64_t m, n, k;    /* of the product; with counts, m is the largest one of a rank */
    int64_t call_flops; /* per row, with call */
    int64_t most_rows;  /* of any part, see sg_problem_part */
    int32_t b_count;    /* B matrices; 1 if they do not share what arrives */
    int64_t b_cols[SHINGLE_MOST_B]; /* of the product, for each of them: together n */

    sg_segment *segments; /* rows 0..m in order, without gaps; owned by the problem */
    int32_t segment_count;
    sg_share *share; /* per rank; owned by the problem */

    /* All-to-all with uneven counts: [rank * ranks + owner], else NULL.  Owned by the problem. */
    int64_t *counts;
    int64_t *in_product; /* where these rows start in RANK's product */
    int64_t *in_owner;   /* and in OWNER's matrix */
} sg_problem;

/* Parses TEXT.  The error names the column and what is accepted there.  Release with
 * sg_problem_free, which takes zeroed problems too. */
shingle_status sg_problem_parse(const char *text, sg_problem *problem_out);

/* All that a problem is made of.  Zero is the default of every field. */
typedef struct sg_ask {
    sg_op op;
    sg_type type;
    sg_act act;
    sg_gather gather;
    bool bias, accumulate, call, return_a;
    bool norm;
    sg_decimal epsilon; /* with norm; no digits: 1e-5 */
    int ranks;
    int64_t m, n, k;
    int64_t call_flops;
    int32_t b_count; /* 0 or 1: one */
    int64_t b_cols[SHINGLE_MOST_B];
    const int64_t *rows;   /* one count per rank; NULL: see sg_problem_dealt_rows */
    int64_t cyclic;        /* > 0: blocks of that many rows are dealt round the ranks */
    const int64_t *counts; /* all-to-all: [source * ranks + destination]; NULL: even */
} sg_ask;

shingle_status sg_problem_ask(const sg_ask *ask, sg_problem *problem_out);

/* The same for a plain problem. */
shingle_status sg_problem_make(sg_op op, sg_type type, int64_t m, int64_t n, int64_t k, int ranks,
                               const int64_t *rows, int64_t cyclic, sg_problem *problem_out);
shingle_status sg_problem_copy(const sg_problem *problem, sg_problem *copy_out);
void sg_problem_free(sg_problem *problem);

/* Canonical text: equal problems print equal.  Cut if ROOM is short (1024 ragged ranks need 24 KB);
 * returns the full length. */
size_t sg_problem_print(const sg_problem *problem, char *text, size_t room);

sg_in sg_problem_in(const sg_problem *problem);
sg_out sg_problem_out(const sg_problem *problem);

/* Does C sum the products of all ranks? */
bool sg_problem_sums(const sg_problem *problem);

/* Rows of the product that RANK computes: m, but for uneven counts. */
int64_t sg_problem_rows(const sg_problem *problem, int rank);

/* Shapes of the matrices that RANK holds; columns that are not named here are the problem's. */
int64_t sg_problem_a_rows(const sg_problem *problem, int rank);
int64_t sg_problem_a_cols(const sg_problem *problem, int rank);
int64_t sg_problem_b_rows(const sg_problem *problem, int rank);
int64_t sg_problem_c_rows(const sg_problem *problem, int rank);
int64_t sg_problem_returned_rows(const sg_problem *problem, int rank); /* 0 without return_a */
int64_t sg_problem_residual_rows(const sg_problem *problem, int rank); /* 0 without norm */

/* Whose column COL of the product (0 .. n - 1) is: of which B, and where its columns [*LOW_OUT,
 * *HIGH_OUT) are. */
int sg_problem_b_at(const sg_problem *problem, int64_t col, int64_t *low_out, int64_t *high_out);

/* Columns of tiles of a product: those of each B are cut by themselves; a call makes whole rows. */
int64_t sg_problem_col_tiles(const sg_problem *problem, int32_t tile_n);

/* Rows of RANK's product that OWNER holds (or gets). */
typedef struct sg_part {
    int64_t rows;
    int64_t base; /* where they start in a buffer of RANK that is packed by owner */
    int64_t held; /* where they start in the owner's own matrix */
} sg_part;

sg_part sg_problem_part(const sg_problem *problem, int rank, int owner);

/* Of EXTENT rows those of RANK, if nobody says whose they are: as many as others have, or one more.
 * Sums that all get have owners that no tensor shows, so that these end where tiles do, at a
 * multiple of 64 rows, if they have more than that and none then has an eighth more than otherwise;
 * the last one has what is left. */
int64_t sg_problem_dealt_rows(sg_op op, int64_t extent, int ranks, int rank);

float sg_problem_epsilon(const sg_problem *problem);

/* Is there anything to apply once a value is complete (bias, activation)? */
bool sg_problem_has_epilogue(const sg_problem *problem);

/* Are rows of k elements no whole sectors of 32 bytes?  A line of an operand lies in five of the L2
 * then, and not in four. */
bool sg_problem_straddles(const sg_problem *problem);

/* Are rows of k elements, or of the n of any C, no multiples of 16 bytes, as fast kernels of GPUs
 * want them? */
bool sg_problem_has_odd_k(const sg_problem *problem);
bool sg_problem_has_odd_n(const sg_problem *problem);

/* Floating point operations of a product of ROWS x COLS over DEPTH. */
double sg_problem_flops(const sg_problem *problem, double rows, double cols, double depth);

int sg_type_bytes(sg_type type);
const char *sg_type_name(sg_type type);
const char *sg_op_name(sg_op op);
const char *sg_act_name(sg_act act);
const char *sg_gather_name(sg_gather gather);

#endif
