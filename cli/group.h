/* group.h -- what commands plan for and run on: machines, and the ranks of this computer. */
#ifndef CLI_GROUP_H
#define CLI_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "args.h"
#include "shingle.h"

enum { GROUP_RANKS = 64, GROUP_PATH = 4096 };

typedef struct group_options {
    const char *backend; /* NULL: the default */
    const char *as;      /* machine to be a scale model of, a name or a path; NULL: none */
    double rows_scale;   /* 0: the default */
    int64_t threads;     /* 0: the default */
    const char *plans;   /* file of tuned plans; NULL: the default */
} group_options;

/* The options of commands that open ranks: fills LIST, which has room for GROUP_OPTIONS. */
enum { GROUP_OPTIONS = 4 };
void group_add_options(group_options *where, args_option *list);

/* Options that several commands have. */
args_option group_machine_option(const char **machine, const char *brief);
args_option group_strategy_option(const char **strategy, const char *brief);

/* What a command with one PROBLEM says is missing. */
#define GROUP_PROBLEM "one PROBLEM, such as ag_gemm:bf16:8192x7168x8192:r4,"

/* What stands for a problem on a command line: a problem, or a plan's text, which has a strategy,
 * too.  Release with group_drop. */
typedef struct group_asked {
    char *copy;
    const char *problem, *strategy; /* strategy: NULL of a problem */
    shingle_plan *plan;             /* NULL of a problem */
} group_asked;

/* Reads WORD; a plan's text and STRATEGY (or OTHER, an option that stands for strategies) exclude
 * each other.  CLI_OK or, after a message, an exit code. */
int group_ask(const char *word, const char *strategy, const char *other, group_asked *asked_out);
void group_drop(group_asked *asked);

typedef struct group {
    int ranks;
    shingle_comm *comm[GROUP_RANKS];
    shingle_machine *as; /* what it is a scale model of, as its file was when it was opened */
} group;

/* Both print what is wrong and return an exit code, CLI_OK if nothing is.  A group is closed with
 * group_close, which takes zeroed ones. */
int group_open(int64_t ranks, const group_options *options, group *group_out);
void group_close(group *g);

/* Loads a machine file by name or path.  "plain" gives NULL, which stands for round numbers. */
int group_machine(const char *name, shingle_machine **machine_out);

/* The machine that plans are made for by a command that runs nothing: that of --machine, or for the
 * name "here" what ranks of this computer plan for, which then gets the name that SHINGLE_MACHINE
 * has for it, if it says one.  Release G with group_close, OWNED with shingle_machine_free. */
int group_model(const char **name, int ranks, group *g, shingle_machine **owned,
                const shingle_machine **machine_out);

/* What the environment says for NAME of `shingle info --env`; NULL: nothing. */
const char *group_env(const char *name);

/* What takes all strategies takes them all, whatever SHINGLE_STRATEGY says. */
void group_take_all(void);

/* Has MACHINE, that of --OPTION NAME, so many ranks?  CLI_OK or, after a message, an exit code. */
int group_reach(const char *option, const char *name, const shingle_machine *machine,
                int64_t ranks);

/* First value of KEY in a machine's text ("name value ..." lines), or NULL. */
const char *group_machine_line(const shingle_machine *machine, const char *key, char *line,
                               size_t room);

#endif
