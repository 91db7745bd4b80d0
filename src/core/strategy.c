/* strategy.c -- strategies and knobs as text; the table itself is in registry.c. */
#include "core/strategy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool sg_decline(sg_text *why, const char *format, ...)
{
    char line[160];
    va_list arguments;
    va_start(arguments, format);
    sg_format(line, sizeof line, format, arguments);
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

int sg_knob_count(const sg_strategy *strategy)
{
    int count = 0;
    while (count < SG_MAX_KNOBS && strategy->knob[count].name != NULL) count++;
    return count;
}

void sg_strategy_print(const sg_strategy *strategy, const sg_knobs *knobs, sg_text *text)
{
    const int count = sg_knob_count(strategy);
    sg_text_add(text, "%s", strategy->name);
    for (int i = 0; i < count; i++)
        sg_text_add(text, "%s%s=%d", i ? "," : "{", strategy->knob[i].name, knobs->value[i]);
    if (count > 0) sg_text_add(text, "}");
}

static shingle_status expect(const char *text, const char *at, const char *what)
{
    return sg_fail(SHINGLE_EINVAL, "strategy \"%s\", column %d: %s expected",
                   sg_quote(text, (size_t)(at - text)).text, (int)(at - text) + 1, what);
}

/* Names of all strategies, or of a strategy's knobs, for error texts. */
static void list_names(const sg_strategy *strategy, sg_text *t)
{
    if (strategy == NULL) {
        for (int i = 0; sg_strategy_at(i) != NULL; i++)
            sg_text_add(t, "%s%s", i ? ", " : "", sg_strategy_at(i)->name);
    } else if (strategy->knob[0].name == NULL) {
        sg_text_add(t, "no knob");
    } else {
        for (int i = 0; i < sg_knob_count(strategy); i++)
            sg_text_add(t, "%s%s", i ? ", " : "", strategy->knob[i].name);
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
    while (knob < count && (strlen(strategy->knob[knob].name) != length ||
                            strncmp(strategy->knob[knob].name, *at, length) != 0))
        knob++;
    if (knob == count) {
        list_names(strategy, &list);
        return expect(text, *at, names);
    }
    if (given[knob])
        return sg_fail(SHINGLE_EINVAL, "strategy \"%s\": %s is given twice",
                       sg_quote(text, (size_t)(*at - text)).text, strategy->knob[knob].name);
    *at += length;
    if (**at != '=') return expect(text, *at, "\"=\"");
    (*at)++;
    const sg_knob *const its = &strategy->knob[knob];
    const char *const digits = *at;
    int64_t value = 0;
    for (; **at >= '0' && **at <= '9' && value <= INT32_MAX; (*at)++)
        value = value * 10 + (**at - '0');
    if (*at == digits || value < its->least || value > its->most)
        return sg_fail(SHINGLE_EINVAL, "strategy \"%s\", column %d: %s is a number from %d to %d",
                       sg_quote(text, (size_t)(digits - text)).text, (int)(digits - text) + 1,
                       its->name, its->least, its->most);
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
        return sg_fail(SHINGLE_EINVAL, "strategy \"%s\": there are %s", sg_quote(text, 0).text,
                       names);
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
            return sg_fail(SHINGLE_EINVAL, "strategy \"%s\": %s is missing", sg_quote(text, 0).text,
                           strategy->knob[i].name);
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
