/* cli.h -- the commands of `shingle` and what their exit codes mean.
 *
 * The program uses include/shingle.h and nothing else of the library.  Data goes to stdout; errors
 * and progress go to stderr.  Helpers of this folder: args (options), out (tables, JSON, messages),
 * group (opening ranks), npy, config and suite (files). */
#ifndef CLI_H
#define CLI_H

enum {
    CLI_OK = 0,    /* done, and every result right */
    CLI_WRONG = 1, /* a result is wrong or a proof failed */
    CLI_USAGE = 2, /* the command line or an input file is wrong; nothing was done */
    CLI_FAILED = 3 /* the work could not be done: memory, disk, a stopped rank */
};

/* Each takes its own arguments, argv[0] being the command's name, and returns an exit code. */
int cmd_info(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_model(int argc, char **argv);
int cmd_sim(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_paper(int argc, char **argv);

#endif
