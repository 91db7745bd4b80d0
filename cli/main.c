/* main.c -- the `shingle` program: finds the command and passes the rest of the line on. */
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "cli.h"
#include "out.h"

static const struct {
    const char *name, *brief;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"info", "what this library was built with", cmd_info},
    {"plan", "choose a plan and say why; nothing runs", cmd_plan},
    {"check", "prove plans: no deadlock, no race, every element right", cmd_check},
    {"run", "run one product, timed and compared, on real data too", cmd_run},
    {"bench", "time a suite of products", cmd_bench},
    {"model", "the products of a model's layer, from its config.json", cmd_model},
    {"sim", "what strategies cost on any machine, and where the time goes", cmd_sim},
    {"tune", "time the best plans and keep the fastest in a file", cmd_tune},
    {"calibrate", "measure this machine and write its machine file", cmd_calibrate},
    {"paper", "published figures of other systems beside our simulation", cmd_paper},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static int help(void)
{
    puts("Overlaps matrix products with the communication of their operands and results.\n\n"
         "Examples:\n"
         "  shingle model llama-3-8b --tp 4 --tokens 512 --as h200x4\n"
         "  shingle plan ag_gemm:bf16:8192x7168x8192:r4 --why\n"
         "  shingle run gemm_rs:f32:512x1024x768:r4 --all\n"
         "  shingle check gemm_ar:bf16:1000x512x384:r7\n\n"
         "Usage: shingle COMMAND [arguments]; shingle COMMAND --help explains one\n");
    for (int i = 0; i < COMMANDS; i++) printf("  %-9s %s\n", commands[i].name, commands[i].brief);
    puts("\n  -V, --version   print the version\n"
         "  -h, --help      print this\n\n"
         "Exit codes: 0 done, 1 wrong result or violation, 2 usage or bad input, 3 failure");
    return CLI_OK;
}

static int unknown(const char *word)
{
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++) names[i] = commands[i].name;
    return out_error(CLI_USAGE, "unknown command \"%s\"; %sshingle --help lists all", word,
                     args_suggest(word, names, COMMANDS));
}

/* "version" and "--version" are one, and so are the letters that other programs have for it. */
static bool is_version(const char *word)
{
    return strcmp(word, "version") == 0 || strcmp(word, "--version") == 0 ||
           strcmp(word, "-V") == 0 || strcmp(word, "-v") == 0;
}

static int version(int argc, char **argv)
{
    if (argc > 2)
        return out_error(CLI_USAGE, "\"%s\" is one argument too many; %s stands alone", argv[2],
                         argv[1]);
    printf("shingle %s\n", shingle_version());
    return CLI_OK;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        return out_error(
            CLI_USAGE,
            "a command is needed: info, plan, check, run, bench, model, sim, tune, calibrate or paper; "
            "shingle --help explains them");
    }
    const char *const word = argv[1];
    const bool asks = strcmp(word, "help") == 0;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (asks && argc == 2))
        return help();
    if (asks) { /* "help run" is "run --help" */
        char flag[] = "--help";
        char *words[] = {argv[0], argv[2], flag, NULL};
        return words[1][0] == '-' ? help() : dispatch(3, words);
    }
    if (is_version(word)) return version(argc, argv);
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(word, commands[i].name) != 0) continue;
        out_begin(commands[i].name);
        return commands[i].run(argc - 1, argv + 1);
    }
    return unknown(word);
}

/* A stream that is closed stays so: no file that is opened later gets its number, and with it what
 * is written to that stream. */
static void hold_streams(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0)
            (void)open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    hold_streams();
    /* A file limit then is a failed write with a message, not a signal. */
    signal(SIGXFSZ, SIG_IGN);
    setlocale(LC_NUMERIC, "C");
    return out_finish(dispatch(argc, argv));
}
