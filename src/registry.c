/* registry.c -- expands the lists of strategies and backends into tables.  The only file that sees
 * everything; nobody else names a strategy or a backend. */
#include <string.h>

#include "core/backend.h"
#include "core/strategy.h"

#define SG_STRATEGY(name) extern const sg_strategy sg_strategy_##name;
#include "strategy/strategies.h"
#undef SG_STRATEGY

#define SG_BACKEND_ABSENT(name, option)
#define SG_BACKEND(name) extern const sg_backend sg_backend_##name;
#include "backend/backends.h"
#undef SG_BACKEND

#define SG_STRATEGY(name) &sg_strategy_##name,
static const sg_strategy *const strategies[] = {
#include "strategy/strategies.h"
};

#define SG_BACKEND(name) &sg_backend_##name,
static const sg_backend *const backends[] = {
#include "backend/backends.h"
};
#undef SG_BACKEND
#undef SG_BACKEND_ABSENT

#define SG_BACKEND(name)
#define SG_BACKEND_ABSENT(name, option) {#name, option},
static const struct {
    const char *name, *option;
} absent[] = {
#include "backend/backends.h"
    {NULL, NULL},
};

enum {
    STRATEGIES = sizeof strategies / sizeof strategies[0],
    BACKENDS = sizeof backends / sizeof backends[0]
};

const sg_strategy *sg_strategy_at(int index)
{
    return index >= 0 && index < STRATEGIES ? strategies[index] : NULL;
}

const sg_strategy *sg_strategy_find(const char *name)
{
    for (int i = 0; i < STRATEGIES; i++)
        if (strcmp(strategies[i]->name, name) == 0) return strategies[i];
    return NULL;
}

const sg_backend *sg_backend_at(int index)
{
    return index >= 0 && index < BACKENDS ? backends[index] : NULL;
}

const sg_backend *sg_backend_find(const char *name)
{
    for (int i = 0; i < BACKENDS; i++)
        if (strcmp(backends[i]->name, name) == 0) return backends[i];
    return NULL;
}

const char *sg_backend_option(const char *name)
{
    for (int i = 0; absent[i].name != NULL; i++)
        if (strcmp(absent[i].name, name) == 0) return absent[i].option;
    return NULL;
}
