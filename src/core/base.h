/* base.h -- what every other file uses: status and error text, assertions, checked arithmetic,
 * arenas, text buffers, hashes, random numbers, time.  Depends on libc alone. */
#ifndef SG_BASE_H
#define SG_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "shingle.h"

/* ---- Errors: who decides speaks, who forwards is silent -------------------------------------- */

/* Stores the calling thread's error text (one line, lower case, the offending value and what would
 * be accepted) and returns STATUS. */
shingle_status sg_fail(shingle_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same with SHINGLE_EINVAL, for who asks on until there is no more: nothing that is logged. */
shingle_status sg_past_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Until the next call sg_fail of this thread stores its text alone, for who makes one line of many
 * failures or takes one for an answer; what held before is returned. */
bool sg_fail_unlogged(bool unlogged);

#define SG_TRY(call)                                                                               \
    do {                                                                                           \
        const shingle_status sg_try_status = (call);                                               \
        if (sg_try_status != SHINGLE_OK) return sg_try_status;                                     \
    } while (0)

/* A text that the user gave, or NULL: "" counts as not given. */
static inline const char *sg_given(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* SG_ASSERT: what we promised ourselves, debug builds only.  SG_CHECK: always on, where going on
 * would corrupt memory.  User input never asserts. */
#define SG_CHECK(condition)                                                                        \
    ((condition) ? (void)0 : sg_check_failed(#condition, __FILE__, __LINE__))
#ifdef NDEBUG
#define SG_ASSERT(condition) ((void)sizeof(condition))
#else
#define SG_ASSERT(condition) SG_CHECK(condition)
#endif

_Noreturn void sg_check_failed(const char *condition, const char *file, int line);

/* ---- Log: silent unless SHINGLE_LOG asks for it; to stderr ----------------------------------- */

typedef enum sg_level {
    SG_LOG_NONE,
    SG_LOG_ERROR,
    SG_LOG_WARN,
    SG_LOG_INFO,
    SG_LOG_DEBUG
} sg_level;

void sg_log(sg_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Product of two sizes, or false if it does not fit.  OUT is set only on success. */
bool sg_mul(int64_t a, int64_t b, int64_t *out);

/* The number that TEXT's LENGTH bytes are: at most 18, digits and a point among or behind them.
 * Not strtod, which listens to the locale and takes "nan". */
bool sg_decimal_parse(const char *text, size_t length, double *value_out);

static inline int64_t sg_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t sg_round_up(int64_t a, int64_t to)
{
    return sg_ceil_div(a, to) * to;
}

static inline int64_t sg_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t sg_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A bijection on 64 bits that mixes well (the finaliser of splitmix64). */
static inline uint64_t sg_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Hash of BYTES bytes (FNV-1a, then mixed): plan hashes, cache keys. */
uint64_t sg_hash(const void *data, size_t bytes, uint64_t seed);

/* Random numbers: a counter that is mixed.  Good enough for tests and data. */
typedef struct sg_random {
    uint64_t state;
} sg_random;

static inline uint64_t sg_random_next(sg_random *r)
{
    return sg_mix(r->state++);
}

/* Uniform in [0, n). */
static inline int64_t sg_random_below(sg_random *r, int64_t n)
{
    return (int64_t)(sg_random_next(r) % (uint64_t)n);
}

/* 0 ... COUNT - 1 in the order of ROUND.  In COUNT rounds on end, or 2 COUNT if that is odd, each
 * stands right behind each other one as often as behind all others (E. J. Williams, Experimental
 * designs balanced for the estimation of residual effects of treatments, 1949). */
void sg_turns(uint64_t round, int count, int *order_out);

double sg_median(double *values, int count); /* sorts VALUES; 0 if COUNT is 0 */

/* Monotonic time in microseconds. */
double sg_now_us(void);

/* A condition that waits until sg_deadline(AT_US), of sg_now_us, whatever the clock on the wall is
 * set to. */
void sg_cond_init(pthread_cond_t *cond);
struct timespec sg_deadline(double at_us);

/* Starts a thread of the library; an error number, or 0.  The process's signals are not for it: the
 * program's own threads take them.  It takes those of faults, and SIGPROF, by which profilers ask
 * every thread. */
int sg_thread_start(pthread_t *thread, void *(*function)(void *), void *context);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* An arena: many small pieces, freed together.  After a failed piece the arena is "full": later
 * pieces fail too and sg_arena_full says so, so a builder needs to ask only once. */
typedef struct sg_arena {
    struct sg_arena_block *head;
    bool full;
} sg_arena;

void *sg_arena_get(sg_arena *arena, size_t bytes); /* zeroed, aligned to 16; NULL when full */
void sg_arena_reset(sg_arena *arena);              /* forgets all pieces, keeps one block */
void sg_arena_free(sg_arena *arena);

/* Grows *ITEMS (elements of SIZE bytes, *ROOM of them) to hold at least NEED. */
bool sg_grow(void *items, int32_t *room, int64_t need, size_t size);

/* A text of fixed room that is cut, never overrun.  LENGTH is what the whole text would need. */
typedef struct sg_text {
    char *data;
    size_t room;
    size_t length;
} sg_text;

void sg_text_add(sg_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds WHOLE's LENGTH bytes, or of more than MOST a part of that many, from a little before AT on;
 * "..." stands where it is cut. */
void sg_text_add_part(sg_text *text, const char *whole, size_t length, size_t at, size_t most);

/* The same part of TEXT, for an error that names byte AT of it. */
typedef struct sg_quoted {
    char text[61];
} sg_quoted;

sg_quoted sg_quote(const char *text, size_t at);

/* vsnprintf() with a point in its numbers, whatever the program's locale. */
int sg_format(char *text, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* "rank 2" or "ranks 2, 3, 5, 8 and 5 more", those that are NAMED. */
void sg_text_add_ranks(sg_text *text, const bool *named, int ranks);

#endif
