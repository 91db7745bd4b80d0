/* arrivals.h -- what reaches rank 0 while a launch of test_kernel.cpp runs. */
#ifndef ARRIVALS_H
#define ARRIVALS_H

#include "kernel_world.h"

/* Pieces of A that arrive while the launch runs. */
static struct arrival {
    world *w;
    const matrix *from;
    matrix *to;
    int k;
    struct piece {
        int by, flag, row, rows, k0, cols;
    };
    std::vector<piece> left;
} arriving;

static int odds = 20; /* one of so many moments brings something */

static bool arrive(void)
{
    if (arriving.left.empty() || draw(odds) != 0) return false;
    const size_t i = (size_t)draw((int)arriving.left.size());
    const arrival::piece p = arriving.left[i];
    arriving.left.erase(arriving.left.begin() + (std::ptrdiff_t)i);
    for (int row = p.row; row < p.row + p.rows; ++row)
        for (int x = p.k0; x < p.k0 + p.cols; ++x)
            (*arriving.to)[(size_t)row * arriving.k + x] =
                (*arriving.from)[(size_t)row * arriving.k + x];
    arriving.w->word(0, p.by, p.flag) = arriving.w->rank.epoch;
    return true;
}

/* M x N of what rank BY sends, from ROW0 on, with a flag for each tile. */
static void arrive_in_tiles(int by, int flag0, int row0, int m, int n, int tm, int tn)
{
    for (int t = 0; t < up(m, tm) * up(n, tn); ++t) {
        const int band = t / up(n, tn), col = t % up(n, tn);
        const int rows = m - band * tm < tm ? m - band * tm : tm;
        const int cols = n - col * tn < tn ? n - col * tn : tn;
        arriving.left.push_back({by, flag0 + t, row0 + band * tm, rows, col * tn, cols});
    }
}

#endif
