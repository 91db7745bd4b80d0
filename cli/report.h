/* report.h -- measured results as JSON and as rows of a table, the same for every command. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "args.h"
#include "drawing.h"
#include "group.h"
#include "out.h"

typedef struct report_options {
    int64_t iterations, warmup, measure, seed;
    drawing_file *drawing; /* gets a prediction and a run of all that is measured; or NULL */
} report_options;

/* The options of every command that runs something: where, and how it is measured.  Sets their
 * defaults and fills LIST, which has room for REPORT_OPTIONS. */
enum { REPORT_OPTIONS = 8 };
void report_add_options(group_options *where, report_options *how, args_option *list);

/* Runs PROBLEM on G with shingle_bench; STRATEGY may be NULL.  CLI_OK or, after a message that
 * begins with WHERE, an exit code. */
int report_measure(const group *g, const char *where, const char *problem, const char *strategy,
                   const report_options *options, shingle_bench_result *result_out);

/* Longest of the two times alone, which no overlap can beat. */
double report_bound(const shingle_bench_result *result);

/* What was hidden; not finite if there is nothing to hide. */
double report_hidden(const shingle_bench_result *result);

json_t *report_json(const char *problem, const shingle_bench_result *result);

/* Puts the times of REPORT_HEADS into a row; UNIT is theirs. */
#define REPORT_HEADS ">gemm >coll >serial >ours >pred"
void report_times(out_table *table, out_unit unit, const shingle_bench_result *result);

/* Adds the cell of wrong elements. */
void report_wrong(out_table *table, int64_t wrong);

/* A strategy's name without its knobs. */
void report_name(out_table *table, const char *strategy);

/* A line that explains those columns. */
void report_legend(const char *prefix, out_unit unit);

/* Says what a group reaches in TYPE, and what it is a scale model of. */
void report_group(const char *prefix, const group *g, const group_options *options,
                  const char *type);
json_t *report_group_json(const group *g, const group_options *options);

#endif
