/* tuned_file.c -- see tuned_file.h. */
#include "core/tuned_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/disk.h"

enum { MOST_BYTES = 64 << 20, LONGEST_PATH = 4096 };

static const char heading[] = "# plans of shingle tune: SIGNATURE MICROSECONDS PLAN\n";

/* ---- Lists ----------------------------------------------------------------------------------- */

void sg_tuned_list_free(sg_tuned_list *list)
{
    for (int32_t i = 0; i < list->lines; i++) sg_plan_free(list->line[i].plan);
    free(list->line);
    *list = (sg_tuned_list){NULL, 0, 0};
}

/* Does plan text A speak of the same problem as B?  The problem is the first word. */
static bool same_problem(const char *a, const char *b)
{
    const size_t length = strcspn(a, " ");
    return length == strcspn(b, " ") && memcmp(a, b, length) == 0;
}

shingle_status sg_tuned_list_put(sg_tuned_list *list, shingle_plan *plan)
{
    for (int32_t i = 0; i < list->lines; i++) {
        if (!same_problem(list->line[i].plan->text, plan->text)) continue;
        sg_plan_free(list->line[i].plan);
        list->line[i].plan = plan;
        return SHINGLE_OK;
    }
    if (!sg_grow(&list->line, &list->room, (int64_t)list->lines + 1, sizeof *list->line))
        return sg_fail(SHINGLE_ENOMEM, "no memory for a tuned plan");
    list->line[list->lines++].plan = plan;
    return SHINGLE_OK;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* The parts of a line; none of them is ended by a zero. */
typedef struct parts {
    const char *signature, *us, *plan;
    size_t signature_length, us_length, plan_length;
} parts;

/* Splits the LENGTH bytes of a line.  False if it is empty or a comment, or
 * has less than three parts. */
static bool split(const char *line, size_t length, parts *p)
{
    const char *const end = line + length;
    const char **const start[3] = {&p->signature, &p->us, &p->plan};
    size_t *const size[3] = {&p->signature_length, &p->us_length, &p->plan_length};
    for (int i = 0; i < 3; i++) {
        while (line < end && (*line == ' ' || *line == '\t')) line++;
        *start[i] = line;
        while (line < end && (i == 2 || (*line != ' ' && *line != '\t'))) line++;
        *size[i] = (size_t)(line - *start[i]);
        if (*size[i] == 0) return false;
    }
    while (p->plan_length > 0 && strchr(" \t\r", p->plan[p->plan_length - 1]) != NULL)
        p->plan_length--;
    return p->signature[0] != '#' && p->plan_length > 0;
}

static char *copy_of(const char *text, size_t length)
{
    char *const copy = malloc(length + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

static shingle_status take_plan(const parts *p, shingle_plan **plan_out)
{
    double us = 0;
    if (!sg_decimal_parse(p->us, p->us_length, &us) || us <= 0)
        return sg_fail(SHINGLE_EINVAL, "a time in microseconds, such as 12.5, is expected");
    if (memchr(p->plan, '\0', p->plan_length) != NULL)
        return sg_fail(SHINGLE_EINVAL, "a byte of value 0");
    char *const text = copy_of(p->plan, p->plan_length);
    if (text == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a tuned plan");
    const shingle_status status = sg_plan_parse(text, plan_out);
    free(text);
    if (status == SHINGLE_OK) (*plan_out)->measured_us = us;
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct reading {
    const char *signature;
    sg_tuned_list *list;
    int number, foreign, bad;
    int first_bad;
    char why[200]; /* of the first bad line */
} reading;

static bool is_signature(const parts *p, const char *signature)
{
    return strlen(signature) == p->signature_length &&
           memcmp(p->signature, signature, p->signature_length) == 0;
}

static void note_bad(reading *r, const char *why)
{
    if (r->bad++ > 0) return;
    r->first_bad = r->number;
    snprintf(r->why, sizeof r->why, "%s", why);
}

static shingle_status read_line(reading *r, const char *line, size_t length)
{
    parts p;
    r->number++;
    if (!split(line, length, &p)) {
        const size_t blank = strspn(line, " \t\r");
        if (blank < length && line[blank] != '#')
            note_bad(r, "a signature, a time and a plan are expected");
        return SHINGLE_OK;
    }
    if (!is_signature(&p, r->signature)) {
        r->foreign++;
        return SHINGLE_OK;
    }
    shingle_plan *plan = NULL;
    const bool before = sg_fail_unlogged(true); /* lines that are skipped are logged as one */
    shingle_status status = take_plan(&p, &plan);
    sg_fail_unlogged(before);
    if (status == SHINGLE_ENOMEM) return sg_fail(status, "%s", shingle_error());
    if (status != SHINGLE_OK) {
        note_bad(r, shingle_error());
        return SHINGLE_OK;
    }
    status = sg_tuned_list_put(r->list, plan);
    if (status != SHINGLE_OK) sg_plan_free(plan);
    return status;
}

/* The whole file, or "" if there is none. */
static shingle_status read_all(const char *path, char **text_out, size_t *bytes_out)
{
    struct stat about;
    if (stat(path, &about) != 0 && errno == ENOENT) {
        *text_out = calloc(1, 1);
        *bytes_out = 0;
        return *text_out != NULL ? SHINGLE_OK
                                 : sg_fail(SHINGLE_ENOMEM, "no memory for tuned plans");
    }
    return sg_disk_read(path, MOST_BYTES, text_out, bytes_out);
}

static size_t line_length(const char *at, const char *end)
{
    const char *const newline = memchr(at, '\n', (size_t)(end - at));
    return (size_t)((newline != NULL ? newline : end) - at);
}

shingle_status sg_tuned_file_read(const char *path, const char *signature, sg_tuned_list *list)
{
    char *text = NULL;
    size_t bytes = 0;
    SG_TRY(read_all(path, &text, &bytes));
    reading r = {.signature = signature, .list = list};
    shingle_status status = SHINGLE_OK;
    const char *const end = text + bytes;
    for (const char *at = text; status == SHINGLE_OK && at < end;) {
        const size_t length = line_length(at, end);
        status = read_line(&r, at, length);
        at += length + 1;
    }
    free(text);
    if (r.foreign > 0)
        sg_log(SG_LOG_WARN, "%s: %d plans of other machines or versions are skipped; here is %s",
               path, r.foreign, signature);
    if (r.bad > 0)
        sg_log(SG_LOG_WARN, "%s: line %d%s skipped: %s", path, r.first_bad,
               r.bad > 1 ? " and others are" : " is", r.why);
    return status;
}

/* ---- Is it one ------------------------------------------------------------------------------- */

typedef enum line_kind { NOTHING, OURS, OTHER } line_kind;

/* Do the LENGTH bytes of TEXT read "PROBLEM STRATEGY #HASH", as plans of all versions do? */
static bool looks_like_plan(const char *text, size_t length)
{
    enum { END = 2 + 16 }; /* " #" and the digits */
    const char *const space = memchr(text, ' ', length);
    if (length <= END || space == NULL || memchr(text, ':', (size_t)(space - text)) == NULL)
        return false;
    const char *const end = text + length - END;
    if (end <= space || memcmp(end, " #", 2) != 0) return false;
    for (int i = 2; i < END; i++)
        if (end[i] == '\0' || strchr("0123456789abcdef", end[i]) == NULL) return false;
    return true;
}

/* Blanks and comments are nothing, but for the heading.  A plan may be of any version; prose whose
 * second word is a number is none. */
static line_kind kind_of(const char *line, size_t length)
{
    static const size_t until_colon = sizeof "# plans of shingle tune" - 1;
    parts p;
    double us = 0;
    size_t at = 0;
    while (at < length && strchr(" \t\r", line[at]) != NULL) at++;
    if (length >= until_colon && memcmp(line, heading, until_colon) == 0) return OURS;
    if (at == length || line[at] == '#') return NOTHING;
    const bool is_plan = split(line, length, &p) && sg_decimal_parse(p.us, p.us_length, &us) &&
                         us > 0 && memchr(p.signature, '/', p.signature_length) != NULL &&
                         looks_like_plan(p.plan, p.plan_length);
    return is_plan ? OURS : OTHER;
}

/* What somebody else wrote is not added to, be it text or not.  The first line that says what a
 * file is decides: scripts and machine files have comments, too, and prose may look like a plan. */
static shingle_status check_text(const char *path, const char *text, size_t bytes)
{
    const char *const end = text + bytes;
    const bool zero = memchr(text, '\0', bytes) != NULL;
    line_kind first = NOTHING;
    for (const char *at = text; !zero && first == NOTHING && at < end;) {
        const size_t length = line_length(at, end);
        first = kind_of(at, length);
        at += length + 1;
    }
    if (!zero && first != OTHER) return SHINGLE_OK;
    return sg_fail(SHINGLE_EINVAL,
                   "%s is no file of tuned plans; such a file, an empty one or a new name is "
                   "accepted",
                   path);
}

shingle_status sg_tuned_file_check(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    SG_TRY(read_all(path, &text, &bytes));
    const shingle_status status = check_text(path, text, bytes);
    free(text);
    return status == SHINGLE_OK ? sg_disk_check(path) : status;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static shingle_status fail_path(const char *what, const char *path)
{
    return sg_fail(SHINGLE_EIO, "cannot %s %s: %s", what, path, strerror(errno));
}

/* PATH with ENDING behind it. */
static shingle_status name_beside(const char *path, const char *ending, char *name)
{
    if ((size_t)snprintf(name, LONGEST_PATH, "%s%s", path, ending) >= LONGEST_PATH)
        return sg_fail(SHINGLE_EINVAL, "the path %.60s... is too long", path);
    return SHINGLE_OK;
}

/* Opens and locks a file beside PATH.  The lock is the open file's, so it ends with the process
 * whatever happens, and keeps threads apart as well; close gives it back. */
static shingle_status lock(const char *path, int *file_out)
{
    char name[LONGEST_PATH];
    SG_TRY(name_beside(path, ".lock", name));
    const int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return fail_path("lock tuned plans by", name);
    const double end = sg_now_us() + SG_TUNED_LOCK_SECONDS * 1e6;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    while (fcntl(file, F_OFD_SETLK, &whole) != 0) {
        const bool held = errno == EAGAIN || errno == EACCES || errno == EINTR;
        if (!held || sg_now_us() > end) {
            const shingle_status status =
                held ? sg_fail(SHINGLE_ETIMEOUT, "%s is held by another process for %d s", name,
                               SG_TUNED_LOCK_SECONDS)
                     : fail_path("lock tuned plans by", name);
            close(file);
            return status;
        }
        const struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
    }
    *file_out = file;
    return SHINGLE_OK;
}

/* Its lock is held. */
static shingle_status replace(const char *path, const char *data, size_t bytes)
{
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return sg_fail(SHINGLE_EINVAL, "%s is not a regular file; plans are kept in one", path);
    return sg_disk_replace(path, data, bytes);
}

/* TEXT with the line of the same signature and problem left out and FRESH at the end. */
static char *merge(const char *text, size_t bytes, const char *signature, const shingle_plan *plan,
                   const char *fresh, size_t *bytes_out)
{
    char *const merged = malloc(sizeof heading + bytes + 1 + strlen(fresh) + 1);
    if (merged == NULL) return NULL;
    size_t length = 0;
    if (bytes == 0) {
        length = sizeof heading - 1;
        memcpy(merged, heading, length);
    }
    const char *const end = text + bytes;
    for (const char *at = text; at < end;) {
        const size_t size = line_length(at, end);
        parts p;
        const bool ours = split(at, size, &p) && is_signature(&p, signature) &&
                          p.plan_length >= strcspn(plan->text, " ") &&
                          same_problem(p.plan, plan->text);
        if (!ours) {
            memcpy(merged + length, at, size);
            length += size;
            merged[length++] = '\n';
        }
        at += size + 1;
    }
    memcpy(merged + length, fresh, strlen(fresh) + 1);
    *bytes_out = length + strlen(fresh);
    return merged;
}

static shingle_status put_locked(const char *path, const char *signature, const shingle_plan *plan)
{
    char *text = NULL;
    size_t bytes = 0;
    SG_TRY(read_all(path, &text, &bytes));
    const shingle_status ours = check_text(path, text, bytes);
    if (ours != SHINGLE_OK) {
        free(text);
        return ours;
    }
    const size_t room = strlen(signature) + strlen(plan->text) + 64;
    char *const fresh = malloc(room);
    char *merged = NULL;
    size_t merged_bytes = 0;
    if (fresh != NULL) {
        /* Tenths, written without the locale's point; none at all is not a time when read. */
        const int64_t tenths = sg_max((int64_t)(plan->measured_us * 10 + 0.5), 1);
        snprintf(fresh, room, "%s %lld.%lld %s\n", signature, (long long)(tenths / 10),
                 (long long)(tenths % 10), plan->text);
        merged = merge(text, bytes, signature, plan, fresh, &merged_bytes);
    }
    const shingle_status status = merged != NULL
                                      ? replace(path, merged, merged_bytes)
                                      : sg_fail(SHINGLE_ENOMEM, "no memory for tuned plans");
    free(merged);
    free(fresh);
    free(text);
    return status;
}

shingle_status sg_tuned_file_put(const char *path, const char *signature, const shingle_plan *plan)
{
    /* Behind a link the file is replaced, not the link.  It is made first: who comes by the link or
     * by the file's own name, now or later, takes the same lock. */
    SG_TRY(sg_disk_make_target(path));
    char *const target = realpath(path, NULL);
    int file = -1;
    shingle_status status = lock(target != NULL ? target : path, &file);
    if (status == SHINGLE_OK) {
        status = put_locked(target != NULL ? target : path, signature, plan);
        close(file);
    }
    free(target);
    return status;
}

/* ---- Signatures ------------------------------------------------------------------------------ */

/* TEXT in small letters, digits, points and hyphens. */
static void add_plain(const char *text, sg_text *to)
{
    bool gap = false;
    bool any = false;
    for (size_t i = 0; text[i] != '\0' && i < 60; i++) {
        char c = text[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.') {
            sg_text_add(to, "%s%c", gap && any ? "-" : "", c);
            gap = false;
            any = true;
        } else {
            gap = true;
        }
    }
    if (!any) sg_text_add(to, "unknown");
}

/* The processor's name as its own software gives it. */
static void processor(char *name, size_t room)
{
    char line[256];
    snprintf(name, room, "processor");
    FILE *const info = fopen("/proc/cpuinfo", "r");
    if (info == NULL) return;
    while (fgets(line, sizeof line, info) != NULL) {
        const char *const colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        snprintf(name, room, "%.*s", (int)strcspn(colon + 1, "\n"), colon + 1);
        break;
    }
    fclose(info);
}

void sg_tuned_signature(const char *backend, const char *machine, uint64_t hash, int ranks,
                        char *text, size_t room)
{
    char here[200];
    sg_text t = {text, room, 0};
    if (room > 0) text[0] = '\0';
    processor(here, sizeof here);
    add_plain(backend, &t);
    sg_text_add(&t, "/");
    add_plain(here, &t);
    sg_text_add(&t, "/");
    add_plain(machine, &t);
    sg_text_add(&t, "-%08llx/r%d/%s", (unsigned long long)(hash & 0xffffffffu), ranks,
                shingle_version());
}
