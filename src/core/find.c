/* find.c -- where a file lies that is given by name: a machine, a model, a suite. */
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/spell.h"

#ifndef SG_DATADIR
#define SG_DATADIR "/usr/local/share/shingle"
#define SG_DATA_FROM_LIB "../share/shingle"
#define SG_DATA_FROM_BIN "../share/shingle"
#endif

typedef struct kind {
    const char *what, *folder, *ending;
} kind;

static const kind kinds[] = {[SHINGLE_MACHINES] = {"machine", "machines", ".machine"},
                             [SHINGLE_MODELS] = {"model", "models", ".json"},
                             [SHINGLE_SUITES] = {"suite", "bench/suites", ".txt"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- Places ---------------------------------------------------------------------------------- */

/* Where folders of all kinds may be, a slash behind each; the first that has a file counts. */
enum { PLACES = 6 };
typedef struct places {
    char path[PLACES][PATH_MAX];
    int count;
} places;

/* Adds FOLDER, seen from where FILE lies; a FILE without a slash lies nobody knows where. */
static void add_beside(places *p, const char *file, const char *folder)
{
    const char *const slash = strrchr(file, '/');
    if (slash == NULL) return;
    sg_text text = {p->path[p->count], PATH_MAX, 0};
    sg_text_add(&text, "%.*s%s/", (int)(slash + 1 - file), file, folder);
    p->count += text.length < PATH_MAX;
}

/* The working folder; beside the library or the program, so that an installation may be moved, and
 * in their build tree; and where the library was configured to be installed. */
static void find_places(places *p)
{
    static const char inside;
    Dl_info about;
    char program[PATH_MAX] = "";
    const bool known = dladdr(&inside, &about) != 0 && about.dli_fname != NULL;
    const char *const library = known ? about.dli_fname : "";
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) program[0] = '\0';
    p->path[0][0] = '\0';
    p->count = 1;
    add_beside(p, library, SG_DATA_FROM_LIB);
    add_beside(p, library, "share/shingle");
    add_beside(p, program, SG_DATA_FROM_BIN);
    add_beside(p, program, "share/shingle");
    sg_text installed = {p->path[p->count++], PATH_MAX, 0};
    sg_text_add(&installed, "%s/", SG_DATADIR);
}

/* ---- What there is --------------------------------------------------------------------------- */

enum { MOST_NAMES = 64 };
typedef struct names {
    char name[MOST_NAMES][SG_SPELL_LETTERS + 1];
    int count;
} names;

static bool has_name(const names *n, const char *name)
{
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->name[i], name) == 0) return true;
    return false;
}

/* Adds the files of kind K in PLACE, if it has any; a name that several places have counts once. */
static bool list(const kind *k, const char *place, names *n)
{
    bool any = false;
    char folder[PATH_MAX + 32];
    char name[SG_SPELL_LETTERS + 1];
    sg_text text = {folder, sizeof folder, 0};
    sg_text_add(&text, "%s%s", place, k->folder);
    DIR *const dir = opendir(folder);
    if (dir == NULL) return false;
    const size_t end = strlen(k->ending);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        const size_t length = strlen(entry->d_name);
        if (length <= end || length - end >= sizeof name || n->count == MOST_NAMES) continue;
        if (strcmp(entry->d_name + length - end, k->ending) != 0) continue;
        memcpy(name, entry->d_name, length - end);
        name[length - end] = '\0';
        if (!has_name(n, name)) memcpy(n->name[n->count++], name, sizeof name);
        any = true;
    }
    closedir(dir);
    return any;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The name that begins with WORD, or else differs from it by a third of its letters at most; NULL:
 * there is none. */
static const char *nearest(const names *n, const char *word)
{
    const size_t length = strlen(word);
    const char *best = NULL;
    int least = (int)length / 3 + 2;
    for (int i = 0; i < n->count; i++) {
        const bool begins = length >= 3 && strncmp(n->name[i], word, length) == 0;
        const int d = begins ? 0 : sg_spell_distance(word, length, n->name[i]);
        if (d >= least || d >= (int)length) continue;
        least = d;
        best = n->name[i];
    }
    return best;
}

/* There is no NAME: says where it could have been, and what there is. */
static shingle_status fail(const kind *k, const places *p, const char *name)
{
    names n = {.count = 0};
    const char *place = p->path[p->count - 1]; /* the first with any, but the working folder */
    char known[400] = "";
    sg_text text = {known, sizeof known, 0};
    for (int i = p->count - 1; i >= 0; i--)
        if (list(k, p->path[i], &n) && i > 0) place = p->path[i];
    qsort(n.name, (size_t)n.count, sizeof n.name[0], by_name);
    for (int i = 0; i < n.count && text.length + sizeof n.name[0] < sizeof known; i++)
        sg_text_add(&text, "%s%s", i == 0 ? "known: " : ", ", n.name[i]);
    const char *const meant = nearest(&n, name);
    return sg_fail(
        SHINGLE_EIO, "%s \"%.60s\" is neither in ./%s nor in %s%s; %s%s%s%s%sa path is accepted",
        k->what, name, k->folder, place, k->folder, meant != NULL ? "did you mean " : "",
        meant != NULL ? meant : "", meant != NULL ? "? " : "", known, n.count > 0 ? "; or " : "");
}

/* ---- The call -------------------------------------------------------------------------------- */

shingle_status shingle_file_find(shingle_files of, const char *name, char *path, size_t size)
{
    char found[PATH_MAX];
    places p;
    if ((int)of < 0 || (int)of >= KINDS)
        return sg_fail(SHINGLE_EINVAL, "files of kind %d; 0 to %d are accepted", (int)of,
                       (int)KINDS - 1);
    const kind *const k = &kinds[of];
    if (sg_given(name) == NULL || path == NULL)
        return sg_fail(SHINGLE_EINVAL, "no name of a %s or no place for its path; both are needed",
                       k->what);
    const bool is_path = strchr(name, '/') != NULL;
    bool is_there = false;
    find_places(&p);
    for (int i = 0; i < p.count && !is_path && !is_there; i++) {
        sg_text text = {found, sizeof found, 0};
        sg_text_add(&text, "%s%s/%s%s", p.path[i], k->folder, name, k->ending);
        is_there = text.length < sizeof found && access(found, F_OK) == 0;
    }
    /* A path that is not there is left to who reads it. */
    if (!is_there && !is_path && strchr(name, '.') == NULL && access(name, F_OK) != 0)
        return fail(k, &p, name);
    const char *const result = is_there ? found : name;
    const size_t length = strlen(result);
    if (length >= size)
        return sg_fail(SHINGLE_EINVAL, "%s %.60s...: a path of %zu bytes; at most %zu are accepted",
                       k->what, result, length, size > 0 ? size - 1 : 0);
    memcpy(path, result, length + 1);
    return SHINGLE_OK;
}
