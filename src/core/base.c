/* base.c -- see base.h. */
#include "core/base.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/env.h"

/* ---- Errors ---------------------------------------------------------------------------------- */

enum { ERROR_ROOM = 640 };

static _Thread_local char error_text[ERROR_ROOM];
static _Thread_local bool is_unlogged;

/* Texts are one line, whatever user input was quoted in them. */
static void make_one_line(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

static void set_error(const char *format, va_list args)
{
    /* An argument may be shingle_error() itself, so the text is made aside. */
    char text[ERROR_ROOM];
    sg_format(text, sizeof text, format, args);
    make_one_line(text);
    memcpy(error_text, text, sizeof text);
}

shingle_status sg_fail(shingle_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_error(format, args);
    va_end(args);
    if (!is_unlogged) sg_log(SG_LOG_ERROR, "%s", error_text);
    return status;
}

bool sg_fail_unlogged(bool unlogged)
{
    const bool before = is_unlogged;
    is_unlogged = unlogged;
    return before;
}

shingle_status sg_past_end(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_error(format, args);
    va_end(args);
    return SHINGLE_EINVAL;
}

const char *shingle_error(void)
{
    return error_text;
}

void sg_check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "shingle: broken promise: %s (%s:%d)\n", condition, file, line);
    abort();
}

#define TEXT_OF(x) #x
#define VERSION(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *shingle_version(void)
{
    return VERSION(SHINGLE_VERSION_MAJOR, SHINGLE_VERSION_MINOR, SHINGLE_VERSION_PATCH);
}

/* ---- Log ------------------------------------------------------------------------------------- */

static const char *const level_names[] = {"none", "error", "warn", "info", "debug"};
enum { LEVELS = sizeof level_names / sizeof level_names[0] };

static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static sg_level log_level;
static FILE *log_file;

/* One write per message, so that lines of several threads or processes do not mix. */
static bool write_line(FILE *to, sg_level level, char *text)
{
    make_one_line(text);
    return fprintf(to, "shingle %s: %s\n", level_names[level], text) >= 0 && fflush(to) == 0;
}

/* The first line that the file does not take is told, and no other. */
static void log_line(sg_level level, char *text)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (write_line(log_file, level, text) || log_file == stderr) return;
    const int error = errno;
    if (atomic_flag_test_and_set(&told)) return;
    char lost[ERROR_ROOM];
    snprintf(lost, sizeof lost, "SHINGLE_LOG_FILE \"%.400s\": %s; lines of the log are lost",
             sg_env("SHINGLE_LOG_FILE"), strerror(error));
    write_line(stderr, SG_LOG_WARN, lost);
}

static void log_open(void)
{
    char text[ERROR_ROOM];
    const char *const wanted = sg_env("SHINGLE_LOG");
    const char *const path = sg_env("SHINGLE_LOG_FILE");
    log_file = stderr;
    log_level = SG_LOG_WARN;
    int level = 0;
    while (level < LEVELS && strcmp(level_names[level], wanted) != 0) level++;
    if (level < LEVELS) log_level = (sg_level)level;
    if (log_level == SG_LOG_NONE) return;

    if (path[0] != '\0') {
        /* Open until the process ends.  A line that a pipe has no room for is lost. */
        const int to = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
        FILE *const file = to >= 0 ? fdopen(to, "a") : NULL;
        if (file != NULL) {
            setvbuf(file, NULL, _IOFBF, BUFSIZ);
            log_file = file;
        } else {
            snprintf(text, sizeof text, "SHINGLE_LOG_FILE \"%.400s\": %s; logging to stderr", path,
                     strerror(errno));
            log_line(SG_LOG_WARN, text);
        }
    }
    if (level == LEVELS) {
        snprintf(text, sizeof text,
                 "SHINGLE_LOG is \"%.60s\"; none, error, warn, info or debug is possible; "
                 "taken as warn",
                 wanted);
        log_line(SG_LOG_WARN, text);
    }
    if (log_level >= SG_LOG_WARN) {
        for (int i = 0; sg_env_unknown(i, text, sizeof text); i++) log_line(SG_LOG_WARN, text);
    }
}

void sg_log(sg_level level, const char *format, ...)
{
    pthread_once(&log_once, log_open);
    if (level > log_level || level <= SG_LOG_NONE) return;
    char text[ERROR_ROOM];
    va_list args;
    va_start(args, format);
    sg_format(text, sizeof text, format, args);
    va_end(args);
    log_line(level, text);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

bool sg_mul(int64_t a, int64_t b, int64_t *out)
{
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

bool sg_decimal_parse(const char *text, size_t length, double *value_out)
{
    enum { MOST = 18 }; /* fit 64 bits */
    int64_t digits = 0;
    double unit = 0; /* 0: no point yet */
    if (length == 0 || length > MOST || text[0] == '.') return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && unit == 0) {
            unit = 1;
            continue;
        }
        if (text[i] < '0' || text[i] > '9') return false;
        digits = digits * 10 + (text[i] - '0');
        unit *= 10;
    }
    *value_out = unit > 0 ? (double)digits / unit : (double)digits;
    return true;
}

uint64_t sg_hash(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *const byte = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return sg_mix(hash);
}

void sg_turns(uint64_t round, int count, int *order_out)
{
    if (count <= 0) return;
    const bool odd = count % 2 != 0, back = odd && round % 2 != 0;
    const int shift = (int)((odd ? round / 2 : round) % (uint64_t)count);
    for (int i = 0; i < count; i++) { /* 0, 1, COUNT - 1, 2, COUNT - 2, ... */
        const int from = i % 2 != 0 ? (i + 1) / 2 : count - i / 2;
        order_out[back ? count - 1 - i : i] = (from + shift) % count;
    }
}

static int compare(const void *x, const void *y)
{
    const double a = *(const double *)x;
    const double b = *(const double *)y;
    return (a > b) - (a < b);
}

double sg_median(double *values, int count)
{
    if (count == 0) return 0;
    qsort(values, (size_t)count, sizeof *values, compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double sg_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

struct timespec sg_deadline(double at_us)
{
    const int64_t at_ns = (int64_t)(at_us * 1e3);
    return (struct timespec){.tv_sec = (time_t)(at_ns / 1000000000),
                             .tv_nsec = (long)(at_ns % 1000000000)};
}

void sg_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

int sg_thread_start(pthread_t *thread, void *(*function)(void *), void *context)
{
    static const int taken[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigset_t others, before;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) sigdelset(&others, taken[i]);
    pthread_sigmask(SIG_BLOCK, &others, &before);
    const int error = pthread_create(thread, NULL, function, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

struct sg_arena_block {
    struct sg_arena_block *next;
    size_t room, used;
    _Alignas(16) unsigned char data[];
};

enum { ARENA_ALIGN = 16, ARENA_FIRST = 16 << 10, ARENA_LARGEST = 1 << 20 };

/* A block for at least BYTES, twice as large as the last one so that an arena has few of them. */
static struct sg_arena_block *new_block(const sg_arena *arena, size_t bytes)
{
    size_t room = ARENA_FIRST;
    if (arena->head != NULL && arena->head->room < ARENA_LARGEST) room = 2 * arena->head->room;
    if (arena->head != NULL && arena->head->room >= ARENA_LARGEST) room = ARENA_LARGEST;
    if (room < bytes) room = bytes;
    struct sg_arena_block *const block = malloc(sizeof *block + room);
    if (block == NULL) return NULL;
    block->next = arena->head;
    block->room = room;
    block->used = 0;
    return block;
}

void *sg_arena_get(sg_arena *arena, size_t bytes)
{
    if (arena->full) return NULL;
    if (bytes > SIZE_MAX / 2) {
        arena->full = true;
        return NULL;
    }
    const size_t need = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (arena->head == NULL || arena->head->room - arena->head->used < need) {
        struct sg_arena_block *const block = new_block(arena, need);
        if (block == NULL) {
            arena->full = true;
            return NULL;
        }
        arena->head = block;
    }
    void *const piece = arena->head->data + arena->head->used;
    arena->head->used += need;
    memset(piece, 0, need);
    return piece;
}

void sg_arena_reset(sg_arena *arena)
{
    struct sg_arena_block *const kept = arena->head;
    arena->full = false;
    if (kept == NULL) return;
    arena->head = kept->next;
    sg_arena_free(arena);
    kept->next = NULL;
    kept->used = 0;
    arena->head = kept;
}

void sg_arena_free(sg_arena *arena)
{
    while (arena->head != NULL) {
        struct sg_arena_block *const next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
    arena->full = false;
}

bool sg_grow(void *items, int32_t *room, int64_t need, size_t size)
{
    if (need <= *room) return true;
    int64_t bytes = 0;
    int64_t more = sg_max(need, sg_max(16, 2 * (int64_t)*room));
    if (more > INT32_MAX) more = need;
    if (more > INT32_MAX || !sg_mul(more, (int64_t)size, &bytes)) return false;

    /* ITEMS points to a pointer of any type; copying it is the portable way to read and set it. */
    void *old = NULL;
    memcpy(&old, items, sizeof old);
    void *const grown = realloc(old, (size_t)bytes);
    if (grown == NULL) return false;
    memcpy(items, &grown, sizeof grown);
    *room = (int32_t)more;
    return true;
}

static pthread_once_t plain_once = PTHREAD_ONCE_INIT;
static locale_t plain; /* (locale_t)0, which leaves the thread's, where none can be made */

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

int sg_format(char *text, size_t size, const char *format, va_list args)
{
    pthread_once(&plain_once, make_plain);
    const locale_t before = uselocale(plain);
    const int length = vsnprintf(text, size, format, args);
    uselocale(before);
    return length;
}

void sg_text_add(sg_text *text, const char *format, ...)
{
    const size_t left = text->length < text->room ? text->room - text->length : 0;
    va_list args;
    va_start(args, format);
    const int length = sg_format(left > 0 ? text->data + text->length : NULL, left, format, args);
    va_end(args);
    if (length > 0) text->length += (size_t)length;
}

/* Is BYTE one of a letter of UTF-8, but not its first? */
static bool is_inside(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

void sg_text_add_part(sg_text *text, const char *whole, size_t length, size_t at, size_t most)
{
    static const char dots[] = "...";
    enum { DOTS = sizeof dots - 1 };
    const size_t before = most / 4;
    size_t first = 0;
    if (length > most && at > before + DOTS) first = at - before;
    /* Near its end the last MOST bytes are shown. */
    if (first > 0 && length - first + DOTS < most) first = length - most + DOTS;
    while (first > 0 && is_inside(whole[first])) first++;
    const size_t room = most - (first > 0 ? DOTS : 0);
    const bool cut = length - first > room;
    size_t shown = cut ? room - DOTS : length - first;
    while (cut && shown > 0 && is_inside(whole[first + shown])) shown--;
    sg_text_add(text, "%s%.*s%s", first > 0 ? dots : "", (int)shown, whole + first,
                cut ? dots : "");
}

sg_quoted sg_quote(const char *text, size_t at)
{
    sg_quoted quoted;
    sg_text part = {quoted.text, sizeof quoted.text, 0};
    quoted.text[0] = '\0';
    sg_text_add_part(&part, text, strlen(text), at, sizeof quoted.text - 1);
    return quoted;
}

void sg_text_add_ranks(sg_text *text, const bool *named, int ranks)
{
    enum { SHOWN = 4 };
    int count = 0;
    for (int r = 0; r < ranks; r++) count += named[r];
    sg_text_add(text, count == 1 ? "rank" : "ranks");
    int shown = 0;
    for (int r = 0; r < ranks && shown < SHOWN; r++)
        if (named[r]) sg_text_add(text, "%s %d", shown++ ? "," : "", r);
    if (count > shown) sg_text_add(text, " and %d more", count - shown);
}
