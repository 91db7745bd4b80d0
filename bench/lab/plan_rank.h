// What a launch of any plan is for one rank: its lists, its buffers, and its time by the simulator without any link.
#pragma once
#include "core/walk.h"
#ifdef __cplusplus
extern "C" {
#endif

struct lab_buffer {
    long long rows, cols;
    int wide, tagged, user;  // user: a tensor of the user's, of which the first three are A, B and C
};
struct lab_rank {
    const struct sg_patch *patch;
    const struct sg_wait *wait;
    const struct sg_addend *add;
    const struct sg_area *to;
    const struct sg_raise *raise;
    const int *counter;
    int patches, waits, adds, tos, raises, counters, flags, buffers;
    struct lab_buffer buffer[16];
    int patch0, count, tile_m, tile_n, blocks, own_parts;  // the launch
    long long m, n, k, ranks, most_rows;
    double alone_us, us;  // predicted: without links, with them
    char text[200];
};

// The first launch of rank 0 of STRATEGY ("" for the one that MACHINE is given) for PROBLEM. False: why is on stderr.
int lab_rank_make(const char *machine, const char *problem, const char *strategy, struct lab_rank *out);

#ifdef __cplusplus
}
#endif
