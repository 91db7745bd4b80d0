/* strategy.c -- what strategies ask of a machine before they propose, and the text of strategies
 * and knobs; the table itself is in registry.c. */
#include "core/strategy.h"
#include "core/blocks.h"
#include "core/split.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool sg_decline(sg_text *why, const char *format, ...)
{
    char line[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    sg_text_add(why, "%s", line);
    return false;
}

bool sg_accepts_moves(const sg_problem *problem, sg_text *why)
{
    if (problem->op == SG_OP_GEMM) return sg_decline(why, "there is no communication to hide");
    if (problem->ranks == 1) return sg_decline(why, "one rank has nobody to talk to");
    if (problem->gather == SG_GATHER_K && problem->k == 0)
        return sg_decline(why, "there are no columns of A to gather");
    return true;
}

int sg_blocks_beside(const sg_machine *machine, int wait, sg_text *why)
{
    const int sms = sg_machine_held_sms(machine);
    if (sms == 0) return 0;
    if (sms > wait) return sms - wait;
    sg_decline(why, "a product and %d lanes that wait need more than %d SMs", wait, sms);
    return -1;
}

/* Tiles that parts of PROBLEM's rows or columns are cut into along EXTENT of a tile: one an owner,
 * or, where these have to be side by side, one each time that another owner's begin. */
static int64_t tiles_along(const sg_problem *p, int32_t extent)
{
    const bool runs = sg_problem_in(p) == SG_IN_GATHER || sg_problem_out(p) == SG_OUT_SCATTER;
    const int parts = runs ? p->segment_count : p->ranks;
    int64_t tiles = 0;
    for (int i = 0; i < parts; i++)
        tiles += sg_ceil_div(runs ? p->segments[i].rows : sg_problem_part(p, 0, i).rows, extent);
    return tiles;
}

bool sg_strategy_is_quick(const sg_problem *p, const sg_machine *machine)
{
    enum { RANKS = 64, TILES = 1 << 20 };
    const sg_tile *const tile = &machine->tile[0];
    const double down = (double)sg_ceil_div(p->m, tile->m);
    const double across = (double)sg_ceil_div(p->n, tile->n);
    return p->ranks <= RANKS && down * across <= TILES;
}

int64_t sg_tile_waves(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const int64_t tiles = sg_ceil_div(p->m, tile->m) * sg_problem_col_tiles(p, tile->n);
    return sg_ceil_div(tiles, machine->sms);
}

double sg_tile_us(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const double rate = machine->gemm_tflops[p->type] * (tile->rate > 0 ? tile->rate : 1);
    const double part = p->call ? 1 : sg_machine_tile_part(machine, tile->m, tile->n);
    const double flops = part * sg_problem_flops(p, tile->m, tile->n, (double)p->k);
    return flops * machine->sms / (rate * 1e6) + machine->visit_us;
}

int sg_tile_heights(const sg_machine *machine, int most, int32_t *height)
{
    int count = 0;
    for (int32_t above = 0; count < most; above = height[count++]) {
        int32_t least = 0;
        for (int t = 0; t < machine->tiles; t++) {
            const int32_t m = machine->tile[t].m;
            if (m > above && (least == 0 || m < least)) least = m;
        }
        if (least == 0) break;
        height[count] = least;
    }
    return count;
}

int32_t sg_narrow_tile(const sg_machine *machine, int32_t height, int64_t cols)
{
    enum { STEP = 32, TRIED = 2 }; /* the first tiles are tried anyway */
    const int64_t width = sg_round_up(sg_ceil_div(cols, sg_max(1, machine->sms)), STEP);
    for (int t = 0; t < machine->tiles; t++)
        if (machine->tile[t].m == height && machine->tile[t].n < width + (t < TRIED)) return 0;
    return (int32_t)width;
}

int sg_column_parts(const sg_problem *p, const sg_machine *machine, const sg_tile *tile, bool held,
                    bool cut)
{
    enum { MOST_BANDS = 8 }; /* of more, A is read as often as B was */
    const int64_t bands = sg_ceil_div(p->m, tile->m);
    const int64_t of_rows = sg_min(p->m, p->ranks) * sg_ceil_div(p->most_rows, tile->m);
    const bool moves = sg_problem_out(p) == SG_OUT_ALL && p->ranks > 1 && !p->call;
    if (!moves || machine->pool > 0 || bands > MOST_BANDS || (held && of_rows <= bands)) return 0;
    if (!cut) return 1;
    const int parts = sg_split_parts(bands * sg_ceil_div(p->n, tile->n), p->k, machine->sms);
    return parts > 1 ? parts : 0;
}

/* Is TILE a low one of an all-reduce of several ranks that have more rows than two of it?  It asks
 * the L2 for more than it is given while others' addends come (four H200s, twelve products of 640
 * to 4096 rows in 64x256: 15 % slower than predicted in the median, up to 57, never the fastest;
 * results/gpu/unseen_4xh200_v2.json). */
static bool is_low_sum(const sg_problem *p, const sg_tile *tile)
{
    enum { LOW = 64 };
    return sg_problem_out(p) == SG_OUT_ALL && p->ranks > 2 && tile->m <= LOW &&
           p->most_rows > 2 * (int64_t)tile->m;
}

/* Time of rank 0's product in tiles of TILE.  SMs that are spared make the others faster where
 * clocks are as high as may be, but for all-reduces, whose last tiles others wait for; in a long
 * product power counts, and more SMs take less of it (two H200s, scatters in 128x256 on 128 SMs
 * beside 128x224 on 132: 8192x8192x4096 705 and 711 us, 8192x12288x24576 6400 and 6330;
 * results/gpu/even_2xh200_v1.json). */
static double waves_cost(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const double long_us = 4000;
    const bool moves = p->op != SG_OP_GEMM;
    const bool by_rows = moves && p->gather == SG_GATHER_A;
    const bool by_cols = moves && p->gather == SG_GATHER_B;
    const int64_t bands = by_rows ? tiles_along(p, tile->m) : sg_ceil_div(p->m, tile->m);
    const int64_t cols = by_cols ? tiles_along(p, tile->n) : sg_problem_col_tiles(p, tile->n);
    const int32_t sms = (int32_t)sg_max(machine->sms, 1);
    const int64_t waves = sg_ceil_div(bands * cols, sms);
    const double us = (double)waves * sg_tile_us(p, machine, tile);
    const bool spares = waves > 1 && us < long_us && sg_problem_out(p) != SG_OUT_ALL;
    const double busy = spares ? (double)sg_blocks_even(bands * cols, sms) / sms : 1;
    const double low = is_low_sum(p, tile) ? 1.25 : 1;
    return low * us * (1 - machine->idle_part * (1 - busy));
}

int sg_strategy_propose_next(const sg_strategy *strategy, const sg_problem *problem,
                             const sg_machine *machine, int skipped, sg_knobs *sets, sg_text *why)
{
    SG_ASSERT(skipped == 0 || skipped < machine->tiles);
    sg_machine ordered = *machine;
    /* Ranks that share workers have no waves. */
    for (int i = 1; i < machine->tiles && machine->pool == 0; i++) {
        const sg_tile tile = machine->tile[i];
        const double cost = waves_cost(problem, machine, &tile);
        int at = i;
        for (; at > 0 && waves_cost(problem, machine, &ordered.tile[at - 1]) > cost; at--)
            ordered.tile[at] = ordered.tile[at - 1];
        ordered.tile[at] = tile;
    }
    ordered.tiles -= skipped;
    memmove(ordered.tile, ordered.tile + skipped, (size_t)ordered.tiles * sizeof *ordered.tile);
    return strategy->propose(problem, &ordered, sets, why);
}

int sg_strategy_propose(const sg_strategy *strategy, const sg_problem *problem,
                        const sg_machine *machine, sg_knobs *sets, sg_text *why)
{
    return sg_strategy_propose_next(strategy, problem, machine, 0, sets, why);
}

int sg_knob_count(const sg_strategy *strategy)
{
    int count = 0;
    while (count < SG_MAX_KNOBS && strategy->knob[count] != NULL) count++;
    return count;
}

void sg_strategy_print(const sg_strategy *strategy, const sg_knobs *knobs, sg_text *text)
{
    const int count = sg_knob_count(strategy);
    sg_text_add(text, "%s", strategy->name);
    for (int i = 0; i < count; i++)
        sg_text_add(text, "%s%s=%d", i ? "," : "{", strategy->knob[i], knobs->value[i]);
    if (count > 0) sg_text_add(text, "}");
}

static shingle_status expect(const char *text, const char *at, const char *what)
{
    return sg_fail(SHINGLE_EINVAL, "strategy \"%.60s\", column %d: %s expected", text,
                   (int)(at - text) + 1, what);
}

/* Names of all strategies, or of a strategy's knobs, for error texts. */
static void list_names(const sg_strategy *strategy, sg_text *t)
{
    if (strategy == NULL) {
        for (int i = 0; sg_strategy_at(i) != NULL; i++)
            sg_text_add(t, "%s%s", i ? ", " : "", sg_strategy_at(i)->name);
    } else if (strategy->knob[0] == NULL) {
        sg_text_add(t, "no knob");
    } else {
        for (int i = 0; i < sg_knob_count(strategy); i++)
            sg_text_add(t, "%s%s", i ? ", " : "", strategy->knob[i]);
    }
}

/* Parses "name=value" at *AT and moves it behind. */
static shingle_status take_knob(const char *text, const char **at, const sg_strategy *strategy,
                                bool *given, sg_knobs *knobs)
{
    char names[160] = "";
    sg_text list = {names, sizeof names, 0};
    const size_t length = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789_");
    int knob = 0;
    const int count = sg_knob_count(strategy);
    while (knob < count && (strlen(strategy->knob[knob]) != length ||
                            strncmp(strategy->knob[knob], *at, length) != 0))
        knob++;
    if (knob == count) {
        list_names(strategy, &list);
        return expect(text, *at, names);
    }
    if (given[knob])
        return sg_fail(SHINGLE_EINVAL, "strategy \"%.60s\": %s is given twice", text,
                       strategy->knob[knob]);
    *at += length;
    if (**at != '=') return expect(text, *at, "\"=\"");
    (*at)++;
    const char *const digits = *at;
    int64_t value = 0;
    for (; **at >= '0' && **at <= '9' && value <= INT32_MAX; (*at)++)
        value = value * 10 + (**at - '0');
    if (*at == digits || value < strategy->least[knob] || value > strategy->most[knob])
        return sg_fail(SHINGLE_EINVAL,
                       "strategy \"%.60s\", column %d: %s is a number from %d to %d", text,
                       (int)(digits - text) + 1, strategy->knob[knob], strategy->least[knob],
                       strategy->most[knob]);
    knobs->value[knob] = (int32_t)value;
    given[knob] = true;
    return SHINGLE_OK;
}

shingle_status sg_strategy_parse(const char *text, const sg_strategy **strategy_out,
                                 const sg_knobs *defaults, sg_knobs *knobs_out, bool *knobs_given)
{
    char names[200] = "";
    sg_text list = {names, sizeof names, 0};
    char name[32] = "";
    const size_t length = strcspn(text, "{");
    if (length > 0 && length < sizeof name) memcpy(name, text, length);
    const sg_strategy *const strategy = sg_strategy_find(name);
    if (strategy == NULL) {
        list_names(NULL, &list);
        return sg_fail(SHINGLE_EINVAL, "strategy \"%.60s\": there are %s", text, names);
    }
    const int count = sg_knob_count(strategy);
    bool given[SG_MAX_KNOBS] = {false};
    sg_knobs knobs = {{0}};
    if (defaults != NULL) knobs = *defaults;
    const char *at = text + length;
    bool any = false;
    if (*at == '{') {
        any = true;
        do {
            at++;
            SG_TRY(take_knob(text, &at, strategy, given, &knobs));
        } while (*at == ',');
        if (*at != '}') return expect(text, at, "\",\" or \"}\"");
        at++;
    }
    if (*at != '\0') return expect(text, at, "the end");
    for (int i = 0; i < count && defaults == NULL && any; i++)
        if (!given[i])
            return sg_fail(SHINGLE_EINVAL, "strategy \"%.60s\": %s is missing", text,
                           strategy->knob[i]);
    *strategy_out = strategy;
    *knobs_out = knobs;
    *knobs_given = any;
    return SHINGLE_OK;
}

const char *shingle_strategy_name(int index)
{
    const sg_strategy *const strategy = sg_strategy_at(index);
    return strategy ? strategy->name : NULL;
}

const char *shingle_strategy_brief(int index)
{
    const sg_strategy *const strategy = sg_strategy_at(index);
    return strategy ? strategy->brief : NULL;
}
