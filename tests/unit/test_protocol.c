/* test_protocol.c -- the run protocol (DESIGN.md section 3), searched over all interleavings of
 * three ranks that carry out every sequence of three runs of six plans, and of four runs of four
 * plans, on one workspace.
 *
 * check proves one run; that any sequence of runs is free of races rests on begin, gate, leave and
 * end.  Here they are the library's own functions (core/run.c), called on real words; only memory
 * is a model: every cell remembers which run and rank has stored it and whether that was read.  An
 * interleaving fails if a rank reads another run's or rank's data, stores over what nobody has read
 * yet, or if no rank can go on.
 *
 * One call is one step of the search.  A call that posts to several ranks may be one step, because
 * every word has a single reader, for whom a late post and a late look are the same.
 *
 * The second half breaks the rules one at a time; the search must find an interleaving that
 * fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/exec.h"
#include "core/run.h"

enum { RANKS = 3, MOST_RUNS = 4, CELLS = 2, MOST_OPS = 16 };

/* ---- Plans ----------------------------------------------------------------------------------- */

typedef enum op {
    OVER,
    BEGIN,
    GATE,
    STORE, /* cell 0 of the peer that is sent to, and so on */
    STORE_1,
    COUNT, /* one of two raisers of the flag */
    POST,
    AWAIT,
    READ,
    READ_1,
    LEAVE,
    STORE_C, /* into the peer's output */
    ENDS,    /* end can begin: all hellos are here */
    END,
    USE_C /* the user reads the output, after the run and before the next one */
} op;

typedef struct plan {
    const char *name;
    int to;     /* peer that is sent to: this many ranks on */
    bool baked; /* copy engines: half 0 */
    bool peers;
    bool one_way; /* rank 0 sends, rank 1 receives, rank 2 owns nothing */
    int raises;   /* of the flag, in a run */
    op program[MOST_OPS];
} plan;

static const plan plans[] = {
    {"kernels", 1, false, true, false, 1, {BEGIN, GATE, STORE, POST, AWAIT, READ, ENDS, END}},
    {"copy engine", 2, true, true, false, 1, {BEGIN, GATE, STORE, POST, AWAIT, READ, ENDS, END}},
    {"peer outputs",
     1,
     false,
     true,
     false,
     1,
     {BEGIN, GATE, LEAVE, STORE_C, POST, AWAIT, ENDS, END, USE_C}},
    {"no peers", 1, false, false, false, 0, {BEGIN, ENDS, END}},
    {"two raisers",
     1,
     false,
     true,
     false,
     2,
     {BEGIN, GATE, STORE, COUNT, STORE_1, COUNT, AWAIT, READ, READ_1, ENDS, END}},
    {"one way", 1, false, true, true, 1, {BEGIN, GATE, STORE, POST, AWAIT, READ, ENDS, END}},
};

enum { PLANS = sizeof plans / sizeof plans[0] };

/* ---- Rules that can be broken ---------------------------------------------------------------- */

typedef enum rule {
    ALL_KEPT,
    NO_GATE,
    NO_LEAVE,
    NO_DONE,
    NO_HELLO,
    PARITY_PER_PLAN,     /* half by the plan's own runs, gate by the plan's own last use */
    COUNTERS_AS_TARGETS, /* flags grow by one a raise; ready at runs x raises */
    ONE_WORD_FOR_ALL,    /* a flag word is raised by whoever raises that flag */
    FLAGS_RESET,         /* ready means not zero; the reader clears the word */
    BAKED_IN_PART,       /* rank 0 lets the half change under a copy engine */
    SCRATCH_IN_SYM,      /* a plan without peers uses SYM as scratch */
    RULES
} rule;

static const char *const rule_name[RULES] = {"all rules",
                                             "no gate",
                                             "no leave",
                                             "no done",
                                             "no hello",
                                             "parity per plan",
                                             "counters as targets",
                                             "one word for all",
                                             "flags reset",
                                             "baked in part",
                                             "scratch in SYM"};

/* ---- The world: everything that a step of the search can change ------------------------------ */

typedef struct cell {
    uint8_t run, by; /* who has stored it; run 0: nobody */
    uint8_t unread;
} cell;

typedef struct memory {
    _Atomic uint64_t done[RANKS][RANKS]; /* [at][by], as all words */
    _Atomic uint64_t abort[RANKS][RANKS];
    _Atomic uint64_t flag[RANKS][RANKS * SG_FLAG_PAGE0];
    sg_hello hello[RANKS][RANKS][2];
    sg_work work[RANKS];
    sg_run run[RANKS];
    _Atomic uint32_t count[RANKS][PLANS];
} memory;

/* The part of it that tells states apart, small enough to be copied and hashed millions of
 * times. */
typedef struct state {
    uint8_t at[RANKS], index[RANKS]; /* step of the program, run of the sequence */
    uint8_t done[RANKS][RANKS], hello[RANKS][RANKS][2], flag[RANKS][RANKS];
    uint8_t epoch[RANKS], last[RANKS][2], prev_half[RANKS], run_epoch[RANKS], half[RANKS];
    uint8_t count[RANKS][PLANS];
    uint8_t uses[RANKS][PLANS], plan_last[RANKS][PLANS][2];
    cell sym[RANKS][2][CELLS], c[RANKS];
} state;

static memory world;
static sg_words *peers[RANKS][RANKS];
static sg_words words[RANKS];
static sg_bound bound[RANKS][PLANS];
static int32_t two_raisers[1] = {2};
static rule broken;
static int sequence[MOST_RUNS], runs;
static bool hears_nobody; /* hellos are not posted */

static void set_up(void)
{
    memset(&world, 0, sizeof world);
    for (int r = 0; r < RANKS; r++) {
        words[r] = (sg_words){.done = world.done[r],
                              .abort = world.abort[r],
                              .hello = &world.hello[r][0][0],
                              .flag = {world.flag[r]}};
        sg_work *const w = &world.work[r];
        w->rank = r, w->ranks = RANKS, w->words = words[r], w->peer = peers[r];
        for (int q = 0; q < RANKS; q++) peers[r][q] = &words[q];
        for (int p = 0; p < PLANS; p++) {
            sg_bound *const b = &bound[r][p];
            b->hash = (uint64_t)p + 1;
            b->count = &world.count[r][p];
            b->sched.baked = plans[p].baked && !(broken == BAKED_IN_PART && r == 0);
            b->sched.peers = b->sched.hello = b->sched.done = plans[p].peers;
            b->sched.counter = two_raisers;
            b->sched.counters = 1;
        }
    }
}

static void load(const state *s)
{
    for (int r = 0; r < RANKS; r++) {
        for (int q = 0; q < RANKS; q++) {
            world.done[r][q] = s->done[r][q];
            for (int i = 0; i < 2; i++) {
                /* The hash is not a part of the state: the epoch says which run of the sequence
                 * the rank said hello for, and all ranks run the same. */
                const uint8_t epoch = s->hello[r][q][i];
                world.hello[r][q][i].epoch = epoch;
                world.hello[r][q][i].hash = epoch > 0 ? bound[q][sequence[epoch - 1]].hash : 0;
            }
            *sg_work_flag(&words[r], q, 0) = s->flag[r][q];
        }
        sg_work *const w = &world.work[r];
        w->epoch = s->epoch[r];
        w->last[0] = s->last[r][0], w->last[1] = s->last[r][1];
        w->prev_half = s->prev_half[r];
        sg_run *const run = &world.run[r];
        run->work = w;
        run->epoch = s->run_epoch[r];
        run->half = s->half[r];
        if (s->index[r] < runs) run->bound = &bound[r][sequence[s->index[r]]];
        for (int p = 0; p < PLANS; p++) world.count[r][p] = s->count[r][p];
    }
}

static void save(state *s)
{
    for (int r = 0; r < RANKS; r++) {
        for (int q = 0; q < RANKS; q++) {
            s->done[r][q] = (uint8_t)world.done[r][q];
            for (int i = 0; i < 2; i++) s->hello[r][q][i] = (uint8_t)world.hello[r][q][i].epoch;
            s->flag[r][q] = (uint8_t)*sg_work_flag(&words[r], q, 0);
        }
        const sg_work *const w = &world.work[r];
        s->epoch[r] = (uint8_t)w->epoch;
        s->last[r][0] = (uint8_t)w->last[0], s->last[r][1] = (uint8_t)w->last[1];
        s->prev_half[r] = (uint8_t)w->prev_half;
        s->run_epoch[r] = (uint8_t)world.run[r].epoch;
        s->half[r] = (uint8_t)world.run[r].half;
        for (int p = 0; p < PLANS; p++) s->count[r][p] = (uint8_t)world.count[r][p];
    }
}

/* ---- One step of one rank -------------------------------------------------------------------- */

static const plan *plan_of(const state *s, int r)
{
    return &plans[sequence[s->index[r]]];
}

static const char *put(cell *c, const state *s, int r)
{
    if (c->unread) return "stores over what nobody has read";
    *c = (cell){s->run_epoch[r], (uint8_t)r, 1};
    return NULL;
}

static const char *take(cell *c, const state *s, int r, int by)
{
    if (c->run != s->run_epoch[r]) return "reads another run's data";
    if (c->by != by) return "reads another rank's data";
    c->unread = 0;
    return NULL;
}

static void post(state *s, int at, int r)
{
    _Atomic uint64_t *const word = sg_work_flag(&words[at], broken == ONE_WORD_FOR_ALL ? 0 : r, 0);
    if (broken == COUNTERS_AS_TARGETS)
        ++*word;
    else if (broken == ONE_WORD_FOR_ALL || broken == FLAGS_RESET)
        *word = s->run_epoch[r];
    else
        sg_run_post(&world.run[r], at, 0);
}

static bool is_ready(const state *s, int r, int by)
{
    sg_stuck stuck;
    const struct sg_flags flags = {0, 1, 1};
    _Atomic uint64_t *const word = sg_work_flag(&words[r], broken == ONE_WORD_FOR_ALL ? 0 : by, 0);
    if (broken == COUNTERS_AS_TARGETS)
        return *word >= (uint64_t)s->run_epoch[r] * (uint64_t)plan_of(s, r)->raises;
    if (broken == ONE_WORD_FOR_ALL) return *word >= s->run_epoch[r];
    if (broken == FLAGS_RESET) {
        if (*word == 0) return false;
        *word = 0;
        return true;
    }
    return sg_run_flags_ready(&world.run[r], by, flags, &stuck);
}

static bool is_gate_open(const state *s, int r)
{
    sg_stuck stuck;
    if (broken == NO_GATE) return true;
    if (broken == PARITY_PER_PLAN) {
        const uint64_t need = s->plan_last[r][sequence[s->index[r]]][s->half[r]];
        for (int q = 0; q < RANKS; q++)
            if (world.done[r][q] < need) return false;
        return true;
    }
    return sg_run_gate_ready(&world.run[r], &stuck);
}

static void begin(state *s, int r)
{
    const int p = sequence[s->index[r]];
    sg_hello kept[RANKS][2];
    for (int q = 0; q < RANKS; q++) memcpy(kept[q], world.hello[q][r], sizeof kept[q]);
    sg_run_begin(&world.run[r]);
    for (int q = 0; q < RANKS && hears_nobody; q++)
        memcpy(world.hello[q][r], kept[q], sizeof kept[q]);
    if (broken == PARITY_PER_PLAN && !plans[p].baked) world.run[r].half = s->uses[r][p] & 1;
    s->uses[r][p]++;
}

static void end(state *s, int r)
{
    const int p = sequence[s->index[r]];
    uint64_t kept[RANKS];
    for (int q = 0; q < RANKS; q++) kept[q] = world.done[q][r];
    s->plan_last[r][p][s->half[r]] = s->run_epoch[r];
    sg_run_end(&world.run[r]);
    for (int q = 0; q < RANKS && broken == NO_DONE; q++) world.done[q][r] = kept[q];
}

/* Does rank R leave this out in a plan in which rank 0 sends to rank 1? */
static bool leaves_out(const plan *p, op what, int r)
{
    const bool sends = what == GATE || what == STORE || what == POST;
    const bool receives = what == AWAIT || what == READ;
    return p->one_way && ((sends && r != 0) || (receives && r != 1));
}

/* Carries out the next step of rank R if it can.  Returns false if it has to wait; WRONG_OUT is set
 * if it breaks what must hold. */
static bool step(state *s, int r, const char **wrong_out)
{
    const plan *const p = plan_of(s, r);
    const int to = (r + p->to) % RANKS;
    const int from = (r + RANKS - p->to) % RANKS;
    const int half = s->half[r];
    /* A copy engine's addresses are fixed, whatever half the run believes in. */
    const int sent = p->baked ? 0 : half;
    sg_stuck stuck;
    bool moved = true;
    const op what = leaves_out(p, p->program[s->at[r]], r) ? OVER : p->program[s->at[r]];
    load(s);
    switch (what) {
    case BEGIN: begin(s, r); break;
    case GATE: moved = is_gate_open(s, r); break;
    case STORE: *wrong_out = put(&s->sym[to][sent][0], s, r); break;
    case STORE_1: *wrong_out = put(&s->sym[to][sent][1], s, r); break;
    case COUNT:
        if (broken == COUNTERS_AS_TARGETS || sg_run_count(&world.run[r], 0)) post(s, to, r);
        break;
    case POST: post(s, to, r); break;
    case AWAIT: moved = is_ready(s, r, from); break;
    case READ: *wrong_out = take(&s->sym[r][half][0], s, r, from); break;
    case READ_1: *wrong_out = take(&s->sym[r][half][1], s, r, from); break;
    case LEAVE: moved = broken == NO_LEAVE || sg_run_leave_ready(&world.run[r], to, &stuck); break;
    case STORE_C: *wrong_out = put(&s->c[to], s, r); break;
    case ENDS:
        if (!p->peers && broken == SCRATCH_IN_SYM) *wrong_out = take(&s->sym[r][0][0], s, r, r);
        moved = sg_run_end_ready(&world.run[r], &stuck);
        break;
    case END: end(s, r); break;
    case USE_C: *wrong_out = take(&s->c[r], s, r, from); break;
    case OVER: break;
    }
    if (!moved) return false;
    save(s);
    if (what == BEGIN && !p->peers && broken == SCRATCH_IN_SYM)
        *wrong_out = put(&s->sym[r][0][0], s, r);
    if (p->program[++s->at[r]] == OVER) s->at[r] = 0, s->index[r]++;
    return true;
}

/* ---- The search ------------------------------------------------------------------------------ */

typedef struct seen {
    uint64_t *slot;
    size_t room, count;
} seen;

static seen visited;
static long long states;
static const char *found; /* what went wrong, NULL: nothing */

/* True if KEY is new. */
static bool remember(uint64_t key)
{
    if (2 * visited.count >= visited.room) {
        const seen old = visited;
        visited.room = old.room ? 4 * old.room : 1 << 14;
        visited.slot = calloc(visited.room, sizeof *visited.slot);
        assert_non_null(visited.slot);
        visited.count = 0;
        for (size_t i = 0; i < old.room; i++)
            if (old.slot[i] != 0) remember(old.slot[i]);
        free(old.slot);
    }
    size_t i = key & (visited.room - 1);
    for (; visited.slot[i] != 0; i = (i + 1) & (visited.room - 1))
        if (visited.slot[i] == key) return false;
    visited.slot[i] = key;
    visited.count++;
    return true;
}

static uint64_t key_of(const state *s)
{
    uint64_t key = 1;
    uint64_t word = 0;
    const unsigned char *const bytes = (const unsigned char *)s;
    size_t i = 0;
    for (; i + 8 <= sizeof *s; i += 8) {
        memcpy(&word, bytes + i, 8);
        key = (key ^ word) * UINT64_C(0x9fb21c651e98df25);
        key ^= key >> 29;
    }
    for (; i < sizeof *s; i++) key = (key ^ bytes[i]) * UINT64_C(0x100000001b3);
    key = sg_mix(key);
    return key ? key : 1;
}

static void explore(const state *s)
{
    if (found != NULL || !remember(key_of(s))) return;
    states++;
    bool moves = false;
    bool over = true;
    for (int r = 0; r < RANKS && found == NULL; r++) {
        if (s->index[r] == runs) continue;
        over = false;
        state next = *s;
        const char *wrong = NULL;
        if (!step(&next, r, &wrong)) continue;
        moves = true;
        found = wrong;
        if (wrong == NULL) explore(&next);
    }
    if (!over && !moves && found == NULL) found = "a deadlock";
}

/* Searches every sequence of COUNT runs of the first PLAN_COUNT plans; the first failure, or
 * NULL. */
static const char *search(rule which, int count, int plan_count)
{
    state first;
    memset(&first, 0, sizeof first);
    for (int r = 0; r < RANKS; r++) first.epoch[r] = 1, first.prev_half[r] = 1;
    broken = which;
    hears_nobody = which == NO_HELLO;
    found = NULL;
    states = 0;
    runs = count;
    int all = 1;
    for (int i = 0; i < runs; i++) all *= plan_count;
    set_up();
    for (int i = 0; i < all && found == NULL; i++) {
        for (int j = 0, left = i; j < runs; j++, left /= plan_count)
            sequence[j] = left % plan_count;
        if (visited.room > 0) memset(visited.slot, 0, visited.room * sizeof *visited.slot);
        visited.count = 0;
        explore(&first);
    }
    printf("%-20s ", rule_name[which]);
    for (int j = 0; j < runs && found != NULL; j++)
        printf("%s%s", plans[sequence[j]].name, j + 1 < runs ? ", " : ": ");
    if (found == NULL) printf("%d sequences of %d runs, %lld states: ", all, runs, states);
    printf("%s\n", found != NULL ? found : "holds");
    return found;
}

static void rules_hold(void **unused)
{
    (void)unused;
    if (search(ALL_KEPT, 3, PLANS) != NULL) fail_msg("%s", found);
    assert_true(states > 100000);
    if (search(ALL_KEPT, 4, 4) != NULL) fail_msg("%s", found);
    assert_true(states > 100000);
}

static void broken_rules_are_found(void **unused)
{
    (void)unused;
    for (int r = ALL_KEPT + 1; r < RULES; r++)
        if (search((rule)r, 3, PLANS) == NULL) fail_msg("%s: no interleaving fails", rule_name[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_hold),
        cmocka_unit_test(broken_rules_are_found),
    };
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    free(visited.slot);
    return failures;
}
