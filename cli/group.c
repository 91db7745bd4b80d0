/* group.c -- see group.h. */
#include "group.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "cli.h"
#include "out.h"

#ifndef SHINGLE_DATADIR
#define SHINGLE_DATADIR "/usr/local/share/shingle"
#define SHINGLE_DATA_FROM_BIN "../share/shingle"
#endif

enum { MAX_NAMES = 64, MAX_NAME = 48 };

/* ---- Files by name --------------------------------------------------------------------------- */

typedef struct names {
    char name[MAX_NAMES][MAX_NAME];
    int count;
} names;

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void list(const char *folder, const char *ending, names *n)
{
    DIR *const dir = opendir(folder);
    if (dir == NULL) return;
    const size_t end = strlen(ending);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        const size_t length = strlen(entry->d_name);
        if (length <= end || length - end >= MAX_NAME || n->count == MAX_NAMES) continue;
        if (strcmp(entry->d_name + length - end, ending) != 0) continue;
        memcpy(n->name[n->count], entry->d_name, length - end);
        n->name[n->count++][length - end] = '\0';
    }
    closedir(dir);
}

/* Names that several folders have count once. */
static void sort_names(names *n)
{
    qsort(n->name, (size_t)n->count, sizeof n->name[0], by_name);
    int kept = 0;
    for (int i = 0; i < n->count; i++)
        if (kept == 0 || strcmp(n->name[i], n->name[kept - 1]) != 0)
            memmove(n->name[kept++], n->name[i], sizeof n->name[0]);
    n->count = kept;
}

/* Where files that come with the program are looked for, the first that has one first: the working
 * folder; beside the program, so that an installation may be moved; in its build tree, which has
 * links to the source's; and where it was configured to be installed. */
enum { PLACES = 4 };
typedef struct places {
    char folder[PLACES][GROUP_PATH];
    int count;
} places;

static void find_places(places *p)
{
    char program[GROUP_PATH - 64];
    p->count = 0;
    p->folder[p->count++][0] = '\0';
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *const slash = strrchr(program, '/');
    if (slash != NULL) {
        *slash = '\0';
        snprintf(p->folder[p->count++], GROUP_PATH, "%s/%s/", program, SHINGLE_DATA_FROM_BIN);
        snprintf(p->folder[p->count++], GROUP_PATH, "%s/share/shingle/", program);
    }
    snprintf(p->folder[p->count++], GROUP_PATH, "%s/", SHINGLE_DATADIR);
}

static bool find_named(const places *p, const char *folder, const char *name, const char *ending,
                       char *path, size_t room)
{
    for (int i = 0; i < p->count; i++) {
        const int length = snprintf(path, room, "%s%s/%s%s", p->folder[i], folder, name, ending);
        if (length > 0 && (size_t)length < room && access(path, F_OK) == 0) return true;
    }
    return false;
}

/* What is looked for. */
typedef struct wanted {
    const char *what, *folder, *ending;
    const char *also; /* names that are no files, ended by ", " each */
} wanted;

/* There is no NAME: says where it could have been, and what there is. */
static int fail_named(const places *p, const wanted *w, const char *name)
{
    const char *const folder = w->folder;

    names n = {.count = 0};
    const char *beside = p->folder[p->count - 1]; /* the first place that has any */
    for (int i = p->count - 1; i >= 0; i--) {
        char full[GROUP_PATH + 32];
        const int before = n.count;
        snprintf(full, sizeof full, "%s%.20s", p->folder[i], folder);
        list(full, w->ending, &n);
        if (i > 0 && n.count > before) beside = p->folder[i];
    }
    sort_names(&n);
    const char *pointer[MAX_NAMES];
    for (int i = 0; i < n.count; i++) pointer[i] = n.name[i];
    const char *const nearest = args_nearest(name, pointer, n.count);
    char known[300] = "";
    size_t at = 0;
    for (int i = 0; i < n.count && at + MAX_NAME + 3 < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", n.name[i]);
    return out_error(CLI_USAGE,
                     "%s \"%s\" is neither in ./%s nor in %s%s; %s%s%s%s%s%s%sa path is accepted",
                     w->what, name, folder, beside, folder, nearest ? "did you mean " : "",
                     nearest ? nearest : "", nearest ? "? " : "", at || w->also[0] ? "known: " : "",
                     w->also, known, at || w->also[0] ? "; or " : "");
}

static int find_wanted(const wanted *w, const char *name, char *path, size_t room)
{
    places p;
    if (name[0] == '\0' || strlen(name) >= room)
        return out_error(CLI_USAGE, "%s \"%.60s\": a name or a path is accepted", w->what, name);
    find_places(&p);
    /* A name may have a point in it, as those of files do. */
    const bool is_path = strchr(name, '/') != NULL;
    if (!is_path && find_named(&p, w->folder, name, w->ending, path, room)) return CLI_OK;
    strcpy(path, name);
    if (access(path, F_OK) == 0) return CLI_OK;
    if (!is_path && strchr(name, '.') == NULL) return fail_named(&p, w, name);
    return out_error(CLI_USAGE, "%s %s: no such file", w->what, name);
}

int group_find(const char *what, const char *folder, const char *ending, const char *name,
               char *path, size_t room)
{
    const wanted w = {what, folder, ending, ""};
    return find_wanted(&w, name, path, room);
}

/* ---- Machines -------------------------------------------------------------------------------- */

static int load_machine(const char *name, const char *also, shingle_machine **machine_out)
{
    const wanted w = {"machine", "machines", ".machine", also};
    char path[GROUP_PATH];
    *machine_out = NULL;
    if (strcmp(name, "plain") == 0) return CLI_OK;
    const int code = find_wanted(&w, name, path, sizeof path);
    if (code != CLI_OK) return code;
    const shingle_status status = shingle_machine_load(path, machine_out);
    return status == SHINGLE_OK ? CLI_OK : out_status(status);
}

int group_machine(const char *name, shingle_machine **machine_out)
{
    return load_machine(name, "plain, ", machine_out);
}

int group_model(const char **name, int ranks, group *g, shingle_machine **owned,
                const shingle_machine **machine_out)
{
    if (strcmp(*name, "here") == 0) {
        const group_options options = {.backend = NULL};
        const int code = group_open(ranks, &options, g);
        if (code == CLI_OK) *machine_out = shingle_comm_machine(g->comm[0]);
        if (group_env("SHINGLE_MACHINE") != NULL) *name = group_env("SHINGLE_MACHINE");
        return code;
    }
    int code = load_machine(*name, "here, plain, ", owned);
    if (code == CLI_OK) code = group_reach("machine", *name, *owned, ranks);
    if (code == CLI_OK) *machine_out = *owned;
    return code;
}

int group_reach(const char *option, const char *name, const shingle_machine *machine, int64_t ranks)
{
    char line[32];
    if (machine == NULL || group_machine_line(machine, "ranks", line, sizeof line) == NULL)
        return CLI_OK;
    const long reached = strtol(line, NULL, 10);
    if (ranks <= reached) return CLI_OK;
    return out_error(CLI_USAGE,
                     "the problem has %lld ranks; machine %s reaches %ld; a machine with more is "
                     "accepted as --%s FILE, or --%s plain, which has any number",
                     (long long)ranks, name, reached, option, option);
}

const char *group_machine_line(const shingle_machine *machine, const char *key, char *line,
                               size_t room)
{
    const size_t length = strlen(key);
    const char *at = shingle_machine_text(machine);
    while (at != NULL && *at != '\0') {
        const size_t end = strcspn(at, "\n");
        if (strncmp(at, key, length) == 0 && at[length] == ' ') {
            const char *const value = at + length + strspn(at + length, " ");
            const size_t comment = strcspn(value, "#\n");
            snprintf(line, room, "%.*s", (int)comment, value);
            for (size_t i = strlen(line); i > 0 && line[i - 1] == ' '; i--) line[i - 1] = '\0';
            return line;
        }
        at += end + (at[end] == '\n');
    }
    return NULL;
}

/* ---- Options --------------------------------------------------------------------------------- */

void group_add_options(group_options *where, args_option *list)
{
    const args_option options[GROUP_OPTIONS] = {
        {.name = "as",
         .kind = ARGS_TEXT,
         .value = &where->as,
         .unit = "MACHINE",
         .brief = "be a scale model of a machine: links held back to its ratio",
         .reads = true},
        {.name = "rows-scale",
         .kind = ARGS_REAL,
         .value = &where->rows_scale,
         .unit = "X",
         .brief = "with --as: rows there that one row here stands for (16)",
         .least = 0.001,
         .most = 1e6,
         .with = "as"},
        {.name = "threads",
         .kind = ARGS_INT,
         .value = &where->threads,
         .unit = "N",
         .brief = "worker threads (the cores)",
         .least = 1,
         .most = 1024},
        {.name = "backend",
         .kind = ARGS_TEXT,
         .value = &where->backend,
         .unit = "NAME",
         .brief = "cpu, or cuda where it is built in"},
    };
    memcpy(list, options, sizeof options);
}

args_option group_machine_option(const char **machine, const char *brief)
{
    return (args_option){.name = "machine",
                         .letter = 'm',
                         .kind = ARGS_TEXT,
                         .value = machine,
                         .unit = "FILE",
                         .brief = brief,
                         .reads = true};
}

args_option group_strategy_option(const char **strategy, const char *brief)
{
    return (args_option){.name = "strategy",
                         .letter = 's',
                         .kind = ARGS_TEXT,
                         .value = strategy,
                         .unit = "S",
                         .brief = brief};
}

/* ---- Problems and plans ---------------------------------------------------------------------- */

int group_ask(const char *word, const char *strategy, const char *other, group_asked *asked_out)
{
    *asked_out = (group_asked){.problem = word, .strategy = strategy};
    const size_t problem = strcspn(word, " ");
    if (word[problem] == '\0') return CLI_OK;
    /* The whole text is parsed, so that its hash is compared. */
    shingle_plan *plan = NULL;
    if (shingle_plan_parse(word, &plan) != SHINGLE_OK)
        return out_error(CLI_USAGE, "%s; a plan is what shingle plan prints, all of it",
                         shingle_error());
    char *const copy = out_copy(shingle_plan_text(plan));
    shingle_plan_free(plan);
    asked_out->copy = copy;
    if (strategy != NULL || other != NULL)
        return out_error(CLI_USAGE, "--%s: a plan has its strategy; a problem is accepted with it",
                         strategy != NULL ? "strategy" : other);
    char *const at = copy + strcspn(copy, " ");
    at[0] = '\0';
    asked_out->problem = copy;
    asked_out->strategy = at + 1;
    at[1 + strcspn(at + 1, " ")] = '\0'; /* the hash is behind it */
    return CLI_OK;
}

const char *group_env(const char *name)
{
    shingle_env_entry e;
    for (int i = 0; shingle_env(i, &e) == SHINGLE_OK; i++)
        if (strcmp(e.name, name) == 0)
            return e.value != NULL && e.value[0] != '\0' ? e.value : NULL;
    return NULL;
}

void group_take_all(void)
{
    unsetenv("SHINGLE_STRATEGY");
}

void group_drop(group_asked *asked)
{
    free(asked->copy);
    asked->copy = NULL;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* What is --as here is the field scale_of there. */
static int open_failed(shingle_status status, bool has_as)
{
    static const char there[] = "scale_of: ";
    const size_t length = sizeof there - 1;
    if (!has_as || strncmp(shingle_error(), there, length) != 0) return out_status(status);
    return out_error(out_code(status), "--as: %s", shingle_error() + length);
}

int group_open(int64_t ranks, const group_options *options, group *group_out)
{
    char as[GROUP_PATH];
    shingle_config config = {.backend = options->backend,
                             .scale_rows = options->rows_scale,
                             .plans = options->plans,
                             .threads = (int)options->threads};
    memset(group_out, 0, sizeof *group_out);
    if (ranks > GROUP_RANKS)
        return out_error(CLI_USAGE, "%lld ranks; 1 to %d can run in one process", (long long)ranks,
                         (int)GROUP_RANKS);
    if (options->as != NULL) {
        const int code = group_find("machine", "machines", ".machine", options->as, as, sizeof as);
        if (code != CLI_OK) return code;
        config.scale_of = as;
    }
    out_progress("opening %lld ranks and measuring what they reach", (long long)ranks);
    const shingle_status status = shingle_open((int)ranks, &config, group_out->comm);
    out_progress_end();
    if (status != SHINGLE_OK) return open_failed(status, config.scale_of != NULL);
    group_out->ranks = (int)ranks;
    return CLI_OK;
}

void group_close(group *g)
{
    const shingle_status status = g->ranks > 0 ? shingle_close(g->ranks, g->comm) : SHINGLE_OK;
    if (status != SHINGLE_OK) (void)out_status(status); /* the results are there all the same */
    g->ranks = 0;
}
