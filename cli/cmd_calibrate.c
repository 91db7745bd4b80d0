/* cmd_calibrate.c -- `shingle calibrate`: measures the machine it runs on and writes its machine
 * file (docs/machine.md), whole or not at all. */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "file.h"
#include "group.h"
#include "out.h"

typedef struct request {
    group_options where;
    int64_t ranks;
    double seconds;
    const char *out;
    bool windows;
} request;

static void tell(void *context, int done, int count)
{
    (void)context;
    out_progress("measurement %d of %d", done + 1, count);
}

/* Rows as those of results of `shingle bench`; CONTEXT is their list. */
static void take_row(void *context, const char *plan, int collectives, double us)
{
    const size_t problem = strcspn(plan, " ");
    const char *const strategy = plan + problem + (plan[problem] == ' ');
    const char *const end = strstr(strategy, " #"); /* the plan's hash */
    const size_t length = end != NULL ? (size_t)(end - strategy) : strlen(strategy);
    json_array_append_new(context, json_pack("{s:s%, s:s%, s:f}", "problem", plan, problem,
                                             "strategy", strategy, length,
                                             collectives ? "coll_us" : "overlapped_us", us));
}

/* Opened before anything is measured: a path that cannot be written costs no minute. */
static int begin_file(const request *q, file_writer *writer)
{
    char error[FILE_ERROR];
    if (q->out == NULL) return CLI_OK;
    if (!file_check(q->out, error)) return out_error(CLI_USAGE, "%s", error);
    /* Nothing is wrong with the name of a pipe that nobody reads. */
    return file_begin(writer, q->out, error) ? CLI_OK : out_error(CLI_FAILED, "%s", error);
}

static int write_file(const request *q, file_writer *writer, const char *text)
{
    char error[FILE_ERROR];
    if (q->out == NULL) {
        out_text(text);
        return CLI_OK;
    }
    if (!file_put(writer, text, strlen(text), error) || !file_close(writer, error) ||
        !file_appear(writer, error))
        return out_error(CLI_FAILED, "%s", error);
    return CLI_OK;
}

static void print_json(const request *q, const char *text, json_t *rows)
{
    out_json(json_pack("{s:s, s:I, s:o, s:s, s:O}", "version", shingle_version(), "ranks",
                       (json_int_t)q->ranks, "file",
                       q->out != NULL ? out_json_text(q->out) : json_null(), "machine", text,
                       "results", rows));
}

static int calibrate(const request *q, bool json)
{
    group g = {.ranks = 0};
    file_writer writer = {.stream = NULL};
    shingle_machine *machine = NULL;
    int code = begin_file(q, &writer);
    if (code != CLI_OK) return code;
    json_t *const rows = json_array();
    const shingle_calibrate_options options = {.seconds = q->seconds,
                                               .progress = tell,
                                               .measured = take_row,
                                               .context = rows,
                                               .windows = q->windows};
    code = group_open(q->ranks, &q->where, &g);
    if (code == CLI_OK) {
        const shingle_status status = shingle_calibrate(g.ranks, g.comm, &options, &machine);
        out_progress_end();
        if (status != SHINGLE_OK) code = out_status(status);
    }
    group_close(&g);
    const char *const text = shingle_machine_text(machine);
    if (code == CLI_OK && (q->out != NULL || !json))
        code = write_file(q, &writer, text);
    else if (q->out != NULL)
        file_drop(&writer);
    if (code == CLI_OK && json) print_json(q, text, rows);
    json_decref(rows);
    if (code == CLI_OK && !json && q->out != NULL) printf("%s\n", q->out);
    shingle_machine_free(machine);
    return code;
}

int cmd_calibrate(int argc, char **argv)
{
    request q = {.ranks = 2, .seconds = 60};
    const args_option options[] = {
        {.name = "backend",
         .kind = ARGS_TEXT,
         .value = &q.where.backend,
         .unit = "NAME",
         .brief = "who carries runs out (SHINGLE_BACKEND, or the first of shingle info)"},
        {.name = "ranks",
         .kind = ARGS_INT,
         .value = &q.ranks,
         .unit = "N",
         .brief = "ranks that run at once (2)",
         .least = 1,
         .most = GROUP_RANKS},
        {.name = "seconds",
         .kind = ARGS_REAL,
         .value = &q.seconds,
         .unit = "S",
         .brief = "limit (60); what is too short for one round is an error",
         .least = 0.001,
         .most = 3600},
        {.name = "out",
         .kind = ARGS_TEXT,
         .value = &q.out,
         .unit = "FILE",
         .brief = "write the file there (to the output)",
         .writes = true},
        {.name = "windows",
         .kind = ARGS_FLAG,
         .value = &q.windows,
         .brief = "collectives in NCCL's windows, too; see below"},
        {.name = "threads",
         .kind = ARGS_INT,
         .value = &q.where.threads,
         .unit = "N",
         .brief = "worker threads (the cores)",
         .least = 1,
         .most = 1024},
    };
    const args_command command = {
        .name = "calibrate",
        .brief = "Measures the machine it runs on and writes its machine file.",
        .usage = "[options]",
        .examples =
            "  shingle calibrate --ranks 4 --out my.machine\n"
            "  shingle calibrate --backend cuda --ranks 2 --seconds 90 --out h200x2.machine\n"
            "  SHINGLE_MACHINE=my.machine shingle run gemm_rs:f32:512x1024x768:r4\n",
        .notes =
            "Times products of many kinds, in turns, and finds the numbers with which the\n"
            "simulator predicts them best; each stands beside how it was found.  With --json\n"
            "the measurements are printed as well.\n"
            "With --windows plans have collectives in NCCL's windows where these are faster; a\n"
            "graph that replays one waits without a limit for a rank that does not.\n",
        .option = options,
        .options = sizeof options / sizeof *options,
        .words = "no argument"};
    args a;
    int code = args_read(&command, argc, argv, &a);
    unsetenv("SHINGLE_MACHINE"); /* which may be for fewer ranks, and is not what is measured */
    if (code == ARGS_GO) code = calibrate(&q, a.json);
    args_free(&a);
    return code;
}
