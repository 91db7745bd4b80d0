/* report.h -- measured results as JSON and as rows of a table, the same for every command. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "args.h"
#include "drawing.h"
#include "group.h"
#include "out.h"

typedef struct report_options {
    int64_t iterations, warmup, measure, seed; /* 0 iterations: the default */
    const char *choose;                        /* who chooses plans; NULL: the library's default */
    bool reproducible;     /* only plans that give a row one and the same bits */
    double seconds;        /* of all that is measured; 0: no limit */
    drawing_file *drawing; /* gets a prediction and a run of all that is measured; or NULL */
} report_options;

/* The options of every command that runs something: where, and how it is measured.  Sets their
 * defaults and fills LIST, which has room for REPORT_OPTIONS. */
enum { REPORT_OPTIONS = 11, REPORT_ROWS = 32 };
void report_add_options(group_options *where, report_options *how, args_option *list);

/* Are the words of OPTIONS known, and do they go together?  CLI_OK or, after a message, an exit
 * code. */
int report_check(const report_options *options);
/* Refuses --choose static beside a STRATEGY (NULL: none) that was asked for. */
int report_check_forced(const char *strategy, const char *choose);

/* What is left of the time for several problems, dealt out by the size of their products: weigh
 * each, then ask for the share of one after the other. */
typedef struct report_budget {
    double end_seconds;  /* on the clock of report_share */
    double most, weight; /* of the products that are still to come */
} report_budget;

/* Starts a budget for COUNT problems. */
report_budget report_plan(const report_options *options, const char *const *problem, int count);

/* Seconds for PROBLEM, the next one; 0 without a limit. */
double report_share(report_budget *budget, const report_options *options, const char *problem);

/* Timed runs of each kind, at most. */
int64_t report_iterations(const report_options *options);

/* What is measured: one problem. */
typedef struct report_case {
    const char *where; /* messages begin with it */
    const char *problem, *strategy;
    double seconds;          /* its share; 0: no limit */
    const char *strategies;  /* that are timed beside, or NULL */
    int64_t knob_sets;       /* of each; 0: the default */
    shingle_bench_row *rows; /* room for REPORT_ROWS, or NULL */
} report_case;

/* Runs it on G with shingle_bench.  CLI_OK or, after a message, an exit code. */
int report_measure(const group *g, const report_case *what, const report_options *options,
                   shingle_bench_result *result_out);

/* Longest of the two times alone, which no overlap can beat. */
double report_bound(const shingle_bench_result *result);

/* What was hidden.  Not finite if STRATEGY is serial, which hides nothing and differs from the sum
 * of both by noise alone, or if there is nothing to hide, or too little to be told from noise. */
double report_hidden_of(const char *strategy, double gemm_us, double coll_us, double hidden);
double report_hidden(const shingle_bench_result *result);
bool report_can_hide(double gemm_us, double coll_us);
bool report_is_serial(const char *strategy);

/* Not finite if there is no serial run to compare with. */
double report_speedup(const shingle_bench_result *result);

json_t *report_json(const char *problem, const shingle_bench_result *result);

/* The strategies that were timed beside, or declined. */
json_t *report_rows_json(const shingle_bench_row *rows, int count);

/* Puts the times of REPORT_HEADS into a row; UNIT is theirs. */
#define REPORT_HEADS ">gemm >coll >serial >ours >pred >enqueue_us"
void report_times(out_table *table, out_unit unit, const shingle_bench_result *result);

/* Adds the cell of wrong elements. */
void report_wrong(out_table *table, int64_t wrong);

/* A strategy's name without its knobs. */
void report_name(out_table *table, const char *strategy);

/* The same for a strategy beside: only its own times. */
void report_row_times(out_table *table, out_unit unit, const shingle_bench_row *row);

/* The processor of this computer. */
void report_cpu(char *name, size_t room);

/* A line that explains those columns. */
void report_legend(const char *prefix, out_unit unit);

/* Says what a group reaches in TYPE, and what it is a scale model of. */
void report_group(const char *prefix, const group *g, const group_options *options,
                  const char *type);
json_t *report_group_json(const group *g, const group_options *options);

#endif
