/* exact.h -- what the tests of kernels on the emulator share: exact matrices, poison, verdicts. */
#ifndef SG_EXACT_H
#define SG_EXACT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>
#include <string>
#include <vector>

#include <cuda_bf16.h>

#include "kernel/kernel.h"
#include "kernel_emulated.h"

typedef __nv_bfloat16 T;

/* As memory of a GPU is: which kernel serves a launch hangs on where rows begin. */
template <class E> struct device_like {
    typedef E value_type;
    static constexpr std::align_val_t line{256};
    device_like() = default;
    template <class Other> device_like(const device_like<Other> &)
    {
    }
    E *allocate(size_t count)
    {
        return (E *)::operator new(count * sizeof(E), line);
    }
    void deallocate(E *memory, size_t)
    {
        ::operator delete(memory, line);
    }
    bool operator==(const device_like &) const
    {
        return true;
    }
    bool operator!=(const device_like &) const
    {
        return false;
    }
};

typedef std::vector<T, device_like<T>> matrix;

extern int failed, passed;

void expect(bool ok, const std::string &what);
/* 0 .. BELOW - 1; begins anew from a seed of -BELOW if that is negative. */
int draw(int below);
matrix random_matrix(size_t count);
matrix wide_matrix(size_t count); /* whose sums have more bits than their type */
matrix poisoned(size_t count);
bool is_poison(T v);

/* The product of M x K, rows A_PITCH apart, and N x K. */
std::vector<float> product(const T *a, int a_pitch, const matrix &b, int m, int n, int k);

/* Rows [row0, row0 + rows) x n of C, PITCH wide, are WANT, and NaN as conversions make it where
 * that is; all else is poison. */
void judge(const matrix &c, int pitch, int row0, int rows, int n, const float *want,
           const std::string &what);

/* The lists of launches, as a schedule has them. */
struct lists {
    std::vector<sg_patch> patch;
    std::vector<sg_wait> wait;
    std::vector<sg_addend> add;
    std::vector<sg_area> to;
    std::vector<sg_raise> raise;
    std::vector<int32_t> raisers;
    std::vector<uint32_t> count;
    sg_kernel_program program;
    sg_kernel_lists host;

    lists();
    /* Opens a patch, which stores, waits, addends and raises are attached to. */
    sg_patch &rect(int row0, int rows, int n, int k, sg_area a, sg_area b);
    void store(sg_area a);
    void waits(sg_wait w);
    void adds(sg_area a, const sg_wait *w);
    void raises(int at, int per, int flag0, int by);
    /* Counters at rest; the program and the host see the lists, which stay as they are from now
     * on. */
    void close();
};

sg_area area(int rank, int place, int row0, int rows, int col0, int cols);
int up(int a, int b);

#endif
