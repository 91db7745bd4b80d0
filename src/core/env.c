/* env.c -- see env.h. */
#include "core/env.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/spell.h"

extern char **environ;

/* Each is read by somebody: scripts/gate.sh looks. */
static const struct variable {
    const char *name, *fallback, *meaning;
} table[] = {
    {"SHINGLE_LOG", "none", "what is logged: none, error, warn, info or debug"},
    {"SHINGLE_LOG_FILE", "", "file that the log is appended to; default: stderr"},
    {"SHINGLE_BACKEND", "", "backend of groups that do not name one"},
    {"SHINGLE_MACHINE", "", "machine to plan for where none is named: a name or a path"},
    {"SHINGLE_STRATEGY", "", "strategy of plans that do not force one, e.g. ring{sub=2}"},
    {"SHINGLE_PLANS", "", "file of tuned plans that groups read when they open"},
    {"SHINGLE_THREADS", "", "worker threads of each group; default: the process's cores"},
    {"SHINGLE_TIMEOUT", "", "seconds without progress after which a run fails; default 10"},
    {"SHINGLE_SHARE_GPU", "",
     "1: ranks may share a GPU, which proves plans; times mean nothing then"},
};
enum { VARIABLES = sizeof table / sizeof table[0] };
_Static_assert(VARIABLES <= 12, "settings are kept few");

static const char prefix[] = "SHINGLE_";

static const struct variable *find(const char *name, size_t length)
{
    for (int i = 0; i < VARIABLES; i++)
        if (strlen(table[i].name) == length && strncmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}

const char *sg_env(const char *name)
{
    const struct variable *const variable = find(name, strlen(name));
    SG_CHECK(variable != NULL);
    const char *const value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : variable->fallback;
}

/* Digits and a point, and an exponent behind them. */
static bool take_number(const char *text, double *value_out)
{
    enum { MOST = 99 };
    const size_t digits = strcspn(text, "eE");
    if (!sg_decimal_parse(text, digits, value_out)) return false;
    if (text[digits] == '\0') return true;
    const char *at = text + digits + 1;
    const bool small = *at == '-';
    int exponent = 0;
    if (*at == '-' || *at == '+') at++;
    if (*at == '\0') return false;
    for (; *at >= '0' && *at <= '9' && exponent <= MOST; at++) exponent = 10 * exponent + *at - '0';
    if (*at != '\0' || exponent > MOST) return false;
    if (small)
        *value_out /= pow(10, exponent);
    else
        *value_out *= pow(10, exponent);
    return true;
}

shingle_status sg_env_number(const char *name, double low, double high, double fallback,
                             double *value_out)
{
    const char *const text = sg_env(name);
    if (text[0] == '\0') {
        *value_out = fallback;
        return SHINGLE_OK;
    }
    double value = 0;
    if (!take_number(text, &value) || value < low || value > high)
        return sg_fail(SHINGLE_EINVAL, "%s is \"%.60s\"; a number of %g to %g is possible", name,
                       text, low, high);
    *value_out = value;
    return SHINGLE_OK;
}

shingle_status sg_env_count(const char *name, int low, int high, int fallback, int *value_out)
{
    enum { MOST = 9 }; /* digits; they fit an int */
    const char *const text = sg_env(name);
    const size_t digits = strspn(text, "0123456789");
    int value = 0;
    if (text[0] == '\0') {
        *value_out = fallback;
        return SHINGLE_OK;
    }
    for (size_t i = 0; i < digits && i < MOST; i++) value = 10 * value + text[i] - '0';
    if (text[digits] != '\0' || digits > MOST || value < low || value > high)
        return sg_fail(SHINGLE_EINVAL, "%s is \"%.60s\"; a whole number of %d to %d is possible",
                       name, text, low, high);
    *value_out = value;
    return SHINGLE_OK;
}

shingle_status shingle_env(int index, shingle_env_entry *entry_out)
{
    if (entry_out == NULL) return sg_fail(SHINGLE_EINVAL, "no place for a variable");
    if (index < 0 || index >= VARIABLES)
        return sg_past_end("variable %d; 0 to %d are in the table", index, VARIABLES - 1);
    const struct variable *const variable = &table[index];
    *entry_out = (shingle_env_entry){.name = variable->name,
                                     .fallback = variable->fallback,
                                     .meaning = variable->meaning,
                                     .value = getenv(variable->name)};
    return SHINGLE_OK;
}

/* ---- Misspelt variables ---------------------------------------------------------------------- */

static const char *nearest(const char *name, size_t length)
{
    int best = 0;
    int least = INT32_MAX;
    for (int i = 0; i < VARIABLES; i++) {
        const int d = sg_spell_distance(name, length, table[i].name);
        if (d < least) {
            least = d;
            best = i;
        }
    }
    return table[best].name;
}

bool sg_env_unknown(int index, char *text, size_t room)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, prefix, sizeof prefix - 1) != 0 || find(*entry, length)) continue;
        if (index-- > 0) continue;
        const int shown = (int)sg_min((int64_t)length, SG_SPELL_LETTERS);
        snprintf(text, room, "%.*s is not a variable of shingle; nearest is %s", shown, *entry,
                 nearest(*entry, (size_t)shown));
        return true;
    }
    return false;
}
