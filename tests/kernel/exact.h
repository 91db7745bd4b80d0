/* exact.h -- what the tests of kernels on the emulator share: exact matrices, poison, verdicts. */
#ifndef SG_EXACT_H
#define SG_EXACT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include <cuda_bf16.h>

#include "kernel/kernel.h"
#include "kernel_emulated.h"

typedef __nv_bfloat16 T;
typedef std::vector<T> matrix;

extern int failed, passed;

void expect(bool ok, const std::string &what);
/* 0 .. BELOW - 1; begins anew from a seed of -BELOW if that is negative. */
int draw(int below);
matrix random_matrix(size_t count);
matrix poisoned(size_t count);
bool is_poison(T v);

/* The product of M x K, rows A_PITCH apart, and N x K. */
std::vector<float> product(const T *a, int a_pitch, const matrix &b, int m, int n, int k);

/* Rows [row0, row0 + rows) x n of C, PITCH wide, are WANT; all else is poison. */
void judge(const matrix &c, int pitch, int row0, int rows, int n, const float *want,
           const std::string &what);

sg_area area(int rank, int place, int row0, int rows, int col0, int cols);
int up(int a, int b);

#endif
