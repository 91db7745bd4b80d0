/* sched.h -- a schedule: one rank's flat list of steps.  Plain data, no addresses, no epochs.
 *
 * The same schedule is checked (check), timed (sim), carried out (exec and a backend) and drawn.
 * sg_step_access says what a step, or one visit of a launch, waits for, reads, writes and raises,
 * in that order, to the checker and the CPU backend.  The simulator and the CUDA backend read the
 * fields of a step; everybody has the order of tiles and flags from walk.h.
 *
 * Steps of a lane run in list order; `after` names steps of other lanes.  A launch (GEMM) is a list
 * of patches (walk.h); its visits may run several at a time as long as the first unfinished visit
 * of the list always makes progress.
 *
 * Building: a strategy declares buffers, then opens steps and patches one after the other and
 * attaches waits, addends, stores and raises to the one opened last:
 *
 *     sg_sched_launch(s, lane, tile_m, tile_n, blocks, vendor);
 *     sg_sched_patch(s, &(sg_patch){...});
 *     sg_sched_wait(s, ...); sg_sched_to(s, ...); sg_sched_raise(s, ...);
 *
 * Steps and patches of nothing are dropped, with all that is attached to them.  A builder that runs
 * out of memory or breaks a rule, as by attaching to a launch without a patch, remembers it;
 * sg_sched_seal reports it.
 */
#ifndef SG_SCHED_H
#define SG_SCHED_H

#include "core/problem.h"
#include "core/walk.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Where a buffer lives.  USER: the tensors of the run.  SYM: peers store into it; it has two
 * halves.  REST: the same for tagged buffers, and for nothing else.  LOCAL: this rank's scratch.
 * LIBRARY: written and read by collectives and by own steps.  WINDOWS: the same, and the library
 * may have been told where all ranks have it, which some collectives are faster in. */
typedef enum sg_arena_kind {
    SG_USER,
    SG_SYM,
    SG_REST,
    SG_LOCAL,
    SG_LIBRARY,
    SG_WINDOWS,
    SG_ARENAS
} sg_arena_kind;

enum {
    SG_A,
    SG_B,
    SG_C,
    SG_BIAS,
    SG_RETURNED,  /* the rows of A that are multiplied, as an output */
    SG_RESIDUAL,  /* with norm: added to rows of C, and what it is afterwards */
    SG_GAIN,      /* with norm: a row */
    SG_USER_BUFS, /* the buffers before are the tensors */
    SG_MAX_BUFS = 16,
    SG_MAX_LANES = 8,
    SG_BUF_ALIGN = 256,
    SG_MAX_VISITS = 1 << 30 /* of a launch */
};

enum { SG_WIDE = 1, SG_FIXED = 2, SG_TAGGED = 4 }; /* traits of a buffer */

/* A matrix of rows x cols elements; of the problem's type, or f32 if wide. */
typedef struct sg_buf {
    uint8_t arena; /* sg_arena_kind */
    uint8_t wide;
    uint8_t fixed;  /* its address is: copy engines or collectives touch it */
    uint8_t tagged; /* in REST: a backend may keep it at rest, all ones, between runs, so that who
                     * reads a word sees that it has come (sg_sched_tagged_fault) */
    uint8_t reach;  /* sealed, user buffers: 1 if this rank stores into a peer's */
    uint8_t summed; /* C, or sealed: what is normed into it; see sg_sched_sums_in_c */
    char name[13];  /* for people: "gathered", "inbox" */
    int64_t rows, cols;
    int64_t offset; /* sealed: bytes from the arena's start; the same on all ranks if alike there */
} sg_buf;

/* Do peers store into BUF's arena, which has two halves then? */
static inline bool sg_buf_is_shared(const sg_buf *buf)
{
    return buf->arena == SG_SYM || buf->arena == SG_REST;
}

/* Has every rank the same buffer at the same place of its own arena? */
static inline bool sg_buf_is_alike(const sg_buf *buf)
{
    return sg_buf_is_shared(buf) || buf->arena == SG_WINDOWS;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

typedef enum sg_kind { SG_LAUNCH, SG_COPY, SG_REDUCE, SG_COLL, SG_FLAG, SG_KINDS } sg_kind;

/* Who carries a copy out: a copy engine, SMs of its own, or a launch at its start. */
typedef enum sg_carrier { SG_BY_ENGINE, SG_BY_SMS, SG_BY_LAUNCH } sg_carrier;

typedef enum sg_coll_kind {
    SG_ALL_GATHER,
    SG_REDUCE_SCATTER,
    SG_ALL_REDUCE,
    SG_ALL_TO_ALL
} sg_coll_kind;

/* One kernel on a GPU, one list of visits on the CPU. */
typedef struct sg_launch {
    int32_t tile_m, tile_n;
    int32_t patch0, patches;
    int32_t visits; /* sealed: tiles of all patches */
    int16_t blocks; /* SMs it runs on; 0: all */
    uint8_t vendor; /* the vendor library's product: one patch without waits or raises, with at most
                     * one addend, which is there already and of the stored type */
    uint8_t norm;   /* its patches are no products but whole rows of C: what the one addend of each
                     * holds, the residual added, and normed (norm.h).  TILE_N is all columns; a
                     * tiled addend has places of TILE_M rows and as many columns as its buffer, in
                     * the patch's raster.  It waits for nothing but steps, and raises nothing */
} sg_launch;

/* Copies src to every area of the step's stores, which have its shape.
 *
 * A copy by a launch (a push) takes no SM and is ordered with nothing, not even with its neighbours
 * in the lane: blocks of the launch that opens lane 0 carry it, from the run's gate on.
 * sg_sched_push_fault says what follows from that. */
typedef struct sg_copy {
    sg_area src;
    uint8_t carrier; /* sg_carrier */
} sg_copy;

/* Sums the step's addends in list order in f32, rounds once, stores to every area. */
typedef struct sg_reduce {
    int32_t add0;
    uint16_t adds;
    uint8_t final; /* values are complete: bias and activation are applied before rounding */
} sg_reduce;

/* A collective of all ranks.  The step's stores list one area of the own memory per rank, in rank
 * order: where that rank's rows arrive (gather) or which rows go to it (scatter; these are read).
 * `self` is what this rank sends (gather), where its sum arrives (scatter), or the area that is
 * summed in place (all-reduce, which lists nothing).  Sums are f32 over ranks 0..P-1.
 * An all-to-all has no self and lists two areas per rank: first all that go to the ranks (read),
 * then where the rows of each rank arrive. */
typedef struct sg_coll {
    uint8_t kind; /* sg_coll_kind */
    int16_t sms;  /* SMs it holds */
    int32_t seq;  /* sealed: the n-th collective of the schedule; equal on all ranks */
    sg_area self;
} sg_coll;

typedef struct sg_step {
    uint8_t kind; /* sg_kind; SG_FLAG has waits and raises alone */
    uint8_t lane;
    uint8_t gate;     /* sealed: touches SYM, REST or a peer's memory, so the gate comes first */
    int32_t after[2]; /* earlier steps of other lanes that must have ended; -1: none */
    int32_t wait0, to0, raise0; /* of the step; a launch has its own in each patch */
    uint16_t waits, tos, raises;
    union {
        sg_launch launch;
        sg_copy copy;
        sg_reduce reduce;
        sg_coll coll;
    } u;
} sg_step;

typedef struct sg_sched {
    const sg_problem *problem;
    int rank;

    sg_buf buf[SG_MAX_BUFS];
    int32_t bufs;
    sg_step *step;
    sg_patch *patch;
    sg_wait *wait;
    sg_addend *add;
    sg_area *to;
    sg_raise *raise;
    int32_t steps, patches, waits, adds, tos, raises;

    /* Sealed. */
    int32_t *counter; /* raisers of each flag that has more than one */
    int32_t counters;
    int32_t flags; /* words flag[by][0..flags) this rank raises or awaits */
    int64_t arena_bytes[SG_ARENAS];
    uint8_t peers; /* memory is shared with peers in this run: begin, gate and end take part */
    uint8_t hello; /* begin says hello to all */
    uint8_t done;  /* end says done to all */
    uint8_t
        baked; /* a shared buffer's address is fixed: half 0 in every run.  Equal on all ranks */

    /* Builder. */
    int32_t step_room, patch_room, wait_room, add_room, to_room, raise_room, counter_room;
    int32_t *table; /* of the sealer: raises by flag */
    int32_t table_room;
    int32_t open_step, open_patch; /* -1: dropped; -2: none yet */
    int32_t colls;
    shingle_status status;
    char why[160];
} sg_sched;

/* ---- Building -------------------------------------------------------------------------------- */

/* Empties S (zeroed at first use) for RANK's schedule of PROBLEM, which must outlive it; declares
 * the user buffers.  Keeps memory from earlier uses. */
void sg_sched_begin(sg_sched *s, const sg_problem *problem, int rank);
void sg_sched_free(sg_sched *s);

/* Declares a buffer and returns its id.  TRAITS: SG_WIDE, SG_FIXED, SG_TAGGED or 0.  SYM, REST and
 * WINDOWS buffers are declared alike on all ranks, SYM ones with SG_FIXED if a copy engine or a
 * collective touches them, and REST ones with SG_TAGGED. */
uint8_t sg_sched_buf(sg_sched *s, sg_arena_kind arena, const char *name, int64_t rows, int64_t cols,
                     unsigned traits);

sg_area sg_area_of(int rank, int buf, int64_t row0, int64_t rows, int64_t col0, int64_t cols);

/* Each opens a step and returns its index, or -1 if it was dropped (which sg_sched_after takes). */
int sg_sched_launch(sg_sched *s, int lane, int32_t tile_m, int32_t tile_n, int blocks, bool vendor);
int sg_sched_copy(sg_sched *s, int lane, sg_carrier carrier, sg_area src);
int sg_sched_reduce(sg_sched *s, int lane, bool final);
int sg_sched_coll(sg_sched *s, int lane, sg_coll_kind kind, int sms, sg_area self);
int sg_sched_flag(sg_sched *s, int lane);

/* Opens a launch that norms rows, TILE_M of them a visit (0: any number), on BLOCKS SMs (0:
 * all).  (sched_norm.c) */
int sg_sched_norm(sg_sched *s, int lane, int32_t tile_m, int blocks);

/* Opens a patch of the launch opened last.  Lists and counts in PATCH are ignored.  One that goes
 * on with the product of that before it takes waits alone. */
void sg_sched_patch(sg_sched *s, const sg_patch *patch);

/* A tiled area (walk.h): PLACES places of a buffer that is one tile wide. */
sg_area sg_area_tiled(int rank, int buf, int64_t place0, int64_t places, int32_t tile_m,
                      int32_t tile_n);

/* Remembers the first thing that is wrong with what is appended; sealing reports it. */
void sg_sched_spoil(sg_sched *s, shingle_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Attach to the step or patch opened last. */
void sg_sched_after(sg_sched *s, int step);
void sg_sched_wait(sg_sched *s, sg_wait wait);
void sg_sched_add(sg_sched *s, sg_area area, const sg_wait *wait); /* WAIT may be NULL */
void sg_sched_to(sg_sched *s, sg_area area);
void sg_sched_raise(sg_sched *s, int at, enum sg_per per, int32_t flag0);

/* Says, alike on all ranks, that sums are made in C: ranks store there, at home and at peers, what
 * others add theirs to.  A patch whose one addend is of the own C, and stored there again, its own
 * product rounded, does so at all its stores: each holds the same by then, and a backend may add it
 * there instead of storing the sum (sg_patch.onto).  The schedule stores by launches alone. */
static inline void sg_sched_sums_in_c(sg_sched *s)
{
    s->buf[SG_C].summed = 1;
}

/* One flag of BY. */
sg_wait sg_wait_one(int by, int32_t flag);

/* The same for a flag of each tile, FLAG0 that of the first. */
sg_wait sg_wait_tile(int by, int32_t flag0);

/* Adds the run protocol (DESIGN.md section 3), counts the raisers of each flag, places the buffers,
 * and verifies what one rank's schedule must keep by itself: steps in an order that can be issued,
 * areas inside their buffers, shapes that fit.  A violation is SHINGLE_EBUG and named.  (seal.c) */
shingle_status sg_sched_seal(sg_sched *s);

/* Is STEP a copy that a launch carries? */
bool sg_step_is_push(const sg_step *step);

/* Is STEP a launch that norms rows, and multiplies nothing? */
static inline bool sg_step_norms(const sg_step *step)
{
    return step->kind == SG_LAUNCH && step->u.launch.norm;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* One tile and range of k.  Rows, columns and k are the product's. */
typedef struct sg_visit {
    int32_t patch; /* index into sched.patch */
    int32_t index; /* number among the visits of the patch */
    int32_t tile;  /* number inside the patch, counted along bands */
    int32_t row0, rows, col0, cols, k0, k1;
} sg_visit;

/* Visits of patch PATCH (index into sched.patch) of a launch, and the INDEX-th of them. */
int32_t sg_sched_patch_visits(const sg_sched *s, const sg_launch *launch, int32_t patch);
void sg_sched_patch_visit(const sg_sched *s, const sg_launch *launch, int32_t patch, int32_t index,
                          sg_visit *visit_out);

/* Visit INDEX (0 .. launch.visits - 1) of a launch; takes time linear in its patches. */
void sg_sched_visit(const sg_sched *s, const sg_launch *launch, int32_t index, sg_visit *visit_out);

typedef enum sg_access_what { SG_WAITS, SG_READS, SG_WRITES, SG_RAISES } sg_access_what;

typedef enum sg_role {
    SG_ROLE_NONE,
    SG_ROLE_A,      /* rows x [k0, k1) */
    SG_ROLE_B,      /* cols x [k0, k1) */
    SG_ROLE_ADDEND, /* summed */
    SG_ROLE_BIAS,
    SG_ROLE_RESIDUAL, /* added, and stored again */
    SG_ROLE_GAIN,
    SG_ROLE_SELF, /* of a collective */
    SG_ROLE_PART, /* of a collective, one per rank in rank order */
    SG_ROLE_ZERO, /* written: the rest of a tile's place is filled with zeros */
    SG_ROLE_SRC,  /* of a copy */
    SG_ROLE_DST
} sg_role;

typedef struct sg_access {
    sg_access_what what;
    sg_role role;
    sg_area area;          /* READS, WRITES */
    int16_t peer;          /* WAITS: who raises; RAISES: whose memory */
    struct sg_flags flags; /* WAITS, RAISES */
    int32_t counter;       /* RAISES: counter of the raisers, -1 if this is the only one */
    int32_t slab;          /* of A, B and their waits: which slab of the visit */
    int32_t addend;        /* of ADDEND and its wait: which addend; of PART: whose; otherwise -1 */
    int32_t col;           /* of ADDEND: columns of the visit in front of it */
    int32_t k0, k1;        /* of A and B */
} sg_access;

typedef void (*sg_access_fn)(void *context, const sg_access *access);

/* Everything step STEP does, in order.  For a launch, of VISIT (see sg_sched_visit) alone:
 * per slab its waits, then A and B; per addend its wait, then the addend; bias; stores; raises.  Of
 * a launch that norms: the places of its addend along the rows; bias; residual, gain; residual and
 * C stored.  (sched_access.c) */
void sg_step_access(const sg_sched *s, int32_t step, const sg_visit *visit, sg_access_fn visitor,
                    void *context);

/* How many copies by SMs, from STEP on, a backend may carry out together, in one launch: they stand
 * side by side in one lane and lead from one buffer of the rank to another one of its own, so that
 * none reads what another has stored; the first alone waits for anything, and none raises.  What is
 * after one of them may be after all.  0: STEP is one of those, and not the first; 1: there is
 * STEP alone, of whatever kind.  (sched_copies.c) */
int32_t sg_sched_copies(const sg_sched *s, int32_t step);

/* Bytes of an element of buffer BUF. */
int sg_sched_element_bytes(const sg_sched *s, int buf);

/* The schedule as text, a step or patch a line. */
void sg_sched_print(const sg_sched *s, sg_text *text);

#endif
