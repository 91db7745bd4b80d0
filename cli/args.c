/* args.c -- see args.h. */
#include "args.h"

#include <errno.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "deal.h"
#include "file.h"
#include "group.h"
#include "out.h"

enum { MAX_OPTIONS = 24, MAX_NAME = 32, JSON = 1000, HELP };

/* ---- Did you mean ---------------------------------------------------------------------------- */

static int least_of(int a, int b, int c)
{
    const int d = a < b ? a : b;
    return d < c ? d : c;
}

/* Letters to insert, delete, replace or swap to make B of A. */
static int distance(const char *a, const char *b)
{
    const int la = (int)strlen(a);
    const int lb = (int)strlen(b);
    if (la >= MAX_NAME || lb >= MAX_NAME) return MAX_NAME;
    int d[MAX_NAME + 1][MAX_NAME + 1];
    for (int i = 0; i <= la; i++) d[i][0] = i;
    for (int j = 0; j <= lb; j++) d[0][j] = j;
    for (int i = 1; i <= la; i++) {
        for (int j = 1; j <= lb; j++) {
            const int change = a[i - 1] == b[j - 1] ? 0 : 1;
            d[i][j] = least_of(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change);
            const bool swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swap && d[i - 2][j - 2] + 1 < d[i][j]) d[i][j] = d[i - 2][j - 2] + 1;
        }
    }
    return d[la][lb];
}

/* The name that is nearest to WORD, or NULL if none is near. */
static const char *nearest_of(const char *word, const char *const *names, int count)
{
    const char *best = NULL;
    /* A third of the letters may differ: "machne" finds "machine", "x" finds nothing. */
    int best_distance = (int)strlen(word) / 3 + 2;
    for (int i = 0; i < count; i++) {
        const size_t length = strlen(word);
        const bool starts = length >= 3 && strncmp(names[i], word, length) == 0;
        const int d = starts ? 0 : distance(word, names[i]);
        if (d < best_distance && d < (int)strlen(names[i]) && d < (int)length) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}

/* PREFIX stands in front of the name. */
static const char *suggest(const char *word, const char *prefix, const char *const *names,
                           int count)
{
    static char text[64];
    const char *const nearest = nearest_of(word, names, count);
    text[0] = '\0';
    if (nearest != NULL) snprintf(text, sizeof text, "did you mean %s%s? ", prefix, nearest);
    return text;
}

const char *args_suggest(const char *word, const char *const *names, int count)
{
    return suggest(word, "", names, count);
}

/* ---- Help ------------------------------------------------------------------------------------ */

static void print_option(char letter, const char *name, const char *unit, const char *brief)
{
    char left[64];
    snprintf(left, sizeof left, "%c%c%c --%s%s%s", letter ? '-' : ' ', letter ? letter : ' ',
             letter ? ',' : ' ', name, unit ? " " : "", unit ? unit : "");
    printf("  %-27s %s\n", left, brief);
}

static void print_help(const args_command *c)
{
    printf("%s\n\nExamples:\n%s\nUsage: shingle %s %s\n\n", c->brief, c->examples, c->name,
           c->usage);
    for (int i = 0; i < c->options; i++)
        print_option(c->option[i].letter, c->option[i].name, c->option[i].unit, c->option[i].brief);
    print_option(0, "json", NULL, "print one JSON value instead of text");
    print_option('h', "help", NULL, "print this");
    if (c->notes) printf("\n%s", c->notes);
    puts("\nExit codes: 0 done, 1 wrong result or violation, 2 usage or bad input, 3 failure");
}

/* ---- Reading --------------------------------------------------------------------------------- */

bool args_int(const char *text, double least, double most, int64_t *value_out)
{
    char *end = NULL;
    errno = 0;
    if (text[0] != '-' && text[0] != '+' && (text[0] < '0' || text[0] > '9')) return false;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0) return false;
    if ((double)value < least || (double)value > most) return false;
    *value_out = value;
    return true;
}

/* Digits, a point, signs and an exponent: neither words nor hexadecimal, which strtod takes too. */
static bool real_of(const char *text, double least, double most, double *value_out)
{
    char *end = NULL;
    errno = 0;
    if (text[strspn(text, "+-.0123456789eE")] != '\0') return false;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0) return false;
    if (value < least || value > most) return false;
    *value_out = value;
    return true;
}

/* What filters call "-" is no file's name here: stdout has the table or the JSON value, whole and
 * alone. */
static int check_name(const args_option *o, const char *text)
{
    if ((!o->reads && !o->writes) || strcmp(text, "-") != 0) return ARGS_GO;
    return out_error(CLI_USAGE, "--%s is \"-\"; a file is accepted (./- is one of this name): %s",
                     o->name,
                     o->writes ? "stdout has what the command prints" : "stdin is not read");
}

/* Stores TEXT, which is the args' own, as the value of O. */
static int take_value(const args_option *o, const char *text)
{
    bool ok = true;
    if (o->kind == ARGS_TEXT) {
        if (text[0] == '\0')
            return out_error(CLI_USAGE, "--%s is empty; a value is needed", o->name);
        *(const char **)o->value = text;
        return check_name(o, text);
    }
    if (o->kind == ARGS_INT) {
        ok = args_int(text, o->least, o->most, o->value);
    } else {
        ok = real_of(text, o->least, o->most, o->value);
    }
    if (ok) return ARGS_GO;
    if (o->accepted != NULL)
        return out_error(CLI_USAGE, "--%s is \"%s\"; %s is accepted", o->name, text, o->accepted);
    if (o->kind == ARGS_INT)
        return out_error(CLI_USAGE, "--%s is \"%s\"; a whole number from %.0f to %.0f is accepted",
                         o->name, text, o->least, o->most);
    return out_error(CLI_USAGE, "--%s is \"%s\"; a number from %.15g to %.15g is accepted", o->name,
                     text, o->least, o->most);
}

static int bad_option(const args_command *c, const char *given, int error)
{
    if (error == POPT_ERROR_NOARG)
        return out_error(CLI_USAGE, "option %s needs a value; see shingle %s --help", given,
                         c->name);
    if (error != POPT_ERROR_BADOPT)
        return out_error(CLI_USAGE, "option %s: %s; see shingle %s --help", given,
                         poptStrerror(error), c->name);
    const char *names[MAX_OPTIONS + 2];
    for (int i = 0; i < c->options; i++) names[i] = c->option[i].name;
    names[c->options] = "json";
    names[c->options + 1] = "help";
    char word[MAX_NAME] = "";
    const char *const bare = given + strspn(given, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(bare, "="), bare);
    return out_error(CLI_USAGE, "unknown option %s; %sshingle %s --help lists all", given,
                     suggest(word, "--", names, c->options + 2), c->name);
}

static void make_table(const args_command *c, struct poptOption *table)
{
    for (int i = 0; i < c->options; i++)
        table[i] = (struct poptOption){.longName = c->option[i].name,
                                       .shortName = c->option[i].letter,
                                       .argInfo = c->option[i].kind == ARGS_FLAG ? POPT_ARG_NONE
                                                                                 : POPT_ARG_STRING,
                                       .val = i + 1};
    table[c->options] = (struct poptOption){.longName = "json", .val = JSON};
    table[c->options + 1] = (struct poptOption){.longName = "help", .shortName = 'h', .val = HELP};
    table[c->options + 2] = (struct poptOption){.longName = NULL};
}

/* Is WORD what a shell makes of braces that are not quoted, "fused_outonce=0"? */
static bool was_in_braces(const char *word)
{
    for (int i = 0; shingle_strategy_name(i) != NULL; i++)
        if (strncmp(word, shingle_strategy_name(i), strlen(shingle_strategy_name(i))) == 0)
            return strchr(word, '=') != NULL;
    return false;
}

static int take_words(const args_command *c, args *a)
{
    const char **const words = poptGetArgs(a->context);
    for (; words != NULL && words[a->words] != NULL; a->words++) {
        if (a->words == c->most_words && was_in_braces(words[a->words]))
            return out_error(CLI_USAGE,
                             "\"%s\" is one argument too many; a shell needs quotes around braces, "
                             "as in 'ring{sub=2,both=1}'",
                             words[a->words]);
        if (a->words == c->most_words)
            return out_error(CLI_USAGE, "\"%s\" is one argument too many; %s is accepted",
                             words[a->words], c->words);
        if (c->reads_words && words[a->words][0] == '\0')
            return out_error(CLI_USAGE, "an argument is empty; %s is needed", c->words);
        a->word[a->words] = words[a->words];
    }
    if (a->words < c->least_words)
        return out_error(CLI_USAGE, "%s is needed; see shingle %s --help", c->words, c->name);
    return ARGS_GO;
}

/* ---- Options beside each other --------------------------------------------------------------- */

typedef struct given_options {
    const args_command *command;
    bool is[MAX_OPTIONS];
} given_options;

static bool is_given(const given_options *given, const char *name)
{
    for (int i = 0; i < given->command->options; i++)
        if (given->is[i] && strcmp(given->command->option[i].name, name) == 0) return true;
    return false;
}

static int check_company(const given_options *given)
{
    for (int i = 0; i < given->command->options; i++) {
        const args_option *const o = &given->command->option[i];
        if (!given->is[i]) continue;
        if (o->with != NULL && !is_given(given, o->with))
            return out_error(CLI_USAGE, "--%s means nothing without --%s", o->name, o->with);
        if (o->without != NULL && is_given(given, o->without))
            return out_error(CLI_USAGE, "--%s and --%s exclude each other", o->name, o->without);
    }
    return ARGS_GO;
}

static const char *file_of(const args_option *o)
{
    return o->reads || o->writes ? *(const char **)o->value : NULL;
}

void args_path(const char *text, args_named named, char *path)
{
    /* These stand for no file, and the library would log that there is none. */
    const bool is_word = named == ARGS_MACHINE && (!strcmp(text, "here") || !strcmp(text, "plain"));
    const bool finds =
        named != ARGS_NO_NAME && !is_word &&
        shingle_file_find((shingle_files)(named - 1), text, path, FILE_PATH) == SHINGLE_OK;
    if (!finds && snprintf(path, FILE_PATH, "%s", text) >= FILE_PATH) path[0] = '\0';
}

/* Is PATH what is read for TEXT, a path or a name? */
static bool is_read(const char *text, args_named named, const char *path)
{
    char found[FILE_PATH];
    args_path(text, named, found);
    return file_is_same(found, path);
}

static const struct {
    const char *name;
    args_named named;
} env_files[ARGS_ENV_FILES] = {{"SHINGLE_PLANS", ARGS_NO_NAME},
                               {"SHINGLE_MACHINE", ARGS_MACHINE},
                               {"SHINGLE_LOG_FILE", ARGS_NO_NAME}};

const char *args_env_file(int index, char *path)
{
    const char *const value = group_env(env_files[index].name);
    path[0] = '\0';
    if (value != NULL) args_path(value, env_files[index].named, path);
    return env_files[index].name;
}

/* Is what O writes none of them? */
static int check_environment(const args_option *o)
{
    char path[FILE_PATH];
    for (int i = 0; i < ARGS_ENV_FILES; i++) {
        const char *const name = args_env_file(i, path);
        if (path[0] == '\0' || (o->env != NULL && strcmp(name, o->env) == 0)) continue;
        if (strcmp(path, file_of(o)) == 0 || file_is_same(path, file_of(o)))
            return out_error(CLI_USAGE, "--%s and %s are both %s; two files are needed", o->name,
                             name, file_of(o));
    }
    return ARGS_GO;
}

/* What is read would be lost if it were written over, and of two results one. */
static int check_written(const given_options *given, const args *a)
{
    const args_command *const c = given->command;
    for (int i = 0; i < c->options; i++) {
        const args_option *const o = &c->option[i];
        if (!given->is[i] || !o->writes) continue;
        const int code = check_environment(o);
        if (code != ARGS_GO) return code;
        for (int j = 0; j < c->options; j++) {
            const args_option *const other = &c->option[j];
            if (i == j || !given->is[j] || file_of(other) == NULL) continue;
            const bool twice = other->writes && strcmp(file_of(o), file_of(other)) == 0;
            if (twice || is_read(file_of(other), other->named, file_of(o)))
                return out_error(CLI_USAGE, "--%s and --%s are both %s; two files are needed",
                                 i < j ? o->name : other->name, i < j ? other->name : o->name,
                                 file_of(o));
        }
        for (int j = 0; c->reads_words && j < a->words; j++)
            if (is_read(a->word[j], c->named_words, file_of(o)))
                return out_error(CLI_USAGE, "--%s is %s, which is read; another file is needed",
                                 o->name, file_of(o));
    }
    return ARGS_GO;
}

/* Is PATH what is read for TEXT?  BY_NAME: if that may be a name, and else if it cannot.  A path
 * may be of a file for each rank. */
static bool is_log(const char *text, args_named named, bool by_name, const char *path)
{
    char name[FILE_PATH];
    const bool may_be_name = named != ARGS_NO_NAME && strchr(text, '/') == NULL;
    if (by_name != may_be_name) return false;
    if (named != ARGS_NO_NAME) return is_read(text, named, path);
    for (int r = 0; r < deal_files(text, GROUP_RANKS); r++)
        if (deal_file(text, r, name) && file_is_same(name, path)) return true;
    return false;
}

static const char log_name[] = "SHINGLE_LOG_FILE";

static int fail_as_log(const char *path)
{
    return out_error(CLI_USAGE, "%s is %s, which is read; another file is needed", log_name, path);
}

int args_check_log(const char *path)
{
    const char *const log = group_env(log_name);
    return log != NULL && file_is_same(log, path) ? fail_as_log(log) : CLI_OK;
}

/* Of what is read, PATH of the log is none. */
static int check_log_beside(const args_command *c, const args *a, bool by_name, const char *path)
{
    for (int i = 0; i < c->options; i++) {
        const args_option *const o = &c->option[i];
        if (o->reads && file_of(o) != NULL && is_log(file_of(o), o->named, by_name, path))
            return out_error(CLI_USAGE, "--%s and %s are both %s; two files are needed", o->name,
                             log_name, path);
    }
    for (int i = 0; c->reads_words && i < a->words; i++)
        if (is_log(a->word[i], c->named_words, by_name, path)) return fail_as_log(path);
    for (int i = 0; i < ARGS_ENV_FILES; i++) {
        const char *const value = group_env(env_files[i].name);
        if (value != NULL && strcmp(env_files[i].name, log_name) != 0 &&
            is_log(value, env_files[i].named, by_name, path))
            return out_error(CLI_USAGE, "%s and %s are both %s; two files are needed",
                             env_files[i].name, log_name, path);
    }
    return ARGS_GO;
}

/* The log would be lines in what is read.  Names come last: the library, which finds them, logs
 * that there is none. */
static int check_log(const args_command *c, const args *a)
{
    const char *const path = group_env(log_name);
    if (path == NULL) return ARGS_GO;
    const int code = check_log_beside(c, a, false, path);
    return code == ARGS_GO ? check_log_beside(c, a, true, path) : code;
}

/* ---- Reading a command line ------------------------------------------------------------------ */

int args_read(const args_command *command, int argc, char **argv, args *a)
{
    given_options given_to = {.command = command};
    memset(a, 0, sizeof *a);
    static struct poptOption table[MAX_OPTIONS + 3];
    make_table(command, table);
    a->context = poptGetContext(NULL, argc, (const char **)argv, table, 0);
    if (a->context == NULL) return out_error(CLI_FAILED, "no memory for the options");

    int given = 0;
    while ((given = poptGetNextOpt(a->context)) > 0) {
        if (given == HELP) {
            print_help(command);
            return CLI_OK;
        }
        if (given == JSON) {
            a->json = true;
            continue;
        }
        const args_option *const option = &command->option[given - 1];
        given_to.is[given - 1] = true;
        if (option->kind == ARGS_FLAG) {
            *(bool *)option->value = true;
            continue;
        }
        char *const text = poptGetOptArg(a->context);
        if (text == NULL || a->texts == ARGS_MAX_TEXTS) {
            free(text);
            return out_error(CLI_USAGE, "--%s: too many options", option->name);
        }
        a->text[a->texts++] = text;
        const int code = take_value(option, text);
        if (code != ARGS_GO) return code;
    }
    if (given < -1)
        return bad_option(command, poptBadOption(a->context, POPT_BADOPTION_NOALIAS), given);
    int code = take_words(command, a);
    if (code == ARGS_GO) code = check_company(&given_to);
    if (code == ARGS_GO) code = check_log(command, a);
    return code == ARGS_GO ? check_written(&given_to, a) : code;
}

void args_free(args *a)
{
    for (int i = 0; i < a->texts; i++) free(a->text[i]);
    a->texts = 0;
    if (a->context) poptFreeContext(a->context);
    a->context = NULL;
}
