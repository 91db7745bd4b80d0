/* kernel.h -- the device kernels of a run, as the host sees them.
 *
 * A bound plan is lowered once: the lists of its sealed schedule (patches, waits, addends, stores,
 * raises) are copied to the device as they are, with the indices they have, and with one change:
 *
 *     area.buf     names an sg_kernel_place instead of a buffer of the schedule
 *     area.rank    stays: whose memory it is, for `leave`
 *
 * A place is such a buffer with its address, which is all that differs from run to run.  Places and
 * tensor maps travel as kernel parameters, so a launch is ordered by its stream alone, and a graph
 * that was captured replays it.  Epoch and half of the workspace are read on the device.
 *
 *     bind   upload the lists; fill a program; sg_kernel_gemm_make for each launch
 *     run    begin | for each step: places, sg_kernel_gemm_aim, sg_kernel_gemm_run ... | end
 *
 * A launch may do of that what its `protocol` says: hello at its start, the gate before its first
 * store, the end when its last block leaves.  A plan of one launch is then one kernel.
 *
 * Every wait on the device is bounded by the rank's limit.  Who runs out of time, or sees that
 * somebody else has, records what it waits for in its rank's trouble record, raises `abort` at all
 * ranks, and goes on without waiting: everything drains, nothing traps, and no peer's own tensor is
 * written without its hello.
 *
 * Functions that return const char * return NULL, or a reason that ends a sentence ("...: C is not
 * aligned to 16 bytes"). */
#ifndef SG_KERNEL_H
#define SG_KERNEL_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "core/walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What the device keeps of a rank --------------------------------------------------------- */

enum {
    SG_KERNEL_FLAG_PAGE0 = 256, /* as in core/work.h */
    SG_KERNEL_FLAG_PAGES = 23,
    SG_KERNEL_PLACES = 32,
    SG_KERNEL_MAPS = 32,
    SG_KERNEL_STAGE_K = 64, /* k that a stage of the fast kernels has: 128 bytes */
    SG_KERNEL_BLOCKS = 144  /* of a launch of the fast kernel: the most SMs that a Hopper has */
};

/* Words of one rank that its peers write, with the layout of core/work.h. */
typedef struct sg_kernel_hello {
    uint64_t epoch; /* stored last */
    uint64_t hash, c, c_stride;
} sg_kernel_hello;

typedef struct sg_kernel_words {
    uint64_t *done;                       /* [by] */
    uint64_t *abort;                      /* [by] */
    sg_kernel_hello *hello;               /* [by][2] */
    uint64_t *flag[SG_KERNEL_FLAG_PAGES]; /* [by][flags of the page] */
} sg_kernel_words;

/* What is waited for; the numbers of sg_stuck_kind (core/run.h). */
enum sg_kernel_stuck {
    SG_KERNEL_STUCK_NOT = 0,
    SG_KERNEL_STUCK_GATE = 1,
    SG_KERNEL_STUCK_LEAVE = 2,
    SG_KERNEL_STUCK_FLAG = 3,
    SG_KERNEL_STUCK_END = 6,
    SG_KERNEL_STUCK_MISMATCH = 16, /* `by` runs another plan: `seen` is its hash, `wanted` ours */
    SG_KERNEL_STUCK_DEFECT = 17    /* a barrier inside a block: a defect of the kernel */
};

/* In mapped host memory, zeroed by the host.  One a rank: the first wait that failed, be it that
 * its own time was up (late = 1) or that it was waiting when it saw an abort (late = 0).  A rank
 * that records nothing did not wait. */
typedef struct sg_kernel_trouble {
    uint32_t kind; /* enum sg_kernel_stuck; stored last (release) */
    uint32_t late;
    int32_t rank, by, step, visit, flag; /* visit: of the launch; -1: none */
    int32_t spare;
    uint64_t epoch, seen, wanted;
    uint64_t hash; /* of the plan, if it has said hello; otherwise 0 */
} sg_kernel_trouble;

/* Of sg_kernel_rank.leaving: the trouble record has an owner; a block knew of an abort when it
 * left. */
#define SG_KERNEL_CLAIMED 0x80000000u
#define SG_KERNEL_ABORTED 0x40000000u

/* In the device memory of the rank; the host fills it before the first run.  What `epoch`, `last`
 * and `prev_half` say changes only at the end of a run: every kernel works out by itself which half
 * the run uses (sg_kernel_program.baked: 0; otherwise the one that the run before did not use).  A
 * copy engine raises a flag by copying `epoch`. */
typedef struct sg_kernel_rank {
    uint64_t epoch;    /* of the next run to begin, or of the run in progress; starts at 1 */
    uint64_t last[2];  /* last run that used this half; 0: none */
    int32_t prev_half; /* starts at 1 */
    int32_t rank, ranks;
    /* Blocks that have left the launch that ends the run, zero at rest; with one of the bits above
     * no run ends until recovery clears it. */
    uint32_t leaving;
    uint64_t limit_ns;
    const sg_kernel_words *words; /* [ranks], on the device: as reached from this rank */
    sg_kernel_trouble *trouble;   /* as the device sees it */
} sg_kernel_rank;

/* ---- A lowered plan -------------------------------------------------------------------------- */

enum sg_kernel_type { SG_KERNEL_F32, SG_KERNEL_BF16, SG_KERNEL_F16 }; /* as sg_type */
enum sg_kernel_act {
    SG_KERNEL_NONE,
    SG_KERNEL_RELU,
    SG_KERNEL_GELU,
    SG_KERNEL_SILU
}; /* as sg_act */

/* A matrix in this rank's or a peer's memory. */
typedef struct sg_kernel_place {
    void *data[2];      /* by half; the same twice if it has none */
    int64_t pitch;      /* bytes from row to row */
    int32_t rows, cols; /* elements */
    int32_t wide;       /* f32 although the product's type is not */
    uint8_t tagged;     /* words that tell by themselves that they have come (tagged.cuh) */
    uint8_t spare[3];
} sg_kernel_place;

/* What all kernels of a bound plan share.  Pointers are to device memory. */
typedef struct sg_kernel_program {
    sg_kernel_rank *rank;
    const struct sg_patch *patch;
    const struct sg_wait *wait;
    const struct sg_addend *add;
    const struct sg_area *to;
    const struct sg_raise *raise;
    const int32_t *raisers; /* sched.counter */
    uint32_t *count;        /* [counters], zero at rest; recovery clears it */
    const void *bias;       /* [n], of the product's type; NULL: none */
    int32_t type, act;      /* enum sg_kernel_type, enum sg_kernel_act */
    uint64_t hash;          /* of the plan; what hellos are compared with */
    uint64_t limit_ns;      /* as rank->limit_ns; ten seconds at least */
    int32_t baked;          /* the run uses half 0 */
    int32_t spare;
    sg_kernel_place place[SG_KERNEL_PLACES];
    /* The rank's own words, as in rank->words: saves the kernels two loads before their first flag.
     * Zeros: not given. */
    sg_kernel_words own;
} sg_kernel_program;

/* The lists as the host keeps them, with places instead of buffers. */
typedef struct sg_kernel_lists {
    const struct sg_patch *patch;
    const struct sg_wait *wait;
    const struct sg_addend *add;
    const struct sg_area *to;
    const struct sg_raise *raise;
} sg_kernel_lists;

/* Waits, stores and raises of a step: the ranges of sg_step. */
typedef struct sg_kernel_step {
    int32_t step;
    int32_t wait0, waits;
    int32_t add0, adds; /* of a reduction */
    int32_t to0, tos;
    int32_t raise0, raises;
    int32_t final;      /* of a reduction: bias and activation are applied */
    struct sg_area src; /* of a copy */
    int32_t pieces;     /* of a take: those of all takes that raise its flag, see
                         * sg_kernel_count_pieces() */
    uint32_t *ticket;   /* a word of device memory of its own, zero at rest; recovery clears it */
} sg_kernel_step;

/* Words of tagged data, of 16 bytes and of one row, that a warp carries at once; half of them of a
 * step that has no more than FEW, so that more warps share it. */
enum { SG_KERNEL_PIECE_WORDS = 256, SG_KERNEL_FEW_WORDS = 1 << 14 };

/* So many pieces of them has a row of step S, and all of it. */
SG_WALK int32_t sg_kernel_row_pieces(const sg_kernel_step *s)
{
    const int32_t words = s->src.cols / 8;
    const bool few = (int64_t)s->src.rows * words <= SG_KERNEL_FEW_WORDS;
    return sg_walk_div(words, few ? SG_KERNEL_PIECE_WORDS / 2 : SG_KERNEL_PIECE_WORDS);
}

SG_WALK int32_t sg_kernel_pieces(const sg_kernel_step *s)
{
    return s->src.rows * sg_kernel_row_pieces(s);
}

/* Fills in `pieces` of COUNT steps, which all are takes. */
SG_WALK void sg_kernel_count_pieces(sg_kernel_step *step, int32_t count,
                                    const struct sg_raise *raise)
{
    for (int32_t i = 0; i < count; ++i) {
        step[i].pieces = 0;
        for (int32_t j = 0; j < count; ++j)
            if (raise[step[j].raise0].flag0 == raise[step[i].raise0].flag0)
                step[i].pieces += sg_kernel_pieces(&step[j]);
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* How two math warpgroups of a block share its tiles, by CUTLASS's names: they multiply one
 * together, or each has one of its own, and one stores while the other multiplies. */
enum sg_kernel_math { SG_KERNEL_ANY_MATH, SG_KERNEL_COOPERATIVE, SG_KERNEL_PINGPONG };

enum { SG_KERNEL_ONE_HOP = 1, SG_KERNEL_TO_OWNERS = 2, SG_KERNEL_GATHERS = 4 };

/* A tile shape that has a fast kernel on the current device, best first for large products. */
typedef struct sg_kernel_tile {
    int32_t m, n;
    int32_t parts;    /* f32 sums of tiles may be handed from patch to patch of a launch */
    int32_t tagged;   /* which tagged data it takes: bits SG_KERNEL_ONE_HOP, SG_KERNEL_TO_OWNERS,
                     * SG_KERNEL_GATHERS */
    int32_t bare;     /* it takes launches without addends, and not only such that have some */
    int32_t adds;     /* it takes launches with addends */
    int32_t narrow;   /* of launches without them: columns that tiles of some patches may have */
    int32_t pingpong; /* one leaves while another is multiplied */
} sg_kernel_tile;

/* At most ROOM of them; returns their number.  Other shapes are served by a slow kernel. */
int sg_kernel_tiles(enum sg_kernel_type type, sg_kernel_tile *tiles_out, int room);

/* How a kernel starts.  EARLY: beside the end of the kernel before it in the stream, whatever that
 * is (programmatic start; GPUs before sm_90 ignore it).  Every kernel here waits for the one before
 * it before it reads anything that that one may write, and lets the next one start only behind
 * that: what is two back has ended before a kernel starts. */
enum { SG_KERNEL_EARLY = 1 };

/* What a launch does of the run protocol, besides its tiles.  Zeros: nothing; begin, gate and end
 * are kernels of their own.  All of it holds for a launch without tiles, too, but not for one that
 * is cut along k, which carries no pushes either. */
typedef struct sg_kernel_protocol {
    /* Said in the hello: where peers store what goes into this rank's C, and elements from row to
     * row.  Only with rows in multiples of 16 bytes, in memory that all peers reach.  NULL: they
     * store to its landing. */
    const void *c;
    int64_t c_stride;
    int32_t ranks;
    /* The launch begins the run.  Otherwise it reads the epoch before it waits for anything: it is
     * started early only behind a kernel of its own run. */
    uint8_t begin;
    /* With begin: says hello to all; with end: waits for all hellos, compares plans. */
    uint8_t hello;
    uint8_t gate; /* no store and no push before the gate; nothing else waits for it */
    /* The last block to leave ends the run, behind the flags below; after a failure it does not. */
    uint8_t end;
    uint8_t done; /* with end: says done to all, which runs with hellos do and no other */
    int32_t wait0, waits, wait_step; /* with end: flags of the FLAG step right behind the launch */
} sg_kernel_protocol;

/* By which maps of a launch a block loads its share of a tile's rows of A and of B, -1 for nothing,
 * and how many rows a stage of its then has, of which others of its cluster load some. */
typedef struct sg_kernel_loads {
    int8_t a, b;
    int16_t rows;
} sg_kernel_loads;

/* Where a block begins: its first unit's patch, of the launch, the units of that patch, and the
 * unit's first tile; how its own tile is loaded, and what its first slab waits for.  To find out
 * itself would take a block longer than to read these: all the code for it comes from the L2, and
 * nothing hides that. */
typedef struct sg_kernel_deal {
    int32_t base, end; /* the first unit, and the one behind the last */
    int32_t band;
    uint16_t col, patch;
    sg_kernel_loads loads;
    /* That flag's index, below SG_KERNEL_DEAL_BITS, and above them who raises it.  -1: there is not
     * one alone, or it does not fit. */
    int32_t flag;
} sg_kernel_deal;

enum { SG_KERNEL_DEAL_BITS = 21 };

/* Who has which seat, see seat_sm90.cuh; all zero at first.  Of one launch at a time, whose grid is
 * always the same.  Seats that were taken so many times count as never taken. */
enum { SG_KERNEL_SEAT_ROUNDS = 1 << 16 };
typedef struct sg_kernel_seats {
    uint32_t tickets, taken[SG_KERNEL_BLOCKS];
} sg_kernel_seats;

/* The parameters of a product kernel, made by sg_kernel_gemm_make and sg_kernel_gemm_aim. */
typedef struct sg_kernel_gemm_param {
    CUtensorMap map[SG_KERNEL_MAPS];
    struct sg_patch first; /* a copy of the first patch: at hand sooner than the list */
    sg_kernel_deal deal[SG_KERNEL_BLOCKS]; /* of a block that takes tiles, without slices of k */
    /* Of a place: as A, as B, as something stored or added, the same in lines, as B of narrow
     * tiles, and as A and B where a patch ends inside a tile; -1: none. */
    int8_t map_of[SG_KERNEL_PLACES][7];
    /* Third coordinate in a place's maps: 0: none, 1: the half, 2: the other half. */
    int8_t flip[SG_KERNEL_PLACES];
    int32_t step; /* of the schedule, for the trouble record */
    int32_t patch0, patches;
    int32_t products; /* of tagged data for owners: patches that multiply, in front of the others */
    int32_t joined;   /* their rows are one tile's: `first` is all of them, and none of the list */
    int32_t tile_m, tile_n;
    int32_t narrow; /* columns of the tiles of some patches, fewer than TILE_N; 0: there are none */
    int32_t units;  /* what is dealt to the blocks, or to the clusters of blocks */
    int32_t a_rest; /* rows that are loaded of A where a patch ends inside a tile; 0: none does */
    int32_t b_rest; /* the same of B */
    int32_t line;   /* rows that are stored at a time of a piece that ends inside a matrix */
    int32_t split, skew; /* slices of k; stages that the slice which adds up computes more */
    int32_t raises;      /* something is raised */
    int32_t epilogue;    /* bias or activation */
    int32_t leaves;      /* something is stored into a peer's own tensor */
    int32_t tiled;       /* something is stored into places for tiles */
    int32_t onto;        /* who stores adds: see sg_patch.onto */
    int32_t goes_on;     /* patches go on with the products of others */
    /* Parts of k: every product that adds anything has so many sums in f32 right before itself,
     * which earlier patches have left in tiled areas of this place.  -1: there is no such place. */
    int32_t parts, part_place;
    uint32_t patience;              /* naps that a block waits for itself */
    sg_kernel_seats *seats;         /* NULL: a block's seat is its number in the grid */
    uint8_t seat[SG_KERNEL_BLOCKS]; /* of who is on an SM */
    int32_t ahead; /* of k: how much of B the L2 is asked for before the launch before has ended */
    uint64_t keep_a, keep_b; /* how long the L2 should keep what is loaded */
    uint32_t *fold;          /* split k: a word a tile and part, zero at rest */
    float *partial;          /* split k: sums of all slices but one */
    /* By the host, before the first aim; `leaves` as well, if a push stores into a peer's
     * tensor. */
    const sg_kernel_step *push; /* COPY steps on the device, of which those that take tagged
                                 * rows alone wait: blocks without tiles carry their rows,
                                 * the first step first, or all blocks before their tiles.
                                 * Addresses, pitches and rows in multiples of 16 bytes */
    int32_t pushes;
    int32_t early;   /* steps of these, from the first one on, that blocks with tiles carry before
                    * those, although others have none */
    int32_t whole;   /* each of the others is one block's */
    int32_t heralds; /* blocks at the end that carry nothing, the last of which raises what all
                      * steps raise (herald_sm90.cuh); 0: who has carried the last of one does */
    int32_t pauses;  /* with heralds: steps behind `early` after each of which couriers that have
                      * had a part of it send nothing until it is raised, or a while has passed */
    int32_t workers; /* blocks that take tiles; those behind them carry rows */
    int32_t remakes; /* maps of a block in `remake` */
    int8_t remade[SG_KERNEL_PLACES]; /* of a place: the first of its maps there; -1: none */
    int32_t takes;                   /* pushes that stay here, the last ones: see gather_sm90.cuh */
    CUtensorMap *remake; /* device memory; NULL: a fast kernel stores tiles into landings alone */
    sg_kernel_protocol protocol; /* by the host, for each run */
    sg_kernel_program program;
} sg_kernel_gemm_param;

typedef struct sg_kernel_gemm {
    sg_kernel_gemm_param param;
    const sg_kernel_lists *lists;                             /* must outlive this */
    int32_t instance;                                         /* of the table of kernels */
    int32_t blocks;                                           /* of the grid */
    int32_t want_blocks, want_split, want_skew, want_cluster; /* of blocks; 0: any */
    int32_t want_math;                                        /* enum sg_kernel_math */
    int32_t sms, arch;
    sg_kernel_place aimed[SG_KERNEL_PLACES]; /* what the maps are of */
    /* By the host, before the first aim: nobody but this launch touches its wide areas, so that
     * what a tile leaves there may lie in any order. */
    int32_t own_parts;
    int32_t lies_there;     /* what it adds, where it stores, when it was aimed last */
    int32_t early;          /* param.early, unless rows go in front of the launch */
    int32_t ranks;          /* of the group, by the host before the first aim; 0: one */
    sg_kernel_seats *seats; /* device memory by the host, before the first aim; NULL: none */
    int64_t carried;  /* bytes that param.push stores, by the host before the first aim; 0: few */
    const char *slow; /* why it is not the fast kernel that serves this launch; NULL: it is */
} sg_kernel_gemm;

/* A launch of one patch without waits, addends and raises may be cut along k: set want_split and
 * param.fold and param.partial (sizes: sg_kernel_plain) between make and aim.
 *
 * A launch of patches PATCH0 .. + PATCHES of LISTS in tiles of TILE_M x TILE_N on at most BLOCKS
 * SMs (0: all) of the current device.  Copies PROGRAM.  Its places may be filled later. */
const char *sg_kernel_gemm_make(sg_kernel_gemm *gemm, const sg_kernel_program *program,
                                const sg_kernel_lists *lists, int step, int patch0, int patches,
                                int tile_m, int tile_n, int blocks);

/* Chooses the kernel and makes the maps for the places in gemm->param.program; costs nothing if
 * they have not changed.  What tensor maps forbid is served by a slower kernel, see gemm->slow. */
const char *sg_kernel_gemm_aim(sg_kernel_gemm *gemm);

/* Bytes of device memory for param.remake, from make on; 0: nothing is stored into a peer's
 * tensor. */
size_t sg_kernel_remake_bytes(const sg_kernel_gemm *gemm);

/* Bytes of device memory for gemm->seats, from make on; 0: blocks keep the number of the grid. */
size_t sg_kernel_seats_bytes(const sg_kernel_gemm *gemm);

/* HOW: SG_KERNEL_EARLY or 0, here and below. */
cudaError_t sg_kernel_gemm_run(const sg_kernel_gemm *gemm, unsigned how, cudaStream_t stream);

/* A product by itself: C (m x n) = A (m x k) * B (n x k)', on the current device.  Places 0, 1 and
 * 2 are A, B and C.  Tile, order and slices of k follow from a model of the H200. */
typedef struct sg_kernel_plain {
    int32_t m, n, k;
    int32_t type;          /* enum sg_kernel_type */
    struct sg_patch patch; /* the only patch, and the only area of its stores: for both lists */
    struct sg_area to;
    int32_t tile_m, tile_n, cluster, math, split, skew, blocks;
    uint64_t keep_a, keep_b;
    int64_t partial_bytes, fold_bytes; /* of param.partial and param.fold, the latter zeroed */
    double predicted_us;
} sg_kernel_plain;

/* The RANK-th best way by the model, 0 first.  The caller fills m, n, k and type. */
const char *sg_kernel_plain_choose(sg_kernel_plain *plain, int rank);

/* As sg_kernel_gemm_make; LISTS and PROGRAM hold plain->patch and plain->to as their entry 0. */
const char *sg_kernel_plain_make(sg_kernel_gemm *gemm, const sg_kernel_plain *plain,
                                 const sg_kernel_program *program, const sg_kernel_lists *lists,
                                 float *partial, uint32_t *fold);

/* ---- Steps that are not products ------------------------------------------------------------- */

/* A FLAG step, or what stands before and behind work of a copy engine: one thread waits for the
 * step's flags, and for the hellos that its stores (to0, tos) need, then raises.  Give ranges of 0
 * for what is not wanted. */
cudaError_t sg_kernel_flag(const sg_kernel_program *program, const sg_kernel_step *step,
                           unsigned how, cudaStream_t stream);

/* COPY by SMs: src to every store. */
cudaError_t sg_kernel_copy(const sg_kernel_program *program, const sg_kernel_step *step, int blocks,
                           unsigned how, cudaStream_t stream);

/* One of several copies that are carried out together. */
typedef struct sg_kernel_move {
    struct sg_area src, to; /* of one shape, in memory of this rank */
    int64_t row;            /* rows of all copies before it */
} sg_kernel_move;

/* COUNT copies by SMs, of ROWS rows together, in one launch: MOVE, on the device, in any order, of
 * which none reads or stores what another one stores. */
cudaError_t sg_kernel_copies(const sg_kernel_program *program, const sg_kernel_move *move,
                             int count, int64_t rows, int blocks, unsigned how,
                             cudaStream_t stream);

/* Threads of a block of copies and reductions, of which four fit an SM. */
enum { SG_KERNEL_STEP_THREADS = 256, SG_KERNEL_STEP_BLOCKS = 4 };

/* REDUCE: addends in list order in f32, each after its flag, one rounding, to every store. */
cudaError_t sg_kernel_reduce(const sg_kernel_program *program, const sg_kernel_step *step,
                             int blocks, unsigned how, cudaStream_t stream);

/* A launch that norms: patches PATCH0 .. + PATCHES, whose places have TILE_M rows. */
typedef struct sg_kernel_norm {
    int32_t patch0, patches, tile_m;
    int32_t rows;     /* of all patches */
    int32_t residual; /* its place */
    float epsilon;
    const void *gain;
} sg_kernel_norm;

/* Rows of sums, the residual added to them and normed (core/norm.h): to C, and into the
 * residual. */
cudaError_t sg_kernel_norm_run(const sg_kernel_program *program, const sg_kernel_norm *norm,
                               int sms, unsigned how, cudaStream_t stream);

/* Moves rows: run i takes runs[3 i + 2] rows of SRC from row runs[3 i] to row runs[3 i + 1] of
 * DST.  RUNS NULL: all rows of SRC, in their order. */
cudaError_t sg_kernel_permute(const sg_kernel_place *src, const sg_kernel_place *dst,
                              const int32_t *runs, int count, int element_bytes, int blocks,
                              unsigned how, cudaStream_t stream);

/* ---- The run protocol ------------------------------------------------------------------------ */

/* Says hello to all ranks if HELLO, with C as in sg_kernel_protocol, and then
 * waits for the gate if GATE. */
cudaError_t sg_kernel_begin(sg_kernel_rank *rank, uint64_t hash, const void *c, int64_t c_stride,
                            int baked, int hello, int gate, unsigned how, cudaStream_t stream);

/* Behind all lanes: waits for all hellos if HELLO and compares their hashes, says done to all if
 * DONE (as HELLO), next epoch.  After a failure it does none of it. */
cudaError_t sg_kernel_end(sg_kernel_rank *rank, uint64_t hash, int baked, int hello, int done,
                          unsigned how, cudaStream_t stream);

/* Loads every kernel into the current device's context now, since a first launch beside a waiting
 * kernel could wait for it. */
cudaError_t sg_kernel_load(void);

#ifdef __cplusplus
}
#endif

#endif
