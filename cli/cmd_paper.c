/* cmd_paper.c -- `shingle paper`: published figures of other systems beside our simulation of the
 * strategy that stands for each, on their machine (docs/papers.md). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "group.h"
#include "out.h"
#include "paper_rows.h"

/* What has the sign of a gain is no gain and no loss this near to none. */
static const double tie = 0.02;

typedef enum verdict { AGREES, DISAGREES, NOT_JUDGED } verdict;

typedef struct found {
    bool simulated;
    double value;
    double deviation; /* of a speedup: ours / published - 1 */
    char strategy[96];
    verdict verdict;
} found;

/* Machines stay loaded from row to row. */
typedef struct machines {
    char name[16][48];
    shingle_machine *machine[16];
    int count;
} machines;

static int machine_of(machines *all, const char *name, const shingle_machine **machine_out)
{
    for (int i = 0; i < all->count; i++) {
        *machine_out = all->machine[i];
        if (strcmp(all->name[i], name) == 0) return CLI_OK;
    }
    char path[GROUP_PATH];
    /* Its advice is for those who name a machine; here the row does. */
    if (shingle_file_find(SHINGLE_MACHINES, name, path, sizeof path) != SHINGLE_OK)
        return out_error(CLI_USAGE, "%.*s; its figures need that file in one of the two",
                         (int)strcspn(shingle_error(), ";"), shingle_error());
    const int code = group_machine(name, &all->machine[all->count]);
    if (code != CLI_OK) return code;
    *machine_out = all->machine[all->count];
    snprintf(all->name[all->count++], sizeof all->name[0], "%s", name);
    return CLI_OK;
}

/* ---- Simulating ------------------------------------------------------------------------------ */

static bool has_strategy(const char *name)
{
    for (int i = 0; shingle_strategy_name(i) != NULL; i++)
        if (strcmp(shingle_strategy_name(i), name) == 0) return true;
    return false;
}

static double value_of(const shingle_simulation *s, paper_what what)
{
    if (what == PAPER_SPEEDUP) return s->speedup;
    const double exposed = s->serial_us - s->gemm_us;
    if (what == PAPER_HIDDEN) return exposed > 0 ? (s->serial_us - s->overlapped_us) / exposed : 1;
    return (s->gemm_us + s->coll_us) / fmax(s->gemm_us, s->coll_us);
}

/* The strategy's best knobs for PROBLEM, simulated. */
static int simulate(const paper_row *row, const char *problem, const shingle_machine *machine,
                    found *f, double *value_out)
{
    const shingle_plan_options options = {.strategy = row->strategy};
    shingle_simulation result;
    shingle_plan *plan = NULL;
    shingle_status status = shingle_plan_for(problem, machine, &options, &plan);
    if (status == SHINGLE_OK) status = shingle_plan_simulate(plan, machine, &result);
    for (int i = 0; status == SHINGLE_OK && i < shingle_plan_candidates(plan); i++) {
        shingle_candidate c = {.strategy = ""};
        shingle_plan_candidate(plan, i, &c);
        if (c.chosen) snprintf(f->strategy, sizeof f->strategy, "%s", c.strategy);
    }
    shingle_plan_free(plan);
    if (status != SHINGLE_OK)
        return out_error(out_code(status), "%s on %s: %s", problem, row->machine, shingle_error());
    *value_out = value_of(&result, row->what);
    return CLI_OK;
}

static verdict judge(const paper_row *row, double value)
{
    if (row->second_hand) return NOT_JUDGED;
    const double none = row->what == PAPER_HIDDEN ? 0 : 1;
    const double ours = value - none;
    if (row->high == 0 && row->low == 0) return ours > 0 ? AGREES : DISAGREES;
    const double low = row->low - none;
    const double high = row->high - none;
    if (low < 0 && high > 0) return NOT_JUDGED; /* both happened */
    if (fabs(ours) <= tie && fmin(fabs(low), fabs(high)) <= tie) return AGREES;
    return (ours > 0) == (low > 0) ? AGREES : DISAGREES;
}

static int find_row(const paper_row *row, machines *all, found *f)
{
    const shingle_machine *machine = NULL;
    *f = (found){.verdict = row->second_hand ? NOT_JUDGED : DISAGREES};
    if (!has_strategy(row->strategy)) {
        snprintf(f->strategy, sizeof f->strategy, "%s", row->strategy);
        return CLI_OK;
    }
    int code = machine_of(all, row->machine, &machine);
    double sum = 0;
    int count = 0;
    for (; code == CLI_OK && count < PAPER_PROBLEMS && row->problem[count][0] != '\0'; count++) {
        double value = 0;
        code = simulate(row, row->problem[count], machine, f, &value);
        if (row->over == PAPER_MEAN)
            sum += value;
        else if (count == 0 || (row->over == PAPER_MOST ? value > sum : value < sum))
            sum = value;
    }
    if (code != CLI_OK) return code;
    f->simulated = true;
    f->value = row->over == PAPER_MEAN ? sum / count : sum;
    f->deviation = f->value / row->low - 1;
    f->verdict = judge(row, f->value);
    return CLI_OK;
}

/* ---- Printing -------------------------------------------------------------------------------- */

typedef struct summary {
    int judged, agree, missing, ranges, inside, speedups;
    double median; /* of the absolute deviations of single speedups */
    double bias;   /* their median with sign */
} summary;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    if (count == 0) return (double)NAN;
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static bool is_range(const paper_row *row)
{
    return row->low < row->high;
}

static summary sum_up(const paper_list *list, const found *all)
{
    summary s = {.judged = 0};
    double *const sizes = out_get((size_t)list->rows * sizeof *sizes);
    double *const signs = out_get((size_t)list->rows * sizeof *signs);
    for (int i = 0; i < list->rows; i++) {
        const paper_row *const row = &list->row[i];
        s.missing += !all[i].simulated;
        if (all[i].verdict != NOT_JUDGED) s.judged++;
        s.agree += all[i].verdict == AGREES;
        if (!all[i].simulated || row->second_hand) continue;
        if (is_range(row)) {
            s.ranges++;
            s.inside += all[i].value >= row->low && all[i].value <= row->high;
        } else if (row->low > 0 && row->what == PAPER_SPEEDUP) {
            signs[s.speedups] = all[i].deviation;
            sizes[s.speedups++] = fabs(all[i].deviation);
        }
    }
    s.median = median_of(sizes, s.speedups);
    s.bias = median_of(signs, s.speedups);
    free(sizes);
    free(signs);
    return s;
}

static void published(const paper_row *row, char *text, size_t room)
{
    const double unit = row->what == PAPER_HIDDEN ? 100 : 1;
    const int digits = row->what == PAPER_HIDDEN ? 0 : 2;
    const char *const sign = row->what == PAPER_HIDDEN ? "%" : "x";
    if (row->low == 0 && row->high == 0)
        snprintf(text, room, "faster");
    else if (is_range(row))
        snprintf(text, room, "%.*f to %.*f%s", digits, unit * row->low, digits, unit * row->high,
                 sign);
    else
        snprintf(text, room, "%.*f%s", digits, unit * row->low, sign);
}

static void add_ours(out_table *table, const paper_row *row, const found *f)
{
    if (!f->simulated)
        out_table_add(table, "-");
    else if (row->what == PAPER_HIDDEN)
        out_table_add(table, "%.0f%%", 100 * f->value);
    else
        out_table_add(table, "%.2fx", f->value);
}

static void add_difference(out_table *table, const paper_row *row, const found *f)
{
    if (!f->simulated || (row->low == 0 && row->high == 0))
        out_table_add(table, "-");
    else if (is_range(row) && f->value >= row->low && f->value <= row->high)
        out_table_add(table, "inside");
    else if (row->what == PAPER_HIDDEN)
        out_table_add(table, "%+.0f points",
                      100 * (f->value - (f->value < row->low ? row->low : row->high)));
    else
        out_table_add(table, "%+.0f%%",
                      100 * (f->value / (f->value < row->low ? row->low : row->high) - 1));
}

static void print_text(const paper_list *list, const found *all)
{
    static const char *const overs[] = {"", "mean of ", "most of ", "least of "};
    static const char *const verdicts[] = {"yes", "NO", "not judged"};
    printf("%s%s%s\n", out_on(OUT_HEAD), list->source, out_off());
    out_wrap(4, "%s", list->note);
    putchar('\n');
    out_table *const table =
        out_table_make("<place <machine <problem >published >ours >difference <agrees <strategy");
    for (int i = 0; i < list->rows; i++) {
        const paper_row *const row = &list->row[i];
        char text[48];
        int more = 0;
        while (more < PAPER_PROBLEMS && row->problem[more][0] != '\0') more++;
        published(row, text, sizeof text);
        out_table_add(table, "%s", row->place);
        out_table_add(table, "%s", row->machine);
        if (more > 1)
            out_table_add(table, "%s%d, %s ...", overs[row->over], more, row->problem[0]);
        else
            out_table_add(table, "%s", row->problem[0]);
        out_table_add(table, "%s", text);
        add_ours(table, row, &all[i]);
        add_difference(table, row, &all[i]);
        out_table_add(table, "%s", verdicts[all[i].verdict]);
        if (all[i].verdict == DISAGREES) out_table_tone(table, OUT_BAD);
        out_table_add(table, "%s%s", all[i].strategy, all[i].simulated ? "" : ": not built in");
    }
    out_table_print(table, "");
    out_table_free(table);
    const summary s = sum_up(list, all);
    printf("\nwins or loses as published in %d of %d first-hand rows (%.1f %%)\n", s.agree,
           s.judged, s.judged > 0 ? 100.0 * s.agree / s.judged : 100);
    if (s.speedups > 0)
        printf("speedups: median deviation %.1f %%, with its sign %+.1f %%\n", 100 * s.median,
               100 * s.bias);
    if (s.ranges > 0) printf("ranges: %d of %d hold ours\n", s.inside, s.ranges);
    if (s.missing > 0) printf("%d rows need a strategy that is not built in\n", s.missing);
}

static json_t *list_json(const paper_list *list, const found *all)
{
    static const char *const whats[] = {"speedup", "hidden", "ideal"};
    json_t *const rows = json_array();
    for (int i = 0; i < list->rows; i++) {
        const paper_row *const row = &list->row[i];
        json_t *const problems = json_array();
        for (int p = 0; p < PAPER_PROBLEMS && row->problem[p][0] != '\0'; p++)
            json_array_append_new(problems, json_string(row->problem[p]));
        const bool judged = all[i].verdict != NOT_JUDGED;
        json_array_append_new(
            rows,
            json_pack("{s:s, s:s, s:o, s:s, s:s, s:f, s:f, s:o, s:o, s:b}", "place", row->place,
                      "machine", row->machine, "problems", problems, "strategy", all[i].strategy,
                      "figure", whats[row->what], "low", row->low, "high", row->high, "ours",
                      all[i].simulated ? out_json_real(all[i].value) : json_null(), "agrees",
                      judged ? json_boolean(all[i].verdict == AGREES) : json_null(), "first_hand",
                      !row->second_hand));
    }
    const summary s = sum_up(list, all);
    return json_pack("{s:s, s:s, s:i, s:i, s:o, s:o}", "source", list->source, "note", list->note,
                     "judged", s.judged, "agree", s.agree, "median_deviation",
                     out_json_real(s.median), "rows", rows);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int unknown(const char *name)
{
    const char *names[8];
    char known[120] = "";
    int count = 0;
    for (; paper_name(count) != NULL; count++) {
        names[count] = paper_name(count);
        const size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", count > 0 ? ", " : "", names[count]);
    }
    return out_error(CLI_USAGE, "no figures of \"%.40s\"; %sthere are: %s, and all", name,
                     args_suggest(name, names, count), known);
}

/* Simulates one paper's rows and prints them, or adds them to PAPERS. */
static int paper(const char *name, machines *loaded, json_t *papers, summary *total)
{
    paper_list list;
    if (!paper_rows(name, &list)) return unknown(name);
    found *const all = out_get((size_t)list.rows * sizeof *all);
    int code = CLI_OK;
    for (int i = 0; code == CLI_OK && i < list.rows; i++) {
        out_progress("%d of %d: %s", i + 1, list.rows, list.row[i].problem[0]);
        code = find_row(&list.row[i], loaded, &all[i]);
    }
    out_progress_end();
    if (code == CLI_OK) {
        const summary s = sum_up(&list, all);
        total->judged += s.judged;
        total->agree += s.agree;
        if (papers != NULL)
            json_array_append_new(papers, list_json(&list, all));
        else
            print_text(&list, all);
    }
    free(all);
    free(list.row);
    return code;
}

static int papers_of(const char *name, bool json)
{
    machines loaded = {.count = 0};
    summary total = {.judged = 0};
    json_t *const papers = json ? json_array() : NULL;
    const bool all = strcmp(name, "all") == 0;
    int code = CLI_OK;
    for (int i = 0; code == CLI_OK && (all ? paper_name(i) != NULL : i == 0); i++) {
        if (i > 0 && !json) putchar('\n');
        code = paper(all ? paper_name(i) : name, &loaded, papers, &total);
    }
    if (code == CLI_OK && json)
        out_json(json_pack("{s:s, s:i, s:i, s:O}", "version", shingle_version(), "judged",
                           total.judged, "agree", total.agree, "papers", papers));
    else if (code == CLI_OK && all)
        printf("\nall papers: as published in %d of %d first-hand rows (%.1f %%)\n", total.agree,
               total.judged, total.judged > 0 ? 100.0 * total.agree / total.judged : 100);
    json_decref(papers);
    for (int i = 0; i < loaded.count; i++) shingle_machine_free(loaded.machine[i]);
    return code;
}

int cmd_paper(int argc, char **argv)
{
    const args_command command = {
        .name = "paper",
        .brief = "Published figures of other systems beside our simulation on their machines.",
        .usage = "NAME [options]",
        .examples = "  shingle paper flux\n"
                    "  shingle paper all --json\n",
        .notes =
            "NAME is flux, flashoverlap, commfuse, ficco or all.  docs/papers.md discusses the\n"
            "rows.\n",
        .least_words = 1,
        .most_words = 1,
        .words = "one NAME: flux, flashoverlap, commfuse, ficco or all,"};
    args a;
    int code = args_read(&command, argc, argv, &a);
    if (code == ARGS_GO) code = papers_of(a.word[0], a.json);
    args_free(&a);
    return code;
}
