/* emulate_state.h -- the machine of emulate.cpp and emulate_bulk.cpp: launches, blocks, fibers. */
#ifndef SG_EMULATE_STATE_H
#define SG_EMULATE_STATE_H

#include <setjmp.h>
#include <ucontext.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernel/instance.h"
#include "kernel_emulated.h"

enum { STACK = 96 * 1024, SHARED = 232448, SMS = EMU_SMS };

/* ---- State ----------------------------------------------------------------------------------- */

struct barrier { /* of mbarrier instructions */
    int arrivals, pending;
    int64_t bytes; /* announced and not landed */
    uint32_t phase;
};

struct tensor { /* inside a CUtensorMap */
    uint8_t *base;
    uint64_t size[3], stride[2];
    uint32_t box[3], swizzle, element;
    bool f16; /* of elements; otherwise bf16 */
};

struct launch;

struct bulk_op {
    tensor map; /* base NULL: BYTES side by side at MEMORY */
    uint8_t *memory;
    int x, y, z;
    uint32_t at, bar, bytes;
    launch *run;
    int block;       /* of the grid: whose shared memory and barrier */
    unsigned blocks; /* of the cluster that a load goes to */
    std::vector<uint8_t> data;
    bool read;
    bool onto; /* a store that adds */
};

struct meeting {
    int here, all; /* how many wait, and for how many */
    uint64_t times;
    uint64_t late;  /* the round from which those go on who do not wait */
    uint64_t drawn; /* the meeting for which that was drawn is the one before this */
};

struct tagged_word { /* stored, and not seen yet */
    void *to;
    uint4 word;
};

/* What is between what a thread has seen or stored and a flag about it: a fence for all; one for
 * its GPU, and the count of all who have one; that fence alone; nothing. */
enum fenced { FENCED, COUNTED_HERE, FENCED_HERE, UNFENCED };

/* First, in one line of a cache, what every round asks all of them. */
struct alignas(64) fiber {
    bool ended, begun;
    bool behind; /* waits for the launch before this one to end */
    bool waits;  /* for the phase of a barrier */
    uint32_t bar, parity;
    int block;           /* of the grid */
    uint64_t not_before; /* round */
    const meeting *at;   /* waits for its next one, the TIMES-th; NULL: for none */
    uint64_t times;
    launch *run;
    bool met;                /* others of its block, which then see what it has stored */
    emu_index thread, where; /* threadIdx, blockIdx */
    uint32_t sm;
    uint16_t fences; /* between its ordinary accesses to shared memory and the bulk engine */
    bool saw;        /* a flag, with no fence behind it between memory and the bulk engine */
    fenced before_flags;
    std::vector<std::vector<bulk_op>> groups; /* stores, committed */
    std::vector<bulk_op> open;
    std::vector<const CUtensorMap *> changed; /* maps, and not released yet */
    std::vector<void *> rests;                /* words put back to rest, and not seen yet */
    std::vector<emu_product_of> products;     /* asked for, and not worked out yet */
    uint32_t batches;                         /* of them, committed */
    jmp_buf here;                             /* where it goes on */
    ucontext_t context;                       /* where it begins */
};

/* Who last touched 16 bytes of shared memory with ordinary instructions: a thread of the block, and
 * how many fences between those and the bulk engine it had behind it. */
struct touch {
    uint16_t thread; /* + 1; 0: nobody */
    uint16_t fences;
};

struct block_state {
    std::vector<uint8_t> shared;
    std::vector<touch> wrote, read; /* of each 16 bytes */
    std::map<uint32_t, bool>
        told; /* words by which threads tell others: had the teller seen a flag so? */
    std::vector<barrier> bars; /* by address / 8, from SHARED - 2048 on */
    meeting sync, named[16], warp[16], group[4];
    uint32_t words[16][192];
    bool yes;
    std::map<uint32_t, const fiber *> fresh;    /* words by threads that had met nobody */
    bool next;                                  /* it lets the launch behind start */
    std::map<const CUtensorMap *, tensor> maps; /* what it has acquired */
};

struct launch {
    std::function<void(void)> body;
    int grid, threads, cluster;
    bool early, started, ended;
    uint64_t not_before;            /* round */
    std::shared_ptr<launch> before; /* in its stream */
    std::vector<std::unique_ptr<fiber>> fibers;
    std::vector<std::unique_ptr<block_state>> blocks;
    std::vector<meeting> clusters;
};

extern fiber *now;                 /* the one that runs */
extern std::vector<bulk_op> loads; /* under way */

void stop(const char *why);
uint32_t random_below(uint32_t n);
block_state *mine(void); /* of the fiber that runs */
barrier *bar_of(launch *run, int block, uint32_t bar);
void bar_settle(barrier *b);

/* A load lands now. */
void land(const bulk_op &op);

#endif
