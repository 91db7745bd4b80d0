/* matrices.h -- A, B, bias and C of all ranks of a problem in the backend's memory: filled,
 * poisoned and compared, by the backend itself where it can, otherwise on the host. */
#ifndef SG_MATRICES_H
#define SG_MATRICES_H

#include "core/comm.h"
#include "core/data.h"

typedef struct sg_matrices sg_matrices;

/* PROBLEM must outlive it. */
shingle_status sg_matrices_open(sg_group *group, const sg_problem *problem,
                                sg_matrices **matrices_out);
void sg_matrices_close(sg_matrices *matrices); /* takes NULL */

/* Stores the inputs of DATA, and a C in which nothing is right, for every rank. */
shingle_status sg_matrices_fill(sg_matrices *matrices, const sg_data *data);

/* Stores normally distributed inputs: what a product costs depends on its data, by way of power. */
shingle_status sg_matrices_randomize(sg_matrices *matrices);

/* Compares every element of every rank's C with what DATA says.  Elements that are wrong are
 * counted, and the first of each rank is logged under the name of PLAN; SHINGLE_EBUG if something
 * lies outside of C that a run stored. */
shingle_status sg_matrices_compare(sg_matrices *matrices, const sg_data *data, const char *plan,
                                   int64_t *wrong_out);

/* Will elements be compared where they are? */
bool sg_matrices_on_device(const sg_matrices *matrices);

/* What a run of RANK is given. */
shingle_tensors sg_matrices_tensors(const sg_matrices *matrices, int rank);

/* Bytes of A, B and C of rank 0. */
int64_t sg_matrices_bytes(const sg_matrices *matrices);

#endif
