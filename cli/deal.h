/* deal.h -- matrices of all ranks of a problem, read from and written to NumPy files.
 *
 * A path with %d in it names one file per rank.  Any other path names one array that is dealt out:
 *
 *               A                     B                      bias            C
 *     ag_gemm   (m, k) by owner       (P*n, k) by rows       (P*n,)          (m, P*n) by columns
 *     gemm_rs   (m, P*k) by columns   (n, P*k) by columns    (n,) for all    (m, n) by owner
 *     gemm_ar   (m, P*k) by columns   (n, P*k) by columns    (n,) for all    (m, n), rank 0's
 *     gemm      (P*m, k) by rows      (P*n, k) by rows       (P*n,)          (P*m, n) by rows
 *     a2a_gemm, gemm_a2a: as gemm, with the rows that each rank holds
 *     gather=b  (P*m, k) by rows      (n, k) by owner        (n,) for all    (P*m, n) by rows
 *     gather=k  (m, k) by owner       (P*n, k) by rows       (P*n,)          (m, P*n) by columns
 *
 * These are the whole matrices of the linear layer that is cut: columns over the ranks for ag_gemm,
 * k for gemm_rs and gemm_ar.  What C holds before a run that accumulates, and the residual of a
 * norm, are cut as C is; a gain is (n,) for all. */
#ifndef CLI_DEAL_H
#define CLI_DEAL_H

#include "npy.h"
#include "shingle.h"

enum { DEAL_RANKS = 64 };

typedef struct deal {
    shingle_shape shape; /* of rank 0 */
    bool exchange_in, exchange_out, scatter;
    bool returns;
    int64_t cyclic; /* rows of a block dealt round the ranks; 0: each rank's rows are together */
    int64_t a_rows[DEAL_RANKS], a_cols[DEAL_RANKS], b_rows[DEAL_RANKS], c_rows[DEAL_RANKS];
    int64_t rows[DEAL_RANKS];             /* of each rank's product */
    int64_t sent[DEAL_RANKS][DEAL_RANKS]; /* rows that a rank sends to another in an all-to-all */
    void *a[DEAL_RANKS], *b[DEAL_RANKS], *bias[DEAL_RANKS], *c[DEAL_RANKS];
    void *start[DEAL_RANKS]; /* what C holds before the run; zeros if nothing was read */
    void *residual[DEAL_RANKS], *gain[DEAL_RANKS]; /* before the run */
    void *added[DEAL_RANKS];                       /* the residual after it */
    void *returned
        [DEAL_RANKS]; /* with return_a: the rows of A that a run has multiplied; else NULL */
} deal;

/* PROBLEM must be right and have at most DEAL_RANKS ranks.  Release with deal_free. */
bool deal_begin(const char *problem, deal *d, char *error);

/* Where operands are read from; NULL where the problem has none. */
typedef struct deal_paths {
    const char *a, *b, *bias, *start, *residual, *gain;
} deal_paths;

/* Ends the program where memory runs out, as out_get does. */
bool deal_read(deal *d, const deal_paths *from, char *error);

/* Can PATH, or each of its files of RANKS, be written?  See file_check. */
bool deal_check_path(const char *path, int ranks, char *error);

/* How many files PATH has of so many ranks, and what RANK's is called: NAME has room for FILE_PATH
 * bytes.  False: that is too long. */
int deal_files(const char *path, int ranks);
bool deal_file(const char *path, int rank, char *name);

/* Writes C, and the residual after a run, where a path is given: each file is
 * complete, or none appears. */
bool deal_write(const deal *d, const char *c, const char *residual, char *error);

/* The product row of row ROW of RANK's own, for what is dealt by owner; with gather=b the column,
 * with gather=k the k. */
int64_t deal_row(const deal *d, int rank, int64_t row);

/* Whose product row ROW of RANK's C is of (of all, if the products are
 * summed), and which row of it. */
int64_t deal_c_row(const deal *d, int rank, int64_t row, int *of_out);

void deal_free(deal *d);

#endif
