/* kernel_world.h -- the words of three ranks, of which rank 0 runs, for test_kernel.cpp and
 * test_places.cpp: a run whose epoch is about to leave 32 bits, in half 1, with flags in two
 * pages. */
#ifndef KERNEL_WORLD_H
#define KERNEL_WORLD_H

#include "exact.h"

enum { RANKS = 3, FLAGS = 512 };

struct world {
    std::vector<uint64_t> done, abort, flag[RANKS];
    std::vector<sg_kernel_hello> hello;
    sg_kernel_words words[RANKS];
    sg_kernel_rank rank;
    sg_kernel_trouble trouble;

    world()
    {
        done.assign(RANKS, 0);
        abort.assign(RANKS, 0);
        hello.assign(2 * RANKS, sg_kernel_hello{});
        for (int r = 0; r < RANKS; ++r) {
            flag[r].assign(RANKS * FLAGS, 0);
            words[r] = {};
            words[r].done = done.data();
            words[r].abort = abort.data();
            words[r].hello = hello.data();
            words[r].flag[0] = flag[r].data();
            words[r].flag[1] = flag[r].data() + RANKS * 256;
        }
        trouble = {};
        rank = {};
        rank.epoch = (1ull << 32) - 1;
        rank.ranks = RANKS;
        rank.prev_half = 0;
        rank.limit_ns = 2000000;
        rank.words = words;
        rank.trouble = &trouble;
    }
    uint64_t &word(int at, int by, int index)
    {
        return index < 256 ? flag[at][(size_t)(by * 256 + index)]
                           : flag[at][(size_t)(RANKS * 256 + by * 256 + index - 256)];
    }
};

inline sg_kernel_place place_of(matrix &low, matrix &high, int rows, int cols, int pitch)
{
    sg_kernel_place p = {};
    p.data[0] = low.data();
    p.data[1] = high.data();
    p.rows = rows;
    p.cols = cols;
    p.pitch = pitch * (int64_t)sizeof(T);
    return p;
}

#endif
