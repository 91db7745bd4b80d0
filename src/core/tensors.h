/* tensors.h -- what a run is given, against what its problem needs. */
#ifndef SG_TENSORS_H
#define SG_TENSORS_H

#include "core/problem.h"

/* Strides of 0 become those of dense tensors.  EINVAL where one is missing, too narrow or
 * misaligned, where one is given that the problem has no use for, and where one that is stored to
 * lies over another. */
shingle_status sg_tensors_check(const sg_problem *p, int rank, shingle_tensors *t);

#endif
