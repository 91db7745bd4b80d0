/* calibrate.c -- see calibrate.h. */
#include "core/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/calibrate_list.h"

enum { MOST_ITEMS = 224, ROUNDS = 15, MOST_PROBLEM = 96, LINE = 256, MOST_FAILURES = 3 };

static const double timing_part = 0.8; /* of the time limit; the rest is for the fit */
static const double fit_most_us = 20e6;
static const double megabyte = 1048576;
static const double least_message = 0.5; /* megabytes; less is start-up alone */
static const double worth = 1.05;        /* rates that differ by more do not by chance */

/* One plan that is timed. */
typedef struct item {
    sg_problem problem;
    shingle_plan *plan;
    int coll;       /* its collectives alone: their curve; -1: all of it */
    double message; /* bytes of the whole message */
    double expected_us;
    double us[ROUNDS];
    int rounds;
    bool dropped;  /* cannot be run here */
    char why[200]; /* it failed */
} item;

typedef struct job {
    const sg_calibrate_watch *watch;
    sg_machine machine;
    int ranks;
    double begin_us, seconds;
    item item[MOST_ITEMS];
    int items, failures;
    sg_fit_run run[MOST_ITEMS];
    int runs;
    const char *name[SG_FIT_NUMBERS];
    char part_name[SG_TILES + SG_POINTS][32];
    int names;
    sg_fit_report report;
} job;

static double now_us(const job *j)
{
    return j->watch->now_us(j->watch->context);
}

/* ---- The list -------------------------------------------------------------------------------- */

static void drop_item(item *it)
{
    sg_plan_free(it->plan);
    sg_problem_free(&it->problem);
    *it = (item){.plan = NULL};
}

/* The problem with this group's ranks; a strategy that declines it is left out. */
static shingle_status add_item(job *j, const char *problem, const char *strategy, int coll,
                               double message)
{
    char text[MOST_PROBLEM] = "";
    char why[160] = "";
    sg_text whole = {text, sizeof text, 0};
    sg_text reason = {why, sizeof why, 0};
    sg_knobs sets[SG_MAX_KNOB_SETS];
    sg_knobs knobs;
    bool given = false;
    const sg_strategy *of = NULL;
    if (j->items == MOST_ITEMS)
        return sg_fail(SHINGLE_EBUG, "a list of more than %d measurements", (int)MOST_ITEMS);
    item *const it = &j->item[j->items];
    *it = (item){.coll = coll, .message = message};
    memset(sets, 0, sizeof sets);
    sg_text_add(&whole, "%s:r%d", problem, j->ranks);
    SG_TRY(sg_problem_parse(text, &it->problem));
    shingle_status status = sg_strategy_parse(strategy, &of, &sets[0], &knobs, &given);
    bool fits = status == SHINGLE_OK && of->propose(&it->problem, &j->machine, sets, &reason) > 0;
    if (fits) status = sg_strategy_parse(strategy, &of, &sets[0], &knobs, &given);
    if (fits && status == SHINGLE_OK) status = sg_plan_make(&it->problem, of, &knobs, &it->plan);
    fits &= status == SHINGLE_OK;
    if (!fits) drop_item(it);
    j->items += fits;
    return status;
}

static shingle_status add_listed(job *j, const sg_calibrate_item *one)
{
    if (j->ranks == 1 && strncmp(one->problem, "gemm:", 5) != 0) return SHINGLE_OK;
    if (!one->each) return add_item(j, one->problem, one->strategy, -1, 0);
    for (int i = 0; i < j->machine.tiles; i++) {
        char strategy[80];
        sg_text text = {strategy, sizeof strategy, 0};
        sg_text_add(&text, "%s{tile_m=%d,tile_n=%d}", one->strategy, j->machine.tile[i].m,
                    j->machine.tile[i].n);
        SG_TRY(add_item(j, one->problem, strategy, -1, 0));
    }
    return SHINGLE_OK;
}

/* Collectives of serial plans whose product is small. */
static shingle_status add_collectives(job *j, double megabytes)
{
    static const char *const format[SG_MACHINE_CURVES] = {
        [SG_ALL_GATHER] = "ag_gemm:bf16:%dx64x1024",
        [SG_REDUCE_SCATTER] = "gemm_rs:bf16:%dx1024x64",
        [SG_ALL_REDUCE] = "gemm_ar:bf16:%dx1024x64",
        [SG_ALL_TO_ALL] = "a2a_gemm:bf16:%dx64x1024",
        [SG_MACHINE_COLLS + SG_ALL_GATHER] = "ag_gemm:bf16:%dx64x1024",
        [SG_MACHINE_COLLS + SG_REDUCE_SCATTER] = "gemm_rs:bf16:%dx1024x64"};
    const bool windows = j->watch->windows && j->machine.pool == 0;
    const int curves = windows ? SG_MACHINE_CURVES : SG_MACHINE_COLLS;
    for (int kind = 0; kind < curves && j->ranks > 1; kind++) {
        char problem[MOST_PROBLEM];
        const char *const x = strchr(format[kind], '%');
        sg_text text = {problem, sizeof problem, 0};
        sg_text_add(&text, "%.*s%d%s", (int)(x - format[kind]), format[kind],
                    (int)(megabytes * megabyte / 2048), x + 2);
        char strategy[40];
        sg_text knobs = {strategy, sizeof strategy, 0};
        sg_text_add(&knobs, "%s%s", sg_strategy_at(0)->name,
                    kind < SG_MACHINE_COLLS ? "" : "{windows=1}");
        SG_TRY(add_item(j, problem, strategy, kind, megabytes * megabyte));
    }
    return SHINGLE_OK;
}

static int by_time(const void *a, const void *b)
{
    const item *const x = a;
    const item *const y = b;
    return (x->expected_us > y->expected_us) - (x->expected_us < y->expected_us);
}

/* Runs of a length follow each other: a short one behind a long one would find the machine hot. */
static shingle_status sort_list(job *j)
{
    for (int i = 0; i < j->items; i++) {
        item *const it = &j->item[i];
        sg_fit_run run = {
            .problem = &it->problem, .strategy = it->plan->strategy, .knobs = it->plan->knobs};
        SG_TRY(sg_fit_predict(&run, 1, &j->machine));
        it->expected_us = run.predicted_us;
    }
    qsort(j->item, (size_t)j->items, sizeof *j->item, by_time);
    return SHINGLE_OK;
}

static shingle_status make_list(job *j)
{
    const bool pool = j->machine.pool > 0;
    int count = 0;
    const sg_calibrate_item *const listed = sg_calibrate_items(pool, &count);
    for (int i = 0; i < count; i++) SG_TRY(add_listed(j, &listed[i]));
    const double *const message = sg_calibrate_messages(pool, &count);
    for (int i = 0; i < count; i++) SG_TRY(add_collectives(j, message[i]));
    return sort_list(j);
}

/* ---- Timing ---------------------------------------------------------------------------------- */

static shingle_status time_item(job *j, item *it)
{
    double us = 0;
    if (it->dropped || it->rounds == ROUNDS) return SHINGLE_OK;
    const shingle_status status = j->watch->time(j->watch->context, it->plan, it->coll >= 0, &us);
    if (status == SHINGLE_EUNSUPPORTED || status == SHINGLE_ENOMEM) {
        it->dropped = true;
        sg_log(SG_LOG_INFO, "calibrate: %s is left out: %s", it->plan->text, shingle_error());
        return SHINGLE_OK;
    }
    if (status == SHINGLE_OK) {
        if (us > 0) it->us[it->rounds++] = us;
        return SHINGLE_OK;
    }
    if (++j->failures > MOST_FAILURES) return status;
    sg_text why = {it->why, sizeof it->why, 0};
    sg_text_add(&why, "%s", shingle_error());
    sg_log(SG_LOG_WARN, "calibrate: %s failed: %s", it->plan->text, it->why);
    it->dropped = true;
    it->rounds = 0;
    return SHINGLE_OK;
}

/* All of them in turns until the time is over: whatever else happens on the machine concerns
 * all. */
static shingle_status time_all(job *j)
{
    const double until = j->begin_us + timing_part * j->seconds * 1e6;
    for (int i = 0; i < j->items; i++) {
        if (now_us(j) > until)
            return sg_fail(SHINGLE_ETIMEOUT,
                           "%g s are over after %d of %d measurements; about %.0f s are needed",
                           j->seconds, i, j->items, 1 + 2 * j->seconds * j->items / (i + 1));
        if (j->watch->progress != NULL) j->watch->progress(j->watch->context, i, j->items);
        SG_TRY(time_item(j, &j->item[i]));
    }
    for (int round = 1; round < ROUNDS; round++) {
        for (int i = 0; i < j->items && now_us(j) < until; i++) SG_TRY(time_item(j, &j->item[i]));
    }
    return SHINGLE_OK;
}

/* The first run touches memory and warms up; it counts where there is no other. */
static double median_us(item *it)
{
    const int first = it->rounds > 1;
    return sg_median(it->us + first, it->rounds - first);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* Bytes that pass each rank's port, as bus bandwidth counts them. */
static double bus_bytes(const job *j, const item *it)
{
    return it->message * (j->ranks - 1) / j->ranks * (it->coll == SG_ALL_REDUCE ? 2 : 1);
}

static void take_curve(job *j, int kind)
{
    sg_curve curve = {.points = 0};
    for (int i = 0; i < j->items; i++) {
        item *const it = &j->item[i];
        if (it->coll != kind || it->rounds == 0) continue;
        const double us = median_us(it);
        if (it->message < least_message * megabyte && j->machine.pool == 0) continue;
        if (curve.points == SG_POINTS) continue;
        int at = curve.points++; /* items are in the order of what they were to take */
        for (; at > 0 && curve.point[at - 1].at > it->message; at--)
            curve.point[at] = curve.point[at - 1];
        curve.point[at] = (sg_point){it->message, bus_bytes(j, it) / (us * 1e3)};
    }
    for (int i = 0; i < curve.points; i++)
        curve.point[i].value = fmax(sg_fit_rounded(curve.point[i].value), 1e-6);
    if (curve.points > 0) j->machine.coll_curve[kind] = curve;
}

/* Where windows do not make a difference, nobody is to propose them: machines without any have the
 * same times twice. */
static void forget_windows(sg_machine *m)
{
    for (int kind = 0; SG_MACHINE_COLLS + kind < SG_MACHINE_CURVES; kind++) {
        sg_curve *const curve = &m->coll_curve[SG_MACHINE_COLLS + kind];
        bool faster = false;
        for (int i = 0; i < curve->points; i++) {
            const double plain = sg_curve_at(&m->coll_curve[kind], curve->point[i].at, INFINITY);
            faster |= curve->point[i].value > worth * plain;
        }
        if (!faster) curve->points = 0;
    }
}

static void take_collectives(job *j)
{
    double last[SG_MACHINE_COLLS];
    double least_us = INFINITY;
    int kinds = 0;
    for (int kind = SG_MACHINE_COLLS; kind < SG_MACHINE_CURVES; kind++) take_curve(j, kind);
    for (int kind = 0; kind < SG_MACHINE_COLLS; kind++) {
        take_curve(j, kind);
        double message = 0;
        for (int i = 0; i < j->items; i++) {
            item *const it = &j->item[i];
            if (it->coll != kind || it->rounds == 0) continue;
            const double us = median_us(it);
            least_us = fmin(least_us, us);
            if (it->message > message) last[kinds] = bus_bytes(j, it) / (us * 1e3);
            message = fmax(message, it->message);
        }
        kinds += message > 0;
    }
    forget_windows(&j->machine);
    if (kinds == 0) return;
    j->machine.coll_us = sg_fit_rounded(least_us);
    j->machine.coll_gbps = fmax(sg_fit_rounded(sg_median(last, kinds)), 1e-6);
}

/* ---- The fit --------------------------------------------------------------------------------- */

/* Numbers that begin where runs depend on them. */
static void begin_numbers(sg_machine *m)
{
    if (m->pool > 0) return;
    if (m->run_us <= 0) m->run_us = m->flag_us;
    if (m->burst <= 1 || m->burst_us <= 0) {
        m->burst = 1.05;
        m->burst_us = 1000;
    }
    if (m->vendor_burst <= 1) m->vendor_burst = m->burst;
    if (m->vendor <= 0) m->vendor = 1;
    if (m->gemm_by_copy < 1) m->gemm_by_copy = 1;
    if (m->vendor_by_copy < 1) m->vendor_by_copy = m->gemm_by_copy;
    if (m->mem_part <= 0) m->mem_part = 0.1;
    if (m->idle_part <= 0) m->idle_part = 0.1;
    if (m->push_part <= 0) m->push_part = 0.5;
    if (m->lane_us <= 0) m->lane_us = m->flag_us;
    if (m->tagged_us <= 0) m->tagged_us = m->flag_us;
    if (m->hop_us <= 0) m->hop_us = m->flag_us;
    if (m->tagged_gbps <= 0) m->tagged_gbps = 0.75 * m->store_gbps;
    if (m->local_gbps <= 0) m->local_gbps = m->mem_gbps / 2;
    if (m->topology == SG_SWITCH) m->link_gbps = 0; /* as fast as what uses it */
}

static void choose_part(job *j, const char *line, int index, const char *text)
{
    if (j->names == SG_FIT_NUMBERS) return;
    sg_text name = {j->part_name[index], sizeof j->part_name[index], 0};
    sg_text_add(&name, "%s %s", line, text);
    j->name[j->names++] = j->part_name[index];
}

/* Is NAME one of the words that stand in the watch's list of numbers to be left as they are? */
static bool is_held(const job *j, const char *name)
{
    const size_t length = strlen(name);
    const char *at = j->watch->held;
    while (at != NULL && *at != '\0') {
        const size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, name, length) == 0) return true;
        at += word + (at[word] == ',');
    }
    return false;
}

/* Lines of one number, then tiles and parts of a collective but for what they are parts of. */
static void choose_numbers(job *j)
{
    const sg_machine *const m = &j->machine;
    const bool pool = m->pool > 0;
    char text[24];
    int count = 0;
    const sg_calibrate_number *const number = sg_calibrate_numbers(&count);
    for (int i = 0; i < count; i++)
        if (number[i].fitted && (pool ? number[i].pool : number[i].own) &&
            j->ranks >= number[i].ranks && !is_held(j, number[i].name) &&
            sg_machine_number(&j->machine, number[i].name, NULL, NULL) != NULL)
            j->name[j->names++] = number[i].name;
    if (pool || j->ranks == 1) return;
    for (int i = 1; i < m->tiles; i++) {
        sg_text shape = {text, sizeof text, 0};
        sg_text_add(&shape, "%dx%d", m->tile[i].m, m->tile[i].n);
        choose_part(j, "tile", i, text);
    }
    for (int i = 0; i + 1 < m->coll_part.points; i++) {
        sg_text sms = {text, sizeof text, 0};
        sg_text_add(&sms, "%.0f", m->coll_part.point[i].at);
        choose_part(j, "coll_part", SG_TILES + i, text);
    }
}

/* Where no tagged data were timed, nobody is to propose them. */
static void forget_tagged(job *j, const sg_machine *before)
{
    bool once = false;
    bool twice = false;
    for (int i = 0; i < j->names; i++) {
        once |= strcmp(j->name[i], "tagged_us") == 0 && j->report.seen[i];
        twice |= strcmp(j->name[i], "hop_us") == 0 && j->report.seen[i];
    }
    sg_machine *const m = &j->machine; /* 0: left out */
    m->tagged_us = once ? fmax(m->tagged_us, 0.01) : before->tagged_us;
    if (!once) m->tagged_gbps = before->tagged_gbps;
    m->hop_us = twice ? fmax(m->hop_us, 0.01) : before->hop_us;
}

static shingle_status fit_all(job *j)
{
    const sg_machine before = j->machine;
    for (int i = 0; i < j->items; i++) {
        item *const it = &j->item[i];
        if (it->rounds == 0) continue;
        if (j->watch->measured != NULL)
            j->watch->measured(j->watch->context, it->plan, it->coll >= 0, median_us(it));
        if (it->coll >= 0) continue;
        j->run[j->runs++] = (sg_fit_run){.problem = &it->problem,
                                         .strategy = it->plan->strategy,
                                         .knobs = it->plan->knobs,
                                         .us = median_us(it)};
    }
    const double left_us = j->begin_us + j->seconds * 1e6 - now_us(j);
    const double fit_us = fmax(0, fmin(left_us, fit_most_us));
    begin_numbers(&j->machine);
    choose_numbers(j);
    SG_TRY(
        sg_fit(j->run, j->runs, j->name, j->names, sg_now_us() + fit_us, &j->machine, &j->report));
    forget_tagged(j, &before);
    return SHINGLE_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Was a number of this line found?  Lines of tiles have a shape in their names. */
static bool is_found(const job *j, const char *line)
{
    const bool tile = strncmp(line, "tile ", 5) == 0;
    for (int i = 0; i < j->names; i++) {
        const size_t length = tile ? strlen(j->name[i]) : strcspn(j->name[i], " ");
        if (j->report.seen[i] && strncmp(line, j->name[i], length) == 0 &&
            (line[length] == ' ' || line[length] == '\0'))
            return true;
    }
    return false;
}

/* How the number of a printed line was found; NULL: there is nothing to say. */
static const char *how_of(const job *j, const char *line)
{
    const size_t length = strcspn(line, " ");
    int count = 0;
    const sg_calibrate_number *const number = sg_calibrate_numbers(&count);
    const bool whole = strncmp(line, "tile ", 5) == 0 && strchr(line + 5, ' ') == NULL;
    if (strncmp(line, "name ", 5) == 0 || (whole && !is_found(j, line))) return NULL;
    for (int i = 0; i < count; i++)
        if (strncmp(line, number[i].name, length) == 0 && number[i].name[length] == '\0' &&
            (number[i].fitted ? is_found(j, line) : j->ranks >= number[i].ranks))
            return number[i].how;
    return "described, not measured";
}

static void write_text(const job *j, char *text_out)
{
    char plain[SG_MACHINE_TEXT];
    sg_text text = {text_out, SG_CALIBRATE_TEXT, 0};
    int least = ROUNDS;
    int dropped = 0;
    for (int i = 0; i < j->items; i++) {
        dropped += j->item[i].dropped;
        if (!j->item[i].dropped && j->item[i].rounds < least) least = j->item[i].rounds;
    }
    text_out[0] = '\0';
    sg_text_add(&text, "# Written by `shingle calibrate`: %d measurements on %d rank%s, in turns, ",
                j->items - dropped, j->ranks, j->ranks == 1 ? "" : "s");
    if (least == 1)
        sg_text_add(&text, "at least once each,\n# medians");
    else
        sg_text_add(&text, "at least %d times each,\n# medians", least);
    if (dropped > 0) sg_text_add(&text, "; %d more cannot be run there", dropped);
    sg_text_add(&text,
                ".  \"fitted\": least squares of the simulator's times against %d runs of these,\n"
                "# all numbers together; median error %.1f %%, before %.1f %%.\n",
                j->runs, 100 * j->report.error_after, 100 * j->report.error_before);
    for (int i = 0; i < j->items; i++)
        if (j->item[i].why[0] != '\0')
            sg_text_add(&text, "# Failed, and left out: %s\n# (%s)\n", j->item[i].plan->text,
                        j->item[i].why);
    sg_machine_print(&j->machine, plain, sizeof plain);
    for (const char *line = plain; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        char one[LINE] = "";
        sg_text copy = {one, sizeof one, 0};
        sg_text_add(&copy, "%.*s", (int)length, line);
        const char *const how = how_of(j, one);
        if (how != NULL)
            sg_text_add(&text, "%-24s # %s\n", one, how);
        else
            sg_text_add(&text, "%s\n", one);
        line += length + (line[length] == '\n');
    }
}

/* ---- The call -------------------------------------------------------------------------------- */

static shingle_status calibrate(job *j, sg_machine *machine_out, char *text_out)
{
    SG_TRY(make_list(j));
    SG_TRY(time_all(j));
    take_collectives(j);
    SG_TRY(fit_all(j));
    write_text(j, text_out);
    return sg_machine_parse(text_out, "the machine file that calibration wrote", machine_out);
}

shingle_status sg_calibrate(const sg_machine *machine, int ranks, double seconds,
                            const sg_calibrate_watch *watch, sg_machine *machine_out,
                            char *text_out)
{
    job *const j = calloc(1, sizeof *j);
    if (j == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory to calibrate %d ranks", ranks);
    j->watch = watch;
    j->machine = *machine;
    j->ranks = ranks;
    j->seconds = seconds;
    j->begin_us = now_us(j);
    const shingle_status status = calibrate(j, machine_out, text_out);
    for (int i = 0; i < j->items; i++) drop_item(&j->item[i]);
    free(j);
    return status;
}
