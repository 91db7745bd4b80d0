/* pool_sizes.h -- what the workers of a pool take at a time, and how far they go: the CPU backend
 * cuts its work by these numbers, and sim_pool.c counts with them. */
#ifndef SG_POOL_SIZES_H
#define SG_POOL_SIZES_H

enum {
    SG_POOL_PIECE = 1 << 15, /* elements of a sum or a copy: 128 KB of accumulators, some 10 us */
    SG_POOL_ROWS = 128,      /* of a piece of the vendor's product, at most: what a cache holds */
    SG_POOL_COLS = 1024,
    SG_POOL_PACKED = 64,    /* columns of B that lie side by side when they are packed */
    SG_POOL_MORE_UNITS = 2, /* that may wait while every worker is busy with the same rank */
    SG_POOL_LEAST_SLOTS = 4,
    SG_POOL_MOST_SLOTS = 64 /* for tiles of a rank on their way to its peers */
};

/* A worker stays with a rank, whose operands are in its cache, until another is this much of a run
 * behind.  2 % of a run are a few visits of the sizes that matter. */
#define SG_POOL_MOST_AHEAD 0.02

#endif
