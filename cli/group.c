/* group.c -- see group.h. */
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "out.h"

/* ---- Machines -------------------------------------------------------------------------------- */

/* ALSO: what is accepted beside files. */
static int load_machine(const char *name, const char *also, shingle_machine **machine_out)
{
    char path[GROUP_PATH];
    *machine_out = NULL;
    if (strcmp(name, "plain") == 0) return CLI_OK;
    if (shingle_file_find(SHINGLE_MACHINES, name, path, sizeof path) != SHINGLE_OK)
        return out_error(CLI_USAGE, "%s; %s, too", shingle_error(), also);
    if (args_check_log(path) != CLI_OK) return CLI_USAGE;
    const shingle_status status = shingle_machine_load(path, machine_out);
    return status == SHINGLE_OK ? CLI_OK : out_status(status);
}

int group_machine(const char *name, shingle_machine **machine_out)
{
    return load_machine(name, "plain is", machine_out);
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
    int code = load_machine(*name, "here and plain are", owned);
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
         .reads = true,
         .named = ARGS_MACHINE},
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
                         .reads = true,
                         .named = ARGS_MACHINE};
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
    asked_out->plan = plan;
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
    shingle_plan_free(asked->plan);
    free(asked->copy);
    *asked = (group_asked){.copy = NULL};
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
    shingle_config config = {.backend = options->backend,
                             .scale_of = options->as,
                             .scale_rows = options->rows_scale,
                             .plans = options->plans,
                             .threads = (int)options->threads};
    memset(group_out, 0, sizeof *group_out);
    if (ranks > GROUP_RANKS)
        return out_error(CLI_USAGE, "%lld ranks; 1 to %d can run in one process", (long long)ranks,
                         (int)GROUP_RANKS);
    /* Of what is wrong with it the library speaks.  When a table tells of it, it may be gone. */
    if (options->as != NULL) (void)shingle_machine_load(options->as, &group_out->as);
    out_progress("opening %lld ranks and measuring what they reach", (long long)ranks);
    const shingle_status status = shingle_open((int)ranks, &config, group_out->comm);
    out_progress_end();
    if (status != SHINGLE_OK) {
        const int code = open_failed(status, config.scale_of != NULL);
        group_close(group_out);
        return code;
    }
    group_out->ranks = (int)ranks;
    return CLI_OK;
}

void group_close(group *g)
{
    const shingle_status status = g->ranks > 0 ? shingle_close(g->ranks, g->comm) : SHINGLE_OK;
    if (status != SHINGLE_OK) (void)out_status(status); /* the results are there all the same */
    g->ranks = 0;
    shingle_machine_free(g->as);
    g->as = NULL;
}
