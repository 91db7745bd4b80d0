/* args.h -- the command line of one command: options through popt, help with examples first, and
 * "did you mean" for what is misspelt. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "shingle.h"

typedef enum args_kind { ARGS_FLAG, ARGS_TEXT, ARGS_INT, ARGS_REAL } args_kind;

/* What shingle_file_find finds by name. */
typedef enum args_named {
    ARGS_NO_NAME,
    ARGS_MACHINE = 1 + SHINGLE_MACHINES,
    ARGS_MODEL = 1 + SHINGLE_MODELS,
    ARGS_SUITE = 1 + SHINGLE_SUITES
} args_named;

typedef struct args_option {
    const char *name;
    char letter; /* 0: none */
    args_kind kind;
    void *value; /* bool *, const char **, int64_t * or double *; keeps its default if not given */
    const char *unit; /* the word for the value in the help */
    const char *brief;
    double least, most;   /* of numbers */
    const char *accepted; /* of them, where LEAST and MOST do not say all */
    const char *with;     /* the option without which it means nothing */
    const char *without;  /* the one beside which it means nothing */
    bool reads, writes;   /* the value is a file that is read; that is written */
    args_named named;     /* it may be a name of such a file */
    const char *env;      /* the variable in whose stead it stands, and whose file it may be */
} args_option;

typedef struct args_command {
    const char *name;
    const char *brief;    /* one line */
    const char *usage;    /* what stands behind the name */
    const char *examples; /* lines of the help, ended by newlines */
    const char *notes;    /* lines behind the options, or NULL */
    const args_option *option;
    int options;
    int least_words, most_words; /* arguments that are not options */
    bool reads_words;            /* these are files */
    args_named named_words;      /* or names of some */
    const char *words;           /* what those are, for errors: "one PROBLEM, such as ..." */
} args_command;

enum { ARGS_MAX_WORDS = 64, ARGS_MAX_TEXTS = 32 };

typedef struct args {
    bool json;
    const char *word[ARGS_MAX_WORDS];
    int words;
    void *context;              /* popt's; owns the words */
    char *text[ARGS_MAX_TEXTS]; /* values of options */
    int texts;
} args;

enum { ARGS_GO = -1 };

/* Reads ARGV.  ARGS_GO, or the exit code if there is nothing to do: help was asked for, or there
 * was an error.  Release with args_free in any case; option values live until then. */
int args_read(const args_command *command, int argc, char **argv, args *args_out);
void args_free(args *a);

/* "did you mean NAME? " of the one that is nearest to WORD, or "" if none is near; valid until the
 * next call. */
const char *args_suggest(const char *word, const char *const *names, int count);

/* Where TEXT leads to, a path or a name: PATH has room for FILE_PATH bytes, "" if it is longer. */
void args_path(const char *text, args_named named, char *path);

/* The files that the library reads or writes because the environment says so: the variable of the
 * INDEX-th of ARGS_ENV_FILES, and its PATH, "" if it names none. */
enum { ARGS_ENV_FILES = 3 };
const char *args_env_file(int index, char *path);

/* Is PATH, which is read where nothing is named, not the log's?  CLI_OK or, after a message, an
 * exit code; of what is named args_read asks. */
int args_check_log(const char *path);

/* Parses a whole number of LEAST to MOST; the whole of TEXT must be one. */
bool args_int(const char *text, double least, double most, int64_t *value_out);

#endif
