/* runs_world.h -- ranks in one process for test_kernel_runs.cpp: words, lists and matrices. */
#ifndef SG_RUNS_WORLD_H
#define SG_RUNS_WORLD_H

#include <memory>

#include "exact.h"

enum { FLAGS = 512 };

/* What all ranks see of each other. */
struct world {
    int ranks;
    struct member {
        std::vector<uint64_t> done, abort, flag[2];
        std::vector<sg_kernel_hello> hello;
        sg_kernel_rank rank;
        sg_kernel_trouble trouble;
    };
    std::vector<std::unique_ptr<member>> of;
    std::vector<sg_kernel_words> words;

    world(int count, uint64_t epoch, uint64_t limit_ns);
    uint64_t flag(int at, int by, int index);
    /* As the host recovers a group. */
    void recover();
    /* All ranks have ended run EPOCH well, and nothing is left that is not at rest. */
    void ended(uint64_t epoch, const std::string &what);
};

/* One rank's plan. */
struct plan : lists {
    std::vector<uint32_t> ticket;
    std::vector<sg_kernel_step> step; /* pushes, and others */
    sg_kernel_seats seats = {};

    /* Opens a step, which areas and raises are attached to. */
    sg_kernel_step &copy(sg_area src);
    void step_store(sg_area a);
    void step_add(sg_area a, const sg_wait *w);
    void step_raise(int at, int flag);
    void finish(world *w, int r, uint64_t hash, bool baked);
    bool at_rest() const;
};

sg_wait wait_one(int by, int flag);
sg_kernel_place place_of(T *low, T *high, int rows, int cols, int pitch);

/* Where the rows of each of RANKS begin, uneven; EMPTY: the last one has none. */
std::vector<int> share(int m, int ranks, bool empty);

/* Which kernel, and how many blocks of it. */
struct way {
    int tm, tn, cluster, blocks, arch, ranks;
    int64_t carried = 0; /* as the host says */
    int takes = 0;       /* of the pushes */
};

/* Prepares a launch of the first PATCHES of L, which carries its first PUSHES steps. */
bool aim(sg_kernel_gemm *g, plan &l, int patches, int pushes, const way &how,
         const std::string &what);
bool start(const sg_kernel_gemm *g, int r, const std::string &what);
extern int seated; /* launches whose blocks have seats */

/* All of a run; C: said in the hello. */
sg_kernel_protocol protocol_of(int ranks, T *c, int pitch);

/* Cases of runs_steps.cpp. */
struct steps_ask {
    int ranks, m, n, runs, direct;
    bool mismatch; /* rank 0 is in another plan */
};

struct carry_ask {
    int ranks, m, k, tm, tn, direct, arch;
    bool come; /* all do; otherwise rank 1 stays away at first, and comes after recovery */
};

/* Between emu_outside(watch_aborts(w)) and emu_outside(nullptr): has a rank of W raised `abort`, or
 * a flag at another rank that has not heard of it, before its trouble record could be read? */
bool (*watch_aborts(world *w))(void);
extern int early_aborts;

/* Cases of runs_fail.cpp. */
void try_given_up(void);
void try_record_first(void);
void try_end_alone(void);

/* Cases of runs_tagged.cpp. */
struct tagged_ask {
    int ranks, m, n, k, tm, tn, blocks, runs;
    int odd;          /* elements that a row of C is longer */
    bool baked, bias; /* bias: and an activation */
    int missing;      /* this rank comes after recovery alone; -1: all come at once */
    int slow;   /* this rank, or all if it is their number, has A at odd addresses; -1: none */
    int owners; /* 0: none, one hop; 1: of columns, two hops; 2: of rows, a scatter */
    int nan;    /* this rank's A has a NaN, all ones; -1: none has */
};

/* All runs of a trial of tagged data; of a rank that is missing from the first one there is another
 * start behind a recovery. */
template <class Trial> void go_through(Trial &t)
{
    const auto &q = t.q;
    bool ok = true;
    int left = q.runs;
    if (q.missing >= 0) {
        for (int r = 0; r < q.ranks; ++r) ok = ok && (r == q.missing || t.enqueue(0, r));
        emu_outside(watch_aborts(&t.w));
        ok = ok && emu_run();
        emu_outside(nullptr);
        expect(ok, t.what + ": goes through");
        expect(early_aborts == 0, t.what + ": an abort before its record");
        t.check_stopped();
        t.recover();
        --left;
    }
    for (int run = q.runs - left; run < q.runs; ++run)
        for (int r = 0; r < q.ranks; ++r) ok = ok && t.enqueue(run, r);
    ok = ok && emu_run();
    expect(ok, t.what + ": goes through");
    if (ok) t.check(left);
}

/* Cases of runs_gather.cpp. */
struct tagged_gather_ask {
    int ranks, m, n, k, slab, tm, tn, blocks, runs; /* slab: k of a part, 0: all */
    bool empty, baked, bias;                        /* empty: one rank has no rows */
    int missing;       /* this rank comes after recovery alone; -1: all come at once */
    int slow;          /* this rank, or all if it is their number, has another kernel; -1: none */
    int nan;           /* this rank's A has two NaNs, all ones; -1: none has */
    bool shut = false; /* a rank has not ended the run before */
    bool in_place = false; /* own rows are read where they are */
};

/* Cases of runs_onto.cpp. */
struct onto_ask {
    int ranks, m, n, k, tm, tn, cluster, blocks, runs;
    bool all, empty; /* all: an all-reduce; empty: rank 1 has no rows */
    int direct;      /* bits of runs 0, 2 ..., then of others: this rank says where its C is */
    int slow;        /* bit: this rank has another kernel */
    int missing;     /* this rank comes after recovery alone; -1: all come at once */
};

/* Cases of runs_along_k.cpp. */
struct along_k_ask {
    int ranks, m, n, stages, rest, tm, tn, cluster, chunk; /* k: whole stages, and a rest */
    int blocks, arch, runs;
    bool adds, empty; /* adds: to what C holds; empty: the last rank has no columns */
    int missing;      /* this rank comes after recovery alone; -1: all come at once */
};

void try_all_along_k(void);
void try_all_onto(void);
void try_all_tagged_gathers(void);
void try_all_tagged(void);
void try_steps(const steps_ask &ask);
struct copies_ask {
    int rows, cols, run, odd, blocks; /* odd: elements between rows */
    bool across;
};
void try_copies(const copies_ask &ask);
void try_all_shifted(void);
void try_most_rows(void);
void try_flag_pages(void);
void try_wide_copy(void);
void try_carry(const carry_ask &ask);
void try_impatient(int tm, int tn);
void try_patient(void);

#endif
