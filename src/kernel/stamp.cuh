/* stamp.cuh -- when every role of every block of the Hopper product did what, for
 * bench/lab/lab_stamps.cu.
 *
 * Compiled in with -DSHINGLE_STAMPS alone; otherwise nothing of it is left.  A role notes an event
 * with the SM's clock and the GPU's nanoseconds (which tick in 32) in device memory.  How many it
 * has noted, and what it has waited for since, is kept in shared memory, so that no register is
 * taken for long.  What is read are the notes of the last launch. */
#pragma once
#include "kernel/ptx.cuh"

/* Who notes.  ORDER STAMPS: bench/lab/stamps.py. */
enum { STAMP_LOADER, STAMP_STORER, STAMP_WATCHER = 3, STAMP_MATH, STAMP_ROLES = 6 };

/* What has just happened; in brackets what `value` is.  ORDER STAMPS: bench/lab/stamps.py. */
enum StampEvent {
    STAMP_BEGUN,      /* the role has begun */
    STAMP_FREE,       /* the launch before has ended */
    STAMP_GATE,       /* the gate is open */
    STAMP_PUSHED,     /* a storer's rows have arrived */
    STAMP_TILE,       /* a tile begins, for this role (patch) */
    STAMP_FLAG,       /* all that a tile waits for has been seen */
    STAMP_AWAITED,    /* loader: all stages of a tile are asked for (cycles it waited for flags) */
    STAMP_LOADED,     /* right behind that (cycles it waited for free stages) */
    STAMP_FIRST,      /* math: the first stage of a tile is there */
    STAMP_MULTIPLIED, /* math: the last product has ended (cycles it waited for stages) */
    STAMP_SLOTS,      /* right behind that (cycles it waited for slots, for the tile before) */
    STAMP_ADDED,      /* math: addends are in */
    STAMP_STAGED,     /* storer: the first piece of a tile is there */
    STAMP_SENT,     /* storer: the last one is on its way (cycles it waited for slots to be read) */
    STAMP_RAISED,   /* storer: stores complete, flags raised */
    STAMP_TOGETHER, /* watcher: all roles of the block have come to the end */
    STAMP_LEFT,     /* watcher: the block leaves, the last one behind the end of the run; a product
                     * of no run does not say so */
    STAMP_EVENTS
};

struct Stamp {
    uint32_t clock, ns; /* the low halves */
    int32_t event, value;
};

enum { STAMP_BLOCKS = 132, STAMP_MOST = 512 }; /* STAMP_MOST: of a role */

struct Stamps {
    int32_t count[STAMP_BLOCKS][STAMP_ROLES];
    Stamp stamp[STAMP_BLOCKS][STAMP_ROLES][STAMP_MOST];
};

/* Copies what bf16 products have noted on DEVICE, and forgets it.  Not 0: an error of CUDA's. */
int sg_kernel_stamps(int device, Stamps *to);

#ifdef SHINGLE_STAMPS

/* Of shared memory: how many notes each role has, and cycles that it has waited, for two things. */
enum { STAMP_WORDS = 3, STAMP_BYTES = 4 * STAMP_WORDS * STAMP_ROLES };

static __device__ Stamps stamps_here;

DEV uint32_t stamp_clock()
{
    uint64_t v;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(v)::"memory");
    return (uint32_t)v;
}

/* By one thread of a block, before the others go on.  WORDS: the shared memory, here and below. */
DEV void stamp_begin(uint32_t words)
{
    for (int i = 0; i < STAMP_BYTES; i += 4) shared_store(words + i, 0);
}

/* By one thread of ROLE. */
DEV void stamp(uint32_t words, int role, StampEvent event, int value = 0)
{
    const uint32_t word = words + 4 * STAMP_WORDS * role, i = shared_load(word);
    if (i >= STAMP_MOST || blockIdx.x >= STAMP_BLOCKS) return;
    uint32_t ns;
    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(ns)::"memory");
    Stamp *to = &stamps_here.stamp[blockIdx.x][role][i];
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(stamp_clock()), "r"(ns),
                 "r"((int)event), "r"(value)
                 : "memory");
    shared_store(word, i + 1);
    stamps_here.count[blockIdx.x][role] = (int)i + 1;
}

/* ROLE has waited since SINCE, for one thing or the other. */
DEV void stamp_waited(uint32_t words, int role, int other, uint32_t since)
{
    const uint32_t word = words + 4 * (STAMP_WORDS * role + 1 + other);
    shared_store(word, shared_load(word) + stamp_clock() - since);
}

/* An event whose value is how long that was since the last such event. */
DEV void stamp_waits(uint32_t words, int role, StampEvent event, int other)
{
    const uint32_t word = words + 4 * (STAMP_WORDS * role + 1 + other);
    stamp(words, role, event, (int)shared_load(word));
    shared_store(word, 0);
}

#else

enum { STAMP_BYTES = 0 };

DEV uint32_t stamp_clock()
{
    return 0;
}
DEV void stamp_begin(uint32_t)
{
}
DEV void stamp(uint32_t, int, StampEvent, int = 0)
{
}
DEV void stamp_waited(uint32_t, int, int, uint32_t)
{
}
DEV void stamp_waits(uint32_t, int, StampEvent, int)
{
}

#endif
