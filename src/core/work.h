/* work.h -- what a rank keeps as long as its comm lives: the words of the run protocol and the
 * workspace.
 *
 *     words that peers write, one writer each, never reset:
 *         done[by]         epoch of the last run that rank BY has ended
 *         hello[by][e % 2] epoch, plan and output of the run that rank BY has begun
 *         abort[by]        epoch in which rank BY's kernels gave up; 0: never
 *         flag[by][index]  epoch of the last raise
 *     words of the rank itself:
 *         epoch, last[half], prev_half
 *     workspace: SYM half 0, SYM half 1, REST half 0, REST half 1, LOCAL, LIBRARY, WINDOWS
 *
 * Growth adds blocks; nothing that was handed out ever moves.  A block's size is the need rounded
 * up to a power of two, so which block a plan gets depends on the plan alone: ranks agree on it in
 * whatever order they bind their plans.
 */
#ifndef SG_WORK_H
#define SG_WORK_H

#include <stdatomic.h>

#include "core/backend.h"

/* What a rank tells its peers when it begins a run.  EPOCH is stored last. */
typedef struct sg_hello {
    _Atomic uint64_t epoch;
    _Atomic uint64_t hash;     /* of the plan */
    _Atomic uint64_t c;        /* address of its output */
    _Atomic uint64_t c_stride; /* elements between rows of it */
} sg_hello;

enum {
    SG_FLAG_PAGE0 =
        256, /* flags of a rank in the first page; page i > 0 is as large as all before */
    SG_FLAG_PAGES = 23
};

/* The words of one rank that its peers write, as seen from whoever holds this. */
typedef struct sg_words {
    _Atomic uint64_t *done;                /* [by] */
    _Atomic uint64_t *abort;               /* [by] */
    sg_hello *hello;                       /* [by][2] */
    _Atomic uint64_t *flag[SG_FLAG_PAGES]; /* [by][flags of the page] */
} sg_words;

typedef enum sg_block_kind {
    SG_BLOCK_SYM0,
    SG_BLOCK_SYM1,
    SG_BLOCK_REST0,
    SG_BLOCK_REST1,
    SG_BLOCK_LOCAL,
    SG_BLOCK_LIBRARY,
    SG_BLOCK_WINDOWS,
    SG_BLOCK_KINDS
} sg_block_kind;

enum { SG_BLOCK_CLASS0 = 12, SG_BLOCK_CLASSES = 48 }; /* a block of class i has 1 << i bytes */

struct sg_work {
    int rank, ranks;
    const sg_backend *backend;
    void *self;
    sg_words words;
    sg_words **peer; /* [rank], own among them */

    uint64_t epoch;   /* of the next run to begin, or of the run in progress */
    uint64_t last[2]; /* last run that used this half; 0: none */
    int prev_half;

    void *block[SG_BLOCK_KINDS][SG_BLOCK_CLASSES];
};

/* Makes the words of all ranks of a process and shows them to each other.  WORK_OUT has room for
 * RANKS entries; close takes NULL entries. */
shingle_status sg_work_open(int ranks, const sg_backend *backend, void *self, sg_work **work_out);
void sg_work_close(int ranks, sg_work **work);

/* Room for flags 0 .. FLAGS - 1 of every rank.  One thread at a time, runs may go on. */
shingle_status sg_work_flags(sg_work *work, int64_t flags);

/* The block for BYTES bytes; NULL for none.  As above. */
shingle_status sg_work_block(sg_work *work, sg_block_kind kind, int64_t bytes, void **block_out);

/* The word of flag INDEX raised by BY. */
static inline _Atomic uint64_t *sg_work_flag(const sg_words *words, int by, int32_t index)
{
    int page = 0;
    int32_t first = 0;
    int32_t size = SG_FLAG_PAGE0;
    while (index >= first + size) {
        first += size;
        size = first;
        page++;
    }
    return words->flag[page] + (int64_t)by * size + (index - first);
}

/* After a failed run, while nothing runs: all ranks go on at one epoch, no flag is up. */
void sg_work_recover(int ranks, sg_work *const *work);

#endif
