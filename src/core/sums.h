/* sums.h -- rows of C whose partial sums travel by copies, chunk by chunk, to their owner, who adds
 * them up.
 *
 *     partial sums -> inbox of the owner | their sum -> C of the owner | all-reduce: -> C of everybody
 *
 * Products and the copies to the owner are the strategy's: one that has arrived raises the flag of
 * its chunk's number.  In an all-to-all nothing is added, and copies go straight into C. */
#ifndef SG_SUMS_H
#define SG_SUMS_H

#include "core/moves.h"

typedef struct sg_sums {
    int chunks;             /* of what each owner gets of a product */
    bool by_cols;           /* chunks of columns instead of rows */
    int32_t tile_m, tile_n; /* chunks are whole tiles where they can be */
    bool exchange;          /* an all-to-all */
    bool vendor; /* products are the vendor's; no flags here, what is sent is after its step */
    int partial; /* buffer of partial sums, packed by owner */
    int inbox;   /* most_rows of every rank; unused in an all-to-all */
} sg_sums;

/* A chunk of what one owner gets of a product. */
typedef struct sg_chunk {
    int32_t x0, rows; /* among the owner's rows */
    int32_t col0, cols;
} sg_chunk;

/* Chunk C of what OWNER gets of RANK's product; it may be empty. */
sg_chunk sg_sums_chunk(const sg_problem *problem, const sg_sums *sums, int rank, int owner, int c);

/* CHUNK's columns of rows [ROW, ROW + ROWS). */
sg_area sg_chunk_area(int rank, int buf, int64_t row, int64_t rows, const sg_chunk *chunk);

/* Appends the sum of chunk C of the own rows over ranks 0..P-1, with one rounding, on lane 0.
 * Returns its last step, or -1 if there is none. */
int sg_sums_add(sg_sched *s, const sg_sums *sums, int c);

/* All-reduce: appends the copies of chunk C of the own rows to PEER, behind its sum, whose last
 * step is ADDED. */
void sg_sums_send(sg_sched *s, const sg_sums *sums, int lane, int peer, int c, int added);

/* Appends a step on lane 0 that waits for all that others store into this
 * rank's C, and leaves it open. */
void sg_sums_await(sg_sched *s, const sg_sums *sums);

#endif
